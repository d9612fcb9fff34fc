//! One version of an object, as stored.

use berth_api::Object;
use berth_controllers::RawObject;
use berth_identity::Revision;
use berth_store::{Entry, Event};
use berth_workloads::view::View;
use std::sync::Arc;

/// A change of the store.
pub(crate) struct Changed {
    pub(crate) event: Arc<Event>,
    /// The new object of its key, if it was just written.
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
    /// Decodes a view. `None` if that fails, which objects that passed the API rules never do.
    pub(crate) fn view<V: View>(&self) -> Option<V> {
        RawObject { object: self.object.cloned(), ..RawObject::new(self.entry.value.clone(), Revision(0)) }.view().ok()
    }
}
