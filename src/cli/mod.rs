//! The words that the operator types. What was typed becomes a call; what it says goes to standard
//! output, what went wrong to standard error with an exit code.
//!
//! Exit codes: 0 done; 1 the input is at fault; 2 the command line, or a settings file that it names; 3 the machine.

pub mod byte_search;
mod check;
mod checkpoints;
mod compile;
mod contains;
pub mod demo;
mod export;
mod inspect;
pub mod inspect_snapshot;
pub mod print_config;
mod progress;
pub mod settings;

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;

use self::print_config::printed;
use self::settings::{Said, Sources};
use crate::config::{Ack, Config, Driver, Timeouts};
use crate::limits::{
    CHECKPOINT_LOG_BYTES, CONNECTIONS_MEMORY_BYTES, PROFILES_MEMORY_BYTES, SEGMENT_BYTES,
    SNAPSHOTS_MEMORY_BYTES, SPIN_US_MAX, WORKERS_MAX,
};
use crate::site::catalog::directory::names;
use crate::site::source::schema::{self, schema};
use crate::visitors::log::LogError;
use crate::{server, storage};

/// Hands every visitor of a website their own version of a page within microseconds.
///
/// Without a command it serves; with nothing in snapshots/ it compiles the demo site first.
#[derive(Debug, Parser)]
#[command(name = "parallax", version, disable_help_subcommand = true)]
struct Typed {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve what lies in the snapshots folder.
    ///
    /// Each flag can also be given as PARALLAX_..., and as a key of the file that --config names.
    Serve(Box<Serve>),
    /// Compile a site's folder to a snapshot. All mistakes are told at once.
    #[command(after_help = "Publish by compiling into the snapshots folder of a running server:\n  \
        parallax compile site/ -o /srv/parallax/snapshots/site.snapshot")]
    Compile(compile::Compile),
    /// Show what a snapshot, a segment of the log, or a checkpoint of visitors holds.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::Inspect),
    /// Verify every checksum of a snapshot, a segment, a checkpoint, or of all in a folder; or search a folder for a text.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Check),
    /// Hand out what was recorded, as NDJSON or Parquet.
    ///
    /// Works beside a running server: the durable records in the order of their seq, the last ones some 100 ms after
    /// they were acknowledged. A damaged place is reported on standard error, with its file and offset; the records
    /// around it are exported all the same, and the exit code is 1 then.
    #[command(after_help = export::EXAMPLES)]
    Export(export::Export),
    /// Print the JSON Schema of a kind of file, for editors.
    Schema(Schema),
}

#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    sources: Sources,
    /// The folder whose snapshots are served; every *.snapshot in it is published.
    #[arg(long, value_name = "DIR", env = "PARALLAX_SNAPSHOTS", help_heading = "Snapshots")]
    snapshots: Option<PathBuf>,
    /// The folder of the log, where events are recorded; one server at a time has it.
    #[arg(long, value_name = "DIR", env = "PARALLAX_DATA", help_heading = "Events", default_value = "data")]
    data: PathBuf,
    /// When an event is acknowledged.
    #[arg(long, env = "PARALLAX_ACK", help_heading = "Events", value_enum, default_value_t = AckName::Disk)]
    ack: AckName,
    /// Bytes at which a segment of the log is sealed.
    #[arg(long, value_name = "BYTES", env = "PARALLAX_SEGMENT_BYTES", help_heading = "Events", default_value_t = SEGMENT_BYTES, value_parser = clap::value_parser!(u64).range(65_536..=1 << 40))]
    segment_bytes: u64,
    /// Days after which events are let go, a segment at a time [default: never].
    #[arg(long, value_name = "N", env = "PARALLAX_RETAIN_DAYS", help_heading = "Events", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    retain_days: Option<u32>,
    /// Bytes above which the oldest events are let go, but none of the last 24 hours [default: never].
    #[arg(long, value_name = "BYTES", env = "PARALLAX_RETAIN_BYTES", help_heading = "Events")]
    retain_bytes: Option<u64>,
    /// The address: resolve, variants, routes, query, page, track.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PARALLAX_LISTEN",
        help_heading = "Addresses",
        default_value = "127.0.0.1:8080"
    )]
    listen: SocketAddr,
    /// An address for events alone, page and track, that Edge's has no more then [default: they share Edge's].
    #[arg(long, value_name = "ADDRESS", env = "PARALLAX_EVENTS_LISTEN", help_heading = "Addresses")]
    events_listen: Option<SocketAddr>,
    /// The operator's address: health, and why a visitor saw what they saw.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PARALLAX_ADMIN",
        help_heading = "Addresses",
        default_value = "127.0.0.1:9090"
    )]
    admin: SocketAddr,
    /// What the operator's address asks for as a Bearer token; without it only loopback may read there.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "PARALLAX_ADMIN_TOKEN",
        help_heading = "Addresses",
        hide_env_values = true
    )]
    admin_token: Option<String>,
    /// Worker threads [default: one for each CPU that this process may use].
    #[arg(long, value_name = "N", env = "PARALLAX_WORKERS", help_heading = "Workers", value_parser = clap::value_parser!(u64).range(1..=WORKERS_MAX as u64))]
    workers: Option<u64>,
    /// The kernel interface of the workers.
    #[arg(long, env = "PARALLAX_DRIVER", help_heading = "Workers", value_enum, default_value_t = DriverName::Auto)]
    driver: DriverName,
    /// Microseconds that a worker polls for more before it sleeps: requests that are close together are answered sooner, and it
    /// burns its CPU meanwhile. Where nothing comes several times in a row it sleeps at once; 0: always.
    #[arg(long, value_name = "N", env = "PARALLAX_SPIN_US", help_heading = "Workers", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=SPIN_US_MAX))]
    spin_us: u64,
    /// Let Edge answer explain=1. It shows visitors' profiles to whoever asks.
    #[arg(long, env = "PARALLAX_EXPLAIN", help_heading = "Answers")]
    explain: bool,
    /// The header in which your proxy names the visitor's country, such as CF-IPCountry.
    #[arg(long, value_name = "HEADER", env = "PARALLAX_COUNTRY_HEADER", help_heading = "Answers")]
    country_header: Option<String>,
    /// Bytes that snapshots, old and new together, may take in memory; one that does not fit is refused.
    #[arg(long, value_name = "BYTES", env = "PARALLAX_SNAPSHOTS_MEMORY", help_heading = "Snapshots", default_value_t = SNAPSHOTS_MEMORY_BYTES, value_parser = clap::value_parser!(u64).range(..=1 << 48))]
    snapshots_memory: u64,
    /// Bytes that what is known of visitors may take in memory, some 400 for each; past it those go who came once, then those not seen for longest.
    #[arg(long, value_name = "BYTES", env = "PARALLAX_PROFILES_MEMORY", help_heading = "Events", default_value_t = PROFILES_MEMORY_BYTES, value_parser = clap::value_parser!(u64).range(..=1 << 48))]
    profiles_memory: u64,
    /// Bytes of log after which what is known of visitors is kept in a file (a checkpoint), which a start reads in place of the log.
    #[arg(long, value_name = "BYTES", env = "PARALLAX_CHECKPOINT_BYTES", help_heading = "Events", default_value_t = CHECKPOINT_LOG_BYTES, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    checkpoint_bytes: u64,
    /// Connections of the public address; one more gets 503 [default: as many as the limit on descriptors allows, at most 65536].
    #[arg(long, value_name = "N", env = "PARALLAX_CONNECTIONS", help_heading = "Limits and times", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connections: Option<u64>,
    /// Bytes that bodies on their way and answers that are not taken yet may hold, of all connections, 4 MiB a worker at least; past it 503.
    #[arg(long, value_name = "BYTES", env = "PARALLAX_CONNECTIONS_MEMORY", help_heading = "Limits and times", default_value_t = CONNECTIONS_MEMORY_BYTES as u64, value_parser = clap::value_parser!(u64).range(..=1 << 44))]
    connections_memory: u64,
    /// A proxy, or a network of them, whose X-Forwarded-For is believed, such as 10.0.0.0/8; more by commas.
    #[arg(long, value_name = "CIDR", env = "PARALLAX_TRUSTED_PROXY", help_heading = "Addresses", value_delimiter = ',', value_parser = network)]
    trusted_proxy: Vec<IpNet>,
    /// Requests a second from one address (IPv4) or one /64 (IPv6), as many at once; more get 429 [default: no limit].
    #[arg(long, value_name = "R", env = "PARALLAX_LIMIT_ADDRESS", help_heading = "Limits and times", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit_address: Option<u32>,
    /// The same for one site.
    #[arg(long, value_name = "R", env = "PARALLAX_LIMIT_SITE", help_heading = "Limits and times", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit_site: Option<u32>,
    /// Milliseconds that a request's head may take to come; then 408.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_HEAD_MS", help_heading = "Limits and times", default_value_t = 10_000, value_parser = milliseconds())]
    timeout_head_ms: u64,
    /// Milliseconds after which a request's body must have come at 1 KB a second; else 408.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_BODY_MS", help_heading = "Limits and times", default_value_t = 10_000, value_parser = milliseconds())]
    timeout_body_ms: u64,
    /// Milliseconds that a connection may stay without a request.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_IDLE_MS", help_heading = "Limits and times", default_value_t = 75_000, value_parser = milliseconds())]
    timeout_idle_ms: u64,
    /// Milliseconds that a client may take nothing of its answer.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_WRITE_MS", help_heading = "Limits and times", default_value_t = 30_000, value_parser = milliseconds())]
    timeout_write_ms: u64,
    /// Milliseconds between two looks at the whole snapshots folder, beside inotify, which tells nothing
    /// of what a link leads to, nor of what another machine does to a shared folder.
    #[arg(
        long,
        value_name = "MS",
        env = "PARALLAX_RESCAN_MS",
        help_heading = "Snapshots",
        default_value_t = 500,
        hide = true
    )]
    rescan_ms: u64,
    /// The form of log lines on standard error.
    #[arg(long, env = "PARALLAX_LOG", help_heading = "Log", value_enum, default_value_t = LogForm::Text)]
    log: LogForm,
    /// Log each answer: method, path, site, route, status, bytes, time; no address, nothing of a visitor.
    #[arg(long, env = "PARALLAX_ACCESS_LOG", help_heading = "Log")]
    access_log: bool,
}

/// A network, or an address alone.
fn network(text: &str) -> Result<IpNet, String> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| "expected a network such as 10.0.0.0/8, or an address".to_owned())
}

/// A tenth of a second to a day.
fn milliseconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(100..=86_400_000)
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DriverName {
    /// io_uring, or epoll where it is forbidden.
    Auto,
    /// io_uring or not at all.
    Uring,
    /// epoll.
    Epoll,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AckName {
    /// Once it is on disk: it survives a power cut.
    Disk,
    /// Once it is in the file: it survives a killed process, and is on disk within 100 ms.
    Written,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Args)]
struct Schema {
    /// The kind of file.
    #[arg(value_parser = schema::Kind::ALL.map(schema::Kind::name))]
    kind: String,
}

/// Why a command did not do what it was told.
enum Failure {
    /// The input is at fault: exit code 1.
    Input(String),
    /// The command line is, or a settings file that it names: exit code 2.
    CommandLine(String),
    /// The machine is: exit code 3.
    Machine(String),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let (code, text) = match obey(&words) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(text)) => (1, text),
        Err(Failure::CommandLine(text)) => (2, text),
        Err(Failure::Machine(text)) => (3, text),
    };
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "parallax: {text}");
    ExitCode::from(code)
}

fn obey(words: &[OsString]) -> Result<(), Failure> {
    let mut command = Typed::command().mut_subcommand(SERVE, settings::with_switches);
    let mut matches = command.clone().get_matches_from(words);
    let mut said = Said::default();
    if let Some(file) = matches.subcommand_matches(SERVE).and_then(|serve| serve.get_one::<PathBuf>("config"))
    {
        let keys = command.find_subcommand(SERVE).expect("it is one");
        said = Said::read(file, keys).map_err(Failure::CommandLine)?;
        command = command.mut_subcommand(SERVE, |serve| said.beneath(serve));
        matches = command.clone().get_matches_from(words);
    }
    let typed = Typed::from_arg_matches(&matches);
    match typed.map_err(|error| Failure::CommandLine(error.to_string()))?.command {
        None => obey(&["parallax", SERVE].map(OsString::from)),
        Some(Command::Serve(typed)) if typed.sources.print_config => {
            let serve = command.find_subcommand(SERVE).zip(matches.subcommand_matches(SERVE));
            serve.map_or(Ok(()), |(serve, matches)| say(printed(serve, matches, &said).trim_end()))
        }
        Some(Command::Serve(typed)) => self::serve(*typed),
        Some(Command::Compile(typed)) => compile::compile_folder(&typed),
        Some(Command::Inspect(typed)) => inspect::inspect_file(&typed),
        Some(Command::Check(typed)) => check::check(&typed),
        Some(Command::Export(typed)) => export::export(&typed),
        Some(Command::Schema(typed)) => self::print_schema(&typed.kind),
    }
}

/// The command that has settings.
const SERVE: &str = "serve";

fn serve(typed: Serve) -> Result<(), Failure> {
    log_to_stderr(typed.log);
    let is_default = typed.snapshots.is_none();
    let snapshots = typed.snapshots.unwrap_or_else(|| PathBuf::from(DEFAULT_SNAPSHOTS));
    if is_default {
        publish_demo_where_nothing_is(&snapshots)?;
    }
    let running = server::start(Config {
        snapshots: snapshots.clone(),
        data: typed.data,
        ack: match typed.ack {
            AckName::Disk => Ack::Disk,
            AckName::Written => Ack::Written,
        },
        segment_bytes: typed.segment_bytes,
        retain_days: typed.retain_days,
        retain_bytes: typed.retain_bytes,
        profiles_memory: typed.profiles_memory,
        checkpoint_bytes: typed.checkpoint_bytes,
        listen: typed.listen,
        events_listen: typed.events_listen,
        admin: typed.admin,
        admin_token: typed.admin_token.filter(|token| !token.is_empty()),
        workers: typed.workers.map(|n| n as usize),
        driver: match typed.driver {
            DriverName::Auto => Driver::Auto,
            DriverName::Uring => Driver::Uring,
            DriverName::Epoll => Driver::Epoll,
        },
        spin: Duration::from_micros(typed.spin_us),
        explain: typed.explain,
        country_header: typed.country_header.map(|name| name.to_ascii_lowercase()),
        snapshots_memory: typed.snapshots_memory,
        timeouts: Timeouts {
            head: Duration::from_millis(typed.timeout_head_ms),
            body: Duration::from_millis(typed.timeout_body_ms),
            idle: Duration::from_millis(typed.timeout_idle_ms),
            write: Duration::from_millis(typed.timeout_write_ms),
        },
        connections: typed.connections.map(|n| n as usize),
        connections_memory: typed.connections_memory as usize,
        trusted_proxies: typed.trusted_proxy,
        address_limit: typed.limit_address,
        site_limit: typed.limit_site,
        access_log: typed.access_log,
        rescan: Duration::from_millis(typed.rescan_ms.max(1)),
    });
    let running = running.map_err(|error| Failure::Machine(error.to_string()))?;
    if let Some(events) = running.addresses.events_listen {
        tracing::info!("events have the address http://{events}");
    }
    tracing::info!(
        "serving {} at http://{} with {} on {}",
        snapshots.display(),
        running.addresses.listen,
        if running.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", running.workers) },
        running.kernel.name(),
    );
    running.serve_until_told();
    Ok(())
}

const DEFAULT_SNAPSHOTS: &str = "snapshots";

fn log_to_stderr(form: LogForm) {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::INFO);
    match form {
        LogForm::Text => log.init(),
        LogForm::Json => log.json().init(),
    }
}

/// Somebody who only typed `parallax` gets a site to look at.
fn publish_demo_where_nothing_is(folder: &Path) -> Result<(), Failure> {
    let machine = |what: &str, error: std::io::Error| {
        Failure::Machine(format!("{}: {what}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| machine("cannot be made", error))?;
    let published = names(folder).map_err(|error| machine("cannot be read", error))?;
    if !published.is_empty() {
        return Ok(());
    }
    let (name, bytes) = demo::snapshot();
    let path = folder.join(name);
    storage::replace(&path, &bytes).map_err(|error| machine("the demo cannot be written", error))?;
    tracing::info!("nothing is published yet, so the demo site was compiled to {}", path.display());
    Ok(())
}

fn print_schema(kind: &str) -> Result<(), Failure> {
    let kind = schema::Kind::ALL.into_iter().find(|known| known.name() == kind);
    kind.map_or(Ok(()), |kind| say(&format!("{:#}", schema(kind))))
}

/// A log that cannot be read: it is not there or of a later release, or the machine says no.
fn unreadable(error: LogError) -> Failure {
    let is_input = match &error {
        LogError::Io { source, .. } => matches!(
            source.kind(),
            ErrorKind::NotFound
                | ErrorKind::NotADirectory
                | ErrorKind::InvalidInput
                | ErrorKind::IsADirectory
        ),
        LogError::Version { .. }
        | LogError::Held { .. }
        | LogError::Misnamed { .. }
        | LogError::NoSeqLeft { .. } => true,
    };
    let text = error.to_string();
    if is_input { Failure::Input(text) } else { Failure::Machine(text) }
}

fn say(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        // Who reads on in a pipe has read enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Machine(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
