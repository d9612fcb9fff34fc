//! Requests for certificates, autoscalers of both versions and the health of components, with kubectl.

use crate::common::{Berth, deployment, kubectl_is_here, up};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::fs;

const FAST: &[&str] = &["--store", "memory", "--nodes", "1", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

/// A request of `jane`, a member of `dev`.
fn request(name: &str, usages: &str) -> (KeyPair, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params.distinguished_name.push(DnType::OrganizationName, "dev");
    let pem = params.serialize_request(&key).expect("a request").pem().expect("PEM");
    let encoded = BASE64_STANDARD.encode(pem);
    let manifest = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\nspec:\n  request: {encoded}\n  \
         signerName: kubernetes.io/kube-apiserver-client\n  expirationSeconds: 3600\n  usages: [{usages}]\n"
    );
    (key, manifest)
}

fn shown(berth: &Berth, name: &str) -> String {
    let row = berth.kubectl(&["get", "csr", name, "--no-headers"]);
    row.split_whitespace().enumerate().filter(|(column, _)| *column != 1).map(|(_, cell)| cell).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_approved_request_gets_a_certificate_that_signs_in() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let (key, manifest) = request("jane", "client auth");
    assert_eq!(berth.apply(&manifest), "certificatesigningrequest.certificates.k8s.io/jane created\n");
    assert_eq!(shown(&berth, "jane"), "jane kubernetes.io/kube-apiserver-client kubernetes-admin 60m Pending");
    assert_eq!(berth.kubectl(&["certificate", "approve", "jane"]), "certificatesigningrequest.certificates.k8s.io/jane approved\n");
    let certificate = berth.kubectl_until(&["get", "csr", "jane", "-o", "jsonpath={.status.certificate}"], |text| !text.is_empty());
    assert_eq!(shown(&berth, "jane"), "jane kubernetes.io/kube-apiserver-client kubernetes-admin 60m Approved,Issued");

    let path = |name: &str| berth.data_dir.join(name).to_str().expect("a path").to_owned();
    let (certificate_path, key_path, config) = (path("jane.crt"), path("jane.key"), path("jane.kubeconfig"));
    fs::write(&certificate_path, BASE64_STANDARD.decode(certificate.trim()).expect("base64")).expect("written");
    fs::write(&key_path, key.serialize_pem()).expect("written");
    fs::copy(berth.kubeconfig(), &config).expect("copied");
    let (certificate_option, key_option) = (format!("--client-certificate={certificate_path}"), format!("--client-key={key_path}"));
    berth.kubectl(&["--kubeconfig", &config, "config", "set-credentials", "jane", &certificate_option, &key_option]);
    let who = berth.kubectl(&[
        "--kubeconfig",
        &config,
        "--user",
        "jane",
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username} {.status.userInfo.groups}",
    ]);
    assert_eq!(who, r#"jane ["dev","system:authenticated"]"#);
    let refused = berth.kubectl_fails(&["--kubeconfig", &config, "--user", "jane", "get", "secrets"]);
    assert!(refused.contains("User \"jane\" cannot list resource \"secrets\""), "{refused}");
}

#[test]
fn requests_are_denied_and_those_that_do_not_fit_fail() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&request("denied", "client auth").1);
    assert_eq!(berth.kubectl(&["certificate", "deny", "denied"]), "certificatesigningrequest.certificates.k8s.io/denied denied\n");
    assert_eq!(shown(&berth, "denied"), "denied kubernetes.io/kube-apiserver-client kubernetes-admin 60m Denied");
    berth.apply(&request("server", "server auth").1);
    berth.kubectl(&["certificate", "approve", "server"]);
    let message = r#"jsonpath={.status.conditions[?(@.type=="Failed")].message}"#;
    let why = berth.kubectl_until(&["get", "csr", "server", "-o", message], |text| !text.is_empty());
    assert_eq!(why, "invalid usage for client certificate: server auth");
    assert_eq!(shown(&berth, "server"), "server kubernetes.io/kube-apiserver-client kubernetes-admin 60m Approved,Failed");

    // A user with all rights over requests, but over no signer.
    berth.kubectl(&[
        "create",
        "clusterrole",
        "requests",
        "--verb=*",
        "--resource=certificatesigningrequests,certificatesigningrequests/approval",
    ]);
    berth.kubectl(&["create", "clusterrolebinding", "requests", "--clusterrole=requests", "--user=bob"]);
    berth.apply(&request("other", "client auth").1);
    let refused = berth.kubectl_fails(&["certificate", "approve", "other", "--as=bob"]);
    assert!(
        refused.contains("user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""),
        "{refused}"
    );
    let role = "--clusterrole=system:certificates.k8s.io:kube-apiserver-client-approver";
    berth.kubectl(&["create", "clusterrolebinding", "approver", role, "--user=bob"]);
    berth.kubectl(&["certificate", "approve", "other", "--as=bob"]);
}

#[test]
fn autoscalers_are_the_same_in_both_versions() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(&deployment("web", 1, "web:1"));
    berth.kubectl(&["autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=60"]);
    let spec = "jsonpath={.apiVersion} {.spec.minReplicas} {.spec.maxReplicas}";
    let first = format!("{spec} {{.spec.targetCPUUtilizationPercentage}}");
    let second = format!("{spec} {{.spec.metrics[0].resource.target.averageUtilization}}");
    assert_eq!(berth.kubectl(&["get", "horizontalpodautoscalers.v1.autoscaling", "web", "-o", &first]), "autoscaling/v1 2 5 60");
    assert_eq!(berth.kubectl(&["get", "horizontalpodautoscalers.v2.autoscaling", "web", "-o", &second]), "autoscaling/v2 2 5 60");
    berth.kubectl(&[
        "patch",
        "horizontalpodautoscalers.v1.autoscaling",
        "web",
        "--patch",
        r#"{"spec": {"targetCPUUtilizationPercentage": 70}}"#,
    ]);
    assert_eq!(berth.kubectl(&["get", "hpa", "web", "-o", &second]), "autoscaling/v2 2 5 70");
    let [one, two] = ["horizontalpodautoscalers.v1.autoscaling", "hpa"].map(|kind| berth.kubectl(&["get", kind, "--no-headers"]));
    let cells = |text: &str| text.split_whitespace().take(6).map(ToOwned::to_owned).collect::<Vec<_>>();
    assert_eq!(cells(&one), cells(&two));
    berth.kubectl(&["delete", "horizontalpodautoscalers.v1.autoscaling", "web"]);
    assert_eq!(berth.kubectl(&["get", "hpa", "-o", "name"]), "");
}

#[test]
fn components_are_listed_with_their_health() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let listed = berth.kubectl(&["get", "componentstatuses", "--no-headers"]);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["controller-manager", "Healthy", "ok"], ["scheduler", "Healthy", "ok"], ["etcd-0", "Healthy", "ok"]]);
    assert_eq!(berth.kubectl(&["get", "cs", "scheduler", "-o", "jsonpath={.conditions[0].type}={.conditions[0].status}"]), "Healthy=True");
    let missing = berth.kubectl_fails(&["get", "cs", "other"]);
    assert!(missing.contains("componentstatus \"other\" not found"), "{missing}");
    assert!(berth.kubectl_with("", &["get", "cs"]).stderr.starts_with(b"Warning: v1 ComponentStatus is deprecated in v1.19+"));
}

#[test]
fn a_pod_that_claims_devices_waits_with_a_reason() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    berth.apply(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: gpu}\nspec:\n  spec: {devices: {requests: [{name: r, exactly: \
         {deviceClassName: gpu.example.com}}]}}\n",
    );
    berth.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]\n  containers: \
         [{name: main, image: \"train:1\", resources: {claims: [{name: gpu}]}}]\n",
    );
    let why = berth.kubectl_until(&["get", "pod", "train", "-o", "jsonpath={.status.conditions[0].message}"], |text| !text.is_empty());
    let wanted = "0/1 nodes are available: cannot allocate all claims: berth allocates no devices (resource claim template \"gpu\").";
    assert!(why.starts_with(wanted), "{why}");
    assert_eq!(berth.kubectl(&["get", "pod", "train", "-o", "jsonpath={.spec.resourceClaims[0].resourceClaimTemplateName}"]), "gpu");
    assert_eq!(berth.kubectl(&["get", "resourceclaims", "-o", "name"]), "", "nothing creates claims of templates");
}
