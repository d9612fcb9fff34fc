//! One case: an object of one kind is created, changed a few times and deleted, on both servers.

use crate::{
    accepted::explains,
    differ::{Difference, compare},
    draw::Draw,
    edit::Edit,
    normal::{for_server, normal, to_send},
    schema::Schemas,
    served::{Answer, Ask, Kind, Pair},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What all cases share.
pub(crate) struct Comparison {
    pub(crate) pair: Pair,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) schemas: Schemas,
    /// By kind.
    pub(crate) documents: Vec<Vec<Value>>,
    /// Prints every request and both answers.
    pub(crate) is_traced: bool,
}

/// What came of a case.
#[derive(Default)]
pub(crate) struct Seen {
    /// Requests by verb, and how many of them the real server accepted.
    pub(crate) requests: BTreeMap<&'static str, [u64; 2]>,
    /// Differences, each with the verb that showed it first.
    pub(crate) found: Vec<(&'static str, Difference)>,
}

/// The changes after the create.
const CHANGES: usize = 4;

/// Annotations by which a class would be the default of other cases.
const DEFAULT_CLASS: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
    "ingressclass.kubernetes.io/is-default-class",
];

struct Case<'c> {
    shared: &'c Comparison,
    draw: Draw,
    kind: &'c Kind,
    root: &'c Value,
    name: String,
    /// What each server has stored: theirs, ours.
    stored: [Value; 2],
    seen: Seen,
}

impl Comparison {
    /// The kind that the case of a seed is about.
    pub(crate) fn kind_of(&self, seed: u64) -> usize {
        usize::try_from(seed).expect("seeds fit") % self.kinds.len()
    }

    /// Runs the case of a seed.
    pub(crate) async fn run(&self, seed: u64) -> Seen {
        let place = self.kind_of(seed);
        let kind = &self.kinds[place];
        let root = self.schemas.root(&kind.api_version, &kind.kind).unwrap_or_else(|| panic!("the real server has no schema of {kind:?}"));
        let mut draw = Draw::new(seed);
        let document = draw.pick(&self.documents[place]).clone();
        let name = match kind.kind.as_str() {
            "IPAddress" => format!("10.99.{}.{}", seed / 250 % 250, seed % 250),
            _ => format!("c{seed}"),
        };
        let mut case = Case { shared: self, draw, kind, root, name, stored: [Value::Null, Value::Null], seen: Seen::default() };
        let document = case.prepared(document);
        if case.create(&document).await {
            case.change(&document).await;
        }
        case.delete().await;
        case.seen
    }
}

impl Case<'_> {
    /// The document as this case's object.
    fn prepared(&self, mut document: Value) -> Value {
        let name = json!(self.name);
        if let Some(fields) = document.as_object_mut() {
            fields.remove("status");
        }
        let metadata = document["metadata"].as_object_mut().expect("documents without are not read");
        metadata.retain(|field, _| ["labels", "annotations"].contains(&field.as_str()));
        metadata.insert("name".to_owned(), name);
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !DEFAULT_CLASS.contains(&key.as_str()));
        }
        for reference in ["involvedObject", "regarding"] {
            if document[reference].is_object() {
                document[reference]["namespace"] = json!(self.kind.namespace());
            }
        }
        document
    }

    /// The document with some changes.
    fn edited(&mut self, document: &Value, none: usize) -> Value {
        let count = match self.draw.below(100) {
            drawn if drawn < none => 0,
            drawn => [1, 1, 1, 1, 2, 2, 3][drawn % 7],
        };
        let mut edited = document.clone();
        for _ in 0..count {
            Edit::draw(&mut self.draw, &self.shared.schemas, self.root, &edited, None).make(&mut edited);
        }
        // A class that is the default of all others would change other cases.
        if self.kind.kind == "PriorityClass" && edited["globalDefault"] == true {
            edited["globalDefault"] = json!(false);
        }
        // The available real server adds a ConfigMap of its distribution to the volume with the token of an account.
        if self.kind.kind == "Pod"
            && let Some(Value::Object(spec)) = edited.get_mut("spec")
        {
            spec.remove("automountServiceAccountToken");
        }
        edited
    }

    /// Whether the object is there afterwards.
    async fn create(&mut self, document: &Value) -> bool {
        let edited = self.edited(document, 12);
        let collection = self.kind.collection();
        let created = match self.draw.below(20) {
            0 => self.ask("PUT", &format!("{collection}/{}?fieldManager=one", self.name), JSON, edited).await,
            1 | 2 => self.ask("apply", &format!("{collection}/{}?fieldManager=one", self.name), APPLY, edited).await,
            _ => {
                let path = format!("{collection}?fieldManager=one{}", self.drawn_validation());
                self.ask("create", &path, JSON, edited).await
            }
        };
        match created {
            Outcome::Both(true) => true,
            Outcome::Differ => false,
            Outcome::Both(false) => {
                let created = self.ask("create", &format!("{collection}?fieldManager=one"), JSON, document.clone()).await;
                matches!(created, Outcome::Both(true))
            }
        }
    }

    /// A query that decides the handling of unknown fields.
    fn drawn_validation(&mut self) -> &'static str {
        self.draw.pick::<&str>(&[
            "",
            "",
            "&fieldValidation=Strict",
            "&fieldValidation=Strict",
            "&fieldValidation=Warn",
            "&fieldValidation=Ignore",
        ])
    }

    async fn change(&mut self, document: &Value) {
        for _ in 0..CHANGES {
            let outcome = match self.draw.below(20) {
                0..6 => self.put().await,
                6..12 => self.apply(document).await,
                12..15 => self.patch("merge", MERGE, |edit, stored, _| edit.merge_patch(stored)).await,
                15..17 => {
                    self.patch("strategic", STRATEGIC, |edit, stored, (schemas, root)| edit.strategic_patch(schemas, root, stored)).await
                }
                17..19 => self.patch("json", JSON_PATCH, |edit, stored, _| edit.json_patch(stored)).await,
                _ => self.status().await,
            };
            if let Outcome::Differ = outcome {
                return;
            }
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.kind.collection(), self.name)
    }

    /// What the real server has stored, in the form of both servers.
    fn base(&self) -> Value {
        let stored = normal(&self.stored[0], &Value::Null);
        to_send(&stored)
    }

    async fn put(&mut self) -> Outcome {
        let base = self.base();
        let mut body = self.edited(&base, 20);
        if body["metadata"].is_object() {
            if self.draw.percent(50) {
                body["metadata"]["resourceVersion"] = json!("$version");
            }
            if self.draw.percent(20) {
                body["metadata"]["uid"] = json!("$uid");
            }
        }
        let manager = *self.draw.pick(&["one", "two"]);
        let path = format!("{}?fieldManager={manager}{}", self.path(), self.drawn_validation());
        self.ask("PUT", &path, JSON, body).await
    }

    async fn apply(&mut self, document: &Value) -> Outcome {
        let base = if self.draw.percent(70) { document.clone() } else { self.base() };
        let mut body = self.edited(&base, 25);
        if self.draw.percent(30)
            && let Some(fields) = body.as_object_mut()
        {
            let mut names: Vec<String> =
                fields.keys().filter(|name| !["apiVersion", "kind", "metadata"].contains(&name.as_str())).cloned().collect();
            names.sort_unstable();
            if !names.is_empty() {
                fields.remove(self.draw.pick(&names));
            }
        }
        let manager = *self.draw.pick(&["one", "two", "three"]);
        let force = if self.draw.percent(60) { "&force=true" } else { "" };
        self.ask("apply", &format!("{}?fieldManager={manager}{force}", self.path()), APPLY, body).await
    }

    async fn patch(
        &mut self,
        verb: &'static str,
        content_type: &'static str,
        made: impl Fn(&Edit, &Value, (&Schemas, &Value)) -> Value,
    ) -> Outcome {
        let base = self.base();
        let edit = Edit::draw(&mut self.draw, &self.shared.schemas, self.root, &base, None);
        let body = made(&edit, &base, (&self.shared.schemas, self.root));
        if self.kind.kind == "PriorityClass" && body.to_string().contains("globalDefault") {
            return Outcome::Both(false);
        }
        let path = format!("{}?fieldManager=patcher{}", self.path(), self.drawn_validation());
        self.ask(verb, &path, content_type, body).await
    }

    async fn status(&mut self) -> Outcome {
        if !self.kind.has_status {
            return Outcome::Both(false);
        }
        let mut base = self.base();
        if !base["status"].is_object() {
            base["status"] = json!({});
        }
        let edit = Edit::draw(&mut self.draw, &self.shared.schemas, self.root, &base, Some("status"));
        let body = edit.merge_patch(&base);
        self.ask("status", &format!("{}/status?fieldManager=patcher", self.path()), MERGE, body).await
    }

    /// Asks both, keeps what differs, and what they have stored then.
    async fn ask(&mut self, verb: &'static str, path: &str, content_type: &'static str, body: Value) -> Outcome {
        let method = match verb {
            "create" => "POST",
            "PUT" => "PUT",
            _ => "PATCH",
        };
        let ask = |stored: &Value| Ask { method, path: path.to_owned(), content_type, body: for_server(&body, stored) };
        let [theirs, ours] = self.shared.pair.ask(&ask(&self.stored[0]), &ask(&self.stored[1])).await;
        let of_verb = self.seen.requests.entry(verb).or_default();
        of_verb[0] += 1;
        of_verb[1] += u64::from(theirs.is_good());
        let said = |answer: &Answer, stored: &Value| Answer { body: since(stored, normal(&answer.body, &body)), ..answer.clone() };
        let mut differences = compare(&said(&theirs, &self.stored[0]), &said(&ours, &self.stored[1]));
        if has_empty_list(&body) {
            let of_generation = differences.iter_mut().filter(|difference| difference.class.starts_with("field metadata.generation: "));
            of_generation.for_each(|difference| difference.class.push_str(" after an empty list"));
        }
        let is_accepted = |difference: &Difference| explains(&format!("{} {}", self.kind.shown(), difference.class)).is_some();
        // What is stored otherwise differs in all that follows.
        let are_alike = theirs.is_good() == ours.is_good() && (!theirs.is_good() || differences.iter().all(is_accepted));
        let outcome = if are_alike { Outcome::Both(theirs.is_good()) } else { Outcome::Differ };
        if self.shared.is_traced {
            crate::print::print(&trace(&ask(&Value::Null), &theirs, &ours, &differences));
        }
        if theirs.is_good() {
            self.stored = [theirs.body, if ours.is_good() { ours.body } else { self.stored[1].clone() }];
        } else if ours.is_good() {
            self.stored[1] = ours.body;
        }
        for difference in differences {
            if !self.seen.found.iter().any(|(_, known)| known.class == difference.class) {
                self.seen.found.push((verb, difference));
            }
        }
        outcome
    }

    /// Ends what the case has made; namespaces need a controller to end, and stay.
    async fn delete(&self) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let delete = Ask { method: "DELETE", path: self.path(), content_type: JSON, body: options };
        let [theirs, ours] = self.shared.pair.ask(&delete, &delete).await;
        if theirs.status == 404 && ours.status == 404 || self.kind.kind == "Namespace" {
            return;
        }
        let body = json!({"metadata": {"finalizers": null}});
        let finish = Ask { method: "PATCH", path: self.path(), content_type: MERGE, body };
        self.shared.pair.ask(&finish, &finish).await;
    }
}

/// Replaces the generation in an answer by its difference from the stored one: so what raised it once is not a difference in all later answers.
fn since(stored: &Value, mut body: Value) -> Value {
    if let Some(generation) = body["metadata"]["generation"].as_i64() {
        body["metadata"]["generation"] = json!(format!("+{}", generation - stored["metadata"]["generation"].as_i64().unwrap_or(0)));
    }
    body
}

fn has_empty_list(body: &Value) -> bool {
    match body {
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty_list),
        Value::Object(fields) => fields.values().any(has_empty_list),
        _ => false,
    }
}

/// What both decided.
enum Outcome {
    Both(bool),
    Differ,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn trace(ask: &Ask, theirs: &Answer, ours: &Answer, differences: &[Difference]) -> String {
    let answer = |answer: &Answer| format!("{} {:?} {}", answer.status, answer.warnings, answer.body);
    let mut text = format!("{} {}\n  {}\n  theirs: {}\n  ours:   {}", ask.method, ask.path, ask.body, answer(theirs), answer(ours));
    for Difference { class, theirs, ours } in differences {
        text += &format!("\n  ! {class}\n      theirs: {theirs}\n      ours:   {ours}");
    }
    text
}
