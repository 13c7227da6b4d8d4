//! Builds a column file from the records of one segment. The caller adds the records in the order of their seqs.

use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::sync::Arc;

use super::amounts::{Amount, amounts_of};
use super::format::{
    AGENTS, AMOUNT_BYTES, AMOUNTS, COLUMN_TEXT_BYTES_MAX, CURRENCIES, GOAL_AMOUNTS, GOAL_CODES, GOAL_IDS,
    GOAL_SETS, HEADER_BYTES, Header, KIND_BOT, KIND_GPC, KIND_VISIT, KINDS, OLDEST_RECEIPT, POSITIONS,
    ROW_VISITORS, SCREEN, SECTIONS, Section, TIE_ALIAS, TIE_END, TIES, TIMES, TextColumn, USERS_ALONE,
    VISITORS,
};
use super::goals::{GoalWriter, SitesGoals};
use super::key::VisitorKey;
use super::packing::{PackedWriter, write_zeros};
use super::properties::PropertyWriter;
use super::texts::{TextBudget, TextWriter};
use crate::checksum::crc32c;
use crate::events::identity;
use crate::limits::SEGMENT_RECORDS_MAX;
use crate::little_endian::u32_at;
use crate::record::fold_input::FoldParts;
use crate::record::{Record, RecordKind};
use crate::site::goals::Properties;
use crate::url::normal_host;

/// A builder of a column file, or of the columns of the active segment.
#[derive(Debug, Clone)]
pub struct ColumnBuilder {
    key: VisitorKey,
    first_seq: u64,
    rows: u32,
    oldest_ms: Option<i64>,
    newest_ms: Option<i64>,
    oldest_receipt_ms: Option<i64>,
    /// The number of each visitor, by the hash of the visitor. Visitors get their numbers in the order of their first
    /// rows.
    visitors: HashMap<u64, u32>,
    times: PackedWriter,
    kinds: PackedWriter,
    agents: PackedWriter,
    /// For each row, the number of the visitor in `visitors` plus 1. It is 0 for a record without an ID.
    row_visitors: Vec<u32>,
    texts: [TextWriter; TextColumn::SHARED_COUNT],
    text_budget: TextBudget,
    amounts: Vec<u8>,
    goals: GoalWriter,
    properties: PropertyWriter,
    ties: Vec<TieEntry>,
    /// The number of each visitor that has an event without an anonymous ID.
    users_alone: BTreeSet<u32>,
    /// A buffer for the unpacked fold input.
    content: Vec<u8>,
}

/// A record that names a tie. `anonymous` and `user` are numbers of visitors in the builder. If the record ends the
/// tie, `user` equals `anonymous`.
#[derive(Debug, Clone, Copy)]
struct TieEntry {
    row: u32,
    anonymous: u32,
    user: u32,
    flags: u8,
}

impl ColumnBuilder {
    /// Creates the builder of the segment that begins with `first_seq`.
    pub fn new(first_seq: u64, key: VisitorKey) -> Self {
        Self {
            key,
            first_seq,
            rows: 0,
            oldest_ms: None,
            newest_ms: None,
            oldest_receipt_ms: None,
            visitors: HashMap::new(),
            times: PackedWriter::default(),
            kinds: PackedWriter::default(),
            agents: PackedWriter::default(),
            row_visitors: Vec::new(),
            texts: Default::default(),
            text_budget: TextBudget::new(COLUMN_TEXT_BYTES_MAX),
            amounts: Vec::new(),
            goals: GoalWriter::default(),
            properties: PropertyWriter::default(),
            ties: Vec::new(),
            users_alone: BTreeSet::new(),
            content: Vec::new(),
        }
    }

    /// Returns the builder with the goals and properties of the sites that it notes for each record. It has no records yet.
    #[must_use]
    pub fn with_goals(self, goals: Arc<SitesGoals>) -> Self {
        let properties = PropertyWriter::new(&goals);
        Self { goals: GoalWriter::new(goals), properties, ..self }
    }

    /// Returns the goals of the sites that the builder notes.
    pub(crate) fn goals(&self) -> &Arc<SitesGoals> {
        self.goals.sites()
    }

    /// Returns the first seq of the segment.
    pub(crate) fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Adds the next record. A void record or a tombstone gets no row.
    pub fn add(&mut self, record: &Record<'_>) {
        if !has_row(record.kind) || u64::from(self.rows) >= SEGMENT_RECORDS_MAX {
            return;
        }
        let min = |oldest: Option<i64>, time_ms: i64| Some(oldest.unwrap_or(time_ms).min(time_ms));
        self.oldest_ms = min(self.oldest_ms, record.timestamp_ms);
        self.newest_ms = self.newest_ms.max(Some(record.timestamp_ms));
        self.oldest_receipt_ms = min(self.oldest_receipt_ms, record.received_ms);
        self.times.push(record.timestamp_ms);
        let visitor = self.key.hash_of(record).map(|hash| self.visitor_index(hash));
        self.row_visitors.push(visitor.map_or(0, |index| index + 1));
        let is_event = matches!(record.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen);
        if let Some(index) = visitor.filter(|_| is_event && record.anon_id.is_none()) {
            self.users_alone.insert(index);
        }
        let is_of_visit = record.anon_id.is_some() && record.is_of_visit();
        let flags = [(is_of_visit, KIND_VISIT), (record.bot, KIND_BOT), (record.gpc, KIND_GPC)];
        let flags: i64 = flags.map(|(is_set, flag)| i64::from(is_set) * flag).iter().sum();
        self.kinds.push(i64::from(record.kind as u8) + flags);
        let agent = record.context.agent();
        let [device, os, browser] = [agent.device as u8, agent.os as u8, agent.browser as u8].map(i64::from);
        self.agents.push(device + 5 * (os + 7 * browser));
        self.add_texts(record);
        if matches!(record.kind, RecordKind::Track | RecordKind::Screen) {
            self.add_amounts(record.payload);
        }
        self.add_goals(record);
        self.add_tie(record);
        self.rows += 1;
    }

    fn add_goals(&mut self, record: &Record<'_>) {
        let sites = Arc::clone(self.goals.sites());
        let site = record.site.and_then(|site| sites.of_site(site));
        let properties = Properties::new(record.payload);
        self.goals.add(self.rows, record, site, &properties);
        let has_properties = matches!(record.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen);
        self.properties.add(site.filter(|_| has_properties), &properties);
    }

    fn add_tie(&mut self, record: &Record<'_>) {
        let Some((anonymous, user)) = identity::named_tie(record, record.previous_id(&mut self.content))
        else {
            return;
        };
        let site = record.site.unwrap_or_default();
        let user = user.map(|id| self.key.hash(site, b'u', id));
        let anonymous = self.key.hash(site, b'a', anonymous);
        let anonymous = self.visitor_index(anonymous);
        let user_index = user.map_or(anonymous, |user| self.visitor_index(user));
        let flags = if user.is_none() {
            TIE_END
        } else if record.kind == RecordKind::Alias {
            TIE_ALIAS
        } else {
            0
        };
        self.ties.push(TieEntry { row: self.rows, anonymous, user: user_index, flags });
    }

    fn visitor_index(&mut self, hash: u64) -> u32 {
        let next = self.visitors.len() as u32;
        *self.visitors.entry(hash).or_insert(next)
    }

    fn add_texts(&mut self, record: &Record<'_>) {
        record.fold_input.unpack(&mut self.content);
        let touch = FoldParts::parse(&self.content).touch.map(|touch| touch.texts()).unwrap_or_default();
        let [source, medium, campaign, term, content, referrer] = touch;
        let referrer_host = referrer.and_then(normal_host);
        let [.., country, language] = record.context.texts();
        let event = if record.kind == RecordKind::Screen { Some(SCREEN) } else { record.event };
        let texts = [
            record.site,
            event,
            record.path,
            record.variants,
            record.experiments,
            referrer_host.as_deref(),
            source,
            medium,
            campaign,
            term,
            content,
            country,
            language,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text, &mut self.text_budget);
        }
    }

    fn add_amounts(&mut self, payload: &str) {
        for (column, amount) in amounts_of(payload).into_iter().enumerate() {
            let Some(amount) = amount else { continue };
            let units = match amount {
                Amount::Units(units) => units,
                Amount::Ignored => i64::MIN,
            };
            self.amounts.extend_from_slice(&self.rows.to_le_bytes());
            self.amounts.push(column as u8);
            self.amounts.extend_from_slice(&units.to_le_bytes());
        }
    }

    /// Returns the bytes of a column file. `last_seq` is the last seq of the segment.
    pub fn to_bytes(&self, last_seq: u64) -> Vec<u8> {
        let visitors = SortedVisitors::new(&self.visitors);
        let order = self.row_order(&visitors);
        self.write_file(last_seq, &visitors, Some(&order))
    }

    /// Returns the bytes of columns whose rows are in the order of their seqs. They take less work than a column file,
    /// because the rows are not sorted. A question can read both formats.
    pub(crate) fn to_tail_bytes(&self, last_seq: u64) -> Vec<u8> {
        self.write_file(last_seq, &SortedVisitors::new(&self.visitors), None)
    }

    fn write_file(&self, last_seq: u64, visitors: &SortedVisitors, row_order: Option<&[u32]>) -> Vec<u8> {
        let mut positions = vec![0; if row_order.is_some() { self.rows as usize } else { 0 }];
        for (position, row) in row_order.unwrap_or_default().iter().enumerate() {
            positions[*row as usize] = position as u32;
        }
        let rows = RowOrder { order: row_order, positions };
        let mut file = FileWriter::new();
        for section in 0..SECTIONS {
            file.add_section(|out| self.write_section(section, visitors, &rows, out));
        }
        file.finish(Header {
            first_seq: self.first_seq,
            last_seq,
            rows: self.rows,
            visitors: visitors.hashes.len() as u32,
            oldest_ms: self.oldest_ms.unwrap_or_default(),
            newest_ms: self.newest_ms.unwrap_or_default(),
            key_id: self.key.id(),
            sections: [Section::default(); SECTIONS],
        })
    }

    /// Returns the rows, sorted by visitor, then by time, then by seq.
    fn row_order(&self, visitors: &SortedVisitors) -> Vec<u32> {
        let mut ends = vec![0_u32; visitors.hashes.len() + 2];
        let number = |row: usize| visitors.number_of(self.row_visitors[row]) as usize;
        let rows = self.rows as usize;
        (0..rows).for_each(|row| ends[number(row) + 1] += 1);
        for visitor in 1..ends.len() {
            ends[visitor] += ends[visitor - 1];
        }
        let starts = ends.clone();
        let mut order = vec![0_u32; rows];
        for row in 0..rows {
            let end = &mut ends[number(row)];
            order[*end as usize] = row as u32;
            *end += 1;
        }
        let times = self.times.numbers();
        for span in starts.windows(2) {
            let visitor_rows = &mut order[span[0] as usize..span[1] as usize];
            if !visitor_rows.is_sorted_by_key(|row| times[*row as usize]) {
                visitor_rows.sort_by_key(|row| times[*row as usize]);
            }
        }
        order
    }

    fn write_section(
        &self,
        section_index: usize,
        visitors: &SortedVisitors,
        row_order: &RowOrder<'_>,
        out: &mut Vec<u8>,
    ) {
        match section_index {
            VISITORS => visitors.hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes())),
            TIMES => row_order.write(&self.times, out),
            ROW_VISITORS => {
                let mut column = PackedWriter::default();
                self.row_visitors.iter().for_each(|index| column.push(visitors.number_of(*index)));
                row_order.write(&column, out);
            }
            KINDS => row_order.write(&self.kinds, out),
            AGENTS => row_order.write(&self.agents, out),
            AMOUNTS => self.amounts.chunks_exact(AMOUNT_BYTES).for_each(|entry| {
                out.extend_from_slice(&row_order.position(u32_at(entry, 0)).to_le_bytes());
                out.extend_from_slice(&entry[4..]);
            }),
            TIES => self.ties.iter().for_each(|tie| {
                let [anonymous, user] =
                    [tie.anonymous, tie.user].map(|index| visitors.sorted_index[index as usize]);
                [tie.row, anonymous, user]
                    .iter()
                    .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
                out.push(tie.flags);
            }),
            USERS_ALONE => {
                let mut users: Vec<u32> =
                    self.users_alone.iter().map(|index| visitors.sorted_index[*index as usize]).collect();
                users.sort_unstable();
                users.iter().for_each(|index| out.extend_from_slice(&index.to_le_bytes()));
            }
            OLDEST_RECEIPT => out.extend(self.oldest_receipt_ms.into_iter().flat_map(i64::to_le_bytes)),
            POSITIONS => {
                let mut column = PackedWriter::default();
                (0..self.rows).for_each(|row| column.push(i64::from(row)));
                row_order.write(&column, out);
            }
            GOAL_IDS => self.goals.write_ids(out),
            GOAL_CODES => row_order.write(self.goals.codes(), out),
            GOAL_SETS => self.goals.write_sets(out),
            GOAL_AMOUNTS => self.goals.write_amounts(|row| row_order.position(row), out),
            CURRENCIES => self.goals.write_currencies(out),
            _ => {
                let none = TextWriter::default();
                let writers = self.texts.iter().chain(self.properties.columns()).chain(iter::repeat(&none));
                for (column, writer) in TextColumn::all().zip(writers) {
                    if section_index == column.texts_section() {
                        out.extend_from_slice(writer.texts());
                    } else if section_index == column.codes_section() {
                        match writer.codes().is_empty() {
                            true => write_zeros(self.rows as usize, out),
                            false => row_order.write(writer.codes(), out),
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether a record of this kind has a row.
pub(in crate::insights) fn has_row(kind: RecordKind) -> bool {
    !matches!(kind, RecordKind::Void | RecordKind::Tombstone)
}

/// The visitors of a file in the order of their hashes.
struct SortedVisitors {
    hashes: Vec<u64>,
    /// For each visitor number of the builder, the index of the visitor in `hashes`.
    sorted_index: Vec<u32>,
}

impl SortedVisitors {
    fn new(visitors: &HashMap<u64, u32>) -> Self {
        let mut hashes: Vec<(u64, u32)> = visitors.iter().map(|(hash, index)| (*hash, *index)).collect();
        hashes.sort_unstable();
        let mut sorted_index = vec![0_u32; hashes.len()];
        for (sorted, (_, index)) in hashes.iter().enumerate() {
            sorted_index[*index as usize] = sorted as u32;
        }
        Self { hashes: hashes.into_iter().map(|(hash, _)| hash).collect(), sorted_index }
    }

    /// Converts a visitor number of the builder to that of the file. Both are an index plus 1, or 0 without a visitor.
    fn number_of(&self, visitor_number: u32) -> i64 {
        visitor_number.checked_sub(1).map_or(0, |index| i64::from(self.sorted_index[index as usize]) + 1)
    }
}

/// The order of the rows of a file.
struct RowOrder<'o> {
    /// The rows in the order of the file. `None` if the file has its rows in the order of their seqs.
    order: Option<&'o [u32]>,
    /// The position of each row in the file. Empty if the file has its rows in the order of their seqs.
    positions: Vec<u32>,
}

impl RowOrder<'_> {
    fn position(&self, row: u32) -> u32 {
        self.positions.get(row as usize).copied().unwrap_or(row)
    }

    fn write(&self, column: &PackedWriter, out: &mut Vec<u8>) {
        let Some(order) = self.order else { return column.write(out) };
        let numbers = column.numbers();
        let mut ordered = PackedWriter::default();
        order.iter().for_each(|row| ordered.push(numbers[*row as usize]));
        ordered.write(out);
    }
}

/// A writer of the bytes of a file.
struct FileWriter {
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

impl FileWriter {
    fn new() -> Self {
        Self { bytes: vec![0; HEADER_BYTES], sections: Vec::with_capacity(SECTIONS) }
    }

    fn add_section(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let section = &self.bytes[start..];
        self.sections.push(Section { length: section.len() as u32, crc: crc32c(&[section]) });
    }

    fn finish(mut self, mut header: Header) -> Vec<u8> {
        header.sections.copy_from_slice(&self.sections);
        self.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.bytes
    }
}
