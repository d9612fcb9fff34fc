//! Signs certificates of approved requests with the server's own CA.

use berth_apiserver::pki::{Authority, SERIAL_BYTES, SignError, Wanted};
use berth_controllers::certificates::{CertificateSigner, SigningError};
use berth_env::{Env, Rng};
use berth_workloads::certificate::WantedCertificate;
use std::{error::Error, sync::Arc};

/// The CA, and the source of serial numbers.
struct Signer {
    authority: Authority,
    rng: Arc<dyn Rng>,
}

/// Returns the signer of a server that has the key of its CA.
pub(super) fn signer(authority: Option<Authority>, env: &Env) -> Option<Arc<dyn CertificateSigner>> {
    let signer = Signer { authority: authority?, rng: Arc::clone(&env.rng) };
    Some(Arc::new(signer))
}

impl CertificateSigner for Signer {
    fn sign(&self, wanted: &WantedCertificate) -> Result<String, SigningError> {
        let mut serial = [0; SERIAL_BYTES];
        self.rng.fill(&mut serial);
        let WantedCertificate { request, usages, not_before, not_after } = wanted;
        let signed = self.authority.sign(&Wanted { request, usages, validity: (*not_before, *not_after), serial });
        signed.map_err(|error: SignError| {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            SigningError(format!("{error}{cause}"))
        })
    }
}
