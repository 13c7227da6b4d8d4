//! The command line: a subcommand for each plan, and the options that plans share.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::floor::{self, ExtraWork};
use crate::turns::{ROUNDS_MIN, RunError};

const AFTER_HELP: &str = "\
Server and generator are each pinned to a CPU. The sides take turns, A B B A, so that drift of the machine
affects all of them. On a machine that does other work, trust the ratios and not the microseconds.

  cargo run --release -p loadtest -- resolve-forced
  cargo run --release -p loadtest -- resolve-decided --visitors 100000 --rounds 7
  cargo run --release -p loadtest -- variants --rate 20000    # open loop, for latency
  cargo run --release -p compare                              # with nginx and other servers

Each run writes report.json to --out.";

/// Measure Parallax under load, and report the cost of each request.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// GET a page of 8 KB with forced variants: no decision, no visitor.
    ResolveForced(CommonArgs),
    /// GET a page of 8 KB decided for known visitors, compared with the same page forced.
    ///
    /// The page has three personalized zones, the site ten audiences. The run first posts two page views and
    /// a trait of each visitor, which takes a while for a million visitors.
    ResolveDecided(VisitorArgs),
    /// GET a forced page as gzip, compared with the same page uncompressed.
    ResolveGzip(CommonArgs),
    /// GET only the decision for known visitors, one request at a time, compared with 16 pipelined requests
    /// (--depth).
    Variants(VisitorArgs),
    /// GET the list of all 100 routes of the site.
    Routes(CommonArgs),
    /// Run a content query over 1,020 items with precomputed results, compared with one that scans every
    /// item.
    ///
    /// Both responses have twelve items and are about as long as a page.
    Query(CommonArgs),
    /// POST a page view of 500 bytes, acknowledged when it is on disk.
    ///
    /// The server writes its log under --out. Choose a directory on the disk that you want to measure.
    Page(CommonArgs),
    /// POST a batch of events of 500 bytes each, acknowledged when all are on disk.
    TrackBatch(BatchArgs),
    /// Replay the visits of a public blog: for each page view a resolve for its visitor, then the page event.
    ///
    /// The sequence of pages and visitors is that of apache-access-log, one of the public cases in
    /// PARALLAX_CASES.
    Mixed(MixedArgs),
    /// Publish a version each second under load, compared with the same load without publishing.
    ///
    /// Checks every response completely: none may mix two versions. Without --rate the load is an open loop
    /// at half of the maximum rate.
    Reload(CommonArgs),
    /// Latency of active connections with and without 10,000 idle connections, and the memory of an idle
    /// connection.
    ///
    /// Without --rate the load is an open loop at half of the maximum rate. Needs about 10,200 file
    /// descriptors.
    #[command(name = "idle-10k")]
    Idle10k(IdleArgs),
    /// Run the bare server, the reference of the other plans: it sends the same bytes to every request.
    Floor(FloorArgs),
}

/// The options of plans with known visitors.
#[derive(Args, Clone, Debug)]
pub struct VisitorArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Number of visitors known before the first request, a power of ten.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = power_of_ten)]
    pub visitors: u64,
    /// Directory for the log. It is kept, so the next run finds its visitors known [default: a temporary
    /// directory].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub struct BatchArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Events per request.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub events: u16,
}

#[derive(Args, Clone, Debug)]
pub struct MixedArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Directory of the public cases.
    #[arg(long, value_name = "DIR", env = "PARALLAX_CASES")]
    pub cases: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub struct IdleArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Number of idle connections.
    #[arg(long, value_name = "N", default_value = "10000")]
    pub idle: NonZeroUsize,
}

#[derive(Args, Clone, Debug)]
pub struct FloorArgs {
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// File with the complete response, including the status line.
    #[arg(long, value_name = "FILE", required_unless_present = "bytes")]
    pub response: Option<PathBuf>,
    /// Send a 200 with a body of this many bytes instead of a file.
    #[arg(long, value_name = "N", conflicts_with = "response")]
    pub bytes: Option<usize>,
    /// Delay of each response after its request, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub delay_us: u64,
    /// Additional CPU work: sum up the response's bytes this many times before sending it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sums: u32,
}

impl FloorArgs {
    /// Serves until the process ends.
    pub fn serve(&self) -> Result<ExitCode, RunError> {
        let response = match &self.response {
            Some(file) => std::fs::read(file)?,
            None => {
                let body = "x".repeat(self.bytes.unwrap_or_default());
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
            }
        };
        let extra_work = ExtraWork { delay: Duration::from_micros(self.delay_us), sums: self.sums };
        floor::run(self.listen, response.leak(), extra_work)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The options that plans share. Options that are not given have the plan's value.
#[derive(Args, Clone, Debug)]
pub struct CommonArgs {
    /// Number of connections [default: 64; 256 for events, 16 for batches].
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub connections: Option<NonZeroUsize>,
    /// Requests that a connection sends at once before it waits for all their responses.
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub depth: Option<NonZeroUsize>,
    /// Open loop: send this many requests per second on a fixed schedule, and measure latency from the time
    /// each request was due [default: a closed loop at full speed].
    #[arg(long, value_name = "PER_SECOND", help_heading = "Load", value_parser = rate)]
    pub rate: Option<f64>,
    /// Length of a window, in seconds.
    #[arg(long, value_name = "S", help_heading = "Load", default_value = "3", value_parser = seconds)]
    pub seconds: f64,
    /// Windows per side, by turns. With fewer than five the median means little.
    #[arg(long, value_name = "N", help_heading = "Load", default_value_t = ROUNDS_MIN, value_parser = rounds)]
    pub rounds: usize,
    /// CPU for the servers.
    #[arg(long, value_name = "N", help_heading = "Machine", default_value_t = 0)]
    pub server_cpu: usize,
    /// CPU for the load generator.
    #[arg(long, value_name = "N", help_heading = "Machine", default_value_t = 1)]
    pub load_cpu: usize,
    /// Path of the parallax program [default: build it from this workspace].
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub parallax: Option<PathBuf>,
    /// The server's --driver: auto, uring or epoll.
    #[arg(long, value_name = "DRIVER", help_heading = "Server")]
    pub driver: Option<String>,
    /// The server's --busy-poll-us: time to poll before sleeping, in microseconds.
    #[arg(long, value_name = "US", help_heading = "Server")]
    pub busy_poll_us: Option<u32>,
    /// Reference server to compare with.
    #[arg(long, value_enum, default_value_t = ReferenceServer::Floor, help_heading = "Server")]
    pub against: ReferenceServer,
    /// Directory for the report and, during the run, site and log [default: target/loadtest/DATE-PLAN].
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReferenceServer {
    /// The bare server, which sends the same bytes and shows the kernel's part of the cost.
    Floor,
    /// Only the sides of the plan.
    None,
}

/// Parses a number of visitors.
pub fn power_of_ten(text: &str) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_power = (1..=8).any(|zeros| number == 10_u64.pow(zeros));
    if is_power { Ok(number) } else { Err("must be a power of ten from 10 to 100000000".to_owned()) }
}

fn rounds(text: &str) -> Result<usize, String> {
    number(text, 1.0, 1_000.0).map(|rounds| rounds as usize)
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 1.0, 10_000_000.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.1, 3_600.0)
}

fn number(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = text.parse().map_err(|_| "not a number".to_owned())?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(format!("must be from {min} to {max}")) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        let parse = |words: &str| Cli::try_parse_from(words.split(' ')).is_ok();
        assert!(parse("loadtest variants --visitors 1000 --rate 1 --seconds 0.5"));
        for wrong in [
            "--visitors 1",
            "--visitors 1500",
            "--rate 0.5",
            "--seconds 0",
            "--seconds NaN",
            "--depth 0",
            "--rounds 0",
        ] {
            assert!(!parse(&format!("loadtest variants {wrong}")), "{wrong}");
        }
    }
}
