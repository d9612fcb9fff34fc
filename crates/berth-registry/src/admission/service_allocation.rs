//! Cluster addresses and node ports are charges too: a Service claims them right before it is stored.

use super::{
    Admission, Charges, Operation,
    plug_in::{Chain, PlugIn},
};
use crate::ApiError;
use berth_api::k8s_openapi::api::core::v1::Service;
use berth_store::MinRevision;
use std::mem;

pub(super) struct ServiceAllocation;

impl PlugIn for ServiceAllocation {
    const NAME: &'static str = "ServiceAllocation";

    async fn charge(chain: &Chain, admission: &mut Admission<'_>, charges: &mut Charges) -> Result<(), ApiError> {
        let lingers = admission.operation == Operation::Delete && !admission.removes;
        if lingers || !admission.object.as_any().is::<Service>() {
            return Ok(());
        }
        let (target, mode) = (admission.target(), admission.at.mode);
        // A duplicate name is rejected before anything is claimed.
        if admission.is_new()
            && chain.reader.get(&target.resource, target.namespace.as_deref(), &target.name, &MinRevision::default()).await?.is_some()
        {
            return Err(ApiError::already_exists(admission.at.resource, &target.name));
        }
        let old = admission.old.as_ref().and_then(|old| old.object.downcast_ref());
        let new = if admission.removes { None } else { admission.object.downcast_mut() };
        charges.allocation = chain.allocator.allocate(&target, mode, old, new).await?;
        Ok(())
    }

    async fn settle(chain: &Chain, admission: &Admission<'_>, charges: &Charges) -> Result<(), ApiError> {
        if charges.allocation.is_empty() { Ok(()) } else { chain.allocator.secure(&admission.target(), &charges.allocation).await }
    }

    async fn give_back(chain: &Chain, charges: &mut Charges) {
        chain.allocator.take_back(mem::take(&mut charges.allocation)).await;
    }
}
