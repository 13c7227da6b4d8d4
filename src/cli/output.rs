//! The errors of commands, and the lines that they print.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::console;

/// The error of a command. It determines the exit code.
pub(super) enum CliError {
    /// The input is bad. Exit code 1.
    Input(String),
    /// The source of a site has errors. The text is the report of the compiler. Exit code 1.
    Source(String),
    /// The command line is bad, or a settings file that it names. Exit code 2.
    Usage(String),
    /// The system reported an error. Exit code 3.
    System(String),
}

impl CliError {
    /// Returns the exit code, and the text for standard error.
    pub(super) fn into_exit(self) -> (u8, String) {
        match self {
            Self::Source(report) => (1, report),
            Self::Input(text) => (1, format!("parallax: {text}")),
            Self::Usage(text) => (2, format!("parallax: {text}")),
            Self::System(text) => (3, format!("parallax: {text}")),
        }
    }
}

/// Returns the error for an output file that cannot be written.
pub(super) fn output_error(path: &Path, error: &io::Error) -> CliError {
    CliError::System(format!("cannot write {}: {error}; choose another file with -o", path.display()))
}

/// Prints a line to standard output.
pub(super) fn print_line(text: &str) -> Result<(), CliError> {
    match console::write_line(text) {
        // The reader of the pipe closed it: it has read enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::System(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
