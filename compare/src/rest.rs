//! Clusters at rest, and what is in them.

use crate::{
    sequence::Workload,
    served::{Ask, Server},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep};

/// The interval of reads of a cluster that is coming to rest.
const READ_EVERY: Duration = Duration::from_millis(150);
/// A cluster that has not changed for so long is at rest.
const QUIET: Duration = Duration::from_millis(1200);
/// The same where a progress deadline (2 s) or `minReadySeconds` (1 s) may run.
const QUIET_WITH_DEADLINES: Duration = Duration::from_millis(4000);
/// A cluster that goes on for so long does not come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is read of a namespace.
const LISTS: &[&str] = &[
    "/apis/apps/v1/namespaces/NAMESPACE/deployments",
    "/apis/apps/v1/namespaces/NAMESPACE/replicasets",
    "/apis/apps/v1/namespaces/NAMESPACE/statefulsets",
    "/apis/apps/v1/namespaces/NAMESPACE/controllerrevisions",
    "/api/v1/namespaces/NAMESPACE/pods",
    "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
];

/// Everything of a namespace that is compared, by list.
pub(crate) struct Objects(BTreeMap<&'static str, Vec<Value>>);

impl Objects {
    async fn read(server: &Server, namespace: &str) -> Self {
        let mut objects = BTreeMap::new();
        for path in LISTS {
            let list = server.get(&path.replace("NAMESPACE", namespace)).await;
            let mut items = list["items"].as_array().cloned().unwrap_or_default();
            items.sort_by_key(|item| text(item, "/metadata/name"));
            objects.insert(path.rsplit('/').next().unwrap_or_default(), items);
        }
        Self(objects)
    }

    /// The versions of all.
    fn versions(&self) -> Vec<String> {
        let version = |item: &Value| format!("{} {}", text(item, "/metadata/uid"), text(item, "/metadata/resourceVersion"));
        self.0.values().flatten().map(version).collect()
    }

    pub(crate) fn of(&self, plural: &str) -> &[Value] {
        self.0.get(plural).map_or(&[], Vec::as_slice)
    }
}

/// Reads a namespace until nothing changes any more. `None`: it goes on changing.
pub(crate) async fn at_rest(server: &Server, namespace: &str, workload: Workload) -> Option<Objects> {
    let begun = Instant::now();
    let (mut seen, mut since) = (Vec::new(), begun);
    loop {
        let objects = Objects::read(server, namespace).await;
        let versions = objects.versions();
        if versions != seen {
            (seen, since) = (versions, Instant::now());
        }
        let object = objects.of(workload.plural()).first().cloned().unwrap_or_default();
        let is_observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let is_complete = object["status"]["readyReplicas"].as_i64().unwrap_or(0) == object["spec"]["replicas"].as_i64().unwrap_or(0);
        let has_deadlines = !is_complete || object["spec"]["minReadySeconds"].as_i64().unwrap_or(0) > 0;
        if is_observed && since.elapsed() >= if has_deadlines { QUIET_WITH_DEADLINES } else { QUIET } {
            return Some(objects);
        }
        if begun.elapsed() > PATIENCE {
            return None;
        }
        sleep(READ_EVERY).await;
    }
}

/// Deletes an object and waits until it is gone.
pub(crate) async fn delete(server: &Server, path: &str, policy: &str) {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    let delete = Ask { method: "DELETE", path: path.to_owned(), content_type: "application/json", body };
    server.ask(&delete).await;
    let read = Ask { method: "GET", path: path.to_owned(), content_type: "application/json", body: Value::Null };
    let begun = Instant::now();
    while server.ask(&read).await.status != 404 && begun.elapsed() < PATIENCE {
        sleep(READ_EVERY).await;
    }
}

/// What two clusters must have alike: no names with hashes, no times, no addresses.
pub(crate) fn comparable(objects: &Objects, workload: Workload) -> Value {
    let names = names(objects);
    let of = |plural: &str| objects.of(plural).iter();
    let mut sets: Vec<Value> = of("replicasets").map(|set| replica_set(set, &names)).collect();
    sets.sort_by_key(|set| text(set, "/annotations/deployment.kubernetes.io~1revision") + &set.to_string());
    let mut revisions: Vec<Value> = of("controllerrevisions").map(|revision| revision_of(revision, &names)).collect();
    revisions.sort_by_key(ToString::to_string);
    let mut pods: Vec<Value> = of("pods").map(|pod| pod_of(pod, &names)).collect();
    pods.sort_by_key(|pod| format!("{} {pod}", pod["name"]));
    json!({
        "workload": objects.of(workload.plural()).iter().map(|object| workload_of(object, &names)).collect::<Vec<_>>(),
        "sets": sets,
        "revisions": revisions,
        "pods": pods,
        "claims": of("persistentvolumeclaims").map(|claim| claim_of(claim, &names)).collect::<Vec<_>>(),
    })
}

/// Names with hashes, and their replacements: the revisions.
fn names(objects: &Objects) -> Vec<(String, String)> {
    let set = |set: &Value| {
        let revision = text(set, "/metadata/annotations/deployment.kubernetes.io~1revision");
        let hash = text(set, "/metadata/labels/pod-template-hash");
        [(text(set, "/metadata/name"), format!("$set-{revision}")), (hash, format!("$hash-{revision}"))]
    };
    let revision = |object: &Value| (text(object, "/metadata/name"), format!("$revision-{}", object["revision"]));
    let mut names: Vec<_> =
        objects.of("replicasets").iter().flat_map(set).chain(objects.of("controllerrevisions").iter().map(revision)).collect();
    // A revision's pods have its hash alone in one of their labels.
    let hashes: Vec<_> = names.iter().filter_map(|(name, to)| Some((name.rsplit_once('-')?.1.to_owned(), to.clone()))).collect();
    names.extend(hashes.into_iter().filter(|(_, to)| to.starts_with("$revision")));
    names.retain(|(name, _)| !name.is_empty());
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
}

/// All texts with names replaced.
fn named(value: &Value, names: &[(String, String)]) -> Value {
    match value {
        Value::String(text) => json!(names.iter().fold(text.clone(), |text, (name, to)| text.replace(name, to))),
        Value::Array(items) => items.iter().map(|item| named(item, names)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), named(value, names))).collect(),
        other => other.clone(),
    }
}

fn workload_of(object: &Value, names: &[(String, String)]) -> Value {
    let mut status = object["status"].clone();
    status["conditions"] = conditions(&object["status"]);
    let fields = json!({
        "generation": object["metadata"]["generation"],
        "annotations": object["metadata"]["annotations"],
        "spec": object["spec"],
        "status": status,
    });
    named(&fields, names)
}

/// What berth must have where upstream has this state.
pub(crate) fn wanted(mut theirs: Value) -> Value {
    for workload in theirs["workload"].as_array_mut().into_iter().flatten() {
        let newest = format!("$set-{}", text(workload, "/annotations/deployment.kubernetes.io~1revision"));
        let is_recreated = workload["spec"]["strategy"]["type"] == "Recreate" || workload["spec"]["replicas"] == 0;
        if let Some(message) = workload.pointer_mut("/status/conditions/Progressing/message").filter(|_| is_recreated) {
            // docs/deviations.md: upstream's message may name the previous ReplicaSet. berth's must name the newest one.
            name_set(message, &newest);
        }
    }
    theirs
}

/// Replaces the ReplicaSet that a message is about: `ReplicaSet "web-7c9" has successfully progressed.`
fn name_set(message: &mut Value, set: &str) {
    if let Some((_, rest)) = message.as_str().and_then(|text| text.strip_prefix("ReplicaSet \"")?.split_once('"')) {
        *message = json!(format!("ReplicaSet \"{set}\"{rest}"));
    }
}

fn replica_set(set: &Value, names: &[(String, String)]) -> Value {
    let mut status = set["status"].clone();
    status["conditions"] = conditions(&set["status"]);
    // In how many writes a size was reached depends on time.
    status["observedGeneration"] = json!(set["status"]["observedGeneration"] == set["metadata"]["generation"]);
    let fields = json!({
        "annotations": set["metadata"]["annotations"],
        "labels": set["metadata"]["labels"],
        "owners": owners(set),
        "spec": set["spec"],
        "status": status,
    });
    named(&fields, names)
}

fn revision_of(revision: &Value, names: &[(String, String)]) -> Value {
    let fields = json!({
        "data": revision["data"],
        "labels": revision["metadata"]["labels"],
        "owners": owners(revision),
        "revision": revision["revision"],
    });
    named(&fields, names)
}

fn pod_of(pod: &Value, names: &[(String, String)]) -> Value {
    let is_ordinal = pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"].is_string();
    let ready = conditions(&pod["status"]).pointer("/Ready/status").cloned();
    let fields = json!({
        "name": is_ordinal.then(|| pod["metadata"]["name"].clone()),
        "labels": pod["metadata"]["labels"],
        "annotations": without_contents(&pod["metadata"]["annotations"]),
        "owners": owners(pod),
        "image": pod["spec"]["containers"][0]["image"],
        "phase": pod["status"]["phase"],
        "ready": ready,
        "terminates": pod["metadata"]["deletionTimestamp"].is_string(),
    });
    named(&fields, names)
}

/// Simulated nodes draw what is in a volume.
fn without_contents(annotations: &Value) -> Value {
    let mut annotations = annotations.clone();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove("berth.dev/content-ids");
    }
    if annotations.as_object().is_some_and(Map::is_empty) { Value::Null } else { annotations }
}

fn claim_of(claim: &Value, names: &[(String, String)]) -> Value {
    let fields = json!({
        "name": claim["metadata"]["name"],
        "labels": claim["metadata"]["labels"],
        "annotations": claim["metadata"]["annotations"],
        "finalizers": claim["metadata"]["finalizers"],
        "owners": owners(claim),
        "phase": claim["status"]["phase"],
    });
    named(&fields, names)
}

/// Kinds and names of owners, in their order.
fn owners(object: &Value) -> Value {
    let owner = |owner: &Value| json!([owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"]]);
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(owner).collect()
}

/// Conditions by type, without times.
fn conditions(status: &Value) -> Value {
    let mut found = Map::new();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let kept = json!({"status": condition["status"], "reason": condition["reason"], "message": condition["message"]});
        found.insert(text(condition, "/type"), kept);
    }
    Value::Object(found)
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn berth_must_name_the_newest_set_where_upstream_may_name_the_previous_one() {
        let state = |strategy: &str, replicas: i64, set: &str| {
            let message = format!("ReplicaSet \"{set}\" has successfully progressed.");
            json!({"workload": [{
                "annotations": {"deployment.kubernetes.io/revision": "3"},
                "spec": {"strategy": {"type": strategy}, "replicas": replicas},
                "status": {"conditions": {"Progressing": {"message": message}}},
            }]})
        };
        assert_eq!(wanted(state("Recreate", 2, "$set-2")), state("Recreate", 2, "$set-3"));
        assert_eq!(wanted(state("RollingUpdate", 0, "$set-2")), state("RollingUpdate", 0, "$set-3"));
        assert_eq!(wanted(state("RollingUpdate", 2, "$set-2")), state("RollingUpdate", 2, "$set-2"));
        let without = json!({"workload": [{"spec": {"strategy": {"type": "Recreate"}}, "status": {"conditions": {}}}]});
        assert_eq!(wanted(without.clone()), without);
    }
}
