//! IPAddress and ServiceCIDR: the cluster addresses and their holders.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{Cidr, check_canonical_cidr},
    names::{check_dns_subdomain, check_path_segment},
    object::NameRule,
    unset::{list, text},
};
use k8s_openapi::api::networking::v1::{IPAddress, ParentReference, ServiceCIDR};
use serde_json::json;

/// The maximum number of ranges of a ServiceCIDR, one of each family.
const CIDRS_MAX: usize = 2;

impl Kind for IPAddress {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const NAME_RULE: NameRule = NameRule::Ip;

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (parent, path) = (&self.spec.parent_ref, Path::new("spec").child("parentRef"));
        if *parent == ParentReference::default() {
            faults.required(&path, "");
            return faults.into_vec();
        }
        faults.optional_form(&path.child("group"), &parent.group, check_dns_subdomain);
        faults.set_form(&path.child("resource"), &parent.resource, check_path_segment);
        faults.set_form(&path.child("name"), &parent.name, check_path_segment);
        faults.optional_form(&path.child("namespace"), &parent.namespace, check_path_segment);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(Kind::validate(self, gates));
        let parent = &self.spec.parent_ref;
        if *parent != old.spec.parent_ref {
            // Upstream prints its internal form.
            let shown = json!({"Group": text(&parent.group), "Resource": parent.resource, "Namespace": text(&parent.namespace),
                "Name": parent.name});
            faults.invalid(&Path::new("spec").child("parentRef"), shown, IMMUTABLE);
        }
        faults.into_vec()
    }
}

impl Kind for ServiceCIDR {
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default();
        self.status.get_or_insert_default();
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = Some(Default::default());
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_cidrs(cidrs(self), &mut faults);
        faults.into_vec()
    }

    /// Ranges are immutable. One of the other family may be added.
    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let path = Path::new("spec").child("cidrs");
        let (new, old) = (cidrs(self), cidrs(old));
        if new.len() < old.len() || new.len() > CIDRS_MAX {
            faults.invalid(&path, json!(self.spec.as_ref().and_then(|spec| spec.cidrs.as_ref())), IMMUTABLE);
            return faults.into_vec();
        }
        for (index, (new, _)) in new.iter().zip(old).enumerate().filter(|(_, (new, old))| new != old) {
            faults.invalid(&path.index(index), new.as_str(), IMMUTABLE);
        }
        if new.len() > old.len() {
            validate_cidrs(new, &mut faults);
        }
        faults.into_vec()
    }
}

fn cidrs(object: &ServiceCIDR) -> &[String] {
    object.spec.as_ref().map_or(&[], |spec| list(&spec.cidrs))
}

fn validate_cidrs(cidrs: &[String], faults: &mut Faults) {
    let path = Path::new("spec").child("cidrs");
    match cidrs.len() {
        0 => return faults.required(&path, "at least one CIDR required"),
        1..=CIDRS_MAX => (),
        _ => return faults.invalid(&path, json!({"CIDRs": cidrs}), format!("may only hold up to {CIDRS_MAX} values")),
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        faults.form(&path.index(index), cidr, check_canonical_cidr);
    }
    let families: Vec<&str> = cidrs.iter().filter_map(|cidr| Some(cidr.parse::<Cidr>().ok()?.family())).collect();
    if matches!(families[..], [first, second] if first == second) {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        faults.invalid(&path, json!(cidrs), detail);
    }
}
