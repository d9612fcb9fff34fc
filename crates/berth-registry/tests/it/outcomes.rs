//! Writes whose response is lost, and a full store.

use crate::test_cluster::{TestCluster, config_map, pod};
use berth_registry::{ApiError, DeleteOptions, ListOptions, ResourceTable};
use berth_store::{Entry, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError};
use futures::{FutureExt, future::BoxFuture, future::ready};
use serde_json::json;
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The write never reaches the store.
    CallLost,
    /// The write is stored, but its response is lost.
    AnswerLost,
    /// The store has no space for a value.
    Full,
}

/// A store that fails at the next commit of a key with this text. A full store stays full.
struct Faulty {
    inner: Arc<MemoryStore>,
    next: Mutex<Option<(Fault, &'static str)>>,
}

impl Faulty {
    fn set(&self, fault: Fault, text: &'static str) {
        *self.next.lock().expect("no test panics here") = Some((fault, text));
    }

    fn fault(&self, writes: &[Write]) -> Option<Fault> {
        let mut next = self.next.lock().expect("no test panics here");
        let (fault, _) = next.filter(|(_, text)| writes.iter().any(|write| write.key.as_str().contains(text)))?;
        if fault != Fault::Full {
            *next = None;
        }
        Some(fault)
    }
}

impl Store for Faulty {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.inner.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.inner.range(request)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        let key = writes[0].key.clone();
        match self.fault(&writes) {
            Some(Fault::Full) if writes.iter().any(|write| write.value.is_some()) => ready(Err(WriteError::NoSpace { key })).boxed(),
            None | Some(Fault::Full) => self.inner.commit(writes),
            Some(fault) => {
                if fault == Fault::AnswerLost {
                    drop(self.inner.commit(writes));
                }
                ready(Err(WriteError::Unknown { key, cause: "no answer came".to_owned() })).boxed()
            }
        }
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.inner.watch(prefix, after)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.inner.compact(prefix, revision)
    }
}

fn cluster() -> (TestCluster, Arc<Faulty>) {
    let mut faulty = None;
    let cluster = TestCluster::over(|| {
        let inner = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24));
        let store = Arc::new(Faulty { inner: Arc::clone(&inner), next: Mutex::default() });
        faulty = Some(Arc::clone(&store));
        (inner, store)
    });
    (cluster, faulty.expect("just made"))
}

const LOST: [Fault; 2] = [Fault::CallLost, Fault::AnswerLost];

#[track_caller]
fn check_unknown<T: std::fmt::Debug>(answer: Result<T, ApiError>) {
    assert!(matches!(answer, Err(ApiError::OutcomeUnknown { .. })), "{answer:?}");
}

#[test]
fn a_write_without_an_answer_is_repeated_to_find_out() {
    for fault in LOST {
        let (cluster, store) = cluster();
        store.set(fault, "/configmaps/");
        check_unknown(cluster.create("configmaps", config_map("c")));
        let repeated = cluster.create("configmaps", config_map("c"));
        let had_happened = matches!(&repeated, Err(ApiError::AlreadyExists { .. }));
        assert_eq!((had_happened, repeated.is_ok()), (fault == Fault::AnswerLost, fault == Fault::CallLost));

        let mut changed = cluster.get("configmaps", "c").expect("there");
        changed["data"] = json!({"k": "v"});
        store.set(fault, "/configmaps/");
        check_unknown(cluster.update("configmaps", "c", &changed));
        let repeated = cluster.update("configmaps", "c", &changed);
        let had_happened = matches!(&repeated, Err(ApiError::Conflict { .. }));
        assert_eq!((had_happened, repeated.is_ok()), (fault == Fault::AnswerLost, fault == Fault::CallLost));
        assert_eq!(cluster.get("configmaps", "c").expect("there")["data"]["k"], "v");

        store.set(fault, "/configmaps/");
        check_unknown(cluster.delete("configmaps", "c", &DeleteOptions::default()));
        let repeated = cluster.delete("configmaps", "c", &DeleteOptions::default());
        let had_happened = matches!(&repeated, Err(ApiError::NotFound { .. }));
        assert_eq!((had_happened, repeated.is_ok()), (fault == Fault::AnswerLost, fault == Fault::CallLost));
        cluster.made("configmaps", config_map("c"));
    }
}

#[test]
fn a_pod_that_goes_at_once_is_gone_after_the_second_try_whatever_was_lost() {
    for fault in LOST {
        let (cluster, store) = cluster();
        cluster.made("pods", pod("p"));
        store.set(fault, "/pods/");
        check_unknown(cluster.delete("pods", "p", &DeleteOptions::default()));
        let found = cluster.get("pods", "p").expect("its mark comes first, and was all that was tried");
        assert_eq!(found["metadata"]["deletionTimestamp"].is_string(), fault == Fault::AnswerLost);
        cluster.delete("pods", "p", &DeleteOptions::default()).expect("the second try");
        assert!(matches!(cluster.get("pods", "p"), Err(ApiError::NotFound { .. })));
    }
}

#[test]
fn what_may_be_there_stays_charged_and_what_is_not_is_given_back() {
    for (fault, left_for_another) in [(Fault::CallLost, false), (Fault::AnswerLost, false), (Fault::Full, true)] {
        let (cluster, store) = cluster();
        let hard = json!({"pods": "1"});
        cluster.made(
            "resourcequotas",
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}),
        );
        cluster.merge("resourcequotas/status", "q", json!({"status": {"hard": hard, "used": {"pods": "0"}}})).expect("a status");
        store.set(fault, "/pods/");
        cluster.create("pods", pod("p")).expect_err("lost or refused");
        store.set(Fault::Full, "/nothing/");
        assert_eq!(cluster.create("pods", pod("other")).is_ok(), left_for_another, "{fault:?}");
    }
}

#[test]
fn a_service_that_may_be_there_keeps_its_address() {
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.7.7"}});
    for (fault, is_free) in [(Fault::CallLost, false), (Fault::AnswerLost, false), (Fault::Full, true)] {
        let (cluster, store) = cluster();
        store.set(fault, "/services/");
        cluster.create("services", service("s")).expect_err("lost or refused");
        store.set(Fault::Full, "/nothing/");
        assert_eq!(cluster.create("services", service("other")).is_ok(), is_free, "{fault:?}");
    }
}

#[test]
fn a_full_store_refuses_values_and_goes_on_reading_and_deleting() {
    let (cluster, store) = cluster();
    cluster.made("configmaps", config_map("a"));
    cluster.made("configmaps", config_map("b"));
    store.set(Fault::Full, "/");
    let refused = cluster.create("configmaps", config_map("c"));
    assert!(matches!(&refused, Err(ApiError::NoSpace { message }) if message.contains("no space is left for ")), "{refused:?}");
    cluster.delete("configmaps", "a", &DeleteOptions::default()).expect("it makes room");
    assert_eq!(cluster.names("configmaps", &ListOptions::default()), ["b"]);
}
