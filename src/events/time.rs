//! Parsing and formatting of times, and correction of client clock skew.
//!
//! Times are Unix milliseconds in UTC (proleptic Gregorian calendar). They are limited to the years 0 to
//! 9999, because RFC 3339 has four digits for the year.

use jiff::SignedDuration;
use jiff::civil::{Date, date};

use super::document::Value;
use crate::record::fold_input::ClientTimes;

/// 0000-01-01T00:00:00.000Z.
pub const TIME_MS_MIN: i64 = -62_167_219_200_000;
/// 2000-01-01T00:00:00.000Z. An event with an earlier time comes from a client without a clock.
pub const EVENT_TIME_MS_MIN: i64 = 946_684_800_000;
/// Numbers below this are seconds since 1970, others milliseconds. As seconds it is the year 5138, as milliseconds
/// 1973.
pub const SECONDS_END: i64 = 100_000_000_000;
/// 9999-12-31T23:59:59.999Z.
pub const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// Difference between `sentAt` and the receipt, in milliseconds, up to which the client's clock counts as right: 2
/// minutes. A shorter one may be time on the network. Beyond it the clock is wrong, and the event's time is corrected.
pub const CLOCK_SKEW_MS_MAX: i64 = 2 * MINUTE_MS;

const EPOCH: Date = date(1970, 1, 1);
const DAY_MS: i64 = 24 * HOUR_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const SECOND_MS: i64 = 1_000;

/// The `expected` phrase for an invalid time.
pub(super) const EXPECTED: &str = "a time from the year 2000 on, in ISO 8601, such as '2026-01-05T10:00:00.000Z', or in \
                                   seconds or milliseconds since 1970";

/// Reads the time of an event in ISO 8601, or as a number of seconds or milliseconds since 1970.
pub(super) fn read(value: Value<'_>) -> Option<i64> {
    let time = match value.as_str() {
        Some(text) => parse(text)?,
        None => read_number(value.as_text().filter(|_| value.is_number())?)?,
    };
    (EVENT_TIME_MS_MIN..=TIME_MS_MAX).contains(&time).then_some(time)
}

/// Returns the whole milliseconds of a number of seconds or milliseconds.
fn read_number(text: &str) -> Option<i64> {
    match text.parse::<i64>() {
        Ok(number) if number < SECONDS_END => number.checked_mul(SECOND_MS),
        Ok(number) => Some(number),
        Err(_) => {
            let number: f64 = text.parse().ok()?;
            let time = if number < SECONDS_END as f64 { number * SECOND_MS as f64 } else { number };
            // From 2^53 on, adjacent floats are more than a millisecond apart. That is far beyond the year 9999.
            (time.abs() < 2f64.powi(53)).then_some(time.floor() as i64)
        }
    }
}

/// Returns the time of an event by the server's clock. The skew of the client's clock is the time from sending to
/// receipt. A skew of at most [`CLOCK_SKEW_MS_MAX`] is time on the network, and a client that sends no time has no known
/// skew. The result is never later than `received_ms`.
pub fn correct_clock_skew(times: ClientTimes, received_ms: i64) -> i64 {
    let Some(timestamp_ms) = times.timestamp_ms else { return received_ms };
    let skew_ms = times.sent_ms.map_or(0, |sent_ms| received_ms - sent_ms);
    let skew_ms = if skew_ms.abs() > CLOCK_SKEW_MS_MAX { skew_ms } else { 0 };
    (timestamp_ms + skew_ms).min(received_ms).max(TIME_MS_MIN)
}

/// Parses an ISO 8601 time: `2026-01-05`, `2026-01-05T10:00`, `...:00`, `...:00.123456`.
///
/// An offset may follow the time: `Z`, `+02:00`, `+0200` or `+02`. Without one the time is UTC. As in some
/// libraries, months and days may lack the leading zero, and a space may replace the `T`. Digits below a
/// millisecond are cut off. Second 60, a leap second, becomes the first second of the next minute.
pub fn parse(text: &str) -> Option<i64> {
    parse_usual(text.as_bytes()).or_else(|| parse_any(text.as_bytes()))
}

/// Parses an instant of RFC 3339: a date, `T`, a time with seconds, and `Z` or an offset such as `+01:00`.
pub(crate) fn parse_instant(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let has_time = matches!(bytes.get(10), Some(b'T' | b't')) && bytes.get(16) == Some(&b':');
    let has_offset = matches!(bytes, [.., b'Z' | b'z'] | [.., b'+' | b'-', _, _, b':', _, _]);
    // ISO 8601 allows a comma before the fraction, RFC 3339 does not.
    if has_time && has_offset && !bytes.contains(&b',') { parse(text) } else { None }
}

/// Parses a time in the format of JavaScript's `toISOString`: "2026-01-05T10:00:00.000Z". Most clients send
/// it, and with all digits at fixed places it takes a quarter of the instructions. Its result must be that of
/// [`parse_any`], which reads all other texts.
fn parse_usual(text: &[u8]) -> Option<i64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let [_, _, _, _, b'-', _, _, b'-', _, _, b'T', _, _, b':', _, _, b':', _, _, b'.', _, _, _, b'Z'] = text
    else {
        return None;
    };
    let mut largest_digit = 0;
    let mut digit = |index: usize| {
        let digit = text[index].wrapping_sub(b'0');
        largest_digit = largest_digit.max(digit);
        i64::from(digit)
    };
    let mut two = |place| 10 * digit(place) + digit(place + 1);
    let year = 100 * two(0) + two(2);
    let month = two(5);
    let day = two(8);
    let hour = two(11);
    let minute = two(14);
    let second = two(17);
    let milliseconds = 10 * two(20) + digit(22);
    if largest_digit > 9 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let in_day = hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + milliseconds;
    Some(midnight_ms(year, month, day)? + in_day).filter(|time| *time <= TIME_MS_MAX)
}

/// Parses a time in any of the formats.
fn parse_any(mut text: &[u8]) -> Option<i64> {
    let year = two_digits(&mut text)? * 100 + two_digits(&mut text)?;
    eat(&mut text, b"-")?;
    let month = one_or_two_digits(&mut text)?;
    eat(&mut text, b"-")?;
    let day = one_or_two_digits(&mut text)?;
    let midnight = midnight_ms(year, month, day)?;
    let time = match text {
        [] => 0,
        _ => {
            eat(&mut text, b"Tt ")?;
            time_of_day_ms(&mut text)? - utc_offset_ms(&mut text)?
        }
    };
    let time = midnight + time;
    (text.is_empty() && (TIME_MS_MIN..=TIME_MS_MAX).contains(&time)).then_some(time)
}

fn time_of_day_ms(text: &mut &[u8]) -> Option<i64> {
    let hour = two_digits(text).filter(|hour| *hour < 24)?;
    eat(text, b":")?;
    let minute = two_digits(text).filter(|minute| *minute < 60)?;
    let second = match eat(text, b":") {
        Some(()) => two_digits(text).filter(|second| *second <= 60)? * SECOND_MS + fraction_ms(text)?,
        None => 0,
    };
    Some(hour * HOUR_MS + minute * MINUTE_MS + second)
}

/// Parses an optional fraction of a second and returns its milliseconds.
fn fraction_ms(text: &mut &[u8]) -> Option<i64> {
    if eat(text, b".,").is_none() {
        return Some(0);
    }
    let mut milliseconds = 0;
    let mut worth = 100;
    let digits = *text;
    while let [digit @ b'0'..=b'9', tail @ ..] = *text {
        milliseconds += digit_value(*digit) * worth;
        worth /= 10;
        *text = tail;
    }
    (text.len() < digits.len()).then_some(milliseconds)
}

/// Parses the offset from UTC and returns its milliseconds. It is positive east of Greenwich.
fn utc_offset_ms(text: &mut &[u8]) -> Option<i64> {
    if text.is_empty() || eat(text, b"Zz").is_some() {
        return Some(0);
    }
    let sign = if eat(text, b"+").is_some() { 1 } else { -1 };
    if sign < 0 {
        eat(text, b"-")?;
    }
    let hours = two_digits(text).filter(|hours| *hours < 24)?;
    let has_minutes = eat(text, b":").is_some() || !text.is_empty();
    let minutes = if has_minutes { two_digits(text).filter(|minutes| *minutes < 60)? } else { 0 };
    Some(sign * (hours * HOUR_MS + minutes * MINUTE_MS))
}

fn two_digits(text: &mut &[u8]) -> Option<i64> {
    let [tens @ b'0'..=b'9', ones @ b'0'..=b'9', tail @ ..] = *text else { return None };
    *text = tail;
    Some(digit_value(*tens) * 10 + digit_value(*ones))
}

fn one_or_two_digits(text: &mut &[u8]) -> Option<i64> {
    two_digits(text).or_else(|| {
        let (digit, tail) = text.split_first().filter(|(digit, _)| digit.is_ascii_digit())?;
        *text = tail;
        Some(digit_value(*digit))
    })
}

fn digit_value(digit: u8) -> i64 {
    i64::from(digit - b'0')
}

/// Consumes the next byte if it is one of `bytes`.
fn eat(text: &mut &[u8], bytes: &[u8]) -> Option<()> {
    let (first, tail) = text.split_first()?;
    bytes.contains(first).then(|| *text = tail)
}

/// Returns the time at which a day of at most four, two and two digits begins. `None` if the calendar has no such day.
fn midnight_ms(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = Date::new(year as i16, month as i8, day as i8).ok()?;
    Some(date.duration_since(EPOCH).as_secs() * SECOND_MS)
}

/// Returns a time as [`write()`] writes it.
pub(crate) fn to_text(time_ms: i64) -> String {
    let mut text = Vec::new();
    write(&mut text, time_ms);
    String::from_utf8(text).unwrap_or_default()
}

/// Appends a time in the format of RFC 3339, in UTC with milliseconds: "2026-01-05T10:00:00.000Z". Times
/// outside of `TIME_MS_MIN..=TIME_MS_MAX` are clamped.
pub fn write(out: &mut Vec<u8>, time_ms: i64) {
    let time_ms = time_ms.clamp(TIME_MS_MIN, TIME_MS_MAX);
    let day = EPOCH.saturating_add(SignedDuration::from_hours(24 * time_ms.div_euclid(DAY_MS)));
    let in_day = time_ms.rem_euclid(DAY_MS);
    for (value, digits, separator) in [
        (day.year().into(), 4, b'-'),
        (day.month().into(), 2, b'-'),
        (day.day().into(), 2, b'T'),
        (in_day / HOUR_MS, 2, b':'),
        (in_day / MINUTE_MS % 60, 2, b':'),
        (in_day / SECOND_MS % 60, 2, b'.'),
        (in_day % SECOND_MS, 3, b'Z'),
    ] {
        let digit = |place: u32| b'0' + (value / 10i64.pow(place) % 10) as u8;
        out.extend((0..digits).rev().map(digit));
        out.push(separator);
    }
}
