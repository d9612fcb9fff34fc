//! Cluster addresses of Services: each in 10.96.0.0/16, none given twice, free again when its Service goes.

use crate::{ApiError, Current, Registry, Target, checks::Mode, create::accepted, header, key, stored};
use berth_api::{FieldError, FieldErrorReason, Object, Path, k8s_openapi::api::core::v1::Service};
use berth_store::{Entry, Expected, RangeRequest};
use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc};

/// The first address of the range; the range has 2^16.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const PREFIX_LENGTH: u32 = 16;
/// How often an address is chosen again because another Service was given it at the same moment.
const ATTEMPTS: u32 = 16;

/// What a Service wants of the range.
enum Wish {
    /// Headless, or only a name for something outside.
    Nothing,
    Any,
    This(Ipv4Addr),
}

impl Registry {
    /// Stores a new Service under an address of its own; `None`: the name is taken.
    ///
    /// Addresses in use are read from the Services themselves. Two creates at one moment may choose the same one (then the younger, by
    /// revision, gives way): each looks again when it is stored, so at least one sees the other.
    pub(crate) async fn store_new_service(
        &self,
        target: &Target,
        object: &mut dyn Object,
        mode: Mode,
    ) -> Result<Option<Current>, ApiError> {
        let wish = wish(target, service_of(object))?;
        self.assign(target, object, &wish).await?;
        if mode == Mode::Dry {
            let is_free = self.store.get(&target.key()).await?.is_none();
            return Ok(is_free.then(|| Current::Made(object.to_value())));
        }
        let put = self.store.put(target.key(), stored::encode(target.resource, object), Expected::Absent).await;
        let Some(mut entry) = accepted(put)? else { return Ok(None) };
        for _ in 0..ATTEMPTS {
            if matches!(wish, Wish::Nothing) || !self.must_give_way(target, &entry).await? {
                return Ok(Some(Current::Stored(entry)));
            }
            if matches!(wish, Wish::This(_)) {
                // Deleting what was just made is this request's own undoing; if somebody changed it meanwhile, it stays theirs.
                let _ = self.store.delete(target.key(), entry.value.clone(), entry.mod_revision).await;
                return Err(taken(target, service_of(object)));
            }
            self.assign(target, object, &wish).await?;
            let put = self.store.put(target.key(), stored::encode(target.resource, object), Expected::At(entry.mod_revision)).await;
            entry = accepted(put)?.ok_or_else(|| ApiError::modified(target))?;
        }
        Err(ApiError::Unavailable { message: "no cluster address could be agreed on".to_owned() })
    }

    /// Whether an older Service has the address of this one.
    async fn must_give_way(&self, target: &Target, entry: &Entry) -> Result<bool, ApiError> {
        let address = header::field(&entry.header, "spec.clusterIP");
        let services = self.services(target).await?;
        let is_older = |other: &Arc<Entry>| other.key != entry.key && other.create_revision < entry.create_revision;
        Ok(services.iter().any(|other| is_older(other) && header::field(&other.header, "spec.clusterIP") == address))
    }

    async fn services(&self, target: &Target) -> Result<Vec<Arc<Entry>>, ApiError> {
        let request = RangeRequest::all(key::resource_prefix(target.resource));
        Ok(self.store.range(request).await?.entries)
    }

    async fn assign(&self, target: &Target, object: &mut dyn Object, wish: &Wish) -> Result<(), ApiError> {
        let used: BTreeSet<Ipv4Addr> = match wish {
            Wish::Nothing => return Ok(()),
            Wish::Any | Wish::This(_) => {
                let services = self.services(target).await?;
                services
                    .iter()
                    .filter(|entry| entry.key != target.key())
                    .filter_map(|entry| header::field(&entry.header, "spec.clusterIP").parse().ok())
                    .collect()
            }
        };
        let address = match wish {
            Wish::This(address) if used.contains(address) => return Err(taken(target, service_of(object))),
            Wish::This(address) => *address,
            Wish::Any | Wish::Nothing => self.free_address(target, &used)?,
        };
        let spec = service_of_mut(object).spec.get_or_insert_default();
        spec.cluster_ip = Some(address.to_string());
        spec.cluster_ips = Some(vec![address.to_string()]);
        Ok(())
    }

    /// An address that is not in use: the first free one behind a random place.
    fn free_address(&self, target: &Target, used: &BTreeSet<Ipv4Addr>) -> Result<Ipv4Addr, ApiError> {
        // The first address names the network and the last is its broadcast address.
        let size = (1 << (32 - PREFIX_LENGTH)) - 2;
        let start = u32::try_from(self.rng.below(u64::from(size))).expect("below 2^16");
        let nth = |n: u32| Ipv4Addr::from_bits(NETWORK.to_bits() + 1 + (start + n) % size);
        (0..size).map(nth).find(|address| !used.contains(address)).ok_or_else(|| {
            let error = FieldError {
                field: field(),
                reason: FieldErrorReason::Internal,
                detail: "failed to allocate a serviceIP: range is full".to_owned(),
            };
            ApiError::invalid(target.resource, &target.name, vec![error])
        })
    }
}

impl Registry {
    /// Gives an address to a Service that an update makes a real one of an `ExternalName`.
    pub(crate) async fn assign_late(&self, target: &Target, old: &dyn Object, new: &mut dyn Object) -> Result<(), ApiError> {
        let (Some(old), Some(service)) = (old.downcast_ref::<Service>(), new.downcast_ref::<Service>()) else { return Ok(()) };
        if !is_external_name(old) {
            return Ok(());
        }
        let wish = wish(target, service)?;
        self.assign(target, new, &wish).await
    }
}

fn wish(target: &Target, service: &Service) -> Result<Wish, ApiError> {
    if is_external_name(service) {
        return Ok(Wish::Nothing);
    }
    let wanted = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    match wanted {
        "" => Ok(Wish::Any),
        "None" => Ok(Wish::Nothing),
        text => match text.parse::<Ipv4Addr>() {
            Ok(address) if is_in_range(address) => Ok(Wish::This(address)),
            _ => {
                let why = format!(
                    "failed to allocate IP {text}: the provided IP ({text}) is not in the valid range. The range of valid IPs is \
                     {NETWORK}/{PREFIX_LENGTH}"
                );
                Err(refused(target, text, &why))
            }
        },
    }
}

fn is_in_range(address: Ipv4Addr) -> bool {
    address.to_bits() >> (32 - PREFIX_LENGTH) == NETWORK.to_bits() >> (32 - PREFIX_LENGTH)
}

fn taken(target: &Target, service: &Service) -> ApiError {
    let text = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    refused(target, text, &format!("failed to allocate IP {text}: provided IP is already allocated"))
}

fn refused(target: &Target, address: &str, why: &str) -> ApiError {
    ApiError::invalid(target.resource, &target.name, vec![FieldError::invalid(&field(), vec![address], why)])
}

fn field() -> Path {
    Path::new("spec").child("clusterIPs")
}

fn is_external_name(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName")
}

fn service_of(object: &dyn Object) -> &Service {
    object.downcast_ref().expect("only Services come here")
}

fn service_of_mut(object: &mut dyn Object) -> &mut Service {
    object.downcast_mut().expect("only Services come here")
}
