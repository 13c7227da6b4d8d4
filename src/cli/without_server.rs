//! The command line of the core: the commands for the directory of a site, without a server. The program has `mod.rs` in place of
//! this file, and both have the commands.

mod authoring_json;
#[path = "../hosted/data_files.rs"]
mod checkpoints;
mod compile;
#[path = "../hosted/enrolments.rs"]
mod enrolments;
mod init;
mod inspect;
pub(crate) mod inspect_snapshot;
mod lint;
mod other_version;
mod output;
#[path = "../hosted/progress.rs"]
mod progress;
mod schema;
mod site_commands;
mod site_directory;
mod site_publisher;
mod snapshot_list;
mod test;
mod types;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::checkpoints as segments;
use self::output::{CliError, output_error, print_line};
use self::site_publisher::{Attempt, SitePublisher};
use crate::addresses::{ListenError, parse_address};
use crate::console;

/// Writes, checks, compiles and serves the directory of a site.
#[derive(Debug, Parser)]
#[command(
    name = "parallax",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "The program parallax has these commands and those of a server, such as serve and export."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Site(site_commands::SiteCommand),
    /// Serve the directory of a site, and compile it again after each change.
    ///
    /// The program parallax has more flags: those of serve.
    #[command(after_help = DEV_EXAMPLES, display_order = DEV_ORDER)]
    Dev(DevArgs),
}

/// Place of `dev` in the list of commands: before that of `lint`, which has the same number.
const DEV_ORDER: usize = 1;

const DEV_EXAMPLES: &str = "\
Write a site and serve it:
  parallax init my-site
  parallax dev my-site

Each save compiles the site and prints errors, warnings, the change of each experiment as lint
--against does, and the URL of each changed page.
After an error the last version without errors stays. With &now=2026-12-24T18:00:00Z a URL shows
its page as at that time. Ctrl-C ends the server.";

/// Name of the snapshot that [`DevSession`] writes for the host.
const DEV_SNAPSHOT: &str = "dev.snapshot";

/// The flags of `parallax dev` that need no server.
#[derive(Debug, Clone, Args)]
pub(crate) struct DevArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    pub(crate) site: PathBuf,
    /// The public address: resolve, variants, routes, query, page, track. A port alone is one of 127.0.0.1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = parse_address)]
    pub(crate) listen: SocketAddr,
}

/// The end of a command.
pub(crate) struct Ended {
    pub(crate) code: u8,
    /// The arguments of `parallax dev`: the host serves the site.
    pub(crate) dev: Option<DevArgs>,
}

/// Runs the command of the arguments. The first one is the name of the program. `columns` is the width of the terminal.
pub(crate) fn run(words: &[String], columns: Option<usize>) -> Ended {
    let mut command = Cli::command();
    if let Some(columns) = columns {
        command = command.term_width(columns.min(COLUMNS_MAX));
    }
    let parsed = command.try_get_matches_from_mut(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.render().to_string();
            match error.use_stderr() {
                true => console::write_error_text(&text),
                false => console::write_text(&text),
            }
            return Ended { code: error.exit_code() as u8, dev: None };
        }
    };
    let (result, dev) = match cli.command {
        Command::Site(command) => (command.run(), None),
        Command::Dev(args) => (site_directory::read_files(&args.site).map(drop), Some(args)),
    };
    match result.map_err(CliError::into_exit) {
        Ok(()) => Ended { code: 0, dev },
        Err((code, text)) => {
            console::write_error_line(&text);
            Ended { code, dev: None }
        }
    }
}

/// Largest width of the help, in characters, as that of the program.
const COLUMNS_MAX: usize = 100;

/// The versions of a site that the host serves.
pub(crate) struct DevSession {
    publisher: SitePublisher,
    /// The files that are compiled, and not reported yet.
    attempt: Option<Attempt>,
    has_begun: bool,
}

impl DevSession {
    pub(crate) fn new(directory: &Path) -> Self {
        let publisher = SitePublisher::new(directory.to_owned(), PathBuf::from(DEV_SNAPSHOT));
        Self { publisher, attempt: None, has_begun: false }
    }

    /// Compiles the directory if it has changed. `is_complete` is false if the host must read more paths first.
    pub(crate) fn compile(&mut self, is_complete: impl Fn() -> bool) {
        let read = match self.has_begun {
            true => self.publisher.read_changed(),
            false => crate::site::source::files::Files::from_directory(self.publisher.directory()).map(Some),
        };
        if !is_complete() {
            return;
        }
        match read {
            Ok(None) => {}
            Ok(Some(files)) => {
                self.has_begun = true;
                self.attempt = Some(self.publisher.compile(files));
            }
            Err(error) => self.publisher.note_error(format!("parallax: {error}")),
        }
    }

    /// Prints the result of the last compilation, and writes its snapshot for the host.
    pub(crate) fn report(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.publisher.finish(attempt);
        }
    }

    /// Prints the URLs of the first version.
    pub(crate) fn set_address(&mut self, address: SocketAddr) {
        console::write_error_line(&format!("serving http://{address}"));
        self.publisher.set_address(address);
    }
}

/// Prints the error of an address that the host cannot listen on. Returns the exit code.
pub(crate) fn refuse_address(address: SocketAddr, cause: io::Error) -> u8 {
    let error = CliError::System(ListenError { address, flag: "--listen", cause }.to_string());
    let (code, text) = error.into_exit();
    console::write_error_line(&text);
    code
}
