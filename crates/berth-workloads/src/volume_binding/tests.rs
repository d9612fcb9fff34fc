//! Plans of claims and volumes, as text.

use super::{
    claim,
    view::{ClaimUserView, ClaimView, ClassView, VolumeView},
    volume,
};
use crate::{
    plan::{Action, Plan},
    read_back::read_back,
    view::View,
};
use berth_identity::{ObjectRef, Revision};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// A claim of the class `fast` for 2Gi, changed by `change`.
fn claim(change: Value) -> ClaimView {
    let claim = json!({
        "metadata": {"namespace": "ns", "name": "data", "uid": "c", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "fast", "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    });
    ClaimView::decode(changed(claim, change).to_string().as_bytes(), Revision(7)).expect("a claim")
}

/// An available volume `v` of the class `fast` with 2Gi, changed by `change`.
fn volume(change: Value) -> VolumeView {
    let volume = json!({
        "metadata": {"name": "v", "uid": "v", "labels": {"disk": "ssd"}, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": "2Gi"}, "storageClassName": "fast",
            "volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain",
        },
        "status": {"phase": "Available"},
    });
    VolumeView::decode(changed(volume, change).to_string().as_bytes(), Revision(9)).expect("a volume")
}

fn class(change: Value) -> ClassView {
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "berth.dev/simulated", "reclaimPolicy": "Retain"});
    ClassView::decode(changed(class, change).to_string().as_bytes(), Revision(1)).expect("a class")
}

fn user(name: &str, node: &str) -> ClaimUserView {
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
    ClaimUserView::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod")
}

/// A JSON merge patch.
fn changed(mut value: Value, change: Value) -> Value {
    let Value::Object(change) = change else { return change };
    for (key, new) in change {
        let old = value.get(&key).cloned().unwrap_or_else(|| json!({}));
        value[key] = changed(old, new);
    }
    value
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("small")
}

fn state<'a>(claim: &'a ClaimView, class: Option<&'a ClassView>) -> claim::ClaimState<'a> {
    claim::ClaimState {
        claim,
        class,
        named: None,
        reserved: Vec::new(),
        free: Vec::new(),
        users: Vec::new(),
        is_all_known: true,
        provisioning_since: at(100),
        provision_latency: SignedDuration::from_secs(10),
        now: at(100),
    }
}

fn version(target: &ObjectRef) -> String {
    target.resource_version.map_or("any".to_owned(), |version| version.to_string())
}

fn shown(plan: &Plan) -> Vec<String> {
    let action = |action: &Action| match action {
        Action::Patch { target, subresource: None, patch, .. } => {
            format!("{} @{}: {patch}", target.key.name, version(target))
        }
        Action::Patch { target, patch, .. } => format!("{} status: {}", target.key.name, patch["status"]),
        Action::Create { object, .. } => format!("create {}", object.key().name),
        Action::Delete { target, .. } => format!("delete {} @{}", target.key.name, version(target)),
        Action::ConfirmGone { target, .. } => format!("confirm {} {} gone", target.key.name, target.uid),
        other => format!("{other:?}"),
    };
    let events = plan.events.iter().map(|event| format!("{}: {}", event.reason, event.message));
    let again = plan.requeue_at.map(|at| format!("again at {at}"));
    plan.stages.iter().flat_map(|stage| &stage.actions).map(action).chain(events).chain(again).collect()
}

fn check_claim(state: &claim::ClaimState<'_>, expected: &[&str]) {
    assert_eq!(shown(&read_back(claim::plan(state))), expected);
}

fn check_volume(volume: VolumeView, claim: Option<ClaimView>, expected: &[&str]) {
    assert_eq!(shown(&read_back(volume::plan(&volume::VolumeState { volume: &volume, claim: claim.as_ref() }))), expected);
}

const NAMED: &str = r#"data @7: {"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"volumeName":"v"}}"#;
const RESERVED: &str = concat!(
    r#"v @9: {"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"claimRef":"#,
    r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","name":"data","namespace":"ns","resourceVersion":"7","uid":"c"}}}"#
);
const BOUND: &str = r#"data status: {"accessModes":["ReadWriteOnce","ReadOnlyMany"],"capacity":{"storage":"2Gi"},"phase":"Bound"}"#;

#[test]
fn a_claim_takes_the_smallest_volume_that_will_do() {
    let (claim, class) = (claim(json!({})), class(json!({})));
    let (good, large) = (volume(json!({})), volume(json!({"metadata": {"name": "large"}, "spec": {"capacity": {"storage": "3Gi"}}})));
    let unfit = [
        json!({"spec": {"capacity": {"storage": "1Gi"}}}),
        json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
        json!({"spec": {"volumeMode": "Block"}}),
        json!({"spec": {"storageClassName": "slow"}}),
        json!({"spec": {"claimRef": {"name": "other", "namespace": "ns"}}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"status": {"phase": "Pending"}}),
    ]
    .map(volume);
    let free: Vec<&VolumeView> = unfit.iter().chain([&large, &good]).collect();
    check_claim(&claim::ClaimState { free, ..state(&claim, Some(&class)) }, &[RESERVED, NAMED, BOUND]);
}

#[test]
fn a_selector_is_honored() {
    let class = class(json!({"provisioner": "kubernetes.io/no-provisioner"}));
    let volume = volume(json!({}));
    let none = "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner";
    for (disk, expected) in [("ssd", vec![RESERVED, NAMED, BOUND]), ("tape", vec![none])] {
        let claim = claim(json!({"spec": {"selector": {"matchLabels": {"disk": disk}}}}));
        check_claim(&claim::ClaimState { free: vec![&volume], ..state(&claim, Some(&class)) }, &expected);
    }
}

#[test]
fn a_volume_that_is_reserved_comes_first_and_keeps_its_users_reference() {
    let (claim, class) = (claim(json!({})), class(json!({"volumeBindingMode": "WaitForFirstConsumer"})));
    let reserved = volume(json!({"metadata": {"name": "mine"}, "spec": {"claimRef": {"namespace": "ns", "name": "data"}}}));
    let plan = claim::plan(&claim::ClaimState { reserved: vec![&reserved], free: vec![], ..state(&claim, Some(&class)) });
    let lines = shown(&plan);
    assert!(lines[0].starts_with(r#"mine @9: {"spec":{"claimRef":"#), "{lines:?}");
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_claim_goes_on_where_it_was_interrupted() {
    let half = volume(json!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "c"}}}));
    let unbound = claim(json!({}));
    check_claim(&claim::ClaimState { reserved: vec![&half], ..state(&unbound, None) }, &[NAMED, BOUND]);
    let named = claim(json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}}));
    check_claim(&claim::ClaimState { named: Some(&half), ..state(&named, None) }, &[BOUND]);
    let bound = claim(json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"},
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
    }));
    check_claim(&claim::ClaimState { named: Some(&half), ..state(&bound, None) }, &[]);
}

#[test]
fn a_claim_that_names_its_volume_waits_for_it_or_has_an_event_with_the_reason() {
    let claim = claim(json!({"spec": {"volumeName": "v"}}));
    let with = |volume: Option<&VolumeView>, expected: &[&str]| {
        check_claim(&claim::ClaimState { named: volume, ..state(&claim, None) }, expected);
    };
    with(None, &[]);
    let completed = r#"data @7: {"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}}}"#;
    with(Some(&volume(json!({}))), &[RESERVED, completed, BOUND]);
    with(
        Some(&volume(json!({"spec": {"capacity": {"storage": "1Gi"}}}))),
        &[r#"VolumeMismatch: Cannot bind to requested volume "v": requested PV is too small"#],
    );
    with(
        Some(&volume(json!({"spec": {"storageClassName": "slow"}}))),
        &[r#"VolumeMismatch: Cannot bind to requested volume "v": storageClassName does not match"#],
    );
    with(
        Some(&volume(json!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "former"}}}))),
        &[r#"FailedBinding: volume "v" already bound to a different claim."#],
    );
}

#[test]
fn making_a_volume_takes_its_time() {
    let class = class(json!({}));
    let fresh = claim(json!({}));
    let lines = shown(&read_back(claim::plan(&state(&fresh, Some(&class)))));
    assert!(lines[0].contains(r#""volume.kubernetes.io/storage-provisioner":"berth.dev/simulated""#), "{lines:?}");
    assert!(
        lines[1].starts_with(
            "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'berth.dev/simulated'"
        )
    );
    assert_eq!(lines[2], r#"Provisioning: External provisioner is provisioning volume for claim "ns/data""#);
    let told = claim(json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "berth.dev/simulated"}}}));
    check_claim(&state(&told, Some(&class)), &["again at 1970-01-01T00:01:50Z"]);
    let named = NAMED.replace(r#""v""#, r#""pvc-c""#);
    let bound = r#"data status: {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"2Gi"},"phase":"Bound"}"#;
    check_claim(&claim::ClaimState { now: at(110), ..state(&told, Some(&class)) }, &["create pvc-c", &named, bound]);
}

#[test]
fn a_claim_without_a_volume_has_an_event_with_the_reason() {
    let (late, foreign) = (class(json!({"volumeBindingMode": "WaitForFirstConsumer"})), class(json!({"provisioner": "example.com/disk"})));
    let (claim_, classless) = (claim(json!({})), claim(json!({"spec": {"storageClassName": ""}})));
    let (waiting, placed) = ([user("a", ""), user("b", "")], user("c", "node"));
    let users = |count: usize| waiting.iter().take(count).chain([&placed]).collect();
    let none = "FailedBinding: no persistent volumes available for this claim and no storage class is set";
    check_claim(&state(&classless, None), &[none]);
    check_claim(&state(&claim_, None), &[r#"ProvisioningFailed: storageclass.storage.k8s.io "fast" not found"#]);
    let late = |count| claim::ClaimState { users: users(count), ..state(&claim_, Some(&late)) };
    check_claim(&late(0), &["WaitForFirstConsumer: waiting for first consumer to be created before binding"]);
    check_claim(&late(1), &["WaitForPodScheduled: waiting for pod a to be scheduled"]);
    check_claim(&late(2), &["WaitForPodScheduled: waiting for pods a,b to be scheduled"]);
    let chosen = claim(json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}));
    let class_of_late = class(json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let lines = shown(&claim::plan(&state(&chosen, Some(&class_of_late))));
    assert!(lines[0].contains("storage-provisioner"), "its node is chosen: {lines:?}");
    assert_eq!(chosen.meta.key(), berth_identity::ObjectKey::new("ns", "data"));
    let told = claim(json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "example.com/disk"}}}));
    check_claim(&state(&told, Some(&foreign)), &[]);
}

#[test]
fn a_claim_whose_volume_is_gone_is_lost_once_that_is_certain() {
    let claim = claim(
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}),
    );
    let lost = r#"data status: {"accessModes":null,"capacity":null,"phase":"Lost"}"#;
    let gone = "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    check_claim(&claim::ClaimState { is_all_known: false, ..state(&claim, None) }, &["again at 1970-01-01T00:01:40.02Z"]);
    check_claim(&state(&claim, None), &[lost, gone]);
    let others = volume(json!({"spec": {"claimRef": {"namespace": "ns", "name": "other", "uid": "o"}}}));
    let misbound = "ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly";
    check_claim(&claim::ClaimState { named: Some(&others), ..state(&claim, None) }, &[lost, misbound]);
    let early = claim::ClaimState { named: Some(&others), is_all_known: false, ..state(&claim, None) };
    check_claim(&early, &["again at 1970-01-01T00:01:40.02Z"]);
}

#[test]
fn a_claim_in_use_is_held_back() {
    let claim = claim(
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x", "kubernetes.io/pvc-protection"]}}),
    );
    let (placed, unplaced) = (user("a", "node"), user("b", ""));
    check_claim(&claim::ClaimState { users: vec![&placed], ..state(&claim, None) }, &[]);
    check_claim(&claim::ClaimState { is_all_known: false, ..state(&claim, None) }, &["again at 1970-01-01T00:01:40.02Z"]);
    let freed = r#"data @7: {"metadata":{"finalizers":["example.com/x"]}}"#;
    check_claim(&claim::ClaimState { users: vec![&unplaced], ..state(&claim, None) }, &[freed]);
    let held_by =
        |finalizer: &str| self::claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]}}));
    check_claim(&state(&held_by("kubernetes.io/pvc-protection"), None), &[r#"data @7: {"metadata":{"finalizers":[]}}"#]);
    check_claim(&state(&held_by("example.com/x"), None), &[]);
}

#[test]
fn a_claim_and_a_volume_get_a_lost_protection_back() {
    let bare = claim(json!({"metadata": {"finalizers": ["example.com/x"]}}));
    check_claim(&state(&bare, None), &[r#"data @7: {"metadata":{"finalizers":["example.com/x","kubernetes.io/pvc-protection"]}}"#]);
    let bound = json!({"metadata": {"finalizers": null}, "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "c"}}});
    check_volume(volume(bound), Some(claim(json!({}))), &[r#"v @9: {"metadata":{"finalizers":["kubernetes.io/pv-protection"]}}"#]);
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]}});
    check_claim(&state(&claim(leaving.clone()), None), &[]);
    check_volume(volume(leaving), None, &[]);
}

#[test]
fn a_volume_shows_whose_it_is() {
    let of = |uid: &str| json!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": uid}}});
    let phase = |phase: &str| format!(r#"v status: {{"message":null,"phase":"{phase}","reason":null}}"#);
    check_volume(volume(json!({"status": {"phase": "Pending"}})), None, &[&phase("Available")]);
    check_volume(volume(json!({})), None, &[]);
    check_volume(volume(of("")), Some(claim(json!({}))), &[]);
    check_volume(volume(of("c")), Some(claim(json!({}))), &[]);
    check_volume(volume(of("c")), Some(claim(json!({"spec": {"volumeName": "v"}}))), &[&phase("Bound")]);
    let elsewhere = || Some(claim(json!({"spec": {"volumeName": "other"}})));
    check_volume(volume(of("c")), elsewhere(), &[r#"v @9: {"spec":{"claimRef":{"resourceVersion":null,"uid":null}}}"#]);
    let chosen = changed(of("c"), json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}}));
    let freed = r#"v @9: {"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":null}},"spec":{"claimRef":null}}"#;
    check_volume(volume(chosen), elsewhere(), &[freed]);
}

#[test]
fn a_volume_without_its_claim_goes_by_its_policy() {
    let orphan = |policy: &str, phase: &str, by: Option<&str>| {
        let annotations = by.map_or_else(|| json!({}), |by| json!({"pv.kubernetes.io/provisioned-by": by}));
        let spec = json!({"claimRef": {"namespace": "ns", "name": "data", "uid": "former"}, "persistentVolumeReclaimPolicy": policy});
        volume(json!({"metadata": {"annotations": annotations}, "spec": spec, "status": {"phase": phase}}))
    };
    let released = ["confirm data former gone", r#"v status: {"phase":"Released"}"#];
    let here = Some("berth.dev/simulated");
    check_volume(orphan("Delete", "Bound", here), None, &released);
    check_volume(orphan("Delete", "Bound", here), Some(claim(json!({}))), &released);
    check_volume(orphan("Delete", "Released", here), None, &["delete v @9"]);
    check_volume(orphan("Retain", "Released", here), None, &[]);
    let message = r#"error getting deleter volume plugin for volume "v": no deletable volume plugin matched"#;
    let failed = format!(r#"v status: {{"message":"{}","phase":"Failed"}}"#, message.replace('"', "\\\""));
    check_volume(orphan("Delete", "Released", Some("example.com/disk")), None, &[]);
    check_volume(orphan("Delete", "Released", None), None, &[&failed, &format!("VolumeFailedDelete: {message}")]);
    check_volume(orphan("Delete", "Failed", None), None, &[]);
}

#[test]
fn a_volume_is_held_back_while_it_is_bound() {
    let deleting = |phase: &str, claim_ref: Value| {
        volume(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"claimRef": claim_ref}, "status": {"phase": phase},
        }))
    };
    let of_data = || json!({"namespace": "ns", "name": "data", "uid": "c"});
    check_volume(deleting("Bound", of_data()), Some(claim(json!({"spec": {"volumeName": "v"}}))), &[]);
    let freed = r#"v @9: {"metadata":{"finalizers":[]}}"#;
    check_volume(deleting("Released", of_data()), None, &[freed]);
    check_volume(deleting("Available", Value::Null), None, &[freed]);
}

#[test]
fn a_volume_is_created_as_its_claim_and_its_class_require() {
    let told = json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "berth.dev/simulated"}},
        "spec": {"resources": {"requests": {"storage": "2Gi", "example.com/iops": "5"}}}});
    let (claim, class) = (claim(told), class(json!({"mountOptions": ["noatime"]})));
    let made = |class: &ClassView| {
        let plan = read_back(claim::plan(&claim::ClaimState { now: at(110), ..state(&claim, Some(class)) }));
        let [Action::Create { object, events, .. }] = &plan.stages[0].actions[..] else { panic!("{plan:?}") };
        let event = events.success.as_ref().map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message));
        assert_eq!(event.as_deref(), Some("Normal ProvisioningSucceeded: Successfully provisioned volume pvc-c"));
        let mut volume = object.as_object().to_value();
        assert_eq!(volume["spec"]["claimRef"]["uid"].take(), "c");
        volume
    };
    let volume = made(&class);
    assert_eq!(volume["metadata"]["annotations"], json!({"pv.kubernetes.io/provisioned-by": "berth.dev/simulated"}));
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "csi": {"driver": "simulated.berth.dev", "volumeHandle": "pvc-c"},
        "mountOptions": ["noatime"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast", "volumeMode": "Filesystem",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "namespace": "ns", "resourceVersion": "7", "uid": null},
    });
    assert_eq!(volume["spec"], spec);
    let plain = json!({"metadata": {"name": "plain"}, "provisioner": "berth.dev/simulated"});
    let spec = made(&ClassView::decode(plain.to_string().as_bytes(), Revision(1)).expect("a class"))["spec"].take();
    assert_eq!(
        (&spec["persistentVolumeReclaimPolicy"], &spec["mountOptions"]),
        (&json!("Delete"), &json!(null)),
        "what a class leaves out"
    );
}

#[test]
fn a_claim_that_has_forgotten_its_volume_is_lost_and_reported_once() {
    let forgot = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "status": {"phase": "Bound"}});
    let message = "ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
    let lost = r#"data status: {"accessModes":null,"capacity":null,"phase":"Lost"}"#;
    check_claim(&state(&claim(forgot.clone()), None), &[lost, message]);
    check_claim(&state(&claim(changed(forgot, json!({"status": {"phase": "Lost"}}))), None), &[]);
}

#[test]
fn a_claim_has_its_volume_when_annotation_spec_and_status_agree() {
    let of = |completed: bool, volume: &str, phase: &str| {
        let annotations = if completed { json!({"pv.kubernetes.io/bind-completed": "yes"}) } else { json!({}) };
        claim(json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}, "status": {"phase": phase}}))
    };
    assert!(of(true, "v", "Bound").is_bound());
    assert!(![of(false, "v", "Bound"), of(true, "", "Bound"), of(true, "v", "Pending")].iter().any(ClaimView::is_bound));
}

#[test]
fn the_annotation_names_the_class_before_the_field_does() {
    let annotated = json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "slow"}}});
    let (claim_, volume_) = (claim(annotated.clone()), volume(annotated));
    assert_eq!((claim_.class_name(), volume_.class.as_str()), (Some("slow"), "slow"));
    assert_eq!((claim(json!({})).class_name(), volume(json!({})).class.as_str()), (Some("fast"), "fast"));
    assert_eq!(
        (claim(json!({"spec": {"storageClassName": ""}})).class_name(), claim(json!({"spec": {"storageClassName": null}})).class_name()),
        (None, None)
    );
}

#[test]
fn reserved_volumes_that_go_or_do_not_fit_are_passed_over() {
    let (claim, class) = (claim(json!({})), class(json!({})));
    let reserved = |change: Value| volume(changed(json!({"spec": {"claimRef": {"namespace": "ns", "name": "data"}}}), change));
    let going = reserved(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let small = reserved(json!({"spec": {"capacity": {"storage": "1Gi"}}}));
    let good = reserved(json!({"metadata": {"name": "good"}}));
    let lines = shown(&claim::plan(&claim::ClaimState { reserved: vec![&going, &small, &good], ..state(&claim, Some(&class)) }));
    assert!(lines[0].starts_with("good @9: "), "{lines:?}");
}

#[test]
fn of_volumes_as_large_as_each_other_the_first_by_name_is_taken() {
    let (claim, class) = (claim(json!({})), class(json!({})));
    let (b, a) = (volume(json!({"metadata": {"name": "b"}})), volume(json!({"metadata": {"name": "a"}})));
    for free in [vec![&a, &b], vec![&b, &a]] {
        assert!(shown(&claim::plan(&claim::ClaimState { free, ..state(&claim, Some(&class)) }))[0].starts_with("a @9: "));
    }
}

#[test]
fn a_selector_that_cannot_be_read_takes_no_volume() {
    let (class, volume) = (class(json!({"provisioner": "kubernetes.io/no-provisioner"})), volume(json!({})));
    let claim = claim(json!({"spec": {"selector": {"matchExpressions": [{"key": "disk", "operator": "Near"}]}}}));
    let none = "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner";
    check_claim(&claim::ClaimState { free: vec![&volume], ..state(&claim, Some(&class)) }, &[none]);
}

#[test]
fn no_volume_is_recycled_and_one_that_is_terminating_is_not_deleted_twice() {
    let orphan = |policy: &str, deleted: Option<&str>| {
        volume(json!({
            "metadata": {"deletionTimestamp": deleted, "annotations": {"pv.kubernetes.io/provisioned-by": "berth.dev/simulated"}},
            "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "former"}, "persistentVolumeReclaimPolicy": policy},
            "status": {"phase": "Released"},
        }))
    };
    let message = r#"error getting recycler volume plugin for volume "v": no recyclable volume plugin matched"#;
    let failed = format!(r#"v status: {{"message":"{}","phase":"Failed"}}"#, message.replace('"', "\\\""));
    check_volume(orphan("Recycle", None), None, &[&failed, &format!("VolumeFailedRecycle: {message}")]);
    check_volume(orphan("Delete", Some("2026-01-01T00:00:00Z")), None, &[r#"v @9: {"metadata":{"finalizers":[]}}"#]);
}

#[test]
fn a_volume_made_here_goes_where_its_claim_has_another() {
    let volume = volume(json!({
        "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "berth.dev/simulated"}}, "status": {"phase": "Released"},
        "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "c"}, "persistentVolumeReclaimPolicy": "Delete"},
    }));
    let elsewhere = || Some(claim(json!({"spec": {"volumeName": "other"}})));
    check_volume(volume.clone(), elsewhere(), &["delete v @9"]);
    let kept = VolumeView { reclaim_policy: "Retain".to_owned(), ..volume };
    check_volume(kept, elsewhere(), &[r#"v @9: {"spec":{"claimRef":{"resourceVersion":null,"uid":null}}}"#]);
}

#[test]
fn a_binding_failure_is_recorded_once_as_a_warning() {
    let none = claim::plan(&state(&claim(json!({})), None));
    let told: Vec<_> = none.events.iter().map(|event| (event.severity, event.repeat.clone(), event.about.key.name.as_str())).collect();
    assert_eq!(told, [(crate::plan::Severity::Warning, crate::plan::Repeat::Once, "data")]);
}
