//! Content negotiation: the encodings of a request and its response. Pure.

use berth_registry::{ApiError, Resource, table::MetaVersion};

/// The encoding of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySyntax {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// The form of an object in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole object.
    Object,
    /// A table with rows and columns, as kubectl prints them.
    Table,
    /// `PartialObjectMetadata` of one object.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
}

/// The response format that the client prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The form.
    pub form: Form,
    /// The version of `meta.k8s.io`, for forms other than the object itself.
    pub version: MetaVersion,
    /// The encoding.
    pub syntax: Syntax,
}

/// A patch type, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// The form of discovery that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryForm {
    /// One document per group version.
    Legacy,
    /// One document for all, `apidiscovery.k8s.io/v2`.
    Aggregated,
}

/// Unchanged objects as JSON.
pub(crate) const PLAIN: Accepted = Accepted { form: Form::Object, version: MetaVersion::V1, syntax: Syntax::Json };
const UNKNOWN_BODY: &str = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The message for a patch of an object of a custom kind.
const UNKNOWN_PATCH: &str = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The maximum number of entries of a header that are read. Sorting them takes time, and no real client sends as many.
const CLAUSES_MAX: usize = 100;

/// One entry of an Accept header.
struct Clause<'a> {
    media_type: &'a str,
    parameters: &'a str,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
        Self { media_type: media_type.trim(), parameters }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let pairs = self.parameters.split(';').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().trim_matches('"'))
    }

    /// Returns the quality in thousandths, the precision of RFC 9110.
    fn quality(&self) -> u16 {
        let quality: f32 = self.parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0);
        // The cast saturates, so no client value overflows.
        (quality.clamp(0.0, 1.0) * 1000.0) as u16
    }

    fn is(&self, media_type: &str) -> bool {
        self.media_type.eq_ignore_ascii_case(media_type)
    }

    fn syntax(&self) -> Option<Syntax> {
        if self.is("application/json") || self.is("*/*") || self.is("application/*") {
            Some(Syntax::Json)
        } else if self.is("application/yaml") {
            Some(Syntax::Yaml)
        } else {
            None
        }
    }

    fn form(&self) -> Option<(Form, MetaVersion)> {
        let Some(kind) = self.parameter("as") else { return Some((Form::Object, MetaVersion::V1)) };
        let version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
            _ => return None,
        };
        let form = match kind {
            "Table" => Form::Table,
            "PartialObjectMetadata" => Form::Metadata,
            "PartialObjectMetadataList" => Form::MetadataList,
            _ => return None,
        };
        Some((form, version))
    }

    fn accepted(&self) -> Option<Accepted> {
        let (form, version) = self.form()?;
        Some(Accepted { syntax: self.syntax()?, form, version })
    }
}

/// Returns the clauses of a header by descending quality, without those of quality 0. Equal ones keep their order.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let clauses = header.split(',').take(CLAUSES_MAX).map(Clause::parse);
    let mut clauses: Vec<_> = clauses.filter(|clause| !clause.media_type.is_empty() && clause.quality() > 0).collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality()));
    clauses
}

/// Returns the format of a response with objects, or `None` if no format is acceptable (406). A missing header accepts
/// every format.
#[must_use]
pub fn accept(header: Option<&str>) -> Option<Accepted> {
    match header.map(str::trim) {
        None | Some("" | "*/*" | "application/json") => Some(PLAIN),
        Some(header) => clauses(header).iter().find_map(Clause::accepted),
    }
}

/// Whether JSON is indented: as `pretty` requests, otherwise for interactive programs.
#[must_use]
pub fn is_indented(pretty: Option<&str>, user_agent: Option<&str>) -> bool {
    match pretty {
        None | Some("") => user_agent.is_some_and(|agent| ["curl", "Wget", "Mozilla/5.0"].iter().any(|program| agent.starts_with(program))),
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

/// Returns the form of discovery for a response.
#[must_use]
pub fn accept_discovery(header: Option<&str>) -> Option<DiscoveryForm> {
    let Some(header) = header.map(str::trim).filter(|header| !header.is_empty()) else { return Some(DiscoveryForm::Legacy) };
    clauses(header).iter().find_map(|clause| {
        clause.syntax().filter(|syntax| *syntax == Syntax::Json)?;
        match (clause.parameter("as"), clause.parameter("g"), clause.parameter("v")) {
            (None, _, _) => Some(DiscoveryForm::Legacy),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => Some(DiscoveryForm::Aggregated),
            _ => None,
        }
    })
}

/// Whether a client prefers OpenAPI v2 in protobuf to the other encodings.
#[must_use]
pub fn prefers_protobuf_openapi(header: Option<&str>) -> bool {
    let is_protobuf =
        |clause: &Clause<'_>| clause.is(berth_protobuf::OPENAPI_V2_ACCEPTED) || clause.is(berth_protobuf::OPENAPI_V2_MEDIA_TYPE);
    let all = clauses(header.unwrap_or_default());
    all.iter().find(|clause| is_protobuf(clause) || clause.syntax().is_some()).is_some_and(is_protobuf)
}

/// Whether a client accepts gzip, by its Accept-Encoding.
#[must_use]
pub fn accepts_gzip(header: Option<&str>) -> bool {
    header.is_some_and(|header| clauses(header).iter().any(|clause| clause.is("gzip") || clause.is("*")))
}

/// Returns the encoding of a request's body. Without a content type it is JSON, because
/// `kubectl scale --current-replicas` sends none.
///
/// # Errors
/// An unsupported type, such as CBOR.
pub fn body_syntax(content_type: Option<&str>) -> Result<BodySyntax, ApiError> {
    let clause = Clause::parse(content_type.unwrap_or_default());
    if clause.media_type.is_empty() || clause.is("application/json") {
        Ok(BodySyntax::Json)
    } else if clause.is("application/yaml") {
        Ok(BodySyntax::Yaml)
    } else if clause.is(berth_protobuf::MEDIA_TYPE) {
        Ok(BodySyntax::Protobuf)
    } else {
        Err(ApiError::UnsupportedMediaType { message: UNKNOWN_BODY.to_owned() })
    }
}

/// Returns the encoding of the body of a create or an update. Only built-in kinds have a protobuf form.
///
/// # Errors
/// An unsupported encoding.
pub fn object_syntax(content_type: Option<&str>, resource: &Resource) -> Result<BodySyntax, ApiError> {
    match body_syntax(content_type)? {
        BodySyntax::Protobuf if !resource.is_built_in() => Err(ApiError::UnsupportedMediaType { message: UNKNOWN_BODY.to_owned() }),
        syntax => Ok(syntax),
    }
}

/// Returns the type of a patch to an object of `resource`.
///
/// # Errors
/// The type is not a patch, or not supported for the kind: a strategic patch needs list keys, which only built-in kinds
/// define.
pub fn patch_type(content_type: Option<&str>, resource: &Resource) -> Result<PatchType, ApiError> {
    match (Clause::parse(content_type.unwrap_or_default()).media_type, resource.is_built_in()) {
        ("application/json-patch+json", _) => Ok(PatchType::Json),
        ("application/merge-patch+json", _) => Ok(PatchType::Merge),
        ("application/strategic-merge-patch+json", true) => Ok(PatchType::Strategic),
        ("application/apply-patch+yaml", _) => Ok(PatchType::Apply),
        (_, true) => Err(ApiError::UnsupportedMediaType { message: "415: Unsupported Media Type".to_owned() }),
        (_, false) => Err(ApiError::UnsupportedMediaType { message: UNKNOWN_PATCH.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::k8s_openapi::api::core::v1::ConfigMap;
    use berth_registry::resource;

    #[track_caller]
    fn check(header: &str, expected: &str) {
        let found = accept(Some(header)).map_or("refused".to_owned(), |found| format!("{:?} {:?}", found.form, found.syntax));
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn media_types_after_a_hundred_others_are_not_read() {
        let after = |count: usize| format!("{}application/json", "a/b;q=0.5,".repeat(count));
        check(&after(CLAUSES_MAX - 1), "Object Json");
        check(&after(CLAUSES_MAX), "refused");
    }

    #[test]
    fn json_is_found_at_any_position() {
        check("", "Object Json");
        check("*/*", "Object Json");
        check("application/json", "Object Json");
        check("application/json;stream=watch", "Object Json");
        check("application/vnd.kubernetes.protobuf,application/json", "Object Json");
        check("application/cbor, application/json;q=0.5", "Object Json");
        check("text/html,application/xhtml+xml,*/*;q=0.8", "Object Json");
        assert_eq!(accept(None), Some(PLAIN));
    }

    #[test]
    fn forms_are_found_with_their_parameters_in_any_order() {
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table Json");
        check("application/json;g=meta.k8s.io;v=v1beta1;as=Table", "Table Json");
        let version = |header| accept(Some(header)).map(|accepted| accepted.version);
        assert_eq!(version("application/json;g=meta.k8s.io;v=v1beta1;as=Table"), Some(MetaVersion::V1Beta1));
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1", "MetadataList Json");
        check("application/json; as=PartialObjectMetadata; g=meta.k8s.io; v=v1", "Metadata Json");
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "MetadataList Json");
        check("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", "Object Json");
    }

    #[test]
    fn json_is_indented_for_people_unless_the_query_disables_it() {
        let curl = Some("curl/8.14.1");
        assert!(is_indented(None, curl) && is_indented(Some(""), Some("Wget/1.21")) && is_indented(None, Some("Mozilla/5.0 (X11)")));
        assert!(is_indented(Some("true"), None) && is_indented(Some("1"), Some("kubectl/v1.36.2")));
        assert!(
            !is_indented(None, None) && !is_indented(None, Some("kubectl/v1.36.2")) && !is_indented(Some(""), Some("Go-http-client/2.0"))
        );
        assert!(!is_indented(Some("false"), curl) && !is_indented(Some("0"), curl) && !is_indented(Some("yes"), curl));
    }

    #[test]
    fn quality_decides_before_order() {
        check("application/json;q=0.5,application/yaml", "Object Yaml");
        check("application/json;q=0,application/yaml;q=0.1", "Object Yaml");
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        check("application/vnd.kubernetes.protobuf", "refused");
        check("text/plain", "refused");
        check("application/json;as=Table;v=v2;g=meta.k8s.io", "refused");
        check("application/json;q=0", "refused");
    }

    #[test]
    fn kubectl_gets_aggregated_discovery_and_old_clients_do_not() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(accept_discovery(Some(aggregated)), Some(DiscoveryForm::Aggregated));
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(accept_discovery(Some(beta)), Some(DiscoveryForm::Legacy));
        assert_eq!(accept_discovery(None), Some(DiscoveryForm::Legacy));
        assert_eq!(accept_discovery(Some("application/vnd.kubernetes.protobuf")), None);
    }

    #[test]
    fn openapi_is_protobuf_for_kubectl_alone() {
        let kubectl = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        assert!(prefers_protobuf_openapi(Some(kubectl)));
        assert!(prefers_protobuf_openapi(Some(&format!("{kubectl},application/json"))));
        assert!(!prefers_protobuf_openapi(Some(&format!("application/json,{kubectl}"))));
        assert!(!prefers_protobuf_openapi(Some("*/*")));
        assert!(!prefers_protobuf_openapi(None));
    }

    #[test]
    fn gzip_is_used_only_where_it_is_taken() {
        assert!(accepts_gzip(Some("deflate, gzip;q=1.0")));
        assert!(!accepts_gzip(Some("identity")));
        assert!(!accepts_gzip(Some("gzip;q=0")));
        assert!(!accepts_gzip(None));
    }

    #[test]
    fn a_body_without_a_type_is_json_and_cbor_is_refused() {
        assert_eq!(body_syntax(None).expect("JSON"), BodySyntax::Json);
        assert_eq!(body_syntax(Some("application/json; charset=utf-8")).expect("JSON"), BodySyntax::Json);
        assert_eq!(body_syntax(Some("application/yaml")).expect("YAML"), BodySyntax::Yaml);
        assert_eq!(body_syntax(Some("application/vnd.kubernetes.protobuf")).expect("protobuf"), BodySyntax::Protobuf);
        let refused = body_syntax(Some("application/cbor")).expect_err("not taken");
        assert_eq!(refused.to_string(), UNKNOWN_BODY);
    }

    #[test]
    fn patches_are_known_by_their_type_alone() {
        let type_of = |content_type| patch_type(content_type, resource::of::<ConfigMap>());
        assert_eq!(type_of(Some("application/strategic-merge-patch+json")).expect("known"), PatchType::Strategic);
        assert_eq!(type_of(Some("application/merge-patch+json; charset=utf-8")).expect("known"), PatchType::Merge);
        assert_eq!(type_of(Some("application/apply-patch+yaml")).expect("known"), PatchType::Apply);
        assert!(type_of(Some("application/apply-patch+cbor")).is_err());
        assert!(type_of(Some("application/json")).is_err());
        assert!(type_of(None).is_err());
    }
}
