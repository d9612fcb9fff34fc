//! Why certificates are unavailable.

use jiff::Timestamp;
use std::{io, path::PathBuf};

/// Why certificates are unavailable.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("could not use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A stored file is damaged. Nothing is overwritten, because the old key may still be needed.
    #[error(
        "{path} {fault}; restore it from a backup, or remove {} to start with a new authority, which clients must then trust",
        .path.parent().unwrap_or(.path).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: Fault,
    },
    /// A file is missing although others of the same creation exist. It is not recreated, because clients have the old
    /// one.
    #[error(
        "{path} is missing, but {beside} exists; restore it from a backup, or remove {} to start with a new authority, which clients must then trust",
        .path.parent().unwrap_or(.path).display()
    )]
    Missing {
        /// The missing file.
        path: PathBuf,
        /// The name of an existing one.
        beside: &'static str,
    },
    /// The CA is not valid at the machine's time.
    #[error(
        "the authority in {path} is valid from {from} until {until}, but this machine's clock shows {now}: set the clock. If the clock is correct, move {} away to start with a new authority, which clients must then trust",
        .path.parent().unwrap_or(.path).display()
    )]
    NotNow {
        /// The file of the CA.
        path: PathBuf,
        /// The start of its validity.
        from: Timestamp,
        /// Its expiry.
        until: Timestamp,
        /// The machine's time.
        now: Timestamp,
    },
    /// A certificate could not be created.
    #[error("could not create the certificate of {subject}")]
    Make {
        /// The subject of the certificate.
        subject: &'static str,
        /// The cause.
        source: rcgen::Error,
    },
}

/// The fault of a file with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its content cannot be parsed.
    #[error("contains no usable certificate or key")]
    Unusable,
    /// The certificate of a CA was modified after it was signed.
    #[error("contains a certificate that was changed after it was signed")]
    Changed,
}
