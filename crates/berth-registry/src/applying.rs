//! Server-side apply: a PATCH with the fields that an applier sets.

use crate::{
    Actor, ApiError, BoxObject, Registry, Resource, Target, WriteOptions, Written,
    admission::rollout_records,
    checks::{Checked, Mode},
    create::New,
    decoding,
    modify::{Change, Proposal, check_name},
    options::FieldValidation,
    ownership::{self, Applied, Author, Owners},
    stored::{ATTEMPTS, Stored},
};
use berth_api::decode::parse_json;
use berth_fieldsets::Force;
use serde_json::{Value, json};

/// An applied configuration, checked as far as possible without the object.
pub(crate) struct Config {
    pub(crate) document: Value,
    warnings: Vec<String>,
    force: Force,
}

impl Registry {
    /// Applies to the object, or to its subresource. Creates the object if it is missing.
    pub(crate) async fn apply(
        &self,
        actor: &Actor,
        target: &Target,
        bytes: &[u8],
        options: &WriteOptions,
        checked: Checked,
    ) -> Result<Written, ApiError> {
        let mut config = Config::read(bytes, &gvk(&target.resource), options, checked.validation)?;
        rollout_records::keep_out(&self.chain, actor, &target.resource, &mut config.document);
        let author = self.author(actor, options, target.subresource);
        for _ in 0..ATTEMPTS {
            let change = Change { mode: checked.mode, precondition: &options.precondition, author };
            match self.modify(target, change, |old| config.propose(target, old, &author)).await {
                // Other objects may be missing too, such as the role of a binding.
                Err(ApiError::NotFound { name, .. }) if target.subresource.is_none() && name == target.name => (),
                done => return done,
            }
            match self.apply_new(target, &config, checked.mode, &author).await {
                // Another client created it in the meantime, so this apply changes it.
                Err(ApiError::AlreadyExists { .. }) => (),
                done => return done,
            }
        }
        Err(ApiError::modified(target))
    }

    async fn apply_new(&self, target: &Target, config: &Config, mode: Mode, author: &Author<'_>) -> Result<Written, ApiError> {
        self.chain.authorizer.authorize_creation(author.actor, target).await?;
        let uid = config.document.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        if !uid.is_empty() {
            let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(target, &why));
        }
        let Applied { document, managers } = ownership::apply(target, None, &config.document, author, config.force)?;
        let mut object = decode(&target.resource, document)?;
        check_name(target, &mut *object)?;
        let warnings = config.warnings.clone();
        self.create_object(&target.collection(), New { object, warnings, owners: Owners::Decided(managers) }, mode, author).await
    }
}

impl Config {
    /// Decodes the configuration. `gvk` is the required kind, as upstream prints it.
    pub(crate) fn read(bytes: &[u8], gvk: &str, options: &WriteOptions, validation: FieldValidation) -> Result<Self, ApiError> {
        let parsed = parse_json(bytes).map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
        if !parsed.value.is_object() {
            return Err(ApiError::bad_request("error decoding YAML: it is no object"));
        }
        let found = found_gvk(&parsed.value);
        if found != gvk {
            return Err(ApiError::bad_request(format!("invalid object type: {found}")));
        }
        if parsed.value.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let faults = decoding::faults(&parsed.duplicates, &[]);
        let warnings = match validation {
            FieldValidation::Strict if !faults.is_empty() => {
                return Err(ApiError::bad_request(format!("error strict decoding YAML: {}", faults.join(", "))));
            }
            FieldValidation::Warn => faults,
            FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
        };
        let force = if options.force == Some(true) { Force::Yes } else { Force::No };
        Ok(Self { document: parsed.value, warnings, force })
    }

    /// Returns the same configuration for the replicas of the object behind a `Scale`.
    pub(crate) fn of_replicas(self, replicas: Option<i32>) -> Self {
        let spec = replicas.map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
        Self { document: json!({"spec": spec}), ..self }
    }

    pub(crate) fn propose(&self, target: &Target, old: &Stored, author: &Author<'_>) -> Result<Proposal, ApiError> {
        let Applied { document, managers } = ownership::apply(target, Some(&*old.object), &self.document, author, self.force)?;
        let object = decode(&target.resource, document)?;
        Ok(Proposal { object, warnings: self.warnings.clone(), owners: Owners::Decided(managers) })
    }
}

fn decode(resource: &Resource, document: Value) -> Result<BoxObject, ApiError> {
    let text = |member: &str| document.pointer(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
    // The schema has rejected unknown fields.
    let decoded = resource.rules.decode_applied(document);
    decoded.map(|decoded| decoded.object).map_err(|error| {
        let (kind, why) = (gvk(resource), error.converted.clone().unwrap_or_else(|| error.to_string()));
        let unable = format!("unable to convert unstructured object to {kind}: {why}");
        ApiError::bad_request(format!("failed to convert new object ({name}; {kind}) to proper version: {unable}"))
    })
}

/// `apps/v1, Kind=Deployment`; `/v1, Kind=Pod`.
fn gvk(resource: &Resource) -> String {
    format!("{}/{}, Kind={}", resource.group(), resource.version(), resource.kind())
}

fn found_gvk(document: &Value) -> String {
    let text = |member: &str| document.get(member).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    format!("{group}/{version}, Kind={}", text("kind"))
}
