//! `metadata.managedFields`, decoded.

use crate::{Root, Set, SetError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};
use serde_json::Value;
use std::collections::BTreeMap;

/// How many entries of updates are kept apart; the oldest beyond go into one.
pub(crate) const UPDATERS_MAX: usize = 10;
/// The manager of the entry that old updates are put into.
const ANCIENT_CHANGES: &str = "ancient-changes";
const FIELDS_TYPE: &str = "FieldsV1";

/// How a manager came by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply: it wants them so, and gives up what it no longer names.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// `manager`.
    pub name: String,
    /// `operation`.
    pub operation: Operation,
    /// `apiVersion`; empty for [`Operation::Apply`], whose entry is one for all versions.
    pub api_version: String,
    /// `subresource`; empty: the object itself.
    pub subresource: String,
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// Which fields.
    pub fields: Set,
    /// In which version of the kind.
    pub api_version: String,
    /// When it changed them last; entries written through `/scale` have no time.
    pub time: Option<Time>,
}

/// Who owns which fields of an object. No set is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managers(pub BTreeMap<ManagerId, Owned>);

/// A `managedFields` that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No such operation.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// An unknown type of fields.
    #[error("invalid fieldsType {kind:?} in managed fields entry {entry}")]
    FieldsType {
        /// Its value.
        kind: String,
        /// The entry's place.
        entry: usize,
    },
    /// No set.
    #[error("error decoding set: {0}")]
    Fields(#[from] SetError),
}

impl Managers {
    /// Reads `metadata.managedFields`.
    ///
    /// # Errors
    /// The first entry that cannot be understood.
    pub fn decode(entries: &[ManagedFieldsEntry]) -> Result<Self, DecodeError> {
        let decoded: Result<_, _> = entries.iter().enumerate().map(|(index, entry)| decode(index, entry)).collect();
        decoded.map(Self)
    }

    /// `metadata.managedFields`, in upstream's order.
    #[must_use]
    pub fn encode(&self) -> Vec<ManagedFieldsEntry> {
        let mut entries: Vec<ManagedFieldsEntry> = self.0.iter().map(|(id, owned)| encode(id, owned)).collect();
        sort(&mut entries);
        entries
    }

    /// Whether there are no owners.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the same managers own the same fields, whenever that was.
    #[must_use]
    pub fn same_owners(&self, other: &Self) -> bool {
        let owners = |managers: &Self| managers.0.iter().map(|(id, owned)| (id.clone(), owned.fields.clone())).collect::<Vec<_>>();
        owners(self) == owners(other)
    }

    /// Removes ownership of what is in `before` and not in `after`: a field that does not exist has no owner.
    pub fn forget_removed(&mut self, root: Root<'_>, before: &Value, after: &Value) {
        self.take(&root.compare(before, after).removed, None);
    }

    /// Removes fields from every manager but `except`.
    pub(crate) fn take(&mut self, fields: &Set, except: Option<&ManagerId>) {
        for (id, owned) in &mut self.0 {
            if Some(id) != except {
                owned.fields = std::mem::take(&mut owned.fields).difference(fields);
            }
        }
        self.drop_empty();
    }

    pub(crate) fn drop_empty(&mut self) {
        self.0.retain(|_, owned| !owned.fields.is_empty());
    }

    /// Puts the oldest updates together where there are too many of them.
    pub(crate) fn cap(&mut self) {
        let seconds = |owned: &Owned| owned.time.as_ref().map_or(0, |time| time.0.as_second());
        let mut updaters: Vec<(i64, ManagerId)> =
            self.0.iter().filter(|(id, _)| id.operation == Operation::Update).map(|(id, owned)| (seconds(owned), id.clone())).collect();
        updaters.sort();
        let mut left = updaters.len();
        let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if left <= UPDATERS_MAX {
                return;
            }
            match first.get(&id.api_version) {
                None => {
                    first.insert(id.api_version.clone(), id);
                }
                Some(oldest) => {
                    self.put_together(oldest, &id);
                    left -= 1;
                }
            }
        }
    }

    /// Moves `oldest` and `next` into the entry for old updates of their version; its time is that of the newer.
    fn put_together(&mut self, oldest: &ManagerId, next: &ManagerId) {
        let ancient = ManagerId { name: ANCIENT_CHANGES.to_owned(), subresource: String::new(), ..oldest.clone() };
        let Some(mut newer) = self.0.remove(next) else { return };
        for id in [oldest, &ancient] {
            if let Some(older) = self.0.remove(id) {
                newer.fields = newer.fields.union(&older.fields);
            }
        }
        self.0.insert(ancient, newer);
    }
}

/// Puts entries into upstream's order.
pub(crate) fn sort(entries: &mut [ManagedFieldsEntry]) {
    entries.sort_by(|a, b| a.operation.cmp(&b.operation).then_with(|| rank(a).cmp(&rank(b))));
}

fn rank(entry: &ManagedFieldsEntry) -> (i64, &Option<String>, &Option<String>, &Option<String>) {
    let seconds = entry.time.as_ref().map_or(0, |time| time.0.as_second());
    (seconds, &entry.manager, &entry.api_version, &entry.subresource)
}

fn decode(index: usize, entry: &ManagedFieldsEntry) -> Result<(ManagerId, Owned), DecodeError> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let operation = match entry.operation.as_deref() {
        Some("Apply") => Operation::Apply,
        Some("Update") => Operation::Update,
        _ => return Err(DecodeError::Operation),
    };
    let api_version = text(&entry.api_version);
    if api_version.is_empty() {
        return Err(DecodeError::ApiVersion);
    }
    match text(&entry.fields_type) {
        kind if kind.is_empty() => return Err(DecodeError::NoFieldsType(index)),
        kind if kind != FIELDS_TYPE => return Err(DecodeError::FieldsType { kind, entry: index }),
        _ => (),
    }
    let fields = entry.fields_v1.as_ref().map_or_else(|| Ok(Set::default()), |fields| Set::from_value(&fields.0))?;
    let id = ManagerId {
        name: text(&entry.manager),
        operation,
        api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
        subresource: text(&entry.subresource),
    };
    Ok((id, Owned { fields, api_version, time: entry.time.clone() }))
}

fn encode(id: &ManagerId, owned: &Owned) -> ManagedFieldsEntry {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ManagedFieldsEntry {
        api_version: Some(owned.api_version.clone()),
        fields_type: Some(FIELDS_TYPE.to_owned()),
        fields_v1: Some(FieldsV1(owned.fields.to_value())),
        manager: text(&id.name),
        operation: Some(id.operation.as_str().to_owned()),
        subresource: text(&id.subresource),
        time: owned.time.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Path, PathElement};
    use jiff::Timestamp;

    fn at(second: i64) -> Option<Time> {
        Some(Time(Timestamp::from_second(second).expect("a time")))
    }

    fn owned(field: &str, second: i64) -> Owned {
        let fields = Set::of([Path(vec![PathElement::field(field)])]);
        Owned { fields, api_version: "v1".to_owned(), time: at(second) }
    }

    fn updater(name: &str) -> ManagerId {
        let (api_version, subresource) = ("v1".to_owned(), String::new());
        ManagerId { name: name.to_owned(), operation: Operation::Update, api_version, subresource }
    }

    #[test]
    fn entries_are_sorted_and_read_back() {
        let applier = ManagerId { operation: Operation::Apply, api_version: String::new(), ..updater("z") };
        let status = ManagerId { subresource: "status".to_owned(), ..updater("a") };
        let managers = Managers(BTreeMap::from([
            (updater("a"), owned("a", 9)),
            (updater("b"), owned("b", 1)),
            (applier, owned("c", 20)),
            (status, owned("d", 9)),
        ]));
        let entries = managers.encode();
        let names: Vec<_> = entries.iter().map(|entry| (entry.manager.as_deref(), entry.subresource.as_deref())).collect();
        assert_eq!(names, [(Some("z"), None), (Some("b"), None), (Some("a"), None), (Some("a"), Some("status"))]);
        assert_eq!(Managers::decode(&entries), Ok(managers));
    }

    #[test]
    fn entries_that_cannot_be_understood_are_refused() {
        let good = encode(&updater("a"), &owned("a", 1));
        let check = |entry: ManagedFieldsEntry, wanted: &str| {
            assert_eq!(Managers::decode(&[good.clone(), entry]).expect_err(wanted).to_string(), wanted);
        };
        check(ManagedFieldsEntry::default(), "operation must be `Apply` or `Update`");
        check(ManagedFieldsEntry { api_version: None, ..good.clone() }, "apiVersion must not be empty");
        check(ManagedFieldsEntry { fields_type: None, ..good.clone() }, "missing fieldsType in managed fields entry 1");
        let other = ManagedFieldsEntry { fields_type: Some("X".to_owned()), ..good.clone() };
        check(other, "invalid fieldsType \"X\" in managed fields entry 1");
        let fields = ManagedFieldsEntry { fields_v1: Some(FieldsV1(serde_json::json!({"f": {}}))), ..good.clone() };
        check(fields, "error decoding set: key must be 2 characters long: f");
    }

    #[test]
    fn the_oldest_of_many_updaters_become_one() {
        let ids: Vec<ManagerId> = (0..13).map(|n| updater(&format!("m{n:02}"))).collect();
        let mut managers = Managers((0..).zip(&ids).map(|(n, id)| (id.clone(), owned(&format!("f{n}"), n))).collect());
        managers.cap();
        assert_eq!(managers.0.len(), 10);
        let ancient = &managers.0[&updater(ANCIENT_CHANGES)];
        assert_eq!(ancient.fields.encode(), r#"{"f:f0":{},"f:f1":{},"f:f2":{},"f:f3":{}}"#);
        assert_eq!(ancient.time, at(3));
        let before = managers.clone();
        managers.cap();
        assert_eq!(managers, before);
    }
}
