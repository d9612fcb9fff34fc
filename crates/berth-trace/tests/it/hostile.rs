//! Untrusted files: truncated, damaged, too large, invalid. Each is read as far as possible, or rejected with its line
//! and field.

use crate::common::{self, header, objects, recorded, unpacked};
use berth_trace::{Frames, Item, Moment, Naming, Reader, Recorder, TraceError};
use serde_json::{Value, json};

/// Returns all lines up to the end or the error, and where the file is truncated.
fn read(file: &[u8]) -> (Vec<Moment>, Result<Option<String>, String>) {
    let mut reader = match Reader::begin(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Err(error.to_string())),
    };
    let mut moments = Vec::new();
    for moment in &mut reader {
        match moment {
            Ok(moment) => moments.push(moment),
            Err(error) => return (moments, Err(error.to_string())),
        }
    }
    (moments, Ok(reader.torn().map(str::to_owned)))
}

/// Returns the error in a recording of these lines after a valid header.
fn fault(lines: &[String]) -> String {
    let text = [&[header().line()], lines].concat().join("\n") + "\n";
    read(text.as_bytes()).1.expect_err("it is wrong")
}

#[test]
fn what_is_recorded_is_read_back() {
    let file = recorded(Naming::Plain, 1, &objects());
    let (moments, torn) = read(&file);
    assert_eq!(torn, Ok(None));
    assert_eq!(moments.len(), objects().len() + 2);
    // The uncompressed file is equivalent.
    assert_eq!(read(unpacked(&file).as_bytes()).0, moments);
}

#[test]
fn a_torn_file_is_read_up_to_its_last_whole_frame_wherever_it_is_torn() {
    let mut frames = Frames::new(Vec::new(), 0);
    let whole = unpacked(&recorded(Naming::Plain, 1, &objects()));
    let mut ends = Vec::new();
    for line in whole.lines() {
        frames.line(line).and_then(|()| frames.flush()).expect("in memory");
        ends.push(frames.get_ref().len());
    }
    let file = frames.get_ref().clone();
    for cut in ends[0]..file.len() {
        let (moments, torn) = read(&file[..cut]);
        let wanted = ends.iter().filter(|end| **end <= cut).count() - 1;
        let is_at_end = ends.contains(&cut);
        assert!(moments.len() >= wanted, "cut at {cut}: {} of {wanted}", moments.len());
        assert_eq!(torn.map(|torn| torn.is_none()), Ok(is_at_end), "cut at {cut}");
        assert!(!matches!(moments.last(), Some(Moment { item: Item::Ended(_), .. })) || cut == file.len());
    }
    assert!(read(&file[..ends[0] - 1]).1.is_err(), "without a first line it is none");
}

#[test]
fn a_damaged_file_is_never_read_as_another() {
    let file = recorded(Naming::Plain, 1, &objects());
    let right = read(&file).0;
    for place in 0..file.len() {
        let mut damaged = file.clone();
        damaged[place] ^= 0x10;
        let (moments, _) = read(&damaged);
        assert!(moments.len() <= right.len());
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_large() {
    // 64 MiB in one line, compressed to a few kilobytes.
    let mut bomb = zstd::bulk::compress(format!("{}\n", header().line()).as_bytes(), 3).expect("it can be compressed");
    bomb.extend(zstd::bulk::compress(&vec![b' '; 64 << 20], 19).expect("it can be compressed"));
    assert!(bomb.len() < 100_000);
    let refused = read(&bomb).1.expect_err("it is too large");
    assert_eq!(refused, "line 2: more than 1048576 bytes in a line");
    // A frame with a larger window than any that berth writes.
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.window_log(27).expect("zstd knows it");
    std::io::Write::write_all(&mut encoder, format!("{}\n", header().line()).as_bytes()).expect("in memory");
    let wide = encoder.finish().expect("in memory");
    assert!(read(&wide).1.is_err_and(|error| error.contains("not a recording")));
}

#[test]
fn what_is_no_recording_is_refused() {
    let refused = |file: &[u8]| Reader::begin(file).map(|_| ()).expect_err("it is none").to_string();
    assert!(refused(b"").contains("it is empty"));
    assert!(refused(b"{}\n").contains("is not a header"));
    assert!(refused(b"{\"trace\": \"berth\"").contains("line 1 is incomplete"));
    assert!(refused(b"PK\x03\x04").contains("cannot read the file"));
    assert!(matches!(Reader::begin(&b"{\"trace\": \"berth\", \"version\": 3}\n"[..]), Err(TraceError::Version(3))));
    let with = |member: &str, value: Value| {
        let mut line: Value = serde_json::from_str(&header().line()).expect("JSON");
        line[member] = value;
        refused(format!("{line}\n").as_bytes())
    };
    assert!(with("at", json!("9999-01-01T00:00:00Z")).contains("line 1: at"));
    assert!(with("controllers", json!("mine")).contains("line 1: controllers"));
    assert!(with("because", json!("\u{1b}[2J")).contains("line 1: because"));
    assert!(with("missing", json!(["secrets"])).contains("line 1: missing"));
}

#[test]
fn a_fault_has_its_line_and_its_field() {
    let check = |line: Value, wanted: &str| {
        let found = fault(&[r#"{"ms":5,"listed":true}"#.to_owned(), line.to_string()]);
        assert!(found.starts_with("line 3: ") && found.contains(wanted), "{found}");
    };
    let text = unpacked(&recorded(Naming::Plain, 1, &objects()));
    let puts: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let changed = |index: usize, pointer: &str, value: Value| {
        let mut line = puts[index].clone();
        line["ms"] = json!(7);
        let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
        line.pointer_mut(parent).expect("it is there")[member] = value;
        line
    };
    check(json!({"ms": 4, "listed": true}), "ms goes back from 5 to 4");
    check(json!({"ms": u64::MAX, "listed": true}), "ms is beyond 400 days");
    check(json!({"ms": -1, "listed": true}), "ms is not a number");
    check(json!({"ms": 7}), "does not contain exactly one event");
    check(json!({"ms": 7, "listed": true, "ended": "time"}), "does not contain exactly one event");
    check(json!({"ms": 7, "do": "rm -rf"}), r#"has an unknown member "do""#);
    check(json!({"ms": 7, "put": {"kind": "Secret"}}), r#"put.kind is "Secret""#);
    check(json!({"ms": 7, "gone": {"kind": "Pod", "namespace": "a/b", "name": "c"}}), "gone does not identify an object");
    check(changed(0, "/put/spec/replicas", json!(3_000_000_000_u64)), "put.spec.replicas 3000000000 is not from 0 to 200000");
    check(changed(0, "/put/spec/replicas", json!("3")), "put.spec.replicas is not an integer");
    check(
        changed(0, "/put/spec/template/spec/containers/0/env", json!([])),
        r#"put.spec.template.spec.containers[0] has an unknown member "env""#,
    );
    check(
        changed(0, "/put/spec/template/spec/containers/0/image", json!("nginx")),
        "put.spec.template.spec.containers[0].image \"nginx\" is not a template hash",
    );
    check(changed(0, "/put/metadata/name", json!("a".repeat(300))), "put.metadata.name");
    check(changed(0, "/put/metadata/namespace", json!("")), "put.metadata.namespace");
    check(changed(0, "/put/metadata/annotations", json!({"x": "y"})), "put.metadata.annotations has an unknown member");
    check(changed(9, "/put/metadata/creationTimestamp", json!("-009999-01-02T01:59:59Z")), "put.metadata.creationTimestamp");
    check(changed(5, "/put/spec/hard/pods", json!("1e90")), "put.spec.hard[\"pods\"] \"1e90\" is not a quantity within the limits");
    let many = json!({"type": "Ready", "status": "True"});
    check(changed(9, "/put/status/conditions", json!(vec![many; 33])), "put.status.conditions has 33 entries");
    assert!(fault(&["[".repeat(10_000)]).contains("line 2: it is not JSON"));
}

/// A server, or an impostor, may send any value in any field.
#[test]
fn an_object_that_is_none_is_passed_over_or_kept_as_far_as_it_fits() {
    let places = [
        "",
        "/metadata",
        "/spec",
        "/status",
        "/spec/template",
        "/spec/template/spec",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/0",
    ];
    let places = places.into_iter().chain([
        "/data",
        "/spec/containers",
        "/spec/containers/0",
        "/status/containerStatuses",
        "/status/containerStatuses/0",
    ]);
    let places: Vec<&str> =
        places.chain(["/data/spec", "/data/spec/template", "/data/spec/template/spec", "/template", "/template/spec"]).collect();
    let odd = [Value::Null, json!("x"), json!(1), json!(true), json!([]), json!([1]), json!({})];
    let mut tried = 0;
    for object in objects() {
        for place in &places {
            for value in &odd {
                let mut wrong = object.clone();
                let Some(at) = wrong.pointer_mut(place) else { continue };
                at.clone_from(value);
                // The kind comes from the list, not from the object.
                if let Some(members) = wrong.as_object_mut() {
                    members.insert("kind".to_owned(), object["kind"].clone());
                }
                let mut recorder = Recorder::new(Naming::Plain, &[1; 32], common::at(0));
                recorder.put(common::kind(object["kind"].as_str().expect("a kind")), &wrong, common::at(0));
                recorder.listed(common::at(0));
                let lines = recorder.take_lines();
                assert!(fault_free(&lines), "{wrong}");
                tried += 1;
            }
        }
    }
    assert!(100 < tried, "{tried}");
}

/// Whether lines after a valid header are accepted.
fn fault_free(lines: &[String]) -> bool {
    let text = [&[header().line()], lines].concat().join("\n") + "\n";
    read(text.as_bytes()).1.is_ok()
}
