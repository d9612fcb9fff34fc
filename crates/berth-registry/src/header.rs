//! Decodes the [`Header`] of a stored value: the fields for selectors, owners and encoders, in one pass and without a
//! JSON tree.

use crate::resource::{Resource, ResourceTable, SelectableField};
use berth_api::Object;
use berth_store::{Entry, Header, Key, Layout};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

/// Uses the kinds that exist at that moment.
impl Layout for ResourceTable {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.resources().by_key(text).map(|resource| &text[..resource.prefix().len()])
    }

    fn to_come(&self, entry: &Entry) -> usize {
        self.resources().by_key(entry.key.as_str()).and_then(|resource| resource.growth).map_or(0, |growth| growth(entry))
    }

    fn header(&self, key: &Key, value: &[u8]) -> Header {
        let resources = self.resources();
        read(resources.by_key(key.as_str()).map_or(&[], |resource| &resource.selectable_fields), value)
    }
}

/// Returns the header of one value. An invalid value (damaged, or of another program in a shared etcd) has the empty
/// header.
pub(crate) fn read(selectable: &[SelectableField], value: &[u8]) -> Header {
    let wanted: Vec<Wanted<'_>> = selectable.iter().map(|field| (&field.name, field.pointer.as_str())).collect();
    let mut found = Found { metadata: None, fields: Vec::new() };
    let Ok(text) = std::str::from_utf8(value) else { return Header::default() };
    let mut json = serde_json::Deserializer::from_str(text);
    if (Top { wanted: &wanted, found: &mut found }).deserialize(&mut json).is_err() {
        return Header::default();
    }
    let Some(raw) = found.metadata.map(RawValue::get).filter(|raw| raw.starts_with('{')) else { return Header::default() };
    let Ok(meta) = serde_json::from_str::<Meta<'_>>(raw) else { return Header::default() };
    for known in selectable {
        if !found.fields.iter().any(|(there, _)| *there == known.name) {
            found.fields.push((Arc::clone(&known.name), known.absent.to_owned()));
        }
    }
    found.fields.sort_unstable();
    let labels: Vec<(Text<'_>, Text<'_>)> = meta.labels.unwrap_or_default().into_iter().collect();
    let offset = raw.as_ptr() as usize - value.as_ptr() as usize + 1;
    Header {
        labels: shared::labels(&labels),
        fields: shared::names(&found.fields),
        values: found.fields.iter().map(|(_, value)| shared::value(value)).collect(),
        uid: meta.uid.unwrap_or_default().into(),
        metadata_at: u32::try_from(offset).unwrap_or(0),
    }
}

/// Returns the header of an object's stored value without decoding it. `None` if the object's type does not expose all
/// selectable fields.
pub(crate) fn of(resource: &Resource, object: &dyn Object, value: &[u8]) -> Option<Header> {
    let fields: Option<Vec<_>> =
        resource.selectable_fields.iter().map(|field| Some((Arc::clone(&field.name), object.selectable(&field.name)?))).collect();
    let fields = fields.filter(|fields| fields.is_sorted_by(|(one, _), (other, _)| one < other))?;
    let meta = object.meta();
    let labels: Vec<(Text<'_>, Text<'_>)> =
        meta.labels.iter().flatten().map(|(key, value)| (Text(Cow::Borrowed(key)), Text(Cow::Borrowed(value)))).collect();
    Some(Header {
        labels: shared::labels(&labels),
        fields: shared::names(&fields),
        values: fields.iter().map(|(_, value)| shared::value(value)).collect(),
        uid: meta.uid.as_deref().unwrap_or_default().into(),
        metadata_at: metadata_at(object, value)?,
    })
}

/// Returns the position of the metadata in the stored form of an object of a Rust type.
fn metadata_at(object: &dyn Object, value: &[u8]) -> Option<u32> {
    let parts = ["{\"apiVersion\":\"", object.api_version(), "\",\"kind\":\"", object.kind(), "\",\"metadata\":{"];
    let rest = parts.into_iter().try_fold(value, |rest, part| rest.strip_prefix(part.as_bytes()))?;
    u32::try_from(value.len() - rest.len()).ok()
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Text<'a>, Text<'a>>>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
}

/// A text that is copied only if the JSON escapes it.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Found<'de> {
    metadata: Option<&'de RawValue>,
    fields: Vec<(Arc<str>, String)>,
}

/// A field, and the rest of its JSON pointer.
type Wanted<'a> = (&'a Arc<str>, &'a str);

/// Visits the object: keeps the metadata's text, and searches the other members for the wanted pointers.
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

/// Visits one member of an object if a wanted pointer leads there.
fn visit_member<'de, A: MapAccess<'de>>(
    map: &mut A,
    member: &str,
    wanted: &[Wanted<'_>],
    fields: &mut Vec<(Arc<str>, String)>,
) -> Result<(), A::Error> {
    let inside: Vec<Wanted<'_>> = wanted.iter().filter_map(|(field, pointer)| Some((*field, below(pointer, member)?))).collect();
    if inside.is_empty() {
        map.next_value::<IgnoredAny>()?;
    } else {
        map.next_value_seed(Inside { wanted: &inside, fields })?;
    }
    Ok(())
}

/// Returns the rest of a JSON pointer below `member`.
fn below<'a>(pointer: &'a str, member: &str) -> Option<&'a str> {
    let rest = pointer.strip_prefix('/')?.strip_prefix(member)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Visits a value on the path of at least one pointer.
struct Inside<'a> {
    wanted: &'a [Wanted<'a>],
    fields: &'a mut Vec<(Arc<str>, String)>,
}

impl Inside<'_> {
    fn keep(self, text: &str) {
        for (field, _) in self.wanted.iter().filter(|(_, rest)| rest.is_empty()) {
            match self.fields.iter_mut().find(|(there, _)| there == *field) {
                // The elements of a list (pod IPs) are joined into one value, as upstream.
                Some((_, value)) => value.extend([",", text]),
                None => self.fields.push((Arc::clone(field), text.to_owned())),
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

    /// Visits a list of objects with one relevant member, such as `podIPs[].ip`.
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

/// Shares equal values of headers, so that a million headers fit into memory.
mod shared {
    use super::Text;
    use berth_identity::Recent;
    use std::sync::Arc;

    type Labels = [(Box<str>, Box<str>)];

    thread_local! {
        static LABELS: Recent<Labels> = const { Recent::new() };
        static NAMES: Recent<[Arc<str>]> = const { Recent::new() };
        static VALUES: Recent<str> = const { Recent::new() };
    }

    pub(super) fn labels(read: &[(Text<'_>, Text<'_>)]) -> Arc<Labels> {
        let same =
            |known: &Labels| known.iter().map(|(key, value)| (&**key, &**value)).eq(read.iter().map(|(key, value)| (&*key.0, &*value.0)));
        let make = || read.iter().map(|(key, value)| (Box::from(&*key.0), Box::from(&*value.0))).collect();
        let bytes = read.iter().map(|(key, value)| key.0.len() + value.0.len()).sum();
        LABELS.with(|recent| recent.share(bytes, read, same, make))
    }

    pub(super) fn names<V>(fields: &[(Arc<str>, V)]) -> Arc<[Arc<str>]> {
        let names = || fields.iter().map(|(name, _)| name);
        let key = names().next_back();
        let bytes = names().map(|name| name.len()).sum();
        NAMES.with(|recent| recent.share(bytes, key, |known| known.iter().eq(names()), || names().cloned().collect()))
    }

    pub(super) fn value(text: &str) -> Arc<str> {
        VALUES.with(|recent| recent.share(text.len(), text, |known| known == text, || text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<SelectableField> {
        let of = |name: &str| {
            let absent = if name == "spec.hostNetwork" { "false" } else { "" };
            SelectableField { name: name.into(), pointer: format!("/{}", name.replace('.', "/")), absent }
        };
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
        assert_eq!(header.fields.iter().zip(&header.values).map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>(), wanted);
        assert!(value[header.metadata_at as usize..].starts_with(br#""labels""#));
        assert_eq!((header.label("b"), header.label("c")), (Some("2"), None));
        assert_eq!(header.field("spec.nodeName"), Some("n1"));
        assert_eq!(read(&fields(), br#"{"metadata":{}}"#).field("spec.nodeName"), Some(""));
        assert_eq!(header.field("spec.other"), None);
    }

    #[test]
    fn what_headers_have_alike_they_keep_once() {
        let of = |name: &str| {
            let value = format!(r#"{{"metadata":{{"name":"{name}","labels":{{"a":"1","b":"2"}}}},"status":{{"phase":"Running"}}}}"#);
            read(&fields(), value.as_bytes())
        };
        let (one, other) = (of("one"), of("other"));
        assert!(Arc::ptr_eq(&one.labels, &other.labels) && Arc::ptr_eq(&one.fields, &other.fields));
        assert!(one.values.iter().zip(&other.values).all(|(one, other)| Arc::ptr_eq(one, other)));
    }

    #[test]
    fn a_value_that_is_no_object_has_the_empty_header() {
        for value in ["", "[]", "{", r#"{"metadata":1}"#, r#"{"a":1}"#, r#"{"metadata":{"uid":5}}"#] {
            assert_eq!(read(&fields(), value.as_bytes()), Header::default(), "{value}");
        }
    }
}
