//! When a node that is behind the stream is ready. `tests/cluster/joining` has nodes with servers.

use parallax::testing::cluster::join::{JOINED_LAG_MS_MAX, NotReady, Progress, Readiness};

const ALONE: Progress = Progress { is_alone: true, is_caught_up: false, lag_ms: 0 };
const JOINED: Progress = Progress { is_alone: false, is_caught_up: true, lag_ms: 0 };
const BEHIND: Progress = Progress { is_alone: false, is_caught_up: false, lag_ms: 7_200_000 };

#[test]
fn a_start_waits_until_the_node_has_read_to_within_a_second_of_the_end() {
    for (lag_ms, expected) in [
        (JOINED_LAG_MS_MAX - 1, None),
        (JOINED_LAG_MS_MAX, None),
        (JOINED_LAG_MS_MAX + 1, Some(NotReady::Joining)),
    ] {
        let mut readiness = Readiness::new(60_000, None);
        assert_eq!(readiness.look(BEHIND, 0), Some(NotReady::Joining));
        assert_eq!(readiness.look(Progress { lag_ms, ..JOINED }, 10), expected, "{lag_ms}");
        assert_eq!(readiness.look(Progress { lag_ms: 0, ..BEHIND }, 20), expected, "{lag_ms}: once");
    }
}

#[test]
fn a_start_that_does_not_reach_the_end_is_complete_at_the_time_limit() {
    let mut readiness = Readiness::new(60_000, None);
    assert_eq!(readiness.deadline_ms(), None, "the time begins with the first look");
    for (now_ms, expected) in
        [(5_000, Some(NotReady::Joining)), (64_999, Some(NotReady::Joining)), (65_000, None), (65_001, None)]
    {
        assert_eq!(readiness.look(BEHIND, now_ms), expected, "{now_ms}");
        assert_eq!(readiness.deadline_ms(), expected.map(|_| 65_000));
        assert_eq!(readiness.has_joined(), expected.is_none());
    }
    assert_eq!(Readiness::new(0, None).look(BEHIND, 9), None);
}

#[test]
fn a_node_that_is_alone_is_ready_and_waits_again_if_it_joins_in_time() {
    let mut readiness = Readiness::new(60_000, Some(1));
    assert_eq!(readiness.look(ALONE, 0), None);
    assert_eq!(readiness.look(BEHIND, 10), Some(NotReady::Joining));
    assert_eq!(readiness.look(JOINED, 20), None);
    assert_eq!(
        readiness.look(Progress { lag_ms: 99, ..ALONE }, 30),
        None,
        "the end of the stream is unknown"
    );
    assert_eq!(readiness.look(Progress { lag_ms: 0, ..BEHIND }, 40), None, "a reconnection is no start");
}

#[test]
fn a_node_that_stays_alone_has_no_time_limit_left_after_it() {
    for (join_timeout_ms, now_ms) in [(60_000, 60_000), (0, 0)] {
        let mut readiness = Readiness::new(join_timeout_ms, None);
        assert_eq!(readiness.look(ALONE, 0), None);
        assert_eq!(readiness.look(ALONE, now_ms), None);
        assert_eq!(
            readiness.deadline_ms(),
            None,
            "a deadline in the past would keep the thread of the node awake"
        );
        assert_eq!(readiness.look(BEHIND, now_ms + 1), None, "the time limit is over");
    }
}

#[test]
fn a_node_is_ready_up_to_the_lag_of_the_setting() {
    let mut readiness = Readiness::new(0, Some(5_000));
    for (lag_ms, expected) in [(4_999, None), (5_000, None), (5_001, Some(NotReady::Lagging)), (0, None)] {
        assert_eq!(readiness.look(Progress { lag_ms, ..JOINED }, 0), expected, "{lag_ms}");
        assert_eq!(readiness.look(Progress { lag_ms, ..BEHIND }, 0), expected, "{lag_ms}");
    }
    let mut unlimited = Readiness::new(0, None);
    assert_eq!(unlimited.look(Progress { lag_ms: i64::MAX, ..BEHIND }, 0), None);
}
