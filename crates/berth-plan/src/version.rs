//! One version of an object, as the store shows it.

use berth_api::Object;
use berth_controllers::RawObject;
use berth_identity::Revision;
use berth_store::{Entry, Event};
use berth_workloads::view::View;
use std::sync::Arc;

/// A change of the store.
pub(crate) struct Changed {
    pub(crate) event: Arc<Event>,
    /// The object that it gives its key, where that was just written.
    pub(crate) object: Option<Arc<dyn Object>>,
}

/// One version of an object.
pub(crate) struct Version<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) object: Option<&'a Arc<dyn Object>>,
}

impl Changed {
    pub(crate) fn version(&self) -> Version<'_> {
        Version { entry: &self.event.entry, object: self.object.as_ref() }
    }
}

impl Version<'_> {
    /// What somebody reads of it. `None`: it cannot be read; what the API rules have let in can be.
    pub(crate) fn view<V: View>(&self) -> Option<V> {
        RawObject { object: self.object.cloned(), ..RawObject::new(self.entry.value.clone(), Revision(0)) }.view().ok()
    }
}
