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
/// The same while a Job may wait 10 s after its first failure, or 20 s after its second.
const QUIET_AFTER_FAILURES: Duration = Duration::from_secs(23);
/// The same of an autoscaler, which acts every 15 s.
const QUIET_OF_AUTOSCALERS: Duration = Duration::from_secs(34);
/// A cluster that goes on for so long does not come to rest.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for autoscalers, which may add four pods every 15 s.
const PATIENCE_WITH_AUTOSCALERS: Duration = Duration::from_secs(180);

/// Everything of a namespace that is compared, by list.
pub(crate) struct Objects(BTreeMap<&'static str, Vec<Value>>);

impl Objects {
    async fn read(server: &Server, namespace: &str, workload: Workload) -> Self {
        let mut objects = BTreeMap::new();
        for path in workload.lists() {
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
        let objects = Objects::read(server, namespace, workload).await;
        let versions = objects.versions();
        if versions != seen {
            (seen, since) = (versions, Instant::now());
        }
        if quiet(&objects, workload).is_some_and(|quiet| since.elapsed() >= quiet) {
            return Some(objects);
        }
        if begun.elapsed() > if workload == Workload::HorizontalPodAutoscaler { PATIENCE_WITH_AUTOSCALERS } else { PATIENCE } {
            return None;
        }
        sleep(READ_EVERY).await;
    }
}

/// After how long without a change nothing more will change. `None`: a controller has not seen the last change of the workload.
fn quiet(objects: &Objects, workload: Workload) -> Option<Duration> {
    let object = objects.of(workload.plural()).first().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let (spec, status) = (&object["spec"], &object["status"]);
    let is_complete = match workload {
        Workload::Deployment | Workload::StatefulSet => number(&status["readyReplicas"]) == number(&spec["replicas"]),
        Workload::DaemonSet => {
            let pods = number(&status["desiredNumberScheduled"]);
            number(&status["numberAvailable"]) == pods && number(&status["updatedNumberScheduled"]) == pods
        }
        Workload::Job => return Some(quiet_of_job(&object)),
        Workload::CronJob => return objects.of("jobs").iter().map(quiet_of_job).max().or(Some(QUIET_WITH_DEADLINES)),
        Workload::HorizontalPodAutoscaler => return Some(QUIET_OF_AUTOSCALERS),
    };
    let has_deadlines = !is_complete || number(&spec["minReadySeconds"]) > 0;
    let is_observed = status["observedGeneration"] == object["metadata"]["generation"];
    is_observed.then_some(if has_deadlines { QUIET_WITH_DEADLINES } else { QUIET })
}

fn quiet_of_job(job: &Value) -> Duration {
    let is_true = |name: &str| conditions(&job["status"]).pointer(&format!("/{name}/status")).is_some_and(|status| status == "True");
    let has_ended = is_true("Complete") || is_true("Failed");
    let has_failed_pods = job["status"]["failed"].as_i64().unwrap_or(0) > 0;
    if has_failed_pods && !has_ended && !is_true("Suspended") { QUIET_AFTER_FAILURES } else { QUIET_WITH_DEADLINES }
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
    let mut pods: Vec<Value> = of("pods").map(|pod| pod_of(pod, workload, &names)).collect();
    pods.sort_by_key(|pod| format!("{} {pod}", pod["name"]));
    json!({
        "workload": objects.of(workload.plural()).iter().map(|object| workload_of(object, workload, &names)).collect::<Vec<_>>(),
        "jobs": of("jobs").filter(|_| workload == Workload::CronJob).map(|job| job_of(job, &names)).collect::<Vec<_>>(),
        "target": of("deployments").filter(|_| workload == Workload::HorizontalPodAutoscaler).map(|target| target["spec"]["replicas"].clone()).collect::<Vec<_>>(),
        "sets": sets,
        "revisions": revisions,
        "pods": pods,
        "claims": of("persistentvolumeclaims").map(|claim| claim_of(claim, &names)).collect::<Vec<_>>(),
    })
}

/// Names with hashes, and their replacements: the revisions. A Job's uid is in its labels and in its selector.
fn names(objects: &Objects) -> Vec<(String, String)> {
    let set = |set: &Value| {
        let revision = text(set, "/metadata/annotations/deployment.kubernetes.io~1revision");
        let hash = text(set, "/metadata/labels/pod-template-hash");
        [(text(set, "/metadata/name"), format!("$set-{revision}")), (hash, format!("$hash-{revision}"))]
    };
    let revision = |object: &Value| (text(object, "/metadata/name"), format!("$revision-{}", object["revision"]));
    let mut names: Vec<_> =
        objects.of("replicasets").iter().flat_map(set).chain(objects.of("controllerrevisions").iter().map(revision)).collect();
    names.extend(objects.of("jobs").iter().map(|job| (text(job, "/metadata/uid"), "$uid".to_owned())));
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

fn workload_of(object: &Value, workload: Workload, names: &[(String, String)]) -> Value {
    let mut status = object["status"].clone();
    match workload {
        Workload::Deployment | Workload::StatefulSet | Workload::DaemonSet => (),
        Workload::Job | Workload::CronJob | Workload::HorizontalPodAutoscaler => own_values(&mut status),
    }
    status["conditions"] = conditions(&object["status"]);
    let fields = json!({
        "generation": object["metadata"]["generation"],
        "annotations": object["metadata"]["annotations"],
        "spec": object["spec"],
        "status": status,
    });
    named(&fields, names)
}

/// Replaces each server's own values: times, uids and versions. The last start of a CronJob is a time of its schedule, which is compared.
fn own_values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_own = name == "uid" || name == "resourceVersion" || (name.ends_with("Time") && name != "lastScheduleTime");
                if is_own && value.is_string() {
                    *value = json!(format!("${name}"));
                } else {
                    own_values(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(own_values),
        _ => (),
    }
}

/// A Job of a CronJob.
fn job_of(job: &Value, names: &[(String, String)]) -> Value {
    let mut status = job["status"].clone();
    own_values(&mut status);
    status["conditions"] = conditions(&job["status"]);
    let metadata = &job["metadata"];
    let fields = json!({
        "name": metadata["name"],
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "owners": owners(job),
        "spec": job["spec"],
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

/// The node of a daemon. The nodes of other pods are chosen by each server.
pub(crate) fn node_of(pod: &Value, workload: Workload) -> String {
    if workload == Workload::DaemonSet { text(pod, "/spec/nodeName") } else { String::new() }
}

fn pod_of(pod: &Value, workload: Workload, names: &[(String, String)]) -> Value {
    let is_ordinal = pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"].is_string();
    let ready = conditions(&pod["status"]).pointer("/Ready/status").cloned();
    let fields = json!({
        "name": is_ordinal.then(|| pod["metadata"]["name"].clone()),
        "labels": pod["metadata"]["labels"],
        "annotations": without_contents(&pod["metadata"]["annotations"]),
        "owners": owners(pod),
        "image": pod["spec"]["containers"][0]["image"],
        "node": node_of(pod, workload),
        "finalizers": pod["metadata"]["finalizers"],
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
