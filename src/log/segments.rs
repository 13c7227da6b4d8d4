//! The segments of a log one by one, for a reader that derives a file from each of them.
//!
//! Unlike [`super::LogReader`], it surveys the directory by names alone, and continues in a segment where it stopped.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::directory::{LogDirectory, OldestSeq};
use super::format::Records;
use super::verify::{SegmentEntry, SegmentItem, SegmentReader};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::{Disk, FileIdentity};

/// A segment that retention has kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentSpan {
    /// The first seq in its name.
    pub first_seq: u64,
    /// The first seq of the next segment. `None` for the last segment, which may be written to.
    pub next_seq: Option<u64>,
}

/// Returns the segments of the log in `dir`, in order.
///
/// # Errors
/// An I/O error.
pub(crate) fn segment_spans(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<Vec<SegmentSpan>> {
    let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
    let seqs = directory.segments()?;
    // Read `oldest` after the names: retention changes it before it deletes a segment.
    let oldest = match directory.oldest()? {
        OldestSeq::Seq(seq) => seq,
        OldestSeq::Absent | OldestSeq::Damaged => 0,
    };
    let nexts = seqs.iter().skip(1).map(|seq| Some(*seq)).chain([None]);
    let spans =
        seqs.iter().zip(nexts).map(|(first_seq, next_seq)| SegmentSpan { first_seq: *first_seq, next_seq });
    Ok(spans.filter(|span| span.next_seq.is_none_or(|next| next > oldest)).collect())
}

/// The place in a segment where a reader stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentPosition {
    /// The segment file. A failed writer may replace it by another one of the same name.
    pub file: FileIdentity,
    offset: u64,
    /// The seq of the next record.
    pub next_seq: u64,
}

/// A reader of the records of one segment up to a seq.
pub(crate) struct SegmentRecords {
    reader: SegmentReader,
    file: FileIdentity,
    /// The offset after the last batch that was read.
    offset: Option<u64>,
    last_seq: u64,
    /// `None` if the segment may be written to.
    known_damage: Option<KnownDamage>,
}

impl SegmentRecords {
    /// Opens a segment for the records up to `last_seq`, all of which were acknowledged. The reader reports the damage
    /// of a sealed segment. In the active one it can be an append that failed and is repeated.
    ///
    /// # Errors
    /// An I/O error: `NotFound` if retention has deleted the segment.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        span: SegmentSpan,
        last_seq: u64,
        known_damage: &KnownDamage,
    ) -> io::Result<Self> {
        let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
        let entry = SegmentEntry {
            named_seq: span.first_seq,
            first_seq: span.first_seq,
            created_ms: None,
            void_from_seq: span.next_seq.unwrap_or(u64::MAX),
            log_id: None,
        };
        let file = disk.identity(&directory.path(&entry.file_name()))?;
        let reader = SegmentReader::new(&directory, &entry, last_seq)?;
        let known_damage = span.next_seq.map(|_| known_damage.clone());
        Ok(Self { reader, file, offset: None, last_seq, known_damage })
    }

    /// Continues at the position where an earlier reader of the same file stopped. Returns false, and reads from the
    /// start, if the file is another one.
    pub(crate) fn resume(&mut self, position: SegmentPosition) -> bool {
        let is_same = position.file == self.file;
        if is_same {
            self.reader.resume(position.offset, position.next_seq);
            self.offset = Some(position.offset);
        }
        is_same
    }

    /// Skips records below a seq, if the segment is sealed. The next record can be one before it.
    pub(crate) fn skip_to(&mut self, seq: u64) {
        self.reader.seek_to_seq(seq);
    }

    /// Returns the identity of the segment file.
    pub(crate) fn file(&self) -> FileIdentity {
        self.file
    }

    /// Passes the records from here on to `visit`, batch by batch, until it breaks. Damaged places are skipped.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn read(&mut self, visit: &mut dyn FnMut(Records<'_>) -> ControlFlow<()>) -> io::Result<()> {
        while self.reader.next_seq() <= self.last_seq {
            match self.reader.next()? {
                Some(SegmentItem::Damage(damage)) => {
                    self.known_damage.iter().for_each(|known| damage.report_to(known));
                }
                // A batch is acknowledged as a whole, so none is read in part.
                Some(SegmentItem::Batch { offset, batch }) if batch.records.seqs().start <= self.last_seq => {
                    self.offset = Some(offset + batch.bytes.len() as u64);
                    if visit(batch.records).is_break() {
                        break;
                    }
                }
                Some(SegmentItem::Batch { .. }) | None => break,
            }
        }
        Ok(())
    }

    /// Returns the position after the records that were read. `None` if there was none.
    pub(crate) fn position(&self) -> Option<SegmentPosition> {
        let next_seq = self.reader.next_seq();
        self.offset.map(|offset| SegmentPosition { file: self.file, offset, next_seq })
    }
}
