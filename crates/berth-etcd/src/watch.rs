//! Watches, each on a gRPC stream of its own, and on a separate connection. Watches do not share streams, because etcd
//! reports progress only when all watches of a stream have caught up.

use crate::{
    calls,
    failure::Failure,
    members::Members,
    messages::{self, event::Kind, watch_request::Request as Asked},
    wire::{KeyPrefix, from_wire, revision_of, to_wire},
};
use berth_store::{
    Revision,
    etcd::{Change, EtcdError, Watched, Watching},
};
use futures::{
    Stream, StreamExt,
    future::{Either, select},
    stream::poll_fn,
};
use http::uri::PathAndQuery;
use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{sync::mpsc, task::AbortHandle};
use tonic_prost::ProstCodec;

/// The maximum number of unread answers. Beyond it, etcd is slowed down.
const ANSWERS_MAX: usize = 16;
/// The size limit of a message. etcd sends fragments of at most the size of a request, 1.5 MiB by default, and advises against more than 10. So the
/// memory of a watch is bounded, however much it has to catch up with.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// The maximum number of unsent progress requests. Further ones would be redundant.
const QUESTIONS_MAX: usize = 4;

type Item = Result<Watched, EtcdError>;

pub(crate) fn watch(members: Arc<Members>, prefix: &str, from: Revision) -> Watching {
    let (key, range_end) = members.key_prefix.bounds(prefix);
    let create = messages::WatchCreate { key, range_end, start_revision: to_wire(from), progress_notify: true, fragment: true };
    let (ask, questions) = mpsc::channel(QUESTIONS_MAX);
    let (sender, items) = mpsc::channel(ANSWERS_MAX);
    // The first message creates the watch. Without it, etcd does not answer at all.
    _ = ask.try_send(messages::WatchRequest { request: Some(Asked::Create(create)) });
    let runtime = members.runtime.clone();
    let task = runtime.spawn(async move {
        let error = follow(&members, questions, &sender).await;
        // A dropped receiver needs no answer.
        _ = sender.send(Err(error)).await;
    });
    let ask_progress = move || {
        _ = ask.try_send(messages::WatchRequest { request: Some(Asked::Progress(messages::WatchProgress {})) });
    };
    Watching { items: Items { items, task: task.abort_handle() }.boxed(), ask_progress: Arc::new(ask_progress) }
}

/// The items of a watch. Dropping it ends the watch.
struct Items {
    items: mpsc::Receiver<Item>,
    task: AbortHandle,
}

impl Stream for Items {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        self.items.poll_recv(cx)
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs until the watch ends, and returns the reason.
async fn follow(members: &Members, mut questions: mpsc::Receiver<messages::WatchRequest>, sender: &mpsc::Sender<Item>) -> EtcdError {
    let index = members.current();
    let token = members.token(index).await;
    let failed = async |status: &tonic::Status| {
        let failure = Failure::of(status, members.endpoint(index));
        if failure.is_the_members {
            members.leave(index);
        }
        if failure.is_the_tokens {
            members.forget_token(token.as_ref().ok().and_then(Option::as_ref)).await;
        }
        failure.error
    };
    let opened = async {
        let token = token.clone()?;
        let mut grpc = calls::grpc(members.watch_channel(index), MESSAGE_BYTES_MAX).await?;
        let questions = poll_fn(move |cx| questions.poll_recv(cx));
        let path = PathAndQuery::from_static(calls::WATCH);
        let answer = grpc.streaming(calls::asked(questions, token), path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    };
    let mut answers = match opened.await {
        Ok(answers) => answers,
        Err(status) => return failed(&status).await,
    };
    let mut whole = Whole::new(members.key_prefix.clone());
    let mut left = pin!(members.left(index));
    loop {
        let answer: Result<Option<messages::WatchAnswer>, _> = match select(pin!(answers.message()), &mut left).await {
            Either::Left((answer, _)) => answer,
            // Calls detect a silent member long before a watch does.
            Either::Right(_) => return EtcdError::Unreachable(format!("etcd at {} no longer answers", members.endpoint(index))),
        };
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => return EtcdError::Unreachable(format!("etcd at {} has ended the watch", members.endpoint(index))),
            Err(status) => return failed(&status).await,
        };
        if answer.canceled {
            return match answer.compact_revision {
                0 => failed(&tonic::Status::unavailable(answer.cancel_reason)).await,
                _ => EtcdError::Compacted,
            };
        }
        let Some(watched) = whole.add(answer) else { continue };
        if sender.send(Ok(watched)).await.is_err() {
            return EtcdError::Unreachable("there is no watcher".into());
        }
    }
}

/// Joins the fragments of an answer.
struct Whole {
    key_prefix: KeyPrefix,
    /// etcd has confirmed the watch.
    has_begun: bool,
    changes: Vec<Change>,
}

impl Whole {
    fn new(key_prefix: KeyPrefix) -> Self {
        Self { key_prefix, has_begun: false, changes: Vec::new() }
    }

    /// The item of an answer, joined with the fragments before it. `None`: more fragments follow, or there is nothing to report. In a fragment that is
    /// not the last, the last revision may be incomplete, and waits: so only one revision is held, not all that a watch has to catch up with.
    fn add(&mut self, answer: messages::WatchAnswer) -> Option<Watched> {
        let is_empty = answer.events.is_empty();
        self.changes.extend(answer.events.into_iter().filter_map(|event| change(&self.key_prefix, event)));
        if answer.created {
            self.has_begun = true;
            return Some(Watched::Begun);
        }
        if answer.fragment {
            let last = self.changes.last()?.revision;
            let behind = self.changes.split_off(self.changes.partition_point(|change| change.revision < last));
            let whole = std::mem::replace(&mut self.changes, behind);
            return (!whole.is_empty()).then_some(Watched::Changes(whole));
        }
        if is_empty && self.changes.is_empty() {
            // Changes before etcd has confirmed the watch are kept until then. Requested progress is not (3.6's sendLoop keeps answers by the number of
            // their watch, and those have none): it overtakes the changes.
            return self.has_begun.then(|| Watched::Progress(revision_of(answer.header.as_ref())));
        }
        Some(Watched::Changes(std::mem::take(&mut self.changes)))
    }
}

fn change(key_prefix: &KeyPrefix, event: messages::Event) -> Option<Change> {
    let kind = event.kind();
    let found = event.kv?;
    let put = (kind == Kind::Put).then(|| (found.value, from_wire(found.create_revision)));
    Some(Change { key: key_prefix.here(&found.key)?, put, revision: from_wire(found.mod_revision) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(keys: &[(&str, i64)], fragment: bool) -> messages::WatchAnswer {
        let event = |(key, mod_revision): &(&str, i64)| messages::Event {
            kind: Kind::Put.into(),
            kv: Some(messages::KeyValue {
                key: key.as_bytes().to_vec().into(),
                mod_revision: *mod_revision,
                ..messages::KeyValue::default()
            }),
        };
        let header = Some(messages::Header { revision: 9, ..messages::Header::default() });
        messages::WatchAnswer { header, events: keys.iter().map(event).collect(), fragment, ..messages::WatchAnswer::default() }
    }

    fn shown(watched: Option<Watched>) -> String {
        match watched {
            None => "none".into(),
            Some(Watched::Begun) => "begun".into(),
            Some(Watched::Progress(revision)) => format!("!{revision}"),
            Some(Watched::Changes(changes)) => {
                changes.iter().map(|change| format!("{}@{}", change.key, change.revision)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn a_revision_in_several_messages_comes_as_a_whole() {
        let mut whole = Whole::new(KeyPrefix::new("/registry"));
        assert_eq!(shown(whole.add(begun())), "begun", "that is no progress");
        assert_eq!(shown(whole.add(answer(&[("/a", 7), ("/b", 8)], true))), "/a@7", "what is whole is not held back");
        assert_eq!(shown(whole.add(answer(&[("/c", 8)], true))), "none");
        assert_eq!(shown(whole.add(answer(&[("/d", 8)], false))), "/b@8 /c@8 /d@8");
        assert_eq!(shown(whole.add(answer(&[], false))), "!9");
    }

    #[test]
    fn progress_of_a_watch_that_has_not_begun_is_passed_over() {
        let mut whole = Whole::new(KeyPrefix::new("/registry"));
        assert_eq!(shown(whole.add(answer(&[], false))), "none", "what is before it may still come");
        assert_eq!(shown(whole.add(begun())), "begun");
        assert_eq!(shown(whole.add(answer(&[("/a", 5)], false))), "/a@5");
        assert_eq!(shown(whole.add(answer(&[], false))), "!9");
    }

    fn begun() -> messages::WatchAnswer {
        messages::WatchAnswer { created: true, ..answer(&[], false) }
    }
}
