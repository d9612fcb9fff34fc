//! The evidence of a cause and what comes next, from objects that were already read.

use super::{Evidence, Next};
use berth_registry::table::age;
use berth_workloads::{
    Wait,
    cause::{Obstacle, misfits},
    job::expires_at,
    view::{ContainerRole, ContainerSymptom, DeploymentView, EventView, JobView, PodView},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ResourceQuota;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// How many events are shown, of all that are about the same objects. The newest are shown.
const EVENTS_MAX: usize = 5;

/// A condition of an object of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<Timestamp>,
}

/// `status.conditions` of an object.
pub(super) fn conditions(json: &str) -> Vec<Condition> {
    let object: Value = serde_json::from_str(json).unwrap_or_default();
    serde_json::from_value(object["status"]["conditions"].clone()).unwrap_or_default()
}

/// What was read besides the object itself. A part that could not be read is empty.
#[derive(Default)]
pub(super) struct Around {
    pub(super) pods: Vec<Arc<PodView>>,
    pub(super) events: Vec<Arc<EventView>>,
    pub(super) quotas: Vec<ResourceQuota>,
    /// The ResourceClaims of pods without a node, by the pods' names.
    pub(super) claimed: BTreeMap<String, Vec<String>>,
    /// The finalizers of terminating claims, by the claims' names.
    pub(super) held_claims: BTreeMap<String, String>,
}

/// The finalizers of a terminating object. `None` if it is not terminating, or has none.
pub(super) fn holders(object: &str) -> Option<String> {
    let object: Value = serde_json::from_str(object).ok()?;
    let metadata = &object["metadata"];
    let names: Vec<&str> = metadata["finalizers"].as_array()?.iter().filter_map(Value::as_str).collect();
    (metadata["deletionTimestamp"].is_string() && !names.is_empty()).then(|| names.join(", "))
}

/// The ResourceClaims that a pod without a node references, directly or by template.
pub(super) fn claimed(pod: &str) -> Vec<String> {
    let pod: Value = serde_json::from_str(pod).unwrap_or_default();
    if pod["spec"]["nodeName"].is_string() {
        return Vec::new();
    }
    let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let named = entries(&pod["spec"]["resourceClaims"]).into_iter().chain(entries(&pod["status"]["resourceClaimStatuses"]));
    named.filter_map(|claim| claim["resourceClaimName"].as_str().map(str::to_owned)).collect()
}

/// The evidence of the first obstacle. `objects` are those that it may be about, by uid: `deployment/web`, its sets.
pub(super) fn evidence(
    first: &Obstacle,
    around: &Around,
    title: &str,
    conditions: &[Condition],
    mut objects: BTreeMap<String, String>,
) -> Vec<Evidence> {
    let mut shown = Vec::new();
    let pod = named_pod(first).and_then(|name| around.pods.iter().find(|pod| *pod.meta.name == *name));
    if let Some(pod) = pod {
        objects.insert(pod.meta.uid.to_string(), format!("pod/{}", pod.meta.name));
        shown.extend(of_containers(pod));
        shown.extend(of_nodes(pod));
    }
    if let Obstacle::Wait(Wait::ClaimLeaving { claim, .. }) = first {
        let held = around.held_claims.get(claim).map(|holders| format!("it is being deleted, and its finalizers hold it: {holders}"));
        let object = format!("persistentvolumeclaim/{claim}");
        shown.extend(held.map(|text| Evidence { source: "claim", object, text, at: None }));
    }
    if first.reason() == "quota" {
        shown.extend(of_quotas(first, &around.quotas));
    }
    shown.extend(conditions.iter().filter(|condition| is_problem(condition)).map(|condition| of_condition(title, condition)));
    shown.extend(of_events(&around.events, &objects));
    shown
}

fn named_pod(obstacle: &Obstacle) -> Option<&str> {
    match obstacle {
        Obstacle::Cause(cause) if cause.about.kind == "Pod" => Some(&cause.about.name),
        Obstacle::Cause(_) | Obstacle::Wait(_) => None,
    }
}

/// The waiting and termination reasons of its containers.
fn of_containers(pod: &PodView) -> impl Iterator<Item = Evidence> {
    let object = format!("pod/{}", pod.meta.name);
    let containers = pod.symptoms.iter().flat_map(|symptoms| &symptoms.containers);
    containers.map(move |container| Evidence { source: "container", object: object.clone(), text: of_container(container), at: None })
}

fn of_container(container: &ContainerSymptom) -> String {
    let ContainerSymptom { name, role, waiting, ended, restarts, running_since } = container;
    let role = match role {
        ContainerRole::Init => "init container ",
        ContainerRole::Main => "",
    };
    let said = |reason: &str, message: &str| match (reason, message) {
        ("", "") => String::new(),
        (text, "") | ("", text) => format!(": {text}"),
        (reason, message) => format!(": {reason}: {message}"),
    };
    let mut parts = Vec::new();
    parts.extend(waiting.iter().map(|waiting| format!("waits{}", said(&waiting.reason, &waiting.message))));
    parts.extend(running_since.map(|_| "runs and is not ready".to_owned()));
    parts.extend(ended.iter().map(|end| format!("ended with exit code {}{}", end.exit_code, said(&end.reason, end.message.trim_end()))));
    parts.extend((*restarts > 0).then(|| format!("restarts: {restarts}")));
    format!("{role}{name} {}", parts.join("; "))
}

/// The number of nodes for each scheduling failure.
fn of_nodes(pod: &PodView) -> impl Iterator<Item = Evidence> {
    let said = pod.symptoms.as_ref().and_then(|symptoms| symptoms.unscheduled.as_ref());
    let counted = said.into_iter().flat_map(|said| misfits(&said.message));
    let text = |(nodes, lack): (u64, &str)| format!("{nodes} node{}: {lack}", if nodes == 1 { "" } else { "s" });
    let object = format!("pod/{}", pod.meta.name);
    counted.map(text).map(move |text| Evidence { source: "nodes", object: object.clone(), text, at: None }).collect::<Vec<_>>().into_iter()
}

/// The figures of the quota that the error names, otherwise of all quotas.
fn of_quotas(obstacle: &Obstacle, quotas: &[ResourceQuota]) -> Vec<Evidence> {
    let Obstacle::Cause(cause) = obstacle else { return Vec::new() };
    let is_named = |quota: &&ResourceQuota| {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        cause.evidence.split("quota: ").skip(1).any(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with([',', ':'])))
    };
    let named: Vec<_> = quotas.iter().filter(is_named).collect();
    let shown = if named.is_empty() { quotas.iter().collect() } else { named };
    shown.into_iter().filter_map(of_quota).collect()
}

fn of_quota(quota: &ResourceQuota) -> Option<Evidence> {
    let status = quota.status.as_ref()?;
    let (hard, used) = (status.hard.as_ref()?, status.used.as_ref());
    let figure = |(resource, hard): (&String, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
        let used = used.and_then(|used| used.get(resource)).map_or("?", |used| &used.0);
        format!("{resource}: {used} of {}", hard.0)
    };
    let text = hard.iter().map(figure).collect::<Vec<_>>().join(", ");
    Some(Evidence { source: "quota", object: quota.metadata.name.clone().unwrap_or_default(), text, at: None })
}

/// Whether a condition reports a problem. Healthy conditions are not shown.
fn is_problem(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        "Available" | "Progressing" | "Ready" | "PodScheduled" => condition.status != "True",
        "ReplicaFailure" | "DisruptionTarget" | "Failed" | "FailureTarget" => condition.status == "True",
        _ => false,
    }
}

fn of_condition(title: &str, condition: &Condition) -> Evidence {
    let Condition { type_, status, reason, message, last_transition_time } = condition;
    let said = [reason, message].into_iter().flatten().filter(|text| !text.is_empty()).map(|text| format!(": {text}"));
    Evidence {
        source: "condition",
        object: title.to_owned(),
        text: format!("{type_} is {status}{}", said.collect::<String>()),
        at: *last_transition_time,
    }
}

/// The newest warnings about these objects.
fn of_events(events: &[Arc<EventView>], objects: &BTreeMap<String, String>) -> Vec<Evidence> {
    let mut about: Vec<_> = events.iter().filter_map(|event| Some((event, objects.get(event.about_uid.as_str())?))).collect();
    about.sort_by_key(|(event, _)| std::cmp::Reverse(event.last));
    let mut shown: Vec<Evidence> = Vec::new();
    for (event, object) in about {
        let text = format!("{}: {}", event.reason, event.message);
        // Repeated events are shown once.
        if !shown.iter().any(|shown| shown.object == *object && shown.text == text) {
            shown.push(Evidence { source: "event", object: object.clone(), text, at: event.last });
        }
    }
    shown.truncate(EVENTS_MAX);
    shown
}

/// When a Job that has not finished fails because of its deadline.
pub(super) fn job_deadline(job: &JobView, now: Timestamp) -> Option<Next> {
    let seconds = job.spec.active_deadline_seconds.filter(|_| job.spec.suspend != Some(true))?;
    let at = job.status.start_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    let text =
        format!("its deadline of {seconds}s is over in {}s: then it fails, unless it is complete", at.duration_since(now).as_secs().max(0));
    Some(Next { text, at: Some(at) })
}

/// When a Job that has finished is deleted.
pub(super) fn job_expiry(job: &JobView, now: Timestamp) -> Option<Next> {
    let at = expires_at(job)?;
    let text = format!("it is deleted in {}s (ttlSecondsAfterFinished)", at.duration_since(now).as_secs().max(0));
    Some(Next { text, at: Some(at) })
}

/// When the next time of a CronJob is due.
pub(super) fn next_time(at: Timestamp, now: Timestamp) -> Next {
    Next { text: format!("its next time is {at}, in {}", age::of_seconds(at.duration_since(now).as_secs().max(0))), at: Some(at) }
}

/// What will happen to a Deployment's rollout that makes no progress.
pub(super) fn deadline(deployment: &DeploymentView, now: Timestamp) -> Option<Next> {
    let seconds = deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX && !deployment.spec.paused)?;
    let condition = deployment.status.conditions.iter().flatten().find(|condition| condition.type_ == "Progressing")?;
    let over = "the progress deadline is over, so `rollout status` fails. The controller continues to try";
    match condition.reason.as_deref() {
        Some("ProgressDeadlineExceeded") => Some(Next { text: over.to_owned(), at: None }),
        // While a step waits, the deadline is suspended.
        Some("NewReplicaSetAvailable" | "StepWaiting") => None,
        _ => {
            let end = condition.last_update_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds.into())).ok()?;
            let text = match end > now {
                true => {
                    let left = age::of_seconds(end.duration_since(now).as_secs());
                    format!("the progress deadline of {seconds}s is over in {left}, unless a pod makes progress")
                }
                false => over.to_owned(),
            };
            Some(Next { text, at: (end > now).then_some(end) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::{
        cause::{About, Cause, Kind},
        view::View,
    };
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).expect("in range")
    }

    fn texts(shown: &[Evidence]) -> Vec<String> {
        shown.iter().map(|Evidence { source, object, text, .. }| format!("{source} {object}: {text}")).collect()
    }

    fn cause(kind: Kind, about: &'static str, name: &str, evidence: &str) -> Obstacle {
        Obstacle::Cause(Cause { kind, pods: 1, about: About { kind: about, name: name.to_owned() }, evidence: evidence.to_owned() })
    }

    fn pod(status: &Value) -> Arc<PodView> {
        let object = json!({"metadata": {"name": "web-1", "uid": "p"}, "spec": {"nodeName": "n1"}, "status": status});
        Arc::new(PodView::decode(object.to_string().as_bytes(), Revision(1)).expect("a pod"))
    }

    fn event(uid: &str, second: i64, message: &str) -> Arc<EventView> {
        Arc::new(EventView {
            about_uid: uid.into(),
            reason: "Failed".to_owned(),
            message: message.to_owned(),
            last: Some(at(second)),
            claim: None,
        })
    }

    #[test]
    fn a_crash_is_shown_by_its_containers_conditions_and_newest_events() {
        let end = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let main = json!({"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}, "lastState": end});
        let events: Vec<_> = (0..9).map(|second| event("p", second, &format!("{}", second / 2))).collect();
        let other = [event("other", 99, "no"), event("d", 20, "of the deployment")];
        let around = Around {
            pods: vec![pod(&json!({"phase": "Running", "containerStatuses": [main]}))],
            events: events.into_iter().chain(other).collect(),
            ..Around::default()
        };
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "Why", "message": "so", "lastTransitionTime": null});
        let all = [condition("Available", "False"), condition("Progressing", "True"), condition("ReplicaFailure", "False")];
        let conditions = conditions(&json!({"status": {"conditions": all}}).to_string());
        let objects = BTreeMap::from([("d".to_owned(), "deployment/web".to_owned())]);
        let shown = evidence(&cause(Kind::Crash, "Pod", "web-1", ""), &around, "deployment/web", &conditions, objects);
        let wanted = [
            "container pod/web-1: main waits: CrashLoopBackOff: back-off 20s; ended with exit code 137: OOMKilled; restarts: 3",
            "condition deployment/web: Available is False: Why: so",
            "event deployment/web: Failed: of the deployment",
            "event pod/web-1: Failed: 4",
            "event pod/web-1: Failed: 3",
            "event pod/web-1: Failed: 2",
            "event pod/web-1: Failed: 1",
        ];
        assert_eq!(texts(&shown), wanted);
        assert_eq!(shown.last().and_then(|shown| shown.at), Some(at(3)), "when it was said last");
    }

    #[test]
    fn the_finalizers_that_hold_a_claim_are_shown() {
        let claim = |deleted: bool| {
            let metadata =
                json!({"finalizers": ["kubernetes.io/pvc-protection", "example.com/hold"], "deletionTimestamp": deleted.then(|| at(0))});
            holders(&json!({"metadata": metadata}).to_string())
        };
        assert_eq!((claim(true).as_deref(), claim(false)), (Some("kubernetes.io/pvc-protection, example.com/hold"), None));
        let around = Around { held_claims: BTreeMap::from([("data-db-1".to_owned(), "example.com/hold".to_owned())]), ..Around::default() };
        let wait = Obstacle::Wait(Wait::ClaimLeaving { claim: "data-db-1".to_owned(), pod: "db-1".to_owned() });
        let shown = evidence(&wait, &around, "statefulset/db", &[], BTreeMap::new());
        assert_eq!(
            texts(&shown),
            ["claim persistentvolumeclaim/data-db-1: it is being deleted, and its finalizers hold it: example.com/hold"]
        );
    }

    #[test]
    fn a_pod_names_the_resource_claims_that_it_waits_for() {
        let pod = |node: Value| {
            let spec = json!({"nodeName": node, "resourceClaims": [{"name": "a", "resourceClaimName": "gpu"}, {"name": "b", "resourceClaimTemplateName": "t"}]});
            claimed(&json!({"spec": spec, "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "web-b"}]}}).to_string())
        };
        assert_eq!((pod(Value::Null), pod(json!("n1"))), (vec!["gpu".to_owned(), "web-b".to_owned()], vec![]));
    }

    #[test]
    fn nodes_are_counted_by_what_they_lack() {
        let message = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}.";
        let unscheduled = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        let around = Around { pods: vec![pod(&json!({"phase": "Pending", "conditions": [unscheduled]}))], ..Around::default() };
        let shown = evidence(&cause(Kind::UnschedulableTaint, "Pod", "web-1", message), &around, "pod/web-1", &[], BTreeMap::new());
        assert_eq!(
            texts(&shown),
            ["nodes pod/web-1: 1 node: Insufficient cpu", "nodes pod/web-1: 2 nodes: node(s) had untolerated taint {a: b}"]
        );
    }

    #[test]
    fn the_figures_of_the_quota_that_refuses_are_shown() {
        let quota = |name: &str| -> ResourceQuota {
            let status = json!({"hard": {"pods": "2", "cpu": "4"}, "used": {"pods": "2"}});
            serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).expect("a quota")
        };
        let around = Around { quotas: vec![quota("few"), quota("fewer")], ..Around::default() };
        let shown = |evidence_: &str| {
            texts(&evidence(&cause(Kind::Quota, "ReplicaSet", "web-1", evidence_), &around, "deployment/web", &[], BTreeMap::new()))
        };
        let (few, fewer) = ("quota few: cpu: ? of 4, pods: 2 of 2", "quota fewer: cpu: ? of 4, pods: 2 of 2");
        assert_eq!(shown("exceeded quota: few, requested: pods=1"), [few]);
        assert_eq!(shown("failed quota: fewer: must specify limits.cpu"), [fewer]);
        assert_eq!(shown("in unknown words"), [few, fewer]);
    }

    #[test]
    fn the_progress_deadline_is_shown_while_it_runs() {
        let told = |reason: &str, paused: bool, second: i64| {
            let condition = json!({"type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": at(0)});
            let object = json!({
                "metadata": {"name": "web"}, "spec": {"progressDeadlineSeconds": 600, "paused": paused, "template": {}}, "status": {"conditions": [condition]},
            });
            let deployment = DeploymentView::decode(object.to_string().as_bytes(), Revision(1)).expect("a Deployment");
            deadline(&deployment, at(second))
        };
        let soon = told("ReplicaSetUpdated", false, 540).expect("it runs");
        assert_eq!(
            (soon.text.as_str(), soon.at),
            ("the progress deadline of 600s is over in 60s, unless a pod makes progress", Some(at(600)))
        );
        assert!(told("ReplicaSetUpdated", false, 601).is_some_and(|next| next.text.starts_with("the progress deadline is over")));
        assert!(told("ProgressDeadlineExceeded", false, 1).is_some_and(|next| next.at.is_none()));
        assert_eq!((told("NewReplicaSetAvailable", false, 1), told("ReplicaSetUpdated", true, 1)), (None, None));
    }
}
