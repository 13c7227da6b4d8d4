//! The one who writes the log: one step takes what waits, keeps it, and answers.
//!
//! There is no timer: what comes while a batch is synced is the next batch, so a lone request waits for one
//! sync and a thousand share one.
//!
//! What was written and not synced, the batch at hand included, stays in memory. When an append or a
//! sync fails, the file is dropped and a new segment is begun with all of it, under the same seqs, before
//! anything else is acknowledged. If that fails too, the batch at hand is refused, and so is every request
//! until a segment could be begun: tried again after a pause that doubles up to half a second.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::active_segment::Active;
use super::dedup::Duplicates;
use super::directory::Directory;
use super::erase::secret::Secret;
use super::erase::{Begun, Visitor};
use super::format::{BATCH_HEADER_BYTES, Batch, begin_batch, end_batch};
use super::metrics::Figures;
use super::queue::{Completion, Intake, Mailbox, Outcome, Parcel, Verdict};
use super::record::{Record, key_and_time};
use super::recover::{Closed, Recovered};
use super::retention::{self, let_go};
use super::{Ack, Follower, LogError, Options, Stopped};
use crate::clock::Clock;
use crate::limits::{
    BATCH_BYTES_FULL, MARK_AFTER_MS, RETENTION_EVERY_MS, RETRY_MS_MAX, RETRY_MS_MIN, SEGMENT_RECORDS_MAX,
    SYNC_AFTER_MS, UNSYNCED_BYTES_MAX,
};

/// The writer of one log.
pub struct Writer {
    directory: Directory,
    options: Options,
    clock: Arc<dyn Clock>,
    follower: Box<dyn Follower>,
    intake: Intake,
    figures: Arc<Figures>,
    duplicates: Duplicates,
    /// `None` while the disk is unavailable.
    active: Option<Active>,
    closed: VecDeque<Closed>,
    next_seq: u64,
    durable_seq: u64,
    /// The batches behind the durable seq, end to end, and when the first of them was written.
    unsynced: Vec<u8>,
    unsynced_since: Duration,
    /// Requests of the batch at hand, and the mailboxes to wake.
    parcels: Vec<Parcel>,
    woken: Vec<Arc<Mailbox>>,
    batch: u64,
    written_at: Duration,
    retry_at: Duration,
    retry_pause: Duration,
    retention_at: Duration,
    /// When the follower has something to do.
    follow_at: Option<Duration>,
}

impl Writer {
    pub(super) fn new(
        directory: Directory,
        options: Options,
        clock: Arc<dyn Clock>,
        follower: Box<dyn Follower>,
        recovered: Recovered,
        intake: Intake,
        figures: Arc<Figures>,
    ) -> Self {
        let now = clock.monotonic();
        let next_seq = recovered.report.next_seq;
        figures.available.store(true, Ordering::Relaxed);
        figures.damaged.store(recovered.report.damaged, Ordering::Relaxed);
        let writer = Self {
            directory,
            options,
            clock,
            follower,
            intake,
            figures,
            duplicates: recovered.duplicates,
            active: Some(recovered.active),
            closed: recovered.closed,
            next_seq,
            durable_seq: next_seq - 1,
            unsynced: Vec::new(),
            unsynced_since: now,
            parcels: Vec::new(),
            woken: Vec::new(),
            batch: 0,
            written_at: now,
            retry_at: now,
            retry_pause: Duration::from_millis(RETRY_MS_MIN),
            retention_at: now,
            follow_at: None,
        };
        writer.show();
        writer
    }

    /// Does what there is to do, once: a batch of what waits, and what time asks for.
    pub fn step(&mut self) {
        self.retry_if_due();
        self.drain();
        if !self.parcels.is_empty() {
            self.write();
        }
        self.erase_if_asked();
        self.sync_if_due();
        self.seal_if_full();
        self.mark_if_idle();
        self.retain_if_due();
        self.show();
        self.follow();
    }

    /// Waits until a request comes or time asks for something.
    pub fn rest(&mut self) {
        let now = self.clock.monotonic();
        self.intake.wait(self.due().map(|due| due.saturating_sub(now)));
    }

    /// When time asks for a step, if nothing else does; on the clock's monotonic time.
    pub fn due(&self) -> Option<Duration> {
        let retry = self.active.is_none().then_some(self.retry_at);
        let sync = (self.active.is_some() && !self.unsynced.is_empty()).then(|| self.sync_due());
        let mark = self.wants_mark().then(|| self.mark_due());
        let retention = self.has_retention().then_some(self.retention_at);
        [retry, sync, mark, retention, self.follow_at].into_iter().flatten().min()
    }

    /// Whether it is time to [`close`](Self::close).
    pub fn is_stopping(&self) -> bool {
        self.intake.is_stopping()
    }

    /// Answers what was taken, syncs, and seals. For when the queue has been stopped.
    pub fn close(mut self) -> Stopped {
        while self.intake.waiting() > 0 {
            self.step();
        }
        if self.active.is_none() {
            self.begin(0);
        }
        if !self.unsynced.is_empty() {
            self.sync();
        }
        if let Some(active) = self.active.take().filter(|active| active.records() > 0)
            && self.durable_seq + 1 == self.next_seq
        {
            let sealed = active.seal();
            self.note_failure(&sealed);
        }
        self.show();
        self.follower.closed(&*self.clock, self.settled());
        Stopped { last_seq: self.next_seq - 1, durable_seq: self.durable_seq }
    }

    /// The last seq, where all that was given one is durable.
    fn settled(&self) -> Option<u64> {
        (self.durable_seq + 1 == self.next_seq).then_some(self.durable_seq)
    }

    fn follow(&mut self) {
        let wait = self.follower.between(&*self.clock, self.settled());
        self.follow_at = wait.map(|wait| self.clock.monotonic() + wait);
    }

    fn drain(&mut self) {
        let mut bytes = 0;
        while bytes < BATCH_BYTES_FULL {
            let Some(parcel) = self.intake.take() else { break };
            bytes += parcel.request.bytes();
            self.parcels.push(parcel);
        }
    }

    /// Keeps the requests at hand and answers them.
    fn write(&mut self) {
        if self.active.is_none() {
            return self.answer(Outcome::DiskUnavailable);
        }
        let (start, first_seq) = (begin_batch(&mut self.unsynced), self.next_seq);
        self.judge();
        let count = (self.next_seq - first_seq) as u32;
        if count == 0 {
            self.unsynced.truncate(start);
            return self.answer(self.options.ack.kept());
        }
        end_batch(&mut self.unsynced, start, first_seq, count, self.durable_seq);
        if start == 0 {
            self.unsynced_since = self.clock.monotonic();
        }
        if !self.keep(start) {
            self.duplicates.take_back();
            self.unsynced.truncate(start);
            self.next_seq = first_seq;
            return self.answer(Outcome::DiskUnavailable);
        }
        self.duplicates.commit();
        self.count(start, count);
        self.answer(self.options.ack.kept());
        self.forget_synced();
    }

    /// A verdict on each record; what is accepted stands at the end of `unsynced` then.
    fn judge(&mut self) {
        let Self { parcels, duplicates, unsynced, next_seq, figures, .. } = self;
        let records = parcels.iter().flat_map(|parcel| parcel.request.encoded());
        duplicates.bring_near(records.map(|record| key_and_time(record).0));
        for parcel in parcels {
            parcel.request.judge(|record| {
                let (key, received_ms) = key_and_time(record);
                if duplicates.seen(key, received_ms) {
                    figures.duplicates.fetch_add(1, Ordering::Relaxed);
                    return Verdict::Duplicate;
                }
                unsynced.extend_from_slice(record);
                *next_seq += 1;
                Verdict::Accepted(*next_seq - 1)
            });
        }
    }

    /// Appends the batch that begins at `start` of `unsynced`, and syncs it if that was promised; in the open
    /// segment, else in a new one.
    fn keep(&mut self, start: usize) -> bool {
        let Some(active) = &mut self.active else { return false };
        let began = self.clock.monotonic();
        let appended = active.append(&self.unsynced[start..]);
        self.note_failure(&appended);
        let kept = match (appended, self.options.ack) {
            (Ok(()), Ack::Disk) => self.sync_active(began),
            (Ok(()), Ack::Written) => true,
            (Err(_), _) => false,
        };
        kept || self.roll()
    }

    /// Syncs the open segment: all that was given a seq is durable then.
    fn sync_active(&mut self, began: Duration) -> bool {
        let Some(active) = &mut self.active else { return false };
        let synced = active.sync();
        self.note_failure(&synced);
        if synced.is_err() {
            return false;
        }
        self.durable_seq = self.next_seq - 1;
        self.follower.synced(self.clock.monotonic() - began);
        true
    }

    /// Leaves the open segment alone for ever, and begins another with what is not durable.
    fn roll(&mut self) -> bool {
        self.leave();
        self.begin(0)
    }

    /// The open segment is written to no more.
    fn leave(&mut self) -> Option<Active> {
        let active = self.active.take()?;
        let (first_seq, newest_ms) = (active.first_seq(), active.newest_ms());
        self.closed.push_back(Closed { first_seq, bytes: active.file_bytes(), newest_ms });
        Some(active)
    }

    /// Begins a segment that has zeros laid ahead up to `reserve_until`: none behind a failure, as they may be what failed.
    fn begin(&mut self, reserve_until: u64) -> bool {
        let (first_seq, began, now_ms) = (self.durable_seq + 1, self.clock.monotonic(), self.clock.now_ms());
        let begun = Active::begin(&self.directory, first_seq, now_ms, &self.unsynced, reserve_until);
        self.note_failure(&begun);
        match begun {
            Ok(active) => {
                self.closed.retain(|closed| closed.first_seq != first_seq);
                self.active = Some(active);
                self.durable_seq = self.next_seq - 1;
                self.retry_pause = Duration::from_millis(RETRY_MS_MIN);
                self.follower.synced(self.clock.monotonic() - began);
                true
            }
            Err(_) => {
                self.retry_at = self.clock.monotonic() + self.retry_pause;
                self.retry_pause = (self.retry_pause * 2).min(Duration::from_millis(RETRY_MS_MAX));
                false
            }
        }
    }

    fn retry_if_due(&mut self) {
        if self.active.is_none() && self.clock.monotonic() >= self.retry_at && self.begin(0) {
            self.forget_synced();
        }
    }

    /// Counts the batch at `start` and hands it to the follower.
    fn count(&mut self, start: usize, count: u32) {
        let batch = &self.unsynced[start..];
        self.figures.batches.fetch_add(1, Ordering::Relaxed);
        self.figures.records.fetch_add(u64::from(count), Ordering::Relaxed);
        self.figures.bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.written_at = self.clock.monotonic();
        for batch in Batch::all(batch) {
            self.follower.fold(batch.records);
        }
    }

    /// Sends the requests at hand back, and wakes each worker that has one among them.
    fn answer(&mut self, outcome: Outcome) {
        // Before anybody is told: who is refused here shall see it at the next door.
        self.show();
        self.batch += 1;
        for Parcel { request, mailbox } in self.parcels.drain(..) {
            if outcome == Outcome::DiskUnavailable {
                self.figures.refused.fetch_add(1, Ordering::Relaxed);
            }
            if mailbox.put(Completion { outcome, request }, self.batch) {
                self.woken.push(mailbox);
            }
        }
        self.woken.drain(..).for_each(|mailbox| mailbox.wake());
    }

    fn forget_synced(&mut self) {
        if self.durable_seq + 1 == self.next_seq {
            self.unsynced.clear();
        }
    }

    fn sync_due(&self) -> Duration {
        self.unsynced_since + Duration::from_millis(SYNC_AFTER_MS)
    }

    fn sync_if_due(&mut self) {
        let is_due =
            self.unsynced.len() >= UNSYNCED_BYTES_MAX / 2 || self.clock.monotonic() >= self.sync_due();
        if self.active.is_some() && !self.unsynced.is_empty() && is_due {
            self.sync();
        }
    }

    fn sync(&mut self) {
        if self.sync_active(self.clock.monotonic()) || self.roll() {
            self.forget_synced();
        }
    }

    fn seal_if_full(&mut self) {
        if self.is_full() && !self.unsynced.is_empty() {
            self.sync();
        }
        if !self.is_full() || !self.unsynced.is_empty() {
            return;
        }
        self.seal();
    }

    /// Ends the open segment, all of which is durable, and begins another.
    fn seal(&mut self) {
        if let Some(active) = self.leave() {
            // Without a footer it is scanned, that is all.
            let sealed = active.seal();
            self.note_failure(&sealed);
            if let (Ok(bytes), Some(closed)) = (sealed, self.closed.back_mut()) {
                closed.bytes = bytes;
            }
            self.begin(self.options.reserve_until());
        }
    }

    fn is_full(&self) -> bool {
        self.active.as_ref().is_some_and(|active| {
            active.records() > 0
                && (active.bytes() >= self.options.segment_bytes || active.records() >= SEGMENT_RECORDS_MAX)
        })
    }

    fn wants_mark(&self) -> bool {
        self.unsynced.is_empty()
            && self.active.as_ref().is_some_and(|active| active.proven() < self.durable_seq)
    }

    fn mark_due(&self) -> Duration {
        self.written_at + Duration::from_millis(MARK_AFTER_MS)
    }

    /// Names the durable seq in the file once nothing has come for a while.
    fn mark_if_idle(&mut self) {
        if !self.wants_mark() || self.clock.monotonic() < self.mark_due() || self.intake.waiting() > 0 {
            return;
        }
        let mut mark = Vec::with_capacity(BATCH_HEADER_BYTES);
        let start = begin_batch(&mut mark);
        end_batch(&mut mark, start, self.next_seq, 0, self.durable_seq);
        let Some(active) = &mut self.active else { return };
        let marked = active.append(&mark);
        self.note_failure(&marked);
        if marked.is_err() {
            self.roll();
        }
    }

    fn erase_if_asked(&mut self) {
        if let Some(order) = self.intake.take_order() {
            let begun = self.begin_erasure(&order.visitor);
            self.note_failure(&begun);
            order.answer(begun.map_err(|error| LogError::io(&self.directory.path(""), error)));
        }
    }

    /// Ends every segment that may hold the visitor, and has the tombstone durable and folded.
    fn begin_erasure(&mut self, visitor: &Visitor) -> io::Result<Begun> {
        let secret = Secret::of_or_new(&self.directory)?;
        let others = self.directory.is_erasing()?;
        self.directory.begin_erasing()?;
        if !self.unsynced.is_empty() {
            self.sync();
        }
        if self.unsynced.is_empty() && self.active.as_ref().is_some_and(|active| active.records() > 0) {
            self.seal();
        }
        let seq = self.bury(visitor, &secret.payload(visitor))?;
        Ok(Begun::new(self.directory.clone(), secret, seq, &self.closed, others))
    }

    /// Keeps a visitor's tombstone, the first record of its segment; its seq is the answer once it is durable.
    fn bury(&mut self, visitor: &Visitor, payload: &str) -> io::Result<u64> {
        let unavailable = || io::Error::other("the disk does not take events");
        if self.active.is_none() || !self.unsynced.is_empty() {
            return Err(unavailable());
        }
        let tombstone = Record::tombstone(&visitor.site, payload, self.clock.now_ms());
        let (start, seq) = (begin_batch(&mut self.unsynced), self.next_seq);
        tombstone.encode(&mut self.unsynced).map_err(io::Error::other)?;
        end_batch(&mut self.unsynced, start, seq, 1, self.durable_seq);
        self.unsynced_since = self.clock.monotonic();
        self.next_seq += 1;
        if !self.keep(start) {
            self.unsynced.truncate(start);
            self.next_seq = seq;
            return Err(unavailable());
        }
        self.follower.erase(visitor, seq);
        self.count(start, 1);
        if self.durable_seq < seq {
            self.sync();
        }
        self.forget_synced();
        if self.durable_seq < seq { Err(unavailable()) } else { Ok(seq) }
    }

    fn has_retention(&self) -> bool {
        self.options.retain_ms.is_some() || self.options.retain_bytes.is_some()
    }

    fn retain_if_due(&mut self) {
        let now = self.clock.monotonic();
        if self.has_retention() && now >= self.retention_at {
            self.retention_at = now + Duration::from_millis(RETENTION_EVERY_MS);
            // A segment that is written anew gets its name back, whoever deleted it meanwhile.
            if !self.figures.erasing.load(Ordering::SeqCst) {
                let retained = self.retain();
                self.note_failure(&retained);
            }
        }
    }

    fn retain(&mut self) -> io::Result<()> {
        let active =
            self.active.as_ref().map_or((self.durable_seq + 1, 0), |a| (a.first_seq(), a.file_bytes()));
        // The segment that was left last may hold what is to be written anew.
        let candidates = self.closed.len() - usize::from(self.active.is_none() && !self.closed.is_empty());
        let wanted = let_go(&self.closed, active.1, &self.options, self.clock.now_ms()).min(candidates);
        let count = retention::not_needed(&self.closed, self.follower.covered(), active.0).min(wanted);
        if count < wanted {
            self.follower.held_back();
        }
        retention::delete(&self.directory, &mut self.closed, count, active.0)
    }

    fn note_failure<T>(&self, result: &io::Result<T>) {
        if result.is_err() {
            self.figures.write_failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Puts what changed into the figures.
    fn show(&self) {
        let Figures { available, segments, last_seq, durable_seq, evicted_early, .. } = &*self.figures;
        available.store(self.active.is_some(), Ordering::Relaxed);
        segments.store(self.closed.len() as u64 + u64::from(self.active.is_some()), Ordering::Relaxed);
        last_seq.store(self.next_seq - 1, Ordering::Relaxed);
        durable_seq.store(self.durable_seq, Ordering::Release);
        evicted_early.store(self.duplicates.evicted_early(), Ordering::Relaxed);
    }
}
