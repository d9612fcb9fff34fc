//! The names of a custom resource: which of those that a definition requests the server accepts.
//!
//! Source: upstream `apiextensions-apiserver/pkg/controller/status/naming_controller.go`.

use super::condition::CustomCondition;
use crate::Names;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The names that the server accepted for the definitions of a group, each with the definitions that have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenNames {
    /// Plural, singular and short names.
    resources: Owners,
    /// Kinds and kinds of lists.
    kinds: Owners,
}

type Owners = BTreeMap<String, BTreeSet<String>>;

impl TakenNames {
    /// The names of all definitions of `group`.
    #[must_use]
    pub fn of<'v>(definitions: impl IntoIterator<Item = &'v Value>, group: &str) -> Self {
        let mut taken = Self::default();
        for definition in definitions.into_iter().filter(|definition| definition["spec"]["group"] == group) {
            taken.add(definition);
        }
        taken
    }

    /// Adds the names of a definition.
    pub fn add(&mut self, definition: &Value) {
        let of = definition["metadata"]["name"].as_str().unwrap_or_default();
        let names = names_of(&definition["status"]["acceptedNames"]);
        for name in [names.plural, names.singular].into_iter().chain(names.short_names) {
            self.resources.entry(name).or_default().insert(of.to_owned());
        }
        for kind in [names.kind, names.list_kind] {
            self.kinds.entry(kind).or_default().insert(of.to_owned());
        }
    }

    /// Removes the names of a definition, as it had them when it was added.
    pub fn remove(&mut self, definition: &Value) {
        let of = definition["metadata"]["name"].as_str().unwrap_or_default();
        let names = names_of(&definition["status"]["acceptedNames"]);
        let resources = [names.plural, names.singular].into_iter().chain(names.short_names);
        resources.for_each(|name| _ = self.resources.get_mut(&name).map(|owners| owners.remove(of)));
        [names.kind, names.list_kind].iter().for_each(|kind| _ = self.kinds.get_mut(kind).map(|owners| owners.remove(of)));
    }
}

/// Whether another definition than `own` has the name.
fn is_taken(owners: &Owners, name: &str, own: &str) -> bool {
    owners.get(name).is_some_and(|owners| owners.iter().any(|owner| owner != own))
}

/// What the server decides about the names of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct NamePlan {
    /// The accepted names: a name that is taken is as it was.
    pub accepted: Names,
    /// The condition `NamesAccepted`.
    pub condition: CustomCondition,
}

/// Decides which of the `requested` names of the definition `own` the server accepts. A name that it has `accepted` before stays accepted.
#[must_use]
pub fn plan_names(requested: &Names, accepted: &Names, taken: &TakenNames, own: &str) -> NamePlan {
    let mut plan = Naming { own, accepted: accepted.clone(), conflict: None };
    plan.accept("PluralConflict", &requested.plural, &taken.resources, |names| &mut names.plural);
    plan.accept("SingularConflict", &requested.singular, &taken.resources, |names| &mut names.singular);
    plan.accept_short_names(requested, accepted, &taken.resources);
    plan.accept("KindConflict", &requested.kind, &taken.kinds, |names| &mut names.kind);
    plan.accept("ListKindConflict", &requested.list_kind, &taken.kinds, |names| &mut names.list_kind);
    plan.accepted.categories.clone_from(&requested.categories);
    let condition = plan.conflict.unwrap_or_else(|| CustomCondition::of("NamesAccepted", "True", "NoConflicts", "no conflicts found"));
    NamePlan { accepted: plan.accepted, condition }
}

struct Naming<'n> {
    own: &'n str,
    accepted: Names,
    conflict: Option<CustomCondition>,
}

impl Naming<'_> {
    /// The last conflict is the one that the condition reports.
    fn conflict(&mut self, reason: &str, message: &str) {
        self.conflict = Some(CustomCondition::of("NamesAccepted", "False", reason, message));
    }

    fn accept(&mut self, reason: &str, requested: &str, taken: &Owners, field: fn(&mut Names) -> &mut String) {
        let is_taken = is_taken(taken, requested, self.own);
        let accepted = field(&mut self.accepted);
        if requested == accepted.as_str() || !is_taken {
            requested.clone_into(accepted);
        } else {
            self.conflict(reason, &in_use(requested));
        }
    }

    /// All of them are accepted, or none of the new ones.
    fn accept_short_names(&mut self, requested: &Names, accepted: &Names, taken: &Owners) {
        let is_new = |name: &&String| !accepted.short_names.contains(name) && is_taken(taken, name, self.own);
        let conflicts: Vec<String> = requested.short_names.iter().filter(is_new).map(|name| in_use(name)).collect();
        match conflicts.as_slice() {
            [] => self.accepted.short_names.clone_from(&requested.short_names),
            [conflict] => self.conflict("ShortNamesConflict", conflict),
            conflicts => self.conflict("ShortNamesConflict", &format!("[{}]", conflicts.join(", "))),
        }
    }
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

/// Reads `spec.names` or `status.acceptedNames`. Absent names are empty.
#[must_use]
pub fn names_of(names: &Value) -> Names {
    let text = |name: &str| names[name].as_str().unwrap_or_default().to_owned();
    let texts = |name: &str| names[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Names {
        kind: text("kind"),
        plural: text("plural"),
        singular: text("singular"),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        list_kind: text("listKind"),
    }
}

/// Names as `status.acceptedNames` has them.
pub(super) fn to_value(names: &Names) -> Value {
    let mut value = Map::from_iter([("kind".to_owned(), json!(names.kind)), ("plural".to_owned(), json!(names.plural))]);
    let texts = [("listKind", &names.list_kind), ("singular", &names.singular)];
    value.extend(texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name.to_owned(), json!(text))));
    let lists = [("categories", &names.categories), ("shortNames", &names.short_names)];
    value.extend(lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name.to_owned(), json!(list))));
    Value::Object(value)
}
