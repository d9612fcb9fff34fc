//! Controllers that usually run alone, and write under a lease: late requests of a former leader are rejected.

use super::{
    DEPLOYMENTS, Running, deployment,
    faulty::Faulty,
    lock,
    remote::{BEFORE_A_LOST_WRITE, Remote},
};
use berth_api::{
    Object,
    k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta},
};
use berth_controllers::{
    Cluster, ClusterError,
    election::{Candidacy, End, Leader, Lives, Timing},
};
use berth_env::Env;
use berth_identity::ObjectKey;
use berth_local::LocalCluster;
use berth_workloads::resources::{LEASES, PODS};
use futures::{FutureExt, future::pending};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const LEASE: (&str, &str) = ("kube-system", "led");

const fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// Leads as soon as possible. Also returns how long that took.
fn take(running: &Running, identity: &str) -> (Result<Leader, Lives>, SignedDuration) {
    take_over(Arc::<LocalCluster>::clone(&running.cluster), running, identity)
}

fn take_over(cluster: Arc<dyn Cluster>, running: &Running, identity: &str) -> (Result<Leader, Lives>, SignedDuration) {
    let (env, _) = running.test_env.another();
    let (clock, since) = (Arc::clone(&env.clock), env.clock.now());
    let counted = Arc::new(move || Duration::try_from(clock.now().duration_since(since)).expect("time goes on"));
    let candidacy = Candidacy { lease: ObjectKey::new(LEASE.0, LEASE.1), identity: identity.to_owned(), timing: Timing::default() };
    let taken = running.test_env.block_on(Leader::take(cluster, env.clone(), counted, candidacy));
    (taken, env.clock.now().duration_since(since))
}

/// The cluster with a leader's fencing.
fn cluster_of(running: &Running, leader: &Leader) -> Arc<LocalCluster> {
    Arc::new(running.cluster.as_ref().clone().fenced_by(leader.gate()))
}

/// Holds the lease as long as possible, in a separate process. Returns how that ended.
fn hold(mut leader: Leader, env: &Env) -> Arc<Mutex<Option<End>>> {
    let ended = Arc::<Mutex<Option<End>>>::default();
    let sink = Arc::clone(&ended);
    env.spawner.spawn("hold", async move { *lock(&sink) = Some(leader.hold(pending()).await) }.boxed());
    ended
}

/// The result of a write.
fn write(running: &Running, cluster: &Arc<LocalCluster>, name: &str) -> Result<(), ClusterError> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), namespace: Some("default".to_owned()), ..ObjectMeta::default() };
    let object: Box<dyn Object> = Box::new(ConfigMap { metadata, ..ConfigMap::default() });
    let cluster = Arc::clone(cluster);
    running.test_env.block_on(async move { cluster.create(object).await.map(drop) })
}

fn is_shut(outcome: &Result<(), ClusterError>) -> bool {
    matches!(outcome, Err(ClusterError::Busy { message, .. }) if message == "another one may be the leader now")
}

/// The holder of the lease, and how often it has changed.
fn holder(running: &Running) -> (String, Value) {
    let lease = running.list(LEASES).pop().expect("it is taken");
    (lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned(), lease["spec"]["leaseTransitions"].clone())
}

fn held_by(holder: &str, transitions: i32) -> (String, Value) {
    (holder.to_owned(), json!(transitions))
}

#[test]
fn one_that_was_killed_is_not_waited_for_and_what_it_had_sent_is_refused() {
    let running = Running::start("-*");
    let (killed, took) = take(&running, "killed");
    let killed = killed.expect("there is no leader");
    assert_eq!((holder(&running), took), (held_by("killed", 0), seconds(0)));
    let late = cluster_of(&running, &killed);
    write(&running, &late, "in-time").expect("it leads");
    let (env, process) = running.test_env.another();
    let _ = hold(killed, &env);
    running.test_env.run_for(seconds(21));
    process.kill();

    let (next, took) = take(&running, "next");
    let next = next.expect("no leader renews it");
    assert!((seconds(3)..seconds(4)).contains(&took), "{took}");
    assert_eq!(holder(&running), held_by("next", 1));
    let refused = write(&running, &late, "late");
    assert!(matches!(&refused, Err(ClusterError::Conflict(why)) if why.ends_with("another may lead")), "{refused:?}");
    write(&running, &cluster_of(&running, &next), "of-the-next").expect("it leads");

    running.test_env.block_on(next.release());
    let (last, took) = take(&running, "last");
    assert!(last.is_ok());
    assert_eq!((holder(&running), took), (held_by("last", 2), seconds(0)));
}

/// Otherwise it would wait for itself, as for another holder that may be alive.
#[test]
fn a_candidate_without_an_answer_to_its_lease_write_leads_as_soon_as_it_reads_its_own_lease() {
    let running = Running::start("-*");
    let (leader, took) = take_over(Arc::new(Remote::after(BEFORE_A_LOST_WRITE, &running)), &running, "unanswered");
    let leader = leader.expect("no other leader");
    assert_eq!((holder(&running), took), (held_by("unanswered", 0), SignedDuration::from_millis(500)), "it has looked once more");
    write(&running, &cluster_of(&running, &leader), "a").expect("it leads");
}

#[test]
fn a_second_one_is_refused_while_the_first_lives() {
    let running = Running::start("-*");
    let first = take(&running, "first").0.expect("there is no leader");
    let cluster = cluster_of(&running, &first);
    let ended = hold(first, &running.test_env.env());
    let (second, took) = take(&running, "second");
    assert_eq!(second.err(), Some(Lives { holder: "first".to_owned() }));
    assert!(took < seconds(6), "{took}");
    assert_eq!((holder(&running), *lock(&ended)), (held_by("first", 0), None));
    write(&running, &cluster, "a").expect("it leads as before");
}

#[test]
fn a_leader_that_could_not_renew_in_time_continues_unless_another_has_held_the_lease_meanwhile() {
    let running = Running::start("-*");
    let leader = take(&running, "alone").0.expect("there is no leader");
    let cluster = cluster_of(&running, &leader);
    let (env, process) = running.test_env.another();
    let ended = hold(leader, &env);
    running.run_controllers_over(Arc::<LocalCluster>::clone(&cluster), "deployment,replicaset", Arc::default());
    running.create(Some("default"), &deployment("web", 2));
    running.settle();
    assert_eq!(running.count(PODS), 2);

    process.pause();
    running.test_env.run_for(seconds(11));
    running.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 3}}));
    running.settle();
    assert!(is_shut(&write(&running, &cluster, "b")));
    assert_eq!(running.count(PODS), 2);
    process.resume();
    running.settle();
    assert_eq!(
        (running.count(PODS), holder(&running), *lock(&ended)),
        (3, held_by("alone", 0), None),
        "what came meanwhile is made up for"
    );

    process.pause();
    running.test_env.run_for(seconds(11));
    let (other, _) = take(&running, "other");
    assert!(other.is_ok());
    process.resume();
    running.test_env.run_for(seconds(1));
    assert_eq!((holder(&running), *lock(&ended)), (held_by("other", 1), Some(End::Lost)));
    assert!(is_shut(&write(&running, &cluster, "c")));
}

/// However long the outcome of each renewal is unknown, and whenever that begins and ends. An unanswered write made it the leader for the
/// duration of the lease. The end of that time must not prevent it from reading the lease.
#[test]
fn who_could_not_learn_of_its_renewals_goes_on_as_soon_as_it_can() {
    for (late, lasts) in (1..=14).flat_map(|late| [20, 33, 47, 60].map(|lasts| (late, lasts))) {
        let running = Running::start("-*");
        let faulty = Arc::new(Faulty::of(&running));
        let leader = take_over(Arc::<Faulty>::clone(&faulty), &running, "alone").0.expect("there is no leader");
        let cluster = cluster_of(&running, &leader);
        let ended = hold(leader, &running.test_env.env());
        running.test_env.run_for(seconds(5));
        faulty.lose_answers_after(seconds(late));
        running.test_env.run_for(seconds(lasts));
        faulty.lose_answers_after(seconds(0));
        // The last unanswered renewal, and one more.
        running.test_env.run_for(seconds(late + 5));
        assert_eq!((holder(&running), *lock(&ended)), (held_by("alone", 0), None), "{late} s late for {lasts} s");
        write(&running, &cluster, "a").unwrap_or_else(|error| panic!("{late} s late for {lasts} s: {error}"));
    }
}
