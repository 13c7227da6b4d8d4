//! Whether a worker that has nothing to do polls on or parks (`--spin-us`). In comes that something came and what time it is;
//! out, whether to poll once more.
//!
//! To be woken costs a worker more than to answer. One that polls for a while before it parks need not be woken where the next
//! request is near; it burns its CPU for that. A worker to which nothing comes never polls.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::clock;
use crate::limits::{SPINS_IN_VAIN_MAX, TRIED_AFTER_VAIN_SPINS};

/// How often timers are looked at while the worker polls: what is due is late by no more, and that is nothing beside a second.
const TIMERS_EVERY: Duration = Duration::from_millis(4);
/// monoio's: a timer is due at the end of its millisecond.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// The rule. A worker polls until nothing has come for so long. Where that was in vain `SPINS_IN_VAIN_MAX` times in a row, it parks
/// at once, but for each `TRIED_AFTER_VAIN_SPINS`th thing that comes; until something comes while it polls.
#[derive(Debug)]
pub struct Spin {
    longest: Duration,
    /// Something came since it was asked last, and it is polled on for more.
    is_begun: bool,
    /// When it parks.
    until: Option<Instant>,
    /// Spins in a row in which nothing came.
    in_vain: u32,
    /// What came and was not followed by a spin.
    passed: u32,
}

impl Spin {
    /// Nothing has come yet: the worker parks.
    pub fn new(longest: Duration) -> Self {
        Self { longest, is_begun: false, until: None, in_vain: 0, passed: 0 }
    }

    /// Something came. Whether it is polled on for more.
    pub fn came(&mut self) -> bool {
        if self.until.take().is_some() {
            self.in_vain = 0;
        }
        let is_tried = self.in_vain < SPINS_IN_VAIN_MAX || self.passed + 1 == TRIED_AFTER_VAIN_SPINS;
        self.passed = if is_tried { 0 } else { self.passed + 1 };
        self.is_begun |= is_tried;
        self.is_begun
    }

    /// Whether to poll once more, all that came being done.
    pub fn goes_on(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.is_begun) {
            self.until = Some(now + self.longest);
        }
        let goes_on = self.until.is_some_and(|until| now < until);
        if !goes_on && self.until.take().is_some() {
            self.in_vain = (self.in_vain + 1).min(SPINS_IN_VAIN_MAX);
        }
        goes_on
    }
}

/// A worker's own.
#[derive(Debug)]
pub(super) struct Spinning {
    /// Nothing where the worker parks at once, always.
    rule: Option<RefCell<Spin>>,
    /// Of the task that keeps the worker from parking.
    baton: RefCell<Option<Waker>>,
}

impl Spinning {
    /// A worker that polls for so long; for no time: never.
    pub(super) fn new(longest: Duration) -> Self {
        let rule = (!longest.is_zero()).then(|| RefCell::new(Spin::new(longest)));
        Self { rule, baton: RefCell::default() }
    }

    /// Something came from outside: a connection, bytes, the bell.
    pub(super) fn came(&self) {
        if self.rule.as_ref().is_some_and(|rule| rule.borrow_mut().came()) {
            self.pass_baton();
        }
    }

    fn pass_baton(&self) {
        if let Some(baton) = &*self.baton.borrow() {
            baton.wake_by_ref();
        }
    }

    async fn hold_baton(self: Rc<Self>, main: Waker) {
        poll_fn(|context| {
            self.baton.borrow_mut().get_or_insert_with(|| context.waker().clone());
            main.wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Keeps the worker from parking, for as long as the rule says. It is to be the runtime's main future.
    ///
    /// monoio polls that after the tasks, and parks unless one of them is to run; else it looks for completions and goes round.
    /// So the main future has a task run that does nothing but wake it: once round for each look, behind all tasks that have
    /// something to do. A task that woke itself would be run before them, for ever.
    ///
    /// Timers are looked at only where the runtime parks. So every `TIMERS_EVERY` it is let park, with a timer that is due: it
    /// comes back at once.
    pub(super) async fn keep_awake(self: Rc<Self>) {
        let Some(rule) = &self.rule else { return std::future::pending().await };
        let main = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        monoio::spawn(Rc::clone(&self).hold_baton(main));
        let mut timer = pin!(monoio::time::sleep(TIMERS_EVERY));
        let mut park_at = clock::instant();
        poll_fn(|context| {
            let now = clock::instant();
            if !rule.borrow_mut().goes_on(now) {
                return Poll::Pending;
            }
            if timer.as_mut().poll(context).is_ready() {
                timer.as_mut().reset((now + TIMERS_EVERY).into());
                park_at = now + TIMERS_EVERY + TIMER_RESOLUTION;
                // So that it wakes this future.
                let _ = timer.as_mut().poll(context);
            }
            if now < park_at {
                self.pass_baton();
            }
            Poll::Pending
        })
        .await
    }
}
