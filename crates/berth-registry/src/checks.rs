//! Validates the options of a request. An invalid option is a 422 about the options.

use crate::{ApiError, DeleteOptions, ListOptions, PropagationPolicy, WatchOptions, WriteOptions, options::FieldValidation};
use berth_api::{FieldError, Path};
use berth_identity::GroupKind;

/// The maximum length of `fieldManager`, in bytes.
const FIELD_MANAGER_MAX: usize = 128;

/// Whether a write is a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Stored.
    Real,
    /// `dryRun=All`: the write is not stored.
    Dry,
}

/// Write options that have been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    pub(crate) mode: Mode,
    pub(crate) validation: FieldValidation,
}

/// The verb of the options. The error contains its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
    Apply,
}

impl Verb {
    fn options_kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Checks the options of a create, update or patch.
pub(crate) fn write_options(verb: Verb, options: &WriteOptions) -> Result<Checked, ApiError> {
    let mut errors = Vec::new();
    let mode = dry_run(&options.dry_run, &mut errors);
    let validation = field_validation(&options.field_validation, &mut errors);
    field_manager(&options.field_manager, &mut errors);
    if verb == Verb::Patch && options.force.is_some() {
        errors.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
    }
    if verb == Verb::Apply && options.field_manager.is_empty() {
        errors.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
    }
    refuse(verb.options_kind(), errors)?;
    Ok(Checked { mode, validation })
}

/// A validated deletion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedDelete {
    pub(crate) mode: Mode,
    pub(crate) policy: Option<PropagationPolicy>,
    pub(crate) is_last_unseen: bool,
}

/// Checks the options of a deletion.
pub(crate) fn delete_options(options: &DeleteOptions) -> Result<CheckedDelete, ApiError> {
    let mut errors = Vec::new();
    let mode = dry_run(&options.dry_run, &mut errors);
    let field = Path::new("propagationPolicy");
    let policy = match options.propagation_policy.as_deref() {
        None => options.orphan_dependents.map(|orphan| if orphan { PropagationPolicy::Orphan } else { PropagationPolicy::Background }),
        Some("Background") => Some(PropagationPolicy::Background),
        Some("Foreground") => Some(PropagationPolicy::Foreground),
        Some("Orphan") => Some(PropagationPolicy::Orphan),
        Some(other) => {
            errors.push(FieldError::not_supported(&field, other, &["Background", "Foreground", "Orphan", "nil"]));
            None
        }
    };
    if let (Some(text), Some(_)) = (&options.propagation_policy, options.orphan_dependents) {
        errors.push(FieldError::invalid(&field, text.as_str(), "orphanDependents and deletionPropagation cannot be both set"));
    }
    refuse("DeleteOptions", errors)?;
    Ok(CheckedDelete { mode, policy, is_last_unseen: options.is_last_unseen })
}

/// Validates the version options of a list.
pub(crate) fn list_options(options: &ListOptions) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    if options.send_initial_events.is_some() {
        errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list"));
    }
    let (field, matching) = (Path::new("resourceVersionMatch"), options.resource_version_match.as_str());
    if !matching.is_empty() {
        if !options.continue_token.is_empty() {
            errors.push(FieldError::forbidden(&field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if options.resource_version.is_empty() {
            errors.push(FieldError::forbidden(&field, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(&field, matching, &["Exact", "NotOlderThan"]));
        }
        if matching == "Exact" && options.resource_version == "0" {
            let text = "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(&field, text));
        }
    }
    refuse("ListOptions", errors)
}

/// Validates the version options of a watch.
pub(crate) fn watch_options(options: &WatchOptions) -> Result<(), ApiError> {
    let (field, matching) = (Path::new("resourceVersionMatch"), options.resource_version_match.as_str());
    let fault = match (options.send_initial_events, matching) {
        (None, "") | (Some(_), "NotOlderThan") => None,
        (None, _) => Some("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        (Some(_), _) => Some("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    };
    // A watch without a version begins with all objects.
    let is_matched = !matching.is_empty() || (options.send_initial_events.is_none() && matches!(&*options.resource_version, "" | "0"));
    let continues = is_matched && !options.continue_token.is_empty();
    let fault = fault.or_else(|| continues.then_some("resourceVersionMatch is forbidden when continue is provided"));
    refuse("ListOptions", fault.map(|text| FieldError::forbidden(&field, text)).into_iter().collect())
}

fn dry_run(values: &[String], errors: &mut Vec<FieldError>) -> Mode {
    if values.iter().any(|value| value != "All") {
        errors.push(FieldError::not_supported(&Path::new("dryRun"), values.to_vec(), &["All"]));
    }
    if values.is_empty() { Mode::Real } else { Mode::Dry }
}

fn field_validation(value: &str, errors: &mut Vec<FieldError>) -> FieldValidation {
    match value {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            errors.push(FieldError::not_supported(&Path::new("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]));
            FieldValidation::Warn
        }
    }
}

fn field_manager(name: &str, errors: &mut Vec<FieldError>) {
    let field = Path::new("fieldManager");
    if FIELD_MANAGER_MAX < name.len() {
        errors.push(FieldError::too_long(&field, FIELD_MANAGER_MAX));
    }
    if name.chars().any(char::is_control) {
        errors.push(FieldError::invalid(&field, name, "should only contain printable characters"));
    }
}

fn refuse(kind: &str, errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { kind: GroupKind::new("meta.k8s.io", kind), name: String::new(), errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_list_and_watch_options_are_refused_with_upstreams_texts() {
        let list = |version: &str, matching: &str, token: &str, initial: Option<bool>| {
            let (resource_version, resource_version_match) = (version.to_owned(), matching.to_owned());
            let options = ListOptions {
                resource_version,
                resource_version_match,
                continue_token: token.to_owned(),
                send_initial_events: initial,
                ..ListOptions::default()
            };
            list_options(&options).err().map(|error| error.to_string())
        };
        let refused = |text: &str| Some(format!("ListOptions.meta.k8s.io \"\" is invalid: {text}"));
        assert_eq!(list("", "", "", None), None);
        assert_eq!(list("5", "Exact", "", None), None);
        assert_eq!(list("0", "NotOlderThan", "", None), None);
        let forbidden = |text: &str| refused(&format!("resourceVersionMatch: Forbidden: {text}"));
        assert_eq!(list("", "Exact", "", None), forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        assert_eq!(list("0", "Exact", "", None), forbidden("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""));
        assert_eq!(list("5", "Exact", "t", None), forbidden("resourceVersionMatch is forbidden when continue is provided"));
        let text = "resourceVersionMatch: Unsupported value: \"X\": supported values: \"Exact\", \"NotOlderThan\"";
        assert_eq!(list("5", "X", "", None), refused(text));
        let text = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
        assert_eq!(list("", "", "", Some(true)), refused(text));

        let watch = |matching: &str, initial: Option<bool>| {
            let resource_version_match = matching.to_owned();
            let options = WatchOptions { resource_version_match, send_initial_events: initial, ..WatchOptions::default() };
            watch_options(&options).err().map(|error| error.to_string())
        };
        assert_eq!(watch("", None), None);
        assert_eq!(watch("NotOlderThan", Some(true)), None);
        let missing = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        assert_eq!(watch("", Some(true)), forbidden(missing));
        assert_eq!(watch("Exact", Some(false)), forbidden(missing));
        let without = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        assert_eq!(watch("NotOlderThan", None), forbidden(without));
        let go_on = |version: &str| {
            let options = WatchOptions { continue_token: "t".to_owned(), resource_version: version.to_owned(), ..WatchOptions::default() };
            watch_options(&options).err().map(|error| error.to_string())
        };
        let refused = || forbidden("resourceVersionMatch is forbidden when continue is provided");
        assert_eq!([go_on(""), go_on("0"), go_on("5")], [refused(), refused(), None]);
    }

    #[test]
    fn bad_write_and_delete_options_are_refused_with_upstreams_texts() {
        let options = WriteOptions {
            dry_run: vec!["foo".to_owned()],
            field_validation: "x".to_owned(),
            force: Some(true),
            field_manager: "m".repeat(129),
            ..WriteOptions::default()
        };
        let text = write_options(Verb::Patch, &options).expect_err("refused").to_string();
        assert_eq!(
            text,
            "PatchOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"foo\"]: supported values: \"All\", \
             fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\", \
             fieldManager: Too long: may not be more than 128 bytes, force: Forbidden: may not be specified for non-apply patch]"
        );
        let both =
            DeleteOptions { propagation_policy: Some("Orphan".to_owned()), orphan_dependents: Some(true), ..DeleteOptions::default() };
        let text = delete_options(&both).expect_err("refused").to_string();
        assert!(text.starts_with("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": "), "{text}");
        let unknown = DeleteOptions { propagation_policy: Some("X".to_owned()), ..DeleteOptions::default() };
        let text = delete_options(&unknown).expect_err("refused").to_string();
        assert!(text.contains("propagationPolicy: Unsupported value: \"X\""), "{text}");
        for (orphan, policy) in [(true, PropagationPolicy::Orphan), (false, PropagationPolicy::Background)] {
            let legacy = DeleteOptions { orphan_dependents: Some(orphan), ..DeleteOptions::default() };
            assert_eq!(delete_options(&legacy).expect("fine").policy, Some(policy));
        }
    }
}
