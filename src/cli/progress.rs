//! A progress bar for long commands at a terminal.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on standard error.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar that is visible on a terminal only. Short work ends before it appears.
    pub(super) fn on_terminal() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {pos}/{len} {eta}");
        bar.set_style(style.expect("the template is a constant"));
        Self(bar)
    }

    /// Creates a bar that is never visible.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Starts a bar with a label and a number of steps.
    pub(super) fn start(&self, activity: &'static str, step_count: u64) {
        self.0.set_message(activity);
        self.0.set_length(step_count);
    }

    /// Sets the number of steps that are done.
    pub(super) fn set_done(&self, done_count: u64) {
        self.0.set_position(done_count);
    }

    /// Removes the bar.
    pub(super) fn finish(self) {}

    /// Prints a line on standard error, above the bar. Ignores a closed standard error.
    pub(super) fn print_line(&self, text: &str) {
        self.0.suspend(|| drop(writeln!(std::io::stderr(), "{text}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
