//! The end of `berth up` and `berth test`: signals, exit codes, and leftovers.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; a skipped one prints why")]

use crate::common::{self, Lines, PATIENCE, deployment, end_of, kubectl_is_here};
use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Instant,
};
use tempfile::TempDir;

const MEMORY: &[&str] = &["--store", "memory", "--secure-port", "0", "--nodes", "2"];

/// `berth` with its own home folder and its own temporary folder.
struct Run {
    folder: TempDir,
}

/// A `berth up` that has not ended yet.
struct Running<'a> {
    child: Child,
    lines: Lines,
    run: &'a Run,
}

impl Run {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> String {
        // The file is beside the temporary folder, which must be empty in the end.
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let temporary = self.folder.path().join("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(arguments).env("TMPDIR", temporary).env("HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    fn to_its_end(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn start(&self, arguments: &[&str]) -> Running<'_> {
        self.start_with(&[&["up"], MEMORY, arguments].concat())
    }

    fn start_with(&self, arguments: &[&str]) -> Running<'_> {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Running { child, lines, run: self }
    }

    fn leaves_nothing(&self) {
        let left: Vec<_> = fs::read_dir(self.folder.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Running<'_> {
    fn line_with(&mut self, text: &str) -> String {
        self.lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("it ended without {text:?}"))
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Its exit code after its end, without output on standard error and without leftovers.
    fn ends_cleanly(self) -> Option<i32> {
        let (code, complaints) = self.ends();
        assert_eq!(complaints, "");
        code
    }

    /// Its exit code after its end without leftovers, and its standard error.
    fn ends(mut self) -> (Option<i32>, String) {
        let mut complaints = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        let status = end_of(&mut self.child);
        self.run.leaves_nothing();
        (status.code(), complaints)
    }
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

fn ended_with(output: &Output, code: i32) -> (String, String) {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(code), "{texts:?}");
    let [stdout, stderr] = texts;
    (stdout, stderr)
}

fn failing(how: &str) -> String {
    let annotations = format!("    metadata:\n      annotations: {{sim.berth.dev/fails: {how}}}\n");
    deployment("web", 2, "web:1")
        .replace("    metadata:\n", &annotations)
        .replace("spec:\n  replicas", "spec:\n  progressDeadlineSeconds: 3\n  replicas")
}

#[test]
fn a_signal_during_a_rollout_is_a_clean_end() {
    for name in ["INT", "TERM"] {
        let run = Run::new();
        let (manifest, kubeconfig) = (run.file("web.yaml", &failing("NeverReady")), run.folder.path().join("tmp/config"));
        let mut up = run.start(&["-f", &manifest, "--kubeconfig-file", kubeconfig.to_str().unwrap()]);
        up.line_with("deployment.apps/web created");
        assert!(kubeconfig.exists());
        up.signal(name);
        assert_eq!(up.ends_cleanly(), Some(0), "{name}");
    }
}

#[test]
fn a_signal_while_running_is_a_clean_end() {
    for name in ["INT", "TERM", "HUP"] {
        let run = Run::new();
        let mut up = run.start(&[]);
        assert_eq!(up.line_with("Running."), "Running. Ctrl-C stops it and deletes all objects.");
        up.signal(name);
        assert_eq!(up.ends_cleanly(), Some(0), "{name}");
    }
}

/// An administrator's request with an endless body, as soon as the server handles it.
fn endless(kubeconfig: &str) -> Child {
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        command.args(["--kubeconfig", kubeconfig]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let mut child = kubectl(&["create", "--raw", "/api/v1/namespaces/default/configmaps", "-f", "-"]).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"{").unwrap();
    let started = Instant::now();
    let is_served = || {
        let metrics = kubectl(&["get", "--raw", "/metrics"]).output().unwrap();
        String::from_utf8_lossy(&metrics.stdout).contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 1")
    };
    while !is_served() {
        assert!(started.elapsed() < PATIENCE, "it is not served");
    }
    child
}

#[test]
fn a_second_signal_ends_what_the_first_has_not() {
    if !kubectl_is_here() {
        return;
    }
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let run = Run::new();
        let kubeconfig = run.folder.path().join("config");
        let mut up = run.start(&["--kubeconfig-file", kubeconfig.to_str().unwrap()]);
        let ready = up.line_with("API server ready at");
        let address = ready.split("https://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        // A silent connection does not delay the end. A request in progress does.
        let _silent = TcpStream::connect(&address).unwrap();
        up.line_with("Running.");
        let mut endless = endless(kubeconfig.to_str().unwrap());
        up.signal("INT");
        let started = Instant::now();
        while TcpStream::connect(&address).is_ok() {
            assert!(started.elapsed() < PATIENCE, "it still listens");
        }
        up.signal(name);
        let (ended, complaints) = up.ends();
        assert_eq!((ended, complaints.as_str()), (Some(code), ""), "{name}");
        let _ = endless.kill();
        endless.wait().unwrap();
    }
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let run = Run::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (_, complaint) = ended_with(&run.to_its_end(&["up", "--store", "memory", "--secure-port", &port]), 1);
    assert!(complaint.contains("in use"), "{complaint}");
    run.leaves_nothing();
    let widget = run.file("widget.yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n");
    ended_with(&run.to_its_end(&[&["up"], MEMORY, &["-f", &widget]].concat()), 1);
    run.leaves_nothing();
    let other = run.file("other", "kind: Config\nclusters: [{name: production}]\n");
    let (_, complaint) = ended_with(&run.to_its_end(&[&["up"], MEMORY, &["--kubeconfig-file", &other]].concat()), 1);
    assert!(complaint.contains("its entry production would be lost"), "{complaint}");
    run.leaves_nothing();
}

#[test]
fn a_start_that_fails_prints_why() {
    let run = Run::new();
    let file = run.file("file", "");
    let below = format!("{file}/below");
    // No machine has this address: RFC 5737.
    for (arguments, what, why) in [
        (["--bind-address", "203.0.113.1"], "could not listen on 203.0.113.1:0: ", "os error 99"),
        (["--kubeconfig-file", &below], "cannot write the kubeconfig (--kubeconfig-file): could not write ", "os error"),
        (["--data-dir", &below], "cannot create the data folder ", "Not a directory"),
    ] {
        let (_, complaint) = ended_with(&run.to_its_end(&[&["up"], MEMORY, &arguments[..]].concat()), 1);
        assert!(complaint.contains(what) && complaint.contains(why), "{arguments:?}: {complaint}");
        run.leaves_nothing();
    }
}

#[test]
fn a_folder_of_another_user_is_reported_with_its_owner() {
    let run = Run::new();
    let folder = run.folder.path().join("theirs");
    fs::create_dir(&folder).unwrap();
    if fs::metadata(&folder).unwrap().uid() != 0 {
        println!("skipped: only the administrator can change the user");
        return;
    }
    // Only that folder is inaccessible to them.
    fs::set_permissions(run.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    let nobody = 65534;
    let mut command = run.command(&["up", "--secure-port", "0", "--data-dir", folder.to_str().unwrap()]);
    let (_, complaint) = ended_with(&command.uid(nobody).output().unwrap(), 1);
    assert!(complaint.contains("its owner is the user 0, but berth runs as 65534"), "{complaint}");
}

#[test]
fn a_folder_serves_one_control_plane_at_a_time_whatever_the_store() {
    let run = Run::new();
    let folder = run.folder.path().join("data").to_str().unwrap().to_owned();
    for first in ["memory", "embedded"] {
        let mut up = run.start_with(&["up", "--secure-port", "0", "--nodes", "2", "--store", first, "--data-dir", &folder]);
        up.line_with("Running.");
        let kubeconfig = fs::read_to_string(format!("{folder}/kubeconfig")).unwrap();
        for second in ["memory", "embedded"] {
            let output = run.to_its_end(&["up", "--secure-port", "0", "--store", second, "--data-dir", &folder]);
            let (_, complaint) = ended_with(&output, 1);
            assert!(complaint.contains("is in use by another berth"), "{first}, then {second}: {complaint}");
        }
        assert_eq!(fs::read_to_string(format!("{folder}/kubeconfig")).unwrap(), kubeconfig, "{first}");
        up.signal("TERM");
        assert_eq!(up.ends_cleanly(), Some(0));
    }
}

#[test]
fn a_kubeconfig_is_for_one_user_and_only_its_owner_can_read_it() {
    let run = Run::new();
    let folder = run.folder.path().join("data").to_str().unwrap().to_owned();
    let mut up = run.start(&["--data-dir", &folder]);
    up.line_with("Running.");
    let issue = ["kubeconfig", "--data-dir", &folder];
    for (refused, why) in [
        (&["--user", ""][..], "at least one character"),
        (&["--user", "a\nb"], "no control characters"),
        (&["--user", "a", "--group", ""], "at least one character"),
        (&["--user", "a", "--group", "\u{1b}[31m"], "no control characters"),
    ] {
        let (_, complaint) = ended_with(&run.to_its_end(&[&issue, refused].concat()), 2);
        assert!(complaint.contains(why), "{refused:?}: {complaint}");
    }
    let file = run.folder.path().join("alice");
    ended_with(&run.to_its_end(&[&issue[..], &["--user", "alice", "--output", file.to_str().unwrap()]].concat()), 0);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let to_standard_output = |more: &[&str]| run.command(&[&issue[..], &["--user", "alice"], more].concat());
    for more in [&[][..], &["--output", "-"]] {
        let (shown, _) = ended_with(&to_standard_output(more).output().unwrap(), 0);
        assert!(shown.contains("client-key-data"), "{more:?}: {shown}");
    }
    let shown = shown_on_a_terminal(to_standard_output(&[]), (100, 200));
    assert!(shown.contains("write it to a file (--output FILE), or add --output -") && !shown.contains("client-key-data"), "{shown}");
    let shown = shown_on_a_terminal(to_standard_output(&["-o", "-"]), (100, 200));
    assert!(shown.contains("client-key-data"), "{shown}");
    up.signal("TERM");
    assert_eq!(up.ends_cleanly(), Some(0));
}

#[test]
fn waiting_ends_with_what_became_of_the_rollouts() {
    let run = Run::new();
    let up = |manifest: &str, arguments: &[&str]| run.to_its_end(&[&["up"], MEMORY, &["--wait", "-f", manifest], arguments].concat());
    let good = run.file("good.yaml", &deployment("web", 2, "web:1"));
    let (told, _) = ended_with(&up(&good, &["--steady", "0s"]), 0);
    assert!(told.contains("1 Deployment rolled out after") && !told.contains("Running."), "{told}");

    let broken = run.file("broken.yaml", &failing("ImagePullBackOff"));
    let (told, complaint) = ended_with(&up(&broken, &[]), 1);
    assert!(told.contains("deployment.apps/web in default: failed: ReplicaSet \"web-") && told.contains("ImagePullBackOff"), "{told}");
    assert!(told.contains("has timed out progressing: 2 pods cannot pull their images") && !told.contains("rolled out"), "{told}");
    assert_eq!(complaint, "berth: 1 of 1 Deployment not rolled out: deployment.apps/web in default\n");

    let (_, complaint) = ended_with(&up(&broken, &["--timeout", "200ms"]), 1);
    assert_eq!(complaint, "berth: 1 of 1 Deployment not rolled out within 0.2 s: deployment.apps/web in default\n");
    run.leaves_nothing();
}

#[test]
fn pods_that_are_ready_once_and_then_crash_are_not_rolled_out() {
    let run = Run::new();
    let manifest = run.file("web.yaml", &failing("CrashLoopBackOff"));
    let output = run.to_its_end(&[&["up"], MEMORY, &["--wait", "-f", &manifest]].concat());
    let (told, complaint) = ended_with(&output, 1);
    let failed = told.lines().find(|line| line.starts_with("deployment.apps/web in default: failed: 2 pods keep crashing, e.g. web-"));
    // Between a crash and the next back-off, the container shows its termination reason.
    let shows_why =
        |line: &str| line.contains("CrashLoopBackOff") || line.contains("container main ended with exit code 1 (Error), restarted once");
    assert!(failed.is_some_and(shows_why), "{told}");
    assert!(!told.contains("Deployment rolled out"), "{told}");
    assert_eq!(complaint, "berth: 1 of 1 Deployment not rolled out: deployment.apps/web in default\n");
}

/// The screen of a terminal after the command has ended.
fn shown_on_a_terminal(mut command: Command, (rows, columns): (u16, u16)) -> String {
    let (terminal, line) = common::terminal::pair((rows, columns));
    let open = || line.try_clone().unwrap();
    let mut child = command.env("TERM", "xterm").stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
    // The child's ends of the terminal must be closed here, so that the read ends with the child.
    drop((command, line));
    let (mut terminal, mut screen, mut buffer) = (File::from(terminal), vt100::Parser::new(rows, columns, 0), [0; 4096]);
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        screen.process(&buffer[..read]);
    }
    child.wait().unwrap();
    screen.screen().contents()
}

#[test]
fn long_failures_are_printed_once_on_a_terminal() {
    let run = Run::new();
    let long = "a-deployment-with-a-name-as-long-as-those-that-charts-make";
    let manifest = run.file("web.yaml", &failing("ImagePullBackOff").replace("name: web", &format!("name: {long}")));
    let shown = shown_on_a_terminal(run.command(&[&["up"], MEMORY, &["--wait", "-f", &manifest]].concat()), (40, 110));
    let bars: Vec<_> = shown.lines().filter(|line| line.contains(&format!("default/{long} "))).collect();
    assert!(bars.len() == 1 && bars[0].contains("failed: Rep"), "{shown}");
    let whole = shown.replace('\n', "");
    assert_eq!(
        whole.matches("has timed out progressing: 2 pods cannot pull their images").count(),
        1,
        "at full length once, below: {shown}"
    );
}

/// The log, in a file, for a single request.
fn logged(verbosity: &str) -> String {
    let run = Run::new();
    let kubeconfig = run.file("config", "");
    let mut up = run.start(&[verbosity, "--kubeconfig-file", &kubeconfig]);
    up.line_with("Running.");
    let asked = run.to_its_end(&["rollout", "status", "deployment/none", "--kubeconfig", &kubeconfig]);
    assert!(ended_with(&asked, 1).1.contains("not found"));
    up.signal("TERM");
    let mut text = String::new();
    up.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    end_of(&mut up.child);
    text
}

#[test]
fn requests_are_logged_with_vv_alone_and_files_have_no_colors() {
    let (some, all) = (logged("-v"), logged("-vv"));
    assert!(!some.contains("answered"), "{some}");
    assert!(all.contains("answered") && all.contains("deployments/none"), "{all}");
    assert!(!all.contains('\u{1b}'), "{all}");
}

#[test]
fn the_last_line_of_plain_output_is_not_stale() {
    let run = Run::new();
    let slow = deployment("web", 2, "web:1")
        .replace("    metadata:\n", "    metadata:\n      annotations: {sim.berth.dev/ready-after: 1h}\n")
        .replace("spec:\n  replicas", "spec:\n  progressDeadlineSeconds: 10000\n  replicas");
    let manifest = run.file("web.yaml", &slow);
    let mut up = run.start(&["-f", &manifest]);
    // Within a second of the first line, and no change follows.
    up.line_with("deployment.apps/web in default: 0 of 2 updated replicas are available");
    up.signal("TERM");
    assert_eq!(up.ends_cleanly(), Some(0));
}

fn test_command<'a>(manifest: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    [&["test", "--nodes", "2", "--steady", "0s", "-f", manifest, "--"], command].concat()
}

#[test]
fn a_command_finds_the_control_plane_and_gives_the_exit_code() {
    let run = Run::new();
    let manifest = run.file("web.yaml", &deployment("web", 2, "web:1"));
    let berth = env!("CARGO_BIN_EXE_berth");
    let status = format!("'{berth}' rollout status deployment/web && echo \"$KUBECONFIG\" && exit 7");
    let (told, aside) = ended_with(&run.to_its_end(&test_command(&manifest, &["sh", "-c", &status])), 7);
    let (first, kubeconfig) = told.trim_end().split_once('\n').unwrap();
    assert_eq!(first, "deployment \"web\" successfully rolled out");
    assert!(!Path::new(kubeconfig).exists(), "{kubeconfig}");
    assert!(aside.contains("deployment.apps/web created") && aside.contains("1 Deployment rolled out after"), "{aside}");
    run.leaves_nothing();
    ended_with(&run.to_its_end(&test_command(&manifest, &["true"])), 0);
    let (_, aside) = ended_with(&run.to_its_end(&["test", "--", "no-such-command"]), 127);
    assert!(aside.contains("berth: cannot run no-such-command: No such file"), "{aside}");
    ended_with(&run.to_its_end(&["test", "--", "sh", "-c", "kill -s KILL $$"]), 137);
    run.leaves_nothing();
}

#[test]
fn a_command_is_not_run_where_the_manifests_do_not_roll_out() {
    let run = Run::new();
    let manifest = run.file("web.yaml", &failing("ImagePullBackOff"));
    let (told, aside) = ended_with(&run.to_its_end(&test_command(&manifest, &["echo", "run"])), 1);
    assert_eq!(told, "");
    let end = "berth: 1 of 1 Deployment not rolled out: deployment.apps/web in default; the command was not run\n";
    assert!(aside.ends_with(end), "{aside}");
    run.leaves_nothing();
}

#[test]
fn a_store_that_is_gone_is_not_made_again_in_silence() {
    let (run, data) = (Run::new(), TempDir::new().unwrap());
    let arguments = ["up", "--secure-port", "0", "--nodes", "0", "--data-dir", data.path().to_str().unwrap()];
    let mut up = run.start_with(&arguments);
    up.line_with("Running.");
    up.signal("INT");
    assert_eq!(up.ends_cleanly(), Some(0));
    let store = data.path().join("store");
    fs::remove_dir_all(&store).unwrap();
    let (_, told) = ended_with(&run.to_its_end(&arguments), 1);
    assert!(told.contains("the store is missing in") && !store.exists(), "{told}");
    fs::remove_file(data.path().join("lock")).unwrap();
    let mut up = run.start_with(&arguments);
    up.line_with("Running.");
    up.signal("INT");
    assert_eq!(up.ends_cleanly(), Some(0), "as the message says");
}

#[test]
fn signals_are_passed_on_to_the_command() {
    for (name, code) in [("INT", 41), ("TERM", 42), ("HUP", 43)] {
        let run = Run::new();
        let script = "trap 'exit 41' INT; trap 'exit 42' TERM; trap 'exit 43' HUP; echo ready; while :; do sleep 0.01; done";
        let mut child = run.command(&["test", "--", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(Lines::of(child.stdout.take().unwrap()).next().as_deref(), Some("ready"));
        signal(child.id(), name);
        let status = end_of(&mut child);
        assert_eq!((status.code(), status.signal()), (Some(code), None), "{name}");
        run.leaves_nothing();
    }
}
