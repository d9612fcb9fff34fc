//! Forecasts as text for users. Text from objects can contain control characters, so a caller that prints it to a terminal escapes it.

use crate::{
    autoscalers::{AutoscalerChange, AutoscalerForecast, AutoscalerUsage},
    compare::{Alternative, Spread},
    extensions::UnevaluatedRule,
    forecast::{Forecast, OtherForecast, OtherOutcome, Outcome, Peak, Step, StepKind, WorkloadForecast},
    pod_timings::{Source, Timing},
};
use berth_api::annotations::SIM_COMPLETES_AFTER;
use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter, Write},
    time::Duration,
};

/// How many steps of one workload are printed. The rest is only in JSON.
const STEPS_MAX: usize = 40;
/// Shorter waits are not shown.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// How many names or rules one step contains.
const NAMES_MAX: usize = 3;

/// A duration for users: `0s`, `2.5s`, `3m20s`.
pub(crate) struct Shown(pub(crate) Duration);

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tenths = (self.0.as_millis() + 50) / 100;
        let (hours, minutes, rest) = (tenths / 36_000, tenths / 600 % 60, tenths % 600);
        let seconds = match (rest % 10, tenths < 1000) {
            (fraction @ 1.., true) => format!("{}.{fraction}s", rest / 10),
            _ => format!("{}s", rest / 10),
        };
        match (hours, minutes) {
            (0, 0) => f.pad(&seconds),
            (0, _) => f.pad(&format!("{minutes}m{seconds}")),
            _ => f.pad(&format!("{hours}h{minutes}m{seconds}")),
        }
    }
}

/// The whole forecast.
#[must_use]
pub fn text(forecast: &Forecast, spread: Option<&Spread>) -> String {
    let mut out = String::new();
    write(&mut out, forecast, spread).expect("writing to a String does not fail");
    out
}

fn write(out: &mut String, forecast: &Forecast, spread: Option<&Spread>) -> fmt::Result {
    write_suppositions(out, forecast)?;
    for workload in &forecast.workloads {
        writeln!(out)?;
        write_workload(out, workload, &forecast.autoscalers)?;
    }
    for other in &forecast.others {
        writeln!(out)?;
        write_other(out, other)?;
    }
    for quota in &forecast.quotas {
        writeln!(out, "  quota {}: at most {} of {} {}, at {}", quota.name, quota.used, quota.hard, quota.resource, Shown(quota.at))?;
    }
    for room in &forecast.nodes {
        let [free, all] = amounts(&room.resource, [room.least_free.value, room.allocatable]);
        writeln!(out, "  nodes: at least {free} of {all} {} free, at {}", room.resource, Shown(room.least_free.at))?;
    }
    if !forecast.troubles.is_empty() {
        writeln!(out, "\nProblems:")?;
    }
    for trouble in &forecast.troubles {
        writeln!(out, "  {:>7}  {}", Shown(trouble.at), trouble.text)?;
    }
    if let Some(spread) = spread {
        let Spread { runs, complete, p50, p95, pods, available } = spread;
        writeln!(out, "\n{runs} runs with other seeds: {complete} complete, 50% within {}, 95% within {};", Shown(*p50), Shown(*p95))?;
        writeln!(out, "at most {pods} pods, at least {available} available")?;
    }
    Ok(())
}

fn write_suppositions(out: &mut String, forecast: &Forecast) -> fmt::Result {
    let supposed = &forecast.supposed;
    let whose = if supposed.controllers == "berth" { "berth's controllers" } else { "Kubernetes' own controllers" };
    let policies: BTreeMap<&str, ()> = forecast.workloads.iter().map(|workload| (workload.policy.as_str(), ())).collect();
    let policies: Vec<&str> = policies.into_keys().collect();
    let policies = if policies.is_empty() { String::new() } else { format!("; {}", policies.join("; ")) };
    writeln!(out, "Assumes {whose} ({}){policies}.", supposed.because)?;
    if !supposed.gates.is_empty() {
        let gates: Vec<String> = supposed.gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        writeln!(out, "Assumes the feature gates {} of the controllers, as in the cluster's metrics.", gates.join(", "))?;
    }
    if let Some(why) = &supposed.unknown_gates {
        writeln!(
            out,
            "Assumes that the controllers have the API server's feature gates, or the defaults if it does not report them: {why}."
        )?;
    }
    if let Some(why) = &supposed.unasked_pods {
        writeln!(out, "Assumes that admission policies and webhooks accept the pods: {why}.")?;
    }
    supposed.unevaluated.iter().try_for_each(|rule| write_unevaluated(out, rule))?;
    match supposed.analysis {
        Some("pass") => writeln!(out, "Assumes that each analysis passes at once. --analysis fail forecasts failures.")?,
        Some(_) => writeln!(out, "Assumes that each analysis fails at once.")?,
        None => (),
    }
    forecast.autoscalers.iter().try_for_each(|autoscaler| write_autoscaler(out, autoscaler))?;
    for missing in &supposed.missing {
        writeln!(out, "PARTIAL: {missing}.")?;
    }
    Ok(())
}

fn write_unevaluated(out: &mut String, rule: &UnevaluatedRule) -> fmt::Result {
    let UnevaluatedRule { kind, name, part, resources, why } = rule;
    let is_webhook = kind.ends_with("WebhookConfiguration");
    let (part, is_mutating) = (if is_webhook { "webhook" } else { "binding" }.to_owned() + " " + part, kind.starts_with("Mutating"));
    let does = if is_mutating { "accepts and does not change" } else { "accepts" };
    writeln!(out, "Assumes that {kind} {name} ({part}) {does} {}: {why}.", resources.join(", "))
}

fn write_autoscaler(out: &mut String, autoscaler: &AutoscalerForecast) -> fmt::Result {
    let AutoscalerForecast { namespace, name, target, usage, .. } = autoscaler;
    match usage {
        AutoscalerUsage::Annotations => {
            writeln!(out, "Runs autoscaler {namespace}/{name} of {target} with the usage that annotations of the simulated pods set.")
        }
        AutoscalerUsage::Metrics { pods: measured, cpu_millis, memory_bytes } => {
            let [cpu, memory] = [amount("cpu", *cpu_millis), amount("memory", *memory_bytes)];
            let measured = pods(i64::try_from(*measured).unwrap_or(i64::MAX));
            let line =
                format!("Runs autoscaler {namespace}/{name} of {target} with the present usage of {measured}: cpu {cpu}, memory {memory}.");
            writeln!(out, "{line} Ready pods share it equally.")
        }
        AutoscalerUsage::Unknown { why } => writeln!(out, "Does not run autoscaler {namespace}/{name} of {target}: {why}."),
    }
}

fn write_workload(out: &mut String, workload: &WorkloadForecast, autoscalers: &[AutoscalerForecast]) -> fmt::Result {
    let WorkloadForecast { workload: id, replicas, .. } = workload;
    writeln!(out, "{id}, {}: {}", pods(*replicas), End(workload))?;
    writeln!(out, "  pods start in {}, stop in {}", Took(&workload.start), Took(&workload.stop))?;
    write_steps(out, workload, autoscalers)?;
    let bound = workload.most.map(|most| format!(" (limit {most}; the policy decides if terminating pods count)"));
    writeln!(out, "  pods: at most {}, including terminating pods{}", Extreme(&workload.pods), bound.unwrap_or_default())?;
    let least = workload.least.map(|least| format!(" (the strategy requires {least})")).unwrap_or_default();
    writeln!(out, "  available: at least {}{least}", Extreme(&workload.available))?;
    for (resource, peak) in workload.resources.iter().filter(|(resource, _)| *resource != "pods") {
        writeln!(out, "  {resource}: at most {}, at {}", amount(resource, peak.value), Shown(peak.at))?;
    }
    Ok(())
}

fn write_other(out: &mut String, other: &OtherForecast) -> fmt::Result {
    let OtherForecast { kind, namespace, name, created, pods: most, outcome } = other;
    write!(out, "{kind} {namespace}/{name}: ")?;
    match outcome {
        OtherOutcome::Complete { after } => writeln!(out, "complete after {}", Shown(*after))?,
        OtherOutcome::Available { after } => writeln!(out, "its pods are available after {}", Shown(*after))?,
        OtherOutcome::Runs { after } => {
            writeln!(out, "all its pods run after {}", Shown(*after))?;
            writeln!(out, "  how long they run is unknown: its template has no annotation {SIM_COMPLETES_AFTER}")?;
        }
        OtherOutcome::Held { after, why } => writeln!(out, "held after {}\n  because {why}", Shown(*after))?,
        OtherOutcome::Failed { after, why } => writeln!(out, "FAILS after {}\n  because {why}", Shown(*after))?,
        OtherOutcome::Stuck { after, why } => {
            writeln!(out, "NEVER COMPLETE, no further progress after {}", Shown(*after))?;
            why.iter().try_for_each(|why| writeln!(out, "  because {why}"))?;
        }
    }
    writeln!(out, "  pods: {created} created, at most {} at once, at {}", most.value, Shown(most.at))
}

fn write_steps(out: &mut String, workload: &WorkloadForecast, autoscalers: &[AutoscalerForecast]) -> fmt::Result {
    let own = autoscalers.iter().filter(|autoscaler| autoscaler.target == workload.workload);
    let sizes = own.flat_map(|autoscaler| {
        let line = |change: &AutoscalerChange| {
            let AutoscalerChange { at, from, to, why } = change;
            (*at, format!("autoscaler {} scales from {from} to {}: {why}", autoscaler.name, pods(i64::from(*to))))
        };
        autoscaler.changes.iter().map(line)
    });
    // Before the steps that follow from them.
    let mut lines: Vec<(Duration, String)> = sizes.collect();
    lines.extend(workload.steps.iter().map(|step| (step.at, step.to_string())));
    let waited = |until: Option<Duration>, from: Duration| {
        until.map_or_else(|| " (indefinitely)".to_owned(), |until| format!(" ({})", Shown(until.saturating_sub(from))))
    };
    let worth_telling = workload.waits.iter().filter(|wait| wait.until.is_none_or(|until| wait.from + WAIT_MIN < until));
    lines.extend(worth_telling.map(|wait| (wait.from, format!("{}{}", wait.text, waited(wait.until, wait.from)))));
    lines.sort_by_key(|(at, _)| *at);
    let (shown, left_out) = if lines.len() <= STEPS_MAX { (lines.len(), 0) } else { (STEPS_MAX / 2, lines.len() - STEPS_MAX) };
    for (at, line) in &lines[..shown] {
        writeln!(out, "  {:>7}  {line}", Shown(*at))?;
    }
    if left_out > 0 {
        writeln!(out, "      ...  {left_out} more; -o json prints all")?;
        for (at, line) in &lines[lines.len() - STEPS_MAX / 2..] {
            writeln!(out, "  {:>7}  {line}", Shown(*at))?;
        }
    }
    Ok(())
}

pub(crate) struct End<'a>(pub(crate) &'a WorkloadForecast);

impl Display for End<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.rolled_back {
            write!(f, "rolls back to its previous template, ")?;
        }
        match &self.0.outcome {
            Outcome::Complete { after, settled_after } if after == settled_after => write!(f, "complete after {}", Shown(*after)),
            Outcome::Complete { after, settled_after } => {
                write!(f, "complete after {}, the last replaced pod deleted after {}", Shown(*after), Shown(*settled_after))
            }
            Outcome::Held { after, settled_after, why } => {
                write!(f, "held after {}", Shown(*after))?;
                if after != settled_after {
                    write!(f, ", the last surplus pod deleted after {}", Shown(*settled_after))?;
                }
                why.iter().try_for_each(|why| write!(f, "\n  because {why}"))
            }
            Outcome::Stuck { after, why } => {
                write!(f, "NEVER COMPLETE, no further progress after {}", Shown(*after))?;
                why.iter().try_for_each(|why| write!(f, "\n  because {why}"))
            }
        }
    }
}

struct Extreme<'a>(&'a Peak<u32>);

impl Display for Extreme<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at {}", self.0.value, Shown(self.0.at))
    }
}

struct Took<'a>(&'a Timing);

impl Display for Took<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Timing { typical, fastest, slowest, samples, source, .. } = self.0;
        write!(f, "{}", Shown(*typical))?;
        let seen = pods(i64::try_from(*samples).unwrap_or(i64::MAX));
        match source {
            Source::Pods => write!(f, " (as {seen} did: {} to {})", Shown(*fastest), Shown(*slowest)),
            Source::Events => write!(f, " (as {seen} did according to events: {} to {})", Shown(*fastest), Shown(*slowest)),
            Source::Given => f.write_str(" (given)"),
            Source::Annotations => f.write_str(" (from their annotation sim.berth.dev)"),
            Source::GracePeriod => f.write_str(" (unknown: their full grace period; --stop)"),
            Source::Supposed => f.write_str(" (unknown; --start)"),
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StepKind::CreateSet { set, replicas } => write!(f, "create ReplicaSet {set} with {}", pods(*replicas))?,
            StepKind::Resize { set, from, to } => write!(f, "scale {set} from {from} to {}", pods(*to))?,
            StepKind::DeleteSet { set } => write!(f, "delete ReplicaSet {set}")?,
            StepKind::CreatePods { owner, count, names } if names.is_empty() => {
                write!(f, "  create {} of {owner}", pods(i64::from(*count)))?;
            }
            StepKind::CreatePods { names, .. } => write!(f, "create {}", listed(names.iter().map(String::as_str), names.len()))?,
            StepKind::DeletePods { owner, pods: victims } => {
                let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
                victims.iter().for_each(|victim| *by_rule.entry(&victim.rule).or_default() += 1);
                let rules = by_rule.iter().filter(|(rule, _)| !rule.is_empty()).map(|(rule, count)| format!("{count} {rule}"));
                let rules: Vec<String> = rules.collect();
                let count = i64::try_from(victims.len()).unwrap_or(i64::MAX);
                match &victims[..] {
                    [victim] => write!(f, "  delete {}", victim.pod)?,
                    _ => write!(f, "  delete {} of {owner}", pods(count))?,
                }
                if !rules.is_empty() {
                    write!(f, ": {}", rules.join(", "))?;
                }
            }
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

pub(crate) fn pods(count: i64) -> String {
    format!("{count} pod{}", if count == 1 { "" } else { "s" })
}

fn listed<'a>(names: impl Iterator<Item = &'a str>, count: usize) -> String {
    let shown: Vec<&str> = names.take(NAMES_MAX).collect();
    if count > NAMES_MAX { format!("{} and {} more", shown.join(", "), count - NAMES_MAX) } else { shown.join(", ") }
}

/// An amount in the wire's form.
pub(crate) fn amount(resource: &str, amount: i64) -> String {
    let [text] = amounts(resource, [amount]);
    text
}

/// Amounts in the wire's form, all in the largest unit in which they are integers.
fn amounts<const N: usize>(resource: &str, amounts: [i64; N]) -> [String; N] {
    const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let are_whole = |size: i64| amounts.iter().all(|amount| amount % size == 0) && amounts.iter().any(|amount| *amount != 0);
    let (unit, size) = match resource {
        "cpu" if amounts.iter().all(|amount| amount % 1000 == 0) => ("", 1000),
        "cpu" => ("m", 1),
        "memory" | "ephemeral-storage" => UNITS.into_iter().find(|(_, size)| are_whole(*size)).unwrap_or(("", 1)),
        _ => ("", 1),
    };
    amounts.map(|amount| format!("{}{}", amount / size, if amount == 0 && resource != "cpu" { "" } else { unit }))
}

/// Policies side by side.
#[must_use]
pub fn compared(alternatives: &[Alternative]) -> String {
    let header = ["", "COMPLETE", "SETTLED", "PODS", "TERMINATING", "AVAILABLE", "PROBLEMS"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for Alternative { kind, policy, forecast } in alternatives {
        for workload in forecast.workloads.iter().filter(|workload| workload.workload.kind == *kind) {
            let (complete, settled) = match &workload.outcome {
                Outcome::Complete { after, settled_after } => (Shown(*after).to_string(), Shown(*settled_after).to_string()),
                Outcome::Held { after, settled_after, .. } => (format!("held, {}", Shown(*after)), Shown(*settled_after).to_string()),
                Outcome::Stuck { .. } => ("never".to_owned(), "never".to_owned()),
            };
            let title = format!("{} {policy}", workload.workload.title());
            let counts = [workload.pods.value, workload.terminating.value, workload.available.value].map(|count| count.to_string());
            let troubles = forecast.troubles.len().to_string();
            rows.push([vec![title, complete, settled], counts.to_vec(), vec![troubles]].concat());
        }
    }
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// The deleted pods, in order, with the rules.
#[must_use]
pub fn victims(forecast: &Forecast) -> String {
    let mut lines = Vec::new();
    for workload in &forecast.workloads {
        for step in &workload.steps {
            if let StepKind::DeletePods { pods, .. } = &step.kind {
                lines.extend(pods.iter().map(|victim| (step.at, victim.pod.clone(), victim.rule.clone())));
            }
        }
    }
    let width = lines.iter().map(|(_, pod, _)| pod.chars().count()).max().unwrap_or(0);
    let line = |(number, (at, pod, rule)): (usize, &(Duration, String, String))| {
        format!("{:>4}  {pod:width$}  {:>7}  {rule}\n", number + 1, Shown(*at))
    };
    if lines.is_empty() { "No pod is deleted.\n".to_owned() } else { lines.iter().enumerate().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        let shown = |millis: u64| Shown(Duration::from_millis(millis)).to_string();
        assert_eq!(
            [0, 2500, 2040, 59_960, 83_000, 200_450, 3_700_000].map(shown),
            ["0s", "2.5s", "2s", "1m0s", "1m23s", "3m20s", "1h1m40s"]
        );
    }

    #[test]
    fn amounts_have_the_wires_units() {
        assert_eq!([amount("cpu", 1500), amount("cpu", 2000), amount("pods", 7)], ["1500m", "2", "7"]);
        assert_eq!([amount("memory", 3 << 30), amount("memory", 0), amount("memory", 1000)], ["3Gi", "0", "1000"]);
        assert_eq!(amounts("memory", [512 << 20, 3 << 30]), ["512Mi", "3072Mi"], "side by side in one unit");
        assert_eq!([amounts("memory", [0, 2 << 30]), amounts("cpu", [500, 2000])], [["0", "2Gi"], ["500m", "2000m"]]);
    }

    #[test]
    fn a_step_states_what_happens_to_how_many_pods_and_why() {
        let check = |kind: StepKind, reason: &str, text: &str| {
            assert_eq!(Step { at: Duration::ZERO, kind, reason: reason.to_owned() }.to_string(), text);
        };
        let victim = |pod: &str, rule: &str| crate::Victim { pod: pod.to_owned(), rule: rule.to_owned() };
        check(StepKind::Resize { set: "web-1".to_owned(), from: 3, to: 1 }, "why", "scale web-1 from 3 to 1 pod: why");
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        check(StepKind::CreatePods { owner: "db".to_owned(), count: 4, names }, "", "create a, b, c and 1 more");
        let two = vec![victim("a", "not ready"), victim("b", "newer"), victim("c", "newer")];
        check(StepKind::DeletePods { owner: "web-1".to_owned(), pods: two }, "", "  delete 3 pods of web-1: 2 newer, 1 not ready");
        check(StepKind::DeletePods { owner: "db".to_owned(), pods: vec![victim("db-2", "x")] }, "", "  delete db-2: 1 x");
    }
}
