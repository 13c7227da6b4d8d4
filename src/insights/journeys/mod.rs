//! Questions about the journeys of visitors: the steps of a funnel, the returns after the first event, the paths before and
//! after a page, and the length of visits.
//!
//! The filters of these questions select a journey by one of its events, which each question names. So the filter
//! `country=DE` gives the same numbers as the row `DE` of a funnel by country.

mod chain;
mod engagement;
mod engagement_answer;
mod funnel;
mod funnel_answer;
mod funnel_group;
mod funnel_sql;
mod params;
mod paths;
mod paths_answer;
mod retention;
mod retention_answer;
mod selection;

use std::ops::Range;

use super::experiment::KnownSite;
use super::questions::answer::{Answer, AnsweredLog};
use super::questions::calendar::Zone;
use super::questions::limits::{Limits, ScanError};
use super::questions::question::{NamedValue, QuestionError};
use super::questions::site::SiteFacts;
use super::questions::visit_scan::Source;
pub use engagement::EngagementQuestion;
pub use funnel::{FUNNEL_LIMIT_MAX, FUNNEL_STEPS_MAX, FUNNEL_STEPS_MIN, FunnelQuestion};
pub use paths::{PATHS_LEVELS, PATHS_LIMIT_MAX, PathsQuestion};
pub use retention::{RETENTION_BUCKETS_MAX, RetentionQuestion};
pub use selection::EventSelection;

/// The subject of a question about journeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JourneySubject {
    Funnel,
    Retention,
    Paths,
    Engagement,
}

impl JourneySubject {
    /// Returns all parameters of the question except `site`.
    pub(crate) fn param_names(self) -> &'static [&'static str] {
        match self {
            Self::Funnel => &funnel::PARAM_NAMES,
            Self::Retention => &retention::PARAM_NAMES,
            Self::Paths => &paths::PARAM_NAMES,
            Self::Engagement => &engagement::PARAM_NAMES,
        }
    }
}

/// A question about journeys.
#[derive(Debug, Clone, PartialEq)]
pub enum JourneyQuestion {
    Funnel(FunnelQuestion),
    Retention(RetentionQuestion),
    Paths(PathsQuestion),
    Engagement(EngagementQuestion),
}

impl JourneyQuestion {
    /// Parses the parameters of a question. Ignores unknown parameters and empty parameters.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub(crate) fn parse<'p>(
        subject: JourneySubject,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        site: KnownSite<'_>,
    ) -> Result<Self, QuestionError> {
        let goals = &site.goals();
        let names = subject.param_names();
        let pairs: Vec<_> = pairs.filter(|(name, value)| names.contains(name) && !value.is_empty()).collect();
        match subject {
            JourneySubject::Funnel => {
                let question = FunnelQuestion::parse(&pairs, zone, now_ms, goals)?;
                let by = question.by.map(|by| by.with_site(site, &question.steps[0])).transpose()?;
                Ok(Self::Funnel(FunnelQuestion { by, ..question }))
            }
            JourneySubject::Retention => {
                RetentionQuestion::parse(&pairs, zone, now_ms, goals).map(Self::Retention)
            }
            JourneySubject::Paths => PathsQuestion::parse(&pairs, zone, now_ms).map(Self::Paths),
            JourneySubject::Engagement => {
                EngagementQuestion::parse(&pairs, zone, now_ms).map(Self::Engagement)
            }
        }
    }

    /// Returns whether a step is a goal of the site.
    pub(crate) fn needs_goals(&self) -> bool {
        let steps = match self {
            Self::Funnel(question) => question.steps.as_slice(),
            Self::Retention(question) => question.steps.as_slice(),
            Self::Paths(_) | Self::Engagement(_) => &[],
        };
        steps.iter().any(|step| step.goal_number().is_some())
    }

    fn selection(&self) -> &EventSelection {
        match self {
            Self::Funnel(question) => &question.selection,
            Self::Retention(question) => &question.selection,
            Self::Paths(question) => &question.selection,
            Self::Engagement(question) => &question.selection,
        }
    }

    /// Returns the range of the question, in milliseconds. The end is exclusive.
    pub(crate) fn range(&self) -> &Range<i64> {
        &self.selection().range
    }

    /// Returns the values of filters and steps that events can have.
    pub(crate) fn named_values(&self) -> Vec<NamedValue<'_>> {
        let mut values = self.selection().named_values();
        match self {
            Self::Funnel(question) => {
                values.extend(question.steps.iter().filter_map(|step| step.named_value("step")));
            }
            Self::Retention(question) => {
                values.extend(question.begin().and_then(|step| step.named_value("begin")));
                values.extend(question.returning().and_then(|step| step.named_value("return")));
            }
            Self::Paths(question) => {
                let page = question.page.named_value("page");
                values.extend(page.map(|page| NamedValue { value: page.text, ..page }));
            }
            Self::Engagement(_) => {}
        }
        values
    }
}

/// Answers a question about journeys.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn answer_journey(
    question: &JourneyQuestion,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
    make_answered_log: &dyn Fn() -> AnsweredLog,
) -> Result<Answer, ScanError> {
    match question {
        JourneyQuestion::Funnel(question) => {
            let counted = funnel::count(question, site, &source.files.all(), limits)?;
            Ok(funnel_answer::write(question, site, &counted, make_answered_log()))
        }
        JourneyQuestion::Retention(question) => {
            let counted = retention::count(question, site, source, limits)?;
            Ok(retention_answer::write(question, site, &counted, make_answered_log()))
        }
        JourneyQuestion::Paths(question) => {
            let counted = paths::count(question, site, &source.files.all(), limits)?;
            Ok(paths_answer::write(question, site, &counted, make_answered_log()))
        }
        JourneyQuestion::Engagement(question) => {
            let counted = engagement::count(question, site, source, limits)?;
            Ok(engagement_answer::write(question, site, &counted, make_answered_log()))
        }
    }
}
