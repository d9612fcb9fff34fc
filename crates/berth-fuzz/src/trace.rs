//! Recordings from anywhere: bytes, lines behind a right beginning, objects of a cluster to be recorded. What is read fits, and what is recorded is read.

use berth_trace::{Ended, Frames, Header, Item, KINDS, Measured, Naming, Reader, Recorder};
use std::time::Duration;

fn header() -> Header {
    let at = "2026-01-01T00:00:00Z".parse().expect("a time");
    Header { at, controllers: "berth".into(), because: "x".into(), is_hashed: false, namespace: None, missing: Vec::new() }
}

/// How many lines can be read, and whether that is all.
fn read(bytes: &[u8]) -> (usize, bool) {
    let Ok(mut reader) = Reader::begin(bytes) else { return (0, false) };
    let (mut count, mut last) = (0, Duration::ZERO);
    for moment in &mut reader {
        let Ok(moment) = moment else { return (count, false) };
        assert!(last <= moment.at, "time does not go back");
        if let Item::Put(object) = &moment.item {
            assert!(KINDS.iter().any(|kind| object["kind"] == kind.kind));
        }
        (last, count) = (moment.at, count + 1);
    }
    (count, reader.torn().is_none())
}

// The first byte chooses what the others are.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    match choice {
        0..60 => _ = read(bytes),
        60..160 => {
            let text = [header().line().as_bytes(), b"\n", bytes].concat();
            _ = read(&text);
        }
        _ => {
            let kind = &KINDS[usize::from(choice) % KINDS.len()];
            let Ok(object) = serde_json::from_slice(bytes) else { return };
            let (at, naming) = (header().at, if choice % 2 == 0 { Naming::Plain } else { Naming::Hashed });
            let mut recorder = Recorder::new(naming, &[choice; 32], at);
            recorder.put(kind, &object, at);
            recorder.usage(std::slice::from_ref(&object), Measured::All, at);
            recorder.listed(at);
            let mut frames = Frames::new(Vec::new(), 0);
            frames.line(&header().line()).expect("in memory");
            let lines = recorder.take_lines();
            lines.iter().for_each(|line| frames.line(line).expect("in memory"));
            let file = frames.finish(&recorder.ended(Ended::Stopped, at)).expect("in memory");
            assert_eq!(read(&file), (lines.len() + 1, true), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
