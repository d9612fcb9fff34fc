//! New pods: their service account, tolerations that every pod has, and the priority.

use crate::{ApiError, Registry, resource};
use berth_api::k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};

/// How long a pod stays on a node that is not ready or cannot be reached.
const TOLERATION_SECONDS: i64 = 300;
const TOLERATED_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl Registry {
    /// Fills in the service account, adds default tolerations and resolves the priority.
    ///
    /// # Errors
    /// A service account or priority class that does not exist, or a priority that differs from its class.
    pub(super) async fn admit_pod(&self, pod: &mut Pod) -> Result<(), ApiError> {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let spec = pod.spec.get_or_insert_default();
        self.set_account(&name, pod.metadata.namespace.as_deref().unwrap_or_default(), spec).await?;
        add_tolerations(spec);
        self.set_priority(&name, spec).await
    }

    async fn set_priority(&self, pod: &str, spec: &mut PodSpec) -> Result<(), ApiError> {
        let pods = resource::find("", "v1", "pods").expect("pods are served");
        let class = match spec.priority_class_name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => Some(
                self.priority_class(name)
                    .await?
                    .ok_or_else(|| ApiError::forbidden(pods, pod, &format!("no PriorityClass with name {name} was found"), Vec::new()))?,
            ),
            None => self.default_priority_class().await?,
        };
        let priority = class.as_ref().and_then(|class| class.value).unwrap_or(0);
        if let Some(given) = spec.priority.filter(|given| *given != priority) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} \
                 from the given PriorityClass name"
            );
            return Err(ApiError::forbidden(pods, pod, &why, Vec::new()));
        }
        let preemption = class.as_ref().and_then(|class| class.preemption_policy.clone());
        spec.priority = Some(priority);
        spec.priority_class_name = class.and_then(|class| class.metadata.name).or_else(|| spec.priority_class_name.take());
        spec.preemption_policy.get_or_insert_with(|| preemption.unwrap_or_else(|| "PreemptLowerPriority".to_owned()));
        Ok(())
    }
}

fn add_tolerations(spec: &mut PodSpec) {
    let tolerations = spec.tolerations.get_or_insert_default();
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
}

fn tolerates(toleration: &Toleration, taint: &str) -> bool {
    let is_or_empty =
        |text: &Option<String>, wanted: &str| matches!(text.as_deref().unwrap_or_default(), text if text.is_empty() || text == wanted);
    is_or_empty(&toleration.key, taint) && is_or_empty(&toleration.effect, "NoExecute")
}
