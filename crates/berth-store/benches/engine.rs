//! What to keep the embedded store's objects in: durable small writes, recovery and size on disk, for the store's own log (with the store around
//! it, which keeps everything in memory), fjall and redb.
//!
//! `cargo bench -p berth-store --features embedded -- [objects] [folder]` (default 200000, the system's temporary folder).
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and may stop at the first error")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time and real files")]

use berth_store::{
    DEFAULT_HISTORY_BYTES, Expected, Folder, Header, Key, Layout, Limits, MemoryStore, Purpose, RangeRequest, Store, Write as StoreWrite,
};
use futures::FutureExt;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Writers that each wait for their write before the next, as connections of an API server do.
const WRITERS: usize = 64;
/// How long each figure of writes per second is measured.
const MEASURE: Duration = Duration::from_secs(5);
/// Objects of one commit while filling.
const FILL_BATCH: usize = 128;
const VALUE_BYTES: usize = 1024;
/// What the engine may keep of what the store holds in memory anyway.
const CACHE_BYTES: usize = 4 << 20;

type Record = (Vec<u8>, Vec<u8>);

/// What the store needs of an engine.
trait Engine: Send + Sized + 'static {
    const NAME: &str;
    fn open(folder: &Path) -> Self;
    /// Writes all or nothing; durable when it returns.
    fn commit(&mut self, batch: Vec<Record>);
    /// Reads every record; gives count and bytes.
    fn scan(&self) -> (usize, usize);
}

struct OwnLog(MemoryStore);

struct NoHeaders;

impl Layout for NoHeaders {
    fn resource_prefix<'t>(&self, _: &'t str) -> Option<&'t str> {
        None
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

impl Engine for OwnLog {
    const NAME: &str = "log";

    fn open(folder: &Path) -> Self {
        let files = Arc::new(Folder::take(folder).unwrap());
        Self(MemoryStore::open(files, Limits::default(), Arc::new(NoHeaders), DEFAULT_HISTORY_BYTES).unwrap())
    }

    fn commit(&mut self, batch: Vec<Record>) {
        let key = |key| Key::new(&String::from_utf8(key).unwrap());
        let writes =
            batch.into_iter().map(|(name, value)| StoreWrite::put(key(name), value.into(), Expected::Absent, Purpose::Growth)).collect();
        self.0.commit(writes).now_or_never().unwrap().unwrap();
    }

    fn scan(&self) -> (usize, usize) {
        let range = self.0.range(RangeRequest::all("")).now_or_never().unwrap().unwrap();
        range.entries.iter().fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.key.as_str().len() + entry.value.len()))
    }
}

struct Fjall {
    database: fjall::Database,
    keyspace: fjall::Keyspace,
}

impl Engine for Fjall {
    const NAME: &str = "fjall";

    fn open(folder: &Path) -> Self {
        let database =
            fjall::Database::builder(folder).cache_size(CACHE_BYTES as u64).worker_threads(1).max_journaling_size(64 << 20).open().unwrap();
        let options = || fjall::KeyspaceCreateOptions::default().max_memtable_size(8 << 20);
        let keyspace = database.keyspace("objects", options).unwrap();
        Self { database, keyspace }
    }

    fn commit(&mut self, batch: Vec<Record>) {
        let mut write = self.database.batch().durability(Some(fjall::PersistMode::SyncData));
        for (key, value) in batch {
            write.insert(&self.keyspace, key, value);
        }
        write.commit().unwrap();
    }

    fn scan(&self) -> (usize, usize) {
        self.keyspace.iter().fold((0, 0), |(count, bytes), guard| {
            let (key, value) = guard.into_inner().unwrap();
            (count + 1, bytes + key.len() + value.len())
        })
    }
}

const TABLE: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("objects");

struct Redb(redb::Database);

impl Engine for Redb {
    const NAME: &str = "redb";

    fn open(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        Self(redb::Database::builder().set_cache_size(CACHE_BYTES).create(folder.join("objects.redb")).unwrap())
    }

    fn commit(&mut self, batch: Vec<Record>) {
        let write = self.0.begin_write().unwrap();
        let mut table = write.open_table(TABLE).unwrap();
        for (key, value) in batch {
            table.insert(&*key, &*value).unwrap();
        }
        drop(table);
        write.commit().unwrap();
    }

    fn scan(&self) -> (usize, usize) {
        use redb::{ReadableDatabase, ReadableTable};
        let table = self.0.begin_read().unwrap().open_table(TABLE).unwrap();
        table.iter().unwrap().fold((0, 0), |(count, bytes), record| {
            let (key, value) = record.unwrap();
            (count + 1, bytes + key.value().len() + value.value().len())
        })
    }
}

fn main() {
    // Cargo passes `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [FILL, engine, objects, folder] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        match *engine {
            OwnLog::NAME => fill_and_wait::<OwnLog>(Path::new(folder), objects.parse().unwrap()),
            Fjall::NAME => fill_and_wait::<Fjall>(Path::new(folder), objects.parse().unwrap()),
            _ => fill_and_wait::<Redb>(Path::new(folder), objects.parse().unwrap()),
        }
    }
    let objects = arguments.first().map_or(200_000, |count| count.parse().unwrap());
    let parent = arguments.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("berth-engine-{}", std::process::id()));
    measure::<OwnLog>(&folder.join(OwnLog::NAME), objects);
    measure::<Fjall>(&folder.join(Fjall::NAME), objects);
    measure::<Redb>(&folder.join(Redb::NAME), objects);
    fs::remove_dir_all(&folder).unwrap();
}

fn measure<E: Engine>(folder: &Path, objects: usize) {
    let mut engine = E::open(folder);
    println!("{}: single writer, one record a commit: {}/s", E::NAME, commits_of(&mut engine, 1));
    println!("{}: single writer, {WRITERS} records a commit: {}/s", E::NAME, commits_of(&mut engine, WRITERS));
    drop(group_commits(engine));
    fs::remove_dir_all(folder).unwrap();

    fill_and_kill::<E>(folder, objects);
    println!("{}: {objects} objects of {VALUE_BYTES} bytes take {} MiB on disk", E::NAME, size_of(folder) >> 20);
    recover::<E>(folder, "kill -9");
    recover::<E>(folder, "closing");
    fs::remove_dir_all(folder).unwrap();
}

/// The first argument of a process that is to be killed.
const FILL: &str = "fill";

/// Lets another process fill the folder, and kills it.
fn fill_and_kill<E: Engine>(folder: &Path, objects: usize) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([FILL, E::NAME, &objects.to_string()]).arg(folder).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    print!("{said}");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn fill_and_wait<E: Engine>(folder: &Path, objects: usize) -> ! {
    let _engine = fill(E::open(folder), objects);
    loop {
        thread::park();
    }
}

fn recover<E: Engine>(folder: &Path, after: &str) {
    let started = Instant::now();
    let engine = E::open(folder);
    let opened = started.elapsed();
    let (count, bytes) = engine.scan();
    println!("{}: recovered {count} records, {} MiB, after {after} in {:?} (opening {opened:?})", E::NAME, bytes >> 20, started.elapsed());
}

/// Records a second.
fn commits_of<E: Engine>(engine: &mut E, records: usize) -> usize {
    let (started, mut written) = (Instant::now(), 0);
    while started.elapsed() < MEASURE {
        engine.commit((written..written + records).map(|index| record("single", index)).collect());
        written += records;
    }
    per_second(written, started)
}

/// Many writers that wait, and one thread that commits what has come together.
fn group_commits<E: Engine>(mut engine: E) -> E {
    let (sender, receiver) = mpsc::channel::<(Record, mpsc::SyncSender<()>)>();
    let committer = thread::spawn(move || {
        while let Ok(first) = receiver.recv() {
            let (records, waiting): (Vec<_>, Vec<_>) = std::iter::once(first).chain(receiver.try_iter()).unzip();
            engine.commit(records);
            waiting.iter().for_each(|writer| writer.send(()).unwrap());
        }
        engine
    });
    let started = Instant::now();
    let writer = |writer: usize| {
        let sender = sender.clone();
        thread::spawn(move || {
            let (done, wait) = mpsc::sync_channel(1);
            let mut written = 0;
            while started.elapsed() < MEASURE {
                sender.send((record(&format!("writer-{writer}"), written), done.clone())).unwrap();
                wait.recv().unwrap();
                written += 1;
            }
            written
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let written = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    println!("{}: {WRITERS} writers, group commit: {}/s", E::NAME, per_second(written, started));
    drop(sender);
    committer.join().unwrap()
}

fn fill<E: Engine>(mut engine: E, objects: usize) -> E {
    let started = Instant::now();
    for from in (0..objects).step_by(FILL_BATCH) {
        engine.commit((from..objects.min(from + FILL_BATCH)).map(|index| record("fill", index)).collect());
    }
    println!("{}: filling, {FILL_BATCH} records a commit: {}/s", E::NAME, per_second(objects, started));
    engine
}

fn per_second(count: usize, started: Instant) -> usize {
    (count as f64 / started.elapsed().as_secs_f64()) as usize
}

/// A key in a place of its own, like a pod with a random name, and a value that compresses about as JSON does.
fn record(group: &str, index: usize) -> Record {
    let scattered = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let key = format!("/registry/core/pods/{group}-{}/web-{scattered:016x}", scattered % 100);
    let mut value =
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{scattered:016x}","namespace":"{group}"}},"spec":{{"#);
    let mut state = scattered;
    while value.len() < VALUE_BYTES {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        value.push_str(&format!(r#""nodeName":"node-{:08x}","#, state >> 32));
    }
    (key.into_bytes(), value.into_bytes())
}

fn size_of(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() { fs::read_dir(path).unwrap().map(|entry| size_of(&entry.unwrap().path())).sum() } else { metadata.blocks() * 512 }
}
