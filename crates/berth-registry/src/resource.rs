//! The resource table: every kind that is served is one line of it.

pub use berth_api::decode::DecodeError;

use crate::{
    BoxObject,
    table::{Printed, cells, row_conditions},
};
use berth_api::{
    Kind, Object, Scope,
    apps::{Deployment, ReplicaSet, StatefulSet},
    k8s_openapi::api::{
        apps::v1::ControllerRevision,
        authentication::v1::{SelfSubjectReview, TokenReview},
        authorization::v1::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview},
        autoscaling::v2::HorizontalPodAutoscaler,
        coordination::v1::Lease,
        core::v1::{
            ConfigMap, Endpoints, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
            ResourceQuota, Secret, Service, ServiceAccount,
        },
        discovery::v1::EndpointSlice,
        events::v1::Event,
        networking::v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        scheduling::v1::PriorityClass,
        storage::v1::StorageClass,
    },
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};

use Subresource::{Binding, Eviction, Finalize, Log, Scale, Status, Token};

/// A part of an object with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    /// `status`.
    Status,
    /// `scale`.
    Scale,
    /// `binding` (pods).
    Binding,
    /// `eviction` (pods).
    Eviction,
    /// `finalize` (namespaces).
    Finalize,
    /// `log` (pods): text, answered by [`crate::Registry::log`].
    Log,
    /// `token` (service accounts): answered where tokens are signed, not by the registry.
    Token,
}

impl Subresource {
    /// The last segment of its path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::Token => "token",
        }
    }
}

/// A column of a Table.
#[derive(Debug, serde::Serialize)]
pub struct Column {
    /// As kubectl prints it.
    pub name: &'static str,
    /// `string`, `integer`, `date`, …
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `name` for the Name column, else empty.
    pub format: &'static str,
    /// 0 always shown, 1 only in wide output.
    pub priority: i32,
    /// One sentence of our own.
    pub description: &'static str,
}

/// One line of the table.
#[derive(Debug)]
pub struct Resource {
    /// Empty for core.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// `Deployment`.
    pub kind: &'static str,
    /// `deployments`.
    pub plural: &'static str,
    /// `deployment`.
    pub singular: &'static str,
    /// `deploy`.
    pub short_names: &'static [&'static str],
    /// `all`.
    pub categories: &'static [&'static str],
    /// Namespaced or not.
    pub scope: Scope,
    /// Its subresources.
    pub subresources: &'static [Subresource],
    /// Why none of it can be made or changed; empty where it can.
    pub read_only: &'static str,
    /// Whether PUT may create (Lease, Event, Service, …).
    pub create_on_update: bool,
    /// Fields that a field selector may name, besides name and namespace, each with the JSON pointer of its value.
    pub selectable_fields: &'static [(&'static str, &'static str)],
    /// Columns of its Table.
    pub columns: &'static [Column],
    /// The cells of one row, one per column; `now` is for ages.
    pub cells: fn(&dyn Object, jiff::Timestamp) -> Vec<serde_json::Value>,
    /// Conditions of one row, by which clients may hide it.
    pub row_conditions: fn(&dyn Object) -> Vec<serde_json::Value>,
    /// Decodes JSON into an object of this kind.
    pub decode: fn(serde_json::Value) -> Result<Decoded, DecodeError>,
    /// Decodes what the store holds, or any JSON whose unknown fields do not matter: quicker than `decode`.
    pub decode_stored: fn(&[u8]) -> Result<BoxObject, DecodeError>,
    /// A reference to the JSON schema of the kind, for OpenAPI; the schema itself is left in the generator.
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

/// An object and what its JSON held besides.
#[derive(Debug)]
pub struct Decoded {
    /// The object, without defaults.
    pub object: Box<dyn Object>,
    /// Paths of fields that the kind does not have.
    pub unknown: Vec<String>,
}

/// Every kind, in the order in which groups are preferred and kinds are shown.
static RESOURCES: &[Resource] = &[
    Resource::cluster::<Namespace>("namespace").short(&["ns"]).sub(&[Finalize, Status]).fields(NAMESPACE_FIELDS),
    Resource::cluster::<Node>("node").short(&["no"]).sub(&[Status]).fields(NODE_FIELDS),
    Resource::namespaced::<Pod>("pod").short(&["po"]).all().sub(&[Binding, Eviction, Log, Status]).fields(POD_FIELDS),
    Resource::namespaced::<Service>("service").short(&["svc"]).all().sub(&[Status]).fields(SERVICE_FIELDS).put_creates(),
    Resource::namespaced::<Endpoints>("endpoints").short(&["ep"]),
    Resource::namespaced::<ConfigMap>("configmap").short(&["cm"]),
    Resource::namespaced::<Secret>("secret").fields(&[("type", "/type")]),
    Resource::namespaced::<ServiceAccount>("serviceaccount").short(&["sa"]).sub(&[Token]),
    Resource::cluster::<PersistentVolume>("persistentvolume").short(&["pv"]).sub(&[Status]),
    Resource::namespaced::<PersistentVolumeClaim>("persistentvolumeclaim").short(&["pvc"]).sub(&[Status]),
    Resource::namespaced::<CoreEvent>("event").short(&["ev"]).fields(CORE_EVENT_FIELDS).put_creates(),
    Resource::namespaced::<ResourceQuota>("resourcequota").short(&["quota"]).sub(&[Status]),
    Resource::namespaced::<LimitRange>("limitrange").short(&["limits"]),
    Resource::namespaced::<Deployment>("deployment").short(&["deploy"]).all().sub(&[Scale, Status]),
    Resource::namespaced::<ReplicaSet>("replicaset").short(&["rs"]).all().sub(&[Scale, Status]),
    Resource::namespaced::<StatefulSet>("statefulset").short(&["sts"]).all().sub(&[Scale, Status]),
    Resource::namespaced::<ControllerRevision>("controllerrevision"),
    Resource::namespaced::<Event>("event").short(&["ev"]).fields(EVENT_FIELDS).put_creates(),
    Resource::namespaced::<HorizontalPodAutoscaler>("horizontalpodautoscaler").short(&["hpa"]).all().sub(&[Status]),
    Resource::cluster::<IngressClass>("ingressclass"),
    Resource::namespaced::<Ingress>("ingress").short(&["ing"]).sub(&[Status]),
    Resource::cluster::<IPAddress>("ipaddress").short(&["ip"]),
    Resource::namespaced::<NetworkPolicy>("networkpolicy").short(&["netpol"]),
    Resource::cluster::<ServiceCIDR>("servicecidr").sub(&[Status]),
    Resource::namespaced::<PodDisruptionBudget>("poddisruptionbudget").short(&["pdb"]).sub(&[Status]),
    Resource::cluster::<ClusterRoleBinding>("clusterrolebinding").put_creates(),
    Resource::cluster::<ClusterRole>("clusterrole").put_creates(),
    Resource::namespaced::<RoleBinding>("rolebinding").put_creates(),
    Resource::namespaced::<Role>("role").put_creates(),
    Resource::cluster::<StorageClass>("storageclass").short(&["sc"]),
    Resource::cluster::<CustomResourceDefinition>("customresourcedefinition").short(&["crd", "crds"]).read_only(NO_CUSTOM_RESOURCES),
    Resource::cluster::<PriorityClass>("priorityclass").short(&["pc"]),
    Resource::namespaced::<Lease>("lease").put_creates(),
    Resource::namespaced::<EndpointSlice>("endpointslice"),
];

/// The kind is there so that clients which look for definitions, as kubectl does before it says that a kind is unknown, find that there are none.
const NO_CUSTOM_RESOURCES: &str =
    "berth does not serve custom resources yet: CustomResourceDefinitions can only be listed, and there are none";

/// Kinds that are only asked, by a create: nothing is stored.
static REVIEWS: &[Resource] = &[
    Resource::cluster::<SelfSubjectReview>("selfsubjectreview"),
    Resource::cluster::<TokenReview>("tokenreview"),
    Resource::namespaced::<LocalSubjectAccessReview>("localsubjectaccessreview"),
    Resource::cluster::<SelfSubjectAccessReview>("selfsubjectaccessreview"),
    Resource::cluster::<SelfSubjectRulesReview>("selfsubjectrulesreview"),
    Resource::cluster::<SubjectAccessReview>("subjectaccessreview"),
];

/// Every kind that is asked and never stored; they are not among [`all`].
#[must_use]
pub fn reviews() -> &'static [Resource] {
    REVIEWS
}

/// The review at `/apis/{group}/{version}/…/{plural}`.
#[must_use]
pub fn find_review(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    reviews().iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// Every kind that is stored. Kinds of one group stand together; groups are in order of preference.
#[must_use]
pub fn all() -> &'static [Resource] {
    RESOURCES
}

/// The resource at `/apis/{group}/{version}/…/{plural}`; `group` is empty for core.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    all().iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// The resource of an object by what its JSON says: `apps/v1`, `Deployment`.
#[must_use]
pub fn by_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    all().iter().find(|r| r.group == group && r.version == version && r.kind == kind)
}

/// The resource by its qualified name, in the preferred version: `apps`, `deployments`.
#[must_use]
pub fn by_name(group: &str, plural: &str) -> Option<&'static Resource> {
    all().iter().find(|r| r.group == group && r.plural == plural)
}

impl Resource {
    /// Whether it is one of [`reviews`].
    #[must_use]
    pub fn is_review(&self) -> bool {
        find_review(self.group, self.version, self.plural).is_some()
    }

    /// `apps/v1`, `v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    const fn namespaced<K: Printed>(singular: &'static str) -> Self {
        Self::of::<K>(singular, Scope::Namespaced)
    }

    const fn cluster<K: Printed>(singular: &'static str) -> Self {
        Self::of::<K>(singular, Scope::Cluster)
    }

    const fn of<K: Printed>(singular: &'static str, scope: Scope) -> Self {
        Self {
            group: K::GROUP,
            version: K::VERSION,
            kind: K::KIND,
            plural: K::URL_PATH_SEGMENT,
            singular,
            short_names: &[],
            categories: &[],
            scope,
            subresources: &[],
            read_only: "",
            create_on_update: false,
            selectable_fields: &[],
            columns: K::COLUMNS,
            cells: cells::<K>,
            row_conditions: row_conditions::<K>,
            decode: decode::<K>,
            decode_stored: decode_stored::<K>,
            schema: schemars::SchemaGenerator::subschema_for::<K>,
        }
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    /// Of the category that `kubectl get all` lists.
    const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn sub(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    const fn fields(mut self, fields: &'static [(&'static str, &'static str)]) -> Self {
        self.selectable_fields = fields;
        self
    }

    const fn read_only(mut self, why: &'static str) -> Self {
        self.read_only = why;
        self
    }

    const fn put_creates(mut self) -> Self {
        self.create_on_update = true;
        self
    }
}

const NAMESPACE_FIELDS: &[(&str, &str)] = &[("status.phase", "/status/phase")];
const NODE_FIELDS: &[(&str, &str)] = &[("spec.unschedulable", "/spec/unschedulable")];
const SERVICE_FIELDS: &[(&str, &str)] = &[("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")];
const POD_FIELDS: &[(&str, &str)] = &[
    ("spec.hostNetwork", "/spec/hostNetwork"),
    ("spec.nodeName", "/spec/nodeName"),
    ("spec.restartPolicy", "/spec/restartPolicy"),
    ("spec.schedulerName", "/spec/schedulerName"),
    ("spec.serviceAccountName", "/spec/serviceAccountName"),
    ("status.nominatedNodeName", "/status/nominatedNodeName"),
    ("status.phase", "/status/phase"),
    ("status.podIP", "/status/podIP"),
    ("status.podIPs", "/status/podIPs"),
];
const CORE_EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("reason", "/reason"),
    ("regarding.apiVersion", "/regarding/apiVersion"),
    ("regarding.fieldPath", "/regarding/fieldPath"),
    ("regarding.kind", "/regarding/kind"),
    ("regarding.name", "/regarding/name"),
    ("regarding.namespace", "/regarding/namespace"),
    ("regarding.resourceVersion", "/regarding/resourceVersion"),
    ("regarding.uid", "/regarding/uid"),
    ("reportingController", "/reportingController"),
    ("type", "/type"),
];

fn decode<K: Kind>(value: serde_json::Value) -> Result<Decoded, DecodeError> {
    let (object, unknown) = berth_api::decode::decode::<K>(value)?;
    Ok(Decoded { object: Box::new(object), unknown })
}

fn decode_stored<K: Kind>(bytes: &[u8]) -> Result<BoxObject, DecodeError> {
    Ok(Box::new(berth_api::decode::decode_bytes::<K>(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_resource_is_found_by_path_by_kind_and_by_name() {
        for resource in all() {
            let found = [
                find(resource.group, resource.version, resource.plural),
                by_kind(&resource.api_version(), resource.kind),
                by_name(resource.group, resource.plural),
            ];
            for one in found {
                let one = one.expect("a line of the table is found");
                assert_eq!((one.group, one.kind), (resource.group, resource.kind));
            }
        }
        assert!(find("apps", "v1beta1", "deployments").is_none());
        assert!(by_kind("v1", "Deployment").is_none());
        assert!(by_name("", "deployments").is_none());
    }

    #[test]
    fn names_follow_the_kind() {
        for resource in all() {
            assert_eq!(resource.singular, resource.kind.to_lowercase());
            assert!(resource.subresources.iter().map(|s| s.as_str()).is_sorted(), "{}", resource.plural);
            assert!(resource.selectable_fields.is_sorted(), "{}", resource.plural);
            assert_eq!(resource.columns.iter().filter(|c| c.format == "name").count(), 1, "{}", resource.plural);
        }
    }

    #[test]
    fn groups_stand_together() {
        let mut groups: Vec<&str> = all().iter().map(|r| r.group).collect();
        groups.dedup();
        let unique: std::collections::BTreeSet<&str> = groups.iter().copied().collect();
        assert_eq!(groups.len(), unique.len());
    }

    #[test]
    fn an_empty_object_of_every_kind_decodes_and_prints_one_cell_a_column() {
        for resource in all() {
            let value = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": "n"}});
            let bytes = serde_json::to_vec(&value).expect("JSON encodes");
            let stored = (resource.decode_stored)(&bytes).expect("decodes");
            let decoded = (resource.decode)(value).expect("decodes");
            assert!(stored.same_as(&*decoded.object));
            assert_eq!(decoded.unknown, Vec::<String>::new());
            assert_eq!((resource.cells)(&*stored, jiff::Timestamp::UNIX_EPOCH).len(), resource.columns.len(), "{}", resource.kind);
        }
    }

    #[test]
    fn unknown_fields_are_reported_and_wrong_types_refused() {
        let config_maps = by_name("", "configmaps").expect("served");
        let decoded = (config_maps.decode)(json!({"metadata": {"name": "c"}, "bogus": 1})).expect("decodes");
        assert_eq!(decoded.unknown, ["bogus"]);
        let error = (config_maps.decode)(json!({"metadata": {"name": 1}})).expect_err("a name is a string");
        assert!(error.message.contains("invalid type"), "{error}");
    }
}
