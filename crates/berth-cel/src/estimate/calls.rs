//! What calls cost at most.

use super::{Entries, Facts, Origin, Size, united};
use crate::{Declaration, Type};

/// An argument of a call, or its target.
pub(super) struct Argument {
    pub(super) facts: Facts,
    pub(super) of: Type,
    /// The integer, if it is written in the expression.
    pub(super) int: Option<i64>,
}

impl Argument {
    fn size(&self) -> Size {
        self.facts.size_or_unknown()
    }

    /// The sizes of the elements of a list. `None`: it is none.
    fn element_size(&self) -> Option<(Size, &Type)> {
        // Upstream takes the first parameter of any type.
        let of = match &self.of {
            Type::List(elements) | Type::Optional(elements) | Type::Type(elements) => elements,
            Type::Map(both) => &both.0,
            _ => return None,
        };
        let declared = self.facts.origin.part(&Origin::Unknown, |of| of.elements().cloned()).size();
        Some((declared.unwrap_or(Size::UNKNOWN), of))
    }
}

/// The cost of reading a text.
const READ: f64 = 0.1;
/// What a call that makes a list costs besides its elements.
const ALLOCATION: u64 = 11;
/// What a question to the authorizer costs.
const QUESTION_COST: u64 = 350_000;
/// How long upstream takes the expression of a named format to be.
const FORMAT_PATTERN: f64 = 128.0;

/// The cost of one overload without its arguments, and the size of its result.
type Estimate = (u64, Option<Size>);

/// What a call costs with its arguments: the most of all its overloads.
pub(super) fn call_cost(name: &str, overloads: &[&'static str], target: Option<&Argument>, arguments: &[Argument], root: &Origin) -> Facts {
    let inside = target.into_iter().chain(arguments).map(|argument| argument.facts.cost).fold(0, u64::saturating_add);
    if let ("dyn", [argument]) = (name, arguments) {
        return Facts { cost: inside.saturating_add(1), origin: Origin::Computed, ..argument.facts.clone() };
    }
    let mut facts = Facts::default();
    for overload in overloads {
        let (cost, size) = kubernetes(name, overload, target, arguments).unwrap_or_else(|| language(overload, target, arguments));
        facts.cost = facts.cost.max(cost);
        facts.size = match (facts.size, size) {
            (Some(one), Some(other)) => Some(one.union(other)),
            (one, other) => one.or(other),
        };
        match (*overload, arguments) {
            ("index_list" | "index_map", [container, _]) => {
                facts.origin = container.facts.origin.part(root, |of: &Declaration| of.elements().cloned());
                facts.size = container.facts.entries.map(|entries: Entries| entries.value);
            }
            ("add_string" | "add_bytes" | "add_list", [one, other]) => facts.entries = united(one.facts.entries, other.facts.entries),
            _ => (),
        }
    }
    facts.cost = facts.cost.saturating_add(inside);
    facts
}

/// The functions of the language.
fn language(overload: &str, target: Option<&Argument>, arguments: &[Argument]) -> Estimate {
    let sizes: Vec<Size> = arguments.iter().map(Argument::size).collect();
    let target = target.map_or(Size::UNKNOWN, Argument::size);
    match (overload, &sizes[..]) {
        ("string_format", _) => (target.cost(READ), None),
        ("string_to_bytes", [size]) => (size.cost(READ), Some(Size { min: size.min, max: size.max.saturating_mul(4) })),
        ("bytes_to_string", [size]) => (size.cost(READ), Some(Size { min: size.min / 4, max: size.max })),
        ("strings_quote", [size]) => {
            let quoted = Size { min: size.min.saturating_add(2), max: size.max.saturating_mul(2).saturating_add(2) };
            (size.cost(READ), Some(quoted))
        }
        ("starts_with_string" | "ends_with_string", [size]) => (size.cost(READ), None),
        ("in_list", [_, size]) => (size.cost(1.0), None),
        ("matches_string", [pattern]) => (target.plus(Size::fixed(1)).cost(READ).saturating_mul(pattern.cost(0.25)), None),
        ("contains_string", [part]) => (target.cost(READ).saturating_mul(part.cost(READ)), None),
        ("add_list", [one, other]) => (1, Some(one.plus(*other))),
        ("add_string" | "add_bytes", [one, other]) => (one.plus(*other).cost(READ), Some(one.plus(*other))),
        ("equals" | "not_equals", [one, other]) => (Size::fixed(one.max.min(other.max)).cost(READ), None),
        (overload, [one, other]) if is_long_comparison(overload) => (Size::fixed(one.max.min(other.max)).cost(READ), None),
        _ => (1, None),
    }
}

/// Whether it compares texts or bytes.
fn is_long_comparison(overload: &str) -> bool {
    ["less", "greater"].iter().any(|name| overload.starts_with(name)) && (overload.ends_with("_string") || overload.ends_with("_bytes"))
}

/// The functions whose cost Kubernetes or an extension defines. `None`: neither does.
fn kubernetes(name: &str, overload: &str, target: Option<&Argument>, arguments: &[Argument]) -> Option<Estimate> {
    if let Some(found) = lists(overload, target, arguments) {
        return Some(found);
    }
    let of_target = target.map(Argument::size);
    let first = arguments.first().map(Argument::size);
    Some(match name {
        "check" => (QUESTION_COST, None),
        "fieldSelector" | "labelSelector" => {
            let size = first?;
            let requirements = Size::fixed(size.cost(0.5)).cost(50.0);
            (10_u64.saturating_add(size.cost(READ)).saturating_add(requirements), None)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match target?.element_size() {
            Some((size, of)) => {
                let each = if matches!(of, Type::String | Type::Bytes) { size.cost(READ).saturating_add(1) } else { 1 };
                (of_target?.max.saturating_mul(each), None)
            }
            None => (of_target?.cost(READ), None),
        },
        "url" | "jsonpatch.escapeKey" => (first?.cost(READ), first),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => (of_target?.cost(READ), of_target),
        "replace" => (of_target?.cost(2.0 * READ), Some(replaced(of_target?, first?, arguments.get(1)?.size()))),
        "split" => {
            let max = arguments.get(1).and_then(|limit| limit.int).map_or(of_target?.max, |limit| limit as u64);
            (of_target?.cost(2.0 * READ), Some(Size { min: 0, max }))
        }
        "join" => joined(target?, first),
        "find" | "findAll" => {
            let cost = of_target?.plus(Size::fixed(1)).cost(READ).saturating_mul(first?.cost(0.25));
            (cost, Some(Size { min: 0, max: of_target?.max }))
        }
        "ip" if overload == "cidr_ip" => (1, None),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => (first?.cost(READ), None),
        "ip.isCanonical" => (first?.cost(2.0 * READ), None),
        "containsIP" | "containsCIDR" => {
            // Two addresses of 16 bytes are compared. A range is masked first.
            let compared = if name == "containsIP" { 4 } else { 4 + 2 + 1 };
            let parsed = if overload.ends_with("_string") { first?.cost(READ) } else { 0 };
            (parsed.saturating_add(compared), None)
        }
        "validate" => (Size::fixed(first?.cost(READ)).cost(FORMAT_PATTERN * 0.25), None),
        "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => (1, None),
        "_==_" => return opaque_equality(arguments),
        _ => return None,
    })
}

/// Values that only functions know are compared at a fixed cost.
fn opaque_equality(arguments: &[Argument]) -> Option<Estimate> {
    let [one, other] = arguments else { return None };
    match (&one.of, one.of == other.of) {
        (Type::Opaque("kubernetes.NamedFormat"), true) => Some((Size::fixed(64).cost(READ), None)),
        (Type::Opaque("kubernetes.URL"), true) => Some((Size::fixed(other.facts.size.map_or(1, |size| size.max)).cost(READ), None)),
        (Type::Opaque(_), true) => Some((1, None)),
        _ => None,
    }
}

/// The size of a text in which a part is replaced.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let parts = |text: u64, old: u64| (text as f64 / old as f64).ceil() as u64;
    let (most, kept_most) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (parts(text.max, old.min), 0)
    };
    let (fewest, kept_least) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (parts(text.min, old.max), 0)
    };
    Size { min: fewest, max: most }.times(new).plus(Size { min: kept_least, max: kept_most })
}

fn joined(target: &Argument, separator: Option<Size>) -> Estimate {
    let list = target.size();
    let mut size = target.element_size().map_or(Size::fixed(0), |(element, _)| list.times(element));
    if let Some(separator) = separator {
        let count = Size { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        size = size.plus(separator.times(count));
    }
    (size.cost(READ), Some(size))
}

/// The extension of lists and sets.
fn lists(overload: &str, target: Option<&Argument>, arguments: &[Argument]) -> Option<Estimate> {
    let made = |factor: f64, size: Size| (size.cost(factor).saturating_add(ALLOCATION), Some(size));
    let int = |at: usize, otherwise: u64| arguments.get(at).and_then(|argument| argument.int).map_or(otherwise, |int| int as u64);
    let of_target = target.map(Argument::size);
    Some(match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
            let [one, other] = arguments else { return None };
            let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            (one.size().times(other.size()).cost(factor).saturating_add(1), None)
        }
        "list_slice" => made(1.0, Size::fixed(int(1, of_target?.max).wrapping_sub(int(0, 0)))),
        "lists_range" => made(1.0, Size::fixed(int(0, u64::MAX))),
        "list_reverse" | "list_flatten" => made(1.0, of_target?),
        "list_flatten_int" => made(int(0, u64::MAX) as f64, of_target?),
        "list_distinct" => made(2.0, of_target?.times(of_target?)),
        _ if overload.starts_with("list_") && overload.ends_with("_sort") => sorted(overload, of_target?),
        _ if overload.ends_with("_sortByAssociatedKeys") => sorted(overload, arguments.first()?.size()),
        _ => return None,
    })
}

fn sorted(overload: &str, size: Size) -> Estimate {
    let factor = if overload.contains("string") || overload.contains("bytes") { 2.0 + READ } else { 2.0 };
    let pairs = size.times(size);
    (pairs.cost(factor).saturating_add(ALLOCATION), Some(pairs))
}
