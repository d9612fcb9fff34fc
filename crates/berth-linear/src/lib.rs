//! Whether what clients saw of a store can be put in one order: linearizability, for Kubernetes' verbs.
//!
//! Clients record each request with its start, its end, and its answer ([`Operation`]; lines of JSON on disk). Many clients do so at once, while
//! servers are killed and started again, or while several servers share a store. [`check`] then decides whether there is one order of all operations in
//! which
//!
//! - each is between its invocation and its return, so that a later request sees no less;
//! - each was answered as by a store that executes one after the other: creates, compare-and-sets, deletions, reads and refusals alike;
//! - writes are in the order of their `resourceVersion`s, and none is given twice;
//! - a list is the state at its version, of each object in it and of each that is not;
//! - a watch delivered every change after its beginning once, in order, and nothing else, up to its last item.
//!
//! What has no known outcome may have happened, at any time from its invocation on, or not, but all that was seen must agree on which.
//!
//! It does not depend on the number or the kind of servers. It has no clock, no IO and no randomness. It does at most the permitted work, and reports
//! where that was not enough.
//!
//! What is not detected: faults that need two deletions or unknown writes of different keys, with unseen versions, to be in one order and not in the
//! other. With a watch over all keys there are none.

mod bounds;
mod facts;
mod history;
mod object;
mod search;
mod snapshots;
mod text;
mod verdict;

pub use history::{
    Deleted, Event, Freshness, Item, Key, LineError, Listed, Moment, Object, Operation, Outcome, Preconditions, Prefix, Reason, Request,
    ResourceVersion, Uid, Value, WatchEvent, from_lines,
};
pub use verdict::{Checked, Effort, Fault};

use bounds::bounds;
use facts::Facts;
use snapshots::silences;
use text::Faults;

/// Whether a history can be put in order.
///
/// Every key is absent before the first operation; histories of several backing stores, each with versions of its own, are checked one by one.
/// Costs about as much as sorting the operations where most versions were seen.
///
/// # Errors
///
/// At most one fault of each key, list and watch, and 20 in all.
pub fn check(history: &[Operation], effort: Effort) -> Result<Checked, Vec<Fault>> {
    let mut faults = Faults::default();
    let facts = Facts::read(history, &mut faults).map_err(|malformed| vec![malformed])?;
    let silences = silences(&facts, &mut faults);
    let bounds = bounds(&facts, &mut faults);
    for (key, silence) in &silences {
        if !faults.know(key)
            && let Some(fault) = object::fault(&facts, key, silence, &bounds, effort)
        {
            faults.of_key(key, fault);
        }
    }
    if faults.found.is_empty() {
        let unknown = history.iter().filter(|operation| operation.request.is_unknown_write()).count();
        Ok(Checked { operations: history.len(), keys: facts.keys.len(), unknown })
    } else {
        Err(faults.found)
    }
}
