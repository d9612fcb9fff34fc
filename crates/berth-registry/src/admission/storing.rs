//! The stage of the chain that writes.

use super::{Admission, Operation, plug_in::Chain, room::purpose};
use crate::{ApiError, Current, checks::Mode, failure::Failure, storage::Storage, stored};
use berth_store::{Entry, Expected, Purpose, Write, WriteError};
use std::sync::Arc;

impl Chain {
    /// Replaces the stored object, unless both are equal. A deletion removes it, and so does an update that completes a
    /// deletion.
    pub(super) async fn commit(&self, storage: &Storage, admission: &Admission<'_>) -> Result<Current, Failure> {
        let Some(old) = &admission.old else { return self.commit_new(storage, admission).await };
        let (resource, object) = (admission.at.resource, &admission.object);
        let (is_deletion, is_dry) = (admission.operation == Operation::Delete, admission.at.mode == Mode::Dry);
        if is_deletion && is_dry {
            return Ok(Current::Made(object.to_value()));
        }
        let is_same = object.same_as(&*old.object) && (is_deletion || stored::is_stored_as(resource, &old.entry, &**object));
        if is_same && !(is_deletion && admission.removes) {
            return Ok(Current::Stored(stored::shown_after_write(resource, Arc::clone(&old.entry), &**object)));
        }
        if is_dry {
            return Ok(Current::Made(with_revision(object.to_value(), &old.entry)));
        }
        let (key, revision) = (old.entry.key.clone(), old.entry.mod_revision);
        let entry = if admission.removes {
            // Watchers get the last stored value. The caller gets the state after its own change.
            let gone = storage.write(resource, Write::delete(key, revision)).await?;
            if is_same || admission.is_last_unseen { gone } else { stored::with_object(resource, &gone, &**object)? }
        } else {
            storage.put(resource, key, object, Expected::At(revision), purpose(admission)).await?
        };
        self.note_history(admission, &entry);
        Ok(Current::Stored(stored::shown_after_write(resource, entry, &**object)))
    }

    /// Writes a new object. Its key must be free.
    async fn commit_new(&self, storage: &Storage, admission: &Admission<'_>) -> Result<Current, Failure> {
        let (resource, object, key) = (admission.at.resource, &admission.object, admission.key());
        if admission.at.mode == Mode::Dry {
            let is_taken = storage.store.get(&key).await.map_err(ApiError::from)?.is_some();
            return if is_taken { Err(Failure::Raced) } else { Ok(Current::Made(object.to_value())) };
        }
        let entry = storage.put(resource, key, object, Expected::Absent, purpose(admission)).await?;
        self.note_history(admission, &entry);
        Ok(Current::Stored(stored::shown_after_write(resource, entry, &**object)))
    }
}

/// Undoes a write of any server that must not persist: it restores the previous value. If another writer has
/// changed the object since, that change persists.
///
/// # Errors
/// [`ApiError::OutcomeUnknown`]: the write may persist.
pub(super) async fn undo(storage: &Storage, admission: &Admission<'_>, written: &Current) -> Result<(), ApiError> {
    let Current::Stored(entry) = written else { return Ok(()) };
    let undone = match &admission.old {
        Some(old) => {
            let (key, expected) = (entry.key.clone(), Expected::At(entry.mod_revision));
            storage.store.put(key, old.entry.value.clone(), expected, Purpose::Removal).await
        }
        None => storage.store.delete(entry.key.clone(), entry.mod_revision).await,
    };
    match undone {
        Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(ApiError::outcome_unknown(&error)),
    }
}

/// Stores the deletion timestamp of an object that is removed next, and returns it. The last state that watchers see is
/// then the stored one.
pub(crate) async fn mark_first(storage: &Storage, admission: &Admission<'_>) -> Result<Current, Failure> {
    let (resource, object) = (admission.at.resource, &admission.object);
    let Some(old) = &admission.old else { return Ok(Current::Made(object.to_value())) };
    let (key, expected) = (old.entry.key.clone(), Expected::At(old.entry.mod_revision));
    let entry = storage.put(resource, key, object, expected, Purpose::Removal).await?;
    Ok(Current::Stored(stored::shown_after_write(resource, entry, &**object)))
}

/// The JSON of a dry run's result contains the resource version on which the change is based.
fn with_revision(mut object: serde_json::Value, entry: &Entry) -> serde_json::Value {
    object["metadata"]["resourceVersion"] = entry.mod_revision.to_string().into();
    object
}
