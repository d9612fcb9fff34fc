//! Credentials that several servers share, in a folder: a CA, the servers' certificate, the key of service account
//! tokens, and the kubeconfigs of clients.
//!
//! The servers get the files as options ([`crate::credentials::CredentialFiles`]). They do not need the CA's key. It
//! can be stored elsewhere, and is needed only to [renew](renew) certificates.

use crate::{
    kubeconfig::{Kubeconfig, create_private, private_folder, write_private},
    pki::{Fault, Pair, PkiError, issuer_of, make_authority, make_client, server_certificate},
    x509::{self, Subject},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use rcgen::{Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const SERVER: &str = "apiserver.crt";
const SERVER_KEY: &str = "apiserver.key";
const ACCOUNT_KEY: &str = "sa.key";
const ACCOUNT_PUBLIC_KEY: &str = "sa.pub";
/// The clients of the servers, with a kubeconfig each. Control plane components are administrators, because berth's
/// controllers in one process do the work of many upstream controllers, each of which has its own role. The audit log
/// distinguishes them by name.
const CLIENTS: [(&str, &str); 4] = [
    ("admin.kubeconfig", "kubernetes-admin"),
    ("controller-manager.kubeconfig", "system:kube-controller-manager"),
    ("scheduler.kubeconfig", "system:kube-scheduler"),
    ("node.kubeconfig", "berth-node"),
];

/// Why the folder cannot be created or renewed.
#[derive(Debug, thiserror::Error)]
pub enum SharedPkiError {
    /// The folder is not empty. Nothing is overwritten.
    #[error("{} is not empty: choose another folder, or renew its certificates with berth pki renew", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("could not use {}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error("{} {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason in words.
        why: String,
    },
    /// A certificate could not be created.
    #[error(transparent)]
    Make(#[from] PkiError),
}

/// The parameters of a folder.
pub struct Wanted<'a> {
    /// Additional names and addresses of the servers.
    pub names: &'a [String],
    /// The server URL in the kubeconfigs: `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// The current time, and the lifetime of certificates other than the CA's.
    pub holds: (Timestamp, SignedDuration),
}

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub file: &'static str,
    /// A description of its owner.
    pub what: String,
    /// The expiry of its certificate. `None`: it is a key, which does not expire.
    pub ends: Option<Timestamp>,
}

/// Creates a folder with all files, readable by its owner only.
///
/// # Errors
/// [`SharedPkiError`]. A folder that is not empty is unchanged.
pub fn init(folder: &Path, wanted: &Wanted<'_>) -> Result<(), SharedPkiError> {
    let failed = |source| SharedPkiError::File { path: folder.to_owned(), source };
    private_folder().create(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(SharedPkiError::NotEmpty { folder: folder.to_owned() });
    }
    let authority = make_authority(wanted.holds.0)?;
    let issuer = issuer_of(&authority, wanted.holds.0).expect("it was made just now");
    let account_key = KeyPair::generate().map_err(|source| PkiError::Make { subject: "service accounts' tokens", source })?;
    let server = server_certificate(&issuer, wanted.names.iter().cloned(), wanted.holds)?;
    let create = |file: &str, text: &str| {
        let path = folder.join(file);
        create_private(&path, text.as_bytes()).map_err(|source| SharedPkiError::File { path, source })
    };
    create(AUTHORITY_KEY, &authority.key)?;
    create(AUTHORITY, &authority.certificate)?;
    create(SERVER_KEY, &server.key)?;
    create(SERVER, &server.certificate)?;
    create(ACCOUNT_KEY, &account_key.serialize_pem())?;
    create(ACCOUNT_PUBLIC_KEY, &account_key.public_key_pem())?;
    for (file, user) in CLIENTS {
        let subject = Subject { common_name: user.to_owned(), organizations: vec![crate::auth::MASTERS.to_owned()] };
        create(file, &kubeconfig(&issuer, &authority, (wanted.server, &subject), wanted.holds)?)?;
    }
    Ok(())
}

/// The changes in renewed certificates.
#[derive(Default)]
pub struct Changes<'a> {
    /// All additional names and addresses of the servers.
    pub names: Option<&'a [String]>,
    /// The server URL in the kubeconfigs.
    pub server: Option<&'a str>,
}

/// Renews the certificates of the servers and of the kubeconfigs, with new keys. The CA and the key of service account
/// tokens stay. Missing files are not created. Each file is replaced atomically, readable by its owner only.
///
/// # Errors
/// [`SharedPkiError`]. Files that were already replaced stay replaced.
pub fn renew(folder: &Path, changes: &Changes<'_>, holds: (Timestamp, SignedDuration)) -> Result<(), SharedPkiError> {
    let authority = authority(folder)?;
    let issuer = issuer_of(&authority, holds.0).ok_or_else(|| unusable(&folder.join(AUTHORITY_KEY), "has no key that can sign"))?;
    let ends = authority.der().and_then(|der| x509::not_after(&der)).unwrap_or(holds.0);
    // A certificate must not outlive its CA.
    let holds = (holds.0, holds.1.min(ends.duration_since(holds.0)));
    if holds.1 <= SignedDuration::ZERO {
        return Err(unusable(&folder.join(AUTHORITY), &format!("expired at {ends}: create another folder with berth pki init")));
    }
    let replace = |file: &str, text: &str| {
        let path = folder.join(file);
        write_private(&path, text.as_bytes()).map_err(|source| SharedPkiError::File { path, source })
    };
    if let Some(text) = read(folder, SERVER)? {
        let names = match changes.names {
            Some(names) => names.to_vec(),
            None => first_certificate(&text)
                .and_then(|der| x509::server_names(&der))
                .ok_or_else(|| unusable(&folder.join(SERVER), "has no certificate; add its names with --name"))?,
        };
        let server = server_certificate(&issuer, names, holds)?;
        replace(SERVER_KEY, &server.key)?;
        replace(SERVER, &server.certificate)?;
    }
    for (file, _) in CLIENTS {
        let Some(text) = read(folder, file)? else { continue };
        let (server, der) = read_kubeconfig(&text).ok_or_else(|| unusable(&folder.join(file), "is not a kubeconfig with a certificate"))?;
        let subject = x509::subject(&der).ok_or_else(|| unusable(&folder.join(file), "has a certificate without a user"))?;
        let text = kubeconfig(&issuer, &authority, (changes.server.unwrap_or(&server), &subject), holds)?;
        replace(file, &text)?;
    }
    Ok(())
}

/// Returns the files of the folder with their expiry.
///
/// # Errors
/// A file cannot be read.
pub fn show(folder: &Path) -> Result<Vec<Found>, SharedPkiError> {
    let mut found = Vec::new();
    for (file, what) in [(AUTHORITY, "the authority"), (SERVER, "the servers' certificate")] {
        let Some(text) = read(folder, file)? else { continue };
        let ends = first_certificate(&text).and_then(|der| Some((x509::not_after(&der)?, der)));
        let (ends, der) = ends.ok_or_else(|| unusable(&folder.join(file), "contains no readable certificate"))?;
        let names = x509::server_names(&der).filter(|names| !names.is_empty());
        let what = names.map_or_else(|| what.to_owned(), |names| format!("{what}, for {}", names.join(", ")));
        found.push(Found { file, what, ends: Some(ends) });
    }
    for (file, _) in CLIENTS {
        let Some(text) = read(folder, file)? else { continue };
        let Some((server, der)) = read_kubeconfig(&text) else { continue };
        let user = x509::subject(&der).unwrap_or_default().common_name;
        found.push(Found { file, what: format!("{user} at {server}"), ends: x509::not_after(&der) });
    }
    if read(folder, ACCOUNT_KEY)?.is_some() {
        found.push(Found { file: ACCOUNT_KEY, what: "the key that signs service accounts' tokens".to_owned(), ends: None });
    }
    if found.is_empty() {
        return Err(unusable(folder, "contains no files of berth pki init"));
    }
    Ok(found)
}

fn authority(folder: &Path) -> Result<Pair, SharedPkiError> {
    let needed = |file: &str| {
        let path = folder.join(file);
        fs::read_to_string(&path).map_err(|source| SharedPkiError::File { path, source })
    };
    let text = format!("{}{}", needed(AUTHORITY)?, needed(AUTHORITY_KEY)?);
    Pair::parse_authority(&text).map_err(|fault| match fault {
        Fault::Unusable => {
            unusable(&folder.join(AUTHORITY_KEY), &format!("is not the key of the authority in {AUTHORITY}, or one of them is damaged"))
        }
        Fault::Changed => unusable(&folder.join(AUTHORITY), &fault.to_string()),
    })
}

/// Returns the file's content, if it exists.
fn read(folder: &Path, file: &str) -> Result<Option<String>, SharedPkiError> {
    let path = folder.join(file);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SharedPkiError::File { path, source }),
    }
}

fn unusable(path: &Path, why: &str) -> SharedPkiError {
    SharedPkiError::Unusable { path: path.to_owned(), why: why.to_owned() }
}

fn first_certificate(text: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(text.as_bytes()).ok()
}

/// Returns the server URL and the certificate of a kubeconfig.
fn read_kubeconfig(text: &str) -> Option<(String, CertificateDer<'static>)> {
    let config: Value = serde_saphyr::from_str(text).ok()?;
    let server = config["clusters"][0]["cluster"]["server"].as_str()?.to_owned();
    let certificate = STANDARD.decode(config["users"][0]["user"]["client-certificate-data"].as_str()?).ok()?;
    Some((server, CertificateDer::from_pem_slice(&certificate).ok()?))
}

fn kubeconfig(
    issuer: &Issuer<'_, KeyPair>,
    authority: &Pair,
    (server, subject): (&str, &Subject),
    holds: (Timestamp, SignedDuration),
) -> Result<String, SharedPkiError> {
    let made = make_client(issuer, &subject.common_name, &subject.organizations, holds);
    let client = made.map_err(|source| PkiError::Make { subject: "a client", source })?;
    let kubeconfig = Kubeconfig {
        name: "berth",
        server,
        ca_certificate: &authority.certificate,
        client_certificate: &client.certificate,
        client_key: &client.key,
    };
    Ok(kubeconfig.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn init_in(folder: &Path) -> Result<(), SharedPkiError> {
        let names = ["one.example".to_owned(), "192.0.2.1".to_owned()];
        init(folder, &Wanted { names: &names, server: "https://one.example:6443", holds: (at("2026-01-01T00:00:00Z"), DAY * 365) })
    }

    fn text(folder: &Path, file: &str) -> String {
        fs::read_to_string(folder.join(file)).expect("there")
    }

    fn ends(folder: &Path) -> Vec<String> {
        let told = |found: Found| format!("{}: {}", found.file, found.ends.map(|end| end.to_string()).unwrap_or_default());
        show(folder).expect("there").into_iter().map(told).collect()
    }

    #[test]
    fn nothing_is_overwritten_and_only_the_owner_can_read_it() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("deep/pki");
        init_in(&folder).expect("made");
        let before = text(&folder, AUTHORITY);
        assert!(init_in(&folder).expect_err("it is there").to_string().contains("is not empty: choose another folder"));
        assert_eq!(text(&folder, AUTHORITY), before);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
            assert_eq!(mode(&folder), 0o700);
            let modes: Vec<_> = fs::read_dir(&folder).expect("there").map(|entry| mode(&entry.expect("there").path())).collect();
            assert_eq!(modes, [0o600; 10]);
        }
    }

    #[test]
    fn certificates_are_renewed_for_the_same_names_and_the_authority_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path();
        init_in(folder).expect("made");
        let files = [AUTHORITY, AUTHORITY_KEY, ACCOUNT_KEY, SERVER, SERVER_KEY, "node.kubeconfig"];
        let before = files.map(|file| text(folder, file));
        fs::remove_file(folder.join("scheduler.kubeconfig")).expect("there");
        renew(folder, &Changes::default(), (at("2026-12-01T00:00:00Z"), DAY * 365)).expect("renewed");
        let same = files.map(|file| text(folder, file)).iter().zip(&before).map(|(now, before)| now == before).collect::<Vec<_>>();
        assert_eq!(same, [true, true, true, false, false, false]);
        assert_eq!(
            ends(folder),
            [
                "ca.crt: 2035-12-30T00:00:00Z",
                "apiserver.crt: 2027-12-01T00:00:00Z",
                "admin.kubeconfig: 2027-12-01T00:00:00Z",
                "controller-manager.kubeconfig: 2027-12-01T00:00:00Z",
                "node.kubeconfig: 2027-12-01T00:00:00Z",
                "sa.key: "
            ]
        );
        let found = show(folder).expect("there");
        assert!(found[1].what.contains("one.example") && found[1].what.contains("192.0.2.1"), "{}", found[1].what);
        assert_eq!(found[4].what, "berth-node at https://one.example:6443");
    }

    #[test]
    fn a_file_that_holds_no_certificate_is_named() {
        let home = tempfile::tempdir().expect("a folder");
        init_in(home.path()).expect("made");
        fs::write(home.path().join(SERVER), "no certificate").expect("a folder of ours");
        let told = show(home.path()).expect_err("it is none").to_string();
        assert!(told.contains("apiserver.crt") && told.contains("contains no readable certificate"), "{told}");
    }

    #[test]
    fn what_is_to_change_does() {
        let home = tempfile::tempdir().expect("a folder");
        init_in(home.path()).expect("made");
        let names = ["two.example".to_owned()];
        let changes = Changes { names: Some(&names), server: Some("https://two.example:6443") };
        renew(home.path(), &changes, (at("2026-12-01T00:00:00Z"), DAY)).expect("renewed");
        let found = show(home.path()).expect("there");
        assert!(found[1].what.contains("two.example") && !found[1].what.contains("one.example"), "{}", found[1].what);
        assert_eq!(found[2].what, "kubernetes-admin at https://two.example:6443");
    }

    #[test]
    fn nothing_outlives_its_authority() {
        let home = tempfile::tempdir().expect("a folder");
        init_in(home.path()).expect("made");
        renew(home.path(), &Changes::default(), (at("2035-12-29T00:00:00Z"), DAY * 365)).expect("renewed");
        assert_eq!(ends(home.path())[1], "apiserver.crt: 2035-12-30T00:00:00Z");
        let late = renew(home.path(), &Changes::default(), (at("2035-12-30T00:00:00Z"), DAY)).expect_err("it has ended").to_string();
        assert!(late.contains("ca.crt expired at 2035-12-30T00:00:00Z"), "{late}");
    }

    #[test]
    fn an_authority_with_anothers_key_renews_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        init_in(home.path()).expect("made");
        let before = text(home.path(), SERVER);
        fs::write(home.path().join(AUTHORITY_KEY), KeyPair::generate().expect("a key").serialize_pem()).expect("ours");
        let told = renew(home.path(), &Changes::default(), (at("2026-12-01T00:00:00Z"), DAY)).expect_err("not its key").to_string();
        assert!(told.contains("ca.key is not the key of the authority in ca.crt"), "{told}");
        assert_eq!(text(home.path(), SERVER), before);
    }
}
