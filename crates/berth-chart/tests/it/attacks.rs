//! Untrusted texts are always drawn as text, and odd data never fails.

use crate::common::{self, few};
use berth_chart::{Chart, Ink, Level, Mark, MarkKind, Pod, Sample, ansi, html, lines, one_line, plain, svg};
use berth_workloads::pod_state::{PodCounts, PodState};
use proptest::{collection::vec, option, prelude::*};
use roxmltree::Document;
use std::{collections::BTreeSet, time::Duration};

const EVIL: [&str; 9] = [
    "<script>alert(1)</script>",
    "]]></style></svg><img src=x onerror=alert(1)>",
    "\"><a href='javascript:alert(1)'>&lt;&amp;",
    "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\r",
    "a\u{202e}b\u{2066}c\u{200f}d\u{61c}",
    "\u{0}\u{1}\u{b}\u{ffff}\u{fffe}\u{feff}",
    "e\u{301}\u{301}\u{301}\u{200b}\u{2028}",
    "--><!-- <![CDATA[ <?xml ?> <!DOCTYPE x [<!ENTITY e 'e'>]> &e;",
    "日本語のとても長い名前\u{1f680}",
];
/// All elements that a chart uses.
const ELEMENTS: [&str; 9] = ["svg", "style", "defs", "pattern", "circle", "rect", "path", "text", "g"];
const ATTRIBUTES: [&str; 19] = [
    "aria-label",
    "class",
    "cx",
    "cy",
    "d",
    "fill",
    "height",
    "id",
    "opacity",
    "patternUnits",
    "r",
    "role",
    "rx",
    "stroke",
    "stroke-width",
    "viewBox",
    "width",
    "x",
    "y",
];

/// Returns a chart in which all texts are this one.
fn named(name: &str) -> Chart {
    let mut chart = few();
    for text in [&mut chart.title, &mut chart.note].into_iter().chain(&mut chart.revisions) {
        name.clone_into(text);
    }
    chart.pods.iter_mut().for_each(|pod| name.clone_into(&mut pod.name));
    chart.marks.iter_mut().for_each(|mark| name.clone_into(&mut mark.text));
    chart
}

/// Returns the texts of a chart, which contains only known elements.
fn texts(drawn: &str) -> Vec<String> {
    let document = Document::parse(drawn).unwrap_or_else(|error| panic!("{error}\n{drawn}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        assert!(ELEMENTS.contains(&node.tag_name().name()), "{:?}", node.tag_name());
        for attribute in node.attributes() {
            assert!(ATTRIBUTES.contains(&attribute.name()), "{attribute:?}");
            let value = attribute.value();
            assert!(!value.contains("url(") || value.starts_with("url(#bc"), "{attribute:?}");
        }
    }
    let style: Vec<&str> = document.descendants().filter(|node| node.has_tag_name("style")).filter_map(|node| node.text()).collect();
    assert!(style.len() == 1 && !style[0].contains("url(") && !style[0].contains("@import"), "{style:?}");
    document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).map(str::to_owned).collect()
}

#[test]
fn a_picture_holds_what_strangers_write_as_text() {
    for name in EVIL {
        let texts = texts(&svg(&[named(name)]));
        let shown = one_line(name, 26);
        // Six pods, and two revisions in the legend. A short text is the same in title and note.
        let wanted = if one_line(name, 100) == shown { 10 } else { 8 };
        assert_eq!(texts.iter().filter(|text| **text == shown).count(), wanted, "{shown:?} of {texts:?}");
    }
}

#[test]
fn a_page_holds_what_strangers_write_as_text() {
    for name in EVIL {
        let page = html(name, &[named(name)], name);
        // Every bracket belongs to a known element.
        let begins = |tag: &str| {
            ["!doctype", "html", "/html", "meta", "title", "/title", "h1", "/h1", "pre", "/pre", "div", "/"]
                .iter()
                .chain(&ELEMENTS)
                .any(|known| tag.starts_with(known))
        };
        for tag in page.split('<').skip(1) {
            assert!(begins(tag) && !tag.starts_with("script"), "{name:?}: <{tag}");
        }
        let allowed = |char: char| !char.is_control() || char == '\n';
        assert!(page.chars().all(allowed) && !page.contains('\u{202e}'), "{name:?}");
        assert!(page.contains("default-src 'none'") && !page.contains("unsafe"));
    }
}

#[test]
fn the_page_allows_exactly_its_own_styles() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use sha2::{Digest, Sha256};
    let page = html("web", &[few()], "");
    let styles: Vec<&str> = page.split("<style>").skip(1).filter_map(|rest| rest.split("</style>").next()).collect();
    let hashes: BTreeSet<String> =
        styles.iter().map(|style| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(style)))).collect();
    let policy = page.split("style-src ").nth(1).and_then(|rest| rest.split('"').next()).expect("a policy");
    assert_eq!(policy.split(' ').map(str::to_owned).collect::<BTreeSet<_>>(), hashes);
}

#[test]
fn names_of_any_length_cost_what_is_shown() {
    let long = named(&"x<".repeat(5_000));
    let (drawn, short) = (svg(std::slice::from_ref(&long)), svg(&[named("x")]));
    assert!(drawn.len() < short.len() + 8_000, "{} {}", drawn.len(), short.len());
    texts(&drawn);
    assert!(plain(&lines(&[long], 80)).lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn a_terminal_gets_no_control_characters_and_no_line_that_is_too_long() {
    use unicode_width::UnicodeWidthStr;
    for name in EVIL {
        for columns in [60, 80, 140] {
            let lines = lines(&[named(name)], columns);
            for line in plain(&lines).lines() {
                assert!(line.width() <= columns && !line.chars().any(char::is_control), "{columns}: {line:?}");
            }
            let codes = ansi(&lines);
            let rest: String = codes
                .split('\u{1b}')
                .enumerate()
                .map(|(index, part)| if index == 0 { part } else { part.split_once('m').expect("a colour").1 })
                .collect();
            assert_eq!(rest.replace(' ', ""), plain(&lines).replace(' ', ""));
        }
    }
}

#[test]
fn ten_thousand_pods_are_a_small_picture() {
    let drawn = svg(&[common::many()]);
    assert!(drawn.len() < 200_000, "{} bytes", drawn.len());
    texts(&drawn);
}

fn counts() -> impl Strategy<Value = PodCounts> {
    [0..5_u32, 0..3_u32, 0..3_u32, 0..2_u32, 0..2_u32, 0..u32::MAX].prop_map(
        |[available, ready, starting, pending, failed, terminating]| PodCounts {
            available,
            ready,
            starting,
            pending,
            failed,
            terminating: if terminating % 7 == 0 { terminating } else { terminating % 4 },
        },
    )
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![(0..100_000_u64).prop_map(Duration::from_millis), any::<u64>().prop_map(Duration::from_secs)]
}

fn state() -> impl Strategy<Value = Option<PodState>> {
    option::of(prop_oneof![Just(PodState::Available), Just(PodState::Ready), Just(PodState::Failed), Just(PodState::Terminating)])
}

prop_compose! {
    fn chart()(
        (title, note) in any::<(String, String)>(),
        end in duration(),
        now in option::of(duration()),
        revisions in vec(any::<String>(), 0..9),
        samples in vec((duration(), vec(counts(), 0..9)), 0..40),
        pods in vec((any::<String>(), 0..9_usize, vec((duration(), state()), 0..5)), 0..30),
        levels in vec((duration(), any::<u32>()), 0..4),
        marks in vec((duration(), any::<String>()), 0..14),
    ) -> Chart {
        let level = |(at, pods): &(Duration, u32)| Level { at: *at, pods: *pods };
        Chart {
            title, note, end, now, revisions,
            samples: samples.into_iter().map(|(at, counts)| Sample { at, counts }).collect(),
            pods: pods.into_iter().map(|(name, revision, states)| Pod { name, revision, states }).collect(),
            wanted: levels.iter().map(level).collect(),
            bound: levels.iter().rev().map(level).collect(),
            marks: marks.into_iter().map(|(at, text)| Mark { at, kind: MarkKind::Trouble, text }).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn anything_is_drawn(charts in vec(chart(), 0..3), columns in 0..200_usize) {
        texts(&svg(&charts));
        prop_assert!(html("", &charts, "").ends_with("</html>\n"));
        let lines = lines(&charts, columns);
        for span in lines.iter().flatten() {
            prop_assert!(!span.text.chars().any(char::is_control), "{span:?}");
            prop_assert!(!matches!(span.ink, Ink::Pods { hue: 6.., .. }), "{span:?}");
        }
    }
}
