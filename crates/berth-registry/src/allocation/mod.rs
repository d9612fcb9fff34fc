//! Cluster addresses and node ports of Services: each has one holder, among all servers of a store.
//!
//! What is given out has a key of its own in the store, and whoever creates that key has it: a [`claim`]. For an address the key is that
//! of its `IPAddress`, for a node port one below upstream's `/registry/ranges/servicenodeports`. Every write of a Service goes this way:
//!
//! 1. claim what it needs and does not hold yet; note the claims of what it will no longer need;
//! 2. store the Service;
//! 3. make sure that the claims are still its own: only then is it answered; give back what is no longer needed.
//!
//! A write that fails gives back what it claimed. A crash may leave a claim that no Service needs, never a Service without its claim that
//! somebody else could have: [`repair`] cleans up.

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

/// Holds a range of cluster addresses back while some of them are in use (upstream: the controller service-cidr-controller).
pub(crate) const SERVICE_CIDR_PROTECTION: &str = "networking.k8s.io/service-cidr-finalizer";

/// What a server gives out, as told when it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    /// Cluster addresses: the range of the ServiceCIDR `kubernetes`, which counts for all servers once it is made.
    pub cluster_ips: Cidr,
    /// Node ports.
    pub node_ports: RangeInclusive<u16>,
}

impl Default for ServiceRanges {
    fn default() -> Self {
        Self { cluster_ips: "10.96.0.0/16".parse().expect("it is a range"), node_ports: 30_000..=32_767 }
    }
}

/// Something that one Service alone has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Good {
    /// A cluster address.
    Address(IpAddr),
    /// A port of every node.
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
    /// All that a Service has. A port that it uses for two protocols is one.
    #[must_use]
    pub fn all_of(service: &Service) -> BTreeSet<Self> {
        let Some(spec) = &service.spec else { return BTreeSet::new() };
        let addresses = spec.cluster_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).map(Self::Address);
        let numbers = spec.ports.iter().flatten().filter_map(|port| port.node_port).chain(spec.health_check_node_port);
        let ports = numbers.filter_map(|number| u16::try_from(number).ok()).filter(|number| *number != 0).map(Self::NodePort);
        addresses.chain(ports).collect()
    }
}

/// Gives out cluster addresses and node ports. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Allocator {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) ranges: Arc<ServiceRanges>,
}

/// What a write of a Service claims and gives back.
#[derive(Debug, Default)]
pub(crate) struct Allocation {
    taken: Vec<Claim>,
    leaving: Vec<Claim>,
}

impl Allocation {
    /// Whether nothing is claimed and nothing goes back.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.leaving.is_empty()
    }
}

impl Allocator {
    /// Fills in addresses and node ports that a Service needs, as claimed for it. `old`: what is stored; `new`: what shall be, absent where
    /// the Service goes.
    ///
    /// # Errors
    /// What is wished for is taken or not given out here; all is taken; the store's. Nothing is claimed then.
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
            // To be read before the Service is gone: one that comes after it may take its claims over then, and keeps them.
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

    /// The Service is stored: what was claimed for it must still be its own, what it no longer has goes back.
    ///
    /// # Errors
    /// Somebody else has come to hold what was claimed.
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
        // What cannot be given back now is found by [`repair`].
        for claim in &allocation.leaving {
            self.release(claim).await;
        }
        Ok(())
    }

    /// Gives back what a write claimed that did not happen.
    pub(crate) async fn take_back(&self, allocation: Allocation) {
        for claim in allocation.taken.iter().filter(|claim| claim.was == Held::Free) {
            self.release(claim).await;
        }
    }
}

/// Draws what one Service needs.
struct Drawer<'a> {
    allocator: &'a Allocator,
    holder: Holder,
    mode: Mode,
    /// What it has already.
    held: &'a BTreeSet<Good>,
    /// What it got just now.
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

    /// Whether the good is, or now becomes, the Service's.
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

    /// Takes one of `count` goods by number that nobody has: from number `reserved` on at first, so that those below are there for whoever
    /// asks for one by name. `None`: all are taken.
    ///
    /// Source: KEP-3070, KEP-3668.
    async fn draw(
        &mut self,
        count: u64,
        reserved: u64,
        prefix: &str,
        nth: impl Fn(u64) -> Good + Send + Sync,
    ) -> Result<Option<Good>, ApiError> {
        /// How often one is picked blindly before all that are taken are looked at.
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
            // Others may be as quick; what they took since is not free either.
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

/// How many of `count` are kept for those who ask for one by name: a 16th, within bounds.
fn reserved(count: u64, most: u64) -> u64 {
    const LEAST: u64 = 16;
    if count <= LEAST { 0 } else { (count / 16).clamp(LEAST, most) }
}
