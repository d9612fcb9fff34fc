//! Impersonation of other users by headers.
//!
//! Source: kubernetes `endpoints/filters/impersonation`, KEP-5284 (constrained impersonation).

use super::User;
use berth_rbac::{AUTHENTICATED, Attributes, PathAttributes, ResourceAttributes, UNAUTHENTICATED};
use berth_registry::{ApiError, Registry, authorization::forbidden};
use hyper::HeaderMap;
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const IDENTITY_GROUP: &str = "authentication.k8s.io";

/// The identity that a request impersonates.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Returns the user that the request impersonates, if `user` has the right. `None`: the request has no such header.
///
/// # Errors
/// [`ApiError::BadRequest`] for headers without a user, [`ApiError::Forbidden`].
pub async fn impersonated(registry: &Registry, user: &User, headers: &HeaderMap, asked: &Attributes<'_>) -> Result<Option<User>, ApiError> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let Some(wish) = Wish::read(headers)? else { return Ok(None) };
    if user.is_master() || wish.is_allowed_as_before(registry, user).await? || wish.is_allowed_for(registry, user, asked).await? {
        return Ok(Some(wish.granted()));
    }
    let verb = format!("impersonate-on:{}:{}", wish.mode(), asked.verb());
    Err(forbidden(user, &with_verb(asked, &verb)))
}

impl Wish {
    fn read(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let text = |value: &hyper::header::HeaderValue| {
            value.to_str().map(str::to_owned).map_err(|_| ApiError::BadRequest { message: "an Impersonate header is no text".to_owned() })
        };
        let one = |name: &str| headers.get(name).map(text).transpose().map(Option::unwrap_or_default);
        let mut wish = Self { user: one("impersonate-user")?, uid: one("impersonate-uid")?, ..Self::default() };
        for value in headers.get_all("impersonate-group") {
            wish.groups.push(text(value)?);
        }
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                let key = percent_decode_str(key).decode_utf8_lossy().to_lowercase();
                wish.extra.entry(key).or_default().push(text(value)?);
            }
        }
        match (wish.user.is_empty(), wish.first_part()) {
            (false, _) => Ok(Some(wish)),
            (true, None) => Ok(None),
            (true, Some(part)) => Err(ApiError::BadRequest { message: format!("requested {part} without impersonating a user name") }),
        }
    }

    /// Returns a part of the identity besides the user, if any.
    fn first_part(&self) -> Option<String> {
        let group = self.groups.first().map(|group| format!("group {group:?}"));
        let uid = (!self.uid.is_empty()).then(|| format!("uid {:?}", self.uid));
        group.or(uid).or_else(|| self.extra.keys().next().map(|key| format!("extra {key:?}")))
    }

    fn as_account(&self) -> Option<(String, String)> {
        let user = User { name: self.user.clone(), ..User::default() };
        user.as_service_account().map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
    }

    /// Returns the kind of identity, as in the names of constrained verbs.
    fn mode(&self) -> &'static str {
        if self.as_account().is_some() { "serviceaccount" } else { "user-info" }
    }

    /// Whether the user has the verb `impersonate` for every part of the identity.
    async fn is_allowed_as_before(&self, registry: &Registry, user: &User) -> Result<bool, ApiError> {
        self.may_be(registry, user, "impersonate", "").await
    }

    /// Whether the user has the constrained verbs: for this kind of identity, and for the request as this identity.
    async fn is_allowed_for(&self, registry: &Registry, user: &User, asked: &Attributes<'_>) -> Result<bool, ApiError> {
        let on = format!("impersonate-on:{}:{}", self.mode(), asked.verb());
        Ok(registry.decide(user, &with_verb(asked, &on)).await?.is_some()
            && self.may_be(registry, user, &format!("impersonate:{}", self.mode()), IDENTITY_GROUP).await?)
    }

    async fn may_be(&self, registry: &Registry, user: &User, verb: &str, group: &str) -> Result<bool, ApiError> {
        let base = ResourceAttributes { verb, group, ..ResourceAttributes::default() };
        let identity = ResourceAttributes { group: IDENTITY_GROUP, ..base };
        let account = self.as_account();
        let mut parts = vec![match &account {
            Some((namespace, name)) => ResourceAttributes { resource: "serviceaccounts", namespace, name, ..base },
            None => ResourceAttributes { resource: "users", name: &self.user, ..base },
        }];
        parts.extend(self.groups.iter().map(|name| ResourceAttributes { resource: "groups", name, ..base }));
        if !self.uid.is_empty() {
            parts.push(ResourceAttributes { resource: "uids", name: &self.uid, ..identity });
        }
        for (key, values) in &self.extra {
            let of = |name| ResourceAttributes { resource: "userextras", subresource: key, name, ..identity };
            parts.extend(values.iter().map(|value| of(value.as_str())));
        }
        for part in parts {
            if registry.decide(user, &part.into()).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn granted(self) -> User {
        let account = self.as_account().filter(|_| self.groups.is_empty());
        let mut groups = account.map_or(self.groups, |(namespace, name)| User::service_account(&namespace, &name, "").groups);
        let of_all = if self.user == "system:anonymous" { UNAUTHENTICATED } else { AUTHENTICATED };
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(of_all.to_owned());
        }
        User { name: self.user, uid: self.uid, groups, extra: self.extra }
    }
}

fn with_verb<'a>(asked: &Attributes<'a>, verb: &'a str) -> Attributes<'a> {
    match *asked {
        Attributes::Resource(attributes) => ResourceAttributes { verb, ..attributes }.into(),
        Attributes::Path(attributes) => Attributes::Path(PathAttributes { verb, ..attributes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn read(headers: &[(&'static str, &'static str)]) -> Result<Option<Wish>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Wish::read(&map).map_err(|error| error.to_string())
    }

    fn granted(headers: &[(&'static str, &'static str)]) -> User {
        read(headers).expect("a good wish").expect("a wish").granted()
    }

    #[test]
    fn headers_name_the_impersonated_user() {
        let headers = [
            ("impersonate-user", "bob"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-a%2fb", "1"),
            ("impersonate-extra-a%2fb", "2"),
        ];
        let user = granted(&headers);
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "7"));
        assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(user.extra["a/b"], ["1", "2"]);
        assert_eq!(granted(&[("impersonate-user", "system:anonymous")]).groups, ["system:unauthenticated"]);
        let account = granted(&[("impersonate-user", "system:serviceaccount:n:s")]);
        assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]);
    }

    #[test]
    fn parts_without_a_user_are_refused() {
        for (headers, expected) in [
            ([("impersonate-group", "dev")], "requested group \"dev\" without impersonating a user name"),
            ([("impersonate-uid", "7")], "requested uid \"7\" without impersonating a user name"),
            ([("impersonate-extra-k", "v")], "requested extra \"k\" without impersonating a user name"),
        ] {
            assert_eq!(read(&headers), Err(expected.to_owned()));
        }
        assert_eq!(read(&[("impersonate-user", "")]), Ok(None));
    }
}
