//! `berth record`: what happens to a cluster's workloads, into a file. What of it is kept is `berth-trace`'s.

use super::{
    cluster::{Connection, served},
    error::Error,
    trace_options::RecordOptions,
};
use crate::{
    env::{self, Faults},
    progress::{self, warn},
    signals::Signals,
};
use berth_api::Scope;
use berth_controllers::Change;
use berth_identity::{ApiName, GroupVersionKind, GroupVersionResource};
use berth_plan::Snapshot;
use berth_remote::{Only, WatchError};
use berth_store::env::Env;
use berth_trace::{Ended, Frames, Header, KEY_BYTES, KINDS, Naming, Recorder, TracedKind};
use futures::{
    Stream, StreamExt,
    stream::{SelectAll, select_all, unfold},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    pin::Pin,
    time::Duration,
};
use tokio::{
    runtime::Handle,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until},
};

/// What is seen is in the file after so long at the latest.
const FLUSH_EVERY: Duration = Duration::from_secs(2);
/// A watch that breaks was quiet for no longer than this before: servers end each within minutes.
const QUIET_MAX: Duration = Duration::from_secs(300);
/// How long after a watch broke it is begun anew: twice as long each time, from this to that.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// How many objects of a kind are looked at to find out whose controllers there are.
const LOOKED_AT: u32 = 50;
/// What is read first: it says which labels of nodes and pods count.
const LAST: [&str; 2] = ["nodes", "pods"];

/// What a watch says.
type WatchResult = Result<Change, WatchError>;
type Watches<'a> = SelectAll<Pin<Box<dyn Stream<Item = (&'static TracedKind, WatchResult)> + Send + 'a>>>;

/// Records until somebody ends it.
///
/// # Errors
/// The cluster cannot be read, or the file not be written.
pub(crate) fn run(options: &RecordOptions) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(record(options))
}

async fn record(options: &RecordOptions) -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::open(&options.cluster).await?;
    let namespace = options.cluster.namespace.as_deref();
    let (kinds, missing) = readable(&connection, namespace).await?;
    let (controllers, because) = whose(&connection, namespace).await?;
    let env = env::real(Handle::current(), Faults::new());
    let signals = Signals::take()?;
    let file = create(&options.output)?;
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key)?;
    let naming = if options.hash_names { Naming::Hashed } else { Naming::Plain };
    let began = Timestamp::now();
    let recorder = Recorder::new(naming, &key, began);
    let header = Header {
        at: began,
        controllers,
        because,
        is_hashed: options.hash_names,
        namespace: namespace.map(|namespace| recorder.named(namespace)),
        missing: missing.iter().map(|kind| kind.plural.to_owned()).collect(),
    };
    let failed = |error: io::Error| format!("cannot write {}: {error}", options.output.display());
    let mut frames = Frames::new(file, options.max_size);
    frames.line(&header.line()).and_then(|()| frames.flush()).map_err(failed)?;
    for kind in &missing {
        warn(&format!("PARTIAL: you may not read {}; the recording omits them", kind.plural));
    }
    let mut recording = Recording { recorder, frames, lost: BTreeMap::new(), seen: BTreeMap::new(), is_listed: false, lines: 1 };
    let of = namespace.map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
    let begun = format!("Recording {of} into {}. It contains everything that exists now. Ctrl-C ends it.", options.output.display());
    let how = recording.run((&connection, &env), namespace, &kinds, (options.lasts, &signals), &begun).await.map_err(failed)?;
    recording.close().map_err(failed)?;
    let Recording { mut recorder, frames, lines, is_listed, .. } = recording;
    let last = recorder.ended(how, Timestamp::now());
    let written = frames.finish(&last).and_then(|file| file.sync_all().and_then(|()| file.metadata())).map_err(failed)?.len();
    let why = match how {
        Ended::Stopped => "",
        Ended::Time => " The time of --for is over.",
        Ended::Size => " It reached --max-size.",
    };
    if !is_listed {
        let shown = options.output.display();
        return Err(format!("{shown} cannot be replayed: the recording ended before it contained all existing objects.{why}").into());
    }
    progress::line(&format!("{}: {} lines in {written} bytes.{why}", options.output.display(), lines + 1));
    Ok(())
}

/// A new file that its owner alone can read.
fn create(path: &Path) -> Result<File, String> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{} already exists; choose another file", path.display()),
        _ => format!("cannot write {}: {error}", path.display()),
    })
}

fn resource(kind: &'static TracedKind) -> GroupVersionResource {
    GroupVersionKind::as_written(kind.api_version, kind.kind).group_version().with_resource(ApiName::from_static(kind.plural))
}

/// Which kinds may be read, and which may not.
async fn readable(connection: &Connection, namespace: Option<&str>) -> Result<(Vec<&'static TracedKind>, Vec<&'static TracedKind>), Error> {
    let (mut may, mut may_not) = (Vec::new(), Vec::new());
    for kind in KINDS {
        match connection.some(&resource(kind), namespace.filter(|_| kind.is_namespaced), 1).await {
            Ok(_) => may.push(kind),
            Err(Error::Refused { .. }) if !kind.is_needed => may_not.push(kind),
            Err(error) => return Err(error),
        }
    }
    Ok((may, may_not))
}

/// Whose controllers the cluster seems to have, and by what that is found.
async fn whose(connection: &Connection, namespace: Option<&str>) -> Result<(String, String), Error> {
    let mut objects = Vec::new();
    for kind in KINDS.iter().filter(|kind| ["Deployment", "ReplicaSet", "StatefulSet", "Node"].contains(&kind.kind)) {
        let found = connection.some(&resource(kind), namespace.filter(|_| kind.is_namespaced), LOOKED_AT).await;
        for item in found.unwrap_or_default() {
            if let Ok(mut object) = serde_json::from_str::<Value>(&item.json) {
                (object["apiVersion"], object["kind"]) = (json!(kind.api_version), json!(kind.kind));
                objects.push(object);
            }
        }
    }
    let (controllers, because) = Snapshot::of_documents(objects).controllers();
    Ok((controllers.name().to_owned(), because))
}

struct Recording {
    recorder: Recorder,
    frames: Frames<File>,
    /// Whose watches are broken, by plural, and since when.
    lost: BTreeMap<&'static str, (&'static TracedKind, Timestamp)>,
    /// When the watch of a kind said something last.
    seen: BTreeMap<&'static str, Timestamp>,
    /// All that there was at the beginning is told.
    is_listed: bool,
    lines: u64,
}

impl Recording {
    async fn run(
        &mut self,
        (connection, env): (&Connection, &Env),
        namespace: Option<&str>,
        kinds: &[&'static TracedKind],
        (lasts, signals): (Option<Duration>, &Signals),
        begun: &str,
    ) -> io::Result<Ended> {
        let watch = |kind: &&'static TracedKind| {
            let kind = *kind;
            let scope = namespace.filter(|_| kind.is_namespaced);
            let begin = move || {
                let only = Only { namespace: scope.map(Into::into), ..Only::default() };
                let scope = if kind.is_namespaced { Scope::Namespaced } else { Scope::Cluster };
                connection.watch(served(GroupVersionKind::as_written(kind.api_version, kind.kind), kind.plural, scope), only, env)
            };
            lasting(begin).map(move |said| (kind, said)).boxed()
        };
        let (last, first): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| LAST.contains(&kind.plural));
        let mut watches: Watches<'_> = select_all(first.iter().map(&watch));
        let mut awaited: BTreeSet<&'static str> = first.iter().map(|kind| kind.plural).collect();
        let mut then = last;
        let mut flushes = interval(FLUSH_EVERY);
        flushes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ends = lasts.map(|lasts| Instant::now() + lasts);
        loop {
            tokio::select! {
                biased;
                _ = signals.beyond(0) => return Ok(Ended::Stopped),
                () = sleep_until(ends.unwrap_or_else(Instant::now)), if ends.is_some() => return Ok(Ended::Time),
                _ = flushes.tick() => {
                    self.frames.flush()?;
                    self.frames.get_ref().sync_data()?;
                }
                event = watches.next() => {
                    let Some((kind, event)) = event else { return Ok(Ended::Stopped) };
                    if self.take(kind, event) {
                        awaited.remove(kind.plural);
                    }
                    if awaited.is_empty() && !self.is_listed {
                        if then.is_empty() {
                            self.is_listed = true;
                            self.recorder.listed(Timestamp::now());
                            self.write()?;
                            self.frames.flush()?;
                            progress::line(begun);
                        }
                        for kind in std::mem::take(&mut then) {
                            awaited.insert(kind.plural);
                            watches.push(watch(&kind));
                        }
                    }
                    self.write()?;
                }
            }
            if self.frames.is_full() {
                return Ok(Ended::Size);
            }
        }
    }

    /// What a watch that is still broken would have told is missed as well.
    fn close(&mut self) -> io::Result<()> {
        let now = Timestamp::now();
        let lost = std::mem::take(&mut self.lost);
        for (kind, since) in lost.values() {
            self.recorder.gap(kind, *since, now);
        }
        if !lost.is_empty() {
            let plurals: Vec<&str> = lost.into_keys().collect();
            warn(&format!(
                "the watches of {} were interrupted until the end; the recording contains the start of the gap",
                plurals.join(", ")
            ));
        }
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        for line in self.recorder.take_lines() {
            self.lines += 1;
            self.frames.line(&line)?;
        }
        Ok(())
    }

    /// Takes in what a watch says; gives whether its list is whole now.
    fn take(&mut self, kind: &'static TracedKind, result: WatchResult) -> bool {
        let now = Timestamp::now();
        let change = match result {
            Ok(change) => change,
            Err(error) => {
                let seen = self.seen.get(kind.plural).copied().unwrap_or(now);
                if self.lost.is_empty() {
                    warn(&format!("the watch of {} was interrupted; berth resumes it as soon as possible: {}", kind.plural, error));
                }
                if !self.lost.contains_key(kind.plural) {
                    self.lost.insert(kind.plural, (kind, seen.max(now - QUIET_MAX)));
                }
                return false;
            }
        };
        // All is listed anew; only at the end is it sure that nothing more is missed.
        if matches!(change, Change::Synced(_))
            && let Some((_, since)) = self.lost.remove(kind.plural)
        {
            self.recorder.gap(kind, since, now);
            if self.lost.is_empty() {
                warn("all watches have resumed; the recording contains the gaps");
            }
        }
        self.seen.insert(kind.plural, now);
        match change {
            Change::Restarted => self.recorder.list_begins(kind),
            Change::Synced(_) => {
                self.recorder.list_ends(kind, now);
                return true;
            }
            Change::Applied { object, .. } => {
                if let Ok(object) = serde_json::from_slice(&object.json) {
                    self.recorder.put(kind, &object, now);
                }
            }
            Change::Deleted { key, .. } => self.recorder.gone(kind, &key.namespace, &key.name, now),
            Change::Progress(_) => (),
        }
        false
    }
}

/// A watch that begins anew where it breaks, with a list: one that goes on where it was says nothing of it until something happens.
fn lasting<'a, S: Stream<Item = WatchResult> + Send + Unpin + 'a>(
    begin: impl Fn() -> S + Send + 'a,
) -> impl Stream<Item = WatchResult> + Send + 'a {
    let (first, last) = AGAIN_AFTER;
    let watch = begin();
    unfold((begin, Some(watch), first), move |(begin, watch, again_after)| async move {
        let mut watch = match watch {
            Some(watch) => watch,
            None => {
                sleep(again_after).await;
                begin()
            }
        };
        Some(match watch.next().await? {
            Ok(Change::Synced(revision)) => (Ok(Change::Synced(revision)), (begin, Some(watch), first)),
            Ok(change) => (Ok(change), (begin, Some(watch), again_after)),
            Err(error) => (Err(error), (begin, None, (again_after * 2).min(last))),
        })
    })
}
