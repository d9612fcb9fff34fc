//! Defaults, rules, tables, quotas on objects of every kind: no panic, defaults are idempotent, what is valid is stored and read back whole.

use crate::objects::{any_resource, has_floats, object};
use arbitrary::{Result, Unstructured};
use berth_api::{
    FeatureGates, Subresource,
    k8s_openapi::jiff::Timestamp,
    metadata::{validate_new, validate_update},
    quota,
};

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let resource = any_resource(u)?;
    let (first, second) = (object(u, resource)?, object(u, resource)?);
    let gates = FeatureGates::default();
    let is_exact = !has_floats(&first);
    let (Ok(first), Ok(second)) = (resource.rules.decode(first), resource.rules.decode(second)) else { return Ok(()) };
    let (mut new, mut old) = (first.object, second.object);

    new.set_defaults();
    let once = new.clone_object();
    new.set_defaults();
    assert!(new.same_as(&*once), "defaults of {once:?}\n{new:?}");

    new.prepare_create(&gates);
    let mut faults = validate_new(new.meta(), new.rules().name_rule, resource.scope);
    faults.extend(new.validate(&gates));
    let _ = new.warnings(None);
    let cells = resource.rules.cells(&*new, Timestamp::UNIX_EPOCH);
    assert_eq!(cells.len(), resource.rules.columns().len());
    let _ = resource.rules.row_conditions(&*new);
    let _ = quota::taken(resource.group_resource(), &*new);

    let stored = new.encode();
    let read = resource.rules.decode_stored(&stored).expect("what berth encodes it decodes");
    assert!(!is_exact || read.same_as(&*new), "{}", String::from_utf8_lossy(&stored));
    if is_exact && faults.is_empty() {
        let shown = resource.rules.decode(new.to_value()).expect("what is valid is read by its users");
        assert!(shown.unknown.is_empty(), "{:?}", shown.unknown);
        let mut shown = shown.object;
        shown.set_defaults();
        assert!(shown.same_as(&*new), "{}\n{new:?}", String::from_utf8_lossy(&stored));
        // What was accepted once may be sent again as it is.
        let mut again = new.clone_object();
        again.prepare_update(&*new, None, &gates);
        let mut faults = validate_update(again.meta(), new.meta());
        faults.extend(again.validate_update(&*new, None, &gates));
        assert!(faults.is_empty(), "{faults:?} {}", String::from_utf8_lossy(&stored));
    }

    old.set_defaults();
    let mut changed = new.clone_object();
    changed.prepare_update(&*old, None, &gates);
    let _ = changed.validate_update(&*old, None, &gates);
    let _ = changed.warnings(Some(&*old));
    let mut status = new.clone_object();
    status.prepare_update(&*old, Some(Subresource::Status), &gates);
    let _ = status.validate_update(&*old, Some(Subresource::Status), &gates);
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}
