//! Whether a custom resource definition is valid, in upstream's words.
//!
//! Upstream's internal type has schema, subresources, columns and selectable fields once, if all versions have equal ones. Its messages name the fields
//! of that type: `spec.validation.openAPIV3Schema`, `spec.additionalPrinterColumns`.
//!
//! Source: upstream `apiextensions/validation/validation.go`, `apiextensions/v1/conversion.go`.

use super::approval::{self, Approval};
use crate::{
    Structural, Type,
    members::{list, text},
    structural::unrecognized_formats,
    webhook_client::{bundle_problem, validate_client, validate_review_versions},
};
use berth_api::{
    FieldError, Path,
    faults::Faults,
    names::{check_dns_1035_label, check_dns_subdomain},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
};

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Members of the root of a schema beside a status that is written by itself.
const BESIDE_STATUS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const SELECTABLE_FIELDS_MAX: usize = 8;
const WARNING_LETTERS_MAX: usize = 256;
const SIMPLE_PATH: &str = "must be a simple json path starting with .";
const IMMUTABLE: &str = "field is immutable";

/// The faults of a new definition, without those of generic metadata. The object has its defaults.
pub(crate) fn validate(meta: &ObjectMeta, object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let spec = &object["spec"];
    let name = meta.name.as_deref().unwrap_or_default();
    if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        faults.invalid(&Path::new("metadata").child("name"), name, "must be spec.names.plural+\".\"+spec.group");
    }
    // Upstream accepts any bundle here. A definition with an invalid one is not established.
    faults.add(validate_both(object, Bundle::Any));
    validate_stored_versions(list(&object["status"], "storedVersions"), list(spec, "versions"), &mut faults);
    faults.add(validate_approval(meta, object));
    faults.into_vec()
}

fn validate_stored_versions(stored: &[Value], versions: &[Value], faults: &mut Faults) {
    let path = Path::new("status").child("storedVersions");
    if stored.is_empty() {
        return faults.invalid(&path, Value::Null, "must have at least one stored version");
    }
    let mut left: BTreeMap<&str, usize> = stored.iter().enumerate().filter_map(|(index, name)| Some((name.as_str()?, index))).collect();
    for version in versions {
        let name = text(version, "name");
        if left.remove(name).is_none() && is(version, "storage") {
            faults.invalid(&path, stored.to_vec(), format!("must have the storage version {name}"));
        }
    }
    for (name, index) in left {
        faults.invalid(&path.index(index), name, "must appear in spec.versions");
    }
}

/// The faults of an update of `old`.
pub(crate) fn validate_update((meta, object): (&ObjectMeta, &Value), (old_meta, old): (&ObjectMeta, &Value)) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (spec, old_spec, path) = (&object["spec"], &old["spec"], Path::new("spec"));
    let is_established = super::is_established(old);
    faults.add(validate_both(object, if is_established { Bundle::Valid } else { Bundle::Any }));
    if is_established {
        let names = path.child("names");
        let of_names = [("plural", &names), ("kind", &names)]
            .map(|(field, path)| (path.child(field), &spec["names"][field], &old_spec["names"][field]));
        let of_spec = ["group", "scope"].map(|field| (path.child(field), &spec[field], &old_spec[field]));
        for (path, new, _) in of_spec.into_iter().chain(of_names).filter(|(_, new, old)| new != old) {
            faults.invalid(&path, new.clone(), IMMUTABLE);
        }
    }
    let known: BTreeSet<&str> = list(spec, "versions").iter().map(|version| text(version, "name")).collect();
    for (index, version) in list(&object["status"], "storedVersions").iter().filter_map(Value::as_str).enumerate() {
        if !known.contains(version) {
            let why = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage \
                 migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
            );
            faults.invalid(&Path::new("status").child("storedVersions").index(index), version, why);
        }
    }
    // What is as little approved as it was stays: another author may have changed the rest.
    if discriminant(&approval_of(meta)) != discriminant(&approval_of(old_meta)) {
        faults.add(validate_approval(meta, object));
    }
    faults.into_vec()
}

/// The faults of a write to `/status`.
pub(crate) fn validate_status(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    validate_names(&object["status"]["acceptedNames"], &Path::new("status").child("acceptedNames"), &mut faults);
    faults.into_vec()
}

/// Texts for warnings: formats that are not checked.
pub(crate) fn warnings(object: &Value) -> Vec<String> {
    let schemas = list(&object["spec"], "versions").iter().map(|version| &version["schema"]["openAPIV3Schema"]);
    let formats: BTreeSet<String> = schemas.flat_map(unrecognized_formats).collect();
    formats.into_iter().map(|format| format!("unrecognized format {format:?}")).collect()
}

fn is(object: &Value, flag: &str) -> bool {
    object[flag].as_bool().unwrap_or(false)
}

/// Which certificates of a conversion webhook are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bundle {
    Any,
    Valid,
}

/// What creates and updates have in common.
fn validate_both(object: &Value, bundle: Bundle) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (spec, path) = (&object["spec"], Path::new("spec"));
    validate_group(text(spec, "group"), &path.child("group"), &mut faults);
    faults.one_of(&path.child("scope"), text(spec, "scope"), &SCOPES);
    let versions = list(spec, "versions");
    let hoisted = Hoisted::of(versions);
    for (index, version) in versions.iter().enumerate() {
        let at = path.child("versions").index(index);
        if !version["schema"]["openAPIV3Schema"].is_object() {
            faults.required(&at.child("schema").child("openAPIV3Schema"), "");
        }
        joined(&at.child("name"), text(version, "name"), &mut faults);
        validate_warning(version, &at.child("deprecationWarning"), &mut faults);
        let kept = hoisted.kept(version);
        validate_parts(&kept, &Paths::of_version(&at), &mut faults);
    }
    validate_versions(versions, &path, &mut faults);
    let names = &spec["names"];
    for field in ["plural", "singular", "kind", "listKind"] {
        faults.set(&path.child("names").child(field), text(names, field));
    }
    validate_names(names, &path.child("names"), &mut faults);
    validate_parts(&hoisted.parts, &Paths::of_all(&path), &mut faults);
    validate_conversion(&spec["conversion"], bundle, &path.child("conversion"), &mut faults);
    if is(spec, "preserveUnknownFields") {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        faults.invalid(&path.child("preserveUnknownFields"), true, why);
    }
    faults.into_vec()
}

fn validate_group(group: &str, path: &Path, faults: &mut Faults) {
    if !faults.set(path, group) {
        return;
    }
    let why = check_dns_subdomain(group);
    if !why.is_empty() {
        faults.invalid(path, group, why.join(","));
    } else if !group.contains('.') {
        faults.invalid(path, group, "should be a domain with at least one dot");
    }
}

/// A label. All that is wrong with it is one fault.
fn joined(path: &Path, name: &str, faults: &mut Faults) {
    let why = check_dns_1035_label(name);
    if !why.is_empty() {
        faults.invalid(path, name, why.join(","));
    }
}

fn validate_warning(version: &Value, path: &Path, faults: &mut Faults) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    if !is(version, "deprecated") {
        return faults.invalid(path, warning, "can only be set for deprecated versions");
    }
    if WARNING_LETTERS_MAX < warning.chars().count() {
        faults.invalid(path, warning, format!("must be <= {WARNING_LETTERS_MAX} characters long"));
    }
    if warning.is_empty() {
        faults.invalid(path, warning, "must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, letter)| letter.is_control()) {
        let why = format!("must only contain printable UTF-8 characters; non-printable character found at index {index}");
        faults.invalid(path, warning, why);
    }
}

fn validate_versions(versions: &[Value], spec: &Path, faults: &mut Faults) {
    let path = spec.child("versions");
    let names: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    // Upstream shows its internal type.
    let shown = || match versions {
        [] => Value::Null,
        versions => {
            let shown = |version: &Value| json!({"Name": version["name"], "Served": version["served"], "Storage": version["storage"]});
            versions.iter().map(shown).collect()
        }
    };
    if names.len() < versions.len() {
        faults.invalid(&path, shown(), "must contain unique version names");
    }
    if versions.iter().filter(|version| is(version, "storage")).count() != 1 {
        faults.invalid(&path, shown(), "must have exactly one version marked as storage version");
    }
    if let Some(first) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty()) {
        joined(&spec.child("version"), first, faults);
    }
}

fn validate_names(names: &Value, path: &Path, faults: &mut Faults) {
    let given = |field: &str| Some(text(names, field)).filter(|name| !name.is_empty());
    for field in ["plural", "singular"] {
        given(field).into_iter().for_each(|name| joined(&path.child(field), name, faults));
    }
    for field in ["kind", "listKind"] {
        let Some(name) = given(field) else { continue };
        let why = check_dns_1035_label(&name.to_lowercase());
        if !why.is_empty() {
            faults.invalid(&path.child(field), name, format!("may have mixed case, but should otherwise match: {}", why.join(",")));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(names, field).iter().filter_map(Value::as_str).enumerate() {
            joined(&path.child(field).index(index), name, faults);
        }
    }
    if let Some(kind) = given("kind").filter(|kind| given("listKind") == Some(kind)) {
        faults.invalid(&path.child("listKind"), kind, "kind and listKind may not be the same");
    }
}

/// What versions can share.
#[derive(Default)]
struct Parts<'v> {
    schema: Option<&'v Value>,
    subresources: Option<&'v Value>,
    columns: &'v [Value],
    selectable_fields: &'v [Value],
    has_status: bool,
}

/// The parts that all versions have equal.
struct Hoisted<'v> {
    parts: Parts<'v>,
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable_fields: bool,
}

impl<'v> Hoisted<'v> {
    fn of(versions: &'v [Value]) -> Self {
        let Some(first) = versions.first() else {
            return Self { parts: Parts::default(), schema: true, subresources: true, columns: true, selectable_fields: true };
        };
        let same = |field: &str| versions.iter().all(|version| version[field] == first[field]);
        let (schema, subresources) = (same("schema"), same("subresources"));
        let (columns, selectable_fields) = (same("additionalPrinterColumns"), same("selectableFields"));
        let parts = Parts {
            schema: Some(&first["schema"]["openAPIV3Schema"]).filter(|found| schema && found.is_object()),
            subresources: Some(&first["subresources"]).filter(|_| subresources),
            columns: if columns { list(first, "additionalPrinterColumns") } else { &[] },
            selectable_fields: if selectable_fields { list(first, "selectableFields") } else { &[] },
            has_status: versions.iter().any(|version| version["subresources"]["status"].is_object()),
        };
        Self { parts, schema, subresources, columns, selectable_fields }
    }

    /// The parts of a version that differ from those of others.
    fn kept(&self, version: &'v Value) -> Parts<'v> {
        Parts {
            schema: Some(&version["schema"]["openAPIV3Schema"]).filter(|found| !self.schema && found.is_object()),
            subresources: Some(&version["subresources"]).filter(|_| !self.subresources),
            columns: if self.columns { &[] } else { list(version, "additionalPrinterColumns") },
            selectable_fields: if self.selectable_fields { &[] } else { list(version, "selectableFields") },
            has_status: version["subresources"]["status"].is_object(),
        }
    }
}

/// Where the parts are.
struct Paths {
    schema: Path,
    subresources: Path,
    columns: Path,
    selectable_fields: Path,
    /// Why fields cannot be selected by without a schema beside them.
    without_schema: &'static str,
}

impl Paths {
    fn of_version(version: &Path) -> Self {
        let without_schema = "may only be set when `version.schema.openAPIV3Schema` is not included";
        Self { schema: version.child("schema").child("openAPIV3Schema"), without_schema, ..Self::of_all(version) }
    }

    fn of_all(spec: &Path) -> Self {
        Self {
            schema: spec.child("validation").child("openAPIV3Schema"),
            subresources: spec.child("subresources"),
            columns: spec.child("additionalPrinterColumns"),
            selectable_fields: spec.child("selectableFields"),
            without_schema: "may only be set when validations.schema is included",
        }
    }
}

fn validate_parts(parts: &Parts<'_>, paths: &Paths, faults: &mut Faults) {
    let schema = parts.schema.and_then(|schema| validate_schema(schema, parts.has_status, &paths.schema, faults));
    if let Some(scale) = parts.subresources.map(|subresources| &subresources["scale"]).filter(|scale| scale.is_object()) {
        validate_scale(scale, &paths.subresources.child("scale"), faults);
    }
    for (index, column) in parts.columns.iter().enumerate() {
        validate_column(column, &paths.columns.index(index), faults);
    }
    if !parts.selectable_fields.is_empty() {
        match (parts.schema, schema) {
            (None, _) => faults.invalid(&paths.selectable_fields, "", paths.without_schema),
            (Some(_), Some(schema)) => validate_selectable_fields(parts.selectable_fields, &schema, &paths.selectable_fields, faults),
            (Some(_), None) => (),
        }
    }
}

fn validate_schema(schema: &Value, has_status: bool, path: &Path, faults: &mut Faults) -> Option<Structural> {
    let kind = text(schema, "type");
    if has_status {
        let others = schema.as_object().into_iter().flatten().filter(|(name, _)| !BESIDE_STATUS.contains(&name.as_str()));
        if !kind.is_empty() && kind != "object" {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            faults.invalid(&path.child("type"), kind, why);
        } else if others.count() != 0 {
            // Upstream prints its internal names of the fields, and the whole schema.
            let why = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems \
                       UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the \
                       schema if the status subresource is enabled";
            faults.invalid(path, schema.clone(), why);
        }
    }
    if is(schema, "nullable") {
        faults.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    Structural::read(schema, path).map_err(|found| faults.add(found)).ok()
}

fn validate_scale(scale: &Value, path: &Path, faults: &mut Faults) {
    let required = [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")];
    for (field, root) in required {
        let (at, found) = (path.child(field), text(scale, field));
        if faults.set(&at, found) && is_simple_path(&at, found, faults) && !found.starts_with(&format!("{root}.")) {
            faults.invalid(&at, found, format!("should be a json path under {root}"));
        }
    }
    let (at, found) = (path.child("labelSelectorPath"), text(scale, "labelSelectorPath"));
    let is_under = |root: &str| found.starts_with(root);
    if !found.is_empty() && is_simple_path(&at, found, faults) && !is_under(".spec.") && !is_under(".status.") {
        faults.invalid(&at, found, "should be a json path under either .spec or .status");
    }
}

/// Upstream does not read more of such a path.
fn is_simple_path(path: &Path, text: &str, faults: &mut Faults) -> bool {
    if !text.starts_with('.') {
        faults.invalid(path, text, SIMPLE_PATH);
    }
    text.starts_with('.')
}

fn validate_column(column: &Value, path: &Path, faults: &mut Faults) {
    faults.set(&path.child("name"), text(column, "name"));
    let kind = text(column, "type");
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        faults.required(&path.child("type"), &types);
    } else if !COLUMN_TYPES.contains(&kind) {
        faults.invalid(&path.child("type"), kind, types);
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        faults.invalid(&path.child("format"), format, format!("must be one of {}", COLUMN_FORMATS.join(",")));
    }
    let (at, found) = (path.child("JSONPath"), text(column, "jsonPath"));
    if faults.set(&at, found) {
        is_simple_path(&at, found, faults);
    }
}

fn validate_selectable_fields(fields: &[Value], schema: &Structural, path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let (at, shown) = (path.index(index).child("jsonPath"), text(field, "jsonPath"));
        if !faults.set(&at, shown) {
            continue;
        }
        let found = match selected(schema, shown) {
            Ok(found) => found,
            Err(why) => {
                faults.invalid(&at, shown, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if shown.strip_prefix('.').is_some_and(|path| path.split('.').next() == Some("metadata")) {
            faults.invalid(&at, shown, "must not point to fields in metadata");
        }
        if !matches!(found.kind, Some(Type::String | Type::Boolean | Type::Integer)) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            faults.invalid(&at, shown, why);
        }
        if !seen.insert(shown) {
            faults.duplicate(&at, shown);
        }
    }
    faults.at_most(path, seen.len(), SELECTABLE_FIELDS_MAX);
}

/// Why a path leads to no field.
#[derive(Debug, thiserror::Error)]
enum NoField {
    #[error("array notation is not allowed")]
    Brackets,
    #[error("expected [ or . but got: {0}")]
    Start(String),
    #[error("unexpected end of JSON path")]
    End,
    #[error("does not refer to a valid field")]
    Unknown,
}

/// The schema of the field at a path of members.
fn selected<'s>(schema: &'s Structural, path: &str) -> Result<&'s Structural, NoField> {
    if path.contains('[') {
        return Err(NoField::Brackets);
    }
    let Some(rest) = path.strip_prefix('.') else {
        let first = path.split('.').next().unwrap_or_default();
        let first = if first.starts_with([' ', '{']) { &first[..1] } else { first };
        return Err(NoField::Start(first.to_owned()));
    };
    if rest.is_empty() || rest.ends_with('.') {
        return Err(NoField::End);
    }
    let names: Vec<&str> = rest.split('.').collect();
    schema.at(&names).ok_or(NoField::Unknown)
}

fn validate_conversion(conversion: &Value, bundle: Bundle, path: &Path, faults: &mut Faults) {
    if !conversion.is_object() {
        return;
    }
    let (strategy, webhook) = (text(conversion, "strategy"), &conversion["webhook"]);
    let (of_client, of_versions) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    faults.one_of(&path.child("strategy"), strategy, &["None", "Webhook"]);
    let (config, versions) = (&webhook["clientConfig"], list(webhook, "conversionReviewVersions"));
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_object() {
            faults.forbidden(&of_client, why);
        }
        if !versions.is_empty() {
            faults.forbidden(&of_versions, why);
        }
        return;
    }
    if config.is_object() {
        validate_client(config, &of_client, faults);
        if let Some(why) = bundle_problem(config).filter(|_| bundle == Bundle::Valid) {
            faults.invalid(&of_client.child("caBundle"), config["caBundle"].clone(), format!("unable to load root certificates: {why}"));
        }
    } else {
        faults.required(&of_client, "required when strategy is set to Webhook");
    }
    validate_review_versions(versions, "", &of_versions, faults);
}

fn approval_of(meta: &ObjectMeta) -> Approval {
    approval::approval(meta.annotations.as_ref().and_then(|annotations| annotations.get(approval::APPROVED)).map(String::as_str))
}

fn validate_approval(meta: &ObjectMeta, object: &Value) -> Vec<FieldError> {
    if !approval::is_protected(text(&object["spec"], "group")) {
        return Vec::new();
    }
    let at = Path::new("metadata").child("annotations").key(approval::APPROVED);
    let approval = approval_of(meta);
    let why = || approval::problem(&approval).unwrap_or_default();
    match &approval {
        Approval::Approved(_) | Approval::Bypassed(_) => Vec::new(),
        Approval::Missing => vec![FieldError::required(&at, why())],
        Approval::Invalid(text) => vec![FieldError::invalid(&at, text.as_str(), why())],
    }
}
