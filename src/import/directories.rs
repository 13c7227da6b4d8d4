//! The records of a data directory.

use std::sync::Arc;

use super::error::ImportError;
use super::inputs::Input;
use super::read::RecordSink;
use super::refused::Refused;
use crate::log::{LogDirectory, LogItem, LogReader};
use crate::record::{Record, RecordKind};
use crate::storage::disk::Disk;
use crate::visitors::verify::newest_checkpoint_seq;

/// Reads the records of a data directory after the seq that the progress states.
///
/// # Errors
/// The directory cannot be read, or the disk fails.
pub(super) fn read(
    disk: &Arc<dyn Disk>,
    input: &Input,
    sink: &mut RecordSink<'_>,
) -> Result<(), ImportError> {
    let after_seq = sink.progress.read.position;
    // The lock of the input keeps servers away. Records that no file states to be durable yet become durable here.
    let directory = LogDirectory::open_read_only(Arc::clone(disk), &input.path);
    directory.sync_last_segment().map_err(ImportError::at(&input.path))?;
    let checkpointed_seq = newest_checkpoint_seq(disk, &input.path)?;
    let reader = LogReader::open(Arc::clone(disk), &input.path, after_seq)?;
    let mut reader = reader.with_durable_seq(input.stamp.last_seq.max(checkpointed_seq));
    let name = input.path.to_string_lossy();
    let mut buffer = Vec::new();
    let mut done_bytes = 0;
    while let Some(item) = reader.read_next()? {
        let records = match item {
            LogItem::Records(records) => records,
            LogItem::Damage(damage) => {
                sink.report_damage(&input.path, &damage);
                continue;
            }
        };
        for ((seq, record), encoded) in records.iter().zip(records.iter_encoded()) {
            add(seq, &record, encoded, &name, &mut buffer, sink)?;
        }
        done_bytes += records.byte_len() as u64;
        sink.advance_to(records.seqs().end - 1, done_bytes)?;
    }
    Ok(())
}

/// Adds a record as it is. Void records stay only for their dedup keys.
fn add(
    seq: u64,
    record: &Record<'_>,
    encoded_record: &[u8],
    directory_name: &str,
    buffer: &mut Vec<u8>,
    sink: &mut RecordSink<'_>,
) -> Result<(), ImportError> {
    let refusal = sink.refused_time(record.received_ms);
    match record.kind {
        RecordKind::Void => {
            if record.key != 0 && refusal.is_none() && sink.has_all_sites() {
                let void = Record {
                    received_ms: record.received_ms,
                    key: record.key,
                    ..Record::new(RecordKind::Void)
                };
                buffer.clear();
                // A record without texts is not too long.
                if void.encode(buffer).is_ok() {
                    sink.add(seq, Some(seq), &void, buffer);
                }
            }
        }
        _ if !sink.has_site(record.site.unwrap_or_default()) => {
            sink.progress.read.other_sites += u64::from(record.kind != RecordKind::Tombstone);
        }
        // A tombstone erases earlier records, which are refused too.
        RecordKind::Tombstone if refusal.is_some() => {}
        _ => match refusal {
            Some(reason) => {
                sink.refuse(&Refused { file: directory_name, line: None, seq: Some(seq), reason })?;
            }
            None => sink.add(seq, Some(seq), record, encoded_record),
        },
    }
    Ok(())
}
