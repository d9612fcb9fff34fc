//! How many pods a Deployment may have at once, in numbers.

use crate::view::DeploymentStrategy;
use berth_api::int_or_string::{self, Rounding};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A text where a number or a percentage was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotANumber {
    /// As given.
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
    /// How many pods there may be too many.
    pub surge: i64,
    /// How many may be missing. Not both are 0: no pod could ever be replaced.
    pub unavailable: i64,
}

impl Limits {
    /// Resolves the limits of a rolling update of `replicas` pods. A missing value counts as 0: defaults are the API server's.
    ///
    /// # Errors
    /// A text that is no percentage.
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

/// The numbers that every step of a rollout respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// `spec.replicas`.
    pub desired: i64,
    /// How many pods there may be too many; 0 for Recreate.
    pub surge: i64,
    /// How many may be missing; never more than are desired, 0 for Recreate.
    pub unavailable: i64,
    /// The fewest available pods that a rollout leaves; 0 for Recreate, which takes all away.
    pub min_available: i64,
}

impl Size {
    /// The numbers of a strategy.
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

    /// The most pods there may be.
    #[must_use]
    pub fn max(self) -> i64 {
        self.desired + self.surge
    }
}
