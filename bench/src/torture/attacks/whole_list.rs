//! All objects, as they are stored: nothing is made of them, but they are copied, encrypted and sent.

use super::{Attack, Request, SIXTY};

pub(super) const ATTACK: Attack =
    Attack { name: "whole-list", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    Request::get("/api/v1/configmaps".to_owned())
}
