//! A part of an object's status, in the form that its reporter has.

use crate::Object;
use serde_json::{Map, Value, json};

/// Members of an object's status to replace. It has the effect of a merge patch, without a JSON tree.
#[derive(Debug)]
pub struct StatusPart {
    /// The object: its name, namespace and uid, its resource version if the write requires it, and the new members.
    pub object: Box<dyn Object>,
    /// The names of the members on the wire. Members that are missing in the object are removed.
    pub members: &'static [&'static str],
}

impl StatusPart {
    /// Returns the JSON merge patch with the same effect.
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
