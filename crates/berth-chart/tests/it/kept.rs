//! Compares pictures with the reviewed ones in `testdata`. `cargo xtask pictures` redraws them.

use crate::common::{few, many, undone};
use berth_chart::{Chart, ansi, html, lines, plain, svg};

fn check(name: &str, drawn: &str) {
    berth_testing::kept(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"), name, drawn);
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
