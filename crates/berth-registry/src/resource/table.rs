//! The resource table: the currently served resources, and changes to them.

use super::Resource;
use crate::document::{BuiltOpenApi, Documents};
use berth_api::FieldError;
use berth_identity::{ApiName, GroupResource, GroupVersionKind, GroupVersionResource};
use berth_kinds::{Definition, Kind, version_priority};
use futures::{
    channel::oneshot,
    future::{FutureExt, Shared},
};
use std::{
    cmp::Ordering,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};

/// The resources that are served at one moment, and the documents that describe them.
pub struct Resources {
    /// Grouped by group and version, in order of preference.
    all: Vec<Arc<Resource>>,
    /// The same, sorted by plural and group. Versions of one resource are in order of preference.
    by_name: Vec<Arc<Resource>>,
    /// The same, sorted by kind and version.
    by_kind: Vec<Arc<Resource>>,
    /// One resource per key prefix: the storage version, or otherwise the first. Sorted by prefix.
    by_prefix: Vec<Arc<Resource>>,
    pub(crate) documents: Documents,
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

impl Resources {
    pub(super) fn new(all: Vec<Arc<Resource>>) -> Self {
        Self::with_built(all, BuiltOpenApi::default())
    }

    /// Returns the same with the documents of an earlier table, which are used where nothing changes.
    fn with_built(all: Vec<Arc<Resource>>, built: BuiltOpenApi) -> Self {
        let mut by_name = all.clone();
        by_name.sort_by(|a, b| order(a, b.group(), b.plural()));
        let mut by_prefix: Vec<_> = all.iter().filter(|resource| resource.is_stored()).cloned().collect();
        // Of the versions of one resource, the storage version comes first.
        by_prefix.sort_by(|a, b| a.prefix().cmp(b.prefix()).then_with(|| b.is_stored_version().cmp(&a.is_stored_version())));
        by_prefix.dedup_by(|other, first| other.prefix() == first.prefix());
        let mut by_kind = all.clone();
        by_kind.sort_by(|a, b| a.gvk().cmp(b.gvk()));
        Self { all, by_name, by_kind, by_prefix, documents: Documents { built, ..Documents::default() } }
    }

    /// Returns all resources, in order of preference of their groups.
    #[must_use]
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.all
    }

    /// Returns the stored resources.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.all.iter().filter(|resource| resource.is_stored())
    }

    /// Returns the resource at `/apis/{group}/{version}/…/{plural}`, which may be a review or computed.
    #[must_use]
    pub fn find(&self, name: &GroupVersionResource) -> Option<&Arc<Resource>> {
        self.versions(&name.group, &name.plural).find(|resource| *resource.version() == name.version)
    }

    /// Returns the resource of a stored object with these members: `apps/v1`, `Deployment`.
    #[must_use]
    pub fn by_kind(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.named(kind).filter(|resource| resource.is_stored())
    }

    /// Returns the same, or a resource that is not stored.
    pub(super) fn named(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        let at = self.by_kind.binary_search_by(|resource| resource.gvk().cmp(kind)).ok()?;
        Some(&self.by_kind[at])
    }

    /// Returns the resource of stored objects by its qualified name (`apps`, `deployments`), in the preferred version.
    #[must_use]
    pub fn by_name(&self, name: &GroupResource) -> Option<&Arc<Resource>> {
        self.versions(&name.group, &name.plural).find(|resource| resource.is_stored())
    }

    /// Returns the resource of a stored object by its key or a key prefix. If several resources share the prefix, the
    /// first.
    #[must_use]
    pub fn by_key(&self, text: &str) -> Option<&Arc<Resource>> {
        // No prefix is within another, so only the last one before the key can match.
        let behind = self.by_prefix.partition_point(|resource| resource.prefix() <= text);
        self.by_prefix[..behind].last().filter(|resource| text.starts_with(resource.prefix()))
    }

    fn versions(&self, group: &str, plural: &str) -> impl Iterator<Item = &Arc<Resource>> {
        let first = self.by_name.partition_point(|resource| order(resource, group, plural).is_lt());
        self.by_name[first..].iter().take_while(move |resource| resource.plural() == plural && resource.group() == group)
    }
}

fn order(resource: &Resource, group: &str, plural: &str) -> Ordering {
    (resource.plural().as_str(), resource.group().as_str()).cmp(&(plural, group))
}

/// The resource table: the built-in kinds, and custom kinds that are added and removed at run time.
///
/// A request reads the table once and keeps the result. Kinds change rarely and are read all the time, so each change
/// rebuilds the whole list and its documents.
pub struct ResourceTable {
    current: RwLock<Current>,
}

/// A change of the table because of custom resource definitions.
#[derive(Debug, Default)]
pub struct TableChange {
    /// The resources that are no longer served.
    pub removed: Vec<GroupResource>,
    /// The definitions that are served now. Watches of an earlier definition of the same resource end.
    pub defined: Vec<(Arc<Kind>, Lifecycle)>,
    /// Served definitions whose objects are about to be deleted. Watches continue.
    pub terminating: Vec<Arc<Kind>>,
}

impl TableChange {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.defined.is_empty() && self.terminating.is_empty()
    }
}

/// Whether the objects of a custom resource are about to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// The definition is in use.
    Active,
    /// The definition is being deleted: no object can be created.
    Terminating,
}

/// The served resources until the next change.
struct Current {
    resources: Arc<Resources>,
    life: Life,
}

impl Current {
    fn new(resources: Arc<Resources>) -> Self {
        Self { resources, life: Life::begin() }
    }
}

/// Why a definition cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DefineError {
    /// The definition is inconsistent.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// Another resource has its name or its key prefix.
    #[error(transparent)]
    Taken(#[from] Taken),
}

/// Why a kind cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum Taken {
    /// Another resource has its name or its kind.
    #[error("{} has another resource {plural} or kind {} already", kind.group_version(), kind.kind)]
    Name {
        /// The rejected kind.
        kind: GroupVersionKind,
        /// `deployments`.
        plural: ApiName,
    },
    /// The key prefix overlaps with that of another resource.
    #[error("{prefix} is where another resource is stored")]
    Prefix {
        /// The key prefix.
        prefix: String,
    },
}

impl ResourceTable {
    /// Returns the table of these kinds.
    pub(super) fn of(resources: Arc<Resources>) -> Self {
        Self { current: RwLock::new(Current::new(resources)) }
    }

    /// Returns the currently served resources. Locks briefly.
    #[must_use]
    pub fn resources(&self) -> Arc<Resources> {
        Arc::clone(&self.current().resources)
    }

    /// Returns the currently served resources, and a future that resolves when they change.
    pub fn follow(&self) -> (Arc<Resources>, Ended) {
        let current = self.current();
        (Arc::clone(&current.resources), current.life.ended.clone())
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        // No code panics while it holds the lock, so the content is consistent.
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves another kind. It replaces an added kind of the same group, version and plural.
    ///
    /// # Errors
    /// [`Taken`]: the kind is built in, or another resource has its kind in that version or its key prefix. Nothing
    /// changes then.
    pub fn add(&self, resource: Resource) -> Result<Arc<Resource>, Taken> {
        self.change(|all| add(all, Resource { added: Some(Arc::new(Life::begin())), ..resource }))
    }

    /// Serves the served versions of a definition. They replace those of an earlier definition of the same group and
    /// plural. Objects stored in any version that the definition still has are served in all of them.
    ///
    /// # Errors
    /// The definition is inconsistent, or another resource has one of its names or its key prefix. Nothing changes
    /// then.
    pub fn define(&self, definition: Definition) -> Result<Vec<Arc<Resource>>, DefineError> {
        let kind = Kind::new(definition).map_err(DefineError::Invalid)?;
        Ok(self.change(|all| define(all, &kind, Lifecycle::Active))?)
    }

    /// Does all of a change at once. Returns the definitions that cannot be served, each with the reason. The others
    /// are served.
    pub fn apply(&self, change: &TableChange) -> Vec<(GroupResource, Taken)> {
        self.change(|all| {
            for name in &change.removed {
                undefine(all, name);
            }
            for kind in &change.terminating {
                terminate(all, kind);
            }
            let tried = change.defined.iter().map(|(kind, lifecycle)| (kind.resource(), define(all, kind, *lifecycle)));
            tried.filter_map(|(name, defined)| Some((name.clone(), defined.err()?))).collect()
        })
    }

    /// Stops serving all versions of a definition, and ends their watches. Objects stay in the store. Returns the
    /// versions that were served.
    pub fn undefine(&self, name: &GroupResource) -> Vec<Arc<Resource>> {
        self.change(|all| undefine(all, name))
    }

    /// Stops serving an added kind, and ends its watches. Objects of it stay in the store. Returns the resource, or
    /// `None` if no such kind was added.
    pub fn remove(&self, name: &GroupVersionResource) -> Option<Arc<Resource>> {
        self.change(|all| {
            let is_it = |r: &Arc<Resource>| r.added.is_some() && r.gvr() == *name;
            let removed = all.remove(all.iter().position(is_it)?);
            removed.end();
            Some(removed)
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Resource>>) -> T) -> T {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = current.resources.all.clone();
        let outcome = change(&mut all);
        let built = Arc::clone(&current.resources.documents.built);
        std::mem::replace(&mut *current, Current::new(Arc::new(Resources::with_built(all, built)))).life.end();
        outcome
    }
}

/// Serves the versions of a kind instead of those of an earlier definition, whose watches end. After an error, nothing
/// has changed.
fn define(all: &mut Vec<Arc<Resource>>, kind: &Arc<Kind>, lifecycle: Lifecycle) -> Result<Vec<Arc<Resource>>, Taken> {
    let is_earlier = |resource: &Arc<Resource>| resource.added.is_some() && resource.group_resource() == kind.resource();
    let mut changed: Vec<Arc<Resource>> = all.iter().filter(|resource| !is_earlier(resource)).cloned().collect();
    let versions = Resource::of_kind(kind).into_iter();
    let added: Result<Vec<_>, Taken> =
        versions.map(|resource| add(&mut changed, Resource { lifecycle, added: Some(Arc::new(Life::begin())), ..resource })).collect();
    let added = added?;
    let replaced = std::mem::replace(all, changed);
    replaced.iter().filter(|resource| is_earlier(resource)).for_each(|resource| resource.end());
    Ok(added)
}

fn undefine(all: &mut Vec<Arc<Resource>>, name: &GroupResource) -> Vec<Arc<Resource>> {
    let is_it = |resource: &mut Arc<Resource>| resource.added.is_some() && resource.group_resource() == name;
    let removed: Vec<_> = all.extract_if(.., is_it).collect();
    removed.iter().for_each(|resource| resource.end());
    removed
}

/// Marks the served versions of a kind as terminating, without an end of their watches.
fn terminate(all: &mut [Arc<Resource>], kind: &Arc<Kind>) {
    for resource in Resource::of_kind(kind) {
        let is_it = |other: &&mut Arc<Resource>| other.added.is_some() && other.gvr() == resource.gvr();
        if let Some(served) = all.iter_mut().find(is_it) {
            *served = Arc::new(Resource { lifecycle: Lifecycle::Terminating, added: served.added.clone(), ..resource });
        }
    }
}

/// The key prefix of what servers store for each other, which is not objects.
const INTERNAL: &str = "/registry/berth.dev/";

/// Adds a resource to the served ones.
fn add(all: &mut Vec<Arc<Resource>>, added: Resource) -> Result<Arc<Resource>, Taken> {
    let added = Arc::new(added);
    let is_same = |other: &Resource| other.plural() == added.plural() && other.api_version() == added.api_version();
    let is_in_the_way = |other: &Arc<Resource>| if is_same(other) { other.added.is_none() } else { other.gvk() == added.gvk() };
    if all.iter().any(is_in_the_way) {
        return Err(Taken::Name { kind: added.gvk().clone(), plural: added.plural().clone() });
    }
    let is_internal = added.prefix().starts_with(INTERNAL);
    if is_internal || all.iter().any(|other| !is_version_of(&added, other) && share_keys(&added, other)) {
        return Err(Taken::Prefix { prefix: added.prefix().to_owned() });
    }
    match all.iter().position(|other| is_same(other)) {
        Some(at) => std::mem::replace(&mut all[at], Arc::clone(&added)).end(),
        None => all.insert(place(all, &added), Arc::clone(&added)),
    }
    Ok(added)
}

fn is_version_of(one: &Resource, other: &Resource) -> bool {
    (one.group_resource(), one.scope, one.prefix()) == (other.group_resource(), other.scope, other.prefix())
}

/// Whether a key could belong to both.
fn share_keys(one: &Resource, other: &Resource) -> bool {
    other.is_stored() && (one.prefix().starts_with(other.prefix()) || other.prefix().starts_with(one.prefix()))
}

/// Returns the position of a new resource. In the group of a built-in kind, it is after its version, otherwise after
/// its group. Other groups come last, by name. Their versions are in upstream's order of preference, and the resources
/// of a version are sorted, so that the order of definitions does not matter.
fn place(all: &[Arc<Resource>], new: &Resource) -> usize {
    let last = |is_near: &dyn Fn(&Arc<Resource>) -> bool| all.iter().rposition(is_near);
    if all.iter().any(|other| other.is_built_in() && other.group() == new.group()) {
        let near = last(&|other| other.api_version() == new.api_version()).or_else(|| last(&|other| other.group() == new.group()));
        return near.map_or(all.len(), |near| near + 1);
    }
    let order = |a: &Resource, b: &Resource| {
        let by_version = || version_priority::compare(a.version(), b.version());
        a.group().cmp(b.group()).then_with(by_version).then_with(|| a.plural().cmp(b.plural()))
    };
    let own_groups = all.iter().position(|other| !other.is_built_in() && !is_group_built_in(all, other)).unwrap_or(all.len());
    own_groups + all[own_groups..].partition_point(|other| order(other, new).is_lt())
}

fn is_group_built_in(all: &[Arc<Resource>], resource: &Resource) -> bool {
    all.iter().any(|other| other.is_built_in() && other.group() == resource.group())
}

/// Resolves when a resource is no longer served.
pub type Ended = Shared<oneshot::Receiver<()>>;

/// How long a resource is served.
pub(super) struct Life {
    end: Mutex<Option<oneshot::Sender<()>>>,
    ended: Ended,
}

impl Life {
    fn begin() -> Self {
        let (end, ended) = oneshot::channel();
        Self { end: Mutex::new(Some(end)), ended: ended.shared() }
    }

    fn end(&self) {
        // Dropping the sender wakes the waiting tasks.
        drop(self.end.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Resource {
    /// Whether the resource is built in and therefore always served.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.added.is_none()
    }

    /// Whether its definition is being deleted, so that no object can be created.
    pub(crate) fn is_terminating(&self) -> bool {
        self.lifecycle == Lifecycle::Terminating
    }

    /// Returns a future for the end of serving, or `None` for a built-in kind.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.added.as_ref().map(|life| life.ended.clone())
    }

    fn end(&self) {
        self.added.iter().for_each(|life| life.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Names, of, rules::Typed};
    use berth_api::{Scope, k8s_openapi::api::core::v1::ConfigMap};

    fn resource(api_version: &str, plural: &str, kind: &str) -> Resource {
        let kind = GroupVersionKind::parse(api_version, kind).expect("an API version");
        Resource::new(Names::new(kind, plural), Scope::Namespaced, Typed::<ConfigMap>::new())
    }

    #[test]
    fn an_added_kind_is_found_in_its_group_until_it_is_removed() {
        let table = ResourceTable::default();
        let before = table.resources();
        for (api_version, plural, kind) in [
            ("example.com/v1", "widgets", "Widget"),
            ("apps/v1", "teams", "Team"),
            ("apps/v2", "teams", "Team"),
            ("apps/v1", "bands", "Band"),
        ] {
            table.add(resource(api_version, plural, kind)).expect("free");
        }
        let names = |group: &str| -> Vec<String> {
            let all = table.resources();
            let of_group = all.all().iter().filter(|resource| resource.group() == group).map(|resource| format!("{resource:?}"));
            of_group.collect()
        };
        assert_eq!(names("apps")[5..], ["apps/v1/teams", "apps/v1/bands", "apps/v2/teams"]);
        assert_eq!(table.resources().all().last().map(|last| last.plural().as_str()), Some("widgets"));
        assert_eq!(
            table.resources().by_name(&GroupResource::from_static("apps", "teams")).map(|team| team.api_version().to_owned()).as_deref(),
            Some("apps/v1")
        );
        assert!(table.resources().find(&GroupVersionResource::from_static("apps", "v2", "teams")).is_some());
        assert!(table.resources().by_kind(&GroupVersionKind::from_static("example.com", "v1", "Widget")).is_some());
        assert!(before.by_kind(&GroupVersionKind::from_static("example.com", "v1", "Widget")).is_none(), "who asked before keeps to that");

        assert!(table.remove(&GroupVersionResource::from_static("apps", "v1", "teams")).is_some());
        assert!(table.remove(&GroupVersionResource::from_static("apps", "v1", "teams")).is_none());
        assert_eq!(names("apps")[5..], ["apps/v1/bands", "apps/v2/teams"]);
        assert_eq!(
            table.resources().by_name(&GroupResource::from_static("apps", "teams")).map(|team| team.api_version().to_owned()).as_deref(),
            Some("apps/v2")
        );
    }

    #[test]
    fn own_groups_come_last_by_name_and_their_versions_by_preference() {
        let orders = [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]];
        for order in orders {
            let table = ResourceTable::default();
            let all = [
                ("b.com/v1", "as", "A"),
                ("a.com/v1alpha1", "as", "A"),
                ("a.com/v1", "bs", "B"),
                ("a.com/v1", "as", "A"),
                ("a.com/v10", "as", "A"),
                ("apps/v9", "as", "A"),
            ];
            for at in order {
                let (api_version, plural, kind) = all[at];
                table.add(resource(api_version, plural, kind)).expect("free");
            }
            let resources = table.resources();
            let last: Vec<String> = resources.all().iter().rev().take(5).rev().map(|resource| format!("{resource:?}")).collect();
            assert_eq!(last, ["a.com/v10/as", "a.com/v1/as", "a.com/v1/bs", "a.com/v1alpha1/as", "b.com/v1/as"], "{order:?}");
        }
    }

    #[test]
    fn what_is_built_in_stays_and_kinds_do_not_share_a_name() {
        let table = ResourceTable::default();
        assert!(table.remove(&GroupVersionResource::from_static("", "v1", "configmaps")).is_none());
        for (api_version, plural, kind) in [("v1", "configmaps", "Other"), ("v1", "others", "ConfigMap")] {
            let taken = table.add(resource(api_version, plural, kind)).expect_err("built in").to_string();
            assert_eq!(taken, format!("v1 has another resource {plural} or kind {kind} already"));
        }
        table.add(resource("example.com/v1", "widgets", "Widget")).expect("free");
        assert!(table.add(resource("example.com/v1", "gadgets", "Widget")).is_err());
        assert!(Arc::ptr_eq(
            table.resources().by_name(&GroupResource::from_static("", "configmaps")).expect("built in"),
            of::<ConfigMap>()
        ));
    }

    #[test]
    fn a_kind_is_stored_where_no_other_is() {
        let table = ResourceTable::default();
        let add = |api_version: &str, plural: &str, kind: &str, path: &str| {
            table.add(resource(api_version, plural, kind).stored_at(path)).map(drop)
        };
        add("example.com/v1", "widgets", "Widget", "things/widgets").expect("free");
        add("example.com/v2", "widgets", "Widget", "things/widgets").expect("another version of it");
        add("example.com/v1", "gadgets", "Gadget", "things/widgetsandmore").expect("beside it");
        for path in ["things/widgets", "things", "things/widgets/red", "configmaps", "services", "berth.dev/servers"] {
            let taken = add("example.com/v1", "others", "Other", path).expect_err(path).to_string();
            assert_eq!(taken, format!("/registry/{path}/ is where another resource is stored"));
        }
        let all = table.resources();
        let of_key = |text: &str| all.by_key(text).map(|resource| format!("{resource:?}"));
        assert_eq!(of_key("/registry/things/widgets/a/b").as_deref(), Some("example.com/v2/widgets"), "the preferred version");
        assert_eq!(of_key("/registry/things/widgets/").as_deref(), Some("example.com/v2/widgets"));
        assert_eq!(of_key("/registry/things/widgetsandmore/a/b").as_deref(), Some("example.com/v1/gadgets"));
        assert_eq!(of_key("/registry/events/a/b").as_deref(), Some("v1/events"));
        for other in ["/registry/things/", "/registry/things/widgets", "/registry/things/others/a", "/registry/zebras/a", ""] {
            assert_eq!(of_key(other), None, "{other}");
        }
    }

    #[test]
    fn a_kind_ends_when_it_is_removed_or_replaced() {
        let table = ResourceTable::default();
        let first = table.add(resource("example.com/v1", "widgets", "Widget")).expect("free");
        let is_over = |resource: &Resource| resource.ended().expect("added").now_or_never().is_some();
        assert!(!is_over(&first));
        let second = table.add(resource("example.com/v1", "widgets", "Gadget")).expect("in its place");
        assert_eq!((is_over(&first), is_over(&second)), (true, false));
        table.remove(&GroupVersionResource::from_static("example.com", "v1", "widgets")).expect("added");
        assert!(is_over(&second));
        assert!(of::<ConfigMap>().ended().is_none());
    }
}
