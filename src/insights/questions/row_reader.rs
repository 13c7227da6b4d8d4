//! Reads rows from the columns of a file. A row has those facts about one event that a question needs.

use super::blocks::{Block, PartOfFile, TextBlock};
use super::channel_rule::{ChannelColumns, ChannelRule};
use super::goals::{ConversionHits, Currencies, GoalColumns};
use super::plan::{Plan, RowValue};
use super::question::Group;
use super::row::{
    ACTION, CAMPAIGN_HIT, DIRECT_SOURCE, EVENT_HIT, GOAL_HIT, OF_VISIT, PAGE, PERSONALIZED, REJECTED, Row,
    SOURCE_HIT, VARIANT_HIT,
};
use super::site::SiteFacts;
use super::steps::{goal_mask, step_mask};
use super::values::{NO_VALUE, TextNumbers, Values};
use crate::insights::columns::format::{
    CODE_FIRST, CODE_OTHER, ColumnFileError, KIND_BOT, KIND_GPC, KIND_VISIT, TextColumn,
};
use crate::insights::columns::reader::AGENT_NUMBERS;
use crate::record::{Browser, Device, Os, RecordKind};

/// The bits of the column `kind` that are flags. The other bits are the [`RecordKind`].
const KIND_FLAGS: i64 = KIND_VISIT | KIND_BOT | KIND_GPC;

/// The name of the source in an answer if a visit has neither a source parameter nor an external referrer.
pub(crate) const DIRECT: &str = "(direct)";
/// The rule that gives a row its value.
enum ValueRule {
    Nothing,
    /// The value is a text. The fields are the index of a text column, and the value of each code.
    Text(usize, Vec<u32>),
    /// The value is a device, an operating system or a browser. The field has the value of each agent number.
    Agent(Vec<u32>),
    Source,
    Channel(ChannelRule),
    /// The value of a page or track event is in a list. The fields are those of `Text`.
    Paired(usize, Vec<u32>),
    /// The rule of [`RowValue::Shown`] and [`RowValue::Visited`].
    Numbered {
        pages: NumberedColumn,
        events: NumberedColumn,
        /// True if the question does not need rows without a value.
        needs_value: bool,
    },
}

/// A text column. A text gets its number when the first row with this text is read.
struct NumberedColumn {
    /// The index of the text column.
    column: usize,
    numbers: TextNumbers,
}

/// The source of an event.
#[derive(Clone, Copy)]
struct Source {
    value: u32,
    /// The flags of each event that has this source.
    flags: u16,
}

impl Source {
    const NONE: Self = Self { value: NO_VALUE, flags: 0 };

    fn with_flags(self, flags: u16) -> Self {
        Self { flags: self.flags | flags, ..self }
    }
}

/// The rule that gives an event its source.
struct SourceRule {
    /// The index of the text column of sources.
    source_column: usize,
    /// The index of the text column of referrer hosts.
    referrer_column: usize,
    /// The source of each code of the source column. [`NO_VALUE`] means that the referrer host decides.
    by_source: Vec<Source>,
    /// The source of each code of the referrer host. [`NO_VALUE`] means that the field `direct` has the source.
    by_referrer: Vec<Source>,
    direct: Source,
}

/// A reader of one file. It reads the columns that a plan needs.
pub(crate) struct FileReader {
    times: Block,
    visitors: Block,
    sites: Block,
    kinds: Block,
    /// The agent column, and the flags of each agent number.
    agents: Option<(Block, Vec<u16>)>,
    texts: Vec<TextBlock>,
    sources: Option<SourceRule>,
    value: ValueRule,
    /// The goals of the rows. `None` if the question counts no goals.
    goals: Option<GoalColumns>,
    kind_flags: [Option<u16>; 256],
    /// The position of each row in the order of the seqs. `None` if the reader does not need positions.
    positions: Option<Block>,
}

impl FileReader {
    pub(crate) fn new(
        part_of_file: PartOfFile<'_>,
        site_code_count: usize,
        plan: &Plan<'_>,
        values: &mut Values,
    ) -> Result<Self, ColumnFileError> {
        let PartOfFile { columns, part } = part_of_file;
        let mut reader = Self {
            times: Block::new(columns.times(part)?),
            visitors: Block::new(columns.row_visitors(part)?),
            sites: Block::new(columns.codes(TextColumn::Site, site_code_count, part)?),
            kinds: Block::new(columns.kinds(part)?),
            agents: None,
            texts: Vec::new(),
            sources: None,
            value: ValueRule::Nothing,
            goals: None,
            kind_flags: std::array::from_fn(|kind| kind_flags(kind as i64, plan.bots)),
            positions: None,
        };
        reader.add_filters(part_of_file, plan)?;
        reader.add_sources(part_of_file, plan, values)?;
        reader.value = reader.value_rule(part_of_file, plan, values)?;
        reader.add_steps(part_of_file, plan)?;
        Ok(reader)
    }

    fn add_steps(&mut self, part_of_file: PartOfFile<'_>, plan: &Plan<'_>) -> Result<(), ColumnFileError> {
        for column in [TextColumn::Path, TextColumn::Event].iter().filter(|_| !plan.steps.is_empty()) {
            let index = self.text_column(part_of_file, *column)?;
            let TextBlock { texts, step_masks, .. } = &mut self.texts[index];
            let masks = texts.iter().map(|text| step_mask(plan.steps, *column, text));
            *step_masks = masks.collect();
            // No step accepts an absent text or `(other)`.
            step_masks[..CODE_FIRST as usize].fill(0);
        }
        Ok(())
    }

    /// Returns the index of a text column. Opens the column if it is not open yet.
    fn text_column(
        &mut self,
        part_of_file: PartOfFile<'_>,
        column: TextColumn,
    ) -> Result<usize, ColumnFileError> {
        if let Some(index) = self.texts.iter().position(|text| text.column == column) {
            return Ok(index);
        }
        let texts = part_of_file.columns.texts(column)?;
        let block = Block::new(part_of_file.columns.codes(column, texts.len(), part_of_file.part)?);
        let flags = vec![0; texts.len()];
        self.texts.push(TextBlock { column, block, texts, flags, step_masks: Vec::new() });
        Ok(self.texts.len() - 1)
    }

    /// Opens the goals of the rows. The caller must call this before it reads the first block.
    pub(crate) fn open_goals(
        &mut self,
        part_of_file: PartOfFile<'_>,
        currencies: &mut Currencies,
    ) -> Result<(), ColumnFileError> {
        self.goals = Some(GoalColumns::open(part_of_file.columns, part_of_file.part, currencies)?);
        Ok(())
    }

    /// Adds the conversions of an event to `hits`. `row` is the row of the event in the current block.
    pub(crate) fn with_goals(
        &mut self,
        row: usize,
        event: Row,
        plan: &Plan<'_>,
        hits: &mut ConversionHits,
    ) -> Row {
        let index = self.goals.as_mut().and_then(|goals| hits.add(goals, row, plan.goals));
        index.map_or(event, |index| event.with_flags(GOAL_HIT).with_order(index))
    }

    /// Opens the positions of the rows. The caller must call this before it reads the first block.
    pub(crate) fn open_positions(&mut self, part_of_file: PartOfFile<'_>) -> Result<(), ColumnFileError> {
        self.positions = Some(Block::new(part_of_file.columns.positions(part_of_file.part)?));
        Ok(())
    }

    /// Returns the position of a row in the order of the seqs. Returns 0 if the column of positions is not open.
    pub(crate) fn position(&self, row: usize) -> u32 {
        self.positions.as_ref().map_or(0, |positions| positions.numbers[row] as u32)
    }

    fn open_agents(&mut self, part_of_file: PartOfFile<'_>) -> Result<(), ColumnFileError> {
        if self.agents.is_none() {
            self.agents =
                Some((Block::new(part_of_file.columns.agents(part_of_file.part)?), vec![0; AGENT_NUMBERS]));
        }
        Ok(())
    }

    fn add_filters(&mut self, part_of_file: PartOfFile<'_>, plan: &Plan<'_>) -> Result<(), ColumnFileError> {
        let filters = plan.filters;
        for (column, accepted) in filters.event_filters() {
            if !accepted.is_empty() {
                let index = self.text_column(part_of_file, column)?;
                let text = &mut self.texts[index];
                text.set_flag(REJECTED, |text| !accepted.iter().any(|value| value == text));
                // The filter also rejects an absent text and `(other)`.
                text.flags[..CODE_FIRST as usize].fill(REJECTED);
            }
        }
        if !filters.device.is_empty() {
            self.open_agents(part_of_file)?;
            let is_refused =
                |number: usize| !filters.device.iter().any(|name| Some(&**name) == device_name(number));
            let (_, flags) = self.agents.get_or_insert_with(|| unreachable!("the column was opened"));
            for (_, flags) in flags.iter_mut().enumerate().filter(|(number, _)| is_refused(*number)) {
                *flags = REJECTED;
            }
        }
        if !filters.event.is_empty() {
            let events = self.text_column(part_of_file, TextColumn::Event)?;
            self.texts[events].set_flag(EVENT_HIT, |text| filters.event.iter().any(|name| name == text));
        }
        if !filters.campaign.is_empty() {
            let campaigns = self.text_column(part_of_file, TextColumn::Campaign)?;
            self.texts[campaigns]
                .set_flag(CAMPAIGN_HIT, |text| filters.campaign.iter().any(|name| name == text));
        }
        if plan.needs_variants || !filters.variant.is_empty() {
            let variants = self.text_column(part_of_file, TextColumn::Variants)?;
            let shows = |text: &str, shown: &String| text.split(',').any(|pair| pair == shown);
            let text = &mut self.texts[variants];
            text.set_flag(VARIANT_HIT, |text| filters.variant.iter().any(|shown| shows(text, shown)));
            text.set_flag(PERSONALIZED, is_personalized);
        }
        Ok(())
    }

    fn add_sources(
        &mut self,
        part_of_file: PartOfFile<'_>,
        plan: &Plan<'_>,
        values: &mut Values,
    ) -> Result<(), ColumnFileError> {
        let is_needed = !plan.filters.source.is_empty() || !plan.goals.is_empty();
        if !is_needed && plan.value != RowValue::Of(Group::Source) {
            return Ok(());
        }
        let source_column = self.text_column(part_of_file, TextColumn::Source)?;
        let referrer_column = self.text_column(part_of_file, TextColumn::ReferrerHost)?;
        let is_hit = |text: &str| plan.filters.source.iter().any(|source| source == text);
        let source = |value: u32, text: &str| {
            let flags = if value != NO_VALUE && is_hit(text) { SOURCE_HIT } else { 0 };
            Source { value, flags }
        };
        let sources = |numbers: Vec<u32>, texts: &[String]| {
            numbers.into_iter().zip(texts).map(|(value, text)| source(value, text)).collect()
        };
        // If the question does not group by source, the numbers of the sources are not needed later.
        let mut unused = Values::default();
        let values = if plan.value == RowValue::Of(Group::Source) { values } else { &mut unused };
        let by_referrer = self.external_referrers(referrer_column, plan.site, values);
        let by_source = self.texts[source_column].values(values);
        self.sources = Some(SourceRule {
            source_column,
            referrer_column,
            by_source: sources(by_source, &self.texts[source_column].texts),
            by_referrer: sources(by_referrer, &self.texts[referrer_column].texts),
            direct: source(values.number(DIRECT), DIRECT).with_flags(DIRECT_SOURCE),
        });
        Ok(())
    }

    /// Returns the number of the value of each referrer host. A host that is not external has no value.
    fn external_referrers(&self, column_index: usize, site: &SiteFacts, values: &mut Values) -> Vec<u32> {
        let referrers = &self.texts[column_index];
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
        part_of_file: PartOfFile<'_>,
        plan: &Plan<'_>,
        values: &mut Values,
    ) -> Result<ValueRule, ColumnFileError> {
        let group = match plan.value {
            RowValue::Nothing => return Ok(ValueRule::Nothing),
            RowValue::Shown => return self.numbered_rule(part_of_file, TextColumn::Variants),
            RowValue::Visited => return self.numbered_rule(part_of_file, TextColumn::Path),
            RowValue::Paired(paired) => {
                let index = self.text_column(part_of_file, paired.column())?;
                return Ok(ValueRule::Paired(index, paired.numbers(&self.texts[index], values)));
            }
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
            Group::Property(number) => TextColumn::Property(number),
            Group::Source => return Ok(ValueRule::Source),
            Group::Channel => return self.channel_rule(part_of_file, plan.site, values),
            Group::Referrer => {
                let index = self.text_column(part_of_file, TextColumn::ReferrerHost)?;
                return Ok(ValueRule::Text(index, self.external_referrers(index, plan.site, values)));
            }
            Group::Device | Group::Os | Group::Browser => {
                self.open_agents(part_of_file)?;
                let name = |number| match group {
                    Group::Device => device_name(number),
                    Group::Os => Os::from_byte((number / 5 % 7) as u8).and_then(Os::name),
                    _ => Browser::from_byte((number / 35) as u8).and_then(Browser::name),
                };
                let value = |number| name(number).map_or(NO_VALUE, |name| values.number(name));
                return Ok(ValueRule::Agent((0..AGENT_NUMBERS).map(value).collect()));
            }
        };
        let index = self.text_column(part_of_file, column)?;
        Ok(ValueRule::Text(index, self.texts[index].values(values)))
    }

    fn channel_rule(
        &mut self,
        part_of_file: PartOfFile<'_>,
        site: &SiteFacts,
        values: &mut Values,
    ) -> Result<ValueRule, ColumnFileError> {
        let [source, referrer, medium] = [TextColumn::Source, TextColumn::ReferrerHost, TextColumn::Medium];
        let columns = ChannelColumns {
            source: self.text_column(part_of_file, source)?,
            referrer: self.text_column(part_of_file, referrer)?,
            medium: self.text_column(part_of_file, medium)?,
        };
        Ok(ValueRule::Channel(ChannelRule::new(columns, &self.texts, site, values)))
    }

    fn numbered_rule(
        &mut self,
        part_of_file: PartOfFile<'_>,
        page_column: TextColumn,
    ) -> Result<ValueRule, ColumnFileError> {
        let mut numbered = |column, counts_other| {
            let column = self.text_column(part_of_file, column)?;
            let numbers = TextNumbers::new(self.texts[column].texts.len(), counts_other);
            Ok::<_, ColumnFileError>(NumberedColumn { column, numbers })
        };
        // The names of variants that became `(other)` are unknown, so the text `(other)` of variants gets no value.
        let has_variants = page_column == TextColumn::Variants;
        let pages = numbered(page_column, !has_variants)?;
        let events = numbered(TextColumn::Event, true)?;
        Ok(ValueRule::Numbered { pages, events, needs_value: has_variants })
    }

    /// Reads the next block of each column. Returns false if there is no further block.
    pub(crate) fn next_block(&mut self) -> Result<bool, ColumnFileError> {
        for block in [&mut self.times, &mut self.visitors, &mut self.sites, &mut self.kinds] {
            block.next()?;
        }
        self.agents.iter_mut().try_for_each(|(block, _)| block.next())?;
        self.positions.iter_mut().try_for_each(Block::next)?;
        self.goals.iter_mut().try_for_each(GoalColumns::next_block)?;
        self.texts.iter_mut().try_for_each(|text| text.block.next())?;
        Ok(self.len() > 0)
    }

    /// Returns the number of rows in the current block.
    pub(crate) fn len(&self) -> usize {
        self.times.numbers.len()
    }

    /// Returns the visitor of a row, as an index into the visitors of the file. Returns `None` if the record has no ID.
    pub(crate) fn visitor(&self, row: usize) -> Option<usize> {
        (self.visitors.numbers[row] as usize).checked_sub(1)
    }

    /// Returns the code of the site of a row.
    pub(crate) fn site(&self, row: usize) -> i64 {
        self.sites.numbers[row]
    }

    /// Returns true if the record of a row has this kind.
    pub(crate) fn is_kind(&self, row: usize, kind: RecordKind) -> bool {
        self.kinds.numbers[row] & !KIND_FLAGS == kind as i64
    }

    /// Returns true if the lists of pairs of a row count.
    fn has_lists(&self, row: usize) -> bool {
        self.is_kind(row, RecordKind::Page) || self.is_kind(row, RecordKind::Track)
    }

    /// Returns the time of a row, in milliseconds.
    pub(crate) fn time_ms(&self, row: usize) -> i64 {
        self.times.numbers[row]
    }

    /// Reads a row of the current block. Returns `None` if the plan does not need the row. For each text of the row
    /// that is `(other)`, adds 1 to the entry of its column in `other_row_counts`.
    pub(crate) fn read_row(
        &self,
        row: usize,
        plan: &Plan<'_>,
        other_row_counts: &mut [u64; TextColumn::COUNT],
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
                other_row_counts[text.column.index()] += 1;
            }
        }
        if let Some((agents, agent_flags)) = &self.agents {
            flags |= agent_flags[agents.numbers[row] as usize];
        }
        let source = self.sources.as_ref().map_or(Source::NONE, |rule| self.source(row, rule));
        flags |= source.flags;
        let value = match &self.value {
            ValueRule::Nothing | ValueRule::Numbered { .. } => NO_VALUE,
            ValueRule::Text(column, values) => values[self.texts[*column].code(row)],
            ValueRule::Agent(values) => {
                self.agents.as_ref().map_or(NO_VALUE, |(agents, _)| values[agents.numbers[row] as usize])
            }
            ValueRule::Source => source.value,
            ValueRule::Paired(column, values) if self.has_lists(row) => values[self.texts[*column].code(row)],
            ValueRule::Paired(..) => NO_VALUE,
            ValueRule::Channel(rule) => rule.value(row, &self.texts),
        };
        let order = if plan.steps.is_empty() { 0 } else { self.step_mask(row, flags, plan) };
        Some(Row::new(value, time, flags).with_order(order))
    }

    /// Returns the mask of the steps that accept a row with these flags.
    fn step_mask(&self, row: usize, flags: u16, plan: &Plan<'_>) -> u32 {
        let column = if flags & PAGE != 0 { TextColumn::Path } else { TextColumn::Event };
        let text = self.texts.iter().find(|text| text.column == column && !text.step_masks.is_empty());
        let of_goals = self.goals.as_ref().map_or(0, |goals| goal_mask(plan.steps, goals.set(row)));
        of_goals | text.map_or(0, |text| text.step_masks[text.code(row)])
    }

    /// Gives an event the number of its value, if the rule is [`ValueRule::Numbered`]. `row` is the row of the event in
    /// the current block. Returns `None` if the question does not need the event.
    pub(crate) fn with_number(&mut self, row: usize, mut event: Row, values: &mut Values) -> Option<Row> {
        let ValueRule::Numbered { pages, events, needs_value } = &mut self.value else { return Some(event) };
        let is_page = event.has(PAGE);
        if *needs_value && (!is_page && !event.has(ACTION) || is_page && event.has(REJECTED)) {
            return None;
        }
        let NumberedColumn { column, numbers } = if is_page { pages } else { events };
        let text = &self.texts[*column];
        let code = text.code(row);
        event.value = numbers.number(code, &text.texts[code], values);
        (event.value != NO_VALUE || !*needs_value).then_some(event)
    }

    fn source(&self, row: usize, rule: &SourceRule) -> Source {
        let source = rule.by_source[self.texts[rule.source_column].code(row)];
        let referrer = rule.by_referrer[self.texts[rule.referrer_column].code(row)];
        let sources = [source, referrer, rule.direct];
        sources.into_iter().find(|source| source.value != NO_VALUE).unwrap_or(Source::NONE)
    }
}

fn device_name(agent_number: usize) -> Option<&'static str> {
    Device::from_byte((agent_number % 5) as u8).and_then(Device::name)
}

/// Returns the flags of a row with this number in the column of kinds. `None` if the question does not count such a
/// row.
fn kind_flags(kind_number: i64, includes_bots: bool) -> Option<u16> {
    if kind_number & KIND_BOT != 0 && !includes_bots {
        return None;
    }
    let visit = if kind_number & KIND_VISIT != 0 { OF_VISIT } else { 0 };
    let is = |other: RecordKind| kind_number & !KIND_FLAGS == other as i64;
    if is(RecordKind::Page) {
        Some(PAGE | visit)
    } else if is(RecordKind::Track) || is(RecordKind::Screen) {
        Some(ACTION | visit)
    } else {
        None
    }
}

/// Returns whether at least one variant in this text is not `default`.
fn is_personalized(variants_text: &str) -> bool {
    variants_text.split(',').any(|pair| !pair.is_empty() && !pair.ends_with(":default"))
}
