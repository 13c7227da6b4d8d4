//! Two loads by `wrk`, by turns: the server's CPU time per request of each.

use std::ffi::OsStr;
use std::process::Command;

use crate::child::Child;

const WARM_SECONDS: u32 = 2;
/// Unit of times in `/proc/PID/stat`: USER_HZ, which is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A load: its requests and its measurement.
pub struct Load {
    pub connections: u32,
    /// Windows per load, by turns, so that drift of the machine affects both. Odd, so that one window is the
    /// median.
    pub rounds: usize,
    pub window_seconds: u32,
    /// The request target.
    pub target: &'static str,
    /// Returns the wrk script for the window of this number, instead of a plain GET.
    pub script: Option<fn(usize) -> String>,
}

impl Load {
    /// Runs `wrk` for one window. Returns the completed requests and the server's seconds of CPU time.
    fn run(&self, server: &Child, window: usize, seconds: u32) -> (u64, f64) {
        let script = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut wrk = pinned(1, "wrk");
        wrk.args(["-t1", &format!("-c{}", self.connections), &format!("-d{seconds}s")]);
        if let Some(text) = self.script {
            std::fs::write(script.path(), text(window)).expect("written");
            wrk.arg("-s").arg(script.path());
        }
        wrk.arg(format!("http://{}{}", server.address, self.target));
        let before = ticks(server);
        let wrk = wrk.output().expect("taskset is there");
        let spent = (ticks(server) - before) as f64 / TICKS_PER_SECOND;
        let output = String::from_utf8_lossy(&wrk.stdout);
        let has_errors = output.contains("Non-2xx") || output.contains("Socket errors");
        assert!(wrk.status.success() && !has_errors, "{output}{}", String::from_utf8_lossy(&wrk.stderr));
        let count = output.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
        (count.unwrap_or_else(|| panic!("no count in {output}")), spent)
    }
}

/// Measures two loads by turns. Returns microseconds of CPU time per request of each, in ascending order, and
/// the number of completed requests of the first.
pub fn compare(loads: [(&Load, &Child); 2]) -> ([Vec<f64>; 2], u64) {
    let (mut costs, mut answered) = ([Vec::new(), Vec::new()], [0, 0]);
    for at in [0, 1] {
        answered[at] += loads[at].0.run(loads[at].1, 0, WARM_SECONDS).0;
    }
    for round in 0..loads[0].0.rounds {
        // A B, B A, A B ...
        for at in [round % 2, 1 - round % 2] {
            let (load, server) = loads[at];
            let (count, seconds) = load.run(server, round + 1, load.window_seconds);
            answered[at] += count;
            costs[at].push(seconds * 1e6 / count as f64);
        }
    }
    costs.iter_mut().for_each(|costs| costs.sort_by(f64::total_cmp));
    (costs, answered[0])
}

/// Prints the two loads, and the ratio of the medians.
pub fn print_comparison(what: &str, bytes: usize, names: [&str; 2], costs: &[Vec<f64>; 2]) {
    println!("{what}: {bytes} bytes per response; microseconds of CPU time per request");
    println!("{:<10} {:>8} {:>8} {:>8}", "", "median", "min", "max");
    let medians = [0, 1].map(|at| {
        let (costs, name) = (&costs[at], names[at]);
        let (median, least, most) = (costs[costs.len() / 2], costs[0], costs[costs.len() - 1]);
        println!("{name:<10} {median:>8.2} {least:>8.2} {most:>8.2}");
        median
    });
    println!("{:<10} {:>8.2}", "ratio", medians[0] / medians[1]);
}

fn ticks(server: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).expect("it runs");
    // The name before `) ` may contain anything. State is the third field, utime and stime are the 14th and
    // 15th.
    let fields = stat.rsplit(") ").next().expect("fields").split(' ');
    fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum()
}

/// Returns a command that runs a program on one CPU.
pub fn pinned(cpu: usize, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(program);
    command
}
