//! berth-sim
