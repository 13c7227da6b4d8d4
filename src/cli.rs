//! The words that the operator types. What was typed becomes a call; what it says goes to standard
//! output, what went wrong to standard error with an exit code.
//!
//! Exit codes: 0 done; 1 the input is at fault; 2 the command line; 3 the machine.

use std::io::{ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::config::{Config, Driver, Timeouts};
use crate::limits::{SNAPSHOTS_MEMORY_BYTES, WORKERS_MAX};
use crate::snapshot::compile::{Compiled, compile};
use crate::snapshot::files::Files;
use crate::snapshot::format::VERSION_MAX;
use crate::snapshot::inspect;
use crate::snapshot::read::{Source, read};
use crate::snapshot::schema::{self, schema};
use crate::snapshot::shelf::names;
use crate::{clock, demo, server, storage};

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
    Serve(Box<Serve>),
    /// Compile a site's folder to a snapshot. All mistakes are told at once.
    #[command(after_help = "Publish by compiling into the snapshots folder of a running server:\n  \
        parallax compile site/ -o /srv/parallax/snapshots/site.snapshot")]
    Compile(Compile),
    /// Show what a snapshot holds.
    Inspect(Inspect),
    /// Verify every checksum of a snapshot, or of all in a folder.
    Check(Check),
    /// Print the JSON Schema of a kind of file, for editors.
    Schema(Schema),
}

#[derive(Debug, Args)]
struct Serve {
    /// The folder whose snapshots are served; every *.snapshot in it is published.
    #[arg(long, value_name = "DIR", env = "PARALLAX_SNAPSHOTS")]
    snapshots: Option<PathBuf>,
    /// Edge's address: resolve, variants, routes.
    #[arg(long, value_name = "ADDRESS", env = "PARALLAX_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The operator's address: health, and why a visitor saw what they saw.
    #[arg(long, value_name = "ADDRESS", env = "PARALLAX_ADMIN", default_value = "127.0.0.1:9090")]
    admin: SocketAddr,
    /// What the operator's address asks for as a Bearer token; without it only loopback may read there.
    #[arg(long, value_name = "TOKEN", env = "PARALLAX_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,
    /// Worker threads [default: one for each CPU that this process may use].
    #[arg(long, value_name = "N", env = "PARALLAX_WORKERS", value_parser = clap::value_parser!(u64).range(1..=WORKERS_MAX as u64))]
    workers: Option<u64>,
    /// The kernel interface of the workers.
    #[arg(long, env = "PARALLAX_DRIVER", value_enum, default_value_t = DriverName::Auto)]
    driver: DriverName,
    /// Let Edge answer explain=1. It shows visitors' profiles to whoever asks.
    #[arg(long, env = "PARALLAX_EXPLAIN")]
    explain: bool,
    /// The header in which your proxy names the visitor's country, such as CF-IPCountry.
    #[arg(long, value_name = "HEADER", env = "PARALLAX_COUNTRY_HEADER")]
    country_header: Option<String>,
    /// Bytes that snapshots, old and new together, may take in memory; one that does not fit is refused.
    #[arg(long, value_name = "BYTES", env = "PARALLAX_SNAPSHOTS_MEMORY", default_value_t = SNAPSHOTS_MEMORY_BYTES)]
    snapshots_memory: u64,
    /// Milliseconds that a request's head may take to come; then 408.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_HEAD_MS", default_value_t = 10_000, value_parser = milliseconds())]
    timeout_head_ms: u64,
    /// Milliseconds after which a request's body must have come at 1 KB a second; else 408.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_BODY_MS", default_value_t = 10_000, value_parser = milliseconds())]
    timeout_body_ms: u64,
    /// Milliseconds that a connection may stay without a request.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_IDLE_MS", default_value_t = 75_000, value_parser = milliseconds())]
    timeout_idle_ms: u64,
    /// Milliseconds that a client may take nothing of its answer.
    #[arg(long, value_name = "MS", env = "PARALLAX_TIMEOUT_WRITE_MS", default_value_t = 30_000, value_parser = milliseconds())]
    timeout_write_ms: u64,
    /// Milliseconds between two looks at the whole snapshots folder, beside inotify, which tells nothing
    /// of what a link leads to, nor of what another machine does to a shared folder.
    #[arg(long, value_name = "MS", env = "PARALLAX_RESCAN_MS", default_value_t = 500, hide = true)]
    rescan_ms: u64,
    /// The form of log lines on standard error.
    #[arg(long, env = "PARALLAX_LOG", value_enum, default_value_t = LogForm::Text)]
    log: LogForm,
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
enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Args)]
struct Compile {
    /// The site's folder: site.json, audiences.json, routes/ ...
    site: PathBuf,
    /// Where the snapshot goes [default: snapshots/<site>-<version>.snapshot].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The version of this publication; the highest is served [default: site.json's, else
    /// SOURCE_DATE_EPOCH, else the present second].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=VERSION_MAX))]
    version: Option<u64>,
}

#[derive(Debug, Args)]
struct Inspect {
    /// A snapshot.
    file: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Check {
    /// A snapshot, or a folder of them.
    path: PathBuf,
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
    /// The machine is: exit code 3.
    Machine(String),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let typed = Typed::parse();
    let done = match typed.command {
        None => match Typed::parse_from(["parallax", "serve"]).command {
            Some(Command::Serve(serve)) => self::serve(*serve),
            _ => Ok(()),
        },
        Some(Command::Serve(serve)) => self::serve(*serve),
        Some(Command::Compile(compile)) => self::compile_folder(&compile),
        Some(Command::Inspect(inspect)) => self::inspect_file(&inspect),
        Some(Command::Check(check)) => self::check(&check.path),
        Some(Command::Schema(schema)) => self::print_schema(&schema.kind),
    };
    let (code, text) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(text)) => (1, text),
        Err(Failure::Machine(text)) => (3, text),
    };
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "parallax: {text}");
    ExitCode::from(code)
}

fn serve(typed: Serve) -> Result<(), Failure> {
    log_to_stderr(typed.log);
    let is_default = typed.snapshots.is_none();
    let snapshots = typed.snapshots.unwrap_or_else(|| PathBuf::from(DEFAULT_SNAPSHOTS));
    if is_default {
        publish_demo_where_nothing_is(&snapshots)?;
    }
    let running = server::start(Config {
        snapshots: snapshots.clone(),
        listen: typed.listen,
        admin: typed.admin,
        admin_token: typed.admin_token.filter(|token| !token.is_empty()),
        workers: typed.workers.map(|n| n as usize),
        driver: match typed.driver {
            DriverName::Auto => Driver::Auto,
            DriverName::Uring => Driver::Uring,
            DriverName::Epoll => Driver::Epoll,
        },
        explain: typed.explain,
        country_header: typed.country_header.map(|name| name.to_ascii_lowercase()),
        snapshots_memory: typed.snapshots_memory,
        timeouts: Timeouts {
            head: Duration::from_millis(typed.timeout_head_ms),
            body: Duration::from_millis(typed.timeout_body_ms),
            idle: Duration::from_millis(typed.timeout_idle_ms),
            write: Duration::from_millis(typed.timeout_write_ms),
        },
        rescan: Duration::from_millis(typed.rescan_ms.max(1)),
    });
    let running = running.map_err(|error| Failure::Machine(error.to_string()))?;
    tracing::info!("the operator's address is http://{}", running.admin);
    tracing::info!(
        "serving {} at http://{} with {} on {}",
        snapshots.display(),
        running.listen,
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

fn compile_folder(typed: &Compile) -> Result<(), Failure> {
    let folder = &typed.site;
    let files = Files::from_folder(folder).map_err(|error| Failure::Input(error.to_string()))?;
    let bar = progress_bar();
    let (source, mistakes) = read(&files, &|done, all| step(&bar, "reading", done, all));
    let (version, origin) = version(typed.version, &source)?;
    let compiled = compile(&source, mistakes, version, &|done, all| step(&bar, "compiling", done, all));
    bar.finish_and_clear();
    let Compiled { bytes, routes, warnings } = compiled.map_err(|mistakes| {
        Failure::Input(format!("nothing was written, the site has mistakes\n\n{}", mistakes.report(&files)))
    })?;
    if !warnings.is_empty() {
        // Where standard error is closed there is nobody to warn.
        let _ = writeln!(std::io::stderr(), "{}\n", warnings.report(&files).of_warnings());
    }
    let site = source.site.as_ref().map_or("", |site| &site.site);
    let default = || Path::new(DEFAULT_SNAPSHOTS).join(format!("{site}-{version}.snapshot"));
    let path = typed.output.clone().unwrap_or_else(default);
    let folder_is_there =
        if typed.output.is_none() { std::fs::create_dir_all(DEFAULT_SNAPSHOTS) } else { Ok(()) };
    folder_is_there.and_then(|()| storage::replace(&path, &bytes)).map_err(|error| {
        Failure::Machine(format!("{} cannot be written: {error}; name another place by -o", path.display()))
    })?;
    say(&format!(
        "{}: site {site}, version {version} ({origin}), {} routes, {} bytes",
        path.display(),
        routes,
        bytes.len(),
    ))
}

fn version(typed: Option<u64>, source: &Source) -> Result<(u64, &'static str), Failure> {
    if let Some(version) = typed {
        return Ok((version, "from --version"));
    }
    if let Some(version) = source.site.as_ref().and_then(|site| site.version) {
        return Ok((version, "from site.json"));
    }
    let Some(epoch) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok((clock::now_s(), "the present second"));
    };
    let seconds = epoch.to_str().and_then(|text| text.parse().ok()).filter(|v| *v <= VERSION_MAX);
    let wrong =
        || Failure::Input(format!("SOURCE_DATE_EPOCH is {epoch:?}, expected whole seconds since 1970"));
    Ok((seconds.ok_or_else(wrong)?, "from SOURCE_DATE_EPOCH"))
}

/// Shown on a terminal only; a small site is done before it appears.
fn progress_bar() -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {pos}/{len} {eta}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}

fn step(bar: &ProgressBar, what: &'static str, done: usize, all: usize) {
    if done == 1 {
        bar.set_message(what);
        bar.set_length(all as u64);
    }
    bar.set_position(done as u64);
}

fn inspect_file(typed: &Inspect) -> Result<(), Failure> {
    let shown = inspect::inspect(&typed.file)
        .map_err(|refusal| Failure::Input(format!("{}: {refusal}", typed.file.display())))?;
    say(&if typed.json { inspect::json(&shown) } else { inspect::text(&shown) })
}

fn check(path: &Path) -> Result<(), Failure> {
    let checked =
        inspect::check(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let mut wrong = 0;
    for (file, result) in &checked {
        match result {
            Ok(summary) => say(&format!("{}: {summary}", file.display()))?,
            Err(reason) => {
                wrong += 1;
                say(&format!("{}: {reason}", file.display()))?;
            }
        }
    }
    match wrong {
        0 if checked.is_empty() => say("no snapshots to check"),
        0 => Ok(()),
        _ => Err(Failure::Input(format!("{wrong} of {} files are not sound", checked.len()))),
    }
}

fn print_schema(kind: &str) -> Result<(), Failure> {
    let kind = schema::Kind::ALL.into_iter().find(|known| known.name() == kind);
    kind.map_or(Ok(()), |kind| say(&format!("{:#}", schema(kind))))
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
