//! A `ResourceQuota`'s status: the limits that it enforces and their use (upstream: resource quota controller).
//!
//! The API server raises `used` before it creates an object, so the charged object may not be visible yet. The controller therefore lowers
//! `used` only after a while without charges. It raises `used` at once. It gives back the use of several deleted objects in one write.

use crate::{
    plan::{Action, Outcome, Plan, Reason, Stage, Subresource, Urgency, merge_patch},
    resources::{QUOTAS, reference},
    view::{Identity, View},
};
use berth_api::{
    decode::Codec,
    quantity::Quantity,
    quota::{Amounts, from_wire, to_wire},
};
use berth_identity::{ObjectRef, Revision};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use serde_json::json;

/// How long after a charge its object may not be visible yet. This is long for one write to the store, but short for a client that waits
/// for room.
pub const CHARGE_SETTLES: SignedDuration = SignedDuration::from_millis(250);

/// How long a decrease waits for more of them. Watches report pods that were deleted together one by one. Giving back the first one alone
/// would admit one object, whose charge would then delay the others.
pub const GIVEN_BACK_AFTER: SignedDuration = SignedDuration::from_millis(30);

/// What plans read of a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaView {
    /// Its reference and version.
    pub id: ObjectRef,
    /// The quota.
    pub quota: ResourceQuota,
}

/// The input of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceQuotaState<'a> {
    /// The quota.
    pub quota: &'a QuotaView,
    /// The use by the objects in its scope, by the names in `spec.hard`. A missing name is 0.
    pub counted: &'a Amounts,
    /// The time of the last known charge.
    pub charged_at: Timestamp,
    /// Since when the counted use has been lower than `used`, as far as is known.
    pub lower_since: Timestamp,
    /// The time of the snapshot.
    pub now: Timestamp,
}

impl View for QuotaView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let quota = ResourceQuota::decode_json(json)?;
        Ok(Self { id: reference(QUOTAS, &quota.metadata, revision), quota })
    }

    fn identity(&self) -> Identity<'_> {
        Identity::new(&self.id, &self.quota.metadata)
    }
}

impl QuotaView {
    /// `spec.hard`.
    #[must_use]
    pub fn wanted(&self) -> Amounts {
        from_wire(self.quota.spec.as_ref().and_then(|spec| spec.hard.as_ref()))
    }

    /// `status.hard`: the limits that the API server enforces.
    #[must_use]
    pub fn hard(&self) -> Amounts {
        from_wire(self.quota.status.as_ref().and_then(|status| status.hard.as_ref()))
    }

    /// `status.used`.
    #[must_use]
    pub fn used(&self) -> Amounts {
        from_wire(self.quota.status.as_ref().and_then(|status| status.used.as_ref()))
    }
}

/// Plans the quota's status. The write has the resource version as a precondition: a charge in the meantime makes it fail instead of being
/// lost.
#[must_use]
pub fn plan(state: &ResourceQuotaState<'_>) -> Plan {
    let (wanted, used) = (state.quota.wanted(), state.quota.used());
    let settled_at = (state.charged_at + CHARGE_SETTLES).max(state.lower_since + GIVEN_BACK_AFTER);
    let mut must_wait = false;
    let mut next_used = Amounts::new();
    for name in wanted.keys() {
        let counted = state.counted.get(name).copied().unwrap_or(Quantity::ZERO);
        let keeps = used.get(name).copied().filter(|used| counted < *used && state.now < settled_at);
        must_wait |= keeps.is_some();
        next_used.insert(name.clone(), keeps.unwrap_or(counted));
    }
    let is_right = wanted == state.quota.hard() && next_used == used;
    let stages = if is_right { Vec::new() } else { vec![Stage { actions: status_patch(state.quota, &next_used).into_iter().collect() }] };
    Plan { stages, requeue_at: must_wait.then_some(settled_at), ..Plan::default() }
}

fn status_patch(view: &QuotaView, used: &Amounts) -> Option<Action> {
    let old = view.quota.status.clone().unwrap_or_default();
    let hard = view.quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
    let new = ResourceQuotaStatus { hard: Some(hard), used: Some(to_wire(used)) };
    Some(Action::Patch {
        target: view.id.clone(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": merge_patch(&old, &new)?}),
        urgency: Urgency::Now,
        reason: Reason::UseChanged,
        events: Outcome::default(),
    })
}

/// Whether the counted use of any resource is lower than `used`.
#[must_use]
pub fn is_lower(quota: &QuotaView, counted: &Amounts) -> bool {
    let used = quota.used();
    quota.wanted().keys().any(|name| used.get(name).is_some_and(|used| counted.get(name).copied().unwrap_or(Quantity::ZERO) < *used))
}

/// Whether objects may fit now that did not before: use is given back, a limit is higher or removed, or the quota is deleted.
#[must_use]
pub fn gains_room(old: Option<&QuotaView>, new: Option<&QuotaView>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_some() };
    let ((old_hard, new_hard), (old_used, new_used)) = ((old.hard(), new.hard()), (old.used(), new.used()));
    let is_gone = |name: &String| !new_hard.contains_key(name);
    let has_risen = |name: &String, old: &Quantity| new_hard.get(name).is_some_and(|new| old < new);
    let is_given_back = |name: &String| match (old_used.get(name), new_used.get(name)) {
        (Some(old), Some(new)) => new < old,
        (None, Some(_)) => true,
        _ => false,
    };
    old_hard.iter().any(|(name, amount)| is_gone(name) || has_risen(name, amount) || is_given_back(name))
}

/// Whether `used` of any resource grew between the two versions.
#[must_use]
pub fn is_charged(old: Option<&QuotaView>, new: &QuotaView) -> bool {
    let Some(old) = old.map(QuotaView::used) else { return true };
    new.used().iter().any(|(name, amount)| old.get(name).is_none_or(|old| old < amount))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

    use super::*;
    use crate::read_back::read_back;
    use serde_json::Value;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).expect("a time")
    }

    fn quota(wanted: Value, hard: Value, used: Value) -> QuotaView {
        let json = json!({"metadata": {"name": "q"}, "spec": {"hard": wanted}, "status": {"hard": hard, "used": used}});
        QuotaView::decode(json.to_string().as_bytes(), Revision(7)).expect("a quota")
    }

    /// Pods are limited, the last charge was at 0, and their number has been lower since then.
    #[track_caller]
    fn check(view: &QuotaView, counted: i64, now: i64, wanted: (Option<Value>, Option<i64>)) {
        check_since(0, view, counted, now, wanted);
    }

    /// The number of pods has been lower since `lower_since`.
    #[track_caller]
    fn check_since(lower_since: i64, view: &QuotaView, counted: i64, now: i64, wanted: (Option<Value>, Option<i64>)) {
        let counted = Amounts::from([("pods".to_owned(), Quantity::from_integer(counted))]);
        let plan = read_back(plan(&ResourceQuotaState {
            quota: view,
            counted: &counted,
            charged_at: at(0),
            lower_since: at(lower_since),
            now: at(now),
        }));
        let patch = plan.stages.into_iter().flat_map(|stage| stage.actions).find_map(|action| match action {
            Action::Patch { target, patch, .. } if target.resource_version == Some(Revision(7)) => Some(patch["status"].clone()),
            _ => None,
        });
        assert_eq!((patch, plan.requeue_at), (wanted.0, wanted.1.map(at)));
    }

    fn pods(number: &str) -> Value {
        json!({"pods": number})
    }

    #[test]
    fn a_new_quota_gets_its_bounds_and_what_is_used() {
        let new = QuotaView::decode(br#"{"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}"#, Revision(7)).expect("a quota");
        check(&new, 1, 0, (Some(json!({"hard": pods("2"), "used": pods("1")})), None));
    }

    #[test]
    fn what_is_gone_is_given_back_unless_a_charge_is_fresh() {
        let full = quota(pods("2"), pods("2"), pods("2"));
        check(&full, 2, 0, (None, None));
        check(&full, 1, 249, (None, Some(250)));
        check(&full, 1, 250, (Some(json!({"used": pods("1")})), None));
        check(&full, 3, 0, (Some(json!({"used": pods("3")})), None));
    }

    #[test]
    fn what_goes_together_is_given_back_together() {
        let full = quota(pods("4"), pods("4"), pods("4"));
        check_since(1000, &full, 3, 1000, (None, Some(1030)));
        check_since(1000, &full, 1, 1029, (None, Some(1030)));
        check_since(1000, &full, 1, 1030, (Some(json!({"used": pods("1")})), None));
        // Increases in the meantime do not wait.
        check_since(1000, &full, 5, 1000, (Some(json!({"used": pods("5")})), None));
        let is_lower = |counted| is_lower(&full, &Amounts::from([("pods".to_owned(), Quantity::from_integer(counted))]));
        assert_eq!([3, 4, 5].map(is_lower), [true, false, false]);
        assert!(super::is_lower(&full, &Amounts::new()), "nothing is there");
        assert!(!super::is_lower(&quota(json!({}), pods("4"), pods("4")), &Amounts::new()), "nothing bounds it");
    }

    #[test]
    fn bounds_follow_the_spec_at_once() {
        check(&quota(pods("3"), pods("2"), pods("2")), 1, 10, (Some(json!({"hard": pods("3")})), Some(250)));
        check(&quota(json!({}), pods("2"), pods("2")), 1, 10, (Some(json!({"hard": {"pods": null}, "used": {"pods": null}})), None));
    }

    #[test]
    fn room_is_what_lets_more_in() {
        let version = |hard: &str, used: &str| quota(json!({}), pods(hard), pods(used));
        let check = |new: Option<QuotaView>, wanted| assert_eq!(gains_room(Some(&version("2", "2")), new.as_ref()), wanted);
        check(Some(version("2", "2")), false);
        check(Some(version("2", "3")), false);
        check(Some(version("1", "2")), false);
        check(Some(version("3", "2")), true);
        check(Some(version("2", "1")), true);
        check(Some(quota(json!({}), json!({}), json!({}))), true);
        check(None, true);
        assert!(!gains_room(None, Some(&version("2", "2"))));
        assert!(is_charged(Some(&version("2", "1")), &version("2", "2")) && !is_charged(Some(&version("2", "2")), &version("2", "1")));
    }

    #[test]
    fn a_charge_is_what_raises_use_or_names_something_new() {
        let used = |used: Value| quota(json!({}), json!({}), used);
        let check = |old: Option<Value>, new: Value, wanted| assert_eq!(is_charged(old.map(used).as_ref(), &used(new)), wanted);
        check(None, json!({}), true);
        check(Some(pods("1")), pods("1"), false);
        check(Some(pods("1")), pods("2"), true);
        check(Some(pods("1")), json!({"pods": "1", "services": "0"}), true);
        check(Some(json!({"pods": "1", "services": "3"})), json!({"pods": "1", "services": "2"}), false);
    }

    #[test]
    fn room_is_there_once_it_is_known_what_is_used() {
        let bounded = |used: Value| quota(json!({}), pods("2"), used);
        assert!(gains_room(Some(&bounded(json!({}))), Some(&bounded(pods("2")))));
        assert!(!gains_room(Some(&bounded(pods("2"))), Some(&bounded(json!({})))));
        assert!(
            !gains_room(Some(&bounded(json!({"pods": "2", "services": "3"}))), Some(&bounded(json!({"pods": "2", "services": "1"})))),
            "nothing bounds it"
        );
    }
}
