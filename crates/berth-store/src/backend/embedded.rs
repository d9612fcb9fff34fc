//! Keeps everything in memory, made durable by an embedded engine.
