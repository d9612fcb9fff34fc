//! One sequence of changes of a workload, on both clusters, compared whenever both are at rest.

use crate::{
    accepted::explains,
    case::Seen,
    differ::{Difference, compare},
    normal::{normal, to_send},
    rest::{Objects, at_rest, comparable, delete, node_of, wanted},
    sequence::{Operation, Sequence, Workload},
    served::{Answer, Ask, Pair, Server},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// How many volumes there are for claims.
const VOLUMES: usize = 5;

/// Runs the sequence of a seed in a namespace of its own. `again`: which time it is.
pub(crate) async fn run(pair: &Pair, seed: u64, again: u32, is_traced: bool) -> Seen {
    let namespace = format!("s{seed}-{again}");
    let sequence = Sequence::new(seed);
    let mut seen = Seen::default();
    let servers = [&pair.theirs, &pair.ours];
    futures::future::join_all(servers.map(|server| begin(server, &namespace, &sequence))).await;
    let mut operations = sequence.operations.iter();
    let mut last: Option<&Operation> = None;
    loop {
        let rests = futures::future::join_all(servers.map(|server| at_rest(server, &namespace, sequence.workload))).await;
        let [theirs, ours] = &rests[..] else { unreachable!("there are two") };
        let verb = last.map_or("create", Operation::name);
        let counts = seen.requests.entry(verb).or_default();
        counts[0] += 1;
        counts[1] += u64::from(theirs.is_some());
        let differences = states(theirs.as_ref(), ours.as_ref(), sequence.workload);
        if is_traced {
            let said = differences.iter().map(|difference| {
                format!("\n  ! {}\n      theirs: {}\n      ours:   {}", difference.class, difference.theirs, difference.ours)
            });
            crate::print::print(&format!("{namespace} {last:?}{}", said.collect::<String>()));
        }
        let found: Vec<_> = differences.into_iter().map(|difference| (verb, difference)).collect();
        let goes_on = is_accepted(&kind(sequence.workload), &found);
        for (verb, difference) in found {
            if !seen.found.iter().any(|(_, known)| known.class == difference.class) {
                seen.found.push((verb, difference));
            }
        }
        // What differs once differs in all that follows.
        if !goes_on {
            break;
        }
        let Some(operation) = operations.next() else { break };
        let now = Timestamp::now();
        futures::future::join_all(
            servers.iter().zip(&rests).map(|(server, rest)| execute(server, &namespace, sequence.workload, operation, rest.as_ref(), now)),
        )
        .await;
        last = Some(operation);
    }
    futures::future::join_all(servers.map(|server| end(server, &namespace, &sequence))).await;
    seen
}

/// The name under which its differences are reported.
pub(crate) fn kind(workload: Workload) -> String {
    format!("{workload:?} at rest")
}

/// Whether docs/deviations.md explains all of them.
pub(crate) fn is_accepted(kind: &str, found: &[(&'static str, Difference)]) -> bool {
    found.iter().all(|(_, difference)| explains(&format!("{kind} {}", difference.class)).is_some())
}

impl Operation {
    fn name(&self) -> &'static str {
        match self {
            Self::Patch(_) => "patch",
            Self::PatchTarget(_) => "patch of the Deployment",
            Self::Backdate(_) => "backdate",
            Self::DeleteJobs(_) => "delete Jobs",
            Self::DeletePods(_) => "delete pods",
            Self::DeleteReplicaSet => "delete ReplicaSet",
            Self::Recreate(_) => "delete and create",
        }
    }
}

fn states(theirs: Option<&Objects>, ours: Option<&Objects>, workload: Workload) -> Vec<Difference> {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => {
            let answer = |body: Value| Answer { status: 200, warnings: Vec::new(), body };
            compare(&answer(wanted(comparable(theirs, workload))), &answer(comparable(ours, workload)))
        }
        (None, None) => Vec::new(),
        _ => {
            let said = |objects: Option<&Objects>| if objects.is_some() { "at rest" } else { "goes on changing" }.to_owned();
            vec![Difference { class: format!("rest: {} → {}", said(theirs), said(ours)), theirs: said(theirs), ours: said(ours) }]
        }
    }
}

fn collection(namespace: &str, workload: Workload) -> String {
    format!("/apis/{}/namespaces/{namespace}/{}", workload.api_version(), workload.plural())
}

/// The collection of the Deployment that an autoscaler scales.
fn targets(namespace: &str) -> String {
    collection(namespace, Workload::Deployment)
}

async fn begin(server: &Server, namespace: &str, sequence: &Sequence) {
    server.create("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
    let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    if !server.create(&path, account.clone()).await.is_good() {
        server.ask(&Ask { method: "PUT", path: format!("{path}/default"), content_type: "application/json", body: account }).await;
    }
    for place in 0..if sequence.has_claims { VOLUMES } else { 0 } {
        let volume = json!({
            "metadata": {"name": format!("{namespace}-{place}")},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/data"},
                "claimRef": {"namespace": namespace, "name": format!("data-web-{place}")},
            },
        });
        server.create("/api/v1/persistentvolumes", volume).await;
    }
    if let Some(target) = &sequence.target {
        let made = server.create(&targets(namespace), target.clone()).await;
        assert!(made.is_good(), "{} {}", made.status, made.body);
    }
    let made = server.create(&collection(namespace, sequence.workload), sequence.object.clone()).await;
    assert!(made.is_good(), "{} {}", made.status, made.body);
}

async fn execute(server: &Server, namespace: &str, workload: Workload, operation: &Operation, rest: Option<&Objects>, now: Timestamp) {
    let (collection, Some(rest)) = (collection(namespace, workload), rest) else { return };
    let path = format!("{collection}/web");
    match operation {
        Operation::Patch(patch) => {
            patch_at(server, path, patch.clone()).await;
        }
        Operation::PatchTarget(patch) => patch_at(server, format!("{}/web", targets(namespace)), patch.clone()).await,
        Operation::Backdate(minutes) => {
            let minutes = i64::try_from(*minutes).unwrap_or(i64::MAX);
            let before = now.checked_sub(SignedDuration::from_mins(minutes)).unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            patch_at(server, format!("{path}/status"), json!({"status": {"lastScheduleTime": before}})).await;
        }
        Operation::DeleteJobs(count) => {
            for job in rest.of("jobs").iter().take(*count) {
                let name = job["metadata"]["name"].as_str().unwrap_or_default();
                delete_one(server, format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}"), "Background").await;
            }
        }
        Operation::DeletePods(count) => {
            let mut pods: Vec<&Value> = rest.of("pods").iter().collect();
            // Names are drawn by each server; templates, nodes of daemons and indexes are not.
            let text = |pod: &Value, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let index = "/metadata/annotations/batch.kubernetes.io~1job-completion-index";
            pods.sort_by_key(|pod| {
                [text(pod, "/spec/containers/0/image"), text(pod, index), node_of(pod, workload), text(pod, "/status/phase")]
            });
            for pod in pods.into_iter().take(*count) {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                delete_one(server, format!("/api/v1/namespaces/{namespace}/pods/{name}"), "Background").await;
            }
        }
        Operation::DeleteReplicaSet => {
            let revision = |set: &&Value| {
                set.pointer("/metadata/annotations/deployment.kubernetes.io~1revision")
                    .and_then(Value::as_str)
                    .and_then(|text| text.parse::<u64>().ok())
            };
            let Some(newest) = rest.of("replicasets").iter().min_by_key(|set| Reverse(revision(set))) else { return };
            let name = newest["metadata"]["name"].as_str().unwrap_or_default();
            delete(server, &format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"), "Foreground").await;
        }
        Operation::Recreate(policy) => {
            let Some(object) = rest.of(workload.plural()).first() else { return };
            let mut again = to_send(&normal(object, &Value::Null));
            if let Some(fields) = again.as_object_mut() {
                fields.remove("status");
            }
            (again["apiVersion"], again["kind"]) = (json!(workload.api_version()), json!(format!("{workload:?}")));
            delete(server, &path, policy).await;
            // What the collector deletes of the former object is gone first.
            at_rest(server, namespace, workload).await;
            let made = server.create(&collection, again).await;
            assert!(made.is_good(), "{} {}", made.status, made.body);
        }
    }
}

async fn patch_at(server: &Server, path: String, body: Value) {
    server.ask(&Ask { method: "PATCH", path, content_type: "application/strategic-merge-patch+json", body }).await;
}

async fn delete_one(server: &Server, path: String, policy: &str) {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    server.ask(&Ask { method: "DELETE", path, content_type: "application/json", body }).await;
}

/// Deletes what was made, so that later sequences have room on the nodes.
async fn end(server: &Server, namespace: &str, sequence: &Sequence) {
    delete_one(server, format!("/api/v1/namespaces/{namespace}"), "Background").await;
    for place in 0..if sequence.has_claims { VOLUMES } else { 0 } {
        delete_one(server, format!("/api/v1/persistentvolumes/{namespace}-{place}"), "Background").await;
    }
}
