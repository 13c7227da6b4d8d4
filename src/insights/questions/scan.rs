//! The scan: reads the rows of a site from column files and passes them to a question, visitor by visitor.
//!
//! Every number of Insights is a sum over visitors, or a count of visitors. So the visitors are divided into as many
//! parts as the memory limit demands, by their hashes. Each part is read, grouped and counted alone, and the results
//! are exact.

use std::ops::Range;

use super::credits::{CREDITS_BYTES_MIN, Credits, Place, ScannedFiles, Wanted};
use super::question::QuestionError;
use super::rows::{FileReader, Plan, Row};
use super::values::Values;
use crate::insights::columns::format::{CODE_FIRST, ColumnFileError, TextColumn};
use crate::insights::columns::packing::BLOCK_ROWS;
use crate::insights::columns::reader::{Columns, FilePart};

/// Memory of a row while its part is counted.
const ROW_BYTES: u64 = size_of::<Row>() as u64;
/// Memory of a run of rows: the run, and its share of the buffer in which runs are sorted.
const RUN_BYTES: u64 = size_of::<Run>() as u64 * 3 / 2;

/// The part of the memory of Insights that holds the rows and visitors that are counted: one of this many. Beyond it
/// the visitors are counted in several passes.
const ROWS_SHARE: u64 = 2;
/// The part of the memory that holds the values by which a question groups. Beyond it the values are counted in several
/// passes.
pub(crate) const VALUES_SHARE: u64 = 8;
/// The part of the memory that holds the ties of users whose events are credited to other visitors: one of this many. Beyond
/// it the visitors are counted in several passes.
const CREDITS_SHARE: u64 = 8;

/// The limits of an answer.
pub struct Limits<'l> {
    /// The memory of Insights.
    pub memory_bytes: u64,
    /// Returns true when the time of the question is over.
    pub is_over: &'l dyn Fn() -> bool,
}

impl Limits<'_> {
    /// Returns limits whose memory is the part for the rows and visitors that are counted.
    pub(crate) fn for_rows(&self) -> Limits<'_> {
        Limits { memory_bytes: self.memory_bytes / ROWS_SHARE, is_over: self.is_over }
    }

    /// Returns limits whose memory is the part for credits.
    pub(crate) fn for_credits(&self) -> Limits<'_> {
        let memory_bytes = (self.memory_bytes / CREDITS_SHARE).max(CREDITS_BYTES_MIN);
        Limits { memory_bytes, is_over: self.is_over }
    }
}

/// The reason why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("a column file is damaged: {0}")]
    Columns(#[from] ColumnFileError),
    #[error("the question takes more than its time")]
    TooExpensive,
    #[error("the question takes more than its memory")]
    TooLarge,
    #[error("{0}")]
    Refused(QuestionError),
    /// The question is asked again, for a smaller part of the values.
    #[error("the values of the question take too much memory")]
    TooManyValues,
}

/// The results of a scan, beside those of the question.
#[derive(Debug, Default)]
pub(crate) struct ScanSummary {
    pub values: Values,
    /// Rows that were read.
    pub rows: u64,
    /// Rows of the range by text columns whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Takes the hash of a visitor and its rows, in the order of their times, then of their seqs.
pub(crate) type TakeVisitor<'t> = &'t mut dyn FnMut(u64, &[Row]);

/// Passes the rows of each visitor to `count`.
///
/// # Errors
/// A file is damaged, the time is over, or the values of the plan's part take too much memory.
pub(crate) fn scan(
    files: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    count: TakeVisitor<'_>,
) -> Result<ScanSummary, ScanError> {
    let mut summary = ScanSummary { values: Values::of_part(plan.value_part), ..ScanSummary::default() };
    scan_into(ScannedFiles::all(files), plan, limits, &mut summary, count)?;
    Ok(summary)
}

/// Scans like [`scan`], and adds to a summary.
pub(crate) fn scan_into(
    files: ScannedFiles<'_>,
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    summary: &mut ScanSummary,
    count: TakeVisitor<'_>,
) -> Result<(), ScanError> {
    scan_with_values(files, plan, limits, summary, &mut |visitor, rows, _| count(visitor, rows))
}

/// Scans like [`scan_into`], and passes the values of the rows to `count` too.
pub(crate) fn scan_with_values(
    files: ScannedFiles<'_>,
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    summary: &mut ScanSummary,
    count: &mut dyn FnMut(u64, &[Row], &Values),
) -> Result<(), ScanError> {
    let mut met = met_files(files, plan);
    let parts = parts_of(met.iter().map(|file| file.file), limits);
    let (parts, first) = files.parts_with_credits(plan, limits, parts)?;
    let mut first = Some(first);
    let mut gathered = Gathered::default();
    let rows: u64 = met.iter().map(|file| u64::from(file.file.header().rows)).sum();
    for part in 0..parts {
        gathered.clear();
        let wanted = Wanted::Part(part, parts);
        let credits = match first.take() {
            Some(credits) => Some(credits),
            None => files.credits(wanted, plan, &limits.for_credits())?,
        };
        let credits = credits.ok_or(ScanError::TooLarge)?;
        let others = credits.users_of_others(wanted);
        // A vector that grows would take up to three times its memory while it moves.
        gathered.rows.reserve(rows.div_ceil(parts) as usize);
        for file in &mut met {
            gathered.add_file(file, (plan, &credits, &others), (part, parts), limits, summary)?;
            if summary.values.exceed(limits.memory_bytes / VALUES_SHARE) {
                return Err(ScanError::TooManyValues);
            }
        }
        gathered.take_ordered();
        gathered.each_visitor(limits, &mut |visitor, rows| count(visitor, rows, &summary.values))?;
    }
    Ok(())
}

/// Passes the rows of the visitors with these hashes to `count`. The hashes are sorted, and [`scan`] has read the files
/// with the same plan before. Returns false, before any call, if there are more than `rows_max` rows, or if their credits do
/// not fit the memory.
///
/// # Errors
/// As for [`scan`].
pub(crate) fn scan_visitors(
    files: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    (visitors, rows_max): (&[u64], usize),
    values: &mut Values,
    count: TakeVisitor<'_>,
) -> Result<bool, ScanError> {
    if visitors.is_empty() {
        return Ok(true);
    }
    let mut gathered = Gathered::default();
    let (scanned, wanted) = (ScannedFiles::all(files), Wanted::These(visitors));
    let Some(credits) = scanned.credits(wanted, plan, &limits.for_credits())? else { return Ok(false) };
    let is_wanted = |visitor: u64| wanted.has(visitor);
    let mut read_visitors = [visitors, &credits.users_of_others(wanted)].concat();
    read_visitors.sort_unstable();
    // Its rows and texts were counted before.
    let mut summary = ScanSummary { values: std::mem::take(values), ..ScanSummary::default() };
    let read = met_files(scanned, plan).iter_mut().try_for_each(|file| match gathered.len() <= rows_max {
        true => {
            gathered.add_visitors(file, (plan, &credits), (&read_visitors, &is_wanted), limits, &mut summary)
        }
        false => Ok(()),
    });
    *values = summary.values;
    read?;
    if gathered.len() > rows_max {
        return Ok(false);
    }
    gathered.take_ordered();
    gathered.each_visitor(limits, count).map(|()| true)
}

/// Returns the number of parts into which the visitors of files are divided.
pub(crate) fn parts_of<'f>(files: impl Iterator<Item = &'f Columns>, limits: &Limits<'_>) -> u64 {
    let needed: u64 = files.map(memory_bytes).sum();
    needed.div_ceil((limits.memory_bytes / ROWS_SHARE).max(1)).max(1)
}

/// Returns the memory that the rows and visitors of a file take.
fn memory_bytes(file: &Columns) -> u64 {
    u64::from(file.header().rows) * ROW_BYTES + u64::from(file.header().visitors) * RUN_BYTES
}

/// Returns the files that a plan reads, with their numbers.
fn met_files<'f>(files: ScannedFiles<'f>, plan: &Plan<'_>) -> Vec<FileParts<'f>> {
    let numbered = (files.earlier.len() as u32..).zip(files.files.iter().copied());
    let met = numbered.filter(|(_, file)| meets(file, &plan.window));
    met.map(|(number, file)| FileParts::new(file, number)).collect()
}

/// Returns whether a file can have rows in a window.
pub(crate) fn meets(file: &Columns, window: &Range<i64>) -> bool {
    let header = file.header();
    header.rows > 0 && header.oldest_ms < window.end && header.newest_ms >= window.start
}

/// A file, and the visitors of each part.
struct FileParts<'f> {
    file: &'f Columns,
    /// The number of the file among all whose ties count.
    number: u32,
    /// The number of sites, and the code of the site of the question. `None` if no row has it.
    site: Option<(usize, i64)>,
    /// The first visitor of each part but the first one. Empty before the first part is read.
    bounds: Vec<u32>,
}

impl<'f> FileParts<'f> {
    fn new(file: &'f Columns, number: u32) -> Self {
        Self { file, number, site: None, bounds: Vec::new() }
    }

    /// Reads the sites and the visitors. Returns the hashes of all visitors, or none if no row has the site.
    fn find_visitors(&mut self, columns: &Columns, site: &str) -> Result<Vec<u64>, ColumnFileError> {
        let sites = columns.texts(TextColumn::Site)?;
        let first = CODE_FIRST as usize;
        let code = sites.iter().skip(first).position(|other| other == site);
        self.site = code.map(|at| (sites.len(), (at + first) as i64));
        if code.is_none() { Ok(Vec::new()) } else { columns.visitors() }
    }

    /// Reads the sites and the visitors for the first part. Returns the hashes of its visitors.
    fn begin(&mut self, columns: &Columns, site: &str, parts: u64) -> Result<Vec<u64>, ColumnFileError> {
        let mut hashes = self.find_visitors(columns, site)?;
        if self.site.is_none() {
            return Ok(hashes);
        }
        let bound = |part: u64| hashes.partition_point(|hash| part_of(*hash, parts) < part) as u32;
        self.bounds = (1..parts).map(bound).collect();
        hashes.truncate(self.visitors(0, parts).end);
        Ok(hashes)
    }

    /// Returns the visitors of a part.
    fn visitors(&self, part: u64, parts: u64) -> Range<usize> {
        let bound = |part: u64| self.bounds[part as usize - 1] as usize;
        let start = if part == 0 { 0 } else { bound(part) };
        let end = if part + 1 == parts { self.file.header().visitors as usize } else { bound(part + 1) };
        start..end
    }
}

/// The rows of one part of the visitors.
#[derive(Default)]
pub(crate) struct Gathered {
    rows: Vec<Row>,
    runs: Vec<Run>,
    /// The rows of visitors with credited events, which are not in the order of their seqs.
    ordered: Vec<(u64, Place, Row)>,
}

/// Consecutive rows of a visitor. The rows of a file are in the order of visitors, so a visitor has one run in each
/// file.
#[derive(Clone, Copy)]
struct Run {
    visitor: u64,
    start: u32,
    end: u32,
}

/// The visitors of a file whose rows are read.
struct FileVisitors {
    /// The index of the first one.
    start: usize,
    hashes: Vec<u64>,
    /// False for a visitor whose rows are not read.
    are_wanted: Vec<bool>,
}

/// The credits of events, and the visitors whose rows are kept.
struct Ownership<'c> {
    credits: &'c Credits,
    is_kept: &'c dyn Fn(u64) -> bool,
    /// The number of the file.
    file: u32,
}

impl Gathered {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.runs.clear();
        self.ordered.clear();
    }

    fn len(&self) -> usize {
        self.rows.len() + self.ordered.len()
    }

    /// Adds the rows of visitors with credited events, in the order of their seqs.
    pub(crate) fn take_ordered(&mut self) {
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.sort_unstable_by_key(|(visitor, place, _)| (*visitor, *place));
        ordered.drain(..).for_each(|(visitor, _, row)| self.push(visitor, row));
        self.ordered = ordered;
    }

    /// Adds a row of the visitor with this hash.
    pub(crate) fn push(&mut self, visitor: u64, row: Row) {
        let at = self.rows.len() as u32;
        match self.runs.last_mut() {
            Some(run) if run.visitor == visitor => run.end += 1,
            _ => self.runs.push(Run { visitor, start: at, end: at + 1 }),
        }
        self.rows.push(row);
    }

    /// Adds a row for the visitor to whom it is credited.
    fn push_owned(&mut self, visitor: u64, row: Row, position: u32, ownership: &Ownership<'_>) {
        if !ownership.credits.concern(visitor) {
            return self.push(visitor, row);
        }
        let place = Place { file: ownership.file, position };
        let owner = ownership.credits.owner(visitor, place);
        if (ownership.is_kept)(owner) {
            self.push_at(owner, place, row);
        }
    }

    /// Adds a row of a visitor with credited events.
    pub(crate) fn push_at(&mut self, visitor: u64, place: Place, row: Row) {
        self.ordered.push((visitor, place, row));
    }

    /// Returns the memory of the rows and visitors while they are counted.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ordered = size_of_val(&*self.ordered) as u64 + self.ordered.len() as u64 * ROW_BYTES;
        self.rows.len() as u64 * ROW_BYTES + self.runs.len() as u64 * RUN_BYTES + ordered
    }

    /// Adds the rows of a part of the visitors, and the events of `others` that are credited to them.
    fn add_file(
        &mut self,
        file: &mut FileParts<'_>,
        (plan, credits, others): (&Plan<'_>, &Credits, &[u64]),
        (part, parts): (u64, u64),
        limits: &Limits<'_>,
        summary: &mut ScanSummary,
    ) -> Result<(), ScanError> {
        if (limits.is_over)() {
            return Err(ScanError::TooExpensive);
        }
        let columns = file.file.opened()?;
        let first = if part == 0 { Some(file.begin(&columns, &plan.site.site, parts)?) } else { None };
        if part == 0 {
            summary.rows += columns.rows() as u64;
            summary.other[TextColumn::Site as usize] += columns.rows_of_other_sites(&plan.range)?;
        }
        if file.site.is_none() {
            return Ok(());
        }
        let visitors = file.visitors(part, parts);
        let hashes = first.map_or_else(|| columns.some_visitors(&visitors), Ok)?;
        let file_part = match parts {
            1 => FilePart::WHOLE,
            _ => columns.part_of_visitors(&visitors, part > 0)?,
        };
        let are_wanted = vec![true; hashes.len()];
        let visitors = FileVisitors { start: visitors.start, hashes, are_wanted };
        let is_kept = |visitor: u64| part_of(visitor, parts) == part;
        let ownership = Ownership { credits, is_kept: &is_kept, file: file.number };
        self.add_rows((&columns, &file_part), file.site, visitors, (plan, &ownership), limits, summary)?;
        if others.is_empty() {
            return Ok(());
        }
        let mut values =
            ScanSummary { values: std::mem::take(&mut summary.values), ..ScanSummary::default() };
        let added = self.add_visitors(file, (plan, credits), (others, &is_kept), limits, &mut values);
        summary.values = values.values;
        added
    }

    /// Adds the rows of the visitors with these hashes, which are sorted.
    fn add_visitors(
        &mut self,
        file: &mut FileParts<'_>,
        (plan, credits): (&Plan<'_>, &Credits),
        (wanted, is_kept): (&[u64], &dyn Fn(u64) -> bool),
        limits: &Limits<'_>,
        summary: &mut ScanSummary,
    ) -> Result<(), ScanError> {
        let columns = file.file.opened()?;
        let hashes = file.find_visitors(&columns, &plan.site.site)?;
        let found: Vec<usize> = wanted.iter().filter_map(|hash| hashes.binary_search(hash).ok()).collect();
        if found.is_empty() {
            return Ok(());
        }
        let mut are_wanted = vec![false; hashes.len()];
        found.iter().for_each(|visitor| are_wanted[*visitor] = true);
        let file_part = columns.part_of_some(&found)?;
        let visitors = FileVisitors { start: 0, hashes, are_wanted };
        let ownership = Ownership { credits, is_kept, file: file.number };
        self.add_rows((&columns, &file_part), file.site, visitors, (plan, &ownership), limits, summary)
    }

    fn add_rows(
        &mut self,
        file: (&Columns, &FilePart),
        site: Option<(usize, i64)>,
        visitors: FileVisitors,
        (plan, ownership): (&Plan<'_>, &Ownership<'_>),
        limits: &Limits<'_>,
        summary: &mut ScanSummary,
    ) -> Result<(), ScanError> {
        let Some((sites, site)) = site else { return Ok(()) };
        let mut reader = FileReader::new(file, sites, plan, &mut summary.values)?;
        if !ownership.credits.are_empty() {
            reader.open_positions(file)?;
        }
        while reader.next_block()? {
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            for row in 0..reader.len() {
                let Some(visitor) = reader.visitor(row).and_then(|at| at.checked_sub(visitors.start)) else {
                    continue;
                };
                // A row of another part, or of another site.
                if visitors.are_wanted.get(visitor) != Some(&true) || reader.site(row) != site {
                    continue;
                }
                let read = reader.read_row(row, plan, &mut summary.other);
                if let Some(read) = read.and_then(|read| reader.with_number(row, read, &mut summary.values)) {
                    self.push_owned(visitors.hashes[visitor], read, reader.position(row), ownership);
                }
            }
        }
        Ok(())
    }

    /// Passes the rows of each visitor to `count`.
    ///
    /// # Errors
    /// The time is over.
    pub(crate) fn each_visitor(
        &mut self,
        limits: &Limits<'_>,
        count: TakeVisitor<'_>,
    ) -> Result<(), ScanError> {
        // The runs of each file are sorted already. A stable sort merges them, and keeps the order of the files.
        self.runs.sort_by_key(|run| run.visitor);
        let (mut rows, mut since_look) = (Vec::new(), 0);
        for runs in self.runs.chunk_by(|a, b| a.visitor == b.visitor) {
            rows.clear();
            let spans = runs.iter().map(|run| &self.rows[run.start as usize..run.end as usize]);
            for chunk in spans.flat_map(|span| span.chunks(BLOCK_ROWS)) {
                rows.extend_from_slice(chunk);
                since_look += chunk.len();
                if since_look >= BLOCK_ROWS {
                    since_look = 0;
                    if (limits.is_over)() {
                        return Err(ScanError::TooExpensive);
                    }
                }
            }
            // Equal times keep the order of their seqs.
            if !rows.is_sorted_by_key(|row| row.time_ms()) {
                rows.sort_by_key(|row| row.time_ms());
            }
            count(runs[0].visitor, &rows);
        }
        Ok(())
    }
}

/// Returns the part of a hash. Parts are in the order of the hashes.
pub(crate) fn part_of(hash: u64, parts: u64) -> u64 {
    ((u128::from(hash) * u128::from(parts)) >> 64) as u64
}
