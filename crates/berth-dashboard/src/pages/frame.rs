//! The frame around the parts of a page, and the sign-in page.

use super::{Page, Part, list, parts, seen, shown};
use crate::{act::Verb, address::plain, cluster_cache::ClusterCache};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The session's context of a page.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// The cluster, and the user that the dashboard is connected as.
    pub(crate) title: &'a str,
    /// The token that every form contains.
    pub(crate) form_token: &'a str,
}

/// Why the browser gets the sign-in page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignIn {
    /// It has no session.
    Asked,
    /// It may have a session. It repeats the request from this page, with its cookie.
    Again,
    /// The server printed a new link for its owner.
    LinkPrinted,
    /// The link is invalid or expired.
    Refused,
}

/// Renders a whole page. Returns `None` if its object does not exist.
pub(crate) fn whole(cluster_cache: &ClusterCache, page: &Page, reader: Reader<'_>, done: Option<Verb>) -> Option<String> {
    let parts = parts(cluster_cache, page)?;
    let seen = seen(&parts);
    let filter = match page {
        Page::Workloads(filter) => list::form(cluster_cache, filter),
        _ => html! {},
    };
    let (head, rest) = parts.split_at(parts.len().min(2));
    let body = html! {
        @if let Some(verb) = done { p .note.done role="status" { (verb.done()) } }
        @for part in head { (placed(part)) }
        (filter)
        @for part in rest { (placed(part)) }
    };
    Some(framed(&page.title(cluster_cache), reader, Some((&page.address(), &seen)), Some(page), &body))
}

fn placed(part: &Part) -> Markup {
    // Screen readers announce changes of the headline. The other parts change too often.
    let live = (part.name == "headline").then_some("polite");
    html! { div id=(format!("part-{}", part.name)) aria-live=[live] { (PreEscaped(&part.html)) } }
}

pub(super) fn framed(title: &str, reader: Reader<'_>, stream: Option<(&str, &str)>, page: Option<&Page>, body: &Markup) -> String {
    let is_workloads = matches!(page, Some(Page::Workloads(_) | Page::Workload { .. }));
    let is_nodes = matches!(page, Some(Page::Nodes | Page::Node { .. }));
    let is_quotas = matches!(page, Some(Page::Quotas { .. }));
    let here = |is_here: bool| is_here.then_some("page");
    let (address, seen) = stream.unzip();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body data-stream=[address] data-seen=[seen] {
                a .skip href="#main" { "Skip to the content" }
                header {
                    span .name { "berth" }
                    nav aria-label="Views" {
                        a href="/" aria-current=[here(is_workloads)] { "Workloads" }
                        a href="/nodes" aria-current=[here(is_nodes)] { "Nodes" }
                        a href="/quotas" aria-current=[here(is_quotas)] { "Quotas" }
                    }
                    span .cluster { (reader.title) }
                    @if stream.is_some() { span #connection role="status" { "not updated since loading" } }
                    form method="post" action="/sign-out" {
                        input type="hidden" name="form-token" value=(reader.form_token);
                        button .link type="submit" { "Sign out" }
                    }
                }
                main #main tabindex="-1" { (body) }
            }
        }
    }
    .into_string()
}

fn head(title: &str) -> Markup {
    html! {
        head {
            (basics())
            title { (title) " · berth" }
            link rel="icon" href="data:,";
            link rel="stylesheet" href="/style.css";
            script src="/live.js" defer {}
        }
    }
}

/// Responses have the policy `no-referrer`, but a form on a page with that policy sends the origin `null`, as other
/// sites may. The page therefore sends its origin to the dashboard, and to no other site.
fn basics() -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        meta name="referrer" content="same-origin";
    }
}

/// Renders the page for an object that does not exist, or for an unknown URL if `page` is `None`.
pub(crate) fn missing(reader: Reader<'_>, page: Option<&Page>) -> String {
    let what = match page {
        Some(Page::Workload { id, .. }) => format!("There is no {} {} in {}.", id.kind.name(), shown(&id.name), shown(&id.namespace)),
        Some(Page::Node { name, .. }) => format!("There is no node {}.", shown(name)),
        Some(Page::Workloads(_) | Page::Nodes | Page::Quotas { .. }) | None => "There is no page at this address.".to_owned(),
    };
    let body = html! {
        h1 { (what) }
        p { a href="/" { "All workloads" } }
    };
    framed("Not found", reader, None, None, &body)
}

/// Renders the sign-in page.
pub(crate) fn sign_in(next: &str, state: SignIn) -> String {
    let again = format!("0;url=/sign-in?again&next={}", plain(next));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (basics())
                title { "Sign in · berth" }
                @if state == SignIn::Again { meta http-equiv="refresh" content=(again); }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/style.css";
                script src="/live.js" defer {}
            }
            body {
                main #main {
                    h1 { "Sign in" }
                    @match state {
                        SignIn::LinkPrinted => p .note .done role="status" { "berth has printed a new link in its terminal, unless the last one still works. It works once, within a minute." },
                        SignIn::Refused => p .note role="alert" { "This link has expired: each link works once, within a minute. Print a new one." },
                        SignIn::Asked | SignIn::Again => p { "This page is for the user who started berth. Open the link in berth's terminal, or print a new one." },
                    }
                    form method="post" action="/sign-in" {
                        input type="hidden" name="next" value=(next);
                        button type="submit" name="ask" value="1" { "Print a new link in berth's terminal" }
                    }
                    form .filter method="post" action="/sign-in" autocomplete="off" {
                        input type="hidden" name="next" value=(next);
                        div {
                            label for="token" { "The link, or its token" }
                            input #token type="password" name="token" required size="40";
                        }
                        button .go type="submit" { "Sign in" }
                    }
                }
            }
        }
    }
    .into_string()
}
