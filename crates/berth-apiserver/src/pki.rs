//! The cluster's own certificates: a CA, the certificates of the server and the administrator, a token, and a key for
//! service account tokens.
//!
//! A folder stores all of them except the server's certificate. If the administrator's certificate expires within
//! [`RENEW_BEFORE`], the server replaces it at its start. It never replaces the CA: the clock may be wrong, and
//! everything that the CA signed would become worthless. Each start creates a server certificate with the addresses of
//! that start, signed by the stored CA, so that clients continue to trust the server.

mod error;
mod signing;

pub use error::{Fault, PkiError};
pub use signing::{Authority, SERIAL_BYTES, SignError, Verifier, Wanted};

use crate::{kubeconfig::write_private, x509};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use berth_store::env::Rng;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SigningKey as _, date_time_ymd,
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// The time before its expiry at which a certificate is replaced.
pub const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The file of the CA in the folder, with certificate and key.
pub const AUTHORITY_FILE: &str = "ca.pem";
const ACCOUNT_KEY_FILE: &str = "service-account.key";
const TOKEN_FILE: &str = "token";
const ADMIN_FILE: &str = "admin.pem";
/// All files in the order in which they are written. The last one can be replaced at any time.
const FILES: [&str; 4] = [AUTHORITY_FILE, ACCOUNT_KEY_FILE, TOKEN_FILE, ADMIN_FILE];
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const ADMIN_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Certificates are valid from a time in the past, for clients with a slow clock.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);
const TOKEN_BYTES: usize = 32;

/// A certificate and its key, both in PEM.
#[derive(Clone)]
pub struct Pair {
    /// PEM.
    pub certificate: String,
    /// PEM, PKCS #8.
    pub key: String,
}

/// The credentials of a server and its administrator.
#[derive(Clone)]
pub struct Pki {
    /// The PEM of the CA certificate.
    pub ca_certificate: String,
    /// The server's certificate and key.
    pub server: Pair,
    /// The administrator's certificate: user `kubernetes-admin`, group `system:masters`.
    pub admin: Pair,
    /// The bearer token of the administrator.
    pub admin_token: String,
    /// The PEM of the key that signs service account tokens.
    pub service_account_key: String,
}

/// The location and time for new certificates.
pub struct PkiOptions<'a> {
    /// The folder. Created if it is missing.
    pub folder: &'a Path,
    /// The address on which the server listens.
    pub bind: IpAddr,
    /// Additional names and addresses of the server, such as the host's name.
    pub extra_names: &'a [String],
    /// The current time.
    pub now: Timestamp,
}

impl Pki {
    /// Loads the credentials from the folder. In an empty folder it creates everything, otherwise at most a new
    /// administrator certificate.
    ///
    /// # Errors
    /// [`PkiError`]. Nothing is changed then.
    pub fn load_or_create(options: &PkiOptions<'_>, rng: &dyn Rng) -> Result<Self, PkiError> {
        check_complete(options.folder)?;
        let path = options.folder.join(AUTHORITY_FILE);
        let ca = keep(&path, Pair::parse_authority, |_| true, || make_authority(options.now))?;
        check_time(&path, &ca, options.now)?;
        let at = options.now + RENEW_BEFORE;
        let service_account_key = keep_key(&options.folder.join(ACCOUNT_KEY_FILE))?;
        let admin_token = keep_token(&options.folder.join(TOKEN_FILE), rng)?;
        let issuer = issuer(&ca, options)?;
        let trusts = trust(&ca, options)?;
        // The time depends on the stored CA itself, so that a renewed CA renews what the old one signed.
        let at = ca.der().and_then(|der| x509::not_after(&der)).map_or(at, |end| at.min(end - SignedDuration::from_secs(1)));
        let is_good = |pair: &Pair| pair.der().is_some_and(|der| trusts.verify_client_cert(&der, &[], unix_time(at)).is_ok());
        let admin = keep(&options.folder.join(ADMIN_FILE), Pair::parse, is_good, || make_admin(&issuer, options.now))?;
        let server = make_server(&issuer, options)?;
        Ok(Self { ca_certificate: ca.certificate, server, admin, admin_token, service_account_key })
    }
}

/// Returns the CA of a folder with the server's own credentials, ready to sign for others. `None`: its key is unusable.
#[must_use]
pub fn authority(folder: &Path, now: Timestamp) -> Option<Authority> {
    let text = read(&folder.join(AUTHORITY_FILE)).ok()??;
    Authority::of(&Pair::parse_authority(&text).ok()?, now)
}

impl Pki {
    /// Returns the expiry of the stored certificates, by their names in metrics and logs.
    pub(crate) fn ends(&self) -> Vec<(&'static str, Timestamp)> {
        let end = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).ok().and_then(|der| x509::not_after(&der));
        let all = [("authority", end(&self.ca_certificate)), ("administrator", end(&self.admin.certificate))];
        all.into_iter().filter_map(|(name, end)| Some((name, end?))).collect()
    }
}

impl Pair {
    /// Parses a file with a certificate and its key.
    ///
    /// # Errors
    /// [`Fault::Unusable`], also if the two do not match.
    fn parse(text: &str) -> Result<Self, Fault> {
        Self::read(text).ok_or(Fault::Unusable)
    }

    /// Does the same for a CA, and verifies that its self-signed certificate is unmodified.
    pub(crate) fn parse_authority(text: &str) -> Result<Self, Fault> {
        let pair = Self::parse(text)?;
        let is_whole = pair.der().is_some_and(|der| x509::is_signed_by_itself(&der));
        if is_whole { Ok(pair) } else { Err(Fault::Changed) }
    }

    fn read(text: &str) -> Option<Self> {
        let (certificate, key) = text.split_at_checked(text.find("-----BEGIN PRIVATE KEY-----")?)?;
        let pair = Self { certificate: certificate.to_owned(), key: key.to_owned() };
        let key = KeyPair::from_pem(&pair.key).ok()?;
        let is_its_own = x509::public_key(&pair.der()?)? == key.public_key_raw();
        is_its_own.then_some(pair)
    }

    pub(crate) fn der(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()
    }
}

/// Returns a verifier of client certificates for one or more authorities in a text.
pub(crate) fn client_verifier(authorities: &str) -> Option<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated().build().ok()
}

pub(crate) fn unix_time(at: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(unix_seconds(at))
}

fn unix_seconds(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.as_second()).unwrap_or(0))
}

fn trust(ca: &Pair, options: &PkiOptions<'_>) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    client_verifier(&ca.certificate).ok_or_else(|| unusable(&options.folder.join(AUTHORITY_FILE)))
}

fn unusable(path: &Path) -> PkiError {
    PkiError::Damaged { path: path.to_owned(), fault: Fault::Unusable }
}

/// Checks that files are complete: if a file of [`FILES`] exists, all earlier ones must exist too.
fn check_complete(folder: &Path) -> Result<(), PkiError> {
    let is_there = |name: &&&str| folder.join(name).exists();
    let Some(last) = FILES.iter().rposition(|name| is_there(&name)) else { return Ok(()) };
    match FILES[..last].iter().find(|name| !is_there(name)) {
        Some(missing) => Err(PkiError::Missing { path: folder.join(missing), beside: FILES[last] }),
        None => Ok(()),
    }
}

/// Rejects a CA that is expired or not yet valid.
pub(crate) fn check_time(path: &Path, ca: &Pair, now: Timestamp) -> Result<(), PkiError> {
    let (from, until) = ca.der().and_then(|der| x509::validity(&der)).ok_or_else(|| unusable(path))?;
    if (from..until).contains(&now) { Ok(()) } else { Err(PkiError::NotNow { path: path.to_owned(), from, until, now }) }
}

/// Returns the pair in the file if it is valid, otherwise creates and stores a new one.
fn keep(
    path: &Path,
    parse: impl Fn(&str) -> Result<Pair, Fault>,
    is_good: impl Fn(&Pair) -> bool,
    make: impl Fn() -> Result<Pair, PkiError>,
) -> Result<Pair, PkiError> {
    if let Some(text) = read(path)? {
        let pair = parse(&text).map_err(|fault| PkiError::Damaged { path: path.to_owned(), fault })?;
        if is_good(&pair) {
            return Ok(pair);
        }
    }
    let pair = make()?;
    write(path, &format!("{}{}", pair.certificate, pair.key))?;
    Ok(pair)
}

fn keep_key(path: &Path) -> Result<String, PkiError> {
    if let Some(text) = read(path)? {
        return KeyPair::from_pem(&text).map(|_| text).map_err(|_| unusable(path));
    }
    let key = KeyPair::generate().map_err(|source| PkiError::Make { subject: "service accounts' tokens", source })?.serialize_pem();
    write(path, &key)?;
    Ok(key)
}

fn keep_token(path: &Path, rng: &dyn Rng) -> Result<String, PkiError> {
    if let Some(token) = read(path)?.map(|text| text.trim().to_owned()).filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    let mut bytes = [0; TOKEN_BYTES];
    rng.fill(&mut bytes);
    let token = URL_SAFE_NO_PAD.encode(bytes);
    write(path, &token)?;
    Ok(token)
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::File { path: path.to_owned(), source }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    write_private(path, text.as_bytes()).map_err(|source| PkiError::File { path: path.to_owned(), source })
}

fn params(common_name: &str, now: Timestamp, lifetime: SignedDuration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    // In the type that rcgen requires.
    let [begin, end] = [now - CLOCK_SKEW, now + lifetime].map(|at| date_time_ymd(1970, 1, 1) + unix_seconds(at));
    params.not_before = begin;
    params.not_after = end;
    params
}

fn authority_params(now: Timestamp) -> CertificateParams {
    let mut params = params("berth-ca", now, AUTHORITY_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

pub(crate) fn make_authority(now: Timestamp) -> Result<Pair, PkiError> {
    let made = KeyPair::generate().and_then(|key| {
        let certificate = authority_params(now).self_signed(&key)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    });
    made.map_err(|source| PkiError::Make { subject: "the authority", source })
}

/// Returns the stored CA, ready to sign. Certificates contain only its name and key, so its other parameters need not
/// be parsed.
fn issuer(ca: &Pair, options: &PkiOptions<'_>) -> Result<Issuer<'static, KeyPair>, PkiError> {
    issuer_of(ca, options.now).ok_or_else(|| unusable(&options.folder.join(AUTHORITY_FILE)))
}

/// Returns `None` if its key is unusable.
pub(crate) fn issuer_of(ca: &Pair, now: Timestamp) -> Option<Issuer<'static, KeyPair>> {
    Some(Issuer::new(authority_params(now), KeyPair::from_pem(&ca.key).ok()?))
}

fn make_admin(issuer: &Issuer<'_, KeyPair>, now: Timestamp) -> Result<Pair, PkiError> {
    make_client(issuer, "kubernetes-admin", &[crate::auth::MASTERS.to_owned()], (now, ADMIN_LIFETIME))
        .map_err(|source| PkiError::Make { subject: "the administrator", source })
}

pub(crate) fn make_client(
    issuer: &Issuer<'_, KeyPair>,
    user: &str,
    groups: &[String],
    (now, lifetime): (Timestamp, SignedDuration),
) -> Result<Pair, rcgen::Error> {
    let mut params = params(user, now, lifetime);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let unnamed = params.signed_by(&key, issuer)?;
    let subject = x509::Subject { common_name: user.to_owned(), organizations: groups.to_vec() };
    let named = x509::with_subject(unnamed.der(), &subject, |body| issuer.key().sign(body)).expect("a new certificate is well formed")?;
    Ok(Pair { certificate: pem(&named), key: key.serialize_pem() })
}

/// Returns every certificate in a text in normalized PEM, without the text around it.
#[must_use]
pub fn certificates(text: &str) -> Vec<String> {
    CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok).map(|der| pem(&der)).collect()
}

/// Returns the names and addresses of the first certificate in a text.
#[must_use]
pub fn server_names(text: &str) -> Vec<String> {
    let first = CertificateDer::pem_slice_iter(text.as_bytes()).find_map(Result::ok);
    first.and_then(|der| x509::server_names(&der)).unwrap_or_default()
}

/// Returns a certificate as PEM.
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|start| &text[start..text.len().min(start + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A user's certificate, and that of the CA that signed it.
pub struct Issued {
    /// The PEM of the CA certificate.
    pub ca_certificate: String,
    /// The user's certificate and key.
    pub client: Pair,
}

/// Creates a client certificate for `user`, a member of `groups`, with the CA in `folder`. It cannot be revoked before
/// its expiry.
///
/// # Errors
/// [`PkiError`]. A folder without a CA counts as unreadable.
pub fn issue(folder: &Path, user: &str, groups: &[String], (now, lifetime): (Timestamp, SignedDuration)) -> Result<Issued, PkiError> {
    let path = folder.join(AUTHORITY_FILE);
    let text = fs::read_to_string(&path).map_err(|source| PkiError::File { path: path.clone(), source })?;
    let ca = Pair::parse_authority(&text).map_err(|fault| PkiError::Damaged { path: path.clone(), fault })?;
    check_time(&path, &ca, now)?;
    let options = PkiOptions { folder, bind: IpAddr::from([127, 0, 0, 1]), extra_names: &[], now };
    let made = make_client(&issuer(&ca, &options)?, user, groups, (now, lifetime));
    let client = made.map_err(|source| PkiError::Make { subject: "the user", source })?;
    Ok(Issued { ca_certificate: ca.certificate, client })
}

/// The names of the API server inside a cluster, and on this machine.
const SERVER_NAMES: [&str; 8] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
];

fn make_server(issuer: &Issuer<'_, KeyPair>, options: &PkiOptions<'_>) -> Result<Pair, PkiError> {
    let bind = (!options.bind.is_unspecified()).then(|| options.bind.to_string());
    let names = bind.into_iter().chain(options.extra_names.iter().cloned());
    // The certificate exists in memory only, and may be needed as long as the process runs.
    server_certificate(issuer, names, (options.now, AUTHORITY_LIFETIME))
}

/// Returns a certificate for servers with these names and addresses, besides the default ones.
pub(crate) fn server_certificate(
    issuer: &Issuer<'_, KeyPair>,
    names: impl IntoIterator<Item = String>,
    (now, lifetime): (Timestamp, SignedDuration),
) -> Result<Pair, PkiError> {
    let failed = |source| PkiError::Make { subject: "the server", source };
    let mut names: Vec<String> = SERVER_NAMES.iter().map(ToString::to_string).chain(names).collect();
    names.sort();
    names.dedup();
    let named = CertificateParams::new(names).map_err(failed)?;
    let mut params = params("kube-apiserver", now, lifetime);
    params.subject_alt_names = named.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(&params, issuer).map_err(failed)
}

/// Returns a self-signed certificate for the health and metrics server of a control plane component. It is not stored,
/// so each start has another one. For authenticated access, an administrator configures a certificate of a CA.
///
/// # Errors
/// [`PkiError::Make`].
pub fn self_signed(name: &str, bind: IpAddr, now: Timestamp) -> Result<Pair, PkiError> {
    let failed = |source| PkiError::Make { subject: "the part", source };
    let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST), bind];
    let names = own.iter().filter(|address| !address.is_unspecified()).map(ToString::to_string);
    let mut names: Vec<String> = ["localhost".to_owned()].into_iter().chain(names).collect();
    names.sort();
    names.dedup();
    let mut params = params(name, now, AUTHORITY_LIFETIME);
    params.subject_alt_names = CertificateParams::new(names).map_err(failed)?.subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let made = KeyPair::generate().and_then(|key| Ok(Pair { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() }));
    made.map_err(failed)
}

fn sign(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;
    impl Rng for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = index.to_le_bytes()[0];
            }
        }
    }

    fn load(folder: &Path, now: &str) -> Result<Pki, PkiError> {
        let now = now.parse().expect("a time");
        let options = PkiOptions { folder, bind: Ipv4Addr::LOCALHOST.into(), extra_names: &["myhost".to_owned()], now };
        Pki::load_or_create(&options, &Counting)
    }

    #[test]
    fn a_second_start_uses_what_the_first_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        let second = load(folder.path(), "2026-06-01T00:00:00Z").expect("loaded");
        assert_eq!(first.ca_certificate, second.ca_certificate);
        assert_eq!(first.admin.key, second.admin.key);
        assert_eq!(first.admin_token, second.admin_token);
        assert_eq!(first.service_account_key, second.service_account_key);
        assert_eq!(first.admin_token.len(), 43);
    }

    #[test]
    fn an_ending_admin_certificate_is_renewed_by_the_same_authority() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        let second = load(folder.path(), "2026-12-10T00:00:00Z").expect("loaded");
        assert_eq!(first.ca_certificate, second.ca_certificate);
        assert_ne!(first.admin.certificate, second.admin.certificate);
    }

    #[test]
    fn an_administrator_of_another_authority_is_replaced() {
        let [folder, other] = std::array::from_fn(|_| tempfile::tempdir().expect("a folder"));
        let first = load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        load(other.path(), "2026-01-01T00:00:00Z").expect("made");
        fs::copy(other.path().join(AUTHORITY_FILE), folder.path().join(AUTHORITY_FILE)).expect("copied");
        let second = load(folder.path(), "2026-01-02T00:00:00Z").expect("made");
        assert_ne!(first.ca_certificate, second.ca_certificate);
        assert_ne!(first.admin.certificate, second.admin.certificate);
    }

    /// Returns the contents of the files in a folder.
    fn contents(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
        FILES.iter().map(|name| (*name, fs::read(folder.join(name)).unwrap_or_default())).collect()
    }

    #[test]
    fn a_wrong_clock_replaces_no_authority() {
        let folder = tempfile::tempdir().expect("a folder");
        load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        let before = contents(folder.path());
        for wrong in ["2036-12-15T00:00:00Z", "2036-01-05T00:00:00Z", "2025-06-01T00:00:00Z", "1970-01-02T00:00:00Z"] {
            let error = load(folder.path(), wrong).err().expect("nothing that it has holds then");
            assert!(matches!(&error, PkiError::NotNow { .. }), "{error}");
            assert!(error.to_string().contains(&format!("this machine's clock shows {wrong}: set the clock")), "{error}");
            assert_eq!(contents(folder.path()), before, "{wrong}");
            let issued = issue(folder.path(), "alice", &[], (wrong.parse().expect("a time"), SignedDuration::from_hours(1)));
            assert!(matches!(issued, Err(PkiError::NotNow { .. })));
        }
        // A CA that expires soon is not replaced either, because clients would need the new one. What it signs is valid
        // only until its own expiry.
        let last = load(folder.path(), "2035-12-20T00:00:00Z").expect("it holds");
        assert_eq!(contents(folder.path())[..3], before[..3]);
        load(folder.path(), "2026-01-03T00:00:00Z").expect("the clock is right again");
        assert_eq!(contents(folder.path())[..3], before[..3]);
        assert!(last.ca_certificate.as_bytes().starts_with(b"-----BEGIN"));
    }

    #[test]
    fn a_missing_file_is_reported_and_nothing_is_made_in_its_place() {
        for (missing, beside) in [(AUTHORITY_FILE, ADMIN_FILE), (ACCOUNT_KEY_FILE, ADMIN_FILE), (TOKEN_FILE, ADMIN_FILE)] {
            let folder = tempfile::tempdir().expect("a folder");
            load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
            fs::remove_file(folder.path().join(missing)).expect("removed");
            let before = contents(folder.path());
            let error = load(folder.path(), "2026-01-02T00:00:00Z").err().expect("clients have the old one");
            assert!(matches!(&error, PkiError::Missing { path, beside: found } if path.ends_with(missing) && *found == beside), "{error}");
            assert_eq!(contents(folder.path()), before);
        }
        // The next start completes an interrupted first start.
        let folder = tempfile::tempdir().expect("a folder");
        load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        for last in FILES.iter().rev() {
            fs::remove_file(folder.path().join(last)).expect("removed");
            let before = contents(folder.path());
            load(folder.path(), "2026-01-02T00:00:00Z").expect("it goes on");
            before.iter().filter(|(_, text)| !text.is_empty()).for_each(|(name, text)| {
                assert_eq!(fs::read(folder.path().join(name)).expect("there"), *text, "{name}");
            });
            FILES.iter().skip_while(|name| *name != last).for_each(|name| fs::remove_file(folder.path().join(name)).expect("removed"));
        }
    }

    #[test]
    fn the_admin_certificate_names_a_master() {
        let folder = tempfile::tempdir().expect("a folder");
        let pki = load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        let subject = x509::subject(&pki.admin.der().expect("PEM")).expect("DER");
        assert_eq!(subject.common_name, "kubernetes-admin");
        assert_eq!(subject.organizations, [crate::auth::MASTERS]);
    }

    #[test]
    fn others_get_certificates_of_the_kept_authority() {
        let folder = tempfile::tempdir().expect("a folder");
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        let lifetime = SignedDuration::from_hours(1);
        assert!(issue(folder.path(), "alice", &[], (now, lifetime)).is_err(), "there is no authority yet");
        let pki = load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        let issued = issue(folder.path(), "alice", &["dev".to_owned(), "ops".to_owned()], (now, lifetime)).expect("made");
        assert_eq!(issued.ca_certificate, pki.ca_certificate);
        let der = issued.client.der().expect("PEM");
        let subject = x509::subject(&der).expect("DER");
        assert_eq!((subject.common_name.as_str(), subject.organizations.len()), ("alice", 2));
        assert_eq!(x509::not_after(&der), Some(now + lifetime));
        let judge = client_verifier(&pki.ca_certificate).expect("an authority");
        assert!(judge.verify_client_cert(&der, &[], unix_time(now)).is_ok());
        assert!(judge.verify_client_cert(&der, &[], unix_time(now + lifetime * 2)).is_err());
    }

    #[test]
    fn damage_is_reported_and_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("ca.pem"), "rubbish").expect("written");
        let Err(error) = load(folder.path(), "2026-01-01T00:00:00Z") else { panic!("damage is an error") };
        let PkiError::Damaged { path, fault: Fault::Unusable } = &error else { panic!("{error}") };
        assert_eq!(*path, folder.path().join("ca.pem"));
        assert!(
            error
                .to_string()
                .ends_with(&format!("remove {} to start with a new authority, which clients must then trust", folder.path().display()))
        );
        assert_eq!(fs::read_to_string(path).expect("read"), "rubbish");
    }

    /// A changed bit could alter a name, a time or a right. With an expiry in the past, the CA and everything that it
    /// signed could even be replaced.
    #[test]
    fn a_flipped_bit_of_the_authority_is_reported_or_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
        let path = folder.path().join("ca.pem");
        let whole = fs::read(&path).expect("read");
        let pair = Pair::parse_authority(str::from_utf8(&whole).expect("PEM")).expect("whole");
        let key = |pair: &Pair| KeyPair::from_pem(&pair.key).expect("a key").public_key_raw().to_vec();
        let (mut changed, mut same) = (None, 0);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(text) = String::from_utf8(bytes) else { continue };
            match Pair::parse_authority(&text) {
                Ok(read) => {
                    assert!(read.der() == pair.der() && key(&read) == key(&pair), "bit {bit} makes another authority");
                    same += 1;
                }
                Err(Fault::Changed) => changed = Some(text),
                Err(Fault::Unusable) => (),
            }
        }
        // Letters of the surrounding text, and line ends.
        assert!(same < whole.len() / 4, "{same} bits of {} bytes do not matter", whole.len());

        let changed = changed.expect("some bit is left to the signature");
        fs::write(&path, &changed).expect("written");
        let Err(error) = load(folder.path(), "2026-01-01T00:00:00Z") else { panic!("no authority signed that") };
        let now = "2026-01-01T12:00:00Z".parse().expect("a time");
        let issued = issue(folder.path(), "alice", &[], (now, SignedDuration::from_hours(1)));
        for error in [error, issued.err().expect("no authority signed that")] {
            assert!(matches!(&error, PkiError::Damaged { path: damaged, fault: Fault::Changed } if *damaged == path), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).expect("read"), changed, "a start that refuses changes nothing");
    }

    #[test]
    fn a_key_that_is_not_the_certificates_is_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["ca.pem", "admin.pem"] {
            load(folder.path(), "2026-01-01T00:00:00Z").expect("made");
            let path = folder.path().join(name);
            let text = fs::read_to_string(&path).expect("read");
            let key = KeyPair::generate().expect("a key").serialize_pem();
            let (certificate, _) = text.split_once("-----BEGIN PRIVATE KEY-----").expect("a pair");
            fs::write(&path, format!("{certificate}{key}")).expect("written");
            let Err(error) = load(folder.path(), "2026-01-01T00:00:00Z") else { panic!("{name}: clients could not trust such a server") };
            assert!(matches!(&error, PkiError::Damaged { path: damaged, .. } if *damaged == path), "{error}");
            fs::write(&path, text).expect("written");
        }
    }
}
