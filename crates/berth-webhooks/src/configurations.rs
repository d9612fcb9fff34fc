//! The webhooks of all configurations of one kind, in memory.

use berth_admission::Webhook;
use berth_api::Object;
use berth_registry::{Content, Resource};
use std::{collections::BTreeMap, sync::Arc};

/// Configurations by name. Upstream calls webhooks in this order, and those of a configuration in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configurations(BTreeMap<String, Vec<Arc<Webhook>>>);

impl Configurations {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the webhooks in the order of calls.
    pub(crate) fn webhooks(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.0.values().flatten()
    }
}

impl Content for Configurations {
    fn put(&mut self, _resource: &Resource, object: &dyn Object) {
        let name = object.meta().name.clone().unwrap_or_default();
        let webhooks: Vec<Arc<Webhook>> = Webhook::of_configuration(&object.to_value()).into_iter().map(Arc::new).collect();
        if webhooks.is_empty() {
            self.0.remove(&name)
        } else {
            self.0.insert(name, webhooks)
        };
    }

    fn remove(&mut self, _resource: &Resource, _namespace: Option<&str>, name: &str) {
        self.0.remove(name);
    }
}
