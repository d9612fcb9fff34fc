//! What `berth store`, `berth backup` and `berth restore` are told.

use crate::{data_dir::StoreKind, etcd::Connection};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(crate) const STORE_EXAMPLES: &str = "Examples:
  berth store export objects.berth                       a copy of what is stored, also while the server runs
  berth store export | berth store import --store etcd --etcd-servers http://127.0.0.1:2379
  berth store give-back --store etcd --etcd-servers http://127.0.0.1:2379";

const EXPORT_EXAMPLES: &str = "Examples:
  berth store export objects.berth
  berth store export --store etcd --etcd-servers http://127.0.0.1:2379 objects.berth
  berth store export | zcat | head -3                    an archive is gzip of lines of JSON";

const IMPORT_EXAMPLES: &str = "Examples:
  berth store import --store etcd --etcd-servers http://127.0.0.1:2379 objects.berth
  berth store export --store etcd --etcd-servers http://127.0.0.1:2379 | berth store import --data-dir ~/shrunk";

const GIVE_BACK_EXAMPLES: &str = "Example:
  berth store give-back --store etcd --etcd-servers http://127.0.0.1:2379

Stop berth first, start the kube-apiserver afterwards. berth up --take-over goes the other way.";

pub(crate) const BACKUP_EXAMPLES: &str = "Examples:
  berth backup monday.berth                              while the server runs
  berth backup --with-keys monday.berth                  with which another machine can take its place

A backup holds every Secret as it is. Keep it where you would keep them.";

pub(crate) const RESTORE_EXAMPLES: &str = "Examples:
  berth restore monday.berth --data-dir ~/again && berth up --data-dir ~/again

Resource versions go on far beyond all that were given out: whoever watches is told 410 and lists anew.";

/// A store.
#[derive(Args, Debug)]
pub(crate) struct StoreOptions {
    /// The folder of the control plane [default: berth's folder under the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// The authorities of clients' certificates that the servers are told of: they say whose objects in etcd are [default: the one in --data-dir].
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Where objects are kept.
    #[arg(long, value_enum, default_value = "embedded")]
    pub(crate) store: StoreKind,

    #[command(flatten)]
    pub(crate) etcd: Connection,
}

/// `berth store`.
#[derive(Args, Debug)]
pub(crate) struct Store {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Writes all objects as of one revision into an archive, also while a server runs. Changes nothing.
    ///
    /// What no kind of this berth is, and what it cannot read, is named and left out. Of several etcds each has revisions of its own.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Export),
    /// Makes a store of an archive, where none is yet: each object is checked as if it were created, before anything is written.
    ///
    /// Broken off, it begins anew. Uids, owners and times stay; resource versions do not. An embedded store's go on far beyond the archive's, so that
    /// whoever watches is told 410 and lists anew; those of an etcd begin where it is: start anew what followed the store of before.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
    /// Gives an etcd back to a kube-apiserver: what Kubernetes 1.36 would drop or refuse becomes annotations, and what only berth has keys for goes.
    ///
    /// Broken off, it is called again. A berth that starts over it in between goes on as before: the annotations say the same.
    #[command(after_help = GIVE_BACK_EXAMPLES)]
    GiveBack(StoreOptions),
}

/// Options of `berth store export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) from: StoreOptions,

    /// The archive, readable by its owner alone; none is overwritten [default: standard output].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Options of `berth store import`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    #[command(flatten)]
    pub(crate) into: StoreOptions,

    /// Leaves out objects of kinds that this berth does not have, as of an archive that a later one has written; else they end the import.
    #[arg(long)]
    pub(crate) leave_out_unknown: bool,

    /// How many bytes of objects an embedded store may get; 0: no bound [default: as of berth up, an eighth of the machine's memory, or of the cgroup's limit].
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota_bytes: Option<u64>,

    /// The archive [default: standard input].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Options of `berth backup`.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// The folder of the control plane [default: berth's folder under the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Also the control plane's certificates with their private keys, and its tokens: whoever has the backup is its administrator.
    #[arg(long)]
    pub(crate) with_keys: bool,

    /// The backup, readable by its owner alone; none is overwritten.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Options of `berth restore`.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The folder of the control plane, in which there must be no store [default: berth's folder under the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Leaves out objects of kinds that this berth does not have, as of a backup that a later one has made; else they end the restore.
    #[arg(long)]
    pub(crate) leave_out_unknown: bool,

    /// How many bytes of objects the archive may hold; 0: no bound [default: as of berth up, an eighth of the machine's memory, or of the cgroup's limit].
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota_bytes: Option<u64>,

    /// The backup.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
