//! EndpointSlices of a Service: at most [`SLICE_MAX`] endpoints each, all of one family and with the same ports.
//!
//! A plan changes as little as possible. An endpoint stays in its slice. New endpoints go into slices that are written anyway or that have
//! room, and only then into new slices.
//!
//! Source: kubernetes `endpointslice/reconciler.go`.

use super::{
    TargetPort, has_pods, hostname, labels_with, reference, set, target_port,
    view::{EndpointPodView, ServiceView, SliceView},
};
use crate::{
    hash::safe_encode,
    plan::{Action, Outcome, Plan, Reason, Stage, Urgency, merge_patch},
};
use berth_identity::Uid;
use k8s_openapi::{
    api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of endpoints in one slice.
pub const SLICE_MAX: usize = 100;
/// The label that names the Service of a slice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names the controller of a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// This controller in [`MANAGED_BY`].
pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
const NAME_MAX: usize = 63;

/// The input of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSliceState<'a> {
    /// The Service.
    pub service: &'a ServiceView,
    /// The pods that it selects, by name.
    pub pods: Vec<&'a EndpointPodView>,
    /// Its slices that this controller manages, by name.
    pub slices: Vec<&'a SliceView>,
    /// The zones of the pods' nodes, by the names of the nodes. A node without a zone is absent.
    pub zones: BTreeMap<String, String>,
}

type Ports = Vec<TargetPort>;

/// Endpoints by the uids of their pods.
type Wanted = BTreeMap<Uid, Endpoint>;

/// The changes to one slice.
struct Draft<'a> {
    before: Option<&'a SliceView>,
    after: EndpointSlice,
}

impl Draft<'_> {
    fn is_changed(&self) -> bool {
        self.before.is_none_or(|before| before.slice != self.after)
    }

    fn room(&self) -> usize {
        SLICE_MAX.saturating_sub(self.after.endpoints.as_ref().map_or(0, Vec::len))
    }

    fn is_empty(&self) -> bool {
        self.after.endpoints.as_ref().is_none_or(Vec::is_empty)
    }
}

/// Plans the slices of the Service's pods. Writes nothing if another component manages them.
#[must_use]
pub fn plan(state: &EndpointSliceState<'_>) -> Plan {
    let service = state.service;
    if !has_pods(service) || service.deleting {
        return Plan::default();
    }
    let mut names = Names { service, taken: state.slices.iter().filter_map(|slice| slice.slice.metadata.name.clone()).collect() };
    let (mut writes, mut deletes) = (Stage::default(), Stage::default());
    let stale = |slice: &&&SliceView| !service.families.contains(&slice.slice.address_type);
    deletes.actions.extend(state.slices.iter().filter(stale).map(|slice| delete(slice)));
    for family in &service.families {
        for draft in drafts(state, family, &mut names) {
            match draft.before {
                Some(before) if draft.after.address_type.is_empty() => deletes.actions.push(delete(before)),
                Some(before) => writes.actions.extend(update(before, &draft.after)),
                None => writes.actions.push(create(draft.after)),
            }
        }
    }
    // Writes come before deletes, so that clients never miss an endpoint that has only moved.
    Plan { stages: [writes, deletes].into_iter().filter(|stage| !stage.actions.is_empty()).collect(), ..Plan::default() }
}

/// All slices of a family in their desired state. A slice to delete has no address type.
fn drafts<'a>(state: &EndpointSliceState<'a>, family: &str, names: &mut Names<'_>) -> Vec<Draft<'a>> {
    let mut groups = groups(state, family);
    let mut existing: Vec<&'a SliceView> = state.slices.iter().copied().filter(|slice| slice.slice.address_type == family).collect();
    if groups.is_empty() {
        // A Service without endpoints has one empty slice.
        groups.insert(Ports::new(), Wanted::new());
        let keep = existing.first().map(|slice| ports_of(&slice.slice));
        if keep.is_some_and(|ports| !ports.is_empty()) {
            let first = existing.remove(0);
            let rest = existing.into_iter().map(gone);
            let kept = Draft { before: Some(first), after: slice_like(state.service, first, Vec::new(), &Ports::new()) };
            return std::iter::once(kept).chain(rest).collect();
        }
    }
    let mut drafts = Vec::new();
    for (ports, wanted) in groups {
        let (own, others) = existing.into_iter().partition(|slice| ports_of(&slice.slice) == ports);
        existing = others;
        drafts.extend(drafts_of_group(state.service, family, &ports, wanted, own, names));
    }
    drafts.extend(existing.into_iter().map(gone));
    drafts
}

/// The slices of one set of ports.
fn drafts_of_group<'a>(
    service: &ServiceView,
    family: &str,
    ports: &Ports,
    mut wanted: Wanted,
    own: Vec<&'a SliceView>,
    names: &mut Names<'_>,
) -> Vec<Draft<'a>> {
    let nothing = wanted.is_empty();
    let mut drafts: Vec<Draft<'a>> = own
        .into_iter()
        .map(|slice| {
            let stay = |endpoint: &Endpoint| wanted.remove(uid_of(endpoint)?);
            let endpoints = slice.slice.endpoints.iter().flatten().filter_map(stay).collect();
            Draft { before: Some(slice), after: slice_like(service, slice, endpoints, ports) }
        })
        .collect();
    let mut left = wanted.into_values();
    // Prefers slices that are written anyway, then those with the least room.
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|index| (!drafts[*index].is_changed(), drafts[*index].room()));
    for index in order {
        let more: Vec<Endpoint> = left.by_ref().take(drafts[index].room()).collect();
        if !more.is_empty() {
            drafts[index].after.endpoints.get_or_insert_default().extend(more);
        }
    }
    let rest: Vec<Endpoint> = left.collect();
    for chunk in rest.chunks(SLICE_MAX) {
        drafts.push(Draft { before: None, after: new_slice(service, family, chunk.to_vec(), ports, names) });
    }
    let mut keeps_placeholder = nothing;
    for draft in drafts.iter_mut().filter(|draft| draft.is_empty()) {
        if std::mem::take(&mut keeps_placeholder) {
            draft.after.endpoints = None;
        } else {
            draft.after.address_type.clear();
        }
    }
    if keeps_placeholder {
        drafts.push(Draft { before: None, after: new_slice(service, family, Vec::new(), ports, names) });
    }
    drafts
}

fn gone(slice: &SliceView) -> Draft<'_> {
    Draft { before: Some(slice), after: EndpointSlice::default() }
}

/// The desired endpoints, by their ports.
fn groups(state: &EndpointSliceState<'_>, family: &str) -> BTreeMap<Ports, Wanted> {
    let mut groups: BTreeMap<Ports, Wanted> = BTreeMap::new();
    for pod in state.pods.iter().filter(|pod| !pod.is_finished) {
        let Some(address) = pod.address(family) else { continue };
        let mut ports: Ports = state.service.ports.iter().filter_map(|port| target_port(port, pod)).collect();
        ports.sort();
        groups.entry(ports).or_default().insert(pod.uid.clone(), endpoint(state, pod, address.to_string()));
    }
    groups
}

fn endpoint(state: &EndpointSliceState<'_>, pod: &EndpointPodView, address: String) -> Endpoint {
    let conditions = EndpointConditions {
        ready: Some(state.service.publishes_not_ready || (pod.is_ready && !pod.is_terminating)),
        serving: Some(pod.is_ready),
        terminating: Some(pod.is_terminating),
    };
    Endpoint {
        addresses: vec![address],
        conditions: Some(conditions),
        hostname: hostname(state.service, pod),
        node_name: set(&pod.node_name),
        target_ref: Some(reference(pod)),
        zone: state.zones.get(&*pod.node_name).cloned(),
        ..Endpoint::default()
    }
}

fn uid_of(endpoint: &Endpoint) -> Option<&str> {
    endpoint.target_ref.as_ref()?.uid.as_deref()
}

fn ports_of(slice: &EndpointSlice) -> Ports {
    let target = |port: &EndpointPort| TargetPort {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_default(),
        port: port.port.unwrap_or_default(),
        app_protocol: port.app_protocol.clone(),
    };
    let mut ports: Ports = slice.ports.iter().flatten().map(target).collect();
    ports.sort();
    ports
}

fn wire_ports(ports: &Ports) -> Option<Vec<EndpointPort>> {
    let wire = |port: &TargetPort| EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    };
    (!ports.is_empty()).then(|| ports.iter().map(wire).collect())
}

fn labels(service: &ServiceView) -> BTreeMap<String, String> {
    let others = [(MANAGED_BY, CONTROLLER), (SERVICE_NAME, &service.name)];
    labels_with(service, &others, &[MANAGED_BY, SERVICE_NAME, super::HEADLESS])
}

/// An existing slice with these endpoints.
fn slice_like(service: &ServiceView, slice: &SliceView, endpoints: Vec<Endpoint>, ports: &Ports) -> EndpointSlice {
    let mut after = slice.slice.clone();
    after.metadata.labels = Some(labels(service));
    // A different order alone is no reason to write.
    if ports_of(&after) != *ports {
        after.ports = wire_ports(ports);
    }
    after.endpoints = (!endpoints.is_empty()).then_some(endpoints);
    if slice.slice.endpoints.as_ref().is_some_and(Vec::is_empty) && after.endpoints.is_none() {
        after.endpoints = Some(Vec::new());
    }
    after
}

fn new_slice(service: &ServiceView, family: &str, endpoints: Vec<Endpoint>, ports: &Ports, names: &mut Names<'_>) -> EndpointSlice {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: service.name.to_string(),
        uid: service.uid.to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let (name, base) = names.next(family);
    let metadata = ObjectMeta {
        name: Some(name),
        generate_name: Some(base),
        namespace: Some(service.namespace.to_string()),
        labels: Some(labels(service)),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints: (!endpoints.is_empty()).then_some(endpoints),
        metadata,
        ports: wire_ports(ports),
    }
}

/// Generates names for new slices. The same state results in the same names, so that a create can be retried.
struct Names<'a> {
    service: &'a ServiceView,
    taken: BTreeSet<String>,
}

impl Names<'_> {
    fn next(&mut self, family: &str) -> (String, String) {
        /// A hash is at most ten digits.
        const SUFFIX_MAX: usize = 10;
        let service = self.service;
        let base = format!("{}-", service.name.get(..NAME_MAX - SUFFIX_MAX - 1).unwrap_or(&service.name));
        let name = (0_u32..)
            .map(|number| {
                let text = format!("{}/{family}/{number}", service.uid);
                let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
                format!("{base}{}", safe_encode(&hash.to_string()))
            })
            .find(|name| !self.taken.contains(name))
            .expect("a Service has fewer slices than there are numbers");
        self.taken.insert(name.clone());
        (name, base)
    }
}

fn create(slice: EndpointSlice) -> Action {
    let endpoints = slice.endpoints.as_ref().map_or(0, Vec::len);
    Action::Create { object: slice.into(), reason: Reason::NoPlace { endpoints }, events: Outcome::default() }
}

fn update(before: &SliceView, after: &EndpointSlice) -> Option<Action> {
    let patch = merge_patch(&before.slice, after)?;
    let reason = Reason::EndpointsChanged;
    Some(Action::Patch { target: before.reference(), subresource: None, patch, urgency: Urgency::Now, reason, events: Outcome::default() })
}

fn delete(slice: &SliceView) -> Action {
    Action::Delete {
        target: slice.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::SliceEmpty,
        events: Outcome::default(),
    }
}

#[cfg(test)]
mod tests;
