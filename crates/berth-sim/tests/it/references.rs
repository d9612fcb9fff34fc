//! Pods wait on their nodes for the ConfigMaps and Secrets that they reference, and start when these appear.

use berth_identity::GroupResource;
use berth_node::Latencies;
use berth_sim::{Options, Part, Simulation, network::Faults, seeds::run};
use berth_workloads::resources::{CONFIG_MAPS, PODS, SECRETS};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than anything here needs, once nothing goes wrong any more.
const LONGEST: Duration = Duration::from_secs(3600);
/// Longer than a pod takes that waits for nothing.
const SOON: Duration = Duration::from_secs(5);

fn simulation(faults: Faults, seed: u64) -> Simulation {
    let latencies = Latencies { start: Duration::from_millis(300), stop: Duration::from_millis(300) };
    Simulation::new(seed, Options { faults, latencies, ..Options::default() })
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn object(resource: GroupResource, name: &str, data: Value) -> Value {
    let (kind, data_of) = if resource == SECRETS { ("Secret", "stringData") } else { ("ConfigMap", "data") };
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, data_of: data})
}

fn is_ready(sim: &Simulation, name: &str) -> bool {
    let pod = sim.object("pods", name);
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn waiting(sim: &Simulation, list: &str, index: usize) -> Value {
    sim.object("pods", "p")["status"][list][index]["state"]["waiting"].clone()
}

/// The warnings of nodes, each as `reason: message`, with how often they came.
fn warnings(sim: &Simulation) -> Vec<(String, u64)> {
    let events = sim.objects("events").into_values().filter(|event| event["type"] == "Warning" && event["reportingComponent"] == "kubelet");
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
    let mut sim = simulation(Faults::NONE, 1);
    sim.create(&pod(json!({"containers": [reads("configMapKeyRef", "settings", "level"), {"name": "other", "image": "i"}]})));
    sim.run_for(SOON);
    let fault = |message: &str| json!({"reason": "CreateContainerConfigError", "message": message});
    assert_eq!(waiting(&sim, "containerStatuses", 0), fault("configmap \"settings\" not found"));
    let status = &sim.object("pods", "p")["status"];
    assert_eq!((&status["phase"], &status["containerStatuses"][1]["ready"]), (&json!("Pending"), &json!(true)), "the other one runs");
    assert_eq!(warnings(&sim), [("Failed: Error: configmap \"settings\" not found".to_owned(), 1)]);

    sim.create(&object(CONFIG_MAPS, "settings", json!({"other": "1"})));
    sim.run_for(SOON);
    assert_eq!(waiting(&sim, "containerStatuses", 0), fault("couldn't find key level in ConfigMap default/settings"));

    sim.patch(CONFIG_MAPS, "settings", json!({"data": {"level": "info"}}));
    sim.run_for(SOON);
    assert!(is_ready(&sim, "p"), "{}", sim.object("pods", "p")["status"]);
    assert_eq!(sim.object("pods", "p")["status"]["phase"], "Running");
}

#[test]
fn an_init_container_waits_and_the_others_wait_for_it() {
    let mut sim = simulation(Faults::NONE, 1);
    sim.create(&pod(json!({"initContainers": [reads("secretKeyRef", "token", "t")], "containers": [{"name": "other", "image": "i"}]})));
    sim.run_for(SOON);
    assert_eq!(
        waiting(&sim, "initContainerStatuses", 0),
        json!({"reason": "CreateContainerConfigError", "message": "secret \"token\" not found"})
    );
    assert_eq!(waiting(&sim, "containerStatuses", 0), json!({"reason": "PodInitializing"}));
    sim.create(&object(SECRETS, "token", json!({"t": "1"})));
    sim.run_for(SOON);
    assert!(is_ready(&sim, "p"));
}

#[test]
fn volumes_wait_for_their_objects_while_containers_are_being_created() {
    let mut sim = simulation(Faults::NONE, 1);
    let projected =
        json!({"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "token", "items": [{"key": "t", "path": "t"}]}}]});
    let mounts = json!([{"name": "all", "mountPath": "/all"}, {"name": "one", "mountPath": "/one"}]);
    let volumes = json!([{"name": "all", "projected": projected}, {"name": "one", "secret": {"secretName": "token"}}]);
    sim.create(&pod(json!({"volumes": volumes, "containers": [{"name": "main", "image": "i", "volumeMounts": mounts}]})));
    sim.run_for(SOON);
    assert_eq!(waiting(&sim, "containerStatuses", 0), json!({"reason": "ContainerCreating"}));
    let mut told = warnings(&sim);
    told.sort();
    let failed = |volume: &str, why: &str| format!("FailedMount: MountVolume.SetUp failed for volume \"{volume}\" : {why}");
    let both = "[configmap \"settings\" not found, secret \"token\" not found]";
    assert_eq!(told, [(failed("all", both), 1), (failed("one", "secret \"token\" not found"), 1)]);

    sim.create(&object(CONFIG_MAPS, "settings", json!({})));
    sim.create(&object(SECRETS, "token", json!({"x": "1"})));
    sim.run_for(SOON);
    let key = (failed("all", "references non-existent secret key: t"), 1);
    assert!(warnings(&sim).contains(&key) && !is_ready(&sim, "p"), "{:?}", warnings(&sim));
    sim.patch(SECRETS, "token", json!({"stringData": {"t": "1"}}));
    sim.run_for(SOON);
    assert!(is_ready(&sim, "p"));
}

#[test]
fn what_is_optional_and_a_pull_secret_hold_no_pod() {
    let mut sim = simulation(Faults::NONE, 1);
    let env = json!([{"configMapRef": {"name": "nope", "optional": true}}]);
    let volumes =
        json!([{"name": "v", "secret": {"secretName": "nope", "optional": true}}, {"name": "unused", "configMap": {"name": "nope"}}]);
    let container = json!({"name": "main", "image": "i", "envFrom": env, "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    sim.create(&pod(json!({"volumes": volumes, "containers": [container], "imagePullSecrets": [{"name": "a"}, {"name": "b"}]})));
    sim.run_for(SOON);
    assert!(is_ready(&sim, "p"));
    let told =
        "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (a, b); attempting to pull the image may not succeed.";
    assert_eq!(warnings(&sim), [(told.to_owned(), 1)]);
}

#[test]
fn events_of_a_pod_that_waits_come_more_and_more_rarely() {
    let mut sim = simulation(Faults::NONE, 1);
    sim.create(&pod(json!({"containers": [reads("configMapKeyRef", "nope", "k")]})));
    sim.run_for(Duration::from_secs(60));
    let told = warnings(&sim);
    let [(_, first)] = &told[..] else { panic!("{told:?}") };
    assert!((2..=4).contains(first), "{first} in a minute");
    sim.run_for(LONGEST);
    let all: u64 = warnings(&sim).into_iter().map(|(_, count)| count).sum();
    assert!(all <= 20, "{all} in an hour");
}

/// Nodes that restart, lost answers and old caches: each pod starts with the objects that it waits for, and not before.
#[test]
fn pods_start_when_what_they_reference_appears_whatever_fails() {
    run(0..4, |seed| {
        let mut sim = simulation(Faults::HOSTILE, seed);
        let volume = json!([{"name": "v", "configMap": {"name": "settings"}}]);
        let mut container = reads("secretKeyRef", "token", "t");
        container["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "volumes": volume}});
        let spec = json!({"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        sim.create(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}));
        let first = [CONFIG_MAPS, SECRETS][(seed % 2) as usize].clone();
        let second = [SECRETS, CONFIG_MAPS][(seed % 2) as usize].clone();
        let name = |resource| if resource == SECRETS { "token" } else { "settings" };
        for resource in [first, second] {
            sim.run_for(Duration::from_secs(10 + seed));
            sim.kill(Part::Nodes);
            sim.start(Part::Nodes);
            sim.run_for(Duration::from_secs(10));
            let ready = sim.objects("pods").into_keys().filter(|pod| is_ready(&sim, pod)).count();
            assert_eq!(ready, 0, "seed {seed}: {} is not there", name(resource));
            sim.create(&object(resource.clone(), name(resource), json!({"t": "1"})));
        }
        sim.set_faults(Faults::NONE);
        sim.run_until_rolled_out("web", LONGEST);
    });
}

#[test]
fn a_pod_that_waits_and_is_deleted_goes() {
    let mut sim = simulation(Faults::NONE, 1);
    sim.create(&pod(json!({"containers": [reads("configMapKeyRef", "nope", "k")]})));
    sim.run_for(SOON);
    sim.delete_if_there(PODS, "p");
    sim.run_until_seen("the pod is gone", SOON, |sim| sim.object("pods", "p").is_null());
    sim.create(&object(CONFIG_MAPS, "nope", json!({"k": "1"})));
    sim.run_for(SOON);
}
