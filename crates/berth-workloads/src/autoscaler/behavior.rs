//! How fast a size may change: stabilization windows and policies.
//!
//! Source: kubernetes `horizontal.go`, `normalizeDesiredReplicas`, `stabilizeRecommendationWithBehaviors`,
//! `convertDesiredReplicasWithBehaviorRate`.

use super::{AutoscalerState, AutoscalerView, DOWNSCALE_STABILIZATION_SECONDS, SYNC_PERIOD};
use berth_identity::Uid;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};
use serde::{Deserialize, Serialize};

/// What the controller remembers of an autoscaler between two reconciles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The autoscaler. Another uid begins another memory.
    pub uid: Uid,
    /// The last change of the size before the memory begins, from the status: by how much is unknown.
    pub inherited: Option<Timestamp>,
    /// When the last size was computed.
    pub computed_at: Option<Timestamp>,
    /// The sizes that metrics required, before stabilization, within the windows: each size once, with its last time.
    pub recommendations: Vec<Recommendation>,
    /// Changes of the size, within the periods of the policies.
    pub events: Vec<ScaleEvent>,
    /// The last change that was planned. The next reconcile finds out whether it was made.
    pub planned: Option<Resize>,
}

/// A size that metrics required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// When.
    pub at: Timestamp,
    /// In pods.
    pub replicas: i32,
}

/// A change of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEvent {
    /// When.
    pub at: Timestamp,
    /// The pods that were added. Negative: that were removed.
    pub pods: i32,
}

/// A planned change of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// When.
    pub at: Timestamp,
    /// In pods.
    pub from: i32,
    /// In pods.
    pub to: i32,
}

/// The longest period of a policy, which validation enforces.
const PERIOD_MAX: SignedDuration = SignedDuration::from_secs(1800);

impl Memory {
    /// The memory of the reconcile before, if it is of the same autoscaler. Otherwise it begins with the size of the target, as soon as
    /// that exists.
    pub(super) fn continued(state: &AutoscalerState, replicas: Option<i32>) -> Self {
        let (uid, now) = (&state.autoscaler.uid, state.now);
        let mut memory = if state.memory.uid == *uid {
            state.memory.clone()
        } else {
            // A clock that was ahead must not delay the autoscaler.
            let inherited = state.autoscaler.status.last_scale_time.as_ref().map(|time| time.0.min(now));
            Self { uid: uid.clone(), inherited, computed_at: inherited, ..Self::default() }
        };
        if memory.recommendations.is_empty() {
            memory.recommendations.extend(replicas.map(|replicas| Recommendation { at: now, replicas }));
        }
        memory
    }

    /// The time of the next computation, if nothing is left to do for the autoscaler with this uid until then.
    #[must_use]
    pub fn idle_until(&self, uid: &Uid, now: Timestamp) -> Option<Timestamp> {
        let is_settled = self.uid == *uid && self.planned.is_none();
        self.due().filter(|due| is_settled && now < *due)
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.computed_at.map(|at| at.saturating_add(SYNC_PERIOD).unwrap_or(Timestamp::MAX))
    }

    /// The pods by which the size has grown within a period.
    fn growth(&self, period: SignedDuration, now: Timestamp) -> i64 {
        let cutoff = now - period;
        self.events.iter().filter(|event| cutoff < event.at).map(|event| i64::from(event.pods)).sum()
    }

    pub(super) fn scaled(&mut self, resize: Resize) {
        self.events.push(ScaleEvent { at: resize.at, pods: resize.to - resize.from });
        self.events.retain(|event| resize.at - PERIOD_MAX <= event.at);
    }
}

/// A size after its limits, with the reasons and messages of the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    /// Of the condition AbleToScale.
    pub(super) able: ConditionText,
    /// Of the condition ScalingLimited.
    pub(super) limit: ConditionText,
    pub(super) is_limited: bool,
}

/// The reason and message of a condition.
pub(super) type ConditionText = (&'static str, &'static str);

const READY: ConditionText = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: ConditionText =
    ("ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation");
const DOWN_STABILIZED: ConditionText =
    ("ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation");
const WITHIN: ConditionText = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: ConditionText = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: ConditionText = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const UP_LIMIT: ConditionText = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: ConditionText = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

/// The bounds of a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) min: i32,
    pub(super) max: i32,
}

/// Limits the size that metrics require, and remembers it.
pub(super) fn limited(state: &AutoscalerState, memory: &mut Memory, current: i32, desired: i32, range: Range) -> Limited {
    let behavior = state.autoscaler.spec.behavior.as_ref();
    let stable = stabilized(state.now, memory, behavior, current, desired);
    let able = if stable == desired {
        READY
    } else if behavior.is_some() && current <= desired {
        UP_STABILIZED
    } else {
        DOWN_STABILIZED
    };
    let (replicas, limit) = match behavior {
        None => by_default(current, stable, range),
        Some(behavior) => by_policies(state, memory, behavior, current, stable, range),
    };
    Limited { replicas, able, limit, is_limited: replicas != stable }
}

/// The stabilization windows of scale-ups and of scale-downs.
fn windows(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> [SignedDuration; 2] {
    let window = |rules: Option<&HPAScalingRules>, default: i32| {
        let seconds = rules.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(default);
        SignedDuration::from_secs(seconds.into())
    };
    let up = window(behavior.and_then(|behavior| behavior.scale_up.as_ref()), 0);
    [up, window(behavior.and_then(|behavior| behavior.scale_down.as_ref()), DOWNSCALE_STABILIZATION_SECONDS)]
}

/// The longer stabilization window of an autoscaler.
#[must_use]
pub fn longest_window(autoscaler: &AutoscalerView) -> SignedDuration {
    windows(autoscaler.spec.behavior.as_ref()).into_iter().max().unwrap_or_default()
}

/// The size after the stabilization windows: the smallest change that a recommendation within the window of its direction allows.
fn stabilized(now: Timestamp, memory: &mut Memory, behavior: Option<&HorizontalPodAutoscalerBehavior>, current: i32, desired: i32) -> i32 {
    let [up, down] = windows(behavior);
    let within = |window: SignedDuration| {
        let recent = memory.recommendations.iter().filter(move |recommendation| now - window < recommendation.at);
        recent.map(|recommendation| recommendation.replicas).chain([desired])
    };
    let (low, high) = (within(up).min().unwrap_or(desired), within(down).max().unwrap_or(desired));
    // Without behavior, upstream has no window for scale-ups: the size is the highest recommendation.
    let stable = if behavior.is_none() { high } else { current.max(low).min(high) };
    // The newest recommendation of a size outlasts the others of it, so a memory has one of each size.
    let outlasts = |recommendation: &Recommendation| recommendation.replicas != desired && now - up.max(down) <= recommendation.at;
    memory.recommendations.retain(outlasts);
    memory.recommendations.push(Recommendation { at: now, replicas: desired });
    stable
}

/// The limits of an autoscaler without behavior: at most twice the size, or 4.
fn by_default(current: i32, desired: i32, range: Range) -> (i32, ConditionText) {
    let fast = current.saturating_mul(2).max(4);
    let (max, why) = if fast < range.max { (fast, UP_LIMIT) } else { (range.max, TOO_MANY) };
    match desired {
        desired if desired < range.min => (range.min, TOO_FEW),
        desired if max < desired => (max, why),
        desired => (desired, WITHIN),
    }
}

fn by_policies(
    state: &AutoscalerState,
    memory: &Memory,
    behavior: &HorizontalPodAutoscalerBehavior,
    current: i32,
    desired: i32,
    range: Range,
) -> (i32, ConditionText) {
    if current < desired {
        let limit = behavior.scale_up.as_ref().map_or(range.max, |rules| limit_of(Direction::Up, state, memory, rules, current));
        let limit = limit.max(current);
        let (max, why) = if limit < range.max { (limit, UP_LIMIT) } else { (range.max, TOO_MANY) };
        return if max < desired { (max, why) } else { (desired, WITHIN) };
    }
    if desired < current {
        let limit = behavior.scale_down.as_ref().map_or(range.min, |rules| limit_of(Direction::Down, state, memory, rules, current));
        let limit = limit.min(current);
        let (min, why) = if range.min < limit { (limit, DOWN_LIMIT) } else { (range.min, TOO_FEW) };
        return if desired < min { (min, why) } else { (desired, WITHIN) };
    }
    (desired, WITHIN)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The size that the policies of a direction allow.
fn limit_of(direction: Direction, state: &AutoscalerState, memory: &Memory, rules: &HPAScalingRules, current: i32) -> i32 {
    let select = rules.select_policy.as_deref().unwrap_or("Max");
    if select == "Disabled" {
        return current;
    }
    let sizes = rules.policies.iter().flatten().map(|policy| {
        let period = SignedDuration::from_secs(policy.period_seconds.into());
        if is_forgotten(state, memory, period) {
            return current;
        }
        let start = i64::from(current) - memory.growth(period, state.now);
        let value = i64::from(policy.value);
        let size = match (direction, policy.type_.as_str()) {
            (Direction::Up, "Pods") => start + value,
            // Rounded up, because the size would otherwise never grow.
            (Direction::Up, _) => (start as f64 * (1.0 + value as f64 / 100.0)).ceil() as i64,
            (Direction::Down, "Pods") => start - value,
            (Direction::Down, _) => (start as f64 * (1.0 - value as f64 / 100.0)) as i64,
        };
        i32::try_from(size).unwrap_or(if size < 0 { i32::MIN } else { i32::MAX })
    });
    // The largest change upward is the largest size, and downward the smallest.
    let chosen = if (direction == Direction::Up) == (select != "Min") { sizes.max() } else { sizes.min() };
    chosen.unwrap_or(current)
}

/// Whether the size changed within the period by an unknown number of pods, because the controller has started since then. Then the policy
/// allows no change.
fn is_forgotten(state: &AutoscalerState, memory: &Memory, period: SignedDuration) -> bool {
    memory.inherited.is_some_and(|inherited| state.now - period < inherited)
}
