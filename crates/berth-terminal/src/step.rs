//! One step: applies an event, then fits the content into the screen.

use crate::{
    document::document,
    draw::{asked, body_rows},
    state::{Effect, Event, Extent, WatchState},
};

/// Applies the event. Returns the effect that the caller must execute.
pub fn step(state: &mut WatchState, event: Event) -> Option<Effect> {
    let effect = state.take(event);
    let (columns, rows) = (state.size().0, body_rows(state));
    let extent = match state.dialog() {
        Some(dialog) => {
            let asked = asked(dialog, columns);
            Extent { rows, lines: asked.lines.len(), parts: Vec::new(), typed: asked.typed }
        }
        None => {
            let document = document(state, columns);
            Extent { rows, lines: document.lines.len(), parts: document.parts, typed: None }
        }
    };
    state.fit(extent);
    effect
}
