//! What the threads that serve have done, for `/metrics`: how many answers, how fast, how many refusals, of which kind.
//!
//! Each thread counts for itself, without a lock or an atomic, and adds what it has to the [`Totals`] once a second. So
//! counting costs a request a few plain additions, and what is shown is a second old at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use hdrhistogram::Histogram;

use crate::problem::{self, Kind};

/// Classes of status: 1xx to 5xx, as 0 to 4.
pub const CLASSES: usize = 5;
/// Two digits: a quantile is exact to a hundredth.
const DIGITS: u8 = 2;
/// Answers are told apart from here on; no request is read and answered in less.
const SHORTEST_NS: u64 = 64;
/// An answer that takes longer counts as this: nobody waits longer than an event may wait for its disk.
const LONGEST_NS: u64 = 60_000_000_000;

/// What can happen to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// It was accepted and served.
    Accepted,
    /// It was one too many.
    Refused,
    /// It could not be accepted, for want of descriptors or memory.
    Failed,
    /// It took too long.
    TimedOut,
    /// A panic while answering ended it.
    Panicked,
}

impl Happening {
    /// All of them, each at its own index, with the name under which it is shown.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Accepted, "accepted"),
        (Self::Refused, "refused"),
        (Self::Failed, "failed"),
        (Self::TimedOut, "timed_out"),
        (Self::Panicked, "panicked"),
    ];
}

/// What one thread, or all of them, have done.
#[derive(Debug, Clone)]
pub struct Counters {
    /// From the receipt of a request to its whole answer, in nanoseconds: by endpoint, then by class.
    answers: Vec<[Histogram<u64>; CLASSES]>,
    /// In the order of `problem::ALL`.
    refusals: Vec<u64>,
    happenings: [u64; Happening::ALL.len()],
    sent_bytes: u64,
}

impl Counters {
    /// Nothing has been done at any of so many endpoints. Allocates all that counting needs.
    pub fn new(endpoints: usize) -> Self {
        let classes: [_; CLASSES] = std::array::from_fn(|_| histogram());
        Self {
            answers: vec![classes; endpoints],
            refusals: vec![0; problem::ALL.len()],
            happenings: Default::default(),
            sent_bytes: 0,
        }
    }

    /// A request to the endpoint of this index was answered with a status of `class`, in `bytes`.
    pub fn answered(&mut self, endpoint: usize, class: usize, took: Duration, bytes: usize) {
        self.answers[endpoint][class].saturating_record(took.as_nanos() as u64);
        self.sent_bytes += bytes as u64;
    }

    /// A problem of this kind was sent.
    pub fn refused(&mut self, kind: &'static Kind) {
        if let Some(at) = problem::ALL.iter().position(|known| *known == kind) {
            self.refusals[at] += 1;
        }
    }

    /// It happened to a connection.
    pub fn happened(&mut self, happening: Happening) {
        self.happenings[happening as usize] += 1;
    }

    /// Nanoseconds of the answers of an endpoint and a class.
    pub fn answers(&self, endpoint: usize, class: usize) -> &Histogram<u64> {
        &self.answers[endpoint][class]
    }

    /// How often a problem of each kind was sent.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static Kind, u64)> {
        problem::ALL.iter().copied().zip(self.refusals.iter().copied())
    }

    /// How often it happened.
    pub fn happenings(&self, happening: Happening) -> u64 {
        self.happenings[happening as usize]
    }

    /// Bytes of all answers.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Adds what `other` has done, who then has done nothing. Allocates nothing.
    fn take(&mut self, other: &mut Self) {
        let (ours, theirs) = (self.answers.as_flattened_mut(), other.answers.as_flattened_mut());
        for (ours, theirs) in ours.iter_mut().zip(theirs).filter(|(_, theirs)| !theirs.is_empty()) {
            ours.add(&*theirs).expect("both have the same bounds");
            theirs.reset();
        }
        add(&mut self.refusals, &mut other.refusals);
        add(&mut self.happenings, &mut other.happenings);
        self.sent_bytes += std::mem::take(&mut other.sent_bytes);
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS).expect("the bounds are constants")
}

fn add(ours: &mut [u64], theirs: &mut [u64]) {
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours += std::mem::take(theirs);
    }
}

/// What all threads have done, as far as they have told.
#[derive(Debug, Clone)]
pub struct Totals(Arc<Mutex<Counters>>);

impl Totals {
    /// Nothing was told.
    pub fn new(endpoints: usize) -> Self {
        Self(Arc::new(Mutex::new(Counters::new(endpoints))))
    }

    /// Takes over what a thread has counted.
    pub fn take(&self, counters: &mut Counters) {
        self.lock().take(counters);
    }

    /// What was told so far.
    pub fn told(&self) -> Counters {
        self.lock().clone()
    }

    /// Sums are whole between two calls, so a panic elsewhere does no harm to them.
    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the log's syncs take, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Syncs(Arc<Mutex<Histogram<u64>>>);

impl Default for Syncs {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(histogram())))
    }
}

impl Syncs {
    /// One took so long.
    pub fn record(&self, took: Duration) {
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.saturating_record(took.as_nanos() as u64);
    }

    /// All that were recorded.
    pub fn told(&self) -> Histogram<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What became of events before they came to the log; shared, since an event costs more than an atomic addition.
#[derive(Debug, Clone)]
pub struct Recorded(Arc<RecordedCounts>);

#[derive(Debug)]
struct RecordedCounts {
    /// By reason: preview, no consent, bot.
    dropped: [AtomicU64; 3],
    /// In the order of `problem::ALL`.
    rejected: Vec<AtomicU64>,
    surrogates: AtomicU64,
}

impl Default for Recorded {
    fn default() -> Self {
        let rejected = problem::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(RecordedCounts {
            dropped: Default::default(),
            rejected,
            surrogates: AtomicU64::new(0),
        }))
    }
}

impl Recorded {
    /// So many valid events were dropped for the reason of this index.
    pub fn dropped(&self, reason: usize, count: usize) {
        self.0.dropped[reason].fetch_add(count as u64, Ordering::Relaxed);
    }

    /// An event was rejected.
    pub fn rejected(&self, kind: &'static Kind) {
        if let Some(at) = problem::ALL.iter().position(|known| *known == kind) {
            self.0.rejected[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many halves of surrogate pairs became U+FFFD.
    pub fn surrogates(&self, count: usize) {
        self.0.surrogates.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// How many were dropped, by reason.
    pub fn told_dropped(&self) -> [u64; 3] {
        std::array::from_fn(|reason| self.0.dropped[reason].load(Ordering::Relaxed))
    }

    /// How many were rejected, by code.
    pub fn told_rejected(&self) -> impl Iterator<Item = (&'static Kind, u64)> {
        let counts = self.0.rejected.iter().map(|count| count.load(Ordering::Relaxed));
        problem::ALL.iter().copied().zip(counts)
    }

    /// How many halves of surrogate pairs were mended.
    pub fn told_surrogates(&self) -> u64 {
        self.0.surrogates.load(Ordering::Relaxed)
    }
}

/// What became of the files in `snapshots/`; shared, since publishing is rare.
#[derive(Debug, Clone, Default)]
pub struct Publishing(Arc<[AtomicU64; 3]>);

impl Publishing {
    /// A site's content took effect.
    pub fn published(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// So many new complaints were made, so many stand now.
    pub fn refused(&self, new: usize, standing: usize) {
        self.0[1].fetch_add(new as u64, Ordering::Relaxed);
        self.0[2].store(standing as u64, Ordering::Relaxed);
    }

    /// How often a content took effect, how many complaints were made, and how many stand.
    pub fn told(&self) -> [u64; 3] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}

/// What became of exports and erasures of visitors; shared, since they are rare.
#[derive(Debug, Clone, Default)]
pub struct JobCounts(Arc<[AtomicU64; 2]>);

impl JobCounts {
    /// One ended in a panic.
    pub fn panicked(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// An export passed over so many places that are damaged.
    pub fn damaged(&self, places: u64) {
        self.0[1].fetch_add(places, Ordering::Relaxed);
    }

    /// How many ended in a panic, and how many damaged places were passed over.
    pub fn told(&self) -> [u64; 2] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}
