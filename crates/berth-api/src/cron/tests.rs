use super::{Schedule, ScheduleError, check_schedule, is_time_zone};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

/// The texts are those of a real 1.36.2.
#[test]
fn a_schedule_has_five_fields_or_a_name() {
    let good = [
        "@daily",
        "@every 1h",
        "@every 1h30m",
        "@every 1.5s",
        "* * * JAN MON",
        "* * * jan-mar sun,mon",
        "? ? * * ?",
        "1,2,,3 * * * *",
        "*-5 * * * *",
        " * * * * *",
        "0 0 31 2 *",
        "*/61 * * * *",
        "0-59/70 * * * *",
        "+1 * * * *",
        ", * * * *",
        "TZ=UTC * * * * *",
        "TZ=America/New_York @daily",
        "TZ= * * * * *",
    ];
    for text in good {
        assert_eq!(check_schedule(text), Ok(()), "{text}");
    }
    let number = |text: &str, why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": {why}");
    for (text, why) in [
        ("x", "expected exactly 5 fields, found 1: [x]".to_owned()),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]".to_owned()),
        ("60 * * * *", "end of range (60) above maximum (59): 60".to_owned()),
        ("4294967300 * * * *", "end of range (4294967300) above maximum (59): 4294967300".to_owned()),
        ("-1 * * * *", number("", "invalid syntax")),
        ("a * * * *", number("a", "invalid syntax")),
        ("*/x * * * *", number("x", "invalid syntax")),
        ("99999999999999999999 * * * *", number("99999999999999999999", "value out of range")),
        ("*/0 * * * *", "step of range should be a positive number: */0".to_owned()),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1".to_owned()),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3".to_owned()),
        ("1/2/3 * * * *", "too many slashes: 1/2/3".to_owned()),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0".to_owned()),
        ("* * * * 7", "end of range (7) above maximum (6): 7".to_owned()),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\"".to_owned()),
        ("@every 1", "failed to parse duration @every 1: time: missing unit in duration \"1\"".to_owned()),
        ("@every 1d", "failed to parse duration @every 1d: time: unknown unit \"d\" in duration \"1d\"".to_owned()),
        ("@every  1h", "failed to parse duration @every  1h: time: invalid duration \" 1h\"".to_owned()),
        ("@every 9999999h", "failed to parse duration @every 9999999h: time: invalid duration \"9999999h\"".to_owned()),
        ("@every", "unrecognized descriptor: @every".to_owned()),
        ("@hourly ", "unrecognized descriptor: @hourly ".to_owned()),
        ("TZ=X * * * * *", "provided bad location X: unknown time zone X".to_owned()),
        ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()),
    ] {
        assert_eq!(check_schedule(text).map_err(|error| error.to_string()), Err(why), "{text}");
    }
}

#[test]
fn time_zones_have_names_in_their_case() {
    assert!(["UTC", "Etc/UTC", "America/New_York", "Etc/GMT+5", "US/Eastern", "EST5EDT", "Asia/Tokyo"].into_iter().all(is_time_zone));
    assert!(!["", "x", "Local", "america/new_york", "./UTC", "../etc", "UTC/", "GMT+5"].into_iter().any(is_time_zone));
    let unknown = ScheduleError::UnknownTimeZone { zone: "x".to_owned() };
    assert_eq!(Schedule::parse("@daily", Some("x")), Err(unknown));
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parsed(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, Some(zone)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `after` and the times that follow it.
fn check(schedule: &str, zone: &str, after: &str, times: &[&str]) {
    let schedule = parsed(schedule, zone);
    let found: Vec<_> = std::iter::successors(Some(at(after)), |time| schedule.next(*time)).skip(1).take(times.len()).collect();
    assert_eq!(found, times.iter().map(|time| at(time)).collect::<Vec<_>>(), "{schedule:?} after {after}");
}

#[test]
fn a_time_matches_every_field_and_one_of_two_named_days() {
    let day = |day: &str| format!("2026-{day}T00:00:00Z");
    check("* * * * *", "UTC", "2026-01-01T00:00:59.9Z", &["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]);
    check("* * * * *", "UTC", "2026-01-01T00:01:00Z", &["2026-01-01T00:02:00Z"]);
    check("*/20 5,6 * * *", "UTC", "2026-01-01T05:39:00Z", &["2026-01-01T05:40:00Z", "2026-01-01T06:00:00Z", "2026-01-01T06:20:00Z"]);
    check("59 23 31 DEC *", "UTC", "2026-12-31T23:59:00Z", &["2027-12-31T23:59:00Z"]);
    check("0 0 29 2 ?", "UTC", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    // The 13th, or a Friday.
    check("0 0 13 * FRI", "UTC", &day("01-08"), &[&day("01-09"), &day("01-13"), &day("01-16")]);
    // Any day of the month: Fridays. A step is no such star.
    check("0 0 * * FRI", "UTC", &day("01-08"), &[&day("01-09"), &day("01-16")]);
    check("0 0 */1 * FRI", "UTC", &day("01-08"), &[&day("01-09"), &day("01-16")]);
    check("0 0 */31 * FRI", "UTC", &day("01-08"), &[&day("01-09"), &day("01-16"), &day("01-23"), &day("01-30"), &day("02-01")]);
    check("@monthly", "UTC", &day("01-08"), &[&day("02-01"), &day("03-01")]);
    check("@weekly", "UTC", &day("01-08"), &[&day("01-11"), &day("01-18")]);
}

#[test]
fn an_interval_counts_from_the_last_time() {
    check("@every 1h30m", "Asia/Tokyo", "2026-01-01T00:10:20.7Z", &["2026-01-01T01:40:20Z", "2026-01-01T03:10:20Z"]);
    // Upstream rounds down to seconds, and waits for one at least.
    check("@every 1.9s", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:01Z"]);
    check("@every -5h", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:01Z"]);
    let schedule = parsed("@every 7s", "UTC");
    assert_eq!(schedule.last(at("2026-01-01T00:00:00Z"), at("2026-01-01T01:00:00.5Z")), Some(at("2026-01-01T00:59:58Z")));
    assert_eq!(schedule.last(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:06.9Z")), None);
}

#[test]
fn a_schedule_can_be_without_times() {
    for text in ["0 0 30 2 *", "59 23 31 2 *", ", * * * *", "* , * * *", "* * * , *", "* * , * *"] {
        let schedule = parsed(text, "UTC");
        let (after, until) = (at("2026-01-01T00:00:00Z"), at("2099-01-01T00:00:00Z"));
        assert_eq!((schedule.next(after), schedule.last(after, until)), (None, None), "{text}");
    }
}

/// The cases of upstream's library: New York skips 02:00 to 03:00 in March, and has 01:00 to 02:00 twice in November.
#[test]
fn a_skipped_hour_has_no_times_and_a_repeated_one_has_them_twice() {
    let zone = "America/New_York";
    let hourly = ["2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00", "2012-03-11T04:00:00-04:00"];
    check("0 * * * *", zone, "2012-03-11T00:00:00-05:00", &hourly);
    check("30 2 11 3 *", zone, "2012-03-11T00:00:00-05:00", &["2013-03-11T02:30:00-04:00"]);
    check("0 2 * * *", zone, "2012-03-11T00:00:00-05:00", &["2012-03-12T02:00:00-04:00"]);
    check("0 3 * * *", zone, "2012-03-11T00:00:00-05:00", &["2012-03-11T03:00:00-04:00"]);
    let hourly = ["2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00", "2012-11-04T02:00:00-05:00"];
    check("0 * * * *", zone, "2012-11-04T00:00:00-04:00", &hourly);
    let nightly = ["2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00", "2012-11-05T01:00:00-05:00"];
    check("0 1 * * *", zone, "2012-11-04T00:00:00-04:00", &nightly);
    check("45 1 4 11 *", zone, "2012-11-04T01:45:00-04:00", &["2012-11-04T01:45:00-05:00"]);
    check("30 2 4 11 *", zone, "2012-11-04T00:00:00-04:00", &["2012-11-04T02:30:00-05:00"]);
    // A zone in the schedule counts more.
    check("TZ=America/New_York 0 2 * * *", "Asia/Tokyo", "2012-03-11T00:00:00-05:00", &["2012-03-12T02:00:00-04:00"]);
}

/// São Paulo skipped midnight on 2018-11-04, and Samoa the whole 2011-12-30.
#[test]
fn a_skipped_midnight_or_day_does_not_stop_the_search() {
    check("0 9 10 * *", "America/Sao_Paulo", "2018-10-17T05:00:00-04:00", &["2018-11-10T06:00:00-05:00"]);
    check("0 9 22 * *", "America/Sao_Paulo", "2018-02-14T05:00:00-05:00", &["2018-02-22T07:00:00-05:00"]);
    check("0 9 31 12 *", "Pacific/Apia", "2011-12-28T00:00:00Z", &["2011-12-31T09:00:00+14:00"]);
    check("0 9 30 12 *", "Pacific/Apia", "2011-12-28T00:00:00Z", &["2012-12-30T09:00:00+14:00"]);
    check("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", &["2011-12-31T12:00:00+14:00"]);
}

/// Kwajalein had 1969-09-30 twice.
#[test]
fn the_last_time_is_found_in_a_repeated_day() {
    let (after, until) = (at("1969-09-29T16:00:00Z"), at("1969-10-01T12:00:00Z"));
    assert_eq!(parsed("0 11 * * *", "Pacific/Kwajalein").last(after, until), Some(at("1969-09-30T11:00:00-12:00")));
}

const SCHEDULES: [&str; 9] =
    ["* * * * *", "*/7 * * * *", "30 1 * * *", "30 2 * * *", "0 0 * * *", "* 1 1 * *", "15 6-16/4 * * 1-5", "0 0 13 * FRI", "@every 17m"];
/// Not Lord Howe, whose clock changes by half an hour: upstream's search can miss a time there on that day.
const ZONES: [&str; 5] = ["UTC", "America/New_York", "America/Sao_Paulo", "Europe/London", "Asia/Kathmandu"];

fn moment() -> impl Strategy<Value = Timestamp> {
    // 2008 to 2038, in milliseconds.
    (1_199_145_600_000_i64..2_145_916_800_000).prop_map(|milliseconds| Timestamp::from_millisecond(milliseconds).expect("in range"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// The last time is what a step from time to time finds.
    #[test]
    fn the_last_time_is_the_last_of_all(
        text in prop::sample::select(SCHEDULES.to_vec()), zone in prop::sample::select(ZONES.to_vec()), after in moment(), seconds in 0_i64..200_000,
    ) {
        let (schedule, until) = (parsed(text, zone), after + SignedDuration::from_secs(seconds));
        let times = std::iter::successors(schedule.next(after), |time| schedule.next(*time)).take_while(|time| *time <= until);
        prop_assert_eq!(schedule.last(after, until), times.last(), "{} {} {} {}", text, zone, after, until);
    }

    /// A time matches its fields, is later than the moment before it, and a later moment has no earlier time.
    #[test]
    fn the_next_time_is_later_and_no_later_moment_has_an_earlier_one(
        text in prop::sample::select(SCHEDULES[..8].to_vec()), zone in prop::sample::select(ZONES.to_vec()), after in moment(), seconds in 0_i64..100_000,
    ) {
        let schedule = parsed(text, zone);
        let next = schedule.next(after).expect("each of them has times");
        prop_assert!(after < next && next.as_second() % 60 == 0, "{} {} {}", text, zone, after);
        let later = after + SignedDuration::from_secs(seconds);
        let next_of_later = schedule.next(later).expect("each of them has times");
        prop_assert!(next <= next_of_later && (next <= later || next == next_of_later), "{} {} {} {}", text, zone, after, later);
    }
}
