//! The evaluation of responses: whether a response is as expected, whether it is in the window, and its
//! latency.

use std::ops::Range;

use super::Load;
use super::check::check_response;
use super::framing::ResponseHead;
use super::tally::Tally;

/// A judge of the responses of one thread.
pub struct ResponseJudge<'a> {
    load: &'a Load<'a>,
    /// The window, in nanoseconds of the run's clock.
    window: Range<u64>,
    /// Responses until the next complete check, for each template. So each template's first response is
    /// checked, and even rare templates are.
    until_check: Vec<u32>,
    pub tally: Tally,
}

impl<'a> ResponseJudge<'a> {
    pub fn new(load: &'a Load<'a>, window: Range<u64>) -> Self {
        Self { load, window, until_check: vec![0; load.templates.len()], tally: Tally::new() }
    }

    /// Returns whether the next response to this template is to be checked completely.
    pub fn should_check(&mut self, template: usize) -> bool {
        let until = &mut self.until_check[template];
        let is_turn = *until == 0;
        *until = if is_turn { self.load.check_every - 1 } else { *until - 1 };
        is_turn
    }

    /// Returns whether a response counts. An open loop counts requests due in the window (at `start_ns`), so that
    /// no slow one is left out. A closed loop counts responses received in the window (at `now`).
    fn is_counted(&self, start_ns: u64, now: u64) -> bool {
        self.window.contains(if self.load.pace.is_open() { &start_ns } else { &now })
    }

    /// Records received bytes.
    pub fn on_bytes(&mut self, bytes: usize, now: u64) {
        if self.window.contains(&now) {
            self.tally.received_bytes += bytes as u64;
        }
    }

    /// Records due requests.
    pub fn on_due(&mut self, start_ns: u64, requests: u64, is_late: bool) {
        if self.window.contains(&start_ns) {
            self.tally.due += requests;
            self.tally.late += if is_late { requests } else { 0 };
        }
    }

    /// Records a complete response. `checked_bytes` has its bytes if it is to be checked.
    pub fn on_response(
        &mut self,
        template: usize,
        response: ResponseHead,
        checked_bytes: Option<&[u8]>,
        start_ns: u64,
        now: u64,
    ) {
        let expected = &self.load.templates[template].expected;
        let mut verdict = Ok(());
        if response.status != expected.status {
            verdict = Err(format!("status {}, not {}", response.status, expected.status));
        } else if let Some(checked_bytes) = checked_bytes {
            verdict = check_response(checked_bytes, expected);
            self.tally.checked += 1;
        }
        match verdict {
            Err(reason) => {
                self.tally.fail(1, || format!("response to {}: {reason}", self.load.request_line(template)))
            }
            Ok(()) if self.is_counted(start_ns, now) => {
                self.tally.completed += 1;
                self.tally.latency_ns.saturating_record(now.saturating_sub(start_ns));
            }
            Ok(()) => {}
        }
    }
}
