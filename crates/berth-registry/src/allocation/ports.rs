//! Chooses the node ports of a Service.

use super::{Drawer, Good, claim::NODE_PORTS, reserved};
use crate::{ApiError, Target};
use berth_api::{
    FieldError, FieldErrorReason, Path,
    k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec},
};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of ports of the range that are reserved for Services that request one.
const RESERVED_MAX: u64 = 128;
const TAKEN: &str = "provided port is already allocated";

/// The state while one Service's ports are allocated.
#[derive(Default)]
struct Pass {
    /// Node ports by the port of the Service. All protocols of a port share one.
    by_port: BTreeMap<i32, i32>,
    seen: BTreeSet<i32>,
}

impl Drawer<'_> {
    pub(super) async fn fill_in_ports(&mut self, target: &Target, service: &mut Service) -> Result<(), ApiError> {
        let Some(spec) = service.spec.as_mut() else { return Ok(()) };
        let is_balancer = spec.type_.as_deref() == Some("LoadBalancer");
        if !is_balancer && spec.type_.as_deref() != Some("NodePort") {
            return Ok(());
        }
        let may_draw = !is_balancer || spec.allocate_load_balancer_node_ports != Some(false);
        let mut pass = Pass::default();
        for index in 0..spec.ports.as_ref().map_or(0, Vec::len) {
            let ports = spec.ports.get_or_insert_default();
            let wanted = wanted_port(&ports[index], ports, &pass);
            let path = Path::new("spec.ports").index(index).child("nodePort");
            let port = ports[index].port;
            ports[index].node_port = match wanted {
                Some(number) if pass.by_port.get(&port) == Some(&number) => Some(number),
                Some(number) if !pass.seen.contains(&number) => Some(self.take_port(target, &path, number).await?),
                Some(number) => return Err(refused(target, &path, number, TAKEN.to_owned())),
                None if may_draw => Some(self.draw_port(target, &path).await?),
                None => None,
            };
            if let Some(number) = ports[index].node_port {
                pass.by_port.entry(port).or_insert(number);
                pass.seen.insert(number);
            }
        }
        if is_balancer && spec.external_traffic_policy.as_deref() == Some("Local") {
            self.fill_in_health_check(target, spec).await?;
        }
        Ok(())
    }

    async fn fill_in_health_check(&mut self, target: &Target, spec: &mut ServiceSpec) -> Result<(), ApiError> {
        let path = Path::new("spec").child("healthCheckNodePort");
        spec.health_check_node_port = Some(match spec.health_check_node_port {
            None | Some(0) => self.draw_port(target, &path).await?,
            Some(number) => self.take_port(target, &path, number).await.map_err(|error| match error {
                // Upstream returns this error, not an invalid field.
                ApiError::Invalid { errors, .. } => {
                    let why = errors.first().map(|error| error.detail.clone()).unwrap_or_default();
                    ApiError::Internal { message: format!("failed to allocate requested HealthCheck NodePort {number}: {why}") }
                }
                other => other,
            })?,
        });
        Ok(())
    }

    async fn take_port(&mut self, target: &Target, path: &Path, number: i32) -> Result<i32, ApiError> {
        let range = &self.allocator.ranges.node_ports;
        let port = u16::try_from(number).unwrap_or(0);
        let good = Good::NodePort(port);
        if !range.contains(&port) && !self.held.contains(&good) {
            let why = format!("provided port is not in the valid range. The range of valid ports is {}-{}", range.start(), range.end());
            return Err(refused(target, path, number, why));
        }
        if self.take(good).await? { Ok(number) } else { Err(refused(target, path, number, TAKEN.to_owned())) }
    }

    async fn draw_port(&mut self, target: &Target, path: &Path) -> Result<i32, ApiError> {
        let range = &self.allocator.ranges.node_ports;
        let (first, count) = (*range.start(), u64::try_from(range.len()).unwrap_or(u64::MAX));
        let nth = |number: u64| Good::NodePort(first + u16::try_from(number).unwrap_or(u16::MAX - first));
        match self.draw(count, reserved(count, RESERVED_MAX), NODE_PORTS, nth).await? {
            Some(Good::NodePort(port)) => Ok(port.into()),
            Some(Good::Address(_)) | None => {
                let detail = "failed to allocate a nodePort: range is full".to_owned();
                let error = FieldError { field: path.clone(), reason: FieldErrorReason::Internal, detail };
                Err(ApiError::invalid(&target.resource, &target.name, vec![error]))
            }
        }
    }
}

/// Returns the requested node port, or the one that another protocol of the same port has.
fn wanted_port(port: &ServicePort, all: &[ServicePort], pass: &Pass) -> Option<i32> {
    let requested = || all.iter().filter(|other| other.port == port.port).find_map(|other| other.node_port);
    port.node_port.or_else(|| pass.by_port.get(&port.port).copied()).or_else(requested)
}

fn refused(target: &Target, path: &Path, number: i32, why: String) -> ApiError {
    ApiError::invalid(&target.resource, &target.name, vec![FieldError::invalid(path, number, why)])
}
