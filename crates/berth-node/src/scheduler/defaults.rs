//! The spreading of pods without constraints of their own: by the Services and the owner that select them.
//!
//! Source: kube-scheduler, plugin `PodTopologySpread`, its system defaults and `DefaultSelector`.

use super::{
    HOSTNAME, pod_set::PodSet, selecting_kind::SelectingKind, spread::Constraints, spread_constraint::SpreadConstraint, view::PodInfo,
};
use berth_api::{Selector, decode::from_json, k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector};
use berth_identity::{Name, Namespace, ObjectKey, Revision, Uid};
use berth_workloads::view::{Identity, View, WireMetadata};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The label whose value is the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";
/// How many pods a node, and a zone, may be ahead before it counts.
const NODE_SKEW: i64 = 3;
const ZONE_SKEW: i64 = 5;

/// What the scheduler reads of a Service or of a set of pods: the pods that it selects.
#[derive(Clone, Debug)]
pub struct SelectorView {
    namespace: Namespace,
    name: Name,
    uid: Uid,
    deleting: bool,
    /// `None`: it selects no pods.
    selector: Option<Selector>,
}

#[derive(Deserialize)]
struct Wire<S> {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireSpec<S>,
}

#[derive(Deserialize)]
struct WireSpec<S> {
    selector: Option<S>,
}

impl<S> Default for WireSpec<S> {
    fn default() -> Self {
        Self { selector: None }
    }
}

impl SelectorView {
    fn new(metadata: WireMetadata, selector: Option<&LabelSelector>) -> Self {
        Self {
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            deleting: metadata.deletion_timestamp.is_some(),
            selector: selector.and_then(|selector| Selector::from_label_selector(selector).ok()),
        }
    }

    /// Decodes a kind whose selector is a map: Services and ReplicationControllers.
    pub(super) fn decode_map(json: &[u8]) -> Result<Self, serde_json::Error> {
        let wire: Wire<BTreeMap<String, String>> = from_json(json)?;
        let labels = wire.spec.selector.filter(|labels| !labels.is_empty());
        let selector = labels.map(|labels| LabelSelector { match_labels: Some(labels), ..LabelSelector::default() });
        Ok(Self::new(wire.metadata, selector.as_ref()))
    }

    pub(super) fn key(&self) -> ObjectKey {
        self.identity().key()
    }
}

impl View for SelectorView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<LabelSelector> = from_json(json)?;
        Ok(Self::new(wire.metadata, wire.spec.selector.as_ref()))
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

/// All Services and sets of pods.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    services: BTreeMap<Namespace, BTreeMap<Name, Selector>>,
    owners: BTreeMap<(SelectingKind, ObjectKey), Selector>,
}

impl Selectors {
    pub(super) fn set(&mut self, kind: SelectingKind, view: &SelectorView) {
        self.remove(kind, view);
        let Some(selector) = view.selector.clone() else { return };
        match kind {
            SelectingKind::Service => {
                _ = self.services.entry(view.namespace.clone()).or_default().insert(view.name.clone(), selector);
            }
            _ => _ = self.owners.insert((kind, view.key()), selector),
        }
    }

    pub(super) fn remove(&mut self, kind: SelectingKind, view: &SelectorView) {
        if kind != SelectingKind::Service {
            self.owners.remove(&(kind, view.key()));
        } else if let Some(services) = self.services.get_mut(&view.namespace) {
            services.remove(&view.name);
            if services.is_empty() {
                self.services.remove(&view.namespace);
            }
        }
    }

    /// The constraints that the pod is placed with: its own, or else the default ones.
    pub(super) fn constraints(&self, pod: &PodInfo) -> Constraints {
        let own = &pod.wishes().spread;
        if !own.is_empty() {
            return Constraints { all: own.clone(), are_default: false };
        }
        let Some(selector) = self.default_selector(pod) else { return Constraints::default() };
        let pods = PodSet::active_in(&pod.namespace, Some(selector));
        let all = [(HOSTNAME, NODE_SKEW), (ZONE, ZONE_SKEW)].map(|(key, skew)| SpreadConstraint::preferred(key, skew, &pods));
        Constraints { all: all.into(), are_default: true }
    }

    /// Which pods are like this one: those that match the selectors of all its Services and of its owner.
    fn default_selector(&self, pod: &PodInfo) -> Option<Selector> {
        let services = self.services.get(&pod.namespace).into_iter().flat_map(BTreeMap::values);
        let of_services = services.filter(|selector| selector.matches(&pod.labels));
        let owner = pod.wishes().owner.as_ref();
        let of_owner = owner.and_then(|(kind, name)| self.owners.get(&(*kind, ObjectKey::new(&pod.namespace, name))));
        let texts: Vec<String> =
            of_services.chain(of_owner).filter(|selector| !selector.is_everything()).map(ToString::to_string).collect();
        if texts.is_empty() { None } else { Selector::parse(&texts.join(",")).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::view::Wishes;
    use serde_json::{Value, json};

    fn object(name: &str, selector: Value) -> Vec<u8> {
        json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"selector": selector}}).to_string().into_bytes()
    }

    #[test]
    fn pods_are_spread_by_all_services_and_the_owner_that_select_them() {
        let mut selectors = Selectors::default();
        let service = |name: &str, selector: Value| SelectorView::decode_map(&object(name, selector)).expect("a Service");
        let set = |selector: Value| SelectorView::decode(&object("web", selector), Revision(1)).expect("a ReplicaSet");
        selectors.set(SelectingKind::Service, &service("web", json!({"app": "web"})));
        selectors.set(SelectingKind::Service, &service("all", json!({"tier": "front"})));
        selectors.set(SelectingKind::Service, &service("other", json!({"app": "db"})));
        selectors.set(SelectingKind::Service, &service("none", json!({})));
        selectors.set(SelectingKind::ReplicaSet, &set(json!({"matchLabels": {"hash": "1"}})));
        let check = |selectors: &Selectors, labels: &[(&str, &str)], owner: Option<SelectingKind>, expected: Option<&str>| {
            let wishes = Wishes { owner: owner.map(|kind| (kind, "web".into())), ..Wishes::default() };
            let labels = labels.iter().copied().collect();
            let pod = PodInfo { namespace: "ns".into(), labels, wishes: Some(Box::new(wishes)), ..PodInfo::default() };
            let found = selectors.default_selector(&pod).map(|selector| selector.to_string());
            assert_eq!(found.as_deref(), expected, "{pod:?}");
            assert_eq!(selectors.constraints(&pod).all.len(), if expected.is_some() { 2 } else { 0 });
        };
        check(&selectors, &[("app", "web")], None, Some("app=web"));
        check(&selectors, &[("app", "web"), ("tier", "front")], None, Some("app=web,tier=front"));
        check(&selectors, &[("app", "web"), ("hash", "1")], Some(SelectingKind::ReplicaSet), Some("app=web,hash=1"));
        check(&selectors, &[("app", "web"), ("hash", "1")], Some(SelectingKind::StatefulSet), Some("app=web"));
        check(&selectors, &[("app", "cache")], None, None);
        selectors.remove(SelectingKind::Service, &service("web", json!({})));
        check(&selectors, &[("app", "web")], None, None);
    }

    #[test]
    fn only_sets_of_pods_are_owners_whose_pods_are_spread() {
        let kind = SelectingKind::of_owner;
        assert_eq!(kind("apps/v1", "ReplicaSet"), Some(SelectingKind::ReplicaSet));
        assert_eq!(kind("apps/v1", "StatefulSet"), Some(SelectingKind::StatefulSet));
        assert_eq!(kind("v1", "ReplicationController"), Some(SelectingKind::ReplicationController));
        assert_eq!((kind("apps/v1", "DaemonSet"), kind("batch/v1", "Job"), kind("example.com/v1", "ReplicaSet")), (None, None, None));
    }
}
