//! When a schedule is due.
//!
//! Source: `github.com/robfig/cron/v3`, `spec.go` and `constantdelay.go`.

use super::{DESCRIPTORS, EVERY, FIELDS, ScheduleError, Values, parse_field, parse_interval, split_zone, time_zone};
use jiff::{SignedDuration, Timestamp, ToSpan, civil, tz::TimeZone};

/// A schedule without a time in so many years has none.
const YEARS_MAX: i16 = 5;
/// Times are in whole minutes, but those of an interval in whole seconds.
const MINUTE_SECONDS: i64 = 60;

/// A schedule in the format of cron.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    /// At these times of the wall clock.
    Fields(Fields),
    /// At this interval in seconds, which is positive.
    Every(i64),
}

/// The values that match, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day must match both fields of days. If both name days, one of them suffices.
    needs_both: bool,
}

impl Schedule {
    /// Reads a schedule. Its times are those of its own time zone, of `zone`, or of UTC.
    ///
    /// # Errors
    /// The time zone is unknown, or the schedule is not valid.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let unknown = |zone: &str| ScheduleError::UnknownTimeZone { zone: zone.to_owned() };
        let zone = zone.map(|zone| time_zone(zone).ok_or_else(|| unknown(zone))).transpose()?;
        let (own_zone, text) = split_zone(text)?;
        Ok(Self { times: Times::parse(text)?, zone: own_zone.or(zone).unwrap_or(TimeZone::UTC) })
    }

    /// Returns the first time after `after`. `None`: there is none within five years.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Every(seconds) => Timestamp::from_second(whole_seconds(after).checked_add(*seconds)?).ok(),
            Times::Fields(fields) => fields.next(&self.zone, after),
        }
    }

    /// Returns the last time after `after` that is not later than `until`. An interval counts from `after`.
    ///
    /// Costs some 30 calls of [`Self::next`] at most, however many times there are.
    #[must_use]
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if let Times::Every(seconds) = &self.times {
            let intervals = (until.as_second() - whole_seconds(after)).div_euclid(*seconds);
            return Timestamp::from_second(whole_seconds(after) + intervals * seconds).ok().filter(|_| 0 < intervals);
        }
        let is_due = |time: &Timestamp| *time <= until;
        let mut last = self.next(after).filter(is_due)?;
        // A time is due after any moment before the last one, and after no later moment.
        let mut end = until;
        while let Some(middle) = middle(last, end) {
            // Where a zone repeated a whole day, the search can return a time before `middle`, and this loop would not end.
            match self.next(middle).filter(|time| middle < *time && is_due(time)) {
                Some(later) => last = later,
                None => end = middle,
            }
        }
        Some(last)
    }
}

/// The middle of two moments, in whole seconds. `None`: there is none between them.
fn middle(start: Timestamp, end: Timestamp) -> Option<Timestamp> {
    let seconds = (end.as_second() - start.as_second()) / 2;
    Timestamp::from_second(start.as_second() + seconds).ok().filter(|_| 0 < seconds)
}

fn whole_seconds(at: Timestamp) -> i64 {
    at.as_nanosecond().div_euclid(1_000_000_000).try_into().unwrap_or(i64::MAX)
}

impl Times {
    fn parse(text: &str) -> Result<Self, ScheduleError> {
        if !text.starts_with('@') {
            return Fields::parse(text).map(Self::Fields);
        }
        if let Some(interval) = text.strip_prefix(EVERY) {
            let fault = |fault| ScheduleError::Interval { text: text.to_owned(), fault };
            return Ok(Self::Every(parse_interval(interval).map_err(fault)?.as_secs().max(1)));
        }
        let named = DESCRIPTORS.iter().find(|(name, _)| *name == text);
        let (_, fields) = named.ok_or_else(|| ScheduleError::Descriptor { text: text.to_owned() })?;
        Fields::parse(fields).map(Self::Fields)
    }
}

impl Fields {
    fn parse(text: &str) -> Result<Self, ScheduleError> {
        let texts: Vec<&str> = text.split_whitespace().collect();
        if texts.len() != FIELDS.len() {
            return Err(ScheduleError::FieldCount { fields: texts.into_iter().map(str::to_owned).collect() });
        }
        let mut values = [Values::default(); FIELDS.len()];
        for ((text, field), values) in texts.into_iter().zip(&FIELDS).zip(&mut values) {
            *values = parse_field(text, field)?;
        }
        let [minutes, hours, days, months, weekdays] = values;
        Ok(Self {
            minutes: minutes.bits,
            hours: hours.bits,
            days: days.bits,
            months: months.bits,
            weekdays: weekdays.bits,
            needs_both: days.is_any || weekdays.is_any,
        })
    }

    /// Searches field by field, from the month down. A step of one field sets the smaller ones to their start, so the first match is the next time.
    fn next(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        if [self.minutes, self.hours, self.months].contains(&0) {
            return None;
        }
        let mut clock = WallClock { zone, at: next_minute(after)? };
        let last_year = clock.read().year().checked_add(YEARS_MAX)?;
        let mut has_moved = false;
        'again: while clock.read().year() <= last_year {
            while !has(self.months, clock.read().month()) {
                if !std::mem::replace(&mut has_moved, true) {
                    clock.set(clock.read().date().first_of_month().at(0, 0, 0, 0))?;
                }
                clock.advance(clock.read().checked_add(1.month()).ok()?)?;
                if clock.read().month() == 1 {
                    continue 'again;
                }
            }
            while !self.is_day(clock.read().date()) {
                if !std::mem::replace(&mut has_moved, true) {
                    clock.set(clock.read().date().at(0, 0, 0, 0))?;
                }
                clock.advance(clock.read().checked_add(1.day()).ok()?)?;
                clock.correct_midnight()?;
                if clock.read().day() == 1 {
                    continue 'again;
                }
            }
            while !has(self.hours, clock.read().hour()) {
                if !std::mem::replace(&mut has_moved, true) {
                    let now = clock.read();
                    clock.set(now.date().at(now.hour(), 0, 0, 0))?;
                }
                clock.pass(SignedDuration::from_hours(1))?;
                if clock.read().hour() == 0 {
                    continue 'again;
                }
            }
            while !has(self.minutes, clock.read().minute()) {
                has_moved = true;
                clock.pass(SignedDuration::from_mins(1))?;
                if clock.read().minute() == 0 {
                    continue 'again;
                }
            }
            return Some(clock.at);
        }
        None
    }

    fn is_day(&self, date: civil::Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.needs_both { day && weekday } else { day || weekday }
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}

/// The start of the next minute.
fn next_minute(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second((whole_seconds(at).div_euclid(MINUTE_SECONDS) + 1) * MINUTE_SECONDS).ok()
}

/// A time, and what a wall clock shows at it.
struct WallClock<'z> {
    zone: &'z TimeZone,
    at: Timestamp,
}

impl WallClock<'_> {
    fn read(&self) -> civil::DateTime {
        self.zone.to_datetime(self.at)
    }

    /// Sets the clock. For a time that it shows twice or never, Go decides: first it reads the offset at this time in UTC, then that at the result.
    ///
    /// Source: Go's `time.Date`.
    fn set(&mut self, shown: civil::DateTime) -> Option<()> {
        let as_utc = jiff::tz::Offset::UTC.to_timestamp(shown).ok()?;
        let first = self.zone.to_offset(as_utc);
        let second = self.zone.to_offset(first.to_timestamp(shown).ok()?);
        self.at = second.to_timestamp(shown).ok()?;
        Some(())
    }

    /// Sets the clock forward. Where a zone skipped a whole day, it would stay the same, and the search would not end.
    fn advance(&mut self, shown: civil::DateTime) -> Option<()> {
        let before = self.at;
        self.set(shown)?;
        if self.at <= before {
            self.at = before;
            self.pass(SignedDuration::from_hours(24))?;
        }
        Some(())
    }

    fn pass(&mut self, duration: SignedDuration) -> Option<()> {
        self.at = self.at.checked_add(duration).ok()?;
        Some(())
    }

    /// Moves to the start of the day where midnight does not exist: the clock was set to an hour before or after it.
    fn correct_midnight(&mut self) -> Option<()> {
        match i64::from(self.read().hour()) {
            0 => Some(()),
            hour @ 13.. => self.pass(SignedDuration::from_hours(24 - hour)),
            hour => self.pass(SignedDuration::from_hours(-hour)),
        }
    }
}
