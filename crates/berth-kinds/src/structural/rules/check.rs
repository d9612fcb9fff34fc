//! What is wrong with the rules of a schema, and what they cost.

use super::{
    VALIDATIONS,
    compile::{Environments, message, program},
    declare::{declaration, size},
    has_own,
    written::{Written, rules_of},
};
use crate::{Additional, FAULTS_MAX, ListType, Structural, Type};
use berth_api::{FieldError, Path};
use berth_cel::{CompileError, Declaration, REQUEST_BYTES_MAX};

/// What one expression may cost in all objects of a request.
const RULE_COST_MAX: u64 = 10_000_000;
/// What all expressions of a schema may cost.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// How many of the most expensive expressions are named.
const NAMED_MAX: usize = 4;

/// Compiles all rules of a schema. Returns what is wrong with them.
pub(super) fn check(schema: &Structural, path: &Path) -> Vec<FieldError> {
    let mut checker = Checker::default();
    let root = Context { count: Some(1), is_object: true, ..Context::default() };
    checker.part(schema, path, &root);
    checker.judge_total(path);
    checker.faults
}

/// Where in a schema a part is.
#[derive(Clone, Default)]
struct Context {
    /// The data of the part, if a rule around it declared it.
    declaration: Option<Declaration>,
    /// How many values the part has at most in an object. `None`: there is no bound.
    count: Option<u64>,
    is_object: bool,
    /// The part around it in which no old value belongs to a new one.
    uncorrelated: Option<Path>,
}

#[derive(Default)]
struct Checker {
    faults: Vec<FieldError>,
    total: u64,
    /// The paths and the costs of the most expensive expressions.
    expensive: Vec<(Path, u64)>,
}

impl Checker {
    fn part(&mut self, schema: &Structural, path: &Path, context: &Context) {
        if FAULTS_MAX <= self.faults.len() {
            return;
        }
        let mut context = context.clone();
        let is_ruled = has_own(schema);
        if is_ruled && context.declaration.is_none() {
            context.declaration = declaration(schema, context.is_object);
        }
        self.parts(schema, path, &context);
        if is_ruled {
            self.own(schema, path, &context);
        }
    }

    fn parts(&mut self, schema: &Structural, path: &Path, context: &Context) {
        let bound = |max: Option<u64>| context.count.zip(max).map(|(count, max)| count.saturating_mul(max));
        let is_map = schema.additional != Additional::Unset;
        let count = if is_map && schema.kind == Some(Type::Object) { bound(size(schema.values().max_properties)) } else { context.count };
        if let Additional::Of(values) = &schema.additional
            && values.inside.rules
        {
            let elements = context.declaration.as_ref().and_then(Declaration::elements).cloned();
            let inside = context.inside(elements, count, values);
            self.part(values, &path.child("additionalProperties"), &inside);
        }
        for (name, property) in schema.properties.iter().filter(|(_, property)| property.inside.rules) {
            let field = context.declaration.as_ref().and_then(|declaration| declaration.field(name)).cloned();
            let inside = context.inside(field, count, property);
            self.part(property, &path.child("properties").key(name), &inside);
        }
        let of_items = bound(size(schema.values().max_items));
        let is_correlated = matches!(schema.list_type, Some(ListType::Map(_)));
        if let Some(items) = schema.items.as_ref().filter(|items| items.inside.rules) {
            let elements = context.declaration.as_ref().and_then(Declaration::elements).cloned();
            let mut inside = context.inside(elements, of_items, items);
            if !is_correlated {
                inside.uncorrelated = Some(path.clone());
            }
            self.part(items, &path.child("items"), &inside);
        }
    }

    /// The rules of one part.
    fn own(&mut self, schema: &Structural, path: &Path, context: &Context) {
        let all = path.child(VALIDATIONS);
        let written = rules_of(schema);
        let Some(declaration) = context.declaration.as_ref().filter(|_| !written.is_empty()) else {
            if !written.is_empty() {
                let why = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                           unable to convert structural schema to CEL declarations";
                self.faults.push(FieldError::internal(&all, why));
            }
            return;
        };
        let environments = Environments::of(declaration);
        let count = context.count.unwrap_or(REQUEST_BYTES_MAX / (declaration.bytes_min() + 1));
        for (index, written) in written.iter().enumerate() {
            self.rule(written, &environments, &all.index(index), count, context);
        }
    }

    fn rule(&mut self, written: &Written, environments: &Environments, at: &Path, count: u64, context: &Context) {
        let of_rule = at.child("rule");
        let program = match program(written, environments) {
            Ok(program) => program,
            Err(why) => return self.faults.push(FieldError::invalid(&of_rule, written.shown(), why.to_string())),
        };
        self.cost(&of_rule, "estimated rule cost", program.estimated_cost().saturating_mul(count));
        self.message(written, environments, at);
        if !program.reads("oldSelf") {
            if let Some(optional) = written.optional_old_self {
                let why = "may not be set if oldSelf is not used in rule";
                self.faults.push(FieldError::invalid(&at.child("optionalOldSelf"), optional, why));
            }
        } else if let Some(uncorrelated) = &context.uncorrelated {
            let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}");
            self.faults.push(FieldError::invalid(&of_rule, written.rule.as_str(), why));
        }
    }

    fn message(&mut self, written: &Written, environments: &Environments, at: &Path) {
        let of_message = at.child("messageExpression");
        match message(written, environments) {
            None => (),
            Some(Ok(program)) => self.cost(&of_message, "estimated messageExpression cost", program.estimated_cost()),
            Some(Err(why)) => {
                let why = match why {
                    CompileError::Source(why) => format!("messageExpression compilation failed: {why}"),
                    CompileError::Program(why) => format!("messageExpression instantiation failed: {why}"),
                    CompileError::Type(why) => why,
                };
                self.faults.push(FieldError::invalid(&of_message, written.shown(), why));
            }
        }
    }

    fn cost(&mut self, at: &Path, name: &str, cost: u64) {
        if RULE_COST_MAX < cost {
            self.faults.push(FieldError::forbidden(at, over_budget(name, cost, RULE_COST_MAX)));
        }
        self.total = self.total.saturating_add(cost);
        if SCHEMA_COST_MAX / 100 <= cost {
            self.expensive.push((at.clone(), cost));
            self.expensive.sort_by(|(_, one), (_, other)| other.cmp(one));
            self.expensive.truncate(NAMED_MAX);
        }
    }

    fn judge_total(&mut self, path: &Path) {
        if self.total <= SCHEMA_COST_MAX {
            return;
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        self.faults.extend(self.expensive.iter().map(|(at, _)| FieldError::forbidden(at, why)));
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.faults.push(FieldError::forbidden(path, over_budget(name, self.total, SCHEMA_COST_MAX)));
    }
}

impl Context {
    /// That of a part of the part.
    fn inside(&self, declaration: Option<Declaration>, count: Option<u64>, schema: &Structural) -> Self {
        Self { declaration, count, is_object: schema.embedded_resource, uncorrelated: self.uncorrelated.clone() }
    }
}

fn over_budget(name: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
    let factor = if 100.0 < factor {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
