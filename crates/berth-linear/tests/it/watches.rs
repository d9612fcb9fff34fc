//! Watches: every change once, in order.

use crate::serial_store::{create, created, deleted, fails, got, holds, item, updated, watched};
use berth_linear::{Event, Operation, Outcome, Reason, ResourceVersion};

fn added(name: &str, value: &str, version: u64) -> Event {
    Event::Added(item(name, value, version))
}

fn modified(name: &str, value: &str, version: u64) -> Event {
    Event::Modified(item(name, value, version))
}

fn gone(name: &str, value: &str, version: u64) -> Event {
    Event::Deleted(item(name, value, version))
}

/// Four changes, and a watch that delivers these.
fn with(events: &[Event]) -> Vec<Operation> {
    let events = events.iter().cloned().map(|event| (20, event)).collect();
    vec![
        created((0, 1), "a", "1", 5),
        updated((2, 3), "a", "2", None, 7),
        deleted((4, 5), "a"),
        created((6, 7), "b", "3", 9),
        watched((8, 30), 5, events),
    ]
}

#[test]
fn a_watch_delivers_every_change_behind_its_beginning() {
    let all = [modified("a", "2", 7), gone("a", "2", 8), added("b", "3", 9)];
    for some in 0..=3 {
        holds(&with(&all[..some]));
    }
    holds(&with(&[&all[..], &[Event::Bookmark(ResourceVersion(9))]].concat()));
    holds(&with(&[&all[..], &[Event::Bookmark(ResourceVersion(20))]].concat()));
}

#[test]
fn a_watch_that_misses_a_change_is_found() {
    fails(
        &with(&[gone("a", "2", 8), added("b", "3", 9)]),
        r#"
        a watch misses the change of configmaps/default/a at 7, between 5 and 9
          client [2-3] update configmaps/default/a to "2": at 7   the change
          client [8-30] watch configmaps/ from 5: 2 events up to 9
        "#,
    );
    fails(
        &with(&[modified("a", "2", 7), gone("a", "2", 8), Event::Bookmark(ResourceVersion(9))]),
        r#"
        a watch misses the change of configmaps/default/b at 9, between 5 and 9
          client [6-7] create configmaps/default/b as "3": at 9   the change
          client [8-30] watch configmaps/ from 5: 3 events up to 9
        "#,
    );
}

#[test]
fn a_watch_that_misses_a_deletion_is_found_though_no_other_client_knows_its_version() {
    fails(
        &with(&[modified("a", "2", 7), added("b", "3", 9)]),
        r#"
        configmaps/default/a: no order explains these
          client [4-5] delete configmaps/default/a: deleted
          client [6-7] create configmaps/default/b as "3": at 9   what returned before is no later than 8
          client [8-30] watch configmaps/ from 5: 2 events up to 9   leaves no room for what it does not show between 5 and 9
        "#,
    );
}

#[test]
fn a_watch_that_doubles_or_reorders_is_found() {
    fails(
        &with(&[modified("a", "2", 7), modified("a", "2", 7), gone("a", "2", 8)]),
        r#"
        a watch delivers twice: MODIFIED configmaps/default/a "2" at 7
          client [8-30] watch configmaps/ from 5: 3 events up to 8
        "#,
    );
    fails(
        &with(&[modified("a", "2", 7), added("b", "3", 9), gone("a", "2", 8)]),
        r#"
        a watch delivers out of order: DELETED configmaps/default/a "2" at 8 after 9
          client [8-30] watch configmaps/ from 5: 3 events up to 8
        "#,
    );
    fails(
        &with(&[added("a", "1", 5), modified("a", "2", 7)]),
        r#"
        a watch delivers out of order: ADDED configmaps/default/a "1" at 5 after 5
          client [8-30] watch configmaps/ from 5: 2 events up to 7
        "#,
    );
    fails(
        &with(&[modified("a", "2", 7), gone("a", "2", 8), Event::Bookmark(ResourceVersion(7))]),
        r#"
        a watch delivers BOOKMARK at 7 after 8
          client [8-30] watch configmaps/ from 5: 3 events up to 7
        "#,
    );
}

#[test]
fn a_watch_with_an_invented_change_is_found() {
    fails(
        &with(&[modified("a", "other", 7)]),
        r#"
        configmaps/default/a: no client wrote "other"
          client [8-30] watch configmaps/ from 5: 1 events up to 7
        "#,
    );
    fails(
        &with(&[added("a", "2", 7)]),
        r#"
        a watch takes a create for an update or the other way round: ADDED configmaps/default/a "2" at 7
          client [2-3] update configmaps/default/a to "2": at 7   the write
          client [8-30] watch configmaps/ from 5: 1 events up to 7
        "#,
    );
    fails(
        &with(&[modified("a", "2", 7), gone("a", "1", 8)]),
        r#"
        a watch delivers DELETED configmaps/default/a "1" at 8, but it was last changed at 7
          client [2-3] update configmaps/default/a to "2": at 7   the change
          client [8-30] watch configmaps/ from 5: 2 events up to 8
        "#,
    );
    let refused = create((0, 1), "c", "4", Outcome::Refused(Reason::Other));
    fails(
        &[&with(&[modified("a", "2", 7), gone("a", "2", 8), added("c", "4", 9)])[..], &[refused]].concat(),
        r#"
        configmaps/default/c: a write that was refused was seen
          client [0-1] create configmaps/default/c as "4": Other
          client [8-30] watch configmaps/ from 5: 3 events up to 9
        "#,
    );
}

#[test]
fn after_a_watch_no_client_sees_older_versions() {
    let history =
        [created((0, 1), "a", "1", 5), updated((2, 40), "a", "2", None, 7), watched((2, 30), 5, vec![(20, modified("a", "2", 7))])];
    holds(&[&history[..], &[got((19, 21), "a", "1", 5)]].concat());
    fails(
        &[&history[..], &[got((21, 22), "a", "1", 5)]].concat(),
        r#"
        configmaps/default/a: a stale read
          client [2-40] update configmaps/default/a to "2": at 7   at 7 it was no longer so
          client [2-30] watch configmaps/ from 5: 1 events up to 7   version 7 was seen here
          client [21-22] get configmaps/default/a: "1" at 5   older, but asked later
        "#,
    );
}
