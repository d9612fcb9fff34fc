//! Archives from anywhere: bytes, lines behind a right beginning, and values of objects. What is read is what was written, and what is let in is an object.

use berth_registry::{
    archive::{Header, Item, Reader, Writer},
    resource,
};
use berth_store::{Key, Revision};

fn header() -> Header {
    Header::new("0", Revision(7), "2026-01-01T00:00:00Z".parse().expect("a time"))
}

/// Everything that can be read.
fn read(bytes: &[u8]) -> (Vec<Item>, bool) {
    let Ok(reader) = Reader::begin(bytes) else { return (Vec::new(), false) };
    let mut items = Vec::new();
    for item in reader {
        match item {
            Ok(item) => items.push(item),
            Err(_) => return (items, false),
        }
    }
    (items, true)
}

/// What is let in is let in again, as it is.
fn value(key: &Key, value: &[u8]) {
    let (resources, now) = (resource::built_in(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    if let Ok(first) = resources.check_archived(key, value, now) {
        let again = resources.check_archived(key, &first.value, now).expect("what was stored can be");
        assert_eq!((again.value, again.unknown), (first.value, Vec::new()));
    }
}

// The first byte chooses what the others are.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    match choice {
        0..80 => {
            let (items, _) = read(bytes);
            assert!(items.windows(2).all(|pair| match pair {
                [Item::Object { key, .. }, Item::Object { key: next, .. }] => key < next,
                [Item::File { .. }, Item::Object { .. }] => false,
                _ => true,
            }));
        }
        80..160 => {
            let mut writer = Writer::begin(Vec::new(), &header()).expect("in memory");
            if writer.object(&Key::new("/a"), bytes).is_err() {
                return;
            }
            let (whole, _) = writer.finish().expect("in memory");
            assert!(matches!(&read(&whole), (items, true) if items.len() == 1));
            let cut = whole.len() * usize::from(choice - 80) / 80;
            assert!(!read(&whole[..cut]).1, "torn, it is not whole");
        }
        _ => {
            let resource = crate::objects::resource_of(choice);
            value(&Key::new(&format!("{}a/b", resource.prefix())), bytes);
            value(&Key::new(&format!("{}b", resource.prefix())), bytes);
        }
    }
}
