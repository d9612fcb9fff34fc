//! The resource use of workloads over time, computed from object changes of a recording or a simulation.

use crate::{
    count_history::CountHistory,
    forecast::Peak,
    load::Load,
    replay::{
        column::{Column, Ending, Rollout, Size, Sum, WorkloadColumn},
        samples::ReadyPods,
    },
    times::since,
    tracked_workload::LiveWorkload,
};
use berth_api::FeatureGates;
use berth_identity::{Name, Namespace, ObjectKey, Revision};
use berth_node::{resources::Amounts, scheduler::PodInfo};
use berth_store::env::Timestamp;
use berth_trace::ObjectId;
use berth_workloads::{
    pod_state::{PodCounts, PodState},
    view::{DeploymentView, PodView, ReplicaSetView, StatefulSetView, View},
    workload::{WorkloadId, WorkloadKind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How many rollouts of one workload are reported.
const ROLLOUTS_MAX: usize = 2000;
/// How many sizes of one template are reported.
const SIZES_MAX: usize = 2000;
/// How many digits of a template's hash are shown.
const SHOWN_DIGITS: usize = 10;

/// The counts of all workloads.
pub(crate) struct Ledger {
    gates: FeatureGates,
    began: Option<Timestamp>,
    /// From this time on, only rollouts are followed.
    closed: Option<Duration>,
    books: BTreeMap<Group, Book>,
    sets: BTreeMap<ObjectKey, Set>,
    pods: BTreeMap<ObjectKey, Pod>,
    /// Pods whose set was not observed yet.
    early: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    ripening: BTreeSet<(Timestamp, ObjectKey)>,
    all: Totals,
    reports: Vec<(Duration, String)>,
}

/// Counts over time.
#[derive(Clone, Default)]
struct Totals {
    counts: PodCounts,
    held: Amounts,
    pods: Peak<u32>,
    terminating: Peak<u32>,
    resources: BTreeMap<String, Peak<i64>>,
    pod_millis: u128,
    last: Duration,
}

/// The group that a pod is counted for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Workload(WorkloadId),
    /// A ReplicaSet without a Deployment.
    ReplicaSet(ObjectKey),
}

impl Group {
    /// Kind, namespace and name. Reports are sorted by them.
    fn parts(&self) -> (&'static str, &Namespace, &Name) {
        match self {
            Self::Workload(id) => (id.kind.name(), &id.namespace, &id.name),
            Self::ReplicaSet(key) => ("ReplicaSet", &key.namespace, &key.name),
        }
    }
}

/// One workload.
#[derive(Default)]
struct Book {
    tracking: LiveWorkload,
    template: String,
    tally: CountHistory,
    totals: Totals,
    frozen: Option<Totals>,
    rollouts: Vec<Rollout>,
    is_open: bool,
    sizes: BTreeMap<String, Vec<Size>>,
    wanted: Vec<(Duration, u32)>,
}

struct Set {
    book: Group,
    template: String,
    replicas: i64,
}

struct Pod {
    view: PodView,
    book: Option<Group>,
    revision: String,
    state: Option<PodState>,
    requests: Amounts,
    ripe_at: Option<Timestamp>,
}

impl Totals {
    /// Advances the time without a change of the counts.
    fn pass(&mut self, at: Duration) {
        let passed = at.saturating_sub(self.last).as_millis();
        self.pod_millis += passed * u128::from(self.counts.total());
        self.last = self.last.max(at);
    }

    fn note(&mut self, at: Duration) {
        raise(&mut self.pods, self.counts.total(), at);
        raise(&mut self.terminating, self.counts.terminating, at);
        for (name, value) in self.held.iter() {
            raise(self.resources.entry(name.to_owned()).or_default(), value, at);
        }
    }

    fn sum(self) -> Sum {
        let resources = self.resources.into_iter().filter(|(name, _)| name != "pods").collect();
        Sum { pods: self.pods, terminating: self.terminating, resources, pod_minutes: minutes(self.pod_millis) }
    }
}

fn raise<T: PartialOrd>(peak: &mut Peak<T>, value: T, at: Duration) {
    if peak.value < value {
        *peak = Peak { value, at };
    }
}

fn minutes(millis: u128) -> f64 {
    let seconds = u64::try_from(millis / 100).unwrap_or(u64::MAX);
    // A recording's minutes are far below 2^52 tenths of a second.
    seconds as f64 / 600.0
}

impl Ledger {
    pub(crate) fn new(gates: FeatureGates) -> Self {
        Self {
            gates,
            began: None,
            closed: None,
            books: BTreeMap::new(),
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            early: BTreeMap::new(),
            ripening: BTreeSet::new(),
            all: Totals::default(),
            reports: Vec::new(),
        }
    }

    /// Starts the accounting with the present objects.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.ripen(now);
        self.began = Some(now);
        let of = |counts: PodCounts, held: &Amounts| {
            let mut totals = Totals { counts, held: held.clone(), ..Totals::default() };
            totals.note(Duration::ZERO);
            totals
        };
        self.all = of(self.all.counts, &self.all.held);
        for book in self.books.values_mut() {
            book.tally.begin();
            book.totals = of(book.totals.counts, &book.totals.held);
            let wanted = u32::try_from(book.tracking.replicas()).unwrap_or(0);
            book.wanted = vec![(Duration::ZERO, wanted)];
            let keep = |sizes: &mut Vec<Size>| {
                let last = sizes.pop();
                *sizes = last.into_iter().map(|size| Size { at: Duration::ZERO, ..size }).collect();
            };
            book.sizes.values_mut().for_each(keep);
            book.rollouts.clear();
            book.is_open = false;
            if !matches!(book.tracking, LiveWorkload::Nothing) && !book.tracking.is_complete(&self.gates) {
                book.open(Duration::ZERO, Ending::UnderWay);
            }
        }
        self.reports.clear();
    }

    /// Stops counting pods. Rollouts in progress are still followed.
    pub(crate) fn close(&mut self, now: Timestamp) {
        self.ripen(now);
        let at = self.at(now);
        self.closed = Some(at);
        self.all.pass(at);
        for book in self.books.values_mut() {
            book.totals.pass(at);
            book.frozen = Some(book.totals.clone());
        }
    }

    /// The ready pods of a workload now, and what one of its pods requests.
    pub(crate) fn ready_pods(&self, workload: &ObjectId) -> ReadyPods {
        let key = ObjectKey::new(workload.namespace.as_str(), workload.name.as_str());
        let group = match WorkloadKind::named(workload.kind) {
            Some(kind) => Group::Workload(WorkloadId::of_key(kind, key)),
            None => Group::ReplicaSet(key),
        };
        let Some(Totals { counts, held, .. }) = self.books.get(&group).map(|book| &book.totals) else { return ReadyPods::default() };
        let pods = i64::from(counts.total()).max(1);
        let requests = Load { cpu_millis: held.cpu() / pods, memory_bytes: held.get("memory") / pods };
        ReadyPods { count: counts.ready + counts.available, requests }
    }

    /// Whether a rollout is in progress.
    pub(crate) fn has_open(&self) -> bool {
        self.books.values().any(|book| book.is_open)
    }

    /// The rollouts that began or ended since the last call, as text.
    pub(crate) fn take_reports(&mut self) -> Vec<(Duration, String)> {
        std::mem::take(&mut self.reports)
    }

    fn at(&self, now: Timestamp) -> Duration {
        self.began.map_or(Duration::ZERO, |began| since(began, now))
    }

    /// Records a new or changed object.
    pub(crate) fn put(&mut self, plural: &str, json: &[u8], now: Timestamp) {
        self.ripen(now);
        match plural {
            "pods" => PodView::decode(json, Revision(0)).ok().into_iter().for_each(|view| self.put_pod(view, json, now)),
            "replicasets" => ReplicaSetView::decode(json, Revision(0)).ok().into_iter().for_each(|view| self.put_set(&view, now)),
            "deployments" => {
                if let Ok(view) = DeploymentView::decode(json, Revision(0)) {
                    let template = template_of(view.spec.template.spec.as_ref());
                    let key = WorkloadId::of_key(WorkloadKind::Deployment, view.meta.key());
                    self.put_workload(key, LiveWorkload::Deployment(Box::new(view)), template, now);
                }
            }
            "statefulsets" => {
                if let Ok(view) = StatefulSetView::decode(json, Revision(0)) {
                    let template = template_of(view.spec.template.spec.as_ref());
                    let key = WorkloadId::of_key(WorkloadKind::StatefulSet, view.meta.key());
                    self.put_workload(key, LiveWorkload::StatefulSet(Box::new(view)), template, now);
                }
            }
            _ => (),
        }
    }

    /// Records a deleted object.
    pub(crate) fn remove(&mut self, plural: &str, namespace: &str, name: &str, now: Timestamp) {
        self.ripen(now);
        let at = self.at(now);
        let key = ObjectKey::new(namespace, name);
        match plural {
            "pods" => self.remove_pod(&key, at),
            "replicasets" => drop(self.sets.remove(&key)),
            _ => {
                let group = WorkloadKind::of_plural(plural).map(|kind| Group::Workload(WorkloadId::of_key(kind, key)));
                if let Some(book) = group.and_then(|group| self.books.get_mut(&group)) {
                    book.tracking = LiveWorkload::Nothing;
                    book.template.clear();
                    book.end(at, Ending::Deleted);
                    book.want(at, 0);
                }
            }
        }
    }

    fn put_workload(&mut self, workload: WorkloadId, tracking: LiveWorkload, template: String, now: Timestamp) {
        let (at, has_begun) = (self.at(now), self.began.is_some());
        let group = Group::Workload(workload.clone());
        let book = self.books.entry(group.clone()).or_insert_with(|| Book::new(has_begun));
        let is_first = book.template.is_empty();
        let is_new = book.template != template;
        book.tracking = tracking;
        book.template = template;
        if has_begun {
            let wanted = u32::try_from(book.tracking.replicas()).unwrap_or(0);
            book.want(at, wanted);
            if is_new {
                book.end(at, Ending::Superseded);
                book.open(at, if is_first { Ending::First } else { Ending::Replacing });
                self.reports.push((at, format!("{workload}: a rollout begins")));
            }
        }
        self.judge(&group, at);
    }

    fn put_set(&mut self, view: &ReplicaSetView, now: Timestamp) {
        let (at, has_begun) = (self.at(now), self.began.is_some());
        let set = view.meta.key();
        let owner = view.meta.controller().filter(|owner| owner.kind == "Deployment");
        let book = match owner {
            Some(owner) => Group::Workload(WorkloadId::new(WorkloadKind::Deployment, view.meta.namespace.clone(), owner.name.as_str())),
            None => Group::ReplicaSet(set.clone()),
        };
        let (template, replicas) = (template_of(view.template.spec.as_ref()), i64::from(view.replicas));
        let known = self.sets.insert(set.clone(), Set { book: book.clone(), template: template.clone(), replicas });
        let entry = self.books.entry(book.clone()).or_insert_with(|| Book::new(has_begun));
        if matches!(book, Group::ReplicaSet(_)) && has_begun {
            entry.want(at, u32::try_from(replicas).unwrap_or(0));
        }
        if known.as_ref().is_none_or(|known| known.replicas != replicas || known.template != template) {
            let sizes = entry.sizes.entry(template).or_default();
            if sizes.len() < SIZES_MAX && sizes.last().is_none_or(|last| last.replicas != replicas) {
                sizes.push(Size { at, replicas });
            }
        }
        for pod in self.early.remove(&set).into_iter().flatten() {
            if let Some(pod) = self.pods.remove(&pod) {
                self.place(pod.view, pod.requests, None, now);
            }
        }
    }

    fn put_pod(&mut self, view: PodView, json: &[u8], now: Timestamp) {
        match self.pods.remove(&view.meta.key()) {
            Some(known) if known.view.meta.uid == view.meta.uid => {
                let requests = known.requests.clone();
                self.place(view, requests, Some(known), now);
            }
            known => {
                if let Some(known) = known {
                    let key = known.view.meta.key();
                    self.pods.insert(key.clone(), known);
                    self.remove_pod(&key, self.at(now));
                }
                let requests = PodInfo::decode(json, Revision(0)).map(|info| info.requests).unwrap_or_default();
                self.place(view, requests, None, now);
            }
        }
    }

    /// Counts a pod in its new state. `known` is its former state.
    fn place(&mut self, view: PodView, requests: Amounts, known: Option<Pod>, now: Timestamp) {
        let (at, key) = (self.at(now), view.meta.key());
        let (book, revision) = match &known {
            Some(known) => (known.book.clone(), known.revision.clone()),
            None => self.owner_of(&view, &key),
        };
        let before = known.as_ref().and_then(|known| known.state);
        if let Some(ripe) = known.as_ref().and_then(|known| known.ripe_at) {
            self.ripening.remove(&(ripe, key.clone()));
        }
        let min_ready = book.as_ref().and_then(|book| self.books.get(book)).map_or(0, |book| book.tracking.min_ready_seconds());
        let ripe = view.available_at(min_ready);
        let state = PodState::of(&view, min_ready, now);
        let ripe_at = ripe.filter(|_| state == Some(PodState::Ready));
        if let Some(ripe) = ripe_at {
            self.ripening.insert((ripe, key.clone()));
        }
        if let Some(book) = &book {
            self.change(book, &revision, (before, state), &requests, (&view, at));
        }
        self.pods.insert(key, Pod { view, book, revision, state, requests, ripe_at });
    }

    /// The workload of a pod, and its template.
    fn owner_of(&mut self, view: &PodView, key: &ObjectKey) -> (Option<Group>, String) {
        let Some(owner) = view.meta.controller() else { return (None, String::new()) };
        match owner.kind.as_str() {
            "StatefulSet" => {
                let revision = view.meta.labels.get("controller-revision-hash").map(ToString::to_string).unwrap_or_default();
                let workload = WorkloadId::new(WorkloadKind::StatefulSet, key.namespace.clone(), owner.name.as_str());
                (Some(Group::Workload(workload)), revision)
            }
            "ReplicaSet" => {
                let set = ObjectKey::new(&*key.namespace, owner.name.as_str());
                match self.sets.get(&set) {
                    Some(set) => (Some(set.book.clone()), shown(&set.template)),
                    None => {
                        self.early.entry(set).or_default().insert(key.clone());
                        (None, String::new())
                    }
                }
            }
            _ => (None, String::new()),
        }
    }

    fn change(
        &mut self,
        key: &Group,
        revision: &str,
        (from, to): (Option<PodState>, Option<PodState>),
        requests: &Amounts,
        (view, at): (&PodView, Duration),
    ) {
        if from == to {
            return;
        }
        let (has_begun, counts) = (self.began.is_some(), self.closed.is_none());
        let book = self.books.entry(key.clone()).or_insert_with(|| Book::new(has_begun));
        book.tally.change(revision, from, to, at);
        book.tally.follow(&view.meta.uid, &view.meta.name, revision, to, at);
        for totals in [&mut book.totals, &mut self.all] {
            if counts {
                totals.pass(at);
            }
            totals.counts.moved(from, to);
            match (from, to) {
                (None, Some(_)) => totals.held.add(requests),
                (Some(_), None) => totals.held.subtract(requests),
                _ => (),
            }
            if has_begun && counts {
                totals.note(at);
            }
        }
        if let Some(rollout) = book.rollouts.last_mut().filter(|_| book.is_open) {
            rollout.note(book.totals.counts, at);
        }
        self.judge(key, at);
    }

    fn remove_pod(&mut self, key: &ObjectKey, at: Duration) {
        let Some(pod) = self.pods.remove(key) else { return };
        if let Some(ripe) = pod.ripe_at {
            self.ripening.remove(&(ripe, key.clone()));
        }
        if let Some(book) = &pod.book {
            self.change(book, &pod.revision, (pod.state, None), &pod.requests, (&pod.view, at));
        }
    }

    /// Records pods that have become available by time alone.
    pub(crate) fn ripen(&mut self, now: Timestamp) {
        while let Some((ripe, key)) = self.ripening.first().filter(|(ripe, _)| *ripe <= now).cloned() {
            self.ripening.pop_first();
            let Some(mut pod) = self.pods.remove(&key) else { continue };
            let (from, at) = (pod.state, self.at(ripe));
            (pod.state, pod.ripe_at) = (Some(PodState::Available), None);
            if let Some(book) = &pod.book {
                self.change(book, &pod.revision, (from, pod.state), &pod.requests, (&pod.view, at));
            }
            self.pods.insert(key, pod);
        }
    }

    /// Records whether the rollout is complete.
    fn judge(&mut self, key: &Group, at: Duration) {
        let Some(book) = self.books.get_mut(key).filter(|book| book.is_open) else { return };
        if !book.tracking.is_complete(&self.gates) {
            return;
        }
        let is_settled = book.totals.counts.terminating == 0;
        let Some(rollout) = book.rollouts.last_mut() else { return };
        if rollout.complete.is_none() {
            rollout.complete = Some(at);
            if let Group::Workload(workload) = key {
                self.reports.push((at, format!("{workload}: the rollout is complete")));
            }
        }
        if is_settled {
            rollout.settled = Some(at);
            book.is_open = false;
        }
    }

    /// The result.
    pub(crate) fn column(self, name: String, notes: Vec<String>) -> Column {
        let (all, gates) = (self.all, self.gates);
        let mut books: Vec<(Group, Book)> = self.books.into_iter().collect();
        books.sort_by(|(one, _), (other, _)| one.parts().cmp(&other.parts()));
        let workloads = books.into_iter().filter_map(|(group, book)| book.column(&group, &gates));
        Column { name, workloads: workloads.collect(), sum: all.sum(), notes }
    }
}

impl Book {
    fn new(has_begun: bool) -> Self {
        let mut book = Self::default();
        if has_begun {
            book.tally.begin();
        }
        book
    }

    fn open(&mut self, at: Duration, how: Ending) {
        if self.rollouts.len() < ROLLOUTS_MAX {
            let mut rollout = Rollout::new(at, how);
            rollout.note(self.totals.counts, at);
            self.rollouts.push(rollout);
            self.is_open = true;
        }
    }

    fn end(&mut self, at: Duration, how: Ending) {
        if let Some(rollout) = self.rollouts.last_mut().filter(|_| self.is_open) {
            rollout.end(at, how);
        }
        self.is_open = false;
    }

    fn want(&mut self, at: Duration, wanted: u32) {
        if self.wanted.last().is_none_or(|(_, last)| *last != wanted) && self.wanted.len() < SIZES_MAX {
            self.wanted.push((at, wanted));
        }
    }

    fn column(mut self, group: &Group, gates: &FeatureGates) -> Option<WorkloadColumn> {
        let totals = self.frozen.unwrap_or(self.totals);
        let has_any = 0 < totals.pods.value || !self.rollouts.is_empty() || !matches!(self.tracking, LiveWorkload::Nothing);
        // A ReplicaSet that was scaled to 0 long ago is not reported.
        let is_one = has_any || (matches!(group, Group::ReplicaSet(_)) && self.wanted.iter().any(|(_, wanted)| 0 < *wanted));
        is_one.then(|| {
            let lowest = self.rollouts.iter().filter_map(|rollout| rollout.lowest).min_by_key(|lowest| lowest.value);
            let (kind, namespace, name) = group.parts();
            WorkloadColumn {
                kind,
                namespace: namespace.to_string(),
                name: name.to_string(),
                policy: self.tracking.policy(gates),
                available: lowest,
                rollouts: self.rollouts,
                sets: self.sizes.into_iter().filter(|(_, sizes)| sizes.iter().any(|size| 0 < size.replicas)).collect(),
                bound: self.tracking.size().map(berth_workloads::deployment::limits::Size::max),
                wanted: self.wanted,
                lives: self.tally.take_lives(),
                lanes: self.tally.lanes,
                sum: totals.sum(),
            }
        })
    }
}

/// The template's identity: recordings, and simulations of them, store it in the first container's image.
fn template_of(spec: Option<&berth_api::k8s_openapi::api::core::v1::PodSpec>) -> String {
    spec.and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_else(|| "unknown".to_owned())
}

fn shown(template: &str) -> String {
    template.chars().take(SHOWN_DIGITS).collect()
}
