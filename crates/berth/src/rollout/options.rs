//! Options of `berth rollout`, named as kubectl's.

use crate::{cluster_options::ClusterOptions, duration::duration};
use berth_identity::RolloutRevision;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Options of `berth rollout`.
#[derive(Args, Debug)]
pub(crate) struct Rollout {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Prints how far a rollout is and what it waits for, until it is complete.
    ///
    /// Exits with 1 if the rollout exceeds its progress deadline, or after --timeout. With podReplacementPolicy: TerminationComplete, a
    /// rollout is complete when the last replaced pod is deleted. Follows StatefulSets and DaemonSets with every update strategy.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(Status),
    /// Shows workloads live in the terminal: their states, what they wait for, and a rollout over time with its pods and events.
    ///
    /// With a name, shows that workload. Without a name, lists all workloads, most urgent first. Keys undo, pause, resume, restart, scale,
    /// set an image and promote. Each asks for confirmation. `?` lists the keys. If standard output is not a terminal, prints lines and
    /// exits as berth rollout status does.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(Watch),
    /// Lists the revisions of a Deployment, StatefulSet or DaemonSet that you can roll back to: cause, time, duration and result of each.
    ///
    /// With the feature gate RolloutRecords, berth's API server records the user of each change. On other servers, the list has only the
    /// field manager of the newest revision, and marks it as such.
    #[command(after_help = HISTORY_EXAMPLES)]
    History(History),
    /// Prints the differences between the pod templates of two revisions of a Deployment, StatefulSet or DaemonSet.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// Rolls a Deployment, StatefulSet or DaemonSet back to an earlier revision.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo(Undo),
    /// Pauses a Deployment: changes of its template wait until you resume it.
    #[command(after_help = "Example:\n  berth rollout pause deployment/web")]
    Pause(Change),
    /// Resumes a paused Deployment.
    #[command(after_help = "Example:\n  berth rollout resume deployment/web")]
    Resume(Change),
    /// Restarts a Deployment, StatefulSet or DaemonSet: replaces all its pods by its update strategy, without another change.
    #[command(
        after_help = "Examples:\n  berth rollout restart deployment/web\n  berth rollout restart deployment -l tier=front\n  berth rollout restart -f manifests/ -o name"
    )]
    Restart(Change),
    /// Ends the current wait of a progressive rollout of a Deployment (annotation berth.dev/steps).
    #[command(after_help = "Example:\n  berth rollout promote deployment/web")]
    Promote(Change),
    /// Lists the pods that a scale-down would delete, in order, and the rule that chooses each. Changes nothing.
    #[command(after_help = VICTIMS_EXAMPLES)]
    Victims(Victims),
}

impl Verb {
    /// The workloads of the command. `None` if the command has its own options for them.
    pub(super) fn target(&self) -> Option<&Target> {
        Some(match self {
            Self::Status(status) => &status.target,
            Self::History(history) => &history.target,
            Self::Diff(diff) => &diff.target,
            Self::Undo(undo) => &undo.target,
            Self::Pause(change) | Self::Resume(change) | Self::Restart(change) | Self::Promote(change) => &change.target,
            Self::Victims(victims) => &victims.target,
            Self::Watch(_) => return None,
        })
    }
}

const STATUS_EXAMPLES: &str = "Examples:
  berth rollout status deployment/web
  berth rollout status statefulset/db
  berth rollout status -f manifests/                   all workloads of the manifests
  berth rollout status deployment -A --watch=false     print the status of all Deployments
  berth rollout status deployment/web --timeout 2m     exit with 1 after two minutes
  berth rollout status deployment/web --watch=false    print the status, do not wait
  berth rollout status deployment/web -o json          one JSON object per line";

const WATCH_EXAMPLES: &str = "Examples:
  berth rollout watch deployment/web
  berth rollout watch                                  all workloads of the namespace; Enter opens one
  berth rollout watch -A                               all workloads of the cluster
  berth rollout watch deployment/web | cat             lines, as berth rollout status prints them";

const HISTORY_EXAMPLES: &str = "Examples:
  berth rollout history deployment/web
  berth rollout history deployment/web --revision 2    the pod template of revision 2
  berth rollout history deployment/web -o json";

const DIFF_EXAMPLES: &str = "Examples:
  berth rollout diff deployment/web                    the newest revision and the previous one
  berth rollout diff deployment/web --from 3 --to 5
  berth rollout diff statefulset/db --from 1 -o patch  a patch for kubectl patch --type merge";

const UNDO_EXAMPLES: &str = "Examples:
  berth rollout undo deployment/web
  berth rollout undo deployment/web --to-revision 2
  berth rollout undo deployment/web --dry-run=server   have the server check it, change nothing";

const VICTIMS_EXAMPLES: &str = "Examples:
  berth rollout victims deployment/web --replicas 3
  berth rollout victims statefulset/db --replicas 1 --from cluster.yaml     use a file, not a cluster";

/// Options of `berth rollout victims`.
#[derive(Args, Debug)]
pub(crate) struct Victims {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The number of replicas after the scale-down.
    #[arg(long, value_name = "N")]
    pub(crate) replicas: i32,

    /// Reads the cluster from files, in the format of kubectl get -o yaml, instead of from a server. Repeatable.
    #[arg(long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,

    /// The controllers of the cluster [default: detected from its objects].
    #[arg(long, value_enum)]
    pub(crate) controllers: Option<ControllersOf>,

    /// The output format for programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<PlanOutput>,
}

/// Options of `berth plan`.
#[derive(Args, Debug)]
pub(crate) struct PlanOptions {
    /// TYPE/NAME, repeatable; or a TYPE and its names. Types: deployment (deploy), statefulset (sts).
    #[arg(value_name = "TYPE/NAME", required_unless_present = "filename", conflicts_with = "filename")]
    pub(crate) resources: Vec<String>,

    /// The new manifest, applied as kubectl apply does: a file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard input.
    /// Repeatable, or separated by commas. Ignores kinds that do not affect a rollout.
    #[arg(short, long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Also reads manifests in subfolders.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Reads the cluster from files, in the format of kubectl get -o yaml, instead of from a server. Rolls manifests without status out
    /// first. Repeatable.
    #[arg(long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,

    /// Sends the change to the server as a dry run, so that its defaults, webhooks and admission count. Requires permission to make the
    /// change.
    #[arg(long, conflicts_with = "from")]
    pub(crate) server_dry_run: bool,

    /// The new image of a container: NAME=IMAGE, or *=IMAGE for all containers. Repeatable.
    #[arg(long, value_name = "NAME=IMAGE", value_parser = image)]
    pub(crate) image: Vec<(String, String)>,

    /// The new number of replicas.
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<i32>,

    /// The new podReplacementPolicy of Deployments.
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,

    /// The new type of the strategy: RollingUpdate or Recreate; for StatefulSets also OnDelete; for DaemonSets RollingUpdate or OnDelete.
    #[arg(long, value_name = "TYPE")]
    pub(crate) strategy: Option<String>,

    /// The controllers of the cluster [default: detected from its objects].
    #[arg(long, value_enum)]
    pub(crate) controllers: Option<ControllersOf>,

    /// How long pods take from their binding until they are ready [default: as the cluster's pods did].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) start: Option<Duration>,

    /// How long pods take to terminate [default: as the cluster's pods did, else their grace period].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) stop: Option<Duration>,

    /// The result of each analysis of a progressive rollout. It arrives at once.
    #[arg(long, value_enum, default_value_t = AnalysisEnds::Pass)]
    pub(crate) analysis: AnalysisEnds,

    /// How many times to run the forecast, with random event orders and pod durations. The plan then has the median and the 95th percentile
    /// of the durations.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) runs: u64,

    /// Compares all policies of Deployments, and all strategies of StatefulSets that progress automatically, side by side.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Exits with 3 if one of these events happens. Repeatable, or separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,

    /// Also draws a chart: the pods of each workload over time by revision and state, and their limit. With --compare, draws all policies
    /// on the same axes.
    #[arg(long, conflicts_with = "output")]
    pub(crate) chart: bool,

    /// Writes the chart as a picture (.svg), or as a page with the plan's text (.html). The page needs no other files and has no scripts.
    /// Overwrites an existing file.
    #[arg(long, value_name = "FILE.svg|FILE.html", value_parser = picture)]
    pub(crate) output_file: Option<PictureFile>,

    /// The output format for programs: one object, which docs/how-to/plan.md describes.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<PlanOutput>,

    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Reads `web=web:3`.
fn image(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((container, image)) if !container.is_empty() && !image.is_empty() => Ok((container.to_owned(), image.to_owned())),
        _ => Err(format!("{text:?} is not NAME=IMAGE, such as web=web:3")),
    }
}

/// A file for a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PictureFile {
    /// A picture.
    Svg(PathBuf),
    /// A page.
    Html(PathBuf),
}

/// Reads `plan.svg`: no file of another kind is ever written over.
pub(super) fn picture(text: &str) -> Result<PictureFile, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(PictureFile::Svg(path)),
        Some("html") => Ok(PictureFile::Html(path)),
        _ => Err("its name ends neither in .svg nor in .html".to_owned()),
    }
}

/// The controllers of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControllersOf {
    /// berth's controllers. All policies and strategies have an effect.
    Berth,
    /// Kubernetes' own controllers. podReplacementPolicy, and Recreate of StatefulSets, have no effect.
    Kubernetes,
}

impl From<ControllersOf> for berth_plan::Controllers {
    fn from(controllers: ControllersOf) -> Self {
        match controllers {
            ControllersOf::Berth => Self::Berth,
            ControllersOf::Kubernetes => Self::Kubernetes,
        }
    }
}

/// How analyses end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnalysisEnds {
    /// The rollout continues.
    Pass,
    /// The rollout rolls back.
    Fail,
}

impl From<AnalysisEnds> for berth_plan::Analyses {
    fn from(ends: AnalysisEnds) -> Self {
        match ends {
            AnalysisEnds::Pass => Self::Pass,
            AnalysisEnds::Fail => Self::Fail,
        }
    }
}

/// What makes a plan fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A quota rejects a pod.
    Quota,
    /// The API server rejects a pod or a ReplicaSet for another reason.
    Refused,
    /// A pod fits no node.
    Unschedulable,
    /// Fewer pods are available than a disruption budget or the strategy requires.
    Unavailable,
    /// The progress deadline passes, or a rollout that is not paused never completes.
    Deadline,
    /// There are more pods, including terminating pods, than replicas + maxSurge.
    Bound,
}

impl From<FailOn> for berth_plan::Failure {
    fn from(failure: FailOn) -> Self {
        match failure {
            FailOn::Quota => Self::Quota,
            FailOn::Refused => Self::Refused,
            FailOn::Unschedulable => Self::Unschedulable,
            FailOn::Unavailable => Self::Unavailable,
            FailOn::Deadline => Self::Deadline,
            FailOn::Bound => Self::Bound,
        }
    }
}

/// Options of `berth explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainOptions {
    /// TYPE/NAME, repeatable; or a TYPE and its names. Types: deployment (deploy), statefulset (sts), daemonset (ds), job, cronjob (cj),
    /// replicaset (rs), replicationcontroller (rc), pod (po).
    #[arg(value_name = "TYPE/NAME", required_unless_present = "from_state", conflicts_with = "from_state")]
    pub(crate) resources: Vec<String>,

    /// The output format for programs: one object per line for each resource. See docs/how-to/explain.md.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<PlanOutput>,

    /// Also writes the controller's input to FILE, as JSON: what it plans from. Requires one Deployment, StatefulSet, DaemonSet or Job. The
    /// file contains the whole template, with its environment.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// Prints the controller's plan from a FILE that --state wrote. Contacts no cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "state")]
    pub(crate) from_state: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// The output format of a plan or an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanOutput {
    /// One object.
    Json,
}

/// What a command is about.
#[derive(Args, Debug, Default)]
pub(crate) struct Target {
    /// TYPE/NAME, repeatable; or a TYPE and its names; or a TYPE alone, for all of the namespace. Types: deployment (deploy), statefulset
    /// (sts).
    #[arg(value_name = "TYPE/NAME", required_unless_present = "filename", conflicts_with = "filename")]
    pub(crate) resources: Vec<String>,

    /// The workloads of a manifest: a file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard input. Repeatable, or
    /// separated by commas. Ignores other kinds.
    #[arg(short, long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Also reads manifests in subfolders.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Only workloads with these labels. Requires a TYPE without names.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "filename")]
    pub(crate) selector: Option<String>,
}

/// Options of verbs that change a workload.
#[derive(Args, Debug)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Prints the changed workload instead of a sentence.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ObjectOutput>,
}

/// Options of `berth rollout status`.
#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Whether to wait until the rollout is complete.
    #[arg(short, long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) watch: bool,

    /// How long to wait for each rollout. 0s waits indefinitely.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// The revision that must be rolling out. 0 accepts any.
    #[arg(long, value_name = "N", default_value_t = RolloutRevision::UNSET)]
    pub(crate) revision: RolloutRevision,

    /// The output format for programs: one JSON object per line, one line for each change.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<StatusOutput>,
}

/// Options of `berth rollout watch`.
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// TYPE/NAME, or a TYPE alone to list its workloads [default: list all workloads]. Types: deployment (deploy), statefulset (sts).
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) resources: Vec<String>,
}

/// Options of `berth rollout history`.
#[derive(Args, Debug)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Shows this revision with its pod template. 0 lists all revisions.
    #[arg(long, value_name = "N", default_value_t = RolloutRevision::UNSET)]
    pub(crate) revision: RolloutRevision,

    /// The output format for programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<HistoryOutput>,
}

/// Options of `berth rollout diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The older revision. 0 is the revision before --to.
    #[arg(long, value_name = "N", default_value_t = RolloutRevision::UNSET)]
    pub(crate) from: RolloutRevision,

    /// The newer revision. 0 is the newest.
    #[arg(long, value_name = "N", default_value_t = RolloutRevision::UNSET)]
    pub(crate) to: RolloutRevision,

    /// The output format for programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<DiffOutput>,
}

/// Options of `berth rollout undo`.
#[derive(Args, Debug)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The revision to roll back to. 0 is the previous one.
    #[arg(long, value_name = "N", default_value_t = RolloutRevision::UNSET)]
    pub(crate) to_revision: RolloutRevision,

    /// Changes nothing. client prints the template that berth would write. server also has the server check it.
    #[arg(long, value_enum, default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "unchanged")]
    pub(crate) dry_run: DryRun,

    /// Prints the changed workload instead of a sentence.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ObjectOutput>,
}

/// The output format of a changed workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    /// Type and name.
    Name,
    /// The object, without managedFields.
    Json,
    /// The object as YAML, without managedFields.
    Yaml,
}

/// The output format of `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusOutput {
    /// One object per line.
    Json,
}

/// The output format of `history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryOutput {
    /// One object.
    Json,
    /// One object as YAML.
    Yaml,
}

/// The output format of `diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffOutput {
    /// One object with all differences.
    Json,
    /// The merge patch that turns the older revision of the workload into the newer one.
    Patch,
}

/// Whether anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Makes the change.
    #[value(alias = "false")]
    None,
    /// Sends nothing.
    Client,
    /// Sends the request as a dry run: the server stores nothing.
    Server,
    /// No value: client, as kubectl still reads it.
    #[value(hide = true, alias = "true")]
    Unchanged,
}
