//! The questions, and when each is asked next, as plain data. [`super::Analyst`] has the loop that sleeps.

use berth_identity::{Name, Namespace, ObjectKey};
use berth_workloads::analysis::{Answer, Asked, NoAnswer, Question};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
};

/// How many questions are asked at once. Each uses a connection and up to 64 KiB.
pub(super) const AT_ONCE_MAX: usize = 16;
/// How many of them belong to one namespace, so that no namespace can block the others.
pub(super) const AT_ONCE_OF_NAMESPACE_MAX: usize = 4;
/// The delay from an unanswered attempt to the next one. It doubles each time.
const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(5);
/// The maximum delay.
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_mins(1);

/// One attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The key of the question.
    pub(super) key: ObjectKey,
    /// The question.
    pub(super) question: Question,
    number: u64,
}

/// The question of one key.
struct Entry {
    question: Question,
    /// When it was first asked.
    since: Option<Timestamp>,
    last: Option<Result<Answer, NoAnswer>>,
    failures: u32,
    state: QuestionState,
}

/// The state of a question.
enum QuestionState {
    /// It is asked at this time, if there is room.
    Due(Timestamp),
    /// It is being asked, by the attempt with this number.
    Out(u64),
    /// There is an answer.
    Answered,
}

/// All questions.
#[derive(Default)]
pub(super) struct QuestionQueue {
    entries: BTreeMap<ObjectKey, Entry>,
    /// The due questions, by namespace and time.
    lines: BTreeMap<Namespace, BTreeSet<(Timestamp, Name)>>,
    /// How many questions are being asked, by namespace. Removed questions count too.
    out: BTreeMap<Namespace, usize>,
    /// The namespace that was served last.
    served: Option<Namespace>,
    /// Keys whose question was removed recently, and when they may have another. Changing a question repeatedly is thus no faster than
    /// waiting.
    resting: BTreeMap<ObjectKey, Timestamp>,
    /// The same by time.
    rested: VecDeque<(Timestamp, ObjectKey)>,
    attempts: u64,
}

impl QuestionQueue {
    /// Sets or removes the question of `key`. Returns whether there is new work.
    pub(super) fn want(&mut self, key: &ObjectKey, question: Option<&Question>, now: Timestamp) -> bool {
        if self.entries.get(key).map(|entry| &entry.question) == question {
            return false;
        }
        if let Some(entry) = self.entries.remove(key) {
            if let QuestionState::Due(at) = entry.state {
                self.leave_line(key, at);
            }
            if entry.since.is_some() {
                self.rest(key, now);
            }
        }
        let Some(question) = question else { return false };
        let at = self.resting.get(key).map_or(now, |until| now.max(*until));
        let entry = Entry { question: question.clone(), since: None, last: None, failures: 0, state: QuestionState::Due(at) };
        self.entries.insert(key.clone(), entry);
        self.join_line(key, at);
        true
    }

    pub(super) fn asked(&self, key: &ObjectKey) -> Option<Asked> {
        let entry = self.entries.get(key)?;
        Some(Asked { question: entry.question.clone(), since: entry.since?, last: entry.last })
    }

    /// The next attempt, if a question is due and there is room. Namespaces take turns.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<Attempt> {
        let (namespace, at, name) = self.open_lines().find_map(|(namespace, line)| {
            let (at, name) = line.first().filter(|(at, _)| *at <= now)?;
            Some((namespace.clone(), *at, name.clone()))
        })?;
        let key = ObjectKey { namespace: namespace.clone(), name };
        self.leave_line(&key, at);
        self.attempts += 1;
        let number = self.attempts;
        let entry = self.entries.get_mut(&key).expect("what stands in a line is wanted");
        entry.state = QuestionState::Out(number);
        entry.since.get_or_insert(now);
        *self.out.entry(namespace.clone()).or_default() += 1;
        self.served = Some(namespace);
        Some(Attempt { question: entry.question.clone(), key, number })
    }

    /// When the next question is due for which there is room.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.open_lines().filter_map(|(_, line)| Some(line.first()?.0)).min()
    }

    /// Records the result of an attempt. Returns whether it is new for a present question.
    pub(super) fn answered(&mut self, attempt: &Attempt, answered: Result<Answer, NoAnswer>, now: Timestamp) -> bool {
        let namespace = &attempt.key.namespace;
        match self.out.get_mut(namespace) {
            Some(out) if *out > 1 => *out -= 1,
            _ => drop(self.out.remove(namespace)),
        }
        let Some(entry) = self.entries.get_mut(&attempt.key) else { return false };
        if !matches!(entry.state, QuestionState::Out(number) if number == attempt.number) {
            return false;
        }
        let is_news = entry.last != Some(answered);
        entry.last = Some(answered);
        if answered.is_ok() {
            entry.state = QuestionState::Answered;
            return is_news;
        }
        let at = now.checked_add(back_off(entry.failures)).unwrap_or(Timestamp::MAX);
        entry.failures = entry.failures.saturating_add(1);
        entry.state = QuestionState::Due(at);
        self.join_line(&attempt.key, at);
        is_news
    }

    /// The due questions of namespaces that have room, starting after the one that was served last.
    fn open_lines(&self) -> impl Iterator<Item = (&Namespace, &BTreeSet<(Timestamp, Name)>)> {
        let has_room = self.out.values().sum::<usize>() < AT_ONCE_MAX;
        let served = self.served.as_ref();
        let behind = self.lines.range::<Namespace, _>((served.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let before = self.lines.iter().take_while(move |(namespace, _)| served.is_some_and(|served| *namespace <= served));
        let is_open =
            move |(namespace, _): &(&Namespace, _)| has_room && self.out.get(*namespace).is_none_or(|out| *out < AT_ONCE_OF_NAMESPACE_MAX);
        behind.chain(before).filter(is_open)
    }

    fn join_line(&mut self, key: &ObjectKey, at: Timestamp) {
        self.lines.entry(key.namespace.clone()).or_default().insert((at, key.name.clone()));
    }

    fn leave_line(&mut self, key: &ObjectKey, at: Timestamp) {
        let Some(line) = self.lines.get_mut(&key.namespace) else { return };
        line.remove(&(at, key.name.clone()));
        if line.is_empty() {
            self.lines.remove(&key.namespace);
        }
    }

    fn rest(&mut self, key: &ObjectKey, now: Timestamp) {
        while let Some((until, key)) = self.rested.front().filter(|(until, _)| *until <= now) {
            if self.resting.get(key) == Some(until) {
                self.resting.remove(key);
            }
            self.rested.pop_front();
        }
        let until = now.checked_add(BACK_OFF_FIRST).unwrap_or(Timestamp::MAX);
        self.resting.insert(key.clone(), until);
        self.rested.push_back((until, key.clone()));
    }
}

fn back_off(failures: u32) -> SignedDuration {
    let times = 1_i32.checked_shl(failures.min(16)).unwrap_or(i32::MAX);
    BACK_OFF_FIRST.checked_mul(times).map_or(BACK_OFF_MAX, |wait| wait.min(BACK_OFF_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::{RolloutRevision, TemplateHash};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn question(query: &str) -> Question {
        Question {
            provider: "p".to_owned(),
            query: query.to_owned(),
            namespace: String::new(),
            deployment: String::new(),
            revision: RolloutRevision(1),
            template_hash: TemplateHash::default(),
            step: 2,
        }
    }

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(namespace, name)
    }

    fn next(desk: &mut QuestionQueue, second: i64) -> Vec<Attempt> {
        std::iter::from_fn(|| desk.next(at(second))).collect()
    }

    fn names(attempts: &[Attempt]) -> Vec<String> {
        attempts.iter().map(|attempt| attempt.key.to_string()).collect()
    }

    #[test]
    fn namespaces_take_turns_and_none_has_more_than_its_share() {
        let mut desk = QuestionQueue::default();
        for number in 0..10 {
            desk.want(&key("a", &format!("{number}")), Some(&question("q")), at(0));
        }
        desk.want(&key("b", "0"), Some(&question("q")), at(1));
        desk.want(&key("c", "0"), Some(&question("q")), at(1));
        let mut first = next(&mut desk, 1);
        assert_eq!(names(&first), ["a/0", "b/0", "c/0", "a/1", "a/2", "a/3"]);
        assert_eq!(desk.next_wakeup(), None, "there is room for none of those that wait");
        desk.answered(&first.remove(0), Err(NoAnswer::TimedOut), at(2));
        assert_eq!(names(&next(&mut desk, 2)), ["a/4"]);
    }

    #[test]
    fn so_many_are_out_at_once() {
        let mut desk = QuestionQueue::default();
        for number in 0..100 {
            desk.want(&key(&format!("{number:03}"), "web"), Some(&question("q")), at(0));
        }
        let out = next(&mut desk, 0);
        assert_eq!(out.len(), AT_ONCE_MAX);
        // The questions are removed, and are still being asked.
        out.iter().for_each(|attempt| assert!(!desk.want(&attempt.key, None, at(1))));
        assert!(next(&mut desk, 1).is_empty());
        out.iter().for_each(|attempt| assert!(!desk.answered(attempt, Err(NoAnswer::TimedOut), at(2))));
        assert_eq!(next(&mut desk, 2).len(), AT_ONCE_MAX);
        assert!(desk.asked(&key("000", "web")).is_none());
    }

    #[test]
    fn who_does_not_answer_is_asked_later_each_time_and_an_answer_ends_it() {
        let mut desk = QuestionQueue::default();
        let web = key("a", "web");
        assert!(desk.want(&web, Some(&question("q")), at(0)) && desk.asked(&web).is_none());
        let mut now = 0;
        for (wait, is_news) in [(5, true), (10, false), (20, false), (40, false), (60, false), (60, false)] {
            let attempt = desk.next(at(now)).expect("it is due");
            assert!(desk.next(at(now)).is_none() && !desk.want(&web, Some(&question("q")), at(now)), "it is out");
            assert_eq!(desk.answered(&attempt, Err(NoAnswer::TimedOut), at(now)), is_news);
            assert_eq!(desk.next_wakeup(), Some(at(now + wait)));
            assert!(desk.next(at(now + wait - 1)).is_none());
            now += wait;
        }
        let attempt = desk.next(at(now)).expect("it is due");
        let answer = Answer::try_from(1.0).expect("finite");
        assert!(desk.answered(&attempt, Ok(answer), at(now)));
        assert_eq!(desk.asked(&web), Some(Asked { question: question("q"), since: at(0), last: Some(Ok(answer)) }));
        assert_eq!((desk.next_wakeup(), names(&next(&mut desk, 100_000))), (None, Vec::new()));
    }

    #[test]
    fn another_question_starts_over_but_not_at_once_and_ignores_the_answer_to_the_first() {
        let mut desk = QuestionQueue::default();
        let web = key("a", "web");
        desk.want(&web, Some(&question("one")), at(0));
        let first = desk.next(at(0)).expect("it is due");
        assert!(desk.want(&web, Some(&question("two")), at(1)));
        assert!(!desk.answered(&first, Ok(Answer::try_from(1.0).expect("finite")), at(2)));
        assert_eq!((desk.asked(&web), desk.next_wakeup()), (None, Some(at(6))));
        // Removing and asking again does not shorten the delay.
        desk.want(&web, None, at(3));
        desk.want(&web, Some(&question("two")), at(4));
        assert_eq!(desk.next_wakeup(), Some(at(6)));
        assert_eq!(desk.next(at(6)).expect("it is due").question, question("two"));
        assert_eq!(desk.asked(&web).map(|asked| asked.since), Some(at(6)));
    }
}
