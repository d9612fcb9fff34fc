//! What `spec.podFailurePolicy` decides about a failed pod.

use crate::view::JobPodView;
use k8s_openapi::api::batch::v1::{PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern};

/// What follows from a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts toward the backoff limits.
    Count,
    /// It does not count toward the backoff limits.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The Job has failed.
    FailJob {
        /// Upstream's message.
        message: String,
    },
}

impl Verdict {
    /// Whether the failure counts toward the backoff limits, and in `status.failed`.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        *self != Self::Ignore
    }
}

/// Returns the verdict of the first rule that matches the failed pod. A failure that matches no rule counts.
///
/// Source: kubernetes `pkg/controller/job/pod_failure_policy.go`, `matchPodFailurePolicy`; KEP-3329.
#[must_use]
pub fn verdict(policy: Option<&PodFailurePolicy>, pod: &JobPodView) -> Verdict {
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    let matching = rules.iter().enumerate().find_map(|(number, rule)| {
        let cause = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(requirement), _) => exit_code(pod, requirement),
            (None, Some(patterns)) => condition(pod, patterns),
            (None, None) => None,
        };
        // A later version's action decides nothing here, and neither does its rule.
        cause.and_then(|cause| act(&rule.action, number, &cause, pod))
    });
    matching.unwrap_or(Verdict::Count)
}

/// Why a rule matches.
enum Cause<'a> {
    ExitCode { container: &'a str, code: i32 },
    Condition(&'a str),
}

fn act(action: &str, number: usize, cause: &Cause<'_>, pod: &JobPodView) -> Option<Verdict> {
    let meta = &pod.pod.meta;
    Some(match action {
        "Ignore" => Verdict::Ignore,
        "Count" => Verdict::Count,
        "FailIndex" => Verdict::FailIndex,
        "FailJob" => Verdict::FailJob {
            message: match cause {
                Cause::ExitCode { container, code } => format!(
                    "Container {container} for pod {}/{} failed with exit code {code} matching FailJob rule at index {number}",
                    meta.namespace, meta.name
                ),
                Cause::Condition(type_) => {
                    format!("Pod {}/{} has condition {type_} matching FailJob rule at index {number}", meta.namespace, meta.name)
                }
            },
        },
        _ => return None,
    })
}

fn exit_code<'a>(pod: &'a JobPodView, requirement: &PodFailurePolicyOnExitCodesRequirement) -> Option<Cause<'a>> {
    let is_meant = |name: &str| requirement.container_name.as_deref().is_none_or(|wanted| wanted == name);
    let is_matching = |code: &i32| match requirement.operator.as_str() {
        "In" => requirement.values.contains(code),
        "NotIn" => !requirement.values.contains(code),
        _ => false,
    };
    let error = pod.errors.iter().find(|error| is_meant(&error.name) && is_matching(&error.exit_code))?;
    Some(Cause::ExitCode { container: &error.name, code: error.exit_code })
}

fn condition<'a>(pod: &'a JobPodView, patterns: &[PodFailurePolicyOnPodConditionsPattern]) -> Option<Cause<'a>> {
    let status = |pattern: &PodFailurePolicyOnPodConditionsPattern| match pattern.status.as_deref() {
        None | Some("") => "True".to_owned(),
        Some(status) => status.to_owned(),
    };
    let condition = pod
        .conditions
        .iter()
        .find(|condition| patterns.iter().any(|pattern| pattern.type_ == condition.type_ && status(pattern) == condition.status))?;
    Some(Cause::Condition(&condition.type_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    /// A failed pod: `main=1 init:setup=3 DisruptionTarget=True`.
    fn pod(text: &str) -> JobPodView {
        let (mut containers, mut init, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').expect("NAME=VALUE");
            match (value.parse::<i32>(), name.strip_prefix("init:")) {
                (Ok(code), None) => containers.push(json!({"name": name, "state": {"terminated": {"exitCode": code}}})),
                (Ok(code), Some(name)) => init.push(json!({"name": name, "state": {"terminated": {"exitCode": code}}})),
                (Err(_), _) => conditions.push(json!({"type": name, "status": value})),
            }
        }
        let status = json!({"phase": "Failed", "containerStatuses": containers, "initContainerStatuses": init, "conditions": conditions});
        let json = json!({"metadata": {"name": "p", "namespace": "ns"}, "status": status});
        JobPodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    fn check(rules: Value, cases: &[(&str, Verdict)]) {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": rules})).expect("a policy");
        for (text, expected) in cases {
            assert_eq!(verdict(Some(&policy), &pod(text)), *expected, "{text}");
        }
    }

    fn codes(action: &str, container: Option<&str>, operator: &str, values: &[i32]) -> Value {
        json!({"action": action, "onExitCodes": {"containerName": container, "operator": operator, "values": values}})
    }

    fn fail_job(message: &str) -> Verdict {
        Verdict::FailJob { message: message.to_owned() }
    }

    /// The example of upstream's task "Handling retriable and non-retriable pod failures".
    #[test]
    fn a_bug_fails_the_job_and_a_disruption_is_ignored() {
        let ignored = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
        check(
            json!([codes("FailJob", Some("main"), "In", &[42]), ignored]),
            &[
                ("main=42", fail_job("Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 0")),
                (
                    "main=42 DisruptionTarget=True",
                    fail_job("Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 0"),
                ),
                ("main=137 DisruptionTarget=True", Verdict::Ignore),
                ("main=137 DisruptionTarget=False", Verdict::Count),
                ("main=1", Verdict::Count),
                ("other=42", Verdict::Count),
                ("", Verdict::Count),
            ],
        );
        assert_eq!(verdict(None, &pod("main=42")), Verdict::Count);
    }

    #[test]
    fn a_condition_fails_the_job_with_its_type_in_the_message() {
        check(
            json!([{"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}, {"type": "Lost", "status": "Unknown"}]}]),
            &[
                ("main=1 ConfigIssue=True", fail_job("Pod ns/p has condition ConfigIssue matching FailJob rule at index 0")),
                ("main=1 Lost=Unknown", fail_job("Pod ns/p has condition Lost matching FailJob rule at index 0")),
                ("main=1 Lost=True", Verdict::Count),
            ],
        );
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        check(
            json!([codes("Count", None, "In", &[2, 3]), codes("FailIndex", None, "NotIn", &[4]), codes("Ignore", None, "In", &[4])]),
            &[
                ("main=3", Verdict::Count),
                ("main=5", Verdict::FailIndex),
                ("main=4", Verdict::Ignore),
                ("main=0", Verdict::Count),
                ("init:setup=5", Verdict::FailIndex),
                ("main=0 init:setup=4", Verdict::Ignore),
            ],
        );
    }

    #[test]
    fn containers_match_before_init_containers() {
        let message = "Container main for pod ns/p failed with exit code 2 matching FailJob rule at index 0";
        check(json!([codes("FailJob", None, "In", &[1, 2])]), &[("init:setup=1 main=2", fail_job(message))]);
    }

    #[test]
    fn a_rule_with_an_unknown_action_or_operator_matches_nothing() {
        check(json!([codes("Later", None, "In", &[1]), codes("Ignore", None, "Near", &[1])]), &[("main=1", Verdict::Count)]);
    }
}
