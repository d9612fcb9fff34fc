//! Several forecasts of one change: with other policies and with other seeds.

use crate::{
    change::Change,
    error::PlanError,
    forecast::{Forecast, Outcome},
    run::{Suppositions, forecast as forecast_of},
    snapshot::Snapshot,
    times::seconds,
};
use berth_api::Gate;
use berth_workloads::workload::WorkloadKind;
use serde::Serialize;
use std::time::Duration;

/// A forecast with another policy for the workloads of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Alternative {
    /// The kind of workload that has the policy.
    pub kind: WorkloadKind,
    /// `TerminationComplete`.
    pub policy: &'static str,
    /// The forecast.
    pub forecast: Forecast,
}

/// The duration of the change in several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The number of runs.
    pub runs: u64,
    /// The number of runs that were complete, or went as far as their owner permits.
    pub complete: u64,
    /// The median of the complete runs.
    #[serde(rename = "p50Seconds", serialize_with = "seconds")]
    pub p50: Duration,
    /// The 95th percentile of the complete runs.
    #[serde(rename = "p95Seconds", serialize_with = "seconds")]
    pub p95: Duration,
    /// The most pods of any workload in any run, terminating ones included.
    pub pods: u32,
    /// The fewest available pods of any workload in any run.
    pub available: u32,
}

/// Forecasts the change with each policy of Deployments, and with each strategy of StatefulSets that needs no user.
///
/// # Errors
/// Those of a forecast.
pub fn compare(snapshot: &Snapshot, change: &Change, suppositions: &Suppositions) -> Result<Vec<Alternative>, PlanError> {
    let targets = change.targets()?;
    let has = |kind| targets.iter().any(|target| target.kind == kind);
    let mut alternatives = Vec::new();
    let mut add = |kind: WorkloadKind, policy: &'static str, edit: &dyn Fn(&mut Change)| {
        let mut change = change.clone();
        edit(&mut change);
        alternatives.push((kind, policy, change));
    };
    // Kubernetes' own controllers support neither the policies of Deployments nor Recreate of StatefulSets. With their gates off, berth's
    // do not either.
    let controllers = suppositions.controllers.unwrap_or_else(|| snapshot.controllers().0);
    let gates = controllers.gates_of(&suppositions.gates.controllers);
    if has(WorkloadKind::Deployment) {
        let has_policies = gates.enabled(Gate::DeploymentPodReplacementPolicy);
        let policies: &[&str] = if has_policies { &["TerminationStarted", "TerminationComplete"] } else { &[] };
        for policy in policies.iter().copied() {
            add(WorkloadKind::Deployment, policy, &|change| change.deployments.policy = Some(policy.to_owned()));
        }
        let strategies: &[&str] = if has_policies { &["Recreate"] } else { &["RollingUpdate", "Recreate"] };
        for strategy in strategies.iter().copied() {
            add(WorkloadKind::Deployment, strategy, &|change| change.deployments.strategy = Some(strategy.to_owned()));
        }
    }
    if has(WorkloadKind::StatefulSet) {
        let has_recreate = gates.enabled(Gate::StatefulSetRecreateStrategy);
        let strategies: &[&str] = if has_recreate { &["RollingUpdate", "Recreate"] } else { &["RollingUpdate"] };
        for strategy in strategies.iter().copied() {
            add(WorkloadKind::StatefulSet, strategy, &|change| change.stateful_sets.strategy = Some(strategy.to_owned()));
        }
    }
    let forecast = |(kind, policy, change): (WorkloadKind, &'static str, Change)| {
        Ok(Alternative { kind, policy, forecast: forecast_of(snapshot, &change, suppositions)? })
    };
    alternatives.into_iter().map(forecast).collect()
}

/// Forecasts the change with the seeds from 1 to `runs`, and calls `done` after each.
///
/// # Errors
/// Those of a forecast.
pub fn forecast_many(
    snapshot: &Snapshot,
    change: &Change,
    suppositions: &Suppositions,
    runs: u64,
    mut done: impl FnMut(u64),
) -> Result<Spread, PlanError> {
    let mut took = Vec::new();
    let (mut pods, mut available) = (0, u32::MAX);
    for seed in 1..=runs {
        let forecast = forecast_of(snapshot, change, &Suppositions { seed, ..suppositions.clone() })?;
        let is_stuck = forecast.workloads.iter().any(|workload| matches!(workload.outcome, Outcome::Stuck { .. }));
        took.extend((!is_stuck).then_some(forecast.total));
        pods = forecast.workloads.iter().map(|workload| workload.pods.value).fold(pods, u32::max);
        available = forecast.workloads.iter().map(|workload| workload.available.value).fold(available, u32::min);
        done(seed);
    }
    took.sort();
    let complete = u64::try_from(took.len()).unwrap_or(u64::MAX);
    // Without any workload, none has available pods.
    let available = if available == u32::MAX { 0 } else { available };
    Ok(Spread { runs, complete, p50: percentile(&took, 50), p95: percentile(&took, 95), pods, available })
}

/// The smallest value that is not less than this percentage of all. Zero without values.
fn percentile(sorted: &[Duration], of_hundred: usize) -> Duration {
    let rank = (sorted.len() * of_hundred).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_runs() {
        let runs: Vec<Duration> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!([50, 95, 100].map(|of| percentile(&runs, of).as_secs()), [10, 19, 20]);
        assert_eq!(percentile(&[], 50), Duration::ZERO);
        assert_eq!(percentile(&runs[..1], 95).as_secs(), 1);
    }
}
