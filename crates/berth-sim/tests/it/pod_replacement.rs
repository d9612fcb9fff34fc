//! What the proposals want tested of `podReplacementPolicy`, for each of its values. The limits, the bound of TerminationComplete among them,
//! are checked after every change of the store.

use berth_api::FeatureGates;
use berth_identity::GroupResource;
use berth_node::Latencies;
use berth_sim::{Gates, Options, Part, Simulation};
use berth_workloads::resources::PODS;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const LONGEST: Duration = Duration::from_secs(3600);
/// For the controllers to do what can be done at once; shorter than any pod takes to go.
const AT_ONCE: Duration = Duration::from_secs(3);
const POLICIES: [Policy; 3] = [Policy::Unset, Policy::TerminationStarted, Policy::TerminationComplete];
const SETS: GroupResource = GroupResource::from_static("apps", "replicasets");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Unset,
    TerminationStarted,
    TerminationComplete,
}

impl Policy {
    fn value(self) -> Value {
        match self {
            Self::Unset => Value::Null,
            Self::TerminationStarted => json!("TerminationStarted"),
            Self::TerminationComplete => json!("TerminationComplete"),
        }
    }
}

/// Pods that start within 2 s and need 30 s to stop.
fn simulation() -> Simulation {
    let latencies = Latencies { start: Duration::from_secs(2), stop: Duration::from_secs(30) };
    Simulation::new(1, Options { latencies, ..Options::default() })
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn deployment(policy: Policy, replicas: u32, strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "podReplacementPolicy": policy.value(),
            "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("main:1"),
        },
    })
}

fn recreate() -> Value {
    json!({"type": "Recreate"})
}

fn rolling(surge: u32, unavailable: u32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// A simulation in which `web` is rolled out.
fn rolled_out(policy: Policy, replicas: u32, strategy: &Value) -> Simulation {
    let mut sim = simulation();
    sim.create(&deployment(policy, replicas, strategy));
    sim.run_until_rolled_out("web", LONGEST);
    sim
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Pods without a `deletionTimestamp`, and terminating pods.
fn pods(sim: &Simulation) -> (usize, usize) {
    let pods = sim.objects("pods");
    let terminating = pods.values().filter(|pod| is_terminating(pod)).count();
    (pods.len() - terminating, terminating)
}

fn reported_terminating(sim: &Simulation) -> i64 {
    number(&sim.object("deployments", "web")["status"]["terminatingReplicas"])
}

fn progressing(sim: &Simulation) -> Value {
    let deployment = sim.object("deployments", "web");
    let conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Progressing").unwrap_or_default()
}

/// The size that the set of an image should have; `None` without a set.
fn size_of(sim: &Simulation, image: &str) -> Option<i64> {
    let sets = sim.objects("replicasets");
    let set = sets.values().find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == image)?;
    Some(number(&set["spec"]["replicas"]))
}

fn events(sim: &Simulation, reason: &str) -> Vec<(String, i64)> {
    let events = sim.objects("events");
    let told = events.values().filter(|event| event["reason"] == reason);
    told.map(|event| (event["message"].as_str().unwrap_or_default().to_owned(), number(&event["count"]))).collect()
}

#[test]
fn recreate_replaces_pods_by_the_policy() {
    for policy in POLICIES {
        let mut sim = rolled_out(policy, 6, &recreate());
        sim.set_image("web", "main:2");
        sim.run_for(AT_ONCE);
        let new = if policy == Policy::TerminationStarted { 6 } else { 0 };
        assert_eq!((pods(&sim), reported_terminating(&sim)), ((new, 6), 6), "{policy:?}, while the old pods go");
        assert_eq!(size_of(&sim, "main:2").unwrap_or(0), new as i64, "{policy:?}");
        sim.run_until_rolled_out("web", LONGEST);
        sim.run_until("the old pods are gone", LONGEST, |seen| seen.pod_count() == 6);

        // A pod killed while the Deployment is scaled up.
        let victim = sim.objects("pods").into_keys().next().expect("6 pods");
        sim.delete_pod(&victim);
        sim.run_for(AT_ONCE);
        assert_eq!(pods(&sim), (6, 1), "{policy:?}: its set replaces it at once");
        sim.scale("web", 7);
        sim.run_for(AT_ONCE);
        let live = if policy == Policy::TerminationComplete { 6 } else { 7 };
        assert_eq!((pods(&sim), reported_terminating(&sim)), ((live, 1), 1), "{policy:?}, while one goes");
        sim.run_until("all is done", LONGEST, |seen| seen.pod_count() == 7 && seen.live_pods().len() == 7);
        sim.run_until_seen("nothing is reported to go", AT_ONCE, |sim| reported_terminating(sim) == 0);
    }
}

#[test]
fn a_pod_killed_in_a_recreate_rollout_is_replaced_at_once() {
    for policy in POLICIES {
        let mut sim = rolled_out(policy, 6, &recreate());
        sim.set_image("web", "main:2");
        sim.run_until_seen("the new pods are made", LONGEST, |sim| size_of(sim, "main:2") == Some(6) && pods(sim).0 == 6);
        sim.run_for(AT_ONCE);
        let victim = sim.seen().live_pods().first().map(|name| (*name).to_owned()).expect("6 pods");
        sim.delete_pod(&victim);
        sim.run_for(AT_ONCE);
        assert_eq!(pods(&sim).0, 6, "{policy:?}");
        sim.run_until_rolled_out("web", LONGEST);
    }
}

#[test]
fn only_termination_complete_is_complete_when_the_last_pod_is_gone() {
    for policy in POLICIES {
        let mut sim = rolled_out(policy, 4, &rolling(2, 0));
        sim.set_image("web", "main:2");
        sim.run_until_seen("a new set", LONGEST, |sim| size_of(sim, "main:2").is_some());
        sim.run_until_seen("the rollout is complete", LONGEST, |sim| {
            progressing(sim)["reason"] == "NewReplicaSetAvailable" && size_of(sim, "main:2") == Some(4)
        });
        assert_eq!(reported_terminating(&sim) == 0, policy == Policy::TerminationComplete, "{policy:?}");
    }
}

#[test]
fn scaling_down_and_up_again_waits_only_under_termination_complete() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling(1, 0)] {
            let mut sim = rolled_out(policy, 6, &strategy);
            sim.scale("web", 2);
            sim.run_for(AT_ONCE);
            assert_eq!((pods(&sim), reported_terminating(&sim)), ((2, 4), 4), "{policy:?} {strategy}: down, at once");
            sim.scale("web", 5);
            sim.run_for(AT_ONCE);
            let surge = usize::from(strategy["type"] == "RollingUpdate");
            let live = if policy == Policy::TerminationComplete { (5 + surge).saturating_sub(4).max(2) } else { 5 };
            assert_eq!(pods(&sim), (live, 4), "{policy:?} {strategy}: up");
            sim.run_until("all are there", LONGEST, |seen| seen.live_pods().len() == 5 && seen.pod_count() == 5);
            sim.run_until_rolled_out("web", LONGEST);
        }
    }
}

#[test]
fn templates_and_sizes_that_change_in_succession_end_at_the_last_one() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling(3, 2), rolling(0, 3)] {
            let mut sim = rolled_out(policy, 6, &strategy);
            for (image, replicas) in [("main:2", 10), ("main:3", 14), ("main:1", 4), ("main:4", 7), ("main:2", 7)] {
                sim.set_image("web", image);
                sim.run_for(Duration::from_secs(7));
                sim.scale("web", replicas);
                sim.run_for(Duration::from_secs(6));
                sim.scale("web", replicas + 4);
                sim.run_for(Duration::from_secs(5));
            }
            sim.run_until_rolled_out("web", LONGEST);
            sim.run_until("old pods are gone", LONGEST, |seen| seen.pod_count() == 11 && seen.live_pods().len() == 11);
            assert_eq!(size_of(&sim, "main:2"), Some(11), "{policy:?} {strategy}");
            let pending =
                |set: &Value| !set["metadata"]["annotations"]["deployment.kubernetes.io/replicaset-replicas-before-scale"].is_null();
            assert!(!sim.objects("replicasets").values().any(pending), "{policy:?} {strategy}: no scale is pending");
        }
    }
}

/// Pods whose termination takes this long.
fn stopping_after(mut deployment: Value, seconds: u32) -> Value {
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["annotations"] = json!({"sim.berth.dev/terminates-after": format!("{seconds}s")});
    template["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
    deployment
}

/// Status, reason and message of the condition `Progressing`.
fn verdict(sim: &Simulation) -> [String; 3] {
    let condition = progressing(sim);
    ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default().to_owned())
}

/// The subject of the condition of a Deployment whose new set does not exist, or of its only set.
fn subject(sim: &Simulation, image: &str) -> String {
    let of_image = |set: &&Value| set["spec"]["template"]["spec"]["containers"][0]["image"] == image;
    match sim.objects("replicasets").values().find(of_image) {
        Some(set) => format!("ReplicaSet {}", set["metadata"]["name"]),
        None => "Deployment \"web\"".to_owned(),
    }
}

fn progressing_message(sim: &Simulation, image: &str) {
    let wanted = ["True".to_owned(), "ReplicaSetUpdated".to_owned(), format!("{} is progressing.", subject(sim, image))];
    assert_eq!(verdict(sim), wanted);
}

fn timed_out_message(sim: &Simulation, image: &str) {
    let wanted = ["False".to_owned(), "ProgressDeadlineExceeded".to_owned(), format!("{} has timed out progressing.", subject(sim, image))];
    assert_eq!(verdict(sim), wanted);
}

/// A simulation with three pods that do not end by themselves, and the names of the first of them.
fn held_up(policy: Policy, strategy: &Value) -> (Simulation, Vec<String>) {
    let mut sim = simulation();
    let mut slow = stopping_after(deployment(policy, 4, strategy), 36_000);
    slow["spec"]["progressDeadlineSeconds"] = json!(60);
    sim.create(&slow);
    sim.run_until_rolled_out("web", LONGEST);
    sim.run_for(AT_ONCE);
    let pods = sim.objects("pods").into_keys().collect();
    (sim, pods)
}

/// While `pods` go one after another there are never 60 s without progress; then, without another that goes, there are.
fn check_deadline(sim: &mut Simulation, pods: &[String], image: &str) {
    sim.run_for(AT_ONCE);
    progressing_message(sim, image);
    let (last, first) = pods.split_last().expect("some pods");
    for pod in first {
        sim.run_for(Duration::from_secs(50));
        progressing_message(sim, image);
        let before = progressing(sim)["lastUpdateTime"].clone();
        sim.force_delete_pod(pod);
        sim.run_for(AT_ONCE);
        progressing_message(sim, image);
        assert_ne!(progressing(sim)["lastUpdateTime"], before, "a pod that is gone is progress");
    }
    sim.run_for(Duration::from_secs(50));
    progressing_message(sim, image);
    sim.run_for(Duration::from_secs(15));
    timed_out_message(sim, image);
    sim.force_delete_pod(last);
    sim.run_until_rolled_out("web", LONGEST);
    sim.run_for(AT_ONCE);
    let wanted = ["True".to_owned(), "NewReplicaSetAvailable".to_owned(), format!("{} has successfully progressed.", subject(sim, image))];
    assert_eq!(verdict(sim), wanted);
}

#[test]
fn each_pod_that_is_gone_restarts_the_progress_deadline_of_a_recreation() {
    for policy in [Policy::Unset, Policy::TerminationComplete] {
        let (mut sim, old) = held_up(policy, &recreate());
        sim.patch_deployment("web", stopping_at_once("main:2"));
        check_deadline(&mut sim, &old, "main:2");
    }
}

#[test]
fn each_pod_that_is_gone_restarts_the_progress_deadline_of_a_scaling_that_waits() {
    for (strategy, smaller) in [(recreate(), 1), (rolling(0, 1), 1), (recreate(), 0), (rolling(0, 1), 0)] {
        let (mut sim, _) = held_up(Policy::TerminationComplete, &strategy);
        sim.scale("web", smaller);
        sim.run_for(AT_ONCE);
        assert_eq!(verdict(&sim)[1], "NewReplicaSetAvailable", "a Deployment that shrinks waits for nothing");
        let going: Vec<String> = sim.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
        sim.scale("web", 4);
        check_deadline(&mut sim, &going, "main:1");
    }
}

/// A template whose pods stop as soon as they are asked to.
fn stopping_at_once(image: &str) -> Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"sim.berth.dev/terminates-after": "0s"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }}})
}

/// A rollout that failed is not the next one's failure, also where the next one has no ReplicaSet yet.
#[test]
fn a_recreation_restarts_after_a_missed_deadline() {
    let (mut sim, old) = held_up(Policy::Unset, &recreate());
    let bad = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady"}}, "spec": {"containers": [{"name": "main", "image": "main:bad"}]}});
    sim.patch_deployment("web", json!({"spec": {"template": bad}}));
    sim.run_for(AT_ONCE);
    old.iter().for_each(|pod| sim.force_delete_pod(pod));
    sim.run_for(Duration::from_secs(70));
    assert_eq!((pods(&sim), size_of(&sim, "main:bad")), ((4, 0), Some(4)));
    timed_out_message(&sim, "main:bad");
    let good =
        json!({"metadata": {"annotations": {"sim.berth.dev/fails": null}}, "spec": {"containers": [{"name": "main", "image": "main:2"}]}});
    sim.patch_deployment("web", json!({"spec": {"template": good}}));
    sim.run_for(AT_ONCE);
    assert_eq!(pods(&sim), (0, 4));
    progressing_message(&sim, "main:2");
}

/// A partial scaling of abandoned templates is given up when the template goes back to one that has an empty set.
#[test]
fn an_undo_does_not_wait_for_the_scale_of_what_it_undoes() {
    let mut sim = simulation();
    sim.create(&stopping_after(deployment(Policy::TerminationComplete, 10, &rolling(2, 1)), 360_000));
    sim.run_until_rolled_out("web", LONGEST);
    sim.patch_deployment("web", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "main:2"}]}}}}));
    while size_of(&sim, "main:2") != Some(10) || size_of(&sim, "main:1") != Some(0) {
        sim.run_for(Duration::from_secs(10));
        remove_terminating(&mut sim, usize::MAX);
    }
    let broken = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady"}}, "spec": {"containers": [{"name": "main", "image": "main:3"}]}});
    sim.patch_deployment("web", json!({"spec": {"template": broken}}));
    sim.run_for(Duration::from_secs(10));
    sim.scale("web", 4);
    sim.run_for(AT_ONCE);
    sim.scale("web", 10);
    sim.run_for(AT_ONCE);
    let sizes = |sim: &Simulation| ["main:1", "main:2", "main:3"].map(|image| size_of(sim, image).expect("a set"));
    let [_, second, third] = sizes(&sim);
    assert!(second > 0 && third > 0 && second + third < 12, "a scale that waits: {:?}", sizes(&sim));
    sim.undo_to("web", 1);
    sim.run_for(AT_ONCE);
    for _ in 0..30 {
        let [first, was_second, was_third] = sizes(&sim);
        assert!(was_second <= second && was_third <= third, "abandoned templates grow: {:?}", sizes(&sim));
        if first > 0 {
            break;
        }
        remove_terminating(&mut sim, 1);
        sim.run_for(AT_ONCE);
    }
    assert!(sizes(&sim)[0] > 0, "{:?}", sizes(&sim));
}

fn remove_terminating(sim: &mut Simulation, most: usize) {
    let going: Vec<String> = sim.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
    going.iter().take(most).for_each(|pod| sim.force_delete_pod(pod));
}

#[test]
fn a_pod_that_never_goes_hides_no_deadline_and_holds_no_correction() {
    let mut sim = simulation();
    let mut stuck = stopping_after(deployment(Policy::TerminationComplete, 4, &rolling(1, 1)), 360_000);
    stuck["spec"]["progressDeadlineSeconds"] = json!(60);
    sim.create(&stuck);
    sim.run_until_rolled_out("web", LONGEST);
    let bad = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady", "sim.berth.dev/terminates-after": "1s"}},
        "spec": {"containers": [{"name": "main", "image": "main:bad"}]}});
    sim.patch_deployment("web", json!({"spec": {"template": bad}}));
    sim.run_until_seen("the deadline is reported", Duration::from_secs(120), |sim| {
        progressing(sim)["reason"] == "ProgressDeadlineExceeded"
    });
    assert!(size_of(&sim, "main:bad").is_some_and(|size| size > 0) && pods(&sim).1 > 0);
    let good = json!({"metadata": {"annotations": {"sim.berth.dev/fails": null}}, "spec": {"containers": [{"name": "main", "image": "main:good"}]}});
    sim.patch_deployment("web", json!({"spec": {"template": good}}));
    sim.run_until_seen("the corrected template runs", LONGEST, |sim| {
        let set =
            sim.objects("replicasets").into_values().find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == "main:good");
        set.is_some_and(|set| number(&set["status"]["readyReplicas"]) > 0)
    });
    assert_eq!(size_of(&sim, "main:bad"), Some(0));
    assert!(pods(&sim).1 > 0, "the stuck pod is still there");
}

#[test]
fn a_scale_that_cannot_finish_holds_no_new_template() {
    let mut sim = simulation();
    sim.create(&stopping_after(deployment(Policy::TerminationComplete, 6, &rolling(1, 1)), 360_000));
    sim.run_until_rolled_out("web", LONGEST);
    sim.scale("web", 3);
    sim.run_for(AT_ONCE);
    sim.scale("web", 6);
    sim.run_for(AT_ONCE);
    assert_eq!(pods(&sim), (4, 3), "no more than 7");
    sim.set_image("web", "main:2");
    sim.run_for(Duration::from_secs(30));
    assert!(size_of(&sim, "main:2").is_some(), "the new revision does not wait for the old one's scale");
    sim.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).for_each(|(name, _)| sim.force_delete_pod(&name));
    sim.run_for(Duration::from_secs(60));
    assert!(size_of(&sim, "main:2").is_some_and(|size| size > 0));
}

/// A set as a rollout has left it, for a paused Deployment to adopt.
fn set(name: &str, image: &str, replicas: u32, (desired, max): (u32, u32)) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = json!(name);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "labels": {"app": "web", "pod-template-hash": name},
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": desired.to_string(),
                "deployment.kubernetes.io/max-replicas": max.to_string(),
            },
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web", "pod-template-hash": name}}, "template": template},
    })
}

/// A Deployment of 100 and `surge` over sets of these sizes (the first has its template). `terminating` pods of the first terminate until a user
/// removes them. Its rollout makes no progress, so that only scaling is seen. It is paused, or no node makes any pod ready, because a pause would use
/// up the surge at once.
fn mid_rollout(policy: Policy, sizes: &[u32], surge: u32, terminating: usize) -> Simulation {
    let mut sim =
        Simulation::new(1, Options { latencies: Latencies { start: Duration::from_secs(2), stop: LONGEST }, ..Options::default() });
    for (index, size) in (1..).zip(sizes) {
        let mut set = set(&format!("rs{index}"), &format!("main:{index}"), *size, (100, 100 + surge));
        set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(LONGEST.as_secs());
        sim.create(&set);
        // Later sets are younger: equals are served in order of age.
        sim.run_for(AT_ONCE);
    }
    let ours: Vec<String> = sim.objects("pods").into_keys().filter(|name| name.starts_with("rs1-")).take(terminating).collect();
    ours.iter().for_each(|pod| sim.delete_pod(pod));
    if terminating > 0 {
        sim.run_for(AT_ONCE);
        sim.kill(Part::Nodes);
    }
    let mut standing = deployment(policy, 100, &rolling(surge, 0));
    standing["spec"]["paused"] = json!(terminating == 0);
    standing["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(LONGEST.as_secs());
    sim.create(&standing);
    sim.run_for(AT_ONCE);
    sim.run_for(AT_ONCE);
    assert_eq!(reported_terminating(&sim), terminating as i64);
    sim
}

/// The sets' sizes, and annotations: before-scale, max-replicas, desired-replicas.
fn rows(sim: &Simulation) -> Vec<String> {
    let annotation = |set: &Value, name: &str| {
        let value = &set["metadata"]["annotations"][format!("deployment.kubernetes.io/{name}")];
        value.as_str().unwrap_or("-").to_owned()
    };
    let row = |set: &Value| {
        let [before, max, desired] =
            ["replicaset-replicas-before-scale", "max-replicas", "desired-replicas"].map(|name| annotation(set, name));
        format!("{} b{before} m{max} d{desired}", number(&set["spec"]["replicas"]))
    };
    sim.objects("replicasets").values().map(row).collect()
}

/// Scales (`Some`) or removes terminating pods until so many are left, and compares each row of KEP-5882's tables.
fn check_table(sim: &mut Simulation, steps: &[(Option<u32>, usize, [&str; 3])]) {
    for (replicas, terminating, wanted) in steps {
        let going: Vec<String> = sim.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
        going.iter().skip(*terminating).for_each(|pod| sim.force_delete_pod(pod));
        replicas.iter().for_each(|replicas| sim.scale("web", *replicas));
        sim.run_for(AT_ONCE);
        assert_eq!(rows(sim), wanted, "scaled to {replicas:?}, {terminating} terminating");
    }
}

#[test]
fn table_1_scales_in_proportion_without_terminating_pods() {
    for policy in POLICIES {
        let mut sim = mid_rollout(policy, &[60, 30, 20], 10, 0);
        check_table(
            &mut sim,
            &[
                (None, 0, ["60 b- m110 d100", "30 b- m110 d100", "20 b- m110 d100"]),
                (Some(120), 0, ["71 b- m130 d120", "35 b- m130 d120", "24 b- m130 d120"]),
                (Some(130), 0, ["76 b- m140 d130", "38 b- m140 d130", "26 b- m140 d130"]),
            ],
        );
    }
}

#[test]
fn table_2_scales_partially_as_terminating_pods_are_deleted() {
    let mut sim = mid_rollout(Policy::TerminationComplete, &[50, 30, 20], 10, 15);
    check_table(
        &mut sim,
        &[
            (None, 15, ["50 b- m110 d100", "30 b- m110 d100", "20 b- m110 d100"]),
            (Some(120), 15, ["59 b- m130 d100", "35 b- m130 d120", "21 b20 m110 d100"]),
            (None, 5, ["66 b- m130 d100", "35 b- m130 d120", "24 b- m130 d120"]),
            (None, 0, ["71 b- m130 d120", "35 b- m130 d120", "24 b- m130 d120"]),
        ],
    );
}

#[test]
fn table_3_scales_again_before_the_first_scale_is_finished() {
    let mut sim = mid_rollout(Policy::TerminationComplete, &[50, 30, 20], 10, 15);
    check_table(
        &mut sim,
        &[
            (None, 15, ["50 b- m110 d100", "30 b- m110 d100", "20 b- m110 d100"]),
            (Some(120), 15, ["59 b- m130 d100", "35 b- m130 d120", "21 b20 m110 d100"]),
            (Some(130), 15, ["66 b- m140 d100", "38 b- m140 d130", "21 b20 m110 d100"]),
            (None, 5, ["72 b- m140 d100", "38 b- m140 d130", "25 b- m140 d130"]),
            (None, 0, ["77 b- m140 d130", "38 b- m140 d130", "25 b- m140 d130"]),
        ],
    );
}

#[test]
fn without_termination_complete_terminating_pods_hold_no_scale_back() {
    for policy in [Policy::Unset, Policy::TerminationStarted] {
        let mut sim = mid_rollout(policy, &[50, 30, 20], 10, 15);
        sim.scale("web", 120);
        sim.run_for(AT_ONCE);
        let rows = rows(&sim);
        let total: u32 = rows.iter().map(|row| row.split(' ').next().and_then(|size| size.parse::<u32>().ok()).expect("a size")).sum();
        assert!(total == 130 && rows.iter().all(|row| row.ends_with(" b- m130 d120")), "{policy:?} {rows:?}");
    }
}

#[test]
fn a_policy_that_changes_in_mid_scale_lets_the_scale_finish_at_once() {
    let mut sim = mid_rollout(Policy::TerminationComplete, &[50, 30, 20], 10, 15);
    sim.scale("web", 120);
    sim.run_for(AT_ONCE);
    assert!(rows(&sim)[2].contains("b20"));
    sim.patch_deployment("web", json!({"spec": {"podReplacementPolicy": null}}));
    sim.run_for(AT_ONCE);
    let rows = rows(&sim);
    assert!(rows.iter().all(|row| row.ends_with(" b- m130 d120")), "{rows:?}");
}

#[test]
fn a_scale_keeps_the_proportions_of_117_to_23() {
    for policy in POLICIES {
        let mut sim = mid_rollout(policy, &[20, 100], 20, 0);
        sim.scale("web", 120);
        sim.run_for(AT_ONCE);
        assert_eq!(rows(&sim), ["23 b- m140 d120", "117 b- m140 d120"], "{policy:?}");
    }
}

fn gates(api: &str, controllers: &str) -> Gates {
    let parse = |text: &str| Arc::new(FeatureGates::parse(text).expect("known gates"));
    Gates { api: parse(api), controllers: parse(controllers) }
}

const OFF: &str = "DeploymentPodReplacementPolicy=false";
const COUNTS_OFF: &str = "DeploymentReplicaSetTerminatingReplicas=false";

/// Whether scaling 6 pods to 2 and then to 5 waits for the terminating pods, with these gates and the stored policy.
fn scaling_waits(sim: &mut Simulation) -> bool {
    sim.scale("web", 6);
    sim.run_until("6 pods and no more", LONGEST, |seen| seen.pod_count() == 6 && seen.live_pods().len() == 6);
    sim.run_until_rolled_out("web", LONGEST);
    sim.scale("web", 2);
    sim.run_for(AT_ONCE);
    sim.scale("web", 5);
    sim.run_for(AT_ONCE);
    pods(sim).0 < 5
}

#[test]
fn where_gates_of_server_and_controllers_differ_those_of_the_controllers_decide() {
    // Switched with a scale in flight each time.
    let mut sim = rolled_out(Policy::TerminationComplete, 6, &rolling(0, 1));
    for (api, controllers, waits) in [
        ("", "", true),
        (OFF, "", true),
        ("", OFF, false),
        (OFF, OFF, false),
        ("", "", true),
        (COUNTS_OFF, "", true),
        ("", COUNTS_OFF, false),
        (COUNTS_OFF, COUNTS_OFF, false),
        ("", "", true),
    ] {
        sim.restart_with(gates(api, controllers));
        let stored = sim.object("deployments", "web")["spec"]["podReplacementPolicy"].clone();
        assert_eq!(stored, "TerminationComplete", "what is in use stays: server {api:?}, controllers {controllers:?}");
        assert_eq!(scaling_waits(&mut sim), waits, "server {api:?}, controllers {controllers:?}");
        let status = sim.object("deployments", "web")["status"]["terminatingReplicas"].clone();
        if controllers == COUNTS_OFF {
            assert!(status.is_null(), "server {api:?}: {status}");
        }
    }
}

#[test]
fn a_server_with_the_gate_off_takes_no_new_use_of_the_policy() {
    let mut sim = simulation();
    sim.restart_with(gates(OFF, ""));
    sim.create(&deployment(Policy::TerminationComplete, 6, &rolling(0, 1)));
    sim.run_until_rolled_out("web", LONGEST);
    assert!(!scaling_waits(&mut sim));
    sim.restart_with(gates("", ""));
    assert!(!scaling_waits(&mut sim), "on again: nothing is stored");
    sim.patch_deployment("web", json!({"spec": {"podReplacementPolicy": "TerminationComplete"}}));
    assert!(scaling_waits(&mut sim));
}

#[test]
fn a_wait_is_recorded_once_however_often_it_is_reconciled() {
    let mut sim = rolled_out(Policy::TerminationComplete, 6, &recreate());
    sim.set_image("web", "main:2");
    sim.run_until_rolled_out("web", LONGEST);
    let told = events(&sim, "WaitingForTerminatingPods");
    assert!(told.len() == 1 && told[0].1 == 1, "{told:?}");
    assert!(told[0].0.contains("before creating 6 more"), "{told:?}");
}

#[test]
fn the_cheapest_pods_are_deleted_first() {
    let mut sim = rolled_out(Policy::Unset, 5, &rolling(1, 0));
    let names: Vec<String> = sim.objects("pods").into_keys().collect();
    for (name, cost) in names.iter().zip([3, -7, 100, -2, 0]) {
        sim.patch(PODS, name, json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost.to_string()}}}));
    }
    sim.run_for(AT_ONCE);
    for (size, goes) in [(4, 1), (3, 3), (2, 4), (1, 0)] {
        sim.scale("web", size);
        sim.run_for(AT_ONCE);
        assert!(!sim.seen().live_pods().contains(names[goes].as_str()), "at {size}, pod {goes} goes");
        assert_eq!(sim.seen().live_pods().len(), size as usize);
    }
}

#[test]
fn a_set_alone_knows_no_policy_and_counts_what_goes() {
    let mut sim = simulation();
    let alone = set("alone", "main:1", 3, (3, 3));
    sim.create(&alone);
    sim.run_for(Duration::from_secs(10));
    sim.patch(SETS, "alone", json!({"spec": {"replicas": 1}}));
    sim.run_for(AT_ONCE);
    let terminating = |sim: &Simulation| sim.object("replicasets", "alone")["status"]["terminatingReplicas"].clone();
    assert_eq!((pods(&sim), terminating(&sim)), ((1, 2), json!(2)));
    sim.kill(Part::Controllers);
    sim.start(Part::Controllers);
    sim.run_for(Duration::from_secs(60));
    assert_eq!((pods(&sim), terminating(&sim)), ((1, 0), json!(0)));
    sim.restart_with(gates("", COUNTS_OFF));
    sim.patch(SETS, "alone", json!({"spec": {"replicas": 2}}));
    sim.run_for(AT_ONCE);
    assert_eq!(terminating(&sim), Value::Null);
}

const DELETED: &str = "berth.dev/deleted-pod-replacement-policy";

/// Evicts all pods of one node, as `kubectl drain` does; without budgets none is refused.
fn drain(sim: &mut Simulation, node: &str) {
    let on_node = |pod: &Value| pod["spec"]["nodeName"] == node && !is_terminating(pod);
    let pods: Vec<String> = sim.objects("pods").into_iter().filter(|(_, pod)| on_node(pod)).map(|(name, _)| name).collect();
    for pod in &pods {
        sim.evict_pod(pod);
    }
}

/// There are never more pods than allowed, including the terminating ones, whichever client deleted them.
#[test]
fn drained_pods_count_until_they_are_deleted_if_the_policy_requires_it() {
    for strategy in [recreate(), rolling(1, 0), rolling(1, 2), rolling(0, 2)] {
        for seconds in [0, 1, 4, 25, 40] {
            let mut web = deployment(Policy::TerminationComplete, 6, &strategy);
            web["metadata"]["annotations"] = json!({DELETED: "TerminationComplete"});
            let mut sim = simulation();
            sim.create(&web);
            sim.run_until_rolled_out("web", LONGEST);
            sim.run_for(AT_ONCE);
            let most = 6 + usize::from(strategy["rollingUpdate"]["maxSurge"] == 1);
            sim.set_image("web", "main:2");
            sim.run_for(Duration::from_secs(seconds));
            drain(&mut sim, "node-0");
            let check = |sim: &Simulation| {
                let count = sim.objects("pods").len();
                assert!(count <= most, "{strategy}, drained after {seconds} s: {count} pods of {most}");
                let web = sim.object("deployments", "web");
                web["status"]["updatedReplicas"] == 6 && web["status"]["availableReplicas"] == 6 && count == 6
            };
            sim.run_until_seen("the rollout goes on while pods go", Duration::from_secs(12), |sim| check(sim) || pods(sim).1 > 0);
            drain(&mut sim, "node-1");
            sim.run_until_seen("the rollout ends", LONGEST, check);
            sim.run_until_rolled_out("web", LONGEST);
        }
    }
}

#[test]
fn a_set_alone_replaces_deleted_pods_after_their_deletion_if_its_annotation_requires_it() {
    for (controllers, at_once) in [("", 2), (OFF, 3)] {
        let mut sim = simulation();
        sim.restart_with(gates("", controllers));
        let mut alone = set("alone", "main:1", 3, (3, 3));
        alone["metadata"]["annotations"][DELETED] = json!("TerminationComplete");
        sim.create(&alone);
        sim.run_for(Duration::from_secs(10));
        let victim = sim.seen().live_pods().first().map(|name| (*name).to_owned()).expect("3 pods");
        sim.delete_pod(&victim);
        sim.run_for(AT_ONCE);
        assert_eq!(pods(&sim), (at_once, 1), "controllers with {controllers:?}");
        let told = events(&sim, "WaitingForTerminatingPods");
        let wanted = if at_once == 2 { vec![("waiting for 1 terminating pod before creating 1 more".to_owned(), 1)] } else { Vec::new() };
        assert_eq!(told, wanted);
        sim.run_for(Duration::from_secs(60));
        assert_eq!(pods(&sim), (3, 0));
        sim.patch(SETS, "alone", json!({"metadata": {"annotations": {DELETED: null}}}));
        sim.run_for(AT_ONCE);
        let victim = sim.seen().live_pods().first().map(|name| (*name).to_owned()).expect("3 pods");
        sim.delete_pod(&victim);
        sim.run_for(AT_ONCE);
        assert_eq!(pods(&sim), (3, 1), "replaced at once");
    }
}

/// `kubectl rollout undo` takes the annotations of the set that it goes back to: they must not turn a policy on or off.
#[test]
fn every_set_has_the_replacement_policy_of_its_deployment() {
    let keys = ["berth.dev/pod-replacement-policy", DELETED];
    let mut sim = rolled_out(Policy::Unset, 2, &rolling(1, 0));
    sim.set_image("web", "main:2");
    sim.run_until_rolled_out("web", LONGEST);
    for value in [json!("TerminationComplete"), json!("TerminationStarted"), json!(null)] {
        sim.patch_deployment("web", json!({"metadata": {"annotations": {keys[0]: value, keys[1]: value}}}));
        sim.run_for(AT_ONCE);
        sim.set_image("web", if value.is_null() { "main:4" } else { "main:3" });
        sim.run_for(AT_ONCE);
        let sets = sim.objects("replicasets");
        assert!(sets.len() >= 3);
        for (name, set) in sets {
            assert_eq!(keys.map(|key| set["metadata"]["annotations"][key].clone()), [value.clone(), value.clone()], "{name}");
        }
    }
    sim.patch_deployment("web", json!({"metadata": {"annotations": {keys[0]: "TerminationComplete", keys[1]: "TerminationComplete"}}}));
    sim.run_for(AT_ONCE);
    sim.undo_to("web", 1);
    sim.run_for(AT_ONCE);
    let web = sim.object("deployments", "web");
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "main:1");
    assert_eq!(keys.map(|key| web["metadata"]["annotations"][key].clone()), [json!("TerminationComplete"), json!("TerminationComplete")]);
}
