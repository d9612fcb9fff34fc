//! The lives of a pod's containers: when each starts, is ready, ends, waits and starts again.
//!
//! Pure: the pod, its behavior and the time decide. A kubelet that restarts reads the lives from the pod's status, and reaches the states that it would
//! have reached without the restart.

use super::{
    behavior::{Behavior, back_off, later},
    view::{ContainerView, KubeletPod, RestartPolicy, WrittenStatus},
};
use berth_api::{
    k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus},
    simulation::{Completion, Failure, USUAL_RUN, seed},
};
use jiff::Timestamp;
use std::time::Duration;

/// How long the end of a container is reported before the container is restarted or its back-off begins.
pub(super) const END_SHOWN: Duration = Duration::from_millis(500);

/// A run of this length resets the backoff of its container. Source: kubernetes `pkg/kubelet/kubelet.go`,
/// `client-go/util/flowcontrol/backoff.go`: twice the maximum.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

/// The exit code of a container that SIGKILL ends, when its grace period is over.
const KILLED: i32 = 137;
/// The exit code of a container that SIGTERM interrupts.
const INTERRUPTED: i32 = 143;

/// The lives of all containers of a pod, init containers first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lives(Box<[Life]>);

/// The life of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) state: LifeState,
    /// How often it was restarted.
    pub(super) restarts: u32,
    /// How many of its runs count for its backoff.
    ends: u32,
    /// Its last run that ended.
    pub(super) last: Option<End>,
}

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeState {
    /// It was never started.
    Waiting,
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
        /// Whether it is ready.
        ready: bool,
        /// When its probe passes. `None` if it never does, or has passed.
        ready_at: Option<Timestamp>,
        /// When its run ends, with the exit code. `None` if it runs until it is stopped.
        ends: Option<(Timestamp, i32)>,
    },
    /// Its last run has ended.
    Ended {
        /// When it is restarted, or when its backoff begins. `None` if it never runs again.
        restarts_at: Option<Timestamp>,
    },
    /// It waits to be restarted.
    BackingOff {
        /// The end of the backoff.
        until: Timestamp,
    },
}

/// A run that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
    pub(super) code: i32,
}

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It must succeed before the next one starts.
    Init,
    /// An init container that runs beside the others and is stopped after them.
    Sidecar,
    /// The pod ends when all main containers have ended.
    Main,
}

/// How the containers of a pod are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// In time.
    Gracefully,
    /// By force, at the end of the grace period.
    ByForce,
}

impl Life {
    const NEW: Self = Self { state: LifeState::Waiting, restarts: 0, ends: 0, last: None };

    /// Whether it runs.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, LifeState::Running { .. })
    }

    /// Whether it has ended and never runs again.
    fn is_over(&self) -> bool {
        matches!(self.state, LifeState::Ended { restarts_at: None })
    }

    fn has_succeeded(&self) -> bool {
        self.is_over() && self.last.is_some_and(|end| end.code == 0)
    }

    /// Whether it has ended and waits to run again.
    pub(super) fn waits_for_restart(&self) -> bool {
        matches!(self.state, LifeState::Ended { restarts_at: Some(_) } | LifeState::BackingOff { .. })
    }

    /// The backoff between its last end and its next start.
    pub(super) fn back_off(&self) -> Duration {
        if self.ends < 2 { Duration::ZERO } else { back_off(self.ends - 1) }
    }

    /// When it is restarted, if it waits for that.
    fn starts_at(&self) -> Option<Timestamp> {
        match self.state {
            LifeState::Ended { restarts_at: Some(at) } if self.back_off().is_zero() => Some(at),
            LifeState::BackingOff { until } => Some(until),
            _ => None,
        }
    }

    fn due(&self) -> Option<Timestamp> {
        match self.state {
            LifeState::Running { ready_at, ends, .. } => [ready_at, ends.map(|(at, _)| at)].into_iter().flatten().min(),
            LifeState::Ended { restarts_at } => restarts_at,
            LifeState::BackingOff { until } => Some(until),
            LifeState::Waiting => None,
        }
    }
}

/// A pod and its behavior, which determine the lives of its containers.
#[derive(Clone, Copy)]
pub(super) struct Habit<'a> {
    pub(super) pod: &'a KubeletPod,
    pub(super) behavior: &'a Behavior,
}

impl Habit<'_> {
    fn container(&self, index: usize) -> Option<&ContainerView> {
        let init = &self.pod.init_containers;
        init.get(index).or_else(|| self.pod.containers.get(index.checked_sub(init.len())?))
    }

    pub(super) fn role(&self, index: usize) -> Role {
        match self.pod.init_containers.get(index) {
            Some(container) if container.is_sidecar() => Role::Sidecar,
            Some(_) => Role::Init,
            None => Role::Main,
        }
    }

    fn roles(&self) -> impl Iterator<Item = Role> + use<'_> {
        (0..self.pod.init_containers.len() + self.pod.containers.len()).map(|index| self.role(index))
    }

    fn restart_policy(&self, index: usize) -> RestartPolicy {
        let own = self.container(index).and_then(|container| RestartPolicy::named(container.restart_policy.as_deref()?));
        own.unwrap_or(self.pod.restart_policy)
    }

    /// Whether a container that ended with this code is restarted.
    ///
    /// Source: kubernetes `pkg/api/v1/pod/util.go`, `ContainerShouldRestart`.
    fn restarts(&self, index: usize, code: i32) -> bool {
        let rules = self.container(index).map(|container| &*container.restart_rules).unwrap_or_default();
        if rules.iter().any(|rule| rule.matches(code)) {
            return true;
        }
        match (self.restart_policy(index), self.role(index)) {
            // An init container that succeeded is not restarted.
            (_, Role::Init) if code == 0 => false,
            (RestartPolicy::Always, _) => true,
            (RestartPolicy::OnFailure, _) => code != 0,
            (RestartPolicy::Never, _) => false,
        }
    }

    /// The duration of a run after this many restarts, with its exit code. `None` if it runs until it is stopped.
    fn run(&self, index: usize, restarts: u32) -> Option<(Duration, i32)> {
        let (name, role) = (self.container(index)?.name.as_str(), self.role(index));
        if role == Role::Main && self.behavior.fails == Some(Failure::CrashLoopBackOff) {
            return Some((USUAL_RUN, 1));
        }
        let courses = self.pod.annotated.as_ref().and_then(|annotated| annotated.courses.as_ref());
        let course = match role {
            Role::Main => courses.map(|courses| courses.of_container(name)),
            Role::Init | Role::Sidecar => courses.map(|courses| courses.of_init_container(name)),
        };
        let course = course.unwrap_or_default();
        let fails_first = course.fails_first.unwrap_or(0);
        let code = course.exit_code.map(i32::from);
        let (fails, code) = match () {
            () if restarts < fails_first => (true, code.filter(|code| *code != 0).unwrap_or(1)),
            () if 0 < fails_first => (false, 0),
            () => (code.is_some(), code.unwrap_or(0)),
        };
        let usual = match role {
            Role::Init => Some(if fails { USUAL_RUN } else { Duration::ZERO }),
            Role::Main if self.behavior.completes && self.restart_policy(index) != RestartPolicy::Always => Some(USUAL_RUN),
            Role::Main | Role::Sidecar => fails.then_some(USUAL_RUN),
        };
        let takes = match course.completes {
            Some(Completion::After(spread)) => Some(spread.pick(seed(&[&self.pod.uid, name, &restarts.to_string()]))),
            Some(Completion::Never) => None,
            None => usual,
        };
        takes.map(|takes| (takes, code))
    }

    /// The time from its start to readiness. `None` if it is never ready.
    fn ready_after(&self, index: usize) -> Option<Duration> {
        let is_probed = self.role(index) == Role::Main && self.container(index)?.readiness_probe.is_some();
        match self.behavior.fails {
            Some(Failure::NeverReady) if self.role(index) == Role::Main => None,
            Some(Failure::CrashLoopBackOff) if is_probed => None,
            _ if is_probed => Some(self.behavior.ready_after.saturating_sub(self.behavior.runs_after)),
            _ => Some(Duration::ZERO),
        }
    }

    /// The time that its sidecars take to stop.
    fn stops_within(&self) -> Duration {
        let grace = self.pod.grace_period_seconds.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into()));
        self.behavior.terminates_after.min(grace)
    }
}

impl Lives {
    /// Starts the first containers.
    pub(super) fn start(habit: Habit<'_>, at: Timestamp) -> Self {
        let mut lives = Self(habit.roles().map(|_| Life::NEW).collect());
        lives.settle(habit, at);
        lives
    }

    /// The lives if all containers have run since then, each for the first time.
    pub(super) fn all_running(habit: Habit<'_>, since: Timestamp, now: Timestamp) -> Self {
        let mut lives = Self(habit.roles().map(|_| Life::NEW).collect());
        for index in 0..lives.0.len() {
            lives.run_on(habit, index, since, habit.pod.status.ready);
        }
        lives.catch_up(habit, now);
        lives
    }

    /// The lives in a status. Restarts are due at `now` at the earliest: a node that is down restarts nothing.
    pub(super) fn of_status(habit: Habit<'_>, written: &WrittenStatus, now: Timestamp) -> Self {
        let pod = habit.pod;
        let named = |list: &[ContainerStatus], name: &str| list.iter().find(|status| status.name == name).cloned().unwrap_or_default();
        let init = pod.init_containers.iter().map(|container| named(&written.init_container_statuses, &container.name));
        let main = pod.containers.iter().map(|container| named(&written.container_statuses, &container.name));
        let statuses: Vec<ContainerStatus> = init.chain(main).collect();
        let mut lives = Self(habit.roles().map(|_| Life::NEW).collect());
        for (index, status) in statuses.iter().enumerate() {
            let life = &mut lives.0[index];
            let last = status.last_state.as_ref().and_then(ended).map(|terminated| End::of(terminated, now));
            life.restarts = status.restart_count.unsigned_abs();
            life.last = last;
            life.ends = life.restarts;
            let state = status.state.as_ref();
            if let Some(terminated) = state.and_then(ended) {
                lives.end(habit, index, End::of(terminated, now), now);
            } else if let Some(running) = state.and_then(|state| state.running.as_ref()) {
                let since = running.started_at.as_ref().map_or(now, |time| time.0);
                lives.run_on(habit, index, since, status.ready);
            } else if let Some(last) = last {
                lives.end(habit, index, last, now);
            }
        }
        lives.catch_up(habit, now);
        lives
    }

    /// Whether no container was restarted, and none that ends the pod has ended.
    pub(super) fn are_first(&self, habit: Habit<'_>) -> bool {
        let is_first = |(life, role): (&Life, Role)| life.restarts == 0 && (role == Role::Init || life.last.is_none());
        self.0.iter().zip(habit.roles()).all(is_first)
    }

    fn run_on(&mut self, habit: Habit<'_>, index: usize, since: Timestamp, ready: bool) {
        let life = &mut self.0[index];
        let taken_on = habit.pod.status.start_time.unwrap_or(since);
        let ready_at = match habit.ready_after(index) {
            Some(delay) if life.restarts == 0 && !delay.is_zero() => Some(later(taken_on, habit.behavior.ready_after).max(since)),
            delay => delay.map(|delay| later(since, delay)),
        };
        let ends = habit.run(index, life.restarts).map(|(takes, code)| (later(since, takes), code));
        life.state = LifeState::Running { since, ready, ready_at: ready_at.filter(|_| !ready), ends };
    }

    /// Ends the runs that ended while the node was down. Their containers are restarted from now on.
    fn catch_up(&mut self, habit: Habit<'_>, now: Timestamp) {
        for index in 0..self.0.len() {
            if let LifeState::Running { since, ends: Some((at, code)), .. } = self.0[index].state
                && at <= now
            {
                self.end(habit, index, End { started: since, finished: at, code }, now);
            }
        }
        self.settle(habit, now);
    }

    /// When something is due for a container.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.0.iter().filter_map(Life::due).min()
    }

    /// When the next container is restarted.
    pub(super) fn starts_at(&self) -> Option<Timestamp> {
        self.0.iter().filter_map(Life::starts_at).min()
    }

    /// Allows delayed containers to start from now on.
    pub(super) fn release(&mut self, now: Timestamp) {
        for life in &mut self.0 {
            if let LifeState::Ended { restarts_at: Some(at) } | LifeState::BackingOff { until: at } = &mut life.state {
                *at = (*at).max(now);
            }
        }
    }

    /// Executes everything that is due at `at`.
    pub(super) fn step(&mut self, habit: Habit<'_>, at: Timestamp) {
        for index in 0..self.0.len() {
            let life = &mut self.0[index];
            match &mut life.state {
                LifeState::Running { since, ends: Some((end, code)), .. } if *end <= at => {
                    let end = End { started: *since, finished: *end, code: *code };
                    self.end(habit, index, end, end.finished);
                }
                LifeState::Running { ready, ready_at, .. } if ready_at.is_some_and(|ready_at| ready_at <= at) => {
                    (*ready, *ready_at) = (true, None);
                }
                LifeState::Ended { restarts_at: Some(restarts_at) } if *restarts_at <= at => {
                    let (restarts_at, held_back) = (*restarts_at, life.back_off());
                    let until = life.last.map_or(restarts_at, |end| later(end.finished, held_back)).max(restarts_at);
                    if held_back.is_zero() {
                        self.run_again(habit, index, restarts_at);
                    } else {
                        life.state = LifeState::BackingOff { until };
                    }
                }
                LifeState::BackingOff { until } if *until <= at => {
                    let until = *until;
                    self.run_again(habit, index, until);
                }
                _ => (),
            }
        }
        self.settle(habit, at);
    }

    fn end(&mut self, habit: Habit<'_>, index: usize, end: End, seen: Timestamp) {
        let life = &mut self.0[index];
        let took = Duration::try_from(end.finished.duration_since(end.started)).unwrap_or(Duration::ZERO);
        life.ends = if BACK_OFF_RESET < took { 1 } else { life.ends + 1 };
        life.last = Some(end);
        let restarts = habit.restarts(index, end.code);
        life.state = LifeState::Ended { restarts_at: restarts.then(|| later(end.finished, END_SHOWN).max(seen)) };
    }

    fn run_again(&mut self, habit: Habit<'_>, index: usize, at: Timestamp) {
        self.0[index].restarts += 1;
        self.run_from(habit, index, at);
    }

    fn run_from(&mut self, habit: Habit<'_>, index: usize, at: Timestamp) {
        let life = &mut self.0[index];
        let ready_at = habit.ready_after(index).map(|delay| later(at, delay));
        let ready = ready_at.is_some_and(|ready_at| ready_at <= at);
        let ends = habit.run(index, life.restarts).map(|(takes, code)| (later(at, takes), code));
        life.state = LifeState::Running { since: at, ready, ready_at: ready_at.filter(|_| !ready), ends };
    }

    /// Starts the containers that can start, or stops the others if the pod has ended.
    fn settle(&mut self, habit: Habit<'_>, at: Timestamp) {
        if self.have_decided(habit) {
            return self.stop_rest(habit, at);
        }
        for index in 0..self.0.len() {
            let waits = self.0[index].state == LifeState::Waiting;
            if waits {
                self.run_from(habit, index, at);
            }
            // The next one starts after this one has succeeded.
            if habit.role(index) == Role::Init && !self.0[index].has_succeeded() {
                return;
            }
        }
    }

    fn stop_rest(&mut self, habit: Habit<'_>, at: Timestamp) {
        let by = later(at, habit.stops_within());
        for life in &mut self.0 {
            match &mut life.state {
                // A second call comes later and keeps the first time.
                LifeState::Running { ends, .. } if ends.is_none_or(|(end, _)| by < end) => {
                    *ends = Some((by, if ends.is_some() { INTERRUPTED } else { 0 }));
                }
                LifeState::Ended { restarts_at } => *restarts_at = None,
                LifeState::BackingOff { .. } => life.state = LifeState::Ended { restarts_at: None },
                LifeState::Running { .. } | LifeState::Waiting => (),
            }
        }
    }

    /// Whether the end of the pod is decided: an init container has failed, or all of its containers have ended.
    fn have_decided(&self, habit: Habit<'_>) -> bool {
        self.has_failed_to_start(habit) || self.mains(habit).all(Life::is_over)
    }

    fn has_failed_to_start(&self, habit: Habit<'_>) -> bool {
        let mut init = self.0.iter().zip(habit.roles()).filter(|(_, role)| *role == Role::Init);
        init.any(|(life, _)| life.is_over() && !life.has_succeeded())
    }

    fn mains(&self, habit: Habit<'_>) -> impl Iterator<Item = &Life> {
        self.0.iter().skip(habit.pod.init_containers.len())
    }

    /// How the pod ended. `None` if it has not.
    ///
    /// Source: kubernetes `pkg/kubelet/kubelet_pods.go`, `getPhase`. The status manager reports the last phase when no container runs.
    pub(super) fn outcome(&self, habit: Habit<'_>) -> Option<Outcome> {
        if !self.have_decided(habit) || self.0.iter().any(Life::is_running) {
            return None;
        }
        let succeeded = !self.has_failed_to_start(habit) && self.mains(habit).all(Life::has_succeeded);
        Some(if succeeded { Outcome::Succeeded } else { Outcome::Failed })
    }

    /// Whether each container has been started.
    pub(super) fn have_started(&self, habit: Habit<'_>) -> bool {
        self.mains(habit).all(|life| life.state != LifeState::Waiting)
    }

    /// Whether all containers are ready, sidecars included.
    pub(super) fn are_ready(&self, habit: Habit<'_>) -> bool {
        let is_ready = |(life, role): (&Life, Role)| role == Role::Init || matches!(life.state, LifeState::Running { ready: true, .. });
        self.0.iter().zip(habit.roles()).all(is_ready)
    }

    /// Whether a container runs, but neither ends nor becomes ready.
    pub(super) fn are_never_ready(&self) -> bool {
        let is_never = |life: &Life| matches!(life.state, LifeState::Running { ready: false, ready_at: None, ends: None, .. });
        self.0.iter().any(is_never)
    }

    /// When the last run ended.
    pub(super) fn last_end(&self) -> Option<Timestamp> {
        self.0.iter().filter_map(|life| life.last).map(|end| end.finished).max()
    }

    /// The names of init containers that are not complete.
    pub(super) fn incomplete<'a>(&'a self, pod: &'a KubeletPod) -> impl Iterator<Item = &'a str> {
        let is_done = |life: &Life, container: &ContainerView| match container.is_sidecar() {
            true => life.state != LifeState::Waiting,
            false => life.has_succeeded(),
        };
        let init = self.0.iter().zip(pod.init_containers.iter());
        init.filter(move |(life, container)| !is_done(life, container)).map(|(_, container)| container.name.as_str())
    }

    pub(super) fn of(&self, index: usize) -> &Life {
        self.0.get(index).unwrap_or(&const { Life::NEW })
    }

    /// The indices of containers that have started since `before`.
    pub(super) fn started_since<'a>(&'a self, before: Option<&'a Self>) -> impl Iterator<Item = usize> + 'a {
        let since = |life: &Life| match life.state {
            LifeState::Running { since, .. } => Some(since),
            _ => None,
        };
        let is_new = move |index: usize, life: &Life| {
            since(life).is_some()
                && before.is_none_or(|before| since(before.of(index)) != since(life) || before.of(index).restarts != life.restarts)
        };
        self.0.iter().enumerate().filter(move |(index, life)| is_new(*index, life)).map(|(index, _)| index)
    }

    /// The indices of containers whose backoff has begun since `before`.
    pub(super) fn backing_off_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = usize> + 'a {
        let backs_off = |life: &Life| matches!(life.state, LifeState::BackingOff { .. });
        self.0.iter().enumerate().filter(move |(index, life)| backs_off(life) && !backs_off(before.of(*index))).map(|(index, _)| index)
    }

    /// The lives of containers that the node stops: those that still run at `at` end then.
    #[must_use]
    pub(super) fn stopped(&self, at: Timestamp, stop: Stop) -> Self {
        let mut lives = self.clone();
        for life in &mut lives.0 {
            match life.state {
                LifeState::Running { since, ends, .. } => {
                    let (finished, code) = match (stop, ends) {
                        (_, Some((end, code))) if end <= at => (end, code),
                        (Stop::ByForce, _) => (at, KILLED),
                        (Stop::Gracefully, Some(_)) => (at, INTERRUPTED),
                        (Stop::Gracefully, None) => (at, 0),
                    };
                    life.last = Some(End { started: since, finished, code });
                    life.state = LifeState::Ended { restarts_at: None };
                }
                LifeState::Ended { .. } | LifeState::BackingOff { .. } => life.state = LifeState::Ended { restarts_at: None },
                LifeState::Waiting => (),
            }
        }
        lives
    }
}

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
}

impl End {
    fn of(terminated: &ContainerStateTerminated, now: Timestamp) -> Self {
        let finished = terminated.finished_at.as_ref().map_or(now, |time| time.0);
        let started = terminated.started_at.as_ref().map_or(finished, |time| time.0);
        Self { started, finished, code: terminated.exit_code }
    }
}

fn ended(state: &ContainerState) -> Option<&ContainerStateTerminated> {
    state.terminated.as_ref()
}

#[cfg(test)]
mod tests;
