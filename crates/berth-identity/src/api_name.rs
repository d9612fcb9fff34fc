//! One name of the Kubernetes API.

use crate::text::shared;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

/// The name of a group, a version, a kind or a resource. Names of built-in kinds are static. The clones of any other name
/// share its text, and the last of them frees it. A clone costs at most one counter. Names compare by their texts.
#[derive(Clone)]
pub struct ApiName(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl ApiName {
    /// The empty name, which the core group has.
    pub const EMPTY: Self = Self::from_static("");

    /// Returns a static name: nothing is copied or counted.
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        Self(Text::Static(name))
    }

    /// Returns a name that many objects have. It shares its text with equal names that this thread read recently.
    #[must_use]
    pub fn shared(name: &str) -> Self {
        if name.is_empty() { Self::EMPTY } else { Self(Text::Shared(shared(name))) }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(name) => name,
            Text::Shared(name) => name,
        }
    }
}

impl Default for ApiName {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for ApiName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ApiName {}

impl PartialOrd for ApiName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ApiName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for ApiName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Deref for ApiName {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for ApiName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for ApiName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// Copies the text.
impl From<&str> for ApiName {
    fn from(name: &str) -> Self {
        if name.is_empty() { Self::EMPTY } else { Self(Text::Shared(name.into())) }
    }
}

impl From<&String> for ApiName {
    fn from(name: &String) -> Self {
        name.as_str().into()
    }
}

impl From<String> for ApiName {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

/// Shares the text.
impl From<&ApiName> for ApiName {
    fn from(name: &ApiName) -> Self {
        name.clone()
    }
}

impl From<ApiName> for String {
    fn from(name: ApiName) -> Self {
        name.as_str().to_owned()
    }
}

impl PartialEq<str> for ApiName {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for ApiName {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for ApiName {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<ApiName> for str {
    fn eq(&self, other: &ApiName) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<ApiName> for &str {
    fn eq(&self, other: &ApiName) -> bool {
        *self == other.as_str()
    }
}

impl PartialEq<ApiName> for String {
    fn eq(&self, other: &ApiName) -> bool {
        self == other.as_str()
    }
}

impl fmt::Display for ApiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for ApiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for ApiName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for ApiName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Read)
    }
}

struct Read;

impl de::Visitor<'_> for Read {
    type Value = ApiName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ApiName, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lookup;
    use std::sync::Weak;

    const PODS: ApiName = ApiName::from_static("pods");

    fn text(name: &ApiName) -> Weak<str> {
        match &name.0 {
            Text::Static(_) => panic!("{name} is in the program"),
            Text::Shared(text) => Arc::downgrade(text),
        }
    }

    #[test]
    fn a_name_is_its_text_wherever_that_is_kept() {
        let read = ApiName::from("pods".to_owned());
        assert_eq!((PODS.cmp(&read), PODS.partial_cmp(&read), PODS == read), (Ordering::Equal, Some(Ordering::Equal), true));
        assert_eq!(ApiName::shared("pods").cmp(&ApiName::from("nodes")), Ordering::Greater);
        let mut known = Lookup::default();
        known.insert(PODS, 1);
        assert_eq!((known.get(&read), known.get("pods")), (Some(&1), Some(&1)));
    }

    #[test]
    fn names_that_users_give_are_freed_with_their_last_user() {
        let names: Vec<ApiName> = (0..10_000).map(|index| format!("widgets-{index}").into()).collect();
        let texts: Vec<Weak<str>> = names.iter().map(text).collect();
        let clones = names.clone();
        drop(names);
        assert!(clones.iter().zip(&texts).all(|(name, text)| std::ptr::eq(name.as_str(), &*text.upgrade().expect("a clone has it"))));
        drop(clones);
        assert_eq!(texts.iter().filter(|text| text.upgrade().is_some()).count(), 0);
    }

    #[test]
    fn of_names_that_were_read_lately_a_few_stay() {
        let texts: Vec<Weak<str>> = (0..10_000).map(|index| text(&ApiName::shared(&format!("gadgets-{index}")))).collect();
        let kept = texts.iter().filter(|text| text.upgrade().is_some()).count();
        assert!(kept <= 256, "{kept} are kept");
        assert!(std::ptr::eq(ApiName::shared("gadgets").as_str(), ApiName::shared("gadgets").as_str()));
    }

    #[test]
    fn the_wire_form_is_the_text() {
        let name: ApiName = serde_json::from_str("\"po\\u0064s\"").expect("a string");
        assert_eq!((&name, serde_json::to_string(&PODS).expect("a string")), (&PODS, "\"pods\"".to_owned()));
        assert!(serde_json::from_str::<ApiName>("1").is_err());
        assert_eq!(format!("{PODS:>6}|{PODS:?}"), "  pods|\"pods\"");
    }
}
