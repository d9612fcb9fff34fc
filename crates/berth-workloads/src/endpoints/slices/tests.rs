use super::*;
use crate::{endpoints::view::NamedPort, read_back::read_back, view::View};
use berth_identity::Revision;
use proptest::prelude::*;
use serde_json::{Value, json};

fn service(spec: &Value) -> ServiceView {
    let mut service = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "s", "labels": {"x": "y"}},
        "spec": {"selector": {"app": "web"}, "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]}});
    for (key, value) in spec.as_object().expect("a spec") {
        service["spec"][key] = value.clone();
    }
    ServiceView::decode(service.to_string().as_bytes(), Revision(3)).expect("a Service")
}

fn pod(number: usize, http: i32) -> EndpointPodView {
    EndpointPodView {
        namespace: "ns".into(),
        name: format!("p{number:04}").into(),
        uid: format!("u{number:04}").into(),
        addresses: vec![format!("10.64.{}.{}", number / 200, number % 200 + 1).parse().expect("an address")],
        node_name: "n1".into(),
        is_ready: true,
        ports: vec![NamedPort { name: "http".to_owned(), protocol: "TCP".to_owned(), number: http }],
        ..EndpointPodView::default()
    }
}

/// The stored slices, to which plans are applied.
struct SliceModel {
    service: ServiceView,
    slices: BTreeMap<String, SliceView>,
    writes: usize,
}

impl SliceModel {
    fn new(spec: &Value) -> Self {
        Self { service: service(spec), slices: BTreeMap::new(), writes: 0 }
    }

    /// Plans and executes; returns how many objects were written.
    fn sync(&mut self, pods: &[EndpointPodView]) -> usize {
        let zones = [("n1".to_owned(), "z1".to_owned())].into();
        let state =
            EndpointSliceState { service: &self.service, pods: pods.iter().collect(), slices: self.slices.values().collect(), zones };
        let actions: Vec<Action> = read_back(plan(&state)).stages.into_iter().flat_map(|stage| stage.actions).collect();
        let count = actions.len();
        self.writes += count;
        for action in actions {
            match action {
                Action::Create { object, .. } => self.put(object.as_object().to_value()),
                Action::Patch { target, patch, .. } => {
                    let before = serde_json::to_value(&self.slices[&*target.key.name].slice).expect("JSON");
                    self.put(merged(before, patch));
                }
                Action::Delete { target, .. } => drop(self.slices.remove(&*target.key.name).expect("it is there")),
                other => panic!("{other:?}"),
            }
        }
        count
    }

    fn put(&mut self, object: Value) {
        let slice = SliceView::decode(object.to_string().as_bytes(), Revision(1)).expect("a slice");
        self.slices.insert(slice.slice.metadata.name.clone().expect("a name"), slice);
    }

    /// `ports: pods` of each slice that has some, in order.
    fn shown(&self) -> Vec<String> {
        let name = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|pod| pod.name.clone()).expect("a pod");
        let line = |slice: &SliceView| {
            let ports: Vec<String> = ports_of(&slice.slice).iter().map(|port| port.port.to_string()).collect();
            let pods: Vec<String> = slice.slice.endpoints.iter().flatten().map(name).collect();
            format!("{}: {}", ports.join(","), pods.join(","))
        };
        let mut lines: Vec<String> = self.slices.values().map(line).collect();
        lines.sort();
        lines
    }
}

fn merged(mut target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(&key);
        } else {
            let old = target[&key].take();
            target[&key] = merged(if old.is_null() { json!({}) } else { old }, value);
        }
    }
    target
}

#[test]
fn a_slice_is_what_upstream_makes() {
    let mut model = SliceModel::new(&json!({"clusterIP": "None", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}));
    let mut governed = pod(1, 0);
    (governed.hostname, governed.subdomain) = ("h1".to_owned(), "web".to_owned());
    model.sync(&[governed]);
    let slice = serde_json::to_value(&model.slices.values().next().expect("one").slice).expect("JSON");
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s", "controller": true, "blockOwnerDeletion": true});
    assert_eq!(slice["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io", "kubernetes.io/service-name": "web",
            "service.kubernetes.io/headless": "", "x": "y"})
    );
    assert_eq!((&slice["metadata"]["namespace"], &slice["metadata"]["generateName"]), (&json!("ns"), &json!("web-")));
    assert_eq!(slice["metadata"]["name"], "web-6b9f7bf6bc", "other versions of berth know it again");
    assert_eq!((&slice["addressType"], &slice["ports"]), (&json!("IPv4"), &json!([{"name": "", "port": 8080, "protocol": "TCP"}])));
    assert_eq!(
        slice["endpoints"],
        json!([{"addresses": ["10.64.0.2"], "conditions": {"ready": true, "serving": true, "terminating": false}, "hostname": "h1",
            "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p0001", "uid": "u0001"}, "zone": "z1"}])
    );
}

#[test]
fn conditions_follow_the_pod() {
    let check = |spec: Value, is_ready, is_terminating, wanted: [bool; 3]| {
        let service = service(&spec);
        let pod = EndpointPodView { is_ready, is_terminating, ..pod(1, 1) };
        let state = EndpointSliceState { service: &service, pods: Vec::new(), slices: Vec::new(), zones: BTreeMap::new() };
        let conditions = endpoint(&state, &pod, String::new()).conditions.expect("conditions");
        assert_eq!([conditions.ready, conditions.serving, conditions.terminating], wanted.map(Some), "{spec} {is_ready} {is_terminating}");
    };
    let published = json!({"publishNotReadyAddresses": true});
    check(json!({}), true, false, [true, true, false]);
    check(json!({}), false, false, [false, false, false]);
    check(json!({}), true, true, [false, true, true]);
    check(published.clone(), false, false, [true, false, false]);
    check(published, true, true, [true, true, true]);
}

#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let mut model = SliceModel::new(&json!({}));
    assert_eq!(model.sync(&[]), 1);
    assert_eq!((model.shown(), model.sync(&[])), (vec![": ".to_owned()], 0));
    model.sync(&[pod(1, 8080)]);
    assert_eq!(model.shown(), ["8080: p0001"]);
    assert_eq!(model.sync(&[]), 1, "the slice that is there says that there is nothing");
    assert_eq!((model.shown(), model.sync(&[])), (vec![": ".to_owned()], 0));
    model.service.selector = None;
    assert_eq!(model.sync(&[pod(1, 8080)]), 0, "the client that removed the selector writes the endpoints");
}

#[test]
fn pods_with_other_ports_are_in_other_slices() {
    let mut model = SliceModel::new(&json!({}));
    let pods = [pod(1, 8080), pod(2, 8081), pod(3, 8080)];
    model.sync(&pods);
    assert_eq!(model.shown(), ["8080: p0001,p0003", "8081: p0002"]);
    assert_eq!(model.sync(&pods), 0);
}

#[test]
fn an_endpoint_stays_where_it_is() {
    let mut model = SliceModel::new(&json!({}));
    let mut pods: Vec<EndpointPodView> = (0..250).map(|number| pod(number, 80)).collect();
    assert_eq!(model.sync(&pods), 3);
    pods.remove(5);
    assert_eq!(model.sync(&pods), 1, "one slice loses one");
    pods.push(pod(300, 80));
    assert_eq!(model.sync(&pods), 1, "and has room for one");
    pods[100].is_ready = false;
    pods.push(pod(301, 80));
    assert_eq!(model.sync(&pods), 2, "one changes, another has room");
    let ten_more = 302..312;
    pods.retain(|pod| pod.name != "p0020");
    pods.extend(ten_more.map(|number| pod(number, 80)));
    model.sync(&pods);
    assert_eq!(model.slices.len(), 3);
}

#[test]
fn a_new_endpoint_goes_where_something_is_written_anyhow_and_else_where_there_is_least_room() {
    let mut model = SliceModel::new(&json!({}));
    let mut pods: Vec<EndpointPodView> = (0..250).map(|number| pod(number, 80)).collect();
    model.sync(&pods);
    pods.remove(5);
    model.sync(&pods);
    let sizes = |model: &SliceModel| {
        let mut sizes: Vec<usize> = model.slices.values().map(|slice| slice.slice.endpoints.as_ref().map_or(0, Vec::len)).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&model), [50, 99, 100]);
    pods[248].is_ready = false;
    pods.push(pod(300, 80));
    assert_eq!((model.sync(&pods), sizes(&model)), (1, vec![51, 99, 100]), "beside the one that is no longer ready");
    pods.push(pod(301, 80));
    assert_eq!((model.sync(&pods), sizes(&model)), (1, vec![51, 100, 100]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever changes, after a reconcile every pod is in one slice with its ports, no slice is too full, and a second reconcile writes
    /// nothing.
    #[test]
    fn every_pod_is_in_one_slice(steps in proptest::collection::vec((0usize..260, 0usize..260, 80i32..83), 1..12)) {
        let mut model = SliceModel::new(&json!({}));
        let mut pods: BTreeMap<usize, EndpointPodView> = BTreeMap::new();
        for (from, count, port) in steps {
            for number in from..from + count / 2 {
                pods.insert(number, pod(number, port));
            }
            let gone: Vec<usize> = pods.keys().copied().skip(count).collect();
            gone.iter().for_each(|number| drop(pods.remove(number)));
            let all: Vec<EndpointPodView> = pods.values().cloned().collect();
            model.sync(&all);
            let mut found = BTreeMap::new();
            for slice in model.slices.values() {
                let endpoints = slice.slice.endpoints.clone().unwrap_or_default();
                prop_assert!(endpoints.len() <= SLICE_MAX);
                prop_assert!(!endpoints.is_empty() || model.slices.len() == 1);
                let ports: Vec<i32> = ports_of(&slice.slice).iter().map(|port| port.port).collect();
                for endpoint in &endpoints {
                    prop_assert!(found.insert(uid_of(endpoint).expect("a pod").to_owned(), ports.clone()).is_none());
                }
            }
            let wanted: BTreeMap<String, Vec<i32>> = all.iter().map(|pod| (pod.uid.to_string(), vec![pod.ports[0].number])).collect();
            prop_assert_eq!(found, wanted);
            prop_assert_eq!(model.sync(&all), 0);
        }
    }
}
