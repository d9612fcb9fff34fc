//! Nodes, namespaces, events and the small kinds.

use super::{
    Printed, age,
    text::{AGE, NAME, age_of, integer, name, or, text, wide},
};
use crate::resource::Column;
use berth_api::k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{
            ConfigMap, Event as CoreEvent, EventSource, Namespace, Node, NodeStatus, ObjectReference, ResourceQuota, Secret, ServiceAccount,
        },
        events::v1::Event,
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ROLE_LABEL: &str = "kubernetes.io/role";
const ROLE_LABEL_PREFIX: &str = "node-role.kubernetes.io/";

impl Printed for Node {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Status", "Whether the node is ready and takes pods."),
        text("Roles", "The roles that the node's labels name."),
        AGE,
        text("Version", "Version of the kubelet."),
        wide("Internal-IP", "The node's address inside the cluster."),
        wide("External-IP", "The node's address outside the cluster."),
        wide("OS-Image", "The operating system."),
        wide("Kernel-Version", "The kernel, with the machine's architecture."),
        wide("Container-Runtime", "The container runtime and its version."),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let status = self.status.clone().unwrap_or_default();
        let info = status.node_info.clone().unwrap_or_default();
        let kernel = match (info.kernel_version.as_str(), info.architecture.as_str()) {
            ("", _) => "<unknown>".to_owned(),
            (kernel, "") => kernel.to_owned(),
            (kernel, architecture) => format!("{kernel} ({architecture})"),
        };
        vec![
            json!(name(&self.metadata)),
            json!(node_status(self, &status)),
            json!(roles(&self.metadata)),
            json!(age_of(&self.metadata, now)),
            json!(info.kubelet_version),
            json!(address(&status, "InternalIP")),
            json!(address(&status, "ExternalIP")),
            json!(or(Some(&info.os_image), "<unknown>")),
            json!(kernel),
            json!(or(Some(&info.container_runtime_version), "<unknown>")),
        ]
    }
}

fn node_status(node: &Node, status: &NodeStatus) -> String {
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let word = match ready.map(|condition| condition.status.as_str()) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    format!("{word}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn roles(meta: &ObjectMeta) -> String {
    let labels = meta.labels.iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| if key == ROLE_LABEL { Some(value.as_str()) } else { key.strip_prefix(ROLE_LABEL_PREFIX) })
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<&str> = roles.into_iter().collect();
    or(Some(&roles.join(",")), "<none>").to_owned()
}

fn address<'a>(status: &'a NodeStatus, kind: &str) -> &'a str {
    status.addresses.iter().flatten().find(|address| address.type_ == kind).map_or("<none>", |address| &address.address)
}

impl Printed for Namespace {
    const COLUMNS: &'static [Column] = &[NAME, text("Status", "Whether the namespace is active or going."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        vec![json!(name(&self.metadata)), json!(phase), json!(age_of(&self.metadata, now))]
    }
}

impl Printed for ConfigMap {
    const COLUMNS: &'static [Column] = &[NAME, text("Data", "How many entries it has."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let count = self.data.as_ref().map_or(0, BTreeMap::len) + self.binary_data.as_ref().map_or(0, BTreeMap::len);
        vec![json!(name(&self.metadata)), json!(count), json!(age_of(&self.metadata, now))]
    }
}

impl Printed for Secret {
    const COLUMNS: &'static [Column] = &[NAME, text("Type", "What the secret is for."), text("Data", "How many entries it has."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![
            json!(name(&self.metadata)),
            json!(self.type_.as_deref().unwrap_or_default()),
            json!(self.data.as_ref().map_or(0, BTreeMap::len)),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

impl Printed for ServiceAccount {
    const COLUMNS: &'static [Column] = &[NAME, AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![json!(name(&self.metadata)), json!(age_of(&self.metadata, now))]
    }
}

impl Printed for Lease {
    const COLUMNS: &'static [Column] = &[NAME, text("Holder", "Who holds the lease."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let holder = self.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        vec![json!(name(&self.metadata)), json!(holder), json!(age_of(&self.metadata, now))]
    }
}

impl Printed for PriorityClass {
    const COLUMNS: &'static [Column] = &[
        NAME,
        integer("Value", "The priority; higher goes first."),
        Column { kind: "boolean", ..text("Global-Default", "Whether pods without a class have this one.") },
        AGE,
        text("PreemptionPolicy", "Whether pods of this class push others out."),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![
            json!(name(&self.metadata)),
            json!(self.value.unwrap_or_default()),
            json!(self.global_default.unwrap_or_default()),
            json!(age_of(&self.metadata, now)),
            json!(or(self.preemption_policy.as_deref(), "PreemptLowerPriority")),
        ]
    }
}

impl Printed for ResourceQuota {
    const COLUMNS: &'static [Column] =
        &[NAME, text("Request", "Used and allowed, of requests and counts."), text("Limit", "Used and allowed, of limits."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let status = self.status.clone().unwrap_or_default();
        let used = status.used.unwrap_or_default();
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in status.hard.iter().flatten() {
            let used = used.get(resource).map_or("0", |quantity| quantity.0.as_str());
            let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{resource}: {used}/{}", hard.0));
        }
        vec![json!(name(&self.metadata)), json!(requests.join(", ")), json!(limits.join(", ")), json!(age_of(&self.metadata, now))]
    }
}

const EVENT_COLUMNS: &[Column] = &[
    text("Last Seen", "How long ago it last happened."),
    text("Type", "Normal or Warning."),
    text("Reason", "What happened, in one word."),
    text("Object", "The object that it happened to."),
    wide("Subobject", "The part of the object that it happened to."),
    wide("Source", "Who reports it."),
    text("Message", "What happened, in a sentence."),
    wide("First Seen", "How long ago it first happened."),
    wide("Count", "How often it happened."),
    Column { format: "name", ..wide("Name", "Name of the event.") },
];

/// What both kinds of event have.
struct EventView<'a> {
    meta: &'a ObjectMeta,
    first: Option<&'a Time>,
    last: Option<&'a Time>,
    at: Option<&'a MicroTime>,
    /// Of a series: when it was last seen, and how often.
    series: Option<(Option<&'a MicroTime>, i32)>,
    count: Option<i32>,
    kind: Option<&'a str>,
    reason: Option<&'a str>,
    object: Option<&'a ObjectReference>,
    source: Option<&'a EventSource>,
    reporter: (Option<&'a str>, Option<&'a str>),
    message: Option<&'a str>,
}

impl EventView<'_> {
    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let micro_age = |time: Option<&MicroTime>| age::since(time.map(|time| Time(time.0)).as_ref(), now);
        let first = self.first.map_or_else(|| micro_age(self.at), |time| age::since(Some(time), now));
        let (last, count) = match (self.series, self.last) {
            (Some((time, count)), _) => (micro_age(time), count),
            (None, Some(time)) => (age::since(Some(time), now), self.singleton_count()),
            (None, None) => (first.clone(), self.singleton_count()),
        };
        vec![
            json!(last),
            json!(self.kind.unwrap_or_default()),
            json!(self.reason.unwrap_or_default()),
            json!(self.object_text()),
            json!(self.object.and_then(|object| object.field_path.as_deref()).unwrap_or_default()),
            json!(self.source_text()),
            json!(self.message.unwrap_or_default().trim()),
            json!(first),
            json!(count),
            json!(name(self.meta)),
        ]
    }

    /// New events have no count: they happened once.
    fn singleton_count(&self) -> i32 {
        self.count.filter(|count| *count != 0).unwrap_or(1)
    }

    fn object_text(&self) -> String {
        let kind = self.object.and_then(|object| object.kind.as_deref()).unwrap_or_default().to_lowercase();
        match self.object.and_then(|object| object.name.as_deref()).unwrap_or_default() {
            "" => kind,
            name => format!("{kind}/{name}"),
        }
    }

    fn source_text(&self) -> String {
        let component = or(self.source.and_then(|s| s.component.as_deref()), self.reporter.0.unwrap_or_default());
        match or(self.source.and_then(|s| s.host.as_deref()), self.reporter.1.unwrap_or_default()) {
            "" => component.to_owned(),
            host => format!("{component}, {host}"),
        }
    }
}

impl Printed for CoreEvent {
    const COLUMNS: &'static [Column] = EVENT_COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let view = EventView {
            meta: &self.metadata,
            first: self.first_timestamp.as_ref(),
            last: self.last_timestamp.as_ref(),
            at: self.event_time.as_ref(),
            series: self.series.as_ref().map(|series| (series.last_observed_time.as_ref(), series.count.unwrap_or_default())),
            count: self.count,
            kind: self.type_.as_deref(),
            reason: self.reason.as_deref(),
            object: Some(&self.involved_object),
            source: self.source.as_ref(),
            reporter: (self.reporting_component.as_deref(), self.reporting_instance.as_deref()),
            message: self.message.as_deref(),
        };
        view.cells(now)
    }
}

impl Printed for Event {
    const COLUMNS: &'static [Column] = EVENT_COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let view = EventView {
            meta: &self.metadata,
            first: self.deprecated_first_timestamp.as_ref(),
            last: self.deprecated_last_timestamp.as_ref(),
            at: self.event_time.as_ref(),
            series: self.series.as_ref().map(|series| (Some(&series.last_observed_time), series.count)),
            count: self.deprecated_count,
            kind: self.type_.as_deref(),
            reason: self.reason.as_deref(),
            object: self.regarding.as_ref(),
            source: self.deprecated_source.as_ref(),
            reporter: (self.reporting_controller.as_deref(), self.reporting_instance.as_deref()),
            message: self.note.as_deref(),
        };
        view.cells(now)
    }
}
