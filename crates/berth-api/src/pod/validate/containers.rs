//! Containers: names, images, ports, mounts.

use super::{env, names, names::check_port_name, probes, resources, security, surroundings::Surroundings};
use crate::{
    FieldError, Path,
    faults::Faults,
    ip::check_ip,
    names::check_dns_label,
    pod::ephemeral::as_container,
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{Container, ContainerPort, ContainerResizePolicy, PodSpec, ResourceRequirements, VolumeMount};
use std::collections::BTreeSet;

/// Validates all containers of a pod. Their names are unique together.
pub(super) fn validate_all<'a>(spec: &'a PodSpec, path: &Path, volumes: &'a BTreeSet<&'a str>, faults: &mut Faults) {
    let grace_period_seconds = spec.termination_grace_period_seconds.unwrap_or_default().max(1);
    let pod = Surroundings {
        volumes,
        grace_period_seconds,
        restart_policy: text(&spec.restart_policy),
        resource_claims: list(&spec.resource_claims).iter().map(|claim| claim.name.as_str()).collect(),
        has_own_users: spec.host_users == Some(false),
    };
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
        validate_restart(container, &path, faults);
    }
    validate_host_ports(&spec.containers, &containers_path, faults);
    for (index, container) in list(&spec.init_containers).iter().enumerate() {
        let init_path = path.child("initContainers");
        let path = init_path.index(index);
        validate_common(container, &path, &pod, faults);
        validate_restart(container, &path, faults);
        faults.unique(&path.child("name"), &container.name, &mut seen);
        // They run in sequence. Upstream validates each individually, and reports all with the first index.
        validate_host_ports(std::slice::from_ref(container), &init_path, faults);
        validate_init(container, &path, &pod, faults);
    }
    validate_ephemeral(spec, &path.child("ephemeralContainers"), &pod, &mut seen, faults);
    for (field, containers) in [("initContainers", list(&spec.init_containers)), ("containers", &spec.containers)] {
        for (index, container) in containers.iter().enumerate() {
            let path = path.child(field).index(index).child("env");
            env::validate_files_volumes(list(&container.env), volumes, &path, faults);
        }
    }
}

/// Validates debug containers that are added to a running pod.
///
/// Source: upstream `validateEphemeralContainers`.
fn validate_ephemeral<'a>(spec: &'a PodSpec, path: &Path, pod: &Surroundings<'_>, seen: &mut BTreeSet<&'a str>, faults: &mut Faults) {
    let others = seen.clone();
    for (index, ephemeral) in list(&spec.ephemeral_containers).iter().enumerate() {
        let path = path.index(index);
        let container = as_container(ephemeral.clone());
        validate_common(&container, &path, pod, faults);
        validate_image_space(text(&container.image), &path, faults);
        faults.unique(&path.child("name"), &ephemeral.name, seen);
        let target = text(&ephemeral.target_container_name);
        if !target.is_empty() && !others.contains(target) {
            faults.add([FieldError::not_found(&path.child("targetContainerName"), target)]);
        }
        for field in lasting_fields(&container) {
            faults.forbidden(&path.child(field), OF_EPHEMERAL);
        }
        for (index, mount) in list(&container.volume_mounts).iter().enumerate() {
            let path = path.child("volumeMounts").index(index);
            let sub_paths = [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)];
            for (field, _) in sub_paths.into_iter().filter(|(_, value)| !text(value).is_empty()) {
                faults.forbidden(&path.child(field), OF_EPHEMERAL);
            }
        }
    }
}

const OF_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// Returns the fields that are set but only allowed for containers from the start of the pod.
fn lasting_fields(container: &Container) -> impl Iterator<Item = &'static str> {
    let fields = [
        ("ports", container.ports.is_some()),
        ("resources", container.resources.as_ref().is_some_and(|resources| *resources != ResourceRequirements::default())),
        ("resizePolicy", container.resize_policy.is_some()),
        ("restartPolicy", container.restart_policy.is_some()),
        ("restartPolicyRules", container.restart_policy_rules.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
    ];
    fields.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field)
}

/// Reports spaces around an image's name, after all other errors, and only for pods.
pub(super) fn validate_image_spaces(containers: &[Container], path: &Path, faults: &mut Faults) {
    for (index, container) in containers.iter().enumerate() {
        validate_image_space(text(&container.image), &path.index(index), faults);
    }
}

fn validate_image_space(image: &str, path: &Path, faults: &mut Faults) {
    if image.trim() != image {
        faults.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
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
    resources::validate_requirements(container.resources.as_ref(), &pod.resource_claims, &path.child("resources"), faults);
    validate_resize(list(&container.resize_policy), &path.child("resizePolicy"), pod, faults);
    security::validate_container(container.security_context.as_ref(), pod.has_own_users, &path.child("securityContext"), faults);
}

/// Only init containers that keep running (sidecars) can have probes and lifecycle hooks.
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

/// Each host port can be used once.
fn validate_host_ports(containers: &[Container], path: &Path, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for (container_index, container) in containers.iter().enumerate() {
        for (index, port) in list(&container.ports).iter().enumerate() {
            let Some(host_port) = port.host_port.filter(|number| *number != 0) else { continue };
            let socket = format!("{}/{}/{host_port}", text(&port.protocol), text(&port.host_ip));
            if taken.contains(&socket) {
                faults.duplicate(&path.index(container_index).child("ports").index(index).child("hostPort"), socket);
            } else {
                taken.insert(socket);
            }
        }
    }
}

/// With the host network, a host port must equal the container port.
///
/// Source: upstream `validatePodHostNetworkDeps`.
pub(super) fn validate_host_network(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    if spec.host_network != Some(true) {
        return;
    }
    for (container_index, container) in spec.containers.iter().enumerate() {
        for (index, port) in list(&container.ports).iter().enumerate() {
            let path = path.index(container_index).child("ports").index(index).child("hostPort");
            if let Some(number) = port.host_port.filter(|number| *number != 0 && *number != port.container_port) {
                faults.invalid(&path, number, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

/// The maximum number of rules of one container, and of exit codes of one rule.
const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// Validates a container's restart policy and rules, which override the pod's `restartPolicy`.
///
/// Source: upstream `validateContainerRestartPolicy`.
fn validate_restart(container: &Container, path: &Path, faults: &mut Faults) {
    let rules = list(&container.restart_policy_rules);
    match &container.restart_policy {
        Some(policy) => faults.known(&path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]),
        None if !rules.is_empty() => {
            faults.required(&path.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
        }
        None => (),
    }
    let path = path.child("restartPolicyRules");
    faults.at_most(&path, rules.len(), RESTART_RULES_MAX);
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        faults.known(&path.child("action"), &rule.action, &["Restart", "RestartAllContainers"]);
        let path = path.child("exitCodes");
        match &rule.exit_codes {
            Some(codes) => {
                faults.known(&path.child("operator"), &codes.operator, &["In", "NotIn"]);
                faults.at_most(&path.child("values"), list(&codes.values).len(), EXIT_CODES_MAX);
            }
            None => faults.required(&path, "must be specified"),
        }
    }
}

/// Validates which resizes restart a container.
///
/// Source: upstream `validateResizePolicy`.
fn validate_resize(policies: &[ContainerResizePolicy], path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, policy) in policies.iter().enumerate() {
        faults.unique(&path.index(index), &policy.resource_name, &mut seen);
        faults.one_of(path, &policy.resource_name, &["cpu", "memory"]);
        faults.one_of(path, &policy.restart_policy, &["NotRequired", "RestartContainer"]);
        if pod.restart_policy == "Never" && policy.restart_policy != "NotRequired" {
            faults.invalid(path, policy.restart_policy.as_str(), "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn validate_mounts(container: &Container, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let devices = list(&container.volume_devices);
    let device_names: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let device_paths: BTreeSet<&str> = devices.iter().map(|device| device.device_path.as_str()).collect();
    let is_privileged = container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
    let mut seen = BTreeSet::new();
    for (index, mount) in list(&container.volume_mounts).iter().enumerate() {
        let list_path = path;
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
        validate_sub_path(mount, &path, list_path, faults);
        // Upstream does not report the index of the mount.
        validate_propagation(mount, is_privileged, &list_path.child("mountPropagation"), faults);
        validate_recursion(mount, &list_path.child("recursiveReadOnly"), faults);
    }
}

/// Source: upstream `validateMountPropagation`.
fn validate_propagation(mount: &VolumeMount, is_privileged: bool, path: &Path, faults: &mut Faults) {
    let Some(propagation) = &mount.mount_propagation else { return };
    faults.known(path, propagation, &["Bidirectional", "HostToContainer", "None"]);
    if propagation == "Bidirectional" && !is_privileged {
        faults.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

/// Source: upstream `validateMountRecursiveReadOnly`.
fn validate_recursion(mount: &VolumeMount, path: &Path, faults: &mut Faults) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => (),
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                faults.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount.mount_propagation.as_ref().is_some_and(|propagation| propagation != "None") {
                faults.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => faults.known(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// `list_path` is that of all mounts of the container, because upstream does not report the index for an invalid form.
fn validate_sub_path(mount: &VolumeMount, path: &Path, list_path: &Path, faults: &mut Faults) {
    faults.optional_form(&list_path.child("subPath"), &mount.sub_path, names::check_relative_path);
    let expression = text(&mount.sub_path_expr);
    if !expression.is_empty() && !text(&mount.sub_path).is_empty() {
        faults.invalid(&path.child("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
    }
    faults.optional_form(&list_path.child("subPathExpr"), &mount.sub_path_expr, names::check_relative_path);
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
        if !names::check_no_backsteps(&device.device_path).is_empty() {
            faults.invalid(&path.child("devicePath"), device.device_path.as_str(), "can not contain backsteps ('..')");
        }
    }
}

fn validate_volume_name(name: &str, path: &Path, pod: &Surroundings<'_>, faults: &mut Faults) {
    let path = path.child("name");
    faults.set(&path, name);
    if !pod.volumes.contains(name) {
        faults.add([FieldError::not_found(&path, name)]);
    }
}
