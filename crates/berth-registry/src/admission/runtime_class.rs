//! Sets the overhead and the nodes of a new pod from its RuntimeClass.
//!
//! Source: upstream's plug-in `RuntimeClass`.

use super::{
    Admission,
    plug_in::{Chain, PlugIn},
    reader::Reader,
};
use crate::{ApiError, resource};
use berth_api::k8s_openapi::api::{
    core::v1::{Pod, PodSpec, Toleration},
    node::v1::RuntimeClass as Class,
};
use berth_identity::GroupVersionKind;
use berth_store::MinRevision;

pub(super) struct RuntimeClass;

impl PlugIn for RuntimeClass {
    const NAME: &'static str = "RuntimeClass";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let as_of = admission.as_of.clone();
        let Some(pod) = admission.created_mut::<Pod>() else { return Ok(()) };
        let spec = pod.spec.get_or_insert_default();
        let class = match spec.runtime_class_name.clone().filter(|name| !name.is_empty()) {
            None => Ok(None),
            Some(name) => class(&chain.reader, &name, &as_of).await?.map(Some).ok_or(ClassConflict::NotFound(name)),
        };
        class.and_then(|class| settle(spec, class)).map_err(|why| admission.forbidden(&why))
    }
}

async fn class(reader: &Reader, name: &str, as_of: &MinRevision) -> Result<Option<Class>, ApiError> {
    let gvk = GroupVersionKind::from_static("node.k8s.io", "v1", "RuntimeClass");
    let resource = resource::built_in().by_kind(&gvk).expect("it is a built-in kind");
    let Some(entry) = reader.get(resource, None, name, as_of).await? else { return Ok(None) };
    let read = serde_json::from_slice(&entry.value);
    read.map(Some).map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })
}

/// Why a pod and its class contradict each other, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ClassConflict {
    #[error("pod rejected: RuntimeClass \"{0}\" not found")]
    NotFound(String),
    #[error("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")]
    Overhead,
    #[error("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")]
    NoOverhead,
    #[error("conflict: runtimeClass.scheduling.nodeSelector[{key}] = {of_class}; pod.spec.nodeSelector[{key}] = {of_pod}")]
    NodeSelector { key: String, of_class: String, of_pod: String },
}

/// Gives a pod what its class sets.
fn settle(spec: &mut PodSpec, class: Option<Class>) -> Result<(), ClassConflict> {
    let overhead = class.as_ref().and_then(|class| class.overhead.as_ref()?.pod_fixed.clone());
    match (&spec.overhead, overhead) {
        (None, overhead) => spec.overhead = overhead,
        (Some(own), Some(overhead)) if *own == overhead => (),
        (Some(_), Some(_)) => return Err(ClassConflict::Overhead),
        (Some(_), None) => return Err(ClassConflict::NoOverhead),
    }
    let Some(scheduling) = class.and_then(|class| class.scheduling) else { return Ok(()) };
    let nodes = spec.node_selector.get_or_insert_default();
    for (key, value) in scheduling.node_selector.unwrap_or_default() {
        let own = nodes.entry(key.clone()).or_insert_with(|| value.clone());
        if *own != value {
            let of_pod = own.clone();
            return Err(ClassConflict::NodeSelector { key, of_class: value, of_pod });
        }
    }
    if nodes.is_empty() {
        spec.node_selector = None;
    }
    let own = spec.tolerations.take().unwrap_or_default();
    spec.tolerations = Some(merged(own, scheduling.tolerations.unwrap_or_default())).filter(|tolerations| !tolerations.is_empty());
    Ok(())
}

/// The maximum number of tolerations that are compared with each other, to limit the cost of a request. Longer lists
/// keep redundant ones, which have no effect.
const COMPARED_MAX: usize = 256;

/// Returns both lists in their order, without a toleration that another one covers. Of two that cover each other, one
/// remains.
fn merged(mut all: Vec<Toleration>, more: Vec<Toleration>) -> Vec<Toleration> {
    all.extend(more);
    if COMPARED_MAX < all.len() {
        return all;
    }
    let mut kept: Vec<Toleration> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let later = all[at + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !later && !kept.iter().any(|other| covers(other, toleration)) {
            kept.push(toleration.clone());
        }
    }
    kept
}

/// Whether `wide` tolerates every taint that `narrow` tolerates, for at least as long.
fn covers(wide: &Toleration, narrow: &Toleration) -> bool {
    fn text(text: &Option<String>) -> &str {
        text.as_deref().unwrap_or_default()
    }
    if wide == narrow {
        return true;
    }
    let is_any_key = text(&wide.key).is_empty() && text(&wide.operator) == "Exists";
    if text(&wide.key) != text(&narrow.key) && !is_any_key {
        return false;
    }
    if text(&wide.effect) != text(&narrow.effect) && !text(&wide.effect).is_empty() {
        return false;
    }
    if text(&wide.effect) == "NoExecute"
        && let Some(seconds) = wide.toleration_seconds
        && narrow.toleration_seconds.is_none_or(|narrow| seconds < narrow)
    {
        return false;
    }
    match text(&wide.operator) {
        "Exists" => true,
        _ => matches!(text(&narrow.operator), "" | "Equal") && text(&wide.value) == text(&narrow.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn class() -> Class {
        serde_json::from_value(json!({
            "metadata": {"name": "rich"},
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
            "scheduling": {
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "x", "operator": "Exists"}, {"key": "y", "operator": "Equal", "value": "1", "effect": "NoSchedule"}],
            },
        }))
        .expect("it is one")
    }

    fn pod(spec: &Value) -> PodSpec {
        let mut whole = spec.clone();
        whole["containers"] = json!([]);
        serde_json::from_value(whole).expect("it is one")
    }

    fn settled(spec: &Value) -> Result<Value, ClassConflict> {
        let mut spec = pod(spec);
        settle(&mut spec, Some(class()))?;
        Ok(json!({"overhead": spec.overhead, "nodeSelector": spec.node_selector, "tolerations": spec.tolerations}))
    }

    /// The results and texts are those of a real 1.36.2.
    #[test]
    fn a_pod_takes_overhead_and_scheduling_from_its_class() {
        let overhead = json!({"cpu": "250m", "memory": "64Mi"});
        let (x, y) =
            (json!({"key": "x", "operator": "Exists"}), json!({"key": "y", "operator": "Equal", "value": "1", "effect": "NoSchedule"}));
        let bare = json!({"overhead": overhead, "nodeSelector": {"a": "b"}, "tolerations": [x, y]});
        assert_eq!(settled(&json!({})), Ok(bare.clone()));
        assert_eq!(settled(&json!({"overhead": overhead})), Ok(bare));
        let z = json!({"key": "z", "operator": "Exists"});
        let narrow = json!({"key": "x", "operator": "Exists", "effect": "NoSchedule"});
        assert_eq!(
            settled(&json!({"nodeSelector": {"a": "b", "d": "e"}, "tolerations": [x, z, narrow]})),
            Ok(json!({"overhead": overhead, "nodeSelector": {"a": "b", "d": "e"}, "tolerations": [x, z, y]}))
        );
        let all = json!({"operator": "Exists"});
        let tolerated = settled(&json!({"tolerations": [narrow, all]})).map(|spec| spec["tolerations"].clone());
        assert_eq!(tolerated, Ok(json!([all])));
    }

    #[test]
    fn a_pod_that_contradicts_its_class_is_rejected() {
        let differs = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        let rejected = |spec: &Value| settled(spec).expect_err("a contradiction").to_string();
        assert_eq!(rejected(&json!({"overhead": {"cpu": "1"}})), differs);
        let conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c";
        assert_eq!(rejected(&json!({"nodeSelector": {"a": "c"}})), conflict);
        let alone = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        let unfounded = settle(&mut pod(&json!({"overhead": {"cpu": "1"}})), None).expect_err("no class has overhead");
        assert_eq!(unfounded.to_string(), alone);
        assert_eq!(settle(&mut pod(&json!({})), None), Ok(()));
    }

    #[test]
    fn of_two_tolerations_that_cover_each_other_one_stays() {
        let equal = |operator: Option<&str>| Toleration {
            key: Some("a".to_owned()),
            operator: operator.map(str::to_owned),
            value: Some("x".to_owned()),
            ..Toleration::default()
        };
        let kept = merged(vec![equal(Some("Equal"))], vec![equal(None)]);
        assert_eq!(kept, [equal(None)]);
        assert_eq!(merged(vec![equal(None)], vec![equal(None)]), [equal(None)]);
    }

    #[test]
    fn a_long_list_of_tolerations_keeps_all() {
        let all = vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }; 50_000];
        assert_eq!(merged(all, Vec::new()).len(), 50_000);
    }

    #[test]
    fn a_toleration_with_a_limit_covers_only_shorter_ones() {
        let toleration = |seconds: Option<i64>| Toleration {
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        };
        assert!(covers(&toleration(Some(5)), &toleration(Some(4))) && covers(&toleration(None), &toleration(Some(4))));
        assert!(!covers(&toleration(Some(4)), &toleration(Some(5))) && !covers(&toleration(Some(4)), &toleration(None)));
    }
}
