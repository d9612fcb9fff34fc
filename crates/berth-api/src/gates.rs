//! Feature gates: the proposals' and upstream's names, one set for the API server and one for the controllers.

use std::collections::BTreeMap;

/// How far a feature has come; decides rules that the proposals tie to a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default, may change.
    Alpha,
    /// On by default as a rule.
    Beta,
}

/// One known gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// As written on the command line.
    pub name: &'static str,
    /// Its stage in berth.
    pub stage: Stage,
    /// Its position when nothing is said.
    pub default: bool,
    /// A gate without which this one counts as off.
    pub needs: Option<&'static str>,
}

/// Every gate that berth knows, sorted by name. Upstream has more for what these controllers do; those would change nothing here and are unknown.
pub const GATES: &[Gate] = &[
    Gate {
        name: "DeploymentPodReplacementPolicy",
        stage: Stage::Beta,
        default: true,
        needs: Some("DeploymentReplicaSetTerminatingReplicas"),
    },
    Gate { name: "DeploymentReplicaSetTerminatingReplicas", stage: Stage::Beta, default: true, needs: None },
    Gate { name: "MaxUnavailableStatefulSet", stage: Stage::Beta, default: false, needs: None },
    Gate { name: "PodDeletionCost", stage: Stage::Beta, default: true, needs: None },
    Gate { name: "StatefulSetRecreateStrategy", stage: Stage::Beta, default: true, needs: None },
    Gate { name: "StatefulSetSemanticRevisionComparison", stage: Stage::Beta, default: true, needs: None },
];

/// The stage of the gate `name`, if berth knows it.
#[must_use]
pub fn stage(name: &str) -> Option<Stage> {
    GATES.iter().find(|gate| gate.name == name).map(|gate| gate.stage)
}

/// The positions of all gates of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    set: BTreeMap<&'static str, bool>,
}

/// Why a `--feature-gates` value is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The name is not in [`GATES`].
    #[error("unknown feature gate {name}; known are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// All names, comma separated.
        known: String,
    },
    /// Not `Name=true` or `Name=false`.
    #[error("{text:?} is not Name=true or Name=false")]
    Malformed {
        /// As given.
        text: String,
    },
}

impl FeatureGates {
    /// Reads `Name=true,Other=false`, as every kube component takes it. Later settings win.
    ///
    /// # Errors
    /// An unknown name, text that is no setting.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (gate, on) = parse_setting(part)?;
            gates.set.insert(gate.name, on);
        }
        Ok(gates)
    }

    /// Whether `name` is on, and all that it needs too. A name that is not in [`GATES`] is off.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        let Some(gate) = GATES.iter().find(|gate| gate.name == name) else { return false };
        self.position(gate) && gate.needs.is_none_or(|needed| self.enabled(needed))
    }

    /// A text for each gate that is on but counts as off because what it needs is off.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        GATES
            .iter()
            .filter(|gate| self.position(gate) && !self.enabled(gate.name))
            .filter_map(|gate| {
                gate.needs.map(|needed| format!("feature gate {} needs {needed}, which is off: it counts as off", gate.name))
            })
            .collect()
    }

    fn position(&self, gate: &Gate) -> bool {
        self.set.get(gate.name).copied().unwrap_or(gate.default)
    }
}

fn parse_setting(part: &str) -> Result<(&'static Gate, bool), GateError> {
    let malformed = || GateError::Malformed { text: part.to_owned() };
    let (name, value) = part.split_once('=').ok_or_else(malformed)?;
    let on = value.trim().parse().map_err(|_| malformed())?;
    let gate = GATES.iter().find(|gate| gate.name == name.trim()).ok_or_else(|| GateError::Unknown {
        name: name.trim().to_owned(),
        known: GATES.iter().map(|gate| gate.name).collect::<Vec<_>>().join(", "),
    })?;
    Ok((gate, on))
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
        assert!(gates.enabled("PodDeletionCost"), "the last setting wins");
        assert!(gates.enabled("MaxUnavailableStatefulSet"));
        assert!(!gates.enabled("NoSuchGate"));
        assert!(refused("Foo=true").starts_with("unknown feature gate Foo; known are DeploymentPodReplacementPolicy, "));
        assert_eq!(refused("PodDeletionCost"), "\"PodDeletionCost\" is not Name=true or Name=false");
        assert_eq!(refused("PodDeletionCost=yes"), "\"PodDeletionCost=yes\" is not Name=true or Name=false");
        // Upstream has it for what berth always does.
        assert!(refused("StaleControllerConsistencyReplicaSet=false").starts_with("unknown feature gate "));
    }

    #[test]
    fn a_gate_without_what_it_needs_is_off_and_warned_about() {
        let gates = FeatureGates::parse("DeploymentReplicaSetTerminatingReplicas=false").expect("known gates");
        assert!(!gates.enabled("DeploymentPodReplacementPolicy"));
        assert_eq!(
            gates.warnings(),
            ["feature gate DeploymentPodReplacementPolicy needs DeploymentReplicaSetTerminatingReplicas, which is off: it counts as off"]
        );
        assert!(FeatureGates::default().warnings().is_empty());
    }

    #[test]
    fn the_table_is_sorted_and_closed() {
        assert!(GATES.is_sorted_by_key(|gate| gate.name));
        assert!(GATES.iter().filter_map(|gate| gate.needs).all(|needed| stage(needed).is_some()));
    }
}
