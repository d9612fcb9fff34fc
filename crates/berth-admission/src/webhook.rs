//! One webhook of a configuration.

use crate::{Constraints, FailurePolicy, MatchConditions, rule::texts};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::time::Duration;

/// The timeout of a webhook that has none.
const TIMEOUT_SECONDS: u64 = 10;
/// The longest timeout that a webhook can have.
const TIMEOUT_SECONDS_MAX: u64 = 30;

/// A webhook, read from its configuration with defaults.
#[derive(Debug)]
pub struct Webhook {
    /// The name of its configuration.
    pub configuration: String,
    /// Its name.
    pub name: String,
    /// Its place in the configuration.
    pub index: usize,
    /// Where it is.
    pub client: Client,
    /// What it matches.
    pub constraints: Constraints,
    /// Conditions about requests that it matches otherwise.
    pub conditions: MatchConditions,
    /// What happens if it cannot be called.
    pub failure_policy: FailurePolicy,
    /// How long it can take to answer.
    pub timeout: Duration,
    /// The version of the review that it is sent.
    pub review_version: ReviewVersion,
    /// Whether it is called once more if the object changes after its call.
    pub is_reinvoked: bool,
}

/// Where a webhook is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// Its address.
    pub target: Target,
    /// PEM of the certificate authorities that it is checked with. Empty: those of the machine.
    pub ca_bundle: Vec<u8>,
}

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// `https://host[:port]/path`.
    Url(String),
    /// A Service of the cluster.
    Service(ServiceReference),
}

impl Default for Target {
    fn default() -> Self {
        Self::Url(String::new())
    }
}

/// A reference to a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path of the URL.
    pub path: String,
    /// The port of the Service.
    pub port: u16,
}

impl Client {
    /// Reads a `clientConfig`. A member of the wrong type counts as absent.
    #[must_use]
    pub fn read(client: &Value) -> Self {
        let text = |object: &Value, name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let target = match client.get("service") {
            None => Target::Url(text(client, "url")),
            Some(service) => Target::Service(ServiceReference {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                path: text(service, "path"),
                port: service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
            }),
        };
        Self { target, ca_bundle: BASE64_STANDARD.decode(text(client, "caBundle")).unwrap_or_default() }
    }
}

/// The version of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`, which webhooks from before 2019 expect.
    V1Beta1,
}

impl ReviewVersion {
    /// Returns its name.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

impl Webhook {
    /// Reads the webhooks of a configuration, in their order.
    #[must_use]
    pub fn of_configuration(configuration: &Value) -> Vec<Self> {
        let name = configuration.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
        webhooks.enumerate().map(|(index, webhook)| Self::read(name, index, webhook)).collect()
    }

    fn read(configuration: &str, index: usize, webhook: &Value) -> Self {
        let text = |name: &str| webhook.get(name).and_then(Value::as_str).unwrap_or_default();
        let versions = texts(webhook, "admissionReviewVersions");
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(TIMEOUT_SECONDS);
        Self {
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            index,
            client: Client::read(webhook.get("clientConfig").unwrap_or(&Value::Null)),
            constraints: Constraints::of_webhook(webhook),
            conditions: MatchConditions::of_webhook(webhook),
            failure_policy: FailurePolicy::read(webhook),
            timeout: Duration::from_secs(seconds.clamp(1, TIMEOUT_SECONDS_MAX)),
            // The first version that the server knows.
            review_version: match versions.iter().find(|version| matches!(version.as_str(), "v1" | "v1beta1")).map(String::as_str) {
                Some("v1beta1") => ReviewVersion::V1Beta1,
                _ => ReviewVersion::V1,
            },
            is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
        }
    }

    /// Returns a name that no other webhook has.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.configuration, self.index, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_configuration_omits_has_defaults() {
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [
            {"name": "a.example.com", "clientConfig": {"service": {"namespace": "n", "name": "s"}}, "admissionReviewVersions": ["v2", "v1beta1", "v1"]},
            {"name": "b.example.com", "clientConfig": {"url": "https://b/", "caBundle": "aGk="}, "failurePolicy": "Ignore", "timeoutSeconds": 99,
             "admissionReviewVersions": ["v1"], "reinvocationPolicy": "IfNeeded"},
        ]});
        let [a, b] = <[Webhook; 2]>::try_from(Webhook::of_configuration(&configuration)).expect("two");
        let service = ServiceReference { namespace: "n".to_owned(), name: "s".to_owned(), path: String::new(), port: 443 };
        assert_eq!(a.client, Client { target: Target::Service(service), ca_bundle: Vec::new() });
        assert_eq!(
            (a.failure_policy, a.timeout, a.review_version, a.is_reinvoked),
            (FailurePolicy::Fail, Duration::from_secs(10), ReviewVersion::V1Beta1, false)
        );
        assert_eq!(b.client, Client { target: Target::Url("https://b/".to_owned()), ca_bundle: b"hi".to_vec() });
        assert_eq!(
            (b.failure_policy, b.timeout, b.review_version, b.is_reinvoked),
            (FailurePolicy::Ignore, Duration::from_secs(30), ReviewVersion::V1, true)
        );
        assert_eq!([a.id(), b.id()], ["c/0/a.example.com", "c/1/b.example.com"]);
    }
}
