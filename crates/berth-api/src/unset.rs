//! Fields that count as unset. On the wire, many fields mean the same if they are absent, and if they are `""`, `0`,
//! `false` or an empty list. Other clients omit them, so an object that kept them would change in a round trip.

use std::collections::BTreeMap;

/// A value that some fields print only if it is not zero.
pub(crate) trait Zero {
    /// Whether the value is zero.
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

/// Makes a zero value absent.
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

/// Returns the text of a field, empty if it is absent.
pub(crate) fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// Returns the elements of a list, empty if it is absent.
pub(crate) fn list<T>(field: &Option<Vec<T>>) -> &[T] {
    field.as_deref().unwrap_or_default()
}

/// Returns the elements of a list, mutable.
pub(crate) fn list_mut<T>(field: &mut Option<Vec<T>>) -> &mut [T] {
    field.as_deref_mut().unwrap_or_default()
}

/// Returns the entries of a map, empty if it is absent.
pub(crate) fn entries<K, V>(field: &Option<BTreeMap<K, V>>) -> impl Iterator<Item = (&K, &V)> {
    field.iter().flatten()
}
