//! Sign-in links, which work once and for a short time, and the sessions that they open. Both are in memory only, so a
//! cookie is invalid after a restart.
//!
//! Secrets are looked up by their digest, so that the response time reveals nothing about them.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use berth_env::Rng;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The lifetime of a link.
pub(crate) const LINK_LASTS: SignedDuration = SignedDuration::from_secs(60);
/// How long a session may be idle.
const IDLE_MAX: SignedDuration = SignedDuration::from_hours(12);
/// The maximum lifetime of a session.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(72);
/// The maximum number of sessions. Another one ends the session that was idle for longest.
const SESSIONS_MAX: usize = 16;
/// The minimum time between links on request.
const LINK_PAUSE: SignedDuration = SignedDuration::from_secs(15);
/// The prefix of the path of a session's pages.
pub(crate) const BASE_START: &str = "/~";
/// The maximum number of open streams per session.
const STREAMS_MAX: usize = 12;

type Fingerprint = [u8; 32];

/// All links and sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// The only valid link, and the time of its creation.
    link: Option<(Fingerprint, Timestamp)>,
    /// The time of the last link.
    made: Option<Timestamp>,
    open: BTreeMap<Fingerprint, Held>,
}

#[derive(Debug)]
struct Held {
    session: Session,
    /// Streams hold a weak reference to it, so they notice the end of the session.
    _life: Arc<()>,
    opened: Timestamp,
    used: Timestamp,
}

/// An open session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The token in every form of the session's pages. Other sites cannot know it.
    pub(crate) form_token: String,
    /// The path prefix of the session's pages in a browser: `/~…`. The browser sends the cookie only there.
    pub(crate) base: String,
    streams: Arc<Semaphore>,
    life: Weak<()>,
}

/// A slot for a stream. Dropping it frees the slot.
pub(crate) struct StreamPlace {
    _held: OwnedSemaphorePermit,
    life: Weak<()>,
}

impl StreamPlace {
    /// Whether the session has not ended.
    pub(crate) fn is_open(&self) -> bool {
        0 < self.life.strong_count()
    }
}

impl Session {
    /// Returns a slot for another stream, or `None` at the limit.
    pub(crate) fn stream(&self) -> Option<StreamPlace> {
        let held = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(StreamPlace { _held: held, life: Weak::clone(&self.life) })
    }
}

impl Sessions {
    /// Returns the token of a new link and invalidates the previous one.
    pub(crate) fn link(&mut self, rng: &dyn Rng, now: Timestamp) -> String {
        let token = secret(rng);
        self.link = Some((fingerprint(&token), now));
        self.made = Some(now);
        token
    }

    /// Returns a new token on the request of an anonymous client. Returns `None` if the last link is recent or still
    /// valid, so that no anonymous client invalidates the owner's link.
    pub(crate) fn another_link(&mut self, rng: &dyn Rng, now: Timestamp) -> Option<String> {
        let is_soon = self.made.is_some_and(|made| now.duration_since(made) < LINK_PAUSE);
        let still_works = self.link.is_some_and(|(_, since)| now.duration_since(since) < LINK_LASTS);
        (!is_soon && !still_works).then(|| self.link(rng, now))
    }

    /// Opens a session with a link's token and invalidates the token. Returns the cookie's value and the path of the
    /// session's pages.
    pub(crate) fn open(&mut self, token: &str, rng: &dyn Rng, now: Timestamp) -> Option<(String, String)> {
        let (wanted, since) = self.link?;
        if fingerprint(token) != wanted {
            return None;
        }
        self.link = None;
        if LINK_LASTS <= now.duration_since(since) {
            return None;
        }
        let cookie = secret(rng);
        let life = Arc::new(());
        let (form_token, base) = (secret(rng), format!("{BASE_START}{}", secret(rng)));
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let session = Session { form_token, base: base.clone(), streams, life: Arc::downgrade(&life) };
        self.open.insert(fingerprint(&cookie), Held { session, _life: life, opened: now, used: now });
        while SESSIONS_MAX < self.open.len() {
            let oldest = self.open.iter().min_by_key(|(_, held)| held.used).map(|(of, _)| *of);
            oldest.iter().for_each(|oldest| drop(self.open.remove(oldest)));
        }
        Some((cookie, base))
    }

    /// Returns the session of a cookie.
    pub(crate) fn find(&mut self, cookie: &str, now: Timestamp) -> Option<Session> {
        self.open.retain(|_, held| now.duration_since(held.used) < IDLE_MAX && now.duration_since(held.opened) < AGE_MAX);
        let held = self.open.get_mut(&fingerprint(cookie))?;
        held.used = now;
        Some(held.session.clone())
    }

    /// Ends all sessions and invalidates the link.
    pub(crate) fn end_all(&mut self) {
        self.link = None;
        self.open.clear();
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, cookie: &str) {
        self.open.remove(&fingerprint(cookie));
    }
}

/// Whether a form's token is the session's. Comparing digests reveals nothing through the response time.
pub(crate) fn is_same(given: &str, wanted: &str) -> bool {
    fingerprint(given) == fingerprint(wanted)
}

fn secret(rng: &dyn Rng) -> String {
    let mut bytes = [0; 32];
    rng.fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn fingerprint(secret: &str) -> Fingerprint {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Counting(Mutex<u8>);

    impl Rng for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            let mut count = self.0.lock().expect("no holder panics");
            *count += 1;
            bytes.fill(*count);
        }
    }

    fn rng() -> Counting {
        Counting(Mutex::new(0))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    #[test]
    fn a_link_works_once_and_for_a_minute_and_only_the_last_one() {
        let (mut sessions, rng) = (Sessions::default(), rng());
        let token = sessions.link(&rng, at(0));
        assert_eq!(sessions.open("", &rng, at(1)), None);
        assert!(sessions.open(&token, &rng, at(59)).is_some());
        assert_eq!(sessions.open(&token, &rng, at(59)), None, "a second time");
        let late = sessions.link(&rng, at(100));
        assert_eq!(sessions.open(&late, &rng, at(160)), None, "too late");
        let (early, last) = (sessions.link(&rng, at(200)), sessions.link(&rng, at(201)));
        assert_eq!(sessions.open(&early, &rng, at(202)), None, "another was made since");
        assert!(sessions.open(&last, &rng, at(202)).is_some());
    }

    #[test]
    fn a_stranger_gets_a_link_made_only_now_and_then() {
        let (mut sessions, rng) = (Sessions::default(), rng());
        let token = sessions.another_link(&rng, at(0)).expect("the first");
        assert_eq!(sessions.another_link(&rng, at(59)), None, "there is one that works");
        assert!(sessions.open(&token, &rng, at(59)).is_some());
        assert_eq!(sessions.another_link(&rng, at(59)).map(drop), Some(()), "it was used");
        assert_eq!(sessions.another_link(&rng, at(118)), None);
        let token = sessions.another_link(&rng, at(119)).expect("it works no more");
        assert!(sessions.open(&token, &rng, at(119)).is_some());
        assert_eq!(sessions.another_link(&rng, at(133)), None, "one was made a moment ago");
    }

    #[test]
    fn sessions_are_few_and_end() {
        let (mut sessions, rng) = (Sessions::default(), rng());
        let mut open = |second| {
            let token = sessions.link(&rng, at(second));
            sessions.open(&token, &rng, at(second)).expect("a session").0
        };
        let first = open(0);
        let rest: Vec<_> = (1..=i64::try_from(SESSIONS_MAX).expect("few")).map(&mut open).collect();
        assert!(sessions.find(&first, at(20)).is_none(), "the one that was used longest ago is gone");
        assert!(rest.iter().all(|cookie| sessions.find(cookie, at(20)).is_some()));
        sessions.end(&rest[0]);
        assert!(sessions.find(&rest[0], at(20)).is_none(), "it was ended");
        assert!(sessions.find(&rest[1], at(20 + 12 * 3600)).is_none(), "unused for half a day");
        assert!(Sessions::default().find(&rest[2], at(20)).is_none(), "a later process knows nothing of it");
    }

    #[test]
    fn streams_of_a_session_are_few() {
        let (mut sessions, rng) = (Sessions::default(), rng());
        let token = sessions.link(&rng, at(0));
        let (cookie, _) = sessions.open(&token, &rng, at(0)).expect("a session");
        let session = sessions.find(&cookie, at(0)).expect("it is open");
        let mut places: Vec<_> = std::iter::from_fn(|| session.stream()).collect();
        assert_eq!(places.len(), STREAMS_MAX);
        places.pop();
        assert!(session.stream().is_some(), "a place is free again");
        assert!(places[0].is_open());
        sessions.end(&cookie);
        assert!(!places[0].is_open(), "what was opened ends with its session");
    }
}
