//! Other generators, asked for the same load: what they count, and what they take themselves.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use rustix::param::clock_ticks_per_second;
use serde_json::Value;

use crate::turns::Failure;

/// What wrk came to.
pub struct Wrk {
    pub completed: u64,
    /// User and system time of wrk itself.
    pub cpu_seconds: f64,
}

/// A closed loop by wrk, pinned to this processor.
pub fn wrk(
    program: &Path,
    processor: usize,
    address: SocketAddr,
    connections: usize,
    seconds: u16,
) -> Result<Wrk, Failure> {
    let arguments = ["-t1".to_owned(), format!("-c{connections}"), format!("-d{seconds}s")];
    let before = of_children()?;
    let said = output(program, processor, address, &arguments)?;
    let cpu_seconds = of_children()? - before;
    let completed = said.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
    let has_errors = said.contains("Non-2xx") || said.contains("Socket errors");
    match completed {
        Some(completed) if !has_errors => Ok(Wrk { completed, cpu_seconds }),
        _ => Err(format!("wrk says: {said}").into()),
    }
}

/// An open loop by oha, pinned to this processor: p50 and p99 in milliseconds.
pub fn oha(
    program: &Path,
    processor: usize,
    address: SocketAddr,
    (connections, per_second): (usize, f64),
    seconds: u16,
) -> Result<[f64; 2], Failure> {
    let mut arguments = vec!["--latency-correction", "--no-tui", "--output-format", "json"];
    let (load, length) = ([format!("-c{connections}"), format!("-q{per_second}")], format!("-z{seconds}s"));
    arguments.extend(load.iter().map(String::as_str));
    arguments.push(&length);
    let said = output(program, processor, address, &arguments)?;
    let report: Value = serde_json::from_str(&said)?;
    let percentile = |name: &str| report["latencyPercentiles"][name].as_f64().map(|seconds| seconds * 1e3);
    match (percentile("p50"), percentile("p99"), report["summary"]["successRate"].as_f64()) {
        (Some(p50), Some(p99), Some(1.0)) => Ok([p50, p99]),
        _ => Err(format!("oha says: {said}").into()),
    }
}

fn output(
    program: &Path,
    processor: usize,
    address: SocketAddr,
    arguments: &[impl AsRef<std::ffi::OsStr>],
) -> Result<String, Failure> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &processor.to_string()]).arg(program).args(arguments);
    let output = command.arg(format!("http://{address}/")).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{}: {said}{}", program.display(), String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// Seconds of the processor that the children of this process have taken that have ended.
fn of_children() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold anything: cutime and cstime are the 16th and 17th field, the state is the third.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(13).take(2);
    let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / clock_ticks_per_second() as f64)
}
