//! The analysis of a progressive rollout, from the annotations of the Deployment. The administrator's configuration
//! defines the providers.

use crate::{FieldError, Path, names::check_dns_label};

/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4096;

/// Validates a provider's name, which must be a DNS label.
#[must_use]
pub fn validate_provider(name: &str, path: &Path) -> Option<FieldError> {
    check_dns_label(name).into_iter().next().map(|fault| FieldError::invalid(path, name, fault))
}

/// Validates a query: it must be a text, neither empty nor too long.
#[must_use]
pub fn validate_query(query: &str, path: &Path) -> Option<FieldError> {
    let is_text = |char: char| !char.is_control() || ['\n', '\t'].contains(&char);
    match query {
        _ if query.trim().is_empty() => Some(FieldError::invalid(path, query, "must ask something")),
        _ if query.len() > QUERY_BYTES_MAX => Some(FieldError::too_long(path, QUERY_BYTES_MAX)),
        _ if !query.chars().all(is_text) => {
            Some(FieldError::invalid(path, query, "must have no control characters but line ends and tabs"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_and_queries_texts_of_some_length() {
        let path = Path::new("q");
        let provider = |name: &str| validate_provider(name, &path).is_none();
        assert_eq!(["prod", "a-1", "", "Prod", "a b", "a.b"].map(provider), [true, true, false, false, false, false]);
        assert!(!provider(&"a".repeat(64)));
        let query = |text: &str| validate_query(text, &path).is_none();
        assert_eq!(["up", "sum(a)\n  > bool\t0", "", " \n", "a\u{1b}[2J", "a\0"].map(query), [true, true, false, false, false, false]);
        assert!(query(&"a".repeat(QUERY_BYTES_MAX)) && !query(&"a".repeat(QUERY_BYTES_MAX + 1)));
    }
}
