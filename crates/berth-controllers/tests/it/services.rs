//! Endpoints of Services: slices, Endpoints and addresses of load balancers over a real registry.

use super::*;
use berth_workloads::resources::{ENDPOINTS, SERVICES, SLICES};

fn service(name: &str, spec: &Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    for (key, value) in spec.as_object().expect("a spec") {
        service["spec"][key] = value.clone();
    }
    service
}

fn pod(name: &str, app: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "main"}]}})
}

impl Running {
    /// Writes the status that a kubelet reports.
    fn report_status(&self, name: &str, address: &str, ready: &str) {
        let (cluster, key) = (Arc::clone(&self.cluster), key(PODS, name));
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": ready}]}});
        let subresource = Some(berth_registry::Subresource::Status);
        self.test_env.block_on(async move { cluster.patch(PODS, &key, subresource, status).await }).expect("a valid status");
    }

    /// Addresses in slices and Endpoints, ready ones and the others, of each Service.
    fn endpoint_lines(&self) -> Vec<String> {
        let texts = |list: &Value, of: &str| -> Vec<String> {
            list.as_array().into_iter().flatten().map(|one| one[of].as_str().unwrap_or_default().to_owned()).collect()
        };
        let slice = |slice: &Value| {
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            let (ready, others): (Vec<Value>, Vec<Value>) = endpoints.into_iter().partition(|one| one["conditions"]["ready"] == true);
            let ips =
                |all: Vec<Value>| all.iter().map(|one| one["addresses"][0].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>();
            let service = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap_or_default().to_owned();
            format!("slice {service}: {} | {}", ips(ready).join(","), ips(others).join(","))
        };
        let endpoints = |endpoints: &Value| {
            let subset = &endpoints["subsets"][0];
            let name = endpoints["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            format!(
                "endpoints {name}: {} | {}",
                texts(&subset["addresses"], "ip").join(","),
                texts(&subset["notReadyAddresses"], "ip").join(",")
            )
        };
        let (slices, all) = (self.list(SLICES), self.list(ENDPOINTS));
        slices.iter().map(slice).chain(all.iter().map(endpoints)).collect()
    }
}

#[test]
fn a_service_leads_to_its_pods_until_it_is_gone() {
    let running = Running::start("endpoint,endpointslice,garbagecollector");
    running.create(Some("default"), &pod("a", "web"));
    running.create(Some("default"), &pod("b", "web"));
    running.create(Some("default"), &pod("c", "other"));
    running.report_status("a", "10.64.0.1", "True");
    running.report_status("c", "10.64.0.3", "True");
    running.settle();
    running.create(Some("default"), &service("web", &json!({})));
    running.settle();
    assert_eq!(running.endpoint_lines(), ["slice web: 10.64.0.1 | ", "endpoints web: 10.64.0.1 | "]);
    running.report_status("b", "10.64.0.2", "False");
    running.settle();
    assert_eq!(running.endpoint_lines(), ["slice web: 10.64.0.1 | 10.64.0.2", "endpoints web: 10.64.0.1 | 10.64.0.2"]);
    running.patch(PODS, "c", json!({"metadata": {"labels": {"app": "web"}}}));
    running.patch(PODS, "a", json!({"metadata": {"labels": {"app": "gone"}}}));
    running.settle();
    assert_eq!(running.endpoint_lines(), ["slice web: 10.64.0.3 | 10.64.0.2", "endpoints web: 10.64.0.3 | 10.64.0.2"]);
    running.delete(PODS, "c", None);
    running.settle();
    assert_eq!(running.endpoint_lines(), ["slice web:  | 10.64.0.2,10.64.0.3", "endpoints web:  | 10.64.0.2"], "it is on its way out");
    running.delete(SERVICES, "web", None);
    running.settle();
    assert_eq!(running.endpoint_lines(), Vec::<String>::new());
}

#[test]
fn nothing_is_written_for_services_without_a_selector_or_with_an_external_name() {
    let running = Running::start("endpoint,endpointslice");
    running.create(Some("default"), &pod("a", "web"));
    running.report_status("a", "10.64.0.1", "True");
    running.create(Some("default"), &service("own", &json!({"selector": null})));
    running.create(Some("default"), &service("name", &json!({"type": "ExternalName", "externalName": "x.y"})));
    let own = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own"},
        "subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}]});
    running.create(Some("default"), &own);
    running.settle();
    assert_eq!(running.endpoint_lines(), ["endpoints own: 10.9.9.9 | "]);
}

#[test]
fn what_was_written_by_hand_is_put_right() {
    let running = Running::start("endpoint,endpointslice");
    running.create(Some("default"), &pod("a", "web"));
    running.report_status("a", "10.64.0.1", "True");
    running.create(Some("default"), &service("web", &json!({})));
    running.settle();
    let right = running.endpoint_lines();
    let slice = running.list(SLICES)[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    running.patch(SLICES, &slice, json!({"endpoints": []}));
    running.patch(ENDPOINTS, "web", json!({"subsets": []}));
    running.settle();
    assert_eq!(running.endpoint_lines(), right);
    running.delete(SLICES, &slice, None);
    running.delete(ENDPOINTS, "web", None);
    running.settle();
    assert_eq!(running.endpoint_lines(), right);
}

#[test]
fn every_load_balancer_has_an_address_of_its_own() {
    let running = Running::start("service");
    for number in 0..20 {
        running.create(Some("default"), &service(&format!("s{number:02}"), &json!({"type": "LoadBalancer"})));
    }
    running.create(Some("default"), &service("foreign", &json!({"type": "LoadBalancer", "loadBalancerClass": "x.io/y"})));
    running.settle();
    let address = |service: &Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned);
    let given = || {
        let mut given: Vec<String> = running.list(SERVICES).iter().filter_map(address).collect();
        given.sort();
        given.dedup();
        given
    };
    assert_eq!(given().len(), 20);
    assert!(given().contains(&"198.51.100.1".to_owned()), "{:?}", given());
    assert_eq!(address(&running.list(SERVICES)[0]), None, "another's class is left alone");
    assert!(running.events().contains(&("EnsuredLoadBalancer".to_owned(), "Ensured load balancer".to_owned())));
    let first = running.list(SERVICES).iter().find(|service| address(service).as_deref() == Some("198.51.100.1")).cloned().expect("given");
    running.patch(SERVICES, first["metadata"]["name"].as_str().expect("a name"), json!({"spec": {"type": "ClusterIP"}}));
    running.settle();
    assert_eq!(given().len(), 19);
    running.create(Some("default"), &service("next", &json!({"type": "LoadBalancer"})));
    running.settle();
    assert!(given().contains(&"198.51.100.1".to_owned()), "free again: {:?}", given());
}
