//! The expressions of admission: what the rules and conditions of policies and webhooks can read, and what is wrong with
//! one.
//!
//! Validation compiles an expression to reject it, and admission compiles it to evaluate it. Both use
//! [`Expressions::environment`].
//!
//! Source: kubernetes `apiserver/pkg/admission/plugin/cel/compile.go` and `composition.go`, version 1.36.

use berth_cel::{CompileError, Declaration, Environment, Field, ListKind, Program, REQUEST_BYTES_MAX, Type};

/// The variable `authorizer.requestResource`.
pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// What expressions can read and construct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expressions {
    /// Whether there are parameters.
    pub params: bool,
    /// Whether the expression can ask the authorizer. A message cannot.
    pub authorizer: bool,
    /// Whether the expression constructs a change.
    pub patches: bool,
}

impl Expressions {
    /// Returns what an expression can use: `object`, `oldObject`, `request`, `namespaceObject`, and what `self` adds.
    #[must_use]
    pub fn environment(self) -> Environment {
        let mut environment = Environment::new()
            .variable("object", Declaration::dynamic())
            .variable("oldObject", Declaration::dynamic())
            .variable("request", request())
            .variable("namespaceObject", namespace());
        if self.params {
            environment = environment.variable("params", Declaration::dynamic());
        }
        if self.authorizer {
            environment =
                environment.variable("authorizer", Declaration::authorizer()).variable(REQUEST_RESOURCE, Declaration::resource_check());
        }
        if self.patches {
            environment = environment.constructed("Object").patches();
        }
        environment
    }
}

/// The named expressions of a policy, in their order. Each one can read those before it, as `variables.NAME`.
#[derive(Clone, Debug, Default)]
pub struct NamedVariables(Option<Vec<(String, Declaration)>>);

impl NamedVariables {
    /// Returns those of a policy with variables. Without any, `variables` does not exist.
    #[must_use]
    pub fn of_policy(has_any: bool) -> Self {
        Self(has_any.then(Vec::new))
    }

    /// Adds a variable of this type. A later one of the same name replaces it.
    pub fn add(&mut self, name: &str, output: &Type) {
        let known = self.0.get_or_insert_default();
        known.retain(|(other, _)| other != name);
        known.push((name.to_owned(), declaration_of(output)));
    }

    /// Returns the environment with the variables so far.
    #[must_use]
    pub fn extend(&self, environment: Environment) -> Environment {
        match &self.0 {
            None => environment,
            Some(known) => {
                let fields = known.iter().map(|(name, declaration)| Field::new(name, declaration.clone(), true));
                environment.variable("variables", Declaration::object(fields))
            }
        }
    }
}

/// The results that an expression can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Any.
    Anything,
    /// A boolean.
    Bool,
    /// A text.
    Text,
    /// A text or null.
    TextOrNull,
    /// An apply configuration: `Object{…}`.
    Object,
    /// A list of `JSONPatch{…}`.
    Patches,
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It does not compile.
    #[error(transparent)]
    Compile(CompileError),
    /// Its result has another type.
    #[error("must evaluate to {wanted} but got {found}")]
    Type {
        /// The required type.
        wanted: &'static str,
        /// Its type.
        found: String,
    },
}

impl Wanted {
    /// Compiles an expression with this result.
    ///
    /// # Errors
    /// What is wrong with it, in upstream's words.
    pub fn compile(self, expression: &str, environment: &Environment) -> Result<Program, ExpressionError> {
        let program = Program::compile(expression, environment).map_err(ExpressionError::Compile)?;
        let output = program.output();
        let (wanted, fits) = match self {
            Self::Anything => return Ok(program),
            Self::Bool => ("bool", *output == Type::Bool),
            Self::Text => ("string", *output == Type::String),
            Self::TextOrNull => ("one of [string null_type]", matches!(output, Type::String | Type::Null)),
            Self::Object => ("Object", *output == constructed("Object")),
            Self::Patches => ("list(JSONPatch)", *output == Type::List(Box::new(constructed("JSONPatch")))),
        };
        if fits { Ok(program) } else { Err(ExpressionError::Type { wanted, found: output.to_string() }) }
    }
}

fn constructed(name: &str) -> Type {
    Type::Constructed(name.to_owned())
}

fn text() -> Declaration {
    Declaration::string(REQUEST_BYTES_MAX)
}

fn texts() -> Declaration {
    Declaration::list(text(), ListKind::Atomic, None)
}

fn object(fields: &[(&str, Declaration)]) -> Declaration {
    Declaration::object(fields.iter().map(|(name, declaration)| Field::new(name, declaration.clone(), true)))
}

/// Source: upstream `BuildRequestType`.
fn request() -> Declaration {
    let kind = object(&[("group", text()), ("version", text()), ("kind", text())]);
    let resource = object(&[("group", text()), ("version", text()), ("resource", text())]);
    let user = object(&[("username", text()), ("uid", text()), ("groups", texts()), ("extra", Declaration::map(texts(), None))]);
    object(&[
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("subResource", text()),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", Declaration::bool()),
        ("options", Declaration::dynamic()),
    ])
}

/// Source: upstream `BuildNamespaceType`.
fn namespace() -> Declaration {
    let of_texts = || Declaration::map(text(), None);
    let metadata = object(&[
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", of_texts()),
        ("annotations", of_texts()),
        ("UID", text()),
        ("creationTimestamp", Declaration::timestamp()),
        ("deletionGracePeriodSeconds", Declaration::int()),
        ("deletionTimestamp", Declaration::timestamp()),
        ("generation", Declaration::int()),
        ("resourceVersion", text()),
        ("finalizers", texts()),
    ]);
    let (spec, status) = (object(&[("finalizers", texts())]), object(&[("phase", text())]));
    object(&[("metadata", metadata), ("spec", spec), ("status", status)]).nullable()
}

/// Returns the declaration of data of a type.
fn declaration_of(output: &Type) -> Declaration {
    match output {
        Type::Bool => Declaration::bool(),
        Type::Int => Declaration::int(),
        Type::Uint => Declaration::uint(),
        Type::Double => Declaration::double(),
        Type::String => text(),
        Type::Bytes => Declaration::bytes(REQUEST_BYTES_MAX),
        Type::Timestamp => Declaration::timestamp(),
        Type::Duration => Declaration::duration(),
        Type::List(elements) => Declaration::list(declaration_of(elements), ListKind::Atomic, None),
        Type::Map(parts) if parts.0 == Type::String => Declaration::map(declaration_of(&parts.1), None),
        Type::Object(declaration) => declaration.clone(),
        Type::Opaque(name) => Declaration::opaque(name),
        // What no data has is checked during evaluation.
        _ => Declaration::dynamic(),
    }
}
