//! The causes of workloads, each by what its objects show.

use super::*;
use crate::view::View;
use berth_identity::Revision;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).expect("in range")
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn deployment(spec: &Value, status: &Value) -> DeploymentView {
    let mut object = json!({
        "metadata": {"name": "web", "uid": "d"}, "status": status,
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web:2")},
    });
    object["spec"].as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    DeploymentView::decode(object.to_string().as_bytes(), Revision(0)).expect("a Deployment")
}

fn owner(kind: &str, uid: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": uid, "uid": uid, "controller": true}])
}

/// A ReplicaSet of the Deployment that wants three pods.
fn set(name: &str, image: &str, status: &Value) -> Arc<ReplicaSetView> {
    let object = json!({
        "metadata": {"name": name, "uid": name, "ownerReferences": owner("Deployment", "d")},
        "spec": {"replicas": 3, "template": template(image)}, "status": status,
    });
    Arc::new(ReplicaSetView::decode(object.to_string().as_bytes(), Revision(0)).expect("a ReplicaSet"))
}

fn pod(name: &str, owners: &Value, metadata: &Value, waiting: &str) -> Arc<PodView> {
    let mut object = json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": at(0), "ownerReferences": owners}, "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": waiting, "message": name}}}]},
    });
    object["metadata"].as_object_mut().expect("a map").extend(metadata.as_object().expect("a map").clone());
    Arc::new(PodView::decode(object.to_string().as_bytes(), Revision(0)).expect("a pod"))
}

fn pod_of(set: &str, name: &str, waiting: &str) -> Arc<PodView> {
    pod(name, &owner("ReplicaSet", set), &json!({}), waiting)
}

fn quota(missing: i32) -> Value {
    let text = "pods \"web-2-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": text});
    json!({"replicas": 3 - missing, "conditions": [condition]})
}

fn texts(causes: &Causes) -> Vec<String> {
    causes.list.iter().map(ToString::to_string).collect()
}

fn causes_of(deployment: &DeploymentView, sets: &[Arc<ReplicaSetView>], pods: &[Arc<PodView>], second: i64) -> Causes {
    let gates = FeatureGates::default();
    of_deployment(&DeploymentFacts { deployment, sets, pods, events: &[], gates: &gates, unobserved_since: None, now: at(second) })
}

#[test]
fn causes_of_a_deployment_are_counted_and_ranked() {
    let web = deployment(&json!({}), &json!({}));
    let sets = [set("web-1", "web:1", &quota(3)), set("web-2", "web:2", &quota(1))];
    let pods = [
        pod_of("web-2", "web-2-c", "CrashLoopBackOff"),
        pod_of("web-2", "web-2-b", "ErrImagePull"),
        pod_of("web-2", "web-2-a", "ErrImagePull"),
        pod_of("web-1", "web-1-a", "CreateContainerError"),
        pod_of("other", "other", "CreateContainerError"),
    ];
    let wanted = [
        "2 pods cannot pull their images, e.g. web-2-a: ErrImagePull: web-2-a",
        "web-2-c keeps crashing: CrashLoopBackOff: web-2-c",
        "1 pod of ReplicaSet web-2 is not created because of a quota: pods \"web-2-x\" is forbidden: exceeded quota: q, requested: pods=1, \
         used: pods=2, limited: pods=2",
    ];
    assert_eq!(texts(&causes_of(&web, &sets, &pods, 1)), wanted);
}

#[test]
fn older_sets_count_where_the_newest_wants_no_pods() {
    let paused = deployment(&json!({"template": template("web:3")}), &json!({}));
    let pods = [pod_of("web-2", "web-2-a", "ErrImagePull")];
    let found = causes_of(&paused, &[set("web-2", "web:2", &json!({}))], &pods, 1);
    assert_eq!(texts(&found), ["web-2-a cannot pull its image: ErrImagePull: web-2-a"]);
}

#[test]
fn a_refusal_is_over_when_no_pod_is_missing() {
    let web = deployment(&json!({}), &json!({}));
    assert_eq!(causes_of(&web, &[set("web-2", "web:2", &quota(0))], &[], 1), Causes::default());
}

#[test]
fn the_latest_event_reports_what_a_condition_does_not_yet() {
    let (web, gates, sets) = (deployment(&json!({}), &json!({})), FeatureGates::default(), [set("web-2", "web:2", &quota(1))]);
    let events = [
        event("web-2", 1, "Error creating: earlier"),
        event("web-2", 2, "(combined from similar events): Error creating: now"),
        event("other", 3, "no"),
    ];
    let facts =
        DeploymentFacts { deployment: &web, sets: &sets, pods: &[], events: &events, gates: &gates, unobserved_since: None, now: at(4) };
    assert_eq!(texts(&of_deployment(&facts)), ["1 pod of ReplicaSet web-2 cannot be created: now"]);
}

#[test]
fn the_conditions_of_a_deployment_count_where_its_sets_cannot_be_read() {
    let condition = |type_: &str, status: &str, reason: &str| json!({"updatedReplicas": 1, "conditions": [{"type": type_, "status": status, "reason": reason, "message": "exceeded quota: q"}]});
    let refused = deployment(&json!({}), &condition("ReplicaFailure", "True", "FailedCreate"));
    assert_eq!(
        texts(&causes_of(&refused, &[], &[], 1)),
        ["2 pods of Deployment web are not created because of a quota: exceeded quota: q"]
    );
    assert_eq!(causes_of(&refused, &[set("web-2", "web:2", &json!({}))], &[], 1), Causes::default(), "the set knows better");
    let goes_on = deployment(&json!({}), &condition("Progressing", "True", "ReplicaSetUpdated"));
    assert_eq!(causes_of(&goes_on, &[], &[], 1), Causes::default());
    let no_set = deployment(&json!({}), &condition("Progressing", "False", "ReplicaSetCreateError"));
    assert_eq!(texts(&causes_of(&no_set, &[], &[], 1)), ["3 pods of Deployment web are not created because of a quota: exceeded quota: q"]);
}

/// Until the set exists, the status is about the template before and shows no missing pod.
#[test]
fn a_set_that_cannot_be_created_is_reported_and_no_controller_is_blamed() {
    let message = "Failed to create new replica set \"web-2\": replicasets.apps \"web-2\" is forbidden: exceeded quota: q";
    let failed = json!({"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError", "message": message});
    let web = deployment(&json!({}), &json!({"updatedReplicas": 3, "conditions": [failed]}));
    let found = |sets: &[Arc<ReplicaSetView>]| {
        let facts = DeploymentFacts {
            deployment: &web,
            sets,
            pods: &[],
            events: &[],
            gates: &FeatureGates::default(),
            unobserved_since: Some(at(0)),
            now: at(60),
        };
        texts(&of_deployment(&facts))
    };
    let wanted = [format!("3 pods of Deployment web are not created because of a quota: {message}")];
    assert_eq!([found(&[]), found(&[set("web-1", "web:1", &json!({}))])], [wanted.to_vec(), wanted.to_vec()]);
    assert_eq!(found(&[set("web-2", "web:2", &json!({}))]), ["Deployment web has not been observed by a controller"], "it is there by now");
}

/// Without a progress deadline, the status has no condition for the failure.
#[test]
fn a_set_that_cannot_be_created_is_reported_from_events_too() {
    let (web, message) = (deployment(&json!({}), &json!({})), "Failed to create new replica set \"web-2\": exceeded quota: q");
    let found = |second: i64, unobserved_since| {
        let events = [event_of("d", second, ("ReplicaSetCreateError", message))];
        let gates = &FeatureGates::default();
        let facts = DeploymentFacts { deployment: &web, sets: &[], pods: &[], events: &events, gates, unobserved_since, now: at(60) };
        texts(&of_deployment(&facts))
    };
    assert_eq!(found(7, Some(at(5))), [format!("3 pods of Deployment web are not created because of a quota: {message}")]);
    assert_eq!(found(4, Some(at(5))), ["Deployment web has not been observed by a controller"], "it is about the spec before");
    assert_eq!(found(7, None), [] as [&str; 0], "the newest spec is observed");
}

#[test]
fn a_revision_that_cannot_be_created_is_reported_and_no_controller_is_blamed() {
    let text = "Create ControllerRevision db-7c9 in StatefulSet db failed error: exceeded quota: q";
    let object = json!({"metadata": {"name": "db", "uid": "s"}, "spec": {"replicas": 3, "template": template("db:2")}});
    let set = StatefulSetView::decode(object.to_string().as_bytes(), Revision(0)).expect("a StatefulSet");
    let found = |second: i64, unobserved_since| {
        let facts = StatefulSetFacts { set: &set, pods: &[], events: &[event("s", second, text)], unobserved_since, now: at(60) };
        texts(&of_stateful_set(&facts))
    };
    assert_eq!(found(7, Some(at(5))), ["3 pods of StatefulSet db are not created because of a quota: exceeded quota: q"]);
    assert_eq!(found(4, Some(at(5))), ["StatefulSet db has not been observed by a controller"], "it is about the spec before");
    assert_eq!(found(7, None), [] as [&str; 0], "the newest spec is observed");
}

#[test]
fn pods_that_stay_terminating_count_where_a_controller_waits_for_them() {
    let going = json!({"deletionTimestamp": at(30), "finalizers": ["example.com/hold"]});
    let pods = [pod("web-1-a", &owner("ReplicaSet", "web-1"), &going, "")];
    let sets = [set("web-1", "web:1", &json!({})), set("web-2", "web:2", &json!({}))];
    let check = |spec: &Value, wanted: &[&str]| {
        let web = deployment(spec, &json!({}));
        assert_eq!(texts(&causes_of(&web, &sets, &pods, 31)), wanted, "{spec}");
    };
    let held = "web-1-a has ended but a finalizer holds it: example.com/hold";
    check(&json!({}), &[]);
    check(&json!({"podReplacementPolicy": "TerminationComplete"}), &[held]);
    check(&json!({"strategy": {"type": "Recreate"}}), &[held]);
    let web = deployment(&json!({"podReplacementPolicy": "TerminationComplete"}), &json!({}));
    let gates = FeatureGates::parse("DeploymentPodReplacementPolicy=false").expect("a gate");
    let facts =
        DeploymentFacts { deployment: &web, sets: &sets, pods: &pods, events: &[], gates: &gates, unobserved_since: None, now: at(31) };
    assert_eq!(of_deployment(&facts), Causes::default(), "the controllers do not wait");
}

#[test]
fn a_future_cause_has_the_time_when_it_becomes_one() {
    let web = deployment(&json!({"podReplacementPolicy": "TerminationComplete"}), &json!({}));
    let going = |name: &str, second: i64| {
        pod(name, &owner("ReplicaSet", "web-1"), &json!({"deletionTimestamp": at(second), "finalizers": ["a/b"]}), "")
    };
    let sets = [set("web-1", "web:1", &json!({})), set("web-2", "web:2", &json!({}))];
    let early = causes_of(&web, &sets, &[going("a", 40), going("b", 30)], 1);
    assert_eq!(early, Causes { list: vec![], requeue_at: Some(at(30)) });
}

#[test]
fn an_object_that_no_controller_observes_is_reported_after_ten_seconds() {
    let (web, gates) = (deployment(&json!({}), &json!({})), FeatureGates::default());
    let causes_of = |second: i64| {
        let (sets, pods, events) = (&[], &[], &[]);
        of_deployment(&DeploymentFacts {
            deployment: &web,
            sets,
            pods,
            events,
            gates: &gates,
            unobserved_since: Some(at(0)),
            now: at(second),
        })
    };
    assert_eq!(causes_of(9), Causes { list: vec![], requeue_at: Some(at(10)) });
    assert_eq!(texts(&causes_of(10)), ["Deployment web has not been observed by a controller"]);
}

fn db(pods: &[Arc<PodView>], events: &[Arc<EventView>]) -> Causes {
    let object = json!({"metadata": {"name": "db", "uid": "s"}, "spec": {"replicas": 3, "template": template("db:1")}});
    let set = StatefulSetView::decode(object.to_string().as_bytes(), Revision(0)).expect("a StatefulSet");
    of_stateful_set(&StatefulSetFacts { set: &set, pods, events, unobserved_since: None, now: at(1) })
}

fn member(name: &str, metadata: &Value, waiting: &str) -> Arc<PodView> {
    pod(name, &owner("StatefulSet", "s"), metadata, waiting)
}

#[test]
fn pods_of_a_stateful_set_count_whatever_their_revision() {
    let pods = [
        member("db-1", &json!({}), "ErrImagePull"),
        member("db-7", &json!({}), "ErrImagePull"),
        member("db-8", &json!({"deletionTimestamp": at(1), "finalizers": ["a/b"]}), ""),
        pod("db-2", &owner("StatefulSet", "other"), &json!({}), "ErrImagePull"),
    ];
    let wanted = ["db-1 cannot pull its image: ErrImagePull: db-1", "db-8 has ended but a finalizer holds it: a/b"];
    assert_eq!(texts(&db(&pods, &[])), wanted);
}

fn event(uid: &str, second: i64, message: &str) -> Arc<EventView> {
    event_of(uid, second, ("FailedCreate", message))
}

fn event_of(uid: &str, second: i64, (reason, message): (&str, &str)) -> Arc<EventView> {
    let object = json!({
        "metadata": {"name": "e"}, "involvedObject": {"uid": uid}, "reason": reason, "message": message, "lastTimestamp": at(second),
    });
    Arc::new(EventView::decode(object.to_string().as_bytes()).expect("an event"))
}

#[test]
fn events_of_a_stateful_set_report_the_pods_that_it_could_not_create() {
    let text = "create Pod db-1 in StatefulSet db failed error: pods \"db-1\" is forbidden: exceeded quota: q";
    let wanted = "2 pods of StatefulSet db are not created because of a quota: pods \"db-1\" is forbidden: exceeded quota: q";
    let first = member("db-0", &json!({}), "");
    let events = [event("other", 9, "x failed error: no"), event("s", 3, "x failed error: earlier"), event("s", 5, text)];
    assert_eq!(texts(&db(&[Arc::clone(&first)], &events)), [wanted]);
    let claim = [event("s", 5, "create Pod db-1 in StatefulSet db failed error: pvc data-db-1 is being deleted")];
    assert_eq!(texts(&db(&[Arc::clone(&first)], &claim)), [] as [&str; 0], "the plan waits for the claim");
    let later = member("db-1", &json!({"creationTimestamp": at(6)}), "");
    assert_eq!(texts(&db(&[first, later], &events)), [] as [&str; 0], "it could be made since");
}

#[test]
fn the_last_time_of_an_event_is_found_in_every_form() {
    let last = |times: Value| {
        let mut object = json!({"metadata": {"name": "e", "creationTimestamp": at(1)}, "lastTimestamp": null, "involvedObject": {}});
        object.as_object_mut().expect("a map").extend(times.as_object().expect("a map").clone());
        EventView::decode(object.to_string().as_bytes()).expect("an event").last
    };
    assert_eq!(last(json!({})), Some(at(1)));
    assert_eq!(last(json!({"eventTime": at(2)})), Some(at(2)));
    assert_eq!(last(json!({"lastTimestamp": at(3)})), Some(at(3)));
    assert_eq!(last(json!({"eventTime": at(2), "series": {"count": 2, "lastObservedTime": at(4)}})), Some(at(4)));
}

#[test]
fn a_refusal_is_a_condition_that_is_true_and_is_about_creation() {
    let says = |type_: &str, status: &str, reason: &str| {
        let condition = json!({"type": type_, "status": status, "reason": reason, "message": "no"});
        refusal_of(&set("web-2", "web:2", &json!({"conditions": [condition]}))).map(|cause| cause.to_string())
    };
    assert_eq!(says("ReplicaFailure", "True", "FailedCreate").as_deref(), Some("3 pods of ReplicaSet web-2 cannot be created: no"));
    assert_eq!(says("ReplicaFailure", "False", "FailedCreate"), None);
    assert_eq!(says("ReplicaFailure", "True", "FailedDelete"), None);
    assert_eq!(says("Other", "True", "FailedCreate"), None);
    let over = json!({"conditions": [{"type": "ReplicaFailure", "status": "False", "reason": "FailedCreate", "message": "no"}]});
    assert_eq!(causes_of(&deployment(&json!({}), &over), &[], &[], 1), Causes::default());
}

#[test]
fn a_newest_set_that_wants_no_pods_leaves_the_word_to_the_others() {
    let web = deployment(&json!({}), &json!({}));
    let newest = ReplicaSetView { replicas: 0, ..(*set("web-2", "web:2", &json!({}))).clone() };
    let sets = [set("web-1", "web:1", &json!({})), Arc::new(newest)];
    let found = causes_of(&web, &sets, &[pod_of("web-1", "web-1-a", "ErrImagePull")], 1);
    assert_eq!(texts(&found), ["web-1-a cannot pull its image: ErrImagePull: web-1-a"]);
}

#[test]
fn a_replica_set_and_a_pod_are_explained_by_themselves() {
    let bare = set("web-2", "web:2", &quota(1));
    let pods = [pod_of("web-2", "web-2-a", "ErrImagePull"), pod_of("web-1", "web-1-a", "CreateContainerError")];
    let events = [event("web-2", 2, "Error creating: now")];
    let found = of_replica_set(&ReplicaSetFacts { set: &bare, pods: &pods, events: &events, unobserved_since: Some(at(0)), now: at(20) });
    let wanted = [
        "web-2-a cannot pull its image: ErrImagePull: web-2-a",
        "1 pod of ReplicaSet web-2 cannot be created: now",
        "ReplicaSet web-2 has not been observed by a controller",
    ];
    assert_eq!(texts(&found), wanted);
    let found = of_one_pod(&PodFacts { pod: &pods[1], events: &events, now: at(20) });
    assert_eq!(texts(&found), ["web-1-a cannot start a container: CreateContainerError: web-1-a"]);
}

/// A Job that is due for a while and does not exist shows that no controller acts, unless one reports that it cannot create the Job.
#[test]
fn a_cron_job_is_not_observed_if_its_job_is_due_and_nothing_happens() {
    let object = json!({
        "metadata": {"name": "backup", "uid": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {}}}},
    });
    let cron_job = CronJobView::decode(object.to_string().as_bytes(), Revision(0)).expect("a CronJob");
    let refused = |second: i64| {
        let (reason, message) = ("FailedCreate".to_owned(), "Error creating job: no".to_owned());
        [Arc::new(EventView { about_uid: "c".into(), reason, message, last: Some(at(second)), claim: None })]
    };
    let found = |due_since: Option<i64>, events: &[Arc<EventView>]| {
        texts(&of_cron_job(&CronJobFacts { cron_job: &cron_job, due_since: due_since.map(at), events, now: at(100) }))
    };
    let unobserved = ["CronJob backup has not been observed by a controller"];
    assert_eq!(found(None, &[]), [""; 0]);
    assert_eq!(found(Some(91), &[]), [""; 0]);
    assert_eq!(found(Some(90), &[]), unobserved);
    assert_eq!(found(Some(90), &refused(80)), unobserved);
    assert_eq!(found(Some(90), &refused(95)), [""; 0]);
}
