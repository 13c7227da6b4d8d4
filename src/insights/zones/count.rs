//! Counts the variants that zones showed, and the visitors of the events that followed.
//!
//! The views of all variants are counted in each pass. The events that followed are counted for one part of
//! the variants, and there are as many parts as the memory demands.

use std::collections::HashMap;

use super::question::ZonesQuestion;
use crate::checksum::hash64;
use crate::insights::columns::format::{ColumnFileError, TextColumn};
use crate::insights::columns::reader::Columns;
use crate::insights::questions::ask::each_value_part;
use crate::insights::questions::credits::ScannedFiles;
use crate::insights::questions::question::Filters;
use crate::insights::questions::rows::{ACTION, PAGE, Plan, Row, RowValue};
use crate::insights::questions::scan::{
    Limits, ScanError, ScanSummary, VALUES_SHARE, part_of, scan_with_values,
};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::Values;

/// The variant of a zone that no pair of an event names.
const DEFAULT: &str = "default";
/// Memory that the texts of a question may take also if the memory of Insights is small.
const TEXTS_BYTES_MIN: u64 = 1 << 20;
/// The part of the memory of Insights that holds the visitors of the events that followed: one of this many. Beyond it
/// the variants are counted in several passes.
const FOLLOWED_SHARE: u64 = 4;

/// The counts of a variant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct VariantCount {
    pub key: String,
    /// `None` if it is not known whether the zone was present.
    pub shown: Option<ShownCount>,
}

/// The numbers of a variant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ShownCount {
    pub views: u64,
    pub visitors: u64,
    /// Events by falling numbers of visitors, then by name.
    pub followed: Vec<(String, u64)>,
    /// Further events.
    pub more: usize,
}

/// The counts of a zone.
#[derive(Debug)]
pub(crate) struct ZoneCount {
    pub zone: String,
    pub variants: Vec<VariantCount>,
    /// Further variants.
    pub more: usize,
}

/// All counts.
#[derive(Debug, Default)]
pub(crate) struct ZoneCounts {
    /// The published zones in their order, then the others by falling numbers of views.
    pub zones: Vec<ZoneCount>,
    /// Further zones.
    pub more: usize,
    pub rows: u64,
    /// Rows of the range by text columns whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the zones of a page over all rows of `files`.
///
/// # Errors
/// A file is damaged, the time is over, or the texts take too much memory.
pub(crate) fn count_zones(
    files: &[&Columns],
    question: &ZonesQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<ZoneCounts, ScanError> {
    let mut counts = ZoneCounts::default();
    if !have_page(files, question)? {
        let none = PartCount::new((0, 1), question, limits);
        (counts.zones, counts.more) = none.views.zones(question, &none.texts);
        return Ok(counts);
    }
    let parts = each_value_part(|part| count_part(files, question, site, limits, part))?;
    for (part, summary) in parts {
        if counts.rows == 0 {
            (counts.zones, counts.more) = part.views.zones(question, &part.texts);
            (counts.rows, counts.other) = (summary.rows, summary.other);
        }
        part.add_followed(&mut counts.zones, &summary.values, question.limit);
    }
    Ok(counts)
}

/// Returns whether a file may have an event of the page.
fn have_page(files: &[&Columns], question: &ZonesQuestion) -> Result<bool, ColumnFileError> {
    for file in files.iter().filter(|file| file.header().rows > 0) {
        if file.opened()?.may_have(TextColumn::Path, &question.page)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts all views, and the events that followed the variants of one part. The error says that there must be
/// more parts if the variants and events of this one take too much memory.
fn count_part(
    files: &[&Columns],
    question: &ZonesQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
    part: (u64, u64),
) -> Result<(PartCount, ScanSummary), ScanError> {
    let filters = Filters { page: vec![question.page.clone()], ..Filters::default() };
    let plan = Plan {
        site,
        window: question.range.clone(),
        range: question.range.clone(),
        bots: question.bots,
        filters: &filters,
        value: RowValue::Shown,
        value_part: (0, 1),
        needs_variants: false,
    };
    let mut count = PartCount::new(part, question, limits);
    let mut summary = ScanSummary { values: Values::undivided(TEXTS_BYTES_MIN), ..ScanSummary::default() };
    scan_with_values(ScannedFiles::all(files), &plan, limits, &mut summary, &mut |_, rows, values| {
        count.add_visitor(rows, values);
    })
    .map_err(|error| match error {
        // Each part has all texts.
        ScanError::TooManyValues => ScanError::TooLarge,
        error => error,
    })?;
    match () {
        () if count.texts.is_full() => Err(ScanError::TooLarge),
        () if count.followed.is_full => Err(ScanError::TooManyValues),
        () => Ok((count, summary)),
    }
}

/// Memory of a zone or key beside its name: its entries in two tables.
const NAME_BYTES: u64 = 160;
/// Memory of a pair of a text, and of its views.
const PAIR_BYTES: u64 = 64;

/// Names with numbers in the order in which they are found.
#[derive(Default)]
struct Numbered {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    bytes: u64,
}

impl Numbered {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        self.bytes += NAME_BYTES + 2 * name.len() as u64;
        number
    }
}

/// A zone and a key.
type Pair = (u32, u32);
/// The key of [`DEFAULT`].
const DEFAULT_KEY: u32 = u32::MAX;

/// The zones and keys of the variants that page events showed.
#[derive(Default)]
struct Texts {
    zones: Numbered,
    keys: Numbered,
    /// The pairs of each value, once a page event has had it. A key is not `default`.
    pairs: Vec<Option<Vec<Pair>>>,
    pair_bytes: u64,
    bytes_max: u64,
}

impl Texts {
    fn new(limits: &Limits<'_>) -> Self {
        let bytes_max = (limits.memory_bytes / VALUES_SHARE).max(TEXTS_BYTES_MIN);
        Self { bytes_max, ..Self::default() }
    }

    /// Returns whether the texts take more than their memory. Anyone can send any texts.
    fn is_full(&self) -> bool {
        self.zones.bytes + self.keys.bytes + self.pair_bytes > self.bytes_max
    }

    /// Returns the pairs of a value.
    fn pairs(&mut self, value: u32, values: &Values) -> &[Pair] {
        let at = value as usize;
        if self.pairs.len() <= at {
            self.pairs.resize(at + 1, None);
        }
        if self.pairs[at].is_none() {
            self.pairs[at] = Some(self.parse(&values.texts[at]));
        }
        self.pairs[at].as_deref().unwrap_or_default()
    }

    fn parse(&mut self, text: &str) -> Vec<Pair> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
        let mut chosen: Vec<Pair> = Vec::new();
        for (zone, key) in pairs {
            let zone = self.zones.number(zone);
            let key = if key == DEFAULT { DEFAULT_KEY } else { self.keys.number(key) };
            // The first pair of a zone counts.
            if !chosen.iter().any(|(other, _)| *other == zone) {
                chosen.push((zone, key));
            }
        }
        chosen.retain(|(_, key)| *key != DEFAULT_KEY);
        self.pair_bytes += PAIR_BYTES * chosen.len() as u64;
        chosen
    }

    fn key(&self, key: u32) -> &str {
        if key == DEFAULT_KEY { DEFAULT } else { &self.keys.names[key as usize] }
    }

    /// Returns the pair of these names. A key that no event has is that of no pair.
    fn pair(&self, zone: &str, key: &str) -> Option<Pair> {
        let zone = *self.zones.numbers.get(zone)?;
        let key = if key == DEFAULT { Some(DEFAULT_KEY) } else { self.keys.numbers.get(key).copied() };
        Some((zone, key?))
    }
}

/// The counts of one part of the variants.
struct PartCount {
    texts: Texts,
    /// The published zones that are always present.
    present: Vec<u32>,
    views: Views,
    followed: Followed,
    /// The views of a visitor: pair and time.
    shown: Vec<(Pair, i64)>,
    /// The events of a visitor: value and time.
    actions: Vec<(u32, i64)>,
}

impl PartCount {
    fn new(part: (u64, u64), question: &ZonesQuestion, limits: &Limits<'_>) -> Self {
        let mut texts = Texts::new(limits);
        let present = question.zones.iter().filter(|zone| !zone.nested);
        let present = present.map(|zone| texts.zones.number(&zone.zone)).collect();
        let followed = Followed::new(part, limits);
        Self { texts, present, views: Views::default(), followed, shown: Vec::new(), actions: Vec::new() }
    }

    fn add_visitor(&mut self, rows: &[Row], values: &Values) {
        let Self { texts, present, views, followed, shown, actions } = self;
        if texts.is_full() {
            return;
        }
        shown.clear();
        for row in rows.iter().filter(|row| row.has(PAGE)) {
            let pairs = texts.pairs(row.value, values);
            shown.extend(pairs.iter().map(|pair| (*pair, row.time_ms())));
            let absent = present.iter().filter(|zone| !pairs.iter().any(|(other, _)| other == *zone));
            shown.extend(absent.map(|zone| ((*zone, DEFAULT_KEY), row.time_ms())));
        }
        if shown.is_empty() {
            return;
        }
        shown.sort_unstable();
        views.add_visitor(shown);
        actions.clear();
        let of_actions = rows.iter().filter(|row| row.has(ACTION));
        actions.extend(of_actions.map(|row| (row.value, row.time_ms())));
        // The last event of each name.
        actions.sort_unstable_by_key(|(event, time_ms)| (*event, -time_ms));
        actions.dedup_by_key(|(event, _)| *event);
        for of_pair in shown.chunk_by(|a, b| a.0 == b.0) {
            followed.add(of_pair[0], actions);
        }
    }

    /// Adds the events that followed the variants of the part.
    fn add_followed(&self, zones: &mut [ZoneCount], values: &Values, limit: usize) {
        for zone in zones {
            for variant in &mut zone.variants {
                let pair = self.texts.pair(&zone.zone, &variant.key);
                let counts = pair.and_then(|pair| self.followed.of(pair));
                if let (Some(shown), Some(counts)) = (&mut variant.shown, counts) {
                    shown.set_followed(counts, values, limit);
                }
            }
        }
    }
}

impl ShownCount {
    /// Keeps the events with the most visitors. `counts` are the visitors by the value of the event.
    fn set_followed(&mut self, counts: &[u64], values: &Values, limit: usize) {
        let named = values.texts.iter().zip(counts).filter(|(_, visitors)| **visitors > 0);
        let mut followed: Vec<(String, u64)> =
            named.map(|(name, visitors)| (name.to_string(), *visitors)).collect();
        followed
            .sort_by(|(a, a_visitors), (b, b_visitors)| b_visitors.cmp(a_visitors).then_with(|| a.cmp(b)));
        self.more = followed.len().saturating_sub(limit);
        followed.truncate(limit);
        self.followed = followed;
    }
}

/// The views and visitors of all variants of all zones.
#[derive(Default)]
struct Views {
    /// Views and visitors by pair.
    shown: HashMap<Pair, (u64, u64)>,
}

impl Views {
    /// Adds the sorted pairs that the views of a visitor showed.
    fn add_visitor(&mut self, shown: &[(Pair, i64)]) {
        for of_pair in shown.chunk_by(|a, b| a.0 == b.0) {
            let counts = self.shown.entry(of_pair[0].0).or_default();
            *counts = (counts.0 + of_pair.len() as u64, counts.1 + 1);
        }
    }

    /// Returns the zones of the answer without the events that followed, and the number of further zones.
    fn zones(&self, question: &ZonesQuestion, texts: &Texts) -> (Vec<ZoneCount>, usize) {
        let (published, limit) = (&question.zones, question.limit);
        let mut by_zone: HashMap<u32, Vec<(&str, ShownCount)>> = HashMap::new();
        for ((zone, key), (views, visitors)) in &self.shown {
            let shown = ShownCount { views: *views, visitors: *visitors, ..ShownCount::default() };
            by_zone.entry(*zone).or_default().push((texts.key(*key), shown));
        }
        let number = |zone: &str| texts.zones.numbers.get(zone);
        let mut zones: Vec<ZoneCount> = published
            .iter()
            .map(|zone| {
                let found = number(&zone.zone).and_then(|number| by_zone.remove(number)).unwrap_or_default();
                zone_count(&zone.zone, &zone.variants, !zone.nested, found, limit)
            })
            .collect();
        // A zone without a pair beside `default` is shown only if it is published.
        let mut others: Vec<(u64, &str, Vec<_>)> = by_zone
            .into_iter()
            .map(|(zone, found)| {
                (found.iter().map(|(_, shown)| shown.views).sum(), &*texts.zones.names[zone as usize], found)
            })
            .collect();
        others.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
        let more = others.len().saturating_sub(limit);
        let default = [DEFAULT.to_owned()];
        let others = others.into_iter().take(limit);
        zones.extend(others.map(|(_, zone, found)| zone_count(zone, &default, false, found, limit)));
        (zones, more)
    }
}

/// Returns a zone with its known variants, and then the others by falling numbers of views. `is_present` is true if
/// each view of the page shows the zone.
fn zone_count(
    zone: &str,
    known: &[String],
    is_present: bool,
    mut found: Vec<(&str, ShownCount)>,
    limit: usize,
) -> ZoneCount {
    found.sort_by(|(a, a_shown), (b, b_shown)| b_shown.views.cmp(&a_shown.views).then_with(|| a.cmp(b)));
    let mut variants: Vec<VariantCount> = known
        .iter()
        .map(|key| {
            let at = found.iter().position(|(other, _)| other == key);
            let shown = at.map(|at| found.remove(at).1).unwrap_or_default();
            VariantCount { key: key.clone(), shown: (is_present || key != DEFAULT).then_some(shown) }
        })
        .collect();
    let more = found.len().saturating_sub(limit);
    let others = found.into_iter().take(limit);
    variants.extend(others.map(|(key, shown)| VariantCount { key: key.to_owned(), shown: Some(shown) }));
    ZoneCount { zone: zone.to_owned(), variants, more }
}

/// The visitors of the events that followed the variants of one part.
struct Followed {
    /// The part, and the number of parts.
    part: (u64, u64),
    pairs: HashMap<Pair, usize>,
    /// Visitors by pair, then by the value of the event.
    counts: Vec<Vec<u64>>,
    /// The numbers in `counts`, and their bound.
    numbers: usize,
    numbers_max: u64,
    /// True once the part takes more than its memory.
    is_full: bool,
}

impl Followed {
    fn new(part: (u64, u64), limits: &Limits<'_>) -> Self {
        let numbers_max = limits.memory_bytes / FOLLOWED_SHARE / size_of::<u64>() as u64;
        let (pairs, counts) = (HashMap::new(), Vec::new());
        Self { part, pairs, counts, numbers: 0, numbers_max, is_full: false }
    }

    /// Adds a visitor: its first view with a pair, and its last event of each name.
    fn add(&mut self, (pair, first_ms): (Pair, i64), actions: &[(u32, i64)]) {
        if self.is_full || !self.has(pair) {
            return;
        }
        let next = self.counts.len();
        let at = *self.pairs.entry(pair).or_insert(next);
        if at == next {
            self.counts.push(Vec::new());
        }
        let counts = &mut self.counts[at];
        for (event, _) in actions.iter().filter(|(_, last_ms)| *last_ms >= first_ms) {
            let event = *event as usize;
            if counts.len() <= event {
                self.numbers += event + 1 - counts.len();
                counts.resize(event + 1, 0);
            }
            counts[event] += 1;
        }
        // A single pair always fits.
        self.is_full = self.numbers as u64 > self.numbers_max && self.counts.len() > 1;
    }

    /// Returns whether a pair is in the part.
    fn has(&self, (zone, key): Pair) -> bool {
        let (part, parts) = self.part;
        let bytes = (u64::from(zone) << 32 | u64::from(key)).to_le_bytes();
        parts == 1 || part_of(hash64(&bytes), parts) == part
    }

    /// Returns the visitors by the value of the event. `None` for a pair without a view in the part.
    fn of(&self, pair: Pair) -> Option<&[u64]> {
        self.pairs.get(&pair).map(|at| &*self.counts[*at])
    }
}
