//! Sets how long a pod stays on a node that is not ready or unreachable.

use super::{
    Admission,
    plug_in::{Chain, PlugIn},
};
use crate::ApiError;
use berth_api::k8s_openapi::api::core::v1::{Pod, Toleration};

const TOLERATION_SECONDS: i64 = 300;
const TOLERATED_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub(super) struct DefaultTolerationSeconds;

impl PlugIn for DefaultTolerationSeconds {
    const NAME: &'static str = "DefaultTolerationSeconds";

    async fn mutate(_chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let changed = admission.changed_mut::<Pod>().is_some();
        let pod = if changed { admission.changed_mut::<Pod>().map(|(_, pod)| pod) } else { admission.created_mut::<Pod>() };
        let Some(pod) = pod else { return Ok(()) };
        let tolerations = pod.spec.get_or_insert_default().tolerations.get_or_insert_default();
        for taint in TOLERATED_TAINTS {
            if !tolerations.iter().any(|toleration| tolerates(toleration, taint)) {
                tolerations.push(Toleration {
                    key: Some(taint.to_owned()),
                    operator: Some("Exists".to_owned()),
                    effect: Some("NoExecute".to_owned()),
                    toleration_seconds: Some(TOLERATION_SECONDS),
                    value: None,
                });
            }
        }
        Ok(())
    }
}

fn tolerates(toleration: &Toleration, taint: &str) -> bool {
    let is_or_empty =
        |text: &Option<String>, wanted: &str| matches!(text.as_deref().unwrap_or_default(), text if text.is_empty() || text == wanted);
    is_or_empty(&toleration.key, taint) && is_or_empty(&toleration.effect, "NoExecute")
}
