//! Measures Parallax and its alternatives under the same load, and reports the cost of each request.

mod buffers;
mod cli;
#[cfg(feature = "compare")]
mod compare;
#[path = "../../benches/bench/content.rs"]
mod content;
#[path = "../../benches/bench/event.rs"]
mod event;
mod exchange;
mod fill;
mod floor;
mod load;
mod outcome;
mod plans;
mod prepared;
mod process;
mod progress;
#[cfg(feature = "compare")]
mod prove;
mod report;
mod request;
mod servers;
#[path = "../../benches/bench/site.rs"]
mod site;
mod turns;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::cli::{Cli, Command};
use self::report::{Report, table};
use self::turns::RunError;

fn main() -> ExitCode {
    raise_descriptor_limit();
    match run(&Cli::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            // If standard error is closed, the message is lost.
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, RunError> {
    match command {
        Command::ResolveForced(common) => print_report(&plans::resolve_forced(common)?),
        Command::ResolveDecided(args) => print_report(&plans::resolve_decided(args)?),
        Command::ResolveGzip(common) => print_report(&plans::resolve_gzip(common)?),
        Command::Variants(args) => print_report(&plans::variants(args)?),
        Command::Routes(common) => print_report(&plans::routes(common)?),
        Command::Query(common) => print_report(&plans::query(common)?),
        Command::Page(common) => print_report(&plans::page(common)?),
        Command::TrackBatch(batch) => print_report(&plans::track_batch(batch)?),
        Command::Mixed(mixed) => print_report(&plans::mixed(mixed)?),
        Command::Reload(common) => print_report(&plans::reload(common)?),
        Command::Idle10k(idle) => print_report(&plans::idle_10k(idle)?),
        #[cfg(feature = "compare")]
        Command::Compare(args) => print_report(&compare::compare(args)?),
        Command::Floor(bare) => bare.serve(),
        Command::Prepared(prepared) => prepared.serve(),
        #[cfg(feature = "compare")]
        Command::Prove(args) => prove::prove(args),
    }
}

/// Prints a report. A void report is a failure.
fn print_report(report: &Report) -> Result<ExitCode, RunError> {
    std::io::stdout().write_all(table(report).as_bytes())?;
    Ok(if report.is_void() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Raises the limit on descriptors to the hard limit, for this process and its children.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit is too low, opening a connection fails with an error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
