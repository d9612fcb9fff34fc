//! Decides about files that a process follows by their contents while it runs. Pure: the caller has the time and the files.
//!
//! New contents are used. Unusable contents change nothing and are reported once, and so is their recovery
//! (docs/decisions/0033-credentials-that-servers-share.md).

use std::time::Duration;

/// How often such files are read: some kilobytes, which the machine has in its memory.
pub const READ_INTERVAL: Duration = Duration::from_secs(1);

/// How often the same unusable contents must be read until they are reported: files that belong together are replaced one after the other.
const REPORTED_AT: u32 = 2;

/// The same one for the same contents.
pub type Digest = [u8; 32];

/// What is known of files that are used as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The contents in use.
    used: Digest,
    /// What cannot be used, and how often it was seen.
    bad: Option<(Digest, u32)>,
    /// Unusable contents were reported, and their recovery was not.
    is_reported: bool,
}

/// What to do after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// There is nothing new.
    Nothing,
    /// It is something else: to be tried.
    Try,
    /// It is unusable, and was not reported yet.
    Report,
    /// It is in use, after unusable contents were reported.
    ReportRecovery,
}

impl Seen {
    /// Files of which this is used.
    #[must_use]
    pub fn new(used: Digest) -> Self {
        Self { used, bad: None, is_reported: false }
    }

    /// Decides about the present contents. After an attempt to use them, call [`Seen::taken`] or [`Seen::refused`].
    pub fn check(&mut self, found: Digest) -> Do {
        if found == self.used {
            return if self.taken(found) { Do::ReportRecovery } else { Do::Nothing };
        }
        match &mut self.bad {
            Some((bad, times)) if *bad == found => {
                *times = times.saturating_add(1);
                if *times != REPORTED_AT {
                    return Do::Nothing;
                }
                self.is_reported = true;
                Do::Report
            }
            _ => Do::Try,
        }
    }

    /// The contents are in use from now on. Returns whether to report that, because unusable contents were reported before.
    pub fn taken(&mut self, found: Digest) -> bool {
        std::mem::replace(self, Self::new(found)).is_reported
    }

    /// It cannot be used.
    pub fn refused(&mut self, found: Digest) {
        self.bad = Some((found, 1));
    }

    /// Whether the files have been unusable for a while.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.is_reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_contents_are_reported_once_and_at_the_second_read() {
        let [used, bad, other] = [[1; 32], [2; 32], [3; 32]];
        let mut seen = Seen::new(used);
        assert_eq!(seen.check(used), Do::Nothing);
        assert_eq!(seen.check(bad), Do::Try);
        seen.refused(bad);
        assert!(!seen.is_outdated(), "a pair of which one file is written already");
        assert_eq!([seen.check(bad), seen.check(bad), seen.check(bad)], [Do::Report, Do::Nothing, Do::Nothing]);
        assert!(seen.is_outdated());
        assert_eq!(seen.check(other), Do::Try, "it is something else now");
        seen.refused(other);
        assert!(seen.is_outdated(), "and is no better");
        assert_eq!(seen.check(other), Do::Report);
        assert_eq!([seen.check(used), seen.check(used)], [Do::ReportRecovery, Do::Nothing], "the old contents are back");
        assert!(!seen.is_outdated());
        assert_eq!(seen.check(other), Do::Try);
        assert!(!seen.taken(other), "nothing was reported");
        assert_eq!(seen.check(other), Do::Nothing);
    }

    #[test]
    fn recovery_by_new_contents_is_reported_too_and_that_of_unreported_faults_is_not() {
        let [used, bad, mended] = [[1; 32], [2; 32], [3; 32]];
        let mut seen = Seen::new(used);
        seen.refused(bad);
        assert_eq!([seen.check(used), seen.check(bad)], [Do::Nothing, Do::Try], "it was not reported");
        seen.refused(bad);
        assert_eq!([seen.check(bad), seen.check(mended)], [Do::Report, Do::Try]);
        assert!(seen.taken(mended));
        assert_eq!(seen, Seen::new(mended));
    }
}
