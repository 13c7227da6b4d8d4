//! A server that stands still 200 ms in every 2 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Finding, Trial, is_near, milliseconds};
use crate::load::{Load, Pace};
use crate::process::Server;
use crate::turns::Failure;

const PERIOD: Duration = Duration::from_secs(2);
const STILL: Duration = Duration::from_millis(200);
/// A multiple of the period, so that its part of standing still is that of the window.
const WINDOW: Duration = Duration::from_secs(20);
const PER_SECOND: f64 = 1000.0;
/// Enough that nobody waits for one: 200 requests are due while the server stands still.
const CONNECTIONS: usize = 256;
/// A tenth of all requests is due while the server stands still, evenly spread over its 200 ms, and each is answered when they are
/// over. So a request waits longer than t with a probability of 0.1 (200 - t) / 200: 5 % longer than 100 ms, 1 % longer than 180,
/// 0.1 % longer than 198.
const TRUTH_MS: [(f64, f64); 3] = [(0.95, 100.0), (0.99, 180.0), (0.999, 198.0)];
/// Beside the harness, the moments of stopping are a little off, and the answers that have gathered take a millisecond.
const TOLERANCE: f64 = 0.05;

/// Whether an open loop finds what a request waits.
pub fn stall(trial: &Trial<'_>) -> Result<Finding, Failure> {
    let server = trial.bare(&[])?;
    let load = trial.load(server.address, CONNECTIONS, Pace::Open { per_second: PER_SECOND });
    let load = Load { window: WINDOW, ..load };
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let stopper = scope.spawn(|| stop_and_go(&server, &is_over));
        let outcome = trial.measure(&server, &load);
        is_over.store(true, Ordering::Relaxed);
        stopper.join().expect("it does not panic")?;
        outcome
    })?;
    let mut holds = true;
    let figures = TRUTH_MS.map(|(quantile, truth)| {
        let found = milliseconds(&outcome, quantile);
        holds &= is_near(found, truth, TOLERANCE);
        format!("p{} {found:.1} ms for {truth}", quantile * 100.0)
    });
    Ok(Finding::of(holds, format!("{}, {:.0} %", figures.join(", "), TOLERANCE * 100.0)))
}

/// By one clock, so that what a stop comes late does not add up.
fn stop_and_go(server: &Server, is_over: &AtomicBool) -> Result<(), Failure> {
    let begin = Instant::now();
    let until = |at: Duration| std::thread::sleep((begin + at).saturating_duration_since(Instant::now()));
    for number in 0.. {
        until(PERIOD * number);
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        server.stop()?;
        until(PERIOD * number + STILL);
        server.go_on()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_is_what_one_finds_by_asking_every_microsecond() {
        let (period, still) = (PERIOD.as_micros() as u64, STILL.as_micros() as u64);
        let mut waits: Vec<u64> = (0..period).map(|due| still.saturating_sub(due)).collect();
        waits.sort_unstable();
        for (quantile, truth) in TRUTH_MS {
            let found = waits[(quantile * period as f64) as usize] as f64 / 1e3;
            assert!((found - truth).abs() < 0.01, "p{}: {found}", quantile * 100.0);
        }
    }
}
