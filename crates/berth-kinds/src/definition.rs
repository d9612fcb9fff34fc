//! What an author writes to define a kind.

use crate::{Components, Content, Conversion, JsonPath, Source, Strategy, Structural, Type};
use berth_api::{
    FieldError, ObjectRules, Path, Scope,
    names::{check_dns_1035_label, check_dns_subdomain},
};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt, sync::Arc};

/// A kind as data. A custom resource definition makes the same value at run time.
#[derive(Clone)]
pub struct Definition {
    /// Empty for core.
    pub group: String,
    /// What the kind is called.
    pub names: Names,
    /// Namespaced or not.
    pub scope: Scope,
    /// In order of preference. Exactly one is the storage version.
    pub versions: Vec<Version>,
    /// From one version to another.
    pub conversion: Conversion,
    /// How its objects are read and written.
    pub form: Form,
    /// The rules that are generic of an object.
    pub rules: ObjectRules,
    /// What every object has before a manager owns a field.
    pub empty: Value,
    /// The members that lead to the template of its pods. Empty: it has none.
    pub pod_template: &'static [&'static str],
    /// What a schema cannot express.
    pub strategy: Option<Arc<dyn Strategy>>,
}

/// What a kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// `Deployment`.
    pub kind: String,
    /// `deployments`.
    pub plural: String,
    /// `deployment`.
    pub singular: String,
    /// `deploy`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// The kind of a list of such objects: `DeploymentList`.
    pub list_kind: String,
}

/// One version of a kind.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// `v1`.
    pub name: String,
    /// Whether clients can use it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// What its objects hold.
    pub schema: Structural,
    /// The schema as its author wrote it, with descriptions, for OpenAPI. `None`: OpenAPI publishes `schema`.
    pub source: Option<Source>,
    /// Whether it has a status, which `/status` alone writes.
    pub status: bool,
    /// Whether `/approval` writes the conditions of its status.
    pub approval: bool,
    /// What `/scale` reads and writes. `None`: it has no such subresource.
    pub scale: Option<ScalePaths>,
    /// What a Table shows besides the name.
    pub columns: Vec<Column>,
    /// What field selectors can name besides name and namespace.
    pub selectable_fields: Vec<SelectableField>,
    /// The warning to clients of a deprecated version. `None`: it is not deprecated.
    pub deprecation_warning: Option<String>,
}

/// Where `/scale` finds what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    /// `.spec.replicas`.
    pub spec_replicas: JsonPath,
    /// `.status.replicas`.
    pub status_replicas: JsonPath,
    /// `.status.selector`: a selector as text.
    pub label_selector: Option<JsonPath>,
}

/// A column of a Table.
#[derive(Clone, Debug)]
pub struct Column {
    /// As kubectl prints it.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the column of the name, else mostly empty.
    pub format: String,
    /// 0: always shown. 1: only in wide output.
    pub priority: i32,
    /// What people read.
    pub description: String,
    /// Where the value is.
    pub cell: Cell,
}

/// The value of a column.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The object's name.
    Name,
    /// How old the object is, as text.
    Age,
    /// When the object was created.
    Created,
    /// The first value at this path.
    Path(JsonPath),
    /// How long ago the time at this path was, as text.
    Since(JsonPath),
    /// How long after the first time the second one was, as text. Without the second one: how long ago the first one was.
    Elapsed(JsonPath, JsonPath),
    /// What a function returns. For kinds that upstream prints by code.
    Computed(fn(&Content) -> Value),
}

/// A field that a field selector can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// As selectors name it: `spec.color`.
    pub name: String,
    /// The members that lead to it.
    pub fields: Vec<String>,
}

/// How objects are read and written.
#[derive(Clone, Debug, Default)]
pub enum Form {
    /// As upstream's custom resources: any JSON is read, pruned, and judged by its schema.
    #[default]
    Custom,
    /// As upstream's Go types: a value of a wrong type cannot be read, a null is an empty value, and fields that are empty are left out.
    Native {
        /// What it is made of.
        types: Arc<Components>,
        /// Adds the Rust types of the same names to a generator. OpenAPI takes the descriptions of `types` from them.
        described_by: fn(&mut SchemaGenerator) -> Schema,
    },
}

impl Definition {
    /// The [`empty`](Self::empty) of custom resources.
    #[must_use]
    pub fn only_metadata() -> Value {
        json!({"metadata": {}})
    }
}

impl Names {
    /// A kind whose singular is its name in lower case.
    #[must_use]
    pub fn of(kind: &str, plural: &str) -> Self {
        let list_kind = format!("{kind}List");
        Self { kind: kind.to_owned(), plural: plural.to_owned(), singular: kind.to_lowercase(), list_kind, ..Self::default() }
    }
}

impl Column {
    /// A column of texts that is always shown. Its cell is the name until it is set.
    #[must_use]
    pub fn text(name: &str, description: &str) -> Self {
        let (name, kind, description) = (name.to_owned(), "string".to_owned(), description.to_owned());
        Self { name, kind, format: String::new(), priority: 0, description, cell: Cell::Name }
    }

    /// The column of the object's age.
    #[must_use]
    pub fn age() -> Self {
        Self { cell: Cell::Age, ..Self::text("Age", "How long ago the object was created.") }
    }

    /// The column of the object's creation, of kinds that upstream prints without columns of their own.
    #[must_use]
    pub fn created() -> Self {
        Self { kind: "date".to_owned(), cell: Cell::Created, ..Self::text("Created At", "When the object was created.") }
    }

    /// The column of the name.
    #[must_use]
    pub fn of_name(description: &str) -> Self {
        Self { format: "name".to_owned(), ..Self::text("Name", description) }
    }
}

impl SelectableField {
    /// The field at a path of members: `.spec.color`.
    ///
    /// # Errors
    /// A path that leads through lists.
    pub fn at(path: &JsonPath) -> Result<Self, &'static str> {
        let fields: Vec<String> =
            path.fields().ok_or("is an invalid path: does not refer to a valid field")?.into_iter().map(str::to_owned).collect();
        Ok(Self { name: fields.join("."), fields })
    }
}

/// Types of columns.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// How many fields of a version can be selected by.
const SELECTABLE_FIELDS_MAX: usize = 8;

impl Definition {
    /// What contradicts itself, in upstream's words. Paths are those of a custom resource definition.
    #[must_use]
    pub fn check(&self) -> Vec<FieldError> {
        let mut faults = Vec::new();
        let path = Path::new("spec");
        self.check_names(&path, &mut faults);
        let versions = path.child("versions");
        let names: Vec<&str> = self.versions.iter().map(|version| version.name.as_str()).collect();
        if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
            faults.push(FieldError::invalid(&versions, json!(names), "must contain unique version names"));
        }
        if self.versions.iter().filter(|version| version.storage).count() != 1 {
            faults.push(FieldError::invalid(&versions, json!(names), "must have exactly one version marked as storage version"));
        }
        for (index, version) in self.versions.iter().enumerate() {
            version.check(&versions.index(index), &mut faults);
        }
        faults
    }

    fn check_names(&self, path: &Path, faults: &mut Vec<FieldError>) {
        let Names { kind, plural, singular, short_names, categories, .. } = &self.names;
        let group = path.child("group");
        let mut form = |path: &Path, text: &str, check: fn(&str) -> Vec<String>, before: &str| {
            faults.extend(check(text).into_iter().map(|why| FieldError::invalid(path, text, format!("{before}{why}"))));
        };
        if matches!(self.form, Form::Custom) {
            form(&group, &self.group, check_dns_subdomain, "");
        }
        let names = path.child("names");
        form(&names.child("plural"), plural, check_dns_1035_label, "");
        form(&names.child("singular"), singular, check_dns_1035_label, "");
        let lower = kind.to_lowercase();
        for why in check_dns_1035_label(&lower) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            faults.push(FieldError::invalid(&names.child("kind"), kind.as_str(), why));
        }
        for (field, list) in [("shortNames", short_names), ("categories", categories)] {
            for (index, name) in list.iter().enumerate() {
                let at = names.child(field).index(index);
                faults.extend(check_dns_1035_label(name).into_iter().map(|why| FieldError::invalid(&at, name.as_str(), why)));
            }
        }
        if matches!(self.form, Form::Custom) && !self.group.contains('.') {
            faults.push(FieldError::invalid(&group, self.group.as_str(), "should be a domain with at least one dot"));
        }
    }
}

impl Version {
    fn check(&self, path: &Path, faults: &mut Vec<FieldError>) {
        faults.extend(
            check_dns_1035_label(&self.name).into_iter().map(|why| FieldError::invalid(&path.child("name"), self.name.as_str(), why)),
        );
        if self.deprecation_warning.as_ref().is_some_and(String::is_empty) {
            faults.push(FieldError::invalid(&path.child("deprecationWarning"), "", "must not be an empty string"));
        }
        if let Some(scale) = &self.scale {
            scale.check(&path.child("subresources").child("scale"), faults);
        }
        for (index, column) in self.columns.iter().enumerate() {
            let at = path.child("additionalPrinterColumns").index(index);
            if column.name.is_empty() {
                faults.push(FieldError::required(&at.child("name"), ""));
            }
            if !COLUMN_TYPES.contains(&column.kind.as_str()) {
                let why = format!("must be one of {}", COLUMN_TYPES.join(","));
                faults.push(FieldError::invalid(&at.child("type"), column.kind.as_str(), why));
            }
        }
        self.check_selectable_fields(&path.child("selectableFields"), faults);
    }

    fn check_selectable_fields(&self, path: &Path, faults: &mut Vec<FieldError>) {
        if SELECTABLE_FIELDS_MAX < self.selectable_fields.len() {
            faults.push(FieldError::too_many(path, self.selectable_fields.len(), SELECTABLE_FIELDS_MAX));
        }
        for (index, field) in self.selectable_fields.iter().enumerate() {
            let (at, shown) = (path.index(index).child("jsonPath"), format!(".{}", field.name));
            let fields: Vec<&str> = field.fields.iter().map(String::as_str).collect();
            let schema = self.schema.at(&fields).filter(|_| fields.first() != Some(&"metadata"));
            match schema.map(|schema| schema.kind) {
                None => faults.push(FieldError::invalid(&at, shown.as_str(), "is an invalid path: does not refer to a valid field")),
                Some(Some(Type::String | Type::Boolean | Type::Integer)) => (),
                Some(_) => {
                    let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                    faults.push(FieldError::invalid(&at, shown.as_str(), why));
                }
            }
            if self.selectable_fields[..index].contains(field) {
                faults.push(FieldError::duplicate(&at, shown));
            }
        }
    }
}

impl ScalePaths {
    fn check(&self, path: &Path, faults: &mut Vec<FieldError>) {
        let mut under = |name: &str, at: &JsonPath, roots: &[&str]| {
            let root = at.fields().and_then(|fields| fields.first().copied().map(str::to_owned));
            if root.is_none_or(|root| !roots.contains(&root.as_str())) {
                let roots: Vec<String> = roots.iter().map(|root| format!(".{root}")).collect();
                let why = format!("should be a json path under {}", roots.join(" or "));
                faults.push(FieldError::invalid(&path.child(name), at.to_string(), why));
            }
        };
        under("specReplicasPath", &self.spec_replicas, &["spec"]);
        under("statusReplicasPath", &self.status_replicas, &["status"]);
        if let Some(selector) = &self.label_selector {
            under("labelSelectorPath", selector, &["spec", "status"]);
        }
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.names.plural, self.group)
    }
}
