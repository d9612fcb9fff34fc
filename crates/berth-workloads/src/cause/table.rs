//! The table of everything that a rollout may hang on: a line each, first to last.

use super::Kind;

/// What of a line in the table it is that it tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Cause(Kind),
    /// By [`crate::plan::Wait::metric_label`].
    Wait(&'static str),
}

/// One line of the table.
pub(super) struct Row {
    pub(super) of: Of,
    /// What happens by itself, and when.
    pub(super) next: &'static str,
    /// What a person can do, with a command: `{…}` are the names in [`super::Place`].
    pub(super) to_do: &'static [(&'static str, &'static str)],
    /// Whether an earlier template may do better.
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

const PODS_TRY_AGAIN: &str = "its controller tries to create the pods again and again, later each time";
const SCHEDULER_TRIES_AGAIN: &str = "the scheduler tries again whenever nodes or pods change, and every five minutes";
const DESCRIBE_POD: (&str, &str) = ("see what its node says of it", "kubectl describe pod {pod} -n {namespace}");

/// Everything, first to last: what comes first in it is told first. Waits stand behind what is in the way, for that is what they last so long for; but before
/// what is only a suspicion.
pub(super) static TABLE: [Row; 53] = {
    use self::Undo::{DoesNotHelp as No, MayHelp as Earlier};
    use Kind as K;
    use Of::{Cause, Wait};
    [
        row(
            Cause(K::ImagePull),
            Earlier,
            "its node tries to pull again and again, at most five minutes apart",
            &[("name an image that is there", "kubectl set image {workload} '*=IMAGE' -n {namespace}")],
        ),
        row(
            Cause(K::ContainerConfig),
            Earlier,
            "its node tries to start the container again and again; it starts once what it needs is there",
            &[DESCRIBE_POD, ("see what there is to use", "kubectl get configmaps,secrets -n {namespace}")],
        ),
        row(
            Cause(K::Crash),
            Earlier,
            "its node starts the container again, after a pause that doubles up to five minutes",
            &[("read what it printed before it ended", "kubectl logs {pod} --previous --all-containers -n {namespace}")],
        ),
        row(Cause(K::PodFailed), Earlier, "its controller makes another pod in its place", &[DESCRIBE_POD]),
        row(
            Cause(K::NodeLost),
            No,
            "it is ready again when its node answers; it is evicted when its tolerations of that end",
            &[
                ("see which nodes do not answer", "kubectl get nodes"),
                (
                    "if its node is gone for good, and only then: the pod may still run there",
                    "kubectl delete pod {pod} --grace-period=0 --force -n {namespace}",
                ),
            ],
        ),
        row(
            Cause(K::NotReady),
            Earlier,
            "its node goes on asking the readiness probe; the pod counts as soon as that answers well",
            &[
                ("read what it prints", "kubectl logs {pod} --all-containers -n {namespace}"),
                ("see what the probe says", "kubectl describe pod {pod} -n {namespace}"),
            ],
        ),
        row(
            Cause(K::UnschedulableResources),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[
                ("see what nodes have and what is asked of them", "kubectl describe nodes"),
                ("ask for less", "kubectl set resources {workload} --requests=cpu=CPU,memory=MEMORY -n {namespace}"),
            ],
        ),
        row(
            Cause(K::UnschedulableAffinity),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[("compare the nodes' labels with what the pod selects", "kubectl get nodes --show-labels")],
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
            "its provisioner tries again and again",
            &[
                ("see what the claims say", "kubectl describe persistentvolumeclaims -n {namespace}"),
                ("see which StorageClasses there are", "kubectl get storageclasses"),
            ],
        ),
        row(
            Cause(K::UnschedulableCordoned),
            No,
            "nothing, until a node takes pods again: then the scheduler tries again",
            &[("see which nodes are cordoned", "kubectl get nodes"), ("let one take pods again", "kubectl uncordon NODE")],
        ),
        row(Cause(K::Unschedulable), Earlier, SCHEDULER_TRIES_AGAIN, &[("see which nodes there are", "kubectl get nodes")]),
        row(
            Cause(K::ResourceClaim),
            Earlier,
            "the scheduler tries again when the claim is there",
            &[("see which there are", "kubectl get resourceclaims -n {namespace}")],
        ),
        row(
            Cause(K::SchedulingGated),
            No,
            "nothing, until whoever set the gates takes them away",
            &[("see the gates", "kubectl get pod {pod} -o jsonpath='{.spec.schedulingGates}' -n {namespace}")],
        ),
        row(Cause(K::Quota), No, PODS_TRY_AGAIN, &[("see what the quotas leave", "kubectl describe resourcequotas -n {namespace}")]),
        row(Cause(K::LimitRange), Earlier, PODS_TRY_AGAIN, &[("see the limits", "kubectl describe limitranges -n {namespace}")]),
        row(
            Cause(K::PodSecurity),
            Earlier,
            PODS_TRY_AGAIN,
            &[("see the namespace's level, and bring the pod template to it", "kubectl get namespace {namespace} --show-labels")],
        ),
        row(
            Cause(K::Webhook),
            No,
            PODS_TRY_AGAIN,
            &[("see who is asked", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations")],
        ),
        row(
            Cause(K::Refused),
            Earlier,
            PODS_TRY_AGAIN,
            &[("see what is tried", "kubectl get events -n {namespace} --sort-by=.lastTimestamp")],
        ),
        row(
            Cause(K::Volume),
            Earlier,
            "its node tries again and again, at most two minutes apart",
            &[("see what there is to mount", "kubectl get persistentvolumeclaims,configmaps,secrets -n {namespace}"), DESCRIBE_POD],
        ),
        row(Cause(K::NotStarted), No, "its node goes on starting it", &[DESCRIBE_POD]),
        row(
            Cause(K::Finalizer),
            No,
            "nothing, until whoever set the finalizer removes it",
            &[(
                "if whoever set it is gone for good, and only then, remove all finalizers by hand",
                "kubectl patch pod {pod} --type=merge -p '{\"metadata\":{\"finalizers\":null}}' -n {namespace}",
            )],
        ),
        row(
            Cause(K::TerminationOverdue),
            No,
            "nothing, until its node tells that it has ended",
            &[
                ("see whether its node is well", "kubectl get nodes"),
                (
                    "if its node is gone for good, and only then: the pod may still run elsewhere",
                    "kubectl delete pod {pod} --grace-period=0 --force -n {namespace}",
                ),
            ],
        ),
        row(
            Cause(K::Budget),
            No,
            "whoever empties the node asks again; it may go once more pods are healthy than the budget needs",
            &[("see the budgets", "kubectl get poddisruptionbudgets -n {namespace}")],
        ),
        row(
            Cause(K::NotScheduled),
            No,
            "nothing, until a scheduler looks at it",
            &[
                ("see whether a scheduler runs", "kubectl get leases -n kube-system"),
                ("see which one the pod waits for", "kubectl get pod {pod} -o jsonpath='{.spec.schedulerName}' -n {namespace}"),
            ],
        ),
        row(
            Wait("second_writer"),
            No,
            "nothing: berth does not act on it again before its controllers are restarted",
            &[("see which field managers write it", "kubectl get {workload} -o yaml --show-managed-fields -n {namespace}")],
        ),
        row(
            Wait("being_deleted"),
            No,
            "it is gone when its pods are, and no finalizer holds it; what is deleted with its namespace cannot be created again before that is gone",
            &[("see what holds it", "kubectl get {workload} -o jsonpath='{.metadata.finalizers}' -n {namespace}")],
        ),
        row(
            Wait("outdated_pod_not_ready"),
            No,
            "nothing: pods come and go in order, each waits for the one before it, a broken one of an older template too",
            &[("let that pod be made anew", "kubectl delete pod {pod} -n {namespace}")],
        ),
        row(
            Wait("claim_leaving"),
            No,
            "its pod is created as soon as the claim is gone",
            &[("see who holds the claim", "kubectl describe persistentvolumeclaims -n {namespace}")],
        ),
        row(
            Wait("pods_terminating"),
            No,
            "it goes on by itself when they are gone, at the latest when their grace period is over",
            &[("see them", "kubectl get pods -n {namespace}")],
        ),
        row(Wait("pod_terminating"), No, "it goes on by itself when the pod is gone", &[]),
        row(Wait("old_pods_running"), No, "it goes on by itself when they are gone", &[]),
        row(
            Wait("pods_left_behind"),
            No,
            "it goes on by itself when the garbage collector has deleted them",
            &[("see them", "kubectl get pods -n {namespace}")],
        ),
        row(
            Wait("deletion_by_hand"),
            No,
            "nothing: with OnDelete a pod is replaced when somebody deletes it",
            &[("delete the older pods, one after the other", "kubectl get pods -L controller-revision-hash -n {namespace}")],
        ),
        row(
            Wait("partition"),
            No,
            "nothing, until the partition is lowered",
            &[(
                "update all pods",
                "kubectl patch {workload} --type=merge -p '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"partition\":0}}}}' -n {namespace}",
            )],
        ),
        row(Wait("paused"), No, "nothing, until it is resumed", &[("resume it", "berth rollout resume {workload} -n {namespace}")]),
        row(
            Wait("step_paused"),
            Earlier,
            "nothing, until somebody says that the next step may come",
            &[("let it go on", "berth rollout promote {workload} -n {namespace}")],
        ),
        row(
            Wait("step_without_pods"),
            Earlier,
            "nothing, until the workload wants pods again: then the step begins with its share of them",
            &[],
        ),
        row(
            Wait("step_failed"),
            Earlier,
            "its controller goes back to the last revision that was complete; where it stays, its events say why",
            &[
                ("see why it stays", "kubectl describe {workload} -n {namespace}"),
                ("let it go on all the same", "berth rollout promote {workload} -n {namespace}"),
            ],
        ),
        row(
            Wait("step_unanswered"),
            Earlier,
            "it is asked again, at most a minute later each time; it goes back when nobody has answered for as long as the progress deadline",
            &[
                ("see who is asked, and what", "kubectl get {workload} -o jsonpath='{.metadata.annotations}' -n {namespace}"),
                ("let it go on now", "berth rollout promote {workload} -n {namespace}"),
            ],
        ),
        row(
            Wait("step_analysed"),
            No,
            "it goes on, or back, as soon as the provider has answered",
            &[("let it go on now", "berth rollout promote {workload} -n {namespace}")],
        ),
        row(
            Wait("step_lasts"),
            No,
            "it goes on by itself at that time",
            &[("let it go on now", "berth rollout promote {workload} -n {namespace}")],
        ),
        row(
            Wait("step_settles"),
            No,
            "it goes on by itself at that time, if its pods stay available until then",
            &[("see whether they do", "kubectl get pods -n {namespace}")],
        ),
        row(
            Cause(K::NotObserved),
            No,
            "nothing, until its controller runs and sees it",
            &[
                ("see whether the controllers run, and who leads", "kubectl get leases -n kube-system"),
                ("with berth up: see whether it is well", "kubectl get --raw '/readyz?verbose'"),
            ],
        ),
        row(
            Wait("child_not_observed"),
            No,
            "it goes on as soon as the controller of that ReplicaSet has seen it; if that lasts, the controller does not run",
            &[],
        ),
        row(
            Wait("name_taken"),
            No,
            "nothing, until the pod of that name is gone",
            &[("see whose it is", "kubectl get pod {pod} -o jsonpath='{.metadata.ownerReferences}' -n {namespace}")],
        ),
        row(Wait("pod_not_ready"), No, "it goes on by itself when the pod is ready", &[]),
        row(Wait("pod_not_available"), No, "it goes on by itself when minReadySeconds are over", &[]),
        row(Wait("min_ready"), No, "it goes on by itself when they have been ready for so long", &[]),
        row(Wait("settling"), No, "it is complete at that time, if its pods stay available until then", &[]),
        row(Wait("pods_unavailable"), No, "it goes on by itself when they are available", &[]),
        row(
            Cause(K::Overlap),
            No,
            "each goes on with its own pods; one that loses its controller is taken by whichever looks first",
            &[("give one of them labels of its own, in its selector and its template", "kubectl get {workload} -o yaml -n {namespace}")],
        ),
    ]
};
