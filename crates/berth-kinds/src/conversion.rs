//! From one version of a kind to another.

use serde_json::Value;
use std::{fmt, sync::Arc};

/// How objects of one version become objects of another.
#[derive(Clone, Default)]
pub enum Conversion {
    /// All versions hold the same: only the `apiVersion` differs.
    #[default]
    None,
    /// By code.
    By(Arc<dyn Convert>),
    /// By a server outside berth, which the caller asks. [`Conversion::convert`] cannot.
    Webhook(Arc<ConversionWebhook>),
}

/// The webhook that a custom resource definition names for conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversionWebhook {
    /// `clientConfig` as it is in the definition: `url` or `service`, and `caBundle`.
    pub client_config: Value,
    /// The versions of `ConversionReview` that it understands, in order of preference.
    pub review_versions: Vec<String>,
}

/// Converts objects. It is pure: the same object gives the same result.
pub trait Convert: Send + Sync + 'static {
    /// Converts an object between two versions of its kind (`v1`, `v2`). It can be called for objects of which parts are missing. The caller
    /// sets `apiVersion`. Of the metadata, only labels and annotations can change.
    ///
    /// # Errors
    /// [`ConvertError`].
    fn convert(&self, object: &mut Value, from: &str, to: &str) -> Result<(), ConvertError>;
}

/// Why an object has no counterpart in another version, in the words of the kind's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub String);

/// Why an object could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("conversion from {from} to {to} failed: {why}")]
pub struct ConversionError {
    /// `example.com/v1`.
    pub from: String,
    /// `example.com/v2`.
    pub to: String,
    /// What was wrong.
    pub why: String,
}

impl Conversion {
    /// Converts an object between versions of a group.
    ///
    /// # Errors
    /// The converter fails, or changes what it must not.
    pub fn convert(&self, object: &mut Value, group: &str, from: &str, to: &str) -> Result<(), ConversionError> {
        let api_version = |version: &str| if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let failed = |why: String| ConversionError { from: api_version(from), to: api_version(to), why };
        if let (Self::Webhook(_), false) = (self, from == to) {
            return Err(failed("a webhook converts objects of this kind".to_owned()));
        }
        if let (Self::By(converter), false) = (self, from == to) {
            let identity = |object: &Value| {
                let mut metadata = object.get("metadata").cloned().unwrap_or_default();
                if let Some(members) = metadata.as_object_mut() {
                    members.retain(|name, _| !matches!(name.as_str(), "labels" | "annotations"));
                }
                (metadata, object.get("kind").cloned())
            };
            let before = identity(object);
            converter.convert(object, from, to).map_err(|error| failed(error.to_string()))?;
            if !object.is_object() || identity(object) != before {
                return Err(failed("the converter changed the kind, or metadata other than labels and annotations".to_owned()));
            }
        }
        object["apiVersion"] = api_version(to).into();
        Ok(())
    }
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::By(_) => "By",
            Self::Webhook(_) => "Webhook",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `v2` calls the size `length`. It renames an object with `rename`.
    struct Renamed;

    impl Convert for Renamed {
        fn convert(&self, object: &mut Value, _: &str, to: &str) -> Result<(), ConvertError> {
            let (before, after) = if to == "v2" { ("size", "length") } else { ("length", "size") };
            let Some(members) = object.as_object_mut() else { return Err(ConvertError("it is no object".to_owned())) };
            members.remove(before).and_then(|value| members.insert(after.to_owned(), value));
            if members.remove("rename").is_some() {
                object["metadata"]["name"] = json!("other");
            }
            Ok(())
        }
    }

    #[test]
    fn an_object_is_converted_and_keeps_its_identity() {
        let conversion = Conversion::By(Arc::new(Renamed));
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}, "size": 1});
        conversion.convert(&mut object, "example.com", "v1", "v2").expect("converts");
        assert_eq!(object, json!({"apiVersion": "example.com/v2", "kind": "A", "metadata": {"name": "a"}, "length": 1}));
        object["rename"] = json!(true);
        let error = conversion.convert(&mut object, "example.com", "v2", "v1").expect_err("the name changed").to_string();
        let wanted = "conversion from example.com/v2 to example.com/v1 failed: the converter changed the kind, or metadata other than labels and annotations";
        assert_eq!(error, wanted);
    }

    #[test]
    fn without_a_converter_only_the_version_changes() {
        let mut object = json!({"apiVersion": "v1", "kind": "A", "size": 1});
        Conversion::None.convert(&mut object, "", "v1", "v2").expect("converts");
        assert_eq!(object, json!({"apiVersion": "v2", "kind": "A", "size": 1}));
    }
}
