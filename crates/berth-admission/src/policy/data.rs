//! What expressions read.

use super::{Expression, Policy, failure::ExpressionFailure};
use berth_cel::{Access, Authorize, Bindings, Budget, EvaluationError, Fields, Value, Variables};
use berth_kinds::REQUEST_RESOURCE;
use serde_json::Value as Json;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::{Rc, Weak},
};

/// The data of one evaluation. An absent object is `null`.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// The new object, in the version that the policy matches.
    pub object: &'a Json,
    /// The stored object, in the same version.
    pub old: &'a Json,
    /// The request, as AdmissionReview has it.
    pub request: &'a Json,
    /// The parameters.
    pub params: &'a Json,
    /// The namespace of the object.
    pub namespace: &'a Json,
    /// Answers questions about rights.
    pub authorizer: Rc<dyn Authorize>,
    /// `authorizer.requestResource`.
    pub resource: Access,
}

impl<'a> Data<'a> {
    pub(super) fn bindings(&self) -> Bindings<'a> {
        let json = |json: &'a Json| Value::from_json(json, None).unwrap_or(Value::Null);
        Bindings::new()
            .with("object", json(self.object))
            .with("oldObject", json(self.old))
            .with("request", json(self.request))
            .with("params", json(self.params))
            .with("namespaceObject", json(self.namespace))
            .with("authorizer", Value::authorizer(Rc::clone(&self.authorizer)))
            .with(REQUEST_RESOURCE, Value::resource_check(Rc::clone(&self.authorizer), self.resource.clone()))
    }
}

/// The variables of one evaluation. Those of the policy are evaluated when they are first read.
pub(super) struct Scope<'a> {
    policy: &'a Policy,
    bindings: Bindings<'a>,
    /// The values so far, by the place of the variable.
    values: RefCell<BTreeMap<usize, Result<Value<'a>, EvaluationError>>>,
    /// A variable can read only those before this place.
    before: Cell<usize>,
    this: Weak<Self>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(policy: &'a Policy, data: &Data<'a>) -> Rc<Self> {
        let (bindings, before) = (data.bindings(), Cell::new(policy.variables.len()));
        Rc::new_cyclic(|this| Self { policy, bindings, values: RefCell::default(), before, this: Weak::clone(this) })
    }

    pub(super) fn evaluate(&self, expression: &'a Expression, budget: &mut Budget) -> Result<Value<'a>, ExpressionFailure> {
        expression.evaluate(self, budget)
    }

    fn of_policy(&self, place: usize, budget: &mut Budget) -> Result<Value<'a>, EvaluationError> {
        if let Some(known) = self.values.borrow().get(&place) {
            return known.clone();
        }
        let (name, expression) = &self.policy.variables[place];
        let before = self.before.replace(place);
        let value = expression.value(self, budget);
        self.before.set(before);
        let value = value.map_err(|error| match error {
            EvaluationError::OutOfBudget => error,
            error => EvaluationError::failed(format!("composited variable {name:?} fails to evaluate: {error}")),
        });
        self.values.borrow_mut().insert(place, value.clone());
        value
    }
}

impl<'a> Variables<'a> for Scope<'a> {
    fn variable(&self, name: &str, budget: &mut Budget) -> Option<Result<Value<'a>, EvaluationError>> {
        if name == "variables" {
            let this: Rc<dyn Fields<'a> + 'a> = self.this.upgrade()?;
            return Some(Ok(Value::Fields(this)));
        }
        self.bindings.variable(name, budget)
    }
}

impl<'a> Fields<'a> for Scope<'a> {
    fn field(&self, name: &str, budget: &mut Budget) -> Option<Result<Value<'a>, EvaluationError>> {
        let known = &self.policy.variables[..self.before.get()];
        let place = known.iter().rposition(|(known, _)| known == name)?;
        Some(self.of_policy(place, budget))
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("policy", &self.policy.name).finish_non_exhaustive()
    }
}
