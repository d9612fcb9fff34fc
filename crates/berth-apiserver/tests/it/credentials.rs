//! Credentials in files that change at run time.

use crate::common::{Client, Protocol, TestServer, connect};
use berth_apiserver::{
    Credentials,
    credentials::{AccountKeys, CredentialFiles, Following},
    pki::Pair,
    shared_pki::{self, Changes, Wanted},
};
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const SERVER: &str = "https://127.0.0.1:6443";

fn make(folder: &Path) {
    shared_pki::init(folder, &Wanted { names: &[], server: SERVER, holds: (Timestamp::now(), SignedDuration::from_hours(1000)) })
        .expect("made");
}

fn files(folder: &Path) -> CredentialFiles {
    CredentialFiles {
        client_ca: Some(folder.join("ca.crt")),
        serving: Some((folder.join("apiserver.crt"), folder.join("apiserver.key"))),
        signing_key: Some(folder.join("sa.key")),
        root_ca: None,
        checking_keys: Vec::new(),
    }
}

fn nothing() -> Credentials {
    let serving = Pair { certificate: String::new(), key: String::new() };
    Credentials {
        serving,
        client_authorities: String::new(),
        root_ca: String::new(),
        admin_token: None,
        account_keys: AccountKeys::of(""),
        own_ends: Vec::new(),
    }
}

/// Starts a server that reloads its credentials from these files.
async fn follow(files: CredentialFiles) -> TestServer {
    let following = Following::read(files, nothing()).expect("they are whole");
    let mut server = TestServer::start_following(following).await;
    // Those of the administrator and the CA, for the client of the tests.
    server.pki.admin_token.clear();
    server
}

/// Returns the CA and the client certificate of a kubeconfig.
fn client_of(folder: &Path, file: &str) -> (String, Pair) {
    let config: Value = serde_saphyr::from_str(&fs::read_to_string(folder.join(file)).expect("there")).expect("YAML");
    let decode = |text: &Value| {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_str().expect("text")).expect("base64");
        String::from_utf8(bytes).expect("PEM")
    };
    let user = &config["users"][0]["user"];
    let pair = Pair { certificate: decode(&user["client-certificate-data"]), key: decode(&user["client-key-data"]) };
    (decode(&config["clusters"][0]["cluster"]["certificate-authority-data"]), pair)
}

/// Returns the certificate that a new connection gets.
async fn shown(server: &TestServer) -> Vec<u8> {
    let stream = connect(server, None, Protocol::Http1).await;
    stream.get_ref().1.peer_certificates().expect("a server has one")[0].to_vec()
}

/// Returns the sample of a metric as text, empty if there is none.
async fn metric(client: &mut Client, sample: &str) -> String {
    let text = client.get("/metrics").await.text();
    text.lines().find_map(|line| line.strip_prefix(sample)).unwrap_or_default().trim().to_owned()
}

async fn until(client: &mut Client, sample: &str, value: &str) {
    let started = Instant::now();
    while metric(client, sample).await != value {
        assert!(started.elapsed() < PATIENCE, "{sample} is still {}", metric(client, sample).await);
    }
}

const OUTDATED: &str = "berth_credentials_outdated{credential=\"serving\"}";
const RELOADS: &str = "berth_credentials_reloads_total{credential=\"serving\"}";

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_shown_and_a_broken_one_is_not() {
    let folder = TempDir::new().expect("a folder");
    make(folder.path());
    let mut server = follow(files(folder.path())).await;
    let (authority, admin) = client_of(folder.path(), "admin.kubeconfig");
    server.pki.ca_certificate = authority;
    let mut client = Client::connect(&server, Some(&admin), Protocol::Http1).await;
    let first = shown(&server).await;
    until(&mut client, OUTDATED, "0").await;
    let ends = metric(&mut client, "berth_credentials_expire_timestamp_seconds{credential=\"serving\"}").await;
    assert!(ends.parse::<i64>().expect("seconds") > Timestamp::now().as_second() + 3_500_000, "{ends}");

    shared_pki::renew(folder.path(), &Changes::default(), (Timestamp::now(), SignedDuration::from_hours(900))).expect("renewed");
    until(&mut client, RELOADS, "1").await;
    let second = shown(&server).await;
    assert_ne!(first, second);
    assert_eq!(client.get("/api").await.code, 200, "an open connection goes on");

    // First half of the certificate, then a whole one that does not match the key.
    let path = folder.path().join("apiserver.crt");
    let whole = fs::read_to_string(&path).expect("there");
    for broken in [&whole[..whole.len() / 2], &fs::read_to_string(folder.path().join("ca.crt")).expect("there")] {
        fs::write(&path, broken).expect("ours");
        until(&mut client, OUTDATED, "1").await;
        assert_eq!(shown(&server).await, second);
        fs::write(&path, &whole).expect("ours");
        until(&mut client, OUTDATED, "0").await;
    }
    fs::remove_file(&path).expect("there");
    until(&mut client, OUTDATED, "1").await;
    assert_eq!((shown(&server).await, metric(&mut client, RELOADS).await), (second, "1".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_removed_authority_are_no_longer_authenticated() {
    let (folder, another) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    make(folder.path());
    make(another.path());
    let mut server = follow(files(folder.path())).await;
    let ((authority, old), (_, new)) = (client_of(folder.path(), "admin.kubeconfig"), client_of(another.path(), "admin.kubeconfig"));
    server.pki.ca_certificate = authority;
    let mut of_old = Client::connect(&server, Some(&old), Protocol::Http2).await;
    let mut of_new = Client::connect(&server, Some(&new), Protocol::Http2).await;
    let codes =
        async |of_old: &mut Client, of_new: &mut Client| [of_old.get("/api").await.code.as_u16(), of_new.get("/api").await.code.as_u16()];
    assert_eq!(codes(&mut of_old, &mut of_new).await, [200, 401]);

    let [before, after] = [&folder, &another].map(|folder| fs::read_to_string(folder.path().join("ca.crt")).expect("there"));
    let path = folder.path().join("ca.crt");
    for (text, wanted) in [(format!("{before}{after}"), [200, 200]), (after, [401, 200])] {
        fs::write(&path, text).expect("ours");
        let started = Instant::now();
        // Through the open connections.
        while codes(&mut of_old, &mut of_new).await != wanted {
            assert!(started.elapsed() < PATIENCE, "they should be {wanted:?}");
        }
    }
}

/// Returns a token that a server issues for the account `default`.
async fn token(client: &mut Client) -> String {
    let answer = client.post("/api/v1/namespaces/default/serviceaccounts/default/token", &json!({"spec": {}})).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    answer.json()["status"]["token"].as_str().expect("a token").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_the_key_before_hold_while_it_is_named() {
    let folder = TempDir::new().expect("a folder");
    make(folder.path());
    let before = folder.path().join("before.pub");
    fs::write(&before, KeyPair::generate().expect("a key").public_key_pem()).expect("ours");
    let mut server = follow(CredentialFiles { checking_keys: vec![before.clone()], ..files(folder.path()) }).await;
    let (authority, admin) = client_of(folder.path(), "admin.kubeconfig");
    server.pki.ca_certificate = authority;
    let mut client = Client::connect(&server, Some(&admin), Protocol::Http1).await;
    let old = token(&mut client).await;
    let mut anonymous = Client::connect(&server, None, Protocol::Http1).await;
    let mut code = async |token: &str| {
        let bearer = format!("Bearer {token}");
        anonymous.send(Method::GET, "/api", &[("authorization", &bearer)], "").await.code.as_u16()
    };
    assert_eq!(code(&old).await, 200);

    // The new key, an RSA key as kubeadm creates them, and the public half of the old one.
    fs::write(&before, fs::read_to_string(folder.path().join("sa.pub")).expect("there")).expect("ours");
    fs::write(folder.path().join("sa.key"), include_str!("../../testdata/rsa.key")).expect("ours");
    let started = Instant::now();
    let kind = |token: &str| {
        use base64::Engine as _;
        let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token.split('.').next().expect("a header")).expect("base64");
        serde_json::from_slice::<Value>(&header).expect("JSON")["alg"].clone()
    };
    let mut new = token(&mut client).await;
    while kind(&new) != "RS256" {
        assert!(started.elapsed() < PATIENCE, "the key is not taken up");
        new = token(&mut client).await;
    }
    assert_eq!([code(&old).await, code(&new).await], [200, 200]);
    let keys = client.get("/openid/v1/jwks").await.json();
    let kinds: Vec<_> = keys["keys"].as_array().expect("keys").iter().map(|key| key["kty"].clone()).collect();
    assert_eq!(kinds, ["RSA", "EC"]);

    fs::write(&before, KeyPair::generate().expect("a key").public_key_pem()).expect("ours");
    let started = Instant::now();
    while code(&old).await != 401 {
        assert!(started.elapsed() < PATIENCE, "the old key is still taken");
    }
    assert_eq!(code(&new).await, 200);
}

#[test]
fn what_is_no_credential_is_named_with_its_file_and_its_option() {
    let folder = TempDir::new().expect("a folder");
    make(folder.path());
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str, text: &str| {
        fs::write(path(name), text).expect("ours");
        path(name)
    };
    let check = |files: CredentialFiles, says: &[&str]| {
        let Err(error) = Following::read(files, nothing()) else { panic!("it should say {says:?}") };
        let text = error.to_string();
        assert!(says.iter().all(|part| text.contains(part)), "{text} should say {says:?}");
    };
    let good = || files(folder.path());
    let (rubbish, nowhere) = (file("rubbish", "no PEM"), path("nowhere"));
    let serving = |certificate: &PathBuf, key: &PathBuf| CredentialFiles { serving: Some((certificate.clone(), key.clone())), ..good() };
    let (certificate, key) = (path("apiserver.crt"), path("apiserver.key"));
    check(CredentialFiles { client_ca: Some(nowhere.clone()), ..good() }, &["cannot read ", "/nowhere (--client-ca-file)"]);
    check(
        CredentialFiles { client_ca: Some(rubbish.clone()), ..good() },
        &["/rubbish: it has no certificate of an authority", "(--client-ca-file)"],
    );
    check(serving(&rubbish, &key), &["/rubbish: it contains no certificate in PEM format", "(--tls-cert-file)"]);
    check(serving(&certificate, &rubbish), &["/rubbish: it has no private key in PEM", "(--tls-private-key-file)"]);
    check(
        serving(&path("ca.crt"), &key),
        &["the key in ", "apiserver.key is not that of the first certificate in ", "ca.crt (--tls-private-key-file, --tls-cert-file)"],
    );
    check(
        CredentialFiles { signing_key: Some(path("sa.pub")), ..good() },
        &["sa.pub: it has no private key in PEM that tokens can be signed with", "(--service-account-signing-key-file)"],
    );
    check(
        CredentialFiles { checking_keys: vec![path("sa.pub"), rubbish], ..good() },
        &["/rubbish: it has no key in PEM", "(--service-account-key-file)"],
    );
    let many: String = (0..17).map(|_| KeyPair::generate().expect("a key").public_key_pem()).collect();
    let many = file("many", &many);
    check(
        CredentialFiles { checking_keys: vec![many], ..good() },
        &["17 keys for service accounts' tokens are more than 16 (--service-account-key-file)"],
    );
    let large = file("large", &"a".repeat((1 << 20) + 1));
    check(CredentialFiles { client_ca: Some(large), ..good() }, &["is larger than 1048576 bytes (--client-ca-file)"]);
    assert!(Following::read(good(), nothing()).is_ok());
}
