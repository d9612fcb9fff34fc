//! Tracks what is known about a transaction that was sent several times. It can succeed at most once: after that, the keys that it changes or deletes
//! are at another revision.
//!
//! A late attempt can still answer after the next one is sent. So the answer of one attempt can arrive before the answer of another that etcd executed
//! first.

use super::api::{EtcdError, Outcome};
use crate::Revision;

/// All attempts at one transaction. They are alike, so they are counted by what became of them.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// An answer may still come to so many.
    unanswered: usize,
    /// Why no answer can come any more to one that may have been done; the last of them.
    lost: Option<String>,
    /// One was done, as this revision.
    done: Option<Revision>,
    /// One found a key that was not as expected.
    refusal: Option<Refusal>,
    /// Why the latest such attempt was not executed. No other attempt can do better.
    undone: Option<EtcdError>,
    is_given_up: bool,
}

/// A key was not as expected. Then none is done from here on: no key comes back to a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    found: Vec<Revision>,
    at: Revision,
    /// Why the keys' histories do not prove that no other attempt was executed by then. `None`: the histories were not read.
    doubt: Option<String>,
}

/// What follows from what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It may be sent once more.
    Ask,
    /// Read the histories of the keys up to `at`. They show whether the intended change is there: [`Attempts::is_in_doubt`] assumes that it may be. If
    /// it is not, the write is refused because of what was found.
    ReadHistories {
        /// Up to where.
        at: Revision,
        /// The revisions of the keys.
        found: Vec<Revision>,
    },
    /// Only a pending answer can decide.
    Listen,
    /// It is done, as this revision.
    Done(Revision),
    /// It is not done, and will not be: these are the revisions of the keys.
    Refused(Vec<Revision>),
    /// The same, for another reason than a key.
    Undone(EtcdError),
    /// The outcome stays unknown.
    Unknown(String),
}

impl Attempts {
    /// One more is under way.
    pub(super) fn sent(&mut self) {
        self.unanswered += 1;
    }

    /// One of those under way is answered, or cannot be any more.
    pub(super) fn answered(&mut self, answer: Result<Outcome, EtcdError>) {
        self.unanswered -= 1;
        match answer {
            Ok(Outcome::Done(revision)) => self.done = Some(revision),
            // The first is as good as any.
            Ok(Outcome::Refused { found, revision }) => {
                self.refusal.get_or_insert(Refusal { found, at: revision, doubt: None });
            }
            Err(EtcdError::Unknown(cause)) => self.lost = Some(cause),
            Err(error) => self.undone = Some(error),
        }
    }

    /// The histories show what was to be done, or do not show what was done: it may be this transaction's, or another's.
    pub(super) fn is_in_doubt(&mut self, why: String) {
        if let Some(refusal) = &mut self.refusal {
            refusal.doubt = Some(why);
        }
    }

    /// No answer is waited for any more, and it is not sent again.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Why it is not known of one at least whether it was done.
    pub(super) fn open(&self) -> Option<String> {
        let unanswered = (0 < self.unanswered).then(|| "etcd has not answered".to_owned());
        self.lost.clone().or(unanswered)
    }

    pub(super) fn next(&self) -> Next {
        if let Some(revision) = self.done {
            return Next::Done(revision);
        }
        match (&self.refusal, self.open(), &self.undone) {
            (Some(Refusal { found, .. }), None, _) => Next::Refused(found.clone()),
            (Some(Refusal { doubt: Some(_), .. }), Some(_), _) if 0 < self.unanswered && !self.is_given_up => Next::Listen,
            (Some(Refusal { doubt: Some(why), .. }), Some(cause), _) => Next::Unknown(format!("{cause}; {why}")),
            (Some(Refusal { at, found, doubt: None }), Some(_), _) => Next::ReadHistories { at: *at, found: found.clone() },
            (None, Some(cause), _) if self.is_given_up => Next::Unknown(cause),
            // The lease of that attempt went meanwhile: the next has another.
            (None, None, Some(EtcdError::NoLease)) if !self.is_given_up => Next::Ask,
            (None, None, Some(error)) => Next::Undone(error.clone()),
            (None, None, None) if self.is_given_up => Next::Undone(EtcdError::Unreachable("there was no time to ask etcd".into())),
            // An answer of one attempt, that it was not executed, proves nothing about the others.
            (None, _, _) => Next::Ask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "refused";

    /// What follows from answers, in their order, to so many attempts; `may be` is what the histories show.
    fn next(sent: usize, answers: &[&str]) -> String {
        let mut attempts = Attempts::default();
        (0..sent).for_each(|_| attempts.sent());
        for answer in answers {
            match *answer {
                "done" => attempts.answered(Ok(Outcome::Done(Revision(7)))),
                REFUSED => attempts.answered(Ok(Outcome::Refused { found: vec![Revision(5)], revision: Revision(9) })),
                "lost" => attempts.answered(Err(EtcdError::Unknown("lost".into()))),
                "no lease" => attempts.answered(Err(EtcdError::NoLease)),
                "no space" => attempts.answered(Err(EtcdError::NoSpace)),
                "may be" => attempts.is_in_doubt("may be".into()),
                "give up" => attempts.give_up(),
                other => panic!("{other}"),
            }
        }
        format!("{:?}", attempts.next())
    }

    #[test]
    fn an_executed_attempt_counts_whatever_the_others_answer() {
        for others in [&["done"][..], &["lost", "done"], &[REFUSED, "done"], &[REFUSED, "may be", "done"], &["no space", "done", "lost"]] {
            assert_eq!(next(3, others), "Done(Revision(7))", "{others:?}");
        }
    }

    #[test]
    fn a_key_that_is_not_as_expected_refuses_it_only_when_no_other_attempt_may_have_changed_it() {
        assert_eq!(next(1, &[REFUSED]), "Refused([Revision(5)])");
        assert_eq!(next(2, &[REFUSED, REFUSED]), "Refused([Revision(5)])");
        assert_eq!(next(2, &[REFUSED, "no space"]), "Refused([Revision(5)])");
        assert_eq!(next(2, &[REFUSED]), "ReadHistories { at: Revision(9), found: [Revision(5)] }", "the other may have been done before");
        assert_eq!(next(2, &["lost", REFUSED]), "ReadHistories { at: Revision(9), found: [Revision(5)] }");
        assert_eq!(next(2, &[REFUSED, "may be"]), "Listen");
        assert_eq!(next(2, &[REFUSED, "may be", REFUSED]), "Refused([Revision(5)])", "it was another's");
        assert_eq!(next(2, &[REFUSED, "may be", "lost"]), "Unknown(\"lost; may be\")");
        assert_eq!(next(2, &[REFUSED, "may be", "give up"]), "Unknown(\"etcd has not answered; may be\")");
    }

    #[test]
    fn another_failure_is_answered_when_no_attempt_is_open() {
        assert_eq!(next(1, &["no space"]), "Undone(NoSpace)");
        assert_eq!(next(2, &["no space"]), "Ask", "the other may be done");
        assert_eq!(next(2, &["lost", "no space"]), "Ask");
        assert_eq!(next(2, &["lost", "no space", "give up"]), "Unknown(\"lost\")");
        assert_eq!(next(1, &["no lease"]), "Ask");
        assert_eq!(next(1, &["no lease", "give up"]), "Undone(NoLease)");
        assert_eq!(next(2, &["no lease"]), "Ask");
        assert_eq!(next(2, &["no lease", "give up"]), "Unknown(\"etcd has not answered\")");
        assert_eq!((next(0, &[]), next(1, &["lost"])), ("Ask".to_owned(), "Ask".to_owned()));
        assert!(next(0, &["give up"]).starts_with("Undone"));
    }
}
