//! Server-side apply.

use crate::{
    Conflict, Conflicts, Faults, Managers, Operation, Owned, Root, Set, Update, Writer, fields,
    update::{never_owned, update},
    versions::{self, Across, Versions},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// The other versions of the kind.
    pub versions: &'a dyn Versions,
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

impl<'a> Application<'a> {
    fn across(&self) -> Across<'a> {
        Across { versions: self.versions, api_version: &self.writer.api_version }
    }
}

/// The document after the apply, and who owns it then.
///
/// Removes fields that the applier owned before and no longer names, unless another manager owns them too.
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
    let id = writer.id(Operation::Apply);
    let across = application.across();
    let mut others = across.split(&mut managers, Some(&id));

    let before = managers.0.get(&id).cloned();
    let fields = root.fields(config).recursive_difference(ignored);
    let time = now.cloned();
    managers.0.insert(id.clone(), Owned { fields, api_version: writer.api_version.clone(), time });
    let merged = root.merge(live, config);
    let new = match &before {
        Some(before) => {
            let all = Managers(managers.0.iter().chain(&others.0).map(|(id, owned)| (id.clone(), owned.clone())).collect());
            prune(application, &merged, &all, before).unwrap_or(merged)
        }
        None => merged,
    };
    let of_others = across.compare(&others, live, &new);

    let compared = root.compare(live, &new).without(ignored);
    let is_same = compared.is_same();
    let changed = compared.added.union(&compared.modified);
    if force == Force::No {
        refuse_conflicts(&managers, &id, &changed, versions::conflicts(&others, &of_others))?;
    }
    // An apply that changes no value leaves its manager's time as it was: a new manager has none.
    if is_same && let Some(owned) = managers.0.get_mut(&id) {
        owned.time = before.and_then(|before| before.time);
    }
    managers.take(&changed.union(&compared.removed), Some(&id));
    versions::take(&mut others, &of_others);
    managers.0.extend(others.0);
    managers.take(never_owned(), None);
    Ok((new, managers))
}

fn record_what_was_there(managers: &mut Managers, application: &Application<'_>) {
    let writer = Writer { name: BEFORE_FIRST_APPLY.to_owned(), ..application.writer.clone() };
    let Application { root, live, empty, ignored, now, versions, .. } = *application;
    update(managers, &Update { root, old: empty, new: live, writer: &writer, ignored, now, versions });
}

/// Removes what the applier owned and gave up. An element is removed with its contents if no manager owns the element itself.
///
/// Each manager's fields are compared in the version in which it wrote. `None`: a document has no counterpart in one of them.
fn prune(application: &Application<'_>, merged: &Value, managers: &Managers, before: &Owned) -> Option<Value> {
    let across = application.across();
    // What was written in a version that is gone is read as if it were of this one.
    let is_served = across.root(application.root, &before.api_version).is_some();
    let at = if is_served { before.api_version.as_str() } else { across.api_version };
    let root = across.root(application.root, at)?;
    let merged_at = across.converted(merged, at)?;
    let named = |set: &Set| fields::with_named_fields(Some(root), set);
    let before = named(&before.fields);

    // All that the applier had, and what is below it, except for what any manager owns now ...
    let mut pruned = (at, root.remove(&merged_at, &before));
    for (version, owned) in owned_by_version(managers) {
        let Some(root) = across.root(application.root, version) else { continue };
        let named = |set: &Set| fields::with_named_fields(Some(root), set);
        let (merged, bare) = (across.converted(merged, version)?, across.between(&pruned.1, pruned.0, version)?);
        let unowned = named(&root.fields(&merged)).difference(&named(&root.fields(&bare)).union(&named(&owned)));
        pruned = (version, root.remove(&merged, &unowned));
    }
    // ... and of that only what the applier itself had named.
    let pruned = across.between(&pruned.1, pruned.0, at)?;
    let gone = named(&root.fields(&merged_at)).difference(&named(&root.fields(&pruned))).intersection(&before);
    across.between(&root.remove(&merged_at, &gone), at, across.api_version)
}

fn owned_by_version(managers: &Managers) -> BTreeMap<&str, Set> {
    let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
    for owned in managers.0.values() {
        let known = by_version.entry(&owned.api_version).or_default();
        *known = std::mem::take(known).union(&owned.fields);
    }
    by_version
}

fn refuse_conflicts(
    managers: &Managers,
    applier: &crate::ManagerId,
    changed: &Set,
    mut conflicts: Vec<Conflict>,
) -> Result<(), ApplyError> {
    let others = managers.0.iter().filter(|(id, _)| *id != applier);
    conflicts.extend(others.flat_map(|(id, owned)| {
        let paths = owned.fields.intersection(changed).paths();
        paths.into_iter().map(|path| Conflict { manager: id.clone(), path })
    }));
    conflicts.sort_by(|one, other| one.manager.cmp(&other.manager));
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(Conflicts(conflicts))) }
}
