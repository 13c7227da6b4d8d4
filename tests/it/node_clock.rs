//! The clock of a node. `tests/cluster/joining` has nodes with a wrong one.

use parallax::testing::clock::Clock;
use parallax::testing::cluster::skew::{ClockReading, SKEW_WARNING_MS, is_skewed};

use crate::log::TestClock;

/// Reads the clock of servers whose time is right.
fn read(clock: &TestClock, server_ms: i64) -> ClockReading {
    let sent_ms = clock.now_ms();
    clock.pass(20);
    ClockReading { sent_ms, server_ms, received_ms: clock.now_ms() }
}

#[test]
fn a_clock_that_is_up_to_60_seconds_off_may_join() {
    for (wrong_ms, refusal) in [
        (0, None),
        (59_999, None),
        (60_000, None),
        (60_001, Some("61 s ahead of")),
        (61_000, Some("61 s ahead of")),
        (-59_999, None),
        (-60_000, None),
        (-60_001, Some("61 s behind")),
        (-61_000, Some("61 s behind")),
        (3_600_000, Some("3600 s ahead of")),
    ] {
        let clock = TestClock::default();
        let right_ms = clock.now_ms();
        clock.set_wrong(wrong_ms);
        // The servers read their clock at the moment at which the difference is least.
        let server_ms = if wrong_ms < 0 { right_ms + 20 } else { right_ms };
        let reading = read(&clock, server_ms);
        assert_eq!(reading.skew_ms(), wrong_ms);
        match (reading.check(), refusal) {
            (Ok(()), None) => {}
            (Err(error), Some(words)) => {
                assert!(error.contains(words) && error.contains("at most 60 s; set the clock"), "{error}");
            }
            (found, _) => panic!("{wrong_ms} ms: {found:?}"),
        }
    }
}

#[test]
fn the_time_of_the_request_is_no_difference() {
    let clock = TestClock::default();
    let reading = read(&clock, clock.now_ms() + 20);
    assert_eq!(reading.skew_ms(), 0);
    assert_eq!(ClockReading { server_ms: reading.sent_ms, ..reading }.skew_ms(), 0);
    assert_eq!(ClockReading { server_ms: reading.sent_ms + 7, ..reading }.skew_ms(), 0);
    assert_eq!(ClockReading { server_ms: reading.sent_ms - 1, ..reading }.skew_ms(), 1);
    assert_eq!(ClockReading { server_ms: reading.received_ms + 1, ..reading }.skew_ms(), -1);
}

#[test]
fn a_node_warns_of_a_clock_that_is_a_quarter_of_a_second_off() {
    assert_eq!(SKEW_WARNING_MS, 250);
    let skews_ms = [0, 249, 250, 251, -249, -250, -251];
    assert_eq!(skews_ms.map(is_skewed), [false, false, true, true, false, true, true]);
}
