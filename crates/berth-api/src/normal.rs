//! The normal form of objects: the form in which upstream's types are encoded, at all depths.
//!
//! Upstream's encoder omits an empty value if the field has the tag `omitempty`. It keeps an explicit zero behind a
//! pointer, and always writes a struct that is held by value. Clients therefore see `readOnly: false`, `medium: ""` and
//! `annotations: {}` disappear. An object that kept them would change in a round trip through such a client, and a
//! template would become another template.
//!
//! [`table`] contains the facts, generated from upstream's sources. `testdata/normal-form` contains what a real server
//! stores for each field of a pod template, and a test compares both.

mod table;

use crate::decode::drop_empty;
use k8s_openapi::{
    api::{autoscaling::v1::Scale, core::v1::Binding, policy::v1::Eviction},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::collections::BTreeMap;

/// A type with a normal form.
pub trait Normal {
    /// Drops what upstream's encoder omits, and adds what it always writes. Idempotent. Visits each field that may be
    /// empty.
    fn normalize(&mut self);
}

impl<T: Normal> Normal for Option<T> {
    fn normalize(&mut self) {
        self.iter_mut().for_each(Normal::normalize);
    }
}

impl<T: Normal> Normal for Box<T> {
    fn normalize(&mut self) {
        (**self).normalize();
    }
}

impl<T: Normal> Normal for Vec<T> {
    fn normalize(&mut self) {
        self.iter_mut().for_each(Normal::normalize);
    }
}

impl<K: Ord, T: Normal> Normal for BTreeMap<K, T> {
    fn normalize(&mut self) {
        self.values_mut().for_each(Normal::normalize);
    }
}

impl Normal for ObjectMeta {
    fn normalize(&mut self) {
        drop_empty(self);
    }
}

/// `drop`: an empty field becomes absent. `fill`: an absent field becomes empty. `visit`: the field contains such
/// fields.
macro_rules! normal {
    ($($type:path { $(drop: $($drop:ident)*;)? $(fill: $($fill:ident)*;)? $(visit: $($visit:ident)*;)? })*) => {$(
        impl $crate::normal::Normal for $type {
            fn normalize(&mut self) {
                $($(self.$fill.get_or_insert_default();)*)?
                $($($crate::normal::Normal::normalize(&mut self.$visit);)*)?
                $($($crate::unset::drop_zero(&mut self.$drop);)*)?
            }
        }
    )*};
}
pub(crate) use normal;

normal! {
    Binding { visit: metadata; }
    Eviction { visit: metadata; }
    Scale { visit: metadata; }
}
