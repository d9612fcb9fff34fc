//! Analyses of progressive rollouts: what is asked, what may be answered, and what is kept of it. Who asks is not here: answers are data that plans read.
//!
//! Of what a provider says nothing goes further than a number ([`Answer`]) or one of a few words ([`NoAnswer`]).

use crate::hash::short_hash;
use berth_api::annotations::{BERTH_ANALYSIS, BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY};
use berth_identity::{RolloutRevision, TemplateHash};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

type Annotations = BTreeMap<String, String>;

/// One question. Two that are the same have the same answer, as long as a step waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Who is asked: a name of the administrator's.
    pub provider: String,
    /// What, in the provider's language.
    pub query: String,
    /// The namespace of the Deployment.
    pub namespace: String,
    /// The Deployment.
    pub deployment: String,
    /// The number of the rollout.
    pub revision: RolloutRevision,
    /// The label `pod-template-hash` of the pods that are looked at.
    pub template_hash: TemplateHash,
    /// The step, counted from 1.
    pub step: usize,
}

impl Question {
    /// What the annotations of a Deployment ask, with empty texts where they do not say: who is asked for nobody answers that nobody is known.
    pub(crate) fn texts(deployment: &Annotations) -> (String, String) {
        let text = |key: &str| deployment.get(key).cloned().unwrap_or_default();
        (text(BERTH_ANALYSIS_PROVIDER), text(BERTH_ANALYSIS_QUERY))
    }
}

/// What was answered: a finite number.
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
    /// Whether the rollout may go on.
    #[must_use]
    pub fn passes(self) -> bool {
        self.0 != 0.0
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        // Written out, the largest would have three hundred digits.
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
    /// The administrator's file has none of this name.
    UnknownProvider,
    /// This namespace may not ask it.
    NotAllowed,
    /// It does not take what it is asked with.
    BadCredentials,
    /// Its address is one that it may not have.
    AddressRefused,
    /// It cannot be reached.
    Unreachable,
    /// It does not prove who it is.
    BadCertificate,
    /// It did not answer in time.
    TimedOut,
    /// It names another place, which nobody goes to.
    Redirected,
    /// It answered that it does not.
    ErrorStatus,
    /// Its answer is longer than it may be.
    TooLong,
    /// Its answer is nothing that can be read as a number.
    NotANumber,
    /// Its answer is empty.
    NoSample,
    /// Its answer has several numbers.
    SeveralSamples,
    /// Its answer is infinite, or no number at all.
    NotFinite,
}

impl NoAnswer {
    /// All of them.
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

/// A question that is being asked, for plans to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// What.
    pub question: Question,
    /// Since when, without a pause: nobody who asked before counts.
    pub since: Timestamp,
    /// What came of it last; `None`: nothing yet.
    pub last: Option<Result<Answer, NoAnswer>>,
}

/// What an analysis has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// It is asked again.
    Waits {
        /// Why there was no answer last.
        why: NoAnswer,
    },
    /// The rollout goes on.
    Passed {
        /// By this answer.
        answer: Answer,
    },
    /// The rollout goes back.
    Failed {
        /// By this answer.
        answer: Answer,
    },
    /// Nobody has answered for too long: the rollout goes back.
    Unanswered {
        /// Why there was no answer last.
        why: NoAnswer,
    },
}

impl Outcome {
    /// Whether it has ended as a failure.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Unanswered { .. })
    }

    /// Its word in the record of a rollback; `None` for what none is made for.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Failed { .. } => Some(FAILED),
            Self::Unanswered { .. } => Some(UNANSWERED),
            Self::Waits { .. } | Self::Passed { .. } => None,
        }
    }
}

/// An analysis answered that the template is not to go on.
pub(crate) const FAILED: &str = "analysis_failed";
/// Nobody answered an analysis.
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

/// What is kept of an analysis on the set that it is of, as [`BERTH_ANALYSIS`] has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Of which step of which rollout.
    place: String,
    /// The hash of what was asked of whom: where somebody asks anew, what was answered before is no answer.
    question: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

impl Note {
    pub(crate) fn new(question: &Question, outcome: Outcome) -> Self {
        Self { place: place(question), question: hash(question), outcome }
    }

    /// What is kept of this very question.
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
    // A name has no such character.
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
    fn a_failure_is_an_answer_that_says_so_or_none_for_too_long() {
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
