//! The log on a disk that fails: at every operation of a workload, power loss, kill and refusals.

mod folder;

use super::*;
use crate::{
    Expected, Header, Layout, MemoryStore, Purpose, RangeRequest, Store, WatchItem, Write, WriteError,
    files::disk::{Disk, Lie, Trouble},
    mvcc::{Mvcc, Prepared, evaluate},
    shared::Shared,
};
use futures::{FutureExt, StreamExt};
use std::collections::BTreeMap;

/// So small that a short workload has everything: several steps, checkpoints, and logs that go.
const SMALL: Limits = Limits { log_step_bytes: 1024, checkpoint_bytes_min: 3000, free_bytes_min: 0 };
/// What a drawn part of what was not synced survives by; 0: nothing, 1: all.
const SEEDS: [u64; 5] = [0, 1, 2, 3, 4];

/// More than all workloads together take.
const HISTORY_BYTES: usize = 1 << 20;

struct Pods;

impl Layout for Pods {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.starts_with("/pods/").then(|| &text[.."/pods/".len()])
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

fn open(disk: &Disk) -> Result<MemoryStore, LogError> {
    MemoryStore::open(Arc::new(disk.clone()), SMALL, Arc::new(Pods), HISTORY_BYTES)
}

/// What a client knows: of each key, its value and revision, and what a write of unknown outcome may have made of it.
#[derive(Clone, Debug, Default)]
struct Model {
    acknowledged: BTreeMap<String, (Vec<u8>, Revision)>,
    unknown: Option<(String, Option<Vec<u8>>)>,
    newest: Revision,
    /// All that was acknowledged, in order.
    reported: Vec<Observed>,
}

/// A change: its revision, its key, what that got (nothing: it was deleted) and what it had before.
type Observed = (Revision, String, Option<Vec<u8>>, Option<Vec<u8>>);

/// The step-th write of the workload: mostly new values, of all sizes, some deletions.
fn step(model: &Model, step: usize) -> Write {
    let name = format!("/pods/{}", step * 7 % 11);
    let key = Key::new(&name);
    match model.acknowledged.get(&name) {
        Some((_, revision)) if step.is_multiple_of(3) => Write::delete(key, *revision),
        found => {
            let expected = found.map_or(Expected::Absent, |(_, revision)| Expected::At(*revision));
            let length = [10, 600, 90, 1500][step % 4];
            Write::put(key, format!("{step:04}").repeat(length / 4).into(), expected, Purpose::Growth)
        }
    }
}

/// Writes until the workload ends or a write's outcome is unknown. A write that was refused is tried again, a few times.
fn run(store: &MemoryStore, model: &mut Model, steps: std::ops::Range<usize>) {
    let mut refusals = 0;
    for number in steps {
        loop {
            let write = step(model, number);
            let (name, value) = (write.key.to_string(), write.value.clone());
            match store.commit(vec![write]).now_or_never().expect("ready at once") {
                Ok(entries) => {
                    assert!(model.newest < entries[0].mod_revision, "a revision is given out once");
                    model.newest = entries[0].mod_revision;
                    let value = value.map(|value| value.to_vec());
                    let before = match value.clone() {
                        Some(value) => model.acknowledged.insert(name.clone(), (value, entries[0].mod_revision)),
                        None => model.acknowledged.remove(&name),
                    };
                    model.reported.push((entries[0].mod_revision, name, value, before.map(|(value, _)| value)));
                    break;
                }
                Err(WriteError::Unknown { .. }) => {
                    model.unknown = Some((name, value.map(|value| value.to_vec())));
                    return;
                }
                Err(WriteError::Unavailable { .. } | WriteError::NoSpace { .. }) if refusals < 5 => refusals += 1,
                Err(WriteError::Unavailable { .. } | WriteError::NoSpace { .. }) => return,
                Err(error) => panic!("step {number}: {error}"),
            }
        }
    }
}

fn contents(store: &MemoryStore) -> BTreeMap<String, (Vec<u8>, Revision)> {
    let range = store.range(RangeRequest::all("")).now_or_never().expect("ready at once").expect("readable");
    range.entries.iter().map(|entry| (entry.key.to_string(), (entry.value.to_vec(), entry.mod_revision))).collect()
}

/// Every acknowledged write is there, and of others only the one of unknown outcome, as a whole.
fn check(store: &MemoryStore, model: &Model) -> Result<(), String> {
    let mut found = contents(store);
    if let Some((name, value)) = &model.unknown {
        let is_written = found.get(name).map(|(value, _)| value) == value.as_ref();
        if is_written {
            match model.acknowledged.get(name) {
                Some(before) => drop(found.insert(name.clone(), before.clone())),
                None => drop(found.remove(name)),
            }
        }
    }
    if found == model.acknowledged { Ok(()) } else { Err(format!("{:?}\nwhere\n{:?}", names(&found), names(&model.acknowledged))) }
}

/// The changes that a watcher receives that has seen all up to `after`.
fn followed(store: &MemoryStore, after: Revision) -> Vec<Observed> {
    let mut watch = store.watch("", after).expect("nothing is forgotten");
    let value = |entry: &Entry| entry.value.to_vec();
    let mut reported = Vec::new();
    while let Some(Some(item)) = watch.next().now_or_never() {
        let WatchItem::Events(events) = item.expect("nothing is forgotten") else { continue };
        reported.extend(events.iter().map(|event| {
            let now = (event.kind == EventKind::Put).then(|| value(&event.entry));
            (event.entry.mod_revision, event.entry.key.to_string(), now, event.previous.as_ref().map(|before| value(before)))
        }));
    }
    reported
}

/// A watcher from the beginning, or from a revision in between, receives every acknowledged change once, in order, with the value before. Of the others
/// it receives only the one of unknown outcome, after them.
fn check_followers(store: &MemoryStore, model: &Model) -> Result<(), String> {
    let all = followed(store, Revision(0));
    let is_unknown =
        |(_, name, value, _): &Observed| model.unknown.as_ref().is_some_and(|unknown| (name, value) == (&unknown.0, &unknown.1));
    let revisions = |reported: &[Observed]| reported.iter().map(|change| change.0.0).collect::<Vec<_>>();
    let is_right = match all.strip_prefix(&model.reported[..]) {
        Some([]) => true,
        Some([one]) => is_unknown(one),
        _ => false,
    };
    if !is_right {
        return Err(format!("watchers received {:?} where {:?} were acknowledged", revisions(&all), revisions(&model.reported)));
    }
    let (seen, rest) = all.split_at(all.len() / 2);
    let reported = followed(store, seen.last().map_or(Revision(0), |last| last.0));
    if reported == rest {
        Ok(())
    } else {
        Err(format!("a watcher that has seen {:?} received {:?}", revisions(seen), revisions(&reported)))
    }
}

fn names(contents: &BTreeMap<String, (Vec<u8>, Revision)>) -> Vec<String> {
    contents.iter().map(|(name, (value, revision))| format!("{name}@{revision} {}", value.len())).collect()
}

const STEPS: usize = 40;

/// How many operations the workload takes when nothing goes wrong.
fn operations() -> u64 {
    let disk = Disk::default();
    let mut model = Model::default();
    run(&open(&disk).expect("an empty disk"), &mut model, 0..STEPS);
    assert!(
        disk.read("checkpoint-00000001").is_none() && recover::read(&disk, History::default()).expect("memory").logs.0 < 4,
        "checkpoints were made"
    );
    disk.operations()
}

/// A first run that meets `trouble` at an operation.
fn troubled(at: u64, trouble: Trouble, lie: Option<Lie>) -> (Disk, Model) {
    let (disk, mut model) = (Disk::default(), Model::default());
    disk.fail_at(at, trouble);
    if let Some(lie) = lie {
        disk.lie(lie);
    }
    if let Ok(store) = open(&disk) {
        run(&store, &mut model, 0..STEPS);
    }
    (disk, model)
}

/// Opens what is there after a first run, checks it, writes on, and opens it once more.
fn go_on(disk: &Disk, model: &Model) -> Result<(), String> {
    let mut model = model.clone();
    let store = open(disk).map_err(|error| format!("it does not open: {error}"))?;
    check(&store, &model)?;
    check_followers(&store, &model)?;
    model = Model { acknowledged: contents(&store), unknown: None, reported: followed(&store, Revision(0)), ..model };
    run(&store, &mut model, STEPS..STEPS + 10);
    assert!(model.unknown.is_none(), "nothing fails any more");
    drop(store);
    for after in [disk.after_kill(), disk.after_power_loss(0)] {
        let store = open(&after).map_err(|error| format!("it does not open again: {error}"))?;
        check(&store, &model)?;
        check_followers(&store, &model)?;
    }
    Ok(())
}

/// The folder that another build would have left: of its format, with all checksums right.
fn of_format(wanted: u64, disk: &Disk) -> Disk {
    let other = disk.after_kill();
    let mut chain = 0;
    // Checkpoints come first, and none of them follows another file.
    for name in disk.list().expect("memory").iter().filter(|name| is_of_store(name) && *name != acknowledged::NAME) {
        let file = disk.open(name).expect("it is listed");
        let (mut reader, mut rewritten, mut is_first) = (frame::Reader::new(&*file, 0), Vec::new(), true);
        while let Some(seal) = reader.next().expect("memory") {
            let mut bytes = Vec::new();
            frame::begin(&mut bytes);
            bytes.extend_from_slice(reader.body());
            if std::mem::take(&mut is_first) {
                // Behind the tag.
                let format = frame::HEAD_BYTES + 1;
                bytes[format..format + 8].copy_from_slice(&wanted.to_le_bytes());
                chain = if chain == 0 || Kind::Checkpoint.number(name).is_some() { seal.previous } else { chain };
            }
            chain = frame::seal(&mut bytes, chain);
            rewritten.extend(bytes);
        }
        chain = if Kind::Checkpoint.number(name).is_some() { 0 } else { chain };
        other.damage(name, Some(rewritten));
    }
    other
}

/// Not as damage, whose loss a user may accept.
#[test]
fn what_a_build_of_another_format_wrote_is_refused_and_left_as_it_is_whatever_is_accepted() {
    let (disk, mut model) = (Disk::default(), Model::default());
    run(&open(&disk).expect("an empty disk"), &mut model, 0..STEPS);
    for format in [FORMAT - 1, FORMAT + 1] {
        let other = of_format(format, &disk);
        let contents = || -> Vec<_> { other.list().expect("memory").into_iter().map(|name| (other.read(&name), name)).collect() };
        let before = contents();
        assert!(1 < before.len());
        for on_damage in [OnDamage::Refuse, OnDamage::AcceptLoss] {
            let refused = Log::open(Arc::new(other.clone()), SMALL, on_damage, History::default()).map(drop);
            let is_named = match &refused {
                Err(LogError::Earlier(found)) => *found == format && format < FORMAT,
                Err(LogError::Later(found)) => *found == format && FORMAT < format,
                _ => false,
            };
            assert!(is_named, "{on_damage:?}: {refused:?}");
            assert_eq!(contents(), before, "{on_damage:?}");
        }
    }
}

#[test]
fn every_acknowledged_write_survives_power_loss_at_every_operation() {
    for at in 0..operations() {
        let (disk, model) = troubled(at, Trouble::PowerLoss, None);
        for seed in SEEDS {
            go_on(&disk.after_power_loss(seed), &model).unwrap_or_else(|why| panic!("at operation {at}, seed {seed}: {why}"));
        }
    }
}

#[test]
fn every_acknowledged_write_survives_a_kill_at_every_operation() {
    for at in 0..operations() {
        let (disk, model) = troubled(at, Trouble::PowerLoss, None);
        go_on(&disk.after_kill(), &model).unwrap_or_else(|why| panic!("at operation {at}: {why}"));
    }
}

#[test]
fn a_store_goes_on_after_any_refusal_of_the_disk_and_nothing_of_what_failed_comes_back() {
    for at in 0..operations() {
        let (disk, mut model) = (Disk::default(), Model::default());
        disk.fail_at(at, Trouble::Failure);
        let Ok(store) = open(&disk) else { continue };
        run(&store, &mut model, 0..STEPS);
        // A reader knows: it is not there, and will not be.
        model.unknown = None;
        assert_eq!(contents(&store), model.acknowledged, "at operation {at}");
        run(&store, &mut model, STEPS..STEPS + 10);
        assert!(model.unknown.is_none(), "at operation {at}: one failure, not two");
        for seed in SEEDS {
            go_on(&disk.after_power_loss(seed), &model).unwrap_or_else(|why| panic!("at operation {at}, seed {seed}: {why}"));
        }
        go_on(&disk.after_kill(), &model).unwrap_or_else(|why| panic!("at operation {at}, killed: {why}"));
    }
}

/// After a failed sync, memory can show what the disk does not have, and the next sync may succeed without it. So that file is not written any more.
#[test]
fn behind_a_write_that_failed_a_new_log_is_begun() {
    let mut failed = 0;
    for later in 0..4 {
        let (disk, mut model) = (Disk::default(), Model::default());
        let store = open(&disk).expect("an empty disk");
        run(&store, &mut model, 0..2);
        disk.fail_at(disk.operations() + later, Trouble::Failure);
        run(&store, &mut model, 2..3);
        if model.unknown.take().is_some() {
            failed += 1;
            let left = disk.read(&Kind::Log.name(1)).expect("the first log");
            run(&store, &mut model, 3..6);
            assert_eq!(disk.read(&Kind::Log.name(1)).expect("no checkpoint was made"), left, "failed at operation {later} of the write");
            assert!(disk.read(&Kind::Log.name(2)).is_some());
        }
    }
    assert!(failed >= 2, "{failed}: the write, and its sync");
}

/// Whatever was begun to get over the first failure.
#[test]
fn a_refusal_of_the_disk_and_then_a_power_loss_or_a_kill_lose_nothing() {
    for at in 0..operations() {
        for then in at + 1..at + 12 {
            let (disk, mut model) = (Disk::default(), Model::default());
            disk.fail_at(at, Trouble::Failure);
            disk.fail_at(then, Trouble::PowerLoss);
            let Ok(store) = open(&disk) else { continue };
            run(&store, &mut model, 0..STEPS);
            let failed = model.unknown.take();
            if disk.operations() <= then {
                run(&store, &mut model, STEPS..STEPS + 10);
            }
            // One of the two is void where the other happened. Which one does not matter.
            let second = model.unknown.take();
            for after in [disk.after_power_loss(0), disk.after_power_loss(at), disk.after_kill()] {
                let go_on_behind = |unknown: &Option<_>| go_on(&after.after_kill(), &Model { unknown: unknown.clone(), ..model.clone() });
                let end = go_on_behind(&second).or_else(|why| go_on_behind(&failed).map_err(|other| format!("{why}; {other}")));
                assert_eq!(end, Ok(()), "failure at {at}, power loss at {then}");
            }
        }
    }
}

/// Power losses in the middle of starts too.
#[test]
fn power_loss_at_every_operation_of_a_start_loses_nothing() {
    let (disk, model) = troubled(operations() - 1, Trouble::PowerLoss, None);
    for seed in SEEDS {
        let before = disk.after_power_loss(seed);
        let whole = before.after_power_loss(1);
        drop(open(&whole).expect("whole"));
        for at in 0..whole.operations() {
            let starting = before.after_power_loss(1);
            starting.fail_at(at, Trouble::PowerLoss);
            assert!(open(&starting).is_err());
            for after in [starting.after_power_loss(0), starting.after_power_loss(seed), starting.after_kill()] {
                go_on(&after, &model).unwrap_or_else(|why| panic!("seed {seed}, at operation {at} of the start: {why}"));
            }
        }
    }
}

/// Each kind of sync is needed: without it, some loss of power costs an acknowledged write.
#[test]
fn a_sync_that_is_left_out_is_noticed() {
    for lie in [Lie::File("log"), Lie::File("checkpoint"), Lie::File("acknowledged"), Lie::Folder] {
        let loses = |at: u64| {
            let (disk, model) = troubled(at, Trouble::PowerLoss, Some(lie));
            SEEDS.iter().any(|seed| go_on(&disk.after_power_loss(*seed), &model).is_err())
        };
        assert!((0..operations()).any(loses), "{lie:?} is not noticed");
    }
}

/// A store with ten commits behind a checkpoint that has some history, closed: what its files hold.
fn written() -> (Disk, Model) {
    let (disk, mut model) = (Disk::default(), Model::default());
    let store = MemoryStore::open(Arc::new(disk.clone()), SMALL, Arc::new(()), 4000).expect("an empty disk");
    run(&store, &mut model, 0..STEPS);
    (disk, model)
}

fn files(disk: &Disk) -> Vec<(String, Vec<u8>)> {
    disk.list().expect("memory").into_iter().map(|name| (name.clone(), disk.read(&name).expect("listed"))).collect()
}

/// The start with that damage must refuse, change nothing, and open when the damage is undone.
fn refused(disk: &Disk, name: &str, damaged: Option<Vec<u8>>) -> String {
    let whole = disk.read(name);
    disk.damage(name, damaged);
    let before = (files(disk), disk.operations());
    let reported = match open(disk) {
        Ok(store) => panic!("{name}: opened with {:?}", names(&contents(&store))),
        Err(error) => error.to_string(),
    };
    assert_eq!((files(disk), disk.operations()), before, "a start that refuses changes nothing");
    disk.damage(name, whole);
    reported
}

/// The offset after the last nonzero byte.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).expect("not empty") + 1
}

#[test]
fn a_flipped_bit_anywhere_is_reported_and_nothing_is_changed() {
    let (disk, model) = written();
    for (name, bytes) in files(&disk) {
        for at in 0..used(&bytes) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let reported = refused(&disk, &name, Some(damaged));
            assert!(reported.contains(&name), "byte {at} of {name}: {reported}");
        }
    }
    check(&open(&disk).expect("whole again"), &model).expect("all of it");
}

#[test]
fn a_truncated_or_missing_file_is_reported() {
    let (disk, model) = written();
    for (name, bytes) in files(&disk) {
        for end in 0..used(&bytes) {
            let reported = refused(&disk, &name, Some(bytes[..end].to_vec()));
            assert!(reported.contains(&name), "{name} cut at {end}: {reported}");
        }
        let reported = refused(&disk, &name, None);
        assert!(reported.contains(&name) && reported.contains("missing"), "{name}: {reported}");
    }
    check(&open(&disk).expect("whole again"), &model).expect("all of it");
}

#[test]
fn files_of_another_store_or_time_are_reported() {
    let (disk, _) = written();
    let log = |disk: &Disk| files(disk).into_iter().rfind(|(name, _)| name.starts_with("log")).expect("there is one");
    let (earlier, _) = log(&disk);
    drop(open(&disk).expect("whole"));
    let (later, bytes) = log(&disk);
    assert_ne!(earlier, later);
    refused(&disk, &earlier, Some(bytes));
    // A store that was restored in part: an older log under today's note.
    let (other, _) = written();
    let (_, older) = log(&other);
    refused(&disk, &later, Some(older[..used(&older) - 1].to_vec()));
}

/// Where the frames of a file begin, and where the last one ends.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let disk = Disk::default();
    disk.damage("a", Some(bytes.to_vec()));
    let file = disk.open("a").expect("just made");
    let mut reader = frame::Reader::new(&*file, 0);
    let mut offsets = vec![0];
    while reader.next().expect("memory").is_some() {
        offsets.push(reader.offset() as usize);
    }
    offsets
}

#[test]
fn missing_or_duplicate_frames_are_reported() {
    let (disk, _) = written();
    for (name, bytes) in files(&disk).into_iter().filter(|(name, _)| name != acknowledged::NAME) {
        let offsets = frames(&bytes);
        for (index, pair) in offsets.windows(2).enumerate() {
            let without = [&bytes[..pair[0]], &bytes[pair[1]..]].concat();
            let reported = refused(&disk, &name, Some(without));
            let why = if index == 0 { "header is not valid" } else { "" };
            assert!(reported.contains(&name) && reported.contains(why), "{name} without frame {index}: {reported}");
            if 0 < index && index + 2 < offsets.len() {
                assert!(reported.contains("the part before it is missing"), "{name} without frame {index}: {reported}");
            }
            let twice = [&bytes[..pair[1]], &bytes[pair[0]..]].concat();
            let reported = refused(&disk, &name, Some(twice));
            let why = ["the part before it is missing", "there is data after its end"];
            assert!(why.iter().any(|why| reported.contains(why)), "{name} with frame {index} twice: {reported}");
        }
    }
}

#[test]
fn a_log_after_the_checkpoint_of_another_store_is_reported() {
    let (disk, _) = written();
    let other = Disk::default();
    run(&open(&other).expect("an empty disk"), &mut Model::default(), 1..STEPS + 3);
    let of = |disk: &Disk| files(disk).into_iter().find(|(name, _)| name.starts_with("log")).expect("there is one");
    let ((name, _), (foreign, bytes)) = (of(&disk), of(&other));
    let reported = refused(&disk, &name, Some(bytes));
    assert!(reported.contains(if name == foreign { "it follows revision" } else { "it was written as" }), "{reported}");
}

#[test]
fn an_unacknowledged_end_is_left_out_as_a_whole() {
    let (disk, mut model) = (Disk::default(), Model::default());
    let store = open(&disk).expect("an empty disk");
    run(&store, &mut model, 0..1);
    let (before, note) = (disk.read("log-00000001").expect("there"), disk.read("acknowledged"));
    let acknowledged = model.clone();
    run(&store, &mut model, 1..2);
    let behind = disk.read("log-00000001").expect("there");
    for end in used(&before)..used(&behind) {
        let torn = disk.after_kill();
        let mut bytes = behind[..end].to_vec();
        bytes.resize(behind.len(), 0);
        torn.damage("log-00000001", Some(bytes));
        torn.damage("acknowledged", note.clone());
        check(&open(&torn).expect("a torn end is no damage"), &acknowledged).unwrap_or_else(|why| panic!("cut at {end}: {why}"));
    }
    let whole = disk.after_kill();
    whole.damage("acknowledged", note);
    check(&open(&whole).expect("whole"), &model).expect("what is whole is there");
}

#[test]
fn what_can_be_read_is_opened_if_the_loss_is_accepted_and_no_revision_is_given_out_twice() {
    let (disk, model) = written();
    let (name, bytes) = files(&disk).into_iter().rfind(|(name, _)| name.starts_with("log")).expect("there is one");
    let mut damaged = bytes.clone();
    // In the last commit.
    damaged[used(&bytes) - 4] ^= 1;
    disk.damage(&name, Some(damaged.clone()));
    let (log, found) = Log::open(Arc::new(disk.clone()), SMALL, OnDamage::AcceptLoss, keeping(HISTORY_BYTES)).expect("accepted");
    assert_eq!(found.faults.len(), 1, "{:?}", found.faults);
    assert!(model.newest.later(LOST_REVISIONS_MAX) <= log.revision());
    let newest = log.revision();
    assert_eq!(changes_of(found), (newest.0, String::new()), "who followed does not know what is lost");
    drop(log);
    assert_eq!(disk.read(&format!("damaged-{name}")), Some(damaged));
    let store = open(&disk).expect("whole from now on");
    assert!(store.watch("", Revision(newest.0 - 1)).is_err() && store.watch("", newest).is_ok());
    let found = contents(&store);
    let lost = model.acknowledged.iter().filter(|(name, version)| found.get(*name) != Some(version)).count();
    assert!(lost <= 1, "one commit was damaged, and {lost} keys are not as they were");
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_space_again() {
    let (disk, mut model) = (Disk::default(), Model::default());
    let store = open(&disk).expect("an empty disk");
    run(&store, &mut model, 0..3);
    disk.set_free_bytes(Some(0));
    let mut more = model.clone();
    run(&store, &mut more, 3..STEPS);
    assert!(more.unknown.is_none(), "space is taken before anything is written");
    assert!(more.newest.0 < STEPS as u64);
    disk.set_free_bytes(None);
    run(&store, &mut more, 20..STEPS);
    go_on(&disk.after_power_loss(0), &more).expect("nothing is lost");
}

fn keeping(bytes: usize) -> History {
    History::new(Arc::new(()), bytes)
}

/// From where on changes are kept, and all of them: `key=value@revision<before`, `-` for a deletion.
fn changes_of(found: Found) -> (u64, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (since, changes) = found.history.into_changes();
    let shown = changes.iter().map(|Change { key, revision, value, previous, .. }| {
        let before = previous.as_ref().map(|previous| format!("<{}@{}", text(&previous.value), previous.mod_revision));
        format!("{key}={}@{revision}{}", value.as_ref().map_or("-".into(), |value| text(value)), before.unwrap_or_default())
    });
    (since[0].1.0, shown.collect::<Vec<_>>().join(" "))
}

/// A disk on which others wrote while a checkpoint was written, beside a history of so many bytes.
fn behind_a_checkpoint(history_bytes: usize) -> Disk {
    let disk = Disk::default();
    let mut log = Log::open(Arc::new(disk.clone()), SMALL, OnDamage::Refuse, keeping(history_bytes)).expect("an empty disk").0;
    let shared = Shared::new(Mvcc::new(Arc::new(()), history_bytes));
    let write = |log: &mut Log, key: &str, value: Option<&str>| {
        let key = Key::new(key);
        let expected = shared.get(&key).map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
        let value = value.map(|value| (value.to_owned().into(), Header::default()));
        let prepared = Prepared { key, expected, value, expires_at: None, purpose: Purpose::Growth, only_while: None };
        let commit = {
            let visible = shared.read();
            evaluate(vec![prepared], visible.revision().later(1), |key| visible.get(key)).expect("as expected")
        };
        log.commit(std::slice::from_ref(&commit)).expect("no trouble");
        shared.publish(&[commit]);
    };
    ["/a", "/b", "/c", "/d"].iter().for_each(|key| write(&mut log, key, Some("1")));
    write(&mut log, "/a", Some("2"));
    let mut pages = 0;
    let checkpoint = log.begin_checkpoint(shared.read().past()).expect("no trouble");
    let as_of = |revision, after: Option<&Key>, _: usize| {
        pages += 1;
        if pages == 2 {
            // One that is written already and one that is not, each changed and gone; and a new one.
            write(&mut log, "/a", None);
            write(&mut log, "/b", Some("2"));
            write(&mut log, "/c", None);
            write(&mut log, "/e", Some("1"));
            write(&mut log, "/d", Some("2"));
            write(&mut log, "/d", None);
            write(&mut log, "/d", Some("3"));
        }
        shared.read().as_of(revision, after, 1)
    };
    checkpoint.write(as_of, || false).expect("no trouble");
    write(&mut log, "/e", Some("2"));
    drop(log);
    assert!(disk.read("log-00000001").is_none(), "the log before it is gone");
    disk
}

/// What is found there.
fn found_behind_a_checkpoint(history_bytes: usize) -> Found {
    let found = recover::read(&behind_a_checkpoint(history_bytes), keeping(HISTORY_BYTES)).expect("memory");
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    found
}

fn objects(found: &Found) -> Vec<String> {
    found.objects.iter().map(|(key, object)| format!("{key}={}", String::from_utf8_lossy(&object.value))).collect()
}

#[test]
fn what_is_written_while_a_checkpoint_is_written_is_there_behind_it() {
    let found = found_behind_a_checkpoint(HISTORY_BYTES);
    assert_eq!(objects(&found), ["/b=2", "/d=3", "/e=2"]);
    let before = "/a=1@1 /b=1@2 /c=1@3 /d=1@4 /a=2@5<1@1";
    let meanwhile = "/a=-@6<2@5 /b=2@7<1@2 /c=-@8<1@3 /e=1@9 /d=2@10<1@4 /d=-@11<2@10 /d=3@12";
    assert_eq!(changes_of(found), (0, format!("{before} {meanwhile} /e=2@13<1@9")));
}

/// Then it shows versions of different revisions, and what the changes in between replaced is unknown.
#[test]
fn a_checkpoint_during_which_history_forgets_old_versions_restarts_the_history() {
    let found = found_behind_a_checkpoint(0);
    assert_eq!(objects(&found), ["/b=2", "/d=3", "/e=2"]);
    assert_eq!(changes_of(found), (12, "/e=2@13<1@9".into()));
}

#[test]
fn a_checkpoint_for_whose_history_there_is_no_space_is_written_without_it() {
    let disk = Disk::default();
    let mut model = Model::default();
    let store = open(&disk).expect("an empty disk");
    run(&store, &mut model, 0..4);
    // As much as objects and logs take, and less than what happened.
    disk.set_free_bytes(Some(11_000));
    run(&store, &mut model, 4..STEPS);
    assert!(model.unknown.is_none());
    let found = recover::read(&disk, keeping(HISTORY_BYTES)).expect("memory");
    assert!(found.logs.0 < 4, "checkpoints were made");
    assert_ne!(changes_of(found).0, 0);
    check(&open(&disk).expect("whole"), &model).expect("all of it");
}
