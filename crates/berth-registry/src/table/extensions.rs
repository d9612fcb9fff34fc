//! What extends the API: CustomResourceDefinition.

use super::{
    Printed,
    text::{NAME, name},
};
use crate::resource::Column;
use berth_api::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use jiff::Timestamp;
use serde_json::{Value, json};

impl Printed for CustomResourceDefinition {
    const COLUMNS: &'static [Column] =
        &[NAME, Column { name: "Created At", kind: "date", format: "", priority: 0, description: "When the definition was made." }];

    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        vec![json!(name(&self.metadata)), json!(self.metadata.creation_timestamp)]
    }
}
