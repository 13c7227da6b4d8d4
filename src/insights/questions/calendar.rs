//! Days, hours, weeks and months in the time zone of a site, and the period before a range.
//!
//! The offsets are those of the snapshot. Dates are numbers of days since 1970-01-01.

use std::ops::Range;

use crate::visitors::events::time::{civil_from_days, days_from_civil, parse};

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600 * SECOND_MS;
const DAY_S: i64 = 86_400;
/// Most buckets of a series. A finer division of a long range is refused: nobody reads so many numbers.
pub const BUCKETS_MAX: usize = 10_000;

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its IANA name.
    pub name: String,
    /// Seconds since 1970 and the offset from UTC in seconds from then on, sorted. The first offset also applies
    /// before.
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

/// The ranges that a comparison counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The range up to the last full hour.
    pub range: Range<i64>,
    /// The period before, up to the corresponding hour.
    pub before: Range<i64>,
}

impl Zone {
    /// Returns UTC.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), offsets: vec![(0, 0)] }
    }

    /// Returns the local day of a time.
    pub fn day_of(&self, time_ms: i64) -> i64 {
        let time_s = time_ms.div_euclid(SECOND_MS);
        (time_s + self.offset_s(time_s)).div_euclid(DAY_S)
    }

    /// Returns the offset from UTC at a time.
    fn offset_s(&self, time_s: i64) -> i64 {
        let passed = self.offsets.partition_point(|(from_s, _)| *from_s <= time_s);
        self.offsets.get(passed.saturating_sub(1)).map_or(0, |(_, offset_s)| *offset_s)
    }

    /// Writes a time in ISO 8601 with the offset from UTC, such as `2026-01-05T00:00:00+01:00`.
    pub fn local_time(&self, time_s: i64) -> String {
        // An offset of ISO 8601 has whole minutes. The instant is the same without the seconds of an old offset.
        let offset_min = self.offset_s(time_s) / 60;
        let local_s = time_s + offset_min * 60;
        let (year, month, day) = civil_from_days(local_s.div_euclid(DAY_S));
        let in_day = local_s.rem_euclid(DAY_S);
        let (hour, minute, second) = (in_day / 3_600, in_day / 60 % 60, in_day % 60);
        let (sign, ahead) = (if offset_min < 0 { '-' } else { '+' }, offset_min.abs());
        let time = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        format!("{time}{sign}{:02}:{:02}", ahead / 60, ahead % 60)
    }

    /// Returns the first instant of a local day, in milliseconds.
    pub fn midnight(&self, day: i64) -> i64 {
        self.first_instant(day * DAY_S) * SECOND_MS
    }

    /// Returns the first second at which the local clock shows `local_s` or more.
    fn first_instant(&self, local_s: i64) -> i64 {
        let ends = self.offsets.iter().skip(1).map(|(from_s, _)| *from_s).chain([i64::MAX]);
        let starts = [i64::MIN].into_iter().chain(self.offsets.iter().skip(1).map(|(from_s, _)| *from_s));
        let mut spans = starts.zip(ends).zip(&self.offsets);
        let found = spans.find_map(|((start, end), (_, offset_s))| {
            let second = (local_s - offset_s).max(start);
            (second < end).then_some(second)
        });
        found.unwrap_or(local_s)
    }

    /// Parses a date or a time. Without an offset it is in this time zone.
    pub fn parse(&self, text: &str) -> Option<i64> {
        let time_ms = parse(text)?;
        let after_date = text.find(['T', 't', ' ']).map_or("", |at| &text[at + 1..]);
        if after_date.contains(['Z', 'z', '+', '-']) {
            return Some(time_ms);
        }
        let local_s = time_ms.div_euclid(SECOND_MS);
        Some(self.first_instant(local_s) * SECOND_MS + time_ms.rem_euclid(SECOND_MS))
    }

    /// Returns the 30 local days that end with the day of `now_ms`.
    pub fn last_days(&self, now_ms: i64, days: i64) -> Range<i64> {
        let today = self.day_of(now_ms);
        self.midnight(today + 1 - days)..self.midnight(today + 1)
    }

    /// Returns the first instants of the buckets that meet the range. Returns `None` if there are more than
    /// [`BUCKETS_MAX`].
    pub fn buckets(&self, range: &Range<i64>, unit: Unit) -> Option<Vec<i64>> {
        let mut buckets = Vec::new();
        let mut day = first_day(self.day_of(range.start), unit);
        while self.midnight(day) < range.end {
            let next_day = next_day(day, unit);
            let (start, end) = (self.midnight(day), self.midnight(next_day));
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

    /// Returns the range of a comparison and the period before it.
    pub fn comparison(&self, range: &Range<i64>, now_ms: i64) -> Comparison {
        let (first, end) = (self.day_of(range.start), self.day_of(range.end));
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

/// Adds the buckets of `step_ms` in a day that meet the range.
fn push_steps(buckets: &mut Vec<i64>, day: Range<i64>, step_ms: i64, range: &Range<i64>) {
    let mut start = day.start;
    while start < day.end {
        let end = (start + step_ms).min(day.end);
        if start < range.end && end > range.start {
            buckets.push(start);
        }
        start = end;
    }
}

/// Returns the first day of the unit that contains `day`.
fn first_day(day: i64, unit: Unit) -> i64 {
    match unit {
        // 1970-01-01 was a Thursday.
        Unit::Week => day - (day + 3).rem_euclid(7),
        Unit::Month => {
            let (year, month, _) = civil_from_days(day);
            days_from_civil(year, month, 1)
        }
        Unit::Minute | Unit::Hour | Unit::Day => day,
    }
}

/// Returns the first day of the next unit. `day` is a first day.
fn next_day(day: i64, unit: Unit) -> i64 {
    match unit {
        Unit::Week => day + 7,
        Unit::Month => {
            let (year, month, _) = civil_from_days(day);
            if month == 12 { days_from_civil(year + 1, 1, 1) } else { days_from_civil(year, month + 1, 1) }
        }
        Unit::Minute | Unit::Hour | Unit::Day => day + 1,
    }
}
