//! Late answers: an etcd that hangs for some seconds executes all requests when it continues.

use super::*;

const fn millis(millis: i64) -> SignedDuration {
    SignedDuration::from_millis(millis)
}

/// It is done so much later, and answered so much later than that.
const fn slow(done: i64, answered: i64) -> TransactionFault {
    TransactionFault::Slow { done: millis(done), answered: millis(answered) }
}

impl TestStore {
    /// A change of what is there as revision 2, under way.
    fn change(&self, value: Option<&str>) -> Arc<Mutex<Option<Written>>> {
        let write = match value {
            Some(value) => Write::put(key("a"), value.to_owned().into(), Expected::At(Revision(2)), Purpose::Growth),
            None => Write::delete(key("a"), Revision(2)),
        };
        let store = Arc::clone(&self.store);
        self.start(async move { store.commit(vec![write]).await.map(|entries| entries[0].mod_revision.0) })
    }

    /// Another server's write, at once.
    fn anothers(&self, value: &str) {
        let put = Put { key: key("a"), expected: Some(Expected::At(Revision(2))), value: Some(value.to_owned().into()), lease: None };
        let mut kept = self.model.kept();
        assert_eq!(kept.apply(&[put]), Outcome::Done(Revision(3)));
    }

    fn pass_millis(&self, time: i64) {
        self.wait(self.time.sleep_until(self.time.now() + millis(time)));
    }
}

/// In whichever order etcd does the attempts and answers them.
#[test]
fn a_change_is_answered_as_done_when_a_hanging_etcd_continues() {
    for (what, stood, faults) in [
        ("the first is done first and answered first", 5_000, vec![slow(5_000, 0), slow(2_100, 0)]),
        ("the first is done first and answered last", 5_000, vec![slow(5_000, 900), slow(2_100, 0)]),
        ("the second is done first", 5_000, vec![slow(5_100, 0), slow(2_000, 0)]),
        ("the second is done first and answered last", 5_000, vec![slow(5_100, 0), slow(2_000, 900)]),
        ("the first is lost, and the second done", 5_000, vec![TransactionFault::Lost, slow(5_000, 0), slow(3_000, 0)]),
        ("the first is never answered", 12_000, vec![slow(200_000, 0), slow(9_000, 0), slow(100_000, 0)]),
        ("the last is done first", 30_000, vec![slow(30_300, 10), slow(27_200, 10), slow(21_100, 10), slow(9_000, 500)]),
    ] {
        for value in [Some("2"), None] {
            let test_store = TestStore::new(0);
            assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
            test_store.model.faults(faults.clone());
            let began = test_store.time.now();
            assert_eq!(test_store.finish(&test_store.change(value)).map_err(|error| error.to_string()), Ok(3), "{what}, {value:?}");
            let took = test_store.time.now().duration_since(began).as_millis();
            assert!((stood..stood + 1_500).contains(&took), "{what}, {value:?}: {took}");
            test_store.pass(200);
            assert_eq!(test_store.model.kept().revision, 3, "{what}: once");
        }
    }
}

/// The other server has written the same value. The stamp identifies the writer, so the store waits for no answer.
#[test]
fn a_change_that_another_made_in_the_same_way_is_a_conflict_at_once() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.faults([slow(5_000, 1_000), slow(2_000, 0)]);
    let written = test_store.change(Some("2"));
    test_store.pass_millis(4_000);
    test_store.anothers("2");
    let began = test_store.time.now();
    let told = test_store.finish(&written);
    assert!(matches!(told, Err(WriteError::Conflict { found: Revision(3), .. })), "{told:?}");
    let took = test_store.time.now().duration_since(began).as_millis();
    assert!(took < 2_000, "{took}");
}

/// As when the leader of etcd is killed behind the write: its answer never comes, and the next attempt finds the key changed.
#[test]
fn a_change_that_is_done_and_never_answered_is_settled_by_what_is_stored() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.faults([slow(100, 200_000)]);
    let began = test_store.time.now();
    assert_eq!(test_store.finish(&test_store.change(Some("2"))).map_err(|error| error.to_string()), Ok(3));
    let took = test_store.time.now().duration_since(began).as_millis();
    assert!((3_000..4_500).contains(&took), "as soon as a second attempt is answered: {took}");
    assert_eq!((test_store.get("a").as_str(), test_store.model.kept().revision), ("2@3", 3), "once");
}

/// A stamp would be a write, and an etcd without space does nothing but delete.
#[test]
fn a_deletion_goes_on_without_space() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.raise(&[Alarm::NoSpace]);
    assert_eq!(test_store.finish(&test_store.change(None)).map_err(|error| error.to_string()), Ok(3));
}

#[test]
fn a_change_that_another_made_in_another_way_is_a_conflict_at_once() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.faults([slow(30_000, 0)]);
    let written = test_store.change(Some("2"));
    test_store.pass_millis(2_000);
    test_store.anothers("x");
    let began = test_store.time.now();
    let told = test_store.finish(&written);
    assert!(matches!(told, Err(WriteError::Conflict { found: Revision(3), .. })), "{told:?}");
    let took = test_store.time.now().duration_since(began).as_millis();
    assert!(took < 1_500, "no answer to the first is waited for, which cannot be done any more: {took}");
    test_store.pass(60);
    assert_eq!(test_store.get("a"), "x@3");
}

#[test]
fn an_etcd_that_hangs_for_too_long_is_asked_four_times_and_the_outcome_is_unknown() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.faults([slow(50_000, 0); 10]);
    let began = test_store.time.now();
    let told = test_store.finish(&test_store.change(Some("2"))).expect_err("it does not answer").to_string();
    assert_eq!(told, "whether /registry/pods/default/a was written is unknown: etcd has not answered");
    let took = test_store.time.now().duration_since(began);
    assert_eq!((took.as_secs(), test_store.model.kept().faults.len()), (34, 6));
    test_store.model.kept().faults.clear();
    test_store.pass(60);
    assert_eq!(test_store.get("a"), "2@3", "all the same, and once");
}

#[test]
fn a_refused_attempt_proves_nothing_about_a_late_one() {
    for is_full_for_good in [true, false] {
        let test_store = TestStore::new(0);
        assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
        test_store.model.raise(&[Alarm::NoSpace]);
        test_store.model.faults([slow(4_000, 0)]);
        let written = test_store.change(Some("2"));
        test_store.pass_millis(3_500);
        assert!(written.lock().expect("nothing panics under it").is_none(), "the second was refused, the first may be done");
        if !is_full_for_good {
            test_store.model.raise(&[]);
        }
        let told = test_store.finish(&written);
        match (is_full_for_good, &told) {
            (true, Err(WriteError::QuotaExceeded { .. })) | (false, Ok(3)) => (),
            _ => panic!("{is_full_for_good}: {told:?}"),
        }
    }
}
