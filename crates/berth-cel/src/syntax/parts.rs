//! The parts of an expression, numbered in the order in which they are parsed.

use super::{Expr, Kind};

/// The byte in the source of each part, by its number.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<usize>);

impl Parts {
    /// A new part of the expression.
    pub(super) fn part(&mut self, at: usize, kind: Kind) -> Expr {
        let id = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(at);
        Expr { id, kind }
    }

    pub(super) fn position(&self, expr: &Expr) -> usize {
        self.0.get(expr.id as usize).copied().unwrap_or_default()
    }

    pub(super) fn into_positions(self) -> Vec<usize> {
        self.0
    }
}
