//! The restrictions of a pod's claims and their volumes on its placement.

use super::{
    affinity::matches_any,
    fit::Misfit,
    view::{NodeView, PodInfo},
};
use berth_api::k8s_openapi::api::core::v1::TopologySelectorTerm;
use berth_identity::{Name, ObjectKey, Uid};
use berth_workloads::{
    view::View,
    volume_binding::{BindingMode, ClaimView, ClassView, VolumeView, claim},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All claims, volumes and classes.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<ObjectKey, Arc<ClaimView>>,
    volumes: BTreeMap<Name, Arc<VolumeView>>,
    classes: BTreeMap<Name, Arc<ClassView>>,
    /// Volumes that this scheduler has chosen for a claim, before they show it.
    chosen: BTreeMap<Name, ObjectKey>,
    /// How many pods with a node use each claim.
    uses: BTreeMap<ObjectKey, i64>,
}

/// Whether a pod can be placed, as far as its claims go.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It can, on nodes that meet the needs.
    Placeable(VolumeNeeds),
    /// Not before something happens to one of them. The text is the one that people know from `kubectl describe pod`.
    Held { why: String },
}

/// What a pod's claims require of its node.
#[derive(Debug, Default)]
pub(super) struct VolumeNeeds {
    /// The volumes of claims that are bound.
    bound: Vec<Arc<VolumeView>>,
    /// The claims that get their volumes when the pod's node is known, smaller ones first.
    pub(super) delayed: Vec<Delayed>,
    /// The claims that only one pod may use.
    exclusive: Vec<ObjectKey>,
}

/// A claim that waits for a node, with the volumes that it can have.
#[derive(Debug)]
pub(super) struct Delayed {
    claim: Arc<ClaimView>,
    /// The volume that is reserved for it, which is then the only one.
    reserved: Option<Arc<VolumeView>>,
    /// Those of its class that are reserved for no claim.
    free: Vec<Arc<VolumeView>>,
}

/// How a claim gets its volume on the chosen node.
#[derive(Clone, Debug)]
pub enum ClaimChoice {
    /// The volume exists and is reserved for the claim.
    Bind {
        /// The claim.
        claim: Arc<ClaimView>,
        /// The volume. It can be reserved already.
        volume: Arc<VolumeView>,
    },
    /// A provisioner makes it.
    Provision(Arc<ClaimView>),
}

/// Pods, which can be found by the claims that they use.
#[derive(Debug, Default)]
pub(super) struct ByClaim {
    pods: BTreeMap<Uid, Arc<PodInfo>>,
    users: BTreeMap<ObjectKey, BTreeSet<Uid>>,
}

impl ByClaim {
    pub(super) fn insert(&mut self, pod: Arc<PodInfo>) {
        for claim in keys(&pod) {
            self.users.entry(claim).or_default().insert(pod.uid.clone());
        }
        self.pods.insert(pod.uid.clone(), pod);
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(uid)?;
        for claim in keys(&pod) {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
            }
        }
        Some(pod)
    }

    pub(super) fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid)
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.values()
    }

    /// The pods that use the claim.
    pub(super) fn users(&self, claim: &ObjectKey) -> Vec<Arc<PodInfo>> {
        let users = self.users.get(claim).into_iter().flatten();
        users.filter_map(|uid| self.pods.get(uid).cloned()).collect()
    }
}

/// Whether the pod uses the claim.
fn uses(pod: &PodInfo, claim: &ObjectKey) -> bool {
    pod.namespace == claim.namespace && pod.claims.iter().any(|name| *name == *claim.name)
}

fn keys(pod: &PodInfo) -> impl Iterator<Item = ObjectKey> + '_ {
    pod.claims.iter().map(|claim| ObjectKey::new(&pod.namespace, claim))
}

impl Claims {
    /// Gives whether its provisioner has given the selected node up: there can be no volume for it there.
    pub(super) fn set_claim(&mut self, claim: Arc<ClaimView>) -> bool {
        let is_without_node = claim.selected_node().is_none();
        let old = self.claims.insert(claim.key(), claim);
        is_without_node && old.is_some_and(|old| old.selected_node().is_some())
    }

    pub(super) fn is_bound(&self, key: &ObjectKey) -> bool {
        self.claims.get(key).is_some_and(|claim| claim.is_bound())
    }

    pub(super) fn remove_claim(&mut self, key: &ObjectKey) {
        self.claims.remove(key);
    }

    /// Gives the version before.
    pub(super) fn set_volume(&mut self, volume: Arc<VolumeView>) -> Option<Arc<VolumeView>> {
        if volume.claim_ref.is_some() {
            self.chosen.remove(&volume.meta.name);
        }
        self.volumes.insert(volume.meta.name.clone(), volume)
    }

    /// Gives the claim that it was chosen for, if it did not show that yet.
    pub(super) fn remove_volume(&mut self, name: &str) -> Option<ObjectKey> {
        self.volumes.remove(name);
        self.chosen.remove(name)
    }

    /// Gives whether claims of the class are bound otherwise than before.
    pub(super) fn set_class(&mut self, class: Arc<ClassView>) -> bool {
        let old = self.classes.insert(class.meta.name.clone(), Arc::clone(&class));
        old.is_none_or(|old| (old.binding_mode, &old.allowed_topologies) != (class.binding_mode, &class.allowed_topologies))
    }

    pub(super) fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// Takes in that a pod has got a node (1), or has lost it (-1).
    pub(super) fn change_uses(&mut self, pod: &PodInfo, by: i64) {
        for claim in keys(pod) {
            let uses = self.uses.entry(claim.clone()).or_default();
            *uses += by;
            if *uses == 0 {
                self.uses.remove(&claim);
            }
        }
    }

    /// Takes in that these volumes were chosen, before they show it.
    pub(super) fn choose(&mut self, choices: &[ClaimChoice]) {
        for choice in choices {
            if let ClaimChoice::Bind { claim, volume } = choice
                && volume.claim_ref.is_none()
            {
                self.chosen.insert(volume.meta.name.clone(), claim.key());
            }
        }
    }

    /// Takes back what was chosen for the pod's claims and is not written.
    pub(super) fn release(&mut self, pod: &PodInfo) {
        let claims: BTreeSet<ObjectKey> = keys(pod).collect();
        self.chosen.retain(|_, claim| !claims.contains(claim));
    }

    pub(super) fn verdict(&self, pod: &PodInfo) -> Verdict {
        if let Some(claim) = &pod.wishes().device_claim {
            return Verdict::Held { why: format!("cannot allocate all claims: berth allocates no devices ({claim})") };
        }
        let mut needs = VolumeNeeds::default();
        for name in &pod.claims {
            let key = ObjectKey::new(&pod.namespace, name);
            let Some(claim) = self.claims.get(&key) else {
                return Verdict::Held { why: format!("persistentvolumeclaim \"{name}\" not found") };
            };
            if let Some(why) = self.obstacle(claim) {
                return Verdict::Held { why };
            }
            if claim.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
                needs.exclusive.push(key);
            }
            if claim.is_bound() {
                // An unknown volume is one that the cache does not show yet, or that a forecast does not have.
                needs.bound.extend(self.volumes.get(&*claim.volume_name).cloned());
            } else {
                needs.delayed.push(self.delayed(claim));
            }
        }
        needs.delayed.sort_by(|a, b| (a.claim.size(), &a.claim.meta.name).cmp(&(b.claim.size(), &b.claim.meta.name)));
        Verdict::Placeable(needs)
    }

    fn delayed(&self, claim: &Arc<ClaimView>) -> Delayed {
        let is_chosen = |volume: &VolumeView| self.chosen.get(&volume.meta.name).is_some_and(|key| *key == claim.key());
        let is_free = |volume: &VolumeView| {
            volume.is_free() && volume.class == claim::class_of(claim) && !self.chosen.contains_key(&volume.meta.name)
        };
        Delayed {
            claim: Arc::clone(claim),
            reserved: self.volumes.values().find(|volume| volume.is_for(claim) || is_chosen(volume)).cloned(),
            free: self.volumes.values().filter(|volume| is_free(volume)).cloned().collect(),
        }
    }

    fn class(&self, claim: &ClaimView) -> Option<&ClassView> {
        claim.class_name().and_then(|class| self.classes.get(class)).map(|class| &**class)
    }

    fn obstacle(&self, claim: &ClaimView) -> Option<String> {
        let name = &claim.meta.name;
        if claim.meta.deleting {
            return Some(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if claim.phase == "Lost" {
            return Some(format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"", claim.volume_name));
        }
        let waits = || self.class(claim).is_some_and(|class| class.binding_mode == BindingMode::WaitForFirstConsumer);
        let is_delayed = || claim.volume_name.is_empty() && waits();
        // Once a node is chosen the binder may have begun: the claim still counts as one that waits.
        let is_under_way = claim.selected_node().is_some();
        (!claim.is_bound() && !is_delayed() && !is_under_way).then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    }

    /// Why a pod with these needs cannot run on the node: all reasons of the first violated rule. `changes`: pods that are taken as being on the node
    /// (1), or as not being there (-1). `is_node` states whether a node exists.
    ///
    /// Source: kube-scheduler, plugins `VolumeRestrictions`, `VolumeBinding` and `VolumeZone`.
    pub(super) fn misfits(
        &self,
        needs: &VolumeNeeds,
        node: &NodeView,
        changes: &[(Arc<PodInfo>, i64)],
        is_node: impl Fn(&str) -> bool,
    ) -> Vec<Misfit> {
        let is_used = |claim: &ObjectKey| {
            let changed: i64 = changes.iter().filter(|(other, _)| uses(other, claim)).map(|(_, by)| by).sum();
            self.uses.get(claim).copied().unwrap_or(0) + changed > 0
        };
        if needs.exclusive.iter().any(is_used) {
            return vec![Misfit::ClaimInUse];
        }
        let is_elsewhere = needs.bound.iter().any(|volume| !reaches(volume, node));
        let is_unavailable = !needs.delayed.is_empty() && self.choices(needs, node, is_node).is_none();
        let found: Vec<Misfit> = [(is_elsewhere, Misfit::VolumeElsewhere), (is_unavailable, Misfit::NoVolume)]
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, misfit)| misfit)
            .collect();
        if found.is_empty() && needs.bound.iter().any(|volume| !is_in_zone(volume, node)) { vec![Misfit::VolumeZone] } else { found }
    }

    /// How the claims that wait for a node get their volumes on this one. `None` if one of them cannot get any.
    pub(super) fn choices(&self, needs: &VolumeNeeds, node: &NodeView, is_node: impl Fn(&str) -> bool) -> Option<Vec<ClaimChoice>> {
        let mut taken: BTreeSet<&Name> = BTreeSet::new();
        let mut choices = Vec::new();
        for Delayed { claim, reserved, free } in &needs.delayed {
            let bind = |volume: &Arc<VolumeView>| ClaimChoice::Bind { claim: Arc::clone(claim), volume: Arc::clone(volume) };
            let provision = || ClaimChoice::Provision(Arc::clone(claim));
            let choice = if let Some(reserved) = reserved {
                reaches(reserved, node).then(|| bind(reserved))
            } else if let Some(selected) = claim.selected_node().filter(|selected| is_node(selected)) {
                (node.name == selected).then(provision)
            } else {
                let here = free.iter().filter(|volume| !taken.contains(&volume.meta.name) && reaches(volume, node));
                let smallest = claim::smallest(here.map(|volume| &**volume), claim).map(|volume| &volume.meta.name);
                match smallest.and_then(|name| free.iter().find(|volume| volume.meta.name == *name)) {
                    Some(volume) => {
                        taken.insert(&volume.meta.name);
                        Some(bind(volume))
                    }
                    None => self.can_provision(claim, node).then(provision),
                }
            };
            choices.push(choice?);
        }
        Some(choices)
    }

    fn can_provision(&self, claim: &ClaimView, node: &NodeView) -> bool {
        let class = self.class(claim);
        class.is_some_and(|class| class.provisioner != NO_PROVISIONER && allows(&class.allowed_topologies, node))
    }
}

/// The provisioner of classes whose volumes an administrator makes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Whether pods on the node can use the volume.
fn reaches(volume: &VolumeView, node: &NodeView) -> bool {
    volume.node_terms.as_deref().is_none_or(|terms| matches_any(terms, node))
}

/// The labels of volumes and nodes with their zone and region, each beside its older name.
const ZONE_LABELS: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"],
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"],
];

/// Whether zone and region of a volume are those of the node. A node without such labels has all volumes.
fn is_in_zone(volume: &VolumeView, node: &NodeView) -> bool {
    let is_labeled = ZONE_LABELS.iter().flatten().any(|label| node.labels.get(label).is_some());
    let agrees = |names: &[&str; 2]| {
        let found = names.iter().find_map(|name| node.labels.get(name));
        let wanted = names.iter().filter_map(|name| volume.meta.labels.get(name));
        // A volume of several zones lists them.
        wanted.into_iter().all(|values| values.split("__").any(|value| Some(value) == found))
    };
    !is_labeled || ZONE_LABELS.iter().all(agrees)
}

fn allows(topologies: &[TopologySelectorTerm], node: &NodeView) -> bool {
    let matches = |term: &TopologySelectorTerm| {
        let mut labels = term.match_label_expressions.iter().flatten();
        labels.all(|label| node.labels.get(&label.key).is_some_and(|value| label.values.iter().any(|allowed| allowed == value)))
    };
    topologies.is_empty() || topologies.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    fn view<V: View>(object: Value) -> Arc<V> {
        Arc::new(V::decode(object.to_string().as_bytes(), Revision(1)).expect("valid"))
    }

    fn node(name: &str) -> NodeView {
        NodeView { name: name.into(), labels: [("kubernetes.io/hostname", name), (ZONE_LABELS[0][0], "x")].into(), ..NodeView::default() }
    }

    fn volume(name: &str, size: &str, nodes: &[&str], more: Value) -> Arc<VolumeView> {
        let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]});
        let affinity = if nodes.is_empty() { json!(null) } else { json!({"required": {"nodeSelectorTerms": [term]}}) };
        let mut volume = json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late", "nodeAffinity": affinity},
            "status": {"phase": "Available"},
        });
        for (member, values) in more.as_object().into_iter().flatten() {
            values.as_object().into_iter().flatten().for_each(|(key, value)| volume[member][key] = value.clone());
        }
        view(volume)
    }

    fn claim(name: &str, size: &str, annotations: Value) -> Arc<ClaimView> {
        view(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "late"},
            "status": {"phase": "Pending"},
        }))
    }

    fn class(provisioner: &str, topologies: Value) -> Arc<ClassView> {
        let metadata = json!({"name": "late"});
        view(
            json!({"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies}),
        )
    }

    fn using(claims: &[&str]) -> PodInfo {
        PodInfo { namespace: "ns".into(), claims: claims.iter().map(|claim| (*claim).to_owned()).collect(), ..PodInfo::default() }
    }

    /// What the claims of a pod get on each of the nodes `a` and `b`.
    fn check(claims: &Claims, pod: &PodInfo, expected: [&str; 2]) {
        let Verdict::Placeable(needs) = claims.verdict(pod) else { panic!("{:?}", claims.verdict(pod)) };
        let shown = |choice: ClaimChoice| match choice {
            ClaimChoice::Bind { claim, volume } => format!("{}={}", claim.meta.name, volume.meta.name),
            ClaimChoice::Provision(claim) => format!("{} new", claim.meta.name),
        };
        let found = ["a", "b"].map(|name| {
            let misfits = claims.misfits(&needs, &node(name), &[], |_| true);
            if let Some(misfit) = misfits.first() {
                return misfit.to_string();
            }
            let choices = claims.choices(&needs, &node(name), |_| true).expect("it fits");
            choices.into_iter().map(shown).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found, expected);
    }

    const NONE: &str = "node(s) didn't find available persistent volumes to bind";

    #[test]
    fn claims_that_wait_take_the_smallest_volumes_of_the_node() {
        let mut claims = Claims::default();
        claims.set_class(class(NO_PROVISIONER, json!(null)));
        claims.set_claim(claim("data", "1Gi", json!({})));
        claims.set_claim(claim("logs", "2Gi", json!({})));
        check(&claims, &using(&["data"]), [NONE, NONE]);
        claims.set_volume(volume("small", "1Gi", &["b"], json!({})));
        check(&claims, &using(&["data"]), [NONE, "data=small"]);
        check(&claims, &using(&["data", "logs"]), [NONE, NONE]);
        claims.set_volume(volume("large", "3Gi", &["a", "b"], json!({})));
        check(&claims, &using(&["logs", "data"]), [NONE, "data=small logs=large"]);
        check(&claims, &using(&["data"]), ["data=large", "data=small"]);
        // What is chosen is not chosen for another claim, until it is taken back.
        let choice = ClaimChoice::Bind { claim: claim("logs", "2Gi", json!({})), volume: volume("large", "3Gi", &["a", "b"], json!({})) };
        claims.choose(&[choice]);
        check(&claims, &using(&["data"]), [NONE, "data=small"]);
        check(&claims, &using(&["logs"]), ["logs=large", "logs=large"]);
        claims.release(&using(&["logs"]));
        check(&claims, &using(&["data"]), ["data=large", "data=small"]);
        // A volume that is reserved for a claim is the only one for it.
        claims.set_volume(volume(
            "small",
            "1Gi",
            &["b"],
            json!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "data"}}}),
        ));
        check(&claims, &using(&["data"]), [NONE, "data=small"]);
        claims.remove_volume("small");
        claims.remove_volume("large");
        check(&claims, &using(&["data"]), [NONE, NONE]);
    }

    #[test]
    fn volumes_are_provisioned_where_the_class_allows_it() {
        let mut claims = Claims::default();
        claims.set_claim(claim("data", "1Gi", json!({})));
        claims.set_class(class("example.com/disk", json!(null)));
        check(&claims, &using(&["data"]), ["data new", "data new"]);
        let only_b = json!([{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["b", "c"]}]}]);
        assert!(claims.set_class(class("example.com/disk", only_b)));
        check(&claims, &using(&["data"]), [NONE, "data new"]);
        claims.set_claim(claim("data", "1Gi", json!({"volume.kubernetes.io/selected-node": "a"})));
        check(&claims, &using(&["data"]), ["data new", NONE]);
    }

    #[test]
    fn a_bound_volume_restricts_the_nodes() {
        let bound = |name: &str| {
            view::<ClaimView>(json!({
                "metadata": {"name": "data", "namespace": "ns", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": name, "accessModes": ["ReadWriteOncePod"]}, "status": {"phase": "Bound"},
            }))
        };
        let mut claims = Claims::default();
        claims.set_claim(bound("v"));
        check(&claims, &using(&["data"]), ["", ""]);
        claims.set_volume(volume("v", "1Gi", &["b"], json!({})));
        check(&claims, &using(&["data"]), ["node(s) didn't match PersistentVolume's node affinity", ""]);
        claims.set_volume(volume("v", "1Gi", &[], json!({"metadata": {"labels": {(ZONE_LABELS[0][1]): "y__x"}}})));
        check(&claims, &using(&["data"]), ["", ""]);
        claims.set_volume(volume("v", "1Gi", &[], json!({"metadata": {"labels": {(ZONE_LABELS[0][0]): "y"}}})));
        check(&claims, &using(&["data"]), ["node(s) had no available volume zone"; 2]);
        claims.set_volume(volume("v", "1Gi", &[], json!({"metadata": {"labels": {(ZONE_LABELS[1][0]): "r"}}})));
        check(&claims, &using(&["data"]), ["node(s) had no available volume zone"; 2]);
        claims.set_volume(volume("v", "1Gi", &[], json!({})));
        claims.change_uses(&using(&["data"]), 1);
        let used = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        check(&claims, &using(&["data"]), [used; 2]);
        claims.change_uses(&using(&["data"]), -1);
        check(&claims, &using(&["data"]), ["", ""]);
        assert!(claims.uses.is_empty());
    }
}
