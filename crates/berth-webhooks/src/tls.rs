//! TLS to webhooks.

use crate::failure::CallFailure;
use rustls::{
    CertificateError, ClientConfig, InvalidMessage, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use std::{io, sync::Arc};
use tokio::task::spawn_blocking;

/// Returns the configuration that trusts the authorities in `ca_bundle`, or those of the machine if it is empty.
pub(crate) async fn config(ca_bundle: &[u8]) -> Result<Arc<ClientConfig>, CallFailure> {
    let roots = if ca_bundle.is_empty() {
        // The roots are in more than a hundred files. Reading them must not block a thread that other tasks need.
        spawn_blocking(native_roots).await.map_err(|_| CallFailure::CaBundle("the machine's authorities cannot be read"))?
    } else {
        roots(ca_bundle)?
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| CallFailure::CaBundle("TLS has no protocol versions"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(ca_bundle: &[u8]) -> Result<RootCertStore, CallFailure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_bundle) {
        let added = certificate.ok().and_then(|certificate| roots.add(certificate).ok());
        added.ok_or(CallFailure::CaBundle("unable to parse bytes as PEM block"))?;
    }
    if roots.is_empty() { Err(CallFailure::CaBundle("unable to parse bytes as PEM block")) } else { Ok(roots) }
}

/// The certificate authorities that this machine trusts, without those that cannot be parsed.
fn native_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Returns a failed handshake in upstream's words.
pub(crate) fn words(error: &io::Error) -> String {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    match of_tls {
        // An authority of the same name with another key.
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(why)) => format!("tls: failed to verify certificate: x509: {why}"),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}
