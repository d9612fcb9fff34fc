//! `/healthz`, `/livez` and `/readyz`.

use crate::{path::HealthEndpoint, query::Query};
use hyper::StatusCode;
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

/// Whether the server should be sent requests. The binary says when it has started; the server says when it stops. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

impl Readiness {
    /// Everything has started. A server that stops already goes on stopping.
    pub fn set_ready(&self) {
        let _ = self.0.compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The server will go away: `/readyz` fails from now on.
    pub fn set_stopping(&self) {
        self.0.store(STOPPING, Ordering::Release);
    }

    fn state(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }
}

/// One check: its name and whether it passes.
type Check = (&'static str, bool);

fn checks(endpoint: HealthEndpoint, readiness: &Readiness, policy: PolicyState) -> Vec<Check> {
    let mut checks = vec![("ping", true)];
    if endpoint == HealthEndpoint::Readyz {
        let state = readiness.state();
        let policy = policy == PolicyState::Known;
        checks.extend([("poststarthook/bootstrap", state != STARTING), ("policy-sync", policy), ("shutdown", state != STOPPING)]);
    }
    checks
}

/// Whether requests can be authorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyState {
    /// Roles and bindings are known as they were a moment ago.
    Known,
    /// What is known of them is too old.
    TooOld,
}

/// The answer, as text. `None`: no such check.
pub(crate) fn answer(
    endpoint: HealthEndpoint,
    check: Option<&str>,
    query: &Query<'_>,
    readiness: &Readiness,
    policy: PolicyState,
) -> Option<(StatusCode, String)> {
    let all = checks(endpoint, readiness, policy);
    let Some(name) = check else { return Some(report(endpoint, &all, query)) };
    let found = all.into_iter().find(|(known, _)| *known == name)?;
    Some(if found.1 { (StatusCode::OK, "ok".to_owned()) } else { report(endpoint, &[found], query) })
}

fn report(endpoint: HealthEndpoint, checks: &[Check], query: &Query<'_>) -> (StatusCode, String) {
    let mut lines = String::new();
    let mut passed = true;
    for (name, ok) in checks {
        // Writing to a string cannot fail.
        let _ = if query.all("exclude").any(|excluded| excluded == *name) {
            writeln!(lines, "[+]{name} excluded: ok")
        } else if *ok {
            writeln!(lines, "[+]{name} ok")
        } else {
            passed = false;
            writeln!(lines, "[-]{name} failed: reason withheld")
        };
    }
    let endpoint = endpoint.as_str();
    match (passed, query.has("verbose")) {
        (true, false) => (StatusCode::OK, "ok".to_owned()),
        (true, true) => (StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
        (false, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(readiness: &Readiness, endpoint: HealthEndpoint, name: Option<&str>, query: &str, expected: Option<(u16, &str)>) {
        let found = answer(endpoint, name, &Query::parse(Some(query)), readiness, PolicyState::Known);
        assert_eq!(found.as_ref().map(|(code, text)| (code.as_u16(), text.as_str())), expected);
    }

    #[test]
    fn ready_only_between_start_and_stop() {
        let readiness = Readiness::default();
        let unready =
            "[+]ping ok\n[-]poststarthook/bootstrap failed: reason withheld\n[+]policy-sync ok\n[+]shutdown ok\nreadyz check failed\n";
        check(&readiness, HealthEndpoint::Readyz, None, "", Some((500, unready)));
        check(&readiness, HealthEndpoint::Livez, None, "", Some((200, "ok")));
        readiness.set_ready();
        check(&readiness, HealthEndpoint::Readyz, None, "", Some((200, "ok")));
        readiness.set_stopping();
        readiness.set_ready();
        let stopping =
            "[+]ping ok\n[+]poststarthook/bootstrap ok\n[+]policy-sync ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
        check(&readiness, HealthEndpoint::Readyz, None, "", Some((500, stopping)));
        check(&readiness, HealthEndpoint::Healthz, None, "", Some((200, "ok")));
    }

    #[test]
    fn a_server_that_does_not_know_who_may_do_what_is_alive_but_not_ready() {
        let readiness = Readiness::default();
        readiness.set_ready();
        let at = |endpoint| answer(endpoint, None, &Query::parse(None), &readiness, PolicyState::TooOld).expect("all checks");
        assert_eq!(at(HealthEndpoint::Livez).0, StatusCode::OK);
        let (code, text) = at(HealthEndpoint::Readyz);
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(text.contains("[-]policy-sync failed"), "{text}");
    }

    #[test]
    fn checks_can_be_listed_left_out_and_asked_alone() {
        let readiness = Readiness::default();
        check(&readiness, HealthEndpoint::Livez, None, "verbose", Some((200, "[+]ping ok\nlivez check passed\n")));
        check(&readiness, HealthEndpoint::Readyz, None, "exclude=poststarthook/bootstrap", Some((200, "ok")));
        check(&readiness, HealthEndpoint::Readyz, Some("ping"), "", Some((200, "ok")));
        check(
            &readiness,
            HealthEndpoint::Readyz,
            Some("poststarthook/bootstrap"),
            "",
            Some((500, "[-]poststarthook/bootstrap failed: reason withheld\nreadyz check failed\n")),
        );
        check(&readiness, HealthEndpoint::Readyz, Some("nope"), "", None);
    }
}
