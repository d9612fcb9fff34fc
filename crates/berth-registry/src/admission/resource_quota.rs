//! Charges a new object to the quotas of its namespace before it is stored. The charge is a compare-and-set, so that
//! concurrent creates never exceed a quota. The quota controller gives back what deleted objects used.

use super::{
    Admission, Charges,
    plug_in::{Chain, PlugIn},
    quotas::load,
    reader::Reader,
};
use crate::{ApiError, checks::Mode, resource};
use berth_api::{
    Object,
    k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota as WireQuota, Service},
    quantity::Quantity,
    quota::{self, Amounts, PodTraits, Taken},
};
use berth_store::{Entry, Key, MinRevision, WriteError};
use std::{mem, sync::Arc};

/// The maximum number of attempts after conflicts with other processes that charge the same quota.
const ATTEMPTS: u32 = 100;

/// The charge of a write, to give it back.
#[derive(Debug, Default)]
pub(super) struct Charge {
    /// Key and uid of each quota.
    quotas: Vec<(Key, Box<str>)>,
    amounts: Amounts,
}

/// The plug-in that rejects an object for which a quota has no room (`refused_by` of [`ApiError::Forbidden`]).
pub const NAME: &str = "ResourceQuota";

pub(super) struct ResourceQuota;

impl PlugIn for ResourceQuota {
    const NAME: &'static str = NAME;

    /// Charges a new object to every quota of its namespace that limits it. A changed Service or claim is charged its
    /// growth. A changed pod is charged in full to each quota whose scope it enters. The quota controller gives back
    /// what an object uses less.
    async fn charge(chain: &Chain, admission: &mut Admission<'_>, charges: &mut Charges) -> Result<(), ApiError> {
        let Some(namespace) = admission.at.namespace else { return Ok(()) };
        let due = if admission.is_new() {
            // Computing a pod's usage is expensive, and most namespaces have no quota.
            if quotas(&chain.reader, namespace, &admission.as_of).await?.is_empty() {
                return Ok(());
            }
            Due { taken: taken_by(admission, &*admission.object), paid: None }
        } else {
            match growth(admission).or_else(|| move_of_pod(admission)) {
                Some(due) if !quotas(&chain.reader, namespace, &admission.as_of).await?.is_empty() => due,
                _ => return Ok(()),
            }
        };
        charges.quota = chain.charge_quotas(admission, namespace, &due).await?;
        Ok(())
    }

    async fn give_back(chain: &Chain, charges: &mut Charges) {
        chain.give_back_to_quotas(mem::take(&mut charges.quota)).await;
    }
}

fn taken_by(admission: &Admission<'_>, object: &dyn Object) -> Taken {
    quota::taken(admission.at.resource.group_resource(), object)
}

/// The charge of a write.
struct Due {
    taken: Taken,
    /// The previous traits of the object. Quotas whose scope contained it are already charged.
    paid: Option<PodTraits>,
}

/// Returns the charge of a changed pod that enters the scope of other quotas.
fn move_of_pod(admission: &Admission<'_>) -> Option<Due> {
    let (old, new) = admission.changed_kind::<Pod>()?;
    if old.spec == new.spec {
        return None;
    }
    let [before, taken] = [old, new].map(|pod| taken_by(admission, pod));
    let paid = before.traits.filter(|before| taken.traits.as_ref() != Some(before))?;
    Some(Due { taken, paid: Some(paid) })
}

/// Returns the growth of a changed object.
fn growth(admission: &Admission<'_>) -> Option<Due> {
    let (old, new) = admission.changed()?;
    if !new.as_any().is::<Service>() && !new.as_any().is::<PersistentVolumeClaim>() {
        return None;
    }
    let [before, mut taken] = [old, new].map(|object| taken_by(admission, object));
    for (name, amount) in &mut taken.amounts {
        *amount = amount.minus(before.amounts.get(name).copied().unwrap_or(Quantity::ZERO));
    }
    taken.amounts.retain(|_, amount| *amount > Quantity::ZERO);
    (!taken.amounts.is_empty()).then_some(Due { taken, paid: None })
}

impl Chain {
    /// # Errors
    /// [`ApiError::Forbidden`] if a quota has no room or its usage is unknown. Nothing is charged then.
    async fn charge_quotas(&self, admission: &Admission<'_>, namespace: &str, due: &Due) -> Result<Charge, ApiError> {
        let _turn = self.quotas.turn(namespace).await;
        let mut charge = Charge { quotas: Vec::new(), amounts: due.taken.amounts.clone() };
        // Concurrent writes in this process have changed the quotas since.
        for entry in quotas(&self.reader, namespace, &MinRevision::default()).await? {
            let (key, uid) = (entry.key.clone(), entry.header.uid.clone());
            match self.charge_quota(admission, due, entry).await {
                Ok(Charged::Yes) => charge.quotas.push((key, uid)),
                Ok(Charged::No) => (),
                Err(error) => {
                    self.give_back_to_quotas(charge).await;
                    return Err(error);
                }
            }
        }
        Ok(charge)
    }

    async fn charge_quota(&self, admission: &Admission<'_>, due: &Due, mut entry: Arc<Entry>) -> Result<Charged, ApiError> {
        for _ in 0..ATTEMPTS {
            let loaded = load(&entry)?;
            if due.paid.is_some() && quota::is_in_scope(&loaded, due.paid.as_ref()) {
                return Ok(Charged::No);
            }
            let after = quota::charge(&loaded, &due.taken, &*admission.object).map_err(|why| admission.forbidden(&why))?;
            if after.is_empty() || admission.at.mode == Mode::Dry {
                return Ok(Charged::No);
            }
            match self.quotas.set_used(&entry, loaded, &after).await {
                Ok(()) => return Ok(Charged::Yes),
                Err(WriteError::Conflict { .. }) => (),
                Err(error) => return Err(ApiError::write_failed(&error)),
            }
            match self.quotas.newest(&entry.key).await? {
                Some(newer) => entry = newer,
                None => return Ok(Charged::No),
            }
        }
        Err(ApiError::Unavailable { message: format!("{} is changed by too many writers at once", entry.key) })
    }

    /// Gives a charge back. If that fails, the quota controller corrects the usage when it counts the objects.
    async fn give_back_to_quotas(&self, charge: Charge) {
        for (key, uid) in charge.quotas {
            for _ in 0..ATTEMPTS {
                let Ok(Some(entry)) = self.quotas.newest(&key).await else { break };
                let Some(loaded) = load(&entry).ok().filter(|_| entry.header.uid == uid) else { break };
                let used = quota::from_wire(loaded.status.as_ref().and_then(|status| status.used.as_ref()));
                let given = charge.amounts.iter().filter_map(|(name, amount)| Some((name.clone(), used.get(name)?.minus(*amount))));
                let after: Amounts = given.filter(|(_, amount)| !amount.is_negative()).collect();
                if !matches!(self.quotas.set_used(&entry, loaded, &after).await, Err(WriteError::Conflict { .. })) {
                    break;
                }
            }
        }
    }
}

enum Charged {
    Yes,
    /// The quota does not bound the object, or this is a dry run.
    No,
}

async fn quotas(reader: &Reader, namespace: &str, as_of: &MinRevision) -> Result<Vec<Arc<Entry>>, ApiError> {
    reader.list(resource::of::<WireQuota>(), Some(namespace), as_of).await
}
