//! `berth plan` against a real `berth up`: its forecasts match the real events, and it states its requirements.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{
    self, Berth,
    legs::{BURST, Leg, is_as_forecast, legs},
};
use berth_testing::Upstream;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::ResourceQuota,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, wait::await_condition, watcher},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const UP: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "700ms", "--pod-stop-latency", "1900ms"];
/// The maximum delay of a busy machine against the forecast.
const LATE: Duration = Duration::from_secs(3);

/// A control plane with these manifests rolled out.
fn up(manifests: &[Value]) -> (Berth, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("manifests.yaml");
    let text: Vec<String> = manifests.iter().map(Value::to_string).collect();
    std::fs::write(&file, text.join("\n---\n")).unwrap();
    let mut cluster = common::up(&[UP, &["-f", file.to_str().unwrap()]].concat());
    cluster.line_with("rolled out after");
    (cluster, folder)
}

fn berth(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).env("KUBECONFIG", kubeconfig).env("HOME", kubeconfig.parent().unwrap()).output().unwrap()
}

/// The output of a command that must succeed.
fn printed(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = berth(kubeconfig, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn plan(kubeconfig: &Path, arguments: &[&str]) -> Value {
    let text = printed(kubeconfig, &[&["plan", "-o", "json", "--start", "700ms", "--stop", "1900ms"], arguments].concat());
    serde_json::from_str(&text).unwrap()
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

fn web(policy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "podReplacementPolicy": policy, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        },
    })
}

/// The sizes of a set at the end of each burst.
fn merged(changes: &[(Duration, i64)], first: i64) -> Vec<i64> {
    let mut sizes: Vec<i64> = legs(changes, first, BURST).iter().map(Leg::end).collect();
    sizes.dedup();
    sizes
}

#[test]
fn late_events_match_a_forecast_and_other_sequences_do_not() {
    let at = |tenths: u64, size: i64| (Duration::from_millis(100 * tenths), size);
    let is = |seen: &[i64], changes: &[(Duration, i64)]| is_as_forecast(seen, &legs(changes, 3, BURST));
    let together = [at(0, 2), at(9, 1), at(10, 0)];
    assert!(is(&[2, 1, 0], &together) && is(&[2, 0], &together));
    assert!(!is(&[1, 0], &together), "two are not told to go at the beginning");
    assert!(!is(&[2, 1], &together) && !is(&[2, 0, 1, 0], &together) && !is(&[2, -1, 0], &together) && !is(&[], &together));
    let there_and_back = [at(0, 5), at(1, 3), at(9, 4)];
    assert!(is(&[4], &there_and_back) && is(&[5, 3, 4], &there_and_back) && is(&[4, 3, 4], &there_and_back));
    assert!(!is(&[6, 3, 4], &there_and_back) && !is(&[2, 3, 4], &there_and_back));
    assert_eq!((merged(&together, 3), merged(&there_and_back, 3)), (vec![2, 0], vec![3, 4]));
}

fn forecast_sizes(forecast: &Value) -> BTreeMap<String, Vec<(Duration, i64)>> {
    let mut sizes: BTreeMap<String, Vec<(Duration, i64)>> = BTreeMap::new();
    for step in forecast["workloads"][0]["steps"].as_array().unwrap() {
        let size = match step["does"].as_str().unwrap() {
            "createSet" => &step["replicas"],
            "resize" => &step["to"],
            _ => continue,
        };
        let at = Duration::from_secs_f64(step["atSeconds"].as_f64().unwrap());
        sizes.entry(step["set"].as_str().unwrap().to_owned()).or_default().push((at, size.as_i64().unwrap()));
    }
    sizes
}

/// Plans a new image for the rolled out `web`, makes the change, and compares.
async fn comes_true(kubeconfig: &Path, controllers: &str, context: &str) {
    let client = client(kubeconfig).await;
    let forecast = plan(kubeconfig, &["deployment/web", "--image", "main=web:2"])["forecast"].clone();
    assert_eq!((&forecast["supposed"]["controllers"], &forecast["supposed"]["missing"]), (&json!(controllers), &json!([])));
    let expected = forecast_sizes(&forecast);

    let sets = watcher(Api::<ReplicaSet>::default_namespaced(client.clone()), watcher::Config::default()).applied_objects();
    pin_mut!(sets);
    // The existing ReplicaSet.
    let first = sets.next().await.unwrap().unwrap();
    let mut known = BTreeMap::from([(first.name_any(), 3)]);
    // Other controllers compute another hash for the name of the new ReplicaSet.
    let coming = expected.keys().find(|name| **name != first.name_any()).cloned().unwrap_or_default();
    let mut seen: BTreeMap<String, Vec<(Duration, i64)>> = BTreeMap::new();
    let began = Instant::now();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    Api::<Deployment>::default_namespaced(client).patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let are_all_seen = |seen: &BTreeMap<String, Vec<(Duration, i64)>>| {
        expected.iter().all(|(name, changes)| {
            seen.get(name).and_then(|seen| seen.last()).map(|(_, size)| size) == changes.last().map(|(_, size)| size)
        })
    };
    assert!(!expected.is_empty(), "{forecast}");
    while !are_all_seen(&seen) {
        let set = tokio::time::timeout(common::PATIENCE, sets.next()).await.unwrap().unwrap().unwrap();
        let size = i64::from(set.spec.as_ref().unwrap().replicas.unwrap());
        let name = if set.name_any() == first.name_any() { set.name_any() } else { coming.clone() };
        if known.insert(name.clone(), size) != Some(size) {
            seen.entry(name).or_default().push((began.elapsed(), size));
        }
    }
    for (name, changes) in &expected {
        let seen = &seen[name];
        let sizes: Vec<i64> = seen.iter().map(|(_, size)| *size).collect();
        let legs = legs(changes, if *name == first.name_any() { 3 } else { 0 }, BURST);
        assert!(is_as_forecast(&sizes, &legs), "{context} {name}: {seen:?} {changes:?}");
        let (last_seen, last_expected) = (seen.last().unwrap().0, changes.last().unwrap().0);
        assert!(last_expected < last_seen + BURST && last_seen < last_expected + LATE, "{context} {name}: {seen:?} {changes:?}");
    }
}

#[tokio::test]
async fn forecasts_of_a_real_cluster_come_true() {
    for policy in ["TerminationComplete", "TerminationStarted"] {
        let (cluster, _folder) = up(&[web(policy)]);
        comes_true(&cluster.kubeconfig(), "berth", policy).await;
    }
}

#[tokio::test]
async fn a_paused_deployment_scales_as_forecast_and_then_ends() {
    let (cluster, _folder) = up(&[web("TerminationStarted")]);
    let kubeconfig = cluster.kubeconfig();
    printed(&kubeconfig, &["rollout", "pause", "deployment/web"]);
    // This is not a failure.
    let forecast =
        plan(&kubeconfig, &["deployment/web", "--image", "main=web:2", "--replicas", "5", "--fail-on", "deadline"])["forecast"].clone();
    let workload = &forecast["workloads"][0];
    assert_eq!((&workload["outcome"]["is"], &workload["pods"]["value"], &forecast["troubles"]), (&json!("held"), &json!(5), &json!([])));

    let client = client(&kubeconfig).await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let patch = json!({"spec": {"replicas": 5, "template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    let patched = deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let is_there = |deployment: Option<&Deployment>| {
        let status = deployment.and_then(|deployment| deployment.status.as_ref());
        status.is_some_and(|status| status.observed_generation >= patched.metadata.generation && status.available_replicas == Some(5))
    };
    tokio::time::timeout(common::PATIENCE, await_condition(deployments.clone(), "web", is_there)).await.unwrap().unwrap();
    let status = deployments.get("web").await.unwrap().status.unwrap();
    assert_eq!((status.replicas, status.updated_replicas), (Some(5), None), "no pod has the new template");
    let sets = Api::<ReplicaSet>::default_namespaced(client).list(&ListParams::default()).await.unwrap();
    let [set] = &sets.items[..] else { panic!("{:?}", sets.items) };
    let sizes: Vec<(String, Vec<i64>)> = forecast_sizes(&forecast).into_iter().map(|(name, changes)| (name, merged(&changes, 3))).collect();
    assert_eq!(sizes, [(set.name_any(), vec![5])]);
}

fn stateful_set() -> Value {
    let mut set = web("");
    set["kind"] = json!("StatefulSet");
    set["metadata"]["name"] = json!("db");
    set["spec"] =
        json!({"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": set["spec"]["template"]});
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": "db"});
    set
}

/// Creates objects, each at the path of its collection.
async fn create(client: &Client, objects: &[(&str, Value)]) {
    for (path, object) in objects {
        let request = http::Request::post(*path).header("content-type", "application/json").body(object.to_string().into_bytes()).unwrap();
        let made: Result<Value, _> = client.request(request).await;
        made.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

fn rolled_out(kubeconfig: &Path, workload: &str) {
    printed(kubeconfig, &["rollout", "status", workload, "--timeout", "60s"]);
}

/// berth's nodes, for another control plane. They end when this value is dropped.
struct Nodes(Child);

impl Nodes {
    fn start(kubeconfig: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args([
            "node",
            "--join-foreign-cluster",
            "--no-simulated-taint",
            "--secure-port",
            "0",
            "--nodes",
            "2",
            "--pod-start-latency",
            "700ms",
            "--pod-stop-latency",
            "1900ms",
            "--kubeconfig",
        ]);
        Self(command.arg(kubeconfig).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // They may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kubernetes' own controllers and scheduler, with berth's nodes.
#[tokio::test(flavor = "multi_thread")]
async fn forecasts_of_another_kubernetes_come_true() {
    let Some(upstream) = Upstream::start(&["--scheduler"]) else { return };
    let kubeconfig = upstream.kubeconfig();
    let _nodes = Nodes::start(&kubeconfig);
    let client = client(&kubeconfig).await;
    let apps = |kind: &str| format!("/apis/apps/v1/namespaces/default/{kind}");
    let mut deployment = web("");
    deployment["spec"].as_object_mut().unwrap().remove("podReplacementPolicy");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "7"}}});
    let bind = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]});
    let limit = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "few"},
        "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "object.spec.replicas <= 20", "message": "no more than 20 pods"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "few"},
        "spec": {"policyName": "few", "validationActions": ["Deny"]}});
    let mut tags = limit.clone();
    tags["metadata"]["name"] = json!("tags");
    tags["spec"]["matchConstraints"]["resourceRules"] =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    tags["spec"]["validations"] =
        json!([{"expression": "object.spec.containers.all(c, !c.image.endsWith(':latest'))", "message": "no latest"}]);
    let mut binding_of_tags = binding.clone();
    (binding_of_tags["metadata"]["name"], binding_of_tags["spec"]["policyName"]) = (json!("tags"), json!("tags"));
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    create(
        &client,
        &[
            ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", bind),
            (policies, limit),
            (bindings, binding),
            (policies, tags),
            (bindings, binding_of_tags),
            (&apps("deployments"), deployment),
            (&apps("statefulsets"), stateful_set()),
        ],
    )
    .await;
    rolled_out(&kubeconfig, "deployment/web");
    rolled_out(&kubeconfig, "statefulset/db");

    // Annotations that only berth's controllers use change nothing. Upstream knows only the two sets of rows.
    let compared = printed(&kubeconfig, &["plan", "deployment/web", "statefulset/db", "--image", "main=web:2", "--compare"]);
    assert!(compared.starts_with("Assumes Kubernetes' own controllers (they write the workloads' status)"), "{compared}");
    assert!(
        compared.contains("deployment/web Recreate")
            && !compared.contains("TerminationComplete")
            && !compared.contains("statefulset/db Recreate"),
        "{compared}"
    );
    // A user with the role `view` in a namespace cannot read nodes.
    let partial = printed(&kubeconfig, &["plan", "deployment/web", "--image", "main=web:2", "--as", "ada"]);
    assert!(
        partial.contains("PARTIAL: nodes cannot be read (") && partial.contains("Deployment default/web, 3 pods: complete after"),
        "{partial}"
    );

    comes_true(&kubeconfig, "kubernetes", "upstream").await;
    rolled_out(&kubeconfig, "deployment/web");

    // The plan evaluates the policies of the cluster, and includes the server's own admission if the options request it.
    let scaled = ["plan", "deployment/web", "--replicas", "21", "--stop", "2s"];
    let refused = berth(&kubeconfig, &scaled);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1)
            && message.contains("Deployment web would be rejected: ")
            && message.contains("denied request: no more than 20 pods"),
        "{message}"
    );
    let refused = berth(&kubeconfig, &[&scaled[..], &["--server-dry-run"]].concat());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1)
            && said.contains("the server would reject Deployment web: ")
            && said.contains("no more than 20 pods"),
        "{said}"
    );
    let asked = printed(&kubeconfig, &["plan", "deployment/web", "--replicas", "4", "--stop", "2s", "--server-dry-run"]);
    assert!(asked.contains("Deployment default/web, 4 pods: complete"), "{asked}");
    // The same is true for pods, even without the option.
    let never = printed(&kubeconfig, &["plan", "deployment/web", "--image", "main=web:latest", "--stop", "2s"]);
    assert!(never.contains("NEVER COMPLETE") && never.contains("denied request: no latest"), "{never}");
    let supposes = "Assumes that admission policies and webhooks accept the pods: pods is forbidden: User \"ada\" cannot create";
    assert!(partial.contains(supposes), "{partial}");
    let may_not = berth(&kubeconfig, &["plan", "deployment/web", "--replicas", "4", "--server-dry-run", "--as", "ada"]);
    let said = String::from_utf8_lossy(&may_not.stderr);
    assert!(
        may_not.status.code() == Some(1) && said.contains("cannot patch resource") && said.contains("request a role that allows it"),
        "{said}"
    );
    assert_eq!(
        Api::<Deployment>::default_namespaced(client.clone()).get("web").await.unwrap().spec.unwrap().replicas,
        Some(3),
        "nothing is kept"
    );

    // A quota rejects the same requests there and here. It counts terminating pods, so wait until only three pods of web and two of db
    // remain.
    common::only_stay(&client, 5).await;
    create(&client, &[("/api/v1/namespaces/default/resourcequotas", quota)]).await;
    wait_for_enforced_quota(&client, "few", "5").await;
    let forecast = plan(&kubeconfig, &["deployment/web", "--replicas", "9"])["forecast"].clone();
    assert_eq!(
        (&forecast["workloads"][0]["outcome"]["is"], &forecast["troubles"][0]["kind"]),
        (&json!("stuck"), &json!("quota")),
        "{forecast}"
    );
    assert_eq!(forecast["workloads"][0]["pods"]["value"], 5, "seven are the quota's, two of them db's: {forecast}");
    let patch = json!({"spec": {"replicas": 9}});
    Api::<Deployment>::default_namespaced(client.clone()).patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let pods = forecast["workloads"][0]["pods"]["value"].as_u64().unwrap();
    let sets = watcher(Api::<ReplicaSet>::default_namespaced(client), watcher::Config::default()).applied_objects();
    pin_mut!(sets);
    let is_there = |set: &ReplicaSet| {
        set.status.as_ref().is_some_and(|status| u64::try_from(status.replicas) == Ok(pods) && status.conditions.is_some())
    };
    let mut seen = Vec::new();
    loop {
        let Ok(set) = tokio::time::timeout(common::PATIENCE, sets.next()).await else { panic!("not {pods} pods: {seen:#?}\n{forecast}") };
        let set = set.unwrap().unwrap();
        if is_there(&set) {
            break;
        }
        seen.push((set.name_any(), set.status));
    }
}

/// A quota without a status limits nothing.
async fn wait_for_enforced_quota(client: &Client, name: &str, pods: &str) {
    let quotas = Api::<ResourceQuota>::default_namespaced(client.clone());
    let used = |quota: Option<&ResourceQuota>| quota?.status.as_ref()?.used.as_ref()?.get("pods").map(|used| used.0.clone());
    let is_counted = |quota: Option<&ResourceQuota>| used(quota).as_deref() == Some(pods);
    tokio::time::timeout(common::PATIENCE, await_condition(quotas, name, is_counted)).await.unwrap().unwrap();
}

#[test]
fn files_need_no_cluster_and_what_ci_fails_on_has_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, web("TerminationStarted").to_string()).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(arguments).arg("--from").arg(&file).env_remove("KUBECONFIG").env("HOME", folder.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let change = ["plan", "deployment/web", "--image", "main\u{1b}[31m=web:2"];
    let (code, _, said) = run(&change);
    assert!(code == Some(1) && said.contains("no container main\\u{1b}[31m") && !said.contains('\u{1b}'), "{said}");
    let change = ["plan", "deployment/web", "--image", "main=web:2", "--start", "1s", "--stop", "20s"];
    let (code, told, _) = run(&change);
    assert!(code == Some(0) && told.starts_with("Assumes berth's controllers (") && told.contains("TerminationStarted"), "{told}");
    let (code, _, said) = run(&[&change[..], &["--fail-on", "bound,quota"]].concat());
    assert!(code == Some(3) && said.contains("but its limit is 4"), "{said}");
    let (code, told, _) = run(&[&change[..], &["--compare", "-o", "json", "--runs", "2"]].concat());
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["alternatives"].as_array().map(Vec::len), &told["spread"]["runs"]), (Some(0), Some(3), &json!(2)));
    let picture = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (code, told, _) = run(&[&change[..], &["--chart", "--output-file", &picture("plan.svg")]].concat());
    assert!(code == Some(0) && told.contains("bound 4 │") && !told.contains('\u{1b}'), "{told}");
    assert!(std::fs::read_to_string(picture("plan.svg")).unwrap().starts_with("<svg "));
    let (code, _, _) = run(&[&change[..], &["--compare", "--output-file", &picture("plan.html")]].concat());
    let page = std::fs::read_to_string(picture("plan.html")).unwrap();
    assert!(code == Some(0) && page.contains(", TerminationComplete</text>") && page.contains("COMPLETE   SETTLED"), "{page}");
    // The command never overwrites a manifest or a folder, but it overwrites a picture.
    let (code, _, said) = run(&[&change[..], &["--output-file", file.to_str().unwrap()]].concat());
    assert!(code == Some(2) && said.contains("its name ends neither in .svg nor in .html"), "{said}");
    let (code, _, said) = run(&[&change[..], &["--output-file", &picture("no/plan.svg")]].concat());
    assert!(code == Some(1) && said.contains("cannot write ") && said.contains("(--output-file): No such file"), "{said}");
    assert_eq!(run(&[&change[..], &["--replicas", "1", "--output-file", &picture("plan.svg")]].concat()).0, Some(0));
    assert!(std::fs::read_to_string(picture("plan.svg")).unwrap().contains("1 pod,"));
    let (code, told, _) = run(&["rollout", "victims", "deployment/web", "--replicas", "1"]);
    assert!(code == Some(0) && told.lines().count() == 2 && told.contains("   1  web-"), "{told}");
    let (code, told, _) = run(&["rollout", "victims", "deployment/web", "--replicas", "1", "-o", "json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let pods: usize = told["victims"].as_array().unwrap().iter().map(|step| step["pods"].as_array().unwrap().len()).sum();
    assert_eq!((code, pods), (Some(0), 2), "{told}");
    let (code, _, said) = run(&["plan", "deployment/web"]);
    assert!(code == Some(1) && said.contains("no change given"), "{said}");
    // Only Deployments have a policy. Manifests without a namespace use the namespace of the command line. One run has no spread.
    let both = folder.path().join("both.yaml");
    std::fs::write(&both, format!("{}\n---\n{}", web("TerminationStarted"), stateful_set())).unwrap();
    let change = ["plan", "-f", both.to_str().unwrap(), "--policy", "TerminationComplete", "--start", "1s", "--stop", "2s"];
    let (code, told, said) = run(&[&change[..], &["--namespace", "shop"]].concat());
    assert!(
        code == Some(0) && told.contains("Deployment shop/web, 3 pods: ") && told.contains("StatefulSet shop/db, 2 pods: "),
        "{told}{said}"
    );
    let (code, told, _) = run(&[&change[..], &["-o", "json", "--runs", "1"]].concat());
    let told: Value = serde_json::from_str(&told).unwrap();
    let workloads = &told["forecast"]["workloads"];
    let policies = [&workloads[0]["policy"], &workloads[1]["policy"]];
    assert_eq!((code, policies), (Some(0), [&json!("RollingUpdate, TerminationComplete"), &json!("RollingUpdate, OrderedReady")]));
    assert!(told.get("spread").is_none(), "{told}");
}

#[test]
fn a_user_who_may_not_read_all_gets_a_plan_that_is_marked_partial() {
    let bind = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}});
    let mut web = web("TerminationComplete");
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "key"}}]);
    let (cluster, _folder) = up(&[bind, secret, web]);
    let output = berth(&cluster.kubeconfig(), &["plan", "deployment/web", "--image", "main=web:2", "--as", "ada", "--stop", "1s"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("PARTIAL: nodes cannot be read (") && told.contains("PARTIAL: pods cannot be read ("), "{told}");
    assert!(told.contains("PARTIAL: validatingadmissionpolicies cannot be read (") && !told.contains("PARTIAL: mutating"), "{told}");
    assert!(told.contains("PARTIAL: 1 of the referenced ConfigMaps and Secrets cannot be read ("), "{told}");
    assert!(told.contains("Deployment default/web, 3 pods: complete after"), "{told}");
}

#[test]
fn a_plan_includes_the_policies_and_the_custom_kinds_of_the_cluster() {
    if !common::kubectl_is_here() {
        return;
    }
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer", "x-kubernetes-validations": [
        {"rule": "oldSelf <= self", "message": "size never shrinks"}]}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let widget = |size: u32| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": size});
    let hook = json!({"name": "hook.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Ignore", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]});
    let hooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "hooks"}, "webhooks": [hook]});
    let cluster = common::up(UP);
    cluster.apply(include_str!("../../../../examples/admission-policies.yaml"));
    [definition, widget(3), hooks, web("TerminationComplete")].iter().for_each(|object| drop(cluster.apply(&object.to_string())));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("change.yaml");
    let run = |manifests: &[Value]| {
        let text: Vec<String> = manifests.iter().map(Value::to_string).collect();
        std::fs::write(&file, text.join("\n---\n")).unwrap();
        let output = berth(&cluster.kubeconfig(), &["plan", "-f", file.to_str().unwrap(), "--start", "1s", "--stop", "1s"]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let mut more = web("TerminationComplete");
    more["spec"]["replicas"] = json!(4);
    let (code, _, said) = run(&[more]);
    assert!(code == Some(1) && said.contains("denied request: at most 3 replicas"), "{said}");
    let (code, _, said) = run(&[web("TerminationStarted"), widget(2)]);
    assert!(code == Some(1) && said.contains("size never shrinks"), "{said}");
    let (code, told, said) = run(&[widget(4), web("TerminationStarted")]);
    assert_eq!(code, Some(0), "{said}");
    let line = "Assumes that MutatingWebhookConfiguration hooks (webhook hook.example.com) accepts and does not change pods: plans call no webhooks.";
    // The policy changes the strategy only, so that no pod is created.
    assert!(!told.contains(line) && !told.contains("PARTIAL"), "{told}");
    let mut newer = web("TerminationStarted");
    newer["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    let (code, told, said) = run(&[newer]);
    assert!(code == Some(0) && told.contains(line), "{told}{said}");
}
