//! Expensive requests of one user: their cost is linear in their length, and they do not delay other users.

use crate::common::{Answer, Client, TestServer, next_line};
use berth_apiserver::Config;
use hyper::Method;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";
/// Longer than any operation here, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);

/// Occupies this many threads until the result is dropped.
fn occupy(runtime: &Runtime, threads: usize) -> mpsc::Sender<()> {
    let (end, ends) = mpsc::channel();
    let ends = Arc::new(Mutex::new(ends));
    let (began, beginnings) = mpsc::channel();
    for _ in 0..threads {
        let (began, ends) = (began.clone(), Arc::clone(&ends));
        runtime.spawn(async move {
            began.send(()).expect("the test waits");
            // One thread waits for the end, the others for that thread.
            let _ = ends.lock().map(|ends| ends.recv());
        });
    }
    (0..threads).for_each(|_| beginnings.recv().expect("it begins"));
    end
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

#[tokio::test]
async fn administrators_and_health_have_threads_that_no_users_work_takes() {
    let (free, occupied) = (two_threads(), two_threads());
    let end = occupy(&occupied, 2);
    for (users, is_answered) in [(free.handle(), true), (occupied.handle(), false)] {
        let users = users.clone();
        let server = TestServer::start_changed(move |config: &mut Config| config.users = users).await;
        server.let_edit("editors").await;
        let mut alice = server.user("alice", &["editors"]).await;
        let listed = timeout(SOON.max(PATIENCE * u32::from(is_answered)), alice.get(CONFIG_MAPS)).await;
        assert_eq!(listed.map(|list| list.code.as_u16()).ok(), is_answered.then_some(200));
        // Users do not delay each other's short requests either.
        let mut bob = server.user("bob", &["editors"]).await;
        assert_eq!(bob.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await.code, 201);
        assert_eq!(bob.get(&format!("{CONFIG_MAPS}/a")).await.code, 200);
        assert_eq!(server.admin().await.get(CONFIG_MAPS).await.code, 200);
        assert_eq!(server.anonymous().await.get("/readyz").await.code, 200);
    }
    drop(end);
    occupied.shutdown_background();
    free.shutdown_background();
}

#[tokio::test]
async fn watches_of_users_go_on_when_it_is_their_turn() {
    let users = two_threads();
    let handle = users.handle().clone();
    let server = TestServer::start_changed(move |config: &mut Config| config.users = handle).await;
    server.let_edit("editors").await;
    let mut alice = server.user("alice", &["editors"]).await;
    let mut watch = alice.open(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), &[], "").await.into_body();
    let end = occupy(&users, 2);
    server.admin().await.post(CONFIG_MAPS, &json!({"metadata": {"name": "late"}})).await;
    timeout(SOON, next_line(&mut watch)).await.expect_err("it was not created");
    drop(end);
    let told = async { while next_line(&mut watch).await.expect("an event")["object"]["metadata"]["name"] != "late" {} };
    timeout(PATIENCE, told).await.expect("told of what came meanwhile");
    users.shutdown_background();
}

async fn send(client: &mut Client, (method, path, content_type, body): (Method, &str, &str, &str)) -> Answer {
    client.send(method, path, &[("content-type", content_type)], body.to_owned()).await
}

/// A request, and a much shorter one.
struct Case {
    name: &'static str,
    method: Method,
    path: &'static str,
    content_type: &'static str,
    length: usize,
    body: fn(usize) -> Value,
    /// The objects that must exist, created by the same method without a dry run.
    made_before: bool,
    codes: &'static [u16],
}

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn many(count: usize, one: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(one).collect()
}

fn deployment(count: usize) -> Value {
    let env = many(count, |at| json!({"name": format!("V{at}"), "value": "v"}));
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

const JSON: &str = "application/json";

fn cases() -> Vec<Case> {
    let pods = |name, length, body| Case {
        name,
        method: Method::POST,
        path: "/api/v1/namespaces/default/pods?dryRun=All",
        content_type: JSON,
        length,
        body,
        made_before: false,
        codes: &[201, 422],
    };
    let apply = Case {
        name: "elements of a list that is there are applied",
        method: Method::PATCH,
        path: "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m&force=true",
        content_type: "application/apply-patch+yaml",
        made_before: true,
        codes: &[200],
        ..pods("", 12_000, deployment)
    };
    let ordered = Case {
        name: "elements of a list are ordered",
        method: Method::PATCH,
        path: DEPLOYMENT,
        content_type: "application/strategic-merge-patch+json",
        codes: &[200],
        ..pods("", 8000, |count| {
            let order = many(count, |at| json!({"name": format!("V{}", count - at)}));
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "$setElementOrder/env": order}]}}}})
        })
    };
    vec![
        pods("what is told of parts that hide each other", 12_000, |count| {
            let env = many(count, |at| json!({"name": "V", "value": at.to_string()}));
            pod(&json!({"containers": [{"name": "c", "image": "i", "env": env}]}))
        }),
        pods("containers", 6000, |count| pod(&json!({"containers": many(count, |at| json!({"name": format!("c{at}"), "image": "i"}))}))),
        pods("mounts and devices", 8000, |count| {
            let mounts = many(count, |at| json!({"name": "v", "mountPath": format!("/m{at}")}));
            let devices = many(count, |at| json!({"name": format!("d{at}"), "devicePath": format!("/d{at}")}));
            let container = json!({"name": "c", "image": "i", "volumeMounts": mounts, "volumeDevices": devices});
            pod(&json!({"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}))
        }),
        apply,
        ordered,
    ]
}

/// Returns the CPU time of this thread, which runs the test and its server. Other threads do not count.
fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(spent).expect("a thread's time only grows")
}

async fn cheapest(server: &TestServer, case: &Case, length: usize) -> Duration {
    let mut admin = server.admin().await;
    let body = (case.body)(length).to_string();
    if case.made_before {
        let made = send(&mut admin, (case.method.clone(), case.path, case.content_type, &body)).await;
        assert!(made.code.is_success(), "{}: {}", case.name, made.text());
    }
    let mut cheapest = Duration::MAX;
    for _ in 0..2 {
        let before = spent();
        let answer = send(&mut admin, (case.method.clone(), case.path, case.content_type, &body)).await;
        cheapest = cheapest.min(spent() - before);
        assert!(case.codes.contains(&answer.code.as_u16()), "{}: {}", case.name, answer.text());
    }
    cheapest
}

/// How much shorter the other request is.
const TIMES: usize = 32;

/// A request of this many times the length takes slightly more than this many times the time. A quadratic algorithm
/// would take thousands of times.
#[tokio::test]
async fn what_is_longer_costs_as_much_more_and_no_more() {
    let mut dear = Vec::new();
    for case in cases() {
        let server = TestServer::start().await;
        if case.path == DEPLOYMENT {
            let made = server.admin().await.post("/apis/apps/v1/namespaces/default/deployments", &deployment(case.length)).await;
            assert_eq!(made.code, 201, "{}", made.text());
        }
        let (short, long) = (cheapest(&server, &case, case.length / TIMES).await, cheapest(&server, &case, case.length).await);
        let times = long.as_secs_f64() / short.as_secs_f64();
        if 3.0 * TIMES as f64 <= times {
            dear.push(format!("{}: {times:.0} times the time, {short:?} and {long:?}", case.name));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}

#[tokio::test]
async fn merge_keys_and_aliases_unfold_to_little() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let anchor = |keys: usize| format!("x: &x {{{}}}\n", (0..keys).map(|at| format!("k{at}: v,")).collect::<String>());
    let merges = |count: usize| (0..count).map(|at| format!("y{at}: {{<<: *x}}\n")).collect::<String>();
    let long = format!("data: {{a: {}}}\n", "x".repeat(64 << 10));
    let dry_run = format!("{CONFIG_MAPS}?dryRun=All");
    for (body, code) in [
        (format!("{head}{}{}", anchor(100), merges(50)), 201),
        (format!("{head}{}{}", anchor(1000), merges(1000)), 400),
        (format!("{head}{}{}", anchor(1), merges(101)), 400),
        (format!("{head}{long}{}{}", anchor(1), merges(1)), 400),
        (format!("{head}{long}{}z: [*x, *x]\n", anchor(1)), 201),
    ] {
        let answer = send(&mut admin, (Method::POST, &dry_run, "application/yaml", &body)).await;
        assert_eq!(answer.code, code, "{}: {}", &body[..100], answer.text());
    }
}

#[tokio::test]
async fn json_patches_that_move_whole_lists_are_refused() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    assert_eq!(admin.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}})).await.code, 201);
    let insert = json!({"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/f"});
    let first = json!({"op": "add", "path": "/metadata/finalizers", "value": []});
    let patch = Value::from([vec![first], vec![insert; 9_999]].concat()).to_string();
    let object = format!("{CONFIG_MAPS}/c");
    let answer = send(&mut admin, (Method::PATCH, &object, "application/json-patch+json", &patch)).await;
    assert_eq!(answer.code, 413, "{}", answer.text());
    assert!(answer.text().contains("a JSON patch may move 2000000 elements"), "{}", answer.text());
    assert!(admin.get(&object).await.json()["metadata"]["finalizers"].is_null(), "nothing has changed");
}

#[tokio::test]
async fn roles_that_multiply_are_refused() {
    let server = TestServer::start().await;
    server.let_edit("editors").await;
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"});
    let binding = json!({
        "metadata": {"name": "alice"},
        "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(server.admin().await.post(bindings, &binding).await.code, 201);
    let words = many(1000, |at| json!(format!("w{at}")));
    let rule = json!({"verbs": words, "apiGroups": words, "resources": words});
    let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
    let answer = server.user("alice", &[]).await.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await;
    assert_eq!(answer.code, 403, "{}", answer.text());
    assert!(answer.text().contains("the rules name 1000000000 combinations"), "{}", answer.text());
    assert_eq!(server.admin().await.get(PODS).await.code, 200);
}
