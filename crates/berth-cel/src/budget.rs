//! How much an evaluation can cost.

use crate::EvaluationError;

/// What the evaluation of one expression costs at most: upstream's limit, about 0.1 s.
pub const CALL_COST_MAX: u64 = 1_000_000;

/// What all rules about one object cost at most, and all expressions of one binding of a policy: upstream's limit, about 1 s.
pub const OBJECT_COST_MAX: u64 = 10_000_000;

/// What all match conditions about one object cost at most: upstream's limit.
pub const CONDITIONS_COST_MAX: u64 = 2_500_000;

/// The cost that is left for evaluations. One unit is about 100 ns at upstream's measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    call: u64,
}

impl Budget {
    /// A budget of so many units.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Self { left: units, call: 0 }
    }

    /// How many units are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Spends units of the running evaluation.
    ///
    /// # Errors
    /// The evaluation costs more than one is allowed to.
    pub fn spend(&mut self, units: u64) -> Result<(), EvaluationError> {
        self.call = self.call.saturating_add(units);
        if CALL_COST_MAX < self.call { Err(EvaluationError::CallCost) } else { Ok(()) }
    }

    /// Returns units that [`Self::spend`] took too much.
    pub(crate) fn give_back(&mut self, units: u64) {
        self.call = self.call.saturating_sub(units);
    }

    /// Runs an evaluation inside the budget. What it costs is spent, whatever its result is.
    pub(crate) fn run<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> Result<T, EvaluationError>) -> Result<T, EvaluationError> {
        if self.left == 0 {
            return Err(EvaluationError::OutOfBudget);
        }
        let outer = std::mem::take(&mut self.call);
        let result = evaluate(self);
        let spent = std::mem::replace(&mut self.call, outer);
        let Some(left) = self.left.checked_sub(spent) else {
            self.left = 0;
            return Err(EvaluationError::OutOfBudget);
        };
        self.left = left;
        result
    }
}
