//! The ConfigMaps and Secrets that a pod references, and the kubelet's messages about missing ones.

use berth_api::{
    decode::from_json,
    k8s_openapi::api::core::v1::{
        Container, EnvFromSource, EnvVar, KeyToPath, LocalObjectReference, Pod, PodSpec, Volume, VolumeMount, VolumeProjection,
    },
};
use berth_identity::{GroupResource, ObjectKey};
use berth_workloads::resources::{CONFIG_MAPS, SECRETS};
use serde::{Deserialize, de::IgnoredAny};
use std::collections::{BTreeMap, BTreeSet};

/// An object that a pod references, in the pod's namespace.
pub(super) type Referenced = (GroupResource, String);
/// The known state of the objects that a pod references. Any other object counts as existing, with every key.
pub(super) type FoundObjects = BTreeMap<Referenced, Found>;
/// Messages by the volumes that cannot be mounted, or by the containers that cannot be created.
pub(super) type Faults = BTreeMap<String, String>;

/// The state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It exists, and has these keys.
    Keys(BTreeSet<String>),
    /// It does not exist.
    Missing,
    /// The node may not read it. Contains the server's message.
    Refused(String),
}

/// The next step of a node for a pod with references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Mount the volumes.
    Mount,
    /// Create the containers.
    Create,
}

/// The references of a pod, without optional ones, which block nothing.
#[derive(Debug, Default, PartialEq)]
pub(super) struct References {
    /// By the names of the volumes that some container mounts.
    volumes: Vec<(String, Vec<Reference>)>,
    /// By the names of the containers, init containers first, in the order in which a kubelet reads them.
    containers: Vec<(String, Vec<Reference>)>,
    pull_secrets: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct Reference {
    object: Referenced,
    /// The required keys.
    keys: Vec<String>,
}

impl References {
    /// Reads the references of a pod. `json` is the pod's.
    ///
    /// # Errors
    /// It is not a pod.
    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self::of_spec(from_json::<Pod>(json)?.spec.unwrap_or_default()))
    }

    fn of_spec(spec: PodSpec) -> Self {
        let all: Vec<Container> = spec.init_containers.into_iter().flatten().chain(spec.containers).collect();
        let mounted: BTreeSet<&str> = all.iter().flat_map(mounts).map(|mount| mount.name.as_str()).collect();
        let volumes = spec.volumes.iter().flatten().filter(|volume| mounted.contains(volume.name.as_str()));
        let named = |LocalObjectReference { name }: LocalObjectReference| Some(name).filter(|name| !name.is_empty());
        Self {
            volumes: volumes.map(|volume| (volume.name.clone(), of_volume(volume))).filter(references_some).collect(),
            containers: all.iter().map(|container| (container.name.clone(), of_container(container))).filter(references_some).collect(),
            pull_secrets: spec.image_pull_secrets.into_iter().flatten().filter_map(named).collect(),
        }
    }

    /// The objects that a step needs, including those whose absence is only an event.
    pub(super) fn objects(&self, step: Step) -> BTreeSet<Referenced> {
        let references = self.of(step).iter().flat_map(|(_, references)| references).map(|reference| reference.object.clone());
        let pull_secrets = self.pull_secrets.iter().filter(|_| step == Step::Create).map(|name| (SECRETS, name.clone()));
        references.chain(pull_secrets).collect()
    }

    /// The volumes that cannot be mounted, or the containers that cannot be created, with the reasons. `namespace` is the pod's.
    ///
    /// Source: kubernetes `pkg/volume/{configmap,secret,projected}`, `pkg/kubelet/kubelet_pods.go`, `makeEnvironmentVariables`.
    pub(super) fn faults(&self, step: Step, namespace: &str, found: &FoundObjects) -> Faults {
        let fault = |(name, references): &(String, Vec<Reference>)| {
            let mut faults = references.iter().filter_map(|reference| reference.fault(step, namespace, found));
            let message = match step {
                Step::Mount => aggregate(faults.collect()),
                Step::Create => faults.next(),
            };
            Some((name.clone(), message?))
        };
        self.of(step).iter().filter_map(fault).collect()
    }

    /// The pull secrets that cannot be read.
    pub(super) fn missing_pull_secrets(&self, found: &FoundObjects) -> Vec<&str> {
        let is_missing = |name: &&String| !matches!(found.get(&(SECRETS, (*name).clone())), None | Some(Found::Keys(_)));
        self.pull_secrets.iter().filter(is_missing).map(String::as_str).collect()
    }

    fn of(&self, step: Step) -> &[(String, Vec<Reference>)] {
        match step {
            Step::Mount => &self.volumes,
            Step::Create => &self.containers,
        }
    }
}

impl Reference {
    /// A reference that blocks the pod. `None` if it is optional.
    fn required(resource: GroupResource, name: &str, keys: Vec<String>, optional: Option<bool>) -> Option<Self> {
        (optional != Some(true)).then(|| Self { object: (resource, name.to_owned()), keys })
    }

    fn fault(&self, step: Step, namespace: &str, found: &FoundObjects) -> Option<String> {
        let (resource, name) = &self.object;
        match found.get(&self.object)? {
            Found::Missing => Some(format!("{} {name:?} not found", singular(resource))),
            Found::Refused(message) => Some(message.clone()),
            Found::Keys(keys) => {
                let missing = self.keys.iter().find(|key| !keys.contains(*key))?;
                Some(match (step, *resource == SECRETS) {
                    (Step::Mount, true) => format!("references non-existent secret key: {missing}"),
                    (Step::Mount, false) => format!("configmap references non-existent config key: {missing}"),
                    (Step::Create, true) => format!("couldn't find key {missing} in Secret {namespace}/{name}"),
                    (Step::Create, false) => format!("couldn't find key {missing} in ConfigMap {namespace}/{name}"),
                })
            }
        }
    }
}

/// The kubelet's name of the kind in its messages.
fn singular(resource: &GroupResource) -> &'static str {
    if *resource == SECRETS { "secret" } else { "configmap" }
}

/// Joins several errors as Go prints them, each text once.
fn aggregate(faults: Vec<String>) -> Option<String> {
    let mut distinct: Vec<String> = Vec::new();
    for fault in faults {
        if !distinct.contains(&fault) {
            distinct.push(fault);
        }
    }
    match distinct.len() {
        0 => None,
        1 => distinct.pop(),
        _ => Some(format!("[{}]", distinct.join(", "))),
    }
}

fn references_some((_, references): &(String, Vec<Reference>)) -> bool {
    !references.is_empty()
}

fn mounts(container: &Container) -> impl Iterator<Item = &VolumeMount> {
    container.volume_mounts.iter().flatten()
}

fn of_volume(volume: &Volume) -> Vec<Reference> {
    let config_map = volume.config_map.as_ref();
    let config_map =
        config_map.and_then(|source| Reference::required(CONFIG_MAPS, &source.name, keys(source.items.as_ref()), source.optional));
    let secret = volume.secret.as_ref().and_then(|source| {
        Reference::required(SECRETS, source.secret_name.as_deref().unwrap_or_default(), keys(source.items.as_ref()), source.optional)
    });
    let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()).filter_map(of_projection);
    config_map.into_iter().chain(secret).chain(projected).collect()
}

fn of_projection(projection: &VolumeProjection) -> Option<Reference> {
    let config_map = projection.config_map.as_ref();
    let config_map =
        config_map.and_then(|source| Reference::required(CONFIG_MAPS, &source.name, keys(source.items.as_ref()), source.optional));
    config_map.or_else(|| {
        let source = projection.secret.as_ref()?;
        Reference::required(SECRETS, &source.name, keys(source.items.as_ref()), source.optional)
    })
}

fn keys(items: Option<&Vec<KeyToPath>>) -> Vec<String> {
    items.into_iter().flatten().map(|item| item.key.clone()).collect()
}

/// `envFrom` is read before `env`.
fn of_container(container: &Container) -> Vec<Reference> {
    let whole = container.env_from.iter().flatten().filter_map(of_env_from);
    whole.chain(container.env.iter().flatten().filter_map(of_env)).collect()
}

fn of_env_from(source: &EnvFromSource) -> Option<Reference> {
    let config_map = source.config_map_ref.as_ref();
    config_map.and_then(|from| Reference::required(CONFIG_MAPS, &from.name, Vec::new(), from.optional)).or_else(|| {
        let from = source.secret_ref.as_ref()?;
        Reference::required(SECRETS, &from.name, Vec::new(), from.optional)
    })
}

fn of_env(variable: &EnvVar) -> Option<Reference> {
    let from = variable.value_from.as_ref()?;
    let config_map = from.config_map_key_ref.as_ref();
    config_map.and_then(|from| Reference::required(CONFIG_MAPS, &from.name, vec![from.key.clone()], from.optional)).or_else(|| {
        let from = from.secret_key_ref.as_ref()?;
        Reference::required(SECRETS, &from.name, vec![from.key.clone()], from.optional)
    })
}

/// The required ConfigMaps and Secrets of a pod, in its namespace.
#[must_use]
pub fn required_objects(spec: PodSpec) -> BTreeSet<(GroupResource, String)> {
    let references = References::of_spec(spec);
    let all = references.volumes.iter().chain(&references.containers).flat_map(|(_, references)| references);
    all.map(|reference| reference.object.clone()).collect()
}

/// The keys of a ConfigMap or a Secret. The values are dropped.
///
/// # Errors
/// It is neither.
pub(super) fn keys_of(json: &[u8]) -> Result<BTreeSet<String>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Wire {
        data: BTreeMap<String, IgnoredAny>,
        binary_data: BTreeMap<String, IgnoredAny>,
    }
    let Wire { data, binary_data } = from_json(json)?;
    Ok(data.into_keys().chain(binary_data.into_keys()).collect())
}

/// The key of an object that a pod of this namespace references.
pub(super) fn key(namespace: &str, (resource, name): &Referenced) -> (GroupResource, ObjectKey) {
    (resource.clone(), ObjectKey::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn references(spec: &Value) -> References {
        References::decode(json!({"metadata": {"name": "p"}, "spec": spec}).to_string().as_bytes()).expect("a pod")
    }

    /// The ConfigMap `c` and the Secret `s` exist with the key `k`; nothing else exists.
    fn found(references: &References, step: Step) -> FoundObjects {
        let found = |(resource, name): Referenced| {
            let exists = (resource == CONFIG_MAPS && name == "c") || (resource == SECRETS && name == "s");
            ((resource, name), if exists { Found::Keys(["k".to_owned()].into()) } else { Found::Missing })
        };
        references.objects(step).into_iter().map(found).collect()
    }

    fn check(step: Step, spec: &Value, wanted: Option<&str>) {
        let references = references(spec);
        let faults = references.faults(step, "shop", &found(&references, step));
        assert_eq!(faults.values().next().map(String::as_str), wanted, "{spec}");
        assert!(faults.len() <= 1);
    }

    fn env(source: &str, name: &str, key: &str, optional: bool) -> Value {
        json!({"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {source: {"name": name, "key": key, "optional": optional}}}]}]})
    }

    #[test]
    fn a_container_needs_the_objects_and_keys_of_its_environment() {
        let check = |spec: &Value, wanted| check(Step::Create, spec, wanted);
        check(&env("configMapKeyRef", "c", "k", false), None);
        check(&env("configMapKeyRef", "nope", "k", false), Some("configmap \"nope\" not found"));
        check(&env("configMapKeyRef", "c", "x", false), Some("couldn't find key x in ConfigMap shop/c"));
        check(&env("secretKeyRef", "s", "k", false), None);
        check(&env("secretKeyRef", "nope", "k", false), Some("secret \"nope\" not found"));
        check(&env("secretKeyRef", "s", "x", false), Some("couldn't find key x in Secret shop/s"));
        for (source, name, key) in [("configMapKeyRef", "nope", "k"), ("configMapKeyRef", "c", "x"), ("secretKeyRef", "s", "x")] {
            check(&env(source, name, key, true), None);
        }
        let from = |source: Value| json!({"containers": [{"name": "main", "envFrom": [source]}]});
        check(&from(json!({"configMapRef": {"name": "c"}})), None);
        check(&from(json!({"configMapRef": {"name": "nope"}})), Some("configmap \"nope\" not found"));
        check(&from(json!({"secretRef": {"name": "nope"}})), Some("secret \"nope\" not found"));
        check(&from(json!({"secretRef": {"name": "nope", "optional": true}})), None);
    }

    #[test]
    fn the_first_fault_of_a_container_is_its_message_and_env_from_is_read_first() {
        let both = json!({"containers": [{"name": "main",
            "env": [{"name": "B", "valueFrom": {"secretKeyRef": {"name": "later", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "c"}}, {"configMapRef": {"name": "first"}}]}]});
        check(Step::Create, &both, Some("configmap \"first\" not found"));
        let init =
            json!({"initContainers": [{"name": "once", "envFrom": [{"secretRef": {"name": "nope"}}]}], "containers": [{"name": "main"}]});
        let found_by_init = references(&init);
        let faults = found_by_init.faults(Step::Create, "shop", &found(&found_by_init, Step::Create));
        assert_eq!(faults.into_iter().collect::<Vec<_>>(), [("once".to_owned(), "secret \"nope\" not found".to_owned())]);
    }

    fn volume(source: &Value) -> Value {
        let mut volume = json!({"name": "v"});
        volume.as_object_mut().expect("a map").extend(source.as_object().expect("a map").clone());
        json!({"volumes": [volume], "containers": [{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]})
    }

    #[test]
    fn a_volume_needs_its_objects_and_the_keys_of_its_items() {
        let check = |source: Value, wanted| check(Step::Mount, &volume(&source), wanted);
        let item = |key: &str| json!([{"key": key, "path": "p"}]);
        check(json!({"configMap": {"name": "c"}}), None);
        check(json!({"configMap": {"name": "nope"}}), Some("configmap \"nope\" not found"));
        check(json!({"configMap": {"name": "nope", "optional": true}}), None);
        check(json!({"configMap": {"name": "c", "items": item("x")}}), Some("configmap references non-existent config key: x"));
        check(json!({"configMap": {"name": "c", "items": item("x"), "optional": true}}), None);
        check(json!({"secret": {"secretName": "s", "items": item("k")}}), None);
        check(json!({"secret": {"secretName": "nope"}}), Some("secret \"nope\" not found"));
        check(json!({"secret": {"secretName": "s", "items": item("x")}}), Some("references non-existent secret key: x"));
        let projected = |sources: Value| json!({"projected": {"sources": sources}});
        check(projected(json!([{"configMap": {"name": "c"}}, {"secret": {"name": "nope"}}])), Some("secret \"nope\" not found"));
        let both = json!([{"configMap": {"name": "no"}}, {"secret": {"name": "nope"}}, {"secret": {"name": "nope"}}, {"secret": {"name": "x", "optional": true}}]);
        check(projected(both), Some("[configmap \"no\" not found, secret \"nope\" not found]"));
        check(json!({"emptyDir": {}}), None);
    }

    #[test]
    fn a_volume_that_no_container_mounts_is_not_mounted() {
        check(Step::Mount, &json!({"volumes": [{"name": "v", "secret": {"secretName": "nope"}}], "containers": [{"name": "main"}]}), None);
    }

    #[test]
    fn a_forbidden_reference_is_reported_in_the_servers_words_and_an_unknown_one_counts_as_present() {
        let references = references(&env("secretKeyRef", "s", "k", false));
        let refused = FoundObjects::from([((SECRETS, "s".to_owned()), Found::Refused("secrets \"s\" is forbidden".to_owned()))]);
        let message = |found| references.faults(Step::Create, "shop", found).into_values().next();
        assert_eq!(message(&refused).as_deref(), Some("secrets \"s\" is forbidden"));
        assert_eq!(message(&FoundObjects::new()), None);
    }

    #[test]
    fn a_missing_pull_secret_is_known_and_holds_no_container() {
        let references = references(&json!({"containers": [{"name": "main"}], "imagePullSecrets": [{"name": "s"}, {"name": "nope"}, {}]}));
        let found = found(&references, Step::Create);
        assert_eq!(references.missing_pull_secrets(&found), ["nope"]);
        assert_eq!(references.faults(Step::Create, "shop", &found), Faults::new());
    }

    #[test]
    fn only_the_keys_of_an_object_are_kept() {
        let keys = keys_of(br#"{"data": {"a": "secret", "b": null}, "binaryData": {"c": "AA=="}}"#).expect("a ConfigMap");
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(keys_of(br#"{"metadata": {"name": "empty"}}"#).expect("a Secret"), BTreeSet::new());
    }
}
