//! Follows files of credentials: what they say anew is used, what cannot be used is told once and changes nothing.

use super::{
    Credentials,
    files::{CredentialError, CredentialFiles, Part, ends},
};
use crate::{pki::RENEW_BEFORE, tls::TlsError};
use jiff::Timestamp;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use std::{error::Error, time::Duration};
use tokio::{task::spawn_blocking, time::sleep};

/// How often the files are read: some kilobytes, which the machine has in its memory.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is known of the files of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// What is used says the same.
    used: [u8; 32],
    /// What cannot be used, and how often it was seen.
    bad: Option<([u8; 32], u32)>,
}

/// How often the same must be seen that cannot be used until it is told: files of a pair are replaced one after the other.
const TOLD_AT: u32 = 2;

/// What to do about a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Do {
    /// It is what is used.
    Nothing,
    /// It is something else: to be tried.
    Try,
    /// It cannot be used, and was not told yet.
    Tell,
}

impl Seen {
    fn new(used: [u8; 32]) -> Self {
        Self { used, bad: None }
    }

    /// What to do with what the files say.
    fn look(&mut self, found: [u8; 32]) -> Do {
        if found == self.used {
            self.bad = None;
            return Do::Nothing;
        }
        match &mut self.bad {
            Some((bad, times)) if *bad == found => {
                *times = times.saturating_add(1);
                if *times == TOLD_AT { Do::Tell } else { Do::Nothing }
            }
            _ => Do::Try,
        }
    }

    fn is_used(&mut self, found: [u8; 32]) {
        *self = Self::new(found);
    }

    fn is_bad(&mut self, found: [u8; 32]) {
        self.bad = Some((found, 1));
    }

    /// Whether the files have said for a while what cannot be used.
    fn is_outdated(&self) -> bool {
        self.bad.is_some_and(|(_, times)| TOLD_AT <= times)
    }
}

/// Credentials whose files are followed.
pub struct Following {
    files: CredentialFiles,
    credentials: Credentials,
    seen: Vec<(Part, Seen)>,
    metrics: FileMetrics,
}

impl Following {
    /// Reads the files over `own`, which counts where no file is named.
    ///
    /// # Errors
    /// [`CredentialError`].
    pub fn read(files: CredentialFiles, own: Credentials) -> Result<Self, CredentialError> {
        let mut credentials = own;
        let mut seen = Vec::new();
        for part in Part::ALL.into_iter().filter(|part| files.has(*part)) {
            let contents = files.contents(part);
            seen.push((part, Seen::new(contents.digest())));
            files.put(part, contents, &mut credentials)?;
        }
        let following = Self { files, credentials, seen, metrics: FileMetrics::new() };
        following.tell_ends();
        Ok(following)
    }

    /// As they were read.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Shows how the files stand.
    ///
    /// # Errors
    /// A metric of one of these names is registered already.
    pub fn register(&self, metrics: &Registry) -> Result<(), prometheus::Error> {
        self.metrics.register(metrics)?;
        for (part, seen) in &self.seen {
            self.metrics.set(*part, seen, &self.credentials);
        }
        Ok(())
    }

    /// Hands over what they say from now on, to be used by a server ([`crate::Server::replace`]). Never ends, unless there is no file.
    pub async fn follow(mut self, mut replace: impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static) {
        while !self.seen.is_empty() {
            sleep(LOOK_EVERY).await;
            // It may be a file that another machine has.
            let looked = spawn_blocking(move || {
                self.look(&replace);
                (self, replace)
            });
            let Ok(still) = looked.await else { return };
            (self, replace) = still;
        }
    }

    fn look(&mut self, replace: impl Fn(&Credentials) -> Result<(), TlsError>) {
        for index in 0..self.seen.len() {
            let part = self.seen[index].0;
            let contents = self.files.contents(part);
            let digest = contents.digest();
            match self.seen[index].1.look(digest) {
                Do::Nothing => (),
                todo @ (Do::Try | Do::Tell) => {
                    let mut credentials = self.credentials.clone();
                    let used = self.files.put(part, contents, &mut credentials).map_err(|error| chain(&error));
                    match used.and_then(|()| replace(&credentials).map_err(|error| chain(&error))) {
                        Ok(()) => {
                            tracing::info!(credentials = part.name(), "read again: new connections and requests meet what is there now");
                            self.credentials = credentials;
                            self.seen[index].1.is_used(digest);
                            self.metrics.reloads.with_label_values(&[part.name()]).inc();
                            self.tell_ends();
                        }
                        Err(error) if todo == Do::Tell => {
                            tracing::error!(credentials = part.name(), "what was there before stays in use: {error}");
                        }
                        Err(_) => self.seen[index].1.is_bad(digest),
                    }
                }
            }
            self.metrics.set(part, &self.seen[index].1, &self.credentials);
        }
    }

    /// Warns of certificates that end soon.
    fn tell_ends(&self) {
        let soon = Timestamp::now() + RENEW_BEFORE;
        for (part, _) in &self.seen {
            if let Some(end) = ends(*part, &self.credentials).filter(|end| *end < soon) {
                tracing::warn!(credentials = part.name(), "its certificate ends at {end}");
            }
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

struct FileMetrics {
    outdated: IntGaugeVec,
    reloads: IntCounterVec,
    ends: IntGaugeVec,
}

impl FileMetrics {
    fn new() -> Self {
        let named = |name: &str, help: &str| Opts::new(format!("berth_credentials_{name}"), help);
        let of = &["credential"];
        let expect = "the names are constants";
        Self {
            outdated: IntGaugeVec::new(
                named("outdated", "1 while the files hold what cannot be used, and what was there before is used."),
                of,
            )
            .expect(expect),
            reloads: IntCounterVec::new(named("reloads_total", "How often new contents of the files came into use."), of).expect(expect),
            ends: IntGaugeVec::new(
                named("expire_timestamp_seconds", "When the certificate ends that is used, or the first of several."),
                of,
            )
            .expect(expect),
        }
    }

    fn register(&self, metrics: &Registry) -> Result<(), prometheus::Error> {
        metrics.register(Box::new(self.outdated.clone()))?;
        metrics.register(Box::new(self.reloads.clone()))?;
        metrics.register(Box::new(self.ends.clone()))
    }

    fn set(&self, part: Part, seen: &Seen, credentials: &Credentials) {
        self.outdated.with_label_values(&[part.name()]).set(seen.is_outdated().into());
        // So that it is there before anything happened.
        self.reloads.with_label_values(&[part.name()]).inc_by(0);
        if let Some(end) = ends(part, credentials) {
            self.ends.with_label_values(&[part.name()]).set(end.as_second());
        }
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
        seen.is_bad(bad);
        assert!(!seen.is_outdated(), "a pair of which one file is written already");
        assert_eq!([seen.look(bad), seen.look(bad), seen.look(bad)], [Do::Tell, Do::Nothing, Do::Nothing]);
        assert!(seen.is_outdated());
        assert_eq!(seen.look(other), Do::Try, "it is something else now");
        seen.is_bad(other);
        assert_eq!(seen.look(other), Do::Tell);
        assert_eq!(seen.look(used), Do::Nothing, "the old contents are back");
        assert!(!seen.is_outdated());
        assert_eq!(seen.look(other), Do::Try);
        seen.is_used(other);
        assert_eq!(seen.look(other), Do::Nothing);
    }
}
