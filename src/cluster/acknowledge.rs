//! The acknowledgement of events: waits until their records have returned through the stream, but not for long.
//!
//! A record that has returned is in the table, so the visitor's next resolve sees it. The receipt says
//! `"visible":true`. If the stream is slow or away, the own disk is enough, and the receipt says
//! `"visible":false`.

use std::collections::VecDeque;

/// The requests that wait for the return of their records, in seq order.
#[derive(Debug)]
pub struct WaitingRequests<R> {
    waiting: VecDeque<Waiting<R>>,
    timeout_ms: i64,
}

#[derive(Debug)]
struct Waiting<R> {
    last_seq: u64,
    deadline_ms: i64,
    request: R,
}

impl<R> WaitingRequests<R> {
    /// Creates an empty queue. A request waits for at most `timeout_ms`.
    pub fn new(timeout_ms: i64) -> Self {
        Self { waiting: VecDeque::new(), timeout_ms }
    }

    /// Adds a request whose records are durable up to `last_seq`. Returns it if it is acknowledged at once:
    /// while the node is not connected, and while the oldest record that has not returned is older than the
    /// timeout. So a stream that is slow delays the first requests and no later ones.
    pub fn push(
        &mut self,
        request: R,
        last_seq: u64,
        is_connected: bool,
        oldest_pending_ms: i64,
        now_ms: i64,
    ) -> Option<R> {
        if !is_connected || now_ms.saturating_sub(oldest_pending_ms) >= self.timeout_ms {
            return Some(request);
        }
        self.waiting.push_back(Waiting { last_seq, deadline_ms: now_ms + self.timeout_ms, request });
        None
    }

    /// Returns the time at which the next request has waited too long.
    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.waiting.front().map(|waiting| waiting.deadline_ms)
    }

    /// Returns the next request whose records have returned.
    pub fn next_returned(&mut self, returned_seq: u64) -> Option<R> {
        let is_returned = self.waiting.front()?.last_seq <= returned_seq;
        is_returned.then(|| self.waiting.pop_front()).flatten().map(|waiting| waiting.request)
    }

    /// Returns the next request that has waited too long.
    pub fn next_expired(&mut self, now_ms: i64) -> Option<R> {
        let is_expired = self.waiting.front()?.deadline_ms <= now_ms;
        is_expired.then(|| self.waiting.pop_front()).flatten().map(|waiting| waiting.request)
    }
}
