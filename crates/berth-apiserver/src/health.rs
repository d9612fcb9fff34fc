//! `/healthz`, `/livez` and `/readyz`.

use crate::{path::HealthEndpoint, query::Query};
use futures::{FutureExt, future::BoxFuture};
use hyper::StatusCode;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// The timeout of a check, as of upstream's etcd check. A component that does not respond is unhealthy.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The health of the server. The binary reports the end of its startup, and adds checks. The server reports its stop.
/// Cheap to clone.
#[derive(Clone)]
pub struct Readiness(Arc<Shared>);

struct Shared {
    stage: AtomicU8,
    /// The name of the check that fails until the startup is complete.
    started: &'static str,
    checks: Mutex<Vec<Check>>,
    /// The parts of the control plane.
    components: Mutex<Vec<Check>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::when("poststarthook/bootstrap")
    }
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

/// The effect of a failing check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server is not ready and may recover: `/readyz` fails.
    Unready,
    /// The server cannot recover and must be restarted: `/livez` and `/healthz` fail too.
    Dead,
}

/// The result of a check.
pub type Found = Result<(), CheckError>;

/// Why a check fails, for administrators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CheckError(pub String);

type Ask = dyn Fn() -> BoxFuture<'static, Found> + Send + Sync;

/// One check.
#[derive(Clone)]
struct Check {
    name: &'static str,
    failure: Failure,
    within: Duration,
    ask: Arc<Ask>,
}

impl Readiness {
    /// Creates the health of a server that starts. The check `started` fails until [`Readiness::set_ready`].
    #[must_use]
    pub fn when(started: &'static str) -> Self {
        Self(Arc::new(Shared { stage: AtomicU8::new(STARTING), started, checks: Mutex::default(), components: Mutex::default() }))
    }

    /// Reports that the startup is complete. Has no effect on a stopping server.
    pub fn set_ready(&self) {
        let _ = self.0.stage.compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Reports that the server stops: `/readyz` fails from now on.
    pub fn set_stopping(&self) {
        self.0.stage.store(STOPPING, Ordering::Release);
    }

    /// Whether the server is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stage.load(Ordering::Acquire) == STOPPING
    }

    /// Adds a check with this name. It must be cheap, because any client can run it.
    pub fn add<F>(&self, name: &'static str, failure: Failure, ask: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Found> + Send + 'static,
    {
        self.add_within(CHECK_TIMEOUT, name, failure, ask);
    }

    /// Adds a check with this timeout.
    pub(crate) fn add_within<F>(&self, within: Duration, name: &'static str, failure: Failure, ask: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Found> + Send + 'static,
    {
        self.checks().push(Check { name, failure, within, ask: Arc::new(move || ask().boxed()) });
    }

    /// Adds a part of the control plane, which clients can list.
    pub fn add_component<F>(&self, name: &'static str, ask: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Found> + Send + 'static,
    {
        let check = Check { name, failure: Failure::Unready, within: CHECK_TIMEOUT, ask: Arc::new(move || ask().boxed()) };
        self.0.components.lock().unwrap_or_else(PoisonError::into_inner).push(check);
    }

    /// Returns the health of a part. `None`: it is not a part of this server.
    pub(crate) async fn component(&self, name: &str) -> Option<Found> {
        let check = self.0.components.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|check| check.name == name).cloned();
        Some(check?.run().await)
    }

    fn checks(&self) -> MutexGuard<'_, Vec<Check>> {
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the checks of an endpoint, in the order of its output.
    fn checks_of(&self, endpoint: HealthEndpoint) -> Vec<Check> {
        let fixed = |name, fails: Option<&'static str>| Check {
            name,
            failure: Failure::Unready,
            within: CHECK_TIMEOUT,
            ask: Arc::new(move || futures::future::ready(fails.map_or(Ok(()), |why| Err(CheckError(why.to_owned())))).boxed()),
        };
        let is_asked = |check: &&Check| endpoint == HealthEndpoint::Readyz || check.failure == Failure::Dead;
        let mut checks = vec![fixed("ping", None)];
        checks.extend(self.checks().iter().filter(is_asked).cloned());
        if endpoint == HealthEndpoint::Readyz {
            let stage = self.0.stage.load(Ordering::Acquire);
            checks.push(fixed(self.0.started, (stage == STARTING).then_some("not finished")));
            checks.push(fixed("shutdown", (stage == STOPPING).then_some("process is shutting down")));
        }
        checks
    }
}

impl Check {
    async fn run(&self) -> Found {
        within(self.within, (self.ask)()).await
    }
}

async fn within(longest: Duration, ask: impl Future<Output = Found>) -> Found {
    timeout(longest, ask).await.unwrap_or_else(|_| Err(CheckError(format!("no answer within {longest:?}"))))
}

/// Returns the response as text, or `None` if the check does not exist.
pub(crate) async fn answer(
    endpoint: HealthEndpoint,
    check: Option<&str>,
    query: &Query<'_>,
    readiness: &Readiness,
) -> Option<(StatusCode, String)> {
    let checks = readiness.checks_of(endpoint);
    let Some(name) = check else { return Some(report(endpoint, &checks, query).await) };
    let found = checks.into_iter().find(|known| known.name == name)?.run().await;
    Some(match found {
        Ok(()) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
    })
}

/// Formats the report. Every client may read it, so only the single check and the log contain the reason of a failure.
async fn report(endpoint: HealthEndpoint, checks: &[Check], query: &Query<'_>) -> (StatusCode, String) {
    let endpoint = endpoint.as_str();
    let mut excluded: BTreeSet<&str> = query.all("exclude").collect();
    let (mut lines, mut passed) = (String::new(), true);
    // Writing to a string cannot fail.
    for check in checks {
        let name = check.name;
        let _ = if excluded.remove(name) {
            writeln!(lines, "[+]{name} excluded: ok")
        } else if let Err(why) = check.run().await {
            passed = false;
            tracing::info!(endpoint, check = name, %why, "a health check failed");
            writeln!(lines, "[-]{name} failed: reason withheld")
        } else {
            writeln!(lines, "[+]{name} ok")
        };
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {}", names.join(","));
    }
    match (passed, query.has("verbose")) {
        (true, false) => (StatusCode::OK, "ok".to_owned()),
        (true, true) => (StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
        (false, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::{pending, ready};

    async fn at(readiness: &Readiness, endpoint: HealthEndpoint, name: Option<&str>, query: &str) -> Option<(u16, String)> {
        let found = answer(endpoint, name, &Query::parse(Some(query)), readiness).await;
        found.map(|(code, text)| (code.as_u16(), text))
    }

    /// Returns the health with the checks of the binary, and their results.
    fn with_parts(store: Found, caches: Found) -> Readiness {
        let readiness = Readiness::default();
        readiness.set_ready();
        readiness.add("store", Failure::Dead, move || ready(store.clone()));
        readiness.add("informer-sync", Failure::Unready, move || ready(caches.clone()));
        readiness
    }

    fn is(code: u16, text: &str) -> Option<(u16, String)> {
        Some((code, text.to_owned()))
    }

    #[tokio::test]
    async fn ready_only_between_start_and_stop() {
        let readiness = Readiness::default();
        let unready = "[+]ping ok\n[-]poststarthook/bootstrap failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
        assert_eq!(at(&readiness, HealthEndpoint::Readyz, None, "").await, is(500, unready));
        assert_eq!(at(&readiness, HealthEndpoint::Livez, None, "").await, is(200, "ok"));
        readiness.set_ready();
        assert_eq!(at(&readiness, HealthEndpoint::Readyz, None, "").await, is(200, "ok"));
        readiness.set_stopping();
        readiness.set_ready();
        let stopping = "[+]ping ok\n[+]poststarthook/bootstrap ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
        assert_eq!(at(&readiness, HealthEndpoint::Readyz, None, "").await, is(500, stopping));
        assert_eq!(at(&readiness, HealthEndpoint::Healthz, None, "").await, is(200, "ok"));
    }

    #[tokio::test]
    async fn what_may_come_to_itself_is_unready_and_what_does_not_is_dead() {
        let codes = async |readiness: &Readiness| {
            let mut codes = Vec::new();
            for endpoint in [HealthEndpoint::Readyz, HealthEndpoint::Livez, HealthEndpoint::Healthz] {
                codes.extend(at(readiness, endpoint, None, "").await.map(|(code, _)| code));
            }
            codes
        };
        let broken = || Err(CheckError("no space is left".to_owned()));
        assert_eq!(codes(&with_parts(Ok(()), Ok(()))).await, [200, 200, 200]);
        assert_eq!(codes(&with_parts(Ok(()), broken())).await, [500, 200, 200]);
        assert_eq!(codes(&with_parts(broken(), Ok(()))).await, [500, 500, 500]);
    }

    #[tokio::test]
    async fn checks_can_be_listed_left_out_and_asked_alone() {
        let readiness = with_parts(Err(CheckError("no space is left".to_owned())), Ok(()));
        let livez = HealthEndpoint::Livez;
        assert_eq!(
            at(&readiness, livez, None, "verbose").await,
            is(500, "[+]ping ok\n[-]store failed: reason withheld\nlivez check failed\n")
        );
        assert_eq!(
            at(&readiness, livez, None, "verbose&exclude=store").await,
            is(200, "[+]ping ok\n[+]store excluded: ok\nlivez check passed\n")
        );
        assert_eq!(
            at(&readiness, livez, None, "verbose=1&exclude=store&exclude=b&exclude=a").await,
            is(
                200,
                "[+]ping ok\n[+]store excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nlivez check passed\n"
            )
        );
        assert_eq!(at(&readiness, livez, Some("ping"), "").await, is(200, "ok"));
        assert_eq!(at(&readiness, livez, Some("store"), "exclude=store").await, is(500, "internal server error: no space is left\n"));
        assert_eq!(at(&readiness, HealthEndpoint::Readyz, Some("informer-sync"), "verbose").await, is(200, "ok"));
        assert_eq!(at(&readiness, livez, Some("informer-sync"), "").await, None);
        assert_eq!(at(&readiness, livez, Some("nope"), "").await, None);
    }

    #[tokio::test]
    async fn a_part_that_does_not_answer_is_not_well() {
        assert_eq!(within(Duration::from_millis(1), pending()).await, Err(CheckError("no answer within 1ms".to_owned())));
    }
}
