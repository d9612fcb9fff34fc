//! Users, roles and tokens with kubectl.

use crate::common::{Berth, kubectl_is_here, up};
use std::{fs, process::Command};

const FAST: &[&str] = &["--store", "memory", "--nodes", "1", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

/// The server's address in the administrator's kubeconfig.
fn server_of(berth: &Berth) -> String {
    let config = fs::read_to_string(berth.kubeconfig()).expect("it was written");
    config.lines().find_map(|line| line.trim().strip_prefix("server: ")).expect("it names a server").to_owned()
}

#[test]
fn kubectl_makes_roles_and_shows_permissions() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.kubectl(&["create", "namespace", "a"]);
    berth.kubectl(&["create", "role", "reader", "--verb=get,list", "--resource=pods", "--namespace=a"]);
    berth.kubectl(&["create", "rolebinding", "reader", "--role=reader", "--user=alice", "--namespace=a"]);
    berth.kubectl(&["create", "clusterrole", "nodes", "--verb=get", "--resource=nodes"]);
    berth.kubectl(&["create", "clusterrolebinding", "nodes", "--clusterrole=nodes", "--group=ops"]);
    let can = |question: &[&str]| {
        let arguments: Vec<&str> = ["auth", "can-i"].iter().chain(question).copied().collect();
        String::from_utf8_lossy(&berth.kubectl_with("", &arguments).stdout).trim().to_owned()
    };
    assert_eq!(can(&["list", "pods", "--namespace=a", "--as=alice"]), "yes");
    assert_eq!(can(&["delete", "pods", "--namespace=a", "--as=alice"]), "no");
    assert_eq!(can(&["list", "pods", "--namespace=default", "--as=alice"]), "no");
    assert_eq!(can(&["get", "nodes", "--as=bob", "--as-group=ops"]), "yes");
    assert_eq!(can(&["*", "*"]), "yes");
    assert!(can(&["--list", "--namespace=a", "--as=alice"]).lines().any(|line| line.starts_with("pods ") && line.contains("[get list]")));
    assert_eq!(berth.kubectl(&["auth", "whoami", "--output=jsonpath={.status.userInfo.username}"]), "kubernetes-admin");
    assert_eq!(berth.kubectl(&["get", "pods", "--namespace=a", "--as=alice", "--output=name"]), "");
    let refused = berth.kubectl_fails(&["get", "secrets", "--namespace=a", "--as=alice"]);
    let expected = "Error from server (Forbidden): secrets is forbidden: User \"alice\" cannot list resource \"secrets\" in API group \"\" in \
                    the namespace \"a\"\n";
    assert_eq!(refused, expected);
    let shown = berth.kubectl(&["get", "rolebindings", "--namespace=a", "--output=wide"]);
    assert!(shown.contains("Role/reader") && shown.contains("alice"), "{shown}");
}

#[test]
fn other_users_have_kubeconfigs_and_service_accounts_have_tokens() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let config = berth.data_dir.join("alice.kubeconfig");
    let issued = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["kubeconfig", "--user", "alice", "--group", "dev", "--duration", "1h", "--data-dir"])
        .arg(&berth.data_dir)
        .arg("--output")
        .arg(&config)
        .status()
        .expect("berth runs");
    assert!(issued.success());
    let as_alice = ["--kubeconfig", config.to_str().expect("a path")];
    let alice = |arguments: &[&str]| {
        let arguments: Vec<&str> = as_alice.iter().chain(arguments).copied().collect();
        berth.kubectl_with("", &arguments)
    };
    let who = alice(&["auth", "whoami", "--output=jsonpath={.status.userInfo.username} {.status.userInfo.groups}"]);
    assert_eq!(String::from_utf8_lossy(&who.stdout), "alice [\"dev\",\"system:authenticated\"]");
    assert!(!alice(&["get", "pods"]).status.success());
    berth.kubectl(&["create", "rolebinding", "dev", "--clusterrole=edit", "--group=dev"]);
    assert!(alice(&["get", "pods"]).status.success());
    assert!(alice(&["create", "configmap", "c"]).status.success());
    let escalation = alice(&["create", "role", "all", "--verb=*", "--resource=pods"]);
    assert!(String::from_utf8_lossy(&escalation.stderr).contains("cannot create resource \"roles\""));

    berth.kubectl(&["create", "serviceaccount", "robot"]);
    berth.kubectl(&["create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot"]);
    let token = berth.kubectl(&["create", "token", "robot", "--duration=1h"]);
    let server = server_of(&berth);
    let as_robot = |arguments: &[&str]| {
        let credentials = ["--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server", &server, "--token", token.trim()];
        let arguments: Vec<&str> = credentials.iter().chain(arguments).copied().collect();
        berth.kubectl_with("", &arguments)
    };
    let who = as_robot(&["auth", "whoami", "--output=jsonpath={.status.userInfo.username}"]);
    assert_eq!(String::from_utf8_lossy(&who.stdout), "system:serviceaccount:default:robot", "{}", String::from_utf8_lossy(&who.stderr));
    assert!(as_robot(&["get", "configmaps"]).status.success());
    assert!(!as_robot(&["get", "secrets"]).status.success());
    berth.kubectl(&["delete", "serviceaccount", "robot"]);
    let gone = as_robot(&["get", "configmaps"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("Unauthorized"), "{}", String::from_utf8_lossy(&gone.stderr));
}

#[test]
fn a_token_file_and_an_audit_log_are_taken_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let tokens = file("tokens", "secret,alice,1,dev\n");
    let policy = file("policy", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n");
    let log = folder.path().join("audit.log");
    let mut arguments = FAST.to_vec();
    let log_text = log.to_str().expect("a path");
    arguments.extend([
        "--token-auth-file",
        &tokens,
        "--audit-policy-file",
        &policy,
        "--audit-log-path",
        log_text,
        "--anonymous-auth=false",
    ]);
    let berth = up(&arguments);
    if kubectl_is_here() {
        let server = server_of(&berth);
        let credentials = ["--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server", &server, "--token", "secret"];
        let arguments: Vec<&str> =
            credentials.iter().chain(&["auth", "whoami", "--output=jsonpath={.status.userInfo.username}"]).copied().collect();
        assert_eq!(berth.kubectl(&arguments), "alice");
    }
    assert_eq!(berth.terminate().0, Some(0));
    if kubectl_is_here() {
        let text = fs::read_to_string(&log).expect("written");
        assert!(text.lines().any(|line| line.contains("\"username\":\"alice\"") && line.contains("selfsubjectreviews")), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn kubectl_shows_security_levels_and_limit_ranges() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.kubectl(&["create", "namespace", "strict"]);
    berth.kubectl(&["run", "old", "--image=i", "--namespace=strict", "--overrides={\"spec\":{\"hostNetwork\":true}}"]);
    let warned = |arguments: &[&str]| {
        let output = berth.kubectl_with("", arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let label = "pod-security.kubernetes.io/enforce=baseline";
    let told = warned(&["label", "namespace", "strict", label, "pod-security.kubernetes.io/warn=restricted"]);
    let wanted = "Warning: existing pods in namespace \"strict\" violate the new PodSecurity enforce level \"baseline:latest\"\nWarning: old: \
                  host namespaces\n";
    assert_eq!(told, wanted);
    let refused = berth.kubectl_fails(&["run", "new", "--image=i", "--namespace=strict", "--privileged"]);
    let wanted = "Error from server (Forbidden): pods \"new\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \
                  \"new\" must not set securityContext.privileged=true)\n";
    assert_eq!(refused, wanted);
    let told = warned(&["create", "deployment", "d", "--image=i", "--namespace=strict"]);
    assert!(told.starts_with("Warning: would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false "), "{told}");
    let refused = berth.kubectl_fails(&["label", "namespace", "strict", "--overwrite", "pod-security.kubernetes.io/enforce=none"]);
    assert!(refused.contains("metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"none\""), "{refused}");

    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, max: {memory: 1Gi}}]}\n";
    let made = berth.kubectl_with(range, &["apply", "--filename=-"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    berth.kubectl(&["run", "small", "--image=i"]);
    assert_eq!(berth.kubectl(&["get", "pod", "small", "--output=jsonpath={.spec.containers[0].resources.limits.memory}"]), "1Gi");
    let authority = berth.kubectl(&["get", "configmap", "kube-root-ca.crt", "--output=jsonpath={.data.ca\\.crt}"]);
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----"), "{authority}");
}
