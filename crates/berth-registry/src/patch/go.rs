//! Formats values as Go prints them (`%v`), for upstream's error messages about strategic patches.

use berth_api::go;
use serde_json::Value;
use std::collections::BTreeMap;

/// `map[a:1 b:[x <nil>]]`.
pub(super) fn as_in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(as_in_go).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let sorted: BTreeMap<&String, &Value> = members.iter().collect();
            let members: Vec<String> = sorted.into_iter().map(|(name, value)| format!("{name}:{}", as_in_go(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": [null, "x y", {}], "a": {"c": -1, "d": true, "e": 1.5, "g": 1e6}, "f": ""});
        assert_eq!(as_in_go(&value), "map[a:map[c:-1 d:true e:1.5 g:1e+06] b:[<nil> x y map[]] f:]");
    }
}
