//! Rules of roles: joining them changes nothing, every rule covers itself, and what covers a rule allows what it allows.

use arbitrary::{Result, Unstructured};
use berth_api::k8s_openapi::api::rbac::v1::PolicyRule;
use berth_rbac::{Attributes, PathAttributes, ResourceAttributes, allows, compact, describe, uncovered};

const WORDS: &[&str] = &["", "*", "a", "b", "a/b", "*/b", "a/*", "/a", "/a/*", "/*", "/a/b", "*/*", "a/b/c"];

fn words(u: &mut Unstructured<'_>) -> Result<Vec<String>> {
    (0..u.int_in_range(0..=3)?).map(|_| u.choose(WORDS).map(|word| (*word).to_owned())).collect()
}

fn rules(u: &mut Unstructured<'_>) -> Result<Vec<PolicyRule>> {
    let rule = |u: &mut Unstructured<'_>| {
        let verbs = words(u)?;
        if u.ratio(1, 4)? {
            return Ok(PolicyRule { non_resource_urls: Some(words(u)?), verbs, ..PolicyRule::default() });
        }
        let [api_groups, resource_names, resources] = [words(u)?, words(u)?, words(u)?].map(Some);
        Ok(PolicyRule { api_groups, resource_names, resources, verbs, ..PolicyRule::default() })
    };
    (0..u.int_in_range(0..=4)?).map(|_| rule(u)).collect()
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let (held, wanted) = (rules(u)?, rules(u)?);
    let joined = compact(&held);
    assert!(uncovered(&held, &held).is_empty());
    let missing = uncovered(&held, &wanted);
    let (covers, _) = (missing.is_empty(), describe(&missing));
    let any = |rules: &[PolicyRule], asked: &Attributes<'_>| rules.iter().any(|rule| allows(rule, asked));
    for _ in 0..8 {
        let mut word = || u.choose(WORDS).copied();
        let (verb, group, resource, subresource, name, path) = (word()?, word()?, word()?, word()?, word()?, word()?);
        let resource = ResourceAttributes { verb, group, resource, subresource, name, namespace: "" };
        for asked in [Attributes::Resource(resource), Attributes::Path(PathAttributes { verb, path })] {
            assert_eq!(any(&held, &asked), any(&joined, &asked), "{held:?} {joined:?} {asked:?}");
            assert!(!covers || !any(&wanted, &asked) || any(&held, &asked), "{held:?} covers {wanted:?} but not {asked:?}");
        }
    }
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}
