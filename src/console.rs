//! The standard streams and the environment of an authoring command.
//!
//! Without the feature `server`, `hosted/console.rs` replaces this file.

use std::ffi::OsString;
use std::io::{self, Write};

/// Writes a line to standard output.
///
/// # Errors
/// The system's error.
pub(crate) fn write_line(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// Writes a line to standard error.
pub(crate) fn write_error_line(text: &str) {
    // Ignore the error: if standard error is closed, nobody can read the line.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns a variable of the environment.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
