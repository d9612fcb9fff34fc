//! `ResourceQuota`: a new object is charged to the quotas of its namespace before it is made, by compare-and-set, so that any number of
//! creates at once never get more than there is. What goes away is given back by the quota controller.

use crate::{ApiError, Collection, Registry, Target, checks::Mode, key, resource, stored};
use berth_api::{
    Object,
    k8s_openapi::api::core::v1::{PersistentVolumeClaim, ResourceQuota, Service},
    quantity::Quantity,
    quota::{self, Amounts, Taken},
};
use berth_store::{Entry, Expected, Key, RangeRequest, WriteError};
use futures::lock::Mutex;
use std::sync::Arc;

/// How often a charge is tried again because another process charged the same quota at the same moment.
const ATTEMPTS: u32 = 100;
/// How many namespaces can be charged at the same time.
const TURNS: usize = 64;

/// Creates of one process take turns at the quotas of a namespace, instead of refusing each other's writes.
pub(crate) struct Turns([Mutex<()>; TURNS]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Turns {
    fn of(&self, namespace: &str) -> &Mutex<()> {
        let hash = namespace.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        &self.0[hash % TURNS]
    }
}

/// What a create was charged, so that it can be given back.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    /// Key and uid of each quota.
    quotas: Vec<(Key, Box<str>)>,
    amounts: Amounts,
}

impl Registry {
    /// Charges a new object to every quota of its namespace that bounds it. A dry run is only asked whether it would fit.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`] where a quota has no room or cannot tell; then nothing is charged.
    pub(crate) async fn charge_quotas(&self, at: &Collection, object: &dyn Object, mode: Mode) -> Result<Charge, ApiError> {
        let Some(namespace) = at.namespace.as_deref() else { return Ok(Charge::default()) };
        if self.quotas(namespace).await?.is_empty() {
            return Ok(Charge::default());
        }
        let taken = quota::taken(&at.resource.group, &at.resource.plural, object);
        self.charge(at, namespace, object, &taken, mode).await
    }

    /// Charges what an object takes more than it took. Only services and claims can; what an object takes less is given back by the quota
    /// controller.
    ///
    /// # Errors
    /// As [`Registry::charge_quotas`].
    pub(crate) async fn charge_growth(&self, target: &Target, old: &dyn Object, new: &dyn Object, mode: Mode) -> Result<Charge, ApiError> {
        let can_grow = new.as_any().is::<Service>() || new.as_any().is::<PersistentVolumeClaim>();
        let Some(namespace) = target.namespace.as_deref().filter(|_| can_grow) else { return Ok(Charge::default()) };
        let [before, mut taken] = [old, new].map(|object| quota::taken(&target.resource.group, &target.resource.plural, object));
        for (name, amount) in &mut taken.amounts {
            *amount = amount.minus(before.amounts.get(name).copied().unwrap_or(Quantity::ZERO));
        }
        taken.amounts.retain(|_, amount| *amount > Quantity::ZERO);
        if taken.amounts.is_empty() || self.quotas(namespace).await?.is_empty() {
            return Ok(Charge::default());
        }
        self.charge(&target.collection(), namespace, new, &taken, mode).await
    }

    async fn charge(&self, at: &Collection, namespace: &str, object: &dyn Object, taken: &Taken, mode: Mode) -> Result<Charge, ApiError> {
        let _turn = self.turns.of(namespace).lock().await;
        let mut charge = Charge { quotas: Vec::new(), amounts: taken.amounts.clone() };
        for entry in self.quotas(namespace).await? {
            let (key, uid) = (entry.key.clone(), entry.header.uid.clone());
            match self.charge_quota(at, object, taken, entry, mode).await {
                Ok(Charged::Yes) => charge.quotas.push((key, uid)),
                Ok(Charged::No) => (),
                Err(error) => {
                    self.give_back(charge).await;
                    return Err(error);
                }
            }
        }
        Ok(charge)
    }

    async fn quotas(&self, namespace: &str) -> Result<Vec<Arc<Entry>>, ApiError> {
        let at = Collection { resource: Arc::clone(quota_resource()), namespace: Some(namespace.to_owned()) };
        let request = RangeRequest::all(key::prefix(&at));
        Ok(self.store.range(request).await?.entries)
    }

    async fn charge_quota(
        &self,
        at: &Collection,
        object: &dyn Object,
        taken: &Taken,
        mut entry: Arc<Entry>,
        mode: Mode,
    ) -> Result<Charged, ApiError> {
        let name = object.meta().name.as_deref().unwrap_or_default();
        for _ in 0..ATTEMPTS {
            let mut loaded = load(&entry)?;
            let after = quota::charge(&loaded, taken, object).map_err(|why| ApiError::forbidden(&at.resource, name, &why, Vec::new()))?;
            if after.is_empty() || mode == Mode::Dry {
                return Ok(Charged::No);
            }
            set_used(&mut loaded, &after);
            match self.store.put(entry.key.clone(), stored::encode(quota_resource(), &loaded), Expected::At(entry.mod_revision)).await {
                Ok(_) => return Ok(Charged::Yes),
                Err(WriteError::Conflict { .. }) => (),
                Err(error) => return Err(ApiError::write_failed(&error)),
            }
            match self.store.get(&entry.key).await? {
                Some(newer) => entry = newer,
                None => return Ok(Charged::No),
            }
        }
        Err(ApiError::Unavailable { message: format!("{} is changed by too many writers at once", entry.key) })
    }

    /// Gives back what a create was charged that `error` ended, unless the object may be there all the same.
    pub(crate) async fn give_back_unless_unknown(&self, charge: Charge, error: &ApiError) {
        if !matches!(error, ApiError::Unavailable { .. }) {
            self.give_back(charge).await;
        }
    }

    /// Gives a charge back. Where that fails, the quota controller will: it counts what is there.
    pub(crate) async fn give_back(&self, charge: Charge) {
        for (key, uid) in charge.quotas {
            for _ in 0..ATTEMPTS {
                let Ok(Some(entry)) = self.store.get(&key).await else { break };
                let Some(mut loaded) = load(&entry).ok().filter(|_| entry.header.uid == uid) else { break };
                let used = quota::from_wire(loaded.status.as_ref().and_then(|status| status.used.as_ref()));
                let given = charge.amounts.iter().filter_map(|(name, amount)| Some((name.clone(), used.get(name)?.minus(*amount))));
                let after: Amounts = given.filter(|(_, amount)| !amount.is_negative()).collect();
                set_used(&mut loaded, &after);
                let put = self.store.put(key.clone(), stored::encode(quota_resource(), &loaded), Expected::At(entry.mod_revision)).await;
                if !matches!(put, Err(WriteError::Conflict { .. })) {
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

fn quota_resource() -> &'static Arc<resource::Resource> {
    resource::find("", "v1", "resourcequotas").expect("quotas are served")
}

fn load(entry: &Entry) -> Result<ResourceQuota, ApiError> {
    let object = stored::load(quota_resource(), entry)?;
    object.into_any().downcast().map(|quota| *quota).map_err(|_| ApiError::UnknownResource)
}

fn set_used(quota: &mut ResourceQuota, after: &Amounts) {
    quota.status.get_or_insert_default().used.get_or_insert_default().extend(quota::to_wire(after));
}
