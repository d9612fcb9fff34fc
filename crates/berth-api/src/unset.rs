//! Fields that count as unset. On the wire many fields mean the same absent and as `""`, `0`, `false` or an empty list; other clients leave
//! them out, so a form with them would differ from itself after one round trip.

use std::collections::BTreeMap;

/// A value that some field prints only if it is not its zero.
pub(crate) trait Zero {
    /// Whether this is that zero.
    fn is_zero(&self) -> bool;
}

macro_rules! zero {
    ($($type:ty: $test:expr;)*) => { $(impl Zero for $type { fn is_zero(&self) -> bool { let test: fn(&$type) -> bool = $test; test(self) } })* };
}

zero! {
    String: String::is_empty;
    bool: |value| !value;
    i32: |value| *value == 0;
    i64: |value| *value == 0;
}

impl<T> Zero for Vec<T> {
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Zero for BTreeMap<K, V> {
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
}

/// Makes a zero absent.
pub(crate) fn drop_zero<T: Zero>(field: &mut Option<T>) {
    if field.as_ref().is_some_and(Zero::is_zero) {
        *field = None;
    }
}

/// Sets a field that is absent or zero.
pub(crate) fn default_to<T: Zero>(field: &mut Option<T>, value: impl Into<T>) {
    if field.as_ref().is_none_or(Zero::is_zero) {
        *field = Some(value.into());
    }
}

/// The text of a field, empty if absent.
pub(crate) fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// The elements of a list, none if absent.
pub(crate) fn list<T>(field: &Option<Vec<T>>) -> &[T] {
    field.as_deref().unwrap_or_default()
}

/// The elements of a list, to change.
pub(crate) fn list_mut<T>(field: &mut Option<Vec<T>>) -> &mut [T] {
    field.as_deref_mut().unwrap_or_default()
}

/// The entries of a map, none if absent.
pub(crate) fn entries<K, V>(field: &Option<BTreeMap<K, V>>) -> impl Iterator<Item = (&K, &V)> {
    field.iter().flatten()
}
