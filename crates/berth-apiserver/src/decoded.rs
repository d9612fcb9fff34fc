//! Estimates the memory of a decoded JSON document from its bytes, without decoding it.
//!
//! The size on the wire is a poor estimate: the two bytes `{}` can become a container of some thousand bytes. That
//! includes its defaults, its errors, and its copies in a patch.

/// The memory of an object or a list, in bytes: a struct of the kind, its tree, and a set of owned fields.
const COLLECTION_BYTES: usize = 3 << 10;
/// The additional memory of a member or an element, in bytes.
const VALUE_BYTES: usize = 256;
/// The number of copies of texts: in the body, the tree, the object, and the response.
const TEXT_COPIES: usize = 4;

/// Returns the maximum memory of the document during a write. Costs one pass, linear.
pub(crate) fn decoded_bytes(json: &[u8]) -> usize {
    let (mut collections, mut values, mut is_text, mut is_escaped) = (0_usize, 0_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => (),
            b'{' | b'[' => collections += 1,
            b',' | b':' => values += 1,
            _ => (),
        }
    }
    let structure = collections.saturating_mul(COLLECTION_BYTES).saturating_add(values.saturating_mul(VALUE_BYTES));
    structure.saturating_add(json.len().saturating_mul(TEXT_COPIES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_counts_and_text_hardly_does() {
        let text = format!(r#"{{"data":{{"a":"{}"}}}}"#, r#"{\"[,:"#.repeat(10_000));
        assert!(decoded_bytes(text.as_bytes()) < 5 * text.len(), "what is in a text is no structure");
        let empty = format!("[{}{{}}]", "{},".repeat(9_999));
        assert!(10_000 * COLLECTION_BYTES < decoded_bytes(empty.as_bytes()));
        assert_eq!(decoded_bytes(br#"["a\\",1]"#), COLLECTION_BYTES + VALUE_BYTES + 9 * TEXT_COPIES);
    }
}
