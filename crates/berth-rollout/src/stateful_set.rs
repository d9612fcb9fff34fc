//! How far a StatefulSet's rollout is, under every strategy, and what it waits for: the waits of the very plan that its controller makes.

use crate::status::{Replicas, RolloutProgress, RolloutStage, RolloutStatus, UnreadyPod, rollback_to};
use berth_api::{FeatureGates, apps::StatefulSetStatus};
use berth_controllers::{cache::Known, claim_doubts::ClaimDoubts, plan_loop::PlanInputs, pods::PodIndex, stateful_set as controller};
use berth_identity::Generation;
use berth_workloads::{
    Wait,
    cause::{Causes, Replacement},
    stateful_set::{self, EffectiveStrategy, Phase, StatefulSetState, member_ordinal, ordinals},
    view::{ClaimView, PodManagement, PodView, RevisionView, StatefulSetView},
};
use jiff::Timestamp;
use std::sync::Arc;

/// What belongs to a set; `None` where it cannot be read.
#[derive(Debug, Default)]
pub struct Belongings {
    /// Its revisions.
    pub revisions: Option<Vec<Arc<RevisionView>>>,
    /// Its pods.
    pub pods: Option<Vec<Arc<PodView>>>,
    /// Claims of its namespace.
    pub claims: Vec<Arc<ClaimView>>,
}

/// The status of a set's rollout, by kubectl's rule. `causes` is what blocks it, `gates` are those of the cluster's controllers.
#[must_use]
pub fn status(set: &StatefulSetView, of: &Belongings, causes: Causes, gates: &FeatureGates, now: Timestamp) -> RolloutStatus {
    let progress = progress(set, stateful_set::strategy(set, gates));
    looked(set, of, (progress, causes), planned(set, of, gates, now), gates)
}

/// The same, but complete only if all desired pods are available, no other pod exists, and the controller's condition agrees: kubectl's rule also
/// counts undesired pods.
#[must_use]
pub fn explain(set: &StatefulSetView, of: &Belongings, causes: Causes, gates: &FeatureGates, now: Timestamp) -> RolloutStatus {
    let progress = progress(set, stateful_set::strategy(set, gates));
    let planned = planned(set, of, gates, now);
    let progress = if progress.state == RolloutStage::Complete { unsettled(set, planned.as_ref()).unwrap_or(progress) } else { progress };
    looked(set, of, (progress, causes), planned, gates)
}

/// What keeps a set from being complete that counts as rolled out.
fn unsettled(set: &StatefulSetView, planned: Option<&Planned>) -> Option<RolloutProgress> {
    let wanted = wanted(set);
    if let Some(Planned { unavailable, unwanted, .. }) = planned.filter(|planned| planned.unavailable > 0 || planned.unwanted > 0) {
        let text = format!("Waiting for {unavailable} of {wanted} pods to be available, and for {unwanted} unwanted pods to be deleted...");
        return Some(waiting(text));
    }
    let progressing = set.status.conditions.iter().flatten().find(|condition| condition.type_ == "Progressing")?;
    let is_complete = matches!(progressing.reason.as_deref(), Some("NewRevisionAvailable" | "RecreateComplete" | "WaitingForPodDeletion"));
    (!is_complete).then(|| waiting(progressing.message.clone().unwrap_or_default()))
}

fn looked(
    set: &StatefulSetView,
    of: &Belongings,
    (progress, mut causes): (RolloutProgress, Causes),
    planned: Option<Planned>,
    gates: &FeatureGates,
) -> RolloutStatus {
    let status = &set.status;
    let strategy = stateful_set::strategy(set, gates);
    let (mut waits, phase) = planned.map_or_else(Default::default, |planned| (planned.waits, Some(planned.phase)));
    if progress.state == RolloutStage::Complete {
        waits.retain(|wait| matches!(wait, Wait::Partition { .. }));
        causes = Causes::default();
    }
    let terminating = of.pods.iter().flatten().filter(|pod| pod.is_terminating() && pod.meta.is_controlled_by(&set.meta.uid)).count();
    let update = of.revisions.iter().flatten().find(|revision| revision.meta.name == status.update_revision);
    let revision = update.map(|revision| revision.number);
    RolloutStatus {
        revision,
        progress,
        rollback: rollback_to(&set.annotations, revision, &set.spec.template),
        goes_back_to: None,
        phase: phase.filter(|_| strategy == EffectiveStrategy::Recreate),
        replicas: Replicas {
            wanted: wanted(set),
            total: status.replicas,
            updated: status.updated_replicas,
            available: status.available_replicas,
            terminating: of.pods.as_ref().map(|_| i32::try_from(terminating).unwrap_or(i32::MAX)),
        },
        causes: causes.list,
        waits,
        unready_pods: unready_pods(set, of.pods.as_deref().unwrap_or_default()),
        requeue_at: causes.requeue_at,
    }
}

/// What is left to do, in kubectl's words where it has any; `None` if nothing is.
#[must_use]
pub fn pending(set: &StatefulSetView) -> Option<String> {
    let progress = progress(set, stateful_set::strategy(set, &FeatureGates::default()));
    (progress.state != RolloutStage::Complete).then_some(progress.message)
}

fn wanted(set: &StatefulSetView) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// What the set's controller sees and waits for.
struct Planned {
    waits: Vec<Wait>,
    /// How far a Recreate is.
    phase: Phase,
    /// Wanted pods that are missing or not available.
    unavailable: i64,
    /// Pods that are there and not wanted.
    unwanted: usize,
}

/// States whether an update of the set replaces pods that fail, or waits for them. `supports_repair`: whether the cluster's controllers act on
/// `berth.dev/repair`.
#[must_use]
pub fn replacement(set: &StatefulSetView, gates: &FeatureGates, supports_repair: bool) -> Replacement {
    let is_rolling = stateful_set::strategy(set, gates) == EffectiveStrategy::RollingUpdate;
    let is_repaired = set.choices.repairs && supports_repair;
    let waits = is_rolling && set.choices.management == PodManagement::OrderedReady && !is_repaired;
    if waits { Replacement::ByHand { supports_repair } } else { Replacement::ByItself }
}

/// The state that the set's controller plans from; `None` where its pods cannot be read.
#[must_use]
pub fn state(set: &StatefulSetView, of: &Belongings, gates: &FeatureGates, now: Timestamp) -> Option<StatefulSetState> {
    let mut pods: Known<PodView, PodIndex> = of.pods.as_ref()?.iter().cloned().collect();
    let (revisions, claims) = (of.revisions.iter().flatten().cloned().collect(), of.claims.iter().cloned().collect());
    let all = controller::Belongings { revisions: &revisions, pods: &mut pods, claims: &claims, doubts: &ClaimDoubts::default() };
    Some(controller::observe(&Arc::new(set.clone()), all, PlanInputs { last_error: None, gates, now }))
}

/// What the set's controller sees and waits for, with the gates of the cluster's controllers; `None` where its pods cannot be read. Without its revisions nothing
/// is known to be waited for.
fn planned(set: &StatefulSetView, of: &Belongings, gates: &FeatureGates, now: Timestamp) -> Option<Planned> {
    let state = state(set, of, gates, now)?;
    let phase = state.pods.phase_counts(&set.status.update_revision).phase(ordinals(set).replicas);
    let mut waits = if of.revisions.is_some() { stateful_set::plan(&state).waits } else { Vec::new() };
    // The plan waits for what it creates first: as long as that cannot be made, there is nothing to wait for.
    waits.retain(|wait| !matches!(wait, Wait::PodNotReady { pod, .. } if !state.is_pod_there(pod)));
    Some(Planned { waits, phase, unavailable: state.pods.unavailable_slots(), unwanted: state.pods.condemned().count() })
}

/// The pods of the set that something keeps from being ready, lowest number first.
fn unready_pods(set: &StatefulSetView, pods: &[Arc<PodView>]) -> Vec<UnreadyPod> {
    let mut unready: Vec<_> =
        pods.iter().filter_map(|pod| Some((member_ordinal(&set.meta.name, &pod.meta.name)?, unready(set, pod)?))).collect();
    unready.sort_by_key(|(ordinal, _)| *ordinal);
    unready.into_iter().map(|(_, pod)| pod).collect()
}

fn unready(set: &StatefulSetView, pod: &PodView) -> Option<UnreadyPod> {
    if pod.ready || pod.meta.deleted.is_some() || !pod.meta.is_controlled_by(&set.meta.uid) {
        return None;
    }
    let reasons: Vec<String> = pod.troubles().map(str::to_owned).collect();
    (!reasons.is_empty()).then(|| UnreadyPod { name: pod.meta.name.to_string(), reasons })
}

/// Read from the set alone. For rolling updates in kubectl's words and order; kubectl refuses the others.
fn progress(set: &StatefulSetView, strategy: EffectiveStrategy) -> RolloutProgress {
    let status = &set.status;
    let observed = status.observed_generation;
    if set.meta.deleted.is_some() {
        return waiting(format!("statefulset \"{}\" is being deleted", set.meta.name));
    }
    if observed == Generation(0) || observed < set.meta.generation {
        return waiting("Waiting for statefulset spec update to be observed...".to_owned());
    }
    match strategy {
        EffectiveStrategy::RollingUpdate => rolling_update(status, wanted(set), stateful_set::partition(set)),
        EffectiveStrategy::OnDelete => on_delete(status, wanted(set)),
        EffectiveStrategy::Recreate => recreate(status, wanted(set)),
    }
}

fn rolling_update(status: &StatefulSetStatus, wanted: i32, partition: Option<i32>) -> RolloutProgress {
    let (updated, current, update) = (status.updated_replicas, &status.current_revision, &status.update_revision);
    match partition {
        _ if status.ready_replicas < wanted => pods_to_be_ready(status, wanted),
        Some(partition) if updated < wanted - partition => {
            let due = wanted - partition;
            waiting(format!("Waiting for partitioned roll out to finish: {updated} out of {due} new pods have been updated..."))
        }
        Some(_) => complete(format!("partitioned roll out complete: {updated} new pods have been updated...")),
        None if update != current => {
            waiting(format!("waiting for statefulset rolling update to complete {updated} pods at revision {update}..."))
        }
        None => complete(format!("statefulset rolling update complete {} pods at revision {current}...", status.current_replicas)),
    }
}

fn on_delete(status: &StatefulSetStatus, wanted: i32) -> RolloutProgress {
    let (updated, update) = (status.updated_replicas, &status.update_revision);
    if status.replicas > updated {
        let text = "Waiting for pods to be deleted manually";
        waiting(format!("{text}: {updated} out of {wanted} pods are at revision {update}..."))
    } else if status.ready_replicas < wanted {
        pods_to_be_ready(status, wanted)
    } else {
        complete(format!("statefulset manual update complete {updated} pods at revision {update}..."))
    }
}

fn recreate(status: &StatefulSetStatus, wanted: i32) -> RolloutProgress {
    let (updated, update) = (status.updated_replicas, &status.update_revision);
    let old = status.replicas - updated;
    if old > 0 {
        waiting(format!("Waiting for {old} pods to be deleted before pods of revision {update} are created..."))
    } else if updated < wanted {
        waiting(format!("Waiting for statefulset recreate to finish: {updated} out of {wanted} new pods have been created..."))
    } else if status.ready_replicas < wanted {
        pods_to_be_ready(status, wanted)
    } else {
        complete(format!("statefulset recreate complete {updated} pods at revision {update}..."))
    }
}

fn pods_to_be_ready(status: &StatefulSetStatus, wanted: i32) -> RolloutProgress {
    waiting(format!("Waiting for {} pods to be ready...", wanted - status.ready_replicas))
}

fn waiting(message: String) -> RolloutProgress {
    RolloutProgress { state: RolloutStage::Waiting, message }
}

fn complete(message: String) -> RolloutProgress {
    RolloutProgress { state: RolloutStage::Complete, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::{Ordinal, Revision, RolloutRevision};
    use berth_workloads::view::{ContainerSymptom, ReasonMessage, Symptoms, View};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::{Value, json};
    use stateful_set::revision_data;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).expect("in range")
    }

    /// A set of three pods and generation 2.
    fn set(strategy: &Value, status: &Value) -> StatefulSetView {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop", "uid": "s", "generation": 2},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "updateStrategy": strategy,
                "podManagementPolicy": "OrderedReady",
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "db:2"}]}},
            },
            "status": status,
        });
        StatefulSetView::decode(object.to_string().as_bytes(), Revision(1)).expect("a StatefulSet")
    }

    fn status(ready: i32, updated: i32, update: &str) -> Value {
        json!({
            "observedGeneration": 2, "replicas": 3, "readyReplicas": ready, "updatedReplicas": updated, "currentReplicas": 3,
            "currentRevision": "db-1", "updateRevision": update,
        })
    }

    fn check(strategy: Value, status: Value, state: RolloutStage, message: &str) {
        let set = set(&strategy, &status);
        assert_eq!(
            progress(&set, stateful_set::strategy(&set, &FeatureGates::default())),
            RolloutProgress { state, message: message.to_owned() }
        );
    }

    #[test]
    fn a_rolling_update_is_reported_in_kubectls_words() {
        use RolloutStage::{Complete, Waiting};
        let rolling = || json!({"type": "RollingUpdate"});
        let partitioned = || json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
        let early = json!({"observedGeneration": 1, "replicas": 3});
        check(rolling(), early, Waiting, "Waiting for statefulset spec update to be observed...");
        check(rolling(), status(1, 3, "db-1"), Waiting, "Waiting for 2 pods to be ready...");
        let text = "waiting for statefulset rolling update to complete 1 pods at revision db-2...";
        check(rolling(), status(3, 1, "db-2"), Waiting, text);
        check(rolling(), status(3, 3, "db-1"), Complete, "statefulset rolling update complete 3 pods at revision db-1...");
        let text = "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...";
        check(partitioned(), status(3, 1, "db-2"), Waiting, text);
        check(partitioned(), status(3, 2, "db-2"), Complete, "partitioned roll out complete: 2 new pods have been updated...");
    }

    #[test]
    fn an_update_by_hand_is_complete_when_every_pod_has_been_replaced() {
        use RolloutStage::{Complete, Waiting};
        let by_hand = || json!({"type": "OnDelete"});
        let text = "Waiting for pods to be deleted manually: 1 out of 3 pods are at revision db-2...";
        check(by_hand(), status(2, 1, "db-2"), Waiting, text);
        check(by_hand(), status(2, 3, "db-2"), Waiting, "Waiting for 1 pods to be ready...");
        check(by_hand(), status(3, 3, "db-2"), Complete, "statefulset manual update complete 3 pods at revision db-2...");
    }

    #[test]
    fn a_recreate_is_reported_phase_by_phase() {
        use RolloutStage::{Complete, Waiting};
        let recreate = || json!({"type": "Recreate"});
        let text = "Waiting for 3 pods to be deleted before pods of revision db-2 are created...";
        check(recreate(), status(3, 0, "db-2"), Waiting, text);
        let creating = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "updateRevision": "db-2"});
        let text = "Waiting for statefulset recreate to finish: 1 out of 3 new pods have been created...";
        check(recreate(), creating, Waiting, text);
        check(recreate(), status(1, 3, "db-2"), Waiting, "Waiting for 2 pods to be ready...");
        check(recreate(), status(3, 3, "db-2"), Complete, "statefulset recreate complete 3 pods at revision db-2...");
    }

    fn pod(ordinal: Ordinal, change: impl FnOnce(&mut PodView)) -> Arc<PodView> {
        let name = format!("db-{ordinal}");
        let object = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name,
                "labels": {
                    "app": "db", "controller-revision-hash": "db-1", "statefulset.kubernetes.io/pod-name": name,
                    "apps.kubernetes.io/pod-index": ordinal.to_string(),
                },
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(0)}]},
        });
        let mut pod = PodView::decode(object.to_string().as_bytes(), Revision(1)).expect("a pod");
        change(&mut pod);
        Arc::new(pod)
    }

    fn revision(name: &str, number: RolloutRevision, data: Value) -> Arc<RevisionView> {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]);
        let object = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "db"}, "ownerReferences": owner},
            "revision": number, "data": data,
        });
        Arc::new(RevisionView::decode(object.to_string().as_bytes(), Revision(1)).expect("a revision"))
    }

    /// The status of three pods of the revision before the newest.
    fn status_of(strategy: &Value, pods: Vec<Arc<PodView>>) -> RolloutStatus {
        let set = set(strategy, &status(2, 0, "db-2"));
        let newest = revision_data(&set.spec.template);
        let revisions = Some(vec![
            revision("db-1", RolloutRevision(1), json!({"spec": {"template": {"$patch": "replace"}}})),
            revision("db-2", RolloutRevision(2), newest),
        ]);
        let belongings = Belongings { revisions, pods: Some(pods), claims: Vec::new() };
        super::status(&set, &belongings, Causes::default(), &FeatureGates::default(), at(10))
    }

    fn waits_for(reason: &str) -> Option<Box<Symptoms>> {
        let waiting = Some(ReasonMessage { reason: reason.to_owned(), message: String::new() });
        Some(Box::new(Symptoms { containers: vec![ContainerSymptom { waiting, ..ContainerSymptom::default() }], ..Symptoms::default() }))
    }

    #[test]
    fn a_stuck_pod_is_named_with_what_ails_it() {
        let stuck = pod(Ordinal(1), |pod| {
            pod.ready = false;
            pod.phase = berth_workloads::view::PodPhase::Pending;
            pod.symptoms = waits_for("ImagePullBackOff");
        });
        let starting = pod(Ordinal(2), |pod| {
            pod.ready = false;
            pod.symptoms = waits_for("ContainerCreating");
        });
        let status = status_of(&json!({"type": "RollingUpdate"}), vec![pod(Ordinal(0), |_| ()), stuck, starting]);
        let waits: Vec<_> = status.waits.iter().map(ToString::to_string).collect();
        assert!(waits.iter().any(|wait| wait.starts_with("waiting for db-1 to become ready")), "{waits:?}");
        assert_eq!(status.unready_pods, [UnreadyPod { name: "db-1".to_owned(), reasons: vec!["ImagePullBackOff".to_owned()] }]);
        assert_eq!((status.revision, status.phase), (Some(RolloutRevision(2)), None));
    }

    #[test]
    fn a_pod_that_is_not_there_is_not_waited_for() {
        let status = status_of(&json!({"type": "RollingUpdate"}), vec![pod(Ordinal(0), |_| ())]);
        assert_eq!(status.waits, [], "db-1 is still to be created");
    }

    #[test]
    fn a_pod_that_is_about_to_be_adopted_has_no_other_owner() {
        let owned_by = |owners: Vec<OwnerReference>| pod(Ordinal(1), |pod| pod.meta.owners = owners.into());
        let orphan = owned_by(Vec::new());
        let status = status_of(&json!({"type": "RollingUpdate"}), vec![pod(Ordinal(0), |_| ()), orphan]);
        assert_eq!(status.waits, []);
        let strange = owned_by(vec![OwnerReference { uid: "another".to_owned(), ..pod(Ordinal(1), |_| ()).meta.owners[0].clone() }]);
        let status = status_of(&json!({"type": "RollingUpdate"}), vec![pod(Ordinal(0), |_| ()), strange]);
        assert_eq!(status.waits, [Wait::NameTaken { pod: "db-1".to_owned() }]);
    }

    /// kubectl counts pods, wanted or not.
    #[test]
    fn a_set_is_explained_as_complete_when_just_the_wanted_pods_are_available() {
        let explained = |condition: &str, pods: Vec<Arc<PodView>>| {
            let mut status = status(3, 3, "db-1");
            status["conditions"] =
                json!([{"type": "Progressing", "status": "True", "reason": condition, "message": "Its controller says so."}]);
            let set = set(&json!({"type": "RollingUpdate"}), &status);
            let belongings = Belongings { revisions: Some(Vec::new()), pods: Some(pods), claims: Vec::new() };
            let by_kubectl = super::status(&set, &belongings, Causes::default(), &FeatureGates::default(), at(10));
            assert_eq!(by_kubectl.progress.state, RolloutStage::Complete);
            explain(&set, &belongings, Causes::default(), &FeatureGates::default(), at(10)).progress
        };
        let three = || (0..3).map(|ordinal| pod(Ordinal(ordinal), |_| ())).collect::<Vec<_>>();
        assert_eq!(explained("NewRevisionAvailable", three()).state, RolloutStage::Complete);
        assert_eq!(explained("RevisionUpdated", three()), waiting("Its controller says so.".to_owned()));
        let mut unsettled = three();
        unsettled[0] = pod(Ordinal(0), |pod| pod.ready = false);
        unsettled.push(pod(Ordinal(3), |_| ()));
        let text = "Waiting for 1 of 3 pods to be available, and for 1 unwanted pods to be deleted...";
        assert_eq!(explained("NewRevisionAvailable", unsettled), waiting(text.to_owned()));
    }

    #[test]
    fn pods_hold_their_own_replacement_up_only_in_ordered_rolling_updates_without_repair() {
        let held = |strategy: &str, change: fn(&mut StatefulSetView)| {
            let mut set = set(&json!({"type": strategy}), &status(2, 1, "db-2"));
            change(&mut set);
            [true, false].map(|supports_repair| replacement(&set, &FeatureGates::default(), supports_repair))
        };
        let by_hand = [true, false].map(|supports_repair| Replacement::ByHand { supports_repair });
        let by_itself = [Replacement::ByItself; 2];
        assert_eq!(held("RollingUpdate", |_| ()), by_hand);
        assert_eq!(
            held("RollingUpdate", |set| set.choices.repairs = true),
            [Replacement::ByItself, Replacement::ByHand { supports_repair: false }],
            "only controllers that know the annotation repair"
        );
        assert_eq!(held("RollingUpdate", |set| set.choices.management = PodManagement::Parallel), by_itself);
        assert_eq!(["Recreate", "OnDelete"].map(|strategy| held(strategy, |_| ())), [by_itself, by_itself]);
    }

    #[test]
    fn a_recreate_shows_its_phase_and_who_is_still_there() {
        let going = |ordinal| {
            pod(ordinal, |pod| {
                pod.meta.deleted = Some(at(30));
                pod.grace_period_seconds = Some(30);
            })
        };
        let recreate = json!({"type": "Recreate"});
        let status = status_of(&recreate, vec![going(Ordinal(0)), going(Ordinal(1))]);
        let waits: Vec<_> = status.waits.iter().map(ToString::to_string).collect();
        assert_eq!(waits, ["waiting for 2 terminating pods (db-1 has 20s of its 30s grace left) before creating 3 more"]);
        assert_eq!((status.phase, status.replicas.terminating), (Some(Phase::WaitingTermination), Some(2)));
        assert_eq!(status_of(&recreate, vec![pod(Ordinal(0), |_| ())]).phase, Some(Phase::NeedsDeletion));
        assert_eq!(status_of(&recreate, vec![]).phase, Some(Phase::ReadyForCreation));
    }
}
