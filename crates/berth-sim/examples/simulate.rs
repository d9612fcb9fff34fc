//! Storms by hand: `simulate FROM..TO [STORM] [--trace]`. `cargo xtask simulate` runs it, some seeds a process.
//!
//! Prints a line of JSON for each storm that failed, then one with what all of them came to. With `--trace` also each storm's log.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "the one part that meets the machine")]

use berth_sim::storm::{Ended, STORMS, Tally};
use serde_json::json;
use std::{
    panic::{catch_unwind, set_hook},
    process::ExitCode,
    sync::{Mutex, PoisonError},
};

/// The program's own: storms allocate all the time, and on one thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The panic messages since the last storm began, including those that a process of the simulation survived.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, named): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|argument| argument.starts_with("--"));
    let seeds =
        named.first().and_then(|text| text.split_once("..")).and_then(|(from, to)| Some(from.parse().ok()?..to.parse::<u64>().ok()?));
    let Some(seeds) = seeds else {
        println!("simulate FROM..TO [STORM] [--trace]");
        return ExitCode::FAILURE;
    };
    let trace = flags.iter().any(|flag| *flag == "--trace");
    let storms = || STORMS.into_iter().filter(|(name, _)| named.get(1).is_none_or(|wanted| wanted == name));
    set_hook(Box::new(|panic| PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string())));
    let mut total = Tally::default();
    for (seed, (name, storm)) in seeds.flat_map(|seed| storms().map(move |storm| (seed, storm))) {
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match catch_unwind(|| storm(seed)) {
            Ok(Ended { tally, sim }) => {
                total.rollouts += tally.rollouts;
                total.scalings += tally.scalings;
                total.checked += tally.checked;
                if trace {
                    println!("{}\n{name} {seed}: {tally:?}", sim.trace().join("\n"));
                }
            }
            Err(_) => {
                let said = PANICS.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
                if trace {
                    println!("{said}");
                }
                println!("{}", json!({"failed": {"storm": name, "seed": seed, "why": said}}));
            }
        }
    }
    let Tally { rollouts, scalings, checked } = total;
    println!("{}", json!({"done": {"rollouts": rollouts, "scalings": scalings, "checked": checked}}));
    ExitCode::SUCCESS
}
