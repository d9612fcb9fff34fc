//! Contents of an etcd that other programs have stored: protobuf and JSON of a kube-apiserver, and the objects that berth leaves unchanged.

use berth_api::{Object, k8s_openapi::api::core::v1::Namespace};
use berth_etcd::Client;
use berth_protobuf::to_json;
use berth_registry::{AdmissionRequest, ApiError, BoxObject, Reinvocation, Remarks, Resource, ResourceTable, Reviewer, Stage, Subresource};
use berth_store::{
    Decoded, Entry, Header, Key, Layout,
    etcd::{Etcd, EtcdError, KeyValue, Query},
};
use berth_workloads::resources::NAMESPACES;
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The first bytes of each value that berth stores.
const OWN: &[u8] = b"{\"apiVersion\":\"";
/// The first bytes of each protobuf value.
const PROTOBUF: &[u8] = b"k8s\0";
/// The first bytes of each value that a kube-apiserver has encrypted.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// The maximum length of an object's JSON: several times the limit of etcd.
const JSON_BYTES_MAX: usize = 16 << 20;

/// The table of resources, for a store with other writers.
pub(crate) struct Foreign(pub(crate) Arc<ResourceTable>);

impl Layout for Foreign {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.resource_prefix(text)
    }

    fn decode(&self, key: &Key, value: &[u8]) -> Decoded {
        if value.starts_with(OWN) {
            return Decoded::Unchanged;
        }
        match self.0.resources().by_key(key.as_str()) {
            Some(_) if value.starts_with(ENCRYPTED) => Decoded::Encrypted,
            Some(resource) => own_form(resource, value).map_or(Decoded::Ignored, |json| Decoded::Converted(json.into())),
            None => Decoded::Unchanged,
        }
    }

    fn to_come(&self, entry: &Entry) -> usize {
        self.0.to_come(entry)
    }

    fn header(&self, key: &Key, value: &[u8]) -> Header {
        self.0.header(key, value)
    }
}

/// The value in the form that berth stores. `None`: it is encrypted, is of a version that berth does not serve, or is not an object.
fn own_form(resource: &Resource, value: &[u8]) -> Option<Vec<u8>> {
    let json = if value.starts_with(PROTOBUF) { to_json(value, JSON_BYTES_MAX).ok()? } else { types_first(value)? };
    let json = match resource.plural().as_str() {
        "statefulsets" => with_types_of_claims(&json)?,
        "customresourcedefinitions" => definition_in_v1(&json)?,
        // Kubernetes 1.36 stores v1beta1, which has the same fields.
        "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings" => in_v1(&json)?,
        _ => json,
    };
    let is_own = |json: &[u8]| resource.rules.decode_stored(json).is_ok();
    if is_own(&json) { Some(json) } else { in_stored_version(resource, &json).filter(|json| is_own(json)) }
}

/// The JSON of an object in the version that berth stores. Older kube-apiservers stored some kinds in another one.
fn in_stored_version(resource: &Resource, json: &[u8]) -> Option<Vec<u8>> {
    let object: Value = serde_json::from_slice(json).ok()?;
    let converted = resource.rules.convert(&object, object["apiVersion"].as_str()?, resource.stored_api_version())?;
    types_first(converted.to_string().as_bytes())
}

/// The JSON of a StatefulSet with `apiVersion` and `kind` in its claim templates. Upstream stores them without these fields, and adds the
/// fields on reads.
fn with_types_of_claims(json: &[u8]) -> Option<Vec<u8>> {
    let mut set: Value = serde_json::from_slice(json).ok()?;
    let templates = set.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten().filter_map(Value::as_object_mut) {
        for (member, value) in [("apiVersion", "v1"), ("kind", "PersistentVolumeClaim")] {
            template.entry(member).or_insert_with(|| value.into());
        }
    }
    types_first(set.to_string().as_bytes())
}

/// The JSON of an object with the version v1, where all versions of its kind have the same fields.
fn in_v1(json: &[u8]) -> Option<Vec<u8>> {
    let mut object: Value = serde_json::from_slice(json).ok()?;
    let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
    object["apiVersion"] = format!("{group}/v1").into();
    types_first(object.to_string().as_bytes())
}

/// The JSON of a CustomResourceDefinition in v1. Upstream stores v1beta1, in which fields that all versions share are in the spec itself.
///
/// Source: upstream `apiextensions-apiserver/pkg/apis/apiextensions/v1beta1/conversion.go`.
fn definition_in_v1(json: &[u8]) -> Option<Vec<u8>> {
    let mut definition: Value = serde_json::from_slice(json).ok()?;
    if definition["apiVersion"] != "apiextensions.k8s.io/v1beta1" {
        return Some(json.to_vec());
    }
    definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
    let spec = definition.get_mut("spec")?.as_object_mut()?;
    let name = spec.remove("version");
    let [schema, subresources, columns, fields] =
        ["validation", "subresources", "additionalPrinterColumns", "selectableFields"].map(|shared| spec.remove(shared));
    let versions = spec.entry("versions").or_insert_with(|| json!([{"name": name, "served": true, "storage": true}]));
    for version in versions.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        let shared =
            [("schema", &schema), ("subresources", &subresources), ("additionalPrinterColumns", &columns), ("selectableFields", &fields)];
        for (member, value) in shared {
            if let (Some(value), false) = (value, version.contains_key(member)) {
                version.insert(member.to_owned(), value.clone());
            }
        }
        for column in version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten() {
            let path = column.as_object_mut().and_then(|column| column.remove("JSONPath"));
            path.into_iter().for_each(|path| column["jsonPath"] = path);
        }
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let (client, review) = (conversion.remove("webhookClientConfig"), conversion.remove("conversionReviewVersions"));
        if client.is_some() {
            conversion.insert("webhook".to_owned(), json!({"clientConfig": client, "conversionReviewVersions": review}));
        }
    }
    types_first(definition.to_string().as_bytes())
}

/// The JSON of an object with `apiVersion` and `kind` as the first fields.
fn types_first(value: &[u8]) -> Option<Vec<u8>> {
    let mut rest: Map<String, Value> = serde_json::from_slice(value).ok()?;
    let (api_version, kind) = (rest.remove("apiVersion")?, rest.remove("kind")?);
    let rest = Value::Object(rest).to_string();
    let more = rest.strip_prefix('{').filter(|more| *more != "}");
    Some(
        format!("{{\"apiVersion\":{api_version},\"kind\":{kind}{}{}", if more.is_some() { "," } else { "" }, more.unwrap_or("}"))
            .into_bytes(),
    )
}

/// Internal keys of a server, which are not objects.
const INTERNAL: [&str; 4] = ["/registry/berth.dev/", "/registry/masterleases/", "/registry/peerserverleases/", "/registry/ranges/"];
/// The prefix of all keys.
pub(crate) const ALL: &str = "/registry/";
/// How many keys berth reads at a time.
pub(crate) const PAGE_KEYS: usize = 500;

/// The objects that berth has taken over, but does not serve or cannot read. Namespaces with such objects cannot be deleted.
pub(crate) struct Untouched {
    /// The etcds that berth took over.
    clients: Vec<Client>,
    layout: Arc<Foreign>,
    found: Found,
    /// The encrypted objects among them.
    encrypted: Found,
}

/// The number of objects by key prefix.
type Found = BTreeMap<String, usize>;

impl Untouched {
    /// Reads every key.
    pub(crate) async fn survey(clients: Vec<Client>, layout: Arc<Foreign>) -> Result<Self, EtcdError> {
        let mut untouched = Self { clients, layout, found: Found::new(), encrypted: Found::new() };
        let (mut found, mut encrypted) = (Found::new(), Found::new());
        for client in &untouched.clients {
            untouched.count(client, ALL.to_owned(), &mut found, &mut encrypted).await?;
        }
        (untouched.found, untouched.encrypted) = (found, encrypted);
        Ok(untouched)
    }

    /// Logs the result, once the stored custom resource definitions are served.
    pub(crate) fn log(&self) {
        let is_custom = |prefix: &str| self.layout.0.resources().by_key(prefix).is_some_and(|resource| !resource.is_built_in());
        let found: Found =
            self.found.iter().filter(|(prefix, _)| !is_custom(prefix)).map(|(prefix, count)| (prefix.clone(), *count)).collect();
        if !found.is_empty() {
            tracing::warn!("unchanged, because berth does not serve or cannot read it: {}", words(&found));
        }
        if !self.encrypted.is_empty() {
            tracing::warn!(
                "encrypted at rest, so berth rejects writes of these resources, which would be in plain text: {}",
                words(&self.encrypted)
            );
        }
    }

    /// The objects of this kind in a namespace. Other programs may have added some since the survey.
    async fn within(&self, namespace: &str) -> Result<Found, EtcdError> {
        let mut within = Found::new();
        for client in &self.clients {
            for prefix in self.layout.found_in(client).await? {
                self.count(client, format!("{prefix}{namespace}/"), &mut within, &mut Found::new()).await?;
            }
        }
        Ok(within)
    }

    /// Counts the unchanged objects among the keys with this prefix.
    async fn count(&self, client: &Client, prefix: String, found: &mut Found, encrypted: &mut Found) -> Result<(), EtcdError> {
        let mut query = Query { prefix, start_after: None, at: None, limit: Some(PAGE_KEYS) };
        loop {
            let page = client.range(query.clone()).await?;
            let Some(last) = page.keys.last() else { return Ok(()) };
            query.start_after = Some(last.key.clone());
            for KeyValue { key, value, .. } in &page.keys {
                let Some(prefix) = self.layout.left_alone(key, value) else { continue };
                *found.entry(prefix.to_owned()).or_default() += 1;
                if self.layout.decode(key, value) == Decoded::Encrypted {
                    *encrypted.entry(prefix.to_owned()).or_default() += 1;
                }
            }
        }
    }
}

fn words(found: &Found) -> String {
    found.iter().map(|(prefix, count)| format!("{count} below {prefix}")).collect::<Vec<_>>().join(", ")
}

impl Foreign {
    /// The key prefix of this object's resource, if berth leaves the object unchanged.
    fn left_alone<'k>(&self, key: &'k Key, value: &[u8]) -> Option<&'k str> {
        let is_readable = || !matches!(self.decode(key, value), Decoded::Ignored | Decoded::Encrypted);
        if self.resource_prefix(key.as_str()).is_some() && is_readable() { None } else { self.begins(key.as_str()) }
    }

    /// The key prefix of each resource with objects in an etcd, whether berth serves it or not.
    pub(crate) async fn found_in(&self, client: &Client) -> Result<Vec<String>, EtcdError> {
        let mut found = Vec::new();
        let mut query = Query { prefix: ALL.into(), start_after: None, at: None, limit: Some(1) };
        while let Some(first) = client.range(query.clone()).await?.keys.pop() {
            query.start_after = Some(first.key.clone());
            if let Some(prefix) = self.begins(first.key.as_str()) {
                query.start_after = Some(Key::new(&format!("{prefix}{}", char::MAX)));
                found.push(prefix.to_owned());
            }
        }
        Ok(found)
    }

    /// The key prefix of all objects of the same resource, whether berth serves it or not.
    fn begins<'k>(&self, text: &'k str) -> Option<&'k str> {
        if let Some(prefix) = self.resource_prefix(text) {
            return Some(prefix);
        }
        if INTERNAL.iter().any(|internal| text.starts_with(internal)) {
            return None;
        }
        // `/registry/PLURAL/`, or `/registry/GROUP/PLURAL/`: the names of these groups contain a dot.
        let (first, rest) = text.strip_prefix(ALL)?.split_once('/')?;
        let length = if first.contains('.') { first.len() + 1 + rest.split_once('/')?.0.len() } else { first.len() };
        text.get(..=ALL.len() + length)
    }
}

impl Reviewer for Untouched {
    fn may_review(&self, stage: Stage, request: &AdmissionRequest<'_>) -> bool {
        stage == Stage::Validate && request.subresource == Some(Subresource::Finalize)
    }

    fn mutate<'a>(
        &'a self,
        _request: &'a AdmissionRequest<'_>,
        _object: Option<&'a mut BoxObject>,
        _reinvocation: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        async { Ok(Remarks::default()) }.boxed()
    }

    /// Rejects the finalization of a namespace that contains unchanged objects.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        async move {
            let namespace = object.and_then(|object| object.downcast_ref::<Namespace>());
            let is_let_go = namespace
                .is_some_and(|namespace| namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref()).is_none_or(Vec::is_empty));
            if request.subresource != Some(Subresource::Finalize) || !is_let_go {
                return Ok(Remarks::default());
            }
            let within = self.within(request.name).await.map_err(|error| ApiError::Unavailable { message: error.to_string() })?;
            if within.is_empty() {
                return Ok(Remarks::default());
            }
            Err(ApiError::Conflict {
                resource: NAMESPACES,
                name: request.name.to_owned(),
                message: format!(
                    "namespace {:?} contains objects that berth does not serve or cannot read: {}",
                    request.name,
                    words(&within)
                ),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use berth_registry::resource::built_in;
    use std::collections::BTreeSet;

    #[test]
    fn a_definition_of_upstream_is_read_in_v1() {
        let stored = json!({
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1beta1",
            "metadata": {"name": "ships.e.com"},
            "spec": {
                "group": "e.com",
                "version": "v1",
                "names": {"plural": "ships", "kind": "Ship"},
                "scope": "Namespaced",
                "validation": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
                "versions": [
                    {"name": "v1", "served": true, "storage": true},
                    {"name": "v2", "served": true, "storage": false, "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".a"}]},
                ],
                "conversion": {
                    "strategy": "Webhook", "webhookClientConfig": {"url": "https://127.0.0.1"}, "conversionReviewVersions": ["v1"],
                },
            },
        });
        let read: Value = serde_json::from_slice(&definition_in_v1(stored.to_string().as_bytes()).expect("a definition")).expect("JSON");
        let shared = |mut version: Value| {
            version["schema"] = json!({"openAPIV3Schema": {"type": "object"}});
            version["subresources"] = json!({"status": {}});
            version
        };
        let columns = json!([{"name": "A", "type": "string", "jsonPath": ".a"}]);
        let wanted = json!({
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": "ships.e.com"},
            "spec": {
                "group": "e.com",
                "names": {"plural": "ships", "kind": "Ship"},
                "scope": "Namespaced",
                "versions": [
                    shared(json!({"name": "v1", "served": true, "storage": true})),
                    shared(json!({"name": "v2", "served": true, "storage": false, "additionalPrinterColumns": columns})),
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "https://127.0.0.1"}, "conversionReviewVersions": ["v1"]},
                },
            },
        });
        assert_eq!(read, wanted);
        assert_eq!(definition_in_v1(read.to_string().as_bytes()), Some(read.to_string().into_bytes()));
    }

    fn layout() -> Foreign {
        Foreign(Arc::default())
    }

    fn understood(key: &str, value: &[u8]) -> Decoded {
        layout().decode(&Key::new(key), value)
    }

    /// berth decodes the stored form of a kube-apiserver to the object that the kube-apiserver shows.
    #[test]
    fn what_upstream_stores_of_each_kind_is_understood() {
        let mut seen = BTreeSet::new();
        for line in include_str!("../../../testdata/upstream/values.jsonl").lines() {
            let recorded: Value = serde_json::from_str(line).expect("JSON");
            let key = Key::new(recorded["key"].as_str().expect("a key"));
            let value = BASE64_STANDARD.decode(recorded["value"].as_str().expect("base64")).expect("base64");
            let resources = built_in();
            let resource = resources.by_key(key.as_str()).unwrap_or_else(|| panic!("{key} is of no resource"));
            assert_eq!(layout().resource_prefix(key.as_str()), Some(resource.prefix()));
            let Decoded::Converted(json) = layout().decode(&key, &value) else { panic!("{key} is not understood") };
            let mut shown = recorded["shown"].clone();
            shown["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
            let decoded = resource.rules.decode(shown).expect("it is of the kind");
            assert_eq!(decoded.unknown, Vec::<String>::new(), "{key}");
            let mut stored = resource.rules.decode_stored(&json).expect("it is of the kind");
            stored.set_defaults();
            let mut shown = decoded.object;
            shown.set_defaults();
            assert_eq!(stored.to_value(), shown.to_value(), "{key}");
            assert!(json.starts_with(OWN));
            let header = layout().header(&key, &json);
            assert_eq!((&*header.uid, header.metadata_at == 0), (shown.meta().uid.as_deref().unwrap_or_default(), false), "{key}");
            seen.insert(resource.prefix());
        }
        let served = built_in().stored().filter(|resource| resource.read_only.is_empty());
        assert_eq!(served.map(|resource| resource.prefix()).filter(|prefix| !seen.contains(prefix)).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn claim_templates_that_upstream_stores_without_types_have_them() {
        let template = r#"{"metadata":{"name":"data"},"spec":{},"status":{}}"#;
        let spec = format!(
            r#"{{"selector":{{}},"template":{{"metadata":{{}},"spec":{{"containers":[]}}}},"serviceName":"","volumeClaimTemplates":[{template}]}}"#
        );
        let value = format!(r#"{{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{{"name":"b","namespace":"a"}},"spec":{spec}}}"#);
        let Decoded::Converted(json) = understood("/registry/statefulsets/a/b", value.as_bytes()) else { panic!("it is understood") };
        let set: Value = serde_json::from_slice(&json).expect("JSON");
        let template = &set["spec"]["volumeClaimTemplates"][0];
        assert_eq!((&template["apiVersion"], &template["kind"]), (&"v1".into(), &"PersistentVolumeClaim".into()));
        assert!(json.starts_with(OWN));
    }

    #[test]
    fn an_autoscaler_that_upstream_stored_in_the_first_version_is_understood() {
        let value = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"b","namespace":"a"},
            "spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},"targetCPUUtilizationPercentage":60}}"#;
        let Decoded::Converted(json) = understood("/registry/horizontalpodautoscalers/a/b", value.as_bytes()) else {
            panic!("it is understood")
        };
        let object: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(object["apiVersion"], "autoscaling/v2");
        assert_eq!(object.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&60.into()));
    }

    #[test]
    fn json_of_others_is_put_in_order() {
        let check = |value: &str, wanted: &str| {
            assert_eq!(understood("/registry/configmaps/a/b", value.as_bytes()), Decoded::Converted(wanted.to_owned().into()), "{value}");
        };
        check(
            "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"b\",\"creationTimestamp\":null}}\n",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":null,"name":"b"}}"#,
        );
        check("{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\"}", r#"{"apiVersion":"v1","kind":"ConfigMap"}"#);
    }

    #[test]
    fn what_cannot_be_read_is_not_shown_and_what_is_of_no_resource_is_left_alone() {
        let encrypted = b"k8s:enc:aescbc:v1:key1:\x00\x01";
        assert_eq!(understood("/registry/secrets/a/b", encrypted), Decoded::Encrypted);
        for value in [&b"k8s\0"[..], b"\x0a\x02v1", b"{\"kind\":\"Secret\",\"apiVersion\":\"v2\"}", b""] {
            assert_eq!(understood("/registry/secrets/a/b", value), Decoded::Ignored);
        }
        assert_eq!(understood("/registry/storageversions/a", encrypted), Decoded::Unchanged);
        assert_eq!(understood("/registry/secrets/a/b", br#"{"apiVersion":"v1","kind":"Secret"}"#), Decoded::Unchanged);
    }

    #[test]
    fn what_is_neither_served_nor_readable_is_left_alone() {
        let left = |key: &str, value: &str| layout().left_alone(&Key::new(key), value.as_bytes()).map(str::to_owned);
        assert_eq!(left("/registry/daemonsets/a/b", "k8s\0").as_deref(), Some("/registry/daemonsets/"));
        assert_eq!(left("/registry/flowschemas/a", "k8s\0").as_deref(), Some("/registry/flowschemas/"));
        assert_eq!(left("/registry/example.com/widgets/a/b", "{}").as_deref(), Some("/registry/example.com/widgets/"));
        assert_eq!(left("/registry/secrets/a/b", "k8s:enc:x").as_deref(), Some("/registry/secrets/"));
        assert_eq!(left("/registry/secrets/a/b", r#"{"apiVersion":"v1","kind":"Secret"}"#), None);
        for internal in ["/registry/masterleases/10.0.0.1", "/registry/ranges/servicenodeports", "/registry/berth.dev/control-plane"] {
            assert_eq!(left(internal, "k8s\0"), None);
        }
    }
}
