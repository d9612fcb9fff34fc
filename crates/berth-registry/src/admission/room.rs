//! Limits of the store: its quota, which the store enforces, the memory of the process, and each user's share of
//! history.

use super::{
    Admission, Charges, Operation,
    plug_in::{Chain, PlugIn},
};
use crate::{ApiError, Subresource, checks::Mode, pressure::Advice, shares};
use berth_api::{Object, k8s_openapi::api::core::v1::Event};
use berth_store::{Entry, Purpose};
use std::time::Duration;

/// The retry interval for a write that failed for lack of memory.
const RETRY_AFTER_SECONDS: u32 = 2;

const NO_MEMORY: &str = "The server has no memory left to store more; deletions make room.";
const OVER_SHARE: &str = "You have written more than your share of what the server remembers of changes.";

pub(super) struct StoreRoom;

impl PlugIn for StoreRoom {
    const NAME: &'static str = "StoreRoom";

    /// Delays a user who exceeded their share of history, and all writes that enlarge the store while memory is low.
    async fn charge(chain: &Chain, admission: &mut Admission<'_>, _charges: &mut Charges) -> Result<(), ApiError> {
        if admission.at.mode == Mode::Dry {
            return Ok(());
        }
        let resource = || shares::name(admission.at.resource);
        let beyond_share =
            admission.author.actor.limited().map_or(Duration::ZERO, |user| chain.shares.delay(resource, user.share(), chain.clock.now()));
        if shares::DELAY_MAX < beyond_share {
            return Err(too_much(OVER_SHARE, u32::try_from(beyond_share.as_secs()).unwrap_or(u32::MAX)));
        }
        let for_memory = match chain.pressure.advice() {
            Advice::Go => Duration::ZERO,
            _ if purpose(admission) != Purpose::Growth => Duration::ZERO,
            Advice::Wait(delay) => delay,
            Advice::Refuse => return Err(too_much(NO_MEMORY, RETRY_AFTER_SECONDS)),
        };
        let delay = beyond_share.max(for_memory);
        if Duration::ZERO < delay {
            chain.clock.sleep_until(chain.clock.now() + delay).await;
        }
        Ok(())
    }
}

fn too_much(message: &str, retry_after_seconds: u32) -> ApiError {
    ApiError::TooManyRequests { message: message.to_owned(), retry_after_seconds, causes: Vec::new() }
}

/// Returns the purpose of an admitted write. The reserve is for writes that keep the cluster working. A write that
/// leads to a deletion always has room.
pub(super) fn purpose(admission: &Admission<'_>) -> Purpose {
    match admission.subresource() {
        _ if admission.operation == Operation::Delete || only_drops_finalizers(admission) => Purpose::Removal,
        Some(Subresource::Finalize) => Purpose::Removal,
        Some(Subresource::Status | Subresource::Approval | Subresource::Scale) => Purpose::Upkeep,
        _ if keeps_things_going(admission) => Purpose::Upkeep,
        _ => Purpose::Growth,
    }
}

impl Chain {
    /// Counts what a change adds to history.
    pub(super) fn note_history(&self, admission: &Admission<'_>, written: &Entry) {
        let Some(user) = admission.author.actor.limited() else { return };
        let before = admission.old.as_ref().map_or(0, |old| old.entry.value.len());
        self.shares.note(&shares::name(admission.at.resource), user.share(), before + written.value.len(), self.clock.now());
    }
}

/// Whether the write keeps the cluster working. That is true of leases. Of writes by the server and by administrators,
/// it is also true of cluster-scoped objects and of warning events. Normal events outnumber the objects that they
/// describe.
fn keeps_things_going(admission: &Admission<'_>) -> bool {
    let (resource, is_limited) = (admission.at.resource, admission.author.actor.limited().is_some());
    match (resource.group().as_str(), resource.plural().as_str()) {
        ("coordination.k8s.io", "leases") => true,
        ("" | "events.k8s.io", "events") => {
            let event = admission.object.downcast_ref::<Event>();
            !is_limited && event.is_some_and(|event| event.type_.as_deref() == Some("Warning"))
        }
        _ => !is_limited && admission.at.namespace.is_none(),
    }
}

/// Whether a change only removes finalizers. The record of its author may still make the object larger.
fn only_drops_finalizers(admission: &Admission<'_>) -> bool {
    let Some((old, new)) = admission.changed() else { return false };
    let finalizers = |object: &dyn Object| object.meta().finalizers.as_ref().map_or(0, Vec::len);
    if finalizers(old) <= finalizers(new) {
        return false;
    }
    let mut without = new.clone_object();
    let (meta, before) = (without.meta_mut(), old.meta());
    meta.finalizers.clone_from(&before.finalizers);
    meta.managed_fields.clone_from(&before.managed_fields);
    without.same_as(old)
}
