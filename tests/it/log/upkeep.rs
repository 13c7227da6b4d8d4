//! The timed work of the log writer, on a simulated clock and without a file.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parallax::testing::clock::Clock;
use parallax::testing::limits::RETENTION_INTERVAL_MS;
use parallax::testing::log::{ClosedSegment, DISK_RECOVERED_MS, LogMetrics, Options, PLACE_CHECK_MS, Upkeep};

use super::{START_MS, TestClock, options};

const HOUR_MS: i64 = 60 * 60 * 1_000;

fn upkeep(options: &Options) -> (Upkeep, Arc<TestClock>, Arc<LogMetrics>) {
    let clock = Arc::<TestClock>::default();
    let metrics = Arc::new(LogMetrics::default());
    (Upkeep::new(options, Arc::clone(&clock) as Arc<dyn Clock>, Arc::clone(&metrics)), clock, metrics)
}

#[test]
fn the_place_of_the_segment_is_checked_once_a_second() {
    let (mut upkeep, clock, _) = upkeep(&options());
    assert!(!upkeep.begin_place_check());
    assert_eq!(upkeep.next_due(true), Some(Duration::from_millis(PLACE_CHECK_MS)));
    assert_eq!(upkeep.next_due(false), None, "without a segment there is no place to check");
    clock.pass(PLACE_CHECK_MS);
    assert!(upkeep.begin_place_check());
    assert!(!upkeep.begin_place_check());
}

#[test]
fn events_are_recorded_again_a_second_after_the_last_failure_of_the_disk() {
    let (mut upkeep, clock, metrics) = upkeep(&options());
    upkeep.report_health(true);
    assert!(metrics.is_recording());
    upkeep.note_error(&io::Error::other("the disk is full"));
    upkeep.report_health(false);
    assert!(!metrics.is_recording());
    clock.pass(DISK_RECOVERED_MS - 1);
    upkeep.report_health(true);
    assert!(!metrics.is_recording(), "a disk that is nearly full accepts some batches");
    clock.pass(1);
    upkeep.report_health(true);
    assert!(metrics.is_recording());
    assert_eq!(metrics.write_errors(), 1);
}

#[test]
fn a_wall_clock_that_jumps_expires_no_segment_and_time_that_passes_does() {
    let (mut upkeep, clock, _) = upkeep(&Options { retain_ms: Some(2 * HOUR_MS), ..options() });
    let closed = |age_ms| ClosedSegment { first_seq: 1, bytes: 100, closed_ms: START_MS - age_ms };
    let closed = VecDeque::from([closed(HOUR_MS), closed(0)]);
    clock.set_wrong(100 * HOUR_MS);
    upkeep.advance_log_clock();
    assert_eq!(upkeep.expired_count(&closed, 0), 0);
    clock.set_wrong(0);
    clock.pass(HOUR_MS as u64 + 1);
    upkeep.advance_log_clock();
    assert_eq!(upkeep.expired_count(&closed, 0), 1, "the oldest one first");
}

#[test]
fn retention_is_due_once_an_interval_and_only_with_a_limit() {
    let (mut unlimited, ..) = upkeep(&options());
    assert!(!unlimited.begin_retention());
    let (mut limited, clock, _) = upkeep(&Options { retain_bytes: Some(1), ..options() });
    assert!(limited.begin_retention());
    assert!(!limited.begin_retention());
    clock.pass(RETENTION_INTERVAL_MS);
    assert!(limited.begin_retention());
}
