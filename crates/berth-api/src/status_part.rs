//! A part of an object's status, as whoever reports it has it.

use crate::Object;
use serde_json::{Map, Value, json};

/// Members of an object's status that are to be replaced. As a merge patch, without the detour over a tree.
#[derive(Debug)]
pub struct StatusPart {
    /// Of which object: its name and namespace, its uid, its resource version if only that one is meant, and what the members are to be.
    pub object: Box<dyn Object>,
    /// Which members of the status, by their names on the wire. Those that the object lacks go.
    pub members: &'static [&'static str],
}

impl StatusPart {
    /// The JSON merge patch that does the same.
    #[must_use]
    pub fn to_patch(&self) -> Value {
        let mut object = self.object.to_value();
        let mut member = |name: &&str| ((*name).to_owned(), object["status"][*name].take());
        let status: Map<String, Value> = self.members.iter().map(&mut member).collect();
        let meta = self.object.meta();
        let mut metadata = json!({"uid": meta.uid.as_deref().unwrap_or_default()});
        if let Some(version) = &meta.resource_version {
            metadata["resourceVersion"] = version.as_str().into();
        }
        Value::Object([("metadata".to_owned(), metadata), ("status".to_owned(), Value::Object(status))].into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Pod, PodStatus};

    #[test]
    fn as_a_patch_it_names_its_members_and_no_others() {
        let mut pod = Pod::default();
        pod.metadata.uid = Some("u".to_owned());
        pod.status = Some(PodStatus { phase: Some("Running".to_owned()), message: Some("m".to_owned()), ..PodStatus::default() });
        let part = |pod: &Pod| StatusPart { object: Box::new(pod.clone()), members: &["phase", "podIP"] };
        let status = json!({"phase": "Running", "podIP": null});
        assert_eq!(part(&pod).to_patch(), json!({"metadata": {"uid": "u"}, "status": status}));
        pod.metadata.resource_version = Some("7".to_owned());
        assert_eq!(part(&pod).to_patch(), json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": status}));
    }
}
