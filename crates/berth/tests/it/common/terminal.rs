//! A terminal with a user: its screen and the user's input.

use super::{PATIENCE, end_of};
use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::Path,
    process::{Child, Command},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Instant,
};

/// Both ends of a pseudo-terminal of this size: the screen's, and the one that programs write to.
pub(crate) fn pair((rows, columns): (u16, u16)) -> (OwnedFd, File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    tcsetwinsize(&screen, size(rows, columns)).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    // The open call must not make it the controlling terminal of this process.
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    (screen, File::options().read(true).write(true).custom_flags(flags).open(name.to_str().unwrap()).unwrap())
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// A program, usually `berth`, on a separate terminal.
pub(crate) struct Terminal {
    child: Child,
    screen: File,
    /// Remains open, so that the test can read its settings after the child's end.
    line: File,
    shown: Arc<(Mutex<vt100::Parser>, Condvar)>,
    settings: String,
}

impl Terminal {
    /// `berth` with these arguments.
    pub(crate) fn run(arguments: &[&str], size: (u16, u16)) -> Self {
        Self::start(Path::new(env!("CARGO_BIN_EXE_berth")), arguments, &[], size)
    }

    /// The child leads its own session, as in a user's terminal, so that it receives sizes and signals in the same way.
    pub(crate) fn start(program: &Path, arguments: &[&str], variables: &[(&str, &str)], (rows, columns): (u16, u16)) -> Self {
        let (screen, line) = pair((rows, columns));
        let settings = settings(&line);
        let end = || line.try_clone().unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(arguments).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.envs(variables.iter().copied());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let shown = Arc::new((Mutex::new(vt100::Parser::new(rows, columns, 0)), Condvar::new()));
        let (told, mut screen) = (Arc::clone(&shown), File::from(screen));
        let mut reader = screen.try_clone().unwrap();
        screen.flush().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                told.0.lock().unwrap().process(&buffer[..read]);
                told.1.notify_all();
            }
        });
        Self { child, screen, line, shown, settings }
    }

    /// Waits until the screen meets the condition. Returns its text.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) -> String {
        let started = Instant::now();
        let mut parser = self.shown.0.lock().unwrap();
        while !is_so(parser.screen()) {
            let left = PATIENCE.checked_sub(started.elapsed());
            let left = left.unwrap_or_else(|| panic!("{what}: not within {PATIENCE:?}:\n{}", parser.screen().contents()));
            parser = self.shown.1.wait_timeout(parser, left).unwrap().0;
        }
        parser.screen().contents()
    }

    pub(crate) fn until_shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contents().contains(text))
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.screen.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.shown.0.lock().unwrap().screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.screen, size(rows, columns)).unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// The process state that the system reports: `S` for waiting, `T` for stopped.
    pub(crate) fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap()
    }

    /// Whether the program has restored the terminal: settings, screen and cursor.
    pub(crate) fn is_given_back(&self) -> bool {
        let parser = self.shown.0.lock().unwrap();
        settings(&self.line) == self.settings && !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
    }

    /// Waits for the program's end. Returns its exit code. Checks that the terminal is restored.
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let status = end_of(&mut self.child);
        // The test may not have read its last output yet.
        self.until("the screen as it was", |screen| !screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(settings(&self.line), self.settings);
        status.code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(line: &File) -> String {
    let all = tcgetattr(line).unwrap();
    format!("{:?} {:?} {:?} {:?} {:?}", all.input_modes, all.output_modes, all.control_modes, all.local_modes, all.special_codes)
}
