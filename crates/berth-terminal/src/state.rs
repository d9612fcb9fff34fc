//! The view, the dialog, and how events change them.

use crate::shown::{Location, Shown, Wants, What};
use berth_follow::{
    act::{ActionFields, Prepared, Question, Refusal, Verb},
    board::Card,
};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use std::{ops::Range, sync::Arc};

/// The maximum length of typed text.
const TYPED_MAX: usize = 500;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A character with Ctrl.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Esc.
    Esc,
    /// Moves to the next part.
    Tab,
    /// Moves to the previous part.
    BackTab,
    /// Deletes a character.
    Backspace,
    /// Moves up one line.
    Up,
    /// Moves down one line.
    Down,
    /// Moves up one screen.
    PageUp,
    /// Moves down one screen.
    PageDown,
    /// Moves to the beginning.
    Home,
    /// Moves to the end.
    End,
}

/// An event that changes the screen.
#[derive(Clone, Debug)]
pub enum Event {
    /// The user pressed a key.
    Key(Key),
    /// The terminal has a new size, in columns and rows.
    Resized(u16, u16),
    /// The caller read the cluster.
    Shown(Shown),
    /// The caller prepared an action, with the question for the user.
    Prepared(Ask, Result<Prepared, Refusal>),
    /// The caller executed an action.
    Done(Ask, Result<(), Refusal>),
}

/// An action: its workload, its verb and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The workload.
    pub id: WorkloadId,
    /// The verb.
    pub verb: Verb,
    /// The parameters.
    pub fields: ActionFields,
}

/// An effect that the caller must execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ends the watch.
    End(Ending),
    /// Suspends until the shell resumes the process.
    Suspend,
    /// Prepares the action: finds out its consequences.
    Prepare(Ask),
    /// Executes the action, which the user confirmed.
    Execute(Ask),
}

/// How the user ended the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By a key of the program.
    Left,
    /// By Ctrl-C.
    Interrupted,
}

/// A dialog, which replaces the document until the user answers it.
#[derive(Clone, Debug)]
pub(crate) enum Dialog {
    Help,
    /// The caller prepares the action.
    Waiting(Ask),
    Replicas {
        ask: Ask,
        now: i64,
        typed: String,
    },
    Image {
        ask: Ask,
        containers: Vec<(String, String)>,
        /// The selected container.
        chosen: usize,
        typed: String,
    },
    Question(Ask, Question),
    Refused(Refusal),
}

/// The size of the content, and the room for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) rows: usize,
    pub(crate) lines: usize,
    /// The lines at which parts begin.
    pub(crate) parts: Vec<usize>,
    /// The lines with the input field, which stay visible.
    pub(crate) typed: Option<Range<usize>>,
}

/// How far the user has read a dialog.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// The number of lines above the screen.
    scroll: usize,
    /// The number of lines, from the first one on, that were on the screen at this size.
    seen: usize,
}

/// Everything that a screen shows. [`step`](crate::step()) changes it.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// The cluster, and the watched part of it.
    title: String,
    place: Location,
    /// The first view. Esc ends the watch there.
    first: Location,
    size: (u16, u16),
    shown: Option<Shown>,
    search: String,
    is_searching: bool,
    chosen: Option<WorkloadId>,
    /// The number of lines of the document above the screen.
    scroll: usize,
    extent: Extent,
    dialog: Option<Dialog>,
    reading: Reading,
    /// The result of the last action.
    last_result: Option<String>,
}

impl WatchState {
    /// Returns a state without data. `title` names the cluster and the watched part. `search` is the initial search
    /// text.
    #[must_use]
    pub fn new(title: String, place: Location, search: String) -> Self {
        Self {
            title,
            first: place.clone(),
            place,
            size: (80, 24),
            shown: None,
            search,
            is_searching: false,
            chosen: None,
            scroll: 0,
            extent: Extent::default(),
            dialog: None,
            reading: Reading::default(),
            last_result: None,
        }
    }

    /// Returns what the caller must read.
    #[must_use]
    pub fn wants(&self) -> Wants {
        Wants { place: self.place.clone(), search: self.search.clone() }
    }

    /// Applies an event. The caller then calls [`Self::fit`].
    pub(crate) fn take(&mut self, event: Event) -> Option<Effect> {
        match event {
            Event::Key(key) => return self.key(key),
            // A new size changes the line breaks.
            Event::Resized(columns, rows) if self.size != (columns, rows) => {
                (self.size, self.reading) = ((columns, rows), Reading::default());
            }
            Event::Resized(..) => (),
            Event::Shown(shown) => self.show(shown),
            Event::Prepared(ask, prepared) => self.prepared(ask, prepared),
            Event::Done(ask, done) => self.done(ask, done),
        }
        None
    }

    /// Limits the scroll positions, so that content fills the screen and the selected workload is visible.
    pub(crate) fn fit(&mut self, extent: Extent) {
        self.extent = extent;
        if self.dialog.is_some() {
            return self.fit_dialog();
        }
        // The content that is still loading may be as long as the previous one.
        if self.shown.is_none() {
            return;
        }
        let rows = self.rows();
        if let Some(place) = self.chosen_place() {
            self.scroll = self.scroll.clamp((place + 1).saturating_sub(rows), place);
        }
        self.scroll = self.scroll.min(self.extent.lines.saturating_sub(rows));
    }

    fn fit_dialog(&mut self) {
        let Extent { rows, lines, typed, .. } = &self.extent;
        let Reading { scroll, seen } = &mut self.reading;
        if let Some(typed) = typed {
            *scroll = (*scroll).clamp(typed.end.saturating_sub(*rows).min(typed.start), typed.start);
        }
        *scroll = (*scroll).min(lines.saturating_sub(*rows));
        // A jump to the end skips lines, which count as unread.
        if *scroll <= *seen {
            *seen = (*seen).max(*scroll + *rows).min(*lines);
        }
    }

    /// Opens a dialog at its beginning.
    fn open(&mut self, dialog: Dialog) {
        (self.dialog, self.reading) = (Some(dialog), Reading::default());
    }

    fn show(&mut self, shown: Shown) {
        let is_of_this = matches!(
            (&shown.what, &self.place),
            (What::List(_), Location::List) | (What::Workload(_) | What::Missing, Location::Workload(_))
        );
        // The caller read it for the previous view.
        if !is_of_this {
            return;
        }
        if let What::List(all) = &shown.what {
            let is_there = |id: &WorkloadId| all.iter().any(|(of, _)| of == id);
            if !self.chosen.as_ref().is_some_and(is_there) {
                // The workload that took its position.
                let place = self.chosen_place().unwrap_or(0).min(all.len().saturating_sub(1));
                self.chosen = all.get(place).map(|(id, _)| id.clone());
            }
        }
        self.shown = Some(shown);
    }

    fn prepared(&mut self, ask: Ask, prepared: Result<Prepared, Refusal>) {
        // The user closed the dialog in the meantime.
        if !matches!(&self.dialog, Some(Dialog::Waiting(of)) if *of == ask) {
            return;
        }
        self.open(match prepared {
            Ok(Prepared::Question(question)) => Dialog::Question(ask, question),
            Ok(Prepared::Replicas { now }) => Dialog::Replicas { ask, now, typed: String::new() },
            Ok(Prepared::Image { containers }) => {
                let typed = containers.first().map(|(_, image)| image.clone()).unwrap_or_default();
                Dialog::Image { ask, containers, chosen: 0, typed }
            }
            Err(refusal) => Dialog::Refused(refusal),
        });
    }

    fn done(&mut self, ask: Ask, done: Result<(), Refusal>) {
        let is_waited_for = matches!(&self.dialog, Some(Dialog::Waiting(of)) if *of == ask);
        match done {
            Ok(()) => {
                self.last_result = Some(format!("{}: {}", ask.id.title(), ask.verb.done()));
                self.dialog = self.dialog.take().filter(|_| !is_waited_for);
            }
            Err(refusal) if is_waited_for => self.open(Dialog::Refused(refusal)),
            Err(refusal) => self.last_result = Some(format!("Nothing was done: {refusal}.")),
        }
    }

    fn key(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Ctrl('c') => return Some(Effect::End(Ending::Interrupted)),
            Key::Ctrl('z') => return Some(Effect::Suspend),
            _ => (),
        }
        if let Some(dialog) = self.dialog.take() {
            return self.answer(dialog, key);
        }
        if self.is_searching {
            self.search_key(key);
            return None;
        }
        self.last_result = None;
        match (key, self.place.clone()) {
            (Key::Char('q'), _) => return Some(Effect::End(Ending::Left)),
            (Key::Esc, Location::List) if !self.search.is_empty() && self.first == Location::List => self.search_for(String::new()),
            (Key::Esc, place) if place == self.first => return Some(Effect::End(Ending::Left)),
            (Key::Esc, _) => self.go(self.first.clone()),
            (Key::Char('w'), Location::Workload(_)) => self.go(Location::List),
            (Key::Char('?'), _) => self.open(Dialog::Help),
            (Key::Char('/'), Location::List) => self.is_searching = true,
            (Key::Enter, Location::List) => {
                if let Some(id) = self.chosen.clone() {
                    self.go(Location::Workload(id));
                }
            }
            (Key::Up | Key::Char('k'), Location::List) => self.choose(|place, _| place.saturating_sub(1)),
            (Key::Down | Key::Char('j'), Location::List) => self.choose(|place, _| place + 1),
            (Key::PageUp, Location::List) => self.choose(usize::saturating_sub),
            (Key::PageDown, Location::List) => self.choose(|place, rows| place + rows),
            (Key::Home, Location::List) => self.choose(|_, _| 0),
            (Key::End, Location::List) => self.choose(|_, _| usize::MAX),
            (Key::Up | Key::Char('k'), _) => self.scroll = self.scroll.saturating_sub(1),
            (Key::Down | Key::Char('j'), _) => self.scroll = self.scroll.saturating_add(1),
            (Key::PageUp, _) => self.scroll = self.scroll.saturating_sub(self.rows()),
            (Key::PageDown, _) => self.scroll = self.scroll.saturating_add(self.rows()),
            (Key::Home, _) => self.scroll = 0,
            (Key::End, _) => self.scroll = usize::MAX,
            (Key::Tab | Key::BackTab, _) => self.next_part(key == Key::Tab),
            (Key::Char(char), _) => return self.verb(char),
            _ => (),
        }
        None
    }

    /// Prepares the action of this key for the viewed or selected workload.
    fn verb(&mut self, char: char) -> Option<Effect> {
        let (id, card) = self.subject()?;
        let verb = match char {
            'p' if card.is_paused => Verb::Resume,
            _ => VERBS.into_iter().find(|(key, _)| *key == char)?.1,
        };
        Some(self.prepare(Ask { id, verb, fields: ActionFields::new() }))
    }

    fn prepare(&mut self, ask: Ask) -> Effect {
        self.open(Dialog::Waiting(ask.clone()));
        Effect::Prepare(ask)
    }

    /// Scrolls a dialog that is longer than the screen. Returns whether the key does that.
    fn reads_on(&mut self, dialog: &Dialog, key: Key) -> bool {
        let is_read = matches!(dialog, Dialog::Help | Dialog::Question(..) | Dialog::Refused(_));
        let Reading { scroll, .. } = &mut self.reading;
        *scroll = match key {
            _ if !is_read || self.extent.lines <= self.extent.rows => return false,
            Key::Up | Key::Char('k') => scroll.saturating_sub(1),
            Key::Down | Key::Char('j') => scroll.saturating_add(1),
            Key::PageUp => scroll.saturating_sub(self.extent.rows),
            Key::PageDown | Key::Char(' ') => scroll.saturating_add(self.extent.rows),
            Key::Home => 0,
            Key::End => usize::MAX,
            _ => return false,
        };
        true
    }

    fn answer(&mut self, dialog: Dialog, key: Key) -> Option<Effect> {
        if self.reads_on(&dialog, key) {
            self.dialog = Some(dialog);
            return None;
        }
        match (dialog, key) {
            // Closes the dialog. An action in progress continues.
            (_, Key::Esc) | (Dialog::Help | Dialog::Refused(..), _) | (Dialog::Question(..), Key::Char('n' | 'q')) => None,
            (Dialog::Question(ask, question), Key::Char('y')) if self.left_to_read() == 0 => {
                let fields = [("uid".to_owned(), question.uid), ("generation".to_owned(), question.generation.to_string())];
                let ask = Ask { fields: ask.fields.into_iter().chain(fields).collect(), ..ask };
                self.open(Dialog::Waiting(ask.clone()));
                Some(Effect::Execute(ask))
            }
            (Dialog::Replicas { mut ask, typed, .. }, Key::Enter) if !typed.is_empty() => {
                ask.fields.insert("replicas".to_owned(), typed);
                Some(self.prepare(ask))
            }
            (Dialog::Image { mut ask, containers, chosen, typed }, Key::Enter) if !typed.trim().is_empty() => {
                let container = containers.get(chosen).map(|(name, _)| name.clone()).unwrap_or_default();
                ask.fields.extend([("container".to_owned(), container), ("image".to_owned(), typed)]);
                Some(self.prepare(ask))
            }
            (Dialog::Replicas { ask, now, mut typed }, key) => {
                type_in(&mut typed, key, |char| char.is_ascii_digit());
                self.dialog = Some(Dialog::Replicas { ask, now, typed });
                None
            }
            (Dialog::Image { ask, containers, chosen, mut typed }, key) => {
                let before = chosen;
                let chosen = match key {
                    Key::Up => chosen.saturating_sub(1),
                    Key::Down | Key::Tab => (chosen + 1).min(containers.len().saturating_sub(1)),
                    _ => chosen,
                };
                if chosen == before {
                    type_in(&mut typed, key, |char| !char.is_control());
                } else {
                    typed.clone_from(&containers[chosen].1);
                }
                self.dialog = Some(Dialog::Image { ask, containers, chosen, typed });
                None
            }
            (dialog @ (Dialog::Waiting(_) | Dialog::Question(..)), _) => {
                self.dialog = Some(dialog);
                None
            }
        }
    }

    fn search_key(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_searching = false,
            Key::Esc => {
                self.is_searching = false;
                self.search_for(String::new());
            }
            Key::Up => self.choose(|place, _| place.saturating_sub(1)),
            Key::Down => self.choose(|place, _| place + 1),
            key => {
                let mut search = self.search.clone();
                type_in(&mut search, key, |char| !char.is_control());
                self.search_for(search);
            }
        }
    }

    fn search_for(&mut self, search: String) {
        (self.search, self.scroll) = (search, 0);
        self.narrow();
    }

    /// Filters the current data at once. The next read of the cluster adds the rest.
    fn narrow(&mut self) {
        let Some(Shown { what: What::List(all), .. }) = &mut self.shown else { return };
        all.retain(|(id, card)| card.matches(id, &self.search));
        if !all.iter().any(|(id, _)| Some(id) == self.chosen.as_ref()) {
            self.chosen = all.first().map(|(id, _)| id.clone());
        }
    }

    fn go(&mut self, place: Location) {
        if let Location::Workload(id) = &self.place {
            self.chosen = Some(id.clone());
        }
        (self.place, self.scroll, self.shown, self.is_searching) = (place, 0, None, false);
    }

    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        let place = self.chosen_place().unwrap_or(0);
        let rows = self.rows();
        let all = self.all();
        self.chosen = all.get(to(place, rows).min(all.len().saturating_sub(1))).map(|(id, _)| id.clone());
    }

    fn next_part(&mut self, forward: bool) {
        let parts = self.extent.parts.iter().copied();
        let next = if forward { parts.clone().find(|part| self.scroll < *part) } else { parts.rev().find(|part| *part < self.scroll) };
        self.scroll = next.unwrap_or(self.scroll);
    }

    fn rows(&self) -> usize {
        self.extent.rows.max(1)
    }

    fn all(&self) -> &[(WorkloadId, Arc<Card>)] {
        match self.shown.as_ref().map(|shown| &shown.what) {
            Some(What::List(all)) => all,
            _ => &[],
        }
    }

    fn chosen_place(&self) -> Option<usize> {
        self.all().iter().position(|(id, _)| Some(id) == self.chosen.as_ref())
    }

    /// Returns the workload to which the keys apply.
    pub(crate) fn subject(&self) -> Option<(WorkloadId, Arc<Card>)> {
        match (&self.shown.as_ref()?.what, &self.place) {
            (What::Workload(sheet), Location::Workload(id)) => Some((id.clone(), Arc::clone(&sheet.card))),
            (What::List(all), Location::List) => all.get(self.chosen_place()?).cloned(),
            _ => None,
        }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn place(&self) -> &Location {
        &self.place
    }

    pub(crate) fn is_first(&self) -> bool {
        self.place == self.first
    }

    pub(crate) fn size(&self) -> (usize, usize) {
        (usize::from(self.size.0), usize::from(self.size.1))
    }

    pub(crate) fn shown(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    pub(crate) fn chosen(&self) -> Option<&WorkloadId> {
        self.chosen.as_ref()
    }

    pub(crate) fn scroll(&self) -> usize {
        self.scroll
    }

    pub(crate) fn dialog(&self) -> Option<&Dialog> {
        self.dialog.as_ref()
    }

    /// Returns the number of lines of the dialog above the screen.
    pub(crate) fn dialog_scroll(&self) -> usize {
        self.reading.scroll
    }

    /// Returns the number of unread lines of the dialog. The user cannot confirm a question before this is 0.
    pub(crate) fn left_to_read(&self) -> usize {
        self.extent.lines.saturating_sub(self.reading.seen)
    }

    /// Whether the screen has no room for a line.
    pub(crate) fn is_too_small(&self) -> bool {
        self.extent.rows == 0
    }

    pub(crate) fn last_result(&self) -> Option<&str> {
        self.last_result.as_deref()
    }

    /// Returns the search text, and whether the user is typing it.
    pub(crate) fn search(&self) -> (&str, bool) {
        (&self.search, self.is_searching)
    }
}

/// The keys of the verbs. On a paused workload, the key for pausing resumes it.
pub(crate) const VERBS: [(char, Verb); 7] = [
    ('u', Verb::Undo),
    ('p', Verb::Pause),
    ('p', Verb::Resume),
    ('r', Verb::Restart),
    ('s', Verb::Scale),
    ('i', Verb::SetImage),
    ('n', Verb::Promote),
];

/// Returns the keys of the verbs that apply to the workload in its current state.
pub(crate) fn keys(kind: WorkloadKind, card: &Card) -> Vec<(char, Verb)> {
    let fits = Verb::of(kind, card);
    VERBS.into_iter().filter(|(_, verb)| fits.contains(verb)).collect()
}

fn type_in(text: &mut String, key: Key, takes: impl Fn(char) -> bool) {
    match key {
        Key::Char(char) if takes(char) && text.len() < TYPED_MAX => text.push(char),
        Key::Backspace => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        _ => (),
    }
}
