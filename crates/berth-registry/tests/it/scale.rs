use crate::test_cluster::{TestCluster, deployment};
use berth_registry::{ApiError, Patch, WriteOptions};
use serde_json::{Value, json};

fn scale(cluster: &TestCluster) -> Value {
    cluster.get("deployments.apps/scale", "d").expect("a scale")
}

#[test]
fn a_scale_shows_the_replicas_of_its_object() {
    let cluster = TestCluster::new();
    let mut object = deployment("d");
    object["spec"]["selector"] =
        json!({"matchLabels": {"app": "d"}, "matchExpressions": [{"key": "t", "operator": "In", "values": ["b", "a"]}]});
    object["spec"]["template"]["metadata"]["labels"]["t"] = "a".into();
    let made = cluster.made("deployments.apps", object);
    cluster.merge("deployments.apps/status", "d", json!({"status": {"replicas": 2}})).expect("patched");
    let scale = scale(&cluster);
    assert_eq!((&scale["apiVersion"], &scale["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
    assert_eq!(scale["spec"], json!({"replicas": 3}));
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=d,t in (a,b)"}));
    assert_eq!(scale["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(scale["metadata"]["resourceVersion"], cluster.revision().to_string());
}

#[test]
fn a_scale_is_written_by_put_and_patch() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    let mut wanted = scale(&cluster);
    wanted["spec"]["replicas"] = 5.into();
    let put = cluster.update("deployments.apps/scale", "d", &wanted).expect("scaled");
    assert_eq!(put["spec"], json!({"replicas": 5}));
    assert_eq!(cluster.get("deployments.apps", "d").expect("there")["metadata"]["generation"], 2);
    let error = cluster.update("deployments.apps/scale", "d", &wanted).expect_err("the version is old");
    assert!(matches!(&error, ApiError::Conflict { resource, .. } if resource.plural == "deployments"), "{error}");
    let patched = cluster.merge("deployments.apps/scale", "d", json!({"spec": {"replicas": 0}})).expect("scaled");
    assert_eq!(patched["spec"], json!({}), "zero is left out");
    let strategic = Patch::Strategic(br#"{"spec":{"replicas":4}}"#.to_vec());
    let patched = cluster.patch("deployments.apps/scale", "d", strategic, &WriteOptions::default()).expect("scaled");
    assert_eq!(patched["spec"], json!({"replicas": 4}));
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    let tried = cluster.patch("deployments.apps/scale", "d", Patch::MergeValue(json!({"spec": {"replicas": 8}})), &dry).expect("tried");
    assert_eq!(tried["spec"], json!({"replicas": 8}));
    assert_eq!(scale(&cluster)["spec"], json!({"replicas": 4}));
}

#[test]
fn a_bad_scale_is_refused() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    let text = cluster.merge("deployments.apps/scale", "d", json!({"spec": {"replicas": -1}})).expect_err("refused").to_string();
    let wanted = "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(text, wanted);
    let text = cluster.merge("deployments.apps/scale", "d", json!({"metadata": {"name": "x"}})).expect_err("refused").to_string();
    assert_eq!(text, "the name of the object (x) does not match the name on the URL (d)");
    assert!(cluster.merge("deployments.apps/scale", "d", json!({"spec": {"replicas": "x"}})).is_err());
    assert!(matches!(cluster.merge("deployments.apps/scale", "e", json!({})), Err(ApiError::NotFound { .. })));
    assert!(matches!(cluster.post("deployments.apps/scale", "d", json!({})), Err(ApiError::MethodNotAllowed)));
}
