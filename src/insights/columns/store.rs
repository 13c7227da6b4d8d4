//! The columns of a log: a column file for each sealed segment, and the tail in memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{ColumnBuilder, VisitorKey};
use super::format::ColumnFileError;
use super::installer::{BuiltFrom, ColumnInstaller};
use super::packing::BLOCK_ROWS;
use super::reader::Columns;
use super::unstored::UnstoredColumns;
use crate::clock;
use crate::insights::experiment::{answer_experiment, answer_experiments};
use crate::insights::questions::answer::{self, Answer, AnsweredLog};
use crate::insights::questions::ask::{Source, ask};
use crate::insights::questions::question::Query;
use crate::insights::questions::scan::{Limits, ScanError};
use crate::insights::questions::sealed::{AnswerCache, Files};
use crate::insights::questions::site::SiteFacts;
use crate::insights::unknown::add_unknown;
use crate::insights::zones::{count_zones, write_zones};
use crate::storage::disk::{Disk, FileIdentity};
use crate::visitors::log::{
    Records, SegmentPosition, SegmentRecords, SegmentSpan, column_file_name, segment_spans,
};

/// The part of the memory of Insights that holds columns without a column file: one of this many.
const UNSTORED_SHARE: u64 = 8;

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
    unstored: Arc<UnstoredColumns>,
    tail: Option<Tail>,
    cache: AnswerCache,
    /// The last seq of the present columns.
    last_seq: u64,
    /// Writes the columns that a question needs first. `None` keeps them in memory.
    installer: Option<ColumnInstaller>,
}

/// Returns true when the time of the question is over.
type IsOver<'l> = &'l dyn Fn() -> bool;

/// The result of reading the records of a segment.
enum TailRead {
    /// The records were read to the end, from this file.
    Complete(FileIdentity),
    /// The time is over. A later call continues.
    Over,
    /// Retention has deleted the segment.
    Deleted,
}

/// The columns of the active segment.
struct Tail {
    builder: ColumnBuilder,
    position: Option<SegmentPosition>,
    /// The columns up to `position`; `None` after a change.
    columns: Option<Columns>,
}

impl ColumnStore {
    /// Creates the store of the log in `directory`. It reads nothing before the first refresh. `memory_bytes` is the
    /// memory of Insights.
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
            cache: AnswerCache::default(),
            last_seq: 0,
            installer: None,
        }
    }

    /// Writes the columns that it builds to column files. Reports the damage that it meets.
    #[must_use]
    pub fn with_installer(self, installer: ColumnInstaller) -> Self {
        let unstored = self.unstored.reporting_to(installer.known_damage().clone());
        Self { unstored: Arc::new(unstored), installer: Some(installer), ..self }
    }

    /// Forgets everything that was read, because records were erased.
    pub fn clear(&mut self) {
        self.sealed.clear();
        self.unstored.clear();
        self.cache.clear();
        self.tail = None;
    }

    /// Returns the bytes of the columns in memory that have no column file.
    pub fn unstored_bytes(&self) -> u64 {
        self.unstored.kept_bytes()
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
            let behind = || StoreError::Behind(spans.len() - at);
            if is_over() {
                return Err(behind());
            }
            let is_read = match span.next_seq {
                Some(next_seq) => self.refresh_sealed(*span, next_seq - 1, is_over)?,
                None => self.refresh_tail(*span, last_seq, is_over)?,
            };
            if !is_read {
                return Err(behind());
            }
        }
        // Sealed segments are read to their ends.
        self.last_seq = spans.last().map_or(last_seq, |span| last_seq.max(span.first_seq - 1));
        Ok(())
    }

    /// Returns false if the time is over.
    fn refresh_sealed(
        &mut self,
        span: SegmentSpan,
        last_seq: u64,
        is_over: IsOver,
    ) -> Result<bool, StoreError> {
        let known = self.sealed.get(&span.first_seq).filter(|(last, _)| *last == last_seq);
        if known.is_some_and(|(_, columns)| columns.is_stored()) {
            return Ok(true);
        }
        let is_known = known.is_some();
        let path = self.directory.join(column_file_name(span.first_seq));
        let columns = match Columns::open(&self.disk, &path, (span.first_seq, last_seq), self.key) {
            Ok(columns) => columns,
            // A missing or damaged file is built again.
            Err(_) if is_known => return Ok(true),
            Err(error) => {
                self.installer.iter().for_each(|installer| installer.report(span.first_seq, &error));
                match self.build_sealed(span, last_seq, is_over)? {
                    Some(columns) => columns,
                    None => return Ok(false),
                }
            }
        };
        self.sealed.insert(span.first_seq, (last_seq, columns));
        Ok(true)
    }

    /// Builds the columns of a sealed segment. If it is the tail, only its last records are read. Returns `None` if the
    /// time is over.
    fn build_sealed(
        &mut self,
        span: SegmentSpan,
        last_seq: u64,
        is_over: IsOver,
    ) -> Result<Option<Columns>, StoreError> {
        let generation = self.installer.as_ref().map(ColumnInstaller::generation);
        let mut tail = self.take_tail(span);
        let path = self.directory.join(column_file_name(span.first_seq));
        let (bytes, segment) = match self.read_records(&mut tail, span, last_seq, is_over)? {
            TailRead::Complete(segment) => (tail.builder.to_bytes(last_seq), Some(segment)),
            TailRead::Deleted => (self.empty_tail(span).builder.to_bytes(last_seq), None),
            TailRead::Over => {
                self.tail = Some(tail);
                return Ok(None);
            }
        };
        if let (Some(installer), Some(generation), Some(segment)) = (&self.installer, generation, segment) {
            let built = BuiltFrom { first_seq: span.first_seq, segment, generation };
            match installer.write_and_install(built, &bytes) {
                Ok(true) => {
                    let opened = Columns::open(&self.disk, &path, (span.first_seq, last_seq), self.key);
                    return opened.map(Some).map_err(|source| StoreError::Columns { path, source });
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot write a column file; its columns stay in memory");
                }
            }
        }
        let columns = Columns::unstored(Arc::clone(&self.unstored), bytes, span);
        columns.map(Some).map_err(|source| StoreError::Columns { path, source })
    }

    /// Forgets the columns that cannot be read, so that the next refresh opens or builds them. Deletes a column file
    /// only if its content is wrong.
    pub fn forget_unreadable(&mut self) {
        self.sealed.retain(|first_seq, (_, columns)| {
            let checked = columns.check();
            if let (Err(error), Some(installer)) = (&checked, &self.installer)
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

    /// Returns false if the time is over.
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
        let (disk, directory, damage) = (&self.disk, &self.directory, self.unstored.known_damage());
        let mut records = match SegmentRecords::open(disk, directory, span, last_seq, damage) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TailRead::Deleted),
            other => other.map_err(failed)?,
        };
        if let Some(position) = tail.position
            && !records.resume(position)
        {
            *tail = self.empty_tail(span);
        }
        let (mut since_look, mut is_cut) = (0, false);
        let mut add = |batch: Records<'_>| {
            for (_, record) in batch.iter() {
                tail.builder.add(&record);
                since_look += 1;
            }
            tail.columns = None;
            if since_look >= BLOCK_ROWS {
                (since_look, is_cut) = (0, is_over());
            }
            if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        records.read(&mut add).map_err(failed)?;
        tail.position = records.position().or(tail.position);
        Ok(if is_cut { TailRead::Over } else { TailRead::Complete(records.file()) })
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

    /// Answers a question over the records of the last refresh. Keeps the counts over sealed segments for the next
    /// answer to the same question.
    ///
    /// # Errors
    /// A column file is damaged, or the time is over.
    pub fn answer(
        &mut self,
        query: &Query,
        site: &SiteFacts,
        now_ms: i64,
        limits: &Limits<'_>,
    ) -> Result<Answer, StoreError> {
        let Self { sealed, tail, cache, last_seq, .. } = self;
        let sealed: Vec<&Columns> = sealed.values().map(|(_, columns)| columns).collect();
        let tail = tail.as_ref().and_then(|tail| tail.columns.as_ref());
        Ok(answer_cached((&sealed, tail), cache, *last_seq, (query, site), now_ms, limits)?)
    }

    /// Returns how often counts over sealed segments were used again.
    pub fn cache_hits(&self) -> u64 {
        self.cache.hits()
    }
}

/// Answers a question over columns in the order of their seqs, up to `seq`.
///
/// # Errors
/// A column file is damaged, or the time is over.
pub fn answer_over(
    columns: &[&Columns],
    seq: u64,
    asked: (&Query, &SiteFacts),
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let source = Source { files: Files { sealed: columns, tail: None }, cache: None };
    answer_from(source, seq, asked, now_ms, limits)
}

/// Answers a question over the columns of sealed segments, in the order of their seqs, and of the active segment. Uses
/// and keeps the counts over the sealed ones.
///
/// # Errors
/// A column file is damaged, or the time is over.
pub fn answer_cached(
    (sealed, tail): (&[&Columns], Option<&Columns>),
    cache: &mut AnswerCache,
    seq: u64,
    asked: (&Query, &SiteFacts),
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let source = Source { files: Files { sealed, tail }, cache: Some(cache) };
    answer_from(source, seq, asked, now_ms, limits)
}

fn answer_from(
    mut source: Source<'_>,
    seq: u64,
    (query, site): (&Query, &SiteFacts),
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let began = clock::instant();
    let columns = source.files.all();
    let mut since_ms = None;
    for columns in &columns {
        since_ms = columns.oldest_receipt_ms()?;
        if since_ms.is_some() {
            break;
        }
    }
    let log = |took_ms| AnsweredLog { seq, since_ms, took_ms };
    let took_ms = || clock::instant().duration_since(began).as_millis() as u64;
    let mut answer = match query {
        Query::Views(question) => {
            let counted = ask(question, site, &mut source, now_ms, limits)?;
            answer::write(question, site, &counted, log(took_ms()), now_ms)
        }
        Query::Experiment(question) => {
            answer_experiment(&columns, (&**question, site), now_ms, &limits.for_rows(), &|| log(took_ms()))?
        }
        Query::Experiments(question) => {
            answer_experiments(&columns, (question, site), &limits.for_rows(), &|| log(took_ms()))?
        }
        Query::Zones(question) => {
            let counts = count_zones(&columns, question, site, limits)?;
            write_zones(question, site, &counts, log(took_ms()))
        }
    };
    add_unknown(&mut answer, &columns, query, limits)?;
    Ok(answer)
}
