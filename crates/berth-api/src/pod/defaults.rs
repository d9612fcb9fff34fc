//! The defaults of pods and templates.

use super::{
    claim, ephemeral,
    quantities::{limits_of_containers, requests_of_containers, round_up},
    source_defaults::fill_source,
    validate::resources::{is_huge_pages, is_of_pod, may_be_overcommitted},
};
use crate::{
    normal::Normal,
    unset::{default_to, list_mut, text},
};
use k8s_openapi::{
    api::core::v1::{
        Container, EmptyDirVolumeSource, GRPCAction, HTTPGetAction, LifecycleHandler, ObjectFieldSelector, Pod, PodSpec, PodTemplateSpec,
        Probe, ResourceFieldSelector, ResourceRequirements, Volume, VolumeProjection,
    },
    apimachinery::pkg::api::resource::Quantity,
};

/// The default mode of files in a volume of API objects: 0644.
const FILE_MODE: i32 = 420;
/// The default grace period.
const GRACE_PERIOD_SECONDS: i64 = 30;
/// The default lifetime of a projected service account token.
const TOKEN_EXPIRATION_SECONDS: i64 = 3600;

/// Converts a template to its normal form, and sets its defaults. Idempotent.
pub fn set_template_defaults(template: &mut PodTemplateSpec) {
    template.normalize();
    fill_template(template);
}

/// Sets the defaults of a template in its normal form. Idempotent.
pub(crate) fn fill_template(template: &mut PodTemplateSpec) {
    template.metadata.get_or_insert_default();
    set_pod_spec_defaults(template.spec.get_or_insert_default());
}

/// Sets the defaults of a pod: those of a template, and those of pods only. Idempotent.
pub(super) fn set_pod_defaults(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    spec.enable_service_links.get_or_insert(true);
    set_pod_spec_defaults(spec);
    let host_network = spec.host_network == Some(true);
    for container in spec.containers.iter_mut().chain(list_mut(&mut spec.init_containers)) {
        container.resources.as_mut().map(request_what_is_limited);
        if host_network {
            expose_on_host(container);
        }
    }
    set_whole_defaults(spec);
    pod.status.get_or_insert_default();
}

/// A limit is the default of its request.
fn request_what_is_limited(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Sets the defaults of pod-level resources, if there are any. Missing requests are those of the containers, or
/// otherwise the limits.
///
/// Source: upstream `defaultHugePagePodLimits`, `defaultPodRequests`.
fn set_whole_defaults(spec: &mut PodSpec) {
    let Some(mut whole) = spec.resources.take() else { return };
    let is_asked = |name: &str| whole.requests.as_ref().is_some_and(|requests| requests.contains_key(name));
    if whole.limits.is_some() || whole.requests.is_some() {
        let pages = limits_of_containers(spec).into_iter().filter(|(name, _)| is_huge_pages(name) && !is_asked(name));
        for (name, sum) in pages.collect::<Vec<_>>() {
            whole.limits.get_or_insert_default().entry(name).or_insert_with(|| Quantity(sum.to_string()));
        }
    }
    if let Some(limits) = &whole.limits {
        let sums = requests_of_containers(spec).into_iter().map(|(name, sum)| (name, Quantity(sum.to_string())));
        let sums = sums.filter(|(name, _)| may_be_overcommitted(name));
        let limits = limits.iter().map(|(name, limit)| (name.clone(), limit.clone()));
        for (name, amount) in sums.chain(limits).filter(|(name, _)| is_of_pod(name)).collect::<Vec<_>>() {
            whole.requests.get_or_insert_default().entry(name).or_insert(amount);
        }
    }
    spec.resources = Some(whole);
}

/// With the host network, a container's port is a host port.
fn expose_on_host(container: &mut Container) {
    for port in list_mut(&mut container.ports) {
        default_to(&mut port.host_port, port.container_port);
    }
}

fn set_pod_spec_defaults(spec: &mut PodSpec) {
    default_to(&mut spec.restart_policy, "Always");
    default_to(&mut spec.dns_policy, "ClusterFirst");
    default_to(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(GRACE_PERIOD_SECONDS);
    spec.security_context.get_or_insert_default();
    mirror_service_account(spec);
    for container in spec.containers.iter_mut().chain(list_mut(&mut spec.init_containers)) {
        set_container_defaults(container);
    }
    for container in list_mut(&mut spec.ephemeral_containers) {
        ephemeral::change(container, set_container_defaults);
    }
    list_mut(&mut spec.volumes).iter_mut().for_each(set_volume_defaults);
    spec.overhead.iter_mut().for_each(round_up);
    spec.resources.iter_mut().for_each(round_resources);
}

/// `serviceAccount` is the old name of `serviceAccountName`. Copies either to the other, and the new name wins.
fn mirror_service_account(spec: &mut PodSpec) {
    if spec.service_account_name.is_none() {
        spec.service_account_name.clone_from(&spec.service_account);
    }
    spec.service_account.clone_from(&spec.service_account_name);
}

fn set_container_defaults(container: &mut Container) {
    round_resources(container.resources.get_or_insert_default());
    default_to(&mut container.termination_message_path, "/dev/termination-log");
    default_to(&mut container.termination_message_policy, "File");
    default_to(&mut container.image_pull_policy, pull_policy(text(&container.image)));
    for port in list_mut(&mut container.ports) {
        default_to(&mut port.protocol, "TCP");
    }
    for source in list_mut(&mut container.env).iter_mut().filter_map(|env| env.value_from.as_mut()) {
        set_reference_defaults(source.field_ref.as_mut(), source.resource_field_ref.as_mut());
    }
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(set_probe_defaults);
    if let Some(lifecycle) = &mut container.lifecycle {
        [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten().for_each(set_handler_defaults);
    }
}

/// `Always` for a mutable tag: `latest`, or neither tag nor digest, which means `latest`. An invalid name has no tag.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash belongs to the registry's port.
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = name[start..].find(':').map_or((name, None), |colon| (&name[..start + colon], Some(&name[start + colon + 1..])));
    match (tag, digest) {
        (Some("latest"), _) | (None, None) if is_image_name(name) => "Always",
        _ => "IfNotPresent",
    }
}

/// Whether it is a path of lower-case names, possibly with a registry.
///
/// Source: `distribution/reference`, which reads images for upstream.
fn is_image_name(name: &str) -> bool {
    let is_registry = |host: &str| host == "localhost" || host.contains(['.', ':']) || host.bytes().any(|byte| byte.is_ascii_uppercase());
    let is_host = |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte));
    let path = match name.split_once('/') {
        Some((host, path)) if is_registry(host) => is_host(host).then_some(path),
        _ => Some(name),
    };
    path.is_some_and(|path| path.split('/').all(is_part_of_image))
}

/// Letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_part_of_image(part: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let between = part.split(|letter: char| letter.is_ascii() && is_known(letter as u8)).filter(|between| !between.is_empty());
    let is_end = |byte: Option<u8>| byte.is_some_and(is_known);
    let is_separator = |between: &str| matches!(between, "." | "_" | "__") || between.bytes().all(|byte| byte == b'-');
    is_end(part.bytes().next()) && is_end(part.bytes().next_back()) && between.into_iter().all(is_separator)
}

fn set_probe_defaults(probe: &mut Probe) {
    default_to(&mut probe.timeout_seconds, 1);
    default_to(&mut probe.period_seconds, 10);
    default_to(&mut probe.success_threshold, 1);
    default_to(&mut probe.failure_threshold, 3);
    probe.http_get.as_mut().map(set_http_get_defaults);
    if let Some(GRPCAction { service, .. }) = &mut probe.grpc {
        service.get_or_insert_default();
    }
}

fn set_handler_defaults(handler: &mut LifecycleHandler) {
    handler.http_get.as_mut().map(set_http_get_defaults);
}

fn set_http_get_defaults(action: &mut HTTPGetAction) {
    default_to(&mut action.path, "/");
    default_to(&mut action.scheme, "HTTP");
}

fn set_volume_defaults(volume: &mut Volume) {
    if super::volume_sources::of_volume(volume).is_empty() {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    volume.secret.iter_mut().for_each(|source| fill_mode(&mut source.default_mode));
    volume.config_map.iter_mut().for_each(|source| fill_mode(&mut source.default_mode));
    if let Some(source) = &mut volume.downward_api {
        fill_mode(&mut source.default_mode);
        for file in list_mut(&mut source.items) {
            set_reference_defaults(file.field_ref.as_mut(), file.resource_field_ref.as_mut());
        }
    }
    if let Some(source) = &mut volume.projected {
        fill_mode(&mut source.default_mode);
        list_mut(&mut source.sources).iter_mut().for_each(set_projection_defaults);
    }
    fill_source(&mut volume.azure_disk);
    fill_source(&mut volume.host_path);
    fill_source(&mut volume.iscsi);
    fill_source(&mut volume.rbd);
    fill_source(&mut volume.scale_io);
    if let Some(source) = &mut volume.image {
        default_to(&mut source.pull_policy, pull_policy(text(&source.reference)));
    }
    if let Some(template) = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut()) {
        claim::set_claim_spec_defaults(&mut template.spec);
    }
}

/// A mode of 0 is a mode.
fn fill_mode(mode: &mut Option<i32>) {
    mode.get_or_insert(FILE_MODE);
}

fn set_projection_defaults(projection: &mut VolumeProjection) {
    if let Some(token) = &mut projection.service_account_token {
        token.expiration_seconds.get_or_insert(TOKEN_EXPIRATION_SECONDS);
    }
    for file in projection.downward_api.iter_mut().flat_map(|source| list_mut(&mut source.items)) {
        set_reference_defaults(file.field_ref.as_mut(), file.resource_field_ref.as_mut());
    }
}

fn set_reference_defaults(field: Option<&mut ObjectFieldSelector>, resource: Option<&mut ResourceFieldSelector>) {
    if let Some(field) = field {
        default_to(&mut field.api_version, "v1");
    }
    if let Some(resource) = resource {
        resource.divisor.get_or_insert_with(|| Quantity("0".to_owned()));
    }
}

fn round_resources(resources: &mut ResourceRequirements) {
    [&mut resources.limits, &mut resources.requests].into_iter().flatten().for_each(round_up);
}
