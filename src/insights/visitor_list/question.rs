//! The question for a list of visitors.

use super::cursor::{Cursor, PARAM as CURSOR_PARAM};
use super::search::TraitSearch;
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::conversions::CreditRule;
use crate::insights::questions::plan::Plan;
use crate::insights::questions::question::{Question, QuestionError, Subject, parse_limit, single_value};
use crate::insights::questions::site::SiteFacts;
use crate::limits::VISIT_TIMEOUT_MS;
use crate::site::goals::SiteGoals;

/// All parameters of the question except `site`.
pub(crate) const PARAM_NAMES: [&str; 14] = [
    "from", "to", "bots", "limit", "after", "goal", "page", "source", "campaign", "country", "device",
    "language", "event", "variant",
];
/// Number of rows of a page if the question has no `limit`.
const LIMIT_DEFAULT: usize = 20;
/// Maximum number of rows of a page. A question with a larger `limit` gets 400. Each row takes two reads of the log, so this maximum
/// bounds the time of a page.
pub const VISITORS_LIMIT_MAX: usize = 100;

/// A question for a list of visitors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitorsQuestion {
    /// The range and the filters. It has one goal at most.
    pub selection: Question,
    pub limit: usize,
    /// `None` for the first page.
    pub after: Option<Cursor>,
    /// The trait of the visitors. It replaces the range, the filters and the limit.
    pub search: Option<TraitSearch>,
}

impl VisitorsQuestion {
    /// Parses the parameters of a question about a site with these goals. Ignores unknown parameters and empty parameters.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        goals: &SiteGoals,
    ) -> Result<Self, QuestionError> {
        let is_param = |(name, value): &(&str, &str)| PARAM_NAMES.contains(name) && !value.is_empty();
        let pairs: Vec<_> = pairs.filter(is_param).collect();
        let limit = single_value(&pairs, "limit")?;
        let limit = limit.map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, VISITORS_LIMIT_MAX))?;
        let after = single_value(&pairs, CURSOR_PARAM)?.map(Cursor::parse).transpose()?;
        single_value(&pairs, "goal")?;
        // The question `top` for pages has the other parameters. So its parser checks them.
        let others = pairs.into_iter().filter(|(name, _)| !["limit", CURSOR_PARAM].contains(name));
        let others = others.chain([("of", "page")]);
        let selection = Question::parse_with_goals(Subject::Top, others, zone, now_ms, goals)?;
        Ok(Self { selection, limit, after, search: None })
    }

    /// Parses the parameters of a search.
    ///
    /// # Errors
    /// Returns the error of the first parameter that a search does not take.
    pub(crate) fn parse_search(
        search: TraitSearch,
        pairs: &[(&str, &str)],
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let is_refused =
            |(name, value): &&(&str, &str)| !["site", "bots"].contains(name) && !value.is_empty();
        if let Some((name, value)) = pairs.iter().find(is_refused) {
            let expected =
                "only 'site' and 'bots' beside the header X-Visitor, because a search covers all events";
            return Err(QuestionError::invalid(name, expected, value));
        }
        let question = Self::parse(pairs.iter().copied(), zone, now_ms, &SiteGoals::default())?;
        Ok(Self { search: Some(search), ..question })
    }

    /// Returns the number of the goal that the listed visitors reach.
    pub(crate) fn goal_number(&self) -> Option<usize> {
        self.selection.goals.first().copied()
    }

    /// Returns the last seq that the page counts. `None` if it counts the whole log.
    pub(super) fn last_seq(&self) -> Option<u64> {
        self.after.map(|cursor| cursor.last_seq)
    }

    /// Returns the rule that credits events to visits. `None` if each event belongs to its own visit, because the question has no
    /// goal.
    pub(super) fn credit_rule(&self, site: &SiteFacts) -> Option<CreditRule<'_>> {
        let rule = CreditRule { filters: &self.selection.filters, attribution: site.attribution };
        self.goal_number().map(|_| rule)
    }

    /// Returns the plan that reads the events of the range, and the time before it in which conversions can have their credit.
    pub(super) fn plan<'q>(&'q self, site: &'q SiteFacts, end_row: Option<u64>) -> Plan<'q> {
        let Question { range, bots, filters, goals, .. } = &self.selection;
        let credit_ms = if goals.is_empty() { 0 } else { site.attribution.window_ms };
        let start = (range.start - VISIT_TIMEOUT_MS).saturating_sub(credit_ms);
        Plan { window: start..range.end, goals, end_row, ..Plan::new(site, range, *bots, filters) }
    }
}
