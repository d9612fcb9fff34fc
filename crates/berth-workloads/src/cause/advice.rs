//! The table of everything that a rollout may hang on: which is told first, what happens next by itself, and what a person can do.

use super::{Cause, Kind};
use crate::plan::Wait;
use std::fmt;

/// What a rollout hangs on: something in the way, or something left undone on purpose. `Display` gives its one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// In the way.
    Cause(Cause),
    /// Left undone.
    Wait(Wait),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cause(cause) => cause.fmt(f),
            Self::Wait(wait) => wait.fmt(f),
        }
    }
}

/// What of a line in the table it is that it tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Cause(Kind),
    /// By [`Wait::metric_label`].
    Wait(&'static str),
}

/// One line of the table.
struct Row {
    of: Of,
    /// What happens by itself, and when.
    next: &'static str,
    /// What a person can do, with a command: `{…}` are the names in [`Place`].
    to_do: &'static [(&'static str, &'static str)],
    /// Whether an earlier template may do better.
    undo: Undo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
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
static TABLE: [Row; 48] = {
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
                "see the taints, and tolerate or remove one; a node that is cordoned takes pods again after kubectl uncordon",
                "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
            )],
        ),
        row(
            Cause(K::UnschedulableVolume),
            Earlier,
            SCHEDULER_TRIES_AGAIN,
            &[("see which claims are missing or not bound", "kubectl get persistentvolumeclaims -n {namespace}")],
        ),
        row(Cause(K::Unschedulable), Earlier, SCHEDULER_TRIES_AGAIN, &[("see which nodes there are", "kubectl get nodes")]),
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
        row(Wait("pods_unavailable"), No, "it goes on by itself when they are available", &[]),
        row(
            Cause(K::Overlap),
            No,
            "each goes on with its own pods; one that loses its controller is taken by whichever looks first",
            &[("give one of them labels of its own, in its selector and its template", "kubectl get {workload} -o yaml -n {namespace}")],
        ),
    ]
};

/// What commands are about.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// `deployment/web`: what has the template.
    pub workload: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Whether there is an earlier template to go back to.
    pub has_earlier: bool,
    /// Pods that do not have the template that is wanted now, by name. To go back would only bring their template back.
    pub outdated: &'a [String],
    /// Whether another template alone replaces a pod that fails.
    pub replacement: Replacement,
}

/// What becomes of pods that fail when the template changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// They are replaced.
    #[default]
    ByItself,
    /// The update waits for them, as a rolling update of a StatefulSet does.
    ByHand {
        /// Whether the controllers act on `berth.dev/repair`.
        heeds_repair: bool,
    },
}

/// The ways out where the update waits for the pod (KEP-3541, "Motivation").
const WAYS_OUT: [(&str, &str); 2] = [
    (
        "delete the pod, so that it is created from the newest template: the update waits for it until then",
        "kubectl delete pod {pod} -n {namespace}",
    ),
    ("or have berth's controllers delete such pods", "kubectl annotate {workload} berth.dev/repair=Revision -n {namespace}"),
];

/// For a pod whose template is not the wanted one, where its controller replaces pods that fail.
const OUTDATED: (&str, &str) = (
    "its template is not the one that is wanted now: delete the pod, and its controller makes it with that one",
    "kubectl delete pod {pod} -n {namespace}",
);

/// For a pod that has the wanted template.
const GO_BACK: (&str, &str) = ("or go back to the template before", "berth rollout undo {workload} -n {namespace}");

/// What a person can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToDo {
    /// To what end.
    pub text: &'static str,
    /// For a shell. Names are quoted where they need it, so that it does what it says whatever a cluster calls its objects; words in capitals are for the
    /// reader to replace.
    pub command: String,
}

impl Obstacle {
    /// Its name for programs; never changed.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cause(cause) => cause.kind.reason(),
            Self::Wait(wait) => wait.metric_label(),
        }
    }

    /// What happens by itself, and when.
    #[must_use]
    pub fn next(&self) -> &'static str {
        TABLE[self.rank()].next
    }

    /// What a person can do about it.
    #[must_use]
    pub fn to_do(&self, place: Place<'_>) -> Vec<ToDo> {
        let row = &TABLE[self.rank()];
        let pod = self.pod().unwrap_or("POD");
        let fill = |command: &str| {
            let filled = [("{workload}", place.workload), ("{namespace}", place.namespace), ("{pod}", pod)];
            // What is filled in is not looked through again: a name may look like a place.
            pieces(command, &filled)
        };
        let is_outdated = self.pod().is_some_and(|pod| place.outdated.iter().any(|name| name == pod));
        let ways_out = match place.replacement {
            Replacement::ByHand { heeds_repair } if row.undo == Undo::MayHelp && self.pod().is_some() => {
                &WAYS_OUT[..if heeds_repair { 2 } else { 1 }]
            }
            _ => &[],
        };
        let filled = |&(text, command): &(&'static str, &str)| ToDo { text, command: fill(command) };
        if is_outdated && !ways_out.is_empty() {
            // Neither an image nor an earlier template reaches it.
            return ways_out.iter().map(filled).collect();
        }
        let mut to_do: Vec<_> = row.to_do.iter().map(filled).collect();
        match (row.undo, is_outdated) {
            (Undo::MayHelp, true) => to_do.push(filled(&OUTDATED)),
            (Undo::MayHelp, false) if place.has_earlier => to_do.push(filled(&GO_BACK)),
            _ => (),
        }
        to_do.extend(ways_out.iter().map(filled));
        to_do
    }

    fn rank(&self) -> usize {
        let is_of = |row: &Row| match (row.of, self) {
            (Of::Cause(kind), Self::Cause(cause)) => kind == cause.kind,
            (Of::Wait(label), Self::Wait(wait)) => label == wait.metric_label(),
            _ => false,
        };
        TABLE.iter().position(is_of).expect("a test holds the table against all kinds and waits")
    }

    /// The pod that it names.
    fn pod(&self) -> Option<&str> {
        match self {
            Self::Cause(cause) => (cause.about.kind == "Pod").then_some(&cause.about.name),
            Self::Wait(
                Wait::PodNotReady { pod, .. }
                | Wait::PodNotAvailable { pod, .. }
                | Wait::PodTerminating { pod, .. }
                | Wait::OutdatedPodNotReady { pod, .. }
                | Wait::ClaimLeaving { pod, .. }
                | Wait::NameTaken { pod },
            ) => Some(pod),
            Self::Wait(_) => None,
        }
    }
}

/// The one to tell first is first.
#[must_use]
pub fn ranked(causes: impl IntoIterator<Item = Cause>, waits: impl IntoIterator<Item = Wait>) -> Vec<Obstacle> {
    let (causes, waits) = (causes.into_iter().map(Obstacle::Cause), waits.into_iter().map(Obstacle::Wait));
    let mut all: Vec<_> = causes.chain(waits).collect();
    all.sort_by_key(Obstacle::rank);
    all
}

/// The command with these places filled, each by a word of a shell.
fn pieces(command: &str, filled: &[(&str, &str)]) -> String {
    let (mut rest, mut text) = (command, String::new());
    loop {
        let next = filled.iter().filter_map(|(place, name)| Some((rest.find(place)?, place, name))).min();
        let Some((at, place, name)) = next else { return text + rest };
        text += &rest[..at];
        text += &word(name);
        rest = &rest[at + place.len()..];
    }
}

/// One word of a shell, quoted where it would be more.
fn word(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:".contains(char);
    match name.chars().all(is_plain) && !name.is_empty() && !name.starts_with('-') {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::About, *};
    use crate::{
        analysis::{NoAnswer, Outcome},
        plan::{AtStep, Next},
        second_writer::{SecondWriter, Wrote},
    };

    fn cause(kind: Kind) -> Obstacle {
        let about = About { kind: "Pod", name: "web-1".to_owned() };
        Obstacle::Cause(Cause { kind, pods: 1, about, evidence: String::new() })
    }

    /// One of each.
    fn waits() -> Vec<Wait> {
        let pod = || "db-1".to_owned();
        let step = || AtStep { deployment: "web".to_owned(), step: 2, of: 3, percent: 10 };
        vec![
            Wait::PodsTerminating { pods: 1, then_create: 1, last: None },
            Wait::OldPodsRunning { pods: 1, then_create: 1 },
            Wait::PodsLeftBehind { pods: 1, then_create: 1 },
            Wait::PodsUnavailable { pods: 1, of: 1 },
            Wait::MinReady { pods: 1, seconds: 1 },
            Wait::BeingDeleted { kind: "Deployment".to_owned(), name: pod() },
            Wait::ChildNotObserved { name: pod() },
            Wait::Paused,
            Wait::StepLasts { at: step(), until: jiff::Timestamp::UNIX_EPOCH },
            Wait::StepPaused { at: step() },
            Wait::StepWithoutPods { at: step() },
            Wait::StepAnalysed { at: step(), provider: "prod".to_owned(), last: None },
            Wait::StepAnalysed { at: step(), provider: "prod".to_owned(), last: Some(NoAnswer::TimedOut) },
            Wait::StepFailed { at: step(), provider: "prod".to_owned(), outcome: Outcome::Unanswered { why: NoAnswer::TimedOut } },
            Wait::PodNotReady { pod: pod(), then: Some(Next::Replace(pod())) },
            Wait::PodNotAvailable { pod: pod(), then: None },
            Wait::PodTerminating { pod: pod(), last: None, then: None },
            Wait::OutdatedPodNotReady { pod: pod(), on_delete: false, unheeded: false },
            Wait::ClaimLeaving { claim: pod(), pod: pod() },
            Wait::NameTaken { pod: pod() },
            Wait::DeletionByHand { pods: 1 },
            Wait::Partition { pods: 1, from: 1 },
            Wait::SecondWriter(SecondWriter { manager: "kube-controller-manager".to_owned(), wrote: Wrote::Status }),
        ]
    }

    const PLACE: Place<'_> =
        Place { workload: "deployment/web", namespace: "shop", has_earlier: false, outdated: &[], replacement: Replacement::ByItself };

    #[test]
    fn everything_has_one_line_and_causes_keep_the_rank_of_their_kinds() {
        let all: Vec<_> = Kind::ALL.into_iter().map(cause).chain(waits().into_iter().map(Obstacle::Wait)).collect();
        let mut ranks: Vec<_> = all.iter().map(Obstacle::rank).collect();
        assert!(ranks[..Kind::ALL.len()].is_sorted());
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..TABLE.len()), "no line is left over, and none is of two");
    }

    #[test]
    fn what_is_in_the_way_is_told_before_what_waits_for_it() {
        let of = |kind: Kind| match cause(kind) {
            Obstacle::Cause(cause) => cause,
            Obstacle::Wait(wait) => panic!("{wait}"),
        };
        let told = ranked([of(Kind::Quota), of(Kind::Crash), of(Kind::NotObserved), of(Kind::Overlap)], waits());
        let reasons: Vec<_> = told.iter().map(Obstacle::reason).collect();
        let wanted = [
            "crash",
            "quota",
            "second_writer",
            "being_deleted",
            "outdated_pod_not_ready",
            "claim_leaving",
            "pods_terminating",
            "pod_terminating",
            "old_pods_running",
            "pods_left_behind",
            "deletion_by_hand",
            "partition",
            "paused",
            "step_paused",
            "step_without_pods",
            "step_failed",
            "step_unanswered",
            "step_analysed",
            "step_lasts",
            "not_observed",
            "child_not_observed",
            "name_taken",
            "pod_not_ready",
            "pod_not_available",
            "min_ready",
            "pods_unavailable",
            "overlap",
        ];
        assert_eq!(reasons, wanted);
    }

    #[test]
    fn every_line_says_what_comes_next_and_its_commands_are_filled() {
        for obstacle in Kind::ALL.into_iter().map(cause).chain(waits().into_iter().map(Obstacle::Wait)) {
            assert!(!obstacle.next().is_empty());
            for ToDo { text, command } in obstacle.to_do(PLACE) {
                assert!(
                    !text.is_empty() && ["{workload}", "{namespace}", "{pod}"].iter().all(|place| !command.contains(place)),
                    "{command}"
                );
            }
        }
    }

    fn commands(obstacle: &Obstacle, place: Place<'_>) -> Vec<String> {
        obstacle.to_do(place).into_iter().map(|to_do| to_do.command).collect()
    }

    #[test]
    fn going_back_is_named_where_the_template_may_be_at_fault_and_there_is_an_earlier_one() {
        let earlier = Place { has_earlier: true, ..PLACE };
        let logs = "kubectl logs web-1 --previous --all-containers -n shop";
        assert_eq!(commands(&cause(Kind::Crash), PLACE), [logs]);
        assert_eq!(commands(&cause(Kind::Crash), earlier), [logs, "berth rollout undo deployment/web -n shop"]);
        let outdated = ["web-1".to_owned()];
        let undone = Place { outdated: &outdated, ..earlier };
        assert_eq!(
            commands(&cause(Kind::Crash), undone),
            [logs, "kubectl delete pod web-1 -n shop"],
            "the template before is the broken one"
        );
        assert_eq!(commands(&cause(Kind::Quota), earlier), ["kubectl describe resourcequotas -n shop"]);
    }

    /// KEP-3541: a new template does not replace a pod that a rolling update waits for.
    #[test]
    fn where_the_update_waits_for_the_pod_the_ways_out_are_named() {
        let (none, older) = ([], ["web-1".to_owned()]);
        let place = |outdated| Place { has_earlier: true, outdated, replacement: Replacement::ByHand { heeds_repair: true }, ..PLACE };
        let ways_out = ["kubectl delete pod web-1 -n shop", "kubectl annotate deployment/web berth.dev/repair=Revision -n shop"];
        let (set_image, undo) = ("kubectl set image deployment/web '*=IMAGE' -n shop", "berth rollout undo deployment/web -n shop");
        assert_eq!(commands(&cause(Kind::ImagePull), place(&none)), [&[set_image, undo][..], &ways_out].concat());
        assert_eq!(commands(&cause(Kind::ImagePull), place(&older)), ways_out, "neither an image nor an undo helps it any more");
        let unheeded = Place { replacement: Replacement::ByHand { heeds_repair: false }, ..place(&older) };
        assert_eq!(commands(&cause(Kind::ImagePull), unheeded), ways_out[..1], "its controllers do not know the annotation");
        assert_eq!(commands(&cause(Kind::Quota), place(&older)), ["kubectl describe resourcequotas -n shop"]);
    }

    #[test]
    fn a_name_is_one_word_of_a_shell_whatever_it_is() {
        let about = About { kind: "Pod", name: "a'; rm -rf ~ #{namespace}".to_owned() };
        let crash = Obstacle::Cause(Cause { kind: Kind::Crash, pods: 1, about, evidence: String::new() });
        let hostile = Place { namespace: "$(reboot)", ..PLACE };
        let wanted = r"kubectl logs 'a'\''; rm -rf ~ #{namespace}' --previous --all-containers -n '$(reboot)'";
        assert_eq!(commands(&crash, hostile), [wanted]);
        assert_eq!(["web-1", "--force", "", "a b"].map(word), ["web-1", "'--force'", "''", "'a b'"]);
    }
}
