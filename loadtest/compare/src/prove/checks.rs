//! The checks of the harness, except the one of stalls.

use std::path::Path;

use loadtest::load::Pace;
use loadtest::process::Server;
use loadtest::turns::RunError;

use super::others::{oha, wrk};
use super::stall::stall;
use super::{CheckContext, CheckResult, is_near, median, milliseconds};

type Check = fn(&CheckContext<'_>) -> Result<CheckResult, RunError>;

/// Names of the checks on the command line, in the order of [`ALL`].
pub const NAMES: [&str; 6] = ["stall", "null", "delay", "cheaper", "wrk", "oha"];
pub const ALL: [Check; 6] = [stall, null, delay, is_cheaper_than_wrk, agrees_with_wrk, agrees_with_oha];

const WRK_INSTALL: &str = "apt-get install wrk";
const OHA_INSTALL: &str = "cargo install oha --locked";
/// Connections of a closed loop, as in the performance goals.
const CONNECTIONS: usize = 64;

/// Checks that one server has the same cost on both sides.
fn null(context: &CheckContext<'_>) -> Result<CheckResult, RunError> {
    const TOLERANCE: f64 = 0.03;
    // On a shared machine the cost varies between windows by twice the tolerance. More rounds make up for it.
    const MORE_ROUNDS: usize = 3;
    let server = context.start_floor(&[])?;
    let load = context.load(server.address, CONNECTIONS, Pace::Closed);
    let cost = || Ok(context.measure(&server, &load)?.server_us_per_request());
    let (one, other) = interleave(context.options.rounds * MORE_ROUNDS, cost, cost)?;
    let ratio = ratio(&one, &other);
    Ok(CheckResult::of(
        is_near(ratio, 1.0, TOLERANCE),
        format!("cost ratio {ratio:.3}, expected 1 +- {TOLERANCE}"),
    ))
}

/// Checks that an artificial delay appears in the latency, in addition to the latency without it.
fn delay(context: &CheckContext<'_>) -> Result<CheckResult, RunError> {
    const DELAY_MS: f64 = 2.0;
    const TOLERANCE: f64 = 0.05;
    let (at_once, late) = (context.start_floor(&[])?, context.start_floor(&["--delay-us", "2000"])?);
    let p50 = |server: &Server| {
        let load = context.load(server.address, 1, Pace::Closed);
        Ok::<_, RunError>(milliseconds(&context.measure(server, &load)?, 0.5))
    };
    let (before, delayed) = interleave(context.options.rounds, || p50(&at_once), || p50(&late))?;
    let (before, found) = (median(before), median(delayed));
    let truth = before + DELAY_MS;
    let text = format!(
        "p50 {found:.3} ms, expected {truth:.3} (2 ms more than {before:.3} without delay) +- {:.0} %",
        TOLERANCE * 100.0
    );
    Ok(CheckResult::of(is_near(found, truth, TOLERANCE), text))
}

/// Checks that the generator uses less CPU time per request than wrk, both at full speed of the bare server.
fn is_cheaper_than_wrk(context: &CheckContext<'_>) -> Result<CheckResult, RunError> {
    compare_with_wrk(context, &[], |own, of_wrk| {
        let (own, of_wrk) = (median(own.generator), median(of_wrk.generator));
        CheckResult::of(own < of_wrk, format!("{own:.2} us per request, wrk {of_wrk:.2}"))
    })
}

/// Checks that the server's CPU time per request and its rate are the same under wrk and under this
/// generator.
///
/// The server does extra work, so that both generators are faster than it. Otherwise wrk would be the slower
/// part. The server would sleep between requests and pay for its wake-ups: 6.8 us per request, against 4.7 us
/// when it is busy.
fn agrees_with_wrk(context: &CheckContext<'_>) -> Result<CheckResult, RunError> {
    const TOLERANCE: f64 = 0.05;
    compare_with_wrk(context, &["--sums", "10"], |own, of_wrk| {
        let cost = median(own.server.clone());
        let (server, rate) = (ratio(&own.server, &of_wrk.server), ratio(&own.per_second, &of_wrk.per_second));
        let holds = is_near(server, 1.0, TOLERANCE) && is_near(rate, 1.0, TOLERANCE);
        let text = format!(
            "ratios to wrk's figures: server CPU time {server:.3} ({cost:.2} us per request), requests per second \
             {rate:.3}; expected 1 +- {TOLERANCE}"
        );
        CheckResult::of(holds, text)
    })
}

/// The windows of one generator: microseconds per request of the server and of the generator, and requests
/// per second.
#[derive(Default)]
struct GeneratorWindows {
    server: Vec<f64>,
    generator: Vec<f64>,
    per_second: Vec<f64>,
}

impl GeneratorWindows {
    fn push(&mut self, completed: f64, seconds: f64, server: f64, generator: f64) {
        self.server.push(server * 1e6 / completed);
        self.generator.push(generator * 1e6 / completed);
        self.per_second.push(completed / seconds);
    }
}

/// Runs a closed loop of this generator and of wrk by turns, and evaluates both with `finding`.
fn compare_with_wrk(
    context: &CheckContext<'_>,
    flags: &[&str],
    finding: impl FnOnce(GeneratorWindows, GeneratorWindows) -> CheckResult,
) -> Result<CheckResult, RunError> {
    let program = match context.find("wrk", WRK_INSTALL) {
        Ok(program) => program,
        Err(reason) => return Ok(CheckResult::skipped(&reason)),
    };
    let server = context.start_floor(flags)?;
    let (mut own, mut of_wrk) = (GeneratorWindows::default(), GeneratorWindows::default());
    interleave(
        context.options.rounds,
        || own_window(context, &server, &mut own),
        || wrk_window(context, &program, &server, &mut of_wrk),
    )?;
    Ok(finding(own, of_wrk))
}

fn own_window(
    context: &CheckContext<'_>,
    server: &Server,
    windows: &mut GeneratorWindows,
) -> Result<(), RunError> {
    let found = context.measure(server, &context.load(server.address, CONNECTIONS, Pace::Closed))?;
    let (server_seconds, own) = (found.server_cpu.as_secs_f64(), found.generator_cpu.as_secs_f64());
    windows.push(found.completed as f64, found.seconds, server_seconds, own);
    Ok(())
}

fn wrk_window(
    context: &CheckContext<'_>,
    program: &Path,
    server: &Server,
    windows: &mut GeneratorWindows,
) -> Result<(), RunError> {
    let (processor, seconds) = (context.options.load_cpu, context.options.seconds);
    let before = server.cpu();
    let found = wrk(program, processor, server.address, CONNECTIONS, seconds)?;
    let server_seconds = (server.cpu() - before).as_secs_f64();
    windows.push(found.completed as f64, seconds.into(), server_seconds, found.cpu_seconds);
    Ok(())
}

/// Checks that the latency of responses that take 20 ms is the same as in an open loop of oha.
///
/// oha's timer has a resolution of a millisecond, so shorter responses would measure the timer.
fn agrees_with_oha(context: &CheckContext<'_>) -> Result<CheckResult, RunError> {
    const TOLERANCE: f64 = 0.10;
    const PER_SECOND: f64 = 500.0;
    let program = match context.find("oha", OHA_INSTALL) {
        Ok(program) => program,
        Err(reason) => return Ok(CheckResult::skipped(&reason)),
    };
    let server = context.start_floor(&["--delay-us", "20000"])?;
    let load = context.load(server.address, CONNECTIONS, Pace::Open { per_second: PER_SECOND });
    let own = || {
        let found = context.measure(&server, &load)?;
        Ok([0.5, 0.99].map(|quantile| milliseconds(&found, quantile)))
    };
    let (processor, seconds) = (context.options.load_cpu, context.options.seconds);
    let of_oha = || oha(&program, processor, server.address, (CONNECTIONS, PER_SECOND), seconds);
    let (own, of_oha) = interleave(context.options.rounds, own, of_oha)?;
    let mut holds = true;
    let figures = [0, 1].map(|at| {
        let [own, of_oha] =
            [&own, &of_oha].map(|windows| median(windows.iter().map(|window| window[at]).collect()));
        holds &= is_near(own, of_oha, TOLERANCE);
        format!("p{} {own:.2} ms, oha {of_oha:.2}", [50, 99][at])
    });
    Ok(CheckResult::of(
        holds,
        format!("{}; expected the same +- {:.0} %", figures.join("; "), TOLERANCE * 100.0),
    ))
}

/// Runs the windows of both sides in the order A B B A A B ...
fn interleave<T>(
    rounds: usize,
    mut one: impl FnMut() -> Result<T, RunError>,
    mut other: impl FnMut() -> Result<T, RunError>,
) -> Result<(Vec<T>, Vec<T>), RunError> {
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

/// Returns the median of the ratios of each round, as in the reports.
fn ratio(ones: &[f64], others: &[f64]) -> f64 {
    median(ones.iter().zip(others).map(|(one, other)| one / other).collect())
}
