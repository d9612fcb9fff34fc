//! The health and metrics of the parts of a control plane, as processes: health for every client, metrics for those that the API server authorizes.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{PATIENCE, part::Part};
use berth_testing::Upstream;
use http_body_util::BodyExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    authentication::v1::TokenRequest,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A port that no process uses at this moment.
fn free_port() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string()
}

/// A part, and the address of its health endpoint.
fn part(arguments: &[&str], kubeconfig: &Path) -> (Part, String) {
    let port = free_port();
    let mut part = Part::start(&[arguments, &["--secure-port", &port]].concat(), Some(kubeconfig));
    let line = part.line_with("health and metrics at https://127.0.0.1:");
    assert!(line.ends_with(&format!(":{port}")), "{line}");
    (part, format!("https://127.0.0.1:{port}"))
}

fn api_server(data_dir: &Path, port: &str) -> (Part, String) {
    let data_dir = data_dir.display().to_string();
    let mut server = Part::start(&["apiserver", "--secure-port", port, "--data-dir", &data_dir], None);
    let line = server.line_with("API server ready at");
    let (_, rest) = line.split_once("https://127.0.0.1:").unwrap();
    (server, rest.chars().take_while(char::is_ascii_digit).collect())
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

/// A client that does not verify the server's certificate, with this token.
fn client_with(at: &str, token: Option<&str>) -> Client {
    let mut config = Config::new(at.parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.auth_info = AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

async fn send(client: &Client, method: &str, path: &str) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let (head, body) = client.send(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), String::from_utf8(body.into()).unwrap())
}

async fn get(client: &Client, path: &str) -> (u16, String) {
    send(client, "GET", path).await
}

fn message(text: &str) -> String {
    let status: Value = serde_json::from_str(text).unwrap();
    assert_eq!(status["kind"], "Status", "{text}");
    status["message"].as_str().unwrap().to_owned()
}

/// Repeats the check until it succeeds. Returns how long that took. Prints the last failure if it never succeeds.
async fn eventually(is_so: impl AsyncFn() -> Result<(), String>) -> Duration {
    let began = Instant::now();
    while let Err(seen) = is_so().await {
        assert!(began.elapsed() < PATIENCE, "{seen}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

/// Repeats the request until the response meets the condition.
async fn until(client: &Client, path: &str, holds: impl Fn(u16, &str) -> bool) -> Duration {
    eventually(async || {
        let (code, text) = get(client, path).await;
        if holds(code, &text) { Ok(()) } else { Err(format!("{path} still says {code}: {text}")) }
    })
    .await
}

/// A token of a service account, with or without permission to read metrics.
async fn token_of(client: &Client, name: &str, may_read: bool) -> String {
    let post = PostParams::default();
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    accounts.create(&post, &account).await.unwrap();
    if may_read {
        let role = json!({"metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
        let role: ClusterRole = serde_json::from_value(role).unwrap();
        Api::<ClusterRole>::all(client.clone()).create(&post, &role).await.unwrap();
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": "default"});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]});
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        Api::<ClusterRoleBinding>::all(client.clone()).create(&post, &binding).await.unwrap();
    }
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    accounts.create_token_request(name, &post, &request).await.unwrap().status.unwrap().token.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_public_and_metrics_need_the_api_servers_authorization() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let (_server, _) = api_server(folder.path(), "0");
    let [(mut manager, at), (mut scheduler, at_scheduler), (mut node, at_node)] =
        [&["controller-manager", "--feature-gates", "PodDeletionCost=false"][..], &["scheduler"], &["node"]]
            .map(|arguments| part(arguments, &kubeconfig));
    for part in [&mut manager, &mut scheduler, &mut node] {
        part.line_with(" works on https://");
    }
    for at in [&at, &at_scheduler, &at_node] {
        let stranger = client_with(at, None);
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(get(&stranger, path).await, (200, "ok".to_owned()), "{at}{path}");
        }
        let (code, text) = get(&stranger, "/readyz?verbose").await;
        let checks =
            ["ping", "permissions", "api-server", "leaderElection", "informer-sync", "controllers", "api-server-found", "shutdown"];
        let wanted: String = checks.iter().map(|check| format!("[+]{check} ok\n")).collect();
        assert_eq!((code, text), (200, format!("{wanted}readyz check passed\n")));
        for path in ["/metrics", "/readyz/ping", "/", "/api/v1/pods", "/healthz/"] {
            let (code, text) = get(&stranger, path).await;
            assert_eq!((code, message(&text)), (403, format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"")));
        }
        let (code, text) = get(&client_with(at, Some("it has no owner")), "/metrics").await;
        assert_eq!((code, message(&text)), (401, "Unauthorized".to_owned()));
        assert_eq!(send(&stranger, "POST", "/healthz").await.0, 405);
    }
    let admin = client(&kubeconfig).await;
    let [reader, other] = [token_of(&admin, "reader", true).await, token_of(&admin, "other", false).await];
    let (code, text) = get(&client_with(&at, Some(&other)), "/metrics").await;
    let told = "forbidden: User \"system:serviceaccount:default:other\" cannot get path \"/metrics\"";
    assert_eq!((code, message(&text)), (403, told.to_owned()));
    let reads = |at: &str| client_with(at, Some(&reader));
    assert_eq!(get(&reads(&at), "/nope").await.0, 403, "that right is for one path");
    let (code, text) = get(&reads(&at), "/metrics").await;
    assert_eq!(code, 200, "{text}");
    for line in [
        r#"workqueue_depth{name="deployment"} 0"#,
        r#"leader_election_master_status{name="berth-controller-manager"} 1"#,
        r#"kubernetes_feature_enabled{name="PodDeletionCost",stage="BETA"} 0"#,
        r#"rest_client_requests_total{code="200",host="127.0.0.1:"#,
        "process_start_time_seconds ",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line} in {text}");
    }
    let (_, text) = get(&reads(&at_scheduler), "/metrics").await;
    assert!(text.contains(r#"leader_election_master_status{name="berth-scheduler"} 1"#), "{text}");
    // An administrator may do everything, without an authorization request.
    let master = fs::read_to_string(folder.path().join("pki/token")).unwrap();
    let master = client_with(&at_node, Some(master.trim()));
    assert_eq!(get(&master, "/metrics").await.0, 200);
    assert_eq!(get(&master, "/readyz/ping").await, (200, "ok".to_owned()));
    assert_eq!(get(&master, "/nope").await.0, 404);
}

/// A part that waits for its lease is ready. A part without an API server is alive and not ready.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_ready_while_it_can_do_what_it_is_for() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let (server, port) = api_server(folder.path(), "0");
    drop(server);
    let open = ["--authorization-always-allow-paths", "/healthz*,/readyz*,/livez,/metrics"];
    let (mut first, at_first) = part(&[&["scheduler"][..], &open].concat(), &kubeconfig);
    let stranger = client_with(&at_first, None);
    let (code, text) = get(&stranger, "/readyz?verbose").await;
    assert_eq!(
        (code, text.as_str()),
        (500, "[+]ping ok\n[-]api-server-found failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n")
    );
    assert_eq!(get(&stranger, "/livez").await.0, 200);
    let (server, _) = api_server(folder.path(), &port);
    first.line_with("works on");
    assert_eq!(get(&stranger, "/readyz").await.0, 200);

    let (mut second, at_second) = part(&[&["scheduler"][..], &open].concat(), &kubeconfig);
    second.line_with("waits to acquire the lease");
    let standing = client_with(&at_second, None);
    until(&standing, "/readyz", |code, _| code == 200).await;
    let leads = |number: u8| format!("leader_election_master_status{{name=\"berth-scheduler\"}} {number}\n");
    until(&standing, "/metrics", |_, text| text.contains(&leads(0))).await;
    assert!(get(&stranger, "/metrics").await.1.contains(&leads(1)));
    assert!(first.terminate().success());
    second.line_with("works on");
    assert!(get(&standing, "/metrics").await.1.contains(&leads(1)));
    drop(second);

    // Without a lease a part survives its server.
    let (mut third, at_third) = part(&[&["scheduler", "--leader-elect=false"][..], &open].concat(), &kubeconfig);
    third.line_with("works on");
    let stranger = client_with(&at_third, None);
    let master = fs::read_to_string(folder.path().join("pki/token")).unwrap();
    assert_eq!(get(&stranger, "/readyz").await.0, 200);
    drop(server);
    let took = until(&stranger, "/readyz?verbose", |code, text| code == 500 && text.contains("[-]api-server failed")).await;
    assert!(took < Duration::from_secs(20), "{took:?}");
    let (code, why) = get(&stranger, "/readyz/api-server").await;
    assert!(code == 500 && why.starts_with("internal server error: no answer for "), "{code} {why}");
    assert_eq!(get(&stranger, "/livez").await.0, 200, "to start it anew would not help");
    // No server authorizes the other paths.
    let (code, text) = get(&client_with(&at_third, Some(master.trim())), "/livez/ping").await;
    assert_eq!((code, message(&text)), (503, "the API server did not authorize this request: it cannot be reached".to_owned()));
    let (_server, _) = api_server(folder.path(), &port);
    until(&stranger, "/readyz", |code, _| code == 200).await;
    assert_eq!(get(&client_with(&at_third, Some(master.trim())), "/livez/ping").await.0, 200);
}

/// Grants a user the permissions in the rules.
async fn allow(admin: &Client, subject: Value, name: &str, rules: Value) {
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules})).unwrap();
    let to = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = json!({"metadata": {"name": name}, "roleRef": to, "subjects": [subject]});
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &binding).await.unwrap();
}

/// The administrator's kubeconfig with a service account's token instead of the certificate.
fn kubeconfig_with(token: &str, folder: &Path) -> PathBuf {
    let mut config = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
    let user: AuthInfo = serde_json::from_value(json!({"token": token})).unwrap();
    config.auth_infos[0].auth_info = Some(user);
    let path = folder.join("account.kubeconfig");
    fs::write(&path, serde_json::to_string(&config).unwrap()).unwrap();
    path
}

const LEASES: [&str; 1] = ["leases"];

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_may_not_write_reports_it_is_not_ready_and_ends_at_a_signal() {
    let folder = TempDir::new().unwrap();
    let (_server, _) = api_server(folder.path(), "0");
    let admin = client(&folder.path().join("kubeconfig")).await;
    let token = token_of(&admin, "reader", false).await;
    let subject = json!({"kind": "ServiceAccount", "name": "reader", "namespace": "default"});
    let rules = json!([
        {"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": LEASES, "verbs": ["*"]},
    ]);
    allow(&admin, subject, "reads", rules).await;
    let kubeconfig = kubeconfig_with(&token, folder.path());
    let arguments = ["controller-manager", "--controllers", "deployment", "--authorization-always-allow-paths", "/readyz*"];
    let (mut manager, at) = part(&arguments, &kubeconfig);
    manager.line_with("works on");
    let stranger = client_with(&at, None);
    assert_eq!(get(&stranger, "/readyz").await.0, 200);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let web: Deployment = serde_json::from_value(web).unwrap();
    Api::default_namespaced(admin.clone()).create(&PostParams::default(), &web).await.unwrap();
    until(&stranger, "/readyz", |code, text| code == 500 && text.contains("[-]permissions failed")).await;
    let (_, why) = get(&stranger, "/readyz/permissions").await;
    assert!(
        why.contains(r#"User "system:serviceaccount:default:reader" cannot create resource "replicasets" in API group "apps""#),
        "{why}"
    );
    assert!(manager.terminate().success());
}

/// Its caches never become complete, because it lacks permission to list.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_may_not_list_ends_at_a_signal_and_lets_the_next_begin() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let (_server, _) = api_server(folder.path(), "0");
    let admin = client(&kubeconfig).await;
    let token = token_of(&admin, "leader", false).await;
    let subject = json!({"kind": "ServiceAccount", "name": "leader", "namespace": "default"});
    allow(&admin, subject, "leads", json!([{"apiGroups": ["coordination.k8s.io"], "resources": LEASES, "verbs": ["*"]}])).await;
    let own = kubeconfig_with(&token, folder.path());
    let arguments = ["controller-manager", "--controllers", "deployment", "--authorization-always-allow-paths", "/readyz*"];
    let (mut manager, at) = part(&arguments, &own);
    until(&client_with(&at, None), "/readyz", |_, text| text.contains("[-]informer-sync failed")).await;
    assert!(manager.terminate().success());
    let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(admin, "kube-system");
    let lease = leases.get("berth-controller-manager").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref().unwrap_or_default(), "", "the next need not wait");
}

#[test]
fn a_port_that_another_has_is_a_mistake_and_0_is_none() {
    let folder = TempDir::new().unwrap();
    let (_server, _) = api_server(folder.path(), "0");
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let kubeconfig = folder.path().join("kubeconfig");
    let start = |port: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["scheduler", "--secure-port", port, "--kubeconfig"]).arg(&kubeconfig).stdin(Stdio::null()).output().unwrap()
    };
    let output = start(&port);
    let told = String::from_utf8(output.stderr).unwrap();
    let wanted = format!(
        "berth: 127.0.0.1:{port} is in use: another process listens there; stop it, or choose another port (--bind-address; --secure-port, where 0 disables it)\n"
    );
    assert_eq!((output.status.code(), told), (Some(1), wanted));
    let mut silent = Part::start(&["scheduler", "--secure-port", "0"], Some(&kubeconfig));
    let line = silent.line_with("");
    assert!(line.contains("waits to acquire the lease"), "{line}");
}

fn berth_pki(arguments: &[&str], folder: &Path) {
    let made = Command::new(env!("CARGO_BIN_EXE_berth")).arg("pki").args(arguments).arg("--dir").arg(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The client of a kubeconfig for another server. It trusts no other authority.
async fn client_at(kubeconfig: &Path, at: &str) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    kubeconfig.clusters[0].cluster.as_mut().unwrap().server = Some(at.to_owned());
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

/// With files of `berth pki`, which the part reads again.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_shows_its_own_certificate_and_believes_those_of_its_authority() {
    let (folder, pki) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    berth_pki(&["init"], pki.path());
    let [ca, certificate, key] = ["ca.crt", "apiserver.crt", "apiserver.key"].map(|name| pki.path().join(name).display().to_string());
    let (_server, _) = api_server(folder.path(), "0");
    let own = ["--client-ca-file", &ca, "--tls-cert-file", &certificate, "--tls-private-key-file", &key];
    let (mut part, at) = part(&[&["scheduler"][..], &own].concat(), &folder.path().join("kubeconfig"));
    part.line_with("works on");
    // The administrator of that authority.
    let admin = async || client_at(&pki.path().join("admin.kubeconfig"), &at).await;
    let (code, text) = get(&admin().await, "/metrics").await;
    assert_eq!(code, 200, "{text}");
    let end = |text: &str| {
        let line = text.lines().find(|line| line.starts_with(r#"berth_credentials_expire_timestamp_seconds{credential="serving"}"#));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let before = end(&text);
    berth_pki(&["renew", "--duration", "100h"], pki.path());
    eventually(async || {
        let (code, text) = get(&admin().await, "/metrics").await;
        assert_eq!(code, 200, "{text}");
        if end(&text) < before { Ok(()) } else { Err("still that of before".to_owned()) }
    })
    .await;
    // The part ignores a certificate of another authority.
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(folder.path().join("kubeconfig")).unwrap(), &KubeConfigOptions::default())
            .await
            .unwrap();
    (config.cluster_url, config.accept_invalid_certs) = (at.parse().unwrap(), true);
    let other = || Client::try_from(config.clone()).unwrap();
    assert_eq!(get(&other(), "/metrics").await.0, 401);
    // The part accepts it as soon as the file contains that authority too.
    let both = fs::read_to_string(&ca).unwrap() + &fs::read_to_string(folder.path().join("pki/ca.pem")).unwrap();
    fs::write(&ca, both).unwrap();
    // Each request uses a new connection, because the part checks certificates at the start of a connection.
    eventually(async || match get(&other(), "/metrics").await.0 {
        200 => Ok(()),
        code => Err(format!("it still counts for nothing: {code}")),
    })
    .await;
    // All files are of another authority: clients trust the new certificate, and present one of that authority.
    let next = TempDir::new().unwrap();
    berth_pki(&["init"], next.path());
    let admin = client_at(&next.path().join("admin.kubeconfig"), &at).await;
    let metrics = || admin.send(http::Request::get("/metrics").body(Body::empty()).unwrap());
    assert!(metrics().await.is_err(), "its certificate is of the authority of before");
    for name in ["ca.crt", "apiserver.crt", "apiserver.key"] {
        fs::copy(next.path().join(name), pki.path().join(name)).unwrap();
    }
    eventually(async || match metrics().await {
        Ok(answer) if answer.status() == 200 => Ok(()),
        _ => Err("it still shows that of before".to_owned()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_receive_the_new_authority_of_the_file() {
    let [folder, pki, next] = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    [&pki, &next].into_iter().for_each(|pki| berth_pki(&["init"], pki.path()));
    let [ca, certificate, key, signing, root] =
        ["ca.crt", "apiserver.crt", "apiserver.key", "sa.key", "root.crt"].map(|name| pki.path().join(name).display().to_string());
    fs::copy(&ca, &root).unwrap();
    let data_dir = folder.path().display().to_string();
    let shared = ["--client-ca-file", &ca, "--tls-cert-file", &certificate, "--tls-private-key-file", &key];
    let keys = ["--root-ca-file", &root, "--service-account-signing-key-file", &signing];
    let mut server = Part::start(&[&["apiserver", "--secure-port", "0", "--data-dir", &data_dir], &shared[..], &keys].concat(), None);
    let line = server.line_with("API server ready at");
    let (_, rest) = line.split_once("https://127.0.0.1:").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let admin = client_at(&pki.path().join("admin.kubeconfig"), &format!("https://127.0.0.1:{port}")).await;
    let says = async |wanted: &str| {
        for namespace in ["default", "kube-system"] {
            until(&admin, &format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"), |code, text| {
                code == 200 && serde_json::from_str::<Value>(text).unwrap()["data"]["ca.crt"] == wanted
            })
            .await;
        }
    };
    let [before, other] = [&pki, &next].map(|pki| fs::read_to_string(pki.path().join("ca.crt")).unwrap());
    says(&before).await;
    fs::write(&root, "nothing").unwrap();
    until(&admin, "/metrics", |_, text| text.contains("berth_credentials_outdated{credential=\"root-ca\"} 1\n")).await;
    says(&before).await;
    let both = other + &before;
    fs::write(&root, &both).unwrap();
    says(&both).await;
}

/// Its API server exports no metrics of workloads and waits.
#[tokio::test(flavor = "multi_thread")]
async fn on_another_kubernetes_the_metrics_of_the_controllers_show_workloads_and_waits() {
    let Some(upstream) = Upstream::start(&["--controllers", "*,-deployment,-replicaset,-statefulset"]) else { return };
    let kubeconfig = upstream.kubeconfig();
    let open = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics";
    let (_manager, at) = part(&["controller-manager", open], &kubeconfig);
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3, "paused": true,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}}});
    let web: Deployment = serde_json::from_value(web).unwrap();
    Api::<Deployment>::default_namespaced(client(&kubeconfig).await).create(&PostParams::default(), &web).await.unwrap();
    let lines = [
        r#"kube_deployment_spec_replicas{deployment="web",namespace="default"} 3"#,
        r#"kube_deployment_status_observed_generation{deployment="web",namespace="default"} 1"#,
        r#"berth_waits{controller="deployment",reason="paused"} 1"#,
        r#"berth_waits{controller="statefulset",reason="second_writer"} 0"#,
    ];
    let all = |code: u16, text: &str| code == 200 && lines.iter().all(|line| text.lines().any(|shown| shown == *line));
    until(&client_with(&at, None), "/metrics", all).await;
}
