//! Chooses the cluster address of a Service.

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

/// The ServiceCIDR that the server creates.
pub(crate) const DEFAULT_CIDR: &str = "kubernetes";
/// The maximum number of addresses of a range that are reserved for Services that request one.
const RESERVED_MAX: u64 = 256;

/// The addresses that a Service requests.
pub(super) enum Wish {
    /// None: it is headless or an `ExternalName`.
    Nothing,
    Any,
    This(IpAddr),
}

/// Returns the request of a valid Service.
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
    /// Checks the families of a Service, which must be the one of this cluster. A headless Service without a selector
    /// needs no address and may have any families.
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
    /// Returns the ranges for new addresses, of the cluster's family: the ServiceCIDRs that are not terminating, or the
    /// server's own range if its ServiceCIDR is missing.
    ///
    /// # Errors
    /// Errors of the store.
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

/// Whether new addresses come from the range: it has no false `Ready` condition and is not terminating.
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
