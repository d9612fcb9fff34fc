//! `berth rollout watch` on a real terminal.
#![expect(clippy::unwrap_used, reason = "tests")]

/// The code that takes and restores the terminal. No option makes `berth` panic, so this code panics in a process of the tests.
#[path = "../../src/rollout/watch/screen.rs"]
#[expect(dead_code, reason = "what is typed and drawn is tried in `berth` itself")]
mod screen;

use crate::common::{Berth, deployment, terminal::Terminal, until, up};
use berth_terminal::{Colors, Location, WatchState};
use screen::Screen;
use std::{
    env,
    io::{Read, Write, stdin},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

const SMALL: (u16, u16) = (5, 20);
const USUAL: (u16, u16) = (24, 80);
const LARGE: (u16, u16) = (60, 200);

/// A way to end the command: its name, the user's action, and the exit code.
type Leaving = (&'static str, fn(&mut Terminal), i32);

/// A server with a Deployment whose rollout is complete.
fn server() -> Berth {
    let folder = tempfile::TempDir::new().unwrap();
    let manifest = folder.path().join("web.yaml");
    std::fs::write(&manifest, deployment("web", 2, "web:1")).unwrap();
    let mut berth = up(&["--store", "memory", "--nodes", "2", "-f", manifest.to_str().unwrap()]);
    berth.line_with("Running.");
    berth
}

#[test]
fn a_terminal_is_as_it_was_whatever_ends_the_watch() {
    let berth = server();
    let ways: [Leaving; 5] = [
        ("q", |terminal| terminal.types("q"), 0),
        ("Esc", |terminal| terminal.types("\u{1b}"), 0),
        ("Ctrl-C", |terminal| terminal.types("\u{3}"), 130),
        ("SIGTERM", |terminal| terminal.signal("TERM"), 143),
        ("SIGHUP", |terminal| terminal.signal("HUP"), 129),
    ];
    for ((way, leave, code), size) in ways.into_iter().zip([USUAL, SMALL, LARGE].into_iter().cycle()) {
        let mut terminal = berth.watch(&["deployment/web"], size);
        terminal.until_shows("deployment/web");
        assert!(!terminal.is_given_back(), "{way}: it is drawn on");
        leave(&mut terminal);
        assert_eq!(terminal.ends(), Some(code), "{way}");
    }
    // The command has not taken the terminal yet: it prints the error, and the terminal remains unchanged.
    let mut terminal = berth.watch(&["deployment/none"], USUAL);
    assert_eq!(terminal.ends(), Some(1));
    terminal.until_shows("deployments.apps \"none\" not found");
}

/// Selects the thread that panics in the process of the test below.
const PANICS: &str = "BERTH_TEST_PANICS";

/// The process of the test below, if that test has set the variable. Otherwise does nothing.
#[test]
fn in_a_process_of_its_own_a_thread_panics_while_the_terminal_is_taken() {
    let Ok(thread) = env::var(PANICS) else { return };
    let mut screen = Screen::enter().unwrap();
    screen.draw(&WatchState::new("a cluster".to_owned(), Location::List, String::new()), Colors::Off).unwrap();
    stdin().read_exact(&mut [0]).unwrap();
    if thread == "own" {
        panic!("it fell over its own feet");
    }
    let _ = thread::spawn(|| panic!("it fell over its own feet")).join();
    // Only the panic itself restores the terminal, because the screen still exists.
    loop {
        thread::park();
    }
}

#[test]
fn after_a_panic_the_terminal_is_restored_and_shows_the_message() {
    for thread in ["own", "another"] {
        let arguments = ["--exact", "watch::in_a_process_of_its_own_a_thread_panics_while_the_terminal_is_taken", "--nocapture"];
        let mut terminal = Terminal::start(&env::current_exe().unwrap(), &arguments, &[(PANICS, thread)], USUAL);
        terminal.until("it is drawn on", |screen| screen.alternate_screen() && screen.contents().contains("Reading the cluster"));
        assert!(!terminal.is_given_back());
        terminal.types("x");
        terminal
            .until("it says what happened", |screen| !screen.alternate_screen() && screen.contents().contains("it fell over its own feet"));
        until("its settings are as before", || terminal.is_given_back());
        if thread == "own" {
            assert_eq!(terminal.ends(), Some(101));
        }
    }
}

#[test]
fn it_is_redrawn_for_every_size() {
    let berth = server();
    let mut terminal = berth.watch(&["deployment/web"], USUAL);
    let shown = terminal.until_shows("2 of 2 available");
    assert!(!shown.contains("Revisions"), "there is no room for them: {shown}");
    terminal.resize(LARGE.0, LARGE.1);
    terminal.until_shows("Revisions");
    terminal.resize(SMALL.0, SMALL.1);
    terminal.until("it fits", |screen| screen.contents().lines().count() <= 5 && screen.contents().contains("? help"));
    terminal.resize(USUAL.0, USUAL.1);
    terminal.until_shows("q leave");
    terminal.types("q");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_key_and_a_size_that_come_at_once_both_count() {
    let berth = server();
    let mut terminal = berth.watch(&["deployment/web"], USUAL);
    terminal.until_shows("2 of 2 available");
    // The system decides which event the program sees first. Thirty attempts cover both orders, and both events in one read.
    for size in [LARGE, USUAL].into_iter().cycle().take(30) {
        terminal.resize(size.0, size.1);
        terminal.types("p");
        terminal.until_shows("Pause deployment/web in default?");
        terminal.types("n");
        terminal.until("the size", |screen| {
            let shown = screen.contents();
            shown.contains("q leave") && shown.contains("Revisions") == (size == LARGE)
        });
    }
    terminal.types("q");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn what_keys_ask_is_done_after_a_yes_and_not_before() {
    let berth = server();
    let mut terminal = berth.watch(&[], USUAL);
    terminal.until_shows("› web");
    terminal.types("/we\r\r");
    terminal.until_shows("deployment/web in default");
    let replicas = || berth.rollout(&["status", "deployment/web", "--watch=false", "-o", "json"]).contains(r#""wanted":4"#);
    terminal.types("s");
    terminal.until_shows("How many pods, now 2");
    terminal.types("4\r");
    terminal.until_shows("It scales from 2 pods to 4 pods.");
    terminal.until_shows("2 pods are created, 2 stay.");
    terminal.types("n");
    terminal.until_shows("s scale");
    assert!(!replicas(), "not confirmed yet");
    terminal.types("s");
    terminal.until_shows("How many pods, now 2");
    terminal.types("4\r");
    terminal.until_shows("y: Scale");
    terminal.types("y");
    terminal.until_shows("deployment/web: Scaled.");
    assert!(replicas());
    terminal.types("p");
    terminal.until_shows("Pause deployment/web in default?");
    terminal.types("y");
    terminal.until_shows("Paused.");
    let refused = berth.rollout_fails(&["pause", "deployment/web"]);
    assert!(refused.contains("already paused"), "{refused}");
    terminal.types("q");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn it_is_suspended_and_goes_on() {
    let berth = server();
    let mut terminal = berth.watch(&["deployment/web"], USUAL);
    terminal.until_shows("q leave");
    terminal.types("\u{1a}");
    until("it is stopped", || terminal.state() == 'T');
    until("the terminal is the shell's", || terminal.is_given_back());
    terminal.signal("CONT");
    terminal.until("it is drawn on again", |screen| screen.alternate_screen() && screen.contents().contains("q leave"));
    terminal.types("q");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_lost_connection_is_reported_and_restored() {
    let berth = server();
    let way = Way::to(&berth);
    let server = format!("https://127.0.0.1:{}", way.port);
    let mut terminal = berth.watch(&["deployment/web", "--server", &server], LARGE);
    terminal.until_shows("Revisions");
    way.close();
    terminal.until_shows("No connection");
    berth.rollout(&["restart", "deployment/web"]);
    way.open();
    terminal.until("it knows what happened meanwhile", |screen| {
        let contents = screen.contents();
        !contents.contains("No connection") && contents.contains("#2")
    });
    terminal.types("q");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn without_a_terminal_it_prints_lines_until_the_rollout_is_complete() {
    let berth = server();
    // Its pods must stay available for a while first.
    let lines = berth.rollout(&["watch", "deployment/web"]);
    assert!(lines.ends_with("deployment \"web\" successfully rolled out\n"), "{lines}");
    assert_eq!(berth.rollout(&["watch"]), "deployment \"web\" successfully rolled out\n");
    let complaint = berth.rollout_fails(&["watch", "deployment/none"]);
    assert!(complaint.contains("not found"), "{complaint}");
}

/// A proxy to the server that the test can close.
struct Way {
    port: u16,
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Way {
    fn to(berth: &Berth) -> Self {
        let kubeconfig = std::fs::read_to_string(berth.kubeconfig()).unwrap();
        let server = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: https://")).unwrap().trim_matches('"').to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let way = Self { port: listener.local_addr().unwrap().port(), open: Arc::new(Mutex::new(Some(Vec::new()))) };
        let open = Arc::clone(&way.open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut open = open.lock().unwrap();
                let Some(connections) = open.as_mut() else { continue };
                let server = TcpStream::connect(server.as_str()).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || copy(from, to));
                }
                connections.extend([client, server]);
            }
        });
        way
    }

    fn close(&self) {
        for connection in self.open.lock().unwrap().take().into_iter().flatten() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap() = Some(Vec::new());
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
