//! The ConfigMaps and Secrets that the workloads of a change reference, and those that the change applies.

use crate::{change::Change, snapshot::Snapshot};
use berth_api::k8s_openapi::api::core::v1::PodSpec;
use berth_identity::{GroupResource, ObjectKey};
use berth_node::kubelet::{self, KnownObject, KnownObjects};
use berth_workloads::resources::{CONFIG_MAPS, SECRETS};
use serde_json::Value;
use std::collections::BTreeSet;

impl Change {
    /// The ConfigMaps and Secrets that pods of the changed workloads need to start. A caller reads them and adds them to
    /// [`crate::Suppositions`].
    #[must_use]
    pub fn references(&self, snapshot: &Snapshot) -> BTreeSet<(GroupResource, ObjectKey)> {
        let edited = self.edits.iter().filter_map(|edit| {
            let meta = |object: &Value| {
                object["metadata"]["namespace"] == *edit.workload.namespace && object["metadata"]["name"] == *edit.workload.name
            };
            let is_it = |object: &&Value| object["kind"] == edit.workload.kind.name() && meta(object);
            Some((&*edit.workload.namespace, snapshot.objects.iter().find(is_it)?))
        });
        let applied = self.manifests.iter().map(|manifest| (self.namespace_of(manifest), manifest));
        edited.chain(applied).flat_map(|(namespace, workload)| of_template(namespace, &workload["spec"]["template"]["spec"])).collect()
    }

    /// `known`, and the ConfigMaps and Secrets that the change applies.
    pub(crate) fn with_applied(&self, known: &KnownObjects) -> KnownObjects {
        let mut all = known.clone();
        for manifest in &self.manifests {
            let resource = match manifest["kind"].as_str() {
                Some("ConfigMap") => CONFIG_MAPS,
                Some("Secret") => SECRETS,
                _ => continue,
            };
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            let key = (resource, ObjectKey::new(self.namespace_of(manifest), name));
            match all.get_mut(&key) {
                Some(KnownObject::Keys(keys)) => keys.extend(keys_of(manifest)),
                Some(missing @ KnownObject::Missing) => *missing = KnownObject::Keys(keys_of(manifest).collect()),
                // The other keys of the existing object are unknown.
                Some(KnownObject::Exists) | None => (),
            }
        }
        all
    }
}

fn keys_of(object: &Value) -> impl Iterator<Item = String> + '_ {
    ["data", "binaryData", "stringData"].into_iter().filter_map(|member| object[member].as_object()).flatten().map(|(key, _)| key.clone())
}

fn of_template(namespace: &str, spec: &Value) -> Vec<(GroupResource, ObjectKey)> {
    let Ok(spec) = serde_json::from_value::<PodSpec>(spec.clone()) else { return Vec::new() };
    kubelet::required_objects(spec).into_iter().map(|(resource, name)| (resource, ObjectKey::new(namespace, &name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Edit, Edits};
    use berth_workloads::workload::{WorkloadId, WorkloadKind};
    use serde_json::json;

    fn workload(name: &str, config_map: &str) -> Value {
        let container = json!({"name": "main", "image": "i", "envFrom": [{"configMapRef": {"name": config_map}}]});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}, "spec": {"template": {"spec": {"containers": [container]}}}})
    }

    #[test]
    fn the_objects_are_those_of_the_workloads_that_change() {
        let snapshot = Snapshot::of_documents([workload("web", "settings"), workload("other", "unused")]);
        let edit = Edit { workload: WorkloadId::new(WorkloadKind::Deployment, "shop", "web"), edits: Edits::default() };
        let mut change = Change { edits: vec![edit], manifests: vec![workload("new", "more")], ..Change::default() };
        let named = |change: &Change| change.references(&snapshot).into_iter().map(|(_, key)| key.name.to_string()).collect::<Vec<_>>();
        assert_eq!(named(&change), ["more", "settings"]);
        change.edits.clear();
        assert_eq!(named(&change), ["more"]);
    }

    #[test]
    fn what_the_change_applies_is_there() {
        let config_map = json!({"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}, "data": {"b": "1"}});
        let change = Change { manifests: vec![config_map], ..Change::default() };
        let key = (CONFIG_MAPS, ObjectKey::new("shop", "settings"));
        let with =
            |known: Option<KnownObject>| change.with_applied(&known.map(|known| (key.clone(), known)).into_iter().collect()).remove(&key);
        let keys = |keys: &[&str]| Some(KnownObject::Keys(keys.iter().map(|key| (*key).to_owned()).collect()));
        assert_eq!(with(Some(KnownObject::Missing)), keys(&["b"]));
        assert_eq!(with(keys(&["a"])), keys(&["a", "b"]));
        assert_eq!(with(None), None);
    }
}
