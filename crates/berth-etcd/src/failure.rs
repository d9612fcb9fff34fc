//! The meaning of a failed call, in terms that a user understands.

use berth_store::etcd::EtcdError;
use std::error::Error;
use tonic::{Code, ConnectError, Status};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: EtcdError,
    /// Another member may succeed.
    pub(crate) is_the_members: bool,
    /// etcd no longer accepts the user's token.
    pub(crate) is_the_tokens: bool,
    /// The member has no leader: an election is in progress, or it is partitioned from the others.
    pub(crate) has_no_leader: bool,
}

impl Failure {
    pub(crate) fn of(status: &Status, endpoint: &str) -> Self {
        let words = format!("etcd at {endpoint}: {}", words(status));
        let text = status.message();
        let is_connecting = causes(status).iter().any(|cause| cause.is::<ConnectError>());
        let error = if contains_any(text, &["required revision has been compacted"]) {
            EtcdError::Compacted
        } else if contains_any(text, &["required revision is a future revision"]) {
            EtcdError::Future
        } else if contains_any(text, &["database space exceeded"]) {
            EtcdError::NoSpace
        } else if contains_any(text, &["request is too large", "received message larger than max"]) {
            EtcdError::TooLarge(words)
        } else if contains_any(text, &["decoded message length too large"]) {
            EtcdError::TooLong
        } else if contains_any(text, &["requested lease not found"]) {
            EtcdError::NoLease
        } else if is_connecting {
            EtcdError::Unreachable(words)
        } else if is_no(status) {
            EtcdError::Refused(words)
        } else {
            EtcdError::Unknown(words)
        };
        let is_the_members = matches!(error, EtcdError::Unreachable(_) | EtcdError::Unknown(_));
        Self { error, is_the_members, is_the_tokens: is_the_tokens(status), has_no_leader: contains_any(text, &["no leader"]) }
    }

    pub(crate) fn late(endpoint: &str, seconds: u64) -> Self {
        let words = format!("etcd at {endpoint} has not answered within {seconds} s");
        Self { error: EtcdError::Unknown(words), is_the_members: true, is_the_tokens: false, has_no_leader: false }
    }
}

/// Whether etcd does not accept the token. A token expires after minutes without use, and some members keep it in
/// memory only.
pub(crate) fn is_the_tokens(status: &Status) -> bool {
    contains_any(status.message(), &["invalid auth token", "revision of auth store is old"])
}

/// Whether etcd itself rejected the request before it executed anything. Errors of proxies, timeouts and elections do
/// not imply that.
fn is_no(status: &Status) -> bool {
    let is_etcds = status.message().starts_with("etcdserver: ") && status.source().is_none();
    let says_no = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unauthenticated
    );
    is_etcds && says_no
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|words| text.contains(words))
}

/// Returns the messages of the status and its causes, each once.
fn words(status: &Status) -> String {
    let own = status.message().strip_prefix("etcdserver: ").unwrap_or(status.message());
    let mut words = if own.is_empty() { status.code().description().to_owned() } else { own.to_owned() };
    for cause in causes(status).into_iter().map(ToString::to_string) {
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// Returns the causes of an error, the nearest first.
pub(crate) fn causes(error: &dyn Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        next = cause.source();
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: &Status) -> String {
        let failure = Failure::of(status, "http://127.0.0.1:1");
        format!("{:?}", failure.error)
    }

    #[test]
    fn only_what_etcd_itself_refuses_is_known_not_to_be_done() {
        let told = [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Internal, "stream closed"),
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision"),
            (Code::NotFound, "etcdserver: requested lease not found"),
            (Code::OutOfRange, "Error, decoded message length too large: found 9 bytes, the limit is: 8 bytes"),
        ];
        let seen = told.map(|(code, text)| shown(&Status::new(code, text)));
        assert_eq!(
            seen,
            [
                "Unknown(\"etcd at http://127.0.0.1:1: request timed out\")",
                "Unknown(\"etcd at http://127.0.0.1:1: leader changed\")",
                "Unknown(\"etcd at http://127.0.0.1:1: stream closed\")",
                "Refused(\"etcd at http://127.0.0.1:1: permission denied\")",
                "Refused(\"etcd at http://127.0.0.1:1: too many requests\")",
                "NoSpace",
                "Compacted",
                "Future",
                "NoLease",
                "TooLong",
            ]
        );
    }

    #[test]
    fn what_was_never_sent_was_never_done() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(refused.into())));
        assert_eq!(shown(&status), "Unreachable(\"etcd at http://127.0.0.1:1: connection refused\")");
    }
}
