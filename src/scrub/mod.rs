//! The scrub: a slow reader of every file of the data directory to which nothing is written any more. It finds damage
//! in files that nothing else reads for months.
//!
//! A *pass* reads the sealed segments, the checkpoints, the column files and the file `secret`, in the order of their
//! names, once in a week. It reads past the page cache, because a bit that changes on the disk does not change there.
//! It never changes a file that it reads. The file `scrub` has its progress.
//!
//! A file can be replaced or deleted under the scrub. Then its bytes say nothing, and the file is read again.

mod disk;
mod files;
mod progress;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::disk::Pace;
use self::disk::ScrubDisk;
use self::files::{Finding, ScrubbedFile};
use self::progress::Progress;
pub(crate) use self::thread::{ScrubThread, start};
use crate::clock::Clock;
use crate::limits::scrub::{SCRUB_ATTEMPTS_MAX, SCRUB_LOOK_MS, SCRUB_PERIOD_MS};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::{Disk, FileIdentity};

/// The metrics of the scrub.
#[derive(Debug, Default)]
pub struct ScrubMetrics {
    read_bytes: AtomicU64,
    files_left: AtomicU64,
    completed_ms: AtomicU64,
}

impl ScrubMetrics {
    /// Returns the bytes that this process has read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Returns the files that the pass has not read yet, now. 0 between two passes.
    pub fn files_left(&self) -> u64 {
        self.files_left.load(Ordering::Relaxed)
    }

    /// Returns the time of the end of the last complete pass, in milliseconds since 1970. 0 before the first one.
    pub fn completed_ms(&self) -> u64 {
        self.completed_ms.load(Ordering::Relaxed)
    }
}

/// The inputs of the scrub, which are parts of a server.
pub struct ScrubInputs {
    /// The disk with the data directory.
    pub disk: Arc<dyn Disk>,
    /// The data directory.
    pub directory: PathBuf,
    /// The clock of the server.
    pub clock: Arc<dyn Clock>,
    /// The rate at which files are read.
    pub bytes_per_second: u64,
    /// The damage that readers of the data directory report.
    pub damage: KnownDamage,
    /// The metrics that the scrub writes.
    pub metrics: Arc<ScrubMetrics>,
}

/// The scrub of one data directory. Its caller repeats [`step`](Self::step).
pub struct Scrub {
    /// The disk to which the progress is written.
    disk: Arc<dyn Disk>,
    /// The disk from which files are read.
    slow: ScrubDisk,
    directory: PathBuf,
    /// The first directory at the path. Another one belongs to another server. `None` if it is missing since the start.
    identity: Option<FileIdentity>,
    clock: Arc<dyn Clock>,
    damage: KnownDamage,
    metrics: Arc<ScrubMetrics>,
    progress: Progress,
    /// The progress in the file.
    saved: Progress,
    save_due: Duration,
    look_due: Duration,
    /// The damaged files as of their last check, by name.
    damaged: BTreeMap<String, FileIdentity>,
    /// True after a failure, so that a broken disk gives one line in the log.
    has_failed_to_save: bool,
}

/// The result of reading one file.
enum FileCheck {
    Complete(Vec<Finding>, FileIdentity),
    /// The file was deleted, or cannot be read now. The next pass reads it.
    Skipped,
    Stopped,
}

impl Scrub {
    /// Continues where an earlier process stopped.
    pub fn new(inputs: ScrubInputs, pace: Arc<dyn Pace>) -> Self {
        let ScrubInputs { disk, directory, clock, bytes_per_second, damage, metrics } = inputs;
        let slow = ScrubDisk::new(Arc::clone(&disk), pace, bytes_per_second, Arc::clone(&metrics));
        let now = clock.monotonic();
        let look = Duration::from_millis(SCRUB_LOOK_MS);
        let mut scrub = Self {
            disk,
            slow,
            directory,
            identity: None,
            clock,
            damage,
            metrics,
            saved: Progress::default(),
            progress: Progress::default(),
            save_due: now + look,
            look_due: now,
            damaged: BTreeMap::new(),
            has_failed_to_save: false,
        };
        scrub.is_in_place();
        scrub
    }

    /// Returns whether the directory of this server is at its path. Reads the progress when it is there for the first
    /// time.
    fn is_in_place(&mut self) -> bool {
        let Ok(found) = self.disk.identity(&self.directory) else { return false };
        if self.identity.is_none() {
            self.load();
        }
        *self.identity.get_or_insert(found) == found
    }

    fn load(&mut self) {
        let progress = progress::load(&*self.disk, &self.directory).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the progress of the scrub; it begins again");
            None
        });
        self.saved = progress.unwrap_or_default();
        for (file, offset) in &self.saved.damage {
            if self.disk.identity(&self.directory.join(file)).is_ok() {
                self.damage.restore(file, *offset);
            }
        }
        self.progress = self.saved.clone();
        self.note_completed();
    }

    fn note_completed(&self) {
        let completed_ms = self.progress.completed_ms.map_or(0, |ms| ms.max(0) as u64);
        self.metrics.completed_ms.store(completed_ms, Ordering::Relaxed);
    }

    /// Reads at most one file, or waits. Returns false if the server stops.
    pub fn step(&mut self) -> bool {
        let is_in_place = self.is_in_place();
        let worked = if is_in_place { self.work() } else { Ok(false) };
        let has_worked = worked.unwrap_or_else(|error| {
            tracing::warn!(%error, "the scrub cannot read the data directory; trying again in a minute");
            false
        });
        if is_in_place {
            self.save_if_due();
        }
        let pause = if has_worked { Duration::ZERO } else { Duration::from_millis(SCRUB_LOOK_MS) };
        if self.slow.wait(pause) {
            return true;
        }
        if is_in_place {
            self.save();
        }
        false
    }

    /// Reads one file. Returns false if there is nothing to read now.
    fn work(&mut self) -> io::Result<bool> {
        let files = files::list(&*self.disk, &self.directory)?;
        if self.clock.monotonic() >= self.look_due {
            self.look_due = self.clock.monotonic() + Duration::from_millis(SCRUB_LOOK_MS);
            self.look_at_damaged(&files)?;
        }
        let Some(read_up_to) = self.pass() else { return Ok(false) };
        let first = files.partition_point(|file| file.name <= read_up_to);
        self.metrics.files_left.store((files.len() - first) as u64, Ordering::Relaxed);
        let Some(file) = files.get(first) else {
            self.end_pass();
            return Ok(true);
        };
        match self.read(file) {
            FileCheck::Complete(found, identity) => self.settle(file, &found, identity, false),
            FileCheck::Skipped => {}
            FileCheck::Stopped => return Ok(true),
        }
        self.progress.read_up_to = Some(file.name.clone());
        Ok(true)
    }

    /// Returns the name of the last file that the pass has read, and begins a pass if it is due. `None` between two
    /// passes. A wall clock that has gone back begins one.
    fn pass(&mut self) -> Option<String> {
        let now_ms = self.clock.now_ms();
        let is_due = self.progress.started_ms.is_none_or(|started_ms| {
            !(started_ms..started_ms.saturating_add(SCRUB_PERIOD_MS)).contains(&now_ms)
        });
        if self.progress.read_up_to.is_none() && is_due {
            self.progress.started_ms = Some(now_ms);
            self.progress.read_up_to = Some(String::new());
        }
        self.progress.read_up_to.clone()
    }

    fn end_pass(&mut self) {
        let now_ms = self.clock.now_ms();
        self.progress.read_up_to = None;
        self.progress.completed_ms = Some(now_ms);
        self.note_completed();
        let read_bytes = self.metrics.read_bytes();
        let damaged = self.damage.count();
        tracing::info!(read_bytes, damaged, "the scrub has read all files of the data directory");
        self.save();
    }

    /// Looks at the files with known damage. Reads those again that were replaced since, and those whose damage an
    /// earlier process has found. Drops the damage of files that were deleted on purpose.
    fn look_at_damaged(&mut self, scrubbed_files: &[ScrubbedFile]) -> io::Result<()> {
        let names = self.damage.files();
        self.damaged.retain(|name, _| names.contains(name));
        for name in names {
            let identity = match self.disk.identity(&self.directory.join(&name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if files::is_deleted_on_purpose(&self.disk, &self.directory, &name)? {
                        self.damage.forget(&name);
                    }
                    continue;
                }
                other => other?,
            };
            let known = self.damaged.insert(name.clone(), identity);
            let is_replaced = known.is_some_and(|known| known != identity);
            if !is_replaced && !self.damage.has_unlogged(&name) {
                continue;
            }
            let Some(file) = scrubbed_files.iter().find(|file| file.name == name) else {
                // The start has read the file, and has reported the damage that is left.
                self.damage.settle(&name, &BTreeSet::new(), false);
                continue;
            };
            match self.read(file) {
                FileCheck::Complete(found, identity) => self.settle(file, &found, identity, is_replaced),
                FileCheck::Skipped => {}
                FileCheck::Stopped => break,
            }
        }
        Ok(())
    }

    /// Reads a file to its end, from the beginning again if it was replaced meanwhile.
    fn read(&self, file: &ScrubbedFile) -> FileCheck {
        let path = self.directory.join(&file.name);
        let slow = Arc::new(self.slow.clone()) as Arc<dyn Disk>;
        for _ in 0..SCRUB_ATTEMPTS_MAX {
            // While it is open, no later file has its identity.
            let identity = self.disk.open(&path).and_then(|opened| Ok((opened.identity()?, opened)));
            let (identity, _opened) = match identity {
                Ok(opened) => opened,
                Err(error) => return self.skip(&path, &error),
            };
            let checked = file.check(&slow, &self.directory);
            if self.slow.is_stopped() {
                return FileCheck::Stopped;
            }
            match self.disk.identity(&path) {
                Ok(found) if found != identity => continue,
                Err(error) => return self.skip(&path, &error),
                Ok(_) => {}
            }
            return match checked {
                Ok(found) => FileCheck::Complete(found, identity),
                Err(error) => self.skip(&path, &error),
            };
        }
        FileCheck::Skipped
    }

    fn skip(&self, path: &Path, error: &io::Error) -> FileCheck {
        if error.kind() != io::ErrorKind::NotFound {
            let path = path.display();
            tracing::warn!(%path, %error, "the scrub cannot read a file; the next pass reads it");
        }
        FileCheck::Skipped
    }

    /// Reports the damage of a file that was read to its end, and drops known damage that is not there any more.
    fn settle(
        &mut self,
        file: &ScrubbedFile,
        findings: &[Finding],
        identity: FileIdentity,
        is_replaced: bool,
    ) {
        let name = &file.name;
        let is_replaced = is_replaced || self.damaged.get(name).is_some_and(|known| *known != identity);
        for Finding { offset, text } in findings {
            self.damage.report(name, *offset, text);
        }
        let offsets: BTreeSet<u64> = findings.iter().map(|finding| finding.offset).collect();
        if self.damage.settle(name, &offsets, is_replaced) {
            tracing::info!(file = %name, "known damage of a file is gone");
        }
        if !findings.is_empty() || self.damaged.contains_key(name) {
            self.damaged.insert(name.clone(), identity);
        }
    }

    fn save_if_due(&mut self) {
        let is_new_damage = self.damage.count() != self.saved.damage.len() as u64;
        if self.clock.monotonic() >= self.save_due || (is_new_damage && !self.has_failed_to_save) {
            self.save();
        }
    }

    /// Saves the progress, if it has changed. A failure is logged once. The progress in memory goes on.
    fn save(&mut self) {
        self.save_due = self.clock.monotonic() + Duration::from_millis(SCRUB_LOOK_MS);
        self.progress.damage = self.damage.all();
        if self.progress == self.saved {
            return;
        }
        match progress::save(&*self.disk, &self.directory, &self.progress) {
            Ok(()) => {
                self.saved = self.progress.clone();
                self.has_failed_to_save = false;
            }
            Err(error) if self.has_failed_to_save => {
                tracing::debug!(%error, "cannot save the progress of the scrub")
            }
            Err(error) => {
                self.has_failed_to_save = true;
                tracing::warn!(%error, "cannot save the progress of the scrub; a restart reads files again");
            }
        }
    }
}
