//! Compares screens with the reviewed ones (`cargo xtask pictures` redraws them), and checks that no action runs
//! without a confirmation.

use crate::{
    Ask, Colors, Effect, Ending, Event, Key, Location, Shown, WatchState, draw,
    shown::{EventLine, PodLine, RevisionLine, Sheet, What},
    step,
};
use berth_chart::{Chart, Level, Line, Mark, MarkKind, Sample, width};
use berth_follow::{
    act::{ActionFields, Prepared, Question, Refusal, Verb},
    board::{Card, Rank},
};
use berth_identity::{Generation, RolloutRevision};
use berth_rollout::status::{Replicas, RolloutStage};
use berth_workloads::{
    pod_state::PodCounts,
    workload::{WorkloadId, WorkloadKind},
};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, layout::Rect};
use std::{sync::Arc, time::Duration};

const WEB: &str = "web";

fn id(name: &str) -> WorkloadId {
    WorkloadId::new(WorkloadKind::Deployment, "shop", name)
}

fn card(rank: Rank) -> Card {
    let message = match rank {
        Rank::Complete => "deployment \"web\" successfully rolled out",
        _ => "Waiting for deployment \"web\" rollout to finish: 1 out of 3 new replicas have been updated...",
    };
    let obstacles = match rank {
        Rank::Complete => Vec::new(),
        Rank::UnderWay => vec!["waiting for 2 terminating pods (web-1-c has 25s of its 30s grace left) before creating 2 more".to_owned()],
        _ => vec![
            "web-2-a cannot pull its image: ErrImagePull: \u{1b}[2J\u{202e}not found".to_owned(),
            "waiting for 1 terminating pod before creating 1 more".to_owned(),
        ],
    };
    Card {
        rank,
        stage: if rank == Rank::Complete { RolloutStage::Complete } else { RolloutStage::Waiting },
        message: message.to_owned(),
        replicas: Replicas { wanted: 3, total: 4, updated: 1, available: 2, terminating: Some(1) },
        obstacles,
        on_the_way: None,
        next: (rank == Rank::Stuck).then_some("it is retried with a growing backoff"),
        to_do: Vec::new(),
        revision: Some(RolloutRevision(2)),
        images: vec!["registry.example/web:2".to_owned()],
        is_paused: false,
        waits_at_step: false,
        rollback: None,
        requeue_at: None,
    }
}

fn chart() -> Chart {
    let at = Duration::from_secs;
    let sample = |seconds, old: PodCounts, new: PodCounts| Sample { at: at(seconds), counts: vec![old, new] };
    let available = |available| PodCounts { available, ..PodCounts::default() };
    Chart {
        end: at(30),
        revisions: vec!["#1 registry.example/web:1".to_owned(), "#2 registry.example/web:2".to_owned()],
        samples: vec![
            sample(0, available(3), PodCounts::default()),
            sample(
                5,
                PodCounts { available: 2, terminating: 1, ..PodCounts::default() },
                PodCounts { starting: 1, ..PodCounts::default() },
            ),
            sample(20, available(2), PodCounts { failed: 1, ..PodCounts::default() }),
        ],
        wanted: vec![Level { at: at(0), pods: 3 }],
        bound: vec![Level { at: at(0), pods: 4 }],
        marks: vec![Mark { at: at(5), kind: MarkKind::Change, text: "revision 2: registry.example/web:2".to_owned() }],
        ..Chart::default()
    }
}

fn sheet(rank: Rank) -> Sheet {
    let pod = |name: &str, state, revision: &str, waits_for: &str| PodLine {
        name: name.to_owned(),
        state,
        is_in_trouble: state == "in trouble",
        revision: revision.to_owned(),
        node: "node-1".to_owned(),
        age: "25s".to_owned(),
        restarts: "0".to_owned(),
        waits_for: waits_for.to_owned(),
    };
    let trouble = pod("web-2-a", "in trouble", "#2", "cannot pull its image: ErrImagePull: \u{1b}[2J\u{202e}not found");
    let well = [pod("web-1-a", "available", "#1", "–"), pod("web-1-b", "available", "#1", "–")];
    let event =
        |is_warning, text: &str| EventLine { age: "5s".to_owned(), is_warning, about: "Pod web-2-a".to_owned(), text: text.to_owned() };
    let revision = |number: &str, image: &str| RevisionLine {
        number: number.to_owned(),
        pods: "1".to_owned(),
        age: "4m".to_owned(),
        images: image.to_owned(),
    };
    let is_stuck = rank == Rank::Stuck;
    Sheet {
        card: Arc::new(card(rank)),
        chart: chart(),
        manner: "RollingUpdate, maxSurge 1, maxUnavailable 1, TerminationComplete. Made 4m ago".to_owned(),
        ineffective_setting: None,
        pods: is_stuck.then_some(trouble).into_iter().chain(well).collect(),
        pods_count: 3,
        counts: if is_stuck { vec![(2, "available"), (1, "in trouble")] } else { vec![(2, "available")] },
        events: vec![event(true, "Failed: Error: ErrImagePull"), event(false, "Pulling: Pulling image \"\u{7}web:2\"")],
        revisions: vec![revision("#2", "registry.example/web:2"), revision("#1", "registry.example/web:1")],
    }
}

fn shown(what: What) -> Event {
    Event::Shown(Shown { is_filled: true, unreadable: Vec::new(), lost: None, what })
}

fn workload(rank: Rank) -> WatchState {
    let mut state = WatchState::new("https://127.0.0.1:6443, namespace shop".to_owned(), Location::Workload(id(WEB)), String::new());
    step(&mut state, shown(What::Workload(Box::new(sheet(rank)))));
    state
}

fn entries() -> Vec<(WorkloadId, Arc<Card>)> {
    let ranks = [Rank::Stuck, Rank::Held, Rank::UnderWay].into_iter().chain([Rank::Complete; 40]);
    let names = ["checkout", "cart", WEB].map(str::to_owned).into_iter().chain((0..40).map(|number| format!("shop-{number:02}")));
    names.zip(ranks).map(|(name, rank)| (id(&name), Arc::new(card(rank)))).collect()
}

fn list() -> WatchState {
    let mut state = WatchState::new("https://127.0.0.1:6443, namespace shop (-A: all)".to_owned(), Location::List, String::new());
    step(&mut state, shown(What::List(entries())));
    state
}

fn press(state: &mut WatchState, keys: &[Key]) -> Vec<Effect> {
    keys.iter().filter_map(|key| step(state, Event::Key(*key))).collect()
}

fn screen(state: &WatchState, columns: u16, rows: u16) -> String {
    let mut state = state.clone();
    step(&mut state, Event::Resized(columns, rows));
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("nothing can fail");
    terminal.draw(|frame| draw(&state, Colors::Off, frame.buffer_mut())).expect("nothing can fail");
    let buffer = terminal.backend().buffer();
    let row = |row: u16| (0..columns).map(|column| buffer[(column, row)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..rows).map(row).collect()
}

fn check(name: &str, state: &WatchState, sizes: &[(u16, u16)]) {
    for (columns, rows) in sizes {
        let drawn = screen(state, *columns, *rows);
        assert!(!drawn.contains(|char: char| char.is_control() && char != '\n'), "a control character reaches the terminal");
        berth_testing::kept(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"), &format!("{name}-{columns}x{rows}.txt"), &drawn);
    }
}

const ALL_SIZES: [(u16, u16); 4] = [(20, 5), (40, 12), (80, 24), (200, 60)];

#[test]
fn workloads_are_drawn_as_they_were() {
    check("stuck", &workload(Rank::Stuck), &ALL_SIZES);
    check("complete", &workload(Rank::Complete), &[(80, 24)]);
    check("under-way", &workload(Rank::UnderWay), &[(80, 24)]);
}

#[test]
fn the_list_is_drawn_as_it_was() {
    check("list", &list(), &ALL_SIZES);
}

#[test]
fn questions_and_help_are_drawn_as_they_were() {
    check("question", &asked(), &[(20, 5), (80, 24)]);
    let mut help = list();
    press(&mut help, &[Key::Char('?')]);
    check("help", &help, &[(80, 24)]);
    let mut image = workload(Rank::Stuck);
    press(&mut image, &[Key::Char('i')]);
    let containers = vec![("main".to_owned(), "web:2".to_owned()), ("log\u{1b}".to_owned(), "log:1".to_owned())];
    step(&mut image, Event::Prepared(ask(Verb::SetImage), Ok(Prepared::Image { containers })));
    press(&mut image, &[Key::Backspace, Key::Char('3')]);
    check("image", &image, &[(80, 24)]);
}

#[test]
fn what_is_wrong_with_the_connection_is_drawn_as_it_was() {
    let mut state = list();
    let lost = Some("error trying to connect: connection refused".to_owned());
    let unreadable = vec!["events: events is forbidden: User \"bob\" cannot list resource \"events\"".to_owned()];
    step(&mut state, Event::Shown(Shown { is_filled: true, unreadable, lost, what: What::List(entries()) }));
    check("lost", &state, &[(80, 24)]);
    let mut gone = workload(Rank::Stuck);
    step(&mut gone, shown(What::Missing));
    check("gone", &gone, &[(80, 24)]);
}

fn ask(verb: Verb) -> Ask {
    Ask { id: id(WEB), verb, fields: ActionFields::new() }
}

fn question() -> Question {
    Question {
        sentences: vec![
            "It rolls back to the template of revision 1.".to_owned(),
            "Every pod is replaced (3 pods), with maxSurge 1 and maxUnavailable 1.".to_owned(),
        ],
        lines: vec!["  spec.containers[main].image: web:\\u{1b}2 -> web:1".to_owned()],
        uid: "u".to_owned(),
        generation: Generation(7),
        patch: serde_json::Value::Null,
    }
}

/// Returns a state that asks the user whether to roll back.
fn asked() -> WatchState {
    let mut state = workload(Rank::Stuck);
    assert_eq!(press(&mut state, &[Key::Char('u')]), [Effect::Prepare(ask(Verb::Undo))]);
    step(&mut state, Event::Prepared(ask(Verb::Undo), Ok(Prepared::Question(question()))));
    state
}

/// Returns all keys.
fn all_keys() -> Vec<Key> {
    let others = [
        Key::Enter,
        Key::Esc,
        Key::Tab,
        Key::BackTab,
        Key::Backspace,
        Key::Up,
        Key::Down,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Ctrl('c'),
        Key::Ctrl('u'),
        Key::Ctrl('z'),
    ];
    (' '..='~').map(Key::Char).chain(others).collect()
}

#[test]
fn nothing_is_done_before_the_user_answers_yes_to_the_question() {
    let does = |effect: &Effect| matches!(effect, Effect::Execute(_));
    for key in all_keys() {
        for (before, mut state) in [("", workload(Rank::Stuck)), ("list", list())] {
            assert!(!press(&mut state, &[key]).iter().any(does), "{before} {key:?}");
        }
        let mut state = asked();
        let effects = press(&mut state, &[key]);
        let fields = [("uid".to_owned(), "u".to_owned()), ("generation".to_owned(), "7".to_owned())].into();
        match key {
            Key::Char('y') => assert_eq!(effects, [Effect::Execute(Ask { fields, ..ask(Verb::Undo) })]),
            _ => assert!(!effects.iter().any(does), "{key:?} is no yes"),
        }
    }
}

#[test]
fn every_verb_is_asked_for_by_its_key_and_pausing_resumes_what_is_paused() {
    let verbs: Vec<Verb> = ['u', 'p', 'r', 's', 'i', 'n']
        .into_iter()
        .flat_map(|key| press(&mut workload(Rank::Stuck), &[Key::Char(key)]))
        .map(|effect| match effect {
            Effect::Prepare(Ask { verb, .. }) => verb,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(verbs, [Verb::Undo, Verb::Pause, Verb::Restart, Verb::Scale, Verb::SetImage, Verb::Promote]);
    let mut paused = sheet(Rank::Held);
    paused.card = Arc::new(Card { is_paused: true, ..card(Rank::Held) });
    let mut state = workload(Rank::Held);
    step(&mut state, shown(What::Workload(Box::new(paused))));
    assert_eq!(press(&mut state, &[Key::Char('p')]), [Effect::Prepare(ask(Verb::Resume))]);
}

#[test]
fn a_number_is_typed_before_it_is_asked_about() {
    let mut state = workload(Rank::Stuck);
    press(&mut state, &[Key::Char('s')]);
    step(&mut state, Event::Prepared(ask(Verb::Scale), Ok(Prepared::Replicas { now: 3 })));
    assert!(press(&mut state, &[Key::Enter, Key::Char('x'), Key::Char('q'), Key::Char('y')]).is_empty(), "nothing is said yet");
    let fields = [("replicas".to_owned(), "15".to_owned())].into();
    let effects = press(&mut state, &[Key::Char('1'), Key::Char('2'), Key::Backspace, Key::Char('5'), Key::Enter]);
    assert_eq!(effects, [Effect::Prepare(Ask { fields, ..ask(Verb::Scale) })]);
}

#[test]
fn a_late_answer_asks_nothing_and_what_was_done_is_shown() {
    let mut state = workload(Rank::Stuck);
    press(&mut state, &[Key::Char('u'), Key::Esc]);
    step(&mut state, Event::Prepared(ask(Verb::Undo), Ok(Prepared::Question(question()))));
    assert!(state.dialog().is_none(), "nothing waits for it");
    press(&mut state, &[Key::Char('p')]);
    step(&mut state, Event::Prepared(ask(Verb::Undo), Ok(Prepared::Question(question()))));
    assert!(!screen(&state, 80, 24).contains("goes back"), "another question is waited for");
    step(&mut state, Event::Prepared(ask(Verb::Pause), Err(Refusal::Changed)));
    assert!(screen(&state, 80, 24).contains("Nothing was done: another client has changed it since"));
    press(&mut state, &[Key::Enter]);
    step(&mut state, Event::Done(ask(Verb::Pause), Ok(())));
    assert!(screen(&state, 80, 24).contains("deployment/web: Paused."));
}

#[test]
fn a_search_narrows_the_list_and_esc_ends_it_before_anything_else() {
    let mut state = list();
    press(&mut state, &[Key::Char('/'), Key::Char('c'), Key::Char('a'), Key::Char('r')]);
    let narrowed = screen(&state, 80, 24);
    assert!(narrowed.contains("› cart") && !narrowed.contains("checkout"), "before the next reading: {narrowed}");
    press(&mut state, &[Key::Char('q')]);
    assert_eq!(state.wants().search, "carq", "keys are typed");
    press(&mut state, &[Key::Backspace, Key::Enter]);
    step(&mut state, shown(What::List(entries().into_iter().filter(|(of, _)| *of.name == *"cart").collect())));
    assert_eq!(state.chosen().map(|id| id.name.to_string()).as_deref(), Some("cart"));
    assert!(press(&mut state, &[Key::Esc]).is_empty());
    assert_eq!((state.wants().search.as_str(), press(&mut state, &[Key::Esc])), ("", vec![Effect::End(Ending::Left)]));
}

#[test]
fn one_is_opened_and_esc_goes_back_to_the_same_place() {
    let mut state = list();
    press(&mut state, &[Key::Down, Key::Down, Key::Enter]);
    assert_eq!(state.wants().place, Location::Workload(id(WEB)));
    step(&mut state, shown(What::List(entries())));
    assert!(state.shown().is_none(), "a list that was read before is not shown in its place");
    press(&mut state, &[Key::Esc]);
    assert_eq!((state.wants().place, state.chosen().cloned()), (Location::List, Some(id(WEB))));
}

#[test]
fn the_chosen_one_stays_chosen_and_in_view_however_the_list_changes() {
    let mut state = list();
    step(&mut state, Event::Resized(80, 12));
    press(&mut state, &[Key::End]);
    assert!(screen(&state, 80, 12).contains("› shop-39"));
    let mut turned = entries();
    turned.reverse();
    step(&mut state, shown(What::List(turned)));
    assert!(screen(&state, 80, 12).contains("› shop-39"));
    step(&mut state, shown(What::List(entries()[..5].to_vec())));
    assert!(state.chosen().is_some_and(|id| id.name.starts_with("checkout")), "the one that has come to its place");
}

#[test]
fn scrolling_ends_where_the_document_does_and_tab_goes_from_part_to_part() {
    let mut state = workload(Rank::Stuck);
    step(&mut state, Event::Resized(80, 12));
    press(&mut state, &[Key::End]);
    assert!(screen(&state, 80, 12).contains("#1        1     4m"), "{}", screen(&state, 80, 12));
    let end = state.scroll();
    press(&mut state, &[Key::Down]);
    assert_eq!(state.scroll(), end);
    press(&mut state, &[Key::Home, Key::Tab]);
    let shown = screen(&state, 80, 12);
    assert!(shown.lines().any(|line| line == "Pods"), "{shown}");
    press(&mut state, &[Key::BackTab]);
    assert_eq!(state.scroll(), 0);
}

/// The user cannot confirm a partly visible question. At any size, `y` has no effect until every line was on the
/// screen.
#[test]
fn a_question_is_answered_by_who_has_seen_all_of_it() {
    let does = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Execute(_)));
    for (columns, rows) in [(20, 5), (20, 3), (40, 6), (16, 24)] {
        let mut state = asked();
        step(&mut state, Event::Resized(columns, rows));
        let mut seen = Vec::new();
        let mut steps = 0;
        loop {
            let shown = screen(&state, columns, rows);
            seen.extend(shown.lines().skip(1).take(usize::from(rows) - 2).map(str::to_owned));
            if shown.contains("y: Undo") {
                break;
            }
            assert!(shown.lines().last().is_some_and(|foot| foot.starts_with('↓') && foot.contains("more")), "{shown}");
            assert!(!does(&press(&mut state, &[Key::Char('y')])), "{shown}");
            press(&mut state, &[Key::Down]);
            steps += 1;
        }
        assert!(0 < steps || rows == 24, "{columns}x{rows}: there was no need to scroll");
        let (seen, words) = (seen.join(" "), ["of revision", "maxUnavailable 1.", "web:1"]);
        assert!(words.iter().all(|word| seen.contains(word)), "{seen}");
        assert!(does(&press(&mut state.clone(), &[Key::Up, Key::Char('y')])), "it was seen");
        // A new size changes the line breaks.
        step(&mut state, Event::Resized(columns, 4));
        assert!(!does(&press(&mut state, &[Key::Char('y')])));
        // The lines in between were not visible.
        assert!(!does(&press(&mut state, &[Key::End, Key::Char('y')])));
    }
    for (columns, rows) in [(20, 2), (20, 1), (15, 24), (0, 0)] {
        let mut state = asked();
        step(&mut state, Event::Resized(columns, rows));
        assert!(!does(&press(&mut state, &[Key::Down, Key::PageDown, Key::Down, Key::End, Key::Char('y')])), "{columns}x{rows}");
        let shown = screen(&state, columns, rows);
        assert!(columns < 20 || rows < 2 || shown.contains("Too small"), "{shown}");
        step(&mut state, Event::Resized(80, 24));
        assert!(does(&press(&mut state, &[Key::Char('y')])), "there is room now");
    }
}

#[test]
fn what_is_typed_stays_in_view() {
    let mut state = workload(Rank::Stuck);
    press(&mut state, &[Key::Char('i')]);
    let containers = (0..9).map(|number| (format!("c{number}"), format!("image:{number}"))).collect();
    step(&mut state, Event::Prepared(ask(Verb::SetImage), Ok(Prepared::Image { containers })));
    for number in 0..9 {
        let shown = screen(&state, 20, 5);
        assert!(shown.contains(&format!("Image: image:{number}▏")), "{shown}");
        step(&mut state, Event::Resized(20, 5));
        press(&mut state, &[Key::Down]);
    }
    press(&mut state, &[Key::Esc, Key::Char('s')]);
    step(&mut state, Event::Prepared(ask(Verb::Scale), Ok(Prepared::Replicas { now: 3 })));
    press(&mut state, &[Key::Char('7')]);
    assert!(screen(&state, 20, 4).contains("7▏"), "{}", screen(&state, 20, 4));
}

/// No key at any size panics or draws beyond the screen.
#[test]
fn no_order_of_keys_and_sizes_does_harm() {
    let keys = all_keys();
    let mut number: u64 = 1;
    let mut next = |below: usize| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(number >> 33).expect("31 bits") % below
    };
    let (all, sheet) = (entries(), sheet(Rank::Stuck));
    let mut state = list();
    for _ in 0..3000 {
        let event = match next(12) {
            0 => Event::Resized(u16::try_from(next(130)).expect("small"), u16::try_from(next(40)).expect("small")),
            1 => shown(What::List(all[..next(44)].to_vec())),
            2 => shown(What::Workload(Box::new(sheet.clone()))),
            3 => shown(What::Missing),
            4 => Event::Prepared(ask(Verb::Scale), Ok(Prepared::Replicas { now: 3 })),
            5 => Event::Prepared(ask(Verb::Undo), Ok(Prepared::Question(question()))),
            _ => Event::Key(keys[next(keys.len())]),
        };
        step(&mut state, event);
        let (columns, rows) = state.size();
        let area = Rect::new(0, 0, u16::try_from(columns).expect("small"), u16::try_from(rows).expect("small"));
        let lines = draw::screen(&state, area);
        assert_eq!(lines.len(), rows);
        let wide = |line: &Line| line.iter().map(|span| width(&span.text)).sum::<usize>();
        assert!(lines.iter().all(|line| wide(line) <= columns.max(1)), "{lines:?}");
        draw(&state, Colors::Off, &mut Buffer::empty(area));
    }
}
