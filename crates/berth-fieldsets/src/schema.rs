//! The ownership rules of a schema: which maps and lists are granular, and what identifies list elements.

use serde_json::Value;
use std::collections::BTreeMap;

/// The types of some kinds. Types refer to each other by [`TypeId`], so that they may contain themselves.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    names: BTreeMap<String, TypeId>,
    deduced: Option<TypeId>,
}

/// A type of a [`Schema`]: its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(usize);

/// What a value may be, as far as ownership goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Any JSON, with one owner.
    Any,
    /// Any JSON. A map has the type at this place: its members are of this type themselves. All else has one owner.
    Deduced(TypeId),
    /// No container.
    Scalar(ScalarKind),
    /// A struct or a map.
    Map(MapType),
    /// A list.
    List(ListType),
}

/// Which scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// Any of them (IntOrString, Quantity).
    Untyped,
    /// A string.
    String,
    /// A number.
    Numeric,
    /// A boolean.
    Boolean,
}

/// A struct, a map, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct MapType {
    /// The fields of a struct.
    pub fields: BTreeMap<String, FieldType>,
    /// The type of other members; `None`: there are no others.
    pub elements: Option<TypeId>,
    /// Who owns it.
    pub kind: MapKind,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldType {
    /// Its type.
    pub of: TypeId,
    /// What it is where it is absent, which matters for keys of lists only.
    pub default: Option<Value>,
}

/// Who owns a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Each member has its owners.
    Granular,
    /// It has one owner as a whole.
    Atomic,
}

/// A list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListType {
    /// The type of its elements.
    pub elements: TypeId,
    /// Who owns it.
    pub kind: ListKind,
}

/// Who owns a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// It has one owner as a whole.
    Atomic,
    /// Each element has its owners; elements are scalars, all different.
    Set,
    /// Each element has its owners. Elements are maps, identified by these members.
    Map(Vec<String>),
}

impl Schema {
    /// Adds a type.
    pub fn add(&mut self, of: Type) -> TypeId {
        self.types.push(of);
        TypeId(self.types.len() - 1)
    }

    /// Puts another type at a place that [`Schema::add`] gave.
    pub fn set(&mut self, id: TypeId, of: Type) {
        self.types[id.0] = of;
    }

    /// Gives a type a name.
    pub fn name(&mut self, name: impl Into<String>, id: TypeId) {
        self.names.insert(name.into(), id);
    }

    /// The type of that name, ready for use.
    #[must_use]
    pub fn root(&self, name: &str) -> Option<Root<'_>> {
        self.names.get(name).map(|id| Root { schema: self, of: *id })
    }

    /// The type of what a schema does not describe, but keeps.
    ///
    /// Source: structured-merge-diff, `__untyped_deduced_`.
    pub(crate) fn deduced(&mut self) -> TypeId {
        if let Some(known) = self.deduced {
            return known;
        }
        let deduced = self.add(Type::Any);
        let map = self.add(Type::Map(MapType { fields: BTreeMap::new(), elements: Some(deduced), kind: MapKind::Granular }));
        self.set(deduced, Type::Deduced(map));
        *self.deduced.insert(deduced)
    }

    pub(crate) fn named(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0]
    }
}

/// The type of a document.
#[derive(Clone, Copy, Debug)]
pub struct Root<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) of: TypeId,
}

impl<'a> Root<'a> {
    pub(crate) fn resolve(self) -> &'a Type {
        self.schema.get(self.of)
    }

    /// The type of a value: that of a deduced type depends on it.
    pub(crate) fn resolve_for(self, value: &Value) -> &'a Type {
        match self.resolve() {
            Type::Deduced(map) if value.is_object() => self.schema.get(*map),
            Type::Deduced(_) => &Type::Any,
            other => other,
        }
    }

    pub(crate) fn at(self, of: TypeId) -> Self {
        Self { of, ..self }
    }

    /// The type of a member of a map of this type; `None`: not declared.
    pub(crate) fn member(self, map: &MapType, name: &str) -> Option<Self> {
        map.fields.get(name).map(|field| field.of).or(map.elements).map(|of| self.at(of))
    }
}
