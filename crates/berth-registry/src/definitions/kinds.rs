//! Reads the kinds that definitions describe. A schema can have hundreds of kilobytes.

use super::Unserved;
use crate::{ApiError, resource::DefineError};
use berth_api::decode::from_json;
use berth_kinds::{Kind, custom::definition_of};
use berth_store::{
    Entry,
    env::{Spawner, yield_now},
};
use futures::{channel::oneshot, future::join_all};
use serde_json::Value;
use std::sync::Arc;

/// The number of tasks that read definitions.
const TASKS: usize = 4;
/// The number of definitions that are read without tasks.
const FEW: usize = 4;

/// A stored definition, and the names under which it is served.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) entry: Arc<Entry>,
    pub(super) names: Value,
}

/// Reads all of these definitions. The results have the same order.
pub(super) async fn read_all(sources: Vec<Source>, spawner: &dyn Spawner) -> Vec<Result<Arc<Kind>, Unserved>> {
    if sources.len() <= FEW {
        return read_in_turn(sources).await;
    }
    let of_task = sources.len().div_ceil(TASKS);
    let tasks = sources.chunks(of_task).map(|sources| {
        let (done, result) = oneshot::channel();
        let sources = sources.to_vec();
        let read = async move {
            // The receiver waits, unless the process ends.
            drop(done.send(read_in_turn(sources).await));
        };
        spawner.spawn("custom resource schemas", Box::pin(read));
        result
    });
    let tasks: Vec<_> = tasks.collect();
    join_all(tasks).await.into_iter().flat_map(Result::unwrap_or_default).collect()
}

async fn read_in_turn(sources: Vec<Source>) -> Vec<Result<Arc<Kind>, Unserved>> {
    let mut kinds = Vec::new();
    for Source { entry, names } in sources {
        kinds.push(read(&entry.value, &names));
        yield_now().await;
    }
    kinds
}

/// Returns the kind that a stored definition defines, under these names.
///
/// # Errors
/// The definition is inconsistent.
pub(super) fn read(json: &[u8], names: &Value) -> Result<Arc<Kind>, Unserved> {
    let mut definition = parse(json)?;
    definition["spec"]["names"].clone_from(names);
    let kind = definition_of(&definition).and_then(Kind::new);
    kind.map_err(|faults| Unserved::Undefined(DefineError::Invalid(faults)))
}

/// Reads a stored definition.
///
/// # Errors
/// It is not JSON.
pub(super) fn parse(json: &[u8]) -> Result<Value, ApiError> {
    from_json(json).map_err(|error| ApiError::Internal { message: format!("a custom resource definition cannot be read: {error}") })
}
