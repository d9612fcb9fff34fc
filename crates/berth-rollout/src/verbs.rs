//! What is written to pause, resume, restart, promote, undo, scale or give another image: a JSON merge patch each, or why there is nothing to write.
//!
//! A refusal's text follows the workload's name: `deployments.apps "web" is already paused`.

use berth_api::{
    annotations::{BERTH_PROMOTED, BERTH_STEPS, POD_TEMPLATE_HASH, RESTARTED_AT},
    apps::steps::Step,
};
use berth_workloads::{
    deployment::{
        annotations::{BeforeScale, after_rollback},
        steps::StepPosition,
    },
    hash::same_template,
    plan::merge_patch,
    rollback,
    view::{DeploymentView, ReplicaSetView},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why a workload is left as it is. The text follows the workload's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// To pause it changes nothing.
    #[error("is already paused")]
    Paused,
    /// To resume it changes nothing.
    #[error("is not paused")]
    NotPaused,
    /// A pause would hold the restart back.
    #[error("can't restart paused deployment (run rollout resume first)")]
    RestartWhilePaused,
    /// The time of a restart has whole seconds.
    #[error("if restart has already been triggered within the past second, please wait before attempting to trigger another")]
    RestartedThisSecond,
    /// There is nothing to promote to.
    #[error("has no steps: set them in the annotation {BERTH_STEPS}")]
    NoSteps,
    /// The newest template is complete, or no ReplicaSet has it.
    #[error("is at no step: its newest template is not rolling out")]
    AtNoStep,
    /// The step ends by itself.
    #[error("is at step {step} of {of}, which does not wait: its pods are being replaced")]
    StepDoesNotWait {
        /// Counted from 1.
        step: usize,
        /// All steps.
        of: usize,
    },
    /// A pause would hold the rollback back.
    #[error("cannot be rolled back while it is paused; resume it first")]
    RollbackWhilePaused,
    /// To go back changes nothing.
    #[error("already has the template of that revision")]
    SameTemplate,
    /// A size below zero.
    #[error("cannot have fewer than 0 pods")]
    NegativeReplicas,
    /// To scale it changes nothing.
    #[error("already has {0} replicas")]
    SameReplicas(i32),
    /// An image reference is one word.
    #[error("cannot have {0:?} as an image")]
    InvalidImage(String),
    /// The template has no container of this name.
    #[error("has no container {0:?}")]
    NoContainer(String),
    /// To change the image changes nothing.
    #[error("already has {image} in container {container}")]
    SameImage {
        /// The image.
        image: String,
        /// The container's name.
        container: String,
    },
}

/// Holds a Deployment's changes back.
///
/// # Errors
/// It is paused.
pub fn pause(deployment: &Value) -> Result<Value, Refused> {
    match is_paused(deployment) {
        true => Err(Refused::Paused),
        false => Ok(json!({"spec": {"paused": true}})),
    }
}

/// Lets them go.
///
/// # Errors
/// It is not paused.
pub fn resume(deployment: &Value) -> Result<Value, Refused> {
    match is_paused(deployment) {
        true => Ok(json!({"spec": {"paused": null}})),
        false => Err(Refused::NotPaused),
    }
}

/// Changes an annotation of the template, so that every pod is replaced.
///
/// # Errors
/// It is paused, or was restarted within this second.
pub fn restart(workload: &Value, now: Timestamp) -> Result<Value, Refused> {
    if is_paused(workload) {
        return Err(Refused::RestartWhilePaused);
    }
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = workload.pointer("/spec/template/metadata/annotations");
    if annotations.is_some_and(|annotations| annotations[RESTARTED_AT] == at.as_str()) {
        return Err(Refused::RestartedThisSecond);
    }
    Ok(json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}}))
}

/// Ends the wait of a step. What is written names rollout, step and template: it means nothing to any other. `sets` are those that the Deployment controls.
///
/// # Errors
/// It has no steps, or none of them waits.
pub fn promote(deployment: &DeploymentView, sets: &[&ReplicaSetView]) -> Result<Value, Refused> {
    let steps = deployment.choices.steps.as_deref().unwrap_or_default();
    if steps.is_empty() {
        return Err(Refused::NoSteps);
    }
    let newest = sets.iter().find(|set| same_template(&set.template, &deployment.spec.template));
    let Some(newest) = newest.filter(|set| rollback::completed_revision(&set.annotations).is_none()) else {
        return Err(Refused::AtNoStep);
    };
    let position = StepPosition::of(&newest.annotations);
    match steps.get(position.index) {
        Some(Step::Seconds(_) | Step::Pause | Step::Analysis) => {
            Ok(json!({"metadata": {"annotations": {BERTH_PROMOTED: position.promotion(&newest.meta)}}}))
        }
        Some(Step::Percent(_)) | None => Err(Refused::StepDoesNotWait { step: position.index + 1, of: steps.len() }),
    }
}

/// Only Deployments can be.
fn is_paused(workload: &Value) -> bool {
    workload["spec"]["paused"] == true
}

/// Goes back to a revision of a Deployment: template and annotations as the ReplicaSet has them that keeps it. Both objects whole, so that fields of a newer
/// server are not lost.
///
/// # Errors
/// It is paused, or has this template.
pub fn back_to_set(deployment: &Value, set: &Value) -> Result<Value, Refused> {
    if is_paused(deployment) {
        return Err(Refused::RollbackWhilePaused);
    }
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    let annotations = |object: &Value| -> BTreeMap<String, String> {
        let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let (now, kept) = (annotations(deployment), annotations(set));
    let then = after_rollback(&now, &kept, BeforeScale::Managed);
    let mut patch = back_to_template(deployment, &template)?;
    if let Some(annotations) = merge_patch(&now, &then) {
        patch["metadata"] = json!({"annotations": annotations});
    }
    Ok(patch)
}

/// Goes back to a revision of a StatefulSet: the template as the ControllerRevision has it that keeps it.
///
/// # Errors
/// It has this template.
pub fn back_to_revision(stateful_set: &Value, revision: &Value) -> Result<Value, Refused> {
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    back_to_template(stateful_set, &template)
}

fn back_to_template(workload: &Value, template: &Value) -> Result<Value, Refused> {
    let patch = merge_patch(&workload["spec"]["template"], template);
    patch.map(|patch| json!({"spec": {"template": patch}})).ok_or(Refused::SameTemplate)
}

/// Wants so many pods.
///
/// # Errors
/// They are negative, or it wants so many already.
pub fn scale(workload: &Value, replicas: i32) -> Result<Value, Refused> {
    match replicas {
        ..0 => Err(Refused::NegativeReplicas),
        _ if workload["spec"]["replicas"] == replicas => Err(Refused::SameReplicas(replicas)),
        _ => Ok(json!({"spec": {"replicas": replicas}})),
    }
}

/// Gives a container of the template another image. Lists are given whole in a merge patch: it is to be guarded by the resource version.
///
/// # Errors
/// There is no such container, it has this image, or the image has no name.
pub fn set_image(workload: &Value, container: &str, image: &str) -> Result<Value, Refused> {
    if image.is_empty() || image.chars().any(|char| char.is_whitespace() || char.is_control()) {
        return Err(Refused::InvalidImage(image.to_owned()));
    }
    let mut containers = workload["spec"]["template"]["spec"]["containers"].clone();
    let found = containers.as_array_mut().into_iter().flatten().find(|known| known["name"] == container);
    let Some(found) = found else { return Err(Refused::NoContainer(container.to_owned())) };
    if found["image"] == image {
        return Err(Refused::SameImage { image: image.to_owned(), container: container.to_owned() });
    }
    found["image"] = json!(image);
    Ok(json!({"spec": {"template": {"spec": {"containers": containers}}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(image: &str) -> Value {
        json!({
            "metadata": {"name": "web", "annotations": {"deployment.kubernetes.io/revision": "2", "kubernetes.io/change-cause": "new", "note": "x"}},
            "spec": {"replicas": 3, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image, "args": ["a"]}, {"name": "log", "image": "log:1"}], "added": 1},
            }},
        })
    }

    #[test]
    fn going_back_gives_the_template_as_it_was_and_takes_away_what_was_added() {
        let set = json!({
            "metadata": {"annotations": {"deployment.kubernetes.io/revision": "1", "kubernetes.io/change-cause": "old"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "web", "pod-template-hash": "x"}},
                "spec": {"containers": [{"name": "main", "image": "web:1"}], "ofTomorrow": true},
            }},
        });
        let patch = back_to_set(&workload("web:2"), &set).expect("a patch");
        let template = json!({"spec": {"containers": [{"name": "main", "image": "web:1"}], "ofTomorrow": true, "added": null}});
        assert_eq!(patch["spec"]["template"], template);
        assert_eq!(patch["metadata"]["annotations"]["kubernetes.io/change-cause"], "old");
        let mut paused = workload("web:2");
        paused["spec"]["paused"] = json!(true);
        assert_eq!(back_to_set(&paused, &set), Err(Refused::RollbackWhilePaused));
        let revision = json!({"data": {"spec": {"template": {"$patch": "replace", "spec": {}}}}});
        let template = back_to_revision(&json!({"spec": {"template": {"spec": {"a": 1}}}}), &revision).expect("a patch");
        assert_eq!(template, json!({"spec": {"template": {"spec": {"a": null}}}}));
        assert_eq!(back_to_revision(&json!({"spec": {"template": {"spec": {}}}}), &revision), Err(Refused::SameTemplate));
    }

    #[test]
    fn a_size_and_an_image_are_changed_only_where_they_are_others() {
        let web = workload("web:1");
        assert_eq!(scale(&web, 5), Ok(json!({"spec": {"replicas": 5}})));
        assert_eq!((scale(&web, 3), scale(&web, -1)), (Err(Refused::SameReplicas(3)), Err(Refused::NegativeReplicas)));
        let patch = set_image(&web, "main", "web:2").expect("a patch");
        let containers = json!([{"name": "main", "image": "web:2", "args": ["a"]}, {"name": "log", "image": "log:1"}]);
        assert_eq!(patch["spec"]["template"]["spec"]["containers"], containers);
        let same = Refused::SameImage { image: "web:1".to_owned(), container: "main".to_owned() };
        let refused = [
            ("main", "web:1", same),
            ("other", "web:2", Refused::NoContainer("other".to_owned())),
            ("main", "", Refused::InvalidImage(String::new())),
            ("main", "a b", Refused::InvalidImage("a b".to_owned())),
        ];
        for (container, image, why) in refused {
            assert_eq!(set_image(&web, container, image), Err(why));
        }
    }
}
