//! What others have stored in an etcd: the protobuf of a kube-apiserver, and its JSON.

use berth_protobuf::to_json;
use berth_registry::{Resource, ResourceTable};
use berth_store::{Entry, Header, Key, Layout, Understood};
use serde_json::{Map, Value};
use std::sync::Arc;

/// How each value begins that berth stores.
const OWN: &[u8] = b"{\"apiVersion\":\"";
/// How each value begins that is in protobuf.
const PROTOBUF: &[u8] = b"k8s\0";
/// How long the JSON of one may be: several times what etcd takes.
const JSON_BYTES_MAX: usize = 16 << 20;

/// The table of resources, for a store that others write to as well.
pub(crate) struct Foreign(pub(crate) Arc<ResourceTable>);

impl Layout for Foreign {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.resource_prefix(text)
    }

    fn moved(&self, key: &Key) -> Option<Key> {
        self.0.moved(key)
    }

    fn understand(&self, key: &Key, value: &[u8]) -> Understood {
        if value.starts_with(OWN) {
            return Understood::AsItIs;
        }
        match self.0.resources().by_key(key.as_str()) {
            Some(resource) => own_form(resource, value).map_or(Understood::Nothing, |json| Understood::As(json.into())),
            None => Understood::AsItIs,
        }
    }

    fn to_come(&self, entry: &Entry) -> usize {
        self.0.to_come(entry)
    }

    fn header(&self, key: &Key, value: &[u8]) -> Header {
        self.0.header(key, value)
    }
}

/// The value as berth would have stored it; `None`: it is encrypted, or of a version that is not served, or no object.
fn own_form(resource: &Resource, value: &[u8]) -> Option<Vec<u8>> {
    let json = if value.starts_with(PROTOBUF) { to_json(value, JSON_BYTES_MAX).ok()? } else { types_first(value)? };
    resource.rules.decode_stored(&json).is_ok().then_some(json)
}

/// The JSON of an object with `apiVersion` and `kind` before all else.
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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use berth_registry::resource::built_in;
    use std::collections::BTreeSet;

    fn layout() -> Foreign {
        Foreign(Arc::default())
    }

    fn understood(key: &str, value: &[u8]) -> Understood {
        layout().understand(&Key::new(key), value)
    }

    /// What a kube-apiserver has stored is what it shows.
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
            let Understood::As(json) = layout().understand(&key, &value) else { panic!("{key} is not understood") };
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
    fn json_of_others_is_put_in_order() {
        let check = |value: &str, wanted: &str| {
            assert_eq!(understood("/registry/configmaps/a/b", value.as_bytes()), Understood::As(wanted.to_owned().into()), "{value}");
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
        for value in [&encrypted[..], b"k8s\0", b"\x0a\x02v1", b"{\"kind\":\"Secret\",\"apiVersion\":\"v2\"}", b""] {
            assert_eq!(understood("/registry/secrets/a/b", value), Understood::Nothing);
        }
        assert_eq!(understood("/registry/daemonsets/a/b", encrypted), Understood::AsItIs);
        assert_eq!(understood("/registry/secrets/a/b", br#"{"apiVersion":"v1","kind":"Secret"}"#), Understood::AsItIs);
    }
}
