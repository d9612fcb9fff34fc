//! Pod security admission: enforces the levels in the labels of a namespace, for pods and for workloads that create
//! pods.

use super::{
    Admission, Remarks,
    classes::decoded,
    plug_in::{Chain, PlugIn},
    reader::Reader,
};
use crate::{ApiError, resource};
use berth_api::{
    Object,
    apps::{Deployment, ReplicaSet, StatefulSet},
    k8s_openapi::{
        api::core::v1::{Namespace, Pod, PodSpec, PodTemplateSpec},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
    pod_security::{Level, LevelVersion, Policy, is_significant_update, violations},
};
use berth_kinds::Document;
use berth_store::{Entry, MinRevision};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The maximum number of pods that are checked when a namespace gets another level.
const PODS_MAX: usize = 3000;
/// Annotations of the audit log.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

pub(super) struct PodSecurity;

impl PlugIn for PodSecurity {
    const NAME: &'static str = "PodSecurity";

    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let remarks = if admission.is_new() {
            judge(admission, admission.namespace_entry.as_deref())?
        } else if let Some((old, new)) = admission.changed_kind::<Namespace>() {
            warn_of_pods(&chain.reader, old, new).await?
        } else if is_judged_again(admission) {
            let namespaces = resource::of::<Namespace>();
            let name = admission.at.namespace.unwrap_or_default();
            judge(admission, chain.reader.get(namespaces, None, name, &admission.as_of).await?.as_deref())?
        } else {
            return Ok(());
        };
        admission.remarks.add(remarks);
        Ok(())
    }
}

/// Whether a change can violate a level. Most fields of a pod are immutable.
fn is_judged_again(admission: &Admission<'_>) -> bool {
    let Some((_, new)) = admission.changed() else { return false };
    match admission.changed_kind::<Pod>() {
        Some((old, new)) => old.spec.as_ref().zip(new.spec.as_ref()).is_some_and(|(old, new)| is_significant_update(new, old)),
        None => Subject::of(new).is_some(),
    }
}

/// Checks a pod, or a workload's template, against the levels of its namespace.
///
/// # Errors
/// [`ApiError::Forbidden`] for a pod that violates the enforced level.
fn judge(admission: &Admission<'_>, namespace: Option<&Entry>) -> Result<Remarks, ApiError> {
    let (Some(namespace), Some(subject)) = (namespace, Subject::of(&*admission.object)) else { return Ok(Remarks::default()) };
    let policy = Policy::of(|name| namespace.header.label(name));
    if policy == Policy::default() {
        return Ok(Remarks::default());
    }
    let mut remarks = Remarks::default();
    if subject.is_pod {
        if let Some(text) = subject.violations(policy.enforce) {
            return Err(admission.forbidden(format!("violates {text}")));
        }
        remarks.audit.push((ENFORCED.into(), policy.enforce.to_string()));
    }
    remarks.audit.extend(subject.violations(policy.audit).map(|text| (VIOLATIONS.into(), format!("would violate {text}"))));
    remarks.warnings.extend(subject.violations(policy.warn).map(|text| format!("would violate {text}")));
    Ok(remarks)
}

/// The metadata and spec of the pods that an object describes.
struct Subject<'a> {
    meta: Cow<'a, ObjectMeta>,
    spec: Cow<'a, PodSpec>,
    is_pod: bool,
}

impl<'a> Subject<'a> {
    fn of(object: &'a dyn Object) -> Option<Self> {
        if let Some(pod) = object.downcast_ref::<Pod>() {
            return Some(Self { meta: Cow::Borrowed(&pod.metadata), spec: Cow::Borrowed(pod.spec.as_ref()?), is_pod: true });
        }
        let template = template_of(object)?;
        let (meta, spec) = match template {
            Cow::Borrowed(template) => (Cow::Borrowed(template.metadata.as_ref()?), Cow::Borrowed(template.spec.as_ref()?)),
            Cow::Owned(template) => (Cow::Owned(template.metadata?), Cow::Owned(template.spec?)),
        };
        Some(Self { meta, spec, is_pod: false })
    }

    /// Returns the violations, if any: `PodSecurity "restricted:latest": …`.
    fn violations(&self, allowed: LevelVersion) -> Option<String> {
        let found = violations(allowed, &self.meta, &self.spec);
        (!found.is_empty()).then(|| format!("PodSecurity \"{allowed}\": {found}"))
    }
}

fn template_of(object: &dyn Object) -> Option<Cow<'_, PodTemplateSpec>> {
    let deployment = object.downcast_ref::<Deployment>().map(|deployment| &deployment.spec.template);
    let set = || object.downcast_ref::<ReplicaSet>().map(|set| &set.spec.template);
    let typed = deployment.or_else(set).or_else(|| object.downcast_ref::<StatefulSet>().map(|set| &set.spec.template));
    typed.map(Cow::Borrowed).or_else(|| Document::of(object)?.pod_template().map(Cow::Owned))
}

/// Warns about existing pods that violate the stricter level of a namespace. The pods keep running.
async fn warn_of_pods(reader: &Reader, old: &Namespace, new: &Namespace) -> Result<Remarks, ApiError> {
    let [before, now] = [old, new].map(|namespace| {
        let labels = namespace.metadata.labels.as_ref();
        Policy::of(|name| labels?.get(name).map(String::as_str)).enforce
    });
    let is_relaxed = before.version == now.version && now.level <= before.level;
    if now.level == Level::Privileged || is_relaxed {
        return Ok(Remarks::default());
    }
    let name = new.metadata.name.as_deref().unwrap_or_default();
    let pods = reader.list(resource::of::<Pod>(), Some(name), &MinRevision::default()).await?;
    Ok(Remarks { warnings: violation_warnings(name, now, &pods)?, audit: Vec::new() })
}

/// Returns the warnings about pods that violate `allowed`. Pods with the same violations share a line with the name of
/// the first.
fn violation_warnings(namespace: &str, allowed: LevelVersion, pods: &[Arc<Entry>]) -> Result<Vec<String>, ApiError> {
    let mut alike = BTreeMap::<String, (String, usize)>::new();
    for entry in pods.iter().take(PODS_MAX) {
        let pod: Pod = decoded(entry)?;
        let found = Subject::of(&pod).map(|subject| violations(allowed, &subject.meta, &subject.spec));
        if let Some(found) = found.filter(|found| !found.is_empty()) {
            // The pods are sorted by name, so the first one is the first seen.
            let first = || (pod.metadata.name.clone().unwrap_or_default(), 0);
            alike.entry(found.reasons()).or_insert_with(first).1 += 1;
        }
    }
    let mut lines: Vec<String> = alike.iter().map(|(reasons, (first, count))| format!("{first}{}: {reasons}", others(*count))).collect();
    lines.sort();
    let mut warnings = Vec::new();
    if PODS_MAX < pods.len() {
        let all = pods.len();
        warnings.push(format!("new PodSecurity enforce level only checked against the first {PODS_MAX} of {all} existing pods"));
    }
    if !lines.is_empty() {
        warnings.push(format!("existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{allowed}\""));
    }
    warnings.extend(lines);
    Ok(warnings)
}

/// ` (and 2 other pods)`.
fn others(count: usize) -> String {
    match count.saturating_sub(1) {
        0 => String::new(),
        1 => " (and 1 other pod)".to_owned(),
        more => format!(" (and {more} other pods)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::{Header, Key, Revision};

    #[test]
    fn a_limited_number_of_pods_is_checked_and_a_warning_reports_that_there_are_more() {
        let json = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}"#;
        let key = Key::new("/registry/pods/team/p");
        let revision = Revision(1);
        let entry = Entry { key, value: json[..].into(), header: Header::default(), create_revision: revision, mod_revision: revision };
        let entry = Arc::new(entry);
        let allowed = Policy::of(|name| (name == "pod-security.kubernetes.io/enforce").then_some("baseline")).enforce;
        let violation_warnings = |count: usize| violation_warnings("team", allowed, &vec![Arc::clone(&entry); count]).expect("readable");
        let violate = "existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"";
        let lines = [violate, "p (and 2999 other pods): host namespaces"];
        assert_eq!(violation_warnings(PODS_MAX), lines);
        for count in [PODS_MAX + 1, PODS_MAX + 1000] {
            let first = format!("new PodSecurity enforce level only checked against the first 3000 of {count} existing pods");
            assert_eq!(violation_warnings(count), [&*first, lines[0], lines[1]]);
        }
    }
}
