//! Cluster addresses and node ports of Services. Each has one holder, among all servers of a store.
//!
//! Each address or node port has a key of its own in the store. The Service that creates the key holds it: a [`claim`].
//! The key of an address is that of its `IPAddress`. The key of a node port is below upstream's
//! `/registry/ranges/servicenodeports`. Every write of a Service follows these steps:
//!
//! 1. Claim what the Service needs and does not hold yet. Note the claims that it will no longer need.
//! 2. Store the Service.
//! 3. Check that the Service still has its claims, and only then respond. Release what is no longer needed.
//!
//! A failed write releases its claims. A crash may leave a claim that no Service needs. It never leaves a Service with
//! an address that another Service could claim. [`repair`] removes unused claims.

mod addresses;
mod claim;
mod ports;
pub mod repair;

use crate::{ApiError, Target, checks::Mode};
pub(crate) use addresses::DEFAULT_CIDR;
use addresses::Wish;
use berth_api::{ip::Cidr, k8s_openapi::api::core::v1::Service};
use berth_store::{
    Store,
    env::{Clock, Rng},
};
use claim::{Claim, Held, Holder};
use std::{collections::BTreeSet, fmt, net::IpAddr, ops::RangeInclusive, sync::Arc};

/// Protects a range of cluster addresses from deletion while some of them are in use (upstream:
/// service-cidr-controller).
pub(crate) const SERVICE_CIDR_PROTECTION: &str = "networking.k8s.io/service-cidr-finalizer";

/// The ranges of a server, from its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    /// Cluster addresses: the range of the ServiceCIDR `kubernetes`. Once that exists, its range applies to all
    /// servers.
    pub cluster_ips: Cidr,
    /// Node ports.
    pub node_ports: RangeInclusive<u16>,
}

impl Default for ServiceRanges {
    fn default() -> Self {
        Self { cluster_ips: "10.96.0.0/16".parse().expect("it is a range"), node_ports: 30_000..=32_767 }
    }
}

/// A resource that only one Service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Good {
    /// A cluster address.
    Address(IpAddr),
    /// A port on every node.
    NodePort(u16),
}

impl fmt::Display for Good {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::NodePort(port) => port.fmt(f),
        }
    }
}

impl Good {
    /// Returns everything that a Service has. A port for two protocols counts once.
    #[must_use]
    pub fn all_of(service: &Service) -> BTreeSet<Self> {
        let Some(spec) = &service.spec else { return BTreeSet::new() };
        let addresses = spec.cluster_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).map(Self::Address);
        let numbers = spec.ports.iter().flatten().filter_map(|port| port.node_port).chain(spec.health_check_node_port);
        let ports = numbers.filter_map(|number| u16::try_from(number).ok()).filter(|number| *number != 0).map(Self::NodePort);
        addresses.chain(ports).collect()
    }
}

/// Allocates cluster addresses and node ports. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Allocator {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) ranges: Arc<ServiceRanges>,
}

/// The claims and releases of a write of a Service.
#[derive(Debug, Default)]
pub(crate) struct Allocation {
    taken: Vec<Claim>,
    leaving: Vec<Claim>,
}

impl Allocation {
    /// Whether the write claims and releases nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.leaving.is_empty()
    }
}

impl Allocator {
    /// Allocates the addresses and node ports that a Service needs. `old` is the stored Service. `new` is the new one,
    /// absent for a deletion.
    ///
    /// # Errors
    /// A requested address or port is taken or outside the ranges, all are taken, or the store fails. Nothing is
    /// claimed then.
    pub(crate) async fn allocate(
        &self,
        target: &Target,
        mode: Mode,
        old: Option<&Service>,
        new: Option<&mut Service>,
    ) -> Result<Allocation, ApiError> {
        let held = old.map(Good::all_of).unwrap_or_default();
        let mut drawer =
            Drawer { allocator: self, holder: Holder::of(target), mode, held: &held, drawn: BTreeSet::new(), taken: Vec::new() };
        let filled_in = match new {
            Some(service) => drawer.fill_in(target, service).await.map(|()| Good::all_of(service)),
            None => Ok(BTreeSet::new()),
        };
        let taken = drawer.taken;
        let leaving = match filled_in {
            // Reads the claims before the Service is deleted. A later Service of the same name may then take the claims
            // over and keep them.
            Ok(kept) if mode == Mode::Real => self.claims_of(target, held.difference(&kept).copied()).await,
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        match leaving {
            Ok(leaving) => Ok(Allocation { taken, leaving }),
            Err(error) => {
                self.take_back(Allocation { taken, leaving: Vec::new() }).await;
                Err(error)
            }
        }
    }

    async fn claims_of(
        &self,
        target: &Target,
        goods: impl IntoIterator<Item = Good, IntoIter: Send> + Send,
    ) -> Result<Vec<Claim>, ApiError> {
        let holder = Holder::of(target);
        let mut claims = Vec::new();
        for good in goods {
            claims.extend(self.claim_of(&holder, good).await?);
        }
        Ok(claims)
    }

    /// Checks after the write that the Service still has its claims, and releases those that it no longer needs.
    ///
    /// # Errors
    /// Another Service has taken over a claim.
    pub(crate) async fn secure(&self, target: &Target, allocation: &Allocation) -> Result<(), ApiError> {
        let holder = Holder::of(target);
        for claim in &allocation.taken {
            if !self.hold(&holder, claim).await? {
                return Err(ApiError::conflict(
                    target,
                    &format!("{} was given to another Service meanwhile; please try again", claim.good),
                ));
            }
        }
        // [`repair`] finds what cannot be released now.
        for claim in &allocation.leaving {
            self.release(claim).await;
        }
        Ok(())
    }

    /// Releases the claims of a failed write.
    pub(crate) async fn take_back(&self, allocation: Allocation) {
        for claim in allocation.taken.iter().filter(|claim| claim.was == Held::Free) {
            self.release(claim).await;
        }
    }
}

/// Chooses the goods of one Service.
struct Drawer<'a> {
    allocator: &'a Allocator,
    holder: Holder,
    mode: Mode,
    /// The goods that it already has.
    held: &'a BTreeSet<Good>,
    /// The goods of this write.
    drawn: BTreeSet<Good>,
    taken: Vec<Claim>,
}

impl Drawer<'_> {
    async fn fill_in(&mut self, target: &Target, service: &mut Service) -> Result<(), ApiError> {
        self.check_families(target, service)?;
        match addresses::wish(service) {
            Wish::Nothing => (),
            Wish::Any => self.draw_address(target, service).await?,
            Wish::This(address) => self.take_address(target, address).await?,
        }
        self.fill_in_ports(target, service).await
    }

    /// Claims the good, unless the Service has it. Returns whether the Service has it now.
    async fn take(&mut self, good: Good) -> Result<bool, ApiError> {
        if self.held.contains(&good) {
            return Ok(true);
        }
        let is_taken = match self.mode {
            Mode::Dry => self.allocator.is_free_for(&self.holder, good).await?,
            Mode::Real => {
                let claim = self.allocator.claim(&self.holder, good).await?;
                let is_taken = claim.is_some();
                self.taken.extend(claim);
                is_taken
            }
        };
        if is_taken {
            self.drawn.insert(good);
        }
        Ok(is_taken)
    }

    /// Claims a free one of `count` goods by number. Numbers from `reserved` on come first, so that the lower ones stay
    /// free for requests by number. Returns `None` if all are taken.
    ///
    /// Source: KEP-3070, KEP-3668.
    async fn draw(
        &mut self,
        count: u64,
        reserved: u64,
        prefix: &str,
        nth: impl Fn(u64) -> Good + Send + Sync,
    ) -> Result<Option<Good>, ApiError> {
        /// The number of random attempts before all claims are listed.
        const BLIND_TRIES: u32 = 8;
        let upper = count - reserved;
        for _ in 0..if upper == 0 { 0 } else { BLIND_TRIES } {
            let good = nth(reserved + self.allocator.rng.below(upper));
            if !self.has(good) && self.take(good).await? {
                return Ok(Some(good));
            }
        }
        let used = self.allocator.used(prefix).await?;
        let is_free = |good: &Good| !used.contains(&good.to_string());
        for good in (reserved..count).chain(0..reserved).map(nth).filter(is_free) {
            // Concurrent writes may have claimed it since.
            if !self.has(good) && self.take(good).await? {
                return Ok(Some(good));
            }
        }
        Ok(None)
    }

    fn has(&self, good: Good) -> bool {
        self.held.contains(&good) || self.drawn.contains(&good)
    }
}

/// Returns how many of `count` are reserved for requests: a sixteenth, within limits.
fn reserved(count: u64, most: u64) -> u64 {
    const LEAST: u64 = 16;
    if count <= LEAST { 0 } else { (count / 16).clamp(LEAST, most) }
}
