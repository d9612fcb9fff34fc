//! Metrics of the store: used size, maximum size, and rejected writes. The first two names are those of upstream.

use crate::state_metrics::cannot_show;
use berth_registry::{ApiError, Registry};
use berth_store::{Health, Usage};
use prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts, TextEncoder};

/// Returns all families as text: whether the store `name` accepts writes, and its size if the store reports it.
///
/// # Errors
/// They cannot be encoded.
pub(crate) fn text(registry: &Registry, name: &str) -> Result<String, ApiError> {
    let families = prometheus::Registry::new();
    let filled = fill_health(registry, name, &families).and_then(|()| match registry.usage() {
        Some(usage) => fill(registry, &usage, &families),
        None => Ok(()),
    });
    filled.map_err(|error| cannot_show(&error))?;
    TextEncoder::new().encode_to_string(&families.gather()).map_err(|error| cannot_show(&error))
}

fn fill_health(registry: &Registry, name: &str, families: &prometheus::Registry) -> Result<(), prometheus::Error> {
    let help = "1 while the store can be reached and takes writes; /readyz tells why not.";
    let ready = IntGaugeVec::new(Opts::new("berth_store_ready", help), &["store"])?;
    ready.with_label_values(&[name]).set((registry.store_health() == Health::Ready).into());
    families.register(Box::new(ready))
}

fn fill(registry: &Registry, usage: &Usage, families: &prometheus::Registry) -> Result<(), prometheus::Error> {
    let size = IntGaugeVec::new(Opts::new("apiserver_storage_size_bytes", "What is stored, in bytes."), &["storage_cluster_id"])?;
    size.with_label_values(&["berth"]).set(bytes(usage.bytes));
    let help = "What is stored of a resource, in bytes.";
    let of_resources = IntGaugeVec::new(Opts::new("apiserver_resource_size_estimate_bytes", help), &["group", "resource"])?;
    let resources = registry.resources();
    for (prefix, stored) in &usage.resources {
        let Some(resource) = resources.by_key(prefix) else { continue };
        of_resources.with_label_values(&[resource.group().as_str(), resource.plural().as_str()]).set(bytes(*stored));
    }
    let help = "1 while the quota is used up but for the reserve, or the disk is full: nothing that grows is stored.";
    let alarm = IntGauge::new("berth_store_no_space", help)?;
    alarm.set(usage.lacks.is_some().into());
    let refused = IntCounter::new("berth_store_refused_writes_total", "Writes that a bound of what is stored refused, or a full disk.")?;
    refused.inc_by(usage.refused);
    families.register(Box::new(size))?;
    families.register(Box::new(of_resources))?;
    families.register(Box::new(alarm))?;
    families.register(Box::new(refused))?;
    if let Some(quota) = usage.quota {
        let most = IntGauge::new("berth_store_quota_bytes", "What may be stored, in bytes.")?;
        most.set(bytes(quota));
        families.register(Box::new(most))?;
    }
    Ok(())
}

fn bytes(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
