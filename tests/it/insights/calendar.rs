//! Hours, days, weeks and months in time zones.

use parallax::testing::events::time::{parse, write};
use parallax::testing::insights::{BUCKETS_MAX, Unit, Zone};

fn ms(text: &str) -> i64 {
    parse(text).expect("a time")
}

fn texts(times: &[i64]) -> Vec<String> {
    let text = |time: &i64| {
        let mut out = Vec::new();
        write(&mut out, *time);
        String::from_utf8(out).expect("ASCII").trim_end_matches(":00.000Z").to_owned()
    };
    times.iter().map(text).collect()
}

/// Returns a zone with these changes of its offset in minutes.
fn zone(first: i64, changes: &[(&str, i64)]) -> Zone {
    let changes = changes.iter().map(|(from, minutes)| (ms(from) / 1000, minutes * 60));
    Zone { name: "X".to_owned(), offsets: std::iter::once((0, first * 60)).chain(changes).collect() }
}

fn berlin() -> Zone {
    zone(60, &[("2026-03-29T01:00Z", 120), ("2026-10-25T01:00Z", 60)])
}

/// In Havana, the clock goes from 01:00 back to 00:00, so there are two midnights.
fn havana() -> Zone {
    zone(-300, &[("2026-03-08T05:00Z", -240), ("2026-11-01T05:00Z", -300)])
}

#[test]
fn a_day_of_a_clock_change_has_23_or_25_hours() {
    let hours = |from: &str, to: &str| {
        let range = berlin().parse(from).expect("a date")..berlin().parse(to).expect("a date");
        berlin().buckets(&range, Unit::Hour).expect("few buckets")
    };
    let spring = hours("2026-03-29", "2026-03-30");
    assert_eq!(spring.len(), 23);
    assert_eq!(texts(&spring[..2]), ["2026-03-28T23:00", "2026-03-29T00:00"]);
    assert_eq!(hours("2026-10-25", "2026-10-26").len(), 25);
    assert_eq!(hours("2026-10-24", "2026-10-25").len(), 24);
}

#[test]
fn a_day_begins_at_the_first_of_two_midnights() {
    let range = havana().parse("2026-11-01").expect("a date")..havana().parse("2026-11-03").expect("a date");
    let days = havana().buckets(&range, Unit::Day).expect("few buckets");
    assert_eq!(texts(&days), ["2026-11-01T04:00", "2026-11-02T05:00"]);
    // In spring there is no midnight: the day begins at 01:00.
    assert_eq!(texts(&[havana().parse("2026-03-08").expect("a date")]), ["2026-03-08T05:00"]);
}

#[test]
fn a_local_time_has_the_offset_of_its_time() {
    let local = |zone: &Zone, text: &str| zone.local_time(ms(text) / 1000);
    assert_eq!(local(&berlin(), "2026-03-29T00:59:59Z"), "2026-03-29T01:59:59+01:00");
    assert_eq!(local(&berlin(), "2026-03-29T01:00:00Z"), "2026-03-29T03:00:00+02:00");
    assert_eq!(local(&havana(), "2026-11-01T05:00:00Z"), "2026-11-01T00:00:00-05:00");
    assert_eq!(local(&zone(345, &[]), "2026-01-01T00:00:00Z"), "2026-01-01T05:45:00+05:45");
    assert_eq!(local(&zone(-30, &[]), "1969-12-31T23:59:59Z"), "1969-12-31T23:29:59-00:30");
    // Before 1972, the offset of Monrovia was -00:44:30.
    let monrovia = Zone { name: "Africa/Monrovia".to_owned(), offsets: vec![(0, -2_670)] };
    assert_eq!(local(&monrovia, "1971-01-01T00:00:00Z"), "1970-12-31T23:16:00-00:44");
}

#[test]
fn offsets_of_half_an_hour_work() {
    // Lord Howe changes its clock by half an hour.
    let zone = zone(660, &[("2026-04-04T15:00Z", 630)]);
    let range = zone.parse("2026-04-05").expect("a date")..zone.parse("2026-04-06").expect("a date");
    let hours = zone.buckets(&range, Unit::Hour).expect("few buckets");
    assert_eq!(hours.len(), 25);
    assert_eq!(texts(&hours[..1]), ["2026-04-04T13:00"]);
    assert_eq!(texts(&hours[24..]), ["2026-04-05T13:00"]);
}

#[test]
fn weeks_begin_on_monday_and_months_on_the_first() {
    let range = berlin().parse("2026-03-25").expect("a date")..berlin().parse("2026-04-08").expect("a date");
    let weeks = berlin().buckets(&range, Unit::Week).expect("few buckets");
    assert_eq!(texts(&weeks), ["2026-03-22T23:00", "2026-03-29T22:00", "2026-04-05T22:00"]);
    let months = berlin().buckets(&range, Unit::Month).expect("few buckets");
    assert_eq!(texts(&months), ["2026-02-28T23:00", "2026-03-31T22:00"]);
    let range = ms("2025-12-31T22:00Z")..ms("2026-01-01T00:00Z");
    assert_eq!(
        texts(&berlin().buckets(&range, Unit::Month).expect("few")),
        ["2025-11-30T23:00", "2025-12-31T23:00"]
    );
}

#[test]
fn a_time_without_an_offset_is_local() {
    for (text, expected) in [
        ("2026-07-01", "2026-06-30T22:00"),
        ("2026-07-01T10:30", "2026-07-01T08:30"),
        ("2026-07-01T10:30Z", "2026-07-01T10:30"),
        ("2026-07-01T10:30+05:30", "2026-07-01T05:00"),
        ("2026-07-01 10:30-01", "2026-07-01T11:30"),
        // The clock skips 02:30 in spring, and shows it twice in autumn.
        ("2026-03-29T02:30", "2026-03-29T01:00"),
        ("2026-10-25T02:30", "2026-10-25T00:30"),
    ] {
        assert_eq!(texts(&[berlin().parse(text).expect("a time")]), [expected], "{text}");
    }
    assert_eq!(berlin().parse("yesterday"), None);
}

/// Returns the begin and the end of both ranges of a comparison.
fn compared(zone: &Zone, from: &str, to: &str, now: &str) -> Vec<String> {
    let range = zone.parse(from).expect("a time")..zone.parse(to).expect("a time");
    let comparison = zone.comparison(&range, ms(now));
    texts(&[comparison.range.start, comparison.range.end, comparison.before.start, comparison.before.end])
}

#[test]
fn the_period_before_has_as_many_local_days() {
    let past = compared(&berlin(), "2026-03-30", "2026-04-01", "2026-07-01T00:00Z");
    // The clock change is in the period before, which has 47 hours.
    assert_eq!(past, ["2026-03-29T22:00", "2026-03-31T22:00", "2026-03-27T23:00", "2026-03-29T22:00"]);
    let hours = compared(&berlin(), "2026-03-29T12:00", "2026-03-29T18:00", "2026-07-01T00:00Z");
    assert_eq!(hours, ["2026-03-29T10:00", "2026-03-29T16:00", "2026-03-29T04:00", "2026-03-29T10:00"]);
}

#[test]
fn a_running_range_is_cut_at_its_last_full_hour_and_the_period_before_at_the_same_one() {
    let running = compared(&berlin(), "2026-05-05", "2026-05-07", "2026-05-06T12:40Z");
    assert_eq!(running, ["2026-05-04T22:00", "2026-05-06T12:00", "2026-05-02T22:00", "2026-05-04T12:00"]);
    // 23.5 hours after midnight on a day of 25 hours. The day before has 24.
    let autumn = compared(&berlin(), "2026-10-25", "2026-10-26", "2026-10-25T22:30Z");
    assert_eq!(autumn, ["2026-10-24T22:00", "2026-10-25T22:00", "2026-10-23T22:00", "2026-10-24T22:00"]);
    // A range that has not begun has nothing to compare.
    let future = compared(&berlin(), "2026-06-01", "2026-06-03", "2026-05-06T12:40Z");
    assert_eq!(future, ["2026-05-31T22:00", "2026-05-31T22:00", "2026-05-29T22:00", "2026-05-29T22:00"]);
}

#[test]
fn a_series_has_at_most_10000_buckets() {
    let hours = |count: usize| {
        let start = ms("2026-01-05");
        Zone::utc()
            .buckets(&(start..start + count as i64 * 3_600_000), Unit::Hour)
            .map(|buckets| buckets.len())
    };
    assert_eq!(hours(BUCKETS_MAX - 1), Some(BUCKETS_MAX - 1));
    assert_eq!(hours(BUCKETS_MAX), Some(BUCKETS_MAX));
    assert_eq!(hours(BUCKETS_MAX + 1), None);
    assert_eq!(Zone::utc().buckets(&(ms("0001-01-01")..ms("9999-01-01")), Unit::Hour), None);
}
