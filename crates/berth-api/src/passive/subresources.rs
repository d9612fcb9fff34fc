//! The kinds of subresources with their own form. The registry executes them and does not store them, so they have no
//! rules here.

use crate::Kind;
use k8s_openapi::api::{autoscaling::v1::Scale, core::v1::Binding, policy::v1::Eviction};

impl Kind for Binding {}
impl Kind for Eviction {}
impl Kind for Scale {}
