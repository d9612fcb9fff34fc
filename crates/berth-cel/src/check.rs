//! The check of types. It finds what each name and each call means, and reports what does not fit in upstream's words.
//!
//! Source: cel-go `checker/checker.go`, cel-spec `doc/langdef.md`, "Gradual Type Checking".

mod aggregates;
mod literals;
mod unify;

use crate::{
    Environment, Type,
    declaration::Declaration,
    error::Fault,
    functions::Function,
    signatures::Overload,
    stack::with_stack,
    syntax::{Call, Comprehension, Element, Entry, Expr, Kind, Literal, OptionalMap, Parsed, SortBy, StructField, Visit},
};
use std::collections::BTreeSet;
use unify::{Known, most_general};

/// How many parts a type has at most. The types of nested macros can double with each level.
const TYPE_PARTS_MAX: usize = 1_000;

/// An expression whose types are checked.
pub(crate) struct Checked {
    pub(crate) root: Expr,
    /// The type of each part, by its number.
    pub(crate) types: Vec<Type>,
    /// The overloads that each call can have.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// The variables that it reads.
    pub(crate) variables: BTreeSet<String>,
}

/// Checks an expression.
pub(crate) fn check(parsed: Parsed, environment: &Environment) -> Result<Checked, Vec<Fault>> {
    let Parsed { mut root, positions } = parsed;
    let count = positions.len();
    let mut checker = Checker {
        environment,
        positions,
        types: vec![Type::Error; count],
        overloads: vec![Vec::new(); count],
        known: Known::default(),
        locals: Vec::new(),
        variables: BTreeSet::new(),
        faults: Vec::new(),
    };
    checker.check(&mut root);
    if !checker.faults.is_empty() {
        return Err(checker.faults);
    }
    checker.types = checker.types.iter().map(|found| checker.known.resolve(found, true)).collect();
    checker.check_aggregates(&root, false);
    if !checker.faults.is_empty() {
        return Err(checker.faults);
    }
    Ok(Checked { root, types: checker.types, overloads: checker.overloads, variables: checker.variables })
}

struct Checker<'a> {
    environment: &'a Environment,
    positions: Vec<usize>,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    known: Known,
    /// The variables of the macros around the part that is being checked.
    locals: Vec<(Box<str>, Type)>,
    variables: BTreeSet<String>,
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn fault(&mut self, expr: &Expr, text: String) -> Type {
        self.fault_at(self.positions[expr.id as usize], text)
    }

    fn fault_at(&mut self, at: usize, text: String) -> Type {
        self.faults.push(Fault { at, text });
        Type::Error
    }

    fn resolved(&self, of: &Type) -> Type {
        self.known.resolve(of, false)
    }

    /// A type as messages show it.
    fn shown(&self, of: &Type) -> String {
        match of {
            Type::Object(declaration) => self.object_name(declaration),
            Type::List(elements) => format!("list({})", self.shown(elements)),
            Type::Map(both) => format!("map({}, {})", self.shown(&both.0), self.shown(&both.1)),
            Type::Optional(inner) => format!("optional_type({})", self.shown(inner)),
            Type::Type(inner) => format!("type({})", self.shown(inner)),
            other => other.to_string(),
        }
    }

    /// Upstream's name has a number that differs each time.
    fn object_name(&self, declaration: &Declaration) -> String {
        format!("selfType{}", self.environment.path_to(declaration).unwrap_or_default())
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) -> Type {
        self.fault(expr, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, expr: &Expr, wanted: &Type, found: &Type) -> Type {
        let text = format!("expected type '{}' but found '{}'", self.shown(wanted), self.shown(found));
        self.fault(expr, text)
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let found = with_stack(|| self.kind(expr));
        let found = self.resolved(&found);
        let found = if is_too_large(&found) { self.fault(expr, "the type of the expression is too large".to_owned()) } else { found };
        self.types[expr.id as usize] = found.clone();
        found
    }

    fn kind(&mut self, expr: &mut Expr) -> Type {
        if let Some(found) = self.name(expr) {
            return found;
        }
        // The parts are taken out, so that messages can name the whole.
        let mut kind = std::mem::replace(&mut expr.kind, Kind::Literal(Literal::Null));
        let found = self.parts(expr, &mut kind);
        if matches!(expr.kind, Kind::Literal(Literal::Null)) {
            expr.kind = kind;
        }
        found
    }

    fn parts(&mut self, expr: &Expr, kind: &mut Kind) -> Type {
        match kind {
            Kind::Literal(literal) => literals::type_of(literal),
            Kind::Identifier(_) | Kind::Variable(_) | Kind::Local(_) | Kind::TypeName(_) => Type::Error,
            Kind::Select { operand, field } => self.field(expr, operand, field, false),
            Kind::OptionalSelect { operand, field } => self.field(expr, operand, field, true),
            Kind::Has { operand, field } => {
                self.field(expr, operand, field, false);
                Type::Bool
            }
            Kind::Call(call) => self.call(expr, call),
            Kind::And(both) | Kind::Or(both) => {
                self.condition(&mut both.0);
                self.condition(&mut both.1);
                Type::Bool
            }
            Kind::Conditional(parts) => {
                let types = [self.check(&mut parts.0), self.check(&mut parts.1), self.check(&mut parts.2)];
                self.resolve(expr, "_?_:_", false, &types).0
            }
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.constructed(expr, name, fields),
            Kind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
            Kind::OptionalMap(map) => self.optional_map(expr, map),
            Kind::SortBy(sort) => self.sort_by(expr, sort),
        }
    }

    /// What a name means: a variable of a macro, a variable, or a type.
    fn name(&mut self, expr: &mut Expr) -> Option<Type> {
        let name = match &expr.kind {
            Kind::Identifier(name) => name.to_string(),
            Kind::Select { .. } => crate::syntax::qualified_name(expr)?,
            _ => return None,
        };
        if let Some(at) = self.locals.iter().rposition(|(known, _)| **known == *name) {
            expr.kind = Kind::Local(at);
            return Some(self.locals[at].1.clone());
        }
        if let Some(variable) = self.environment.find(&name) {
            let plain = Type::of(&variable.declaration);
            expr.kind = Kind::Variable(name.as_str().into());
            self.variables.insert(name);
            return Some(if variable.is_optional { Type::optional(plain) } else { plain });
        }
        let is_hidden = name.split_once('.').is_some_and(|(first, _)| self.locals.iter().any(|(known, _)| **known == *first));
        if let Some((known, of)) = literals::named(&name).filter(|_| !is_hidden) {
            expr.kind = Kind::TypeName(known);
            return Some(Type::Type(Box::new(of)));
        }
        matches!(expr.kind, Kind::Identifier(_)).then(|| self.undeclared(expr, &name))
    }

    fn condition(&mut self, expr: &mut Expr) {
        let found = self.check(expr);
        if !self.known.assign(&found, &Type::Bool) {
            self.mismatch(expr, &Type::Bool, &found);
        }
    }

    /// A field of an operand.
    fn field(&mut self, expr: &Expr, operand: &mut Expr, field: &str, is_optional: bool) -> Type {
        let found = self.check(operand);
        let (target, was_optional) = match found {
            Type::Optional(inner) => (self.resolved(&inner), true),
            other => (other, false),
        };
        let result = match &target {
            Type::Map(both) => both.1.clone(),
            Type::Object(declaration) => match declaration.readable_field(field) {
                Some(field) => Type::of(&field.declaration),
                None => self.fault(expr, format!("undefined field '{field}'")),
            },
            Type::Opaque(_) => self.fault(expr, format!("undefined field '{field}'")),
            Type::Variable(_) => {
                self.known.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error | Type::Constructed(_) => Type::Dyn,
            other => {
                let text = format!("type '{}' does not support field selection", self.shown(other));
                self.fault(expr, text);
                Type::Dyn
            }
        };
        if is_optional || was_optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, expr: &Expr, call: &mut Call) -> Type {
        let mut types: Vec<Type> = call.arguments.iter_mut().map(|argument| self.check(argument)).collect();
        if let Some(target) = &mut call.target {
            // `a.b.c()` is the function `a.b.c` if there is one.
            let qualified = crate::syntax::qualified_name(target).map(|prefix| format!("{prefix}.{}", call.name));
            match qualified.filter(|name| self.environment.has_function(name)) {
                Some(name) => {
                    call.name = name.into();
                    call.target = None;
                }
                None => types.insert(0, self.check(target)),
            }
        }
        if !self.environment.has_function(&call.name) {
            return self.undeclared(expr, &call.name);
        }
        let (result, function) = self.resolve(expr, &call.name, call.target.is_some(), &types);
        call.function = function;
        if let Some((argument, text)) = literals::check(call) {
            self.fault_at(self.positions[argument as usize], text);
        }
        result
    }

    /// The overloads of a function that fit the arguments, and what it then returns.
    fn resolve(&mut self, expr: &Expr, name: &str, is_member: bool, types: &[Type]) -> (Type, Option<Function>) {
        let mut result: Option<Type> = None;
        let mut function = None;
        let built = self.environment.signature(name);
        for overload in built.into_iter().flat_map(|signature| &signature.overloads) {
            if let Some(found) = self.fits(overload, is_member, types) {
                self.overloads[expr.id as usize].push(overload.id);
                function = built.map(|signature| Function::Built(signature.body));
                result = Some(joined(result, found));
            }
        }
        for added in self.environment.added(name) {
            if let Some(found) = self.fits(&added.overload, is_member, types) {
                self.overloads[expr.id as usize].push(added.overload.id);
                function = Some(Function::Added(added.evaluate.clone()));
                result = Some(joined(result, found));
            }
        }
        if let Some(result) = result {
            return (result, function);
        }
        let mut shown: Vec<String> = types.iter().map(|found| self.shown(&self.known.resolve(found, true))).collect();
        let target = if is_member { format!("{}.", shown.remove(0)) } else { String::new() };
        let text = format!("found no matching overload for '{name}' applied to '{target}({})'", shown.join(", "));
        (self.fault(expr, text), None)
    }

    /// What an overload returns for these arguments. `None`: it does not take them.
    fn fits(&mut self, overload: &Overload, is_member: bool, types: &[Type]) -> Option<Type> {
        if overload.is_member != is_member || overload.parameters.len() != types.len() {
            return None;
        }
        let fresh = [self.known.fresh(), self.known.fresh()];
        let parameters: Vec<Type> = overload.parameters.iter().map(|parameter| instantiated(parameter, &fresh)).collect();
        let result = instantiated(&overload.result, &fresh);
        self.known.assign_all(types, &parameters).then(|| self.resolved(&result))
    }

    /// The type of several values that are in one list or map.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.known.assign(&previous, &current) {
            return most_general(&previous, &current).clone();
        }
        // Values of different types are reported only if nothing else is wrong.
        Type::Dyn
    }

    /// The type of a value that can be left out.
    fn unwrapped(&mut self, expr: &Expr, found: Type, is_optional: bool) -> Type {
        match found {
            Type::Optional(inner) if is_optional => *inner,
            Type::Dyn => Type::Dyn,
            other if is_optional => {
                self.mismatch(expr, &Type::optional(other.clone()), &other);
                other
            }
            other => other,
        }
    }

    fn list(&mut self, elements: &mut [Element]) -> Type {
        let mut joined = None;
        for element in elements {
            let found = self.check(&mut element.value);
            let found = self.unwrapped(&element.value, found, element.is_optional);
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.known.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let found = self.check(&mut entry.key);
            keys = Some(self.join(keys, found));
            let found = self.check(&mut entry.value);
            let found = self.unwrapped(&entry.value, found, entry.is_optional);
            values = Some(self.join(values, found));
        }
        Type::map(keys.unwrap_or_else(|| self.known.fresh()), values.unwrap_or_else(|| self.known.fresh()))
    }

    fn constructed(&mut self, expr: &Expr, name: &str, fields: &mut [StructField]) -> Type {
        for field in fields {
            let found = self.check(&mut field.value);
            let found = self.unwrapped(&field.value, found, field.is_optional);
            if let Some(wanted) = self.environment.unfit_field(name, &field.name, &found) {
                let shown = self.shown(&found);
                self.fault_at(field.at, format!("expected type of field '{}' is '{wanted}' but provided type is '{shown}'", field.name));
            }
        }
        if self.environment.can_construct(name) { Type::Constructed(name.to_owned()) } else { self.undeclared(expr, name) }
    }

    fn comprehension(&mut self, expr: &Expr, comprehension: &mut Comprehension) -> Type {
        let range = self.check(&mut comprehension.range);
        let has_two = comprehension.second.is_some();
        let (first, second) = match &range {
            Type::List(elements) if has_two => (Type::Int, (**elements).clone()),
            Type::List(elements) => ((**elements).clone(), Type::Dyn),
            Type::Map(both) => (both.0.clone(), both.1.clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.known.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let shown = self.shown(other);
                let text = format!("expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)");
                self.fault(&comprehension.range, text);
                (Type::Error, Type::Error)
            }
        };
        let scope = self.locals.len();
        self.locals.push((comprehension.variable.clone(), first.clone()));
        self.locals.extend(comprehension.second.clone().map(|name| (name, second)));
        let result = self.visited(expr, comprehension, first);
        self.locals.truncate(scope);
        result
    }

    fn visited(&mut self, expr: &Expr, comprehension: &mut Comprehension, first: Type) -> Type {
        let Comprehension { visit, filter, body, .. } = comprehension;
        let (filter, body) = (filter.as_mut(), body.as_mut());
        if matches!(visit, Visit::All | Visit::Exists) {
            body.into_iter().for_each(|body| self.condition(body));
            return Type::Bool;
        }
        let condition = filter.map(|filter| self.check(filter));
        let value = body.map(|body| self.check(body));
        let result = match visit {
            Visit::All | Visit::Exists | Visit::ExistsOne => Type::Int,
            Visit::Filter => Type::list(first),
            Visit::List => Type::list(value.unwrap_or(Type::Error)),
            Visit::Map => Type::map(first, value.unwrap_or(Type::Error)),
            Visit::MapEntry => {
                let entries = Type::map(self.known.fresh(), self.known.fresh());
                self.resolve(expr, "cel.@mapInsert", false, &[entries, value.unwrap_or(Type::Error)]).0
            }
        };
        self.overloads[expr.id as usize].clear();
        if let Some(condition) = condition {
            self.resolve(expr, "_?_:_", false, &[condition, result.clone(), result.clone()]);
        }
        if *visit == Visit::ExistsOne { Type::Bool } else { result }
    }

    fn optional_map(&mut self, expr: &Expr, map: &mut OptionalMap) -> Type {
        let target = self.check(&mut map.target);
        let value = self.resolve(expr, "value", true, std::slice::from_ref(&target)).0;
        self.locals.push((map.variable.clone(), value));
        let body = self.check(&mut map.body);
        self.locals.pop();
        self.overloads[expr.id as usize].clear();
        if !map.is_flat {
            return Type::optional(body);
        }
        let none = Type::optional(self.known.fresh());
        self.resolve(expr, "_?_:_", false, &[Type::Bool, body, none]).0
    }

    fn sort_by(&mut self, expr: &Expr, sort: &mut SortBy) -> Type {
        let target = self.check(&mut sort.target);
        if let Kind::Comprehension(keys) = &sort.keys.kind
            && let Kind::Identifier(name) = &keys.range.kind
        {
            self.locals.push((name.clone(), target.clone()));
        }
        let keys = self.check(&mut sort.keys);
        self.locals.pop();
        self.resolve(expr, "@sortByAssociatedKeys", true, &[target, keys]).0
    }
}

/// The type of a call of which several overloads fit.
fn joined(before: Option<Type>, found: Type) -> Type {
    match before {
        None => found,
        Some(before) if before == found => before,
        Some(_) => Type::Dyn,
    }
}

/// A type of a signature with new unknown types.
fn instantiated(of: &Type, fresh: &[Type; 2]) -> Type {
    let inner = |of: &Type| instantiated(of, fresh);
    match of {
        Type::Variable(number) => fresh.get(*number as usize).cloned().unwrap_or(Type::Dyn),
        Type::List(elements) => Type::list(inner(elements)),
        Type::Map(both) => Type::map(inner(&both.0), inner(&both.1)),
        Type::Optional(value) => Type::optional(inner(value)),
        Type::Type(value) => Type::Type(Box::new(inner(value))),
        other => other.clone(),
    }
}

fn is_too_large(of: &Type) -> bool {
    let mut left = vec![of];
    let mut count = 0;
    while let Some(next) = left.pop() {
        count += 1;
        if TYPE_PARTS_MAX < count {
            return true;
        }
        left.extend(next.parameters());
    }
    false
}
