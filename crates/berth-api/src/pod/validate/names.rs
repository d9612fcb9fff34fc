//! The syntax of names in pods.

/// Checks the name of a port: an IANA service name.
#[must_use]
pub fn check_port_name(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let known = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    [
        fault(value.len() > 15, "must be no more than 15 characters"),
        fault(bytes.is_empty() || !bytes.iter().all(known), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        fault(!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)"),
        fault(value.contains("--"), "must not contain consecutive hyphens"),
        fault(value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen"),
    ]
    .concat()
}

/// Checks the name of an environment variable.
pub(super) fn check_env_name(value: &str) -> Vec<String> {
    let known = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    fault(!value.bytes().all(known), "a valid environment variable name must consist only of printable ASCII characters other than '='")
}

/// Checks a key in a ConfigMap or Secret.
pub(crate) fn check_config_key(value: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let form = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', \
                regex used for validation is '[-._a-zA-Z0-9]+')";
    [
        fault(value.len() > 253, "must be no more than 253 characters"),
        fault(value.is_empty() || !value.bytes().all(known), form),
        dots(value),
    ]
    .concat()
}

/// Rejects `.`, `..` and names that begin with `..`, which would leave the folder or hide the kubelet's own files.
fn dots(value: &str) -> Vec<String> {
    match value {
        "." => vec!["must not be '.'".to_owned()],
        ".." => vec!["must not be '..'".to_owned()],
        _ => fault(value.starts_with(".."), "must not start with '..'"),
    }
}

/// Checks a path below a folder.
pub(super) fn check_relative_path(value: &str) -> Vec<String> {
    [fault(value.starts_with('/'), "must be a relative path"), check_no_backsteps(value)].concat()
}

/// Checks a path below a volume: relative, and not one of the kubelet's own names.
pub(super) fn check_file_path(value: &str) -> Vec<String> {
    [check_relative_path(value), fault(value.starts_with("..") && !value.starts_with("../"), "must not start with '..'")].concat()
}

/// Checks that a path has no `..`.
pub(super) fn check_no_backsteps(value: &str) -> Vec<String> {
    fault(value.split('/').any(|part| part == ".."), "must not contain '..'")
}

fn fault(is_fault: bool, message: &str) -> Vec<String> {
    if is_fault { vec![message.to_owned()] } else { Vec::new() }
}
