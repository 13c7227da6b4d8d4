//! The standard streams and the environment of a command, as texts that the host gives and gets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

/// The streams of one run of a command.
#[derive(Debug, Default)]
pub struct Streams {
    pub output: String,
    pub errors: String,
}

thread_local! {
    static STREAMS: RefCell<Streams> = RefCell::default();
    static VARIABLES: RefCell<BTreeMap<String, String>> = RefCell::default();
    static OUTPUT_ERROR: RefCell<Option<io::Error>> = const { RefCell::new(None) };
}

/// Begins a run with the variables of the environment, and the error of standard output if it cannot be written.
pub(crate) fn begin(variables: BTreeMap<String, String>, output_error: Option<io::Error>) {
    STREAMS.take();
    OUTPUT_ERROR.set(output_error);
    VARIABLES.set(variables);
}

/// Returns the lines of the run.
pub(crate) fn take() -> Streams {
    STREAMS.take()
}

/// Writes a line to standard output.
pub(crate) fn write_line(text: &str) -> io::Result<()> {
    if let Some(error) = OUTPUT_ERROR.take() {
        return Err(error);
    }
    write_text(text);
    write_text("\n");
    Ok(())
}

/// Writes a text to standard output, which has its line ends.
pub(crate) fn write_text(text: &str) {
    STREAMS.with_borrow_mut(|streams| streams.output.push_str(text));
}

/// Writes a line to standard error.
pub(crate) fn write_error_line(text: &str) {
    write_error_text(text);
    write_error_text("\n");
}

/// Writes a text to standard error, which has its line ends.
pub(crate) fn write_error_text(text: &str) {
    STREAMS.with_borrow_mut(|streams| streams.errors.push_str(text));
}

/// Returns a variable of the environment.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    VARIABLES.with_borrow(|variables| variables.get(name).map(OsString::from))
}
