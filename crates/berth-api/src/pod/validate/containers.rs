//! Containers: names, images, ports, mounts.

use super::{env, names, names::check_port_name, probes, resources, security};
use crate::{
    FieldError, Path,
    faults::Faults,
    ip::check_ip,
    names::check_dns_label,
    pod::ephemeral::as_container,
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, VolumeMount};
use std::collections::{BTreeMap, BTreeSet};

/// What the checks of one container need of its pod.
pub(super) struct Surroundings<'a> {
    /// Names of the volumes that may be mounted.
    pub(super) volumes: &'a BTreeSet<&'a str>,
    /// How long the pod has to end.
    pub(super) grace_period_seconds: i64,
}

/// Checks all containers of a pod; names are unique among all of them.
pub(super) fn validate_all<'a>(spec: &'a PodSpec, path: &Path, volumes: &'a BTreeSet<&'a str>, faults: &mut Faults) {
    let grace_period_seconds = spec.termination_grace_period_seconds.unwrap_or_default().max(1);
    let pod = Surroundings { volumes, grace_period_seconds };
    let containers_path = path.child("containers");
    if spec.containers.is_empty() {
        faults.required(&containers_path, "");
    }
    let mut seen = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = containers_path.index(index);
        validate_common(container, &path, &pod, faults);
        faults.unique(&path.child("name"), &container.name, &mut seen);
        probes::validate_lifecycle(container, &path, &pod, faults);
        probes::validate_probes(container, &path, &pod, faults);
    }
    validate_host_ports(spec, &containers_path, faults);
    for (index, container) in list(&spec.init_containers).iter().enumerate() {
        let path = path.child("initContainers").index(index);
        validate_common(container, &path, &pod, faults);
        faults.unique(&path.child("name"), &container.name, &mut seen);
        validate_init(container, &path, &pod, faults);
    }
    for (index, container) in list(&spec.ephemeral_containers).iter().enumerate() {
        let path = path.child("ephemeralContainers").index(index);
        validate_common(&as_container(container.clone()), &path, &pod, faults);
        faults.unique(&path.child("name"), &container.name, &mut seen);
    }
}

/// Spaces around an image's name; reported after everything else, and only of pods.
pub(super) fn validate_image_spaces(containers: &[Container], path: &Path, faults: &mut Faults) {
    for (index, container) in containers.iter().enumerate() {
        let image = text(&container.image);
        if image.trim() != image {
            faults.invalid(&path.index(index).child("image"), image, "must not have leading or trailing whitespace");
        }
    }
}

fn validate_common(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    faults.set_form(&path.child("name"), &container.name, check_dns_label);
    faults.set(&path.child("image"), text(&container.image));
    let policies = ["File", "FallbackToLogsOnError"];
    faults.one_of(&path.child("terminationMessagePolicy"), text(&container.termination_message_policy), &policies);
    validate_ports(list(&container.ports), &path.child("ports"), faults);
    env::validate(list(&container.env), &path.child("env"), faults);
    env::validate_from(list(&container.env_from), &path.child("envFrom"), faults);
    validate_mounts(container, &path.child("volumeMounts"), pod, faults);
    validate_devices(container, &path.child("volumeDevices"), pod, faults);
    faults.one_of(&path.child("imagePullPolicy"), text(&container.image_pull_policy), &["Always", "IfNotPresent", "Never"]);
    resources::validate_requirements(container.resources.as_ref(), &path.child("resources"), faults);
    security::validate_container(container.security_context.as_ref(), &path.child("securityContext"), faults);
    faults.optional_one_of(&path.child("restartPolicy"), &container.restart_policy, &["Always", "Never", "OnFailure"]);
}

/// Only init containers that keep running (sidecars) have a life that can be probed.
fn validate_init(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    if text(&container.restart_policy) == "Always" {
        probes::validate_lifecycle(container, path, pod, faults);
        probes::validate_probes(container, path, pod, faults);
        return;
    }
    let fields = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    for (field, _) in fields.iter().filter(|(_, set)| *set) {
        faults.forbidden(&path.child(field), "may not be set for init containers without restartPolicy=Always");
    }
}

fn validate_ports(ports: &[ContainerPort], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(&port.name);
        if !name.is_empty() {
            let before = faults.len();
            faults.form(&path.child("name"), name, check_port_name);
            if faults.len() == before {
                faults.unique(&path.child("name"), name, &mut seen);
            }
        }
        match port.container_port {
            0 => faults.required(&path.child("containerPort"), ""),
            number => faults.port(&path.child("containerPort"), number),
        }
        if let Some(number) = port.host_port.filter(|number| *number != 0) {
            faults.port(&path.child("hostPort"), number);
        }
        faults.one_of(&path.child("protocol"), text(&port.protocol), &["SCTP", "TCP", "UDP"]);
        faults.optional_form(&path.child("hostIP"), &port.host_ip, check_ip);
    }
}

/// A port of the host can be taken once, and in the host's network it is the container's.
fn validate_host_ports(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    let mut taken = BTreeMap::new();
    for (container_index, container) in spec.containers.iter().enumerate() {
        for (index, port) in list(&container.ports).iter().enumerate() {
            let Some(host_port) = port.host_port.filter(|number| *number != 0) else { continue };
            let path = path.index(container_index).child("ports").index(index);
            let socket = format!("{}/{}/{host_port}", text(&port.protocol), text(&port.host_ip));
            if taken.insert(socket.clone(), ()).is_some() {
                faults.duplicate(&path.child("hostPort"), socket);
            }
            if spec.host_network == Some(true) && host_port != port.container_port {
                faults.invalid(&path.child("hostPort"), host_port, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn validate_mounts(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let devices = list(&container.volume_devices);
    let device_names: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let device_paths: BTreeSet<&str> = devices.iter().map(|device| device.device_path.as_str()).collect();
    let mut seen = BTreeSet::new();
    for (index, mount) in list(&container.volume_mounts).iter().enumerate() {
        let path = path.index(index);
        validate_volume_name(&mount.name, &path, pod, faults);
        faults.set(&path.child("mountPath"), &mount.mount_path);
        if !seen.insert(mount.mount_path.as_str()) {
            faults.invalid(&path.child("mountPath"), mount.mount_path.as_str(), "must be unique");
        }
        if device_names.contains(mount.name.as_str()) {
            faults.invalid(&path.child("name"), mount.name.as_str(), "must not already exist in volumeDevices");
        }
        if device_paths.contains(mount.mount_path.as_str()) {
            faults.invalid(&path.child("mountPath"), mount.mount_path.as_str(), "must not already exist as a path in volumeDevices");
        }
        validate_sub_path(mount, &path, faults);
        let propagations = ["Bidirectional", "HostToContainer", "None"];
        faults.optional_one_of(&path.child("mountPropagation"), &mount.mount_propagation, &propagations);
    }
}

fn validate_sub_path(mount: &VolumeMount, path: &Path, faults: &mut Faults) {
    faults.optional_form(&path.child("subPath"), &mount.sub_path, names::check_relative_path);
    let expression = text(&mount.sub_path_expr);
    if !expression.is_empty() && !text(&mount.sub_path).is_empty() {
        faults.invalid(&path.child("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
    }
    faults.optional_form(&path.child("subPathExpr"), &mount.sub_path_expr, names::check_relative_path);
}

fn validate_devices(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, device) in list(&container.volume_devices).iter().enumerate() {
        let path = path.index(index);
        validate_volume_name(&device.name, &path, pod, faults);
        faults.set(&path.child("devicePath"), &device.device_path);
        if !seen.insert(device.device_path.as_str()) {
            faults.invalid(&path.child("devicePath"), device.device_path.as_str(), "must be unique");
        }
        faults.form(&path.child("devicePath"), &device.device_path, names::check_no_backsteps);
    }
}

fn validate_volume_name(name: &str, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let path = path.child("name");
    faults.set(&path, name);
    if !pod.volumes.contains(name) {
        faults.add([FieldError::not_found(&path, name)]);
    }
}
