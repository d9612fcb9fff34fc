//! What a real Kubernetes 1.36.2 says of pods: each row was asked.

use super::*;
use crate::check::{check_create, merged};
use serde_json::{Value, json};

fn with_spec(patch: &Value) -> Value {
    let base = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    merged(base, &json!({ "spec": patch }))
}

/// A pod whose container has these fields besides.
fn with_container(patch: &Value) -> Value {
    with_spec(&json!({ "containers": [merged(json!({"name": "c", "image": "i"}), patch)] }))
}

fn check_volumes(cases: &[(Value, &[&str])]) {
    for (volume, wanted) in cases {
        let volume = merged(json!({"name": "v"}), volume);
        let wanted: Vec<String> = wanted.iter().map(|wanted| format!("spec.volumes[0]{wanted}")).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        check_create::<Pod>(&with_spec(&json!({"serviceAccountName": "s", "volumes": [volume]})), &wanted);
    }
}

#[test]
fn the_first_source_of_a_volume_is_checked_and_all_others_are_refused() {
    let more = "Forbidden: may not specify more than 1 volume type";
    check_volumes(&[
        (json!({"configMap": {"name": ""}, "emptyDir": {}}), &[&format!(".configMap: {more}")]),
        (
            json!({"configMap": {"name": "m"}, "secret": {"secretName": ""}}),
            &[".secret.secretName: Required value", &format!(".configMap: {more}")],
        ),
        (
            json!({"emptyDir": {}, "cephfs": {"monitors": []}, "downwardAPI": {}, "gcePersistentDisk": {"pdName": ""}}),
            &[&format!(".gcePersistentDisk: {more}"), &format!(".cephFS: {more}"), &format!(".downwarAPI: {more}")],
        ),
        (json!({"gcePersistentDisk": {"pdName": ""}}), &[".persistentDisk.pdName: Required value"]),
    ]);
}

#[test]
fn a_projection_has_one_source() {
    let item = |path: &str| json!({"key": "k", "path": path});
    check_volumes(&[
        (
            json!({"projected": {"sources": [{"secret": {"name": "s", "items": [item("x")]}, "configMap": {"name": "m", "items": [item("x")]}}]}}),
            &[
                ".projected: Invalid value: \"m\": conflicting duplicate paths",
                ".projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
            ],
        ),
        (
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "../x"}}, {"serviceAccountToken": {"path": "", "expirationSeconds": 5}}]}}),
            &[
                ".projected.path: Invalid value: \"../x\": must not contain '..'",
                ".projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                ".projected.path: Required value",
            ],
        ),
        (
            json!({"downwardAPI": {"items": [{"path": "x"}]}}),
            &[".downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
        ),
    ]);
    let token = json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "x"}}]}}]);
    let path = "spec.volumes[0].projected.sources[0].serviceAccountToken";
    check_create::<Pod>(
        &with_spec(&json!({ "volumes": token })),
        &[&format!("{path}: Forbidden: must not be specified when serviceAccountName is not set")],
    );
    let template = serde_json::from_value(with_spec(&json!({ "volumes": token }))).expect("a template");
    let template = {
        let mut template: k8s_openapi::api::core::v1::PodTemplateSpec = template;
        set_template_defaults(&mut template);
        template
    };
    assert_eq!(validate_template(&template, &Path::new("spec.template")), []);
}

#[test]
fn sources_of_volumes_say_what_their_drivers_need() {
    let iscsi = |patch: Value| json!({"iscsi": merged(json!({"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 0}), &patch)});
    let disk = |patch: Value| json!({"azureDisk": merged(json!({"diskName": "a", "diskURI": "https://a"}), &patch)});
    let quobyte = |registry: &str| json!({"quobyte": {"registry": registry, "volume": "v"}});
    let pairs = |registry: &str| {
        format!(".quobyte.registry: Invalid value: \"{registry}\": must be a host:port pair or multiple pairs separated by commas")
    };
    let form = "must be valid format";
    check_volumes(&[
        (json!({"emptyDir": {"sizeLimit": "-1"}}), &[".emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
        (
            json!({"gitRepo": {"repository": "", "directory": "/../a"}}),
            &[
                ".gitRepo.repository: Required value",
                ".gitRepo.directory: Invalid value: \"/../a\": must be a relative path",
                ".gitRepo.directory: Invalid value: \"/../a\": must not contain '..'",
            ],
        ),
        (
            json!({"fc": {"targetWWNs": ["a"], "wwids": ["b"]}}),
            &[
                ".fc.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids can not be specified simultaneously",
                ".fc.lun: Required value: lun is required if targetWWNs is specified",
            ],
        ),
        (json!({"fc": {"targetWWNs": ["a"], "lun": 256}}), &[".fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"]),
        (json!({"fc": {"wwids": ["a"], "lun": 256}}), &[]),
        (iscsi(json!({"initiatorName": "eui.1234567890123456"})), &[]),
        (iscsi(json!({"iqn": "naa.12345678901234567890123456789012"})), &[]),
        (iscsi(json!({"chapAuthSession": true})), &[".iscsi.secretRef: Required value"]),
        (
            iscsi(json!({"iqn": "x", "initiatorName": "iqn.201-04.a:b"})),
            &[
                &format!(".iscsi.iqn: Invalid value: \"x\": {form} starting with iqn, eui, or naa"),
                &format!(".iscsi.initiatorname: Invalid value: \"iqn.201-04.a:b\": {form}"),
            ],
        ),
        (iscsi(json!({"iqn": "eui.1234"})), &[&format!(".iscsi.iqn: Invalid value: \"eui.1234\": {form}")]),
        (
            json!({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}),
            &[
                ".flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously",
                ".flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
            ],
        ),
        (quobyte("a:1,[::1]:2,c:"), &[]),
        (quobyte("a:1,b"), &[&pairs("a:1,b")]),
        (quobyte("::1:1"), &[&pairs("::1:1")]),
        (json!({"cinder": {"volumeID": "a", "secretRef": {"name": ""}}}), &[".cinder.secretRef.name: Required value"]),
        (json!({"csi": {"driver": "a", "nodePublishSecretRef": {"name": ""}}}), &[".csi.nodePublishSecretRef.name: Required value"]),
        (
            disk(json!({"cachingMode": "x", "kind": "Managed"})),
            &[
                ".azureDisk.cachingMode: Unsupported value: \"x\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\"",
                ".azureDisk.diskURI: Unsupported value: \"https://a\": supported values: \
                 \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        ),
        (
            json!({"flexVolume": {"driver": "a", "options": {"x.k8s.io/a": "b", "xk8s.io": "c"}}}),
            &[".flexVolume.options[x.k8s.io/a]: Invalid value: \"x.k8s.io/a\": kubernetes.io and k8s.io namespaces are reserved"],
        ),
    ]);
}
