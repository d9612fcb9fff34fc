//! Warnings about valid but surprising values in a pod or template.

use crate::{
    Path,
    ip::ip_warning,
    names::check_dns_label,
    own_annotations::{self, Bearer},
    pod::{claim::claim_warnings, ephemeral::as_container, quantities::is_fractional_bytes, volume_sources},
    simulation,
    unset::{entries, list, text},
};
use k8s_openapi::{
    api::core::v1::{
        Affinity, Container, ContainerPort, NodeAffinity, NodeSelectorTerm, PodAffinityTerm, PodSpec, PodTemplateSpec, Volume,
        WeightedPodAffinityTerm,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use std::collections::{BTreeMap, BTreeSet};

/// Deprecated label keys of nodes, since when, and their replacement.
const OLD_NODE_LABELS: &[(&str, &str, &str)] = &[
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
];

/// Volume sources that are no longer mounted, with upstream's explanation.
const DEAD_VOLUMES: &[(&str, &str)] = &[
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
];

/// Annotations that fields have replaced, by prefix.
const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    ("seccomp.security.alpha.kubernetes.io/pod", "non-functional in v1.27+; use the \"seccompProfile\" field instead"),
    ("container.seccomp.security.alpha.kubernetes.io/", "non-functional in v1.27+; use the \"seccompProfile\" field instead"),
    ("container.apparmor.security.beta.kubernetes.io/", "deprecated since v1.30; use the \"appArmorProfile\" field instead"),
];

/// Returns the warnings about a template. `path` is `spec.template`.
#[must_use]
pub fn template_warnings(template: &PodTemplateSpec, path: &Path) -> Vec<String> {
    let no_metadata = ObjectMeta::default();
    let metadata = template.metadata.as_ref().unwrap_or(&no_metadata);
    let Some(spec) = &template.spec else { return Vec::new() };
    let metadata_path = path.child("metadata");
    let mut all = own_annotations::warnings(Bearer::Template, metadata, &metadata_path);
    all.extend(warnings(metadata, spec, (&metadata_path, &path.child("spec"))));
    all
}

/// Returns the warning about a name that is not a valid host name.
pub(super) fn name_warning(metadata: &ObjectMeta) -> Option<String> {
    let reasons = check_dns_label(text(&metadata.name));
    let text = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended";
    (!reasons.is_empty()).then(|| format!("metadata.name: {text}: [{}]", reasons.join(" ")))
}

/// Returns the warnings about a pod or template, with the paths of its metadata and spec.
pub(super) fn warnings(metadata: &ObjectMeta, spec: &PodSpec, (metadata_path, path): (&Path, &Path)) -> Vec<String> {
    let mut warnings = Vec::new();
    warn_annotations(metadata, metadata_path, &mut warnings);
    warnings.extend(simulation::warnings(metadata, Some(spec), metadata_path));
    for key in spec.node_selector.iter().flat_map(BTreeMap::keys) {
        warn_node_label(key, &path.child("nodeSelector").key(key), &mut warnings);
    }
    if let Some(affinity) = &spec.affinity {
        warn_affinity(affinity, &path.child("affinity"), &mut warnings);
    }
    warn_spread(spec, path, &mut warnings);
    warn_host_aliases(spec, path, &mut warnings);
    list(&spec.volumes).iter().enumerate().for_each(|(index, volume)| {
        warn_volume(volume, &path.child("volumes").index(index), &mut warnings);
    });
    warn_pull_secrets(spec, path, &mut warnings);
    if spec.termination_grace_period_seconds.is_some_and(i64::is_negative) {
        let path = path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warn_containers(spec, path, &mut warnings);
    warnings.extend(ip_warnings(spec, path));
    warnings
}

/// Returns warnings about IPv6 addresses that are not in canonical form.
fn ip_warnings(spec: &PodSpec, path: &Path) -> impl Iterator<Item = String> {
    let servers = spec.dns_config.as_ref().map(|dns| list(&dns.nameservers)).unwrap_or_default();
    let (servers_path, aliases_path) = (path.child("dnsConfig").child("nameservers"), path.child("hostAliases"));
    let of_servers = servers.iter().enumerate().filter_map(move |(index, server)| ip_warning(&servers_path.index(index), server));
    let aliases = list(&spec.host_aliases).iter().enumerate();
    of_servers.chain(aliases.filter_map(move |(index, alias)| ip_warning(&aliases_path.index(index).child("ip"), &alias.ip)))
}

fn warn_annotations(metadata: &ObjectMeta, path: &Path, warnings: &mut Vec<String>) {
    for (key, _) in entries(&metadata.annotations) {
        if let Some((_, advice)) = OLD_ANNOTATIONS.iter().find(|(prefix, _)| key.starts_with(prefix)) {
            warnings.push(format!("{}: {advice}", path.child("annotations").key(key)));
        }
    }
}

/// Returns since when a label key of nodes is deprecated, and its replacement.
pub(crate) fn replaced_node_label(key: &str) -> Option<(&'static str, &'static str)> {
    OLD_NODE_LABELS.iter().find(|(old, ..)| *old == key).map(|(_, since, instead)| (*since, *instead))
}

/// Returns upstream's explanation of a volume source that is no longer mounted.
pub(crate) fn dead_volume(source: &str) -> Option<&'static str> {
    DEAD_VOLUMES.iter().find(|(dead, _)| *dead == source).map(|(_, advice)| *advice)
}

fn warn_node_label(key: &str, path: &Path, warnings: &mut Vec<String>) {
    if let Some((since, instead)) = replaced_node_label(key) {
        warnings.push(format!("{path}: deprecated since {since}; use \"{instead}\" instead"));
    }
}

fn warn_affinity(affinity: &Affinity, path: &Path, warnings: &mut Vec<String>) {
    if let Some(node) = &affinity.node_affinity {
        for (path, term) in node_terms(node, &path.child("nodeAffinity")) {
            for (index, requirement) in list(&term.match_expressions).iter().enumerate() {
                warn_node_label(&requirement.key, &path.child("matchExpressions").index(index).child("key"), warnings);
            }
        }
    }
    let pods = affinity.pod_affinity.as_ref().map(|pods| {
        pod_terms(
            &pods.required_during_scheduling_ignored_during_execution,
            &pods.preferred_during_scheduling_ignored_during_execution,
            &path.child("podAffinity"),
        )
    });
    let anti = affinity.pod_anti_affinity.as_ref().map(|pods| {
        pod_terms(
            &pods.required_during_scheduling_ignored_during_execution,
            &pods.preferred_during_scheduling_ignored_during_execution,
            &path.child("podAntiAffinity"),
        )
    });
    for (path, term) in [pods, anti].into_iter().flatten().flatten() {
        warn_null_selector(term.label_selector.as_ref(), &path, warnings);
    }
}

/// Returns all terms of a node affinity with their paths.
fn node_terms<'a>(affinity: &'a NodeAffinity, path: &Path) -> Vec<(Path, &'a NodeSelectorTerm)> {
    let required = affinity.required_during_scheduling_ignored_during_execution.iter().flat_map(|selector| &selector.node_selector_terms);
    let required_path = path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    let preferred = list(&affinity.preferred_during_scheduling_ignored_during_execution).iter().map(|term| &term.preference);
    let preferred_path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    let required = required.enumerate().map(|(index, term)| (required_path.index(index), term));
    required.chain(preferred.enumerate().map(|(index, term)| (preferred_path.index(index).child("preference"), term))).collect()
}

/// Returns all terms of a pod affinity or anti-affinity with their paths.
fn pod_terms<'a>(
    required: &'a Option<Vec<PodAffinityTerm>>,
    preferred: &'a Option<Vec<WeightedPodAffinityTerm>>,
    path: &Path,
) -> Vec<(Path, &'a PodAffinityTerm)> {
    let required_path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    let preferred_path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    let required = list(required).iter().enumerate().map(|(index, term)| (required_path.index(index), term));
    let preferred = list(preferred).iter().map(|term| &term.pod_affinity_term).enumerate();
    required.chain(preferred.map(|(index, term)| (preferred_path.index(index).child("podAffinityTerm"), term))).collect()
}

fn warn_null_selector(selector: Option<&LabelSelector>, path: &Path, warnings: &mut Vec<String>) {
    if selector.is_none() {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", path.child("labelSelector")));
    }
}

fn warn_spread(spec: &PodSpec, path: &Path, warnings: &mut Vec<String>) {
    for (index, constraint) in list(&spec.topology_spread_constraints).iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(index);
        warn_node_label(&constraint.topology_key, &path.child("topologyKey"), warnings);
        warn_null_selector(constraint.label_selector.as_ref(), &path, warnings);
    }
}

fn warn_host_aliases(spec: &PodSpec, path: &Path, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, alias) in list(&spec.host_aliases).iter().enumerate() {
        if !seen.insert(alias.ip.as_str()) {
            let path = path.child("hostAliases").index(index).child("ip");
            warnings.push(format!("{path}: duplicate ip \"{}\"", alias.ip));
        }
    }
}

fn warn_pull_secrets(spec: &PodSpec, path: &Path, warnings: &mut Vec<String>) {
    let (mut seen, mut unnamed) = (BTreeSet::new(), Vec::new());
    for (index, secret) in list(&spec.image_pull_secrets).iter().enumerate() {
        let path = path.child("imagePullSecrets").index(index).child("name");
        if secret.name.is_empty() {
            unnamed.push(format!("{path}: invalid empty name \"\""));
        } else if !seen.insert(secret.name.as_str()) {
            warnings.push(format!("{path}: duplicate name \"{}\"", secret.name));
        }
    }
    // Upstream reports these last.
    warnings.append(&mut unnamed);
}

fn warn_volume(volume: &Volume, path: &Path, warnings: &mut Vec<String>) {
    for name in volume_sources::names(volume) {
        if let Some(advice) = dead_volume(name) {
            warnings.push(format!("{}: {advice}", path.child(name)));
        }
    }
    if let Some(template) = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.as_ref()) {
        warnings.extend(claim_warnings(&template.spec, &path.child("ephemeral").child("volumeClaimTemplate").child("spec")));
    }
}

fn warn_containers(spec: &PodSpec, path: &Path, warnings: &mut Vec<String>) {
    let init = numbered(list(&spec.init_containers), path.child("initContainers"));
    let regular = numbered(&spec.containers, path.child("containers"));
    let mut ports = SeenPorts::default();
    for (path, container) in init.chain(regular) {
        warn_container(container, &path, warnings);
        let mut names = BTreeSet::new();
        for (index, port) in list(&container.ports).iter().enumerate() {
            if !text(&port.host_ip).is_empty() && port.host_port.unwrap_or(0) == 0 {
                warnings.push(format!("{}: hostIP set without hostPort: {}", path.child("ports").index(index), as_in_go(port)));
            }
            ports.warn(port, &path.child("ports").index(index), &mut names, warnings);
        }
    }
    for (index, container) in list(&spec.ephemeral_containers).iter().enumerate() {
        warn_container(&as_container(container.clone()), &path.child("ephemeralContainers").index(index), warnings);
    }
}

/// Formats a port as Go prints it.
fn as_in_go(port: &ContainerPort) -> String {
    let (name, protocol, ip) = (text(&port.name), text(&port.protocol), text(&port.host_ip));
    let (host, container) = (port.host_port.unwrap_or(0), port.container_port);
    format!("{{Name:{name} HostPort:{host} ContainerPort:{container} Protocol:{protocol} HostIP:{ip}}}")
}

fn numbered(containers: &[Container], path: Path) -> impl Iterator<Item = (Path, &Container)> {
    containers.iter().enumerate().map(move |(index, container)| (path.index(index), container))
}

fn warn_container(container: &Container, path: &Path, warnings: &mut Vec<String>) {
    if let Some(resources) = &container.resources {
        for (field, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
            for (name, quantity) in entries(amounts).filter(|(name, _)| matches!(name.as_str(), "memory" | "ephemeral-storage")) {
                if is_fractional_bytes(quantity) {
                    let path = path.child("resources").child(field).key(name);
                    warnings.push(format!("{path}: fractional byte value \"{}\" is invalid, must be an integer", quantity.0));
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, variable) in list(&container.env).iter().enumerate() {
        if !seen.insert(variable.name.as_str()) {
            let path = path.child("env").index(index);
            warnings.push(format!("{path}: hides previous definition of \"{}\", which may be dropped when using apply", variable.name));
        }
    }
}

/// The ports of the containers that were already visited.
#[derive(Default)]
struct SeenPorts<'a> {
    sockets: BTreeMap<(i32, &'a str, i32, &'a str), Path>,
    names: BTreeMap<&'a str, Path>,
}

impl<'a> SeenPorts<'a> {
    /// Warns if an earlier port has the same number, or the same name in another container. Within one container, that
    /// is an error.
    fn warn(&mut self, port: &'a ContainerPort, path: &Path, own_names: &mut BTreeSet<&'a str>, warnings: &mut Vec<String>) {
        let name = text(&port.name);
        if !name.is_empty() {
            if let Some(first) = self.names.get(name).filter(|_| !own_names.contains(name)) {
                warnings.push(format!(
                    "{path}: duplicate port name \"{name}\" with {first}, services and probes that select ports by name will use {first}"
                ));
            }
            own_names.insert(name);
            self.names.entry(name).or_insert_with(|| path.clone());
        }
        let socket = (port.container_port, text(&port.protocol), port.host_port.unwrap_or_default(), text(&port.host_ip));
        match self.sockets.get(&socket) {
            Some(first) => warnings.push(format!("{path}: duplicate port definition with {first}")),
            None => _ = self.sockets.insert(socket, path.clone()),
        }
    }
}
