//! The log writer's part of an erasure: it makes the tombstones durable as the first records of a segment.

use std::io;

use super::super::LogError;
use super::super::erase::{
    ClusterTombstone, EraseError, EraseRequest, ErasureStarted, RewriteOptions, VisitorIds,
    tombstone_payloads,
};
use super::super::segment_writer::unavailable;
use super::super::tombstones::InterruptedErasure;
use super::LogWriter;
use crate::limits::{DEDUP_WINDOW_MS, TOMBSTONES_PER_BATCH_MAX};
use crate::record::{Record, TombstoneKey};

impl LogWriter {
    pub(super) fn begin_erasure_if_requested(&mut self) {
        let Some(command) = self.receiver.take_erase_command() else { return };
        let visitor = match &command.request {
            EraseRequest::Begin(visitor) | EraseRequest::Append(Some(visitor), _) => Some(visitor),
            EraseRequest::Append(None, _) | EraseRequest::Resume | EraseRequest::Seal => None,
        };
        if visitor.is_some_and(|visitor| !self.consumer.is_current(visitor)) {
            return command.reply(Err(EraseError::Changed));
        }
        let result = if self.is_waiting() {
            Err(io::Error::other("the data directory cannot be written"))
        } else if let Err(error) = command.exclude_backups(&self.segments.directory) {
            return command.reply(Err(error));
        } else {
            self.begin_requested(&command.request)
        };
        self.upkeep.note_result(&result);
        let failed = |error| EraseError::Log(LogError::io(&self.segments.directory.path(""), error));
        command.reply(result.map_err(failed));
    }

    fn begin_requested(&mut self, request: &EraseRequest) -> io::Result<ErasureStarted> {
        match request {
            EraseRequest::Begin(visitor) => self.begin_erasure(visitor),
            EraseRequest::Resume => Ok(self.erasure_started(self.segments.first_open_seq())),
            EraseRequest::Append(_, tombstones) => self.append_cluster_tombstones(tombstones),
            EraseRequest::Seal => self.seal_for_erasure(),
        }
    }

    /// Returns the state of an erasure in the closed segments, which are before `next_seq`.
    fn erasure_started(&self, next_seq: u64) -> ErasureStarted {
        // Records have the wall clock, which may be earlier than the log clock.
        let wall_ms = self.clock.now_ms().saturating_sub(DEDUP_WINDOW_MS);
        let keep_keys_after_ms = self.batch.dedup.live_after_ms().min(wall_ms);
        let rewriting = RewriteOptions { keep_keys_after_ms, log_id: self.segments.log_id() };
        let directory = self.segments.directory.clone();
        ErasureStarted::new(
            directory,
            next_seq,
            self.segments.closed(),
            rewriting,
            self.metrics.damage.clone(),
        )
    }

    /// Seals the open segment, then makes the tombstones durable and passes them to the consumer.
    fn begin_erasure(&mut self, visitor_ids: &VisitorIds) -> io::Result<ErasureStarted> {
        self.segments.directory.check_identity()?;
        // Without the key nobody could tell which IDs the tombstones name.
        TombstoneKey::load_or_create(&self.segments.directory)?;
        let payloads = tombstone_payloads(visitor_ids);
        encode_tombstones(visitor_ids, &payloads[..1], self.clock.now_ms(), &mut Vec::new())?;
        self.seal_before_erasure()?;
        self.mark_erasure()?;
        let first_seq = self.segments.next_seq();
        self.append_tombstones(visitor_ids, &payloads)?;
        Ok(self.erasure_started(first_seq))
    }

    /// Makes the tombstones of a cluster durable. Their visitor is erased when the stream returns them.
    fn append_cluster_tombstones(&mut self, tombstones: &[ClusterTombstone]) -> io::Result<ErasureStarted> {
        self.segments.directory.check_identity()?;
        let now_ms = self.clock.now_ms();
        let count = self.segments.add_batch(|batch, _| {
            for ClusterTombstone { site, key, payload } in tombstones {
                let record = Record { key: *key, ..Record::tombstone(site, payload, now_ms) };
                record.encode(batch).map_err(io::Error::other)?;
            }
            Ok(tombstones.len() as u32)
        })?;
        if count > 0 {
            if !self.persist() {
                return Err(unavailable());
            }
            self.deliver_batch();
            self.segments.clear_synced();
        }
        Ok(self.erasure_started(self.segments.next_seq()))
    }

    /// Creates the file `erasing`, unless it names an erasure that has begun. An erasure that it names and that has not
    /// begun is forgotten: its request has got an error, or the start has reported it.
    fn mark_erasure(&self) -> io::Result<()> {
        let directory = &self.segments.directory;
        match InterruptedErasure::find(directory)? {
            Some(InterruptedErasure { is_begun: true, .. }) => Ok(()),
            _ => directory.set_erasing(self.segments.next_seq(), self.clock.now_ms()),
        }
    }

    /// Seals the open segment, if it has records, and returns the state of an erasure without tombstones.
    fn seal_for_erasure(&mut self) -> io::Result<ErasureStarted> {
        self.segments.directory.check_identity()?;
        self.seal_before_erasure()?;
        Ok(self.erasure_started(self.segments.first_open_seq()))
    }

    /// Seals the open segment, if it has records. All records are then durable, and the open segment is empty.
    fn seal_before_erasure(&mut self) -> io::Result<()> {
        if !self.segments.is_durable() {
            self.sync();
        }
        if self.segments.is_durable() && self.segments.has_records() {
            self.seal();
        }
        let is_sealed = self.segments.is_available() && self.segments.is_durable();
        if is_sealed { Ok(()) } else { Err(unavailable()) }
    }

    /// Appends a visitor's tombstones as the first records of their segment, in batches that are each durable
    /// before the next one. If one fails, the next erasure or the next start appends the others.
    fn append_tombstones(&mut self, visitor_ids: &VisitorIds, payloads: &[String]) -> io::Result<()> {
        let last_seq = self.segments.next_seq() + payloads.len() as u64 - 1;
        for (number, payloads) in payloads.chunks(TOMBSTONES_PER_BATCH_MAX).enumerate() {
            let now_ms = self.clock.now_ms();
            self.segments.add_batch(|batch, _| encode_tombstones(visitor_ids, payloads, now_ms, batch))?;
            if !self.persist() {
                return Err(unavailable());
            }
            if number == 0 {
                self.consumer.on_erase(visitor_ids, last_seq);
            }
            self.deliver_batch();
            if !self.segments.is_durable() {
                self.sync();
            }
            self.segments.clear_synced();
            if !self.segments.is_durable() {
                return Err(unavailable());
            }
        }
        Ok(())
    }
}

/// Appends the tombstones of a visitor to `out`, and returns their number.
fn encode_tombstones(
    visitor_ids: &VisitorIds,
    payloads: &[String],
    now_ms: i64,
    out: &mut Vec<u8>,
) -> io::Result<u32> {
    for payload in payloads {
        Record::tombstone(&visitor_ids.site, payload, now_ms).encode(out).map_err(io::Error::other)?;
    }
    Ok(payloads.len() as u32)
}
