//! A label selector of thousands of requirements: more than are allowed.

use super::{Attack, Request, SIXTY};

pub(super) const ATTACK: Attack =
    Attack { name: "label-selector-long", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    let requirements: Vec<String> = (0..3500).map(|at| format!("!k{at}")).collect();
    Request::get(format!("/api/v1/configmaps?labelSelector={}", requirements.join(",")))
}
