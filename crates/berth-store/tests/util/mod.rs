//! What every test of a store needs.

use berth_store::{Entry, Expected, Header, HeaderOf, Key, Range, RangeRequest, ReadError, Revision, Store, Watch, WatchItem, WriteError};
use futures::{FutureExt, StreamExt};
use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

/// Runs a future on this thread, which sleeps while it waits.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// The whole value stands in `uid`, to show that headers belong to values.
pub(crate) fn header_of() -> HeaderOf {
    Arc::new(|_, value| Header { uid: String::from_utf8_lossy(value).into(), ..Header::default() })
}

pub(crate) fn pod(name: &str) -> Key {
    Key::new(&format!("/registry/core/pods/default/{name}"))
}

pub(crate) fn put(store: &dyn Store, key: &Key, value: &str, expected: Expected) -> Result<Arc<Entry>, WriteError> {
    block_on(store.put(key.clone(), value.to_owned().into(), expected))
}

pub(crate) fn create(store: &dyn Store, key: &Key, value: &str) -> Revision {
    put(store, key, value, Expected::Absent).expect("the key is new").mod_revision
}

pub(crate) fn update(store: &dyn Store, key: &Key, value: &str) -> Revision {
    let current = get(store, key).expect("the key is there").mod_revision;
    put(store, key, value, Expected::At(current)).expect("nobody else writes").mod_revision
}

pub(crate) fn delete(store: &dyn Store, key: &Key) -> Revision {
    let current = get(store, key).expect("the key is there");
    block_on(store.delete(key.clone(), current.value.clone(), current.mod_revision)).expect("nobody else writes").mod_revision
}

pub(crate) fn get(store: &dyn Store, key: &Key) -> Option<Arc<Entry>> {
    block_on(store.get(key)).expect("the store is available")
}

pub(crate) fn range(store: &dyn Store, request: RangeRequest) -> Result<Range, ReadError> {
    block_on(store.range(request))
}

pub(crate) fn all(prefix: &str) -> RangeRequest {
    RangeRequest::all(prefix)
}

/// `name=value@revision` of each entry, by the last part of its key.
pub(crate) fn show(range: &Range) -> String {
    let one = |entry: &Arc<Entry>| {
        let name = entry.key.as_str().rsplit('/').next().unwrap_or_default();
        format!("{name}={}@{}", String::from_utf8_lossy(&entry.value), entry.mod_revision)
    };
    range.entries.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// All that a watch has ready: `+name=value@revision`, `-name=…` for a deletion, `!revision` for progress, an error's text.
pub(crate) fn drain(watch: &mut Watch) -> String {
    let mut shown = Vec::new();
    while let Some(Some(item)) = watch.next().now_or_never() {
        shown.push(match item {
            Ok(WatchItem::Progress(revision)) => format!("!{revision}"),
            Ok(WatchItem::Event(event)) => {
                let sign = if event.kind == berth_store::EventKind::Put { '+' } else { '-' };
                let one = Range { entries: vec![Arc::clone(&event.entry)], revision: Revision(0), remaining: 0 };
                format!("{sign}{}", show(&one))
            }
            Err(error) => error.to_string(),
        });
    }
    shown.join(" ")
}
