//! The builder of the column files that are missing or damaged.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{ColumnBuilder, VisitorKey};
use super::installer::{BuiltFrom, ColumnInstaller};
use super::reader::Columns;
use crate::storage::disk::Disk;
use crate::visitors::log::{SegmentRecords, SegmentSpan, column_file_name, segment_spans};

/// The result of building one file.
enum Built {
    Installed,
    /// An erasure, retention or the end of the server makes the file useless.
    Useless,
}

/// A builder of the column files that are missing.
pub struct MissingFiles {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    key: VisitorKey,
    installer: ColumnInstaller,
    /// The erasure generation of `built_up_to`.
    generation: u64,
    /// All segments that begin before this seq have a column file, unless one was deleted or is damaged.
    built_up_to: u64,
}

/// Passes a file that is written to the thread that gives it its name.
pub(crate) type Install<'a> = &'a mut dyn FnMut(BuiltFrom) -> io::Result<bool>;

impl MissingFiles {
    /// Creates the builder of the files in `directory`.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, key: VisitorKey, installer: ColumnInstaller) -> Self {
        let generation = installer.generation();
        Self { disk, directory: directory.to_owned(), key, installer, generation, built_up_to: 0 }
    }

    /// Builds the missing files, from the oldest on. A segment whose file cannot be built does not keep the later ones
    /// from theirs. `note_behind` gets the number of files that are missing. Ends early when `is_stopped` returns true.
    ///
    /// # Errors
    /// The first I/O error. The other files were built.
    pub fn build(
        &mut self,
        install: Install<'_>,
        note_behind: &dyn Fn(u64),
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let generation = self.installer.generation();
        if generation != self.generation {
            (self.generation, self.built_up_to) = (generation, 0);
        }
        let (missing, sealed_end) = self.missing()?;
        let mut behind = missing.len() as u64;
        note_behind(behind);
        let (mut failed, mut oldest_missing) = (Ok(()), None);
        for (span, last_seq) in missing {
            if is_stopped() || !generation.is_multiple_of(2) {
                return failed;
            }
            match self.build_file(span, last_seq, install, is_stopped) {
                Ok(Built::Installed) => {
                    behind -= 1;
                    note_behind(behind);
                }
                Ok(Built::Useless) => oldest_missing = oldest_missing.or(Some(span.first_seq)),
                Err(error) => {
                    oldest_missing = oldest_missing.or(Some(span.first_seq));
                    let is_full = error.kind() == io::ErrorKind::StorageFull;
                    failed = failed.and(Err(error));
                    if is_full {
                        // The later files need room too.
                        return failed;
                    }
                }
            }
        }
        self.built_up_to = oldest_missing.unwrap_or(sealed_end);
        failed
    }

    /// Returns the sealed segments without a sound column file, with their last seqs, and the seq after all sealed
    /// segments.
    fn missing(&self) -> io::Result<(Vec<(SegmentSpan, u64)>, u64)> {
        let spans = segment_spans(&self.disk, &self.directory)?;
        let end = spans.iter().filter_map(|span| span.next_seq).max().unwrap_or(0);
        let sealed = spans.into_iter().filter_map(|span| Some((span, span.next_seq? - 1)));
        let is_missing = |(span, last_seq): &(SegmentSpan, u64)| {
            let name = column_file_name(span.first_seq);
            if self.installer.known_damage().knows(&name) {
                return true;
            }
            let (path, seqs) = (self.directory.join(name), (span.first_seq, *last_seq));
            let is_usable = || match Columns::open(&self.disk, &path, seqs, self.key) {
                Ok(_) => true,
                Err(error) => {
                    self.installer.report(span.first_seq, &error);
                    false
                }
            };
            span.first_seq >= self.built_up_to && !is_usable()
        };
        Ok((sealed.filter(is_missing).collect(), end))
    }

    fn build_file(
        &self,
        span: SegmentSpan,
        last_seq: u64,
        install: Install<'_>,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<Built> {
        let generation = self.installer.generation();
        let mut builder = ColumnBuilder::new(span.first_seq, self.key);
        let Self { disk, directory, .. } = self;
        let mut records =
            match SegmentRecords::open(disk, directory, span, last_seq, self.installer.known_damage()) {
                // Retention has deleted the segment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Built::Useless),
                other => other?,
            };
        let is_useless = || is_stopped() || self.installer.generation() != generation;
        records.read(&mut |batch| {
            batch.iter().for_each(|(_, record)| builder.add(&record));
            if is_useless() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if is_useless() {
            return Ok(Built::Useless);
        }
        let built = BuiltFrom { first_seq: span.first_seq, segment: records.file(), generation };
        let is_written = self.installer.write_built(built, &builder.to_bytes(last_seq))?;
        Ok(if is_written && install(built)? { Built::Installed } else { Built::Useless })
    }
}
