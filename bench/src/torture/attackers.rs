//! Processes that attack a server, of the lowest priority: what counts is what they cost the server, not what they cost the machine.

use super::attacks::{Attack, Request};
use crate::{
    access,
    client::{Connection, Endpoint},
};
use futures::future::join_all;
use std::{
    cell::Cell,
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

/// What a process that attacks prints when all is there that it needs; it waits for a line then.
const PREPARED: &str = "prepared";
/// What it prints when a request is on its way over each of its connections.
const AT_IT: &str = "at it";

/// A process that attacks until this is dropped.
pub(crate) struct Attacker {
    name: &'static str,
    process: Child,
    printed: Option<BufReader<ChildStdout>>,
}

/// Starts these attacks; resolves when all of them have begun, or ended. None begins before each has what it needs: they act as one user, who would
/// wait for what one attack needs behind the requests of another.
pub(crate) async fn begin(attacks: &[&Attack], kubeconfig: &Path) -> Vec<Attacker> {
    let mut attackers: Vec<Attacker> = attacks.iter().map(|attack| Attacker::start(attack, kubeconfig)).collect();
    join_all(attackers.iter_mut().map(|attacker| attacker.prints(PREPARED))).await;
    for attacker in &mut attackers {
        // Who has ended is found by `fault`.
        let _ = attacker.process.stdin.take().expect("it is piped").write_all(b"\n");
    }
    join_all(attackers.iter_mut().map(|attacker| attacker.prints(AT_IT))).await;
    attackers
}

impl Attacker {
    fn start(attack: &Attack, kubeconfig: &Path) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(program).args(["--attack", attack.name, "--kubeconfig"]).arg(kubeconfig);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let printed = process.stdout.take().map(BufReader::new);
        Self { name: attack.name, process, printed }
    }

    /// Resolves when it has printed this, or ended.
    async fn prints(&mut self, line: &'static str) {
        let mut printed = self.printed.take().expect("it is given back");
        let until_printed = move || {
            let _ = printed.by_ref().lines().map_while(Result::ok).any(|read| read == line);
            printed
        };
        self.printed = Some(tokio::task::spawn_blocking(until_printed).await.unwrap());
    }

    /// That it has ended, which no attack does by itself, so that others felt less of it.
    pub(crate) fn fault(&mut self) -> Option<String> {
        let ended = self.process.try_wait().unwrap()?;
        Some(format!("the attack {} ended by itself, with {ended}: FAILED", self.name))
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The work of an attacking process, indefinitely.
pub(crate) async fn attack(attack: &Attack, kubeconfig: &Path) {
    let endpoint = access::endpoint(&std::fs::read_to_string(kubeconfig).unwrap());
    let mut connection = Connection::open(&endpoint).await;
    for request in (attack.prepare)() {
        let status = connection.request_as(request.method, &request.path, request.content_type, &request.body).await;
        assert!([200, 201].contains(&status), "{}: {status} {}", attack.name, String::from_utf8_lossy(&connection.body));
    }
    println!("{PREPARED}");
    io::stdin().read_line(&mut String::new()).unwrap();
    let (request, at_it) = ((attack.request)(), Cell::new(0));
    join_all((0..attack.connections).map(async |_| {
        let is_first = Cell::new(true);
        loop {
            // That a request is refused is an answer too, and who is cut off comes again.
            let _ = attack_over(&endpoint, &request, || {
                if is_first.replace(false) {
                    count(&at_it, attack.connections);
                }
            })
            .await;
        }
    }))
    .await;
}

/// Sends the request again and again over one connection, until that is cut. Calls `sent` for each request.
async fn attack_over(endpoint: &Endpoint, request: &Request, sent: impl Fn()) -> io::Result<()> {
    let mut connection = Connection::try_open(endpoint).await?;
    loop {
        connection.send(request.method, &request.path, request.content_type, &request.body).await?;
        sent();
        connection.answer().await?;
    }
}

/// Counts one more attacking connection, and reports when all attack.
fn count(at_it: &Cell<usize>, all: usize) {
    at_it.update(|connections| connections + 1);
    if at_it.get() == all {
        println!("{AT_IT}");
    }
}
