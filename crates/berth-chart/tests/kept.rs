//! Pictures are as they were when somebody looked at them. `cargo xtask pictures` draws them anew.

mod common;

use berth_chart::{Chart, ansi, html, lines, plain, svg};
use common::{few, many, undone};

#[expect(clippy::disallowed_methods, reason = "what is kept lies in files")]
fn check(name: &str, drawn: &str) {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BERTH_PICTURES").is_some_and(|wanted| wanted == "write") {
        std::fs::write(&path, drawn).expect("a file that is tracked");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(drawn.lines()).find(|(kept, drawn)| kept != drawn);
    assert!(kept == drawn, "{name} is drawn otherwise: look at it, then `cargo xtask pictures`. The first difference: {difference:?}");
}

#[test]
fn svg_is_drawn_as_it_was() {
    check("few.svg", &svg(&[few()]));
    check("many.svg", &svg(&[many()]));
    check("undone.svg", &svg(&[undone()]));
    check("two.svg", &svg(&[few(), Chart { title: "nothing".to_owned(), ..Chart::default() }]));
}

#[test]
fn a_page_is_drawn_as_it_was() {
    check("few.html", &html("What deployment/web will do", &[few()], "Deployment default/web, 3 pods: complete after 1m4s\n  a < b & c\n"));
}

#[test]
fn terminals_are_drawn_to_as_they_were() {
    for columns in [60, 80, 140] {
        check(&format!("few-{columns}.txt"), &plain(&lines(&[few()], columns)));
        check(&format!("many-{columns}.txt"), &plain(&lines(&[many()], columns)));
        check(&format!("undone-{columns}.txt"), &plain(&lines(&[undone()], columns)));
    }
    check("two-80.txt", &plain(&lines(&[few(), undone()], 80)));
    check("undone-80.ansi", &ansi(&lines(&[undone()], 80)));
}
