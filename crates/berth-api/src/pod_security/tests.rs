#![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

use super::{Level, LevelVersion, Policy, Version, is_significant_update, violations};
use crate::check::merged;
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};

/// Returns the violations of `level` (`baseline:v1.30`) by the pod.
fn found(level: &str, spec: &Value, annotations: Value) -> String {
    let (level, version) = level.split_once(':').expect("a level and a version");
    let labels = |name: &str| match name {
        "pod-security.kubernetes.io/enforce" => Some(level),
        "pod-security.kubernetes.io/enforce-version" => Some(version),
        _ => None,
    };
    let allowed = Policy::of(labels).enforce;
    assert_eq!(allowed.to_string(), format!("{level}:{version}"));
    let meta: ObjectMeta = serde_json::from_value(json!({"annotations": annotations})).expect("metadata");
    let spec: PodSpec = serde_json::from_value(spec.clone()).expect("a spec");
    violations(allowed, &meta, &spec).to_string()
}

/// Returns the spec of a pod that the restricted level allows, with changes.
fn spec(patch: Value) -> Value {
    let pod = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let container = json!({"name": "a", "securityContext": context(json!({}))});
    merged(json!({"securityContext": pod, "containers": [container]}), &patch)
}

/// Returns the security context of a container that the restricted level allows, with changes.
fn context(patch: Value) -> Value {
    merged(json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}), &patch)
}

/// Returns a pod with one container, whose context has changes.
fn with_context(patch: Value) -> Value {
    spec(json!({"containers": [{"name": "a", "securityContext": context(patch)}]}))
}

#[test]
fn each_level_takes_what_it_should() {
    let bare = json!({"containers": [{"name": "a"}]});
    let everything = json!({"hostNetwork": true, "hostPID": true, "hostIPC": true, "containers": [{"name": "a", "securityContext": {"privileged": true}}]});
    assert_eq!(found("privileged:latest", &everything, Value::Null), "");
    assert_eq!(found("baseline:latest", &bare, Value::Null), "");
    assert_eq!(found("restricted:latest", &spec(json!({})), Value::Null), "");
    let wanted = "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), unrestricted \
                  capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \
                  \"a\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
                  securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(found("restricted:latest", &bare, Value::Null), wanted);
    let wanted = "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true), privileged (container \"a\" must not set \
                  securityContext.privileged=true)";
    assert_eq!(found("baseline:v1.0", &everything, Value::Null), wanted);
}

#[test]
fn every_check_reports_its_findings_in_its_releases() {
    let two = |context: Value| {
        let part = |name: &str| json!({"name": name, "securityContext": context});
        json!({"initContainers": [part("i")], "containers": [part("a")], "ephemeralContainers": [part("e")]})
    };
    let volumes = |volumes: Value| spec(json!({"volumes": volumes}));
    let sysctl = |name: &str| spec(json!({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}));
    let probed = json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": 1, "host": "h"}},
        "lifecycle": {"preStop": {"tcpSocket": {"port": 1, "host": "g"}}}}]});
    let windows = json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "a"}]});
    let own_users = with_context(json!({"runAsUser": 0, "runAsNonRoot": false, "procMount": "Unmasked"}));
    let own_users = merged(own_users, &json!({"hostUsers": false}));
    let proc_mount = "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
    let root = "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false), runAsUser=0 (container \"a\" must \
                not set runAsUser=0)";
    let cases: Vec<(&str, Value, String)> = vec![
        // Baseline.
        (
            "baseline:latest",
            with_context(json!({"appArmorProfile": {"type": "Unconfined"}})),
            "forbidden AppArmor profile (container \"a\" must not set AppArmor profile type to \"Unconfined\")".into(),
        ),
        (
            "baseline:latest",
            two(json!({"capabilities": {"add": ["NET_RAW", "CHOWN", "SYS_ADMIN"]}})),
            "non-default capabilities (containers \"i\", \"a\", \"e\" must not include \"NET_RAW\", \"SYS_ADMIN\" in \
             securityContext.capabilities.add)"
                .into(),
        ),
        ("baseline:latest", volumes(json!([{"name": "v", "hostPath": {"path": "/"}}])), "hostPath volumes (volume \"v\")".into()),
        (
            "baseline:latest",
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 0}]}]}),
            "hostPort (container \"a\" uses hostPort 80)".into(),
        ),
        ("baseline:v1.33", probed.clone(), String::new()),
        (
            "baseline:v1.34",
            probed,
            "probe or lifecycle host (container \"a\" uses probe or lifecycle hosts \"g\", \"h\")".into(),
        ),
        ("baseline:latest", with_context(json!({"procMount": "Unmasked"})), proc_mount.into()),
        ("baseline:latest", own_users.clone(), String::new()),
        ("baseline:v1.34", own_users.clone(), proc_mount.into()),
        (
            "baseline:latest",
            with_context(json!({"seLinuxOptions": {"type": "t", "user": "u", "role": "r"}})),
            "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: type \"t\"; user may not be set; role may not be \
             set)"
                .into(),
        ),
        ("baseline:v1.31", with_context(json!({"seLinuxOptions": {"type": "container_engine_t"}})), String::new()),
        (
            "baseline:v1.30",
            spec(json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}})),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")".into(),
        ),
        (
            "baseline:latest",
            with_context(json!({"seccompProfile": {"type": "Unconfined"}})),
            "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")".into(),
        ),
        ("baseline:v1.18", with_context(json!({"seccompProfile": {"type": "Unconfined"}})), String::new()),
        ("baseline:v1.31", sysctl("net.ipv4.tcp_rmem"), "forbidden sysctls (net.ipv4.tcp_rmem)".into()),
        ("baseline:v1.32", sysctl("net.ipv4.tcp_rmem"), String::new()),
        ("baseline:v1.28", sysctl("net.ipv4.tcp_fin_timeout"), "forbidden sysctls (net.ipv4.tcp_fin_timeout)".into()),
        ("baseline:v1.29", sysctl("net.ipv4.tcp_fin_timeout"), String::new()),
        ("baseline:v1.26", sysctl("net.ipv4.ip_local_reserved_ports"), "forbidden sysctls (net.ipv4.ip_local_reserved_ports)".into()),
        ("baseline:v1.27", sysctl("net.ipv4.ip_local_reserved_ports"), String::new()),
        ("baseline:latest", sysctl("kernel.msgmax"), "forbidden sysctls (kernel.msgmax)".into()),
        (
            "baseline:latest",
            spec(json!({"securityContext": {"windowsOptions": {"hostProcess": true}}})),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)".into(),
        ),
        // Restricted.
        ("restricted:v1.7", with_context(json!({"allowPrivilegeEscalation": true})), String::new()),
        (
            "restricted:v1.8",
            with_context(json!({"allowPrivilegeEscalation": true})),
            "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false)".into(),
        ),
        (
            "restricted:latest",
            with_context(json!({"capabilities": {"drop": ["CHOWN"], "add": ["NET_BIND_SERVICE", "CHOWN"]}})),
            "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"a\" must not \
             include \"CHOWN\" in securityContext.capabilities.add)"
                .into(),
        ),
        ("restricted:v1.21", with_context(json!({"capabilities": {"add": ["CHOWN"]}})), String::new()),
        ("restricted:latest", own_users.clone(), proc_mount.into()),
        ("restricted:v1.34", own_users, format!("{proc_mount}, {root}")),
        (
            "restricted:latest",
            volumes(json!([{"name": "n", "nfs": {"path": "/", "server": "s"}}, {"name": "h", "hostPath": {"path": "/"}},
                {"name": "i", "image": {}}])),
            "restricted volume types (volumes \"n\", \"h\" use restricted volume types \"hostPath\", \"nfs\")".into(),
        ),
        ("restricted:latest", with_context(json!({"runAsNonRoot": false, "runAsUser": 0})), root.into()),
        ("restricted:v1.22", with_context(json!({"runAsUser": 0})), String::new()),
        (
            "restricted:latest",
            spec(json!({"securityContext": {"runAsNonRoot": false, "runAsUser": 0}})),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set runAsUser=0)".into(),
        ),
        (
            "restricted:latest",
            spec(json!({"securityContext": {"seccompProfile": null}})),
            "seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
                .into(),
        ),
        (
            "restricted:latest",
            spec(json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}})),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")".into(),
        ),
        ("restricted:v1.25", windows.clone(), String::new()),
        (
            "restricted:v1.24",
            windows,
            "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), unrestricted \
             capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), seccompProfile (pod or container \"a\" must \
             set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
                .into(),
        ),
    ];
    for (level, pod, wanted) in cases {
        assert_eq!(found(level, &pod, Value::Null), wanted, "{level} {pod}");
    }
}

#[test]
fn deprecated_annotations_are_checked_in_the_releases_that_read_them() {
    let bare = json!({"containers": [{"name": "a"}]});
    let unconfined = json!({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"});
    let wanted = "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
                  \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")";
    assert_eq!(found("baseline:latest", &bare, unconfined), wanted);
    assert_eq!(found("baseline:latest", &bare, json!({"container.apparmor.security.beta.kubernetes.io/a": "localhost/x"})), "");
    let seccomp = || {
        json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined", "container.seccomp.security.alpha.kubernetes.io/a": "docker/default",
            "container.seccomp.security.alpha.kubernetes.io/nobody": "unconfined"})
    };
    let wanted = "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")";
    assert_eq!(found("baseline:v1.18", &bare, seccomp()), wanted);
    assert_eq!(found("baseline:v1.19", &bare, seccomp()), "");
}

#[test]
fn labels_that_cannot_be_read_enforce_the_strictest_and_warn_of_nothing() {
    let policy = Policy::of(|name| (!name.ends_with("version")).then_some("bogus"));
    let strictest = LevelVersion { level: Level::Restricted, version: Version::Latest };
    assert_eq!(policy, Policy { enforce: strictest, ..Policy::default() });
    assert_eq!(Policy::of(|_| None), Policy::default());
}

#[test]
fn only_images_and_containers_make_an_update_significant() {
    let pod = |patch: Value| -> PodSpec {
        let base = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "i:1"}], "initContainers": [{"name": "b"}],
            "ephemeralContainers": [{"name": "e"}]}});
        serde_json::from_value::<Pod>(merged(base, &json!({"spec": patch}))).expect("a pod").spec.expect("a spec")
    };
    for (patch, is_significant) in [
        (json!({"activeDeadlineSeconds": 5, "tolerations": [{"key": "x"}]}), false),
        (json!({"containers": [{"name": "a", "image": "i:2"}]}), true),
        (json!({"initContainers": []}), true),
        (json!({"ephemeralContainers": []}), false),
        (json!({"ephemeralContainers": [{"name": "e"}, {"name": "f"}]}), true),
    ] {
        assert_eq!(is_significant_update(&pod(patch.clone()), &pod(json!({}))), is_significant, "{patch}");
    }
}
