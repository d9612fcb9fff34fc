//! NetworkPolicy: which traffic pods may have. No traffic flows: policies are kept for those who wrote them.

use super::values::{LABEL_SELECTOR_TYPES, list, native, selector, shown_selector, text};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, Path, Scope, Subresource,
    faults::Faults,
    ip::{Cidr, check_network, network_warning},
    label_selector::validate_label_selector,
    pod::check_port_name,
};
use serde_json::{Value, json};
use std::sync::Arc;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const POLICY_TYPES: &[&str] = &["Ingress", "Egress"];
/// The two directions, and what their rules call the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// The definition of the kind.
#[must_use]
pub fn network_policy() -> Definition {
    let shown = Cell::Computed(|policy| json!(shown_selector(&policy.members()["spec"], "podSelector")));
    let pods = Column { cell: shown, ..Column::text("Pod-Selector", "Which pods it is about.") };
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), pods, Column::age()], ..Version::default() };
    let names = Names { short_names: vec!["netpol".to_owned()], ..Names::of("NetworkPolicy", "networkpolicies") };
    Definition {
        empty: json!({"metadata": {}, "spec": {"podSelector": {}}}),
        strategy: Some(Arc::new(Policies)),
        ..native::<k8s_openapi::api::networking::v1::NetworkPolicy>(
            "networking.k8s.io",
            names,
            Scope::Namespaced,
            version,
            &[TYPES, LABEL_SELECTOR_TYPES],
        )
    }
}

struct Policies;

impl Strategy for Policies {
    fn default(&self, policy: &mut Content) {
        let Some(Value::Object(spec)) = policy.members_mut().get_mut("spec") else { return };
        for (direction, _) in DIRECTIONS {
            let rules = spec.get_mut(direction).and_then(Value::as_array_mut).into_iter().flatten();
            let ports = rules.filter_map(|rule| rule.get_mut("ports")?.as_array_mut()).flatten();
            for port in ports.filter(|port| text(port, "protocol").is_empty()) {
                port["protocol"] = json!("TCP");
            }
        }
        if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let has_egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            spec.insert("policyTypes".to_owned(), if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
        }
    }

    fn validate(&self, policy: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_policy(&policy.members()["spec"], &[], &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, policy: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_policy(&policy.members()["spec"], &ranges(&old.members()["spec"]), &mut faults);
        faults.into_vec()
    }

    fn warnings(&self, policy: &Content, _: Option<&Content>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (path, block) in blocks(&policy.members()["spec"]) {
            warnings.extend(network_warning(&path.child("cidr"), text(block, "cidr")));
            let except = list(block, "except").iter().enumerate();
            let except = except.filter_map(|(index, range)| network_warning(&path.child("except").index(index), range.as_str()?));
            warnings.extend(except);
        }
        warnings
    }
}

/// All peers of a policy's rules, with their paths.
fn peers(spec: &Value) -> impl Iterator<Item = (Path, &Value)> {
    DIRECTIONS.into_iter().flat_map(move |(direction, side)| {
        list(spec, direction).iter().enumerate().flat_map(move |(rule_index, rule)| {
            let path = Path::new("spec").child(direction).index(rule_index).child(side);
            list(rule, side).iter().enumerate().map(move |(index, peer)| (path.index(index), peer))
        })
    })
}

/// All ranges of addresses of a policy, each with what it leaves out.
fn blocks(spec: &Value) -> impl Iterator<Item = (Path, &Value)> {
    peers(spec).filter_map(|(path, peer)| Some((path.child("ipBlock"), peer.get("ipBlock")?)))
}

/// All ranges of addresses of a policy.
fn ranges(spec: &Value) -> Vec<String> {
    let of_block = |(_, block): (Path, &Value)| {
        let except = list(block, "except").iter().filter_map(Value::as_str);
        std::iter::once(text(block, "cidr")).chain(except).map(str::to_owned).collect::<Vec<_>>()
    };
    blocks(spec).flat_map(of_block).collect()
}

/// Ranges that are `old` may be in forms that new ones may not have.
fn validate_policy(spec: &Value, old: &[String], faults: &mut Faults) {
    let path = Path::new("spec");
    if let Some(pods) = selector(spec, "podSelector") {
        faults.add(validate_label_selector(&pods, &path.child("podSelector")));
    }
    for (direction, side) in DIRECTIONS {
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(index);
            for (index, port) in list(rule, "ports").iter().enumerate() {
                validate_port(port, &path.child("ports").index(index), faults);
            }
            for (index, peer) in list(rule, side).iter().enumerate() {
                validate_peer(peer, old, &path.child(side).index(index), faults);
            }
        }
    }
    let (types, path) = (list(spec, "policyTypes"), path.child("policyTypes"));
    if types.len() > POLICY_TYPES.len() {
        faults.invalid(&path, json!(types), "may not specify more than two policyTypes");
        return;
    }
    for (index, policy_type) in types.iter().enumerate() {
        faults.known(&path.index(index), policy_type.as_str().unwrap_or_default(), POLICY_TYPES);
    }
}

fn validate_port(port: &Value, path: &Path, faults: &mut Faults) {
    let protocol = text(port, "protocol");
    if !protocol.is_empty() {
        faults.one_of(&path.child("protocol"), protocol, PROTOCOLS);
    }
    let number = |name: &str| port.get(name).and_then(Value::as_i64).map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    match (port.get("port"), number("port"), number("endPort")) {
        (Some(_), Some(first), last) => {
            faults.port(&path.child("port"), first);
            if let Some(last) = last {
                if last < first {
                    // Upstream shows the port here.
                    faults.invalid(&path.child("endPort"), first, "must be greater than or equal to `port`");
                }
                faults.port(&path.child("endPort"), last);
            }
        }
        (Some(name), None, last) => {
            if let Some(last) = last {
                faults.invalid(&path.child("endPort"), last, "may not be specified when `port` is non-numeric");
            }
            faults.form(&path.child("port"), name.as_str().unwrap_or_default(), check_port_name);
        }
        (None, _, Some(last)) => faults.invalid(&path.child("endPort"), last, "may not be specified when `port` is not specified"),
        (None, _, None) => (),
    }
}

fn validate_peer(peer: &Value, old: &[String], path: &Path, faults: &mut Faults) {
    let selectors = ["podSelector", "namespaceSelector"].map(|field| (field, selector(peer, field)));
    let is_selector_set = selectors.iter().any(|(_, selector)| selector.is_some());
    for (field, selector) in selectors {
        faults.add(selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child(field))));
    }
    match peer.get("ipBlock") {
        Some(block) => {
            validate_block(block, old, &path.child("ipBlock"), faults);
            if is_selector_set {
                faults.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
        None if !is_selector_set => faults.required(path, "must specify a peer"),
        None => (),
    }
}

fn validate_block(block: &Value, old: &[String], path: &Path, faults: &mut Faults) {
    let range = text(block, "cidr");
    if !faults.set(&path.child("cidr"), range) {
        return;
    }
    faults.new_form(&path.child("cidr"), range, old, check_network);
    let Ok(whole) = range.parse::<Cidr>() else { return };
    for (index, except) in list(block, "except").iter().enumerate() {
        let (path, except) = (path.child("except").index(index), except.as_str().unwrap_or_default());
        faults.new_form(&path, except, old, check_network);
        if except.parse().is_ok_and(|part| !whole.strictly_holds(&part)) {
            faults.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.networking.v1.NetworkPolicy": {
    "properties": {
      "apiVersion": {
        "type": "string"
      },
      "kind": {
        "type": "string"
      },
      "metadata": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
          }
        ],
        "default": {}
      },
      "spec": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicySpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "networking.k8s.io",
        "kind": "NetworkPolicy",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.networking.v1.NetworkPolicySpec": {
    "properties": {
      "egress": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyEgressRule"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "ingress": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyIngressRule"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "podSelector": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
          }
        ],
        "x-berth-always": true
      },
      "policyTypes": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.NetworkPolicyEgressRule": {
    "properties": {
      "ports": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyPort"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "to": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyPeer"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.NetworkPolicyPort": {
    "properties": {
      "endPort": {
        "format": "int32",
        "type": "integer"
      },
      "port": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"
          }
        ]
      },
      "protocol": {
        "type": "string"
      }
    },
    "type": "object"
  },
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
    "oneOf": [
      {
        "type": "string"
      },
      {
        "type": "number"
      }
    ]
  },
  "io.k8s.api.networking.v1.NetworkPolicyPeer": {
    "properties": {
      "ipBlock": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IPBlock"
          }
        ]
      },
      "namespaceSelector": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
          }
        ]
      },
      "podSelector": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
          }
        ]
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IPBlock": {
    "properties": {
      "cidr": {
        "default": "",
        "type": "string"
      },
      "except": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "required": [
      "cidr"
    ],
    "type": "object"
  },
  "io.k8s.api.networking.v1.NetworkPolicyIngressRule": {
    "properties": {
      "from": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyPeer"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "ports": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyPort"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  }
}"##;
