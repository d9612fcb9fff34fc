//! How a server has answered so far: counted, and since when it does not.

use berth_store::env::{Clock, Timestamp};
use http::{Method, StatusCode};
use jiff::SignedDuration;
use prometheus::{IntCounterVec, Opts, Registry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all requests of a [`crate::RemoteCluster`] have come to.
pub struct Contact {
    host: String,
    clock: Arc<dyn Clock>,
    requests: IntCounterVec,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// When an answer came last.
    last: Option<Timestamp>,
    /// When the first request was begun to which, and to whatever came behind it, there was no answer.
    silent_since: Option<Timestamp>,
}

/// A request that is under way. Dropped before it was answered, it was not.
pub(crate) struct Begun<'a> {
    contact: &'a Contact,
    method: Method,
    at: Timestamp,
    is_answered: bool,
}

impl Contact {
    pub(crate) fn new(server: &str, clock: Arc<dyn Clock>) -> Self {
        let host = server.split("://").last().unwrap_or_default().trim_end_matches('/').to_owned();
        let options = Opts::new("rest_client_requests_total", "Requests to the API server, by the code of its answer");
        let requests = IntCounterVec::new(options, &["code", "host", "method"]).expect("the names are constants");
        Self { host, clock, requests, heard: Mutex::default() }
    }

    /// Shows how many requests there were, under upstream's name.
    ///
    /// # Errors
    /// A metric of that name is registered already.
    pub fn register(&self, metrics: &Registry) -> Result<(), prometheus::Error> {
        metrics.register(Box::new(self.requests.clone()))
    }

    /// For how long no request has been answered any more; `None`: the last one was, whatever the answer.
    #[must_use]
    pub fn silent_for(&self) -> Option<SignedDuration> {
        self.heard().silent_since.map(|since| self.clock.now().duration_since(since))
    }

    pub(crate) fn begin(&self, method: &Method) -> Begun<'_> {
        Begun { contact: self, method: method.clone(), at: self.clock.now(), is_answered: false }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        // Behind it are two times.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, code: &str, method: &Method) {
        self.requests.with_label_values(&[code, &self.host, method.as_str()]).inc();
    }
}

impl Begun<'_> {
    /// It has an answer.
    pub(crate) fn answered(mut self, code: StatusCode) {
        self.is_answered = true;
        self.contact.count(code.as_str(), &self.method);
        *self.contact.heard() = Heard { last: Some(self.contact.clock.now()), silent_since: None };
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.contact.count("<error>", &self.method);
        let mut heard = self.contact.heard();
        // Others were answered meanwhile: then it was this one's fate alone.
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

    /// Seconds, as they are set.
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
        let contact = Contact::new("https://127.0.0.1:6443/", Arc::<ByHand>::clone(&clock));
        let at = |second| clock.0.store(second, Ordering::SeqCst);
        let silent = |second| {
            at(second);
            contact.silent_for()
        };
        assert_eq!(silent(1), None, "nothing was asked");
        let (slow, lost) = (contact.begin(&Method::GET), contact.begin(&Method::PUT));
        at(2);
        contact.begin(&Method::GET).answered(StatusCode::SERVICE_UNAVAILABLE);
        drop(lost);
        assert_eq!(silent(5), None, "it answered others meanwhile");
        let first = contact.begin(&Method::GET);
        at(6);
        drop(contact.begin(&Method::GET));
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
