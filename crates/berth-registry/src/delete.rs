//! Deleting objects: at once, after a grace period, or when the last finalizer goes.

use crate::{
    ApiError, BoxObject, Current, DeleteOptions, Deleted, PropagationPolicy, Registry, Target,
    allocation::Allocation,
    checks::{self, Mode},
    consequences::Happened,
    create::whole_seconds,
    modify::{ATTEMPTS, Stored},
    options::Precondition,
    stored,
};
use berth_api::{
    Object,
    deletion::Grace,
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use berth_store::{Entry, Expected, WriteError, env::Timestamp};
use std::{sync::Arc, time::Duration};

/// Finalizer of an object whose dependents go first.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents stay.
const ORPHAN: &str = "orphan";
/// Namespaces that may not be deleted.
const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

/// What a deletion comes to.
#[derive(Debug)]
enum Outcome {
    /// The object goes now; its last state.
    Remove(BoxObject),
    /// The object lingers, in this state (which may be the one that it is in).
    Keep(BoxObject),
}

impl Registry {
    /// Deletes an object, or marks it for deletion.
    ///
    /// # Errors
    /// Bad options, a failed precondition, an object that is not there or may not be deleted.
    pub async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        ApiError::check_writable(&target.resource)?;
        let checked = checks::delete_options(options)?;
        if target.subresource.is_some() {
            return Err(ApiError::MethodNotAllowed);
        }
        if target.resource.group.is_empty() && target.resource.plural == "namespaces" && IMMORTAL.contains(&target.name.as_str()) {
            return Err(ApiError::forbidden(&target.resource, &target.name, "this namespace may not be deleted", Vec::new()));
        }
        for _ in 0..ATTEMPTS {
            let old = self.load(target).await?;
            check_precondition(target, &old, &options.precondition)?;
            let outcome = decide(&*old.object, checked.policy, options.grace_period_seconds, self.clock.now());
            if let Some(deleted) = self.carry_out(target, checked.mode, &old, &outcome).await? {
                if checked.mode == Mode::Real {
                    self.follow_up(Happened::Deleted, &target.resource, target.namespace.as_deref(), &target.name).await?;
                }
                return Ok(deleted);
            }
        }
        Err(ApiError::modified(target))
    }

    /// Writes the outcome; `None`: another writer was first.
    async fn carry_out(&self, target: &Target, mode: Mode, old: &Stored, outcome: &Outcome) -> Result<Option<Deleted>, ApiError> {
        let entry = &old.entry;
        let (Outcome::Remove(object) | Outcome::Keep(object)) = outcome;
        let is_same = object.same_as(&*old.object);
        if mode == Mode::Dry {
            return Ok(Some(answer(outcome, None, Current::Made(object.to_value()))));
        }
        let value = || if is_same { entry.value.clone() } else { stored::encode(&target.resource, &**object) };
        let allocation = match outcome {
            Outcome::Keep(_) => Allocation::default(),
            Outcome::Remove(_) => self.claims_on(target, &*old.object).await?,
        };
        let written = match outcome {
            Outcome::Keep(_) if is_same => Ok(Arc::clone(entry)),
            Outcome::Keep(_) => self.store.put(entry.key.clone(), value(), Expected::At(entry.mod_revision)).await,
            Outcome::Remove(_) => self.store.delete(entry.key.clone(), value(), entry.mod_revision).await,
        };
        match written {
            Ok(entry) => {
                self.give_up(&allocation).await;
                let shown = stored::shown(&target.resource, Arc::clone(&entry));
                Ok(Some(answer(outcome, Some(&entry), Current::Stored(shown))))
            }
            Err(WriteError::Conflict { .. }) => Ok(None),
            Err(error) => Err(ApiError::write_failed(&error)),
        }
    }
}

/// Some kinds are answered with the object also when it is gone.
fn answer(outcome: &Outcome, entry: Option<&Arc<Entry>>, object: Current) -> Deleted {
    match outcome {
        Outcome::Remove(last) if !last.returns_deleted() => {
            Deleted::Gone { uid: last.meta().uid.clone().unwrap_or_default(), revision: entry.map(|entry| entry.mod_revision) }
        }
        Outcome::Remove(_) | Outcome::Keep(_) => Deleted::Object(object),
    }
}

/// What a deletion demands of the object.
pub(crate) fn check_precondition(target: &Target, old: &Stored, wanted: &Precondition) -> Result<(), ApiError> {
    let conflict = |why: &str| Err(ApiError::conflict_shown_as(target, &target.resource.kind, why));
    let found = old.object.meta().uid.as_deref().unwrap_or_default();
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != found) {
        return conflict(&format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been deleted and then \
             recreated"
        ));
    }
    let found = old.entry.mod_revision.to_string();
    if let Some(version) = wanted.resource_version.as_ref().filter(|version| **version != found) {
        return conflict(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might \
             have been modified"
        ));
    }
    Ok(())
}

/// What deleting `old` comes to.
///
/// Source: upstream `registry/rest/delete.go` and `registry/generic/registry/store.go`.
fn decide(old: &dyn Object, policy: Option<PropagationPolicy>, grace_seconds: Option<i64>, now: Timestamp) -> Outcome {
    let mut new = old.clone_object();
    new.begin_deletion(&Time(whole_seconds(now)));
    if new.has_own_finalizers() {
        return Outcome::Keep(new);
    }
    let grace = new.grace(grace_seconds);
    set_collector_finalizers(new.meta_mut(), policy);
    mark(new, grace, now)
}

/// Marks the object for deletion after `grace`, or finds that nothing keeps it.
fn mark(mut new: BoxObject, grace: Grace, now: Timestamp) -> Outcome {
    let is_held = new.meta().finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    match grace {
        Grace::None if !is_held => return Outcome::Remove(new),
        Grace::Over if !is_held => {
            mark_now(new.meta_mut(), now);
            return Outcome::Remove(new);
        }
        Grace::None | Grace::Over => mark_now(new.meta_mut(), now),
        Grace::Running => (),
        Grace::Start(seconds) => {
            begin(new.meta_mut());
            set_end(new.meta_mut(), whole_seconds(now), seconds, seconds);
        }
        Grace::Shorten { seconds, back_by } => shorten(new.meta_mut(), seconds, back_by, now),
    }
    Outcome::Keep(new)
}

/// The first request raises the generation, so that whoever watches it sees that something is wanted of it.
fn begin(meta: &mut ObjectMeta) {
    if meta.deletion_timestamp.is_none() {
        meta.generation = meta.generation.map(|generation| if 0 < generation { generation + 1 } else { generation });
    }
}

fn mark_now(meta: &mut ObjectMeta, now: Timestamp) {
    begin(meta);
    let now = whole_seconds(now);
    let at = meta.deletion_timestamp.as_ref().map_or(now, |at| at.0.min(now));
    set_end(meta, at, 0, 0);
}

fn set_end(meta: &mut ObjectMeta, from: Timestamp, forward: i64, grace: i64) {
    let end = from.saturating_add(Duration::from_secs(u64::try_from(forward).unwrap_or(0))).unwrap_or(from);
    meta.deletion_timestamp = Some(Time(end));
    meta.deletion_grace_period_seconds = Some(grace);
}

/// Moves the end back by the old grace period and forward by the new one, never into the past.
fn shorten(meta: &mut ObjectMeta, seconds: i64, back_by: i64, now: Timestamp) {
    let now = whole_seconds(now);
    let begun = meta.deletion_timestamp.as_ref().map_or(now.as_second(), |at| at.0.as_second().saturating_sub(back_by));
    let end = begun.saturating_add(seconds);
    if end < now.as_second() {
        set_end(meta, now, 1, 1);
    } else {
        set_end(meta, Timestamp::from_second(end).unwrap_or(now), 0, seconds);
    }
}

/// The two finalizers by which the garbage collector is asked for its part.
fn set_collector_finalizers(meta: &mut ObjectMeta, policy: Option<PropagationPolicy>) {
    let Some(policy) = policy else { return };
    let wanted = match policy {
        PropagationPolicy::Background => None,
        PropagationPolicy::Foreground => Some(FOREGROUND),
        PropagationPolicy::Orphan => Some(ORPHAN),
    };
    let mut finalizers = meta.finalizers.take().unwrap_or_default();
    finalizers.retain(|finalizer| Some(finalizer.as_str()) == wanted || !matches!(finalizer.as_str(), FOREGROUND | ORPHAN));
    if let Some(wanted) = wanted.filter(|wanted| !finalizers.iter().any(|there| there == wanted)) {
        finalizers.push(wanted.to_owned());
    }
    meta.finalizers = Some(finalizers).filter(|finalizers| !finalizers.is_empty());
}
