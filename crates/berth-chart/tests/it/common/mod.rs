//! Rollouts to draw.
#![allow(dead_code, reason = "each test uses a part")]

use berth_chart::{Chart, Level, Mark, MarkKind, Pod, Sample};
use berth_workloads::pod_state::{PodCounts, PodState};
use std::time::Duration;

pub(crate) fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn level(pods: u32) -> Vec<Level> {
    vec![Level { at: Duration::ZERO, pods }]
}

fn mark(millis: u64, kind: MarkKind, text: &str) -> Mark {
    Mark { at: at(millis), kind, text: text.to_owned() }
}

/// Three pods that are replaced one by one, each after the deletion of the previous one: 2 s to start, 20 s to stop.
pub(crate) fn few() -> Chart {
    let old = |number: u64| Pod {
        name: format!("web-868fb45f6-old{number}"),
        revision: 0,
        states: vec![
            (Duration::ZERO, Some(PodState::Available)),
            (at(number * 22_000), Some(PodState::Terminating)),
            (at(number * 22_000 + 20_000), None),
        ],
    };
    let new = |number: u64| {
        let comes = number * 22_000 - if number == 0 { 0 } else { 2_000 };
        let states = vec![
            (at(comes), Some(PodState::Pending)),
            (at(comes + 400), Some(PodState::Starting)),
            (at(comes + 2_000), Some(PodState::Available)),
        ];
        Pod { name: format!("web-548756569-new{number}"), revision: 1, states }
    };
    let pods: Vec<Pod> = (0..3).map(old).chain((0..3).map(new)).collect();
    Chart {
        title: "Deployment default/web, 3 pods, RollingUpdate, TerminationComplete".to_owned(),
        note: "complete after 1m4s; at most 4 pods, at least 2 available".to_owned(),
        end: at(68_000),
        revisions: vec!["web-868fb45f6".to_owned(), "web-548756569".to_owned()],
        samples: counted(&pods, 2),
        pods,
        wanted: level(3),
        bound: level(4),
        marks: vec![mark(0, MarkKind::Change, "image main=web:2"), mark(64_000, MarkKind::Done, "complete")],
        ..Chart::default()
    }
}

/// Returns the samples that the pods imply.
fn counted(pods: &[Pod], revisions: usize) -> Vec<Sample> {
    let mut times: Vec<Duration> = pods.iter().flat_map(|pod| pod.states.iter().map(|(at, _)| *at)).collect();
    times.sort();
    times.dedup();
    let sample = |at: Duration| {
        let mut counts = vec![PodCounts::default(); revisions];
        for pod in pods {
            let state = pod.states.iter().rev().find(|(from, _)| *from <= at).and_then(|(_, state)| *state);
            counts[pod.revision].moved(None, state);
        }
        Sample { at, counts }
    };
    times.into_iter().map(sample).collect()
}

/// Ten thousand pods, which are replaced over twenty minutes in waves, with more changes than columns.
pub(crate) fn many() -> Chart {
    let sample = |step: u32| {
        let new = step * 4;
        let old = 10_000 - new;
        let wave = 300 + step % 40 * 10;
        let counts = |available: u32| PodCounts { available, ..PodCounts::default() };
        let coming = PodCounts { ready: wave / 6, starting: wave / 3, pending: wave / 8, ..counts(new.saturating_sub(wave)) };
        let going = PodCounts { terminating: if step % 100 < 60 { wave } else { 20 }, ..counts(old) };
        Sample { at: at(u64::from(step) * 480), counts: vec![going, coming] }
    };
    let done = Sample { at: at(1_212_000), counts: vec![PodCounts::default(), PodCounts { available: 10_000, ..PodCounts::default() }] };
    Chart {
        title: "Deployment shop/checkout, 10000 pods, RollingUpdate, TerminationStarted".to_owned(),
        note: "complete after 20m12s; at most 10690 pods, at least 9310 available".to_owned(),
        end: at(1_290_000),
        revisions: vec!["checkout-5c49cfc7d6".to_owned(), "checkout-7f6c8b9d54".to_owned()],
        samples: (0..=2500).map(sample).chain([done]).collect(),
        wanted: level(10_000),
        bound: level(10_500),
        marks: vec![
            mark(0, MarkKind::Change, "image main=checkout:2"),
            mark(2_000, MarkKind::Change, "scaled to 10000"),
            mark(600_000, MarkKind::Trouble, "Deployment checkout exceeds its progress deadline of 600 s"),
            mark(1_212_000, MarkKind::Done, "complete"),
        ],
        ..Chart::default()
    }
}

/// Two revisions, of which one fails, and then the forecast of its rollback.
pub(crate) fn undone() -> Chart {
    let counts = |available, starting, failed, terminating| PodCounts { available, starting, failed, terminating, ..PodCounts::default() };
    let sample = |millis, counts: [PodCounts; 3]| Sample { at: at(millis), counts: counts.to_vec() };
    let none = PodCounts::default();
    Chart {
        title: "StatefulSet shop/cart, 5 pods, RollingUpdate, Parallel".to_owned(),
        note: "waits for cart-4: it crashes with exit code 1".to_owned(),
        end: at(300_000),
        now: Some(at(160_000)),
        revisions: vec!["cart-1".to_owned(), "cart-2".to_owned(), "cart-3".to_owned()],
        samples: vec![
            sample(0, [counts(2, 0, 0, 0), counts(3, 0, 0, 0), none]),
            sample(20_000, [counts(2, 0, 0, 0), counts(2, 0, 0, 1), none]),
            sample(50_000, [counts(2, 0, 0, 0), counts(2, 0, 0, 0), counts(0, 1, 0, 0)]),
            sample(65_000, [counts(2, 0, 0, 0), counts(2, 0, 0, 0), counts(0, 0, 1, 0)]),
            sample(180_000, [counts(2, 0, 0, 0), counts(2, 0, 0, 0), counts(0, 0, 0, 1)]),
            sample(210_000, [counts(2, 0, 0, 0), counts(2, 1, 0, 0), none]),
            sample(225_000, [counts(2, 0, 0, 0), counts(3, 0, 0, 0), none]),
        ],
        wanted: level(5),
        marks: vec![
            mark(20_000, MarkKind::Change, "image main=cart:3"),
            mark(65_000, MarkKind::Trouble, "cart-4 crashes with exit code 1"),
            mark(180_000, MarkKind::Change, "undone"),
        ],
        ..Chart::default()
    }
}
