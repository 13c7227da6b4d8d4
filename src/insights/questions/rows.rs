//! Rows: the facts of an event that a question needs, read from the columns of a file.

use std::ops::Range;

use super::question::{Filters, Group};
use super::site::SiteFacts;
use super::values::{NO_VALUE, TextNumbers, Values};
use crate::insights::columns::format::{
    CODE_FIRST, CODE_OTHER, ColumnFileError, KIND_BOT, KIND_GPC, KIND_VISIT, TextColumn,
};
use crate::insights::columns::packing::PackedColumn;
use crate::insights::columns::reader::{AGENT_NUMBERS, Columns, FilePart, OUT_OF_RANGE};
use crate::visitors::log::{Browser, Device, Os, RecordKind};

/// A page event.
pub(crate) const PAGE: u16 = 1;
/// A track or screen event.
pub(crate) const ACTION: u16 = 1 << 1;
/// A filter for events refuses the event.
pub(crate) const REJECTED: u16 = 1 << 2;
/// The event has a name of the filter `event`.
pub(crate) const EVENT_HIT: u16 = 1 << 3;
/// The event has a variant of the filter `variant`.
pub(crate) const VARIANT_HIT: u16 = 1 << 4;
/// The event has a variant other than `default`.
pub(crate) const PERSONALIZED: u16 = 1 << 5;
/// A visit that begins with this page event has a source of the filter `source`.
pub(crate) const SOURCE_HIT: u16 = 1 << 6;
/// A visit that begins with this page event has a campaign of the filter `campaign`.
pub(crate) const CAMPAIGN_HIT: u16 = 1 << 7;

/// The event begins or extends a visit. Every other event is in a visit without changing it.
pub(crate) const OF_VISIT: u16 = 1 << 11;

/// Bits of a row's kind beside the kind of the record.
const KIND_FLAGS: i64 = KIND_VISIT | KIND_BOT | KIND_GPC;

/// The source of a visit without campaign and referrer.
pub(crate) const DIRECT: &str = "(direct)";
/// Bits of a key below the time.
const FLAG_BITS: u32 = 16;

/// An event of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The value that the question groups by, as an index into [`Values`].
    pub value: u32,
    /// Time and flags.
    key: i64,
}

impl Row {
    pub(crate) fn new(value: u32, time_ms: i64, flags: u16) -> Self {
        Self { value, key: time_ms << FLAG_BITS | i64::from(flags) }
    }

    pub(crate) fn time_ms(self) -> i64 {
        self.key >> FLAG_BITS
    }

    pub(crate) fn flags(self) -> u16 {
        self.key as u16
    }

    /// Returns whether all of these flags are set.
    pub(crate) fn has(self, flags: u16) -> bool {
        self.key as u16 & flags == flags
    }
}

/// The values of the rows of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowValue {
    Nothing,
    Of(Group),
    /// The variants of a page event, and the name of another event.
    Shown,
}

/// The rows that a question needs.
#[derive(Debug)]
pub(crate) struct Plan<'q> {
    pub site: &'q SiteFacts,
    /// The times of the rows, in milliseconds.
    pub window: Range<i64>,
    /// The range of the question: in it, rows with `(other)` are counted.
    pub range: Range<i64>,
    pub bots: bool,
    pub filters: &'q Filters,
    pub value: RowValue,
    /// The part of the values that the question counts, and the number of parts.
    pub value_part: (u64, u64),
    /// True if the question counts personalized visitors.
    pub needs_variants: bool,
}

/// A file and the part of it that is read.
pub(crate) type PartOfFile<'f> = (&'f Columns, &'f FilePart);

/// A packed column and its present block.
pub(crate) struct Block {
    column: PackedColumn,
    pub(crate) numbers: Vec<i64>,
}

impl Block {
    pub(crate) fn new(column: PackedColumn) -> Self {
        Self { column, numbers: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> Result<(), ColumnFileError> {
        self.column.next_block(&mut self.numbers).ok_or(OUT_OF_RANGE)
    }
}

/// A text column of a plan.
struct TextBlock {
    column: TextColumn,
    block: Block,
    /// The texts by their codes.
    texts: Vec<String>,
    /// The flags of each code.
    flags: Vec<u16>,
}

impl TextBlock {
    fn code(&self, row: usize) -> usize {
        self.block.numbers[row] as usize
    }

    /// Sets a flag for each code whose text is accepted. The absent text is never accepted.
    fn set_flag(&mut self, flag: u16, accepts: impl Fn(&str) -> bool) {
        for (code, flags) in self.flags.iter_mut().enumerate().skip(CODE_FIRST as usize) {
            *flags |= if accepts(&self.texts[code]) { flag } else { 0 };
        }
    }

    /// Returns the value of each code. The absent text has none.
    fn values(&self, values: &mut Values) -> Vec<u32> {
        let mut numbers = vec![NO_VALUE; self.texts.len()];
        for (code, number) in numbers.iter_mut().enumerate().skip(CODE_OTHER as usize) {
            *number = values.number(&self.texts[code]);
        }
        numbers
    }
}

/// The rule for the value of a row.
enum ValueRule {
    Nothing,
    /// An index into the text columns, and the value of each code.
    Text(usize, Vec<u32>),
    /// The value of each number of device, operating system and browser.
    Agent(Vec<u32>),
    Source,
    /// The variants of a page event, and the name of another event: indices into the text columns, and their numbers.
    Shown([(usize, TextNumbers); 2]),
}

/// A source: its value, and the flags of an event with it.
type Source = (u32, u16);

/// The sources of page events.
struct SourceRule {
    /// Indices into the text columns: source, referrer host.
    columns: [usize; 2],
    /// By code. The value is [`NO_VALUE`] if the next rule decides.
    by_source: Vec<Source>,
    by_referrer: Vec<Source>,
    direct: Source,
}

/// A reader of the columns of a file that a plan needs.
pub(crate) struct FileReader {
    times: Block,
    visitors: Block,
    sites: Block,
    kinds: Block,
    /// The block of device, operating system and browser, and the flags of each of their numbers.
    agents: Option<(Block, Vec<u16>)>,
    texts: Vec<TextBlock>,
    sources: Option<SourceRule>,
    value: ValueRule,
    kind_flags: [Option<u16>; 256],
    /// The positions of the rows in the order of their seqs. `None` if no reader needs them.
    positions: Option<Block>,
}

impl FileReader {
    pub(crate) fn new(
        (file, part): PartOfFile<'_>,
        sites: usize,
        plan: &Plan<'_>,
        values: &mut Values,
    ) -> Result<Self, ColumnFileError> {
        let mut reader = Self {
            times: Block::new(file.times(part)?),
            visitors: Block::new(file.row_visitors(part)?),
            sites: Block::new(file.codes(TextColumn::Site, sites, part)?),
            kinds: Block::new(file.kinds(part)?),
            agents: None,
            texts: Vec::new(),
            sources: None,
            value: ValueRule::Nothing,
            kind_flags: std::array::from_fn(|kind| kind_flags(kind as i64, plan.bots)),
            positions: None,
        };
        reader.add_filters((file, part), plan)?;
        reader.add_sources((file, part), plan, values)?;
        reader.value = reader.value_rule((file, part), plan, values)?;
        Ok(reader)
    }

    /// Returns the index of a text column, which is opened at the first call.
    fn text_column(
        &mut self,
        (file, part): PartOfFile<'_>,
        column: TextColumn,
    ) -> Result<usize, ColumnFileError> {
        if let Some(at) = self.texts.iter().position(|text| text.column == column) {
            return Ok(at);
        }
        let texts = file.texts(column)?;
        let block = Block::new(file.codes(column, texts.len(), part)?);
        let flags = vec![0; texts.len()];
        self.texts.push(TextBlock { column, block, texts, flags });
        Ok(self.texts.len() - 1)
    }

    /// Opens the positions of the rows, before the first block is read.
    pub(crate) fn open_positions(&mut self, (file, part): PartOfFile<'_>) -> Result<(), ColumnFileError> {
        self.positions = Some(Block::new(file.positions(part)?));
        Ok(())
    }

    /// Returns the position of a row in the order of the seqs, or 0 if the positions are not open.
    pub(crate) fn position(&self, row: usize) -> u32 {
        self.positions.as_ref().map_or(0, |positions| positions.numbers[row] as u32)
    }

    fn open_agents(&mut self, (file, part): PartOfFile<'_>) -> Result<(), ColumnFileError> {
        if self.agents.is_none() {
            self.agents = Some((Block::new(file.agents(part)?), vec![0; AGENT_NUMBERS]));
        }
        Ok(())
    }

    fn add_filters(&mut self, file: PartOfFile<'_>, plan: &Plan<'_>) -> Result<(), ColumnFileError> {
        let filters = plan.filters;
        for (column, accepted) in filters.event_filters() {
            if !accepted.is_empty() {
                let at = self.text_column(file, column)?;
                let text = &mut self.texts[at];
                text.set_flag(REJECTED, |text| !accepted.iter().any(|value| value == text));
                // Neither an absent text nor `(other)` is accepted.
                text.flags[..CODE_FIRST as usize].fill(REJECTED);
            }
        }
        if !filters.device.is_empty() {
            self.open_agents(file)?;
            let is_refused =
                |number: usize| !filters.device.iter().any(|name| Some(&**name) == device_name(number));
            let (_, flags) = self.agents.get_or_insert_with(|| unreachable!("the column was opened"));
            flags
                .iter_mut()
                .enumerate()
                .filter(|(number, _)| is_refused(*number))
                .for_each(|(_, flags)| *flags = REJECTED);
        }
        if !filters.event.is_empty() {
            let at = self.text_column(file, TextColumn::Event)?;
            self.texts[at].set_flag(EVENT_HIT, |text| filters.event.iter().any(|name| name == text));
        }
        if !filters.campaign.is_empty() {
            let at = self.text_column(file, TextColumn::Campaign)?;
            self.texts[at].set_flag(CAMPAIGN_HIT, |text| filters.campaign.iter().any(|name| name == text));
        }
        if plan.needs_variants || !filters.variant.is_empty() {
            let at = self.text_column(file, TextColumn::Variants)?;
            let shows = |text: &str, shown: &String| text.split(',').any(|pair| pair == shown);
            let text = &mut self.texts[at];
            text.set_flag(VARIANT_HIT, |text| filters.variant.iter().any(|shown| shows(text, shown)));
            text.set_flag(PERSONALIZED, is_personalized);
        }
        Ok(())
    }

    fn add_sources(
        &mut self,
        file: PartOfFile<'_>,
        plan: &Plan<'_>,
        values: &mut Values,
    ) -> Result<(), ColumnFileError> {
        if plan.filters.source.is_empty() && plan.value != RowValue::Of(Group::Source) {
            return Ok(());
        }
        let columns =
            [self.text_column(file, TextColumn::Source)?, self.text_column(file, TextColumn::ReferrerHost)?];
        let is_hit = |text: &str| plan.filters.source.iter().any(|source| source == text);
        let source = |value: u32, text: &str| {
            let flags = if value != NO_VALUE && is_hit(text) { SOURCE_HIT } else { 0 };
            (value, flags)
        };
        let sources = |numbers: Vec<u32>, texts: &[String]| {
            numbers.into_iter().zip(texts).map(|(value, text)| source(value, text)).collect()
        };
        // Without a list of sources only their presence matters.
        let mut unused = Values::default();
        let values = if plan.value == RowValue::Of(Group::Source) { values } else { &mut unused };
        let by_referrer = self.external_referrers(columns[1], plan.site, values);
        let by_source = self.texts[columns[0]].values(values);
        self.sources = Some(SourceRule {
            columns,
            by_source: sources(by_source, &self.texts[columns[0]].texts),
            by_referrer: sources(by_referrer, &self.texts[columns[1]].texts),
            direct: source(values.number(DIRECT), DIRECT),
        });
        Ok(())
    }

    /// Returns the values of the referrer hosts that are external.
    fn external_referrers(&self, at: usize, site: &SiteFacts, values: &mut Values) -> Vec<u32> {
        let referrers = &self.texts[at];
        let mut numbers = referrers.values(values);
        for (number, host) in numbers.iter_mut().zip(&referrers.texts) {
            if !site.is_external_host(host) {
                *number = NO_VALUE;
            }
        }
        numbers
    }

    fn value_rule(
        &mut self,
        file: PartOfFile<'_>,
        plan: &Plan<'_>,
        values: &mut Values,
    ) -> Result<ValueRule, ColumnFileError> {
        let group = match plan.value {
            RowValue::Nothing => return Ok(ValueRule::Nothing),
            RowValue::Shown => return self.shown_rule(file),
            RowValue::Of(group) => group,
        };
        let column = match group {
            Group::Page | Group::Entry | Group::Exit => TextColumn::Path,
            Group::Medium => TextColumn::Medium,
            Group::Campaign => TextColumn::Campaign,
            Group::Term => TextColumn::Term,
            Group::Content => TextColumn::Content,
            Group::Country => TextColumn::Country,
            Group::Language => TextColumn::Language,
            Group::Event => TextColumn::Event,
            Group::Source => return Ok(ValueRule::Source),
            Group::Referrer => {
                let at = self.text_column(file, TextColumn::ReferrerHost)?;
                return Ok(ValueRule::Text(at, self.external_referrers(at, plan.site, values)));
            }
            Group::Device | Group::Os | Group::Browser => {
                self.open_agents(file)?;
                let name = |number| match group {
                    Group::Device => device_name(number),
                    Group::Os => Os::from_byte((number / 5 % 7) as u8).and_then(Os::name),
                    _ => Browser::from_byte((number / 35) as u8).and_then(Browser::name),
                };
                let value = |number| name(number).map_or(NO_VALUE, |name| values.number(name));
                return Ok(ValueRule::Agent((0..AGENT_NUMBERS).map(value).collect()));
            }
        };
        let at = self.text_column(file, column)?;
        Ok(ValueRule::Text(at, self.texts[at].values(values)))
    }

    fn shown_rule(&mut self, file: PartOfFile<'_>) -> Result<ValueRule, ColumnFileError> {
        let variants = self.text_column(file, TextColumn::Variants)?;
        let events = self.text_column(file, TextColumn::Event)?;
        // It is unknown which variants `(other)` had.
        Ok(ValueRule::Shown(
            [(variants, false), (events, true)]
                .map(|(at, counts_other)| (at, TextNumbers::new(self.texts[at].texts.len(), counts_other))),
        ))
    }

    /// Reads the next block of all columns. Returns false at the end.
    pub(crate) fn next_block(&mut self) -> Result<bool, ColumnFileError> {
        for block in [&mut self.times, &mut self.visitors, &mut self.sites, &mut self.kinds] {
            block.next()?;
        }
        self.agents.iter_mut().try_for_each(|(block, _)| block.next())?;
        self.positions.iter_mut().try_for_each(Block::next)?;
        self.texts.iter_mut().try_for_each(|text| text.block.next())?;
        Ok(self.len() > 0)
    }

    /// Returns the rows of the present block.
    pub(crate) fn len(&self) -> usize {
        self.times.numbers.len()
    }

    /// Returns the visitor of a row, as an index into the visitors of the file.
    pub(crate) fn visitor(&self, row: usize) -> Option<usize> {
        (self.visitors.numbers[row] as usize).checked_sub(1)
    }

    /// Returns the code of the site of a row.
    pub(crate) fn site(&self, row: usize) -> i64 {
        self.sites.numbers[row]
    }

    /// Returns whether a row is of this kind.
    pub(crate) fn is_kind(&self, row: usize, kind: RecordKind) -> bool {
        self.kinds.numbers[row] & !KIND_FLAGS == kind as i64
    }

    /// Returns the time of a row in milliseconds.
    pub(crate) fn time_ms(&self, row: usize) -> i64 {
        self.times.numbers[row]
    }

    /// Reads a row of the present block. Returns `None` if the plan does not need it. Counts texts that are
    /// `(other)` in `other`.
    pub(crate) fn read_row(
        &self,
        row: usize,
        plan: &Plan<'_>,
        other: &mut [u64; TextColumn::COUNT],
    ) -> Option<Row> {
        let time = self.times.numbers[row];
        let mut flags = self.kind_flags[self.kinds.numbers[row] as usize]?;
        if !plan.window.contains(&time) {
            return None;
        }
        for text in &self.texts {
            let code = text.code(row);
            flags |= text.flags[code];
            if code == CODE_OTHER as usize && plan.range.contains(&time) {
                other[text.column as usize] += 1;
            }
        }
        if let Some((agents, agent_flags)) = &self.agents {
            flags |= agent_flags[agents.numbers[row] as usize];
        }
        let (source, source_flags) =
            self.sources.as_ref().map_or((NO_VALUE, 0), |rule| self.source(row, rule));
        flags |= source_flags;
        let value = match &self.value {
            ValueRule::Nothing | ValueRule::Shown(_) => NO_VALUE,
            ValueRule::Text(at, values) => values[self.texts[*at].code(row)],
            ValueRule::Agent(values) => {
                self.agents.as_ref().map_or(NO_VALUE, |(agents, _)| values[agents.numbers[row] as usize])
            }
            ValueRule::Source => source,
        };
        Some(Row::new(value, time, flags))
    }

    /// Returns a row that was read, with the number of its value if the rule numbers only the values of such
    /// rows. Returns `None` if it has no value by this rule.
    pub(crate) fn with_number(&mut self, row: usize, read: Row, values: &mut Values) -> Option<Row> {
        let ValueRule::Shown(by_kind) = &mut self.value else { return Some(read) };
        let is_page = read.has(PAGE);
        if !is_page && !read.has(ACTION) || is_page && read.has(REJECTED) {
            return None;
        }
        let (at, numbers) = &mut by_kind[usize::from(!is_page)];
        let text = &self.texts[*at];
        let code = text.code(row);
        let value = numbers.number(code, &text.texts[code], values);
        (value != NO_VALUE).then_some(Row { value, ..read })
    }

    fn source(&self, row: usize, rule: &SourceRule) -> Source {
        let [source, referrer] = rule.columns.map(|at| self.texts[at].code(row));
        let found = [rule.by_source[source], rule.by_referrer[referrer], rule.direct];
        found.into_iter().find(|(value, _)| *value != NO_VALUE).unwrap_or((NO_VALUE, 0))
    }
}

fn device_name(number: usize) -> Option<&'static str> {
    Device::from_byte((number % 5) as u8).and_then(Device::name)
}

/// Returns the flags of a kind with its flags in the column. `None` if no question counts such a row.
fn kind_flags(kind: i64, bots: bool) -> Option<u16> {
    if kind & KIND_BOT != 0 && !bots {
        return None;
    }
    let visit = if kind & KIND_VISIT != 0 { OF_VISIT } else { 0 };
    let is = |other: RecordKind| kind & !KIND_FLAGS == other as i64;
    if is(RecordKind::Page) {
        Some(PAGE | visit)
    } else if is(RecordKind::Track) || is(RecordKind::Screen) {
        Some(ACTION | visit)
    } else {
        None
    }
}

/// Returns whether variants have one other than `default`.
fn is_personalized(variants: &str) -> bool {
    variants.split(',').any(|pair| !pair.is_empty() && !pair.ends_with(":default"))
}
