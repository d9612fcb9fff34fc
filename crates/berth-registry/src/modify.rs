//! Changes an existing object: read, change, validate, compare-and-set. After a conflict, it starts again.

use crate::{
    ApiError, BoxObject, Current, Registry, Target, Written,
    admission::{Admission, At, Happened, Operation, Remarks},
    checks::Mode,
    failure::Failure,
    options::{Precondition, parse_revision},
    ownership::{Author, Owners},
    pieces::Since,
    stored::{ATTEMPTS, Stored},
};
use berth_api::Object;

/// The proposed object, not yet validated.
pub(crate) struct Proposal {
    pub(crate) object: BoxObject,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    pub(crate) owners: Owners,
}

/// How an object is changed.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) mode: Mode,
    pub(crate) precondition: &'a Precondition,
    pub(crate) author: Author<'a>,
}

impl Registry {
    /// Changes the target's object to the proposal of `change`, under all rules of the resource.
    ///
    /// # Errors
    /// An error of `change`, a failed precondition, an invalid proposal, or too many conflicts.
    pub(crate) async fn modify(
        &self,
        target: &Target,
        by: Change<'_>,
        mut change: impl FnMut(&Stored) -> Result<Proposal, ApiError> + Send,
    ) -> Result<Written, ApiError> {
        let mut since = Since(by.author.now);
        let mut refused = None;
        for attempt in 0..ATTEMPTS {
            since.pause(&*self.storage.clock).await;
            let old = self.storage.load_to_write(target, by.mode, attempt).await?;
            since.pause(&*self.storage.clock).await;
            let (revision, may_be_old) = (old.entry.mod_revision, old.may_be_old);
            // The known version was current, so the answer is too. Reviewers are not asked again, as upstream.
            if let Some((_, error)) = refused.take_if(|(of, _)| *of == revision) {
                return Err(error);
            }
            match self.try_change(target, by, old, &mut change).await {
                Ok((object, _)) if may_be_old && object.is_at(revision) => (),
                Ok((object, remarks)) => {
                    if by.mode == Mode::Real {
                        self.follow_up(&Happened::of(Operation::Update, target)).await?;
                    }
                    let Remarks { warnings, audit } = remarks;
                    return Ok(Written { object, created: false, warnings, audit });
                }
                Err(Failure::Raced) => (),
                Err(Failure::Refused(error)) if may_be_old && !matches!(error, ApiError::OutcomeUnknown { .. }) => {
                    refused = Some((revision, error));
                }
                Err(Failure::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(target))
    }

    async fn try_change(
        &self,
        target: &Target,
        by: Change<'_>,
        old: Stored,
        change: &mut (impl FnMut(&Stored) -> Result<Proposal, ApiError> + Send),
    ) -> Result<(Current, Remarks), Failure> {
        check_precondition(target, &old, by.precondition)?;
        let Proposal { mut object, warnings, owners } = change(&old)?;
        check_identity(target, &old, &mut *object)?;
        let mut admission = Admission::update(At::of(target, by.mode), by.author, old, object, owners);
        admission.remarks.warnings = warnings;
        self.admit(&mut admission).await?;
        let object = self.chain.complete(&self.storage, &mut admission).await?;
        Ok((object, admission.remarks))
    }
}

/// Checks that the proposal has the target's name and namespace, and the object's uid and resource version if it has
/// any.
fn check_identity(target: &Target, old: &Stored, new: &mut dyn Object) -> Result<(), ApiError> {
    check_name(target, new)?;
    let meta = new.meta_mut();
    let (uid, resource_version) = (meta.uid.take(), meta.resource_version.take());
    meta.uid.clone_from(&old.object.meta().uid);
    check_precondition(target, old, &Precondition { uid, resource_version })
}

/// Checks that the object of an update has the name and namespace of the URL. Sets an empty namespace.
pub(crate) fn check_name(target: &Target, new: &mut dyn Object) -> Result<(), ApiError> {
    match new.meta().name.as_deref().unwrap_or_default() {
        "" => {
            let name = &target.name;
            let text = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
            return Err(ApiError::bad_request(text));
        }
        name if name != target.name => {
            let text = format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
            return Err(ApiError::bad_request(text));
        }
        _ => (),
    }
    check_namespace(target.namespace.as_deref(), new)
}

/// Checks that the object has the namespace of the URL. Sets an empty namespace. As upstream does, removes the namespace of an object of a
/// cluster-scoped kind: charts set one on their ClusterRoles.
pub(crate) fn check_namespace(wanted: Option<&str>, object: &mut dyn Object) -> Result<(), ApiError> {
    let found = &mut object.meta_mut().namespace;
    match (found.as_deref().unwrap_or_default(), wanted) {
        ("", _) | (_, None) => *found = wanted.map(str::to_owned),
        (namespace, Some(wanted)) if namespace != wanted => {
            return Err(ApiError::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
        }
        _ => (),
    }
    Ok(())
}

fn check_precondition(target: &Target, old: &Stored, wanted: &Precondition) -> Result<(), ApiError> {
    let found = old.object.meta().uid.as_deref().unwrap_or_default();
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| !uid.is_empty() && *uid != found) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
        return Err(ApiError::conflict(target, &why));
    }
    match wanted.resource_version.as_deref().unwrap_or_default() {
        "" | "0" => Ok(()),
        text => match parse_revision(text) {
            Some(revision) if revision == old.entry.mod_revision => Ok(()),
            Some(_) => Err(ApiError::modified(target)),
            None => Err(ApiError::bad_request(format!("invalid resource version: {text:?} is no number"))),
        },
    }
}
