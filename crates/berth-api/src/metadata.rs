//! Rules for the metadata of every object (API conventions, "Metadata").

pub use crate::names::{
    check_dns_label, check_dns_subdomain, check_label_key, check_label_value, check_path_segment, check_qualified_name,
};

use crate::{
    FieldError, Path, Scope,
    ip::check_canonical_ip,
    object::{FinalizerRule, NameRule},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum total size of all annotation keys and values of an object.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;
const FINALIZER_ORPHAN: &str = "orphan";
const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// Finalizers that need no domain prefix.
const STANDARD_FINALIZERS: [&str; 3] = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"];

/// Validates the metadata of a new object. A name must already be generated from `generateName`, so that an invalid
/// base is reported at both fields, as upstream.
#[must_use]
pub fn validate_new(meta: &ObjectMeta, rule: NameRule, scope: Scope) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let mut faults = validate_names(meta, rule, &path);
    faults.extend(validate_namespace(meta, scope, &path));
    if let Some(generation) = meta.generation.filter(|generation| *generation < 0) {
        faults.push(FieldError::invalid(&path.child("generation"), generation, "must be greater than or equal to 0"));
    }
    faults.extend(validate_contents(meta, &path));
    faults
}

/// Validates the metadata of an update. Call [`restore_immutable`] first.
#[must_use]
pub fn validate_update(new: &ObjectMeta, old: &ObjectMeta) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let mut faults = Vec::new();
    if old.deletion_timestamp.is_some() {
        faults.extend(new_finalizers(new, old, &path.child("finalizers")));
    }
    for (field, new, old) in [("name", &new.name, &old.name), ("namespace", &new.namespace, &old.namespace), ("uid", &new.uid, &old.uid)] {
        if new.as_deref().unwrap_or_default() != old.as_deref().unwrap_or_default() {
            faults.push(FieldError::invalid(&path.child(field), new.as_deref().unwrap_or_default(), "field is immutable"));
        }
    }
    if new.deletion_timestamp != old.deletion_timestamp {
        let shown = serde_json::json!(new.deletion_timestamp);
        faults.push(FieldError::invalid(&path.child("deletionTimestamp"), shown, "field is immutable"));
    }
    if let Some(seconds) =
        new.deletion_grace_period_seconds.filter(|_| new.deletion_grace_period_seconds != old.deletion_grace_period_seconds)
    {
        faults.push(FieldError::invalid(&path.child("deletionGracePeriodSeconds"), seconds, "field is immutable"));
    }
    faults.extend(validate_contents(new, &path));
    faults
}

/// Validates a `generateName` that an update changes.
#[must_use]
pub fn validate_new_name_base(new: &ObjectMeta, old: &ObjectMeta, rule: NameRule) -> Vec<FieldError> {
    match new.generate_name.as_deref().filter(|base| !base.is_empty() && old.generate_name.as_deref() != Some(*base)) {
        Some(base) => invalid_each(&Path::new("metadata").child("generateName"), base, check_name_base(base, rule)).collect(),
        None => Vec::new(),
    }
}

/// Restores fields that an update cannot change, and that upstream restores silently.
pub fn restore_immutable(new: &mut ObjectMeta, old: &ObjectMeta) {
    new.creation_timestamp.clone_from(&old.creation_timestamp);
    new.generation = old.generation;
    if old.deletion_timestamp.is_some() {
        new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    new.deletion_grace_period_seconds = new.deletion_grace_period_seconds.or(old.deletion_grace_period_seconds);
    new.self_link.clone_from(&old.self_link);
}

/// Removes duplicate owner references. Returns their uids.
pub fn dedup_owner_references(meta: &mut ObjectMeta) -> Vec<String> {
    let mut doubled = Vec::new();
    let Some(owners) = meta.owner_references.as_mut().filter(|owners| owners.len() > 1) else { return doubled };
    let mut seen = BTreeSet::new();
    owners.retain(|owner| {
        let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = owner.clone();
        let is_new = seen.insert((api_version, kind, name, uid, controller, block_owner_deletion));
        if !is_new {
            doubled.push(owner.uid.clone());
        }
        is_new
    });
    doubled
}

/// Returns the messages about `name` under `rule`.
#[must_use]
pub fn check_name(name: &str, rule: NameRule) -> Vec<String> {
    match rule {
        NameRule::Subdomain => check_dns_subdomain(name),
        NameRule::Label => check_dns_label(name),
        NameRule::PathSegment => check_path_segment(name),
        NameRule::Ip => check_canonical_ip(name),
    }
}

/// Validates label keys and values. All errors are at `path` itself.
#[must_use]
pub fn validate_labels(labels: Option<&BTreeMap<String, String>>, path: &Path) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        faults.extend(invalid_each(path, key, check_label_key(key)));
        faults.extend(invalid_each(path, value, check_label_value(value)));
    }
    faults
}

/// Validates annotation keys, and the total size of annotations, at `path` itself.
#[must_use]
pub fn validate_annotations(annotations: Option<&BTreeMap<String, String>>, path: &Path) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        bytes += key.len() + value.len();
        faults.extend(invalid_each(path, key, check_qualified_name(&key.to_lowercase())));
    }
    if bytes > ANNOTATION_BYTES_MAX {
        faults.push(FieldError::too_long(path, ANNOTATION_BYTES_MAX));
    }
    faults
}

/// Whether the object's annotations have room for this one, in place of the current value of this key.
#[must_use]
pub fn has_room_for(annotations: &BTreeMap<String, String>, key: &str, value: &str) -> bool {
    let others = annotations.iter().filter(|(other, _)| *other != key);
    others.map(|(key, value)| key.len() + value.len()).sum::<usize>() + key.len() + value.len() <= ANNOTATION_BYTES_MAX
}

fn invalid_each<'a>(path: &'a Path, value: &'a str, messages: Vec<String>) -> impl Iterator<Item = FieldError> + 'a {
    messages.into_iter().map(move |message| FieldError::invalid(path, value, message))
}

fn validate_names(meta: &ObjectMeta, rule: NameRule, path: &Path) -> Vec<FieldError> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (name, base) = (text(&meta.name), text(&meta.generate_name));
    let mut faults = Vec::new();
    if !base.is_empty() {
        faults.extend(invalid_each(&path.child("generateName"), &base, check_name_base(&base, rule)));
    }
    if name.is_empty() {
        faults.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        faults.extend(invalid_each(&path.child("name"), &name, check_name(&name, rule)));
    }
    faults
}

/// Checks the base of a generated name. A trailing `-` is valid, because letters will follow.
fn check_name_base(base: &str, rule: NameRule) -> Vec<String> {
    match (rule, base.strip_suffix('-').filter(|start| !start.is_empty())) {
        (NameRule::PathSegment | NameRule::Ip, _) | (_, None) => check_name(base, rule),
        (_, Some(start)) => {
            let mut masked: String = start.to_owned();
            masked.pop();
            masked.push('a');
            check_name(&masked, rule)
        }
    }
}

fn validate_namespace(meta: &ObjectMeta, scope: Scope, path: &Path) -> Vec<FieldError> {
    let path = path.child("namespace");
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    match (scope, namespace.is_empty()) {
        (Scope::Namespaced, true) => vec![FieldError::required(&path, "")],
        (Scope::Namespaced, false) => invalid_each(&path, namespace, check_dns_label(namespace)).collect(),
        (Scope::Cluster, true) => Vec::new(),
        (Scope::Cluster, false) => vec![FieldError::forbidden(&path, "not allowed on this type")],
    }
}

/// Validates what creates and updates have in common.
fn validate_contents(meta: &ObjectMeta, path: &Path) -> Vec<FieldError> {
    let mut faults = validate_labels(meta.labels.as_ref(), &path.child("labels"));
    faults.extend(validate_annotations(meta.annotations.as_ref(), &path.child("annotations")));
    faults.extend(validate_owner_references(meta.owner_references.as_deref().unwrap_or_default(), &path.child("ownerReferences")));
    faults.extend(validate_finalizers(meta.finalizers.as_deref().unwrap_or_default(), &path.child("finalizers")));
    faults
}

fn validate_owner_references(owners: &[OwnerReference], path: &Path) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners {
        // Upstream does not report the index of the reference.
        faults.extend(validate_owner_reference(owner, path));
        if owner.controller != Some(true) {
            continue;
        }
        let name = format!("{}/{}", owner.kind, owner.name);
        match &controller {
            None => controller = Some(name),
            Some(first) => faults.push(FieldError::invalid(
                path,
                serde_json::json!(owners),
                format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"),
            )),
        }
    }
    faults
}

fn validate_owner_reference(owner: &OwnerReference, path: &Path) -> Vec<FieldError> {
    let version = owner.api_version.rsplit('/').next().unwrap_or_default();
    let mut faults = Vec::new();
    if version.is_empty() {
        faults.push(FieldError::invalid(&path.child("apiVersion"), owner.api_version.as_str(), "version must not be empty"));
    }
    for (field, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
        if value.is_empty() {
            faults.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
        }
    }
    if (owner.api_version.as_str(), owner.kind.as_str()) == ("v1", "Event") {
        faults.push(FieldError::invalid(path, serde_json::json!(owner), "/v1, Kind=Event is disallowed from being an owner"));
    }
    faults
}

fn validate_finalizers(finalizers: &[String], path: &Path) -> Vec<FieldError> {
    let mut faults: Vec<FieldError> =
        finalizers.iter().flat_map(|finalizer| invalid_each(path, finalizer, check_qualified_name(finalizer))).collect();
    let has = |wanted: &str| finalizers.iter().any(|finalizer| finalizer == wanted);
    if has(FINALIZER_ORPHAN) && has(FINALIZER_FOREGROUND) {
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        faults.push(FieldError::invalid(path, finalizers.to_vec(), detail));
    }
    faults
}

/// Validates the names of finalizers by the rule of their kind.
#[must_use]
pub fn validate_finalizer_names(meta: &ObjectMeta, rule: FinalizerRule) -> Vec<FieldError> {
    let path = Path::new("metadata").child("finalizers");
    let finalizers = meta.finalizers.iter().flatten().enumerate().filter(|_| rule == FinalizerRule::Qualified);
    let plain = finalizers.filter(|(_, finalizer)| !is_qualified(finalizer));
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    plain.map(|(index, finalizer)| FieldError::invalid(&path.index(index), finalizer.as_str(), detail)).collect()
}

/// Returns the warnings about new finalizers without a domain, for kinds that allow them.
#[must_use]
pub fn finalizer_warnings(new: &ObjectMeta, old: Option<&ObjectMeta>) -> Vec<String> {
    let old = old.and_then(|old| old.finalizers.as_deref()).unwrap_or_default();
    let mut known: BTreeSet<&String> = old.iter().collect();
    let added = new.finalizers.iter().flatten().filter(|finalizer| known.insert(*finalizer) && !is_qualified(finalizer));
    let why = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
    added.map(|finalizer| format!("metadata.finalizers: {finalizer:?}: {why}")).collect()
}

fn is_qualified(finalizer: &str) -> bool {
    finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer)
}

fn new_finalizers(new: &ObjectMeta, old: &ObjectMeta, path: &Path) -> Option<FieldError> {
    let old: BTreeSet<&String> = old.finalizers.iter().flatten().collect();
    let added: BTreeSet<&String> = new.finalizers.iter().flatten().filter(|finalizer| !old.contains(finalizer)).collect();
    let quoted: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
    let detail =
        format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}", quoted.join(", "));
    (!added.is_empty()).then(|| FieldError::forbidden(path, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn meta(json: Value) -> ObjectMeta {
        serde_json::from_value(json).expect("metadata")
    }

    fn texts(faults: &[FieldError]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    /// Faults of `json` on a namespaced object with a subdomain name, each by its start.
    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check(json: Value, wanted: &[&str]) {
        let mut object = json!({"name": "a", "namespace": "n"});
        object.as_object_mut().expect("an object").extend(json.as_object().expect("an object").clone());
        let found = texts(&validate_new(&meta(object), NameRule::Subdomain, Scope::Namespaced));
        assert_eq!(found.len(), wanted.len(), "{found:#?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.starts_with(wanted), "{found}\n{wanted}");
        }
    }

    #[test]
    fn names_are_checked() {
        check(json!({}), &[]);
        check(json!({"name": ""}), &["metadata.name: Required value: name or generateName is required"]);
        check(json!({"name": "A"}), &["metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must"]);
        check(
            json!({"generateName": "AB-", "name": "AB-x2x2x"}),
            &["metadata.generateName: Invalid value: \"AB-\": a lowercase", "metadata.name: Invalid value: \"AB-x2x2x\": a lowercase"],
        );
        check(json!({"generateName": "ab-", "name": "ab-x2x2x"}), &[]);
        check(json!({"generateName": "é-", "name": "a"}), &[]);
        check(json!({"generateName": "-", "name": "a"}), &["metadata.generateName: Invalid value: \"-\""]);
        check(json!({"namespace": ""}), &["metadata.namespace: Required value"]);
        check(json!({"namespace": "a.b"}), &["metadata.namespace: Invalid value: \"a.b\": must not contain dots"]);
        let cluster = validate_new(&meta(json!({"name": "a:b", "namespace": "n"})), NameRule::PathSegment, Scope::Cluster);
        assert_eq!(texts(&cluster), ["metadata.namespace: Forbidden: not allowed on this type"]);
    }

    #[test]
    fn there_is_room_for_as_much_as_is_let_in() {
        let room = |others: usize, value: usize| {
            let annotations = BTreeMap::from([("a".to_owned(), "x".repeat(others)), ("b".to_owned(), "x".repeat(99))]);
            has_room_for(&annotations, "b", &"x".repeat(value))
        };
        assert_eq!([room(ANNOTATION_BYTES_MAX - 12, 10), room(ANNOTATION_BYTES_MAX - 12, 11), room(0, 99)], [true, false, true]);
    }

    #[test]
    fn labels_and_annotations_are_checked() {
        check(json!({"labels": {"a/b": "c", "d": ""}}), &[]);
        check(
            json!({"labels": {"a b": "c d"}}),
            &["metadata.labels: Invalid value: \"a b\": name part must", "metadata.labels: Invalid value: \"c d\": a valid label must"],
        );
        check(json!({"annotations": {"Example.com/A": "any thing"}}), &[]);
        check(json!({"annotations": {"a b": ""}}), &["metadata.annotations: Invalid value: \"a b\": name part must"]);
        check(json!({"annotations": {"a": "x".repeat(ANNOTATION_BYTES_MAX - 1)}}), &[]);
        check(
            json!({"annotations": {"a": "x".repeat(ANNOTATION_BYTES_MAX)}}),
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        );
    }

    #[test]
    fn owners_and_finalizers_are_checked() {
        let owner =
            |controller: bool| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": controller});
        check(json!({"ownerReferences": [owner(true), owner(false)]}), &[]);
        check(json!({"ownerReferences": [owner(true), owner(true)]}), &["metadata.ownerReferences: Invalid value: [{"]);
        check(
            json!({"ownerReferences": [{}]}),
            &[
                "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            ],
        );
        check(
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]}),
            &["metadata.ownerReferences: Invalid value: {"],
        );
        check(json!({"finalizers": ["orphan", "kubernetes", "example.com/f"]}), &[]);
        check(
            json!({"finalizers": ["orphan", "foregroundDeletion", "f"]}),
            &[
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\",\"f\"]: finalizer orphan and foregroundDeletion cannot",
            ],
        );
        let meta = meta(json!({"finalizers": ["orphan", "f", "example.com/f", "g", "f"]}));
        let faults = validate_finalizer_names(&meta, FinalizerRule::Qualified);
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        assert_eq!(
            texts(&faults),
            [(1, "f"), (3, "g"), (4, "f")].map(|(at, name)| format!("metadata.finalizers[{at}]: Invalid value: {name:?}: {why}"))
        );
        assert!(validate_finalizer_names(&meta, FinalizerRule::Plain).is_empty());
    }

    #[test]
    fn a_new_finalizer_without_a_domain_causes_a_warning() {
        let meta = |names: &[&str]| meta(json!({"finalizers": names}));
        let warning = |name: &str| {
            let why = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
            format!("metadata.finalizers: {name:?}: {why}")
        };
        let new = meta(&["kubernetes", "a", "example.com/f", "b", "a"]);
        assert_eq!(finalizer_warnings(&new, None), [warning("a"), warning("b")]);
        assert_eq!(finalizer_warnings(&new, Some(&meta(&["a"]))), [warning("b")]);
        assert_eq!(finalizer_warnings(&new, Some(&new)), [""; 0]);
    }

    #[test]
    fn an_owner_that_is_listed_twice_is_kept_once() {
        let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
        let mut twice = meta(json!({"ownerReferences": [owner("a", "u"), owner("b", "v"), owner("a", "u"), owner("c", "u")]}));
        assert_eq!(dedup_owner_references(&mut twice), ["u"]);
        let names: Vec<&str> = twice.owner_references.iter().flatten().map(|owner| owner.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(dedup_owner_references(&mut twice), [""; 0]);
    }

    #[test]
    fn updates_keep_identity_and_add_no_finalizers_to_the_leaving() {
        let old =
            meta(json!({"name": "a", "uid": "1", "finalizers": ["e.com/a"], "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 3}));
        let mut new = meta(json!({"name": "a", "uid": "2", "finalizers": ["e.com/b", "e.com/a"], "generation": 9}));
        restore_immutable(&mut new, &old);
        assert_eq!((new.generation, &new.deletion_timestamp), (Some(3), &old.deletion_timestamp));
        assert_eq!(
            texts(&validate_update(&new, &old)),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{\"e.com/b\"}",
                "metadata.uid: Invalid value: \"2\": field is immutable",
            ]
        );
        let (living, mut marked) = (meta(json!({"name": "a"})), meta(json!({"name": "a", "deletionGracePeriodSeconds": 5})));
        marked.deletion_timestamp.clone_from(&old.deletion_timestamp);
        restore_immutable(&mut marked, &living);
        assert_eq!(
            texts(&validate_update(&marked, &living)),
            [
                "metadata.deletionTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable",
                "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
            ]
        );
    }
}
