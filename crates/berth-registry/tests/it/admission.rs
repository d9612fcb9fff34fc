//! Limit ranges, pod security levels, and what pods inherit from their service accounts.
#![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

use crate::test_cluster::{TestCluster, deployment, now, pod, target};
use berth_registry::{Actor, ApiError, DeleteOptions, Patch, WriteOptions};
use serde_json::{Value, json};

fn refusal<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
    match result.expect_err("refused") {
        ApiError::Forbidden { message, .. } => message,
        other => panic!("{other:?}"),
    }
}

fn limit(cluster: &TestCluster, name: &str, limits: Value) {
    cluster.made("limitranges", json!({"metadata": {"name": name}, "spec": {"limits": limits}}));
}

fn asking(name: &str, resources: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

#[test]
fn new_pods_get_the_defaults_of_limit_ranges_and_keep_to_their_limits() {
    let cluster = TestCluster::new();
    limit(&cluster, "l", json!([{"type": "Container", "max": {"memory": "1Gi"}, "min": {"cpu": "100m"}}]));
    let made = cluster.made("pods", pod("a"));
    let wanted = json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}});
    assert_eq!(made["spec"]["containers"][0]["resources"], wanted);
    let text = "LimitRanger plugin set: cpu, memory request for container c; memory limit for container c";
    assert_eq!(made["metadata"]["annotations"]["kubernetes.io/limit-ranger"], text);
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let wrong = asking("b", json!({"requests": {"cpu": "50m"}, "limits": {"memory": "2Gi"}}));
    let wanted = "pods \"b\" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, maximum memory usage per Container \
                  is 1Gi, but limit is 2Gi]";
    assert_eq!(refusal(cluster.create("pods", wrong.clone())), wanted);
    assert!(matches!(cluster.get("pods", "b"), Err(ApiError::NotFound { .. })));
    let mut invalid = wrong;
    invalid["spec"]["containers"][0]["name"] = "C".into();
    assert!(matches!(cluster.create("pods", invalid), Err(ApiError::Invalid { .. })), "faults of the object come first");
    cluster.merge("pods", "a", json!({"metadata": {"labels": {"x": "y"}}})).expect("what is there already may stay");
    cluster.made("namespaces", json!({"metadata": {"name": "other"}}));
    assert_eq!(cluster.made("pods@other", pod("a"))["spec"]["containers"][0]["resources"], json!({}));
}

#[test]
fn each_limit_range_fills_in_and_bounds() {
    let cluster = TestCluster::new();
    limit(&cluster, "a", json!([{"type": "Container", "default": {"cpu": "1"}}]));
    limit(&cluster, "b", json!([{"type": "Pod", "max": {"cpu": "500m"}}]));
    assert_eq!(refusal(cluster.create("pods", pod("p"))), "pods \"p\" is forbidden: maximum cpu usage per Pod is 500m, but limit is 1");
}

fn claim(name: &str, storage: &str) -> Value {
    let requests = json!({"requests": {"storage": storage}});
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests}})
}

#[test]
fn claims_keep_to_limit_ranges_also_when_they_grow() {
    let cluster = TestCluster::new();
    cluster.made("persistentvolumeclaims", claim("old", "5Gi"));
    limit(&cluster, "l", json!([{"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}]));
    let text = |name: &str, storage: &str| {
        format!(
            "persistentvolumeclaims \"{name}\" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is {storage}"
        )
    };
    assert_eq!(refusal(cluster.create("persistentvolumeclaims", claim("c", "3Gi"))), text("c", "3Gi"));
    cluster.made("persistentvolumeclaims", claim("c", "1Gi"));
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    cluster.merge("persistentvolumeclaims/status", "c", bound).expect("bound");
    cluster.merge("persistentvolumeclaims", "old", json!({"metadata": {"labels": {"a": "b"}}})).expect("its size stays");
    let grown = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    assert_eq!(refusal(cluster.merge("persistentvolumeclaims", "c", grown("4Gi"))), text("c", "4Gi"));
    cluster.merge("persistentvolumeclaims", "c", grown("2Gi")).expect("within bounds");
}

/// Creates a namespace `team` with pod security labels: `enforce=restricted warn=baseline`.
fn team(cluster: &TestCluster, labels: &str) {
    let labels: serde_json::Map<String, Value> = labels
        .split_whitespace()
        .map(|label| label.split_once('=').expect("a label"))
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.into()))
        .collect();
    cluster.made("namespaces", json!({"metadata": {"name": "team", "labels": labels}}));
}

fn privileged(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    pod
}

const PRIVILEGED: &str = "PodSecurity \"baseline:latest\": privileged (container \"c\" must not set securityContext.privileged=true)";

#[test]
fn pods_that_violate_the_level_of_their_namespace_are_refused() {
    let cluster = TestCluster::new();
    team(&cluster, "enforce=baseline");
    assert_eq!(refusal(cluster.create("pods@team", privileged("p"))), format!("pods \"p\" is forbidden: violates {PRIVILEGED}"));
    assert!(matches!(cluster.get("pods@team", "p"), Err(ApiError::NotFound { .. })));
    cluster.made("pods@team", pod("p"));
    cluster.made("pods", privileged("p"));
}

#[test]
fn updates_are_judged_only_where_images_change() {
    let cluster = TestCluster::new();
    team(&cluster, "enforce=privileged");
    cluster.made("pods@team", privileged("p"));
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    cluster.merge("namespaces", "team", label).expect("labelled");
    cluster.merge("pods@team", "p", json!({"metadata": {"labels": {"x": "y"}}})).expect("nothing that a level looks at");
    cluster.merge("pods/status@team", "p", json!({"status": {"phase": "Running"}})).expect("a status");
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "i:2"}]).to_string().into_bytes();
    let changed = cluster.patch("pods@team", "p", Patch::Json(image), &WriteOptions::default());
    assert_eq!(refusal(changed), format!("pods \"p\" is forbidden: violates {PRIVILEGED}"));
}

#[test]
fn workloads_are_warned_about_and_audited_never_refused() {
    let cluster = TestCluster::new();
    team(&cluster, "enforce=baseline warn=baseline audit=restricted audit-version=v1.7");
    let mut bad = deployment("d");
    bad["spec"]["template"]["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let written = cluster.create_with("deployments.apps@team", bad, &WriteOptions::default()).expect("only warned");
    assert_eq!(written.warnings, [format!("would violate {PRIVILEGED}")]);
    let audit = "would violate PodSecurity \"restricted:v1.7\": privileged (container \"c\" must not set securityContext.privileged=true), \
                 runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)";
    assert_eq!(written.audit, [("pod-security.kubernetes.io/audit-violations".into(), audit.to_owned())]);
    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}).to_string().into_bytes());
    let changed = now(cluster.registry.patch(&Actor::System, &target("deployments.apps@team", "d"), patch, &WriteOptions::default()));
    assert_eq!(changed.expect("only warned").warnings, [format!("would violate {PRIVILEGED}")]);
    let written = cluster.create_with("pods@team", pod("p"), &WriteOptions::default()).expect("allowed");
    assert_eq!(written.audit[0], ("pod-security.kubernetes.io/enforce-policy".into(), "baseline:latest".to_owned()));
}

#[test]
fn a_stricter_level_warns_of_pods_that_would_be_refused() {
    let cluster = TestCluster::new();
    team(&cluster, "");
    for name in ["b", "a", "c"] {
        cluster.made("pods@team", privileged(name));
    }
    let mut shared = pod("z");
    shared["spec"]["hostNetwork"] = true.into();
    cluster.made("pods@team", shared);
    let label = |level: &str| {
        let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        let patch = Patch::Merge(labels.to_string().into_bytes());
        now(cluster.registry.patch(&Actor::System, &target("namespaces", "team"), patch, &WriteOptions::default()))
    };
    let wanted = [
        "existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "a (and 2 other pods): privileged",
        "z: host namespaces",
    ];
    assert_eq!(label("baseline").expect("labelled").warnings, wanted);
    assert_eq!(label("baseline").expect("labelled").warnings, Vec::<String>::new(), "it is not stricter");
    let stricter = label("restricted").expect("labelled").warnings;
    assert!(stricter[1].starts_with("a (and 2 other pods): privileged, allowPrivilegeEscalation != false, "), "{stricter:?}");
    assert_eq!(label("baseline").expect("relaxed").warnings, Vec::<String>::new());
    let refused = label("strict").expect_err("no level").to_string();
    let wanted = "Namespace \"team\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one \
                  of privileged, baseline, restricted";
    assert_eq!(refused, wanted);
}

fn account(cluster: &TestCluster, extra: Value) {
    let mut account = json!({"metadata": {"name": "robot"}});
    account.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    cluster.made("serviceaccounts", account);
}

fn of_robot(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["serviceAccountName"] = "robot".into();
    pod
}

#[test]
fn pods_take_pull_secrets_over_from_their_account() {
    let cluster = TestCluster::new();
    account(&cluster, json!({"imagePullSecrets": [{"name": "registry"}]}));
    assert_eq!(cluster.made("pods", of_robot("a"))["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
    let mut own = of_robot("b");
    own["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
    assert_eq!(cluster.made("pods", own)["spec"]["imagePullSecrets"], json!([{"name": "own"}]));
    assert_eq!(cluster.made("pods", pod("c"))["spec"].get("imagePullSecrets"), None);
}

#[test]
fn pods_get_a_token_where_they_or_their_account_ask_for_one() {
    let cluster = TestCluster::new();
    account(&cluster, json!({"automountServiceAccountToken": true}));
    let made = cluster.made("pods", of_robot("a"));
    let volume = &made["spec"]["volumes"][0];
    let name = volume["name"].as_str().expect("a name");
    assert!(name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5, "{name}");
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]);
    assert_eq!(volume["projected"], json!({"defaultMode": 420, "sources": sources}));
    let mount = json!({"name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"], json!([mount]));

    let mut unwilling = of_robot("b");
    unwilling["spec"]["automountServiceAccountToken"] = false.into();
    assert_eq!(cluster.made("pods", unwilling)["spec"].get("volumes"), None);
    let mut asking = pod("c");
    asking["spec"]["automountServiceAccountToken"] = true.into();
    assert_eq!(cluster.made("pods", asking)["spec"]["volumes"].as_array().map(Vec::len), Some(1));
    assert_eq!(cluster.made("pods", pod("d"))["spec"].get("volumes"), None);
    let mut again = made;
    let meta = json!({"name": "e", "labels": {"app": "a"}});
    again["metadata"] = meta;
    let copied = cluster.made("pods", again.clone());
    assert_eq!(copied["spec"]["volumes"], again["spec"]["volumes"], "what is there already is not added twice");
    let mut more = again.clone();
    more["metadata"]["name"] = "f".into();
    let other = json!({"name": "d", "image": "i:1"});
    more["spec"]["containers"].as_array_mut().expect("containers").push(other);
    let copied = cluster.made("pods", more);
    assert_eq!(copied["spec"]["volumes"], again["spec"]["volumes"], "nor for a container that has none of it yet");
    assert_eq!(copied["spec"]["containers"][1]["volumeMounts"], again["spec"]["containers"][0]["volumeMounts"]);

    let mut own = of_robot("g");
    own["spec"]["volumes"] = json!([{"name": "mine", "emptyDir": {}}]);
    own["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let made = cluster.made("pods", own.clone());
    assert_eq!(made["spec"]["volumes"], own["spec"]["volumes"], "no token is visible");
}

#[test]
fn claims_and_volumes_are_held_back_whatever_else_holds_them() {
    let cluster = TestCluster::new();
    let mut claim = json!({"metadata": {"name": "c", "finalizers": ["example.com/wait"]}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let held = json!(["example.com/wait", "kubernetes.io/pvc-protection"]);
    assert_eq!(cluster.made("persistentvolumeclaims", claim.clone())["metadata"]["finalizers"], held);
    claim["metadata"] = json!({"name": "d", "finalizers": held});
    assert_eq!(cluster.made("persistentvolumeclaims", claim)["metadata"]["finalizers"], held, "once");
    let volume = json!({"metadata": {"name": "v", "finalizers": ["example.com/wait"]}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"}}});
    let held = json!(["example.com/wait", "kubernetes.io/pv-protection"]);
    assert_eq!(cluster.made("persistentvolumes", volume)["metadata"]["finalizers"], held);
}

#[test]
fn what_puts_the_servers_certificate_back_is_named_and_touches_no_other_config_map() {
    let mut cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "old"}}));
    cluster.made("configmaps@old", json!({"metadata": {"name": "x"}}));
    cluster.registry = cluster.registry.clone().with_root_ca("PEM");
    cluster.merge("configmaps@old", "x", json!({"data": {"a": "b"}})).expect("patched");
    cluster.delete("configmaps@old", "x", &DeleteOptions::default()).expect("deleted");
    assert!(cluster.get("configmaps@old", "kube-root-ca.crt").is_err(), "it comes with the next start");
    now(cluster.registry.bootstrap()).expect("published");

    let mine = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "mine"}});
    let options = WriteOptions { field_manager: "me".to_owned(), force: Some(true), ..WriteOptions::default() };
    cluster.patch("configmaps@old", "kube-root-ca.crt", Patch::Apply(mine.to_string().into_bytes()), &options).expect("applied");
    let stored = cluster.get("configmaps@old", "kube-root-ca.crt").expect("there");
    assert_eq!(stored["data"], json!({"ca.crt": "PEM"}));
    let managers = stored["metadata"]["managedFields"].as_array().expect("since it was applied");
    assert!(managers.iter().any(|entry| entry["manager"] == "root-ca-cert-publisher"), "{managers:?}");
}

#[test]
fn managers_that_a_new_object_lists_own_their_fields() {
    let cluster = TestCluster::new();
    let given = json!([{"manager": "before", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}, "f:z": {}}}}]);
    let object = json!({"metadata": {"name": "c", "managedFields": given}, "data": {"a": "1", "b": "2"}});
    let made = cluster.made("configmaps", object);
    let managers = made["metadata"]["managedFields"].as_array().expect("some");
    assert!(managers.iter().any(|entry| entry["manager"] == "before" && entry["fieldsV1"]["f:data"]["f:z"].is_object()), "{managers:?}");
}

#[test]
fn explicit_token_volumes_are_accepted() {
    let cluster = TestCluster::new();
    let mut own = pod("a");
    own["spec"]["volumes"] =
        json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "vault-token", "audience": "vault"}}]}}]);
    let made = cluster.made("pods", own);
    let wanted = json!({"path": "vault-token", "audience": "vault", "expirationSeconds": 3600});
    assert_eq!(made["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"], wanted);
}

#[test]
fn every_namespace_keeps_the_servers_certificate() {
    let mut cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "old"}}));
    assert!(cluster.get("configmaps@old", "kube-root-ca.crt").is_err());
    cluster.registry = cluster.registry.clone().with_root_ca("PEM");
    now(cluster.registry.bootstrap()).expect("published");
    cluster.made("namespaces", json!({"metadata": {"name": "new"}}));
    let data = |namespace: &str| {
        let what = format!("configmaps@{namespace}");
        cluster.get(&what, "kube-root-ca.crt").expect("there")["data"].clone()
    };
    for namespace in ["default", "old", "new"] {
        assert_eq!(data(namespace), json!({"ca.crt": "PEM"}), "{namespace}");
    }
    cluster.merge("configmaps@old", "kube-root-ca.crt", json!({"data": {"ca.crt": "mine", "x": "y"}})).expect("patched");
    cluster.delete("configmaps@new", "kube-root-ca.crt", &DeleteOptions::default()).expect("deleted");
    assert_eq!((data("old"), data("new")), (json!({"ca.crt": "PEM"}), json!({"ca.crt": "PEM"})));

    now(cluster.registry.replace_root_ca("NEXT")).expect("published");
    cluster.made("namespaces", json!({"metadata": {"name": "newer"}}));
    for namespace in ["default", "old", "new", "newer"] {
        assert_eq!(data(namespace), json!({"ca.crt": "NEXT"}), "{namespace}");
    }
}

#[test]
fn where_no_namespace_gets_the_servers_certificate_none_gets_the_next() {
    let cluster = TestCluster::new();
    now(cluster.registry.replace_root_ca("NEXT")).expect("nothing to do");
    cluster.made("namespaces", json!({"metadata": {"name": "new"}}));
    assert!(cluster.get("configmaps@new", "kube-root-ca.crt").is_err());
}

#[test]
fn a_dry_run_is_judged_too() {
    let cluster = TestCluster::new();
    team(&cluster, "enforce=baseline");
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    assert!(refusal(cluster.create_with("pods@team", privileged("p"), &dry)).contains("violates PodSecurity"));
}
