//! A forecast in a few sentences, for the confirmation of an action.

use crate::{
    forecast::{Forecast, Life, Outcome, StepKind, WorkloadForecast},
    pod_timings::Source,
    text::{Shown, pods},
};
use berth_workloads::pod_state::PodState;

/// How many problems, and how many unreadable objects, are listed.
const NAMED_MAX: usize = 3;

/// The effects on pods, as sentences. They can contain control characters from the cluster's objects.
#[must_use]
pub fn consequences(forecast: &Forecast) -> Vec<String> {
    let mut sentences: Vec<String> = forecast.workloads.iter().flat_map(of_workload).collect();
    sentences
        .extend(forecast.troubles.iter().take(NAMED_MAX).map(|trouble| format!("After {}: {}.", Shown(trouble.at), whole(&trouble.text))));
    let supposed = &forecast.supposed;
    sentences.extend(supposed.missing.iter().take(NAMED_MAX).map(|missing| format!("This is partial: {}.", whole(missing))));
    let unknown = |what: &str, why: &Option<String>| why.as_ref().map(|why| format!("{what}: {}.", whole(why)));
    sentences.extend(unknown("The feature gates of the controllers are unknown", &supposed.unknown_gates));
    sentences.extend(unknown("It is unknown whether admission accepts the pods", &supposed.unasked_pods));
    sentences
}

/// The text without its final period.
fn whole(text: &str) -> &str {
    text.trim_end_matches('.')
}

fn of_workload(workload: &WorkloadForecast) -> Vec<String> {
    let (created, deleted) = (created(workload), deleted(workload));
    let mut sentences = vec![match (deleted, created) {
        (0, 0) => "No pod is deleted or created.".to_owned(),
        (0, _) => format!("{} created{}.", are(created), stay(workload, created)),
        (_, 0) => format!("{} deleted{}.", are(deleted), stay(workload, created)),
        _ => format!("{} deleted, {created} created{}.", are(deleted), stay(workload, created)),
    }];
    if 0 < created + deleted {
        let (most, least) = (workload.pods.value, workload.available.value);
        sentences.push(format!("At most {} exist at once, including terminating pods; at least {least} are available.", pods(most.into())));
    }
    sentences.push(end(workload));
    if 0 < deleted && workload.stop.source == Source::GracePeriod {
        let stop = Shown(workload.stop.typical);
        sentences.push(format!("Times assume that pods take their full grace period, {stop}, to stop."));
    }
    sentences
}

/// `1 pod is`, `4 pods are`.
fn are(count: u64) -> String {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    format!("{} {}", pods(count), if count == 1 { "is" } else { "are" })
}

fn created(workload: &WorkloadForecast) -> u64 {
    let count = |kind: &StepKind| if let StepKind::CreatePods { count, .. } = kind { u64::from(*count) } else { 0 };
    workload.steps.iter().map(|step| count(&step.kind)).sum()
}

fn deleted(workload: &WorkloadForecast) -> u64 {
    let count =
        |kind: &StepKind| if let StepKind::DeletePods { pods, .. } = kind { u64::try_from(pods.len()).unwrap_or(u64::MAX) } else { 0 };
    workload.steps.iter().map(|step| count(&step.kind)).sum()
}

/// How many of the pods before the change remain at the end: those at the end that were not created meanwhile. Empty for workloads with too
/// many pods to follow individually.
fn stay(workload: &WorkloadForecast, created: u64) -> String {
    let is_left = |life: &&Life| life.gone.is_none() && life.states.last().is_some_and(|last| last.is != PodState::Terminating);
    let left = u64::try_from(workload.lives.iter().filter(is_left).count()).unwrap_or(u64::MAX);
    match left.saturating_sub(created) {
        0 => String::new(),
        1 => ", 1 stays".to_owned(),
        count => format!(", {count} stay"),
    }
}

fn end(workload: &WorkloadForecast) -> String {
    let back = if workload.rolled_back { "It rolls back to its previous template automatically. " } else { "" };
    match &workload.outcome {
        Outcome::Complete { after, settled_after } if settled_after <= after => format!("{back}It is complete after {}.", Shown(*after)),
        Outcome::Complete { after, settled_after } => {
            format!("{back}It is complete after {}, and its last replaced pod is deleted after {}.", Shown(*after), Shown(*settled_after))
        }
        Outcome::Held { after, why, .. } => format!("{back}It is held after {}{}.", Shown(*after), because(why)),
        Outcome::Stuck { after, why } => {
            format!("{back}It is never complete: no further progress after {}{}.", Shown(*after), because(why))
        }
    }
}

fn because(why: &[String]) -> String {
    if why.is_empty() { String::new() } else { format!(", because {}", why.iter().map(|why| whole(why)).collect::<Vec<_>>().join("; ")) }
}
