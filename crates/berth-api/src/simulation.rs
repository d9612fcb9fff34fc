//! The `sim.berth.dev/…` annotations of a pod, and the errors in them.
//!
//! An invalid value causes a warning and no rejection: a real cluster accepts any annotation, and a pod that was stored
//! there must be storable here. The simulation ignores an invalid annotation.

mod course;
mod spread;
mod usage;

pub use course::{Completion, Course, Courses, USUAL_RUN};
pub use spread::{Spread, seed};
pub use usage::{ContainerUsage, Curve, usage};

use crate::{
    Path,
    annotations::{
        SIM_COMPLETES_AFTER, SIM_CPU, SIM_EXIT_CODE, SIM_FAILS, SIM_FAILS_FIRST, SIM_LOGS, SIM_MEMORY, SIM_READY_AFTER,
        SIM_TERMINATES_AFTER,
    },
    unset::{entries, list},
};
use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::collections::BTreeMap;

/// The prefix of these annotations.
const PREFIX: &str = "sim.berth.dev/";

/// All known keys.
const KEYS: [&str; 9] =
    [SIM_COMPLETES_AFTER, SIM_CPU, SIM_EXIT_CODE, SIM_FAILS, SIM_FAILS_FIRST, SIM_LOGS, SIM_MEMORY, SIM_READY_AFTER, SIM_TERMINATES_AFTER];

/// The keys that can end with `.NAME`, for one container.
const CONTAINER_KEYS: [&str; 5] = [SIM_COMPLETES_AFTER, SIM_CPU, SIM_EXIT_CODE, SIM_FAILS_FIRST, SIM_MEMORY];

/// The number of characters of an invalid value that are shown, because a warning is one header.
const SHOWN_MAX: usize = 40;

/// The maximum edit distance of a misspelled word.
const SLIPS_MAX: usize = 3;

/// The failure of a pod: `sim.berth.dev/fails`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its image cannot be pulled.
    ImagePullBackOff,
    /// Its containers fail soon after each start.
    CrashLoopBackOff,
    /// It runs, but its readiness probe never succeeds.
    NeverReady,
    /// Its containers are never created.
    Pending,
}

impl Failure {
    /// Each with its value.
    const ALL: [(&str, Self); 4] = [
        ("CrashLoopBackOff", Self::CrashLoopBackOff),
        ("ImagePullBackOff", Self::ImagePullBackOff),
        ("NeverReady", Self::NeverReady),
        ("Pending", Self::Pending),
    ];

    /// Parses the annotation's value. `None`: it is not a failure.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, failure)| *failure)
    }
}

/// Returns the failure of a pod with these annotations, if any.
#[must_use]
pub fn fails(annotations: &BTreeMap<String, String>) -> Option<Failure> {
    annotations.get(SIM_FAILS).and_then(|text| Failure::parse(text))
}

/// Returns the duration or range of the annotation `key`. `None`: it is missing or invalid.
#[must_use]
pub fn spread(annotations: &BTreeMap<String, String>, key: &str) -> Option<Spread> {
    annotations.get(key).and_then(|text| Spread::parse(text))
}

/// Returns warnings about annotations of a pod or template without effect. `path` is that of its metadata.
pub(crate) fn warnings(metadata: &ObjectMeta, spec: Option<&PodSpec>, path: &Path) -> Vec<String> {
    let ours = entries(&metadata.annotations).filter(|(key, _)| key.starts_with(PREFIX));
    let path = path.child("annotations");
    let fault = |key: &str, value: &str| {
        let base = base(key);
        fault(base, value).or_else(|| without_container(key.strip_prefix(base)?.strip_prefix('.')?, spec?))
    };
    ours.filter_map(|(key, value)| Some(format!("{}: {}", path.key(key), fault(key, value)?))).collect()
}

/// Returns warnings about annotations of a workload that belong in its template. The simulation reads only those of
/// pods.
pub(crate) fn misplaced(metadata: &ObjectMeta) -> Vec<String> {
    let ours = entries(&metadata.annotations).filter(|(key, _)| key.starts_with(PREFIX));
    let path = Path::new("metadata").child("annotations");
    let text = |key: &str, value: &str| match KEYS.contains(&key) {
        true => "has no effect here; put it into spec.template.metadata.annotations".to_owned(),
        false => fault(key, value).unwrap_or_default(),
    };
    ours.map(|(key, value)| format!("{}: {}", path.key(key), text(base(key), value))).collect()
}

/// Returns the key without the name of a container.
fn base(key: &str) -> &str {
    let names = |base: &&str| key.strip_prefix(*base).is_some_and(|rest| rest.starts_with('.'));
    CONTAINER_KEYS.into_iter().find(names).unwrap_or(key)
}

/// The maximum number of containers that a warning lists and compares with a misspelled name, because an object can
/// have thousands.
const NAMES_MAX: usize = 8;

fn without_container(name: &str, spec: &PodSpec) -> Option<String> {
    let names = || list(&spec.init_containers).iter().chain(&spec.containers).map(|container: &Container| container.name.as_str());
    if names().any(|known| known == name) {
        return None;
    }
    let cut = |text: &str| text.chars().take(SHOWN_MAX).collect::<String>();
    let first: Vec<&str> = names().take(NAMES_MAX).collect();
    let more = names().count() - first.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let known = first.iter().map(|name| cut(name)).collect::<Vec<_>>().join(", ");
    Some(format!("is ignored: no container is named {:?}; the containers are {known}{more}{}", cut(name), did_you_mean(name, &first)))
}

const DURATION: &str = "must be a duration that is not negative, such as 250ms, 3s or 1m30s, or a range such as 3s±1s";

/// Returns why the value has no effect. `key` is without a container's name.
fn fault(key: &str, value: &str) -> Option<String> {
    let shown: String = value.chars().take(SHOWN_MAX).collect();
    let (is_valid, allowed) = match key {
        SIM_LOGS => return None,
        SIM_READY_AFTER | SIM_TERMINATES_AFTER => (Spread::parse(value).is_some(), DURATION.to_owned()),
        SIM_COMPLETES_AFTER => (Completion::parse(value).is_some(), format!("{DURATION}, or never")),
        SIM_EXIT_CODE => (value.parse::<u8>().is_ok(), "must be an exit code from 0 to 255".to_owned()),
        SIM_FAILS_FIRST => (value.parse::<u32>().is_ok(), "must be a number of runs, such as 3".to_owned()),
        SIM_CPU => (Curve::parse(value).is_some(), "must be a quantity, such as 200m, or a curve, such as \"0s=100m 5m=900m\"".to_owned()),
        SIM_MEMORY => {
            (Curve::parse(value).is_some(), "must be a quantity, such as 64Mi, or a curve, such as \"0s=64Mi 5m=1Gi\"".to_owned())
        }
        SIM_FAILS => {
            let names = Failure::ALL.map(|(name, _)| name);
            (Failure::parse(value).is_some(), format!("supported values: {}{}", names.join(", "), did_you_mean(value, &names)))
        }
        _ => return Some(format!("unknown annotation is ignored: known are {}{}", KEYS.join(", "), did_you_mean_key(key))),
    };
    (!is_valid).then(|| format!("{shown:?} is ignored: {allowed}"))
}

/// A misspelled key can name a container too.
fn did_you_mean_key(key: &str) -> String {
    let name = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')).map(|(_, name)| name);
    let near = |key: &str| did_you_mean(key, &KEYS);
    match name.and_then(|name| key.strip_suffix(name)?.strip_suffix('.')) {
        Some(stem) => near(stem),
        None => near(key),
    }
}

/// Returns `; did you mean X?` if one of the words is similar.
fn did_you_mean(text: &str, words: &[&str]) -> String {
    // A text of this length is not a typo, and the cost of comparing depends on the length.
    if text.len() > 2 * SHOWN_MAX {
        return String::new();
    }
    let text = text.trim().to_lowercase();
    let distance = |word: &str| strsim::osa_distance(&text, &word.to_lowercase());
    let nearest = words.iter().map(|word| (distance(word), *word)).min();
    nearest.filter(|(slips, _)| *slips <= SLIPS_MAX).map_or_else(String::new, |(_, word)| format!("; did you mean {word}?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, apps::Deployment};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(annotations: &Value) -> Pod {
        let containers = json!({"initContainers": [{"name": "once", "image": "i"}], "containers": [{"name": "main", "image": "i"}]});
        serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}, "spec": containers})).expect("a pod")
    }

    fn deployment(own: &Value, template: &Value) -> Deployment {
        let spec = json!({"selector": {}, "template": {"metadata": {"annotations": template}, "spec": {"containers": []}}});
        serde_json::from_value(json!({"metadata": {"name": "d", "annotations": own}, "spec": spec})).expect("a Deployment")
    }

    /// Checks the warning about one annotation of a new pod. Empty: no warning.
    fn check(key: &str, value: &str, wanted: &str) {
        let found = pod(&json!({key: value})).warnings(None);
        let wanted: Vec<String> =
            Some(wanted).filter(|text| !text.is_empty()).map(|text| format!("metadata.annotations[{key}]: {text}")).into_iter().collect();
        assert_eq!(found, wanted, "{key}: {value}");
    }

    /// One object can have thousands of annotations and thousands of containers.
    #[test]
    fn a_warning_names_few_of_many_containers() {
        let containers: Vec<Value> = (0..500).map(|number| json!({"name": format!("c{number}"), "image": "i"})).collect();
        let spec: PodSpec = serde_json::from_value(json!({"containers": containers})).expect("a spec");
        let text = without_container("d", &spec).expect("a warning");
        assert_eq!(
            text,
            "is ignored: no container is named \"d\"; the containers are c0, c1, c2, c3, c4, c5, c6, c7 and 492 more; did you mean c0?"
        );
        assert_eq!(without_container("c499", &spec), None);
    }

    #[test]
    fn wrong_annotations_are_named_with_what_is_allowed() {
        check(
            "sim.berth.dev/fails",
            "CrashLoopBackOf",
            "\"CrashLoopBackOf\" is ignored: supported values: CrashLoopBackOff, ImagePullBackOff, NeverReady, Pending; did you mean CrashLoopBackOff?",
        );
        check(
            "sim.berth.dev/fails",
            "yes",
            "\"yes\" is ignored: supported values: CrashLoopBackOff, ImagePullBackOff, NeverReady, Pending",
        );
        for text in ["soon", "", "-1s", "3", "1h-2m"] {
            let wanted = format!("{text:?} is ignored: {DURATION}");
            check("sim.berth.dev/ready-after", text, &wanted);
            check("sim.berth.dev/terminates-after", text, &wanted);
        }
        let unknown = "unknown annotation is ignored: known are sim.berth.dev/completes-after, sim.berth.dev/cpu, sim.berth.dev/exit-code, \
                       sim.berth.dev/fails, sim.berth.dev/fails-first, sim.berth.dev/logs, sim.berth.dev/memory, \
                       sim.berth.dev/ready-after, sim.berth.dev/terminates-after";
        check("sim.berth.dev/ready_after", "3s", &format!("{unknown}; did you mean sim.berth.dev/ready-after?"));
        check("sim.berth.dev/exit_code.main", "3", &format!("{unknown}; did you mean sim.berth.dev/exit-code?"));
        check("sim.berth.dev/bandwidth", "1Gi", unknown);
        check("sim.berth.dev/logs.main", "x", &format!("{unknown}; did you mean sim.berth.dev/logs?"));
        check("sim.berth.dev/completes-after", "2s±3s", &format!("\"2s±3s\" is ignored: {DURATION}, or never"));
        for text in ["256", "-1", "one", ""] {
            check("sim.berth.dev/exit-code", text, &format!("{text:?} is ignored: must be an exit code from 0 to 255"));
        }
        check("sim.berth.dev/fails-first", "-1", "\"-1\" is ignored: must be a number of runs, such as 3");
        let curve = "must be a quantity, such as 200m, or a curve, such as \"0s=100m 5m=900m\"";
        check("sim.berth.dev/cpu", "5m=1 1m=2", &format!("\"5m=1 1m=2\" is ignored: {curve}"));
        let curve = "must be a quantity, such as 64Mi, or a curve, such as \"0s=64Mi 5m=1Gi\"";
        check("sim.berth.dev/memory.main", "64MB", &format!("\"64MB\" is ignored: {curve}"));
        check(
            "sim.berth.dev/exit-code.man",
            "3",
            "is ignored: no container is named \"man\"; the containers are once, main; did you mean main?",
        );
    }

    #[test]
    fn right_annotations_and_those_of_others_are_not_warned_about() {
        for (key, values) in [
            ("sim.berth.dev/fails", ["CrashLoopBackOff", "ImagePullBackOff", "NeverReady", "Pending"].as_slice()),
            ("sim.berth.dev/ready-after", &["0s", "250ms", "1m30s"]),
            ("sim.berth.dev/terminates-after", &["20s", "20s±5s"]),
            ("sim.berth.dev/completes-after", &["0s", "2s±1s", "never"]),
            ("sim.berth.dev/completes-after.once", &["1h"]),
            ("sim.berth.dev/exit-code", &["0", "255"]),
            ("sim.berth.dev/fails-first.main", &["0", "3"]),
            ("sim.berth.dev/cpu", &["200m", "0s=100m 5m=900m"]),
            ("sim.berth.dev/memory.main", &["64Mi", "0s=64Mi 1h=1Gi"]),
            ("sim.berth.dev/logs", &["", "any\ntext"]),
            ("sim.example/fails", &["x"]),
        ] {
            values.iter().for_each(|value| check(key, value, ""));
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let found = pod(&json!({SIM_FAILS: "x".repeat(100_000)})).warnings(None);
        assert!(found[0].len() < 256, "{found:?}");
    }

    #[test]
    fn only_the_writer_of_an_invalid_annotation_gets_a_warning() {
        let wrong = json!({SIM_READY_AFTER: "soon"});
        assert_eq!(pod(&wrong).warnings(Some(&pod(&json!({})))).len(), 1, "kubectl annotate pod");
        assert_eq!(pod(&wrong).warnings(Some(&pod(&wrong))), [""; 0], "a status");
        let told = deployment(&json!({}), &wrong).warnings(None);
        let wanted = format!("spec.template.metadata.annotations[sim.berth.dev/ready-after]: \"soon\" is ignored: {DURATION}");
        assert_eq!(told, [wanted.as_str()]);
        assert_eq!(deployment(&json!({}), &wrong).warnings(Some(&deployment(&json!({}), &json!({})))), [wanted]);
    }

    #[test]
    fn an_annotation_beside_the_template_gets_a_warning_with_its_correct_place() {
        let right = json!({SIM_READY_AFTER: "3s"});
        let wanted = "metadata.annotations[sim.berth.dev/ready-after]: has no effect here; put it into spec.template.metadata.annotations";
        assert_eq!(deployment(&right, &json!({})).warnings(None), [wanted]);
        let plain = deployment(&json!({}), &json!({}));
        assert_eq!(deployment(&right, &json!({})).warnings(Some(&plain)), [wanted]);
        let misspelled = deployment(&json!({"sim.berth.dev/fail": "NeverReady"}), &json!({})).warnings(None);
        assert!(misspelled[0].ends_with("did you mean sim.berth.dev/fails?"), "{misspelled:?}");
    }
}
