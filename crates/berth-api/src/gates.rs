//! Feature gates: the proposals' and upstream's names, one set for the API server and one for the controllers.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{collections::BTreeMap, fmt};

/// The maturity of a feature, which some rules of the KEPs depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maturity {
    /// Off by default, and may change.
    Alpha,
    /// Usually on by default.
    Beta,
}

/// The table entry of a gate.
struct Facts {
    name: &'static str,
    stage: Maturity,
    default: bool,
    needs: Option<Gate>,
}

/// The table of all gates that berth supports: name, stage, default, and the gate that it requires. Upstream has
/// further gates for behavior that berth always has. They are unknown here.
macro_rules! gates {
    ($($(#[$doc:meta])* $name:ident: $stage:ident, $default:literal $(, needs $needed:ident)?;)*) => {
        /// A gate that berth knows, under the name that the command line has for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Gate {
            $($(#[$doc])* $name,)*
        }

        impl Gate {
            /// Every gate, sorted by name.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            fn facts(self) -> Facts {
                match self {
                    $(Self::$name => Facts {
                        name: stringify!($name),
                        stage: Maturity::$stage,
                        default: $default,
                        needs: [$(Self::$needed)?].first().copied(),
                    },)*
                }
            }
        }
    };
}

gates! {
    /// `spec.podReplacementPolicy` of Deployments.
    DeploymentPodReplacementPolicy: Beta, true, needs DeploymentReplicaSetTerminatingReplicas;
    /// `status.terminatingReplicas` of Deployments and ReplicaSets.
    DeploymentReplicaSetTerminatingReplicas: Beta, true;
    /// `tolerance` in the behavior of HorizontalPodAutoscalers.
    HPAConfigurableTolerance: Beta, true;
    /// `maxUnavailable` of a StatefulSet's rolling update.
    MaxUnavailableStatefulSet: Beta, false;
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`.
    PodDeletionCost: Beta, true;
    /// The annotations that record the authors of a workload's changes, and its rollouts. A gate of berth only.
    RolloutRecords: Alpha, false;
    /// `updateStrategy.type: Recreate` of StatefulSets.
    StatefulSetRecreateStrategy: Beta, true;
    /// Revisions of a StatefulSet that mean the same count as one.
    StatefulSetSemanticRevisionComparison: Beta, true;
}

impl Gate {
    /// Returns the gate with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|gate| gate.name() == name)
    }

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns its stage in berth.
    #[must_use]
    pub fn maturity(self) -> Maturity {
        self.facts().stage
    }
}

impl Serialize for Gate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The settings of all gates of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FeatureGates {
    positions: BTreeMap<Gate, bool>,
}

impl<'de> Deserialize<'de> for FeatureGates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let positions: BTreeMap<String, bool> = BTreeMap::deserialize(deserializer)?;
        let settings: Vec<String> = positions.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        Self::parse(&settings.join(",")).map_err(D::Error::custom)
    }
}

/// Why a `--feature-gates` value is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The gate does not exist.
    #[error("unknown feature gate {name}; known are {known}")]
    Unknown {
        /// The unknown name.
        name: String,
        /// All names, comma separated.
        known: String,
    },
    /// The text is not `Name=true` or `Name=false`.
    #[error("{text:?} is not Name=true or Name=false")]
    Malformed {
        /// The text.
        text: String,
    },
}

impl FeatureGates {
    /// Parses `Name=true,Other=false`, the format of all Kubernetes components. Later settings win.
    ///
    /// # Errors
    /// An unknown name, or a text that is not a setting.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (gate, on) = parse_setting(part)?;
            gates.set(gate, on);
        }
        Ok(gates)
    }

    /// Sets one gate.
    pub fn set(&mut self, gate: Gate, on: bool) {
        self.positions.insert(gate, on);
    }

    /// Whether `gate` and all gates that it requires are on.
    #[must_use]
    pub fn enabled(&self, gate: Gate) -> bool {
        self.position(gate) && gate.facts().needs.is_none_or(|needed| self.enabled(needed))
    }

    /// Returns a text for each gate that is on without effect, because a required gate is off.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let ineffective = Gate::ALL.iter().filter(|gate| self.position(**gate) && !self.enabled(**gate));
        ineffective
            .filter_map(|gate| {
                gate.facts().needs.map(|needed| format!("feature gate {gate} needs {needed}, which is off: it counts as off"))
            })
            .collect()
    }

    fn position(&self, gate: Gate) -> bool {
        self.positions.get(&gate).copied().unwrap_or(gate.facts().default)
    }
}

fn parse_setting(part: &str) -> Result<(Gate, bool), GateError> {
    let malformed = || GateError::Malformed { text: part.to_owned() };
    let (name, value) = part.split_once('=').ok_or_else(malformed)?;
    let on = value.trim().parse().map_err(|_| malformed())?;
    let known = || Gate::ALL.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(", ");
    let unknown = || GateError::Unknown { name: name.trim().to_owned(), known: known() };
    Ok((Gate::find(name.trim()).ok_or_else(unknown)?, on))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        FeatureGates::parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn settings_are_read_as_kubernetes_components_read_them() {
        let gates =
            FeatureGates::parse(" PodDeletionCost=false, MaxUnavailableStatefulSet=true,PodDeletionCost=true,").expect("known gates");
        assert!(gates.enabled(Gate::PodDeletionCost), "the last setting wins");
        assert!(gates.enabled(Gate::MaxUnavailableStatefulSet));
        assert!(refused("Foo=true").starts_with("unknown feature gate Foo; known are DeploymentPodReplacementPolicy, "));
        assert_eq!(refused("PodDeletionCost"), "\"PodDeletionCost\" is not Name=true or Name=false");
        assert_eq!(refused("PodDeletionCost=yes"), "\"PodDeletionCost=yes\" is not Name=true or Name=false");
        // Upstream has this gate for behavior that berth always has.
        assert!(refused("StaleControllerConsistencyReplicaSet=false").starts_with("unknown feature gate "));
    }

    #[test]
    fn a_gate_without_what_it_needs_is_off_and_warned_about() {
        let gates = FeatureGates::parse("DeploymentReplicaSetTerminatingReplicas=false").expect("known gates");
        assert!(!gates.enabled(Gate::DeploymentPodReplacementPolicy));
        assert_eq!(
            gates.warnings(),
            ["feature gate DeploymentPodReplacementPolicy needs DeploymentReplicaSetTerminatingReplicas, which is off: it counts as off"]
        );
        assert!(FeatureGates::default().warnings().is_empty());
    }

    #[test]
    fn gates_are_listed_by_name_each_once() {
        assert!(Gate::ALL.is_sorted_by(|a, b| a.name() < b.name()));
        assert!(Gate::ALL.iter().all(|gate| Gate::find(gate.name()) == Some(*gate)));
    }
}
