//! Builds the column files of sealed segments whose column file is missing, damaged, or older than the goals of its sites.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::ColumnBuilder;
use super::goals::SitesGoals;
use super::installer::{ColumnInstaller, ColumnSource};
use super::key::VisitorKey;
use super::reader::Columns;
use crate::log::{SegmentRecords, SegmentSpan, column_file_name, segment_spans};
use crate::storage::disk::Disk;

/// The result of building one file.
enum BuildOutcome {
    Installed,
    /// The file is not needed: an erasure or retention has changed the segment, or the server is stopping.
    Useless,
}

/// A builder of the missing column files of a log.
pub struct MissingFiles {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    key: VisitorKey,
    installer: ColumnInstaller,
    /// The erasure generation in which `built_up_to` was set.
    generation: u64,
    /// The goals of the sites when `built_up_to` was set.
    goals: Arc<SitesGoals>,
    /// Each sealed segment that begins before this seq had a valid column file after the last call of
    /// [`MissingFiles::build`].
    built_up_to: u64,
}

/// Passes the source of a written file to the thread that renames the file. Returns true if the file was renamed.
pub(crate) type Install<'a> = &'a mut dyn FnMut(ColumnSource) -> io::Result<bool>;

impl MissingFiles {
    /// Creates the builder of the files in `directory`.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, key: VisitorKey, installer: ColumnInstaller) -> Self {
        let generation = installer.generation();
        let goals = Arc::default();
        Self { disk, directory: directory.to_owned(), key, installer, generation, goals, built_up_to: 0 }
    }

    /// Sets the goals of the sites. A column file without the goals of a site that it has counts as missing.
    pub fn set_goals(&mut self, goals: Arc<SitesGoals>) {
        if *self.goals != *goals {
            self.built_up_to = 0;
        }
        self.goals = goals;
    }

    /// Builds the missing files. Begins with the oldest segment. If a file cannot be built, continues with the next
    /// segment. Passes the number of files that are still missing to `set_behind`. Ends early if `is_stopped` returns
    /// true.
    ///
    /// # Errors
    /// Returns the first I/O error. A full disk ends the build. After any other error, the build continues.
    pub fn build(
        &mut self,
        install: Install<'_>,
        set_behind: &dyn Fn(u64),
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let generation = self.installer.generation();
        if generation != self.generation {
            self.generation = generation;
            self.built_up_to = 0;
        }
        let (missing, sealed_end) = self.missing()?;
        let mut behind = missing.len() as u64;
        set_behind(behind);
        let mut result = Ok(());
        let mut oldest_missing = None;
        for (span, last_seq) in missing {
            if is_stopped() || !generation.is_multiple_of(2) {
                return result;
            }
            match self.build_file(span, last_seq, install, is_stopped) {
                Ok(BuildOutcome::Installed) => {
                    behind -= 1;
                    set_behind(behind);
                }
                Ok(BuildOutcome::Useless) => oldest_missing = oldest_missing.or(Some(span.first_seq)),
                Err(error) => {
                    oldest_missing = oldest_missing.or(Some(span.first_seq));
                    let is_full = error.kind() == io::ErrorKind::StorageFull;
                    result = result.and(Err(error));
                    if is_full {
                        // There is no room for the other files either.
                        return result;
                    }
                }
            }
        }
        self.built_up_to = oldest_missing.unwrap_or(sealed_end);
        result
    }

    /// Returns each sealed segment that has no valid column file, with the last seq of the segment. The second result
    /// is the first seq after all sealed segments.
    fn missing(&self) -> io::Result<(Vec<(SegmentSpan, u64)>, u64)> {
        let spans = segment_spans(&self.disk, &self.directory)?;
        let end = spans.iter().filter_map(|span| span.next_seq).max().unwrap_or(0);
        let sealed = spans.into_iter().filter_map(|span| Some((span, span.next_seq? - 1)));
        let is_missing = |(span, last_seq): &(SegmentSpan, u64)| {
            let name = column_file_name(span.first_seq);
            if self.installer.known_damage().knows(&name) {
                return true;
            }
            let path = self.directory.join(name);
            let is_usable = || match Columns::open(&self.disk, &path, span.first_seq, *last_seq, self.key) {
                Ok(columns) if self.has_goals(&columns) => true,
                Ok(_) => false,
                Err(error) => {
                    self.installer.report(span.first_seq, &error);
                    false
                }
            };
            span.first_seq >= self.built_up_to && !is_usable()
        };
        Ok((sealed.filter(is_missing).collect(), end))
    }

    /// Returns whether the columns have the goals of all sites. If they cannot be read, a question reports them.
    fn has_goals(&self, columns: &Columns) -> bool {
        self.goals.iter().all(|(site, goals)| matches!(columns.lacks_goals(site, goals), Ok(false) | Err(_)))
    }

    fn build_file(
        &self,
        span: SegmentSpan,
        last_seq: u64,
        install: Install<'_>,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<BuildOutcome> {
        let generation = self.installer.generation();
        let mut builder = ColumnBuilder::new(span.first_seq, self.key).with_goals(Arc::clone(&self.goals));
        let Self { disk, directory, .. } = self;
        let mut records =
            match SegmentRecords::open(disk, directory, span, last_seq, self.installer.known_damage()) {
                // Retention has deleted the segment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BuildOutcome::Useless),
                other => other?,
            };
        let is_useless = || is_stopped() || self.installer.generation() != generation;
        records.read(&mut |batch| {
            batch.iter().for_each(|(_, record)| builder.add(&record));
            if is_useless() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if is_useless() {
            return Ok(BuildOutcome::Useless);
        }
        let source = ColumnSource { first_seq: span.first_seq, segment: records.file(), generation };
        let is_written = self.installer.write_built(source, &builder.to_bytes(last_seq))?;
        Ok(if is_written && install(source)? { BuildOutcome::Installed } else { BuildOutcome::Useless })
    }
}
