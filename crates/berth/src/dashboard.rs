//! `berth dashboard`: the web page of any cluster; and the page of `berth up` ([`own`]). The crate `berth-dashboard` contains the pages.

mod late;
pub(crate) mod own;

use crate::{
    cluster_options::ClusterOptions,
    env::{self, Faults},
    logging::{self, LogFormat},
    progress::{Output, warn},
    rollout::{features, forecaster::PlanForecaster},
    signals::Signals,
    threads::{self, Threads},
};
use berth_dashboard::{Dashboard, FirstPage, Following, Options, TlsOptions};
use berth_remote::RemoteCluster;
use clap::Args;
use std::{
    error::Error,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
};

pub(crate) const DASHBOARD_EXAMPLES: &str = "Examples:
  berth dashboard --open                        the cluster of the current context, in the browser
  berth dashboard --context prod -n shop        one namespace, if you may read no other
  berth dashboard --address 192.0.2.7 --port 8443 --host berth.example.com \\
      --tls-cert-file berth.pem --tls-private-key-file berth.key    for other devices";

/// Options of `berth dashboard`.
#[derive(Args, Debug)]
pub(crate) struct DashboardOptions {
    /// The address to listen on. Every address except loopback requires TLS.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,

    /// The port to listen on. 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// A name of the page for browsers, besides its address. berth rejects requests for every other name. Repeatable.
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,

    /// A file with the page's certificate and its intermediate authorities.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// A file with the certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// Opens the page in the browser.
    #[arg(long)]
    pub(crate) open: bool,

    /// The format of the log on standard error.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Logs more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    // Last, because otherwise the following options would be under its heading.
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Serves the page until a signal comes.
pub(crate) fn run(options: &DashboardOptions) -> Outcome<ExitCode> {
    logging::start(options.log_format, options.verbose);
    let tls = tls(options)?;
    let runtime = threads::builder().build()?;
    runtime.block_on(async {
        let signals = Signals::take()?;
        let threads = Threads::start("dashboard", 1)?;
        let faults = Faults::new();
        let env = env::real(threads.handle(), faults.clone());
        let ended = tokio::select! {
            fault = faults.first() => Err(fault.into()),
            ended = serve(options, tls, env, &signals) => ended,
            // A user who interrupts the wait for the cluster.
            signal = signals.beyond(1) => Ok(signal.exit_code()),
        };
        threads.end().await;
        ended
    })
}

async fn serve(options: &DashboardOptions, tls: Option<TlsOptions>, env: berth_store::env::Env, signals: &Signals) -> Outcome<ExitCode> {
    let remote = options.cluster.remote();
    let cluster = tokio::select! {
        cluster = RemoteCluster::connect(&remote, env.clone()) => cluster?.named("berth-dashboard"),
        _ = signals.beyond(0) => return Ok(ExitCode::SUCCESS),
    };
    let server = cluster.server().trim_end_matches('/').to_owned();
    let namespace = options.cluster.namespace.as_ref().filter(|_| !options.cluster.all_namespaces);
    let (cluster, title) = match namespace {
        Some(namespace) => (cluster.in_namespace(namespace.as_str().into()), format!("{server}, namespace {namespace}")),
        None => (cluster, server),
    };
    // A user without access to the gates has already seen a more important error.
    let (gates, unheeded) = features::of_cluster(&options.cluster).await.unwrap_or_default();
    let dashboard = Dashboard::bind(
        Options {
            bind: SocketAddr::new(options.address, options.port),
            tls,
            names: options.hosts.clone(),
            title,
            gates,
            unheeded,
            forecaster: Some(PlanForecaster::shared(remote)),
            following: Following::AtOnce,
            first: FirstPage::Workloads,
            print_link: Box::new(|link| Output::Stdout.line(&link_text(link))),
        },
        Arc::new(cluster),
        env,
    )
    .await?;
    let link = dashboard.link();
    Output::Stdout.line(&format!("{}. Ctrl-C stops it.", link_text(&link)));
    if options.open {
        open(&link);
    }
    let stopped = async {
        signals.beyond(0).await;
    };
    dashboard.serve(stopped).await;
    Ok(ExitCode::SUCCESS)
}

/// The text about a link.
fn link_text(link: &str) -> String {
    format!(
        "The page: {link}\n  The link works once, within a minute. Need another? Open the page and press the button; it is printed here"
    )
}

/// Opens a link in the browser.
fn open(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(program).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        warn(&format!("berth: cannot open the browser with {program}: {error}"));
    }
}

fn tls(options: &DashboardOptions) -> Outcome<Option<TlsOptions>> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let files = options.tls_cert_file.as_ref().zip(options.tls_private_key_file.as_ref());
    files.map(|(certificates, key)| Ok(TlsOptions { certificates: read(certificates)?, key: read(key)? })).transpose()
}
