//! The calls of etcd's API: chooses the member, the token and the timeout of a call.

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

/// The timeout of a call. etcd itself gives up after seven seconds with its default election times, or after 27,
/// depending on the release.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// The limit for a transaction where another member can repeat it. A write that a member has forwarded to a leader that is then killed is lost. The
/// member does not report this before it gives up itself. By this time there is another leader.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3);
/// How long a read hides a missing leader from its caller. An election takes one to two seconds with etcd's default
/// times, and only delays readers.
const ELECTED_WITHIN: Duration = Duration::from_secs(3);
/// The delay before the members are asked again after all of them reported a missing leader.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The timeout of a read that its caller repeats. Longer than any caller waits for a write.
const LISTENED_WITHIN: Duration = Duration::from_secs(40);

/// Whether a call that may have been executed can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Yes,
    No,
    /// No. The caller repeats it at the next member when it is late, if it still needs the answer.
    ByTheCaller,
}

impl Members {
    /// Makes a call, and uses the next member if one is unreachable. Each member is asked at most once, except for a
    /// read during an election.
    pub(crate) async fn call<Q, A>(self: &Arc<Self>, path: &'static str, request: Q, repeat: Repeat) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let members = Arc::clone(self);
        let call = async move { members.call_any(path, request, repeat).await };
        // On the runtime of the connections, independent of the polling runtime.
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
                // Other calls have found that the member does not respond.
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
            // This includes the case that the last member is the failed leader.
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

    /// Makes a call at one member. When it is late, the client switches to the next one.
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

    /// Makes a call at one member. Drops a token that etcd no longer accepts, so that the next call gets another.
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

    /// Returns the user's token, if there is a user.
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

/// Returns a client with this size limit for answers. A page of large objects exceeds the usual limit of four
/// megabytes.
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
