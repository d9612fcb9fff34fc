//! Analyses of progressive rollouts: the questions, the answers and the recorded outcomes. This module sends no requests: answers are data
//! that plans read.
//!
//! Of a provider's response, berth keeps only a number ([`Answer`]) or an enum case ([`NoAnswer`]).

use crate::hash::short_hash;
use berth_api::annotations::{BERTH_ANALYSIS, BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY};
use berth_identity::{RolloutRevision, TemplateHash};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

type Annotations = BTreeMap<String, String>;

/// One question. While a step waits, equal questions have the same answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The provider's name in the administrator's file.
    pub provider: String,
    /// The query, in the provider's language.
    pub query: String,
    /// The namespace of the Deployment.
    pub namespace: String,
    /// The Deployment.
    pub deployment: String,
    /// The number of the rollout.
    pub revision: RolloutRevision,
    /// The label `pod-template-hash` of the pods under analysis.
    pub template_hash: TemplateHash,
    /// The step, counted from 1.
    pub step: usize,
}

impl Question {
    /// The provider and the query in a Deployment's annotations. A missing annotation is an empty text, and an empty provider is an unknown
    /// provider.
    pub(crate) fn texts(deployment: &Annotations) -> (String, String) {
        let text = |key: &str| deployment.get(key).cloned().unwrap_or_default();
        (text(BERTH_ANALYSIS_PROVIDER), text(BERTH_ANALYSIS_QUERY))
    }
}

/// An answer: a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Answer(f64);

impl Eq for Answer {}

impl TryFrom<f64> for Answer {
    type Error = NoAnswer;

    fn try_from(number: f64) -> Result<Self, NoAnswer> {
        if number.is_finite() { Ok(Self(number)) } else { Err(NoAnswer::NotFinite) }
    }
}

impl From<Answer> for f64 {
    fn from(answer: Answer) -> Self {
        answer.0
    }
}

impl Answer {
    /// Whether the rollout may continue.
    #[must_use]
    pub fn passes(self) -> bool {
        self.0 != 0.0
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        // In decimal notation, the largest number has three hundred digits.
        if size == 0.0 {
            f.write_str("0")
        } else if (1e-5..1e15).contains(&size) {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NoAnswer {
    /// The administrator's file has no provider of this name.
    UnknownProvider,
    /// The namespace is not allowed to use the provider.
    NotAllowed,
    /// The provider rejects the credentials.
    BadCredentials,
    /// The provider's address is not permitted.
    AddressRefused,
    /// The provider is unreachable.
    Unreachable,
    /// The provider's certificate is not valid.
    BadCertificate,
    /// The provider did not answer in time.
    TimedOut,
    /// The provider redirects to another address. Redirects are not followed.
    Redirected,
    /// The provider answered with an error status.
    ErrorStatus,
    /// The answer is longer than the limit.
    TooLong,
    /// The answer is not a number.
    NotANumber,
    /// The answer is empty.
    NoSample,
    /// The answer contains several numbers.
    SeveralSamples,
    /// The answer is infinite or NaN.
    NotFinite,
}

impl NoAnswer {
    /// All cases.
    pub const ALL: [Self; 14] = [
        Self::UnknownProvider,
        Self::NotAllowed,
        Self::BadCredentials,
        Self::AddressRefused,
        Self::Unreachable,
        Self::BadCertificate,
        Self::TimedOut,
        Self::Redirected,
        Self::ErrorStatus,
        Self::TooLong,
        Self::NotANumber,
        Self::NoSample,
        Self::SeveralSamples,
        Self::NotFinite,
    ];
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownProvider => "unknown provider",
            Self::NotAllowed => "not allowed in this namespace",
            Self::BadCredentials => "bad credentials",
            Self::AddressRefused => "address refused",
            Self::Unreachable => "unreachable",
            Self::BadCertificate => "bad certificate",
            Self::TimedOut => "timed out",
            Self::Redirected => "redirected",
            Self::ErrorStatus => "error status",
            Self::TooLong => "too long",
            Self::NotANumber => "not a number",
            Self::NoSample => "no sample",
            Self::SeveralSamples => "several samples",
            Self::NotFinite => "not finite",
        })
    }
}

/// A question in progress, for plans to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// The question.
    pub question: Question,
    /// When the present asker began. It has asked without a pause since, and earlier askers do not count.
    pub since: Timestamp,
    /// The latest result. `None` before the first one.
    pub last: Option<Result<Answer, NoAnswer>>,
}

/// The outcome of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// The question is asked again.
    Waits {
        /// Why the last attempt got no answer.
        why: NoAnswer,
    },
    /// The rollout continues.
    Passed {
        /// The answer that passed.
        answer: Answer,
    },
    /// The rollout is rolled back.
    Failed {
        /// The answer that failed.
        answer: Answer,
    },
    /// The analysis got no answer for too long. The rollout is rolled back.
    Unanswered {
        /// Why the last attempt got no answer.
        why: NoAnswer,
    },
}

impl Outcome {
    /// Whether the analysis has failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Unanswered { .. })
    }

    /// The reason in the record of a rollback. `None` for an outcome that causes no rollback.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Failed { .. } => Some(FAILED),
            Self::Unanswered { .. } => Some(UNANSWERED),
            Self::Waits { .. } | Self::Passed { .. } => None,
        }
    }
}

/// The analysis answered that the rollout must not continue.
pub(crate) const FAILED: &str = "analysis_failed";
/// The analysis got no answer.
pub(crate) const UNANSWERED: &str = "analysis_unanswered";

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits { why } => write!(f, "no answer ({why})"),
            Self::Passed { answer } => write!(f, "passed: it answered {answer}"),
            Self::Failed { answer } => write!(f, "failed: it answered {answer}"),
            Self::Unanswered { why } => write!(f, "got no answer for too long ({why})"),
        }
    }
}

/// The outcome of an analysis, as stored in [`BERTH_ANALYSIS`] of its ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The step and the rollout.
    place: String,
    /// The hash of the provider and the query. When either changes, an earlier outcome no longer counts.
    question: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

impl Note {
    pub(crate) fn new(question: &Question, outcome: Outcome) -> Self {
        Self { place: place(question), question: hash(question), outcome }
    }

    /// The stored outcome of this question.
    pub(crate) fn of(set: &Annotations, question: &Question) -> Option<Self> {
        let note: Self = serde_json::from_str(set.get(BERTH_ANALYSIS)?).ok()?;
        (note.place == place(question) && note.question == hash(question)).then_some(note)
    }

    pub(crate) fn value(&self) -> String {
        serde_json::to_string(self).expect("it has string keys only")
    }
}

fn place(question: &Question) -> String {
    format!("{}/{}", question.revision, question.step)
}

fn hash(question: &Question) -> String {
    // A provider's name contains no newline.
    short_hash(format!("{}\n{}", question.provider, question.query).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(number: f64) -> Answer {
        Answer::try_from(number).expect("finite")
    }

    fn question(query: &str, step: usize) -> Question {
        Question {
            provider: "prod".to_owned(),
            query: query.to_owned(),
            namespace: "shop".to_owned(),
            deployment: "web".to_owned(),
            revision: RolloutRevision(3),
            template_hash: "abc".into(),
            step,
        }
    }

    #[test]
    fn a_failure_is_a_failing_answer_or_none_for_too_long() {
        let all = [
            Outcome::Waits { why: NoAnswer::UnknownProvider },
            Outcome::Passed { answer: answer(1.0) },
            Outcome::Failed { answer: answer(0.0) },
            Outcome::Unanswered { why: NoAnswer::UnknownProvider },
        ];
        assert_eq!(all.map(|outcome| outcome.is_failure()), [false, false, true, true]);
    }

    #[test]
    fn all_but_nought_passes_and_what_is_no_number_is_no_answer() {
        assert_eq!([1.0, -1.0, 0.97, 1e-300, 0.0, -0.0].map(|number| answer(number).passes()), [true, true, true, true, false, false]);
        assert!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().all(|number| Answer::try_from(number).is_err()));
    }

    #[test]
    fn answers_are_short() {
        let texts = [0.97, 12.0, -0.0, 1e300, f64::MIN_POSITIVE, -1.5].map(|number| answer(number).to_string());
        assert_eq!(texts, ["0.97", "12", "0", "1e300", "2.2250738585072014e-308", "-1.5"]);
    }

    #[test]
    fn a_note_is_of_one_question_at_one_step() {
        for outcome in [
            Outcome::Waits { why: NoAnswer::TimedOut },
            Outcome::Passed { answer: answer(0.97) },
            Outcome::Failed { answer: answer(0.0) },
            Outcome::Unanswered { why: NoAnswer::UnknownProvider },
        ] {
            let note = Note::new(&question("up", 2), outcome);
            let kept = Annotations::from([(BERTH_ANALYSIS.to_owned(), note.value())]);
            assert_eq!(Note::of(&kept, &question("up", 2)).as_ref(), Some(&note), "{}", note.value());
            assert!([question("up", 4), question("down", 2)].iter().all(|other| Note::of(&kept, other).is_none()));
            assert_eq!(Note::of(&kept, &Question { revision: RolloutRevision(4), ..question("up", 2) }), None);
        }
        for text in ["", "{}", "null", r#"{"place":"3/2","question":"x","outcome":"passed","answer":"1"}"#] {
            assert_eq!(Note::of(&Annotations::from([(BERTH_ANALYSIS.to_owned(), text.to_owned())]), &question("up", 2)), None, "{text}");
        }
    }

    #[test]
    fn each_want_of_an_answer_has_words_of_its_own() {
        let words: std::collections::BTreeSet<_> = NoAnswer::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), NoAnswer::ALL.len());
    }
}
