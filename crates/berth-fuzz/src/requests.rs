//! The head of a request: path, query, headers, continue tokens, and who asks by which proof.

use berth_api::k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use berth_apiserver::{
    auth::{AccountTokens, parse_token_file},
    fuzzing, negotiate, path,
    query::Query,
};
use berth_registry::{continue_token_round_trips, options, resource, table::IncludeObject};
use rcgen::KeyPair;
use std::sync::OnceLock;

fn account_tokens() -> &'static AccountTokens {
    static TOKENS: OnceLock<AccountTokens> = OnceLock::new();
    TOKENS.get_or_init(|| {
        let key = KeyPair::generate().expect("the machine has randomness").serialize_pem();
        AccountTokens::new(&key, "https://berth").expect("a key")
    })
}

fn query(text: &str) {
    let query = Query::parse(Some(text));
    let _ = (query.watch(), query.get_options(), query.write_options());
    let _ = (query.watch_timeout(), query.list_options(), query.watch_options(), query.delete_options());
    let _ = (query.first("includeObject").map(IncludeObject::parse), query.first("resourceVersion").map(options::parse_revision));
}

fn header(text: &str) {
    let header = Some(text);
    let _ = (negotiate::accept(header), negotiate::accept_discovery(header), negotiate::prefers_protobuf_openapi(header));
    let patched = resource::of::<Pod>();
    let _ = (negotiate::accepts_gzip(header), negotiate::body_syntax(header), negotiate::patch_type(header, patched));
}

fn continue_token(text: &str) {
    assert!(continue_token_round_trips(text));
}

fn certificate(bytes: &[u8]) {
    let _ = fuzzing::certificate(bytes);
    let groups = vec!["g".to_owned(), "é".repeat(100)];
    if let Some(made) = fuzzing::certificate_for(bytes, "u".to_owned(), groups.clone())
        && let Some(found) = fuzzing::certificate(&made)
    {
        assert_eq!(found, ("u".to_owned(), groups));
    }
}

// The first byte chooses what the others are.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    match choice % 7 {
        0 => drop(path::parse(text)),
        1 => query(text),
        2 => header(text),
        3 => continue_token(text),
        4 => drop(parse_token_file(text)),
        5 => assert!(account_tokens().verify(bytes, Timestamp::UNIX_EPOCH).is_none(), "no other key signs"),
        _ => certificate(bytes),
    }
}
