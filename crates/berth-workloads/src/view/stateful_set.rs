//! Views of the objects of a StatefulSet other than pods.

use super::{Identity, Meta, View, wire};
use crate::{
    resources::{CLAIMS, REVISIONS},
    shared,
};
use berth_api::{
    annotations::{
        BERTH_COMPLETED_AT, BERTH_COMPLETED_REVISION, BERTH_PROGRESS, BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES, BERTH_ROLLOUT,
        BERTH_WHEN_SCALED,
    },
    decode::{Codec, from_json},
};
use berth_identity::{ObjectRef, Revision, RolloutRevision};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// What plans read of a ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "SavedRevision", into = "SavedRevision")]
pub struct RevisionView {
    /// Its metadata.
    pub meta: Meta,
    /// Its number.
    pub number: RolloutRevision,
    /// Its data. Equal values have equal bytes, because objects are sorted by key.
    pub data: Arc<Value>,
    /// The template in its data. `None` if there is none.
    pub template: Option<Arc<PodTemplateSpec>>,
    /// Its annotations of [`KEPT`].
    pub annotations: BTreeMap<String, String>,
}

/// The annotations that plans read and write on a revision. The others are copies of its set's, and large.
pub const KEPT: [&str; 6] =
    [BERTH_COMPLETED_REVISION, BERTH_COMPLETED_AT, BERTH_PROGRESS, BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES, BERTH_ROLLOUT];

#[derive(Deserialize)]
struct RevisionWire {
    metadata: wire::Metadata,
    revision: Option<RolloutRevision>,
    data: Option<Value>,
}

impl View for RevisionView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let mut wire: RevisionWire = from_json(json)?;
        let data = wire.data.unwrap_or_default();
        let mut annotations = wire.metadata.annotations.take().unwrap_or_default();
        annotations.retain(|key, _| KEPT.contains(&key.as_str()));
        let meta = wire.metadata.into_meta(revision);
        Ok(Self {
            meta,
            annotations,
            number: wire.revision.unwrap_or_default(),
            template: template_of(&data).map(Arc::new),
            data: Arc::new(data),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl RevisionView {
    /// The revision, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(REVISIONS)
    }
}

fn template_of(data: &Value) -> Option<PodTemplateSpec> {
    let mut template = data.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    PodTemplateSpec::decode_tree(&template).ok()
}

/// The serialized form of a revision, without the template, which is in its data.
#[derive(Serialize, Deserialize)]
struct SavedRevision {
    meta: Meta,
    number: RolloutRevision,
    #[serde(with = "shared")]
    data: Arc<Value>,
    annotations: BTreeMap<String, String>,
}

impl From<RevisionView> for SavedRevision {
    fn from(view: RevisionView) -> Self {
        let RevisionView { meta, number, data, template: _, annotations } = view;
        Self { meta, number, data, annotations }
    }
}

impl From<SavedRevision> for RevisionView {
    fn from(saved: SavedRevision) -> Self {
        let SavedRevision { meta, number, data, annotations } = saved;
        Self { template: template_of(&data).map(Arc::new), meta, number, data, annotations }
    }
}

/// The fields that StatefulSets read of a PersistentVolumeClaim: its identity and its owners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    /// Its metadata.
    pub meta: Meta,
    /// Whether it is deleted when its pod is scaled down ([`BERTH_WHEN_SCALED`]).
    pub goes_when_scaled: bool,
}

#[derive(Deserialize)]
struct ClaimWire {
    metadata: wire::Metadata,
}

impl View for ClaimView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: ClaimWire = from_json(json)?;
        let goes_when_scaled = wire.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(BERTH_WHEN_SCALED));
        Ok(Self { meta: wire.metadata.into_meta(revision), goes_when_scaled })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl ClaimView {
    /// The claim, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(CLAIMS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::StatefulSetView;
    use serde_json::json;

    #[test]
    fn a_set_its_revisions_and_claims_are_read() {
        let set = json!({
            "apiVersion": "apps/v1", "metadata": {"name": "web", "generation": 3, "annotations": {"berth.dev/repair": "Revision"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {}, "ordinals": {"start": 4}},
            "status": {"replicas": 1, "currentRevision": "web-1"},
        });
        let set = StatefulSetView::decode(set.to_string().as_bytes(), Revision(9)).expect("a set");
        assert_eq!((set.spec.replicas, set.status.current_revision.as_str(), set.annotations.len()), (Some(2), "web-1", 1));
        assert_eq!((&*set.reference().resource.plural, set.reference().resource_version), ("statefulsets", Some(Revision(9))));
        let revision = json!({"metadata": {"name": "web-1"}, "revision": 4, "data": {"spec": {}}});
        let revision = RevisionView::decode(revision.to_string().as_bytes(), Revision(1)).expect("a revision");
        assert_eq!((revision.number, &*revision.data, revision.template), (RolloutRevision(4), &json!({"spec": {}}), None));
        let kept = json!({"metadata": {"name": "web-2"}, "data": {"spec": {"template": {"$patch": "replace", "metadata": {"name": "t"}}}}});
        let kept = RevisionView::decode(kept.to_string().as_bytes(), Revision(1)).expect("a revision").template.expect("a template");
        assert_eq!(kept.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()), Some("t"));
        let claim = ClaimView::decode(br#"{"metadata": {"name": "data-web-0"}, "spec": {}}"#, Revision(1)).expect("a claim");
        assert_eq!(claim.reference().key.name, "data-web-0");
    }
}
