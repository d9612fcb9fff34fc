//! How plans are shown to people.

use super::{Action, Plan, Urgency};
use crate::resources::kind_of;
use berth_identity::{ObjectKey, ObjectRef, ResourceName};
use std::fmt::{Display, Formatter, Result};

/// How many actions one line tells of.
const ACTIONS_MAX: usize = 10;
/// How many names one action tells of.
const NAMES_MAX: usize = 3;

/// A plan's actions in one line, of a length that does not grow with the number of objects: see [`Plan::brief`].
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a>(&'a Plan);

impl Plan {
    /// The actions in one line: the first of them, each with the number of its stage, and how many more there are.
    #[must_use]
    pub fn brief(&self) -> Brief<'_> {
        Brief(self)
    }

    /// Actions with the numbers of their stages, from 1.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Action)> {
        self.stages.iter().zip(1..).flat_map(|(stage, number)| stage.actions.iter().map(move |action| (number, action)))
    }
}

impl Display for Brief<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut separator = "";
        for (number, action) in self.0.numbered().take(ACTIONS_MAX) {
            write!(f, "{separator}{number}. {action}")?;
            separator = "; ";
        }
        more(f, self.0.numbered().count(), ACTIONS_MAX)
    }
}

/// Each action on a line of its own, with the number of its stage; then what is waited for.
impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.numbered().try_for_each(|(number, action)| writeln!(f, "{number}. {action}"))?;
        self.waits.iter().try_for_each(|wait| writeln!(f, "{wait}"))
    }
}

/// What, on which object, why.
impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::ConfirmAlive { target } => write!(f, "confirm that {} is there", Shown::from(target)),
            Self::ConfirmGone { target } => write!(f, "confirm that {} is gone", Shown::from(target)),
            Self::Create { object, reason, .. } => write!(f, "create {}: {reason}", Shown(object.resource(), &object.key())),
            Self::Patch { target, subresource, urgency, reason, .. } => {
                let when = if *urgency == Urgency::Soon { " soon" } else { "" };
                f.write_str("patch ")?;
                subresource.iter().try_for_each(|part| write!(f, "{} of ", part.as_str()))?;
                write!(f, "{}{when}: {reason}", Shown::from(target))
            }
            Self::Delete { target, propagation, grace_period_seconds, reason, .. } => {
                write!(f, "delete {}", Shown::from(target))?;
                propagation.iter().try_for_each(|propagation| write!(f, ", dependents {propagation:?}"))?;
                grace_period_seconds.iter().try_for_each(|seconds| write!(f, ", grace period {seconds}s"))?;
                write!(f, ": {reason}")
            }
            Self::CreatePods { count, owner, .. } => write!(f, "create {} for {}", Pods(*count), Shown::from(owner)),
            Self::DeletePods { pods, owner } => write!(f, "delete {} of {}: {}", Pods(pods.len()), Shown::from(owner), Names(pods)),
        }
    }
}

/// An object by kind, namespace and name.
struct Shown<'a>(ResourceName, &'a ObjectKey);

impl<'a> From<&'a ObjectRef> for Shown<'a> {
    fn from(object: &'a ObjectRef) -> Self {
        Self(object.resource, &object.key)
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", kind_of(self.0), self.1)
    }
}

struct Pods(usize);

impl Display for Pods {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} pod{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// The first names.
struct Names<'a>(&'a [ObjectRef]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (index, object) in self.0.iter().take(NAMES_MAX).enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, object.key.name)?;
        }
        more(f, self.0.len(), NAMES_MAX)
    }
}

/// How many were left out.
fn more(f: &mut Formatter<'_>, count: usize, shown: usize) -> Result {
    if count > shown { write!(f, " and {} more", count - shown) } else { Ok(()) }
}
