//! The check `stall`: an open loop on a server that is paused for 200 ms in every 2 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadtest::load::{Load, Pace};
use loadtest::process::{Server, send_signal};
use loadtest::turns::RunError;
use rustix::process::Signal;

use super::{CheckContext, CheckResult, is_near, milliseconds};

const PERIOD: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);
/// Length of the window. A multiple of the period, so that the paused share of both is the same.
const WINDOW: Duration = Duration::from_secs(20);
const PER_SECOND: f64 = 1000.0;
/// Connections: enough that no request waits for a free one, as 200 requests are due during a pause.
const CONNECTIONS: usize = 256;
/// Quantiles and their exact values. A tenth of all requests is due during a pause, evenly spread over its
/// 200 ms, and gets its response at the end of the pause. So the probability that a request waits longer than
/// t ms is 0.1 (200 - t) / 200: 5 % wait longer than 100 ms, 1 % longer than 180, 0.1 % longer than 198.
const EXPECTED_MS: [(f64, f64); 3] = [(0.95, 100.0), (0.99, 180.0), (0.999, 198.0)];
/// Tolerance for inexact pauses, and for the millisecond that the accumulated responses take.
const TOLERANCE: f64 = 0.05;

/// Checks that an open loop measures the full waiting time of each request.
pub fn stall(context: &CheckContext<'_>) -> Result<CheckResult, RunError> {
    let server = context.start_floor(&[])?;
    let load = context.load(server.address, CONNECTIONS, Pace::Open { per_second: PER_SECOND });
    let load = Load { window: WINDOW, ..load };
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let stopper = scope.spawn(|| pause_periodically(&server, &is_over));
        let outcome = context.measure(&server, &load);
        is_over.store(true, Ordering::Relaxed);
        stopper.join().expect("it does not panic")?;
        outcome
    })?;
    let mut holds = true;
    let figures = EXPECTED_MS.map(|(quantile, truth)| {
        let found = milliseconds(&outcome, quantile);
        holds &= is_near(found, truth, TOLERANCE);
        format!("p{} {found:.1} ms, expected {truth}", quantile * 100.0)
    });
    Ok(CheckResult::of(holds, format!("{}; +- {:.0} %", figures.join("; "), TOLERANCE * 100.0)))
}

/// Pauses and resumes the server. All times come from one start, so that delays do not add up.
fn pause_periodically(server: &Server, is_over: &AtomicBool) -> Result<(), RunError> {
    let signal = |signal| server.processes.iter().try_for_each(|process| send_signal(process.id(), signal));
    let begin = Instant::now();
    let until = |at: Duration| std::thread::sleep((begin + at).saturating_duration_since(Instant::now()));
    for number in 0.. {
        until(PERIOD * number);
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        signal(Signal::STOP)?;
        until(PERIOD * number + PAUSE);
        signal(Signal::CONT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_quantiles_match_a_simulation() {
        let (period, still) = (PERIOD.as_micros() as u64, PAUSE.as_micros() as u64);
        let mut waits: Vec<u64> = (0..period).map(|due| still.saturating_sub(due)).collect();
        waits.sort_unstable();
        for (quantile, truth) in EXPECTED_MS {
            let found = waits[(quantile * period as f64) as usize] as f64 / 1e3;
            assert!((found - truth).abs() < 0.01, "p{}: {found}", quantile * 100.0);
        }
    }
}
