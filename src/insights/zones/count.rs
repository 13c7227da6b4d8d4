//! Counts the variants that zones showed, and the visitors of the events that followed.
//!
//! The rows are read twice: first the page events, which decide the variants of the answer, then the page events with
//! the later events of their visitors. So the memory of the second count is bounded by the answer.

use std::collections::{BTreeMap, HashMap};

use super::published::PublishedZone;
use super::question::ZonesQuestion;
use crate::insights::columns::{Columns, FilePart};
use crate::insights::facts::read_column;
use crate::insights::format::{
    CODE_ABSENT, CODE_FIRST, CODE_OTHER, ColumnFileError, KIND_BOT, KIND_GPC, TextColumn,
};
use crate::insights::rows::{ACTION, PAGE, Row};
use crate::insights::scan::{Gathered, Limits, ScanError, VALUES_SHARE, part_of, parts_of};
use crate::visitors::log::RecordKind;

/// The variant of a zone that no pair of an event names.
const DEFAULT: &str = "default";
/// Memory of a count of the visitors of an event.
const COUNT_BYTES: u64 = 8;

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
/// A file is damaged, or the time is over.
pub(crate) fn count_zones(
    files: &[&Columns],
    question: &ZonesQuestion,
    site: &str,
    limits: &Limits<'_>,
) -> Result<ZoneCounts, ScanError> {
    let range = &question.range;
    let is_met = |file: &&&Columns| {
        let header = file.header();
        header.rows > 0 && header.oldest_ms < range.end && header.newest_ms >= range.start
    };
    let files: Vec<&Columns> = files.iter().filter(is_met).copied().collect();
    let mut scan = ZoneScan {
        files: &files,
        question,
        site,
        limits,
        texts: Texts::default(),
        rows: 0,
        other: [0; TextColumn::COUNT],
    };
    let mut views = Views::default();
    scan.each_visitor(false, &mut |rows, texts| views.add_visitor(rows, texts))?;
    let (mut zones, more) = views.into_zones(&question.zones, question.limit, &scan.texts);
    let events = scan.texts.events.names.len() as u64 + 1;
    let per_pass = (limits.memory_bytes / 2 / (events * COUNT_BYTES)).max(1) as usize;
    let mut shown: Vec<(&str, &mut VariantCount)> = Vec::new();
    for zone in &mut zones {
        let ZoneCount { zone, variants, .. } = zone;
        shown.extend(
            variants.iter_mut().filter(|variant| variant.shown.is_some()).map(|variant| (&**zone, variant)),
        );
    }
    for chunk in shown.chunks_mut(per_pass) {
        let pairs = chunk.iter().map(|(zone, variant)| ((*zone).to_owned(), variant.key.clone())).collect();
        let mut followed = Followed::new(pairs, &scan.texts);
        scan.each_visitor(true, &mut |rows, texts| followed.add_visitor(rows, texts))?;
        for ((_, variant), counts) in chunk.iter_mut().zip(followed.counts) {
            add_followed(variant, &counts, &scan.texts, question.limit);
        }
    }
    Ok(ZoneCounts { zones, more, rows: scan.rows, other: scan.other })
}

fn add_followed(variant: &mut VariantCount, counts: &[u64], texts: &Texts, limit: usize) {
    let Some(shown) = &mut variant.shown else { return };
    let named = texts.events.names.iter().zip(counts).filter(|(_, visitors)| **visitors > 0);
    let mut followed: Vec<(String, u64)> = named.map(|(name, visitors)| (name.clone(), *visitors)).collect();
    followed.sort_by(|(a, a_visitors), (b, b_visitors)| b_visitors.cmp(a_visitors).then_with(|| a.cmp(b)));
    shown.more = followed.len().saturating_sub(limit);
    followed.truncate(limit);
    shown.followed = followed;
}

/// Memory that the texts of a question may take also if the memory of Insights is small.
const TEXTS_BYTES_MIN: u64 = 1 << 20;
/// Memory of a text beside its bytes: its entries in two tables, and its counts.
const TEXT_BYTES: u64 = 160;

/// Texts with numbers in the order in which they are found.
#[derive(Default)]
struct Numbered {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    bytes: u64,
}

impl Numbered {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        self.names.push(text.to_owned());
        self.bytes += TEXT_BYTES + 2 * text.len() as u64;
        number
    }
}

/// The texts that rows refer to.
#[derive(Default)]
struct Texts {
    zones: Numbered,
    keys: Numbered,
    events: Numbered,
    variants: Numbered,
    /// The zones and keys of each text in `variants`. A key is not `default`.
    pairs: Vec<Vec<(u32, u32)>>,
}

impl Texts {
    /// Returns the number of a text of `variants`.
    fn shown(&mut self, text: &str) -> u32 {
        let number = self.variants.number(text);
        if number as usize == self.pairs.len() {
            let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
            let pairs = pairs.map(|(zone, key)| (zone, key, self.zones.number(zone)));
            let chosen: Vec<_> = pairs
                .filter(|(_, key, _)| *key != DEFAULT)
                .map(|(_, key, zone)| (zone, self.keys.number(key)))
                .collect();
            self.pairs.push(chosen);
        }
        number
    }

    /// Returns the memory of the texts. The pairs of `variants` are shorter than their text.
    fn bytes(&self) -> u64 {
        self.zones.bytes + self.keys.bytes + self.events.bytes + 2 * self.variants.bytes
    }

    fn pairs_of(&self, row: &Row) -> &[(u32, u32)] {
        &self.pairs[row.value as usize]
    }
}

/// A scan of the events of a page.
struct ZoneScan<'s> {
    files: &'s [&'s Columns],
    question: &'s ZonesQuestion,
    site: &'s str,
    limits: &'s Limits<'s>,
    texts: Texts,
    rows: u64,
    other: [u64; TextColumn::COUNT],
}

impl ZoneScan<'_> {
    /// Passes the rows of each visitor to `count`, with the other events if `with_actions` is true.
    fn each_visitor(
        &mut self,
        with_actions: bool,
        count: &mut dyn FnMut(&[Row], &Texts),
    ) -> Result<(), ScanError> {
        let parts = parts_of(self.files.iter().copied(), self.limits);
        let mut gathered = Gathered::default();
        (self.rows, self.other) = (0, [0; TextColumn::COUNT]);
        for part in 0..parts {
            gathered.clear();
            for file in self.files {
                if (self.limits.is_over)() {
                    return Err(ScanError::TooExpensive);
                }
                self.add_file(file, with_actions, (part, parts), &mut gathered)?;
                // Anyone can send any texts.
                if self.texts.bytes() > (self.limits.memory_bytes / VALUES_SHARE).max(TEXTS_BYTES_MIN) {
                    return Err(ScanError::TooLarge);
                }
            }
            let texts = &self.texts;
            gathered.each_visitor(self.limits, &mut |_, rows| count(rows, texts))?;
        }
        Ok(())
    }

    fn add_file(
        &mut self,
        file: &Columns,
        with_actions: bool,
        (part, parts): (u64, u64),
        gathered: &mut Gathered,
    ) -> Result<(), ColumnFileError> {
        let file = &*file.opened()?;
        if part == 0 {
            self.rows += file.rows() as u64;
            self.other[TextColumn::Site as usize] += file.rows_of_other_sites(&self.question.range)?;
        }
        let mut columns = ZoneColumns::read(file, self.site, &self.question.page)?;
        let hashes = file.visitors()?;
        for row in 0..file.rows() {
            let Some(visitor) = columns.visitor(row, self.question) else { continue };
            if part_of(hashes[visitor], parts) != part {
                continue;
            }
            let (is_page, is_action) = columns.kind(row);
            if is_page || is_action {
                self.count_other(&columns, row);
            }
            let (number, flags) = match () {
                () if is_page && columns.is_on_page(row) => {
                    (columns.variants.number(row, |text| self.texts.shown(text)), PAGE)
                }
                () if is_action => {
                    (columns.events.number(row, |text| self.texts.events.number(text)), ACTION)
                }
                () => continue,
            };
            // The first scan numbers the texts of all events.
            if let Some(number) = number.filter(|_| with_actions || flags == PAGE) {
                gathered.push(hashes[visitor], Row::new(number, columns.times[row], flags));
            }
        }
        Ok(())
    }

    /// Counts the texts of a row that are `(other)`.
    fn count_other(&mut self, columns: &ZoneColumns, row: usize) {
        let texts = [
            (TextColumn::Path, &columns.paths),
            (TextColumn::Variants, &columns.variants),
            (TextColumn::Event, &columns.events),
        ];
        for (column, texts) in texts {
            self.other[column as usize] += u64::from(texts.code(row) == CODE_OTHER as usize);
        }
    }
}

/// A text column of a file.
struct TextCodes {
    column: TextColumn,
    codes: Vec<i64>,
    texts: Vec<String>,
    /// The numbers of the texts that a row has had.
    numbers: Vec<Option<u32>>,
}

impl TextCodes {
    fn read(file: &Columns, column: TextColumn) -> Result<Self, ColumnFileError> {
        let texts = file.texts(column)?;
        let codes = read_column(file.codes(column, texts.len(), &FilePart::WHOLE)?)?;
        Ok(Self { column, codes, numbers: vec![None; texts.len()], texts })
    }

    fn code(&self, row: usize) -> usize {
        self.codes[row] as usize
    }

    /// Returns the number of the text of a row. The absent text has none, and neither have variants that are `(other)`.
    fn number(&mut self, row: usize, number: impl FnOnce(&str) -> u32) -> Option<u32> {
        let code = self.code(row);
        let has_number =
            code != CODE_ABSENT as usize && (code >= CODE_FIRST as usize || self.column == TextColumn::Event);
        has_number.then(|| *self.numbers[code].get_or_insert_with(|| number(&self.texts[code])))
    }
}

/// The columns of a file that the question needs.
struct ZoneColumns {
    times: Vec<i64>,
    visitors: Vec<i64>,
    kinds: Vec<i64>,
    sites: Vec<i64>,
    /// The codes of the site and of the page; -1 if the file does not have them.
    site: i64,
    page: i64,
    paths: TextCodes,
    variants: TextCodes,
    events: TextCodes,
}

impl ZoneColumns {
    fn read(file: &Columns, site: &str, page: &str) -> Result<Self, ColumnFileError> {
        let code_of = |texts: &TextCodes, text: &str| {
            let known = texts.texts.iter().enumerate().skip(CODE_FIRST as usize);
            known.into_iter().find(|(_, other)| *other == text).map_or(-1, |(code, _)| code as i64)
        };
        let (sites, paths) =
            (TextCodes::read(file, TextColumn::Site)?, TextCodes::read(file, TextColumn::Path)?);
        Ok(Self {
            times: read_column(file.times(&FilePart::WHOLE)?)?,
            visitors: read_column(file.row_visitors(&FilePart::WHOLE)?)?,
            kinds: read_column(file.kinds(&FilePart::WHOLE)?)?,
            site: code_of(&sites, site),
            page: code_of(&paths, page),
            sites: sites.codes,
            paths,
            variants: TextCodes::read(file, TextColumn::Variants)?,
            events: TextCodes::read(file, TextColumn::Event)?,
        })
    }

    /// Returns the visitor of a row that counts, as an index into the visitors of the file.
    fn visitor(&self, row: usize, question: &ZonesQuestion) -> Option<usize> {
        let is_counted = self.sites[row] == self.site
            && question.range.contains(&self.times[row])
            && (question.bots || self.kinds[row] & KIND_BOT == 0);
        (self.visitors[row] as usize).checked_sub(1).filter(|_| is_counted)
    }

    /// Returns whether a row is a page event, and whether it is a track or screen event.
    fn kind(&self, row: usize) -> (bool, bool) {
        let kind = self.kinds[row] & !(KIND_BOT | KIND_GPC);
        let is = |other: RecordKind| kind == other as i64;
        (is(RecordKind::Page), is(RecordKind::Track) || is(RecordKind::Screen))
    }

    fn is_on_page(&self, row: usize) -> bool {
        self.paths.codes[row] == self.page
    }
}

/// The views and visitors of all variants of all zones.
#[derive(Default)]
struct Views {
    /// By zone and key: views, visitors.
    shown: HashMap<(u32, u32), (u64, u64)>,
    /// By zone: views that name another variant than `default`, visitors all of whose views do.
    chosen: HashMap<u32, (u64, u64)>,
    views: u64,
    visitors: u64,
}

impl Views {
    fn add_visitor(&mut self, rows: &[Row], texts: &Texts) {
        let (mut of_zone, mut pairs) = (BTreeMap::<u32, u64>::new(), BTreeMap::<(u32, u32), u64>::new());
        for pair in rows.iter().flat_map(|row| texts.pairs_of(row)) {
            *of_zone.entry(pair.0).or_default() += 1;
            *pairs.entry(*pair).or_default() += 1;
        }
        for (pair, views) in pairs {
            let shown = self.shown.entry(pair).or_default();
            *shown = (shown.0 + views, shown.1 + 1);
        }
        for (zone, views) in of_zone {
            let chosen = self.chosen.entry(zone).or_default();
            *chosen = (chosen.0 + views, chosen.1 + u64::from(views == rows.len() as u64));
        }
        self.views += rows.len() as u64;
        self.visitors += 1;
    }

    /// Returns the zones of the answer without the events that followed, and the number of further zones.
    fn into_zones(self, published: &[PublishedZone], limit: usize, texts: &Texts) -> (Vec<ZoneCount>, usize) {
        let mut by_zone: HashMap<u32, Vec<(&str, ShownCount)>> = HashMap::new();
        for ((zone, key), (views, visitors)) in &self.shown {
            let shown = ShownCount { views: *views, visitors: *visitors, ..ShownCount::default() };
            by_zone.entry(*zone).or_default().push((&texts.keys.names[*key as usize], shown));
        }
        let number = |zone: &str| texts.zones.numbers.get(zone).copied();
        let mut zones: Vec<ZoneCount> = published
            .iter()
            .map(|zone| {
                let number = number(&zone.zone);
                let found = number.and_then(|number| by_zone.remove(&number)).unwrap_or_default();
                let default = (!zone.nested).then(|| self.default_count(number));
                zone_count(&zone.zone, &zone.variants, default, found, limit)
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
        zones.extend(
            others
                .into_iter()
                .take(limit)
                .map(|(_, zone, found)| zone_count(zone, &default, None, found, limit)),
        );
        (zones, more)
    }

    /// Returns the numbers of `default` of a zone that is always present.
    fn default_count(&self, zone: Option<u32>) -> ShownCount {
        let (views, visitors) = zone.and_then(|zone| self.chosen.get(&zone)).copied().unwrap_or_default();
        ShownCount { views: self.views - views, visitors: self.visitors - visitors, ..ShownCount::default() }
    }
}

/// Returns a zone with its known variants, and then the others by falling numbers of views.
fn zone_count(
    zone: &str,
    known: &[String],
    default: Option<ShownCount>,
    mut found: Vec<(&str, ShownCount)>,
    limit: usize,
) -> ZoneCount {
    found.sort_by(|(a, a_shown), (b, b_shown)| b_shown.views.cmp(&a_shown.views).then_with(|| a.cmp(b)));
    let mut variants: Vec<VariantCount> = known
        .iter()
        .map(|key| {
            let at = found.iter().position(|(other, _)| other == key);
            let shown = at.map(|at| found.remove(at).1).unwrap_or_default();
            let shown = if key == DEFAULT { default.clone() } else { Some(shown) };
            VariantCount { key: key.clone(), shown }
        })
        .collect();
    let more = found.len().saturating_sub(limit);
    let others = found.into_iter().take(limit);
    variants.extend(others.map(|(key, shown)| VariantCount { key: key.to_owned(), shown: Some(shown) }));
    ZoneCount { zone: zone.to_owned(), variants, more }
}

/// The visitors of the events that followed some variants.
struct Followed {
    /// Zone and key of each variant. A `default` has no key.
    pairs: Vec<(Option<u32>, Option<u32>)>,
    /// By variant, then by event.
    counts: Vec<Vec<u64>>,
}

impl Followed {
    fn new(pairs: Vec<(String, String)>, texts: &Texts) -> Self {
        let number = |names: &Numbered, name: &str| names.numbers.get(name).copied();
        let counts = pairs.iter().map(|_| vec![0; texts.events.names.len()]).collect();
        let pairs = pairs.iter().map(|(zone, key)| {
            let key_number = (key != DEFAULT).then(|| number(&texts.keys, key).unwrap_or(u32::MAX));
            (number(&texts.zones, zone), key_number)
        });
        Self { pairs: pairs.collect(), counts }
    }

    fn add_visitor(&mut self, rows: &[Row], texts: &Texts) {
        let mut last_ms: BTreeMap<u32, i64> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.has(ACTION)) {
            last_ms.insert(row.value, row.time_ms());
        }
        if last_ms.is_empty() {
            return;
        }
        for (pair, counts) in self.pairs.iter().zip(&mut self.counts) {
            let mut views = rows.iter().filter(|row| row.has(PAGE));
            let Some(first) = views.find(|row| shows(texts.pairs_of(row), *pair)) else { continue };
            for (event, _) in last_ms.iter().filter(|(_, last_ms)| **last_ms >= first.time_ms()) {
                counts[*event as usize] += 1;
            }
        }
    }
}

/// Returns whether a page event shows a variant. Without a key that is `default`.
fn shows(pairs: &[(u32, u32)], (zone, key): (Option<u32>, Option<u32>)) -> bool {
    let found = pairs.iter().find(|(other, _)| Some(*other) == zone).map(|(_, key)| *key);
    found == key
}
