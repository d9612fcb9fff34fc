//! Who measures: an ordinary user with the rights that the scenarios need, and no others. Administrators are exempt from queues and limits,
//! and their rights are not looked up.

use crate::client::{Connection, Endpoint};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{error::Error, fs, path::Path, sync::Arc};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, ConfigBuilder, RootCertStore,
        client::WantsClientCert,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// The group of berth's user, and the name of the service account that asks a Kubernetes.
pub(crate) const NAME: &str = "bench";

/// The server of a kubeconfig, and its client certificate. Certificates are in it or in files that it names.
pub(crate) fn endpoint(kubeconfig: &str) -> Endpoint {
    try_endpoint(kubeconfig).unwrap()
}

/// The same where the kubeconfig may hold anything.
pub(crate) fn try_endpoint(kubeconfig: &str) -> Result<Endpoint, Box<dyn Error>> {
    let config: Value = serde_saphyr::from_str(kubeconfig)?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let pem = |of: &Value, field: &str| -> Result<Vec<u8>, Box<dyn Error>> {
        match of[format!("{field}-data")].as_str() {
            Some(data) => Ok(STANDARD.decode(data)?),
            None => Ok(fs::read(of[field].as_str().unwrap_or_default())?),
        }
    };
    let address = cluster["server"].as_str().and_then(|server| server.strip_prefix("https://")).ok_or("it names no server")?.to_owned();
    let (authority, certificate, key) =
        (pem(cluster, "certificate-authority")?, pem(user, "client-certificate")?, pem(user, "client-key")?);
    with_certificate(address, &authority, &certificate, &key)
}

/// A server, asked with a client certificate; all PEM.
pub(crate) fn with_certificate(address: String, authority: &[u8], certificate: &[u8], key: &[u8]) -> Result<Endpoint, Box<dyn Error>> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let config = tls_of(authority)?.with_client_auth_cert(chain, key)?;
    Ok(Endpoint { address, tls: TlsConnector::from(Arc::new(config)), token: None })
}

/// The same server, asked without any credential.
pub(crate) fn anonymous(kubeconfig: &str) -> Endpoint {
    let config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let authority = STANDARD.decode(config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap()).unwrap();
    let tls = TlsConnector::from(Arc::new(tls_of(&authority).unwrap().with_no_client_auth()));
    Endpoint { tls, ..endpoint(kubeconfig) }
}

/// The same server, asked with a token and no certificate.
fn with_token(kubeconfig: &str, token: String) -> Endpoint {
    let config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let authority = fs::read(config["clusters"][0]["cluster"]["certificate-authority"].as_str().unwrap()).unwrap();
    let tls = TlsConnector::from(Arc::new(tls_of(&authority).unwrap().with_no_client_auth()));
    Endpoint { tls, token: Some(token), ..endpoint(kubeconfig) }
}

fn tls_of(authority: &[u8]) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Box<dyn Error>> {
    let _ = ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority)?)?;
    Ok(ClientConfig::builder().with_root_certificates(roots))
}

/// Gives `subject` the role of the scenarios.
pub(crate) async fn grant(administrator: &Endpoint, subject: Value) {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME},
        "rules": [
            rule("", &["configmaps"], &["create", "get", "list"]),
            rule("", &["nodes"], &["create", "list"]),
            rule("", &["namespaces", "pods"], &["list"]),
            rule("apps", &["daemonsets", "deployments", "statefulsets"], &["create", "get", "list", "patch"]),
            rule("apps", &["replicasets"], &["list"]),
            rule("batch", &["jobs"], &["create", "get", "list"]),
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [subject],
    });
    let mut connection = Connection::open(administrator).await;
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        connection.create(&format!("/apis/rbac.authorization.k8s.io/v1/{resource}"), &object).await;
    }
}

/// A service account of a Kubernetes, whose authority signs no certificates for users here, with the role of the scenarios.
pub(crate) async fn service_account(kubeconfig: &Path) -> Endpoint {
    let kubeconfig = fs::read_to_string(kubeconfig).unwrap();
    let administrator = endpoint(&kubeconfig);
    grant(&administrator, json!({"kind": "ServiceAccount", "name": NAME, "namespace": "default"})).await;
    let mut connection = Connection::open(&administrator).await;
    connection.until_found("/api/v1/namespaces/default").await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    connection.create(accounts, &json!({"metadata": {"name": NAME}})).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86_400}});
    let answer = connection.create(&format!("{accounts}/{NAME}/token"), &request).await;
    let user = with_token(&kubeconfig, answer["status"]["token"].as_str().unwrap().to_owned());
    // Its authorizer learns of the role some moments later.
    Connection::open(&user).await.until_found("/api/v1/namespaces?limit=1").await;
    user
}
