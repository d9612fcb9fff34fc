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
    k8s_openapi::{
        api::core::v1::{Namespace, Pod},
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    },
};
use berth_store::{Entry, Expected, WriteError, env::Timestamp};
use std::{sync::Arc, time::Duration};

/// Finalizer of an object whose dependents go first.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents stay.
const ORPHAN: &str = "orphan";
/// What a pod gets that does not say.
const DEFAULT_GRACE_SECONDS: i64 = 30;
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
            return Ok(Some(answer(target, outcome, None, Current::Made(object.to_value()))));
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
                Ok(Some(answer(target, outcome, Some(&entry), Current::Stored(shown))))
            }
            Err(WriteError::Conflict { .. }) => Ok(None),
            Err(error) => Err(ApiError::write_failed(&error)),
        }
    }
}

/// Pods and namespaces are answered with the object also when it is gone.
fn answer(target: &Target, outcome: &Outcome, entry: Option<&Arc<Entry>>, object: Current) -> Deleted {
    let shows_object = target.resource.group.is_empty() && matches!(target.resource.plural.as_str(), "pods" | "namespaces");
    match outcome {
        Outcome::Remove(last) if !shows_object => {
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
    if new.as_any().is::<Namespace>() {
        return decide_namespace(new, policy, now);
    }
    let grace = match new.downcast_ref::<Pod>() {
        Some(pod) => pod_grace(pod, grace_seconds),
        None => Grace::None,
    };
    set_collector_finalizers(new.meta_mut(), policy);
    mark(new, grace, now)
}

/// Marks the object for deletion after `grace`, or finds that nothing keeps it.
fn mark(mut new: BoxObject, grace: Grace, now: Timestamp) -> Outcome {
    let is_held = new.meta().finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    match grace {
        Grace::None if !is_held => {
            // The last that is seen of a pod says that its time is over, also where it never had any.
            if new.as_any().is::<Pod>() {
                mark_now(new.meta_mut(), now);
            }
            return Outcome::Remove(new);
        }
        Grace::None => mark_now(new.meta_mut(), now),
        Grace::Running => (),
        Grace::Start(seconds) => {
            begin(new.meta_mut());
            set_end(new.meta_mut(), whole_seconds(now), seconds, seconds);
        }
        Grace::Shorten { seconds, back_by } => shorten(new.meta_mut(), seconds, back_by, now),
    }
    Outcome::Keep(new)
}

/// How a pod's grace period stands after a request to delete it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grace {
    /// There is none, or it is over.
    None,
    /// It begins now.
    Start(i64),
    /// It goes on as it is.
    Running,
    /// It becomes `seconds` instead of `back_by`.
    Shorten { seconds: i64, back_by: i64 },
}

fn pod_grace(pod: &Pod, wanted: Option<i64>) -> Grace {
    // A negative grace period means one second, upstream's way to keep an old mistake harmless.
    let wanted = wanted.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let current = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    if pod.metadata.deletion_timestamp.is_some() {
        return match wanted {
            _ if current == 0 => Grace::None,
            Some(0) => Grace::None,
            Some(seconds) if seconds < current => Grace::Shorten { seconds, back_by: current },
            Some(_) | None => Grace::Running,
        };
    }
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = wanted.or(own.map(|own| if own < 0 { 1 } else { own })).unwrap_or(DEFAULT_GRACE_SECONDS);
    if seconds == 0 || !is_scheduled(pod) || is_terminal(pod) { Grace::None } else { Grace::Start(seconds) }
}

fn is_scheduled(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| !node.is_empty())
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
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

/// A namespace only begins to terminate; a controller empties it and finalizes it.
fn decide_namespace(mut new: BoxObject, policy: Option<PropagationPolicy>, now: Timestamp) -> Outcome {
    let namespace = new.downcast_mut::<Namespace>().expect("the caller has looked");
    if namespace.metadata.deletion_timestamp.is_none() {
        namespace.metadata.deletion_timestamp = Some(Time(whole_seconds(now)));
        namespace.status.get_or_insert_default().phase = Some("Terminating".to_owned());
    }
    if namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref()).is_some_and(|finalizers| !finalizers.is_empty()) {
        return Outcome::Keep(new);
    }
    set_collector_finalizers(new.meta_mut(), policy);
    mark(new, Grace::None, now)
}
