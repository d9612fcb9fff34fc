//! Why a server rejects a request, where its `Status` has the same reason for several causes. No other code reads the text of a server's message.

/// The texts of a quota's rejection, behind the object (upstream `apiserver/plugin/pkg/admission/resourcequota/controller.go`).
const QUOTA: [&str; 3] = ["is forbidden: exceeded quota: ", "is forbidden: failed quota: ", "is forbidden: status unknown for quota: "];

/// Why a server rejects a request.
///
/// Upstream returns `Forbidden` if a user lacks a right, if a quota has no room and if an admission plug-in rejects the
/// object. It returns `BadRequest` both for a webhook's denial and for a webhook that does not support dry run. Only
/// the message distinguishes these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user lacks the right.
    Right,
    /// A quota has no room.
    Quota,
    /// The object breaks a rule: validation, an admission plug-in, a policy or a webhook.
    Object,
    /// Something else: the request itself, such as a dry run that a webhook does not support.
    Request,
}

impl Refusal {
    /// Classifies a response.
    #[must_use]
    pub fn of(code: u16, message: &str) -> Self {
        let has = |text: &str| message.contains(text);
        match code {
            422 => Self::Object,
            403 if QUOTA.iter().any(|text| has(text)) => Self::Quota,
            403 if has("forbidden: User \"") && has("\" cannot ") => Self::Right,
            _ if has("does not support dry run") => Self::Request,
            403 => Self::Object,
            // The response of a webhook that denies has the code that the webhook chose.
            _ if has("denied the request") || has("failed calling webhook ") => Self::Object,
            _ => Self::Request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_has_one_cause() {
        for (code, message, wanted) in [
            (403, "pods \"web-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2", Refusal::Quota),
            (403, "pods \"web-x\" is forbidden: failed quota: few: must specify cpu", Refusal::Quota),
            (403, "pods \"web-x\" is forbidden: status unknown for quota: few", Refusal::Quota),
            (403, "pods \"exceeded quota: \" is forbidden: no", Refusal::Object),
            (403, "pods \"web-x\" is forbidden: violates PodSecurity \"restricted:latest\": privileged", Refusal::Object),
            (422, "pods \"web-x\" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no latest", Refusal::Object),
            (422, "Pod \"web-x\" is invalid: spec.containers: Required value", Refusal::Object),
            (400, "admission webhook \"policy.example.com\" denied the request: no", Refusal::Object),
            (500, "Internal error occurred: failed calling webhook \"policy.example.com\": connection refused", Refusal::Object),
            (
                403,
                "pods \"web-x\" is forbidden: error looking up service account shop/web: serviceaccount \"web\" not found",
                Refusal::Object,
            ),
            (
                403,
                "pods is forbidden: User \"joe\" cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"",
                Refusal::Right,
            ),
            (409, "pods is forbidden: User \"joe\" cannot create resource \"pods\"", Refusal::Request),
            (400, "admission webhook \"a\" does not support dry run", Refusal::Request),
            (404, "namespaces \"new\" not found", Refusal::Request),
        ] {
            assert_eq!(Refusal::of(code, message), wanted, "{code} {message}");
        }
    }
}
