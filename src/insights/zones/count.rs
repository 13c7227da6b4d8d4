//! Counts the views and the visitors of each variant of each zone. Also counts the visitors with an event after their
//! first view of the variant.
//!
//! The counts of events take the most memory. So the variants are divided into parts. A smaller memory limit gives more
//! parts. Each pass over the rows counts the views of all variants, but the events of only one part of the variants.

use std::collections::HashMap;

use super::question::ZonesQuestion;
use super::texts::{DEFAULT, DEFAULT_KEY, TEXTS_BYTES_MIN, Texts, Variant};
use crate::checksum::hash64;
use crate::insights::columns::format::{ColumnFileError, TextColumn};
use crate::insights::columns::reader::Columns;
use crate::insights::questions::ask::each_value_part;
use crate::insights::questions::credits::ScannedFiles;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::part::Part;
use crate::insights::questions::plan::{Plan, RowValue};
use crate::insights::questions::question::Filters;
use crate::insights::questions::row::{ACTION, PAGE, Row};
use crate::insights::questions::scan::{ScanSummary, scan_with_summary};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::Values;

/// The memory for the counts of events after views is the memory of Insights divided by this number. If the counts need
/// more, the variants are counted in several passes.
const FOLLOWED_SHARE: u64 = 4;

/// The counts of a variant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct VariantCount {
    pub key: String,
    /// The numbers. `None` for the variant `default` of a zone, if the zone is not shown by every view of the page.
    /// Then the number of its views is unknown.
    pub shown: Option<ShownCount>,
}

/// The numbers of a variant that was shown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ShownCount {
    pub views: u64,
    pub visitors: u64,
    /// The events after the first view of the variant. The event with the most visitors is the first one. Events with
    /// equal numbers of visitors are in the order of their names.
    pub followed: Vec<EventCount>,
    /// The number of events that are not in `followed`.
    pub more: usize,
}

/// The number of visitors with this event after their first view of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventCount {
    pub name: String,
    pub visitors: u64,
}

/// The counts of a zone.
#[derive(Debug)]
pub(crate) struct ZoneCount {
    pub zone: String,
    pub variants: Vec<VariantCount>,
    /// The number of variants that are not in `variants`.
    pub more: usize,
}

/// The counts of all zones.
#[derive(Debug, Default)]
pub(crate) struct ZoneCounts {
    /// The published zones in their order, and then the unpublished zones. The unpublished zone with the most views is
    /// the first of the unpublished zones.
    pub zones: Vec<ZoneCount>,
    /// The number of zones that are not in `zones`.
    pub more: usize,
    /// The number of rows in all files that can have rows in the range.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the zones of a page over all rows of `columns`.
///
/// # Errors
/// Returns an error if a file is damaged, if the time is over, or if the texts take too much memory.
pub(crate) fn count_zones(
    columns: &[&Columns],
    question: &ZonesQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<ZoneCounts, ScanError> {
    let mut counts = ZoneCounts::default();
    if !have_page(columns, question)? {
        PartCount::new(Part::WHOLE, question, limits).set_zones(&mut counts, question);
        return Ok(counts);
    }
    let parts = each_value_part(|part| count_part(columns, question, site, limits, part))?;
    for (part, summary) in parts {
        if counts.rows == 0 {
            part.set_zones(&mut counts, question);
            counts.rows = summary.rows;
            counts.other = summary.other;
        }
        part.add_followed(&mut counts.zones, &summary.values, question.limit);
    }
    Ok(counts)
}

/// Returns whether a file may have an event of the page.
fn have_page(columns: &[&Columns], question: &ZonesQuestion) -> Result<bool, ColumnFileError> {
    for file in columns.iter().filter(|file| file.header().rows > 0) {
        if file.opened()?.may_have(TextColumn::Path, &question.page)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts the views of all variants, and the events after the views of the variants in one part.
///
/// # Errors
/// Returns an error if a file is damaged, if the time is over, or if the texts take too much memory. Returns
/// [`ScanError::TooManyValues`] if the counts of events take too much memory. Then the caller divides the variants into
/// more parts.
fn count_part(
    columns: &[&Columns],
    question: &ZonesQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
    part: Part,
) -> Result<(PartCount, ScanSummary), ScanError> {
    let filters = Filters { page: vec![question.page.clone()], ..Filters::default() };
    let plan = Plan::new(site, &question.range, question.bots, &filters);
    let plan = Plan { value: RowValue::Shown, ..plan };
    let mut count = PartCount::new(part, question, limits);
    let mut summary = ScanSummary { values: Values::undivided(TEXTS_BYTES_MIN), ..ScanSummary::default() };
    scan_with_summary(ScannedFiles::all(columns), &plan, limits, &mut summary, &mut |_, rows, summary| {
        count.add_visitor(rows, &summary.values);
    })
    .map_err(|error| match error {
        // More parts of the variants would not help, because each pass has all texts.
        ScanError::TooManyValues => ScanError::TooLarge,
        error => error,
    })?;
    if count.texts.is_full() {
        Err(ScanError::TooLarge)
    } else if count.followed.is_full {
        Err(ScanError::TooManyValues)
    } else {
        Ok((count, summary))
    }
}

/// A view of a variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct View {
    variant: Variant,
    time_ms: i64,
}

/// A track or screen event.
#[derive(Clone, Copy)]
struct Action {
    /// The number of the name of the event.
    name: u32,
    time_ms: i64,
}

/// The views of all variants, and the events after the views of the variants in one part.
struct PartCount {
    texts: Texts,
    /// Each published zone that every view of the page shows.
    shown_zones: Vec<u32>,
    views: ViewCounts,
    followed: FollowedCounts,
    /// A buffer for the views of one visitor.
    visitor_views: Vec<View>,
    /// A buffer for the track and screen events of one visitor.
    actions: Vec<Action>,
}

impl PartCount {
    fn new(part: Part, question: &ZonesQuestion, limits: &Limits<'_>) -> Self {
        let mut texts = Texts::new(limits);
        let shown_zones = question.zones.iter().filter(|zone| !zone.nested);
        let shown_zones = shown_zones.map(|zone| texts.zones.number(&zone.zone)).collect();
        Self {
            texts,
            shown_zones,
            views: ViewCounts::default(),
            followed: FollowedCounts::new(part, limits),
            visitor_views: Vec::new(),
            actions: Vec::new(),
        }
    }

    fn add_visitor(&mut self, rows: &[Row], values: &Values) {
        let Self { texts, shown_zones, views, followed, visitor_views, actions } = self;
        if texts.is_full() {
            return;
        }
        visitor_views.clear();
        for row in rows.iter().filter(|row| row.has(PAGE)) {
            let time_ms = row.time_ms();
            let variants = texts.variants(row.value, values);
            visitor_views.extend(variants.iter().map(|variant| View { variant: *variant, time_ms }));
            let defaults =
                shown_zones.iter().filter(|zone| !variants.iter().any(|other| other.zone == **zone));
            let defaults = defaults.map(|zone| Variant { zone: *zone, key: DEFAULT_KEY });
            visitor_views.extend(defaults.map(|variant| View { variant, time_ms }));
        }
        if visitor_views.is_empty() {
            return;
        }
        visitor_views.sort_unstable();
        views.add_visitor(visitor_views);
        actions.clear();
        let action_rows = rows.iter().filter(|row| row.has(ACTION));
        actions.extend(action_rows.map(|row| Action { name: row.value, time_ms: row.time_ms() }));
        // Only the last event with each name is needed.
        actions.sort_unstable_by_key(|action| (action.name, -action.time_ms));
        actions.dedup_by_key(|action| action.name);
        for variant_views in visitor_views.chunk_by(|a, b| a.variant == b.variant) {
            followed.add(variant_views[0], actions);
        }
    }

    /// Sets the zones of the answer. Does not set the events after the views.
    fn set_zones(&self, counts: &mut ZoneCounts, question: &ZonesQuestion) {
        (counts.zones, counts.more) = self.views.zones(question, &self.texts);
    }

    /// Adds the events after the views of the variants in the part.
    fn add_followed(&self, zones: &mut [ZoneCount], values: &Values, events_max: usize) {
        for zone in zones {
            for variant in &mut zone.variants {
                let number = self.texts.variant(&zone.zone, &variant.key);
                let counts = number.and_then(|number| self.followed.of(number));
                if let Some(shown) = &mut variant.shown
                    && let Some(counts) = counts
                {
                    shown.set_followed(counts, values, events_max);
                }
            }
        }
    }
}

impl ShownCount {
    /// Keeps the events with the most visitors. `counts` has the number of visitors of each event, by the number of the
    /// name of the event.
    fn set_followed(&mut self, counts: &[u64], values: &Values, events_max: usize) {
        let events = values.texts.iter().zip(counts).filter(|(_, visitors)| **visitors > 0);
        let events =
            events.map(|(name, visitors)| EventCount { name: name.to_string(), visitors: *visitors });
        self.followed = events.collect();
        self.followed.sort_by(|a, b| b.visitors.cmp(&a.visitors).then_with(|| a.name.cmp(&b.name)));
        self.more = self.followed.len().saturating_sub(events_max);
        self.followed.truncate(events_max);
    }
}

/// The views and visitors of a variant.
#[derive(Default)]
struct ViewCount {
    views: u64,
    visitors: u64,
}

/// A variant that was shown at least once.
struct ShownVariant<'t> {
    key: &'t str,
    count: ShownCount,
}

/// The views and visitors of all variants of all zones.
#[derive(Default)]
struct ViewCounts {
    by_variant: HashMap<Variant, ViewCount>,
}

impl ViewCounts {
    /// Adds the views of one visitor. The views are sorted.
    fn add_visitor(&mut self, views: &[View]) {
        for variant_views in views.chunk_by(|a, b| a.variant == b.variant) {
            let count = self.by_variant.entry(variant_views[0].variant).or_default();
            count.views += variant_views.len() as u64;
            count.visitors += 1;
        }
    }

    /// Returns the zones of the answer, without the events after the views. The second result is the number of zones
    /// that are left out.
    fn zones(&self, question: &ZonesQuestion, texts: &Texts) -> (Vec<ZoneCount>, usize) {
        let limit = question.limit;
        let mut by_zone: HashMap<u32, Vec<ShownVariant<'_>>> = HashMap::new();
        for (Variant { zone, key }, ViewCount { views, visitors }) in &self.by_variant {
            let count = ShownCount { views: *views, visitors: *visitors, ..ShownCount::default() };
            by_zone.entry(*zone).or_default().push(ShownVariant { key: texts.key(*key), count });
        }
        let published = question.zones.iter().map(|zone| {
            let number = texts.zones.numbers.get(&zone.zone);
            let shown = number.and_then(|number| by_zone.remove(number)).unwrap_or_default();
            zone_count(&zone.zone, &zone.variants, !zone.nested, shown, limit)
        });
        let mut zones: Vec<ZoneCount> = published.collect();
        // An unpublished zone is in the answer only if a view has shown a variant other than `default`.
        let mut others: Vec<(u64, &str, Vec<ShownVariant<'_>>)> = by_zone
            .into_iter()
            .map(|(zone, shown)| {
                let views = shown.iter().map(|variant| variant.count.views).sum();
                (views, &*texts.zones.names[zone as usize], shown)
            })
            .collect();
        others.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
        let more = others.len().saturating_sub(limit);
        let default = [DEFAULT.to_owned()];
        let others = others.into_iter().take(limit);
        zones.extend(others.map(|(_, zone, shown)| zone_count(zone, &default, false, shown, limit)));
        (zones, more)
    }
}

/// Returns a zone. The published variants of the zone are the first variants. The other shown variants follow, in
/// descending order of their views. `is_always_shown` is true if every view of the page shows the zone.
fn zone_count(
    zone_name: &str,
    published_keys: &[String],
    is_always_shown: bool,
    mut shown_variants: Vec<ShownVariant<'_>>,
    others_max: usize,
) -> ZoneCount {
    shown_variants.sort_by(|a, b| b.count.views.cmp(&a.count.views).then_with(|| a.key.cmp(b.key)));
    let published = published_keys.iter().map(|key| {
        let index = shown_variants.iter().position(|variant| variant.key == key);
        let count = index.map(|index| shown_variants.remove(index).count).unwrap_or_default();
        VariantCount { key: key.clone(), shown: (is_always_shown || key != DEFAULT).then_some(count) }
    });
    let mut variants: Vec<VariantCount> = published.collect();
    let more = shown_variants.len().saturating_sub(others_max);
    let others = shown_variants.into_iter().take(others_max);
    variants.extend(
        others.map(|variant| VariantCount { key: variant.key.to_owned(), shown: Some(variant.count) }),
    );
    ZoneCount { zone: zone_name.to_owned(), variants, more }
}

/// For each variant in one part, the number of visitors with each event after their first view of the variant.
struct FollowedCounts {
    part: Part,
    /// The index of each variant in `counts`.
    variants: HashMap<Variant, usize>,
    /// For each variant, the number of visitors of each event, by the number of the name of the event.
    counts: Vec<Vec<u64>>,
    /// The sum of the lengths of all entries of `counts`.
    numbers: usize,
    numbers_max: u64,
    /// True if the counts have exceeded their memory.
    is_full: bool,
}

impl FollowedCounts {
    fn new(part: Part, limits: &Limits<'_>) -> Self {
        let numbers_max = limits.memory_bytes / FOLLOWED_SHARE / size_of::<u64>() as u64;
        Self { part, variants: HashMap::new(), counts: Vec::new(), numbers: 0, numbers_max, is_full: false }
    }

    /// Adds a visitor. `first_view` is the first view of a variant by this visitor. `actions` has the last event of
    /// this visitor for each name.
    fn add(&mut self, first_view: View, actions: &[Action]) {
        if self.is_full || !self.has(first_view.variant) {
            return;
        }
        let next = self.counts.len();
        let index = *self.variants.entry(first_view.variant).or_insert(next);
        if index == next {
            self.counts.push(Vec::new());
        }
        let counts = &mut self.counts[index];
        for action in actions.iter().filter(|action| action.time_ms >= first_view.time_ms) {
            let name = action.name as usize;
            if counts.len() <= name {
                self.numbers += name + 1 - counts.len();
                counts.resize(name + 1, 0);
            }
            counts[name] += 1;
        }
        // A single variant always fits.
        self.is_full = self.numbers as u64 > self.numbers_max && self.counts.len() > 1;
    }

    /// Returns true if a variant is in the part.
    fn has(&self, Variant { zone, key }: Variant) -> bool {
        let bytes = (u64::from(zone) << 32 | u64::from(key)).to_le_bytes();
        self.part.count == 1 || self.part.has(hash64(&bytes))
    }

    /// Returns the number of visitors of each event, by the number of the name of the event. Returns `None` if the
    /// variant is not in the part or has no view.
    fn of(&self, variant: Variant) -> Option<&[u64]> {
        self.variants.get(&variant).map(|index| &*self.counts[*index])
    }
}
