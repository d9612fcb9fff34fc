//! ResourceQuota and LimitRange.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    limit_range::ratio,
    names::check_qualified_name,
    pod::{
        quantities::{ResourceList, parse, round_up},
        validate::resources::{may_be_overcommitted, validate_amount, validate_container_resource, validate_resource_name},
    },
    quantity::Quantity,
    unset::list,
};
use k8s_openapi::{
    api::core::v1::{LimitRange, LimitRangeItem, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopedResourceSelectorRequirement},
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The resources without a domain that a quota counts.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The amounts without a domain that a quota limits.
const MEASURED: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// The types of a limit range without a domain.
const LIMITED: &[&str] = &["Container", "PersistentVolumeClaim", "Pod"];

/// The resources of a quota for best-effort pods.
const OF_PODS: &[&str] = &["pods"];
/// The resources of a quota for pods with other traits.
const OF_COMPUTE: &[&str] = &["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];
/// The resources of a quota for claims of some class.
const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

impl Kind for ResourceQuota {
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default().hard.iter_mut().for_each(round_up);
        let status = self.status.get_or_insert_default();
        [&mut status.hard, &mut status.used].into_iter().flatten().for_each(round_up);
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = Some(ResourceQuotaStatus::default());
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if let Some(spec) = &self.spec {
            validate_hard(spec.hard.as_ref(), &Path::new("spec.hard"), &mut faults);
            validate_scopes(spec, &mut faults);
        }
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let scopes = |quota: &Self| quota.spec.as_ref().map(|spec| spec.scopes.clone().unwrap_or_default()).unwrap_or_default();
        let mut faults = Kind::validate(self, gates);
        if scopes(self) != scopes(old) {
            faults.push(FieldError::invalid(&Path::new("spec.scopes"), scopes(self), IMMUTABLE));
        }
        faults
    }

    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if let Some(status) = &self.status {
            validate_hard(status.hard.as_ref(), &Path::new("status.hard"), &mut faults);
            validate_hard(status.used.as_ref(), &Path::new("status.used"), &mut faults);
        }
        faults.into_vec()
    }
}

fn validate_hard(amounts: Option<&ResourceList>, path: &Path, faults: &mut Faults) {
    for (name, quantity) in amounts.into_iter().flatten() {
        let path = path.key(name);
        validate_resource_name(name, &path, faults);
        let is_counted = COUNTED.contains(&name.as_str());
        if !name.contains('/') && !is_standard(name) {
            faults.invalid(&path, name.as_str(), "must be a standard resource for quota");
        }
        validate_amount(name, quantity, &path, faults);
        if is_counted && parse(quantity).is_some_and(|number| !number.is_integer()) {
            faults.invalid(&path, quantity.0.as_str(), "must be an integer");
        }
    }
}

/// Whether a quota limits it without a domain.
fn is_standard(name: &str) -> bool {
    let bare = name.strip_prefix("requests.").unwrap_or(name);
    COUNTED.contains(&name) || MEASURED.contains(&name) || bare.starts_with("hugepages-")
}

fn validate_scopes(spec: &ResourceQuotaSpec, faults: &mut Faults) {
    let (scopes, path) = (list(&spec.scopes), Path::new("spec.scopes"));
    for scope in scopes {
        if !SCOPES.contains(&scope.as_str()) {
            faults.invalid(&path, scopes.to_vec(), "unsupported scope");
        }
        (0..foreign_resources(spec, scope)).for_each(|_| faults.invalid(&path, scopes.to_vec(), OUT_OF_SCOPE));
    }
    let has = |scope: &str| scopes.iter().any(|other| other == scope);
    if CONFLICTING.iter().any(|[one, other]| has(one) && has(other)) {
        faults.invalid(&path, scopes.to_vec(), "conflicting scopes");
    }
    let Some(selector) = &spec.scope_selector else { return };
    let (wanted, path) = (list(&selector.match_expressions), Path::new("spec.scopeSelector.matchExpressions"));
    for requirement in wanted {
        (0..foreign_resources(spec, &requirement.scope_name)).for_each(|_| faults.invalid(&path, json!(selector), OUT_OF_SCOPE));
        validate_requirement(requirement, &path, faults);
    }
    let has = |scope: &str| wanted.iter().any(|other| other.scope_name == scope);
    if CONFLICTING.iter().any(|[one, other]| has(one) && has(other)) {
        faults.invalid(&path, Value::Null, "conflicting scopes");
    }
}

const OUT_OF_SCOPE: &str = "unsupported scope applied to resource";
const CONFLICTING: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Returns the number of limited resources that no object of the scope uses. Names with a domain, including `count/…`,
/// always pass, and so does an unknown scope.
fn foreign_resources(spec: &ResourceQuotaSpec, scope: &str) -> usize {
    let fitting = match scope {
        _ if !SCOPES.contains(&scope) => return 0,
        "BestEffort" => OF_PODS,
        "VolumeAttributesClass" => OF_CLAIMS,
        _ => OF_COMPUTE,
    };
    let names = spec.hard.iter().flat_map(|hard| hard.keys());
    names.filter(|name| is_standard(name) && !fitting.contains(&name.as_str())).count()
}

/// Only priority classes and volume attributes have names to choose from.
fn validate_requirement(wanted: &ScopedResourceSelectorRequirement, path: &Path, faults: &mut Faults) {
    let scope = wanted.scope_name.as_str();
    if !SCOPES.contains(&scope) {
        faults.invalid(&path.child("scopeName"), scope, "unsupported scope");
    }
    let has_names = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    if SCOPES.contains(&scope) && !has_names && wanted.operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                      ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        faults.invalid(&path.child("operator"), wanted.operator.as_str(), detail);
    }
    let values = list(&wanted.values);
    match wanted.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            faults.required(&path.child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            faults.invalid(&path.child("values"), values.to_vec(), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => (),
        other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
}

impl Kind for LimitRange {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default().limits.iter_mut().for_each(set_item_defaults);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let mut types = BTreeSet::new();
        for (index, item) in self.spec.iter().flat_map(|spec| &spec.limits).enumerate() {
            let path = Path::new("spec.limits").index(index);
            validate_type(&item.type_, &path.child("type"), &mut faults);
            faults.unique(&path.child("type"), &item.type_, &mut types);
            validate_item(item, &path, &mut faults);
        }
        faults.into_vec()
    }
}

/// Defaults of a container item: the limit is the maximum, and the request is the limit or otherwise the minimum.
fn set_item_defaults(item: &mut LimitRangeItem) {
    let lists = [&mut item.max, &mut item.min, &mut item.default, &mut item.default_request, &mut item.max_limit_request_ratio];
    lists.into_iter().flatten().for_each(round_up);
    if item.type_ != "Container" {
        return;
    }
    fill(&mut item.default, item.max.as_ref());
    fill(&mut item.default_request, item.default.as_ref());
    fill(&mut item.default_request, item.min.as_ref());
}

fn fill(list: &mut Option<ResourceList>, from: Option<&ResourceList>) {
    for (name, quantity) in from.into_iter().flatten() {
        list.get_or_insert_default().entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

/// One bound of a limit range: its field, and its name in messages.
#[derive(Clone, Copy)]
struct Bound<'a> {
    field: &'static str,
    words: &'static str,
    amounts: &'a Option<ResourceList>,
}

fn validate_item(item: &LimitRangeItem, path: &Path, faults: &mut Faults) {
    let min = Bound { field: "min", words: "min value", amounts: &item.min };
    let max = Bound { field: "max", words: "max value", amounts: &item.max };
    let limit = Bound { field: "default", words: "default value", amounts: &item.default };
    let request = Bound { field: "defaultRequest", words: "default request value", amounts: &item.default_request };
    let is_of_pods = item.type_ == "Pod" || item.type_ == "Container";
    for bound in [&max, &min, &limit, &request] {
        let is_default = matches!(bound.field, "default" | "defaultRequest");
        if is_default && item.type_ == "Pod" {
            if bound.amounts.as_ref().is_some_and(|list| !list.is_empty()) {
                faults.forbidden(&path.child(bound.field), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for name in bound.amounts.iter().flatten().map(|(name, _)| name) {
            validate_limited(name, is_of_pods, &path.child(bound.field).key(name), faults);
        }
    }
    for name in item.max_limit_request_ratio.iter().flatten().map(|(name, _)| name) {
        validate_limited(name, is_of_pods, &path.child("maxLimitRequestRatio").key(name), faults);
    }
    if item.type_ == "PersistentVolumeClaim" && ![&min, &max].into_iter().any(|bound| bound.amount("storage").is_some()) {
        faults.required(&path.child("limits"), "either minimum or maximum storage value is required, but neither was provided");
    }
    validate_order((&min, &max), &min, path, faults);
    validate_order((&min, &request), &request, path, faults);
    validate_order((&request, &max), &request, path, faults);
    let as_limit = Bound { words: "default limit value", ..limit };
    validate_order((&request, &as_limit), &request, path, faults);
    validate_order((&min, &limit), &limit, path, faults);
    validate_order((&limit, &max), &limit, path, faults);
    for (name, ratio) in item.max_limit_request_ratio.iter().flatten() {
        validate_ratio(ratio, min.amount(name).zip(max.amount(name)), &path.child("maxLimitRequestRatio").key(name), faults);
    }
    for (name, asked) in item.default_request.iter().flatten().filter(|(name, _)| !may_be_overcommitted(name)) {
        if let Some(given) = item.default.as_ref().and_then(|list| list.get(name)).filter(|given| parse(given) != parse(asked)) {
            let detail = format!("default value {} must equal to defaultRequest value {} in {name}", given.0, asked.0);
            faults.invalid(&path.child("defaultRequest").key(name), asked.0.as_str(), detail);
        }
    }
}

fn validate_limited(name: &str, is_of_pods: bool, path: &Path, faults: &mut Faults) {
    if is_of_pods { validate_container_resource(name, path, faults) } else { validate_resource_name(name, path, faults) }
}

/// Validates a type: one of upstream's, or one with a domain.
fn validate_type(kind: &str, path: &Path, faults: &mut Faults) {
    let before = faults.len();
    faults.form(path, kind, check_qualified_name);
    if faults.len() == before && !kind.contains('/') && !LIMITED.contains(&kind) {
        faults.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
}

/// A ratio is at least 1, and at most what the bounds permit.
fn validate_ratio(wire: &WireQuantity, bounds: Option<(Quantity, Quantity)>, path: &Path, faults: &mut Faults) {
    let Some(most) = parse(wire) else { return validate_amount("", wire, path, faults) };
    if most < Quantity::from_integer(1) {
        faults.invalid(path, wire.0.as_str(), format!("ratio {} is less than 1", wire.0));
    }
    let room = bounds.filter(|(min, _)| !min.is_zero()).map(|(min, max)| ratio(max, min));
    if let Some(room) = room.filter(|room| ratio(most, Quantity::from_integer(1)) > *room) {
        faults.invalid(path, wire.0.as_str(), format!("ratio {} is greater than max/min = {room:.6}", wire.0));
    }
}

impl Bound<'_> {
    fn amount(&self, name: &str) -> Option<Quantity> {
        self.amounts.as_ref()?.get(name).and_then(parse)
    }
}

/// For each resource in both, `low` must not exceed `high`. The error is at `at`, and for a default it contains the
/// bound.
fn validate_order((low, high): (&Bound<'_>, &Bound<'_>), at: &Bound<'_>, path: &Path, faults: &mut Faults) {
    let path = path.child(at.field);
    for (name, low_quantity) in low.amounts.iter().flatten() {
        let Some(high_quantity) = high.amounts.as_ref().and_then(|amounts| amounts.get(name)) else { continue };
        let (Some(low_number), Some(high_number)) = (parse(low_quantity), parse(high_quantity)) else { continue };
        if low_number > high_number {
            let is_low_shown = (at.field == low.field) != (at.field == "default");
            let value = if is_low_shown { low_quantity } else { high_quantity };
            let detail = format!("{} {} is greater than {} {}", low.words, low_quantity.0, high.words, high_quantity.0);
            faults.invalid(&path.key(name), value.0.as_str(), detail);
        }
    }
}
