//! The load generator: it starts servers, puts the same load on each by turns, and reports the cost of a request.
//!
//! The package `compare` uses it for other servers.

mod buffers;
pub mod cli;
#[path = "../../benches/bench/content.rs"]
mod content;
#[path = "../../benches/bench/event.rs"]
mod event;
pub mod exchange;
pub mod fill;
pub mod floor;
pub mod load;
pub mod outcome;
pub mod plans;
pub mod process;
mod progress;
pub mod report;
pub mod request;
pub mod servers;
#[path = "../../benches/bench/site.rs"]
pub mod site;
pub mod turns;

use std::io::Write;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::report::{Report, table};
use self::turns::RunError;

/// Runs a program with the highest limit on descriptors, and prints its error.
pub fn run_program(run: impl FnOnce() -> Result<ExitCode, RunError>) -> ExitCode {
    raise_descriptor_limit();
    run().unwrap_or_else(|failure| {
        // If standard error is closed, the message is lost.
        let _ = writeln!(std::io::stderr(), "error: {failure}");
        ExitCode::FAILURE
    })
}

/// Prints a report. A void report is a failure.
pub fn print_report(report: &Report) -> Result<ExitCode, RunError> {
    std::io::stdout().write_all(table(report).as_bytes())?;
    Ok(if report.is_void() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Raises the limit on descriptors to the hard limit, for this process and its children.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit is too low, opening a connection fails with an error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
