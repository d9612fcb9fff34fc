//! URLs.

use super::{Outcome, Plain, no_overload, tenth};
use crate::{
    Budget, EvaluationError, Map, Value,
    value::{
        Key, Opaque as Boxed, Text,
        opaque::{Opaque, Url, UrlError, check_escapes},
    },
};
use std::collections::BTreeMap;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "url" => |arguments, budget| {
            let text = text(arguments, budget)?;
            let wrong =
                |why: UrlError| EvaluationError::failed(format!("URL parse error during conversion from string: parse \"{text}\": {why}"));
            Url::parse(text).map(|url| Value::opaque(Opaque::Url(url))).map_err(wrong)
        },
        "isURL" => |arguments, budget| Ok(is_valid(text(arguments, budget)?).into()),
        "getScheme" => |arguments, budget| part(arguments, budget, |url| url.scheme.clone().into()),
        "getHost" => |arguments, budget| part(arguments, budget, |url| url.host.clone().into()),
        "getHostname" => |arguments, budget| part(arguments, budget, |url| url.divided_host().0.to_owned().into()),
        "getPort" => |arguments, budget| part(arguments, budget, |url| url.divided_host().1.to_owned().into()),
        "getEscapedPath" => |arguments, budget| part(arguments, budget, |url| escaped_path(&url.path).into()),
        "getQuery" => |arguments, budget| {
            let size = match arguments {
                [Value::Opaque(value)] => {
                    if let Boxed(Opaque::Url(url)) = &**value {
                        url.query.len()
                    } else {
                        0
                    }
                }
                _ => 0,
            };
            // Upstream counts one unit, although it reads the query each time.
            budget.spend(size as u64 / 10)?;
            part(arguments, budget, |url| Value::Map(Map::built(query(&url.query))))
        },
        _ => return None,
    })
}

fn text<'b>(arguments: &'b [Value<'_>], budget: &mut Budget) -> Result<&'b str, EvaluationError> {
    let [Value::String(text)] = arguments else { return Err(no_overload()) };
    budget.spend(tenth(text.len() as u64))?;
    Ok(text)
}

fn part<'a>(arguments: &[Value<'a>], budget: &mut Budget, of: fn(&Url) -> Value<'a>) -> Outcome<'a> {
    budget.spend(1)?;
    match arguments {
        [Value::Opaque(value)] => match &**value {
            Boxed(Opaque::Url(url)) => Ok(of(url)),
            _ => Err(no_overload()),
        },
        _ => Err(no_overload()),
    }
}

/// Whether a text is the URL of a request: absolute, or an absolute path.
pub(super) fn is_valid(text: &str) -> bool {
    Url::parse(text).is_ok()
}

/// Characters that a path must escape are escaped.
fn escaped_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~$&+,/:;=@!'()*[]%".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// The members of a query. Those with a wrong escape or a semicolon are left out.
fn query<'a>(text: &str) -> BTreeMap<Key<'a>, Value<'a>> {
    let mut members: BTreeMap<Key<'a>, Vec<Value<'a>>> = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) {
            members.entry(Key::String(Text::Shared(name.into()))).or_default().push(value.into());
        }
    }
    members.into_iter().map(|(name, values)| (name, Value::list(values))).collect()
}

fn unescaped(text: &str) -> Option<String> {
    check_escapes(text, false).ok()?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
