//! Maps and objects: borrowed from the data, or made by an expression.

use super::{Text, Value, equal};
use crate::{Budget, Declaration, EvaluationError, declaration::Shape};
use serde_json::{Map as JsonMap, Value as Json};
use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

/// A map or an object.
#[derive(Clone, Debug)]
pub struct Map<'a>(Inner<'a>);

#[derive(Clone, Debug)]
enum Inner<'a> {
    Json(&'a JsonMap<String, Json>, Option<&'a Declaration>),
    /// With the name under which an expression constructed it.
    Built(Rc<BTreeMap<Key<'a>, Value<'a>>>, Option<&'a str>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that is not negative. It equals the same [`Key::Int`].
    Uint(u64),
    /// A number that is not an integer.
    Double(f64),
    /// A text.
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// A value as a key. `None`: it cannot be one.
    #[must_use]
    pub fn of(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Uint(value) => Some(Self::Uint(*value)),
            Value::String(value) => Some(Self::String(value.clone())),
            // A number finds the integer that it equals.
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => Some(Self::Int(*value as i64)),
            Value::Double(value) => Some(Self::Double(*value)),
            _ => None,
        }
    }

    /// The key as a value.
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::String(value) => Value::String(value.clone()),
        }
    }

    fn rank(&self) -> (u8, i128, &str) {
        match self {
            Self::Bool(value) => (0, i128::from(*value), ""),
            Self::Int(value) => (1, i128::from(*value), ""),
            Self::Uint(value) => (1, i128::from(*value), ""),
            Self::Double(value) => (2, i128::from(value.to_bits()), ""),
            Self::String(value) => (3, 0, value),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<'a> Map<'a> {
    pub(super) fn json(members: &'a JsonMap<String, Json>, declaration: Option<&'a Declaration>) -> Self {
        Self(Inner::Json(members, declaration))
    }

    /// A map of these members.
    #[must_use]
    pub fn built(members: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        Self(Inner::Built(Rc::new(members), None))
    }

    pub(crate) fn constructed(name: &'a str, members: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        Self(Inner::Built(Rc::new(members), Some(name)))
    }

    /// The name under which an expression constructed it: `Object.spec`.
    #[must_use]
    pub fn constructed_as(&self) -> Option<&str> {
        if let Inner::Built(_, name) = &self.0 { *name } else { None }
    }

    /// How many members it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Inner::Json(members, _) => members.len(),
            Inner::Built(members, _) => members.len(),
        }
    }

    /// Whether it has no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_data(&self) -> bool {
        matches!(self.0, Inner::Json(..))
    }

    /// Whether it is data with a declaration.
    pub(crate) fn is_declared(&self) -> bool {
        matches!(self.0, Inner::Json(_, Some(_)))
    }

    /// A member by the name that expressions give it. `None`: it is missing.
    pub(crate) fn field(&self, name: &str, budget: &mut Budget) -> Result<Option<Value<'a>>, EvaluationError> {
        let (members, declaration) = match &self.0 {
            Inner::Built(members, _) => return Ok(members.get(&Key::String(Text::Shared(name.into()))).cloned()),
            Inner::Json(members, declaration) => (*members, *declaration),
        };
        let (name, of) = match declaration.map(|declaration| (declaration, declaration.shape())) {
            Some((declaration, Shape::Object(_))) => match declaration.readable_field(name) {
                Some(field) => (&*field.name, Some(&field.declaration)),
                None => return Ok(None),
            },
            Some((_, Shape::Map(values))) => (name, Some(values)),
            _ => (name, None),
        };
        let is_object = declaration.is_some_and(|declaration| matches!(declaration.shape(), Shape::Object(_)));
        match members.get(name) {
            // A field of an object that is null is missing.
            Some(Json::Null) if is_object => Ok(None),
            Some(member) => Value::read(member, of, budget).map(Some),
            None => Ok(None),
        }
    }

    /// A member by its key. `None`: it is missing.
    pub(crate) fn get(&self, key: &Value<'a>, budget: &mut Budget) -> Result<Option<Value<'a>>, EvaluationError> {
        match (&self.0, key) {
            (_, Value::String(name)) => self.field(name, budget),
            (Inner::Built(members, _), key) => Ok(Key::of(key).and_then(|key| members.get(&key).cloned())),
            (Inner::Json(_, Some(_)), key) => Err(EvaluationError::NoOverload(format!(": map[{}]", key.type_name()))),
            (Inner::Json(_, None), _) => Ok(None),
        }
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match &self.0 {
            Inner::Built(members, _) => members.keys().map(Key::value).collect(),
            Inner::Json(members, declaration) => {
                let object = declaration.filter(|declaration| matches!(declaration.shape(), Shape::Object(_)));
                let known = |name: &'a String| match object {
                    Some(declaration) => declaration.json_field(name).map(|(escaped, _)| Value::from(escaped)),
                    None => Some(Value::from(name.as_str())),
                };
                members.keys().filter_map(known).collect()
            }
        }
    }

    /// All members.
    ///
    /// # Errors
    /// The data does not fit its declaration, or the evaluation costs too much.
    pub fn entries(&self, budget: &mut Budget) -> Result<Vec<(Value<'a>, Value<'a>)>, EvaluationError> {
        let mut entries = Vec::with_capacity(self.len());
        for key in self.keys() {
            if let Some(value) = self.get(&key, budget)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }

    /// The members of a map that an expression made, to add more. Other maps are copied.
    pub(crate) fn into_members(self, budget: &mut Budget) -> Result<BTreeMap<Key<'a>, Value<'a>>, EvaluationError> {
        if let Inner::Built(members, _) = self.0 {
            return Ok(Rc::unwrap_or_clone(members));
        }
        budget.spend(self.len() as u64)?;
        Ok(self.entries(budget)?.into_iter().filter_map(|(key, value)| Some((Key::of(&key)?, value))).collect())
    }

    pub(crate) fn equals(&self, other: &Self, budget: &mut Budget) -> Result<bool, EvaluationError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        for (key, value) in self.entries(budget)? {
            match other.get(&key, budget)? {
                Some(other) if equal(&value, &other, budget)? => (),
                _ => return Ok(false),
            }
        }
        self.unknown_members_equal(other, budget)
    }

    /// Members that the declaration of an object does not have are compared as JSON.
    fn unknown_members_equal(&self, other: &Self, budget: &mut Budget) -> Result<bool, EvaluationError> {
        let (Inner::Json(members, Some(declaration)), Inner::Json(others, _)) = (&self.0, &other.0) else { return Ok(true) };
        if !matches!(declaration.shape(), Shape::Object(_)) {
            return Ok(true);
        }
        for (name, member) in *members {
            if let (None, Some(other)) = (declaration.json_field(name), others.get(name))
                && !equal(&Value::read(member, None, budget)?, &Value::read(other, None, budget)?, budget)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
