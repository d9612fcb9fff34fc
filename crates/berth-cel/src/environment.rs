//! What an expression can use besides the functions of the language.

use crate::{
    Declaration, Evaluate, Type,
    signatures::{Overload, Signature, signature},
};
use std::fmt;

/// The function that only expressions about JSON patches have.
const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// The variables and the functions of an expression.
#[derive(Clone, Default)]
pub struct Environment {
    variables: Vec<(&'static str, Variable)>,
    functions: Vec<(&'static str, Added)>,
    constructed: Vec<&'static str>,
    has_patches: bool,
}

/// A variable.
#[derive(Clone)]
pub(crate) struct Variable {
    pub(crate) declaration: Declaration,
    /// Whether its value is an optional.
    pub(crate) is_optional: bool,
}

#[derive(Clone)]
pub(crate) struct Added {
    pub(crate) overload: Overload,
    pub(crate) evaluate: Evaluate,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("variables", &self.variables.len()).finish_non_exhaustive()
    }
}

impl Environment {
    /// Only the functions of the language.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn variable(mut self, name: &'static str, declaration: Declaration) -> Self {
        self.variables.push((name, Variable { declaration, is_optional: false }));
        self
    }

    /// Adds a variable whose value is an optional of the declaration, such as `oldSelf` of a rule with `optionalOldSelf`.
    #[must_use]
    pub fn optional_variable(mut self, name: &'static str, declaration: Declaration) -> Self {
        self.variables.push((name, Variable { declaration, is_optional: true }));
        self
    }

    /// Adds a function. `id` identifies this combination of types. The first parameter of a member is its target.
    #[must_use]
    pub fn function(
        mut self,
        name: &'static str,
        id: &'static str,
        is_member: bool,
        parameters: Vec<Type>,
        result: Type,
        evaluate: Evaluate,
    ) -> Self {
        self.functions.push((name, Added { overload: Overload { id, is_member, parameters, result }, evaluate }));
        self
    }

    /// Lets expressions construct objects of this name and of the names below it: `Object` allows `Object.spec{…}`. Their fields are not checked.
    #[must_use]
    pub fn constructed(mut self, name: &'static str) -> Self {
        self.constructed.push(name);
        self
    }

    /// Lets expressions construct JSON patches: `JSONPatch{…}`, and `jsonpatch.escapeKey` for their paths.
    #[must_use]
    pub fn patches(mut self) -> Self {
        self.has_patches = true;
        self.constructed("JSONPatch")
    }

    /// The type that a field of a constructed object must have, if a value of type `found` is not allowed there. Empty: there is no such field. `None`:
    /// it is allowed.
    pub(crate) fn unfit_field(&self, object: &str, field: &str, found: &Type) -> Option<&'static str> {
        if !self.has_patches || object != "JSONPatch" {
            return None;
        }
        match field {
            "op" | "path" | "from" => (!matches!(found, Type::String | Type::Dyn | Type::Error)).then_some("string"),
            "value" => None,
            _ => Some(""),
        }
    }

    /// The signature of a function of the language.
    pub(crate) fn signature(&self, name: &str) -> Option<&'static Signature> {
        signature(name).filter(|_| self.has_patches || name != ESCAPE_KEY)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|(known, _)| *known == name).map(|(_, variable)| variable)
    }

    pub(crate) fn can_construct(&self, name: &str) -> bool {
        let fits = |known: &str| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.constructed.iter().any(|known| fits(known))
    }

    /// The overloads of a function that the caller added.
    pub(crate) fn added<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Added> {
        self.functions.iter().filter(move |(known, _)| *known == name).map(|(_, added)| added)
    }

    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.signature(name).is_some() || self.added(name).next().is_some()
    }

    /// The path of an object in one of the variables, for messages.
    pub(crate) fn path_to(&self, object: &Declaration) -> Option<String> {
        self.variables.iter().find_map(|(_, variable)| variable.declaration.path_to(object))
    }
}
