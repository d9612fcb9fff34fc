//! Volume claims and their owners.

use super::cluster_model::{ClusterModel, broken, claim_ordinal, template};
use crate::cluster_model::Stored;
use berth_identity::Ordinal;
use berth_workloads::stateful_set::ordinals;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn spec(when_scaled: &str, when_deleted: &str) -> Value {
    json!({
        "replicas": 2, "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {}}, {"metadata": {"name": "log"}}],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled, "whenDeleted": when_deleted},
    })
}

/// Kinds of the owners of each claim.
fn owners(model: &ClusterModel) -> Vec<(String, Vec<String>)> {
    let kind = |owner: &Value| owner["kind"].as_str().unwrap_or_default().to_owned();
    let kinds = |claim: &Stored| claim.json["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(kind).collect();
    model.claims.iter().map(|(name, claim)| (name.clone(), kinds(claim))).collect()
}

fn owner(kind: &str, name: &str, uid: &str, controller: bool) -> Value {
    json!({"apiVersion": if kind == "Pod" { "v1" } else { "apps/v1" }, "kind": kind, "name": name, "uid": uid, "controller": controller})
}

fn own(model: &mut ClusterModel, claim: &str, owners: Value) {
    let claim = model.claims.get_mut(claim).expect("a claim");
    claim.json["metadata"]["ownerReferences"] = owners;
    claim.revision.0 += 10_000;
}

#[test]
fn each_pod_gets_its_claims_before_it_is_created() {
    let mut model = ClusterModel::new(&spec("Retain", "Retain"));
    model.reconcile(3);
    assert_eq!((model.claims.len(), model.pods.len()), (2, 0), "the revision and two claims");
    model.settle();
    assert_eq!(model.claims.keys().collect::<Vec<_>>(), ["data-web-0", "data-web-1", "log-web-0", "log-web-1"]);
    let (claim, pod) = (&model.claims["data-web-0"].json["metadata"], &model.pods["web-0"].json["metadata"]);
    assert_eq!((&claim["labels"], &claim["namespace"]), (&json!({"app": "web", "tier": "db"}), &pod["namespace"]));
    let told = ("SuccessfulCreate".to_owned(), "Create Claim data-web-0 Pod web-0 in StatefulSet web success".to_owned());
    assert!(model.events.contains(&told), "{:?}", model.events);
    assert!(model.events.contains(&("SuccessfulCreate".to_owned(), "Create Pod web-0 in StatefulSet web successful".to_owned())));
}

#[test]
fn a_claim_that_goes_with_its_set_is_owned_from_the_beginning() {
    let mut model = ClusterModel::new(&spec("Retain", "Delete"));
    model.reconcile(3);
    let of_the_set = |name: &str| (name.to_owned(), vec!["StatefulSet".to_owned()]);
    assert_eq!(owners(&model), [of_the_set("data-web-0"), of_the_set("log-web-0")]);
}

#[test]
fn the_policy_decides_which_object_owns_claims() {
    for (when_scaled, when_deleted, wanted, condemned) in [
        ("Retain", "Retain", None, None),
        ("Retain", "Delete", Some("StatefulSet"), Some("StatefulSet")),
        ("Delete", "Retain", None, Some("Pod")),
        ("Delete", "Delete", Some("StatefulSet"), Some("Pod")),
    ] {
        let mut model = ClusterModel::new(&spec("Retain", "Retain"));
        model.settle();
        model.edit(&json!({"spec": spec(when_scaled, when_deleted)}));
        model.settle();
        let kinds = |kind: Option<&str>| kind.map(str::to_owned).into_iter().collect::<Vec<_>>();
        assert!(owners(&model).iter().all(|(_, owners)| *owners == kinds(wanted)), "{when_scaled} {when_deleted}: {:?}", owners(&model));
        model.edit(&json!({"spec": {"replicas": 1}}));
        model.reconcile(usize::MAX);
        assert!(model.is_going("web-1"));
        assert_eq!(owners(&model)[1], ("data-web-1".to_owned(), kinds(condemned)), "{when_scaled} {when_deleted}");
        model.settle();
        assert_eq!(model.claims.len(), if condemned == Some("Pod") { 2 } else { 4 });
        model.edit(&json!({"spec": {"replicas": 2}}));
        model.settle();
        assert_eq!((model.claims.len(), model.short().as_str()), (4, "web-0=1 web-1=1"));
        model.edit(&json!({"spec": spec("Retain", "Retain")}));
        model.settle();
        assert!(owners(&model).iter().all(|(_, owners)| owners.is_empty()));
    }
}

#[test]
fn claims_of_a_condemned_pod_get_their_owner_before_its_deletion() {
    let mut model = ClusterModel::new(&spec("Delete", "Retain"));
    model.settle();
    model.edit(&json!({"spec": {"replicas": 1}}));
    let stages = model.plan().stages;
    assert_eq!(stages.iter().map(|stage| stage.actions.len()).collect::<Vec<_>>(), [3, 1], "two claims and the status, then the pod");
}

#[test]
fn a_claim_of_a_former_pod_is_waited_for() {
    let mut model = ClusterModel::new(&spec("Delete", "Retain"));
    model.settle();
    model.delete_pod("web-1");
    model.pods.remove("web-1");
    own(&mut model, "log-web-1", json!([owner("Pod", "web-1", "former", true)]));
    model.reconcile(usize::MAX);
    assert_eq!(model.waits(), ["waiting for claim log-web-1 to be deleted before web-1 gets a new one"]);
    model.claims.remove("log-web-1");
    model.settle();
    assert_eq!((model.claims.len(), model.short().as_str()), (4, "web-0=1 web-1=1"));
}

#[test]
fn a_claim_of_a_former_set_is_left_alone() {
    let mut model = ClusterModel::new(&spec("Retain", "Delete"));
    model.settle();
    own(&mut model, "data-web-0", json!([owner("StatefulSet", "web", "former", true)]));
    assert_eq!((model.reconcile(usize::MAX), model.plan().events.len(), model.in_doubt().len()), (0, 0, 0));
}

/// A model cluster whose pod `web-1` is missing, and whose claim `data-web-1` has these owners.
fn without_a_pod(when_scaled: &str, when_deleted: &str, owners: Value) -> ClusterModel {
    let mut model = ClusterModel::new(&spec(when_scaled, when_deleted));
    model.settle();
    model.delete_pod("web-1");
    model.gone("web-1");
    own(&mut model, "data-web-1", owners);
    model
}

/// The set was recreated, or its policy has changed. The present policy retains the claim, so the garbage collector must not delete it with
/// a new pod on it.
#[test]
fn a_claim_of_a_former_pod_is_taken_over_where_claims_stay() {
    let owners_of_it = json!([owner("Pod", "web-1", "former", true), owner("Backup", "b", "uid-b", false)]);
    let mut model = without_a_pod("Retain", "Delete", owners_of_it);
    let stages: Vec<_> = model.plan().stages.iter().map(|stage| stage.actions.len()).collect();
    assert_eq!(stages, [2, 1], "the claim's owners and the status, then the pod");
    model.reconcile(2);
    let both = vec!["Backup".to_owned(), "StatefulSet".to_owned()];
    assert_eq!((owners(&model)[1].1.clone(), model.short().as_str()), (both, "web-0=1"));
    model.settle();
    assert_eq!(
        (owners(&model)[1].1.clone(), model.short().as_str()),
        (vec!["Backup".to_owned(), "StatefulSet".to_owned()], "web-0=1 web-1=1")
    );
}

/// Whatever the new set's policy, the claim and all data on it belong to the former set.
#[test]
fn a_claim_of_a_former_set_is_waited_for() {
    for (when_scaled, when_deleted) in [("Retain", "Retain"), ("Retain", "Delete"), ("Delete", "Retain")] {
        let mut model = without_a_pod(when_scaled, when_deleted, json!([owner("StatefulSet", "web", "former", true)]));
        model.reconcile(usize::MAX);
        assert_eq!(model.waits(), ["waiting for claim data-web-1 to be deleted before web-1 gets a new one"]);
        assert_eq!(model.short(), "web-0=1");
        model.claims.remove("data-web-1");
        model.settle();
        assert_eq!((model.claims.len(), model.short().as_str()), (4, "web-0=1 web-1=1"));
    }
}

#[test]
fn an_owner_of_another_kind_or_name_is_no_former_one() {
    let mut foreign = owner("StatefulSet", "web", "uid-f", false);
    foreign["apiVersion"] = json!("apps.example/v1");
    for other in [foreign, owner("Backup", "web", "uid-b", false), owner("StatefulSet", "db", "uid-d", false)] {
        let mut model = without_a_pod("Retain", "Delete", json!([other.clone()]));
        model.settle();
        assert_eq!(model.short(), "web-0=1 web-1=1", "not waited for: {other}");
        let uids = model.claims["data-web-1"].json["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        assert_eq!(uids.iter().map(|owner| owner["uid"].clone()).collect::<Vec<_>>(), [other["uid"].clone(), json!("uid-web")]);
    }
}

#[test]
fn a_claim_that_goes_is_left_alone_and_one_that_others_own_too_is_not() {
    let mut model = ClusterModel::new(&spec("Retain", "Delete"));
    model.settle();
    own(&mut model, "data-web-0", json!([]));
    assert_eq!(model.in_doubt().into_iter().collect::<Vec<_>>(), [Ordinal(0)]);
    let mut going = model.clone();
    going.claims.get_mut("data-web-0").expect("a claim").json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!((going.in_doubt().len(), going.reconcile(usize::MAX)), (0, 0));
    own(&mut model, "data-web-0", json!([owner("Backup", "b", "uid-b", false)]));
    model.settle();
    assert_eq!(owners(&model)[0].1, ["Backup", "StatefulSet"]);
}

#[test]
fn of_a_claim_that_stays_anyway_it_does_not_matter_who_manages_it() {
    let mut model = ClusterModel::new(&spec("Retain", "Retain"));
    model.settle();
    own(&mut model, "data-web-0", json!([owner("Backup", "b", "uid-b", true)]));
    assert_eq!((model.reconcile(usize::MAX), model.plan().events.len()), (0, 0));
}

#[test]
fn only_the_claim_of_a_former_pod_of_the_same_name_is_waited_for() {
    let mut model = ClusterModel::new(&spec("Delete", "Retain"));
    model.settle();
    model.delete_pod("web-1");
    model.gone("web-1");
    let mut missing = model.clone();
    own(&mut missing, "data-web-1", json!([owner("Pod", "backup", "uid-b", false)]));
    missing.reconcile(usize::MAX);
    assert_eq!(missing.short(), "web-0=1 web-1=1", "it is another's");
    model.reconcile(usize::MAX);
    let uid = model.pods["web-1"].json["metadata"]["uid"].as_str().expect("a uid").to_owned();
    own(&mut model, "data-web-1", json!([owner("Pod", "web-1", &uid, true)]));
    model.claims.remove("log-web-1");
    model.reconcile(usize::MAX);
    assert!(model.claims.contains_key("log-web-1"), "it is this pod's own, which is pending");
}

#[test]
fn a_plain_reference_becomes_the_controllers() {
    let mut model = ClusterModel::new(&spec("Retain", "Delete"));
    model.settle();
    own(&mut model, "data-web-0", json!([owner("StatefulSet", "web", "uid-web", false)]));
    model.settle();
    let owners = &model.claims["data-web-0"].json["metadata"]["ownerReferences"];
    assert_eq!((owners.as_array().map(Vec::len), &owners[0]["controller"]), (Some(1), &json!(true)));
}

#[test]
fn a_claim_that_another_controller_manages_is_released_and_reported() {
    let mut model = ClusterModel::new(&spec("Delete", "Delete"));
    model.settle();
    let others = json!([owner("Backup", "b", "uid-b", true), owner("StatefulSet", "web", "uid-web", false)]);
    own(&mut model, "data-web-0", others);
    let mut adopting = model.clone();
    adopting.edit_pod("web-1", &json!({"metadata": {"ownerReferences": null}}));
    let told: Vec<_> = adopting.plan().events.iter().map(|event| event.reason.to_string()).collect();
    assert_eq!(told, ["ConflictingController"], "also where a pod is to be adopted");
    model.settle();
    assert_eq!(owners(&model)[0].1, ["Backup"]);
    let message = "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, \
                   the retention policy is ignored for this claim";
    assert!(model.events.contains(&("ConflictingController".to_owned(), message.to_owned())), "{:?}", model.events);
    model.edit(&json!({"spec": spec("Retain", "Retain")}));
    model.events.clear();
    model.settle();
    assert_eq!((owners(&model)[0].1.len(), model.reasons().len()), (1, 0), "nothing is asked of it now");
}

#[test]
fn a_claim_that_is_being_deleted_holds_the_pod_up() {
    let mut model = ClusterModel::new(&spec("Retain", "Retain"));
    model.settle();
    model.delete_pod("web-0");
    model.pods.remove("web-0");
    model.claims.get_mut("data-web-0").expect("a claim").json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    model.reconcile(usize::MAX);
    assert!(!model.pods.contains_key("web-0"));
    let told = ("FailedCreate".to_owned(), "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted".to_owned());
    assert!(model.events.contains(&told), "{:?}", model.events);
    model.claims.remove("data-web-0");
    model.settle();
    assert_eq!((model.claims.len(), model.pods.len()), (4, 2));
}

#[test]
fn a_pending_pod_gets_a_lost_claim_again() {
    let mut model = ClusterModel::new(&spec("Retain", "Retain"));
    model.reconcile(usize::MAX);
    model.claims.remove("data-web-0");
    model.reconcile(usize::MAX);
    assert!(model.claims.contains_key("data-web-0"));
    let mut going = model.clone();
    going.claims.remove("data-web-0");
    going.delete_pod("web-0");
    going.reconcile(usize::MAX);
    assert!(!going.claims.contains_key("data-web-0"), "not for one that goes");
    model.settle();
    model.claims.remove("data-web-0");
    model.settle();
    assert!(!model.claims.contains_key("data-web-0"), "not for one that runs");
    model.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    model.reconcile(usize::MAX);
    assert!(!model.claims.contains_key("data-web-0"), "ready or not");
}

#[test]
fn volumes_that_are_not_those_of_the_claims_are_reported() {
    let mut model = ClusterModel::new(&spec("Retain", "Retain"));
    model.settle();
    model.edit_pod("web-0", &json!({"spec": {"volumes": []}}));
    model.settle();
    assert_eq!(model.reasons(), ["FailedUpdate"]);
}

#[test]
fn recreate_keeps_claims_and_gives_up_those_of_numbers_no_longer_wanted() {
    let mut spec = spec("Delete", "Retain");
    spec["updateStrategy"] = json!({"type": "Recreate", "rollingUpdate": null});
    let mut model = ClusterModel::new(&spec);
    model.settle();
    let uid = model.claims["data-web-0"].json["metadata"]["uid"].clone();
    model.edit(&json!({"spec": {"replicas": 1, "template": template(2)}}));
    model.settle();
    assert_eq!((model.short().as_str(), model.claims.len()), ("web-0=2", 2));
    assert_eq!(model.claims["data-web-0"].json["metadata"]["uid"], uid);
}

/// Brings a converged set to the point of the change.
type Prepare = fn(&mut ClusterModel);

/// The phases of an update in which its set changes.
const PHASES: [(&str, Prepare); 7] = [
    ("at rest", |_| ()),
    ("changed", |model| model.edit(&json!({"spec": {"template": template(2)}}))),
    ("old pods told to go", |model| {
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile(usize::MAX);
    }),
    ("some told to go", |model| {
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile(3);
    }),
    ("first pods created", |model| {
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile(usize::MAX);
        model.pass();
        model.reconcile(usize::MAX);
    }),
    ("broken", |model| {
        model.edit(&json!({"spec": {"template": broken(2)}}));
        model.settle();
    }),
    ("a pod told to go by hand", |model| model.delete_pod("web-2")),
];

fn changes() -> [Value; 11] {
    let policy = |field: &str, value: &str| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {field: value}}});
    [
        json!({}),
        json!({"spec": {"replicas": 0}}),
        json!({"spec": {"replicas": 1}}),
        json!({"spec": {"replicas": 3}}),
        json!({"spec": {"replicas": 4}}),
        json!({"spec": {"ordinals": {"start": 2}}}),
        json!({"spec": {"template": template(3)}}),
        policy("whenScaled", "Retain"),
        policy("whenScaled", "Delete"),
        policy("whenDeleted", "Retain"),
        policy("whenDeleted", "Delete"),
    ]
}

/// The user's changes during the execution of the first change.
fn later_changes() -> [Value; 5] {
    let retention = |when_scaled: &str| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled}}});
    let replicas = |replicas: u32| json!({"spec": {"replicas": replicas}});
    [json!({}), replicas(1), replicas(3), retention("Retain"), retention("Delete")]
}

#[test]
fn no_wanted_claim_is_lost_and_no_unwanted_one_stays_in_any_phase_of_recreate_in_order() {
    in_any_phase("Recreate", "OrderedReady");
}

#[test]
fn no_wanted_claim_is_lost_and_no_unwanted_one_stays_in_any_phase_of_recreate_in_parallel() {
    in_any_phase("Recreate", "Parallel");
}

#[test]
fn no_wanted_claim_is_lost_and_no_unwanted_one_stays_in_any_phase_of_a_rolling_update() {
    in_any_phase("RollingUpdate", "OrderedReady");
}

#[test]
fn no_wanted_claim_is_lost_and_no_unwanted_one_stays_in_any_phase_of_on_delete() {
    in_any_phase("OnDelete", "Parallel");
}

/// After each change, one reconcile runs, and then all terminating pods are deleted. No claim of a desired ordinal is lost. Each claim of
/// an ordinal out of range is lost if the policy is Delete, whether its pod exists, is terminating or was never created. The model cluster
/// itself checks the owners after every reconcile.
fn in_any_phase(strategy: &str, management: &str) {
    for (phase, prepare) in PHASES {
        for (scaled, deleted) in [("Delete", "Retain"), ("Delete", "Delete"), ("Retain", "Delete"), ("Retain", "Retain")] {
            let mut spec = spec(scaled, deleted);
            spec["replicas"] = json!(3);
            spec["podManagementPolicy"] = json!(management);
            spec["updateStrategy"] = json!({"type": strategy, "rollingUpdate": null});
            let mut before = ClusterModel::new(&spec);
            before.settle();
            let mut before = Watched::new(before);
            prepare(&mut before.model);
            for first in changes() {
                let mut once = before.clone();
                once.change(&first);
                for second in later_changes() {
                    let mut twice = once.clone();
                    twice.change(&second);
                    twice.check_loss(&format!("{strategy} {management} {scaled} {deleted}, {phase}: {first}, {second}"));
                }
            }
        }
    }
}

/// A model cluster, and those of its first claims that should be lost by now: a reconcile observed their ordinals in range with
/// `whenScaled: Delete`, and then out of range.
#[derive(Clone)]
struct Watched {
    model: ClusterModel,
    first: BTreeMap<String, Value>,
    goes: BTreeSet<Ordinal>,
    lost: BTreeSet<Ordinal>,
}

impl Watched {
    fn new(model: ClusterModel) -> Self {
        let first: BTreeMap<_, _> =
            model.claims.iter().map(|(name, claim)| (name.clone(), claim.json["metadata"]["uid"].clone())).collect();
        let mut watched = Self { model, first, goes: BTreeSet::new(), lost: BTreeSet::new() };
        watched.judge();
        watched
    }

    fn goes_when_scaled(&self) -> bool {
        self.model.set.json["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete"
    }

    fn change(&mut self, change: &Value) {
        self.model.edit(change);
        self.judge();
        self.model.reconcile(usize::MAX);
    }

    /// Computes what the next reconcile should do.
    fn judge(&mut self) {
        let (wanted, controlled) = (ordinals(&self.model.view()), self.model.controlled());
        for ordinal in Ordinal(0).up_to(Ordinal(3)) {
            match (self.goes_when_scaled(), wanted.contains(ordinal)) {
                (false, _) => drop(self.goes.remove(&ordinal)),
                (true, true) => drop(self.goes.insert(ordinal)),
                (true, false) if controlled.pod(ordinal).is_none() && self.goes.contains(&ordinal) => drop(self.lost.insert(ordinal)),
                (true, false) => (),
            }
        }
    }

    /// Deletes all terminating pods, and compares the remaining claims with the expected ones.
    fn check_loss(mut self, what: &str) {
        let wanted = ordinals(&self.model.view());
        let terminating: Vec<_> = self.model.names().into_iter().filter(|name| self.model.is_going(name)).collect();
        for name in terminating {
            self.model.gone(&name);
            let ordinal = claim_ordinal(&format!("data-{name}")).expect("a member");
            if self.goes_when_scaled() && !wanted.contains(ordinal) {
                self.lost.insert(ordinal);
            }
        }
        for (claim, uid) in &self.first {
            let is_lost = self.model.claims.get(claim).is_none_or(|now| now.json["metadata"]["uid"] != *uid);
            let ordinal = claim_ordinal(claim).expect("a claim of the set");
            assert_eq!(is_lost, self.lost.contains(&ordinal), "{claim} of {what}");
        }
    }
}

/// Recreate with a broken template: pod 0 exists, and pods 1 and 2 were never created.
fn stuck(when_scaled: &str, when_deleted: &str) -> ClusterModel {
    let mut spec = spec(when_scaled, when_deleted);
    spec["replicas"] = json!(3);
    spec["updateStrategy"] = json!({"type": "Recreate", "rollingUpdate": null});
    let mut model = ClusterModel::new(&spec);
    model.settle();
    model.edit(&json!({"spec": {"template": broken(2)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=2!");
    model
}

#[test]
fn claims_of_pods_that_were_never_created_follow_the_policy() {
    let mut model = stuck("Retain", "Delete");
    model.edit(&json!({"spec": spec("Retain", "Retain")}));
    model.edit(&json!({"spec": {"replicas": 3}}));
    model.reconcile(usize::MAX);
    assert!(owners(&model).iter().all(|(_, owners)| owners.is_empty()), "{:?}", owners(&model));
    model.edit(&json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}}));
    model.reconcile(usize::MAX);
    assert!(owners(&model).iter().all(|(_, owners)| owners == &["StatefulSet"]), "{:?}", owners(&model));
}

#[test]
fn claims_of_pods_that_were_never_created_go_when_these_are_scaled_away() {
    for (when_deleted, change) in
        [("Retain", json!({"replicas": 1})), ("Delete", json!({"replicas": 0})), ("Retain", json!({"ordinals": {"start": 2}}))]
    {
        let mut model = stuck("Delete", when_deleted);
        model.edit(&json!({"spec": change}));
        model.settle();
        let wanted = ordinals(&model.view());
        let is_kept = |claim: &String| {
            let ordinal = claim_ordinal(claim).expect("a claim of the set");
            wanted.contains(ordinal) || model.pods.contains_key(&format!("web-{ordinal}"))
        };
        assert!(model.claims.keys().all(is_kept), "{change}: {:?}", model.claims.keys());
        let message = "Delete Claim data-web-1 Pod web-1 in StatefulSet web success".to_owned();
        assert!(model.events.contains(&("SuccessfulDelete".to_owned(), message)), "{change}: {:?}", model.events);
    }
}

#[test]
fn claims_that_were_kept_when_their_pods_were_scaled_away_stay() {
    let mut model = ClusterModel::new(&spec("Retain", "Retain"));
    model.settle();
    model.edit(&json!({"spec": {"replicas": 0}}));
    model.settle();
    model.edit(&json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}}));
    model.settle();
    assert_eq!(model.claims.len(), 4, "`whenScaled: Delete` is about what is scaled away from now on");
    model.edit(&json!({"spec": {"replicas": 2}}));
    model.settle();
    model.edit(&json!({"spec": {"replicas": 0}}));
    model.settle();
    assert_eq!(model.claims.len(), 0);
}

/// Two sets can have the same name for a claim. Without a pod that uses it, the labels identify its set.
#[test]
fn a_claim_of_this_name_that_is_not_the_sets_is_left_alone() {
    let mut model = ClusterModel::new(&spec("Delete", "Delete"));
    model.settle();
    model.edit(&json!({"spec": {"replicas": 0}}));
    let mut others = model.claims["data-web-1"].clone();
    others.json["metadata"]["labels"] = json!({"app": "another"});
    others.json["metadata"]["ownerReferences"] = Value::Null;
    model.settle();
    model.claims.insert("data-web-1".to_owned(), others);
    assert_eq!((model.in_doubt().len(), model.reconcile(usize::MAX)), (0, 0));
}

/// While a pod of the name exists, of any owner, the claim may be in use.
#[test]
fn a_claim_is_not_deleted_under_a_pod_that_another_controls() {
    let mut model = ClusterModel::new(&spec("Delete", "Retain"));
    model.settle();
    model.edit_pod("web-1", &json!({"metadata": {"ownerReferences": [owner("Other", "o", "uid-o", true)]}}));
    model.edit(&json!({"spec": {"replicas": 1}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.claims.len(), 4);
    model.pods.remove("web-1");
    model.reconcile(usize::MAX);
    assert_eq!(model.claims.keys().collect::<Vec<_>>(), ["data-web-0", "log-web-0"]);
}

#[test]
fn a_claim_that_another_object_keeps_is_not_deleted() {
    let mut model = stuck("Delete", "Retain");
    own(&mut model, "data-web-2", json!([owner("Backup", "b", "uid-b", false)]));
    model.edit(&json!({"spec": {"replicas": 1}}));
    model.settle();
    assert_eq!(model.claims.keys().collect::<Vec<_>>(), ["data-web-0", "data-web-2", "log-web-0"]);
}

#[test]
fn a_pod_that_was_already_going_when_it_became_unwanted_takes_its_claims_along() {
    for management in ["OrderedReady", "Parallel"] {
        let mut spec = spec("Delete", "Retain");
        spec["podManagementPolicy"] = json!(management);
        let mut model = ClusterModel::new(&spec);
        model.settle();
        model.delete_pod("web-1");
        model.reconcile(usize::MAX);
        model.edit(&json!({"spec": {"replicas": 1}}));
        model.reconcile(usize::MAX);
        assert_eq!(owners(&model)[1], ("data-web-1".to_owned(), vec!["Pod".to_owned()]), "{management}");
        model.settle();
        assert_eq!(model.claims.keys().collect::<Vec<_>>(), ["data-web-0", "log-web-0"], "{management}");
    }
}

/// Writes to a pod come after those to its claims, so that a pod that is deleted at once does not take a needed claim along.
#[test]
fn claims_are_put_right_before_anything_is_done_to_pods() {
    let mut spec = spec("Delete", "Retain");
    spec["updateStrategy"] = json!({"type": "Recreate", "rollingUpdate": null});
    let mut model = ClusterModel::new(&spec);
    model.settle();
    let uid = model.pods["web-1"].json["metadata"]["uid"].as_str().expect("a uid").to_owned();
    own(&mut model, "data-web-1", json!([owner("Pod", "web-1", &uid, true)]));
    model.edit(&json!({"spec": {"template": template(2)}}));
    for limit in 0.. {
        let mut dies = model.clone();
        let carried = dies.reconcile(limit);
        if dies.is_going("web-1") {
            assert_eq!(owners(&dies)[1], ("data-web-1".to_owned(), vec![]), "killed after {carried} actions");
        }
        if carried < limit {
            break;
        }
    }
}
