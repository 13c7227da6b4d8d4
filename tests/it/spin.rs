//! A worker that polls before it parks (`--spin-us`): when it does, and that nothing waits for it meanwhile.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parallax::limits::{SPINS_IN_VAIN_MAX, TRIED_AFTER_VAIN_SPINS};
use parallax::worker::Spin;
use proptest::prelude::*;

use crate::harness::{Client, Server, eventually, under_load};

const LONGEST: Duration = Duration::from_micros(50);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// Asked at the end of a spin that it begins now, without anything that comes.
fn spin_in_vain(spin: &mut Spin, now: Instant) {
    assert!(spin.goes_on(now));
    assert!(!spin.goes_on(now + LONGEST));
}

/// After as many spins in vain as there may be.
fn disappointed(now: Instant) -> Spin {
    let mut spin = Spin::new(LONGEST);
    for _ in 0..SPINS_IN_VAIN_MAX {
        assert!(spin.came());
        spin_in_vain(&mut spin, now);
    }
    spin
}

#[test]
fn a_worker_to_which_nothing_comes_parks() {
    let now = Instant::now();
    let mut spin = Spin::new(LONGEST);
    assert!(!spin.goes_on(now));
    spin.came();
    spin_in_vain(&mut spin, now);
    assert!(!spin.goes_on(now), "once is enough");
}

#[test]
fn after_what_came_it_polls_as_long_as_it_was_told() {
    let now = Instant::now();
    let mut spin = Spin::new(LONGEST);
    spin.came();
    assert!(spin.goes_on(now) && spin.goes_on(now + LONGEST - NANOSECOND));
    spin.came();
    let later = now + LONGEST;
    assert!(spin.goes_on(later) && spin.goes_on(later + LONGEST - NANOSECOND), "from the last on");
    assert!(!spin.goes_on(later + LONGEST));
}

#[test]
fn spins_in_vain_end_it_until_one_is_not() {
    let now = Instant::now();
    let mut spin = disappointed(now);
    for _ in 1..TRIED_AFTER_VAIN_SPINS {
        assert!(!spin.came() && !spin.goes_on(now), "it parks at once");
    }
    assert!(spin.came(), "it is tried");
    spin_in_vain(&mut spin, now);
    assert!(!spin.came() && !spin.goes_on(now), "and given up again");
    (2..TRIED_AFTER_VAIN_SPINS).for_each(|_| assert!(!spin.came()));
    assert!(spin.came() && spin.goes_on(now));
    assert!(spin.came() && spin.goes_on(now), "something came while it polled");
    assert!(!spin.goes_on(now + LONGEST));
    assert!(spin.came() && spin.goes_on(now), "so one in vain is one");
}

#[test]
fn one_that_is_not_in_vain_is_enough_to_go_on() {
    let now = Instant::now();
    let mut spin = Spin::new(LONGEST);
    for _ in 0..10 {
        for _ in 1..SPINS_IN_VAIN_MAX {
            assert!(spin.came());
            spin_in_vain(&mut spin, now);
        }
        assert!(spin.came() && spin.goes_on(now) && spin.came());
        spin_in_vain(&mut spin, now);
        assert!(spin.came() && spin.goes_on(now) && spin.came(), "it caught one");
    }
}

proptest! {
    #[test]
    fn it_polls_only_near_what_came(steps in prop::collection::vec((any::<bool>(), 0_u64..120), 1..400)) {
        let mut now = Instant::now();
        let (mut spin, mut seen) = (Spin::new(LONGEST), None);
        let mut has_come = false;
        for (comes, us) in steps {
            now += Duration::from_micros(us);
            if comes {
                spin.came();
                has_come = true;
            } else {
                // It was asked for the first time after what came, if ever, at `seen`.
                seen = if std::mem::take(&mut has_come) { Some(now) } else { seen };
                let is_near = seen.is_some_and(|seen| now < seen + LONGEST);
                prop_assert!(!spin.goes_on(now) || is_near);
            }
        }
    }
}

/// Spins for as long as is allowed: another thread's turn on a busy machine is not much longer.
fn spinning(flags: &[&str]) -> Server {
    let snapshot = parallax::cli::demo::snapshot().1;
    Server::start(&[("demo.snapshot", &snapshot)], &[&["--spin-us", "1000"], flags].concat())
}

/// What `/proc` says of each worker under this name.
fn of_workers(server: &Server, file: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", server.id())).expect("it runs");
    let threads: Vec<PathBuf> = threads.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let is_worker =
        |path: &&PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|n| n.starts_with("worker-"));
    let said =
        threads.iter().filter(is_worker).map(|path| fs::read_to_string(path.join(file)).expect("it runs"));
    said.collect()
}

/// How often the workers parked so far.
fn parked(server: &Server) -> u64 {
    let count = |status: String| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
    };
    of_workers(server, "status").into_iter().map(|status| count(status).expect("a number")).sum()
}

/// The time for which the workers ran so far.
fn ran(server: &Server) -> Duration {
    let first = |said: String| said.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    let ns = of_workers(server, "schedstat").into_iter().map(|said| first(said).expect("nanoseconds"));
    Duration::from_nanos(ns.sum())
}

fn ask(client: &mut Client) {
    assert_eq!(client.request("GET", "/v1/resolve?site=fjell&route=/&variants=", &[]).status, 200);
}

const DRIVERS: [&str; 2] = ["auto", "epoll"];

#[test]
fn requests_that_are_close_together_find_the_worker_awake() {
    for driver in DRIVERS {
        let server = spinning(&["--driver", driver]);
        let mut client = Client::to(server.edge);
        eventually("a worker parks for fewer than one request in four", || {
            let before = parked(&server);
            (0..200).for_each(|_| ask(&mut client));
            (parked(&server) - before < 50).then_some(())
        });
    }
}

#[test]
fn a_server_without_requests_does_not_poll() {
    for driver in DRIVERS {
        let server = spinning(&["--driver", driver, "--timeout-idle-ms", "500"]);
        let mut client = Client::to(server.edge);
        (0..200).for_each(|_| ask(&mut client));
        let (begun, before) = (Instant::now(), ran(&server));
        assert!(client.is_closed());
        let (took, ran) = (begun.elapsed(), ran(&server) - before);
        assert!(ran < took / 4, "its workers ran for {ran:?} of {took:?}");
    }
}

#[test]
fn a_worker_that_polls_accepts_and_records_and_ends_what_is_idle() {
    for driver in DRIVERS {
        let server = spinning(&["--driver", driver, "--timeout-idle-ms", "300"]);
        let ((), asked) = under_load(server.edge, 3, ask, || {
            let mut idle = Client::to(server.edge);
            ask(&mut idle);
            for _ in 0..20 {
                ask(&mut Client::to(server.edge));
                let event = br#"{"batch":[{"type":"track","userId":"b","event":"a"}]}"#;
                assert_eq!(server.post("/v1/batch?site=fjell", &[], event).status, 200);
            }
            assert!(idle.is_closed());
        });
        assert!(asked > 0);
    }
}

#[test]
fn a_worker_that_polls_stops_when_it_is_told() {
    for driver in DRIVERS {
        let mut server = spinning(&["--driver", driver]);
        let mut client = Client::to(server.edge);
        (0..200).for_each(|_| ask(&mut client));
        server.signal("TERM");
        assert!(client.is_closed());
        assert_eq!(server.exit_code(), 0);
    }
}
