//! The table of everything that can block a rollout: one line each, by rank.

use super::Kind;
use crate::plan::WaitKind;

/// The cause or the wait that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Cause(Kind),
    Wait(WaitKind),
}

/// One line of the table.
pub(super) struct Row {
    pub(super) of: Of,
    /// What happens without a user, and when.
    pub(super) next: &'static str,
    /// What a user can do, with a command: `{…}` are the names in [`super::AdviceContext`].
    pub(super) to_do: &'static [(&'static str, &'static str)],
    /// Whether an earlier template may help.
    pub(super) undo: Undo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    MayHelp,
    DoesNotHelp,
}

const fn row(of: Of, undo: Undo, next: &'static str, to_do: &'static [(&'static str, &'static str)]) -> Row {
    Row { of, next, to_do, undo }
}

const PODS_TRY_AGAIN: &str = "its controller retries with a growing backoff";
const SCHEDULER_TRIES_AGAIN: &str = "the scheduler retries when nodes or pods change, and every five minutes";
/// A change of the template.
pub(super) const SET_IMAGE: (&str, &str) = ("choose an existing image", "kubectl set image {workload} '*=IMAGE' -n {namespace}");
/// A change of the template.
pub(super) const SET_RESOURCES: (&str, &str) =
    ("request less", "kubectl set resources {workload} --requests=cpu=CPU,memory=MEMORY -n {namespace}");
const DESCRIBE_POD: (&str, &str) = ("see what its node reports", "kubectl describe pod {pod} -n {namespace}");

/// All obstacles, in the order in which they are reported. Waits come after the causes that prolong them, but before mere suspicions.
pub(super) static TABLE: [Row; ROWS.len()] = ROWS;

const ROWS: [Row; 60] = {
    use self::Undo::{DoesNotHelp as No, MayHelp as Earlier};
    use Kind as K;
    use Of::{Cause, Wait};
    use WaitKind as W;
    [
        row(Cause(K::ImagePull), Earlier, "its node retries the pull, at most five minutes apart", &[SET_IMAGE]),
        row(
            Cause(K::ContainerConfig),
            Earlier,
            "its node retries the start of the container, which succeeds when everything that it needs exists",
            &[DESCRIBE_POD, ("see which ones exist", "kubectl get configmaps,secrets -n {namespace}")],
        ),
        row(
            Cause(K::Crash),
            Earlier,
            "its node restarts the container after a backoff that doubles up to five minutes",
            &[("read the log of the last run", "kubectl logs {pod} --previous --all-containers -n {namespace}")],
        ),
        row(Cause(K::PodFailed), Earlier, "its controller creates a replacement", &[DESCRIBE_POD]),
        row(
            Cause(K::NodeLost),
            No,
            "it is ready again when its node responds, and is evicted when its tolerations end",
            &[
                ("see which nodes do not respond", "kubectl get nodes"),
                (
                    "only if its node is permanently lost, because the pod may still run there",
                    "kubectl delete pod {pod} --grace-period=0 --force -n {namespace}",
                ),
            ],
        ),
        row(
            Cause(K::NotReady),
            Earlier,
            "its node repeats the readiness probe; the pod counts when the probe succeeds",
            &[
                ("read its log", "kubectl logs {pod} --all-containers -n {namespace}"),
                ("see the result of the probe", "kubectl describe pod {pod} -n {namespace}"),
            ],
        ),
        row(
            Cause(K::UnschedulableResources),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[("see the nodes' resources and requests", "kubectl describe nodes"), SET_RESOURCES],
        ),
        row(
            Cause(K::UnschedulableAffinity),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[("compare the nodes' labels with the pod's selector", "kubectl get nodes --show-labels")],
        ),
        row(
            Cause(K::UnschedulableTaint),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[(
                "see the taints, and tolerate or remove one",
                "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
            )],
        ),
        row(
            Cause(K::UnschedulableVolume),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[("see which claims are missing or not bound", "kubectl get persistentvolumeclaims -n {namespace}")],
        ),
        row(
            Cause(K::Provisioning),
            No,
            "its provisioner retries",
            &[
                ("see the claims' events", "kubectl describe persistentvolumeclaims -n {namespace}"),
                ("list the StorageClasses", "kubectl get storageclasses"),
            ],
        ),
        row(
            Cause(K::UnschedulableCordoned),
            No,
            "nothing, until a node accepts pods again: then the scheduler retries",
            &[("see which nodes are cordoned", "kubectl get nodes"), ("uncordon one", "kubectl uncordon NODE")],
        ),
        row(Cause(K::Unschedulable), Earlier, SCHEDULER_TRIES_AGAIN, &[("list the nodes", "kubectl get nodes")]),
        row(
            Cause(K::ResourceClaim),
            Earlier,
            "the scheduler retries when the claim exists",
            &[("list the claims", "kubectl get resourceclaims -n {namespace}")],
        ),
        row(
            Cause(K::SchedulingGated),
            No,
            "nothing, until the gates are removed by the client that set them",
            &[("see the gates", "kubectl get pod {pod} -o jsonpath='{.spec.schedulingGates}' -n {namespace}")],
        ),
        row(Cause(K::Quota), No, PODS_TRY_AGAIN, &[("see the quotas", "kubectl describe resourcequotas -n {namespace}")]),
        row(Cause(K::LimitRange), Earlier, PODS_TRY_AGAIN, &[("see the limits", "kubectl describe limitranges -n {namespace}")]),
        row(
            Cause(K::PodSecurity),
            Earlier,
            PODS_TRY_AGAIN,
            &[("see the namespace's level, and change the pod template to meet it", "kubectl get namespace {namespace} --show-labels")],
        ),
        row(
            Cause(K::Webhook),
            No,
            PODS_TRY_AGAIN,
            &[("list the webhooks", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations")],
        ),
        row(
            Cause(K::Refused),
            Earlier,
            PODS_TRY_AGAIN,
            &[("see the attempts", "kubectl get events -n {namespace} --sort-by=.lastTimestamp")],
        ),
        row(
            Cause(K::Volume),
            Earlier,
            "its node retries, at most two minutes apart",
            &[("see what it can mount", "kubectl get persistentvolumeclaims,configmaps,secrets -n {namespace}"), DESCRIBE_POD],
        ),
        row(Cause(K::NotStarted), No, "its node continues to start it", &[DESCRIBE_POD]),
        row(
            Cause(K::Finalizer),
            No,
            "nothing, until the finalizer is removed by the client that set it",
            &[(
                "only if that client no longer exists, remove all finalizers manually",
                "kubectl patch pod {pod} --type=merge -p '{\"metadata\":{\"finalizers\":null}}' -n {namespace}",
            )],
        ),
        row(
            Cause(K::TerminationOverdue),
            No,
            "nothing, until its node reports its end",
            &[
                ("check whether its node is healthy", "kubectl get nodes"),
                (
                    "only if its node is permanently lost, because the pod may still run elsewhere",
                    "kubectl delete pod {pod} --grace-period=0 --force -n {namespace}",
                ),
            ],
        ),
        row(
            Cause(K::Budget),
            No,
            "the drain retries, and evicts the pod when more pods are healthy than the budget requires",
            &[("see the budgets", "kubectl get poddisruptionbudgets -n {namespace}")],
        ),
        row(
            Cause(K::NotScheduled),
            No,
            "nothing, until a scheduler sees it",
            &[
                ("check whether a scheduler runs", "kubectl get leases -n kube-system"),
                ("see which scheduler the pod requires", "kubectl get pod {pod} -o jsonpath='{.spec.schedulerName}' -n {namespace}"),
            ],
        ),
        row(
            Wait(W::SecondWriter),
            No,
            "nothing: berth does not reconcile it until its controllers are restarted",
            &[("list the field managers that write it", "kubectl get {workload} -o yaml --show-managed-fields -n {namespace}")],
        ),
        row(
            Wait(W::BeingDeleted),
            No,
            "it is deleted when its pods are deleted and no finalizer holds it. If its namespace is terminating, it cannot be recreated until the namespace is deleted",
            &[("see what holds it", "kubectl get {workload} -o jsonpath='{.metadata.finalizers}' -n {namespace}")],
        ),
        row(
            Wait(W::OutdatedPodNotReady),
            No,
            "nothing: pods start and stop in order, and each waits for the previous one, even for a broken pod of an older template",
            &[("recreate that pod", "kubectl delete pod {pod} -n {namespace}")],
        ),
        row(
            Wait(W::ClaimLeaving),
            No,
            "its pod is created when the claim is deleted",
            &[("see what holds the claim", "kubectl describe persistentvolumeclaims -n {namespace}")],
        ),
        row(
            Wait(W::PodsTerminating),
            No,
            "it continues automatically when they are deleted, at the latest after their grace period",
            &[("list them", "kubectl get pods -n {namespace}")],
        ),
        row(Wait(W::PodTerminating), No, "it continues automatically when the pod is deleted", &[]),
        row(Wait(W::OldPodsRunning), No, "it continues automatically when they are deleted", &[]),
        row(
            Wait(W::PodsLeftBehind),
            No,
            "it continues automatically when the garbage collector has deleted them",
            &[("list them", "kubectl get pods -n {namespace}")],
        ),
        row(
            Wait(W::DeletionByHand),
            No,
            "nothing: with OnDelete, a pod is replaced only after its manual deletion",
            &[("delete the older pods one by one", "kubectl get pods -L controller-revision-hash -n {namespace}")],
        ),
        row(
            Wait(W::Partition),
            No,
            "nothing, until the partition is lowered",
            &[(
                "update all pods",
                "kubectl patch {workload} --type=merge -p '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"partition\":0}}}}' -n {namespace}",
            )],
        ),
        row(
            Wait(W::ManagedBy),
            No,
            "nothing here: the controller that managedBy names acts on it",
            &[("see which controller that is", "kubectl get {workload} -o jsonpath='{.spec.managedBy}' -n {namespace}")],
        ),
        row(
            Wait(W::JobSuspended),
            No,
            "nothing, until it is resumed",
            &[("resume it", "kubectl patch {workload} --type=merge -p '{\"spec\":{\"suspend\":false}}' -n {namespace}")],
        ),
        row(
            Wait(W::PodBackoff),
            No,
            "it continues automatically at that time. The delay doubles with each failure, up to ten minutes",
            &[("see why its pods failed", "kubectl describe {workload} -n {namespace}")],
        ),
        row(
            Wait(W::JobEnding),
            No,
            "it is finished when its pods have ended, at the latest after their grace period",
            &[("list them", "kubectl get pods -n {namespace}")],
        ),
        row(
            Wait(W::JobActive),
            No,
            "it continues automatically when that Job has ended, unless the time to start is over (startingDeadlineSeconds)",
            &[("see why it runs for so long", "kubectl get jobs,pods -n {namespace}")],
        ),
        row(
            Wait(W::JobNameTaken),
            No,
            "nothing for this time, until the other Job is deleted",
            &[("list the Jobs", "kubectl get jobs -n {namespace}")],
        ),
        row(
            Wait(W::CronJobSuspended),
            No,
            "nothing, until it is resumed. Then the last missed time starts, unless the time to start is over",
            &[("resume it", "kubectl patch {workload} --type=merge -p '{\"spec\":{\"suspend\":false}}' -n {namespace}")],
        ),
        row(Wait(W::Paused), No, "nothing, until it is resumed", &[("resume it", "berth rollout resume {workload} -n {namespace}")]),
        row(
            Wait(W::StepPaused),
            Earlier,
            "nothing, until you promote the rollout",
            &[("promote it", "berth rollout promote {workload} -n {namespace}")],
        ),
        row(
            Wait(W::StepWithoutPods),
            Earlier,
            "nothing, until the workload has replicas again: then the step starts with its share of them",
            &[],
        ),
        row(
            Wait(W::StepFailed),
            Earlier,
            "its controller rolls back to the last complete revision. If it does not, its events contain the reason",
            &[
                ("see the reason", "kubectl describe {workload} -n {namespace}"),
                ("promote it anyway", "berth rollout promote {workload} -n {namespace}"),
            ],
        ),
        row(
            Wait(W::StepUnanswered),
            Earlier,
            "the controller retries at most a minute apart, and rolls back if there is no answer within the progress deadline",
            &[
                ("see the provider and the query", "kubectl get {workload} -o jsonpath='{.metadata.annotations}' -n {namespace}"),
                ("promote it now", "berth rollout promote {workload} -n {namespace}"),
            ],
        ),
        row(
            Wait(W::StepAnalyzed),
            No,
            "it continues or rolls back when the provider answers",
            &[("promote it now", "berth rollout promote {workload} -n {namespace}")],
        ),
        row(
            Wait(W::StepLasts),
            No,
            "it continues automatically at that time",
            &[("promote it now", "berth rollout promote {workload} -n {namespace}")],
        ),
        row(
            Wait(W::StepSettles),
            No,
            "it continues automatically at that time, if its pods stay available until then",
            &[("check their state", "kubectl get pods -n {namespace}")],
        ),
        row(
            Cause(K::NotObserved),
            No,
            "nothing, until its controller runs and observes it",
            &[
                ("check whether the controllers run, and which one is the leader", "kubectl get leases -n kube-system"),
                ("with berth up: check its health", "kubectl get --raw '/readyz?verbose'"),
            ],
        ),
        row(
            Wait(W::ChildNotObserved),
            No,
            "it continues when the controller observes that ReplicaSet. If it never does, the controller does not run",
            &[],
        ),
        row(
            Wait(W::NameTaken),
            No,
            "nothing, until the pod of that name is deleted",
            &[("see its owner", "kubectl get pod {pod} -o jsonpath='{.metadata.ownerReferences}' -n {namespace}")],
        ),
        row(Wait(W::PodNotReady), No, "it continues automatically when the pod is ready", &[]),
        row(Wait(W::PodNotAvailable), No, "it continues automatically after minReadySeconds", &[]),
        row(Wait(W::MinReady), No, "it continues automatically when they have been ready for that time", &[]),
        row(Wait(W::Settling), No, "it is complete at that time, if its pods stay available until then", &[]),
        row(Wait(W::PodsUnavailable), No, "it continues automatically when they are available", &[]),
        row(
            Cause(K::Overlap),
            No,
            "each continues with its own pods. The first workload to reconcile adopts a pod that loses its controller",
            &[("give one of them unique labels in its selector and its template", "kubectl get {workload} -o yaml -n {namespace}")],
        ),
    ]
};

/// A kind without a row, or with two, does not compile.
const _: () = {
    let mut kind = 0;
    while kind < Kind::ALL.len() {
        assert!(rows_of(Of::Cause(Kind::ALL[kind])) == 1, "each kind of a cause has one row");
        kind += 1;
    }
    let mut kind = 0;
    while kind < WaitKind::ALL.len() {
        assert!(rows_of(Of::Wait(WaitKind::ALL[kind])) == 1, "each kind of a wait has one row");
        kind += 1;
    }
};

/// How many rows are about this.
const fn rows_of(wanted: Of) -> usize {
    let (mut rows, mut row) = (0, 0);
    while row < ROWS.len() {
        rows += match (ROWS[row].of, wanted) {
            (Of::Cause(of), Of::Cause(wanted)) => (of as usize == wanted as usize) as usize,
            (Of::Wait(of), Of::Wait(wanted)) => (of as usize == wanted as usize) as usize,
            _ => 0,
        };
        row += 1;
    }
    rows
}
