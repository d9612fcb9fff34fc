//! Managers of controllers that write by a lease: of two one leads, and over an etcd one that is alone takes it when it starts.

use super::{Part, Simulation};
use crate::{
    lock,
    network::{SimCluster, Writes},
};
use berth_api::{decode::Codec, fencing::FencingToken, k8s_openapi::api::coordination::v1::Lease};
use berth_controllers::{
    Cluster,
    election::{Candidacy, Leader, RunningTime, Timing},
    metrics::Metrics,
};
use berth_identity::ObjectKey;
use berth_store::{
    Event,
    env::{Clock, Env},
};
use futures::{FutureExt, future::pending};
use std::{sync::Arc, time::Duration};

/// By which one of them leads.
const LEASE: (&str, &str) = ("kube-system", "berth-controller-manager");

impl Simulation {
    /// Has a manager lead: its controllers begin as soon as it does.
    ///
    /// With another one standing by it waits for the lease, and ends when it has lost it. One that is alone takes the lease
    /// as soon as the one before it is seen to be gone, and goes on when it could not renew it for a while.
    pub(super) fn lead(&self, part: Part, cluster: SimCluster, env: Env, metrics: Arc<Metrics>) {
        let (time, since) = (self.time.clone(), self.time.now());
        let running: RunningTime = Arc::new(move || Duration::try_from(time.now().duration_since(since)).expect("time does not go back"));
        let lease = ObjectKey::new(LEASE.0, LEASE.1);
        let candidacy = Candidacy { lease, identity: format!("{part:?}-{}", self.started), timing: Timing::default() };
        let asking: Arc<dyn Cluster> = Arc::new(self.way(Writes::default()));
        let (api, leaderships, ended) = (self.api_of_parts.clone(), self.leaderships.clone(), Arc::clone(&self.ended));
        let begin = self.controllers(env.clone(), metrics);
        let (spawner, is_alone) = (Arc::clone(&env.spawner), !self.options.standby);
        let lead = async move {
            if !is_alone {
                let mut leader = Leader::elect(asking, env, running, candidacy).await;
                begin(Arc::new(cluster.fenced_by(leader.gate(), api, leaderships)));
                leader.keep(pending()).await;
                return lock(&ended).push(part);
            }
            let mut leader = loop {
                // Who is refused because the one before it seems to live is started again.
                if let Ok(leader) = Leader::take(Arc::clone(&asking), env.clone(), Arc::clone(&running), candidacy.clone()).await {
                    break leader;
                }
            };
            begin(Arc::new(cluster.fenced_by(leader.gate(), api, leaderships)));
            leader.hold(pending()).await;
            lock(&ended).push(part);
        };
        spawner.spawn("lead", lead.boxed());
    }

    /// Stops a part at its present step, until it is [resumed](Self::resume): it does not notice that time passes.
    pub fn pause(&mut self, part: Part) {
        if let Some(process) = self.parts.get(&part) {
            process.pause();
            self.note(&format!("{part:?} paused"));
        }
    }

    /// Lets a part go on.
    pub fn resume(&mut self, part: Part) {
        if let Some(process) = self.parts.get(&part) {
            process.resume();
            self.note(&format!("{part:?} goes on"));
        }
    }

    /// Remembers who has led since when.
    pub(super) fn take_in_lease(&mut self, plural: &str, event: &Event) {
        if (plural, event.entry.name()) != ("leases", LEASE.1) {
            return;
        }
        let spec = Lease::decode_json(&event.entry.value).ok().and_then(|lease| lease.spec).unwrap_or_default();
        let (namespace, name) = (LEASE.0.to_owned(), LEASE.1.to_owned());
        let (holder, transitions) = (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or(0));
        self.fencing_tokens.insert(event.entry.mod_revision, FencingToken { namespace, name, holder, transitions });
    }

    /// The writer of each revision was the leader then.
    pub(super) fn check_made(&mut self) {
        for (fencing_token, revision) in self.leaderships.take_made() {
            let then = self.fencing_tokens.range(..=revision).next_back().map(|(_, then)| then);
            if then != Some(&*fencing_token) {
                self.fail(&format!("revision {revision} was made for {fencing_token}, when {then:?} led"));
            }
        }
    }
}
