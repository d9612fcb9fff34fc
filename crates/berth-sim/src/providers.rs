//! Those whom analyses ask, as a seed draws: late, silent, for the rollout or against it.

use crate::rng::SeededRng;
use berth_controllers::analysis::Providers;
use berth_store::env::{Clock, Rng};
use berth_workloads::analysis::{Answer, NoAnswer, Question};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use std::sync::Arc;

/// The longest that one takes, as long as the real part waits.
const ANSWER_WITHIN_MILLISECONDS: u64 = 5000;
/// How many of a thousand attempts are not answered.
const SILENT: u32 = 400;
/// How many of a thousand answers are against the rollout.
const AGAINST: u32 = 300;

/// Answers as drawn.
pub(crate) struct DrawnProviders {
    pub(crate) rng: Arc<SeededRng>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Providers for DrawnProviders {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Result<Answer, NoAnswer>> {
        Box::pin(async {
            let takes = i64::try_from(self.rng.below(ANSWER_WITHIN_MILLISECONDS)).unwrap_or(0);
            let is_silent = self.rng.happens(SILENT);
            let number = if self.rng.happens(AGAINST) { 0.0 } else { 0.97 };
            self.clock.sleep_until(self.clock.now() + SignedDuration::from_millis(takes)).await;
            if is_silent { Err(*self.rng.choose(&NoAnswer::ALL)) } else { Answer::try_from(number) }
        })
    }
}
