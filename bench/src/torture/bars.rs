//! What others feel while one user does their worst: each attack sixty times at once, then all of them together.

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

/// Between two requests of somebody who is measured: people and probes wait in between, and who never does would add to the attack.
const PAUSE: Duration = Duration::from_millis(20);
/// What others may feel: how long the slowest of a hundred requests may take.
const BARS: [(Who, Duration); 3] = [
    (Who::Administrator, Duration::from_millis(50)),
    (Who::Health, Duration::from_millis(50)),
    (Who::Neighbour, Duration::from_millis(500)),
];

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Reads an object.
    Administrator,
    /// Asks `/readyz`, as nobody.
    Health,
    /// Another user: reads an object, tries to make one, and lists some.
    Neighbour,
}

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
    crate::eprint(&format!("making {} objects …", plan.objects));
    fill(&administrator, plan.objects).await;
    let nobody = access::anonymous(&std::fs::read_to_string(server.folder().join("kubeconfig")).unwrap());
    let neighbour = access::endpoint(&server.issue("neighbour", "neighbours"));
    let kubeconfig = server.folder().join("attacker");
    std::fs::write(&kubeconfig, server.issue("attacker", ATTACKERS)).unwrap();

    let all: Vec<&Attack> = ATTACKS.iter().collect();
    let chosen: Vec<Vec<&Attack>> = match only {
        [] => std::iter::once(Vec::new()).chain(all.iter().map(|attack| vec![*attack])).chain([all.clone()]).collect(),
        only => only.iter().map(|attack| vec![*attack]).collect(),
    };
    let mut is_met = true;
    for attacks in chosen {
        let name = match attacks.as_slice() {
            [] => "nobody",
            [one] => one.name,
            _ => "all at once",
        };
        let mut attackers = attackers::begin(&attacks, &kubeconfig).await;
        let taken = measure([&administrator, &nobody, &neighbour], plan.each).await;
        is_met &= report(name, taken);
        for attacker in &mut attackers {
            if let Some(fault) = attacker.fault() {
                crate::eprint(&fault);
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

/// What each request of each who is measured took.
async fn measure([administrator, nobody, neighbour]: [&Endpoint; 3], time: Duration) -> [Vec<Duration>; 3] {
    let until = Instant::now() + time;
    let asking = (ask(administrator, Who::Administrator, until), ask(nobody, Who::Health, until), ask(neighbour, Who::Neighbour, until));
    join!(asking.0, asking.1, asking.2).into()
}

async fn ask(endpoint: &Endpoint, who: Who, until: Instant) -> Vec<Duration> {
    let object = json!({"metadata": {"name": "new"}, "data": {"k": "v"}}).to_string();
    let requests: &[(&str, &str, &str)] = match who {
        Who::Administrator => &[("GET", VICTIM, "")],
        Who::Health => &[("GET", "/readyz", "")],
        Who::Neighbour => &[
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

/// Prints a line each; gives whether the bars are met.
fn report(attack: &str, taken: [Vec<Duration>; 3]) -> bool {
    let mut is_met = true;
    for ((who, bar), mut taken) in BARS.into_iter().zip(taken) {
        taken.sort_unstable();
        let at = |share: usize| taken[(taken.len() - 1) * share / 100];
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        let is_kept = at(99) <= bar;
        is_met &= is_kept;
        crate::print(&format!(
            "{attack:20} {:14} {:6} requests, median {:8.1} ms, p99 {:8.1} ms (at most {:3.0}: {}), longest {:8.1} ms",
            format!("{who:?}"),
            taken.len(),
            milliseconds(at(50)),
            milliseconds(at(99)),
            milliseconds(bar),
            if is_kept { "kept" } else { "MISSED" },
            milliseconds(at(100)),
        ));
    }
    is_met
}
