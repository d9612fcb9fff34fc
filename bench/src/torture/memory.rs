//! What a client knows of the objects that it alone writes, and what must follow from it. Sends no requests.

use berth_linear::{Object, Value};

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Something acknowledged is not there.
    Lost,
    /// An object differs from what was acknowledged, or no client wrote it.
    Doubled,
    /// What all clients saw of objects and their versions fits no order of what was done.
    Order,
    /// Nor does what watchers saw: an event is missing, comes twice, or at the wrong position.
    Watch,
    /// A resource version went back.
    Version,
    /// An answer that no client should get, or none.
    Answer,
    /// A server did not start, or did not go on.
    Start,
    /// Damage to the folder caused a loss. Or a refused start changed something, or did not report why.
    Damage,
    /// Time went back.
    Time,
}

/// That it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(what: What, text: impl Into<String>) -> Self {
        Self { what, text: text.into() }
    }
}

/// What is known of an object that one client alone writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// As it was acknowledged; `None`: it is not there.
    Settled(Option<Object>),
    /// The outcome of the last write is unknown: the object is as it was before, or as written.
    Unsettled { before: Option<Object>, wanted: Option<Value> },
}

impl Known {
    /// Compares with what is found when nothing is on its way any more, which is what is known from then on. Of a write of unknown outcome: whether it
    /// happened.
    pub(crate) fn settle(&mut self, name: &str, found: Option<&Object>) -> Result<Option<bool>, Fault> {
        let settled = match &*self {
            Self::Settled(known) if known.as_ref() == found => Ok(None),
            Self::Unsettled { before, .. } if before.as_ref() == found => Ok(Some(false)),
            Self::Unsettled { before, wanted } if is_wanted(before.as_ref(), wanted.as_ref(), found) => Ok(Some(true)),
            Self::Settled(before) | Self::Unsettled { before, .. } => {
                let text = format!("{name} was acknowledged as {}, and is {}", shown(before.as_ref()), shown(found));
                Err(Fault::new(if is_later(before.as_ref(), found) { What::Doubled } else { What::Lost }, text))
            }
        };
        *self = Self::Settled(found.cloned());
        settled
    }
}

fn is_wanted(before: Option<&Object>, wanted: Option<&Value>, found: Option<&Object>) -> bool {
    found.map(|found| &found.value) == wanted && (found.is_none() || before.is_none() || is_later(before, found))
}

/// Whether both are there, and the second has a later version.
fn is_later(before: Option<&Object>, found: Option<&Object>) -> bool {
    before.is_some_and(|before| found.is_some_and(|found| before.resource_version < found.resource_version))
}

/// An object for people.
pub(crate) fn shown(object: Option<&Object>) -> String {
    object.map_or_else(|| "absent".to_owned(), |object| format!("{} at version {}", object.value.0, object.resource_version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_linear::ResourceVersion;

    /// `value@version`, or `-`.
    fn object(text: &str) -> Option<Object> {
        let (value, version) = text.split_once('@')?;
        Some(Object { value: Value(value.to_owned()), resource_version: ResourceVersion(version.parse().unwrap()), uid: None })
    }

    fn settled(mut known: Known, found: &str) -> Result<Option<bool>, What> {
        let found = object(found);
        let settled = known.settle("n", found.as_ref()).map_err(|fault| fault.what);
        assert_eq!(known, Known::Settled(found), "what is found counts from then on");
        settled
    }

    #[test]
    fn what_is_acknowledged_is_there_as_it_was_acknowledged() {
        let known = |text| Known::Settled(object(text));
        assert_eq!(settled(known("a@5"), "a@5"), Ok(None));
        assert_eq!(settled(known("-"), "-"), Ok(None));
        assert_eq!(settled(known("a@5"), "-"), Err(What::Lost));
        assert_eq!(settled(known("b@5"), "a@4"), Err(What::Lost));
        assert_eq!(settled(known("-"), "a@4"), Err(What::Lost), "a deletion is lost");
        assert_eq!(settled(known("a@5"), "a@6"), Err(What::Doubled));
        assert_eq!(settled(known("a@5"), "x@5"), Err(What::Lost));
    }

    #[test]
    fn an_unknown_write_happened_completely_or_not_at_all() {
        let unsettled = |before, wanted: &str| {
            let wanted = (wanted != "-").then(|| Value(wanted.to_owned()));
            Known::Unsettled { before: object(before), wanted }
        };
        assert_eq!(settled(unsettled("a@5", "b"), "a@5"), Ok(Some(false)));
        assert_eq!(settled(unsettled("a@5", "b"), "b@7"), Ok(Some(true)));
        assert_eq!(settled(unsettled("-", "b"), "b@7"), Ok(Some(true)));
        assert_eq!(settled(unsettled("a@5", "-"), "-"), Ok(Some(true)));
        assert_eq!(settled(unsettled("a@5", "b"), "-"), Err(What::Lost));
        assert_eq!(settled(unsettled("a@5", "b"), "b@5"), Err(What::Lost), "a version is given out once");
        assert_eq!(settled(unsettled("a@5", "b"), "c@8"), Err(What::Doubled));
    }
}
