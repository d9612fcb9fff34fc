//! The plan of one autoscaler.
//!
//! Source: kubernetes `horizontal.go`, `reconcileAutoscaler`.

use super::{
    AutoscalerState, AutoscalerView, Memory, NAMED_MAX, Resize, SYNC_PERIOD, ScaledView, TOLERANCE, Target, TargetKind,
    behavior::{self, Range},
    calculator::{Basis, Tolerances},
    metric::{self, Proposal, Unusable},
    status::{ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED, StatusDraft},
};
use crate::plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, Stage, Subresource, Urgency, Wait, difference};
use berth_api::quantity::Quantity;
use berth_identity::{GroupResource, GroupVersionKind, ObjectKey, ObjectRef};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerStatus, MetricStatus};
use serde_json::json;

/// Plans the size of the target and the status. Also returns the memory for the next plan.
///
/// The status comes before the size. So an outdated autoscaler changes no size, and a controller that starts between the two writes knows
/// that the size may have changed.
#[must_use]
pub fn plan(state: &AutoscalerState) -> (Plan, Memory) {
    let autoscaler = &state.autoscaler;
    if autoscaler.is_terminating {
        return (Plan::default(), state.memory.clone());
    }
    let replicas = if let Target::Found(target) = &state.target { Some(target.replicas) } else { None };
    let mut memory = Memory::continued(state, replicas);
    if let Some(size) = interrupted(state) {
        memory.planned = Some(Resize { at: state.now, from: size.0, to: size.1 });
        let decision = Decision { status: autoscaler.status.clone(), size: Some(size), events: Vec::new() };
        let next = memory.due().unwrap_or(state.now);
        return (decision.into_plan(state, next), memory);
    }
    let is_retry = settle(state, &mut memory);
    let due = memory.due().unwrap_or(state.now);
    if let Some(error) = &state.last_error {
        let mut draft = StatusDraft::new(&autoscaler.status, state.now);
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        draft.set(ABLE_TO_SCALE, false, "FailedUpdateScale", message);
        draft.status.desired_replicas = replicas.unwrap_or_default();
        let plan = Decision { status: draft.status, size: None, events: Vec::new() }.into_plan(state, due);
        return (plan, memory);
    }
    if state.now < due && !is_retry {
        return (Plan { requeue_at: Some(due), ..Plan::default() }, memory);
    }
    memory.computed_at = Some(state.now);
    let decision = decide(state, &mut memory);
    if let Some((from, to, _)) = &decision.size {
        memory.planned = Some(Resize { at: state.now, from: *from, to: *to });
    }
    let next = state.now.saturating_add(SYNC_PERIOD).unwrap_or(Timestamp::MAX);
    (decision.into_plan(state, next), memory)
}

/// The size that a controller decided and recorded, but did not write before it stopped: from, to, why.
fn interrupted(state: &AutoscalerState) -> Option<(i32, i32, String)> {
    let AutoscalerState { autoscaler, memory, now, .. } = state;
    let Target::Found(target) = &state.target else { return None };
    let (spec, status) = (&autoscaler.spec, &autoscaler.status);
    let decided = status.last_scale_time.as_ref().map(|time| time.0)?;
    let mut conditions = status.conditions.iter().flatten();
    let is_recorded = conditions.any(|one| one.type_ == ABLE_TO_SCALE && one.reason.as_deref() == Some("SucceededRescale"));
    let (from, to) = (target.replicas, status.desired_replicas);
    let is_in_range = 0 < from && from != to && spec.min_replicas.unwrap_or(1) <= to && to <= spec.max_replicas;
    let is_fresh = memory.uid != autoscaler.uid && *now < decided.saturating_add(SYNC_PERIOD).ok()?;
    let is_open = is_recorded && is_in_range && is_fresh && status.current_replicas == Some(from);
    is_open.then(|| (from, to, "the controller stopped before it wrote this size".to_owned()))
}

/// Finds out whether the planned size was written. Returns whether it was not, because another writer was first.
fn settle(state: &AutoscalerState, memory: &mut Memory) -> bool {
    let Some(planned) = memory.planned.take() else { return false };
    let Target::Found(target) = &state.target else { return false };
    if target.replicas == planned.from {
        return state.last_error.is_none();
    }
    memory.scaled(planned);
    false
}

/// The result of one computation.
struct Decision {
    status: HorizontalPodAutoscalerStatus,
    /// The new size: from, to, why.
    size: Option<(i32, i32, String)>,
    events: Vec<EventRecord>,
}

fn decide(state: &AutoscalerState, memory: &mut Memory) -> Decision {
    let autoscaler = &state.autoscaler;
    let mut draft = StatusDraft::new(&autoscaler.status, state.now);
    let target = match &state.target {
        Target::Found(target) => target,
        Target::Missing => return without_scale(state, draft, missing(state)),
        Target::WithoutScale => return without_scale(state, draft, "the server could not find the requested resource".to_owned()),
        Target::UnknownKind => {
            let reference = &autoscaler.spec.scale_target_ref;
            let text = format!("no matches for kind {:?} in group {:?}", reference.kind, super::group_of(reference));
            return without_scale(state, draft, text);
        }
    };
    draft.set(ABLE_TO_SCALE, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale");
    let range = Range { min: autoscaler.spec.min_replicas.unwrap_or(1), max: autoscaler.spec.max_replicas };
    let current = target.replicas;
    match current {
        0 if range.min != 0 => {
            draft.set(SCALING_ACTIVE, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero");
            draft.sized(current, 0, None);
            Decision { status: draft.status, size: None, events: Vec::new() }
        }
        current if range.max < current => {
            resized(draft, current, range.max, None, "Current number of replicas above Spec.MaxReplicas".to_owned(), Vec::new())
        }
        current if current < range.min => {
            resized(draft, current, range.min, None, "Current number of replicas below Spec.MinReplicas".to_owned(), Vec::new())
        }
        _ => by_metrics(state, memory, draft, target, range),
    }
}

fn missing(state: &AutoscalerState) -> String {
    let reference = &state.autoscaler.spec.scale_target_ref;
    let resource = target_resource(state).map_or_else(|| reference.kind.clone(), |resource| resource.to_string());
    format!("{resource} {:?} not found", reference.name)
}

/// The result for an autoscaler without a target.
fn without_scale(state: &AutoscalerState, mut draft: StatusDraft, why: String) -> Decision {
    let message = format!("the HPA controller was unable to get the target's current scale: {why}");
    draft.set(ABLE_TO_SCALE, false, "FailedGetScale", message);
    Decision { status: draft.status, size: None, events: vec![event(state, Severity::Warning, "FailedGetScale", why)] }
}

fn resized(
    mut draft: StatusDraft,
    current: i32,
    desired: i32,
    metrics: Option<Vec<MetricStatus>>,
    why: String,
    events: Vec<EventRecord>,
) -> Decision {
    draft.sized(current, desired, metrics);
    if current == desired {
        return Decision { status: draft.status, size: None, events };
    }
    let message = format!("the HPA controller was able to update the target scale to {desired}");
    draft.set(ABLE_TO_SCALE, true, "SucceededRescale", message);
    draft.scaled();
    Decision { status: draft.status, size: Some((current, desired, why)), events }
}

fn by_metrics(state: &AutoscalerState, memory: &mut Memory, mut draft: StatusDraft, target: &ScaledView, range: Range) -> Decision {
    let current = target.replicas;
    let mut events = Vec::new();
    let (proposal, metrics) = match proposed(state, target, &mut draft, &mut events) {
        Ok(proposed) => proposed,
        Err(Problem { metrics, message }) => {
            let desired = draft.status.desired_replicas;
            draft.sized(current, desired, metrics);
            events.push(event(state, Severity::Warning, "FailedComputeMetricsReplicas", message));
            return Decision { status: draft.status, size: None, events };
        }
    };
    let wanted = proposal.replicas.max(0);
    let why = if current < wanted { format!("{} above target", proposal.metric) } else { "All metrics below target".to_owned() };
    let limited = behavior::limited(state, memory, current, wanted, range);
    draft.set(ABLE_TO_SCALE, true, limited.able.0, limited.able.1);
    draft.set(SCALING_LIMITED, limited.is_limited, limited.limit.0, limited.limit.1);
    resized(draft, current, limited.replicas, Some(metrics), why, events)
}

/// Why no size could be computed.
struct Problem {
    metrics: Option<Vec<MetricStatus>>,
    message: String,
}

/// The largest size that a metric requires, and the status of each metric. A metric without a value prevents only a smaller size.
fn proposed(
    state: &AutoscalerState,
    target: &ScaledView,
    draft: &mut StatusDraft,
    events: &mut Vec<EventRecord>,
) -> Result<(Proposal, Vec<MetricStatus>), Problem> {
    check_selector(state, target, draft, events)?;
    let specs = state.autoscaler.spec.metrics.as_deref().unwrap_or_default();
    let (pods, replicas, now) = (&state.pods, target.replicas, state.now);
    let basis = Basis { pods, replicas, tolerances: tolerances(state), now };
    let mut described = state.described.iter();
    let mut best: Option<Proposal> = None;
    let (mut metrics, mut unusable) = (Vec::new(), Vec::new());
    for spec in specs {
        let described = spec.object.as_ref().and_then(|_| described.next());
        match metric::propose(state, spec, described, basis, target.current) {
            Ok(proposal) => {
                metrics.push(proposal.status.clone());
                if best.as_ref().is_none_or(|best| best.replicas == 0 || best.replicas < proposal.replicas) {
                    best = Some(proposal);
                }
            }
            Err(error) => {
                // Upstream's status has an empty entry.
                metrics.push(MetricStatus::default());
                events.push(event(state, Severity::Warning, error.reason, error.message.clone()));
                unusable.push(error);
            }
        }
    }
    match (best, unusable.first()) {
        (Some(best), first) if first.is_none() || target.replicas <= best.replicas => {
            let message = format!("the HPA was able to successfully calculate a replica count from {}", best.metric);
            draft.set(SCALING_ACTIVE, true, "ValidMetricFound", message);
            Ok((best, metrics))
        }
        (_, first) => {
            let Some(Unusable { reason, message, context }) = first else {
                return Err(Problem { metrics: Some(metrics), message: "there are no metrics".to_owned() });
            };
            draft.set(SCALING_ACTIVE, false, reason, format!("the HPA was unable to compute the replica count: {message}"));
            let (invalid, all) = (unusable.len(), specs.len());
            let message = format!("invalid metrics ({invalid} invalid out of {all}), first error is: {context}: {message}");
            Err(Problem { metrics: Some(metrics), message })
        }
    }
}

/// Checks that the target has a selector, and that its pods have one autoscaler.
fn check_selector(
    state: &AutoscalerState,
    target: &ScaledView,
    draft: &mut StatusDraft,
    events: &mut Vec<EventRecord>,
) -> Result<(), Problem> {
    let Some(selector) = &target.selector else {
        let text = "selector is required".to_owned();
        events.push(event(state, Severity::Warning, "SelectorRequired", text.clone()));
        draft.set(SCALING_ACTIVE, false, "InvalidSelector", "the HPA target's scale is missing a selector");
        return Err(Problem { metrics: None, message: text });
    };
    if !super::is_ambiguous(&state.selected_by) {
        return Ok(());
    }
    let namespace = &state.autoscaler.namespace;
    let all: Vec<String> = state.selected_by.iter().take(NAMED_MAX).map(|name| format!("{namespace}/{name}")).collect();
    let more = if all.len() < state.selected_by.len() { " ..." } else { "" };
    let text = format!("pods by selector {selector} are controlled by multiple HPAs: [{}{more}]", all.join(" "));
    events.push(event(state, Severity::Warning, "AmbiguousSelector", text.clone()));
    draft.set(SCALING_ACTIVE, false, "AmbiguousSelector", text.clone());
    Err(Problem { metrics: None, message: text })
}

fn tolerances(state: &AutoscalerState) -> Tolerances {
    let behavior = state.autoscaler.spec.behavior.as_ref().filter(|_| state.tolerance_is_configurable);
    let of = |rules: Option<&HPAScalingRules>| {
        let tolerance = rules.and_then(|rules| rules.tolerance.as_ref()).and_then(|tolerance| tolerance.0.parse::<Quantity>().ok());
        tolerance.map_or(TOLERANCE, |tolerance| tolerance.nanos() as f64 / 1e9)
    };
    let up = of(behavior.and_then(|behavior| behavior.scale_up.as_ref()));
    Tolerances { up, down: of(behavior.and_then(|behavior| behavior.scale_down.as_ref())) }
}

impl Decision {
    fn into_plan(self, state: &AutoscalerState, next: Timestamp) -> Plan {
        let autoscaler = &state.autoscaler;
        let tree = |status: &HorizontalPodAutoscalerStatus| serde_json::to_value(status).expect("API structs have string keys only");
        let status = difference(tree(&autoscaler.status), tree(&self.status)).map(|patch| Action::Patch {
            target: autoscaler.reference(),
            subresource: Some(Subresource::Status),
            patch: json!({"status": patch}),
            urgency: Urgency::Now,
            reason: Reason::MetricsChanged,
            events: Outcome::default(),
        });
        let size = self.size.and_then(|(from, to, why)| {
            let told = |severity, reason, text: String| Some(event(state, severity, reason, text));
            Some(Action::Patch {
                target: target(state)?,
                subresource: Some(Subresource::Scale),
                patch: json!({"spec": {"replicas": to}}),
                urgency: Urgency::Now,
                events: Outcome {
                    success: told(Severity::Normal, "SuccessfulRescale", format!("New size: {to}; reason: {why}")),
                    failure: told(Severity::Warning, "FailedRescale", format!("New size: {to}; reason: {why}; error: ")),
                },
                reason: Reason::Autoscaled { from, to, why },
            })
        });
        let stages = status.into_iter().chain(size).map(|action| Stage { actions: vec![action] }).collect();
        Plan { stages, events: self.events, requeue_at: Some(next), ..Plan::default() }
    }
}

/// The target in the version that was read.
fn target(state: &AutoscalerState) -> Option<ObjectRef> {
    let Target::Found(target) = &state.target else { return None };
    let resource = target_resource(state)?;
    let key = ObjectKey { namespace: target.namespace.clone(), name: target.name.clone() };
    Some(ObjectRef { resource, key, uid: target.uid.clone(), resource_version: Some(target.revision) })
}

fn target_resource(state: &AutoscalerState) -> Option<GroupResource> {
    match TargetKind::of(&state.autoscaler.spec.scale_target_ref) {
        TargetKind::Scaled(resource) => Some(resource),
        TargetKind::WithoutScale | TargetKind::Unknown => state.custom_resource.clone(),
    }
}

/// The kind of autoscalers, in the version of upstream's events.
const KIND: GroupVersionKind = GroupVersionKind::from_static("autoscaling", "v2", "HorizontalPodAutoscaler");

/// The event that an autoscaler has begun to wait for another controller. Its other events are upstream's.
#[must_use]
pub fn wait_event(autoscaler: &AutoscalerView, wait: &Wait) -> Option<EventRecord> {
    let reason = wait.event_reason().filter(|_| matches!(wait, Wait::SecondWriter(_)))?;
    let record = EventRecord::new(autoscaler.reference(), Severity::Warning, reason, wait.to_string());
    Some(EventRecord { about_kind: KIND, ..record })
}

fn event(state: &AutoscalerState, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord { about_kind: KIND, ..EventRecord::new(state.autoscaler.reference(), severity, reason, message) }
}
