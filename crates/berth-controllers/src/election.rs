//! Leader election by a Lease that all candidates read and write: upstream's protocol (client-go `leaderelection.go`) as a plain struct.
//!
//! [`Leader`] executes it on a [`Cluster`](crate::Cluster), and its [`Gate`] admits writes. Each write carries a fencing token, so that a server
//! can reject it after that term has ended ([`FencingToken`](berth_api::fencing::FencingToken)).
//!
//! [`Election`] returns the next step and takes its outcome and time. It has no clock and makes no requests. Times are those of one
//! machine, including suspension ([`Elapsed`]), so clocks of two machines are never compared. Candidates count a lease from when they
//! observe it, and the holder counts it from before its write. So the holder stops before another candidate begins.

mod gate;
mod leader;

pub use gate::{Gate, Pass, RunningTime};
pub use leader::{Candidacy, End, Leader, Lives};

use berth_identity::Revision;
use jiff::Timestamp;
use std::time::Duration;

/// The time since a fixed moment on this machine, including suspension.
pub type Elapsed = Duration;

/// The maximum factor on [`Timing::retry_period`] until the next attempt. Source: client-go `JitterFactor`.
pub const JITTER: f64 = 1.2;

/// The durations of an election, named as upstream's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Durations with which an election would not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    /// Another candidate could lead while the leader still acts.
    #[error("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline")]
    Lease,
    /// A single failed renewal would end the term.
    #[error("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period")]
    Deadline,
    /// The retries would have no delay, or the lease duration would be written as 0 seconds.
    #[error("--leader-elect-retry-period must be longer than nothing, and --leader-elect-lease-duration at least a second")]
    Nothing,
}

impl Default for Timing {
    /// The defaults of upstream's flags.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease_duration: seconds(15), renew_deadline: seconds(10), retry_period: seconds(2) }
    }
}

impl Timing {
    /// Takes how long a lease is valid without a renewal, how long its holder acts without one, and the delay between two attempts.
    ///
    /// # Errors
    /// [`BadTiming`]
    pub fn new(lease_duration: Duration, renew_deadline: Duration, retry_period: Duration) -> Result<Self, BadTiming> {
        // The lease contains whole seconds.
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

    /// A live leader renews its lease within this time, unless its requests take long.
    #[must_use]
    pub fn renews_within(&self) -> Duration {
        self.retry_period.mul_f64(1.5)
    }

    /// How long a holder acts without a renewal, and the timeout of a request about the lease.
    #[must_use]
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }
}

/// The spec of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The holder. Empty if there is none.
    pub holder: String,
    /// How long the lease is valid after a renewal, in whole seconds.
    pub lease_duration: Duration,
    /// When the holder acquired it.
    pub acquire_time: Timestamp,
    /// When it was renewed, by its holder's clock, for users.
    pub renew_time: Timestamp,
    /// How often the holder has changed.
    pub transitions: i32,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Wait until this time.
    Wait(Elapsed),
    /// Read the lease, and pass it to [`Election::read`].
    Read,
    /// Write the lease, and pass the outcome to [`Election::written`].
    Write(Claim),
    /// The term has ended for good: do nothing more.
    Stop,
}

/// A lease to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The new content.
    pub record: Record,
    /// The version that it replaces. `None` if there is no lease.
    pub over: Option<Revision>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is written in this version.
    Written(Revision),
    /// Another candidate wrote first.
    Raced,
    /// Whether the lease is written is unknown.
    Unknown,
}

/// Detects whether the holder of a lease is alive, for candidates that do not wait for the end of the lease.
#[derive(Debug, Default)]
pub struct Pulse {
    /// The lease as last observed, and when it was first observed so.
    seen: Option<(Record, Elapsed)>,
    /// How many renewals were observed.
    renewals: u32,
}

/// The state of a lease's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Not known yet.
    None,
    /// The holder is alive.
    Lives,
    /// The holder has not renewed its lease within the time of a live holder, or there is none.
    Gone,
}

impl Pulse {
    /// Records the lease at `now`.
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
        // A single renewal may be a late request of a killed holder.
        if self.renewals < 2 { Sign::None } else { Sign::Lives }
    }
}

/// One candidate.
#[derive(Debug)]
pub struct Election {
    identity: String,
    timing: Timing,
    /// The lease as last observed. `None` if it was never observed or does not exist.
    observed: Option<Observed>,
    /// Whether the lease has not changed since, as far as is known.
    is_fresh: bool,
    next_try: Elapsed,
    /// The last write without an answer, and when it began.
    unanswered: Option<(Record, Elapsed)>,
    role: Role,
}

#[derive(Debug)]
struct Observed {
    record: Record,
    revision: Revision,
    /// When this version was first observed.
    since: Elapsed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Follows,
    Leads {
        /// When the write of the last renewal began.
        renewed_at: Elapsed,
        transitions: i32,
    },
    Stopped,
}

impl Election {
    /// A new candidate. `identity` must be unique, even among earlier runs of the same program.
    #[must_use]
    pub fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, observed: None, is_fresh: false, next_try: Elapsed::ZERO, unanswered: None, role: Role::Follows }
    }

    /// The next step at `now`. `wall` is only for users. `chance` is from 0 to 1, so that candidates do not all try at once.
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
            // Not later than the end of the lease. The renewal of a holder that was then killed was observed within one pause, so a second
            // pause is not necessary.
            (self.is_fresh, self.next_try) = (false, ends.min(now + pause));
            return Move::Wait(self.next_try);
        }
        Move::Write(self.claim(wall))
    }

    /// Records the lease at `now`; `None` if there is none. If it equals an unanswered write, that write succeeded, and the candidate has
    /// led since then.
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
        // Other candidates count from when they observed it, which was not before the write began.
        if let Some((transitions, renewed_at)) = done.filter(|(_, began)| now < *began + self.timing.renew_deadline) {
            self.role = Role::Leads { renewed_at, transitions };
        }
    }

    /// Records that the lease could not be read.
    pub fn unread(&mut self, now: Elapsed) {
        self.next_try = now + self.timing.retry_period;
    }

    /// Records by `now` the outcome of a claim that began at `began`.
    pub fn written(&mut self, claim: Claim, outcome: Outcome, began: Elapsed, now: Elapsed) {
        self.is_fresh = false;
        match outcome {
            Outcome::Written(revision) if claim.record.holder == self.identity => {
                self.role = Role::Leads { renewed_at: began, transitions: claim.record.transitions };
                self.observed = Some(Observed { record: claim.record, revision, since: now });
                self.unanswered = None;
                (self.is_fresh, self.next_try) = (true, now + self.timing.retry_period);
            }
            // Next, find out who holds the lease: at once if this candidate leads.
            Outcome::Raced if matches!(self.role, Role::Leads { .. }) => (),
            Outcome::Written(_) | Outcome::Raced => self.next_try = now + self.timing.retry_period,
            Outcome::Unknown => {
                self.next_try = now + self.timing.retry_period;
                // If the wall clock does not advance, either of two equal writes may be the one that succeeded, so the earlier start
                // counts.
                let began = self.unanswered.take().filter(|(record, _)| *record == claim.record).map_or(began, |(_, began)| began);
                self.unanswered = Some((claim.record, began));
            }
        }
    }

    /// Until when it may act. From then on, it may not. `None` if it does not lead.
    #[must_use]
    pub fn acts_until(&self) -> Option<Elapsed> {
        match self.role {
            Role::Leads { renewed_at, .. } => Some(renewed_at + self.timing.renew_deadline),
            Role::Follows | Role::Stopped => None,
        }
    }

    /// How often the holder had changed when this candidate acquired the lease. `None` if it does not lead.
    #[must_use]
    pub fn transitions(&self) -> Option<i32> {
        match self.role {
            Role::Leads { transitions, .. } => Some(transitions),
            Role::Follows | Role::Stopped => None,
        }
    }

    /// Stops, and returns the lease to write so that the next candidate can acquire it at once. `None` if it is not held.
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

    /// Until when another candidate holds the lease without a renewal. `None` if no other candidate does.
    fn anothers_until(&self, observed: &Observed) -> Option<Elapsed> {
        let Record { holder, lease_duration, .. } = &observed.record;
        (!holder.is_empty() && *holder != self.identity).then(|| observed.since + *lease_duration)
    }

    fn claim(&self, wall: Timestamp) -> Claim {
        // The lease contains microseconds.
        let wall = Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall);
        let before = self.observed.as_ref();
        let own = before.filter(|observed| observed.record.holder == self.identity);
        let transitions = match (own, before, self.role) {
            (Some(own), _, _) => own.record.transitions,
            (None, Some(before), _) => before.record.transitions.saturating_add(1),
            // The lease was deleted.
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
