//! `LimitRange`: sets requests and limits of new pods, and rejects pods and claims outside the bounds.

use super::{
    Admission,
    classes::decoded,
    plug_in::{Chain, PlugIn},
    reader::Reader,
};
use crate::{ApiError, resource};
use berth_api::{
    k8s_openapi::api::core::v1::{LimitRange, PersistentVolumeClaim, Pod},
    limit_range,
};
use berth_store::MinRevision;

pub(super) struct LimitRanger;

impl PlugIn for LimitRanger {
    const NAME: &'static str = "LimitRanger";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if admission.created::<Pod>().is_none() && admission.created::<PersistentVolumeClaim>().is_none() {
            return Ok(());
        }
        let ranges = limit_ranges(&chain.reader, admission.at.namespace, &admission.as_of).await?;
        if let Some(pod) = admission.created_mut::<Pod>() {
            ranges.iter().for_each(|range| limit_range::set_defaults(range, pod));
        }
        admission.limit_ranges = ranges;
        Ok(())
    }

    /// A changed size of a claim must be within the bounds too. Requests of pods are immutable.
    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let asked = |claim: &PersistentVolumeClaim| claim.spec.as_ref().and_then(|spec| spec.resources.clone());
        if admission.changed_kind::<PersistentVolumeClaim>().is_some_and(|(old, new)| asked(old) != asked(new)) {
            admission.limit_ranges = limit_ranges(&chain.reader, admission.at.namespace, &admission.as_of).await?;
        }
        let check = |range| limit_range::check(range, &*admission.object);
        admission.limit_ranges.iter().try_for_each(check).map_err(|why| admission.forbidden(&why))
    }
}

async fn limit_ranges(reader: &Reader, namespace: Option<&str>, as_of: &MinRevision) -> Result<Vec<LimitRange>, ApiError> {
    reader.list(resource::of::<LimitRange>(), namespace, as_of).await?.iter().map(|entry| decoded(entry)).collect()
}
