//! The administrator's file: the providers, their addresses and credentials, and the namespaces that may use them.

use crate::{
    address::{self, Allowed},
    files::{self, Contents, Credentials, FileError, Named},
};
use berth_api::{Path as FieldPath, apps::analysis::validate_provider, names::check_dns_label};
use berth_env::followed::Digest;
use http::{HeaderValue, Uri, uri::InvalidUri};
use rustls::RootCertStore;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read as _},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The maximum length of the file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of providers.
const PROVIDERS_MAX: usize = 256;
/// The maximum number of namespaces that a provider lists.
const NAMESPACES_MAX: usize = 4096;
/// The maximum length of a user name in bytes.
const USER_BYTES_MAX: usize = 1024;
/// The maximum number of reported faults.
const FAULTS_MAX: usize = 20;
/// The maximum length of a reported fault, in characters.
const FAULT_CHARS_MAX: usize = 300;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("could not read the analysis providers in {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is too long.
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", path.display())]
    TooLong {
        /// Which file.
        path: PathBuf,
    },
    /// It is not a valid file of providers.
    #[error("{} contains no valid analysis providers: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// The fault and its position.
        message: String,
    },
    /// Its contents are invalid.
    #[error("{}: {}", path.display(), listed(faults))]
    Faults {
        /// Which file.
        path: PathBuf,
        /// Each fault with its position.
        faults: Vec<String>,
    },
}

fn listed(faults: &[String]) -> String {
    let more = faults.len().saturating_sub(FAULTS_MAX);
    let told = faults[..faults.len() - more].join("; ");
    if more == 0 { told } else { format!("{told}; and {more} more") }
}

/// One line of limited length, because paths and a parser's messages can contain any text.
fn one_line(text: &str) -> String {
    text.chars().take(FAULT_CHARS_MAX).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    providers: Vec<Entry>,
}

/// One provider in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    name: String,
    kind: Kind,
    url: String,
    namespaces: Vec<String>,
    ca_file: Option<PathBuf>,
    bearer_token_file: Option<PathBuf>,
    basic_auth: Option<BasicAuth>,
    #[serde(default)]
    allow_loopback: bool,
    #[serde(default)]
    allow_link_local: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct BasicAuth {
    username: String,
    password_file: PathBuf,
}

/// The protocol of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// `POST /api/v1/query`.
    Prometheus,
    /// A POST of JSON.
    Webhook,
}

/// A provider.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) kind: Kind,
    pub(crate) is_https: bool,
    /// The host without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of the header `Host`.
    pub(crate) authority: String,
    pub(crate) path: String,
    /// The value of the header `Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
    /// The trusted certificate authorities. `None` for those that this machine trusts.
    pub(crate) roots: Option<Arc<RootCertStore>>,
    pub(crate) allowed: Allowed,
    namespaces: BTreeSet<String>,
}

impl Provider {
    /// Whether this namespace may use the provider.
    pub(crate) fn serves(&self, namespace: &str) -> bool {
        self.namespaces.contains("*") || self.namespaces.contains(namespace)
    }

    /// Whether a connection to this address may be opened. Without TLS, credentials are only sent to this machine, whatever the name
    /// resolves to.
    pub(crate) fn allows(&self, ip: IpAddr) -> bool {
        let is_secret_hidden = self.is_https || self.authorization.is_none() || address::is_loopback(ip);
        is_secret_hidden && self.allowed.allows(ip)
    }
}

/// The providers by name.
pub(crate) type Known = BTreeMap<String, Provider>;

/// The content of the administrator's file and of the files in it, from one read.
pub(crate) struct Found {
    path: PathBuf,
    file: Result<File, OpenError>,
    named: Named,
    digest: Digest,
}

impl Found {
    /// Reads everything. Paths in a file are relative to its folder.
    pub(crate) fn read(path: &Path) -> Self {
        Self::new(path, read(path), files::read)
    }

    /// As [`Found::read`], from a text. `read` returns the files in it.
    pub(crate) fn new(path: &Path, text: io::Result<String>, read: impl Fn(&Path) -> Result<Contents, FileError>) -> Self {
        let mut digest = Sha256::new();
        digest.update(match &text {
            Ok(text) => Sha256::digest(text),
            Err(error) => Sha256::digest(error.to_string()),
        });
        let file = text.map_err(|source| OpenError::Read { path: path.to_owned(), source }).and_then(|text| parse(path, &text));
        let entries = file.iter().flat_map(|file| file.providers.iter().take(PROVIDERS_MAX));
        let named = Named::read(entries.flat_map(Entry::files).map(|file| folder(path).join(file)), read);
        named.digest(&mut digest);
        Self { path: path.to_owned(), file, named, digest: digest.finalize().into() }
    }

    /// The digest of everything. Equal content has the same digest.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The providers in the file.
    pub(crate) fn providers(self) -> Result<Known, OpenError> {
        let Self { path, file, named, .. } = self;
        providers(file?, folder(&path), &named).map_err(|faults| OpenError::Faults { path, faults })
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// One byte more than permitted shows that the file is too long.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<File, OpenError> {
    if FILE_BYTES_MAX < text.len() as u64 {
        return Err(OpenError::TooLong { path: path.to_owned() });
    }
    serde_saphyr::from_str(text).map_err(|error| OpenError::Syntax { path: path.to_owned(), message: syntax(&error) })
}

/// The fault and its position in one line, without the lines around it: a secret in place of a file name must not appear in a log.
fn syntax(error: &serde_saphyr::Error) -> String {
    let plain = serde_saphyr::DefaultMessageFormatter;
    one_line(&error.render_with_options(serde_saphyr::render_options! { formatter: &plain, snippets: serde_saphyr::SnippetMode::Off }))
}

impl Entry {
    /// The files in the provider's configuration.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let password = self.basic_auth.as_ref().map(|basic| &basic.password_file);
        [self.ca_file.as_ref(), self.bearer_token_file.as_ref(), password].into_iter().flatten().map(PathBuf::as_path)
    }
}

fn providers(file: File, folder: &Path, named: &Named) -> Result<Known, Vec<String>> {
    let mut faults = Vec::new();
    if PROVIDERS_MAX < file.providers.len() {
        return Err(vec![format!("providers: there are {}, more than {PROVIDERS_MAX}", file.providers.len())]);
    }
    let mut known = BTreeMap::new();
    for (index, entry) in file.providers.into_iter().enumerate() {
        let mut fault = |field: &str, what: String| faults.push(format!("providers[{index}].{field}: {}", one_line(&what)));
        if let Some(error) = validate_provider(&entry.name, &FieldPath::new("name")) {
            fault("name", error.detail);
        }
        if known.contains_key(&entry.name) {
            fault("name", format!("{:?} is a duplicate", entry.name));
        }
        let name = entry.name.clone();
        if let Some(provider) = provider(entry, folder, named, &mut fault) {
            known.insert(name, provider);
        }
    }
    if faults.is_empty() { Ok(known) } else { Err(faults) }
}

fn provider(entry: Entry, folder: &Path, named: &Named, fault: &mut impl FnMut(&str, String)) -> Option<Provider> {
    let place = provider_url(&entry.url).map_err(|error| fault("url", error.to_string())).ok();
    check_namespaces(&entry.namespaces, fault);
    let there = |path: PathBuf| folder.join(path);
    let credentials = match (entry.bearer_token_file, entry.basic_auth) {
        (Some(_), Some(_)) => {
            fault("basicAuth", "bearerTokenFile is set too: set only one of them".to_owned());
            return None;
        }
        (Some(file), None) => Credentials::Bearer(there(file)),
        (None, Some(BasicAuth { username, password_file })) => {
            if username.is_empty() || USER_BYTES_MAX < username.len() || username.contains(':') || username.chars().any(char::is_control) {
                let what = format!("must have 1 to {USER_BYTES_MAX} bytes, no colon and no control characters");
                fault("basicAuth.username", what);
            }
            Credentials::Basic { username, password_file: there(password_file) }
        }
        (None, None) => Credentials::None,
    };
    let authorization = named.header(&credentials).map_err(|error| fault(credentials.field(), error.to_string())).ok();
    let roots = entry.ca_file.map(|file| named.roots(&there(file))).transpose().map_err(|error| fault("caFile", error.to_string())).ok();
    let ProviderUrl { is_https, host, port, authority, path } = place?;
    if roots.as_ref().is_none_or(Option::is_some) && !is_https {
        fault("caFile", "has no effect: the url is not https".to_owned());
    }
    if !matches!(credentials, Credentials::None) && !is_https && !is_this_machine(&host) {
        fault(credentials.field(), "is sent only over https, or to this machine: the url is neither".to_owned());
    }
    Some(Provider {
        kind: entry.kind,
        is_https,
        host,
        port,
        authority,
        path: if entry.kind == Kind::Prometheus { format!("{}/api/v1/query", path.trim_end_matches('/')) } else { path },
        authorization: authorization?,
        roots: roots?.map(Arc::new),
        allowed: Allowed { loopback: entry.allow_loopback, link_local: entry.allow_link_local },
        namespaces: entry.namespaces.into_iter().collect(),
    })
}

fn check_namespaces(namespaces: &[String], fault: &mut impl FnMut(&str, String)) {
    if namespaces.is_empty() {
        fault("namespaces", "no namespace may use it; \"*\" allows all".to_owned());
    }
    if NAMESPACES_MAX < namespaces.len() {
        return fault("namespaces", format!("there are {}, more than {NAMESPACES_MAX}", namespaces.len()));
    }
    for (index, namespace) in namespaces.iter().enumerate().filter(|(_, namespace)| *namespace != "*") {
        if let Some(why) = check_dns_label(namespace).into_iter().next() {
            fault(&format!("namespaces[{index}]"), why);
        }
    }
}

/// Why a provider's URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum UrlError {
    #[error("is not a URL: {0}")]
    Invalid(String),
    #[error("must begin with https:// or http://")]
    Scheme,
    #[error("has no host")]
    NoHost,
    #[error("must not contain a user: use files for credentials")]
    User,
    #[error("must have neither ? nor #")]
    Query,
    #[error("has an invalid port")]
    Port,
}

struct ProviderUrl {
    is_https: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

fn provider_url(url: &str) -> Result<ProviderUrl, UrlError> {
    let uri: Uri = url.parse().map_err(|error: InvalidUri| UrlError::Invalid(error.to_string()))?;
    let is_https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(UrlError::Scheme),
    };
    let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or(UrlError::NoHost)?;
    if authority.as_str().contains('@') {
        return Err(UrlError::User);
    }
    if uri.query().is_some() || url.contains('#') {
        return Err(UrlError::Query);
    }
    // The authority contains no user, so the port follows the host.
    let port = match authority.as_str()[authority.host().len()..].strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)?,
        None if is_https => 443,
        None => 80,
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(ProviderUrl { is_https, host, port, authority: authority.to_string(), path: uri.path().to_owned() })
}

/// Whether the text itself is this machine. A name can resolve to another address later.
fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(address::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> Result<Known, String> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("token"), "secret\n").expect("a file");
        fs::write(folder.path().join("empty"), "\n").expect("a file");
        let path = folder.path().join("providers.yaml");
        fs::write(&path, text).expect("a file");
        let told = |error: OpenError| error.to_string().replace(&format!("{}/", folder.path().display()), "");
        Found::read(&path).providers().map_err(told)
    }

    #[test]
    fn a_file_names_providers_addresses_and_namespaces() {
        let text = "
providers:
- name: prod
  kind: prometheus
  url: https://prometheus.monitoring:9090/base/
  namespaces: [shop, pay]
  bearerTokenFile: token
- name: gate
  kind: webhook
  url: http://[::1]:8080/gate
  namespaces: ['*']
  allowLoopback: true
  basicAuth: {username: berth, passwordFile: token}
";
        let known = opened(text).expect("a good file");
        let (prod, gate) = (&known["prod"], &known["gate"]);
        assert_eq!((prod.host.as_str(), prod.port, prod.path.as_str()), ("prometheus.monitoring", 9090, "/base/api/v1/query"));
        assert_eq!((gate.host.as_str(), gate.port, gate.path.as_str(), gate.is_https), ("::1", 8080, "/gate", false));
        assert_eq!(["shop", "pay", "*", "other"].map(|namespace| prod.serves(namespace)), [true, true, false, false]);
        assert!(gate.serves("any") && gate.allowed.loopback && !gate.allowed.link_local && prod.allowed == Allowed::default());
    }

    #[test]
    fn faults_are_reported_with_their_positions_all_at_once() {
        let one = |fields: &str| format!("providers:\n- {{name: a, kind: webhook, url: 'https://a', namespaces: [b], {fields}}}\n");
        let check = |text: &str, part: &str| {
            let error = opened(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        };
        check("providers: {", "contains no valid analysis providers");
        check("", "contains no valid analysis providers");
        check(&one("token: x"), "unknown field `token`");
        check("providers: [{name: a, kind: graphite, url: 'https://a', namespaces: [b]}]", "graphite");
        check("providers: [{name: a, kind: webhook, url: 'https://a'}]", "namespaces");
        for (url, why) in [
            ("a", "https://"),
            ("ftp://a", "https://"),
            ("https://u:p@a", "must not contain a user"),
            ("https://a?b=c", "neither ?"),
            ("https://a#b", "neither ?"),
            ("https://a:99999", "port"),
            ("https://a:0", "port"),
            ("https://", "URL"),
            ("", "URL"),
        ] {
            check(&format!("providers: [{{name: a, kind: webhook, url: '{url}', namespaces: [b]}}]"), why);
        }
        check(
            "providers: [{name: a, kind: webhook, url: 'https://a', namespaces: []}]",
            "providers[0].namespaces: no namespace may use it",
        );
        check("providers: [{name: a, kind: webhook, url: 'https://a', namespaces: [a, B]}]", "providers[0].namespaces[1]: ");
        check(&one("bearerTokenFile: token, basicAuth: {username: u, passwordFile: token}"), "providers[0].basicAuth: ");
        check(&one("basicAuth: {username: 'u:p', passwordFile: token}"), "providers[0].basicAuth.username: ");
        check(&one("basicAuth: {username: u, passwordFile: gone}"), "providers[0].basicAuth.passwordFile: could not read gone");
        check(&one("bearerTokenFile: gone"), "providers[0].bearerTokenFile: could not read gone");
        check(&one("bearerTokenFile: empty"), "providers[0].bearerTokenFile: empty has no token");
        check(&one("caFile: token"), "providers[0].caFile: token has no certificate");
        let http = "{name: a, kind: webhook, url: 'http://a', namespaces: [b], bearerTokenFile: token}";
        check(&format!("providers: [{http}]"), "providers[0].bearerTokenFile: is sent only over https");
        let two =
            "providers: [{name: A, kind: webhook, url: 'https://a', namespaces: []}, {name: b, kind: webhook, url: a, namespaces: [c]}]";
        check(two, "providers[0].name: ");
        check(two, "providers[1].url: ");
        let twice = "{name: a, kind: webhook, url: 'https://a', namespaces: [b]}";
        check(&format!("providers: [{twice}, {twice}]"), "providers[1].name: \"a\" is a duplicate");
        check(&format!("providers: [{}]", vec![twice; 257].join(",")), "there are 257, more than 256");
        check(&format!("# {}\nproviders: []", "x".repeat(1 << 20)), "is longer than");
        assert!(opened("providers: []").expect("no provider is a choice too").is_empty());
        let many = (0..30).map(|_| "{name: A, kind: webhook, url: 'https://a', namespaces: [b]}").collect::<Vec<_>>();
        check(&format!("providers: [{}]", many.join(",")), "; and 39 more");
    }

    #[test]
    fn a_fault_of_a_file_is_one_line_without_other_lines_of_the_file() {
        let wrong = "providers:\n- name: prod\n  token: s3cret\n  url: https://a\n";
        let told = opened(wrong).expect_err("it is wrong");
        assert!(told.contains("unknown field `token`") && told.contains("line 3") && !told.contains("s3cret"), "{told}");
        let path = "\\e[1m\\nforged ".to_owned() + &"x".repeat(2000);
        let one = format!("providers: [{{name: a, kind: webhook, url: 'https://a', namespaces: [b], bearerTokenFile: \"{path}\"}}]");
        let told = opened(&one).expect_err("it is not there");
        assert!(told.contains("forged") && told.len() < 400 && !told.chars().any(char::is_control), "{told:?}");
    }

    #[test]
    fn a_secret_that_no_tls_hides_stays_on_this_machine() {
        let of = |fields: &str| {
            let text = format!("providers: [{{name: a, kind: webhook, namespaces: [b], allowLoopback: true, {fields}}}]");
            opened(&text).expect("a good file").remove("a").expect("it is there")
        };
        let ips = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "64:ff9b::7f00:1"].map(|ip| ip.parse::<IpAddr>().expect(ip));
        for (fields, wanted) in [
            ("url: 'http://localhost', bearerTokenFile: token", [true, true, true, false, false]),
            ("url: 'http://localhost'", [true; 5]),
            ("url: 'https://localhost', bearerTokenFile: token", [true; 5]),
        ] {
            assert_eq!(ips.map(|ip| of(fields).allows(ip)), wanted, "{fields}");
        }
    }
}
