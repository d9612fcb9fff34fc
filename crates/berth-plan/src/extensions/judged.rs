//! Which admission policies a forecast can evaluate.

use super::{
    defined::{Defined, Served},
    unevaluated::{PolicyKind, Rule, RuleName},
};
use crate::{
    change::Change,
    snapshot::{ADMISSION, Snapshot},
};
use berth_admission::{ParamKind, ParamQuery, ParamRef, Policy, PolicyBinding};
use berth_api::Selector;
use berth_identity::GroupVersionKind;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The kind of an object that is a policy or a binding.
fn kind_and_part(object: &Value) -> Option<(PolicyKind, Part)> {
    if object["apiVersion"].as_str()?.strip_suffix("/v1")? != ADMISSION {
        return None;
    }
    Some(match object["kind"].as_str()? {
        "ValidatingAdmissionPolicy" => (PolicyKind::Validating, Part::Policy),
        "ValidatingAdmissionPolicyBinding" => (PolicyKind::Validating, Part::Binding),
        "MutatingAdmissionPolicy" => (PolicyKind::Mutating, Part::Policy),
        "MutatingAdmissionPolicyBinding" => (PolicyKind::Mutating, Part::Binding),
        _ => return None,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Policy,
    Binding,
}

/// The policies and bindings of a snapshot and a change. An object of both is there in both forms, and is evaluated only if both can be.
pub(super) struct All {
    pub(super) policies: Vec<(PolicyKind, Arc<Policy>)>,
    pub(super) bindings: Vec<(PolicyKind, Arc<PolicyBinding>)>,
}

impl All {
    pub(super) fn of<'o>(objects: impl Iterator<Item = &'o Value>) -> Self {
        let mut all = Self { policies: Vec::new(), bindings: Vec::new() };
        for object in objects {
            match kind_and_part(object) {
                Some((kind, Part::Policy)) => all.policies.push((kind, Arc::new(Policy::read(object)))),
                Some((kind, Part::Binding)) => all.bindings.push((kind, Arc::new(PolicyBinding::read(object)))),
                None => (),
            }
        }
        all
    }

    /// The bindings of a policy.
    pub(super) fn bindings_of<'a>(&'a self, kind: PolicyKind, policy: &'a Policy) -> impl Iterator<Item = &'a Arc<PolicyBinding>> {
        let own = self.bindings.iter().filter(move |(of, binding)| *of == kind && binding.policy == policy.name);
        own.map(|(_, binding)| binding)
    }
}

/// Which policies and bindings are evaluated.
#[derive(Default)]
pub(super) struct Judged {
    evaluated: BTreeSet<(PolicyKind, Part, String)>,
    /// Groups and kinds of parameters.
    parameters: BTreeSet<(String, String)>,
    selects_namespaces: bool,
    skipped: Vec<Rule>,
}

impl Judged {
    pub(super) fn of(snapshot: &Snapshot, change: &Change, defined: &Defined) -> Self {
        let all = All::of(snapshot.extensions.iter().chain(&change.manifests));
        let known = Known { snapshot, change, defined, namespaces: change.namespaces() };
        let mut judged = Self::default();
        let unusable: BTreeMap<(PolicyKind, &str), String> =
            all.policies.iter().filter_map(|(kind, policy)| Some(((*kind, policy.name.as_str()), known.unusable(policy)?))).collect();
        for (kind, policy) in &all.policies {
            let own = unusable.get(&(*kind, policy.name.as_str()));
            if own.is_none() {
                judged.evaluated.insert((*kind, Part::Policy, policy.name.clone()));
            }
            for binding in all.bindings_of(*kind, policy) {
                match own.cloned().or_else(|| known.missing_parameters(policy, binding)) {
                    Some(why) => judged.skip(*kind, policy, binding, why),
                    None => _ = judged.evaluated.insert((*kind, Part::Binding, binding.name.clone())),
                }
            }
        }
        for Rule { name, .. } in &judged.skipped {
            if let RuleName::Policy { kind, binding, .. } = name {
                judged.evaluated.remove(&(*kind, Part::Binding, binding.clone()));
            }
        }
        let is_evaluated = |kind: PolicyKind, policy: &Policy| judged.evaluated.contains(&(kind, Part::Policy, policy.name.clone()));
        for (kind, policy) in all.policies.iter().filter(|(kind, policy)| is_evaluated(*kind, policy)) {
            let mut constraints =
                all.bindings_of(*kind, policy).filter_map(|binding| binding.constraints.as_ref()).chain([&policy.constraints]);
            judged.selects_namespaces |= constraints.any(berth_admission::Constraints::selects_namespaces);
            if let Some(kind) = policy.param_kind.as_ref().and_then(kind_of) {
                judged.parameters.insert((kind.group.to_string(), kind.kind.to_string()));
            }
        }
        judged
    }

    fn skip(&mut self, kind: PolicyKind, policy: &Arc<Policy>, binding: &Arc<PolicyBinding>, why: String) {
        let name = RuleName::Policy { kind, policy: policy.name.clone(), binding: binding.name.clone() };
        if self.skipped.iter().any(|rule| rule.name == name) {
            return;
        }
        let constraints = [Some(policy.constraints.clone()), binding.constraints.clone()].into_iter().flatten().collect();
        self.skipped.push(Rule { name, constraints, why });
    }

    pub(super) fn has_policies(&self) -> bool {
        self.evaluated.iter().any(|(_, part, _)| *part == Part::Binding)
    }

    /// Whether a policy or a binding is evaluated.
    pub(super) fn is_evaluated(&self, object: &Value) -> bool {
        let Some((kind, part)) = kind_and_part(object) else { return false };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.evaluated.contains(&(kind, part, name))
    }

    /// Whether evaluated policies read objects of this kind.
    pub(super) fn is_parameter(&self, kind: &GroupVersionKind) -> bool {
        self.parameters.contains(&(kind.group.to_string(), kind.kind.to_string()))
    }

    pub(super) fn selects_namespaces(&self) -> bool {
        self.selects_namespaces
    }

    /// Removes and returns the rules that are not evaluated.
    pub(super) fn take_skipped(&mut self) -> Vec<Rule> {
        std::mem::take(&mut self.skipped)
    }
}

/// The kind of parameters, as a definition or a built-in kind has it.
pub(super) fn kind_of(params: &ParamKind) -> Option<GroupVersionKind> {
    GroupVersionKind::parse(&params.api_version, params.kind.as_str()).ok()
}

struct Known<'a> {
    snapshot: &'a Snapshot,
    change: &'a Change,
    defined: &'a Defined,
    namespaces: BTreeSet<String>,
}

impl Known<'_> {
    /// Why a policy cannot be evaluated, as a clause.
    fn unusable(&self, policy: &Policy) -> Option<String> {
        if policy.reads_user() {
            return Some("it reads the user of the request".to_owned());
        }
        if let Some(fault) = policy.fault() {
            return Some(format!("an expression does not compile here: {fault}"));
        }
        let params = policy.param_kind.as_ref()?;
        match kind_of(params).and_then(|kind| self.defined.served(&kind)) {
            Some(served) if served.resource.group.is_empty() && served.resource.plural == "secrets" => {
                Some("its parameters are Secrets, which plans do not read".to_owned())
            }
            Some(_) => None,
            None => Some(format!("the kind of its parameters is not in the snapshot ({params})")),
        }
    }

    /// Why a binding cannot be evaluated: its parameters may exist, but neither the snapshot nor the change has them.
    fn missing_parameters(&self, policy: &Policy, binding: &PolicyBinding) -> Option<String> {
        let (kind, of) = (kind_of(policy.param_kind.as_ref()?)?, binding.params.as_ref()?);
        let served = self.defined.served(&kind)?;
        let lacks = |namespace: &str| self.lacks(&kind, &served, of, namespace);
        let none = BTreeSet::from([String::new()]);
        let namespaces = if served.is_namespaced { &self.namespaces } else { &none };
        let which = namespaces.iter().find_map(|namespace| lacks(namespace))?;
        Some(format!("its parameters are not in the snapshot ({which})"))
    }

    /// The parameters of requests in a namespace that are not there.
    fn lacks(&self, kind: &GroupVersionKind, served: &Served, of: &ParamRef, namespace: &str) -> Option<String> {
        // Upstream's error about a reference that cannot be used is known.
        let query = of.query(served.is_namespaced, namespace).ok()?;
        let place = match &query {
            ParamQuery::Null => return None,
            ParamQuery::One { namespace, .. } | ParamQuery::Selected { namespace, .. } => *namespace,
        };
        let is_it = |object: &Value| match &query {
            ParamQuery::Null => false,
            ParamQuery::One { name, .. } => object["metadata"]["name"] == *name,
            ParamQuery::Selected { selector, .. } => has_labels(object, selector),
        };
        let is_there = |object: &&Value| {
            let text = |member: &str| object[member].as_str().unwrap_or_default();
            let own = GroupVersionKind::as_written(text("apiVersion"), text("kind"));
            let in_place = place.is_none_or(|place| self.change.namespace_of(object) == place);
            own.group == kind.group && own.kind == kind.kind && in_place && is_it(object)
        };
        let mut all = self.snapshot.objects.iter().chain(&self.snapshot.extensions).chain(&self.change.manifests);
        if all.any(|object| is_there(&object)) {
            return None;
        }
        let place = place.map(|place| format!("{place}/")).unwrap_or_default();
        Some(match &query {
            ParamQuery::Null => return None,
            ParamQuery::One { name, .. } => format!("{} {place}{name}", kind.kind),
            ParamQuery::Selected { selector, .. } => format!("{} {place}* with the labels {selector}", kind.kind),
        })
    }
}

fn has_labels(object: &Value, selector: &Selector) -> bool {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: BTreeMap<String, String> = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    selector.matches(&labels)
}
