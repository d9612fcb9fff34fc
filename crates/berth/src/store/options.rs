//! The options of `berth store`, `berth backup` and `berth restore`.

use crate::{data_dir::StoreKind, etcd::Connection};
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(crate) const STORE_EXAMPLES: &str = "Examples:
  berth store export objects.berth                       copy all objects while the server runs
  berth store export | berth store import --store etcd --etcd-servers http://127.0.0.1:2379
  berth store give-back --store etcd --etcd-servers http://127.0.0.1:2379";

const EXPORT_EXAMPLES: &str = "Examples:
  berth store export objects.berth
  berth store export --store etcd --etcd-servers http://127.0.0.1:2379 objects.berth
  berth store export | zcat | head -3                    an archive is gzipped lines of JSON";

const IMPORT_EXAMPLES: &str = "Examples:
  berth store import --store etcd --etcd-servers http://127.0.0.1:2379 objects.berth
  berth store export --store etcd --etcd-servers http://127.0.0.1:2379 | berth store import --data-dir ~/shrunk";

const GIVE_BACK_EXAMPLES: &str = "Example:
  berth store give-back --store etcd --etcd-servers http://127.0.0.1:2379

Stop berth first, and start the kube-apiserver afterwards. berth up --take-over is the reverse.";

pub(crate) const BACKUP_EXAMPLES: &str = "Examples:
  berth backup monday.berth                              copy while the server runs
  berth backup --with-keys monday.berth                  include what another machine needs to replace this one

A backup contains every Secret in plain text. Protect it as you protect them.";

pub(crate) const RESTORE_EXAMPLES: &str = "Examples:
  berth restore monday.berth --data-dir ~/again && berth up --data-dir ~/again

Resource versions continue far beyond all earlier ones: watches get 410, and clients relist.";

/// A store.
#[derive(Args, Debug)]
pub(crate) struct StoreOptions {
    /// The folder of the control plane [default: berth's folder in the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// The --client-ca-file of the servers: the authorities of clients' certificates. They identify the objects in etcd [default: the
    /// authority in --data-dir].
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Where objects are stored.
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
    /// Writes all objects as of one revision into an archive. Works while a server runs. Changes nothing.
    ///
    /// Skips and lists objects of kinds that this berth does not serve, and objects that it cannot read. Several etcds have separate
    /// revisions.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Export),
    /// Creates a store from an archive. Checks each object, as for a create request, before it writes anything.
    ///
    /// If an import is interrupted, run it again: it starts from scratch. Uids, owners and times stay the same. Resource versions change.
    /// Those of an embedded store continue far beyond the archive's, so that watches get 410 and clients relist. Those of an etcd continue
    /// from its current revision: restart every client that watched the previous store.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
    /// Returns an etcd to a kube-apiserver: converts what Kubernetes 1.36 would drop or reject into annotations, and deletes keys that only
    /// berth uses.
    ///
    /// If it is interrupted, run it again. A berth that starts over this etcd in between also works: the annotations contain the same
    /// information.
    #[command(after_help = GIVE_BACK_EXAMPLES)]
    GiveBack(StoreOptions),
}

/// Options of `berth store export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) from: StoreOptions,

    /// The archive, readable only by its owner. berth overwrites no file [default: standard output].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Options of `berth store import`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    #[command(flatten)]
    pub(crate) into: StoreOptions,

    /// Skips objects of kinds that this berth does not have, for example from a later version. Without this option, they end the import.
    #[arg(long)]
    pub(crate) leave_out_unknown: bool,

    /// How many bytes of objects an embedded store may contain. 0 means no limit [default: as for berth up, an eighth of the memory of the
    /// machine or cgroup].
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota_bytes: Option<u64>,

    /// The archive [default: standard input].
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Options of `berth backup`.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// The folder of the control plane [default: berth's folder in the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Includes the control plane's certificates with their private keys, and its tokens. A reader of this backup can act as its
    /// administrator.
    #[arg(long)]
    pub(crate) with_keys: bool,

    /// The backup, readable only by its owner. berth overwrites no file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Options of `berth restore`.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The folder of the control plane. It must not contain a store [default: berth's folder in the XDG data folder].
    #[arg(long, value_name = "DIR", env = "BERTH_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Skips objects of kinds that this berth does not have, for example from a later version. Without this option, they end the restore.
    #[arg(long)]
    pub(crate) leave_out_unknown: bool,

    /// How many bytes of objects the archive may contain. 0 means no limit [default: as for berth up, an eighth of the memory of the
    /// machine or cgroup].
    #[arg(long, value_name = "BYTES")]
    pub(crate) quota_bytes: Option<u64>,

    /// The backup.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
