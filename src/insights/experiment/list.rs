//! The list of the experiments of a site: the question, and the visitors of each experiment over its newest phase.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::arms::{ArmNumber, Arms, pairs};
use super::count::PARTS_MAX;
use super::known::{KnownExperiment, Places};
use super::read::code_in;
use crate::insights::columns::format::{CODE_OTHER, TextColumn};
use crate::insights::columns::reader::{Columns, FilePart};
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::question::{Filters, QuestionError, parse_bots, single_value};
use crate::insights::questions::rows::{Block, FileReader, Plan, RowValue};
use crate::insights::questions::scan::{Limits, ScanError, part_of};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::Values;
use crate::visitors::log::RecordKind;

/// Memory of a visitor of an experiment: an entry of a table that is half full at worst.
const EXPOSED_BYTES: u64 = 2 * 49;

/// The parameters of the question.
pub(crate) const EXPERIMENTS_PARAM_NAMES: [&str; 1] = ["bots"];

/// The question about all experiments of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentsQuestion {
    /// All times up to the end of the present day.
    pub range: Range<i64>,
    pub bots: bool,
    /// None: a list has no filters.
    filters: Filters,
    pub(super) known: Vec<(KnownExperiment, Places)>,
}

impl ExperimentsQuestion {
    /// Reads the parameters of the question. Unknown parameters are ignored, and so are empty ones.
    ///
    /// # Errors
    /// The first parameter that is refused.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        known: Vec<(KnownExperiment, Places)>,
    ) -> Result<Self, QuestionError> {
        let pairs: Vec<(&str, &str)> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        let bots = single_value(&pairs, "bots")?.map(parse_bots).transpose()?.unwrap_or_default();
        Ok(Self { range: 0..zone.last_days(now_ms, 1).end, bots, filters: Filters::default(), known })
    }

    /// Returns the begin of the newest phase of an experiment. Without one, all kept events count.
    pub(super) fn start_ms(&self, experiment: &KnownExperiment) -> i64 {
        experiment.phases.last().map_or(self.range.start, |phase| phase.from_ms)
    }
}

/// Returns the arms of the newest phase, or the published ones.
pub(super) fn newest_arms(experiment: &KnownExperiment) -> Vec<String> {
    let newest = experiment.phases.len().saturating_sub(1);
    experiment.arms_in(&experiment.phases[newest..])
}

/// The visitors of an experiment over its newest phase.
#[derive(Debug, Clone)]
pub(super) struct ListedCount {
    pub arms: Arms,
    /// Visitors by the number of their arm. The first number is the holdout.
    pub exposed: Vec<u64>,
    /// Visitors of arms beyond the named ones.
    pub unnamed: u64,
    pub both: u64,
    /// The times of the first and the last exposure.
    pub times_ms: Option<(i64, i64)>,
}

impl ListedCount {
    fn new(experiment: &KnownExperiment) -> Self {
        let arms = Arms::new(&newest_arms(experiment));
        Self { exposed: Vec::new(), arms, unnamed: 0, both: 0, times_ms: None }
    }

    fn add_time(&mut self, time_ms: i64) {
        let (first_ms, last_ms) = self.times_ms.unwrap_or((time_ms, time_ms));
        self.times_ms = Some((first_ms.min(time_ms), last_ms.max(time_ms)));
    }

    fn add_visitor(&mut self, visitor: &Exposed) {
        // A visitor with an exposure before the phase is left out.
        if visitor.is_earlier {
            return;
        }
        if visitor.has_many_arms {
            self.both += 1;
            return;
        }
        match visitor.arm.named() {
            Some(number) => {
                self.exposed.resize(self.arms.names().len().max(number + 1), 0);
                self.exposed[number] += 1;
            }
            None => self.unnamed += 1,
        }
    }
}

/// The exposures of a visitor to an experiment.
struct Exposed {
    arm: ArmNumber,
    has_many_arms: bool,
    is_earlier: bool,
}

/// The counts of all experiments, with the facts about the scan.
#[derive(Debug)]
pub(super) struct List {
    /// In the order of the question.
    pub counts: Vec<ListedCount>,
    pub rows: u64,
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the visitors of all experiments.
///
/// # Errors
/// A file is damaged, the time is over, or the visitors do not fit the memory in any number of parts.
pub(super) fn count_experiments(
    files: &[&Columns],
    question: &ExperimentsQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<List, ScanError> {
    let mut parts = 1;
    while parts <= PARTS_MAX {
        let mut list = ListReader::new(question, site);
        let is_complete = (0..parts).try_fold(true, |is_complete, part| {
            Ok::<_, ScanError>(is_complete && list.read_part(files, (part, parts), limits)?)
        })?;
        if is_complete {
            return Ok(list.list);
        }
        parts *= 2;
    }
    Err(ScanError::TooLarge)
}

/// The exposures by the hash of the visitor and the index of the experiment.
type Visitors = HashMap<(u64, u16), Exposed>;

/// The reader of the exposures of all experiments.
struct ListReader<'q> {
    question: &'q ExperimentsQuestion,
    plan: Plan<'q>,
    /// The index of each experiment, by key.
    by_key: HashMap<&'q str, u16>,
    list: List,
}

impl<'q> ListReader<'q> {
    fn new(question: &'q ExperimentsQuestion, site: &'q SiteFacts) -> Self {
        let counts = question.known.iter().map(|(experiment, _)| ListedCount::new(experiment)).collect();
        let by_key = question.known.iter().zip(0..).map(|((known, _), index)| (known.key.as_str(), index));
        let list = List { counts, rows: 0, other: Default::default() };
        let plan = Plan {
            site,
            window: i64::MIN..question.range.end,
            range: question.range.clone(),
            bots: question.bots,
            filters: &question.filters,
            value: RowValue::Nothing,
            value_part: (0, 1),
            needs_variants: false,
        };
        Self { question, plan, by_key: by_key.collect(), list }
    }

    /// Counts one part of the visitors. Returns false if it does not fit the memory.
    fn read_part(
        &mut self,
        files: &[&Columns],
        (part, parts): (u64, u64),
        limits: &Limits<'_>,
    ) -> Result<bool, ScanError> {
        let mut visitors: Visitors = HashMap::new();
        for file in files {
            if part == 0 {
                self.list.other[TextColumn::Site as usize] += file.rows_of_other_sites(&self.plan.range)?;
            }
            if !self.read_file(file, (part, parts), limits, &mut visitors)? {
                return Ok(false);
            }
            self.list.rows += if part == 0 { file.rows() as u64 } else { 0 };
        }
        for ((_, experiment), visitor) in &visitors {
            self.list.counts[usize::from(*experiment)].add_visitor(visitor);
        }
        Ok(true)
    }

    /// Adds the exposures of a file. Returns false if the visitors do not fit the memory.
    fn read_file(
        &mut self,
        file: &Columns,
        part: (u64, u64),
        limits: &Limits<'_>,
        visitors: &mut Visitors,
    ) -> Result<bool, ScanError> {
        let file = &*file.opened()?;
        let sites = file.texts(TextColumn::Site)?;
        let Some(site) = code_in(&sites, &self.plan.site.site) else { return Ok(true) };
        let (texts, hashes) = (file.texts(TextColumn::Experiments)?, file.visitors()?);
        let mut codes = Block::new(file.codes(TextColumn::Experiments, texts.len(), &FilePart::WHOLE)?);
        let mut pairs_of: Vec<Option<Vec<(u16, ArmNumber)>>> = vec![None; texts.len()];
        let mut reader =
            FileReader::new((file, &FilePart::WHOLE), sites.len(), &self.plan, &mut Values::default())?;
        while reader.next_block()? {
            codes.next()?;
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            for row in 0..reader.len() {
                let code = codes.numbers[row] as usize;
                let Some(visitor) = reader.visitor(row).filter(|_| reader.site(row) == site) else {
                    continue;
                };
                let is_kind = reader.is_kind(row, RecordKind::Page) || reader.is_kind(row, RecordKind::Track);
                let Some(time_ms) = self.counted_ms(&reader, row).filter(|_| is_kind && code != 0) else {
                    continue;
                };
                self.list.other[TextColumn::Experiments as usize] +=
                    u64::from(code == CODE_OTHER as usize && part.0 == 0);
                let pairs = pairs_of[code].get_or_insert_with(|| self.pairs(&texts[code]));
                if part_of(hashes[visitor], part.1) == part.0 {
                    pairs.iter().for_each(|(experiment, arm)| {
                        self.add_exposure(visitors, (hashes[visitor], *experiment), *arm, time_ms);
                    });
                }
            }
            if visitors.len() as u64 * EXPOSED_BYTES > limits.memory_bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the time of a row that counts.
    fn counted_ms(&self, reader: &FileReader, row: usize) -> Option<i64> {
        let event = reader.read_row(row, &self.plan, &mut [0; TextColumn::COUNT]);
        event.map(|event| event.time_ms())
    }

    /// Returns the experiments of a text, and their arms.
    fn pairs(&mut self, text: &str) -> Vec<(u16, ArmNumber)> {
        let known = pairs(text).filter_map(|(key, arm)| Some((*self.by_key.get(key)?, arm)));
        let counts = &mut self.list.counts;
        known.map(|(index, arm)| (index, counts[usize::from(index)].arms.number(arm))).collect()
    }

    fn add_exposure(&mut self, visitors: &mut Visitors, of: (u64, u16), arm: ArmNumber, time_ms: i64) {
        let index = usize::from(of.1);
        let is_earlier = time_ms < self.question.start_ms(&self.question.known[index].0);
        if !is_earlier {
            self.list.counts[index].add_time(time_ms);
        }
        match visitors.entry(of) {
            Entry::Vacant(entry) => {
                entry.insert(Exposed { arm, has_many_arms: false, is_earlier });
            }
            Entry::Occupied(mut entry) => {
                let visitor = entry.get_mut();
                visitor.has_many_arms |= visitor.arm != arm;
                visitor.is_earlier |= is_earlier;
            }
        }
    }
}
