//! The stored form of bodies with an odd value: every reader of the kind's schema must be able to decode it. A
//! kube-apiserver over the same etcd reads none of a resource's objects if it cannot decode one.

mod odd;
mod upstream;

use berth_api::{FeatureGates, Object, Scope};
use berth_registry::resource::built_in;
use odd::Schemas;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use upstream::Upstream;

/// A decoded kind is stored as it is encoded again.
#[test]
fn what_decodes_is_encoded_as_its_schema_requires() {
    let schemas = Schemas::new();
    let (mut seen, mut taken, mut refused, mut wrong) = (BTreeSet::new(), 0, 0, Vec::new());
    for resource in built_in().stored().filter(|resource| resource.read_only.is_empty()) {
        for document in schemas.odd_documents(resource, &mut seen) {
            let Ok(decoded) = resource.rules.decode(document.clone()) else {
                refused += 1;
                continue;
            };
            taken += 1;
            let mut object = decoded.object;
            for with_defaults in [false, true] {
                if with_defaults {
                    object.set_defaults();
                }
                let bytes = object.encode();
                let encoded: Value = serde_json::from_slice(&bytes).expect("JSON");
                let fault = schemas.fault(resource, &encoded);
                let fault = fault.filter(|fault| !(ACTED_ON.contains(&resource.group().as_str()) && is_written_as_null(fault)));
                wrong.extend(fault.map(|fault| format!("{resource:?}: {document}: {fault}")));
                match resource.rules.decode_stored(&bytes) {
                    Ok(again) if again.same_as(&*object) => (),
                    Ok(again) => wrong.push(format!("{resource:?}: {document} is read back as {:?}", again.to_value())),
                    Err(error) => wrong.push(format!("{resource:?}: {document} cannot be read back: {error}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(5000 < taken && 20_000 < refused, "{taken} taken, {refused} refused");
}

/// Whether the fault is a null that upstream's Go types of these groups write too: of a list or a pointer without a value.
fn is_written_as_null(fault: &str) -> bool {
    fault.ends_with(": null is no list") || fault.ends_with(": null is no string")
}

fn is_valid(object: &dyn Object) -> bool {
    let mut object = object.clone_object();
    object.set_defaults();
    object.validate(&FeatureGates::default()).is_empty()
}

/// The groups with what configures kube-apiserver itself.
const ACTED_ON: [&str; 4] =
    ["flowcontrol.apiserver.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "admissionregistration.k8s.io"];

/// Stores all accepted bodies in one etcd, each as an object of its own.
#[test]
fn upstream_lists_what_is_stored_of_each_kind() {
    let Some(upstream) = Upstream::start() else { return };
    let schemas = Schemas::new();
    let (mut seen, mut wanted) = (BTreeSet::new(), BTreeMap::new());
    for resource in
        built_in().stored().filter(|resource| resource.read_only.is_empty() && resource.stored_api_version() == resource.api_version())
    {
        let taken = schemas.odd_documents(resource, &mut seen).into_iter().filter_map(|document| resource.rules.decode(document).ok());
        // kube-apiserver acts on objects of these groups. An invalid one would end its process.
        let is_acted_on = ACTED_ON.contains(&resource.group().as_str());
        let taken = taken.filter(|decoded| !is_acted_on || is_valid(&*decoded.object));
        let stored = taken.enumerate().map(|(number, decoded)| {
            let (mut object, name) = (decoded.object, format!("odd-{number}"));
            let meta = object.meta_mut();
            (meta.name, meta.uid) = (Some(name.clone()), Some(format!("{}-{number}", resource.plural())));
            let at = match resource.scope {
                Scope::Namespaced => format!("{}odd/{name}", resource.prefix()),
                Scope::Cluster => format!("{}{name}", resource.prefix()),
            };
            meta.namespace = (resource.scope == Scope::Namespaced).then(|| "odd".to_owned());
            (at, object.encode())
        });
        let stored: Vec<_> = stored.collect();
        upstream.put(&stored);
        let path = if resource.group().is_empty() { "/api" } else { "/apis/" }.to_owned() + resource.group();
        let path = format!("{path}/{}/{}", resource.version(), resource.plural());
        wanted.insert(path, stored.len());
    }
    for (path, count) in &wanted {
        let listed = upstream.list(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(listed.iter().filter(|name| name.starts_with("odd-")).count(), *count, "{path}");
    }
    assert!(wanted.values().sum::<usize>() > 5000, "{wanted:?}");
    // One object that does not fit prevents every list.
    let bad = br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"bad","namespace":"odd"},"spec":{"replicas":3.0}}"#;
    upstream.put(&[("/registry/deployments/odd/bad".to_owned(), bad.to_vec())]);
    let told = upstream.list("/apis/apps/v1/deployments?resourceVersion=").expect_err("a number with a point is no int32 to it");
    assert!(!told.is_empty());
}
