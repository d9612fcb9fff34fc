//! What a disk that fills up still takes: as of a quota, what clients want stored is refused first, what keeps the rest going next, and what makes
//! room last.

use super::{Limits, record_bytes};
use crate::{Purpose, mvcc::Commit};

impl Limits {
    /// The bytes that must stay free after a write. The last part is reserved: a start, and the checkpoint that makes room after many deletions, create
    /// files of their own.
    pub(crate) fn kept_free(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Growth => self.free_bytes_min,
            Purpose::Upkeep => self.free_bytes_min / 2,
            Purpose::Removal => self.free_bytes_min / 16,
        }
    }
}

/// The space for the commits of a batch, each of which counts for the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskRoom {
    pub(super) limits: Limits,
    /// `None`: the disk does not report it, so a write must fail first.
    pub(super) free: Option<u64>,
    /// What the log has taken of it ahead.
    pub(super) ahead: u64,
    /// By the commits before.
    pub(super) taken: u64,
}

impl DiskRoom {
    /// With so much free, of which nothing is taken ahead.
    #[cfg(test)]
    pub(crate) fn of(limits: Limits, free: Option<u64>) -> Self {
        Self { limits, free, ahead: 0, taken: 0 }
    }

    /// What is left when the commit has what it needs; `None`: that is more than there is for it.
    pub(crate) fn with(self, commit: &Commit) -> Option<Self> {
        let taken = self.taken + commit.events.iter().map(|event| record_bytes(event)).sum::<u64>();
        let longer = taken.saturating_sub(self.ahead).next_multiple_of(self.limits.log_step_bytes);
        let is_there = self.free.is_none_or(|free| self.limits.kept_free(commit.purpose) + longer <= free);
        is_there.then_some(Self { taken, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Expected, Header, Key, Revision,
        mvcc::{Prepared, evaluate},
    };

    fn commit(purpose: Purpose, bytes: usize) -> Commit {
        let value = Some((vec![0; bytes].into(), Header::default()));
        let write = Prepared { key: Key::new("/k"), expected: Expected::Absent, value, expires_at: None, purpose, only_while: None };
        evaluate(vec![write], Revision(1), |_| None).expect("nothing is there")
    }

    #[test]
    fn each_purpose_leaves_what_is_kept_for_the_next() {
        let limits = Limits { log_step_bytes: 1000, checkpoint_bytes_min: 0, free_bytes_min: 16_000 };
        let takes = |free, purpose| DiskRoom::of(limits, free).with(&commit(purpose, 500)).is_some();
        for (purpose, kept) in [(Purpose::Growth, 16_000), (Purpose::Upkeep, 8000), (Purpose::Removal, 1000)] {
            assert!(takes(Some(kept + 1000), purpose) && !takes(Some(kept + 999), purpose), "{purpose:?}");
            assert!(takes(None, purpose), "{purpose:?}, and the disk does not say");
        }
    }

    #[test]
    fn commits_of_a_batch_count_for_those_behind_them_and_what_was_taken_ahead_is_theirs() {
        let limits = Limits { log_step_bytes: 1000, checkpoint_bytes_min: 0, free_bytes_min: 16_000 };
        let mut room = DiskRoom { ahead: 3000, ..DiskRoom::of(limits, Some(16_000)) };
        let mut fit = 0;
        while let Some(left) = room.with(&commit(Purpose::Growth, 958)).filter(|_| fit < 10) {
            (room, fit) = (left, fit + 1);
        }
        assert_eq!(fit, 3, "of 1000 bytes each");
        assert!(room.with(&commit(Purpose::Upkeep, 958)).is_some());
    }
}
