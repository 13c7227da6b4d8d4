//! The scan. It reads the rows of a site from column files. Then it passes the rows of one visitor after the other to a
//! question.
//!
//! Each number of Insights is a sum over visitors, or a count of visitors. So the scan divides the visitors into parts
//! by their hashes. A smaller memory limit gives more parts. The scan reads and counts one part after the other. The
//! sums over all parts are exact.

use std::ops::Range;

use super::blocks::PartOfFile;
use super::credits::{Credit, Credits, RowLocation, ScannedFiles, VisitorSet, owner_at};
use super::goals::{ConversionHits, Currencies};
use super::limits::{Limits, ROWS_SHARE, ScanError, VALUES_SHARE};
use super::part::Part;
use super::plan::Plan;
use super::row::Row;
use super::row_reader::FileReader;
use super::values::Values;
use super::visitor_rows::{ROW_BYTES, RUN_BYTES, TakeVisitor, VisitorRows};
use crate::insights::columns::format::{CODE_FIRST, ColumnFileError, TextColumn};
use crate::insights::columns::reader::{Columns, FilePart};

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
    let mut credits_in_parts = files.credits_in_parts(plan, limits, part_count)?;
    let part_count = credits_in_parts.part_count;
    let mut visitor_rows = VisitorRows::default();
    let row_count: u64 = file_parts.iter().map(|file| u64::from(file.file.header().rows)).sum();
    for part in Part::all(part_count) {
        visitor_rows.clear();
        summary.hits.clear();
        let visitors = VisitorSet::Part(part);
        let credits = credits_in_parts.of_part(part, files, plan, limits)?;
        let users = credits.users_of_others(visitors);
        let pass = ScanPass { plan, limits, credits, visitors };
        // A vector that grows needs up to three times its memory while it copies its entries.
        visitor_rows.reserve(row_count.div_ceil(part_count) as usize);
        for file in &mut file_parts {
            visitor_rows.begin_file();
            visitor_rows.add_file(file, part, &users, &pass, summary)?;
            if summary.values.exceed(limits.memory_bytes / VALUES_SHARE) {
                return Err(ScanError::TooManyValues);
            }
        }
        visitor_rows.each_visitor(limits, &mut |visitor, rows| take_visitor(visitor, rows, summary))?;
    }
    Ok(())
}

/// Visitors whose rows are read again.
pub(crate) struct VisitorsAgain<'v> {
    /// The hashes of the visitors, in ascending order.
    pub hashes: &'v [u64],
    /// Maximum number of their rows.
    pub rows_max: usize,
    /// True if an earlier scan has read the same files with the same plan. Then their sections are checked.
    pub are_files_checked: bool,
}

/// Passes the rows of some visitors to `take_visitor`. Adds only the values and the conversions to `summary`, because an
/// earlier scan has counted the rows and the texts `(other)`. Returns false, without any call of `take_visitor`, if there are
/// too many rows, or if the credits do not fit in the memory.
///
/// # Errors
/// Returns the same errors as [`scan`].
pub(crate) fn scan_visitors(
    columns: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    again: &VisitorsAgain<'_>,
    summary: &mut ScanSummary,
    take_visitor: &mut dyn FnMut(u64, &[Row], &ScanSummary),
) -> Result<bool, ScanError> {
    let VisitorsAgain { hashes, rows_max, are_files_checked } = *again;
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
    let rows = summary.rows;
    let other = summary.other;
    summary.hits.clear();
    for file in &mut files_in_window(files, plan) {
        visitor_rows.begin_file();
        visitor_rows.add_visitors(file, &read_hashes, are_files_checked, &pass, summary)?;
        if visitor_rows.len() > rows_max {
            break;
        }
    }
    summary.rows = rows;
    summary.other = other;
    if visitor_rows.len() > rows_max {
        return Ok(false);
    }
    visitor_rows.each_visitor(limits, &mut |visitor, rows| take_visitor(visitor, rows, summary))?;
    Ok(true)
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
    let counts = |file: &Columns| plan.end_row.is_none_or(|end_row| file.header().first_seq < end_row);
    let in_window = numbered.filter(|(_, file)| file.may_have_rows_in(&plan.window) && counts(file));
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

/// Consecutive visitors of a file, with a flag for each visitor whose rows are read.
struct FileVisitors {
    /// The index of the first visitor.
    start: usize,
    hashes: Vec<u64>,
    /// For each visitor, true if its rows are read.
    are_read: Vec<bool>,
}

/// The visitor to whom the rows of one visitor of a file belong. Consecutive rows have the same visitor, so it is found once
/// for all of them.
struct RowOwner<'c> {
    /// The index of the visitor in the file.
    visitor: usize,
    hash: u64,
    /// True if the rows of the visitor are read.
    is_read: bool,
    /// The credits of the visitor. Empty unless it is a user whose events are credited to other visitors.
    credits: &'c [Credit],
}

impl<'c> RowOwner<'c> {
    /// No visitor has this index.
    const NONE: Self = Self { visitor: usize::MAX, hash: 0, is_read: false, credits: &[] };

    fn new(visitor: usize, visitors: &FileVisitors, credits: &'c Credits) -> Self {
        let index =
            visitor.checked_sub(visitors.start).filter(|index| visitors.are_read.get(*index) == Some(&true));
        let Some(index) = index else { return Self { visitor, ..Self::NONE } };
        let hash = visitors.hashes[index];
        Self { visitor, hash, is_read: true, credits: credits.of_user(hash) }
    }

    /// Returns the visitor to whom an event is credited. `None` if it is not in `counted_visitors`.
    fn of_event(&self, location: RowLocation, counted_visitors: VisitorSet<'_>) -> Option<u64> {
        if self.credits.is_empty() {
            return Some(self.hash);
        }
        Some(owner_at(self.credits, location).unwrap_or(self.hash))
            .filter(|owner| counted_visitors.has(*owner))
    }
}

impl VisitorRows {
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
            summary.other[TextColumn::Site.index()] += columns.rows_of_other_sites(&pass.plan.range)?;
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
        let added = self.add_visitors(file, user_hashes, true, pass, summary);
        summary.rows = rows;
        summary.other = other;
        added
    }

    /// Adds the rows of the visitors with these hashes. The hashes are sorted. `is_checked` is true if all sections of the file
    /// are checked.
    fn add_visitors(
        &mut self,
        file: &mut FileParts<'_>,
        read_hashes: &[u64],
        is_checked: bool,
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
        let file_part = columns.part_of_some(&indices, is_checked)?;
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
        if !pass.credits.are_empty() || plan.locates || plan.end_row.is_some() {
            reader.open_positions(part)?;
        }
        if plan.needs_goals() {
            reader.open_goals(part, &mut summary.currencies)?;
        }
        let has_credits = !pass.credits.are_empty();
        let mut owner = RowOwner::NONE;
        while reader.next_block()? {
            pass.limits.check_time()?;
            for row in 0..reader.len() {
                let Some(visitor) = reader.visitor(row) else { continue };
                if owner.visitor != visitor {
                    owner = RowOwner::new(visitor, &visitors, pass.credits);
                }
                // The row belongs to another visitor or to another site.
                if !owner.is_read || reader.site(row) != site.code {
                    continue;
                }
                let location = RowLocation { file: file.number, position: reader.position(row) };
                if plan.end_row.is_some_and(|end| part.columns.row_number(location.position) >= end) {
                    continue;
                }
                let event = reader.read_row(row, plan, &mut summary.other);
                let event = event.and_then(|event| reader.with_number(row, event, &mut summary.values));
                let Some(event) = event else { continue };
                let event = reader.with_goals(row, event, plan, &mut summary.hits);
                let event = if plan.locates { location.of_row(event) } else { event };
                if let Some(owner) = owner.of_event(location, pass.visitors) {
                    self.push(owner, event, has_credits.then_some(location.position));
                }
            }
        }
        Ok(())
    }
}
