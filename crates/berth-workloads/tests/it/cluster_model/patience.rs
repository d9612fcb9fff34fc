//! Leaves out deferred writes, as the controllers' loop does. The result must be the same, whatever it leaves out.

use berth_workloads::Action;

/// How many reconciles leave out deferred writes before one does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    reconciles: u32,
    left_out: u32,
}

impl Patience {
    /// With so many reconciles.
    pub(crate) fn of(reconciles: u32) -> Self {
        Self { reconciles, left_out: 0 }
    }

    /// Removes the writes that can still be deferred from a reconcile's actions.
    pub(crate) fn leave_out(&mut self, actions: &mut Vec<Action>) {
        if !actions.iter().any(Action::may_wait) {
            return;
        }
        if self.left_out == self.reconciles {
            self.left_out = 0;
            return;
        }
        self.left_out += 1;
        actions.retain(|action| !action.may_wait());
    }
}
