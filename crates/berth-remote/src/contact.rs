//! Counts the responses of a server, and records since when there are none.

use crate::denials::Denials;
use berth_env::{Clock, Timestamp};
use http::{Method, StatusCode};
use jiff::SignedDuration;
use prometheus::{IntCounterVec, Opts, Registry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The record of all requests of a [`crate::RemoteCluster`].
pub struct Contact {
    clock: Arc<dyn Clock>,
    requests: IntCounterVec,
    heard: Mutex<Heard>,
    pub(crate) denials: Denials,
}

#[derive(Default)]
struct Heard {
    /// The time of the last response.
    last: Option<Timestamp>,
    /// The start of the first request since which no request got a response.
    silent_since: Option<Timestamp>,
}

/// A request in progress. Dropping it before a response counts as none.
pub(crate) struct Begun<'a> {
    contact: &'a Contact,
    host: &'a str,
    method: Method,
    at: Timestamp,
    is_answered: bool,
}

impl Contact {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let options = Opts::new("rest_client_requests_total", "Requests to the API server, by the code of its answer");
        let requests = IntCounterVec::new(options, &["code", "host", "method"]).expect("the names are constants");
        Self { clock, requests, heard: Mutex::default(), denials: Denials::default() }
    }

    /// Registers the request counter, with upstream's name.
    ///
    /// # Errors
    /// A metric with that name exists.
    pub fn register(&self, metrics: &Registry) -> Result<(), prometheus::Error> {
        metrics.register(Box::new(self.requests.clone()))
    }

    /// Returns for how long no request has had a response. `None`: the last one had any response.
    #[must_use]
    pub fn silent_for(&self) -> Option<SignedDuration> {
        self.heard().silent_since.map(|since| self.clock.now().duration_since(since))
    }

    /// Returns the writes that the server rejects because the user lacks a right, with its messages. A later success of
    /// the same verb and resource removes an entry.
    #[must_use]
    pub fn denied(&self) -> Vec<String> {
        self.denials.all()
    }

    /// Records the start of a request to `server`.
    pub(crate) fn begin<'a>(&'a self, server: &'a str, method: &Method) -> Begun<'a> {
        let host = server.split("://").last().unwrap_or_default().trim_end_matches('/');
        Begun { contact: self, host, method: method.clone(), at: self.clock.now(), is_answered: false }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        // The content is two times, which are always valid.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun<'_> {
    fn count(&self, code: &str) {
        self.contact.requests.with_label_values(&[code, self.host, self.method.as_str()]).inc();
    }

    /// Records its response.
    pub(crate) fn answered(mut self, code: StatusCode) {
        self.is_answered = true;
        self.count(code.as_str());
        *self.contact.heard() = Heard { last: Some(self.contact.clock.now()), silent_since: None };
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.count("<error>");
        let mut heard = self.contact.heard();
        // Other requests got responses since, so only this one failed.
        if heard.last.is_none_or(|last| last <= self.at) {
            heard.silent_since = heard.silent_since.into_iter().chain([self.at]).min();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use prometheus::TextEncoder;
    use std::sync::atomic::{AtomicI64, Ordering};

    const SERVER: &str = "https://127.0.0.1:6443/";

    /// A clock that the test sets, in seconds.
    #[derive(Default)]
    struct ByHand(AtomicI64);

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0.load(Ordering::SeqCst)).expect("a time")
        }

        fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
            Box::pin(futures::future::pending())
        }
    }

    #[test]
    fn a_server_is_silent_since_the_first_request_that_nothing_came_behind() {
        let clock = Arc::<ByHand>::default();
        let contact = Contact::new(Arc::<ByHand>::clone(&clock));
        let at = |second| clock.0.store(second, Ordering::SeqCst);
        let silent = |second| {
            at(second);
            contact.silent_for()
        };
        assert_eq!(silent(1), None, "nothing was asked");
        let (slow, lost) = (contact.begin(SERVER, &Method::GET), contact.begin(SERVER, &Method::PUT));
        at(2);
        contact.begin(SERVER, &Method::GET).answered(StatusCode::SERVICE_UNAVAILABLE);
        drop(lost);
        assert_eq!(silent(5), None, "it answered others meanwhile");
        let first = contact.begin(SERVER, &Method::GET);
        at(6);
        drop(contact.begin(SERVER, &Method::GET));
        assert_eq!(silent(7), Some(SignedDuration::from_secs(1)));
        drop(first);
        assert_eq!(silent(8), Some(SignedDuration::from_secs(3)), "it was begun before");
        slow.answered(StatusCode::OK);
        assert_eq!(silent(9), None);
        let metrics = Registry::new();
        contact.register(&metrics).expect("a free name");
        let text = TextEncoder::new().encode_to_string(&metrics.gather()).expect("text");
        for line in [
            r#"rest_client_requests_total{code="200",host="127.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_requests_total{code="503",host="127.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="127.0.0.1:6443",method="GET"} 2"#,
            r#"rest_client_requests_total{code="<error>",host="127.0.0.1:6443",method="PUT"} 1"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
