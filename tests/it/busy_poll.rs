//! A worker that polls before it parks (`--busy-poll-us`): when it polls, and that nothing else has to wait for
//! it.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parallax::testing::limits::{IDLE_SPINS_MAX, SPIN_RETRY_INTERVAL};
use parallax::testing::worker::BusyPoll;
use proptest::prelude::*;

use crate::harness::{Client, Server, eventually, under_load};

const LONGEST: Duration = Duration::from_micros(50);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// Runs one polling period without activity: asks at its beginning and at its end.
fn poll_without_activity(poller: &mut BusyPoll, now: Instant) {
    assert!(poller.should_poll(now));
    assert!(!poller.should_poll(now + LONGEST));
}

/// Returns a poller after the maximum number of polling periods without activity.
fn after_idle_periods(now: Instant) -> BusyPoll {
    let mut poller = BusyPoll::new(LONGEST);
    for _ in 0..IDLE_SPINS_MAX {
        assert!(poller.on_activity());
        poll_without_activity(&mut poller, now);
    }
    poller
}

#[test]
fn a_worker_without_activity_parks() {
    let now = Instant::now();
    let mut poller = BusyPoll::new(LONGEST);
    assert!(!poller.should_poll(now));
    poller.on_activity();
    poll_without_activity(&mut poller, now);
    assert!(!poller.should_poll(now), "one idle period is enough");
}

#[test]
fn a_worker_polls_for_the_configured_time_after_activity() {
    let now = Instant::now();
    let mut poller = BusyPoll::new(LONGEST);
    poller.on_activity();
    assert!(poller.should_poll(now) && poller.should_poll(now + LONGEST - NANOSECOND));
    poller.on_activity();
    let later = now + LONGEST;
    assert!(
        poller.should_poll(later) && poller.should_poll(later + LONGEST - NANOSECOND),
        "the time counts from the last activity"
    );
    assert!(!poller.should_poll(later + LONGEST));
}

#[test]
fn idle_polling_periods_stop_polling_until_one_succeeds() {
    let now = Instant::now();
    let mut poller = after_idle_periods(now);
    for _ in 1..SPIN_RETRY_INTERVAL {
        assert!(!poller.on_activity() && !poller.should_poll(now), "the worker parks at once");
    }
    assert!(poller.on_activity(), "one period is tried");
    poll_without_activity(&mut poller, now);
    assert!(!poller.on_activity() && !poller.should_poll(now), "polling stops again");
    (2..SPIN_RETRY_INTERVAL).for_each(|_| assert!(!poller.on_activity()));
    assert!(poller.on_activity() && poller.should_poll(now));
    assert!(poller.on_activity() && poller.should_poll(now), "there was activity while it polled");
    assert!(!poller.should_poll(now + LONGEST));
    assert!(poller.on_activity() && poller.should_poll(now), "one idle period does not stop polling");
}

#[test]
fn one_successful_polling_period_is_enough_to_go_on() {
    let now = Instant::now();
    let mut poller = BusyPoll::new(LONGEST);
    for _ in 0..10 {
        for _ in 1..IDLE_SPINS_MAX {
            assert!(poller.on_activity());
            poll_without_activity(&mut poller, now);
        }
        assert!(poller.on_activity() && poller.should_poll(now) && poller.on_activity());
        poll_without_activity(&mut poller, now);
        assert!(
            poller.on_activity() && poller.should_poll(now) && poller.on_activity(),
            "this period had activity"
        );
    }
}

proptest! {
    #[test]
    fn a_worker_polls_only_after_activity(
        steps in prop::collection::vec((any::<bool>(), 0_u64..120), 1..400),
    ) {
        let mut now = Instant::now();
        let (mut poller, mut period_begin) = (BusyPoll::new(LONGEST), None);
        let mut is_active = false;
        for (has_activity, us) in steps {
            now += Duration::from_micros(us);
            if has_activity {
                poller.on_activity();
                is_active = true;
            } else {
                // The first question after the last activity, if there was one, was at `period_begin`.
                period_begin = if std::mem::take(&mut is_active) { Some(now) } else { period_begin };
                let is_near = period_begin.is_some_and(|period_begin| now < period_begin + LONGEST);
                prop_assert!(!poller.should_poll(now) || is_near);
            }
        }
    }
}

/// Starts a server that polls for the longest allowed time. On a busy machine another thread's turn is not
/// much longer.
fn polling_server(flags: &[&str]) -> Server {
    let snapshot = parallax::testing::cli::demo::compile_demo().1;
    Server::start(&[("demo.snapshot", &snapshot)], &[&["--busy-poll-us", "1000"], flags].concat())
}

/// Reads the file `file` of each worker thread in `/proc`.
fn read_worker_files(server: &Server, file: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).expect("the server runs");
    let threads: Vec<PathBuf> = threads.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let is_worker =
        |path: &&PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|n| n.starts_with("worker-"));
    let contents = threads
        .iter()
        .filter(is_worker)
        .map(|path| fs::read_to_string(path.join(file)).expect("the server runs"));
    contents.collect()
}

/// Returns how often the workers have parked so far.
fn park_count(server: &Server) -> u64 {
    let count = |status: String| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
    };
    read_worker_files(server, "status").into_iter().map(|status| count(status).expect("a number")).sum()
}

/// Returns how long the workers have run on a CPU so far.
fn cpu_time(server: &Server) -> Duration {
    let first = |contents: String| contents.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    let ns = read_worker_files(server, "schedstat")
        .into_iter()
        .map(|contents| first(contents).expect("nanoseconds"));
    Duration::from_nanos(ns.sum())
}

fn send_request(client: &mut Client) {
    assert_eq!(client.request("GET", "/v1/resolve?site=fjell&route=/&variants=", &[]).status, 200);
}

const DRIVERS: [&str; 2] = ["auto", "epoll"];

#[test]
fn requests_that_are_close_together_find_the_worker_awake() {
    for driver in DRIVERS {
        let server = polling_server(&["--driver", driver]);
        let mut client = Client::to(server.edge);
        eventually("a worker parks for fewer than one request in four", || {
            let before = park_count(&server);
            (0..200).for_each(|_| send_request(&mut client));
            (park_count(&server) - before < 50).then_some(())
        });
    }
}

#[test]
fn a_server_without_requests_does_not_poll() {
    for driver in DRIVERS {
        let server = polling_server(&["--driver", driver, "--timeout-idle-ms", "500"]);
        let mut client = Client::to(server.edge);
        (0..200).for_each(|_| send_request(&mut client));
        let (begun, before) = (Instant::now(), cpu_time(&server));
        assert!(client.is_closed());
        let (took, ran) = (begun.elapsed(), cpu_time(&server) - before);
        assert!(ran < took / 4, "the workers ran for {ran:?} of {took:?}");
    }
}

#[test]
fn a_polling_worker_accepts_records_and_closes_idle_connections() {
    for driver in DRIVERS {
        let server = polling_server(&["--driver", driver, "--timeout-idle-ms", "300"]);
        let ((), requests) = under_load(server.edge, 3, send_request, || {
            let mut idle = Client::to(server.edge);
            send_request(&mut idle);
            for _ in 0..20 {
                send_request(&mut Client::to(server.edge));
                let event = br#"{"batch":[{"type":"track","userId":"b","event":"a"}]}"#;
                assert_eq!(server.post("/v1/batch?site=fjell", &[], event).status, 200);
            }
            assert!(idle.is_closed());
        });
        assert!(requests > 0);
    }
}

#[test]
fn a_polling_worker_stops_on_a_signal() {
    for driver in DRIVERS {
        let mut server = polling_server(&["--driver", driver]);
        let mut client = Client::to(server.edge);
        (0..200).for_each(|_| send_request(&mut client));
        server.signal("TERM");
        assert!(client.is_closed());
        assert_eq!(server.exit_code(), 0);
    }
}
