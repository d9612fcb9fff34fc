//! The writes that the API server rejects because the user lacks a right.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The verb and the resource of a write: `patch`, `deployments.apps/status`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) verb: &'static str,
    pub(crate) resource: String,
}

/// The writes whose last attempt was rejected, each with the server's message. A success removes the entry.
#[derive(Default)]
pub(crate) struct Denials(Mutex<BTreeMap<Attempt, String>>);

impl Denials {
    /// Records the result of a write. `denied` is the server's message if the user lacks the right. Logs the first
    /// rejection of a verb and a resource.
    pub(crate) fn record(&self, attempt: Attempt, denied: Option<String>) {
        let mut all = self.lock();
        match denied {
            Some(why) => {
                if !all.contains_key(&attempt) {
                    let Attempt { verb, resource } = &attempt;
                    tracing::error!(
                        verb,
                        resource,
                        "the API server rejects a write: {why}. Grant this permission to the user of the kubeconfig"
                    );
                }
                all.insert(attempt, why);
            }
            None => {
                if let Some((Attempt { verb, resource }, _)) = all.remove_entry(&attempt) {
                    tracing::warn!(verb, resource, "the API server accepts this write again");
                }
            }
        }
    }

    /// Returns the server's messages, in the order of verbs.
    pub(crate) fn all(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Attempt, String>> {
        // Each change of the map is one call, so the map is always valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_write_counts_until_one_like_it_succeeds() {
        let denials = Denials::default();
        let attempt = |verb, resource: &str| Attempt { verb, resource: resource.to_owned() };
        let denied = |why: &str| Some(why.to_owned());
        denials.record(attempt("create", "pods"), denied("no pods"));
        denials.record(attempt("patch", "deployments.apps/status"), denied("no status"));
        denials.record(attempt("patch", "deployments.apps"), None);
        assert_eq!(denials.all(), ["no pods", "no status"]);
        denials.record(attempt("create", "pods"), denied("still no pods"));
        denials.record(attempt("patch", "deployments.apps/status"), None);
        assert_eq!(denials.all(), ["still no pods"]);
        denials.record(attempt("create", "pods"), None);
        assert_eq!(denials.all(), [""; 0]);
    }
}
