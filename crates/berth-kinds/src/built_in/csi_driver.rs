//! CSIDriver: how a driver of volumes works. Simulated nodes have no drivers: the objects are kept for the controllers that read them.

use super::values::{at, list, native, spec, text};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, object::GenerationRule};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: &[&str] = &["Persistent", "Ephemeral"];
/// Shortest life of a token, in seconds.
const TOKEN_SECONDS_MIN: i64 = 600;
/// Longest life of a token, in seconds.
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// Shortest period of updates of what a node can allocate, in seconds.
const UPDATE_SECONDS_MIN: i64 = 10;
const FIELD_IMMUTABLE: &str = "field is immutable";
const TOKENS_IN_ATTRIBUTES: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

/// The definition of the kind.
#[must_use]
pub fn csi_driver() -> Definition {
    let shown = |name: &str, kind: &str, description: &str, cell| Column { kind: kind.to_owned(), cell, ..Column::text(name, description) };
    let flag = |name: &str, field: &str, description: &str| shown(name, "boolean", description, at(&format!(".spec.{field}")));
    let version = Version {
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            flag("AttachRequired", "attachRequired", "Whether volumes are attached before they are mounted."),
            flag("PodInfoOnMount", "podInfoOnMount", "Whether the driver gets the pod's name at a mount."),
            flag("StorageCapacity", "storageCapacity", "Whether the scheduler considers the driver's free capacity."),
            shown(
                "TokenRequests",
                "string",
                "Audiences of the pod's tokens that the driver gets.",
                Cell::Computed(|driver| json!(audiences(spec(driver)))),
            ),
            flag("RequiresRepublish", "requiresRepublish", "Whether the driver mounts volumes again from time to time."),
            shown("Modes", "string", "What kinds of volumes the driver supports.", Cell::Computed(|driver| json!(modes(spec(driver))))),
            Column::age(),
        ],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::SpecChanges, requires_resource_version: true, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {}}),
        strategy: Some(Arc::new(Drivers)),
        ..native::<k8s_openapi::api::storage::v1::CSIDriver>(
            "storage.k8s.io",
            Names::of("CSIDriver", "csidrivers"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

fn audiences(spec: &Value) -> String {
    let audiences: Vec<&str> = list(spec, "tokenRequests").iter().map(|request| text(request, "audience")).collect();
    if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") }
}

fn modes(spec: &Value) -> String {
    let modes: Vec<&str> = list(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") }
}

struct Drivers;

impl Strategy for Drivers {
    fn default(&self, driver: &mut Content) {
        let Some(Value::Object(spec)) = driver.members_mut().get_mut("spec") else { return };
        let of_flags = [
            ("attachRequired", true),
            ("podInfoOnMount", false),
            ("storageCapacity", false),
            ("requiresRepublish", false),
            ("seLinuxMount", false),
        ];
        for (name, default) in of_flags {
            spec.entry(name).or_insert(json!(default));
        }
        spec.entry("fsGroupPolicy").or_insert_with(|| json!("ReadWriteOnceWithFSType"));
        if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
        }
    }

    fn validate(&self, driver: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, spec) = (Path::new("spec"), spec(driver));
        faults.known(&path.child("fsGroupPolicy"), text(spec, "fsGroupPolicy"), FS_GROUP_POLICIES);
        validate_token_requests(list(spec, "tokenRequests"), &path.child("tokenRequests"), &mut faults);
        for mode in list(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
            faults.known(&path.child("volumeLifecycleModes"), mode, LIFECYCLE_MODES);
        }
        if let Some(seconds) =
            spec.get("nodeAllocatableUpdatePeriodSeconds").and_then(Value::as_i64).filter(|seconds| *seconds < UPDATE_SECONDS_MIN)
        {
            let why = format!("must be greater than or equal to {UPDATE_SECONDS_MIN} seconds");
            faults.invalid(&path.child("nodeAllocatableUpdatePeriodSeconds"), seconds, why);
        }
        if let Some(flag) = spec.get("serviceAccountTokenInSecrets").filter(|_| list(spec, "tokenRequests").is_empty()) {
            let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            faults.invalid(&path.child("serviceAccountTokenInSecrets"), flag.clone(), why);
        }
        faults.into_vec()
    }

    fn validate_update(&self, driver: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(self.validate(driver));
        // Upstream's path of `attachRequired` has this name.
        for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
            if spec(driver).get(field) != spec(old).get(field) {
                faults.invalid(&Path::new("spec").child(shown), spec(driver)[field].clone(), FIELD_IMMUTABLE);
            }
        }
        faults.into_vec()
    }

    fn warnings(&self, driver: &Content, old: Option<&Content>) -> Vec<String> {
        let tokens = list(spec(driver), "tokenRequests");
        let is_unset = !tokens.is_empty() && spec(driver).get("serviceAccountTokenInSecrets").is_none();
        let is_new = old.is_none_or(|old| list(spec(old), "tokenRequests") != tokens);
        if is_unset && is_new { vec![TOKENS_IN_ATTRIBUTES.to_owned()] } else { Vec::new() }
    }
}

/// Source: upstream `validateTokenRequests`.
fn validate_token_requests(requests: &[Value], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        faults.unique(&path.child("audience"), text(request, "audience"), &mut seen);
        let Some(seconds) = request.get("expirationSeconds").and_then(Value::as_i64) else { continue };
        if seconds < TOKEN_SECONDS_MIN {
            faults.invalid(&path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
        }
        if TOKEN_SECONDS_MAX < seconds {
            faults.invalid(&path.child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.storage.v1.CSIDriver": {
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
            "$ref": "#/components/schemas/io.k8s.api.storage.v1.CSIDriverSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "required": [
      "spec"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "storage.k8s.io",
        "kind": "CSIDriver",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.storage.v1.CSIDriverSpec": {
    "properties": {
      "attachRequired": {
        "type": "boolean"
      },
      "fsGroupPolicy": {
        "type": "string"
      },
      "nodeAllocatableUpdatePeriodSeconds": {
        "format": "int64",
        "type": "integer"
      },
      "podInfoOnMount": {
        "type": "boolean"
      },
      "preventPodSchedulingIfMissing": {
        "type": "boolean"
      },
      "requiresRepublish": {
        "type": "boolean"
      },
      "seLinuxMount": {
        "type": "boolean"
      },
      "serviceAccountTokenInSecrets": {
        "type": "boolean"
      },
      "storageCapacity": {
        "type": "boolean"
      },
      "tokenRequests": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.storage.v1.TokenRequest"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-type": "atomic"
      },
      "volumeLifecycleModes": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-type": "set"
      }
    },
    "type": "object"
  },
  "io.k8s.api.storage.v1.TokenRequest": {
    "properties": {
      "audience": {
        "default": "",
        "type": "string"
      },
      "expirationSeconds": {
        "format": "int64",
        "type": "integer"
      }
    },
    "required": [
      "audience"
    ],
    "type": "object"
  }
}"##;
