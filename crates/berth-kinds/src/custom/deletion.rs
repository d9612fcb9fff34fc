//! The deletion of a definition. Its objects are deleted before it.
//!
//! Source: upstream `apiextensions-apiserver/pkg/registry/customresourcedefinition/etcd.go`, `Delete`.

use super::status::{CLEANUP_FINALIZER, Termination, with_condition};
use crate::Content;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Adds the finalizer that keeps a definition until its objects are deleted, and the condition `Terminating`. Only the first deletion does.
pub fn begin_deletion(definition: &mut Content, now: &Time) {
    if definition.meta.deletion_timestamp.is_some() {
        return;
    }
    // Unlike other deletions, this one does not increment the generation, which is that of the served resource.
    definition.meta.deletion_timestamp = Some(now.clone());
    let finalizers = definition.meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
    if let Some(status) = with_condition(definition.members(), &Termination::Requested.condition(), now) {
        definition.members_mut().insert("status".to_owned(), status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::{Map, json};

    #[test]
    fn only_the_first_deletion_marks_a_definition() {
        let at = |text: &str| Time(text.parse().expect("a time"));
        let first = at("2026-01-01T00:00:00Z");
        let meta = ObjectMeta { finalizers: Some(vec!["e.com/own".to_owned()]), generation: Some(3), ..ObjectMeta::default() };
        let mut definition = Content::new(meta, Map::new());
        begin_deletion(&mut definition, &first);
        let finalizers = definition.meta.finalizers.clone().unwrap_or_default();
        assert_eq!(finalizers, ["e.com/own", CLEANUP_FINALIZER]);
        assert_eq!((definition.meta.deletion_timestamp.clone(), definition.meta.generation), (Some(first), Some(3)));
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let wanted = json!([{"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        assert_eq!(definition.members()["status"]["conditions"], wanted);
        let marked = definition.clone();
        begin_deletion(&mut definition, &at("2026-01-01T00:00:09Z"));
        assert_eq!(definition, marked);
    }
}
