//! Asks the API server of a part to authenticate and authorize requests.

use crate::progress::chain;
use berth_apiserver::{
    auth::User,
    part::{Delegate, Unanswered},
};
use berth_remote::Connection;
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, api::PostParams};

/// Uses `TokenReview` and `SubjectAccessReview`, as upstream's components do.
pub(super) struct Reviews(pub(super) Connection);

impl Reviews {
    async fn holder_of(&self, token: String) -> kube::Result<Option<User>> {
        let asked = TokenReview { spec: TokenReviewSpec { token, ..TokenReviewSpec::default() }, ..TokenReview::default() };
        let answer = Api::all(self.0.client().clone()).create(&PostParams::default(), &asked).await?;
        let status = answer.status.filter(|status| status.authenticated == Some(true));
        Ok(status.and_then(|status| status.user).map(|user| User {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }

    async fn is_allowed(&self, user: &User, verb: &str, path: &str) -> kube::Result<bool> {
        let asked = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
                groups: Some(user.groups.clone()),
                extra: Some(user.extra.clone()),
                non_resource_attributes: Some(NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = Api::all(self.0.client().clone()).create(&PostParams::default(), &asked).await?;
        Ok(answer.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

/// The message for an unauthenticated client: it contains neither the address of the API server nor its opinion of the client. The log has both.
fn unanswered(connection: &Connection, error: &kube::Error) -> Unanswered {
    if !matches!(error, kube::Error::Api(_)) {
        connection.next_server();
    }
    tracing::warn!(error = chain(error), "could not ask the API server for access to health and metrics");
    Unanswered(match error {
        kube::Error::Api(status) => format!("it responded with code {}", status.code),
        _ => "it cannot be reached".to_owned(),
    })
}

impl Delegate for Reviews {
    fn holder(&self, token: String) -> BoxFuture<'_, Result<Option<User>, Unanswered>> {
        async move { self.holder_of(token).await.map_err(|error| unanswered(&self.0, &error)) }.boxed()
    }

    fn may<'a>(&'a self, user: &'a User, verb: &'a str, path: &'a str) -> BoxFuture<'a, Result<bool, Unanswered>> {
        async move { self.is_allowed(user, verb, path).await.map_err(|error| unanswered(&self.0, &error)) }.boxed()
    }
}
