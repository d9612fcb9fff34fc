//! What a node reads of its pods.

use berth_api::{
    annotations::{SIM_READY_AFTER, SIM_TERMINATES_AFTER},
    k8s_openapi::{
        api::core::v1::{ContainerStatus, PodCondition},
        apimachinery::pkg::apis::meta::v1::Time,
    },
    simulation::{self, Failure},
};
use berth_controllers::{RawObject, cache::View};
use berth_identity::{Name, Namespace, ObjectKey, Uid};
use berth_workloads::{
    view::WireMetadata,
    volume_binding::view::{PodVolume, claims_of},
};
use jiff::Timestamp;
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};

/// What a node reads of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The node it is bound to; empty if it is not.
    pub node_name: String,
    /// When its grace period ends; set while it is being deleted.
    pub deletion_deadline: Option<Timestamp>,
    /// Whether somebody must let go of it before it can be removed.
    pub has_finalizers: bool,
    /// Its containers.
    pub containers: Vec<ContainerView>,
    /// Those that run before, in order.
    pub init_containers: Vec<ContainerView>,
    /// Names of claims by the names of the volumes that they are mounted as.
    pub claims: BTreeMap<String, String>,
    /// `sim.berth.dev/ready-after`.
    pub ready_after: Option<Duration>,
    /// `sim.berth.dev/terminates-after`.
    pub terminates_after: Option<Duration>,
    /// `sim.berth.dev/fails`.
    pub fails: Option<Failure>,
    /// Its status, as last written.
    pub status: StatusView,
}

/// One container of the spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Whether it says when it is ready.
    pub readiness_probe: Option<serde::de::IgnoredAny>,
    /// `Always` for init containers that stay.
    pub restart_policy: Option<String>,
}

/// A pod's status, as last written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusView {
    /// `Pending`, `Running`, …
    pub phase: String,
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// When its node took it on.
    pub start_time: Option<Time>,
    /// Its conditions, other writers' among them.
    pub conditions: Vec<PodCondition>,
    /// Its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// Those that run before.
    pub init_container_statuses: Vec<ContainerStatus>,
}

impl StatusView {
    /// The condition of that type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the condition Ready is True.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Whether a container waits for an image that could not be pulled.
    #[must_use]
    pub fn waits_for_image(&self) -> bool {
        let statuses = self.init_container_statuses.iter().chain(&self.container_statuses);
        let mut reasons = statuses.filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        reasons.any(|reason| matches!(reason, "ErrImagePull" | "ImagePullBackOff"))
    }

    /// The highest restart count.
    #[must_use]
    pub fn restarts(&self) -> i32 {
        self.container_statuses.iter().map(|status| status.restart_count).max().unwrap_or(0)
    }
}

impl PodView {
    /// Whether it runs no more.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        berth_api::pod::is_terminal(&self.status.phase)
    }

    /// Whether any container says itself when it is ready.
    #[must_use]
    pub fn has_readiness_probe(&self) -> bool {
        self.containers.iter().any(|container| container.readiness_probe.is_some())
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMetadata,
    spec: WireSpec,
    #[serde(default)]
    status: StatusView,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireSpec {
    node_name: String,
    containers: Vec<ContainerView>,
    init_containers: Vec<ContainerView>,
    volumes: Option<Vec<PodVolume>>,
}

impl View for PodView {
    fn decode(raw: &RawObject) -> Result<Self, serde_json::Error> {
        let mut wire: Wire = serde_json::from_slice(&raw.json)?;
        // Decoded lists have room for more than they hold, and these are large and kept for each pod.
        wire.spec.containers.shrink_to_fit();
        wire.spec.init_containers.shrink_to_fit();
        wire.status.conditions.shrink_to_fit();
        wire.status.container_statuses.shrink_to_fit();
        wire.status.init_container_statuses.shrink_to_fit();
        let annotations = wire.metadata.annotations.unwrap_or_default();
        Ok(Self {
            namespace: wire.metadata.namespace.into(),
            name: wire.metadata.name.into(),
            uid: wire.metadata.uid.into(),
            node_name: wire.spec.node_name,
            deletion_deadline: wire.metadata.deletion_timestamp.map(|time| time.0),
            has_finalizers: wire.metadata.finalizers.is_some_and(|finalizers| !finalizers.is_empty()),
            containers: wire.spec.containers,
            init_containers: wire.spec.init_containers,
            claims: claims_of(&wire.spec.volumes.unwrap_or_default()),
            ready_after: simulation::duration(&annotations, SIM_READY_AFTER),
            terminates_after: simulation::duration(&annotations, SIM_TERMINATES_AFTER),
            fails: simulation::fails(&annotations),
            status: wire.status,
        })
    }

    fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    fn uid(&self) -> &Uid {
        &self.uid
    }

    fn is_being_deleted(&self) -> bool {
        self.deletion_deadline.is_some()
    }
}
