//! Events: repeated ones are counted instead of created again, floods are limited, and callers never wait for a write.

use crate::{
    cluster::{Cluster, ClusterError},
    lock,
    metrics::Metrics,
};
use berth_env::{Env, Rng};
use berth_identity::{ObjectKey, RolloutRevision, Uid};
use berth_workloads::{
    lru::Lru,
    plan::{EventRecord, Repeat, Severity},
    resources::EVENTS,
};
use event_listener::Event as Wake;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde_json::json;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::{Arc, Mutex},
};

/// An event that repeats within this time is counted instead of created again.
const SERIES_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// How many events of one object and reason are written at once. Further ones are dropped.
const BURST: u32 = 25;
/// The interval after which one more event may be written.
const REFILL: SignedDuration = SignedDuration::from_mins(5);
/// From this number on, events that differ only in their messages are combined, if each comes within [`SERIES_WINDOW`] of the one before.
const SIMILAR_MAX: usize = 10;
/// The prefix of a combined event's message.
const COMBINED: &str = "(combined from similar events): ";
/// How many series and objects are remembered.
const MEMORY: usize = 4096;
/// How long the name of an event may be.
const NAME_BYTES_MAX: usize = 253;
/// How many writes may be pending. A newer write replaces the oldest.
const BUFFER_MAX: usize = 1024;
/// How many writes are executed together, so that they share a commit.
const BATCH_MAX: usize = 64;
/// How long to collect further events after a batch. A commit for each event would delay all other writes.
const PAUSE: SignedDuration = SignedDuration::from_millis(50);

/// Records events for one component. Cheap to clone; recording never blocks and never fails.
#[derive(Clone)]
pub struct Recorder {
    component: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Arc<dyn Cluster>,
    env: Env,
    metrics: Arc<Metrics>,
    pending: Mutex<Pending>,
    wake: Wake,
}

struct Pending {
    correlator: Correlator,
    writes: VecDeque<Write>,
}

/// One write that is due.
#[derive(Debug)]
enum Write {
    Create(Box<Event>),
    /// The event repeated. `last` is the event as it would be if it were created now.
    Count {
        last: Box<Event>,
    },
}

impl Recorder {
    /// A recorder whose writer runs as a task of `env`. `component` is the source of the events.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, env: Env, metrics: Arc<Metrics>, component: &'static str) -> Self {
        let pending = Pending { correlator: Correlator::default(), writes: VecDeque::new() };
        let shared = Arc::new(Shared { cluster, env, metrics, pending: Mutex::new(pending), wake: Wake::new() });
        shared.env.spawner.spawn("events", Box::pin(write_all(Arc::clone(&shared))));
        Self { component, shared }
    }

    /// The same recorder for another component.
    #[must_use]
    pub fn of(&self, component: &'static str) -> Self {
        Self { component, shared: Arc::clone(&self.shared) }
    }

    /// Records an event. It is written later, or dropped.
    pub fn record(&self, record: &EventRecord) {
        if !self.shared.cluster.keeps_events(record.severity) {
            return;
        }
        let now = self.shared.env.clock.now();
        let mut pending = lock(&self.shared.pending);
        let Outcome { verdict, is_folded } = pending.correlator.correlate(record, now, &*self.shared.env.rng);
        let write = match verdict {
            Verdict::New { name } => Write::Create(Box::new(event(record, name, 1, now, now, self.component))),
            Verdict::Repeated { name, count, first } => {
                Write::Count { last: Box::new(event(record, name, count, first, now, self.component)) }
            }
            Verdict::Known => return,
            Verdict::TooMany => return self.shared.metrics.events_dropped.inc(),
        };
        let write = if is_folded { write.combined() } else { write };
        if pending.writes.len() == BUFFER_MAX {
            pending.writes.pop_front();
            self.shared.metrics.events_dropped.inc();
        }
        pending.writes.push_back(write);
        self.shared.wake.notify(1);
    }
}

async fn write_all(shared: Arc<Shared>) {
    loop {
        let changed = shared.wake.listen();
        let batch = take_batch(&mut lock(&shared.pending).writes);
        if batch.is_empty() {
            changed.await;
            continue;
        }
        stream::iter(batch).for_each_concurrent(None, |write| shared.write(write)).await;
        let clock = &shared.env.clock;
        clock.sleep_until(clock.now() + PAUSE).await;
    }
}

/// Removes the oldest writes, at most one for each event. A count of a pending event updates that write.
fn take_batch(writes: &mut VecDeque<Write>) -> Vec<Write> {
    let mut batch: Vec<Write> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    while batch.len() < BATCH_MAX
        && let Some(write) = writes.pop_front()
    {
        let (Write::Create(event) | Write::Count { last: event }) = &write;
        match places.entry(event.metadata.name.clone().unwrap_or_default()) {
            Entry::Vacant(place) => {
                place.insert(batch.len());
                batch.push(write);
            }
            Entry::Occupied(place) => batch[*place.get()].follow(write),
        }
    }
    batch
}

impl Write {
    /// Marks the event as a combined one.
    fn combined(mut self) -> Self {
        let (Self::Create(event) | Self::Count { last: event }) = &mut self;
        event.message = event.message.take().map(|message| format!("{COMBINED}{message}"));
        self
    }

    /// Merges this write with a later one of the same event.
    fn follow(&mut self, later: Self) {
        let (Self::Create(newest) | Self::Count { last: newest }) = later;
        let (Self::Create(event) | Self::Count { last: event }) = self;
        *event = newest;
    }
}

impl Shared {
    async fn write(&self, write: Write) {
        let result = match write {
            Write::Create(event) => self.cluster.create(event).await.map(drop),
            Write::Count { last } => self.count(last).await,
        };
        if let Err(error) = result.or_else(accept_existing) {
            tracing::debug!(%error, "an event could not be written");
        }
    }

    /// Updates the count of a repeated event. Creates it again if it has expired.
    async fn count(&self, last: Box<Event>) -> Result<(), ClusterError> {
        let key = ObjectKey { namespace: last.metadata.namespace.clone().into(), name: last.metadata.name.clone().into() };
        let patch = json!({"count": last.count, "lastTimestamp": last.last_timestamp, "message": last.message});
        match self.cluster.patch(EVENTS, &key, None, patch).await {
            Err(ClusterError::NotFound(_)) => self.cluster.create(last).await.map(drop),
            other => other.map(drop),
        }
    }
}

/// Accepts that a former leader has created an event whose name follows from its content.
fn accept_existing(error: ClusterError) -> Result<(), ClusterError> {
    if matches!(error, ClusterError::AlreadyExists(_)) { Ok(()) } else { Err(error) }
}

fn event(record: &EventRecord, name: String, count: u32, first: Timestamp, last: Timestamp, component: &str) -> Event {
    let about = &record.about;
    // Events about cluster-scoped objects are in `default`, as upstream.
    let namespace = if about.key.namespace.is_empty() { "default" } else { &about.key.namespace };
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() },
        involved_object: ObjectReference {
            api_version: Some(record.about_kind.api_version()),
            kind: Some(record.about_kind.kind.to_string()),
            namespace: Some(about.key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            name: Some(about.key.name.to_string()),
            uid: Some(about.uid.to_string()),
            resource_version: about.resource_version.map(|version| version.to_string()),
            ..ObjectReference::default()
        },
        reason: Some(record.reason.to_string()),
        message: Some(record.message.clone()),
        type_: Some(severity(record.severity).to_owned()),
        count: Some(i32::try_from(count).unwrap_or(i32::MAX)),
        first_timestamp: Some(Time(first)),
        last_timestamp: Some(Time(last)),
        source: Some(EventSource { component: Some(component.to_owned()), ..EventSource::default() }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    }
}

/// The key that makes two events equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    uid: Uid,
    reason: Cow<'static, str>,
    message: String,
    severity: &'static str,
    /// The occurrence, for events that are recorded once for each.
    occurrence: Option<RolloutRevision>,
}

impl SeriesKey {
    /// The name of an event that is recorded once. It follows from the event's content, so a new leader cannot create the event again after
    /// a crash: the name exists.
    fn event_name(&self, object: &str) -> String {
        let occurrence = self.occurrence.map(|number| number.to_string()).unwrap_or_default();
        let parts = [&*self.uid, &*self.reason, &*self.message, self.severity, &*occurrence];
        named(object, fnv(parts))
    }
}

/// FNV-1a of texts, each with a terminator.
fn fnv<const N: usize>(parts: [&str; N]) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

struct Series {
    name: String,
    count: u32,
    first: Timestamp,
    last: Timestamp,
}

/// The hashed messages of events that are otherwise equal.
struct Similar {
    messages: BTreeSet<u64>,
    last: Timestamp,
}

/// A token bucket.
struct Allowance {
    left: u32,
    refilled: Timestamp,
}

/// Decides how each event is written. Plain data that drops the least recently used entries.
struct Correlator {
    series: Lru<SeriesKey, Series>,
    once: Lru<SeriesKey, ()>,
    similar: Lru<(Uid, Cow<'static, str>, &'static str), Similar>,
    allowances: Lru<(Uid, Cow<'static, str>), Allowance>,
}

struct Outcome {
    verdict: Verdict,
    /// Whether the event is combined with others that differ only in their messages.
    is_folded: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    New { name: String },
    Repeated { name: String, count: u32, first: Timestamp },
    Known,
    TooMany,
}

impl Default for Correlator {
    fn default() -> Self {
        Self { series: Lru::new(MEMORY), once: Lru::new(MEMORY), similar: Lru::new(MEMORY), allowances: Lru::new(MEMORY) }
    }
}

impl Correlator {
    fn correlate(&mut self, record: &EventRecord, now: Timestamp, rng: &dyn Rng) -> Outcome {
        let key = SeriesKey {
            uid: record.about.uid.clone(),
            reason: record.reason.clone(),
            message: record.message.clone(),
            severity: severity(record.severity),
            occurrence: match record.repeat {
                Repeat::OnceOf(number) => Some(number),
                Repeat::Each | Repeat::Once | Repeat::OncePer(_) => None,
            },
        };
        let once = match &record.repeat {
            Repeat::Each => None,
            Repeat::Once | Repeat::OnceOf(_) => Some(key.clone()),
            Repeat::OncePer(what) => Some(SeriesKey { message: what.clone(), ..key.clone() }),
        };
        let written_alone = |verdict| Outcome { verdict, is_folded: false };
        if once.as_ref().is_some_and(|once| self.once.get_mut(once).is_some()) {
            return written_alone(Verdict::Known);
        }
        // The limit is by object and reason, so that a thousand created pods do not hide the one that failed.
        if !self.allow((record.about.uid.clone(), record.reason.clone()), now) {
            return written_alone(Verdict::TooMany);
        }
        if let Some(once) = &once {
            self.once.insert(once.clone(), ());
        }
        if self.is_one_of_many(&key, now) {
            let folded = SeriesKey { message: COMBINED.to_owned(), occurrence: None, ..key };
            return Outcome { verdict: self.count(folded, None, record, now, rng), is_folded: true };
        }
        written_alone(self.count(key, once.as_ref(), record, now, rng))
    }

    /// Whether so many similar events exist that this one is combined.
    ///
    /// Source: client-go `tools/record/events_cache.go`, `EventAggregate`.
    fn is_one_of_many(&mut self, key: &SeriesKey, now: Timestamp) -> bool {
        let alike = (key.uid.clone(), key.reason.clone(), key.severity);
        let message = fnv([&*key.message]);
        let Some(similar) = self.similar.get_mut(&alike) else {
            self.similar.insert(alike, Similar { messages: [message].into(), last: now });
            return false;
        };
        if SERIES_WINDOW < now.duration_since(similar.last) {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message);
        if similar.messages.len() < SIMILAR_MAX {
            return false;
        }
        // Events that are already written individually remain so.
        similar.messages.remove(&message);
        true
    }

    fn count(&mut self, key: SeriesKey, once: Option<&SeriesKey>, record: &EventRecord, now: Timestamp, rng: &dyn Rng) -> Verdict {
        match self.series.get_mut(&key) {
            Some(series) if now.duration_since(series.last) < SERIES_WINDOW => {
                series.count = series.count.saturating_add(1);
                series.last = now;
                Verdict::Repeated { name: series.name.clone(), count: series.count, first: series.first }
            }
            _ => {
                let name = once.map_or_else(|| event_name(&record.about.key.name, rng), |once| once.event_name(&record.about.key.name));
                self.series.insert(key, Series { name: name.clone(), count: 1, first: now, last: now });
                Verdict::New { name }
            }
        }
    }

    fn allow(&mut self, key: (Uid, Cow<'static, str>), now: Timestamp) -> bool {
        let Some(allowance) = self.allowances.get_mut(&key) else {
            self.allowances.insert(key, Allowance { left: BURST - 1, refilled: now });
            return true;
        };
        let periods = now.duration_since(allowance.refilled).as_secs() / REFILL.as_secs();
        if periods > 0 {
            allowance.left = u32::try_from(periods).unwrap_or(BURST).saturating_add(allowance.left).min(BURST);
            allowance.refilled = now;
        }
        let allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        allowed
    }
}

fn event_name(object: &str, rng: &dyn Rng) -> String {
    let mut bytes = [0; 8];
    rng.fill(&mut bytes);
    named(object, u64::from_le_bytes(bytes))
}

/// The object's name and a number. The object's name is truncated if the whole would exceed the limit.
fn named(object: &str, number: u64) -> String {
    let room = NAME_BYTES_MAX - 17;
    let start = object.get(..room).unwrap_or(object).trim_end_matches(['-', '.']);
    format!("{start}.{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeCluster;
    use berth_env::testing::{Numbers, TestEnv};
    use berth_identity::{GroupResource, ObjectRef};
    use std::sync::atomic::Ordering;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("in range")
    }

    fn record(uid: &str, message: &str, repeat: Repeat) -> EventRecord {
        let resource = GroupResource::from_static("apps", "replicasets");
        let about = ObjectRef { resource, key: ObjectKey::new("ns", "web"), uid: uid.into(), resource_version: None };
        EventRecord { repeat, ..EventRecord::new(about, Severity::Warning, "FailedCreate", message.into()) }
    }

    #[test]
    fn the_name_of_an_event_fits_whatever_it_is_about() {
        assert_eq!(named("web", 10), "web.000000000000000a");
        let long = format!("{}.b", "a".repeat(235));
        assert_eq!(named(&long, 10), format!("{}.000000000000000a", "a".repeat(235)));
        assert_eq!(named(&"a".repeat(253), u64::MAX).len(), NAME_BYTES_MAX);
    }

    /// The outcome of events at these seconds: `new`, a count, `known` or `cut`.
    fn check(events: &[(i64, &str, &str, Repeat)], wanted: &[&str]) {
        let (mut correlator, rng) = (Correlator::default(), Numbers::default());
        let verdicts: Vec<String> = events
            .iter()
            .map(|(second, uid, message, repeat)| {
                match correlator.correlate(&record(uid, message, repeat.clone()), at(*second), &rng).verdict {
                    Verdict::New { .. } => "new".to_owned(),
                    Verdict::Repeated { count, .. } => count.to_string(),
                    Verdict::Known => "known".to_owned(),
                    Verdict::TooMany => "cut".to_owned(),
                }
            })
            .collect();
        assert_eq!(verdicts, wanted);
    }

    #[test]
    fn an_event_that_is_not_kept_is_not_made() {
        let made = |keeps_all: bool| {
            let test_env = TestEnv::default();
            let cluster = FakeCluster::new(|_| Ok(json!({})));
            cluster.keeps_all_events.store(keeps_all, Ordering::Relaxed);
            let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("an empty registry"));
            let recorder = Recorder::new(Arc::<FakeCluster>::clone(&cluster), test_env.env(), metrics, "test");
            recorder.record(&EventRecord { severity: Severity::Normal, ..record("1", "all is well", Repeat::Each) });
            recorder.record(&record("1", "nothing is well", Repeat::Each));
            test_env.run_for(SignedDuration::from_secs(1));
            cluster.events.load(Ordering::Relaxed)
        };
        assert_eq!([true, false].map(made), [2, 1]);
    }

    #[test]
    fn the_same_event_within_ten_minutes_is_counted() {
        let each = Repeat::Each;
        let each = || each.clone();
        check(&[(0, "1", "m", each()), (599, "1", "m", each()), (1198, "1", "m", each())], &["new", "2", "3"]);
        check(&[(0, "1", "m", each()), (600, "1", "m", each())], &["new", "new"]);
        check(&[(0, "1", "m", each()), (1, "1", "other", each()), (1, "2", "m", each())], &["new", "new", "new"]);
    }

    #[test]
    fn an_event_that_is_recorded_once_is_not_counted_later() {
        check(&[(0, "1", "m", Repeat::Once), (5, "1", "m", Repeat::Once), (9000, "1", "m", Repeat::Once)], &["new", "known", "known"]);
    }

    #[test]
    fn an_event_that_is_recorded_once_per_revision_is_recorded_again_for_the_next_revision() {
        let of = Repeat::OnceOf;
        check(
            &[
                (0, "1", "m", of(RolloutRevision(1))),
                (1, "1", "m", of(RolloutRevision(1))),
                (2, "1", "m", of(RolloutRevision(2))),
                (3, "1", "m", of(RolloutRevision(1))),
            ],
            &["new", "known", "new", "known"],
        );
    }

    #[test]
    fn the_name_of_an_event_that_is_recorded_once_follows_from_its_content() {
        let name = |uid: &str, message: &str, repeat: Repeat| {
            let rng = Numbers::default();
            match Correlator::default().correlate(&record(uid, message, repeat), at(0), &rng).verdict {
                Verdict::New { name } => name,
                other => panic!("{other:?}"),
            }
        };
        let first = name("1", "m", Repeat::OnceOf(RolloutRevision(1)));
        assert!(first.starts_with("web.") && first.len() == "web.".len() + 16, "{first}");
        assert_eq!(name("1", "m", Repeat::OnceOf(RolloutRevision(1))), first);
        let others = [
            name("2", "m", Repeat::OnceOf(RolloutRevision(1))),
            name("1", "n", Repeat::OnceOf(RolloutRevision(1))),
            name("1", "m", Repeat::OnceOf(RolloutRevision(2))),
            name("1", "m", Repeat::Once),
        ];
        assert!(!others.contains(&first), "{others:?}");
    }

    #[test]
    fn an_event_that_is_recorded_once_for_its_cause_may_have_another_message() {
        let per = |what: &str| Repeat::OncePer(what.to_owned());
        let events = [(0, "1", "a", per("x")), (5, "1", "b", per("x")), (6, "1", "c", per("y")), (7, "2", "a", per("x"))];
        check(&events, &["new", "known", "new", "new"]);
    }

    #[test]
    fn a_flood_about_one_object_is_cut_and_others_are_not() {
        let mut correlator = Correlator::default();
        let rng = Numbers::default();
        let mut verdict = |uid: &str, second: i64, index: i64| {
            correlator.correlate(&record(uid, &index.to_string(), Repeat::Each), at(second), &rng).verdict != Verdict::TooMany
        };
        let written = (0..100).filter(|index| verdict("1", 0, *index)).count();
        assert_eq!(written, 25);
        assert!(verdict("2", 0, 0));
        assert_eq!((0..3).filter(|index| verdict("1", 300, 100 + index)).count(), 1);
    }

    /// client-go's correlator writes nine events individually and combines all others.
    #[test]
    fn events_that_differ_in_their_messages_alone_are_folded_from_the_tenth_on() {
        let (mut correlator, rng) = (Correlator::default(), Numbers::default());
        let mut written = |second: i64, uid: &str, message: String| {
            let Outcome { verdict, is_folded } = correlator.correlate(&record(uid, &message, Repeat::Each), at(second), &rng);
            match verdict {
                Verdict::New { .. } => (is_folded, 1),
                Verdict::Repeated { count, .. } => (is_folded, count),
                verdict => panic!("{verdict:?}"),
            }
        };
        let created: Vec<_> = (0..12).map(|index| written(0, "1", format!("Created pod: web-{index}"))).collect();
        assert_eq!(created, [[(false, 1); 9].as_slice(), &[(true, 1), (true, 2), (true, 3)]].concat());
        assert_eq!(written(1, "1", "Created pod: web-0".to_owned()), (false, 2), "one that was written alone stays so");
        assert_eq!(written(2, "2", "Created pod: web-12".to_owned()), (false, 1), "another object");
        assert_eq!(written(700, "1", "Created pod: web-12".to_owned()), (false, 1), "ten minutes without one");
        let write = Write::Count { last: Box::new(event(&record("1", "m", Repeat::Each), "a".into(), 2, at(1), at(2), "test")) }.combined();
        let Write::Count { last } = write else { panic!("it counts") };
        assert_eq!(last.message.as_deref(), Some("(combined from similar events): m"));
    }

    #[test]
    fn what_counts_an_event_that_is_not_written_yet_changes_that() {
        let event = |name: &str, count| Box::new(event(&record("1", "m", Repeat::Each), name.into(), count, at(1), at(2), "test"));
        let count = |name: &str, count| Write::Count { last: event(name, count) };
        let writes =
            [Write::Create(event("a", 1)), count("b", 5), count("a", 2), Write::Create(event("c", 1)), count("b", 6), count("a", 3)];
        let batch: Vec<_> = take_batch(&mut VecDeque::from(writes))
            .iter()
            .map(|write| match write {
                Write::Create(event) => format!("create {:?} {:?}", event.metadata.name, event.count),
                Write::Count { last } => format!("count {:?} {:?}", last.metadata.name, last.count),
            })
            .collect();
        assert_eq!(batch, [r#"create Some("a") Some(3)"#, r#"count Some("b") Some(6)"#, r#"create Some("c") Some(1)"#]);
        let mut many: VecDeque<_> = (0..100).map(|index| count(&index.to_string(), 2)).collect();
        assert_eq!((take_batch(&mut many).len(), many.len()), (BATCH_MAX, 100 - BATCH_MAX));
    }

    #[test]
    fn an_event_names_what_it_is_about() {
        let event = event(&record("1", "m", Repeat::Each), "web.01".into(), 2, at(1), at(2), "replicaset-controller");
        let value = serde_json::to_value(&event).expect("string keys");
        assert_eq!(
            value["involvedObject"],
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "ns", "name": "web", "uid": "1"})
        );
        assert_eq!(
            (&value["type"], &value["count"], &value["source"]["component"]),
            (&json!("Warning"), &json!(2), &json!("replicaset-controller"))
        );
        assert_eq!((&value["firstTimestamp"], &value["lastTimestamp"]), (&json!("1970-01-01T00:00:01Z"), &json!("1970-01-01T00:00:02Z")));
    }
}
