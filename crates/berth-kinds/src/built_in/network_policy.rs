//! NetworkPolicy: which traffic pods may have. No traffic flows: policies are kept for those who wrote them.

use super::values::{list, native, selector, shown_selector, text};
use crate::{Cell, Column, Content, Definition, Names, ObjectRules, Strategy, Version};
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
        rules: ObjectRules { empty: json!({"metadata": {}, "spec": {"podSelector": {}}}), ..super::rules() },
        strategy: Some(Arc::new(Policies)),
        ..native("networking.k8s.io", names, Scope::Namespaced, version, TYPES)
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

/// Its types as OpenAPI publishes them. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.networking.v1.NetworkPolicy": {
    "description": "NetworkPolicy describes what network traffic is allowed for a set of Pods",
    "properties": {
      "apiVersion": {
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        "type": "string"
      },
      "kind": {
        "description": "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        "type": "string"
      },
      "metadata": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
          }
        ],
        "default": {},
        "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
      },
      "spec": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicySpec"
          }
        ],
        "default": {},
        "description": "spec represents the specification of the desired behavior for this NetworkPolicy.",
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
    "description": "NetworkPolicySpec provides the specification of a NetworkPolicy",
    "properties": {
      "egress": {
        "description": "egress is a list of egress rules to be applied to the selected pods. Outgoing traffic is allowed if there are no NetworkPolicies selecting the pod (and cluster policy otherwise allows the traffic), OR if the traffic matches at least one egress rule across all of the NetworkPolicy objects whose podSelector matches the pod. If this field is empty then this NetworkPolicy limits all outgoing traffic (and serves solely to ensure that the pods it selects are isolated by default). This field is beta-level in 1.8",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyEgressRule"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "ingress": {
        "description": "ingress is a list of ingress rules to be applied to the selected pods. Traffic is allowed to a pod if there are no NetworkPolicies selecting the pod (and cluster policy otherwise allows the traffic), OR if the traffic source is the pod's local node, OR if the traffic matches at least one ingress rule across all of the NetworkPolicy objects whose podSelector matches the pod. If this field is empty then this NetworkPolicy does not allow any traffic (and serves solely to ensure that the pods it selects are isolated by default)",
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
        "description": "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
        "x-berth-always": true
      },
      "policyTypes": {
        "description": "policyTypes is a list of rule types that the NetworkPolicy relates to. Valid options are [\"Ingress\"], [\"Egress\"], or [\"Ingress\", \"Egress\"]. If this field is not specified, it will default based on the existence of ingress or egress rules; policies that contain an egress section are assumed to affect egress, and all policies (whether or not they contain an ingress section) are assumed to affect ingress. If you want to write an egress-only policy, you must explicitly specify policyTypes [ \"Egress\" ]. Likewise, if you want to write a policy that specifies that no egress is allowed, you must specify a policyTypes value that include \"Egress\" (since such a policy would not include an egress section and would otherwise default to just [ \"Ingress\" ]). This field is beta-level in 1.8",
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
    "description": "NetworkPolicyEgressRule describes a particular set of traffic that is allowed out of pods matched by a NetworkPolicySpec's podSelector. The traffic must match both ports and to. This type is beta-level in 1.8",
    "properties": {
      "ports": {
        "description": "ports is a list of destination ports for outgoing traffic. Each item in this list is combined using a logical OR. If this field is empty or missing, this rule matches all ports (traffic not restricted by port). If this field is present and contains at least one item, then this rule allows traffic only if the traffic matches at least one port in the list.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyPort"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "to": {
        "description": "to is a list of destinations for outgoing traffic of pods selected for this rule. Items in this list are combined using a logical OR operation. If this field is empty or missing, this rule matches all destinations (traffic not restricted by destination). If this field is present and contains at least one item, this rule allows traffic only if the traffic matches at least one item in the to list.",
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
    "description": "NetworkPolicyPort describes a port to allow traffic on",
    "properties": {
      "endPort": {
        "description": "endPort indicates that the range of ports from port to endPort if set, inclusive, should be allowed by the policy. This field cannot be defined if the port field is not defined or if the port field is defined as a named (string) port. The endPort must be equal or greater than port.",
        "format": "int32",
        "type": "integer"
      },
      "port": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"
          }
        ],
        "description": "port represents the port on the given protocol. This can either be a numerical or named port on a pod. If this field is not provided, this matches all port names and numbers. If present, only traffic on the specified protocol AND port will be matched."
      },
      "protocol": {
        "description": "protocol represents the protocol (TCP, UDP, or SCTP) which traffic must match. If not specified, this field defaults to TCP.",
        "type": "string"
      }
    },
    "type": "object"
  },
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
    "description": "IntOrString is a type that can hold an int32 or a string.  When used in JSON or YAML marshalling and unmarshalling, it produces or consumes the inner type.  This allows you to have, for example, a JSON field that can accept a name or number.",
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
    "description": "NetworkPolicyPeer describes a peer to allow traffic to/from. Only certain combinations of fields are allowed",
    "properties": {
      "ipBlock": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IPBlock"
          }
        ],
        "description": "ipBlock defines policy on a particular IPBlock. If this field is set then neither of the other fields can be."
      },
      "namespaceSelector": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
          }
        ],
        "description": "namespaceSelector selects namespaces using cluster-scoped labels. This field follows standard label selector semantics; if present but empty, it selects all namespaces.\n\nIf podSelector is also set, then the NetworkPolicyPeer as a whole selects the pods matching podSelector in the namespaces selected by namespaceSelector. Otherwise it selects all pods in the namespaces selected by namespaceSelector."
      },
      "podSelector": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
          }
        ],
        "description": "podSelector is a label selector which selects pods. This field follows standard label selector semantics; if present but empty, it selects all pods.\n\nIf namespaceSelector is also set, then the NetworkPolicyPeer as a whole selects the pods matching podSelector in the Namespaces selected by NamespaceSelector. Otherwise it selects the pods matching podSelector in the policy's own namespace."
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IPBlock": {
    "description": "IPBlock describes a particular CIDR (Ex. \"192.168.1.0/24\",\"2001:db8::/64\") that is allowed to the pods matched by a NetworkPolicySpec's podSelector. The except entry describes CIDRs that should not be included within this rule.",
    "properties": {
      "cidr": {
        "default": "",
        "description": "cidr is a string representing the IPBlock Valid examples are \"192.168.1.0/24\" or \"2001:db8::/64\"",
        "type": "string"
      },
      "except": {
        "description": "except is a slice of CIDRs that should not be included within an IPBlock Valid examples are \"192.168.1.0/24\" or \"2001:db8::/64\" Except values will be rejected if they are outside the cidr range",
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
  "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": {
    "description": "A label selector is a label query over a set of resources. The result of matchLabels and matchExpressions are ANDed. An empty label selector matches all objects. A null label selector matches no objects.",
    "properties": {
      "matchExpressions": {
        "description": "matchExpressions is a list of label selector requirements. The requirements are ANDed.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "matchLabels": {
        "additionalProperties": {
          "type": "string"
        },
        "description": "matchLabels is a map of {key,value} pairs. A single {key,value} in the matchLabels map is equivalent to an element of matchExpressions, whose key field is \"key\", the operator is \"In\", and the values array contains only \"value\". The requirements are ANDed.",
        "type": "object",
        "x-berth-omit-empty": true
      }
    },
    "type": "object",
    "x-kubernetes-map-type": "atomic"
  },
  "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": {
    "description": "A label selector requirement is a selector that contains values, a key, and an operator that relates the key and values.",
    "properties": {
      "key": {
        "default": "",
        "description": "key is the label key that the selector applies to.",
        "type": "string"
      },
      "operator": {
        "default": "",
        "description": "operator represents a key's relationship to a set of values. Valid operators are In, NotIn, Exists and DoesNotExist.",
        "type": "string"
      },
      "values": {
        "description": "values is an array of string values. If the operator is In or NotIn, the values array must be non-empty. If the operator is Exists or DoesNotExist, the values array must be empty. This array is replaced during a strategic merge patch.",
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "required": [
      "key",
      "operator"
    ],
    "type": "object"
  },
  "io.k8s.api.networking.v1.NetworkPolicyIngressRule": {
    "description": "NetworkPolicyIngressRule describes a particular set of traffic that is allowed to the pods matched by a NetworkPolicySpec's podSelector. The traffic must match both ports and from.",
    "properties": {
      "from": {
        "description": "from is a list of sources which should be able to access the pods selected for this rule. Items in this list are combined using a logical OR operation. If this field is empty or missing, this rule matches all sources (traffic not restricted by source). If this field is present and contains at least one item, this rule allows traffic only if the traffic matches at least one item in the from list.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.NetworkPolicyPeer"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "ports": {
        "description": "ports is a list of ports which should be made accessible on the pods selected for this rule. Each item in this list is combined using a logical OR. If this field is empty or missing, this rule matches all ports (traffic not restricted by port). If this field is present and contains at least one item, then this rule allows traffic only if the traffic matches at least one port in the list.",
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
