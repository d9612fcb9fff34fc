//! A label selector with the maximum number of requirements over all objects. None of them concerns most objects.

use super::{Attack, Request, SIXTY};

pub(super) const ATTACK: Attack =
    Attack { name: "label-selector", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    let requirements: Vec<String> = (0..999).map(|at| format!("!k{at}")).collect();
    Request::get(format!("/api/v1/configmaps?labelSelector={},last", requirements.join(",")))
}
