//! What comes from the disk: records, the note, logs, and the values in them. Bad bytes are refused, never believed.

use berth_registry::splice;
use berth_store::{Entry, Key, Layout, Revision, fuzzing};
use serde_json::Value;

fn records(bytes: &[u8]) {
    let _ = (fuzzing::records(bytes), fuzzing::is_note(bytes), fuzzing::faults(bytes));
    // Behind a checksum that is right, and behind a beginning that is right too.
    let (first, chain) = fuzzing::sealed(&fuzzing::beginning(), 0);
    let (second, _) = fuzzing::sealed(bytes, chain);
    assert_eq!(fuzzing::faults(&first), 0);
    let _ = fuzzing::faults(&second);
    let log = [first, second].concat();
    let faults = fuzzing::faults(&log);
    assert!(fuzzing::records(bytes).1 || 0 < faults, "what is no record is a fault");
    // Torn, nothing of it counts.
    assert_eq!(fuzzing::faults(&log[..log.len() - 1]), 0);
}

/// The value of an object, as the store's index and the answers see it.
fn value(choice: u8, bytes: &[u8]) {
    let resource = crate::objects::resource_of(choice);
    let key = Key::new(&format!("{}a/b", resource.prefix()));
    let header = crate::objects::layout().header(&key, bytes);
    assert!(header.labels.is_sorted());
    let (create_revision, mod_revision) = (Revision(3), Revision(7));
    let entry = Entry { key, value: bytes.to_vec().into(), header, create_revision, mod_revision };
    let _ = resource.rules.decode_stored(bytes);
    let shown = splice::encode_entry(&entry);
    let mut item = Vec::new();
    splice::write_item(&entry, &mut item);
    if serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value.is_object()) {
        serde_json::from_slice::<Value>(&shown).expect("an object stays one");
        serde_json::from_slice::<Value>(&item).expect("an object stays one");
    }
}

// The first byte chooses what the others are.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if choice < 100 {
        return records(bytes);
    }
    value(choice, bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(crate::objects::layout().resource_prefix(text).is_none_or(|prefix| text.starts_with(prefix)));
    }
}
