//! The limits on the number of a Deployment's pods.

use crate::view::DeploymentStrategy;
use berth_api::int_or_string::{self, Rounding};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A text where a number or a percentage was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotANumber {
    /// The text.
    pub text: String,
}

impl std::fmt::Display for NotANumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is neither a number nor a percentage", self.text)
    }
}

impl std::error::Error for NotANumber {}

/// `maxSurge` and `maxUnavailable` in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many pods may exist in addition to the desired ones.
    pub surge: i64,
    /// How many pods may be unavailable. At least one of the two is above 0, because no pod could be replaced otherwise.
    pub unavailable: i64,
}

impl Limits {
    /// Resolves the limits of a rolling update of `replicas` pods. A missing value counts as 0, because the API server sets the defaults.
    ///
    /// # Errors
    /// A text that is not a percentage.
    pub fn resolve(max_surge: Option<&IntOrString>, max_unavailable: Option<&IntOrString>, replicas: i32) -> Result<Self, NotANumber> {
        let surge = max_surge.map_or(Ok(0), |value| pods(value, replicas, Rounding::Up))?;
        let unavailable = max_unavailable.map_or(Ok(0), |value| pods(value, replicas, Rounding::Down))?;
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Ok(Self { surge, unavailable })
    }
}

fn pods(value: &IntOrString, replicas: i32, rounding: Rounding) -> Result<i64, NotANumber> {
    let text = match value {
        IntOrString::Int(number) => return Ok(i64::from(*number)),
        IntOrString::String(text) => text,
    };
    int_or_string::resolve(value, replicas, rounding).map(i64::from).ok_or_else(|| NotANumber { text: text.clone() })
}

/// The limits that every step of a rollout respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// `spec.replicas`.
    pub desired: i64,
    /// How many pods may exist in addition to the desired ones. 0 for Recreate.
    pub surge: i64,
    /// How many pods may be unavailable: at most the desired number, 0 for Recreate.
    pub unavailable: i64,
    /// The minimum number of available pods during a rollout. 0 for Recreate, which deletes all.
    pub min_available: i64,
}

impl Size {
    /// The limits of a strategy.
    #[must_use]
    pub fn new(strategy: DeploymentStrategy, desired: i64, limits: Limits) -> Self {
        match strategy {
            DeploymentStrategy::RollingUpdate => {
                let unavailable = limits.unavailable.min(desired);
                Self { desired, surge: limits.surge, unavailable, min_available: desired - unavailable }
            }
            DeploymentStrategy::Recreate => Self { desired, surge: 0, unavailable: 0, min_available: 0 },
        }
    }

    /// The maximum number of pods.
    #[must_use]
    pub fn max(self) -> i64 {
        self.desired + self.surge
    }
}
