//! Reloads files of credentials when they change. Unusable contents are logged once and change nothing.

use super::{
    Credentials,
    files::{CredentialError, CredentialFiles, Part, ends},
};
use crate::{pki::RENEW_BEFORE, tls::TlsError};
use berth_env::followed::{Do, READ_INTERVAL, Seen};
use jiff::Timestamp;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use std::{error::Error, time::Duration};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// The interval of warnings about certificates that expire soon.
const WARN_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Credentials with files that are reloaded.
pub struct Following {
    files: CredentialFiles,
    credentials: Credentials,
    seen: Vec<(Part, Seen)>,
    metrics: FileMetrics,
}

impl Following {
    /// Reads the files. `own` applies where there is no file.
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
        following.warn_of_expiry();
        Ok(following)
    }

    /// Returns the credentials as read.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Registers the metrics of the files.
    ///
    /// # Errors
    /// A metric with one of these names exists.
    pub fn register(&self, metrics: &Registry) -> Result<(), prometheus::Error> {
        self.metrics.register(metrics)?;
        for (name, end) in &self.credentials.own_ends {
            self.metrics.ends.with_label_values(&[*name]).set(end.as_second());
        }
        for (part, seen) in &self.seen {
            self.metrics.set(*part, seen, &self.credentials);
        }
        Ok(())
    }

    /// Passes changed credentials to `replace` ([`crate::Server::replace`]), and warns once a day of certificates that
    /// expire soon. Never ends.
    pub async fn follow(mut self, mut replace: impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static) {
        // Without files, the process need not wake up to read them.
        let pause = if self.seen.is_empty() { WARN_EVERY } else { READ_INTERVAL };
        let mut warned = Instant::now();
        loop {
            sleep(pause).await;
            if WARN_EVERY <= warned.elapsed() {
                warned = Instant::now();
                self.warn_of_expiry();
            }
            // The file may be on a network file system.
            let reloaded = spawn_blocking(move || {
                self.reload_changed(&replace);
                (self, replace)
            });
            let Ok(still) = reloaded.await else { return };
            (self, replace) = still;
        }
    }

    fn reload_changed(&mut self, replace: impl Fn(&Credentials) -> Result<(), TlsError>) {
        for index in 0..self.seen.len() {
            let part = self.seen[index].0;
            let contents = self.files.contents(part);
            let digest = contents.digest();
            match self.seen[index].1.check(digest) {
                Do::Nothing => (),
                Do::ReportRecovery => tracing::warn!(credentials = part.name(), "the files contain the current credentials again"),
                todo @ (Do::Try | Do::Report) => {
                    let mut credentials = self.credentials.clone();
                    let used = self.files.put(part, contents, &mut credentials).map_err(|error| chain(&error));
                    match used.and_then(|()| replace(&credentials).map_err(|error| chain(&error))) {
                        Ok(()) => {
                            self.credentials = credentials;
                            log_reload(part, self.seen[index].1.taken(digest));
                            self.metrics.reloads.with_label_values(&[part.name()]).inc();
                            self.warn_of_expiry();
                        }
                        Err(error) if todo == Do::Report => {
                            tracing::error!(credentials = part.name(), "keeping the previous credentials: {error}");
                        }
                        Err(_) => self.seen[index].1.refused(digest),
                    }
                }
            }
            self.metrics.set(part, &self.seen[index].1, &self.credentials);
        }
    }

    /// Warns of certificates that expire soon.
    fn warn_of_expiry(&self) {
        let soon = Timestamp::now() + RENEW_BEFORE;
        let followed = self.seen.iter().filter_map(|(part, _)| Some((part.name(), ends(*part, &self.credentials)?)));
        for (name, end) in followed.chain(self.credentials.own_ends.iter().copied()).filter(|(_, end)| *end < soon) {
            tracing::warn!(credentials = name, "its certificate ends at {end}");
        }
    }
}

/// Logs a reload. After a warning about unusable files, this is a warning too, so that a reader of warnings sees the
/// recovery.
fn log_reload(part: Part, is_recovery: bool) {
    let message = "reloaded: new connections and requests use the new credentials";
    if is_recovery {
        tracing::warn!(credentials = part.name(), "{message}");
    } else {
        tracing::info!(credentials = part.name(), "{message}");
    }
}

/// Formats an error with its causes.
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
                named("outdated", "1 while the files cannot be used, and the previous credentials stay in use."),
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
        // Initializes the counter, so that it is exposed before the first reload.
        self.reloads.with_label_values(&[part.name()]).inc_by(0);
        if let Some(end) = ends(part, credentials) {
            self.ends.with_label_values(&[part.name()]).set(end.as_second());
        }
    }
}
