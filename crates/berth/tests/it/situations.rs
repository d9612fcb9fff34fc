//! The situations in which a user runs `berth explain`: one table with the objects, the first cause or wait, and the advice, tested at the command's
//! output.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Berth, PATIENCE, kubectl_is_here};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Instant};

/// A row of the table.
struct Situation {
    /// Its namespace, which is also its name.
    name: &'static str,
    /// The objects in the namespace: `Namespace` labels, quotas and the like first.
    objects: Vec<Value>,
    /// The kubectl commands that follow, as soon as the workloads exist.
    then: Vec<Vec<&'static str>>,
    /// The expected explanation of each object in this list.
    asked: Vec<Asked>,
}

/// The expected explanation of an object.
struct Asked {
    object: &'static str,
    /// The reason of the first cause or wait.
    first: &'static str,
    /// The text of its line.
    text: &'static str,
    /// The beginning of an advised command; empty: any, or none.
    advises: &'static str,
    /// A text that no advised command contains.
    never: &'static str,
}

fn asked(object: &'static str, first: &'static str, says: &'static str, advises: &'static str) -> Asked {
    Asked { object, first, text: says, advises, never: "\0" }
}

impl Asked {
    fn never(self, never: &'static str) -> Self {
        Self { never, ..self }
    }
}

fn situation(name: &'static str, objects: Vec<Value>, asked: Vec<Asked>) -> Situation {
    Situation { name, objects, then: Vec::new(), asked }
}

impl Situation {
    fn then(mut self, command: &[&'static str]) -> Self {
        self.then.push(command.to_vec());
        self
    }
}

fn merged(mut into: Value, from: &Value) -> Value {
    match (&mut into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                let known = into.remove(key).unwrap_or(Value::Null);
                into.insert(key.clone(), merged(known, value));
            }
        }
        (into, from) => *into = from.clone(),
    }
    into
}

/// A Deployment `web`, or a StatefulSet `db`, of two pods; `change` is merged into it.
fn workload(kind: &str, change: &Value) -> Value {
    let name = if kind == "StatefulSet" { "db" } else { "web" };
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 600, "containers": [{"name": "main", "image": "main:1"}]}});
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}});
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!(name);
    }
    merged(object, change)
}

fn deployment(change: Value) -> Value {
    workload("Deployment", &change)
}

fn stateful_set(change: Value) -> Value {
    workload("StatefulSet", &change)
}

fn template(change: Value) -> Value {
    json!({"spec": {"template": change}})
}

fn fails(how: &str) -> Value {
    template(json!({"metadata": {"annotations": {"sim.berth.dev/fails": how}}}))
}

fn container(change: Value) -> Value {
    template(json!({"spec": {"containers": [merged(json!({"name": "main", "image": "main:1"}), &change)]}}))
}

fn quota(hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": hard}})
}

/// Possible faults of pods, and the explanations for the Deployment, its ReplicaSet, one of its pods and the StatefulSet.
fn faults_of_pods() -> Vec<Situation> {
    let table = [
        ("image", fails("ImagePullBackOff"), "image_pull", "Back-off pulling image", "kubectl set image "),
        ("crash", fails("CrashLoopBackOff"), "crash", "ended with exit code 1 (Error)", "kubectl logs "),
        ("unready", fails("NeverReady"), "not_ready", "not ready", "kubectl logs "),
        (
            "cpu",
            container(json!({"resources": {"requests": {"cpu": "1000"}}})),
            "unschedulable_resources",
            "Insufficient cpu",
            "kubectl describe nodes",
        ),
        (
            "selector",
            template(json!({"spec": {"nodeSelector": {"disk": "fast"}}})),
            "unschedulable_affinity",
            "didn't match Pod's node affinity/selector",
            "kubectl get nodes --show-labels",
        ),
        (
            "claim",
            template(json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "nope"}}]}})),
            "unschedulable_volume",
            "persistentvolumeclaim \"nope\" not found",
            "kubectl get persistentvolumeclaims ",
        ),
        (
            "gated",
            template(json!({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}})),
            "scheduling_gated",
            "held back by a scheduling gate",
            "kubectl get pod ",
        ),
        (
            "scheduler",
            template(json!({"spec": {"schedulerName": "nobody"}})),
            "not_scheduled",
            "not been seen by a scheduler",
            "kubectl get leases ",
        ),
    ];
    let all = ["deployment/web", "replicaset/", "pod/web-", "statefulset/db", "pod/db-0"];
    table
        .into_iter()
        .map(|(name, change, first, says, advises)| {
            let objects = vec![deployment(change.clone()), stateful_set(change)];
            situation(name, objects, all.into_iter().map(|object| asked(object, first, says, advises)).collect())
        })
        .collect()
}

/// The reasons why the controllers cannot create pods.
fn refusals() -> Vec<Situation> {
    let strict =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let most = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}});
    let table = [
        ("full", quota(json!({"pods": "0"})), json!({}), "quota", "exceeded quota: few", "kubectl describe resourcequotas "),
        (
            "limited",
            most,
            container(json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}})),
            "limit_range",
            "maximum cpu usage per Container is 100m",
            "kubectl describe limitranges ",
        ),
        (
            "strict",
            strict,
            template(json!({"spec": {"hostNetwork": true}})),
            "pod_security",
            "violates PodSecurity",
            "kubectl get namespace ",
        ),
        (
            "account",
            Value::Null,
            template(json!({"spec": {"serviceAccountName": "nope"}})),
            "refused",
            "serviceaccount \"nope\" not found",
            "kubectl get events ",
        ),
        (
            "priority",
            Value::Null,
            template(json!({"spec": {"priorityClassName": "nope"}})),
            "refused",
            "no PriorityClass with name nope was found",
            "kubectl get events ",
        ),
    ];
    let all = ["deployment/web", "replicaset/", "statefulset/db"];
    let mut found: Vec<_> = table
        .into_iter()
        .map(|(name, bound, change, first, says, advises)| {
            let bound = Some(bound).filter(|bound| !bound.is_null());
            let objects = bound.into_iter().chain([deployment(change.clone()), stateful_set(change)]).collect();
            situation(name, objects, all.into_iter().map(|object| asked(object, first, says, advises)).collect())
        })
        .collect();
    let sets = vec![quota(json!({"count/replicasets.apps": "0"})), deployment(json!({}))];
    found.push(situation(
        "no-sets",
        sets,
        vec![asked("deployment/web", "quota", "exceeded quota: few", "kubectl describe resourcequotas ")],
    ));
    found
}

const NEW_IMAGE: [&str; 4] = ["set", "image", "deployment/web", "main=main:2"];
const NEW_IMAGE_OF_SET: [&str; 4] = ["set", "image", "statefulset/db", "main=main:2"];

/// Waits of a Deployment that its user requested, or that every rollout has.
fn waits_of_deployments() -> Vec<Situation> {
    let (slow, held) = (
        json!({"template": {"metadata": {"annotations": {"sim.berth.dev/terminates-after": "10m"}}}}),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    let stepped = |steps: &str| deployment(json!({"metadata": {"annotations": {"berth.dev/steps": steps}}}));
    let going = "waiting for 2 terminating pods";
    vec![
        situation(
            "paused",
            vec![deployment(json!({"spec": {"paused": true}}))],
            vec![asked("deployment/web", "paused", "until you resume it", "berth rollout resume deployment/web ")],
        )
        .then(&NEW_IMAGE),
        situation(
            "at-step",
            vec![stepped("50%, pause, 100%")],
            vec![asked("deployment/web", "step_paused", "step 2 of 3, at 50%", "berth rollout promote deployment/web ")],
        )
        .then(&NEW_IMAGE),
        situation(
            "timed-step",
            vec![stepped("50%, 1h, 100%")],
            vec![asked("deployment/web", "step_lasts", "step 2 of 3, at 50%: waiting until ", "berth rollout promote deployment/web ")],
        )
        .then(&NEW_IMAGE),
        // A step settles for ten seconds, which is too short for a test here: `steps` of berth-workloads tests its text.
        situation(
            "min-ready",
            vec![deployment(json!({"spec": {"minReadySeconds": 500, "progressDeadlineSeconds": 900}}))],
            vec![
                asked("deployment/web", "min_ready", "waiting for 2 pods to stay ready for 500s", ""),
                asked("replicaset/", "min_ready", "waiting for 2 pods to stay ready for 500s", ""),
            ],
        ),
        situation(
            "recreate",
            vec![deployment(json!({"spec": merged(json!({"strategy": {"type": "Recreate"}}), &slow)}))],
            vec![asked("deployment/web", "pods_terminating", going, "kubectl get pods ").never("undo")],
        )
        .then(&NEW_IMAGE),
        situation(
            "complete",
            vec![deployment(json!({"spec": merged(json!({"podReplacementPolicy": "TerminationComplete",
                "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}}), &slow)}))],
            vec![asked("deployment/web", "pods_terminating", going, "kubectl get pods ").never("undo")],
        )
        .then(&NEW_IMAGE),
        situation(
            "deleted-pods",
            vec![deployment(
                json!({"metadata": {"annotations": {"berth.dev/deleted-pod-replacement-policy": "TerminationComplete"}}, "spec": slow}),
            )],
            vec![
                asked("deployment/web", "pods_terminating", going, "kubectl get pods "),
                asked("replicaset/", "pods_terminating", going, "kubectl get pods "),
            ],
        )
        .then(&["delete", "pods", "--all", "--wait=false"]),
        situation(
            "leaves",
            vec![deployment(held)],
            vec![asked("deployment/web", "being_deleted", "is being deleted", "kubectl get deployment/web ")],
        )
        .then(&["delete", "deployment/web", "--wait=false"]),
        situation(
            "twins",
            vec![deployment(json!({})), merged(deployment(json!({})), &json!({"metadata": {"name": "web-too"}}))],
            vec![asked("deployment/web-too", "overlap", "Deployment web", "kubectl get deployment/web-too ")],
        ),
    ]
}

/// A DaemonSet `agent`; `change` is merged into it.
fn daemon_set(change: &Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template});
    merged(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}), change)
}

/// A Job `work`; `change` is merged into it.
fn job(change: &Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}]}});
    merged(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": {"template": template}}), change)
}

/// A CronJob `backup`, which is due each minute; `change` is merged into it.
fn cron_job(change: &Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}]}});
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}});
    merged(json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup"}, "spec": spec}), change)
}

/// What DaemonSets, Jobs, CronJobs and ReplicationControllers wait for.
fn waits_of_other_owners() -> Vec<Situation> {
    let broken = r#"--patch={"spec":{"template":{"metadata":{"annotations":{"sim.berth.dev/fails":"ImagePullBackOff"}}}}}"#;
    let old = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": {"replicas": 2,
        "template": {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}}}});
    let image = |object, advises| asked(object, "image_pull", "Back-off pulling image", advises);
    let mut failed = job(&fails("CrashLoopBackOff"));
    failed["spec"]["backoffLimit"] = json!(0);
    vec![
        situation("daemons", vec![daemon_set(&json!({}))], vec![image("daemonset/agent", "berth rollout undo daemonset/agent ")]).then(&[
            "patch",
            "daemonset/agent",
            broken,
        ]),
        situation(
            "daemons-image",
            vec![daemon_set(&fails("ImagePullBackOff"))],
            vec![image("pod/agent-", "kubectl set image daemonset/agent ").never("undo")],
        ),
        situation(
            "daemons-by-hand",
            vec![daemon_set(&json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}))],
            vec![asked(
                "daemonset/agent",
                "deletion_by_hand",
                "deleted manually (OnDelete)",
                "kubectl get pods -L controller-revision-hash",
            )],
        )
        .then(&["set", "image", "daemonset/agent", "main=main:2"]),
        situation(
            "job-image",
            vec![job(&fails("ImagePullBackOff"))],
            vec![
                image("job/work", "kubectl replace --force -f MANIFEST ").never("kubectl set "),
                image("pod/work-", "kubectl replace --force -f MANIFEST ").never("kubectl set "),
            ],
        ),
        situation(
            "job-failed",
            vec![failed],
            vec![asked("job/work", "pod_failed", "ended with exit code 1", "kubectl replace --force -f MANIFEST ").never("undo")],
        ),
        situation(
            "job-suspended",
            vec![job(&json!({"spec": {"suspend": true}}))],
            vec![asked("job/work", "job_suspended", "suspend", "kubectl patch job/work ")],
        ),
        situation(
            "cron-job-suspended",
            vec![cron_job(&json!({"spec": {"suspend": true}}))],
            vec![asked("cronjob/backup", "cron_job_suspended", "no Job is created", "kubectl patch cronjob/backup ")],
        ),
        situation(
            "controller",
            vec![merged(old, &fails("ImagePullBackOff"))],
            vec![
                image("replicationcontroller/old", "kubectl set image replicationcontroller/old "),
                image("replicationcontroller/old", "kubectl delete pod old-"),
                image("pod/old-", "kubectl delete pod old-").never("undo"),
            ],
        ),
    ]
}

/// The same of a StatefulSet.
fn waits_of_stateful_sets() -> Vec<Situation> {
    let claim = |class: Value| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
        json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}})
    };
    let strategy = |strategy: Value| stateful_set(json!({"spec": {"updateStrategy": strategy}}));
    let held = r#"--patch={"metadata":{"finalizers":["example.com/hold"]}}"#;
    // A pod that crashes again and again is ready for a moment, and the set replaces it then.
    let broken = r#"--patch={"spec":{"template":{"metadata":{"annotations":{"sim.berth.dev/fails":"ImagePullBackOff"}}}}}"#;
    let stranger = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}});
    vec![
        situation(
            "partition",
            vec![strategy(json!({"rollingUpdate": {"partition": 2}}))],
            vec![asked("statefulset/db", "partition", "the partition keeps 2 pods", "kubectl patch statefulset/db ").never("undo")],
        )
        .then(&NEW_IMAGE_OF_SET),
        situation(
            "by-hand",
            vec![strategy(json!({"type": "OnDelete"}))],
            vec![asked(
                "statefulset/db",
                "deletion_by_hand",
                "deleted manually (OnDelete)",
                "kubectl get pods -L controller-revision-hash",
            )],
        )
        .then(&NEW_IMAGE_OF_SET),
        situation(
            "taken",
            vec![stranger, stateful_set(json!({}))],
            vec![asked("statefulset/db", "name_taken", "pod db-0 of another owner", "kubectl get pod db-0 ").never("undo")],
        ),
        situation(
            "no-class",
            vec![stateful_set(claim(json!("nope")))],
            vec![
                asked(
                    "statefulset/db",
                    "provisioning",
                    "claim data-db-0: storageclass.storage.k8s.io \"nope\" not found",
                    "kubectl get storageclasses",
                )
                .never("undo"),
                asked("pod/db-0", "provisioning", "storageclass.storage.k8s.io \"nope\" not found", "kubectl get storageclasses"),
            ],
        ),
        situation(
            "held-claim",
            vec![stateful_set(claim(Value::Null))],
            vec![
                asked("statefulset/db", "claim_leaving", "waiting for claim data-db-1", "kubectl describe persistentvolumeclaims ")
                    .never("undo"),
            ],
        )
        .then(&["patch", "persistentvolumeclaim/data-db-1", "--type=merge", held])
        .then(&["delete", "persistentvolumeclaim/data-db-1", "--wait=false"])
        .then(&["delete", "pod/db-1", "--grace-period=0", "--force"]),
        situation(
            "held-pod",
            vec![stateful_set(json!({}))],
            vec![asked("statefulset/db", "finalizer", "example.com/hold", "kubectl patch pod db-1 ").never("undo")],
        )
        .then(&["patch", "pod/db-1", "--type=merge", held])
        .then(&["delete", "pod/db-1", "--grace-period=0", "--force", "--wait=false"]),
        situation(
            "back",
            vec![stateful_set(json!({}))],
            vec![asked("statefulset/db", "image_pull", "cannot pull its image", "kubectl delete pod db-1 ").never("undo")],
        )
        .then(&["patch", "statefulset/db", "--type=merge", broken])
        .then(&["wait", "pod/db-1", "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ImagePullBackOff", "--timeout=60s"])
        .then(&["rollout", "undo", "statefulset/db"]),
        situation(
            "goes",
            vec![stateful_set(json!({"metadata": {"finalizers": ["example.com/hold"]}}))],
            vec![asked("statefulset/db", "being_deleted", "StatefulSet db is being deleted", "kubectl get statefulset/db ")],
        )
        .then(&["delete", "statefulset/db", "--wait=false"]),
        situation(
            "slow",
            vec![stateful_set(template(json!({"metadata": {"annotations": {"sim.berth.dev/terminates-after": "10m"}}})))],
            vec![
                asked("statefulset/db", "pod_terminating", "waiting for db-1 to terminate", ""),
                asked("pod/db-1", "pod_terminating", "waiting for db-1 to terminate", ""),
            ],
        )
        .then(&["delete", "pod/db-1", "--wait=false"]),
    ]
}

/// Makes the objects, each in the situation's namespace, and does what is done then.
fn set_up(berth: &Berth, Situation { name, objects, then, .. }: &Situation) {
    let labels = objects.iter().find(|object| object["kind"] == "Namespace").map(|object| object["metadata"].clone());
    let metadata = merged(json!({"name": name}), &labels.unwrap_or(json!({})));
    berth.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).to_string());
    for object in objects.iter().filter(|object| object["kind"] != "Namespace") {
        berth.apply(&merged(object.clone(), &json!({"metadata": {"namespace": name}})).to_string());
        if object["kind"] == "ResourceQuota" {
            // As upstream, it bounds nothing before its controller has seen it.
            berth.kubectl_until(&["get", "resourcequota/few", "-n", name, "-o", "jsonpath={.status.used}"], |used| !used.is_empty());
        }
    }
    if then.is_empty() {
        return;
    }
    for object in objects.iter().filter(|object| object["apiVersion"] == "apps/v1" && object["spec"]["paused"] != true) {
        let workload = format!("{}/{}", object["kind"].as_str().unwrap().to_lowercase(), object["metadata"]["name"].as_str().unwrap());
        let strategy = match (object["kind"].as_str().unwrap(), object["spec"]["updateStrategy"]["type"] == "OnDelete") {
            ("DaemonSet", _) => "{.status.numberAvailable}",
            (_, true) => "{.status.readyReplicas}",
            (_, false) => "{.status.availableReplicas}",
        };
        berth.kubectl_until(&["get", &workload, "-n", name, "-o", &format!("jsonpath={strategy}")], |ready| ready == "2");
    }
    for command in then {
        berth.kubectl(&[&command[..], &["-n", name]].concat());
    }
}

/// The object itself: `replicaset/` and `pod/web-` name the first of a kind whose name begins so.
fn named(berth: &Berth, namespace: &str, object: &str) -> String {
    let (kind, beginning) = object.split_once('/').unwrap();
    if !object.ends_with(['/', '-']) {
        return object.to_owned();
    }
    let prefix = if beginning.is_empty() { "web-" } else { beginning };
    let is_it = |name: &&str| name.starts_with(prefix);
    let all = berth.kubectl_until(&["get", kind, "-n", namespace, "-o", "jsonpath={.items[*].metadata.name}"], |names| {
        names.split(' ').any(|name| is_it(&name))
    });
    format!("{kind}/{}", all.split(' ').find(is_it).unwrap())
}

/// What is wrong with an explanation; `None`: nothing.
fn fault(asked: &Asked, json: &Value, text: &str) -> Option<&'static str> {
    let first = text.lines().next().unwrap_or_default();
    let commands: Vec<&str> = json["toDo"].as_array().into_iter().flatten().filter_map(|to_do| to_do["command"].as_str()).collect();
    if json["cause"]["reason"] != asked.first {
        Some("another cause is first")
    } else if !first.contains(asked.text) {
        Some("the first line says something else")
    } else if !asked.advises.is_empty() && !commands.iter().any(|command| command.starts_with(asked.advises)) {
        Some("that is not advised")
    } else if commands.iter().any(|command| command.contains(asked.never)) {
        Some("what does harm is advised")
    } else if json["next"].as_array().is_none_or(Vec::is_empty) {
        Some("nothing is said of what comes next")
    } else {
        None
    }
}

/// Repeats the command until every explanation is as in the table. Names the differences.
fn check(berth: &Berth, situations: &[Situation]) {
    situations.iter().for_each(|situation| set_up(berth, situation));
    let rows = situations.iter().flat_map(|situation| situation.asked.iter().map(|asked| (situation.name, asked)));
    let mut open: Vec<(&str, &Asked)> = rows.collect();
    let mut seen: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let started = Instant::now();
    while !open.is_empty() {
        open.retain(|(namespace, asked)| {
            let object = named(berth, namespace, asked.object);
            let json: Value = serde_json::from_str(&berth.explain(&[&object, "-n", namespace, "-o", "json"])).unwrap();
            let text = berth.explain(&[&object, "-n", namespace]);
            let fault = fault(asked, &json, &text);
            seen.insert((namespace, asked.object), format!("{}: {text}", fault.unwrap_or_default()));
            fault.is_some()
        });
        let late = || open.iter().map(|(namespace, asked)| format!("{namespace} {}: {}", asked.object, seen[&(*namespace, asked.object)]));
        assert!(started.elapsed() < PATIENCE, "{}", late().collect::<Vec<_>>().join("\n\n"));
    }
}

fn server(arguments: &[&str]) -> Option<Berth> {
    let fast = ["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
    kubectl_is_here().then(|| common::up(&[&fast[..], arguments].concat()))
}

#[test]
fn pods_that_fail_are_explained_by_what_fails() {
    let Some(berth) = server(&[]) else { return };
    check(&berth, &faults_of_pods());
}

#[test]
fn pods_that_are_refused_are_explained_by_what_refuses_them() {
    let Some(berth) = server(&[]) else { return };
    check(&berth, &refusals());
}

#[test]
fn what_workloads_wait_for_is_explained() {
    let Some(berth) = server(&[]) else { return };
    check(&berth, &waits_of_deployments());
    check(&berth, &waits_of_stateful_sets());
    check(&berth, &waits_of_other_owners());
}

#[test]
fn controllers_that_do_not_run_are_missed() {
    let Some(berth) = server(&["--controllers", "*,-deployment,-replicaset,-statefulset,-daemonset,-job,-cronjob,-replicationcontroller"])
    else {
        return;
    };
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-bare"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "bare"}}, "template": {"metadata": {"labels": {"app": "bare"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}}}});
    let old = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": {
        "template": {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}}}});
    let objects = [
        "deployment/web",
        "statefulset/db",
        "replicaset/web-bare",
        "daemonset/agent",
        "job/work",
        "cronjob/backup",
        "replicationcontroller/old",
    ];
    let each_second = cron_job(&json!({"spec": {"schedule": "@every 1s"}}));
    let asked_of = objects.map(|object| asked(object, "not_observed", "not been observed by a controller", "kubectl get leases "));
    check(
        &berth,
        &[situation(
            "nobody",
            vec![deployment(json!({})), stateful_set(json!({})), set, daemon_set(&json!({})), job(&json!({})), each_second, old],
            asked_of.into(),
        )],
    );
    let Some(berth) = server(&["--controllers", "*,-replicaset"]) else { return };
    let child = asked("deployment/web", "child_not_observed", "to be observed", "");
    check(&berth, &[situation("half", vec![deployment(json!({}))], vec![child])]);
}

#[test]
fn nodes_that_take_no_pods_are_explained_by_their_cordons() {
    let Some(berth) = server(&[]) else { return };
    let nodes = berth.kubectl_until(&["get", "nodes", "-o", "name"], |names| names.lines().count() == 2);
    nodes.lines().for_each(|node| drop(berth.kubectl(&["cordon", node])));
    let cordoned = |object| asked(object, "unschedulable_cordoned", "node(s) were unschedulable", "kubectl uncordon ").never("undo");
    let asked_of = ["deployment/web", "replicaset/", "pod/web-", "statefulset/db"].map(cordoned);
    check(&berth, &[situation("cordoned", vec![deployment(json!({})), stateful_set(json!({}))], asked_of.into())]);
}
