//! The actions of a user: first a question with the consequences, then the write. Both read the current object, so the
//! write is what the user confirmed, or it fails.

use crate::{board::Card, cluster_cache::ClusterCache, difference::differences, text::number};
use berth_controllers::{ClusterError, RawObject};
use berth_identity::{Generation, ObjectKey, RolloutRevision};
use berth_rollout::verbs::{self, Refused};
use berth_workloads::{
    deployment::annotations,
    resources::{APPS_V1, REPLICA_SETS, REVISIONS},
    view::{DeploymentView, Meta, ReplicaSetView},
    workload::{WorkloadId, WorkloadKind},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt};

/// The maximum number of attempts after conflicts with other writers.
const TRIES_MAX: u32 = 8;

/// An action on a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Promotes: ends the wait of a rollout step.
    Promote,
    /// Rolls back to an earlier revision.
    Undo,
    /// Pauses: changes of the template have no effect.
    Pause,
    /// Resumes after a pause.
    Resume,
    /// Replaces every pod.
    Restart,
    /// Changes the number of pods.
    Scale,
    /// Changes an image.
    SetImage,
}

impl Verb {
    const ALL: [Self; 7] = [Self::Promote, Self::Undo, Self::Pause, Self::Resume, Self::Restart, Self::Scale, Self::SetImage];

    /// Returns the word for a URL.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Undo => "undo",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Scale => "scale",
            Self::SetImage => "set-image",
        }
    }

    /// Parses the result of [`Verb::word`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }

    /// Returns the label of a link or button.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Promote => "Promote",
            Self::Undo => "Undo",
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Restart => "Restart",
            Self::Scale => "Scale",
            Self::SetImage => "Set image",
        }
    }

    /// Returns the message after success.
    #[must_use]
    pub fn done(self) -> &'static str {
        match self {
            Self::Promote => "Promoted: the next step can start.",
            Self::Undo => "Rolled back.",
            Self::Pause => "Paused.",
            Self::Resume => "Resumed.",
            Self::Restart => "Restarted: every pod is replaced.",
            Self::Scale => "Scaled.",
            Self::SetImage => "Image set.",
        }
    }

    /// Returns the actions that apply to a workload in its current state.
    #[must_use]
    pub fn of(kind: WorkloadKind, card: &Card) -> Vec<Self> {
        let has_earlier = card.revision.is_some_and(|revision| RolloutRevision::FIRST < revision);
        let fits = |verb: &Self| match verb {
            Self::Promote => card.waits_at_step,
            Self::Undo => has_earlier && !card.is_paused,
            Self::Pause => kind == WorkloadKind::Deployment && !card.is_paused,
            Self::Resume => kind == WorkloadKind::Deployment && card.is_paused,
            Self::Restart => !card.is_paused,
            // A DaemonSet has a pod on each of its nodes.
            Self::Scale => kind != WorkloadKind::DaemonSet,
            Self::SetImage => true,
        };
        Self::ALL.into_iter().filter(fits).collect()
    }
}

/// The question before an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The consequences, in sentences.
    pub sentences: Vec<String>,
    /// The changes of the template, one per line.
    pub lines: Vec<String>,
    /// The uid of the object. The action changes no other object.
    pub uid: String,
    /// The generation of the object. The action changes no later one.
    pub generation: Generation,
    /// The patch to write.
    pub patch: Value,
}

/// The result of preparing an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// All parameters are known.
    Question(Question),
    /// The number of pods is missing.
    Replicas {
        /// The current number of desired pods.
        now: i64,
    },
    /// The image is missing.
    Image {
        /// Containers with their current images.
        containers: Vec<(String, String)>,
    },
}

/// Why an action is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The API server rejects it, or it does not apply to the workload.
    #[error("{0}")]
    Text(String),
    /// The object changed after the question, or no longer exists.
    #[error("another client has changed it since your preview; check what would happen now")]
    Changed,
}

impl From<ClusterError> for Refusal {
    fn from(error: ClusterError) -> Self {
        Self::Text(error.to_string())
    }
}

/// The parameters of an action: fields of a URL or a form.
pub type ActionFields = BTreeMap<String, String>;

impl ClusterCache {
    /// Returns the question with the consequences.
    ///
    /// # Errors
    /// [`Refusal`]: the action does not apply, or the API server rejects it.
    pub async fn prepare(&self, id: &WorkloadId, verb: Verb, fields: &ActionFields) -> Result<Prepared, Refusal> {
        let (_, object) = self.object(id).await?;
        let mut prepared = self.question(id, verb, fields, &object).await?;
        if let Prepared::Question(question) = &mut prepared
            && verb != Verb::Pause
        {
            question.sentences.extend(self.consequences(id, verb, &object, &question.patch).await);
        }
        Ok(prepared)
    }

    /// Returns the consequences for the pods: a forecast, or otherwise what is certain.
    async fn consequences(&self, id: &WorkloadId, verb: Verb, object: &Value, patch: &Value) -> Vec<String> {
        let Some(forecaster) = self.forecaster.get() else { return certain(id.kind, verb, object) };
        let mut changed = object.clone();
        merge(&mut changed, patch);
        (changed["apiVersion"], changed["kind"]) = (json!(APPS_V1), json!(id.kind.name()));
        match forecaster.forecast(id, changed).await {
            Ok(sentences) => sentences,
            Err(why) => certain(id.kind, verb, object).into_iter().chain([format!("The rest could not be forecast: {why}.")]).collect(),
        }
    }

    /// Executes a confirmed action.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn execute(&self, id: &WorkloadId, verb: Verb, fields: &ActionFields) -> Result<(), Refusal> {
        let asked_about = (fields.get("uid").cloned(), fields.get("generation").and_then(|text| text.parse::<Generation>().ok()));
        for _ in 0..TRIES_MAX {
            let (raw, object) = self.object(id).await?;
            let Prepared::Question(question) = self.question(id, verb, fields, &object).await? else { return Err(Refusal::Changed) };
            if asked_about != (Some(question.uid.clone()), Some(question.generation)) {
                return Err(Refusal::Changed);
            }
            let mut patch = question.patch;
            patch["metadata"]["uid"] = json!(question.uid);
            // A merge patch replaces whole lists, and this one is based on this version.
            patch["metadata"]["resourceVersion"] = json!(raw.revision.to_string());
            match self.cluster.patch(id.kind.resource(), &id.key(), None, patch).await {
                // A status update does not invalidate the confirmed question: the generation is the same.
                Err(ClusterError::Conflict(_)) => (),
                other => return other.map(drop).map_err(Into::into),
            }
        }
        Err(Refusal::Text("other clients keep changing it: try again".to_owned()))
    }

    async fn object(&self, id: &WorkloadId) -> Result<(RawObject, Value), Refusal> {
        let raw = self.cluster.get(id.kind.resource(), &id.key()).await?;
        let raw = raw.ok_or_else(|| Refusal::Text(format!("{} in {} no longer exists", id.title(), id.namespace)))?;
        let object = serde_json::from_slice(&raw.json).map_err(|error| Refusal::Text(error.to_string()))?;
        Ok((raw, object))
    }

    async fn question(&self, id: &WorkloadId, verb: Verb, fields: &ActionFields, object: &Value) -> Result<Prepared, Refusal> {
        let refused = |why: Refused| refused(id, why);
        let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
        let (patch, sentences) = match verb {
            Verb::Pause => (
                only_deployments(id).and_then(|()| verbs::pause(object).map_err(refused)),
                vec![
                    "Changes of its template wait until you resume it.".to_owned(),
                    "Running pods stay, and scaling continues.".to_owned(),
                ],
            ),
            Verb::Resume => (
                only_deployments(id).and_then(|()| verbs::resume(object).map_err(refused)),
                vec!["Changes that waited roll out from now on.".to_owned()],
            ),
            Verb::Restart => (
                verbs::restart(object, self.env.clock.now()).map_err(refused),
                vec!["Only the restart time in the template changes.".to_owned()],
            ),
            Verb::Promote => (self.promote(id), vec!["The wait of this step ends: the next step can start.".to_owned()]),
            Verb::Scale if id.kind == WorkloadKind::DaemonSet => {
                return Err(self::refused(id, "cannot be scaled: it has a pod on each of its nodes"));
            }
            Verb::Scale => {
                let Some(text) = fields.get("replicas").filter(|text| !text.trim().is_empty()) else {
                    return Ok(Prepared::Replicas { now: wanted });
                };
                let replicas: i32 = text.trim().parse().map_err(|_| self::refused(id, format_args!("cannot have {text:?} pods")))?;
                (
                    verbs::scale(object, replicas).map_err(refused),
                    vec![format!("It scales from {} to {}.", pods(wanted), pods(replicas.into()))],
                )
            }
            Verb::SetImage => {
                let (Some(container), Some(image)) =
                    (fields.get("container"), fields.get("image").map(|image| image.trim()).filter(|image| !image.is_empty()))
                else {
                    return Ok(Prepared::Image { containers: containers(object) });
                };
                (verbs::set_image(object, container, image).map_err(refused), Vec::new())
            }
            Verb::Undo => {
                let (number, patch) = self.back(id, fields.get("to"), object).await?;
                (Ok(patch), vec![format!("It rolls back to the template of revision {number}.")])
            }
        };
        let patch = patch?;
        Ok(Prepared::Question(Question {
            sentences,
            lines: patch["spec"].get("template").map(|_| lines(object, &patch)).unwrap_or_default(),
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            generation: Generation(object["metadata"]["generation"].as_i64().unwrap_or_default()),
            patch,
        }))
    }

    fn promote(&self, id: &WorkloadId) -> Result<Value, Refusal> {
        only_deployments(id).map_err(|_| refused(id, "has no steps"))?;
        let deployment = self.deployments.get(&id.key()).ok_or_else(|| refused(id, "no longer exists"))?;
        let sets: Vec<_> = self.sets.read().index().controlled_by(&deployment.meta.uid).cloned().collect();
        verbs::promote(&deployment, &sets.iter().map(|set| &**set).collect::<Vec<_>>()).map_err(|why| refused(id, why))
    }

    /// Returns the revision to roll back to, and the patch.
    async fn back(&self, id: &WorkloadId, to: Option<&String>, object: &Value) -> Result<(RolloutRevision, Value), Refusal> {
        let to = to
            .filter(|to| !to.is_empty())
            .map(|to| to.parse::<RolloutRevision>().map_err(|_| Refusal::Text(format!("{to:?} is not a revision"))))
            .transpose()?;
        let kept = self.kept(id);
        // As `rollout undo`: the revision with the second highest number.
        let chosen = match to {
            Some(to) => kept.iter().find(|(number, _)| **number == to),
            None => kept.iter().rev().nth(1),
        };
        let Some((number, keeper)) = chosen else {
            return Err(Refusal::Text(format!("{} has no such revision to roll back to", id.title())));
        };
        let resource = match id.kind {
            WorkloadKind::Deployment => REPLICA_SETS,
            WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => REVISIONS,
        };
        let raw = self.cluster.get(resource, keeper).await?.ok_or(Refusal::Changed)?;
        let keeper: Value = serde_json::from_slice(&raw.json).map_err(|error| Refusal::Text(error.to_string()))?;
        let patch = match id.kind {
            WorkloadKind::Deployment => verbs::back_to_set(object, &keeper),
            WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => verbs::back_to_revision(object, &keeper),
        };
        Ok((*number, patch.map_err(|why| refused(id, why))?))
    }

    /// Returns the revisions, oldest first, each with the key of its ReplicaSet or ControllerRevision.
    pub fn kept(&self, id: &WorkloadId) -> BTreeMap<RolloutRevision, ObjectKey> {
        match id.kind {
            WorkloadKind::Deployment => {
                let Some(deployment): Option<std::sync::Arc<DeploymentView>> = self.deployments.get(&id.key()) else {
                    return BTreeMap::new();
                };
                let sets = self.sets.read();
                let own = sets.index().controlled_by(&deployment.meta.uid);
                own.filter_map(|set: &std::sync::Arc<ReplicaSetView>| Some((annotations::revision(&set.annotations)?, set.meta.key())))
                    .collect()
            }
            WorkloadKind::StatefulSet => self.stateful_sets.get(&id.key()).map(|set| self.kept_by(&set.meta)).unwrap_or_default(),
            WorkloadKind::DaemonSet => self.daemon_sets.get(&id.key()).map(|set| self.kept_by(&set.meta)).unwrap_or_default(),
        }
    }

    /// Returns the ControllerRevisions of a workload.
    fn kept_by(&self, owner: &Meta) -> BTreeMap<RolloutRevision, ObjectKey> {
        let revisions = self.revisions.read();
        revisions.index().controlled_by(&owner.uid).map(|revision| (revision.number, revision.meta.key())).collect()
    }
}

/// Returns a rejection for a workload.
fn refused(id: &WorkloadId, why: impl fmt::Display) -> Refusal {
    Refusal::Text(format!("{} {why}", id.title()))
}

fn only_deployments(id: &WorkloadId) -> Result<(), Refusal> {
    match id.kind {
        WorkloadKind::Deployment => Ok(()),
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => Err(refused(id, "cannot be paused: it is not a Deployment")),
    }
}

fn pods(count: i64) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

/// Returns the certain consequences of a change, without a forecast.
fn certain(kind: WorkloadKind, verb: Verb, object: &Value) -> Vec<String> {
    let wanted = match kind {
        WorkloadKind::Deployment | WorkloadKind::StatefulSet => object["spec"]["replicas"].as_i64().unwrap_or(1),
        WorkloadKind::DaemonSet => object["status"]["desiredNumberScheduled"].as_i64().unwrap_or(0),
    };
    match verb {
        Verb::Restart | Verb::SetImage => vec![format!("Every pod is replaced ({}), {}.", pods(wanted), manner(kind, object))],
        Verb::Undo => vec![format!("Pods of other templates are replaced, {}.", manner(kind, object))],
        Verb::Promote | Verb::Pause | Verb::Resume | Verb::Scale => Vec::new(),
    }
}

/// Describes how pods are replaced.
fn manner(kind: WorkloadKind, object: &Value) -> String {
    let strategy = match kind {
        WorkloadKind::Deployment => &object["spec"]["strategy"],
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => &object["spec"]["updateStrategy"],
    };
    let rolling = &strategy["rollingUpdate"];
    match (kind, strategy["type"].as_str().unwrap_or("RollingUpdate")) {
        (WorkloadKind::Deployment | WorkloadKind::DaemonSet, "RollingUpdate") => {
            let limit = |name: &str| number(IntOrString::deserialize(&rolling[name]).ok().as_ref());
            format!("with maxSurge {} and maxUnavailable {}", limit("maxSurge"), limit("maxUnavailable"))
        }
        (WorkloadKind::StatefulSet, "RollingUpdate") => "one after the other".to_owned(),
        (_, "Recreate") => "all at once: for a while no pod exists".to_owned(),
        (_, "OnDelete") => "each after its manual deletion".to_owned(),
        (_, other) => format!("as {other} defines"),
    }
}

fn containers(object: &Value) -> Vec<(String, String)> {
    let all = object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|container| (text(&container["name"]), text(&container["image"]))).collect()
}

/// Returns the changes of the template.
fn lines(object: &Value, patch: &Value) -> Vec<String> {
    let template = &object["spec"]["template"];
    let mut then = template.clone();
    merge(&mut then, &patch["spec"]["template"]);
    differences(template, &then).iter().map(ToString::to_string).collect()
}

/// Applies a merge patch (RFC 7396).
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(object) = object.as_object_mut() else { return };
    for (key, member) in members {
        if member.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key).or_insert(Value::Null), member);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_states_how_pods_are_replaced() {
        let deployment = |strategy: Value| manner(WorkloadKind::Deployment, &json!({"spec": {"strategy": strategy}}));
        assert_eq!(
            deployment(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}})),
            "with maxSurge 25% and maxUnavailable 1"
        );
        assert_eq!(deployment(json!({"type": "Recreate"})), "all at once: for a while no pod exists");
        assert_eq!(
            manner(WorkloadKind::StatefulSet, &json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})),
            "each after its manual deletion"
        );
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}});
        let daemon_set = json!({"spec": {"updateStrategy": strategy}, "status": {"desiredNumberScheduled": 3}});
        assert_eq!(
            certain(WorkloadKind::DaemonSet, Verb::Restart, &daemon_set),
            ["Every pod is replaced (3 pods), with maxSurge 0 and maxUnavailable 10%."]
        );
    }

    #[test]
    fn what_changes_in_the_template_is_shown_before_it_is_written() {
        let object = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:1"}], "old": true}}}});
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "<web:2>"}], "old": null}}}});
        assert_eq!(lines(&object, &patch), ["  spec.containers[main].image: web:1 -> <web:2>", "- spec.old: true"]);
    }
}
