//! Leading: an [`Election`] carried out on a cluster, and a gate that is shut when it is over.

use super::{
    Claim, Elapsed, Election, Move, Observed, Outcome, Pulse, Record, Sign, Timing,
    gate::{Gate, Lead, RunningTime},
};
use crate::{Cluster, ClusterError, RawObject};
use berth_api::{decode::Codec, tenure::Tenure};
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

/// How often a lease is looked at that is to be had as soon as can be.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What is led, by whom, and how.
#[derive(Clone, Debug)]
pub struct Candidacy {
    /// Where the Lease is.
    pub lease: ObjectKey,
    /// Who this is: nobody else's name, not even of the same program that was started before.
    pub identity: String,
    /// Its times.
    pub timing: Timing,
}

/// Why a lease is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Somebody said so.
    Told,
    /// It could not be renewed in time, or is another's: nothing more may be done.
    Lost,
}

/// The lease is another's, who renews it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{holder:?} is the leader")]
pub struct Lives {
    /// Who.
    pub holder: String,
}

/// One that leads, until it can no longer renew its lease or releases it.
pub struct Leader {
    candidate: Candidate,
}

impl Leader {
    /// Waits until it leads, however long that takes.
    pub async fn elect(cluster: Arc<dyn Cluster>, env: Env, running: RunningTime, candidacy: Candidacy) -> Self {
        let mut candidate = Candidate::new(cluster, env, running, candidacy);
        while candidate.election.acts_until().is_none() {
            match candidate.next() {
                Move::Wait(until) => candidate.wait(until).await,
                other => candidate.carry_out(other).await,
            }
        }
        Self { candidate }
    }

    /// Leads soon, also where the lease is another's who was killed: for who is alone, as a rule, and is not to wait until it ends. What one before it has sent and
    /// what comes late is not done any more.
    ///
    /// # Errors
    /// [`Lives`]: the other one still renews it.
    pub async fn take(cluster: Arc<dyn Cluster>, env: Env, running: RunningTime, candidacy: Candidacy) -> Result<Self, Lives> {
        let mut candidate = Candidate::new(cluster, env, running, candidacy);
        let mut pulse = Pulse::default();
        loop {
            match candidate.look().await {
                Ok(found) => {
                    let lease = found.as_ref().map(|(record, _)| record);
                    candidate.tell(lease.map_or("", |record| &record.holder));
                    // By a write that was not answered it is its own already: nobody else has its name, and there is nobody to wait for.
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
            sleep(&candidate.env, LOOK_AGAIN).await;
        }
    }

    /// What is shut as soon as it leads no longer.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.candidate.gate.clone()
    }

    /// Renews the lease until it is told to stop, or as long as that can be done. A request that is under way then is waited for.
    pub async fn keep(&mut self, stop: impl Future<Output = ()>) -> End {
        let mut stop = pin!(stop);
        loop {
            match self.candidate.next() {
                Move::Wait(until) => {
                    if let Either::Left(_) = select(&mut stop, pin!(self.candidate.wait(until))).await {
                        return End::Told;
                    }
                }
                Move::Stop => {
                    self.candidate.gate.set(None);
                    return End::Lost;
                }
                other => self.candidate.carry_out(other).await,
            }
        }
    }

    /// As [`Leader::keep`], but for who goes on when the lease could not be renewed in time and nobody has taken it meanwhile: the gate is shut until it can be
    /// renewed, and what is led knows all that was written in its name.
    pub async fn hold(&mut self, stop: impl Future<Output = ()>) -> End {
        let mut stop = pin!(stop);
        while self.keep(&mut stop).await == End::Lost {
            tracing::warn!(lease = %self.candidate.lease, "the lease could not be renewed in time: the controllers write nothing until it is");
            let regained = match select(&mut stop, pin!(self.candidate.regain())).await {
                Either::Left(_) => return End::Told,
                Either::Right((regained, _)) => regained,
            };
            if !regained {
                return End::Lost;
            }
            tracing::info!(lease = %self.candidate.lease, "the lease is renewed");
        }
        End::Told
    }

    /// Begins nothing more, and lets another take the lease as soon as all that was begun has ended. Where that takes longer than the lease holds, it
    /// ends by itself.
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
    /// The holder that has been told of last.
    told: String,
}

impl Candidate {
    fn new(cluster: Arc<dyn Cluster>, env: Env, running: RunningTime, Candidacy { lease, identity, timing }: Candidacy) -> Self {
        let (gate, election) = (Gate::new(running), Election::new(identity.clone(), timing));
        Self { cluster, env, gate, lease, identity, timing, election, told: String::new() }
    }

    /// What the lease is.
    async fn look(&self) -> Result<Option<(Record, Revision)>, ClusterError> {
        let found = within(&self.env, self.limit(self.gate.now()), self.cluster.get(LEASES, &self.lease)).await;
        found.unwrap_or_else(|| Err(ClusterError::Unknown("no answer in time".to_owned())))?.as_ref().map(record).transpose()
    }

    /// Makes it its own, whosever it is.
    async fn claim(&mut self, found: Option<(Record, Revision)>) {
        let began = self.gate.now();
        self.election.read(found, began);
        let claim = self.election.claim(self.env.clock.now());
        self.write(claim, began).await;
    }

    /// Waits until the lease can be renewed that could not be in time. `false`: it has been another's.
    async fn regain(&mut self) -> bool {
        let anew = Election::new(self.identity.clone(), self.timing);
        let before = mem::replace(&mut self.election, anew).observed.map(|Observed { record, .. }| (record.holder, record.transitions));
        if before.as_ref().is_none_or(|(holder, _)| *holder != self.identity) {
            return false;
        }
        loop {
            match self.look().await {
                Ok(Some((record, revision))) if before == Some((record.holder.clone(), record.transitions)) => {
                    self.claim(Some((record, revision))).await;
                }
                Ok(_) => return false,
                Err(error) => tracing::debug!(lease = %self.lease, %error, "the lease cannot be read; retrying"),
            }
            if self.gate.is_open() {
                return true;
            }
            sleep(&self.env, LOOK_AGAIN).await;
        }
    }

    fn next(&mut self) -> Move {
        #[expect(clippy::cast_precision_loss, reason = "a thousand steps between nothing and one")]
        let chance = self.env.rng.below(1000) as f64 / 1000.0;
        self.election.next(self.gate.now(), self.env.clock.now(), chance)
    }

    /// What is neither to wait nor to stop.
    async fn carry_out(&mut self, next: Move) {
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
        let found = self.look().await;
        let now = self.gate.now();
        match found {
            Ok(found) => {
                self.tell(found.as_ref().map_or("", |(record, _)| &record.holder));
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

    /// Open while it leads, and shut else.
    fn set_gate(&self) {
        let leads = self.election.acts_until().zip(self.election.transitions());
        let lead = leads.map(|(until, transitions)| {
            let (namespace, name) = (self.lease.namespace.to_string(), self.lease.name.to_string());
            Lead { until, tenure: Arc::new(Tenure { namespace, name, holder: self.identity.clone(), transitions }) }
        });
        self.gate.set(lead);
    }

    /// How long a request may take: not beyond the moment at which it acts no longer. Who does so already may be as patient as who does not lead: with no time at
    /// all it would never learn that the lease is still its own.
    fn limit(&self, now: Elapsed) -> Duration {
        let left = self.election.acts_until().map(|until| until.saturating_sub(now)).filter(|left| !left.is_zero());
        left.unwrap_or(self.timing.renew_deadline())
    }

    fn tell(&mut self, holder: &str) {
        if self.told != holder {
            tracing::info!(lease = %self.lease, holder, "who leads");
            self.told = holder.to_owned();
        }
    }
}

/// `None`: it took longer.
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

/// What a Lease says; what somebody has left out is as if nobody had it.
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
