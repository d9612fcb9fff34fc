//! What somebody looks at and is asked, and how it changes.

use crate::shown::{Location, Shown, Wants, What};
use berth_follow::{
    act::{ActionFields, Prepared, Question, Refusal, Verb},
    board::Card,
};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use std::{ops::Range, sync::Arc};

/// No longer text can be typed in.
const TYPED_MAX: usize = 500;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// What it types.
    Char(char),
    /// The same with Ctrl.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Esc.
    Esc,
    /// To the next part.
    Tab,
    /// To the part before.
    BackTab,
    /// Takes back a character.
    Backspace,
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
}

/// Something that changes what is seen.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody has pressed a key.
    Key(Key),
    /// The terminal has so many columns and rows.
    Resized(u16, u16),
    /// The cluster was looked at.
    Shown(Shown),
    /// What was to be asked first: of what, and what comes of it.
    Prepared(Ask, Result<Prepared, Refusal>),
    /// Whether it was done.
    Done(Ask, Result<(), Refusal>),
}

/// What is to be done, to what, and what was said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// To what.
    pub id: WorkloadId,
    /// What.
    pub verb: Verb,
    /// How.
    pub said: ActionFields,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is to be seen any more.
    End(Ending),
    /// Gives the terminal back to the shell until it is asked for again.
    Suspend,
    /// Finds out what would happen.
    Prepare(Ask),
    /// Does it: somebody has said yes.
    CarryOut(Ask),
}

/// How somebody has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As one does.
    Left,
    /// By Ctrl-C.
    Interrupted,
}

/// What stands before the rest until it is answered.
#[derive(Clone, Debug)]
pub(crate) enum Dialog {
    Help,
    /// The cluster is asked.
    Waiting(Ask),
    Replicas {
        ask: Ask,
        now: i64,
        typed: String,
    },
    Image {
        ask: Ask,
        containers: Vec<(String, String)>,
        /// Which of them.
        chosen: usize,
        typed: String,
    },
    Question(Ask, Question),
    Refused(Refusal),
}

/// How much there is, and how much of it there is room for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) rows: usize,
    pub(crate) lines: usize,
    /// Lines at which parts begin.
    pub(crate) parts: Vec<usize>,
    /// What of a dialog is typed in: it stays in view.
    pub(crate) typed: Option<Range<usize>>,
}

/// How far somebody has read what stands before the rest.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// How many lines of it are above the screen.
    scroll: usize,
    /// So many lines, from the first on, were on the screen at this size.
    seen: usize,
}

/// All that a screen is made of. [`step`](crate::step()) moves it on.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// Which cluster it is, and what of it is followed.
    title: String,
    place: Location,
    /// Where it began: Esc leaves there.
    first: Location,
    size: (u16, u16),
    shown: Option<Shown>,
    search: String,
    is_searching: bool,
    chosen: Option<WorkloadId>,
    /// How many lines of the document are above the screen.
    scroll: usize,
    extent: Extent,
    dialog: Option<Dialog>,
    reading: Reading,
    /// What became of what was asked for.
    told: Option<String>,
}

impl WatchState {
    /// Nothing is known as yet. `title`: which cluster, and what of it; `search`: what the list begins with.
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
            told: None,
        }
    }

    /// What is to be read for it.
    #[must_use]
    pub fn wants(&self) -> Wants {
        Wants { place: self.place.clone(), search: self.search.clone() }
    }

    /// Takes in what has happened. What is on the screen is to be fitted into it afterwards.
    pub(crate) fn take(&mut self, event: Event) -> Option<Effect> {
        match event {
            Event::Key(key) => return self.key(key),
            // Lines are broken elsewhere now.
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

    /// The screen is filled as long as there is something to fill it with, and has the chosen workload on it.
    pub(crate) fn fit(&mut self, extent: Extent) {
        self.extent = extent;
        if self.dialog.is_some() {
            return self.fit_dialog();
        }
        // What comes may be as long as what was.
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
        // Who jumps to the end has not seen what stands between.
        if *scroll <= *seen {
            *seen = (*seen).max(*scroll + *rows).min(*lines);
        }
    }

    /// Something else is asked, or said, from its beginning.
    fn open(&mut self, dialog: Dialog) {
        (self.dialog, self.reading) = (Some(dialog), Reading::default());
    }

    fn show(&mut self, shown: Shown) {
        let is_of_this = matches!(
            (&shown.what, &self.place),
            (What::List(_), Location::List) | (What::Workload(_) | What::Missing, Location::Workload(_))
        );
        // It was read before somebody went elsewhere.
        if !is_of_this {
            return;
        }
        if let What::List(all) = &shown.what {
            let is_there = |id: &WorkloadId| all.iter().any(|(of, _)| of == id);
            if !self.chosen.as_ref().is_some_and(is_there) {
                // The one that has come to its place.
                let place = self.chosen_place().unwrap_or(0).min(all.len().saturating_sub(1));
                self.chosen = all.get(place).map(|(id, _)| id.clone());
            }
        }
        self.shown = Some(shown);
    }

    fn prepared(&mut self, ask: Ask, prepared: Result<Prepared, Refusal>) {
        // Nobody waits for it any more.
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
                self.told = Some(format!("{}: {}", ask.id.title(), ask.verb.done()));
                self.dialog = self.dialog.take().filter(|_| !is_waited_for);
            }
            Err(refusal) if is_waited_for => self.open(Dialog::Refused(refusal)),
            Err(refusal) => self.told = Some(format!("Nothing was done: {refusal}.")),
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
        self.told = None;
        match (key, self.place.clone()) {
            (Key::Char('q'), _) => return Some(Effect::End(Ending::Left)),
            (Key::Esc, Location::List) if !self.search.is_empty() && self.first == Location::List => self.look_for(String::new()),
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

    /// What a key does to the workload that is looked at, or chosen: it is asked first.
    fn verb(&mut self, char: char) -> Option<Effect> {
        let (id, card) = self.subject()?;
        let verb = match char {
            'p' if card.is_paused => Verb::Resume,
            _ => VERBS.into_iter().find(|(key, _)| *key == char)?.1,
        };
        Some(self.prepare(Ask { id, verb, said: ActionFields::new() }))
    }

    fn prepare(&mut self, ask: Ask) -> Effect {
        self.open(Dialog::Waiting(ask.clone()));
        Effect::Prepare(ask)
    }

    /// Moves within what is longer than the screen; whether the key does that.
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
            // Whatever it is, it is left so; what is being done goes on.
            (_, Key::Esc) | (Dialog::Help | Dialog::Refused(..), _) | (Dialog::Question(..), Key::Char('n' | 'q')) => None,
            (Dialog::Question(ask, question), Key::Char('y')) if self.left_to_read() == 0 => {
                let said = [("uid".to_owned(), question.uid), ("generation".to_owned(), question.generation.to_string())];
                let ask = Ask { said: ask.said.into_iter().chain(said).collect(), ..ask };
                self.open(Dialog::Waiting(ask.clone()));
                Some(Effect::CarryOut(ask))
            }
            (Dialog::Replicas { mut ask, typed, .. }, Key::Enter) if !typed.is_empty() => {
                ask.said.insert("replicas".to_owned(), typed);
                Some(self.prepare(ask))
            }
            (Dialog::Image { mut ask, containers, chosen, typed }, Key::Enter) if !typed.trim().is_empty() => {
                let container = containers.get(chosen).map(|(name, _)| name.clone()).unwrap_or_default();
                ask.said.extend([("container".to_owned(), container), ("image".to_owned(), typed)]);
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
                self.look_for(String::new());
            }
            Key::Up => self.choose(|place, _| place.saturating_sub(1)),
            Key::Down => self.choose(|place, _| place + 1),
            key => {
                let mut search = self.search.clone();
                type_in(&mut search, key, |char| !char.is_control());
                self.look_for(search);
            }
        }
    }

    fn look_for(&mut self, search: String) {
        (self.search, self.scroll) = (search, 0);
        self.narrow();
    }

    /// What is known already is narrowed down at once; the next look tells the rest.
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

    /// The workload that keys are about.
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

    /// How many lines of the dialog are above the screen.
    pub(crate) fn dialog_scroll(&self) -> usize {
        self.reading.scroll
    }

    /// How many lines of the dialog were not on the screen yet: what somebody cannot have read they cannot answer.
    pub(crate) fn left_to_read(&self) -> usize {
        self.extent.lines.saturating_sub(self.reading.seen)
    }

    /// Whether nothing can be read: there is no room for a line.
    pub(crate) fn is_too_small(&self) -> bool {
        self.extent.rows == 0
    }

    pub(crate) fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }

    /// What is searched for, and whether it is being typed.
    pub(crate) fn search(&self) -> (&str, bool) {
        (&self.search, self.is_searching)
    }
}

/// Which key does what; that of pausing resumes what is paused.
pub(crate) const VERBS: [(char, Verb); 7] = [
    ('u', Verb::Undo),
    ('p', Verb::Pause),
    ('p', Verb::Resume),
    ('r', Verb::Restart),
    ('s', Verb::Scale),
    ('i', Verb::SetImage),
    ('n', Verb::Promote),
];

/// The keys of what makes sense for a workload as it is.
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
