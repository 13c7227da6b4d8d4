//! The question about the zones of a page.

use std::ops::Range;

use crate::insights::questions::calendar::Zone;
use crate::insights::questions::question::{
    LIMIT_DEFAULT, Question, QuestionError, Subject, parse_limit, single_value,
};
use crate::resolve::published_zones::PublishedZone;

/// All parameters of the question except `site`.
pub(crate) const ZONES_PARAM_NAMES: [&str; 5] = ["page", "from", "to", "bots", "limit"];

/// Most rows of each list in an answer. A larger `limit` gets 400. It is smaller than [`LIMIT_MAX`], because each
/// variant of each zone has a list of events.
///
/// [`LIMIT_MAX`]: crate::insights::LIMIT_MAX
pub const ZONES_LIMIT_MAX: usize = 1_000;

/// A question about the zones of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct ZonesQuestion {
    /// The path of the page.
    pub page: String,
    /// The zones of the published route.
    pub zones: Vec<PublishedZone>,
    /// The range in milliseconds. Its end is exclusive.
    pub range: Range<i64>,
    /// True if records of crawlers count too.
    pub bots: bool,
    /// Most rows in each list: events, unpublished variants, and unpublished zones.
    pub limit: usize,
}

impl ZonesQuestion {
    /// Parses the parameters of the question. `zones_of` returns the published zones of a path. Ignores unknown
    /// parameters and empty parameters.
    ///
    /// # Errors
    /// The first parameter that is wrong.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zones_of: impl FnOnce(&str) -> Vec<PublishedZone>,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let is_known = |(name, value): &(&str, &str)| ZONES_PARAM_NAMES.contains(name) && !value.is_empty();
        let pairs: Vec<_> = pairs.filter(is_known).collect();
        let limit = single_value(&pairs, "limit")?
            .map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, ZONES_LIMIT_MAX))?;
        // The question for a list of pages has the same parameters.
        let pairs = pairs.into_iter().chain([("of", "page")]);
        let Question { range, bots, filters, .. } = Question::parse(Subject::Top, pairs, zone, now_ms)?;
        let page = match &filters.page[..] {
            [page] => page.clone(),
            [] => return Err(QuestionError::invalid("page", "the path of a page, such as '/'", "")),
            _ => return Err(QuestionError::repeated("page")),
        };
        Ok(Self { zones: zones_of(&page), page, range, bots, limit })
    }
}
