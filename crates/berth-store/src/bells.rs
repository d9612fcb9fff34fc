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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Key, Revision};
    use event_listener::Listener;

    fn label(value: &str) -> Mark {
        Mark::Label { key: "app".into(), value: value.into() }
    }

    fn field(value: &str) -> Mark {
        Mark::Field { field: "spec.nodeName".into(), value: value.into() }
    }

    /// Otherwise every mark that anybody ever watched would stay, and each change of the resource look at them.
    #[test]
    fn bells_of_watchers_that_are_gone_are_forgotten() {
        for kept in [Mark::Name("a".into()), label("web"), field("n1")] {
            let mut bells = Bells::default();
            let gone = [Mark::Name("b".into()), label("db"), field("n2")].map(|mark| bells.bell("/pods/", Some(&mark)));
            let bell = bells.bell("/pods/", Some(&kept));
            drop(gone);
            bells.ring_all();
            let marked = &bells.marked["/pods/"];
            let names = [&marked.names].into_iter().chain(marked.labels.values()).chain(marked.fields.values());
            let left: Vec<_> = names.flat_map(BTreeMap::keys).map(|name| &**name).collect();
            assert_eq!(left.len(), 1, "{kept:?}: {left:?}");
            assert_eq!(marked.labels.len() + marked.fields.len() + usize::from(!marked.names.is_empty()), 1, "{kept:?}");

            let listener = bell.listen();
            assert!(Arc::ptr_eq(&bell, &bells.bell("/pods/", Some(&kept))), "{kept:?}: who comes later hears the same one");
            bells.ring_all();
            assert!(listener.wait_timeout(std::time::Duration::ZERO).is_some(), "{kept:?}");
            drop(bell);
            bells.ring_all();
            assert!(bells.marked.is_empty(), "{kept:?}");
        }
    }

    /// So that nobody falls behind what is kept because nothing was for him.
    #[test]
    fn before_half_of_what_is_kept_came_to_pass_all_are_rung() {
        let mut bells = Bells::default();
        let bell = bells.bell("/pods/", Some(&label("web")));
        let other = Entry {
            key: Key::new("/pods/a"),
            value: "1".into(),
            header: Header::default(),
            create_revision: Revision(1),
            mod_revision: Revision(1),
        };
        let mut rung = Vec::new();
        for _ in 0..6 {
            let listener = bell.listen();
            bells.ring_marked("/pods/", [&other].into_iter(), || 6);
            rung.push(listener.wait_timeout(std::time::Duration::ZERO).is_some());
        }
        assert_eq!(rung, [false, false, true, false, false, true]);
    }
}
