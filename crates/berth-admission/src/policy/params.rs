//! The parameters of a policy.

use berth_api::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// The kind of the parameters of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamKind {
    /// `v1`, `rules.example.com/v1`.
    pub api_version: String,
    /// `ConfigMap`.
    pub kind: String,
}

impl ParamKind {
    pub(super) fn read(kind: &Value) -> Self {
        let text = |name: &str| kind.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { api_version: text("apiVersion"), kind: text("kind") }
    }
}

/// As upstream prints it: `rules.example.com/v1, Kind=Limit`.
impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version, self.kind)
    }
}

/// Where a binding finds its parameters.
#[derive(Clone, Debug)]
pub struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Selector>,
    /// What happens if there are none.
    pub not_found: NotFound,
}

/// What happens if there are no parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The policy does not apply.
    Allow,
    /// The policy cannot be evaluated: its failure policy decides.
    Deny,
}

/// The parameters to read.
#[derive(Clone, Debug)]
pub enum ParamQuery<'a> {
    /// None: expressions see `null`.
    Null,
    /// An object.
    One {
        /// `None`: it is cluster-scoped.
        namespace: Option<&'a str>,
        /// Its name.
        name: &'a str,
    },
    /// Each object that a selector matches.
    Selected {
        /// `None`: they are cluster-scoped.
        namespace: Option<&'a str>,
        /// The selector.
        selector: &'a Selector,
    },
}

/// Why there are no parameters, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A cluster-scoped kind has no namespaces.
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    NamespaceOfClusterScoped,
    /// The request has no namespace to search.
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    /// The binding requires parameters.
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
    /// The selector of the binding matches more objects than this.
    #[error("the selector of the binding matches more than {0} params")]
    TooMany(u16),
    /// No such kind is served.
    #[error("failed to find resource referenced by paramKind: '{0}'")]
    UnknownKind(ParamKind),
}

impl ParamRef {
    pub(super) fn read(params: &Value) -> Self {
        let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let selector = params.get("selector").filter(|selector| !selector.is_null()).map(|selector| {
            let selector = LabelSelector::deserialize(selector).ok();
            selector.and_then(|selector| Selector::from_label_selector(&selector).ok()).unwrap_or_else(Selector::nothing)
        });
        Self {
            name: text("name").to_owned(),
            namespace: text("namespace").to_owned(),
            selector,
            not_found: if text("parameterNotFoundAction") == "Allow" { NotFound::Allow } else { NotFound::Deny },
        }
    }

    /// Returns the parameters of a kind that is namespaced or not, for a request in a namespace (empty: in none).
    ///
    /// # Errors
    /// They cannot be read.
    pub fn query<'a>(&'a self, is_namespaced: bool, namespace: &'a str) -> Result<ParamQuery<'a>, ParamsError> {
        let namespace = match (is_namespaced, self.namespace.as_str()) {
            (true, "") if namespace.is_empty() => return Err(ParamsError::NoNamespace),
            (true, "") => Some(namespace),
            (true, own) => Some(own),
            (false, "") => None,
            (false, _) => return Err(ParamsError::NamespaceOfClusterScoped),
        };
        Ok(match &self.selector {
            _ if !self.name.is_empty() => ParamQuery::One { namespace, name: &self.name },
            Some(selector) => ParamQuery::Selected { namespace, selector },
            None => ParamQuery::Null,
        })
    }
}
