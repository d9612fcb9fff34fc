//! The revisions in the ControllerRevisions of a StatefulSet.

use super::{cluster::Connection, error::Error, selector::selector_text, target::Found};
use berth_api::decode::Codec;
use berth_identity::RolloutRevision;
use berth_workloads::{
    resources::{REVISIONS, v1},
    stateful_set::revision_data,
    view::StatefulSetView,
};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

/// A ControllerRevision of a StatefulSet.
#[derive(Debug)]
pub(super) struct Kept(pub(super) ControllerRevision);

impl Kept {
    /// The revision number.
    pub(super) fn number(&self) -> RolloutRevision {
        RolloutRevision(self.0.revision)
    }

    fn data(&self) -> Value {
        self.0.data.as_ref().map_or(Value::Null, |data| data.0.clone())
    }

    /// The pod template, in the form of the StatefulSet's spec.
    pub(super) fn template(&self) -> Value {
        let mut template = self.data()["spec"]["template"].take();
        if let Some(members) = template.as_object_mut() {
            members.remove("$patch");
        }
        template
    }

    /// Whether this is the current template of the StatefulSet.
    pub(super) fn is_of(&self, set: &StatefulSetView) -> bool {
        self.data() == revision_data(&set.spec.template)
    }
}

/// The StatefulSet.
pub(super) fn stateful_set(workload: &Found) -> Result<StatefulSetView, Error> {
    workload.view()
}

/// The ControllerRevisions that the StatefulSet controls and selects, oldest first.
pub(super) async fn list(connection: &Connection, workload: &Found, set: &StatefulSetView) -> Result<Vec<Kept>, Error> {
    let selector = selector_text(workload, set.spec.selector.as_ref())?;
    let items = connection.list(&v1(REVISIONS), Some(&selector)).await?;
    let unexpected = |source| Error::Decode { what: "a ControllerRevision".to_owned(), source };
    let all = items.into_iter().map(|item| ControllerRevision::decode_json(item.json.as_bytes()).map(Kept).map_err(unexpected));
    let mut kept = all.collect::<Result<Vec<_>, _>>()?;
    kept.retain(|kept| {
        let owners = kept.0.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == set.meta.uid)
    });
    kept.sort_by(|a, b| (a.number(), &a.0.metadata.name).cmp(&(b.number(), &b.0.metadata.name)));
    Ok(kept)
}
