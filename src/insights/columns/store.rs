//! Keeps the columns of a log. The columns of a sealed segment are in a column file. The columns of the active segment
//! are in memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::ColumnBuilder;
use super::format::ColumnFileError;
use super::goals::SitesGoals;
use super::installer::{ColumnInstaller, ColumnSource};
use super::key::VisitorKey;
use super::packing::BLOCK_ROWS;
use super::reader::Columns;
use super::unstored::UnstoredColumns;
use crate::log::{Records, SegmentPosition, SegmentRecords, SegmentSpan, column_file_name, segment_spans};
use crate::site::goals::SiteGoals;
use crate::storage::disk::{Disk, FileIdentity};

/// The memory for the columns of sealed segments without a column file is the memory of Insights divided by this
/// number.
const UNSTORED_SHARE: u64 = 8;

/// The reason why columns cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Columns { path: PathBuf, source: ColumnFileError },
    #[error("{0} segments have no columns yet; retry later")]
    Behind(usize),
}

/// The columns of a log.
pub struct ColumnStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    key: VisitorKey,
    /// The columns of each sealed segment, by the first seq of the segment.
    sealed: BTreeMap<u64, SealedColumns>,
    unstored: Arc<UnstoredColumns>,
    tail: Option<Tail>,
    /// The goals of the sites that new columns note.
    goals: Arc<SitesGoals>,
    /// The last seq of the columns.
    last_seq: u64,
    /// The writer of column files for the columns that the store builds. If it is `None`, these columns stay in memory.
    installer: Option<ColumnInstaller>,
}

/// The columns of a sealed segment.
struct SealedColumns {
    last_seq: u64,
    columns: Columns,
}

/// A site ID, and the goals of the site that a question needs.
pub(crate) type SiteWithGoals<'g> = (&'g str, &'g SiteGoals);

/// Returns true when the time of the question is over.
type IsOver<'l> = &'l dyn Fn() -> bool;

/// The result of reading the records of a segment.
enum TailRead {
    /// All records were read. The segment file has this identity.
    Complete(FileIdentity),
    /// The time is over. The next call continues at the same record.
    Over,
    /// Retention has deleted the segment.
    Deleted,
}

/// The columns of the active segment.
struct Tail {
    builder: ColumnBuilder,
    position: Option<SegmentPosition>,
    /// The columns of all records before `position`. `None` if the builder has records that are not in columns yet.
    columns: Option<Columns>,
}

impl ColumnStore {
    /// Creates the store of the log in `directory`. The store is empty until the first call of
    /// [`ColumnStore::refresh`]. `memory_bytes` is the memory of Insights.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, key: VisitorKey, memory_bytes: u64) -> Self {
        let bytes_max = memory_bytes / UNSTORED_SHARE;
        let unstored = UnstoredColumns::new(Arc::clone(&disk), directory, key, bytes_max);
        Self {
            disk,
            directory: directory.to_owned(),
            key,
            sealed: BTreeMap::new(),
            unstored: Arc::new(unstored),
            tail: None,
            goals: Arc::default(),
            last_seq: 0,
            installer: None,
        }
    }

    /// Returns the store with an installer. With an installer, the store writes the columns of sealed segments to
    /// column files, and reports damage.
    #[must_use]
    pub fn with_installer(self, installer: ColumnInstaller) -> Self {
        let unstored = self.unstored.reporting_to(installer.known_damage().clone());
        Self { unstored: Arc::new(unstored), installer: Some(installer), ..self }
    }

    /// Sets the goals of the sites. If they have changed, the columns of the active segment are built again.
    pub fn set_goals(&mut self, goals: Arc<SitesGoals>) {
        if *self.goals != *goals {
            self.tail = None;
            self.goals = goals;
        }
    }

    /// Drops all columns, for example after records were erased from the log.
    pub fn clear(&mut self) {
        self.sealed.clear();
        self.unstored.clear();
        self.tail = None;
    }

    /// Returns the size of the columns in memory, in bytes. Only the columns of sealed segments count.
    pub fn unstored_bytes(&self) -> u64 {
        self.unstored.kept_bytes()
    }

    /// Reads the log up to `last_seq`. All records up to `last_seq` are acknowledged. Builds the columns of each
    /// segment that has no valid column file. Ends when `is_over` returns true.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read, or if the time is over.
    pub fn refresh(&mut self, last_seq: u64, is_over: &dyn Fn() -> bool) -> Result<(), StoreError> {
        self.refresh_with_goals(last_seq, None, is_over)
    }

    /// Does the same as [`ColumnStore::refresh`]. With a site, also builds the columns of each segment whose columns lack the goals
    /// of the site.
    ///
    /// # Errors
    /// Returns the same errors as [`ColumnStore::refresh`].
    pub fn refresh_with_goals(
        &mut self,
        last_seq: u64,
        site: Option<SiteWithGoals<'_>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        let path = self.directory.clone();
        let spans = segment_spans(&self.disk, &path).map_err(|source| StoreError::Io { path, source })?;
        self.sealed.retain(|first_seq, _| spans.iter().any(|span| span.first_seq == *first_seq));
        for (index, span) in spans.iter().enumerate() {
            let behind = || StoreError::Behind(spans.len() - index);
            if is_over() {
                return Err(behind());
            }
            let is_read = match span.next_seq {
                Some(next_seq) => self.refresh_sealed(*span, next_seq - 1, site, is_over)?,
                None => self.refresh_tail(*span, last_seq, is_over)?,
            };
            if !is_read {
                return Err(behind());
            }
        }
        // The store reads each sealed segment to its end. The end can be after `last_seq`.
        self.last_seq = spans.last().map_or(last_seq, |span| last_seq.max(span.first_seq - 1));
        Ok(())
    }

    /// Opens or builds the columns of a sealed segment. Returns false if the time is over.
    fn refresh_sealed(
        &mut self,
        span: SegmentSpan,
        last_seq: u64,
        site: Option<SiteWithGoals<'_>>,
        is_over: IsOver,
    ) -> Result<bool, StoreError> {
        let path = self.directory.join(column_file_name(span.first_seq));
        let has_goals = |columns: &Columns| {
            let lacks = site.map_or(Ok(false), |(site, goals)| columns.lacks_goals(site, goals));
            lacks.map(|lacks| !lacks).map_err(|source| StoreError::Columns { path: path.clone(), source })
        };
        let mut is_known = false;
        if let Some(sealed) = self.sealed.get(&span.first_seq).filter(|sealed| sealed.last_seq == last_seq) {
            is_known = has_goals(&sealed.columns)?;
            if is_known && sealed.columns.is_stored() {
                return Ok(true);
            }
        }
        let opened = Columns::open(&self.disk, &path, span.first_seq, last_seq, self.key);
        let columns = match opened {
            Ok(columns) if has_goals(&columns)? => Some(columns),
            // The file is missing, damaged or without the goals, and the columns are already in memory.
            _ if is_known => return Ok(true),
            Ok(_) => None,
            Err(error) => {
                self.installer.iter().for_each(|installer| installer.report(span.first_seq, &error));
                None
            }
        };
        let built =
            columns.map_or_else(|| self.build_sealed(span, last_seq, is_over), |columns| Ok(Some(columns)));
        let Some(columns) = built? else { return Ok(false) };
        self.sealed.insert(span.first_seq, SealedColumns { last_seq, columns });
        Ok(true)
    }

    /// Builds the columns of a sealed segment. If the tail already has records of the segment, reads only the other
    /// records. Returns `None` if the time is over.
    fn build_sealed(
        &mut self,
        span: SegmentSpan,
        last_seq: u64,
        is_over: IsOver,
    ) -> Result<Option<Columns>, StoreError> {
        let generation = self.installer.as_ref().map(ColumnInstaller::generation);
        let mut tail = self.take_tail(span);
        let path = self.directory.join(column_file_name(span.first_seq));
        let mut segment = None;
        match self.read_records(&mut tail, span, last_seq, is_over)? {
            TailRead::Complete(file) => segment = Some(file),
            TailRead::Deleted => tail = self.empty_tail(span),
            TailRead::Over => {
                self.tail = Some(tail);
                return Ok(None);
            }
        }
        let bytes = tail.builder.to_bytes(last_seq);
        if let Some(installer) = &self.installer
            && let Some(generation) = generation
            && let Some(segment) = segment
        {
            let source = ColumnSource { first_seq: span.first_seq, segment, generation };
            match installer.write_and_install(source, &bytes) {
                Ok(true) => {
                    let columns = Columns::open(&self.disk, &path, span.first_seq, last_seq, self.key);
                    return columns.map(Some).map_err(|source| StoreError::Columns { path, source });
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot write a column file; its columns stay in memory");
                }
            }
        }
        let goals = Arc::clone(tail.builder.goals());
        let columns = Columns::unstored(Arc::clone(&self.unstored), bytes, span, goals);
        columns.map(Some).map_err(|source| StoreError::Columns { path, source })
    }

    /// Drops the columns that cannot be read. The next refresh opens or builds them again. Deletes a column file only
    /// if the content of the file is wrong.
    pub fn forget_unreadable(&mut self) {
        self.sealed.retain(|first_seq, SealedColumns { columns, .. }| {
            let checked = columns.check();
            if let Err(error) = &checked
                && let Some(installer) = &self.installer
                && columns.is_stored()
                && error.is_damage()
            {
                installer.report(*first_seq, error);
                installer.delete(*first_seq);
            }
            checked.is_ok()
        });
    }

    fn columns_of(&self, tail: &Tail, last_seq: u64) -> Result<Columns, StoreError> {
        let path = self.directory.join(column_file_name(tail.builder.first_seq()));
        Columns::from_bytes(tail.builder.to_tail_bytes(last_seq))
            .map_err(|source| StoreError::Columns { path, source })
    }

    /// Takes the tail if it belongs to this segment. Otherwise returns an empty tail.
    fn take_tail(&mut self, span: SegmentSpan) -> Tail {
        let is_of_span = |tail: &Tail| {
            let is_valid = span
                .next_seq
                .is_none_or(|next| tail.position.is_none_or(|position| position.next_seq <= next));
            tail.builder.first_seq() == span.first_seq && is_valid
        };
        self.tail.take().filter(is_of_span).unwrap_or_else(|| self.empty_tail(span))
    }

    fn empty_tail(&self, span: SegmentSpan) -> Tail {
        let builder = ColumnBuilder::new(span.first_seq, self.key).with_goals(Arc::clone(&self.goals));
        Tail { builder, position: None, columns: None }
    }

    /// Reads the records of the active segment. Returns false if the time is over.
    fn refresh_tail(
        &mut self,
        span: SegmentSpan,
        last_seq: u64,
        is_over: IsOver,
    ) -> Result<bool, StoreError> {
        let mut tail = self.take_tail(span);
        let is_read = match self.read_records(&mut tail, span, last_seq, is_over)? {
            TailRead::Deleted => return Ok(true),
            TailRead::Complete(_) => true,
            TailRead::Over => false,
        };
        if is_read && tail.columns.is_none() {
            tail.columns = Some(self.columns_of(&tail, last_seq)?);
        }
        self.tail = Some(tail);
        Ok(is_read)
    }

    /// Adds the records up to `last_seq` to the tail.
    fn read_records(
        &self,
        tail: &mut Tail,
        span: SegmentSpan,
        last_seq: u64,
        is_over: IsOver,
    ) -> Result<TailRead, StoreError> {
        let failed = |source| StoreError::Io { path: self.directory.clone(), source };
        let damage = self.unstored.known_damage();
        let mut records = match SegmentRecords::open(&self.disk, &self.directory, span, last_seq, damage) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TailRead::Deleted),
            other => other.map_err(failed)?,
        };
        if let Some(position) = tail.position
            && !records.resume(position)
        {
            *tail = self.empty_tail(span);
        }
        let mut unchecked_rows = 0;
        let mut is_cut = false;
        let mut add = |batch: Records<'_>| {
            for (_, record) in batch.iter() {
                tail.builder.add(&record);
                unchecked_rows += 1;
            }
            tail.columns = None;
            if unchecked_rows >= BLOCK_ROWS {
                unchecked_rows = 0;
                is_cut = is_over();
            }
            if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        records.read(&mut add).map_err(failed)?;
        tail.position = records.position().or(tail.position);
        Ok(if is_cut { TailRead::Over } else { TailRead::Complete(records.file()) })
    }

    /// Returns the columns of all segments, in the order of their seqs.
    pub fn columns(&self) -> Vec<&Columns> {
        self.sealed().into_iter().chain(self.tail()).collect()
    }

    /// Returns the columns of the sealed segments, in the order of their seqs.
    pub fn sealed(&self) -> Vec<&Columns> {
        self.sealed.values().map(|sealed| &sealed.columns).collect()
    }

    /// Returns the columns of the active segment.
    pub fn tail(&self) -> Option<&Columns> {
        self.tail.as_ref()?.columns.as_ref()
    }

    /// Returns the last seq of the columns.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns true if a record has this site.
    ///
    /// # Errors
    /// Returns an error if a column file cannot be read or is damaged.
    pub fn knows_site(&self, site: &str) -> Result<bool, ColumnFileError> {
        for columns in self.columns() {
            if columns.has_site(site)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
