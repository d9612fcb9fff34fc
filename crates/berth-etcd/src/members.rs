//! The members of an etcd, and the current one.

use crate::{
    failure::causes,
    options::{Fault, Options, User},
    version::Version,
    wire::KeyPrefix,
};
use http::Uri;
use std::{
    error::Error,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{runtime::Handle, sync::watch};
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// The silence after which a busy connection is pinged. etcd permits at most one ping per five seconds, and none on an
/// idle connection.
const PING_AFTER: Duration = Duration::from_secs(15);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// The flow control window, because watches carry all stored objects.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// The type of etcd's tokens.
pub(crate) type Token = MetadataValue<Ascii>;

/// The key of a running kube-apiserver, for each etcd of one store.
pub(crate) struct Rivals(Mutex<Vec<Option<String>>>);

impl Rivals {
    /// Creates the record for this many etcds, without rivals.
    pub(crate) fn new(etcds: usize) -> Self {
        Self(Mutex::new(vec![None; etcds]))
    }

    /// Returns why none of them may be written.
    pub(crate) fn cause(&self) -> Option<String> {
        let lease = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().next().cloned()?;
        Some(format!("a kube-apiserver uses the same keys (see {lease}); both at once would overwrite each other's work"))
    }

    pub(crate) fn set(&self, index: usize, lease: Option<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[index] = lease;
    }
}

pub(crate) struct Members {
    pub(crate) runtime: Handle,
    pub(crate) user: Option<User>,
    pub(crate) key_prefix: KeyPrefix,
    /// The user's token, from any member.
    pub(crate) token: tokio::sync::Mutex<Option<Token>>,
    /// The other programs that write there, once their detection has started.
    pub(crate) rivals: OnceLock<Arc<Rivals>>,
    members: Vec<Member>,
    /// The index of the current member.
    current: watch::Sender<usize>,
    /// The release that each member has reported.
    versions: Mutex<Vec<Option<Version>>>,
}

struct Member {
    endpoint: String,
    calls: Channel,
    watches: Channel,
}

impl Members {
    pub(crate) fn new(options: &Options, runtime: Handle) -> Result<Arc<Self>, Fault> {
        let entered = runtime.enter();
        let members: Result<Vec<_>, Fault> =
            options.checked()?.into_iter().map(|(uri, is_tls)| Member::new(uri, is_tls, options)).collect();
        drop(entered);
        let members = members?;
        Ok(Arc::new(Self {
            runtime,
            user: options.user.clone(),
            key_prefix: KeyPrefix::new(&options.prefix),
            token: tokio::sync::Mutex::default(),
            rivals: OnceLock::new(),
            current: watch::Sender::new(0),
            versions: Mutex::new(vec![None; members.len()]),
            members,
        }))
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the index of the current member.
    pub(crate) fn current(&self) -> usize {
        *self.current.borrow()
    }

    /// Switches to the next member, unless another caller has done so.
    pub(crate) fn leave(&self, index: usize) {
        let next = (index + 1) % self.len();
        self.current.send_if_modified(|current| {
            let is_left = *current == index && next != index;
            if is_left {
                *current = next;
            }
            is_left
        });
    }

    /// Resolves when the current member is no longer the one at `index`.
    pub(crate) async fn left(&self, index: usize) {
        // The sender lives as long as `self`.
        _ = self.current.subscribe().wait_for(|current| *current != index).await;
    }

    pub(crate) fn endpoint(&self, index: usize) -> &str {
        &self.members[index].endpoint
    }

    pub(crate) fn channel(&self, index: usize) -> Channel {
        self.members[index].calls.clone()
    }

    pub(crate) fn watch_channel(&self, index: usize) -> Channel {
        self.members[index].watches.clone()
    }

    /// Drops the token, unless another caller has replaced it. A new one costs etcd a deliberately slow hash.
    pub(crate) async fn forget_token(&self, unknown: Option<&Token>) {
        let mut token = self.token.lock().await;
        if token.as_ref() == unknown {
            *token = None;
        }
    }

    /// Whether all members are known to report progress correctly.
    pub(crate) fn reports_progress(&self) -> bool {
        self.versions().iter().all(|version| version.is_some_and(Version::reports_progress))
    }

    /// Records the release that the member at `index` has reported.
    pub(crate) fn is_known(&self, index: usize, version: Version) {
        self.versions()[index] = Some(version);
    }

    fn versions(&self) -> MutexGuard<'_, Vec<Option<Version>>> {
        self.versions.lock().expect("nothing panics under this lock")
    }
}

impl Member {
    fn new(uri: Uri, is_tls: bool, options: &Options) -> Result<Self, Fault> {
        let text = uri.to_string().trim_end_matches('/').to_owned();
        let endpoint = Endpoint::from(uri)
            .connect_timeout(CONNECTED_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PONG_WITHIN)
            .keep_alive_while_idle(false)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let endpoint = match &options.tls {
            Some(tls) if is_tls => {
                let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authorities));
                let config = match &tls.identity {
                    Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
                    None => config,
                };
                endpoint.tls_config(config).map_err(|error| Fault::Tls(chain(&error)))?
            }
            _ => endpoint,
        };
        Ok(Self { endpoint: text, calls: endpoint.connect_lazy(), watches: endpoint.connect_lazy() })
    }
}

fn chain(error: &dyn Error) -> String {
    causes(error).into_iter().fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_that_is_not_known_any_more_is_forgotten() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let options = Options { endpoints: vec!["http://127.0.0.1:1".to_owned()], ..Options::default() };
        let members = Members::new(&options, runtime.handle().clone()).expect("an address");
        let [old, new] = ["old", "new"].map(Token::from_static);
        let left_of = |unknown: Option<&Token>| {
            runtime.block_on(async {
                *members.token.lock().await = Some(new.clone());
                members.forget_token(unknown).await;
                members.token.lock().await.clone()
            })
        };
        assert_eq!(left_of(Some(&old)), Some(new.clone()), "it was replaced since");
        assert_eq!(left_of(None), Some(new.clone()));
        assert_eq!(left_of(Some(&new)), None);
    }

    /// A caller that finds out late that a member does not answer must not leave the next one too.
    #[test]
    fn a_member_is_left_once_although_several_callers_detect_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoints = (1..=3).map(|port| format!("http://127.0.0.1:{port}")).collect();
        let members = Members::new(&Options { endpoints, ..Options::default() }, runtime.handle().clone()).expect("addresses");
        let at = [0, 0, 1, 0, 2, 2].map(|index| {
            members.leave(index);
            members.current()
        });
        assert_eq!(at, [1, 1, 2, 2, 0, 0]);
    }
}
