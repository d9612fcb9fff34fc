//! Generates the messages of etcd's API that berth uses from `crates/berth-etcd/proto`: without protoc, and not during berth's build.
//!
//! The generator takes longer to build than all other tasks, so it is a feature. `cargo xtask tidy` only checks whether the proto or the
//! messages have changed since.

#[cfg(feature = "protos")]
use crate::run::{Outcome, root};

/// The proto and the generated file.
const PROTO: &str = "crates/berth-etcd/proto/etcd.proto";
const MESSAGES: &str = "crates/berth-etcd/src/messages.rs";

/// Regenerates the messages.
#[cfg(feature = "protos")]
pub(crate) fn run() -> Outcome {
    let proto = std::fs::read_to_string(root().join(PROTO)).map_err(|error| format!("{PROTO}: {error}"))?;
    let made = make()?;
    std::fs::write(root().join(MESSAGES), format!("{}\n{made}", mark(&proto, &made))).map_err(|error| format!("{MESSAGES}: {error}"))
}

/// The text of a Rust module.
#[cfg(feature = "protos")]
fn make() -> Result<String, String> {
    let path = root().join(PROTO);
    let folder = path.parent().ok_or("a file is in a folder")?;
    let files = protox::compile([&path], [folder]).map_err(|error| error.to_string())?;
    let mut config = prost_build::Config::new();
    // Values are slices of their message, not copies.
    config.bytes(["."]).disable_comments(["."]);
    let modules = files.file.into_iter().map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file)).collect();
    let made = config.generate(modules).map_err(|error| error.to_string())?;
    let text = made.into_values().next().ok_or_else(|| format!("{PROTO} says nothing"))?;
    // The first line names the source.
    Ok(text.split_once('\n').map_or(text.clone(), |(_, rest)| rest.to_owned()))
}

/// The fault of the messages, if there is one. `text` returns a file by its path from the root.
pub(crate) fn fault<'t>(text: impl Fn(&str) -> Option<&'t str>) -> Option<String> {
    let (Some(proto), Some(messages)) = (text(PROTO), text(MESSAGES)) else { return Some(format!("{PROTO} or {MESSAGES} is missing")) };
    let is_made = messages.split_once('\n').is_some_and(|(first, made)| first == mark(proto, made));
    (!is_made).then(|| format!("{MESSAGES} is not what was made of {PROTO}: run `cargo run -p xtask --features protos -- etcd-protos`"))
}

/// The first line of a generated file: it names the source, and has a checksum that detects manual changes.
fn mark(proto: &str, made: &str) -> String {
    format!("// Made from ../proto/etcd.proto {:016x} by `cargo xtask etcd-protos`: {:016x}.", sum(proto), sum(made))
}

/// FNV-1a, 64 bits: it only has to detect mistakes.
fn sum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_proto_without_manual_changes() {
        let made = format!("{}\nstruct A;\n", mark("message A {}", "struct A;\n"));
        let check = |proto: &str, messages: &str| {
            let (proto, messages) = (proto.to_owned(), messages.to_owned());
            fault(|path| Some(if path == PROTO { proto.as_str() } else { messages.as_str() })).is_none()
        };
        assert!(check("message A {}", &made));
        assert!(!check("message B {}", &made));
        assert!(!check("message A {}", &made.replace("struct A", "struct B")));
    }
}
