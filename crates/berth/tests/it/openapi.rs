//! Schemathesis sends requests that the OpenAPI documents of a real `berth up` allow, and checks that the answers match the documents. `cargo xtask
//! test` installs it. The requests are always the same. tests/python/openapi_hooks.py states what is adapted and why.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use berth_testing::Tool;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

/// Excluded checks:
/// - `status_code_conformance`: the documents, as upstream's, name successes and 401 only.
/// - `negative_data_rejection`, `positive_data_acceptance`: unknown parameters and fields are accepted, as by upstream, and the rules of objects are
///   more than a schema can express.
/// - `unsupported_method`, `allow_header_conformance`, `missing_required_header`: about headers and methods that the documents do not have.
/// - `ignored_auth`: requests without a certificate and with a wrong token are tested elsewhere (crates/berth-apiserver/tests).
const CHECKS: &str = "not_a_server_error,content_type_conformance,response_schema_conformance";
/// Requests for each operation, unless `BERTH_OPENAPI_EXAMPLES` sets another number. Deep bodies take seconds each. `cargo xtask nightly` sends more.
const EXAMPLES: &str = "2";
/// The number of documents that schemathesis checks concurrently.
const AT_ONCE: usize = 2;

/// berth's address, and the credentials of its administrator and its authority.
struct Server {
    url: String,
    token: String,
    authority: PathBuf,
}

impl Server {
    fn of(berth: &common::Berth) -> Self {
        let kubeconfig = fs::read_to_string(berth.kubeconfig()).unwrap();
        let url = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().trim_matches('"').to_owned();
        let token = fs::read_to_string(berth.data_dir.join("pki/token")).unwrap().trim().to_owned();
        Self { url, token, authority: berth.data_dir.join("pki/ca.pem") }
    }

    /// The faults that schemathesis found in one document, if any.
    fn faults(&self, program: &Path, document: &str) -> Option<String> {
        let mut command = Command::new(program);
        let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python");
        command.env("SCHEMATHESIS_HOOKS", "openapi_hooks").env("PYTHONPATH", hooks).env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(self.authority.parent().unwrap());
        command.arg("run").arg(format!("{}/openapi/v3/{document}", self.url)).args(["--url", &self.url]);
        command.args(["--header", &format!("Authorization: Bearer {}", self.token)]).arg("--tls-verify").arg(&self.authority);
        let examples = env::var("BERTH_OPENAPI_EXAMPLES").unwrap_or_else(|_| EXAMPLES.to_owned());
        command.args(["--phases", "fuzzing", "--generation-deterministic", "--max-examples", &examples, "--checks", CHECKS]);
        command.args(["--request-timeout", "20", "--continue-on-failure", "--no-color", "--warnings", "off"]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        (!output.status.success()).then(|| format!("{document}:\n{text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

#[test]
fn answers_are_what_the_documents_promise() {
    let Some(program) = common::tool(Tool::Schemathesis, "schemathesis/bin/schemathesis") else { return };
    let berth = common::up(&["--store", "memory", "--nodes", "1", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"]);
    let server = Server::of(&berth);
    let waiting = Mutex::new(berth_registry::resource::built_in().openapi().paths());
    let faults = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(document) = waiting.lock().unwrap().next() else { return };
                    faults.lock().unwrap().extend(server.faults(&program, document));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
