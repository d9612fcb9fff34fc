//! How an attack of one user affects other clients: each attack sixty times at once, then all of them together. Next to each is the effect in the
//! minute before it, without an attack: a machine that does other work as well needs that comparison.

use super::{
    attackers,
    attacks::{ATTACKS, Attack, VICTIM},
};
use crate::{
    access,
    client::{Connection, Endpoint},
    server::{Parts, Server, Target},
};
use futures::{future::join_all, join};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The pause between two requests of a measured client: users and probes wait in between, and a client without pauses would add to the attack.
const PAUSE: Duration = Duration::from_millis(20);
/// What others may feel: how long the slowest of a hundred requests may take.
const BARS: [(Who, Duration); 3] = [
    (Who::Administrator, Duration::from_millis(50)),
    (Who::Health, Duration::from_millis(50)),
    (Who::Neighbor, Duration::from_millis(500)),
];

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Reads an object.
    Administrator,
    /// Reads `/readyz` without authentication.
    Health,
    /// Another user: reads an object, tries to make one, and lists some.
    Neighbor,
}

/// The number of the neighbor's informers during an attack: ordinary users have dozens.
const INFORMERS: usize = 60;
/// What they follow.
const INFORMED_OF: &str = "/api/v1/namespaces/default/services";
/// How long one of their watches lasts before it lists and watches again.
const WATCH_SECONDS: u64 = 5;

/// The group of who attacks.
pub(crate) const ATTACKERS: &str = "attackers";
pub(crate) const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// A binding that lets a group edit everything.
pub(crate) fn edits(group: &str) -> Value {
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"});
    json!({"metadata": {"name": group}, "subjects": [subject], "roleRef": role})
}

/// How long it goes on, and over how many objects.
pub(crate) struct Plan {
    pub(crate) each: Duration,
    pub(crate) objects: usize,
}

/// Whether all bars were met.
pub(crate) async fn run(target: &Target, plan: &Plan, only: &[&'static Attack]) -> bool {
    let server = Server::start(target, Parts::StoreOnly).await;
    let administrator = server.administrator();
    let mut connection = Connection::open(&administrator).await;
    for group in [ATTACKERS, "neighbours"] {
        connection.create(BINDINGS, &edits(group)).await;
    }
    crate::print::eprint(&format!("making {} objects …", plan.objects));
    fill(&administrator, plan.objects).await;
    let anonymous = access::anonymous(&std::fs::read_to_string(server.folder().join("kubeconfig")).unwrap());
    let neighbour = access::endpoint(&server.issue("neighbour", "neighbours"));
    let kubeconfig = server.folder().join("attacker");
    std::fs::write(&kubeconfig, server.issue("attacker", ATTACKERS)).unwrap();

    let all: Vec<&Attack> = ATTACKS.iter().collect();
    let chosen: Vec<Vec<&Attack>> = match only {
        [] => all.iter().map(|attack| vec![*attack]).chain([all.clone()]).collect(),
        only => only.iter().map(|attack| vec![*attack]).collect(),
    };
    let mut is_met = true;
    for attacks in chosen {
        let name = match attacks.as_slice() {
            [one] => one.name,
            _ => "all at once",
        };
        for request in attacks.iter().flat_map(|attack| (attack.by_administrator)()) {
            let status = connection.request_as(request.method, &request.path, request.content_type, &request.body).await;
            assert!([201, 409].contains(&status), "{name}: {status} {}", String::from_utf8_lossy(&connection.body));
        }
        let control = measure([&administrator, &anonymous, &neighbour], plan.each).await;
        let mut attackers = attackers::begin(&attacks, &kubeconfig).await;
        let felt = measure([&administrator, &anonymous, &neighbour], plan.each).await;
        is_met &= report(name, control, felt);
        for attacker in &mut attackers {
            if let Some(fault) = attacker.fault() {
                crate::print::eprint(&fault);
                is_met = false;
            }
        }
    }
    is_met
}

async fn fill(administrator: &Endpoint, count: usize) {
    const WRITERS: usize = 64;
    join_all((0..WRITERS).map(async |writer| {
        let mut connection = Connection::open(administrator).await;
        for at in (writer..count).step_by(WRITERS) {
            let object = json!({"metadata": {"name": format!("c{at}"), "labels": {"app": format!("a{}", at % 100)}}, "data": {"k": "v"}});
            connection.create("/api/v1/namespaces/default/configmaps", &object).await;
        }
    }))
    .await;
}

/// What others felt for a while.
struct Felt {
    /// What each request of each who is measured took.
    taken: [Vec<Duration>; 3],
    /// The number of lists and watches of the neighbor's informers that were refused, or cut.
    refused: usize,
}

async fn measure([administrator, anonymous, neighbour]: [&Endpoint; 3], time: Duration) -> Felt {
    let until = Instant::now() + time;
    let asking = (ask(administrator, Who::Administrator, until), ask(anonymous, Who::Health, until), ask(neighbour, Who::Neighbor, until));
    let informers = join_all((0..INFORMERS).map(|_| inform(neighbour, until)));
    let (administrator, health, neighbour, refused) = join!(asking.0, asking.1, asking.2, informers);
    Felt { taken: [administrator, health, neighbour], refused: refused.into_iter().sum() }
}

/// Lists, watches from there on with bookmarks, and begins again when that ends, as informers do; how often it could not.
async fn inform(endpoint: &Endpoint, until: Instant) -> usize {
    let mut refused = 0;
    while Instant::now() < until {
        refused += usize::from(list_and_watch(endpoint, until).await.is_none());
        tokio::time::sleep(PAUSE).await;
    }
    refused
}

/// `None`: it was refused, or cut.
async fn list_and_watch(endpoint: &Endpoint, until: Instant) -> Option<()> {
    let mut connection = Connection::try_open(endpoint).await.ok()?;
    let status = connection.try_request_as("GET", INFORMED_OF, "application/json", "").await.ok()?;
    let list: Value = serde_json::from_slice(&connection.body).ok().filter(|_| status == 200)?;
    let version = list["metadata"]["resourceVersion"].as_str()?.to_owned();
    let query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}");
    if connection.watch(&format!("{INFORMED_OF}?{query}")).await.ok()? != 200 {
        return None;
    }
    while Instant::now() < until && connection.next_line().await.ok()?.is_some() {}
    Some(())
}

async fn ask(endpoint: &Endpoint, who: Who, until: Instant) -> Vec<Duration> {
    let object = json!({"metadata": {"name": "new"}, "data": {"k": "v"}}).to_string();
    let requests: &[(&str, &str, &str)] = match who {
        Who::Administrator => &[("GET", VICTIM, "")],
        Who::Health => &[("GET", "/readyz", "")],
        Who::Neighbor => &[
            ("GET", VICTIM, ""),
            ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", &object),
            ("GET", "/api/v1/namespaces/default/configmaps?limit=100", ""),
        ],
    };
    let mut connection = Connection::open(endpoint).await;
    let mut taken = Vec::new();
    for (method, path, body) in requests.iter().cycle() {
        let began = Instant::now();
        if until <= began {
            return taken;
        }
        let status = connection.request(method, path, body).await;
        assert!([200, 201].contains(&status), "{method} {path}: {status} {}", String::from_utf8_lossy(&connection.body));
        taken.push(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    taken
}

/// Prints a line each, with what was felt without an attack; gives whether the bars are met.
fn report(attack: &str, control: Felt, felt: Felt) -> bool {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let mut is_met = felt.refused == 0;
    for (((who, bar), mut control), mut taken) in BARS.into_iter().zip(control.taken).zip(felt.taken) {
        control.sort_unstable();
        taken.sort_unstable();
        let is_kept = at(&taken, 99) <= bar;
        is_met &= is_kept;
        crate::print::print(&format!(
            "{attack:20} {:14} {:6} requests, p50 {:8.1} ms (without {:8.1}), p99 {:8.1} ms (without {:8.1}; at most {:3.0}: {}), longest {:8.1} ms",
            format!("{who:?}"),
            taken.len(),
            milliseconds(at(&taken, 50)),
            milliseconds(at(&control, 50)),
            milliseconds(at(&taken, 99)),
            milliseconds(at(&control, 99)),
            milliseconds(bar),
            if is_kept { "kept" } else { "MISSED" },
            milliseconds(at(&taken, 100)),
        ));
    }
    crate::print::print(&format!(
        "{attack:20} Informers      {INFORMERS:6} of the neighbour, refused or cut {} times (without {})",
        felt.refused, control.refused
    ));
    is_met
}

/// Of sorted times the one that so many of a hundred do not exceed.
fn at(sorted: &[Duration], share: usize) -> Duration {
    sorted[(sorted.len() - 1) * share / 100]
}
