//! Helpers for tables of test cases.

use crate::{FeatureGates, Kind};
pub(crate) use berth_testing::merged;
use serde_json::Value;

/// Returns the object after decoding and defaults.
pub(crate) fn decoded<K: Kind>(json: &Value) -> K {
    let mut object: K = serde_json::from_value(json.clone()).expect("the test's JSON is of the kind");
    crate::ObjectStrategy::set_defaults(&mut object);
    let once = object.clone();
    crate::ObjectStrategy::set_defaults(&mut object);
    assert_eq!(once, object, "defaults are idempotent");
    object
}

/// Returns the object as a create would store it.
pub(crate) fn created<K: Kind>(json: &Value) -> K {
    let mut object: K = decoded(json);
    object.prepare_create(&FeatureGates::default());
    object
}

/// Checks that creating `json` has the errors `wanted`. For a text with a trailing `…`, only the prefix is compared.
pub(crate) fn check_create<K: Kind>(json: &Value, wanted: &[&str]) {
    compare(&created::<K>(json).validate(&FeatureGates::default()), wanted, json);
}

/// Checks that updating the object of `old` to `new` has the errors `wanted`.
pub(crate) fn check_update<K: Kind>(old: &Value, new: &Value, wanted: &[&str]) {
    let old: K = created(old);
    let mut object: K = decoded(new);
    object.prepare_update(&old, &FeatureGates::default());
    compare(&object.validate_update(&old, &FeatureGates::default()), wanted, new);
}

fn compare(faults: &[crate::FieldError], wanted: &[&str], json: &Value) {
    let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let fits = |(found, wanted): (&String, &&str)| match wanted.strip_suffix('…') {
        Some(start) => found.starts_with(start),
        None => found == wanted,
    };
    let all_fit = found.len() == wanted.len() && found.iter().zip(wanted).all(fits);
    assert!(all_fit, "of {json}\nfound  {found:#?}\nwanted {wanted:#?}");
}
