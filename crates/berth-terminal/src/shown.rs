//! The data of a cluster at one moment, limited to what a screen can show.

use berth_chart::Chart;
use berth_follow::{
    board::Card,
    cluster_cache::ClusterCache,
    facts::Revision,
    rows::{self, Row, waits_for},
    text::ago,
    views::NoteView,
};
use berth_rollout::status::RolloutStage;
use berth_workloads::workload::WorkloadId;
use jiff::Timestamp;
use std::sync::Arc;

/// The maximum number of pods of a workload. Pods with a problem come first.
const PODS_MAX: usize = 500;
const EVENTS_MAX: usize = 20;
const REVISIONS_MAX: usize = 10;

/// What the user views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// All workloads.
    List,
    /// One workload.
    Workload(WorkloadId),
}

/// What the caller must read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    /// For this view.
    pub place: Location,
    /// Only workloads that match this text.
    pub search: String,
}

/// What the screen can show.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Whether the cache has synced all readable kinds.
    pub is_filled: bool,
    /// The kinds that the user may not read, with the reason.
    pub unreadable: Vec<String>,
    /// Why the connection to the cluster is lost.
    pub lost: Option<String>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    List(Vec<(WorkloadId, Arc<Card>)>),
    Workload(Box<Sheet>),
    /// The workload does not exist.
    Missing,
}

/// One workload.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) card: Arc<Card>,
    pub(crate) chart: Chart,
    /// Strategy, policy, age.
    pub(crate) manner: String,
    /// The requirement that the cluster cannot meet.
    pub(crate) ineffective_setting: Option<String>,
    pub(crate) pods: Vec<PodLine>,
    pub(crate) pods_count: usize,
    pub(crate) counts: Vec<(usize, &'static str)>,
    pub(crate) events: Vec<EventLine>,
    pub(crate) revisions: Vec<RevisionLine>,
}

#[derive(Clone, Debug)]
pub(crate) struct PodLine {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) is_in_trouble: bool,
    pub(crate) revision: String,
    pub(crate) node: String,
    pub(crate) age: String,
    pub(crate) restarts: String,
    pub(crate) waits_for: String,
}

#[derive(Clone, Debug)]
pub(crate) struct EventLine {
    pub(crate) age: String,
    pub(crate) is_warning: bool,
    pub(crate) about: String,
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct RevisionLine {
    pub(crate) number: String,
    pub(crate) pods: String,
    pub(crate) age: String,
    pub(crate) images: String,
}

impl Shown {
    /// Reads the requested data from the cache. `lost` is the reason for a lost connection.
    #[must_use]
    pub fn read(cluster_cache: &ClusterCache, wants: &Wants, lost: Option<String>, now: Timestamp) -> Self {
        let what = match &wants.place {
            Location::List => {
                let board = cluster_cache.board();
                let all = board.by_attention().into_iter().filter(|(id, card)| card.matches(id, &wants.search));
                What::List(all.map(|(id, card)| (id.clone(), Arc::clone(card))).collect())
            }
            Location::Workload(id) => sheet(cluster_cache, id, now).map_or(What::Missing, |sheet| What::Workload(Box::new(sheet))),
        };
        let unreadable = cluster_cache.unreadable().into_iter().map(|(what, why)| format!("{what}: {why}")).collect();
        Self { is_filled: cluster_cache.is_filled(), unreadable, lost, what }
    }
}

fn sheet(cluster_cache: &ClusterCache, id: &WorkloadId, now: Timestamp) -> Option<Sheet> {
    let (card, chart) = {
        let board = cluster_cache.board();
        let card = board.card(id)?;
        // The heading already shows the title and the sentence.
        let chart = board.past(id)?.chart(String::new(), String::new(), now, card.stage == RolloutStage::Waiting);
        (card, chart)
    };
    let facts = cluster_cache.facts(id, now)?;
    let age = |then: Option<Timestamp>| then.map_or_else(|| "–".to_owned(), |then| ago(then, now));
    let mut pods = facts.pods;
    let counts = rows::counts(&pods);
    rows::sort(&mut pods);
    let pod = |row: &Row| PodLine {
        name: row.pod.meta.name.to_string(),
        state: row.words(),
        is_in_trouble: row.is_in_trouble(),
        revision: row.revision.map_or_else(|| "–".to_owned(), |revision| format!("#{revision}")),
        node: if row.pod.node_name.is_empty() { "–".to_owned() } else { row.pod.node_name.to_string() },
        age: age(row.pod.meta.created),
        restarts: row.pod.restarts.to_string(),
        waits_for: waits_for(cluster_cache, &row.pod, now),
    };
    let event = |note: &Arc<NoteView>| EventLine {
        age: age(note.event.last),
        is_warning: note.is_warning,
        about: note.about.clone(),
        text: format!("{}: {}", note.event.reason, note.event.message),
    };
    let revision = |revision: &Revision| RevisionLine {
        number: format!("#{}", revision.number),
        pods: revision.pods.to_string(),
        age: age(revision.created),
        images: revision.images().join(", "),
    };
    Some(Sheet {
        card,
        chart,
        manner: format!("{}. Created {} ago", facts.manner, age(facts.meta.created)),
        ineffective_setting: facts.ineffective_setting,
        pods_count: pods.len(),
        counts,
        pods: pods.iter().take(PODS_MAX).map(pod).collect(),
        events: cluster_cache.events_about(&facts.about).iter().take(EVENTS_MAX).map(event).collect(),
        revisions: facts.revisions.iter().take(REVISIONS_MAX).map(revision).collect(),
    })
}
