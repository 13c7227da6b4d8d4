//! Questions of all kinds about a site. Parses the parameters of a question, and answers the question over columns.

use std::ops::Range;

use super::columns::reader::Columns;
use super::experiment::{
    ExperimentQuestion, ExperimentsQuestion, KnownSite, answer_experiment, answer_experiments,
};
use super::journeys::{JourneyQuestion, JourneySubject, answer_journey};
use super::questions::answer::{self, Answer, AnsweredLog, CountedLog};
use super::questions::ask::ask;
use super::questions::calendar::Zone;
use super::questions::limits::{Limits, ScanError};
use super::questions::question::{Question, QuestionError, Subject};
use super::questions::sealed::{AnswerCache, LogColumns};
use super::questions::site::SiteFacts;
use super::questions::unknown::{add_unknown, filter_values};
use super::questions::visit_scan::Source;
use super::segment_filters::expand_segments;
use super::visitor_list::{VisitorsQuestion, list_visitors};
use super::zones::{ZonesQuestion, count_zones, write_zones};
use crate::clock;

/// A question about a site.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    Views(Question),
    Experiment(Box<ExperimentQuestion>),
    Zones(ZonesQuestion),
    Experiments(ExperimentsQuestion),
    Journey(JourneyQuestion),
    Visitors(VisitorsQuestion),
}

/// The endpoint to which a question is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Views(Subject),
    /// One experiment.
    Experiment,
    /// The holdout of the site.
    Holdout,
    /// The list of experiments.
    Experiments,
    /// The zones of a page.
    Zones,
    Journey(JourneySubject),
    /// The list of visitors.
    Visitors,
}

impl Topic {
    /// Returns whether a question of this topic has the filter with this name.
    pub(crate) fn takes_filter(self, filter_name: &str) -> bool {
        match self {
            Self::Views(_) | Self::Visitors => true,
            Self::Experiment | Self::Holdout => !["event", "variant"].contains(&filter_name),
            Self::Experiments | Self::Zones => false,
            // Its page is the page itself.
            Self::Journey(JourneySubject::Paths) => filter_name != "page",
            Self::Journey(_) => true,
        }
    }
}

impl Query {
    /// Returns the range of the question, in milliseconds. The end is exclusive.
    pub(crate) fn range(&self) -> &Range<i64> {
        match self {
            Self::Views(question) => &question.range,
            Self::Experiment(question) => &question.range,
            Self::Experiments(question) => &question.range,
            Self::Zones(question) => &question.range,
            Self::Journey(question) => question.range(),
            Self::Visitors(question) => &question.selection.range,
        }
    }

    /// Returns whether the question needs goals or properties of the site. Then the columns must note them.
    pub(crate) fn needs_goals(&self) -> bool {
        match self {
            Self::Experiment(question) => question.needs_goals(),
            Self::Views(question) => !question.goals.is_empty() || question.of.property().is_some(),
            Self::Journey(question) => question.needs_goals(),
            Self::Visitors(question) => question.goal_number().is_some(),
            Self::Zones(_) | Self::Experiments(_) => false,
        }
    }

    /// Parses the parameters of a question.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub(crate) fn parse<'p>(
        topic: Topic,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        site: KnownSite<'p>,
    ) -> Result<Self, QuestionError> {
        let pairs = expand_segments(pairs, site, |filter| topic.takes_filter(filter))?.into_iter();
        match topic {
            Topic::Views(subject) => {
                Question::parse_with_goals(subject, pairs, zone, now_ms, &site.goals()).map(Self::Views)
            }
            Topic::Experiment => ExperimentQuestion::parse(pairs, zone, now_ms, |key| site.experiment(key))
                .map(|question| Self::Experiment(Box::new(question))),
            Topic::Holdout => ExperimentQuestion::parse_holdout(pairs, zone, now_ms, site.holdout())
                .map(|question| Self::Experiment(Box::new(question))),
            Topic::Zones => {
                let zones = |page: &str| site.zones(page);
                ZonesQuestion::parse(pairs, zones, zone, now_ms).map(Self::Zones)
            }
            Topic::Journey(subject) => {
                JourneyQuestion::parse(subject, pairs, zone, now_ms, site).map(Self::Journey)
            }
            Topic::Visitors => {
                VisitorsQuestion::parse(pairs, zone, now_ms, &site.goals()).map(Self::Visitors)
            }
            Topic::Experiments => {
                let has_site_holdout = site.holdout().is_known();
                ExperimentsQuestion::parse(pairs, zone, now_ms, site.experiments(), has_site_holdout)
                    .map(Self::Experiments)
            }
        }
    }
}

/// Answers a question over the columns of all segments, in the order of their seqs. `log` has the last seq of
/// the columns. A list of visitors has no IDs.
///
/// # Errors
/// Returns an error if a column file is damaged, or if the question takes too much time or memory.
pub fn answer_over(
    columns: &[&Columns],
    log: CountedLog,
    query: &Query,
    site: &SiteFacts,
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let files = LogColumns { sealed: columns, tail: None };
    answer_from(Source { files, cache: None }, log, query, site, now_ms, limits)
}

/// Answers a question like [`answer_over`]. Takes the counts over the sealed segments from `cache` if `cache` has them.
/// Stores these counts in `cache` for the next answer.
///
/// # Errors
/// Returns the same errors as [`answer_over`].
pub fn answer_cached(
    columns: LogColumns<'_>,
    cache: &mut AnswerCache,
    log: CountedLog,
    query: &Query,
    site: &SiteFacts,
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    answer_from(Source { files: columns, cache: Some(cache) }, log, query, site, now_ms, limits)
}

fn answer_from(
    mut source: Source<'_>,
    log: CountedLog,
    query: &Query,
    site: &SiteFacts,
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let started_at = clock::instant();
    let files = source.files.all();
    let since_ms = oldest_receipt_ms(&files)?;
    let make_answered_log = || {
        let took_ms = clock::instant().duration_since(started_at).as_millis() as u64;
        AnsweredLog { seq: log.last_seq, mark: log.mark, since_ms, took_ms }
    };
    let mut answer = match query {
        Query::Views(question) => {
            let counted = ask(question, site, &mut source, limits)?;
            answer::write(question, site, &counted, make_answered_log())
        }
        Query::Experiment(question) => {
            answer_experiment(&files, question, site, now_ms, &limits.for_rows(), &make_answered_log)?
        }
        Query::Experiments(question) => {
            answer_experiments(&files, question, site, &limits.for_rows(), &make_answered_log)?
        }
        Query::Zones(question) => {
            let counts = count_zones(&files, question, site, limits)?;
            write_zones(question, site, &counts, make_answered_log())
        }
        Query::Journey(question) => answer_journey(question, site, &mut source, limits, &make_answered_log)?,
        // The callers that have the segments of the log call `answer_visitors`.
        Query::Visitors(question) => {
            return Ok(list_visitors(source.files, log, None, question, site, limits)?.without_records());
        }
    };
    let values = match query {
        Query::Views(question) => filter_values(&question.filters),
        Query::Experiment(question) => question.named_values(),
        Query::Journey(question) => question.named_values(),
        Query::Experiments(_) | Query::Zones(_) | Query::Visitors(_) => Vec::new(),
    };
    add_unknown(&mut answer, &files, values, limits)?;
    Ok(answer)
}

/// Returns the receipt time of the oldest record, in milliseconds.
fn oldest_receipt_ms(columns: &[&Columns]) -> Result<Option<i64>, ScanError> {
    for file in columns {
        if let Some(oldest_ms) = file.oldest_receipt_ms()? {
            return Ok(Some(oldest_ms));
        }
    }
    Ok(None)
}
