//! Forecasts of workloads with an autoscaler: it runs where the usage of its pods is known, and the forecast states where it does not.

use crate::common::{cluster, edit, new_image, pod, ready, scenario::deployment, suppositions};
use berth_plan::{AutoscalerForecast, AutoscalerUsage, Forecast, KnownUsage, Snapshot, Suppositions, forecast, measured_namespaces, text};
use berth_workloads::workload::WorkloadKind;
use serde_json::{Value, json};

/// An autoscaler of the Deployment `web` for 64Mi per pod.
fn autoscaler(spec: &Value) -> Value {
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "64Mi"}}});
    let mut all = json!({"minReplicas": 1, "maxReplicas": 9, "metrics": [memory],
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": all,
        "metadata": {"name": "web", "namespace": "default", "uid": "hpa", "creationTimestamp": "2026-03-01T10:00:00Z"}})
}

/// A cluster of real pods with an autoscaler.
fn autoscaled(autoscaler: Value) -> Snapshot {
    let pods = vec![pod("web-1-a", ready("2026-03-01T10:00:03Z")), pod("web-1-b", ready("2026-03-01T10:00:03Z"))];
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1"},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.2"}, "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}});
    Snapshot::of_documents([cluster(2, pods), vec![node, autoscaler]].concat())
}

/// Both pods use 192Mi: enough for six.
fn usage() -> KnownUsage {
    let item = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}, "containers": [{"name": "main", "usage": {"cpu": "10m", "memory": "192Mi"}}]});
    KnownUsage::Measured(vec![item("web-1-a"), item("web-1-b"), item("unknown")])
}

fn forecast_of(snapshot: &Snapshot, usage: KnownUsage) -> Forecast {
    let supposed = Suppositions { usage, ..suppositions(5, 20) };
    forecast(snapshot, &edit(WorkloadKind::Deployment, new_image()), &supposed).expect("a forecast")
}

fn only(forecast: &Forecast) -> &AutoscalerForecast {
    let [only] = &forecast.autoscalers[..] else { panic!("{:?}", forecast.autoscalers) };
    only
}

#[test]
fn an_autoscaler_of_real_pods_runs_with_their_present_usage() {
    let forecast = forecast_of(&autoscaled(autoscaler(&json!({}))), usage());
    let found = only(&forecast);
    assert_eq!(found.usage, AutoscalerUsage::Metrics { pods: 2, cpu_millis: 20, memory_bytes: 384 << 20 });
    let sizes: Vec<(i32, i32)> = found.changes.iter().map(|change| (change.from, change.to)).collect();
    // Without a behavior, a size at most doubles, and may always grow to four.
    assert_eq!(sizes, [(2, 4), (4, 6)], "{found:?}");
    assert!(found.changes.iter().all(|change| change.why == "memory resource above target"), "{found:?}");
    assert_eq!(forecast.workloads[0].replicas, 6);
    let text = text(&forecast, None);
    for wanted in [
        "Runs autoscaler default/web of Deployment default/web with the present usage of 2 pods: cpu 20m, memory 384Mi. Ready pods share it equally.",
        "autoscaler web scales from 2 to 4 pods: memory resource above target",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let json = serde_json::to_value(&forecast).expect("JSON");
    assert_eq!((&json["autoscalers"][0]["usage"], &json["autoscalers"][0]["cpuMillis"]), (&json!("metrics"), &json!(20)));
}

#[test]
fn an_autoscaler_without_known_usage_does_not_run_and_the_forecast_states_why() {
    let check = |spec: &Value, usage: KnownUsage, wanted: &str| {
        let forecast = forecast_of(&autoscaled(autoscaler(spec)), usage);
        assert_eq!(forecast.workloads[0].replicas, 2, "its size is not changed");
        let line = format!("Does not run autoscaler default/web of Deployment default/web: {wanted}.");
        let text = text(&forecast, None);
        assert!(text.contains(&line), "{line}: {text}");
    };
    let external = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "3"}}});
    check(&json!({}), KnownUsage::Unknown("no metrics server".to_owned()), "the usage of its pods cannot be read: no metrics server");
    check(&json!({}), KnownUsage::Measured(Vec::new()), "metrics.k8s.io has no usage of its pods");
    check(&json!({"metrics": [external]}), usage(), "the value of its metric of type External is unknown");
    let unset = "the usage of its pods is unknown; set it by the annotations sim.berth.dev/cpu and sim.berth.dev/memory of the template";
    check(&json!({}), KnownUsage::NoCluster, unset);
}

#[test]
fn an_autoscaler_of_manifests_runs_with_the_usage_that_annotations_set() {
    let mut web = deployment(2, &json!({}));
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/memory": "128Mi"});
    let mut scaled = autoscaler(&json!({"maxReplicas": 3}));
    scaled["metadata"].as_object_mut().expect("a map").remove("uid");
    let forecast = forecast_of(&Snapshot::of_documents([web, scaled]), KnownUsage::NoCluster);
    assert_eq!((&only(&forecast).usage, &only(&forecast).changes), (&AutoscalerUsage::Annotations, &Vec::new()));
    assert_eq!(forecast.workloads[0].replicas, 3, "it was scaled before the change");
}

#[test]
fn usage_is_read_only_for_real_pods_of_changed_workloads_with_an_autoscaler() {
    let change = edit(WorkloadKind::Deployment, new_image());
    let namespaces = |snapshot: &Snapshot| measured_namespaces(snapshot, &change).into_iter().collect::<Vec<_>>();
    assert_eq!(namespaces(&autoscaled(autoscaler(&json!({})))), ["default"]);
    let other = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "till"}});
    assert_eq!(namespaces(&autoscaled(autoscaler(&other))), [] as [&str; 0]);
    let mut simulated = autoscaled(autoscaler(&json!({})));
    for node in simulated.objects.iter_mut().filter(|object| object["kind"] == "Node") {
        node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.36.0-berth");
    }
    assert_eq!(namespaces(&simulated), [] as [&str; 0]);
    let forecast = forecast_of(&simulated, KnownUsage::NoCluster);
    assert_eq!(only(&forecast).usage, AutoscalerUsage::Annotations);
}

#[test]
fn a_forecast_goes_on_until_the_stabilization_window_of_its_autoscaler_has_passed() {
    let down = json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 1800}}});
    let idle = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}, "containers": [{"name": "main", "usage": {"cpu": "1m", "memory": "8Mi"}}]});
    let usage = KnownUsage::Measured(vec![idle("web-1-a"), idle("web-1-b")]);
    let forecast = forecast_of(&autoscaled(autoscaler(&down)), usage);
    let sizes: Vec<(i32, i32)> = only(&forecast).changes.iter().map(|change| (change.from, change.to)).collect();
    assert_eq!(sizes, [(2, 1)], "{:?}", only(&forecast));
}
