//! The pods that a Job creates.

use super::observe::Observed;
use crate::{claim, resources::JOB, view::JobPodView};
use berth_api::annotations::{JOB_COMPLETION_INDEX, JOB_INDEX_FAILURE_COUNT, JOB_INDEX_IGNORED_FAILURE_COUNT, JOB_TRACKING};
use k8s_openapi::{
    api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// The variable with which a container finds out its index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix of a generated name that upstream uses for a pod with an index.
const PREFIX_LENGTH_MAX: usize = 58;
/// The longest name of a pod.
const NAME_LENGTH_MAX: usize = 253;

/// The pod of the Job's template, without a name and without an index.
pub(super) fn template(observed: &Observed<'_>) -> Pod {
    let job = observed.job();
    let template = &observed.spec().template;
    let metadata = template.metadata.as_ref();
    // The dash is left out where no room is left for it. The API server cuts the rest to fit.
    let dash = if job.meta.name.len() < NAME_LENGTH_MAX { "-" } else { "" };
    let mut finalizers = metadata.and_then(|metadata| metadata.finalizers.clone()).unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == JOB_TRACKING) {
        finalizers.push(JOB_TRACKING.to_owned());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}{dash}", job.meta.name)),
            namespace: Some(job.meta.namespace.to_string()),
            labels: metadata.and_then(|metadata| metadata.labels.clone()),
            annotations: metadata.and_then(|metadata| metadata.annotations.clone()),
            finalizers: Some(finalizers),
            owner_references: Some(vec![claim::controller_reference(&JOB, &job.meta)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        ..Pod::default()
    }
}

/// The same for an Indexed Job: its containers get the variable.
pub(super) fn indexed_template(observed: &Observed<'_>) -> Pod {
    let mut pod = template(observed);
    if let Some(PodSpec { containers, init_containers, .. }) = &mut pod.spec {
        containers.iter_mut().chain(init_containers.iter_mut().flatten()).for_each(add_index_variable);
    }
    pod
}

/// The pod of one index. `replaced` is the last pod of the index that failed.
pub(super) fn of_index(observed: &Observed<'_>, template: &Pod, index: u32, replaced: Option<&JobPodView>) -> Pod {
    let name = &observed.job().meta.name;
    let mut pod = template.clone();
    pod.metadata.generate_name = Some(name_prefix(name, index));
    pod.metadata.labels.get_or_insert_default().insert(JOB_COMPLETION_INDEX.to_owned(), index.to_string());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(JOB_COMPLETION_INDEX.to_owned(), index.to_string());
    if observed.spec().backoff_limit_per_index.is_some() {
        let (failures, ignored) = replaced.map_or((0, 0), |pod| failures_with(observed, pod));
        annotations.insert(JOB_INDEX_FAILURE_COUNT.to_owned(), failures.to_string());
        if 0 < ignored {
            annotations.insert(JOB_INDEX_IGNORED_FAILURE_COUNT.to_owned(), ignored.to_string());
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{name}-{index}"));
    }
    pod
}

/// How many pods of an index have failed with this one: counted, and ignored.
fn failures_with(observed: &Observed<'_>, pod: &JobPodView) -> (u32, u32) {
    match observed.verdict(pod).is_counted() {
        true => (pod.index_failures.saturating_add(1), pod.ignored_index_failures),
        false => (pod.index_failures, pod.ignored_index_failures.saturating_add(1)),
    }
}

/// Source: kubernetes `pkg/controller/job/indexed_job_utils.go`, `podGenerateNameWithIndex`.
fn name_prefix(job: &str, index: u32) -> String {
    let suffix = format!("-{index}-");
    let end = job.floor_char_boundary(PREFIX_LENGTH_MAX.saturating_sub(suffix.len()));
    format!("{}{suffix}", &job[..end])
}

fn add_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().all(|variable| variable.name != INDEX_VARIABLE) {
        let field = ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{JOB_COMPLETION_INDEX}']") };
        let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
        variables.push(EnvVar { name: INDEX_VARIABLE.to_owned(), value: None, value_from: Some(source) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_before_the_index() {
        assert_eq!(name_prefix("sum", 7), "sum-7-");
        let long = "x".repeat(63);
        assert_eq!(name_prefix(&long, 12), format!("{}-12-", "x".repeat(54)));
        assert_eq!(name_prefix(&"x".repeat(54), 12).len(), PREFIX_LENGTH_MAX);
    }
}
