//! Logs of pods: text in one response, or followed.

use super::{
    Exchange,
    watches::{end_of_watch, follow_timeout, share_of_watches},
};
use crate::{
    answer::{self, Answer},
    body::ResponseBody,
    metrics::Labels,
    path::{ResourcePath, Route},
    status::Refusal,
    watch::{Lines, WatchBody, WatchForm},
};
use berth_registry::{Collection, Target, WatchEvent, WatchOptions};
use futures::{StreamExt as _, future::ready, stream};
use std::sync::Arc;

/// Handles a GET of `pods/NAME/log`.
pub(super) async fn answer(exchange: &Exchange<'_>, path: &ResourcePath<'_>, pod: &Target) -> Result<Answer, Refusal> {
    let options = exchange.query.log_options()?;
    let follow = options.follow;
    let (entry, log) = exchange.registry().log(pod, options).await?;
    let Some(mut log) = log else { return Ok(answer::no_content()) };
    if !follow {
        return Ok(answer::log(log.read(&pod.resource, &entry).text.into()));
    }
    let share = share_of_watches(exchange)?;
    let watch = WatchOptions {
        field_selector: format!("metadata.name={}", pod.name),
        resource_version: entry.mod_revision.to_string(),
        ..WatchOptions::default()
    };
    let at = Collection { resource: Arc::clone(&pod.resource), namespace: pod.namespace.clone() };
    let later = exchange.registry().watch(exchange.actor(), &at, &watch).await?;
    let events = stream::once(ready(WatchEvent::Added(Arc::clone(&entry)))).chain(later).boxed();
    let counted = exchange.shared.metrics.begin_watch(&Labels::of("GET", &Route::Resource(path.clone())));
    let until = end_of_watch(exchange, follow_timeout(exchange));
    let form = WatchForm::Log(Box::new(log));
    let (resource, lines) = (Arc::clone(&pod.resource), Lines::default());
    let body = WatchBody { events, until, resource, form, counted, share, selectors: None, lines, ended: false, audited: None };
    Ok(answer::log(ResponseBody::Watch(Box::new(body))))
}
