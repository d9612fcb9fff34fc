//! The evaluation of an expression.
//!
//! Source: cel-go `interpreter`; the costs are those of its `runtimecost.go`.

use crate::{
    Budget, EvaluationError, Map, Value, Variables,
    functions::{Body, Function, no_overload, patterns, sorted_by},
    stack::with_stack,
    syntax::{Call, Comprehension, Element, Entry, Expr, Kind, Literal, OptionalMap, SortBy, StructField, Visit},
    value::{Key, Text},
};
use regex::Regex;
use std::{
    collections::{BTreeMap, btree_map},
    rc::Rc,
};

/// What a new list, map or object costs.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;
/// How many patterns that an expression computes are kept.
const PATTERNS_MAX: usize = 64;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Evaluates an expression inside the running call of the budget.
pub(crate) fn evaluate<'a>(root: &'a Expr, variables: &dyn Variables<'a>, budget: &mut Budget) -> Outcome<'a> {
    Evaluation { variables, budget, locals: Vec::new(), patterns: BTreeMap::new() }.value(root)
}

struct Evaluation<'b, 'a> {
    variables: &'b dyn Variables<'a>,
    budget: &'b mut Budget,
    /// The variables of the macros around the part that is evaluated.
    locals: Vec<Value<'a>>,
    /// Patterns that the expression computes.
    patterns: BTreeMap<String, Rc<Regex>>,
}

impl<'a> Evaluation<'_, 'a> {
    fn value(&mut self, expr: &'a Expr) -> Outcome<'a> {
        with_stack(|| self.kind(&expr.kind))
    }

    fn kind(&mut self, kind: &'a Kind) -> Outcome<'a> {
        match kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::TypeName(name) => Ok(Value::Type(Rc::from(*name))),
            Kind::Local(at) => {
                self.budget.spend(1)?;
                self.locals.get(*at).cloned().ok_or_else(no_overload)
            }
            Kind::Variable(name) | Kind::Identifier(name) => {
                self.budget.spend(1)?;
                let missing = || EvaluationError::failed(format!("no such attribute(s): {name}"));
                self.variables.variable(name, self.budget).ok_or_else(missing)?
            }
            Kind::Select { operand, field } => self.select(operand, field),
            Kind::Has { operand, field } => {
                let operand = self.value(operand)?;
                Ok(self.member(&operand, field)?.is_some().into())
            }
            Kind::OptionalSelect { operand, field } => {
                let operand = self.value(operand)?;
                self.budget.spend(1)?;
                Ok(Value::Optional(self.member(&operand, field)?.map(Rc::new)))
            }
            Kind::Call(call) => self.call(call),
            Kind::And(both) => self.logical(both, false),
            Kind::Or(both) => self.logical(both, true),
            Kind::Conditional(parts) => match self.value(&parts.0)? {
                Value::Bool(true) => self.value(&parts.1),
                Value::Bool(false) => self.value(&parts.2),
                _ => Err(no_overload()),
            },
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.constructed(name, fields),
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::OptionalMap(map) => self.optional_map(map),
            Kind::SortBy(sort) => self.sort_by(sort),
        }
    }

    /// A member. `None`: it, or an optional that should have it, is missing.
    fn member(&mut self, operand: &Value<'a>, field: &str) -> Result<Option<Value<'a>>, EvaluationError> {
        match operand {
            Value::Optional(None) => Ok(None),
            Value::Optional(Some(operand)) => operand.member(field, self.budget),
            operand => operand.member(field, self.budget),
        }
    }

    fn select(&mut self, operand: &'a Expr, field: &'a str) -> Outcome<'a> {
        let operand = self.value(operand)?;
        self.budget.spend(1)?;
        let found = self.member(&operand, field)?;
        if matches!(operand, Value::Optional(_)) {
            return Ok(Value::Optional(found.map(Rc::new)));
        }
        found.ok_or_else(|| EvaluationError::failed(format!("no such key: {field}")))
    }

    /// `&&` and `||`: one side can decide although the other has an error.
    fn logical(&mut self, both: &'a (Expr, Expr), decides: bool) -> Outcome<'a> {
        let first = self.condition(&both.0);
        match first {
            Ok(value) if value == decides => return Ok(Value::Bool(decides)),
            Err(error) if error.is_final() => return Err(error),
            _ => (),
        }
        match self.condition(&both.1) {
            Ok(value) if value == decides => Ok(Value::Bool(decides)),
            Err(error) if error.is_final() => Err(error),
            Ok(value) => first.map(|_| Value::Bool(value)),
            Err(error) => Err(first.err().unwrap_or(error)),
        }
    }

    fn condition(&mut self, expr: &'a Expr) -> Result<bool, EvaluationError> {
        match self.value(expr)? {
            Value::Bool(value) => Ok(value),
            _ => Err(no_overload()),
        }
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        let Some(function) = &call.function else { return Err(no_overload()) };
        if let Function::Built(Body::Or | Body::OrValue) = function {
            return self.or_else(call, function);
        }
        let mut values = Vec::with_capacity(call.arguments.len() + 1);
        for part in call.target.iter().chain(&call.arguments) {
            values.push(self.value(part)?);
        }
        let result = self.apply(call, function, &values);
        // Upstream names functions, and no operators.
        match result {
            Err(EvaluationError::NoOverload(name))
                if name.is_empty() && call.name.starts_with(|first: char| first.is_ascii_alphabetic()) =>
            {
                Err(EvaluationError::NoOverload(format!(": {}", call.name)))
            }
            result => result,
        }
    }

    fn apply(&mut self, call: &'a Call, function: &Function, values: &[Value<'a>]) -> Outcome<'a> {
        match function {
            Function::Built(Body::Plain(function)) => function(values, self.budget),
            Function::Built(Body::Pattern(function)) => match (&call.pattern, values.get(1)) {
                (Some(pattern), _) => function(values, pattern, self.budget),
                (None, Some(Value::String(text))) => {
                    let pattern = self.pattern(text)?;
                    function(values, &pattern, self.budget)
                }
                _ => Err(no_overload()),
            },
            Function::Built(Body::Or | Body::OrValue) => Err(no_overload()),
            Function::Added(function) => function(values, self.budget),
        }
    }

    /// A pattern that the expression computes.
    fn pattern(&mut self, text: &str) -> Result<Rc<Regex>, EvaluationError> {
        if let Some(known) = self.patterns.get(text) {
            return Ok(known.clone());
        }
        self.budget.spend(patterns::COMPILE_COST + text.len() as u64)?;
        let pattern = Rc::new(patterns::compile(text)?);
        if PATTERNS_MAX <= self.patterns.len() {
            self.patterns.clear();
        }
        self.patterns.insert(text.to_owned(), pattern.clone());
        Ok(pattern)
    }

    /// `or` and `orValue`: the argument is evaluated only if the target is missing.
    fn or_else(&mut self, call: &'a Call, function: &Function) -> Outcome<'a> {
        let (Some(target), [other]) = (&call.target, &call.arguments[..]) else { return Err(no_overload()) };
        let target = self.value(target)?;
        self.budget.spend(1)?;
        match target {
            Value::Optional(None) => self.value(other),
            Value::Optional(Some(value)) if matches!(function, Function::Built(Body::OrValue)) => Ok((*value).clone()),
            target @ Value::Optional(_) => Ok(target),
            _ => Err(no_overload()),
        }
    }

    /// A value that can be left out. `None`: it is.
    fn optional(&mut self, expr: &'a Expr, is_optional: bool) -> Result<Option<Value<'a>>, EvaluationError> {
        match self.value(expr)? {
            Value::Optional(value) if is_optional => Ok(value.map(|value| (*value).clone())),
            _ if is_optional => Err(no_overload()),
            value => Ok(Some(value)),
        }
    }

    fn list(&mut self, elements: &'a [Element]) -> Outcome<'a> {
        self.budget.spend(LIST_COST)?;
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            values.extend(self.optional(&element.value, element.is_optional)?);
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Outcome<'a> {
        self.budget.spend(MAP_COST)?;
        let mut members = BTreeMap::new();
        for entry in entries {
            let key = self.value(&entry.key)?;
            if let Some(value) = self.optional(&entry.value, entry.is_optional)? {
                let key = Key::of(&key).ok_or_else(|| EvaluationError::failed("unsupported key type"))?;
                members.insert(key, value);
            }
        }
        Ok(Value::Map(Map::built(members)))
    }

    fn constructed(&mut self, name: &'a str, fields: &'a [StructField]) -> Outcome<'a> {
        self.budget.spend(STRUCT_COST)?;
        let mut members = BTreeMap::new();
        for field in fields {
            if let Some(value) = self.optional(&field.value, field.is_optional)? {
                members.insert(Key::String(Text::Borrowed(&field.name)), value);
            }
        }
        Ok(Value::Map(Map::constructed(name, members)))
    }

    /// The values that the variables of a macro have, one after the other.
    fn range(&mut self, comprehension: &'a Comprehension) -> Result<Range<'a>, EvaluationError> {
        match self.value(&comprehension.range)? {
            Value::List(list) => Ok(Range::List(list)),
            Value::Map(map) if comprehension.second.is_some() => Ok(Range::Entries(map.entries(self.budget)?)),
            Value::Map(map) => Ok(Range::Keys(map.keys())),
            _ => Err(no_overload()),
        }
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Outcome<'a> {
        let range = self.range(comprehension)?;
        let scope = self.locals.len();
        let result = match comprehension.visit {
            Visit::All => self.quantified(comprehension, &range, false),
            Visit::Exists => self.quantified(comprehension, &range, true),
            Visit::ExistsOne => self.exists_one(comprehension, &range),
            Visit::List | Visit::Filter => self.listed(comprehension, &range),
            Visit::Map | Visit::MapEntry => self.mapped(comprehension, &range),
        };
        self.locals.truncate(scope);
        self.budget.spend(1)?;
        result
    }

    /// Gives the variables of a macro their next values.
    fn bind(&mut self, comprehension: &'a Comprehension, range: &Range<'a>, index: usize, scope: usize) -> Result<(), EvaluationError> {
        self.locals.truncate(scope);
        let (first, second) = match range {
            Range::List(list) => {
                let value = list.get(index, self.budget)?.ok_or_else(no_overload)?;
                if comprehension.second.is_none() {
                    (value, None)
                } else {
                    (Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), Some(value))
                }
            }
            Range::Keys(keys) => (keys[index].clone(), None),
            Range::Entries(entries) => (entries[index].0.clone(), Some(entries[index].1.clone())),
        };
        self.locals.push(first);
        self.locals.extend(second);
        Ok(())
    }

    /// `all` and `exists`: one element can decide although others have errors.
    fn quantified(&mut self, comprehension: &'a Comprehension, range: &Range<'a>, decides: bool) -> Outcome<'a> {
        let (scope, mut failed) = (self.locals.len(), None);
        let body = comprehension.body.as_ref().ok_or_else(no_overload)?;
        for index in 0..range.len() {
            // The condition of the loop and the accumulator.
            self.budget.spend(if decides { 4 } else { 3 })?;
            self.bind(comprehension, range, index, scope)?;
            match self.condition(body) {
                Ok(value) if value == decides => return Ok(Value::Bool(decides)),
                Ok(_) => (),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn exists_one(&mut self, comprehension: &'a Comprehension, range: &Range<'a>) -> Outcome<'a> {
        let (scope, mut count) = (self.locals.len(), 0_usize);
        let filter = comprehension.filter.as_ref().ok_or_else(no_overload)?;
        for index in 0..range.len() {
            self.budget.spend(1)?;
            self.bind(comprehension, range, index, scope)?;
            if self.condition(filter)? {
                self.budget.spend(1)?;
                count += 1;
            }
        }
        self.budget.spend(1)?;
        Ok(Value::Bool(count == 1))
    }

    /// Whether the element counts to which the variables are bound.
    fn counts(&mut self, comprehension: &'a Comprehension) -> Result<bool, EvaluationError> {
        comprehension.filter.as_ref().map_or(Ok(true), |filter| self.condition(filter))
    }

    fn listed(&mut self, comprehension: &'a Comprehension, range: &Range<'a>) -> Outcome<'a> {
        let (scope, mut values) = (self.locals.len(), Vec::new());
        self.budget.spend(LIST_COST)?;
        for index in 0..range.len() {
            self.budget.spend(1)?;
            self.bind(comprehension, range, index, scope)?;
            if !self.counts(comprehension)? {
                continue;
            }
            self.budget.spend(LIST_COST + 1)?;
            values.push(match &comprehension.body {
                Some(body) => self.value(body)?,
                None => {
                    self.budget.spend(1)?;
                    self.locals[scope].clone()
                }
            });
        }
        Ok(Value::list(values))
    }

    fn mapped(&mut self, comprehension: &'a Comprehension, range: &Range<'a>) -> Outcome<'a> {
        let (scope, mut members) = (self.locals.len(), BTreeMap::new());
        self.budget.spend(MAP_COST)?;
        let body = comprehension.body.as_ref().ok_or_else(no_overload)?;
        for index in 0..range.len() {
            self.budget.spend(1)?;
            self.bind(comprehension, range, index, scope)?;
            if !self.counts(comprehension)? {
                continue;
            }
            self.budget.spend(2)?;
            let value = self.value(body)?;
            if comprehension.visit == Visit::Map {
                let key = Key::of(&self.locals[scope]).ok_or_else(|| EvaluationError::failed("unsupported key type"))?;
                insert(&mut members, key, value)?;
                continue;
            }
            let Value::Map(entries) = value else { return Err(no_overload()) };
            for (key, value) in entries.into_members(self.budget)? {
                insert(&mut members, key, value)?;
            }
        }
        Ok(Value::Map(Map::built(members)))
    }

    fn optional_map(&mut self, map: &'a OptionalMap) -> Outcome<'a> {
        let target = self.value(&map.target)?;
        self.budget.spend(1)?;
        let value = match target {
            Value::Optional(Some(value)) => value,
            Value::Optional(None) => {
                self.budget.spend(1)?;
                return Ok(Value::Optional(None));
            }
            _ => return Err(no_overload()),
        };
        // Upstream evaluates the target again, and makes an empty list to bind the variable.
        self.budget.spend(LIST_COST + 1)?;
        let scope = self.locals.len();
        self.locals.push((*value).clone());
        let body = self.value(&map.body);
        self.locals.truncate(scope);
        let body = body?;
        match body {
            body if !map.is_flat => {
                self.budget.spend(1)?;
                Ok(Value::some(body))
            }
            body @ Value::Optional(_) => Ok(body),
            _ => Err(no_overload()),
        }
    }

    fn sort_by(&mut self, sort: &'a SortBy) -> Outcome<'a> {
        let target = self.value(&sort.target)?;
        self.budget.spend(LIST_COST + 1)?;
        let scope = self.locals.len();
        self.locals.push(target.clone());
        let keys = self.value(&sort.keys);
        self.locals.truncate(scope);
        match (target, keys?) {
            (Value::List(list), Value::List(keys)) => sorted_by(&list, &keys, self.budget),
            _ => Err(no_overload()),
        }
    }
}

/// What a macro visits.
enum Range<'a> {
    List(crate::List<'a>),
    Keys(Vec<Value<'a>>),
    Entries(Vec<(Value<'a>, Value<'a>)>),
}

impl Range<'_> {
    fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Keys(keys) => keys.len(),
            Self::Entries(entries) => entries.len(),
        }
    }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => (&**text).into(),
        Literal::Bytes(bytes) => Value::Bytes(Rc::from(&**bytes)),
    }
}

fn insert<'a>(members: &mut BTreeMap<Key<'a>, Value<'a>>, key: Key<'a>, value: Value<'a>) -> Result<(), EvaluationError> {
    match members.entry(key) {
        btree_map::Entry::Vacant(entry) => {
            entry.insert(value);
            Ok(())
        }
        btree_map::Entry::Occupied(entry) => {
            let shown = match entry.key() {
                Key::Bool(key) => key.to_string(),
                Key::Int(key) => key.to_string(),
                Key::Uint(key) => key.to_string(),
                Key::Double(key) => key.to_string(),
                Key::String(key) => key.to_string(),
            };
            Err(EvaluationError::failed(format!("insert failed: key {shown} already exists")))
        }
    }
}
