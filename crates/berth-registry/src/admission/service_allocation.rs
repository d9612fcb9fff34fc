//! Cluster addresses and node ports are charges too: a Service claims what it needs right before it is stored.

use super::{Admission, Charges, Operation, chain::PlugIn};
use crate::{ApiError, Registry};
use berth_api::k8s_openapi::api::core::v1::Service;
use std::mem;

pub(super) struct ServiceAllocation;

impl PlugIn for ServiceAllocation {
    const NAME: &'static str = "ServiceAllocation";

    async fn charge(api: &Registry, admission: &mut Admission<'_>, charges: &mut Charges) -> Result<(), ApiError> {
        let lingers = admission.operation == Operation::Delete && !admission.removes;
        if lingers || !admission.object.as_any().is::<Service>() {
            return Ok(());
        }
        let (target, mode) = (admission.target(), admission.at.mode);
        // A name that is taken is told before anything is claimed.
        if admission.is_new() && api.store.get(&target.key()).await?.is_some() {
            return Err(ApiError::already_exists(admission.at.resource, &target.name));
        }
        let old = admission.old.as_ref().and_then(|old| old.object.downcast_ref());
        let new = if admission.removes { None } else { admission.object.downcast_mut() };
        charges.allocation = api.allocate(&target, mode, old, new).await?;
        Ok(())
    }

    async fn settle(api: &Registry, admission: &Admission<'_>, charges: &Charges) -> Result<(), ApiError> {
        if charges.allocation.is_empty() { Ok(()) } else { api.secure(&admission.target(), &charges.allocation).await }
    }

    async fn give_back(api: &Registry, charges: &mut Charges) {
        api.take_back(mem::take(&mut charges.allocation)).await;
    }
}
