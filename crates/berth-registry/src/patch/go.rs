//! Formats values as Go prints them (`%v`), for upstream's error messages about strategic patches.

use serde_json::{Number, Value};
use std::collections::BTreeMap;

/// `map[a:1 b:[x <nil>]]`.
pub(super) fn as_in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number_in_go(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(as_in_go).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let sorted: BTreeMap<&String, &Value> = members.iter().collect();
            let members: Vec<String> = sorted.into_iter().map(|(name, value)| format!("{name}:{}", as_in_go(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// Numbers with more than 20 digits before the point, or more than 4 zeros after it, have an exponent of at least two
/// digits.
fn number_in_go(number: &Number) -> String {
    let Some(fraction) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    if fraction == 0.0 || (1e-4..1e21).contains(&fraction.abs()) {
        return fraction.to_string();
    }
    let text = format!("{fraction:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": [null, "x y", {}], "a": {"c": -1, "d": true, "e": 1.5}, "f": ""});
        assert_eq!(as_in_go(&value), "map[a:map[c:-1 d:true e:1.5] b:[<nil> x y map[]] f:]");
        for (number, wanted) in [(1e21, "1e+21"), (-2.5e-7, "-2.5e-07"), (1e20, "100000000000000000000"), (0.0001, "0.0001"), (0.0, "0")] {
            assert_eq!(as_in_go(&json!(number)), wanted);
        }
    }
}
