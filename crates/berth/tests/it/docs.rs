//! The commands that the documents and examples show, run in their order as a reader would, each document against servers of its own, and what
//! they print compared with what is shown.
//!
//! In Markdown, commands are the `$ ` lines of fenced blocks in the language `console`. The lines after a command, up to the next, are its output, and
//! a line `...` replaces omitted lines. A block that cannot run follows a comment `<!-- not run: REASON -->`. In examples/*.yaml, commands are the
//! indented lines of the first comment. `berth up` keeps running, as it would in another terminal. A later one replaces it, on the same data folder.
//! Commands that only read (`kubectl get`, …) are repeated until the output is as shown, so that no document depends on the speed of a machine. Random
//! names, times and the like are masked ([`masks`]).
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; a skipped one prints why")]

use crate::common::{Lines, PATIENCE, helm, kubectl_is_here};
use regex::Regex;
use std::{
    collections::VecDeque,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The number of documents that run concurrently: they mostly wait for simulated pods.
const AT_ONCE: usize = 6;

/// A command of a document, and its output in the document.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// The commands of a document.
#[derive(Debug, Default, PartialEq)]
struct Script {
    steps: Vec<Step>,
    /// Lines and reasons of blocks that do not run.
    left_out: Vec<String>,
    /// Errors in the document's markup.
    faults: Vec<String>,
}

impl Script {
    /// Adds the lines of a console block. `first` is the number of the first line.
    fn add_block(&mut self, first: usize, lines: &[&str]) {
        let mut lines = lines.iter().enumerate();
        while let Some((index, line)) = lines.next() {
            let Some(command) = line.strip_prefix("$ ") else {
                match self.steps.last_mut().filter(|step| step.line >= first) {
                    Some(step) => step.expected.push((*line).to_owned()),
                    None => self.faults.push(format!("{}: output without a command", first + index)),
                }
                continue;
            };
            let mut command = command.to_owned();
            // The remaining input of the command: after a backslash, or up to the end of a here document.
            let end = command.split_once("<<").map(|(_, word)| word.trim_matches(['\'', '"', ' ']).to_owned());
            while end.is_some() || command.ends_with('\\') {
                let Some((_, more)) = lines.next() else { break };
                let _ = write!(command, "\n{}", more.strip_prefix("> ").unwrap_or(more));
                if end.as_deref() == Some(*more) {
                    break;
                }
            }
            self.steps.push(Step { line: first + index, command, expected: Vec::new() });
        }
    }

    fn of_markdown(text: &str) -> Self {
        let mut script = Self::default();
        let lines: Vec<&str> = text.lines().collect();
        let mut number = 0;
        while number < lines.len() {
            let indent = lines[number].len() - lines[number].trim_start().len();
            let Some(language) = lines[number].trim_start().strip_prefix("```") else {
                number += 1;
                continue;
            };
            let first = number + 1;
            let length = lines[first..].iter().position(|line| line.trim_start().starts_with("```")).unwrap_or(lines.len() - first);
            let block: Vec<&str> = lines[first..first + length].iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
            let before = lines[..number].iter().rev().find(|line| !line.is_empty()).map_or("", |line| line.trim());
            let reason = before.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
            match (language, reason) {
                ("console", Some(reason)) => script.left_out.push(format!("{}: {reason}", first + 1)),
                ("console", None) => script.add_block(first + 1, &block),
                ("yaml" | "json" | "text" | "rust", _) if !block.iter().any(|line| line.starts_with("$ ")) => (),
                _ => script.faults.push(format!(
                    "{first}: a block of language {language:?}; commands stand in `console` after `$ `, the rest is yaml, json, rust or text"
                )),
            }
            number = first + length + 1;
        }
        script
    }

    /// The indented lines of the first comment in an example.
    fn of_example(text: &str) -> Self {
        let mut script = Self::default();
        let comment: Vec<(usize, &str)> =
            text.lines().take_while(|line| line.starts_with('#')).enumerate().filter(|(_, line)| line.starts_with("#   ")).collect();
        let mut goes_on = false;
        for (index, line) in comment {
            let line = line.trim_start_matches('#').trim();
            match script.steps.last_mut().filter(|_| goes_on) {
                Some(step) => step.command = format!("{}\n{line}", step.command),
                None => script.steps.push(Step { line: index + 1, command: line.to_owned(), expected: Vec::new() }),
            }
            goes_on = line.ends_with('\\');
        }
        script
    }
}

/// How the test runs a command.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `berth up`: keeps running. Its output contains the shown lines.
    Up,
    /// Prints something and never ends: `kubectl get --watch`.
    Watch,
    /// Follows an operation to its end. Prints the shown lines, possibly others between them, and the last shown line at the end.
    Follow,
    /// Changes nothing: the test repeats it until the output is as shown.
    Ask,
    /// Sets a variable for the commands after it.
    Export,
    /// Runs once.
    Do,
    /// A command that is not part of berth, and that readers or machines may lack.
    Unknown,
}

fn kind(command: &str) -> Kind {
    let words: Vec<&str> = command.split_whitespace().collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    match words[0] {
        "export" => Kind::Export,
        "berth" if words.get(1) == Some(&"up") && !has(&["--wait"]) => Kind::Up,
        "berth" if words.get(1) == Some(&"up") || words.get(1) == Some(&"test") => Kind::Do,
        "berth" | "kubectl" if has(&["rollout"]) && has(&["status"]) && !has(&["--watch=false"]) => Kind::Follow,
        "kubectl" if has(&["--watch", "-w"]) => Kind::Watch,
        "berth" if words.get(1) == Some(&"record") => Kind::Watch,
        // Recorded changes appear in the file with a short delay.
        "berth" if words.get(1) == Some(&"replay") => Kind::Ask,
        "berth" | "kubectl" if has(&["get", "describe", "explain", "auth", "history", "status", "diff", "logs", "top", "version"]) => {
            Kind::Ask
        }
        "berth" | "kubectl" | "helm" | "ln" | "mkdir" | "sed" | "curl" => Kind::Do,
        _ => Kind::Unknown,
    }
}

/// Text that varies between runs, and its replacement.
fn masks() -> Vec<(Regex, &'static str)> {
    let alphabet = "[bcdfghjklmnpqrstvwxz2456789]";
    [
        (r"https://127\.0\.0\.1:\d+", "https://ADDRESS"),
        (r"http://127\.0\.0\.1:\d+/sign-in\?token=\S+", "LINK"),
        (r"\b20\d\d-\d\d-\d\d\b", "DATE"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (&format!("-{alphabet}{{6,10}}-{alphabet}{{5}}\\b"), "-HASH-POD"),
        (&format!("-{alphabet}{{6,10}}\\b"), "-HASH"),
        (r"\b\d+(\.\d+)? ?(ms|s|m|h|d)(\d+s)?\b", "TIME"),
        // Newer versions of kubectl print this.
        (r#"( deleted) from \S+ namespace$"#, "$1"),
        (r"\s+", " "),
    ]
    .into_iter()
    .map(|(pattern, mask)| (Regex::new(pattern).unwrap(), mask))
    .collect()
}

/// Ids of data: equal ids in a document must correspond to equal ids in an output.
#[derive(Default)]
struct Ids(Vec<(String, String)>);

impl Ids {
    /// Whether the ids in these texts, in their order, correspond as before, or are both new.
    fn agree(&mut self, shown: &str, printed: &str) -> bool {
        let id = Regex::new(r"\b[0-9a-f]{16}\b").unwrap();
        let pairs: Vec<(String, String)> = id
            .find_iter(shown)
            .zip(id.find_iter(printed))
            .map(|(shown, printed)| (shown.as_str().to_owned(), printed.as_str().to_owned()))
            .collect();
        let fits = |(shown, printed): &(String, String)| self.0.iter().all(|(a, b)| (a == shown) == (b == printed));
        let agree = pairs.iter().all(fits);
        if agree {
            self.0.extend(pairs);
        }
        agree
    }
}

/// A document under test: the reader's home, and the programs in other terminals.
struct Reader {
    root: PathBuf,
    home: TempDir,
    /// `export` lines so far.
    exports: String,
    up: Option<Background>,
    watches: Vec<Background>,
    masks: Vec<(Regex, &'static str)>,
    ids: Ids,
}

struct Background {
    command: String,
    child: Child,
    lines: Lines,
}

impl Background {
    /// The next line of its output.
    fn line(&mut self) -> Result<String, String> {
        self.lines.next().ok_or_else(|| format!("{} ended", self.command))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let home = TempDir::new().unwrap();
        // All files are in a reader's default places. Only the port differs.
        let kubeconfig = home.path().join(".local/share/berth/kubeconfig");
        let exports = format!("export KUBECONFIG={}\n", kubeconfig.display());
        Self { root, home, exports, up: None, watches: Vec::new(), masks: masks(), ids: Ids::default() }
    }

    fn masked(&self, line: &str) -> String {
        let mask = |text: String, (pattern, mask): &(Regex, &str)| pattern.replace_all(&text, *mask).into_owned();
        let line = line.trim_end().replace(&*self.home.path().to_string_lossy(), "~");
        self.masks.iter().fold(line, mask).trim().to_owned()
    }

    fn shell(&self, command: &str) -> Command {
        let own = Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap();
        let helm = self.root.join("target/tools/javascript/node_modules/.bin");
        let path =
            format!("{}:{}/.local/bin:{}:{}", own.display(), self.home.path().display(), std::env::var("PATH").unwrap(), helm.display());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1\n{}{command}", self.exports)])
            .current_dir(&self.root)
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("BERTH_SECURE_PORT", "0")
            .env_remove("XDG_DATA_HOME")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        shell
    }

    fn background(&self, command: &str, typed: &str) -> Background {
        // `exec`, so that a signal ends the program and not its shell.
        let mut child = self.shell(&format!("exec {typed}")).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Background { command: command.to_owned(), child, lines }
    }

    /// Runs a step as a reader would. Returns the differences from the document.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let shown: Vec<String> = step.expected.iter().map(|line| self.masked(line)).filter(|line| !line.is_empty()).collect();
        match kind(&step.command) {
            Kind::Up => self.start(step, &shown),
            Kind::Watch => {
                let mut watch = self.background(&step.command, &step.command);
                watch.line()?;
                self.watches.push(watch);
                Ok(())
            }
            Kind::Export => {
                let name = step.command.trim_start_matches("export ").split('=').next().unwrap_or_default();
                let asked = Step { command: format!("{}\nprintf %s \"${name}\"", step.command), ..step.clone() };
                let value = self.run_plain(&asked, false)?;
                self.exports = format!("{}export {name}='{value}'\n", self.exports);
                Ok(())
            }
            Kind::Follow => {
                let printed = self.run(step, &shown)?;
                check_in_order(&shown, &printed)
            }
            Kind::Ask if !shown.is_empty() => self.ask(step, &shown),
            Kind::Ask | Kind::Do => {
                let printed = self.run(step, &shown)?;
                self.compare(step, &shown, &printed)
            }
            Kind::Unknown => {
                Err("the test does not know how to run it; if it cannot run, put `<!-- not run: REASON -->` before the block".to_owned())
            }
        }
    }

    /// Starts `berth up` in place of the running one, and waits until all its manifests are rolled out.
    fn start(&mut self, step: &Step, shown: &[String]) -> Result<(), String> {
        if let Some(mut up) = self.up.take() {
            // Ctrl-C in its terminal.
            Command::new("kill").args(["-INT", &up.child.id().to_string()]).status().unwrap();
            up.child.wait().unwrap();
        }
        let mut up = self.background(&step.command, &format!("{} --secure-port 0", step.command));
        let mut printed = Vec::new();
        while !printed.last().is_some_and(|line: &String| line.starts_with("Running.")) {
            let line = up.line().map_err(|error| format!("{error}; it printed:\n{}", printed.join("\n")))?;
            printed.push(self.masked(&line));
        }
        self.up = Some(up);
        let missing: Vec<&String> = shown.iter().filter(|line| *line != "..." && !printed.contains(line)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:#?} is not among\n{}", printed.join("\n"))) }
    }

    /// Repeats a command until its output is as shown.
    fn ask(&mut self, step: &Step, shown: &[String]) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let answer = self.run(step, shown).and_then(|printed| self.compare(step, shown, &printed));
            if answer.is_ok() || started.elapsed() > PATIENCE {
                return answer;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a command to its end. Returns its output lines, masked. The command must fail if, and only if, the document shows an error.
    fn run(&self, step: &Step, shown: &[String]) -> Result<Vec<String>, String> {
        let fails = shown.iter().any(|line| line.to_lowercase().starts_with("error") || line.contains(" is invalid: "));
        let text = self.run_plain(step, fails)?;
        Ok(text.lines().map(|line| self.masked(line)).filter(|line| !line.is_empty()).collect())
    }

    /// Runs a command to its end. Returns its output.
    fn run_plain(&self, step: &Step, fails: bool) -> Result<String, String> {
        let output = self.shell(&step.command).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() == fails {
            return Err(format!("it ended with {} and printed:\n{text}", output.status));
        }
        Ok(text)
    }

    /// Whether the output is as shown. Ignores the order of lines, which depends on random names.
    fn compare(&mut self, step: &Step, shown: &[String], printed: &[String]) -> Result<(), String> {
        if shown.is_empty() {
            return Ok(());
        }
        let ids = Regex::new(r"\b[0-9a-f]{16}\b").unwrap();
        let sorted = |lines: &[String]| {
            let mut lines: Vec<String> =
                lines.iter().filter(|line| *line != "...").map(|line| ids.replace_all(line, "ID").into_owned()).collect();
            lines.sort();
            lines
        };
        let (want, got) = (sorted(shown), sorted(printed));
        let is_shown = if shown.iter().any(|line| line == "...") { want.iter().all(|line| got.contains(line)) } else { want == got };
        if !is_shown {
            return Err(format!("it printed:\n{}\nand not:\n{}", printed.join("\n"), shown.join("\n")));
        }
        let agree = self.ids.agree(&step.expected.join("\n"), &printed.join("\n"));
        if agree { Ok(()) } else { Err(format!("other ids are the same than those shown:\n{}", printed.join("\n"))) }
    }

    /// Programs in other terminals must run until the end of the document.
    fn finish(&mut self) -> Result<(), String> {
        let ended = |terminal: &mut Background| {
            terminal.child.try_wait().unwrap().map(|status| format!("{} ended with {status}", terminal.command))
        };
        self.watches.iter_mut().chain(&mut self.up).find_map(ended).map_or(Ok(()), Err)
    }
}

/// Whether the shown lines appear in this order, possibly with others between them, and the last one at the end.
fn check_in_order(shown: &[String], printed: &[String]) -> Result<(), String> {
    let mut rest = printed.iter();
    let in_order = shown.iter().filter(|line| *line != "...").all(|line| rest.any(|printed| printed == line));
    let ends_so = shown.last().is_none_or(|last| last == "..." || Some(last) == printed.last());
    if in_order && ends_so {
        Ok(())
    } else {
        Err(format!("it printed:\n{}\nand not, in this order:\n{}", printed.join("\n"), shown.join("\n")))
    }
}

/// Every document, by its path from the root.
fn documents(root: &Path) -> Vec<(String, Script)> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("docs"), root.join("examples")];
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root.join(name));
    let mut files = Vec::from(top);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    for path in files {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let text = || fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("md") => found.push((name, Script::of_markdown(&text()))),
            Some("yaml") if name.matches('/').count() == 1 => found.push((name, Script::of_example(&text()))),
            _ => (),
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// Runs a document to its end or its first fault. Returns its faults.
fn run(name: &str, script: &Script) -> Vec<String> {
    let mut faults = script.faults.clone();
    let mut reader = Reader::new();
    for step in &script.steps {
        if step.command.starts_with("helm ") && helm().is_none() {
            println!("{name}:{}: skipped, there is no helm", step.line);
            continue;
        }
        if let Err(fault) = reader.step(step) {
            faults.push(format!("{}: $ {}\n{fault}", step.line, step.command));
            return faults;
        }
    }
    faults.extend(reader.finish().err());
    faults
}

#[test]
fn commands_of_documents_and_examples_do_what_is_shown() {
    if !kubectl_is_here() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // To fix one document, set the variable to its name or a part of it.
    let only = std::env::var("BERTH_DOCUMENT").unwrap_or_default();
    let documents: VecDeque<_> = documents(&root).into_iter().filter(|(name, _)| name.contains(&only)).collect();
    assert!(!only.is_empty() || documents.iter().map(|(_, script)| script.steps.len()).sum::<usize>() > 100, "commands are found");
    let queue = Mutex::new(documents);
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, script)) = { queue.lock().unwrap().pop_front() } {
                    let started = Instant::now();
                    let faults = run(&name, &script);
                    println!("{name}: {} commands in {:?}", script.steps.len(), started.elapsed());
                    script.left_out.iter().for_each(|reason| println!("{name}:{reason}: not run"));
                    wrong.lock().unwrap().extend(faults.into_iter().map(|fault| format!("{name}:{fault}")));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

#[test]
fn every_command_is_found_and_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut faults = Vec::new();
    for (name, script) in documents(&root) {
        let unknown = script.steps.iter().filter(|step| kind(&step.command) == Kind::Unknown);
        faults.extend(unknown.map(|step| format!("{name}:{}: the test does not know how to run {}", step.line, step.command)));
        faults.extend(script.faults.iter().map(|fault| format!("{name}:{fault}")));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn scripts_are_read_from_markdown() {
    let text = "\
```console
$ kubectl get pods   # all
NAME   READY
...
$ kubectl apply -f - <<'EOF'
kind: Pod
EOF
pod/web created
$ kubectl get pods \\
>   --watch
```
<!-- not run: takes an hour -->

```console
$ sleep 3600
```
```
$ lost
```
  ```yaml
  a: b
  ```
";
    let script = Script::of_markdown(text);
    let step = |line, command: &str, expected: &[&str]| Step {
        line,
        command: command.to_owned(),
        expected: expected.iter().map(|line| (*line).to_owned()).collect(),
    };
    let steps = [
        step(2, "kubectl get pods   # all", &["NAME   READY", "..."]),
        step(5, "kubectl apply -f - <<'EOF'\nkind: Pod\nEOF", &["pod/web created"]),
        step(9, "kubectl get pods \\\n  --watch", &[]),
    ];
    assert_eq!(script.steps, steps);
    assert_eq!(script.left_out, ["15: takes an hour"]);
    assert_eq!(script.faults.len(), 1, "{:?}", script.faults);
    assert_eq!(kind("kubectl get pods \\\n  --watch"), Kind::Watch);
    assert_eq!(kind("sleep 3600"), Kind::Unknown);
}

#[test]
fn what_differs_each_time_is_masked_and_nothing_else() {
    let reader = Reader::new();
    for (line, masked) in [
        ("checkout-5c49cfc7d6-2khl7   1/1     Terminating   0          9s", "checkout-HASH-POD 1/1 Terminating 0 TIME"),
        ("thumbnails-7dc54b744f   0          3", "thumbnails-HASH 0 3"),
        ("  db-2 has 29s of its 30s grace left", "db-2 has TIME of its TIME grace left"),
        ("pod \"db-2\" deleted from default namespace", "pod \"db-2\" deleted"),
        ("3 Deployments rolled out after 2.1 s", "3 Deployments rolled out after TIME"),
        ("deployment.apps/web condition met", "deployment.apps/web condition met"),
    ] {
        assert_eq!(reader.masked(line), masked);
    }
}

#[test]
fn ids_that_are_shown_as_the_same_are_the_same() {
    let mut ids = Ids::default();
    assert!(ids.agree("a=0000000000000001 b=0000000000000002", "a=1111111111111111 b=2222222222222222"));
    assert!(ids.agree("0000000000000001", "1111111111111111"));
    assert!(!ids.agree("0000000000000001", "3333333333333333"), "the data was lost");
    assert!(!ids.agree("0000000000000003", "1111111111111111"), "the data was not lost");
}
