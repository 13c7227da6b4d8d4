//! The question about the zones of a page.

use std::ops::Range;

use super::published::PublishedZone;
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::question::{
    LIMIT_DEFAULT, Question, QuestionError, Subject, parse_limit, single_value,
};

/// The parameters of the question, beside `site`.
pub(crate) const ZONES_PARAM_NAMES: [&str; 5] = ["page", "from", "to", "bots", "limit"];

/// Most rows of each list of an answer. A larger `limit` gets 400. It is smaller than that of a single list, because each
/// variant of each zone has a list of events.
pub const ZONES_LIMIT_MAX: usize = 1_000;

/// A question about the zones of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct ZonesQuestion {
    /// The path of the page events.
    pub page: String,
    /// The zones of the published route.
    pub zones: Vec<PublishedZone>,
    /// The range in milliseconds, half open.
    pub range: Range<i64>,
    /// True if records of crawlers count too.
    pub bots: bool,
    /// Rows of each list that have no published key: events, variants, zones.
    pub limit: usize,
}

impl ZonesQuestion {
    /// Reads the parameters of the question. `zones` returns the published zones of a path. Unknown parameters are
    /// ignored, and so are empty ones.
    ///
    /// # Errors
    /// The first parameter that is refused.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zones: impl FnOnce(&str) -> Vec<PublishedZone>,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let is_own = |(name, value): &(&str, &str)| ZONES_PARAM_NAMES.contains(name) && !value.is_empty();
        let own: Vec<_> = pairs.filter(is_own).collect();
        let limit = single_value(&own, "limit")?
            .map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, ZONES_LIMIT_MAX))?;
        // A list of pages has the same parameters.
        let of_page = own.into_iter().chain([("of", "page")]);
        let Question { range, bots, filters, .. } = Question::parse(Subject::Top, of_page, zone, now_ms)?;
        let page = match &filters.page[..] {
            [page] => page.clone(),
            [] => return Err(QuestionError::invalid("page", "the path of a page, such as '/'", "")),
            _ => return Err(QuestionError::repeated("page")),
        };
        Ok(Self { zones: zones(&page), page, range, bots, limit })
    }
}
