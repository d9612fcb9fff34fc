//! The expected row of every kind, and the tables around rows.

#![expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without borrows")]

use super::*;
use crate::resource;
use berth_identity::GroupResource;
use berth_store::{Header, Key};

/// All ages are 5 minutes.
const NOW: Timestamp = Timestamp::constant(300, 0);

/// Returns the row of `object`, an object of `group` and `plural` with the name `n`, created 5 minutes ago.
#[track_caller]
fn check(group: &str, plural: &str, object: Value, cells: Value) {
    let resource = resource::built_in().by_name(&GroupResource::new(group, plural)).expect("a kind of the table");
    let mut metadata = json!({"name": "n", "creationTimestamp": "1970-01-01T00:00:00Z"});
    for (key, value) in object["metadata"].as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }
    let mut object = object;
    object["metadata"] = metadata;
    let decoded = resource.rules.decode(object).expect("an object of the kind");
    assert_eq!(decoded.unknown, Vec::<String>::new(), "a typo in the test's object");
    assert_eq!(Value::Array(resource.rules.cells(&*decoded.object, NOW)), cells);
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}})
}

#[test]
fn workloads() {
    let selector = json!({"matchLabels": {"k": "v"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "z", "operator": "DoesNotExist"}, {"key": "e", "operator": "Exists"}]});
    check(
        "apps",
        "deployments",
        json!({"spec": {"replicas": 3, "selector": selector, "template": template()},
               "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}}),
        json!(["n", "2/3", 1, 2, "5m", "a,b", "i:1,j", "a in (x,y),e,k=v,!z"]),
    );
    check(
        "apps",
        "replicasets",
        json!({"spec": {"replicas": 3, "template": template()}, "status": {"replicas": 2, "readyReplicas": 1}}),
        json!(["n", 3, 2, 1, "5m", "a,b", "i:1,j", "<none>"]),
    );
    check(
        "apps",
        "statefulsets",
        json!({"spec": {"replicas": 3, "template": template()}, "status": {"replicas": 2, "readyReplicas": 1}}),
        json!(["n", "1/3", "5m", "a,b", "i:1,j"]),
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": true}]);
    check(
        "apps",
        "controllerrevisions",
        json!({"metadata": {"ownerReferences": owner}, "revision": 4, "data": {}}),
        json!(["n", "statefulset.apps/s", 4, "5m"]),
    );
    check("apps", "controllerrevisions", json!({"revision": 4, "data": {}}), json!(["n", "<none>", 4, "5m"]));
    check(
        "policy",
        "poddisruptionbudgets",
        json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
        json!(["n", "50%", "N/A", 1, "5m"]),
    );
}

#[test]
fn pods() {
    check(
        "",
        "pods",
        json!({"spec": {"containers": [], "nodeName": "node", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
               "status": {"phase": "Pending", "podIP": "10.0.0.1", "conditions": [{"type": "h", "status": "True"}]}}),
        json!(["n", "0/0", "Pending", "0", "5m", "10.0.0.1", "node", "<none>", "1/2"]),
    );
    check("", "pods", json!({}), json!(["n", "0/0", "", "0", "5m", "<none>", "<none>", "<none>", "<none>"]));
}

#[test]
fn nodes_and_namespaces() {
    let info = json!({"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "sim://1", "kernelVersion": "6", "kubeProxyVersion": "",
        "kubeletVersion": "v1", "machineID": "", "operatingSystem": "linux", "osImage": "os", "systemUUID": ""});
    check(
        "",
        "nodes",
        json!({"metadata": {"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}}, "spec": {"unschedulable": true},
               "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": info,
                          "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
        json!(["n", "Ready,SchedulingDisabled", "a,b", "5m", "v1", "10.0.0.1", "<none>", "os", "6 (amd64)", "sim://1"]),
    );
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    check("", "nodes", not_ready, json!(["n", "NotReady", "<none>", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]));
    check("", "nodes", json!({}), json!(["n", "Unknown", "<none>", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]));
    check("", "namespaces", json!({"status": {"phase": "Active"}}), json!(["n", "Active", "5m"]));
}

#[test]
fn events_of_both_groups() {
    let involved = json!({"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"});
    check(
        "",
        "events",
        json!({"involvedObject": involved, "type": "Normal", "reason": "Started", "message": " Started c \n", "count": 2,
               "firstTimestamp": "1970-01-01T00:03:20Z", "lastTimestamp": "1970-01-01T00:04:10Z", "source": {"component": "kubelet", "host": "node"}}),
        json!(["50s", "Normal", "Started", "pod/p", "spec.containers{c}", "kubelet, node", "Started c", "100s", 2, "n"]),
    );
    check(
        "",
        "events",
        json!({"involvedObject": {"kind": "Pod"}, "eventTime": "1970-01-01T00:03:20.000000Z", "reportingComponent": "c",
               "series": {"count": 7, "lastObservedTime": "1970-01-01T00:04:10.000000Z"}}),
        json!(["50s", "", "", "pod", "", "c", "", "100s", 7, "n"]),
    );
    check(
        "events.k8s.io",
        "events",
        json!({"regarding": {"kind": "Deployment", "name": "d"}, "eventTime": "1970-01-01T00:03:20.000000Z", "note": "m", "reason": "R",
               "type": "Warning", "reportingController": "c", "reportingInstance": "i"}),
        json!(["100s", "Warning", "R", "deployment/d", "", "c, i", "m", "100s", 1, "n"]),
    );
}

#[test]
fn storage() {
    check(
        "",
        "persistentvolumes",
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "claimRef": {"namespace": "ns", "name": "c"},
                        "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast", "volumeMode": "Filesystem"},
               "status": {"phase": "Bound"}}),
        json!(["n", "1Gi", "RWO,RWX", "Retain", "Bound", "ns/c", "fast", "<unset>", "", "5m", "Filesystem"]),
    );
    check(
        "",
        "persistentvolumeclaims",
        json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
               "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}}),
        json!(["n", "Bound", "v", "1Gi", "ROX,RWOP", "fast", "<unset>", "5m", "Filesystem"]),
    );
    check(
        "",
        "persistentvolumeclaims",
        json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}, "status": {"phase": "Pending", "accessModes": ["ReadWriteOnce"]}}),
        json!(["n", "Terminating", "", "", "", "", "<unset>", "5m", "<unset>"]),
    );
    check(
        "storage.k8s.io",
        "storageclasses",
        json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
        json!(["n (default)", "p", "Delete", "Immediate", false, "5m"]),
    );
}

#[test]
fn network() {
    check(
        "",
        "services",
        json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "selector": {"b": "2", "a": "1"},
                        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "nodePort": 30001}]}}),
        json!(["n", "ClusterIP", "10.0.0.1", "<none>", "80/TCP,81:30001/TCP", "5m", "a=1,b=2"]),
    );
    check(
        "",
        "services",
        json!({"spec": {"type": "LoadBalancer"}}),
        json!(["n", "LoadBalancer", "<none>", "<pending>", "<none>", "5m", "<none>"]),
    );
    check(
        "",
        "services",
        json!({"spec": {"type": "LoadBalancer", "externalIPs": ["3.3.3.3"]}, "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"hostname": "h"}]}}}),
        json!(["n", "LoadBalancer", "<none>", "1.1.1.1,h,3.3.3.3", "<none>", "5m", "<none>"]),
    );
    check(
        "",
        "services",
        json!({"spec": {"type": "ExternalName", "externalName": "e.example"}}),
        json!(["n", "ExternalName", "<none>", "e.example", "<none>", "5m", "<none>"]),
    );
    let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "fd::1"}]);
    check(
        "",
        "endpoints",
        json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}, {"port": 81}]}]}),
        json!(["n", "10.0.0.1:80,[fd::1]:80,10.0.0.1:81 + 1 more...", "5m"]),
    );
    check("", "endpoints", json!({"subsets": [{"addresses": addresses}]}), json!(["n", "10.0.0.1,fd::1", "5m"]));
    check("", "endpoints", json!({}), json!(["n", "<none>", "5m"]));
    check(
        "discovery.k8s.io",
        "endpointslices",
        json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}], "ports": [{"port": 80}, {}]}),
        json!(["n", "IPv4", "80,*", "10.0.0.1,10.0.0.2", "5m"]),
    );
    check("discovery.k8s.io", "endpointslices", json!({"addressType": "IPv4"}), json!(["n", "IPv4", "<unset>", "<unset>", "5m"]));
}

#[test]
fn what_directs_traffic() {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let rules = json!([{"host": "a.b"}, {"host": "c.d"}, {}]);
    check(
        "networking.k8s.io",
        "ingresses",
        json!({"spec": {"ingressClassName": "x", "rules": rules, "tls": [{}]}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "h"}]}}}),
        json!(["n", "x", "a.b,c.d", "10.0.0.1,h", "80, 443", "5m"]),
    );
    check("networking.k8s.io", "ingresses", json!({"spec": {"defaultBackend": backend}}), json!(["n", "<none>", "*", "", "80", "5m"]));
    let parameters = json!({"apiGroup": "a.b", "kind": "K", "name": "p"});
    let class = json!({"spec": {"controller": "a.b/c", "parameters": parameters}});
    check("networking.k8s.io", "ingressclasses", class, json!(["n", "a.b/c", "K.a.b/p", "5m"]));
    check("networking.k8s.io", "ingressclasses", json!({"spec": {"controller": "a.b/c"}}), json!(["n", "a.b/c", "<none>", "5m"]));
    let pods = json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}});
    check("networking.k8s.io", "networkpolicies", pods, json!(["n", "a=b", "5m"]));
    check("networking.k8s.io", "networkpolicies", json!({"spec": {}}), json!(["n", "<none>", "5m"]));
}

#[test]
fn autoscalers() {
    let spec =
        |metrics: Value| json!({"spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": metrics}});
    check("autoscaling", "horizontalpodautoscalers", spec(json!(null)), json!(["n", "Deployment/d", "<none>", "<unset>", "5", 0, "5m"]));
    let target = json!({"type": "AverageValue", "averageValue": "5"});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": target}});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
    let shown = json!(["n", "Deployment/d", "<unknown>/5, cpu: <unknown>/80%", "<unset>", "5", 0, "5m"]);
    check("autoscaling", "horizontalpodautoscalers", spec(json!([pods, cpu])), shown);
    let object = json!({"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": target}});
    let external = json!({"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "7"}}});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Mi"}}});
    let container = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let with = |metric: &Value, field: &str, current: Value, shown: &str| {
        let mut object = spec(json!([metric]));
        object["status"] =
            json!({"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [{"type": metric["type"], field: {"current": current}}]});
        check("autoscaling", "horizontalpodautoscalers", object, json!(["n", "Deployment/d", shown, "<unset>", "5", 2, "5m"]));
    };
    with(&cpu, "resource", json!({"averageUtilization": 40, "averageValue": "400m"}), "cpu: 40%/80%");
    with(&memory, "resource", json!({"averageValue": "2Mi"}), "memory: 2Mi/1Mi");
    with(&container, "containerResource", json!({"averageUtilization": 60}), "cpu: 60%/50%");
    with(&object, "object", json!({"averageValue": "2500m"}), "2500m/5 (avg)");
    with(&external, "external", json!({"value": "8"}), "8/7");
    with(&pods, "pods", json!({"averageValue": "6"}), "6/5");
    let many = spec(json!([pods, cpu, memory, external]));
    let shown = json!(["n", "Deployment/d", "<unknown>/5, cpu: <unknown>/80% + 2 more...", "<unset>", "5", 0, "5m"]);
    check("autoscaling", "horizontalpodautoscalers", many, shown);
}

#[test]
fn small_kinds() {
    check("", "configmaps", json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}), json!(["n", 3, "5m"]));
    check("", "secrets", json!({"type": "Opaque", "data": {"a": ""}}), json!(["n", "Opaque", 1, "5m"]));
    check("", "serviceaccounts", json!({}), json!(["n", "5m"]));
    check("coordination.k8s.io", "leases", json!({"spec": {"holderIdentity": "h"}}), json!(["n", "h", "5m"]));
    check("", "limitranges", json!({}), json!(["n", "1970-01-01T00:00:00Z"]));
    check(
        "",
        "resourcequotas",
        json!({"status": {"hard": {"limits.cpu": "2", "pods": "5", "requests.cpu": "1"}, "used": {"pods": "3"}}}),
        json!(["n", "pods: 3/5, requests.cpu: 0/1", "limits.cpu: 0/2", "5m"]),
    );
    check(
        "scheduling.k8s.io",
        "priorityclasses",
        json!({"value": 1000, "globalDefault": true}),
        json!(["n", 1000, true, "5m", "PreemptLowerPriority"]),
    );
}

fn printer(include: IncludeObject) -> Printer {
    Printer {
        resource: Arc::clone(resource::built_in().by_name(&GroupResource::from_static("", "configmaps")).expect("served")),
        include,
        version: MetaVersion::V1,
        now: NOW,
    }
}

fn entry(name: &str, revision: u64) -> Arc<Entry> {
    let value = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"k":"v"}}}}"#);
    Arc::new(Entry {
        key: Key::new(name),
        value: value.into_bytes().into(),
        header: Header::default(),
        create_revision: Revision(1),
        mod_revision: Revision(revision),
    })
}

fn list() -> List {
    List { items: vec![entry("a", 3), entry("b", 4)], revision: Revision(9), continue_token: "more".to_owned(), remaining: Some(1) }
}

fn encode(table: impl Serialize) -> Value {
    serde_json::to_value(table).expect("tables encode")
}

#[test]
fn a_list_carries_its_metadata_and_each_rows_version() {
    let (printer, list) = (printer(IncludeObject::Metadata), list());
    let table = encode(printer.head(&list));
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(table["metadata"], json!({"resourceVersion": "9", "continue": "more", "remainingItemCount": 1}));
    assert_eq!(
        table["columnDefinitions"][0],
        json!({"name": "Name", "type": "string", "format": "name", "priority": 0, "description": text::NAME.description})
    );
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "b", "resourceVersion": "4"}});
    let row = serde_json::to_value(printer.row(&list.items[1]).expect("prints")).expect("JSON");
    assert_eq!((&table["rows"], row), (&json!([]), json!({"cells": ["b", 1, "<unknown>"], "object": partial})));
}

#[test]
fn the_last_page_has_neither_token_nor_count() {
    let last = List { continue_token: String::new(), remaining: None, ..list() };
    let printer = printer(IncludeObject::None);
    let table = encode(printer.head(&last));
    assert_eq!(table["metadata"], json!({"resourceVersion": "9"}));
}

#[test]
fn rows_carry_what_was_asked_for() {
    let object = |include| encode(printer(include).object(&Current::Stored(entry("a", 3))).expect("prints"))["rows"][0]["object"].clone();
    assert_eq!(object(IncludeObject::None), Value::Null);
    assert_eq!(
        object(IncludeObject::Object),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "3"}, "data": {"k": "v"}})
    );
    assert_eq!(object(IncludeObject::Metadata)["metadata"]["resourceVersion"], "3");
    assert_eq!(IncludeObject::parse("Object"), Some(IncludeObject::Object));
    assert_eq!(IncludeObject::parse("object"), None);
}

#[test]
fn a_single_object_gives_the_table_its_version() {
    let table = encode(printer(IncludeObject::Metadata).object(&Current::Stored(entry("a", 3))).expect("prints"));
    assert_eq!(table["metadata"], json!({"resourceVersion": "3"}));
    let made = Current::Made(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}}));
    let table = encode(printer(IncludeObject::Metadata).object(&made).expect("prints"));
    assert_eq!(table["metadata"], json!({}));
    assert_eq!(table["rows"][0]["cells"][0], "dry");
}

#[test]
fn only_the_first_event_of_a_watch_has_columns() {
    let print = |event: &WatchEvent, position| {
        encode(printer(IncludeObject::Metadata).watch_event(event, position).expect("prints").expect("is a row"))
    };
    let first = print(&WatchEvent::Added(entry("a", 3)), Position::First);
    assert_eq!(first["columnDefinitions"].as_array().map(Vec::len), Some(3));
    let deleted = print(&WatchEvent::Deleted { last: entry("a", 3), revision: Revision(5) }, Position::Later);
    assert_eq!(deleted["columnDefinitions"], Value::Null);
    assert_eq!(deleted["rows"][0]["object"]["metadata"]["resourceVersion"], "5");
    let bookmark = print(&WatchEvent::Bookmark { revision: Revision(7), initial_events_end: true }, Position::Later);
    assert_eq!(bookmark["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(
        bookmark["rows"][0]["object"]["metadata"],
        json!({"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}})
    );
}

#[test]
fn partial_metadata_of_objects_lists_and_events() {
    let one = encode(PartialObjectMetadata::of_object(&Current::Stored(entry("a", 3))).expect("reads"));
    assert_eq!(
        one,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", "resourceVersion": "3"}})
    );
    let all = encode(PartialObjectMetadataList::head(&list(), MetaVersion::V1));
    assert_eq!((&all["kind"], &all["items"]), (&json!("PartialObjectMetadataList"), &json!([])));
    assert_eq!(encode(PartialObjectMetadata::of_entry(&list().items[0]).expect("reads")), one);
    assert_eq!(all["metadata"]["continue"], "more");
    let event = WatchEvent::Bookmark { revision: Revision(7), initial_events_end: false };
    let bookmark = encode(PartialObjectMetadata::of_watch_event(&event).expect("reads"));
    assert_eq!(bookmark["metadata"], json!({"resourceVersion": "7"}));
}

#[test]
fn a_scale_is_printed_by_its_counts() {
    let value = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d", "resourceVersion": "3",
        "creationTimestamp": "1970-01-01T00:00:00Z"}, "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}});
    let table = encode(scale(&value, IncludeObject::Object, NOW));
    assert_eq!(table["rows"][0], json!({"cells": ["d", 3, 2, "5m"], "object": value}));
    assert_eq!(table["metadata"]["resourceVersion"], "3");
}
