//! The question before an action. It works without a script.

use super::{Page, shown};
use crate::{
    act::{ActionFields, Prepared, Question, Refusal, Verb},
    address::path,
    pages::frame::{Reader, framed},
};
use berth_workloads::workload::WorkloadId;
use maud::{Markup, html};

/// The maximum number of lines of a difference.
const LINES_MAX: usize = 500;

/// Renders the question, the form for missing parameters, or the rejection.
pub(crate) fn page(reader: Reader<'_>, id: &WorkloadId, verb: Verb, said: &ActionFields, prepared: &Result<Prepared, Refusal>) -> String {
    let title = format!("{} {}", verb.label(), shown(&id.name));
    let body = html! {
        p { a href=(path(id)) { "← " (shown(&id.name)) } }
        h1 { (verb.label()) " " (shown(&id.title())) " in " (shown(&id.namespace)) @if matches!(prepared, Ok(Prepared::Question(_))) { "?" } }
        @match prepared {
            Ok(Prepared::Question(question)) => (asked(reader, id, verb, said, question)),
            Ok(Prepared::Replicas { now }) => (replicas(id, verb, *now)),
            Ok(Prepared::Image { containers }) => (image(id, verb, containers)),
            Err(refusal) => {
                p .note role="alert" { "Nothing was done: " (shown(&refusal.to_string())) "." }
                @if *refusal == Refusal::Changed { p { a href=(address(id, verb)) { "What would happen now" } } }
            }
        }
    };
    framed(&title, reader, None, Some(&Page::Workload { id: id.clone(), pods: 1 }), &body)
}

pub(crate) fn address(id: &WorkloadId, verb: Verb) -> String {
    format!("{}/{}", path(id), verb.word())
}

fn asked(reader: Reader<'_>, id: &WorkloadId, verb: Verb, said: &ActionFields, question: &Question) -> Markup {
    let kept = ["replicas", "container", "image", "to"].into_iter().filter_map(|key| Some((key, said.get(key)?)));
    html! {
        @for sentence in &question.sentences { p .lead { (shown(sentence)) } }
        @if !question.lines.is_empty() {
            p { "In the template:" }
            pre tabindex="0" { @for line in question.lines.iter().take(LINES_MAX) { (line) "\n" } }
            @if LINES_MAX < question.lines.len() { p .quiet { "and " (question.lines.len() - LINES_MAX) " lines more" } }
        }
        form method="post" action=(address(id, verb)) {
            input type="hidden" name="form-token" value=(reader.form_token);
            input type="hidden" name="uid" value=(question.uid);
            input type="hidden" name="generation" value=(question.generation);
            @for (key, value) in kept { input type="hidden" name=(key) value=(shown(value)); }
            ul .actions {
                li { button .go type="submit" { (verb.label()) } }
                li { a href=(path(id)) { "Cancel" } }
            }
        }
    }
}

fn replicas(id: &WorkloadId, verb: Verb, now: i64) -> Markup {
    html! {
        form .filter method="get" action=(address(id, verb)) {
            div {
                label for="replicas" { "How many pods, now " (now) }
                input #replicas type="number" name="replicas" min="0" max="2147483647" required value=(now);
            }
            button type="submit" { "Preview" }
        }
    }
}

fn image(id: &WorkloadId, verb: Verb, containers: &[(String, String)]) -> Markup {
    html! {
        form .filter method="get" action=(address(id, verb)) {
            div {
                label for="container" { "Container" }
                select #container name="container" {
                    @for (name, image) in containers { option value=(shown(name)) { (shown(name)) " (" (shown(image)) ")" } }
                }
            }
            div {
                label for="image" { "Image" }
                input #image type="text" name="image" required value=(containers.first().map_or_else(String::new, |(_, image)| shown(image)));
            }
            button type="submit" { "Preview" }
        }
    }
}
