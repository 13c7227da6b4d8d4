//! `parallax completions` and `parallax man-pages`: the command line in the forms that shells and `man` read.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::{CliError, print_line};

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Load the completions into this shell:
  source <(parallax completions bash)
Load them into each shell:
  parallax completions bash > ~/.local/share/bash-completion/completions/parallax
  parallax completions fish > ~/.config/fish/completions/parallax.fish";

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManPagesArgs {
    /// The directory, such as /usr/local/share/man/man1. It is created if it is missing.
    directory: PathBuf,
}

/// Prints the completions. `command` is the description of the command line.
pub(super) fn print_completions(args: &CompletionsArgs, mut command: Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "parallax", &mut script);
    print_line(String::from_utf8_lossy(&script).trim_end())
}

/// Writes a page for each command that `--help` lists. `command` is the description of the command line.
pub(super) fn write_man_pages(args: &ManPagesArgs, command: Command) -> Result<(), CliError> {
    let written =
        fs::create_dir_all(&args.directory).and_then(|()| clap_mangen::generate_to(command, &args.directory));
    written.map_err(|error| {
        CliError::System(format!(
            "cannot write man pages into {}: {error}; choose another directory",
            args.directory.display()
        ))
    })
}
