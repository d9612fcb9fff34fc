//! A pod in the form that the checks use: all containers in one list.

use crate::unset::list;
use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, EphemeralContainer, Lifecycle, PodSecurityContext, PodSpec, Probe, SecurityContext},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// A pod or a template.
pub(super) struct Subject<'a> {
    pub(super) meta: &'a ObjectMeta,
    pub(super) spec: &'a PodSpec,
    /// Init containers, containers, ephemeral containers.
    pub(super) containers: Vec<Part<'a>>,
}

/// A container of any type.
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) context: Option<&'a SecurityContext>,
    pub(super) ports: &'a [ContainerPort],
    pub(super) probes: [Option<&'a Probe>; 3],
    pub(super) lifecycle: Option<&'a Lifecycle>,
}

macro_rules! part_of {
    ($container:expr) => {
        Part {
            name: &$container.name,
            context: $container.security_context.as_ref(),
            ports: list(&$container.ports),
            probes: [$container.liveness_probe.as_ref(), $container.readiness_probe.as_ref(), $container.startup_probe.as_ref()],
            lifecycle: $container.lifecycle.as_ref(),
        }
    };
}

impl<'a> Subject<'a> {
    pub(super) fn new(meta: &'a ObjectMeta, spec: &'a PodSpec) -> Self {
        let of_container = |container: &'a Container| part_of!(container);
        let of_ephemeral = |container: &'a EphemeralContainer| part_of!(container);
        let containers = list(&spec.init_containers).iter().chain(&spec.containers).map(of_container);
        let containers = containers.chain(list(&spec.ephemeral_containers).iter().map(of_ephemeral)).collect();
        Self { meta, spec, containers }
    }

    /// Returns the pod-level security context.
    pub(super) fn context(&self) -> Option<&'a PodSecurityContext> {
        self.spec.security_context.as_ref()
    }

    /// Whether the pod is for Windows, where Linux restrictions do not apply.
    pub(super) fn is_for_windows(&self) -> bool {
        self.spec.os.as_ref().is_some_and(|os| os.name == "windows")
    }

    /// Whether the pod has a user namespace.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.host_users == Some(false)
    }

    /// Returns the names of containers whose security context `is_bad`.
    pub(super) fn containers_where(&self, is_bad: impl Fn(&SecurityContext) -> bool) -> Vec<&'a str> {
        self.parts_where(|part| part.context.is_some_and(&is_bad))
    }

    /// Returns the names of containers that are bad by `is_bad`.
    pub(super) fn parts_where(&self, is_bad: impl Fn(&Part<'a>) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|part| is_bad(part)).map(|part| part.name).collect()
    }
}
