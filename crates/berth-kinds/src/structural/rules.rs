//! Rules of a schema in the Common Expression Language (`x-kubernetes-validations`).
//!
//! `written` has a rule as its author writes it. `check` finds what is wrong with the rules of a schema, and what they cost. `compile` compiles those of
//! a part, when it is judged first: most definitions of a server are never used. `evaluate` judges an object by them.
//!
//! Source: upstream `apiextensions-apiserver/pkg/apiserver/schema/cel` and `pkg/apis/apiextensions/validation`.

mod check;
mod compile;
mod declare;
mod evaluate;
mod field_path;
mod written;

#[cfg(test)]
mod tests;

pub(super) use evaluate::faults;

use super::Structural;
use berth_api::{FieldError, Path};
use berth_cel::{CompileError, Declaration, Program};
use std::sync::{Arc, OnceLock};
use written::Written;

/// The member of a schema that has its rules.
const VALIDATIONS: &str = "x-kubernetes-validations";

/// Returns what is wrong with the rules of a structural schema.
pub(super) fn check(schema: &Structural, path: &Path) -> Vec<FieldError> {
    if !schema.inside.rules {
        return Vec::new();
    }
    let mut faults = Vec::new();
    written::check(schema, path, &mut faults);
    if faults.is_empty() { check::check(schema, path) } else { faults }
}

/// Whether a part of a schema has rules itself.
pub(super) fn has_own(schema: &Structural) -> bool {
    schema.extras.contains_key(VALIDATIONS)
}

/// The rules of a part of a schema, once they are compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(OnceLock<Option<Arc<Own>>>);

impl Rules {
    /// The rules of `schema`, which has these. `is_object`: it is the schema of an object of the API. `None`: it has none.
    fn of(&self, schema: &Structural, is_object: bool) -> Option<&Own> {
        if !has_own(schema) {
            return None;
        }
        self.0.get_or_init(|| compile::compile(schema, is_object).map(Arc::new)).as_deref()
    }
}

/// Rules follow from the schema that has them.
impl PartialEq for Rules {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The rules about one value.
#[derive(Debug)]
struct Own {
    declaration: Declaration,
    rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug)]
struct Rule {
    written: Written,
    /// Or why it cannot be compiled: another version of the server stored it.
    program: Result<Program, CompileError>,
    message: Option<Program>,
    /// The path of the field that a fault names, from the value.
    field: Option<String>,
}
