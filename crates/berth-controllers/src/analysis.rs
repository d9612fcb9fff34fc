//! Sends the questions of plans to analysis providers. The next plan reads the answers. This module makes no decisions.
//!
//! It stores nothing that must survive: a new leader asks again. [`Providers`] hides the providers and their protocols.

mod question_queue;

use crate::{lock, panics::caught, worker::Queue};
use berth_env::{Clock, Env, Spawner};
use berth_identity::ObjectKey;
use berth_workloads::analysis::{Answer, Asked, NoAnswer, Question};
use event_listener::Event;
use futures::future::{BoxFuture, select};
use question_queue::{Attempt, QuestionQueue};
use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// The recipients of questions.
pub trait Providers: Send + Sync + 'static {
    /// Asks once. The call ends within seconds. Nothing else of the provider's response is kept.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Answer, NoAnswer>>;
}

/// No provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProviders;

impl Providers for NoProviders {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Result<Answer, NoAnswer>> {
        Box::pin(async { Err(NoAnswer::UnknownProvider) })
    }
}

/// Asks questions while plans require them. Cheap to clone.
#[derive(Clone)]
pub struct Analyst(Arc<Shared>);

struct Shared {
    providers: Arc<dyn Providers>,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
    desk: Mutex<QuestionQueue>,
    changed: Event,
    /// The queue for keys with new answers.
    queue: OnceLock<Queue<ObjectKey>>,
    /// Whether the asking task runs. The first question starts it.
    has_begun: AtomicBool,
}

impl Analyst {
    /// An analyst over these providers. It does nothing before [`Analyst::start`].
    #[must_use]
    pub fn new(providers: Arc<dyn Providers>, env: &Env) -> Self {
        let (clock, spawner) = (Arc::clone(&env.clock), Arc::clone(&env.spawner));
        Self(Arc::new(Shared {
            providers,
            clock,
            spawner,
            desk: Mutex::default(),
            changed: Event::new(),
            queue: OnceLock::new(),
            has_begun: AtomicBool::new(false),
        }))
    }

    /// Sets or removes the question of `key`. A question that is already being asked continues.
    pub fn want(&self, key: &ObjectKey, question: Option<&Question>) {
        let now = self.0.clock.now();
        if lock(&self.0.desk).want(key, question, now) {
            self.begin();
            self.0.changed.notify(1);
        }
    }

    /// The present question of `key` and its answer.
    #[must_use]
    pub fn asked(&self, key: &ObjectKey) -> Option<Asked> {
        lock(&self.0.desk).asked(key)
    }

    /// Starts asking. Keys with new answers are added to `queue`.
    pub fn start(&self, queue: &Queue<ObjectKey>) {
        self.0.queue.get_or_init(|| queue.clone());
    }

    fn begin(&self) {
        let Some(queue) = self.0.queue.get().filter(|_| !self.0.has_begun.swap(true, Ordering::Relaxed)) else { return };
        let (analyst, queue) = (self.clone(), queue.clone());
        self.0.spawner.spawn("analyses", Box::pin(async move { analyst.run(queue).await }));
    }

    async fn run(&self, queue: Queue<ObjectKey>) {
        loop {
            let changed = self.0.changed.listen();
            let wakeup = {
                let (now, mut desk) = (self.0.clock.now(), lock(&self.0.desk));
                while let Some(attempt) = desk.next(now) {
                    self.0.spawner.spawn("analysis", Box::pin(self.clone().ask(attempt, queue.clone())));
                }
                desk.next_wakeup()
            };
            match wakeup {
                Some(at) => drop(select(changed, self.0.clock.sleep_until(at)).await),
                None => changed.await,
            }
        }
    }

    async fn ask(self, attempt: Attempt, queue: Queue<ObjectKey>) {
        let answered = caught(async { self.0.providers.ask(&attempt.question).await }).await.unwrap_or_else(|panic| {
            tracing::error!(key = %attempt.key, %panic, "asking a provider panicked");
            Err(NoAnswer::Unreachable)
        });
        let is_news = lock(&self.0.desk).answered(&attempt, answered, self.0.clock.now());
        tracing::debug!(key = %attempt.key, provider = attempt.question.provider, ?answered, "a provider was asked");
        self.0.changed.notify(1);
        if is_news {
            queue.add(attempt.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use berth_env::testing::TestEnv;
    use berth_identity::RolloutRevision;
    use futures::FutureExt;
    use jiff::{SignedDuration, Timestamp};
    use std::collections::VecDeque;

    /// Returns the given answers, each after a second, and records when it was asked.
    struct CannedProviders {
        answers: Mutex<VecDeque<Result<f64, NoAnswer>>>,
        asked_at: Mutex<Vec<Timestamp>>,
        clock: Arc<dyn Clock>,
    }

    impl Providers for CannedProviders {
        fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<Answer, NoAnswer>> {
            assert_ne!(question.query, "panic", "a fault");
            let now = self.clock.now();
            lock(&self.asked_at).push(now);
            Box::pin(async move {
                self.clock.sleep_until(now + SignedDuration::from_secs(1)).await;
                lock(&self.answers).pop_front().expect("an answer")?.try_into()
            })
        }
    }

    fn question(query: &str) -> Question {
        Question {
            provider: "p".to_owned(),
            query: query.to_owned(),
            namespace: "shop".to_owned(),
            deployment: "web".to_owned(),
            revision: RolloutRevision(2),
            template_hash: "h".into(),
            step: 2,
        }
    }

    #[test]
    fn it_is_asked_until_there_is_an_answer_and_each_news_wakes_the_key() {
        let test_env = TestEnv::default();
        let env = test_env.env();
        let answers = Mutex::new(VecDeque::from([Err(NoAnswer::TimedOut), Err(NoAnswer::TimedOut), Ok(0.5)]));
        let canned = Arc::new(CannedProviders { answers, asked_at: Mutex::default(), clock: Arc::clone(&env.clock) });
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("an empty registry");
        let queue = Queue::new("test", Arc::clone(&env.clock), &metrics);
        let analyst = Analyst::new(Arc::<CannedProviders>::clone(&canned), &env);
        analyst.start(&queue);
        let key = ObjectKey::new("shop", "web");
        analyst.want(&key, Some(&question("up")));
        let second = SignedDuration::from_secs(1);
        let woken = |seconds: i32| {
            test_env.run_for(second * seconds);
            let next = queue.next().now_or_never();
            next.iter().for_each(|key| queue.finish(key, &crate::worker::ReconcileResult::Done));
            next.is_some()
        };
        assert!(woken(2));
        assert_eq!(analyst.asked(&key).map(|asked| asked.last), Some(Some(Err(NoAnswer::TimedOut))));
        assert!(!woken(15), "the same again is no news");
        assert!(woken(15));
        assert_eq!(analyst.asked(&key).and_then(|asked| asked.last), Some(Ok(Answer::try_from(0.5).expect("finite"))));
        assert!(!woken(600), "no question is left");
        let begins = Timestamp::UNIX_EPOCH;
        assert_eq!(*lock(&canned.asked_at), [begins, begins + second * 6, begins + second * 17]);
    }

    #[test]
    fn a_provider_that_panics_has_not_answered() {
        let test_env = TestEnv::default();
        let env = test_env.env();
        let canned = CannedProviders { answers: Mutex::default(), asked_at: Mutex::default(), clock: Arc::clone(&env.clock) };
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("an empty registry");
        let analyst = Analyst::new(Arc::new(canned), &env);
        analyst.start(&Queue::new("test", Arc::clone(&env.clock), &metrics));
        let key = ObjectKey::new("shop", "web");
        analyst.want(&key, Some(&question("panic")));
        test_env.run_for(SignedDuration::from_secs(2));
        assert_eq!(analyst.asked(&key).and_then(|asked| asked.last), Some(Err(NoAnswer::Unreachable)));
    }
}
