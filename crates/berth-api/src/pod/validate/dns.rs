//! The DNS configuration of a pod.

use crate::{
    Path,
    faults::Faults,
    ip::check_ip,
    names::check_search_path,
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{PodDNSConfigOption, PodSpec};
use serde_json::json;

/// The maximum numbers of the C library for `resolv.conf`.
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;

/// Source: upstream `validatePodDNSConfig`.
pub(super) fn validate(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    let is_alone = text(&spec.dns_policy) == "None";
    let Some(config) = &spec.dns_config else {
        if is_alone {
            faults.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        return;
    };
    let nameservers = list(&config.nameservers);
    if is_alone && nameservers.is_empty() {
        faults.required(&path.child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None");
        return;
    }
    validate_nameservers(nameservers, &path.child("nameservers"), faults);
    validate_searches(list(&config.searches), &path.child("searches"), faults);
    validate_options(list(&config.options), &path.child("options"), faults);
}

fn validate_nameservers(servers: &[String], path: &Path, faults: &mut Faults) {
    if servers.len() > NAMESERVERS_MAX {
        faults.invalid(path, json!(servers), format!("must not have more than {NAMESERVERS_MAX} nameservers"));
    }
    servers.iter().enumerate().for_each(|(index, server)| faults.form(&path.index(index), server, check_ip));
}

fn validate_searches(searches: &[String], path: &Path, faults: &mut Faults) {
    if searches.len() > SEARCHES_MAX {
        faults.invalid(path, json!(searches), format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    if searches.join(" ").len() > SEARCH_BYTES_MAX {
        let detail = format!("must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list");
        faults.invalid(path, json!(searches), detail);
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        faults.form(&path.index(index), search.strip_suffix('.').unwrap_or(search), check_search_path);
    }
}

fn validate_options(options: &[PodDNSConfigOption], path: &Path, faults: &mut Faults) {
    for (index, _) in options.iter().enumerate().filter(|(_, option)| text(&option.name).is_empty()) {
        faults.required(&path.index(index), "must not be empty");
    }
}
