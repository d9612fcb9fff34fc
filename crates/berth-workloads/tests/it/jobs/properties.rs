//! What holds for every Job, in any order of events: nodes, clients, lagging caches, and a controller that dies after any write.

use super::model::{JobModel, is_own};
use crate::cluster_model::Patience;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
enum Step {
    /// The controller dies after so many writes; whether its cache lags.
    Reconcile(usize, bool),
    /// The caches show everything, and then nothing new.
    Sync,
    /// The API server rejects pods from now on, or no longer.
    Full(bool),
    Start(usize),
    /// With this exit code; whether by a disruption.
    End(usize, i32, bool),
    Delete(usize),
    ForceDelete(usize),
    /// A client removes the owner of an active pod.
    Orphan(usize),
    Seconds(i64),
    Suspend(bool),
    Parallelism(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let pod = || 0_usize..6;
    prop_oneof![
        10 => (prop_oneof![3 => Just(usize::MAX), 2 => 0_usize..6], any::<bool>()).prop_map(|(limit, lags)| Step::Reconcile(limit, lags)),
        2 => Just(Step::Sync),
        1 => any::<bool>().prop_map(Step::Full),
        3 => pod().prop_map(Step::Start),
        6 => (pod(), prop_oneof![3 => Just(0), 3 => Just(1), 1 => Just(42), 1 => Just(43)], prop::bool::weighted(0.2))
            .prop_map(|(pod, code, disrupted)| Step::End(pod, code, disrupted)),
        2 => pod().prop_map(Step::Delete),
        1 => pod().prop_map(Step::ForceDelete),
        1 => pod().prop_map(Step::Orphan),
        3 => prop_oneof![0_i64..15, Just(700)].prop_map(Step::Seconds),
        1 => any::<bool>().prop_map(Step::Suspend),
        1 => (0_u32..5).prop_map(Step::Parallelism),
    ]
}

fn take(model: &mut JobModel, step: &Step) {
    let pick = |model: &JobModel, index: usize| {
        let names: Vec<_> = model.pods.keys().cloned().collect();
        names.get(index % names.len().max(1)).cloned()
    };
    match *step {
        Step::Reconcile(limit, lags) => model.reconcile(limit, lags),
        Step::Sync => model.sync(),
        Step::Full(is_full) => model.is_full = is_full,
        Step::Start(index) => pick(model, index).iter().for_each(|name| model.start(name)),
        Step::End(index, code, disrupted) => pick(model, index).iter().for_each(|name| model.end(name, code, disrupted)),
        Step::Delete(index) => pick(model, index).iter().for_each(|name| model.delete(name)),
        Step::ForceDelete(index) => pick(model, index).iter().for_each(|name| model.force_delete(name)),
        Step::Orphan(index) => {
            let active = model.active();
            let orphan = json!({"metadata": {"ownerReferences": null}});
            active.get(index % active.len().max(1)).into_iter().for_each(|name| model.edit_pod(name, &orphan));
        }
        Step::Seconds(seconds) => model.now += SignedDuration::from_secs(seconds),
        Step::Suspend(suspend) => model.edit(&json!({"spec": {"suspend": suspend}})),
        Step::Parallelism(parallelism) => model.edit(&json!({"spec": {"parallelism": parallelism}})),
    }
}

fn failure_policy() -> impl Strategy<Value = Value> {
    let ignored = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let code = |action: &str, code: i32| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    prop_oneof![
        2 => Just(json!(null)),
        1 => Just(json!({"rules": [ignored.clone(), code("FailJob", 42), code("Count", 43)]})),
        1 => Just(json!({"rules": [code("Ignore", 42), ignored, code("FailIndex", 43)]})),
    ]
}

prop_compose! {
    fn setting()(
        is_indexed in any::<bool>(), completions in prop_oneof![1 => Just(None), 4 => (0_u32..6).prop_map(Some)], parallelism in 0_u32..5,
        limit in prop_oneof![Just(json!(null)), Just(json!(0)), Just(json!(2)), Just(json!(5))],
        per_index in prop_oneof![2 => Just(json!(null)), 1 => Just(json!(0)), 1 => Just(json!(2))],
        max_failed in prop_oneof![Just(json!(null)), Just(json!(0)), Just(json!(1))],
        success in prop_oneof![2 => Just(json!(null)), 1 => Just(json!({"rules": [{"succeededIndexes": "1-2", "succeededCount": 1}]}))],
        failure in failure_policy(), replacement in prop_oneof![Just("TerminatingOrFailed"), Just("Failed")],
        deadline in prop_oneof![4 => Just(json!(null)), 1 => Just(json!(60))], patience in 0_u32..3,
    ) -> (Value, u32) {
        let mut spec = json!({
            "completions": completions, "parallelism": parallelism, "backoffLimit": limit, "podFailurePolicy": failure,
            "podReplacementPolicy": replacement, "activeDeadlineSeconds": deadline,
        });
        if is_indexed {
            spec["completionMode"] = json!("Indexed");
            spec["completions"] = json!(completions.unwrap_or(3));
            spec["backoffLimitPerIndex"] = per_index.clone();
            spec["successPolicy"] = success;
            if !per_index.is_null() {
                spec["maxFailedIndexes"] = max_failed;
            }
        }
        (spec, patience)
    }
}

fn reached((spec, patience): &(Value, u32), steps: &[Step]) -> JobModel {
    let mut model = JobModel::new(spec);
    model.patience = Patience::of(*patience);
    steps.iter().for_each(|step| take(&mut model, step));
    model.is_full = false;
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// The model checks each write. In the end the Job is finished, whatever has happened, and nothing is left to do.
    #[test]
    fn every_job_ends_with_each_pod_counted_once(setting in setting(), steps in prop::collection::vec(step(), 0..70), code in prop_oneof![Just(0), Just(1)]) {
        let mut model = reached(&setting, &steps);
        // A Job without parallelism does nothing.
        model.edit(&json!({"spec": {"suspend": false, "parallelism": 2}}));
        model.run_to_end(code);
        prop_assert!(model.is_finished(), "{}", model.short());
        let plan = model.plan();
        prop_assert!(plan.stages.is_empty() && plan.waits.is_empty(), "{plan}");
    }

    /// A suspended Job deletes its pods, and counts none of them as failed because of that.
    #[test]
    fn a_suspended_job_has_no_pods_in_the_end(setting in setting(), steps in prop::collection::vec(step(), 0..40)) {
        let mut model = reached(&setting, &steps);
        model.edit(&json!({"spec": {"suspend": true}}));
        model.run_to_end(0);
        prop_assert_eq!(model.active(), [""; 0]);
        if !model.is_finished() {
            prop_assert!(model.job.json["status"]["startTime"].is_null(), "{}", model.short());
        }
    }

    /// A Job that is deleted with its pods lets each of them be deleted.
    #[test]
    fn a_job_that_is_deleted_holds_no_pod(setting in setting(), steps in prop::collection::vec(step(), 0..40)) {
        let mut model = reached(&setting, &steps);
        model.edit(&json!({"metadata": {"deletionTimestamp": model.now.to_string()}}));
        model.rest();
        let owned = |pod: &berth_workloads::view::JobPodView| pod.is_tracked() && is_own(pod);
        model.names(owned).iter().for_each(|name| model.delete(name));
        model.rest();
        prop_assert_eq!(model.names(owned), [""; 0], "{}", model.short());
    }

    /// A plan is a function of its state.
    #[test]
    fn planning_twice_gives_the_same(setting in setting(), steps in prop::collection::vec(step(), 0..30)) {
        let model = reached(&setting, &steps);
        prop_assert_eq!(model.plan(), model.plan());
    }
}
