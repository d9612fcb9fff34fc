//! Recreate (KEP-3541).

use crate::world::{World, broken, template};
use serde_json::{Value, json};

fn spec(replicas: u32) -> Value {
    json!({"replicas": replicas, "updateStrategy": {"type": "Recreate", "rollingUpdate": null}})
}

fn parallel(replicas: u32) -> Value {
    let mut spec = spec(replicas);
    spec["podManagementPolicy"] = json!("Parallel");
    spec
}

fn in_progress() -> (String, String) {
    ("True".to_owned(), "RecreateInProgress".to_owned())
}

fn complete() -> (String, String) {
    ("True".to_owned(), "RecreateComplete".to_owned())
}

const ALL: [&str; 3] = ["RecreateStarted", "RecreateWaitingForTermination", "RecreateCompleted"];

#[test]
fn a_new_set_is_complete_without_a_word() {
    let mut world = World::new(&spec(2));
    world.settle();
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=1 web-1=1", complete()));
    assert_eq!(world.reasons(), [""; 0]);
}

#[test]
fn an_update_goes_through_its_phases() {
    let mut world = World::new(&spec(3));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=1~ web-1=1~ web-2=1~", in_progress()));
    world.gone("web-1");
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1~ web-2=1~");
    assert_eq!(world.waits(), ["waiting for 2 terminating pods (web-2 has 30s of its 30s grace left) before creating 3 more"]);
    world.gone("web-0");
    world.gone("web-2");
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=2", in_progress()));
    world.settle();
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=2 web-1=2 web-2=2", complete()));
    assert_eq!(world.reasons(), ALL);
    let status = world.view().status;
    assert_eq!(status.current_revision, status.update_revision);
}

#[test]
fn a_parallel_set_is_created_at_once() {
    let mut world = World::new(&parallel(3));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    world.pass();
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2");
    world.look(usize::MAX);
    assert_eq!(world.condition("Progressing"), complete(), "complete is there, not ready");
}

#[test]
fn a_changed_type_alone_starts_nothing_but_finishes_what_was_begun() {
    let mut world = World::new(&json!({"replicas": 2}));
    world.settle();
    world.edit(&json!({"spec": {"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}}));
    world.settle();
    assert_eq!((world.short().as_str(), world.reasons().len(), world.condition("Progressing")), ("web-0=1 web-1=1", 0, complete()));
    let mut world = World::new(&json!({"replicas": 2, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.settle();
    world.edit(&json!({"spec": {"updateStrategy": {"type": "Recreate"}}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1~ web-1=1~");
}

#[test]
fn pods_go_whatever_their_state_and_number() {
    let mut world = World::new(&parallel(5));
    world.settle();
    for (name, status) in [
        ("web-0", json!({"phase": "Pending"})),
        ("web-1", json!({"phase": "Unknown"})),
        ("web-2", json!({"phase": "Failed"})),
        ("web-3", json!({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})),
    ] {
        world.edit_pod(name, &json!({"status": status}));
    }
    world.edit_pod("web-1", &json!({"metadata": {"labels": {"controller-revision-hash": null}}}));
    world.edit(&json!({"spec": {"template": template(2), "replicas": 2}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1~ web-1=1~ web-2=1~ web-3=1~ web-4=1~");
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2");
}

#[test]
fn a_broken_update_is_mended_by_the_next() {
    for spec in [spec(2), parallel(2)] {
        let mut world = World::new(&spec);
        world.settle();
        world.edit(&json!({"spec": {"template": broken(2)}}));
        world.settle();
        world.edit(&json!({"spec": {"template": template(3)}}));
        world.settle();
        assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=3 web-1=3", complete()));
    }
}

#[test]
fn a_template_that_changes_on_the_way_makes_the_new_pods_old() {
    let mut world = World::new(&parallel(2));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    world.pass();
    world.look(usize::MAX);
    world.edit(&json!({"spec": {"template": template(3)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=3 web-1=3");
    let begun = world.reasons().iter().filter(|reason| **reason == "RecreateStarted").count();
    assert_eq!(begun, 2);
}

#[test]
fn a_template_that_is_taken_back_spares_nobody_and_deletes_nobody_twice() {
    let mut world = World::new(&spec(2));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    world.edit(&json!({"spec": {"template": template(1)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1");
}

#[test]
fn a_new_pod_deleted_by_hand_comes_back_alone() {
    let mut world = World::new(&parallel(3));
    world.settle();
    world.delete_pod("web-1");
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=1 web-1=1~ web-2=1", complete()));
    world.settle();
    assert_eq!((world.short().as_str(), world.reasons().len()), ("web-0=1 web-1=1 web-2=1", 0));
}

#[test]
fn no_pod_wanted_is_complete_when_the_old_ones_have_been_told_to_go() {
    let mut world = World::new(&spec(2));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2), "replicas": 0}}));
    world.settle();
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("", complete()));
}

#[test]
fn each_event_is_told_once_wherever_the_controller_dies() {
    for limit in 1..6 {
        let mut world = World::new(&spec(3));
        world.settle();
        world.edit(&json!({"spec": {"template": template(2)}}));
        for _ in 0..40 {
            world.look(limit);
        }
        world.pass();
        for _ in 0..40 {
            world.look(limit);
            world.pass();
        }
        assert_eq!((world.short().as_str(), world.reasons()), ("web-0=2 web-1=2 web-2=2", ALL.to_vec()), "limit {limit}");
    }
}

#[test]
fn without_the_gate_it_is_a_rolling_update_and_there_are_no_conditions() {
    let mut world = World::new(&spec(2)).with_gates("StatefulSetRecreateStrategy=false");
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}, "status": {"conditions": [{"type": "Progressing", "status": "True"}]}}));
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.view().status.conditions), ("web-0=1 web-1=1~", None));
    world.settle();
    let status = world.view().status;
    assert_eq!((world.short().as_str(), status.current_revision), ("web-0=2 web-1=2", status.update_revision));
}

#[test]
fn the_annotation_makes_on_delete_a_recreate() {
    let mut world = World::new(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/update-strategy": "Recreate"}}}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.settle();
    assert_eq!((world.short().as_str(), world.condition("Progressing")), ("web-0=2 web-1=2", complete()));
}

#[test]
fn a_pod_on_its_way_out_is_waited_for_whatever_its_labels() {
    for spec in [spec(2), parallel(2)] {
        let mut world = World::new(&spec);
        world.settle();
        world.edit(&json!({"spec": {"template": template(2)}}));
        world.look(usize::MAX);
        world.edit_pod("web-1", &json!({"metadata": {"labels": {"app": "debug"}}}));
        world.gone("web-0");
        for _ in 0..3 {
            world.look(usize::MAX);
        }
        assert_eq!((world.short().as_str(), world.view().status.replicas), ("web-1=1~", 1));
        assert_eq!(world.waits(), ["waiting for 1 terminating pod (web-1 has 30s of its 30s grace left) before creating 2 more"]);
        world.settle();
        assert_eq!(world.short(), "web-0=2 web-1=2");
    }
}
