//! How patches and server-side apply treat the fields of a type: which lists and maps have rules.
//!
//! A field without a rule merges by its JSON type: maps member by member, lists as a whole. OpenAPI publishes the same rules.

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    /// By its JSON type.
    Plain,
    /// A list of objects, which this member identifies.
    Key(&'static str),
    /// As `Key`. A patch can list the members of an element to keep.
    KeyRetainKeys(&'static str),
    /// A list of scalars without duplicates.
    Primitive,
    /// An object. A patch can list its members to keep.
    RetainKeys,
    /// An object that is replaced as a whole.
    Replace,
}

/// How server-side apply treats a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ssa {
    /// By its JSON type.
    Granular,
    /// A list with one owner.
    Atomic,
    /// A list of scalars, each with its owners.
    Set,
    /// A list of objects, which these members identify.
    MapOf(&'static [&'static str]),
    /// A map with one owner.
    AtomicMap,
    /// A map whose members have owners, although others of its type have one owner.
    GranularMap,
}

/// The rule of a field, or the way to a type whose fields have rules.
#[derive(Debug)]
pub(crate) struct MergeRule {
    /// The type that has the field: the last part of the name of its schema.
    pub(crate) of: &'static str,
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// For strategic merge patch.
    pub(crate) strategy: PatchStrategy,
    /// For server-side apply.
    pub(crate) ssa: Ssa,
    /// The type of its value, or of its elements. Empty if none of its fields have rules.
    pub(crate) to: &'static str,
}

pub(crate) const fn to(of: &'static str, name: &'static str, to: &'static str) -> MergeRule {
    MergeRule { of, name, strategy: PatchStrategy::Plain, ssa: Ssa::Granular, to }
}

pub(super) const fn list(of: &'static str, name: &'static str, strategy: PatchStrategy, ssa: Ssa) -> MergeRule {
    MergeRule { of, name, strategy, ssa, to: "" }
}

pub(super) const fn list_of(of: &'static str, name: &'static str, strategy: PatchStrategy, ssa: Ssa, to: &'static str) -> MergeRule {
    MergeRule { of, name, strategy, ssa, to }
}

/// A list that patches replace as a whole, and that has one owner. Upstream publishes that for some lists.
pub(super) const fn atomic(of: &'static str, name: &'static str) -> MergeRule {
    list(of, name, PatchStrategy::Plain, Ssa::Atomic)
}

pub(super) const fn map(of: &'static str, name: &'static str, ssa: Ssa) -> MergeRule {
    list(of, name, PatchStrategy::Plain, ssa)
}

pub(super) const fn conditions(of: &'static str) -> MergeRule {
    list(of, "conditions", PatchStrategy::Key("type"), Ssa::MapOf(&["type"]))
}
