//! Pages: HTML that is rendered from the cached state. A page has a static frame and parts that change independently.
//!
//! Rendering is pure, except for the locks of the caches. Texts of a cluster are untrusted: `maud` escapes markup in
//! them, and [`shown`] shows misleading characters by their code.

mod frame;
mod list;
mod nodes;
mod pods;
pub(crate) mod question;
mod quotas;
mod workload;

use crate::{
    address::{path, plain},
    cluster_cache::ClusterCache,
    text::{self, counted, shown},
};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use jiff::Timestamp;
use maud::{Markup, html};
use sha2::{Digest, Sha256};
use std::{borrow::Cow, fmt::Write};

pub(crate) use frame::{Reader, SignIn, missing, sign_in, whole};

/// The only script.
pub(crate) const SCRIPT: &str = include_str!("../web/live.js");

/// Returns the style sheet, with the style of charts.
pub(crate) fn style() -> String {
    format!("{}\n{}", include_str!("../web/style.css"), berth_chart::STYLE)
}

/// A page, as its URL identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Workloads(list::Filter),
    Workload {
        id: WorkloadId,
        /// The page number within the list of pods, from 1.
        pods: usize,
    },
    Nodes,
    Node {
        name: String,
        pods: usize,
    },
    Quotas {
        namespace: String,
    },
}

/// A part of a page that changes independently: the content of the element `part-NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) html: String,
}

impl Part {
    /// Returns a short digest of the content.
    pub(crate) fn digest(&self) -> String {
        let digest = Sha256::digest(&self.html);
        digest.iter().take(6).fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes whatever is written");
            text
        })
    }
}

/// Returns the digests of these parts, which identify what the browser shows.
pub(crate) fn seen(parts: &[Part]) -> String {
    parts.iter().map(Part::digest).collect::<Vec<_>>().join(".")
}

impl Page {
    /// Parses a URL.
    pub(crate) fn parse(path: &str, query: &str) -> Option<Self> {
        let value = |key: &str| form_urlencoded::parse(query.as_bytes()).find(|(of, _)| of == key).map(|(_, value)| value.into_owned());
        let pods = || value("pods").and_then(|page| page.parse().ok()).filter(|page| 0 < *page).unwrap_or(1);
        let decoded = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8().ok().map(Cow::into_owned);
        let parts: Vec<String> = path.strip_prefix('/')?.split('/').map(decoded).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [""] => Some(Self::Workloads(list::Filter {
                namespace: value("namespace").unwrap_or_default(),
                search: value("q").unwrap_or_default(),
                page: value("page").and_then(|page| page.parse().ok()).filter(|page| 0 < *page).unwrap_or(1),
            })),
            ["ns", namespace, plural, name] if !namespace.is_empty() && !name.is_empty() => {
                Some(Self::Workload { id: WorkloadId::new(WorkloadKind::of_plural(plural)?, *namespace, *name), pods: pods() })
            }
            ["nodes"] => Some(Self::Nodes),
            ["nodes", name] if !name.is_empty() => Some(Self::Node { name: (*name).to_owned(), pods: pods() }),
            ["quotas"] => Some(Self::Quotas { namespace: value("namespace").unwrap_or_default() }),
            _ => None,
        }
    }

    /// Returns the URL.
    pub(crate) fn address(&self) -> String {
        let with = |path: String, pairs: &[(&str, String)]| {
            let pairs: Vec<_> =
                pairs.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}={}", plain(value))).collect();
            if pairs.is_empty() { path } else { format!("{path}?{}", pairs.join("&")) }
        };
        let number = |number: usize| if number <= 1 { String::new() } else { number.to_string() };
        match self {
            Self::Workloads(list::Filter { namespace, search, page }) => {
                with("/".to_owned(), &[("namespace", namespace.clone()), ("q", search.clone()), ("page", number(*page))])
            }
            Self::Workload { id, pods } => with(path(id), &[("pods", number(*pods))]),
            Self::Nodes => "/nodes".to_owned(),
            Self::Node { name, pods } => with(format!("/nodes/{}", plain(name)), &[("pods", number(*pods))]),
            Self::Quotas { namespace } => with("/quotas".to_owned(), &[("namespace", namespace.clone())]),
        }
    }

    /// Returns the page title.
    fn title(&self, cluster_cache: &ClusterCache) -> String {
        match self {
            Self::Workloads(_) => "Workloads".to_owned(),
            Self::Workload { id, .. } => workload::title(cluster_cache, id).unwrap_or_else(|| shown(&id.name)),
            Self::Nodes => "Nodes".to_owned(),
            Self::Node { name, .. } => shown(name),
            Self::Quotas { .. } => "Quotas".to_owned(),
        }
    }
}

/// Renders the current parts of a page. Returns `None` if its object does not exist.
pub(crate) fn parts(cluster_cache: &ClusterCache, page: &Page) -> Option<Vec<Part>> {
    let now = cluster_cache.env.clock.now();
    let parts = match page {
        Page::Workloads(filter) => list::parts(cluster_cache, filter),
        Page::Workload { id, pods } => workload::parts(cluster_cache, id, *pods, now)?,
        Page::Nodes => nodes::all(cluster_cache, now),
        Page::Node { name, pods } => nodes::one(cluster_cache, name, *pods, now)?,
        Page::Quotas { namespace } => quotas::parts(cluster_cache, namespace),
    };
    let notes = ("notes", notes(cluster_cache));
    Some([notes].into_iter().chain(parts).map(|(name, html)| Part { name, html: html.into_string() }).collect())
}

/// Renders the reasons why the page is incomplete.
fn notes(cluster_cache: &ClusterCache) -> Markup {
    let unreadable = cluster_cache.unreadable();
    html! {
        @if !cluster_cache.is_filled() { p .note { "Reading the cluster…" } }
        @if !unreadable.is_empty() {
            div .note {
                p { "You may not read all of the cluster, so this page is incomplete:" }
                ul .plain { @for (what, why) in &unreadable { li { (what) ": " (shown(why)) } } }
            }
        }
    }
}

/// Renders the elapsed time, rounded so that the text changes rarely.
fn ago(then: Option<Timestamp>, now: Timestamp) -> Markup {
    let Some(then) = then else { return html! { "–" } };
    let text = text::ago(then, now);
    html! { time datetime=(then.strftime("%Y-%m-%dT%H:%M:%SZ")) { (text) } }
}

/// Renders the links to the previous and the next page.
fn turns(page: usize, pages: usize, address: impl Fn(usize) -> String) -> Markup {
    html! {
        @if 1 < pages {
            nav .pages aria-label="Pages" {
                @if 1 < page { a href=(address(page - 1)) { "← before" } }
                span { "page " (page) " of " (pages) }
                @if page < pages { a href=(address(page + 1)) { "next →" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_identifies_its_page_and_names_may_contain_any_character() {
        let all = [
            "/",
            "/?namespace=shop&q=a%20%26b&page=2",
            "/ns/shop/deployments/web",
            "/ns/shop/statefulsets/db?pods=3",
            "/nodes",
            "/nodes/n%2F1",
            "/quotas?namespace=shop",
        ];
        for address in all {
            let (path, query) = address.split_once('?').unwrap_or((address, ""));
            assert_eq!(Page::parse(path, query).map(|page| page.address()).as_deref(), Some(address));
        }
        for address in
            ["", "/ns", "/ns/shop/pods/a", "/ns//deployments/a", "/ns/shop/deployments/", "/nodes/", "/x", "/ns/%ff/deployments/a"]
        {
            assert_eq!(Page::parse(address, ""), None, "{address}");
        }
        assert_eq!(Page::parse("/", "page=0"), Page::parse("/", "page=x"));
    }
}
