//! ResourceQuota and LimitRange.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    names::check_qualified_name,
    pod::{
        quantities::{ResourceList, parse, round_up},
        validate::resources::validate_amount,
    },
    quantity::Quantity,
    unset::list,
};
use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
use std::collections::BTreeSet;

/// Things that a quota counts without a domain in front.
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

/// Amounts that a quota bounds without a domain in front.
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
        self.status.get_or_insert_default();
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
        faults.form(&path, name, check_qualified_name);
        let is_counted = COUNTED.contains(&name.as_str());
        let bare = name.strip_prefix("requests.").unwrap_or(name);
        if !(name.contains('/') || is_counted || MEASURED.contains(&name.as_str()) || bare.starts_with("hugepages-")) {
            faults.invalid(&path, name.as_str(), "must be a standard resource for quota");
        }
        validate_amount(name, quantity, &path, faults);
        if is_counted && parse(quantity).is_some_and(|number| !number.is_integer()) {
            faults.invalid(&path, quantity.0.as_str(), "must be an integer");
        }
    }
}

fn validate_scopes(spec: &ResourceQuotaSpec, faults: &mut Faults) {
    let scopes = list(&spec.scopes);
    if let Some(unknown) = scopes.iter().find(|scope| !SCOPES.contains(&scope.as_str())) {
        faults.invalid(&Path::new("spec.scopes"), unknown.as_str(), "unsupported scope");
    }
    let has = |scope: &str| scopes.iter().any(|other| other == scope);
    if (has("BestEffort") && has("NotBestEffort")) || (has("Terminating") && has("NotTerminating")) {
        faults.invalid(&Path::new("spec.scopes"), scopes.to_vec(), "conflicting scopes");
    }
}

impl Kind for LimitRange {
    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default().limits.iter_mut().for_each(set_item_defaults);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let mut types = BTreeSet::new();
        for (index, item) in self.spec.iter().flat_map(|spec| &spec.limits).enumerate() {
            let path = Path::new("spec.limits").index(index);
            faults.set_form(&path.child("type"), &item.type_, check_qualified_name);
            faults.unique(&path.child("type"), &item.type_, &mut types);
            validate_item(item, &path, &mut faults);
        }
        faults.into_vec()
    }
}

/// For containers a limit defaults to the highest allowed, a request to the limit, else to the lowest allowed.
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

/// One bound of a limit range, as a field and as people call it.
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
    for bound in [&max, &min, &limit, &request] {
        for (name, quantity) in bound.amounts.iter().flatten() {
            validate_amount(name, quantity, &path.child(bound.field).key(name), faults);
        }
    }
    if item.type_ == "Pod" {
        for bound in [&limit, &request].into_iter().filter(|bound| bound.amounts.as_ref().is_some_and(|list| !list.is_empty())) {
            faults.forbidden(&path.child(bound.field), "may not be specified when `type` is 'Pod'");
        }
    }
    validate_order((&min, &max), &min, path, faults);
    validate_order((&min, &request), &request, path, faults);
    validate_order((&request, &max), &request, path, faults);
    let as_limit = Bound { words: "default limit value", ..limit };
    validate_order((&request, &as_limit), &request, path, faults);
    validate_order((&min, &limit), &limit, path, faults);
    validate_order((&limit, &max), &limit, path, faults);
    for (name, ratio) in item.max_limit_request_ratio.iter().flatten() {
        if parse(ratio).is_some_and(|ratio| ratio < Quantity::from_integer(1)) {
            let detail = format!("ratio {} is less than 1", ratio.0);
            faults.invalid(&path.child("maxLimitRequestRatio").key(name), ratio.0.as_str(), detail);
        }
    }
}

/// For each resource in both, `low` must not be above `high`; the fault is reported on `at`.
fn validate_order((low, high): (&Bound<'_>, &Bound<'_>), at: &Bound<'_>, path: &Path, faults: &mut Faults) {
    let path = path.child(at.field);
    for (name, low_quantity) in low.amounts.iter().flatten() {
        let Some(high_quantity) = high.amounts.as_ref().and_then(|amounts| amounts.get(name)) else { continue };
        let (Some(low_number), Some(high_number)) = (parse(low_quantity), parse(high_quantity)) else { continue };
        if low_number > high_number {
            let value = if at.field == low.field { low_quantity } else { high_quantity };
            let detail = format!("{} {} is greater than {} {}", low.words, low_quantity.0, high.words, high_quantity.0);
            faults.invalid(&path.key(name), value.0.as_str(), detail);
        }
    }
}
