//! The allowed content of each field. The recorder removes everything else, and the reader rejects it.

use crate::names::{NAME_MAX, Names, is_name};
use berth_api::quantity::Quantity;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The maximum of a quantity, in whole units.
const AMOUNT_MAX: i64 = 1 << 60;
/// The maximum length of a word, quantity or time.
const WORD_MAX: usize = 64;
/// The maximum length of an annotation's text.
const MARK_MAX: usize = 512;
/// The maximum length of a label key: a prefix, a slash, a name.
const KEY_MAX: usize = 317;

/// The allowed content of a field.
pub(crate) enum Shape {
    /// A whole number within these limits, both included.
    Number(i64, i64),
    /// `true`, `false`.
    Flag,
    /// RFC 3339.
    Time,
    /// A word of an API: letters and digits.
    Word,
    /// `apps/v1`.
    Version,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A number, or a percentage.
    Share,
    /// A quantity.
    Amount,
    /// A name, or a label's value.
    Name,
    /// A label's key.
    Key,
    /// An annotation that controllers read: numbers, words and the punctuation between them.
    Mark,
    /// The identity of a template: `t-` and 32 digits.
    Template,
    /// A list of at most this many elements.
    List(&'static Self, usize),
    /// Labels. The recorder keeps those that some selector names.
    Labels,
    /// Names of resources with quantities.
    Amounts,
    /// Label keys with values. All of them are kept.
    Pairs,
    /// These members.
    Members(&'static [Member]),
}

/// A member of an object.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Whether the object is invalid without it.
    pub(crate) is_needed: bool,
}

/// What is wrong, and the path of the field: `put.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) field: String,
    pub(crate) why: String,
}

/// How invalid content is handled.
pub(crate) enum Sieve<'a> {
    /// Remove it.
    Record {
        names: &'a Names,
        /// The labels to keep. `None`: all labels.
        keys: Option<&'a BTreeSet<String>>,
    },
    /// Reject it.
    Check,
}

impl Sieve<'_> {
    /// Returns the allowed part of `value`.
    ///
    /// # Errors
    /// With [`Self::Check`], a part of the value is not allowed.
    pub(crate) fn keep(&self, shape: &Shape, value: &Value, field: &mut Vec<String>) -> Result<Option<Value>, Fault> {
        let kept = match shape {
            Shape::Members(members) => return self.members(members, value, field),
            Shape::List(of, most) => return self.list(of, *most, value, field),
            Shape::Labels | Shape::Amounts | Shape::Pairs => return self.map(shape, value, field),
            _ => self.text(shape, value),
        };
        match kept {
            Ok(kept) => Ok(Some(kept)),
            Err(Misfit(why)) => self.leave_out(field, why),
        }
    }

    fn leave_out(&self, field: &[String], why: String) -> Result<Option<Value>, Fault> {
        match self {
            Self::Record { .. } => Ok(None),
            Self::Check => Err(Fault { field: field.concat(), why }),
        }
    }

    fn members(&self, members: &[Member], value: &Value, field: &mut Vec<String>) -> Result<Option<Value>, Fault> {
        let Value::Object(object) = value else { return self.leave_out(field, "is not an object".to_owned()) };
        if let (Self::Check, Some(unknown)) = (self, object.keys().find(|key| members.iter().all(|member| member.name != **key))) {
            return self.leave_out(field, format!("has an unknown member {}", shown(unknown)));
        }
        let mut kept = Map::new();
        for member in members {
            let found = match object.get(member.name) {
                None => None,
                Some(Value::Null) if matches!(self, Self::Record { .. }) => None,
                Some(value) => {
                    field.push(format!(".{}", member.name));
                    let found = self.keep(&member.shape, value, field)?;
                    field.pop();
                    found
                }
            };
            match found {
                Some(value) => drop(kept.insert(member.name.to_owned(), value)),
                None if member.is_needed => return self.leave_out(field, format!("has no {}", member.name)),
                None => (),
            }
        }
        Ok(self.unless_emptied(object, kept))
    }

    fn list(&self, of: &Shape, most: usize, value: &Value, field: &mut Vec<String>) -> Result<Option<Value>, Fault> {
        let Value::Array(items) = value else { return self.leave_out(field, "is not a list".to_owned()) };
        if most < items.len() && matches!(self, Self::Check) {
            return self.leave_out(field, format!("has {} entries; the maximum is {most}", items.len()));
        }
        let mut kept = Vec::new();
        for (index, item) in items.iter().take(most).enumerate() {
            field.push(format!("[{index}]"));
            kept.extend(self.keep(of, item, field)?);
            field.pop();
        }
        Ok(Some(Value::Array(kept)))
    }

    fn map(&self, shape: &Shape, value: &Value, field: &mut Vec<String>) -> Result<Option<Value>, Fault> {
        /// No object has more labels, and no pod has more resources.
        const MOST: usize = 256;
        let Value::Object(object) = value else { return self.leave_out(field, "is not an object".to_owned()) };
        if MOST < object.len() {
            return self.leave_out(field, format!("has {} members; the maximum is {MOST}", object.len()));
        }
        let of = if matches!(shape, Shape::Amounts) { Shape::Amount } else { Shape::Name };
        let mut kept = Map::new();
        for (key, value) in object {
            let is_wanted = match self {
                Self::Record { keys: Some(keys), .. } if matches!(shape, Shape::Labels) => keys.contains(key.as_str()),
                Self::Record { .. } | Self::Check => true,
            };
            if !is_wanted {
                continue;
            }
            field.push(format!("[{}]", shown(key)));
            let named = match of {
                Shape::Amount if is_key(key) => Ok(key.clone()),
                Shape::Amount => Err(Misfit::from("is not a resource name")),
                _ => self.key(key),
            };
            let named = match named {
                Ok(named) => named,
                Err(Misfit(why)) => {
                    self.leave_out(field, why)?;
                    field.pop();
                    continue;
                }
            };
            if let Some(value) = self.keep(&of, value, field)? {
                kept.insert(named, value);
            }
            field.pop();
        }
        Ok(self.unless_emptied(object, kept))
    }

    /// Omits an object from which everything was removed. An object that was already empty has a meaning and is kept.
    fn unless_emptied(&self, object: &Map<String, Value>, kept: Map<String, Value>) -> Option<Value> {
        let is_emptied = matches!(self, Self::Record { .. }) && kept.is_empty() && !object.is_empty();
        (!is_emptied).then_some(Value::Object(kept))
    }

    fn key(&self, key: &str) -> Result<String, Misfit> {
        match self {
            _ if !is_key(key) => Err(Misfit::from("is not a label key")),
            Self::Record { names, .. } => Ok(names.key(key)),
            Self::Check => Ok(key.to_owned()),
        }
    }

    /// Checks a value that is neither a list nor an object.
    fn text(&self, shape: &Shape, value: &Value) -> Result<Value, Misfit> {
        let text = || value.as_str().ok_or(Misfit::from("is not a string"));
        let word = |most: usize, is_sign: fn(u8) -> bool, what: &str| {
            let text = text()?;
            let fits = text.len() <= most && text.bytes().all(is_sign);
            if fits { Ok(Value::from(text)) } else { Err(Misfit(format!("{} is {what}", shown(text)))) }
        };
        match shape {
            Shape::Number(least, most) => {
                let number = value.as_i64().ok_or(Misfit::from("is not an integer"))?;
                let fits = (*least..=*most).contains(&number);
                if fits { Ok(value.clone()) } else { Err(Misfit(format!("{number} is not from {least} to {most}"))) }
            }
            Shape::Flag if value.is_boolean() => Ok(value.clone()),
            Shape::Flag => Err(Misfit::from("is neither true nor false")),
            Shape::Time => {
                let text = text()?;
                let fits = text.len() <= WORD_MAX && text.parse::<Timestamp>().is_ok_and(is_plausible);
                if fits { Ok(Value::from(text)) } else { Err(Misfit(format!("{} is not a time from 1970 to 2199", shown(text)))) }
            }
            Shape::Word => word(WORD_MAX, |byte| byte.is_ascii_alphanumeric(), "not a word of letters and digits"),
            Shape::Version => word(NAME_MAX, |byte| byte.is_ascii_alphanumeric() || b"./-".contains(&byte), "not an API version"),
            Shape::Mark => word(MARK_MAX, |byte| byte.is_ascii_alphanumeric() || b" %+,-./:@".contains(&byte), "an unknown annotation"),
            Shape::OneOf(words) => {
                let text = text()?;
                if words.contains(&text) {
                    Ok(Value::from(text))
                } else {
                    Err(Misfit(format!("{} is none of {}", shown(text), words.join(", "))))
                }
            }
            Shape::Share if value.is_number() => self.text(&Shape::Number(0, i32::MAX.into()), value),
            Shape::Share => {
                let text = text()?;
                let figures = text.strip_suffix('%').filter(|figures| is_figures(figures, 6));
                figures.map(|_| Value::from(text)).ok_or_else(|| Misfit(format!("{} is neither a number nor a percentage", shown(text))))
            }
            Shape::Amount => amount(value),
            Shape::Name => {
                let text = text()?;
                match self {
                    _ if !is_name(text) => Err(Misfit(format!("{} is not a name", shown(text)))),
                    Self::Record { names, .. } => Ok(Value::from(names.name(text))),
                    Self::Check => Ok(Value::from(text)),
                }
            }
            Shape::Key => self.key(text()?).map(Value::from),
            Shape::Template => {
                let text = text()?;
                let digits = text.strip_prefix("t-").filter(|digits| digits.len() == 32);
                let fits = digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                if fits { Ok(Value::from(text)) } else { Err(Misfit(format!("{} is not a template hash", shown(text)))) }
            }
            // The caller handles these.
            Shape::List(..) | Shape::Labels | Shape::Amounts | Shape::Pairs | Shape::Members(_) => Err(Misfit::from("has parts")),
        }
    }
}

/// Why a value does not have the shape that its field requires.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misfit(String);

impl From<&str> for Misfit {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

fn is_plausible(time: Timestamp) -> bool {
    (0..7_258_118_400).contains(&time.as_second())
}

fn is_figures(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_key(key: &str) -> bool {
    (1..=KEY_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

fn amount(value: &Value) -> Result<Value, Misfit> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(Misfit::from("is not a quantity")),
    };
    let quantity: Option<Quantity> = Some(&text).filter(|text| text.len() <= WORD_MAX).and_then(|text| text.parse().ok());
    match quantity {
        Some(quantity) if (-AMOUNT_MAX..=AMOUNT_MAX).contains(&quantity.value()) => Ok(Value::from(text)),
        _ => Err(Misfit(format!("{} is not a quantity within the limits", shown(&text)))),
    }
}

/// Returns a text for an error message: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}
