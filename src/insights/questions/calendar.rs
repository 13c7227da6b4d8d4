//! Days, hours, weeks and months in the time zone of a site. Also computes the period before a range.
//!
//! The snapshot of the site has the offsets of the time zone. In this code, a day is a number: the count of days
//! since 1970-01-01.

use std::ops::Range;

use jiff::SignedDuration;
use jiff::civil::DateTime;

use crate::events::time::parse;

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600 * SECOND_MS;
const DAY_S: i64 = 86_400;
/// The maximum number of buckets in a series. A question with more buckets is refused, because nobody reads so many
/// numbers.
pub const BUCKETS_MAX: usize = 10_000;

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The IANA name.
    pub name: String,
    /// Each entry has two numbers: a time in seconds since 1970, and the offset from UTC in seconds that applies from
    /// that time on. The entries are in the order of their times. The first offset also applies before its time.
    pub offsets: Vec<(i64, i64)>,
}

/// The length of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
}

/// The two ranges of a comparison. Their bounds are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The range of the question. If it ends in the future, it is cut at the last full hour.
    pub range: Range<i64>,
    /// The earlier period that is compared with `range`. Without a cut, it ends where the range of the question begins. If
    /// that range has whole days, both have the same number of local days, else the same length. If `range` is cut, the
    /// period is cut at the same time of day, or at the same length.
    pub before: Range<i64>,
}

impl Zone {
    /// Returns the time zone UTC.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), offsets: vec![(0, 0)] }
    }

    /// Returns the local day that contains the time `time_ms`.
    pub fn day_of(&self, time_ms: i64) -> i64 {
        let time_s = time_ms.div_euclid(SECOND_MS);
        (time_s + self.offset_s(time_s)).div_euclid(DAY_S)
    }

    /// Returns the offset from UTC, in seconds, at the time `time_s`.
    fn offset_s(&self, time_s: i64) -> i64 {
        let passed = self.offsets.partition_point(|(from_s, _)| *from_s <= time_s);
        self.offsets.get(passed.saturating_sub(1)).map_or(0, |(_, offset_s)| *offset_s)
    }

    /// Writes a time in ISO 8601 with the offset from UTC, such as `2026-01-05T00:00:00+01:00`.
    pub fn local_time(&self, time_s: i64) -> String {
        // An offset in ISO 8601 has no seconds. Some historical offsets have seconds. The text drops these seconds from
        // the offset and from the local time, so it names the same instant.
        let offset_min = self.offset_s(time_s) / 60;
        let time = civil(time_s + offset_min * 60);
        let sign = if offset_min < 0 { '-' } else { '+' };
        format!("{time}{sign}{:02}:{:02}", offset_min.abs() / 60, offset_min.abs() % 60)
    }

    /// Returns the first instant of a local day, in milliseconds.
    pub fn midnight(&self, day: i64) -> i64 {
        self.first_instant(day * DAY_S) * SECOND_MS
    }

    /// Returns the first second at which the local clock shows `local_s` or later.
    fn first_instant(&self, local_s: i64) -> i64 {
        let ends = self.offsets.iter().skip(1).map(|(from_s, _)| *from_s).chain([i64::MAX]);
        let starts = [i64::MIN].into_iter().chain(self.offsets.iter().skip(1).map(|(from_s, _)| *from_s));
        let mut spans = starts.zip(ends).zip(&self.offsets);
        let second = spans.find_map(|((start, end), (_, offset_s))| {
            let second = (local_s - offset_s).max(start);
            (second < end).then_some(second)
        });
        second.unwrap_or(local_s)
    }

    /// Parses a date or a time. If the text has no offset, it is a local time of this time zone. Returns milliseconds
    /// since 1970.
    pub fn parse(&self, text: &str) -> Option<i64> {
        let time_ms = parse(text)?;
        let after_date = text.find(['T', 't', ' ']).map_or("", |at| &text[at + 1..]);
        if after_date.contains(['Z', 'z', '+', '-']) {
            return Some(time_ms);
        }
        let local_s = time_ms.div_euclid(SECOND_MS);
        Some(self.first_instant(local_s) * SECOND_MS + time_ms.rem_euclid(SECOND_MS))
    }

    /// Returns the range of the last `day_count` local days, in milliseconds. It ends with the day of `now_ms`.
    pub fn last_days(&self, now_ms: i64, day_count: i64) -> Range<i64> {
        let today = self.day_of(now_ms);
        self.midnight(today + 1 - day_count)..self.midnight(today + 1)
    }

    /// Finds the buckets that overlap the range, and returns the start of each bucket in milliseconds. Returns `None`
    /// if there are more than [`BUCKETS_MAX`].
    pub fn buckets(&self, range: &Range<i64>, unit: Unit) -> Option<Vec<i64>> {
        let mut buckets = Vec::new();
        let mut day = first_day(self.day_of(range.start), unit);
        while self.midnight(day) < range.end {
            let next_day = next_day(day, unit);
            let start = self.midnight(day);
            let end = self.midnight(next_day);
            match unit {
                Unit::Hour => push_steps(&mut buckets, start..end, HOUR_MS, range),
                Unit::Minute => push_steps(&mut buckets, start..end, HOUR_MS / 60, range),
                _ if start < end => buckets.push(start),
                _ => {}
            }
            if buckets.len() > BUCKETS_MAX {
                return None;
            }
            day = next_day;
        }
        Some(buckets)
    }

    /// Returns the two ranges of a comparison: the range of the question and an earlier period.
    pub fn comparison(&self, range: &Range<i64>, now_ms: i64) -> Comparison {
        let first = self.day_of(range.start);
        let end = self.day_of(range.end);
        let is_whole = self.midnight(first) == range.start && self.midnight(end) == range.end;
        let before_start =
            if is_whole { self.midnight(2 * first - end) } else { 2 * range.start - range.end };
        let before = before_start..range.start;
        if range.end <= now_ms {
            return Comparison { range: range.clone(), before };
        }
        let today = self.day_of(now_ms);
        let since_midnight = (now_ms - self.midnight(today)) / HOUR_MS * HOUR_MS;
        let cut = (self.midnight(today) + since_midnight).clamp(range.start, range.end);
        let before_cut = if is_whole && cut > range.start {
            let day = today - (end - first);
            (self.midnight(day) + since_midnight).min(self.midnight(day + 1))
        } else {
            before.start + (cut - range.start)
        };
        let before_cut = before_cut.clamp(before.start, before.end);
        Comparison { range: range.start..cut, before: before.start..before_cut }
    }
}

/// Divides one day into buckets of `step_ms` milliseconds, and adds each bucket that overlaps the range.
fn push_steps(bucket_starts_ms: &mut Vec<i64>, day_ms: Range<i64>, step_ms: i64, range: &Range<i64>) {
    let mut start = day_ms.start;
    while start < day_ms.end {
        let end = (start + step_ms).min(day_ms.end);
        if start < range.end && end > range.start {
            bucket_starts_ms.push(start);
        }
        start = end;
    }
}

/// Returns the first day of the week or month that contains `day`. For a shorter unit, returns `day`.
fn first_day(day: i64, unit: Unit) -> i64 {
    match unit {
        // 1970-01-01 was a Thursday.
        Unit::Week => day - (day + 3).rem_euclid(7),
        Unit::Month => day + 1 - i64::from(civil(day * DAY_S).day()),
        Unit::Minute | Unit::Hour | Unit::Day => day,
    }
}

/// Returns the first day of the next week or month, or the next day for a shorter unit. `day` is the first day of a
/// week or month.
fn next_day(day: i64, unit: Unit) -> i64 {
    match unit {
        Unit::Week => day + 7,
        Unit::Month => day + i64::from(civil(day * DAY_S).date().days_in_month()),
        Unit::Minute | Unit::Hour | Unit::Day => day + 1,
    }
}

/// Converts the seconds of a local clock since 1970 to a date and a time. The latest result is the end of the year 9999.
fn civil(local_s: i64) -> DateTime {
    DateTime::constant(1970, 1, 1, 0, 0, 0, 0).saturating_add(SignedDuration::from_secs(local_s))
}
