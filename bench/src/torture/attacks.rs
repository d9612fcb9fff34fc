//! What one user does to the server, and to others by that. Another attack is another file here and a line in [`ATTACKS`].

mod apply;
mod containers;
mod field_selector;
mod hanging_webhook;
mod informers;
mod json_patch;
mod label_selector;
mod label_selector_long;
mod merge_keys;
mod whole_list;

/// A request that costs the server much, sent again and again over many connections.
#[derive(Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Over how many connections.
    pub(super) connections: usize,
    /// Sent by the administrator before, one after the other. What exists already stays.
    pub(super) by_administrator: fn() -> Vec<Request>,
    /// Sent once before, one after the other.
    pub(super) prepare: fn() -> Vec<Request>,
    pub(super) request: fn() -> Request,
}

/// A request as it is sent.
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl Request {
    fn get(path: String) -> Self {
        Self { method: "GET", path, content_type: "application/json", body: String::new() }
    }
}

/// Connections of most attacks.
const SIXTY: usize = 60;

/// An object that is there.
pub(super) const VICTIM: &str = "/api/v1/namespaces/default/configmaps/c0";

pub(crate) const ATTACKS: &[Attack] = &[
    label_selector::ATTACK,
    label_selector_long::ATTACK,
    field_selector::ATTACK,
    containers::ATTACK,
    apply::ATTACK,
    merge_keys::ATTACK,
    json_patch::ATTACK,
    whole_list::ATTACK,
    informers::ATTACK,
    hanging_webhook::ATTACK,
];

/// The attack of this name.
pub(crate) fn parse(name: &str) -> Result<&'static Attack, String> {
    let names = || ATTACKS.iter().map(|attack| attack.name).collect::<Vec<_>>().join(", ");
    ATTACKS.iter().find(|attack| attack.name == name).ok_or_else(|| format!("there is no such attack; there are {}", names()))
}
