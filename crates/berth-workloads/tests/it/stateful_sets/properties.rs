//! Invariants of every model cluster in any order of events.

use super::cluster_model::{ClusterModel, broken, template};
use crate::cluster_model::Patience;
use berth_identity::Ordinal;
use berth_workloads::{
    cause,
    stateful_set::{ControlledPods, counts, is_ready, ordinals, revision_of},
    view::PodView,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    /// A reconcile that executes so many actions before the controller crashes.
    Reconcile(usize),
    Start(usize),
    Unready(usize),
    Gone(usize),
    Delete(usize),
    Fail(usize),
    Seconds(i64),
    Scale(u32),
    From(u32),
    Template(u32),
    Broken(u32),
    Partition(u32),
    Orphan(usize),
    /// `whenScaled` and `whenDeleted`: whether they are Delete.
    Retention(bool, bool),
    Strategy(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop_oneof![Just(usize::MAX), 0_usize..4].prop_map(Step::Reconcile),
        6 => (0_usize..6).prop_map(Step::Start),
        1 => (0_usize..6).prop_map(Step::Unready),
        4 => (0_usize..6).prop_map(Step::Gone),
        1 => (0_usize..6).prop_map(Step::Delete),
        1 => (0_usize..6).prop_map(Step::Fail),
        2 => (0_i64..40).prop_map(Step::Seconds),
        1 => (0_u32..6).prop_map(Step::Scale),
        1 => (0_u32..3).prop_map(Step::From),
        2 => (1_u32..5).prop_map(Step::Template),
        1 => (1_u32..5).prop_map(Step::Broken),
        1 => (0_u32..5).prop_map(Step::Partition),
        1 => (0_usize..6).prop_map(Step::Orphan),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(scaled, deleted)| Step::Retention(scaled, deleted)),
        1 => prop_oneof![Just("Recreate"), Just("RollingUpdate"), Just("OnDelete")].prop_map(Step::Strategy),
    ]
}

fn take(model: &mut ClusterModel, step: &Step) {
    let pick = |model: &ClusterModel, index: usize, going: bool| {
        let names: Vec<_> = model.names().into_iter().filter(|name| !going || model.is_going(name)).collect();
        names.get(index % names.len().max(1)).cloned()
    };
    match *step {
        Step::Reconcile(limit) => drop(model.reconcile(limit)),
        Step::Start(index) => pick(model, index, false).into_iter().for_each(|name| model.start(&name)),
        Step::Unready(index) => {
            let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            pick(model, index, false).into_iter().for_each(|name| model.edit_pod(&name, &unready));
        }
        Step::Gone(index) => pick(model, index, true).into_iter().for_each(|name| model.gone(&name)),
        Step::Delete(index) => pick(model, index, false).into_iter().for_each(|name| model.delete_pod(&name)),
        Step::Fail(index) => {
            let failed = json!({"status": {"phase": "Failed", "conditions": null}});
            pick(model, index, false).into_iter().for_each(|name| model.edit_pod(&name, &failed));
        }
        Step::Seconds(seconds) => model.now += jiff::SignedDuration::from_secs(seconds),
        Step::Scale(replicas) => model.edit(&json!({"spec": {"replicas": replicas}})),
        Step::From(start) => model.edit(&json!({"spec": {"ordinals": {"start": start}}})),
        Step::Template(number) => model.edit(&json!({"spec": {"template": template(number)}})),
        Step::Broken(number) => model.edit(&json!({"spec": {"template": broken(number)}})),
        Step::Partition(partition) => {
            if model.set.json["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
                model.edit(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}}));
            }
        }
        Step::Retention(scaled, deleted) => {
            let policy = |is_delete: bool| if is_delete { "Delete" } else { "Retain" };
            let retention = json!({"whenScaled": policy(scaled), "whenDeleted": policy(deleted)});
            model.edit(&json!({"spec": {"persistentVolumeClaimRetentionPolicy": retention}}));
        }
        Step::Strategy(strategy) => model.edit(&json!({"spec": {"updateStrategy": {"type": strategy, "rollingUpdate": null}}})),
        Step::Orphan(index) => {
            let orphan = json!({"metadata": {"ownerReferences": null}});
            pick(model, index, false).into_iter().for_each(|name| model.edit_pod(&name, &orphan));
        }
    }
}

#[derive(Clone, Debug)]
struct Setting {
    spec: Value,
    gates: &'static str,
    repair: bool,
    patience: u32,
}

impl Setting {
    fn model(&self) -> ClusterModel {
        let mut model = ClusterModel::new(&self.spec).with_gates(self.gates);
        model.patience = Patience::of(self.patience);
        if self.repair {
            model.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": "Revision"}}}));
        }
        model
    }
}

prop_compose! {
    fn setting()(
        policy in prop_oneof![Just("OrderedReady"), Just("Parallel")],
        strategy in prop_oneof![
            Just(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}})),
            Just(json!({"type": "RollingUpdate", "rollingUpdate": null})),
            Just(json!({"type": "OnDelete", "rollingUpdate": null})),
            Just(json!({"type": "Recreate", "rollingUpdate": null})),
        ],
        scaled in prop_oneof![Just("Retain"), Just("Delete")], deleted in prop_oneof![Just("Retain"), Just("Delete")],
        gates in prop_oneof![Just(""), Just("MaxUnavailableStatefulSet=true"), Just("StatefulSetRecreateStrategy=false")],
        replicas in 0_u32..5, min_ready in prop_oneof![Just(0), Just(20)], has_claims in any::<bool>(), repair in any::<bool>(),
        patience in 0_u32..4,
    ) -> Setting {
        let mut spec = json!({
            "replicas": replicas, "podManagementPolicy": policy, "updateStrategy": strategy, "minReadySeconds": min_ready,
            "revisionHistoryLimit": 2, "persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted},
        });
        if has_claims {
            spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        }
        Setting { spec, gates, repair, patience }
    }
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// The model cluster checks every creation: one pod of each ordinal, in order if the policy requires it, with its claims, and under
    /// Recreate never beside pods of another revision. In the end, wherever the controller crashed, exactly the desired pods exist.
    #[test]
    fn every_cluster_converges(setting in setting(), steps in steps(60)) {
        let mut model = setting.model();
        steps.iter().for_each(|step| take(&mut model, step));
        model.is_healed = true;
        model.settle();
        let (set, controlled) = (model.view(), model.controlled());
        prop_assert_eq!((controlled.missing().next(), controlled.condemned().next(), controlled.unavailable_slots()), (None, None, 0));
        let status = set.status.clone();
        let wanted = set.spec.replicas.unwrap_or(0);
        prop_assert_eq!([status.replicas, status.ready_replicas, status.available_replicas], [wanted; 3]);
        let strategy = set.spec.update_strategy.type_.as_str();
        let partition = set.spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition).unwrap_or(0);
        if strategy != "OnDelete" {
            let from = ordinals(&set).start.plus(i64::from(partition));
            let outdated = controlled.slots().filter(|(ordinal, pod)| *ordinal >= from && revision_of(pod) != status.update_revision).count();
            prop_assert_eq!(outdated, 0);
        }
        prop_assert!(model.revisions.len() <= 4 + controlled.slots().count(), "history {:?}", model.revisions.keys());
        let plan = model.plan();
        prop_assert!(plan.stages.is_empty() && plan.events.is_empty(), "{plan:?}");
    }

    /// Whatever pods exist when a set has converged, each claim has the owner that the policy requires. No claim remains of an ordinal that
    /// was scaled down under `whenScaled: Delete`. Here pods of a broken template are stuck, and others were never created. The model
    /// cluster checks each claim after each reconcile.
    #[test]
    fn every_claim_goes_with_whom_it_should(setting in setting(), steps in steps(40), last in (any::<bool>(), any::<bool>())) {
        let mut spec = setting.spec.clone();
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        let mut model = Setting { spec, ..setting }.model();
        steps.iter().for_each(|step| take(&mut model, step));
        take(&mut model, &Step::Broken(7));
        model.settle();
        take(&mut model, &Step::Retention(last.0, last.1));
        model.settle();
        prop_assert!(model.in_doubt().is_empty() && model.plan().stages.is_empty());
    }

    /// No reconcile deletes a pod below the partition for an update, or creates one there with the new template.
    #[test]
    fn the_partition_is_kept(setting in setting(), partition in 1_u32..4, steps in steps(50)) {
        let mut spec = setting.spec.clone();
        spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        spec["replicas"] = json!(4);
        let mut model = Setting { spec, ..setting }.model();
        model.settle();
        // A set without pods has no old ones: all pods that it creates afterwards have the update revision.
        let keeps = |step: &&Step| !matches!(step, Step::Partition(_) | Step::From(_) | Step::Scale(0) | Step::Strategy(_));
        for step in steps.iter().filter(keeps) {
            take(&mut model, step);
            let images = model.images();
            let kept = images.iter().filter(|(name, _)| (0..partition).any(|ordinal| **name == format!("web-{ordinal}")));
            for (name, image) in kept {
                prop_assert_eq!(image, "1", "{} after {:?}", name, step);
            }
        }
    }

    /// Repair deletes neither a ready pod nor a pod of the update revision. With repair, a reconcile deletes those only for the update
    /// itself.
    #[test]
    fn repair_never_touches_a_ready_pod(setting in setting(), steps in steps(50)) {
        let mut model = Setting { repair: true, ..setting }.model();
        for step in &steps {
            let before = model.pod_views();
            let told = model.events.len();
            take(&mut model, step);
            let repaired = model.events[told..].iter().filter(|(reason, _)| reason == "RepairedPod");
            for (_, message) in repaired {
                let name = message.split(' ').nth(2).expect("a name");
                let pod = before.iter().find(|pod| pod.meta.name == name).expect("it was there");
                prop_assert!(!is_ready(pod) && revision_of(pod) != model.view().status.update_revision, "{}", message);
            }
        }
    }

    /// The number of available pods never falls below the limit of a rolling update, except through other clients.
    #[test]
    fn a_budget_is_kept(unavailable in 1_i64..4, policy in prop_oneof![Just("OrderedReady"), Just("Parallel")], steps in steps(60)) {
        let rolling = json!({"partition": 0, "maxUnavailable": unavailable});
        let spec = json!({"replicas": 5, "podManagementPolicy": policy, "updateStrategy": {"rollingUpdate": rolling}});
        let mut model = ClusterModel::new(&spec).with_gates("MaxUnavailableStatefulSet=true");
        model.settle();
        for step in steps.iter().filter(|step| matches!(step, Step::Reconcile(_) | Step::Start(_) | Step::Gone(_) | Step::Template(_))) {
            take(&mut model, step);
            prop_assert!(model.controlled().unavailable_slots() <= unavailable, "{}", model.short());
        }
    }

    /// Planning is a function: the same state results in the same plan.
    #[test]
    fn planning_twice_gives_the_same(setting in setting(), steps in steps(40)) {
        let mut model = setting.model();
        steps.iter().for_each(|step| take(&mut model, step));
        prop_assert_eq!(format!("{:?}", model.plan()), format!("{:?}", model.plan()));
    }

    /// An index with incremental changes equals one built from the present pods, and its counts equal a recount.
    #[test]
    fn a_running_controlled_pods_equals_a_new_one(setting in setting(), steps in steps(60)) {
        let mut model = setting.model();
        let owned = |model: &ClusterModel| model.pod_views().into_iter().filter(|pod| pod.meta.is_controlled_by(&"uid-web".into())).collect::<Vec<_>>();
        let mut generation = model.view().meta.generation;
        let mut running = model.controlled();
        let mut pods: Vec<Arc<PodView>> = owned(&model);
        for step in &steps {
            take(&mut model, step);
            let now = owned(&model);
            pods.iter().filter(|pod| !now.contains(pod)).for_each(|pod| running.remove(pod));
            now.iter().filter(|pod| !pods.contains(pod)).for_each(|pod| running.add(pod));
            pods = now;
            let set = model.view();
            if set.meta.generation != generation {
                generation = set.meta.generation;
                running = model.controlled();
            }
            running.advance(model.now);
            let fresh = model.controlled();
            prop_assert_eq!(&running, &fresh);
            let (mut written, mut counted) = (set.status.clone(), set.status.clone());
            fresh.write_counts(&mut written);
            let members = fresh.slots().chain(fresh.condemned()).map(|(_, pod)| pod);
            counts(&mut counted, members, set.spec.min_ready_seconds, model.now);
            prop_assert_eq!(written, counted);
            check_queries(&fresh, &set, &model)?;
        }
    }
}

/// Compares the queries of an index with their definitions, pod by pod.
fn check_queries(
    controlled: &ControlledPods,
    set: &berth_workloads::view::StatefulSetView,
    model: &ClusterModel,
) -> Result<(), TestCaseError> {
    let wanted = ordinals(set);
    let range = wanted.start..wanted.end();
    let is_available = |pod: &PodView| {
        is_ready(pod) && pod.meta.deleted.is_none() && pod.available_at(set.spec.min_ready_seconds).is_some_and(|at| at <= model.now)
    };
    let unavailable: Vec<Ordinal> =
        range.start.up_to(range.end).filter(|ordinal| !controlled.pod(*ordinal).is_some_and(is_available)).collect();
    prop_assert_eq!(controlled.unavailable_slots(), i64::try_from(unavailable.len()).expect("few"));
    for from in range.start.plus(-1).up_to(range.end.plus(2)) {
        let highest = unavailable.iter().copied().filter(|ordinal| *ordinal >= from).max();
        prop_assert_eq!(controlled.highest_unavailable(from), highest, "from {}", from);
        let outdated = controlled.outdated(&set.status.update_revision, from..range.end);
        prop_assert_eq!(controlled.highest_outdated(&set.status.update_revision, from..range.end), outdated.first().copied());
        let old = |ordinal: &Ordinal| {
            controlled.pod(*ordinal).is_some_and(|pod| revision_of(pod) != set.status.update_revision && pod.meta.deleted.is_none())
        };
        prop_assert_eq!(outdated, from.up_to(range.end).rev().filter(old).collect::<Vec<_>>());
    }
    let update = &set.status.update_revision;
    let fails = |pod: &&PodView| revision_of(pod) == update && pod.meta.deleted.is_none() && cause::of_pod(pod).is_some();
    let members = || controlled.ordinals().filter_map(|ordinal| controlled.pod(ordinal));
    prop_assert!(controlled.failing(update).eq(members().filter(fails)));
    let due = members().filter_map(|pod| pod.available_at(set.spec.min_ready_seconds)).filter(|at| *at > model.now);
    prop_assert_eq!(controlled.next_available_at(), due.min());
    let attention: Vec<Ordinal> = controlled.attention().collect();
    prop_assert!(unavailable.iter().all(|ordinal| attention.contains(ordinal)) && attention.is_sorted(), "{:?}", attention);
    Ok(())
}
