//! Why a schedule is not valid.

use std::fmt::{self, Display, Formatter};

/// Why a schedule is not valid. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// `spec.timeZone` is not in the database.
    #[error("unknown time zone {zone}")]
    UnknownTimeZone {
        /// The name.
        zone: String,
    },
    /// The zone that the schedule itself begins with is not in the database.
    #[error("provided bad location {zone}: unknown time zone {zone}")]
    BadLocation {
        /// The name.
        zone: String,
    },
    /// Nothing follows the zone. Upstream's parser panics here, and this is the message of its recovery.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    OnlyZone,
    /// It does not have five fields.
    #[error("expected exactly 5 fields, found {}: [{}]", .fields.len(), .fields.join(" "))]
    FieldCount {
        /// The fields that it has.
        fields: Vec<String>,
    },
    /// No schedule has this name.
    #[error("unrecognized descriptor: {text}")]
    Descriptor {
        /// The name.
        text: String,
    },
    /// An interval is not valid.
    #[error("failed to parse duration {text}: {fault}")]
    Interval {
        /// The schedule.
        text: String,
        /// Why.
        fault: IntervalFault,
    },
    /// A range is not valid.
    #[error("{}", RangeText(range, fault))]
    Range {
        /// The range.
        range: String,
        /// Why.
        fault: RangeFault,
    },
    /// A number is not valid.
    #[error("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": {fault}")]
    Number {
        /// The text.
        text: String,
        /// Why.
        fault: NumberFault,
    },
    /// A number is negative.
    #[error("negative number ({number}) not allowed: {text}")]
    Negative {
        /// The text.
        text: String,
        /// The number.
        number: i64,
    },
}

/// Why an interval is not valid, as Go reports it. Each case has the interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntervalFault {
    /// It is empty, has a number without digits, or is too large.
    Invalid(String),
    /// A number has no unit.
    MissingUnit(String),
    /// No unit has this name.
    UnknownUnit {
        /// The name.
        unit: String,
        /// The interval.
        interval: String,
    },
}

impl Display for IntervalFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(interval) => write!(f, "time: invalid duration \"{interval}\""),
            Self::MissingUnit(interval) => write!(f, "time: missing unit in duration \"{interval}\""),
            Self::UnknownUnit { unit, interval } => write!(f, "time: unknown unit \"{unit}\" in duration \"{interval}\""),
        }
    }
}

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFault {
    /// It has other characters than digits.
    Syntax,
    /// It is too large.
    OutOfRange,
}

impl Display for NumberFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "invalid syntax",
            Self::OutOfRange => "value out of range",
        })
    }
}

/// Why a range is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeFault {
    /// It has more than two ends.
    TooManyHyphens,
    /// It has more than one step.
    TooManySlashes,
    /// It begins before the first value of its field.
    BelowMinimum {
        /// Its begin.
        start: i64,
        /// The first value.
        min: i64,
    },
    /// It ends after the last value of its field.
    AboveMaximum {
        /// Its end.
        end: i64,
        /// The last value.
        max: i64,
    },
    /// It ends before it begins.
    Reversed {
        /// Its begin.
        start: i64,
        /// Its end.
        end: i64,
    },
    /// Its step is 0.
    NoStep,
}

/// A range's fault and the range.
struct RangeText<'a>(&'a str, &'a RangeFault);

impl Display for RangeText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            RangeFault::TooManyHyphens => f.write_str("too many hyphens")?,
            RangeFault::TooManySlashes => f.write_str("too many slashes")?,
            RangeFault::BelowMinimum { start, min } => write!(f, "beginning of range ({start}) below minimum ({min})")?,
            RangeFault::AboveMaximum { end, max } => write!(f, "end of range ({end}) above maximum ({max})")?,
            RangeFault::Reversed { start, end } => write!(f, "beginning of range ({start}) beyond end of range ({end})")?,
            RangeFault::NoStep => f.write_str("step of range should be a positive number")?,
        }
        write!(f, ": {}", self.0)
    }
}
