//! Compares a forecast with the real events.

use crate::{
    common::legs::{is_as_forecast, legs},
    seen::{Line, Seen},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The maximum difference between a forecast time and the real one.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(100);
/// Forecast events within this time are simultaneous: other events are a fifth of a second apart. A watch can show pods that become ready
/// together one by one, or all at once.
const AT_ONCE: Duration = Duration::from_millis(120);
/// Rules that choose a pod randomly among equal ones.
const LOTS: [&str; 2] = ["tie", "tie, by uid"];

/// The number of milliseconds between a forecast event and the real one. Negative: the real one was earlier.
pub(crate) type Late = i64;

/// The forecast of a workload: a part of the JSON that `berth plan` prints.
pub(crate) struct Forecast<'a> {
    workload: &'a Value,
    troubles: &'a Value,
}

/// A deleted pod.
#[derive(Clone, Debug)]
struct Victim {
    at: Duration,
    pod: String,
    is_drawn: bool,
}

impl<'a> Forecast<'a> {
    /// The forecast of a single workload.
    pub(crate) fn of(forecast: &'a Value) -> Self {
        Self { workload: &forecast["workloads"][0], troubles: &forecast["troubles"] }
    }

    /// `complete`, `held` or `stuck`.
    pub(crate) fn outcome(&self) -> &'a str {
        self.workload["outcome"]["is"].as_str().unwrap()
    }

    pub(crate) fn why(&self) -> &'a Value {
        &self.workload["outcome"]["why"]
    }

    pub(crate) fn after(&self) -> Duration {
        seconds(&self.workload["outcome"]["afterSeconds"])
    }

    /// The time of the last forecast event.
    pub(crate) fn settled_after(&self) -> Duration {
        self.after().max(self.workload["outcome"].get("settledAfterSeconds").map(seconds).unwrap_or_default())
    }

    pub(crate) fn is_refused_by_quota(&self) -> bool {
        self.troubles.as_array().unwrap().iter().any(|trouble| trouble["kind"] == "quota")
    }

    /// Whether a pod is deleted because of its node. The number of pods on a node depends on the placement of new ones, which is random among equally
    /// good nodes.
    pub(crate) fn goes_by_node(&self) -> bool {
        let rules = self.steps().filter_map(|step| step["pods"].as_array()).flatten().filter_map(|pod| pod["rule"].as_str());
        rules.into_iter().any(|rule| rule.starts_with("node has more than"))
    }

    fn steps(&self) -> impl Iterator<Item = &'a Value> {
        self.workload["steps"].as_array().unwrap().iter()
    }

    fn sizes(&self) -> BTreeMap<&'a str, Vec<(Duration, i64)>> {
        let mut sizes: BTreeMap<&str, Vec<(Duration, i64)>> = BTreeMap::new();
        for step in self.steps() {
            let size = match step["does"].as_str().unwrap() {
                "createSet" => &step["replicas"],
                "resize" => &step["to"],
                _ => continue,
            };
            sizes.entry(step["set"].as_str().unwrap()).or_default().push((seconds(&step["atSeconds"]), size.as_i64().unwrap()));
        }
        sizes
    }

    /// In order of time, with the precision of the pods' lives: milliseconds. Steps combine pods.
    fn victims(&self) -> Vec<Victim> {
        let lives = self.workload["lives"].as_array().unwrap().iter();
        let told: BTreeSet<(&str, Duration)> = lives
            .flat_map(|life| life["states"].as_array().unwrap().iter().map(move |state| (life, state)))
            .filter(|(_, state)| state["is"] == "terminating")
            .map(|(life, state)| (life["pod"].as_str().unwrap(), seconds(&state["atSeconds"])))
            .collect();
        let mut victims = Vec::new();
        for step in self.steps().filter(|step| step["does"] == "deletePods") {
            let begins = seconds(&step["atSeconds"]);
            for pod in step["pods"].as_array().unwrap() {
                let (name, rule) = (pod["pod"].as_str().unwrap(), pod["rule"].as_str().unwrap());
                // Pods of a StatefulSet reuse names.
                let at = told.range((name, begins)..).next().filter(|(of, _)| *of == name).map_or(begins, |(_, at)| *at);
                victims.push(Victim { at, pod: name.to_owned(), is_drawn: LOTS.contains(&rule) });
            }
        }
        victims.sort_by_key(|victim| victim.at);
        victims
    }

    fn most_pods(&self) -> u64 {
        self.workload["pods"]["value"].as_u64().unwrap()
    }

    fn fewest_available(&self) -> u64 {
        self.workload["available"]["value"].as_u64().unwrap()
    }
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap())
}

/// The events after a change.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Before the change.
    pods: BTreeSet<String>,
    sizes_before: BTreeMap<String, i64>,
    /// After the change, in order of time.
    sizes: BTreeMap<String, Vec<(Duration, i64)>>,
    victims: Vec<(Duration, String)>,
    most_pods: u64,
    fewest_available: u64,
    /// When the workload's status first showed a complete rollout. `None`: never.
    pub(crate) complete: Option<Duration>,
    /// When, after that, the last deleted pod was removed. `None`: some pods still terminate.
    pub(crate) settled: Option<Duration>,
    /// The time of the last change of a pod or a ReplicaSet.
    pub(crate) last: Duration,
    /// When the workload's own status last changed.
    last_status: Duration,
}

impl Happened {
    /// The events in `seen` after the change. `before` is the number of earlier lines. `generation` is the workload's generation after the
    /// change, at `began`.
    pub(crate) fn read(seen: &Seen, before: usize, generation: i64, began: Instant) -> Self {
        let mut now = Seen::default();
        let (earlier, later) = seen.lines.split_at(before);
        earlier.iter().for_each(|(at, line)| now.take_in(*at, line.clone()));
        let mut happened = Self { pods: now.pods.keys().cloned().collect(), sizes_before: now.sets.clone(), ..Self::default() };
        (happened.most_pods, happened.fewest_available) = (now.pods.len() as u64, now.available() as u64);
        happened.judge(&now, generation, Duration::ZERO);
        for (at, line) in later {
            // Events that were seen before the response happened after the request.
            let at = at.saturating_duration_since(began);
            match line {
                Line::Pod(name, pod) => {
                    happened.last = at;
                    let went = now.pods.get(name).is_some_and(|known| known.is_going);
                    if pod.is_some_and(|pod| pod.is_going) && !went {
                        happened.victims.push((at, name.clone()));
                    }
                }
                Line::Set(name, size) if now.sets.get(name) != Some(size) => {
                    happened.last = at;
                    happened.sizes.entry(name.clone()).or_default().push((at, *size));
                }
                Line::Set(..) => (),
                Line::Workload(_) => happened.last_status = at,
            }
            now.take_in(began, line.clone());
            happened.most_pods = happened.most_pods.max(now.pods.len() as u64);
            happened.fewest_available = happened.fewest_available.min(now.available() as u64);
            happened.judge(&now, generation, at);
        }
        happened
    }

    fn judge(&mut self, now: &Seen, generation: i64, at: Duration) {
        if now.rolled_out == Some(generation) {
            self.complete.get_or_insert(at);
        }
        // A watch can show a status before the pods that the status counts.
        match (self.complete, now.has_going()) {
            (Some(_), false) => drop(self.settled.get_or_insert(at)),
            _ => self.settled = None,
        }
    }

    /// The delay of each event against the forecast.
    ///
    /// # Errors
    /// A description of the difference.
    pub(crate) fn held_against(&self, expected: &Forecast<'_>) -> Result<Vec<Late>, String> {
        let mut late = Vec::new();
        self.compare_sizes(expected, &mut late)?;
        self.compare_victims(expected, &mut late)?;
        let extremes = ((self.most_pods, self.fewest_available), (expected.most_pods(), expected.fewest_available()));
        if extremes.0 != extremes.1 {
            return Err(format!("the most pods and the fewest available: {:?}, not {:?}", extremes.0, extremes.1));
        }
        match (expected.outcome(), self.complete, self.settled) {
            ("complete", Some(complete), Some(settled)) => {
                is_on_time("complete", expected.after(), complete, &mut late)?;
                is_on_time("settled", expected.settled_after(), settled, &mut late)?;
            }
            // The status may show a complete rollout while pods are held. The workload is stable when its status has counted its pods,
            // unless some still terminate.
            ("held", ..) => {
                let last = if expected.after() == expected.settled_after() { self.last.max(self.last_status) } else { self.last };
                is_on_time("held", expected.settled_after(), last, &mut late)?;
            }
            ("stuck", None, _) => (),
            (outcome, complete, settled) => {
                return Err(format!("complete after {complete:?} and settled after {settled:?}, not {outcome}: {}", expected.why()));
            }
        }
        Ok(late)
    }

    fn compare_sizes(&self, expected: &Forecast<'_>, late: &mut Vec<Late>) -> Result<(), String> {
        let sizes = expected.sizes();
        if let Some((name, seen)) = self.sizes.iter().find(|(name, _)| !sizes.contains_key(name.as_str())) {
            return Err(format!("sizes of {name}: {seen:?}, of which nothing is forecast"));
        }
        for (name, changes) in &sizes {
            let seen = self.sizes.get(*name).map(Vec::as_slice).unwrap_or_default();
            let legs = legs(changes, self.sizes_before.get(*name).copied().unwrap_or_default(), AT_ONCE);
            if !is_as_forecast(&seen.iter().map(|(_, size)| *size).collect::<Vec<_>>(), &legs) {
                return Err(format!("sizes of {name}: {seen:?}, not {changes:?}"));
            }
            let begin: Vec<Duration> = legs.iter().map(|leg| leg.begins).collect();
            for (leg, gone) in legs.iter().zip(parts(&begin, seen)) {
                if !leg.is_gone_by(&gone.iter().map(|(_, size)| *size).collect::<Vec<_>>()) {
                    return Err(format!("sizes of {name} come at other times: {seen:?}, not {changes:?}"));
                }
                match gone.first() {
                    Some((first, _)) => is_on_time(&format!("a size of {name}"), leg.begins, *first, late)?,
                    None => assert!(leg.leads_back(), "nothing leads nowhere else"),
                }
            }
        }
        Ok(())
    }

    fn compare_victims(&self, expected: &Forecast<'_>, late: &mut Vec<Late>) -> Result<(), String> {
        let victims = expected.victims();
        let bursts: Vec<&[Victim]> = victims.chunk_by(|one, next| next.at <= one.at + AT_ONCE).collect();
        let begin: Vec<Duration> = bursts.iter().map(|burst| burst[0].at).collect();
        let gone = parts(&begin, &self.victims);
        let how_many = |counts: Vec<usize>, at: Vec<Duration>| -> Vec<(Duration, usize)> { at.into_iter().zip(counts).collect() };
        let counts = (gone.iter().map(|gone| gone.len()).collect::<Vec<_>>(), bursts.iter().map(|burst| burst.len()).collect::<Vec<_>>());
        if counts.0 != counts.1 || self.victims.len() != victims.len() {
            return Err(format!("how many go when: {:?}, not {:?}", self.victims, how_many(counts.1, begin)));
        }
        // After a random choice, different pods remain.
        let mut is_known = true;
        for (burst, gone) in bursts.iter().zip(gone) {
            is_on_time("the end of a pod", burst[0].at, gone[0].0, late)?;
            let old = |names: &mut dyn Iterator<Item = &String>| -> BTreeSet<String> {
                names.filter(|name| self.pods.contains(*name)).cloned().collect()
            };
            let names = (old(&mut gone.iter().map(|(_, name)| name)), old(&mut burst.iter().map(|victim| &victim.pod)));
            is_known &= !burst.iter().any(|victim| victim.is_drawn);
            if is_known && names.0 != names.1 {
                return Err(format!("who goes after {:?}: {:?}, not {:?}", burst[0].at, names.0, names.1));
            }
        }
        Ok(())
    }
}

/// Splits the seen events by the forecast times. An event belongs to the last time that it precedes by at most the tolerance. Events before
/// all times belong to the first one.
fn parts<'a, T>(begin: &[Duration], seen: &'a [(Duration, T)]) -> Vec<&'a [(Duration, T)]> {
    let from = |place: usize| match begin.get(place) {
        _ if place == 0 => 0,
        Some(at) => seen.partition_point(|(seen, _)| *seen + TOLERANCE < *at),
        None => seen.len(),
    };
    (0..begin.len()).map(|place| &seen[from(place)..from(place + 1)]).collect()
}

fn is_on_time(what: &str, expected: Duration, was: Duration, late: &mut Vec<Late>) -> Result<(), String> {
    if was.abs_diff(expected) > TOLERANCE {
        return Err(format!("{what} after {was:.3?}, not {expected:.3?}"));
    }
    late.push(was.as_millis() as Late - expected.as_millis() as Late);
    Ok(())
}
