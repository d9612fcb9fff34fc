//! What to do about files that are followed by their contents while a process runs. Pure: whoever reads them has time and files.
//!
//! What they say anew is used; what cannot be used changes nothing and is told once, and so is that it has come right again
//! (docs/decisions/0033-credentials-that-servers-share.md).

use std::time::Duration;

/// How often such files are read: some kilobytes, which the machine has in its memory.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the same must be seen that cannot be used until it is told: files that go together are replaced one after the other.
const TOLD_AT: u32 = 2;

/// The same one for the same contents.
pub type Digest = [u8; 32];

/// What is known of files that are used as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What is used says the same.
    used: Digest,
    /// What cannot be used, and how often it was seen.
    bad: Option<(Digest, u32)>,
    /// Somebody was told that something cannot be used, and not yet that it is well again.
    is_told: bool,
}

/// What to do about a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// There is nothing new.
    Nothing,
    /// It is something else: to be tried.
    Try,
    /// It cannot be used, and was not told yet.
    Tell,
    /// It is what is used, after something was told that could not be.
    TellWell,
}

impl Seen {
    /// Files of which this is used.
    #[must_use]
    pub fn new(used: Digest) -> Self {
        Self { used, bad: None, is_told: false }
    }

    /// What to do with what the files say. What is tried is [`Seen::taken`] or [`Seen::refused`] after that.
    pub fn look(&mut self, found: Digest) -> Do {
        if found == self.used {
            return if self.taken(found) { Do::TellWell } else { Do::Nothing };
        }
        match &mut self.bad {
            Some((bad, times)) if *bad == found => {
                *times = times.saturating_add(1);
                if *times != TOLD_AT {
                    return Do::Nothing;
                }
                self.is_told = true;
                Do::Tell
            }
            _ => Do::Try,
        }
    }

    /// It is used from now on. Gives whether that is to be told, since it was told before that something could not be.
    pub fn taken(&mut self, found: Digest) -> bool {
        std::mem::replace(self, Self::new(found)).is_told
    }

    /// It cannot be used.
    pub fn refused(&mut self, found: Digest) {
        self.bad = Some((found, 1));
    }

    /// Whether the files have said for a while what cannot be used.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_told_once_and_at_its_second_look() {
        let [used, bad, other] = [[1; 32], [2; 32], [3; 32]];
        let mut seen = Seen::new(used);
        assert_eq!(seen.look(used), Do::Nothing);
        assert_eq!(seen.look(bad), Do::Try);
        seen.refused(bad);
        assert!(!seen.is_outdated(), "a pair of which one file is written already");
        assert_eq!([seen.look(bad), seen.look(bad), seen.look(bad)], [Do::Tell, Do::Nothing, Do::Nothing]);
        assert!(seen.is_outdated());
        assert_eq!(seen.look(other), Do::Try, "it is something else now");
        seen.refused(other);
        assert!(seen.is_outdated(), "and is no better");
        assert_eq!(seen.look(other), Do::Tell);
        assert_eq!([seen.look(used), seen.look(used)], [Do::TellWell, Do::Nothing], "the old contents are back");
        assert!(!seen.is_outdated());
        assert_eq!(seen.look(other), Do::Try);
        assert!(!seen.taken(other), "nobody was told anything");
        assert_eq!(seen.look(other), Do::Nothing);
    }

    #[test]
    fn what_is_mended_by_something_new_is_told_too_and_what_nobody_was_told_of_is_not() {
        let [used, bad, mended] = [[1; 32], [2; 32], [3; 32]];
        let mut seen = Seen::new(used);
        seen.refused(bad);
        assert_eq!([seen.look(used), seen.look(bad)], [Do::Nothing, Do::Try], "nobody was told of it");
        seen.refused(bad);
        assert_eq!([seen.look(bad), seen.look(mended)], [Do::Tell, Do::Try]);
        assert!(seen.taken(mended));
        assert_eq!(seen, Seen::new(mended));
    }
}
