//! Pods wait on their nodes for the ConfigMaps and Secrets that they reference, and start when these appear.

use berth_identity::GroupResource;
use berth_node::Latencies;
use berth_sim::{Options, Part, World, network::Faults, seeds::run};
use berth_workloads::resources::{CONFIG_MAPS, PODS, SECRETS};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than anything here needs, once nothing goes wrong any more.
const LONGEST: Duration = Duration::from_secs(3600);
/// Longer than a pod takes that waits for nothing.
const SOON: Duration = Duration::from_secs(5);

fn world(faults: Faults, seed: u64) -> World {
    let latencies = Latencies { start: Duration::from_millis(300), stop: Duration::from_millis(300) };
    World::new(seed, Options { faults, latencies, ..Options::default() })
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn object(resource: GroupResource, name: &str, data: Value) -> Value {
    let (kind, data_of) = if resource == SECRETS { ("Secret", "stringData") } else { ("ConfigMap", "data") };
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, data_of: data})
}

fn is_ready(world: &World, name: &str) -> bool {
    let pod = world.object("pods", name);
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn waiting(world: &World, list: &str, index: usize) -> Value {
    world.object("pods", "p")["status"][list][index]["state"]["waiting"].clone()
}

/// The warnings of nodes, each as `reason: message`, with how often they came.
fn warnings(world: &World) -> Vec<(String, u64)> {
    let events =
        world.objects("events").into_values().filter(|event| event["type"] == "Warning" && event["reportingComponent"] == "kubelet");
    let text = |event: &Value, member: &str| event[member].as_str().unwrap_or_default().to_owned();
    let events =
        events.map(|event| (format!("{}: {}", text(&event, "reason"), text(&event, "message")), event["count"].as_u64().unwrap_or(1)));
    events.collect()
}

/// A container whose variable is of a key.
fn reads(source: &str, name: &str, key: &str) -> Value {
    json!({"name": "main", "image": "i", "env": [{"name": "A", "valueFrom": {source: {"name": name, "key": key}}}]})
}

#[test]
fn a_container_waits_for_its_config_map_and_then_for_the_key_in_it() {
    let mut world = world(Faults::NONE, 1);
    world.create(&pod(json!({"containers": [reads("configMapKeyRef", "settings", "level"), {"name": "other", "image": "i"}]})));
    world.run_for(SOON);
    let fault = |message: &str| json!({"reason": "CreateContainerConfigError", "message": message});
    assert_eq!(waiting(&world, "containerStatuses", 0), fault("configmap \"settings\" not found"));
    let status = &world.object("pods", "p")["status"];
    assert_eq!((&status["phase"], &status["containerStatuses"][1]["ready"]), (&json!("Pending"), &json!(true)), "the other one runs");
    assert_eq!(warnings(&world), [("Failed: Error: configmap \"settings\" not found".to_owned(), 1)]);

    world.create(&object(CONFIG_MAPS, "settings", json!({"other": "1"})));
    world.run_for(SOON);
    assert_eq!(waiting(&world, "containerStatuses", 0), fault("couldn't find key level in ConfigMap default/settings"));

    world.patch(CONFIG_MAPS, "settings", json!({"data": {"level": "info"}}));
    world.run_for(SOON);
    assert!(is_ready(&world, "p"), "{}", world.object("pods", "p")["status"]);
    assert_eq!(world.object("pods", "p")["status"]["phase"], "Running");
}

#[test]
fn an_init_container_waits_and_the_others_wait_for_it() {
    let mut world = world(Faults::NONE, 1);
    world.create(&pod(json!({"initContainers": [reads("secretKeyRef", "token", "t")], "containers": [{"name": "other", "image": "i"}]})));
    world.run_for(SOON);
    assert_eq!(
        waiting(&world, "initContainerStatuses", 0),
        json!({"reason": "CreateContainerConfigError", "message": "secret \"token\" not found"})
    );
    assert_eq!(waiting(&world, "containerStatuses", 0), json!({"reason": "PodInitializing"}));
    world.create(&object(SECRETS, "token", json!({"t": "1"})));
    world.run_for(SOON);
    assert!(is_ready(&world, "p"));
}

#[test]
fn volumes_wait_for_their_objects_while_containers_are_being_created() {
    let mut world = world(Faults::NONE, 1);
    let projected =
        json!({"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "token", "items": [{"key": "t", "path": "t"}]}}]});
    let mounts = json!([{"name": "all", "mountPath": "/all"}, {"name": "one", "mountPath": "/one"}]);
    let volumes = json!([{"name": "all", "projected": projected}, {"name": "one", "secret": {"secretName": "token"}}]);
    world.create(&pod(json!({"volumes": volumes, "containers": [{"name": "main", "image": "i", "volumeMounts": mounts}]})));
    world.run_for(SOON);
    assert_eq!(waiting(&world, "containerStatuses", 0), json!({"reason": "ContainerCreating"}));
    let mut told = warnings(&world);
    told.sort();
    let failed = |volume: &str, why: &str| format!("FailedMount: MountVolume.SetUp failed for volume \"{volume}\" : {why}");
    let both = "[configmap \"settings\" not found, secret \"token\" not found]";
    assert_eq!(told, [(failed("all", both), 1), (failed("one", "secret \"token\" not found"), 1)]);

    world.create(&object(CONFIG_MAPS, "settings", json!({})));
    world.create(&object(SECRETS, "token", json!({"x": "1"})));
    world.run_for(SOON);
    let key = (failed("all", "references non-existent secret key: t"), 1);
    assert!(warnings(&world).contains(&key) && !is_ready(&world, "p"), "{:?}", warnings(&world));
    world.patch(SECRETS, "token", json!({"stringData": {"t": "1"}}));
    world.run_for(SOON);
    assert!(is_ready(&world, "p"));
}

#[test]
fn what_is_optional_and_a_pull_secret_hold_no_pod() {
    let mut world = world(Faults::NONE, 1);
    let env = json!([{"configMapRef": {"name": "nope", "optional": true}}]);
    let volumes =
        json!([{"name": "v", "secret": {"secretName": "nope", "optional": true}}, {"name": "unused", "configMap": {"name": "nope"}}]);
    let container = json!({"name": "main", "image": "i", "envFrom": env, "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    world.create(&pod(json!({"volumes": volumes, "containers": [container], "imagePullSecrets": [{"name": "a"}, {"name": "b"}]})));
    world.run_for(SOON);
    assert!(is_ready(&world, "p"));
    let told =
        "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed.";
    assert_eq!(warnings(&world), [(told.to_owned(), 1)]);
}

#[test]
fn events_of_a_pod_that_waits_come_more_and_more_rarely() {
    let mut world = world(Faults::NONE, 1);
    world.create(&pod(json!({"containers": [reads("configMapKeyRef", "nope", "k")]})));
    world.run_for(Duration::from_secs(60));
    let told = warnings(&world);
    let [(_, first)] = &told[..] else { panic!("{told:?}") };
    assert!((2..=4).contains(first), "{first} in a minute");
    world.run_for(LONGEST);
    let all: u64 = warnings(&world).into_iter().map(|(_, count)| count).sum();
    assert!(all <= 20, "{all} in an hour");
}

/// Nodes that start anew, lost answers and old caches: each pod comes up with what it waits for, and not before.
#[test]
fn pods_start_when_what_they_reference_appears_whatever_fails() {
    run(0..4, |seed| {
        let mut world = world(Faults::HOSTILE, seed);
        let volume = json!([{"name": "v", "configMap": {"name": "settings"}}]);
        let mut container = reads("secretKeyRef", "token", "t");
        container["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "volumes": volume}});
        let spec = json!({"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        world.create(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}));
        let first = [CONFIG_MAPS, SECRETS][(seed % 2) as usize].clone();
        let second = [SECRETS, CONFIG_MAPS][(seed % 2) as usize].clone();
        let name = |resource| if resource == SECRETS { "token" } else { "settings" };
        for resource in [first, second] {
            world.run_for(Duration::from_secs(10 + seed));
            world.kill(Part::Nodes);
            world.start(Part::Nodes);
            world.run_for(Duration::from_secs(10));
            let ready = world.objects("pods").into_keys().filter(|pod| is_ready(&world, pod)).count();
            assert_eq!(ready, 0, "seed {seed}: {} is not there", name(resource));
            world.create(&object(resource.clone(), name(resource), json!({"t": "1"})));
        }
        world.set_faults(Faults::NONE);
        world.run_until_rolled_out("web", LONGEST);
    });
}

#[test]
fn a_pod_that_waits_and_is_deleted_goes() {
    let mut world = world(Faults::NONE, 1);
    world.create(&pod(json!({"containers": [reads("configMapKeyRef", "nope", "k")]})));
    world.run_for(SOON);
    world.delete_if_there(PODS, "p");
    world.run_until_seen("the pod is gone", SOON, |world| world.object("pods", "p").is_null());
    world.create(&object(CONFIG_MAPS, "nope", json!({"k": "1"})));
    world.run_for(SOON);
}
