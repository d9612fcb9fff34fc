//! Credential options, named as upstream's, and the identity of a server: its own keys, or files that several servers share.

use berth_apiserver::{
    Credentials, Pki, PkiOptions, TlsError,
    credentials::{AccountKeys, CredentialFiles, Following, ISSUER},
    pki::{self, AUTHORITY_FILE, Authority, Pair, certificates},
};
use berth_registry::Registry;
use berth_store::env::{Clock, Env};
use clap::Args;
use futures::FutureExt;
use jiff::SignedDuration;
use std::{
    error::Error,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::watch;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The delay before another attempt to publish the authority to namespaces where that failed.
const PUBLISH_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// The options for credentials of a server.
#[derive(Args, Debug)]
pub(crate) struct CredentialOptions {
    /// The authorities of clients' certificates, as PEM, which several servers share. See berth pki. With this option, berth writes no
    /// kubeconfig [default: the server's own authority, in --data-dir]. berth reads changes of this file and the next ones while it runs.
    /// It ignores files that it cannot use.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert_file", "service_account_signing_key_file"])]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// The server's certificate, as PEM, with its intermediate authorities [default: created at the start].
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The server certificate's key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// The authority of the server's certificate, as PEM, for pods and for the kubeconfig that berth writes at the start [default:
    /// --client-ca-file].
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) root_ca_file: Option<PathBuf>,

    /// The private key that signs service accounts' tokens, as PEM: RSA, or elliptic on P-256 or P-384 [default: the server's own key, in
    /// --data-dir].
    #[arg(long, value_name = "FILE")]
    pub(crate) service_account_signing_key_file: Option<PathBuf>,

    /// More keys that verify service accounts' tokens, besides the signing key: public keys, private keys or certificates, as PEM.
    /// Repeatable, or separated by commas.
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    pub(crate) service_account_key_file: Vec<PathBuf>,

    /// The issuer of service accounts' tokens, and their default audience. Repeatable: berth accepts tokens of all issuers, and new tokens
    /// have the first one.
    #[arg(long, value_name = "ISSUER", default_value = ISSUER, value_parser = issuer)]
    pub(crate) service_account_issuer: Vec<String>,
}

/// Follows upstream's rule: a text with a colon must be a URL.
fn issuer(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("an issuer must not be empty"),
        _ if text.contains(':') && text.parse::<http::Uri>().is_err() => {
            Err("an issuer with a colon must be a URL, such as https://issuer.example")
        }
        _ => Ok(text.to_owned()),
    }
}

/// The credentials of a server at its start.
pub(crate) struct Identity {
    /// The followed authority that clients must trust.
    pub(crate) following: Following,
    /// The source file of the authority.
    pub(crate) root_ca_file: PathBuf,
    /// The authorities of the control plane, as PEM. The first owns the objects. The others may have owned them before.
    pub(crate) authorities: Vec<String>,
    /// The administrator's certificate. `None`: other programs create them.
    pub(crate) admin: Option<Pair>,
    /// The authority of clients' certificates with its key. `None`: this program does not have the key.
    pub(crate) signing: Option<Authority>,
}

impl CredentialOptions {
    /// Checks the options before anything starts.
    ///
    /// # Errors
    /// The clients would have no authority to trust.
    pub(crate) fn check(&self) -> Outcome<()> {
        if self.tls_cert_file.is_some() && self.client_ca_file.is_none() && self.root_ca_file.is_none() {
            return Err("--tls-cert-file requires --root-ca-file: the authority that clients trust".into());
        }
        Ok(())
    }

    fn files(&self) -> CredentialFiles {
        CredentialFiles {
            client_ca: self.client_ca_file.clone(),
            root_ca: self.root_ca_file.as_ref().or(self.client_ca_file.as_ref()).cloned(),
            serving: self.tls_cert_file.clone().zip(self.tls_private_key_file.clone()),
            signing_key: self.service_account_signing_key_file.clone(),
            checking_keys: self.service_account_key_file.clone(),
        }
    }

    /// Reads the files. Without a file option, uses the server's own credentials in the data folder. If an option names clients'
    /// authorities, uses only files.
    ///
    /// # Errors
    /// A file has the wrong content.
    pub(crate) fn identity(&self, data_dir: &Path, bind: IpAddr, extra_names: &[String], env: &Env) -> Outcome<Identity> {
        if let Some(path) = &self.client_ca_file {
            let nothing = Pair { certificate: String::new(), key: String::new() };
            let own = Credentials {
                serving: nothing,
                client_authorities: String::new(),
                root_ca: String::new(),
                admin_token: None,
                account_keys: AccountKeys { issuers: self.service_account_issuer.clone(), ..AccountKeys::of("") },
                own_ends: Vec::new(),
            };
            let following = Following::read(self.files(), own)?;
            let authorities = certificates(&following.credentials().client_authorities);
            let root_ca_file = self.root_ca_file.as_ref().unwrap_or(path).clone();
            return Ok(Identity { following, root_ca_file, authorities, admin: None, signing: None });
        }
        let folder = data_dir.join("pki");
        let options = PkiOptions { folder: &folder, bind, extra_names, now: env.clock.now() };
        let pki = Pki::load_or_create(&options, env.rng.as_ref())?;
        let mut own = Credentials::from(&pki);
        own.account_keys.issuers.clone_from(&self.service_account_issuer);
        let root_ca_file = self.root_ca_file.clone().unwrap_or_else(|| folder.join(AUTHORITY_FILE));
        let following = Following::read(self.files(), own)?;
        let signing = pki::authority(&folder, env.clock.now());
        Ok(Identity { following, root_ca_file, authorities: vec![pki.ca_certificate], admin: Some(pki.admin), signing })
    }
}

/// Applies changes of a server's files to it, and publishes them to all namespaces.
pub(crate) fn replacing(
    server: impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static,
    following: &Following,
    registry: &Registry,
    env: &Env,
) -> impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static {
    let (root_ca, changes) = watch::channel(following.credentials().root_ca.clone());
    env.spawner.spawn("root-ca", publish(registry.clone(), changes, Arc::clone(&env.clock)).boxed());
    move |credentials| {
        server(credentials)?;
        root_ca.send_if_modified(|published| {
            let is_new = *published != credentials.root_ca;
            published.clone_from(&credentials.root_ca);
            is_new
        });
        Ok(())
    }
}

async fn publish(registry: Registry, mut root_ca: watch::Receiver<String>, clock: Arc<dyn Clock>) {
    while root_ca.changed().await.is_ok() {
        loop {
            let newest = root_ca.borrow_and_update().clone();
            let Err(error) = registry.replace_root_ca(&newest).await else { break };
            tracing::warn!(%error, "could not publish the server's new authority in all namespaces; retrying");
            clock.sleep_until(clock.now() + PUBLISH_AGAIN).await;
        }
    }
}

/// The certificates in a PEM file, each separately, without other contents of the file.
pub(crate) fn authorities_in(path: &Path, option: &str) -> Outcome<Vec<String>> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error} ({option})", path.display()))?;
    let found = certificates(&text);
    if found.is_empty() { Err(format!("{} contains no certificate in PEM format ({option})", path.display()).into()) } else { Ok(found) }
}
