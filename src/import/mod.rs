//! Import: exports and data directories become a new data directory, offline.
//!
//! ```text
//! lines of exports --\                        .--> runs of records --.
//!                     +--> encoded records --+                        +--> merge --> sealed segments --> erasures --> rename
//! data directories --/                        `--> runs of keys --> duplicates --'
//! ```
//!
//! **Order.** The records of all inputs are in the order of their receipt. [`order`] has the exact rule.
//!
//! **Duplicates.** Of the records with the same key, the first one stays. [`order::import_keys`] has the keys.
//!
//! **Tombstones** of data directories are records. They are in the order of their receipt too, so they apply to the records of
//! all inputs before them. At the end, the erasures are finished as after a crash of a server.
//!
//! **Progress.** The directory `NEWDIR.importing` has everything that an import needs to continue: the sorted runs, the new
//! data directory, the refused lines, and the file `progress`. Each of its files is written under another name, or without one,
//! and synced before it gets its name. The file `progress` is replaced after each run and after each segment, and names the
//! place of the inputs, or of the runs, at which the import continues. Later files are written again with the same content.
//!
//! **Memory.** The buffers for sorting take `--sort-memory`. A merge takes [`runs::MERGE_RUNS_MAX`] read buffers. A segment
//! takes the keys in its footer. If directories have different keys, the digests of their tombstones are in memory. If there
//! are tombstones, the profiles of all visitors are in memory while the erasures are finished.

mod digests;
mod directories;
mod duplicates;
mod environment;
mod error;
mod inputs;
mod install;
mod lines;
mod order;
mod progress;
mod read;
mod refused;
mod runs;
mod source;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::error::ImportError;
pub(crate) use self::refused::Refused;
use crate::log::{ErasureSummary, LogId};
use crate::storage::disk::Disk;

/// The inputs, the target and the settings of an import.
#[derive(Debug, Clone)]
pub(crate) struct ImportOptions {
    /// Exports, as NDJSON.
    pub files: Vec<PathBuf>,
    /// Data directories.
    pub directories: Vec<PathBuf>,
    /// The directory to create.
    pub target: PathBuf,
    /// The IDs of the sites to import. Empty: all.
    pub sites: Vec<String>,
    /// Records that are older than this number of days are refused. `None`: none is.
    pub retain_days: Option<u32>,
    /// The IDs of the sites whose crawlers have changed profiles.
    pub keep_bots: Vec<String>,
    /// The memory for sorting, in bytes.
    pub sort_bytes: u64,
    /// The size at which a segment ends.
    pub segment_bytes: u64,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportSummary {
    pub log_id: LogId,
    /// The events in the new log, before the erasures were finished.
    pub records: u64,
    pub tombstones: u64,
    /// Records that were left out, because an earlier one has the same key.
    pub duplicates: u64,
    /// Lines and records that were refused.
    pub refused: u64,
    /// Records of other sites.
    pub other_sites: u64,
    /// True if a data directory is damaged.
    pub has_damage: bool,
    /// The list of the refused lines. `None` if there are none.
    pub refused_file: Option<PathBuf>,
    /// The result of finishing the erasures. `None` if there was nothing to erase.
    pub erased: Option<ErasureSummary>,
}

/// The receiver of the progress of an import.
pub(crate) trait ImportObserver {
    /// Called when a phase begins, with the number of its steps.
    fn begin(&mut self, phase: &'static str, step_count: u64);

    /// Called with the number of steps of the phase that are done.
    fn set_done(&mut self, done_count: u64);

    /// Called for each refused line or record.
    fn on_refused(&mut self, refused: &Refused<'_>);

    /// Called for each damaged place of a data directory.
    fn on_damage(&mut self, damage: String);
}

/// Imports into a new directory, or continues an import that was interrupted.
///
/// # Errors
/// The target is not empty, an input cannot be read, or the disk fails. The next import with the same options continues.
pub(crate) fn import(
    disk: &Arc<dyn Disk>,
    options: &ImportOptions,
    now_ms: i64,
    observer: &mut dyn ImportObserver,
) -> Result<ImportSummary, ImportError> {
    install::import(disk, options, now_ms, observer)
}
