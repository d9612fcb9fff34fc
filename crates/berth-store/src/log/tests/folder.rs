//! What else a folder may hold, and how much space.

use super::*;

fn names_of(disk: &Disk) -> Vec<String> {
    disk.list().expect("memory")
}

#[test]
fn a_start_removes_what_was_never_finished_and_nothing_of_others() {
    let (disk, model) = written();
    let others = ["notes", "notes.new", "log-1", "log-00000001.gz", "checkpoint-00000001.bak", "my-log-00000001", ".new"];
    let left_over = ["log-00000077.new", "checkpoint-00000077.new", "acknowledged.new", "log-00000000", "checkpoint-00000000"];
    let own: Vec<_> = names_of(&disk);
    others.iter().chain(&left_over).for_each(|name| disk.damage(name, Some(b"something".to_vec())));
    check(&open(&disk).expect("whole"), &model).expect("all of it");
    let found = names_of(&disk);
    assert!(others.iter().all(|name| found.iter().any(|found| found == name)), "{found:?}");
    assert!(!left_over.iter().any(|name| found.iter().any(|found| found == name)), "{found:?}");
    assert!(own.iter().all(|name| found.contains(name)), "{found:?}");
}

#[test]
fn only_the_damaged_store_is_put_aside_when_its_loss_is_accepted() {
    let (disk, _) = written();
    let own: Vec<_> = names_of(&disk).into_iter().filter(|name| name != acknowledged::NAME).collect();
    let log = own.iter().rfind(|name| name.starts_with("log")).expect("there is one");
    let mut bytes = disk.read(log).expect("listed");
    let end = used(&bytes);
    bytes[end - 4] ^= 1;
    disk.damage(log, Some(bytes));
    disk.damage("notes", Some(b"of somebody else".to_vec()));
    Log::open(Arc::new(disk.clone()), SMALL, OnDamage::AcceptLoss, keeping(HISTORY_BYTES)).expect("accepted");
    let aside: Vec<_> = names_of(&disk).into_iter().filter(|name| name.starts_with("damaged-")).collect();
    let mut expected: Vec<_> = own.iter().map(|name| format!("damaged-{name}")).collect();
    expected.sort();
    assert_eq!(aside, expected);
    assert_eq!(disk.read("notes").as_deref(), Some(&b"of somebody else"[..]));
    let highest = own.iter().filter_map(|name| Kind::Log.number(name).max(Kind::Checkpoint.number(name))).max().expect("some");
    assert!(disk.read(&Kind::Checkpoint.name(highest + 1)).is_some(), "the whole one stands behind all that were");
}

#[test]
fn a_checkpoint_contains_the_changes_that_were_not_forgotten_after_its_beginning() {
    let since = |since: &[(&str, u64)]| since.iter().map(|(name, since)| ((*name).into(), Revision(*since))).collect::<Since>();
    let end = Versioned { entries: Vec::new(), revision: Revision(9), since: since(&[("", 5), ("/a/", 6), ("/b/", 5)]) };
    assert_eq!(still_kept(Revision(5), &since(&[("", 2), ("/a/", 3)]), &end), since(&[("", 2), ("/a/", 9), ("/b/", 2)]));
}

/// A checkpoint can hold versions that only a later part of the log repeats. Where that part is damaged, the checkpoint has the only copy.
#[test]
fn the_contents_of_a_checkpoint_stay_though_the_log_that_repeats_them_is_damaged() {
    let disk = behind_a_checkpoint(0);
    let log = names_of(&disk).into_iter().rfind(|name| name.starts_with("log")).expect("there is one");
    let bytes = disk.read(&log).expect("listed");
    let frames = frames(&bytes);
    // The last three contain `/d=3`, `/e=2`, and the end of the file.
    let last = frames.len() - 3;
    let mut damaged = bytes;
    damaged[frames[last] + frame::HEAD_BYTES] ^= 1;
    disk.damage(&log, Some(damaged));
    let found = recover::read(&disk, keeping(HISTORY_BYTES)).expect("memory");
    assert!(found.faults.iter().any(|fault| fault.why == "its checksum is wrong"), "{:?}", found.faults);
    assert_eq!(objects(&found), ["/b=2", "/d=3", "/e=2"]);
}

/// Each file may be as it was written, and yet not hold what was acknowledged: a fault of who wrote it, or a file of another store that fits.
#[test]
fn what_is_there_is_counted() {
    let objects = ["/a", "/b"].map(|key| {
        let revision = Revision(7);
        let value = "1".into();
        (Key::new(key), Object { value, create_revision: revision, mod_revision: revision, expires_at: None })
    });
    let of = |objects: &[(Key, Object)]| Summary::of(Revision(7), objects.iter().map(|(key, object)| (key, object)));
    let faults = |said: Summary| {
        let disk = Disk::default();
        rewrite(&disk, 1, objects.clone(), said).expect("memory");
        acknowledge(&disk, Revision(7)).expect("memory");
        recover::read(&disk, keeping(HISTORY_BYTES)).expect("memory").faults
    };
    assert_eq!(faults(of(&objects)), []);
    for said in [of(&objects[..1]), Summary { sum: 1, ..of(&objects) }] {
        let found = faults(said);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].file.starts_with("log-") && found[0].why.starts_with("2 objects with sum "), "{found:?}");
    }
}

#[test]
fn an_incomplete_frame_is_reported_and_preallocated_space_is_no_frame() {
    let (disk, _) = written();
    let torn = || recover::read(&disk, keeping(0)).expect("memory").read.last().expect("a log is read last").torn;
    let log = names_of(&disk).into_iter().rfind(|name| name.starts_with("log")).expect("there is one");
    let mut bytes = disk.read(&log).expect("listed");
    bytes.truncate(*frames(&bytes).last().expect("where the last one ends"));
    for (behind, is_torn) in [(&[][..], false), (&[0; 100], false), (b"torn", true)] {
        disk.damage(&log, Some([&bytes, behind].concat()));
        assert_eq!(torn(), is_torn, "{behind:?}");
    }
}

/// However much there is: a frame is read as a whole.
#[test]
fn a_long_checkpoint_is_written_in_frames_of_bounded_length() {
    let disk = Disk::default();
    let object = |name: &str| {
        let value = vec![b'x'; CHECKPOINT_FRAME_BYTES * 3 / 4].into();
        (Key::new(name), Object { value, create_revision: Revision(1), mod_revision: Revision(1), expires_at: None })
    };
    let objects = ["/a", "/b", "/c"].map(object);
    let state = Summary::of(Revision(1), objects.iter().map(|(key, object)| (key, object)));
    rewrite(&disk, 1, objects, state).expect("memory");
    acknowledge(&disk, Revision(1)).expect("memory");
    let found = recover::read(&disk, keeping(0)).expect("memory");
    assert_eq!((found.faults.len(), found.objects.len()), (0, 3));
    // How it begins, two objects, the third, and how it ends.
    assert_eq!(found.read[0].frames, 4);
}

#[test]
fn of_several_faults_the_first_is_reported_with_the_number_of_others() {
    let fault = |file: &str| Fault { file: file.into(), offset: None, why: "it is missing".into() };
    let reported = |files: &[&str]| LogError::Damaged(files.iter().map(|file| fault(file)).collect()).to_string();
    assert_eq!([reported(&["a"]), reported(&["a", "b", "c"])], ["a: it is missing", "a: it is missing; and 2 more"]);
}

/// Without that, a check reports less than it could.
#[cfg(feature = "embedded")]
#[test]
fn the_note_of_what_was_acknowledged_outlives_a_power_loss_once_the_log_is_closed() {
    let disk = Disk::default();
    let mut log = Log::open(Arc::new(disk.clone()), SMALL, OnDamage::Refuse, keeping(0)).expect("an empty disk").0;
    let value = Some(("1".into(), Header::default()));
    let write =
        Prepared { key: Key::new("/a"), expected: Expected::Absent, value, expires_at: None, purpose: Purpose::Growth, only_while: None };
    log.commit(&[evaluate(vec![write], Revision(1), |_| None).expect("nothing is there")]).expect("no trouble");
    let note = || acknowledged::read(&disk.after_power_loss(0)).expect("memory");
    assert_eq!(note(), acknowledged::Note::Revision(Revision(0)));
    log.close().expect("no trouble");
    assert_eq!(note(), acknowledged::Note::Revision(Revision(1)));
}

/// A log whose objects take so much, with so much in its files, on a disk with so much free.
fn log_with(live_bytes: u64, bytes: u64, free: Option<u64>) -> Log {
    let disk = Disk::default();
    let limits = Limits { log_step_bytes: 1000, checkpoint_bytes_min: 1 << 30, free_bytes_min: 1_000_000 };
    let mut log = Log::open(Arc::new(disk.clone()), limits, OnDamage::Refuse, keeping(0)).expect("an empty disk").0;
    (log.live_bytes, log.to_read.bytes) = (live_bytes, bytes);
    disk.set_free_bytes(free);
    log
}

#[test]
fn the_space_that_the_next_commits_find_is_what_the_log_has_taken_and_not_used() {
    let disk = Disk::default();
    let mut log = Log::open(Arc::new(disk.clone()), SMALL, OnDamage::Refuse, keeping(0)).expect("an empty disk").0;
    for revision in 0..3 {
        let bytes = disk.read("log-00000001").expect("begun");
        let unused = bytes.len() - frames(&bytes).last().expect("where the last one ends");
        assert_eq!(log.room().ahead, unused as u64, "behind {revision} compactions");
        assert!(0 < unused);
        log.compact(Revision(revision)).expect("memory");
    }
}

#[test]
fn a_disk_is_short_below_what_is_kept_free_and_a_step_of_the_log() {
    let is_short = |free| log_with(0, 0, free).is_short();
    assert_eq!([Some(1_000_999), Some(1_001_000), None].map(is_short), [true, false, false]);
}

/// Written again in a quarter, and what the first log takes.
#[test]
fn on_a_short_disk_a_checkpoint_is_made_as_soon_as_it_makes_room() {
    let is_due = |bytes, free| log_with(400_000, bytes, free).is_checkpoint_due();
    assert_eq!([100_999, 101_000].map(|bytes| is_due(bytes, Some(900_000))), [false, true]);
    assert!(!is_due(101_000, Some(2_000_000)), "there is space enough to wait");
}

/// Each of them is a file that a start opens and reads.
#[test]
fn a_checkpoint_is_made_at_the_latest_when_many_logs_are_to_be_read() {
    let mut log = log_with(400_000, 0, None);
    for number in 1..LOGS_MAX {
        assert!(!log.is_checkpoint_due(), "{number} logs");
        log.begin().expect("memory");
    }
    assert!(log.is_checkpoint_due());

    // Each start begins one.
    let disk = Disk::default();
    let is_due = |_| {
        let limits = Limits { checkpoint_bytes_min: 1 << 30, ..SMALL };
        Log::open(Arc::new(disk.clone()), limits, OnDamage::Refuse, keeping(0)).expect("whole").0.is_checkpoint_due()
    };
    assert_eq!((1..=LOGS_MAX).map(is_due).position(|is_due| is_due), Some(LOGS_MAX as usize - 1));
}

/// Else what keeps one from being written would be met at each write.
#[test]
fn a_checkpoint_that_was_not_written_is_tried_again_behind_half_as_much() {
    let most = 1 << 30;
    let mut log = log_with(0, most, None);
    assert!(log.is_checkpoint_due());
    let checkpoint = log.begin_checkpoint(Past::forgotten(Revision(0))).expect("memory");
    let nothing = |revision, _: Option<&Key>, _| Versioned { entries: Vec::new(), revision, since: Since::new() };
    let stopped = checkpoint.write(nothing, || true);
    assert!(stopped.is_err());
    log.end_checkpoint(stopped);
    log.to_read.bytes += most / 2 - 1;
    assert!(!log.is_checkpoint_due());
    log.to_read.bytes += 1;
    assert!(log.is_checkpoint_due());
}

/// The new files are beside the old ones until they are complete.
#[test]
fn a_checkpoint_wants_space_for_itself_and_an_eighth_more() {
    let has_room = |history, free| log_with(80_008, 0, Some(free)).has_room_for(history);
    let needed = 80_008 + 10_001 + 2_000;
    assert_eq!([needed - 1, needed].map(|free| has_room(0, free)), [false, true]);
    assert_eq!([needed + 499, needed + 500].map(|free| has_room(500, free)), [false, true]);
    assert!(log_with(80_008, 0, None).has_room_for(0), "a file system that does not say has to show it");
}
