//! Ownership of fields, by table and by property.

#![expect(clippy::unwrap_used, reason = "tests")]

mod applying;
mod documents;
mod managed_object;
mod properties;
mod updating;
mod versions;
