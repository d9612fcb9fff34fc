//! Jobs as a controller creates them. The kind is data, with its rules in `berth-kinds`. A registry reads such an object as a document, so it has no
//! rules here.

use crate::{Kind, normal::normal};
use k8s_openapi::api::batch::v1::Job;

normal! {
    Job { visit: metadata; }
}

impl Kind for Job {}
