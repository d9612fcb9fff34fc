//! Measurements by hand.
use crate::run::Outcome;
/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {}
pub(crate) fn run(_: &Options) -> Outcome {
    Ok(())
}
