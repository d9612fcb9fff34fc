//! `berth rollout`: as kubectl's command, for any cluster, and why a rollout waits. `berth explain`: why, most important cause first.

mod cluster;
mod diff;
mod edit;
mod error;
pub(crate) mod explain;
pub(crate) mod features;
pub(crate) mod forecaster;
mod history;
pub(crate) mod options;
mod picture;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod replay;
mod report;
mod revision_report;
mod revisions;
mod selector;
mod status;
mod status_json;
mod target;
pub(crate) mod trace_options;
mod undo;
mod usage;
mod watch;
mod watched_workload;

use cluster::Connection;
use error::Error;
use options::{Rollout, Verb};
use std::process::ExitCode;
use target::{Found, Selection};

/// Executes the command.
///
/// # Errors
/// The errors of all workloads, one line each.
pub(crate) fn run(options: &Rollout) -> Result<ExitCode, Box<dyn std::error::Error>> {
    if let Verb::Watch(watch) = &options.verb
        && watch::has_terminal()
    {
        return watch::run(watch, &options.cluster);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(execute(options))?;
    Ok(ExitCode::SUCCESS)
}

async fn execute(options: &Rollout) -> Result<(), Error> {
    match &options.verb {
        Verb::Victims(victims) => return plan::victims(victims, &options.cluster).await,
        Verb::Watch(watching) => return watch::plain(watching, &options.cluster).await,
        _ => (),
    }
    let Some(target) = options.verb.target() else { return Ok(()) };
    let selection = Selection::read(target, &options.cluster).await?;
    let connection = Connection::open(&options.cluster).await?;
    let found = selection.find(&connection, &options.cluster).await?;
    let mut faults = Vec::new();
    for (connection, workload) in &found {
        faults.extend(execute_one(&options.verb, connection, workload).await.err());
    }
    Error::of_all(faults)
}

async fn execute_one(verb: &Verb, connection: &Connection, workload: &Found) -> Result<(), Error> {
    match verb {
        Verb::Status(options) => status::run(options, connection, workload).await,
        Verb::History(options) => history::run(options, connection, workload).await,
        Verb::Diff(options) => diff::run(options, connection, workload).await,
        Verb::Undo(options) => undo::run(options, connection, workload).await,
        Verb::Pause(change) => edit::pause(change, connection, workload).await,
        Verb::Resume(change) => edit::resume(change, connection, workload).await,
        Verb::Restart(change) => edit::restart(change, connection, workload).await,
        Verb::Promote(change) => edit::promote(change, connection, workload).await,
        // Handled above, because they need no workload from the cluster.
        Verb::Victims(_) | Verb::Watch(_) => Ok(()),
    }
}
