//! Labels, and label selectors of workloads.

use berth_api::selector::LabelSource;
use berth_identity::Recent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
};
use std::{borrow::Cow, collections::BTreeMap, fmt, hash::Hash, sync::Arc};

type Pairs = [(Box<str>, Box<str>)];

/// Labels of an object. Cheap to clone. Objects with equal labels, such as the pods of one template, usually share them.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(
    /// By key.
    Arc<Pairs>,
);

impl Labels {
    /// The value of one label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        LabelSource::get(&*self.0, key)
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether both share the same labels. Labels that are not shared can still be equal.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels of a decoded object, shared with equal ones.
    #[must_use]
    pub fn shared(labels: &BTreeMap<String, String>) -> Self {
        let pairs: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        shared(&pairs)
    }

    /// Copies the labels with one more, or with another value of one.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Self {
        self.iter().chain([(key, value)]).collect()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl LabelSource for Labels {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &str) -> Option<&str> {
        Self::get(self, key)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter()
    }
}

/// The last of several values for a key counts.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let by_key: BTreeMap<Box<str>, Box<str>> =
            labels.into_iter().map(|(key, value)| (key.as_ref().into(), value.as_ref().into())).collect();
        Self(by_key.into_iter().collect())
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const N: usize> From<[(K, V); N]> for Labels {
    fn from(labels: [(K, V); N]) -> Self {
        labels.into_iter().collect()
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// A text that is copied only if the JSON escapes it.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Reader;

thread_local! {
    static RECENT: Recent<Pairs> = const { Recent::new() };
}

impl<'de> Visitor<'de> for Reader {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Labels, M::Error> {
        let mut read: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::with_capacity(map.size_hint().unwrap_or(8));
        while let Some((Text(key), Text(value))) = map.next_entry()? {
            read.push((key, value));
        }
        if !read.is_sorted_by(|(before, _), (after, _)| before < after) {
            read = read.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        }
        Ok(shared(&read))
    }
}

/// Labels by key, shared with equal ones.
fn shared<T: AsRef<str> + Hash>(read: &[(T, T)]) -> Labels {
    let is_same = |known: &Pairs| {
        let pairs = known.iter().zip(read);
        known.len() == read.len() && pairs.into_iter().all(|(known, read)| *known.0 == *read.0.as_ref() && *known.1 == *read.1.as_ref())
    };
    let make = || read.iter().map(|(key, value)| (Box::from(key.as_ref()), Box::from(value.as_ref()))).collect();
    let bytes = read.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len()).sum();
    Labels(RECENT.with(|recent| recent.share(bytes, read, is_same, make)))
}

/// A parsed label selector of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(berth_api::Selector);

impl Selector {
    /// Parses a selector. `None` if it is not valid: such a selector selects nothing, and its object is not reconciled.
    #[must_use]
    pub fn parse(selector: &LabelSelector) -> Option<Self> {
        berth_api::Selector::from_label_selector(selector).ok().map(Self)
    }

    /// Whether it has no requirement, so that it matches every object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_everything()
    }

    /// A label that every matching object has, with its value. `None` if no requirement demands exactly one value.
    #[must_use]
    pub fn required_label(&self) -> Option<(&str, &str)> {
        self.0.required_label()
    }

    /// Whether `labels` meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.matches(labels)
    }
}

/// In kubectl's form.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// As text, in kubectl's form.
impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        berth_api::Selector::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Labels {
        serde_json::from_str(json).expect("labels")
    }

    #[test]
    fn selectors_see_every_label() {
        let labels = Labels::from([("tier", "db"), ("app", "web")]);
        assert_eq!(LabelSource::pairs(&labels).collect::<Vec<_>>(), [("app", "web"), ("tier", "db")]);
    }

    #[test]
    fn labels_are_shared_with_their_copies_and_not_with_others_that_are_equal() {
        let (one, other) = (Labels::from([("app", "web")]), Labels::from([("app", "web")]));
        assert!(one.is_shared_with(&one.clone()) && !one.is_shared_with(&other) && one == other);
    }

    #[test]
    fn labels_that_are_read_are_kept_once_whatever_their_order() {
        let (one, other) = (read(r#"{"b": "2", "a": "\u0031"}"#), read(r#"{"a": "1", "b": "2"}"#));
        assert!(Arc::ptr_eq(&one.0, &other.0));
        assert!(Arc::ptr_eq(&one.0, &Labels::shared(&[("b", "2"), ("a", "1")].map(|(key, value)| (key.into(), value.into())).into()).0));
        let long = |value: usize| read(&serde_json::json!({"k".repeat(512): "v".repeat(value)}).to_string());
        assert!(Arc::ptr_eq(&long(512).0, &long(512).0) && !Arc::ptr_eq(&long(513).0, &long(513).0), "up to a KiB of texts");
        assert_eq!(one.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!(one, Labels::from([("b", "0"), ("a", "1"), ("b", "2")]), "the last value of a key counts");
        assert_eq!(read(r#"{"b": "0", "a": "1", "b": "2"}"#), one);
        assert_eq!(read(r#"{"b": "0", "b": "2"}"#), Labels::from([("b", "2")]), "also where its others stand beside it");
        assert_ne!(read(r#"{"a": "1", "b": ""}"#), one);
        assert_eq!((one.get("b"), one.get("c"), read("{}").is_empty(), one.is_empty()), (Some("2"), None, true, false));
        assert_eq!(format!("{one:?}"), r#"{"a": "1", "b": "2"}"#);
        assert_eq!(one.with("b", "3").with("c", "4"), Labels::from([("a", "1"), ("b", "3"), ("c", "4")]));
    }

    #[test]
    fn labels_are_counted_and_what_is_none_is_refused() {
        assert_eq!([read("{}"), read(r#"{"a": "1", "b": "2"}"#)].map(|labels| LabelSource::count(&labels)), [0, 2]);
        let error = serde_json::from_str::<Labels>("1").expect_err("no labels").to_string();
        assert!(error.starts_with("invalid type: integer `1`, expected labels"), "{error}");
    }

    #[test]
    fn a_label_that_a_selector_asks_for_is_named() {
        let required = |selector: serde_json::Value| {
            let selector = serde_json::from_value(selector).expect("a selector");
            Selector::parse(&selector).expect("a valid one").required_label().map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        assert_eq!(required(serde_json::json!({"matchLabels": {"app": "web"}})), Some(("app".to_owned(), "web".to_owned())));
        assert_eq!(required(serde_json::json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})), None);
    }
}
