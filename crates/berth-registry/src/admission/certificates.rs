//! Requests for certificates: who asks, who may approve and sign, and which subject no signer gets.
//!
//! Source: upstream's plug-ins in `plugin/pkg/admission/certificates`.

use super::{
    Admission, Operation,
    plug_in::{Chain, PlugIn},
};
use crate::{ApiError, Subresource};
use berth_api::{FieldError, Object, Path, certificates::CertificateRequest, k8s_openapi::ByteString};
use berth_kinds::Document;
use berth_rbac::{MASTERS, ResourceAttributes};
use serde::Deserialize;
use serde_json::{Value, json};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
/// The signer of clients of this API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The members of a request. `None`: the object is of another kind.
fn request(object: &dyn Object) -> Option<&Value> {
    let document = Document::of(object)?;
    let resource = document.version().resource();
    (resource.group == GROUP && resource.plural == REQUESTS).then(|| document.content().members())
}

fn signer(request: &Value) -> &str {
    request["spec"]["signerName"].as_str().unwrap_or_default()
}

/// Records the user who creates a request, and checks its signature.
pub(super) struct CertificateRequester;

impl PlugIn for CertificateRequester {
    const NAME: &'static str = "CertificateRequester";

    async fn mutate(_chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if !admission.is_new() || request(&*admission.object).is_none() {
            return Ok(());
        }
        let Some(user) = admission.author.actor.user().cloned() else { return Ok(()) };
        let document = admission.object.as_any_mut().downcast_mut::<Document>();
        let Some(Value::Object(spec)) = document.and_then(|document| document.content_mut().members_mut().get_mut("spec")) else {
            return Ok(());
        };
        let extra = if user.extra.is_empty() { Value::Null } else { json!(user.extra) };
        for (field, value) in [("username", json!(user.name)), ("uid", json!(user.uid)), ("groups", json!(user.groups)), ("extra", extra)] {
            let is_empty = value.is_null() || value == json!("") || value == json!([]);
            if is_empty { drop(spec.remove(field)) } else { drop(spec.insert(field.to_owned(), value)) }
        }
        Ok(())
    }

    /// The last rule of a new request, because it is the only one that needs cryptography.
    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let Some(request) = request(&*admission.object).filter(|_| admission.is_new()) else { return Ok(()) };
        let (Some(verifier), Some(parsed)) = (&chain.verifier, parsed(request)) else { return Ok(()) };
        let Err(why) = verifier.verify(&parsed) else { return Ok(()) };
        let error = FieldError::invalid(&Path::new("spec").child("request"), request["spec"]["request"].clone(), why);
        Err(ApiError::invalid(admission.at.resource, admission.name(), vec![error]))
    }
}

/// What a request asks for. `None`: it cannot be read, which no valid object can be.
fn parsed(request: &Value) -> Option<CertificateRequest> {
    let text = ByteString::deserialize(&request["spec"]["request"]).ok()?.0;
    CertificateRequest::parse(&text).ok()
}

/// Whether the author has a right over a signer, or over all signers of its domain.
async fn may(chain: &Chain, admission: &Admission<'_>, verb: &str, signer: &str) -> Result<bool, ApiError> {
    let Some(user) = admission.author.actor.limited() else { return Ok(true) };
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let attributes = ResourceAttributes { verb, group: GROUP, resource: "signers", name, ..ResourceAttributes::default() };
        if chain.authorizer.decide(user, &attributes.into()).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The signer of a request that changes through a subresource.
fn changed<'a>(admission: &'a Admission<'_>, subresource: Subresource) -> Option<(&'a Value, &'a Value)> {
    let is_asked = admission.operation == Operation::Update && admission.subresource() == Some(subresource);
    let old = admission.old.as_ref().filter(|_| is_asked)?;
    Some((request(&*old.object)?, request(&*admission.object)?))
}

/// Only a user who may approve for the signer writes `/approval`.
pub(super) struct CertificateApproval;

impl PlugIn for CertificateApproval {
    const NAME: &'static str = "CertificateApproval";

    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let Some(signer) = changed(admission, Subresource::Approval).map(|(_, new)| signer(new).to_owned()) else { return Ok(()) };
        if may(chain, admission, "approve", &signer).await? {
            return Ok(());
        }
        Err(admission.forbidden(format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// Only a user who may sign for the signer changes conditions and certificate through `/status`.
pub(super) struct CertificateSigning;

impl PlugIn for CertificateSigning {
    const NAME: &'static str = "CertificateSigning";

    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let changed = changed(admission, Subresource::Status).filter(|(old, new)| old["status"] != new["status"]);
        let Some(signer) = changed.map(|(_, new)| signer(new).to_owned()) else { return Ok(()) };
        if may(chain, admission, "sign", &signer).await? {
            return Ok(());
        }
        Err(admission.forbidden(format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}

/// The signer of clients makes no administrators.
pub(super) struct CertificateSubjectRestriction;

impl PlugIn for CertificateSubjectRestriction {
    const NAME: &'static str = "CertificateSubjectRestriction";

    async fn validate(_chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let Some(request) = request(&*admission.object).filter(|_| admission.is_new()) else { return Ok(()) };
        if signer(request) != CLIENT_SIGNER {
            return Ok(());
        }
        let is_master = parsed(request).is_some_and(|request| request.organizations.iter().any(|group| group == MASTERS));
        if is_master {
            return Err(admission.forbidden(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")));
        }
        Ok(())
    }
}
