//! Label and field selectors, as text and as specs: what is read is printed so that it is read again, and means the same.

use crate::objects::any_word;
use arbitrary::{Result, Unstructured};
use berth_api::{
    FieldSelector, Path, Selector, int_or_string,
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
    label_selector::validate_label_selector,
};
use std::collections::BTreeMap;

fn label_text(text: &str) {
    let Ok(selector) = Selector::parse(text) else { return };
    let printed = selector.to_string();
    assert_eq!(Selector::parse(&printed).as_ref(), Ok(&selector), "{printed}");
    let _ = selector.matches(&BTreeMap::from([("a".to_owned(), "b".to_owned())]));
}

/// Read again, the requirements may be in another order: they are sorted as they were written.
fn field_text(text: &str) {
    let Ok(selector) = FieldSelector::parse(text) else { return };
    let again = FieldSelector::parse(&selector.to_string()).expect("what is printed is read");
    let sorted = |selector: FieldSelector| {
        let mut texts: Vec<_> = selector.requirements().iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(again), sorted(selector), "{text:?}");
}

fn labels(u: &mut Unstructured<'_>) -> Result<BTreeMap<String, String>> {
    (0..u.int_in_range(0..=3)?).map(|_| Ok((any_word(u)?, any_word(u)?))).collect()
}

fn spec(u: &mut Unstructured<'_>) -> Result<()> {
    let requirement = |u: &mut Unstructured<'_>| {
        let values = (0..u.int_in_range(0..=3)?).map(|_| any_word(u)).collect::<Result<_>>()?;
        let operator = (*u.choose(&["In", "NotIn", "Exists", "DoesNotExist", "Gt"])?).to_owned();
        Ok(LabelSelectorRequirement { key: any_word(u)?, operator, values: Some(values) })
    };
    let match_expressions = (0..u.int_in_range(0..=3)?).map(|_| requirement(u)).collect::<Result<_>>()?;
    let spec = LabelSelector { match_labels: Some(labels(u)?), match_expressions: Some(match_expressions) };
    let selector = Selector::from_label_selector(&spec);
    let faults = validate_label_selector(&spec, &Path::new("selector"));
    assert_eq!(selector.is_ok(), faults.is_empty(), "{selector:?} {faults:?}");
    let Ok(selector) = selector else { return Ok(()) };
    let again = Selector::parse(&selector.to_string()).expect("what is printed is read");
    let labels = labels(u)?;
    assert_eq!(selector.matches(&labels), again.matches(&labels), "{selector} {labels:?}");
    Ok(())
}

// The first byte chooses what the others are.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    match (choice % 4, std::str::from_utf8(rest)) {
        (0, Ok(text)) => label_text(text),
        (1, Ok(text)) => field_text(text),
        (2, Ok(text)) => drop(int_or_string::parse_percent(text)),
        _ => drop(spec(&mut Unstructured::new(rest))),
    }
}
