//! Options of `berth rollout`, named as kubectl's.

use crate::{cluster_options::ClusterOptions, duration::duration};
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
    /// Shows how far a rollout is and what it waits for, until it is complete.
    ///
    /// Ends with exit code 1 if the rollout exceeds its progress deadline or the time is over. Under podReplacementPolicy: TerminationComplete a
    /// rollout is complete when the last replaced pod is gone. StatefulSets are followed whatever their update strategy.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(Status),
    /// Shows workloads in the terminal, live: how they stand and why they wait, a rollout as a picture over time, its pods and events.
    ///
    /// With a name that workload, without one the list of all, those first that need attention. Keys undo, pause, resume, restart, scale, set an image and promote: each asks
    /// first. `?` tells them. Where standard output is no terminal it prints lines, and ends, as berth rollout status does.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(Watch),
    /// Lists the revisions of a Deployment or StatefulSet that can be gone back to: who or what caused each, when, how long it took and how it ended.
    ///
    /// Who it was is the API server's word where berth's keeps it (feature gate RolloutRecords); elsewhere the field manager, marked as such, and of the newest alone.
    #[command(after_help = HISTORY_EXAMPLES)]
    History(History),
    /// Shows in what the pod templates of two revisions of a Deployment or StatefulSet differ.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// Goes back to an earlier revision of a Deployment or StatefulSet.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo(Undo),
    /// Holds changes of a Deployment's template back until it is resumed.
    #[command(after_help = "Example:\n  berth rollout pause deployment/web")]
    Pause(Change),
    /// Lets a paused Deployment roll out.
    #[command(after_help = "Example:\n  berth rollout resume deployment/web")]
    Resume(Change),
    /// Replaces all pods of a Deployment or StatefulSet by its rules, without another change.
    #[command(
        after_help = "Examples:\n  berth rollout restart deployment/web\n  berth rollout restart deployment -l tier=front\n  berth rollout restart -f manifests/ -o name"
    )]
    Restart(Change),
    /// Ends the wait that a progressive rollout of a Deployment (annotation berth.dev/steps) is at.
    #[command(after_help = "Example:\n  berth rollout promote deployment/web")]
    Promote(Change),
    /// Tells which pods would go, in order, and by which rule, if a workload had fewer. Changes nothing.
    #[command(after_help = VICTIMS_EXAMPLES)]
    Victims(Victims),
}

impl Verb {
    /// What it is to be done to; `None`: it says so itself.
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
  berth rollout status -f manifests/                   all that the manifests name
  berth rollout status deployment -A --watch=false     how all of the cluster stand
  berth rollout status deployment/web --timeout 2m     give up after two minutes, with exit code 1
  berth rollout status deployment/web --watch=false    say how it stands, do not wait
  berth rollout status deployment/web -o json          one JSON object a line";

const WATCH_EXAMPLES: &str = "Examples:
  berth rollout watch deployment/web
  berth rollout watch                                  all workloads of the namespace; Enter opens one
  berth rollout watch -A                               all of the cluster
  berth rollout watch deployment/web | cat             lines, as berth rollout status prints them";

const HISTORY_EXAMPLES: &str = "Examples:
  berth rollout history deployment/web
  berth rollout history deployment/web --revision 2    the pod template of revision 2
  berth rollout history deployment/web -o json";

const DIFF_EXAMPLES: &str = "Examples:
  berth rollout diff deployment/web                    the newest revision and the one before
  berth rollout diff deployment/web --from 3 --to 5
  berth rollout diff statefulset/db --from 1 -o patch  what kubectl patch --type merge takes";

const UNDO_EXAMPLES: &str = "Examples:
  berth rollout undo deployment/web
  berth rollout undo deployment/web --to-revision 2
  berth rollout undo deployment/web --dry-run=server   ask the server, change nothing";

const VICTIMS_EXAMPLES: &str = "Examples:
  berth rollout victims deployment/web --replicas 3
  berth rollout victims statefulset/db --replicas 1 --from cluster.yaml     from a file, without a cluster";

/// Options of `berth rollout victims`.
#[derive(Args, Debug)]
pub(crate) struct Victims {
    #[command(flatten)]
    pub(crate) target: Target,

    /// How many pods the workload would have.
    #[arg(long, value_name = "N")]
    pub(crate) replicas: i32,

    /// Reads the cluster from files, as kubectl get -o yaml prints it, not from a server. Repeatable.
    #[arg(long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,

    /// Whose controllers the cluster has [default: as its objects show].
    #[arg(long, value_enum)]
    pub(crate) controllers: Option<ControllersOf>,

    /// For programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<PlanOutput>,
}

/// Options of `berth plan`.
#[derive(Args, Debug)]
pub(crate) struct PlanOptions {
    /// TYPE/NAME, repeatable; or a TYPE and names of it. Types: deployment (deploy), statefulset (sts).
    #[arg(value_name = "TYPE/NAME", required_unless_present = "filename", conflicts_with = "filename")]
    pub(crate) resources: Vec<String>,

    /// The new manifest, applied as kubectl apply does: a file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard input. Repeatable, or
    /// several with commas between them. Kinds in it that decide nothing about a rollout are passed over.
    #[arg(short, long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Looks for manifests in the folders within a folder too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Reads the cluster from files, as kubectl get -o yaml prints it, not from a server. Manifests without status are rolled out first. Repeatable.
    #[arg(long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,

    /// Asks the server, by dry run, what would become of the change: its defaults, webhooks and admission count then. Needs the right to make the change.
    #[arg(long, conflicts_with = "from")]
    pub(crate) server_dry_run: bool,

    /// A new image of a container: NAME=IMAGE; *=IMAGE for all. Repeatable.
    #[arg(long, value_name = "NAME=IMAGE", value_parser = image)]
    pub(crate) image: Vec<(String, String)>,

    /// The new number of pods.
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<i32>,

    /// The podReplacementPolicy of Deployments.
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,

    /// The type of the strategy: RollingUpdate, Recreate; of StatefulSets also OnDelete.
    #[arg(long, value_name = "TYPE")]
    pub(crate) strategy: Option<String>,

    /// Whose controllers the cluster has [default: as its objects show].
    #[arg(long, value_enum)]
    pub(crate) controllers: Option<ControllersOf>,

    /// How long pods take from having a node to being ready [default: as the cluster's pods did].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) start: Option<Duration>,

    /// How long pods take from being deleted to being gone [default: as the cluster's pods did, else their grace period].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) stop: Option<Duration>,

    /// How each analysis of a progressive rollout ends, as soon as it is asked.
    #[arg(long, value_enum, default_value_t = AnalysisEnds::Pass)]
    pub(crate) analysis: AnalysisEnds,

    /// Runs so often, with other orders of events and each pod as quick as some pod was, and tells how long half of them, and 95 of 100, take.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) runs: u64,

    /// Tells all policies of Deployments, and all strategies of StatefulSets that go on by themselves, side by side.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Ends with exit code 3 if one of these happens. Repeatable, or several with commas between them.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,

    /// Draws it too: the pods of each workload over time by revision and state, and their bound. With --compare, all policies over the same axes.
    #[arg(long, conflicts_with = "output")]
    pub(crate) chart: bool,

    /// Writes the same as a picture, or as a page with the plan's text below it: the name's ending says which. Needs nothing from elsewhere, and has no scripts.
    /// A file that is there is replaced.
    #[arg(long, value_name = "FILE.svg|FILE.html", value_parser = picture)]
    pub(crate) output_file: Option<PictureFile>,

    /// For programs: one object, which docs/how-to/plan.md describes.
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

/// Whose controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControllersOf {
    /// berth's: all policies and strategies count.
    Berth,
    /// Kubernetes' own: podReplacementPolicy, and Recreate of StatefulSets, have no effect.
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
    /// The rollout goes on.
    Pass,
    /// It goes back.
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
    /// A quota refuses a pod.
    Quota,
    /// The API server refuses a pod, or a ReplicaSet, for another reason.
    Refused,
    /// No node takes a pod.
    Unschedulable,
    /// Fewer pods are available than a budget, or the strategy, promises.
    Unavailable,
    /// The progress deadline passes, or a rollout that nobody holds never completes.
    Deadline,
    /// There are more pods, terminating ones included, than replicas and maxSurge.
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
    /// TYPE/NAME, repeatable; or a TYPE and names of it. Types: deployment (deploy), statefulset (sts), replicaset (rs), pod (po).
    #[arg(value_name = "TYPE/NAME", required = true)]
    pub(crate) resources: Vec<String>,

    /// For programs: an object for each, a line each, which docs/how-to/explain.md describes.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<PlanOutput>,

    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// How a plan or an explanation is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanOutput {
    /// One object.
    Json,
}

/// What a command is about.
#[derive(Args, Debug, Default)]
pub(crate) struct Target {
    /// TYPE/NAME, repeatable; or a TYPE and names of it; or a TYPE alone, for all of the namespace. Types: deployment (deploy), statefulset (sts).
    #[arg(value_name = "TYPE/NAME", required_unless_present = "filename", conflicts_with = "filename")]
    pub(crate) resources: Vec<String>,

    /// Those that a manifest names: a file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard input. Repeatable, or several with
    /// commas between them. Other kinds in it are passed over.
    #[arg(short, long, value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Looks for manifests in the folders within a folder too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Only those with these labels; with a TYPE alone.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "filename")]
    pub(crate) selector: Option<String>,
}

/// Options of verbs that change a workload.
#[derive(Args, Debug)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Prints the workload as it is then, instead of a sentence.
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

    /// How long to wait for each rollout; 0s: for ever.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// The revision that must be the one being rolled out; 0: any.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) revision: i64,

    /// For programs: one JSON object a line, a line for each change.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<StatusOutput>,
}

/// Options of `berth rollout watch`.
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// TYPE/NAME; or a TYPE alone, for the list of those [default: the list of all]. Types: deployment (deploy), statefulset (sts).
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) resources: Vec<String>,
}

/// Options of `berth rollout history`.
#[derive(Args, Debug)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Show this revision with its pod template; 0: list all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) revision: i64,

    /// For programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<HistoryOutput>,
}

/// Options of `berth rollout diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The revision that is compared; 0: the one before that of --to.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: i64,

    /// With which; 0: the newest.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) to: i64,

    /// For programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<DiffOutput>,
}

/// Options of `berth rollout undo`.
#[derive(Args, Debug)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The revision to go back to; 0: the one before the present.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) to_revision: i64,

    /// Change nothing: client shows the template that would be written, server has the server check it too.
    #[arg(long, value_enum, default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "unchanged")]
    pub(crate) dry_run: DryRun,

    /// Prints the workload as it is then, instead of a sentence.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ObjectOutput>,
}

/// How a workload that was changed is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    /// Type and name.
    Name,
    /// The object, without managedFields.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How `status` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusOutput {
    /// One object a line.
    Json,
}

/// How `history` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryOutput {
    /// One object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How `diff` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffOutput {
    /// One object with all differences.
    Json,
    /// The merge patch of the workload that makes the one of the other.
    Patch,
}

/// Whether anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// It is.
    #[value(alias = "false")]
    None,
    /// Nothing is sent.
    Client,
    /// The server does all but keep it.
    Server,
    /// No value: client, as kubectl still reads it.
    #[value(hide = true, alias = "true")]
    Unchanged,
}
