//! The providers of a file that is reloaded during use.

use crate::{
    ANSWER_WITHIN, client,
    config::{Found, Known, OpenError},
};
use berth_controllers::analysis::Providers;
use berth_env::{
    Clock,
    followed::{Do, READ_INTERVAL, Seen},
};
use berth_workloads::analysis::{Answer, NoAnswer, Question};
use futures::future::BoxFuture;
use std::{
    error::Error as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::task::spawn_blocking;

/// The providers of a file, with the contents of the files that it names.
///
/// [`FileProviders::follow`] replaces everything at once. A query in progress continues with its former providers.
#[derive(Debug)]
pub struct FileProviders {
    path: PathBuf,
    used: Mutex<Arc<Known>>,
    seen: Mutex<Seen>,
}

impl FileProviders {
    /// Reads the file and the files in it.
    ///
    /// # Errors
    /// The faults of the file, all at once.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let found = Found::read(path);
        let seen = Seen::new(found.digest());
        Ok(Self { path: path.to_owned(), used: Mutex::new(Arc::new(found.providers()?)), seen: Mutex::new(seen) })
    }

    /// Reads the files each second from now on, and uses their new contents. Never returns.
    pub async fn follow(self: Arc<Self>, clock: Arc<dyn Clock>) {
        loop {
            clock.sleep_until(clock.now() + READ_INTERVAL).await;
            let looking = Arc::clone(&self);
            // The file may be on a network file system, so reading can block.
            match spawn_blocking(move || looking.reload()).await.map_err(tokio::task::JoinError::try_into_panic) {
                Ok(()) => (),
                // A panic continues, as in any other task.
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                // The process ends.
                Err(Err(_)) => return,
            }
        }
    }

    fn reload(&self) {
        let found = Found::read(&self.path);
        let (file, digest) = (self.path.display(), found.digest());
        let mut seen = lock(&self.seen);
        match seen.check(digest) {
            Do::Nothing => (),
            Do::ReportRecovery => tracing::warn!("{file}: contains the current analysis providers again"),
            todo @ (Do::Try | Do::Report) => match found.providers() {
                Ok(known) => {
                    *lock(&self.used) = Arc::new(known);
                    // A user who saw the message about the faulty file must also see this one, so it has the same level.
                    if seen.taken(digest) {
                        tracing::warn!("{file}: fixed and reloaded: berth uses its analysis providers from now on");
                    } else {
                        tracing::info!("{file}: reloaded: berth uses its analysis providers from now on");
                    }
                }
                Err(error) if todo == Do::Report => {
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    tracing::warn!("keeping the previous analysis providers: {error}{cause}");
                }
                Err(_) => seen.refused(digest),
            },
        }
    }

    async fn attempt(&self, question: &Question) -> Result<Answer, NoAnswer> {
        let known = Arc::clone(&*lock(&self.used));
        let provider = known.get(&question.provider).ok_or(NoAnswer::UnknownProvider)?;
        if !provider.serves(&question.namespace) {
            return Err(NoAnswer::NotAllowed);
        }
        let asked = tokio::time::timeout(ANSWER_WITHIN, client::ask(provider, question)).await;
        asked.unwrap_or(Err(NoAnswer::TimedOut))
    }
}

impl Providers for FileProviders {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Answer, NoAnswer>> {
        Box::pin(self.attempt(question))
    }
}

/// The guarded data is consistent at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
