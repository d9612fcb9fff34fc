//! Named formats of texts.

use super::{Outcome, Plain, no_overload, patterns, tenth, urls};
use crate::{
    Budget, Value,
    value::{
        Opaque as Boxed,
        opaque::{NamedFormat, Opaque},
        times,
    },
};
use base64::{Engine, engine::general_purpose::STANDARD};
use regex::Regex;
use std::{rc::Rc, sync::LazyLock};

const fn format(name: &'static str, pattern_bytes: u64, faults: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { name, pattern_bytes, faults }
}

static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", 30, |text| label(text, &DNS_1123_LABEL)),
    format("dns1123Subdomain", 60, subdomain),
    format("dns1035Label", 30, |text| label(text, &DNS_1035_LABEL)),
    format("qualifiedName", 60, qualified_name),
    format("dns1123LabelPrefix", 30, |text| label(&prefix(text), &DNS_1123_LABEL)),
    format("dns1123SubdomainPrefix", 60, |text| subdomain(&prefix(text))),
    format("dns1035LabelPrefix", 30, |text| label(&prefix(text), &DNS_1035_LABEL)),
    format("labelValue", 40, label_value),
    format("uri", 1103, |text| unless(urls::is_valid(text), || format!("parse \"{text}\": invalid URI for request"))),
    format("uuid", 94, |text| unless(UUID.is_match(text), || "does not match the UUID format".to_owned())),
    format("byte", 84, |text| unless(STANDARD.decode(text).is_ok(), || "invalid base64".to_owned())),
    format("date", 107, |text| unless(times::date(text).is_some(), || "invalid date".to_owned())),
    format("datetime", 107, |text| unless(times::timestamp(text).is_some(), || "invalid datetime".to_owned())),
];

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// An expression, and how messages describe it.
struct Rule {
    pattern: LazyLock<Regex>,
    message: &'static str,
}

fn known(pattern: &str) -> Regex {
    patterns::compile(pattern).unwrap_or_else(|error| unreachable!("{error}"))
}

static DNS_1123_LABEL: Rule = Rule {
    pattern: LazyLock::new(|| known("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
    message: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
};
static DNS_1035_LABEL: Rule = Rule {
    pattern: LazyLock::new(|| known("^[a-z]([-a-z0-9]*[a-z0-9])?$")),
    message: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
};
static SUBDOMAIN: Rule = Rule {
    pattern: LazyLock::new(|| known(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")),
    message: r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
};
static NAME: Rule = Rule {
    pattern: LazyLock::new(|| known("^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")),
    message: "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
};
static LABEL_VALUE: Rule = Rule {
    pattern: LazyLock::new(|| known("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")),
    message: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
};
static UUID: LazyLock<Regex> = LazyLock::new(|| known("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));

fn unless(is_valid: bool, fault: impl FnOnce() -> String) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![fault()] }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn judged(text: &str, max: usize, rule: &Rule) -> Vec<String> {
    let mut faults = unless(text.len() <= max, || too_long(max));
    faults.extend(unless(text.len() > 4 * max || rule.pattern.is_match(text), || rule.message.to_owned()));
    faults
}

fn label(text: &str, rule: &Rule) -> Vec<String> {
    judged(text, LABEL_MAX, rule)
}

fn subdomain(text: &str) -> Vec<String> {
    judged(text, SUBDOMAIN_MAX, &SUBDOMAIN)
}

fn label_value(text: &str) -> Vec<String> {
    judged(text, LABEL_MAX, &LABEL_VALUE)
}

/// The beginning of a name can end with a dash.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn qualified_name(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('/').collect();
    let mut faults = Vec::new();
    let name = match parts[..] {
        [name] => name,
        [before, name] => {
            if before.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(before).into_iter().map(|fault| format!("prefix part {fault}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                NAME.message.trim_start_matches("name part ")
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if LABEL_MAX < name.len() {
        faults.push(format!("name part {}", too_long(LABEL_MAX)));
    }
    faults.extend(unless(NAME.pattern.is_match(name), || NAME.message.to_owned()));
    faults
}

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "format.named" => |arguments, budget| {
            budget.spend(1)?;
            let [Value::String(name)] = arguments else { return Err(no_overload()) };
            Ok(Value::Optional(named(name).map(|format| Rc::new(Value::opaque(Opaque::Format(format))))))
        },
        "validate" => validate,
        "format.dns1123Label" => |_, budget| constant(0, budget),
        "format.dns1123Subdomain" => |_, budget| constant(1, budget),
        "format.dns1035Label" => |_, budget| constant(2, budget),
        "format.qualifiedName" => |_, budget| constant(3, budget),
        "format.dns1123LabelPrefix" => |_, budget| constant(4, budget),
        "format.dns1123SubdomainPrefix" => |_, budget| constant(5, budget),
        "format.dns1035LabelPrefix" => |_, budget| constant(6, budget),
        "format.labelValue" => |_, budget| constant(7, budget),
        "format.uri" => |_, budget| constant(8, budget),
        "format.uuid" => |_, budget| constant(9, budget),
        "format.byte" => |_, budget| constant(10, budget),
        "format.date" => |_, budget| constant(11, budget),
        "format.datetime" => |_, budget| constant(12, budget),
        _ => return None,
    })
}

fn named(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

fn constant<'a>(number: usize, budget: &mut Budget) -> Outcome<'a> {
    budget.spend(1)?;
    Ok(Value::opaque(Opaque::Format(&FORMATS[number])))
}

fn validate<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [Value::Opaque(format), Value::String(text)] = arguments else { return Err(no_overload()) };
    let Boxed(Opaque::Format(format)) = &**format else { return Err(no_overload()) };
    budget.spend(tenth(text.len() as u64 + 1).saturating_mul(format.pattern_bytes.div_ceil(4)))?;
    let faults = (format.faults)(text);
    if faults.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(faults.into_iter().map(Value::from).collect())))
}
