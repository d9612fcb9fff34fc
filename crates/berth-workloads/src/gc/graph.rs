//! Who depends on whom, by uid, and whom each change concerns.

use super::decide::Dependents;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::{BTreeMap, BTreeSet};

/// Where an object is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coordinates {
    /// `apps/v1`.
    pub api_version: String,
    /// `ReplicaSet`.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How an object is being deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// It is not.
    #[default]
    None,
    /// It waits for its dependents.
    Foreground,
    /// Its dependents are being freed.
    Orphan,
    /// Something else holds it: a grace period, another finalizer.
    Other,
}

/// An object as a watch shows it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Where it is.
    pub coordinates: Coordinates,
    /// Its uid.
    pub uid: String,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// How it is being deleted.
    pub deletion: Deletion,
}

/// An object of the graph.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Where it is, or where a dependent says it is.
    pub coordinates: Coordinates,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Uids of those that name it as an owner.
    pub dependents: BTreeSet<String>,
    /// How it is being deleted.
    pub deletion: Deletion,
    /// Whether a watch has shown it, or only a dependent has named it.
    pub observed: Observed,
}

/// How an object is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observed {
    /// A dependent names it; whether it exists must be found out.
    #[default]
    Named,
    /// A watch has shown it.
    Seen,
}

/// Uids to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Whether to delete them.
    pub delete: BTreeSet<String>,
    /// Their dependents are to be freed.
    pub orphan: BTreeSet<String>,
}

/// All objects and their references.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<String, Node>,
}

impl Graph {
    /// One object.
    #[must_use]
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Takes in that an object is there, or has changed. Gives whom that concerns.
    pub fn apply(&mut self, seen: Seen) -> Work {
        let mut work = Work::default();
        let node = self.nodes.entry(seen.uid.clone()).or_default();
        let before = (std::mem::take(&mut node.owners), node.deletion);
        node.observed = Observed::Seen;
        node.coordinates = seen.coordinates;
        node.owners.clone_from(&seen.owners);
        node.deletion = seen.deletion;
        if before.1 != seen.deletion {
            begin(&seen.uid, node, &mut work);
        }
        self.unlink(&seen.uid, &before.0, &seen.owners, &mut work);
        self.link(&seen.uid, &before.0, &seen.owners, &mut work);
        work
    }

    /// Takes in that an object is gone. Gives whom that concerns.
    pub fn remove(&mut self, uid: &str) -> Work {
        let mut work = Work::default();
        let Some(node) = self.nodes.get_mut(uid) else { return work };
        let gone = std::mem::take(node);
        if gone.dependents.is_empty() {
            self.nodes.remove(uid);
        } else {
            // Its dependents still name it; should it be seen (again), they are known.
            work.delete.extend(gone.dependents.iter().cloned());
            *node = Node { coordinates: gone.coordinates, dependents: gone.dependents, ..Node::default() };
        }
        self.unlink(uid, &gone.owners, &[], &mut work);
        work
    }

    /// What depends on an object.
    #[must_use]
    pub fn dependents(&self, uid: &str) -> Dependents {
        if self.dependent_nodes(uid).any(|(_, node)| node.deletion == Deletion::Foreground) {
            Dependents::SomeForeground
        } else if self.dependent_nodes(uid).next().is_some() {
            Dependents::Some
        } else {
            Dependents::None
        }
    }

    /// The dependents whose references hold up the foreground deletion of an object.
    pub fn blocking<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = (&'a String, &'a Node)> {
        self.dependent_nodes(uid).filter(move |(_, node)| node.owners.iter().any(|owner| owner.uid == uid && is_blocking(owner)))
    }

    /// All dependents of an object.
    pub fn dependent_nodes<'a>(&'a self, uid: &str) -> impl Iterator<Item = (&'a String, &'a Node)> {
        let uids = self.nodes.get(uid).into_iter().flat_map(|node| &node.dependents);
        uids.filter_map(|dependent| self.nodes.get_key_value(dependent))
    }

    /// Takes `uid` off the owners that it no longer names. An owner that waits may wait no longer.
    fn unlink(&mut self, uid: &str, before: &[OwnerReference], after: &[OwnerReference], work: &mut Work) {
        for old in before {
            let new = after.iter().find(|owner| owner.uid == old.uid);
            let unblocked = is_blocking(old) && !new.is_some_and(is_blocking);
            let Some(owner) = self.nodes.get_mut(&old.uid) else { continue };
            if unblocked || (new.is_none() && owner.deletion == Deletion::Foreground) {
                work.delete.insert(old.uid.clone());
            }
            if new.is_none() {
                owner.dependents.remove(uid);
                if owner.observed == Observed::Named && owner.dependents.is_empty() {
                    self.nodes.remove(&old.uid);
                }
            }
        }
    }

    /// Puts `uid` among the dependents of the owners that it names now. An owner that nobody has seen must be looked for; an owner that
    /// waits must learn of one more.
    fn link(&mut self, uid: &str, before: &[OwnerReference], after: &[OwnerReference], work: &mut Work) {
        let namespace = self.nodes.get(uid).map(|node| node.coordinates.namespace.clone()).unwrap_or_default();
        for new in after.iter().filter(|new| !before.iter().any(|old| old.uid == new.uid)) {
            let named = Coordinates {
                api_version: new.api_version.clone(),
                kind: new.kind.clone(),
                namespace: namespace.clone(),
                name: new.name.clone(),
            };
            let owner = self.nodes.entry(new.uid.clone()).or_insert_with(|| Node { coordinates: named.clone(), ..Node::default() });
            owner.dependents.insert(uid.to_owned());
            if owner.observed == Observed::Named {
                work.delete.insert(new.uid.clone());
            }
            if owner.deletion == Deletion::Foreground || !is_same_place(&owner.coordinates, &named) {
                work.delete.insert(uid.to_owned());
            }
        }
    }
}

/// A deletion begins, or changes its way.
fn begin(uid: &str, node: &Node, work: &mut Work) {
    match node.deletion {
        Deletion::Foreground => {
            work.delete.extend(node.dependents.iter().cloned());
            work.delete.insert(uid.to_owned());
        }
        Deletion::Orphan => drop(work.orphan.insert(uid.to_owned())),
        Deletion::None | Deletion::Other => (),
    }
}

/// Whether `named` leads to the object. A cluster-scoped owner is in no namespace, whatever its dependent's is.
fn is_same_place(there: &Coordinates, named: &Coordinates) -> bool {
    let is_there = there.api_version == named.api_version && there.kind == named.kind && there.name == named.name;
    is_there && (there.namespace.is_empty() || there.namespace == named.namespace)
}

/// Whether the reference holds up its owner's foreground deletion. Missing means that it does not.
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
        let coordinates = Coordinates { api_version: "v1".into(), kind: "Thing".into(), namespace: "ns".into(), name: uid.into() };
        Seen { coordinates, uid: uid.into(), owners: owners.to_vec(), deletion }
    }

    fn delete(uids: &[&str]) -> Work {
        Work { delete: uids.iter().map(|uid| (*uid).to_owned()).collect(), orphan: BTreeSet::new() }
    }

    #[test]
    fn an_owner_that_nobody_has_seen_is_looked_for() {
        let mut graph = Graph::default();
        assert_eq!(graph.apply(seen("a", &[owner("o", None)], Deletion::None)), delete(&["o"]));
        assert_eq!(graph.apply(seen("a", &[owner("o", None)], Deletion::None)), delete(&[]), "only when it is named anew");
        assert_eq!(graph.apply(seen("o", &[], Deletion::None)), delete(&[]));
        assert_eq!(graph.apply(seen("b", &[owner("o", None)], Deletion::None)), delete(&[]));
        assert_eq!(graph.remove("o"), delete(&["a", "b"]));
        assert_eq!(graph.apply(seen("c", &[owner("o", None)], Deletion::None)), delete(&["o"]), "it may be gone: it is looked for again");
        graph.apply(seen("o", &[], Deletion::None));
        assert_eq!(graph.remove("o"), delete(&["a", "b", "c"]));
    }

    #[test]
    fn foreground_deletion_concerns_all_dependents_and_later_ones() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        graph.apply(seen("a", &[owner("o", Some(true))], Deletion::None));
        graph.apply(seen("b", &[owner("o", None)], Deletion::None));
        assert_eq!(graph.apply(seen("o", &[], Deletion::Foreground)), delete(&["a", "b", "o"]));
        assert_eq!(graph.apply(seen("o", &[], Deletion::Foreground)), delete(&[]), "only once");
        assert_eq!(graph.blocking("o").map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(graph.apply(seen("c", &[owner("o", Some(true))], Deletion::None)), delete(&["c"]));
        assert_eq!(graph.apply(seen("c", &[owner("o", Some(false))], Deletion::None)), delete(&["o"]));
        assert_eq!(graph.remove("a"), delete(&["o"]));
    }

    #[test]
    fn an_object_that_names_its_owner_wrongly_is_verified() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        let wrong = OwnerReference { name: "other".into(), ..owner("o", None) };
        assert_eq!(graph.apply(seen("a", &[wrong], Deletion::None)), delete(&["a"]));
    }

    #[test]
    fn orphaning_is_asked_for_and_nodes_that_nobody_names_are_forgotten() {
        let mut graph = Graph::default();
        let work = graph.apply(seen("o", &[], Deletion::Orphan));
        assert_eq!((work.orphan.len(), work.delete.len()), (1, 0));
        graph.apply(seen("a", &[owner("virtual", None)], Deletion::None));
        graph.apply(seen("a", &[], Deletion::None));
        assert!(graph.node("virtual").is_none());
        graph.remove("o");
        graph.remove("a");
        assert!(graph.nodes.is_empty());
    }

    #[test]
    fn dependents_tell_of_foreground_deletion() {
        let mut graph = Graph::default();
        graph.apply(seen("o", &[], Deletion::None));
        assert_eq!(graph.dependents("o"), Dependents::None);
        graph.apply(seen("a", &[owner("o", None)], Deletion::None));
        assert_eq!(graph.dependents("o"), Dependents::Some);
        graph.apply(seen("b", &[owner("o", None)], Deletion::Foreground));
        assert_eq!(graph.dependents("o"), Dependents::SomeForeground);
    }
}
