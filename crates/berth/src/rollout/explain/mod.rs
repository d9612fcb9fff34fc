//! `berth explain`: why a workload or a pod is not in its desired state. The texts about each cause are in `berth-workloads` (`cause/`).

mod facts;
mod read;
mod show;
mod state;

use super::{cluster::Connection, error::Error, options::ExplainOptions, target};
use crate::progress::chain;
use berth_workloads::{
    cause::{Obstacle, ToDo},
    view::ReplicaKind,
    workload::WorkloadKind,
};
use jiff::Timestamp;

/// Explains the resources on the command line, one after the other.
///
/// # Errors
/// The errors of all resources, one line each.
pub(crate) fn run(options: &ExplainOptions) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(explain(options))?)
}

async fn explain(options: &ExplainOptions) -> Result<(), Error> {
    if let Some(file) = &options.from_state {
        return state::print_plan(file, options.output);
    }
    let subjects = subjects(&options.resources)?;
    if options.state.is_some() && !matches!(subjects[..], [Subject { kind: Kind::Rolled(_) | Kind::Job, .. }]) {
        return Err(Error::Usage("--state requires one Deployment, StatefulSet, DaemonSet or Job, such as deployment/web".to_owned()));
    }
    if options.cluster.all_namespaces {
        return Err(Error::Usage("a resource cannot be retrieved by name across all namespaces".to_owned()));
    }
    let connection = Connection::open(&options.cluster).await?;
    let mut faults = Vec::new();
    for subject in &subjects {
        match read::explanation(&connection, subject, options.state.is_some(), Timestamp::now()).await {
            Ok(explanation) => {
                show::print(&explanation, options.output);
                if let Some(file) = &options.state {
                    let unreadable = || format!("--state: you may not read everything that the plan for {} requires", subject.name);
                    let input = explanation.input.ok_or_else(|| Error::Usage(unreadable()))?;
                    state::write(file, *input)?;
                }
            }
            Err(error) => faults.push(error),
        }
    }
    match faults.pop() {
        None => Ok(()),
        Some(only) if faults.is_empty() => Err(only),
        Some(last) => Err(Error::Several(faults.iter().chain([&last]).map(|fault| chain(fault)).collect())),
    }
}

/// A kind that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rolled(WorkloadKind),
    CronJob,
    Job,
    Replicas(ReplicaKind),
    Pod,
}

impl Kind {
    fn parse(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "replicaset" | "replicasets" | "rs" | "replicaset.apps" | "replicasets.apps" => Ok(Self::Replicas(ReplicaKind::ReplicaSet)),
            "replicationcontroller" | "replicationcontrollers" | "rc" => Ok(Self::Replicas(ReplicaKind::ReplicationController)),
            "cronjob" | "cronjobs" | "cj" | "cronjob.batch" | "cronjobs.batch" => Ok(Self::CronJob),
            "job" | "jobs" | "job.batch" | "jobs.batch" => Ok(Self::Job),
            "pod" | "pods" | "po" => Ok(Self::Pod),
            _ => target::parse_kind(text).map(Self::Rolled).map_err(|_| {
                let known = "deployment, statefulset, daemonset, job, cronjob, replicaset, replicationcontroller or pod";
                Error::Usage(format!("berth cannot explain the type {text}; write {known}"))
            }),
        }
    }
}

/// One resource, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subject {
    kind: Kind,
    name: String,
}

fn subjects(resources: &[String]) -> Result<Vec<Subject>, Error> {
    let subject = |kind: &str, name: &str| match name.is_empty() || name.contains('/') {
        true => Err(Error::Usage(format!("{kind:?} requires a name: write TYPE/NAME, such as deployment/web"))),
        false => Ok(Subject { kind: Kind::parse(kind)?, name: name.to_owned() }),
    };
    if resources.iter().any(|text| text.contains('/')) {
        return resources
            .iter()
            .map(|text| text.split_once('/').map_or_else(|| subject(text, ""), |(kind, name)| subject(kind, name)))
            .collect();
    }
    let (kind, names) = resources.split_first().ok_or_else(|| Error::Usage("write TYPE/NAME".to_owned()))?;
    match names {
        [] => subject(kind, "").map(|subject| vec![subject]),
        names => names.iter().map(|name| subject(kind, name)).collect(),
    }
}

/// The explanation of one resource.
#[derive(Debug)]
struct Explanation {
    /// `Deployment`.
    kind: &'static str,
    namespace: String,
    name: String,
    /// `Waiting`, `Complete` or `Failed`.
    state: &'static str,
    /// Its state as a sentence.
    message: String,
    /// The obstacles, by rank.
    obstacles: Vec<Obstacle>,
    evidence: Vec<Evidence>,
    next: Vec<Next>,
    to_do: Vec<ToDo>,
    /// Notes about assumed features, or about the owner of the object.
    notes: Vec<String>,
    /// What could not be read, with the server's message.
    unread: Vec<String>,
    /// When everything was read.
    at: Timestamp,
    /// The planner's input, if the command saves it.
    input: Option<Box<state::WorkloadState>>,
}

/// A message or figure from the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Evidence {
    /// `claim`, `condition`, `container`, `event`, `nodes` or `quota`.
    source: &'static str,
    /// Its object: `pod/web-1`.
    object: String,
    /// The unchanged text.
    text: String,
    at: Option<Timestamp>,
}

/// A future event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Next {
    text: String,
    at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Subject>, String> {
        subjects(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    #[test]
    fn workloads_and_pods_are_named_as_in_kubectl() {
        let subject = |kind, name: &str| Subject { kind, name: name.to_owned() };
        let web = || subject(Kind::Rolled(WorkloadKind::Deployment), "web");
        assert_eq!(parse("deployment/web"), Ok(vec![web()]));
        assert_eq!(parse("deploy web shop"), Ok(vec![web(), subject(Kind::Rolled(WorkloadKind::Deployment), "shop")]));
        let replicas = |kind, name: &str| subject(Kind::Replicas(kind), name);
        let both = vec![replicas(ReplicaKind::ReplicaSet, "web-1"), subject(Kind::Pod, "web-1-a")];
        assert_eq!(parse("rs/web-1 po/web-1-a"), Ok(both));
        let others = vec![
            subject(Kind::Rolled(WorkloadKind::DaemonSet), "agent"),
            subject(Kind::Job, "migrate"),
            replicas(ReplicaKind::ReplicationController, "old"),
        ];
        assert_eq!(parse("ds/agent job.batch/migrate rc/old"), Ok(others));
        assert_eq!(parse("cj/backup"), Ok(vec![subject(Kind::CronJob, "backup")]));
        for (text, says) in [
            ("service/web", "berth cannot explain the type service"),
            ("deployment", "write TYPE/NAME"),
            ("deployment/web shop", "write TYPE/NAME"),
            ("pod/", "write TYPE/NAME"),
            ("pod/a/b", "write TYPE/NAME"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(says), "{error}");
        }
    }
}
