//! Addresses and ranges of addresses.

use super::{Outcome, Plain, no_overload, tenth};
use crate::{
    Budget, EvaluationError, Value,
    value::{
        Opaque as Boxed,
        opaque::{Cidr, CidrError, Opaque},
    },
};
use std::net::IpAddr;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "ip" => |arguments, budget| match arguments {
            [Value::String(text)] => {
                budget.spend(tenth(text.len() as u64))?;
                address(text).map(|address| Value::opaque(Opaque::Ip(address)))
            }
            [value] => {
                budget.spend(1)?;
                Ok(Value::opaque(Opaque::Ip(range_of(value)?.address)))
            }
            _ => Err(no_overload()),
        },
        "isIP" => |arguments, budget| text(arguments, budget, 1).map(|text| address(text).is_ok().into()),
        "ip.isCanonical" => |arguments, budget| {
            let text = text(arguments, budget, 2)?;
            Ok((address(text)?.to_string() == text).into())
        },
        "family" => |arguments, budget| of_address(arguments, budget, |address| Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |arguments, budget| of_address(arguments, budget, |address| address.is_unspecified().into()),
        "isLoopback" => |arguments, budget| of_address(arguments, budget, |address| address.is_loopback().into()),
        "isLinkLocalMulticast" => |arguments, budget| of_address(arguments, budget, |address| is_link_local_multicast(address).into()),
        "isLinkLocalUnicast" => |arguments, budget| of_address(arguments, budget, |address| is_link_local_unicast(address).into()),
        "isGlobalUnicast" => |arguments, budget| of_address(arguments, budget, |address| is_global_unicast(address).into()),
        "cidr" => |arguments, budget| {
            let text = text(arguments, budget, 1)?;
            range(text).map(|range| Value::opaque(Opaque::Cidr(range)))
        },
        "isCIDR" => |arguments, budget| text(arguments, budget, 1).map(|text| range(text).is_ok().into()),
        "containsIP" => contains_ip,
        "containsCIDR" => contains_range,
        "prefixLength" => |arguments, budget| of_range(arguments, budget, |range| Value::Int(range.bits.into())),
        "masked" => |arguments, budget| of_range(arguments, budget, |range| Value::opaque(Opaque::Cidr(range.masked()))),
        _ => return None,
    })
}

fn text<'b>(arguments: &'b [Value<'_>], budget: &mut Budget, factor: u64) -> Result<&'b str, EvaluationError> {
    let [Value::String(text)] = arguments else { return Err(no_overload()) };
    budget.spend(tenth(factor * text.len() as u64))?;
    Ok(text)
}

/// Reads an address as Go does: without a zone, and without an address of version 4 in one of version 6.
fn address(text: &str) -> Result<IpAddr, EvaluationError> {
    if text.contains('%') {
        return Err(EvaluationError::failed(format!("IP address \"{text}\" with zone value is not allowed")));
    }
    match text.parse() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(EvaluationError::failed(format!("IPv4-mapped IPv6 address \"{text}\" is not allowed")))
        }
        Ok(address) => Ok(address),
        Err(_) => {
            let parts = text.split('.').count();
            let is_v4 = 1 < parts && !text.contains(':');
            let why = match parts {
                2 | 3 if is_v4 => "IPv4 address too short",
                _ if is_v4 && 4 < parts => "IPv4 address too long",
                _ => "unable to parse IP",
            };
            let why = format!("ParseAddr(\"{text}\"): {why}");
            Err(EvaluationError::failed(format!("IP Address \"{text}\" parse error during conversion from string: {why}")))
        }
    }
}

fn range(text: &str) -> Result<Cidr, EvaluationError> {
    let wrong = |why: CidrError| EvaluationError::failed(format!("network address parse error during conversion from string: {why}"));
    Cidr::parse(text).map_err(wrong)
}

fn range_of(value: &Value<'_>) -> Result<Cidr, EvaluationError> {
    match value {
        Value::Opaque(value) => match &**value {
            Boxed(Opaque::Cidr(range)) => Ok(*range),
            _ => Err(no_overload()),
        },
        _ => Err(no_overload()),
    }
}

fn of_address<'a>(arguments: &[Value<'a>], budget: &mut Budget, of: fn(IpAddr) -> Value<'a>) -> Outcome<'a> {
    budget.spend(1)?;
    match arguments {
        [Value::Opaque(value)] => match &**value {
            Boxed(Opaque::Ip(address)) => Ok(of(*address)),
            _ => Err(no_overload()),
        },
        _ => Err(no_overload()),
    }
}

fn of_range<'a>(arguments: &[Value<'a>], budget: &mut Budget, of: fn(Cidr) -> Value<'a>) -> Outcome<'a> {
    budget.spend(1)?;
    if let [value] = arguments { Ok(of(range_of(value)?)) } else { Err(no_overload()) }
}

fn contains_ip<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [container, part] = arguments else { return Err(no_overload()) };
    let container = range_of(container)?;
    // Upstream counts both addresses as texts of size 1.
    budget.spend(1)?;
    let part = match part {
        Value::String(text) => {
            budget.spend(tenth(text.len() as u64))?;
            address(text)?
        }
        Value::Opaque(value) => match &**value {
            Boxed(Opaque::Ip(address)) => *address,
            _ => return Err(no_overload()),
        },
        _ => return Err(no_overload()),
    };
    Ok(container.contains(part).into())
}

fn contains_range<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [container, part] = arguments else { return Err(no_overload()) };
    let container = range_of(container)?;
    budget.spend(3)?;
    let part = match part {
        Value::String(text) => {
            budget.spend(tenth(text.len() as u64))?;
            range(text)?
        }
        other => range_of(other)?,
    };
    Ok((container.bits <= part.bits && container.contains(part.address)).into())
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !is_broadcast && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast() && !is_link_local_unicast(address)
}
