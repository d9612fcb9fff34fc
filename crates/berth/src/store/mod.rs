//! `berth store`, `berth backup`, `berth restore`: copy the stored objects to another place, and restore them.

mod give_back;
mod into;
pub(crate) mod options;
mod out;

use crate::{
    credentials::authorities_in,
    data_dir::{self, DataDir, StoreKind},
    env,
    etcd::{Clients, with_advice},
    foreign::Foreign,
    progress::{Output, chain},
};
use berth_apiserver::{Pki, PkiOptions};
use berth_registry::ResourceTable;
use berth_store::Key;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use options::{Backup, Restore, StoreCommand, StoreOptions};
use std::{
    error::Error,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::runtime::Runtime;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Executes a command of `berth store`.
pub(crate) fn run(command: &StoreCommand) -> Outcome<()> {
    match command {
        StoreCommand::Export(options) => out::export(options),
        StoreCommand::Import(options) => into::import(options),
        StoreCommand::GiveBack(options) => give_back::run(options),
    }
}

/// Writes a copy of the embedded store.
pub(crate) fn backup(options: &Backup) -> Outcome<()> {
    out::backup(options)
}

/// Creates an embedded store from a copy.
pub(crate) fn restore(options: &Restore) -> Outcome<()> {
    into::restore(options)
}

/// The store of a command.
enum At {
    /// The one in this data folder.
    Embedded(PathBuf),
    Etcd(Runtime, Clients),
}

impl At {
    fn open(options: &StoreOptions) -> Outcome<Self> {
        match options.store {
            StoreKind::Memory => Err("a store in memory has no copy: use --store embedded or etcd".into()),
            StoreKind::Embedded => {
                options.etcd.check_unused()?;
                Ok(Self::Embedded(data_dir::kept(options.data_dir.clone())?))
            }
            StoreKind::Etcd => {
                let places = options.etcd.read()?;
                let runtime = crate::threads::builder().worker_threads(2).build()?;
                let clients = runtime.block_on(places.open())?;
                Ok(Self::Etcd(runtime, clients))
            }
        }
    }
}

/// The table of resources, for values that other programs may have written.
fn foreign() -> Arc<Foreign> {
    Arc::new(Foreign(Arc::<ResourceTable>::default()))
}

/// The key prefix of the definitions of kinds.
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// Adds a kind to the table if the object defines one. Otherwise berth would skip the objects of that kind.
fn add_kind(table: &ResourceTable, key: &Key, value: &[u8]) {
    if key.as_str().starts_with(DEFINITIONS)
        && let Err(fault) = table.define_stored(value)
    {
        print_note(&format!("{key}: berth skips objects of this kind: {}", chain(&fault)));
    }
}

/// The data folder, locked against other processes.
fn locked(asked: Option<&PathBuf>) -> Outcome<DataDir> {
    Ok(DataDir::open(asked.cloned(), StoreKind::Embedded)?.locked()?)
}

/// The certificate of the authority that owns the objects in etcd: the first of the file, or that of the data folder, created if missing.
fn authority(client_ca_file: Option<&PathBuf>, data_dir: &Path) -> Outcome<String> {
    if let Some(path) = client_ca_file {
        return Ok(authorities_in(path, "--client-ca-file")?.swap_remove(0));
    }
    let options = PkiOptions { folder: &data_dir.join("pki"), bind: Ipv4Addr::LOCALHOST.into(), extra_names: &[], now: Timestamp::now() };
    Ok(Pki::load_or_create(&options, &env::RealRng::new())?.ca_certificate)
}

/// Counts on a terminal, and shows nothing elsewhere.
fn counting(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("  {spinner} {pos} {msg}").expect("the template is a constant");
    ProgressBar::new_spinner().with_style(style).with_message(what)
}

/// Prints a text for users, apart from the output for programs.
fn print_note(text: &str) {
    Output::Stderr.line(text);
}

/// `1 object`, `2 objects`.
fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
