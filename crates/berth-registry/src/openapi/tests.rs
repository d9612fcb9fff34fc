//! Checks what kubectl reads, and that no reference dangles.

use super::{schemas::gvk_value, *};
use crate::resource::built_in;

fn documents() -> &'static OpenApi {
    built_in().openapi()
}

fn document(path: &str) -> Option<&'static Document> {
    documents().document(path)
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&document(path).expect("served").json).expect("a document is JSON")
}

fn schema<'a>(document: &'a Value, name: &str) -> &'a Value {
    &document["components"]["schemas"][name]
}

/// Collects every value under `key`, at any depth.
fn find<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get(key));
            members.values().for_each(|member| find(member, key, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find(item, key, found)),
        _ => (),
    }
}

#[test]
fn the_index_lists_every_group_and_version_by_hash() {
    let index: Value = serde_json::from_slice(&documents().index.json).expect("a document is JSON");
    let paths = index["paths"].as_object().expect("paths");
    assert_eq!(paths.len(), group_versions(built_in()).len());
    let url = paths["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
    assert_eq!(url, format!("/openapi/v3/apis/apps/v1?hash={}", document("apis/apps/v1").expect("served").hash));
    assert!(document("apis/nope/v1").is_none());
}

#[test]
fn documents_are_the_same_when_made_again() {
    for version in group_versions(built_in()) {
        assert_eq!(Document::new(&build(built_in(), &version)).hash, document(&path_of(&version)).expect("served").hash);
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    for path in documents().paths() {
        let document = read(path);
        let mut references = Vec::new();
        find(&document, "$ref", &mut references);
        assert!(!references.is_empty());
        // Definitions of custom resources contain a schema field of the same name.
        for reference in references.into_iter().filter(|reference| !reference.is_object()) {
            let pointer = reference.as_str().expect("a text").trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{path}: {reference}");
        }
    }
}

#[test]
fn references_have_no_other_members_and_nothing_is_nullable() {
    fn check(value: &Value) {
        match value {
            Value::Object(members) => {
                assert!(!members.get("$ref").is_some_and(Value::is_string) || members.len() == 1, "{value}");
                assert!(members.get("type").is_none_or(|kind| kind.is_string() || kind.is_object()), "{value}");
                members.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => (),
        }
    }
    for path in documents().paths() {
        check(&read(path)["components"]);
    }
}

#[test]
fn kubectl_finds_how_to_validate_and_patch_every_kind() {
    for resource in built_in().stored().filter(|resource| resource.read_only.is_empty()) {
        let document = read(&path_of(&resource.gvk().group_version()));
        let gvk = gvk_value(resource.gvk());
        let paths = document["paths"].as_object().expect("paths");
        let patch = paths.iter().filter(|(path, _)| path.ends_with("{name}")).map(|(_, item)| &item["patch"]);
        let patch = patch.into_iter().find(|patch| patch["x-kubernetes-group-version-kind"] == gvk).expect("a patch operation");
        let names: Vec<&Value> = patch["parameters"].as_array().into_iter().flatten().map(|parameter| &parameter["name"]).collect();
        for name in ["fieldValidation", "dryRun", "fieldManager"] {
            assert!(names.contains(&&json!(name)), "{} {name}", resource.kind());
        }
        assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let mut of_kind = schemas.values().filter(|schema| schema["x-kubernetes-group-version-kind"] == json!([gvk]));
        let schema = of_kind.next().expect("a schema of the kind");
        assert!(of_kind.next().is_none(), "one schema of {}", resource.kind());
        for property in ["apiVersion", "kind", "metadata"] {
            assert!(schema["properties"][property].is_object(), "{} {property}", resource.kind());
        }
    }
}

#[test]
fn own_types_have_upstreams_names() {
    let apps = read("apis/apps/v1");
    let deployment = schema(&apps, "io.k8s.api.apps.v1.Deployment");
    assert_eq!(deployment["properties"]["spec"]["allOf"], json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]));
    assert_eq!(deployment["properties"]["spec"]["default"], json!({}));
    let policy = &schema(&apps, "io.k8s.api.apps.v1.DeploymentSpec")["properties"]["podReplacementPolicy"];
    assert_eq!((&policy["type"], &policy["enum"]), (&json!("string"), &json!(["TerminationComplete", "TerminationStarted"])));
    let list = schema(&apps, "io.k8s.api.apps.v1.DeploymentList");
    assert_eq!(list["x-kubernetes-group-version-kind"], json!([{"group": "apps", "version": "v1", "kind": "DeploymentList"}]));
    assert_eq!(list["required"], json!(["items"]));
    assert_eq!(list["properties"]["items"]["description"], "List of deployments");
}

/// Scripts search the document for these texts.
#[test]
fn parameters_are_described_in_upstreams_words() {
    let apps = read("apis/apps/v1");
    let list = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["get"]["parameters"];
    let described = |name: &str| {
        let parameter = list.as_array().expect("a list").iter().find(|parameter| parameter["name"] == name).expect("it is there");
        parameter["description"].as_str().unwrap_or_default().to_owned()
    };
    assert!(described("labelSelector").contains("restrict the list of returned objects by their labels"));
    assert!(described("watch").starts_with("Watch for changes to the described resources and return them as a stream"));
}

#[test]
fn fields_state_how_they_are_patched() {
    let apps = read("apis/apps/v1");
    let field = |name: &str, field: &str| schema(&apps, name)["properties"][field].clone();
    let containers = field("io.k8s.api.core.v1.PodSpec", "containers");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!((&containers["x-kubernetes-list-type"], &containers["x-kubernetes-list-map-keys"]), (&json!("map"), &json!(["name"])));
    assert_eq!(containers["items"], json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}));
    assert_eq!(field("io.k8s.api.core.v1.PodSpec", "volumes")["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(field("io.k8s.api.apps.v1.DeploymentSpec", "strategy")["x-kubernetes-patch-strategy"], "retainKeys");
    assert_eq!(field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers")["x-kubernetes-list-type"], "set");
    assert_eq!(schema(&apps, "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")["x-kubernetes-map-type"], "atomic");
}

/// A typo in the table of merge keys would leave a field without its strategy.
#[test]
fn every_entry_of_the_merge_keys_is_a_field_of_a_schema() {
    let documents: Vec<Value> = documents().paths().map(read).collect();
    for field in crate::patch::merge_keys::all() {
        let known = documents
            .iter()
            .flat_map(|document| document["components"]["schemas"].as_object().into_iter().flatten())
            .any(|(name, schema)| name.rsplit('.').next() == Some(field.of) && schema["properties"][field.name].is_object());
        assert!(known, "{}.{}", field.of, field.name);
    }
}

#[test]
fn subresources_speak_their_own_kinds() {
    let apps = read("apis/apps/v1");
    let scale = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"];
    assert_eq!(scale["patch"]["x-kubernetes-group-version-kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    let core = read("api/v1");
    let eviction = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"].as_object().expect("served");
    assert_eq!(eviction.keys().collect::<Vec<_>>(), ["parameters", "post"]);
}

fn old() -> Value {
    serde_json::from_slice(&built_in().openapi_v2().json).expect("a document is JSON")
}

#[test]
fn every_reference_of_the_old_document_leads_to_a_definition() {
    let document = old();
    let mut references = Vec::new();
    find(&document, "$ref", &mut references);
    assert!(references.len() > 500);
    for reference in references {
        let Some(reference) = reference.as_str() else { continue };
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn the_old_document_has_no_words_of_the_new() {
    let document = old();
    for word in ["allOf", "oneOf", "anyOf", "requestBody", "content", "nullable"] {
        let mut found = Vec::new();
        find(&document["paths"], word, &mut found);
        assert_eq!(found, Vec::<&Value>::new(), "{word}");
    }
    for (name, definition) in document["definitions"].as_object().expect("definitions") {
        let properties = definition["properties"].as_object().into_iter().flat_map(|properties| properties.values());
        for schema in properties.chain([definition]) {
            let words: Vec<&String> = schema.as_object().expect("a schema").keys().collect();
            let old = ["$ref", "additionalProperties", "description", "enum", "format", "items", "properties", "required", "type"];
            assert!(words.iter().all(|word| old.contains(&word.as_str()) || word.starts_with("x-")), "{name}: {words:?}");
            assert!(schema.get("type").is_none_or(Value::is_string), "{name}: {schema}");
        }
    }
    assert_eq!(document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"], "int-or-string");
}

/// kubectl validates every document of a file before it sends the first one. A type that is too narrow would block the
/// whole file.
#[test]
fn what_may_be_an_object_or_a_list_has_no_type_in_the_old_document() {
    let document = old();
    let of = |name: &str| document["definitions"][format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}")].clone();
    for name in ["JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray", "JSON"] {
        assert_eq!(of(name).as_object().expect("a definition").keys().collect::<Vec<_>>(), ["description"], "{name}");
    }
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["type"], "string");
}

#[test]
fn old_kubectl_finds_every_kind_and_how_to_patch_it() {
    let document = old();
    for resource in built_in().stored().filter(|resource| resource.read_only.is_empty()) {
        let gvk = gvk_value(resource.gvk());
        let definitions = document["definitions"].as_object().expect("definitions");
        let marked = |schema: &&Value| schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|all| all.contains(&gvk));
        assert_eq!(definitions.values().filter(marked).count(), 1, "{gvk}");
        let mut patches = Vec::new();
        find(&document["paths"], "patch", &mut patches);
        let patch = patches.iter().find(|patch| patch["x-kubernetes-group-version-kind"] == gvk).expect("an operation");
        let parameters = patch["parameters"].as_array().expect("a list");
        assert!(parameters.iter().any(|parameter| parameter["name"] == "dryRun" && parameter["type"] == "string"));
        assert!(parameters.iter().any(|parameter| parameter["in"] == "body" && parameter["schema"].is_object()));
    }
    let containers = &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
}
