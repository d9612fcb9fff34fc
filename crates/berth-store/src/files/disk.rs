//! A folder in memory on a disk that fails: it can lose power, and then what was not synced; it can tear, refuse and fill up, each at the
//! n-th operation. Every run with the same operations and seeds is the same.

use super::{File, Files};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a disk writes as a whole or not at all. [`Files`] may rely on it for what lies within one.
const SECTOR_BYTES: usize = 512;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing works any more. What stays is what [`Disk::after_power_loss`] gives.
    PowerLoss,
    /// The operation fails, once. A write may have begun. After a failed sync it is unknown what is durable.
    Failure,
}

/// What cannot be counted on to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Syncs of files whose names begin with this are not executed.
    File(&'static str),
    /// Syncs of the folder are not executed.
    Folder,
}

/// The disk. Clones are the same one.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<DiskState>>);

#[derive(Default)]
struct DiskState {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Behind `durable_names`, in their order.
    moves: Vec<Move>,
    operations: u64,
    /// By operation.
    troubles: BTreeMap<u64, Trouble>,
    lie: Option<Lie>,
    is_off: bool,
    free_bytes: Option<u64>,
}

#[derive(Default)]
struct Inode {
    /// As it was created.
    name: String,
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Behind `durable`, in their order.
    changes: Vec<Change>,
}

impl Inode {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.content);
        self.changes.push(change);
    }
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Lengthen(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        let (Self::Lengthen(end) | Self::Write { offset: end, .. }) = *self;
        content.resize(content.len().max(end), 0);
        if let Self::Write { offset, bytes } = self {
            content.resize(content.len().max(offset + bytes.len()), 0);
            content[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// The parts of it that a disk writes each as a whole.
    fn sectors(&self) -> Vec<Self> {
        let Self::Write { offset, bytes } = self else { return vec![self.clone()] };
        let mut sectors = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let length = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(bytes.len() - at);
            sectors.push(Self::Write { offset: offset + at, bytes: bytes[at..at + length].to_vec() });
            at += length;
        }
        sectors
    }
}

#[derive(Clone)]
struct Move {
    from: Option<String>,
    to: Option<(String, usize)>,
}

impl Move {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((name, inode)) = &self.to {
            names.insert(name.clone(), *inode);
        }
    }
}

/// Empties what no name leads to any more: a disk that is used for long would keep every file that it ever had.
fn forget_nameless<'i>(inodes: &mut [Inode], named: impl Iterator<Item = &'i usize>) {
    let named: BTreeSet<usize> = named.copied().collect();
    inodes.iter_mut().enumerate().filter(|(number, _)| !named.contains(number)).for_each(|(_, inode)| *inode = Inode::default());
}

/// Random draws from a seed: 0 is always false, 1 always true.
struct Coin(u64);

impl Coin {
    fn toss(&mut self) -> bool {
        match self.0 {
            0 => return false,
            1 => return true,
            _ => (),
        }
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed >> 63 == 1
    }
}

impl Disk {
    /// The number of executed operations that change something or make it durable.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Lets something go wrong at operation `at`, counted as [`Disk::operations`] counts them, from 0.
    pub fn fail_at(&self, at: u64, trouble: Trouble) {
        self.state().troubles.insert(at, trouble);
    }

    /// Cuts the power now, for every user of the disk: the operation in progress fails, and so does every later one.
    pub fn switch_off(&self) {
        self.state().is_off = true;
    }

    /// Makes some syncs succeed without any effect.
    pub fn lie(&self, lie: Lie) {
        self.state().lie = Some(lie);
    }

    /// Bounds by how many bytes files may grow; `None`: no bound.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.state().free_bytes = bytes;
    }

    /// What is there when the power is back: all that was synced; of the rest, of each 512 bytes and each change of a name, what the seed
    /// draws (0: nothing, 1: all).
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let mut coin = Coin(seed);
        let state = self.state();
        let survive = |inode: &Inode, coin: &mut Coin| {
            let mut content = inode.durable.clone();
            for part in inode.changes.iter().flat_map(Change::sectors).filter(|_| coin.toss()) {
                part.apply(&mut content);
            }
            Inode { name: inode.name.clone(), durable: content.clone(), content, changes: Vec::new() }
        };
        let mut inodes: Vec<Inode> = state.inodes.iter().map(|inode| survive(inode, &mut coin)).collect();
        let mut names = state.durable_names.clone();
        state.moves.iter().filter(|_| coin.toss()).for_each(|moved| moved.apply(&mut names));
        forget_nameless(&mut inodes, names.values());
        let after = DiskState { inodes, durable_names: names.clone(), names, free_bytes: state.free_bytes, ..DiskState::default() };
        Self(Arc::new(Mutex::new(after)))
    }

    /// What is there for a process that follows one that was killed: all that was written.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let state = self.state();
        let copy = |inode: &Inode| Inode {
            name: inode.name.clone(),
            content: inode.content.clone(),
            durable: inode.durable.clone(),
            changes: inode.changes.clone(),
        };
        let mut inodes: Vec<Inode> = state.inodes.iter().map(copy).collect();
        let moved = state.moves.iter().filter_map(|moved| moved.to.as_ref()).map(|(_, inode)| inode);
        forget_nameless(&mut inodes, state.names.values().chain(state.durable_names.values()).chain(moved));
        let after = DiskState {
            inodes,
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            moves: state.moves.clone(),
            free_bytes: state.free_bytes,
            ..DiskState::default()
        };
        Self(Arc::new(Mutex::new(after)))
    }

    /// What a file holds; `None` if it is not there.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|inode| state.inodes[*inode].content.clone())
    }

    /// Puts content into a file, durable at once; `None` takes the file away. No operation of the store's: for damage.
    pub fn damage(&self, name: &str, content: Option<Vec<u8>>) {
        let mut state = self.state();
        state.names.remove(name);
        if let Some(content) = content {
            let inode = Inode { name: name.into(), durable: content.clone(), content, changes: Vec::new() };
            state.inodes.push(inode);
            let inode = state.inodes.len() - 1;
            state.names.insert(name.into(), inode);
        }
        state.durable_names = state.names.clone();
        state.moves.clear();
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        // A test that fails while it holds the lock must report why, not that the lock is poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and lets `act` do it, as well as it goes.
    fn operate<T>(&self, act: impl FnOnce(&mut DiskState, How) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let off = || io::Error::other("the power is off");
        if state.is_off {
            return Err(off());
        }
        let number = state.operations;
        state.operations += 1;
        match state.troubles.get(&number) {
            None => act(&mut state, How::Well),
            Some(Trouble::Failure) => act(&mut state, How::Failing).and(Err(io::Error::other("the disk said no"))),
            Some(Trouble::PowerLoss) => {
                state.is_off = true;
                act(&mut state, How::Dying).and(Err(off()))
            }
        }
    }
}

/// How an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Well,
    Failing,
    /// Begun when the power went.
    Dying,
}

impl DiskState {
    fn change(&mut self, how: How, moved: Move) {
        if how != How::Failing {
            moved.apply(&mut self.names);
            self.moves.push(moved);
        }
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Takes the space for a file of that length.
    fn take_space(&mut self, inode: usize, length: usize) -> io::Result<()> {
        let more = length.saturating_sub(self.inodes[inode].content.len()) as u64;
        if let Some(free) = &mut self.free_bytes {
            *free = free.checked_sub(more).ok_or(ErrorKind::StorageFull)?;
        }
        Ok(())
    }
}

impl Files for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let inode = self.state().inode(name)?;
        Ok(Box::new(Handle { disk: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let inode = self.operate(|state, how| {
            state.inodes.push(Inode { name: name.into(), ..Inode::default() });
            let inode = state.inodes.len() - 1;
            state.change(how, Move { from: None, to: Some((name.into(), inode)) });
            Ok(inode)
        })?;
        Ok(Box::new(Handle { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.operate(|state, how| {
            let inode = state.inode(from)?;
            state.change(how, Move { from: Some(from.into()), to: Some((to.into(), inode)) });
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.operate(|state, how| {
            let inode = state.inode(name)?;
            let freed = state.inodes[inode].content.len() as u64;
            state.free_bytes = state.free_bytes.map(|free| free + freed);
            state.change(how, Move { from: Some(name.into()), to: None });
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.operate(|state, how| {
            if how == How::Well && state.lie != Some(Lie::Folder) {
                state.durable_names = state.names.clone();
                state.moves.clear();
            }
            Ok(())
        })
    }

    fn free_bytes(&self) -> Option<u64> {
        self.state().free_bytes
    }
}

struct Handle {
    disk: Disk,
    inode: usize,
}

impl File for Handle {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let content = &state.inodes[self.inode].content;
        let from = content.len().min(offset as usize);
        let length = bytes.len().min(content.len() - from);
        bytes[..length].copy_from_slice(&content[from..from + length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.operate(|state, how| {
            // What lies within one sector happens or does not, also where the answer is no.
            let begun = if state.operations.is_multiple_of(2) { bytes.len() } else { bytes.len() / 2 / SECTOR_BYTES * SECTOR_BYTES };
            let bytes = if how == How::Failing { &bytes[..begun] } else { bytes };
            state.take_space(self.inode, offset as usize + bytes.len())?;
            state.inodes[self.inode].change(Change::Write { offset: offset as usize, bytes: bytes.to_vec() });
            Ok(())
        })
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.disk.operate(|state, how| {
            if how != How::Failing {
                state.take_space(self.inode, length as usize)?;
                state.inodes[self.inode].change(Change::Lengthen(length as usize));
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.operate(|state, how| {
            let (lie, mut coin) = (state.lie, Coin(state.operations + 1));
            let inode = &mut state.inodes[self.inode];
            match how {
                How::Well if matches!(lie, Some(Lie::File(begin)) if inode.name.starts_with(begin)) => (),
                How::Well => std::mem::take(&mut inode.changes).iter().for_each(|change| change.apply(&mut inode.durable)),
                // What it was about counts as written from now on, and is on the disk or not.
                How::Failing => {
                    for part in std::mem::take(&mut inode.changes).iter().flat_map(Change::sectors).filter(|_| coin.toss()) {
                        part.apply(&mut inode.durable);
                    }
                }
                How::Dying => (),
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(disk: &Disk) -> Box<dyn File> {
        let file = disk.create("a").expect("no trouble");
        file.write_at(&[1; 2000], 0).expect("no trouble");
        file
    }

    #[test]
    fn what_was_synced_outlives_the_power_and_what_was_not_may_be_lost() {
        let disk = Disk::default();
        let file = written(&disk);
        assert_eq!(disk.after_power_loss(0).read("a"), None, "neither is its name durable");
        assert_eq!(disk.after_power_loss(1).read("a"), Some(vec![1; 2000]));
        disk.sync().expect("no trouble");
        assert_eq!(disk.after_power_loss(0).read("a"), Some(Vec::new()));
        file.sync().expect("no trouble");
        assert_eq!(disk.after_power_loss(0).read("a"), Some(vec![1; 2000]));
    }

    #[test]
    fn a_disk_that_is_switched_off_takes_nothing_more() {
        let disk = Disk::default();
        let file = written(&disk);
        file.sync().and_then(|()| disk.sync()).expect("no trouble");
        disk.switch_off();
        assert!(file.write_at(&[2; 10], 0).is_err() && file.sync().is_err());
        assert_eq!(disk.after_kill().read("a"), Some(vec![1; 2000]));
    }

    #[test]
    fn an_unlinked_file_is_forgotten_when_its_last_handle_closes() {
        let disk = Disk::default();
        written(&disk);
        disk.remove("a").expect("no trouble");
        let kept = |disk: &Disk| disk.state().inodes.iter().map(|inode| inode.content.len() + inode.changes.len()).sum::<usize>();
        assert_ne!(kept(&disk.after_kill()), 0, "its removal is not durable");
        disk.sync().expect("no trouble");
        assert_eq!([disk.after_kill(), disk.after_power_loss(1)].map(|after| kept(&after)), [0, 0]);
    }

    #[test]
    fn a_write_is_torn_between_sectors_only() {
        let disk = Disk::default();
        let _file = written(&disk);
        disk.sync().expect("no trouble");
        let torn: Vec<_> = (2..40).filter_map(|seed| disk.after_power_loss(seed).read("a")).collect();
        assert!(torn.iter().any(|content| content.contains(&0) && content.contains(&1)), "no seed tears");
        for content in torn {
            assert!(content.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        }
    }

    #[test]
    fn the_chosen_operation_fails_and_a_failed_sync_is_not_made_good() {
        let disk = Disk::default();
        let file = written(&disk);
        disk.sync().expect("no trouble");
        disk.fail_at(disk.operations(), Trouble::Failure);
        assert!(file.sync().is_err());
        assert_eq!(disk.read("a"), Some(vec![1; 2000]), "as each reader sees it");
        assert_ne!(disk.after_power_loss(1).read("a"), Some(vec![1; 2000]), "it counts as written");
    }

    #[test]
    fn without_power_nothing_works() {
        let disk = Disk::default();
        disk.fail_at(1, Trouble::PowerLoss);
        let file = disk.create("a").expect("no trouble yet");
        assert!(file.write_at(&[1; 10], 0).is_err() && file.sync().is_err() && disk.create("b").is_err());
    }

    #[test]
    fn a_full_disk_takes_nothing_more() {
        let disk = Disk::default();
        disk.set_free_bytes(Some(100));
        let file = disk.create("a").expect("names cost nothing");
        file.allocate(80).expect("there is space");
        file.write_at(&[1; 80], 0).expect("allocated before");
        assert_eq!(file.write_at(&[1; 30], 80).expect_err("30 bytes do not fit in 20").kind(), ErrorKind::StorageFull);
        disk.remove("a").expect("there");
        assert_eq!(disk.free_bytes(), Some(100));
    }
}
