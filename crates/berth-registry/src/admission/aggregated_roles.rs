//! Aggregated cluster roles: requests their rules after a write of roles.

use super::{Entailed, Happened, plug_in::PlugIn};

pub(super) struct AggregatedRoles;

impl PlugIn for AggregatedRoles {
    const NAME: &'static str = "AggregatedRoles";

    fn entails(happened: &Happened<'_>) -> Option<Entailed> {
        (happened.group_and_plural() == (berth_rbac::GROUP, "clusterroles")).then_some(Entailed::AggregatedRules)
    }
}
