//! JSONPath as printer columns and `/scale` use it: a path from an object to values in it.
//!
//! Source: upstream `client-go/util/jsonpath`, as far as custom resource definitions accept it: no templates, no scripts.

use serde_json::Value;
use std::{cmp::Ordering, fmt};

/// How many values a path selects at most. A column shows the first one.
const SELECTED_MAX: usize = 1000;
/// How many steps a path has at most.
const STEPS_MAX: usize = 64;

/// A path that has been read: `.spec.ports[*].name`, `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Members of an object.
    Fields(Vec<String>),
    /// Elements of a list. Negative ones count from its end.
    Indices(Vec<i64>),
    /// A range of a list: start, end, step.
    Range(Option<i64>, Option<i64>, i64),
    /// All members or elements.
    All,
    /// The value itself and everything in it.
    Descend,
    /// The elements that fit.
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// `None`: the left operand must exist.
    compare: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a JSONPath: {why}")]
pub struct JsonPathError {
    /// The text.
    pub path: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl JsonPath {
    /// Reads a path. It begins with a dot.
    ///
    /// # Errors
    /// A text that is no path.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let wrong = |why| JsonPathError { path: text.to_owned(), why };
        if !text.starts_with('.') {
            return Err(wrong("must be a simple json path starting with ."));
        }
        let mut reader = Reader { rest: text };
        let steps = reader.steps().map_err(wrong)?;
        if reader.rest.is_empty() { Ok(Self { text: text.to_owned(), steps }) } else { Err(wrong("a step is expected")) }
    }

    /// The path of members that a text names between dots, whatever else it has: `.spec.replicas`.
    #[must_use]
    pub fn of_members(text: &str) -> Self {
        let names = text.trim_start_matches('.').split('.').take(STEPS_MAX);
        Self { text: text.to_owned(), steps: names.map(|name| Step::Fields(vec![name.to_owned()])).collect() }
    }

    /// The fields that lead to the value, if the path has only such steps: `spec`, `replicas`.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<&str>> {
        let field = |step: &Step| -> Option<()> { if let Step::Fields(names) = step { (names.len() == 1).then_some(()) } else { None } };
        self.steps.iter().try_for_each(field)?;
        let names = self.steps.iter().filter_map(|step| if let Step::Fields(names) = step { names.first() } else { None });
        Some(names.map(String::as_str).collect())
    }

    /// The first value that the path selects. `None`: it selects none, or an element that the list does not have.
    #[must_use]
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        select(value, &self.steps)?.into_iter().next()
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn select<'v>(value: &'v Value, steps: &[Step]) -> Option<Vec<&'v Value>> {
    let mut selected = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in selected {
            step.apply(value, &mut next)?;
            next.truncate(SELECTED_MAX);
        }
        selected = next;
    }
    Some(selected)
}

impl Step {
    /// Adds what the step selects. `None`: a list is too short, which ends the whole path as it does upstream.
    fn apply<'v>(&self, value: &'v Value, to: &mut Vec<&'v Value>) -> Option<()> {
        match (self, value) {
            (Self::Fields(names), Value::Object(members)) => to.extend(names.iter().filter_map(|name| members.get(name))),
            (Self::Indices(indices), Value::Array(list)) => {
                for index in indices {
                    to.push(list.get(position(*index, list.len())?)?);
                }
            }
            (Self::Range(start, end, step), Value::Array(list)) => {
                let bound = |index: i64| usize::try_from(if index < 0 { index + length(list) } else { index }).unwrap_or(0).min(list.len());
                let (start, end) = (bound(start.unwrap_or(0)), end.map_or(list.len(), bound));
                let step = usize::try_from(*step).ok().filter(|step| 0 < *step)?;
                to.extend(list.get(start..end).into_iter().flatten().step_by(step));
            }
            (Self::All, Value::Object(members)) => to.extend(members.values()),
            (Self::All, Value::Array(list)) => to.extend(list),
            (Self::Descend, value) => descend(value, to),
            (Self::Filter(filter), Value::Array(list)) => to.extend(list.iter().filter(|element| filter.fits(element))),
            (Self::Filter(filter), Value::Object(members)) => to.extend(members.values().filter(|element| filter.fits(element))),
            _ => (),
        }
        Some(())
    }
}

fn length(list: &[Value]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

fn position(index: i64, length: usize) -> Option<usize> {
    let from_end = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { length.checked_sub(from_end) } else { Some(from_end) }
}

/// A list of what is still to be visited, not a recursion: values are as deep as clients make them.
fn descend<'v>(value: &'v Value, to: &mut Vec<&'v Value>) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if SELECTED_MAX <= to.len() {
            return;
        }
        to.push(value);
        match value {
            Value::Object(members) => open.extend(members.values().rev()),
            Value::Array(list) => open.extend(list.iter().rev()),
            _ => (),
        }
    }
}

impl Filter {
    fn fits(&self, element: &Value) -> bool {
        let Some(left) = self.left.value(element) else { return false };
        let Some((comparison, right)) = &self.compare else { return true };
        let Some(right) = right.value(element) else { return false };
        let order = order(left, right);
        match comparison {
            Comparison::Equal => left == right || order == Some(Ordering::Equal),
            Comparison::NotEqual => left != right && order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }
}

impl Operand {
    fn value<'v>(&'v self, element: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Path(steps) => select(element, steps)?.into_iter().next(),
        }
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        _ => None,
    }
}

/// What is left to be read of a path.
struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn steps(&mut self) -> Result<Vec<Step>, &'static str> {
        let mut steps = Vec::new();
        loop {
            if STEPS_MAX < steps.len() {
                return Err("it has too many steps");
            }
            if self.take("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.take(".") {
                // `.[0]` and the path to the whole value.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    /// A name behind a dot; a backslash keeps what follows from ending it.
    fn field(&mut self) -> Result<Step, &'static str> {
        if self.take("*") {
            return Ok(Step::All);
        }
        let mut name = String::new();
        while let Some(letter) = self.rest.chars().next() {
            if matches!(letter, '.' | '[' | ']' | '(' | ')' | ' ' | '=' | '!' | '<' | '>' | '{' | '}') {
                break;
            }
            self.rest = &self.rest[letter.len_utf8()..];
            if letter != '\\' {
                name.push(letter);
            } else if let Some(kept) = self.rest.chars().next() {
                self.rest = &self.rest[kept.len_utf8()..];
                name.push(kept);
            }
        }
        if name.is_empty() { Err("a name is expected") } else { Ok(Step::Fields(vec![name])) }
    }

    fn bracket(&mut self) -> Result<Step, &'static str> {
        if self.take("?(") {
            let filter = self.filter()?;
            return if self.take(")]") { Ok(Step::Filter(filter)) } else { Err("a filter ends with )]") };
        }
        let quoted = self.rest.starts_with(['\'', '"']);
        let step = if self.take("*") {
            Step::All
        } else if quoted {
            let mut names = vec![self.text()?];
            while self.take(",") {
                self.rest = self.rest.trim_start();
                names.push(self.text()?);
            }
            Step::Fields(names)
        } else {
            let (inside, _) = self.rest.split_once(']').ok_or("a bracket is not closed")?;
            let step = numbers(inside)?;
            self.rest = &self.rest[inside.len()..];
            step
        };
        if self.take("]") { Ok(step) } else { Err("a bracket is not closed") }
    }

    /// Text in quotation marks of either kind.
    fn text(&mut self) -> Result<String, &'static str> {
        let mark = self.rest.chars().next().filter(|mark| matches!(mark, '\'' | '"')).ok_or("a text in quotation marks is expected")?;
        let inside = &self.rest[1..];
        let end = inside.find(mark).ok_or("a text is not closed")?;
        self.rest = &inside[end + 1..];
        Ok(inside[..end].to_owned())
    }

    fn filter(&mut self) -> Result<Filter, &'static str> {
        let left = self.operand()?;
        self.rest = self.rest.trim_start();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let Some((_, comparison)) = comparisons.into_iter().find(|(text, _)| self.take(text)) else {
            return Ok(Filter { left, compare: None });
        };
        self.rest = self.rest.trim_start();
        let right = self.operand()?;
        self.rest = self.rest.trim_start();
        Ok(Filter { left, compare: Some((comparison, right)) })
    }

    fn operand(&mut self) -> Result<Operand, &'static str> {
        if self.take("@") {
            // A filter in a filter would recurse as deep as the text is long.
            if self.rest.starts_with("[?") {
                return Err("a filter in a filter is not supported");
            }
            return Ok(Operand::Path(self.plain_steps()?));
        }
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Operand::Literal(self.text()?.into()));
        }
        let end = self.rest.find([')', ' ', '=', '!', '<', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str(word)
            .ok()
            .filter(|value: &Value| !value.is_array() && !value.is_object())
            .map(Operand::Literal)
            .ok_or("a value is expected")
    }

    /// The steps of a path in a filter: fields and elements only.
    fn plain_steps(&mut self) -> Result<Vec<Step>, &'static str> {
        let mut steps = Vec::new();
        while steps.len() <= STEPS_MAX {
            if self.take(".") {
                steps.push(self.field()?);
            } else if self.rest.starts_with('[') && !self.rest.starts_with("[?") {
                self.take("[");
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
        Err("it has too many steps")
    }
}

/// `0`, `-1`, `0,2`, `1:`, `:2`, `0:4:2`.
fn numbers(inside: &str) -> Result<Step, &'static str> {
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| "an index is expected");
    if !inside.contains(':') {
        return Ok(Step::Indices(inside.split(',').map(number).collect::<Result<_, _>>()?));
    }
    let optional = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(number).transpose();
    let mut parts = inside.split(':');
    let (start, end, step) = (optional(parts.next())?, optional(parts.next())?, optional(parts.next())?.unwrap_or(1));
    if parts.next().is_some() || step < 1 { Err("a range is start:end:step") } else { Ok(Step::Range(start, end, step)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn first(path: &str) -> Option<Value> {
        let object = json!({
            "spec": {"size": 5, "a.b": "dotted", "tags": ["x", "y", "z"],
                "list": [{"name": "a", "value": 7}, {"name": "b", "value": 3}]},
        });
        JsonPath::parse(path).expect("a path").first(&object).cloned()
    }

    #[test]
    fn a_path_leads_to_the_first_value_that_it_selects() {
        for (path, wanted) in [
            (".spec.size", json!(5)),
            (".spec['size']", json!(5)),
            (".spec.a\\.b", json!("dotted")),
            (".spec['a.b']", json!("dotted")),
            (".spec.tags[1]", json!("y")),
            (".spec.tags[-1]", json!("z")),
            (".spec.tags[1:]", json!("y")),
            (".spec.tags[*]", json!("x")),
            (".spec.list[*].name", json!("a")),
            (".spec.list[?(@.name==\"b\")].value", json!(3)),
            (".spec.list[?(@.name=='b')].value", json!(3)),
            (".spec.list[?(@.value>3)].name", json!("a")),
            (".spec.list[?(@.value != 7)].name", json!("b")),
            (".spec.list[?(@.value)].name", json!("a")),
            ("..value", json!(7)),
            (".spec.*", json!("dotted")),
        ] {
            assert_eq!(first(path), Some(wanted), "{path}");
        }
        for path in [".spec.none", ".spec.size.deeper", ".spec.tags[3]", ".spec.tags[-4]", ".spec.list[?(@.name=='c')]"] {
            assert_eq!(first(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_rejected() {
        for path in ["", "spec", ".a[", ".a[x]", ".a['b", ".a[?(@.b==)]", ".a[?(@.b]", ".a.", ".a[0:1:0]", ".a[?(@[?(@.b)])]"] {
            let read = JsonPath::parse(path);
            assert!(read.is_err() || path == ".a.", "{path} {read:?}");
        }
        assert_eq!(
            JsonPath::parse("a").expect_err("no dot").to_string(),
            "\"a\" is not a JSONPath: must be a simple json path starting with ."
        );
    }

    #[test]
    fn a_path_of_fields_names_them() {
        let fields = |path: &str| JsonPath::parse(path).expect("a path").fields().map(|fields| fields.join("/"));
        assert_eq!(fields(".spec.replicas").as_deref(), Some("spec/replicas"));
        assert_eq!(fields(".spec['replicas']").as_deref(), Some("spec/replicas"));
        for path in [".spec.list[0]", ".spec.*", "..replicas", ".spec['a','b']"] {
            assert_eq!(fields(path), None, "{path}");
        }
    }
}
