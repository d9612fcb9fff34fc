//! `berth record`: records the changes of a cluster's workloads in a file. `berth-trace` determines the recorded fields.

use super::{
    cluster::{Connection, served},
    error::Error,
    trace_options::RecordOptions,
    usage,
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
use berth_trace::{Ended, Frames, Header, KEY_BYTES, KINDS, Measured, Naming, Recorder, TracedKind};
use futures::{
    FutureExt, Stream, StreamExt,
    future::{BoxFuture, Fuse, FusedFuture},
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

/// The maximum delay until an observation is in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(2);
/// The maximum length of a gap before the interruption of a watch is detected: servers end each watch within minutes.
const QUIET_MAX: Duration = Duration::from_secs(300);
/// The delay until an interrupted watch restarts, which doubles from the first to the second value.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// The interval of samples of usage: that of metrics-server and of autoscalers.
const MEASURE_EVERY: Duration = Duration::from_secs(15);
/// How many objects of a kind are read to detect the kind of the controllers.
const LOOKED_AT: u32 = 50;
/// The kinds whose lists are read last: the other objects determine which of their labels are recorded.
const LAST: [&str; 2] = ["nodes", "pods"];

/// An item of a watch.
type WatchResult = Result<Change, WatchError>;
/// A request for the usage of pods.
type Measuring<'a> = Fuse<BoxFuture<'a, Result<Vec<Value>, Error>>>;
type Watches<'a> = SelectAll<Pin<Box<dyn Stream<Item = (&'static TracedKind, WatchResult)> + Send + 'a>>>;

/// Records until the user interrupts it.
///
/// # Errors
/// The cluster cannot be read, or the file cannot be written.
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
    let mut recording = Recording {
        recorder,
        frames,
        lost: BTreeMap::new(),
        seen: BTreeMap::new(),
        measured: if options.all_usage { Measured::All } else { Measured::Autoscaled },
        lacks_usage: false,
        is_listed: false,
        lines: 1,
    };
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

/// Creates a file that only its owner can read.
fn create(path: &Path) -> Result<File, String> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{} already exists; choose another file", path.display()),
        _ => format!("cannot write {}: {error}", path.display()),
    })
}

fn resource(kind: &'static TracedKind) -> GroupVersionResource {
    GroupVersionKind::as_written(kind.api_version, kind.kind).group_version().with_resource(ApiName::from_static(kind.plural))
}

/// The kinds that can be read, and those that cannot.
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

/// The probable kind of the cluster's controllers, and the evidence for it.
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
    /// The interrupted watches by plural, and since when.
    lost: BTreeMap<&'static str, (&'static TracedKind, Timestamp)>,
    /// The last activity of each kind's watch.
    seen: BTreeMap<&'static str, Timestamp>,
    /// The workloads whose usage is recorded.
    measured: Measured,
    /// Whether the user knows that usage cannot be read.
    lacks_usage: bool,
    /// Whether the initial lists are complete.
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
        let mut measures = interval(MEASURE_EVERY);
        measures.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut measuring: Measuring<'_> = Fuse::terminated();
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
                _ = measures.tick(), if self.is_listed && measuring.is_terminated() => {
                    if self.recorder.has_measured(self.measured) {
                        measuring = usage::of_pods(connection, namespace).boxed().fuse();
                    }
                }
                found = &mut measuring => {
                    self.measure(found);
                    self.write()?;
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

    /// Records the gaps of watches that are still interrupted.
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

    /// Records the usage of pods. Without a metrics server, the recording has none.
    fn measure(&mut self, found: Result<Vec<Value>, Error>) {
        match found {
            Ok(items) => self.recorder.usage(&items, self.measured, Timestamp::now()),
            Err(_) if self.lacks_usage => (),
            Err(error) => {
                self.lacks_usage = true;
                let why = progress::chain(&error);
                warn(&format!("PARTIAL: the usage of pods cannot be read; the recording omits it until berth can read it: {why}"));
            }
        }
    }

    /// Processes an item of a watch. Returns whether its list is complete now.
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
        // A new list follows an interruption, and only at its end is it certain that the gap is over.
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

/// A watch that restarts after an interruption with a list. A watch that resumes would not report this before its next event.
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
