//! Tests of whole conversions, for every kind and for arbitrary bytes.

use crate::{
    DecodeError, Problem,
    encode::{self, Choices},
    schema::Schema,
    to_json,
    wire::put_bytes,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};

const LIMIT: usize = 3 << 20;

#[track_caller]
fn decode(body: &[u8]) -> Value {
    let json = to_json(body, LIMIT).expect("a well-formed body");
    serde_json::from_slice(&json).expect("JSON")
}

/// Returns a body of `kind` whose object has these bytes.
fn body_of(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let mut body = encode::body(&json!({"apiVersion": api_version, "kind": kind}));
    put_bytes(&mut body, 2, object);
    body
}

#[track_caller]
fn check(kind: &str, object: &[u8], expected: &Value) {
    let mut found = decode(&body_of("v1", kind, object));
    let members = found.as_object_mut().expect("an object");
    members.retain(|name, value| !["apiVersion", "kind"].contains(&name.as_str()) && *value != json!({}));
    assert_eq!(found, *expected);
}

#[track_caller]
fn check_fault(kind: &str, object: &[u8], expected: &str) {
    let error = to_json(&body_of("v1", kind, object), LIMIT).expect_err("refused");
    assert_eq!(error.to_string(), expected);
}

/// Bodies that kubectl sent, each with the output of the same command with `--dry-run=client -o json`, without nulls.
const KUBECTL: &str = include_str!("../../../testdata/protobuf/kubectl-1.32.jsonl");

#[test]
fn bodies_of_kubectl_are_the_json_that_it_prints() {
    for line in KUBECTL.lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let body = BASE64_STANDARD.decode(case["body"].as_str().expect("a string")).expect("base64");
        let mut found = decode(&body);
        if case["object"]["metadata"].get("namespace").is_none() {
            found["metadata"].as_object_mut().expect("an object").remove("namespace");
        }
        assert_eq!(found, case["object"], "kubectl {}", case["command"]);
    }
}

#[test]
fn an_empty_object_of_every_kind_shows_only_what_is_always_shown() {
    for (api_version, kind, _) in Schema::get().kinds() {
        let found = decode(&body_of(api_version, kind, b""));
        assert_eq!(found["kind"], kind);
    }
    let found = decode(&body_of("apps/v1", "Deployment", b""));
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "status": {},
        "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}},
    });
    let without_nulls = |text: &str| text.replace(r#""selector":null,"#, "").replace(r#""containers":null"#, "");
    assert_eq!(found.to_string(), without_nulls(&expected.to_string()));
}

#[test]
fn zeros_of_pointers_stay_and_others_go() {
    let spec = |member: &[u8]| {
        let mut object = Vec::new();
        put_bytes(&mut object, 2, member);
        object
    };
    let replicas = decode(&body_of("apps/v1", "Deployment", &spec(b"\x08\x00")));
    assert_eq!(replicas["spec"]["replicas"], 0);
    let min_ready_seconds = decode(&body_of("apps/v1", "Deployment", &spec(b"\x28\x00")));
    assert_eq!(min_ready_seconds["spec"].get("minReadySeconds"), None);
    let optional = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {},
        "spec": {"storageClassName": "", "resources": {}}, "status": {}});
    assert_eq!(decode(&encode::body(&optional)), optional);
}

#[test]
fn times_are_seconds_and_the_zero_time_is_absent() {
    check("ConfigMap", b"\x0a\x02\x42\x00", &json!({}));
    check("ConfigMap", b"\x0a\x06\x42\x04\x08\x00\x10\x00", &json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"}}));
    check("ConfigMap", b"\x0a\x07\x42\x05\x08\x01\x10\xff\x01", &json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:01Z"}}));
    let far = b"\x0a\x0c\x42\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
    check_fault("ConfigMap", far, "metadata.creationTimestamp: a time out of range");
}

#[test]
fn bytes_become_base64_and_maps_keep_the_last_of_a_name() {
    let twice = b"\x12\x06\x0a\x01a\x12\x01b\x12\x06\x0a\x01a\x12\x01c\x12\x02\x0a\x00";
    check("ConfigMap", twice, &json!({"data": {"": "", "a": "c"}}));
    check("Secret", b"\x12\x07\x0a\x01a\x12\x02\x00\xff", &json!({"data": {"a": "AP8="}}));
}

#[test]
fn a_message_in_two_pieces_is_one() {
    check("ConfigMap", b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01b", &json!({"metadata": {"name": "a", "namespace": "b"}}));
    check("ConfigMap", b"\x0a\x06\x0a\x01a\x0a\x01b", &json!({"metadata": {"name": "b"}}));
}

#[test]
fn numbers_may_be_packed() {
    let security = |list: &[u8]| {
        let [mut spec, mut object] = [Vec::new(), Vec::new()];
        put_bytes(&mut spec, 14, list);
        put_bytes(&mut object, 2, &spec);
        decode(&body_of("v1", "Pod", &object))["spec"]["securityContext"]["supplementalGroups"].clone()
    };
    assert_eq!(security(b"\x20\x01\x20\x80\x01"), json!([1, 128]));
    assert_eq!(security(b"\x22\x03\x01\x80\x01"), json!([1, 128]));
}

#[test]
fn raw_json_is_taken_as_it_is_if_it_is_json() {
    let revision = |raw: &[u8]| {
        let [mut extension, mut object] = [Vec::new(), Vec::new()];
        put_bytes(&mut extension, 1, raw);
        put_bytes(&mut object, 2, &extension);
        to_json(&body_of("apps/v1", "ControllerRevision", &object), LIMIT)
    };
    let data = |raw: &[u8]| serde_json::from_slice::<Value>(&revision(raw).expect("decodes")).expect("JSON")["data"].clone();
    assert_eq!(data(br#"{"spec": [1]}"#), json!({"spec": [1]}));
    assert_eq!(data(&encode::body(&json!({"apiVersion": "v1", "kind": "Namespace"})))["kind"], "Namespace");
    assert_eq!(data(b""), Value::Null);
    for (raw, problem) in
        [(&br#"1,"kind":"Secret""#[..], Problem::Json), (b"{}}", Problem::Json), (b"{", Problem::Json), (b"\"\xff\"", Problem::Utf8)]
    {
        assert_eq!(revision(raw), Err(DecodeError::Malformed { path: "data".to_owned(), problem }));
    }
}

#[test]
fn unknown_fields_are_skipped() {
    check("ConfigMap", b"\xf8\x07\x01\xfa\x07\x01x\xfd\x07\0\0\0\0", &json!({}));
}

#[test]
fn faults_name_the_field() {
    check_fault("ConfigMap", b"\x0a\x03\x0a\x01\xff", "metadata.name: invalid UTF-8");
    check_fault("ConfigMap", b"\x0a\x09\x0a\x01", "unexpected end of data");
    check_fault("ConfigMap", b"\x0a\x02\x0a\x05", "metadata: unexpected end of data");
    check_fault("ConfigMap", b"\x08\x01", "metadata: a wire type that does not fit the field's type");
    check_fault("ConfigMap", b"\x12\x06\x0a\x01a\x12\x01\xff", "data[a]: invalid UTF-8");
    check_fault("Pod", b"\x12\x05\x12\x03\x0a\x01\xff", "spec.containers[0].name: invalid UTF-8");
    check_fault("Pod", b"\x12\x07\xc8\x01\x80\x80\x80\x80\x08", "spec.priority: a number out of the range of int32");
}

#[test]
fn bodies_that_are_none_are_refused() {
    assert_eq!(to_json(b"", LIMIT), Err(DecodeError::Prefix));
    assert_eq!(to_json(b"{}", LIMIT), Err(DecodeError::Prefix));
    assert_eq!(to_json(b"k8s\0", LIMIT), Err(DecodeError::NoKind));
    let unknown = DecodeError::UnknownKind { api_version: "v1".to_owned(), kind: "Ship".to_owned() };
    assert_eq!(to_json(b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Ship", LIMIT), Err(unknown));
    let mut compressed = body_of("v1", "ConfigMap", b"");
    put_bytes(&mut compressed, 3, b"gzip");
    assert_eq!(to_json(&compressed, LIMIT), Err(DecodeError::Encoding("gzip".to_owned())));
}

#[test]
fn what_grows_beyond_the_limit_is_refused_on_the_way() {
    let many = [b"\x12\x00".as_slice(); 1000].concat();
    let mut object = Vec::new();
    put_bytes(&mut object, 2, &many);
    let body = body_of("v1", "Pod", &object);
    assert!(to_json(&body, LIMIT).is_ok());
    assert_eq!(to_json(&body, 1000), Err(DecodeError::TooLarge { limit: 1000 }));
}

#[test]
fn json_in_protobuf_in_json_has_an_end() {
    let mut raw = br"{}".to_vec();
    for _ in 0..200 {
        let [mut extension, mut object] = [Vec::new(), Vec::new()];
        put_bytes(&mut extension, 1, &raw);
        put_bytes(&mut object, 2, &extension);
        raw = body_of("apps/v1", "ControllerRevision", &object);
    }
    let error = to_json(&raw, LIMIT).expect_err("too deep");
    assert!(error.to_string().ends_with("exceeded max depth"), "{error}");
}

proptest! {
    // Each case covers all kinds.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn objects_of_every_kind_come_back_as_they_were(seed: u64) {
        for (api_version, kind, id) in Schema::get().kinds() {
            let object = Choices(seed).object(api_version, kind, id);
            prop_assert_eq!(decode(&encode::body(&object)), object);
        }
    }

    #[test]
    fn damaged_bodies_give_json_or_an_error(seed: u64, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut: prop::sample::Index) {
        for (api_version, kind, id) in Schema::get().kinds() {
            let mut body = encode::body(&Choices(seed).object(api_version, kind, id));
            for (at, byte) in &damage {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            for body in [body.as_slice(), &body[..cut.index(body.len())]] {
                if let Ok(json) = to_json(body, LIMIT) {
                    serde_json::from_slice::<Value>(&json).expect("what is written is JSON");
                }
            }
        }
    }

    #[test]
    fn any_bytes_give_json_or_an_error(bytes: Vec<u8>) {
        for (api_version, kind, _) in Schema::get().kinds() {
            let body = body_of(api_version, kind, &bytes);
            if let Ok(json) = to_json(&body, LIMIT) {
                serde_json::from_slice::<Value>(&json).expect("what is written is JSON");
            }
        }
    }
}
