//! Server-side apply of objects of any kind by several managers: what is claimed is there, once is as good as twice, order does not
//! matter to those who share nothing, and ownership is read back as it is written.

use crate::objects::{any_resource, object, schemas};
use arbitrary::{Result, Unstructured};
use berth_api::k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use berth_fieldsets::{Application, Force, Managers, OneVersion, Path, Root, Schema, Set, Update, Writer, apply, update, update_entries};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::OnceLock};

fn schema(api_version: &str) -> &'static Schema {
    static ALL: OnceLock<BTreeMap<String, Schema>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let versions = berth_registry::resource::built_in().stored().map(|resource| resource.api_version());
        versions
            .map(|version| {
                let mut schema = Schema::default();
                schema.add_openapi(schemas(version));
                (version.to_owned(), schema)
            })
            .collect()
    });
    &all[api_version]
}

/// An object and its owners.
#[derive(Clone)]
struct Applied {
    root: Root<'static>,
    empty: Value,
    object: Value,
    managers: Managers,
    now: i64,
}

impl Applied {
    fn new(root: Root<'static>) -> Self {
        let empty = json!({"metadata": {}});
        Self { root, object: empty.clone(), empty, managers: Managers::default(), now: 0 }
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        Time(Timestamp::from_second(self.now).expect("a small number"))
    }

    /// Whether it was done.
    fn apply(&mut self, manager: &str, config: &Value, force: Force) -> bool {
        let (now, writer, ignored) = (self.tick(), writer(manager), Set::default());
        let Applied { root, empty, object: live, .. } = &*self;
        let application =
            Application { root: *root, live, empty, config, writer: &writer, ignored: &ignored, now: Some(&now), versions: &OneVersion };
        let Ok((object, managers)) = apply(&self.managers, &application, force) else { return false };
        // As an object's type does away with them.
        (self.object, self.managers) = (without_nulls(object), managers);
        assert_eq!(Managers::decode(&self.managers.encode()).as_ref(), Ok(&self.managers));
        true
    }

    fn update(&mut self, manager: &str, new: Value) {
        let (now, writer, ignored) = (self.tick(), writer(manager), Set::default());
        let change = Update {
            root: self.root,
            old: &self.object,
            new: &new,
            writer: &writer,
            ignored: &ignored,
            now: Some(&now),
            versions: &OneVersion,
        };
        let entries = update_entries(self.managers.encode(), &change);
        update(&mut self.managers, &change);
        assert_eq!(entries, self.managers.encode());
        self.object = new;
    }
}

fn writer(name: &str) -> Writer {
    Writer { name: name.to_owned(), api_version: "v".to_owned(), subresource: String::new() }
}

/// Whether no field of one is a field of the other or of a part of it.
fn share_nothing(a: &Set, b: &Set) -> bool {
    let (a, b) = (a.leaves().paths(), b.leaves().paths());
    let leads = |Path(a): &Path, Path(b): &Path| b.starts_with(a) || a.starts_with(b);
    !a.iter().any(|a| b.iter().any(|b| leads(a, b)))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().filter(|item| !item.is_null()).map(without_nulls).collect(),
        other => other,
    }
}

/// Without empty containers.
fn without_bare(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().map(|(name, value)| (name, without_bare(value)));
            Value::Object(kept.filter(|(_, value)| *value != json!({}) && *value != json!([])).collect())
        }
        Value::Array(items) => items.into_iter().map(without_bare).filter(|value| *value != json!({}) && *value != json!([])).collect(),
        other => other,
    }
}

fn sort_lists(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort_lists);
            items.sort_by_key(ToString::to_string);
        }
        Value::Object(members) => members.values_mut().for_each(sort_lists),
        _ => (),
    }
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let resource = any_resource(u)?;
    let kind = format!(".{}", resource.kind());
    let name = schemas(resource.api_version()).keys().find(|name| name.ends_with(&kind)).expect("every kind has a schema");
    let root = schema(resource.api_version()).root(name).expect("it was added");
    // A null claims a field and sets nothing, as upstream.
    let [first, second, other] = [object(u, resource)?, object(u, resource)?, object(u, resource)?].map(without_nulls);
    // Which empty containers are left where all in them goes depends on the way, as upstream. They must do no harm.
    let has_bare = u.ratio(1, 4)?;
    let [first, second, other] = if has_bare { [first, second, other] } else { [first, second, other].map(without_bare) };

    let mut applied = Applied::new(root);
    if u.arbitrary()? {
        applied.update("u", second.clone());
    }
    applied.apply("m", &first, Force::Yes);
    applied.apply("n", &other, Force::Yes);
    if u.arbitrary()? {
        applied.update("u", second.clone());
    }
    if applied.apply("m", &second, Force::Yes) && !has_bare {
        let once = applied.clone();
        assert!(applied.apply("m", &second, Force::No), "one's own fields are no conflict");
        assert_eq!(without_bare(applied.object.clone()), without_bare(once.object));
        // Where nothing has an owner, the next apply records what was there, as upstream.
        assert!(once.managers.is_empty() || applied.managers.same_owners(&once.managers), "{second}");
        let missing = root.fields(&without_bare(second.clone())).difference(&root.fields(&applied.object));
        assert!(missing.is_empty(), "{missing:?} of {second} is not in {}", applied.object);
    }

    if !has_bare && share_nothing(&root.fields(&first), &root.fields(&other)) {
        let write = |order: [(&str, &Value); 2]| {
            let mut applied = Applied::new(root);
            let done = order.map(|(manager, config)| applied.apply(manager, config, Force::No));
            sort_lists(&mut applied.object);
            let owned: Vec<_> = applied.managers.0.into_iter().map(|(id, owned)| (id.name, owned.fields)).collect();
            (done == [true; 2]).then_some((without_bare(applied.object), owned))
        };
        assert_eq!(write([("a", &first), ("b", &other)]), write([("b", &other), ("a", &first)]));
    }
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}
