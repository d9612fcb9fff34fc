//! Quantities, percentages, names: read or refused, and printed so that they are read again.

use berth_api::{
    int_or_string::{self, Rounding},
    k8s_openapi::apimachinery::pkg::util::intstr::IntOrString,
    names,
    quantity::Quantity,
};

fn quantity(text: &str) -> Option<Quantity> {
    let quantity: Quantity = text.parse().ok()?;
    let printed = quantity.to_string();
    let again: Quantity = printed.parse().unwrap_or_else(|error| panic!("{text} is printed as {printed}: {error}"));
    assert_eq!(again, quantity, "{text} {printed}");
    assert_eq!(again.to_string(), printed, "{text}");
    let _ = (quantity.value(), quantity.milli_value(), quantity.round_up_to_milli());
    Some(quantity)
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (first, second) = text.split_once(' ').unwrap_or((text, "1"));
    if let (Some(a), Some(b)) = (quantity(first), quantity(second)) {
        assert_eq!(a.plus(b), b.plus(a));
        let _ = (a.minus(b).to_string(), a.cmp(&b));
    }
    let value = IntOrString::String(text.to_owned());
    if let (Some(up), Some(down)) = (int_or_string::resolve(&value, 7, Rounding::Up), int_or_string::resolve(&value, 7, Rounding::Down)) {
        assert!(down <= up && up - down <= 1);
    }
    for check in [
        names::check_dns_label,
        names::check_dns_subdomain,
        names::check_dns_1035_label,
        names::check_path_segment,
        names::check_qualified_name,
        names::check_label_key,
        names::check_label_value,
    ] {
        let _ = check(text);
    }
}
