//! Which object, and which version of it: words that every layer has, the store and the core alike. Knows no kinds.

mod revision;

pub use revision::Revision;
