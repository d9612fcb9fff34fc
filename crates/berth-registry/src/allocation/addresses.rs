//! Which cluster address a Service gets.

use super::{Allocator, Drawer, Good, claim::addresses_prefix, reserved};
use crate::{ApiError, Target, resource, stored};
use berth_api::{
    FieldError, FieldErrorReason, Path,
    ip::{Cidr, family},
    k8s_openapi::api::{
        core::v1::{Service, ServiceSpec},
        networking::v1::ServiceCIDR,
    },
};
use berth_store::RangeRequest;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The ServiceCIDR that the server makes.
pub(crate) const DEFAULT_CIDR: &str = "kubernetes";
/// Most addresses of a range that are kept for those who ask for one by name.
const RESERVED_MAX: u64 = 256;

/// What a Service wants of the ranges.
pub(super) enum Wish {
    /// Headless, or only a name for something outside.
    Nothing,
    Any,
    This(IpAddr),
}

/// What a valid Service wants.
pub(super) fn wish(service: &Service) -> Wish {
    let spec = service.spec.as_ref();
    if spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        return Wish::Nothing;
    }
    match spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default() {
        "" => Wish::Any,
        text => text.parse().map_or(Wish::Nothing, Wish::This),
    }
}

impl Drawer<'_> {
    /// The families that a Service asks for must be the one of this cluster. Nobody gives a Service addresses that has none and no pods.
    pub(super) fn check_families(&self, target: &Target, service: &Service) -> Result<(), ApiError> {
        let spec = service.spec.clone().unwrap_or_default();
        let ours = self.allocator.ranges.cluster_ips.family();
        let path = Path::new("spec");
        let refused = |path: Path, value: Value, why: String| Err(invalid(target, FieldError::invalid(&path, value, why)));
        if spec.cluster_ip.as_deref() == Some("None") && spec.selector.is_none() {
            return Ok(());
        }
        for (index, ip) in spec.cluster_ips.iter().flatten().enumerate() {
            if let Some(other) = ip.parse().ok().map(family).filter(|family| *family != ours) {
                let path = path.child("clusterIPs").index(index);
                return refused(path, json!(spec.cluster_ips), format!("{other} is not configured on this cluster"));
            }
        }
        let mut errors = Vec::new();
        if spec.ip_family_policy.as_deref() == Some("RequireDualStack") {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), "RequireDualStack", why));
        }
        if let Some((index, other)) = spec.ip_families.iter().flatten().enumerate().find(|(_, family)| *family != ours) {
            errors.push(FieldError::invalid(&path.child("ipFamilies").index(index), other.as_str(), "not configured on this cluster"));
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(&target.resource, &target.name, errors)) }
    }

    pub(super) async fn take_address(&mut self, target: &Target, address: IpAddr) -> Result<(), ApiError> {
        let good = Good::Address(address);
        if self.held.contains(&good) {
            return Ok(());
        }
        let refused = |why: &str| {
            let why = format!("failed to allocate IP {address}: {why}");
            Err(invalid(target, FieldError::invalid(&field(), json!([address]), why)))
        };
        if !self.allocator.service_cidrs().await?.iter().any(|range| range.is_host(address)) {
            return refused("the provided network does not match the current range");
        }
        if self.take(good).await? { Ok(()) } else { refused("provided IP is already allocated") }
    }

    pub(super) async fn draw_address(&mut self, target: &Target, service: &mut Service) -> Result<(), ApiError> {
        let mut drawn = None;
        for range in self.allocator.service_cidrs().await? {
            let count = range.host_count();
            let kept = reserved(count, RESERVED_MAX);
            drawn = self.draw(count, kept, addresses_prefix(), |number| Good::Address(range.host(number))).await?;
            if drawn.is_some() {
                break;
            }
        }
        let Some(address) = drawn else {
            let detail = "failed to allocate a serviceIP: range is full".to_owned();
            return Err(invalid(target, FieldError { field: field(), reason: FieldErrorReason::Internal, detail }));
        };
        let spec: &mut ServiceSpec = service.spec.get_or_insert_default();
        spec.cluster_ip = Some(address.to_string());
        spec.cluster_ips = Some(vec![address.to_string()]);
        Ok(())
    }
}

impl Allocator {
    /// The ranges that addresses are given out from, of the cluster's family: those of the ServiceCIDRs that are not on their way out; the
    /// server's own as long as its ServiceCIDR is not there.
    ///
    /// # Errors
    /// The store's.
    async fn service_cidrs(&self) -> Result<Vec<Cidr>, ApiError> {
        let resource = resource::of::<ServiceCIDR>();
        let own = self.ranges.cluster_ips;
        let (mut ranges, mut is_made) = (Vec::new(), false);
        for entry in self.store.range(RangeRequest::all(resource.prefix())).await?.entries {
            let object = stored::load(resource, &entry)?;
            let Some(found) = object.downcast_ref::<ServiceCIDR>() else { continue };
            is_made |= found.metadata.name.as_deref() == Some(DEFAULT_CIDR);
            if is_in_use(found) {
                let cidrs = found.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
                ranges.extend(cidrs.filter_map(|cidr| cidr.parse().ok()).filter(|cidr: &Cidr| cidr.family() == own.family()));
            }
        }
        if !is_made {
            ranges.insert(0, own);
        }
        Ok(ranges)
    }
}

/// Whether addresses are given out from it: nobody says that it is not ready, and it is not being deleted.
fn is_in_use(cidr: &ServiceCIDR) -> bool {
    let mut conditions = cidr.status.iter().flat_map(|status| status.conditions.iter().flatten());
    cidr.metadata.deletion_timestamp.is_none() && !conditions.any(|condition| condition.type_ == "Ready" && condition.status != "True")
}

fn invalid(target: &Target, error: FieldError) -> ApiError {
    ApiError::invalid(&target.resource, &target.name, vec![error])
}

fn field() -> Path {
    Path::new("spec").child("clusterIPs")
}
