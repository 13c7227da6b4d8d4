//! Loads the table of visitors from the entries of a checkpoint.
//!
//! One thread reads, checks and merges the entries. It sends them in batches to the thread that puts them into the
//! table. That thread stores their words in the index together with others ([`BulkLoader`]).

use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::reader::{CheckpointError, EntryReader, damaged};
use crate::threads;
use crate::visitors::store::bulk::{BulkLoader, DuplicateKey};
use crate::visitors::store::table::{EvictionClass, Key, Table};

/// Entries of a batch. Sending one takes less time than a hundredth of reading it.
const BATCH_ENTRIES: usize = 4_096;
/// Batches that wait for the table. At about 100 bytes for each entry they take 3 MB.
const BATCHES_QUEUED: usize = 8;

/// A progress callback: entries loaded so far, and entries in total.
pub(crate) type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// Copies of consecutive entries.
#[derive(Default)]
struct Batch {
    /// Key, eviction class and end of the value of each entry.
    entries: Vec<(Key, EvictionClass, usize)>,
    /// All values, concatenated.
    values: Vec<u8>,
}

/// Loads a table with `entries_expected` entries.
///
/// # Errors
/// A check of the entries fails, two of them have the same key, the file cannot be read, or no thread can be started.
pub(super) fn load_table(
    entries: EntryReader,
    entries_expected: u64,
    progress: &mut Progress<'_>,
) -> Result<Table, CheckpointError> {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_QUEUED);
        let read = move || send_batches(entries, &sender);
        let reading =
            threads::spawn_scoped(scope, "checkpoint-load", read).map_err(CheckpointError::Thread)?;
        let mut loader = BulkLoader::new(entries_expected as usize);
        let mut done = 0;
        for Batch { entries, values } in receiver {
            let mut from = 0;
            for (key, class, end) in &entries {
                loader.put(*key, &values[from..*end], *class);
                from = *end;
            }
            done += entries.len() as u64;
            progress(done, entries_expected);
        }
        reading.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        let table = loader.finish().map_err(|DuplicateKey| damaged(0, "two entries have the same key"))?;
        if table.len() as u64 != entries_expected {
            return Err(wrong_entry_count());
        }
        Ok(table)
    })
}

/// Returns the error of a checkpoint with more or fewer entries than its header says.
pub(super) fn wrong_entry_count() -> CheckpointError {
    damaged(0, "the number of entries differs from the header")
}

/// Reads all entries and sends them in order. Ends early if the receiver is gone.
fn send_batches(mut entries: EntryReader, sender: &SyncSender<Batch>) -> Result<(), CheckpointError> {
    let mut batch = Batch::default();
    while let Some(entry) = entries.read_next()? {
        batch.values.extend_from_slice(entry.value);
        batch.entries.push((entry.key, entry.class, batch.values.len()));
        if batch.entries.len() == BATCH_ENTRIES && sender.send(std::mem::take(&mut batch)).is_err() {
            return Ok(());
        }
    }
    // Without a receiver nobody needs the last batch.
    let _ = sender.send(batch);
    Ok(())
}
