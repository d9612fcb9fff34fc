//! Makes zeros absent where the wire form prints none, so that a pod equals itself after a round trip through any client. Fields where a zero
//! means something else than absence are left alone.

use crate::unset::{drop_zero, list_mut};
use k8s_openapi::api::core::v1::{Affinity, Container, EnvVar, LifecycleHandler, PodSpec, Probe, Toleration, VolumeMount};

/// Drops the zeros of a pod's own fields; containers have [`drop_container_zeros`].
pub(super) fn drop_pod_spec_zeros(spec: &mut PodSpec) {
    [&mut spec.host_ipc, &mut spec.host_network, &mut spec.host_pid].into_iter().for_each(drop_zero);
    let texts = [
        &mut spec.hostname,
        &mut spec.node_name,
        &mut spec.priority_class_name,
        &mut spec.service_account,
        &mut spec.service_account_name,
        &mut spec.subdomain,
    ];
    texts.into_iter().for_each(drop_zero);
    drop_zero(&mut spec.ephemeral_containers);
    drop_zero(&mut spec.host_aliases);
    drop_zero(&mut spec.image_pull_secrets);
    drop_zero(&mut spec.init_containers);
    drop_zero(&mut spec.node_selector);
    drop_zero(&mut spec.overhead);
    drop_zero(&mut spec.readiness_gates);
    drop_zero(&mut spec.resource_claims);
    drop_zero(&mut spec.scheduling_gates);
    drop_zero(&mut spec.tolerations);
    drop_zero(&mut spec.topology_spread_constraints);
    drop_zero(&mut spec.volumes);
    list_mut(&mut spec.tolerations).iter_mut().for_each(drop_toleration_zeros);
    spec.affinity.iter_mut().for_each(drop_affinity_zeros);
}

fn drop_toleration_zeros(toleration: &mut Toleration) {
    [&mut toleration.effect, &mut toleration.key, &mut toleration.operator, &mut toleration.value].into_iter().for_each(drop_zero);
}

fn drop_affinity_zeros(affinity: &mut Affinity) {
    affinity.node_affinity.iter_mut().for_each(|node| drop_zero(&mut node.preferred_during_scheduling_ignored_during_execution));
    if let Some(pod) = &mut affinity.pod_affinity {
        drop_zero(&mut pod.preferred_during_scheduling_ignored_during_execution);
        drop_zero(&mut pod.required_during_scheduling_ignored_during_execution);
    }
    if let Some(pod) = &mut affinity.pod_anti_affinity {
        drop_zero(&mut pod.preferred_during_scheduling_ignored_during_execution);
        drop_zero(&mut pod.required_during_scheduling_ignored_during_execution);
    }
}

/// Drops the zeros of a container.
pub(super) fn drop_container_zeros(container: &mut Container) {
    [&mut container.stdin, &mut container.stdin_once, &mut container.tty].into_iter().for_each(drop_zero);
    [&mut container.image, &mut container.working_dir].into_iter().for_each(drop_zero);
    [&mut container.args, &mut container.command].into_iter().for_each(drop_zero);
    drop_zero(&mut container.env);
    drop_zero(&mut container.env_from);
    drop_zero(&mut container.ports);
    drop_zero(&mut container.resize_policy);
    drop_zero(&mut container.volume_devices);
    drop_zero(&mut container.volume_mounts);
    for port in list_mut(&mut container.ports) {
        drop_zero(&mut port.host_port);
        [&mut port.host_ip, &mut port.name].into_iter().for_each(drop_zero);
    }
    list_mut(&mut container.env).iter_mut().for_each(drop_env_zeros);
    list_mut(&mut container.volume_mounts).iter_mut().for_each(drop_mount_zeros);
    if let Some(resources) = &mut container.resources {
        drop_zero(&mut resources.limits);
        drop_zero(&mut resources.requests);
        drop_zero(&mut resources.claims);
    }
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(drop_probe_zeros);
    if let Some(lifecycle) = &mut container.lifecycle {
        [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten().for_each(drop_handler_zeros);
    }
}

fn drop_env_zeros(env: &mut EnvVar) {
    drop_zero(&mut env.value);
}

fn drop_mount_zeros(mount: &mut VolumeMount) {
    drop_zero(&mut mount.read_only);
    [&mut mount.sub_path, &mut mount.sub_path_expr].into_iter().for_each(drop_zero);
}

fn drop_probe_zeros(probe: &mut Probe) {
    drop_zero(&mut probe.initial_delay_seconds);
    if let Some(action) = &mut probe.http_get {
        drop_zero(&mut action.host);
        drop_zero(&mut action.http_headers);
    }
    probe.tcp_socket.iter_mut().for_each(|action| drop_zero(&mut action.host));
}

fn drop_handler_zeros(handler: &mut LifecycleHandler) {
    if let Some(action) = &mut handler.http_get {
        drop_zero(&mut action.host);
        drop_zero(&mut action.http_headers);
    }
}
