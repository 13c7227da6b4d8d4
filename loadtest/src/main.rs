//! Measures Parallax under load, and reports the cost of each request.

use std::process::ExitCode;

use clap::Parser;
use loadtest::cli::{Cli, Command};
use loadtest::turns::RunError;
use loadtest::{plans, print_report, run_program};

fn main() -> ExitCode {
    let cli = Cli::parse();
    run_program(|| run(&cli.command))
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
        Command::Floor(bare) => bare.serve(),
    }
}
