//! Objects by their labels.

use crate::{cache::Index, sorted::Sorted};
use berth_identity::{Name, Namespace};
use berth_workloads::{
    autoscaler::MeasuredPodView,
    endpoints::view::EndpointPodView,
    selector::{Labels, Selector},
    view::{PodView, View},
};
use std::{collections::BTreeMap, sync::Arc};

/// A view that has labels.
pub(crate) trait HasLabels: View {
    /// Its labels.
    fn labels(&self) -> &Labels;
}

impl HasLabels for PodView {
    fn labels(&self) -> &Labels {
        &self.meta.labels
    }
}

impl HasLabels for EndpointPodView {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl HasLabels for MeasuredPodView {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// Objects by namespace and labels. The pods of one template have equal labels, so a selector is evaluated once for all of them.
#[derive(Debug)]
pub(crate) struct ByLabels<V>(BTreeMap<Namespace, BTreeMap<Labels, Sorted<Name, Arc<V>>>>);

impl<V> Default for ByLabels<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: HasLabels> ByLabels<V> {
    /// The objects of a namespace that `selector` matches, by name. The cost is linear in these and in the namespace's distinct sets of
    /// labels.
    pub(crate) fn selected(&self, namespace: &Namespace, selector: &Selector) -> Vec<&Arc<V>> {
        let sets = self.0.get(namespace).into_iter().flatten();
        let mut found: Vec<_> = sets.filter(|(labels, _)| selector.matches(labels)).flat_map(|(_, objects)| objects.iter()).collect();
        found.sort_unstable_by_key(|(name, _)| *name);
        found.into_iter().map(|(_, object)| object).collect()
    }

    fn insert(&mut self, object: &Arc<V>) {
        let key = object.key();
        let sets = self.0.entry(key.namespace).or_default();
        match sets.get_mut(object.labels()) {
            Some(objects) => drop(objects.insert(key.name, Arc::clone(object))),
            None => drop(sets.entry(object.labels().clone()).or_default().insert(key.name, Arc::clone(object))),
        }
    }

    fn remove(&mut self, object: &V) {
        let key = object.key();
        let Some(sets) = self.0.get_mut(&key.namespace) else { return };
        let Some(objects) = sets.get_mut(object.labels()) else { return };
        objects.remove(&key.name);
        if objects.is_empty() {
            sets.remove(object.labels());
            if sets.is_empty() {
                self.0.remove(&key.namespace);
            }
        }
    }
}

impl<V: HasLabels> Index<V> for ByLabels<V> {
    fn change(&mut self, old: Option<&Arc<V>>, new: Option<&Arc<V>>) {
        // An object with the same labels keeps its position: most changes are status updates.
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.labels() != old.labels())) {
            self.remove(old);
        }
        new.into_iter().for_each(|new| self.insert(new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use proptest::prelude::*;

    fn pod(namespace: u8, name: u8, app: u8) -> Arc<EndpointPodView> {
        let labels = if app == 0 { Labels::default() } else { [("app", app.to_string())].into() };
        Arc::new(EndpointPodView {
            namespace: namespace.to_string().into(),
            name: name.to_string().into(),
            labels,
            ..EndpointPodView::default()
        })
    }

    fn selector(app: &str) -> Selector {
        let labels = [("app".to_owned(), app.to_owned())].into();
        Selector::parse(&LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }).expect("a selector")
    }

    proptest! {
        /// After any changes, the selected objects are those that a scan of all objects finds.
        #[test]
        fn what_is_selected_is_what_matches(changes in proptest::collection::vec((0u8..2, 0u8..6, 0u8..3, any::<bool>()), 1..60)) {
            let (mut index, mut all) = (ByLabels::default(), BTreeMap::new());
            for (namespace, name, app, present) in changes {
                let new = present.then(|| pod(namespace, name, app));
                let old = match &new {
                    Some(new) => all.insert((namespace, name), Arc::clone(new)),
                    None => all.remove(&(namespace, name)),
                };
                index.change(old.as_ref(), new.as_ref());
                for (namespace, selector) in [("0", selector("1")), ("1", selector("2"))] {
                    let wanted: Vec<_> = all.values().filter(|pod| pod.namespace == namespace && selector.matches(&pod.labels)).collect();
                    prop_assert_eq!(index.selected(&namespace.into(), &selector), wanted);
                }
            }
            all.values().for_each(|pod| index.change(Some(pod), None));
            prop_assert!(index.0.is_empty());
        }
    }
}
