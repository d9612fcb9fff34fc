//! The dependency graph by uid, and the objects that each change affects.

use crate::owners::OwnerReferences;
use berth_identity::{GroupVersionKind, Namespace, ObjectKey, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::{BTreeMap, BTreeSet};

/// The kind of the owner that a reference names. The API server may not serve it.
#[must_use]
pub fn kind_of_owner(owner: &OwnerReference) -> GroupVersionKind {
    GroupVersionKind::as_written(&owner.api_version, &owner.kind)
}

/// The dependents of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// It has none.
    None,
    /// It has some, none of them in foreground deletion.
    Some,
    /// At least one is itself in foreground deletion.
    SomeForeground,
}

/// How an object is being deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// It is not being deleted.
    #[default]
    None,
    /// It waits for its dependents.
    Foreground,
    /// Its dependents are being orphaned.
    Orphan,
    /// Something else delays the deletion: a grace period, another finalizer.
    Other,
}

/// An object from a watch.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its kind.
    pub kind: GroupVersionKind,
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Uid,
    /// Its owners.
    pub owners: OwnerReferences,
    /// How it is being deleted.
    pub deletion: Deletion,
}

/// An object of the graph.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its kind, from a watch or from a dependent's reference.
    pub kind: GroupVersionKind,
    /// Its key, from a watch or from a dependent's reference.
    pub key: ObjectKey,
    /// Its owners.
    pub owners: OwnerReferences,
    /// The uids of its dependents.
    pub dependents: BTreeSet<Uid>,
    /// How it is being deleted.
    pub deletion: Deletion,
    /// Whether it is known from a watch or only from a dependent's reference.
    pub observed: Observed,
}

/// How an object is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observed {
    /// A dependent's reference names it. The controller must check whether it exists.
    #[default]
    Named,
    /// A watch has reported it.
    Seen,
}

/// The uids to process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Objects to check for deletion.
    pub delete: BTreeSet<Uid>,
    /// Objects whose dependents are to be orphaned.
    pub orphan: BTreeSet<Uid>,
}

/// All objects and their references.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<Uid, Node>,
}

impl Graph {
    /// One object.
    #[must_use]
    pub fn node(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Records that an object exists or has changed. Returns the affected objects.
    pub fn apply(&mut self, seen: Seen) -> Work {
        let mut work = Work::default();
        let node = self.nodes.entry(seen.uid.clone()).or_default();
        let before = (std::mem::take(&mut node.owners), node.deletion);
        node.observed = Observed::Seen;
        (node.kind, node.key) = (seen.kind, seen.key);
        node.owners.clone_from(&seen.owners);
        node.deletion = seen.deletion;
        if before.1 != seen.deletion {
            begin(&seen.uid, node, &mut work);
        }
        self.unlink(&seen.uid, &before.0, &seen.owners, &mut work);
        self.link(&seen.uid, &before.0, &seen.owners, &mut work);
        work
    }

    /// Records that an object is deleted. Returns the affected objects.
    pub fn remove(&mut self, uid: &Uid) -> Work {
        let mut work = Work::default();
        let Some(node) = self.nodes.get_mut(uid) else { return work };
        let gone = std::mem::take(node);
        if gone.dependents.is_empty() {
            self.nodes.remove(uid);
        } else {
            // Its dependents still name it, so they are known if a watch reports it again.
            work.delete.extend(gone.dependents.iter().cloned());
            *node = Node { kind: gone.kind, key: gone.key, dependents: gone.dependents, ..Node::default() };
        }
        self.unlink(uid, &gone.owners, &[], &mut work);
        work
    }

    /// The kind of an object's dependents.
    #[must_use]
    pub fn dependents(&self, uid: &Uid) -> Dependents {
        if self.dependent_nodes(uid).any(|(_, node)| node.deletion == Deletion::Foreground) {
            Dependents::SomeForeground
        } else if self.dependent_nodes(uid).next().is_some() {
            Dependents::Some
        } else {
            Dependents::None
        }
    }

    /// The dependents whose references block the foreground deletion of an object.
    pub fn blocking<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = (&'a Uid, &'a Node)> {
        self.dependent_nodes(uid).filter(move |(_, node)| node.owners.iter().any(|owner| owner.uid == *uid && is_blocking(owner)))
    }

    /// All dependents of an object.
    pub fn dependent_nodes<'a>(&'a self, uid: &Uid) -> impl Iterator<Item = (&'a Uid, &'a Node)> {
        let uids = self.nodes.get(uid).into_iter().flat_map(|node| &node.dependents);
        uids.filter_map(|dependent| self.nodes.get_key_value(dependent))
    }

    /// Removes `uid` from the dependents of owners that it no longer names. A waiting owner may then have no blocking dependent left.
    fn unlink(&mut self, uid: &Uid, before: &[OwnerReference], after: &[OwnerReference], work: &mut Work) {
        for old in before {
            let new = after.iter().find(|owner| owner.uid == old.uid);
            let unblocked = is_blocking(old) && !new.is_some_and(is_blocking);
            let Some(owner) = self.nodes.get_mut(old.uid.as_str()) else { continue };
            if unblocked || (new.is_none() && owner.deletion == Deletion::Foreground) {
                work.delete.insert(old.uid.as_str().into());
            }
            if new.is_none() {
                owner.dependents.remove(uid);
                if owner.observed == Observed::Named && owner.dependents.is_empty() {
                    self.nodes.remove(old.uid.as_str());
                }
            }
        }
    }

    /// Adds `uid` to the dependents of the owners that it names now. The controller must check whether an unobserved owner exists, and a
    /// waiting owner must process its new dependent.
    fn link(&mut self, uid: &Uid, before: &[OwnerReference], after: &[OwnerReference], work: &mut Work) {
        let namespace = self.nodes.get(uid).map(|node| node.key.namespace.clone()).unwrap_or_default();
        for new in after.iter().filter(|new| !before.iter().any(|old| old.uid == new.uid)) {
            let named = || Node {
                kind: kind_of_owner(new),
                key: ObjectKey { namespace: namespace.clone(), name: new.name.as_str().into() },
                ..Node::default()
            };
            let owner = self.nodes.entry(new.uid.as_str().into()).or_insert_with(named);
            owner.dependents.insert(uid.clone());
            if owner.observed == Observed::Named {
                work.delete.insert(new.uid.as_str().into());
            }
            if owner.deletion == Deletion::Foreground || !leads_to(new, &namespace, owner) {
                work.delete.insert(uid.clone());
            }
        }
    }
}

/// A deletion begins, or its propagation changes.
fn begin(uid: &Uid, node: &Node, work: &mut Work) {
    match node.deletion {
        Deletion::Foreground => {
            work.delete.extend(node.dependents.iter().cloned());
            work.delete.insert(uid.clone());
        }
        Deletion::Orphan => drop(work.orphan.insert(uid.clone())),
        Deletion::None | Deletion::Other => (),
    }
}

/// Whether a reference from this namespace resolves to the object. A cluster-scoped owner has no namespace, unlike its dependent.
fn leads_to(reference: &OwnerReference, namespace: &Namespace, owner: &Node) -> bool {
    let is_there = owner.kind.is_written(&reference.api_version, &reference.kind) && owner.key.name == reference.name;
    is_there && (owner.key.namespace.is_empty() || owner.key.namespace == *namespace)
}

/// Whether the reference blocks its owner's foreground deletion. An unset field does not block.
fn is_blocking(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, blocking: Option<bool>) -> OwnerReference {
        OwnerReference {
            api_version: "v1".into(),
            kind: "Thing".into(),
            name: uid.into(),
            uid: uid.into(),
            controller: None,
            block_owner_deletion: blocking,
        }
    }

    fn seen(uid: &str, owners: &[OwnerReference], deletion: Deletion) -> Seen {
        let kind = GroupVersionKind::from_static("", "v1", "Thing");
        Seen { kind, key: ObjectKey::new("ns", uid), uid: uid.into(), owners: owners.to_vec().into(), deletion }
    }

    fn delete(uids: &[&str]) -> Work {
        Work { delete: uids.iter().map(|uid| Uid::from(*uid)).collect(), orphan: BTreeSet::new() }
    }

    #[test]
    fn an_owner_that_was_never_observed_is_enqueued() {
        let mut graph = Graph::default();
        assert_eq!(graph.apply(seen("a", &[owner("o", None)], Deletion::None)), delete(&["o"]));
        assert_eq!(graph.apply(seen("a", &[owner("o", None)], Deletion::None)), delete(&[]), "only when it is named anew");
        assert_eq!(graph.apply(seen("o", &[], Deletion::None)), delete(&[]));
        assert_eq!(graph.apply(seen("b", &[owner("o", None)], Deletion::None)), delete(&[]));
        assert_eq!(graph.remove(&"o".into()), delete(&["a", "b"]));
        assert_eq!(graph.apply(seen("c", &[owner("o", None)], Deletion::None)), delete(&["o"]), "it may be gone: it is looked for again");
        graph.apply(seen("o", &[], Deletion::None));
        assert_eq!(graph.remove(&"o".into()), delete(&["a", "b", "c"]));
    }

    #[test]
    fn foreground_deletion_concerns_all_dependents_and_later_ones() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        graph.apply(seen("a", &[owner("o", Some(true))], Deletion::None));
        graph.apply(seen("b", &[owner("o", None)], Deletion::None));
        assert_eq!(graph.apply(seen("o", &[], Deletion::Foreground)), delete(&["a", "b", "o"]));
        assert_eq!(graph.apply(seen("o", &[], Deletion::Foreground)), delete(&[]), "only once");
        assert_eq!(graph.blocking(&"o".into()).map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(graph.apply(seen("c", &[owner("o", Some(true))], Deletion::None)), delete(&["c"]));
        assert_eq!(graph.apply(seen("c", &[owner("o", Some(false))], Deletion::None)), delete(&["o"]));
        assert_eq!(graph.remove(&"a".into()), delete(&["o"]));
    }

    #[test]
    fn an_object_that_names_its_owner_wrongly_is_verified() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        let wrong = OwnerReference { name: "other".into(), ..owner("o", None) };
        assert_eq!(graph.apply(seen("a", &[wrong], Deletion::None)), delete(&["a"]));
    }

    #[test]
    fn orphaning_is_requested_and_nodes_that_no_dependent_names_are_forgotten() {
        let mut graph = Graph::default();
        let work = graph.apply(seen("o", &[], Deletion::Orphan));
        assert_eq!((work.orphan.len(), work.delete.len()), (1, 0));
        graph.apply(seen("a", &[owner("virtual", None)], Deletion::None));
        graph.apply(seen("a", &[], Deletion::None));
        assert!(graph.node(&"virtual".into()).is_none());
        graph.remove(&"o".into());
        graph.remove(&"a".into());
        assert!(graph.nodes.is_empty());
    }

    #[test]
    fn dependents_show_a_foreground_deletion() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        assert_eq!(graph.dependents(&"o".into()), Dependents::None);
        graph.apply(seen("a", &[owner("o", None)], Deletion::None));
        assert_eq!(graph.dependents(&"o".into()), Dependents::Some);
        graph.apply(seen("b", &[owner("o", None)], Deletion::Foreground));
        assert_eq!(graph.dependents(&"o".into()), Dependents::SomeForeground);
    }

    #[test]
    fn an_owner_that_stays_is_not_concerned_by_a_dependent_that_goes() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        graph.apply(seen("a", &[owner("o", None)], Deletion::None));
        let node = graph.node(&"o".into()).expect("it is there");
        assert_eq!((node.observed, node.dependents.len(), node.key.name.as_str()), (Observed::Seen, 1, "o"));
        assert_eq!(graph.remove(&"a".into()), delete(&[]));
        assert_eq!(graph.node(&"o".into()).map(|node| node.dependents.len()), Some(0), "also without dependents");
    }
}
