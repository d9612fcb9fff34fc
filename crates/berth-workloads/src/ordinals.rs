//! Which pods a StatefulSet wants, by their numbers.

use crate::view::StatefulSetView;
use berth_identity::Ordinal;

/// What a pod's name says: the set it would belong to, and its number there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName<'a> {
    /// What stands before the last dash; empty if the name does not end in a number.
    pub parent: &'a str,
    /// `None` if the name does not end in a number, or in one beyond 32 bits.
    pub ordinal: Option<i32>,
}

impl<'a> PodName<'a> {
    /// Reads a pod's name.
    #[must_use]
    pub fn parse(name: &'a str) -> Self {
        match name.rsplit_once('-') {
            Some((parent, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Self { parent, ordinal: digits.parse().ok() }
            }
            _ => Self { parent: "", ordinal: None },
        }
    }
}

/// The numbers that a set wants: `replicas` of them, beginning with `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinals {
    /// `spec.ordinals.start`; 0 if unset.
    pub start: Ordinal,
    /// `spec.replicas`.
    pub replicas: i64,
}

/// What is to become of the pods there are, and which are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Wanted and there, ascending.
    pub in_range: Vec<Ordinal>,
    /// There but not wanted, in order of removal: highest first.
    pub condemned: Vec<Ordinal>,
    /// Wanted but not there, ascending.
    pub missing: Vec<Ordinal>,
}

impl Ordinals {
    /// One past the last number that is wanted; `start` if none is.
    #[must_use]
    pub fn end(self) -> Ordinal {
        self.start.plus(self.replicas)
    }

    /// Whether a number is wanted.
    #[must_use]
    pub fn contains(self, ordinal: Ordinal) -> bool {
        (self.start..self.end()).contains(&ordinal)
    }

    /// Sorts the numbers of the pods there are.
    #[must_use]
    pub fn split(self, present: &[Ordinal]) -> Split {
        let mut present = present.to_vec();
        present.sort_unstable();
        let missing = self.start.up_to(self.end()).filter(|ordinal| present.binary_search(ordinal).is_err()).collect();
        let (in_range, mut condemned): (Vec<_>, Vec<_>) = present.into_iter().partition(|&ordinal| self.contains(ordinal));
        condemned.reverse();
        Split { in_range, condemned, missing }
    }
}

/// The numbers that a set wants. A negative size is none.
#[must_use]
pub fn ordinals(set: &StatefulSetView) -> Ordinals {
    let start = set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    Ordinals { start: Ordinal(start.into()), replicas: set.spec.replicas.unwrap_or(1).max(0).into() }
}

/// The number of a pod of this name in a set; `None` if the name is not exactly one that the set gives.
#[must_use]
pub fn member_ordinal(set: &str, pod: &str) -> Option<Ordinal> {
    let name = PodName::parse(pod);
    let ordinal = name.ordinal.filter(|_| name.parent == set)?;
    // `web-007` is no name that the set gives.
    let digits = pod.len() - set.len() - 1;
    (ordinal.to_string().len() == digits).then_some(Ordinal(ordinal.into()))
}
