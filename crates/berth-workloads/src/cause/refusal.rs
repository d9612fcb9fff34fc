//! Why pods were not created, from the API server's text.
//!
//! Upstream's API server uses the reason `Forbidden` for all of these errors, and a ReplicaSet's condition uses the reason `FailedCreate`.
//! Only the text differs, so this is the only code that parses it. An unknown text has the kind `Refused`, which never causes a rollback.

use super::Kind;

/// Parts of an error's text and the kind of each. The first match decides. Source: the messages of upstream's admission plug-ins.
const TEXTS: [(&str, Kind); 8] = [
    // These two come first, because a webhook's text can contain the other parts.
    ("admission webhook ", Kind::Webhook),
    ("failed calling webhook ", Kind::Webhook),
    ("exceeded quota: ", Kind::Quota),
    ("failed quota: ", Kind::Quota),
    ("status unknown for quota: ", Kind::Quota),
    ("violates PodSecurity ", Kind::PodSecurity),
    // A limit of a Container, a Pod or a PersistentVolumeClaim.
    (" usage per ", Kind::LimitRange),
    (" limit to request ratio per ", Kind::LimitRange),
];

/// The kind of error that a text describes.
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
