//! How far a run has come, on standard error: a bar for who waits at a terminal, else one line for each phase.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often the bar is drawn while nothing changes; seldom, since it is drawn on a processor that something is measured on.
const DRAWN_EVERY: Duration = Duration::from_secs(1);

/// What is shown while a run goes on.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar where standard error is a terminal.
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
                bar.enable_steady_tick(DRAWN_EVERY);
            }
            None => self.say(phase),
        }
    }

    /// Says what is done now, where there is a bar.
    pub fn now(&self, what: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(what);
        }
    }

    /// So many steps more are done.
    pub fn step(&self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(steps);
        }
    }

    /// Says something beside it. Where standard error is closed there is nobody to tell.
    pub fn say(&self, text: &str) {
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
