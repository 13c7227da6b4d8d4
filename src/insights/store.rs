//! The columns of a log: a column file for each sealed segment, and the tail in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::answer::{self, Answer, AnsweredLog};
use super::ask::ask;
use super::build::{ColumnBuilder, VisitorKey};
use super::columns::Columns;
use super::experiment::{answer_experiment, answer_experiments};
use super::format::ColumnFileError;
use super::installer::ColumnInstaller;
use super::question::Query;
use super::scan::{Limits, ScanError};
use super::site::SiteFacts;
use super::zones::{count_zones, write_zones};
use crate::clock;
use crate::storage::disk::Disk;
use crate::visitors::log::{
    Records, SegmentPosition, SegmentRecords, SegmentSpan, column_file_name, segment_spans,
};

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Scan(#[from] ScanError),
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
    /// The columns of segments that are not written to any more, by first seq.
    sealed: BTreeMap<u64, (u64, Columns)>,
    tail: Option<Tail>,
    /// The last seq of the present columns.
    last_seq: u64,
    /// Writes the columns that a question needs first. `None` keeps them in memory.
    installer: Option<ColumnInstaller>,
}

/// The columns of the active segment.
struct Tail {
    builder: ColumnBuilder,
    position: Option<SegmentPosition>,
    /// The columns up to `position`; `None` after a change.
    columns: Option<Columns>,
}

impl ColumnStore {
    /// Creates the store of the log in `directory`. It reads nothing before the first refresh.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, key: VisitorKey) -> Self {
        Self {
            disk,
            directory: directory.to_owned(),
            key,
            sealed: BTreeMap::new(),
            tail: None,
            last_seq: 0,
            installer: None,
        }
    }

    /// Writes the columns that it builds to column files.
    #[must_use]
    pub(crate) fn with_installer(self, installer: ColumnInstaller) -> Self {
        Self { installer: Some(installer), ..self }
    }

    /// Forgets everything that was read, because records were erased.
    pub fn clear(&mut self) {
        self.sealed.clear();
        self.tail = None;
    }

    /// Reads the records up to `last_seq`, which were acknowledged. Builds the columns of segments without a valid
    /// column file, until `is_over` returns true.
    ///
    /// # Errors
    /// The log cannot be read, or the time is over.
    pub fn refresh(&mut self, last_seq: u64, is_over: &dyn Fn() -> bool) -> Result<(), StoreError> {
        let path = self.directory.clone();
        let spans = segment_spans(&self.disk, &path).map_err(|source| StoreError::Io { path, source })?;
        self.sealed.retain(|first_seq, _| spans.iter().any(|span| span.first_seq == *first_seq));
        for (at, span) in spans.iter().enumerate() {
            if is_over() {
                return Err(StoreError::Behind(spans.len() - at));
            }
            match span.next_seq {
                Some(next_seq) => self.refresh_sealed(*span, next_seq - 1)?,
                None => self.refresh_tail(*span, last_seq)?,
            }
        }
        // Sealed segments are read to their ends.
        self.last_seq = spans.last().map_or(last_seq, |span| last_seq.max(span.first_seq - 1));
        Ok(())
    }

    fn refresh_sealed(&mut self, span: SegmentSpan, last_seq: u64) -> Result<(), StoreError> {
        if self.sealed.get(&span.first_seq).is_some_and(|(last, _)| *last == last_seq) {
            return Ok(());
        }
        let path = self.directory.join(column_file_name(span.first_seq));
        let opened = Columns::open(&self.disk, &path, (span.first_seq, last_seq), self.key);
        let columns = match opened {
            Ok(columns) => columns,
            // A missing or damaged file is built again.
            Err(_) => self.build_sealed(span, last_seq)?,
        };
        self.sealed.insert(span.first_seq, (last_seq, columns));
        Ok(())
    }

    /// Builds the columns of a sealed segment. If it is the tail, only its last records are read.
    fn build_sealed(&mut self, span: SegmentSpan, last_seq: u64) -> Result<Columns, StoreError> {
        let generation = self.installer.as_ref().map(ColumnInstaller::generation);
        let mut tail = self.take_tail(span);
        if !self.read_records(&mut tail, span, last_seq)? {
            // Retention has deleted the segment meanwhile.
            tail = self.empty_tail(span);
        }
        let path = self.directory.join(column_file_name(span.first_seq));
        let bytes = tail.builder.to_bytes(last_seq);
        if let (Some(installer), Some(generation)) = (&self.installer, generation) {
            match installer.write_and_install(span.first_seq, generation, &bytes) {
                Ok(true) => {
                    let opened = Columns::open(&self.disk, &path, (span.first_seq, last_seq), self.key);
                    return opened.map_err(|source| StoreError::Columns { path, source });
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot write a column file; its columns stay in memory")
                }
            }
        }
        Columns::from_bytes(bytes).map_err(|source| StoreError::Columns { path, source })
    }

    /// Checks every column file, and deletes the damaged ones. The next refresh builds them again.
    pub(crate) fn delete_damaged(&mut self) {
        let Some(installer) = &self.installer else { return };
        self.sealed.retain(|first_seq, (_, columns)| {
            let is_intact = columns.facts().is_ok();
            if !is_intact {
                installer.delete(*first_seq);
            }
            is_intact
        });
    }

    fn columns_of(&self, tail: &Tail, last_seq: u64) -> Result<Columns, StoreError> {
        let path = self.directory.join(column_file_name(tail.builder.first_seq()));
        Columns::from_bytes(tail.builder.to_bytes(last_seq))
            .map_err(|source| StoreError::Columns { path, source })
    }

    /// Takes the tail if it is of this segment, or an empty one.
    fn take_tail(&mut self, span: SegmentSpan) -> Tail {
        let is_of_span = |tail: &Tail| {
            let is_valid =
                span.next_seq.is_none_or(|next| tail.position.is_none_or(|at| at.next_seq <= next));
            tail.builder.first_seq() == span.first_seq && is_valid
        };
        self.tail.take().filter(is_of_span).unwrap_or_else(|| self.empty_tail(span))
    }

    fn empty_tail(&self, span: SegmentSpan) -> Tail {
        Tail { builder: ColumnBuilder::new(span.first_seq, self.key), position: None, columns: None }
    }

    fn refresh_tail(&mut self, span: SegmentSpan, last_seq: u64) -> Result<(), StoreError> {
        let mut tail = self.take_tail(span);
        if self.read_records(&mut tail, span, last_seq)? {
            if tail.columns.is_none() {
                tail.columns = Some(self.columns_of(&tail, last_seq)?);
            }
            self.tail = Some(tail);
        }
        Ok(())
    }

    /// Adds the records up to `last_seq` to the tail. Returns false if the segment does not exist any more.
    fn read_records(&self, tail: &mut Tail, span: SegmentSpan, last_seq: u64) -> Result<bool, StoreError> {
        let failed = |source| StoreError::Io { path: self.directory.clone(), source };
        let mut records = match SegmentRecords::open(&self.disk, &self.directory, span, last_seq) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(failed)?,
        };
        if let Some(position) = tail.position
            && !records.resume(position)
        {
            *tail = self.empty_tail(span);
        }
        let mut add = |batch: Records<'_>| {
            batch.iter().for_each(|(_, record)| tail.builder.add(&record));
            tail.columns = None;
        };
        records.read(&mut add).map_err(failed)?;
        tail.position = records.position().or(tail.position);
        Ok(true)
    }

    /// Returns the columns of all segments, in the order of their seqs.
    fn columns(&self) -> Vec<&Columns> {
        let sealed = self.sealed.values().map(|(_, columns)| columns);
        sealed.chain(self.tail.iter().filter_map(|tail| tail.columns.as_ref())).collect()
    }

    /// Returns whether a record names the site.
    ///
    /// # Errors
    /// A column file is damaged.
    pub fn knows_site(&self, site: &str) -> Result<bool, StoreError> {
        for columns in self.columns() {
            if columns.has_site(site).map_err(ScanError::from)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Answers a question over the records of the last refresh.
    ///
    /// # Errors
    /// A column file is damaged, or the time is over.
    pub fn answer(
        &self,
        query: &Query,
        site: &SiteFacts,
        now_ms: i64,
        limits: &Limits<'_>,
    ) -> Result<Answer, StoreError> {
        Ok(answer_over(&self.columns(), self.last_seq, (query, site), now_ms, limits)?)
    }
}

/// Answers a question over columns in the order of their seqs, up to `seq`.
///
/// # Errors
/// A column file is damaged, or the time is over.
pub fn answer_over(
    columns: &[&Columns],
    seq: u64,
    (query, site): (&Query, &SiteFacts),
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let began = clock::instant();
    let mut since_ms = None;
    for columns in columns {
        since_ms = columns.oldest_receipt_ms()?;
        if since_ms.is_some() {
            break;
        }
    }
    let log = |took_ms| AnsweredLog { seq, since_ms, took_ms };
    let took_ms = || clock::instant().duration_since(began).as_millis() as u64;
    Ok(match query {
        Query::Views(question) => {
            let counted = ask(question, site, columns, now_ms, limits)?;
            answer::write(question, site, &counted, log(took_ms()), now_ms)
        }
        Query::Experiment(question) => {
            answer_experiment(columns, (&**question, site), now_ms, limits, &|| log(took_ms()))?
        }
        Query::Experiments(question) => {
            answer_experiments(columns, (question, site), limits, &|| log(took_ms()))?
        }
        Query::Zones(question) => {
            let counts = count_zones(columns, question, &site.site, limits)?;
            write_zones(question, site, &counts, log(took_ms()))
        }
    })
}
