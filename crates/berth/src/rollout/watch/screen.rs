//! The terminal: acquired, drawn on, and restored in every case.

use berth_terminal::{Colors, Key, WatchState, draw};
use crossterm::{
    cursor::Show,
    event::{self, KeyCode, KeyEventKind, KeyModifiers},
    execute,
    terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use ratatui::{Terminal, backend::CrosstermBackend};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    io::{self, Stdout, stdout},
    panic,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use tokio::sync::mpsc;

/// Whether the terminal is acquired. The first code that reads this at the end restores it.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal in use. Dropping it restores the former state.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Acquires the terminal.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub(super) fn enter() -> io::Result<Self> {
        let before = panic::take_hook();
        // The message of a panic must be readable afterwards, on any thread.
        panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
        // From here on, dropping it restores the terminal.
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? };
        take()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        self.terminal.size().map(|size| (size.width, size.height))
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, state: &WatchState, colors: Colors) -> io::Result<()> {
        self.terminal.draw(|frame| draw(state, colors, frame.buffer_mut())).map(drop)
    }

    /// Returns the terminal to the shell and stops, as for Ctrl-Z. Continues when the shell resumes the process.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        leave();
        kill_process(getpid(), Signal::STOP)?;
        take()?;
        // Nothing is left of the former drawing. The cursor's position is not queried, because the answer would be mixed with the keys.
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn take() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))
}

fn leave() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that no longer exists needs no restoring.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// An input of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(Key),
    Resized(u16, u16),
    /// An input without a meaning.
    Other,
}

/// The inputs of the terminal from now on, until the process ends.
pub(super) fn input() -> mpsc::UnboundedReceiver<io::Result<Input>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // The thread waits for the user, and ends with the process.
    thread::spawn(move || {
        loop {
            let read = event::read().map(|event| meant(&event));
            let is_over = read.is_err();
            if sender.send(read).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

fn meant(event: &event::Event) -> Input {
    match event {
        event::Event::Resize(columns, rows) => Input::Resized(*columns, *rows),
        event::Event::Key(key) if key.kind != KeyEventKind::Release => key_meant(key.code, key.modifiers).map_or(Input::Other, Input::Key),
        _ => Input::Other,
    }
}

fn key_meant(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char(char) if modifiers.contains(KeyModifiers::CONTROL) => Key::Ctrl(char.to_ascii_lowercase()),
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Event, KeyEvent};

    #[test]
    fn keys_mean_what_is_on_them_once() {
        let pressed = |code, modifiers| meant(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(pressed(KeyCode::Char('C'), KeyModifiers::CONTROL), Input::Key(Key::Ctrl('c')));
        assert_eq!(pressed(KeyCode::Char('Q'), KeyModifiers::SHIFT), Input::Key(Key::Char('Q')));
        assert_eq!(pressed(KeyCode::F(1), KeyModifiers::NONE), Input::Other);
        let released = KeyEvent::new_with_kind(KeyCode::Char('u'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(meant(&Event::Key(released)), Input::Other);
        assert_eq!(meant(&Event::Resize(20, 5)), Input::Resized(20, 5));
    }
}
