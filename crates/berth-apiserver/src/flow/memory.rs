//! Limits the memory of all responses while they are built and sent, and of writes while they are processed.
//!
//! Bytes are the seats of a separate lane. A request without enough bytes waits for a while, and is then rejected with
//! a retry interval. No user holds more than three quarters. Released bytes go to the user who holds the fewest.

use super::{Lane, Seat, metrics::FlowCollectors};
use crate::{limits::FULL_BYTES_MAX, status::Refusal};
use std::{sync::Arc, time::Duration};

/// The unit of bytes.
const UNIT_BYTES: usize = FULL_BYTES_MAX;

/// The memory of a response, held until it is sent, or of a write. `None`: not counted.
pub(crate) type Kept = Option<Seat>;

/// The memory for responses, or for writes.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Lane>);

impl Memory {
    /// Creates a limit of this many bytes for all. A request waits up to `wait`. `name` is the name in metrics.
    pub(crate) fn new(name: &'static str, bytes: usize, wait: Duration, collectors: &FlowCollectors) -> Self {
        Self(Arc::new(Lane::new(bytes / UNIT_BYTES, wait, collectors.of(name))))
    }

    /// Reserves memory for a response of this size. Dropping the result releases it. A response above a user's share
    /// gets the whole share. Short responses are not counted, because other limits bound their number.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`]: the user has too many waiting requests, or this one waited too long.
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
    async fn one_user_cannot_take_all_memory_and_requests_without_memory_are_refused_as_overloaded() {
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
