//! The `Retry-After` header.

use crate::time::UnixMillis;

/// How long `Retry-After` asks to wait from `wall_now` on, in milliseconds, or none if it says nothing that can be
/// understood (RFC 9110 10.2.3).
///
/// Taken are seconds, with a fraction too as some servers send it, and the three forms of an HTTP date (RFC 9110
/// 5.6.7). A negative number and a date in the past mean now: 0. A number too large for milliseconds is as long as can
/// be. The caller limits the wait by the delivery's deadline.
pub fn parse_retry_after(value: &str, wall_now: UnixMillis) -> Option<u64> {
    let value = value.trim_matches([' ', '\t']);
    if let Some(delay) = seconds(value) {
        return Some(delay);
    }
    let at = http_date(value, wall_now)?;
    Some(u64::try_from(at.saturating_sub(wall_now)).unwrap_or(0))
}

/// `120`, `1.5`, `-3` in milliseconds; a fraction of a millisecond counts as a whole one.
fn seconds(value: &str) -> Option<u64> {
    let (negative, number) = match value.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, value),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    if negative {
        return Some(0);
    }
    let whole = whole.bytes().fold(0_u64, |n, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')));
    let milli = fraction.bytes().chain(*b"000").take(3).fold(0_u64, |n, b| n * 10 + u64::from(b - b'0'));
    let rest = fraction.bytes().skip(3).any(|b| b != b'0');
    Some(whole.saturating_mul(1_000).saturating_add(milli + u64::from(rest)))
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The mean year of the Gregorian calendar.
const YEAR_SECONDS: i64 = 31_556_952;

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// An HTTP date. The day's name has to be one but need not fit the date: the date decides.
fn http_date(value: &str, wall_now: UnixMillis) -> Option<UnixMillis> {
    // Sun, 06 Nov 1994 08:49:37 GMT | Sunday, 06-Nov-94 08:49:37 GMT | Sun Nov  6 08:49:37 1994
    let Some((day_name, rest)) = value.split_once(", ") else {
        return asctime(value);
    };
    let rest = rest.strip_suffix(" GMT")?;
    let (date, clock) = rest.rsplit_once(' ')?;
    if is_short_day(day_name) {
        let [day, month, year] = three(date, ' ')?;
        unix_millis(number(year, 4)?, month, number(day, 2)?, clock)
    } else if DAYS.contains(&day_name) {
        let [day, month, year] = three(date, '-')?;
        let (day, short) = (number(day, 2)?, number(year, 2)?);
        // RFC 9110 5.6.7: what seems to lie more than 50 years ahead means the past century.
        // The clock is kept to the years that a date here can name, so that nothing below overflows.
        let this_year = (1970 + wall_now.div_euclid(1_000).div_euclid(YEAR_SECONDS)).clamp(0, 9999);
        let century = this_year - this_year.rem_euclid(100);
        let latest = wall_now.saturating_add(50 * YEAR_SECONDS * 1_000);
        let at = |century: i64| unix_millis(century + short, month, day, clock);
        [century + 100, century].into_iter().filter_map(at).find(|at| *at <= latest).or_else(|| at(century - 100))
    } else {
        None
    }
}

fn asctime(value: &str) -> Option<UnixMillis> {
    let (day_name, rest) = value.split_once(' ')?;
    let (month, rest) = rest.split_once(' ')?;
    let (date, year) = rest.rsplit_once(' ')?;
    let (day, clock) = date.rsplit_once(' ')?;
    // The day is two characters wide, the first one a blank or a digit.
    let day = match day.strip_prefix(' ') {
        Some(day) => number(day, 1)?,
        None => number(day, 2)?,
    };
    if !is_short_day(day_name) {
        return None;
    }
    unix_millis(number(year, 4)?, month, day, clock)
}

fn is_short_day(name: &str) -> bool {
    name.len() == 3 && DAYS.iter().any(|day| day.starts_with(name))
}

fn three(text: &str, separator: char) -> Option<[&str; 3]> {
    let mut parts = text.split(separator);
    let found = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(found)
}

/// Exactly `digits` decimal digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    if text.len() == digits && all_digits(text) { text.parse().ok() } else { None }
}

fn unix_millis(year: i64, month: &str, day: i64, clock: &str) -> Option<UnixMillis> {
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let [hour, minute, second] = three(clock, ':')?;
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    // 60 is a leap second.
    if !(1..=days_in_month(year, month)).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = ((days_before(year, month) + day - 1) * 24 + hour) * 3_600 + minute * 60 + second;
    Some(seconds * 1_000)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first day of the month, for any year of the Gregorian calendar.
fn days_before(year: i64, month: i64) -> i64 {
    let past = year - 1;
    let leap_days = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    // 719,162 days lie between 0001-01-01 and 1970-01-01.
    let months: i64 = (1..month).map(|earlier| days_in_month(year, earlier)).sum();
    past * 365 + leap_days - 719_162 + months
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::rfc3339;

    /// 2026-11-30T12:00:00Z by `date -u -d 2026-11-30T12:00:00Z +%s`.
    const NOW: UnixMillis = 1_796_040_000_000;

    #[test]
    fn takes_seconds_in_every_shape() {
        for (value, want) in [
            ("0", 0),
            ("120", 120_000),
            (" 120\t", 120_000),
            ("007", 7_000),
            ("1.5", 1_500),
            ("0.0001", 1),
            ("2.1239", 2_124),
            ("2.1230", 2_123),
            ("-5", 0),
            ("-0.5", 0),
            ("99999999999999999999999999", u64::MAX),
            ("18446744073709551", 18_446_744_073_709_551_000),
        ] {
            assert_eq!(parse_retry_after(value, NOW), Some(want), "{value}");
        }
    }

    #[test]
    fn takes_the_three_forms_of_a_date() {
        for (value, want) in [
            ("Mon, 30 Nov 2026 12:02:00 GMT", 120_000),
            ("Monday, 30-Nov-26 12:02:00 GMT", 120_000),
            ("Mon Nov 30 12:02:00 2026", 120_000),
            ("Tue Dec  1 12:00:00 2026", 86_400_000),
            ("Tue, 01 Dec 2026 12:00:00 GMT", 86_400_000),
            // The name of the day does not have to fit.
            ("Sun, 30 Nov 2026 12:02:00 GMT", 120_000),
            ("Mon, 30 Nov 2026 12:00:60 GMT", 60_000),
            // RFC 9110's own examples, long past.
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
            ("Sun Nov  6 08:49:37 1994", 0),
            ("Mon, 30 Nov 2026 12:00:00 GMT", 0),
            ("Mon, 30 Nov 2026 11:59:59 GMT", 0),
        ] {
            assert_eq!(parse_retry_after(value, NOW), Some(want), "{value}");
        }
        // RFC 9110's examples are 784111777 s.
        let epoch = |value| http_date(value, NOW);
        for value in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(epoch(value), Some(784_111_777_000), "{value}");
        }
    }

    #[test]
    fn two_digit_years_stay_within_fifty_years() {
        let year = |value, now| http_date(value, now).map(|ms| rfc3339(ms)[..4].to_owned());
        for (value, want) in [
            ("Monday, 01-Jan-76 00:00:00 GMT", "2076"),
            ("Friday, 31-Dec-76 00:00:00 GMT", "1976"),
            ("Monday, 01-Jan-77 00:00:00 GMT", "1977"),
            ("Monday, 01-Jan-00 00:00:00 GMT", "2000"),
            ("Monday, 01-Jan-26 00:00:00 GMT", "2026"),
        ] {
            assert_eq!(year(value, NOW).as_deref(), Some(want), "{value}");
        }
        // In 2099, "05" is 2105.
        let in_2099 = 4_070_908_800_000;
        assert_eq!(year("Monday, 01-Jan-05 00:00:00 GMT", in_2099).as_deref(), Some("2105"));
        assert!(http_date("Monday, 01-Jan-05 00:00:00 GMT", i64::MIN).is_some());
        assert!(http_date("Monday, 01-Jan-05 00:00:00 GMT", i64::MAX).is_some());
    }

    #[test]
    fn garbage_says_nothing() {
        for value in [
            "",
            " ",
            "soon",
            "+5",
            "--5",
            "5s",
            "5,5",
            "1e3",
            ".5",
            "5.",
            "1.2.3",
            "0x10",
            "١٢",
            "NaN",
            "inf",
            "Mon, 30 Nov 2026 12:02:00",
            "Mon, 30 Nov 2026 12:02:00 UTC",
            "Mon, 30 Nov 2026 12:02:00 +0000",
            "mon, 30 nov 2026 12:02:00 gmt",
            "Mon, 30 Nov 26 12:02:00 GMT",
            "Mon, 31 Nov 2026 12:02:00 GMT",
            "Mon, 00 Nov 2026 12:02:00 GMT",
            "Sun, 29 Feb 2026 12:02:00 GMT",
            "Mon, 30 Nov 2026 24:00:00 GMT",
            "Mon, 30 Nov 2026 12:60:00 GMT",
            "Mon, 30 Nov 2026 12:02:61 GMT",
            "Mon, 30 Nov 2026 12:02 GMT",
            "Mon, 3 Nov 2026 12:02:00 GMT",
            "Xyz, 30 Nov 2026 12:02:00 GMT",
            "Mon, 30 Foo 2026 12:02:00 GMT",
            "Monday, 30 Nov 2026 12:02:00 GMT",
            "Mon, 30-Nov-26 12:02:00 GMT",
            "Mon Nov 1 12:02:00 2026",
            "2026-11-30T12:02:00Z",
        ] {
            assert_eq!(parse_retry_after(value, NOW), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(value: String, dateish in "[A-Za-z]{3,9},? [0-9 -]{1,3}[A-Z][a-z]{2}[ -][0-9]{2,4} [0-9:]{5,9} GMT", now: i64) {
            let _ = parse_retry_after(&value, now);
            let _ = parse_retry_after(&dateish, now);
        }

        /// Against the crate's own formatter, which goes the other way.
        #[test]
        fn dates_agree_with_the_calendar(seconds in -60_000_000_000_i64..250_000_000_000) {
            let text = rfc3339(seconds * 1_000);
            let (date, clock) = text.trim_end_matches(".000Z").split_once('T').unwrap();
            let [year, month, day] = three(date, '-').unwrap();
            let month = MONTHS[month.parse::<usize>().unwrap() - 1];
            prop_assert_eq!(http_date(&format!("Mon, {day} {month} {year} {clock} GMT"), 0), Some(seconds * 1_000));
        }
    }
}
