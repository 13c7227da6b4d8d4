//! The options of a comparison.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use loadtest::cli::{CommonArgs, power_of_ten};
use loadtest::turns::RunError;

use crate::programs::parse_program;

/// The options of a comparison.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Run only these comparisons.
    #[arg(value_enum, value_name = "COMPARISON")]
    pub comparisons: Vec<ComparisonKind>,
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run only these peers, separated by commas.
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = PEERS)]
    pub only: Vec<String>,
    /// Use few visitors and short windows. This only shows that everything works; the figures mean nothing.
    #[arg(long)]
    pub quick: bool,
    /// Number of visitors known before the first request, a power of ten [default: 1000000; 10000 with
    /// --quick].
    #[arg(long, value_name = "N", value_parser = power_of_ten)]
    visitors: Option<u64>,
    /// Path of a peer's program that is not in PATH, as in workerd=node_modules/.bin/workerd.
    #[arg(long = "program", value_name = "NAME=FILE", value_parser = parse_program)]
    pub programs: Vec<(String, PathBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ComparisonKind {
    /// A page with forced variants, also sent by static servers: at full load, on one connection, at half
    /// load.
    Pages,
    /// A page decided for known visitors, also sent by the prepared monoio server.
    Decided,
    /// An event on disk, with the bare server, on 256 connections.
    Durable,
    /// An event on disk, with webdis and redis-server, on 32 connections.
    Events,
}

/// Window length and rounds with `--quick`: too few for figures to believe.
const QUICK_SECONDS: f64 = 0.5;
const QUICK_ROUNDS: usize = 2;
/// The servers that Parallax is compared with, besides those of this program.
const PEERS: [&str; 6] = ["nginx", "h2o", "haproxy", "webdis", "workerd", "unleash-edge"];

impl CompareArgs {
    /// Refuses the options of a load, because each comparison sets its own.
    pub fn validate(&self) -> Result<(), RunError> {
        let CommonArgs { connections, depth, rate, busy_poll_us, .. } = &self.common;
        if connections.is_none() && depth.is_none() && rate.is_none() && busy_poll_us.is_none() {
            return Ok(());
        }
        Err("compare sets the load itself; remove --connections, --depth, --rate and --busy-poll-us".into())
    }

    pub fn visitors(&self) -> u64 {
        self.visitors.unwrap_or(if self.quick { 10_000 } else { 1_000_000 })
    }

    pub fn window(&self) -> Duration {
        Duration::from_secs_f64(if self.quick { QUICK_SECONDS } else { self.common.seconds })
    }

    pub fn rounds(&self) -> usize {
        if self.quick { QUICK_ROUNDS } else { self.common.rounds }
    }

    /// Returns the selected comparisons, in their fixed order.
    pub fn comparisons(&self) -> impl Iterator<Item = ComparisonKind> {
        let all = ComparisonKind::value_variants().iter().copied();
        all.filter(|one| self.comparisons.is_empty() || self.comparisons.contains(one))
    }

    /// Returns whether `server` takes part. A server that is not in [`PEERS`] always does.
    pub fn includes(&self, server: &str) -> bool {
        self.only.is_empty() || !PEERS.contains(&server) || self.only.iter().any(|only| only == server)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Cli;

    #[test]
    fn a_comparison_has_the_selected_peers_and_always_the_servers_of_this_program() {
        let parse = |words: &str| {
            let cli = Cli::try_parse_from(words.split(' ')).expect("good words");
            assert!(cli.command.is_none(), "{words}");
            cli.args
        };
        let args = parse("compare events pages --only nginx,h2o --quick");
        assert_eq!(args.comparisons().collect::<Vec<_>>(), [ComparisonKind::Pages, ComparisonKind::Events]);
        let included = ["floor", "prepared", "nginx", "h2o", "webdis"].map(|name| args.includes(name));
        assert_eq!((included, args.visitors()), ([true, true, true, true, false], 10_000));
        assert!(args.validate().is_ok() && parse("compare --depth 2").validate().is_err());
        let args = parse("compare");
        assert!(args.comparisons().count() == 4 && args.includes("webdis") && args.visitors() == 1_000_000);
        assert!(Cli::try_parse_from(["compare", "--only", "apache"]).is_err());
    }
}
