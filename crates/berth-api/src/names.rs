//! The syntax of names, label keys and label values. Every check returns upstream's messages, and none for a valid
//! text.

/// The maximum length of a DNS label, of a label value, and of the name part of a qualified name, in bytes. The message
/// about a longer text counts "characters" for names and "bytes" for keys and values, as upstream since 1.36.
const LABEL_BYTES_MAX: usize = 63;
/// Longest DNS subdomain, in bytes.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Letters and digits that cannot form words, for generated names and for hashes. Source: kubernetes
/// `apimachinery/pkg/util/rand/rand.go`.
pub const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of the suffix of a generated name.
const SUFFIX_LENGTH: usize = 5;

/// The description of a valid text for users: its form, examples, and upstream's regular expression.
struct Form {
    rule: &'static str,
    examples: &'static [&'static str],
    regex: &'static str,
}

const DNS_LABEL: Form = Form {
    rule: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    examples: &["my-name", "123-abc"],
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
};

const DNS_SUBDOMAIN: Form = Form {
    rule: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    examples: &["example.com"],
    regex: r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
};

const WILDCARD: Form = Form {
    rule: "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    examples: &["*.example.com"],
    regex: r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
};

const SEARCH_PATH: Form = Form {
    rule: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
    examples: &["example.com"],
    regex: r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
};

const DNS_1035_LABEL: Form = Form {
    rule: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    examples: &["my-name", "abc-123"],
    regex: "[a-z]([-a-z0-9]*[a-z0-9])?",
};

const QUALIFIED_NAME: Form = Form {
    rule: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    examples: &["MyName", "my.name", "123-abc"],
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
};

const LABEL_VALUE: Form = Form {
    rule: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    examples: &["MyValue", "my_value", "12345"],
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
};

impl Form {
    fn message(&self) -> String {
        let examples: Vec<String> = self.examples.iter().map(|example| format!("'{example}', ")).collect();
        format!("{} (e.g. {}regex used for validation is '{}')", self.rule, examples.join(" or "), self.regex)
    }
}

/// The unit in upstream's message about a long name.
const CHARACTERS: &str = "characters";
const BYTES: &str = "bytes";

fn check_length(text: &str, max: usize, unit: &str) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} {unit}"))
}

/// Whether `text` is non-empty, has only allowed bytes and has a letter or digit at both ends.
fn is_word(text: &str, is_end: fn(u8) -> bool, is_inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends_well = |end: Option<&u8>| end.is_some_and(|byte| is_end(*byte));
    ends_well(bytes.first()) && ends_well(bytes.last()) && bytes.iter().all(|byte| is_end(*byte) || is_inner(*byte))
}

fn is_dns_word(text: &str) -> bool {
    is_word(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), |byte| byte == b'-')
}

fn is_label_word(text: &str) -> bool {
    is_word(text, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_words(text: &str) -> bool {
    text.split('.').all(is_dns_word)
}

/// RFC 1123 label, at most 63 bytes.
#[must_use]
pub fn check_dns_label(text: &str) -> Vec<String> {
    let length = check_length(text, LABEL_BYTES_MAX, CHARACTERS);
    let form = match (is_dns_word(text), is_dns_words(text)) {
        (true, _) => None,
        (false, true) => Some("must not contain dots".to_owned()),
        (false, false) => Some(DNS_LABEL.message()),
    };
    length.into_iter().chain(form).collect()
}

/// DNS subdomain, at most 253 bytes.
#[must_use]
pub fn check_dns_subdomain(text: &str) -> Vec<String> {
    check_subdomain(text, CHARACTERS)
}

fn check_subdomain(text: &str, unit: &str) -> Vec<String> {
    let length = check_length(text, SUBDOMAIN_BYTES_MAX, unit);
    let form = (!is_dns_words(text)).then(|| DNS_SUBDOMAIN.message());
    length.into_iter().chain(form).collect()
}

/// A DNS subdomain with a wildcard as its first label.
///
/// Source: upstream `IsWildcardDNS1123Subdomain`.
#[must_use]
pub fn check_wildcard(text: &str) -> Vec<String> {
    let length = check_length(text, SUBDOMAIN_BYTES_MAX, CHARACTERS);
    let form = !text.strip_prefix("*.").is_some_and(is_dns_words);
    length.into_iter().chain(form.then(|| WILDCARD.message())).collect()
}

/// A domain in which names are searched: a DNS subdomain whose labels may also have underscores.
///
/// Source: upstream `IsDNS1123SubdomainWithUnderscore`.
pub(crate) fn check_search_path(text: &str) -> Vec<String> {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let length = check_length(text, SUBDOMAIN_BYTES_MAX, CHARACTERS);
    let form = !text.split('.').all(|label| is_word(label.strip_prefix('_').unwrap_or(label), is_end, |byte| matches!(byte, b'-' | b'_')));
    length.into_iter().chain(form.then(|| SEARCH_PATH.message())).collect()
}

/// RFC 1035 label (a label that starts with a letter), at most 63 bytes.
#[must_use]
pub fn check_dns_1035_label(text: &str) -> Vec<String> {
    let length = check_length(text, LABEL_BYTES_MAX, CHARACTERS);
    let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    let form = !(starts_well && is_dns_word(text));
    length.into_iter().chain(form.then(|| DNS_1035_LABEL.message())).collect()
}

/// Anything that can be one segment of a URL path.
#[must_use]
pub fn check_path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|banned| text.contains(**banned)).map(|banned| format!("may not contain '{banned}'")).collect()
}

/// `name` or `dns.subdomain/name`, the name part at most 63 bytes of letters, digits, `-`, `_` and `.`.
#[must_use]
pub fn check_qualified_name(text: &str) -> Vec<String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [name] => check_name_part(name),
        [prefix, name] => check_prefix(prefix).into_iter().chain(check_name_part(name)).collect(),
        _ => vec![format!(
            "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            QUALIFIED_NAME.message()
        )],
    }
}

fn check_prefix(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    check_subdomain(prefix, BYTES).into_iter().map(|message| format!("prefix part {message}")).collect()
}

fn check_name_part(name: &str) -> Vec<String> {
    let length = if name.is_empty() { Some("must be non-empty".to_owned()) } else { check_length(name, LABEL_BYTES_MAX, BYTES) };
    let form = (!is_label_word(name)).then(|| QUALIFIED_NAME.message());
    length.into_iter().chain(form).map(|message| format!("name part {message}")).collect()
}

/// Key of a label: a qualified name.
#[must_use]
pub fn check_label_key(key: &str) -> Vec<String> {
    check_qualified_name(key)
}

/// Value of a label: empty, or at most 63 bytes of letters, digits, `-`, `_` and `.`.
#[must_use]
pub fn check_label_value(value: &str) -> Vec<String> {
    let length = check_length(value, LABEL_BYTES_MAX, BYTES);
    let form = !(value.is_empty() || is_label_word(value));
    length.into_iter().chain(form.then(|| LABEL_VALUE.message())).collect()
}

/// Returns `base` with a random suffix, truncated to the length of a DNS label. `below` returns a random number below
/// its argument.
pub fn generated(base: &str, mut below: impl FnMut(u64) -> u64) -> String {
    let room = LABEL_BYTES_MAX - SUFFIX_LENGTH;
    let end = (0..=room.min(base.len())).rev().find(|&end| base.is_char_boundary(end)).unwrap_or(0);
    let letter = |_| {
        let index = usize::try_from(below(SAFE_ALPHABET.len() as u64)).expect("below the alphabet's length");
        char::from(SAFE_ALPHABET[index])
    };
    base[..end].chars().chain((0..SUFFIX_LENGTH).map(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: &[String], wanted: &[&str]) {
        assert_eq!(messages, wanted);
    }

    #[test]
    fn messages_are_upstreams() {
        check(&check_dns_label("a-1"), &[]);
        check(&check_dns_label("a.b"), &["must not contain dots"]);
        check(&check_dns_label("A"), &[&DNS_LABEL.message()]);
        check(&check_dns_label(&"a".repeat(64)), &["must be no more than 63 characters"]);
        check(&check_dns_subdomain("a.b-c.1"), &[]);
        check(
            &check_dns_subdomain("a..b"),
            &[
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
               alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        );
        check(&check_dns_subdomain(&"a".repeat(254)), &["must be no more than 253 characters"]);
        check(&check_dns_subdomain(&"é".repeat(127)), &["must be no more than 253 characters", &DNS_SUBDOMAIN.message()]);
        check(&check_dns_1035_label(&"a".repeat(64)), &["must be no more than 63 characters"]);
        check(&check_dns_1035_label("1a"), &[&DNS_1035_LABEL.message()]);
        check(&check_dns_1035_label("a1"), &[]);
        check(&check_path_segment("system:x"), &[]);
        check(&check_path_segment(".."), &["may not be '..'"]);
        check(&check_path_segment("a/b%"), &["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn qualified_names_have_a_name_and_perhaps_a_prefix() {
        for good in ["a", "A_b.c", "example.com/x", "0"] {
            check(&check_qualified_name(good), &[]);
        }
        let form = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                    (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        check(&check_qualified_name("-a"), &[form]);
        check(&check_qualified_name("/a"), &["prefix part must be non-empty"]);
        check(&check_qualified_name("a/"), &["name part must be non-empty", form]);
        check(&check_qualified_name(&"a".repeat(64)), &["name part must be no more than 63 bytes"]);
        check(&check_qualified_name(&format!("{}/b", "a".repeat(254))), &["prefix part must be no more than 253 bytes"]);
        assert!(check_qualified_name("a/b/c")[0].starts_with("a valid label key must consist of"));
    }

    #[test]
    fn label_values_may_be_empty() {
        check(&check_label_value(""), &[]);
        check(&check_label_value("a_B.1"), &[]);
        check(&check_label_value("a b"), &[&LABEL_VALUE.message()]);
        check(&check_label_value(&"a".repeat(64)), &["must be no more than 63 bytes"]);
    }

    #[test]
    fn generated_names_are_labels_whatever_they_begin_with() {
        let mut next = 0;
        let mut below = |bound: u64| {
            next += 1;
            next % bound
        };
        assert_eq!(generated("web-", &mut below), "web-cdfgh");
        assert_eq!(generated(&"x".repeat(70), &mut below), format!("{}jklmn", "x".repeat(58)));
        // Each character has two bytes, and none is cut in half.
        assert_eq!(generated(&format!("x{}", "é".repeat(40)), |_| 26).len(), 1 + 2 * 28 + 5);
    }
}
