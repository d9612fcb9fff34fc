//! Sets a new pod's priority, from its class or from the default class. A changed pod keeps its priority.

use super::{
    Admission, Refusal,
    classes::{classes, decoded},
    plug_in::{Chain, PlugIn},
    reader::Reader,
};
use crate::{ApiError, resource};
use berth_api::k8s_openapi::api::{
    core::v1::{Pod, PodSpec},
    scheduling::v1::PriorityClass,
};
use berth_store::MinRevision;

pub(super) struct Priority;

impl PlugIn for Priority {
    const NAME: &'static str = "Priority";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if let Some((old, new)) = admission.changed_mut::<Pod>() {
            keep_priority(old.spec.as_ref(), new.spec.get_or_insert_default());
            return Ok(());
        }
        let as_of = admission.as_of.clone();
        let Some(pod) = admission.created_mut::<Pod>() else { return Ok(()) };
        let set = set_priority(&chain.reader, pod.spec.get_or_insert_default(), &as_of).await;
        set.map_err(|refusal| admission.refused(refusal))
    }
}

/// Keeps the stored values of fields that a client omits.
fn keep_priority(old: Option<&PodSpec>, new: &mut PodSpec) {
    let Some(old) = old else { return };
    new.priority = new.priority.or(old.priority);
    if new.preemption_policy.is_none() {
        new.preemption_policy.clone_from(&old.preemption_policy);
    }
}

/// Sets a new pod's priority from its class. It refuses a class that does not exist, and a priority that is not its class's.
async fn set_priority(reader: &Reader, spec: &mut PodSpec, as_of: &MinRevision) -> Result<(), Refusal> {
    let class = match spec.priority_class_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => match priority_class(reader, name, as_of).await? {
            Some(class) => Some(class),
            None => return Err(Refusal::Forbidden(format!("no PriorityClass with name {name} was found"))),
        },
        None => default_priority_class(reader, as_of).await?,
    };
    let priority = class.as_ref().and_then(|class| class.value).unwrap_or(0);
    if let Some(given) = spec.priority.filter(|given| *given != priority) {
        return Err(Refusal::Forbidden(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} \
             from the given PriorityClass name"
        )));
    }
    let preemption = class.as_ref().and_then(|class| class.preemption_policy.clone());
    spec.priority = Some(priority);
    spec.priority_class_name = class.and_then(|class| class.metadata.name).or_else(|| spec.priority_class_name.take());
    spec.preemption_policy.get_or_insert_with(|| preemption.unwrap_or_else(|| "PreemptLowerPriority".to_owned()));
    Ok(())
}

async fn priority_class(reader: &Reader, name: &str, as_of: &MinRevision) -> Result<Option<PriorityClass>, ApiError> {
    let entry = reader.get(resource::of::<PriorityClass>(), None, name, as_of).await?;
    entry.map(|entry| decoded(&entry)).transpose()
}

/// Returns the priority class for pods without one. If there are several, the one with the lowest value, as upstream.
async fn default_priority_class(reader: &Reader, as_of: &MinRevision) -> Result<Option<PriorityClass>, ApiError> {
    let classes: Vec<PriorityClass> = classes(reader, "\"globalDefault\":true", as_of).await?;
    Ok(classes.into_iter().filter(|class| class.global_default == Some(true)).min_by_key(|class| class.value))
}
