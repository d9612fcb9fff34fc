//! TLS as in Kubernetes: the server requests a client certificate, accepts any, and verifies it after the handshake. A
//! client with an invalid one therefore gets an HTTP error.

use crate::{
    auth::{BadKey, CREDENTIAL_ID, Peer, User},
    pki::{self, Pair},
    x509,
};
use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, InconsistentKeys, ServerConfig, ServerConnection, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

/// Why these are not usable credentials of a server.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate, or one of them is invalid.
    #[error("it contains no certificate in PEM format, or one that cannot be read")]
    NoCertificate,
    /// There is no key, or none that TLS supports.
    #[error("it has no private key in PEM that TLS takes: RSA, or elliptic on P-256, P-384 or Ed25519")]
    NoKey,
    /// The key does not match the certificate.
    #[error("the server's key is not that of its certificate")]
    Mismatch,
    /// The TLS library rejects them.
    #[error("its certificate cannot be used for TLS")]
    Certificate(#[source] Error),
    /// There is no CA certificate, or one of them is invalid.
    #[error("it has no certificate of an authority in PEM, or one that cannot be read")]
    Authority,
    /// The keys of service account tokens are unusable.
    #[error("the keys of service accounts' tokens cannot be used")]
    Tokens(#[from] BadKey),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Checks that the authorities can verify clients.
///
/// # Errors
/// The text contains no authorities, or something else.
pub(crate) fn check_authorities(authorities: &str) -> Result<(), TlsError> {
    pki::client_verifier(authorities).map(drop).ok_or(TlsError::Authority)
}

/// Checks that a server can use the pair.
///
/// # Errors
/// The reason of a failure.
pub(crate) fn check_pair(pair: &Pair) -> Result<(), TlsError> {
    certified(pair).map(drop)
}

fn certified(pair: &Pair) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::NoCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|_| TlsError::NoKey)?;
    let key = provider().key_provider.load_private_key(key).map_err(|_| TlsError::NoKey)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => Err(TlsError::Mismatch),
        Err(error) => Err(TlsError::Certificate(error)),
    }
}

/// The TLS configuration of the server, and the verifier of client certificates.
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// `None`: the server requests no client certificate.
    judge: Option<Arc<dyn ClientCertVerifier>>,
}

impl Tls {
    pub(crate) fn new(serving: &Pair, client_authorities: &str) -> Result<Self, TlsError> {
        Self::of(serving, Some(pki::client_verifier(client_authorities).ok_or(TlsError::Authority)?))
    }

    /// Returns the configuration of a server without client authorities.
    pub(crate) fn without_client_certificates(serving: &Pair) -> Result<Self, TlsError> {
        Self::of(serving, None)
    }

    fn of(serving: &Pair, judge: Option<Arc<dyn ClientCertVerifier>>) -> Result<Self, TlsError> {
        let certified = certified(serving)?;
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(TlsError::Certificate)?;
        let builder = match &judge {
            Some(judge) => builder.with_client_cert_verifier(Arc::new(TakeAny(judge.clone()))),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), judge })
    }

    /// Returns the identity of a client with these certificates.
    fn peer(&self, shown: &[CertificateDer<'_>], now: Timestamp) -> Peer {
        let Some((leaf, chain)) = shown.split_first() else { return Peer::Anonymous };
        let trusted = self.judge.as_ref().is_some_and(|judge| judge.verify_client_cert(leaf, chain, pki::unix_time(now)).is_ok());
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

/// The certificates of a client, which has proved in the handshake that it has the key, and their verification.
pub(crate) struct Shown {
    certificates: Vec<CertificateDer<'static>>,
    judged: Mutex<(Arc<Tls>, Peer)>,
}

impl Shown {
    pub(crate) fn new(connection: &ServerConnection, tls: Arc<Tls>, now: Timestamp) -> Self {
        let certificates: Vec<_> = connection.peer_certificates().into_iter().flatten().map(|shown| shown.clone().into_owned()).collect();
        let peer = tls.peer(&certificates, now);
        Self { certificates, judged: Mutex::new((tls, peer)) }
    }

    /// Returns the identity by the current authorities, which may have changed since the start of the connection.
    pub(crate) fn peer(&self, tls: &Arc<Tls>, now: Timestamp) -> Peer {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&judged.0, tls) {
            *judged = (Arc::clone(tls), tls.peer(&self.certificates, now));
        }
        judged.1.clone()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Accepts every certificate, but only from the holder of its key.
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
