//! Writes archives for `berth store export` and `berth backup`.

use super::{
    At, DEFINITIONS, Outcome, add_kind, counted, counting, foreign,
    options::{Backup, Export},
    print_note,
};
use crate::{
    data_dir,
    etcd::Clients,
    foreign::{Foreign, PAGE_KEYS},
};
use berth_registry::archive::{Header, Summary, Writer};
use berth_store::{
    Decoded, Key, Layout, Revision, Snapshot,
    etcd::{Etcd, EtcdError, Query},
};
use jiff::Timestamp;
use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Write},
    path::Path,
    sync::Arc,
};
use tempfile::NamedTempFile;

/// The maximum number of files that berth copies from the folder of keys. There are four.
const KEY_FILES_MAX: usize = 64;

pub(super) fn export(options: &Export) -> Outcome<()> {
    let at = At::open(&options.from)?;
    match &options.file {
        Some(path) => to_file(path, |out| write(&at, out, None))?,
        None if io::stdout().is_terminal() => {
            return Err(
                "an archive contains every Secret, which the terminal would show: write it to a file, or pipe it to a program (|)".into()
            );
        }
        None => {
            let (mut out, written) = write(&at, BufWriter::new(io::stdout().lock()), None)?;
            out.flush()?;
            drop(out);
            print_written(&written, "written");
        }
    }
    Ok(())
}

pub(super) fn backup(options: &Backup) -> Outcome<()> {
    let data_dir = data_dir::kept(options.data_dir.clone())?;
    let keys = options.with_keys.then(|| data_dir.join("pki"));
    let at = At::Embedded(data_dir);
    to_file(&options.file, |out| write(&at, out, keys.as_deref()))
}

/// The contents of the archive, and its revision.
struct Written {
    summary: Summary,
    revision: Revision,
}

fn print_written(written: &Written, place: &str) {
    let Written { summary, revision } = written;
    let keys = match summary.files {
        0 => "It contains every Secret in plain text",
        _ => "It contains the control plane's private keys, and every Secret in plain text",
    };
    print_note(&format!("{} as of revision {revision}: {place}. {keys}. Protect it.", counted(summary.objects, "object")));
}

/// Writes a file that must not exist yet. The file gets its name when all of it is on disk.
fn to_file<'f>(
    path: &Path,
    write: impl FnOnce(BufWriter<NamedTempFile>) -> Outcome<(BufWriter<NamedTempFile>, Written)> + 'f,
) -> Outcome<()> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    if fs::symlink_metadata(path).is_ok() {
        return Err(format!("{} already exists; choose another file", path.display()).into());
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only its owner can read the file.
    let file = tempfile::Builder::new().prefix(".berth-").tempfile_in(folder).map_err(failed)?;
    let (out, written) = write(BufWriter::new(file))?;
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist_noclobber(path).map_err(|error| failed(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    print_written(&written, &path.display().to_string());
    Ok(())
}

/// Writes the objects, and the files of the folder `keys`.
fn write<W: Write>(at: &At, out: W, keys: Option<&Path>) -> Outcome<(W, Written)> {
    let header = |revision| Header::new(env!("CARGO_PKG_VERSION"), revision, Timestamp::now());
    let counting = counting("objects");
    let (mut writer, revision) = match at {
        At::Embedded(data_dir) => {
            let Snapshot { revision, objects } = snapshot(data_dir)?;
            let mut writer = Writer::begin(out, &header(revision))?;
            let layout = foreign();
            objects.iter().for_each(|(key, value)| add_kind(&layout.0, key, value));
            // The Services show which ports are allocated.
            for (key, value) in objects.iter().filter(|(key, _)| layout.resource_prefix(key.as_str()).is_some()) {
                writer.object(key, value)?;
                counting.inc(1);
            }
            (writer, revision)
        }
        At::Etcd(runtime, clients) => runtime.block_on(async {
            let revision = clients.rest.revision().await?;
            let mut writer = Writer::begin(out, &header(revision))?;
            let mut from = FromEtcd { clients, layout: foreign(), unreadable: 0 };
            from.read_kinds(revision).await?;
            from.copy(revision, |key, value| {
                counting.inc(1);
                writer.object(key, value)
            })
            .await?;
            from.print_rest().await?;
            Outcome::Ok((writer, revision))
        })?,
    };
    counting.finish_and_clear();
    if let Some(folder) = keys {
        write_keys(&mut writer, folder)?;
    }
    let (out, summary) = writer.finish()?;
    Ok((out, Written { summary, revision }))
}

fn snapshot(data_dir: &Path) -> Outcome<Snapshot> {
    let store = data_dir.join("store");
    if !store.is_dir() {
        return Err(format!("there is no store in {} (--data-dir)", data_dir.display()).into());
    }
    Ok(berth_store::snapshot(&store, foreign())?)
}

/// Writes certificates, keys and tokens, in the order of their names.
fn write_keys<W: Write>(writer: &mut Writer<W>, folder: &Path) -> Outcome<()> {
    let failed = |path: &Path, error: io::Error| format!("cannot read {}: {error}", path.display());
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(|error| failed(folder, error))?;
    let mut paths: Vec<_> = listed.iter().map(fs::DirEntry::path).filter(|path| path.is_file()).collect();
    paths.sort();
    for path in paths.iter().take(KEY_FILES_MAX) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writer.file(&name, &fs::read_to_string(path).map_err(|error| failed(path, error))?)?;
    }
    Ok(())
}

/// A copy of one or several etcds.
struct FromEtcd<'e> {
    clients: &'e Clients,
    layout: Arc<Foreign>,
    /// Values of served kinds that berth cannot read.
    unreadable: u64,
}

impl FromEtcd<'_> {
    /// Reads the definitions of kinds, so that their objects are copied too. `revision` is that of the etcd for all other resources.
    async fn read_kinds(&self, revision: Revision) -> Outcome<()> {
        let client = self.clients.of(DEFINITIONS);
        let at = if std::ptr::eq(client, &self.clients.rest) { revision } else { client.revision().await? };
        let query = Query { prefix: DEFINITIONS.into(), start_after: None, at: Some(at), limit: None };
        for found in client.range(query).await?.keys {
            match self.layout.decode(&found.key, &found.value) {
                Decoded::Unchanged => add_kind(&self.layout.0, &found.key, &found.value),
                Decoded::Converted(value) => add_kind(&self.layout.0, &found.key, &value),
                Decoded::Ignored | Decoded::Encrypted => (),
            }
        }
        Ok(())
    }

    /// Copies in the order of keys, each etcd at a single revision. `revision` is that of the etcd for all other resources.
    async fn copy(&mut self, revision: Revision, mut take: impl FnMut(&Key, &[u8]) -> io::Result<()>) -> Outcome<()> {
        let resources = self.layout.0.resources();
        let mut prefixes: Vec<&str> = resources.stored().map(|resource| resource.prefix()).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        for prefix in prefixes {
            let client = self.clients.of(prefix);
            let at = if std::ptr::eq(client, &self.clients.rest) { revision } else { client.revision().await? };
            let mut query = Query { prefix: prefix.into(), start_after: None, at: Some(at), limit: Some(PAGE_KEYS) };
            loop {
                let page = client.range(query.clone()).await.map_err(|error| match error {
                    EtcdError::Compacted => "etcd has compacted the revision of this export: try again".to_owned(),
                    error => error.to_string(),
                })?;
                let Some(last) = page.keys.last() else { break };
                query.start_after = Some(last.key.clone());
                for found in &page.keys {
                    match self.layout.decode(&found.key, &found.value) {
                        Decoded::Unchanged => take(&found.key, &found.value)?,
                        Decoded::Converted(value) => take(&found.key, &value)?,
                        Decoded::Ignored | Decoded::Encrypted => self.unreadable += 1,
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints what the copy omits.
    async fn print_rest(&self) -> Outcome<()> {
        if 0 < self.unreadable {
            print_note(&format!(
                "{} skipped, because berth cannot read them: encrypted, or of a version that berth does not serve",
                counted(self.unreadable, "object")
            ));
        }
        for client in self.clients.all() {
            let mut others = self.layout.found_in(client).await?;
            others.retain(|prefix| self.layout.resource_prefix(prefix).is_none());
            if !others.is_empty() {
                print_note(&format!("skipped, of kinds that berth does not serve: {}", others.join(", ")));
            }
        }
        Ok(())
    }
}
