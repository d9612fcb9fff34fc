//! The pods of a StatefulSet, by their ordinals.

use crate::view::StatefulSetView;
use berth_identity::Ordinal;

/// The parts of a pod's name: its set's name and its ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName<'a> {
    /// The text before the last dash. Empty if the name does not end in a number.
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

/// The ordinals of a set: `replicas` of them, beginning with `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinals {
    /// `spec.ordinals.start`; 0 if unset.
    pub start: Ordinal,
    /// `spec.replicas`.
    pub replicas: i64,
}

/// The ordinals of existing and missing pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Desired and existing, ascending.
    pub in_range: Vec<Ordinal>,
    /// Existing but not desired, in order of removal: highest first.
    pub condemned: Vec<Ordinal>,
    /// Desired but missing, ascending.
    pub missing: Vec<Ordinal>,
}

impl Ordinals {
    /// One more than the last desired ordinal; `start` if there is none.
    #[must_use]
    pub fn end(self) -> Ordinal {
        self.start.plus(self.replicas)
    }

    /// Whether the set has this ordinal.
    #[must_use]
    pub fn contains(self, ordinal: Ordinal) -> bool {
        (self.start..self.end()).contains(&ordinal)
    }

    /// Sorts the ordinals of existing pods.
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

/// The ordinals of a set. A negative number of replicas counts as 0.
#[must_use]
pub fn ordinals(set: &StatefulSetView) -> Ordinals {
    let start = set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    Ordinals { start: Ordinal(start.into()), replicas: set.spec.replicas.unwrap_or(1).max(0).into() }
}

/// The ordinal of a pod of this name in a set. `None` if the set would not create exactly this name.
#[must_use]
pub fn member_ordinal(set: &str, pod: &str) -> Option<Ordinal> {
    let name = PodName::parse(pod);
    let ordinal = name.ordinal.filter(|_| name.parent == set)?;
    // The set never creates a pod named `web-007`.
    let digits = pod.len() - set.len() - 1;
    (ordinal.to_string().len() == digits).then_some(Ordinal(ordinal.into()))
}
