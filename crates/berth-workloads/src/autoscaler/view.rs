//! The fields of autoscalers, their targets and pods that plans read.

use crate::{
    resources::AUTOSCALERS,
    selector::{Labels, Selector},
    view::{ForeignWrites, Identity, PodPhase, View},
};
use berth_api::{
    annotations::METRICS_PREFIX,
    decode::{Codec, from_json},
    quantity::Quantity,
    simulation,
};
use berth_identity::{Name, Namespace, ObjectRef, Revision, Uid};
use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        autoscaling::{
            v1::Scale,
            v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus},
        },
        core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    },
    apimachinery::pkg::{
        api::resource::Quantity as WireQuantity,
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Metrics of one object by name, in thousandths.
type Metrics = BTreeMap<String, i64>;

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AutoscalerView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// Whether its `deletionTimestamp` is set.
    pub is_terminating: bool,
    /// What other controllers wrote to it.
    pub foreign: Option<Box<ForeignWrites>>,
    /// The values of its external metrics, from its annotations.
    pub metrics: Metrics,
    /// Its spec, with defaults.
    pub spec: HorizontalPodAutoscalerSpec,
    /// Its status.
    pub status: HorizontalPodAutoscalerStatus,
}

impl AutoscalerView {
    /// The autoscaler in the version that was read.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.identity().reference(AUTOSCALERS, self.revision)
    }
}

impl View for AutoscalerView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let HorizontalPodAutoscaler { metadata, spec, status } = HorizontalPodAutoscaler::decode_json(json)?;
        Ok(Self {
            foreign: ForeignWrites::of(metadata.managed_fields.as_deref()),
            metrics: metrics(&metadata),
            is_terminating: metadata.deletion_timestamp.is_some(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            revision,
            spec,
            status: status.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.is_terminating }
    }
}

/// An object that can be a target, or that a metric can describe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaledView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status.replicas`.
    pub current: i32,
    /// Its selector. `None`: it has none, or one that matches everything.
    pub selector: Option<Selector>,
    /// Its metrics, from its annotations.
    pub metrics: Metrics,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Scaled {
    metadata: ObjectMeta,
    spec: ScaledSpec,
    status: ScaledStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaledSpec {
    replicas: Option<i32>,
    selector: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaledStatus {
    replicas: Option<i32>,
}

impl ScaledView {
    /// Reads the `Scale` of an object.
    ///
    /// # Errors
    /// The JSON is not a `Scale`.
    pub fn of_scale(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let Scale { metadata, spec, status } = Scale::decode_json(json)?;
        let status = status.unwrap_or_default();
        let selector = status.selector.as_deref().and_then(label_selector);
        Ok(Self {
            metrics: Metrics::default(),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            revision,
            // A scale omits a zero.
            replicas: spec.and_then(|spec| spec.replicas).unwrap_or(0),
            current: status.replicas,
            selector: selector.and_then(|selector| Selector::parse(&selector)).filter(|selector| !selector.is_empty()),
        })
    }
}

/// Reads a selector in its text form: `app=web,tier in (a,b),!old`. `None`: it is not one.
fn label_selector(text: &str) -> Option<LabelSelector> {
    let mut requirements = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // A comma in parentheses separates values.
        let mut depth = 0;
        let end = rest.find(|letter| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            letter == ',' && depth == 0
        });
        let (first, more) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        requirements.push(requirement(first.trim())?);
        rest = more.trim();
    }
    Some(LabelSelector { match_expressions: Some(requirements), ..LabelSelector::default() })
}

fn requirement(text: &str) -> Option<LabelSelectorRequirement> {
    let of = |key: &str, operator: &str, values: Option<Vec<String>>| {
        let key = key.trim();
        let is_key = !key.is_empty() && !key.contains(char::is_whitespace);
        is_key.then(|| LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values })
    };
    let one = |value: &str| Some(vec![value.trim().to_owned()]);
    if let Some((before, list)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values = Some(list.split(',').map(|value| value.trim().to_owned()).collect());
        let (key, word) = before.trim().split_once(char::is_whitespace)?;
        return match word.trim() {
            "in" => of(key, "In", values),
            "notin" => of(key, "NotIn", values),
            _ => None,
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return of(key, "NotIn", one(value));
    }
    if let Some((key, value)) = text.split_once('=') {
        return of(key, "In", one(value.trim_start_matches('=')));
    }
    match text.strip_prefix('!') {
        Some(key) => of(key, "DoesNotExist", None),
        None => of(text, "Exists", None),
    }
}

impl View for ScaledView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let Scaled { metadata, spec, status } = from_json(json)?;
        Ok(Self {
            metrics: metrics(&metadata),
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            revision,
            replicas: spec.replicas.unwrap_or(1),
            current: status.replicas.unwrap_or(0),
            selector: spec.selector.and_then(selector),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: false }
    }
}

/// Reads the selector of a workload: a label selector, or the map of a ReplicationController.
fn selector(value: Value) -> Option<Selector> {
    let is_map = value.as_object().is_some_and(|members| members.values().all(Value::is_string));
    let selector = if is_map {
        LabelSelector { match_labels: serde_json::from_value(value).ok(), ..LabelSelector::default() }
    } else {
        serde_json::from_value(value).ok()?
    };
    Selector::parse(&selector).filter(|selector| !selector.is_empty())
}

fn metrics(metadata: &ObjectMeta) -> Metrics {
    let annotations = metadata.annotations.iter().flatten();
    let metric = |(key, value): (&String, &String)| {
        let amount: Quantity = value.parse().ok()?;
        Some((key.strip_prefix(METRICS_PREFIX)?.to_owned(), amount.milli_value()))
    };
    annotations.filter_map(metric).collect()
}

/// A pod that an autoscaler can measure. Its JSON is decoded when a plan needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPodView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its labels.
    pub labels: Labels,
    json: Bytes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Measured {
    metadata: MeasuredMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MeasuredMeta {
    namespace: Namespace,
    name: Name,
    uid: Uid,
    labels: Labels,
}

impl MeasuredPodView {
    /// Its samples at `now`. `None`: the JSON is not a pod.
    #[must_use]
    pub fn sample(&self, now: Timestamp) -> Option<PodSample> {
        Pod::decode_json(&self.json).ok().map(|pod| PodSample::of(&pod, now))
    }
}

impl View for MeasuredPodView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        Self::decode_shared(&Bytes::copy_from_slice(json), revision)
    }

    fn decode_shared(json: &Bytes, _revision: Revision) -> Result<Self, serde_json::Error> {
        let Measured { metadata: MeasuredMeta { namespace, name, uid, labels } } = from_json(json)?;
        Ok(Self { namespace, name, uid, labels, json: json.clone() })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: false }
    }
}

/// What an autoscaler knows of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSample {
    /// Its name.
    pub name: Name,
    /// Whether its `deletionTimestamp` is set.
    pub is_terminating: bool,
    /// Its phase.
    pub phase: PodPhase,
    /// When its node accepted it.
    pub start_time: Option<Timestamp>,
    /// Its condition Ready.
    pub ready: Option<ReadyCondition>,
    /// Containers and sidecars with their requests, in thousandths.
    pub requests: Vec<ContainerSample>,
    /// The requests of the pod as a whole, if its spec has some.
    pub own_requests: Option<Metrics>,
    /// The usage of its running containers, in thousandths. Empty: there is no sample.
    pub usage: Vec<ContainerSample>,
    /// Its custom metrics, from its annotations.
    pub metrics: Metrics,
}

/// The condition Ready of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// Amounts of resources of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSample {
    /// The container's name.
    pub name: String,
    /// Amounts by resource, in thousandths.
    pub amounts: Metrics,
}

impl PodSample {
    /// The samples of `pod` at `now`.
    #[must_use]
    pub fn of(pod: &Pod, now: Timestamp) -> Self {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").map(|condition| ReadyCondition {
            status: condition.status.clone(),
            since: condition.last_transition_time.as_ref().map(|time| time.0),
        });
        let usage = simulation::usage(pod, now).into_iter().map(|used| ContainerSample {
            name: used.name,
            amounts: [("cpu".to_owned(), used.cpu.milli_value()), ("memory".to_owned(), used.memory.milli_value())].into(),
        });
        Self {
            name: pod.metadata.name.clone().into(),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            phase: PodPhase::parse(status.and_then(|status| status.phase.as_deref()).unwrap_or_default()),
            start_time: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            ready,
            requests: pod.spec.iter().flat_map(measured).map(requested).collect(),
            own_requests: pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()).and_then(requests),
            usage: usage.collect(),
            metrics: metrics(&pod.metadata),
        }
    }
}

/// Containers, then sidecars.
fn measured(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    spec.containers.iter().chain(spec.init_containers.iter().flatten().filter(is_sidecar))
}

fn requested(container: &Container) -> ContainerSample {
    let amounts = container.resources.as_ref().and_then(requests).unwrap_or_default();
    ContainerSample { name: container.name.clone(), amounts }
}

fn requests(resources: &ResourceRequirements) -> Option<Metrics> {
    let amount = |(name, amount): (&String, &WireQuantity)| Some((name.clone(), amount.0.parse::<Quantity>().ok()?.milli_value()));
    resources.requests.as_ref().map(|requests| requests.iter().filter_map(amount).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_scale_of_a_custom_object_has_its_size_and_selector() {
        let scale = |selector: &str| {
            let scale = json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"namespace": "n", "name": "a", "uid": "u"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": selector},
            });
            ScaledView::of_scale(scale.to_string().as_bytes(), Revision(7)).expect("a scale")
        };
        let found = scale("app=web");
        assert_eq!((&*found.uid, found.replicas, found.current, found.revision), ("u", 3, 2, Revision(7)));
        let matches = |selector: &str, labels: &[(&str, &str)]| {
            let labels: Labels = labels.iter().copied().collect();
            scale(selector).selector.is_some_and(|selector| selector.matches(&labels))
        };
        assert!(matches("app=web", &[("app", "web")]) && !matches("app=web", &[("app", "db")]));
        assert!(
            matches("app in (web, db),tier!=old", &[("app", "db")])
                && !matches("app in (web,db),tier!=old", &[("app", "db"), ("tier", "old")])
        );
        assert!(matches("app,!old", &[("app", "x")]) && !matches("app,!old", &[("app", "x"), ("old", "")]));
        assert!(matches("app notin (web)", &[]) && !matches("app notin (web)", &[("app", "web")]));
        for nothing in ["", "app of (web)", "=web"] {
            assert_eq!(scale(nothing).selector, None, "{nothing:?}");
        }
    }

    #[test]
    fn a_scale_without_replicas_has_none() {
        let scale =
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {}, "status": {"replicas": 0}});
        let scale = ScaledView::of_scale(scale.to_string().as_bytes(), Revision(7)).expect("a scale");
        assert_eq!((scale.replicas, scale.selector), (0, None));
    }
}
