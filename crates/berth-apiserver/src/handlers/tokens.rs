//! Tokens for service accounts: `serviceaccounts/NAME/token`, and the documents for other verifiers.

use super::{Exchange, bodies::read_json, reviews::created};
use crate::{
    answer::{self, Answer},
    auth::{Bound, Claims, Reference},
    path::Route,
    status::Refusal,
};
use berth_api::{
    FieldError, Path,
    decode::Codec,
    k8s_openapi::{
        api::{
            authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestStatus},
            core::v1::Pod,
        },
        apimachinery::pkg::apis::meta::v1::Time,
    },
};
use berth_identity::{GroupKind, GroupResource};
use berth_rbac::service_account_name;
use berth_registry::{ApiError, Current, GetOptions, Target, resource};
use hyper::{
    StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};
use jiff::Timestamp;
use std::{net::SocketAddr, sync::Arc};

const DEFAULT_SECONDS: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

/// Creates a token for the target's account.
pub(super) async fn request(exchange: &Exchange<'_>, target: &Target, body: &mut Incoming) -> Result<Answer, Refusal> {
    let json = read_json(exchange, body).await?;
    let mut request: TokenRequest = serde_json::from_slice(&json).map_err(|error| ApiError::BadRequest {
        message: format!("TokenRequest in version \"v1\" cannot be handled as a TokenRequest: {error}"),
    })?;
    check_names(target, &request)?;
    let mut spec = request.spec.take().unwrap_or_default();
    let seconds = check_seconds(spec.expiration_seconds)?;
    let tokens = exchange.shared.authenticator.account_tokens();
    let account = reference(exchange, "serviceaccounts", target.namespace.as_deref(), &target.name).await?;
    let mut bound = Bound { namespace: target.namespace.clone().unwrap_or_default(), serviceaccount: account, ..Bound::default() };
    if let Some(object) = &spec.bound_object_ref {
        bind(exchange, &mut bound, object).await?;
    }
    let audiences = spec.audiences.take().filter(|audiences| !audiences.is_empty());
    let audiences = audiences.unwrap_or_else(|| tokens.audiences().to_vec());
    let now = exchange.registry().now().as_second();
    let claims = Claims {
        aud: audiences.clone(),
        exp: now + seconds,
        iat: now,
        iss: tokens.issuer().to_owned(),
        jti: exchange.new_uuid(),
        sub: service_account_name(&bound.namespace, &bound.serviceaccount.name),
        kubernetes: bound,
        nbf: now,
    };
    spec.audiences = Some(audiences);
    spec.expiration_seconds = Some(seconds);
    request.spec = Some(spec);
    request.metadata.name = Some(target.name.clone());
    request.metadata.namespace.clone_from(&target.namespace);
    request.metadata.creation_timestamp = Timestamp::from_second(now).ok().map(Time);
    let expiration_timestamp = Timestamp::from_second(claims.exp).ok().map(Time);
    request.status = Some(TokenRequestStatus { token: Some(tokens.sign(&claims)), expiration_timestamp });
    created(exchange, &request)
}

fn check_names(target: &Target, request: &TokenRequest) -> Result<(), ApiError> {
    let differs = |found: &Option<String>, wanted: &str| found.as_deref().is_some_and(|found| !found.is_empty() && found != wanted);
    if differs(&request.metadata.name, &target.name) {
        let found = request.metadata.name.as_deref().unwrap_or_default();
        let message = format!("the name of the object ({found}) does not match the name on the URL ({})", target.name);
        return Err(ApiError::BadRequest { message });
    }
    if differs(&request.metadata.namespace, target.namespace.as_deref().unwrap_or_default()) {
        let message = "the namespace of the provided object does not match the namespace sent on the request".to_owned();
        return Err(ApiError::BadRequest { message });
    }
    Ok(())
}

fn check_seconds(wanted: Option<i64>) -> Result<i64, ApiError> {
    let seconds = wanted.unwrap_or(DEFAULT_SECONDS);
    let detail = match seconds {
        ..SECONDS_MIN => "may not specify a duration less than 10 minutes",
        SECONDS_MIN..=SECONDS_MAX => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid(&Path::new("spec.expirationSeconds"), seconds, detail);
    let kind = GroupKind::from_static("authentication.k8s.io", "TokenRequest");
    Err(ApiError::Invalid { kind, name: String::new(), errors: vec![error] })
}

/// Binds the token to `object`, whose deletion invalidates it.
async fn bind(exchange: &Exchange<'_>, bound: &mut Bound, object: &BoundObjectReference) -> Result<(), ApiError> {
    let name = object.name.as_deref().unwrap_or_default();
    let namespace = bound.namespace.clone();
    match (object.api_version.as_deref().unwrap_or_default(), object.kind.as_deref().unwrap_or_default()) {
        ("v1", "Pod") => {
            let found = reference(exchange, "pods", Some(&namespace), name).await?;
            bound.node = pod_node(exchange, bound, name).await?;
            bound.pod = Some(same_uid(object, "pods", found)?);
        }
        ("v1", "Secret") => {
            let found = reference(exchange, "secrets", Some(&namespace), name).await?;
            bound.secret = Some(same_uid(object, "secrets", found)?);
        }
        ("v1", "Node") => {
            let found = reference(exchange, "nodes", None, name).await?;
            bound.node = Some(same_uid(object, "nodes", found)?);
        }
        (version, kind) => {
            let message = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(ApiError::BadRequest { message });
        }
    }
    Ok(())
}

/// Returns the node of a pod, which must run as the token's account.
async fn pod_node(exchange: &Exchange<'_>, bound: &Bound, name: &str) -> Result<Option<Reference>, ApiError> {
    let target = target("pods", Some(&bound.namespace), name);
    let Current::Stored(entry) = exchange.shared.registry.get(&target, &GetOptions::default()).await? else { return Ok(None) };
    let pod =
        Pod::decode_json(&entry.value).map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })?;
    let spec = pod.spec.unwrap_or_default();
    if spec.service_account_name.as_deref() != Some(&bound.serviceaccount.name) {
        let account = &bound.serviceaccount.name;
        let message = format!("cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name.");
        return Err(ApiError::BadRequest { message });
    }
    match spec.node_name.filter(|node| !node.is_empty()) {
        None => Ok(None),
        Some(node) => match reference(exchange, "nodes", None, &node).await {
            Ok(node) => Ok(Some(node)),
            Err(ApiError::NotFound { .. }) => Ok(Some(Reference { name: node, uid: String::new() })),
            Err(error) => Err(error),
        },
    }
}

fn same_uid(object: &BoundObjectReference, plural: &str, found: Reference) -> Result<Reference, ApiError> {
    match object.uid.as_deref().filter(|uid| !uid.is_empty() && *uid != found.uid) {
        None => Ok(found),
        Some(uid) => {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and \
                 then recreated"
            );
            let message = format!("Operation cannot be fulfilled on {plural} {:?}: {why}", found.name);
            Err(ApiError::Conflict { resource: GroupResource::new("", plural), name: found.name, message })
        }
    }
}

fn target(plural: &str, namespace: Option<&str>, name: &str) -> Target {
    let resource = resource::built_in().by_name(&GroupResource::new("", plural)).expect("a kind of the table");
    Target { resource: Arc::clone(resource), namespace: namespace.map(ToOwned::to_owned), name: name.to_owned(), subresource: None }
}

async fn reference(exchange: &Exchange<'_>, plural: &str, namespace: Option<&str>, name: &str) -> Result<Reference, ApiError> {
    let uid = match exchange.shared.registry.get(&target(plural, namespace, name), &GetOptions::default()).await? {
        Current::Stored(entry) => entry.header.uid.to_string(),
        Current::Made(object) => object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
    };
    Ok(Reference { name: name.to_owned(), uid })
}

/// Returns `/.well-known/openid-configuration` and `/openid/v1/jwks`.
pub(super) fn discovery(exchange: &Exchange<'_>, route: &Route<'_>, address: SocketAddr) -> Answer {
    let tokens = exchange.shared.authenticator.account_tokens();
    let (document, media_type) = match route {
        Route::JsonWebKeys => (tokens.json_web_keys(), "application/jwk-set+json"),
        _ => (tokens.configuration(&format!("https://{address}")), "application/json"),
    };
    let mut answer = answer::text(StatusCode::OK, document.to_string());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_ten_minutes_at_least() {
        assert_eq!(check_seconds(None).expect("the default"), 3600);
        assert_eq!(check_seconds(Some(600)).expect("the least"), 600);
        let refused = check_seconds(Some(10)).expect_err("too short").to_string();
        assert_eq!(
            refused,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less \
             than 10 minutes"
        );
        assert!(check_seconds(Some((1 << 32) + 1)).is_err());
    }
}
