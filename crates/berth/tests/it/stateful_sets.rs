//! StatefulSets as a person sees them: the real kubectl against a real `berth up`, claims and what is in their volumes included.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Berth, kubectl_is_here, up, up_in};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Everything at once, so that only what the test waits for takes time.
const FAST: &[&str] = &[
    "--store",
    "memory",
    "--nodes",
    "2",
    "--pod-start-latency",
    "10ms",
    "--pod-stop-latency",
    "10ms",
    "--volume-provision-latency",
    "10ms",
];

/// A StatefulSet `db` of three pods, each with a claim, changed by `spec`.
fn database(spec: &Value) -> String {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 3, "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    merge(&mut set["spec"], spec);
    set.to_string()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter().for_each(|(key, value)| merge(into.entry(key.as_str()).or_insert(Value::Null), value));
        }
        (into, from) => *into = from.clone(),
    }
}

/// A template with another image, whose pods fail as `fails` specifies.
fn template(image: &str, fails: Option<&str>) -> Value {
    json!({"template": {
        "metadata": {"annotations": {"sim.berth.dev/fails": fails}}, "spec": {"containers": [{"name": "main", "image": image}]},
    }})
}

/// A cluster in which `db` is rolled out.
fn with_database(spec: &Value) -> Berth {
    let berth = up(FAST);
    berth.apply(&database(spec));
    settled(&berth);
    berth
}

fn settled(berth: &Berth) {
    berth.rollout(&["status", "sts/db", "--timeout=60s"]);
}

fn patch(berth: &Berth, spec: &Value) {
    berth.kubectl(&["patch", "sts", "db", "--type=merge", "--patch", &json!({ "spec": spec }).to_string()]);
}

/// One line a pod, in order of the names.
fn of_pods(berth: &Berth, path: &str) -> BTreeMap<String, String> {
    let path = format!("jsonpath={{range .items[*]}}{{.metadata.name}}={{{path}}}{{\"\\n\"}}{{end}}");
    let text = berth.kubectl(&["get", "pods", "-l", "app=db", "-o", &path]);
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn images(berth: &Berth) -> String {
    of_pods(berth, ".spec.containers[0].image").into_values().collect::<Vec<_>>().join(" ")
}

/// What each pod found in its volume.
fn contents(berth: &Berth) -> BTreeMap<String, String> {
    let contents = of_pods(berth, r".metadata.annotations.berth\.dev/content-ids");
    assert!(contents.values().all(|content| content.starts_with("data=") && content.len() == "data=".len() + 16), "{contents:?}");
    contents
}

fn uids(berth: &Berth) -> BTreeMap<String, String> {
    of_pods(berth, ".metadata.uid")
}

/// Deletes pods, and waits until their replacements are ready. kubectl's own wait misses a pod that is replaced within milliseconds, and then continues
/// indefinitely.
fn replace_by_hand(berth: &Berth, pods: &[&str]) {
    let old = uids(berth);
    berth.kubectl(&[&["delete", "pod", "--wait=false"], pods].concat());
    let path = "jsonpath={range .items[*]}{.metadata.uid}={.status.conditions[?(@.type=='Ready')].status} {end}";
    berth.kubectl_until(&["get", "pods", "-l", "app=db", "-o", path], |text| {
        text.matches("=True").count() == old.len() && pods.iter().all(|pod| !text.contains(&old[*pod]))
    });
}

fn until_event(berth: &Berth, reason: &str) -> String {
    let selector = format!("reason={reason},involvedObject.name=db");
    berth.kubectl_until(&["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}"], |text| !text.is_empty())
}

#[test]
fn a_rolling_update_goes_from_the_last_pod_to_the_first_and_back_and_keeps_the_data() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({}));
    let before = contents(&berth);
    assert_eq!(before.keys().map(String::as_str).collect::<Vec<_>>(), ["db-0", "db-1", "db-2"]);
    assert_eq!(before.values().collect::<std::collections::BTreeSet<_>>().len(), 3, "each has its own: {before:?}");

    patch(&berth, &json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}}));
    berth.kubectl(&["set", "image", "sts/db", "main=db:2"]);
    assert!(berth.kubectl(&["rollout", "status", "sts/db"]).contains("partitioned roll out complete: 1 new pods"));
    assert_eq!(images(&berth), "db:1 db:1 db:2");
    replace_by_hand(&berth, &["db-0", "db-2"]);
    assert_eq!(images(&berth), "db:1 db:1 db:2", "pods that come back keep their side of the partition");

    patch(&berth, &json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}));
    berth.kubectl(&["rollout", "status", "sts/db"]);
    assert_eq!(images(&berth), "db:2 db:2 db:2");
    assert_eq!(berth.kubectl(&["rollout", "history", "sts/db"]).lines().filter(|line| line.starts_with(['1', '2'])).count(), 2);
    assert!(berth.kubectl(&["rollout", "undo", "sts/db"]).contains("rolled back"));
    berth.kubectl(&["rollout", "status", "sts/db"]);
    assert_eq!(images(&berth), "db:1 db:1 db:1");
    berth.kubectl(&["rollout", "restart", "sts/db"]);
    berth.kubectl(&["rollout", "status", "sts/db"]);
    assert_eq!(contents(&berth), before);
}

#[test]
fn claims_outlive_a_scale_down_unless_the_policy_deletes_them() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({}));
    let before = contents(&berth);
    let claims = || berth.kubectl(&["get", "pvc", "-o", "name"]).lines().count();
    let scale = |replicas: usize| {
        berth.kubectl(&["scale", "sts/db", &format!("--replicas={replicas}")]);
        berth.kubectl_until(&["get", "pods", "-o", "name"], |pods| pods.lines().count() == replicas);
        settled(&berth);
    };
    scale(1);
    assert_eq!(claims(), 3);
    scale(3);
    assert_eq!(contents(&berth), before);
    patch(&berth, &json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"}}));
    scale(1);
    berth.kubectl_until(&["get", "pvc,pv", "-o", "name"], |all| all.lines().count() == 2);
    scale(3);
    let after = contents(&berth);
    assert_eq!(after["db-0"], before["db-0"]);
    assert!(after["db-1"] != before["db-1"] && after["db-2"] != before["db-2"], "{before:?} {after:?}");

    berth.kubectl(&["delete", "sts", "db"]);
    berth.kubectl_until(&["get", "pods", "-o", "name"], str::is_empty);
    assert_eq!(claims(), 3);
    berth.apply(&database(&json!({})));
    settled(&berth);
    assert_eq!(contents(&berth), after, "a new set of the name finds the old claims");
}

#[test]
fn on_delete_leaves_every_pod_to_its_owner() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({"updateStrategy": {"type": "OnDelete"}}));
    let (before, old) = (contents(&berth), uids(&berth));
    berth.kubectl(&["set", "image", "sts/db", "main=db:2"]);
    assert!(until_event(&berth, "WaitingForPodDeletion").contains("3 pods of older templates to be deleted manually"));
    assert_eq!(uids(&berth), old);
    replace_by_hand(&berth, &["db-1"]);
    berth.kubectl_until(&["get", "sts", "db", "-o", "jsonpath={.status.updatedReplicas}/{.status.readyReplicas}"], |text| text == "1/3");
    assert_eq!(images(&berth), "db:1 db:2 db:1");
    assert!(berth.kubectl_fails(&["rollout", "status", "sts/db"]).contains("only available for RollingUpdate strategy type"));
    replace_by_hand(&berth, &["db-0", "db-2"]);
    settled(&berth);
    assert_eq!((images(&berth).as_str(), contents(&berth)), ("db:2 db:2 db:2", before));
}

/// Pods that terminate only when a test forces them.
fn slow_to_go() -> Value {
    json!({"template": {
        "metadata": {"annotations": {"sim.berth.dev/terminates-after": "1h"}}, "spec": {"terminationGracePeriodSeconds": 3600},
    }})
}

fn recreated(management: &str) -> Value {
    json!({"updateStrategy": {"type": "Recreate"}, "podManagementPolicy": management})
}

#[test]
fn recreate_creates_nothing_before_the_last_old_pod_is_gone() {
    if !kubectl_is_here() {
        return;
    }
    let mut spec = recreated("Parallel");
    merge(&mut spec, &slow_to_go());
    let berth = with_database(&spec);
    let (before, old) = (contents(&berth), uids(&berth));
    patch(&berth, &template("db:2", None));
    let terminating = ["get", "pods", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"];
    berth.kubectl_until(&terminating, |times| times.split_whitespace().count() == 3);
    assert!(until_event(&berth, "RecreateStarted").contains("Deleting all pods for Recreate update"));
    until_event(&berth, "RecreateWaitingForTermination");
    for pod in ["db-0", "db-2"] {
        berth.kubectl(&["delete", "--wait=false", "pod", pod, "--force", "--grace-period=0"]);
    }
    let progressing = r#"jsonpath={.status.conditions[?(@.type=="Progressing")].reason}"#;
    let phase =
        || serde_json::from_str::<Value>(&berth.rollout(&["status", "sts/db", "--watch=false", "-o", "json"])).unwrap()["phase"].clone();
    assert_eq!(
        (phase(), berth.kubectl(&["get", "sts", "db", "-o", progressing]).as_str()),
        (json!("WaitingTermination"), "RecreateInProgress")
    );
    assert_eq!(uids(&berth), [("db-1".to_owned(), old["db-1"].clone())].into());
    berth.kubectl(&["delete", "--wait=false", "pod", "db-1", "--force", "--grace-period=0"]);
    settled(&berth);
    until_event(&berth, "RecreateCompleted");
    assert_eq!((images(&berth).as_str(), contents(&berth)), ("db:2 db:2 db:2", before));
    berth.kubectl_until(&["get", "sts", "db", "-o", progressing], |reason| reason == "RecreateComplete");
    assert!(berth.kubectl_fails(&["rollout", "status", "sts/db"]).contains("only available for RollingUpdate strategy type"));
}

#[test]
fn a_recreate_goes_on_after_the_control_plane_was_killed() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let durable = &FAST[2..];
    let berth = up_in(folder.path(), durable);
    let mut spec = recreated("OrderedReady");
    merge(&mut spec, &slow_to_go());
    berth.apply(&database(&spec));
    settled(&berth);
    let before = contents(&berth);
    patch(&berth, &template("db:2", None));
    berth.kubectl_until(&["get", "pods", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"], |times| {
        times.split_whitespace().count() == 3
    });
    drop(berth.kill());
    let berth = up_in(folder.path(), durable);
    assert_eq!(images(&berth), "db:1 db:1 db:1");
    berth.kubectl(&["delete", "pods", "--all", "--force", "--grace-period=0"]);
    settled(&berth);
    assert_eq!((images(&berth).as_str(), contents(&berth)), ("db:2 db:2 db:2", before));
}

#[test]
fn a_changed_type_alone_starts_nothing_and_can_be_changed_back() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({}));
    let before = uids(&berth);
    let both = r#"{"spec":{"updateStrategy":{"type":"Recreate","rollingUpdate":{"partition":1}}}}"#;
    let refused = berth.kubectl_fails(&["patch", "sts", "db", "--type=merge", "--patch", both]);
    assert!(refused.contains("spec.updateStrategy.rollingUpdate"), "{refused}");
    let progressing = r#"jsonpath={.status.conditions[?(@.type=="Progressing")].reason}"#;
    patch(&berth, &json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}));
    berth.kubectl_until(&["get", "sts", "db", "-o", progressing], |reason| reason == "RecreateComplete");
    patch(&berth, &json!({"updateStrategy": {"type": "RollingUpdate"}}));
    berth.kubectl_until(&["get", "sts", "db", "-o", progressing], |reason| reason == "NewRevisionAvailable");
    assert_eq!(uids(&berth), before);
}

/// What a CI system does: it applies one manifest, and then another.
#[test]
fn a_manifest_that_changes_the_type_is_applied_there_and_back() {
    if !kubectl_is_here() {
        return;
    }
    for flags in [&["--server-side=false"][..], &["--server-side", "--force-conflicts"]] {
        let berth = with_database(&json!({}));
        let before = uids(&berth);
        let strategy = ["get", "sts", "db", "-o", "jsonpath={.spec.updateStrategy}"];
        for (spec, stored) in [
            (json!({"updateStrategy": {"type": "Recreate"}}), r#"{"type":"Recreate"}"#),
            (json!({}), r#"{"rollingUpdate":{"partition":0},"type":"RollingUpdate"}"#),
            (json!({"updateStrategy": {"type": "OnDelete"}}), r#"{"type":"OnDelete"}"#),
            (json!({"updateStrategy": {"type": "RollingUpdate"}}), r#"{"type":"RollingUpdate"}"#),
        ] {
            for _ in 0..2 {
                let output = berth.kubectl_with(&database(&spec), &[&["apply", "--filename", "-"], flags].concat());
                assert!(output.status.success(), "{flags:?} {spec}: {}", String::from_utf8_lossy(&output.stderr));
                assert_eq!(berth.kubectl(&strategy), stored, "{flags:?} {spec}");
            }
        }
        let two = json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": {"partition": 2}}});
        let refused = berth.kubectl_with(&database(&two), &[&["apply", "--filename", "-"], flags].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains(r#"spec.updateStrategy.rollingUpdate: Invalid value: {"partition":2}"#), "{flags:?}: {text}");
        assert_eq!(uids(&berth), before);
    }
}

/// The story of KEP-3541: a typo breaks a rolling update, and the corrected manifest does not fix it.
#[test]
fn a_corrected_manifest_fixes_a_broken_set_only_with_recreate_or_repair() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({}));
    let before = contents(&berth);
    let stuck = |berth: &Berth| {
        patch(berth, &template("db:typo", Some("ImagePullBackOff")));
        berth.kubectl_until(&["get", "pods"], |pods| pods.contains("ImagePullBackOff"));
        let broken = uids(berth);
        patch(berth, &template("db:2", None));
        let event = until_event(berth, "WaitingForOutdatedPod");
        assert!(event.contains("waiting for db-2 to become ready: it has an older template"), "{event}");
        assert!(berth.kubectl(&["get", "pods"]).contains("ImagePullBackOff"));
        assert_eq!(uids(berth), broken);
    };
    stuck(&berth);
    patch(&berth, &json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}));
    settled(&berth);
    assert_eq!((images(&berth).as_str(), contents(&berth)), ("db:2 db:2 db:2", before.clone()));

    let repaired = with_database(&json!({}));
    stuck(&repaired);
    let before = contents_of_ready(&repaired);
    repaired.kubectl(&["annotate", "sts", "db", "berth.dev/repair=Revision"]);
    settled(&repaired);
    assert!(until_event(&repaired, "RepairedPod").contains("db-2"));
    let after = contents(&repaired);
    assert!(before.iter().all(|(pod, content)| after[pod] == *content), "{before:?} {after:?}");
    assert_eq!(images(&repaired), "db:2 db:2 db:2");
}

/// As [`contents`], without pods that never started.
fn contents_of_ready(berth: &Berth) -> BTreeMap<String, String> {
    let mut contents = of_pods(berth, r".metadata.annotations.berth\.dev/content-ids");
    contents.retain(|_, content| !content.is_empty());
    contents
}

#[test]
fn recreate_clears_pods_away_in_whatever_state_they_are_stuck() {
    if !kubectl_is_here() {
        return;
    }
    for (management, pods) in [("OrderedReady", 1), ("Parallel", 3)] {
        let berth = with_database(&recreated(management));
        let before = contents(&berth);
        for (round, fails) in ["ImagePullBackOff", "CrashLoopBackOff", "Pending", "NeverReady"].into_iter().enumerate() {
            let mut broken = template(&format!("db:broken-{round}"), Some(fails));
            // Without a probe a container that crashes counts as ready for a moment.
            broken["template"]["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
            patch(&berth, &broken);
            let image = format!("db:broken-{round}");
            let wanted = vec![image.as_str(); pods].join(" ");
            berth.kubectl_until(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"], |images| images == wanted);
            patch(&berth, &template(&format!("db:good-{round}"), None));
            settled(&berth);
            assert_eq!(images(&berth), vec![format!("db:good-{round}"); 3].join(" "));
        }
        assert_eq!(contents(&berth), before);
    }
}

#[test]
fn a_claim_that_is_deleted_takes_the_data_with_it_once_its_pod_is_gone() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({}));
    let before = contents(&berth);
    berth.kubectl(&["delete", "pvc", "data-db-1", "--wait=false"]);
    let claim = berth.kubectl(&["get", "pvc", "data-db-1"]);
    assert!(claim.contains("Terminating"), "{claim}");
    berth.kubectl(&["delete", "--wait=false", "pod", "db-1"]);
    berth.kubectl_until(&["get", "pod", "db-1", "-o", r"jsonpath={.metadata.annotations.berth\.dev/content-ids}"], |content| {
        content.starts_with("data=") && content != before["db-1"]
    });
    settled(&berth);
    let after = contents(&berth);
    assert_eq!((&after["db-0"], &after["db-2"]), (&before["db-0"], &before["db-2"]));
    berth.kubectl_until(&["get", "pv", "-o", "name"], |volumes| volumes.lines().count() == 3);
}

#[test]
fn storage_reads_well_and_pods_show_what_they_wait_for() {
    if !kubectl_is_here() {
        return;
    }
    let berth = with_database(&json!({"replicas": 1}));
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let class = words(&berth.kubectl(&["get", "sc", "--no-headers"]));
    assert_eq!(class[..5], ["standard", "(default)", "berth.dev/simulated", "Delete", "Immediate"]);
    let claim = words(&berth.kubectl(&["get", "pvc", "--no-headers"]));
    assert_eq!((&claim[..2], &claim[3..6]), (&words("data-db-0 Bound")[..], &words("1Gi RWO standard")[..]));
    let volume = words(&berth.kubectl(&["get", "pv", "--no-headers"]));
    assert_eq!(volume[1..7], words("1Gi RWO Delete Bound default/data-db-0 standard"));

    let waiting = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "berth.dev/simulated",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    berth.apply(&waiting.to_string());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"},
        "spec": {"containers": [{"name": "main", "image": "job"}], "volumes": [{"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}]},
    });
    berth.apply(&pod.to_string());
    let message = r#"jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}"#;
    let missing = r#"0/2 nodes are available: persistentvolumeclaim "scratch" not found. not found"#;
    berth.kubectl_until(&["get", "pod", "job", "-o", message], |text| text == missing);
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "late", "resources": {"requests": {"storage": "5Gi"}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "scratch"}, "spec": spec});
    berth.apply(&claim.to_string());
    berth.kubectl(&["wait", "--for=condition=Ready", "pod/job", "--timeout=60s"]);
    let node = berth.kubectl(&["get", "pod", "job", "-o", "jsonpath={.spec.nodeName}"]);
    let selected =
        berth.kubectl(&["get", "pvc", "scratch", "-o", r"jsonpath={.metadata.annotations.volume\.kubernetes\.io/selected-node}"]);
    assert_eq!(selected, node);
}
