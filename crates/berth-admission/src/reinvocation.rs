//! Which hooks of a reviewer are called twice.

use std::collections::BTreeSet;

/// What one reviewer keeps of a write between its first and its second round.
///
/// A hook with `reinvocationPolicy: IfNeeded` is called once more if the object changed after its call. A hook that the
/// first round did not call is not called by the second one.
///
/// Source: kubernetes `apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reinvocation {
    is_second: bool,
    called: BTreeSet<String>,
    due: BTreeSet<String>,
}

impl Reinvocation {
    /// Begins the second round. `changed`: whether the object differs from what this reviewer returned.
    pub fn begin_second(&mut self, changed: bool) {
        self.is_second = true;
        if changed {
            self.changed();
        }
    }

    /// Whether this is the second round.
    #[must_use]
    pub fn is_second(&self) -> bool {
        self.is_second
    }

    /// Whether the hook of this name is called in this round.
    #[must_use]
    pub fn is_due(&self, hook: &str) -> bool {
        !self.is_second || self.due.contains(hook)
    }

    /// Whether no hook can be called any more in this round.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_second && self.due.is_empty()
    }

    /// Whether the second round calls a hook if the object changes.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.called.is_empty()
    }

    /// Records a call of a hook with `IfNeeded`.
    pub fn called(&mut self, hook: &str) {
        self.called.insert(hook.to_owned());
    }

    /// Records that a hook changed the object: those that were called before it are due.
    pub fn changed(&mut self) {
        self.due.append(&mut self.called);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_due_again_if_the_object_changed_after_its_call() {
        let mut reviewer = Reinvocation::default();
        assert!(reviewer.is_due("a") && !reviewer.is_done());
        reviewer.called("a");
        reviewer.changed();
        reviewer.called("b");
        reviewer.begin_second(false);
        assert_eq!([reviewer.is_due("a"), reviewer.is_due("b"), reviewer.is_due("c")], [true, false, false]);
    }

    #[test]
    fn a_change_by_the_server_makes_every_hook_due_that_was_called() {
        let mut reviewer = Reinvocation::default();
        reviewer.called("a");
        reviewer.begin_second(true);
        assert_eq!([reviewer.is_due("a"), reviewer.is_due("c")], [true, false]);
        let mut uncalled = Reinvocation::default();
        uncalled.begin_second(true);
        assert!(uncalled.is_done());
    }
}
