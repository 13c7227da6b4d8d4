//! The scan: reads the rows of a site from column files and passes them to a question, visitor by visitor.
//!
//! Every number of Insights is a sum over visitors, or a count of visitors. So the visitors are divided into as many
//! parts as the memory limit demands, by their hashes. Each part is read, grouped and counted alone, and the results
//! are exact.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::columns::Columns;
use super::format::{ColumnFileError, TextColumn};
use super::question::QuestionError;
use super::rows::{FileReader, Plan, Row, Values};

/// Memory of a row while its part is counted: the row, and its place in the order of visitors.
const ROW_BYTES: u64 = 16 + 4;
/// Memory of a visitor: two entries of tables, and the place of its rows.
const VISITOR_BYTES: u64 = 40;

/// The limits of an answer.
pub struct Limits<'l> {
    /// Memory for the events that are counted. Beyond it the visitors are counted in several passes.
    pub memory_bytes: u64,
    /// Returns true when the time of the question is over.
    pub is_over: &'l dyn Fn() -> bool,
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

/// A hasher of hashes.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type VisitorNumbers = HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>;

/// Passes the rows of each visitor to `count`, in the order of their times, then of their seqs.
///
/// # Errors
/// A file is damaged, or the time is over.
pub(crate) fn scan(
    files: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    count: &mut dyn FnMut(&[Row]),
) -> Result<ScanSummary, ScanError> {
    let mut summary = ScanSummary::default();
    let met: Vec<&Columns> = files.iter().copied().filter(|file| meets(file, &plan.window)).collect();
    let parts = parts_of(&met, limits);
    let mut gathered = Gathered::default();
    for part in 0..parts {
        gathered.clear();
        for file in &met {
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            gathered.add_file(file, plan, (part, parts), &mut summary)?;
        }
        gathered.each_visitor(limits, count)?;
    }
    Ok(summary)
}

/// Returns the number of parts into which the visitors of files are divided.
pub(super) fn parts_of(files: &[&Columns], limits: &Limits<'_>) -> u64 {
    let needed: u64 = files.iter().map(|file| memory_bytes(file)).sum();
    needed.div_ceil(limits.memory_bytes.max(1)).max(1)
}

/// Returns the memory that the rows and visitors of a file take.
fn memory_bytes(file: &Columns) -> u64 {
    u64::from(file.header().rows) * ROW_BYTES + u64::from(file.header().visitors) * VISITOR_BYTES
}

fn meets(file: &Columns, window: &Range<i64>) -> bool {
    let header = file.header();
    header.rows > 0 && header.oldest_ms < window.end && header.newest_ms >= window.start
}

/// The rows of one part of the visitors.
#[derive(Default)]
pub(super) struct Gathered {
    rows: Vec<Row>,
    numbers: VisitorNumbers,
}

impl Gathered {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.numbers.clear();
    }

    /// Adds a row of the visitor with this hash.
    pub(super) fn push(&mut self, visitor: u64, value: u32, time_ms: i64, flags: u16) {
        let number = number_of(&mut self.numbers, visitor);
        self.rows.push(Row::new(number, value, time_ms, flags));
    }

    /// Returns the memory of the rows and visitors while they are counted.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.rows.len() as u64 * ROW_BYTES + self.numbers.len() as u64 * VISITOR_BYTES
    }

    fn add_file(
        &mut self,
        file: &Columns,
        plan: &Plan<'_>,
        (part, parts): (u64, u64),
        summary: &mut ScanSummary,
    ) -> Result<(), ColumnFileError> {
        let sites = file.texts(TextColumn::Site)?;
        let Some(site) = sites.iter().skip(2).position(|site| *site == plan.site.site) else { return Ok(()) };
        let site = site as i64 + 2;
        let hashes = file.visitors()?;
        let mut visitors = vec![UNSEEN; hashes.len()];
        let mut reader = FileReader::new(file, plan, &mut summary.values)?;
        while reader.next_block()? {
            for row in 0..reader.len() {
                let Some(visitor) = reader.visitor(row).filter(|_| reader.site(row) == site) else {
                    continue;
                };
                let number = &mut visitors[visitor];
                if *number == UNSEEN {
                    *number = match part_of(hashes[visitor], parts) == part {
                        true => number_of(&mut self.numbers, hashes[visitor]),
                        false => ELSEWHERE,
                    };
                }
                if *number != ELSEWHERE
                    && let Some(row) = reader.read_row(row, *number, plan, &mut summary.other)
                {
                    self.rows.push(row);
                }
            }
        }
        if part == 0 {
            summary.rows += file.rows() as u64;
        }
        Ok(())
    }

    /// Passes the rows of each visitor to `count`.
    pub(super) fn each_visitor(
        &self,
        limits: &Limits<'_>,
        count: &mut dyn FnMut(&[Row]),
    ) -> Result<(), ScanError> {
        let mut starts = vec![0_u32; self.numbers.len() + 1];
        self.rows.iter().for_each(|row| starts[row.visitor as usize + 1] += 1);
        for visitor in 1..starts.len() {
            starts[visitor] += starts[visitor - 1];
        }
        let (mut order, mut ends) = (vec![0_u32; self.rows.len()], starts.clone());
        for (at, row) in self.rows.iter().enumerate() {
            let end = &mut ends[row.visitor as usize];
            order[*end as usize] = at as u32;
            *end += 1;
        }
        let mut rows = Vec::new();
        for (visitor, span) in starts.windows(2).enumerate() {
            if visitor % VISITORS_PER_LOOK == 0 && (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            rows.clear();
            rows.extend(order[span[0] as usize..span[1] as usize].iter().map(|at| self.rows[*at as usize]));
            // Equal times keep the order of their seqs.
            if !rows.is_sorted_by_key(|row| row.time_ms()) {
                rows.sort_by_key(|row| row.time_ms());
            }
            if !rows.is_empty() {
                count(&rows);
            }
        }
        Ok(())
    }
}

/// Visitors between two looks at the clock: about a millisecond of work.
const VISITORS_PER_LOOK: usize = 4_096;
const UNSEEN: u32 = u32::MAX;
const ELSEWHERE: u32 = u32::MAX - 1;

pub(super) fn part_of(hash: u64, parts: u64) -> u64 {
    ((u128::from(hash) * u128::from(parts)) >> 64) as u64
}

fn number_of(numbers: &mut VisitorNumbers, hash: u64) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(hash).or_insert(next)
}
