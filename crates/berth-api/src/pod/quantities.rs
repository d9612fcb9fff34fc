//! Sums and comparisons over resource lists.

use crate::{quantity::Quantity, unset::list};
use k8s_openapi::{
    api::core::v1::{Container, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};
use std::collections::BTreeMap;

/// Resources by name, as on the wire.
pub(crate) type ResourceList = BTreeMap<String, WireQuantity>;

/// Resources by name, as numbers.
type Amounts = BTreeMap<String, Quantity>;

/// The number of a quantity; absent if it is malformed, which validation reports.
pub(crate) fn parse(quantity: &WireQuantity) -> Option<Quantity> {
    quantity.0.parse().ok()
}

/// Brings every quantity that parses to its canonical text, rounded up to thousandths.
pub(crate) fn round_up(list: &mut ResourceList) {
    for quantity in list.values_mut() {
        canonicalise(quantity);
    }
}

/// Brings a quantity that parses to its canonical text, rounded up to thousandths.
pub(crate) fn canonicalise(quantity: &mut WireQuantity) {
    if let Some(number) = parse(quantity) {
        quantity.0 = number.round_up_to_milli().to_string();
    }
}

/// Whether it is more than nothing.
pub(super) fn is_positive(quantity: &WireQuantity) -> bool {
    parse(quantity).is_some_and(|number| number > Quantity::ZERO)
}

/// Whether it is a number of bytes with a part of a byte, as `128m` is, written where `128M` was meant.
pub(super) fn is_fractional_bytes(quantity: &WireQuantity) -> bool {
    parse(quantity).is_some_and(|number| !number.is_integer())
}

/// What a node must have free for the pod: the sum of its containers' requests, or what its init containers need at their worst moment,
/// whichever is more, for each resource; and its overhead. Init containers that keep running (sidecars) count beside all that come after
/// them. Requests of the pod as a whole stand in for those of its containers. Malformed quantities count as nothing.
#[must_use]
pub fn total_requests(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let mut total = requests_of_spec(spec);
    for (name, overhead) in spec.overhead.iter().flat_map(amounts) {
        add(&mut total, name, overhead);
    }
    total
}

/// As [`total_requests`], of the limits. Overhead counts only where there is a limit that it adds to.
#[must_use]
pub fn total_limits(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let mut total = limits_of_spec(spec);
    for (name, overhead) in spec.overhead.iter().flat_map(amounts) {
        if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = limit.plus(overhead);
        }
    }
    total
}

/// [`total_requests`] without the overhead: what the pod's own manifest asks for.
pub(crate) fn requests_of_spec(spec: &PodSpec) -> Amounts {
    part_of_spec(spec, |resources| resources.requests.as_ref())
}

/// As [`requests_of_spec`], of the limits.
pub(crate) fn limits_of_spec(spec: &PodSpec) -> Amounts {
    part_of_spec(spec, |resources| resources.limits.as_ref())
}

/// As [`requests_of_spec`], of the containers alone.
pub(crate) fn requests_of_containers(spec: &PodSpec) -> Amounts {
    containers_total(spec, |resources| resources.requests.as_ref())
}

/// As [`requests_of_containers`], of the limits.
pub(super) fn limits_of_containers(spec: &PodSpec) -> Amounts {
    containers_total(spec, |resources| resources.limits.as_ref())
}

fn part_of_spec(spec: &PodSpec, part: Part) -> Amounts {
    let mut total = containers_total(spec, part);
    let whole = spec.resources.as_ref().and_then(part);
    total.extend(whole.into_iter().flat_map(amounts));
    total
}

/// One of the two lists of a container's resources.
type Part = fn(&ResourceRequirements) -> Option<&ResourceList>;

fn containers_total(spec: &PodSpec, part: Part) -> Amounts {
    let mut running = Amounts::new();
    let mut worst = Amounts::new();
    for container in list(&spec.init_containers) {
        let mut now = running.clone();
        add_part(&mut now, container, part);
        if container.restart_policy.as_deref() == Some("Always") {
            running.clone_from(&now);
        }
        raise(&mut worst, now);
    }
    for container in &spec.containers {
        add_part(&mut running, container, part);
    }
    raise(&mut running, worst);
    running
}

fn add_part(total: &mut Amounts, container: &Container, part: Part) {
    for (name, amount) in container.resources.as_ref().and_then(part).into_iter().flat_map(amounts) {
        add(total, name, amount);
    }
}

fn add(total: &mut Amounts, name: String, amount: Quantity) {
    let sum = total.get(&name).map_or(amount, |present| present.plus(amount));
    total.insert(name, sum);
}

fn raise(amounts: &mut Amounts, others: Amounts) {
    for (name, other) in others {
        let present = amounts.entry(name).or_insert(other);
        *present = (*present).max(other);
    }
}

pub(crate) fn amounts(list: &ResourceList) -> impl Iterator<Item = (String, Quantity)> {
    list.iter().filter_map(|(name, quantity)| Some((name.clone(), parse(quantity)?)))
}
