//! What an evaluation costs at most, from the bounds of the sizes that declarations have.
//!
//! Upstream rejects definitions by this estimate, so it computes the same numbers. Source: cel-go `checker/cost.go`, kubernetes
//! `apiserver/pkg/cel/library/cost.go`. Only upper bounds of costs are needed. Sizes have a lower bound too, because `replace` needs it.

mod calls;

use crate::{
    Declaration, Environment, Type,
    check::Checked,
    declaration::Shape,
    stack::with_stack,
    syntax::{Comprehension, Expr, Kind, Literal, OptionalMap, SortBy, Visit},
};
use calls::{Argument, call_cost};

/// The variable that has the data of a rule.
const ROOT: &str = "self";

/// The bounds of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of reading something of this size.
    fn cost(self, factor: f64) -> u64 {
        // The conversion saturates.
        (self.max as f64 * factor).ceil() as u64
    }
}

/// The sizes of the elements of a list, or of the keys and the values of a map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

/// From which part of the data a value comes.
///
/// Upstream cuts the first element off the path of a value and starts at the root. So what is read from a computed value counts as if it were read from
/// the root. The estimates would differ without this.
#[derive(Clone, Debug, Default)]
enum Origin {
    /// It is computed.
    #[default]
    Computed,
    /// It comes from data that the declaration does not describe.
    Unknown,
    /// It is data of this declaration.
    Data(Declaration),
}

impl Origin {
    fn size(&self) -> Option<Size> {
        if let Self::Data(declaration) = self { Some(Size { min: 0, max: declaration.elements_max() }) } else { None }
    }

    /// A part of it.
    fn part(&self, root: &Self, of: impl FnOnce(&Declaration) -> Option<Declaration>) -> Self {
        match self {
            Self::Computed => root.clone(),
            Self::Unknown => Self::Unknown,
            Self::Data(declaration) => of(declaration).map_or(Self::Unknown, Self::Data),
        }
    }
}

/// What is known about a part of an expression.
#[derive(Clone, Debug, Default)]
struct Facts {
    cost: u64,
    origin: Origin,
    /// Its size, if the expression itself determines it.
    size: Option<Size>,
    entries: Option<Entries>,
}

impl Facts {
    fn cost(cost: u64) -> Self {
        Self { cost, ..Self::default() }
    }

    fn size_or_unknown(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// What a variable of a macro is.
#[derive(Clone, Debug, Default)]
struct Local {
    origin: Origin,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// The upper bound of the cost of an expression.
pub(crate) fn estimate(checked: &Checked, environment: &Environment) -> u64 {
    let root = environment.find(ROOT).map_or(Origin::Unknown, |variable| Origin::Data(variable.declaration.clone()));
    let mut estimator = Estimator { checked, environment, root, locals: Vec::new() };
    estimator.facts(&checked.root).cost
}

struct Estimator<'a> {
    checked: &'a Checked,
    environment: &'a Environment,
    root: Origin,
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn of(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id as usize]
    }

    fn facts(&mut self, expr: &Expr) -> Facts {
        let mut facts = with_stack(|| self.kind(expr));
        facts.size = facts.size.or_else(|| facts.origin.size()).or_else(|| self.of(expr).is_scalar().then_some(Size::fixed(1)));
        if let (None, Kind::Local(at)) = (facts.size, &expr.kind) {
            facts.size = self.locals.get(*at).and_then(|local| local.size);
        }
        facts
    }

    fn kind(&mut self, expr: &Expr) -> Facts {
        match &expr.kind {
            Kind::Literal(literal) => Facts { size: Some(Size::fixed(literal_size(literal))), ..Facts::default() },
            Kind::TypeName(_) => Facts { cost: 1, origin: self.root.clone(), ..Facts::default() },
            Kind::Local(at) => {
                let local = self.locals.get(*at).cloned().unwrap_or_default();
                Facts { cost: 1, origin: local.origin, size: None, entries: local.entries }
            }
            Kind::Variable(name) | Kind::Identifier(name) => {
                let variable = self.environment.find(name);
                let origin = variable.map_or(Origin::Unknown, |variable| Origin::Data(variable.declaration.clone()));
                Facts { cost: 1, origin, ..Facts::default() }
            }
            Kind::Select { operand, field } => {
                let inner = self.facts(operand);
                let has_cost = matches!(self.of(operand), Type::Map(_) | Type::Object(_) | Type::Opaque(_) | Type::Constructed(_));
                let field = |of: &Declaration| of.escaped_field(field).map(|field| field.declaration.clone());
                let origin = inner.origin.part(&self.root, field);
                Facts { cost: inner.cost.saturating_add(u64::from(has_cost)), origin, ..Facts::default() }
            }
            Kind::Has { operand, .. } => Facts::cost(self.facts(operand).cost),
            Kind::OptionalSelect { operand, .. } => Facts::cost(self.facts(operand).cost.saturating_add(1)),
            Kind::Call(call) => {
                let target = call.target.as_ref().map(|target| self.argument(target));
                let arguments: Vec<Argument> = call.arguments.iter().map(|argument| self.argument(argument)).collect();
                call_cost(&call.name, &self.checked.overloads[expr.id as usize], target.as_ref(), &arguments, &self.root)
            }
            Kind::And(both) | Kind::Or(both) => Facts::cost(self.facts(&both.0).cost.saturating_add(self.facts(&both.1).cost)),
            Kind::Conditional(parts) => {
                let (condition, yes, no) = (self.facts(&parts.0), self.facts(&parts.1), self.facts(&parts.2));
                Facts {
                    cost: condition.cost.saturating_add(yes.cost.max(no.cost)),
                    origin: Origin::Computed,
                    size: Some(yes.size_or_unknown().union(no.size_or_unknown())),
                    entries: united(yes.entries, no.entries),
                }
            }
            Kind::List(elements) => {
                let facts: Vec<Facts> = elements.iter().map(|element| self.facts(&element.value)).collect();
                self.made(10, facts.len(), &[], &facts)
            }
            Kind::Map(entries) => {
                let keys: Vec<Facts> = entries.iter().map(|entry| self.facts(&entry.key)).collect();
                let values: Vec<Facts> = entries.iter().map(|entry| self.facts(&entry.value)).collect();
                Facts {
                    entries: Some(Entries { is_list: false, key: all_sizes(&keys), value: all_sizes(&values) }),
                    ..self.made(30, keys.len(), &keys, &values)
                }
            }
            Kind::Struct { fields, .. } => {
                Facts::cost(fields.iter().map(|field| self.facts(&field.value).cost).fold(40, u64::saturating_add))
            }
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::OptionalMap(map) => self.optional_map(map),
            Kind::SortBy(sort) => self.sort_by(expr, sort),
        }
    }

    /// A list or a map that the expression makes.
    fn made(&self, base: u64, count: usize, keys: &[Facts], values: &[Facts]) -> Facts {
        let cost = keys.iter().chain(values).map(|facts| facts.cost).fold(base, u64::saturating_add);
        let entries = Entries { is_list: true, key: Size::fixed(1), value: all_sizes(values) };
        Facts { cost, origin: Origin::Computed, size: Some(Size::fixed(count as u64)), entries: Some(entries) }
    }

    fn argument(&mut self, expr: &Expr) -> Argument {
        let int = if let Kind::Literal(Literal::Int(value)) = expr.kind { Some(value) } else { None };
        Argument { facts: self.facts(expr), of: self.of(expr).clone(), int }
    }

    /// The variables of a macro.
    fn push_variables(&mut self, comprehension: &Comprehension, range: &Facts) {
        let is_list = range.entries.map_or_else(|| matches!(self.of(&comprehension.range), Type::List(_)), |entries| entries.is_list);
        let elements = range.origin.part(&self.root, |of| of.elements().cloned());
        // Upstream assumes that the keys of a map are empty.
        let keys = range.origin.part(&self.root, |of| matches!(of.shape(), Shape::Map(_)).then(|| Declaration::string(0)));
        let key = Local { origin: keys, size: range.entries.map(|entries| entries.key), entries: None };
        let value = Local { origin: elements, size: range.entries.map(|entries| entries.value), entries: None };
        if comprehension.second.is_some() {
            self.locals.extend([key, value]);
        } else {
            self.locals.push(if is_list { value } else { key });
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Facts {
        let range = self.facts(&comprehension.range);
        let scope = self.locals.len();
        self.push_variables(comprehension, &range);
        let filter = comprehension.filter.as_ref().map(|filter| self.facts(filter));
        let body = comprehension.body.as_ref().map(|body| self.facts(body));
        let first = self.locals.get(scope).cloned().unwrap_or_default();
        self.locals.truncate(scope);

        let filter_cost = filter.as_ref().map_or(0, |filter| filter.cost);
        let body_cost = body.as_ref().map_or(1, |body| body.cost);
        // What is made before the loop, what each round costs, and what the result costs.
        let (before, round, after) = match comprehension.visit {
            Visit::All => (0, body_cost.saturating_add(3), 1),
            Visit::Exists => (0, body_cost.saturating_add(4), 1),
            Visit::ExistsOne => (0, filter_cost.saturating_add(2), 2),
            Visit::List | Visit::Filter => (10, filter_cost.saturating_add(body_cost).saturating_add(12), 1),
            Visit::Map => (30, filter_cost.saturating_add(body_cost).saturating_add(3), 1),
            Visit::MapEntry => (30, filter_cost.saturating_add(body_cost).saturating_add(2), 1),
        };
        let count = range.size_or_unknown();
        let cost = range.cost.saturating_add(before + after).saturating_add(count.max.saturating_mul(round));
        let element = || match &body {
            Some(body) => body.size_or_unknown(),
            None => first.origin.size().or(first.size).unwrap_or(Size::UNKNOWN),
        };
        let (size, entries) = match comprehension.visit {
            Visit::All | Visit::Exists | Visit::ExistsOne => (Size::fixed(1), None),
            Visit::Map | Visit::MapEntry => (count, None),
            Visit::List | Visit::Filter => {
                (count, Some(Entries { is_list: true, key: Size { min: 1, max: 1 }, value: Size { min: 0, max: element().max } }))
            }
        };
        Facts { cost, origin: Origin::Computed, size: Some(size), entries }
    }

    fn optional_map(&mut self, map: &OptionalMap) -> Facts {
        let target = self.facts(&map.target);
        self.locals.push(Local::default());
        let body = self.facts(&map.body);
        self.locals.pop();
        // `target.hasValue() ? optional.of(bind(target.value(), body)) : optional.none()`
        let bound = 10_u64.saturating_add(target.cost).saturating_add(1).saturating_add(body.cost);
        let cost = target.cost.saturating_add(1).saturating_add(bound.saturating_add(u64::from(!map.is_flat)));
        Facts::cost(cost)
    }

    fn sort_by(&mut self, expr: &Expr, sort: &SortBy) -> Facts {
        let target = self.facts(&sort.target);
        self.locals.push(Local { origin: target.origin.clone(), size: target.size, entries: target.entries });
        let keys = self.argument(&sort.keys);
        self.locals.pop();
        let variable = Argument { facts: Facts { cost: 1, ..target.clone() }, of: self.of(&sort.target).clone(), int: None };
        let sorted = call_cost("@sortByAssociatedKeys", &self.checked.overloads[expr.id as usize], Some(&variable), &[keys], &self.root);
        Facts { cost: sorted.cost.saturating_add(10).saturating_add(target.cost), ..sorted }
    }
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

/// The bounds of all these sizes.
fn all_sizes(facts: &[Facts]) -> Size {
    let sizes = facts.iter().map(Facts::size_or_unknown);
    sizes.reduce(Size::union).unwrap_or(Size::fixed(0))
}

fn united(one: Option<Entries>, other: Option<Entries>) -> Option<Entries> {
    let (one, other) = (one?, other?);
    Some(Entries { is_list: one.is_list, key: one.key.union(other.key), value: one.value.union(other.value) })
}
