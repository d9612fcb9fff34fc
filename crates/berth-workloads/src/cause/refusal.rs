//! Why pods were not created, from the API server's text.
//!
//! Upstream's API server answers all of these with the reason `Forbidden`, and a ReplicaSet's condition has the reason `FailedCreate` for all of them. Only
//! the text differs, so this is the only place that reads it. A text that no part matches is of the kind `Refused`, for which no template is rolled back.

use super::Kind;

/// Parts of a refusal's text, by the kind of the cause; the first that is there decides. Source: the messages of upstream's admission plug-ins.
const TEXTS: [(&str, Kind); 8] = [
    // Both before the rest: a webhook may say anything.
    ("admission webhook ", Kind::Webhook),
    ("failed calling webhook ", Kind::Webhook),
    ("exceeded quota: ", Kind::Quota),
    ("failed quota: ", Kind::Quota),
    ("status unknown for quota: ", Kind::Quota),
    ("violates PodSecurity ", Kind::PodSecurity),
    // Container, Pod or PersistentVolumeClaim.
    (" usage per ", Kind::LimitRange),
    (" limit to request ratio per ", Kind::LimitRange),
];

/// What kind of refusal a text tells of.
pub(super) fn kind(message: &str) -> Kind {
    TEXTS.iter().find(|(part, _)| message.contains(part)).map_or(Kind::Refused, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_words() {
        for (message, wanted) in [
            ("pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2", Kind::Quota),
            ("pods \"a\" is forbidden: failed quota: q: must specify limits.cpu for: main", Kind::Quota),
            ("pods \"a\" is forbidden: status unknown for quota: q, resources: pods", Kind::Quota),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"main\" must not set …)",
                Kind::PodSecurity,
            ),
            ("pods \"a\" is forbidden: minimum cpu usage per Container is 100m, but request is 10m", Kind::LimitRange),
            ("pods \"a\" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi", Kind::LimitRange),
            (
                "pods \"a\" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
                Kind::LimitRange,
            ),
            ("admission webhook \"policy.example.com\" denied the request: exceeded quota: mine", Kind::Webhook),
            ("Internal error occurred: failed calling webhook \"policy.example.com\": connection refused", Kind::Webhook),
            ("pods \"a\" is forbidden: error looking up service account shop/web: serviceaccount \"web\" not found", Kind::Refused),
        ] {
            assert_eq!(kind(message), wanted, "{message}");
        }
    }
}
