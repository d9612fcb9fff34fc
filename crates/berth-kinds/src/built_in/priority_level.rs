//! PriorityLevelConfiguration: a share of an API server. berth gives each user a share ([decision 20]): the objects are kept, and change nothing.
//!
//! [decision 20]: ../../../../docs/decisions/0020-whose-turn-it-is.md

use super::values::{native, spec, text, validate_conditions};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, Path, Scope, Subresource, faults::Faults};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The level whose requests are never limited. Only it has the type `Exempt`.
const EXEMPT: &str = "exempt";
/// The level of requests that no other level takes.
const CATCH_ALL: &str = "catch-all";
/// How many queues a level can have.
const QUEUES_MAX: i64 = 10_000_000;
/// How many bits choose the queues of a flow.
const ENTROPY_BITS_MAX: u32 = 60;

/// The definition of the kind.
#[must_use]
pub fn priority_level_configuration() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Type", "Whether requests of the level are limited.", Cell::Computed(|level| json!(text(spec(level), "type")))),
            column(
                "NominalConcurrencyShares",
                "The level's part of the server, against those of the others.",
                Cell::Computed(|level| shown(level, "/limited/nominalConcurrencyShares")),
            ),
            column(
                "Queues",
                "How many queues the level has.",
                Cell::Computed(|level| shown(level, "/limited/limitResponse/queuing/queues")),
            ),
            column(
                "HandSize",
                "How many queues a flow can use.",
                Cell::Computed(|level| shown(level, "/limited/limitResponse/queuing/handSize")),
            ),
            column(
                "QueueLengthLimit",
                "How many requests wait in a queue.",
                Cell::Computed(|level| shown(level, "/limited/limitResponse/queuing/queueLengthLimit")),
            ),
            Column::age(),
        ],
        ..Version::default()
    };
    Definition {
        empty: json!({"metadata": {}, "spec": {"type": ""}, "status": {}}),
        strategy: Some(Arc::new(Levels)),
        ..native::<k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration>(
            "flowcontrol.apiserver.k8s.io",
            Names::of("PriorityLevelConfiguration", "prioritylevelconfigurations"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

fn shown(level: &Content, pointer: &str) -> Value {
    spec(level).pointer(pointer).map_or_else(|| json!("<none>"), |number| json!(number.to_string()))
}

struct Levels;

/// Sets a number that is absent. `is_zero_unset`: also one that is 0, where upstream's type has no pointer.
fn default_number(members: &mut Map<String, Value>, name: &str, default: i64, is_zero_unset: bool) {
    let number = members.entry(name).or_insert_with(|| json!(default));
    if is_zero_unset && number == &json!(0) {
        *number = json!(default);
    }
}

impl Strategy for Levels {
    fn default(&self, level: &mut Content) {
        let Some(Value::Object(spec)) = level.members_mut().get_mut("spec") else { return };
        if let Some(Value::Object(exempt)) = spec.get_mut("exempt") {
            default_number(exempt, "nominalConcurrencyShares", 0, false);
            default_number(exempt, "lendablePercent", 0, false);
        }
        let Some(Value::Object(limited)) = spec.get_mut("limited") else { return };
        default_number(limited, "nominalConcurrencyShares", 30, false);
        default_number(limited, "lendablePercent", 0, false);
        if let Some(Value::Object(queuing)) = limited.get_mut("limitResponse").and_then(|response| response.get_mut("queuing")) {
            default_number(queuing, "handSize", 8, true);
            default_number(queuing, "queues", 64, true);
            default_number(queuing, "queueLengthLimit", 50, true);
        }
    }

    fn validate(&self, level: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(level.meta.name.as_deref().unwrap_or_default(), spec(level), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, level: &Content, _: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        if subresource.is_none() {
            return self.validate(level);
        }
        let mut faults = Faults::default();
        validate_conditions(&level.members()["status"], &mut faults);
        faults.into_vec()
    }
}

/// Source: upstream `ValidatePriorityLevelConfigurationSpec`.
fn validate_spec(name: &str, spec: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    let kind = text(spec, "type");
    if matches!(kind, "Exempt" | "Limited") && (kind == "Exempt") != (name == EXEMPT) {
        faults.invalid(&path.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind {
        "Exempt" => {
            if spec.get("limited").is_some() {
                faults.forbidden(&path.child("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = spec.get("exempt") {
                validate_shares(exempt, &path.child("exempt"), faults);
                validate_lendable(exempt, &path.child("exempt"), faults);
            }
        }
        "Limited" => {
            if spec.get("exempt").is_some() {
                faults.forbidden(&path.child("exempt"), "must be nil if the type is Limited");
            }
            match spec.get("limited") {
                Some(limited) => validate_limited(limited, &path.child("limited"), faults),
                None => faults.required(&path.child("limited"), "must not be empty when type is Limited"),
            }
        }
        other => faults.known(&path.child("type"), other, &["Exempt", "Limited"]),
    }
    validate_mandatory(name, spec, &path, faults);
}

/// Two levels are every server's.
fn validate_mandatory(name: &str, spec: &Value, path: &Path, faults: &mut Faults) {
    if name == EXEMPT && (text(spec, "type") != "Exempt" || spec.get("limited").is_some()) {
        faults.invalid(path, spec.clone(), "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value");
    }
    let fixed =
        json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}});
    if name == CATCH_ALL && spec != &fixed {
        faults.invalid(path, spec.clone(), "spec of 'catch-all' must equal the fixed value");
    }
}

fn validate_limited(limited: &Value, path: &Path, faults: &mut Faults) {
    validate_shares(limited, path, faults);
    validate_response(&limited["limitResponse"], &path.child("limitResponse"), faults);
    validate_lendable(limited, path, faults);
    if let Some(borrowed) = limited.get("borrowingLimitPercent").and_then(Value::as_i64).filter(|borrowed| *borrowed < 0) {
        faults.invalid(&path.child("borrowingLimitPercent"), borrowed, "if specified, must be a non-negative integer");
    }
}

fn validate_shares(level: &Value, path: &Path, faults: &mut Faults) {
    if let Some(shares) = level.get("nominalConcurrencyShares").and_then(Value::as_i64).filter(|shares| *shares < 0) {
        faults.invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn validate_lendable(level: &Value, path: &Path, faults: &mut Faults) {
    if let Some(percent) = level.get("lendablePercent").and_then(Value::as_i64) {
        faults.within(&path.child("lendablePercent"), percent, (0, 100));
    }
}

fn validate_response(response: &Value, path: &Path, faults: &mut Faults) {
    let queuing = response.get("queuing");
    let at = path.child("queuing");
    match (text(response, "type"), queuing) {
        ("Reject", None) => (),
        ("Reject", Some(_)) => faults.forbidden(&at, "must be nil if limited.limitResponse.type is not Limited"),
        ("Queue", None) => faults.required(&at, "must not be empty if limited.limitResponse.type is Limited"),
        ("Queue", Some(queuing)) => validate_queuing(queuing, &at, faults),
        (other, _) => faults.known(&path.child("type"), other, &["Queue", "Reject"]),
    }
}

fn validate_queuing(queuing: &Value, path: &Path, faults: &mut Faults) {
    let number = |name: &str| queuing.get(name).and_then(Value::as_i64).unwrap_or_default();
    let (queues, hand) = (number("queues"), number("handSize"));
    for name in ["queueLengthLimit", "queues"] {
        if number(name) <= 0 {
            faults.invalid(&path.child(name), number(name), "must be positive");
        }
    }
    if QUEUES_MAX < queues {
        faults.invalid(&path.child("queues"), queues, format!("must not be greater than {QUEUES_MAX}"));
    }
    let at = path.child("handSize");
    if hand <= 0 {
        faults.invalid(&at, hand, "must be positive");
    } else if queues < hand {
        faults.invalid(&at, hand, format!("should not be greater than queues ({queues})"));
    } else if ENTROPY_BITS_MAX < entropy_bits(queues, hand) {
        let why = format!("required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {ENTROPY_BITS_MAX}");
        faults.invalid(&at, hand, why);
    }
}

/// How many bits choose `hand` of `deck` queues, in order and without repetition: those of the product of the choices. Stops above the largest number allowed.
fn entropy_bits(deck: i64, hand: i64) -> u32 {
    let mut choices: u128 = 1;
    for left in (deck - hand + 1..=deck).rev() {
        choices = choices.saturating_mul(u128::try_from(left).unwrap_or(1));
        if choices >> ENTROPY_BITS_MAX != 0 {
            return ENTROPY_BITS_MAX + 1;
        }
    }
    // The bits that number all choices.
    (choices - 1).checked_ilog2().map_or(0, |bit| bit + 1)
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration": {
    "properties": {
      "lendablePercent": {
        "format": "int32",
        "type": "integer"
      },
      "nominalConcurrencyShares": {
        "format": "int32",
        "type": "integer"
      }
    },
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.LimitResponse": {
    "properties": {
      "queuing": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.QueuingConfiguration"
          }
        ]
      },
      "type": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "type"
    ],
    "type": "object",
    "x-kubernetes-unions": [
      {
        "discriminator": "type",
        "fields-to-discriminateBy": {
          "queuing": "Queuing"
        }
      }
    ]
  },
  "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration": {
    "properties": {
      "borrowingLimitPercent": {
        "format": "int32",
        "type": "integer"
      },
      "lendablePercent": {
        "format": "int32",
        "type": "integer"
      },
      "limitResponse": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.LimitResponse"
          }
        ],
        "default": {},
        "x-berth-always": true
      },
      "nominalConcurrencyShares": {
        "format": "int32",
        "type": "integer"
      }
    },
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration": {
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
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      },
      "status": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "flowcontrol.apiserver.k8s.io",
        "kind": "PriorityLevelConfiguration",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition": {
    "properties": {
      "lastTransitionTime": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"
          }
        ],
        "x-berth-omit-empty": true
      },
      "message": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "reason": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "status": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "type": {
        "type": "string",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec": {
    "properties": {
      "exempt": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration"
          }
        ]
      },
      "limited": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration"
          }
        ]
      },
      "type": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "type"
    ],
    "type": "object",
    "x-kubernetes-unions": [
      {
        "discriminator": "type",
        "fields-to-discriminateBy": {
          "exempt": "Exempt",
          "limited": "Limited"
        }
      }
    ]
  },
  "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus": {
    "properties": {
      "conditions": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationCondition"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-map-keys": [
          "type"
        ],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "type",
        "x-kubernetes-patch-strategy": "merge"
      }
    },
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.QueuingConfiguration": {
    "properties": {
      "handSize": {
        "default": 0,
        "format": "int32",
        "type": "integer",
        "x-berth-always": true
      },
      "queueLengthLimit": {
        "default": 0,
        "format": "int32",
        "type": "integer",
        "x-berth-always": true
      },
      "queues": {
        "default": 0,
        "format": "int32",
        "type": "integer",
        "x-berth-always": true
      }
    },
    "type": "object"
  }
}"##;
