//! Whose connections are open. Every connection begins as a stranger's, and moves to the places of readers with its first request of a session. A newcomer for
//! whom no place of strangers is left gets that of the oldest: strangers shut no reader out, however many they are.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Connections without a session. A browser opens a few for each page.
const STRANGERS_MAX: usize = 96;
/// Connections of sessions: a stream for each page that is open, and those that a browser keeps.
const READERS_MAX: usize = 256;
/// How many are open at a time, with those that are being closed. What comes beyond waits in the kernel's queue.
pub(crate) const CONNECTIONS_MAX: usize = 2 * STRANGERS_MAX + READERS_MAX;

/// All connections of a dashboard.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By number, the oldest first, each with what closes it.
    strangers: BTreeMap<u64, oneshot::Sender<()>>,
    readers: usize,
}

/// A connection's place. Free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    is_reader: Mutex<bool>,
}

impl Places {
    /// A place for a newcomer. Its connection is to be closed when the receiver resolves to a value.
    pub(crate) fn enter(self: &Arc<Self>) -> (Place, oneshot::Receiver<()>) {
        let (cut, is_cut) = oneshot::channel();
        let mut table = self.table();
        if STRANGERS_MAX <= table.strangers.len()
            && let Some((_, oldest)) = table.strangers.pop_first()
        {
            // One that has ended meanwhile does not hear it.
            let _ = oldest.send(());
        }
        let number = table.next;
        table.next += 1;
        table.strangers.insert(number, cut);
        drop(table);
        (Place { places: Arc::clone(self), number, is_reader: Mutex::new(false) }, is_cut)
    }

    /// Nothing panics while it is locked.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// A request of a session came. Where all places of readers are taken, it stays a stranger's.
    pub(crate) fn is_of_a_reader(&self) {
        let mut is_reader = self.is_reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.places.table();
        if !*is_reader && table.readers < READERS_MAX && table.strangers.remove(&self.number).is_some() {
            table.readers += 1;
            *is_reader = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.table();
        if *self.is_reader.get_mut().unwrap_or_else(PoisonError::into_inner) {
            table.readers -= 1;
        } else {
            table.strangers.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_give_way_the_oldest_first_and_readers_never() {
        let places = Arc::new(Places::default());
        let (reader, mut reader_is_cut) = places.enter();
        reader.is_of_a_reader();
        reader.is_of_a_reader();
        let mut strangers: Vec<_> = (0..STRANGERS_MAX + 2).map(|_| places.enter()).collect();
        let cut: Vec<usize> = (0..strangers.len()).filter(|at| strangers[*at].1.try_recv().is_ok()).collect();
        assert_eq!((cut, reader_is_cut.try_recv().is_ok()), (vec![0, 1], false));
        drop((reader, strangers));
        let table = places.table();
        assert_eq!((table.strangers.len(), table.readers), (0, 0));
    }
}
