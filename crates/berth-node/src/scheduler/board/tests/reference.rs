//! Compares the board's decisions with a check of each rule that is written in the simplest way: it reads all pods and nodes each time.

use super::*;
use serde_json::Value;

/// A generator of small numbers. A seed determines all of them.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[usize::try_from(self.below(texts.len() as u64)).expect("small")]
    }
}

const KEYS: [&str; 2] = ["kubernetes.io/hostname", "zone"];
const APPS: [&str; 2] = ["p", "q"];

fn random_node(random: &mut Random, name: &str) -> Value {
    let mut labels = json!({"kubernetes.io/hostname": name});
    if !random.one_in(5) {
        labels["zone"] = json!(random.one_of(&["x", "y", "z"]));
    }
    let taints = if random.one_in(5) { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!(null) };
    let allocatable = json!({"cpu": (2 + random.below(4)).to_string(), "pods": "5"});
    let metadata = json!({"name": name, "labels": labels});
    json!({"metadata": metadata, "spec": {"taints": taints, "unschedulable": random.one_in(10)}, "status": {"allocatable": allocatable}})
}

fn random_term(random: &mut Random) -> Value {
    json!({"topologyKey": random.one_of(&KEYS), "labelSelector": {"matchLabels": {"app": random.one_of(&APPS)}}})
}

fn random_pod(random: &mut Random, name: &str) -> Value {
    let mut spec = json!({"containers": [{"resources": {"requests": {"cpu": random.below(3).to_string()}}}]});
    if random.one_in(4) {
        spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    }
    if random.one_in(4) {
        spec["nodeSelector"] = json!({"zone": random.one_of(&["x", "y"])});
    }
    if random.one_in(6) {
        spec["containers"][0]["ports"] = json!([{"hostPort": 80, "protocol": random.one_of(&["TCP", "UDP"])}]);
    }
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    if random.one_in(4) {
        let operator = random.one_of(&["In", "NotIn"]);
        let zone = json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": [random.one_of(&["x", "y"])]}]});
        spec["affinity"]["nodeAffinity"] = required(json!({"nodeSelectorTerms": [zone]}));
    }
    if random.one_in(4) {
        let terms: Vec<Value> = (0..=random.below(2)).map(|_| random_term(random)).collect();
        spec["affinity"]["podAffinity"] = required(json!(terms));
    }
    if random.one_in(4) {
        spec["affinity"]["podAntiAffinity"] = required(json!([random_term(random)]));
    }
    if random.one_in(4) {
        let policy = random.one_of(&["Honor", "Ignore"]);
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1 + random.below(2), "topologyKey": random.one_of(&KEYS), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": random.one_of(&APPS)}}, "nodeTaintsPolicy": policy, "minDomains": 1 + random.below(2),
        }]);
    }
    json!({"metadata": {"name": name, "uid": name, "namespace": "ns", "labels": {"app": random.one_of(&APPS)}}, "spec": spec})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn selects(term: &Value, pod: &Value) -> bool {
    term["labelSelector"]["matchLabels"]["app"] == pod["metadata"]["labels"]["app"]
}

/// The part of the cluster that a node is in, by the key of a term.
fn part<'a>(node: &'a Value, term: &Value) -> Option<&'a Value> {
    node["metadata"]["labels"].get(term["topologyKey"].as_str().expect("a key"))
}

fn required<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    &pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"]
}

fn tolerates(pod: &Value, node: &Value) -> bool {
    list(&node["spec"]["taints"]).is_empty() || !list(&pod["spec"]["tolerations"]).is_empty()
}

fn is_selected(pod: &Value, node: &Value) -> bool {
    let zone = node["metadata"]["labels"].get("zone");
    let selector = pod["spec"]["nodeSelector"].get("zone");
    let terms = list(&required(pod, "nodeAffinity")["nodeSelectorTerms"]);
    let matches = |term: &Value| {
        let expression = &term["matchExpressions"][0];
        (zone == Some(&expression["values"][0])) == (expression["operator"] == "In")
    };
    selector.is_none_or(|wanted| zone == Some(wanted)) && (terms.is_empty() || terms.iter().any(matches))
}

fn has_room(pod: &Value, node: &Value, placed: &[(Value, Value)]) -> bool {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).expect("a number");
    let cpu = |pod: &Value| number(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]);
    let here: Vec<&Value> = placed.iter().filter(|(_, other)| other == node).map(|(pod, _)| pod).collect();
    let has = &node["status"]["allocatable"];
    let wanted = cpu(pod);
    let used: u64 = here.iter().map(|pod| cpu(pod)).sum();
    let port = &pod["spec"]["containers"][0]["ports"];
    (wanted == 0 || used + wanted <= number(&has["cpu"]))
        && here.len() < 5
        && (port.is_null() || here.iter().all(|other| other["spec"]["containers"][0]["ports"] != *port))
}

fn is_spread(pod: &Value, node: &Value, placed: &[(Value, Value)], nodes: &[Value]) -> bool {
    list(&pod["spec"]["topologySpreadConstraints"]).iter().all(|constraint| {
        let honors_taints = constraint["nodeTaintsPolicy"] == "Honor";
        let counted =
            |node: &&Value| is_selected(pod, node) && (!honors_taints || tolerates(pod, node)) && part(node, constraint).is_some();
        let Some(own) = part(node, constraint) else { return false };
        let count = |wanted: &Value| {
            let there = placed.iter().filter(|(_, node)| counted(&node) && part(node, constraint) == Some(wanted));
            there.filter(|(other, _)| selects(constraint, other)).count()
        };
        let parts: Vec<&Value> = nodes.iter().filter(counted).filter_map(|node| part(node, constraint)).collect();
        let different: BTreeSet<String> = parts.iter().map(ToString::to_string).collect();
        let too_few = (different.len() as u64) < constraint["minDomains"].as_u64().expect("a number");
        let fewest = if too_few { 0 } else { parts.iter().map(|part| count(part)).min().unwrap_or(0) };
        let own_count = count(own) + usize::from(selects(constraint, pod));
        own_count.saturating_sub(fewest) as u64 <= constraint["maxSkew"].as_u64().expect("a number")
    })
}

fn is_beside_the_right_pods(pod: &Value, node: &Value, placed: &[(Value, Value)]) -> bool {
    let affinity = list(required(pod, "podAffinity"));
    let meets_all = |other: &Value| affinity.iter().all(|term| selects(term, other));
    let is_met = |term: &Value| placed.iter().any(|(other, there)| meets_all(other) && part(there, term) == part(node, term));
    let has_labels = affinity.iter().all(|term| part(node, term).is_some());
    let no_such_pod = placed.iter().all(|(other, there)| !meets_all(other) || affinity.iter().all(|term| part(there, term).is_none()));
    let is_first = no_such_pod && meets_all(pod);
    let keeps_away = list(required(pod, "podAntiAffinity")).iter().all(|term| {
        part(node, term).is_none() || !placed.iter().any(|(other, there)| selects(term, other) && part(there, term) == part(node, term))
    });
    let is_welcome = placed.iter().all(|(other, there)| {
        let mut terms = list(required(other, "podAntiAffinity")).iter();
        terms.all(|term| part(node, term).is_none() || !selects(term, pod) || part(there, term) != part(node, term))
    });
    has_labels && (affinity.iter().all(is_met) || is_first) && keeps_away && is_welcome
}

fn may_be_on(pod: &Value, node: &Value, placed: &[(Value, Value)], nodes: &[Value]) -> bool {
    node["spec"]["unschedulable"] != true
        && tolerates(pod, node)
        && is_selected(pod, node)
        && has_room(pod, node, placed)
        && is_spread(pod, node, placed, nodes)
        && is_beside_the_right_pods(pod, node, placed)
}

fn decode<V: View>(object: &Value) -> Arc<V> {
    Arc::new(V::decode(object.to_string().as_bytes(), Revision(1)).expect("valid"))
}

#[test]
fn a_pod_has_a_node_exactly_if_one_meets_all_its_requirements() {
    let (mut placements, mut failures) = (0, 0);
    for seed in 1..=400_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        (0..8).for_each(|_| _ = random.below(2));
        let mut nodes: Vec<Value> = (0..5).map(|n| random_node(&mut random, &format!("n-{n}"))).collect();
        // Pods with their nodes.
        let mut placed: Vec<(Value, Value)> = Vec::new();
        let mut pods: BTreeMap<String, Value> = BTreeMap::new();
        let mut board = Board::default();
        nodes.iter().for_each(|node| board.set_node(decode(node)));
        for step in 0..24 {
            match random.below(8) {
                0 if !placed.is_empty() => {
                    let index = usize::try_from(random.below(placed.len() as u64)).expect("small");
                    let (pod, _) = placed.remove(index);
                    board.remove_pod(&decode::<PodInfo>(&pod));
                }
                1 => {
                    let index = usize::try_from(random.below(5)).expect("small");
                    let mut node = random_node(&mut random, &format!("n-{index}"));
                    // A node does not shrink below its pods.
                    node["status"] = nodes[index]["status"].clone();
                    board.set_node(decode(&node));
                    placed.iter_mut().filter(|(_, old)| *old == nodes[index]).for_each(|(_, old)| *old = node.clone());
                    nodes[index] = node;
                }
                _ => {
                    let pod = random_pod(&mut random, &format!("pod-{step:02}"));
                    board.set_pod(decode(&pod));
                    pods.insert(format!("pod-{step:02}"), pod);
                }
            }
            for placement in board.decide(usize::MAX) {
                let pod = pods[placement.pod().name.as_str()].clone();
                let fitting: Vec<&Value> = nodes.iter().filter(|node| may_be_on(&pod, node, &placed, &nodes)).collect();
                match &placement {
                    Placement::Node(_, chosen) => {
                        let chosen = fitting.iter().find(|node| node["metadata"]["name"] == *chosen);
                        let node = (**chosen.unwrap_or_else(|| panic!("seed {seed}, step {step}: {placement:?} of {fitting:?}"))).clone();
                        placed.push((pod, node));
                        placements += 1;
                    }
                    _ => {
                        assert!(fitting.is_empty(), "seed {seed}, step {step}: {placement:?}, but {fitting:?} can take {pod}");
                        failures += 1;
                    }
                }
            }
            board.check().unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        }
    }
    assert!(placements > 2000 && failures > 500, "{placements} placements and {failures} failures say little");
}
