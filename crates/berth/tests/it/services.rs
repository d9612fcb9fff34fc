//! Services against the real binary: the Service `kubernetes`, for which tools wait, and those of users.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{deployment, kubectl_is_here, up, up_in};
use tempfile::TempDir;

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, clusterIP: 10.96.3.4, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]}
";

#[test]
fn the_service_kubernetes_leads_to_the_advertised_address() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--nodes", "0", "--advertise-address", "192.0.2.7", "--service-cluster-ip-range", "10.7.0.0/24"]);
    let port = berth.kubectl(&["get", "service", "kubernetes", "-o", "jsonpath={.spec.ports[0].targetPort}"]);
    let slice = berth.kubectl(&["get", "endpointslice", "kubernetes", "-o", "jsonpath={.endpoints[0].addresses[0]}:{.ports[0].port}"]);
    assert_eq!(slice, format!("192.0.2.7:{port}"));
    assert_eq!(berth.kubectl(&["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"]), "10.7.0.1");
    let table = berth.kubectl(&["get", "ipaddresses"]);
    assert!(table.starts_with("NAME") && table.contains("10.7.0.1") && table.contains("services/default/kubernetes"), "{table}");
    assert!(berth.kubectl(&["get", "servicecidr", "kubernetes"]).contains("10.7.0.0/24"));
}

#[test]
fn a_service_keeps_what_it_was_given_and_leads_to_its_pods() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let fast = ["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
    let berth = up_in(folder.path(), &fast);
    berth.apply(&deployment("web", 3, "web:1"));
    berth.apply(SERVICE);
    let addresses =
        ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[*].addresses[0]}"];
    berth.kubectl_until(&addresses, |addresses| addresses.split_whitespace().count() == 3);
    let ready = ["get", "endpoints", "web", "-o", "jsonpath={.subsets[0].addresses[*].ip}"];
    berth.kubectl_until(&ready, |ready| ready.split_whitespace().count() == 3);
    let given = ["get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}"];
    berth.kubectl_until(&given, |address| address == "198.51.100.1");
    berth.kill();
    let berth = up_in(folder.path(), &fast);
    let taken = berth.kubectl_with(&SERVICE.replace("name: web}", "name: other}"), &["create", "-f", "-"]);
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(
        said.contains("spec.clusterIPs: Invalid value: [\"10.96.3.4\"]: failed to allocate IP 10.96.3.4: provided IP is already allocated"),
        "{said}"
    );
    berth.apply(&deployment("web", 1, "web:1"));
    berth.kubectl_until(&addresses, |addresses| addresses.split_whitespace().count() == 1);
    berth.kubectl(&["delete", "service", "web"]);
    berth.kubectl_until(&addresses, str::is_empty);
    berth.kubectl_until(&["get", "endpoints", "-o", "name"], |left| !left.contains("web"));
}
