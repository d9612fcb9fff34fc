//! Paths and their operations.

use super::{
    path_of,
    schemas::{Gvk, Schemas},
};
use crate::{
    discovery::{subresource_verbs, verbs},
    resource::{Resource, Resources, Subresource},
};
use berth_api::{
    Scope,
    k8s_openapi::{
        api::{authentication::v1::TokenRequest, autoscaling::v1::Scale, core::v1::Binding, policy::v1::Eviction},
        apimachinery::pkg::apis::meta::v1::{DeleteOptions, Patch, Status},
    },
};
use serde_json::{Map, Value, json};

const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// `paths` of one group and version; the schemas that they refer to are collected.
pub(super) fn of(resources: &Resources, group: &str, version: &str, schemas: &mut Schemas) -> Value {
    let mut paths = Map::new();
    for resource in resources.all().iter().filter(|resource| resource.group == group && resource.version == version) {
        let add = if resource.is_review() { add_review } else { add_resource };
        add(&mut paths, resource, schemas);
    }
    Value::Object(paths)
}

/// What can only be asked.
fn add_review(paths: &mut Map<String, Value>, resource: &Resource, schemas: &mut Schemas) {
    let (object, _) = schemas.resource(resource);
    let create = Operation { resource, gvk: Gvk::of(resource), action: "post", id: operation_id("create", resource, "") };
    let post = create.with(WRITE_QUERY).body(&object).answer(&[200, 201, 202], &object);
    paths.insert(collection_path(resource), path_item(Map::from_iter([("post".to_owned(), post)]), resource, &[]));
}

fn collection_path(resource: &Resource) -> String {
    let root = format!("/{}", path_of(&resource.group, &resource.version));
    match resource.scope {
        Scope::Namespaced => format!("{root}/namespaces/{{namespace}}/{}", resource.plural),
        Scope::Cluster => format!("{root}/{}", resource.plural),
    }
}

fn add_resource(paths: &mut Map<String, Value>, resource: &Resource, schemas: &mut Schemas) {
    let (object, list) = schemas.resource(resource);
    let (status, delete_options) = (schemas.reference::<Status>(), schemas.reference::<DeleteOptions>());
    let root = format!("/{}", path_of(&resource.group, &resource.version));
    let collection = collection_path(resource);
    let on = |action, id: &str| Operation { resource, gvk: Gvk::of(resource), action, id: operation_id(id, resource, "") };

    let mut operations = Map::new();
    operations.insert("get".to_owned(), on("list", "list").with(LIST_QUERY).answer(&[200], &list));
    operations.insert("post".to_owned(), on("post", "create").with(WRITE_QUERY).body(&object).answer(&[200, 201, 202], &object));
    if verbs(resource).contains(&"deletecollection") {
        let delete = on("deletecollection", "deleteCollection").with(DELETE_COLLECTION_QUERY);
        operations.insert("delete".to_owned(), delete.body(&delete_options).answer(&[200], &status));
    }
    paths.insert(collection.clone(), path_item(operations, resource, &[]));

    if resource.scope == Scope::Namespaced {
        let id = operation_id("list", resource, "ForAllNamespaces").replace("Namespaced", "");
        let list_all = Operation { id, ..on("list", "") }.with(LIST_QUERY).answer(&[200], &list);
        paths.insert(format!("{root}/{}", resource.plural), json!({"get": list_all}));
    }

    let mut operations = read_and_write(resource, Gvk::of(resource), &object, "", schemas);
    let delete = on("delete", "delete").with(DELETE_QUERY).body(&delete_options);
    operations.insert("delete".to_owned(), delete.answer(&[200, 202], &status));
    paths.insert(format!("{collection}/{{name}}"), path_item(operations, resource, &[NAME]));

    for subresource in &resource.subresources {
        let operations = of_subresource(resource, *subresource, &object, schemas);
        paths.insert(format!("{collection}/{{name}}/{}", subresource.as_str()), path_item(operations, resource, &[NAME]));
    }
}

/// get, put and patch, as far as the resource (or subresource, `suffix`) has them.
fn read_and_write(resource: &Resource, gvk: Gvk<'_>, object: &Value, suffix: &str, schemas: &mut Schemas) -> Map<String, Value> {
    let on = |action, id: &str| Operation { resource, gvk, action, id: operation_id(id, resource, suffix) };
    let patch = on("patch", "patch").with(PATCH_QUERY).patch_body(&schemas.reference::<Patch>());
    Map::from_iter([
        ("get".to_owned(), on("get", "read").with(&[]).answer(&[200], object)),
        ("put".to_owned(), on("put", "replace").with(WRITE_QUERY).body(object).answer(&[200, 201], object)),
        ("patch".to_owned(), patch.answer(&[200, 201], object)),
    ])
}

fn of_subresource(resource: &Resource, subresource: Subresource, object: &Value, schemas: &mut Schemas) -> Map<String, Value> {
    let (object, gvk) = match subresource {
        Subresource::Scale => {
            let gvk = Gvk { group: "autoscaling", version: "v1", kind: "Scale" };
            (schemas.object::<Scale>(gvk), gvk)
        }
        Subresource::Eviction => {
            let gvk = Gvk { group: "policy", version: "v1", kind: "Eviction" };
            (schemas.object::<Eviction>(gvk), gvk)
        }
        Subresource::Binding => {
            let gvk = Gvk { group: "", version: "v1", kind: "Binding" };
            (schemas.object::<Binding>(gvk), gvk)
        }
        Subresource::Token => {
            let gvk = Gvk { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" };
            (schemas.object::<TokenRequest>(gvk), gvk)
        }
        Subresource::Status | Subresource::Finalize => (object.clone(), Gvk::of(resource)),
        Subresource::Log => (json!({"type": "string"}), Gvk::of(resource)),
    };
    let suffix = capitalised(subresource.as_str());
    let mut operations = match subresource_verbs(subresource) {
        ["create"] => {
            let id = operation_id("create", resource, &suffix);
            let create = Operation { resource, gvk, action: "post", id }.with(WRITE_QUERY).body(&object);
            Map::from_iter([("post".to_owned(), create.answer(&[200, 201, 202], &object))])
        }
        ["get"] => {
            let id = operation_id("read", resource, &suffix);
            let read = Operation { resource, gvk, action: "get", id }.with(LOG_QUERY);
            Map::from_iter([("get".to_owned(), read.text_answer(&object))])
        }
        _ => read_and_write(resource, gvk, &object, &suffix, schemas),
    };
    if subresource == Subresource::Finalize {
        operations.retain(|method, _| method == "put");
    }
    operations
}

/// What `createAppsV1NamespacedDeployment` is made of.
fn operation_id(verb: &str, resource: &Resource, suffix: &str) -> String {
    let group = match resource.group.split('.').next().unwrap_or_default() {
        "" => "core",
        group => group,
    };
    let namespaced = if resource.scope == Scope::Namespaced { "Namespaced" } else { "" };
    format!("{verb}{}{}{namespaced}{}{suffix}", capitalised(group), capitalised(&resource.version), resource.kind)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A query or path parameter: name, type, description.
type Parameter = (&'static str, &'static str, &'static str);

const NAME: Parameter = ("name", "string", "Name of the object.");
const NAMESPACE: Parameter = ("namespace", "string", "Namespace of the objects.");
const PRETTY: Parameter = ("pretty", "string", "If 'true', the answer is indented.");
const DRY_RUN: Parameter = ("dryRun", "string", "With 'All', the request is processed and nothing is stored.");
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "Who makes the change, at most 128 printable characters.");
const FIELD_VALIDATION: Parameter =
    ("fieldValidation", "string", "What becomes of unknown and duplicate fields: 'Ignore', 'Warn' (default) or 'Strict'.");
const GRACE_PERIOD: Parameter = ("gracePeriodSeconds", "integer", "How long the object may take to go; 0 is at once.");
const PROPAGATION: Parameter = ("propagationPolicy", "string", "What becomes of dependents: 'Orphan', 'Background' or 'Foreground'.");
const ORPHAN: Parameter = ("orphanDependents", "boolean", "Deprecated: whether dependents stay. Use propagationPolicy.");

const WRITE_QUERY: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH_QUERY: &[Parameter] =
    &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, ("force", "boolean", "Only for apply: takes fields from other managers.")];
const DELETE_QUERY: &[Parameter] = &[DRY_RUN, GRACE_PERIOD, ORPHAN, PROPAGATION];
const LIST_QUERY: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch sends bookmarks."),
    ("continue", "string", "Where to go on, from the page before."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "At most so many objects a page."),
    ("resourceVersion", "string", "As of which version."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: 'Exact' or 'NotOlderThan'."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with an event for every object that there is."),
    ("timeoutSeconds", "integer", "How long the request may take."),
    ("watch", "boolean", "Follow changes instead of listing."),
];
const LOG_QUERY: &[Parameter] = &[
    ("container", "string", "Which container; the only one where it is unsaid."),
    ("follow", "boolean", "Whether to go on until the container ends."),
    ("limitBytes", "integer", "At most so many bytes."),
    ("previous", "boolean", "The run before this one."),
    ("sinceSeconds", "integer", "Only lines of so many last seconds."),
    ("sinceTime", "string", "Only lines from this time on."),
    ("tailLines", "integer", "Only so many last lines."),
    ("timestamps", "boolean", "Whether each line begins with its time."),
];
const DELETE_COLLECTION_QUERY: &[Parameter] = &[
    ("continue", "string", "Where to go on, from the page before."),
    DRY_RUN,
    ("fieldSelector", "string", "Only objects whose fields match."),
    GRACE_PERIOD,
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "At most so many objects."),
    ORPHAN,
    PROPAGATION,
];

fn parameters(of: &[Parameter], place: &str) -> Vec<Value> {
    let parameter = |(name, kind, description): &Parameter| {
        let mut parameter = json!({"name": name, "in": place, "description": description, "schema": {"type": kind, "uniqueItems": true}});
        if place == "path" {
            parameter["required"] = json!(true);
        }
        parameter
    };
    of.iter().map(parameter).collect()
}

/// Operations at a path, with the parameters that they share.
fn path_item(mut operations: Map<String, Value>, resource: &Resource, in_path: &[Parameter]) -> Value {
    if !resource.read_only.is_empty() {
        operations.retain(|method, _| method == "get");
    }
    let namespace: &[Parameter] = if resource.scope == Scope::Namespaced { &[NAMESPACE] } else { &[] };
    let mut shared = parameters(in_path, "path");
    shared.extend(parameters(namespace, "path"));
    shared.extend(parameters(&[PRETTY], "query"));
    operations.insert("parameters".to_owned(), Value::Array(shared));
    Value::Object(operations)
}

/// An operation in the making: what it is done to.
struct Operation<'a> {
    resource: &'a Resource,
    gvk: Gvk<'a>,
    action: &'static str,
    id: String,
}

impl Operation<'_> {
    fn with(self, query: &[Parameter]) -> Draft {
        Draft(json!({
            "description": format!("{} {}", self.action, self.resource.plural),
            "operationId": self.id,
            "parameters": parameters(query, "query"),
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": self.gvk.value(),
        }))
    }
}

/// An operation without its answers.
struct Draft(Value);

impl Draft {
    fn body(mut self, schema: &Value) -> Self {
        self.0["requestBody"] = json!({"content": {"*/*": {"schema": schema}}});
        self
    }

    fn patch_body(mut self, schema: &Value) -> Self {
        let content: Map<String, Value> = PATCH_TYPES.iter().map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect();
        self.0["requestBody"] = json!({"required": true, "content": content});
        self
    }

    fn text_answer(mut self, schema: &Value) -> Value {
        let content = json!({"text/plain": {"schema": schema}});
        self.0["responses"] = json!({
            "200": {"description": "OK", "content": content},
            "204": {"description": "No Content"},
            "401": {"description": "Unauthorized"},
        });
        self.0
    }

    fn answer(mut self, codes: &[u16], schema: &Value) -> Value {
        let content = json!({"application/json": {"schema": schema}, "application/yaml": {"schema": schema}});
        let response = |code: &u16| {
            let word = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            (code.to_string(), json!({"description": word, "content": content}))
        };
        let mut responses: Map<String, Value> = codes.iter().map(response).collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        self.0["responses"] = Value::Object(responses);
        self.0
    }
}
