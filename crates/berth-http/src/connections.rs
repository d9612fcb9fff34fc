//! The owners of open connections. Users that the server knows and unauthenticated clients have separate capacity, so that neither blocks the other.
//!
//! Every connection begins as unauthenticated. It moves to the capacity of its owner after authentication: by its certificate in the handshake, or by a
//! token or a session with its first request. If the capacity of unauthenticated clients is full, a new connection replaces another one. That is the
//! oldest connection without a request of the network that holds the most. Known users are handled in the same way, user by user, and a user that holds
//! the most itself is refused.

use crate::{activity::Activity, limits::Limits};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::sync::oneshot;

/// How many of a client's oldest connections are checked for one without a request, before the oldest is closed whatever it does.
const CHECKED_MAX: usize = 64;
/// So many answers a stranger's client may leave where they are, whatever others do: on all connections that strangers may have as many as
/// [`Limits::strangers_unread`].
const UNREAD_FEW: usize = 4;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    table: Mutex<Table>,
    per_owner: usize,
    /// Answers to strangers that are not taken.
    unread: AtomicUsize,
    unread_max: usize,
}

#[derive(Debug)]
struct Table {
    next: u64,
    /// By network.
    strangers: Part<IpAddr>,
    /// By owner.
    known: Part<String>,
}

/// The slot of one connection. Free again when dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    whose: Mutex<Whose>,
    /// So that a request need not lock anything to see it.
    is_stranger: AtomicBool,
    /// Of the answers to strangers that are not taken, its own.
    unread: AtomicUsize,
}

/// An answer to a stranger that is not taken. No more so when dropped.
#[derive(Debug)]
pub struct Unread(Arc<ConnectionSlot>);

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.unread.fetch_sub(1, Ordering::AcqRel);
        self.0.connections.unread.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug)]
enum Whose {
    Stranger(IpAddr),
    Known(String),
    Unlimited,
}

/// Who a connection's peer is, as far as connections are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// One of many, by name.
    Known(&'a str),
    /// One whose connections are not counted.
    Unlimited,
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The other end of the connection.
    pub from: SocketAddr,
    /// The connection's slot among all.
    pub slot: Arc<ConnectionSlot>,
}

/// An owner has all connections that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let table = Table { next: 0, strangers: Part::new(limits.strangers), known: Part::new(limits.known) };
        let (table, unread_max) = (Mutex::new(table), limits.strangers_unread);
        Arc::new(Self { table, per_owner: limits.per_owner, unread: AtomicUsize::new(0), unread_max })
    }

    /// Returns a slot for a connection from this address. When the receiver resolves, close the connection at once: its slot belongs to another one.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr, activity: Arc<Activity>) -> (ConnectionSlot, oneshot::Receiver<()>) {
        let network = client_network(from);
        let (cut, is_cut) = oneshot::channel();
        let mut table = self.table();
        if table.strangers.is_full() {
            table.strangers.cut_one();
        }
        let number = table.next;
        table.next += 1;
        table.strangers.add(network, number, Held { activity, cut });
        drop(table);
        let (whose, is_stranger) = (Mutex::new(Whose::Stranger(network)), AtomicBool::new(true));
        (ConnectionSlot { connections: self.clone(), number, whose, is_stranger, unread: AtomicUsize::new(0) }, is_cut)
    }

    /// Closes a stranger's connection, if there is one: the machine has no more descriptors.
    pub(crate) fn cut_stranger(&self) {
        self.table().strangers.cut_one();
    }

    /// Nothing panics while it is locked; if it did, the counts would still be of whole steps.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// It has turned out whose connection this is. The first to prove it counts.
    ///
    /// # Errors
    ///
    /// [`TooMany`]: it stays among the strangers.
    pub fn belongs_to(&self, owner: Owner<'_>) -> Result<(), TooMany> {
        if !self.is_stranger.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut whose = self.whose.lock().unwrap_or_else(PoisonError::into_inner);
        let Whose::Stranger(network) = &*whose else { return Ok(()) };
        let mut table = self.connections.table();
        if let Owner::Known(name) = owner {
            table.known.make_room_for(&name.to_owned(), self.connections.per_owner)?;
        }
        // A connection that was closed meanwhile has no slot to move.
        let held = table.strangers.remove(network, self.number).ok_or(TooMany)?;
        *whose = match owner {
            Owner::Unlimited => Whose::Unlimited,
            Owner::Known(name) => {
                table.known.add(name.to_owned(), self.number, held);
                Whose::Known(name.to_owned())
            }
        };
        self.is_stranger.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl ConnectionSlot {
    /// One more answer that its client does not take yet; `None` where the server knows who that is. Closes the connection where strangers have too many of
    /// such, and this one more than a few.
    pub(crate) fn unread(self: &Arc<Self>) -> Option<Unread> {
        if !self.is_stranger.load(Ordering::Relaxed) {
            return None;
        }
        let own = self.unread.fetch_add(1, Ordering::AcqRel) + 1;
        let all = self.connections.unread.fetch_add(1, Ordering::AcqRel) + 1;
        if self.connections.unread_max < all && UNREAD_FEW < own {
            self.cut();
        }
        Some(Unread(Arc::clone(self)))
    }

    /// Whether the server does not know (yet) whose connection it is.
    #[must_use]
    pub fn is_stranger(&self) -> bool {
        self.is_stranger.load(Ordering::Relaxed)
    }

    fn cut(&self) {
        let whose = self.whose.lock().unwrap_or_else(PoisonError::into_inner);
        if let Whose::Stranger(network) = &*whose
            && let Some(held) = self.connections.table().strangers.remove(network, self.number)
        {
            // A connection that has ended meanwhile needs no signal.
            let _ = held.cut.send(());
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        match self.whose.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Whose::Stranger(network) => drop(table.strangers.remove(network, self.number)),
            Whose::Known(user) => drop(table.known.remove(user, self.number)),
            Whose::Unlimited => (),
        }
    }
}

/// One of the two halves.
#[derive(Debug)]
struct Part<K> {
    max: usize,
    count: usize,
    /// The connections of each, by number: the oldest first.
    of: BTreeMap<K, BTreeMap<u64, Held>>,
    /// Who holds how many, who holds the most last.
    by_count: BTreeSet<(usize, K)>,
}

#[derive(Debug)]
struct Held {
    activity: Arc<Activity>,
    cut: oneshot::Sender<()>,
}

impl<K: Ord + Clone> Part<K> {
    fn new(max: usize) -> Self {
        Self { max, count: 0, of: BTreeMap::new(), by_count: BTreeSet::new() }
    }

    fn is_full(&self) -> bool {
        self.max <= self.count
    }

    fn count_of(&self, who: &K) -> usize {
        self.of.get(who).map_or(0, BTreeMap::len)
    }

    /// One more of `who`, who may have so many.
    fn make_room_for(&mut self, who: &K, most: usize) -> Result<(), TooMany> {
        let own = self.count_of(who);
        if most <= own {
            return Err(TooMany);
        }
        if self.is_full() {
            if self.by_count.last().is_none_or(|(count, _)| *count <= own + 1) {
                return Err(TooMany);
            }
            self.cut_one();
        }
        Ok(())
    }

    fn add(&mut self, who: K, number: u64, held: Held) {
        self.change(&who, |connections| connections.insert(number, held));
    }

    fn remove(&mut self, who: &K, number: u64) -> Option<Held> {
        self.change(who, |connections| connections.remove(&number))
    }

    /// Closes a connection of the client that holds the most: the oldest without a request, else the oldest.
    fn cut_one(&mut self) {
        let Some((_, who)) = self.by_count.last().cloned() else { return };
        let cut = self.change(&who, |connections| {
            let idle = connections.iter().take(CHECKED_MAX).find(|(_, held)| held.activity.is_idle());
            let number = idle.or_else(|| connections.iter().next()).map(|(number, _)| *number);
            number.and_then(|number| connections.remove(&number))
        });
        if let Some(held) = cut {
            // A connection that has ended meanwhile needs no signal.
            let _ = held.cut.send(());
        }
    }

    /// Changes whose connections there are, and the counts with it.
    fn change<T>(&mut self, who: &K, change: impl FnOnce(&mut BTreeMap<u64, Held>) -> T) -> T {
        let connections = self.of.entry(who.clone()).or_default();
        let before = connections.len();
        let result = change(connections);
        let after = connections.len();
        if after == 0 {
            self.of.remove(who);
        }
        if before != after {
            self.by_count.remove(&(before, who.clone()));
            if after != 0 {
                self.by_count.insert((after, who.clone()));
            }
            self.count = self.count + after - before;
        }
        result
    }
}

/// The network that counts as one client: a client with an IPv6 address has a complete network.
fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HERE: &str = "10.0.0.1";
    const THERE: &str = "10.0.0.2";
    const NONE: [usize; 0] = [];

    fn connections(half: usize, per_owner: usize) -> Arc<Connections> {
        Connections::new(&Limits { strangers: half, known: half, per_owner, ..limits() })
    }

    fn limits() -> Limits {
        let long = Duration::from_secs(60);
        Limits {
            strangers: 100,
            known: 100,
            per_owner: 100,
            strangers_unread: 100,
            head_bytes: 1 << 10,
            headers: None,
            handshake_timeout: long,
            head_timeout: long,
            idle_timeout: long,
            stall_timeout: long,
            drain_timeout: long,
        }
    }

    /// A connection, and what it does.
    struct Client {
        slot: Arc<ConnectionSlot>,
        is_cut: oneshot::Receiver<()>,
        activity: Arc<Activity>,
    }

    impl Client {
        fn is_cut(&mut self) -> bool {
            self.is_cut.try_recv().is_ok()
        }

        fn is_of(&self, name: &str) -> Result<(), TooMany> {
            self.slot.belongs_to(Owner::Known(name))
        }
    }

    fn come(connections: &Arc<Connections>, from: &str) -> Client {
        let activity = Activity::new();
        let (slot, is_cut) = connections.enter(from.parse().expect("an address"), activity.clone());
        Client { slot: Arc::new(slot), is_cut, activity }
    }

    /// Which of them were cut since it was asked last.
    fn cut(clients: &mut [Client]) -> Vec<usize> {
        (0..clients.len()).filter(|at| clients[*at].is_cut()).collect()
    }

    #[test]
    fn newcomers_replace_strangers_the_idle_and_oldest_first_and_never_known_users() {
        let all = connections(4, 4);
        let mut alice = [come(&all, HERE), come(&all, HERE)];
        assert!(alice.iter().all(|client| client.is_of("alice").is_ok()));
        let mut strangers: Vec<_> = (0..4).map(|_| come(&all, HERE)).collect();
        assert_eq!(cut(&mut strangers), NONE);
        let _request = strangers[0].activity.begin();
        for expected in [1, 2, 3] {
            strangers.push(come(&all, HERE));
            assert_eq!(cut(&mut strangers), [expected], "the oldest that has no request");
        }
        assert!(strangers[5].is_of("bob").is_ok());
        strangers.push(come(&all, HERE));
        assert_eq!(cut(&mut strangers), NONE, "a connection that became known left a slot");
        let _requests: Vec<_> = strangers.iter().map(|client| client.activity.begin()).collect();
        strangers.push(come(&all, HERE));
        assert_eq!(cut(&mut strangers), [0], "where all have requests, the oldest");
        assert_eq!(cut(&mut alice), NONE);
        assert_eq!(strangers[1].is_of("late"), Err(TooMany), "a connection without a slot stays out");
    }

    #[test]
    fn the_network_with_the_most_strangers_loses_a_connection() {
        let all = connections(4, 4);
        let mut there = [come(&all, THERE)];
        let mut here: Vec<_> = (0..3).map(|_| come(&all, HERE)).collect();
        for expected in [0, 1, 2] {
            here.push(come(&all, HERE));
            assert_eq!((cut(&mut here), cut(&mut there)), (vec![expected], vec![]));
        }
        let mut later = [come(&all, THERE)];
        assert_eq!((cut(&mut here), cut(&mut there), cut(&mut later)), (vec![3], vec![], vec![]));
    }

    #[test]
    fn the_user_with_the_most_connections_loses_one_and_gets_no_more() {
        let all = connections(4, 3);
        let become_of = |name: &str| {
            let client = come(&all, HERE);
            let outcome = client.is_of(name);
            (client, outcome)
        };
        let mut alice: Vec<_> = (0..3).map(|_| become_of("alice").0).collect();
        assert_eq!(become_of("alice").1, Err(TooMany), "so many for one user");
        let (_bob, outcome) = become_of("bob");
        assert_eq!((outcome, cut(&mut alice)), (Ok(()), vec![]));
        let (_carol, outcome) = become_of("carol");
        assert_eq!((outcome, cut(&mut alice)), (Ok(()), vec![0]));
        assert_eq!(become_of("bob").1, Err(TooMany), "no user holds more than bob would");
        for _ in 0..20 {
            assert_eq!(come(&all, HERE).slot.belongs_to(Owner::Unlimited), Ok(()));
        }
        assert_eq!(cut(&mut alice), NONE);
    }

    #[test]
    fn strangers_who_take_nothing_lose_their_connections_where_there_are_too_many() {
        let all = Connections::new(&Limits { strangers_unread: 10, ..limits() });
        let mut clients: Vec<_> = (0..5).map(|_| come(&all, HERE)).collect();
        let unread = |client: &Client, count: usize| (0..count).map(|_| client.slot.unread()).collect::<Vec<_>>();
        assert_eq!(clients[4].is_of("alice"), Ok(()));
        assert!(unread(&clients[4], 100).iter().all(Option::is_none), "the server knows who that is");
        let [six, few] = [(0, 6), (1, 4)].map(|(at, count)| unread(&clients[at], count));
        assert_eq!((cut(&mut clients), all.unread.load(Ordering::SeqCst)), (vec![], 10));
        let more = unread(&clients[2], 4);
        assert_eq!(cut(&mut clients), NONE, "a few are allowed");
        let late = unread(&clients[0], 1);
        assert_eq!(cut(&mut clients), [0]);
        drop((six, few, more, late));
        assert_eq!(all.unread.load(Ordering::SeqCst), 0);
        let taken = unread(&clients[3], 10);
        assert_eq!((cut(&mut clients), taken.len()), (vec![], 10), "what was taken counts no more");
    }

    #[test]
    fn places_come_back() {
        let all = connections(4, 4);
        for _ in 0..3 {
            let clients: Vec<_> = (0..4).map(|_| come(&all, HERE)).collect();
            let _ = clients[0].is_of("alice");
        }
        let table = all.table();
        assert_eq!((table.strangers.count, table.known.count), (0, 0));
        assert!(table.strangers.of.is_empty() && table.strangers.by_count.is_empty() && table.known.of.is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        for (address, network) in [
            ("10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ] {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(client_network(parse(address)), parse(network), "{address}");
        }
    }
}
