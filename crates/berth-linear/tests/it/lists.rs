//! Lists: everything as of one version.

use crate::serial_store::{created, deleted, fails, got_none, holds, item, list, listed, operation, updated};
use berth_linear::{Freshness, Listed, Outcome, Prefix, Request, ResourceVersion};

#[test]
fn a_list_is_everything_as_of_its_version() {
    let history = [created((0, 1), "a", "1", 5), updated((2, 9), "a", "2", None, 8), created((2, 9), "b", "3", 7)];
    let with = |list| [&history[..], &[list]].concat();
    holds(&with(listed((3, 8), 6, &[("a", "1", 5)])));
    holds(&with(listed((3, 8), 7, &[("a", "1", 5), ("b", "3", 7)])));
    holds(&with(listed((3, 8), 8, &[("b", "3", 7), ("a", "2", 8)])));
    fails(
        &with(listed((3, 8), 8, &[("a", "1", 5), ("b", "3", 7)])),
        r#"
        a list as of 8 shows configmaps/default/a at 5, though it was changed at 8
          client [2-9] update configmaps/default/a to "2": at 8   the change
          client [3-8] list configmaps/: 2 objects at 8
        "#,
    );
    fails(
        &with(listed((3, 8), 8, &[("a", "2", 8)])),
        r#"
        a list as of 8 leaves out configmaps/default/b, which is there since 7
          client [2-9] create configmaps/default/b as "3": at 7   the change
          client [3-8] list configmaps/: 1 objects at 8
        "#,
    );
    fails(
        &with(listed((3, 8), 7, &[("a", "2", 8), ("b", "3", 7)])),
        r#"
        a list as of 7 shows configmaps/default/a at 8
          client [3-8] list configmaps/: 2 objects at 7
        "#,
    );
}

#[test]
fn a_list_shows_what_it_is_of_and_each_object_once() {
    let made = created((0, 1), "a", "1", 5);
    let list = |prefix: &str, items| {
        let outcome = Outcome::Ok(Listed { resource_version: ResourceVersion(5), items });
        operation((2, 3), Request::List { prefix: Prefix(prefix.to_owned()), freshness: Freshness::MostRecent, outcome })
    };
    holds(&[made.clone(), list("configmaps/other/", Vec::new())]);
    fails(
        &[made.clone(), list("configmaps/other/", vec![item("a", "1", 5)])],
        "a list of configmaps/other/ shows configmaps/default/a
           client [2-3] list configmaps/other/: 1 objects at 5",
    );
    fails(
        &[made, list("configmaps/", vec![item("a", "1", 5), item("a", "1", 5)])],
        "a list shows configmaps/default/a twice
           client [2-3] list configmaps/: 2 objects at 5",
    );
}

#[test]
fn a_stale_list_is_found() {
    let history = [created((0, 1), "a", "1", 5), created((2, 3), "b", "2", 7)];
    let with = |list| [&history[..], &[list]].concat();
    fails(
        &with(listed((4, 5), 6, &[("a", "1", 5)])),
        r#"
        a stale list: as of 6, though 7 had been seen before it began
          client [2-3] create configmaps/default/b as "2": at 7   version 7 was seen here
          client [4-5] list configmaps/: 1 objects at 6   older, but asked later
        "#,
    );
    holds(&with(list((4, 5), Freshness::Any, 6, &[("a", "1", 5)])));
    holds(&with(list((4, 5), Freshness::NotOlderThan(ResourceVersion(6)), 6, &[("a", "1", 5)])));
    holds(&with(list((4, 5), Freshness::Exact(ResourceVersion(6)), 6, &[("a", "1", 5)])));
    fails(
        &with(list((4, 5), Freshness::Exact(ResourceVersion(5)), 6, &[("a", "1", 5)])),
        "a list as of 6 where 5 was asked for
           client [4-5] list configmaps/ as of 5: 1 objects at 6",
    );
}

#[test]
fn what_a_list_leaves_out_was_not_there_at_its_version() {
    let history = |list_at, deletion| {
        [created((0, 1), "a", "1", 5), deleted(deletion, "a"), created((0, 9), "b", "2", 4), listed((2, 3), list_at, &[("b", "2", 4)])]
    };
    // The deletion has a version up to the list's.
    holds(&history(6, (2, 3)));
    fails(
        &history(5, (2, 3)),
        r#"
        configmaps/default/a: no order explains these
          client [2-3] list configmaps/: 1 objects at 5   does not show it at 5
        "#,
    );
}

#[test]
fn what_a_list_shows_was_there_up_to_its_version() {
    let history = [created((0, 1), "a", "1", 5), deleted((2, 3), "a"), listed((2, 9), 9, &[("a", "1", 5)]), created((4, 5), "b", "2", 12)];
    // The deletion got 10 or 11.
    holds(&history);
    fails(
        &[&history[..3], &[created((4, 5), "b", "2", 10)]].concat(),
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": at 5
          client [2-3] delete configmaps/default/a: deleted
          client [2-9] list configmaps/: 1 objects at 9   leaves no room for what it does not show between 5 and 9
          client [4-5] create configmaps/default/b as "2": at 10   what returned before is no later than 9
        "#,
    );
    // Who saw it gone before the list was asked for knows better.
    fails(
        &[created((0, 1), "a", "1", 5), deleted((2, 9), "a"), got_none((3, 4), "a"), listed((5, 6), 9, &[("a", "1", 5)])],
        r#"
        configmaps/default/a: no order explains these
          client [0-1] create configmaps/default/a as "1": at 5   version 5 was seen here
          client [3-4] get configmaps/default/a: NotFound
          client [5-6] list configmaps/: 1 objects at 9   leaves no room for what it does not show between 5 and 9, what returned before is no later than 9
        "#,
    );
}
