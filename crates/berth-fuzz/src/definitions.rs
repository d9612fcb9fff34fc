//! Custom resource definitions, which users write: no panic, defaults are idempotent, a definition without faults is read and makes a kind, an object of
//! it is read or rejected, and the plan of a status is at rest once it is written. Patterns: any text is an expression or not, in bounded time.

use crate::structural::{any_schema, any_value};
use arbitrary::{Result, Unstructured};
use berth_api::{FeatureGates, Object as _, ObjectStrategy as _, k8s_openapi::apimachinery::pkg::apis::meta::v1::Time};
use berth_kinds::{
    Kind, KindVersion, Pattern,
    built_in::custom_resource_definition,
    custom::{TakenNames, definition_of, plan_status},
};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Texts where a definition has names, versions and paths.
const TEXTS: &[&str] = &[
    "things",
    "Thing",
    "v1",
    "v2beta1",
    "v1alpha1",
    "example.com",
    "e.k8s.io",
    "",
    ".spec.a",
    ".status.a",
    ".a",
    ".",
    ".a[",
    "{.a}",
    "string",
    "date",
    "None",
    "Webhook",
    "A_",
    "https://a/b?c#d",
];

fn kind() -> &'static KindVersion {
    static KIND: LazyLock<KindVersion> = LazyLock::new(|| {
        let kind = Kind::new(custom_resource_definition()).expect("it does not contradict itself");
        kind.served().next().expect("it is served")
    });
    &KIND
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    if u.ratio(1, 16)? {
        let text = u.arbitrary::<String>()?;
        if Pattern::check(&text).is_ok() {
            let _ = Pattern::new(&text).is_match("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        }
        return Ok(());
    }
    let Ok((mut document, _)) = kind().decode(definition(u)?) else { return Ok(()) };
    document.set_defaults();
    document.prepare_create(&FeatureGates::default());
    let once = document.to_value();
    document.set_defaults();
    assert_eq!(document.to_value(), once, "defaults are idempotent");
    let faults = document.validate(&FeatureGates::default());
    let _ = document.warnings(None);
    let read = definition_of(&once);
    let now: Time = serde_json::from_value(json!("2020-01-01T00:00:00Z")).expect("a time");
    if let Some(status) = plan_status(&once, &TakenNames::default(), &now) {
        let mut next = once.clone();
        next["status"] = status;
        let taken = TakenNames::of([&next], next["spec"]["group"].as_str().unwrap_or_default());
        assert_eq!(plan_status(&next, &taken, &now), None, "{next}");
    }
    if !faults.is_empty() {
        return Ok(());
    }
    let kind =
        Kind::new(read.unwrap_or_else(|faults| panic!("{faults:?} of {once}"))).unwrap_or_else(|faults| panic!("{faults:?} of {once}"));
    for version in kind.served() {
        let _ = version.published(&json!({"type": "object"}));
        let mut object = any_value(u)?;
        if object.is_object() {
            object["apiVersion"] = version.api_version().into();
            object["kind"] = version.definition().names.kind.clone().into();
        }
        let Ok((mut object, _)) = version.decode(object) else { continue };
        object.set_defaults();
        let _ = object.validate(&FeatureGates::default());
        let stored = version.decode_stored(&object.encode()).expect("what was encoded is read");
        // A float without a fraction is stored as an integer.
        assert_eq!(stored.encode(), object.encode());
    }
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}

fn definition(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut versions = Vec::new();
    for index in 0..u.int_in_range(1..=2)? {
        let mut schema = any_schema(u)?;
        if u.ratio(15, 16)? {
            schema["type"] = json!("object");
        }
        let mut version =
            json!({"name": format!("v{index}"), "served": true, "storage": index == 0, "schema": {"openAPIV3Schema": schema}});
        if u.ratio(1, 4)? {
            let scale = json!({"specReplicasPath": text(u)?, "statusReplicasPath": text(u)?, "labelSelectorPath": text(u)?});
            version["subresources"] = json!({"status": {}, "scale": scale});
        }
        if u.ratio(1, 4)? {
            version["additionalPrinterColumns"] = json!([{"name": text(u)?, "type": text(u)?, "jsonPath": text(u)?}]);
            version["selectableFields"] = json!([{"jsonPath": text(u)?}]);
        }
        versions.push(version);
    }
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": versions},
    });
    if u.ratio(1, 8)? {
        let config = json!({"url": text(u)?, "caBundle": text(u)?});
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": [text(u)?]});
        definition["spec"]["conversion"] = json!({"strategy": text(u)?, "webhook": webhook});
    }
    let changed = *u.choose(&["", "/spec/group", "/spec/names/kind", "/spec/names/plural", "/spec/versions/0/name", "/metadata/name"])?;
    if let Some(found) = definition.pointer_mut(changed).filter(|_| !changed.is_empty()) {
        *found = text(u)?;
    }
    Ok(definition)
}

fn text(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok((*u.choose(TEXTS)?).into())
}
