//! Experiments: the visitors of each arm, and the sums of each metric over them.
//!
//! A visitor is exposed at its first exposure in the range, and its goals count from then on. A goal without an
//! anonymous ID is credited to the anonymous ID of the user's latest earlier identify event.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::amounts::UNITS_PER_ONE;
use super::columns::{AmountEntry, Columns, FilePart};
use super::facts::read_column;
use super::format::{CODE_FIRST, ColumnFileError, KIND_BOT, KIND_GPC, TextColumn};
use super::metrics::{ExperimentQuestion, Goal, Metric};
use super::rows::Row;
use super::scan::{Gathered, Limits, ScanError, part_of, parts_of};
use crate::visitors::log::RecordKind;

/// The arm of the holdout.
pub(crate) const HOLDOUT: &str = "~";
/// An exposure. The value of its row is the arm.
const EXPOSURE: u16 = 1;
/// A goal. The value of its row is an index into the goals of the scan.
const GOAL: u16 = 1 << 1;

/// The sums of a metric over the visitors of an arm.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct MetricSums {
    pub visitors: u64,
    /// The visitors with at least one goal.
    pub converted: u64,
    /// The sum of the values in units of 10^-4.
    pub sum_units: i128,
    pub sum_of_squares: f64,
    /// The rounding error of `sum_of_squares`.
    compensation: f64,
    /// The visitors whose value the cap limits.
    pub capped: u64,
    /// Goals whose value is no amount.
    pub ignored_amounts: u64,
}

impl MetricSums {
    fn add(&mut self, goals: u64, units: i128, cap_units: Option<i64>) {
        let cap = cap_units.map_or(i128::MAX, i128::from);
        let limited = units.clamp(-cap, cap);
        self.visitors += 1;
        self.converted += u64::from(goals > 0);
        self.capped += u64::from(limited != units);
        self.sum_units += limited;
        // Neumaier's compensated summation.
        let square = (limited as f64 / UNITS_PER_ONE).powi(2);
        let sum = self.sum_of_squares + square;
        let (large, small) = if self.sum_of_squares >= square {
            (self.sum_of_squares, square)
        } else {
            (square, self.sum_of_squares)
        };
        self.compensation += (large - sum) + small;
        self.sum_of_squares = sum;
    }

    /// Returns the compensated sum of the squares.
    pub(crate) fn squares(&self) -> f64 {
        self.sum_of_squares + self.compensation
    }
}

/// The visitors of an experiment and their metrics.
#[derive(Debug, Default)]
pub(crate) struct ExperimentCount {
    /// By arm: the exposed visitors, and the sums of each metric. The holdout is the arm `~`.
    pub arms: BTreeMap<String, (u64, Vec<MetricSums>)>,
    /// Visitors with more than one arm.
    pub both: u64,
    /// Visitors with an exposure before the range and one in it.
    pub earlier: u64,
    /// Rows that were read.
    pub rows: u64,
}

/// A goal of a row.
#[derive(Debug, Clone, Copy)]
struct RowGoal {
    metric: usize,
    /// The value of a metric with one: `None` without a value, or if it is ignored.
    units: Option<i64>,
    is_ignored: bool,
}

/// Counts the exposures and the metrics of an experiment.
///
/// # Errors
/// A file is damaged, or the time is over.
pub(crate) fn count_experiment(
    files: &[&Columns],
    question: &ExperimentQuestion,
    site: &str,
    limits: &Limits<'_>,
) -> Result<ExperimentCount, ScanError> {
    let metrics = question.metrics();
    let ties = Ties::read(files, site, question.bots, limits)?;
    let mut count = ExperimentCount::default();
    let parts = parts_of(files.iter().copied(), limits);
    let (mut gathered, mut arms) = (Gathered::default(), Vec::new());
    for part in 0..parts {
        gathered.clear();
        let mut goals = Vec::new();
        for (number, file) in files.iter().enumerate() {
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            let mut reader =
                ExperimentReader { question, site, metrics: &metrics, arms: &mut arms, goals: &mut goals };
            reader.add_file(file, number as u64, &ties, &mut gathered, (part, parts))?;
            count.rows += if part == 0 { file.rows() as u64 } else { 0 };
        }
        gathered.each_visitor(limits, &mut |_, rows| {
            count.add_visitor(rows, question, &metrics, (&arms, &goals))
        })?;
    }
    Ok(count)
}

impl ExperimentCount {
    fn add_visitor(
        &mut self,
        rows: &[Row],
        question: &ExperimentQuestion,
        metrics: &[Metric],
        (arms, goals): (&[String], &[RowGoal]),
    ) {
        let mut exposures = rows.iter().filter(|row| row.has(EXPOSURE));
        let Some(first) = exposures.next() else { return };
        if first.time_ms() < question.range.start {
            self.earlier +=
                u64::from(rows.iter().any(|row| row.has(EXPOSURE) && row.time_ms() >= question.range.start));
            return;
        }
        if exposures.any(|row| row.value != first.value) {
            self.both += 1;
            return;
        }
        let (exposed, sums) = self.arms.entry(arms[first.value as usize].clone()).or_default();
        *exposed += 1;
        sums.resize(metrics.len(), MetricSums::default());
        let since_ms = first.time_ms();
        let until_ms = question.window_ms.map_or(i64::MAX, |window_ms| since_ms.saturating_add(window_ms));
        for (metric, sums) in sums.iter_mut().enumerate() {
            let in_window =
                rows.iter().filter(|row| row.has(GOAL) && (since_ms..until_ms).contains(&row.time_ms()));
            let (mut reached, mut units) = (0, 0_i128);
            for goal in in_window.map(|row| goals[row.value as usize]).filter(|goal| goal.metric == metric) {
                reached += 1;
                units += goal.units.map_or(0, i128::from);
                sums.ignored_amounts += u64::from(goal.is_ignored);
            }
            sums.add(reached, units, question.cap_units.filter(|_| metrics[metric].column.is_some()));
        }
    }
}

/// A place in the order of seqs: the file, then the position in it.
type Place = (u64, i64);

/// A tie of an anonymous ID to a user.
struct Tie {
    at: Place,
    /// The next tie of the anonymous ID.
    until: Option<Place>,
    anonymous: u64,
}

/// The ties of identify events, by the hash of the user.
#[derive(Default)]
struct Ties(HashMap<u64, Vec<Tie>>);

impl Ties {
    fn read(files: &[&Columns], site: &str, bots: bool, limits: &Limits<'_>) -> Result<Self, ScanError> {
        let mut all: Vec<(Place, u64, u64)> = Vec::new();
        for (number, file) in files.iter().enumerate() {
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            let ties = file.ties()?;
            if ties.is_empty() {
                continue;
            }
            let Some(site) = code_of_site(file, site)? else { continue };
            let (hashes, facts) = (file.visitors()?, RowColumns::read(file)?);
            for (row, user) in ties {
                let row = row as usize;
                let is_counted = facts.sites[row] == site && (bots || facts.kinds[row] & KIND_BOT == 0);
                if let Some(visitor) = facts.visitor(row).filter(|_| is_counted) {
                    all.push(((number as u64, facts.positions[row]), hashes[visitor], hashes[user as usize]));
                }
            }
        }
        let mut next: HashMap<u64, Place> = HashMap::new();
        let mut by_user: HashMap<u64, Vec<Tie>> = HashMap::new();
        for (at, anonymous, user) in all.into_iter().rev() {
            let until = next.insert(anonymous, at);
            by_user.entry(user).or_default().push(Tie { at, until, anonymous });
        }
        Ok(Self(by_user))
    }

    /// Returns the visitor to whom an event at this place is credited.
    fn credited(&self, visitor: u64, at: Place) -> u64 {
        let ties = self.0.get(&visitor).map_or(&[][..], Vec::as_slice);
        // The latest tie is first.
        let holds = |tie: &&Tie| tie.at < at && tie.until.is_none_or(|until| until > at);
        ties.iter().find(holds).map_or(visitor, |tie| tie.anonymous)
    }
}

/// The columns of all rows of a file that an experiment needs.
struct RowColumns {
    times: Vec<i64>,
    visitors: Vec<i64>,
    kinds: Vec<i64>,
    sites: Vec<i64>,
    /// The positions in the order of seqs.
    positions: Vec<i64>,
}

impl RowColumns {
    fn read(file: &Columns) -> Result<Self, ColumnFileError> {
        let sites = file.texts(TextColumn::Site)?.len();
        Ok(Self {
            times: read_column(file.times(&FilePart::WHOLE)?)?,
            visitors: read_column(file.row_visitors(&FilePart::WHOLE)?)?,
            kinds: read_column(file.kinds(&FilePart::WHOLE)?)?,
            sites: read_column(file.codes(TextColumn::Site, sites, &FilePart::WHOLE)?)?,
            positions: read_column(file.positions(&FilePart::WHOLE)?)?,
        })
    }

    fn visitor(&self, row: usize) -> Option<usize> {
        (self.visitors[row] as usize).checked_sub(1)
    }
}

fn code_of_site(file: &Columns, site: &str) -> Result<Option<i64>, ColumnFileError> {
    let texts = file.texts(TextColumn::Site)?;
    let found = texts.iter().skip(CODE_FIRST as usize).position(|other| other == site);
    Ok(found.map(|at| at as i64 + i64::from(CODE_FIRST)))
}

/// Adds the exposures and goals of files to the rows of a scan.
struct ExperimentReader<'q> {
    question: &'q ExperimentQuestion,
    site: &'q str,
    metrics: &'q [Metric],
    /// The arms in the order in which they are found.
    arms: &'q mut Vec<String>,
    goals: &'q mut Vec<RowGoal>,
}

impl ExperimentReader<'_> {
    fn add_file(
        &mut self,
        file: &Columns,
        number: u64,
        ties: &Ties,
        gathered: &mut Gathered,
        (part, parts): (u64, u64),
    ) -> Result<(), ColumnFileError> {
        let Some(site) = code_of_site(file, self.site)? else { return Ok(()) };
        let (hashes, facts) = (file.visitors()?, RowColumns::read(file)?);
        let arms = self.codes(file, TextColumn::Experiments, |reader, text| reader.arm_of(text))?;
        let events = self.codes(file, TextColumn::Event, |reader, text| {
            Some(reader.goals_of(|goal| goal.is_event(text)))
        })?;
        let pages = self
            .codes(file, TextColumn::Path, |reader, text| Some(reader.goals_of(|goal| goal.is_page(text))))?;
        let amounts = Amounts::read(file)?;
        let range: Range<i64> = i64::MIN..self.question.range.end;
        for row in 0..file.rows() {
            let kind = facts.kinds[row];
            let is_counted = facts.sites[row] == site
                && (self.question.bots || kind & KIND_BOT == 0)
                && range.contains(&facts.times[row]);
            let Some(visitor) = facts.visitor(row).filter(|_| is_counted) else { continue };
            let (hash, time) = (hashes[visitor], facts.times[row]);
            let kind = kind & !(KIND_BOT | KIND_GPC);
            let is = |other: RecordKind| kind == other as i64;
            if let Some(arm) = arms[row].filter(|_| is(RecordKind::Page) || is(RecordKind::Track))
                && part_of(hash, parts) == part
            {
                gathered.push(hash, arm, time, EXPOSURE);
            }
            let reached = match () {
                () if is(RecordKind::Page) => pages[row],
                () if is(RecordKind::Track) || is(RecordKind::Screen) => events[row],
                () => None,
            };
            let Some(reached) = reached.filter(|reached| *reached != 0) else { continue };
            let credited = ties.credited(hash, (number, facts.positions[row]));
            if part_of(credited, parts) == part {
                for metric in (0..self.metrics.len()).filter(|metric| reached >> metric & 1 == 1) {
                    let goal = self.row_goal(metric, row, &amounts);
                    gathered.push(credited, self.goals.len() as u32, time, GOAL);
                    self.goals.push(goal);
                }
            }
        }
        Ok(())
    }

    /// Returns a number for each row, which `find` derives from its text.
    fn codes(
        &mut self,
        file: &Columns,
        column: TextColumn,
        mut find: impl FnMut(&mut Self, &str) -> Option<u32>,
    ) -> Result<Vec<Option<u32>>, ColumnFileError> {
        let texts = file.texts(column)?;
        let mut by_code = vec![None; texts.len()];
        for (code, text) in texts.iter().enumerate().skip(CODE_FIRST as usize) {
            by_code[code] = find(self, text);
        }
        let codes = read_column(file.codes(column, texts.len(), &FilePart::WHOLE)?)?;
        Ok(codes.into_iter().map(|code| by_code[code as usize]).collect())
    }

    /// Returns the arm of the experiment in a text such as `key:arm,other:b`.
    fn arm_of(&mut self, experiments: &str) -> Option<u32> {
        let mut pairs = experiments.split(',').filter_map(|pair| pair.split_once(':'));
        let (_, arm) = pairs.find(|(key, _)| *key == self.question.key)?;
        let found = self.arms.iter().position(|other| other == arm);
        let at = found.unwrap_or_else(|| {
            self.arms.push(arm.to_owned());
            self.arms.len() - 1
        });
        Some(at as u32)
    }

    /// Returns a bit for each metric whose goal is accepted.
    fn goals_of(&self, accepts: impl Fn(&Goal) -> bool) -> u32 {
        let bit = |(at, metric): (usize, &Metric)| u32::from(accepts(&metric.goal)) << at;
        self.metrics.iter().enumerate().map(bit).sum()
    }

    fn row_goal(&self, metric: usize, row: usize, amounts: &Amounts) -> RowGoal {
        let entry = self.metrics[metric].column.and_then(|column| amounts.find(row, column));
        let units = entry.and_then(|entry| entry.units);
        RowGoal { metric, units, is_ignored: entry.is_some() && units.is_none() }
    }
}

/// The amounts of a file by row and column.
struct Amounts(HashMap<(u32, u8), AmountEntry>);

impl Amounts {
    fn read(file: &Columns) -> Result<Self, ColumnFileError> {
        Ok(Self(file.amounts()?.into_iter().map(|entry| ((entry.row, entry.column), entry)).collect()))
    }

    fn find(&self, row: usize, column: u8) -> Option<&AmountEntry> {
        self.0.get(&(row as u32, column))
    }
}
