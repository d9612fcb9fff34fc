//! The table of rules about a pod's own status, and about events that concern it.

use super::{About, Cause, Kind, scheduling};
use crate::view::{ContainerRole, ContainerSymptom, EventView, PodPhase, PodView, ReasonMessage, Symptoms};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// How long a pod may run without being ready before it is reported: a probe needs several attempts.
const READY_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// How long a pod may take from binding to its first container: pulling images and attaching volumes takes time.
const STARTED_WITHIN: SignedDuration = SignedDuration::from_secs(30);
/// How long a scheduler may take until it reports on a pod.
const SCHEDULED_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// How long the volumes of a new pod may take until they count as missing. Claims are bound, and volumes provisioned, after the first
/// scheduling attempt.
const VOLUMES_WITHIN: SignedDuration = SignedDuration::from_secs(5);
/// How long before a pod's condition its node's event may be recorded.
const NODE_EVENT_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// How long a pod may exist after its grace period: its node needs time to report the end.
const GONE_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// The waiting reasons of containers with an image problem. Source: kubernetes `pkg/kubelet/images/types.go`.
const IMAGE_REASONS: [&str; 7] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// The waiting reasons of containers that cannot be created. Source: kubernetes `pkg/kubelet/kuberuntime/kuberuntime_container.go`,
/// `pkg/kubelet/container/sync_result.go`.
const CONFIG_REASONS: [&str; 9] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "CreatePodSandboxError",
    "ConfigPodSandboxError",
    "PostStartHookError",
    "PreCreateHookError",
    "PreStartHookError",
    "RunContainerError",
    "RunInitContainerError",
];

/// The waiting reason of a container that has ended too often.
const CRASH_REASON: &str = "CrashLoopBackOff";

/// The number of characters of a termination message that are reported. The message can have 4096 bytes.
const LAST_WORDS_MAX: usize = 300;

/// A node's warnings about a pod's volumes.
const VOLUME_EVENTS: [&str; 3] = ["FailedAttachVolume", "FailedMapVolume", "FailedMount"];

/// A pod and the warnings about it, newest first.
pub(super) struct Case<'a> {
    pub(super) pod: &'a PodView,
    pub(super) events: &'a [&'a EventView],
    /// The newest warnings about claims of its namespace, by the claims' names.
    pub(super) of_claims: &'a BTreeMap<&'a str, &'a EventView>,
}

/// The result of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    pub(super) evidence: String,
    /// When the finding becomes a cause. Before, it is normal.
    pub(super) counts_from: Timestamp,
}

impl Finding {
    fn now(kind: Kind, evidence: String) -> Self {
        Self { kind, evidence, counts_from: Timestamp::MIN }
    }

    fn after(kind: Kind, evidence: String, since: Timestamp, patience: SignedDuration) -> Self {
        Self { kind, evidence, counts_from: since.checked_add(patience).unwrap_or(Timestamp::MAX) }
    }
}

type Rule = fn(&Case<'_>, &Symptoms) -> Option<Finding>;

/// What prevents a pod from being ready, by rank of the kinds. The first finding that counts is the pod's cause.
const COMING: [Rule; 10] =
    [image, container_config, crash, failed, node_lost, not_ready, unschedulable, volume, not_started, not_scheduled];
/// Why a provisioner creates no volume for a claim.
const PROVISIONING_FAILED: &str = "ProvisioningFailed";
/// What delays the deletion of a pod.
const GOING: [Rule; 2] = [finalizer, overdue];

static SILENT: Symptoms =
    Symptoms { containers: Vec::new(), unscheduled: None, scheduled_since: None, unready: None, failed: None, finalizers: Vec::new() };

/// The findings of all rules, by rank.
pub(super) fn findings<'c>(case: &'c Case<'_>) -> impl Iterator<Item = Finding> + use<'c> {
    let symptoms = case.pod.symptoms.as_deref().unwrap_or(&SILENT);
    let rules: &[Rule] = match case.pod {
        pod if pod.meta.deleted.is_some() => &GOING,
        pod if pod.ready || pod.phase == PodPhase::Succeeded => &[],
        _ => &COMING,
    };
    rules.iter().filter_map(move |rule| rule(case, symptoms))
}

/// What prevents a pod from being ready or deleted, as far as its own status shows, independent of the time.
#[must_use]
pub fn of_pod(pod: &PodView) -> Option<Cause> {
    let case = Case { pod, events: &[], of_claims: &BTreeMap::new() };
    let found = findings(&case).find(|finding| finding.counts_from == Timestamp::MIN || finding.kind.is_unschedulable())?;
    let about = About { kind: "Pod", name: pod.meta.name.to_string() };
    Some(Cause { kind: found.kind, pods: 1, about, evidence: found.evidence })
}

/// Whether the pod has failed, or has a cause that an older template may avoid. Delays and missing resources of the cluster do not count.
#[must_use]
pub fn is_in_trouble(pod: &PodView) -> bool {
    pod.phase == PodPhase::Failed || of_pod(pod).is_some_and(|cause| cause.kind.may_be_the_templates())
}

fn waits_for<'s>(symptoms: &'s Symptoms, reasons: &[&str]) -> Option<&'s ReasonMessage> {
    let mut waiting = symptoms.containers.iter().filter_map(|container| container.waiting.as_ref());
    waiting.find(|reason_message| reasons.contains(&reason_message.reason.as_str()))
}

fn image(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let reason_message = waits_for(symptoms, &IMAGE_REASONS)?;
    let event = case.events.iter().find(|event| event.reason == "Failed").filter(|_| reason_message.message.is_empty());
    let message = event.map_or(&reason_message.message, |event| &event.message);
    Some(Finding::now(Kind::ImagePull, text(&reason_message.reason, message)))
}

fn container_config(_: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let reason_message = waits_for(symptoms, &CONFIG_REASONS)?;
    Some(Finding::now(Kind::ContainerConfig, text(&reason_message.reason, &reason_message.message)))
}

/// A container that waits for its restart or has failed. It counts until it is ready, also while it runs again.
fn crash(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let backs_off =
        |container: &&ContainerSymptom| container.waiting.as_ref().is_some_and(|reason_message| reason_message.reason == CRASH_REASON);
    let ended_badly = |container: &&ContainerSymptom| container.ended.as_ref().is_some_and(|end| end.exit_code != 0);
    let mut containers = symptoms.containers.iter().filter(|_| case.pod.phase != PodPhase::Failed);
    let found = containers.clone().find(backs_off).or_else(|| containers.find(ended_badly))?;
    Some(Finding::now(Kind::Crash, crash_text(found)))
}

/// `CrashLoopBackOff: container main ended with exit code 1 (Error), restarted 3 times: no such table`
fn crash_text(container: &ContainerSymptom) -> String {
    let waiting = container.waiting.as_ref().filter(|reason_message| reason_message.reason == CRASH_REASON);
    let Some(end) = &container.ended else {
        return waiting.map_or_else(String::new, |reason_message| text(&reason_message.reason, &reason_message.message));
    };
    let back_off = waiting.map_or_else(String::new, |reason_message| format!("{}: ", reason_message.reason));
    let role = match container.role {
        ContainerRole::Init => "init container",
        ContainerRole::Main => "container",
    };
    let why = if end.reason.is_empty() { String::new() } else { format!(" ({})", end.reason) };
    let restarts = match container.restarts {
        ..=0 => String::new(),
        1 => ", restarted once".to_owned(),
        restarts => format!(", restarted {restarts} times"),
    };
    let ended = format!("{back_off}{role} {} ended with exit code {}{why}{restarts}", container.name, end.exit_code);
    text(&ended, last_words(end.message.trim_end()))
}

/// The end of a termination message, because the last lines have the cause.
fn last_words(message: &str) -> &str {
    let start = message.char_indices().rev().nth(LAST_WORDS_MAX - 1).map_or(0, |(start, _)| start);
    &message[start..]
}

fn failed(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    if case.pod.phase != PodPhase::Failed {
        return None;
    }
    let ended = || symptoms.containers.iter().filter_map(|container| Some((container, container.ended.as_ref()?)));
    // Other containers may have succeeded.
    let ended = ended().find(|(_, end)| end.exit_code != 0).or_else(|| ended().next()).map(|(container, _)| crash_text(container));
    let evidence = match &symptoms.failed {
        Some(reason_message) => text(&reason_message.reason, &reason_message.message),
        None => ended.unwrap_or_default(),
    };
    Some(Finding::now(Kind::PodFailed, evidence))
}

/// All containers run but not all are ready, or all are ready and a readiness gate is false.
fn not_ready(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let mains = || symptoms.containers.iter().filter(|container| container.role == ContainerRole::Main);
    if case.pod.phase != PodPhase::Running || mains().any(|container| container.running_since.is_none()) {
        return None;
    }
    let since = mains().filter_map(|container| container.running_since).max().or(case.pod.ready_since)?;
    let probe = case.events.iter().find(|event| event.reason == "Unhealthy" && event.last >= Some(since));
    let evidence = match (probe, &symptoms.unready) {
        (Some(event), _) => event.message.clone(),
        (None, Some(reason_message)) => text(&reason_message.reason, &reason_message.message),
        (None, None) => String::new(),
    };
    Some(Finding::after(Kind::NotReady, evidence, since, READY_WITHIN))
}

/// Its readiness ended with its node's. Both are written one after the other.
fn node_lost(case: &Case<'_>, _: &Symptoms) -> Option<Finding> {
    let since = case.pod.ready_since?.checked_sub(NODE_EVENT_WITHIN).ok()?;
    let event = case.events.iter().find(|event| event.reason == "NodeNotReady" && event.last >= Some(since))?;
    let evidence = text(&format!("node {}", case.pod.node_name), &event.message);
    (case.pod.phase == PodPhase::Running).then(|| Finding::now(Kind::NodeLost, evidence))
}

fn unschedulable(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let reason_message = symptoms.unscheduled.as_ref()?;
    let kind = match reason_message.reason.as_str() {
        "SchedulingGated" => Kind::SchedulingGated,
        _ => scheduling::kind(&reason_message.message),
    };
    if let Some(found) = not_provisioned(case).filter(|_| kind == Kind::UnschedulableVolume) {
        return Some(found);
    }
    let evidence = reason_message.message.clone();
    Some(match case.pod.meta.created {
        Some(created) if kind == Kind::UnschedulableVolume => Finding::after(kind, evidence, created, VOLUMES_WITHIN),
        _ => Finding::now(kind, evidence),
    })
}

/// The claim's event has the cause, which the scheduler does not report.
fn not_provisioned(case: &Case<'_>) -> Option<Finding> {
    let mut claims = case.pod.claims.values();
    let (claim, event) = claims.find_map(|claim| Some((claim, case.of_claims.get(claim.as_str())?)))?;
    Some(Finding::now(Kind::Provisioning, format!("claim {claim}: {}", event.message)))
}

/// The newest of these events about each claim that no volume could be made for.
pub(super) fn of_claims<'e>(events: impl Iterator<Item = &'e EventView>) -> BTreeMap<&'e str, &'e EventView> {
    let mut newest: BTreeMap<&str, &EventView> = BTreeMap::new();
    for event in events.filter(|event| event.reason == PROVISIONING_FAILED) {
        let Some(claim) = event.claim.as_deref() else { continue };
        let known = newest.entry(claim).or_insert(event);
        if known.last < event.last {
            *known = event;
        }
    }
    newest
}

fn is_starting(pod: &PodView) -> bool {
    !pod.node_name.is_empty() && matches!(pod.phase, PodPhase::Pending | PodPhase::Unset)
}

fn volume(case: &Case<'_>, _: &Symptoms) -> Option<Finding> {
    let event = case.events.iter().find(|event| VOLUME_EVENTS.contains(&event.reason.as_str()))?;
    is_starting(case.pod).then(|| Finding::now(Kind::Volume, text(&event.reason, &event.message)))
}

fn not_started(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let since = symptoms.scheduled_since.or(case.pod.meta.created).filter(|_| is_starting(case.pod))?;
    let initializing =
        symptoms.containers.iter().find(|container| container.role == ContainerRole::Init && container.running_since.is_some());
    let waiting = symptoms.containers.iter().find_map(|container| container.waiting.as_ref());
    let evidence = match (case.events.first(), initializing, waiting) {
        (Some(event), ..) => text(&event.reason, &event.message),
        (None, Some(container), _) => format!("init container {} still runs", container.name),
        (None, None, Some(reason_message)) => text(&reason_message.reason, &reason_message.message),
        (None, None, None) => format!("node {} does not report it", case.pod.node_name),
    };
    Some(Finding::after(Kind::NotStarted, evidence, since, STARTED_WITHIN))
}

fn not_scheduled(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    let is_unseen = case.pod.node_name.is_empty() && symptoms.unscheduled.is_none();
    let since = case.pod.meta.created.filter(|_| is_unseen)?;
    Some(Finding::after(Kind::NotScheduled, String::new(), since, SCHEDULED_WITHIN))
}

/// The containers have ended, or should have, and only finalizers block the deletion.
fn finalizer(case: &Case<'_>, symptoms: &Symptoms) -> Option<Finding> {
    if symptoms.finalizers.is_empty() {
        return None;
    }
    let counts_from = if case.pod.phase.is_finished() { Timestamp::MIN } else { case.pod.meta.deleted? };
    Some(Finding { kind: Kind::Finalizer, evidence: symptoms.finalizers.join(", "), counts_from })
}

fn overdue(case: &Case<'_>, _: &Symptoms) -> Option<Finding> {
    let PodView { node_name, grace_period_seconds, meta, .. } = case.pod;
    let grace = grace_period_seconds.map_or_else(String::new, |seconds| format!("its grace period was {seconds}s; "));
    let node = match node_name.as_str() {
        "" => "it has no node".to_owned(),
        node => format!("node {node} has not reported its end"),
    };
    Some(Finding::after(Kind::TerminationOverdue, format!("{grace}{node}"), meta.deleted?, GONE_WITHIN))
}

/// `reason: message`, without the parts that are missing.
fn text(reason: &str, message: &str) -> String {
    match (reason, message) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).expect("in range")
    }

    fn pod(metadata: &Value, spec: &Value, status: &Value) -> PodView {
        let mut object = json!({"metadata": {"name": "web-1", "uid": "u", "creationTimestamp": at(0)}, "spec": spec, "status": status});
        object["metadata"].as_object_mut().expect("a map").extend(metadata.as_object().expect("a map").clone());
        PodView::decode(object.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    /// The causes at `second`, each as its reason and evidence.
    fn at_second(pod: &PodView, events: &[EventView], second: i64) -> Vec<(&'static str, String)> {
        let events: Vec<_> = events.iter().collect();
        let claims = of_claims(events.iter().copied());
        let case = Case { pod, events: &events, of_claims: &claims };
        findings(&case).filter(|found| found.counts_from <= at(second)).map(|found| (found.kind.reason(), found.evidence)).collect()
    }

    fn check(pod: &PodView, events: &[EventView], second: i64, wanted: Option<(&str, &str)>) {
        let found = at_second(pod, events, second);
        assert_eq!(found.first().map(|(reason, evidence)| (*reason, evidence.as_str())), wanted, "at {second} of {found:?}");
    }

    fn event(reason: &str, message: &str, second: i64) -> EventView {
        EventView { about_uid: "u".into(), reason: reason.to_owned(), message: message.to_owned(), last: Some(at(second)), claim: None }
    }

    /// A pod on a node whose only container is in this state.
    fn with_container(phase: &str, container: &Value) -> PodView {
        let mut status = json!({"name": "main", "ready": false});
        status.as_object_mut().expect("a map").extend(container.as_object().expect("a map").clone());
        let unready = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]"});
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(1)});
        pod(
            &json!({}),
            &json!({"nodeName": "n1"}),
            &json!({"phase": phase, "conditions": [scheduled, unready], "containerStatuses": [status]}),
        )
    }

    #[test]
    fn an_image_that_cannot_be_pulled() {
        let waiting =
            |reason: &str, message: &str| with_container("Pending", &json!({"state": {"waiting": {"reason": reason, "message": message}}}));
        let message = "Back-off pulling image \"web:404\"";
        let pod = waiting("ImagePullBackOff", message);
        check(&pod, &[], 1, Some(("image_pull", "ImagePullBackOff: Back-off pulling image \"web:404\"")));
        assert_eq!(of_pod(&pod).map(|cause| cause.to_string()), Some(format!("web-1 cannot pull its image: ImagePullBackOff: {message}")));
        for reason in IMAGE_REASONS {
            check(&waiting(reason, "m"), &[], 1, Some(("image_pull", &format!("{reason}: m"))));
        }
        let silent = waiting("ErrImagePull", "");
        check(
            &silent,
            &[event("Failed", "Failed to pull image: 404", 1)],
            1,
            Some(("image_pull", "ErrImagePull: Failed to pull image: 404")),
        );
    }

    #[test]
    fn a_container_that_cannot_be_made() {
        for reason in CONFIG_REASONS {
            let pod = with_container("Pending", &json!({"state": {"waiting": {"reason": reason, "message": "configmap \"c\" not found"}}}));
            check(&pod, &[], 1, Some(("container_config", &format!("{reason}: configmap \"c\" not found"))));
        }
    }

    #[test]
    fn a_crash_is_reported_with_exit_code_and_last_words() {
        let end = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}});
        let text = "container main ended with exit code 137 (OOMKilled), restarted 3 times";
        let backs_off = with_container("Running", &json!({"restartCount": 3, "state": waiting, "lastState": end}));
        check(&backs_off, &[], 1, Some(("crash", &format!("CrashLoopBackOff: {text}"))));
        let runs_again =
            with_container("Running", &json!({"restartCount": 3, "state": {"running": {"startedAt": at(0)}}, "lastState": end}));
        check(&runs_again, &[], 1, Some(("crash", text)));
        let said_why = json!({"terminated": {"exitCode": 2, "message": "no such table\n"}});
        check(
            &with_container("Running", &json!({"restartCount": 1, "state": said_why})),
            &[],
            1,
            Some(("crash", "container main ended with exit code 2, restarted once: no such table")),
        );
        let (long, wanted) = (format!("{}é", "a".repeat(4000)), format!("{}é", "a".repeat(299)));
        assert_eq!((last_words(&long), last_words("short"), last_words("")), (&*wanted, "short", ""));
        let ends_well = json!({"restartCount": 1, "state": waiting, "lastState": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let text = "CrashLoopBackOff: container main ended with exit code 0 (Completed), restarted once";
        check(&with_container("Running", &ends_well), &[], 1, Some(("crash", text)));
    }

    #[test]
    fn an_init_container_that_has_done_its_part_is_no_symptom() {
        let main = json!([{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]);
        let status = |init: Value| json!({"phase": "Pending", "initContainerStatuses": [{"name": "init", "state": init}], "containerStatuses": main});
        let of = |init: Value| pod(&json!({}), &json!({"nodeName": "n1"}), &status(init));
        check(&of(json!({"terminated": {"exitCode": 0}})), &[], 1, None);
        check(&of(json!({"terminated": {"exitCode": 3}})), &[], 1, Some(("crash", "init container init ended with exit code 3")));
        let runs = of(json!({"running": {"startedAt": at(0)}}));
        check(&runs, &[], 29, None);
        check(&runs, &[], 30, Some(("not_started", "init container init still runs")));
    }

    #[test]
    fn a_pod_that_failed_as_a_whole() {
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
        let evicted = pod(&json!({}), &json!({"nodeName": "n1"}), &evicted);
        check(&evicted, &[], 1, Some(("pod_failed", "Evicted: The node was low on resource: memory.")));
        let ended = with_container("Failed", &json!({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}));
        check(&ended, &[], 1, Some(("pod_failed", "container main ended with exit code 1 (Error)")));
        let end =
            |name: &str, code: i32, reason: &str| json!({"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}});
        let waits = json!({"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}});
        let of = |init: Value, main: Value| {
            let status = json!({"phase": "Failed", "initContainerStatuses": init, "containerStatuses": main});
            pod(&json!({}), &json!({"nodeName": "n1"}), &status)
        };
        let one_of_two = of(json!([]), json!([end("log", 0, "Completed"), end("main", 3, "Error")]));
        check(&one_of_two, &[], 1, Some(("pod_failed", "container main ended with exit code 3 (Error)")));
        let init = of(json!([end("fetch", 0, "Completed"), end("migrate", 2, "Error")]), json!([waits]));
        check(&init, &[], 1, Some(("pod_failed", "init container migrate ended with exit code 2 (Error)")));
    }

    #[test]
    fn a_pod_that_is_never_ready_counts_after_a_while() {
        let pod = with_container("Running", &json!({"state": {"running": {"startedAt": at(5)}}}));
        check(&pod, &[], 14, None);
        check(&pod, &[], 15, Some(("not_ready", "ContainersNotReady: containers with unready status: [main]")));
        let old = event("Unhealthy", "of another life", 4);
        let probe = event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500", 9);
        check(&pod, &[probe, old], 15, Some(("not_ready", "Readiness probe failed: HTTP probe failed with statuscode: 500")));
        assert_eq!(of_pod(&pod), None, "it depends on the time");
    }

    #[test]
    fn a_pod_whose_node_is_lost_does_not_fail_its_probe() {
        let unready = json!({"type": "Ready", "status": "False", "lastTransitionTime": at(40)});
        let running = json!([{"name": "main", "ready": true, "state": {"running": {"startedAt": at(1)}}}]);
        let status = json!({"phase": "Running", "conditions": [unready], "containerStatuses": running});
        let pod = pod(&json!({}), &json!({"nodeName": "n1"}), &status);
        let lost = event("NodeNotReady", "Node is not ready", 40);
        check(&pod, std::slice::from_ref(&lost), 41, Some(("node_lost", "node n1: Node is not ready")));
        check(&pod, &[event("NodeNotReady", "Node is not ready", 20)], 60, Some(("not_ready", "")));
    }

    #[test]
    fn a_readiness_gate_that_is_shut() {
        let unready = json!({
            "type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "gate \"a/b\" is not there", "lastTransitionTime": at(3),
        });
        let status = json!({"phase": "Running", "conditions": [unready], "containerStatuses": [{"name": "main", "ready": true}]});
        let pod = pod(&json!({}), &json!({"nodeName": "n1"}), &status);
        check(&pod, &[], 13, Some(("not_ready", "ReadinessGatesNotReady: gate \"a/b\" is not there")));
    }

    #[test]
    fn a_pod_without_a_node() {
        let of = |reason: &str, message: &str| {
            let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message});
            pod(&json!({}), &json!({}), &json!({"phase": "Pending", "conditions": [condition]}))
        };
        let message = "0/3 nodes are available: 3 Insufficient cpu.";
        check(&of("Unschedulable", message), &[], 1, Some(("unschedulable_resources", message)));
        let volumes = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
        check(&of("Unschedulable", volumes), &[], 4, None);
        check(&of("Unschedulable", volumes), &[], 5, Some(("unschedulable_volume", volumes)));
        assert!(of_pod(&of("Unschedulable", volumes)).is_some(), "its controller counts the time itself");
        let gated = "Scheduling is blocked due to non-empty scheduling gates";
        check(&of("SchedulingGated", gated), &[], 1, Some(("scheduling_gated", gated)));
        let unseen = pod(&json!({}), &json!({}), &json!({"phase": "Pending"}));
        check(&unseen, &[], 9, None);
        check(&unseen, &[], 10, Some(("not_scheduled", "")));
    }

    #[test]
    fn a_pod_that_does_not_start() {
        let pod = with_container("Pending", &json!({"state": {"waiting": {"reason": "ContainerCreating"}}}));
        check(&pod, &[], 30, None);
        check(&pod, &[], 31, Some(("not_started", "ContainerCreating")));
        let sandbox = event("FailedCreatePodSandBox", "no address left", 20);
        check(&pod, &[sandbox], 31, Some(("not_started", "FailedCreatePodSandBox: no address left")));
        let mount = event("FailedMount", "MountVolume.SetUp failed: secret \"s\" not found", 2);
        check(&pod, &[mount], 3, Some(("volume", "FailedMount: MountVolume.SetUp failed: secret \"s\" not found")));
    }

    #[test]
    fn a_pod_that_does_not_go() {
        let going = |finalizers: &Value, phase: &str| {
            let metadata = json!({"deletionTimestamp": at(30), "deletionGracePeriodSeconds": 30, "finalizers": finalizers});
            pod(&metadata, &json!({"nodeName": "n1"}), &json!({"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}))
        };
        let held = json!(["example.com/a", "example.com/b"]);
        check(&going(&held, "Running"), &[], 29, None);
        check(&going(&held, "Running"), &[], 30, Some(("finalizer", "example.com/a, example.com/b")));
        check(&going(&held, "Succeeded"), &[], 1, Some(("finalizer", "example.com/a, example.com/b")));
        let late = going(&json!([]), "Running");
        check(&late, &[], 39, None);
        check(&late, &[], 40, Some(("termination_overdue", "its grace period was 30s; node n1 has not reported its end")));
    }

    #[test]
    fn a_pod_that_is_ready_has_no_cause() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"name": "main", "ready": true, "restartCount": 2, "lastState": {"terminated": {"exitCode": 1}}});
        let pod =
            pod(&json!({}), &json!({"nodeName": "n1"}), &json!({"phase": "Running", "conditions": ready, "containerStatuses": [status]}));
        assert_eq!((pod.symptoms.as_ref(), at_second(&pod, &[], 1000)), (None, vec![]));
    }

    #[test]
    fn what_is_ready_or_has_ended_well_lacks_nothing_and_what_runs_is_not_starting() {
        let at_rest = |status: Value| at_second(&pod(&json!({}), &json!({}), &status), &[], 1000);
        assert_eq!(at_rest(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})), []);
        assert_eq!(
            at_rest(json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]})),
            []
        );
        let mount = || [event("FailedMount", "no such secret", 2)];
        let running = with_container("Running", &json!({"state": {"running": {"startedAt": at(5)}}}));
        check(&running, &mount(), 6, None);
        check(&pod(&json!({}), &json!({}), &json!({"phase": "Pending"})), &mount(), 6, None);
    }

    #[test]
    fn a_pod_is_not_ready_by_the_words_of_its_probe_once_all_containers_run() {
        let running = |name: &str| json!({"name": name, "state": {"running": {"startedAt": at(5)}}});
        let status = |containers: Value| json!({"phase": "Running", "containerStatuses": containers});
        let of = |containers: Value| pod(&json!({}), &json!({"nodeName": "n1"}), &status(containers));
        check(&of(json!([running("a"), {"name": "b", "state": {"waiting": {"reason": "ContainerCreating"}}}])), &[], 100, None);
        check(&of(json!([running("a")])), &[event("Pulled", "an image", 9)], 100, Some(("not_ready", "")));
    }

    #[test]
    fn a_pod_that_does_not_start_is_reported_with_what_is_known() {
        let pending = |init: Value, main: Value| {
            let status = json!({"phase": "Pending", "initContainerStatuses": init, "containerStatuses": main});
            pod(&json!({}), &json!({"nodeName": "n1"}), &status)
        };
        let (waits, runs) = (
            json!([{"name": "c", "state": {"waiting": {"reason": "Waits"}}}]),
            json!([{"name": "c", "state": {"running": {"startedAt": at(5)}}}]),
        );
        check(&pending(json!([]), runs.clone()), &[], 30, Some(("not_started", "node n1 does not report it")));
        check(&pending(waits.clone(), json!([])), &[], 30, Some(("not_started", "Waits")));
        check(&pending(runs, waits), &[], 30, Some(("not_started", "init container c still runs")));
    }

    #[test]
    fn in_trouble_is_what_has_failed_or_what_another_template_may_be_without() {
        let waits = |reason: &str| json!([{"name": "c", "state": {"waiting": {"reason": reason, "message": "no such image"}}}]);
        let of = |status: Value| is_in_trouble(&pod(&json!({}), &json!({}), &status));
        assert!(of(json!({"phase": "Failed"})));
        assert!(of(json!({"phase": "Pending", "containerStatuses": waits("ImagePullBackOff")})));
        assert!(!of(json!({"phase": "Running"})));
        assert!(!of(json!({"phase": "Pending", "containerStatuses": waits("ContainerCreating")})), "it takes its time");
        let unplaced =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
        assert!(!of(json!({"phase": "Pending", "conditions": unplaced})), "the cluster has no room");
    }
}
