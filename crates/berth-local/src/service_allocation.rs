//! Keeps what Services are given in order: the Service `kubernetes` stays what it should be, claims that a crash left are given back.

use berth_env::{Clock, Env, Timestamp};
use berth_registry::{
    ApiError, Registry, ServerAddress,
    allocation::{Good, repair::Step},
};
use berth_store::{EventKind, Watch, WatchItem};
use futures::{
    StreamExt,
    future::{AbortHandle, FutureExt, abortable, select},
};
use jiff::SignedDuration;
use std::{net::SocketAddr, sync::Arc};

/// How often it is looked whether the Service `kubernetes` is there, as upstream's API server does.
const PUBLISH_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// How often claims are compared with Services.
const REPAIR_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// The interval in which one of several servers renews its key: it may fail twice before the others consider it dead.
const ALIVE_INTERVAL: SignedDuration = SignedDuration::from_secs(5);
/// The same after a failure, and the delay after which a server that fell behind reads the others' keys again.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// The time limit to delete the server's key: its store may be unreachable before.
const FAREWELL_MAX: SignedDuration = SignedDuration::from_secs(2);

/// Who else serves the same store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// There are no others.
    Alone,
    /// Others, as many as like.
    Others,
}

/// A server that the Service `kubernetes` leads to, with others where there are others.
pub struct Presence {
    registry: Registry,
    server: ServerAddress,
    clock: Arc<dyn Clock>,
    publishing: AbortHandle,
    among: Among,
}

/// Publishes the server, and starts to do so again and to repair, for as long as the process runs.
pub async fn start(registry: &Registry, server: ServerAddress, among: Among, env: &Env) -> Presence {
    let (clock, publisher) = (Arc::clone(&env.clock), registry.clone());
    let first = match among {
        Among::Alone => publisher.publish_server(server).await,
        Among::Others => show_alive(&publisher, server).await,
    };
    if let Err(error) = first {
        tracing::warn!(%error, "the Service kubernetes could not be created; retrying within 10 s");
    }
    let publish = async move {
        match among {
            Among::Alone => publish_again(&publisher, server, &*clock).await,
            Among::Others => live(&publisher, server, &*clock).await,
        }
    };
    let (publish, publishing) = abortable(publish);
    env.spawner.spawn("kubernetes service", publish.map(drop).boxed());
    let (clock, repairer) = (Arc::clone(&env.clock), registry.clone());
    let repair = async move {
        loop {
            clock.sleep_until(clock.now() + REPAIR_INTERVAL).await;
            match repairer.repair_allocations().await {
                Ok(steps) => steps.iter().for_each(log_step),
                Err(error) => tracing::warn!(%error, "the allocations of Services could not be checked; retrying in a minute"),
            }
        }
    };
    env.spawner.spawn("service allocation repair", Box::pin(repair));
    Presence { registry: registry.clone(), server, clock: Arc::clone(&env.clock), publishing, among }
}

impl Presence {
    /// The server is about to end: one of several deletes its key. Takes two seconds at most. If that fails, the key expires.
    pub async fn end(self) {
        self.publishing.abort();
        if self.among == Among::Alone {
            return;
        }
        let farewell = async {
            if let Some(own) = own(self.server) {
                self.registry.delete_server_key(own).await?;
            }
            self.registry.publish_living_servers(self.server).await
        };
        let late = self.clock.sleep_until(self.clock.now() + FAREWELL_MAX);
        if let futures::future::Either::Left((Err(error), _)) = select(farewell.boxed(), late).await {
            tracing::debug!(%error, "other servers notice the end of this one only later");
        }
    }
}

fn own(server: ServerAddress) -> Option<SocketAddr> {
    server.address.map(|address| SocketAddr::new(address, server.port))
}

async fn publish_again(registry: &Registry, server: ServerAddress, clock: &dyn Clock) {
    loop {
        clock.sleep_until(clock.now() + PUBLISH_INTERVAL).await;
        log_failure(registry.publish_server(server).await);
    }
}

/// Renews the server's key, and publishes the addresses of all live servers.
async fn show_alive(registry: &Registry, server: ServerAddress) -> Result<(), ApiError> {
    if let Some(own) = own(server) {
        registry.renew_server_key(own).await?;
    }
    registry.publish_living_servers(server).await
}

/// Does so again and again, and whenever one comes or goes. Never ends.
async fn live(registry: &Registry, server: ServerAddress, clock: &dyn Clock) {
    let mut due = clock.now() + ALIVE_INTERVAL;
    loop {
        // Before the live servers are published, so that no change in between is missed.
        let watch = registry.living_servers().await.and_then(|living| registry.watch_servers(living.revision));
        let is_due = due <= clock.now();
        let shown = if is_due { show_alive(registry, server).await } else { registry.publish_living_servers(server).await };
        if is_due || shown.is_err() {
            due = clock.now() + if shown.is_ok() { ALIVE_INTERVAL } else { RETRY_INTERVAL };
        }
        log_failure(shown);
        select(servers_change(watch, clock).boxed(), clock.sleep_until(due)).await;
    }
}

fn log_failure(published: Result<(), ApiError>) {
    if let Err(error) = published {
        tracing::debug!(%error, "the Service kubernetes is not correct; retrying");
    }
}

/// Until the set of living servers is another one, or it is unknown whether it is.
async fn servers_change(watch: Result<Watch, ApiError>, clock: &dyn Clock) {
    if let Ok(mut watch) = watch {
        while let Some(Ok(item)) = watch.next().await {
            // A renewal changes nothing.
            let is_new = |kind: EventKind, is_first: bool| kind == EventKind::Deleted || is_first;
            if let WatchItem::Events(events) = item
                && events.iter().any(|event| is_new(event.kind, event.previous.is_none()))
            {
                return;
            }
        }
    }
    let again: Timestamp = clock.now() + RETRY_INTERVAL;
    clock.sleep_until(again).await;
}

fn log_step(step: &Step) {
    let kind = |good: &Good| match good {
        Good::Address(_) => "cluster IP",
        Good::NodePort(_) => "node port",
    };
    match step {
        // It may be that of a Service that is being made.
        Step::MarkUnused(_) => (),
        Step::Release(good) => tracing::warn!("{} {good} was allocated, but no Service has it: released", kind(good)),
        Step::Claim(good, holder) => {
            tracing::warn!("{} {good} of Service {}/{} was not allocated: allocated now", kind(good), holder.namespace, holder.name);
        }
        Step::Report(good, holder) => {
            let (namespace, name) = (&holder.namespace, &holder.name);
            tracing::warn!("{} {good} of Service {namespace}/{name} belongs to another; please recreate the Service", kind(good));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::FeatureGates;
    use berth_env::testing::TestEnv;
    use berth_identity::GroupResource;
    use berth_registry::{Actor, Collection, ListOptions, ResourceTable};
    use berth_store::{MemoryStore, expiry};
    use serde_json::Value;
    use std::{collections::BTreeSet, net::IpAddr};

    struct Servers {
        test_env: TestEnv,
        registry: Registry,
    }

    impl Servers {
        fn new() -> Self {
            let test_env = TestEnv::default();
            test_env.run_for(SignedDuration::from_secs(1_800_000_000));
            let env = test_env.env();
            let table = Arc::new(ResourceTable::default());
            let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 26));
            expiry::start(Arc::<MemoryStore>::clone(&store), &env);
            let gates = Arc::new(FeatureGates::default());
            let registry = Registry::new(store, table, Arc::clone(&env.clock), Arc::clone(&env.rng), gates);
            let bootstrap = registry.clone();
            test_env.block_on(async move { bootstrap.bootstrap().await }).expect("an empty store");
            Self { test_env, registry }
        }

        /// A server in a process of its own.
        fn start(&self, address: &str) -> (Presence, berth_env::virtual_time::Process) {
            let (env, process) = self.test_env.another();
            let server: SocketAddr = address.parse().expect("an address");
            let server = ServerAddress { address: Some(server.ip()), port: server.port() };
            let registry = self.registry.clone();
            (self.test_env.block_on(async move { start(&registry, server, Among::Others, &env).await }), process)
        }

        fn list(&self, group: &str, plural: &str) -> Vec<Value> {
            let resource = self.registry.resources().by_name(&GroupResource::new(group, plural)).cloned().expect("served");
            let (registry, at) = (self.registry.clone(), Collection { resource, namespace: Some("default".to_owned()) });
            let list =
                self.test_env.block_on(async move { registry.list(&Actor::System, &at, &ListOptions::default()).await }).expect("a list");
            list.items.iter().map(|entry| serde_json::from_slice(&entry.value).expect("stored JSON")).collect()
        }

        /// Where the Service leads, by what old clients read, which must be what new ones do.
        fn published(&self) -> Vec<String> {
            let mut found = BTreeSet::new();
            for subset in
                self.list("", "endpoints").iter().flat_map(|endpoints| endpoints["subsets"].as_array().cloned().unwrap_or_default())
            {
                for address in subset["addresses"].as_array().expect("addresses") {
                    let address: IpAddr = address["ip"].as_str().expect("text").parse().expect("an address");
                    let port = u16::try_from(subset["ports"][0]["port"].as_u64().expect("a port")).expect("a port");
                    found.insert(SocketAddr::new(address, port));
                }
            }
            let mut in_slices = BTreeSet::new();
            for slice in self.list("discovery.k8s.io", "endpointslices") {
                for endpoint in slice["endpoints"].as_array().expect("endpoints") {
                    let address: IpAddr = endpoint["addresses"][0].as_str().expect("text").parse().expect("an address");
                    let port = u16::try_from(slice["ports"][0]["port"].as_u64().expect("a port")).expect("a port");
                    in_slices.insert(SocketAddr::new(address, port));
                }
            }
            assert_eq!(found, in_slices);
            found.iter().map(ToString::to_string).collect()
        }

        fn pass(&self, milliseconds: i64) {
            self.test_env.run_for(SignedDuration::from_millis(milliseconds));
        }
    }

    #[test]
    fn the_service_leads_to_the_servers_that_live() {
        let servers = Servers::new();
        let (first, _) = servers.start("192.0.2.1:6443");
        assert_eq!(servers.published(), ["192.0.2.1:6443"]);
        let (_second, of_second) = servers.start("192.0.2.2:6443");
        let (_third, _) = servers.start("192.0.2.3:6443");
        let all = ["192.0.2.1:6443", "192.0.2.2:6443", "192.0.2.3:6443"];
        assert_eq!(servers.published(), all);
        servers.pass(120_000);
        assert_eq!(servers.published(), all, "they go on saying so");
        assert_eq!(servers.list("discovery.k8s.io", "endpointslices").len(), 1, "one slice, of upstream's name");

        of_second.kill();
        servers.pass(9_000);
        assert_eq!(servers.published(), all, "its key has not ended");
        servers.pass(7_500);
        assert_eq!(servers.published(), ["192.0.2.1:6443", "192.0.2.3:6443"]);

        servers.test_env.block_on(first.end());
        assert_eq!(servers.published(), ["192.0.2.3:6443"], "at once");
        servers.pass(120_000);
        assert_eq!(servers.published(), ["192.0.2.3:6443"], "for good");
    }

    #[test]
    fn the_last_one_is_not_taken_away() {
        let servers = Servers::new();
        let (only, _) = servers.start("192.0.2.1:6443");
        servers.test_env.block_on(only.end());
        assert_eq!(servers.published(), ["192.0.2.1:6443"]);
    }

    #[test]
    fn servers_of_one_machine_have_ports_of_their_own() {
        let servers = Servers::new();
        let started = ["192.0.2.1:6444", "192.0.2.1:6443", "[2001:db8::1]:6443"].map(|address| servers.start(address));
        assert_eq!(servers.published(), ["192.0.2.1:6443", "192.0.2.1:6444", "[2001:db8::1]:6443"]);
        let names: Vec<_> =
            servers.list("discovery.k8s.io", "endpointslices").iter().map(|slice| slice["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["kubernetes", "kubernetes-ipv4-6444", "kubernetes-ipv6-6443"]);
        let port = || servers.list("", "services")[0]["spec"]["ports"][0]["targetPort"].clone();
        assert_eq!(port(), 6443);
        let written = servers.list("", "services")[0]["metadata"]["resourceVersion"].clone();
        servers.pass(60_000);
        assert_eq!(servers.list("", "services")[0]["metadata"]["resourceVersion"], written, "they do not write over each other");
        let [_, (second, _), (third, _)] = started;
        servers.test_env.block_on(second.end());
        servers.test_env.block_on(third.end());
        assert_eq!((servers.published(), port()), (vec!["192.0.2.1:6444".to_owned()], 6444.into()));
        assert_eq!(servers.list("discovery.k8s.io", "endpointslices").len(), 1, "what is not needed any more is gone");
    }

    #[test]
    fn a_deleted_key_is_restored() {
        let servers = Servers::new();
        let _first = servers.start("192.0.2.1:6443");
        let registry = servers.registry.clone();
        let resource = registry.resources().by_name(&GroupResource::from_static("", "endpoints")).cloned().expect("served");
        let target =
            berth_registry::Target { resource, namespace: Some("default".to_owned()), name: "kubernetes".to_owned(), subresource: None };
        servers
            .test_env
            .block_on(async move { registry.delete(&Actor::System, &target, &berth_registry::DeleteOptions::default()).await })
            .expect("deleted");
        servers.pass(6_000);
        assert_eq!(servers.published(), ["192.0.2.1:6443"]);
    }
}
