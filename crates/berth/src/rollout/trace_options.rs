//! Options of `berth record` and `berth replay`.

use super::options::{PictureFile, PlanOutput, picture};
use crate::{cluster_options::ClusterOptions, duration::duration};
use berth_api::quantity::Quantity;
use clap::{Args, ValueEnum};
use std::{path::PathBuf, time::Duration};

pub(crate) const RECORD_EXAMPLES: &str = "Examples:
  berth record -o week.jsonl.zst                                  until Ctrl-C
  berth record -o hour.jsonl.zst --for 1h --max-size 100Mi
  berth record -o shop.jsonl.zst -n shop --hash-names             one namespace, with hashed names
  berth record -o shop.jsonl.zst -n shop --all-usage              for replays with new autoscalers
  zstdcat week.jsonl.zst | head -3                                lines of JSON";

pub(crate) const REPLAY_EXAMPLES: &str = "Examples:
  berth replay week.jsonl.zst                                     replay it as it was, beside the recording
  berth replay week.jsonl.zst --policy TerminationComplete        also under another policy
  berth replay week.jsonl.zst --policy Recreate --output-file week.html
  berth replay week.jsonl.zst --hpa hpa.yaml                      also with another autoscaler
  berth replay week.jsonl.zst --speed 1000                        slow enough to watch rollouts
  berth replay week.jsonl.zst --policy TerminationComplete -o json | jq .underPolicy.sum";

/// Options of `berth record`.
#[derive(Args, Debug)]
pub(crate) struct RecordOptions {
    /// The file to write, readable only by its owner. berth never overwrites a file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// How long to record [default: until Ctrl-C].
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) lasts: Option<Duration>,

    /// The largest size of the file. The recording completes before the file is larger.
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = size)]
    pub(crate) max_size: u64,

    /// Replaces each name, label and uid with a hash. A name has the same hash in the whole file, and another hash in every other file.
    /// berth stores the hash key nowhere.
    #[arg(long)]
    pub(crate) hash_names: bool,

    /// Records the usage of all Deployments and StatefulSets. Without this option, berth records the usage of workloads that have a
    /// HorizontalPodAutoscaler. Both require a metrics server.
    #[arg(long)]
    pub(crate) all_usage: bool,

    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Options of `berth replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayOptions {
    /// A recording of berth record.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Also replays under this policy: a podReplacementPolicy of all Deployments, or a strategy of all Deployments and StatefulSets.
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) policy: Option<PolicyOf>,

    /// Also replays with these HorizontalPodAutoscalers, in place of the recorded ones. The size of each target follows from its
    /// recorded usage. With --policy, the policy applies too. A file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard
    /// input. Repeatable, or separated by commas.
    #[arg(long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) hpa: Vec<PathBuf>,

    /// Replays N times as fast as the original, and prints the start and end of each rollout [default: as fast as this machine can].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) speed: Option<u32>,

    /// Chooses another order of simultaneous events.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Also draws a chart: the pods of each workload over time, as recorded, as replayed, under --policy and with --hpa.
    #[arg(long, conflicts_with = "output")]
    pub(crate) chart: bool,

    /// Writes the chart as a picture (.svg), or as a page with the text (.html). Overwrites an existing file.
    #[arg(long, value_name = "FILE.svg|FILE.html", value_parser = picture)]
    pub(crate) output_file: Option<PictureFile>,

    /// The output format for programs: one object, which docs/how-to/record-and-replay.md describes.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<PlanOutput>,
}

/// A policy of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyOf {
    /// Creates new pods after old pods are deleted.
    #[value(name = "TerminationComplete")]
    TerminationComplete,
    /// Creates new pods when old pods start to terminate.
    #[value(name = "TerminationStarted")]
    TerminationStarted,
    /// Deletes all old pods before it creates new ones.
    #[value(name = "Recreate")]
    Recreate,
    /// Replaces pods step by step.
    #[value(name = "RollingUpdate")]
    RollingUpdate,
}

impl From<PolicyOf> for berth_plan::Policy {
    fn from(policy: PolicyOf) -> Self {
        match policy {
            PolicyOf::TerminationComplete => Self::TerminationComplete,
            PolicyOf::TerminationStarted => Self::TerminationStarted,
            PolicyOf::Recreate => Self::Recreate,
            PolicyOf::RollingUpdate => Self::RollingUpdate,
        }
    }
}

/// Reads `100Mi`.
fn size(text: &str) -> Result<u64, String> {
    /// What its first and last lines take, and some between.
    const LEAST: u64 = 64 << 10;
    let bytes = text.parse::<Quantity>().ok().and_then(|quantity| u64::try_from(quantity.value()).ok());
    match bytes {
        Some(bytes) if LEAST <= bytes => Ok(bytes),
        Some(_) => Err(format!("{text:?} is less than 64Ki")),
        None => Err(format!("{text:?} is not a size, such as 100Mi or 1G")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        assert_eq!([size("100Mi"), size("1G")], [Ok(100 << 20), Ok(1_000_000_000)]);
        assert!(size("1Ki").is_err() && size("much").is_err() && size("-1Gi").is_err());
    }
}
