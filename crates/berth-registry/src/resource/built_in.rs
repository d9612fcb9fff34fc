//! The kinds that every server has: one line each.

use super::{
    Printed, Resource, ResourceTable, Resources,
    Subresource::{Binding, Eviction, Finalize, Log, Scale, Status, Token},
    events::AsCore,
};
use berth_api::{
    Kind,
    apps::{Deployment, ReplicaSet, StatefulSet},
    k8s_openapi::{
        api::{
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
            networking::v1::{IPAddress, ServiceCIDR},
            policy::v1::PodDisruptionBudget,
            rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
            scheduling::v1::PriorityClass,
            storage::v1::StorageClass,
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    },
};
use berth_identity::GroupVersionKind;
use berth_kinds::{
    Definition, Kind as DataKind,
    built_in::{ingress, ingress_class, network_policy},
};
use std::sync::{Arc, LazyLock};

static BUILT_IN: LazyLock<Arc<Resources>> =
    LazyLock::new(|| Arc::new(Resources::new(kinds().into_iter().chain(reviews().map(Resource::review)).map(Arc::new).collect())));

/// The table of a server to which no kind was added.
#[must_use]
pub fn built_in() -> &'static Arc<Resources> {
    &BUILT_IN
}

impl Default for ResourceTable {
    /// The built-in kinds.
    fn default() -> Self {
        Self::of(Arc::clone(built_in()))
    }
}

/// The resource of a built-in kind.
///
/// # Panics
/// If there is none of this type.
#[must_use]
pub fn of<K: Kind>() -> &'static Arc<Resource> {
    BUILT_IN
        .named(&GroupVersionKind::from_static(K::GROUP, K::VERSION, K::KIND))
        .expect("kinds that the server itself uses are in its table")
}

/// Every kind that is stored, in the order in which groups are preferred and kinds are shown. Places are upstream's.
fn kinds() -> Vec<Resource> {
    vec![
        Resource::cluster::<Namespace>().short(&["ns"]).sub(&[Finalize, Status]).fields(NAMESPACE_FIELDS),
        Resource::cluster::<Node>().short(&["no"]).sub(&[Status]).fields(NODE_FIELDS).stored_at("minions"),
        Resource::namespaced::<Pod>().short(&["po"]).all().sub(&[Binding, Eviction, Log, Status]).fields(POD_FIELDS),
        Resource::namespaced::<Service>()
            .short(&["svc"])
            .all()
            .sub(&[Status])
            .fields(SERVICE_FIELDS)
            .put_creates()
            .stored_at("services/specs"),
        Resource::namespaced::<Endpoints>().short(&["ep"]).put_creates().stored_at("services/endpoints"),
        Resource::namespaced::<ConfigMap>().short(&["cm"]),
        Resource::namespaced::<Secret>().fields(&[("type", "/type")]),
        Resource::namespaced::<ServiceAccount>().short(&["sa"]).sub(&[Token]),
        Resource::cluster::<PersistentVolume>().short(&["pv"]).sub(&[Status]),
        Resource::namespaced::<PersistentVolumeClaim>().short(&["pvc"]).sub(&[Status]),
        Resource::namespaced::<CoreEvent>().short(&["ev"]).fields(CORE_EVENT_FIELDS).put_creates(),
        Resource::namespaced::<ResourceQuota>().short(&["quota"]).sub(&[Status]),
        Resource::namespaced::<LimitRange>().short(&["limits"]).put_creates(),
        Resource::namespaced::<Deployment>().short(&["deploy"]).all().sub(&[Scale, Status]),
        Resource::namespaced::<ReplicaSet>().short(&["rs"]).all().sub(&[Scale, Status]),
        Resource::namespaced::<StatefulSet>().short(&["sts"]).all().sub(&[Scale, Status]),
        Resource::namespaced::<ControllerRevision>(),
        Resource::namespaced::<Event>().short(&["ev"]).fields(EVENT_FIELDS).put_creates().stored_as(AsCore),
        Resource::namespaced::<HorizontalPodAutoscaler>().short(&["hpa"]).all().sub(&[Status]),
        data(ingress_class()),
        data(ingress()).stored_at("ingress"),
        Resource::cluster::<IPAddress>().short(&["ip"]),
        data(network_policy()),
        Resource::cluster::<ServiceCIDR>().sub(&[Status]),
        Resource::namespaced::<PodDisruptionBudget>().short(&["pdb"]).sub(&[Status]),
        Resource::cluster::<ClusterRoleBinding>().put_creates(),
        Resource::cluster::<ClusterRole>().put_creates(),
        Resource::namespaced::<RoleBinding>().put_creates(),
        Resource::namespaced::<Role>().put_creates(),
        Resource::cluster::<StorageClass>().short(&["sc"]),
        Resource::cluster::<CustomResourceDefinition>()
            .short(&["crd", "crds"])
            .read_only(NO_CUSTOM_RESOURCES)
            .stored_at("apiextensions.k8s.io/customresourcedefinitions"),
        Resource::cluster::<PriorityClass>().short(&["pc"]),
        Resource::namespaced::<Lease>().put_creates(),
        Resource::namespaced::<EndpointSlice>(),
    ]
}

/// A kind that is data, stored at `PLURAL`.
fn data(definition: Definition) -> Resource {
    let kind = DataKind::new(definition).expect("built-in kinds do not contradict themselves");
    let resource = Resource::of_kind(&kind).remove(0);
    let place = resource.plural().to_string();
    resource.stored_at(&place)
}

/// The kind is there so that clients which look for definitions, as kubectl does before it says that a kind is unknown, find that there are none.
const NO_CUSTOM_RESOURCES: &str =
    "berth does not serve custom resources yet: CustomResourceDefinitions can only be listed, and there are none";

/// Kinds that are only asked, by a create: nothing is stored.
fn reviews() -> [Resource; 6] {
    [
        Resource::cluster::<SelfSubjectReview>(),
        Resource::cluster::<TokenReview>(),
        Resource::namespaced::<LocalSubjectAccessReview>(),
        Resource::cluster::<SelfSubjectAccessReview>(),
        Resource::cluster::<SelfSubjectRulesReview>(),
        Resource::cluster::<SubjectAccessReview>(),
    ]
}

// Kinds whose rows show their name and when they were made.
impl Printed for ClusterRole {}
impl Printed for LimitRange {}
impl Printed for LocalSubjectAccessReview {}
impl Printed for Role {}
impl Printed for SelfSubjectAccessReview {}
impl Printed for SelfSubjectReview {}
impl Printed for SelfSubjectRulesReview {}
impl Printed for SubjectAccessReview {}
impl Printed for TokenReview {}

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
