//! How many bytes the answers of all users take while they are made and sent, or their writes while they are worked on, and who gets some next.
//!
//! Bytes are seats of a lane of their own: who finds none waits for a while and is told to come again, no user holds more than three quarters,
//! and those that become free go to who holds the fewest.

use super::{Lane, Seat, metrics::FlowCollectors};
use crate::{limits::FULL_BYTES_MAX, status::Refusal};
use std::{sync::Arc, time::Duration};

/// Bytes are counted in units of so many.
const UNIT_BYTES: usize = FULL_BYTES_MAX;

/// The memory of an answer, kept until it is sent, or of a write; none for what is not counted.
pub(crate) type Kept = Option<Seat>;

/// The memory for answers, or for writes.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Lane>);

impl Memory {
    /// So many bytes for all; who waits for some does so for `wait`. `name` is that of its metrics.
    pub(crate) fn new(name: &'static str, bytes: usize, wait: Duration, collectors: &FlowCollectors) -> Self {
        Self(Arc::new(Lane::new(bytes / UNIT_BYTES, wait, collectors.of(name))))
    }

    /// Room for an answer that takes up to so many bytes, given back when dropped. One that alone takes more than a user may have gets
    /// all of that. Short answers are not counted: others bound how many there are.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`]: too many of the user's wait already, or this one did for too long.
    pub(crate) async fn reserve(&self, user: &str, bytes: usize) -> Result<Kept, Refusal> {
        if bytes <= FULL_BYTES_MAX {
            return Ok(None);
        }
        self.0.admit(user, bytes.div_ceil(UNIT_BYTES)).await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn one_user_cannot_take_all_memory_and_who_finds_none_is_told_to_come_again() {
        let memory = Memory::new("answers", 8 * UNIT_BYTES, Duration::from_millis(1), &FlowCollectors::new().expect("valid names"));
        let reserve = async |user, units| memory.reserve(user, units * UNIT_BYTES).await;
        let whole = reserve("a", 100).await.expect("as much as one may have").expect("counted");
        assert!(matches!(reserve("a", 2).await, Err(Refusal::Overloaded)));
        let other = reserve("b", 2).now_or_never().expect("at once").expect("room").expect("counted");
        assert!(matches!(reserve("c", 2).await, Err(Refusal::Overloaded)));
        assert!(reserve("c", 1).await.expect("short answers are free").is_none());
        drop((whole, other));
        assert!(reserve("c", 2).await.expect("room again").is_some());
    }
}
