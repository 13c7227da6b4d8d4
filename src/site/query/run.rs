//! The execution of a content query: parameter values in, the items of one page in order out.
//!
//! `compile` executes embedded queries with it and requests execute the others, so both find the same items.
//! The index answers the part of a condition that it covers. The residual condition is evaluated item by
//! item, at most [`QUERY_EVALUATIONS_MAX`] times, over the shortest candidate set: a list of the index or a
//! range of a column. The buffers are reused, and nothing allocates.

use rkyv::rend::{u16_le, u32_le};

use super::super::snapshot::format::{ArchivedColumn, ArchivedIndex, ArchivedQuery, ArchivedScan};
use super::super::snapshot::hash_index;
use super::order::number_key;
use super::params::ParamValues;
use crate::condition::program::ArchivedProgram;
use crate::condition::{Document, Evaluator, Memo, NoAudiences, Patterns, Value, encode_scalar};
use crate::limits::{
    HEAD_BYTES_MAX, ITEMS_MAX, QUERY_EVALUATIONS_MAX, QUERY_LIMIT_MAX, QUERY_PAGE_BYTES_MAX,
    SORT_KEY_BYTES_MAX,
};
use crate::site::query::cursor;

/// The state of one query execution and its result. It is reused for the next one.
#[derive(Debug)]
pub(crate) struct QueryRunner {
    /// Positions of the items of this page, in order.
    pub positions: Vec<u32>,
    /// Number of matching items on all pages.
    pub total: usize,
    /// True if more items follow this page.
    pub has_more: bool,
    /// Identifies the query and the values of its parameters.
    signature: Vec<u8>,
    /// A value as it is encoded in the index and the columns.
    key: Vec<u8>,
    /// A bit for each position to evaluate. Used if the candidates are not in the query's order.
    marks: Vec<u64>,
    /// The sort key in the request's cursor.
    cursor_key: Vec<u8>,
}

/// The query needs more evaluations than one response may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvaluationLimitError {
    /// Number of items that the query would evaluate.
    pub evaluations: usize,
}

/// Returns the most items that a response may have to evaluate one by one if no column range reduces them.
pub(crate) fn evaluations_max(query: &ArchivedQuery) -> usize {
    let longest = query.index.lists.iter().map(|list| list.len()).max().unwrap_or(0);
    if query.scan.is_some() { longest } else { 0 }
}

/// The position and the size of a page.
#[derive(Debug, Clone, Copy)]
struct Page {
    /// The first position after the cursor.
    from: usize,
    /// At most 100.
    limit: usize,
}

impl QueryRunner {
    /// Creates buffers that are large enough for nearly any query.
    pub(crate) fn new() -> Self {
        Self {
            positions: Vec::with_capacity(QUERY_LIMIT_MAX),
            total: 0,
            has_more: false,
            signature: Vec::with_capacity(HEAD_BYTES_MAX),
            key: Vec::with_capacity(HEAD_BYTES_MAX),
            marks: Vec::with_capacity(ITEMS_MAX / u64::BITS as usize),
            cursor_key: Vec::with_capacity(SORT_KEY_BYTES_MAX),
        }
    }

    /// Sets the query to execute, its site and the values of its parameters.
    pub(crate) fn set_query(&mut self, site: &str, query: &ArchivedQuery, values: &ParamValues<'_>) {
        self.signature.clear();
        self.cursor_key.clear();
        for text in [site, &query.key, &query.order] {
            self.signature.extend_from_slice(text.as_bytes());
            self.signature.push(0);
        }
        for value in &values[..query.params.len()] {
            match value {
                None => self.signature.push(u8::MAX),
                Some(value) => encode_scalar(*value, &mut self.signature),
            }
        }
    }

    /// Returns bytes that identify this execution: the query with its values, and the position of the page.
    pub(crate) fn signature(&self) -> (&[u8], &[u8]) {
        (&self.signature, &self.cursor_key)
    }

    /// Sets the position at which a cursor continues. Returns false if the cursor belongs to another query or
    /// to other values.
    pub(crate) fn resume_at(&mut self, cursor_text: &str) -> bool {
        let check = cursor::decode(cursor_text, SORT_KEY_BYTES_MAX, &mut self.cursor_key);
        let genuine = check == Some(self.cursor_checksum(&self.cursor_key));
        if !genuine {
            self.cursor_key.clear();
        }
        genuine
    }

    fn cursor_checksum(&self, position: &[u8]) -> u64 {
        cursor::checksum_of([&self.signature[..], position])
    }

    /// Finds the items of the page after the cursor, or of the first page.
    ///
    /// # Errors
    /// The query needs too many evaluations.
    pub(crate) fn run(
        &mut self,
        query: &ArchivedQuery,
        values: &ParamValues<'_>,
        limit: usize,
        patterns: &Patterns,
    ) -> Result<(), EvaluationLimitError> {
        self.positions.clear();
        self.total = 0;
        self.has_more = false;
        let from = match &self.cursor_key[..] {
            [] => 0,
            place => query.items.partition_point(|item| item.sort_key[..] <= *place),
        };
        let page = Page { from, limit };
        let list = self.lookup(&query.index, values);
        let given = |param: &u16_le| values[usize::from(param.to_native())].is_some();
        let is_open =
            |scan: &&ArchivedScan| scan.params.as_ref().is_none_or(|params| params.iter().any(given));
        match query.scan.as_ref().filter(is_open) {
            None => {
                self.take_list(list, page);
                Ok(())
            }
            Some(scan) => self.scan(query, scan, list, values, page, patterns),
        }
    }

    /// Ends the page before the item with which it exceeds `QUERY_PAGE_BYTES_MAX`. The first item always stays.
    /// `item_bytes` returns the size of the item at a position.
    pub(crate) fn limit_page_bytes(&mut self, item_bytes: impl Fn(u32) -> usize) {
        let mut bytes = 0;
        let mut is_too_much = |at| {
            bytes += item_bytes(at) + 1;
            bytes > QUERY_PAGE_BYTES_MAX
        };
        let mut found = self.positions.iter().enumerate();
        if let Some((fits, _)) = found.find(|(i, at)| is_too_much(**at) && *i > 0) {
            self.positions.truncate(fits);
            self.has_more = true;
        }
    }

    /// Appends the cursor for the next page in quotes, or null if there is none.
    pub(crate) fn write_cursor(&self, query: &ArchivedQuery, out: &mut Vec<u8>) {
        match self.positions.last() {
            Some(last) if self.has_more => {
                let place = &query.items[*last as usize].sort_key;
                out.push(b'"');
                cursor::encode(self.cursor_checksum(place), place, out);
                out.push(b'"');
            }
            _ => out.extend_from_slice(b"null"),
        }
    }

    /// Returns the positions that the index has for these values.
    fn lookup<'q>(&mut self, index: &'q ArchivedIndex, values: &ParamValues<'_>) -> &'q [u32_le] {
        let mut key = 0;
        for indexed in index.params.iter() {
            let base = indexed.values.len() as u64 + 2;
            let digit = match values[usize::from(indexed.param.to_native())] {
                None => 0,
                Some(value) => {
                    self.key.clear();
                    encode_scalar(value, &mut self.key);
                    let is = |at: usize| indexed.values[at][..] == self.key[..];
                    hash_index::find(&indexed.slots, &self.key, is).map_or(1, |at| u64::from(at) + 2)
                }
            };
            key = key * base + digit;
        }
        match index.keys.binary_search_by(|known| known.to_native().cmp(&key)) {
            Ok(at) => &index.lists[at],
            Err(_) => &[],
        }
    }

    fn take_list(&mut self, found_positions: &[u32_le], page: Page) {
        self.total = found_positions.len();
        let rest =
            &found_positions[found_positions.partition_point(|at| (at.to_native() as usize) < page.from)..];
        self.positions.extend(rest.iter().take(page.limit).map(|at| at.to_native()));
        self.has_more = rest.len() > page.limit;
    }

    fn scan(
        &mut self,
        query: &ArchivedQuery,
        scan: &ArchivedScan,
        found_positions: &[u32_le],
        values: &ParamValues<'_>,
        page: Page,
        patterns: &Patterns,
    ) -> Result<(), EvaluationLimitError> {
        let ranges = scan.columns.iter().enumerate().filter_map(|(at, column)| {
            Some((self.column_range(scan, at as u16, column, values)?, &column.always[..]))
        });
        let shortest = ranges.min_by_key(|(range, always)| range.len() + always.len());
        let shortest = shortest.filter(|(range, always)| range.len() + always.len() < found_positions.len());
        let evaluations =
            shortest.map_or(found_positions.len(), |(range, always)| range.len() + always.len());
        if evaluations > QUERY_EVALUATIONS_MAX {
            return Err(EvaluationLimitError { evaluations });
        }
        let program = if shortest.is_some() { &scan.program } else { &scan.residual };
        let params = &values[..query.params.len()];
        let mut matching = ItemMatcher { query, program, params, patterns, memo: Memo::default() };
        let mut look_at = |at: u32| {
            if !matching.matches(at) {
                return;
            }
            self.total += 1;
            match at as usize >= page.from {
                true if self.positions.len() < page.limit => self.positions.push(at),
                behind => self.has_more |= behind,
            }
        };
        let Some((range, always)) = shortest else {
            found_positions.iter().for_each(|at| look_at(at.to_native()));
            return Ok(());
        };
        // Evaluate the candidates in the query's order, which is also their order in memory.
        self.marks.clear();
        self.marks.resize(query.items.len().div_ceil(u64::BITS as usize), 0);
        for at in range.iter().chain(always).map(|at| at.to_native()) {
            self.marks[at as usize / 64] |= 1 << (at % 64);
        }
        for (word, marks) in self.marks.iter().enumerate() {
            let mut marks = *marks;
            while marks != 0 {
                look_at(word as u32 * 64 + marks.trailing_zeros());
                marks &= marks - 1;
            }
        }
        Ok(())
    }

    /// Returns the positions in a column that satisfy its bounds. Bounds are inclusive. Returns `None` if no
    /// bound has a value: then items without a value in the column match as well.
    fn column_range<'q>(
        &mut self,
        scan: &ArchivedScan,
        column_index: u16,
        column: &'q ArchivedColumn,
        values: &ParamValues<'_>,
    ) -> Option<&'q [u32_le]> {
        let mut from = 0;
        let mut to = column.keys.len();
        let mut is_bounded = false;
        for bound in scan.bounds.iter().filter(|bound| bound.column == column_index) {
            self.key.clear();
            match values[usize::from(bound.param.to_native())] {
                Some(Value::Number(value)) => self.key.extend(number_key(value)),
                Some(Value::String(value)) => self.key.extend(value.as_bytes()),
                _ => continue,
            }
            is_bounded = true;
            match bound.is_lower {
                true => from = from.max(column.keys.partition_point(|key| key[..] < self.key[..])),
                false => to = to.min(column.keys.partition_point(|key| key[..] <= self.key[..])),
            }
        }
        is_bounded.then(|| column.positions.get(from..to).unwrap_or_default())
    }
}

struct ItemMatcher<'s> {
    query: &'s ArchivedQuery,
    program: &'s ArchivedProgram,
    params: &'s [Option<Value<'s>>],
    patterns: &'s Patterns,
    /// Conditions on content refer to no audience.
    memo: Memo,
}

impl ItemMatcher<'_> {
    fn matches(&mut self, position: u32) -> bool {
        let document = ItemDocument(&self.query.items[position as usize].fields);
        let Self { program, patterns, params, memo, .. } = self;
        Evaluator { document: &document, audiences: &NoAudiences, patterns, params, memo }.holds(program)
    }
}

/// An item as the document that the scan's program reads.
struct ItemDocument<'a>(&'a [u8]);

impl Document for ItemDocument<'_> {
    fn get(&self, code: u16, _: &str) -> Option<Value<'_>> {
        let slot = self.0.get(4 * usize::from(code)..)?.first_chunk()?;
        match u32::from_le_bytes(*slot) {
            0 => None,
            at => Value::decode(self.0.get(at as usize..)?),
        }
    }

    fn count(&self, _: u16, _: &str, _: Option<i64>) -> u64 {
        0
    }

    fn now_ms(&self) -> i64 {
        0
    }
}
