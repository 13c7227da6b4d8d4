//! The scan. It reads the rows of a site from column files. Then it passes the rows of one visitor after the other to a
//! question.
//!
//! Each number of Insights is a sum over visitors, or a count of visitors. So the scan divides the visitors into parts
//! by their hashes. A smaller memory limit gives more parts. The scan reads and counts one part after the other. The
//! sums over all parts are exact.

use std::ops::Range;

use super::blocks::PartOfFile;
use super::credits::{Credits, RowLocation, ScannedFiles, VisitorSet};
use super::goals::{ConversionHits, Currencies};
use super::limits::{Limits, ROWS_SHARE, ScanError, VALUES_SHARE};
use super::part::Part;
use super::plan::Plan;
use super::row::Row;
use super::row_reader::FileReader;
use super::values::Values;
use crate::insights::columns::format::{CODE_FIRST, ColumnFileError, TextColumn};
use crate::insights::columns::packing::BLOCK_ROWS;
use crate::insights::columns::reader::{Columns, FilePart};

/// Memory of a row while the part of its visitor is counted, in bytes.
const ROW_BYTES: u64 = size_of::<Row>() as u64;
/// Memory of a run, in bytes. It includes the share of the run in the buffer that sorts the runs.
const RUN_BYTES: u64 = size_of::<Run>() as u64 * 3 / 2;

/// The results of a scan that are the same for all kinds of questions.
#[derive(Debug, Default)]
pub(crate) struct ScanSummary {
    pub values: Values,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
    /// The conversions of the rows of the current part of the visitors.
    pub hits: ConversionHits,
    pub currencies: Currencies,
}

/// A function that takes the hash and the rows of one visitor. The rows are in the order of their times. Rows with
/// equal times are in the order of their seqs.
pub(crate) type TakeVisitor<'t> = &'t mut dyn FnMut(u64, &[Row]);

/// Passes the rows of each visitor to `take_visitor`.
///
/// # Errors
/// Returns an error if a file is damaged, if the time is over, or if the values or the credits take too much memory.
pub(crate) fn scan(
    columns: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    take_visitor: TakeVisitor<'_>,
) -> Result<ScanSummary, ScanError> {
    let mut summary = ScanSummary { values: Values::of_part(plan.value_part), ..ScanSummary::default() };
    scan_into(ScannedFiles::all(columns), plan, limits, &mut summary, take_visitor)?;
    Ok(summary)
}

/// Does the same as [`scan`], but adds the results to `summary`.
pub(crate) fn scan_into(
    files: ScannedFiles<'_>,
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    summary: &mut ScanSummary,
    take_visitor: TakeVisitor<'_>,
) -> Result<(), ScanError> {
    scan_with_summary(files, plan, limits, summary, &mut |visitor, rows, _| take_visitor(visitor, rows))
}

/// Scans like [`scan_into`], and passes the results so far to `take_visitor` too.
pub(crate) fn scan_with_summary(
    files: ScannedFiles<'_>,
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    summary: &mut ScanSummary,
    take_visitor: &mut dyn FnMut(u64, &[Row], &ScanSummary),
) -> Result<(), ScanError> {
    let mut file_parts = files_in_window(files, plan);
    let part_count = part_count(file_parts.iter().map(|file| file.file), plan, limits);
    let (part_count, first_credits) = files.parts_with_credits(plan, limits, part_count)?;
    let mut first_credits = Some(first_credits);
    let mut visitor_rows = VisitorRows::default();
    let row_count: u64 = file_parts.iter().map(|file| u64::from(file.file.header().rows)).sum();
    for part in Part::all(part_count) {
        visitor_rows.clear();
        summary.hits.clear();
        let visitors = VisitorSet::Part(part);
        let credits = match first_credits.take() {
            Some(credits) => Some(credits),
            None => files.credits(visitors, plan, &limits.for_credits())?,
        };
        let credits = credits.ok_or(ScanError::TooLarge)?;
        let users = credits.users_of_others(visitors);
        let pass = ScanPass { plan, limits, credits: &credits, visitors };
        // A vector that grows needs up to three times its memory while it copies its entries.
        visitor_rows.rows.reserve(row_count.div_ceil(part_count) as usize);
        for file in &mut file_parts {
            visitor_rows.add_file(file, part, &users, &pass, summary)?;
            if summary.values.exceed(limits.memory_bytes / VALUES_SHARE) {
                return Err(ScanError::TooManyValues);
            }
        }
        visitor_rows.take_ordered();
        visitor_rows.each_visitor(limits, &mut |visitor, rows| take_visitor(visitor, rows, summary))?;
    }
    Ok(())
}

/// Passes the rows of the visitors with these hashes to `take_visitor`. The hashes are sorted, and [`scan`] has read the
/// files with the same plan before. Returns false, without any call of `take_visitor`, if there are more than `rows_max`
/// rows, or if the credits do not fit in the memory.
///
/// # Errors
/// Returns the same errors as [`scan`].
pub(crate) fn scan_visitors(
    columns: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    hashes: &[u64],
    rows_max: usize,
    values: &mut Values,
    take_visitor: TakeVisitor<'_>,
) -> Result<bool, ScanError> {
    if hashes.is_empty() {
        return Ok(true);
    }
    let files = ScannedFiles::all(columns);
    let visitors = VisitorSet::Hashes(hashes);
    let Some(credits) = files.credits(visitors, plan, &limits.for_credits())? else { return Ok(false) };
    let mut read_hashes = [hashes, &credits.users_of_others(visitors)].concat();
    read_hashes.sort_unstable();
    let pass = ScanPass { plan, limits, credits: &credits, visitors };
    let mut visitor_rows = VisitorRows::default();
    // The earlier scan has already counted the rows and the texts `(other)`.
    let mut summary = ScanSummary { values: std::mem::take(values), ..ScanSummary::default() };
    let read = files_in_window(files, plan).iter_mut().try_for_each(|file| {
        let is_full = visitor_rows.len() > rows_max;
        if is_full { Ok(()) } else { visitor_rows.add_visitors(file, &read_hashes, &pass, &mut summary) }
    });
    *values = summary.values;
    read?;
    if visitor_rows.len() > rows_max {
        return Ok(false);
    }
    visitor_rows.take_ordered();
    visitor_rows.each_visitor(limits, take_visitor).map(|()| true)
}

/// Returns the number of parts into which the scan divides the visitors of these files.
fn part_count<'f>(columns: impl Iterator<Item = &'f Columns>, plan: &Plan<'_>, limits: &Limits<'_>) -> u64 {
    let rows_bytes: u64 = columns.map(memory_bytes).sum();
    // The conversions of the rows take at most as much memory as the rows, unless most events reach several goals.
    let needed_bytes = if plan.goals.is_empty() { rows_bytes } else { 2 * rows_bytes };
    needed_bytes.div_ceil((limits.memory_bytes / ROWS_SHARE).max(1)).max(1)
}

/// Returns the memory that the rows and visitors of a file take.
fn memory_bytes(columns: &Columns) -> u64 {
    u64::from(columns.header().rows) * ROW_BYTES + u64::from(columns.header().visitors) * RUN_BYTES
}

/// Returns each file that can have rows in the window of a plan.
fn files_in_window<'f>(files: ScannedFiles<'f>, plan: &Plan<'_>) -> Vec<FileParts<'f>> {
    let numbered = (files.earlier.len() as u32..).zip(files.files.iter().copied());
    let in_window = numbered.filter(|(_, file)| file.may_have_rows_in(&plan.window));
    in_window.map(|(number, file)| FileParts { file, number, site: None, bounds: Vec::new() }).collect()
}

/// The settings of one pass over the files.
struct ScanPass<'s> {
    plan: &'s Plan<'s>,
    limits: &'s Limits<'s>,
    credits: &'s Credits,
    /// The pass keeps only the rows that belong to these visitors or are credited to them.
    visitors: VisitorSet<'s>,
}

/// A file, and the visitors of each part in the file.
struct FileParts<'f> {
    file: &'f Columns,
    /// The number of the file. The oldest file of the log has the number 0.
    number: u32,
    /// The site of the question. `None` if no row of the file has this site.
    site: Option<SiteCode>,
    /// The index of the first visitor of each part except the first part. Empty until the first part is read.
    bounds: Vec<u32>,
}

/// The site of a question in a file.
#[derive(Clone, Copy)]
struct SiteCode {
    code: i64,
    /// The number of site codes in the file.
    codes: usize,
}

impl FileParts<'_> {
    /// Reads the sites and the visitors of the file. Returns the hashes of all visitors. If no row has the site,
    /// returns no hashes.
    fn find_visitors(&mut self, columns: &Columns, site: &str) -> Result<Vec<u64>, ColumnFileError> {
        let sites = columns.texts(TextColumn::Site)?;
        let first = CODE_FIRST as usize;
        let index = sites.iter().skip(first).position(|other| other == site);
        self.site = index.map(|index| SiteCode { code: (index + first) as i64, codes: sites.len() });
        if index.is_none() { Ok(Vec::new()) } else { columns.visitors() }
    }

    /// Reads the sites and the visitors of the file, and divides the visitors into `part_count` parts. Returns the
    /// hashes of the visitors of the first part.
    fn read_first_part(
        &mut self,
        columns: &Columns,
        site: &str,
        part_count: u64,
    ) -> Result<Vec<u64>, ColumnFileError> {
        let mut hashes = self.find_visitors(columns, site)?;
        if self.site.is_none() {
            return Ok(hashes);
        }
        let bound = |part| hashes.partition_point(|hash| Part::number_of(*hash, part_count) < part) as u32;
        self.bounds = (1..part_count).map(bound).collect();
        hashes.truncate(self.visitors(Part { number: 0, count: part_count }).end);
        Ok(hashes)
    }

    /// Returns the indices of the visitors of a part.
    fn visitors(&self, part: Part) -> Range<usize> {
        let bound = |number: u64| self.bounds[number as usize - 1] as usize;
        let start = if part.is_first() { 0 } else { bound(part.number) };
        let end = if part.is_last() { self.file.header().visitors as usize } else { bound(part.number + 1) };
        start..end
    }
}

/// Rows, grouped by visitor.
#[derive(Default)]
pub(crate) struct VisitorRows {
    rows: Vec<Row>,
    runs: Vec<Run>,
    /// The rows of visitors with credited events, in the order in which they are read.
    ordered: Vec<(u64, RowLocation, Row)>,
}

/// Consecutive rows of one visitor. The rows of a file are sorted by visitor. So a visitor has one run for each file.
#[derive(Clone, Copy)]
struct Run {
    visitor: u64,
    start: u32,
    end: u32,
}

/// Consecutive visitors of a file, with a flag for each visitor whose rows are read.
struct FileVisitors {
    /// The index of the first visitor.
    start: usize,
    hashes: Vec<u64>,
    /// For each visitor, true if its rows are read.
    are_read: Vec<bool>,
}

impl VisitorRows {
    fn clear(&mut self) {
        self.rows.clear();
        self.runs.clear();
        self.ordered.clear();
    }

    fn len(&self) -> usize {
        self.rows.len() + self.ordered.len()
    }

    /// Moves the rows of visitors with credited events to the other rows, in the order of their seqs.
    pub(crate) fn take_ordered(&mut self) {
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.sort_unstable_by_key(|(visitor, location, _)| (*visitor, *location));
        ordered.drain(..).for_each(|(visitor, _, row)| self.push(visitor, row));
        self.ordered = ordered;
    }

    /// Adds a row of the visitor with this hash.
    pub(crate) fn push(&mut self, visitor_hash: u64, row: Row) {
        let index = self.rows.len() as u32;
        match self.runs.last_mut() {
            Some(run) if run.visitor == visitor_hash => run.end += 1,
            _ => self.runs.push(Run { visitor: visitor_hash, start: index, end: index + 1 }),
        }
        self.rows.push(row);
    }

    /// Adds a row for the visitor to whom it is credited.
    fn push_credited(&mut self, visitor_hash: u64, row: Row, location: RowLocation, pass: &ScanPass<'_>) {
        if !pass.credits.concern(visitor_hash) {
            return self.push(visitor_hash, row);
        }
        let owner = pass.credits.owner(visitor_hash, location);
        if pass.visitors.has(owner) {
            self.push_at(owner, location, row);
        }
    }

    /// Adds a row of a visitor with credited events.
    pub(crate) fn push_at(&mut self, visitor_hash: u64, location: RowLocation, row: Row) {
        self.ordered.push((visitor_hash, location, row));
    }

    /// Returns the memory for the rows and visitors while they are counted, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ordered = size_of_val(&*self.ordered) as u64 + self.ordered.len() as u64 * ROW_BYTES;
        self.rows.len() as u64 * ROW_BYTES + self.runs.len() as u64 * RUN_BYTES + ordered
    }

    /// Adds the rows of a part of the visitors, and the events of `user_hashes` that are credited to the part.
    fn add_file(
        &mut self,
        file: &mut FileParts<'_>,
        part: Part,
        user_hashes: &[u64],
        pass: &ScanPass<'_>,
        summary: &mut ScanSummary,
    ) -> Result<(), ScanError> {
        pass.limits.check_time()?;
        let columns = file.file.opened()?;
        let mut hashes = None;
        if part.is_first() {
            hashes = Some(file.read_first_part(&columns, &pass.plan.site.site, part.count)?);
            summary.rows += columns.rows() as u64;
            summary.other[TextColumn::Site as usize] += columns.rows_of_other_sites(&pass.plan.range)?;
        }
        if file.site.is_none() {
            return Ok(());
        }
        let visitors = file.visitors(part);
        let hashes = hashes.map_or_else(|| columns.some_visitors(&visitors), Ok)?;
        let file_part = match part.count {
            1 => FilePart::WHOLE,
            _ => columns.part_of_visitors(&visitors, !part.is_first())?,
        };
        let are_read = vec![true; hashes.len()];
        let visitors = FileVisitors { start: visitors.start, hashes, are_read };
        self.add_rows(file, PartOfFile { columns: &columns, part: &file_part }, visitors, pass, summary)?;
        if user_hashes.is_empty() {
            return Ok(());
        }
        // The rows and the texts `(other)` of these users are counted with their own part.
        let rows = summary.rows;
        let other = summary.other;
        let added = self.add_visitors(file, user_hashes, pass, summary);
        summary.rows = rows;
        summary.other = other;
        added
    }

    /// Adds the rows of the visitors with these hashes. The hashes are sorted.
    fn add_visitors(
        &mut self,
        file: &mut FileParts<'_>,
        read_hashes: &[u64],
        pass: &ScanPass<'_>,
        summary: &mut ScanSummary,
    ) -> Result<(), ScanError> {
        let columns = file.file.opened()?;
        let hashes = file.find_visitors(&columns, &pass.plan.site.site)?;
        let indices = read_hashes.iter().filter_map(|hash| hashes.binary_search(hash).ok());
        let indices: Vec<usize> = indices.collect();
        if indices.is_empty() {
            return Ok(());
        }
        let mut are_read = vec![false; hashes.len()];
        indices.iter().for_each(|visitor| are_read[*visitor] = true);
        let file_part = columns.part_of_some(&indices)?;
        let visitors = FileVisitors { start: 0, hashes, are_read };
        self.add_rows(file, PartOfFile { columns: &columns, part: &file_part }, visitors, pass, summary)
    }

    fn add_rows(
        &mut self,
        file: &FileParts<'_>,
        part: PartOfFile<'_>,
        visitors: FileVisitors,
        pass: &ScanPass<'_>,
        summary: &mut ScanSummary,
    ) -> Result<(), ScanError> {
        let Some(site) = file.site else { return Ok(()) };
        let plan = pass.plan;
        let mut reader = FileReader::new(part, site.codes, plan, &mut summary.values)?;
        if !pass.credits.are_empty() {
            reader.open_positions(part)?;
        }
        if plan.needs_goals() {
            reader.open_goals(part, &mut summary.currencies)?;
        }
        while reader.next_block()? {
            pass.limits.check_time()?;
            for row in 0..reader.len() {
                let index = reader.visitor(row).and_then(|index| index.checked_sub(visitors.start));
                let Some(visitor) = index else { continue };
                // The row belongs to another visitor or to another site.
                if visitors.are_read.get(visitor) != Some(&true) || reader.site(row) != site.code {
                    continue;
                }
                let event = reader.read_row(row, plan, &mut summary.other);
                let event = event.and_then(|event| reader.with_number(row, event, &mut summary.values));
                if let Some(event) = event {
                    let event = reader.with_goals(row, event, plan, &mut summary.hits);
                    let location = RowLocation { file: file.number, position: reader.position(row) };
                    self.push_credited(visitors.hashes[visitor], event, location, pass);
                }
            }
        }
        Ok(())
    }

    /// Passes the rows of each visitor to `take_visitor`.
    ///
    /// # Errors
    /// Returns an error if the time is over.
    pub(crate) fn each_visitor(
        &mut self,
        limits: &Limits<'_>,
        take_visitor: TakeVisitor<'_>,
    ) -> Result<(), ScanError> {
        // The runs of each file are already sorted. A stable sort merges the runs, and keeps the order of the files for
        // each visitor.
        self.runs.sort_by_key(|run| run.visitor);
        let mut rows = Vec::new();
        let mut unchecked_rows = 0;
        for runs in self.runs.chunk_by(|a, b| a.visitor == b.visitor) {
            rows.clear();
            let spans = runs.iter().map(|run| &self.rows[run.start as usize..run.end as usize]);
            for chunk in spans.flat_map(|span| span.chunks(BLOCK_ROWS)) {
                rows.extend_from_slice(chunk);
                unchecked_rows += chunk.len();
                if unchecked_rows >= BLOCK_ROWS {
                    unchecked_rows = 0;
                    limits.check_time()?;
                }
            }
            // The sort is stable. So rows with equal times keep the order of their seqs.
            if !rows.is_sorted_by_key(|row| row.time_ms()) {
                rows.sort_by_key(|row| row.time_ms());
            }
            take_visitor(runs[0].visitor, &rows);
        }
        Ok(())
    }
}
