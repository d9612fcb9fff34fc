//! Leadership: executes an [`Election`] on a cluster, with a gate that shuts when the term ends.

use super::{
    Claim, Elapsed, Election, Move, Observed, Outcome, Pulse, Record, Sign, Timing,
    gate::{Gate, Lead, RunningTime},
};
use crate::{Cluster, ClusterError, RawObject};
use berth_api::{decode::Codec, fencing::FencingToken};
use berth_env::Env;
use berth_identity::{ObjectKey, Revision};
use berth_workloads::resources::LEASES;
use futures::future::{BoxFuture, Either, select};
use jiff::SignedDuration;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use serde_json::json;
use std::{mem, pin::pin, sync::Arc, time::Duration};

/// How often [`Leader::take`] reads a lease.
const READ_INTERVAL: Duration = Duration::from_millis(500);

/// The lease and the candidate.
#[derive(Clone, Debug)]
pub struct Candidacy {
    /// The key of the Lease.
    pub lease: ObjectKey,
    /// The candidate's identity: unique, even among earlier runs of the same program.
    pub identity: String,
    /// The durations.
    pub timing: Timing,
}

/// Why the leader stopped renewing a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The caller stopped it.
    Stopped,
    /// The lease could not be renewed in time, or another candidate holds it. Nothing more may be done.
    Lost,
}

/// Another process holds the lease and renews it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{holder:?} is the leader")]
pub struct Lives {
    /// The holder.
    pub holder: String,
}

/// A leader, until it can no longer renew its lease or releases it.
pub struct Leader {
    candidate: Candidate,
}

impl Leader {
    /// Waits until it leads, indefinitely.
    pub async fn elect(cluster: Arc<dyn Cluster>, env: Env, running: RunningTime, candidacy: Candidacy) -> Self {
        let mut candidate = Candidate::new(cluster, env, running, candidacy);
        while candidate.election.acts_until().is_none() {
            match candidate.next() {
                Move::Wait(until) => candidate.wait(until).await,
                other => candidate.execute(other).await,
            }
        }
        Self { candidate }
    }

    /// Leads soon even if a killed process held the lease. This is for a process that usually runs alone and must not wait for the lease to
    /// end. A server rejects late requests of the former holder.
    ///
    /// # Errors
    /// [`Lives`]: the other process still renews the lease.
    pub async fn take(cluster: Arc<dyn Cluster>, env: Env, running: RunningTime, candidacy: Candidacy) -> Result<Self, Lives> {
        let mut candidate = Candidate::new(cluster, env, running, candidacy);
        let mut pulse = Pulse::default();
        loop {
            match candidate.read_lease().await {
                Ok(found) => {
                    let lease = found.as_ref().map(|(record, _)| record);
                    candidate.log_holder(lease.map_or("", |record| &record.holder));
                    // An unanswered write has acquired the lease: no other process has this identity, so there is no holder to wait for.
                    let is_own = lease.is_some_and(|record| record.holder == candidate.identity);
                    let now = candidate.gate.now();
                    match if is_own { Sign::Gone } else { pulse.feel(lease, candidate.timing, now) } {
                        Sign::None => (),
                        Sign::Lives => return Err(Lives { holder: lease.map(|record| record.holder.clone()).unwrap_or_default() }),
                        Sign::Gone => candidate.claim(found).await,
                    }
                }
                Err(error) => tracing::warn!(lease = %candidate.lease, %error, "the lease cannot be read; retrying"),
            }
            if candidate.gate.is_open() {
                return Ok(Self { candidate });
            }
            sleep(&candidate.env, READ_INTERVAL).await;
        }
    }

    /// The gate, which shuts when the term ends.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.candidate.gate.clone()
    }

    /// Renews the lease until `stop` resolves or a renewal fails in time. Waits for a request in progress.
    pub async fn keep(&mut self, stop: impl Future<Output = ()>) -> End {
        let mut stop = pin!(stop);
        loop {
            match self.candidate.next() {
                Move::Wait(until) => {
                    if let Either::Left(_) = select(&mut stop, pin!(self.candidate.wait(until))).await {
                        return End::Stopped;
                    }
                }
                Move::Stop => {
                    self.candidate.gate.set(None);
                    return End::Lost;
                }
                other => self.candidate.execute(other).await,
            }
        }
    }

    /// As [`Leader::keep`], for a leader that continues if the lease could not be renewed in time but no other process has acquired it. The
    /// gate is shut until a renewal succeeds. The controllers know all writes in their name.
    pub async fn hold(&mut self, stop: impl Future<Output = ()>) -> End {
        let mut stop = pin!(stop);
        while self.keep(&mut stop).await == End::Lost {
            tracing::warn!(lease = %self.candidate.lease, "the lease could not be renewed in time: the controllers write nothing until it is");
            let regained = match select(&mut stop, pin!(self.candidate.regain())).await {
                Either::Left(_) => return End::Stopped,
                Either::Right((regained, _)) => regained,
            };
            if !regained {
                return End::Lost;
            }
            tracing::info!(lease = %self.candidate.lease, "the lease is renewed");
        }
        End::Stopped
    }

    /// Starts nothing more, and releases the lease after all writes in progress have ended. If they take longer than the lease is valid, it
    /// expires by itself.
    pub async fn release(mut self) {
        let Candidate { cluster, env, gate, lease, election, .. } = &mut self.candidate;
        gate.set(None);
        let Some(left) = election.acts_until().map(|until| until.saturating_sub(gate.now())) else { return };
        let Some(claim) = election.release(env.clock.now()) else { return };
        let released = async {
            gate.at_rest().await;
            write(&**cluster, lease, &claim).await
        };
        match within(env, left, released).await {
            Some(Ok(_)) => (),
            Some(Err(error)) => tracing::info!(%lease, %error, "the lease could not be released: it expires later"),
            None => tracing::info!(%lease, "requests are still in progress: the lease expires later"),
        }
    }
}

struct Candidate {
    cluster: Arc<dyn Cluster>,
    env: Env,
    gate: Gate,
    lease: ObjectKey,
    identity: String,
    timing: Timing,
    election: Election,
    /// The holder that was logged last.
    logged_holder: String,
}

impl Candidate {
    fn new(cluster: Arc<dyn Cluster>, env: Env, running: RunningTime, Candidacy { lease, identity, timing }: Candidacy) -> Self {
        let (gate, election) = (Gate::new(running), Election::new(identity.clone(), timing));
        Self { cluster, env, gate, lease, identity, timing, election, logged_holder: String::new() }
    }

    /// Reads the lease.
    async fn read_lease(&self) -> Result<Option<(Record, Revision)>, ClusterError> {
        let found = within(&self.env, self.limit(self.gate.now()), self.cluster.get(LEASES, &self.lease)).await;
        found.unwrap_or_else(|| Err(ClusterError::Unknown("no answer in time".to_owned())))?.as_ref().map(record).transpose()
    }

    /// Acquires the lease, even from another holder.
    async fn claim(&mut self, found: Option<(Record, Revision)>) {
        let began = self.gate.now();
        self.election.read(found, began);
        let claim = self.election.claim(self.env.clock.now());
        self.write(claim, began).await;
    }

    /// Waits until an expired lease can be renewed. Returns `false` if another candidate has held it.
    async fn regain(&mut self) -> bool {
        let anew = Election::new(self.identity.clone(), self.timing);
        let before = mem::replace(&mut self.election, anew).observed.map(|Observed { record, .. }| (record.holder, record.transitions));
        if before.as_ref().is_none_or(|(holder, _)| *holder != self.identity) {
            return false;
        }
        loop {
            match self.read_lease().await {
                Ok(Some((record, revision))) if before == Some((record.holder.clone(), record.transitions)) => {
                    self.claim(Some((record, revision))).await;
                }
                Ok(_) => return false,
                Err(error) => tracing::debug!(lease = %self.lease, %error, "the lease cannot be read; retrying"),
            }
            if self.gate.is_open() {
                return true;
            }
            sleep(&self.env, READ_INTERVAL).await;
        }
    }

    fn next(&mut self) -> Move {
        #[expect(clippy::cast_precision_loss, reason = "a thousand steps between nothing and one")]
        let chance = self.env.rng.below(1000) as f64 / 1000.0;
        self.election.next(self.gate.now(), self.env.clock.now(), chance)
    }

    /// Executes a move that neither waits nor stops.
    async fn execute(&mut self, next: Move) {
        let now = self.gate.now();
        match next {
            Move::Read => self.read().await,
            Move::Write(claim) => self.write(claim, now).await,
            Move::Wait(_) | Move::Stop => (),
        }
    }

    fn wait(&self, until: Elapsed) -> BoxFuture<'static, ()> {
        sleep(&self.env, until.saturating_sub(self.gate.now()))
    }

    async fn read(&mut self) {
        let found = self.read_lease().await;
        let now = self.gate.now();
        match found {
            Ok(found) => {
                self.log_holder(found.as_ref().map_or("", |(record, _)| &record.holder));
                self.election.read(found, now);
            }
            Err(error) => {
                tracing::warn!(lease = %self.lease, %error, "the lease cannot be read; retrying");
                self.election.unread(now);
            }
        }
        self.set_gate();
    }

    async fn write(&mut self, claim: Claim, began: Elapsed) {
        let limit = self.limit(began);
        let written = within(&self.env, limit, write(&*self.cluster, &self.lease, &claim)).await;
        let outcome = match written {
            Some(Ok(object)) => Outcome::Written(object.revision),
            Some(Err(ClusterError::Conflict(_) | ClusterError::AlreadyExists(_) | ClusterError::NotFound(_))) => Outcome::Raced,
            Some(Err(error)) => {
                tracing::warn!(lease = %self.lease, %error, "the lease cannot be written; retrying");
                Outcome::Unknown
            }
            None => Outcome::Unknown,
        };
        self.election.written(claim, outcome, began, self.gate.now());
        self.set_gate();
    }

    /// Opens the gate while the candidate leads, and shuts it otherwise.
    fn set_gate(&self) {
        let leads = self.election.acts_until().zip(self.election.transitions());
        let lead = leads.map(|(until, transitions)| {
            let (namespace, name) = (self.lease.namespace.to_string(), self.lease.name.to_string());
            Lead { until, fencing_token: Arc::new(FencingToken { namespace, name, holder: self.identity.clone(), transitions }) }
        });
        self.gate.set(lead);
    }

    /// How long a request may take: at most until the end of the term. A leader whose time is over may wait as long as a follower. With
    /// no time at all it would never learn that the lease is still its own.
    fn limit(&self, now: Elapsed) -> Duration {
        let left = self.election.acts_until().map(|until| until.saturating_sub(now)).filter(|left| !left.is_zero());
        left.unwrap_or(self.timing.renew_deadline())
    }

    fn log_holder(&mut self, holder: &str) {
        if self.logged_holder != holder {
            tracing::info!(lease = %self.lease, holder, "who leads");
            self.logged_holder = holder.to_owned();
        }
    }
}

/// Returns `None` on a timeout.
async fn within<T>(env: &Env, limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    match select(pin!(call), sleep(env, limit)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

fn sleep(env: &Env, duration: Duration) -> BoxFuture<'static, ()> {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    env.clock.sleep_until(env.clock.now() + duration)
}

async fn write(cluster: &dyn Cluster, lease: &ObjectKey, claim: &Claim) -> Result<RawObject, ClusterError> {
    let Record { holder, lease_duration, acquire_time, renew_time, transitions } = &claim.record;
    let spec = LeaseSpec {
        holder_identity: Some(holder.clone()),
        lease_duration_seconds: Some(i32::try_from(lease_duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(*acquire_time)),
        renew_time: Some(MicroTime(*renew_time)),
        lease_transitions: Some(*transitions),
        ..LeaseSpec::default()
    };
    match claim.over {
        Some(revision) => {
            let patch = json!({"metadata": {"resourceVersion": revision.to_string()}, "spec": spec});
            cluster.patch(LEASES, lease, None, patch).await
        }
        None => {
            let name = |text: &str| Some(text.to_owned());
            let metadata = ObjectMeta { name: name(&lease.name), namespace: name(&lease.namespace), ..ObjectMeta::default() };
            cluster.create(Box::new(Lease { metadata, spec: Some(spec) })).await
        }
    }
}

/// Decodes a Lease. Missing fields count as a lease without a holder.
fn record(object: &RawObject) -> Result<(Record, Revision), ClusterError> {
    let lease = Lease::decode_json(&object.json).map_err(|error| ClusterError::Refused(format!("a Lease that is none: {error}")))?;
    let spec = lease.spec.unwrap_or_default();
    let time = |time: Option<MicroTime>| time.map(|MicroTime(time)| time).unwrap_or_default();
    let record = Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease_duration: Duration::from_secs(spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0)),
        acquire_time: time(spec.acquire_time),
        renew_time: time(spec.renew_time),
        transitions: spec.lease_transitions.unwrap_or(0),
    };
    Ok((record, object.revision))
}
