//! berth-node
