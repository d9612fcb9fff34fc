//! One audit event.

use super::{AuditLog, Level, policy::Extent};
use crate::brief::{cut, cut_all};
use berth_identity::ApiName;
use berth_rbac::{Attributes, User};
use berth_registry::{
    Subresource,
    resource::{AuditedBody, built_in},
};
use hyper::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

/// The maximum size of a logged body.
const BODY_BYTES_MAX: usize = 100 << 10;

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server has received the request.
    RequestReceived,
    /// A watch has started.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
        }
    }
}

/// The audit event of a request, which is completed during the request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    log: Arc<AuditLog>,
    extent: Extent,
    event: Event,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Value>,
    #[serde(rename = "sourceIPs")]
    source_ips: [IpAddr; 1],
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<Cow<'static, str>, String>,
}

/// The data of a request's head and connection.
pub(crate) struct Head<'a> {
    /// As in the answer's header.
    pub(crate) audit_id: &'a str,
    /// Path and query.
    pub(crate) uri: &'a str,
    /// `User-Agent`.
    pub(crate) user_agent: &'a str,
    /// The other end of the connection.
    pub(crate) from: IpAddr,
    /// When the request came.
    pub(crate) received: Timestamp,
    /// `v1`; empty for other paths.
    pub(crate) version: &'a str,
}

impl Entry {
    /// Begins an event. `user` is empty for an unauthenticated request. Returns `None` if the policy does not log the
    /// request.
    pub(crate) fn begin(log: &Arc<AuditLog>, head: &Head<'_>, user: &User, attributes: &Attributes<'_>) -> Option<Self> {
        let extent = log.policy().extent(user, attributes);
        if extent.level == Level::None {
            return None;
        }
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: extent.level.as_str(),
            audit_id: cut(head.audit_id).into_owned(),
            stage: "",
            request_uri: cut(head.uri).into_owned(),
            verb: cut(attributes.verb()).into_owned(),
            user: user_value(user),
            impersonated_user: None,
            source_ips: [head.from],
            user_agent: cut(head.user_agent).into_owned(),
            object_ref: object_ref(attributes, head.version).map(cut_all),
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: micros(head.received),
            stage_timestamp: String::new(),
            annotations: BTreeMap::new(),
        };
        Some(Self { log: Arc::clone(log), extent, event })
    }

    /// Records that the request impersonates this user.
    pub(crate) fn impersonates(&mut self, user: &User) {
        self.event.impersonated_user = Some(user_value(user));
    }

    /// Records the reason of the authorization. `None`: forbidden.
    pub(crate) fn decided(&mut self, reason: Option<&str>) {
        let decision = if reason.is_some() { "allow" } else { "forbid" };
        self.event.annotations.insert("authorization.k8s.io/decision".into(), decision.to_owned());
        self.event.annotations.insert("authorization.k8s.io/reason".into(), reason.unwrap_or_default().to_owned());
    }

    /// Adds the annotations of admission.
    pub(crate) fn annotate(&mut self, annotations: &[(Cow<'static, str>, String)]) {
        self.event.annotations.extend(annotations.iter().cloned());
    }

    /// Records the object's name if the path does not contain it.
    pub(crate) fn names(&mut self, name: &str) {
        if let Some(Value::Object(reference)) = &mut self.event.object_ref
            && !name.is_empty()
        {
            reference.entry("name").or_insert_with(|| json!(cut(name)));
        }
    }

    /// Records the request's body as JSON. It contains the name of a new object.
    pub(crate) fn request_body(&mut self, json: &[u8]) {
        if let Ok(Named { metadata: Some(NamedMetadata { name: Some(name) }) }) = serde_json::from_slice(json) {
            self.names(&name);
        }
        if Level::Request <= self.extent.level {
            self.event.request_object = self.body(json).filter(|body| !may_hold_secrets(body));
        }
    }

    /// Records the response. `body` is present if the response is one piece.
    pub(crate) fn answered(&mut self, code: StatusCode, body: Option<&[u8]>) {
        self.event.response_status = Some(response_status(code, body));
        if Level::RequestResponse <= self.extent.level {
            self.event.response_object = body.and_then(|body| self.body(body));
        }
    }

    fn body(&mut self, json: &[u8]) -> Option<Value> {
        if BODY_BYTES_MAX < json.len() {
            self.event.annotations.insert("audit.k8s.io/truncated".into(), "true".to_owned());
            return None;
        }
        let mut value: Value = serde_json::from_slice(json).ok()?;
        if self.extent.omit_managed_fields
            && let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut)
        {
            meta.remove("managedFields");
        }
        Some(value)
    }

    /// Writes the event in its current state.
    pub(crate) fn write(&mut self, stage: Stage, now: Timestamp) {
        if self.extent.omit_stages.iter().any(|omitted| omitted == stage.as_str()) {
            return;
        }
        self.event.stage = stage.as_str();
        self.event.stage_timestamp = micros(now);
        self.log.write(serde_json::to_vec(&self.event).expect("an event has string keys only"));
    }
}

/// Writes the end of a watch when the watch is dropped.
#[derive(Debug)]
pub(crate) struct Watched(pub(crate) Entry);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.write(Stage::ResponseComplete, Timestamp::now());
    }
}

/// Members that count as secret in a body of any kind.
const SECRET_MEMBERS: [&str; 3] = ["data", "stringData", "binaryData"];

/// The kinds whose bodies are never logged, at any path.
static SECRET_KINDS: LazyLock<Vec<ApiName>> =
    LazyLock::new(|| kinds_with(AuditedBody::Never).chain(Subresource::Token.gvk().map(|gvk| gvk.kind)).collect());

/// The kinds whose members with these names are not secret.
static OPEN_KINDS: LazyLock<Vec<ApiName>> = LazyLock::new(|| kinds_with(AuditedBody::WithData).collect());

fn kinds_with(body: AuditedBody) -> impl Iterator<Item = ApiName> {
    built_in().all().iter().filter(move |resource| resource.audited_body == body).map(|resource| resource.kind().clone())
}

/// Whether a body may contain secrets. A client may have sent it to the path of another kind.
fn may_hold_secrets(body: &Value) -> bool {
    match body {
        Value::Object(members) => {
            let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
            let is_secret = SECRET_KINDS.iter().any(|secret| kind.starts_with(secret.as_str()));
            let has_secrets =
                !OPEN_KINDS.iter().any(|open| *open == kind) && SECRET_MEMBERS.iter().any(|member| members.contains_key(*member));
            is_secret || has_secrets || members.get("items").is_some_and(may_hold_secrets)
        }
        // A list, or a JSON patch, whose operations contain their target paths.
        Value::Array(elements) => elements.iter().any(|element| {
            let path = element.get("path").and_then(Value::as_str).unwrap_or_default();
            let first = path.split('/').nth(1).unwrap_or_default();
            SECRET_MEMBERS.contains(&first)
                || (path.is_empty() && element.get("value").is_some_and(may_hold_secrets))
                || may_hold_secrets(element)
        }),
        _ => false,
    }
}

/// The part of a body that identifies its object.
#[derive(Deserialize)]
struct Named {
    metadata: Option<NamedMetadata>,
}

#[derive(Deserialize)]
struct NamedMetadata {
    name: Option<String>,
}

fn micros(at: Timestamp) -> String {
    format!("{at:.6}")
}

fn user_value(user: &User) -> Value {
    let mut value = json!({});
    if !user.name.is_empty() {
        value["username"] = json!(user.name);
    }
    if !user.uid.is_empty() {
        value["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        value["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        value["extra"] = json!(user.extra);
    }
    cut_all(value)
}

fn object_ref(attributes: &Attributes<'_>, version: &str) -> Option<Value> {
    let Attributes::Resource(asked) = attributes else { return None };
    let fields = [
        ("resource", asked.resource),
        ("namespace", asked.namespace),
        ("name", asked.name),
        ("apiGroup", asked.group),
        ("apiVersion", version),
        ("subresource", asked.subresource),
    ];
    Some(fields.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name.to_owned(), json!(text))).collect())
}

/// Returns the code, and the fields of an error's `Status`.
fn response_status(code: StatusCode, body: Option<&[u8]>) -> Value {
    let mut status = json!({"metadata": {}, "code": code.as_u16()});
    let refusal = body.filter(|body| body.len() <= BODY_BYTES_MAX && (code.is_client_error() || code.is_server_error()));
    if let Some(body) = refusal.and_then(|body| serde_json::from_slice::<Value>(body).ok()) {
        for field in ["status", "message", "reason", "details"] {
            if let Some(value) = body.get(field) {
                status[field] = value.clone();
            }
        }
    }
    cut_all(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Policy;
    use berth_rbac::ResourceAttributes;
    use std::{
        io::{self, Write},
        net::Ipv4Addr,
        sync::Mutex,
    };

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no holder panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bodies_of_secrets_are_known_whatever_path_they_came_to() {
        for body in [
            json!({"kind": "Secret", "stringData": {"p": "x"}}),
            json!({"kind": "ConfigMap"}),
            json!({"metadata": {"name": "a"}, "data": {"p": "eA=="}}),
            json!({"metadata": {"name": "a"}, "stringData": {"p": "x"}}),
            json!({"kind": "SecretList", "items": []}),
            json!({"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Secret"}]}),
            json!({"kind": "TokenReview", "spec": {"token": "x"}}),
            json!([{"op": "add", "path": "/stringData/p", "value": "x"}]),
            json!([{"op": "add", "path": "/data", "value": {"p": "x"}}]),
            json!([{"op": "replace", "path": "", "value": {"data": {}}}]),
        ] {
            assert!(may_hold_secrets(&body), "{body}");
        }
        for body in [
            json!({"kind": "Pod", "metadata": {"annotations": {"data": "x"}}}),
            json!({"kind": "ControllerRevision", "data": {"spec": {}}}),
            json!([{"op": "add", "path": "/metadata/labels/data", "value": "x"}]),
            json!({"spec": {"replicas": 3}}),
        ] {
            assert!(!may_hold_secrets(&body), "{body}");
        }
    }

    #[test]
    fn an_event_records_the_user_the_request_and_its_outcome() {
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitManagedFields: true\nrules: [{level: RequestResponse, omitStages: [RequestReceived]}]";
        let lines = Lines::default();
        let log = Arc::new(AuditLog::to(Policy::parse(policy).expect("a policy"), Box::new(lines.clone())).expect("a thread"));
        let received: Timestamp = "2026-01-01T00:00:00.5Z".parse().expect("a time");
        let head = Head {
            audit_id: "id",
            uri: "/api/v1/namespaces/n/pods/p?x=1",
            user_agent: "kubectl/1",
            from: Ipv4Addr::LOCALHOST.into(),
            received,
            version: "v1",
        };
        let attributes = ResourceAttributes { verb: "update", group: "", resource: "pods", subresource: "", namespace: "n", name: "p" };
        let mut entry = Entry::begin(&log, &head, &User::authenticated("alice", &[]), &attributes.into()).expect("of interest");
        entry.write(Stage::RequestReceived, received);
        entry.impersonates(&User { name: "bob".to_owned(), ..User::default() });
        entry.decided(Some("because"));
        entry.request_body(br#"{"metadata":{"name":"p","managedFields":[{}]}}"#);
        entry.answered(StatusCode::CONFLICT, Some(br#"{"kind":"Status","reason":"Conflict","message":"m","code":409}"#));
        entry.write(Stage::ResponseComplete, received);
        drop((entry, log));
        let text = String::from_utf8(lines.0.lock().expect("no holder panics").clone()).expect("text");
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let expected = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": "id", "stage": "ResponseComplete",
            "requestURI": "/api/v1/namespaces/n/pods/p?x=1", "verb": "update",
            "user": {"username": "alice", "groups": ["system:authenticated"]}, "impersonatedUser": {"username": "bob"},
            "sourceIPs": ["127.0.0.1"], "userAgent": "kubectl/1",
            "objectRef": {"resource": "pods", "namespace": "n", "name": "p", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 409, "reason": "Conflict", "message": "m"},
            "requestObject": {"metadata": {"name": "p"}},
            "responseObject": {"kind": "Status", "reason": "Conflict", "message": "m", "code": 409},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.500000Z", "stageTimestamp": "2026-01-01T00:00:00.500000Z",
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "because"},
        });
        assert_eq!(events, [expected]);
    }

    #[test]
    fn texts_of_strangers_are_cut_and_what_is_created_is_named() {
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]";
        let lines = Lines::default();
        let log = Arc::new(AuditLog::to(Policy::parse(policy).expect("a policy"), Box::new(lines.clone())).expect("a thread"));
        let long = "x".repeat(60_000);
        let received = Timestamp::UNIX_EPOCH;
        let head = Head { audit_id: &long, uri: &long, user_agent: &long, from: Ipv4Addr::LOCALHOST.into(), received, version: "v1" };
        let write = |name: &str, add: &dyn Fn(&mut Entry)| {
            let attributes = ResourceAttributes { verb: "create", group: "", resource: "pods", subresource: "", namespace: "n", name };
            let user = User::authenticated(&long, &[]);
            let mut entry = Entry::begin(&log, &head, &user, &attributes.into()).expect("of interest");
            add(&mut entry);
            entry.write(Stage::ResponseComplete, received);
        };
        let refusal = json!({"message": long, "details": {"causes": [{"message": "x".repeat(2000)}]}}).to_string();
        write(&long, &|entry| entry.answered(StatusCode::FORBIDDEN, Some(refusal.as_bytes())));
        let many_causes = json!({"message": "m", "details": {"causes": vec!["x".repeat(1000); 1000]}}).to_string();
        write(&long, &|entry| entry.answered(StatusCode::FORBIDDEN, Some(many_causes.as_bytes())));
        write("", &|entry| entry.request_body(br#"{"metadata":{"name":"p"}}"#));
        write("", &|entry| {
            entry.request_body(br#"{"metadata":{"generateName":"p-"}}"#);
            entry.names("p-x7k2j");
        });
        write("", &|entry| entry.request_body(b"[["));
        drop(log);
        let text = String::from_utf8(lines.0.lock().expect("no holder panics").clone()).expect("text");
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let cut = format!("{}...TRUNCATED", "x".repeat(1024));
        for field in [&events[0]["userAgent"], &events[0]["requestURI"], &events[0]["auditID"], &events[0]["user"]["username"]] {
            assert_eq!(*field, cut);
        }
        assert_eq!((&events[0]["objectRef"]["name"], &events[0]["responseStatus"]["message"]), (&json!(cut), &json!(cut)));
        assert_eq!(events[1]["responseStatus"], json!({"metadata": {}, "code": 403}));
        assert!(text.lines().all(|line| line.len() < 10_000), "{:?}", text.lines().map(str::len).collect::<Vec<_>>());
        let names: Vec<&Value> = events[2..].iter().map(|event| &event["objectRef"]["name"]).collect();
        assert_eq!(names, [&json!("p"), &json!("p-x7k2j"), &Value::Null]);
    }
}
