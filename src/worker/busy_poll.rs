//! Busy polling (`--busy-poll-us`): decides whether an idle worker polls again or parks.
//!
//! Waking a parked worker costs more than answering a request. A worker that polls for a while before it
//! parks needs no wakeup if the next request arrives soon. The price is CPU time. A worker that receives
//! nothing never polls.
//!
//! [`BusyPoll`] is the policy. It takes activity and the time, and performs no I/O. [`BusyPoller`] applies it
//! to the runtime of a worker.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::clock;

/// Number of spins in a row without any activity after which a worker parks at once. So many idle spins show
/// that no client has a short round trip. With a lower limit one pause of a busy client would end the
/// polling.
pub const IDLE_SPINS_MAX: u32 = 8;
/// After `IDLE_SPINS_MAX` idle spins, one in this many activities is followed by a spin again. A client with
/// a short round trip gets its polling back within milliseconds. Other clients cost the worker a sixty-fourth
/// of its CPU at most.
pub const SPIN_RETRY_INTERVAL: u32 = 64;

/// Interval at which a polling worker lets the runtime check its timers. A timer fires at most this much
/// late, which is negligible compared with a second.
const TIMER_CHECK_INTERVAL: Duration = Duration::from_millis(4);
/// Timer resolution of monoio: a timer fires at the end of its millisecond.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// The busy-poll policy of a worker.
///
/// After activity, a worker polls until it has been idle for `poll_max`. A poll period without activity is an
/// idle spin. After `IDLE_SPINS_MAX` idle spins in a row the worker parks at once, except that every
/// `SPIN_RETRY_INTERVAL`th activity starts a poll period. Activity during a poll period resets the count.
#[derive(Debug)]
pub struct BusyPoll {
    poll_max: Duration,
    /// True if there was activity since the last call of `should_poll`, and it starts a poll period.
    has_activity: bool,
    /// The end of the current poll period. `None` if the worker may park.
    poll_until: Option<Instant>,
    /// Idle spins in a row, at most `IDLE_SPINS_MAX`.
    idle_spins: u32,
    /// Activities in a row that started no poll period.
    skipped: u32,
}

impl BusyPoll {
    /// Creates a policy without activity: the worker parks.
    pub fn new(poll_max: Duration) -> Self {
        Self { poll_max, has_activity: false, poll_until: None, idle_spins: 0, skipped: 0 }
    }

    /// Records activity. Returns whether the worker polls for more.
    pub fn on_activity(&mut self) -> bool {
        if self.poll_until.take().is_some() {
            self.idle_spins = 0;
        }
        let is_tried = self.idle_spins < IDLE_SPINS_MAX || self.skipped + 1 == SPIN_RETRY_INTERVAL;
        self.skipped = if is_tried { 0 } else { self.skipped + 1 };
        self.has_activity |= is_tried;
        self.has_activity
    }

    /// Returns whether to poll again. Call it when all received work is done.
    pub fn should_poll(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.has_activity) {
            self.poll_until = Some(now + self.poll_max);
        }
        let goes_on = self.poll_until.is_some_and(|until| now < until);
        if !goes_on && self.poll_until.take().is_some() {
            self.idle_spins = (self.idle_spins + 1).min(IDLE_SPINS_MAX);
        }
        goes_on
    }
}

/// The busy poller of one worker.
#[derive(Debug)]
pub(super) struct BusyPoller {
    /// `None` if the worker always parks at once.
    policy: Option<RefCell<BusyPoll>>,
    /// Waker of the poll task, which keeps the worker from parking.
    poll_task_waker: RefCell<Option<Waker>>,
}

impl BusyPoller {
    /// Creates a poller that polls for at most `poll_max` after activity. If `poll_max` is zero, it never
    /// polls.
    pub(super) fn new(poll_max: Duration) -> Self {
        let policy = (!poll_max.is_zero()).then(|| RefCell::new(BusyPoll::new(poll_max)));
        Self { policy, poll_task_waker: RefCell::default() }
    }

    /// Records external activity: a connection, bytes, or a wakeup by another thread.
    pub(super) fn on_activity(&self) {
        if self.policy.as_ref().is_some_and(|policy| policy.borrow_mut().on_activity()) {
            self.wake_poll_task();
        }
    }

    fn wake_poll_task(&self) {
        if let Some(waker) = &*self.poll_task_waker.borrow() {
            waker.wake_by_ref();
        }
    }

    async fn run_poll_task(self: Rc<Self>, main_waker: Waker) {
        poll_fn(|context| {
            self.poll_task_waker.borrow_mut().get_or_insert_with(|| context.waker().clone());
            main_waker.wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Keeps the worker from parking for as long as the policy says. Must be the main future of the runtime.
    ///
    /// monoio polls the main future after the tasks. Then it parks, unless a task is ready. If one is, it
    /// only checks for completions and starts the next iteration. So the main future wakes the poll task, and
    /// the poll task only wakes the main future. That makes one iteration for each check, after all tasks
    /// with real work. A task that woke itself would run before those, forever.
    ///
    /// The runtime checks timers only when it parks. So this future lets it park every
    /// `TIMER_CHECK_INTERVAL`, with a timer that is due, and the runtime returns at once.
    pub(super) async fn keep_awake(self: Rc<Self>) {
        let Some(policy) = &self.policy else { return std::future::pending().await };
        let main_waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        monoio::spawn(Rc::clone(&self).run_poll_task(main_waker));
        let mut timer = pin!(monoio::time::sleep(TIMER_CHECK_INTERVAL));
        let mut park_at = clock::instant();
        poll_fn(|context| {
            let now = clock::instant();
            if !policy.borrow_mut().should_poll(now) {
                return Poll::Pending;
            }
            if timer.as_mut().poll(context).is_ready() {
                timer.as_mut().reset((now + TIMER_CHECK_INTERVAL).into());
                park_at = now + TIMER_CHECK_INTERVAL + TIMER_RESOLUTION;
                // Registers the waker of this future with the timer.
                let _ = timer.as_mut().poll(context);
            }
            if now < park_at {
                self.wake_poll_task();
            }
            Poll::Pending
        })
        .await
    }
}
