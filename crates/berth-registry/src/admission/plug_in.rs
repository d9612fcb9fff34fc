//! A plug-in of the chain, and the context of plug-ins.

use super::{Admission, Charges, Entailed, Happened, quotas::Quotas, reader::Reader, reviewer::Reviewer};
use crate::{ApiError, allocation::Allocator, authorization::Authorizer, pressure::Pressure, shares::Shares};
use berth_api::{FeatureGates, certificates::CertificateRequest};
use berth_store::{
    Store,
    env::{Clock, Rng},
};
use std::{future::ready, sync::Arc};

/// The context of the chain. It reads objects as the system and writes only the objects of charges. Its stages are in
/// [`super::chain`]. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(super) reader: Reader,
    pub(super) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) gates: Arc<FeatureGates>,
    pub(crate) authorizer: Arc<Authorizer>,
    /// The reviewers of writes, in this order.
    pub(crate) reviewers: Arc<[Arc<dyn Reviewer>]>,
    /// Checks signatures of requests for certificates. `None`: they are not checked.
    pub(crate) verifier: Option<Arc<dyn RequestVerifier>>,
    pub(crate) pressure: Pressure,
    pub(crate) shares: Arc<Shares>,
    pub(super) quotas: Quotas,
    /// Allocates addresses and node ports for Services.
    pub(crate) allocator: Allocator,
}

impl Chain {
    /// Returns a chain over the objects in `store`, without reviewers and without limits of memory and history.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        gates: Arc<FeatureGates>,
        authorizer: Arc<Authorizer>,
    ) -> Self {
        Self {
            reader: Reader::of(Arc::clone(&store)),
            quotas: Quotas::of(Arc::clone(&store)),
            allocator: Allocator { store, clock: Arc::clone(&clock), rng: Arc::clone(&rng), ranges: Arc::default() },
            clock,
            rng,
            gates,
            authorizer,
            reviewers: Arc::default(),
            verifier: None,
            pressure: Pressure::default(),
            shares: Arc::default(),
        }
    }
}

/// Checks the signatures of requests for certificates, which needs cryptography.
pub trait RequestVerifier: Send + Sync {
    /// # Errors
    /// Why the signature is not that of the request's key, in upstream's words.
    fn verify(&self, request: &CertificateRequest) -> Result<(), &'static str>;
}

/// A plug-in of the chain. It takes part in the stages whose methods it implements. Each method is called for every
/// write and ignores irrelevant ones.
///
/// The chain calls plug-ins one after the other with static dispatch, so that an irrelevant write costs nothing.
pub(crate) trait PlugIn {
    /// The name, as upstream if upstream has this plug-in.
    const NAME: &'static str;

    /// Changes or rejects an object that is created or changed. The object has its defaults and is not validated. May
    /// run twice for one object.
    fn mutate(_chain: &Chain, _admission: &mut Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Rejects a caller without the right to write these fields.
    fn authorize(_chain: &Chain, _admission: &Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Rejects a write whose object is complete and valid, or adds warnings.
    fn validate(_chain: &Chain, _admission: &mut Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Records facts about the write that only the server knows, on an accepted object. No validation follows. May run
    /// twice for one object.
    fn record(_chain: &Chain, _admission: &mut Admission<'_>) {}

    /// Charges the write against limits. A dry run only checks the limits. A failed charge changes nothing.
    fn charge(_chain: &Chain, _admission: &mut Admission<'_>, _charges: &mut Charges) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Confirms charges after the object is stored. If it fails, the write is undone.
    fn settle(_chain: &Chain, _admission: &Admission<'_>, _charges: &Charges) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Gives charges back if the object is not stored.
    fn give_back(_chain: &Chain, _charges: &mut Charges) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Returns the follow-up write of a stored write. The registry writes it as the system.
    fn entails(_happened: &Happened<'_>) -> Option<Entailed> {
        None
    }
}
