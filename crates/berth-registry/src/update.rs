//! Replaces an object by PUT.

use crate::{
    Actor, ApiError, Body, Registry, Subresource, Target, WriteOptions, Written,
    checks::{self, Verb},
    create::New,
    decoding,
    modify::{Change, Proposal, check_name},
    ownership::Owners,
    pieces::Since,
    scale,
};
use berth_api::{FieldError, Object, Path};
use berth_identity::GroupKind;

impl Registry {
    /// Replaces the object or its subresource. Creates a missing object if its kind permits that. Without a change,
    /// nothing is written and the version stays the same.
    ///
    /// # Errors
    /// An undecodable body, a body of another object, conflicts, or an invalid result.
    pub async fn update(&self, actor: &Actor, target: &Target, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        target.check_subresource()?;
        ApiError::check_writable(&target.resource)?;
        let checked = checks::write_options(Verb::Update, options)?;
        match target.subresource {
            Some(Subresource::Scale) => return scale::update(self, actor, target, body, options, checked).await,
            Some(Subresource::Binding | Subresource::Eviction | Subresource::Log | Subresource::Token) => {
                return Err(ApiError::MethodNotAllowed);
            }
            None | Some(Subresource::Status | Subresource::Approval | Subresource::Finalize) => (),
        }
        let author = self.author(actor, options, target.subresource);
        let mut incoming = self.read_body(&target.resource, body, checked.validation, &mut Since(author.now)).await?;
        check_name(target, &mut *incoming.object)?;
        let may_create = target.resource.create_on_update && target.subresource.is_none();
        if may_create && self.storage.store.get(&target.key()).await?.is_none() {
            self.chain.authorizer.authorize_creation(actor, target).await?;
            incoming.object.meta_mut().resource_version = None;
            return self.create_object(&target.collection(), New::of(incoming), checked.mode, &author).await;
        }
        let is_conditional = incoming.object.meta().resource_version.as_ref().is_some_and(|version| !version.is_empty());
        let mut body = Some(incoming);
        let change = Change { mode: checked.mode, precondition: &options.precondition, author };
        self.modify(target, change, |old| {
            // A conditional update of the current version cannot be retried with success, so only other updates keep a
            // copy.
            let kept = body.as_ref().filter(|_| old.may_be_old || !is_conditional).map(|body| body.object.clone_object());
            let taken = body.take().ok_or_else(|| ApiError::modified(target))?;
            check_conditional(target, &*taken.object)?;
            body = kept.map(|object| decoding::Incoming { object, warnings: taken.warnings.clone() });
            Ok(Proposal { object: taken.object, warnings: taken.warnings, owners: Owners::Follow })
        })
        .await
    }
}

fn check_conditional(target: &Target, object: &dyn Object) -> Result<(), ApiError> {
    let version = object.meta().resource_version.as_deref().unwrap_or_default();
    if !version.is_empty() || !object.rules().requires_resource_version {
        return Ok(());
    }
    let field = Path::new("metadata").child("resourceVersion");
    let error = FieldError::invalid(&field, 0, "must be specified for an update");
    // Upstream prints the resource here instead of the kind.
    let kind = GroupKind::new(target.resource.group(), target.resource.plural());
    Err(ApiError::Invalid { kind, name: target.name.clone(), errors: vec![error] })
}
