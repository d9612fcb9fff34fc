//! The page of `berth up`. It listens on loopback, has a user of its own, and sends requests over HTTPS like any other client. It sends
//! none before a user has signed in.

use super::{late::Late, open};
use crate::{
    env::{self, Faults, RealRng},
    progress::{Output, chain, warn},
    rollout::forecaster::PlanForecaster,
};
use berth_api::FeatureGates;
use berth_apiserver::{
    auth::{MASTERS, User},
    pki,
};
use berth_controllers::{Cluster, ClusterError};
use berth_dashboard::{Dashboard, FirstPage, Following, Links, Options};
use berth_local::cluster_error;
use berth_registry::{DASHBOARD_USER, Registry};
use berth_remote::RemoteCluster;
use berth_store::env::{Env, Rng};
use clap::Args;
use futures::FutureExt;
use std::{
    error::Error,
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

/// Options of `berth up` about its page.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Page")]
pub(crate) struct PageOptions {
    /// Opens the page in the browser.
    #[arg(long)]
    pub(crate) open: bool,

    /// The port of the page, on loopback. 0 chooses a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) dashboard_port: u16,

    /// Lets the page act as an administrator instead of as the user berth:dashboard, whose roles restrict it.
    #[arg(long)]
    pub(crate) dashboard_as_admin: bool,

    /// Serves no page.
    #[arg(long, conflicts_with = "open")]
    pub(crate) no_dashboard: bool,
}

/// What the server must know about a page before the server starts.
pub(crate) struct PageUser {
    options: PageOptions,
    /// Only this process knows the token. The token is lost when the process ends.
    token: String,
}

impl PageUser {
    /// The user of the requested page, if there is one.
    pub(crate) fn of(options: &PageOptions) -> Option<Self> {
        let mut secret = [0; 32];
        RealRng::new().fill(&mut secret);
        let token = secret.iter().fold(String::new(), |mut token, byte| {
            write!(token, "{byte:02x}").expect("a String takes whatever is written");
            token
        });
        (!options.no_dashboard).then(|| Self { options: options.clone(), token })
    }

    /// The token and its user.
    pub(crate) fn known(&self) -> (String, User) {
        let groups = if self.options.dashboard_as_admin { vec![MASTERS.to_owned()] } else { Vec::new() };
        (self.token.clone(), User::authenticated(DASHBOARD_USER, &groups))
    }
}

/// The server of the page.
pub(crate) struct Server {
    /// The address of the server on this machine.
    pub(crate) address: SocketAddr,
    /// The file with the certificate of the server's authority.
    pub(crate) authority: PathBuf,
    /// The name in the server's certificate, if the certificate is not valid for the address.
    pub(crate) name: Option<String>,
    /// The server's registry, which grants rights to the page's user.
    pub(crate) registry: Registry,
    /// The feature gates of the server's controllers.
    pub(crate) gates: Arc<FeatureGates>,
    /// The server's time and randomness.
    pub(crate) env: Env,
    /// The runtime for users' requests.
    pub(crate) runtime: Handle,
}

/// A page in service.
pub(crate) struct OwnPage {
    links: Links,
    open: bool,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl OwnPage {
    /// Serves the page.
    ///
    /// # Errors
    /// Another process uses its port.
    pub(crate) async fn start(user: PageUser, server: Server) -> Result<Self, Box<dyn Error>> {
        let PageUser { options, token } = user;
        // A fault of the page ends only the page, not the server.
        let faults = Faults::new();
        let env = env::beside(&server.env, server.runtime.clone(), faults.clone());
        let url = format!("https://{}", server.address);
        let remote = berth_remote::Options {
            server: Some(url.clone()),
            certificate_authority: Some(server.authority),
            tls_server_name: server.name,
            token: Some(token),
            ..berth_remote::Options::default()
        };
        let told = Options {
            bind: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), options.dashboard_port),
            tls: None,
            names: Vec::new(),
            title: format!("{url} as {DASHBOARD_USER}{}", if options.dashboard_as_admin { ", an administrator" } else { "" }),
            gates: (*server.gates).clone(),
            unheeded: None,
            forecaster: Some(PlanForecaster::shared(remote.clone())),
            following: Following::OnDemand,
            first: FirstPage::UnderWay,
            print_link: Box::new(|link| Output::Stdout.line(&format!("The page: {link}"))),
        };
        let rights = (!options.dashboard_as_admin).then_some(server.registry);
        let connect = {
            let env = env.clone();
            move || connect(remote.clone(), rights.clone(), env.clone()).boxed()
        };
        let cluster = Arc::new(Late::new(env.clone(), connect));
        let dashboard = Dashboard::bind(told, cluster, env).await;
        let dashboard = dashboard.map_err(|error| format!("{} (--dashboard-port, --no-dashboard)", chain(&error)))?;
        let links = dashboard.links();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.runtime.spawn(dashboard.serve(ended(stopped, faults)));
        Ok(Self { links, open: options.open, stop, serving })
    }

    /// Returns the announcement of the page, with a link.
    pub(crate) fn announce(&self) -> String {
        let link = self.links.another();
        Output::Stdout.line(&format!("  in the browser: {link}"));
        Output::Stdout
            .line("    The link works once, within a minute. Need another? Open the page and press the button; it is printed here.");
        link
    }

    /// Opens a link in the browser, if the options request it.
    pub(crate) fn open_if_asked(&self, link: &str) {
        if self.open {
            open(link);
        }
    }

    /// Resolves when the page has ended. Only the rights of its user remain.
    pub(crate) async fn end(self) {
        let _ = self.stop.send(());
        // The page has already reported its panic.
        let _ = self.serving.await;
    }
}

/// Resolves when the page must end: after a signal, or after a fault.
async fn ended(stopped: oneshot::Receiver<()>, faults: Faults) {
    tokio::select! {
        _ = stopped => (),
        fault = faults.first() => warn(&format!("berth: {fault}; this is a bug in berth. The page has ended; everything else continues")),
    }
}

/// Grants the page's user the required rights, if any, and connects as that user.
async fn connect(remote: berth_remote::Options, rights: Option<Registry>, env: Env) -> Result<Arc<dyn Cluster>, ClusterError> {
    if let Some(registry) = rights {
        registry.bootstrap_dashboard().await.map_err(cluster_error)?;
    }
    let connected = RemoteCluster::connect(&remote, env).await.map_err(|error| ClusterError::Unknown(chain(&error)))?;
    Ok(Arc::new(connected.named("berth-dashboard")))
}

/// A server name for connections to `ip`, unless the certificate is valid for `ip` itself. In a wildcard name, `page` replaces the
/// wildcard.
pub(crate) fn other_name(certificate: &str, ip: IpAddr) -> Option<String> {
    let names = pki::server_names(certificate);
    let is_for = |name: &String| name.parse() == Ok(ip);
    let first = names.first().filter(|_| !names.iter().any(is_for));
    first.map(|name| name.replacen('*', "page", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_of_the_page_ends_the_page_and_nothing_else() {
        let (of_all, of_page) = (Faults::new(), Faults::new());
        let env = env::beside(&env::real(Handle::current(), of_all.clone()), Handle::current(), of_page.clone());
        let (_stop, stopped) = oneshot::channel();
        let ended = ended(stopped, of_page);
        env.spawner.spawn("dashboard board", async { panic!("an unexpected name") }.boxed());
        ended.await;
        assert!(of_all.first().now_or_never().is_none(), "the control plane goes on");
    }

    #[test]
    fn who_asks_for_the_page_is_no_administrator_unless_that_was_asked_for() {
        let options = PageOptions { open: false, dashboard_port: 0, dashboard_as_admin: false, no_dashboard: false };
        let user = |options: &PageOptions| PageUser::of(options).map(|user| user.known());
        let (token, own) = user(&options).expect("there is one");
        assert_eq!((own.name.as_str(), own.is_master()), (DASHBOARD_USER, false));
        let (other, admin) = user(&PageOptions { dashboard_as_admin: true, ..options.clone() }).expect("there is one");
        assert!(admin.is_master() && token.len() == 64 && token != other);
        assert!(user(&PageOptions { no_dashboard: true, ..options }).is_none());
    }

    #[test]
    fn a_server_is_asked_by_a_name_that_its_certificate_is_for() {
        let certificate = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            rcgen::generate_simple_self_signed(names).expect("names").cert.pem()
        };
        let here = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(other_name(&certificate(&["localhost", "127.0.0.1"]), here), None);
        assert_eq!(other_name(&certificate(&["berth.example", "10.0.0.1"]), here).as_deref(), Some("berth.example"));
        assert_eq!(other_name(&certificate(&["*.berth.example"]), here).as_deref(), Some("page.berth.example"));
        assert_eq!(other_name("no certificate", here), None);
    }
}
