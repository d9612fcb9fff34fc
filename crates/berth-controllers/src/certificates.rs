//! Signs approved CertificateSigningRequests, and deletes old ones.

use crate::{cache::Cache, plan_loop::Planner, worker::Queue};
use berth_identity::ObjectKey;
use berth_workloads::{
    Plan,
    certificate::{self, CertificateView, Decision, Unsigned, WantedCertificate},
    resources::CERTIFICATE_REQUESTS,
    view::View,
};
use jiff::Timestamp;
use std::sync::Arc;

/// All requests.
pub type CertificateCache = Cache<CertificateView>;

/// Has the key of the authority whose clients the API server trusts.
pub trait CertificateSigner: Send + Sync {
    /// Signs a certificate, and returns it as PEM.
    ///
    /// # Errors
    /// Why the authority does not sign for this key. Repeating does not help.
    fn sign(&self, wanted: &WantedCertificate) -> Result<String, SigningError>;
}

/// Why an authority does not sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SigningError(pub String);

/// Plans signatures.
#[derive(Clone)]
pub struct CertificateSigningPlanner {
    requests: Arc<CertificateCache>,
    signer: Arc<dyn CertificateSigner>,
}

/// Plans deletions.
#[derive(Clone)]
pub struct CertificateCleaner(Arc<CertificateCache>);

/// Returns an empty cache of all requests.
pub(crate) fn requests() -> Arc<CertificateCache> {
    Arc::new(CertificateCache::new(CERTIFICATE_REQUESTS))
}

/// Adds the keys of changed requests to `queue`. Call it before the cache starts.
pub(crate) fn wake(requests: &CertificateCache, queue: &Queue<ObjectKey>) {
    let queue = queue.clone();
    requests.on_change(move |delta| delta.new.iter().for_each(|request| queue.add(request.key())));
}

impl CertificateSigningPlanner {
    pub(crate) fn new(requests: Arc<CertificateCache>, signer: Arc<dyn CertificateSigner>) -> Self {
        Self { requests, signer }
    }
}

impl CertificateCleaner {
    pub(crate) fn new(requests: Arc<CertificateCache>) -> Self {
        Self(requests)
    }
}

impl Planner for CertificateSigningPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let request = self.requests.get(key)?;
        Some(match certificate::sign(&request, now) {
            Decision::Act(plan) => *plan,
            Decision::Sign(wanted) => match self.signer.sign(&wanted) {
                Ok(signed) => certificate::issued(&request, &signed),
                Err(SigningError(why)) => certificate::failed(&request, &Unsigned::Key(why)),
            },
        })
    }
}

impl Planner for CertificateCleaner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        Some(certificate::clean(&*self.0.get(key)?, now))
    }
}
