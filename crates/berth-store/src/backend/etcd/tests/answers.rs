//! Every answer to a write is true.

use super::*;

/// Three writers on two servers change three keys, with values that no other writer uses. Etcd sometimes does not answer, and its watches break. No
/// write that is acknowledged is missing or another's, none that is refused happened, and each watcher sees all of it.
#[test]
fn every_answer_to_a_write_is_true() {
    for seed in 1..60 {
        let test_store = TestStore::new(seed);
        let others = test_store.another();
        let mut watch = others.watch("/registry/pods/", Revision(1)).expect("kept");
        let told: Arc<Mutex<Vec<(Write, Written)>>> = Arc::default();
        let writers = (0..3).map(|writer| {
            let store = if writer == 0 { Arc::clone(&test_store.store) } else { Arc::clone(&others) };
            let (rng, told, model) = (Arc::clone(&test_store.rng), Arc::clone(&told), Arc::clone(&test_store.model));
            test_store.start(async move {
                for round in 0..10 {
                    let key = key(&rng.below(3).to_string());
                    if rng.below(3) == 0 {
                        let millis = || SignedDuration::from_millis(rng.below(6_000) as i64);
                        let faults = [
                            TransactionFault::Lost,
                            TransactionFault::Done,
                            TransactionFault::Late,
                            TransactionFault::Slow { done: millis(), answered: millis() },
                        ];
                        model.kept().faults.push_back(faults[rng.below(4) as usize]);
                    }
                    if rng.below(5) == 0 {
                        model.break_watches();
                    }
                    let current = store.get(&key).await.expect("it is there");
                    let expected = current.map_or(Expected::Absent, |current| Expected::At(current.mod_revision));
                    // What is created names its maker; changes may be alike.
                    let value = if expected != Expected::Absent && rng.below(2) == 0 { "same".into() } else { format!("{writer}-{round}") };
                    let write = match expected {
                        Expected::At(revision) if rng.below(3) == 0 => Write::delete(key, revision),
                        _ => Write::put(key, value.into(), expected, Purpose::Growth),
                    };
                    let written = store.commit(vec![write.clone()]).await.map(|entries| entries[0].mod_revision.0);
                    told.lock().expect("nothing panics under it").push((write, written));
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.iter().for_each(|writer| test_store.finish(writer));
        test_store.pass(20);

        let mut log = test_store.model.kept().log.clone();
        log.retain(|change| change.key.as_str().starts_with("/registry/pods/"));
        let is_it =
            |change: &Change, write: &Write| change.key == write.key && change.put.as_ref().map(|(value, _)| value) == write.value.as_ref();
        // The writer was not answered with a refusal, even where others would have made the same change.
        let mut found = std::collections::BTreeMap::<&Key, u64>::new();
        for change in &log {
            let previous = found.insert(&change.key, if change.put.is_some() { change.revision.0 } else { 0 }).unwrap_or(0);
            let expected = if previous == 0 { Expected::Absent } else { Expected::At(Revision(previous)) };
            let told = told.lock().expect("nothing panics under it");
            let by = told.iter().filter(|(write, _)| is_it(change, write) && write.expected == expected);
            let is_told = by.clone().any(|(_, written)| !matches!(written, Err(WriteError::Conflict { .. })));
            assert!(is_told, "seed {seed}: {change:?} is there, and was refused: {:?}", by.collect::<Vec<_>>());
        }
        let mut claimed = std::collections::BTreeSet::new();
        for (write, written) in told.lock().expect("nothing panics under it").iter() {
            let is_nobody_elses = write.value.as_deref().is_some_and(|value| value != b"same");
            let times = log.iter().filter(|change| is_it(change, write)).count();
            assert!(times < 2 || !is_nobody_elses, "seed {seed}: {write:?} was done {times} times");
            match written {
                Ok(revision) => {
                    assert!(
                        log.iter().any(|change| change.revision.0 == *revision && is_it(change, write)),
                        "seed {seed}: {write:?} is missing"
                    );
                    let is_first = claimed.insert(*revision);
                    // A deleted key is deleted, whichever writer requested it.
                    assert!(is_first || write.value.is_none(), "seed {seed}: two were told that {revision} is theirs");
                }
                Err(WriteError::Conflict { .. }) if is_nobody_elses => {
                    assert!(!log.iter().any(|change| is_it(change, write)), "seed {seed}: {write:?} was refused and is there");
                }
                Err(WriteError::Conflict { .. } | WriteError::Unknown { .. }) => (),
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        let count = log.len();
        let seen = test_store.wait(async move {
            let mut seen = Vec::new();
            while seen.len() < count {
                if let WatchItem::Events(events) = watch.next().await.expect("it goes on").expect("nothing is lost") {
                    seen.extend(events.iter().map(|event| event.entry.mod_revision));
                }
            }
            seen
        });
        assert_eq!(seen, log.iter().map(|change| change.revision).collect::<Vec<_>>(), "seed {seed}");
    }
}
