//! Who leads, by a Lease that all who could lead read and write: upstream's protocol (client-go `leaderelection.go`) as a plain struct.
//!
//! [`Leader`] carries it out on a [`Cluster`](crate::Cluster), and its [`Gate`] lets writes begin. What a write then carries is whose lead it is for, so that
//! a server can refuse it once that is over ([`Tenure`](berth_api::tenure::Tenure)).
//!
//! [`Election`] says what to do next and is told what came of it, and when; it has no clock and asks nobody. Times are of one machine, counted also while
//! it is suspended ([`Elapsed`]): no two machines' clocks are compared. What others see of a lease they count from when they see it, the holder from before it
//! wrote it, so the holder stops before anybody else begins.

mod gate;
mod leader;

pub use gate::{Gate, Pass, RunningTime};
pub use leader::{Candidacy, End, Leader, Lives};

use berth_identity::Revision;
use jiff::Timestamp;
use std::time::Duration;

/// Since some moment in the past of this machine, whether or not it was suspended.
pub type Elapsed = Duration;

/// How much longer at most it is until the next try, than [`Timing::retry_period`]. Source: client-go `JitterFactor`.
pub const JITTER: f64 = 1.2;

/// The times of an election, as upstream's flags name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Times with which an election would not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    /// Others would lead while the leader still acts.
    #[error("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")]
    Lease,
    /// A single failure would be the end.
    #[error("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period")]
    Deadline,
    /// It would be tried without end, or could not be written down.
    #[error("--leader-elect-retry-period must be longer than nothing, and --leader-elect-lease-duration at least a second")]
    Nothing,
}

impl Default for Timing {
    /// What upstream's flags have where nobody says otherwise.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease_duration: seconds(15), renew_deadline: seconds(10), retry_period: seconds(2) }
    }
}

impl Timing {
    /// How long a lease holds that is not renewed, how long its holder acts without having renewed it, and how long it is between two tries.
    ///
    /// # Errors
    /// [`BadTiming`]
    pub fn new(lease_duration: Duration, renew_deadline: Duration, retry_period: Duration) -> Result<Self, BadTiming> {
        // What is written down is whole seconds.
        let lease_duration = Duration::from_secs(lease_duration.as_secs());
        if retry_period.is_zero() || lease_duration.is_zero() {
            Err(BadTiming::Nothing)
        } else if lease_duration <= renew_deadline {
            Err(BadTiming::Lease)
        } else if renew_deadline <= retry_period.mul_f64(JITTER) {
            Err(BadTiming::Deadline)
        } else {
            Ok(Self { lease_duration, renew_deadline, retry_period })
        }
    }

    /// Who lives and leads renews its lease within this time, unless its requests take long.
    #[must_use]
    pub fn renews_within(&self) -> Duration {
        self.retry_period.mul_f64(1.5)
    }

    /// How long a holder acts without having renewed its lease; also how long a request about it may take.
    #[must_use]
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }
}

/// The spec of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Empty: nobody's.
    pub holder: String,
    /// How long it holds after it was renewed; whole seconds.
    pub lease_duration: Duration,
    /// Since when it is the holder's.
    pub acquire_time: Timestamp,
    /// When it was renewed, by its holder's clock; for people.
    pub renew_time: Timestamp,
    /// How often it has changed hands.
    pub transitions: i32,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing until then.
    Wait(Elapsed),
    /// Read the lease; [`Election::read`] takes what it is.
    Read,
    /// Write the lease; [`Election::written`] takes what came of it.
    Write(Claim),
    /// What was led is led no longer: nothing more may be done. For good.
    Stop,
}

/// A lease to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// As it is to be.
    pub record: Record,
    /// The version that it replaces; `None`: there is none.
    pub over: Option<Revision>,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there, in this version.
    Written(Revision),
    /// Somebody else was first.
    Raced,
    /// It may or may not be there.
    Unknown,
}

/// Whether the holder of a lease lives, for who would not wait until the lease ends.
#[derive(Debug, Default)]
pub struct Pulse {
    /// The lease as it was seen last, and when it was first seen so.
    seen: Option<(Record, Elapsed)>,
    /// How often its holder was seen to renew it.
    renewals: u32,
}

/// What is known of a lease's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Nothing yet.
    None,
    /// It leads.
    Lives,
    /// It has not renewed its lease in the time in which one that lives does; or there is none.
    Gone,
}

impl Pulse {
    /// The lease is this at `now`.
    pub fn feel(&mut self, lease: Option<&Record>, timing: Timing, now: Elapsed) -> Sign {
        let Some(lease) = lease.filter(|lease| !lease.holder.is_empty()) else { return Sign::Gone };
        match &self.seen {
            Some((seen, since)) if seen == lease => {
                return if now < *since + timing.renews_within() { Sign::None } else { Sign::Gone };
            }
            Some((seen, _)) if seen.holder == lease.holder => self.renewals += 1,
            _ => self.renewals = 0,
        }
        self.seen = Some((lease.clone(), now));
        // A single one may be what the last holder had sent before it was killed.
        if self.renewals < 2 { Sign::None } else { Sign::Lives }
    }
}

/// One who could lead.
#[derive(Debug)]
pub struct Election {
    identity: String,
    timing: Timing,
    /// The lease as it was seen last; `None`: never, or there is none.
    observed: Option<Observed>,
    /// Whether nothing has shown since that it may have changed.
    is_fresh: bool,
    next_try: Elapsed,
    /// What was written last without an answer, and when that was begun.
    unanswered: Option<(Record, Elapsed)>,
    role: Role,
}

#[derive(Debug)]
struct Observed {
    record: Record,
    revision: Revision,
    /// When it was first seen so.
    since: Elapsed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follows,
    Leads {
        /// Before the write that renewed it last.
        renewed_at: Elapsed,
        transitions: i32,
    },
    Stopped,
}

impl Election {
    /// Somebody new. `identity` is nobody else's, not even of the same program that was started before.
    #[must_use]
    pub fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, observed: None, is_fresh: false, next_try: Elapsed::ZERO, unanswered: None, role: Role::Follows }
    }

    /// What to do at `now`. `wall` is what people are told; `chance` from 0 to 1, so that not all try at once.
    pub fn next(&mut self, now: Elapsed, wall: Timestamp, chance: f64) -> Move {
        if self.role == Role::Stopped || self.acts_until().is_some_and(|until| until <= now) {
            self.role = Role::Stopped;
            return Move::Stop;
        }
        if now < self.next_try {
            return Move::Wait(self.acts_until().map_or(self.next_try, |until| until.min(self.next_try)));
        }
        if !self.is_fresh {
            return Move::Read;
        }
        if let Some(ends) = self.observed.as_ref().and_then(|observed| self.anothers_until(observed)).filter(|ends| now < *ends) {
            let pause = self.timing.retry_period.mul_f64(1.0 + (JITTER - 1.0) * chance.clamp(0.0, 1.0));
            // Not later than it ends: who was killed just after it renewed was seen to do so within a pause, and a second one is not waited for.
            (self.is_fresh, self.next_try) = (false, ends.min(now + pause));
            return Move::Wait(self.next_try);
        }
        Move::Write(self.claim(wall))
    }

    /// The lease is this at `now`; `None`: there is none. If it is what was written without an answer, that was done: it leads since.
    pub fn read(&mut self, found: Option<(Record, Revision)>, now: Elapsed) {
        self.is_fresh = true;
        let since = |record: &Record| match &self.observed {
            Some(observed) if observed.record == *record => observed.since,
            _ => now,
        };
        self.observed = found.map(|(record, revision)| Observed { since: since(&record), record, revision });
        let is_anothers = self.observed.as_ref().is_some_and(|observed| observed.record.holder != self.identity);
        if is_anothers && matches!(self.role, Role::Leads { .. }) {
            self.role = Role::Stopped;
        }
        if self.role == Role::Stopped {
            return;
        }
        let own = self.observed.as_ref().filter(|observed| observed.record.holder == self.identity);
        let done = own.zip(self.unanswered.as_ref()).filter(|(own, (record, _))| own.record == *record);
        let done = done.map(|(_, (record, began))| (record.transitions, *began));
        // Others count from when they saw it, which was not before it was begun.
        if let Some((transitions, renewed_at)) = done.filter(|(_, began)| now < *began + self.timing.renew_deadline) {
            self.role = Role::Leads { renewed_at, transitions };
        }
    }

    /// It could not be read.
    pub fn unread(&mut self, now: Elapsed) {
        self.next_try = now + self.timing.retry_period;
    }

    /// What came of a claim by `now`, which was begun at `began`.
    pub fn written(&mut self, claim: Claim, outcome: Outcome, began: Elapsed, now: Elapsed) {
        self.is_fresh = false;
        match outcome {
            Outcome::Written(revision) if claim.record.holder == self.identity => {
                self.role = Role::Leads { renewed_at: began, transitions: claim.record.transitions };
                self.observed = Some(Observed { record: claim.record, revision, since: now });
                self.unanswered = None;
                (self.is_fresh, self.next_try) = (true, now + self.timing.retry_period);
            }
            // Whose it is now is the next question: at once for who leads.
            Outcome::Raced if matches!(self.role, Role::Leads { .. }) => (),
            Outcome::Written(_) | Outcome::Raced => self.next_try = now + self.timing.retry_period,
            Outcome::Unknown => {
                self.next_try = now + self.timing.retry_period;
                // Where the clock of people stood still, the first of two that are alike may be the one that is done.
                let began = self.unanswered.take().filter(|(record, _)| *record == claim.record).map_or(began, |(_, began)| began);
                self.unanswered = Some((claim.record, began));
            }
        }
    }

    /// Until when it may act: from this moment on, nothing. `None`: it does not lead.
    #[must_use]
    pub fn acts_until(&self) -> Option<Elapsed> {
        match self.role {
            Role::Leads { renewed_at, .. } => Some(renewed_at + self.timing.renew_deadline),
            Role::Follows | Role::Stopped => None,
        }
    }

    /// How often the lease has changed hands until it was this one's. `None`: it does not lead.
    #[must_use]
    pub fn transitions(&self) -> Option<i32> {
        match self.role {
            Role::Leads { transitions, .. } => Some(transitions),
            Role::Follows | Role::Stopped => None,
        }
    }

    /// Stops, and gives the lease as it is to be written so that the next can take it at once; `None`: it is not held.
    #[must_use]
    pub fn release(&mut self, wall: Timestamp) -> Option<Claim> {
        let Role::Leads { transitions, .. } = self.role else { return None };
        self.role = Role::Stopped;
        let over = self.observed.as_ref().map(|observed| observed.revision)?;
        let lease_duration = Duration::from_secs(1);
        Some(Claim {
            record: Record { holder: String::new(), lease_duration, acquire_time: wall, renew_time: wall, transitions },
            over: Some(over),
        })
    }

    /// Until when it is another's, unless it is renewed; `None`: it is no other's.
    fn anothers_until(&self, observed: &Observed) -> Option<Elapsed> {
        let Record { holder, lease_duration, .. } = &observed.record;
        (!holder.is_empty() && *holder != self.identity).then(|| observed.since + *lease_duration)
    }

    fn claim(&self, wall: Timestamp) -> Claim {
        // What is written down is microseconds.
        let wall = Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall);
        let before = self.observed.as_ref();
        let own = before.filter(|observed| observed.record.holder == self.identity);
        let transitions = match (own, before, self.role) {
            (Some(own), _, _) => own.record.transitions,
            (None, Some(before), _) => before.record.transitions.saturating_add(1),
            // Somebody has deleted it.
            (None, None, Role::Leads { transitions, .. }) => transitions,
            (None, None, _) => 0,
        };
        let record = Record {
            holder: self.identity.clone(),
            lease_duration: self.timing.lease_duration,
            acquire_time: own.map_or(wall, |own| own.record.acquire_time),
            renew_time: wall,
            transitions,
        };
        Claim { record, over: before.map(|before| before.revision) }
    }
}

#[cfg(test)]
mod tests;
