//! Histories on disk.

use crate::serial_store::{Choice, SerialStore, create, created, deleted, got_none, update, watched};
use berth_linear::{Event, Outcome, Reason, ResourceVersion, from_lines};

#[test]
fn a_line_is_one_operation_and_reads_like_one() {
    assert_eq!(
        created((3, 4), "a", "1", 5).to_line(),
        concat!(
            r#"{"client":"client","invoked":3,"returned":4,"request":{"create":{"key":"configmaps/default/a","value":"1","#,
            r#""outcome":{"ok":{"value":"1","resourceVersion":5}}}}}"#,
            "\n"
        )
    );
    assert_eq!(
        update((3, 4), "a", "1", Some(5), Outcome::Refused(Reason::Conflict)).to_line(),
        concat!(
            r#"{"client":"client","invoked":3,"returned":4,"request":{"update":{"key":"configmaps/default/a","value":"1","#,
            r#""preconditions":{"resourceVersion":5},"outcome":{"refused":"conflict"}}}}"#,
            "\n"
        )
    );
}

#[test]
fn what_was_written_is_read_again() {
    let choice = |at: usize| Choice { name: at, kind: (at * 7 % 10) as u8, early: 50, late: 60, fate: (at * 5 % 6) as u8 };
    let store = SerialStore::after(&(0..60).map(choice).collect::<Vec<_>>());
    let mut history = store.operations.clone();
    history.push(store.watch(0, store.version, 10));
    history.push(create((0, 1), "x", "1", Outcome::Unknown));
    history.push(deleted((0, 1), "x"));
    history.push(got_none((0, 1), "x"));
    history.push(watched((0, 9), 5, vec![(3, Event::Bookmark(ResourceVersion(6)))]));
    let lines: String = history.iter().map(berth_linear::Operation::to_line).collect();
    assert_eq!(from_lines(&lines).unwrap(), history);
    assert_eq!(from_lines(lines.trim_end()).unwrap(), history);
}

#[test]
fn a_line_that_is_none_is_named() {
    let lines = format!("{}\n{{\"client\":", created((0, 1), "a", "1", 5).to_line());
    let error = from_lines(&lines).unwrap_err();
    assert_eq!((error.line, error.to_string().as_str()), (3, "line 3 is no recorded operation"));
    let misspelt = created((0, 1), "a", "1", 5).to_line().replace("resourceVersion", "version");
    assert_eq!(from_lines(&misspelt).unwrap_err().line, 1);
}
