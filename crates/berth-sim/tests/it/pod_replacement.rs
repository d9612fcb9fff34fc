//! What the proposals want tested of `podReplacementPolicy`, for each of its values. The limits, the bound of TerminationComplete among them,
//! are checked after every change of the store.

use berth_api::FeatureGates;
use berth_identity::GroupResource;
use berth_node::Latencies;
use berth_sim::{Gates, Options, Part, World};
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
fn world() -> World {
    let latencies = Latencies { start: Duration::from_secs(2), stop: Duration::from_secs(30) };
    World::new(1, Options { latencies, ..Options::default() })
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

/// A world in which `web` is rolled out.
fn rolled_out(policy: Policy, replicas: u32, strategy: &Value) -> World {
    let mut world = world();
    world.create(&deployment(policy, replicas, strategy));
    world.run_until_rolled_out("web", LONGEST);
    world
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Pods that nobody has asked to go, and pods that still go.
fn pods(world: &World) -> (usize, usize) {
    let pods = world.objects("pods");
    let terminating = pods.values().filter(|pod| is_terminating(pod)).count();
    (pods.len() - terminating, terminating)
}

fn reported_terminating(world: &World) -> i64 {
    number(&world.object("deployments", "web")["status"]["terminatingReplicas"])
}

fn progressing(world: &World) -> Value {
    let deployment = world.object("deployments", "web");
    let conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Progressing").unwrap_or_default()
}

/// The size that the set of an image should have; `None` without a set.
fn size_of(world: &World, image: &str) -> Option<i64> {
    let sets = world.objects("replicasets");
    let set = sets.values().find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == image)?;
    Some(number(&set["spec"]["replicas"]))
}

fn events(world: &World, reason: &str) -> Vec<(String, i64)> {
    let events = world.objects("events");
    let told = events.values().filter(|event| event["reason"] == reason);
    told.map(|event| (event["message"].as_str().unwrap_or_default().to_owned(), number(&event["count"]))).collect()
}

#[test]
fn recreate_replaces_pods_as_the_policy_says() {
    for policy in POLICIES {
        let mut world = rolled_out(policy, 6, &recreate());
        world.set_image("web", "main:2");
        world.run_for(AT_ONCE);
        let new = if policy == Policy::TerminationStarted { 6 } else { 0 };
        assert_eq!((pods(&world), reported_terminating(&world)), ((new, 6), 6), "{policy:?}, while the old pods go");
        assert_eq!(size_of(&world, "main:2").unwrap_or(0), new as i64, "{policy:?}");
        world.run_until_rolled_out("web", LONGEST);
        world.run_until("the old pods are gone", LONGEST, |seen| seen.pod_count() == 6);

        // A pod killed while the Deployment is scaled up.
        let victim = world.objects("pods").into_keys().next().expect("6 pods");
        world.delete_pod(&victim);
        world.run_for(AT_ONCE);
        assert_eq!(pods(&world), (6, 1), "{policy:?}: its set replaces it at once");
        world.scale("web", 7);
        world.run_for(AT_ONCE);
        let live = if policy == Policy::TerminationComplete { 6 } else { 7 };
        assert_eq!((pods(&world), reported_terminating(&world)), ((live, 1), 1), "{policy:?}, while one goes");
        world.run_until("all is done", LONGEST, |seen| seen.pod_count() == 7 && seen.live_pods().len() == 7);
        world.run_until_seen("nothing is reported to go", AT_ONCE, |world| reported_terminating(world) == 0);
    }
}

#[test]
fn a_pod_killed_in_a_recreate_rollout_is_replaced_at_once() {
    for policy in POLICIES {
        let mut world = rolled_out(policy, 6, &recreate());
        world.set_image("web", "main:2");
        world.run_until_seen("the new pods are made", LONGEST, |world| size_of(world, "main:2") == Some(6) && pods(world).0 == 6);
        world.run_for(AT_ONCE);
        let victim = world.seen().live_pods().first().map(|name| (*name).to_owned()).expect("6 pods");
        world.delete_pod(&victim);
        world.run_for(AT_ONCE);
        assert_eq!(pods(&world).0, 6, "{policy:?}");
        world.run_until_rolled_out("web", LONGEST);
    }
}

#[test]
fn only_termination_complete_is_complete_when_the_last_pod_is_gone() {
    for policy in POLICIES {
        let mut world = rolled_out(policy, 4, &rolling(2, 0));
        world.set_image("web", "main:2");
        world.run_until_seen("a new set", LONGEST, |world| size_of(world, "main:2").is_some());
        world.run_until_seen("the rollout is complete", LONGEST, |world| {
            progressing(world)["reason"] == "NewReplicaSetAvailable" && size_of(world, "main:2") == Some(4)
        });
        assert_eq!(reported_terminating(&world) == 0, policy == Policy::TerminationComplete, "{policy:?}");
    }
}

#[test]
fn scaling_down_and_up_again_waits_only_under_termination_complete() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling(1, 0)] {
            let mut world = rolled_out(policy, 6, &strategy);
            world.scale("web", 2);
            world.run_for(AT_ONCE);
            assert_eq!((pods(&world), reported_terminating(&world)), ((2, 4), 4), "{policy:?} {strategy}: down, at once");
            world.scale("web", 5);
            world.run_for(AT_ONCE);
            let surge = usize::from(strategy["type"] == "RollingUpdate");
            let live = if policy == Policy::TerminationComplete { (5 + surge).saturating_sub(4).max(2) } else { 5 };
            assert_eq!(pods(&world), (live, 4), "{policy:?} {strategy}: up");
            world.run_until("all are there", LONGEST, |seen| seen.live_pods().len() == 5 && seen.pod_count() == 5);
            world.run_until_rolled_out("web", LONGEST);
        }
    }
}

#[test]
fn templates_and_sizes_that_change_in_succession_end_as_the_last_one_says() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling(3, 2), rolling(0, 3)] {
            let mut world = rolled_out(policy, 6, &strategy);
            for (image, replicas) in [("main:2", 10), ("main:3", 14), ("main:1", 4), ("main:4", 7), ("main:2", 7)] {
                world.set_image("web", image);
                world.run_for(Duration::from_secs(7));
                world.scale("web", replicas);
                world.run_for(Duration::from_secs(6));
                world.scale("web", replicas + 4);
                world.run_for(Duration::from_secs(5));
            }
            world.run_until_rolled_out("web", LONGEST);
            world.run_until("old pods are gone", LONGEST, |seen| seen.pod_count() == 11 && seen.live_pods().len() == 11);
            assert_eq!(size_of(&world, "main:2"), Some(11), "{policy:?} {strategy}");
            let pending =
                |set: &Value| !set["metadata"]["annotations"]["deployment.kubernetes.io/replicaset-replicas-before-scale"].is_null();
            assert!(!world.objects("replicasets").values().any(pending), "{policy:?} {strategy}: no scale is pending");
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
fn verdict(world: &World) -> [String; 3] {
    let condition = progressing(world);
    ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default().to_owned())
}

/// What the condition says of a Deployment whose new set is not there, or of its only set.
fn subject(world: &World, image: &str) -> String {
    let of_image = |set: &&Value| set["spec"]["template"]["spec"]["containers"][0]["image"] == image;
    match world.objects("replicasets").values().find(of_image) {
        Some(set) => format!("ReplicaSet {}", set["metadata"]["name"]),
        None => "Deployment \"web\"".to_owned(),
    }
}

fn says_progressing(world: &World, image: &str) {
    let wanted = ["True".to_owned(), "ReplicaSetUpdated".to_owned(), format!("{} is progressing.", subject(world, image))];
    assert_eq!(verdict(world), wanted);
}

fn says_timed_out(world: &World, image: &str) {
    let wanted =
        ["False".to_owned(), "ProgressDeadlineExceeded".to_owned(), format!("{} has timed out progressing.", subject(world, image))];
    assert_eq!(verdict(world), wanted);
}

/// A world with three pods that do not go by themselves, and the names of the first of them.
fn held_up(policy: Policy, strategy: &Value) -> (World, Vec<String>) {
    let mut world = world();
    let mut slow = stopping_after(deployment(policy, 4, strategy), 36_000);
    slow["spec"]["progressDeadlineSeconds"] = json!(60);
    world.create(&slow);
    world.run_until_rolled_out("web", LONGEST);
    world.run_for(AT_ONCE);
    let pods = world.objects("pods").into_keys().collect();
    (world, pods)
}

/// While `pods` go one after another there are never 60 s without progress; then, without another that goes, there are.
fn check_deadline(world: &mut World, pods: &[String], image: &str) {
    world.run_for(AT_ONCE);
    says_progressing(world, image);
    let (last, first) = pods.split_last().expect("some pods");
    for pod in first {
        world.run_for(Duration::from_secs(50));
        says_progressing(world, image);
        let before = progressing(world)["lastUpdateTime"].clone();
        world.force_delete_pod(pod);
        world.run_for(AT_ONCE);
        says_progressing(world, image);
        assert_ne!(progressing(world)["lastUpdateTime"], before, "a pod that is gone is progress");
    }
    world.run_for(Duration::from_secs(50));
    says_progressing(world, image);
    world.run_for(Duration::from_secs(15));
    says_timed_out(world, image);
    world.force_delete_pod(last);
    world.run_until_rolled_out("web", LONGEST);
    world.run_for(AT_ONCE);
    let wanted =
        ["True".to_owned(), "NewReplicaSetAvailable".to_owned(), format!("{} has successfully progressed.", subject(world, image))];
    assert_eq!(verdict(world), wanted);
}

#[test]
fn each_pod_that_is_gone_restarts_the_progress_deadline_of_a_recreation() {
    for policy in [Policy::Unset, Policy::TerminationComplete] {
        let (mut world, old) = held_up(policy, &recreate());
        world.patch_deployment("web", stopping_at_once("main:2"));
        check_deadline(&mut world, &old, "main:2");
    }
}

#[test]
fn each_pod_that_is_gone_restarts_the_progress_deadline_of_a_scaling_that_waits() {
    for (strategy, smaller) in [(recreate(), 1), (rolling(0, 1), 1), (recreate(), 0), (rolling(0, 1), 0)] {
        let (mut world, _) = held_up(Policy::TerminationComplete, &strategy);
        world.scale("web", smaller);
        world.run_for(AT_ONCE);
        assert_eq!(verdict(&world)[1], "NewReplicaSetAvailable", "a Deployment that shrinks waits for nothing");
        let going: Vec<String> = world.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
        world.scale("web", 4);
        check_deadline(&mut world, &going, "main:1");
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
fn a_recreation_begins_anew_after_a_missed_deadline() {
    let (mut world, old) = held_up(Policy::Unset, &recreate());
    let bad = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady"}}, "spec": {"containers": [{"name": "main", "image": "main:bad"}]}});
    world.patch_deployment("web", json!({"spec": {"template": bad}}));
    world.run_for(AT_ONCE);
    old.iter().for_each(|pod| world.force_delete_pod(pod));
    world.run_for(Duration::from_secs(70));
    assert_eq!((pods(&world), size_of(&world, "main:bad")), ((4, 0), Some(4)));
    says_timed_out(&world, "main:bad");
    let good =
        json!({"metadata": {"annotations": {"sim.berth.dev/fails": null}}, "spec": {"containers": [{"name": "main", "image": "main:2"}]}});
    world.patch_deployment("web", json!({"spec": {"template": good}}));
    world.run_for(AT_ONCE);
    assert_eq!(pods(&world), (0, 4));
    says_progressing(&world, "main:2");
}

/// A partial scaling of abandoned templates is given up when the template goes back to one that has an empty set.
#[test]
fn an_undo_does_not_wait_for_the_scale_of_what_it_undoes() {
    let mut world = world();
    world.create(&stopping_after(deployment(Policy::TerminationComplete, 10, &rolling(2, 1)), 360_000));
    world.run_until_rolled_out("web", LONGEST);
    world.patch_deployment("web", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "main:2"}]}}}}));
    while size_of(&world, "main:2") != Some(10) || size_of(&world, "main:1") != Some(0) {
        world.run_for(Duration::from_secs(10));
        remove_terminating(&mut world, usize::MAX);
    }
    let broken = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady"}}, "spec": {"containers": [{"name": "main", "image": "main:3"}]}});
    world.patch_deployment("web", json!({"spec": {"template": broken}}));
    world.run_for(Duration::from_secs(10));
    world.scale("web", 4);
    world.run_for(AT_ONCE);
    world.scale("web", 10);
    world.run_for(AT_ONCE);
    let sizes = |world: &World| ["main:1", "main:2", "main:3"].map(|image| size_of(world, image).expect("a set"));
    let [_, second, third] = sizes(&world);
    assert!(second > 0 && third > 0 && second + third < 12, "a scale that waits: {:?}", sizes(&world));
    world.undo_to("web", 1);
    world.run_for(AT_ONCE);
    for _ in 0..30 {
        let [first, was_second, was_third] = sizes(&world);
        assert!(was_second <= second && was_third <= third, "abandoned templates grow: {:?}", sizes(&world));
        if first > 0 {
            break;
        }
        remove_terminating(&mut world, 1);
        world.run_for(AT_ONCE);
    }
    assert!(sizes(&world)[0] > 0, "{:?}", sizes(&world));
}

fn remove_terminating(world: &mut World, most: usize) {
    let going: Vec<String> = world.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
    going.iter().take(most).for_each(|pod| world.force_delete_pod(pod));
}

#[test]
fn a_pod_that_never_goes_hides_no_deadline_and_holds_no_correction() {
    let mut world = world();
    let mut stuck = stopping_after(deployment(Policy::TerminationComplete, 4, &rolling(1, 1)), 360_000);
    stuck["spec"]["progressDeadlineSeconds"] = json!(60);
    world.create(&stuck);
    world.run_until_rolled_out("web", LONGEST);
    let bad = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady", "sim.berth.dev/terminates-after": "1s"}},
        "spec": {"containers": [{"name": "main", "image": "main:bad"}]}});
    world.patch_deployment("web", json!({"spec": {"template": bad}}));
    world.run_until_seen("the deadline is reported", Duration::from_secs(120), |world| {
        progressing(world)["reason"] == "ProgressDeadlineExceeded"
    });
    assert!(size_of(&world, "main:bad").is_some_and(|size| size > 0) && pods(&world).1 > 0);
    let good = json!({"metadata": {"annotations": {"sim.berth.dev/fails": null}}, "spec": {"containers": [{"name": "main", "image": "main:good"}]}});
    world.patch_deployment("web", json!({"spec": {"template": good}}));
    world.run_until_seen("the corrected template runs", LONGEST, |world| {
        let set =
            world.objects("replicasets").into_values().find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == "main:good");
        set.is_some_and(|set| number(&set["status"]["readyReplicas"]) > 0)
    });
    assert_eq!(size_of(&world, "main:bad"), Some(0));
    assert!(pods(&world).1 > 0, "the stuck pod is still there");
}

#[test]
fn a_scale_that_cannot_finish_holds_no_new_template() {
    let mut world = world();
    world.create(&stopping_after(deployment(Policy::TerminationComplete, 6, &rolling(1, 1)), 360_000));
    world.run_until_rolled_out("web", LONGEST);
    world.scale("web", 3);
    world.run_for(AT_ONCE);
    world.scale("web", 6);
    world.run_for(AT_ONCE);
    assert_eq!(pods(&world), (4, 3), "no more than 7");
    world.set_image("web", "main:2");
    world.run_for(Duration::from_secs(30));
    assert!(size_of(&world, "main:2").is_some(), "the new revision does not wait for the old one's scale");
    world.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).for_each(|(name, _)| world.force_delete_pod(&name));
    world.run_for(Duration::from_secs(60));
    assert!(size_of(&world, "main:2").is_some_and(|size| size > 0));
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

/// A Deployment of 100 and `surge` over sets of these sizes (the first has its template); `terminating` pods of the first go, until somebody
/// removes them. Its rollout stands still, so that only scaling is seen: it is paused, or, as a pause would use up the surge at once, no
/// node makes any pod ready.
fn mid_rollout(policy: Policy, sizes: &[u32], surge: u32, terminating: usize) -> World {
    let mut world = World::new(1, Options { latencies: Latencies { start: Duration::from_secs(2), stop: LONGEST }, ..Options::default() });
    for (index, size) in (1..).zip(sizes) {
        let mut set = set(&format!("rs{index}"), &format!("main:{index}"), *size, (100, 100 + surge));
        set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(LONGEST.as_secs());
        world.create(&set);
        // Later sets are younger: equals are served in order of age.
        world.run_for(AT_ONCE);
    }
    let ours: Vec<String> = world.objects("pods").into_keys().filter(|name| name.starts_with("rs1-")).take(terminating).collect();
    ours.iter().for_each(|pod| world.delete_pod(pod));
    if terminating > 0 {
        world.run_for(AT_ONCE);
        world.kill(Part::Nodes);
    }
    let mut standing = deployment(policy, 100, &rolling(surge, 0));
    standing["spec"]["paused"] = json!(terminating == 0);
    standing["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(LONGEST.as_secs());
    world.create(&standing);
    world.run_for(AT_ONCE);
    world.run_for(AT_ONCE);
    assert_eq!(reported_terminating(&world), terminating as i64);
    world
}

/// The sets' sizes, and annotations: before-scale, max-replicas, desired-replicas.
fn rows(world: &World) -> Vec<String> {
    let annotation = |set: &Value, name: &str| {
        let value = &set["metadata"]["annotations"][format!("deployment.kubernetes.io/{name}")];
        value.as_str().unwrap_or("-").to_owned()
    };
    let row = |set: &Value| {
        let [before, max, desired] =
            ["replicaset-replicas-before-scale", "max-replicas", "desired-replicas"].map(|name| annotation(set, name));
        format!("{} b{before} m{max} d{desired}", number(&set["spec"]["replicas"]))
    };
    world.objects("replicasets").values().map(row).collect()
}

/// Scales (`Some`) or removes terminating pods until so many are left, and compares each row of KEP-5882's tables.
fn check_table(world: &mut World, steps: &[(Option<u32>, usize, [&str; 3])]) {
    for (replicas, terminating, wanted) in steps {
        let going: Vec<String> = world.objects("pods").into_iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
        going.iter().skip(*terminating).for_each(|pod| world.force_delete_pod(pod));
        replicas.iter().for_each(|replicas| world.scale("web", *replicas));
        world.run_for(AT_ONCE);
        assert_eq!(rows(world), wanted, "scaled to {replicas:?}, {terminating} terminating");
    }
}

#[test]
fn table_1_scales_in_proportion_without_terminating_pods() {
    for policy in POLICIES {
        let mut world = mid_rollout(policy, &[60, 30, 20], 10, 0);
        check_table(
            &mut world,
            &[
                (None, 0, ["60 b- m110 d100", "30 b- m110 d100", "20 b- m110 d100"]),
                (Some(120), 0, ["71 b- m130 d120", "35 b- m130 d120", "24 b- m130 d120"]),
                (Some(130), 0, ["76 b- m140 d130", "38 b- m140 d130", "26 b- m140 d130"]),
            ],
        );
    }
}

#[test]
fn table_2_scales_partially_as_terminating_pods_go() {
    let mut world = mid_rollout(Policy::TerminationComplete, &[50, 30, 20], 10, 15);
    check_table(
        &mut world,
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
    let mut world = mid_rollout(Policy::TerminationComplete, &[50, 30, 20], 10, 15);
    check_table(
        &mut world,
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
        let mut world = mid_rollout(policy, &[50, 30, 20], 10, 15);
        world.scale("web", 120);
        world.run_for(AT_ONCE);
        let rows = rows(&world);
        let total: u32 = rows.iter().map(|row| row.split(' ').next().and_then(|size| size.parse::<u32>().ok()).expect("a size")).sum();
        assert!(total == 130 && rows.iter().all(|row| row.ends_with(" b- m130 d120")), "{policy:?} {rows:?}");
    }
}

#[test]
fn a_policy_that_changes_in_mid_scale_lets_the_scale_finish_at_once() {
    let mut world = mid_rollout(Policy::TerminationComplete, &[50, 30, 20], 10, 15);
    world.scale("web", 120);
    world.run_for(AT_ONCE);
    assert!(rows(&world)[2].contains("b20"));
    world.patch_deployment("web", json!({"spec": {"podReplacementPolicy": null}}));
    world.run_for(AT_ONCE);
    let rows = rows(&world);
    assert!(rows.iter().all(|row| row.ends_with(" b- m130 d120")), "{rows:?}");
}

#[test]
fn a_scale_keeps_the_proportions_of_117_to_23() {
    for policy in POLICIES {
        let mut world = mid_rollout(policy, &[20, 100], 20, 0);
        world.scale("web", 120);
        world.run_for(AT_ONCE);
        assert_eq!(rows(&world), ["23 b- m140 d120", "117 b- m140 d120"], "{policy:?}");
    }
}

fn gates(api: &str, controllers: &str) -> Gates {
    let parse = |text: &str| Arc::new(FeatureGates::parse(text).expect("known gates"));
    Gates { api: parse(api), controllers: parse(controllers) }
}

const OFF: &str = "DeploymentPodReplacementPolicy=false";
const COUNTS_OFF: &str = "DeploymentReplicaSetTerminatingReplicas=false";

/// Whether scaling 6 pods to 2 and then to 5 waits for the pods that go, with these gates and the policy that is stored.
fn scaling_waits(world: &mut World) -> bool {
    world.scale("web", 6);
    world.run_until("6 pods and no more", LONGEST, |seen| seen.pod_count() == 6 && seen.live_pods().len() == 6);
    world.run_until_rolled_out("web", LONGEST);
    world.scale("web", 2);
    world.run_for(AT_ONCE);
    world.scale("web", 5);
    world.run_for(AT_ONCE);
    pods(world).0 < 5
}

#[test]
fn gates_that_differ_between_server_and_controllers_decide_as_the_controllers_say() {
    // Switched with a scale in flight each time.
    let mut world = rolled_out(Policy::TerminationComplete, 6, &rolling(0, 1));
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
        world.restart_with(gates(api, controllers));
        let stored = world.object("deployments", "web")["spec"]["podReplacementPolicy"].clone();
        assert_eq!(stored, "TerminationComplete", "what is in use stays: server {api:?}, controllers {controllers:?}");
        assert_eq!(scaling_waits(&mut world), waits, "server {api:?}, controllers {controllers:?}");
        let status = world.object("deployments", "web")["status"]["terminatingReplicas"].clone();
        if controllers == COUNTS_OFF {
            assert!(status.is_null(), "server {api:?}: {status}");
        }
    }
}

#[test]
fn a_server_with_the_gate_off_takes_no_new_use_of_the_policy() {
    let mut world = world();
    world.restart_with(gates(OFF, ""));
    world.create(&deployment(Policy::TerminationComplete, 6, &rolling(0, 1)));
    world.run_until_rolled_out("web", LONGEST);
    assert!(!scaling_waits(&mut world));
    world.restart_with(gates("", ""));
    assert!(!scaling_waits(&mut world), "on again: nothing is stored");
    world.patch_deployment("web", json!({"spec": {"podReplacementPolicy": "TerminationComplete"}}));
    assert!(scaling_waits(&mut world));
}

#[test]
fn a_wait_is_told_of_once_however_often_it_is_looked_at() {
    let mut world = rolled_out(Policy::TerminationComplete, 6, &recreate());
    world.set_image("web", "main:2");
    world.run_until_rolled_out("web", LONGEST);
    let told = events(&world, "WaitingForTerminatingPods");
    assert!(told.len() == 1 && told[0].1 == 1, "{told:?}");
    assert!(told[0].0.contains("before creating 6 more"), "{told:?}");
}

#[test]
fn the_cheapest_pods_go_first() {
    let mut world = rolled_out(Policy::Unset, 5, &rolling(1, 0));
    let names: Vec<String> = world.objects("pods").into_keys().collect();
    for (name, cost) in names.iter().zip([3, -7, 100, -2, 0]) {
        world.patch(PODS, name, json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost.to_string()}}}));
    }
    world.run_for(AT_ONCE);
    for (size, goes) in [(4, 1), (3, 3), (2, 4), (1, 0)] {
        world.scale("web", size);
        world.run_for(AT_ONCE);
        assert!(!world.seen().live_pods().contains(names[goes].as_str()), "at {size}, pod {goes} goes");
        assert_eq!(world.seen().live_pods().len(), size as usize);
    }
}

#[test]
fn a_set_alone_knows_no_policy_and_counts_what_goes() {
    let mut world = world();
    let alone = set("alone", "main:1", 3, (3, 3));
    world.create(&alone);
    world.run_for(Duration::from_secs(10));
    world.patch(SETS, "alone", json!({"spec": {"replicas": 1}}));
    world.run_for(AT_ONCE);
    let terminating = |world: &World| world.object("replicasets", "alone")["status"]["terminatingReplicas"].clone();
    assert_eq!((pods(&world), terminating(&world)), ((1, 2), json!(2)));
    world.kill(Part::Controllers);
    world.start(Part::Controllers);
    world.run_for(Duration::from_secs(60));
    assert_eq!((pods(&world), terminating(&world)), ((1, 0), json!(0)));
    world.restart_with(gates("", COUNTS_OFF));
    world.patch(SETS, "alone", json!({"spec": {"replicas": 2}}));
    world.run_for(AT_ONCE);
    assert_eq!(terminating(&world), Value::Null);
}

const DELETED: &str = "berth.dev/deleted-pod-replacement-policy";

/// Evicts all pods of one node, as `kubectl drain` does; without budgets none is refused.
fn drain(world: &mut World, node: &str) {
    let on_node = |pod: &Value| pod["spec"]["nodeName"] == node && !is_terminating(pod);
    let pods: Vec<String> = world.objects("pods").into_iter().filter(|(_, pod)| on_node(pod)).map(|(name, _)| name).collect();
    for pod in &pods {
        world.evict_pod(pod);
    }
}

/// There are never more pods than may be, those that go among them, whoever made them go.
#[test]
fn drained_pods_keep_their_place_until_they_are_gone_where_the_deployment_says_so() {
    for strategy in [recreate(), rolling(1, 0), rolling(1, 2), rolling(0, 2)] {
        for seconds in [0, 1, 4, 25, 40] {
            let mut web = deployment(Policy::TerminationComplete, 6, &strategy);
            web["metadata"]["annotations"] = json!({DELETED: "TerminationComplete"});
            let mut world = world();
            world.create(&web);
            world.run_until_rolled_out("web", LONGEST);
            world.run_for(AT_ONCE);
            let most = 6 + usize::from(strategy["rollingUpdate"]["maxSurge"] == 1);
            world.set_image("web", "main:2");
            world.run_for(Duration::from_secs(seconds));
            drain(&mut world, "node-0");
            let check = |world: &World| {
                let count = world.objects("pods").len();
                assert!(count <= most, "{strategy}, drained after {seconds} s: {count} pods of {most}");
                let web = world.object("deployments", "web");
                web["status"]["updatedReplicas"] == 6 && web["status"]["availableReplicas"] == 6 && count == 6
            };
            world.run_until_seen("the rollout goes on while pods go", Duration::from_secs(12), |world| check(world) || pods(world).1 > 0);
            drain(&mut world, "node-1");
            world.run_until_seen("the rollout ends", LONGEST, check);
            world.run_until_rolled_out("web", LONGEST);
        }
    }
}

#[test]
fn a_set_alone_replaces_deleted_pods_when_they_are_gone_where_it_says_so() {
    for (controllers, at_once) in [("", 2), (OFF, 3)] {
        let mut world = world();
        world.restart_with(gates("", controllers));
        let mut alone = set("alone", "main:1", 3, (3, 3));
        alone["metadata"]["annotations"][DELETED] = json!("TerminationComplete");
        world.create(&alone);
        world.run_for(Duration::from_secs(10));
        let victim = world.seen().live_pods().first().map(|name| (*name).to_owned()).expect("3 pods");
        world.delete_pod(&victim);
        world.run_for(AT_ONCE);
        assert_eq!(pods(&world), (at_once, 1), "controllers with {controllers:?}");
        let told = events(&world, "WaitingForTerminatingPods");
        let wanted = if at_once == 2 { vec![("waiting for 1 terminating pod before creating 1 more".to_owned(), 1)] } else { Vec::new() };
        assert_eq!(told, wanted);
        world.run_for(Duration::from_secs(60));
        assert_eq!(pods(&world), (3, 0));
        world.patch(SETS, "alone", json!({"metadata": {"annotations": {DELETED: null}}}));
        world.run_for(AT_ONCE);
        let victim = world.seen().live_pods().first().map(|name| (*name).to_owned()).expect("3 pods");
        world.delete_pod(&victim);
        world.run_for(AT_ONCE);
        assert_eq!(pods(&world), (3, 1), "replaced at once");
    }
}

/// `kubectl rollout undo` takes the annotations of the set that it goes back to: they must not turn a policy on or off.
#[test]
fn every_set_says_what_the_deployment_says_of_replacing_pods() {
    let keys = ["berth.dev/pod-replacement-policy", DELETED];
    let mut world = rolled_out(Policy::Unset, 2, &rolling(1, 0));
    world.set_image("web", "main:2");
    world.run_until_rolled_out("web", LONGEST);
    for value in [json!("TerminationComplete"), json!("TerminationStarted"), json!(null)] {
        world.patch_deployment("web", json!({"metadata": {"annotations": {keys[0]: value, keys[1]: value}}}));
        world.run_for(AT_ONCE);
        world.set_image("web", if value.is_null() { "main:4" } else { "main:3" });
        world.run_for(AT_ONCE);
        let sets = world.objects("replicasets");
        assert!(sets.len() >= 3);
        for (name, set) in sets {
            assert_eq!(keys.map(|key| set["metadata"]["annotations"][key].clone()), [value.clone(), value.clone()], "{name}");
        }
    }
    world.patch_deployment("web", json!({"metadata": {"annotations": {keys[0]: "TerminationComplete", keys[1]: "TerminationComplete"}}}));
    world.run_for(AT_ONCE);
    world.undo_to("web", 1);
    world.run_for(AT_ONCE);
    let web = world.object("deployments", "web");
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "main:1");
    assert_eq!(keys.map(|key| web["metadata"]["annotations"][key].clone()), [json!("TerminationComplete"), json!("TerminationComplete")]);
}
