//! Paths and their operations.

use super::{
    path_of,
    schemas::{Schemas, gvk_value},
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
use berth_identity::{GroupVersion, GroupVersionKind};
use serde_json::{Map, Value, json};

const PATCH_TYPES: [&str; 3] = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
/// The patch that needs list keys, which only built-in kinds define. kubectl sends it where the document names it.
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Returns `paths` of one group and version. Collects the referenced schemas.
pub(super) fn of(resources: &Resources, version: &GroupVersion, schemas: &mut Schemas) -> Value {
    let mut paths = Map::new();
    for resource in resources.all().iter().filter(|resource| resource.gvk().group_version() == *version) {
        let add = if resource.is_review() { add_review } else { add_resource };
        add(&mut paths, resource, schemas);
    }
    Value::Object(paths)
}

/// Adds the path of a review.
fn add_review(paths: &mut Map<String, Value>, resource: &Resource, schemas: &mut Schemas) {
    let (object, _) = schemas.resource(resource);
    let create = Operation { resource, gvk: resource.gvk(), action: "post", id: operation_id("create", resource, "") };
    let post = create.with(WRITE_QUERY).body(&object).answer(&[200, 201, 202], &object);
    paths.insert(collection_path(resource), path_item(Map::from_iter([("post".to_owned(), post)]), resource, &[]));
}

fn collection_path(resource: &Resource) -> String {
    let root = format!("/{}", path_of(&resource.gvk().group_version()));
    match resource.scope {
        Scope::Namespaced => format!("{root}/namespaces/{{namespace}}/{}", resource.plural()),
        Scope::Cluster => format!("{root}/{}", resource.plural()),
    }
}

fn add_resource(paths: &mut Map<String, Value>, resource: &Resource, schemas: &mut Schemas) {
    let (object, list) = schemas.resource(resource);
    let (status, delete_options) = (schemas.reference::<Status>(), schemas.reference::<DeleteOptions>());
    let root = format!("/{}", path_of(&resource.gvk().group_version()));
    let collection = collection_path(resource);
    let on = |action, id: &str| Operation { resource, gvk: resource.gvk(), action, id: operation_id(id, resource, "") };
    let is_supported = |(name, ..): &&Parameter| !(resource.is_computed() && OF_WATCHES.contains(name));
    let list_query: Vec<Parameter> = LIST_QUERY.iter().filter(is_supported).copied().collect();

    let mut operations = Map::new();
    operations.insert("get".to_owned(), on("list", "list").with(&list_query).answer(&[200], &list));
    operations.insert("post".to_owned(), on("post", "create").with(WRITE_QUERY).body(&object).answer(&[200, 201, 202], &object));
    if verbs(resource).contains(&"deletecollection") {
        let delete = on("deletecollection", "deleteCollection").with(DELETE_COLLECTION_QUERY);
        operations.insert("delete".to_owned(), delete.body(&delete_options).answer(&[200], &status));
    }
    paths.insert(collection.clone(), path_item(operations, resource, &[]));

    if resource.scope == Scope::Namespaced {
        let id = operation_id("list", resource, "ForAllNamespaces").replace("Namespaced", "");
        let list_all = Operation { id, ..on("list", "") }.with(&list_query).answer(&[200], &list);
        paths.insert(format!("{root}/{}", resource.plural()), json!({"get": list_all}));
    }

    let mut operations = read_and_write(resource, resource.gvk(), &object, "", schemas);
    let delete = on("delete", "delete").with(DELETE_QUERY).body(&delete_options);
    operations.insert("delete".to_owned(), delete.answer(&[200, 202], &status));
    paths.insert(format!("{collection}/{{name}}"), path_item(operations, resource, &[NAME]));

    for subresource in &resource.subresources {
        let operations = of_subresource(resource, *subresource, &object, schemas);
        paths.insert(format!("{collection}/{{name}}/{}", subresource.as_str()), path_item(operations, resource, &[NAME]));
    }
}

/// Returns get, put and patch, if the resource (or subresource, `suffix`) supports them.
fn read_and_write(resource: &Resource, gvk: &GroupVersionKind, object: &Value, suffix: &str, schemas: &mut Schemas) -> Map<String, Value> {
    let on = |action, id: &str| Operation { resource, gvk, action, id: operation_id(id, resource, suffix) };
    let patch = on("patch", "patch").with(PATCH_QUERY).patch_body(&schemas.reference::<Patch>(), resource.is_built_in());
    Map::from_iter([
        ("get".to_owned(), on("get", "read").with(&[]).answer(&[200], object)),
        ("put".to_owned(), on("put", "replace").with(WRITE_QUERY).body(object).answer(&[200, 201], object)),
        ("patch".to_owned(), patch.answer(&[200, 201], object)),
    ])
}

fn of_subresource(resource: &Resource, subresource: Subresource, object: &Value, schemas: &mut Schemas) -> Map<String, Value> {
    let gvk = subresource.gvk().unwrap_or_else(|| resource.gvk().clone());
    let object = match subresource {
        Subresource::Scale => schemas.object::<Scale>(&gvk),
        Subresource::Eviction => schemas.object::<Eviction>(&gvk),
        Subresource::Binding => schemas.object::<Binding>(&gvk),
        Subresource::Token => schemas.object::<TokenRequest>(&gvk),
        Subresource::Status | Subresource::Approval | Subresource::Finalize => object.clone(),
        Subresource::Log => json!({"type": "string"}),
    };
    let suffix = capitalised(subresource.as_str());
    let mut operations = match subresource_verbs(subresource) {
        ["create"] => {
            let id = operation_id("create", resource, &suffix);
            let create = Operation { resource, gvk: &gvk, action: "post", id }.with(WRITE_QUERY).body(&object);
            Map::from_iter([("post".to_owned(), create.answer(&[200, 201, 202], &object))])
        }
        ["get"] => {
            let id = operation_id("read", resource, &suffix);
            let read = Operation { resource, gvk: &gvk, action: "get", id }.with(LOG_QUERY);
            Map::from_iter([("get".to_owned(), read.text_answer(&object))])
        }
        _ => read_and_write(resource, &gvk, &object, &suffix, schemas),
    };
    if subresource == Subresource::Finalize {
        operations.retain(|method, _| method == "put");
    }
    operations
}

/// Returns an operation id such as `createAppsV1NamespacedDeployment`.
fn operation_id(verb: &str, resource: &Resource, suffix: &str) -> String {
    let group = match resource.group().split('.').next().unwrap_or_default() {
        "" => "core",
        group => group,
    };
    let namespaced = if resource.scope == Scope::Namespaced { "Namespaced" } else { "" };
    format!("{verb}{}{}{namespaced}{}{suffix}", capitalised(group), capitalised(resource.version()), resource.kind())
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A query or path parameter: name, type, description.
type Parameter = (&'static str, &'static str, &'static str);

// The texts are upstream's. The longest are reduced to their first sentences, because each operation repeats them.
const NAME: Parameter = ("name", "string", "name of the object");
const NAMESPACE: Parameter = ("namespace", "string", "object name and auth scope, such as for teams and projects");
const PRETTY: Parameter = (
    "pretty",
    "string",
    "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).",
);
const DRY_RUN: Parameter = (
    "dryRun",
    "string",
    "When present, indicates that modifications should not be persisted. Valid values are: - All: all dry run stages will be processed",
);
const FIELD_MANAGER: Parameter = (
    "fieldManager",
    "string",
    "fieldManager is a name associated with the actor or entity that is making these changes. The value must be less than or 128 characters long, and only contain printable characters.",
);
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "fieldValidation instructs the server on how to handle objects in the request (POST/PUT/PATCH) containing unknown or duplicate fields. Valid values are: Ignore, Warn (the default), Strict.",
);
const GRACE_PERIOD: Parameter = (
    "gracePeriodSeconds",
    "integer",
    "The duration in seconds before the object should be deleted. Value must be non-negative integer. The value zero indicates delete immediately.",
);
const PROPAGATION: Parameter = (
    "propagationPolicy",
    "string",
    "Whether and how garbage collection will be performed. Acceptable values are: 'Orphan', 'Background', 'Foreground'.",
);
const ORPHAN: Parameter =
    ("orphanDependents", "boolean", "Deprecated: please use the PropagationPolicy. Should the dependent objects be orphaned.");
const CONTINUE: Parameter = (
    "continue",
    "string",
    "The continue option should be set when retrieving more results from the server. This field is not supported when watch is true.",
);
const FIELD_SELECTOR: Parameter =
    ("fieldSelector", "string", "A selector to restrict the list of returned objects by their fields. Defaults to everything.");
const LABEL_SELECTOR: Parameter =
    ("labelSelector", "string", "A selector to restrict the list of returned objects by their labels. Defaults to everything.");
const LIMIT: Parameter = ("limit", "integer", "limit is a maximum number of responses to return for a list call.");

const WRITE_QUERY: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH_QUERY: &[Parameter] = &[
    DRY_RUN,
    FIELD_MANAGER,
    FIELD_VALIDATION,
    (
        "force",
        "boolean",
        "Force is going to \"force\" Apply requests. It means user will re-acquire conflicting fields owned by other people. Force flag must be unset for non-apply patch requests.",
    ),
];
const DELETE_QUERY: &[Parameter] = &[DRY_RUN, GRACE_PERIOD, ORPHAN, PROPAGATION];
const LIST_QUERY: &[Parameter] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "allowWatchBookmarks requests watch events with type \"BOOKMARK\". If this is not a watch, this field is ignored.",
    ),
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    (
        "resourceVersion",
        "string",
        "resourceVersion sets a constraint on what resource versions a request may be served from. Defaults to unset",
    ),
    ("resourceVersionMatch", "string", "resourceVersionMatch determines how resourceVersion is applied to list calls. Defaults to unset"),
    (
        "sendInitialEvents",
        "boolean",
        "`sendInitialEvents=true` may be set together with `watch=true`. In that case, the watch stream will begin with synthetic events to produce the current state of objects in the collection.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "Timeout for the list/watch call. This limits the duration of the call, regardless of any activity or inactivity.",
    ),
    (
        "watch",
        "boolean",
        "Watch for changes to the described resources and return them as a stream of add, update, and remove notifications. Specify resourceVersion.",
    ),
];
/// The parameters of a list that only a watch has.
const OF_WATCHES: [&str; 4] = ["allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds", "watch"];
const LOG_QUERY: &[Parameter] = &[
    ("container", "string", "The container for which to stream logs. Defaults to only container if there is one container in the pod."),
    ("follow", "boolean", "Follow the log stream of the pod. Defaults to false."),
    ("limitBytes", "integer", "If set, the number of bytes to read from the server before terminating the log output."),
    ("previous", "boolean", "Return previous terminated container logs. Defaults to false."),
    ("sinceSeconds", "integer", "A relative time in seconds before the current time from which to show logs."),
    ("sinceTime", "string", "An RFC3339 timestamp from which to show logs."),
    ("tailLines", "integer", "If set, the number of lines from the end of the logs to show."),
    (
        "timestamps",
        "boolean",
        "If true, add an RFC3339 or RFC3339Nano timestamp at the beginning of every line of log output. Defaults to false.",
    ),
];
const DELETE_COLLECTION_QUERY: &[Parameter] =
    &[CONTINUE, DRY_RUN, FIELD_SELECTOR, GRACE_PERIOD, LABEL_SELECTOR, LIMIT, ORPHAN, PROPAGATION];

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

/// Returns the operations of a path, with their common parameters.
fn path_item(mut operations: Map<String, Value>, resource: &Resource, in_path: &[Parameter]) -> Value {
    if !resource.read_only.is_empty() || resource.is_computed() {
        operations.retain(|method, _| method == "get");
    }
    let namespace: &[Parameter] = if resource.scope == Scope::Namespaced { &[NAMESPACE] } else { &[] };
    let mut shared = parameters(in_path, "path");
    shared.extend(parameters(namespace, "path"));
    shared.extend(parameters(&[PRETTY], "query"));
    operations.insert("parameters".to_owned(), Value::Array(shared));
    Value::Object(operations)
}

/// The target of an operation under construction.
struct Operation<'a> {
    resource: &'a Resource,
    gvk: &'a GroupVersionKind,
    action: &'static str,
    id: String,
}

impl Operation<'_> {
    fn with(self, query: &[Parameter]) -> Draft {
        Draft(json!({
            "description": format!("{} {}", self.action, self.resource.plural()),
            "operationId": self.id,
            "parameters": parameters(query, "query"),
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": gvk_value(self.gvk),
        }))
    }
}

/// An operation without its responses.
struct Draft(Value);

impl Draft {
    fn body(mut self, schema: &Value) -> Self {
        self.0["requestBody"] = json!({"content": {"*/*": {"schema": schema}}});
        self
    }

    fn patch_body(mut self, schema: &Value, has_strategic_patch: bool) -> Self {
        let types = PATCH_TYPES.iter().chain(has_strategic_patch.then_some(&STRATEGIC_PATCH));
        let content: Map<String, Value> = types.map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect();
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
