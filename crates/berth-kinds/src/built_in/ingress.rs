//! Ingress: which traffic from outside goes to which Service. No traffic flows: ingresses are kept for those who wrote them.

use super::values::{list, native, text};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
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
        rules: ObjectRules { checks_new_name_base: true, ..super::rules() },
        empty,
        strategy: Some(Arc::new(Ingresses)),
        ..native::<k8s_openapi::api::networking::v1::Ingress>("networking.k8s.io", names, Scope::Namespaced, version, &[TYPES])
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
        let uses_old_class = old.is_none() && old_class(ingress).is_some();
        let warning = || format!("annotation \"{OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
        uses_old_class.then(warning).into_iter().collect()
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

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.networking.v1.Ingress": {
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
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      },
      "status": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressStatus"
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
        "kind": "Ingress",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.networking.v1.IngressSpec": {
    "properties": {
      "defaultBackend": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressBackend"
          }
        ]
      },
      "ingressClassName": {
        "type": "string"
      },
      "rules": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressRule"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "tls": {
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
    "properties": {
      "resource": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.core.v1.TypedLocalObjectReference"
          }
        ]
      },
      "service": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressServiceBackend"
          }
        ]
      }
    },
    "type": "object"
  },
  "io.k8s.api.core.v1.TypedLocalObjectReference": {
    "properties": {
      "apiGroup": {
        "type": "string"
      },
      "kind": {
        "default": "",
        "type": "string"
      },
      "name": {
        "default": "",
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
    "properties": {
      "name": {
        "default": "",
        "type": "string"
      },
      "port": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.ServiceBackendPort"
          }
        ],
        "x-berth-always": true
      }
    },
    "required": [
      "name"
    ],
    "type": "object"
  },
  "io.k8s.api.networking.v1.ServiceBackendPort": {
    "properties": {
      "name": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "number": {
        "format": "int32",
        "type": "integer",
        "x-berth-omit-empty": true
      }
    },
    "type": "object",
    "x-kubernetes-map-type": "atomic"
  },
  "io.k8s.api.networking.v1.IngressRule": {
    "properties": {
      "host": {
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
    "properties": {
      "paths": {
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
    "properties": {
      "backend": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressBackend"
          }
        ]
      },
      "path": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "pathType": {
        "default": "",
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
    "properties": {
      "hosts": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "secretName": {
        "type": "string",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressStatus": {
    "properties": {
      "loadBalancer": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressLoadBalancerStatus"
          }
        ],
        "x-berth-always": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressLoadBalancerStatus": {
    "properties": {
      "ingress": {
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
    "properties": {
      "hostname": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "ip": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "ports": {
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
    "properties": {
      "error": {
        "type": "string"
      },
      "port": {
        "default": 0,
        "format": "int32",
        "type": "integer"
      },
      "protocol": {
        "default": "",
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
