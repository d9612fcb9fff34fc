//! The text form of plans.

use super::{Action, Due, Plan, Urgency, Victims};
use crate::resources::kind_of;
use berth_identity::{GroupResource, ObjectKey, ObjectRef};
use std::fmt::{Display, Formatter, Result};

/// How many actions one line contains.
const ACTIONS_MAX: usize = 10;
/// How many names one action contains.
const NAMES_MAX: usize = 3;

/// A plan's actions in one line. Its length is bounded, whatever the number of objects: see [`Plan::brief`].
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    plan: &'a Plan,
    due: Due,
}

impl Plan {
    /// The due actions in one line: the first of them, each with the number of its stage, and how many more there are.
    #[must_use]
    pub fn brief(&self, due: Due) -> Brief<'_> {
        Brief { plan: self, due }
    }

    /// Actions with the numbers of their stages, from 1.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Action)> {
        self.stages.iter().zip(1..).flat_map(|(stage, number)| stage.actions.iter().map(move |action| (number, action)))
    }
}

impl Display for Brief<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let due = || self.plan.numbered().filter(|(_, action)| self.due.includes(action));
        let mut separator = "";
        for (number, action) in due().take(ACTIONS_MAX) {
            write!(f, "{separator}{number}. {action}")?;
            separator = "; ";
        }
        more(f, due().count(), ACTIONS_MAX)
    }
}

/// Each action on its own line, with the number of its stage. The waits follow.
impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.numbered().try_for_each(|(number, action)| writeln!(f, "{number}. {action}"))?;
        self.waits.iter().try_for_each(|wait| writeln!(f, "{wait}"))
    }
}

/// The action, its object and its reason.
impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::ConfirmAlive { target, reason } => write!(f, "confirm that {} is there: {reason}", Shown::from(target)),
            Self::ConfirmNodeReady { nodes, reason, .. } => {
                write!(f, "confirm that one of these nodes is ready: {}: {reason}", nodes.join(", "))
            }
            Self::ConfirmGone { target, reason } => write!(f, "confirm that {} is gone: {reason}", Shown::from(target)),
            Self::Create { object, reason, .. } => write!(f, "create {}: {reason}", Shown(&object.resource(), &object.key())),
            Self::Patch { target, subresource, urgency, reason, .. } => {
                let when = if *urgency == Urgency::Soon { " soon" } else { "" };
                f.write_str("patch ")?;
                subresource.iter().try_for_each(|part| write!(f, "{} of ", part.as_str()))?;
                write!(f, "{}{when}: {reason}", Shown::from(target))
            }
            Self::Delete { target, propagation, grace_period_seconds, reason, .. } => {
                write!(f, "delete {}", Shown::from(target))?;
                propagation.iter().try_for_each(|propagation| write!(f, ", dependents {propagation:?}"))?;
                grace_period_seconds.iter().try_for_each(|seconds| write!(f, ", grace period {seconds}s"))?;
                write!(f, ": {reason}")
            }
            Self::CreatePods { count, owner, reason, .. } => write!(f, "create {} of {}: {reason}", Pods(*count), Shown::from(owner)),
            Self::DeletePods { victims, owner, reason } => {
                let count = victims.iter().map(|victims| victims.pods.len()).sum();
                write!(f, "delete {} of {}: {reason}", Pods(count), Shown::from(owner))?;
                victims.iter().try_for_each(|Victims { rule, pods }| write!(f, ", {} ({rule})", Names(pods)))
            }
        }
    }
}

/// An object by kind, namespace and name.
struct Shown<'a>(&'a GroupResource, &'a ObjectKey);

impl<'a> From<&'a ObjectRef> for Shown<'a> {
    fn from(object: &'a ObjectRef) -> Self {
        Self(&object.resource, &object.key)
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", kind_of(self.0).kind, self.1)
    }
}

struct Pods(usize);

impl Display for Pods {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} pod{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// The first names.
struct Names<'a>(&'a [ObjectRef]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (index, object) in self.0.iter().take(NAMES_MAX).enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, object.key.name)?;
        }
        more(f, self.0.len(), NAMES_MAX)
    }
}

/// The number of omitted names.
fn more(f: &mut Formatter<'_>, count: usize, shown: usize) -> Result {
    if count > shown { write!(f, " and {} more", count - shown) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Outcome, Propagation, Reason, Stage, Subresource, Victims, Wait},
        read_back::read_back,
        replica_set::rank::Rule,
        resources::{NAMESPACES, PODS, REPLICA_SETS},
    };
    use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    use serde_json::json;

    fn object(resource: GroupResource, name: &str) -> ObjectRef {
        ObjectRef { resource, key: ObjectKey::new("shop", name), uid: "u".into(), resource_version: None }
    }

    fn pods(count: usize) -> Vec<ObjectRef> {
        (0..count).map(|number| object(PODS, &format!("web-{number}"))).collect()
    }

    fn patch(urgency: Urgency, subresource: Option<Subresource>) -> Action {
        let (target, reason) = (object(REPLICA_SETS, "web"), Reason::Resized { from: 3, to: 2, limit: None });
        Action::Patch { target, subresource, patch: json!({}), urgency, reason, events: Outcome::default() }
    }

    fn delete_pods(victims: Vec<Victims>) -> Action {
        Action::DeletePods { victims, owner: object(REPLICA_SETS, "web"), reason: Reason::Replicas { wanted: 2, active: 7 } }
    }

    fn plan(stages: Vec<Vec<Action>>) -> Plan {
        Plan { stages: stages.into_iter().map(|actions| Stage { actions }).collect(), ..Plan::default() }
    }

    #[test]
    fn an_action_states_what_is_done_to_which_object_and_why() {
        let check = |action: Action, text: &str| assert_eq!(read_back(action).to_string(), text);
        let confirm = |target| Action::ConfirmAlive { target, reason: Reason::Adopts };
        check(confirm(object(REPLICA_SETS, "web")), "confirm that ReplicaSet shop/web is there: it is about to adopt an object");
        let target = object(PODS, "web-0");
        check(
            Action::ConfirmGone { target, reason: Reason::ClearsAway },
            "confirm that Pod shop/web-0 is gone: its remains must be deleted",
        );
        let nodes = vec!["n1".to_owned(), "n2".to_owned()];
        check(
            Action::ConfirmNodeReady {
                nodes,
                answered_since: jiff::Timestamp::UNIX_EPOCH,
                reason: Reason::ClearsAway,
                events: Outcome::default(),
            },
            "confirm that one of these nodes is ready: n1, n2: its remains must be deleted",
        );
        let metadata = ObjectMeta { name: Some("web-0".to_owned()), namespace: Some("shop".to_owned()), ..ObjectMeta::default() };
        let pod = Pod { metadata, ..Pod::default() };
        let create = Action::Create { object: pod.clone().into(), reason: Reason::PodMissing, events: Outcome::default() };
        check(create, "create Pod shop/web-0: it is missing");
        check(patch(Urgency::Now, None), "patch ReplicaSet shop/web: 3 to 2 pods");
        check(patch(Urgency::Soon, Some(Subresource::Status)), "patch status of ReplicaSet shop/web soon: 3 to 2 pods");
        let delete = |propagation, grace_period_seconds| {
            let (target, reason, events) = (object(PODS, "web-0"), Reason::NodeGone, Outcome::default());
            Action::Delete { target, propagation, grace_period_seconds, reason, events }
        };
        check(delete(None, None), "delete Pod shop/web-0: its node no longer exists");
        let text = "delete Pod shop/web-0, dependents Orphan, grace period 0s: its node no longer exists";
        check(delete(Some(Propagation::Orphan), Some(0)), text);
        let (owner, reason) = (object(REPLICA_SETS, "web"), Reason::Replicas { wanted: 3, active: 2 });
        check(
            Action::CreatePods { template: Box::new(pod), count: 1, owner, reason },
            "create 1 pod of ReplicaSet shop/web: 3 wanted, 2 there",
        );
        let (unready, doubled) = (pods(1), pods(4));
        let victims = vec![Victims { rule: Rule::NotReady, pods: unready }, Victims { rule: Rule::Crowded { than: 1 }, pods: doubled }];
        let text = "delete 5 pods of ReplicaSet shop/web: 2 wanted, 7 there, web-0 (not ready), \
                    web-0, web-1, web-2 and 1 more (node has more than 1 of the workload's pods)";
        check(delete_pods(victims), text);
    }

    #[test]
    fn a_plan_has_a_line_for_each_action_and_each_wait() {
        let plan = Plan { waits: vec![Wait::Paused], ..plan(vec![vec![patch(Urgency::Now, None)], vec![], vec![delete_pods(Vec::new())]]) };
        let text = "1. patch ReplicaSet shop/web: 3 to 2 pods\n\
                    3. delete 0 pods of ReplicaSet shop/web: 2 wanted, 7 there\n\
                    paused: the template does not roll out until you resume it\n";
        assert_eq!(read_back(plan).to_string(), text);
        assert_eq!((Plan::default().to_string(), Plan::default().brief(Due::All).to_string()), (String::new(), String::new()));
    }

    #[test]
    fn the_brief_form_does_not_grow_with_the_number_of_objects() {
        let of = |count: usize| {
            plan(vec![vec![delete_pods(vec![Victims { rule: Rule::Newer, pods: pods(count) }]); count]]).brief(Due::All).to_string()
        };
        assert!(of(2).ends_with("; 1. delete 2 pods of ReplicaSet shop/web: 2 wanted, 7 there, web-0, web-1 (newer)"), "{}", of(2));
        assert!(of(1000).ends_with(" and 990 more") && of(1000).len() < 1200, "{}", of(1000));
    }

    #[test]
    fn a_resource_that_no_plan_writes_to_is_not_read_back() {
        let confirm = Action::ConfirmAlive { target: object(NAMESPACES, "web"), reason: Reason::Adopts };
        let text = serde_json::to_string(&confirm).expect("string keys only");
        let error = serde_json::from_str::<Action>(&text).expect_err("unknown").to_string();
        assert!(error.starts_with("plans know no resource \"namespaces\" of group \"\""), "{error}");
    }
}
