//! Progress of a run on standard error: a bar on a terminal, else one line per phase.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Redraw interval of the bar. It is long because drawing uses a CPU of the measurement.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// The progress display of a run.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Creates a bar if standard error is a terminal.
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg} ({eta} left)");
        bar.set_style(style.expect("the template is a constant"));
        Self(Some(bar))
    }

    /// Begins `phase`, of `steps` steps.
    pub fn begin(&self, phase: &str, steps: u64) {
        match &self.0 {
            Some(bar) => {
                bar.set_prefix(phase.to_owned());
                bar.set_message("");
                bar.set_length(steps);
                bar.reset();
                bar.enable_steady_tick(REDRAW_INTERVAL);
            }
            None => self.print(phase),
        }
    }

    /// Shows the current action in the bar, if there is one.
    pub fn set_message(&self, message: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(message);
        }
    }

    /// Adds `steps` completed steps.
    pub fn step(&self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(steps);
        }
    }

    /// Prints a line above the bar. If standard error is closed, the line is lost.
    pub fn print(&self, text: &str) {
        let write = || drop(writeln!(std::io::stderr(), "{text}"));
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
