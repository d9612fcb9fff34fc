//! Cluster addresses and node ports: their holders, among several servers and after crashes. The Service `kubernetes`.

use crate::test_cluster::{TestCluster, json_of, now};
use berth_registry::{
    ApiError, DeleteOptions, ListOptions, ServerAddress, WriteOptions,
    allocation::{Good, ServiceRanges, repair::Step},
};
use berth_store::{Expected, Key, Purpose, RangeRequest, Store};
use serde_json::{Value, json};

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("ports").is_none() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn refused(cluster: &TestCluster, spec: Value) -> String {
    let error = cluster.create("services", service("refused", spec)).expect_err("refused").to_string();
    assert!(cluster.get("services", "refused").is_err());
    error.replace("Service \"refused\" is invalid: ", "")
}

/// Returns the holder of each address, and the claimed ports.
fn claimed(cluster: &TestCluster) -> Vec<String> {
    let addresses = cluster.list("ipaddresses.networking.k8s.io", &ListOptions::default()).expect("listed").items;
    let ports = now(cluster.store.range(RangeRequest::all("/registry/ranges/servicenodeports/"))).expect("read").entries;
    let text = |value: &[u8]| {
        let claim: Value = serde_json::from_slice(value).expect("JSON");
        let parent = &claim["spec"]["parentRef"];
        format!("{} {}/{}", claim["metadata"]["name"], parent["namespace"], parent["name"]).replace('"', "")
    };
    addresses.iter().chain(&ports).map(|entry| text(&entry.value)).collect()
}

fn delete(cluster: &TestCluster, name: &str) {
    cluster.delete("services", name, &DeleteOptions::default()).expect("deleted");
}

#[test]
fn an_address_is_an_object_as_long_as_its_service_has_it() {
    let cluster = TestCluster::new();
    cluster.made("services", service("a", json!({"clusterIP": "10.96.3.4"})));
    let address = cluster.get("ipaddresses.networking.k8s.io", "10.96.3.4").expect("claimed");
    assert_eq!(
        address["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    assert_eq!(address["spec"], json!({"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}));
    assert_eq!((address["apiVersion"].as_str(), address["kind"].as_str()), (Some("networking.k8s.io/v1"), Some("IPAddress")));

    let external = cluster.merge("services", "a", json!({"spec": {"type": "ExternalName", "externalName": "x.y"}})).expect("changed");
    assert_eq!((&external["spec"]["clusterIP"], &external["spec"]["ipFamilies"]), (&Value::Null, &Value::Null));
    assert_eq!(claimed(&cluster), Vec::<String>::new());
    let back = json!({"spec": {"type": "ClusterIP", "externalName": null, "clusterIP": "10.96.3.5"}});
    assert_eq!(cluster.merge("services", "a", back).expect("changed")["spec"]["clusterIPs"], json!(["10.96.3.5"]));
    assert_eq!(claimed(&cluster), ["10.96.3.5 default/a"]);

    cluster.merge("services", "a", json!({"metadata": {"finalizers": ["x.io/y"]}})).expect("held");
    delete(&cluster, "a");
    assert_eq!(claimed(&cluster), ["10.96.3.5 default/a"], "it is still there");
    cluster.merge("services", "a", json!({"metadata": {"finalizers": null}})).expect("gone");
    assert_eq!(claimed(&cluster), Vec::<String>::new());
}

#[test]
fn addresses_come_from_service_cidrs_and_conflicts_are_refused() {
    let cluster = TestCluster::new();
    cluster.made("services", service("a", json!({"clusterIP": "10.96.3.4"})));
    let failed = |ip: &str, why: &str| format!("spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {why}");
    let outside = "the provided network does not match the current range";
    assert_eq!(refused(&cluster, json!({"clusterIP": "10.96.3.4"})), failed("10.96.3.4", "provided IP is already allocated"));
    for ip in ["10.97.0.1", "10.96.0.0", "10.96.255.255"] {
        assert_eq!(refused(&cluster, json!({"clusterIP": ip})), failed(ip, outside), "{ip}");
    }
    let cidrs = "servicecidrs.networking.k8s.io";
    cluster.made(cidrs, json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.1.2.0/28", "fd00::/112"]}}));
    cluster.made("services", service("b", json!({"clusterIP": "10.1.2.5"})));
    cluster.delete(cidrs, "more", &DeleteOptions::default()).expect("on its way out");
    assert_eq!(refused(&cluster, json!({"clusterIP": "10.1.2.6"})), failed("10.1.2.6", outside));
    let repair = || now(cluster.registry.repair_allocations()).expect("repaired");
    cluster.clock.advance(60);
    repair();
    cluster.get(cidrs, "more").expect("an address of it is in use");
    delete(&cluster, "b");
    repair();
    assert!(matches!(cluster.get(cidrs, "more"), Err(ApiError::NotFound { .. })));
    let foreign = json!({"metadata": {"name": "10.96.0.62"}, "spec": {"parentRef": {"resource": "gateways", "name": "g"}}});
    cluster.made("ipaddresses.networking.k8s.io", foreign);
    assert_eq!(refused(&cluster, json!({"clusterIP": "10.96.0.62"})), failed("10.96.0.62", "provided IP is already allocated"));
    let message = cluster.merge("services", "a", json!({"spec": {"clusterIP": "10.96.9.9"}})).expect_err("refused").to_string();
    assert!(message.ends_with("spec.clusterIPs[0]: Invalid value: [\"10.96.9.9\"]: may not change once set"), "{message}");
    assert_eq!(cluster.merge("services", "a", json!({"spec": {"clusterIP": null}})).expect("kept")["spec"]["clusterIP"], "10.96.3.4");
}

#[test]
fn a_range_is_given_out_to_the_last_address() {
    let mut cluster = TestCluster::new();
    let ranges = ServiceRanges { cluster_ips: "10.0.0.0/29".parse().expect("a range"), node_ports: 30_000..=30_001 };
    cluster.registry = cluster.registry.clone().with_service_ranges(ranges);
    for number in 0..6 {
        cluster.made("services", service(&format!("s{number}"), json!({})));
    }
    assert_eq!(claimed(&cluster).len(), 6);
    assert_eq!(refused(&cluster, json!({})), "spec.clusterIPs: Internal error: failed to allocate a serviceIP: range is full");
    delete(&cluster, "s3");
    let ports = json!([{"port": 1, "name": "a"}, {"port": 2, "name": "b"}, {"port": 3, "name": "c"}]);
    let text = refused(&cluster, json!({"type": "NodePort", "ports": ports}));
    assert_eq!(text, "spec.ports[2].nodePort: Internal error: failed to allocate a nodePort: range is full");
    assert_eq!(claimed(&cluster).len(), 5, "what was claimed for it is free again");
    cluster.made("services", service("last", json!({"type": "NodePort"})));
}

#[test]
fn families_that_the_cluster_does_not_have_are_refused() {
    let cluster = TestCluster::new();
    for (spec, wanted) in [
        (json!({"clusterIP": "fd00::1"}), "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"),
        (json!({"ipFamilies": ["IPv6"]}), "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
            "[spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services, \
             spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster]",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
            "spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
    ] {
        assert_eq!(refused(&cluster, spec), wanted);
    }
    let headless = cluster.made("services", service("h", json!({"clusterIP": "None"})));
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");
    let preferring = cluster.made("services", service("p", json!({"ipFamilyPolicy": "PreferDualStack"})));
    assert_eq!(preferring["spec"]["ipFamilies"], json!(["IPv4"]));
}

fn node_ports(service: &Value) -> Vec<u64> {
    let ports = service["spec"]["ports"].as_array().expect("ports");
    ports.iter().map(|port| port["nodePort"].as_u64().unwrap_or(0)).collect()
}

#[test]
fn a_node_port_has_one_service() {
    let cluster = TestCluster::new();
    let fixed = |ports: &[i32]| {
        let ports: Vec<Value> =
            ports.iter().zip(80..).map(|(number, port)| json!({"name": format!("p{port}"), "port": port, "nodePort": number})).collect();
        json!({"type": "NodePort", "clusterIP": "10.96.7.7", "ports": ports})
    };
    cluster
        .made("services", service("a", json!({"type": "NodePort", "clusterIP": "10.96.1.1", "ports": [{"port": 80, "nodePort": 30123}]})));
    let taken =
        |index: u32, number: u32| format!("spec.ports[{index}].nodePort: Invalid value: {number}: provided port is already allocated");
    assert_eq!(refused(&cluster, fixed(&[30123])), taken(0, 30123));
    assert_eq!(refused(&cluster, fixed(&[30300, 30123])), taken(1, 30123));
    assert_eq!(refused(&cluster, fixed(&[30300, 30300])), taken(1, 30300));
    for number in [80, 65_536, -1] {
        let wanted = format!(
            "spec.ports[0].nodePort: Invalid value: {number}: provided port is not in the valid range. The range of valid ports is 30000-32767"
        );
        assert_eq!(refused(&cluster, fixed(&[number])), wanted);
    }
    assert_eq!(claimed(&cluster), ["10.96.1.1 default/a", "30123 default/a"], "what was refused holds nothing");
    let protocols = json!([{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]);
    let both = node_ports(&cluster.made("services", service("dns", json!({"type": "NodePort", "ports": protocols}))));
    assert!(both[0] == both[1] && (30_086..=32_767).contains(&both[0]), "{both:?}");
    delete(&cluster, "a");
    cluster.made("services", service("b", fixed(&[30123])));
}

#[test]
fn node_ports_follow_the_type_and_the_name_of_the_port() {
    let cluster = TestCluster::new();
    let spec = json!({"type": "NodePort", "clusterIP": "10.96.1.1", "ports": [{"port": 80, "name": "web", "nodePort": 30123}]});
    cluster.made("services", service("a", spec));
    let change = |spec: Value| cluster.merge("services", "a", json!({"spec": spec})).expect("changed");
    assert_eq!(node_ports(&change(json!({"ports": [{"port": 81, "name": "web"}]}))), [30123], "the same port under another number");
    let renamed = node_ports(&change(json!({"ports": [{"port": 81, "name": "other"}]})));
    assert_ne!(renamed, [30123]);
    assert_eq!(claimed(&cluster), ["10.96.1.1 default/a".to_owned(), format!("{} default/a", renamed[0])]);
    assert_eq!(node_ports(&change(json!({"type": "ClusterIP"}))), [0]);
    assert_eq!(claimed(&cluster), ["10.96.1.1 default/a"]);
    let none = change(json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}));
    assert_eq!((node_ports(&none), claimed(&cluster).len()), (vec![0], 1));
    let local = change(json!({"allocateLoadBalancerNodePorts": true, "externalTrafficPolicy": "Local"}));
    let health = local["spec"]["healthCheckNodePort"].as_u64().expect("a port for health checks");
    assert_eq!(claimed(&cluster).len(), 3);
    let other = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": health});
    let error = cluster.create("services", service("b", other)).expect_err("taken").to_string();
    assert_eq!(error, format!("failed to allocate requested HealthCheck NodePort {health}: provided port is already allocated"));
    let immutable = cluster.merge("services", "a", json!({"spec": {"healthCheckNodePort": 31999}})).expect_err("refused").to_string();
    assert!(immutable.ends_with("spec.healthCheckNodePort: Forbidden: field is immutable"), "{immutable}");
    let plain = change(json!({"type": "ClusterIP"}));
    let gone = ["healthCheckNodePort", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"];
    assert!(gone.iter().all(|field| plain["spec"][field].is_null()), "{plain}");
    assert_eq!(claimed(&cluster), ["10.96.1.1 default/a"]);
}

#[test]
fn a_dry_run_holds_nothing() {
    let cluster = TestCluster::new();
    cluster.made("services", service("a", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]})));
    let before = cluster.revision();
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    let tried = cluster.create_with("services", service("b", json!({"type": "NodePort"})), &dry).expect("tried");
    assert!(node_ports(&json_of(&tried.object))[0] >= 30_000);
    let taken = service("b", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}));
    assert!(cluster.create_with("services", taken, &dry).expect_err("taken").to_string().contains("already allocated"));
    assert_eq!(cluster.revision(), before);
    let ended = DeleteOptions { dry_run: vec!["All".to_owned()], ..DeleteOptions::default() };
    cluster.delete("services", "a", &ended).expect("tried");
    assert_eq!(cluster.revision(), before);
}

/// Creates the claim of a server that crashed before it stored the Service.
fn leave_claim(cluster: &TestCluster, port: u16, name: &str) {
    let claim = json!({"metadata": {"name": port.to_string()}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": name}}});
    let key = Key::new(&format!("/registry/ranges/servicenodeports/{port}"));
    now(cluster.store.put(key, claim.to_string().into(), Expected::Absent, Purpose::Growth)).expect("put");
}

#[test]
fn what_a_crash_leaves_behind_is_cleaned_up() {
    let cluster = TestCluster::new();
    leave_claim(&cluster, 30_500, "never-stored");
    cluster.made("services", service("a", json!({"clusterIP": "10.96.3.4"})));
    let repair = || now(cluster.registry.repair_allocations()).expect("repaired");
    assert_eq!(repair(), [Step::MarkUnused(Good::NodePort(30_500))]);
    assert_eq!(repair(), [Step::Release(Good::NodePort(30_500))]);
    assert_eq!(repair(), []);

    // A retry can use its own claim.
    leave_claim(&cluster, 30_501, "again");
    repair();
    cluster.made(
        "services",
        service("again", json!({"type": "NodePort", "clusterIP": "10.96.3.5", "ports": [{"port": 80, "nodePort": 30501}]})),
    );
    assert_eq!(repair(), []);

    let address = "10.96.3.4".parse().expect("an address");
    cluster.delete("ipaddresses.networking.k8s.io", "10.96.3.4", &DeleteOptions::default()).expect("deleted");
    assert!(matches!(&repair()[..], [Step::Claim(good, holder)] if *good == Good::Address(address) && holder.name == "a"));
    assert_eq!(claimed(&cluster), ["10.96.3.4 default/a", "10.96.3.5 default/again", "30501 default/again"]);
}

#[test]
fn the_service_kubernetes_is_what_tools_wait_for() {
    let cluster = TestCluster::new();
    let publish = |address: Option<&str>, port: u16| {
        let address = address.map(|address| address.parse().expect("an address"));
        now(cluster.registry.publish_server(ServerAddress { address, port })).expect("published");
    };
    let slices = "endpointslices.discovery.k8s.io";
    publish(Some("192.0.2.7"), 6443);
    let found = cluster.get("services", "kubernetes").expect("there");
    assert_eq!(found["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(
        found["spec"],
        json!({"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None", "type": "ClusterIP"})
    );
    let slice = cluster.get(slices, "kubernetes").expect("there");
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}]));
    assert_eq!((&slice["addressType"], &slice["metadata"]["generation"]), (&json!("IPv4"), &json!(1)));
    let endpoints = cluster.get("endpoints", "kubernetes").expect("there");
    assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    let port = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": port}]));
    assert_eq!(cluster.get("servicecidrs.networking.k8s.io", "kubernetes").expect("there")["spec"], json!({"cidrs": ["10.96.0.0/16"]}));
    assert_eq!(claimed(&cluster), ["10.96.0.1 default/kubernetes"]);

    let before = cluster.revision();
    publish(Some("192.0.2.7"), 6443);
    assert_eq!(cluster.revision(), before, "nothing is written that is there");
    publish(Some("192.0.2.8"), 7443);
    assert_eq!(cluster.get("services", "kubernetes").expect("there")["spec"]["ports"][0]["targetPort"], 7443);
    assert_eq!(cluster.get(slices, "kubernetes").expect("there")["ports"][0]["port"], 7443);
    assert_eq!(cluster.get("endpoints", "kubernetes").expect("there")["subsets"][0]["addresses"][0]["ip"], "192.0.2.8");
    delete(&cluster, "kubernetes");
    publish(None, 7443);
    assert_eq!(cluster.get("services", "kubernetes").expect("there again")["spec"]["clusterIP"], "10.96.0.1");
    for resource in [slices, "endpoints"] {
        assert!(matches!(cluster.get(resource, "kubernetes"), Err(ApiError::NotFound { .. })), "no address, no {resource}");
    }
}

#[test]
fn ranges_and_addresses_are_validated() {
    let cluster = TestCluster::new();
    let cidr = |cidrs: Value| {
        let object = json!({"metadata": {"name": "n"}, "spec": {"cidrs": cidrs}});
        let error = cluster.create("servicecidrs.networking.k8s.io", object).expect_err("refused").to_string();
        error.replace("ServiceCIDR.networking.k8s.io \"n\" is invalid: ", "")
    };
    assert_eq!(cidr(json!([])), "spec.cidrs: Required value: at least one CIDR required");
    assert_eq!(
        cidr(json!(["10.1.3.7/24"])),
        "spec.cidrs[0]: Invalid value: \"10.1.3.7/24\": must not have bits set beyond the prefix length"
    );
    let two = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
    assert_eq!(cidr(json!(["10.1.3.0/24", "10.1.4.0/24"])), format!("spec.cidrs: Invalid value: [\"10.1.3.0/24\",\"10.1.4.0/24\"]: {two}"));
    cluster.made("servicecidrs.networking.k8s.io", json!({"metadata": {"name": "n"}, "spec": {"cidrs": ["10.1.3.0/24"]}}));
    let patch = |cidrs: Value| cluster.merge("servicecidrs.networking.k8s.io", "n", json!({"spec": {"cidrs": cidrs}}));
    let error = patch(json!(["10.1.3.0/25"])).expect_err("refused").to_string();
    assert!(error.ends_with("spec.cidrs[0]: Invalid value: \"10.1.3.0/25\": field is immutable"), "{error}");
    patch(json!(["10.1.3.0/24", "fd01::/112"])).expect("one of the other family");

    let address = |name: &str, parent: Value| {
        let object = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
        let error = cluster.create("ipaddresses.networking.k8s.io", object).expect_err("refused").to_string();
        error.replace(&format!("IPAddress.networking.k8s.io \"{name}\" is invalid: "), "")
    };
    let parent = json!({"resource": "services", "name": "x"});
    assert_eq!(address("010.0.0.1", parent.clone()), "metadata.name: Invalid value: \"010.0.0.1\": must not have leading 0s");
    assert_eq!(address("fd00:0::1", parent), "metadata.name: Invalid value: \"fd00:0::1\": must be in canonical form (\"fd00::1\")");
    assert_eq!(address("10.0.0.1", json!({"resource": "", "name": ""})), "spec.parentRef: Required value");
    assert_eq!(address("10.0.0.1", json!({"resource": "services", "name": ""})), "spec.parentRef.name: Required value");
}
