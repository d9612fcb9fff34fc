//! Names of kinds, which are told at run time and compared all the time.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Equal texts are one.
static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The same text, kept for as long as the process lives, once. For what kinds are called, and nothing that objects say: kinds are few, and whoever may
/// add one can fill more than memory.
#[must_use]
pub fn interned(text: &str) -> &'static str {
    // Nothing panics while it is held: what is there is whole.
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = texts.get(text) {
        return kept;
    }
    let kept = Box::leak(Box::from(text));
    texts.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let first = interned(&["wid", "gets"].concat());
        assert!(first == "widgets" && std::ptr::eq(first, interned("widgets")));
        assert_ne!(interned("gadgets"), first);
    }
}
