//! Attempts to use another identity, to exceed rights, and to read secret information.

use crate::common::{Client, Protocol, TestServer};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_apiserver::auth::{AccountTokens, Bound, Claims, Reference};
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Alice edits the namespace `default`, with a role for everything there. Another namespace has a secret.
async fn server() -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let everything = json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let to_alice = json!({"metadata": {"name": "all"}, "roleRef": {"kind": "Role", "name": "all"},
        "subjects": [{"kind": "User", "name": "alice"}]});
    for (path, object) in [
        (format!("{RBAC}/namespaces/default/roles"), everything),
        (format!("{RBAC}/namespaces/default/rolebindings"), to_alice),
        ("/api/v1/namespaces/kube-system/secrets".to_owned(), json!({"metadata": {"name": "s"}, "stringData": {"k": "elsewhere"}})),
        ("/api/v1/namespaces/default/secrets".to_owned(), json!({"metadata": {"name": "own"}})),
        ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "n"}})),
    ] {
        let answer = admin.post(&path, &object).await;
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    }
    let alice = server.user("alice", &[]).await;
    (server, alice)
}

#[tokio::test]
async fn paths_written_in_other_ways_lead_nowhere_else() {
    let (_server, mut alice) = server().await;
    assert_eq!(alice.get("/api/v1/namespaces/default/secrets/own").await.code, 200);
    for path in [
        "/api/v1/namespaces/default/../kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/../../kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/%2e%2e/%2e%2e/kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/..%2f..%2fkube-system%2fsecrets%2fs",
        "/api/v1/namespaces/default/secrets/..%2fkube-system%2fs",
        "/api/v1/namespaces/default%2f..%2fkube-system/secrets/s",
        "/api/v1/namespaces/kube-system%00/secrets/s",
        "/api/v1/namespaces//secrets/s",
        "/api/v1/namespaces/kube-system/secrets/s",
        "//api/v1/namespaces/kube-system/secrets/s",
        "/api//v1/namespaces/kube-system/secrets/s",
        "/api/v1//namespaces/kube-system/secrets/s",
        "/./api/v1/namespaces/kube-system/secrets/s",
        "/API/v1/namespaces/kube-system/secrets/s",
        "/api/v1/namespaces/kube-system/secrets;x=default/s",
        "/api/v1/namespaces/default/secrets/../../../../../api/v1/secrets",
        "/healthz/../api/v1/secrets",
        "/healthz/..%2fapi/v1/secrets",
        "/version/../api/v1/secrets",
        "/api/v1/secrets",
        "/api/v1/watch/secrets",
        "/api/v1/watch/namespaces/kube-system/secrets/s",
        "/apis/apps/v1/secrets",
        "/apis//v1/namespaces/kube-system/secrets/s",
        "/apis/core/v1/namespaces/kube-system/secrets/s",
        // Cluster-scoped, requested as if it were in her namespace.
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/n",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles/cluster-admin",
        "/api/v1/namespaces/default/namespaces/kube-system",
    ] {
        let answer = alice.get(path).await;
        assert!([403, 404].contains(&answer.code.as_u16()), "{path}: {}", answer.text());
        assert!(!answer.text().contains("ZWxzZXdoZXJl"), "{path}");
    }
}

#[tokio::test]
async fn there_is_nothing_to_upgrade_to_and_nothing_to_proxy() {
    let (_server, mut alice) = server().await;
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"), ("sec-websocket-key", "AAAA")];
    let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(alice.post("/api/v1/namespaces/default/pods", &pod).await.code, 201);
    for subresource in ["exec?command=sh", "attach", "portforward", "proxy", "proxy/", "proxy/http:10.0.0.1:80/"] {
        let path = format!("/api/v1/namespaces/default/pods/p/{subresource}");
        for headers in [&upgrade[..], &spdy[..], &[]] {
            for method in [Method::GET, Method::POST] {
                let answer = alice.send(method.clone(), &path, headers, "").await;
                assert!([404, 405].contains(&answer.code.as_u16()), "{method} {path}: {}", answer.text());
            }
        }
    }
    for path in ["/api/v1/nodes/n/proxy/", "/api/v1/proxy/nodes/n/", "/apis/metrics.k8s.io/v1beta1/nodes"] {
        assert_eq!(alice.send(Method::GET, path, &upgrade, "").await.code, 403, "{path}");
    }
    assert_eq!(alice.send(Method::from_bytes(b"CONNECT").expect("a method"), "localhost:80", &[], "").await.code, 403);
    assert_eq!(alice.send(Method::GET, CONFIG_MAPS, &upgrade, "").await.code, 200, "an upgrade is ignored where it leads nowhere");
}

async fn name_of(client: &mut Client, headers: &[(&str, &str)]) -> Result<String, u16> {
    let headers = [headers, &[("content-type", "application/json")]].concat();
    let answer = client.send(Method::POST, WHO_AM_I, &headers, "{}").await;
    if answer.code != 201 {
        return Err(answer.code.as_u16());
    }
    Ok(answer.json()["status"]["userInfo"]["username"].as_str().expect("a name").to_owned())
}

#[tokio::test]
async fn headers_that_claim_an_identity_do_not_count() {
    let (server, mut alice) = server().await;
    for headers in [
        &[("x-remote-user", "kubernetes-admin"), ("x-remote-group", "system:masters")][..],
        &[("x-forwarded-user", "kubernetes-admin"), ("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=127.0.0.1")],
        &[("x-remote-extra-scopes", "all"), ("x-client-cert", "admin")],
        &[("authorization", "Basic YWRtaW46YWRtaW4=")],
    ] {
        assert_eq!(name_of(&mut alice, headers).await.as_deref(), Ok("alice"), "{headers:?}");
        assert_eq!(server.anonymous().await.send(Method::GET, CONFIG_MAPS, headers, "").await.code, 403, "{headers:?}");
    }
}

#[tokio::test]
async fn impersonation_cannot_be_slipped_past_its_check() {
    let (_server, mut alice) = server().await;
    for headers in [
        &[("impersonate-user", "kubernetes-admin")][..],
        &[("Impersonate-User", "alice"), ("Impersonate-Group", "system:masters")],
        &[("impersonate-user", "alice"), ("impersonate-user", "kubernetes-admin")],
        &[("connection", "impersonate-user"), ("impersonate-user", "kubernetes-admin")],
        &[("connection", "impersonate-group"), ("impersonate-user", "alice"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "system:serviceaccount:kube-system:default")],
        &[("impersonate-user", "alice"), ("impersonate-uid", "0")],
        &[("impersonate-user", "alice"), ("impersonate-extra-a%2fb", "c")],
        &[("impersonate-group", "system:masters")],
        &[("impersonate-uid", "0")],
    ] {
        let refused = name_of(&mut alice, headers).await;
        assert!(matches!(refused, Err(400 | 403)), "{headers:?}: {refused:?}");
    }
}

fn part(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

#[tokio::test]
async fn forged_and_outlived_tokens_are_refused() {
    let server = TestServer::start().await;
    let account = server.admin().await.get("/api/v1/namespaces/default/serviceaccounts/default").await.json();
    let now = Timestamp::now().as_second();
    let reference = Reference { name: "default".to_owned(), uid: account["metadata"]["uid"].as_str().expect("a uid").to_owned() };
    let good = Claims {
        aud: vec![ISSUER.to_owned()],
        exp: now + 600,
        iat: now,
        iss: ISSUER.to_owned(),
        jti: "j".to_owned(),
        kubernetes: Bound { namespace: "default".to_owned(), serviceaccount: reference, ..Bound::default() },
        nbf: now - 60,
        sub: "system:serviceaccount:default:default".to_owned(),
    };
    let keys = AccountTokens::new(&server.pki.service_account_key, ISSUER).expect("the server's key");
    let stranger = AccountTokens::new(&rcgen::KeyPair::generate().expect("a key").serialize_pem(), ISSUER).expect("a key");
    let changed = |change: fn(&mut Claims)| {
        let mut claims = good.clone();
        change(&mut claims);
        keys.sign(&claims)
    };
    let signed = keys.sign(&good);
    let (head, rest) = signed.split_once('.').expect("three parts");
    let (body, signature) = rest.split_once('.').expect("three parts");
    let kid = keys.json_web_keys()["keys"][0]["kid"].clone();
    let with_header = |header: Value, signature: &str| format!("{}.{body}.{signature}", part(&header));
    let public = keys.json_web_keys()["keys"][0].to_string();
    let hmac = |header: &Value| {
        let signed = format!("{}.{body}", part(header));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes())))
    };
    let masters: Claims = Claims { sub: "system:admin".to_owned(), ..good.clone() };
    let mut anonymous = server.anonymous().await;
    for (what, token, expected) in [
        ("as it was made", signed.clone(), Ok("system:serviceaccount:default:default")),
        ("another subject beside the same account", keys.sign(&masters), Ok("system:serviceaccount:default:default")),
        ("no algorithm", with_header(json!({"alg": "none", "kid": kid}), ""), Err(401)),
        ("no algorithm, in capitals", with_header(json!({"alg": "NONE", "kid": kid}), signature), Err(401)),
        ("HMAC with the public key", hmac(&json!({"alg": "HS256", "kid": kid})), Err(401)),
        ("HMAC that says ES256", hmac(&json!({"alg": "ES256", "kid": kid})), Err(401)),
        ("another key's name", with_header(json!({"alg": "ES256", "kid": "../../dev/null"}), signature), Err(401)),
        ("no key's name", with_header(json!({"alg": "ES256"}), signature), Err(401)),
        ("a key inside", with_header(json!({"alg": "ES256", "kid": kid, "jwk": stranger.json_web_keys()["keys"][0]}), signature), Err(401)),
        ("another key", stranger.sign(&good), Err(401)),
        ("no signature", format!("{head}.{body}."), Err(401)),
        ("a signature of zeros", format!("{head}.{body}.{}", URL_SAFE_NO_PAD.encode([0; 64])), Err(401)),
        ("other claims", format!("{head}.{}.{signature}", part(&json!({"sub": "system:admin"}))), Err(401)),
        ("another audience", changed(|claims| claims.aud = vec!["vault".to_owned()]), Err(401)),
        ("no audience", changed(|claims| claims.aud.clear()), Err(401)),
        ("another issuer", changed(|claims| claims.iss = "https://elsewhere".to_owned()), Err(401)),
        ("outlived", changed(|claims| claims.exp = claims.iat - 1), Err(401)),
        ("not yet", changed(|claims| claims.nbf = claims.iat + 500), Err(401)),
        ("an account made anew", changed(|claims| claims.kubernetes.serviceaccount.uid = "other".to_owned()), Err(401)),
        ("a pod that is gone", changed(|claims| claims.kubernetes.pod = Some(Reference::default())), Err(401)),
        ("a path for a name", changed(|claims| claims.kubernetes.serviceaccount.name = "../default/default".to_owned()), Err(401)),
        ("a long one", "x.".repeat(50_000), Err(401)),
        ("dots", "...".to_owned(), Err(401)),
    ] {
        let found = name_of(&mut anonymous, &[("authorization", &format!("Bearer {token}"))]).await;
        assert_eq!(found.as_deref(), expected.as_ref().copied(), "{what}");
    }
    let deleted = server.admin().await.send(Method::DELETE, "/api/v1/namespaces/default/serviceaccounts/default", &[], "").await;
    assert_eq!(deleted.code, 200);
    assert_eq!(name_of(&mut anonymous, &[("authorization", &format!("Bearer {signed}"))]).await, Err(401));
}

#[tokio::test]
async fn certificates_that_do_not_count_are_refused() {
    let server = TestServer::start().await;
    let past = (Timestamp::now() - SignedDuration::from_hours(12), SignedDuration::from_hours(1));
    let expired = server.certificate_of("kubernetes-admin", &["system:masters"], past);
    let foreign = TestServer::start().await.certificate("kubernetes-admin", &["system:masters"]);
    let nameless = server.certificate("", &["system:masters"]);
    for (what, certificate) in [("expired", expired), ("foreign", foreign), ("nameless", nameless)] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut client = Client::connect(&server, Some(&certificate), protocol).await;
            assert_eq!(client.get("/version").await.code, 401, "{what}");
        }
    }
}

#[tokio::test]
async fn no_user_grants_rights_that_the_user_does_not_have() {
    let (_server, mut alice) = server().await;
    let to = |kind: &str, role: &str| json!({"metadata": {"name": "x"}, "roleRef": {"kind": kind, "name": role}, "subjects": [{"kind": "User", "name": "alice"}]});
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let aggregated = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    for (path, object) in [
        ("clusterrolebindings".to_owned(), to("ClusterRole", "cluster-admin")),
        ("clusterroles".to_owned(), json!({"metadata": {"name": "x"}, "rules": rules})),
        ("clusterroles".to_owned(), json!({"metadata": {"name": "x"}, "aggregationRule": aggregated})),
        (
            "clusterroles".to_owned(),
            json!({"metadata": {"name": "x", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": rules}),
        ),
        ("namespaces/kube-system/rolebindings".to_owned(), to("ClusterRole", "view")),
    ] {
        let answer = alice.post(&format!("{RBAC}/{path}"), &object).await;
        assert!([403, 404].contains(&answer.code.as_u16()), "{path}: {}", answer.text());
    }
    let patch = json!({"subjects": [{"kind": "User", "name": "alice"}]}).to_string();
    let merge = [("content-type", "application/merge-patch+json")];
    let answer = alice.send(Method::PATCH, &format!("{RBAC}/clusterrolebindings/cluster-admin"), &merge, patch).await;
    assert_eq!(answer.code, 403);
}
