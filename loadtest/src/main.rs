//! Loads Parallax and what one would use instead of it, side by side, and says what each request costs.

mod buffers;
mod cli;
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
mod process;
mod progress;
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

use self::cli::{Command, Typed};
use self::report::{Report, table};
use self::turns::Failure;

fn main() -> ExitCode {
    allow_descriptors();
    match run(&Typed::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            // Where standard error is closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::ResolveForced(common) => show(&plans::resolve_forced(common)?),
        Command::ResolveDecided(known) => show(&plans::resolve_decided(known)?),
        Command::ResolveGzip(common) => show(&plans::resolve_gzip(common)?),
        Command::Variants(known) => show(&plans::variants(known)?),
        Command::Routes(common) => show(&plans::routes(common)?),
        Command::Query(common) => show(&plans::query(common)?),
        Command::Page(common) => show(&plans::page(common)?),
        Command::TrackBatch(batch) => show(&plans::track_batch(batch)?),
        Command::Mixed(mixed) => show(&plans::mixed(mixed)?),
        Command::Reload(common) => show(&plans::reload(common)?),
        Command::Idle10k(idle) => show(&plans::idle_10k(idle)?),
        Command::Compare(given) => show(&compare::compare(given)?),
        Command::Floor(bare) => bare.serve(),
        Command::Prove(options) => prove::prove(options),
    }
}

/// Prints a report; a void one is a failure.
fn show(report: &Report) -> Result<ExitCode, Failure> {
    std::io::stdout().write_all(table(report).as_bytes())?;
    Ok(if report.is_void() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// As many as the operator allows, for this process and those that it starts.
fn allow_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where they do not suffice, opening a connection says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
