//! Watches that nothing happens to, as hundreds of informers hold them open: what a server keeps for each must not be what others need.

use super::{Attack, Request};

/// More than the server answers reads at once.
const WATCHES: usize = 600;

pub(super) const ATTACK: Attack =
    Attack { name: "informers", connections: WATCHES, by_administrator: Vec::new, prepare: Vec::new, request };

fn request() -> Request {
    Request::get("/api/v1/namespaces/default/services?watch=true&allowWatchBookmarks=true&timeoutSeconds=600".to_owned())
}
