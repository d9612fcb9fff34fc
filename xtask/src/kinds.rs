//! Generic code names no kind: a kind's file contains everything that the server knows about the kind.

use crate::{
    circles::{leaves, uses, with_strings},
    words::text::strings,
};
use std::collections::{BTreeMap, BTreeSet};

/// The files of the kinds. Their lines in the resource table give the names.
const TABLE: &str = "crates/berth-registry/src/resource/kinds/";
/// The files of the kinds that are data.
const DATA: &str = "crates/berth-kinds/src/built_in/";

/// The crates whose code is generic.
const GENERIC: &[&str] = &[
    "crates/berth-api/src/",
    "crates/berth-apiserver/src/",
    "crates/berth-fieldsets/src/",
    "crates/berth-http/src/",
    "crates/berth-identity/src/",
    "crates/berth-kinds/src/",
    "crates/berth-protobuf/src/",
    "crates/berth-registry/src/",
    "crates/berth-store/src/",
];

/// Files and folders in these crates that are about certain kinds, with the reason.
const ABOUT_KINDS: &[(&str, &str)] = &[
    (TABLE, "the files of the kinds"),
    (DATA, "the files of the kinds that are data"),
    ("crates/berth-api/src/apps", "rules of the workload kinds, and their types"),
    ("crates/berth-api/src/passive/", "rules of the other kinds"),
    ("crates/berth-api/src/pod", "rules of pods and of pod security"),
    ("crates/berth-api/src/simulation", "the annotations of simulated pods, and what they use"),
    ("crates/berth-api/src/kinds.rs", "the list of types whose decoders are compiled there"),
    ("crates/berth-api/src/own_annotations.rs", "the annotations of the workload kinds"),
    ("crates/berth-api/src/quota.rs", "what a ResourceQuota counts"),
    ("crates/berth-api/src/limit_range.rs", "what a LimitRange limits"),
    ("crates/berth-api/src/fencing.rs", "a Lease as fencing token"),
    ("crates/berth-api/src/metadata.rs", "upstream's one kind that owns no objects"),
    ("crates/berth-registry/src/admission/", "each plug-in is about kinds"),
    ("crates/berth-registry/src/entailed/", "objects that the plug-ins require"),
    ("crates/berth-registry/src/allocation/", "addresses and ports of Services"),
    ("crates/berth-registry/src/authorization/", "roles and their bindings"),
    ("crates/berth-registry/src/binding.rs", "a verb of pods"),
    ("crates/berth-registry/src/eviction.rs", "a verb of pods"),
    ("crates/berth-registry/src/log.rs", "logs of pods"),
    ("crates/berth-registry/src/usage.rs", "the usage of pods and nodes"),
    ("crates/berth-registry/src/bootstrap.rs", "the objects that each cluster has from the start"),
    ("crates/berth-registry/src/kubernetes_service.rs", "the Service of the API servers"),
    ("crates/berth-registry/src/fencing.rs", "the Lease of a leader"),
    ("crates/berth-registry/src/definitions.rs", "definitions of kinds"),
    ("crates/berth-apiserver/src/auth/", "tokens of service accounts, and namespaces in URLs"),
    ("crates/berth-apiserver/src/handlers/components.rs", "the health of the server's parts"),
    ("crates/berth-apiserver/src/handlers/reviews.rs", "the answers to each review"),
    ("crates/berth-apiserver/src/handlers/tokens.rs", "tokens of service accounts"),
    ("crates/berth-apiserver/src/path.rs", "namespaces in URLs"),
    ("crates/berth-apiserver/src/state_metrics.rs", "metrics of the workload kinds, under the names of kube-state-metrics"),
    ("crates/berth-apiserver/src/audit/event.rs", "an entry of the audit log is called Event"),
];

/// The faults of these files: paths from the root, and texts.
pub(crate) fn faults(files: &BTreeMap<String, String>) -> Vec<String> {
    let names = names(files);
    if names.is_empty() {
        return vec![format!("{TABLE} has no kinds: this check would find nothing")];
    }
    let generic = files.iter().filter(|(path, _)| path.ends_with(".rs") && GENERIC.iter().any(|folder| path.starts_with(folder)));
    let found: Vec<(&str, BTreeSet<String>)> =
        generic.map(|(path, text)| (path.as_str(), named(path, text, &names))).filter(|(_, kinds)| !kinds.is_empty()).collect();
    let about = |path: &str| ABOUT_KINDS.iter().find(|(room, _)| path.starts_with(room));
    let report = |(path, kinds): &(&str, BTreeSet<String>)| {
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        format!("{path} names {}: what is particular to a kind is in {TABLE}", kinds.join(", "))
    };
    let mut faults: Vec<String> = found.iter().filter(|(path, _)| about(path).is_none()).map(report).collect();
    let unused = ABOUT_KINDS.iter().filter(|(room, _)| !found.iter().any(|(path, _)| path.starts_with(room)));
    faults.extend(unused.map(|(room, _)| format!("{room} names no kind any more; remove it from the list of xtask/src/kinds.rs")));
    faults
}

/// Each kind and each plural.
fn names(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in files.iter().filter(|(path, _)| path.starts_with(TABLE)) {
        for start in ["Resource::namespaced::<", "Resource::cluster::<"] {
            let kinds = text.split(start).skip(1).filter_map(|rest| rest.split('>').next());
            // Some types are imported under another name, as `Event as CoreEvent`.
            let kinds =
                kinds.map(|kind| text.split(&format!(" as {kind}")).next().filter(|before| *before != text).map_or(kind, last_name));
            names.extend(kinds.flat_map(|kind| [kind.to_owned(), plural(kind)]));
        }
    }
    for (_, text) in files.iter().filter(|(path, _)| path.starts_with(DATA)) {
        let both = text.split("Names::of(\"").skip(1).filter_map(|rest| rest.split("\")").next());
        names.extend(both.flat_map(|both| both.split("\", \"")).map(str::to_owned));
    }
    names
}

/// The name that a text ends with.
fn last_name(text: &str) -> &str {
    text.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default()
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.as_bytes() {
        [.., b's', b's'] => format!("{lower}es"),
        [.., b's'] => lower,
        _ => format!("{lower}s"),
    }
}

/// The kinds that a file names: as a whole string literal, or as an imported type.
fn named(path: &str, text: &str, names: &BTreeSet<String>) -> BTreeSet<String> {
    if path.contains("tests") || path.contains("as_upstream") {
        return BTreeSet::new();
    }
    let code = with_strings(text);
    let texts = strings(&code).into_iter().map(|range| code[range].trim_matches('"').to_owned());
    let mut found: BTreeSet<String> = texts.filter(|text| names.contains(text)).collect();
    let is_type_of_a_kind = |path: &[String]| {
        let is_of_the_api = path[0] == "k8s_openapi" || (path[0] == "berth_api" && matches!(path[1].as_str(), "k8s_openapi" | "apps"));
        is_of_the_api && path.last().is_some_and(|last| names.contains(last))
    };
    let imports = uses(&code).flat_map(leaves).map(|(path, _)| path).filter(|path| 1 < path.len());
    found.extend(imports.filter(|path| is_type_of_a_kind(path)).filter_map(|path| path.last().cloned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of one file beside the files of two kinds, without those of the list.
    fn faults_of(path: &str, text: &str) -> Vec<String> {
        let kind = "use k8s::{core::v1::Event as CoreEvent};\nResource::namespaced::<CoreEvent>();\nResource::cluster::<Node>()";
        let files = [
            (format!("{TABLE}node.rs"), kind),
            (format!("{DATA}ingress.rs"), "Names::of(\"Ingress\", \"ingresses\")"),
            (path.to_owned(), text),
        ];
        let files = files.map(|(path, text)| (path, text.to_owned()));
        faults(&files.into()).into_iter().filter(|fault| !fault.ends_with("xtask/src/kinds.rs")).collect()
    }

    #[test]
    fn generic_code_that_names_a_kind_is_found() {
        let path = "crates/berth-registry/src/list.rs";
        let fault = |kinds: &str| [format!("{path} names {kinds}: what is particular to a kind is in {TABLE}")];
        assert_eq!(faults_of(path, "resource.kind() == \"Node\""), fault("Node"));
        assert_eq!(faults_of(path, "matches!(plural, \"events\" | \"ingresses\")"), fault("events, ingresses"));
        assert_eq!(
            faults_of(path, "use berth_api::{\n    Kind,\n    k8s_openapi::api::core::v1::{Event as E, Node},\n};"),
            fault("Event, Node")
        );
        assert_eq!(faults_of(path, "use k8s_openapi::api::core::v1::Node;"), fault("Node"));
    }

    #[test]
    fn tests_other_types_and_words_in_texts_name_no_kind() {
        for text in ["use berth_store::{Event, Node};", "// \"Node\"", "\"a Node\"", "#[cfg(test)]\nmod tests {\n    \"Node\"\n}"] {
            assert_eq!(faults_of("crates/berth-registry/src/list.rs", text), [""; 0], "{text}");
        }
        for path in
            ["crates/berth-registry/src/list/tests.rs", "crates/berth-registry/src/eviction.rs", "crates/berth-controllers/src/lib.rs"]
        {
            assert_eq!(faults_of(path, "\"Node\""), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_table_without_kinds_and_a_list_that_is_too_long_are_faults() {
        assert_eq!(faults(&BTreeMap::new()), [format!("{TABLE} has no kinds: this check would find nothing")]);
        let kind = BTreeMap::from([(format!("{TABLE}node.rs"), "Resource::cluster::<Node>()".to_owned())]);
        let unused = "crates/berth-registry/src/eviction.rs names no kind any more; remove it from the list of xtask/src/kinds.rs";
        assert!(faults(&kind).contains(&unused.to_owned()));
    }
}
