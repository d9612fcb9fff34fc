//! Deletes objects: at once, after a grace period, or with the last finalizer.

use crate::{
    Actor, ApiError, BoxObject, Current, DeleteOptions, Deleted, PropagationPolicy, Registry, Remarks, RequestOptions, Target,
    admission::{Admission, At, Happened, Operation, storing},
    checks::{self, CheckedDelete, Mode},
    failure::Failure,
    options::Precondition,
    ownership::Author,
    stamps::whole_seconds,
    stored::{ATTEMPTS, Stored},
};
use berth_api::{
    Object,
    deletion::Grace,
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use berth_store::env::Timestamp;
use std::time::Duration;

/// The finalizer of an object whose dependents are deleted first.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are orphaned.
const ORPHAN: &str = "orphan";

/// The result of one attempt at a deletion.
enum Tried {
    /// The deletion is done.
    Done(Done),
    /// The object has its deletion timestamp and is removed next.
    Marked(Marked),
    /// The object is unchanged.
    Same(Done),
}

/// A deletion, and the remarks of admission.
type Done = (Deleted, Remarks);

/// An object that this deletion has marked. If its node or a controller removes it first, the deletion has succeeded.
struct Marked {
    uid: Option<String>,
    /// The result if another client removes it.
    done: Done,
}

impl Marked {
    /// Whether the marked object is deleted, even if another object has its name.
    fn is_gone(&self, found: &Result<Stored, ApiError>) -> bool {
        match found {
            Ok(found) => found.object.meta().uid != self.uid,
            Err(error) => matches!(error, ApiError::NotFound { .. }),
        }
    }

    /// Returns a precondition on the uid, because the marking has changed the version.
    fn precondition(&self) -> Precondition {
        Precondition { uid: self.uid.clone(), resource_version: None }
    }
}

/// The outcome of a deletion.
#[derive(Debug)]
enum Outcome {
    /// The object is removed now. Contains its last state.
    Remove(BoxObject),
    /// The object is kept in this state, which may be its current one.
    Keep(BoxObject),
}

impl Registry {
    /// Deletes an object, or marks it for deletion.
    ///
    /// # Errors
    /// Invalid options, a failed precondition, or an object that is missing or cannot be deleted.
    pub async fn delete(&self, actor: &Actor, target: &Target, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        self.delete_with_remarks(actor, target, options).await.map(|(deleted, _)| deleted)
    }

    /// Does the same as [`Registry::delete`], and returns the warnings and annotations of reviewers.
    ///
    /// # Errors
    /// Those of [`Registry::delete`].
    pub async fn delete_with_remarks(
        &self,
        actor: &Actor,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<(Deleted, Remarks), ApiError> {
        ApiError::check_writable(&target.resource)?;
        let checked = checks::delete_options(options)?;
        if target.subresource.is_some() {
            return Err(ApiError::MethodNotAllowed);
        }
        let author =
            Author { actor, manager: "", subresource: None, now: self.storage.clock.now(), options: RequestOptions::Delete(options) };
        let (mut precondition, mut marked, mut refused) = (options.precondition.clone(), None, None);
        for attempt in 0..ATTEMPTS {
            let found = self.storage.load_to_write(target, checked.mode, attempt).await;
            if let Some(Marked { done, .. }) = marked.take_if(|marked: &mut Marked| marked.is_gone(&found)) {
                return self.followed_up(target, checked.mode, done).await;
            }
            let old = found?;
            let (revision, may_be_old) = (old.entry.mod_revision, old.may_be_old);
            // The known version was current, so the answer is too. Reviewers are not asked again, as upstream.
            if let Some((_, error)) = refused.take_if(|(of, _)| *of == revision) {
                return Err(error);
            }
            match self.try_deletion(target, (&checked, options.grace_period_seconds), &precondition, author, old).await {
                Ok(Tried::Same(_)) if may_be_old => (),
                Ok(Tried::Done(done) | Tried::Same(done)) => return self.followed_up(target, checked.mode, done).await,
                Ok(Tried::Marked(now)) => (precondition, marked) = (now.precondition(), Some(now)),
                Err(Failure::Raced) => (),
                Err(Failure::Refused(error)) if may_be_old && !matches!(error, ApiError::OutcomeUnknown { .. }) => {
                    refused = Some((revision, error));
                }
                Err(Failure::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(target))
    }

    /// Executes the follow-up writes of the deletion before the response.
    async fn followed_up(&self, target: &Target, mode: Mode, done: Done) -> Result<Done, ApiError> {
        if mode == Mode::Real {
            self.follow_up(&Happened::of(Operation::Delete, target)).await?;
        }
        Ok(done)
    }

    async fn try_deletion(
        &self,
        target: &Target,
        (checked, grace_seconds): (&CheckedDelete, Option<i64>),
        precondition: &Precondition,
        author: Author<'_>,
        old: Stored,
    ) -> Result<Tried, Failure> {
        check_precondition(target, &old, precondition)?;
        let revision = old.entry.mod_revision;
        let orphans = || target.resource.orphans_by_default.is_some() && !has_collector_finalizer(old.object.meta());
        let policy = checked.policy.or_else(|| orphans().then_some(PropagationPolicy::Orphan));
        let was_marked = old.object.meta().deletion_timestamp.is_some();
        let (object, removes) = match decide(&*old.object, policy, grace_seconds, author.now) {
            Outcome::Remove(last) => (last, true),
            Outcome::Keep(marked) => (marked, false),
        };
        let mut admission = Admission::delete(At::of(target, checked.mode), author, old, object, removes);
        admission.is_last_unseen = checked.is_last_unseen;
        self.admit(&mut admission).await?;
        self.chain.validate(&mut admission).await?;
        let is_marked_now = !was_marked && admission.object.meta().deletion_timestamp.is_some();
        if removes && is_marked_now && checked.mode == Mode::Real {
            let current = storing::mark_first(&self.storage, &admission).await?;
            let deleted = answer(&admission, current);
            return Ok(Tried::Marked(Marked { uid: admission.object.meta().uid.clone(), done: (deleted, admission.remarks) }));
        }
        let current = self.chain.execute(&self.storage, &mut admission).await?;
        let is_same = current.is_at(revision);
        let done = (answer(&admission, current), admission.remarks);
        Ok(if is_same { Tried::Same(done) } else { Tried::Done(done) })
    }
}

/// Some kinds return the object even after it is removed.
fn answer(admission: &Admission<'_>, current: Current) -> Deleted {
    if !admission.removes || (admission.object.rules().returns_deleted && !admission.is_last_unseen) {
        return Deleted::Object(current);
    }
    let revision = match current {
        Current::Stored(entry) => Some(entry.mod_revision),
        Current::Made(_) => None,
    };
    Deleted::Gone { uid: admission.object.meta().uid.clone().unwrap_or_default(), revision }
}

/// Checks the preconditions of a deletion.
pub(crate) fn check_precondition(target: &Target, old: &Stored, wanted: &Precondition) -> Result<(), ApiError> {
    let conflict = |why: &str| Err(ApiError::conflict_shown_as(target, target.resource.kind(), why));
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

/// Returns the outcome of deleting `old`.
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

/// Marks the object for deletion after `grace`, or finds that nothing delays its removal.
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

/// The first request increments the generation, so that watching controllers notice it.
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

/// Moves the deletion timestamp back by the old grace period and forward by the new one, never into the past.
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

/// Whether an earlier request chose a policy of the garbage collector.
fn has_collector_finalizer(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| matches!(finalizer.as_str(), FOREGROUND | ORPHAN))
}

/// Sets the two finalizers that request the work of the garbage collector.
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
