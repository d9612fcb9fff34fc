//! Writes by other controllers to fields that only controllers write, from `managedFields`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// The prefix of the names of all field managers of berth.
const OWN: &str = "berth";

/// A write by a field manager that is not berth's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignWrite {
    /// The field manager, such as `kube-controller-manager`.
    pub manager: Box<str>,
    /// When, by the API server's clock, in whole seconds.
    pub at: Timestamp,
}

/// The last write of each kind by a field manager that is not berth's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignWrites {
    /// The last write to the status.
    pub status: Option<ForeignWrite>,
    /// The last write to the object by a manager that set its owners: usually the controller that created it.
    pub owned: Option<ForeignWrite>,
}

impl ForeignWrites {
    /// Reads the typed `managedFields` of an object. `None` if all managers are berth's.
    pub(crate) fn of(entries: Option<&[ManagedFieldsEntry]>) -> Option<Box<Self>> {
        let mut found = Self::default();
        for entry in entries.unwrap_or_default() {
            let names_owners =
                || entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:metadata/f:ownerReferences").is_some());
            let (manager, subresource) = (entry.manager.as_deref(), entry.subresource.as_deref());
            let at = entry.time.as_ref().map(|time| time.0);
            found.add(manager.unwrap_or_default(), subresource.unwrap_or_default(), at, names_owners);
        }
        found.boxed()
    }

    fn add(&mut self, manager: &str, subresource: &str, at: Option<Timestamp>, names_owners: impl FnOnce() -> bool) {
        let Some(at) = at.filter(|_| !manager.is_empty() && !manager.starts_with(OWN)) else { return };
        let last = match subresource {
            "status" => &mut self.status,
            "" if names_owners() => &mut self.owned,
            _ => return,
        };
        if last.as_ref().is_none_or(|last| last.at < at) {
            *last = Some(ForeignWrite { manager: manager.into(), at });
        }
    }

    fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// `managedFields`, read without building a tree of their content.
#[derive(Default)]
pub(super) struct ManagedFields(pub(super) Option<Box<ForeignWrites>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    time: Option<Timestamp>,
    #[serde(default)]
    fields_v1: Fields,
}

/// Whether the fields contain `f:metadata.f:ownerReferences`.
#[derive(Default)]
struct Fields(bool);

impl<'de> Deserialize<'de> for ManagedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = ManagedFields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of managed fields")
            }
            fn visit_unit<E>(self) -> Result<ManagedFields, E> {
                Ok(ManagedFields::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<ManagedFields, A::Error> {
                let mut found = ForeignWrites::default();
                while let Some(Entry { manager, subresource, time, fields_v1 }) = entries.next_element()? {
                    found.add(&manager, &subresource, time, || fields_v1.0);
                }
                Ok(ManagedFields(found.boxed()))
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Within("f:metadata", Some("f:ownerReferences"))).map(Self)
    }
}

/// Whether an object has a member, and that member has this one.
struct Within(&'static str, Option<&'static str>);

impl<'de> Visitor<'de> for Within {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a set of fields")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let Self(member, inner) = self;
        let mut found = false;
        while let Some(Name(name)) = members.next_key()? {
            match inner.filter(|_| name == member) {
                Some(inner) => found |= members.next_value_seed(Seed(inner))?,
                None => {
                    found |= inner.is_none() && name == member;
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Reads whether an object has a member.
struct Seed(&'static str);

impl<'de> serde::de::DeserializeSeed<'de> for Seed {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(Within(self.0, None))
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(manager: &str, subresource: &str, second: u8, fields: &Value) -> Value {
        let time = format!("2026-11-28T05:00:{second:02}Z");
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields});
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    /// `STATUS OWNED`, each as `MANAGER@SECOND`. Both ways of reading must agree.
    #[track_caller]
    fn check(entries: &[Value], wanted: &str) {
        let text = json!(entries).to_string();
        let ManagedFields(read) = serde_json::from_str(&text).expect("managed fields");
        let typed: Vec<ManagedFieldsEntry> = serde_json::from_str(&text).expect("managed fields");
        assert_eq!(read, ForeignWrites::of(Some(&typed)), "{text}");
        let shown = |write: &Option<ForeignWrite>| {
            write.as_ref().map_or_else(|| "-".to_owned(), |write| format!("{}@{}", write.manager, write.at.as_second() % 60))
        };
        let found = read.unwrap_or_default();
        assert_eq!(format!("{} {}", shown(&found.status), shown(&found.owned)), wanted, "{text}");
    }

    #[test]
    fn writes_of_other_controllers_are_distinguished_from_those_of_users_and_of_berth() {
        let owners =
            json!({"f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {".": {}, "k:{\"uid\":\"1\"}": {}}}, "f:spec": {}});
        let labels = json!({"f:metadata": {"f:labels": {"f:ownerReferences": {}}}, "f:ownerReferences": {}});
        let status = json!({"f:status": {"f:replicas": {}}});
        check(&[], "- -");
        check(&[entry("berth-controller-manager", "", 1, &owners), entry("berth-controller-manager", "status", 2, &status)], "- -");
        check(&[entry("kube-controller-manager", "", 1, &owners)], "- kube-controller-manager@1");
        check(&[entry("kubectl-label", "", 1, &labels), entry("kubectl", "scale", 2, &labels)], "- -");
        check(&[entry("k3s", "status", 3, &status), entry("kubelite", "status", 2, &status)], "k3s@3 -");
        check(&[entry("kcm", "", 5, &owners), entry("kcm", "status", 7, &status)], "kcm@7 kcm@5");
        check(&[json!({"manager": "kcm", "subresource": "status"}), json!({"manager": "kcm", "time": null, "fieldsV1": null})], "- -");
    }
}
