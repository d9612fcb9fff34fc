//! A loop that leaves out what may wait, as controllers do: whatever it leaves out, the same must come of it.

use berth_workloads::Action;

/// How many looks leave out what may wait before one does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    looks: u32,
    left_out: u32,
}

impl Patience {
    /// Of so many looks.
    pub(crate) fn of(looks: u32) -> Self {
        Self { looks, left_out: 0 }
    }

    /// Takes out of a look what may wait still.
    pub(crate) fn leave_out(&mut self, actions: &mut Vec<Action>) {
        if !actions.iter().any(Action::may_wait) {
            return;
        }
        if self.left_out == self.looks {
            self.left_out = 0;
            return;
        }
        self.left_out += 1;
        actions.retain(|action| !action.may_wait());
    }
}
