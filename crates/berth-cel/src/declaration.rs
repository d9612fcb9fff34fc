//! What the data of a variable is: its types, and the bounds of its sizes, from which the cost of an expression is estimated.

use std::sync::Arc;

/// How many bytes a request has at most. It bounds what has no bound of its own.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The data of a variable, or of a part of one. Copies share the same data.
#[derive(Clone, Debug)]
pub struct Declaration(Arc<Node>);

#[derive(Debug)]
struct Node {
    shape: Shape,
    /// How many characters, elements or members it has at most.
    elements_max: u64,
    /// How many bytes of JSON it takes at least.
    bytes_min: u64,
    /// Whether null is a value of it.
    is_nullable: bool,
}

/// What the data is.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Anything: it is checked during evaluation.
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    /// In JSON, a text in base64.
    Bytes,
    /// In JSON, a text such as `2026-01-02`.
    Date,
    /// In JSON, a text such as `2026-01-02T03:04:05Z`.
    Timestamp,
    /// In JSON, a text such as `1h2m`.
    Duration,
    /// A value of a type that only functions know, such as `kubernetes.authorization.Authorizer`.
    Opaque(&'static str),
    List(Declaration, ListKind),
    Map(Declaration),
    /// The fields, sorted by their escaped names.
    Object(Box<[Field]>),
}

/// How `==` and `+` see a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// In order.
    Atomic,
    /// Its order does not matter, and `+` adds the elements that are missing.
    Set,
    /// As a set whose elements are distinguished by these members. `+` replaces elements.
    Map(Box<[String]>),
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// As expressions write it.
    pub(crate) escaped: Option<Box<str>>,
    /// As it is in JSON.
    pub(crate) name: Box<str>,
    pub(crate) declaration: Declaration,
    /// Whether each object has it in a request.
    is_required: bool,
}

impl Field {
    /// A field by its name in JSON. `is_required`: a request must contain it, because it has no default.
    #[must_use]
    pub fn new(name: &str, declaration: Declaration, is_required: bool) -> Self {
        let escaped = crate::escape(name).filter(|escaped| escaped != name).map(String::into_boxed_str);
        Self { escaped, name: name.into(), declaration, is_required }
    }

    fn known_as(&self) -> &str {
        self.escaped.as_deref().unwrap_or(&self.name)
    }
}

impl Declaration {
    fn new(shape: Shape, elements_max: u64, bytes_min: u64) -> Self {
        Self(Arc::new(Node { shape, elements_max, bytes_min, is_nullable: false }))
    }

    /// Anything, whose type is checked during evaluation.
    #[must_use]
    pub fn dynamic() -> Self {
        Self::new(Shape::Dyn, REQUEST_BYTES_MAX - 2, 1)
    }

    /// An integer or a text of at most so many bytes.
    #[must_use]
    pub fn int_or_string(bytes_max: u64) -> Self {
        Self::new(Shape::Dyn, bytes_max, 1)
    }

    /// A boolean.
    #[must_use]
    pub fn bool() -> Self {
        Self::new(Shape::Bool, 0, 4)
    }

    /// An integer.
    #[must_use]
    pub fn int() -> Self {
        Self::new(Shape::Int, 0, 1)
    }

    /// An integer that is not negative.
    #[must_use]
    pub fn uint() -> Self {
        Self::new(Shape::Uint, 0, 1)
    }

    /// A number.
    #[must_use]
    pub fn double() -> Self {
        Self::new(Shape::Double, 0, 1)
    }

    /// A text of at most so many bytes.
    #[must_use]
    pub fn string(bytes_max: u64) -> Self {
        Self::new(Shape::String, bytes_max, 2)
    }

    /// Bytes, in JSON as base64 of at most so many characters.
    #[must_use]
    pub fn bytes(max: u64) -> Self {
        Self::new(Shape::Bytes, max, 2)
    }

    /// A day.
    #[must_use]
    pub fn date() -> Self {
        Self::new(Shape::Date, 12, 12)
    }

    /// A time.
    #[must_use]
    pub fn timestamp() -> Self {
        Self::new(Shape::Timestamp, 32, 21)
    }

    /// A duration.
    #[must_use]
    pub fn duration() -> Self {
        Self::new(Shape::Duration, 32, 3)
    }

    /// A value of a type that only functions know.
    #[must_use]
    pub fn opaque(type_name: &'static str) -> Self {
        Self::new(Shape::Opaque(type_name), 0, 0)
    }

    /// A list. Without a maximum, it has as many elements as fit into a request.
    #[must_use]
    pub fn list(elements: Self, kind: ListKind, elements_max: Option<u64>) -> Self {
        let max = elements_max.unwrap_or_else(|| (REQUEST_BYTES_MAX - 2) / (elements.0.bytes_min + 1));
        Self::new(Shape::List(elements, kind), max, 2)
    }

    /// A map from texts to values. Without a maximum, it has as many members as fit into a request.
    #[must_use]
    pub fn map(values: Self, members_max: Option<u64>) -> Self {
        let max = members_max.unwrap_or_else(|| (REQUEST_BYTES_MAX - 2) / (values.0.bytes_min + 6));
        Self::new(Shape::Map(values), max, 2)
    }

    /// An object with these fields. Expressions cannot read a field whose name has no escaped form.
    #[must_use]
    pub fn object(fields: impl IntoIterator<Item = Field>) -> Self {
        let mut fields: Vec<Field> = fields.into_iter().collect();
        let required = fields.iter().filter(|field| field.is_required);
        let bytes = required.map(|field| field.name.len() as u64 + field.declaration.0.bytes_min + 4).fold(2, u64::saturating_add);
        fields.retain(|field| crate::escape(&field.name).is_some());
        fields.sort_by(|one, other| one.known_as().cmp(other.known_as()));
        Self::new(Shape::Object(fields.into()), 0, bytes)
    }

    /// The same, with null as a value.
    #[must_use]
    pub fn nullable(self) -> Self {
        let Node { shape, elements_max, bytes_min, .. } = &*self.0;
        Self(Arc::new(Node { shape: shape.clone(), elements_max: *elements_max, bytes_min: *bytes_min, is_nullable: true }))
    }

    /// How many bytes of JSON a value of it takes at least.
    #[must_use]
    pub fn bytes_min(&self) -> u64 {
        self.0.bytes_min
    }

    /// The declaration of the elements of a list or of the values of a map.
    #[must_use]
    pub fn elements(&self) -> Option<&Self> {
        match &self.0.shape {
            Shape::List(elements, _) | Shape::Map(elements) => Some(elements),
            _ => None,
        }
    }

    /// The declaration of a field by its name in JSON.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Shape::Object(fields) = &self.0.shape else { return None };
        fields.iter().find(|field| *field.name == *name).map(|field| &field.declaration)
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.0.shape
    }

    pub(crate) fn elements_max(&self) -> u64 {
        self.0.elements_max
    }

    pub(crate) fn is_nullable(&self) -> bool {
        self.0.is_nullable
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The field that expressions can call so. A word that the language reserves can be a field's name without its escape.
    pub(crate) fn readable_field(&self, name: &str) -> Option<&Field> {
        let reserved = || crate::names::is_reserved(name).then(|| self.escaped_field(&format!("__{name}__"))).flatten();
        self.escaped_field(name).or_else(reserved)
    }

    /// The field whose escaped name this is.
    pub(crate) fn escaped_field(&self, escaped: &str) -> Option<&Field> {
        let Shape::Object(fields) = &self.0.shape else { return None };
        fields.binary_search_by(|field| field.known_as().cmp(escaped)).ok().map(|at| &fields[at])
    }

    /// The field of this name in JSON, and how expressions know it.
    pub(crate) fn json_field(&self, name: &str) -> Option<(&str, &Self)> {
        let Shape::Object(fields) = &self.0.shape else { return None };
        let escaped = crate::escape(name)?;
        let at = fields.binary_search_by(|field| field.known_as().cmp(&*escaped)).ok()?;
        Some((fields[at].known_as(), &fields[at].declaration))
    }

    /// The path from this declaration to an object in it, for messages: `.spec.containers.@idx`.
    pub(crate) fn path_to(&self, object: &Self) -> Option<String> {
        if self.is_same(object) {
            return Some(String::new());
        }
        match self.shape() {
            Shape::List(elements, _) => elements.path_to(object).map(|path| format!(".@idx{path}")),
            Shape::Map(values) => values.path_to(object).map(|path| format!(".@elem{path}")),
            Shape::Object(fields) => fields.iter().find_map(|field| {
                let path = field.declaration.path_to(object)?;
                Some(format!(".{}{path}", field.known_as()))
            }),
            _ => None,
        }
    }
}
