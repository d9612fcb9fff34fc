//! `berth rollout status`: prints the progress of a rollout and its waits, line by line, until it is complete.

use super::{
    cluster::Connection,
    error::Error,
    features::{self, Features},
    options::{Status, StatusOutput},
    report,
    selector::selector_text,
    status_json,
    target::Found,
    watched_workload::{Of, Seen, WatchedWorkload},
};
use crate::{
    env::{self, Faults},
    progress::line,
};
use berth_api::Scope;
use berth_controllers::ServedKind;
use berth_identity::RolloutRevision;
use berth_remote::Only;
use berth_rollout::{
    status::{RolloutStage, RolloutStatus},
    waits,
};
use berth_workloads::{
    Wait,
    cause::Cause,
    resources::{CLAIMS, EVENT, EVENTS, NODES, POD, PODS, REPLICA_SET, REPLICA_SETS, REVISIONS, kind_of},
    rollback::Record,
    view::{DaemonSetView, DeploymentView, StatefulSetView},
    workload::WorkloadKind,
};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::time::Duration;
use tokio::runtime::Handle;

/// How many pending changes are processed before the next report.
const BATCH_MAX: usize = 1024;
/// A ReplicaSet that its controller has not observed for less than this is not reported, because each step of a rollout begins so.
const LAG_MIN: SignedDuration = SignedDuration::from_secs(2);

/// The waits that have been printed.
#[derive(Default)]
struct PrintedWaits {
    /// The waits that were printed last. A wait that ends and returns is printed once.
    last: Vec<Wait>,
    /// Since when a ReplicaSet has not been observed by its controller.
    lagging: Option<Timestamp>,
}

impl PrintedWaits {
    /// The new waits.
    fn news(&mut self, waits: &[Wait], now: Timestamp) -> Vec<Wait> {
        let lags = |wait: &&Wait| matches!(wait, Wait::ChildNotObserved { .. });
        self.lagging = waits.iter().any(|wait| lags(&wait)).then(|| self.lagging.unwrap_or(now));
        let has_lagged = self.lagging.is_some_and(|since| LAG_MIN <= now.duration_since(since));
        let lasting: Vec<Wait> = waits.iter().filter(|wait| has_lagged || !lags(wait)).cloned().collect();
        if lasting.is_empty() || waits::same(&self.last, &lasting) {
            return Vec::new();
        }
        self.last.clone_from(&lasting);
        lasting
    }

    /// When a wait becomes reportable although nothing changes.
    fn due(&self) -> Option<Timestamp> {
        self.lagging.map(|since| since + LAG_MIN)
    }
}

/// Reports a rollout until it is complete.
///
/// # Errors
/// It has failed, the timeout has passed, or the cluster cannot be read.
pub(super) async fn run(options: &Status, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let following = follow(options, connection, workload);
    if options.timeout == Duration::ZERO {
        return following.await;
    }
    let over = |_| Err(Error::Rollout(format!("timed out waiting for the condition; {} continues without this command", workload.title())));
    tokio::time::timeout(options.timeout, following).await.unwrap_or_else(over)
}

async fn follow(options: &Status, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let mut watched = WatchedWorkload::new(workload);
    let mut changes = changes(connection, workload)?.ready_chunks(BATCH_MAX);
    let (mut printed, mut printed_waits): (Option<RolloutStatus>, _) = (None, PrintedWaits::default());
    loop {
        let requeue_at = printed.as_ref().and_then(|status| status.requeue_at);
        let lagging = printed_waits.due().filter(|at| Timestamp::now() < *at);
        let requeue_at = requeue_at.into_iter().chain(lagging).min();
        tokio::select! {
            batch = changes.next() => match batch {
                Some(batch) => batch.into_iter().try_for_each(|seen| watched.take(seen))?,
                None => return Ok(()),
            },
            () = until(requeue_at) => (),
        }
        while let Some(feature) = watched.open_feature()? {
            let finding = features::find(connection, &feature).await;
            if options.output.is_none() {
                finding.note(&feature).iter().for_each(|note| line(&format!("  {note}")));
            }
            watched.features.add(finding);
        }
        let Some(status) = watched.read_status(Timestamp::now())? else { continue };
        check_revision(options, workload, &status)?;
        if let Some(record) = overtaken(printed.as_ref(), &status) {
            return Err(Error::Rollout(format!("{}: {record}", workload.title())));
        }
        print(options, connection, workload, &watched.features, printed.as_ref(), &status);
        if options.output.is_none() {
            let news = if options.watch { printed_waits.news(&status.waits, Timestamp::now()) } else { status.waits.clone() };
            news.iter().for_each(|wait| line(&format!("  {wait}")));
        }
        match status.progress.state {
            RolloutStage::Failed => {
                let hint = hint(&status, workload);
                return Err(Error::Rollout(format!("{}{}", status.progress.message, hint.unwrap_or_default())));
            }
            RolloutStage::Complete => return Ok(()),
            RolloutStage::Waiting if !options.watch => return Ok(()),
            RolloutStage::Waiting => printed = Some(status),
        }
    }
}

/// The automatic rollback that replaced the followed rollout, which has failed, whatever the outcome of the new one.
fn overtaken<'l>(before: Option<&RolloutStatus>, status: &'l RolloutStatus) -> Option<&'l Record> {
    status.rollback.as_ref().filter(|record| before.is_some_and(|before| before.rollback.as_ref() != Some(record)))
}

/// What happens after a failed rollout. Before the second revision, no rollback is possible.
fn hint(status: &RolloutStatus, workload: &Found) -> Option<String> {
    match (status.goes_back_to, &status.rollback, status.revision) {
        (Some(revision), _, _) => Some(format!("; it rolls back to revision {revision} automatically")),
        (None, Some(_), _) => Some("; it is the result of a rollback, and berth does not roll back again".to_owned()),
        (None, None, Some(revision)) if revision > RolloutRevision::FIRST => {
            Some(format!("; `berth rollout undo {}` rolls it back", workload.arguments()))
        }
        (None, None, _) => None,
    }
}

/// Resolves at this time. Never resolves if there is none.
async fn until(time: Option<Timestamp>) {
    match time {
        Some(time) => tokio::time::sleep(time.duration_since(Timestamp::now()).try_into().unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}

/// Watches the workload, and of all objects for a report those that it selects.
fn changes(connection: &Connection, workload: &Found) -> Result<stream::BoxStream<'static, Seen>, Error> {
    let selected = selector_text(workload, selector(workload)?.as_ref())?;
    let env = env::real(Handle::current(), Faults::new());
    let watch = |of: &Of| {
        let of = *of;
        let (resource, kind) = match of {
            Of::Workload => (workload.kind.resource(), workload.kind.gvk()),
            Of::Sets => (REPLICA_SETS, REPLICA_SET),
            Of::Revisions => (REVISIONS, kind_of(&REVISIONS)),
            Of::Claims => (CLAIMS, kind_of(&CLAIMS)),
            Of::Pods => (PODS, POD),
            Of::Nodes => (NODES, kind_of(&NODES)),
            Of::Events => (EVENTS, EVENT),
        };
        let scope = if of == Of::Nodes { Scope::Cluster } else { Scope::Namespaced };
        let namespace = (scope == Scope::Namespaced).then(|| connection.namespace().into());
        let served = ServedKind { resource, kind, scope };
        let only = Only { namespace, ..which(of, workload, &selected) };
        connection.watch(served, only, &env).map(move |seen| (of, seen)).boxed()
    };
    Ok(stream::select_all(Of::all(workload.kind).iter().map(watch)).boxed())
}

/// The objects of the namespace that are watched. Sets, revisions and claims are matched by name and owner, whatever their labels. Other
/// owners' objects show that a name is taken, or that a pod's set still exists, and claims that a user created may lack the workload's
/// labels. The same holds for pods of a StatefulSet. Names of other workloads' pods are not sufficient.
fn which(of: Of, workload: &Found, selected: &str) -> Only {
    let fields = |fields: String| Only { fields: Some(fields), ..Only::default() };
    match (of, workload.kind) {
        (Of::Workload, _) => fields(format!("metadata.name={}", workload.name)),
        (Of::Sets | Of::Revisions | Of::Claims | Of::Nodes, _) | (Of::Pods, WorkloadKind::StatefulSet) => Only::default(),
        (Of::Pods, WorkloadKind::Deployment | WorkloadKind::DaemonSet) => Only { labels: Some(selected.to_owned()), ..Only::default() },
        (Of::Events, _) => fields("type=Warning".to_owned()),
    }
}

fn selector(workload: &Found) -> Result<Option<LabelSelector>, Error> {
    Ok(match workload.kind {
        WorkloadKind::Deployment => workload.view::<DeploymentView>()?.spec.selector.clone(),
        WorkloadKind::StatefulSet => workload.view::<StatefulSetView>()?.spec.selector.clone(),
        WorkloadKind::DaemonSet => Some(workload.view::<DaemonSetView>()?.spec.selector.clone()),
    })
}

fn check_revision(options: &Status, workload: &Found, status: &RolloutStatus) -> Result<(), Error> {
    match status.revision {
        _ if options.revision == RolloutRevision::UNSET => Ok(()),
        Some(running) if running == options.revision => Ok(()),
        Some(running) => {
            let wanted = options.revision;
            Err(Error::Rollout(format!("desired revision ({wanted}) is different from the running revision ({running})")))
        }
        None => Err(workload.fault("has no revision number: its controller has not observed it yet, or you may not read its revisions")),
    }
}

/// Prints what has changed since the last report. In lines, waits are left out.
fn print(
    options: &Status,
    connection: &Connection,
    workload: &Found,
    features: &Features,
    before: Option<&RolloutStatus>,
    status: &RolloutStatus,
) {
    let is_new = before.is_none_or(|before| before.progress != status.progress);
    if options.output == Some(StatusOutput::Json) {
        let has_new_waits = before.map_or(!status.waits.is_empty(), |before| !waits::same(&before.waits, &status.waits));
        let (causes, pods) = before.map_or((&[] as &[_], &[] as &[_]), |before| (&*before.causes, &*before.unready_pods));
        let has_news = has_new_waits || causes != status.causes || pods != status.unready_pods;
        if is_new || has_news || before.is_some_and(|before| before.replicas != status.replicas) {
            line(&report::json(&status_json::report(connection.namespace(), workload, features.findings(), status)));
        }
        return;
    }
    if is_new && status.progress.state != RolloutStage::Failed {
        line(&status.progress.message);
    }
    if let Some(rollback) = status.rollback.as_ref().filter(|_| before.is_none_or(|before| before.rollback != status.rollback)) {
        line(&format!("  {rollback}"));
    }
    if before.map_or(!status.causes.is_empty(), |before| !same_causes(&before.causes, &status.causes)) {
        let (first, rest) = status.causes.split_at(status.causes.len().min(1));
        first.iter().for_each(|cause| line(&format!("  {cause}")));
        rest.iter().for_each(|cause| line(&format!("  also: {cause}")));
    }
}

/// Whether the causes are the same for users. Figures in texts and numbers of pods change all the time.
fn same_causes(before: &[Cause], now: &[Cause]) -> bool {
    let outline = |cause: &Cause| (cause.kind, cause.pods.min(2), cause.about.kind);
    before.iter().map(outline).eq(now.iter().map(outline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_comes_and_goes_is_printed_once_and_a_moment_of_lag_is_not() {
        let at = |millis| Timestamp::UNIX_EPOCH + SignedDuration::from_millis(millis);
        let (lag, pods) = (Wait::ChildNotObserved { name: "web-1".to_owned() }, Wait::MinReady { pods: 2, seconds: 5 });
        let mut printed = PrintedWaits::default();
        let mut check = |waits: &[&Wait], millis, wanted: &[&Wait]| {
            let waits: Vec<Wait> = waits.iter().map(|wait| (*wait).clone()).collect();
            assert_eq!(printed.news(&waits, at(millis)).iter().collect::<Vec<_>>(), wanted, "at {millis} ms");
        };
        check(&[&lag], 0, &[]);
        check(&[&pods], 100, &[&pods]);
        check(&[&lag, &pods], 200, &[]);
        check(&[], 300, &[]);
        check(&[&pods], 400, &[]);
        check(&[&lag], 1000, &[]);
        check(&[&lag], 3000, &[&lag]);
    }

    #[test]
    fn what_the_controllers_know_by_name_or_owner_is_seen_whatever_its_labels() {
        let workload = |kind| Found { kind, name: "web".to_owned(), json: String::new() };
        let labels = |of, kind| which(of, &workload(kind), "app=web").labels;
        for kind in WorkloadKind::ALL {
            assert_eq!([Of::Sets, Of::Revisions, Of::Claims].map(|of| labels(of, kind)), [None, None, None]);
            assert_eq!(which(Of::Workload, &workload(kind), "app=web").fields.as_deref(), Some("metadata.name=web"));
        }
        assert_eq!(labels(Of::Pods, WorkloadKind::Deployment).as_deref(), Some("app=web"));
        assert_eq!(labels(Of::Pods, WorkloadKind::DaemonSet).as_deref(), Some("app=web"));
        assert_eq!(labels(Of::Pods, WorkloadKind::StatefulSet), None, "their names tell whose they are");
    }
}
