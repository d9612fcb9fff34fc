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

/// Returns the number of a quantity, or `None` if it is malformed, which validation reports.
pub(crate) fn parse(quantity: &WireQuantity) -> Option<Quantity> {
    quantity.0.parse().ok()
}

/// Converts every valid quantity to its canonical text, rounded up to thousandths.
pub(crate) fn round_up(list: &mut ResourceList) {
    for quantity in list.values_mut() {
        canonicalise(quantity);
    }
}

/// Converts a valid quantity to its canonical text, rounded up to thousandths.
pub(crate) fn canonicalise(quantity: &mut WireQuantity) {
    if let Some(number) = parse(quantity) {
        quantity.0 = number.round_up_to_milli().to_string();
    }
}

/// Whether it is positive.
pub(super) fn is_positive(quantity: &WireQuantity) -> bool {
    parse(quantity).is_some_and(|number| number > Quantity::ZERO)
}

/// Whether it is a fractional number of bytes, such as `128m` instead of `128M`.
pub(super) fn is_fractional_bytes(quantity: &WireQuantity) -> bool {
    parse(quantity).is_some_and(|number| !number.is_integer())
}

/// Returns what a node must have available for the pod. For each resource, that is the maximum of the sum over
/// containers and of the peak of the init containers, plus the overhead. Init containers that keep running (sidecars)
/// count together with all later ones. Pod-level requests replace those of the containers. Malformed quantities count
/// as zero.
#[must_use]
pub fn total_requests(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let mut total = requests_of_spec(spec);
    for (name, overhead) in spec.overhead.iter().flat_map(amounts) {
        add(&mut total, name, overhead);
    }
    total
}

/// Does the same as [`total_requests`] for limits. Overhead is only added to an existing limit.
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

/// Returns [`total_requests`] without the overhead: the requests of the pod's own manifest.
pub(crate) fn requests_of_spec(spec: &PodSpec) -> Amounts {
    part_of_spec(spec, |resources| resources.requests.as_ref())
}

/// Does the same as [`requests_of_spec`] for limits.
pub(crate) fn limits_of_spec(spec: &PodSpec) -> Amounts {
    part_of_spec(spec, |resources| resources.limits.as_ref())
}

/// Does the same as [`requests_of_spec`] for the containers only.
pub(crate) fn requests_of_containers(spec: &PodSpec) -> Amounts {
    containers_total(spec, |resources| resources.requests.as_ref())
}

/// Does the same as [`requests_of_containers`] for limits.
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
