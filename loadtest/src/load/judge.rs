//! What an answer counts for: whether it is the expected one, whether it is of the window, how long it took.

use std::ops::Range;

use super::Load;
use super::answer::Answer;
use super::check::check;
use super::tally::Tally;

/// Judges the answers of one thread.
pub struct Judge<'a> {
    load: &'a Load<'a>,
    /// In nanoseconds of the run's clock.
    window: Range<u64>,
    /// Answers until the next that is kept whole, for each template: so even the rarest is looked at, and the first of each.
    until_check: Vec<u32>,
    pub tally: Tally,
}

impl<'a> Judge<'a> {
    pub fn new(load: &'a Load<'a>, window: Range<u64>) -> Self {
        Self { load, window, until_check: vec![0; load.templates.len()], tally: Tally::new() }
    }

    /// Whether the answer to this template that now begins is to be kept whole.
    pub fn is_checked(&mut self, template: usize) -> bool {
        let until = &mut self.until_check[template];
        let is_turn = *until == 0;
        *until = if is_turn { self.load.check_every - 1 } else { *until - 1 };
        is_turn
    }

    /// Whether a request is counted that was due at `mark` (closed loop: was sent then), at `now`. In an open loop those due in
    /// the window, so that none is left out for being slow; in a closed loop those answered in it.
    fn is_counted(&self, mark: u64, now: u64) -> bool {
        self.window.contains(if self.load.pace.is_open() { &mark } else { &now })
    }

    /// Bytes came.
    pub fn received(&mut self, bytes: usize, now: u64) {
        if self.window.contains(&now) {
            self.tally.received_bytes += bytes as u64;
        }
    }

    /// Requests became due.
    pub fn due(&mut self, mark: u64, requests: u64, is_late: bool) {
        if self.window.contains(&mark) {
            self.tally.due += requests;
            self.tally.late += if is_late { requests } else { 0 };
        }
    }

    /// An answer ended; `whole` is all of it where it was kept.
    pub fn answered(&mut self, template: usize, answer: Answer, whole: Option<&[u8]>, mark: u64, now: u64) {
        let expected = &self.load.templates[template].expected;
        let mut verdict = Ok(());
        if answer.status != expected.status {
            verdict = Err(format!("status {}, not {}", answer.status, expected.status));
        } else if let Some(whole) = whole {
            verdict = check(whole, expected);
            self.tally.checked += 1;
        }
        match verdict {
            Err(what) => {
                self.tally.fail(1, || format!("the answer to {}: {what}", self.load.named(template)))
            }
            Ok(()) if self.is_counted(mark, now) => {
                self.tally.completed += 1;
                self.tally.latency_ns.saturating_record(now.saturating_sub(mark));
            }
            Ok(()) => {}
        }
    }
}
