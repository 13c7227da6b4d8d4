//! Reads the values of the dimensions by which a result is divided.

use std::ops::Range;
use std::sync::Arc;

use crate::insights::columns::format::{ColumnFileError, TextColumn};
use crate::insights::columns::reader::Columns;
use crate::insights::questions::blocks::PartOfFile;
use crate::insights::questions::limits::{Limits, ScanError, VALUES_SHARE};
use crate::insights::questions::plan::{Plan, RowValue};
use crate::insights::questions::question::{Filters, Group};
use crate::insights::questions::row::Row;
use crate::insights::questions::row_reader::FileReader;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::{NO_VALUE, Values};
use crate::site::experiment_metrics::Dimension;

/// The row has the values of an exposure. The value of the row is an index into [`PartSegments::exposures`].
pub(super) const SEGMENTED: u16 = 1 << 14;

/// The values of the dimension [`Dimension::New`], for a visitor without an earlier event and for any other one.
const NEW_VALUES: [&str; 2] = ["new", "returning"];
/// Minimum memory for the values of a dimension, in bytes. They can always take this memory, even if the memory of Insights is small.
const VALUES_BYTES_MIN: u64 = 1 << 20;

static NO_FILTERS: Filters = Filters::NONE;

/// The values of the exposures of one part of the visitors.
#[derive(Debug, Default)]
pub(super) struct PartSegments {
    dimensions: Vec<Dimension>,
    /// The values of each dimension. They have the same numbers in all parts.
    values: Vec<Values>,
    /// For each exposure, the number of its value of each dimension.
    exposures: Vec<Box<[u32]>>,
}

impl PartSegments {
    pub(super) fn new(dimensions: &[Dimension]) -> Self {
        let values = dimensions.iter().map(|dimension| {
            let mut values = Values::undivided(VALUES_BYTES_MIN);
            for text in NEW_VALUES.iter().filter(|_| *dimension == Dimension::New) {
                values.number(text);
            }
            values
        });
        Self { dimensions: dimensions.to_vec(), values: values.collect(), exposures: Vec::new() }
    }

    /// Returns the same values, without exposures.
    pub(super) fn for_next_part(self) -> Self {
        Self { exposures: Vec::new(), ..self }
    }

    /// Returns the index of a dimension. `None` if the result is not divided by it.
    pub(super) fn index_of(&self, dimension: Dimension) -> Option<usize> {
        self.dimensions.iter().position(|other| *other == dimension)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dimensions.is_empty()
    }

    /// Adds the values of an exposure.
    pub(super) fn push(&mut self, values: Box<[u32]>) {
        self.exposures.push(values);
    }

    /// Returns the index of the next exposure.
    pub(super) fn next_index(&self) -> u32 {
        self.exposures.len() as u32
    }

    /// Returns the values of a row with the flag [`SEGMENTED`].
    pub(super) fn values_at(&self, row: Row) -> &[u32] {
        &self.exposures[row.value as usize]
    }

    /// Returns the number of the value of [`Dimension::New`], which has this index.
    pub(super) fn new_value(&self, index: usize, is_new: bool) -> u32 {
        debug_assert_eq!(self.dimensions[index], Dimension::New);
        u32::from(!is_new)
    }

    /// Returns the text of a value of the dimension with this index. `None` for no value.
    pub(super) fn text(&self, index: usize, value: u32) -> Option<Arc<str>> {
        (value != NO_VALUE).then(|| Arc::clone(&self.values[index].texts[value as usize]))
    }

    /// Returns the memory of the exposures in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let exposure_bytes = size_of::<Box<[u32]>>() + self.dimensions.len() * size_of::<u32>();
        (self.exposures.len() * exposure_bytes) as u64
    }

    /// Returns an error if the values take too much memory. More parts of the visitors would not make them smaller.
    pub(super) fn check_memory(&self, limits: &Limits<'_>) -> Result<(), ScanError> {
        let are_too_large =
            self.values.iter().any(|values| values.exceed(limits.memory_bytes / VALUES_SHARE));
        if are_too_large { Err(ScanError::TooLarge) } else { Ok(()) }
    }
}

/// The columns of a file that have the values of the dimensions.
pub(super) struct FileSegments {
    /// The reader of each dimension. `None` if no column has its values.
    readers: Vec<Option<FileReader>>,
}

impl FileSegments {
    pub(super) fn open(
        file: &Columns,
        part: &mut PartSegments,
        plan: &Plan<'_>,
    ) -> Result<Self, ColumnFileError> {
        let site_code_count = file.texts(TextColumn::Site)?.len();
        let dimensions = part.dimensions.iter().zip(&mut part.values);
        let readers = dimensions.map(|(dimension, values)| {
            let reader = |group| {
                let plan =
                    Plan { value: RowValue::Of(group), ..plan_of_values(plan.site, &plan.range, plan.bots) };
                FileReader::new(PartOfFile::whole(file), site_code_count, &plan, values)
            };
            group_of(*dimension).map(reader).transpose()
        });
        Ok(Self { readers: readers.collect::<Result<_, _>>()? })
    }

    pub(super) fn next_block(&mut self) -> Result<(), ColumnFileError> {
        self.readers.iter_mut().flatten().try_for_each(|reader| reader.next_block().map(|_| ()))
    }

    /// Returns the number of the value of each dimension in a row. For each text of the row that is `(other)`, adds 1 to the entry
    /// of its column in `other_row_counts`.
    pub(super) fn values(
        &self,
        row: usize,
        plan: &Plan<'_>,
        other_row_counts: &mut [u64; TextColumn::COUNT],
    ) -> Box<[u32]> {
        (0..self.readers.len()).map(|index| self.value(index, row, plan, other_row_counts)).collect()
    }

    /// Returns the number of the value of one dimension in a row.
    pub(super) fn value(
        &self,
        index: usize,
        row: usize,
        plan: &Plan<'_>,
        other_row_counts: &mut [u64; TextColumn::COUNT],
    ) -> u32 {
        let reader = self.readers[index].as_ref();
        let event = reader.and_then(|reader| reader.read_row(row, plan, other_row_counts));
        event.map_or(NO_VALUE, |event| event.value)
    }
}

/// Returns the plan that reads the values of dimensions. It has no filters.
pub(super) fn plan_of_values<'q>(site: &'q SiteFacts, range: &Range<i64>, includes_bots: bool) -> Plan<'q> {
    Plan { window: i64::MIN..i64::MAX, ..Plan::new(site, range, includes_bots, &NO_FILTERS) }
}

fn group_of(dimension: Dimension) -> Option<Group> {
    match dimension {
        Dimension::Device => Some(Group::Device),
        Dimension::Country => Some(Group::Country),
        Dimension::Source => Some(Group::Source),
        Dimension::Language => Some(Group::Language),
        Dimension::New => None,
    }
}
