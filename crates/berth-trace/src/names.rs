//! Names in a recording: plain or hashed.

use berth_api::annotations::{CONTROLLER_REVISION_HASH, POD_INDEX, POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The length of a file's key, in bytes.
pub const KEY_BYTES: usize = 32;

/// The maximum length of a name in Kubernetes.
pub(crate) const NAME_MAX: usize = 253;
/// The number of hexadecimal digits of a hashed name.
const HASHED_DIGITS: usize = 16;

/// Keys of labels that every cluster has. They reveal nothing, and the planners depend on some of them.
const KNOWN_KEYS: [&str; 10] = [
    CONTROLLER_REVISION_HASH,
    POD_INDEX,
    POD_TEMPLATE_HASH,
    STATEFUL_SET_POD_NAME,
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/metadata.name",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Names that every cluster has, and on which rules depend.
const KNOWN_NAMES: [&str; 3] = ["default-scheduler", "system-cluster-critical", "system-node-critical"];

/// How names are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Names are recorded as they are.
    Plain,
    /// Names are hashed. A name has the same hash within a file, and different hashes in different files.
    Hashed,
}

/// Converts the names and template identities of a cluster for a recording.
pub(crate) struct Names {
    naming: Naming,
    keyed: Hmac<Sha256>,
}

impl Names {
    /// `key` is random, used for one file and not stored. A reader of the file therefore cannot test which name or
    /// template has a hash.
    pub(crate) fn new(naming: Naming, key: &[u8; KEY_BYTES]) -> Self {
        Self { naming, keyed: Hmac::new_from_slice(key).expect("a key of any length is one") }
    }

    /// Returns the recorded form of a name. An ordinal suffix is kept, because it identifies a StatefulSet's pods.
    pub(crate) fn name(&self, text: &str) -> String {
        if self.naming == Naming::Plain || text.is_empty() || KNOWN_NAMES.contains(&text) {
            return text.to_owned();
        }
        match text.rsplit_once('-') {
            Some((whole, ordinal)) if is_ordinal(ordinal) && !whole.is_empty() => format!("{}-{ordinal}", self.hashed(whole)),
            _ => self.hashed(text),
        }
    }

    /// Returns the recorded form of a label key.
    pub(crate) fn key(&self, key: &str) -> String {
        let is_known = KNOWN_KEYS.contains(&key) || key.starts_with("node.kubernetes.io/");
        if self.naming == Naming::Plain || is_known { key.to_owned() } else { self.hashed(key) }
    }

    /// Returns the recorded identity of a template.
    pub(crate) fn template(&self, canonical: &str) -> String {
        format!("t-{}", self.digits("template", canonical, 32))
    }

    fn hashed(&self, text: &str) -> String {
        // A name must begin with a letter.
        format!("h{}", self.digits("name", text, HASHED_DIGITS))
    }

    fn digits(&self, of: &str, text: &str, count: usize) -> String {
        let mut keyed = self.keyed.clone();
        [of.as_bytes(), &[0], text.as_bytes()].into_iter().for_each(|part| keyed.update(part));
        let digits: String = keyed.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        digits[..count].to_owned()
    }
}

fn is_ordinal(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is valid as a name or a label value.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= NAME_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_hash_in_a_file_and_another_in_another() {
        let (one, other) = (Names::new(Naming::Hashed, &[1; 32]), Names::new(Naming::Hashed, &[2; 32]));
        assert_eq!(one.name("shop"), one.name("shop"));
        assert_ne!(one.name("shop"), other.name("shop"));
        assert_ne!(one.name("shop"), one.name("shops"));
        assert_ne!(one.template("a"), other.template("a"));
        assert!(is_name(&one.name("shop")) && one.name("shop").len() == 17);
        assert_eq!(Names::new(Naming::Plain, &[1; 32]).name("shop"), "shop");
    }

    #[test]
    fn ordinals_and_what_every_cluster_has_stay() {
        let names = Names::new(Naming::Hashed, &[1; 32]);
        assert_eq!(names.name("db-10"), format!("{}-10", names.name("db")));
        assert!(!names.name("db-10").contains("db"));
        assert_eq!([names.name(""), names.name("system-node-critical")], ["", "system-node-critical"]);
        assert_eq!(names.key("pod-template-hash"), "pod-template-hash");
        assert_ne!(names.key("example.com/team"), "example.com/team");
    }
}
