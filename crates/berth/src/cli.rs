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

/// Kubernetes-compatible workload control plane: Deployments, ReplicaSets and StatefulSets that replace pods exactly as their owner asked.
#[derive(Debug, Parser)]
#[command(name = "berth", version = concat!(env!("CARGO_PKG_VERSION"), " (Kubernetes 1.36)"), max_term_width = 120)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  berth up -f examples/shop.yaml           a control plane, with a shop in it
  berth rollout status deployment/web      how a rollout stands in any cluster, and what it waits for
  berth explain deployment/web             what stands in its way, and what to do
  berth plan -f web.yaml                   what a change will do, before it is made
  berth replay week.jsonl.zst              what another policy would have done to what berth record saw

Every option has an environment variable, which its help names; what stands on the command line counts more.";

/// Reads the command line; on `--help` or a mistake, prints what there is to say and ends the process.
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

/// The command tree with all that help says of it.
pub(crate) fn described() -> clap::Command {
    variables::add(Arguments::command().mut_subcommand("test", as_test))
}

/// `berth test` takes the options of `berth up`, but by default shares no port and no folder with anybody, whatever variables say.
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
    /// Starts a whole control plane: API server, store, controllers, scheduler and simulated nodes in this one process.
    #[command(after_help = UP_EXAMPLES)]
    Up(Box<UpWithPage>),
    /// Runs a command against a control plane of its own: any port, objects in memory, KUBECONFIG set, all gone when the command ends.
    ///
    /// The manifests are rolled out first; if that fails, the command is not run and the exit code is 1. Else it is the command's: 128 and
    /// the signal's number where a signal ended it, 127 where there is no such command. Signals are passed on to it. What berth itself has
    /// to say goes to standard error.
    #[command(after_help = TEST_EXAMPLES)]
    Test(Box<Test>),
    /// Starts an API server and its store alone: controllers, scheduler and nodes are processes of their own.
    #[command(name = "apiserver", after_help = APISERVER_EXAMPLES)]
    ApiServer(Box<ServerOptions>),
    /// Runs the controllers on an API server that runs elsewhere, berth's or another.
    #[command(after_help = CONTROLLER_MANAGER_EXAMPLES)]
    ControllerManager(Box<ControllerManager>),
    /// Runs the scheduler on an API server that runs elsewhere.
    #[command(after_help = SCHEDULER_EXAMPLES)]
    Scheduler(Scheduler),
    /// Runs simulated nodes on an API server that runs elsewhere.
    #[command(after_help = NODE_EXAMPLES)]
    Node(Box<Node>),
    /// Tells what a change of Deployments and StatefulSets will do: each step with its time, peaks, and what goes wrong. Changes nothing.
    ///
    /// A snapshot of any cluster, or files, goes into a simulation in which berth's own controllers, scheduler and API rules make the change in virtual
    /// time. Only reads, and no Secrets; what may not be read is named, and the plan is marked PARTIAL. The exit code is 0 for a plan, 1 if there is none, and
    /// 3 if something happens that --fail-on names.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<PlanOptions>),
    /// Records what happens to the workloads of any cluster, for berth replay: Deployments, StatefulSets, ReplicaSets, pods, nodes, quotas, budgets, priorities.
    ///
    /// Only reads, and no Secrets. Of each object the file keeps what planners read: names, the labels that selectors name, counts, resources, conditions and
    /// times; no environment, command, argument, image or other annotation. Ctrl-C ends it with a whole file, and one that is torn can be replayed up to
    /// its last whole line.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(Box<RecordOptions>),
    /// Replays a recording in virtual time, as it was and under another policy, and tells what it cost: pods, resources, time.
    ///
    /// The same changes are made again in a simulation in which berth's own controllers, scheduler and API rules run; pods take as long as they did. Asks no
    /// cluster. The file may be anybody's: all in it has a bound.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Box<ReplayOptions>),
    /// Says why a workload or a pod is not as it is wanted: one cause first, what shows it, what happens next, and what to do.
    ///
    /// Looks once, at any cluster, and changes nothing. What may not be read is named. The exit code is 0 whatever is found.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<ExplainOptions>),
    /// Serves a web page of any cluster's workloads: how they stand, why they wait, and what was, live.
    ///
    /// It shows what the kubeconfig's user may read. It listens on loopback, and prints a link that works once, for a minute; any other address wants TLS.
    #[command(after_help = DASHBOARD_EXAMPLES)]
    Dashboard(Box<DashboardOptions>),
    /// Shows, undoes, pauses and restarts rollouts of any cluster's Deployments and StatefulSets, and says what they wait for.
    #[command(after_help = ROLLOUT_EXAMPLES)]
    Rollout(Box<Rollout>),
    /// Makes a kubeconfig for another user, with a client certificate of the control plane's own authority.
    #[command(after_help = KUBECONFIG_EXAMPLES)]
    Kubeconfig(IssueKubeconfig),
    /// Makes and renews credentials that several servers share: an authority, certificates, keys, kubeconfigs.
    #[command(after_help = PKI_EXAMPLES)]
    Pki(PkiCommands),
    /// Reads the store in a data folder, all of it, and says what is whole. Changes nothing; refuses while a server uses the folder.
    ///
    /// The exit code is 0 if everything is whole, and 1 if something is damaged or the store could not be read.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Copies the embedded store of a data folder into one file, as of one revision, also while the server runs.
    ///
    /// Objects are in it as they are, every Secret too; certificates and keys only with --with-keys. It is checksummed; berth restore reads it, and so does berth store import.
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(Backup),
    /// Makes the embedded store of a data folder, which has none, of a backup. All of it is checked before anything is made.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(Restore),
    /// Takes what is stored from one store to another, and gives an etcd back to a kube-apiserver.
    #[command(after_help = STORE_EXAMPLES)]
    Store(Box<Store>),
    /// Says which build this is: version, commit, date, and the Kubernetes release that it is compatible with.
    #[command(after_help = "Examples:\n  berth version\n  berth version -o json")]
    Version(VersionOptions),
    /// Prints a script with which a shell completes commands and options.
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
    /// The data folder of berth up [default: berth's folder under the XDG data folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// For programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ProgramOutput>,
}

/// Options of `berth version`.
#[derive(Args, Debug)]
pub(crate) struct VersionOptions {
    /// For programs.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ProgramOutput>,
}

/// How what is said once is printed.
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
    /// Whose script.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `berth man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Where to write them; made if it is missing.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

const KUBECONFIG_EXAMPLES: &str = "Examples:
  berth kubeconfig --user alice --group dev --output alice.kubeconfig
  kubectl create rolebinding dev --clusterrole edit --group dev

A certificate cannot be taken back before it ends: take the user's bindings away instead, or give it a short --duration.";

/// Options of `berth kubeconfig`.
#[derive(Args, Debug)]
pub(crate) struct IssueKubeconfig {
    /// The user's name.
    #[arg(long, value_name = "NAME", value_parser = subject)]
    pub(crate) user: String,

    /// A group of the user. Repeatable.
    #[arg(long = "group", value_name = "GROUP", value_parser = subject)]
    pub(crate) groups: Vec<String>,

    /// How long the certificate holds.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    pub(crate) duration: Duration,

    /// The folder of the control plane [default: berth's folder under the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// The server's address [default: that of the administrator's kubeconfig in the folder].
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// The file to write, readable by its owner alone; `-`: standard output, even if that is a terminal [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The name of a user or a group. Others read it in logs and tables, and the empty one is nobody's.
fn subject(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("a name has at least one character"),
        _ if text.chars().any(char::is_control) => Err("a name has no control characters"),
        _ => Ok(text.to_owned()),
    }
}

const PLAN_EXAMPLES: &str = "Examples:
  berth plan -f web.yaml                                        if I apply this, what happens in my cluster?
  berth plan deployment/web --image web=web:3 --replicas 40     if I change that?
  berth plan deployment/web --image web=web:3 --compare         under which policy?
  berth plan deployment/web --replicas 40 --chart               drawn, pods over time
  berth plan -f new.yaml --from old.yaml --stop 30s             from files, without a cluster
  berth plan -f web.yaml --compare --output-file plan.html      a page with all policies drawn
  berth plan -f web.yaml --server-dry-run                       with the server's own webhooks and policies
  berth plan -f web.yaml --fail-on quota,deadline -o json       in CI";

const EXPLAIN_EXAMPLES: &str = "Examples:
  berth explain deployment/web
  berth explain statefulset/db pod/db-1 -n shop
  berth explain deployment/web -o json | jq .cause.reason";

const ROLLOUT_EXAMPLES: &str = "Examples:
  berth rollout status deployment/web          wait until it is complete; say what it waits for
  berth rollout undo deployment/web            go back to the revision before

As a plugin of kubectl (kubectl berth rollout status deployment/web):
  ln -s \"$(command -v berth)\" /usr/local/bin/kubectl-berth";

const UP_EXAMPLES: &str = "Examples:
  berth up -f examples/shop.yaml                     start, roll the manifest out, keep running
  berth up -f examples/shop.yaml --open              the same, and look at it in the browser
  berth up --store memory --secure-port 0            a throw-away control plane on any free port
  berth up --store etcd --etcd-servers http://127.0.0.1:2379    objects in an etcd
  berth up --store memory -f manifests/ --wait       whether they roll out: exit code 0 or 1
  berth up --controllers='*,-deployment'             all controllers but one
  kubectl kustomize overlays/test | berth up -f -    from standard input

In another terminal:
  export KUBECONFIG=<the path that berth printed>
  kubectl get deployments --watch";

const APISERVER_EXAMPLES: &str = "Example, each in a terminal of its own:
  berth apiserver --data-dir /tmp/shop
  berth controller-manager --kubeconfig /tmp/shop/kubeconfig
  berth scheduler --kubeconfig /tmp/shop/kubeconfig
  berth node --kubeconfig /tmp/shop/kubeconfig --nodes 5";

const CONTROLLER_MANAGER_EXAMPLES: &str = "Examples:
  berth controller-manager --kubeconfig /tmp/shop/kubeconfig
  berth controller-manager --controllers=deployment,replicaset,statefulset    where another controller manager does the rest";

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

/// Options of `berth up`, which serves a page as nobody else does.
#[derive(Args, Debug)]
pub(crate) struct UpWithPage {
    #[command(flatten)]
    pub(crate) up: Up,

    // The last: what follows would stand under its heading.
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

/// Options of `berth up` and of `berth test`.
#[derive(Args, Debug)]
pub(crate) struct Up {
    /// A manifest to apply and roll out: a file, a folder of *.yaml, *.yml and *.json files, a URL, or - for standard input. Repeatable, or several
    /// with commas between them; applied in order. Objects that are missing are created. Others get the fields that changed in the manifest since it was
    /// last applied. A manifest without objects is an error.
    #[arg(short, long = "filename", value_name = "FILE|DIR|URL|-", value_delimiter = ',')]
    pub(crate) filename: Vec<PathBuf>,

    /// Looks for manifests in the folders within a folder too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Leaves out the manifests' objects of kinds that berth does not serve; without this all others are applied, and the exit code is 1.
    #[arg(long, requires = "filename")]
    pub(crate) skip_unserved: bool,

    /// Ends when the manifests' Deployments and StatefulSets are rolled out, with exit code 0; with 1 as soon as one has failed and no other is under
    /// way, or when --timeout is over. For a command to run against the control plane, see berth test.
    #[arg(long, requires = "filename")]
    pub(crate) wait: bool,

    /// How long to wait for the manifests' workloads before giving up. 0s: indefinitely.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// How long workloads must stay complete, without a pod that crashes, until they count as rolled out.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) steady: Duration,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) nodes: NodeOptions,

    #[command(flatten)]
    pub(crate) control: ControllerOptions,

    /// Features of the controllers only; what is said here overrides --feature-gates.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) controller_feature_gates: String,
}

/// What is said of the server is asked for as often as what is said of the rest.
impl Deref for Up {
    type Target = ServerOptions;

    fn deref(&self) -> &ServerOptions {
        &self.server
    }
}

/// Options of `berth apiserver`, and of `berth up` about its API server.
#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// Where objects, certificates and the kubeconfig are kept [default: berth's folder under the XDG data folder; a fresh temporary folder with --store memory].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Where objects are kept, and whether they survive the process.
    #[arg(long, value_enum, default_value = "embedded")]
    pub(crate) store: StoreKind,

    #[command(flatten)]
    pub(crate) etcd: EtcdOptions,

    /// Starts with what can be read of a damaged store. What cannot be read is lost; the damaged files stay beside it. See berth check.
    #[arg(long)]
    pub(crate) accept_loss: bool,

    /// How many bytes of replaced versions are kept for watches and lists, and how many more for paged lists that go on.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) history_bytes: usize,

    /// How many bytes may be stored. Beyond it, what grows is refused; reads, deletions, statuses and leases go on. No namespace takes more than half of
    /// what the others leave. 0: no bound [default: an eighth of the machine's memory, or of the cgroup's limit]. With --store etcd it is etcd's own
    /// quota that counts.
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota_bytes: Option<u64>,

    /// How many bytes of memory the process may take until it stores no more; shortly before that it stores slowly. 0: no bound
    /// [default: three quarters of the machine's memory, or of the cgroup's limit].
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_bytes: Option<u64>,

    /// The address to listen on.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,

    /// The port to listen on; 0 takes any free one.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(crate) secure_port: u16,

    /// Where the administrator's kubeconfig is written, readable by its owner alone [default: <data-dir>/kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) credentials: CredentialOptions,

    /// Bearer tokens and their users: a file of token,user,uid,"group1,group2", a line each.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,

    /// Whether requests without credentials are those of system:anonymous, who may read health and version; else they are refused.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) anonymous_auth: bool,

    /// Which requests the audit log tells of, and how much: a Policy of audit.k8s.io/v1.
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    pub(crate) audit_policy_file: Option<PathBuf>,

    /// Where the audit log is written, one JSON object a line; - is standard output.
    #[arg(long, value_name = "FILE|-", requires = "audit_policy_file")]
    pub(crate) audit_log_path: Option<PathBuf>,

    /// How large the audit log may become, in megabytes, before it is put aside as audit-TIME.log; 0: it never is.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100)]
    pub(crate) audit_log_maxsize: u32,

    /// How many days audit logs that were put aside are kept; 0: however old they are.
    #[arg(long, value_name = "DAYS", default_value_t = 366)]
    pub(crate) audit_log_maxage: u32,

    /// How many audit logs that were put aside are kept; 0: however many there are.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) audit_log_maxbackup: u32,

    /// How many requests that only read are answered at once; more wait in a queue for each user, then get 429. Administrators
    /// (system:masters) and health checks are not counted. 0: no bound.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) max_requests_inflight: usize,

    /// The same for requests that change something.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_mutating_requests_inflight: usize,

    /// How long a request that is no watch may take before it is answered with 504.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) request_timeout: Duration,

    #[command(flatten)]
    pub(crate) services: ServiceOptions,

    /// Features to switch on or off, as every kube component takes them: Name=true,Other=false.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) feature_gates: String,

    /// Features of the API server only; what is said here overrides --feature-gates.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) apiserver_feature_gates: String,

    /// How the log on standard error is written.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Logs more: -v what controllers and nodes do, -vv every request. The variable BERTH_LOG takes a filter instead: warn,berth_apiserver=debug.
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

    /// How long to wait for rollouts; for ever, where nobody waits for an end.
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
