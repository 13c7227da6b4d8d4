//! When a node that is behind the stream is ready. `tests/cluster/joining` has nodes with servers.

use parallax::testing::cluster::join::{JOINED_LAG_MS_MAX, NotReady, Progress, Readiness, UNREACHABLE_MS};
use parallax::testing::cluster::members::Standing;

const JOINED: Progress = Progress {
    standing: Standing::Member,
    is_reachable: true,
    is_following: true,
    is_caught_up: true,
    lag_ms: 0,
};
const BEHIND: Progress =
    Progress { standing: Standing::Applicant, is_caught_up: false, lag_ms: 7_200_000, ..JOINED };
const UNREACHABLE: Progress = Progress {
    standing: Standing::Applicant,
    is_reachable: false,
    is_following: false,
    is_caught_up: false,
    lag_ms: 0,
};

#[test]
fn a_start_waits_until_the_node_has_read_to_within_a_second_of_the_end() {
    for (lag_ms, expected) in [
        (JOINED_LAG_MS_MAX - 1, None),
        (JOINED_LAG_MS_MAX, None),
        (JOINED_LAG_MS_MAX + 1, Some(NotReady::Joining)),
    ] {
        let mut readiness = Readiness::new(false, None);
        assert_eq!(readiness.look(BEHIND, 0), Some(NotReady::Joining));
        assert_eq!(readiness.look(BEHIND, 86_400_000), Some(NotReady::Joining), "no time limit ends it");
        assert_eq!(readiness.look(Progress { lag_ms, ..JOINED }, 86_400_010), expected, "{lag_ms}");
        assert_eq!(readiness.look(Progress { lag_ms: 0, ..BEHIND }, 86_400_020), expected, "{lag_ms}: once");
    }
}

#[test]
fn a_node_is_ready_as_a_member_only() {
    let mut readiness = Readiness::new(true, None);
    for (standing, expected) in [
        (Standing::Applicant, Some(NotReady::Joining)),
        (Standing::NameInUse, Some(NotReady::NameInUse)),
        (Standing::Member, None),
        (Standing::Applicant, None),
        (Standing::NameInUse, Some(NotReady::NameInUse)),
        (Standing::Replaced, Some(NotReady::Replaced)),
    ] {
        assert_eq!(readiness.look(Progress { standing, ..JOINED }, 0), expected, "{standing:?}");
    }
}

#[test]
fn a_node_with_recent_profiles_is_ready_10_s_after_the_last_server_was_reached() {
    let mut readiness = Readiness::new(true, Some(1));
    assert_eq!(readiness.deadline_ms(), None);
    for (now_ms, expected) in [
        (5_000, Some(NotReady::Joining)),
        (4_999 + UNREACHABLE_MS, Some(NotReady::Joining)),
        (5_000 + UNREACHABLE_MS, None),
        (5_001 + UNREACHABLE_MS, None),
    ] {
        assert_eq!(readiness.look(UNREACHABLE, now_ms), expected, "{now_ms}");
        assert_eq!(readiness.deadline_ms(), Some(5_000 + UNREACHABLE_MS));
    }
    assert_eq!(readiness.look(BEHIND, 20_000), Some(NotReady::Joining), "it reads the stream first");
    assert_eq!(readiness.look(UNREACHABLE, 30_000), Some(NotReady::Joining), "the time begins again");
    assert_eq!(readiness.look(JOINED, 31_000), None);
    assert_eq!(readiness.look(UNREACHABLE, 32_000), None, "a ready node that loses the stream stays ready");
    assert_eq!(readiness.deadline_ms(), None, "a deadline would keep the thread of the node awake");
    readiness.on_loaded();
    assert_eq!(readiness.look(BEHIND, 33_000), Some(NotReady::Joining), "its profiles are earlier ones");
}

#[test]
fn a_node_with_old_profiles_waits_for_a_server() {
    let mut readiness = Readiness::new(false, None);
    assert_eq!(readiness.look(UNREACHABLE, 0), Some(NotReady::Joining));
    assert_eq!(readiness.look(UNREACHABLE, 86_400_000), Some(NotReady::Joining));
    assert_eq!(readiness.deadline_ms(), None);
}

#[test]
fn a_node_is_ready_up_to_the_lag_of_the_setting() {
    let mut readiness = Readiness::new(false, Some(5_000));
    assert_eq!(readiness.look(JOINED, 0), None);
    for (lag_ms, expected) in [(4_999, None), (5_000, None), (5_001, Some(NotReady::Lagging)), (0, None)] {
        assert_eq!(readiness.look(Progress { lag_ms, ..JOINED }, 0), expected, "{lag_ms}");
        assert_eq!(readiness.look(Progress { lag_ms, ..BEHIND }, 0), expected, "{lag_ms}");
    }
    let alone = Progress { lag_ms: 99_000, ..UNREACHABLE };
    assert_eq!(readiness.look(alone, 0), None, "the end of the stream is unknown");
    let mut unlimited = Readiness::new(false, None);
    assert_eq!(unlimited.look(JOINED, 0), None);
    assert_eq!(unlimited.look(Progress { lag_ms: i64::MAX, ..BEHIND }, 0), None);
}
