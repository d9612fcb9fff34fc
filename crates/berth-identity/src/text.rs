//! The texts that identify an object. Each is a type of its own, so that the compiler rejects a mix-up.

use crate::Recent;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $read:ident) => {
        $(#[$doc])*
        #[derive(Clone, Default, Eq)]
        pub struct $name(Arc<str>);

        /// Compares the texts. Two values that share a text are equal without a comparison.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<&String> for $name {
            fn from(text: &String) -> Self {
                Self(text.as_str().into())
            }
        }

        /// Clones without a copy of the text.
        impl From<&$name> for $name {
            fn from(other: &$name) -> Self {
                other.clone()
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        /// A missing field is the empty text.
        impl From<Option<String>> for $name {
            fn from(text: Option<String>) -> Self {
                text.map(Self::from).unwrap_or_default()
            }
        }

        /// A missing field is the empty text.
        impl From<Option<$name>> for $name {
            fn from(text: Option<$name>) -> Self {
                text.unwrap_or_default()
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.as_str().to_owned()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl PartialEq<String> for $name {
            fn eq(&self, other: &String) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<$name> for str {
            fn eq(&self, other: &$name) -> bool {
                self == other.as_str()
            }
        }

        impl PartialEq<$name> for String {
            fn eq(&self, other: &$name) -> bool {
                self == other.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($read).map(Self)
            }
        }
    };
}

text! {
    /// `metadata.uid`: identifies one object, and never a later object of the same name. Cheap to clone.
    Uid, Own
}
text! {
    /// `metadata.namespace`, empty for cluster-scoped objects. Cheap to clone.
    Namespace, Shared
}
text! {
    /// `metadata.name`. Cheap to clone.
    Name, Own
}
text! {
    /// `spec.nodeName` of a pod, empty before the pod is scheduled. Cheap to clone.
    NodeName, Shared
}
text! {
    /// The value of the label `pod-template-hash`, which identifies a template. Cheap to clone.
    TemplateHash, Shared
}

/// Decodes a text that is unique to one object.
struct Own;

impl de::Visitor<'_> for Own {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(text.into())
    }
}

/// Decodes a text that many objects have.
struct Shared;

thread_local! {
    static RECENT: Recent<str> = const { Recent::new() };
}

impl de::Visitor<'_> for Shared {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(shared(text))
    }
}

pub(crate) fn shared(text: &str) -> Arc<str> {
    RECENT.with(|recent| recent.share(text.len(), text, |known| known == text, || text.into()))
}

impl Namespace {
    /// Returns the namespace of this name. It shares its text with equal names that this thread read recently.
    #[must_use]
    pub fn shared(text: &str) -> Self {
        Self(shared(text))
    }
}

impl NodeName {
    /// Returns the node of this name. It shares its text with equal names that this thread read recently.
    #[must_use]
    pub fn shared(text: &str) -> Self {
        Self(shared(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_whether_they_are_shared_or_not() {
        let [a, b] = ["a", "b"].map(Uid::from);
        for (one, other, wanted) in [
            (&a, &a.clone(), Ordering::Equal),
            (&a, &Uid::from("a"), Ordering::Equal),
            (&a, &b, Ordering::Less),
            (&b, &a, Ordering::Greater),
        ] {
            assert_eq!((one.cmp(other), one.partial_cmp(other), one == other), (wanted, Some(wanted), wanted == Ordering::Equal));
        }
    }

    #[test]
    fn the_wire_form_is_the_text() {
        let uid: Uid = serde_json::from_str("\"a\\u0062\"").expect("a string");
        assert_eq!((uid.as_str(), serde_json::to_string(&uid).expect("a string")), ("ab", "\"ab\"".to_owned()));
        assert!(serde_json::from_str::<Uid>("null").is_err() && serde_json::from_str::<Uid>("1").is_err());
    }

    #[test]
    fn namespaces_that_are_read_share_their_text() {
        let read = || serde_json::from_str::<Namespace>("\"shop\"").expect("a string");
        assert!(std::ptr::eq(read().as_str(), read().as_str()));
        assert!(std::ptr::eq(read().as_str(), Namespace::shared("shop").as_str()));
    }

    #[test]
    fn a_clone_shares_its_text() {
        let name = Name::from("web");
        assert!(std::ptr::eq(name.as_str(), name.clone().as_str()));
    }
}
