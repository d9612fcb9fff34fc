//! A field selector of as many requirements as are allowed, over all objects there are.

use super::{Attack, Request, SIXTY};

pub(super) const ATTACK: Attack =
    Attack { name: "field-selector", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    let requirements: Vec<String> = (0..999).map(|at| format!("metadata.name!=n{at}")).collect();
    Request::get(format!("/api/v1/configmaps?fieldSelector={},metadata.namespace=nowhere", requirements.join(",")))
}
