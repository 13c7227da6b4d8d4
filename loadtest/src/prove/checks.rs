//! The checks other than the one of stalls.

use std::path::Path;

use super::others::{oha, wrk};
use super::stall::stall;
use super::{Finding, Trial, is_near, median, milliseconds};
use crate::load::Pace;
use crate::process::Server;
use crate::turns::Failure;

type Check = fn(&Trial<'_>) -> Result<Finding, Failure>;

/// What is typed, in the order of [`ALL`].
pub const NAMES: [&str; 6] = ["stall", "null", "delay", "cheaper", "wrk", "oha"];
pub const ALL: [Check; 6] = [stall, null, delay, is_cheaper, agrees_with_wrk, agrees_with_oha];

const WRK_INSTALL: &str = "apt-get install wrk";
const OHA_INSTALL: &str = "cargo install oha --locked";
/// Connections of a closed loop, as in the goals.
const CONNECTIONS: usize = 64;

/// The same server on both sides costs the same.
fn null(trial: &Trial<'_>) -> Result<Finding, Failure> {
    const TOLERANCE: f64 = 0.03;
    // As the tolerance is half of what a machine that others share wanders by from window to window.
    const MORE_ROUNDS: usize = 3;
    let server = trial.bare(&[])?;
    let load = trial.load(server.address, CONNECTIONS, Pace::Closed);
    let cost = || Ok(trial.measure(&server, &load)?.server_us_per_request());
    let (one, other) = by_turns(trial.options.rounds * MORE_ROUNDS, cost, cost)?;
    let ratio = ratio(&one, &other);
    Ok(Finding::of(is_near(ratio, 1.0, TOLERANCE), format!("{ratio:.3} for 1 +- {TOLERANCE}")))
}

/// A delay of the answers is found again, beside what they take without it.
fn delay(trial: &Trial<'_>) -> Result<Finding, Failure> {
    const DELAY_MS: f64 = 2.0;
    const TOLERANCE: f64 = 0.05;
    let (at_once, late) = (trial.bare(&[])?, trial.bare(&["--delay-us", "2000"])?);
    let p50 = |server: &Server| {
        let load = trial.load(server.address, 1, Pace::Closed);
        Ok::<_, Failure>(milliseconds(&trial.measure(server, &load)?, 0.5))
    };
    let (before, behind) = by_turns(trial.options.rounds, || p50(&at_once), || p50(&late))?;
    let (before, found) = (median(before), median(behind));
    let truth = before + DELAY_MS;
    let said = format!(
        "p50 {found:.3} ms for {truth:.3} (2 ms and {before:.3} without), {:.0} %",
        TOLERANCE * 100.0
    );
    Ok(Finding::of(is_near(found, truth, TOLERANCE), said))
}

/// The generator takes less for a request than wrk does, both as busy as the bare server makes them.
fn is_cheaper(trial: &Trial<'_>) -> Result<Finding, Failure> {
    beside_wrk(trial, &[], |own, of_wrk| {
        let (own, of_wrk) = (median(own.generator), median(of_wrk.generator));
        Finding::of(own < of_wrk, format!("{own:.2} us a request, wrk {of_wrk:.2}"))
    })
}

/// A server takes the same for a request, and answers as many, whether wrk asks or this generator.
///
/// It sums its answer up so often that either is faster than it. Without that wrk would be the slower: the server would sleep between
/// its requests and be charged for being woken, 6.8 us a request where it takes 4.7 when it is busy.
fn agrees_with_wrk(trial: &Trial<'_>) -> Result<Finding, Failure> {
    const TOLERANCE: f64 = 0.05;
    beside_wrk(trial, &["--sums", "10"], |own, of_wrk| {
        let cost = median(own.server.clone());
        let (server, rate) = (ratio(&own.server, &of_wrk.server), ratio(&own.per_second, &of_wrk.per_second));
        let holds = is_near(server, 1.0, TOLERANCE) && is_near(rate, 1.0, TOLERANCE);
        let said = format!(
            "of what wrk finds: server's CPU time {server:.3} ({cost:.2} us a request), requests a second {rate:.3}; \
             each for 1 +- {TOLERANCE}"
        );
        Finding::of(holds, said)
    })
}

/// Windows of one generator: microseconds a request of the server and of the generator itself, and requests a second.
#[derive(Default)]
struct Windows {
    server: Vec<f64>,
    generator: Vec<f64>,
    per_second: Vec<f64>,
}

impl Windows {
    fn push(&mut self, completed: f64, seconds: f64, server: f64, generator: f64) {
        self.server.push(server * 1e6 / completed);
        self.generator.push(generator * 1e6 / completed);
        self.per_second.push(completed / seconds);
    }
}

/// A closed loop by this generator and by wrk, by turns, judged by `finding`.
fn beside_wrk(
    trial: &Trial<'_>,
    burden: &[&str],
    finding: impl FnOnce(Windows, Windows) -> Finding,
) -> Result<Finding, Failure> {
    let program = match trial.place().find("wrk", WRK_INSTALL) {
        Ok(program) => program,
        Err(why) => return Ok(Finding::skipped(&why)),
    };
    let server = trial.bare(burden)?;
    let (mut own, mut of_wrk) = (Windows::default(), Windows::default());
    by_turns(
        trial.options.rounds,
        || own_window(trial, &server, &mut own),
        || wrk_window(trial, &program, &server, &mut of_wrk),
    )?;
    Ok(finding(own, of_wrk))
}

fn own_window(trial: &Trial<'_>, server: &Server, windows: &mut Windows) -> Result<(), Failure> {
    let found = trial.measure(server, &trial.load(server.address, CONNECTIONS, Pace::Closed))?;
    let (spent, own) = (found.server_cpu.as_secs_f64(), found.generator_cpu.as_secs_f64());
    windows.push(found.completed as f64, found.seconds, spent, own);
    Ok(())
}

fn wrk_window(
    trial: &Trial<'_>,
    program: &Path,
    server: &Server,
    windows: &mut Windows,
) -> Result<(), Failure> {
    let (processor, seconds) = (trial.options.load_cpu, trial.options.seconds);
    let before = server.cpu();
    let found = wrk(program, processor, server.address, CONNECTIONS, seconds)?;
    let spent = (server.cpu() - before).as_secs_f64();
    windows.push(found.completed as f64, seconds.into(), spent, found.cpu_seconds);
    Ok(())
}

/// The latency of answers that take 20 ms is the same in an open loop by oha.
///
/// Its clock has a wheel of milliseconds: of answers that take microseconds it would show that.
fn agrees_with_oha(trial: &Trial<'_>) -> Result<Finding, Failure> {
    const TOLERANCE: f64 = 0.10;
    const PER_SECOND: f64 = 500.0;
    let program = match trial.place().find("oha", OHA_INSTALL) {
        Ok(program) => program,
        Err(why) => return Ok(Finding::skipped(&why)),
    };
    let server = trial.bare(&["--delay-us", "20000"])?;
    let load = trial.load(server.address, CONNECTIONS, Pace::Open { per_second: PER_SECOND });
    let own = || {
        let found = trial.measure(&server, &load)?;
        Ok([0.5, 0.99].map(|quantile| milliseconds(&found, quantile)))
    };
    let (processor, seconds) = (trial.options.load_cpu, trial.options.seconds);
    let of_oha = || oha(&program, processor, server.address, (CONNECTIONS, PER_SECOND), seconds);
    let (own, of_oha) = by_turns(trial.options.rounds, own, of_oha)?;
    let mut holds = true;
    let figures = [0, 1].map(|at| {
        let [own, of_oha] =
            [&own, &of_oha].map(|windows| median(windows.iter().map(|window| window[at]).collect()));
        holds &= is_near(own, of_oha, TOLERANCE);
        format!("p{} {own:.2} ms, oha {of_oha:.2}", [50, 99][at])
    });
    Ok(Finding::of(holds, format!("{}, {:.0} %", figures.join("; "), TOLERANCE * 100.0)))
}

/// Windows of both sides, A B B A A B ...
fn by_turns<T>(
    rounds: usize,
    mut one: impl FnMut() -> Result<T, Failure>,
    mut other: impl FnMut() -> Result<T, Failure>,
) -> Result<(Vec<T>, Vec<T>), Failure> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            ones.push(one()?);
            others.push(other()?);
        } else {
            others.push(other()?);
            ones.push(one()?);
        }
    }
    Ok((ones, others))
}

/// The median of the ratios round by round, as in the reports.
fn ratio(ones: &[f64], others: &[f64]) -> f64 {
    median(ones.iter().zip(others).map(|(one, other)| one / other).collect())
}
