//! Whether what clients saw of a store can be put in one order: linearisability, for Kubernetes' verbs.
//!
//! Clients record each request with when it was sent, when its answer was there, and what the answer was ([`Operation`]; lines of JSON on disk). Many of them
//! do so at once, while servers are killed and started again, or while several servers share a store. [`check`] then says whether there is one order of all
//! operations in which
//!
//! - each stands between its invocation and its return, so that whoever asks later sees no less;
//! - each was answered as a store would that does one after the other: creates, compare-and-sets, deletions, reads and refusals alike;
//! - writes stand in the order of their `resourceVersion`s, and none is given twice;
//! - a list is the state at its version, of each object in it and of each that is not;
//! - a watch delivered every change behind its beginning once, in order, and nothing else, up to where it was told.
//!
//! What has no known outcome may have happened, at any time from its invocation on, or not, but all that was seen must agree on which.
//!
//! Nothing in it knows how many servers there are, or what they are. It has no clock, no IO and no randomness; it takes the work that it is allowed and
//! says where that was not enough.
//!
//! What is not found: what can only be wrong if two deletions or unknown writes of different keys, whose versions nobody ever saw, took place in one order and
//! not in the other. A watch over all keys leaves no such.

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
