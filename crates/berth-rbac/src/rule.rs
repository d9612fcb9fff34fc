//! One rule: what it allows, whether others cover it, and how it is written in refusals.

use crate::{Attributes, PathAttributes, ResourceAttributes};
use berth_api::k8s_openapi::api::rbac::v1::PolicyRule;
use std::collections::{BTreeMap, BTreeSet};

/// All verbs, groups, resources or paths.
const ALL: &str = "*";

fn list(field: &Option<Vec<String>>) -> &[String] {
    field.as_deref().unwrap_or_default()
}

fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == wanted)
}

fn has_or_all(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == ALL || value == wanted)
}

/// Whether the rule allows what is asked.
#[must_use]
pub fn allows(rule: &PolicyRule, attributes: &Attributes<'_>) -> bool {
    match attributes {
        Attributes::Path(PathAttributes { verb, path }) => has_or_all(&rule.verbs, verb) && covers_path(rule, path),
        Attributes::Resource(ResourceAttributes { verb, group, resource, subresource, name, .. }) => {
            let names = list(&rule.resource_names);
            has_or_all(&rule.verbs, verb)
                && has_or_all(list(&rule.api_groups), group)
                && list(&rule.resources).iter().any(|held| covers_resource(held, resource, subresource))
                && (names.is_empty() || has(names, name))
        }
    }
}

/// `*`, `pods`, `pods/log`, `*/scale`. `pods` does not include `pods/log`.
fn covers_resource(held: &str, resource: &str, subresource: &str) -> bool {
    match held.split_once('/') {
        _ if held == ALL => true,
        None => subresource.is_empty() && held == resource,
        Some((of, part)) => !subresource.is_empty() && part == subresource && (of == ALL || of == resource),
    }
}

/// Exactly, or by a prefix that ends in `*`.
fn covers_path(rule: &PolicyRule, path: &str) -> bool {
    list(&rule.non_resource_urls).iter().any(|held| held == path || held.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix)))
}

/// What of `wanted` no rule of `held` gives, taken apart by verb, group, resource and name. Empty: all of it is held.
#[must_use]
pub fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    wanted.iter().flat_map(break_down).filter(|atom| !held.iter().any(|rule| covers(rule, atom))).collect()
}

/// The number of rules of one verb and one resource, name or path that [`uncovered`] makes of these rules. It checks each of them against each held
/// rule.
#[must_use]
pub fn combinations(rules: &[PolicyRule]) -> usize {
    let product = |parts: [usize; 3]| parts.into_iter().fold(1_usize, usize::saturating_mul);
    let of_one = |rule: &PolicyRule| {
        let names = list(&rule.resource_names).len().max(1);
        let targets = product([list(&rule.api_groups).len(), list(&rule.resources).len(), names]);
        targets.saturating_add(list(&rule.non_resource_urls).len()).saturating_mul(rule.verbs.len())
    };
    rules.iter().map(of_one).fold(0, usize::saturating_add)
}

/// The rule as rules of one verb and one resource, name or path each.
fn break_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |text: &String| Some(vec![text.clone()]);
    let names: Vec<Option<Vec<String>>> = match list(&rule.resource_names) {
        [] => vec![None],
        names => names.iter().map(one).collect(),
    };
    let mut atoms = Vec::new();
    for group in list(&rule.api_groups) {
        for resource in list(&rule.resources) {
            for verb in &rule.verbs {
                atoms.extend(names.iter().map(|names| PolicyRule {
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names.clone(),
                    verbs: vec![verb.clone()],
                    ..PolicyRule::default()
                }));
            }
        }
    }
    for url in list(&rule.non_resource_urls) {
        let of = |verb: &String| PolicyRule { non_resource_urls: one(url), verbs: vec![verb.clone()], ..PolicyRule::default() };
        atoms.extend(rule.verbs.iter().map(of));
    }
    atoms
}

/// Whether `held` gives all that `atom` (of [`break_down`]) does.
fn covers(held: &PolicyRule, atom: &PolicyRule) -> bool {
    let names = list(&held.resource_names);
    let names_fit = match list(&atom.resource_names) {
        [] => names.is_empty(),
        wanted => names.is_empty() || wanted.iter().all(|name| has(names, name)),
    };
    let resources_fit = list(&atom.resources).iter().all(|wanted| {
        let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
        has(list(&held.resources), wanted) || list(&held.resources).iter().any(|held| covers_resource(held, resource, subresource))
    });
    // A path that ends in `*` is a text like any other here: `/a/*` covers it as well as `/a/b`.
    atom.verbs.iter().all(|verb| has_or_all(&held.verbs, verb))
        && list(&atom.api_groups).iter().all(|group| has_or_all(list(&held.api_groups), group))
        && resources_fit
        && names_fit
        && list(&atom.non_resource_urls).iter().all(|url| covers_path(held, url))
}

/// Joins rules of one resource that differ in their verbs alone. What they allow together stays the same.
#[must_use]
pub fn compact(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut compacted: Vec<PolicyRule> = Vec::new();
    let mut places: BTreeMap<_, usize> = BTreeMap::new();
    for rule in rules {
        let place = *places.entry(all_but_verbs(rule)).or_insert(compacted.len());
        match compacted.get_mut(place) {
            Some(other) if is_of_one_resource(rule) => other.verbs.extend(rule.verbs.iter().cloned()),
            _ => compacted.push(rule.clone()),
        }
    }
    compacted
}

fn is_of_one_resource(rule: &PolicyRule) -> bool {
    list(&rule.api_groups).len() == 1 && list(&rule.resources).len() == 1 && list(&rule.resource_names).len() < 2
}

fn all_but_verbs(rule: &PolicyRule) -> [&[String]; 4] {
    [&rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls].map(list)
}

/// How refusals write rules: compacted, each on a line, sorted.
#[must_use]
pub fn describe(rules: &[PolicyRule]) -> String {
    let lines: BTreeSet<String> = compact(rules).iter().map(describe_one).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

/// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`
fn describe_one(rule: &PolicyRule) -> String {
    let fields = [
        ("APIGroups", list(&rule.api_groups)),
        ("Resources", list(&rule.resources)),
        ("NonResourceURLs", list(&rule.non_resource_urls)),
        ("ResourceNames", list(&rule.resource_names)),
        ("Verbs", &rule.verbs),
    ];
    let texts: Vec<String> =
        fields.iter().filter(|(_, values)| !values.is_empty()).map(|(name, values)| format!("{name}:{}", quoted(values))).collect();
    format!("{{{}}}", texts.join(", "))
}

/// `["a" "b"]`
fn quoted(values: &[String]) -> String {
    let texts: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", texts.join(" "))
}

/// All verbs on all resources and all paths: what one must hold to gather roles without knowing what will be in them.
#[must_use]
pub fn everything() -> Vec<PolicyRule> {
    let all = || vec![ALL.to_owned()];
    vec![
        PolicyRule { verbs: all(), api_groups: Some(all()), resources: Some(all()), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: Some(all()), ..PolicyRule::default() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*, sample::select};

    /// `verbs groups resources [names]`, each a comma list, `core` for the core group; `verbs /path,/path`.
    fn rule(text: &str) -> PolicyRule {
        let mut parts = text.split(' ').map(|part| part.split(',').map(|word| word.replace("core", "")).collect::<Vec<_>>());
        let verbs = parts.next().expect("verbs");
        let second = parts.next().expect("groups or paths");
        if second[0].starts_with('/') || second == ["*"] && text.split(' ').count() == 2 {
            return PolicyRule { verbs, non_resource_urls: Some(second), ..PolicyRule::default() };
        }
        PolicyRule { verbs, api_groups: Some(second), resources: parts.next(), resource_names: parts.next(), ..PolicyRule::default() }
    }

    /// `verb group resource[/subresource] [name]`, `verb /path`.
    #[track_caller]
    fn check(rule_text: &str, asked: &str, expected: bool) {
        let words: Vec<&str> = asked.split(' ').collect();
        let attributes = match words.as_slice() {
            [verb, path] => Attributes::Path(PathAttributes { verb, path }),
            [verb, group, resource, rest @ ..] => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let group = if *group == "core" { "" } else { group };
                let name = rest.first().copied().unwrap_or_default();
                Attributes::from(ResourceAttributes { verb, group, resource, subresource, namespace: "", name })
            }
            _ => panic!("{asked}"),
        };
        assert_eq!(allows(&rule(rule_text), &attributes), expected, "{rule_text} | {asked}");
    }

    #[test]
    fn verbs_groups_and_resources_must_all_match() {
        check("get,list core pods", "get core pods", true);
        check("get,list core pods", "get core pods p", true);
        check("get,list core pods", "delete core pods p", false);
        check("get core pods", "get apps pods", false);
        check("get apps,core pods", "get core pods", true);
        check("* * *", "impersonate core users alice", true);
        check("* * *", "get /metrics", false);
    }

    #[test]
    fn a_resource_does_not_cover_its_subresources() {
        check("get core pods", "get core pods/log p", false);
        check("get core pods/log", "get core pods/log p", true);
        check("get core pods/log", "get core pods p", false);
        check("update apps */scale", "update apps deployments/scale d", true);
        check("update apps */scale", "update apps deployments/status d", false);
        check("update apps */scale", "update apps scale d", false);
        check("update apps *", "update apps deployments/scale d", true);
    }

    #[test]
    fn names_match_named_requests_only() {
        check("get core secrets a,b", "get core secrets b", true);
        check("get core secrets a,b", "get core secrets c", false);
        check("list core secrets a", "list core secrets", false);
        check("list core secrets a", "list core secrets a", true);
        check("create core secrets a", "create core secrets", false);
    }

    #[test]
    fn paths_match_exactly_or_by_prefix() {
        check("get /healthz", "get /healthz", true);
        check("get /healthz", "get /healthz/", false);
        check("get /api/*", "get /api/v1", true);
        check("get /api/*", "get /api", false);
        check("get *", "get /anything", true);
        check("get /healthz", "post /healthz", false);
        check("get /healthz", "get core pods", false);
    }

    #[track_caller]
    fn check_missing(held: &[&str], wanted: &str, expected: &str) {
        let held: Vec<PolicyRule> = held.iter().map(|text| rule(text)).collect();
        assert_eq!(describe(&uncovered(&held, &[rule(wanted)])), expected, "{held:?} | {wanted}");
    }

    #[test]
    fn combinations_are_counted_without_being_made() {
        let rules = vec![rule("get,list apps deployments,replicasets a,b,c"), rule("get /a,/b")];
        assert_eq!(combinations(&rules), rules.iter().map(|rule| break_down(rule).len()).sum::<usize>());
        let many = || vec!["x".to_owned(); 100_000];
        let (verbs, groups, resources, names) = (many(), Some(many()), Some(many()), Some(many()));
        let all = PolicyRule { verbs, api_groups: groups, resources, resource_names: names, non_resource_urls: None };
        assert_eq!(combinations(&[all]), usize::MAX);
    }

    #[test]
    fn what_is_not_held_is_named_compactly() {
        check_missing(
            &["get core pods"],
            "get,list apps deployments",
            "{APIGroups:[\"apps\"], Resources:[\"deployments\"], Verbs:[\"get\" \"list\"]}",
        );
        check_missing(&["get,list apps deployments"], "get,list apps deployments", "");
        check_missing(&["get apps deployments", "list apps deployments"], "get,list apps deployments", "");
        check_missing(&["* * *"], "escalate,bind core pods/log x", "");
        check_missing(&["get * *"], "* core pods", "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}");
        check_missing(&["update apps */scale"], "update apps deployments/scale", "");
        check_missing(
            &["update apps deployments/scale"],
            "update apps */scale",
            "{APIGroups:[\"apps\"], Resources:[\"*/scale\"], Verbs:[\"update\"]}",
        );
        check_missing(&["get core secrets a"], "get core secrets", "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}");
        check_missing(
            &["get core secrets a"],
            "get core secrets a,b",
            "{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}",
        );
        check_missing(&["get /api/*"], "get /api/v1,/api/*", "");
        check_missing(&["get /api/*"], "get /apis", "{NonResourceURLs:[\"/apis\"], Verbs:[\"get\"]}");
        check_missing(&["get /api/v1"], "get *", "{NonResourceURLs:[\"*\"], Verbs:[\"get\"]}");
    }

    fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        vec(select(of).prop_map(str::to_owned), 1..3)
    }

    fn any_rule() -> impl Strategy<Value = PolicyRule> {
        let names = vec(select(&["a", "b"][..]).prop_map(str::to_owned), 0..3);
        let of_resources = (words(&["get", "list", "*"]), words(&["", "apps", "*"]), words(&["pods", "pods/log", "*/log", "*"]), names);
        let of_resources = of_resources.prop_map(|(verbs, groups, resources, names)| PolicyRule {
            verbs,
            api_groups: Some(groups),
            resources: Some(resources),
            resource_names: Some(names),
            ..PolicyRule::default()
        });
        let of_paths = (words(&["get", "*"]), words(&["/a", "/a/*", "/a/b", "*"]));
        let of_paths = of_paths.prop_map(|(verbs, urls)| PolicyRule { verbs, non_resource_urls: Some(urls), ..PolicyRule::default() });
        prop_oneof![3 => of_resources, 1 => of_paths]
    }

    /// Every request that the words of [`any_rule`] can be about, and some that they cannot.
    fn all_requests() -> Vec<Attributes<'static>> {
        let mut all = Vec::new();
        for verb in ["get", "list", "watch"] {
            all.extend(["/a", "/a/b", "/a/c", "/b"].map(|path| Attributes::Path(PathAttributes { verb, path })));
            for group in ["", "apps", "batch"] {
                for (resource, subresource) in [("pods", ""), ("pods", "log"), ("nodes", ""), ("nodes", "log"), ("nodes", "status")] {
                    for name in ["", "a", "b", "c"] {
                        all.push(ResourceAttributes { verb, group, resource, subresource, namespace: "", name }.into());
                    }
                }
            }
        }
        all
    }

    proptest! {
        /// A user that holds the permissions of a rule is refused nothing that it allows.
        #[test]
        fn covered_rules_allow_nothing_more(held in vec(any_rule(), 0..4), wanted in any_rule()) {
            for atom in break_down(&wanted).iter().filter(|atom| uncovered(&held, std::slice::from_ref(*atom)).is_empty()) {
                for request in all_requests().iter().filter(|request| allows(atom, request)) {
                    prop_assert!(held.iter().any(|rule| allows(rule, request)), "{request:?}");
                }
            }
        }

        #[test]
        fn rules_cover_themselves_and_everything_covers_all(rules in vec(any_rule(), 1..4)) {
            prop_assert!(uncovered(&rules, &rules).is_empty());
            prop_assert!(uncovered(&everything(), &rules).is_empty());
        }

        #[test]
        fn compacting_changes_nothing_that_is_allowed(rules in vec(any_rule(), 1..4)) {
            let compacted = compact(&rules);
            for request in all_requests() {
                let allowed = |rules: &[PolicyRule]| rules.iter().any(|rule| allows(rule, &request));
                prop_assert_eq!(allowed(&rules), allowed(&compacted));
            }
        }

        #[test]
        fn what_is_missing_is_what_makes_it_whole(held in vec(any_rule(), 0..3), wanted in vec(any_rule(), 1..3)) {
            let mut whole = held.clone();
            whole.extend(uncovered(&held, &wanted));
            prop_assert!(uncovered(&whole, &wanted).is_empty());
        }
    }
}
