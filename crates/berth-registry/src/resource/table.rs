//! The table itself: what is served at one moment.

use super::Resource;
use std::{cmp::Ordering, sync::Arc};

/// The resources that are served at one moment.
#[derive(Debug)]
pub struct Resources {
    /// Those of one group stand together; groups are in order of preference.
    all: Vec<Arc<Resource>>,
    /// The same by plural and group; versions of one are in order of preference.
    by_name: Vec<Arc<Resource>>,
}

impl Resources {
    pub(super) fn new(all: Vec<Arc<Resource>>) -> Self {
        let mut by_name = all.clone();
        by_name.sort_by(|a, b| order(a, &b.group, &b.plural));
        Self { all, by_name }
    }

    /// All of them, in the order in which groups are preferred and kinds are shown.
    #[must_use]
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.all
    }

    /// Those that are stored.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.all.iter().filter(|resource| !resource.is_review())
    }

    /// The resource at `/apis/{group}/{version}/…/{plural}`; `group` is empty for core. May be a review.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions(group, plural).find(|resource| resource.version == version)
    }

    /// The resource of a stored object by what its JSON says: `apps/v1`, `Deployment`.
    #[must_use]
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.stored().find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    /// The resource of stored objects by its qualified name, in the preferred version: `apps`, `deployments`.
    #[must_use]
    pub fn by_name(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.versions(group, plural).find(|resource| !resource.is_review())
    }

    fn versions(&self, group: &str, plural: &str) -> impl Iterator<Item = &Arc<Resource>> {
        let first = self.by_name.partition_point(|resource| order(resource, group, plural).is_lt());
        self.by_name[first..].iter().take_while(move |resource| resource.plural == plural && resource.group == group)
    }
}

fn order(resource: &Resource, group: &str, plural: &str) -> Ordering {
    (resource.plural.as_str(), resource.group.as_str()).cmp(&(plural, group))
}
