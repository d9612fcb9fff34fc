//! What a pod's annotations `sim.berth.dev/…` say, and what is wrong with them.
//!
//! A wrong value is warned about, never refused: on a real cluster anybody may write any annotation, and a pod that was stored there must be storable
//! here. What is warned about is ignored; the pod then does what it does without the annotation.

use crate::{
    Path,
    annotations::{SIM_FAILS, SIM_LOGS, SIM_READY_AFTER, SIM_TERMINATES_AFTER},
    unset::entries,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{collections::BTreeMap, time::Duration};

/// What the keys of all these annotations begin with.
const PREFIX: &str = "sim.berth.dev/";

/// All keys that have a meaning.
const KEYS: [&str; 4] = [SIM_FAILS, SIM_LOGS, SIM_READY_AFTER, SIM_TERMINATES_AFTER];

/// How much of a wrong value is shown, in characters: a warning is one header.
const SHOWN_MAX: usize = 40;

/// How many letters a word may be off and still be taken for a slip.
const SLIPS_MAX: usize = 3;

/// How a pod fails: `sim.berth.dev/fails`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its image cannot be had.
    ImagePullBackOff,
    /// Its containers end badly soon after each start.
    CrashLoopBackOff,
    /// It runs, and its probe never passes.
    NeverReady,
    /// Its containers are never created.
    Pending,
}

impl Failure {
    /// Each by the value that names it.
    const ALL: [(&str, Self); 4] = [
        ("CrashLoopBackOff", Self::CrashLoopBackOff),
        ("ImagePullBackOff", Self::ImagePullBackOff),
        ("NeverReady", Self::NeverReady),
        ("Pending", Self::Pending),
    ];

    /// Reads the annotation's value; `None` if it names no failure.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, failure)| *failure)
    }
}

/// How the pod with these annotations fails, if it does.
#[must_use]
pub fn fails(annotations: &BTreeMap<String, String>) -> Option<Failure> {
    annotations.get(SIM_FAILS).and_then(|text| Failure::parse(text))
}

/// The duration that the annotation `key` says; `None` if it is missing or says none.
#[must_use]
pub fn duration(annotations: &BTreeMap<String, String>, key: &str) -> Option<Duration> {
    annotations.get(key).and_then(|text| parse_duration(text))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(parsed).ok()
}

/// Warnings about the annotations of a pod or template that will be ignored; `path` is that of its metadata.
pub(crate) fn warnings(metadata: &ObjectMeta, path: &Path) -> Vec<String> {
    let ours = entries(&metadata.annotations).filter(|(key, _)| key.starts_with(PREFIX));
    let path = path.child("annotations");
    ours.filter_map(|(key, value)| Some(format!("{}: {}", path.key(key), fault(key, value)?))).collect()
}

/// Warnings about annotations of a workload that its template should have: the simulation reads those of pods alone.
pub(crate) fn misplaced(metadata: &ObjectMeta) -> Vec<String> {
    let ours = entries(&metadata.annotations).filter(|(key, _)| key.starts_with(PREFIX));
    let path = Path::new("metadata").child("annotations");
    let text = |key: &str, value: &str| match KEYS.contains(&key) {
        true => "has no effect here; put it into spec.template.metadata.annotations".to_owned(),
        false => fault(key, value).unwrap_or_default(),
    };
    ours.map(|(key, value)| format!("{}: {}", path.key(key), text(key, value))).collect()
}

fn fault(key: &str, value: &str) -> Option<String> {
    let shown: String = value.chars().take(SHOWN_MAX).collect();
    match key {
        SIM_LOGS => None,
        SIM_READY_AFTER | SIM_TERMINATES_AFTER if parse_duration(value).is_some() => None,
        SIM_READY_AFTER | SIM_TERMINATES_AFTER => {
            Some(format!("{shown:?} is ignored: must be a duration that is not negative, such as 250ms, 3s or 1m30s"))
        }
        SIM_FAILS if Failure::parse(value).is_some() => None,
        SIM_FAILS => {
            let names = Failure::ALL.map(|(name, _)| name);
            Some(format!("{shown:?} is ignored: supported values: {}{}", names.join(", "), did_you_mean(value, &names)))
        }
        _ => Some(format!("unknown annotation is ignored: known are {}{}", KEYS.join(", "), did_you_mean(key, &KEYS))),
    }
}

/// `; did you mean X?` where one of the words is near.
fn did_you_mean(text: &str, words: &[&str]) -> String {
    // A text this long is no slip, and comparing takes time by its length.
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
        serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": []}})).expect("a pod")
    }

    fn deployment(own: &Value, template: &Value) -> Deployment {
        let spec = json!({"selector": {}, "template": {"metadata": {"annotations": template}, "spec": {"containers": []}}});
        serde_json::from_value(json!({"metadata": {"name": "d", "annotations": own}, "spec": spec})).expect("a Deployment")
    }

    /// The one annotation, and what is said about it on a new pod; empty: nothing.
    fn check(key: &str, value: &str, wanted: &str) {
        let found = pod(&json!({key: value})).warnings(None);
        let wanted: Vec<String> =
            Some(wanted).filter(|text| !text.is_empty()).map(|text| format!("metadata.annotations[{key}]: {text}")).into_iter().collect();
        assert_eq!(found, wanted, "{key}: {value}");
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
            let wanted = format!("{text:?} is ignored: must be a duration that is not negative, such as 250ms, 3s or 1m30s");
            check("sim.berth.dev/ready-after", text, &wanted);
            check("sim.berth.dev/terminates-after", text, &wanted);
        }
        check(
            "sim.berth.dev/ready_after",
            "3s",
            "unknown annotation is ignored: known are sim.berth.dev/fails, sim.berth.dev/logs, sim.berth.dev/ready-after, \
             sim.berth.dev/terminates-after; did you mean sim.berth.dev/ready-after?",
        );
        check(
            "sim.berth.dev/memory",
            "1Gi",
            "unknown annotation is ignored: known are sim.berth.dev/fails, sim.berth.dev/logs, sim.berth.dev/ready-after, \
             sim.berth.dev/terminates-after",
        );
    }

    #[test]
    fn right_annotations_and_those_of_others_are_not_warned_about() {
        for (key, values) in [
            ("sim.berth.dev/fails", ["CrashLoopBackOff", "ImagePullBackOff", "NeverReady", "Pending"].as_slice()),
            ("sim.berth.dev/ready-after", &["0s", "250ms", "1m30s"]),
            ("sim.berth.dev/terminates-after", &["20s"]),
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
    fn whoever_writes_an_annotation_is_told_and_nobody_else() {
        let wrong = json!({SIM_READY_AFTER: "soon"});
        assert_eq!(pod(&wrong).warnings(Some(&pod(&json!({})))).len(), 1, "kubectl annotate pod");
        assert_eq!(pod(&wrong).warnings(Some(&pod(&wrong))), [""; 0], "a status");
        let told = deployment(&json!({}), &wrong).warnings(None);
        let wanted = "spec.template.metadata.annotations[sim.berth.dev/ready-after]: \"soon\" is ignored: must be a duration that is not \
                      negative, such as 250ms, 3s or 1m30s";
        assert_eq!(told, [wanted]);
        assert_eq!(deployment(&json!({}), &wrong).warnings(Some(&deployment(&json!({}), &json!({})))), [wanted]);
    }

    #[test]
    fn an_annotation_beside_the_template_is_told_where_it_belongs() {
        let right = json!({SIM_READY_AFTER: "3s"});
        let wanted = "metadata.annotations[sim.berth.dev/ready-after]: has no effect here; put it into spec.template.metadata.annotations";
        assert_eq!(deployment(&right, &json!({})).warnings(None), [wanted]);
        let plain = deployment(&json!({}), &json!({}));
        assert_eq!(deployment(&right, &json!({})).warnings(Some(&plain)), [wanted]);
        let misspelled = deployment(&json!({"sim.berth.dev/fail": "NeverReady"}), &json!({})).warnings(None);
        assert!(misspelled[0].ends_with("did you mean sim.berth.dev/fails?"), "{misspelled:?}");
    }
}
