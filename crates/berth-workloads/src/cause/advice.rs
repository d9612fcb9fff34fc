//! Everything that can block a rollout: which obstacle is reported first, what happens next, and what a user can do. The texts are in
//! `table.rs`.

use super::{
    Cause,
    table::{Of, Row, SET_IMAGE, SET_RESOURCES, TABLE, Undo},
};
use crate::plan::Wait;
use std::fmt;

/// What blocks a rollout: a cause, or a deliberate wait of its controller. `Display` gives its only text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Something blocks the rollout.
    Cause(Cause),
    /// The controller waits deliberately.
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

/// The names that commands contain.
#[derive(Clone, Copy, Debug)]
pub struct AdviceContext<'a> {
    /// The workload that has the template: `deployment/web`.
    pub workload: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Whether an earlier template exists that a rollback can return to.
    pub has_earlier: bool,
    /// The names of pods that do not have the current template. A rollback would only bring their template back.
    pub outdated: &'a [String],
    /// Whether a new template alone replaces a failing pod.
    pub replacement: Replacement,
}

/// What a change of the template does to failing pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The controller replaces them.
    #[default]
    ByItself,
    /// The update waits for them, as a rolling update of a StatefulSet does.
    ByHand {
        /// Whether the controllers act on `berth.dev/repair`.
        supports_repair: bool,
    },
    /// They keep their template until a client deletes them, as under a ReplicationController or `OnDelete`.
    OnDeletion,
    /// The template cannot change, as that of a Job.
    Immutable,
}

/// The remedies if the update waits for the pod (KEP-3541, "Motivation").
const WAYS_OUT: [(&str, &str); 2] = [
    (
        "delete the pod, so that its controller creates it from the newest template. The update waits for that",
        "kubectl delete pod {pod} -n {namespace}",
    ),
    ("or let berth's controllers delete such pods", "kubectl annotate {workload} berth.dev/repair=Revision -n {namespace}"),
];

/// The remedy for a pod with an outdated template whose controller replaces failing pods.
const OUTDATED: (&str, &str) = (
    "it has an old template: delete the pod, so that its controller creates it from the newest one",
    "kubectl delete pod {pod} -n {namespace}",
);

/// The remedy for a pod that a change of the template does not reach.
const DELETE: (&str, &str) =
    ("and delete the pod afterward, because only its replacement has the changed template", "kubectl delete pod {pod} -n {namespace}");

/// The remedy for a workload whose template cannot change.
const RECREATE: (&str, &str) = (
    "change its manifest, and delete and create it again, because its template is immutable",
    "kubectl replace --force -f MANIFEST -n {namespace}",
);

/// The remedy for a pod that has the current template.
const GO_BACK: (&str, &str) = ("or roll back to the previous template", "berth rollout undo {workload} -n {namespace}");

/// What a user can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToDo {
    /// The purpose.
    pub text: &'static str,
    /// The shell command. Names are quoted where necessary, so that no object's name can change its meaning. The user replaces words in
    /// capitals.
    pub command: String,
}

impl Obstacle {
    /// The name for programs. It never changes.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cause(cause) => cause.kind.reason(),
            Self::Wait(wait) => wait.metric_label(),
        }
    }

    /// What happens without a user, and when.
    #[must_use]
    pub fn next(&self) -> &'static str {
        TABLE[self.rank()].next
    }

    /// What a user can do about it.
    #[must_use]
    pub fn to_do(&self, place: AdviceContext<'_>) -> Vec<ToDo> {
        let row = &TABLE[self.rank()];
        let pod = self.pod().unwrap_or("POD");
        let fill = |command: &str| {
            let filled = [("{workload}", place.workload), ("{namespace}", place.namespace), ("{pod}", pod)];
            // Filled-in names are not searched for placeholders again.
            pieces(command, &filled)
        };
        let is_outdated = self.pod().is_some_and(|pod| place.outdated.iter().any(|name| name == pod));
        let ways_out = match place.replacement {
            Replacement::ByHand { supports_repair } if row.undo == Undo::MayHelp && self.pod().is_some() => {
                &WAYS_OUT[..if supports_repair { 2 } else { 1 }]
            }
            _ => &[],
        };
        let filled = |&(text, command): &(&'static str, &str)| ToDo { text, command: fill(command) };
        if is_outdated && !ways_out.is_empty() {
            // Neither a new image nor an earlier template reaches such a pod.
            return ways_out.iter().map(filled).collect();
        }
        let is_possible = |advice: &&(&'static str, &'static str)| {
            place.replacement != Replacement::Immutable || ![SET_IMAGE, SET_RESOURCES].contains(advice)
        };
        let mut to_do: Vec<_> = row.to_do.iter().filter(is_possible).map(filled).collect();
        match (row.undo, is_outdated) {
            (Undo::MayHelp, true) => to_do.push(filled(&OUTDATED)),
            (Undo::MayHelp, false) if place.has_earlier => to_do.push(filled(&GO_BACK)),
            _ => (),
        }
        match place.replacement {
            Replacement::OnDeletion if row.undo == Undo::MayHelp && self.pod().is_some() && !is_outdated => to_do.push(filled(&DELETE)),
            Replacement::Immutable if row.undo == Undo::MayHelp => to_do.push(filled(&RECREATE)),
            _ => to_do.extend(ways_out.iter().map(filled)),
        }
        to_do
    }

    fn rank(&self) -> usize {
        let is_of = |row: &Row| match (row.of, self) {
            (Of::Cause(kind), Self::Cause(cause)) => kind == cause.kind,
            (Of::Wait(kind), Self::Wait(wait)) => kind == wait.kind(),
            _ => false,
        };
        TABLE.iter().position(is_of).expect("the table has a row for each kind, which is checked when it is compiled")
    }

    /// The pod that the obstacle names.
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

/// The remedy for a workload that has ended without success and whose template cannot change.
#[must_use]
pub fn recreate(place: AdviceContext<'_>) -> ToDo {
    ToDo { text: RECREATE.0, command: pieces(RECREATE.1, &[("{namespace}", place.namespace)]) }
}

/// Sorts the obstacles by rank: the first one is reported first.
#[must_use]
pub fn ranked(causes: impl IntoIterator<Item = Cause>, waits: impl IntoIterator<Item = Wait>) -> Vec<Obstacle> {
    let (causes, waits) = (causes.into_iter().map(Obstacle::Cause), waits.into_iter().map(Obstacle::Wait));
    let mut all: Vec<_> = causes.chain(waits).collect();
    all.sort_by_key(Obstacle::rank);
    all
}

/// The command with these placeholders filled. Each name becomes one shell word.
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

/// One shell word, quoted if necessary.
fn word(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:".contains(char);
    match name.chars().all(is_plain) && !name.is_empty() && !name.starts_with('-') {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{About, Kind},
        *,
    };
    use crate::{
        analysis::{NoAnswer, Outcome},
        plan::{AtStep, Next},
        second_writer::{SecondWriter, Wrote},
    };
    use berth_identity::Ordinal;

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
            Wait::Settling { pods: 1, seconds: 10 },
            Wait::BeingDeleted { kind: "Deployment".to_owned(), name: pod() },
            Wait::ChildNotObserved { name: pod() },
            Wait::Paused,
            Wait::StepLasts { at: step(), until: jiff::Timestamp::UNIX_EPOCH },
            Wait::StepSettles { at: step(), seconds: 10, until: None },
            Wait::StepPaused { at: step() },
            Wait::StepWithoutPods { at: step() },
            Wait::StepAnalyzed { at: step(), provider: "prod".to_owned(), last: None },
            Wait::StepAnalyzed { at: step(), provider: "prod".to_owned(), last: Some(NoAnswer::TimedOut) },
            Wait::StepFailed { at: step(), provider: "prod".to_owned(), outcome: Outcome::Unanswered { why: NoAnswer::TimedOut } },
            Wait::PodNotReady { pod: pod(), then: Some(Next::Replace(pod())) },
            Wait::PodNotAvailable { pod: pod(), then: None },
            Wait::PodTerminating { pod: pod(), last: None, then: None },
            Wait::OutdatedPodNotReady { pod: pod(), on_delete: false, unheeded: false },
            Wait::ClaimLeaving { claim: pod(), pod: pod() },
            Wait::NameTaken { pod: pod() },
            Wait::DeletionByHand { pods: 1 },
            Wait::Partition { pods: 1, from: Ordinal(1) },
            Wait::JobSuspended,
            Wait::PodBackoff { pods: 1, failures: 1, until: jiff::Timestamp::UNIX_EPOCH },
            Wait::JobEnding { pods: 1 },
            Wait::ManagedBy { controller: "example.com/queue".to_owned() },
            Wait::JobActive { job: "backup-1".to_owned() },
            Wait::JobNameTaken { job: "backup-1".to_owned() },
            Wait::CronJobSuspended,
            Wait::SecondWriter(SecondWriter { manager: "kube-controller-manager".to_owned(), wrote: Wrote::Status }),
        ]
    }

    const CONTEXT: AdviceContext<'_> = AdviceContext {
        workload: "deployment/web",
        namespace: "shop",
        has_earlier: false,
        outdated: &[],
        replacement: Replacement::ByItself,
    };

    #[test]
    fn everything_has_one_line_and_causes_keep_the_rank_of_their_kinds() {
        let all: Vec<_> = Kind::ALL.into_iter().map(cause).chain(waits().into_iter().map(Obstacle::Wait)).collect();
        let mut ranks: Vec<_> = all.iter().map(Obstacle::rank).collect();
        assert!(ranks[..Kind::ALL.len()].is_sorted());
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..TABLE.len()), "no line is left over, and none is of two");
    }

    #[test]
    fn causes_are_ranked_before_the_waits_for_them() {
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
            "managed_by",
            "job_suspended",
            "pod_backoff",
            "job_ending",
            "job_active",
            "job_name_taken",
            "cron_job_suspended",
            "paused",
            "step_paused",
            "step_without_pods",
            "step_failed",
            "step_unanswered",
            "step_analysed",
            "step_lasts",
            "step_settles",
            "not_observed",
            "child_not_observed",
            "name_taken",
            "pod_not_ready",
            "pod_not_available",
            "min_ready",
            "settling",
            "pods_unavailable",
            "overlap",
        ];
        assert_eq!(reasons, wanted);
    }

    #[test]
    fn every_obstacle_states_what_comes_next_and_its_commands_are_filled() {
        for obstacle in Kind::ALL.into_iter().map(cause).chain(waits().into_iter().map(Obstacle::Wait)) {
            assert!(!obstacle.next().is_empty());
            for ToDo { text, command } in obstacle.to_do(CONTEXT) {
                assert!(
                    !text.is_empty() && ["{workload}", "{namespace}", "{pod}"].iter().all(|place| !command.contains(place)),
                    "{command}"
                );
            }
        }
    }

    fn commands(obstacle: &Obstacle, place: AdviceContext<'_>) -> Vec<String> {
        obstacle.to_do(place).into_iter().map(|to_do| to_do.command).collect()
    }

    #[test]
    fn going_back_is_named_where_the_template_may_be_at_fault_and_there_is_an_earlier_one() {
        let earlier = AdviceContext { has_earlier: true, ..CONTEXT };
        let logs = "kubectl logs web-1 --previous --all-containers -n shop";
        assert_eq!(commands(&cause(Kind::Crash), CONTEXT), [logs]);
        assert_eq!(commands(&cause(Kind::Crash), earlier), [logs, "berth rollout undo deployment/web -n shop"]);
        let outdated = ["web-1".to_owned()];
        let undone = AdviceContext { outdated: &outdated, ..earlier };
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
        let place =
            |outdated| AdviceContext { has_earlier: true, outdated, replacement: Replacement::ByHand { supports_repair: true }, ..CONTEXT };
        let ways_out = ["kubectl delete pod web-1 -n shop", "kubectl annotate deployment/web berth.dev/repair=Revision -n shop"];
        let (set_image, undo) = ("kubectl set image deployment/web '*=IMAGE' -n shop", "berth rollout undo deployment/web -n shop");
        assert_eq!(commands(&cause(Kind::ImagePull), place(&none)), [&[set_image, undo][..], &ways_out].concat());
        assert_eq!(commands(&cause(Kind::ImagePull), place(&older)), ways_out, "neither an image nor an undo helps it any more");
        let unheeded = AdviceContext { replacement: Replacement::ByHand { supports_repair: false }, ..place(&older) };
        assert_eq!(commands(&cause(Kind::ImagePull), unheeded), ways_out[..1], "its controllers do not know the annotation");
        assert_eq!(commands(&cause(Kind::Quota), place(&older)), ["kubectl describe resourcequotas -n shop"]);
    }

    #[test]
    fn a_template_that_cannot_change_or_reaches_no_existing_pod_is_replaced_with_the_workload_or_the_pod() {
        let recreate = "kubectl replace --force -f MANIFEST -n shop";
        let job = AdviceContext { replacement: Replacement::Immutable, ..CONTEXT };
        assert_eq!(commands(&cause(Kind::ImagePull), job), [recreate]);
        assert_eq!(commands(&cause(Kind::UnschedulableResources), job), ["kubectl describe nodes", recreate]);
        assert_eq!(commands(&cause(Kind::Quota), job), ["kubectl describe resourcequotas -n shop"]);
        let by_hand = AdviceContext { replacement: Replacement::OnDeletion, ..CONTEXT };
        let delete = "kubectl delete pod web-1 -n shop";
        assert_eq!(
            commands(&cause(Kind::ImagePull), by_hand),
            ["kubectl set image deployment/web '*=IMAGE' -n shop", delete],
            "the change alone replaces nothing"
        );
        let outdated = ["web-1".to_owned()];
        let undone = AdviceContext { outdated: &outdated, ..by_hand };
        assert_eq!(commands(&cause(Kind::Crash), undone)[1..], [delete]);
    }

    #[test]
    fn a_name_is_one_word_of_a_shell_whatever_it_is() {
        let about = About { kind: "Pod", name: "a'; rm -rf ~ #{namespace}".to_owned() };
        let crash = Obstacle::Cause(Cause { kind: Kind::Crash, pods: 1, about, evidence: String::new() });
        let hostile = AdviceContext { namespace: "$(reboot)", ..CONTEXT };
        let wanted = r"kubectl logs 'a'\''; rm -rf ~ #{namespace}' --previous --all-containers -n '$(reboot)'";
        assert_eq!(commands(&crash, hostile), [wanted]);
        assert_eq!(["web-1", "--force", "", "a b"].map(word), ["web-1", "'--force'", "''", "'a b'"]);
    }
}
