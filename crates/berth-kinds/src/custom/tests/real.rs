//! The definitions of 37 projects, and objects of them that their authors publish. The real server accepts all of them.

use super::created;
use crate::{Kind, custom::definition_of};
use berth_api::{FeatureGates, Object as _, ObjectStrategy as _};
use berth_testing::real_manifests;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// The objects of the real definitions and samples, each with its file. Templates that are not YAML are left out.
fn objects() -> Option<Vec<(String, Value)>> {
    let documents = real_manifests("crds")?;
    let object = |(file, text): (String, String)| Some((file, serde_saphyr::from_str::<Value>(&text).ok().filter(Value::is_object)?));
    Some(documents.into_iter().filter_map(object).collect())
}

#[test]
fn the_definitions_of_real_projects_are_read_and_their_samples_are_valid() {
    let Some(objects) = objects() else { return };
    let (mut kinds, mut wrong, mut definitions) = (BTreeMap::<(String, String), (Arc<Kind>, String)>::new(), Vec::new(), 0);
    let (of_kinds, samples): (Vec<_>, Vec<_>) = objects.into_iter().partition(|(_, object)| object["kind"] == "CustomResourceDefinition");
    for (file, sent) in of_kinds {
        definitions += 1;
        let document = created(sent);
        let faults = document.validate(&FeatureGates::default());
        if !faults.is_empty() {
            wrong.push(format!("{file}: {}", faults[0]));
            continue;
        }
        let kind = definition_of(&document.to_value()).and_then(Kind::new).unwrap_or_else(|faults| panic!("{file}: {}", faults[0]));
        for version in kind.served() {
            let of = (version.api_version().to_owned(), version.definition().names.kind.clone());
            kinds.insert(of, (Arc::clone(&kind), version.version().name.clone()));
        }
    }
    let mut valid = 0;
    for (file, sample) in samples {
        let text = |name: &str| sample[name].as_str().unwrap_or_default().to_owned();
        // The tests of some projects fill in values that their schemas do not allow.
        if sample.to_string().contains("{{") {
            continue;
        }
        let Some((kind, name)) = kinds.get(&(text("apiVersion"), text("kind"))) else { continue };
        let version = kind.served().find(|version| version.version().name == *name).expect("it is served");
        match version.decode(sample.clone()) {
            Err(error) => wrong.push(format!("{file}: {error}")),
            Ok((mut object, unknown)) => {
                object.set_defaults();
                wrong.extend(unknown.into_iter().map(|field| format!("{file}: unknown {field}")));
                wrong.extend(object.validate(&FeatureGates::default()).iter().take(3).map(|fault| format!("{file}: {fault}")));
                valid += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(390 < definitions && 150 < valid, "{definitions} definitions and {valid} samples");
}

#[test]
fn the_memory_of_definitions_is_bounded_by_their_json() {
    let Some(objects) = objects() else { return };
    let (mut all_bytes, mut all_json) = (0, 0);
    for (_, sent) in objects.into_iter().filter(|(_, object)| object["kind"] == "CustomResourceDefinition") {
        let document = created(sent);
        let (object, json) = (document.to_value(), document.encode().len() as u64);
        let mut kept = None;
        let counted = allocation_counter::measure(|| kept = Some(definition_of(&object).and_then(Kind::new).expect("it is valid")));
        let bytes = u64::try_from(counted.bytes_current).unwrap_or(0);
        (all_bytes, all_json) = (all_bytes + bytes, all_json + json);
        drop(kept);
    }
    // The goal is as much as the JSON, and 50 KiB each. Definitions with many rules exceed it.
    assert!(all_bytes < 3 * all_json, "{all_bytes} bytes of definitions beside {all_json} of JSON");
}
