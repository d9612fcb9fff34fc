//! What is sent to a subresource that has a form of its own. It is carried out, never stored, so it has no rules of its own here.

use crate::Kind;
use k8s_openapi::api::{autoscaling::v1::Scale, core::v1::Binding, policy::v1::Eviction};

impl Kind for Binding {}
impl Kind for Eviction {}
impl Kind for Scale {}
