//! A recording contains the fields that planners read, and no others. Other fields are omitted at usual and at unusual
//! paths.

use crate::common::{SECRET, WORD, at, autoscaler, deployment, kind, objects, pod, recorded, unpacked, usage};
use berth_trace::{Item, Measured, Naming, Reader, Recorder};
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

#[test]
fn nothing_that_is_secret_is_in_the_file() {
    for naming in [Naming::Plain, Naming::Hashed] {
        let text = unpacked(&recorded(naming, 1, &objects()));
        assert!(!text.contains("s3cret"), "{text}");
        for told in ["last-applied", "managedFields", "resourceVersion", "PASSWORD", "--password", "10.0.0", "registry.example"] {
            assert!(!text.contains(told), "{told}: {text}");
        }
        assert_eq!(text.lines().count(), 1 + objects().len() + 2, "each object has its line: {text}");
    }
}

#[test]
fn what_planners_read_is_in_the_file() {
    let text = unpacked(&recorded(Naming::Plain, 1, &objects()));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str| lines.iter().map(|line| &line["put"]).find(|object| object["kind"] == kind).expect("it has a line");
    let deployment = of("Deployment");
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}));
    assert_eq!(deployment["metadata"]["labels"], json!({"app": "web"}), "labels that a selector names");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"], json!({"cpu": "100m", "memory": "64Mi"}));
    assert_eq!(container["image"], of("ReplicaSet")["spec"]["template"]["spec"]["containers"][0]["image"], "one template, one hash");
    assert_eq!(container["image"], of("ControllerRevision")["data"]["spec"]["template"]["spec"]["containers"][0]["image"]);
    let pod = of("Pod");
    assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["containerStatuses"][0]["name"]), (&json!("node-1"), &json!("c0")));
    assert_eq!(of("Node")["status"]["allocatable"]["memory"], "8Gi");
    let (autoscaler, whole) = (of("HorizontalPodAutoscaler"), autoscaler());
    assert_eq!(autoscaler["spec"]["behavior"], whole["spec"]["behavior"]);
    assert_eq!(autoscaler["spec"]["metrics"][0], whole["spec"]["metrics"][0]);
    assert_eq!(autoscaler["spec"]["metrics"][1], json!({"type": "External"}), "what a replay has no value of");
    assert_eq!(autoscaler["status"]["currentMetrics"], whole["status"]["currentMetrics"]);
}

/// The lines of usage of pods that all match the selector of `web`.
fn measured(naming: Naming, objects: &[Value], pods: &[&str], of: Measured) -> Vec<Value> {
    let mut recorder = Recorder::new(naming, &[1; 32], at(0));
    objects.iter().for_each(|object| recorder.put(kind(object["kind"].as_str().expect("a kind")), object, at(1)));
    recorder.take_lines();
    recorder.usage(&usage(pods), of, at(20));
    let lines: Vec<Value> = recorder.take_lines().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(recorder.has_measured(of), objects.iter().any(|object| of == Measured::All || object["kind"] == "HorizontalPodAutoscaler"));
    lines
}

#[test]
fn usage_is_a_total_of_the_pods_that_an_autoscalers_target_selects() {
    let mut terminating = pod("web-3");
    terminating["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    let mut foreign = pod("other-1");
    foreign["metadata"]["labels"]["app"] = json!("other");
    let objects = [deployment("web", 3), pod("web-1"), pod("web-2"), terminating, foreign, autoscaler()];
    // web-9 is not recorded, and web-3 and other-1 do not count.
    let lines = measured(Naming::Plain, &objects, &["web-1", "web-2", "web-3", "web-9", "other-1"], Measured::Autoscaled);
    let usage = json!({"kind": "Deployment", "namespace": "shop", "name": "web", "pods": 2, "cpuMillis": 240, "memoryBytes": 128 << 20});
    assert_eq!(lines, [json!({"ms": 20, "usage": usage})]);
    assert_eq!(measured(Naming::Plain, &objects, &["other-1"], Measured::Autoscaled), [] as [Value; 0], "no pod of it has a sample");
    let without = &objects[..5];
    assert_eq!(measured(Naming::Plain, without, &["web-1"], Measured::Autoscaled), [] as [Value; 0]);
    assert_eq!(measured(Naming::Plain, without, &["web-1"], Measured::All)[0]["usage"]["pods"], 1);
    let hashed = measured(Naming::Hashed, &objects, &["web-1"], Measured::Autoscaled);
    let text = hashed[0].to_string();
    assert!(!text.contains("\"web") && !text.contains("shop") && text.contains("\"cpuMillis\":120"), "{text}");
}

#[test]
fn templates_that_differ_in_what_is_not_kept_have_other_hashes() {
    let mut other = deployment("other", 3);
    other["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = json!("another");
    let text = unpacked(&recorded(Naming::Plain, 1, &[deployment("web", 3), other]));
    let hashes: Vec<&str> = text.split("\"image\":\"").skip(1).map(|rest| &rest[..34]).collect();
    assert_eq!(hashes.len(), 2);
    assert_ne!(hashes[0], hashes[1]);
}

#[test]
fn hashed_names_are_stable_within_a_file_and_others_in_the_next() {
    let (one, again, other) =
        (recorded(Naming::Hashed, 1, &objects()), recorded(Naming::Hashed, 1, &objects()), recorded(Naming::Hashed, 2, &objects()));
    assert_eq!(unpacked(&one), unpacked(&again));
    let text = unpacked(&one);
    for name in ["\"web", "\"shop\"", "\"db", "\"node-1\"", "\"high\"", "\"app\"", "\"disk\"", "\"ssd\"", "uid-", "\"gpu\""] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    let names = |file: &[u8]| -> Vec<String> {
        let puts = Reader::begin(file).expect("a recording").filter_map(|moment| match moment.expect("a line").item {
            Item::Put(object) => Some(object["metadata"]["name"].to_string()),
            _ => None,
        });
        puts.collect()
    };
    let (one, other) = (names(&one), names(&other));
    assert_eq!(one[0], one[4], "a Deployment and a budget of one name");
    assert!(one.iter().zip(&other).all(|(one, other)| one != other), "{one:?} {other:?}");
    assert!(one[8].ends_with("-1\""), "an ordinal stays: {one:?}");
}

#[test]
fn labels_are_kept_as_soon_as_a_selector_names_them() {
    let mut recorder = Recorder::new(Naming::Plain, &[1; 32], at(0));
    let mut labeled = pod("a");
    labeled["metadata"]["labels"]["tier"] = json!("front");
    recorder.put(kind("Pod"), &labeled, at(1));
    assert!(!recorder.take_lines()[0].contains("front"));
    let mut budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"tier": "front"}}}});
    recorder.put(kind("PodDisruptionBudget"), &budget, at(2));
    let lines = recorder.take_lines();
    assert!(lines.iter().any(|line| line.contains("\"Pod\"") && line.contains(r#""tier":"front""#)), "{lines:?}");
    // A change of fields that are not recorded has no line.
    budget["metadata"]["annotations"] = json!({"note": SECRET});
    recorder.put(kind("PodDisruptionBudget"), &budget, at(3));
    assert_eq!(recorder.take_lines(), [] as [&str; 0]);
}

/// Members of the API that may contain anything, and one unknown member.
const MEMBERS: [&str; 12] =
    ["env", "envFrom", "command", "args", "volumes", "annotations", "message", "managedFields", "data", "stringData", "lifecycle", "x"];

/// Collects the JSON pointers of all objects in a value, and of all other values.
fn places(value: &Value, at: &str, objects: &mut Vec<String>, leaves: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            objects.push(at.to_owned());
            for (name, value) in members {
                places(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), objects, leaves);
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| places(value, &format!("{at}/{index}"), objects, leaves)),
        _ => leaves.push(at.to_owned()),
    }
}

fn holding(secret: &str, shape: u8) -> Value {
    match shape % 4 {
        0 => json!(secret),
        1 => json!([secret]),
        2 => json!({"value": secret}),
        _ => json!([{"name": "PASSWORD", "value": secret, "nested": {"deep": [secret]}}]),
    }
}

proptest! {
    /// A secret at any path, in known and unknown members or instead of another value, is not recorded. The recording
    /// stays readable.
    #[test]
    fn a_secret_is_kept_nowhere(which in any::<Index>(), spots in proptest::collection::vec((any::<Index>(), any::<Index>(), any::<u8>(), any::<bool>()), 1..6)) {
        let mut object = which.get(&objects()).clone();
        let name = object["kind"].as_str().expect("a kind").to_owned();
        for (place, member, shape, is_new) in spots {
            let (mut found, mut leaves) = (Vec::new(), Vec::new());
            places(&object, "", &mut found, &mut leaves);
            // The recorder takes the kind from the request, not from the object.
            leaves.retain(|leaf| leaf != "/kind");
            if is_new {
                let into = object.pointer_mut(place.get(&found[..]).as_str()).and_then(Value::as_object_mut).expect("an object");
                // Values of labels that no selector names may be valid names.
                into.entry(*member.get(&MEMBERS)).or_insert_with(|| holding(SECRET, shape));
            } else {
                *object.pointer_mut(place.get(&leaves[..]).as_str()).expect("a leaf") = holding(SECRET, shape);
            }
        }
        let file = recorded(Naming::Plain, 1, &[object]);
        let text = unpacked(&file);
        prop_assert!(!text.contains(SECRET), "{name}: {text}");
        // Only a label whose key a selector chose may have a word as its value.
        prop_assert!(!text.contains(WORD), "{name}: {text}");
        for moment in Reader::begin(&file[..]).expect("a recording") {
            prop_assert!(moment.is_ok(), "{moment:?}: {text}");
        }
    }
}
