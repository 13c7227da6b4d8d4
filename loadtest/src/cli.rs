//! The words that are typed: a subcommand for each plan, with what it asks in a sentence, and the options that plans share.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::floor::{self, Burden};
use crate::prove::Prove;
use crate::turns::{Failure, ROUNDS_MIN};

const AFTER: &str = "\
Server and generator are pinned to a processor each. Windows go by turns, A B B A, so that what drifts
drifts for all sides: on a machine that does other work believe the ratios, not the microseconds.

  cargo run --release -p loadtest -- resolve-forced
  cargo run --release -p loadtest -- resolve-decided --visitors 100000 --rounds 7
  cargo run --release -p loadtest -- variants --rate 20000    # open loop, for latency
  cargo run --release -p loadtest -- compare                  # beside nginx and the like

Each run leaves report.json and report.html in its folder (--out).";

/// Loads Parallax and what one would use instead of it, side by side, and says what each request costs.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, after_help = AFTER, disable_help_subcommand = true)]
pub struct Typed {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// GET of a page of 8 KB whose variants the request names: no decision, no visitor.
    ResolveForced(Common),
    /// GET of a page of 8 KB decided for known visitors, one after the other; beside it the same page forced.
    ///
    /// Three zones, ten audiences. Each visitor saw two pages and said a trait before: their events are posted first, which
    /// takes a while for a million of them.
    ResolveDecided(Known),
    /// GET of a forced page as gzip; beside it the same page as it is.
    ResolveGzip(Common),
    /// GET of the decision alone for known visitors, one request at a time; beside it 16 pipelined (--depth).
    Variants(Known),
    /// GET of the list of all routes of the site, 100 of them.
    Routes(Common),
    /// A content query over 1,020 items whose answer is known ahead; beside it one that looks at every item.
    ///
    /// Both answer twelve items, about as long as a page.
    Query(Common),
    /// POST of a page view of 500 bytes, answered once it is on disk.
    ///
    /// The log is written to a folder in --out, which is to be on the disk that is meant.
    Page(Common),
    /// POST of a batch of events of 500 bytes each, answered once all are on disk.
    TrackBatch(Batch),
    /// Visits as a public blog had them: for each page view a resolve for its visitor, then the page event.
    ///
    /// The sequence of pages and visitors is that of apache-access-log, one of the public cases that PARALLAX_CASES names.
    Mixed(Mixed),
    /// A version published each second under load, no answer mixed from two; beside it the same load with none.
    ///
    /// Every answer is looked at whole. Without --rate the load is an open loop at half of what the server can.
    Reload(Common),
    /// The latency of active connections beside 10,000 idle ones and without; what an idle one takes in memory.
    ///
    /// Without --rate the load is an open loop at half of what the server can. Needs some 10,200 descriptors.
    #[command(name = "idle-10k")]
    Idle10k(Idle),
    /// Beside nginx, h2o, haproxy, webdis with redis-server, workerd and Unleash Edge, those that are installed.
    ///
    /// The same bytes from each: at full load, on one connection, half busy; a page decided for known visitors; events that are
    /// on disk before they are answered. Their configuration, as it is written here, stays in --out. A peer that is not
    /// installed is named with what installs it.
    Compare(Compare),
    /// Be the bare server that the others are measured beside: the same bytes to whoever asks anything.
    Floor(Bare),
    /// Measure what is known, and what other generators measure as well; fails where a figure is not as it should be.
    Prove(Prove),
}

/// What is asked of known visitors.
#[derive(Args, Clone, Debug)]
pub struct Known {
    #[command(flatten)]
    pub common: Common,
    /// Visitors that are known before the first request, a power of ten.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = power_of_ten)]
    pub visitors: u64,
    /// A folder for the log that is kept, so that the next run finds its visitors known [default: one that goes away].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub struct Batch {
    #[command(flatten)]
    pub common: Common,
    /// Events of a request.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub events: u16,
}

#[derive(Args, Clone, Debug)]
pub struct Mixed {
    #[command(flatten)]
    pub common: Common,
    /// The folder of public cases.
    #[arg(long, value_name = "DIR", env = "PARALLAX_CASES")]
    pub cases: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub struct Idle {
    #[command(flatten)]
    pub common: Common,
    /// Idle connections.
    #[arg(long, value_name = "N", default_value = "10000")]
    pub idle: NonZeroUsize,
}

#[derive(Args, Clone, Debug)]
pub struct Compare {
    /// Only these comparisons.
    #[arg(value_enum, value_name = "COMPARISON")]
    pub comparisons: Vec<Compared>,
    #[command(flatten)]
    pub common: Common,
    /// Only these peers, by commas.
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = PEERS)]
    pub only: Vec<String>,
    /// Few visitors are known, windows are short: to see that all works.
    #[arg(long)]
    pub quick: bool,
    /// Visitors that are known before the first request, a power of ten [default: 1000000; 10000 with --quick].
    #[arg(long, value_name = "N", value_parser = power_of_ten)]
    visitors: Option<u64>,
    /// Where a peer's program is, if not where PATH says: workerd=node_modules/.bin/workerd.
    #[arg(long = "program", value_name = "NAME=FILE", value_parser = program)]
    pub programs: Vec<(String, PathBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compared {
    /// A page whose variants are named: who sends bytes, at full load, on one connection, half busy.
    Pages,
    /// A page decided for known visitors.
    Decided,
    /// An event on disk, beside the bare server, on 256 connections.
    Durable,
    /// An event on disk, beside webdis and redis-server, on 32 connections.
    Events,
}

/// Of a comparison whose figures nobody is to believe.
const QUICK_SECONDS: f64 = 0.5;
const QUICK_ROUNDS: usize = 2;
/// What Parallax is compared with, beside the bare server.
const PEERS: [&str; 6] = ["nginx", "h2o", "haproxy", "webdis", "workerd", "unleash-edge"];

impl Compare {
    /// The loads of a comparison are its own.
    pub fn check(&self) -> Result<(), Failure> {
        let Common { connections, depth, rate, spin_us, .. } = &self.common;
        if connections.is_none() && depth.is_none() && rate.is_none() && spin_us.is_none() {
            return Ok(());
        }
        Err("compare says itself how many connections, how deep, how fast, and who spins".into())
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

    /// Those that are wanted, in their order.
    pub fn comparisons(&self) -> impl Iterator<Item = Compared> {
        let all = Compared::value_variants().iter().copied();
        all.filter(|one| self.comparisons.is_empty() || self.comparisons.contains(one))
    }

    /// Whether `server` takes part: who is no peer always does.
    pub fn takes(&self, server: &str) -> bool {
        self.only.is_empty() || !PEERS.contains(&server) || self.only.iter().any(|only| only == server)
    }
}

fn program(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("not NAME=FILE")?;
    let file = std::fs::canonicalize(file).map_err(|error| format!("{file}: {error}"))?;
    Ok((name.to_owned(), file))
}

#[derive(Args, Clone, Debug)]
pub struct Bare {
    /// Where it listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The file that holds the whole answer, from its status line on.
    #[arg(long, value_name = "FILE", required_unless_present = "bytes")]
    pub answer: Option<PathBuf>,
    /// Instead of a file: a 200 with a body of so many bytes.
    #[arg(long, value_name = "N", conflicts_with = "answer")]
    pub bytes: Option<usize>,
    /// Each answer leaves so long after its request came.
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub delay_us: u64,
    /// Each answer's bytes are summed up so often before it leaves.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sums: u32,
}

impl Bare {
    /// Until the process ends.
    pub fn serve(&self) -> Result<ExitCode, Failure> {
        let answer = match &self.answer {
            Some(file) => std::fs::read(file)?,
            None => {
                let body = "x".repeat(self.bytes.unwrap_or_default());
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
            }
        };
        let burden = Burden { delay: Duration::from_micros(self.delay_us), sums: self.sums };
        floor::run(self.listen, answer.leak(), burden)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the plans share. What is not given is as the plan has it.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Connections [default: 64; 256 where events are posted, 16 where batches are].
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub connections: Option<NonZeroUsize>,
    /// Requests that a connection sends at once, before it waits for all their answers.
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub depth: Option<NonZeroUsize>,
    /// An open loop: so many requests a second on a fixed schedule, latency from when each was due [default: a closed loop, as
    /// fast as it goes].
    #[arg(long, value_name = "PER_SECOND", help_heading = "Load", value_parser = rate)]
    pub rate: Option<f64>,
    /// Length of a window.
    #[arg(long, value_name = "S", help_heading = "Load", default_value = "3", value_parser = seconds)]
    pub seconds: f64,
    /// Windows of each side, by turns; under five of them a median says little.
    #[arg(long, value_name = "N", help_heading = "Load", default_value_t = ROUNDS_MIN, value_parser = rounds)]
    pub rounds: usize,
    /// The processor of the servers.
    #[arg(long, value_name = "N", help_heading = "Machine", default_value_t = 0)]
    pub server_cpu: usize,
    /// The processor of the generator.
    #[arg(long, value_name = "N", help_heading = "Machine", default_value_t = 1)]
    pub load_cpu: usize,
    /// The server's program [default: it is built from this workspace].
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub parallax: Option<PathBuf>,
    /// Passed on to the server: auto, uring, epoll.
    #[arg(long, value_name = "DRIVER", help_heading = "Server")]
    pub driver: Option<String>,
    /// Passed on to the server, which polls so long before it sleeps.
    #[arg(long, value_name = "US", help_heading = "Server")]
    pub spin_us: Option<u32>,
    /// What the server is measured beside.
    #[arg(long, value_enum, default_value_t = Against::Floor, help_heading = "Server")]
    pub against: Against,
    /// Where the site, the log and the report go [default: target/loadtest/<date>-<plan>].
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// A bare server that sends the same bytes: what the kernel's part of an answer costs.
    Floor,
    /// Nothing but the plan's own sides.
    None,
}

fn power_of_ten(text: &str) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_power = (1..=8).any(|zeros| number == 10_u64.pow(zeros));
    if is_power { Ok(number) } else { Err("not 10, 100, ... 100000000".to_owned()) }
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

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().map_err(|_| "not a number".to_owned())?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(format!("not from {least} to {most}")) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Typed::command().debug_assert();
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        let parse = |words: &str| Typed::try_parse_from(words.split(' ')).is_ok();
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

    #[test]
    fn a_comparison_takes_the_peers_and_parts_that_are_named_and_always_the_floor() {
        let parse = |words: &str| {
            let typed = Typed::try_parse_from(words.split(' ')).expect("good words");
            let Command::Compare(given) = typed.command else { panic!("{words}") };
            given
        };
        let given = parse("loadtest compare events pages --only nginx,h2o --quick");
        assert_eq!(given.comparisons().collect::<Vec<_>>(), [Compared::Pages, Compared::Events]);
        let taken = ["floor", "nginx", "h2o", "webdis"].map(|name| given.takes(name));
        assert_eq!((taken, given.visitors()), ([true, true, true, false], 10_000));
        assert!(given.check().is_ok() && parse("loadtest compare --depth 2").check().is_err());
        let given = parse("loadtest compare");
        assert!(given.comparisons().count() == 4 && given.takes("webdis") && given.visitors() == 1_000_000);
        assert!(Typed::try_parse_from(["loadtest", "compare", "--only", "apache"]).is_err());
    }
}
