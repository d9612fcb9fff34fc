//! Repairs the claims after interrupted writes: claims that no Service needs, and Services without a claim.
//!
//! A claim without a Service may belong to a write in progress. The repair annotates the claim first, and releases it
//! one round later if the annotation remains and no Service needs it. A write removes the annotation after its Service
//! is stored, and the repair reads Services after the annotations. So one of the two always sees the other.
//!
//! Source: kubernetes `ipallocator/controller/repairip.go`, `portallocator/controller/repair.go`.

pub use super::claim::Holder;

use super::{
    Allocator, Good, SERVICE_CIDR_PROTECTION,
    claim::{MANAGED_BY, NODE_PORTS, UNUSED, addresses_prefix, holder_of},
};
use crate::{ApiError, Target, key, resource, stored};
use berth_api::{
    ip::Cidr,
    k8s_openapi::api::{core::v1::Service, networking::v1::ServiceCIDR},
};
use berth_store::{Entry, RangeRequest, Revision};
use jiff::SignedDuration;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

/// How long a terminating range remains, for writes that chose one of its addresses before.
const DELETION_GRACE: SignedDuration = SignedDuration::from_secs(10);

/// The fields of a claim that the repair needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The claimed good.
    pub good: Good,
    /// The Service that has it. `None`: another object.
    pub holder: Option<Holder>,
    /// Whether an earlier round found it unused.
    pub is_marked: bool,
    /// Whether this allocator created it and may release it.
    pub is_ours: bool,
}

/// The repair of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// No Service needs it: annotate it.
    MarkUnused(Good),
    /// It is still unused: release it.
    Release(Good),
    /// A Service has it without a claim: claim it.
    Claim(Good, Holder),
    /// A Service has a good of another Service. Only the Service's owner can correct that.
    Report(Good, Holder),
}

/// The result of a round, and the rest of its work for the verbs.
pub(crate) struct Repaired {
    pub(crate) steps: Vec<Step>,
    pub(crate) unused: Vec<UnusedRange>,
}

/// A ServiceCIDR whose finalizer can be removed.
pub(crate) struct UnusedRange {
    pub(crate) target: Target,
    pub(crate) revision: Revision,
    /// The remaining finalizers.
    pub(crate) finalizers: Vec<String>,
}

/// Computes the repairs. `services` contains the goods of each Service, read after `claims`.
#[must_use]
pub fn decide(claims: &[Claimed], services: &BTreeMap<Holder, BTreeSet<Good>>) -> Vec<Step> {
    let has = |holder: &Option<Holder>, good: &Good| {
        holder.as_ref().and_then(|holder| services.get(holder)).is_some_and(|goods| goods.contains(good))
    };
    let mut steps = Vec::new();
    let mut holders: BTreeMap<Good, Option<&Holder>> = BTreeMap::new();
    for claim in claims {
        let is_needed = has(&claim.holder, &claim.good);
        match (is_needed || !claim.is_ours, claim.is_marked) {
            (true, _) => (),
            (false, false) => steps.push(Step::MarkUnused(claim.good)),
            (false, true) => steps.push(Step::Release(claim.good)),
        }
        holders.insert(claim.good, claim.holder.as_ref());
    }
    for (holder, goods) in services {
        for good in goods {
            match holders.get(good) {
                Some(other) if *other == Some(holder) => (),
                Some(_) => steps.push(Step::Report(*good, holder.clone())),
                None => {
                    steps.push(Step::Claim(*good, holder.clone()));
                    holders.insert(*good, Some(holder));
                }
            }
        }
    }
    steps
}

impl Allocator {
    /// Runs one round: executes the steps of [`decide`] and returns them.
    ///
    /// # Errors
    /// Errors of the store. Earlier steps persist.
    pub(crate) async fn repair(&self) -> Result<Repaired, ApiError> {
        let mut entries = BTreeMap::new();
        let mut claims = Vec::new();
        for (prefix, read) in [(addresses_prefix(), read_address as fn(&str) -> Option<Good>), (NODE_PORTS, read_port)] {
            for entry in self.store.range(RangeRequest::all(prefix)).await?.entries {
                let Some(good) = entry.key.as_str().strip_prefix(prefix).and_then(read) else { continue };
                claims.push(claimed(good, &entry));
                entries.insert(good, entry);
            }
        }
        let steps = decide(&claims, &self.goods_of_services().await?);
        for step in &steps {
            self.execute_step(step, &entries).await?;
        }
        let unused = self.unused_ranges(&claims).await?;
        Ok(Repaired { steps, unused })
    }

    /// Returns the terminating ranges without a claimed address of their own.
    async fn unused_ranges(&self, claims: &[Claimed]) -> Result<Vec<UnusedRange>, ApiError> {
        let resource = resource::of::<ServiceCIDR>();
        let (mut ranges, mut unused) = (Vec::new(), Vec::new());
        for entry in self.store.range(RangeRequest::all(resource.prefix())).await?.entries {
            let object = stored::load(resource, &entry)?;
            ranges.extend(object.downcast_ref::<ServiceCIDR>().cloned().map(|range| (entry, range)));
        }
        let holds = |range: &ServiceCIDR, address: IpAddr| {
            let mut cidrs = range.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten()).filter_map(|cidr| cidr.parse::<Cidr>().ok());
            cidrs.any(|cidr| cidr.contains(address))
        };
        let is_elsewhere = |address| ranges.iter().any(|(_, other)| other.metadata.deletion_timestamp.is_none() && holds(other, address));
        for (entry, range) in &ranges {
            let since = range.metadata.deletion_timestamp.as_ref().map(|time| time.0);
            let is_due = since.is_some_and(|since| since + DELETION_GRACE <= self.clock.now());
            let needs = |claim: &Claimed| match claim.good {
                Good::Address(address) => holds(range, address) && !is_elsewhere(address),
                Good::NodePort(_) => false,
            };
            let finalizers = range.metadata.finalizers.clone().unwrap_or_default();
            let left: Vec<String> = finalizers.iter().filter(|finalizer| *finalizer != SERVICE_CIDR_PROTECTION).cloned().collect();
            if is_due && left.len() < finalizers.len() && !claims.iter().any(needs) {
                let target = key::target_of(resource, &entry.key);
                unused.extend(target.map(|target| UnusedRange { target, revision: entry.mod_revision, finalizers: left }));
            }
        }
        Ok(unused)
    }

    async fn execute_step(&self, step: &Step, entries: &BTreeMap<Good, Arc<Entry>>) -> Result<(), ApiError> {
        match step {
            Step::MarkUnused(good) => match entries.get(good) {
                Some(entry) => self.mark_unused(entry).await,
                None => Ok(()),
            },
            Step::Release(good) => {
                if let Some(entry) = entries.get(good) {
                    // A changed revision means that a Service needs it.
                    let _ = self.store.delete(entry.key.clone(), entry.mod_revision).await;
                }
                Ok(())
            }
            Step::Claim(good, holder) => self.claim(holder, *good).await.map(drop),
            Step::Report(..) => Ok(()),
        }
    }

    async fn goods_of_services(&self) -> Result<BTreeMap<Holder, BTreeSet<Good>>, ApiError> {
        let services = resource::of::<Service>();
        let mut goods = BTreeMap::new();
        for entry in self.store.range(RangeRequest::all(services.prefix())).await?.entries {
            let Some(target) = key::target_of(services, &entry.key) else { continue };
            let object = stored::load(services, &entry)?;
            goods.extend(object.downcast_ref::<Service>().map(|service| (Holder::of(&target), Good::all_of(service))));
        }
        Ok(goods)
    }
}

fn claimed(good: Good, entry: &Entry) -> Claimed {
    let value: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    let is_ours = match good {
        Good::Address(_) => entry.header.label(MANAGED_BY.0) == Some(MANAGED_BY.1),
        Good::NodePort(_) => true,
    };
    let is_marked = value["metadata"]["annotations"].get(UNUSED).is_some();
    Claimed { good, holder: holder_of(entry), is_marked, is_ours }
}

fn read_address(name: &str) -> Option<Good> {
    name.parse().ok().map(Good::Address)
}

fn read_port(name: &str) -> Option<Good> {
    name.parse().ok().map(Good::NodePort)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    fn claim(port: u16, name: &str, is_marked: bool) -> Claimed {
        Claimed { good: Good::NodePort(port), holder: Some(holder(name)), is_marked, is_ours: true }
    }

    fn services(all: &[(&str, &[u16])]) -> BTreeMap<Holder, BTreeSet<Good>> {
        all.iter().map(|(name, ports)| (holder(name), ports.iter().map(|port| Good::NodePort(*port)).collect())).collect()
    }

    #[test]
    fn an_unused_claim_is_marked_first_and_given_back_a_round_later() {
        let none = services(&[]);
        assert_eq!(decide(&[claim(1, "a", false)], &none), [Step::MarkUnused(Good::NodePort(1))]);
        assert_eq!(decide(&[claim(1, "a", true)], &none), [Step::Release(Good::NodePort(1))]);
        assert_eq!(decide(&[claim(1, "a", true)], &services(&[("a", &[1])])), []);
        assert_eq!(decide(&[claim(1, "a", false)], &services(&[("a", &[])])), [Step::MarkUnused(Good::NodePort(1))]);
        let foreign = Claimed { is_ours: false, holder: None, ..claim(1, "", true) };
        assert_eq!(decide(&[foreign], &none), [], "what others made is theirs");
    }

    #[test]
    fn a_service_gets_the_claim_that_it_lacks_unless_another_has_it() {
        let good = Good::NodePort(1);
        assert_eq!(decide(&[], &services(&[("a", &[1])])), [Step::Claim(good, holder("a"))]);
        assert_eq!(decide(&[], &services(&[("a", &[1]), ("b", &[1])])), [Step::Claim(good, holder("a")), Step::Report(good, holder("b"))]);
        assert_eq!(decide(&[claim(1, "b", false)], &services(&[("a", &[1]), ("b", &[1])])), [Step::Report(good, holder("a"))]);
    }
}
