//! Evictions: deletions of pods that ask the disruption budgets first.

use crate::*;

impl Registry {
    pub(crate) async fn create_eviction(&self, _target: &Target, _body: Body, _options: &WriteOptions) -> Result<Written, ApiError> {
        Err(ApiError::UnknownResource)
    }
}
