//! The command line. A command prints its result to standard output, and its error to standard error.
//!
//! Exit codes: 0 success; 1 bad input; 2 bad command line or settings file; 3 an error of the system.

mod audit;
mod authoring_json;
mod backup;
pub mod byte_search;
mod check;
mod checkpoints;
#[cfg(feature = "cluster")]
mod cluster;
mod compile;
pub mod contains;
pub mod demo;
mod demo_traffic;
mod dev;
mod enrolments;
mod erasures;
mod export;
mod health;
mod import;
mod init;
mod insights;
mod inspect;
pub mod inspect_snapshot;
mod lint;
mod migrate;
mod other_version;
mod output;
mod output_file;
pub mod print_config;
mod progress;
#[cfg(feature = "cluster")]
mod publish;
mod reference;
mod restore;
mod rollback;
mod schema;
mod segments;
mod serve;
pub mod settings;
mod site_commands;
mod site_directory;
mod site_publisher;
mod snapshot_list;
mod test;
mod token;
mod types;
mod visitor_keys;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::output::{CliError, output_error, print_line};
use self::print_config::render_config;
use self::settings::FileSettings;
use crate::log::{self, LogError};
use crate::log_lines;
use crate::storage::disk::RealDisk;

/// Serves every visitor of a website their own version of a page, within microseconds.
///
/// Without a command, it serves. If snapshots/ is empty, it compiles the demo site first.
#[derive(Debug, Parser)]
#[command(name = "parallax", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the snapshots of a directory, and record events.
    ///
    /// Each flag can also be set as PARALLAX_... in the environment, or as a key of the --config file. A SIZE
    /// is a number of bytes, or a number with a unit, such as 512MiB: KiB, MiB, GiB, TiB (powers of 1024), KB,
    /// MB, GB, TB (powers of 1000).
    Serve(Box<serve::ServeArgs>),
    /// Ask the server of this machine whether it is ready, for the health check of a container.
    #[command(after_help = health::EXAMPLES)]
    Health(health::HealthArgs),
    #[command(flatten)]
    Site(site_commands::SiteCommand),
    /// Serve the directory of a site, and compile it again after each change.
    ///
    /// The flags are those of serve. Other settings than flags do not apply.
    #[command(after_help = dev::EXAMPLES, display_order = DEV_ORDER)]
    Dev(Box<dev::DevArgs>),
    /// Remove the newest version of a site from a snapshots directory, so that the server serves the one before.
    ///
    /// Shows the versions and the one that is served then, and asks. The file gets the ending .removed.
    #[command(after_help = rollback::EXAMPLES)]
    Rollback(rollback::RollbackArgs),
    /// Publish a snapshot on all nodes that pull from a source, or roll back.
    #[cfg(feature = "cluster")]
    #[command(after_help = publish::EXAMPLES)]
    Publish(Box<publish::PublishArgs>),
    /// Verify every checksum of a snapshot, a segment, a checkpoint, or a directory of them; or search for a
    /// text.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Print the audit log of a data directory: who looked at, exported, erased or changed data.
    ///
    /// Works beside a running server.
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::AuditArgs),
    /// Export recorded events as NDJSON or Parquet.
    ///
    /// Works beside a running server. Exports the durable records in the order of their seq, up to the last one
    /// that was acknowledged before the export began. It waits up to 0.5 s for the disk. Damage is reported on
    /// standard error with file and offset. The records around it are exported, and the exit code is 1.
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Make a new data directory from exports and other data directories, offline.
    ///
    /// It moves, merges or splits logs, or begins one with the events of earlier years. The new log has an ID and seqs of its own.
    #[command(after_help = import::EXAMPLES)]
    Import(Box<import::ImportArgs>),
    /// Answer questions about recorded events: visitors, page views, sources and so on.
    ///
    /// Works beside a running server, and counts the durable records. It writes nothing into the data directory.
    #[command(after_help = insights::EXAMPLES)]
    Insights(insights::InsightsArgs),
    /// Send the events of invented visitors to a running server, so that its numbers are not empty.
    ///
    /// The events count like those of real visitors, and cannot be taken back in bulk. So do not send them to
    /// a production site, but use a data directory that you can delete. The server decides the variants of
    /// each visitor.
    #[command(after_help = demo_traffic::EXAMPLES)]
    DemoTraffic(demo_traffic::DemoTrafficArgs),
    /// Found a cluster of nodes, begin a new era of it, or show the state of its stream.
    #[cfg(feature = "cluster")]
    #[command(after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterArgs),
    /// Make a verified backup of a data directory, also beside a running server.
    ///
    /// The backup is a new directory in TARGET, with a copy of each file. A closed segment of the log that has not changed
    /// since the previous backup in TARGET is a link to its copy there, so it takes no space. The backup gets its name when
    /// all checksums of it are verified.
    #[command(after_help = backup::EXAMPLES)]
    Backup(backup::BackupArgs),
    /// Write the list of the erasures of a log, for the restore of an older backup.
    ///
    /// Works beside a running server.
    #[command(after_help = erasures::EXAMPLES)]
    Erasures(erasures::ErasuresArgs),
    /// Bring the data directory of a stopped server to the formats of this release.
    ///
    /// Makes a copy beside it, compares every record and profile, and exchanges the two names. The log keeps its ID and its seqs, so
    /// the positions of exports stay valid. An interrupted run changes nothing, or is finished by the next one.
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(migrate::MigrateArgs),
    /// Verify a backup of a data directory and copy it, without the visitors who were erased later.
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::RestoreArgs),
    /// Print the keys with which a program of a site opens its visitor tokens.
    #[command(after_help = visitor_keys::EXAMPLES)]
    VisitorKeys(visitor_keys::VisitorKeysArgs),
    /// Make a token for the admin address.
    #[command(after_help = token::EXAMPLES)]
    Token(token::TokenArgs),
    /// Print the completions of a shell. A package has them already.
    #[command(after_help = reference::COMPLETIONS_EXAMPLES)]
    Completions(reference::CompletionsArgs),
    /// Write the man pages of all commands into a directory, for a package.
    #[command(hide = true)]
    ManPages(reference::ManPagesArgs),
}

/// Runs the command of the process's arguments. Returns its exit code.
pub fn run() -> ExitCode {
    let words = with_command(std::env::args_os().collect());
    let (code, text) = match dispatch(&words).map_err(CliError::into_exit) {
        Ok(()) => (0, None),
        Err((code, text)) => (code, Some(text)),
    };
    log_lines::finish(text.as_deref());
    ExitCode::from(code)
}

/// Inserts `serve` if the first argument is one of its flags: `parallax --flag` is `parallax serve --flag`.
fn with_command(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let is_own = |word: &OsString| ["-h", "--help", "-V", "--version"].iter().any(|own| word == own);
    if words.get(1).is_some_and(|word| is_flag(word) && !is_own(word)) {
        words.insert(1, SERVE.into());
    }
    words
}

fn dispatch(words: &[OsString]) -> Result<(), CliError> {
    let mut command = Cli::command().mut_subcommand(SERVE, settings::add_sources);
    let mut matches = parse(&command, words)?;
    let mut file_settings = FileSettings::default();
    let with_settings = matches.subcommand().filter(|(name, _)| [SERVE, HEALTH].contains(name));
    let settings_file =
        with_settings.and_then(|(name, args)| Some((name, args.get_one::<PathBuf>("config")?)));
    if let Some((name, path)) = settings_file {
        let serve = command.find_subcommand(SERVE).expect("the command exists");
        file_settings = FileSettings::read(path, serve).map_err(CliError::Usage)?;
        command = command.mut_subcommand(name, |args| file_settings.apply_as_defaults(args));
        matches = parse(&command, words)?;
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|error| CliError::Usage(error.to_string()))?;
    if matches!(cli.command, Some(Command::Serve(_))) {
        let serve = command.find_subcommand(SERVE).expect("the command exists");
        settings::reject_unknown_variables(serve).map_err(CliError::Usage)?;
    }
    match cli.command {
        None => dispatch(&["parallax", SERVE].map(OsString::from)),
        Some(Command::Serve(args)) if args.sources.print_config => {
            args.config.check_access().map_err(CliError::Usage)?;
            let serve = command.find_subcommand(SERVE).zip(matches.subcommand_matches(SERVE));
            serve.map_or(Ok(()), |(serve, matches)| {
                print_line(render_config(serve, matches, &file_settings).trim_end())
            })
        }
        Some(Command::Serve(args)) => {
            let serve = command.find_subcommand(SERVE).zip(matches.subcommand_matches(SERVE));
            let settings = serve.map(|(serve, matches)| render_config(serve, matches, &file_settings));
            serve::serve(*args, &settings.unwrap_or_default())
        }
        Some(Command::Site(command)) => command.run(),
        Some(Command::Health(args)) => health::check(&args),
        Some(Command::Dev(args)) => {
            let dev = matches.subcommand_matches("dev").expect("the command was parsed");
            dev::dev(*args, dev.value_source("data") == Some(ValueSource::CommandLine))
        }
        Some(Command::Rollback(args)) => rollback::rollback(&args),
        #[cfg(feature = "cluster")]
        Some(Command::Publish(args)) => publish::publish(&args),
        Some(Command::Check(args)) => check::check(&args),
        Some(Command::Audit(args)) => audit::print(&args),
        Some(Command::Export(args)) => export::export(&args),
        Some(Command::Import(args)) => import::import(*args),
        Some(Command::Insights(args)) => insights::insights(&args),
        Some(Command::DemoTraffic(args)) => demo_traffic::demo_traffic(&args),
        #[cfg(feature = "cluster")]
        Some(Command::Cluster(args)) => cluster::cluster(&args),
        Some(Command::Backup(args)) => backup::back_up(&args),
        Some(Command::Erasures(args)) => erasures::write_list(&args),
        Some(Command::Migrate(args)) => migrate::migrate(&args),
        Some(Command::Restore(args)) => restore::restore(&args),
        Some(Command::VisitorKeys(args)) => visitor_keys::print_keys(&args),
        Some(Command::Token(args)) => token::run(args),
        Some(Command::Completions(args)) => reference::print_completions(&args, command),
        Some(Command::ManPages(args)) => reference::write_man_pages(&args, command),
    }
}

/// Place of `dev` in the list of commands: before that of `lint`, which has the same number.
const DEV_ORDER: usize = 3;
/// Name of the command that has settings.
const SERVE: &str = "serve";
/// Name of the command that reads the admin address from the settings of `serve`.
const HEALTH: &str = "health";

/// Parses the arguments. Prints `--help`, `--version` and most errors itself, and exits.
fn parse(command: &clap::Command, words: &[OsString]) -> Result<ArgMatches, CliError> {
    let is_serve = words.get(1).is_some_and(|word| word == SERVE);
    command.clone().try_get_matches_from(words).map_err(|error| {
        let renamed = settings::renamed_flag(&error).filter(|_| is_serve);
        renamed.map_or_else(|| error.exit(), CliError::Usage)
    })
}

/// Converts a log error. A missing or contradictory log is bad input. A log of another format version and other
/// I/O errors are of the machine.
fn log_read_error(error: LogError) -> CliError {
    let is_input = match &error {
        LogError::Io { source, .. } => matches!(
            source.kind(),
            ErrorKind::NotFound
                | ErrorKind::NotADirectory
                | ErrorKind::InvalidInput
                | ErrorKind::IsADirectory
        ),
        LogError::Misnamed { .. } | LogError::SeqExhausted { .. } => true,
        LogError::UnsupportedVersion { .. }
        | LogError::Locked { .. }
        | LogError::Appeared { .. }
        | LogError::Thread(_) => false,
    };
    let text = error.to_string();
    if is_input { CliError::Input(text) } else { CliError::System(text) }
}

/// Checks that a directory contains a log.
fn check_has_log(directory: &Path) -> Result<(), CliError> {
    let found = log::contains_log(&RealDisk, directory);
    let failed = |source| log_read_error(LogError::Io { path: directory.to_owned(), source });
    match found.map_err(failed)? {
        true => Ok(()),
        false => Err(CliError::Input(format!(
            "{} contains no segment of a log. Use the directory of serve --data",
            directory.display()
        ))),
    }
}
