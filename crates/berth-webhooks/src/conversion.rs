//! Calls conversion webhooks.

use crate::reviewer::Inner;
use berth_admission::{Client, ConversionFault, ConversionReview, read_converted};
use berth_kinds::ConversionWebhook;
use berth_registry::ApiError;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a conversion webhook can take to answer, as upstream.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Inner {
    /// Converts objects to the version `to`. Only labels and annotations of their metadata can differ.
    pub(crate) async fn convert(&self, webhook: &ConversionWebhook, objects: Vec<Value>, to: &str) -> Result<Vec<Value>, ApiError> {
        let client = Client::read(&webhook.client_config);
        if self.is_allowed_unseen(&client).await {
            return Ok(renamed(objects, to));
        }
        let of = objects.first().map(of_kind).unwrap_or_default();
        let failed = |why: ConversionFault| ApiError::NotSupported { message: format!("conversion webhook for {of} {why}") };
        let uid = self.registry.new_uid();
        let review = ConversionReview { uid: &uid, desired: to, objects: &objects };
        let began = Instant::now();
        let answer = self.caller.call(&client, review.encode(), TIMEOUT).await;
        let converted = match answer {
            Ok(answer) => read_converted(&review, &answer.body),
            Err(failure) => {
                Err(ConversionFault::Undecodable(failure.to_string().trim_start_matches("failed to call webhook: ").to_owned()))
            }
        };
        self.metrics.converted(began.elapsed(), converted.as_ref().err());
        converted.map_err(failed)
    }
}

/// Returns the objects in another version, without a conversion.
fn renamed(mut objects: Vec<Value>, to: &str) -> Vec<Value> {
    for object in &mut objects {
        object["apiVersion"] = to.into();
    }
    objects
}

/// `example.com/v1, Kind=Gauge`.
fn of_kind(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}
