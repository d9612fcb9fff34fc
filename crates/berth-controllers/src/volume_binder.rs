//! The persistent volume binder: the changes that enqueue claims and volumes, and the input of their plans.
//!
//! One queue serves both: keys without a namespace are volumes. The users of claims are only watched once a claim exists.

mod index;

pub use index::{ClaimCache, ClaimIndex, ClaimUserCache, ClaimUserIndex, ClassCache, VolumeCache, VolumeIndex, claim_key};

use crate::{
    cache::{AnyCache, Delta},
    cluster::Cluster,
    lock,
    metrics::Metrics,
    plan_loop::Planner,
    worker::Queue,
};
use berth_env::Spawner;
use berth_identity::{ObjectKey, Uid};
use berth_workloads::{
    Plan,
    resources::{CLAIMS, CLASSES, PODS, VOLUMES},
    view::View,
    volume_binding::{
        ClaimUserView, ClaimView, ClassView, STORAGE_PROVISIONER, VolumeView,
        claim::{self, class_of},
        volume,
    },
};
use event_listener::Event;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Plans claims and volumes. Cheap to clone.
#[derive(Clone)]
pub struct VolumeBinder {
    claims: Arc<ClaimCache>,
    volumes: Arc<VolumeCache>,
    classes: Arc<ClassCache>,
    users: Arc<ClaimUserCache>,
    provision_latency: SignedDuration,
    /// When the provisioning for each claim was first observed, by the claim's uid.
    provisioning_since: Arc<Mutex<BTreeMap<Uid, Timestamp>>>,
    appeared: Arc<Event>,
}

/// The volumes that matter for one claim.
#[derive(Default)]
struct Volumes {
    /// The volume that it names.
    named: Option<Arc<VolumeView>>,
    /// The volumes that are reserved for it.
    reserved: Vec<Arc<VolumeView>>,
    /// The volumes that are available to it.
    free: Vec<Arc<VolumeView>>,
}

impl VolumeBinder {
    /// A planner over its own caches. `provision_latency` is how long provisioning takes.
    #[must_use]
    pub fn new(provision_latency: SignedDuration) -> Self {
        Self {
            claims: Arc::new(ClaimCache::new(CLAIMS)),
            volumes: Arc::new(VolumeCache::new(VOLUMES)),
            classes: Arc::new(ClassCache::new(CLASSES)),
            users: Arc::new(ClaimUserCache::new(PODS)),
            provision_latency,
            provisioning_since: Arc::default(),
            appeared: Arc::default(),
        }
    }

    /// Adds the keys of affected claims and volumes to `queue`. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (binder, woken) = (self.clone(), queue.clone());
        self.claims.on_change(move |delta| binder.claim_changed(delta, &woken));
        let (binder, woken) = (self.clone(), queue.clone());
        self.volumes.on_change(move |delta| binder.volume_changed(delta, &woken));
        let (binder, woken) = (self.clone(), queue.clone());
        self.classes.on_change(move |delta| binder.class_changed(delta, &woken));
        let woken = queue.clone();
        self.users.on_change(move |delta| user_changed(delta, &woken));
    }

    /// The caches in which own writes appear.
    #[must_use]
    pub fn caches(&self) -> Vec<Arc<dyn AnyCache>> {
        vec![Arc::<ClaimCache>::clone(&self.claims), Arc::<VolumeCache>::clone(&self.volumes)]
    }

    /// Resolves when a claim or volume exists and all input of plans is cached.
    pub async fn synced(&self, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.claims.start(cluster, spawner, metrics);
        self.volumes.start(cluster, spawner, metrics);
        self.classes.start(cluster, spawner, metrics);
        self.claims.synced().await;
        self.volumes.synced().await;
        self.classes.synced().await;
        loop {
            let appeared = self.appeared.listen();
            if !self.claims.read().is_empty() || !self.volumes.read().is_empty() {
                break;
            }
            appeared.await;
        }
        self.users.start(cluster, spawner, metrics);
        self.users.synced().await;
    }

    fn claim_changed(&self, delta: &Delta<ClaimView>, queue: &Queue<ObjectKey>) {
        let Some(claim) = delta.sides().next() else { return };
        let key = claim.key();
        self.volumes.read().index().reserved(&key).for_each(|volume| queue.add(volume.key()));
        delta
            .sides()
            .filter(|claim| !claim.volume_name.is_empty())
            .for_each(|claim| queue.add(ObjectKey::cluster_scoped(&claim.volume_name)));
        if delta.new.as_ref().is_none_or(|claim| claim.is_bind_completed()) {
            lock(&self.provisioning_since).remove(&claim.meta.uid);
        }
        queue.add(key);
        self.appeared.notify(usize::MAX);
    }

    fn volume_changed(&self, delta: &Delta<VolumeView>, queue: &Queue<ObjectKey>) {
        let Some(volume) = delta.sides().next() else { return };
        queue.add(volume.key());
        delta.sides().filter_map(|volume| volume.claim_ref.as_ref()).for_each(|claim_ref| queue.add(claim_key(claim_ref)));
        let known = self.claims.read();
        known.index().naming(&volume.meta.name).for_each(|claim| queue.add(claim.clone()));
        for free in delta.new.iter().filter(|volume| volume.is_free()) {
            known.index().looking(&free.class).for_each(|claim| queue.add(claim.clone()));
        }
        self.appeared.notify(usize::MAX);
    }

    fn class_changed(&self, delta: &Delta<ClassView>, queue: &Queue<ObjectKey>) {
        for class in delta.sides().take(1) {
            self.claims.read().index().looking(&class.meta.name).for_each(|claim| queue.add(claim.clone()));
        }
    }

    fn plan_claim(&self, key: &ObjectKey, now: Timestamp) -> Option<Plan> {
        // The revisions are read before the objects, so the plan's input may be newer, but never older.
        let known_to = self.volumes.revision().min(self.users.revision());
        let claim = self.claims.get(key)?;
        let class = claim.class_name().and_then(|class| self.classes.get(&ObjectKey::cluster_scoped(class)));
        let volumes = self.volumes_for(&claim);
        let users: Vec<Arc<ClaimUserView>> = self.users.read().index().users(key).cloned().collect();
        Some(claim::plan(&claim::ClaimState {
            claim: &claim,
            class: class.as_deref(),
            named: volumes.named.as_deref(),
            reserved: volumes.reserved.iter().map(|volume| &**volume).collect(),
            free: volumes.free.iter().map(|volume| &**volume).collect(),
            users: users.iter().map(|user| &**user).collect(),
            is_all_known: claim.meta.revision <= known_to,
            provisioning_since: self.provisioning_since(&claim, now),
            provision_latency: self.provision_latency,
            now,
        }))
    }

    fn volumes_for(&self, claim: &ClaimView) -> Volumes {
        let known = self.volumes.read();
        if !claim.volume_name.is_empty() {
            return Volumes { named: known.get(&ObjectKey::cluster_scoped(&claim.volume_name)), ..Volumes::default() };
        }
        let key = claim.key();
        let reserved = known.index().reserved(&key).filter(|volume| volume.is_for(claim));
        Volumes { named: None, reserved: reserved.cloned().collect(), free: known.index().free(class_of(claim)).cloned().collect() }
    }

    fn provisioning_since(&self, claim: &ClaimView, now: Timestamp) -> Timestamp {
        if claim.is_bind_completed() || !claim.meta.annotations.contains_key(STORAGE_PROVISIONER) {
            return now;
        }
        *lock(&self.provisioning_since).entry(claim.meta.uid.clone()).or_insert(now)
    }

    fn plan_volume(&self, key: &ObjectKey) -> Option<Plan> {
        let volume = self.volumes.get(key)?;
        let claim = volume.claim_ref.as_ref().and_then(|claim_ref| self.claims.get(&claim_key(claim_ref)));
        Some(volume::plan(&volume::VolumeState { volume: &volume, claim: claim.as_deref() }))
    }
}

fn user_changed(delta: &Delta<ClaimUserView>, queue: &Queue<ObjectKey>) {
    let counted = |side: &Option<Arc<ClaimUserView>>| side.as_ref().map(|pod| pod.is_placed);
    if counted(&delta.old) != counted(&delta.new) {
        delta.sides().take(1).flat_map(|pod| index::claims(pod)).for_each(|claim| queue.add(claim));
    }
}

impl Planner for VolumeBinder {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        if key.namespace.is_empty() { self.plan_volume(key) } else { self.plan_claim(key, now) }
    }
}
