//! What is done to berth to see whether it stands firm: faults of the machine below it, and users who do their worst.

mod attackers;
pub(crate) mod attacks;
pub(crate) mod bars;
pub(crate) mod cycles;
mod damage;
mod draw;
mod full;
mod memory;
mod mortals;
mod place;
mod session;
mod subject;
mod tally;
mod watchers;
mod writers;

pub(crate) use attackers::attack;
