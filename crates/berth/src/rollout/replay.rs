//! `berth replay`: replays a recording in the simulation, unchanged and with another policy. `berth-plan` has the texts.

use super::{picture, report, trace_options::ReplayOptions};
use crate::progress;
use berth_plan::{Passing, Recorded};
use berth_trace::Reader;
use serde_json::json;
use std::{fs::File, thread, time::Instant};

/// Replays a recording.
///
/// # Errors
/// The file cannot be read, or is not a recording.
pub(crate) fn run(options: &ReplayOptions) -> Result<(), Box<dyn std::error::Error>> {
    let shown = options.file.display();
    let file = File::open(&options.file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let reader = Reader::begin(file).map_err(|error| format!("{shown}: {}", progress::chain(&error)))?;
    let recorded = Recorded::read(reader).map_err(|error| format!("{shown}: {}", progress::chain(&error)))?;
    let mut pace = options.speed.map(Pace::new);
    let how = berth_plan::ReplayOptions { policy: options.policy.map(Into::into), seed: options.seed };
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
