//! The file `progress` of an unfinished import, in JSON: where it continues.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ImportOptions;
use super::inputs::InputStamp;
use super::order::LogOrder;
use super::runs::RunSet;
use crate::storage::write_data_file;

/// The format version of the file. An import of another release does not continue.
const VERSION: u32 = 1;
/// Suffix of the directory of an unfinished import, beside the target.
const UNFINISHED: &str = ".importing";
/// Suffix of the list of the refused lines, beside the target.
const REFUSED: &str = ".refused";

/// The paths of an import.
#[derive(Debug, Clone)]
pub(super) struct ImportPaths {
    /// The directory of the unfinished import.
    pub(super) work: PathBuf,
    /// The new data directory until it is complete.
    pub(super) data: PathBuf,
    /// The list of the refused lines, and its path after the import.
    pub(super) refused: PathBuf,
    pub(super) refused_target: PathBuf,
    progress: PathBuf,
}

impl ImportPaths {
    /// Returns the paths beside `target`, also if it ends with a slash.
    pub(super) fn of(target: &Path) -> Self {
        let beside = |suffix: &str| {
            let mut name = target.components().as_path().as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let work = beside(UNFINISHED);
        Self {
            data: work.join("data"),
            refused: work.join("refused"),
            refused_target: beside(REFUSED),
            progress: work.join("progress"),
            work,
        }
    }

    /// Reads the progress. Returns `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or another release wrote it.
    pub(super) fn load(&self) -> io::Result<Option<Progress>> {
        let bytes = match std::fs::read(&self.progress) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let progress: Option<Progress> = serde_json::from_slice(&bytes).ok();
        let is_other = || {
            let text = "the unfinished import is of another release; delete its directory to begin again";
            io::Error::new(ErrorKind::InvalidData, text)
        };
        progress.filter(|progress| progress.import == VERSION).map(Some).ok_or_else(is_other)
    }

    /// Replaces the progress durably.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn save(&self, progress: &Progress) -> io::Result<()> {
        write_data_file(&self.progress, &serde_json::to_vec(progress)?)
    }

    /// Deletes the directory of the import with all of its files, the progress last.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn delete(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.work)? {
            let path = entry?.path();
            if path != self.progress {
                if path.is_dir() { std::fs::remove_dir_all(&path)? } else { std::fs::remove_file(&path)? }
            }
        }
        std::fs::remove_dir_all(&self.work)
    }
}

/// The phases of an import, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Phase {
    /// Inputs become sorted runs.
    Read,
    /// Duplicates are found.
    Duplicates,
    /// Runs become segments.
    Write,
    /// The erasures are finished.
    Erase,
    /// The new directory is complete and gets its name.
    Install,
}

/// The settings that the result depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImportSettings {
    pub(super) sites: Vec<String>,
    pub(super) retain_days: Option<u32>,
    pub(super) keep_bots: Vec<String>,
    pub(super) segment_bytes: u64,
}

impl ImportSettings {
    pub(super) fn of(options: &ImportOptions) -> Self {
        Self {
            sites: options.sites.clone(),
            retain_days: options.retain_days,
            keep_bots: options.keep_bots.clone(),
            segment_bytes: options.segment_bytes,
        }
    }
}

/// The progress of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    import: u32,
    pub(super) inputs: Vec<InputStamp>,
    pub(super) settings: ImportSettings,
    /// The time at which the import began, in milliseconds. The age of records counts from here.
    pub(super) began_ms: i64,
    /// The ID of the new log.
    pub(super) log_id: String,
    pub(super) phase: Phase,
    pub(super) read: ReadProgress,
    pub(super) records: RunSet,
    pub(super) keys: RunSet,
    pub(super) duplicates: RunSet,
    pub(super) written: WriteProgress,
}

/// The progress of the phase [`Phase::Read`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadProgress {
    /// The number of the input that is read.
    pub(super) input: usize,
    /// The offset in a file after the lines that are in runs, or the last seq of a directory that is.
    pub(super) position: u64,
    /// The number of these lines.
    pub(super) lines: u64,
    pub(super) order: LogOrder,
    /// The length of the list of the refused lines, in bytes.
    pub(super) refused_bytes: u64,
    pub(super) refused: u64,
    pub(super) other_sites: u64,
    pub(super) has_damage: bool,
}

/// The progress of the phase [`Phase::Write`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WriteProgress {
    /// The number of records in segments, void ones included.
    pub(super) seqs: u64,
    /// The log clock at the beginning of the last segment, in milliseconds.
    pub(super) created_ms: i64,
    /// The offsets of the next entries in the runs of records, and in those of duplicates.
    pub(super) record_offsets: Vec<u64>,
    pub(super) duplicate_offsets: Vec<u64>,
    pub(super) records: u64,
    pub(super) tombstones: u64,
    pub(super) duplicates: u64,
}

impl Progress {
    pub(super) fn new(
        inputs: Vec<InputStamp>,
        settings: ImportSettings,
        began_ms: i64,
        log_id: String,
    ) -> Self {
        Self {
            import: VERSION,
            inputs,
            settings,
            began_ms,
            log_id,
            phase: Phase::Read,
            read: ReadProgress::default(),
            records: RunSet::default(),
            keys: RunSet::default(),
            duplicates: RunSet::default(),
            written: WriteProgress::default(),
        }
    }

    /// Returns the difference from an import of these inputs with these settings.
    pub(super) fn difference(&self, inputs: &[InputStamp], settings: &ImportSettings) -> Option<String> {
        if self.settings != *settings {
            return Some("other settings".to_owned());
        }
        if self.inputs.len() != inputs.len() {
            return Some(format!("{} inputs and not {}", self.inputs.len(), inputs.len()));
        }
        let pair = self.inputs.iter().zip(inputs).find(|(before, now)| before != now);
        pair.map(|(before, now)| match before.path == now.path {
            true => format!("an earlier content of {}", now.path),
            false => format!("{} in place of {}", before.path, now.path),
        })
    }
}
