//! Scheduler and simulated nodes from a user's view: the real kubectl against a real `berth up`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Berth, kubectl_is_here, up};
use serde_json::{Value, json};

const FAST: [&str; 6] = ["--store", "memory", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

fn up_with(arguments: &[&str]) -> Berth {
    up(&FAST.into_iter().chain(arguments.iter().copied()).collect::<Vec<_>>())
}

fn get(berth: &Berth, what: &str, name: &str) -> Value {
    serde_json::from_str(&berth.kubectl(&["get", what, name, "-o", "json"])).unwrap()
}

/// The events about an object, `type reason message`, once the last of them contains `text`.
fn events_until(berth: &Berth, name: &str, text: &str) -> Vec<String> {
    let selector = format!("involvedObject.name={name}");
    let template = r#"jsonpath={range .items[*]}{.type} {.reason} {.message}{"\n"}{end}"#;
    let found = berth.kubectl_until(&["get", "events", "--field-selector", &selector, "-o", template], |found| found.contains(text));
    found.lines().map(str::to_owned).collect()
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    });
    for (member, value) in more.as_object().into_iter().flatten() {
        pod["spec"][member] = value.clone();
    }
    pod
}

fn asking(cpu: &str) -> Value {
    json!([{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": cpu, "ephemeral-storage": "8Gi"}}}])
}

#[test]
fn nodes_match_the_options_and_pods_are_spread_over_their_zones() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up_with(&["--zones", "eu/eu-a,eu/eu-b,us-a", "--node-resource", "nvidia.com/gpu=8", "--node-label", "disk=ssd"]);
    berth.kubectl(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"]);
    let columns = "custom-columns=N:.metadata.name,R:.metadata.labels.topology\\.kubernetes\\.io/region,\
                   Z:.metadata.labels.topology\\.kubernetes\\.io/zone,D:.metadata.labels.disk,G:.status.allocatable.nvidia\\.com/gpu,\
                   E:.status.capacity.ephemeral-storage";
    let nodes = berth.kubectl(&["get", "nodes", "--no-headers", "-o", columns]);
    let nodes: Vec<Vec<&str>> = nodes.lines().map(|line| line.split_whitespace().collect()).collect();
    let wanted = [
        ["node-0", "eu", "eu-a", "ssd", "8", "1Ti"],
        ["node-1", "eu", "eu-b", "ssd", "8", "1Ti"],
        ["node-2", "<none>", "us-a", "ssd", "8", "1Ti"],
    ];
    assert_eq!(nodes, wanted);

    let selector = json!({"matchLabels": {"app": "web"}});
    let constraint = json!({
        "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
    });
    // A pod takes most of the first node: by free resources alone the other nodes would get more pods.
    berth.apply(&pod("large", &json!({"nodeName": "node-0", "containers": asking("30")})).to_string());
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": asking("100m"), "topologySpreadConstraints": [constraint]},
    });
    let spec = json!({"replicas": 9, "selector": selector, "template": template});
    berth.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}).to_string());
    berth.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let places = berth.kubectl(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"]);
    let on = |node: &str| places.split_whitespace().filter(|place| *place == node).count();
    assert_eq!([on("node-0"), on("node-1"), on("node-2")], [3, 3, 3]);
}

#[test]
fn a_pod_of_a_higher_priority_gets_the_room_of_a_lower_one_when_that_has_gone_in_peace() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up_with(&["--nodes", "1", "--node-cpu", "2"]);
    let class = |name: &str, value: i32| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    berth.apply(&class("low", 10).to_string());
    berth.apply(&class("high", 1000).to_string());
    let mut low = pod("low", &json!({"containers": asking("1500m"), "priorityClassName": "low", "terminationGracePeriodSeconds": 3600}));
    low["metadata"]["annotations"] = json!({"sim.berth.dev/terminates-after": "1h"});
    low["metadata"]["finalizers"] = json!(["berth.dev/test"]);
    berth.apply(&low.to_string());
    berth.kubectl(&["wait", "--for=condition=Ready", "pod/low", "--timeout=60s"]);
    berth.apply(&pod("same", &json!({"containers": asking("1500m"), "priorityClassName": "low"})).to_string());
    let nobody = "Warning FailedScheduling 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
                  1 No preemption victims found for incoming pod.";
    assert!(events_until(&berth, "same", "preemption").contains(&nobody.to_owned()));

    berth.apply(&pod("high", &json!({"containers": asking("1"), "priorityClassName": "high"})).to_string());
    let uid = get(&berth, "pod", "high")["metadata"]["uid"].as_str().unwrap().to_owned();
    let told = events_until(&berth, "low", "Preempted");
    assert!(told.contains(&format!("Normal Preempted Preempted by pod {uid} on node node-0")), "{told:?}");
    let (low, high) = (get(&berth, "pod", "low"), get(&berth, "pod", "high"));
    assert_eq!(high["status"]["nominatedNodeName"], "node-0");
    assert_eq!(high["spec"]["priority"], 1000);
    assert_eq!(high["status"]["conditions"][0]["message"], "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!((&low["metadata"]["deletionGracePeriodSeconds"], &low["status"]["phase"]), (&json!(3600), &json!("Running")));
    let conditions = low["status"]["conditions"].as_array().unwrap();
    let why = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!(why["reason"], "PreemptionByScheduler");
    assert_eq!(why["message"], "default-scheduler: preempting to accommodate a higher priority pod");
    assert!(conditions.iter().any(|condition| condition["type"] == "Ready"), "others' conditions stay: {conditions:?}");

    // The victim is deleted at last. No other pod takes the room, and the nomination ends with the binding.
    berth.kubectl(&["delete", "pod", "low", "--grace-period=1", "--wait=false"]);
    let state = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}";
    berth.kubectl_until(&["get", "pod", "low", "-o", state], |state| state == "Failed 137");
    berth.kubectl(&["wait", "--for=condition=Ready", "pod/high", "--timeout=60s"]);
    let high = get(&berth, "pod", "high");
    assert_eq!((&high["spec"]["nodeName"], &high["status"]["nominatedNodeName"]), (&json!("node-0"), &Value::Null));
    assert_eq!(get(&berth, "pod", "same")["spec"]["nodeName"], Value::Null);
}

#[test]
fn kubectl_shows_how_pods_end() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up_with(&[]);
    let run = |name: &str, policy: &str, annotations: Value, more: Value| {
        let mut spec = json!({"restartPolicy": policy});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut manifest = pod(name, &spec);
        let annotations = annotations.as_object().unwrap().clone();
        manifest["metadata"]["annotations"] = annotations.into_iter().map(|(key, value)| (format!("sim.berth.dev/{key}"), value)).collect();
        berth.apply(&manifest.to_string());
    };
    let init = json!({"initContainers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]});
    let sidecar = json!({"initContainers": [{"name": "proxy", "image": "i", "restartPolicy": "Always"}]});
    run("done", "Never", json!({}), json!({}));
    run("failed", "Never", json!({"exit-code": "3"}), json!({}));
    run("crashes", "OnFailure", json!({"exit-code": "3"}), json!({}));
    run("repeats", "Always", json!({"completes-after": "500ms"}), json!({}));
    run("with-sidecar", "Never", json!({}), sidecar);
    run("init-waits", "Always", json!({"completes-after.b": "1h"}), init.clone());
    run("init-failed", "Never", json!({"exit-code.a": "2"}), init.clone());
    run("init-crashes", "Always", json!({"exit-code.b": "2"}), init);
    for (name, ready, status, restarts) in [
        ("done", "0/1", "Completed", "0"),
        ("failed", "0/1", "Error", "0"),
        ("crashes", "0/1", "CrashLoopBackOff", "1"),
        ("repeats", "0/1", "CrashLoopBackOff", "1"),
        ("with-sidecar", "0/2", "Completed", "0"),
        ("init-waits", "0/1", "Init:1/2", "0"),
        ("init-failed", "0/1", "Init:Error", "0"),
        ("init-crashes", "0/1", "Init:CrashLoopBackOff", "1"),
    ] {
        let is_so = |text: &str| text.split_whitespace().take(4).eq([name, ready, status, restarts]);
        berth.kubectl_until(&["get", "pod", name, "--no-headers"], is_so);
    }
    for (name, phase) in [("done", "Succeeded"), ("with-sidecar", "Succeeded"), ("failed", "Failed"), ("init-failed", "Failed")] {
        assert_eq!(get(&berth, "pod", name)["status"]["phase"], phase, "{name}");
    }
    let ended = &get(&berth, "pod", "failed")["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(3), &json!("Error")));
    assert!(ended["startedAt"].is_string() && ended["finishedAt"].is_string() && ended["containerID"].is_string(), "{ended}");
    let log = berth.kubectl(&["logs", "done"]);
    assert!(log.contains("simulated container \"main\" exited with code 0: Completed"), "{log}");
    let described = berth.kubectl(&["describe", "pod", "crashes"]);
    assert!(described.contains("Back-off restarting failed container main in pod crashes"), "{described}");
}

#[test]
fn images_that_the_registry_does_not_have_fail_with_a_kubelets_messages() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up_with(&["--image-fails", "*:404", "--image-fails", "private.example/*"]);
    let containers = json!([{"name": "main", "image": "shop/web:404"}, {"name": "side", "image": "side:1"}]);
    berth.apply(&pod("web", &json!({"containers": containers})).to_string());
    let init = json!([{"name": "first", "image": "tool:1"}, {"name": "second", "image": "private.example/tool"}]);
    berth.apply(&pod("set-up", &json!({"initContainers": init})).to_string());
    berth.kubectl_until(&["get", "pod", "web"], |text| text.contains("ImagePullBackOff") && text.contains("1/2"));
    berth.kubectl_until(&["get", "pod", "set-up"], |text| text.contains("Init:ImagePullBackOff"));

    let error = "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/shop/web:404\": failed to resolve reference \
                 \"docker.io/shop/web:404\": docker.io/shop/web:404: not found";
    let events = events_until(&berth, "web", "Error: ImagePullBackOff");
    for wanted in [
        "Normal Pulling Pulling image \"shop/web:404\"".to_owned(),
        format!("Warning Failed Failed to pull image \"shop/web:404\": {error}"),
        "Warning Failed Error: ErrImagePull".to_owned(),
        "Normal BackOff Back-off pulling image \"shop/web:404\"".to_owned(),
        "Warning Failed Error: ImagePullBackOff".to_owned(),
    ] {
        assert!(events.contains(&wanted), "{wanted} in {events:?}");
    }
    let web = get(&berth, "pod", "web");
    let waiting = format!("Back-off pulling image \"shop/web:404\": ErrImagePull: {error}");
    assert_eq!(web["status"]["containerStatuses"][0]["state"]["waiting"]["message"], waiting.as_str());
    assert_eq!((&web["status"]["phase"], &web["status"]["containerStatuses"][1]["ready"]), (&json!("Pending"), &json!(true)));

    let set_up = get(&berth, "pod", "set-up");
    let init = &set_up["status"]["initContainerStatuses"];
    assert_eq!(init[0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(init[1]["state"]["waiting"]["reason"], "ImagePullBackOff");
    assert_eq!(set_up["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    let conditions = set_up["status"]["conditions"].as_array().unwrap();
    let initialized = conditions.iter().find(|condition| condition["type"] == "Initialized").unwrap();
    assert_eq!((&initialized["status"], &initialized["message"]), (&json!("False"), &json!("containers with incomplete status: [second]")));

    // A pod with a corrected image starts without waiting for the back-off.
    berth.kubectl(&["set", "image", "pod/web", "main=shop/web:1"]);
    berth.kubectl(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]);
}

#[test]
fn an_annotation_that_means_nothing_is_warned_about() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up_with(&[]);
    let mut manifest = pod("web", &json!({}));
    manifest["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "CrashLoopBackOf"});
    let output = berth.kubectl_with(&manifest.to_string(), &["create", "-f", "-"]);
    let wanted = "Warning: metadata.annotations[sim.berth.dev/fails]: \"CrashLoopBackOf\" is ignored: supported values: CrashLoopBackOff, \
                  ImagePullBackOff, NeverReady, Pending; did you mean CrashLoopBackOff?\n";
    assert_eq!((String::from_utf8_lossy(&output.stderr).as_ref(), output.status.success()), (wanted, true));
}
