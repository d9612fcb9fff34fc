//! The containers of a pod's spec, as a node reads them.

use berth_api::k8s_openapi::api::core::v1::{Container, ContainerRestartRule};
use berth_identity::Recent;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use std::{ops::Deref, sync::Arc};

/// One container of the spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Whether a readiness probe decides when it is ready.
    pub readiness_probe: Option<IgnoredAny>,
    /// Its own restart policy. `Always` for sidecars.
    pub restart_policy: Option<String>,
    /// Exit codes after which it is restarted in any case.
    #[serde(rename = "restartPolicyRules")]
    pub restart_rules: Box<[RestartRule]>,
    /// Whether a variable of its environment uses a ConfigMap or a Secret.
    #[serde(rename = "env", deserialize_with = "reads_references")]
    pub reads_keys: bool,
    /// Whether its environment uses whole ConfigMaps or Secrets.
    #[serde(rename = "envFrom", deserialize_with = "is_not_empty")]
    pub reads_all: bool,
}

impl ContainerView {
    /// Whether it is an init container that runs beside the others.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Which containers are restarted after they have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// All.
    #[default]
    Always,
    /// Failed containers.
    OnFailure,
    /// None.
    Never,
}

impl RestartPolicy {
    /// The policy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }

    pub(super) fn of(name: Option<&str>) -> Self {
        name.and_then(Self::named).unwrap_or_default()
    }
}

/// Exit codes after which a container is restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartRule {
    exit_codes: ExitCodes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ExitCodes {
    operator: String,
    values: Vec<i32>,
}

impl RestartRule {
    /// Whether a container that has ended with this code is restarted.
    #[must_use]
    pub fn matches(&self, code: i32) -> bool {
        match self.exit_codes.operator.as_str() {
            "In" => self.exit_codes.values.contains(&code),
            "NotIn" => !self.exit_codes.values.contains(&code),
            _ => false,
        }
    }
}

impl From<&ContainerRestartRule> for RestartRule {
    fn from(rule: &ContainerRestartRule) -> Self {
        let codes = rule.exit_codes.as_ref();
        let exit_codes =
            codes.map(|codes| ExitCodes { operator: codes.operator.clone(), values: codes.values.clone().unwrap_or_default() });
        Self { exit_codes: exit_codes.unwrap_or_default() }
    }
}

fn restart_rules(container: &Container) -> impl Iterator<Item = RestartRule> + '_ {
    container.restart_policy_rules.iter().flatten().map(RestartRule::from)
}

fn reads_references<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Variable {
        value_from: Option<ValueFrom>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ValueFrom {
        config_map_key_ref: Option<IgnoredAny>,
        secret_key_ref: Option<IgnoredAny>,
    }
    let is_reference = |from: ValueFrom| from.config_map_key_ref.is_some() || from.secret_key_ref.is_some();
    Ok(Vec::<Variable>::deserialize(deserializer)?.into_iter().filter_map(|variable| variable.value_from).any(is_reference))
}

fn is_not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(!Vec::<IgnoredAny>::deserialize(deserializer)?.is_empty())
}

/// Containers of a spec. Pods with equal containers usually share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Containers(Arc<[ContainerView]>);

impl Deref for Containers {
    type Target = [ContainerView];

    fn deref(&self) -> &[ContainerView] {
        &self.0
    }
}

impl From<Vec<ContainerView>> for Containers {
    fn from(containers: Vec<ContainerView>) -> Self {
        Self(containers.into())
    }
}

thread_local! {
    static RECENT: Recent<[ContainerView]> = const { Recent::new() };
}

impl<'de> Deserialize<'de> for Containers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Vec::<ContainerView>::deserialize(deserializer)?;
        Ok(Self::shared(&read, |known| *known == *read, || read.as_slice().into()))
    }
}

impl Containers {
    /// The shared containers if they equal `read`, otherwise new ones.
    fn shared<C: Named>(read: &[C], is_same: impl FnOnce(&[ContainerView]) -> bool, make: impl FnOnce() -> Arc<[ContainerView]>) -> Self {
        let bytes = read.iter().map(|container| container.texts().into_iter().map(str::len).sum::<usize>()).sum();
        let key = read.first().map(Named::texts);
        Self(RECENT.with(|recent| recent.share(bytes, key, is_same, make)))
    }

    pub(super) fn of(read: &[Container]) -> Self {
        let is_same = |known: &[ContainerView]| known.iter().eq(read);
        Self::shared(read, is_same, || read.iter().map(ContainerView::from).collect())
    }
}

/// A type that contains the texts of a container.
trait Named {
    /// Name, image and restart policy.
    fn texts(&self) -> [&str; 3];
}

impl Named for ContainerView {
    fn texts(&self) -> [&str; 3] {
        [&self.name, &self.image, self.restart_policy.as_deref().unwrap_or_default()]
    }
}

impl Named for Container {
    fn texts(&self) -> [&str; 3] {
        [&self.name, self.image.as_deref().unwrap_or_default(), self.restart_policy.as_deref().unwrap_or_default()]
    }
}

impl From<&Container> for ContainerView {
    fn from(container: &Container) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            readiness_probe: container.readiness_probe.is_some().then_some(IgnoredAny),
            restart_policy: container.restart_policy.clone(),
            restart_rules: restart_rules(container).collect(),
            reads_keys: reads_keys(container),
            reads_all: reads_all(container),
        }
    }
}

pub(super) fn reads_keys(container: &Container) -> bool {
    let mut sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    sources.any(|from| from.config_map_key_ref.is_some() || from.secret_key_ref.is_some())
}

pub(super) fn reads_all(container: &Container) -> bool {
    container.env_from.as_ref().is_some_and(|sources| !sources.is_empty())
}

impl PartialEq<Container> for ContainerView {
    fn eq(&self, other: &Container) -> bool {
        self.texts() == other.texts()
            && self.restart_policy == other.restart_policy
            && self.restart_rules.iter().cloned().eq(restart_rules(other))
            && self.readiness_probe.is_some() == other.readiness_probe.is_some()
            && (self.reads_keys, self.reads_all) == (reads_keys(other), reads_all(other))
    }
}
