//! The log writer's part of an erasure: it makes the tombstones durable as the first records of a segment.

use std::io;

use super::super::LogError;
use super::super::active_segment::ActiveSegment;
use super::super::format::{begin_batch, end_batch};
use super::super::writer::LogWriter;
use super::rewrite::RewriteOptions;
use super::secret::tombstone_payloads;
use super::{ClusterTombstone, EraseError, EraseRequest, ErasureStarted, InterruptedErasure, VisitorIds};
use crate::limits::{DEDUP_WINDOW_MS, TOMBSTONES_PER_BATCH_MAX};
use crate::record::{Record, TombstoneKey};

impl LogWriter {
    pub(in super::super) fn begin_erasure_if_requested(&mut self) {
        let Some(command) = self.receiver.take_erase_command() else { return };
        let visitor = match &command.request {
            EraseRequest::Begin(visitor) | EraseRequest::Append(Some(visitor), _) => Some(visitor),
            EraseRequest::Append(None, _) | EraseRequest::Resume | EraseRequest::Seal => None,
        };
        if visitor.is_some_and(|visitor| !self.consumer.is_current(visitor)) {
            return command.reply(Err(EraseError::Changed));
        }
        let begun = match &command.request {
            _ if self.waiting.is_some() => Err(io::Error::other("the data directory cannot be written")),
            EraseRequest::Begin(visitor) => self.begin_erasure(visitor),
            EraseRequest::Resume => Ok(self.erasure_started(self.first_open_seq())),
            EraseRequest::Append(_, tombstones) => self.append_cluster_tombstones(tombstones),
            EraseRequest::Seal => self.seal_for_erasure(),
        };
        self.note_result(&begun);
        let failed = |error| EraseError::Log(LogError::io(&self.directory.path(""), error));
        command.reply(begun.map_err(failed));
    }

    /// Returns the state of an erasure in the closed segments, which are before `next_seq`.
    fn erasure_started(&self, next_seq: u64) -> ErasureStarted {
        // Records have the wall clock, which may be earlier than the log clock.
        let wall_ms = self.clock.now_ms().saturating_sub(DEDUP_WINDOW_MS);
        let keep_keys_after_ms = self.dedup.live_after_ms().min(wall_ms);
        let rewriting = RewriteOptions { keep_keys_after_ms, log_id: self.log_id };
        let (directory, damage) = (self.directory.clone(), self.metrics.damage.clone());
        ErasureStarted::new(directory, next_seq, &self.closed, rewriting, damage)
    }

    /// Returns the first seq after the closed segments.
    fn first_open_seq(&self) -> u64 {
        self.active.as_ref().map_or(self.durable_seq + 1, ActiveSegment::first_seq)
    }

    /// Seals the open segment, then makes the tombstones durable and passes them to the consumer.
    fn begin_erasure(&mut self, visitor: &VisitorIds) -> io::Result<ErasureStarted> {
        self.directory.check_identity()?;
        // Without the key nobody could tell which IDs the tombstones name.
        TombstoneKey::load_or_create(&self.directory)?;
        let payloads = tombstone_payloads(visitor);
        self.encode_tombstones(visitor, &payloads[..1], &mut Vec::new())?;
        self.seal_before_erasure()?;
        self.mark_erasure()?;
        let first_seq = self.next_seq;
        self.append_tombstones(visitor, &payloads)?;
        Ok(self.erasure_started(first_seq))
    }

    /// Makes the tombstones of a cluster durable. Their visitor is erased when the stream returns them.
    fn append_cluster_tombstones(&mut self, tombstones: &[ClusterTombstone]) -> io::Result<ErasureStarted> {
        self.directory.check_identity()?;
        let (start, first_seq) = (begin_batch(&mut self.unsynced), self.next_seq);
        let now_ms = self.clock.now_ms();
        for ClusterTombstone { site, key, payload } in tombstones {
            let record = Record { key: *key, ..Record::tombstone(site, payload, now_ms) };
            if let Err(error) = record.encode(&mut self.unsynced) {
                self.unsynced.truncate(start);
                return Err(io::Error::other(error));
            }
        }
        let count = tombstones.len() as u32;
        end_batch(&mut self.unsynced, start, first_seq, count, self.durable_seq);
        self.next_seq = first_seq + u64::from(count);
        if !self.persist(start) {
            self.unsynced.truncate(start);
            self.next_seq = first_seq;
            return Err(unavailable());
        }
        self.deliver_batch(start, count);
        self.clear_synced();
        Ok(self.erasure_started(self.next_seq))
    }

    /// Creates the file `erasing`, unless it names an erasure that has begun. An erasure that it names and that has not
    /// begun is forgotten: its request has got an error, or the start has reported it.
    fn mark_erasure(&self) -> io::Result<()> {
        match InterruptedErasure::find(&self.directory)? {
            Some(InterruptedErasure { is_begun: true, .. }) => Ok(()),
            _ => self.directory.set_erasing(self.next_seq, self.clock.now_ms()),
        }
    }

    /// Seals the open segment, if it has records, and returns the state of an erasure without tombstones.
    fn seal_for_erasure(&mut self) -> io::Result<ErasureStarted> {
        self.directory.check_identity()?;
        self.seal_before_erasure()?;
        Ok(self.erasure_started(self.first_open_seq()))
    }

    /// Seals the open segment, if it has records. All records are then durable, and the open segment is empty.
    fn seal_before_erasure(&mut self) -> io::Result<()> {
        if !self.unsynced.is_empty() {
            self.sync();
        }
        if self.unsynced.is_empty() && self.active.as_ref().is_some_and(|active| active.records() > 0) {
            self.seal();
        }
        match self.active {
            Some(_) if self.unsynced.is_empty() => Ok(()),
            _ => Err(unavailable()),
        }
    }

    /// Appends a visitor's tombstones as the first records of their segment, in batches that are each durable
    /// before the next one. If one fails, the next erasure or the next start appends the others.
    fn append_tombstones(&mut self, visitor: &VisitorIds, payloads: &[String]) -> io::Result<()> {
        let last_seq = self.next_seq + payloads.len() as u64 - 1;
        for (number, payloads) in payloads.chunks(TOMBSTONES_PER_BATCH_MAX).enumerate() {
            let (start, first_seq) = (begin_batch(&mut self.unsynced), self.next_seq);
            let mut batch = std::mem::take(&mut self.unsynced);
            let encoded = self.encode_tombstones(visitor, payloads, &mut batch);
            self.unsynced = batch;
            let count = payloads.len() as u32;
            end_batch(&mut self.unsynced, start, first_seq, count, self.durable_seq);
            self.unsynced_since = self.clock.monotonic();
            self.next_seq = first_seq + u64::from(count);
            if encoded.is_err() || !self.persist(start) {
                self.unsynced.truncate(start);
                self.next_seq = first_seq;
                return encoded.and(Err(unavailable()));
            }
            if number == 0 {
                self.consumer.on_erase(visitor, last_seq);
            }
            self.deliver_batch(start, count);
            if self.durable_seq + 1 < self.next_seq {
                self.sync();
            }
            self.clear_synced();
            if self.durable_seq + 1 < self.next_seq {
                return Err(unavailable());
            }
        }
        Ok(())
    }

    fn encode_tombstones(
        &self,
        visitor: &VisitorIds,
        payloads: &[String],
        batch: &mut Vec<u8>,
    ) -> io::Result<()> {
        payloads.iter().try_for_each(|payload| {
            let tombstone = Record::tombstone(&visitor.site, payload, self.clock.now_ms());
            tombstone.encode(batch).map_err(io::Error::other)
        })
    }
}

fn unavailable() -> io::Error {
    io::Error::other("the disk does not accept events")
}
