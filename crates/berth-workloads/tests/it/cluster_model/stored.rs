//! Objects of a model cluster, and what plans read in them.

use berth_identity::Revision;
use berth_workloads::view::View;
use serde_json::Value;
use std::{
    any::Any,
    cell::RefCell,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// An object and its resource version.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) json: Json,
    /// Raised by every write.
    pub(crate) revision: Revision,
}

impl Stored {
    pub(crate) fn new(json: Value, revision: Revision) -> Self {
        Self { json: Json { value: json, read: RefCell::default() }, revision }
    }

    /// The object as plans see it. It is decoded once after each change, as informers do.
    pub(crate) fn view<V: View>(&self) -> Arc<V> {
        let mut read = self.json.read.borrow_mut();
        let known = read.as_ref().filter(|(revision, _)| *revision == self.revision).map(|(_, view)| Arc::clone(view));
        known.and_then(|view| view.downcast().ok()).unwrap_or_else(|| {
            let bytes = self.json.value.to_string().into_bytes();
            let view: Arc<V> = Arc::new(V::decode(&bytes, self.revision).expect("an object of this kind"));
            *read = Some((self.revision, Arc::<V>::clone(&view)));
            view
        })
    }
}

/// An object's JSON. Whatever borrows it to change it has it decoded again.
#[derive(Clone)]
pub(crate) struct Json {
    value: Value,
    read: RefCell<Option<(Revision, Arc<dyn Any + Send + Sync>)>>,
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl DerefMut for Json {
    fn deref_mut(&mut self) -> &mut Value {
        self.read.get_mut().take();
        &mut self.value
    }
}
