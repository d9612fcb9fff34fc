//! Reads the [`Header`] of a stored value: what selectors, owners and encoders need, in one pass and without a tree.

use crate::{
    key,
    resource::{ResourceTable, SelectableField},
};
use berth_store::{Header, HeaderOf, Key};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

/// Boolean fields whose absence means `false` to a selector.
const FALSE_IF_ABSENT: &[&str] = &["spec.unschedulable", "spec.hostNetwork"];

/// The function that a store needs to index values: it reads what the kinds want that `table` has at that moment.
#[must_use]
pub fn header_of(table: &Arc<ResourceTable>) -> HeaderOf {
    let table = Arc::clone(table);
    Arc::new(move |key: &Key, value: &[u8]| {
        let resources = table.resources();
        let of_key = |parts: key::KeyParts<'_>| {
            let group = if parts.group == "core" { "" } else { parts.group };
            resources.by_name(group, parts.plural).map(|resource| resource.selectable_fields.as_slice())
        };
        read(key::parts(key).and_then(of_key).unwrap_or_default(), value)
    })
}

/// The header of one value. A value that is no object of ours (a damaged one, a stranger's in a shared etcd) has the empty header.
pub(crate) fn read(selectable: &[SelectableField], value: &[u8]) -> Header {
    let wanted: Vec<Wanted<'_>> = selectable.iter().map(|field| (&field.name, field.pointer.as_str())).collect();
    let mut found = Found { metadata: None, fields: Vec::new() };
    let mut json = serde_json::Deserializer::from_slice(value);
    if (Top { wanted: &wanted, found: &mut found }).deserialize(&mut json).is_err() {
        return Header::default();
    }
    let Some(raw) = found.metadata.map(RawValue::get).filter(|raw| raw.starts_with('{')) else { return Header::default() };
    let Ok(meta) = serde_json::from_str::<Meta<'_>>(raw) else { return Header::default() };
    for known in selectable {
        if !found.fields.iter().any(|(there, _)| *there == known.name) {
            let empty = if FALSE_IF_ABSENT.contains(&&*known.name) { "false" } else { "" };
            found.fields.push((Arc::clone(&known.name), empty.into()));
        }
    }
    found.fields.sort_unstable();
    let offset = raw.as_ptr() as usize - value.as_ptr() as usize + 1;
    Header {
        labels: meta.labels.unwrap_or_default().into_iter().map(|(k, v)| (k.0.into(), v.0.into())).collect(),
        fields: found.fields.into(),
        uid: meta.uid.unwrap_or_default().into(),
        metadata_at: u32::try_from(offset).unwrap_or(0),
    }
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
}

/// Text that is copied only where the JSON escapes it.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Found<'de> {
    metadata: Option<&'de RawValue>,
    fields: Vec<(Arc<str>, Box<str>)>,
}

/// A field, and what is left of its pointer.
type Wanted<'a> = (&'a Arc<str>, &'a str);

/// The object itself: keeps the metadata's text, looks for the wanted pointers in the other members.
struct Top<'a, 'de> {
    wanted: &'a [Wanted<'a>],
    found: &'a mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for Top<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an API object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(member)) = map.next_key()? {
            if member == "metadata" {
                self.found.metadata = Some(map.next_value()?);
            } else {
                visit_member(&mut map, &member, self.wanted, &mut self.found.fields)?;
            }
        }
        Ok(())
    }
}

/// One member of an object: looked into if a wanted pointer leads there.
fn visit_member<'de, A: MapAccess<'de>>(
    map: &mut A,
    member: &str,
    wanted: &[Wanted<'_>],
    fields: &mut Vec<(Arc<str>, Box<str>)>,
) -> Result<(), A::Error> {
    let inside: Vec<Wanted<'_>> = wanted.iter().filter_map(|(field, pointer)| Some((*field, below(pointer, member)?))).collect();
    if inside.is_empty() {
        map.next_value::<IgnoredAny>()?;
    } else {
        map.next_value_seed(Inside { wanted: &inside, fields })?;
    }
    Ok(())
}

/// What is left of a JSON pointer below `member`.
fn below<'a>(pointer: &'a str, member: &str) -> Option<&'a str> {
    let rest = pointer.strip_prefix('/')?.strip_prefix(member)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A value that at least one pointer leads into or ends at.
struct Inside<'a> {
    wanted: &'a [Wanted<'a>],
    fields: &'a mut Vec<(Arc<str>, Box<str>)>,
}

impl Inside<'_> {
    fn keep(self, text: &str) {
        for (field, _) in self.wanted.iter().filter(|(_, rest)| rest.is_empty()) {
            match self.fields.iter_mut().find(|(there, _)| there == *field) {
                // The elements of a list (pod IPs) make one value, as upstream joins them.
                Some((_, value)) => *value = format!("{value},{text}").into(),
                None => self.fields.push((Arc::clone(field), text.into())),
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Inside<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inside<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(member)) = map.next_key()? {
            visit_member(&mut map, &member, self.wanted, self.fields)?;
        }
        Ok(())
    }

    /// A list whose elements are objects of one member that counts, such as `podIPs[].ip`.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let inside: Vec<Wanted<'_>> =
            self.wanted.iter().map(|(field, rest)| (*field, if rest.is_empty() { "/ip" } else { rest })).collect();
        while list.next_element_seed(Inside { wanted: &inside, fields: self.fields })?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.keep(text);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.keep(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.keep(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.keep(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.keep(&value.to_string());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The value of a selectable field; empty if the object does not have it. `None`: the header was made when the kind did not have that field,
/// or was not there.
pub(crate) fn field<'a>(header: &'a Header, name: &str) -> Option<&'a str> {
    header.fields.iter().find(|(field, _)| **field == *name).map(|(_, value)| &**value)
}

/// The value of a label.
pub(crate) fn label<'a>(header: &'a Header, key: &str) -> Option<&'a str> {
    let at = header.labels.binary_search_by(|(there, _)| (**there).cmp(key)).ok()?;
    Some(&header.labels[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<SelectableField> {
        let of = |name: &str| SelectableField { name: name.into(), pointer: format!("/{}", name.replace('.', "/")) };
        ["spec.hostNetwork", "spec.nodeName", "status.phase", "status.podIPs"].map(of).into()
    }

    #[test]
    fn header_holds_labels_uid_and_selectable_fields() {
        let value = br#"{"apiVersion":"v1","kind":"Pod","data":{"metadata":{"x":1}},"metadata":{"labels":{"b":"2","a":"\"1\""},"uid":"u"},
            "spec":{"nodeName":"n1","nodeNamed":"x","containers":[{"name":"c"}]},"status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd::1"}]}}"#;
        let header = read(&fields(), value);
        assert_eq!(*header.labels, [("a".into(), "\"1\"".into()), ("b".into(), "2".into())]);
        assert_eq!(&*header.uid, "u");
        let wanted =
            [("spec.hostNetwork", "false"), ("spec.nodeName", "n1"), ("status.phase", "Running"), ("status.podIPs", "10.0.0.1,fd::1")];
        assert_eq!(header.fields.iter().map(|(k, v)| (&**k, &**v)).collect::<Vec<_>>(), wanted);
        assert!(value[header.metadata_at as usize..].starts_with(br#""labels""#));
        assert_eq!(label(&header, "b"), Some("2"));
        assert_eq!(field(&header, "spec.nodeName"), Some("n1"));
        assert_eq!(field(&read(&fields(), br#"{"metadata":{}}"#), "spec.nodeName"), Some(""));
        assert_eq!(field(&header, "spec.other"), None);
    }

    #[test]
    fn a_value_that_is_no_object_has_the_empty_header() {
        for value in ["", "[]", "{", r#"{"metadata":1}"#, r#"{"a":1}"#, r#"{"metadata":{"uid":5}}"#] {
            assert_eq!(read(&fields(), value.as_bytes()), Header::default(), "{value}");
        }
    }
}
