//! The resource table, with one entry for each served kind. Code that is specific to a built-in kind is in its file in
//! [`kinds`].

mod built_in;
mod defined;
mod kind_fields;
pub(crate) mod kinds;
pub(crate) mod merge_rules;
pub(crate) mod printed;
mod rules;
mod table;

pub(crate) use built_in::merge_rules;
pub use built_in::{built_in, of};
pub(crate) use kind_fields::{KindFields, fill};
pub use printed::Printed;
pub use rules::{BoxObject, DecodeError, Decoded, KindSchema, Rules};
pub(crate) use rules::{FormError, StoredForm};
pub use table::{DefineError, Ended, Lifecycle, ResourceTable, Resources, TableChange, Taken};

use berth_api::Scope;
pub use berth_api::Subresource;
use berth_identity::{ApiName, GroupResource, GroupVersionKind, GroupVersionResource};
use berth_kinds::ConversionWebhook;
use berth_store::{Entry, env::Timestamp};
use jiff::SignedDuration;
use merge_rules::MergeRule;
use rules::Typed;
use serde_json::Value;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A column of a Table.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PrinterColumn<'a> {
    /// As kubectl prints it.
    pub name: &'a str,
    /// `string`, `integer`, `date`, …
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// `name` for the Name column, else empty.
    pub format: &'a str,
    /// 0 always shown, 1 only in wide output.
    pub priority: i32,
    /// A one-sentence description, in berth's own words.
    pub description: &'a str,
}

/// A column of a built-in kind.
pub type Column = PrinterColumn<'static>;

/// A selectable field besides name and namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectableField {
    /// As selectors name it: `status.phase`. The headers of all objects share it.
    pub name: Arc<str>,
    /// JSON pointer of its value: `/status/phase`.
    pub pointer: String,
    /// The value of a missing field for selectors: usually empty, `false` for a boolean.
    pub absent: &'static str,
}

/// A subresource that needs a running container or a real network, which berth simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// The first part of the path after the object's name.
    pub subresource: &'static str,
    /// Why it is unsupported.
    pub why: &'static str,
    /// Whether the path contains only the name of the object.
    pub names_an_object: bool,
}

/// The bodies of a kind that the audit log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditedBody {
    /// Bodies without members that could be secret.
    #[default]
    WithoutData,
    /// All bodies, because members with those names are not secret.
    WithData,
    /// No bodies.
    Never,
}

/// The names of a kind in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `apps/v1`, `Deployment`.
    pub kind: GroupVersionKind,
    /// `deployments`.
    pub plural: ApiName,
    /// `deployment`.
    pub singular: ApiName,
    /// `deploy`.
    pub short_names: Vec<ApiName>,
    /// `all`.
    pub categories: Vec<ApiName>,
}

impl Names {
    /// A kind without a singular, short names and categories.
    #[must_use]
    pub fn new(kind: GroupVersionKind, plural: impl Into<ApiName>) -> Self {
        Self { kind, plural: plural.into(), singular: ApiName::EMPTY, short_names: Vec::new(), categories: Vec::new() }
    }
}

/// Where the objects of a resource come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The store.
    Store,
    /// The request: it is a review.
    Request,
    /// The server computes them at each request.
    Computation,
}

/// The number of the next resource.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// One table entry.
pub struct Resource {
    names: Names,
    /// Its group and plural.
    resource: GroupResource,
    /// Namespaced or not.
    pub scope: Scope,
    /// Its subresources.
    pub subresources: Vec<Subresource>,
    /// Why its objects are read-only. Empty if they are not.
    pub read_only: &'static str,
    /// Whether PUT may create (Lease, Event, Service, …).
    pub create_on_update: bool,
    /// Selectable fields besides name and namespace.
    pub selectable_fields: Vec<SelectableField>,
    /// Whether it supports deletecollection.
    pub is_deleted_in_bulk: bool,
    /// Whether a deletion without a policy orphans dependents. The text is the warning, if not empty.
    pub orphans_by_default: Option<&'static str>,
    /// Subresources that are rejected with a reason.
    pub simulated: &'static [Simulated],
    /// The bodies that the audit log contains.
    pub audited_body: AuditedBody,
    /// How patches and server-side apply treat the fields of its types.
    pub(crate) merge_rules: &'static [MergeRule],
    /// Members besides `metadata`, `spec` and `status` that upstream's type always has. Adding them is no change.
    pub(crate) always_has: Value,
    /// The fields besides the spec that a write to `/status` copies from the stored object.
    pub(crate) status_keeps: &'static [&'static [&'static str]],
    /// The number of bytes by which later writes of other clients will enlarge an object.
    pub(crate) growth: Option<fn(&Entry) -> usize>,
    /// Whether its objects are written often and rarely read. Their times have fractions, of which the store keeps
    /// less.
    pub(crate) rarely_read: bool,
    /// How long an object lives after its last write. `None`: until it is deleted.
    time_to_live: Option<SignedDuration>,
    /// The rules for decoding, printing and describing its objects.
    pub rules: Box<dyn Rules>,
    /// The stored form of its objects. `None`: the served form.
    pub(crate) stored_form: Option<Box<dyn StoredForm>>,
    /// Their key prefix.
    prefix: String,
    api_version: String,
    source: Source,
    /// Set for a kind that was added at run time.
    added: Option<Arc<table::Life>>,
    /// Whether its definition is being deleted.
    lifecycle: Lifecycle,
    /// Differs from that of every other resource of the process.
    number: u64,
    /// The facts for field ownership, after their first use.
    pub(crate) fields: OnceLock<KindFields>,
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version, self.plural())
    }
}

impl Resource {
    /// Returns a kind without subresources and selectable fields, stored at `GROUP/PLURAL` as upstream's custom
    /// resources.
    #[must_use]
    pub fn new(names: Names, scope: Scope, rules: impl Rules) -> Self {
        let resource = GroupResource { group: names.kind.group.clone(), plural: names.plural.clone() };
        let GroupResource { group, plural } = &resource;
        Self {
            prefix: if group.is_empty() { prefix(plural) } else { prefix(&format!("{group}/{plural}")) },
            api_version: names.kind.api_version(),
            names,
            resource,
            scope,
            subresources: Vec::new(),
            read_only: "",
            create_on_update: false,
            is_deleted_in_bulk: true,
            orphans_by_default: None,
            simulated: &[],
            audited_body: AuditedBody::default(),
            merge_rules: &[],
            always_has: Value::Null,
            status_keeps: &[],
            growth: None,
            rarely_read: false,
            time_to_live: None,
            selectable_fields: Vec::new(),
            rules: Box::new(rules),
            stored_form: None,
            source: Source::Store,
            added: None,
            lifecycle: Lifecycle::Active,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            fields: OnceLock::new(),
        }
    }

    /// Returns a number that no other resource of the process has. Documents that describe the same numbers are equal.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns its names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the kind of its objects: `apps/v1`, `Deployment`.
    #[must_use]
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.names.kind
    }

    /// `deployments` of the group `apps`.
    #[must_use]
    pub fn group_resource(&self) -> &GroupResource {
        &self.resource
    }

    /// `deployments` of `apps/v1`.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        self.names.kind.group_version().with_resource(&self.names.plural)
    }

    /// Empty for core.
    #[must_use]
    pub fn group(&self) -> &ApiName {
        &self.names.kind.group
    }

    /// `v1`.
    #[must_use]
    pub fn version(&self) -> &ApiName {
        &self.names.kind.version
    }

    /// `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &ApiName {
        &self.names.kind.kind
    }

    /// `deployments`.
    #[must_use]
    pub fn plural(&self) -> &ApiName {
        &self.names.plural
    }

    /// Whether it is a review, which is created and not stored.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.source == Source::Request
    }

    /// Whether the server computes its objects at each request and stores nothing.
    #[must_use]
    pub fn is_computed(&self) -> bool {
        self.source == Source::Computation
    }

    /// Whether its objects are stored.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.source == Source::Store
    }

    /// `apps/v1`, `v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the storage version of its objects: `apps/v1`.
    #[must_use]
    pub fn stored_api_version(&self) -> &str {
        self.stored_form.as_ref().map_or(&self.api_version, |form| form.api_version())
    }

    /// Returns the webhook that converts its objects between versions, if one does.
    pub(crate) fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        self.stored_form.as_ref()?.webhook()
    }

    /// Whether this is the storage version. Headers are those of the storage version.
    fn is_stored_version(&self) -> bool {
        self.stored_api_version() == self.api_version
    }

    /// Changes the key prefix of its objects: `services/specs`. Must not be changed for a kind with stored objects.
    #[must_use]
    pub fn stored_at(mut self, path: &str) -> Self {
        self.prefix = prefix(path);
        self
    }

    /// Returns the key prefix of its objects: `/registry/pods/`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns when an object that is written now expires. `None`: never.
    pub(crate) fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.time_to_live.map(|time_to_live| now + time_to_live)
    }

    /// Returns why a subresource that needs a running container or a real network is unsupported. `None`: it is not
    /// such a subresource. Only the first part of the path after the object's name matters.
    #[must_use]
    pub fn simulated(&self, path: &str) -> Option<&Simulated> {
        let first = path.split('/').next().unwrap_or_default();
        self.simulated.iter().find(|simulated| simulated.subresource == first)
    }

    fn namespaced<K: Printed>() -> Self {
        Self::typed::<K>(Scope::Namespaced)
    }

    fn cluster<K: Printed>() -> Self {
        Self::typed::<K>(Scope::Cluster)
    }

    /// Returns a resource that is stored at `PLURAL`, as nearly all of upstream's.
    fn typed<K: Printed>(scope: Scope) -> Self {
        let kind = GroupVersionKind::from_static(K::GROUP, K::VERSION, K::KIND);
        let names = Names { singular: K::KIND.to_lowercase().into(), ..Names::new(kind, ApiName::from_static(K::URL_PATH_SEGMENT)) };
        Self::new(names, scope, Typed::<K>::new()).stored_at(K::URL_PATH_SEGMENT)
    }

    fn short(mut self, names: &[&'static str]) -> Self {
        self.names.short_names = names.iter().copied().map(ApiName::from_static).collect();
        self
    }

    /// Adds it to the category of `kubectl get all`.
    fn all(mut self) -> Self {
        self.names.categories = vec![ApiName::from_static("all")];
        self
    }

    fn sub(mut self, subresources: &[Subresource]) -> Self {
        self.subresources = subresources.to_vec();
        self
    }

    fn fields(mut self, fields: &[(&str, &str)]) -> Self {
        let field = |(name, pointer): &(&str, &str)| SelectableField { name: (*name).into(), pointer: (*pointer).to_owned(), absent: "" };
        self.selectable_fields = fields.iter().map(field).collect();
        self
    }

    /// Sets the selectable booleans that are false if an object does not have them.
    fn absent_is_false(mut self, names: &[&str]) -> Self {
        for field in self.selectable_fields.iter_mut().filter(|field| names.contains(&&*field.name)) {
            field.absent = "false";
        }
        self
    }

    fn merges(mut self, rules: &'static [MergeRule]) -> Self {
        self.merge_rules = rules;
        self
    }

    fn always_has(mut self, members: Value) -> Self {
        self.always_has = members;
        self
    }

    fn status_keeps(mut self, paths: &'static [&'static [&'static str]]) -> Self {
        self.status_keeps = paths;
        self
    }

    fn grows(mut self, growth: fn(&Entry) -> usize) -> Self {
        self.growth = Some(growth);
        self
    }

    fn rarely_read(mut self) -> Self {
        self.rarely_read = true;
        self
    }

    fn expires_after(mut self, time_to_live: SignedDuration) -> Self {
        self.time_to_live = Some(time_to_live);
        self
    }

    fn not_deleted_in_bulk(mut self) -> Self {
        self.is_deleted_in_bulk = false;
        self
    }

    fn refuses(mut self, simulated: &'static [Simulated]) -> Self {
        self.simulated = simulated;
        self
    }

    fn audited(mut self, body: AuditedBody) -> Self {
        self.audited_body = body;
        self
    }

    fn read_only(mut self, why: &'static str) -> Self {
        self.read_only = why;
        self
    }

    fn stored_as(mut self, form: impl StoredForm) -> Self {
        self.stored_form = Some(Box::new(form));
        self
    }

    fn orphans_by_default(mut self, warning: &'static str) -> Self {
        self.orphans_by_default = Some(warning);
        self
    }

    fn put_creates(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    fn review(mut self) -> Self {
        self.source = Source::Request;
        self
    }

    fn computed(mut self) -> Self {
        self.source = Source::Computation;
        self
    }

    fn without_singular(mut self) -> Self {
        self.names.singular = ApiName::EMPTY;
        self
    }
}

/// Returns the key prefix of a resource that is stored at `path`.
pub(crate) fn prefix(path: &str) -> String {
    format!("/registry/{path}/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    #[test]
    fn every_resource_is_found_by_path_by_kind_and_by_name() {
        let table = built_in();
        for resource in table.all() {
            let found = [table.find(&resource.gvr()), table.by_kind(resource.gvk()), table.by_name(resource.group_resource())];
            let preferred = table.by_name(resource.group_resource()).filter(|_| resource.is_stored());
            let wanted = [Some(resource), Some(resource).filter(|resource| resource.is_stored()), preferred];
            assert!(found.iter().zip(wanted).all(|(found, wanted)| found.map(Arc::as_ptr) == wanted.map(Arc::as_ptr)), "{resource:?}");
        }
        let autoscalers = table.by_name(&GroupResource::from_static("autoscaling", "horizontalpodautoscalers"));
        assert_eq!(autoscalers.map(|resource| resource.api_version()), Some("autoscaling/v2"), "the preferred version");
        assert!(table.find(&GroupVersionResource::from_static("apps", "v1beta1", "deployments")).is_none());
        assert!(table.by_kind(&GroupVersionKind::new("", "v1", "Deployment")).is_none());
        assert!(table.by_name(&GroupResource::new("", "deployments")).is_none());
    }

    #[test]
    fn the_page_of_kinds_lists_them_in_their_order() {
        let page = include_str!("../../../../docs/kinds.md").lines().filter(|line| line.starts_with("| "));
        let listed: Vec<String> =
            page.skip(1).map(|row| row.split(" | ").take(2).collect::<Vec<_>>().join(" ").replace("| ", "")).collect();
        let served: Vec<String> =
            built_in().all().iter().map(|resource| format!("{} {}", resource.kind(), resource.api_version())).collect();
        assert_eq!(listed, served);
    }

    #[test]
    fn lists_are_sorted_and_one_column_is_the_name() {
        for resource in built_in().all() {
            assert!(resource.subresources.iter().map(|s| s.as_str()).is_sorted(), "{resource:?}");
            assert!(resource.selectable_fields.is_sorted(), "{resource:?}");
            // Upstream has a second column of this format: the driver of a VolumeAttachment.
            let names: Vec<&str> = resource.rules.columns().iter().filter(|c| c.format == "name").map(|c| c.name).collect();
            assert!(names == ["Name"] || names == ["Name", "Attacher"], "{resource:?}");
        }
    }

    /// Upstream and berth can each continue with the other's stored objects.
    #[test]
    fn objects_are_stored_where_upstream_stores_them() {
        let upstream = include_str!("../../../../testdata/upstream/keys.txt");
        let rows = upstream.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let places: Vec<Vec<&str>> = rows.map(|row| row.split_whitespace().collect()).collect();
        let place = |name: &str| places.iter().find(|row| row[0] == name).map(|row| (row[1], row[2]));
        for resource in built_in().stored() {
            let GroupResource { group, plural } = resource.group_resource();
            let (name, form) = match (group.as_str(), plural.as_str()) {
                ("", plural) => (plural.to_owned(), resource.api_version()),
                (group @ "events.k8s.io", plural) => (format!("{plural}.{group}"), "v1"),
                // Upstream stores the older version, and reads both.
                (group @ "admissionregistration.k8s.io", plural) if plural.starts_with("mutatingadmissionpolic") => {
                    (format!("{plural}.{group}"), "admissionregistration.k8s.io/v1beta1")
                }
                (group @ "apiextensions.k8s.io", plural) => (format!("{plural}.{group}"), "apiextensions.k8s.io/v1beta1"),
                (group, plural) => (format!("{plural}.{group}"), resource.stored_api_version()),
            };
            assert_eq!(place(&name), Some((resource.prefix(), form)), "{name}");
        }
        let names = Names::new(GroupVersionKind::new("example.com", "v1", "Widget"), "widgets");
        let custom = Resource::new(names, Scope::Namespaced, Typed::<ConfigMap>::new());
        assert_eq!(place("widgets.example.com"), Some((custom.prefix(), "example.com/v1")));
    }

    #[test]
    fn resources_of_a_group_are_adjacent() {
        let mut groups: Vec<&str> = built_in().all().iter().map(|r| r.group().as_str()).collect();
        groups.dedup();
        let unique: std::collections::BTreeSet<&str> = groups.iter().copied().collect();
        assert_eq!(groups.len(), unique.len());
    }

    #[test]
    fn an_empty_object_of_every_kind_decodes_and_prints_one_cell_a_column() {
        for resource in built_in().stored() {
            let value = json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "metadata": {"name": "n"}});
            let bytes = serde_json::to_vec(&value).expect("JSON encodes");
            let stored = resource.rules.decode_stored(&bytes).expect("decodes");
            let decoded = resource.rules.decode(value).expect("decodes");
            assert!(stored.same_as(&*decoded.object));
            assert_eq!(decoded.unknown, Vec::<String>::new());
            let cells = resource.rules.cells(&*stored, Timestamp::UNIX_EPOCH);
            assert_eq!(cells.len(), resource.rules.columns().len(), "{resource:?}");
        }
    }

    #[test]
    fn unknown_fields_are_reported_and_wrong_types_refused() {
        let rules = &of::<ConfigMap>().rules;
        let decoded = rules.decode(json!({"metadata": {"name": "c"}, "bogus": 1})).expect("decodes");
        assert_eq!(decoded.unknown, ["bogus"]);
        let error = rules.decode(json!({"metadata": {"name": 1}})).expect_err("a name is a string");
        assert!(error.message.contains("invalid type"), "{error}");
    }
}
