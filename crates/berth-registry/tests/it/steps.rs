//! The steps of progressive rollouts, and their analyses, are validated at every write.

use crate::test_cluster::{TestCluster, deployment};
use berth_api::apps::analysis::QUERY_BYTES_MAX;
use serde_json::{Value, json};

const D: &str = "deployments.apps";
const STEPS: &str = "berth.dev/steps";
const PROVIDER: &str = "berth.dev/analysis-provider";
const QUERY: &str = "berth.dev/analysis-query";

fn with(annotations: &Value) -> Value {
    let mut object = deployment("d");
    object["metadata"]["annotations"] = annotations.clone();
    object
}

/// Returns the error, or an empty text.
fn refusal(annotations: &Value) -> String {
    TestCluster::new().create(D, with(annotations)).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn an_analysis_step_requires_a_provider_and_a_query() {
    let asks = "25%, analysis, 100%";
    let whole = json!({STEPS: asks, PROVIDER: "prod", QUERY: "up"});
    assert_eq!(refusal(&whole), "");
    assert_eq!(refusal(&json!({STEPS: "25%, pause, 100%"})), "");
    assert_eq!(refusal(&json!({PROVIDER: "prod"})), "", "no request yet");
    let missing = |key: &str| format!("metadata.annotations[{key}]: Required value: berth.dev/steps has an `analysis`");
    for key in [PROVIDER, QUERY] {
        let mut lacking = whole.clone();
        lacking.as_object_mut().expect("a map").remove(key);
        let text = refusal(&lacking);
        assert!(text.contains(&missing(key)) && !text.contains("pause"), "{text}");
    }
    let both = refusal(&json!({STEPS: asks}));
    assert!([PROVIDER, QUERY].iter().all(|key| both.contains(&missing(key))), "{both}");
    for (steps, place) in [
        ("analysis, 100%", "at character 1: the first step must be a percentage"),
        ("100%, analysis", "at character 7: nothing follows 100%"),
    ] {
        let text = refusal(&json!({STEPS: steps, PROVIDER: "prod", QUERY: "up"}));
        assert!(text.contains(place), "{text}");
    }
    for provider in ["", "Prod", "a.b", &"a".repeat(64)] {
        let text = refusal(&json!({PROVIDER: provider}));
        assert!(text.contains(&format!("metadata.annotations[{PROVIDER}]: Invalid value: ")), "{provider}: {text}");
    }
    for (query, why) in [
        ("", "must ask something"),
        (" \n", "must ask something"),
        ("a\u{1b}[2J", "control characters"),
        (&"x".repeat(QUERY_BYTES_MAX + 1), "Too long"),
    ] {
        let text = refusal(&json!({QUERY: query}));
        assert!(text.contains(&format!("metadata.annotations[{QUERY}]: ")) && text.contains(why), "{text}");
    }
}

#[test]
fn whom_or_what_is_asked_cannot_be_taken_away_from_who_asks() {
    let cluster = TestCluster::new();
    cluster.made(D, with(&json!({STEPS: "25%, analysis, 100%", PROVIDER: "prod", QUERY: "up"})));
    let mut lacking = cluster.get(D, "d").expect("it is there");
    lacking["metadata"]["annotations"] = json!({STEPS: "25%, analysis, 100%", QUERY: "up"});
    // A write of the status contains annotations too.
    for what in [D, "deployments.apps/status"] {
        let error = cluster.update(what, "d", &lacking).expect_err("no provider is asked").to_string();
        assert!(error.contains(&format!("metadata.annotations[{PROVIDER}]: Required value")), "{what}: {error}");
    }
    lacking["metadata"]["annotations"] = json!({QUERY: "up"});
    cluster.update(D, "d", &lacking).expect("without steps, no provider is asked");
}
