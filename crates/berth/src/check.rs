//! `berth check`: checks whether a store is intact.

use crate::{cli::Check, data_dir, progress::line};
use berth_registry::ResourceTable;
use berth_store::{Fault, FileRead, Report};
use serde::Serialize;
use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// The result, for programs. Stable: fields are only ever added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked<'r> {
    store: &'r Path,
    whole: bool,
    objects: usize,
    /// The last readable revision.
    revision: u64,
    /// The last revision that the store is known to have acknowledged.
    acknowledged_revision: Option<u64>,
    files: Vec<CheckedFile<'r>>,
    /// Files that the next start removes.
    left_over: &'r [String],
    faults: Vec<CheckedFault<'r>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedFile<'r> {
    name: &'r str,
    bytes: u64,
    frames: u64,
    torn: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedFault<'r> {
    file: &'r str,
    offset: Option<u64>,
    why: &'r str,
}

impl<'r> Checked<'r> {
    fn of(store: &'r Path, report: &'r Report) -> Self {
        let file = |FileRead { name, bytes, frames, torn }: &'r FileRead| CheckedFile { name, bytes: *bytes, frames: *frames, torn: *torn };
        let fault = |Fault { file, offset, why }: &'r Fault| CheckedFault { file, offset: *offset, why };
        Self {
            store,
            whole: report.faults.is_empty(),
            objects: report.objects,
            revision: report.revision.0,
            acknowledged_revision: report.acknowledged.map(|revision| revision.0),
            files: report.files.iter().map(file).collect(),
            left_over: &report.left_over,
            faults: report.faults.iter().map(fault).collect(),
        }
    }
}

/// Reads the store and reports which parts are intact. Returns 0 if all are, else 1.
pub(crate) fn run(options: &Check) -> Result<ExitCode, Box<dyn Error>> {
    let store = store_of(options)?;
    let report = berth_store::check(&store, Arc::<ResourceTable>::default())?;
    let whole = report.faults.is_empty();
    if options.output.is_some() {
        line(&serde_json::to_string_pretty(&Checked::of(&store, &report))?);
    } else {
        lines(&store, &report).iter().for_each(|text| line(text));
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn store_of(options: &Check) -> Result<PathBuf, Box<dyn Error>> {
    let store = data_dir::kept(options.data_dir.clone())?.join("store");
    if store.is_dir() { Ok(store) } else { Err(format!("there is no store in {} (--data-dir)", store.display()).into()) }
}

fn lines(store: &Path, report: &Report) -> Vec<String> {
    let mut lines = vec![
        format!("store:        {}", store.display()),
        format!("objects:      {}, as of revision {}", report.objects, report.revision),
        report
            .acknowledged
            .map_or_else(|| "acknowledged: unknown".to_owned(), |revision| format!("acknowledged: everything up to revision {revision}")),
    ];
    for file in &report.files {
        let torn = if file.torn { ", followed by an incomplete write that was never acknowledged" } else { "" };
        lines.push(format!("read:         {}, {} bytes in {} frames{torn}", file.name, file.bytes, file.frames));
    }
    lines.extend(report.left_over.iter().map(|name| format!("leftover:     {name}, which the next start removes")));
    lines.extend(report.faults.iter().map(|fault| format!("DAMAGED:      {fault}")));
    lines.push(match report.faults.len() {
        0 => "Everything is intact.".to_owned(),
        _ => "The store is damaged. Restore a backup of the folder, or skip the damaged parts: berth up --accept-loss".to_owned(),
    });
    lines
}
