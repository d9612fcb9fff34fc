//! Fields that another manager owns and the applied document wants to have otherwise.

use crate::{ManagerId, Operation, Path};
use std::{collections::BTreeMap, fmt};

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Who owns it.
    pub manager: ManagerId,
    /// Which field.
    pub path: Path,
}

/// All conflicts of an apply. Never empty. Sorted by manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflict {
    /// The text of its cause in `details`, whose reason is `FieldManagerConflict`.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", shown(&self.manager))
    }
}

/// The manager as a message names it. Appliers go by their name alone.
fn shown(manager: &ManagerId) -> String {
    let mut text = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        text += &format!(" with subresource {:?}", manager.subresource);
    }
    if manager.operation == Operation::Update {
        text += &format!(" using {}", manager.api_version);
    }
    text
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", one.message(), one.path);
        }
        let mut by_manager: BTreeMap<&ManagerId, Vec<&Path>> = BTreeMap::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, (manager, paths)) in by_manager.into_iter().enumerate() {
            write!(f, "{}conflicts with {}:", if index == 0 { "" } else { "\n" }, shown(manager))?;
            paths.iter().try_for_each(|path| write!(f, "\n- {path}"))?;
        }
        Ok(())
    }
}
