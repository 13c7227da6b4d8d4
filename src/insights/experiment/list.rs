//! Parses the question for the list of experiments. Counts the visitors of each experiment in its newest phase.

use std::collections::HashMap;
use std::ops::Range;

use super::arms::{ArmNumber, Arms};
use super::file_columns::code_in;
use super::known::{KnownExperiment, Places};
use crate::insights::columns::format::{CODE_OTHER, TextColumn};
use crate::insights::columns::reader::{Columns, FilePart};
use crate::insights::questions::blocks::{Block, PartOfFile};
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::pairs::pairs;
use crate::insights::questions::part::{PARTS_MAX, Part};
use crate::insights::questions::plan::Plan;
use crate::insights::questions::question::{Filters, QuestionError, parse_bots, single_value};
use crate::insights::questions::row_reader::FileReader;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::Values;
use crate::record::{HELD_OUT, RecordKind};
use crate::site::catalog::phases::Phase;

/// The maximum memory per entry of the table of exposures, with the empty places of the table.
const EXPOSURE_BYTES: u64 = 2 * 65;

/// All parameters of the question except `site`.
pub(crate) const EXPERIMENTS_PARAM_NAMES: [&str; 1] = ["bots"];

/// The question about all experiments of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentsQuestion {
    /// The range in milliseconds. It ends at the end of the current local day.
    pub range: Range<i64>,
    /// The time of the question, in milliseconds.
    pub(super) now_ms: i64,
    /// True if the records of crawlers are included.
    pub bots: bool,
    /// The list has no parameters for filters, so every field is empty.
    filters: Filters,
    /// The experiments of the site, with their places.
    pub(super) known: Vec<(KnownExperiment, Places)>,
    /// True if the site has or had a holdout, so that `/insights/holdout` has an answer.
    pub(super) has_site_holdout: bool,
}

impl ExperimentsQuestion {
    /// Parses the parameters of the question. Ignores unknown parameters and empty parameters.
    ///
    /// # Errors
    /// The error of the first wrong parameter.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        known_experiments: Vec<(KnownExperiment, Places)>,
        has_site_holdout: bool,
    ) -> Result<Self, QuestionError> {
        let pairs: Vec<(&str, &str)> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        let bots = single_value(&pairs, "bots")?.map(parse_bots).transpose()?.unwrap_or_default();
        Ok(Self {
            range: 0..zone.last_days(now_ms, 1).end,
            now_ms,
            bots,
            filters: Filters::default(),
            known: known_experiments,
            has_site_holdout,
        })
    }

    /// Returns the start of the newest phase of an experiment. If the experiment has no phase, returns the start of the
    /// range.
    pub(super) fn start_ms(&self, known_experiment: &KnownExperiment) -> i64 {
        known_experiment.phases.last().map_or(self.range.start, |phase| phase.from_ms())
    }
}

/// Returns the arms of the newest phase. If the experiment has no phase, returns the published arms.
pub(super) fn newest_arms(known_experiment: &KnownExperiment) -> Vec<String> {
    let newest = known_experiment.phases.len().saturating_sub(1);
    known_experiment.arms_in(&known_experiment.phases[newest..])
}

/// The visitors of one experiment in its newest phase.
#[derive(Debug, Clone)]
pub(super) struct ListedCount {
    pub arms: Arms,
    /// The number of visitors of each arm, by the coverage at the first exposure. The first index is the number of the arm, and
    /// the second is that of the coverage in the newest phase.
    pub exposed_at: Vec<Vec<u64>>,
    /// The number of visitors whose arm is not listed, because [`UNKNOWN_ARMS_MAX`](super::arms::UNKNOWN_ARMS_MAX)
    /// other unknown arms were found first.
    pub unnamed: u64,
    /// The number of visitors with more than one arm.
    pub both: u64,
    /// The time of the earliest exposure of any visitor in the newest phase, in milliseconds.
    pub first_ms: Option<i64>,
    /// The time of the latest exposure of any visitor in the newest phase, in milliseconds.
    pub last_ms: Option<i64>,
}

impl ListedCount {
    fn new(known_experiment: &KnownExperiment) -> Self {
        let arms = Arms::new(&newest_arms(known_experiment), HELD_OUT);
        Self { exposed_at: Vec::new(), arms, unnamed: 0, both: 0, first_ms: None, last_ms: None }
    }

    fn add_time(&mut self, time_ms: i64) {
        self.first_ms = Some(self.first_ms.map_or(time_ms, |first_ms| first_ms.min(time_ms)));
        self.last_ms = self.last_ms.max(Some(time_ms));
    }

    fn add_visitor(&mut self, exposure: &Exposure, newest: Option<&Phase>) {
        // A visitor with an exposure before the phase does not count.
        if exposure.is_earlier {
            return;
        }
        if exposure.has_many_arms {
            self.both += 1;
            return;
        }
        match exposure.arm.named() {
            Some(number) => {
                self.exposed_at.resize(self.arms.names().len().max(number + 1), Vec::new());
                let exposed = &mut self.exposed_at[number];
                let coverage = newest.map_or(0, |phase| phase.coverage_at(exposure.first_ms));
                exposed.resize(exposed.len().max(coverage + 1), 0);
                exposed[coverage] += 1;
            }
            None => self.unnamed += 1,
        }
    }
}

/// The exposure of one visitor to one experiment. It combines all events of the visitor that name the experiment.
struct Exposure {
    /// The arm of the event that was read first.
    arm: ArmNumber,
    /// The time of the first exposure, in milliseconds.
    first_ms: i64,
    has_many_arms: bool,
    /// True if an exposure is before the start of the newest phase.
    is_earlier: bool,
}

/// The counts of all experiments, and the numbers of the scan.
#[derive(Debug)]
pub(super) struct List {
    /// The counts of each experiment, in the order of the question.
    pub counts: Vec<ListedCount>,
    /// The time of the latest page view of the site, in milliseconds.
    pub last_page_ms: Option<i64>,
    /// The number of rows of all segments.
    pub rows: u64,
    /// For the columns `site` and `experiments`, the number of rows whose text is `(other)`. The other numbers are 0.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the visitors of all experiments.
///
/// # Errors
/// A file is damaged, the time limit is exceeded, or a part of the visitors does not fit in the memory even with
/// [`PARTS_MAX`] parts.
pub(super) fn count_experiments(
    columns: &[&Columns],
    question: &ExperimentsQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<List, ScanError> {
    let mut part_count = 1;
    while part_count <= PARTS_MAX {
        let mut reader = ListReader::new(question, site);
        let is_complete = Part::all(part_count).try_fold(true, |is_complete, part| {
            Ok::<_, ScanError>(is_complete && reader.read_part(columns, part, limits)?)
        })?;
        if is_complete {
            return Ok(reader.list);
        }
        part_count *= 2;
    }
    Err(ScanError::TooLarge)
}

/// A visitor and an experiment to which the visitor was exposed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Participant {
    /// The hash of the visitor.
    visitor: u64,
    /// The index of the experiment in [`ExperimentsQuestion::known`].
    experiment: u16,
}

type Exposures = HashMap<Participant, Exposure>;

/// The reader of the exposures of all experiments.
struct ListReader<'q> {
    question: &'q ExperimentsQuestion,
    plan: Plan<'q>,
    /// The index of each experiment in [`ExperimentsQuestion::known`], by the key of the experiment.
    by_key: HashMap<&'q str, u16>,
    list: List,
}

impl<'q> ListReader<'q> {
    fn new(question: &'q ExperimentsQuestion, site: &'q SiteFacts) -> Self {
        let counts = question.known.iter().map(|(experiment, _)| ListedCount::new(experiment)).collect();
        let by_key = question.known.iter().zip(0..).map(|((known, _), index)| (known.key.as_str(), index));
        let list = List { counts, last_page_ms: None, rows: 0, other: Default::default() };
        let window = i64::MIN..question.range.end;
        let plan = Plan { window, ..Plan::new(site, &question.range, question.bots, &question.filters) };
        Self { question, plan, by_key: by_key.collect(), list }
    }

    /// Counts one part of the visitors. Returns false if the part does not fit in the memory.
    fn read_part(
        &mut self,
        columns: &[&Columns],
        part: Part,
        limits: &Limits<'_>,
    ) -> Result<bool, ScanError> {
        let mut exposures = Exposures::new();
        for file in columns {
            if part.is_first() {
                self.list.other[TextColumn::Site.index()] += file.rows_of_other_sites(&self.plan.range)?;
                self.list.rows += file.rows() as u64;
            }
            if !self.read_file(file, part, limits, &mut exposures)? {
                return Ok(false);
            }
        }
        for (participant, exposure) in &exposures {
            let index = usize::from(participant.experiment);
            self.list.counts[index].add_visitor(exposure, self.question.known[index].0.phases.last());
        }
        Ok(true)
    }

    /// Adds the exposures of a file. Returns false if the exposures do not fit in the memory.
    fn read_file(
        &mut self,
        file: &Columns,
        part: Part,
        limits: &Limits<'_>,
        exposures: &mut Exposures,
    ) -> Result<bool, ScanError> {
        let file = &*file.opened()?;
        let sites = file.texts(TextColumn::Site)?;
        let Some(site) = code_in(&sites, &self.plan.site.site) else { return Ok(true) };
        let texts = file.texts(TextColumn::Experiments)?;
        let hashes = file.visitors()?;
        let mut codes = Block::new(file.codes(TextColumn::Experiments, texts.len(), &FilePart::WHOLE)?);
        // For each code of a text: the experiments and arms that the text names. `None` until a row with this text is
        // read.
        let mut arms_by_code: Vec<Option<Vec<(u16, ArmNumber)>>> = vec![None; texts.len()];
        let mut values = Values::default();
        let mut reader = FileReader::new(PartOfFile::whole(file), sites.len(), &self.plan, &mut values)?;
        while reader.next_block()? {
            codes.next()?;
            limits.check_time()?;
            for row in 0..reader.len() {
                let code = codes.numbers[row] as usize;
                let Some(visitor) = reader.visitor(row).filter(|_| reader.site(row) == site) else {
                    continue;
                };
                let is_page = reader.is_kind(row, RecordKind::Page);
                if is_page && part.is_first() && Some(reader.time_ms(row)) > self.list.last_page_ms {
                    self.list.last_page_ms = self.list.last_page_ms.max(self.counted_ms(&reader, row));
                }
                let is_kind = reader.is_kind(row, RecordKind::Page) || reader.is_kind(row, RecordKind::Track);
                let Some(time_ms) = self.counted_ms(&reader, row).filter(|_| is_kind && code != 0) else {
                    continue;
                };
                self.list.other[TextColumn::Experiments.index()] +=
                    u64::from(code == CODE_OTHER as usize && part.is_first());
                let arms = arms_by_code[code].get_or_insert_with(|| self.arms(&texts[code]));
                let visitor = hashes[visitor];
                if part.has(visitor) {
                    arms.iter().for_each(|(experiment, arm)| {
                        let participant = Participant { visitor, experiment: *experiment };
                        self.add_exposure(exposures, participant, *arm, time_ms);
                    });
                }
            }
            if exposures.len() as u64 * EXPOSURE_BYTES > limits.memory_bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the time of a row, in milliseconds. Returns `None` if the row does not count.
    fn counted_ms(&self, reader: &FileReader, row: usize) -> Option<i64> {
        let event = reader.read_row(row, &self.plan, &mut [0; TextColumn::COUNT]);
        event.map(|event| event.time_ms())
    }

    /// Returns the known experiments in a text, each with its arm.
    fn arms(&mut self, experiments_text: &str) -> Vec<(u16, ArmNumber)> {
        let known = pairs(experiments_text).filter_map(|(key, arm)| Some((*self.by_key.get(key)?, arm)));
        let counts = &mut self.list.counts;
        known.map(|(index, arm)| (index, counts[usize::from(index)].arms.number(arm))).collect()
    }

    fn add_exposure(
        &mut self,
        exposures: &mut Exposures,
        participant: Participant,
        arm: ArmNumber,
        time_ms: i64,
    ) {
        let index = usize::from(participant.experiment);
        let is_earlier = time_ms < self.question.start_ms(&self.question.known[index].0);
        if !is_earlier {
            self.list.counts[index].add_time(time_ms);
        }
        let new = Exposure { arm, first_ms: time_ms, has_many_arms: false, is_earlier };
        let exposure = exposures.entry(participant).or_insert(new);
        exposure.has_many_arms |= exposure.arm != arm;
        exposure.is_earlier |= is_earlier;
        exposure.first_ms = exposure.first_ms.min(time_ms);
    }
}
