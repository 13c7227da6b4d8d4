//! The phase that finds the duplicates: of the records with the same key, all but the first.

use std::io;

use super::ImportObserver;
use super::order::{KEY_BYTES, PLACE_BYTES};
use super::progress::{ImportPaths, Phase, Progress};
use super::read::KEYS;
use super::runs::{Merge, RunKind, RunSet, SortBuffer};

/// The runs of the places of duplicates.
pub(super) const DUPLICATES: RunKind = RunKind { name: "duplicates", prefix_bytes: PLACE_BYTES };

/// Finds the duplicates. An interrupted import does it again.
///
/// # Errors
/// The disk fails.
pub(super) fn find_duplicates(
    paths: &ImportPaths,
    progress: &mut Progress,
    sort_bytes: u64,
    observer: &mut dyn ImportObserver,
) -> io::Result<()> {
    let dir = &paths.work;
    let mut runs = progress.keys;
    KEYS.reduce(dir, &mut runs, &mut |keys| {
        progress.keys = keys;
        paths.save(progress)
    })?;
    observer.begin("comparing", 0);
    let mut merge = Merge::open(KEYS, dir, runs, &[])?;
    let mut buffer = SortBuffer::new(DUPLICATES);
    let mut found = RunSet::default();
    let mut last_key = None;
    while let Some(entry) = merge.peek() {
        let (key, place) = entry.split_at(KEY_BYTES);
        let key: Option<[u8; KEY_BYTES]> = key.try_into().ok();
        if key == last_key {
            buffer.add(&[place]);
        }
        last_key = key;
        if buffer.memory_bytes() >= sort_bytes {
            buffer.write_run(dir, found.count)?;
            found.count += 1;
        }
        merge.advance()?;
    }
    if !buffer.is_empty() {
        buffer.write_run(dir, found.count)?;
        found.count += 1;
    }
    progress.duplicates = found;
    progress.phase = Phase::Write;
    paths.save(progress)?;
    KEYS.delete(dir, runs)
}
