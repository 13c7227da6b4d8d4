//! The values by which the answer about a funnel groups visitors or visits.

use crate::events::variants::is_key;
use crate::insights::columns::format::{CODE_FIRST, TextColumn};
use crate::insights::columns::reader::{Columns, FilePart};
use crate::insights::experiment::KnownSite;
use crate::insights::questions::blocks::Block;
use crate::insights::questions::goals::ChosenGoal;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::pairs::{PairedValue, value_in};
use crate::insights::questions::plan::{Plan, RowValue};
use crate::insights::questions::question::{Group, QuestionError};
use crate::insights::questions::row::Row;
use crate::insights::questions::steps::Step;
use crate::insights::questions::values::{ELSEWHERE, NO_VALUE};
use crate::site::experiment_metrics::Goal;

/// The beginning of a value of `by` that names an experiment.
const EXPERIMENT_PREFIX: &str = "experiment:";
/// The beginning of a value of `by` that names a zone.
const VARIANT_PREFIX: &str = "variant:";
/// The allowed values of `by`.
const EXPECTED: &str = "'source', 'campaign', 'device', 'country', 'experiment:' and the key of an experiment, or 'variant:' and a zone";

/// The kind of value by which the answer about a funnel groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunnelGroup {
    /// The value of the first step, or of its visit.
    FirstStep(Group),
    /// The arm of the visitor in an experiment.
    Experiment {
        key: String,
        /// True if the experiment is published or has a phase. Any other experiment must be in an event.
        is_known: bool,
    },
    /// The variant of this zone that the page event of the first step showed.
    Variant { zone: String },
}

impl FunnelGroup {
    /// Parses a value of `by`. An experiment is not known yet.
    pub(super) fn parse(text: &str) -> Result<Self, QuestionError> {
        if let Some(key) = text.strip_prefix(EXPERIMENT_PREFIX).filter(|key| is_key(key)) {
            return Ok(Self::Experiment { key: key.to_owned(), is_known: false });
        }
        if let Some(zone) = text.strip_prefix(VARIANT_PREFIX).filter(|zone| is_key(zone)) {
            return Ok(Self::Variant { zone: zone.to_owned() });
        }
        match text {
            "source" => Ok(Self::FirstStep(Group::Source)),
            "campaign" => Ok(Self::FirstStep(Group::Campaign)),
            "device" => Ok(Self::FirstStep(Group::Device)),
            "country" => Ok(Self::FirstStep(Group::Country)),
            _ => Err(QuestionError::invalid("by", EXPECTED, text)),
        }
    }

    /// Returns the group with the facts about the experiment that the site has.
    ///
    /// # Errors
    /// Returns an error if the group is a zone whose variants cannot be compared at the first step.
    pub(super) fn with_site(self, site: KnownSite<'_>, first_step: &Step) -> Result<Self, QuestionError> {
        match &self {
            Self::Experiment { key, .. } => {
                Ok(Self::Experiment { is_known: site.experiment(key).is_known(), key: key.clone() })
            }
            Self::FirstStep(_) => Ok(self),
            Self::Variant { zone } => {
                let expected = expected_zone(zone, site, first_step);
                expected
                    .map_or(Ok(()), |expected| Err(QuestionError::invalid("by", &expected, &self.text())))?;
                Ok(self)
            }
        }
    }

    /// Returns the value of `by`.
    pub(super) fn text(&self) -> String {
        match self {
            Self::FirstStep(group) => group.name().to_owned(),
            Self::Experiment { key, .. } => format!("{EXPERIMENT_PREFIX}{key}"),
            Self::Variant { zone } => format!("{VARIANT_PREFIX}{zone}"),
        }
    }

    /// Returns true if the values belong to visits.
    pub(super) fn is_of_visit(&self) -> bool {
        matches!(self, Self::FirstStep(group) if group.is_of_visit())
    }

    /// Returns true if the plan reads all rows before the end of the range, and so the beginning of each visit.
    pub(super) fn reads_all_rows(&self) -> bool {
        matches!(self, Self::Experiment { .. })
    }

    /// Returns the plan that reads the values. The exposures of an experiment can be before the range.
    pub(super) fn plan<'q>(&'q self, plan: Plan<'q>) -> Plan<'q> {
        match self {
            Self::FirstStep(group) => Plan { value: RowValue::Of(*group), ..plan },
            Self::Variant { zone } => Plan { value: RowValue::Paired(PairedValue::Variant(zone)), ..plan },
            Self::Experiment { key, .. } => {
                let window = i64::MIN..plan.window.end;
                let value = RowValue::Paired(PairedValue::Arm(key));
                Plan { value, range: window.clone(), window, ..plan }
            }
        }
    }

    /// Joins the numbers of rows whose text is `(other)` in the two scans of a question. Both scans read the texts of the steps, and
    /// the second one reads the texts of the values.
    pub(super) fn join_other(
        &self,
        counts: &mut [u64; TextColumn::COUNT],
        value_counts: &[u64; TextColumn::COUNT],
    ) {
        let experiments = TextColumn::Experiments.index();
        match self {
            Self::FirstStep(_) | Self::Variant { .. } => {
                counts.iter_mut().zip(value_counts).for_each(|(count, other)| *count = (*count).max(*other));
            }
            // Of the rows before the range, only the exposures matter.
            Self::Experiment { .. } => counts[experiments] = value_counts[experiments],
        }
    }

    /// Checks that the site or an event has the experiment.
    ///
    /// # Errors
    /// Returns an error if neither has it, if a file is damaged, or if the time is over.
    pub(super) fn check(
        &self,
        columns: &[&Columns],
        site: &str,
        limits: &Limits<'_>,
    ) -> Result<(), ScanError> {
        let Self::Experiment { key, is_known: false } = self else { return Ok(()) };
        for file in columns {
            limits.check_time()?;
            if names_experiment(file, site, key)? {
                return Ok(());
            }
        }
        let expected = "the key of an experiment that is published, was served, or is in an event";
        Err(ScanError::Refused(QuestionError::invalid("by", expected, &self.text())))
    }
}

/// Returns the question that would be right. `None` if each view of the page of the first step shows a variant of the zone that
/// chance alone chose.
fn expected_zone(zone_name: &str, site: KnownSite<'_>, first_step: &Step) -> Option<String> {
    let path = match &first_step.goal {
        ChosenGoal::Target(Goal::Page(path)) if !path.ends_with('*') => path,
        _ => return Some("a first step that is 'page:' and the path of a page with this zone".to_owned()),
    };
    let zones = site.zones(path);
    let Some(zone) = zones.iter().find(|zone| zone.zone == zone_name) else {
        return Some(format!("a published zone of the page '{path}' of the first step"));
    };
    if zone.nested {
        return Some(format!(
            "a zone that is in no variant of another zone, because no event says that '{zone_name}' showed its default; use '{EXPERIMENT_PREFIX}' and the key of its experiment"
        ));
    }
    (!zone.comparable).then(|| {
        format!(
            "a zone whose rules are all experiments without 'when', because the visitors of the variants of '{zone_name}' differed before; write its rule as {{ \"experiment\": {{ \"key\": ..., \"variants\": [\"default\", ...] }} }} and use '{EXPERIMENT_PREFIX}' and its key"
        )
    })
}

/// Returns whether an event of a site names the experiment with this key.
fn names_experiment(file: &Columns, site: &str, experiment_key: &str) -> Result<bool, ScanError> {
    let file = &*file.opened()?;
    let accepted = |column: TextColumn, accepts: &dyn Fn(&str) -> bool| {
        let texts = file.texts(column)?;
        let accepted = texts.iter().enumerate();
        let accepted: Vec<bool> =
            accepted.map(|(code, text)| code >= CODE_FIRST as usize && accepts(text)).collect();
        let block = Block::new(file.codes(column, texts.len(), &FilePart::WHOLE)?);
        Ok::<_, ScanError>((block, accepted))
    };
    let (mut experiments, are_named) =
        accepted(TextColumn::Experiments, &|text| value_in(text, experiment_key).is_some())?;
    let (mut sites, are_of_site) = accepted(TextColumn::Site, &|text| text == site)?;
    if !are_named.contains(&true) || !are_of_site.contains(&true) {
        return Ok(false);
    }
    let mut visitors = Block::new(file.row_visitors(&FilePart::WHOLE)?);
    loop {
        for block in [&mut experiments, &mut sites, &mut visitors] {
            block.next()?;
        }
        let rows = experiments.numbers.iter().zip(&sites.numbers).zip(&visitors.numbers);
        let is_named = |((named, site), visitor): ((&i64, &i64), &i64)| {
            are_named[*named as usize] && are_of_site[*site as usize] && *visitor != 0
        };
        let mut named = rows.map(is_named).peekable();
        if named.peek().is_none() {
            return Ok(false);
        }
        if named.any(|is_named| is_named) {
            return Ok(true);
        }
    }
}

/// Returns the events of a visitor as the question about an experiment counts them. `rows` are its events before the end of the
/// range, and the value of an exposure is its arm. All returned events have this arm, and no step accepts an event before the first
/// exposure. Returns `None` if the visitor has no arm: it has no exposure, its first exposure is before the range, or its exposures
/// name several arms.
pub(super) fn rows_of_exposed(rows: &[Row], range_start_ms: i64) -> Option<Vec<Row>> {
    let first = rows.iter().position(|row| row.value != NO_VALUE)?;
    let arm = rows[first].value;
    let has_other_arm = rows.iter().any(|row| row.value != NO_VALUE && row.value != arm);
    // An arm in another part of the values is counted with that part.
    if arm == ELSEWHERE || has_other_arm || rows[first].time_ms() < range_start_ms {
        return None;
    }
    let mut rows = rows.to_vec();
    rows[..first].iter_mut().for_each(|row| row.order = 0);
    rows.iter_mut().for_each(|row| row.value = arm);
    Some(rows)
}
