//! Lists: borrowed from the data, or made by an expression.

use super::{Key, Value, equal};
use crate::{Budget, Declaration, EvaluationError, ListKind, declaration::Shape};
use serde_json::Value as Json;
use std::{collections::BTreeMap, rc::Rc};

/// A list.
#[derive(Clone, Debug)]
pub struct List<'a>(Inner<'a>, Option<&'a Declaration>);

#[derive(Clone, Debug)]
enum Inner<'a> {
    Json(&'a [Json]),
    Built(Rc<Vec<Value<'a>>>),
}

impl<'a> List<'a> {
    pub(super) fn json(elements: &'a [Json], declaration: Option<&'a Declaration>) -> Self {
        Self(Inner::Json(elements), declaration)
    }

    pub(super) fn built(values: Vec<Value<'a>>) -> Self {
        Self(Inner::Built(Rc::new(values)), None)
    }

    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Inner::Json(elements) => elements.len(),
            Inner::Built(values) => values.len(),
        }
    }

    /// Whether it has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn kind(&self) -> &'a ListKind {
        match self.1.map(Declaration::shape) {
            Some(Shape::List(_, kind)) => kind,
            _ => &ListKind::Atomic,
        }
    }

    /// Whether it is data with a declaration.
    pub(crate) fn is_declared(&self) -> bool {
        self.1.is_some()
    }

    /// An element. `None`: there are fewer.
    ///
    /// # Errors
    /// The data does not fit its declaration, or the evaluation costs too much.
    pub fn get(&self, index: usize, budget: &mut Budget) -> Result<Option<Value<'a>>, EvaluationError> {
        match &self.0 {
            Inner::Json(elements) => {
                let of = self.1.and_then(Declaration::elements);
                elements.get(index).map(|element| Value::read(element, of, budget)).transpose()
            }
            Inner::Built(values) => Ok(values.get(index).cloned()),
        }
    }

    /// All elements.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn values(&self, budget: &mut Budget) -> Result<Vec<Value<'a>>, EvaluationError> {
        let mut values = Vec::with_capacity(self.len());
        for index in 0..self.len() {
            values.extend(self.get(index, budget)?);
        }
        Ok(values)
    }

    /// Whether an element equals a value.
    pub(crate) fn has(&self, value: &Value<'a>, budget: &mut Budget) -> Result<bool, EvaluationError> {
        for index in 0..self.len() {
            if let Some(element) = self.get(index, budget)?
                && equal(&element, value, budget)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Both lists as one. Lists that are sets or maps are merged.
    pub(crate) fn plus(&self, other: &Self, budget: &mut Budget) -> Result<Self, EvaluationError> {
        budget.spend((self.len() + other.len()) as u64)?;
        let mut values = self.values(budget)?;
        let added = other.values(budget)?;
        match self.kind() {
            ListKind::Atomic => values.extend(added),
            ListKind::Set => {
                for value in added {
                    if !Self::built(values.clone()).has(&value, budget)? {
                        budget.spend(values.len() as u64)?;
                        values.push(value);
                    }
                }
            }
            ListKind::Map(keys) => {
                let mut known = self.by_keys(&values, keys, budget)?;
                for value in added {
                    match known.get(&key_of(&value, keys, budget)?) {
                        Some(at) => values[*at] = value,
                        None => {
                            known.insert(key_of(&value, keys, budget)?, values.len());
                            values.push(value);
                        }
                    }
                }
            }
        }
        Ok(Self(Inner::Built(Rc::new(values)), self.1))
    }

    fn by_keys(
        &self,
        values: &[Value<'a>],
        keys: &[String],
        budget: &mut Budget,
    ) -> Result<BTreeMap<Vec<Option<Key<'a>>>, usize>, EvaluationError> {
        values.iter().enumerate().map(|(at, value)| Ok((key_of(value, keys, budget)?, at))).collect()
    }

    /// Whether both have equal elements, in the sense of the kind of this list.
    pub(crate) fn equals(&self, other: &Self, budget: &mut Budget) -> Result<bool, EvaluationError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let (values, others) = (self.values(budget)?, other.values(budget)?);
        match self.kind() {
            ListKind::Atomic => {
                for (value, other) in values.iter().zip(&others) {
                    if !equal(value, other, budget)? {
                        return Ok(false);
                    }
                }
            }
            ListKind::Set => {
                for value in &others {
                    if !self.has(value, budget)? {
                        return Ok(false);
                    }
                }
            }
            ListKind::Map(keys) => {
                let known = self.by_keys(&values, keys, budget)?;
                for other in &others {
                    let Some(at) = known.get(&key_of(other, keys, budget)?) else { return Ok(false) };
                    if !equal(&values[*at], other, budget)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// The members that distinguish an element of a list from others.
fn key_of<'a>(value: &Value<'a>, keys: &[String], budget: &mut Budget) -> Result<Vec<Option<Key<'a>>>, EvaluationError> {
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        budget.spend(1)?;
        let member = match value {
            Value::Map(map) => map.field(&crate::escape(key).unwrap_or_else(|| key.clone()), budget)?,
            _ => None,
        };
        found.push(member.as_ref().and_then(Key::of));
    }
    Ok(found)
}
