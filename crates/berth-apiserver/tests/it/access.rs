//! Authentication and authorization over real sockets.

use crate::common::{Answer, Client, MovedClock, TestServer};
use berth_apiserver::{
    Access,
    audit::{AuditLog, Policy, Rotation},
    auth::{Anonymous, parse_token_file},
};
use hyper::Method;
use serde_json::{Value, json};
use std::sync::Arc;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const IDENTITY: &str = "/apis/authentication.k8s.io/v1";

fn binding(name: &str, kind: &str, role: &str, subject: &Value) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]})
}

async fn bind(server: &TestServer, namespace: &str, role: &str, subject: Value) {
    let answer = server
        .admin()
        .await
        .post(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), &binding(role, "ClusterRole", role, &subject))
        .await;
    assert_eq!(answer.code, 201, "{}", answer.text());
}

async fn put_objects(server: &TestServer) {
    let mut admin = server.admin().await;
    let pod_spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": pod_spec});
    for (path, object) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": "a"}})),
        ("/api/v1/namespaces/a/pods", json!({"metadata": {"name": "p"}, "spec": pod_spec})),
        ("/api/v1/namespaces/a/secrets", json!({"metadata": {"name": "s"}})),
        (
            "/apis/apps/v1/namespaces/a/deployments",
            json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template}}),
        ),
    ] {
        let answer = admin.post(path, &object).await;
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    }
}

/// The rights of viewers and editors of namespace `a`, for every request about a Deployment, a Pod, a Secret and their
/// subresources: `METHOD path: none | edit | both`. The bodies are invalid on purpose: an authorized user gets that
/// error, others are rejected before.
const QUESTIONS: &str = "
GET /apis/apps/v1/namespaces/a/deployments: both
GET /apis/apps/v1/namespaces/a/deployments?watch=true&timeoutSeconds=1: both
GET /apis/apps/v1/namespaces/a/deployments/d: both
GET /apis/apps/v1/namespaces/a/deployments/d/scale: both
GET /apis/apps/v1/namespaces/a/deployments/d/status: both
POST /apis/apps/v1/namespaces/a/deployments: edit
PUT /apis/apps/v1/namespaces/a/deployments/d: edit
PATCH /apis/apps/v1/namespaces/a/deployments/d: edit
DELETE /apis/apps/v1/namespaces/a/deployments/x: edit
DELETE /apis/apps/v1/namespaces/a/deployments?labelSelector=none%3Dhere: edit
PUT /apis/apps/v1/namespaces/a/deployments/d/scale: edit
PATCH /apis/apps/v1/namespaces/a/deployments/d/scale: edit
PUT /apis/apps/v1/namespaces/a/deployments/d/status: none
PATCH /apis/apps/v1/namespaces/a/deployments/d/status: none
GET /apis/apps/v1/deployments: none
GET /apis/apps/v1/namespaces/b/deployments: none
POST /apis/apps/v1/namespaces/b/deployments: none
GET /api/v1/namespaces/a/pods/p: both
GET /api/v1/namespaces/a/pods/p/status: both
PATCH /api/v1/namespaces/a/pods/p/status: none
POST /api/v1/namespaces/a/pods/p/eviction: edit
POST /api/v1/namespaces/a/pods/p/binding: none
GET /api/v1/namespaces/a/secrets: edit
GET /api/v1/namespaces/a/secrets/s: edit
GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds: edit
POST /api/v1/namespaces/a/secrets: edit
POST /api/v1/namespaces/a/serviceaccounts/default/token: edit
GET /api/v1/namespaces/a: both
GET /api/v1/namespaces: none
DELETE /api/v1/namespaces/a: none
PUT /api/v1/namespaces/a/finalize: none
GET /api/v1/nodes: none
GET /apis/rbac.authorization.k8s.io/v1/namespaces/a/roles: none
POST /apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings: none
POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews: both
POST /apis/authorization.k8s.io/v1/subjectaccessreviews: none
POST /apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews: none
POST /apis/authentication.k8s.io/v1/tokenreviews: none
GET /apis/apps/v1: both
GET /openapi/v3: both
GET /version: both
GET /metrics: none
GET /apis/nope/v1/things: none
GET /nope: none
";

#[tokio::test]
async fn two_users_may_do_what_their_roles_allow_with_every_verb_and_subresource() {
    let server = TestServer::start().await;
    put_objects(&server).await;
    bind(&server, "a", "view", json!({"kind": "User", "name": "viewer"})).await;
    bind(&server, "a", "edit", json!({"kind": "Group", "name": "editors"})).await;
    let mut viewer = server.user("viewer", &[]).await;
    let mut editor = server.user("anybody", &["editors"]).await;
    for question in QUESTIONS.lines().filter(|line| !line.is_empty()) {
        let (request, who) = question.rsplit_once(": ").expect("a question");
        let (method, path) = request.split_once(' ').expect("a request");
        let method: Method = method.parse().expect("a method");
        let headers = [("content-type", if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" })];
        let body = if matches!(method.as_str(), "POST" | "PUT" | "PATCH") { "!" } else { "" };
        for (client, may) in [(&mut viewer, who == "both"), (&mut editor, who != "none")] {
            let answer = client.send(method.clone(), path, &headers, body).await;
            assert_eq!(answer.code != 403, may, "{question}: {}", answer.text());
            if !may {
                let status = answer.json();
                assert_eq!((&status["reason"], answer.header("x-content-type-options")), (&json!("Forbidden"), Some("nosniff")));
            }
        }
    }
}

#[tokio::test]
async fn a_change_of_roles_counts_for_the_next_request() {
    let server = TestServer::start().await;
    let mut alice = server.user("alice", &[]).await;
    let pods = "/api/v1/namespaces/default/pods";
    let refused = alice.get(pods).await;
    assert_eq!(
        (refused.code.as_u16(), refused.json()["message"].as_str().map(str::to_owned)),
        (
            403,
            Some(
                "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"".to_owned()
            )
        )
    );
    assert_eq!(refused.json()["details"], json!({"kind": "pods"}));
    bind(&server, "default", "view", json!({"kind": "User", "name": "alice"})).await;
    assert_eq!(alice.get(pods).await.code, 200);
    let path = format!("{RBAC}/namespaces/default/rolebindings/view");
    assert_eq!(server.admin().await.send(Method::DELETE, &path, &[], "").await.code, 200);
    assert_eq!(alice.get(pods).await.code, 403);
}

fn question(verb: &str, resource: &str) -> Value {
    json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": verb, "resource": resource}}})
}

#[tokio::test]
async fn reviews_return_the_decisions_that_requests_would_get() {
    let server = TestServer::start().await;
    bind(&server, "default", "view", json!({"kind": "User", "name": "alice"})).await;
    let mut alice = server.user("alice", &["dev"]).await;
    let asked = format!("{ACCESS}/selfsubjectaccessreviews");
    let allowed = alice.post(&asked, &question("get", "pods")).await;
    assert_eq!((allowed.code.as_u16(), &allowed.json()["status"]["allowed"]), (201, &json!(true)));
    let reason = "RBAC: allowed by RoleBinding \"view/default\" of ClusterRole \"view\" to User \"alice\"";
    assert_eq!(allowed.json()["status"]["reason"], reason);
    assert_eq!(
        (&allowed.json()["kind"], &allowed.json()["apiVersion"]),
        (&json!("SelfSubjectAccessReview"), &json!("authorization.k8s.io/v1"))
    );
    assert_eq!(alice.post(&asked, &question("delete", "pods")).await.json()["status"], json!({"allowed": false}));
    let path = json!({"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}});
    assert_eq!(alice.post(&asked, &path).await.json()["status"]["allowed"], true);
    for bad in [json!({"spec": {}}), json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}})] {
        assert_eq!(alice.post(&asked, &bad).await.code, 422, "{bad}");
    }
    assert_eq!(alice.get(&asked).await.code, 403);
    let mut admin = server.admin().await;
    assert_eq!(admin.get(&asked).await.code, 405);
    assert_eq!(admin.post(&asked, &question("any", "thing")).await.json()["status"], json!({"allowed": true}));

    let mut of_alice = question("get", "pods");
    of_alice["spec"]["user"] = json!("alice");
    assert_eq!(admin.post(&format!("{ACCESS}/subjectaccessreviews"), &of_alice).await.json()["status"]["allowed"], true);
    let local = format!("{ACCESS}/namespaces/default/localsubjectaccessreviews");
    assert_eq!(admin.post(&local, &of_alice).await.json()["status"]["allowed"], true);
    let elsewhere = format!("{ACCESS}/namespaces/other/localsubjectaccessreviews");
    assert_eq!(admin.post(&elsewhere, &of_alice).await.code, 422);
    assert_eq!(admin.post(&format!("{ACCESS}/subjectaccessreviews"), &question("get", "pods")).await.code, 422);

    let rules = alice.post(&format!("{ACCESS}/selfsubjectrulesreviews"), &json!({"spec": {"namespace": "default"}})).await.json();
    let resources = rules["status"]["resourceRules"].as_array().expect("rules");
    assert!(resources.iter().any(|rule| rule["apiGroups"] == json!(["apps"]) && rule["verbs"] == json!(["get", "list", "watch"])));
    assert_eq!((&rules["spec"], &rules["status"]["incomplete"]), (&json!({}), &json!(false)));
    let refused = alice.post(&format!("{ACCESS}/selfsubjectrulesreviews"), &json!({"spec": {}})).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (400, &json!("no namespace on request")));

    let own = alice.post(&format!("{IDENTITY}/selfsubjectreviews"), &json!({})).await;
    let info = own.json()["status"]["userInfo"].clone();
    assert_eq!((own.code.as_u16(), &info["username"], &info["groups"]), (201, &json!("alice"), &json!(["dev", "system:authenticated"])));
    let listed = alice.get("/apis/authorization.k8s.io/v1").await.json();
    assert_eq!(listed["resources"][0]["verbs"], json!(["create"]));
}

async fn token(client: &mut Client, account: &str, spec: Value) -> Answer {
    client.post(&format!("/api/v1/namespaces/default/serviceaccounts/{account}/token"), &json!({"spec": spec})).await
}

#[tokio::test]
async fn tokens_begin_and_end_by_the_time_that_stamps_objects() {
    let clock = Arc::new(MovedClock::default());
    // The clock was set back by an hour since, so a new certificate is not valid yet by the machine's clock.
    clock.set_ahead(60);
    let server = TestServer::start_by(Arc::<MovedClock>::clone(&clock), |_| ()).await;
    let mut admin = server.admin().await;
    let pods = "/api/v1/namespaces/default/pods";
    bind(&server, "default", "view", json!({"kind": "ServiceAccount", "name": "default"})).await;
    let made = token(&mut admin, "default", json!({"expirationSeconds": 600})).await.json();
    let bearer = format!("Bearer {}", made["status"]["token"].as_str().expect("a token"));
    let mut anonymous = server.anonymous().await;
    for (minutes, code) in [(60, 200), (69, 200), (71, 401)] {
        clock.set_ahead(minutes);
        assert_eq!(anonymous.send(Method::GET, pods, &[("authorization", &bearer)], "").await.code.as_u16(), code, "{minutes}");
    }
}

#[tokio::test]
async fn service_accounts_have_tokens_that_end_with_what_they_are_bound_to() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(admin.post(pods, &pod).await.code, 201);
    bind(&server, "default", "view", json!({"kind": "ServiceAccount", "name": "default"})).await;
    let made = token(&mut admin, "default", json!({})).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let bound = token(&mut admin, "default", json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}})).await.json();
    let other = token(&mut admin, "default", json!({"audiences": ["vault"]})).await.json();
    let bearer = |answer: &Value| format!("Bearer {}", answer["status"]["token"].as_str().expect("a token"));
    let (plain, bound, other) = (bearer(&made.json()), bearer(&bound), bearer(&other));

    let mut anonymous = server.anonymous().await;
    for (authorization, code) in [(&plain, 200), (&bound, 200), (&other, 401), (&format!("{plain}x"), 401)] {
        let headers = [("authorization", authorization.as_str())];
        assert_eq!(anonymous.send(Method::GET, pods, &headers, "").await.code.as_u16(), code);
        assert_eq!(anonymous.send(Method::GET, "/api/v1/nodes", &headers, "").await.code.as_u16(), if code == 200 { 403 } else { 401 });
    }
    let headers = [("authorization", bound.as_str()), ("content-type", "application/json")];
    let own = anonymous.send(Method::POST, &format!("{IDENTITY}/selfsubjectreviews"), &headers, "{}").await.json();
    let info = &own["status"]["userInfo"];
    assert_eq!(info["username"], "system:serviceaccount:default:default");
    assert_eq!(info["groups"], json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]));
    assert_eq!(info["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));

    let review =
        |token: &str, audiences: Value| json!({"spec": {"token": token.strip_prefix("Bearer ").expect("a token"), "audiences": audiences}});
    let reviews = format!("{IDENTITY}/tokenreviews");
    let good = admin.post(&reviews, &review(&other, json!(["vault", "x"]))).await.json();
    assert_eq!((&good["status"]["authenticated"], &good["status"]["audiences"]), (&json!(true), &json!(["vault"])));
    let bad = admin.post(&reviews, &review(&other, json!([]))).await;
    assert_eq!((bad.code.as_u16(), bad.json()["status"].get("authenticated")), (201, None));

    assert_eq!(admin.send(Method::DELETE, &format!("{pods}/p?gracePeriodSeconds=0"), &[], "").await.code, 200);
    assert_eq!(anonymous.send(Method::GET, pods, &[("authorization", &bound)], "").await.code, 401);
    assert_eq!(anonymous.send(Method::GET, pods, &[("authorization", &plain)], "").await.code, 200);
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    assert_eq!(admin.send(Method::DELETE, account, &[], "").await.code, 200);
    assert_eq!(anonymous.send(Method::GET, pods, &[("authorization", &plain)], "").await.code, 401);

    assert_eq!(token(&mut admin, "nope", json!({})).await.code, 404);
    assert_eq!(token(&mut admin, "default", json!({"expirationSeconds": 10})).await.code, 422);
    let wrong = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "p"}});
    assert_eq!(token(&mut admin, "default", wrong).await.code, 400);
}

#[tokio::test]
async fn others_can_check_the_tokens() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let configuration = admin.get("/.well-known/openid-configuration").await.json();
    let keys = configuration["jwks_uri"].as_str().expect("a URL").to_owned();
    assert!(keys.ends_with("/openid/v1/jwks"), "{keys}");
    let keys = admin.get("/openid/v1/jwks").await;
    assert_eq!((keys.header("content-type"), &keys.json()["keys"][0]["kty"]), (Some("application/jwk-set+json"), &json!("EC")));
    assert_eq!(server.anonymous().await.get("/openid/v1/jwks").await.code, 403);
}

#[tokio::test]
async fn a_user_with_the_right_to_impersonate_acts_as_the_impersonated_user() {
    let server = TestServer::start().await;
    bind(&server, "default", "view", json!({"kind": "User", "name": "bob"})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let mut admin = server.admin().await;
    assert_eq!(admin.send(Method::GET, pods, &[("impersonate-user", "bob")], "").await.code, 200);
    assert_eq!(admin.send(Method::GET, pods, &[("impersonate-user", "carol")], "").await.code, 403);
    let bad = admin.send(Method::GET, pods, &[("impersonate-group", "dev")], "").await;
    assert_eq!(bad.code, 400, "{}", bad.text());

    let mut alice = server.user("alice", &[]).await;
    let refused = alice.send(Method::GET, pods, &[("impersonate-user", "bob")], "").await;
    let message = refused.json()["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("User \"alice\" cannot impersonate-on:user-info:list resource \"pods\""), "{message}");
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}]);
    assert_eq!(admin.post(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "i"}, "rules": rules})).await.code, 201);
    let to_alice = binding("i", "ClusterRole", "i", &json!({"kind": "User", "name": "alice"}));
    assert_eq!(admin.post(&format!("{RBAC}/clusterrolebindings"), &to_alice).await.code, 201);
    assert_eq!(alice.send(Method::GET, pods, &[("impersonate-user", "bob")], "").await.code, 200);
    assert_eq!(alice.send(Method::GET, pods, &[("impersonate-user", "carol")], "").await.code, 403);
    let master = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    assert_eq!(alice.send(Method::GET, pods, &master, "").await.code, 403);
}

#[tokio::test]
async fn known_tokens_are_users_and_anonymous_requests_can_be_refused() {
    let tokens = parse_token_file("secret-1,alice,7,\"dev,ops\"\nsecret-2,bob,\n").expect("a token file");
    let server = TestServer::start_with(Access { tokens, anonymous: Anonymous::Refused, audit: None }).await;
    let mut client = server.anonymous().await;
    assert_eq!(client.get("/version").await.code, 401);
    let whoami = format!("{IDENTITY}/selfsubjectreviews");
    for (token, name, uid) in [("secret-1", "alice", json!("7")), ("secret-2", "bob", Value::Null)] {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let info = client.send(Method::POST, &whoami, &headers, "{}").await.json()["status"]["userInfo"].clone();
        assert_eq!((&info["username"], &info["uid"]), (&json!(name), &uid));
    }
    assert_eq!(client.send(Method::GET, "/version", &[("authorization", "Bearer secret-3")], "").await.code, 401);
}

#[tokio::test]
async fn the_audit_log_records_users_and_their_requests_and_no_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: RequestResponse}]";
    let log = AuditLog::open(Policy::parse(policy).expect("a policy"), &path, Rotation::default()).expect("opened");
    let server = TestServer::start_with(Access { audit: Some(log), ..Access::default() }).await;
    let mut admin = server.admin().await;
    let config_map = json!({"metadata": {"name": "x"}, "data": {"k": "config-text"}});
    assert_eq!(admin.post("/api/v1/namespaces/default/configmaps", &config_map).await.code, 201);
    let secret = json!({"metadata": {"name": "x"}, "stringData": {"k": "secret-text"}});
    assert_eq!(admin.post("/api/v1/namespaces/default/secrets", &secret).await.code, 201);
    let role = json!({"metadata": {"generateName": "r-"}, "rules": []});
    let role = admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await.json();
    let made = token(&mut admin, "default", json!({})).await.json()["status"]["token"].as_str().expect("a token").to_owned();
    let account = json!({"metadata": {"name": "robot"}});
    let created = admin.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/audit": "baseline"});
    let strict = json!({"metadata": {"name": "strict", "labels": labels}});
    assert_eq!(admin.post("/api/v1/namespaces", &strict).await.code, 201);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(admin.post("/api/v1/namespaces/strict/pods", &pod).await.code, 201);
    let mut alice = server.user("alice", &[]).await;
    assert_eq!(alice.get("/api/v1/nodes").await.code, 403);
    let bad = [("authorization", "Bearer bad-token")];
    assert_eq!(server.anonymous().await.send(Method::GET, "/version", &bad, "").await.code, 401);
    drop((admin, alice));
    server.stop().await.expect("stopped");

    let text = std::fs::read_to_string(&path).expect("written");
    for hidden in ["config-text", "secret-text", "bad-token", made.as_str()] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |resource: &str| events.iter().find(|event| event["objectRef"]["resource"] == resource).expect("an event");
    assert_eq!((&of("secrets")["level"], &of("secrets")["objectRef"]["name"]), (&json!("Metadata"), &json!("x")));
    assert_eq!(of("roles")["objectRef"]["name"], role["metadata"]["name"], "the name that it was given");
    let whole = events.iter().find(|event| event["responseObject"]["metadata"]["name"] == "robot").expect("an event");
    assert_eq!((&whole["auditID"], &whole["requestObject"]), (&json!(created.header("audit-id")), &account));
    assert_eq!(
        (&whole["user"]["username"], &whole["verb"], &whole["responseStatus"]["code"]),
        (&json!("kubernetes-admin"), &json!("create"), &json!(201))
    );
    let annotation = |name: &str| of("pods")["annotations"][format!("pod-security.kubernetes.io/{name}")].clone();
    assert_eq!(annotation("enforce-policy"), "privileged:latest");
    assert_eq!(annotation("audit-violations"), "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)");
    let refused = of("nodes");
    assert_eq!(
        (&refused["user"]["username"], &refused["annotations"]["authorization.k8s.io/decision"]),
        (&json!("alice"), &json!("forbid"))
    );
    let unknown = events.iter().find(|event| event["responseStatus"]["code"] == 401).expect("an event");
    assert_eq!((&unknown["user"], &unknown["sourceIPs"]), (&json!({}), &json!(["127.0.0.1"])));
}
