//! The contents of logs. This is the only test of its process, because a subscriber gets the log of the whole process.

use crate::common::{Log, TestServer};
use berth_apiserver::{
    Access,
    audit::{AuditLog, Policy, Rotation},
};
use hyper::Method;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn no_secret_is_logged_however_much_is_and_no_line_is_forged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("the first");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]";
    let audit = AuditLog::open(Policy::parse(policy).expect("a policy"), &path, Rotation::default()).expect("opened");
    let server = TestServer::start_with(Access { audit: Some(audit), ..Access::default() }).await;
    let admin_token = server.pki.admin_token.clone();
    let mut anonymous = server.anonymous().await;
    for token in [&admin_token, "a-wrong-token"] {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("user-agent", "evil\tagent \"}{\\u000a"), ("audit-id", "x\\n{\"y\":1}")];
        anonymous.send(Method::GET, &format!("{CONFIG_MAPS}?a=%0aINFO%20forged"), &headers, "").await;
    }
    let mut admin = server.admin().await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "a-secret-value"}});
    assert_eq!(admin.post("/api/v1/namespaces/default/secrets", &secret).await.code, 201);
    assert_eq!(
        admin.post("/api/v1/namespaces/default/secrets", &json!({"stringData": {"k": "a-secret-value"}, "x": "[["})).await.code,
        422
    );
    let made = admin.post("/api/v1/namespaces/default/serviceaccounts/default/token", &json!({"spec": {}})).await.json();
    let token = made["status"]["token"].as_str().expect("a token").to_owned();
    let review = json!({"spec": {"token": token}});
    assert_eq!(admin.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.code, 201);
    let mut liar = server.user("eve\nINFO forged", &[]).await;
    assert_eq!(liar.get(CONFIG_MAPS).await.code, 403);
    drop((anonymous, admin, liar));
    server.stop().await.expect("stopped");

    let audited = std::fs::read_to_string(&path).expect("written");
    let logged = String::from_utf8(log.0.lock().expect("no holder panics").clone()).expect("text");
    assert!(logged.contains("answered") && audited.contains("serviceaccounts"));
    for text in [&logged, &audited] {
        for hidden in ["a-secret-value", "YS1zZWNyZXQtdmFsdWU", "a-wrong-token", &admin_token, &token] {
            assert!(!text.contains(hidden), "{hidden}");
        }
        assert!(!text.lines().any(|line| line.starts_with("INFO forged")));
    }
    for line in audited.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    }
}
