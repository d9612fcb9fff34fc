//! Asks the providers of analyses: Prometheus and webhooks, as the administrator's file names them.
//!
//! What users write (a provider's name and a query) chooses among those and is sent as data; it never becomes part of an address. What is answered leaves this crate as a
//! number or as one of a few words ([`NoAnswer`]), whatever came.

mod address;
mod answer;
mod client;
mod config;
mod files;

pub use client::ANSWER_BYTES_MAX;
pub use config::OpenError;

use berth_controllers::analysis::Providers;
use berth_workloads::analysis::{Answer, NoAnswer, Question};
use config::Provider;
use futures::future::BoxFuture;
use std::{collections::BTreeMap, path::Path, time::Duration};

/// How long one attempt may take, from the first look at a file to the last byte of the answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The providers of a file.
#[derive(Debug)]
pub struct FileProviders(BTreeMap<String, Provider>);

impl FileProviders {
    /// Reads the file, and looks at the files that it names.
    ///
    /// # Errors
    /// What is wrong with it; of several faults, all.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        config::open(path).map(Self)
    }

    async fn attempt(&self, question: &Question) -> Result<Answer, NoAnswer> {
        let provider = self.0.get(&question.provider).ok_or(NoAnswer::UnknownProvider)?;
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
