//! The functions of the language. Each spends what it costs before it works.

mod authorizer;
mod conversions;
pub(crate) mod formatting;
mod lists;
mod named_formats;
mod networks;
mod operators;
mod optionals;
pub(crate) mod patterns;
mod quantities;
mod strings;
mod times;
mod urls;

pub(crate) use lists::sorted_by;

use crate::{Budget, EvaluationError, Value};
use regex::Regex;
use std::{fmt, sync::Arc};

/// A function that the caller adds. It gets the target first, and spends what it costs.
pub type Evaluate = Arc<dyn for<'a> Fn(&[Value<'a>], &mut Budget) -> Result<Value<'a>, EvaluationError> + Send + Sync>;

/// What a call calls.
#[derive(Clone)]
pub(crate) enum Function {
    /// A function of the language.
    Built(Body),
    /// A function that the caller added.
    Added(Evaluate),
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Built(_)) { "Built" } else { "Added" })
    }
}

/// A function of its arguments. A target is the first.
pub(crate) type Plain = for<'a> fn(&[Value<'a>], &mut Budget) -> Result<Value<'a>, EvaluationError>;
/// A function with a pattern, which is its second argument.
pub(crate) type WithPattern = for<'a> fn(&[Value<'a>], &Regex, &mut Budget) -> Result<Value<'a>, EvaluationError>;

/// How a function is evaluated.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Plain(Plain),
    Pattern(WithPattern),
    /// `or`: its argument is evaluated only if it is needed.
    Or,
    /// `orValue`: the same.
    OrValue,
}

/// The result of a function.
pub(crate) type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// The error of a call with arguments that no overload takes.
pub(crate) fn no_overload() -> EvaluationError {
    EvaluationError::NoOverload(String::new())
}

/// A tenth of a size: what it costs to read a text of this many bytes.
pub(crate) fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// How a function is evaluated.
pub(crate) fn body(name: &str) -> Body {
    match name {
        "or" => Body::Or,
        "orValue" => Body::OrValue,
        "matches" => Body::Pattern(patterns::matches),
        "find" => Body::Pattern(patterns::find),
        "findAll" => Body::Pattern(patterns::find_all),
        name => Body::Plain(plain(name)),
    }
}

fn plain(name: &str) -> Plain {
    let groups = [
        operators::function(name),
        conversions::function(name),
        strings::function(name),
        times::function(name),
        lists::function(name),
        optionals::function(name),
        networks::function(name),
        urls::function(name),
        quantities::function(name),
        named_formats::function(name),
        authorizer::function(name),
    ];
    groups.into_iter().flatten().next().unwrap_or(|_, _| Err(no_overload()))
}
