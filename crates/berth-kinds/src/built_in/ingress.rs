//! Ingress: which traffic from outside goes to which Service. No traffic flows: ingresses are kept for those who wrote them.

use super::values::{list, native, text};
use crate::{Cell, Column, Content, Definition, Names, ObjectRules, Strategy, Version};
use berth_api::{
    FieldError, Path, Scope, Subresource,
    faults::Faults,
    ip::check_ip,
    names::{check_dns_label, check_dns_subdomain, check_path_segment, check_wildcard},
    pod::check_port_name,
};
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// The annotation that named an Ingress's class before the field did.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
/// More hosts than these are only counted.
const SHOWN_MAX: usize = 3;

/// The definition of the kind.
#[must_use]
pub fn ingress() -> Definition {
    let column = |name: &str, description: &str, cell: fn(&Content) -> Value| Column {
        cell: Cell::Computed(cell),
        ..Column::text(name, description)
    };
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Class", "The class that serves the ingress.", |ingress| json!(or(class(ingress).unwrap_or_default(), "<none>"))),
            column("Hosts", "The hosts that its rules are for.", |ingress| json!(or(&hosts(ingress), "*"))),
            column("Address", "Where it can be reached.", |ingress| json!(addresses(ingress))),
            column("Ports", "Its ports: with TLS two.", |ingress| {
                json!(if list(&ingress.members()["spec"], "tls").is_empty() { "80" } else { "80, 443" })
            }),
            Column::age(),
        ],
        ..Version::default()
    };
    let names = Names { short_names: vec!["ing".to_owned()], ..Names::of("Ingress", "ingresses") };
    let empty = json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}});
    Definition {
        rules: ObjectRules { checks_new_name_base: true, empty, ..super::rules() },
        strategy: Some(Arc::new(Ingresses)),
        ..native("networking.k8s.io", names, Scope::Namespaced, version, TYPES)
    }
}

fn or<'t>(text: &'t str, absent: &'t str) -> &'t str {
    if text.is_empty() { absent } else { text }
}

fn class(ingress: &Content) -> Option<&str> {
    ingress.members()["spec"].get("ingressClassName").and_then(Value::as_str)
}

fn hosts(ingress: &Content) -> String {
    let rules = list(&ingress.members()["spec"], "rules").iter().map(|rule| text(rule, "host")).filter(|host| !host.is_empty());
    let hosts: Vec<String> = rules.map(str::to_owned).collect();
    let shown = hosts[..hosts.len().min(SHOWN_MAX)].join(",");
    if hosts.len() > SHOWN_MAX { format!("{shown} + {} more...", hosts.len() - SHOWN_MAX) } else { shown }
}

/// Where traffic for an Ingress comes in.
fn points(ingress: &Content) -> &[Value] {
    list(&ingress.members()["status"]["loadBalancer"], "ingress")
}

fn addresses(ingress: &Content) -> String {
    let address = |point: &'_ Value| point.get("ip").or_else(|| point.get("hostname")).and_then(Value::as_str).map(str::to_owned);
    points(ingress).iter().filter_map(address).collect::<Vec<_>>().join(",")
}

fn old_class(ingress: &Content) -> Option<&String> {
    ingress.meta.annotations.as_ref()?.get(OLD_CLASS)
}

struct Ingresses;

impl Strategy for Ingresses {
    fn validate(&self, ingress: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_ingress(&ingress.members()["spec"], &mut faults);
        if let (Some(old), Some(class)) = (old_class(ingress), class(ingress))
            && old != class
        {
            let path = Path::new("annotations").child(OLD_CLASS);
            faults.invalid(&path, old.as_str(), "must match `ingressClassName` when both are specified");
        }
        faults.into_vec()
    }

    /// A spec that did not change is not judged again: rules come to be that it was made without.
    fn validate_update(&self, ingress: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if subresource.is_some() {
            validate_status(ingress, old, &mut faults);
        } else if ingress.members()["spec"] != old.members()["spec"] {
            validate_ingress(&ingress.members()["spec"], &mut faults);
        }
        faults.into_vec()
    }

    fn warnings(&self, ingress: &Content, old: Option<&Content>) -> Vec<String> {
        let is_told = old.is_none() && old_class(ingress).is_some();
        let warning = || format!("annotation \"{OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
        is_told.then(warning).into_iter().collect()
    }
}

/// Source: upstream `ValidateIngressLoadBalancerStatus`.
fn validate_status(ingress: &Content, old: &Content, faults: &mut Faults) {
    let old: Vec<String> = points(old).iter().filter_map(|point| point.get("ip")?.as_str().map(str::to_owned)).collect();
    for (index, point) in points(ingress).iter().enumerate() {
        let path = Path::new("status.loadBalancer.ingress").index(index);
        let (ip, hostname) = (text(point, "ip"), text(point, "hostname"));
        if !ip.is_empty() {
            faults.new_form(&path.child("ip"), ip, &old, check_ip);
        }
        if !hostname.is_empty() {
            faults.form(&path.child("hostname"), hostname, check_dns_subdomain);
        }
        refuse_address(hostname, &path.child("hostname"), faults);
    }
}

fn validate_ingress(spec: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    if list(spec, "rules").is_empty() && spec.get("defaultBackend").is_none() {
        faults.invalid(&path, spec["rules"].clone(), "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = spec.get("defaultBackend") {
        validate_backend(backend, &path.child("defaultBackend"), faults);
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(index), faults);
    }
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in list(tls, "hosts").iter().enumerate() {
            faults.form(&path.child("hosts").index(index), host.as_str().unwrap_or_default(), check_host);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            faults.form(&path.child("secretName"), secret, check_dns_subdomain);
        }
    }
    if let Some(class) = spec.get("ingressClassName").and_then(Value::as_str) {
        faults.form(&path.child("ingressClassName"), class, check_dns_subdomain);
    }
}

fn validate_rule(rule: &Value, path: &Path, faults: &mut Faults) {
    let host = text(rule, "host");
    refuse_address(host, &path.child("host"), faults);
    if !host.is_empty() {
        faults.form(&path.child("host"), host, check_host);
    }
    let Some(http) = rule.get("http") else { return };
    let (path, paths) = (path.child("http").child("paths"), list(http, "paths"));
    if paths.is_empty() {
        faults.required(&path, "");
    }
    for (index, http) in paths.iter().enumerate() {
        validate_path(http, &path.index(index), faults);
    }
}

/// A name, or one whose first label is `*`.
fn check_host(host: &str) -> Vec<String> {
    if host.contains('*') { check_wildcard(host) } else { check_dns_subdomain(host) }
}

fn refuse_address(host: &str, path: &Path, faults: &mut Faults) {
    if host.parse::<IpAddr>().is_ok() {
        faults.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

/// Source: upstream `validateHTTPIngressPath`.
fn validate_path(http: &Value, path: &Path, faults: &mut Faults) {
    let (written, written_path) = (text(http, "path"), path.child("path"));
    let is_absolute = written.starts_with('/');
    match text(http, "pathType") {
        "" => return faults.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !is_absolute {
                faults.invalid(&written_path, written, "must be an absolute path");
            }
            check_steps(written, &written_path, faults);
        }
        "ImplementationSpecific" => {
            if !is_absolute && !written.is_empty() {
                faults.invalid(&written_path, written, "must be an absolute path");
            }
        }
        other => faults.known(&path.child("pathType"), other, PATH_TYPES),
    }
    validate_backend(&http["backend"], &path.child("backend"), faults);
}

/// Paths that some proxies change before they compare them.
fn check_steps(written: &str, path: &Path, faults: &mut Faults) {
    for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| written.contains(part)) {
        faults.invalid(path, written, format!("must not contain '{part}'"));
    }
    for end in ["/..", "/."].into_iter().filter(|end| written.ends_with(end)) {
        faults.invalid(path, written, format!("cannot end with '{end}'"));
    }
}

fn validate_backend(backend: &Value, path: &Path, faults: &mut Faults) {
    match (backend.get("resource"), backend.get("service")) {
        (Some(_), Some(_)) => faults.invalid(path, "", "cannot set both resource and service backends"),
        (None, None) => faults.invalid(path, "", "resource or service backend is required"),
        (Some(resource), None) => {
            let path = path.child("resource");
            if let Some(group) = resource.get("apiGroup").and_then(Value::as_str) {
                faults.form(&path.child("apiGroup"), group, check_dns_subdomain);
            }
            faults.set_form(&path.child("kind"), text(resource, "kind"), check_path_segment);
            faults.set_form(&path.child("name"), text(resource, "name"), check_path_segment);
        }
        (None, Some(service)) => {
            let of_service = path.child("service");
            faults.set_form(&of_service.child("name"), text(service, "name"), check_dns_label);
            let (port, of_port) = (&service["port"], of_service.child("port"));
            let number = port.get("number").and_then(Value::as_i64).map_or(0, |number| i32::try_from(number).unwrap_or(i32::MAX));
            match (text(port, "name"), number) {
                ("", 0) => faults.required(path, "port name or number is required"),
                ("", number) => faults.port(&of_port.child("number"), number),
                (name, 0) => faults.form(&of_port.child("name"), name, check_port_name),
                _ => faults.invalid(path, "", "cannot set both port name & port number"),
            }
        }
    }
}

/// Its types as OpenAPI publishes them. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.networking.v1.Ingress": {
    "description": "Ingress is a collection of rules that allow inbound connections to reach the endpoints defined by a backend. An Ingress can be configured to give services externally-reachable urls, load balance traffic, terminate SSL, offer name based virtual hosting etc.",
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
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressSpec"
          }
        ],
        "default": {},
        "description": "spec is the desired state of the Ingress. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#spec-and-status",
        "x-berth-always": true
      },
      "status": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressStatus"
          }
        ],
        "default": {},
        "description": "status is the current state of the Ingress. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#spec-and-status",
        "x-berth-always": true
      }
    },
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "networking.k8s.io",
        "kind": "Ingress",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.networking.v1.IngressSpec": {
    "description": "IngressSpec describes the Ingress the user wishes to exist.",
    "properties": {
      "defaultBackend": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressBackend"
          }
        ],
        "description": "defaultBackend is the backend that should handle requests that don't match any rule. If Rules are not specified, DefaultBackend must be specified. If DefaultBackend is not set, the handling of requests that do not match any of the rules will be up to the Ingress controller."
      },
      "ingressClassName": {
        "description": "ingressClassName is the name of an IngressClass cluster resource. Ingress controller implementations use this field to know whether they should be serving this Ingress resource, by a transitive connection (controller -> IngressClass -> Ingress resource). Although the `kubernetes.io/ingress.class` annotation (simple constant name) was never formally defined, it was widely supported by Ingress controllers to create a direct binding between Ingress controller and Ingress resources. Newly created Ingress resources should prefer using the field. However, even though the annotation is officially deprecated, for backwards compatibility reasons, ingress controllers should still honor that annotation if present.",
        "type": "string"
      },
      "rules": {
        "description": "rules is a list of host rules used to configure the Ingress. If unspecified, or no rule matches, all traffic is sent to the default backend.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressRule"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "tls": {
        "description": "tls represents the TLS configuration. Currently the Ingress only supports a single TLS port, 443. If multiple members of this list specify different hosts, they will be multiplexed on the same port according to the hostname specified through the SNI TLS extension, if the ingress controller fulfilling the ingress supports SNI.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressTLS"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressBackend": {
    "description": "IngressBackend describes all endpoints for a given service and port.",
    "properties": {
      "resource": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.core.v1.TypedLocalObjectReference"
          }
        ],
        "description": "resource is an ObjectRef to another Kubernetes resource in the namespace of the Ingress object. If resource is specified, a service.Name and service.Port must not be specified. This is a mutually exclusive setting with \"Service\"."
      },
      "service": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressServiceBackend"
          }
        ],
        "description": "service references a service as a backend. This is a mutually exclusive setting with \"Resource\"."
      }
    },
    "type": "object"
  },
  "io.k8s.api.core.v1.TypedLocalObjectReference": {
    "description": "TypedLocalObjectReference contains enough information to let you locate the typed referenced object inside the same namespace.",
    "properties": {
      "apiGroup": {
        "description": "APIGroup is the group for the resource being referenced. If APIGroup is not specified, the specified Kind must be in the core API group. For any other third-party types, APIGroup is required.",
        "type": "string"
      },
      "kind": {
        "default": "",
        "description": "Kind is the type of resource being referenced",
        "type": "string"
      },
      "name": {
        "default": "",
        "description": "Name is the name of resource being referenced",
        "type": "string"
      }
    },
    "required": [
      "kind",
      "name"
    ],
    "type": "object",
    "x-kubernetes-map-type": "atomic"
  },
  "io.k8s.api.networking.v1.IngressServiceBackend": {
    "description": "IngressServiceBackend references a Kubernetes Service as a Backend.",
    "properties": {
      "name": {
        "default": "",
        "description": "name is the referenced service. The service must exist in the same namespace as the Ingress object.",
        "type": "string"
      },
      "port": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.ServiceBackendPort"
          }
        ],
        "description": "port of the referenced service. A port name or port number is required for a IngressServiceBackend.",
        "x-berth-always": true
      }
    },
    "required": [
      "name"
    ],
    "type": "object"
  },
  "io.k8s.api.networking.v1.ServiceBackendPort": {
    "description": "ServiceBackendPort is the service port being referenced.",
    "properties": {
      "name": {
        "description": "name is the name of the port on the Service. This is a mutually exclusive setting with \"Number\".",
        "type": "string",
        "x-berth-omit-empty": true
      },
      "number": {
        "description": "number is the numerical port number (e.g. 80) on the Service. This is a mutually exclusive setting with \"Name\".",
        "format": "int32",
        "type": "integer",
        "x-berth-omit-empty": true
      }
    },
    "type": "object",
    "x-kubernetes-map-type": "atomic"
  },
  "io.k8s.api.networking.v1.IngressRule": {
    "description": "IngressRule represents the rules mapping the paths under a specified host to the related backend services. Incoming requests are first evaluated for a host match, then routed to the backend associated with the matching IngressRuleValue.",
    "properties": {
      "host": {
        "description": "host is the fully qualified domain name of a network host, as defined by RFC 3986. Note the following deviations from the \"host\" part of the URI as defined in RFC 3986: 1. IPs are not allowed. Currently an IngressRuleValue can only apply to\n   the IP in the Spec of the parent Ingress.\n2. The `:` delimiter is not respected because ports are not allowed.\n\t  Currently the port of an Ingress is implicitly :80 for http and\n\t  :443 for https.\nBoth these may change in the future. Incoming requests are matched against the host before the IngressRuleValue. If the host is unspecified, the Ingress routes all traffic based on the specified IngressRuleValue.\n\nhost can be \"precise\" which is a domain name without the terminating dot of a network host (e.g. \"foo.bar.com\") or \"wildcard\", which is a domain name prefixed with a single wildcard label (e.g. \"*.foo.com\"). The wildcard character '*' must appear by itself as the first DNS label and matches only a single label. You cannot have a wildcard label by itself (e.g. Host == \"*\"). Requests will be matched against the Host field in the following way: 1. If host is precise, the request matches this rule if the http host header is equal to Host. 2. If host is a wildcard, then the request matches this rule if the http host header is to equal to the suffix (removing the first label) of the wildcard rule.",
        "type": "string",
        "x-berth-omit-empty": true
      },
      "http": {
        "$ref": "#/components/schemas/io.k8s.api.networking.v1.HTTPIngressRuleValue"
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.HTTPIngressRuleValue": {
    "description": "HTTPIngressRuleValue is a list of http selectors pointing to backends. In the example: http://<host>/<path>?<searchpart> -> backend where where parts of the url correspond to RFC 3986, this resource will be used to match against everything after the last '/' and before the first '?' or '#'.",
    "properties": {
      "paths": {
        "description": "paths is a collection of paths that map requests to backends.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.HTTPIngressPath"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic"
      }
    },
    "required": [
      "paths"
    ],
    "type": "object"
  },
  "io.k8s.api.networking.v1.HTTPIngressPath": {
    "description": "HTTPIngressPath associates a path with a backend. Incoming urls matching the path are forwarded to the backend.",
    "properties": {
      "backend": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressBackend"
          }
        ],
        "description": "backend defines the referenced service endpoint to which the traffic will be forwarded to."
      },
      "path": {
        "description": "path is matched against the path of an incoming request. Currently it can contain characters disallowed from the conventional \"path\" part of a URL as defined by RFC 3986. Paths must begin with a '/' and must be present when using PathType with value \"Exact\" or \"Prefix\".",
        "type": "string",
        "x-berth-omit-empty": true
      },
      "pathType": {
        "default": "",
        "description": "pathType determines the interpretation of the path matching. PathType can be one of the following values: * Exact: Matches the URL path exactly. * Prefix: Matches based on a URL path prefix split by '/'. Matching is\n  done on a path element by element basis. A path element refers is the\n  list of labels in the path split by the '/' separator. A request is a\n  match for path p if every p is an element-wise prefix of p of the\n  request path. Note that if the last element of the path is a substring\n  of the last element in request path, it is not a match (e.g. /foo/bar\n  matches /foo/bar/baz, but does not match /foo/barbaz).\n* ImplementationSpecific: Interpretation of the Path matching is up to\n  the IngressClass. Implementations can treat this as a separate PathType\n  or treat it identically to Prefix or Exact path types.\nImplementations are required to support all path types.",
        "type": "string"
      }
    },
    "required": [
      "backend",
      "pathType"
    ],
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressTLS": {
    "description": "IngressTLS describes the transport layer security associated with an ingress.",
    "properties": {
      "hosts": {
        "description": "hosts is a list of hosts included in the TLS certificate. The values in this list must match the name/s used in the tlsSecret. Defaults to the wildcard host setting for the loadbalancer controller fulfilling this Ingress, if left unspecified.",
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "secretName": {
        "description": "secretName is the name of the secret used to terminate TLS traffic on port 443. Field is left optional to allow TLS routing based on SNI hostname alone. If the SNI host in a listener conflicts with the \"Host\" header field used by an IngressRule, the SNI host is used for termination and value of the \"Host\" header is used for routing.",
        "type": "string",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressStatus": {
    "description": "IngressStatus describe the current state of the Ingress.",
    "properties": {
      "loadBalancer": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressLoadBalancerStatus"
          }
        ],
        "description": "loadBalancer contains the current status of the load-balancer.",
        "x-berth-always": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressLoadBalancerStatus": {
    "description": "IngressLoadBalancerStatus represents the status of a load-balancer.",
    "properties": {
      "ingress": {
        "description": "ingress is a list containing ingress points for the load-balancer.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressLoadBalancerIngress"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressLoadBalancerIngress": {
    "description": "IngressLoadBalancerIngress represents the status of a load-balancer ingress point.",
    "properties": {
      "hostname": {
        "description": "hostname is set for load-balancer ingress points that are DNS based.",
        "type": "string",
        "x-berth-omit-empty": true
      },
      "ip": {
        "description": "ip is set for load-balancer ingress points that are IP based.",
        "type": "string",
        "x-berth-omit-empty": true
      },
      "ports": {
        "description": "ports provides information about the ports exposed by this LoadBalancer.",
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressPortStatus"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressPortStatus": {
    "description": "IngressPortStatus represents the error condition of a service port",
    "properties": {
      "error": {
        "description": "error is to record the problem with the service port The format of the error shall comply with the following rules: - built-in error values shall be specified in this file and those shall use\n  CamelCase names\n- cloud provider specific error values must have names that comply with the\n  format foo.example.com/CamelCase.",
        "type": "string"
      },
      "port": {
        "default": 0,
        "description": "port is the port number of the ingress port.",
        "format": "int32",
        "type": "integer"
      },
      "protocol": {
        "default": "",
        "description": "protocol is the protocol of the ingress port. The supported values are: \"TCP\", \"UDP\", \"SCTP\"",
        "type": "string"
      }
    },
    "required": [
      "port",
      "protocol"
    ],
    "type": "object"
  }
}"##;
