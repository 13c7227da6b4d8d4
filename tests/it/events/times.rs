//! The formats of times, and the correction of wrong clocks.

use parallax::testing::events::time::{
    self, CLOCK_SKEW_MS_MAX, EVENT_TIME_MS_MIN, SECONDS_END, TIME_MS_MAX, TIME_MS_MIN,
};
use parallax::testing::record::ClientTimes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NOW_MS, post, track};

fn written(time_ms: i64) -> String {
    let mut out = Vec::new();
    time::write(&mut out, time_ms);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn the_time_formats_of_client_libraries_are_parsed() {
    for (text, time) in [
        ("2012-12-02T00:30:08.276Z", "2012-12-02T00:30:08.276Z"),
        ("2015-2-02T00:30:12.984Z", "2015-02-02T00:30:12.984Z"),
        ("2015-12-2", "2015-12-02T00:00:00.000Z"),
        ("2026-01-05", "2026-01-05T00:00:00.000Z"),
        ("2026-01-05T10:00", "2026-01-05T10:00:00.000Z"),
        ("2026-01-05 10:00:01", "2026-01-05T10:00:01.000Z"),
        ("2026-01-05t10:00:01z", "2026-01-05T10:00:01.000Z"),
        ("2026-01-05T10:00:01.5", "2026-01-05T10:00:01.500Z"),
        ("2026-01-05T10:00:01,123456789Z", "2026-01-05T10:00:01.123Z"),
        ("2026-01-05T10:00:00+02:00", "2026-01-05T08:00:00.000Z"),
        ("2026-01-05T10:00:00-0530", "2026-01-05T15:30:00.000Z"),
        ("2026-01-05T00:30:00+01", "2026-01-04T23:30:00.000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
        ("2024-02-29", "2024-02-29T00:00:00.000Z"),
        ("2000-02-29", "2000-02-29T00:00:00.000Z"),
        ("0000-01-01", "0000-01-01T00:00:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(time::parse(text).map(written).as_deref(), Some(time), "{text}");
    }
    assert_eq!(time::parse("2026-01-05T10:00:00Z"), Some(NOW_MS));
}

#[test]
fn texts_that_are_no_times_are_refused() {
    for text in [
        "now",
        "2026",
        "2026-01",
        "2026-1-",
        "20260105",
        "2026-00-01",
        "2026-13-01",
        "2026-02-29",
        "1900-02-29",
        "2026-04-31",
        "2026-01-32",
        "2026-01-00",
        "2026-01-05T",
        "2026-01-05T24:00",
        "2026-01-05T10",
        "2026-01-05T10:60",
        "2026-01-05T10:00:61",
        "2026-01-05T10:00:00.",
        "2026-01-05T10:00:00+",
        "2026-01-05T10:00:00+24:00",
        "2026-01-05T10:00:00+02:60",
        "2026-01-05T10:00:00+02:",
        "2026-01-05T10:00:00Z ",
        " 2026-01-05",
        "2026-01-05T10:00:00ZZ",
        "+002026-01-05",
        "-2026-01-05",
        "26-01-05",
        "2026/01/05",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-01-05T10:00:00 UTC",
        "1767607200000",
    ] {
        assert_eq!(time::parse(text), None, "{text}");
    }
}

#[test]
fn a_number_is_a_time_in_seconds_or_milliseconds() {
    let time = |number: &str| {
        let body = format!("{{\"anonId\":\"v\",\"event\":\"e\",\"timestamp\":{number}}}");
        let outcome = post("/v1/track", body);
        let results = outcome.results.as_ref().expect("the body is valid");
        results
            .problem()
            .is_none()
            .then(|| outcome.record()["timestamp"].as_str().expect("a time").to_owned())
    };
    assert_eq!(time("1355409008276").as_deref(), Some("2012-12-13T14:30:08.276Z"));
    assert_eq!(time("1355409008276.9").as_deref(), Some("2012-12-13T14:30:08.276Z"));
    assert_eq!(time("1.355409008276e12").as_deref(), Some("2012-12-13T14:30:08.276Z"));
    assert_eq!(time("1355409008").as_deref(), Some("2012-12-13T14:30:08.000Z"));
    assert_eq!(time("1355409008.2769").as_deref(), Some("2012-12-13T14:30:08.276Z"));
    assert_eq!(time("1.355409008e9").as_deref(), Some("2012-12-13T14:30:08.000Z"));
    assert_eq!(time(&(EVENT_TIME_MS_MIN / 1_000).to_string()).as_deref(), Some("2000-01-01T00:00:00.000Z"));
    assert_eq!(time(&EVENT_TIME_MS_MIN.to_string()).as_deref(), Some("2000-01-01T00:00:00.000Z"));
    // Below 10^11 a number is seconds, and that is in the future, so the time is the time of receipt.
    assert_eq!(time(&(SECONDS_END - 1).to_string()).as_deref(), Some("2026-01-05T10:00:00.000Z"));
    for early in
        [EVENT_TIME_MS_MIN / 1_000 - 1, SECONDS_END, SECONDS_END + 1, EVENT_TIME_MS_MIN - 1, 0, -1, i64::MIN]
    {
        assert_eq!(time(&early.to_string()), None, "{early}");
    }
    for early in ["-0.5", "946684799.9", "-1e17", "\"1999-12-31T23:59:59.999Z\"", "\"0000-01-01\""] {
        assert_eq!(time(early), None, "{early}");
    }
    assert_eq!(time("\"2000-01-01\"").as_deref(), Some("2000-01-01T00:00:00.000Z"));
    assert_eq!(time(&TIME_MS_MAX.to_string()).as_deref(), Some("2026-01-05T10:00:00.000Z"));
    assert_eq!(time(&(TIME_MS_MAX + 1).to_string()), None);
    assert_eq!(time("1e400"), None);
    assert_eq!(time("99999999999999999999"), None);
}

#[test]
fn wrong_client_clocks_are_corrected() {
    const HOUR: i64 = 3_600_000;
    const AT_MOST: i64 = CLOCK_SKEW_MS_MAX;
    for (timestamp_ms, sent_ms, corrected) in [
        (None, None, NOW_MS),
        (None, Some(NOW_MS - HOUR), NOW_MS),
        (Some(NOW_MS - 5), None, NOW_MS - 5),
        (Some(NOW_MS + 5), None, NOW_MS),
        // A correct clock: the event happened a minute ago and was sent now.
        (Some(NOW_MS - 60_000), Some(NOW_MS), NOW_MS - 60_000),
        // A request that needed 30 seconds, and a clock that is 30 seconds fast.
        (Some(NOW_MS - 30_000), Some(NOW_MS - 30_000), NOW_MS - 30_000),
        (Some(NOW_MS - 5), Some(NOW_MS + 30_000), NOW_MS - 5),
        // One below, at and above the largest time on the network, and the same for a fast clock.
        (Some(NOW_MS - HOUR), Some(NOW_MS - AT_MOST + 1), NOW_MS - HOUR),
        (Some(NOW_MS - HOUR), Some(NOW_MS - AT_MOST), NOW_MS - HOUR),
        (Some(NOW_MS - HOUR), Some(NOW_MS - AT_MOST - 1), NOW_MS - HOUR + AT_MOST + 1),
        (Some(NOW_MS - HOUR), Some(NOW_MS + AT_MOST - 1), NOW_MS - HOUR),
        (Some(NOW_MS - HOUR), Some(NOW_MS + AT_MOST), NOW_MS - HOUR),
        (Some(NOW_MS - HOUR), Some(NOW_MS + AT_MOST + 1), NOW_MS - HOUR - AT_MOST - 1),
        // A clock that is an hour slow, and one that is an hour fast.
        (Some(NOW_MS - HOUR - 60_000), Some(NOW_MS - HOUR), NOW_MS - 60_000),
        (Some(NOW_MS + HOUR - 60_000), Some(NOW_MS + HOUR), NOW_MS - 60_000),
        // The event was sent before it happened. It is never moved after its receipt.
        (Some(NOW_MS), Some(NOW_MS - HOUR), NOW_MS),
        (Some(NOW_MS + 5), Some(NOW_MS - 5), NOW_MS),
        (Some(TIME_MS_MIN), Some(TIME_MS_MAX), TIME_MS_MIN),
        (Some(TIME_MS_MAX), Some(TIME_MS_MIN), NOW_MS),
    ] {
        let times = ClientTimes { timestamp_ms, sent_ms };
        assert_eq!(time::correct_clock_skew(times, NOW_MS), corrected, "{times:?}");
    }
}

#[test]
fn the_times_of_the_client_are_kept_beside_the_corrected_time() {
    let kept = |members: Value| {
        let record = post("/v1/track", track(members)).record();
        ["timestamp", "clientTimestamp", "sentAt"].map(|name| record[name].as_str().map(str::to_owned))
    };
    let text = |text: &str| Some(text.to_owned());
    let now = text("2026-01-05T10:00:00.000Z");
    assert_eq!(kept(json!({})), [now.clone(), None, None]);
    let own = "2026-01-05T08:59:00.000Z";
    // The column has the time of the client.
    assert_eq!(kept(json!({"timestamp": own})), [text(own), None, None]);
    let sent = "2026-01-05T09:00:00.000Z";
    assert_eq!(
        kept(json!({"timestamp": own, "sentAt": sent})),
        [text("2026-01-05T09:59:00.000Z"), text(own), text(sent)]
    );
    assert_eq!(kept(json!({"sentAt": sent})), [now.clone(), None, text(sent)]);
    let future = "2031-01-05T10:00:00.000Z";
    assert_eq!(kept(json!({"timestamp": future})), [now.clone(), text(future), None]);
    assert_eq!(kept(json!({"timestamp": future, "sentAt": future})), [now, text(future), text(future)]);
}

#[test]
fn an_event_has_its_own_time_and_may_inherit_sent_at() {
    let timestamps = |body: Value| -> Vec<String> {
        let records = post("/v1/batch", body.to_string()).records();
        records.iter().map(|record| record["timestamp"].as_str().expect("a time").to_owned()).collect()
    };
    let event = |members: Value| serde_json::from_str::<Value>(&track(members)).expect("JSON");
    let own = "2026-01-05T08:59:00Z";
    assert_eq!(
        timestamps(json!({"sentAt": "2026-01-05T09:00:00Z", "batch": [
            event(json!({"timestamp": own})),
            event(json!({"originalTimestamp": own})),
            event(json!({"timestamp": own, "originalTimestamp": "2026-01-01"})),
            event(json!({"timestamp": own, "sentAt": own})),
            event(json!({})),
        ]})),
        [
            "2026-01-05T09:59:00.000Z",
            "2026-01-05T09:59:00.000Z",
            "2026-01-05T09:59:00.000Z",
            "2026-01-05T10:00:00.000Z",
            "2026-01-05T10:00:00.000Z"
        ]
    );
    assert_eq!(
        timestamps(json!({"batch": [event(json!({"timestamp": own}))]})),
        ["2026-01-05T08:59:00.000Z"]
    );
}

proptest! {
    #![proptest_config(super::cases(1_000))]

    #[test]
    fn a_written_time_reads_back(time_ms in TIME_MS_MIN..=TIME_MS_MAX) {
        prop_assert_eq!(time::parse(&written(time_ms)), Some(time_ms));
    }

    #[test]
    fn written_times_sort_in_time_order(one in TIME_MS_MIN..=TIME_MS_MAX, other in TIME_MS_MIN..=TIME_MS_MAX) {
        prop_assert_eq!(one.cmp(&other), written(one).cmp(&written(other)));
    }

    #[test]
    fn every_parsed_time_is_within_the_limits(text in "[0-9TZ:.+ -]{0,30}") {
        if let Some(time) = time::parse(&text) {
            prop_assert!((TIME_MS_MIN..=TIME_MS_MAX).contains(&time));
        }
    }
}
