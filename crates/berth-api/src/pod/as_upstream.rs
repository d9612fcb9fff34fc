//! What a real Kubernetes 1.36.2 says of pods: each row was asked.

use super::*;
use crate::check::{check_create, created, merged};
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

#[test]
fn names_are_resolved_with_what_the_c_library_reads() {
    let config = |config: Value| with_spec(&json!({ "dnsConfig": config }));
    let path = "spec.dnsConfig";
    check_create::<Pod>(
        &with_spec(&json!({"dnsPolicy": "None"})),
        &[&format!("{path}: Required value: must provide `dnsConfig` when `dnsPolicy` is None")],
    );
    check_create::<Pod>(
        &with_spec(&json!({"dnsPolicy": "None", "dnsConfig": {"searches": ["A b"]}})),
        &[&format!("{path}.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None")],
    );
    check_create::<Pod>(
        &config(json!({"nameservers": ["1.1.1.1", "x", "::ffff:1.2.3.4", "010.0.0.1"], "options": [{"name": "x"}, {"value": "y"}]})),
        &[
            &format!(
                "{path}.nameservers: Invalid value: [\"1.1.1.1\",\"x\",\"::ffff:1.2.3.4\",\"010.0.0.1\"]: must not have more than 3 nameservers"
            ),
            &format!("{path}.nameservers[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            &format!("{path}.nameservers[2]: Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address"),
            &format!("{path}.nameservers[3]: Invalid value: \"010.0.0.1\": must not have leading 0s"),
            &format!("{path}.options[1]: Required value: must not be empty"),
        ],
    );
    check_create::<Pod>(
        &config(json!({"searches": ["a", "_a.b-c", "a.", ".", "a b"]})),
        &[&format!("{path}.searches[4]: Invalid value: \"a b\": a lowercase RFC 1123 subdomain must…")],
    );
    let many = vec!["a".repeat(100); 33];
    check_create::<Pod>(
        &config(json!({ "searches": many })),
        &[&format!("{path}.searches: Invalid value: [\"a…"), &format!("{path}.searches: Invalid value: [\"a…")],
    );
}

#[test]
fn a_container_restarts_by_rules_of_its_own() {
    let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [300]}});
    let container = |policy: Option<&str>, rules: Value| json!({"restartPolicy": policy, "restartPolicyRules": rules});
    let path = "restartPolicyRules";
    let cases = [
        (container(Some("Never"), json!([rule])), vec![]),
        (
            container(None, json!([rule])),
            vec!["restartPolicy: Required value: must specify restartPolicy when restart rules are used".to_owned()],
        ),
        (
            container(Some("x"), json!(vec![rule; 21])),
            vec![
                "restartPolicy: Unsupported value: \"x\": supported values: \"Always\", \"Never\", \"OnFailure\"".to_owned(),
                format!("{path}: Too many: 21: must have at most 20 items"),
            ],
        ),
        (
            container(Some("Never"), json!([{"action": "", "exitCodes": {"operator": "", "values": vec![0; 256]}}, {"action": "x"}])),
            vec![
                format!("{path}[0].action: Unsupported value: \"\": supported values: \"Restart\", \"RestartAllContainers\""),
                format!("{path}[0].exitCodes.operator: Unsupported value: \"\": supported values: \"In\", \"NotIn\""),
                format!("{path}[0].exitCodes.values: Too many: 256: must have at most 255 items"),
                format!("{path}[1].action: Unsupported value: \"x\": supported values: \"Restart\", \"RestartAllContainers\""),
                format!("{path}[1].exitCodes: Required value: must be specified"),
            ],
        ),
    ];
    for (container, wanted) in cases {
        let of = |containers: &str| wanted.iter().map(|wanted| format!("spec.{containers}[0].{wanted}")).collect::<Vec<_>>();
        let check = |pod: &Value, wanted: Vec<String>| check_create::<Pod>(pod, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
        check(&with_container(&container), of("containers"));
        let init = merged(json!({"name": "d", "image": "i"}), &container);
        check(&with_spec(&json!({"initContainers": [init]})), of("initContainers"));
    }
}

#[test]
fn the_resources_of_a_pod_hold_those_of_its_containers() {
    let cpu = |cpu: &str| json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    let pod = |whole: Value, containers: Value| with_spec(&json!({"resources": whole, "containers": containers}));
    let requests = |whole: Value, containers: Value| {
        let pod: Pod = created(&pod(whole, containers));
        json!(pod.spec.unwrap_or_default().resources.unwrap_or_default().requests)
    };
    let found =
        requests(json!({"limits": {"cpu": "1", "memory": "1Gi"}}), json!([cpu("100m"), merged(cpu("100m"), &json!({"name": "d"}))]));
    assert_eq!(found, json!({"cpu": "200m", "memory": "1Gi"}));
    assert_eq!(requests(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "300m"}}), json!([cpu("100m")])), json!({"cpu": "300m"}));

    let path = "spec.resources";
    check_create::<Pod>(
        &pod(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}), json!([cpu("200m")])),
        &[&format!("{path}.requests[cpu]: Invalid value: \"100m\": must be greater than or equal to aggregate container requests of 200m")],
    );
    let large = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1m"}}}]);
    check_create::<Pod>(
        &pod(json!({"limits": {"cpu": "1"}}), large),
        &[&format!("{path}.containers[0][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1")],
    );
    check_create::<Pod>(
        &pod(json!({"requests": {"ephemeral-storage": "1Gi"}, "claims": [{"name": "x"}]}), json!([cpu("0")])),
        &[
            &format!("{path}.claims: Forbidden: claims may not be set for Resources at pod-level"),
            &format!(
                "{path}.requests[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \
                 \"memory\""
            ),
        ],
    );
    check_create::<Pod>(
        &pod(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), json!([cpu("0")])),
        &[&format!("{path}.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1")],
    );
}

#[test]
fn mounts_reach_the_host_only_from_privileged_containers() {
    let mounts = |context: Value, mounts: Value| {
        let container = with_container(&json!({"securityContext": context, "volumeMounts": mounts}));
        merged(container, &json!({"spec": {"volumes": [{"name": "v"}]}}))
    };
    let mount = |patch: Value| merged(json!({"name": "v", "mountPath": "/a"}), &patch);
    let path = "spec.containers[0].volumeMounts";
    let both_ways = json!([mount(json!({"mountPropagation": "Bidirectional"}))]);
    check_create::<Pod>(&mounts(json!({"privileged": true}), both_ways.clone()), &[]);
    check_create::<Pod>(
        &mounts(json!({}), both_ways),
        &[&format!("{path}.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers")],
    );
    check_create::<Pod>(
        &mounts(json!({}), json!([mount(json!({"recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"}))])),
        &[
            &format!("{path}.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"),
            &format!("{path}.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified"),
        ],
    );
}

#[test]
fn what_a_pod_shares_with_its_node_fits_together() {
    check_create::<Pod>(
        &with_spec(&json!({"hostUsers": false, "hostNetwork": true, "hostPID": true, "hostIPC": true})),
        &[
            "spec.hostNetwork: Forbidden: when `pod.Spec.HostUsers` is false",
            "spec.HostPID: Forbidden: when `pod.Spec.HostUsers` is false",
            "spec.HostIPC: Forbidden: when `pod.Spec.HostUsers` is false",
        ],
    );
    let ports =
        |numbers: &[i32]| json!(numbers.iter().map(|number| json!({"containerPort": number, "hostPort": number})).collect::<Vec<_>>());
    let init = |name: &str, numbers: &[i32]| json!({"name": name, "image": "i", "ports": ports(numbers)});
    check_create::<Pod>(
        &merged(
            with_container(&json!({"ports": ports(&[1])})),
            &json!({"spec": {"initContainers": [init("d", &[1]), init("e", &[2, 2])]}}),
        ),
        &["spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//2\""],
    );
    check_create::<Pod>(&with_spec(&json!({"runtimeClassName": ""})), &["spec.runtimeClassName: Invalid value: \"\": a lowercase…"]);
    let options = json!({"windowsOptions": {"runAsUserName": "x"}});
    let detail = "windowsOptions: Forbidden: windows options cannot be set for a linux pod";
    check_create::<Pod>(
        &merged(
            with_container(&json!({ "securityContext": options })),
            &json!({"spec": {"os": {"name": "linux"}, "securityContext": options}}),
        ),
        &[&format!("spec.securityContext.{detail}"), &format!("spec.containers[0].securityContext.{detail}")],
    );
    let detail = "Forbidden: cannot be set for a windows pod";
    check_create::<Pod>(
        &merged(
            with_container(&json!({"securityContext": {"privileged": false, "runAsUser": 1}})),
            &json!({"spec": {"os": {"name": "windows"}, "hostPID": true, "securityContext": {"fsGroup": 1}}}),
        ),
        &[
            &format!("spec.hostPID: {detail}"),
            &format!("spec.securityContext.fsGroup: {detail}"),
            &format!("spec.containers[0].securityContext.privileged: {detail}"),
            &format!("spec.containers[0].securityContext.runAsUser: {detail}"),
        ],
    );
}

#[test]
fn a_resize_restarts_nothing_that_never_restarts() {
    let policy = |resource: &str, policy: &str| json!({"resourceName": resource, "restartPolicy": policy});
    let pod = |restart: &str, policies: Value| {
        merged(with_container(&json!({ "resizePolicy": policies })), &json!({"spec": {"restartPolicy": restart}}))
    };
    let path = "spec.containers[0].resizePolicy";
    check_create::<Pod>(
        &pod("Never", json!([policy("cpu", "RestartContainer"), policy("memory", "NotRequired")])),
        &[&format!("{path}: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'")],
    );
    check_create::<Pod>(
        &pod("Always", json!([policy("cpu", "x"), policy("cpu", "NotRequired"), policy("y", "")])),
        &[
            &format!("{path}: Unsupported value: \"x\": supported values: \"NotRequired\", \"RestartContainer\""),
            &format!("{path}[1]: Duplicate value: \"cpu\""),
            &format!("{path}: Unsupported value: \"y\": supported values: \"cpu\", \"memory\""),
            &format!("{path}: Required value"),
        ],
    );
}
