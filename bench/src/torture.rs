//! Tests whether berth withstands faults of the machine below it, and malicious users.

mod attackers;
pub(crate) mod attacks;
pub(crate) mod bars;
pub(crate) mod cycles;
mod damage;
mod draw;
mod full;
mod memory;
mod mortals;
mod session;
mod subject;
mod tally;
mod test_server;
mod watchers;
mod writers;

pub(crate) use attackers::attack;
