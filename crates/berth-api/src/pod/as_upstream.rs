//! The responses of a real Kubernetes 1.36.2 to pods. Each row was recorded.

use super::*;
use crate::{
    Path,
    check::{check_create, created, merged},
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

fn with_spec(patch: &Value) -> Value {
    let base = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    merged(base, &json!({ "spec": patch }))
}

/// Returns a pod whose container has these additional fields.
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
        let mut template: PodTemplateSpec = template;
        set_template_defaults(&mut template);
        template
    };
    assert_eq!(validate_template(&template, &Path::new("spec.template")), []);
}

#[test]
fn sources_of_volumes_have_the_fields_that_their_drivers_require() {
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

/// Checks a template whose pods have an additional volume for each claim.
fn check_template(claims: &[&str], spec: &Value, wanted: &[&str]) {
    let mut template: PodTemplateSpec = serde_json::from_value(merged(with_spec(spec), &json!({"metadata": null}))).expect("a template");
    fill_template(&mut template);
    let claims: Vec<String> = claims.iter().map(|&claim| claim.to_owned()).collect();
    let faults = validate_template_with_claims(&template, &Path::new("t"), &claims);
    assert_eq!(faults.iter().map(|fault| fault.to_string().chars().take(90).collect()).collect::<Vec<String>>(), wanted);
}

#[test]
fn volumes_of_claims_come_first_and_replace_those_of_their_names() {
    check_template(
        &["a", "", "a"],
        &json!({"volumes": [{"name": "x", "emptyDir": {}}, {"name": "x", "emptyDir": {}}, {"name": "a"}]}),
        &[
            "t.spec.volumes[1].persistentVolumeClaim.claimName: Required value",
            "t.spec.volumes[1].name: Required value",
            "t.spec.volumes[3].name: Duplicate value: \"x\"",
        ],
    );
    let mounts = json!([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]);
    let container = json!([{"name": "c", "image": "i", "volumeMounts": mounts}]);
    check_template(&["a"], &json!({ "containers": container }), &["t.spec.containers[0].volumeMounts[1].name: Not found: \"b\""]);
}

#[test]
fn huge_pages_are_used_as_a_whole() {
    let path = "spec.containers[0].resources";
    let pages = |limits: Value| with_container(&json!({"resources": {"limits": merged(json!({"cpu": "1"}), &limits)}}));
    let odd = |name: &str, amount: &str| {
        ["limits", "requests"].map(|field| {
            format!("{path}.{field}[{name}]: Invalid value: \"{amount}\": {amount} is not positive integer multiple of {name}")
        })
    };
    for (name, amount) in [("hugepages-2Mi", "1k"), ("hugepages-x", "4"), ("hugepages-0", "4")] {
        check_create::<Pod>(&pages(json!({ name: amount })), &odd(name, amount).each_ref().map(String::as_str));
    }
    check_create::<Pod>(&pages(json!({"hugepages-2Mi": "0", "hugepages-3": "3", "hugepages-1Gi": "2Gi"})), &[]);
    check_create::<Pod>(
        &with_spec(&json!({"overhead": {"hugepages-2Mi": "1k", "cpu": "1"}})),
        &["spec.overhead.limits[hugepages-2Mi]: Invalid value: \"1k\": 1k is not positive integer multiple of hugepages-2Mi"],
    );
}

#[test]
fn claims_of_devices_are_the_pods() {
    let pod = |of_pod: Value, of_container: Value| {
        merged(with_container(&json!({"resources": {"claims": of_container}})), &json!({"spec": {"resourceClaims": of_pod}}))
    };
    let path = "spec.containers[0].resources.claims";
    let unknown = "must be one of the names in pod.spec.resourceClaims";
    check_create::<Pod>(
        &pod(Value::Null, json!([{"name": "a"}, {"name": "a"}, {"name": ""}])),
        &[
            &format!("{path}[0]: Not found: \"a\": {unknown} which is empty"),
            &format!("{path}[1]: Duplicate value: \"a\""),
            &format!("{path}[1]: Not found: \"a\": {unknown} which is empty"),
            &format!("{path}[2]: Required value"),
        ],
    );
    check_create::<Pod>(
        &pod(json!([{"name": "a", "resourceClaimName": "b"}, {"name": "a"}]), json!([{"name": "a"}, {"name": "c"}])),
        &[
            "spec.resourceClaims[1].name: Duplicate value: \"a\"",
            "spec.resourceClaims[1]: Invalid value: {\"name\":\"a\"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            &format!("{path}[1]: Not found: \"c\": {unknown}: a, a"),
        ],
    );
}

#[test]
fn a_claim_that_a_pod_makes_has_labels_and_annotations_of_its_own_alone() {
    let claim = |metadata: Value| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        json!({"ephemeral": {"volumeClaimTemplate": {"metadata": metadata, "spec": spec}}})
    };
    let path = ".ephemeral.volumeClaimTemplate.metadata";
    check_volumes(&[
        (claim(json!({"labels": {"a": "b"}, "annotations": {"a": "b"}})), &[]),
        (
            claim(json!({"name": "x", "labels": {"a": "b c"}, "finalizers": ["a/b"]})),
            &[
                &format!("{path}.labels: Invalid value: \"b c\": a valid label must be…"),
                &format!("{path}.name: Forbidden: cannot be set"),
                &format!("{path}.finalizers: Forbidden: cannot be set"),
            ],
        ),
    ]);
}

#[test]
fn values_behind_closed_gates_are_refused_by_name() {
    check_create::<Pod>(
        &with_spec(&json!({"securityContext": {"supplementalGroupsPolicy": "x", "seLinuxChangePolicy": "MountOption"}})),
        &[
            "spec.securityContext.supplementalGroupsPolicy: Unsupported value: \"x\": supported values: \"Merge\", \"Strict\"",
            "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"",
        ],
    );
    let path = "spec.containers[0].securityContext.procMount: ";
    let mount = |mount: &str, users: bool| {
        merged(with_container(&json!({"securityContext": {"procMount": mount}})), &json!({"spec": {"hostUsers": users}}))
    };
    check_create::<Pod>(
        &mount("Unmasked", true),
        &[&format!("{path}Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`")],
    );
    check_create::<Pod>(&mount("Unmasked", false), &[]);
    check_create::<Pod>(&mount("x", false), &[&format!("{path}Unsupported value: \"x\": supported values: \"Default\", \"Unmasked\"")]);
    let operator = "spec.tolerations[0].operator: Unsupported value: ";
    let toleration = |operator: &str| with_spec(&json!({"tolerations": [{"key": "a", "operator": operator, "value": "1"}]}));
    check_create::<Pod>(&toleration("Gt"), &[&format!("{operator}\"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"")]);
    check_create::<Pod>(&toleration("x"), &[&format!("{operator}\"x\": supported values: \"Equal\", \"Exists\"")]);
}

#[test]
fn faults_in_references_of_pods_are_reported_at_upstreams_paths() {
    check_create::<Pod>(
        &with_container(&json!({"envFrom": [{}, {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]})),
        &[
            "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            "spec.containers[0].envFrom: Invalid value: \"\": may not have more than one field specified at a time",
        ],
    );
    let file = |volume: &str, path: &str| {
        let key = json!({"volumeName": volume, "path": path, "key": "k"});
        json!({"name": "a", "valueFrom": {"fileKeyRef": key}})
    };
    let path = |index: usize| format!("spec.containers[0].env[{index}].valueFrom.fileKeyRef");
    check_create::<Pod>(
        &merged(
            with_container(&json!({"env": [file("w", "/p"), file("v", "../p"), file("", "")]})),
            &json!({"spec": {"volumes": [{"name": "w", "emptyDir": {}}], "initContainers": [{"name": "e", "image": "i", "env": [file("v", "p")]}]}}),
        ),
        &[
            &format!("{}.path: Invalid value: \"../p\": must not contain '..'", path(1)),
            &format!("{}.volumeName: Required value", path(2)),
            &format!("{}.path: Required value", path(2)),
            "spec.initContainers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: \"v\"",
            &format!("{}.volumeName: Not found: \"v\"", path(1)),
            &format!("{}.volumeName: Not found: \"\"", path(2)),
        ],
    );
    check_create::<Pod>(
        &with_container(&json!({"volumeDevices": [{"name": "a", "devicePath": "/a/../b"}]})),
        &[
            "spec.containers[0].volumeDevices[0].name: Not found: \"a\"",
            "spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/a/../b\": can not contain backsteps ('..')",
        ],
    );
    let term = json!({"topologyKey": ""});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: ";
    check_create::<Pod>(
        &with_spec(
            &json!({"affinity": affinity, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "DoNotSchedule"}]}),
        ),
        &[
            &format!("{path}Required value: can not be empty"),
            &format!("{path}Invalid value: \"\": name part must be non-empty"),
            &format!("{path}Invalid value: \"\": name part must consist of…"),
        ],
    );
}

#[test]
fn the_quality_of_service_does_not_change_and_a_phase_may_be_absent() {
    let old = created::<Pod>(&with_spec(&json!({})));
    let faults = |status: Value| {
        let mut pod: Pod = serde_json::from_value(merged(with_spec(&json!({})), &json!({ "status": status }))).expect("a pod");
        crate::ObjectStrategy::set_defaults(&mut pod);
        pod.prepare_status_update(&old, &FeatureGates::default());
        let faults = pod.validate_status_update(&old, &FeatureGates::default());
        (faults.iter().map(ToString::to_string).collect::<Vec<_>>(), pod.status.and_then(|status| status.phase))
    };
    assert_eq!(faults(json!({"qosClass": ""})), (Vec::new(), None));
    let (refused, phase) = faults(json!({"qosClass": "x", "phase": "Running"}));
    assert_eq!(
        (refused, phase.as_deref()),
        (vec!["status.qosClass: Invalid value: \"x\": field is immutable".to_owned()], Some("Running"))
    );
}

#[test]
fn addresses_in_another_form_are_warned_about_last() {
    let pod = created::<Pod>(&merged(
        with_container(&json!({"env": [{"name": "a"}, {"name": "a"}], "ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}]})),
        &json!({"spec": {"hostAliases": [{"ip": "fd00:0::1"}], "dnsConfig": {"nameservers": ["FD00::1"]},
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "100m"}}]}}),
    ));
    let form = "should be in RFC 5952 canonical format (\"fd00::1\")";
    assert_eq!(
        pod.warnings(None),
        [
            "spec.containers[0].env[1]: hides previous definition of \"a\", which may be dropped when using apply".to_owned(),
            "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}"
                .to_owned(),
            format!("spec.dnsConfig.nameservers[0]: IPv6 address \"FD00::1\" {form}"),
            format!("spec.hostAliases[0].ip: IPv6 address \"fd00:0::1\" {form}"),
        ]
    );
}

#[test]
fn an_image_is_pulled_always_where_its_tag_can_move() {
    let digest = format!("a@sha256:{}", "a".repeat(64));
    let latest = format!("a:latest@sha256:{}", "a".repeat(64));
    for (image, policy) in [
        ("a", "Always"),
        ("a:latest", "Always"),
        (&latest, "Always"),
        ("localhost:5000/a", "Always"),
        ("A/b:latest", "Always"),
        ("a.b/c__d/e--f", "Always"),
        (&digest, "IfNotPresent"),
        ("a:1", "IfNotPresent"),
        ("UPPER", "IfNotPresent"),
        ("a b", "IfNotPresent"),
        ("a:v1:v2", "IfNotPresent"),
        ("a:", "IfNotPresent"),
        ("a___b", "IfNotPresent"),
    ] {
        let pod = created::<Pod>(&with_spec(&json!({"containers": [{"name": "c", "image": image}]})));
        let found = pod.spec.and_then(|spec| spec.containers[0].image_pull_policy.clone());
        assert_eq!(found.as_deref(), Some(policy), "{image}");
    }
}

#[test]
fn a_node_that_is_required_has_labels_of_the_right_form_in_their_turn() {
    let terms = json!([{"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}, {"key": "a", "operator": "In"}]}]);
    let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": terms}});
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions";
    let none = "values: Required value: must be specified when `operator` is 'In' or 'NotIn'";
    check_create::<Pod>(
        &with_spec(&affinity(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}))),
        &[&format!("{path}[0].values[0]: Invalid value: \"a b\": a valid label must be…"), &format!("{path}[1].{none}")],
    );
    let path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions";
    check_create::<Pod>(
        &with_spec(&affinity(json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}]}))),
        &[&format!("{path}[1].{none}")],
    );
}
