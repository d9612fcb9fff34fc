//! The merge rules of all built-in kinds, by type and field.

use crate::resource::{
    self,
    merge_rules::{self, MergeRule},
};
use std::{collections::BTreeMap, sync::LazyLock};

/// Defaults of list keys: the type, the name in JSON, and the value.
pub(crate) const KEY_DEFAULTS: [(&str, &str, &str); 3] =
    [("ContainerPort", "protocol", "TCP"), ("LocalObjectReference", "name", ""), ("ServicePort", "protocol", "TCP")];

static RULES: LazyLock<BTreeMap<(&str, &str), &MergeRule>> =
    LazyLock::new(|| resource::merge_rules().map(|rule| ((rule.of, rule.name), rule)).collect());

static METADATA: MergeRule = merge_rules::to("", "metadata", "ObjectMeta");

/// Returns the rule of the member `name` of an object of type `of`. `of` must be a built-in kind, because only those
/// accept strategic merge patches.
#[must_use]
pub(crate) fn rule(of: &str, name: &str) -> Option<&'static MergeRule> {
    let own = RULES.get(&(of, name)).copied();
    own.or_else(|| (name == "metadata" && resource::built_in().stored().any(|r| r.kind() == of)).then_some(&METADATA))
}

/// Returns every rule.
pub(crate) fn all() -> impl Iterator<Item = &'static MergeRule> {
    RULES.values().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_has_two_rules() {
        let mut names: Vec<(&str, &str)> = resource::merge_rules().map(|rule| (rule.of, rule.name)).collect();
        names.sort_unstable();
        assert_eq!(names.windows(2).find(|pair| pair[0] == pair[1]), None);
    }

    #[test]
    fn every_way_leads_to_a_type_with_rules() {
        let leads = |of: &str| all().any(|rule| rule.of == of);
        for rule in all() {
            assert!(rule.to.is_empty() || leads(rule.to), "{}.{} leads nowhere", rule.of, rule.name);
        }
    }

    #[test]
    fn every_kind_has_metadata() {
        assert_eq!(rule("ConfigMap", "metadata").map(|rule| rule.to), Some("ObjectMeta"));
        assert!(rule("Volume", "metadata").is_none());
    }
}
