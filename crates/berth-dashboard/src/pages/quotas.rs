//! Quotas and their usage.

use super::{counted, shown};
use crate::{cluster_cache::ClusterCache, views::QuotaView};
use berth_api::quantity::Quantity;
use maud::{Markup, html};
use std::sync::Arc;

/// The maximum number of quotas. The fullest come first.
const QUOTAS_MAX: usize = 200;

pub(super) fn parts(cluster_cache: &ClusterCache, namespace: &str) -> Vec<(&'static str, Markup)> {
    let known: Vec<Arc<QuotaView>> = cluster_cache.quotas.read().iter().cloned().collect();
    let mut quotas: Vec<(u8, Arc<QuotaView>)> = known
        .into_iter()
        .filter(|quota| namespace.is_empty() || quota.namespace() == namespace)
        .map(|quota| (fullest(&quota), quota))
        .collect();
    quotas.sort_by_key(|(full, quota)| (std::cmp::Reverse(*full), quota.namespace().to_owned(), quota.name().to_owned()));
    let full = quotas.iter().filter(|(full, _)| 100 <= *full).count();
    let headline = html! {
        h1 { "Quotas" }
        p .lead {
            @if quotas.is_empty() { "There is no quota." }
            @else { (counted(quotas.len(), "quota", "quotas")) @if 0 < full { ", of which " (full) @if full == 1 { " is" } @else { " are" } " full" } "." }
        }
    };
    let list = html! {
        @for (_, quota) in quotas.iter().take(QUOTAS_MAX) { (one(quota)) }
        @if QUOTAS_MAX < quotas.len() { p .quiet { "and " (quotas.len() - QUOTAS_MAX) " more" } }
    };
    vec![("headline", headline), ("quotas", list)]
}

fn one(quota: &QuotaView) -> Markup {
    let title = format!("{} in {}", quota.name(), quota.namespace());
    html! {
        h2 { (shown(quota.name())) span .quiet { " in " (shown(quota.namespace())) } }
        div .scroll role="region" tabindex="0" aria-label=(shown(&title)) {
            table {
                thead { tr { th scope="col" { "Resource" } th .number scope="col" { "Used" } th .number scope="col" { "Limit" } th scope="col" { "Full" } } }
                tbody {
                    @for (resource, (used, hard)) in &quota.figures {
                        tr {
                            td { (shown(resource)) } td .number { (shown(used)) } td .number { (shown(hard)) }
                            td {
                                @if let Some(percent) = percent(used, hard) {
                                    meter min="0" max="100" low="70" high="90" optimum="0" value=(percent.min(100)) aria-label=(format!("{} used", shown(resource))) {}
                                    " " (percent) " %"
                                } @else { "–" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn fullest(quota: &QuotaView) -> u8 {
    quota.figures.values().filter_map(|(used, hard)| percent(used, hard)).max().unwrap_or(0)
}

/// Any usage of a hard limit of 0 is 100%.
fn percent(used: &str, hard: &str) -> Option<u8> {
    let nanos = |text: &str| text.parse::<Quantity>().ok().map(|quantity| quantity.nanos().max(0));
    let (used, hard) = (nanos(used)?, nanos(hard)?);
    let percent = if hard == 0 { 100 } else { used.saturating_mul(100) / hard };
    Some(u8::try_from(percent.min(255)).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_quota_is_a_percentage_in_any_unit() {
        let texts = [("1", "4"), ("500m", "1"), ("1Gi", "512Mi"), ("0", "0"), ("?", "1")];
        assert_eq!(texts.map(|(used, hard)| percent(used, hard)), [Some(25), Some(50), Some(200), Some(100), None]);
    }
}
