//! What ends by the server's time, neither sooner nor later, whatever the machine's clock is set to: a token, which never comes back, and an event.

use super::{
    memory::{Fault, What},
    session::{NAMESPACE, PATIENCE, Session},
    test_server::TestServer,
};
use crate::client::{Connection, POLL};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{io, time::Instant};

const ACCOUNT: &str = "mortal";
/// How long events stay: `TIME_TO_LIVE` of `berth-registry`.
const EVENT_STAYS: SignedDuration = SignedDuration::from_hours(1);
/// How long a token is asked for: the least that may be.
const TOKEN_SECONDS: i64 = 600;
/// What should end has ended by then: it is more than a day, so that the clock is trusted at once.
const LEAP: SignedDuration = SignedDuration::from_hours(25);

/// Both, made in this life of the server.
pub(crate) struct Mortals {
    connection: Connection,
    token: String,
    token_ends: Timestamp,
    event: String,
    /// No sooner; it was made a moment later.
    event_ends: Timestamp,
}

/// The body of an answer.
fn parsed(connection: &Connection, status: u16, what: &str) -> io::Result<Value> {
    match status {
        200 | 201 => Ok(serde_json::from_slice(&connection.body)?),
        _ => Err(io::Error::other(format!("{what} was answered {status}: {}", String::from_utf8_lossy(&connection.body)))),
    }
}

impl Mortals {
    /// Makes both.
    ///
    /// # Errors
    /// The server does not.
    pub(crate) async fn make(session: &Session<'_>, test_server: &mut TestServer) -> io::Result<Self> {
        let mut connection = Connection::try_open(session.administrator()).await?;
        let [accounts, events] = ["serviceaccounts", "events"].map(|resource| format!("/api/v1/namespaces/{NAMESPACE}/{resource}"));
        // One may be there from a life before.
        connection.try_request_as("POST", &accounts, "application/json", &json!({"metadata": {"name": ACCOUNT}}).to_string()).await?;
        let asked = json!({"spec": {"expirationSeconds": TOKEN_SECONDS}}).to_string();
        let status = connection.try_request_as("POST", &format!("{accounts}/{ACCOUNT}/token"), "application/json", &asked).await?;
        let status = parsed(&connection, status, "a request for a token")?["status"].take();
        let ends = status["expirationTimestamp"].as_str().and_then(|ends| ends.parse().ok());
        let (Some(token), Some(token_ends)) = (status["token"].as_str().map(str::to_owned), ends) else {
            return Err(io::Error::other(format!("a token is none: {status}")));
        };
        let event_ends = now(test_server) + EVENT_STAYS;
        let about = json!({"apiVersion": "v1", "kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT});
        let event = json!({"metadata": {"generateName": "mortal-"}, "involvedObject": about, "reason": "Made", "type": "Normal"});
        let status = connection.try_request_as("POST", &events, "application/json", &event.to_string()).await?;
        let made = parsed(&connection, status, "an event")?;
        let event = format!("{events}/{}", made["metadata"]["name"].as_str().unwrap_or_default());
        Ok(Self { connection, token, token_ends, event, event_ends })
    }

    /// Looks whether both are there for as long as their time has not come.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn check(&mut self, session: &Session<'_>, test_server: &mut TestServer) -> io::Result<()> {
        let before = now(test_server);
        let (is_valid, is_there) = (self.is_token_valid().await?, self.is_event_there().await?);
        let after = now(test_server);
        if is_valid && self.token_ends <= before {
            session.fault(Fault::new(What::Time, format!("a token that ended at {} is valid at {before}", self.token_ends)));
        }
        if !is_valid && after < self.token_ends {
            session.fault(Fault::new(What::Time, format!("a token that ends at {} is not valid at {after}", self.token_ends)));
        }
        if !is_there && after < self.event_ends {
            session.fault(Fault::new(What::Time, format!("an event that ends at {} is gone at {after}", self.event_ends)));
        }
        Ok(())
    }

    /// Lets their time come, and sees them end.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn end(&mut self, session: &Session<'_>, test_server: &mut TestServer) -> io::Result<()> {
        let ahead = now(test_server).duration_since(Timestamp::now()) + LEAP;
        test_server.in_process().set_clock(ahead);
        let until = Instant::now() + PATIENCE;
        // The clock is read once a second, and so is what has expired.
        while Instant::now() < until && (now(test_server) < self.event_ends || self.is_event_there().await?) {
            tokio::time::sleep(POLL).await;
        }
        if self.is_event_there().await? {
            let (at, within) = (now(test_server), PATIENCE.as_secs());
            session.fault(Fault::new(What::Time, format!("an event that ended at {} is there at {at}, {within} s later", self.event_ends)));
        }
        self.check(session, test_server).await
    }

    async fn is_token_valid(&mut self) -> io::Result<bool> {
        let review = json!({"spec": {"token": self.token}}).to_string();
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let status = self.connection.try_request_as("POST", reviews, "application/json", &review).await?;
        Ok(parsed(&self.connection, status, "a review of a token")?["status"]["authenticated"] == true)
    }

    async fn is_event_there(&mut self) -> io::Result<bool> {
        match self.connection.try_request_as("GET", &self.event, "application/json", "").await? {
            404 => Ok(false),
            status => parsed(&self.connection, status, "a read of an event").map(|_| true),
        }
    }
}

/// What time the server thinks it is.
fn now(test_server: &mut TestServer) -> Timestamp {
    test_server.in_process().now().expect("it runs")
}
