//! Values of types that only functions know.

pub(crate) mod authorizer;
mod cidrs;
mod named_format;
mod semvers;
mod urls;

pub(crate) use cidrs::{Cidr, CidrError};
pub(crate) use named_format::NamedFormat;
pub(crate) use semvers::{Semver, SemverError};
pub(crate) use urls::{Url, UrlError, check_escapes};

use berth_api::quantity::Quantity;
use serde_json::Value as Json;
use std::net::IpAddr;

#[derive(Debug)]
pub(crate) enum Opaque {
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Url),
    Quantity(Quantity),
    Semver(Semver),
    Format(&'static NamedFormat),
    Authorizer(authorizer::Check),
    Path(authorizer::Check),
    Group(authorizer::Check),
    Resource(authorizer::Check),
    Decision(authorizer::Verdict),
}

impl Opaque {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorizer(_) => authorizer::AUTHORIZER,
            Self::Path(_) => authorizer::PATH_CHECK,
            Self::Group(_) => authorizer::GROUP_CHECK,
            Self::Resource(_) => authorizer::RESOURCE_CHECK,
            Self::Decision(_) => authorizer::DECISION,
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one == other,
            (Self::Quantity(one), Self::Quantity(other)) => one == other,
            (Self::Semver(one), Self::Semver(other)) => one.compare(other).is_eq(),
            (Self::Format(one), Self::Format(other)) => std::ptr::eq(*one, *other),
            (Self::Decision(one), Self::Decision(other)) => one == other,
            (Self::Authorizer(one), Self::Authorizer(other))
            | (Self::Path(one), Self::Path(other))
            | (Self::Group(one), Self::Group(other))
            | (Self::Resource(one), Self::Resource(other)) => one.access == other.access,
            _ => false,
        }
    }

    /// The value as a text, for `string()` and formats.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Ip(address) => Some(address.to_string()),
            Self::Cidr(range) => Some(range.to_string()),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> Option<Json> {
        match self {
            Self::Quantity(quantity) => Some(quantity.to_string().into()),
            other => other.shown().map(Json::from),
        }
    }
}
