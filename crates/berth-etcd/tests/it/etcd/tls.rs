//! Certificates for etcd and its clients.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests have files")]

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::{fs, path::Path};

/// A certificate and its key.
pub(crate) struct Pair(pub(crate) String, pub(crate) String);

/// Signs certificates.
pub(crate) struct Authority(CertificateParams, Pair);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("an authority").pem();
        Self(params, Pair(certificate, key.serialize_pem()))
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.1.0
    }

    /// Returns a certificate for this name or address.
    pub(crate) fn pair(&self, name: &str) -> Pair {
        let issuer = Issuer::new(self.0.clone(), KeyPair::from_pem(&self.1.1).expect("its own"));
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        Pair(params.signed_by(&key, &issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

/// Writes a file into the folder. Returns its path.
pub(crate) fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder is ours");
    path.display().to_string()
}

/// The settings of an etcd that presents `server` and requires a certificate of the authority.
pub(crate) fn settings(folder: &Path, authority: &Authority, server: &Pair) -> String {
    format!(
        "client-transport-security:\n  cert-file: {}\n  key-file: {}\n  trusted-ca-file: {}\n  client-cert-auth: true\n",
        file(folder, "server.crt", &server.0),
        file(folder, "server.key", &server.1),
        file(folder, "ca.crt", authority.certificate())
    )
}
