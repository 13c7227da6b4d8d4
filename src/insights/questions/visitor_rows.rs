//! The rows of a scan, grouped by visitor.

use super::limits::{Limits, ScanError};
use super::row::Row;
use crate::insights::columns::packing::BLOCK_ROWS;

/// Memory of a row while the part of its visitor is counted, in bytes. It includes the position of the row.
pub(super) const ROW_BYTES: u64 = (size_of::<Row>() + size_of::<u32>()) as u64;
/// Memory of a run, in bytes. It includes the share of the run in the buffer that sorts the runs.
pub(super) const RUN_BYTES: u64 = size_of::<Run>() as u64 * 3 / 2;

/// A function that takes the hash and the rows of one visitor. The rows are in the order of their times. Rows with
/// equal times are in the order of their seqs.
pub(crate) type TakeVisitor<'t> = &'t mut dyn FnMut(u64, &[Row]);

/// Consecutive rows of one visitor and one file, in the order of their times and positions. The rows of a file are sorted by
/// visitor. So a visitor has one run for each file, and further runs if the events of a user are credited to the visitor.
#[derive(Debug, Clone, Copy)]
struct Run {
    visitor: u64,
    start: u32,
    end: u32,
}

/// Rows, grouped by visitor.
#[derive(Debug, Default)]
pub(crate) struct VisitorRows {
    rows: Vec<Row>,
    /// For each row, its position among the rows of its file in the order of their seqs. Empty if no event is credited to
    /// another visitor, because then the rows of a visitor in a file are one run.
    positions: Vec<u32>,
    runs: Vec<Run>,
    /// For each file, the index of its first row.
    file_starts: Vec<u32>,
}

impl VisitorRows {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.positions.clear();
        self.runs.clear();
        self.file_starts.clear();
    }

    pub(super) fn reserve(&mut self, row_count: usize) {
        self.rows.reserve(row_count);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Begins a file. The following rows are rows of this file.
    pub(crate) fn begin_file(&mut self) {
        self.file_starts.push(self.rows.len() as u32);
    }

    /// Adds a row of a visitor with this hash. If events are credited to other visitors, each row has its position.
    pub(crate) fn push(&mut self, visitor_hash: u64, row: Row, position: Option<u32>) {
        let index = self.rows.len() as u32;
        let Self { rows, positions, runs, file_starts } = self;
        match runs.last_mut() {
            Some(run)
                if run.visitor == visitor_hash
                    && file_starts.last() != Some(&index)
                    && position.is_none_or(|position| {
                        let last = run.end as usize - 1;
                        (rows[last].time_ms(), positions[last]) <= (row.time_ms(), position)
                    }) =>
            {
                run.end += 1;
            }
            _ => runs.push(Run { visitor: visitor_hash, start: index, end: index + 1 }),
        }
        rows.push(row);
        positions.extend(position);
    }

    /// Returns the memory for the rows and visitors while they are counted, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.rows.len() as u64 * ROW_BYTES + self.runs.len() as u64 * RUN_BYTES
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
        let mut merged = Vec::new();
        let mut unchecked_rows = 0;
        for runs in self.runs.chunk_by(|a, b| a.visitor == b.visitor) {
            let rows = self.ordered(runs, &mut merged);
            unchecked_rows += rows.len();
            if unchecked_rows >= BLOCK_ROWS {
                unchecked_rows = 0;
                limits.check_time()?;
            }
            take_visitor(runs[0].visitor, rows);
        }
        Ok(())
    }

    /// Returns the rows of the runs of one visitor, in the order of their times and seqs. Uses `merged` as a buffer.
    fn ordered<'r>(&'r self, runs: &[Run], merged: &'r mut Vec<Row>) -> &'r [Row] {
        if let [run] = runs
            && self.rows_of(run).is_sorted_by_key(|row| row.time_ms())
        {
            return self.rows_of(run);
        }
        merged.clear();
        for runs in runs.chunk_by(|a, b| self.file_of(a) == self.file_of(b)) {
            match runs {
                [run] => merged.extend_from_slice(self.rows_of(run)),
                runs => merged.extend(self.rows_of_file(runs)),
            }
        }
        // The sort is stable. So rows with equal times keep the order of their seqs.
        if !merged.is_sorted_by_key(|row| row.time_ms()) {
            merged.sort_by_key(|row| row.time_ms());
        }
        merged
    }

    fn rows_of(&self, run: &Run) -> &[Row] {
        &self.rows[run.start as usize..run.end as usize]
    }

    fn file_of(&self, run: &Run) -> usize {
        self.file_starts.partition_point(|start| *start <= run.start)
    }

    /// Returns the rows of some runs of one file, in the order of their times and positions. Each run has this order already.
    fn rows_of_file(&self, runs: &[Run]) -> impl Iterator<Item = Row> {
        let mut indexes: Vec<_> = runs.iter().flat_map(|run| run.start as usize..run.end as usize).collect();
        indexes.sort_by_key(|index| (self.rows[*index].time_ms(), self.positions.get(*index)));
        indexes.into_iter().map(|index| self.rows[index])
    }
}
