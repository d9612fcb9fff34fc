//! TLS as Kubernetes does it: a client certificate is asked for, any is taken, and what it is worth is judged after the handshake, so
//! that a client with a bad one is told so in HTTP.

use crate::{
    auth::{CREDENTIAL_ID, Peer, User},
    pki::{self, Pki},
    x509,
};
use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, ServerConnection, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, sync::Arc};

/// Why TLS cannot be spoken with these certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM text holds no certificate or no key.
    #[error("the server's certificate, its key or its authority's certificate is no PEM of such")]
    Pem,
    /// The TLS library does not take them.
    #[error("the server's certificate and key cannot be used for TLS")]
    Certificate(#[source] Error),
}

/// The server's side of TLS, and the judge of its clients' certificates.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    judge: Arc<dyn ClientCertVerifier>,
}

impl Tls {
    pub(crate) fn new(pki: &Pki) -> Result<Self, TlsError> {
        let judge = pki::client_verifier(&pki.ca_certificate).ok_or(TlsError::Pem)?;
        let (certificate, key) = pki.server.for_tls().ok_or(TlsError::Pem)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Certificate)?
            .with_client_cert_verifier(Arc::new(TakeAny(judge.clone())))
            .with_single_cert(vec![certificate], key)
            .map_err(TlsError::Certificate)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), judge })
    }

    /// Who is at the other end, by certificate. Its holder proved in the handshake that the key is theirs.
    pub(crate) fn peer(&self, connection: &ServerConnection, now: Timestamp) -> Peer {
        let Some((leaf, chain)) = connection.peer_certificates().and_then(<[_]>::split_first) else { return Peer::Nobody };
        let trusted = self.judge.verify_client_cert(leaf, chain, pki::unix_time(now)).is_ok();
        match trusted.then(|| x509::subject(leaf).zip(x509::not_after(leaf))).flatten() {
            Some((subject, until)) if !subject.common_name.is_empty() => {
                let mut user = User::authenticated(&subject.common_name, &subject.organizations);
                user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={}", hex(&Sha256::digest(leaf)))]);
                Peer::Known { user: Arc::new(user), until }
            }
            _ => Peer::Untrusted,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Takes every certificate, but only from who has its key.
#[derive(Debug)]
struct TakeAny(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for TakeAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(&self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: UnixTime) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
