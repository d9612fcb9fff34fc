//! The policies and bindings of one kind, in memory.

use berth_admission::{Operation, Policy, PolicyBinding};
use berth_api::Object;
use berth_registry::{AdmissionRequest, Content, Resource, Subresource};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// Policies and bindings by name, which is the order of evaluation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Installed {
    policies: BTreeMap<String, Compiled>,
    bindings: BTreeMap<String, Arc<PolicyBinding>>,
    /// Made at the first request after a change.
    index: OnceLock<Index>,
}

#[derive(Clone, Debug)]
struct Compiled {
    uid: Option<String>,
    generation: Option<i64>,
    policy: Arc<Policy>,
}

/// A policy that has bindings.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) policy: Arc<Policy>,
    pub(crate) bindings: Vec<Arc<PolicyBinding>>,
}

/// The policies that have bindings. A request that no rule can match costs one search.
#[derive(Clone, Debug, Default)]
struct Index {
    bound: Vec<Bound>,
    /// The places of the policies whose rules name a resource.
    named: BTreeMap<String, Vec<usize>>,
    /// The places of those whose rules match all resources.
    any: Vec<usize>,
}

impl Installed {
    /// Returns the policies with rules that can match a request, in their order. Versions, selectors and names are not checked yet.
    pub(crate) fn candidates<'a>(&'a self, request: &AdmissionRequest<'_>) -> impl Iterator<Item = &'a Bound> {
        let index = self.index.get_or_init(|| self.index());
        let (plural, operation): (_, Operation) = (request.resource.plural(), request.operation.into());
        let subresource = request.subresource.map(Subresource::as_str).unwrap_or_default();
        let named = index.named.get(plural.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut places: Vec<usize> = named
            .iter()
            .chain(&index.any)
            .copied()
            .filter(|place| index.bound[*place].policy.constraints.may_match(operation, plural.as_str(), subresource))
            .collect();
        places.sort_unstable();
        places.into_iter().map(|place| &index.bound[place])
    }

    fn index(&self) -> Index {
        let mut bindings: BTreeMap<&str, Vec<Arc<PolicyBinding>>> = BTreeMap::new();
        for binding in self.bindings.values() {
            bindings.entry(&binding.policy).or_default().push(Arc::clone(binding));
        }
        let mut index = Index::default();
        for (name, Compiled { policy, .. }) in &self.policies {
            // A binding without its policy has no effect, and neither has a policy without bindings.
            let Some(bindings) = bindings.remove(name.as_str()) else { continue };
            let place = index.bound.len();
            match policy.constraints.named_resources() {
                Some(names) => names.into_iter().for_each(|name| index.named.entry(name.to_owned()).or_default().push(place)),
                None => index.any.push(place),
            }
            index.bound.push(Bound { policy: Arc::clone(policy), bindings });
        }
        index
    }
}

impl Content for Installed {
    fn put(&mut self, resource: &Resource, object: &dyn Object) {
        let meta = object.meta();
        let name = meta.name.clone().unwrap_or_default();
        if is_binding(resource) {
            self.bindings.insert(name, Arc::new(PolicyBinding::read(&object.to_value())));
            self.index = OnceLock::new();
            return;
        }
        let is_known = |known: &Compiled| known.uid == meta.uid && known.generation == meta.generation;
        if self.policies.get(&name).is_some_and(is_known) {
            // Only its status or its metadata changed.
            return;
        }
        let policy = Arc::new(Policy::read(&object.to_value()));
        self.policies.insert(name, Compiled { uid: meta.uid.clone(), generation: meta.generation, policy });
        self.index = OnceLock::new();
    }

    fn remove(&mut self, resource: &Resource, _namespace: Option<&str>, name: &str) {
        if is_binding(resource) {
            self.bindings.remove(name);
        } else {
            self.policies.remove(name);
        }
        self.index = OnceLock::new();
    }
}

fn is_binding(resource: &Resource) -> bool {
    resource.plural().ends_with("bindings")
}
