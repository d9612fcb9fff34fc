//! The command line.

use crate::{
    apart::options::{ControllerManager, Node, Scheduler},
    controllers::ControllerOptions,
    credentials::CredentialOptions,
    dashboard::{DASHBOARD_EXAMPLES, DashboardOptions, own::PageOptions},
    data_dir::StoreKind,
    duration::duration,
    etcd::EtcdOptions,
    logging::LogFormat,
    nodes::NodeOptions,
    pki::{PKI_EXAMPLES, PkiCommands},
    progress::warn,
    rollout::{
        options::{ExplainOptions, PlanOptions, Rollout},
        trace_options::{RECORD_EXAMPLES, REPLAY_EXAMPLES, RecordOptions, ReplayOptions},
    },
    services::ServiceOptions,
    store::options::{BACKUP_EXAMPLES, Backup, RESTORE_EXAMPLES, Restore, STORE_EXAMPLES, Store},
    variables,
    webhooks::WebhookOptions,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::{
    env,
    ffi::OsString,
    net::IpAddr,
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

/// Kubernetes API server with real workload controllers and simulated nodes. Also forecasts, explains and follows rollouts of any cluster.
#[derive(Debug, Parser)]
#[command(name = "berth", version = concat!(env!("CARGO_PKG_VERSION"), " (Kubernetes 1.36)"), max_term_width = 120)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  berth up -f examples/shop.yaml           start a control plane with a small shop in it
  berth rollout status deployment/web      show a rollout of any cluster, and what it waits for
  berth explain deployment/web             find out why it waits, and what to do
  berth plan -f web.yaml                   forecast a change
  berth replay week.jsonl.zst              replay a recording of berth record

Every option has an environment variable, which its help names. The command line overrides it.";

/// Reads the command line. On `--help` or an error, prints the text and ends the process.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Arguments {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let command = command(arguments.first());
    let matches = command.clone().try_get_matches_from(arguments).unwrap_or_else(|error| {
        let _ = error.print();
        let mut command = command.clone();
        command.build();
        if let Some(name) = variables::blamed(&error, &command, |name| env::var_os(name).is_some()) {
            warn(&format!("\nThe environment variable {name} is set."));
        }
        std::process::exit(error.exit_code())
    });
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The command tree; called `kubectl berth` where kubectl calls it as its plugin.
fn command(called: Option<&OsString>) -> clap::Command {
    let is_plugin = called.and_then(|path| Path::new(path).file_stem()).is_some_and(|name| name == "kubectl-berth");
    if is_plugin { described().bin_name("kubectl berth") } else { described() }
}

/// The command tree with all help texts.
pub(crate) fn described() -> clap::Command {
    variables::add(Arguments::command().mut_subcommand("test", as_test))
}

/// `berth test` takes the options of `berth up`, but by default it shares no port and no folder with another process, whatever the variables contain.
fn as_test(command: clap::Command) -> clap::Command {
    command
        .mut_arg("secure_port", |arg| arg.default_value("0").env("BERTH_TEST_SECURE_PORT").hide_env_values(true))
        .mut_arg("store", |arg| arg.default_value("memory").env("BERTH_TEST_STORE").hide_env_values(true))
        .mut_arg("etcd_servers", |arg| arg.env("BERTH_TEST_ETCD_SERVERS").hide_env_values(true))
        .mut_arg("etcd_servers_overrides", |arg| arg.env("BERTH_TEST_ETCD_SERVERS_OVERRIDES").hide_env_values(true))
        .mut_arg("data_dir", |arg| arg.env("BERTH_TEST_DATA_DIR").hide_env_values(true))
        .mut_arg("kubeconfig_file", |arg| arg.env("BERTH_TEST_KUBECONFIG_FILE").hide_env_values(true))
        .mut_arg("wait", |arg| arg.hide(true).default_value("true"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts a control plane in one process: API server, store, controllers, scheduler and simulated nodes.
    #[command(after_help = UP_EXAMPLES)]
    Up(Box<UpWithPage>),
    /// Runs a command against a temporary control plane: any free port, objects in memory, KUBECONFIG set.
    ///
    /// Rolls the manifests out first. If that fails, berth does not run the command and exits with 1. Otherwise it exits with the command's
    /// exit code. That is 128 plus the signal's number if a signal ended the command, and 127 if the command does not exist. berth forwards
    /// signals to the command, and prints its own messages to standard error.
    #[command(after_help = TEST_EXAMPLES)]
    Test(Box<Test>),
    /// Starts only an API server and its store. Controllers, scheduler and nodes are separate processes.
    #[command(name = "apiserver", after_help = APISERVER_EXAMPLES)]
    ApiServer(Box<ServerOptions>),
    /// Runs the controllers on a separate API server, berth's or another.
    #[command(after_help = CONTROLLER_MANAGER_EXAMPLES)]
    ControllerManager(Box<ControllerManager>),
    /// Runs the scheduler on a separate API server.
    #[command(after_help = SCHEDULER_EXAMPLES)]
    Scheduler(Scheduler),
    /// Runs simulated nodes on a separate API server.
    #[command(after_help = NODE_EXAMPLES)]
    Node(Box<Node>),
    /// Forecasts a change of Deployments, StatefulSets and DaemonSets: each step with its time, the peaks, and the problems. Changes
    /// nothing.
    ///
    /// Reads a snapshot of any cluster, or files. A simulation then makes the change in virtual time, with berth's own controllers,
    /// scheduler and API rules. berth plan only reads, and reads no Secrets. It lists what you may not read, and marks the plan PARTIAL.
    /// The exit code is 0 for a plan, 1 for no plan, and 3 if an event of --fail-on happens.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanOptions>),
    /// Records the changes of a cluster's workloads for berth replay: Deployments, StatefulSets, ReplicaSets, pods, nodes, quotas, budgets,
    /// priorities and autoscalers.
    ///
    /// berth record only reads, and reads no Secrets. The file contains the fields that planners read: names, the labels that selectors
    /// use, counts, resources, conditions and times. It contains no environment, command, argument, image or other annotation. Ctrl-C
    /// completes the file. An incomplete file can be replayed up to its last complete line.
    ///
    /// Every 15 s, the file gets the total cpu and memory of each workload that has a HorizontalPodAutoscaler, if the cluster has a metrics
    /// server.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(Box<RecordOptions>),
    /// Replays a recording in virtual time: as it was, under another policy, or with another autoscaler. Prints the cost of each: pods,
    /// resources, time.
    ///
    /// A simulation makes the same changes again, with berth's own controllers, scheduler and API rules. Pods take as long as they did.
    /// berth replay contacts no cluster. You can replay files that you do not trust: everything in them is limited.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Box<ReplayOptions>),
    /// Explains why a workload or a pod is not as specified: the main cause, its evidence, what happens next, and what to do.
    ///
    /// Reads any cluster once, and changes nothing. Lists what you may not read. The exit code is 0 for every result.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainOptions>),
    /// Serves a live web page of any cluster's workloads: their states, what they wait for, and their history.
    ///
    /// The page shows what the kubeconfig's user may read. It listens on loopback, and prints a link that works once, within a minute.
    /// Every other address requires TLS.
    #[command(after_help = DASHBOARD_EXAMPLES)]
    Dashboard(Box<DashboardOptions>),
    /// Shows, undoes and restarts rollouts of Deployments, StatefulSets and DaemonSets in any cluster. Pauses Deployments. Prints what
    /// rollouts wait for.
    #[command(after_help = ROLLOUT_EXAMPLES)]
    Rollout(Box<Rollout>),
    /// Creates a kubeconfig for another user, with a client certificate that the control plane's own authority signs.
    #[command(after_help = KUBECONFIG_EXAMPLES)]
    Kubeconfig(IssueKubeconfig),
    /// Creates and renews the credentials that several servers share: an authority, certificates, keys and kubeconfigs.
    #[command(after_help = PKI_EXAMPLES)]
    Pki(PkiCommands),
    /// Checks the whole store in a data folder and reports damage. Changes nothing, and fails while a server uses the folder.
    ///
    /// The exit code is 0 if everything is intact, and 1 if something is damaged or the store could not be read.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Copies the embedded store of a data folder into one file, as of one revision. Works while the server runs.
    ///
    /// The file contains the objects as they are, with every Secret. It contains certificates and keys only with --with-keys. It has
    /// checksums. berth restore and berth store import read it.
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(Backup),
    /// Creates the embedded store of a data folder from a backup. Checks the whole backup before it writes anything.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(Restore),
    /// Copies objects from one store to another, and returns an etcd to a kube-apiserver.
    #[command(after_help = STORE_EXAMPLES)]
    Store(Box<Store>),
    /// Prints the version, commit and date of this build, and the Kubernetes release that it is compatible with.
    #[command(after_help = "Examples:\n  berth version\n  berth version -o json")]
    Version(VersionOptions),
    /// Prints a completion script for a shell.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion(Completion),
    /// Writes the man pages of all commands.
    #[command(after_help = "Example:\n  berth man ~/.local/share/man/man1 && man berth-rollout-status")]
    Man(Man),
    /// Prints docs/commands.md.
    #[command(hide = true, after_help = "Example:\n  berth commands-page > docs/commands.md")]
    CommandsPage,
}

const CHECK_EXAMPLES: &str = "Examples:
  berth check
  berth check --data-dir /var/lib/berth -o json";

/// Options of `berth check`.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The data folder of berth up [default: berth's folder in the XDG data folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// The output format for programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ProgramOutput>,
}

/// Options of `berth version`.
#[derive(Args, Debug)]
pub(crate) struct VersionOptions {
    /// The output format for programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ProgramOutput>,
}

/// The output format of commands that print once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgramOutput {
    /// One object.
    Json,
}

const COMPLETION_EXAMPLES: &str = "Examples:
  berth completion bash > ~/.local/share/bash-completion/completions/berth
  berth completion zsh > \"${fpath[1]}/_berth\"
  berth completion fish > ~/.config/fish/completions/berth.fish";

/// Options of `berth completion`.
#[derive(Args, Debug)]
pub(crate) struct Completion {
    /// The shell of the script.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `berth man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder to write to. berth creates it if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

const KUBECONFIG_EXAMPLES: &str = "Examples:
  berth kubeconfig --user alice --group dev --output alice.kubeconfig
  kubectl create rolebinding dev --clusterrole edit --group dev

A certificate cannot be revoked. Remove the user's bindings instead, or choose a short --duration.";

/// Options of `berth kubeconfig`.
#[derive(Args, Debug)]
pub(crate) struct IssueKubeconfig {
    /// The user's name.
    #[arg(long, value_name = "NAME", value_parser = subject)]
    pub(crate) user: String,

    /// A group of the user. Repeatable.
    #[arg(long = "group", value_name = "GROUP", value_parser = subject)]
    pub(crate) groups: Vec<String>,

    /// How long the certificate is valid.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    pub(crate) duration: Duration,

    /// The folder of the control plane [default: berth's folder in the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// The server's address [default: the address in the administrator's kubeconfig in the folder].
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// The file to write, readable only by its owner. `-` is standard output, even if it is a terminal [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The name of a user or a group. Logs and tables show it, and it must not be empty.
fn subject(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("a name has at least one character"),
        _ if text.chars().any(char::is_control) => Err("a name has no control characters"),
        _ => Ok(text.to_owned()),
    }
}

const PLAN_EXAMPLES: &str = "Examples:
  berth plan -f web.yaml                                        forecast the apply of a manifest
  berth plan deployment/web --image web=web:3 --replicas 40     forecast a change
  berth plan deployment/web --image web=web:3 --compare         compare policies
  berth plan deployment/web --replicas 40 --chart               draw pods over time
  berth plan -f new.yaml --from old.yaml --stop 30s             use files, not a cluster
  berth plan -f web.yaml --compare --output-file plan.html      write a page with all policies
  berth plan -f web.yaml --server-dry-run                       include the server's webhooks and policies
  berth plan -f web.yaml --fail-on quota,deadline -o json       fail in CI";

const EXPLAIN_EXAMPLES: &str = "Examples:
  berth explain deployment/web
  berth explain statefulset/db pod/db-1 -n shop
  berth explain deployment/web -o json | jq .cause.reason
  berth explain deployment/web --state web.json     save what the controller plans from
  berth explain --from-state web.json               print the plan that it makes from that";

const ROLLOUT_EXAMPLES: &str = "Examples:
  berth rollout status deployment/web          wait until it is complete, and print what it waits for
  berth rollout undo deployment/web            roll back to the previous revision

As a kubectl plugin (kubectl berth rollout status deployment/web):
  ln -s \"$(command -v berth)\" /usr/local/bin/kubectl-berth";

const UP_EXAMPLES: &str = "Examples:
  berth up -f examples/shop.yaml                     start, roll the manifest out, keep running
  berth up -f examples/shop.yaml --open              the same, and open the page in the browser
  berth up --store memory --secure-port 0            a temporary control plane on a free port
  berth up --store etcd --etcd-servers http://127.0.0.1:2379    store objects in etcd
  berth up --store memory -f manifests/ --wait       check that they roll out: exit code 0 or 1
  berth up --controllers='*,-deployment'             all controllers except one
  kubectl kustomize overlays/test | berth up -f -    from standard input

In another terminal:
  export KUBECONFIG=<the path that berth printed>
  kubectl get deployments --watch";

const APISERVER_EXAMPLES: &str = "Example, each in its own terminal:
  berth apiserver --data-dir /tmp/shop
  berth controller-manager --kubeconfig /tmp/shop/kubeconfig
  berth scheduler --kubeconfig /tmp/shop/kubeconfig
  berth node --kubeconfig /tmp/shop/kubeconfig --nodes 5";

const CONTROLLER_MANAGER_EXAMPLES: &str = "Examples:
  berth controller-manager --kubeconfig /tmp/shop/kubeconfig
  berth controller-manager --controllers=deployment,replicaset,statefulset    another controller manager runs the others";

const SCHEDULER_EXAMPLES: &str = "Example:
  berth scheduler --kubeconfig /tmp/shop/kubeconfig";

const NODE_EXAMPLES: &str = "Examples:
  berth node --kubeconfig /tmp/shop/kubeconfig --nodes 100
  berth node --nodes 6 --zones a,b,c --pod-start-latency 2s";

const TEST_EXAMPLES: &str = "Examples:
  berth test -- pytest tests/
  berth test -f manifests/ -- sh -c 'kubectl get pods && ./check.sh'";

/// Options of `berth test`.
#[derive(Args, Debug)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) up: Up,

    /// The command and its arguments.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Options of `berth up`, the only command that also serves a page.
#[derive(Args, Debug)]
pub(crate) struct UpWithPage {
    #[command(flatten)]
    pub(crate) up: Up,

    // The last: otherwise the following options would be under its heading.
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

/// Options of `berth up` and of `berth test`.
#[derive(Args, Debug)]
pub(crate) struct Up {
    /// A manifest to apply and roll out: a file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard input. Repeatable, or
    /// separated by commas. Applied in order. berth creates missing objects. Other objects get the fields that changed in the manifest
    /// since its last apply. A manifest without objects is an error.
    #[arg(short, long = "filename", value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Also reads manifests in subfolders.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Skips objects of kinds that berth does not serve. Without this option, berth applies all others and exits with 1.
    #[arg(long, requires = "filename")]
    pub(crate) skip_unserved: bool,

    /// Exits with 0 when the manifests' Deployments, StatefulSets and DaemonSets are rolled out. ReplicaSets, ReplicationControllers and Pods must be
    /// available, and Jobs complete. CronJobs do not count. Exits with 1 when one has failed or was deleted and no other is in progress, or after
    /// --timeout. To run a command against the control plane, use berth test.
    #[arg(long, requires = "filename")]
    pub(crate) wait: bool,

    /// How long to wait for the manifests' workloads. 0s waits indefinitely.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// How long workloads must be complete, without a pod that crashes, to count as rolled out.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) steady: Duration,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) nodes: NodeOptions,

    #[command(flatten)]
    pub(crate) control: ControllerOptions,

    /// Features of the controllers only. Overrides --feature-gates.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) controller_feature_gates: String,
}

/// The options of the server are read as often as the rest.
impl Deref for Up {
    type Target = ServerOptions;

    fn deref(&self) -> &ServerOptions {
        &self.server
    }
}

/// Options of `berth apiserver`, and of `berth up` about its API server.
#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// The folder of objects, certificates and the kubeconfig [default: berth's folder in the XDG data folder; a new temporary folder with
    /// --store memory].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Where objects are stored, and whether they outlive the process.
    #[arg(long, value_enum, default_value = "embedded")]
    pub(crate) store: StoreKind,

    #[command(flatten)]
    pub(crate) etcd: EtcdOptions,

    /// Starts with the readable part of a damaged store. The rest is lost. The damaged files stay beside it. See berth check.
    #[arg(long)]
    pub(crate) accept_loss: bool,

    /// How many bytes of replaced versions to keep for watches and lists, and how many more for paged lists that continue.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) history_bytes: usize,

    /// How many bytes of objects the store accepts. Beyond this limit, berth rejects writes that need more space. Reads, deletions,
    /// statuses and leases continue. A namespace gets at most half of what the others leave. 0 means no limit [default: an eighth of the
    /// memory of the machine or cgroup]. With --store etcd, etcd's own quota counts.
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota_bytes: Option<u64>,

    /// How many bytes of memory the process uses before it rejects writes. Shortly before this limit, writes are slow. 0 means no limit
    /// [default: three quarters of the memory of the machine or cgroup].
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_bytes: Option<u64>,

    /// The address to listen on.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,

    /// The port to listen on. 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(crate) secure_port: u16,

    /// The file for the administrator's kubeconfig, readable only by its owner [default: <data-dir>/kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) credentials: CredentialOptions,

    /// A file of bearer tokens and their users. Each line is token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,

    /// Whether requests without credentials belong to system:anonymous, who may read health and version. With false, berth rejects these
    /// requests.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) anonymous_auth: bool,

    /// The requests to log in the audit log, and their level of detail: a Policy of audit.k8s.io/v1.
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    pub(crate) audit_policy_file: Option<PathBuf>,

    /// The file of the audit log, with one JSON object per line. - is standard output.
    #[arg(long, value_name = "FILE|-", requires = "audit_policy_file")]
    pub(crate) audit_log_path: Option<PathBuf>,

    /// The size of the audit log, in megabytes, at which berth renames it to audit-TIME.log and starts a new one. 0 means no limit.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100)]
    pub(crate) audit_log_maxsize: u32,

    /// How many days to keep renamed audit logs. 0 means no limit.
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    pub(crate) audit_log_maxage: u32,

    /// How many renamed audit logs to keep. 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) audit_log_maxbackup: u32,

    /// How many read-only requests to process at once. Further requests wait in a queue per user, then get 429. Requests of administrators
    /// (system:masters) and health checks do not count. 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) max_requests_inflight: usize,

    /// How many requests that change something to process at once. See --max-requests-inflight.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_mutating_requests_inflight: usize,

    /// How long a request other than a watch may take before it gets 504.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) request_timeout: Duration,

    #[command(flatten)]
    pub(crate) services: ServiceOptions,

    #[command(flatten)]
    pub(crate) webhooks: WebhookOptions,

    /// Features to switch on or off, in the format of all kube components: Name=true,Other=false.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) feature_gates: String,

    /// Features of the API server only. Overrides --feature-gates.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) apiserver_feature_gates: String,

    /// The format of the log on standard error.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Logs more: -v the actions of controllers and nodes, -vv every request. The variable BERTH_LOG sets a filter:
    /// warn,berth_apiserver=debug.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Up {
    /// An API server and nothing else.
    pub(crate) fn server_alone(server: ServerOptions) -> Self {
        let defaults = Self::augment_args(clap::Command::new("up").no_binary_name(true)).get_matches_from(None::<OsString>);
        let mut up = Self::from_arg_matches(&defaults).expect("every option has a default");
        // What the server does itself goes by the name of a controller.
        up.control.controllers = Some("root-ca-cert-publisher".to_owned());
        Self { server, ..up }
    }

    /// How long to wait for rollouts. `None`: indefinitely, or without `--wait`.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        (self.wait && self.timeout > Duration::ZERO).then_some(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_names_the_command_as_it_was_called() {
        let usage = |called: &str| command(Some(&called.into())).render_help().to_string();
        assert!(usage("/usr/bin/kubectl-berth").contains("Usage: kubectl berth <COMMAND>"));
        assert!(usage("./berth").contains("Usage: berth <COMMAND>"));
    }

    #[test]
    fn controllers_may_start_with_a_hyphen() {
        let parsed = Arguments::try_parse_from(["berth", "up", "--controllers", "-*,scheduler"]).expect("parses").command;
        let Command::Up(up) = parsed else { panic!("{parsed:?}") };
        assert_eq!(up.up.control.controllers.as_deref(), Some("-*,scheduler"));
    }
}
