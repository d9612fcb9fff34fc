//! A label selector of as many requirements as are allowed, none of which says anything of most objects, over all there are.

use super::{Attack, Request, SIXTY};

pub(super) const ATTACK: Attack = Attack { name: "label-selector", connections: SIXTY, prepare: || Vec::new(), request };

fn request() -> Request {
    let requirements: Vec<String> = (0..999).map(|at| format!("!k{at}")).collect();
    Request::get(format!("/api/v1/configmaps?labelSelector={},last", requirements.join(",")))
}
