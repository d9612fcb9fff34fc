//! Reviews of identities and permissions, which are computed and not stored.

use super::{Exchange, bodies::read_json};
use crate::{answer::Answer, auth::User, path::ResourcePath, status::Refusal};
use berth_api::{
    FieldError, Kind, Path,
    k8s_openapi::{
        api::{
            authentication::v1::{SelfSubjectReview, SelfSubjectReviewStatus, TokenReview, TokenReviewStatus, UserInfo},
            authorization::v1::{
                LocalSubjectAccessReview, NonResourceAttributes, NonResourceRule, ResourceAttributes, ResourceRule,
                SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
                SubjectRulesReviewStatus,
            },
            rbac::v1::PolicyRule,
        },
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    },
};
use berth_identity::GroupKind;
use berth_rbac::{Attributes, PathAttributes};
use berth_registry::{ApiError, Resource};
use hyper::{Method, StatusCode, body::Incoming};
use jiff::Timestamp;
use serde_json::json;

/// Handles a request for a review of this kind.
pub(super) async fn answer(
    exchange: &Exchange<'_>,
    at: &ResourcePath<'_>,
    resource: &Resource,
    body: &mut Incoming,
) -> Result<Answer, Refusal> {
    if (resource.scope == berth_api::Scope::Namespaced) != at.namespace.is_some() || at.name.is_some() {
        return Err(ApiError::UnknownResource.into());
    }
    if *exchange.method != Method::POST {
        return Err(ApiError::MethodNotAllowed.into());
    }
    let json = read_json(exchange, body).await?;
    let namespace = at.namespace.as_deref().unwrap_or_default();
    match resource.kind().as_str() {
        "SelfSubjectReview" => created(exchange, &self_subject(exchange, decode(resource, &json)?)),
        "TokenReview" => created(exchange, &token(exchange, decode(resource, &json)?).await?),
        "SelfSubjectAccessReview" => created(exchange, &self_access(exchange, decode(resource, &json)?).await?),
        "SubjectAccessReview" => created(exchange, &access(exchange, decode(resource, &json)?).await?),
        "LocalSubjectAccessReview" => created(exchange, &local_access(exchange, namespace, decode(resource, &json)?).await?),
        "SelfSubjectRulesReview" => created(exchange, &self_rules(exchange, decode(resource, &json)?).await?),
        _ => Err(ApiError::UnknownResource.into()),
    }
}

pub(super) fn created<T: serde::Serialize>(exchange: &Exchange<'_>, object: &T) -> Result<Answer, Refusal> {
    Ok(exchange.wishes()?.value(StatusCode::CREATED, object))
}

/// Decodes the review in a body. Unknown fields are ignored.
fn decode<K: Kind>(resource: &Resource, json: &[u8]) -> Result<K, ApiError> {
    let refused = |why: String| ApiError::BadRequest {
        message: format!("{} in version {:?} cannot be handled as a {}: {why}", K::KIND, resource.version(), K::KIND),
    };
    let mut value: serde_json::Value = serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
    let object = value.as_object_mut().ok_or_else(|| refused("it is no JSON object".to_owned()))?;
    object.entry("apiVersion").or_insert_with(|| json!(K::API_VERSION));
    object.entry("kind").or_insert_with(|| json!(K::KIND));
    K::decode_tree(&value).map_err(|error| refused(error.to_string()))
}

fn invalid(resource_kind: &str, group: &str, error: FieldError) -> ApiError {
    ApiError::Invalid { kind: GroupKind::new(group, resource_kind), name: String::new(), errors: vec![error] }
}

fn stamped(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { creation_timestamp: Timestamp::from_second(Timestamp::now().as_second()).ok().map(Time), ..meta }
}

fn user_info(user: &User) -> UserInfo {
    UserInfo {
        username: Some(user.name.clone()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
    }
}

fn self_subject(exchange: &Exchange<'_>, review: SelfSubjectReview) -> SelfSubjectReview {
    let status = SelfSubjectReviewStatus { user_info: Some(user_info(exchange.user())) };
    SelfSubjectReview { metadata: stamped(review.metadata), status: Some(status) }
}

async fn token(exchange: &Exchange<'_>, review: TokenReview) -> Result<TokenReview, ApiError> {
    if review.spec.token.is_empty() {
        return Err(ApiError::BadRequest { message: "token is required for TokenReview in authentication".to_owned() });
    }
    let authenticator = &exchange.shared.authenticator;
    let tokens = authenticator.account_tokens();
    let audiences = review.spec.audiences.as_deref().filter(|audiences| !audiences.is_empty()).unwrap_or_else(|| tokens.audiences());
    let status = match authenticator.holder(&exchange.shared.registry, review.spec.token.as_bytes(), audiences).await {
        Some(holder) => TokenReviewStatus {
            authenticated: Some(true),
            user: Some(user_info(&holder.user)),
            audiences: Some(holder.audiences),
            error: None,
        },
        None => TokenReviewStatus {
            user: Some(UserInfo::default()),
            error: Some("invalid bearer token".to_owned()),
            ..TokenReviewStatus::default()
        },
    };
    Ok(TokenReview { status: Some(status), ..review })
}

async fn self_access(exchange: &Exchange<'_>, review: SelfSubjectAccessReview) -> Result<SelfSubjectAccessReview, ApiError> {
    let kind = "SelfSubjectAccessReview";
    let (resource, path) = (review.spec.resource_attributes.as_ref(), review.spec.non_resource_attributes.as_ref());
    let status = decide(exchange, kind, exchange.user(), resource, path).await?;
    Ok(SelfSubjectAccessReview { status: Some(status), ..review })
}

async fn access(exchange: &Exchange<'_>, review: SubjectAccessReview) -> Result<SubjectAccessReview, ApiError> {
    let status = access_of(exchange, "SubjectAccessReview", &review.spec).await?;
    Ok(SubjectAccessReview { status: Some(status), ..review })
}

async fn local_access(
    exchange: &Exchange<'_>,
    namespace: &str,
    review: LocalSubjectAccessReview,
) -> Result<LocalSubjectAccessReview, ApiError> {
    let kind = "LocalSubjectAccessReview";
    let refused = |error| Err(invalid(kind, "authorization.k8s.io", error));
    if review.spec.non_resource_attributes.is_some() {
        let path = Path::new("spec.nonResourceAttributes");
        return refused(FieldError::invalid(&path, json!({}), "disallowed on this kind of request"));
    }
    let own = review.spec.resource_attributes.as_ref().and_then(|attributes| attributes.namespace.as_deref()).unwrap_or_default();
    if review.spec.resource_attributes.is_some() && own != namespace {
        return refused(FieldError::invalid(&Path::new("spec.resourceAttributes.namespace"), own, "must match metadata.namespace"));
    }
    let status = access_of(exchange, kind, &review.spec).await?;
    Ok(LocalSubjectAccessReview { status: Some(status), ..review })
}

async fn access_of(exchange: &Exchange<'_>, kind: &str, spec: &SubjectAccessReviewSpec) -> Result<SubjectAccessReviewStatus, ApiError> {
    let user = User {
        name: spec.user.clone().unwrap_or_default(),
        uid: spec.uid.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        extra: spec.extra.clone().unwrap_or_default(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let error = FieldError::invalid(&Path::new("spec.user"), "", "at least one of user or group must be specified");
        return Err(invalid(kind, "authorization.k8s.io", error));
    }
    decide(exchange, kind, &user, spec.resource_attributes.as_ref(), spec.non_resource_attributes.as_ref()).await
}

async fn decide(
    exchange: &Exchange<'_>,
    kind: &str,
    user: &User,
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
) -> Result<SubjectAccessReviewStatus, ApiError> {
    let refused = |field: &str, detail: &str| {
        Err(invalid(kind, "authorization.k8s.io", FieldError::invalid(&Path::new("spec").child(field), json!(null), detail)))
    };
    let attributes = match (resource, path) {
        (Some(_), Some(_)) => return refused("nonResourceAttributes", "cannot be specified in combination with resourceAttributes"),
        (None, None) => {
            return refused("resourceAttributes", "exactly one of nonResourceAttributes or resourceAttributes must be specified");
        }
        (Some(resource), None) => attributes_of(resource),
        (None, Some(path)) => Attributes::Path(PathAttributes { verb: text(&path.verb), path: text(&path.path) }),
    };
    let reason = exchange.shared.registry.decide(user, &attributes).await?;
    let allowed = reason.is_some();
    Ok(SubjectAccessReviewStatus { allowed, reason: reason.filter(|reason| !reason.is_empty()), ..SubjectAccessReviewStatus::default() })
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

fn attributes_of(asked: &ResourceAttributes) -> Attributes<'_> {
    Attributes::from(berth_rbac::ResourceAttributes {
        verb: text(&asked.verb),
        group: text(&asked.group),
        resource: text(&asked.resource),
        subresource: text(&asked.subresource),
        namespace: text(&asked.namespace),
        name: text(&asked.name),
    })
}

async fn self_rules(exchange: &Exchange<'_>, review: SelfSubjectRulesReview) -> Result<SelfSubjectRulesReview, ApiError> {
    let namespace = review.spec.namespace.as_deref().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::BadRequest { message: "no namespace on request".to_owned() });
    }
    let policy = exchange.shared.registry.policy().await?;
    let mut status = SubjectRulesReviewStatus::default();
    for rule in policy.rules_for(exchange.user(), namespace) {
        add_rule(&mut status, rule);
    }
    Ok(SelfSubjectRulesReview { metadata: review.metadata, spec: Default::default(), status: Some(status) })
}

fn add_rule(status: &mut SubjectRulesReviewStatus, rule: &PolicyRule) {
    let has = |field: &Option<Vec<String>>| field.as_ref().is_some_and(|values| !values.is_empty());
    if has(&rule.resources) {
        status.resource_rules.push(ResourceRule {
            verbs: rule.verbs.clone(),
            api_groups: rule.api_groups.clone(),
            resources: rule.resources.clone(),
            resource_names: rule.resource_names.clone(),
        });
    }
    if has(&rule.non_resource_urls) {
        status.non_resource_rules.push(NonResourceRule { verbs: rule.verbs.clone(), non_resource_urls: rule.non_resource_urls.clone() });
    }
}
