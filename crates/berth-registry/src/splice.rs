//! Builds wire forms of a stored object by copying bytes. The stored form has no resource version, which is inserted
//! here.

use berth_store::{Entry, Revision};

/// Returns the whole object with its resource version.
#[must_use]
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(entry.value.len() + 48);
    write_entry(entry, entry.mod_revision, &mut out);
    out
}

/// Appends the whole object with `revision` as its resource version. A watch uses that of the deletion.
pub fn write_entry(entry: &Entry, revision: Revision, out: &mut Vec<u8>) {
    write_from(entry, 0, revision, out);
}

/// Appends the object as an item of a list: with its resource version, without `apiVersion` and `kind`.
pub fn write_item(entry: &Entry, out: &mut Vec<u8>) {
    let from = type_length(&entry.value);
    if from != 0 {
        out.push(b'{');
    }
    write_from(entry, from, entry.mod_revision, out);
}

fn write_from(entry: &Entry, from: usize, revision: Revision, out: &mut Vec<u8>) {
    let at = entry.header.metadata_at as usize;
    // Offset 0 is the empty header of a foreign value, which is copied unchanged.
    if at <= from || entry.value.len() <= at {
        out.extend_from_slice(&entry.value[from..]);
        return;
    }
    out.extend_from_slice(&entry.value[from..at]);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    out.push(b'"');
    if entry.value[at] != b'}' {
        out.push(b',');
    }
    out.extend_from_slice(&entry.value[at..]);
}

/// Returns the length of `{"apiVersion":"…","kind":"…",`, or 0 if the value does not begin with it.
fn type_length(value: &[u8]) -> usize {
    let after_text = |from: usize, lead: &[u8]| {
        let start = from + lead.len();
        value.get(from..)?.starts_with(lead).then_some(())?;
        value[start..].iter().position(|&byte| byte == b'"').map(|length| start + length + 1)
    };
    after_text(0, b"{\"apiVersion\":\"")
        .and_then(|at| after_text(at, b",\"kind\":\""))
        .filter(|&at| value.get(at) == Some(&b','))
        .map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;
    use berth_store::Key;

    fn entry(value: &str) -> Entry {
        Entry {
            key: Key::new("/registry/configmaps/ns/c"),
            header: header::read(&[], value.as_bytes()),
            value: value.to_owned().into(),
            create_revision: Revision(3),
            mod_revision: Revision(7),
        }
    }

    #[test]
    fn resource_version_is_spliced_in() {
        let check = |value: &str, whole: &str, item: &str| {
            let entry = entry(value);
            assert_eq!(String::from_utf8(encode_entry(&entry)).expect("JSON"), whole);
            let mut out = Vec::new();
            write_item(&entry, &mut out);
            assert_eq!(String::from_utf8(out).expect("JSON"), item);
        };
        check(
            r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"metadata":"{"},"metadata":{"name":"c"}}"#,
            r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"metadata":"{"},"metadata":{"resourceVersion":"7","name":"c"}}"#,
            r#"{"data":{"metadata":"{"},"metadata":{"resourceVersion":"7","name":"c"}}"#,
        );
        check(
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"7"}}"#,
            r#"{"metadata":{"resourceVersion":"7"}}"#,
        );
        check("[1]", "[1]", "[1]");
    }

    #[test]
    fn another_revision_can_be_shown() {
        let mut out = Vec::new();
        write_entry(&entry(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#), Revision(9), &mut out);
        assert!(String::from_utf8(out).expect("JSON").contains(r#""resourceVersion":"9","#));
    }
}
