//! Why there are no certificates.

use jiff::Timestamp;
use std::{io, path::PathBuf};

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("could not use {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A kept file is damaged. Nothing is overwritten: somebody may need the old key.
    #[error(
        "{path} {fault}; restore it from a backup, or remove {} to start with a new authority, which clients must then trust",
        .path.parent().unwrap_or(.path).display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A file is missing beside others that were made with it. Nothing is made in its place: clients have the old one.
    #[error(
        "{path} is missing, but {beside} exists; restore it from a backup, or remove {} to start with a new authority, which clients must then trust",
        .path.parent().unwrap_or(.path).display()
    )]
    Missing {
        /// Which.
        path: PathBuf,
        /// The name of one that is there.
        beside: &'static str,
    },
    /// The authority does not hold at the time that the machine's clock shows.
    #[error(
        "the authority in {path} is valid from {from} until {until}, but this machine's clock shows {now}: set the clock. If the clock is correct, move {} away to start with a new authority, which clients must then trust",
        .path.parent().unwrap_or(.path).display()
    )]
    NotNow {
        /// Where it is kept.
        path: PathBuf,
        /// When it begins.
        from: Timestamp,
        /// When it ends.
        until: Timestamp,
        /// What time it is said to be.
        now: Timestamp,
    },
    /// A certificate could not be made.
    #[error("could not create the certificate of {subject}")]
    Make {
        /// Whose.
        subject: &'static str,
        /// Why.
        source: rcgen::Error,
    },
}

/// What is wrong with a file of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be read as what it should be.
    #[error("contains no usable certificate or key")]
    Unusable,
    /// Of an authority: none is made like this.
    #[error("contains a certificate that was changed after it was signed")]
    Changed,
}
