//! Whether an Indexed Job has succeeded by `spec.successPolicy`.

use super::indexes::Indexes;
use k8s_openapi::api::batch::v1::{SuccessPolicy, SuccessPolicyRule};

/// Returns the number of the first rule that these indexes fulfill.
///
/// `completions` bounds the indexes of the rules.
///
/// Source: kubernetes `pkg/controller/job/success_policy.go`, `matchSuccessPolicy`; KEP-3998.
#[must_use]
pub fn fulfilled_rule(policy: Option<&SuccessPolicy>, completions: u32, succeeded: &Indexes) -> Option<usize> {
    if succeeded.is_empty() {
        return None;
    }
    policy?.rules.iter().position(|rule| is_fulfilled(rule, completions, succeeded))
}

fn is_fulfilled(rule: &SuccessPolicyRule, completions: u32, succeeded: &Indexes) -> bool {
    let is_enough = |count: u32| rule.succeeded_count.is_some_and(|wanted| u32::try_from(wanted).is_ok_and(|wanted| wanted <= count));
    match &rule.succeeded_indexes {
        Some(text) => {
            let required = Indexes::parse(text, completions);
            let count = required.overlap(succeeded);
            !required.is_empty() && (count == required.len() || is_enough(count))
        }
        None => is_enough(succeeded.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(rules: Value, succeeded: &str, expected: Option<usize>) {
        let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).expect("a policy");
        assert_eq!(fulfilled_rule(Some(&policy), 10, &Indexes::parse(succeeded, 10)), expected, "{rules} {succeeded:?}");
    }

    /// The example of upstream's page "Jobs", "Success policy".
    #[test]
    fn one_of_some_indexes_is_enough_if_the_rule_counts() {
        let rules = json!([{"succeededIndexes": "0,2-3", "succeededCount": 1}]);
        check(rules.clone(), "", None);
        check(rules.clone(), "1,4-9", None);
        check(rules.clone(), "2", Some(0));
        check(rules, "0-9", Some(0));
    }

    #[test]
    fn a_rule_without_a_count_requires_all_its_indexes() {
        let rules = json!([{"succeededIndexes": "0,2-3"}]);
        check(rules.clone(), "0,2", None);
        check(rules.clone(), "0,2,3", Some(0));
        check(rules, "0-5", Some(0));
    }

    #[test]
    fn a_rule_without_indexes_counts_all() {
        let rules = json!([{"succeededCount": 3}]);
        check(rules.clone(), "0,9", None);
        check(rules, "0,5,9", Some(0));
    }

    #[test]
    fn the_first_fulfilled_rule_is_named() {
        let rules = json!([{"succeededIndexes": "0"}, {"succeededCount": 2}, {"succeededCount": 1}]);
        check(rules.clone(), "5", Some(2));
        check(rules.clone(), "5,6", Some(1));
        check(rules, "0,5,6", Some(0));
    }

    #[test]
    fn indexes_that_are_not_valid_fulfill_nothing() {
        check(json!([{"succeededIndexes": "x", "succeededCount": 0}, {"succeededIndexes": "50-60"}]), "0-9", None);
        assert_eq!(fulfilled_rule(None, 10, &Indexes::parse("0-9", 10)), None);
    }
}
