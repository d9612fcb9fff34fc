//! Histories of single objects.

use crate::serial_store::{create, created, delete, deleted, fails, get, got, got_none, holds, object, update, updated};
use berth_linear::{Deleted, Freshness, Object, Outcome, Reason, ResourceVersion, Uid};

#[test]
fn what_overlaps_may_have_been_in_either_order() {
    holds(&[created((0, 9), "a", "1", 5), got_none((1, 8), "a"), got((2, 7), "a", "1", 5)]);
    holds(&[created((0, 1), "a", "1", 5), updated((2, 9), "a", "2", None, 7), got((3, 4), "a", "2", 7), got((5, 6), "a", "2", 7)]);
    holds(&[created((0, 1), "a", "1", 5), deleted((2, 9), "a"), got((3, 4), "a", "1", 5), got_none((5, 6), "a")]);
}

#[test]
fn what_has_no_known_outcome_may_have_been_or_not() {
    let unknown = create((0, 1), "a", "1", Outcome::Unknown);
    holds(&[unknown.clone(), got_none((2, 3), "a")]);
    holds(&[unknown.clone(), got_none((2, 3), "a"), got((4, 5), "a", "1", 5)]);
    holds(&[
        unknown.clone(),
        create((2, 3), "a", "2", Outcome::Refused(Reason::AlreadyExists)),
        deleted((4, 5), "a"),
        created((6, 7), "a", "3", 9),
    ]);
    // A request that was given up may still be executed.
    holds(&[
        created((0, 1), "a", "1", 5),
        delete((2, 3), "a", None, Outcome::Unknown),
        got((4, 5), "a", "1", 5),
        got_none((6, 7), "a"),
        created((8, 9), "a", "2", 8),
    ]);
}

#[test]
fn what_has_no_known_outcome_cannot_have_been_twice() {
    fails(
        &[
            created((0, 1), "a", "1", 5),
            delete((2, 3), "a", None, Outcome::Unknown),
            got_none((4, 5), "a"),
            created((6, 7), "a", "2", 8),
            got_none((8, 9), "a"),
        ],
        r#"
        configmaps/default/a: no order explains these
          client [6-7] create configmaps/default/a as "2": at 8
          client [8-9] get configmaps/default/a: NotFound
        "#,
    );
}

#[test]
fn a_stale_read_is_found() {
    fails(
        &[created((0, 1), "a", "1", 5), updated((2, 3), "a", "2", Some(5), 7), got((4, 5), "a", "1", 5)],
        r#"
        configmaps/default/a: a stale read
          client [2-3] update configmaps/default/a to "2" if at 5: at 7   at 7 it was no longer so, version 7 was seen here
          client [4-5] get configmaps/default/a: "1" at 5   older, but asked later
        "#,
    );
}

#[test]
fn a_read_that_is_older_than_what_another_had_seen_is_found() {
    // The write itself is on its way all the time.
    fails(
        &[created((0, 1), "a", "1", 5), updated((2, 9), "a", "2", None, 7), got((3, 4), "a", "2", 7), got((5, 6), "a", "1", 5)],
        r#"
        configmaps/default/a: a stale read
          client [2-9] update configmaps/default/a to "2": at 7   at 7 it was no longer so
          client [3-4] get configmaps/default/a: "2" at 7   version 7 was seen here
          client [5-6] get configmaps/default/a: "1" at 5   older, but asked later
        "#,
    );
}

#[test]
fn a_read_that_is_older_than_what_was_seen_of_another_object_is_found() {
    fails(
        &[created((0, 1), "a", "1", 5), updated((2, 9), "a", "2", None, 7), created((2, 3), "b", "3", 8), got((4, 5), "a", "1", 5)],
        r#"
        configmaps/default/a: a stale read
          client [2-9] update configmaps/default/a to "2": at 7   at 7 it was no longer so
          client [2-3] create configmaps/default/b as "3": at 8   version 8 was seen here
          client [4-5] get configmaps/default/a: "1" at 5   older, but asked later
        "#,
    );
}

#[test]
fn who_sees_that_an_object_is_gone_sees_nothing_older_later() {
    let known = |absent| {
        let deletion = Deleted { uid: None, resource_version: Some(ResourceVersion(7)) };
        [
            created((0, 1), "a", "1", 5),
            created((0, 1), "b", "2", 4),
            delete((2, 9), "a", None, Outcome::Ok(deletion)),
            updated((2, 9), "b", "3", None, 6),
            absent,
            got((5, 6), "b", "2", 4),
        ]
    };
    holds(&known(got((3, 4), "a", "1", 5)));
    fails(
        &known(got_none((3, 4), "a")),
        r#"
        configmaps/default/b: a stale read
          client [2-9] delete configmaps/default/a: deleted at 7   version 7 was seen here
          client [2-9] update configmaps/default/b to "3": at 6   at 6 it was no longer so
          client [5-6] get configmaps/default/b: "2" at 4   older, but asked later
        "#,
    );
}

#[test]
fn reads_that_need_not_be_new_may_be_old_but_not_older_than_was_asked() {
    let history = |freshness| {
        [created((0, 1), "a", "1", 5), updated((2, 3), "a", "2", None, 7), get((4, 5), "a", freshness, Outcome::Ok(object("1", 5)))]
    };
    holds(&history(Freshness::Any));
    holds(&history(Freshness::NotOlderThan(ResourceVersion(6))));
    fails(
        &history(Freshness::NotOlderThan(ResourceVersion(7))),
        r#"
        configmaps/default/a: a stale read
          client [2-3] update configmaps/default/a to "2": at 7   at 7 it was no longer so
          client [4-5] get configmaps/default/a not older than 7: "1" at 5   older, but asked later, version 7 was seen here
        "#,
    );
    // What an old read shows has been, all the same: who asks later sees no less.
    fails(
        &[
            created((0, 1), "a", "1", 5),
            updated((2, 9), "a", "2", None, 7),
            get((3, 4), "a", Freshness::Any, Outcome::Ok(object("2", 7))),
            got((5, 6), "a", "1", 5),
        ],
        r#"
        configmaps/default/a: a stale read
          client [2-9] update configmaps/default/a to "2": at 7   at 7 it was no longer so
          client [3-4] get configmaps/default/a as of any time: "2" at 7   version 7 was seen here
          client [5-6] get configmaps/default/a: "1" at 5   older, but asked later
        "#,
    );
}

#[test]
fn a_lost_update_is_found() {
    fails(
        &[created((0, 1), "a", "1", 5), updated((2, 5), "a", "2", Some(5), 7), updated((3, 4), "a", "3", Some(5), 8)],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": at 5
          client [3-4] update configmaps/default/a to "3" if at 5: at 8
        "#,
    );
}

#[test]
fn a_lost_write_is_found() {
    fails(
        &[created((0, 1), "a", "1", 5), got_none((2, 3), "a")],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": at 5
          client [2-3] get configmaps/default/a: NotFound
        "#,
    );
    // One of unknown outcome that was seen is there to stay.
    fails(
        &[create((0, 1), "a", "1", Outcome::Unknown), got((2, 3), "a", "1", 5), got_none((4, 5), "a")],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": outcome unknown
          client [2-3] get configmaps/default/a: "1" at 5
          client [4-5] get configmaps/default/a: NotFound
        "#,
    );
}

#[test]
fn a_double_create_is_found() {
    let twice = [created((0, 3), "a", "1", 5), created((1, 2), "a", "2", 7)];
    fails(
        &twice,
        r#"
        configmaps/default/a: no order explains these
          client [1-2] create configmaps/default/a as "2": at 7
        "#,
    );
    holds(&[&twice[..], &[deleted((0, 3), "a")]].concat());
}

#[test]
fn a_resurrected_object_is_found() {
    fails(
        &[created((0, 1), "a", "1", 5), deleted((2, 3), "a"), got((4, 5), "a", "1", 5)],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": at 5
          client [2-3] delete configmaps/default/a: deleted
          client [4-5] get configmaps/default/a: "1" at 5
        "#,
    );
    fails(
        &[created((0, 1), "a", "1", 5), deleted((2, 3), "a"), updated((4, 5), "a", "2", None, 8)],
        r#"
        configmaps/default/a: no order explains these
          client [2-3] delete configmaps/default/a: deleted
          client [4-5] update configmaps/default/a to "2": at 8
        "#,
    );
}

#[test]
fn refusals_without_a_reason_are_found() {
    fails(
        &[create((0, 1), "a", "1", Outcome::Refused(Reason::AlreadyExists))],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": AlreadyExists
        "#,
    );
    fails(
        &[created((0, 1), "a", "1", 5), update((2, 3), "a", "2", Some(5), Outcome::Refused(Reason::Conflict))],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": at 5
          client [2-3] update configmaps/default/a to "2" if at 5: Conflict
        "#,
    );
    holds(&[created((0, 1), "a", "1", 5), update((2, 3), "a", "2", Some(4), Outcome::Refused(Reason::Conflict))]);
    // A refusal for another reason proves nothing.
    holds(&[created((0, 1), "a", "1", 5), update((2, 3), "a", "2", None, Outcome::Refused(Reason::Other))]);
}

#[test]
fn writes_out_of_the_order_of_their_versions_are_found() {
    fails(
        &[created((0, 1), "a", "1", 9), created((2, 3), "b", "2", 7)],
        r#"
        configmaps/default/b: a write got version 7, though 9 had been seen before it began
          client [0-1] create configmaps/default/a as "1": at 9   version 9 was seen here
          client [2-3] create configmaps/default/b as "2": at 7   older, but asked later
        "#,
    );
    holds(&[created((0, 2), "a", "1", 9), created((1, 3), "b", "2", 7)]);
    fails(
        &[created((0, 2), "a", "1", 9), created((1, 3), "b", "2", 9)],
        r#"
        configmaps/default/b: its version 9 is one of configmaps/default/a too
          client [0-2] create configmaps/default/a as "1": at 9
          client [1-3] create configmaps/default/b as "2": at 9
        "#,
    );
}

#[test]
fn a_deletion_precedes_operations_that_began_after_it() {
    let history = |version| [created((0, 1), "a", "1", 5), deleted((2, 3), "a"), created((4, 5), "b", "2", version)];
    holds(&history(7));
    // There is no version left for it.
    fails(
        &history(6),
        r#"
        configmaps/default/a: no order explains these
          client [2-3] delete configmaps/default/a: deleted
          client [4-5] create configmaps/default/b as "2": at 6   what returned before is no later than 5
        "#,
    );
}

#[test]
fn answers_that_contradict_each_other_are_found() {
    let made = created((0, 1), "a", "1", 5);
    fails(
        &[made.clone(), got((0, 3), "a", "1", 7)],
        r#"
        configmaps/default/a: one write was seen at two versions
          client [0-1] create configmaps/default/a as "1": at 5
          client [0-3] get configmaps/default/a: "1" at 7
        "#,
    );
    fails(
        &[made.clone(), updated((0, 3), "a", "2", None, 5)],
        r#"
        configmaps/default/a: two values were seen at one version
          client [0-1] create configmaps/default/a as "1": at 5
          client [0-3] update configmaps/default/a to "2": at 5
        "#,
    );
    fails(
        &[create((0, 1), "a", "1", Outcome::Ok(object("2", 5))), updated((2, 3), "a", "2", None, 5)],
        r#"
        configmaps/default/a: a write was answered with another value
          client [0-1] create configmaps/default/a as "1": at 5
          client [2-3] update configmaps/default/a to "2": at 5
        "#,
    );
    let of_uid = |uid: &str| Outcome::Ok(Object { uid: Some(Uid(uid.to_owned())), ..object("1", 5) });
    let seen = |uid: &str| [create((0, 1), "a", "1", of_uid("one")), get((2, 3), "a", Freshness::MostRecent, of_uid(uid))];
    holds(&seen("one"));
    fails(
        &seen("other"),
        r#"
        configmaps/default/a: one version was seen with two uids
          client [0-1] create configmaps/default/a as "1": at 5
          client [2-3] get configmaps/default/a: "1" at 5
        "#,
    );
}

#[test]
fn an_object_is_deleted_once() {
    let gone = |uid: &str| Outcome::Ok(Deleted { uid: Some(Uid(uid.to_owned())), resource_version: None });
    let made = create((0, 1), "a", "1", Outcome::Ok(Object { uid: Some(Uid("one".to_owned())), ..object("1", 5) }));
    holds(&[made.clone(), delete((2, 3), "a", None, gone("one")), created((4, 5), "a", "2", 8), delete((6, 7), "a", None, gone("other"))]);
    fails(
        &[made.clone(), delete((2, 3), "a", None, gone("one")), created((4, 5), "a", "2", 8), delete((6, 7), "a", None, gone("one"))],
        r#"
        configmaps/default/a: one object was deleted twice
          client [2-3] delete configmaps/default/a: deleted
          client [6-7] delete configmaps/default/a: deleted
        "#,
    );
    fails(
        &[made, delete((2, 3), "a", None, gone("other"))],
        r#"
        configmaps/default/a: no order explains these
          client [2-3] delete configmaps/default/a: deleted
        "#,
    );
}
