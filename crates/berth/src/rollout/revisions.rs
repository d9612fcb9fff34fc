//! The revisions in the ControllerRevisions of a StatefulSet or a DaemonSet.

use super::{cluster::Connection, error::Error, selector::selector_text, target::Found};
use berth_api::decode::Codec;
use berth_identity::RolloutRevision;
use berth_workloads::{
    deployment::annotations::Annotations,
    resources::{REVISIONS, v1},
    stateful_set::revision_data,
    view::{DaemonSetView, Meta, StatefulSetView},
    workload::WorkloadKind,
};
use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde_json::Value;

/// A ControllerRevision.
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

    /// The pod template, in the form of the workload's spec.
    pub(super) fn template(&self) -> Value {
        let mut template = self.data()["spec"]["template"].take();
        if let Some(members) = template.as_object_mut() {
            members.remove("$patch");
        }
        template
    }

    /// Whether this is the workload's current template.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        // Kubernetes before 1.34 also writes the member `creationTimestamp: null`.
        let is_equal = || PodTemplateSpec::decode_tree(&self.template()).is_ok_and(|template| template == owner.template);
        self.data() == revision_data(&owner.template) || is_equal()
    }
}

/// A StatefulSet or a DaemonSet, as far as its revisions require it.
pub(super) struct Owner {
    pub(super) meta: Meta,
    pub(super) annotations: Annotations,
    selector: Option<LabelSelector>,
    template: PodTemplateSpec,
}

impl Owner {
    /// Reads the workload.
    ///
    /// # Errors
    /// It is not a StatefulSet or a DaemonSet.
    pub(super) fn of(workload: &Found) -> Result<Self, Error> {
        if workload.kind == WorkloadKind::DaemonSet {
            let DaemonSetView { meta, annotations, spec, .. } = workload.view()?;
            return Ok(Self { meta, annotations, selector: Some(spec.selector.clone()), template: spec.template.clone() });
        }
        let StatefulSetView { meta, annotations, spec, .. } = workload.view()?;
        Ok(Self { meta, annotations, selector: spec.selector.clone(), template: spec.template.clone() })
    }
}

/// The ControllerRevisions that the workload controls and selects, oldest first.
pub(super) async fn list(connection: &Connection, workload: &Found, owner: &Owner) -> Result<Vec<Kept>, Error> {
    let selector = selector_text(workload, owner.selector.as_ref())?;
    let items = connection.list(&v1(REVISIONS), Some(&selector)).await?;
    let unexpected = |source| Error::Decode { what: "a ControllerRevision".to_owned(), source };
    let all = items.into_iter().map(|item| ControllerRevision::decode_json(item.json.as_bytes()).map(Kept).map_err(unexpected));
    let mut kept = all.collect::<Result<Vec<_>, _>>()?;
    kept.retain(|kept| {
        let references = kept.0.metadata.owner_references.iter().flatten();
        references.into_iter().any(|reference| reference.controller == Some(true) && reference.uid == owner.meta.uid)
    });
    kept.sort_by(|a, b| (a.number(), &a.0.metadata.name).cmp(&(b.number(), &b.0.metadata.name)));
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_current_template_is_recognized_in_the_form_of_an_older_kubernetes() {
        let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "agent:2"}]}});
        let revision = |changed: &dyn Fn(&mut Value)| {
            let mut data = template.clone();
            data["$patch"] = json!("replace");
            changed(&mut data);
            let object = json!({"metadata": {}, "revision": 2, "data": {"spec": {"template": data}}});
            Kept(serde_json::from_value(object).expect("a revision"))
        };
        for (kind, name) in [(WorkloadKind::StatefulSet, "db"), (WorkloadKind::DaemonSet, "agent")] {
            let object = json!({"metadata": {"name": name, "uid": "u"}, "spec": {"selector": {}, "serviceName": "", "template": template}});
            let owner = Owner::of(&Found { kind, name: name.to_owned(), json: object.to_string() }).expect("a workload");
            assert!(revision(&|_| ()).is_of(&owner));
            assert!(revision(&|data| data["metadata"]["creationTimestamp"] = Value::Null).is_of(&owner), "{name}");
            assert!(!revision(&|data| data["spec"]["containers"][0]["image"] = json!("agent:1")).is_of(&owner), "{name}");
        }
    }
}
