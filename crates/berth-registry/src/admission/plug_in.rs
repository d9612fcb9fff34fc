//! A step of the chain, and what steps work with.

use super::{Admission, Charges, Entailed, Happened, quotas::Quotas, reader::Reader, reviewer::Reviewer};
use crate::{ApiError, allocation::Allocator, authorization::Authorizer, pressure::Pressure, shares::Shares};
use berth_api::FeatureGates;
use berth_store::{
    Store,
    env::{Clock, Rng},
};
use std::{future::ready, sync::Arc};

/// What the chain works with: it reads objects as the system, and writes none but what charges are kept in. Its stages are in [`super::chain`]. Cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct Chain {
    pub(super) reader: Reader,
    pub(super) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) gates: Arc<FeatureGates>,
    pub(crate) authorizer: Arc<Authorizer>,
    /// Who is asked about writes, in this order.
    pub(crate) reviewers: Arc<[Arc<dyn Reviewer>]>,
    pub(crate) pressure: Pressure,
    pub(crate) shares: Arc<Shares>,
    pub(super) quotas: Quotas,
    /// What Services are given.
    pub(crate) allocator: Allocator,
}

impl Chain {
    /// A chain over what is in `store`, without reviewers and without bounds of memory and history.
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
            pressure: Pressure::default(),
            shares: Arc::default(),
        }
    }
}

/// A step of the chain. It takes part in the stages whose methods it has; each is told everything and picks what concerns it.
///
/// Steps are called one after the other, by their types: what has nothing to do costs nothing.
pub(crate) trait PlugIn {
    /// As upstream calls it, where it has it.
    const NAME: &'static str;

    /// Changes an object that is created or changed, or refuses it. It has its defaults and was not validated. May run twice on one object.
    fn mutate(_chain: &Chain, _admission: &mut Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Refuses a caller who may not write just this.
    fn authorize(_chain: &Chain, _admission: &Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Refuses a write whose object is complete and valid, or remarks on it.
    fn validate(_chain: &Chain, _admission: &mut Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Notes on an object that nobody has refused what the server alone knows of the write. Nothing validates it any more. May run twice on one object.
    fn record(_chain: &Chain, _admission: &mut Admission<'_>) {}

    /// Takes what the write needs of what is bounded; a dry run only looks whether it is there. Nothing is taken where it fails.
    fn charge(_chain: &Chain, _admission: &mut Admission<'_>, _charges: &mut Charges) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// The object is stored. Where this fails, that is undone.
    fn settle(_chain: &Chain, _admission: &Admission<'_>, _charges: &Charges) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// The object is not stored.
    fn give_back(_chain: &Chain, _charges: &mut Charges) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// What a write that is stored entails. The registry writes it, as the system.
    fn entails(_happened: &Happened<'_>) -> Option<Entailed> {
        None
    }
}
