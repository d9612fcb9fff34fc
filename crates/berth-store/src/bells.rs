//! The bells that wake watchers: one for all watchers of a resource, and one for each mark that some of them are after.

use crate::{Entry, Mark};
use event_listener::Event as Bell;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// The name of the bell of watchers whose prefix spans resources, whatever mark they are after.
pub(crate) const WIDE: &str = "";

type Names = BTreeMap<Box<str>, Weak<Bell>>;

/// A bell without watchers is dropped when it would be rung.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// By resource.
    all: Names,
    /// By resource too.
    marked: BTreeMap<Box<str>, Marked>,
}

/// The bells of watchers that are after a mark.
#[derive(Debug, Default)]
struct Marked {
    names: Names,
    labels: BTreeMap<Box<str>, Names>,
    fields: BTreeMap<Box<str>, Names>,
    /// How many changes there were since all of them were rung.
    unrung: usize,
}

impl Bells {
    /// The bell for watchers of `resource`, of all its changes or of those with a mark.
    pub(crate) fn bell(&mut self, resource: &str, mark: Option<&Mark>) -> Arc<Bell> {
        let (bells, name) = match mark {
            None => (&mut self.all, resource),
            Some(mark) => self.marked.entry(resource.into()).or_default().named(mark),
        };
        if let Some(bell) = bells.get(name).and_then(Weak::upgrade) {
            return bell;
        }
        let bell = Arc::new(Bell::new());
        bells.insert(name.into(), Arc::downgrade(&bell));
        bell
    }

    /// Rings for a change of `resource` for all its watchers.
    pub(crate) fn ring(&mut self, resource: &str) {
        ring(&mut self.all, resource);
    }

    /// Rings for a change, from one version to the other, for watchers that are after a mark of either. `kept` is how many changes of the resource
    /// are kept: before half of them came to pass without a ring, all are rung, so that none falls behind because nothing was for it.
    pub(crate) fn ring_marked<'e>(&mut self, resource: &str, versions: impl Iterator<Item = &'e Entry>, kept: impl FnOnce() -> usize) {
        let Some(marked) = self.marked.get_mut(resource) else { return };
        versions.for_each(|entry| marked.ring_for(entry));
        marked.unrung += 1;
        if marked.unrung * 2 >= kept() && !marked.ring_all() {
            self.marked.remove(resource);
        }
    }

    /// Rings every bell.
    pub(crate) fn ring_all(&mut self) {
        ring_each(&mut self.all);
        self.marked.retain(|_, marked| marked.ring_all());
    }
}

impl Marked {
    fn named<'m>(&'m mut self, mark: &'m Mark) -> (&'m mut Names, &'m str) {
        match mark {
            Mark::Name(name) => (&mut self.names, name),
            Mark::Label { key, value } => (self.labels.entry(key.clone()).or_default(), value),
            Mark::Field { field, value } => (self.fields.entry(field.clone()).or_default(), value),
        }
    }

    fn ring_for(&mut self, entry: &Entry) {
        ring(&mut self.names, entry.name());
        for (key, value) in entry.header.labels.iter() {
            self.labels.get_mut(key).into_iter().for_each(|bells| ring(bells, value));
        }
        for (field, bells) in &mut self.fields {
            match entry.header.field(field) {
                Some(value) => ring(bells, value),
                None => ring_each(bells),
            }
        }
    }

    /// Rings every bell; gives whether there is any.
    fn ring_all(&mut self) -> bool {
        self.unrung = 0;
        ring_each(&mut self.names);
        for by_value in [&mut self.labels, &mut self.fields] {
            by_value.retain(|_, bells| {
                ring_each(bells);
                !bells.is_empty()
            });
        }
        !self.names.is_empty() || !self.labels.is_empty() || !self.fields.is_empty()
    }
}

fn ring(bells: &mut Names, name: &str) {
    let Some(bell) = bells.get(name) else { return };
    match bell.upgrade() {
        Some(bell) => _ = bell.notify(usize::MAX),
        None => _ = bells.remove(name),
    }
}

fn ring_each(bells: &mut Names) {
    bells.retain(|_, bell| match bell.upgrade() {
        Some(bell) => {
            bell.notify(usize::MAX);
            true
        }
        None => false,
    });
}
