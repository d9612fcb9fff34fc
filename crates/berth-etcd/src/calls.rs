//! The calls of etcd's API, and one call: which member, whose token, how long.

use crate::{
    failure::{Failure, is_the_tokens},
    members::{Members, Token},
    messages,
};
use berth_store::etcd::{EtcdError, PAGE_BYTES};
use futures::future::{Either, select};
use http::uri::PathAndQuery;
use std::{future::pending, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Request, Status, client::Grpc, metadata::MetadataValue, transport::Channel};
use tonic_prost::ProstCodec;

pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(crate) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(crate) const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(crate) const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
pub(crate) const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
pub(crate) const LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// etcd itself gives up after seven seconds with its usual times of election, or after 27, whatever the release.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// The limit for a transaction where another member can repeat it. A write that a member has forwarded to a leader that is then killed is lost. The
/// member does not report this before it gives up itself. By this time there is another leader.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3);
/// How long a read hides the lack of a leader from its caller. An election takes one to two seconds with etcd's default times, and costs readers only
/// time.
const ELECTED_WITHIN: Duration = Duration::from_secs(3);
/// The delay before the members are asked again, after all of them have reported that they have no leader.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long a read is awaited that its caller repeats: longer than any caller waits for a write.
const LISTENED_WITHIN: Duration = Duration::from_secs(40);

/// Whether a call that may have been done can be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Yes,
    No,
    /// No; who asked does so when it is late, at the next member, and still wants the answer.
    ByTheCaller,
}

impl Members {
    /// Makes a call, at the next member where one cannot be reached; at most once at each, but for a read while the members elect a leader.
    pub(crate) async fn call<Q, A>(self: &Arc<Self>, path: &'static str, request: Q, repeat: Repeat) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let members = Arc::clone(self);
        let call = async move { members.call_any(path, request, repeat).await };
        // On the runtime of the connections, whichever runtime polls.
        let called = self.runtime.spawn(call).await;
        called.unwrap_or_else(|_| Err(EtcdError::Unknown("the runtime of etcd's client has ended".into())))
    }

    async fn call_any<Q, A>(&self, path: &'static str, request: Q, repeat: Repeat) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let (mut members_tried, mut tokens_tried, mut is_electing) = (0, 0, false);
        let patience = Instant::now() + ELECTED_WITHIN;
        loop {
            let index = self.current();
            let left = async {
                match repeat {
                    Repeat::Yes => self.left(index).await,
                    Repeat::No | Repeat::ByTheCaller => pending().await,
                }
            };
            let call = async {
                match repeat {
                    Repeat::Yes | Repeat::No => self.call_at(index, path, request.clone()).await,
                    Repeat::ByTheCaller => self.listen_to(index, path, request.clone()).await,
                }
            };
            let answer = match select(pin!(call), pin!(left)).await {
                Either::Left((answer, _)) => answer,
                // Other calls have found that the member does not answer.
                Either::Right(_) => continue,
            };
            let failure = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_the_tokens && tokens_tried == 0 {
                tokens_tried += 1;
                continue;
            }
            if failure.is_the_members {
                self.leave(index);
                members_tried += 1;
            }
            // Also where the last of them is the leader that is gone.
            is_electing |= failure.has_no_leader;
            if is_electing && repeat == Repeat::Yes && members_tried == self.len() && Instant::now() < patience {
                (members_tried, is_electing) = (0, false);
                sleep(ASKED_AGAIN_AFTER).await;
                continue;
            }
            let is_safe = repeat == Repeat::Yes || matches!(failure.error, EtcdError::Unreachable(_));
            if !failure.is_the_members || !is_safe || members_tried == self.len() {
                return Err(failure.error);
            }
        }
    }

    /// Makes a call at one member. From when it is late on, the next one is spoken to.
    async fn listen_to<Q, A>(&self, index: usize, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let call = pin!(self.call_within(index, path, request, LISTENED_WITHIN));
        match select(call, pin!(sleep(WRITTEN_WITHIN))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), call)) => {
                self.leave(index);
                call.await
            }
        }
    }

    /// Makes a call at one member. A token that etcd does not know any more is forgotten: the next call has another.
    pub(crate) async fn call_at<Q, A>(&self, index: usize, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let within = if path == TXN && 1 < self.len() { WRITTEN_WITHIN } else { ANSWERED_WITHIN };
        self.call_within(index, path, request, within).await
    }

    async fn call_within<Q, A>(&self, index: usize, path: &'static str, request: Q, within: Duration) -> Result<A, Failure>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let endpoint = self.endpoint(index);
        let call = async {
            let token = self.token(index).await?;
            let answer = unary(self.channel(index), path, request, token.clone()).await;
            if answer.as_ref().is_err_and(is_the_tokens) {
                self.forget_token(token.as_ref()).await;
            }
            answer
        };
        match timeout(within, call).await {
            Ok(answer) => answer.map_err(|status| Failure::of(&status, endpoint)),
            Err(_) => Err(Failure::late(endpoint, within.as_secs())),
        }
    }

    /// The token of the user, if there is one.
    pub(crate) async fn token(&self, index: usize) -> Result<Option<Token>, Status> {
        let Some(user) = &self.user else { return Ok(None) };
        let mut token = self.token.lock().await;
        if token.is_none() {
            let request = messages::Authenticate { name: user.name.clone(), password: user.password.clone() };
            let answer: messages::AuthenticateAnswer = unary(self.channel(index), AUTHENTICATE, request, None).await?;
            *token = Some(answer.token.parse().map_err(|_| Status::internal("its token is no text"))?);
        }
        Ok(token.clone())
    }
}

async fn unary<Q, A>(channel: Channel, path: &'static str, request: Q, token: Option<Token>) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let answer_bytes_max = if path == RANGE { PAGE_BYTES } else { usize::MAX };
    let mut grpc = grpc(channel, answer_bytes_max).await?;
    let answer = grpc.unary(asked(request, token), PathAndQuery::from_static(path), ProstCodec::default()).await?;
    Ok(answer.into_inner())
}

/// Answers of up to so many bytes, of which no more than that is read: a page of large objects is more than the four megabytes that are usual.
pub(crate) async fn grpc(channel: Channel, answer_bytes_max: usize) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(answer_bytes_max).max_encoding_message_size(usize::MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

/// Adds the token of the user, and requires a member without a leader to fail instead of waiting for one.
pub(crate) fn asked<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}
