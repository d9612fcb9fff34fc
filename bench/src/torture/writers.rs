//! Clients that write, each remembering the answers, and that read what others write.

use super::{
    draw::Draw,
    memory::{Fault, Known, What, shown},
    session::{Answer, Session, Wish},
};
use crate::client::Connection;
use berth_linear::{Key, Object, Value};
use std::{collections::BTreeMap, io, time::Duration};

/// How many write at once.
pub(crate) const WRITERS: usize = 48;
/// Objects that one of them alone writes.
const OWN: usize = 6;
/// Objects that all of them write.
const SHARED: usize = 12;
/// How long one that was refused waits before it tries again, as it was asked to (`Retry-After` names a second, which is long here).
const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// How much an object holds beside its value, at most: of a few sectors of a disk.
const PAD_BYTES_MAX: u64 = 2000;

/// One of them, over all lives of a server.
pub(crate) struct Writer {
    number: usize,
    name: String,
    draw: Draw,
    own: Vec<Known>,
    values: u64,
}

impl Writer {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let own = vec![Known::Settled(None); OWN];
        Self { number, name: format!("w{number}"), draw: Draw::of(seed, number as u64), own, values: 0 }
    }

    fn own_key(&self, slot: usize) -> Key {
        Key(format!("{}-{slot}", self.name))
    }

    /// Compares what it remembers with what is found when nothing is on its way any more. Gives how many writes of unknown outcome have happened.
    pub(crate) fn settle(&mut self, found: &BTreeMap<Key, Object>, mut told: impl FnMut(Fault)) -> u64 {
        let mut happened = 0;
        for slot in 0..self.own.len() {
            let key = self.own_key(slot);
            match self.own[slot].settle(&key.0, found.get(&key)) {
                Ok(outcome) => happened += u64::from(outcome == Some(true)),
                Err(fault) => told(fault),
            }
        }
        happened
    }

    /// Writes and reads until it is to stop, or the server is gone.
    pub(crate) async fn run(&mut self, session: &Session<'_>) {
        while session.goes_on.get() {
            let Ok(mut connection) = Connection::try_open(session.endpoint(self.number)).await else { break };
            // Who is cut off comes again.
            while session.goes_on.get() && self.step(session, &mut connection).await.is_ok() {}
        }
        session.end(&session.writing);
    }

    async fn step(&mut self, session: &Session<'_>, connection: &mut Connection) -> io::Result<()> {
        let is_refused =
            if self.draw.below(5) < 2 { self.write_own(session, connection).await? } else { self.share(session, connection).await? };
        if is_refused {
            tokio::time::sleep(REFUSED_PAUSE).await;
        }
        Ok(())
    }

    fn next_value(&mut self) -> Value {
        self.values += 1;
        Value(format!("{}.{}", self.name, self.values))
    }

    /// What to do with an object that is at this version.
    fn wish(&mut self, object: Option<&Object>) -> Wish {
        match object {
            None => Wish::Create(self.next_value()),
            Some(object) if self.draw.one_in(4) => Wish::Delete(object.resource_version),
            Some(object) => Wish::Update(object.resource_version, self.next_value()),
        }
    }

    /// Whether it was refused.
    async fn write_own(&mut self, session: &Session<'_>, connection: &mut Connection) -> io::Result<bool> {
        let slot = self.draw.index(OWN);
        let Known::Settled(before) = self.own[slot].clone() else { return Ok(true) };
        let (key, wish, bytes) = (self.own_key(slot), self.wish(before.as_ref()), self.draw.below(PAD_BYTES_MAX));
        let answer = session.write(&self.name, connection, &key, &wish, bytes as usize).await;
        match &answer {
            Ok(Answer::Written(object)) => self.own[slot] = Known::Settled(Some(object.clone())),
            Ok(Answer::Deleted) => self.own[slot] = Known::Settled(None),
            Ok(Answer::Refused) => return Ok(true),
            Ok(Answer::Unknown) | Err(_) => {
                let wanted = match wish {
                    Wish::Create(value) | Wish::Update(_, value) => Some(value),
                    Wish::Delete(_) => None,
                };
                self.own[slot] = Known::Unsettled { before, wanted };
            }
            Ok(Answer::Otherwise) => {
                let text = format!("{key} was acknowledged as {}; {wish:?} was refused, as if it were not so", shown(before.as_ref()));
                session.fault(Fault::new(What::Lost, text));
            }
        }
        answer.map(|_| false)
    }

    /// Reads what others write too, and half of the time writes what it has just read: so most writes succeed, and an old answer to a reader after one
    /// of them fits no order. Returns whether it was refused.
    async fn share(&mut self, session: &Session<'_>, connection: &mut Connection) -> io::Result<bool> {
        let key = Key(format!("shared-{}", self.draw.index(SHARED)));
        let Some(found) = session.read(&self.name, connection, &key).await? else { return Ok(true) };
        if self.draw.one_in(2) {
            return Ok(false);
        }
        let (wish, bytes) = (self.wish(found.as_ref()), self.draw.below(PAD_BYTES_MAX));
        Ok(session.write(&self.name, connection, &key, &wish, bytes as usize).await? == Answer::Refused)
    }
}
