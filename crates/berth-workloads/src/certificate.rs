//! CertificateSigningRequests: which are signed, which fail, and which are deleted because they are old.
//!
//! Source: kubernetes `pkg/controller/certificates/signer`, `pkg/controller/certificates/cleaner`, `pkg/apis/certificates/helpers.go`.

use crate::{
    plan::{Action, Outcome, Plan, Reason, Stage, Subresource, Urgency},
    resources::CERTIFICATE_REQUESTS,
    view::{Identity, View},
};
use berth_api::{
    certificates::{CertificateRequest, expiry},
    decode::from_json,
};
use berth_identity::{Name, Revision, Uid};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a request is kept after it was denied, failed, or got its certificate.
const KEPT_AFTER_END: SignedDuration = SignedDuration::from_hours(1);
/// How long a request is kept without a decision.
const KEPT_PENDING: SignedDuration = SignedDuration::from_hours(24);
/// The longest time of a certificate.
const LIFETIME_MAX: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long before its signature a certificate begins, for clients with a slow clock.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);
/// Certificates for less time keep all of it, although they begin earlier.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
/// The group of nodes, and how their names begin.
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// Kubernetes' signers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signer {
    /// Clients of the API server.
    Client,
    /// Kubelets as clients of the API server.
    Kubelet,
    /// Kubelets as servers.
    KubeletServing,
}

/// The fields of a CertificateSigningRequest that the plan reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateView {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// Whether its `deletionTimestamp` is set.
    pub deleting: bool,
    /// When it was created.
    pub created: Timestamp,
    /// The signer that is asked.
    pub signer: String,
    /// What the key is used for.
    pub usages: Vec<String>,
    /// The request, as PEM.
    pub request: Vec<u8>,
    /// The wanted time of the certificate.
    pub expiration_seconds: Option<i32>,
    /// Its conditions, as they are.
    pub conditions: Vec<Value>,
    /// When its certificate ends. `None`: it has none.
    pub expires: Option<Timestamp>,
}

/// A certificate to sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    /// Subject, names and key.
    pub request: CertificateRequest,
    /// What the key is used for.
    pub usages: Vec<String>,
    /// The begin of its validity.
    pub not_before: Timestamp,
    /// The end of its validity. The end of the signer's own certificate can be earlier.
    pub not_after: Timestamp,
}

/// What is due for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This plan. It may only wait.
    Act(Box<Plan>),
    /// The signature of this certificate.
    Sign(Box<WantedCertificate>),
}

/// Why no signer signs a request. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// A usage that clients do not have.
    #[error("invalid usage for client certificate: {0}")]
    ForeignUsage(String),
    /// A usage that clients must have.
    #[error("missing required usage for client certificate: client auth")]
    NoClientUsage,
    /// Usages of a kubelet.
    #[error("usages did not match [{0}]")]
    Usages(&'static str),
    /// The subject is no node's.
    #[error("subject organization is not system:nodes")]
    Organization,
    /// The subject is no node's.
    #[error("subject common name does not begin with system:node:")]
    CommonName,
    /// Alternative names of this sort are not allowed.
    #[error("{0} subjectAltNames are not allowed")]
    Names(&'static str),
    /// A server without names.
    #[error("DNS or IP subjectAltName is required")]
    NoName,
    /// The request cannot be read.
    #[error("unable to parse csr {0:?}")]
    Unreadable(String),
    /// The signer cannot sign for this key.
    #[error("{0}")]
    Key(String),
}

impl View for CertificateView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let CertificateSigningRequest { metadata, spec, status } = serde_json::from_slice(json)?;
        let raw: Value = from_json(json)?;
        let conditions = raw.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let certificate = status.and_then(|status| status.certificate).filter(|bytes| !bytes.0.is_empty());
        // A certificate that cannot be read never ends.
        let expires = certificate.map(|ByteString(text)| expiry(&text).unwrap_or(Timestamp::MAX));
        Ok(Self {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            revision,
            deleting: metadata.deletion_timestamp.is_some(),
            created: metadata.creation_timestamp.map(|time| time.0).unwrap_or_default(),
            signer: spec.signer_name,
            usages: spec.usages.unwrap_or_default(),
            request: spec.request.0,
            expiration_seconds: spec.expiration_seconds,
            conditions,
            expires,
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: None, name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

impl CertificateView {
    fn condition(&self, kind: &str) -> Option<&Value> {
        self.conditions.iter().find(|condition| condition["type"] == kind)
    }

    /// When a condition was last written.
    fn since(&self, kind: &str) -> Option<Timestamp> {
        self.condition(kind)?.get("lastUpdateTime")?.as_str()?.parse().ok()
    }

    /// When the object is old enough to be deleted. `None`: it does not age now.
    fn deleted_at(&self) -> Option<Timestamp> {
        let issued = self.since("Approved").filter(|_| self.expires.is_some());
        let ended = [issued, self.since("Denied"), self.since("Failed")].into_iter().flatten().min();
        let ended = ended.map(|since| later(since, KEPT_AFTER_END));
        let pending = self.conditions.is_empty().then(|| later(self.created, KEPT_PENDING));
        let expired = self.expires.filter(|_| self.condition("Approved").is_some());
        [ended, pending, expired].into_iter().flatten().min()
    }

    /// The signer that is due.
    fn due_signer(&self) -> Option<Signer> {
        let is_decided = self.condition("Denied").is_some() || self.condition("Failed").is_some();
        if self.condition("Approved").is_none() || is_decided || self.expires.is_some() {
            return None;
        }
        match self.signer.as_str() {
            "kubernetes.io/kube-apiserver-client" => Some(Signer::Client),
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Signer::Kubelet),
            "kubernetes.io/kubelet-serving" => Some(Signer::KubeletServing),
            _ => None,
        }
    }
}

/// Clients write some of the times: a sum can be after the last time that there is.
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Signs approved requests.
#[must_use]
pub fn sign(view: &CertificateView, now: Timestamp) -> Decision {
    let Some(signer) = view.due_signer().filter(|_| !view.deleting) else { return Decision::Act(Box::default()) };
    let request = CertificateRequest::parse(&view.request).map_err(|_| Unsigned::Unreadable(view.name.to_string()));
    match request.and_then(|request| check(signer, &request, &view.usages).map(|()| request)) {
        Err(why) => Decision::Act(Box::new(failed(view, &why))),
        Ok(request) => {
            let wanted = view.expiration_seconds.map_or(LIFETIME_MAX, |seconds| SignedDuration::from_secs(seconds.into()));
            let lifetime = wanted.min(LIFETIME_MAX);
            let ends = if lifetime < SHORT { lifetime } else { lifetime - BACKDATED };
            let usages = view.usages.clone();
            Decision::Sign(Box::new(WantedCertificate { request, usages, not_before: now - BACKDATED, not_after: now + ends }))
        }
    }
}

fn check(signer: Signer, request: &CertificateRequest, usages: &[String]) -> Result<(), Unsigned> {
    match signer {
        Signer::Client => {
            let allowed = ["client auth", "digital signature", "key encipherment"];
            if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
                return Err(Unsigned::ForeignUsage(other.clone()));
            }
            if usages.iter().any(|usage| usage == "client auth") { Ok(()) } else { Err(Unsigned::NoClientUsage) }
        }
        Signer::Kubelet => {
            check_node(
                request,
                &[("DNS", !request.dns_names.is_empty()), ("Email", !request.emails.is_empty()), ("IP", !request.addresses.is_empty())],
            )?;
            check_usages(usages, "client auth", "client auth digital signature key encipherment")
        }
        Signer::KubeletServing => {
            if request.organizations != [NODES] {
                return Err(Unsigned::Organization);
            }
            if request.dns_names.is_empty() && request.addresses.is_empty() {
                return Err(Unsigned::NoName);
            }
            check_node(request, &[("Email", !request.emails.is_empty())])?;
            check_usages(usages, "server auth", "digital signature key encipherment server auth")
        }
    }
}

/// The subject is a node's, and there are no names of these sorts, and no URIs.
fn check_node(request: &CertificateRequest, names: &[(&'static str, bool)]) -> Result<(), Unsigned> {
    if request.organizations != [NODES] {
        return Err(Unsigned::Organization);
    }
    let uris = ("URI", !request.uris.is_empty());
    if let Some((sort, _)) = names.iter().chain([&uris]).find(|(_, has)| *has) {
        return Err(Unsigned::Names(sort));
    }
    if request.common_name.starts_with(NODE_PREFIX) { Ok(()) } else { Err(Unsigned::CommonName) }
}

/// A signature and one more usage, with or without the encipherment of keys.
fn check_usages(usages: &[String], own: &str, shown: &'static str) -> Result<(), Unsigned> {
    let allowed = [own, "digital signature", "key encipherment"];
    let has = |wanted: &str| usages.iter().any(|usage| usage == wanted);
    let is_good = has(own) && has("digital signature") && usages.iter().all(|usage| allowed.contains(&usage.as_str()));
    if is_good { Ok(()) } else { Err(Unsigned::Usages(shown)) }
}

/// Records that the signer does not sign.
#[must_use]
pub fn failed(view: &CertificateView, why: &Unsigned) -> Plan {
    let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why.to_string()});
    let conditions: Vec<Value> = view.conditions.iter().cloned().chain([failed]).collect();
    patch(view, json!({"conditions": conditions}), Reason::NotSigned)
}

/// Stores a signed certificate.
#[must_use]
pub fn issued(view: &CertificateView, certificate: &str) -> Plan {
    patch(view, json!({"certificate": ByteString(certificate.as_bytes().to_vec())}), Reason::Approved)
}

fn patch(view: &CertificateView, status: Value, reason: Reason) -> Plan {
    let action = Action::Patch {
        target: view.identity().reference(CERTIFICATE_REQUESTS, view.revision),
        subresource: Some(Subresource::Status),
        patch: json!({ "status": status }),
        urgency: Urgency::Now,
        reason,
        events: Outcome::default(),
    };
    Plan { stages: vec![Stage { actions: vec![action] }], ..Plan::default() }
}

/// Deletes requests that are old.
#[must_use]
pub fn clean(view: &CertificateView, now: Timestamp) -> Plan {
    let Some(due) = view.deleted_at().filter(|_| !view.deleting) else { return Plan::default() };
    if now < due {
        return Plan { requeue_at: Some(due), ..Plan::default() };
    }
    let action = Action::Delete {
        target: view.identity().reference(CERTIFICATE_REQUESTS, view.revision),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::RequestOld,
        events: Outcome::default(),
    };
    Plan { stages: vec![Stage { actions: vec![action] }], ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = include_str!("../../berth-api/src/certificates/request.pem");

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn view(spec: &Value, status: &Value) -> CertificateView {
        let mut object = json!({
            "metadata": {"name": "jane", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "request": ByteString(REQUEST.as_bytes().to_vec()), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            },
            "status": status,
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        CertificateView::decode(object.to_string().as_bytes(), Revision(7)).expect("a request")
    }

    fn approved() -> Value {
        json!({"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}]})
    }

    fn reason_of(plan: &Plan) -> Option<&Reason> {
        plan.stages.first().and_then(|stage| match &stage.actions[0] {
            Action::Patch { reason, .. } | Action::Delete { reason, .. } => Some(reason),
            _ => None,
        })
    }

    #[test]
    fn an_approved_request_is_signed_for_as_long_as_it_asks() {
        let now = at("2026-01-01T00:10:00Z");
        for (seconds, from, until) in [
            (json!(3600), "2026-01-01T00:05:00Z", "2026-01-01T01:10:00Z"),
            (json!(86_400), "2026-01-01T00:05:00Z", "2026-01-02T00:05:00Z"),
            (json!(2_000_000_000), "2026-01-01T00:05:00Z", "2027-01-01T00:05:00Z"),
            (json!(null), "2026-01-01T00:05:00Z", "2027-01-01T00:05:00Z"),
        ] {
            let Decision::Sign(wanted) = sign(&view(&json!({"expirationSeconds": seconds}), &approved()), now) else { panic!("{seconds}") };
            assert_eq!((wanted.not_before, wanted.not_after), (at(from), at(until)), "{seconds}");
            assert_eq!((wanted.request.common_name.as_str(), &wanted.usages[..]), ("jane", &["client auth".to_owned()][..]));
        }
    }

    #[test]
    fn only_an_approved_request_without_a_result_is_signed() {
        let now = at("2026-01-01T00:10:00Z");
        let more = |kind: &str| {
            let mut status = approved();
            status["conditions"].as_array_mut().expect("a list").push(json!({"type": kind, "status": "True"}));
            status
        };
        let issued = json!({"conditions": approved()["conditions"], "certificate": "aGk="});
        let others =
            [view(&json!({}), &json!({})), view(&json!({}), &more("Denied")), view(&json!({}), &more("Failed")), view(&json!({}), &issued)];
        let foreign = view(&json!({"signerName": "example.com/own"}), &approved());
        let deleting = CertificateView { deleting: true, ..view(&json!({}), &approved()) };
        for view in others.into_iter().chain([foreign, deleting]) {
            assert_eq!(sign(&view, now), Decision::Act(Box::default()), "{view:?}");
        }
    }

    /// Messages of a real 1.36.2.
    #[test]
    fn a_request_that_does_not_fit_its_signer_fails() {
        let now = at("2026-01-01T00:10:00Z");
        let client = "kubernetes.io/kube-apiserver-client";
        for (signer, usages, wanted) in [
            (client, json!(["server auth"]), "invalid usage for client certificate: server auth"),
            (client, json!(["client auth", "any"]), "invalid usage for client certificate: any"),
            (client, json!(["digital signature"]), "missing required usage for client certificate: client auth"),
            ("kubernetes.io/kube-apiserver-client-kubelet", json!(["client auth"]), "subject organization is not system:nodes"),
            ("kubernetes.io/kubelet-serving", json!(["server auth"]), "subject organization is not system:nodes"),
        ] {
            let Decision::Act(plan) = sign(&view(&json!({"signerName": signer, "usages": usages}), &approved()), now) else {
                panic!("{wanted}")
            };
            let [Action::Patch { target, subresource, patch, .. }] = &plan.stages[0].actions[..] else { panic!("{plan:?}") };
            assert_eq!((target.resource_version, *subresource), (Some(Revision(7)), Some(Subresource::Status)));
            let conditions = &patch["status"]["conditions"];
            assert_eq!((&conditions[0]["type"], &conditions[1]["type"]), (&json!("Approved"), &json!("Failed")));
            assert_eq!((&conditions[1]["reason"], &conditions[1]["message"]), (&json!("SignerValidationFailure"), &json!(wanted)));
        }
    }

    /// Messages of a real 1.36.2.
    #[test]
    fn signers_of_kubelets_sign_for_nodes_alone() {
        let node = CertificateRequest {
            common_name: "system:node:n1".to_owned(),
            organizations: vec![NODES.to_owned()],
            ..CertificateRequest::default()
        };
        let named = CertificateRequest { dns_names: vec!["n1".to_owned()], ..node.clone() };
        let usages = |usages: &[&str]| usages.iter().map(|usage| (*usage).to_owned()).collect::<Vec<_>>();
        let why = |signer, request: &CertificateRequest, of: &[&str]| check(signer, request, &usages(of)).err().map(|why| why.to_string());
        let (client, server) = (["client auth", "digital signature"], ["server auth", "digital signature"]);
        assert_eq!(why(Signer::Kubelet, &node, &client), None);
        assert_eq!(why(Signer::KubeletServing, &named, &server), None);
        for (signer, request, of, wanted) in [
            (Signer::Kubelet, &named, &client[..], "DNS subjectAltNames are not allowed"),
            (
                Signer::Kubelet,
                &CertificateRequest { addresses: vec![[1, 2, 3, 4].into()], ..node.clone() },
                &client,
                "IP subjectAltNames are not allowed",
            ),
            (
                Signer::Kubelet,
                &CertificateRequest { common_name: "x".to_owned(), ..node.clone() },
                &client,
                "subject common name does not begin with system:node:",
            ),
            (Signer::Kubelet, &node, &["digital signature"], "usages did not match [client auth digital signature key encipherment]"),
            (Signer::KubeletServing, &node, &server, "DNS or IP subjectAltName is required"),
            (Signer::KubeletServing, &named, &client, "usages did not match [digital signature key encipherment server auth]"),
            (Signer::KubeletServing, &named, &["server auth"], "usages did not match [digital signature key encipherment server auth]"),
        ] {
            assert_eq!(why(signer, request, of).as_deref(), Some(wanted));
        }
    }

    /// The last time that there is.
    const LAST: &str = "9999-12-30T22:00:00.999999999Z";

    #[test]
    fn requests_are_deleted_when_they_are_old() {
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastUpdateTime": "2026-01-01T12:00:00Z"});
        let with = |kind: &str| view(&json!({}), &json!({"conditions": [condition(kind)]}));
        let mut issued = with("Approved");
        issued.expires = Some(at("2026-01-01T12:30:00Z"));
        let expiring = issued.clone();
        issued.expires = Some(at("2027-01-01T00:00:00Z"));
        for (view, due) in [
            (view(&json!({}), &json!({})), Some("2026-01-02T00:00:00Z")),
            (with("Denied"), Some("2026-01-01T13:00:00Z")),
            (with("Failed"), Some("2026-01-01T13:00:00Z")),
            (issued, Some("2026-01-01T13:00:00Z")),
            (expiring, Some("2026-01-01T12:30:00Z")),
            (with("Approved"), None),
            (
                view(&json!({}), &json!({"conditions": [{"type": "Denied", "status": "True", "lastUpdateTime": "9999-12-30T22:00:00Z"}]})),
                Some(LAST),
            ),
        ] {
            let due = due.map(at);
            let before = clean(&view, at("2026-01-01T12:00:00Z"));
            assert!(before.is_idle(), "{view:?}");
            assert_eq!(before.requeue_at, due, "{view:?}");
            if let Some(due) = due {
                assert_eq!(reason_of(&clean(&view, due)), Some(&Reason::RequestOld));
                assert!(clean(&CertificateView { deleting: true, ..view }, due).is_idle());
            }
        }
    }
}
