//! JSON of tests that differs in a few members.

use serde_json::Value;

/// Returns `base` with the members of `patch`: objects member by member, null removes a member, all else replaces it.
#[must_use]
pub fn merged(mut base: Value, patch: &Value) -> Value {
    match (&mut base, patch) {
        (Value::Object(members), Value::Object(patch)) => {
            for (name, patch) in patch {
                match patch {
                    Value::Null => _ = members.remove(name),
                    _ => {
                        let member = members.remove(name).unwrap_or_default();
                        members.insert(name.clone(), merged(member, patch));
                    }
                }
            }
            base
        }
        _ => patch.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::merged;
    use serde_json::json;

    #[test]
    fn members_are_added_replaced_and_removed_at_each_depth() {
        let base = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        assert_eq!(
            merged(base, &json!({"a": {"b": null, "c": 3, "e": {"f": 4}}, "d": [2]})),
            json!({"a": {"c": 3, "e": {"f": 4}}, "d": [2]})
        );
        assert_eq!(merged(json!(1), &json!({"a": 1})), json!({"a": 1}), "what is no object is replaced");
    }
}
