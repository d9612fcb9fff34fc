//! The format of `berth rollout status -o json`: one [`Report`] per line. `docs/rollout.md` documents it for users.
//!
//! This is an interface. Fields are only ever added, no field changes its type, and words never change their meaning. So it has its own
//! types: plans, waits, causes and internal reports can change independently.

use super::{
    features::{Finding, Source},
    target::Found,
};
use berth_identity::RolloutRevision;
use berth_rollout::status::{Replicas, RolloutStage, RolloutStatus};
use berth_workloads::{Wait, cause::Cause, rollback::Record, stateful_set::Phase};
use serde::Serialize;

/// The state of a rollout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    /// `Deployment`, `StatefulSet` or `DaemonSet`.
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    /// Its number. Missing until its controller has assigned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<RolloutRevision>,
    /// `Waiting`, `Complete` or `Failed`.
    state: &'static str,
    /// kubectl's sentence, if it has one.
    message: &'a str,
    /// Of a StatefulSet's Recreate: `NeedsDeletion`, `WaitingTermination`, `ReadyForCreation` or `Complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    /// The automatic rollback that caused this revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback: Option<RolledBack<'a>>,
    replicas: Pods,
    /// The obstacles, most informative first.
    causes: Vec<InTheWay<'a>>,
    /// The deliberate waits.
    waits: Vec<Waiting>,
    /// For StatefulSets, the pods that are not ready. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unready_pods: Vec<UnreadyPod<'a>>,
    /// The features of the cluster that affect the meaning of this report. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    features: Vec<Feature>,
}

/// An automatic rollback.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RolledBack<'a> {
    /// The failed revision.
    from_revision: RolloutRevision,
    /// The target revision, which has another number since.
    to_revision: RolloutRevision,
    /// The cause, as in `causes`. Missing if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The message for users.
    message: &'a str,
}

/// Pods, by the workload's status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pods {
    /// `spec.replicas`. Of a DaemonSet: the number of nodes that should run its pod.
    wanted: i32,
    total: i32,
    /// Pods of the newest template.
    updated: i32,
    available: i32,
    /// Terminating pods. Missing if the pods of a StatefulSet or a DaemonSet cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    terminating: Option<i32>,
}

/// One obstacle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InTheWay<'a> {
    /// Its kind, for programs: `image_pull`, `quota`, ….
    reason: &'static str,
    /// The message for users.
    message: String,
    /// The number of affected pods.
    pods: usize,
    /// One of the pods, or the object that cannot create them.
    object: Named<'a>,
    /// The cluster's own text.
    evidence: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    kind: &'static str,
    name: &'a str,
}

/// One reason why a rollout makes no progress.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    /// As in the label of the metric `berth_waits`: `pods_terminating`, `partition`, ….
    reason: &'static str,
    /// The message for users.
    message: String,
}

/// A pod that is not ready, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UnreadyPod<'a> {
    name: &'a str,
    /// `ImagePullBackOff`, `Unschedulable`, ….
    reasons: &'a [String],
}

/// The state of a feature.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Feature {
    /// Its gate.
    name: String,
    enabled: bool,
    /// The source: `controllers`, `status`, `apiServer`, `missing` (the server does not know it) or `supposed` (an assumption).
    source: &'static str,
}

/// Builds the report.
pub(super) fn report<'a>(namespace: &'a str, workload: &'a Found, features: &[Finding], status: &'a RolloutStatus) -> Report<'a> {
    Report {
        kind: workload.kind.name(),
        namespace,
        name: &workload.name,
        revision: status.revision,
        state: state(status.progress.state),
        message: &status.progress.message,
        phase: status.phase.map(phase),
        rollback: status.rollback.as_ref().map(rolled_back),
        replicas: pods(status.replicas),
        causes: status.causes.iter().map(in_the_way).collect(),
        waits: status.waits.iter().map(waiting).collect(),
        unready_pods: status.unready_pods.iter().map(|pod| UnreadyPod { name: &pod.name, reasons: &pod.reasons }).collect(),
        features: features.iter().map(feature).collect(),
    }
}

fn state(stage: RolloutStage) -> &'static str {
    match stage {
        RolloutStage::Waiting => "Waiting",
        RolloutStage::Complete => "Complete",
        RolloutStage::Failed => "Failed",
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::NeedsDeletion => "NeedsDeletion",
        Phase::WaitingTermination => "WaitingTermination",
        Phase::ReadyForCreation => "ReadyForCreation",
        Phase::Complete => "Complete",
    }
}

fn rolled_back(record: &Record) -> RolledBack<'_> {
    let Record { from_revision, to_revision, reason, message, .. } = record;
    RolledBack { from_revision: *from_revision, to_revision: *to_revision, reason: reason.as_deref(), message }
}

fn pods(replicas: Replicas) -> Pods {
    let Replicas { wanted, total, updated, available, terminating } = replicas;
    Pods { wanted, total, updated, available, terminating }
}

fn in_the_way(cause: &Cause) -> InTheWay<'_> {
    InTheWay {
        reason: cause.kind.reason(),
        message: cause.to_string(),
        pods: cause.pods,
        object: Named { kind: cause.about.kind, name: &cause.about.name },
        evidence: &cause.evidence,
    }
}

fn waiting(wait: &Wait) -> Waiting {
    Waiting { reason: wait.metric_label(), message: wait.to_string() }
}

fn feature(finding: &Finding) -> Feature {
    let source = match finding.source {
        Source::Controllers => "controllers",
        Source::Status => "status",
        Source::ApiServer => "apiServer",
        Source::Missing => "missing",
        Source::Supposed => "supposed",
    };
    Feature { name: finding.gate.to_string(), enabled: finding.enabled, source }
}

#[cfg(test)]
mod tests {
    use super::{super::report::json, *};
    use berth_api::Gate;
    use berth_identity::Ordinal;
    use berth_rollout::status::{RolloutProgress, UnreadyPod};
    use berth_workloads::{cause, workload::WorkloadKind};

    fn rollout_status() -> RolloutStatus {
        let replicas = Replicas { wanted: 3, total: 2, updated: 1, available: 0, terminating: None };
        let standing = RolloutProgress { state: RolloutStage::Waiting, message: "wait".to_owned() };
        let (causes, waits, unready_pods) = (Vec::new(), Vec::new(), Vec::new());
        let (rollback, goes_back_to) = (None, None);
        RolloutStatus {
            revision: None,
            progress: standing,
            rollback,
            goes_back_to,
            phase: None,
            replicas,
            causes,
            waits,
            unready_pods,
            requeue_at: None,
        }
    }

    fn text(features: &[Finding], status: &RolloutStatus) -> String {
        let workload = Found { kind: WorkloadKind::StatefulSet, name: "db".to_owned(), json: String::new() };
        json(&report("shop", &workload, features, status))
    }

    /// Users' programs read this format, so a change of it is an interface change.
    #[test]
    fn every_key_and_word_is_as_promised() {
        let least = r#"{"kind":"StatefulSet","namespace":"shop","name":"db","state":"Waiting","message":"wait","replicas":{"wanted":3,"total":2,"updated":1,"available":0},"causes":[],"waits":[]}"#;
        assert_eq!(text(&[], &rollout_status()), least);
        let about = cause::About { kind: "Pod", name: "db-1".to_owned() };
        let cause = Cause { kind: cause::Kind::ImagePull, pods: 2, about, evidence: "no".to_owned() };
        let message = cause.to_string();
        let most = RolloutStatus {
            revision: Some(RolloutRevision(4)),
            progress: RolloutProgress { state: RolloutStage::Failed, message: "late".to_owned() },
            rollback: Some(Record {
                revision: RolloutRevision(4),
                template_hash: "5d4".into(),
                from_revision: RolloutRevision(3),
                to_revision: RolloutRevision(1),
                reason: Some("crash".to_owned()),
                message: "no".to_owned(),
            }),
            phase: Some(Phase::WaitingTermination),
            replicas: Replicas { terminating: Some(1), ..rollout_status().replicas },
            causes: vec![cause],
            waits: vec![Wait::Partition { pods: 1, from: Ordinal(2) }],
            unready_pods: vec![UnreadyPod { name: "db-1".to_owned(), reasons: vec!["ErrImagePull".to_owned()] }],
            ..rollout_status()
        };
        let finding =
            Finding { gate: Gate::StatefulSetRecreateStrategy, enabled: true, source: Source::ApiServer, why: "secret".to_owned() };
        let all = [
            r#"{"kind":"StatefulSet","namespace":"shop","name":"db","revision":4,"state":"Failed","message":"late","phase":"WaitingTermination","#,
            r#""rollback":{"fromRevision":3,"toRevision":1,"reason":"crash","message":"no"},"#,
            r#""replicas":{"wanted":3,"total":2,"updated":1,"available":0,"terminating":1},"#,
            r#""causes":[{"reason":"image_pull","message":"#,
            &format!("{message:?}"),
            r#","pods":2,"object":{"kind":"Pod","name":"db-1"},"evidence":"no"}],"#,
            r#""waits":[{"reason":"partition","message":"the partition keeps 1 pod of older templates: only ordinals from 2 are updated"}],"#,
            r#""unreadyPods":[{"name":"db-1","reasons":["ErrImagePull"]}],"#,
            r#""features":[{"name":"StatefulSetRecreateStrategy","enabled":true,"source":"apiServer"}]}"#,
        ];
        assert_eq!(text(&[finding], &most), all.concat());
        let phases = [Phase::NeedsDeletion, Phase::WaitingTermination, Phase::ReadyForCreation, Phase::Complete].map(phase);
        assert_eq!(phases, ["NeedsDeletion", "WaitingTermination", "ReadyForCreation", "Complete"]);
        assert_eq!([RolloutStage::Waiting, RolloutStage::Complete, RolloutStage::Failed].map(state), ["Waiting", "Complete", "Failed"]);
        let sources = [Source::Controllers, Source::Status, Source::ApiServer, Source::Missing, Source::Supposed];
        let of = |source| feature(&Finding { gate: Gate::PodDeletionCost, enabled: false, source, why: String::new() }).source;
        assert_eq!(sources.map(of), ["controllers", "status", "apiServer", "missing", "supposed"]);
    }
}
