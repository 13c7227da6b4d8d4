//! Compares Parallax with other servers under the same load, and checks the load generator itself.

mod args;
mod contest;
mod html;
mod peers;
mod prepared;
mod programs;
mod prove;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use loadtest::cli::FloorArgs;
use loadtest::{print_report, run_program};

use self::args::CompareArgs;
use self::prepared::PreparedArgs;
use self::prove::ProveArgs;

const AFTER_HELP: &str = "\
  cargo run --release -p compare                            # all comparisons
  cargo run --release -p compare -- pages --only nginx      # a page from Parallax and nginx
  cargo run --release -p compare -- prove                   # checks that the load generator measures correctly

Each run of comparisons writes report.json, report.html and pictures to --out.";

/// Compare Parallax with nginx, h2o, haproxy, webdis with redis-server, workerd and Unleash Edge, as far as
/// installed.
///
/// All servers send the same bytes: at full load, on one connection, and at half load. Further comparisons: a
/// page decided for known visitors, and events that are on disk before the response. The configuration files
/// written for the servers stay in --out. For a server that is not installed, the run prints the command that
/// installs it.
#[derive(Debug, Parser)]
#[command(name = "compare", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    args: CompareArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the bare server, the reference of the comparisons: it sends the same bytes to every request.
    Floor(FloorArgs),
    /// Run the prepared monoio server, the second reference: the runtime of Parallax with a fixed response.
    Prepared(PreparedArgs),
    /// Check the load generator with loads of known cost and with other load generators; fails if a figure is
    /// out of its bounds.
    Prove(ProveArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    run_program(|| match &cli.command {
        None => print_report(&run::compare(&cli.args)?),
        Some(Command::Floor(floor)) => floor.serve(),
        Some(Command::Prepared(prepared)) => prepared.serve(),
        Some(Command::Prove(args)) => prove::prove(args),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
