//! One step on: what has happened is taken in, and what is seen is fitted into the screen.

use crate::{
    document::document,
    draw::body_rows,
    state::{Effect, Event, Extent, State},
};

/// Takes in what has happened; says what is to be done.
pub fn step(state: &mut State, event: Event) -> Option<Effect> {
    let effect = state.take(event);
    let document = document(state, state.size().0);
    state.fit(Extent { rows: body_rows(state), lines: document.lines.len(), parts: document.parts });
    effect
}
