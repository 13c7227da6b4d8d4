//! Other load generators with the same load: their counts and their own CPU time.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use loadtest::turns::RunError;
use rustix::param::clock_ticks_per_second;
use serde_json::Value;

/// The result of a run of wrk.
pub struct WrkResult {
    pub completed: u64,
    /// User and system time of wrk itself.
    pub cpu_seconds: f64,
}

/// Runs a closed loop with wrk, pinned to this CPU.
pub fn wrk(
    program: &Path,
    processor: usize,
    address: SocketAddr,
    connections: usize,
    seconds: u16,
) -> Result<WrkResult, RunError> {
    let arguments = ["-t1".to_owned(), format!("-c{connections}"), format!("-d{seconds}s")];
    let before = children_cpu_seconds()?;
    let text = output(program, processor, address, &arguments)?;
    let cpu_seconds = children_cpu_seconds()? - before;
    let completed = text.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
    let has_errors = text.contains("Non-2xx") || text.contains("Socket errors");
    match completed {
        Some(completed) if !has_errors => Ok(WrkResult { completed, cpu_seconds }),
        _ => Err(format!("unexpected output of wrk: {text}").into()),
    }
}

/// Runs an open loop with oha, pinned to this CPU. Returns p50 and p99 in milliseconds.
pub fn oha(
    program: &Path,
    processor: usize,
    address: SocketAddr,
    (connections, per_second): (usize, f64),
    seconds: u16,
) -> Result<[f64; 2], RunError> {
    let mut arguments = vec!["--latency-correction", "--no-tui", "--output-format", "json"];
    let (load, length) = ([format!("-c{connections}"), format!("-q{per_second}")], format!("-z{seconds}s"));
    arguments.extend(load.iter().map(String::as_str));
    arguments.push(&length);
    let text = output(program, processor, address, &arguments)?;
    let report: Value = serde_json::from_str(&text)?;
    let percentile = |name: &str| report["latencyPercentiles"][name].as_f64().map(|seconds| seconds * 1e3);
    match (percentile("p50"), percentile("p99"), report["summary"]["successRate"].as_f64()) {
        (Some(p50), Some(p99), Some(1.0)) => Ok([p50, p99]),
        _ => Err(format!("unexpected output of oha: {text}").into()),
    }
}

fn output(
    program: &Path,
    processor: usize,
    address: SocketAddr,
    arguments: &[impl AsRef<std::ffi::OsStr>],
) -> Result<String, RunError> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &processor.to_string()]).arg(program).args(arguments);
    let output = command.arg(format!("http://{address}/")).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{}: {text}{}", program.display(), String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// Returns the CPU seconds of this process's ended children.
fn children_cpu_seconds() -> Result<f64, RunError> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name before `) ` may contain anything. State is the third field, cutime and cstime are the 16th and
    // 17th.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(13).take(2);
    let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / clock_ticks_per_second() as f64)
}
