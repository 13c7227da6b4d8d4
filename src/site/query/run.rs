//! Running a content query: values of its parameters > the items of a page, in order.
//!
//! `compile` runs embedded queries by this, requests run the rest, so that both find the same. What the index knows is looked
//! up; what it leaves open is evaluated item by item, at most [`QUERY_EVALUATIONS_MAX`] times, over the shortest list or
//! range of a column that holds all that can match. The buffers are kept; nothing allocates.

use rkyv::rend::{u16_le, u32_le};

use super::super::snapshot::format::{ArchivedColumn, ArchivedIndex, ArchivedQuery, ArchivedScan};
use super::super::snapshot::hash_index;
use super::order::number_key;
use super::params::Values;
use crate::condition::{Document, Evaluator, Memo, Patterns, Value, bind, encode_scalar};
use crate::limits::{HEAD_BYTES_MAX, ITEMS_MAX, PLACE_BYTES_MAX, QUERY_EVALUATIONS_MAX, QUERY_LIMIT_MAX};
use crate::site::query::cursor;

/// A search and what it found.
#[derive(Debug)]
pub struct Search {
    /// Positions of the items of this page, in order.
    pub found: Vec<u32>,
    /// How many items match, on all pages.
    pub total: usize,
    /// Whether items follow this page.
    pub more: bool,
    /// Names the query and the values of its parameters.
    signature: Vec<u8>,
    /// The program for these values.
    program: Vec<u8>,
    /// A value, as the index and the columns have it.
    key: Vec<u8>,
    /// A bit for each position that has to be looked at, where they are not met in order.
    marks: Vec<u64>,
    /// The place in the request's cursor.
    place: Vec<u8>,
}

/// The answer would take more evaluations than one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooExpensive {
    /// Items that would have to be looked at.
    pub evaluations: usize,
}

/// Items that an answer may have to look at one by one, unless a range makes them fewer.
pub fn evaluations_max(query: &ArchivedQuery) -> usize {
    let longest = query.index.lists.iter().map(|list| list.len()).max().unwrap_or(0);
    if query.scan.is_some() { longest } else { 0 }
}

/// Which items a page may hold.
#[derive(Debug, Clone, Copy)]
struct Page {
    /// The first position behind the cursor.
    from: usize,
    /// At most 100.
    limit: usize,
}

impl Search {
    /// Room for any search.
    pub fn new() -> Self {
        Self {
            found: Vec::with_capacity(QUERY_LIMIT_MAX),
            total: 0,
            more: false,
            signature: Vec::with_capacity(HEAD_BYTES_MAX),
            // Large groups may make it longer; then it grows once.
            program: Vec::with_capacity(HEAD_BYTES_MAX),
            key: Vec::with_capacity(HEAD_BYTES_MAX),
            marks: Vec::with_capacity(ITEMS_MAX / u64::BITS as usize),
            place: Vec::with_capacity(PLACE_BYTES_MAX),
        }
    }

    /// Says which query of which site is meant, with which values.
    pub fn name(&mut self, site: &str, query: &ArchivedQuery, values: &Values<'_>) {
        self.signature.clear();
        self.place.clear();
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

    /// Bytes that tell this search from every other.
    pub fn signature(&self) -> (&[u8], &[u8]) {
        (&self.signature, &self.place)
    }

    /// Takes the place that a cursor continues at; false where the cursor is not one of the search that was named.
    pub fn continue_at(&mut self, text: &str) -> bool {
        let check = cursor::read(text, PLACE_BYTES_MAX, &mut self.place);
        let genuine = check == Some(self.check(&self.place));
        if !genuine {
            self.place.clear();
        }
        genuine
    }

    fn check(&self, place: &[u8]) -> u64 {
        cursor::check([&self.signature[..], place])
    }

    /// Finds the page behind the place that was taken, or the first one.
    ///
    /// # Errors
    /// It would take too many evaluations.
    pub fn run(
        &mut self,
        query: &ArchivedQuery,
        values: &Values<'_>,
        limit: usize,
        patterns: &Patterns,
    ) -> Result<(), TooExpensive> {
        self.found.clear();
        (self.total, self.more) = (0, false);
        let from = match &self.place[..] {
            [] => 0,
            place => query.items.partition_point(|item| item.place[..] <= *place),
        };
        let page = Page { from, limit };
        let list = self.listed(&query.index, values);
        let given = |param: &u16_le| values[usize::from(param.to_native())].is_some();
        let is_open =
            |scan: &&ArchivedScan| scan.params.as_ref().is_none_or(|params| params.iter().any(given));
        match query.scan.as_ref().filter(is_open) {
            None => {
                self.take_listed(list, page);
                Ok(())
            }
            Some(scan) => self.scan(query, scan, list, values, page, patterns),
        }
    }

    /// Ends the page before the first item, but for the very first, of which `is_too_much` holds.
    pub fn end_page(&mut self, mut is_too_much: impl FnMut(u32) -> bool) {
        let mut found = self.found.iter().enumerate();
        if let Some((fits, _)) = found.find(|(i, at)| is_too_much(**at) && *i > 0) {
            self.found.truncate(fits);
            self.more = true;
        }
    }

    /// Appends the cursor that continues behind the page that was found, in quotes, or null where nothing follows.
    pub fn write_cursor(&self, query: &ArchivedQuery, out: &mut Vec<u8>) {
        match self.found.last() {
            Some(last) if self.more => {
                let place = &query.items[*last as usize].place;
                out.push(b'"');
                cursor::write(self.check(place), place, out);
                out.push(b'"');
            }
            _ => out.extend_from_slice(b"null"),
        }
    }

    /// The positions that the index knows for these values.
    fn listed<'q>(&mut self, index: &'q ArchivedIndex, values: &Values<'_>) -> &'q [u32_le] {
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

    fn take_listed(&mut self, list: &[u32_le], page: Page) {
        self.total = list.len();
        let rest = &list[list.partition_point(|at| (at.to_native() as usize) < page.from)..];
        self.found.extend(rest.iter().take(page.limit).map(|at| at.to_native()));
        self.more = rest.len() > page.limit;
    }

    fn scan(
        &mut self,
        query: &ArchivedQuery,
        scan: &ArchivedScan,
        list: &[u32_le],
        values: &Values<'_>,
        page: Page,
        patterns: &Patterns,
    ) -> Result<(), TooExpensive> {
        let ranges = scan.columns.iter().enumerate().filter_map(|(at, column)| {
            Some((self.range(scan, at as u16, column, values)?, &column.always[..]))
        });
        let shortest = ranges.min_by_key(|(range, always)| range.len() + always.len());
        let shortest = shortest.filter(|(range, always)| range.len() + always.len() < list.len());
        let evaluations = shortest.map_or(list.len(), |(range, always)| range.len() + always.len());
        if evaluations > QUERY_EVALUATIONS_MAX {
            return Err(TooExpensive { evaluations });
        }
        let template = if shortest.is_some() { &scan.program } else { &scan.open };
        if bind(template, &values[..query.params.len()], &mut self.program).is_none() {
            return Ok(());
        }
        let mut matching = Matching { query, program: &self.program, patterns, memo: Memo::default() };
        let (found, total, more) = (&mut self.found, &mut self.total, &mut self.more);
        let mut look_at = |at: u32| {
            if !matching.holds(at) {
                return;
            }
            *total += 1;
            match at as usize >= page.from {
                true if found.len() < page.limit => found.push(at),
                behind => *more |= behind,
            }
        };
        let Some((range, always)) = shortest else {
            list.iter().for_each(|at| look_at(at.to_native()));
            return Ok(());
        };
        // In the query's order, in which items lie in memory as well.
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

    /// The positions of a column that its bounds let pass; at a bound itself they all do. None where no bound is given: items
    /// that have no place in the column match then as well.
    fn range<'q>(
        &mut self,
        scan: &ArchivedScan,
        number: u16,
        column: &'q ArchivedColumn,
        values: &Values<'_>,
    ) -> Option<&'q [u32_le]> {
        let (mut from, mut to) = (0, column.keys.len());
        let mut is_bounded = false;
        for bound in scan.bounds.iter().filter(|bound| bound.column == number) {
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

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}

struct Matching<'s> {
    query: &'s ArchivedQuery,
    program: &'s [u8],
    patterns: &'s Patterns,
    /// Content asks for no audience.
    memo: Memo,
}

impl Matching<'_> {
    fn holds(&mut self, at: u32) -> bool {
        let document = Facts(&self.query.items[at as usize].facts);
        let audiences: &[&[u8]] = &[];
        let mut evaluator =
            Evaluator { document: &document, audiences, patterns: self.patterns, memo: &mut self.memo };
        evaluator.holds(self.program)
    }
}

/// An item as the scan's program sees it.
struct Facts<'a>(&'a [u8]);

impl Document for Facts<'_> {
    fn get(&self, number: u16, _: &str) -> Option<Value<'_>> {
        let slot = self.0.get(4 * usize::from(number)..)?.first_chunk()?;
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
