//! The authorizer of policies: expressions ask it whether a user has access.

use super::{Outcome, Plain, no_overload, tenth};
use crate::{
    Access, Budget, Value, Verdict,
    value::{Opaque as Boxed, opaque::Opaque},
};

/// What one question costs: an expression can ask two.
const QUESTION_COST: u64 = 350_000;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "path" => |arguments, budget| {
            step(arguments, budget, |from, text| match from {
                Opaque::Authorizer(check) => Some(Opaque::Path(check.with(|access| access.path = Some(text.to_owned())))),
                _ => None,
            })
        },
        "group" => |arguments, budget| {
            step(arguments, budget, |from, text| match from {
                Opaque::Authorizer(check) => Some(Opaque::Group(check.with(|access| text.clone_into(&mut access.group)))),
                _ => None,
            })
        },
        "serviceAccount" => |arguments, budget| {
            budget.spend(1)?;
            let [Value::Opaque(from), Value::String(namespace), Value::String(name)] = arguments else { return Err(no_overload()) };
            let Boxed(Opaque::Authorizer(check)) = &**from else { return Err(no_overload()) };
            let account = (namespace.to_string(), name.to_string());
            Ok(Value::opaque(Opaque::Authorizer(check.with(|access| access.service_account = Some(account)))))
        },
        "resource" => |arguments, budget| {
            step(arguments, budget, |from, text| match from {
                Opaque::Group(check) => Some(Opaque::Resource(check.with(|access| text.clone_into(&mut access.resource)))),
                _ => None,
            })
        },
        "subresource" => |arguments, budget| refine(arguments, budget, |access, text| access.subresource = text),
        "namespace" => |arguments, budget| refine(arguments, budget, |access, text| access.namespace = text),
        "name" => |arguments, budget| refine(arguments, budget, |access, text| access.name = text),
        "fieldSelector" => |arguments, budget| selector(arguments, budget, |access, text| access.field_selector = Some(text)),
        "labelSelector" => |arguments, budget| selector(arguments, budget, |access, text| access.label_selector = Some(text)),
        "check" => |arguments, budget| {
            budget.spend(QUESTION_COST)?;
            let [Value::Opaque(from), Value::String(verb)] = arguments else { return Err(no_overload()) };
            let (Boxed(Opaque::Path(check)) | Boxed(Opaque::Resource(check))) = &**from else { return Err(no_overload()) };
            let check = check.with(|access| access.verb = verb.to_string());
            Ok(Value::opaque(Opaque::Decision(check.answer())))
        },
        "allowed" => |arguments, budget| of_decision(arguments, budget, |decision| decision.is_allowed.into()),
        "reason" => |arguments, budget| of_decision(arguments, budget, |decision| decision.reason.clone().into()),
        "errored" => |arguments, budget| of_decision(arguments, budget, |decision| decision.error.is_some().into()),
        "error" => |arguments, budget| of_decision(arguments, budget, |decision| decision.error.clone().unwrap_or_default().into()),
        _ => return None,
    })
}

/// Continues a question with a text.
fn step<'a>(arguments: &[Value<'a>], budget: &mut Budget, next: impl FnOnce(&Opaque, &str) -> Option<Opaque>) -> Outcome<'a> {
    budget.spend(1)?;
    let [Value::Opaque(from), Value::String(text)] = arguments else { return Err(no_overload()) };
    next(&from.0, text).map(Value::opaque).ok_or_else(no_overload)
}

fn refine<'a>(arguments: &[Value<'a>], budget: &mut Budget, change: fn(&mut Access, String)) -> Outcome<'a> {
    step(arguments, budget, |from, text| match from {
        Opaque::Resource(check) => Some(Opaque::Resource(check.with(|access| change(access, text.to_owned())))),
        _ => None,
    })
}

/// Upstream counts the requirements that a selector can have.
fn selector<'a>(arguments: &[Value<'a>], budget: &mut Budget, change: fn(&mut Access, String)) -> Outcome<'a> {
    let size = arguments.get(1).map_or(0, Value::size);
    budget.spend((9 + tenth(size)).saturating_add(size.div_ceil(2).saturating_mul(50)))?;
    refine(arguments, budget, change)
}

fn of_decision<'a>(arguments: &[Value<'a>], budget: &mut Budget, of: fn(&Verdict) -> Value<'a>) -> Outcome<'a> {
    budget.spend(1)?;
    match arguments {
        [Value::Opaque(value)] => match &**value {
            Boxed(Opaque::Decision(decision)) => Ok(of(decision)),
            _ => Err(no_overload()),
        },
        _ => Err(no_overload()),
    }
}
