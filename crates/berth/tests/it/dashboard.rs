//! The page, as `berth up` and `berth dashboard` serve it: requests to real processes, and journeys in Debian's Chromium. `cargo xtask test` installs
//! the driver for it. `BERTH_SCREENSHOTS=FOLDER` keeps screenshots.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; the figures are for people")]

use crate::common::{self, Berth, PATIENCE, end_of, terminal::Terminal, up, up_in, up_logging};
use berth_testing::{Tool, Upstream, skip};
use http::Request;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

const CHROMIUM: &str = "/usr/bin/chromium";
const MEMORY: [&str; 4] = ["--store", "memory", "--nodes", "3"];
const WEB: &str = "/ns/shop/deployments/web";

fn shop() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop.yaml").to_str().unwrap().to_owned()
}

/// `berth up` in memory, with the shop and these options.
fn up_with_shop(more: &[&str]) -> Berth {
    up(&[&MEMORY[..], &["-f", &shop()], more].concat())
}

/// The link in a line.
fn link_in(line: &str) -> String {
    line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned()
}

/// The link that `berth up` prints when it is ready.
fn link_of(berth: &mut Berth) -> String {
    link_in(&berth.line_with("/sign-in?token="))
}

/// The command that runs a journey in a browser. `None`: the machine has no browser.
fn journey(script: &str, arguments: &[&str]) -> Option<Journey> {
    let node = common::tool(Tool::Browser, "javascript/node_modules/.bin/node")?;
    if !Path::new(CHROMIUM).exists() {
        skip(Tool::Browser, "Debian's chromium is not installed");
        return None;
    }
    // Node searches packages in the script's folder, and above. Several journeys run concurrently.
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/javascript");
    let there = TempDir::new_in(node.ancestors().nth(3).unwrap()).unwrap();
    for name in ["browser.mjs", script] {
        fs::copy(own.join(name), there.path().join(name)).unwrap();
    }
    let mut command = Command::new(&node);
    command.arg(there.path().join(script)).args(arguments).args(env::var_os("BERTH_SCREENSHOTS"));
    Some(Journey { command, _there: there })
}

/// The command, and the folder of its script.
struct Journey {
    command: Command,
    _there: TempDir,
}

/// Runs a journey in a browser. Returns whether there is a browser.
fn travel(script: &str, arguments: &[&str]) -> bool {
    let Some(mut journey) = journey(script, arguments) else { return false };
    let output = journey.command.output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn journeys_through_the_page_succeed() {
    let fast = ["--image-fails", "*:404", "--pod-start-latency", "300ms", "--pod-stop-latency", "300ms"];
    let mut berth = up_with_shop(&fast);
    berth.line_with("Running.");
    let page = Served::start(&berth, &[], Stdio::inherit());
    travel("dashboard.mjs", &[&page.link]);
}

/// The number of attempts on a machine that is busy with other tests. One success is enough. `BERTH_NEWCOMERS=1` runs all attempts, for
/// measurements.
const NEWCOMERS: usize = 4;

/// The first command of the README, with a browser as users have one. From the line that reports that the server is ready to the sentence on the
/// screen, at most five seconds pass. Whenever within them the user opens the page, the rollout is still in progress.
#[test]
fn a_newcomer_sees_within_five_seconds_what_happens_and_why_it_waits() {
    let Some(mut travelling) = journey("newcomer.mjs", &[]) else { return };
    let mut browser = travelling.command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut asked, mut said) = (browser.stdin.take().unwrap(), BufReader::new(browser.stdout.take().unwrap()).lines());
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let mut all = Vec::new();
    for _ in 0..NEWCOMERS {
        // The server has reported that it is ready.
        let mut berth = up(&["-f", &shop()]);
        let ready = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let link = link_of(&mut berth);
        writeln!(asked, "{link} {ready}").unwrap();
        let seen = said.next().unwrap().unwrap();
        let in_time = seen.starts_with("in time");
        all.push(seen);
        if in_time && env::var_os("BERTH_NEWCOMERS").is_none() {
            break;
        }
    }
    drop(asked);
    assert!(end_of(&mut browser).success(), "{all:?}");
    println!("{}", all.join("\n"));
    assert!(all.iter().any(|seen| seen.starts_with("in time")), "{all:#?}");
}

/// The picture of the how-to. The test saves it where the variable is set, as in `cargo xtask pictures`. Otherwise the test only checks
/// that it can take the picture, because no two pictures are equal.
#[test]
fn the_picture_of_the_page_can_be_taken() {
    let folder = TempDir::new().unwrap();
    let is_kept = env::var("BERTH_PICTURES").is_ok_and(|value| value == "write");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/page.png");
    let file = if is_kept { kept } else { folder.path().join("page.png") };
    let mut berth = up_with_shop(&["--pod-start-latency", "2s"]);
    let link = link_of(&mut berth);
    berth.line_with("Running.");
    if travel("picture.mjs", &[&link, file.to_str().unwrap()]) {
        let bytes = fs::metadata(&file).unwrap().len();
        assert!((10_000..150_000).contains(&bytes), "{bytes} bytes");
    }
}

/// A `berth dashboard` over a `berth up`, until it is dropped.
struct Served {
    child: Child,
    link: String,
}

fn command(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.arg("dashboard").arg("--kubeconfig").arg(kubeconfig).args(arguments);
    command
}

impl Served {
    fn start(berth: &Berth, arguments: &[&str], log: Stdio) -> Self {
        Self::start_as(&berth.kubeconfig(), arguments, log)
    }

    fn start_as(kubeconfig: &Path, arguments: &[&str], log: Stdio) -> Self {
        let mut child = command(kubeconfig, arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("/sign-in?token="))).unwrap();
        Self { child, link: link_in(&line) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with or without a cookie.
struct Reader {
    address: String,
    cookie: String,
}

impl Reader {
    /// Signs in. Also returns the target of the redirect.
    fn sign_in(link: &str) -> (Self, String) {
        let (address, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let stranger = Self { address: address.to_owned(), cookie: String::new() };
        let answer = stranger.get(&format!("/{path}"));
        let cookie = header(&answer, "set-cookie").split(';').next().unwrap().to_owned();
        (Self { cookie, ..stranger }, header(&answer, "location").to_owned())
    }

    /// The unparsed response to one request.
    fn send(&self, method: &str, path: &str, more: &str) -> String {
        let Self { address, cookie } = self;
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n");
        stream.write_all(format!("{head}{more}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.send("GET", path, "\r\n")
    }

    fn post(&self, path: &str, form: &str) -> String {
        let (origin, kind) = (&self.address, "application/x-www-form-urlencoded");
        let length = form.len();
        self.send("POST", path, &format!("origin: http://{origin}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{form}"))
    }

    /// A page, as soon as it contains this text.
    fn page_with(&self, path: &str, text: &str) -> String {
        let started = Instant::now();
        loop {
            let page = self.get(path);
            if page.contains(text) {
                return page;
            }
            assert!(started.elapsed() < PATIENCE, "{path} does not come to say {text:?}: {page}");
        }
    }

    /// Sends the form of a question with its hidden fields.
    fn confirm(&self, question: &str, more: &str) -> String {
        let page = self.page_with(&format!("{question}?{more}"), "name=\"generation\"");
        let field = |name: &str| {
            let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let form = format!("form-token={}&uid={}&generation={}&{more}", field("form-token"), field("uid"), field("generation"));
        self.post(question, &form)
    }
}

fn header<'a>(answer: &'a str, name: &str) -> &'a str {
    let found = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    found.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

fn code_of(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// The status code of a request as this user.
async fn asked_as(berth: &Berth, user: &str, method: &str, path: &str, body: &Value) -> u16 {
    let mut config = berth.kube_config().await;
    config.auth_info.impersonate = Some(user.to_owned()).filter(|user| !user.is_empty());
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json").body(body).unwrap();
    match Client::try_from(config).unwrap().request_text(request).await {
        Ok(_) => 200,
        Err(Error::Api(status)) => status.code,
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// A policy that logs every request, and the log.
fn audited(folder: &Path) -> (PathBuf, PathBuf) {
    let (policy, log) = (folder.join("policy"), folder.join("audit.log"));
    fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n").unwrap();
    (policy, log)
}

/// The requests of the page's user: verb and resource.
fn asked_by_the_page(log: &Path) -> Vec<(Value, String)> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own = events.filter(|event| event["user"]["username"] == "berth:dashboard");
    own.map(|event| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let what = format!("{} {}", text(&event["verb"]), text(&event["objectRef"]["resource"]));
        (event["user"]["groups"].clone(), what)
    })
    .collect()
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_berth_up_asks_as_a_user_of_its_own_who_reads_no_secrets_and_gives_no_rights() {
    let folder = TempDir::new().unwrap();
    let (policy, log) = audited(folder.path());
    let mut berth = up_with_shop(&["--audit-policy-file", policy.to_str().unwrap(), "--audit-log-path", log.to_str().unwrap()]);
    let link = link_of(&mut berth);
    berth.line_with("Running.");
    let user = "berth:dashboard";
    // Until a user opens the page, it sends no requests, and its user has no permissions.
    assert_eq!(asked_as(&berth, user, "GET", "/api/v1/pods", &Value::Null).await, 403);
    assert_eq!(asked_as(&berth, "", "GET", &format!("{ROLES}/berth:dashboard"), &Value::Null).await, 404);
    common::until("the log tells of those who asked", || fs::read_to_string(&log).unwrap().contains("clusterroles"));
    assert_eq!(asked_by_the_page(&log), []);

    let (reader, _) = Reader::sign_in(&link);
    reader.page_with("/nodes", "3 nodes.");
    reader.page_with("/", "as berth:dashboard");
    let done = reader.confirm(&format!("{WEB}/scale"), "replicas=5");
    assert_eq!(header(&done, "location"), "/ns/shop/deployments/web?done=scale", "{done}");
    for what in ["list nodes", "watch pods", "patch deployments"] {
        common::until(what, || asked_by_the_page(&log).iter().any(|(_, asked)| asked == what));
    }
    let all = asked_by_the_page(&log);
    assert!(all.iter().all(|(groups, what)| *groups == json!(["system:authenticated"]) && !what.contains("secrets")), "{all:?}");

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}, "rules": []});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    let nothing = Value::Null;
    for (method, path, body, wanted) in [
        ("GET", "/api/v1/pods", &nothing, 200),
        ("GET", "/apis/apps/v1/deployments", &nothing, 200),
        ("GET", "/api/v1/secrets", &nothing, 403),
        ("GET", "/api/v1/namespaces/shop/secrets/database", &nothing, 403),
        ("GET", "/api/v1/configmaps", &nothing, 403),
        ("POST", ROLES, &role, 403),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding, 403),
        ("DELETE", "/apis/apps/v1/namespaces/shop/deployments/web", &nothing, 403),
        ("DELETE", "/api/v1/namespaces/shop", &nothing, 403),
        (
            "POST",
            "/api/v1/namespaces/shop/serviceaccounts/default/token",
            &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}),
            403,
        ),
    ] {
        assert_eq!(asked_as(&berth, user, method, path, body).await, wanted, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_an_administrator_only_where_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let (policy, log) = audited(folder.path());
    let audit = ["--audit-policy-file", policy.to_str().unwrap(), "--audit-log-path", log.to_str().unwrap()];
    let mut berth = up(&[&MEMORY[..], &audit, &["--dashboard-as-admin"]].concat());
    let (reader, first) = Reader::sign_in(&link_of(&mut berth));
    assert!(first.starts_with("/~") && first.matches('/').count() == 2, "there is nothing, so the first page is the list: {first}");
    reader.page_with("/nodes", "3 nodes.");
    reader.page_with("/", "as berth:dashboard, an administrator");
    common::until("the log tells", || !asked_by_the_page(&log).is_empty());
    let all = asked_by_the_page(&log);
    let masters = json!(["system:masters", "system:authenticated"]);
    assert!(all.iter().all(|(groups, _)| *groups == masters), "{all:?}");
    assert_eq!(asked_as(&berth, "", "GET", &format!("{ROLES}/berth:dashboard"), &Value::Null).await, 404, "it needs none");
}

#[test]
fn where_no_page_is_asked_for_there_is_none() {
    for arguments in [["--no-dashboard"].as_slice(), &[]] {
        let mut berth = up(&[&MEMORY[..], arguments].concat());
        let mut printed = Vec::new();
        while !printed.last().is_some_and(|line: &String| line.starts_with("Running.")) {
            printed.push(berth.line_with(""));
        }
        assert_eq!(printed.iter().any(|line| line.contains("/sign-in?token=")), arguments.is_empty(), "{printed:?}");
    }
    for command in ["test", "apiserver"] {
        let output = Command::new(env!("CARGO_BIN_EXE_berth")).args([command, "--dashboard-port", "1", "--", "true"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("unexpected argument '--dashboard-port'"), "{command}: {said}");
    }
}

#[test]
fn a_page_whose_port_is_taken_is_no_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["up", "--store", "memory", "--secure-port", "0", "--dashboard-port", &port])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains(&format!("could not listen on 127.0.0.1:{port}")) && said.contains("(--dashboard-port, --no-dashboard)"),
        "{said}"
    );
}

/// A reader's cookie is invalid for the next process on the same port and folder, although the address is the same. The page redirects a
/// reader with such a cookie to sign in.
#[test]
fn after_kill_nine_cookies_and_links_of_before_get_nothing() {
    let folder = TempDir::new().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let shop = shop();
    let arguments = ["--nodes", "1", "--dashboard-port", &free, "-f", &shop];
    let mut berth = up_in(folder.path(), &arguments);
    let (reader, _) = Reader::sign_in(&link_of(&mut berth));
    let page = reader.page_with(WEB, "Restart");
    let form_token = page.split_once("name=\"form-token\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    berth.kill();
    let mut berth = up_in(folder.path(), &arguments);
    let link = link_of(&mut berth);
    assert!(link.contains(&format!(":{free}/")), "{link}");
    let answer = reader.get(WEB);
    assert_eq!((code_of(&answer), header(&answer, "location")), ("303", "/sign-in?next=%2Fns%2Fshop%2Fdeployments%2Fweb"));
    assert_eq!(code_of(&reader.get("/stream?page=%2F")), "401");
    assert_eq!(code_of(&reader.post(&format!("{WEB}/restart"), &format!("form-token={form_token}&uid=x&generation=1"))), "401");
    let (again, _) = Reader::sign_in(&link);
    assert_eq!(code_of(&again.get("/")), "200");
    assert_eq!(code_of(&reader.get("/")), "303", "another's cookie opens nothing for it");
}

/// The process stops while a user has the page open: it ends at once, with code 0.
#[test]
fn an_open_page_does_not_delay_the_end_of_the_process() {
    let mut berth = up_with_shop(&[]);
    let (reader, _) = Reader::sign_in(&link_of(&mut berth));
    reader.page_with(WEB, "Restart");
    let mut stream = TcpStream::connect(&reader.address).unwrap();
    let Reader { address, cookie } = &reader;
    write!(stream, "GET /stream?page=%2F HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n\r\n").unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let started = Instant::now();
    assert_eq!(berth.terminate().0, Some(0));
    println!("ended after {} ms", started.elapsed().as_millis());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "the stream was cut off: {rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_its_users_rights_and_no_more() {
    let mut berth = up_with_shop(&[]);
    berth.line_with("Running.");
    let config = berth.data_dir.join("alice.kubeconfig");
    let issue = ["kubeconfig", "--user", "alice", "--duration", "1h", "--data-dir"];
    let issued = Command::new(env!("CARGO_BIN_EXE_berth")).args(issue).arg(&berth.data_dir).arg("--output").arg(&config).status().unwrap();
    assert!(issued.success());
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";
    assert_eq!(asked_as(&berth, "", "POST", bindings, &binding).await, 200);
    let page = Served::start_as(&config, &["-n", "shop"], Stdio::inherit());
    let (reader, _) = Reader::sign_in(&page.link);
    reader.page_with(WEB, "4 of 4 available");
    reader.page_with("/nodes", "nodes is forbidden: User &quot;alice&quot; cannot list resource &quot;nodes&quot;");
    let refused = reader.confirm(&format!("{WEB}/scale"), "replicas=9");
    let words = "deployments.apps &quot;web&quot; is forbidden: User &quot;alice&quot; cannot patch resource &quot;deployments&quot;";
    assert!(code_of(&refused) == "409" && refused.contains(words), "{refused}");
    reader.page_with(WEB, "4 of 4 available");
    assert_eq!(asked_as(&berth, "alice", "GET", "/api/v1/namespaces/shop/secrets", &Value::Null).await, 403, "it could not show them");
}

/// A real Kubernetes, whose controllers ignore berth's annotations. Page and terminal show this for objects with such annotations, and only
/// for these.
#[test]
fn on_a_foreign_cluster_the_page_names_settings_without_effect() {
    let Some(upstream) = Upstream::start(&[]) else { return };
    let kubeconfig = upstream.kubeconfig();
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("two.yaml");
    let asking = common::deployment("asking", 1, "web:1").replacen(
        "metadata:\n",
        "metadata:\n  annotations: {berth.dev/pod-replacement-policy: TerminationComplete}\n",
        1,
    );
    fs::write(&manifest, format!("{asking}---\n{}", common::deployment("plain", 1, "web:1"))).unwrap();
    let applied = Command::new("kubectl").arg("--kubeconfig").arg(&kubeconfig).args(["apply", "-f"]).arg(&manifest).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let note =
        "this cluster's controllers are not berth's: podReplacementPolicy, Recreate and the annotations of berth.dev have no effect here";
    let page = Served::start_as(&kubeconfig, &[], Stdio::inherit());
    let (reader, _) = Reader::sign_in(&page.link);
    // There is no node, but the page shows the objects that the real controllers have created.
    let asking = reader.page_with("/ns/default/deployments/asking", "without a node");
    assert!(asking.contains(&format!("Note: {note}.")), "{asking}");
    let plain = reader.page_with("/ns/default/deployments/plain", "without a node");
    assert!(!plain.contains("have no effect"), "{plain}");

    let kubeconfig = kubeconfig.to_str().unwrap();
    for (name, is_told) in [("asking", true), ("plain", false)] {
        let workload = format!("deployment/{name}");
        let mut terminal = Terminal::run(&["rollout", "watch", "--kubeconfig", kubeconfig, &workload], (60, 200));
        let shown = terminal.until("its pod is seen", |screen| screen.contents().contains("without a node"));
        assert_eq!(shown.contains(&format!("Note: {note}.")), is_told, "{shown}");
        terminal.types("q");
        assert_eq!(terminal.ends(), Some(0));
    }
}

#[test]
fn tokens_and_cookies_are_in_no_log() {
    let folder = TempDir::new().unwrap();
    let (of_dashboard, of_up) = (folder.path().join("dashboard.log"), folder.path().join("up.log"));
    let log = |path: &Path| Stdio::from(fs::File::create(path).unwrap());
    let mut berth = up_logging(&folder.path().join("data"), &["--store", "memory", "--nodes", "1", "-vv"], log(&of_up));
    let own = link_of(&mut berth);
    let page = Served::start(&berth, &["-vv"], log(&of_dashboard));
    for (link, log) in [(&page.link, of_dashboard), (&own, of_up)] {
        let (reader, _) = Reader::sign_in(link);
        reader.page_with("/nodes", "1 node.");
        let said = fs::read_to_string(&log).unwrap();
        let (token, cookie) = (link.split_once("token=").unwrap().1, reader.cookie.split_once('=').unwrap().1);
        assert!(!said.is_empty() && !said.contains(token) && !said.contains(cookie), "a secret is in {}", log.display());
        assert!(!said.to_lowercase().contains("bearer "), "how the page proves itself is in {}", log.display());
    }
}

#[test]
fn an_address_that_others_reach_wants_tls() {
    let berth = up(&["--store", "memory", "--nodes", "1"]);
    let output = command(&berth.kubeconfig(), &["--address", "0.0.0.0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("requires TLS"), "{said}");
}
