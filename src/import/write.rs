//! The phase that writes the segments.

use std::io;
use std::sync::Arc;

use super::ImportObserver;
use super::digests::Translations;
use super::duplicates::DUPLICATES;
use super::error::ImportError;
use super::inputs::Input;
use super::order::received_ms;
use super::progress::{ImportPaths, Phase, Progress};
use super::read::RECORDS;
use super::source::MergedRecords;
use crate::log::{LogDirectory, LogId, RecordSource, SealedSegment, save_clock, write_sealed};
use crate::record::TombstoneKey;
use crate::storage::disk::Disk;

/// Writes the segments after those that the progress states.
///
/// # Errors
/// The disk fails.
pub(super) fn write_segments(
    disk: &Arc<dyn Disk>,
    inputs: &[Input],
    paths: &ImportPaths,
    progress: &mut Progress,
    log_id: LogId,
    observer: &mut dyn ImportObserver,
) -> Result<(), ImportError> {
    let failed = ImportError::at(&paths.work);
    reduce_runs(paths, progress).map_err(&failed)?;
    let directory = LogDirectory::lock(Arc::clone(disk), &paths.data)?;
    let key = TombstoneKey::load_or_create(&directory).map_err(&failed)?;
    let translations = Translations::find(disk, inputs, &key, &paths.work, progress.records)?;
    save_clock(&directory, progress.began_ms).map_err(&failed)?;
    delete_unfinished(&directory, progress.written.seqs).map_err(&failed)?;
    let mut records = MergedRecords::open(&paths.work, progress, &translations).map_err(&failed)?;
    observer.begin("writing", inputs.iter().map(|input| input.stamp.bytes).sum());
    while let Some(record) = records.peek() {
        let written = &progress.written;
        // The log clock never moves back, and is not ahead of the wall clock.
        let created_ms = received_ms(record).max(written.created_ms).min(progress.began_ms);
        let segment = SealedSegment {
            log_id,
            first_seq: written.seqs + 1,
            created_ms,
            bytes_max: progress.settings.segment_bytes,
        };
        let seqs = write_sealed(&directory, &segment, &mut records).map_err(&failed)?;
        progress.written = records.progress_after(seqs, created_ms).clone();
        paths.save(progress).map_err(&failed)?;
        observer.set_done(progress.written.record_offsets.iter().sum());
    }
    progress.phase = Phase::Erase;
    paths.save(progress).map_err(&failed)?;
    // The directory is complete, so a failure leaves nothing that is needed.
    RECORDS.delete(&paths.work, progress.records).map_err(&failed)?;
    DUPLICATES.delete(&paths.work, progress.duplicates).map_err(&failed)
}

fn reduce_runs(paths: &ImportPaths, progress: &mut Progress) -> io::Result<()> {
    let mut records = progress.records;
    RECORDS.reduce(&paths.work, &mut records, &mut |runs| {
        progress.records = runs;
        paths.save(progress)
    })?;
    let mut duplicates = progress.duplicates;
    DUPLICATES.reduce(&paths.work, &mut duplicates, &mut |runs| {
        progress.duplicates = runs;
        paths.save(progress)
    })
}

/// Deletes the segments after the last one in the progress, which an interrupted import has written.
fn delete_unfinished(directory: &LogDirectory, last_seq: u64) -> io::Result<()> {
    directory.delete_temporary_files()?;
    let later = directory.segments()?.into_iter().filter(|first_seq| *first_seq > last_seq);
    later.into_iter().try_for_each(|first_seq| directory.delete_segment(first_seq))
}
