//! How analyses of progressive rollouts are supposed to end: nobody is asked in a forecast.

use berth_controllers::analysis::Providers;
use berth_workloads::analysis::{Answer, NoAnswer, Question};
use futures::future::BoxFuture;

/// How every analysis ends, as soon as it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Analyses {
    /// The rollout goes on.
    #[default]
    Pass,
    /// It goes back.
    Fail,
}

impl Analyses {
    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
        }
    }
}

impl Providers for Analyses {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Result<Answer, NoAnswer>> {
        let number = if *self == Self::Pass { 1.0 } else { 0.0 };
        Box::pin(async move { Answer::try_from(number) })
    }
}
