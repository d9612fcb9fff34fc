//! The stores themselves: durable creates with 64 writers, a page of a big list, recovery, memory.
//!
//! `cargo bench -p berth-store --features embedded --bench store -- [objects] [folder]` (default 200000, the system's temporary folder).
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and may stop at the first error")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time and real files")]

use berth_store::{
    DEFAULT_HISTORY_BYTES, EmbeddedStore, Entry, Expected, Header, Key, Layout, MemoryStore, Purpose, RangeRequest, ReadError, Revision,
    Store,
};
use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{FuturesUnordered, iter},
};
use futures_executor::block_on;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

const WRITERS: usize = 64;
const MEASURE: Duration = Duration::from_secs(5);
const VALUE_BYTES: usize = 1024;
const PAGE: usize = 5000;
const PODS: &str = "/registry/core/pods/";

fn main() {
    // Cargo passes `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let objects = arguments.next().map_or(200_000, |count| count.parse().unwrap());
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join(format!("berth-store-{}", std::process::id()));

    let started = Instant::now();
    let store = open(&folder);
    println!("embedded: opened an empty folder in {:?}, resident {} MiB", started.elapsed(), resident_mib());
    println!("embedded: {WRITERS} writers: {}", creates(&store));
    drop(store);
    fs::remove_dir_all(&folder).unwrap();
    println!("memory: {WRITERS} writers: {}", creates(&MemoryStore::new(layout(), DEFAULT_HISTORY_BYTES)));

    let store = open(&folder);
    fill(&store, objects);
    drop(store);
    let store = recover(&folder, objects);
    change(&store, objects);
    drop(store);
    println!("embedded: all of them changed once and again");
    let store = recover(&folder, objects);
    println!("embedded: {WRITERS} writers beside {objects} objects: {}", creates(&store));
    first_page(&store);
    drop(store);
    fs::remove_dir_all(&folder).unwrap();
}

fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(folder, layout(), DEFAULT_HISTORY_BYTES).unwrap()
}

fn recover(folder: &Path, objects: usize) -> EmbeddedStore {
    let bytes: u64 = fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let (before, started) = (resident_mib(), Instant::now());
    let store = open(folder);
    let (took, after) = (started.elapsed(), resident_mib());
    println!("embedded: recovered {objects} objects of {} MiB in {took:?}, resident {before} MiB before, {after} MiB after", bytes >> 20);
    let newest = block_on(store.revision(PODS)).unwrap().0;
    let oldest = match store.watch(PODS, Revision(0)) {
        Err(ReadError::Compacted { oldest, .. }) => oldest.0,
        _ => 0,
    };
    println!("embedded: watches go on behind the last {} of {newest} changes", newest - oldest);
    store
}

struct Pods;

impl Layout for Pods {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.starts_with(PODS).then_some(&text[..PODS.len()])
    }

    fn header(&self, _: &Key, value: &[u8]) -> Header {
        Header { uid: String::from_utf8_lossy(&value[..36.min(value.len())]).into(), ..Header::default() }
    }
}

fn layout() -> Arc<Pods> {
    Arc::new(Pods)
}

/// One thread drives all writers, as the few threads of a server do.
fn creates(store: &dyn Store) -> String {
    let (started, used) = (Instant::now(), processor_time());
    let writer = |writer: usize| async move {
        let mut written = 0;
        while started.elapsed() < MEASURE {
            create(store, &format!("writer-{writer}"), written).await;
            written += 1;
        }
        written
    };
    let writers: FuturesUnordered<_> = (0..WRITERS).map(writer).collect();
    let written: usize = block_on(writers.fold(0, |sum, written| std::future::ready(sum + written)));
    let a_second = (written as f64 / started.elapsed().as_secs_f64()) as usize;
    let each = (processor_time() - used).as_secs_f64() * 1e6 / written as f64;
    format!("{a_second}/s, {each:.1} µs of processor time each")
}

/// Of all threads of this process, in user and kernel mode.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // Linux counts 100 ticks per second on every machine.
    Duration::from_millis(ticks * 10)
}

fn fill(store: &dyn Store, objects: usize) {
    let creates = iter(0..objects).map(|index| create(store, "fill", index)).buffer_unordered(1024);
    block_on(creates.for_each(std::future::ready));
}

/// Changes every object twice.
fn change(store: &dyn Store, objects: usize) {
    for _ in 0..2 {
        let entries = block_on(store.range(RangeRequest::all(PODS))).unwrap().entries;
        assert_eq!(entries.len(), objects);
        let put = |entry: Arc<Entry>| store.put(entry.key.clone(), entry.value.clone(), Expected::At(entry.mod_revision), Purpose::Growth);
        block_on(iter(entries).map(put).buffer_unordered(1024).for_each(async |put| assert!(put.is_ok())));
    }
}

async fn create(store: &dyn Store, group: &str, index: usize) {
    let scattered = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let key = Key::new(&format!("{PODS}{group}-{}/web-{scattered:016x}", scattered % 100));
    let mut value = format!(r#"{{"metadata":{{"name":"web-{scattered:016x}"}},"padding":""#).into_bytes();
    value.resize(VALUE_BYTES, b'x');
    store.put(key, Bytes::from(value), Expected::Absent, Purpose::Growth).await.unwrap();
}

fn first_page(store: &dyn Store) {
    for limit in [Some(PAGE), None] {
        let started = Instant::now();
        let request = RangeRequest { prefix: PODS.into(), start_after: None, at: None, limit, behind: None };
        let range = block_on(store.range(request)).unwrap();
        println!("embedded: a range of {} entries in {:?}", range.entries.len(), started.elapsed());
    }
}

fn resident_mib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}
