//! The fencing token of a write: the holder of a Lease, during which the write must happen.

use k8s_openapi::api::coordination::v1::Lease;
use std::{fmt, str::FromStr};

/// The header of a write that must happen during the term of a [`FencingToken`]:
/// `berth-lease: kube-system/berth-scheduler;rotterdam_07be;3`. It can make a write fail, and has no other effect.
pub const HEADER: &str = "berth-lease";

/// One holder's term of a Lease. A takeover begins another term, even by the same holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencingToken {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// `spec.holderIdentity`.
    pub holder: String,
    /// `spec.leaseTransitions`.
    pub transitions: i32,
}

/// A text that is not a [`FencingToken`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form NAMESPACE/NAME;HOLDER;TRANSITIONS")]
pub struct BadFencingToken(String);

impl FencingToken {
    /// Whether the Lease still has this holder and term.
    #[must_use]
    pub fn lasts(&self, lease: &Lease) -> bool {
        let Some(spec) = &lease.spec else { return false };
        spec.holder_identity.as_ref() == Some(&self.holder) && spec.lease_transitions.unwrap_or(0) == self.transitions
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, holder, transitions } = self;
        write!(f, "{namespace}/{name};{holder};{transitions}")
    }
}

impl FromStr for FencingToken {
    type Err = BadFencingToken;

    fn from_str(text: &str) -> Result<Self, BadFencingToken> {
        let read = || {
            let (lease, rest) = text.split_once(';')?;
            let (namespace, name) = lease.split_once('/')?;
            let (holder, transitions) = rest.rsplit_once(';')?;
            let transitions = transitions.parse().ok()?;
            // An empty holder means that the Lease is free.
            let is_whole = [namespace, name, holder].iter().all(|part| !part.is_empty());
            is_whole.then(|| Self { namespace: namespace.to_owned(), name: name.to_owned(), holder: holder.to_owned(), transitions })
        };
        read().ok_or_else(|| BadFencingToken(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fencing_token_is_read_as_it_is_written() {
        for text in ["kube-system/berth-scheduler;rotterdam_07be;3", "a/b;one; or two;0"] {
            assert_eq!(text.parse::<FencingToken>().map(|fencing_token| fencing_token.to_string()).as_deref(), Ok(text));
        }
        for bad in ["", "a/b;c", "a/b;;1", "/b;c;1", "a/;c;1", "a;c;1", "a/b;c;", "a/b;c;x", "a/b;c;1.5", "a/b;c;3000000000"] {
            assert_eq!(bad.parse::<FencingToken>(), Err(BadFencingToken(bad.to_owned())));
        }
    }

    #[test]
    fn a_fencing_token_is_valid_while_holder_and_transitions_are_the_same() {
        let fencing_token: FencingToken = "a/b;one;3".parse().expect("a fencing token");
        let check = |spec, lasts| {
            let lease: Lease = serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a Lease");
            assert_eq!(fencing_token.lasts(&lease), lasts, "{lease:?}");
        };
        check(json!({"holderIdentity": "one", "leaseTransitions": 3, "renewTime": "2026-01-01T00:00:00.000000Z"}), true);
        check(json!({"holderIdentity": "one", "leaseTransitions": 5}), false);
        check(json!({"holderIdentity": "two", "leaseTransitions": 3}), false);
        check(json!({"holderIdentity": "", "leaseTransitions": 3}), false);
        check(json!({"holderIdentity": "one"}), false);
        check(json!({}), false);
    }
}
