//! The records of all runs in order, without duplicates.

use std::io;
use std::path::Path;

use super::digests::Translations;
use super::duplicates::DUPLICATES;
use super::order::PLACE_BYTES;
use super::progress::{Progress, WriteProgress};
use super::read::RECORDS;
use super::runs::Merge;
use crate::log::RecordSource;
use crate::record::RecordKind;

/// A reader of the records for the segments.
pub(super) struct MergedRecords<'a> {
    records: Merge,
    duplicates: Merge,
    translations: &'a Translations,
    /// The next record. Empty at the end.
    record: Vec<u8>,
    progress: WriteProgress,
}

impl<'a> MergedRecords<'a> {
    /// Opens the runs at the place that the progress states.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(super) fn open(dir: &Path, progress: &Progress, translations: &'a Translations) -> io::Result<Self> {
        let written = &progress.written;
        let mut records = Self {
            records: Merge::open(RECORDS, dir, progress.records, &written.record_offsets)?,
            duplicates: Merge::open(DUPLICATES, dir, progress.duplicates, &written.duplicate_offsets)?,
            translations,
            record: Vec::new(),
            progress: written.clone(),
        };
        records.read()?;
        Ok(records)
    }

    /// Returns the progress after a segment with `seqs` records that began at `created_ms`.
    pub(super) fn progress_after(&mut self, seqs: u64, created_ms: i64) -> &WriteProgress {
        self.progress.seqs += seqs;
        self.progress.created_ms = created_ms;
        self.progress.record_offsets = self.records.offsets();
        self.progress.duplicate_offsets = self.duplicates.offsets();
        &self.progress
    }

    /// Reads the next record that is no duplicate.
    fn read(&mut self) -> io::Result<()> {
        self.record.clear();
        while let Some(entry) = self.records.peek() {
            let (place, encoded) = entry.split_at(PLACE_BYTES);
            if self.duplicates.peek() != Some(place) {
                return self.translations.write(place, encoded, &mut self.record);
            }
            self.progress.duplicates += u64::from(encoded[4] != RecordKind::Void as u8);
            // A record with two keys can be a duplicate twice.
            while self.duplicates.peek() == Some(place) {
                self.duplicates.advance()?;
            }
            self.records.advance()?;
        }
        Ok(())
    }
}

impl RecordSource for MergedRecords<'_> {
    fn peek(&self) -> Option<&[u8]> {
        (!self.record.is_empty()).then_some(&self.record)
    }

    fn advance(&mut self) -> io::Result<()> {
        match self.record.get(4) {
            Some(kind) if *kind == RecordKind::Tombstone as u8 => self.progress.tombstones += 1,
            Some(kind) if *kind != RecordKind::Void as u8 => self.progress.records += 1,
            _ => {}
        }
        self.records.advance()?;
        self.read()
    }
}
