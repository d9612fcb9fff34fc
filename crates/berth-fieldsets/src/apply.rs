//! Server-side apply.

use crate::{
    Conflict, Conflicts, Faults, Managers, Operation, Owned, Root, Set, Update, Writer, fields,
    update::{never_owned, update},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// The manager of everything that an object held before its owners were known.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Whether fields are taken from those who own them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Conflicts are refused.
    No,
    /// The applier gets its way.
    Yes,
}

/// An apply.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// The type of the documents.
    pub root: Root<'a>,
    /// What is stored; for a create, what every object of the kind holds.
    pub live: &'a Value,
    /// What every object of the kind holds: what came before anything was owned.
    pub empty: &'a Value,
    /// What the applier wants.
    pub config: &'a Value,
    /// Who applies.
    pub writer: &'a Writer,
    /// Fields that this door cannot change.
    pub ignored: &'a Set,
    /// When; `None` through `/scale`.
    pub now: Option<&'a Time>,
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The applied document does not fit the schema.
    #[error("{0}")]
    Invalid(#[from] Faults),
    /// Others own fields that it changes.
    #[error("{0}")]
    Conflicts(Conflicts),
}

/// The document after the apply, and who owns it then.
///
/// What the applier owned before and no longer names goes, unless somebody else owns it too.
///
/// # Errors
/// A document that does not fit the schema; without `force`, conflicts.
pub fn apply(managers: &Managers, application: &Application<'_>, force: Force) -> Result<(Value, Managers), ApplyError> {
    let Application { root, live, config, writer, ignored, now, .. } = *application;
    root.validate(config)?;
    let mut managers = managers.clone();
    if managers.is_empty() {
        record_what_was_there(&mut managers, application);
    }
    managers.keep_version(&writer.api_version, Some(&writer.id(Operation::Apply)));

    let id = writer.id(Operation::Apply);
    let before = managers.0.get(&id).cloned();
    let fields = root.fields(config).recursive_difference(ignored);
    let time = now.cloned();
    managers.0.insert(id.clone(), Owned { fields, api_version: writer.api_version.clone(), time });
    let merged = root.merge(live, config);
    let new = match &before {
        Some(before) => prune(root, merged, &managers, &before.fields),
        None => merged,
    };

    let compared = root.compare(live, &new).without(ignored);
    let is_same = compared.is_same();
    let changed = compared.added.union(&compared.modified);
    if force == Force::No {
        refuse_conflicts(&managers, &id, &changed)?;
    }
    // An apply that changes no value leaves its manager's time as it was: a new manager has none.
    if is_same && let Some(owned) = managers.0.get_mut(&id) {
        owned.time = before.and_then(|before| before.time);
    }
    managers.take(&changed.union(&compared.removed), Some(&id));
    managers.take(never_owned(), None);
    Ok((new, managers))
}

fn record_what_was_there(managers: &mut Managers, application: &Application<'_>) {
    let writer = Writer { name: BEFORE_FIRST_APPLY.to_owned(), ..application.writer.clone() };
    let Application { root, live, empty, ignored, now, .. } = *application;
    update(managers, &Update { root, old: empty, new: live, writer: &writer, ignored, now });
}

/// Takes out what the applier owned and gave up. An element goes with all in it when nobody claims the element itself.
fn prune(root: Root<'_>, merged: Value, managers: &Managers, before: &Set) -> Value {
    let named = |set: &Set| fields::with_named_fields(Some(root), set);
    let owned = managers.0.values().fold(Set::default(), |all, owned| all.union(&owned.fields));
    let before = named(before);
    let there = named(&root.fields(&merged));

    // All that the applier had, and what is below it, but for what anybody owns now ...
    let bare = root.remove(&merged, &before);
    let unowned = there.clone().difference(&named(&root.fields(&bare)).union(&named(&owned)));
    let pruned = root.remove(&merged, &unowned);
    // ... and of that only what the applier itself had named.
    let gone = there.difference(&named(&root.fields(&pruned))).intersection(&before);
    root.remove(&merged, &gone)
}

fn refuse_conflicts(managers: &Managers, applier: &crate::ManagerId, changed: &Set) -> Result<(), ApplyError> {
    let others = managers.0.iter().filter(|(id, _)| *id != applier);
    let conflicts: Vec<Conflict> = others
        .flat_map(|(id, owned)| {
            let paths = owned.fields.intersection(changed).paths();
            paths.into_iter().map(|path| Conflict { manager: id.clone(), path })
        })
        .collect();
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(Conflicts(conflicts))) }
}
