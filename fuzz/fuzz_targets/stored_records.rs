//! What comes from the disk: records, the state, the note, journals, and the values in them. Bad bytes are refused, never believed.
#![no_main]

use berth_registry::splice;
use berth_store::{Entry, Key, Layout, Revision, fuzzing};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn records(bytes: &[u8]) {
    let key = "/registry/core/pods/a/b";
    let sealed = fuzzing::sealed(Some(key), bytes);
    // A time stands between the revisions and the value where the first revision's highest bit says so.
    let has_time = bytes.get(7).is_some_and(|byte| byte & 0x80 != 0);
    assert_eq!(fuzzing::object_value(key, &sealed).is_some(), bytes.len() >= if has_time { 24 } else { 16 });
    assert!(fuzzing::object_value("/registry/core/pods/a/c", &sealed).is_none());
    for bytes in [bytes, &sealed[..sealed.len() - 1]] {
        let _ = (fuzzing::object_value(key, bytes), fuzzing::is_state(bytes), fuzzing::is_mark(bytes));
    }
    let _ = fuzzing::is_state(&fuzzing::sealed(None, bytes));
    let (end, _) = fuzzing::journal(bytes);
    assert!(end <= bytes.len() as u64);
}

/// The value of an object, as the store's index and the answers see it.
fn value(choice: u8, bytes: &[u8]) {
    let resource = berth_fuzz::resource_of(choice);
    let key = Key::new(&format!("{}a/b", resource.prefix()));
    let header = berth_fuzz::layout().header(&key, bytes);
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
fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if choice < 100 {
        return records(bytes);
    }
    value(choice, bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(berth_fuzz::layout().resource_prefix(text).is_none_or(|prefix| text.starts_with(prefix)));
    }
});
