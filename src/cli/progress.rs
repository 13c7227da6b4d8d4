//! How far something long has come, for who waits for it at a terminal.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Shown on a terminal only; what is short is done before it appears.
    pub(super) fn on_terminal() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {pos}/{len} {eta}");
        bar.set_style(style.expect("the template is a constant"));
        Self(bar)
    }

    /// Never shown.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Begins `what`, of `all` steps.
    pub(super) fn begin(&self, what: &'static str, all: u64) {
        self.0.set_message(what);
        self.0.set_length(all);
    }

    /// So many steps are done.
    pub(super) fn step(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Says something beside it. Where standard error is closed there is nobody to tell.
    pub(super) fn say(&self, text: &str) {
        self.0.suspend(|| drop(writeln!(std::io::stderr(), "{text}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
