//! `berth replay`: replays a recording in the simulation, unchanged, with another policy and with other autoscalers. `berth-plan` has the
//! texts.

use super::{picture, report, trace_options::ReplayOptions};
use crate::{
    manifests::{self, Depth},
    progress,
};
use berth_plan::{Passing, Recorded};
use berth_trace::Reader;
use serde_json::{Value, json};
use std::{fs::File, path::PathBuf, thread, time::Instant};

/// Replays a recording.
///
/// # Errors
/// The file cannot be read, or is not a recording.
pub(crate) fn run(options: &ReplayOptions) -> Result<(), Box<dyn std::error::Error>> {
    let shown = options.file.display();
    let file = File::open(&options.file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let reader = Reader::begin(file).map_err(|error| format!("{shown}: {}", progress::chain(&error)))?;
    let recorded = Recorded::read(reader).map_err(|error| format!("{shown}: {}", progress::chain(&error)))?;
    let autoscalers = autoscalers(&options.hpa)?;
    let mut pace = options.speed.map(Pace::new);
    let how = berth_plan::ReplayOptions { policy: options.policy.map(Into::into), autoscalers, seed: options.seed };
    let replay = berth_plan::replay(recorded, how, |passing| pace.iter_mut().for_each(|pace| pace.keep(passing)))?;
    let text = berth_plan::replay_text(&replay).trim_end().to_owned();
    match options.output {
        Some(_) => progress::line(&report::json(&json!(replay))),
        None => progress::line(&text),
    }
    if options.chart || options.output_file.is_some() {
        let charts = berth_plan::replay_charts(&replay);
        if options.chart {
            picture::show(&charts);
        }
        if let Some(file) = &options.output_file {
            picture::write(file, "A recording, replayed", &charts, &text)?;
        }
    }
    Ok(())
}

/// The manifests of autoscalers.
fn autoscalers(paths: &[PathBuf]) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let documents = runtime.block_on(manifests::read(paths, Depth::Folder))?;
    Ok(documents.into_iter().map(|document| document.object).collect())
}

/// The speed of a replay.
struct Pace {
    speed: u32,
    column: String,
    began: Instant,
}

impl Pace {
    fn new(speed: u32) -> Self {
        Self { speed, column: String::new(), began: Instant::now() }
    }

    /// Waits until it is time, and prints what has happened.
    fn keep(&mut self, passing: &Passing<'_>) {
        if self.column != passing.column {
            (self.column, self.began) = (passing.column.to_owned(), Instant::now());
            progress::warn(&format!("{}:", self.column));
        }
        let due = passing.at / self.speed;
        thread::sleep(due.saturating_sub(self.began.elapsed()));
        for (at, what) in passing.reports {
            progress::warn(&format!("{:>10.1}s  {what}", at.as_secs_f64()));
        }
    }
}
