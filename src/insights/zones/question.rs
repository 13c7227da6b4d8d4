//! The question about the zones of a page.

use std::ops::Range;

use crate::insights::questions::calendar::Zone;
use crate::insights::questions::question::{
    LIMIT_DEFAULT, Question, QuestionError, Subject, parse_limit, single_value,
};
use crate::resolve::published_zones::PublishedZone;

/// All parameters of the question except `site`.
pub(crate) const ZONES_PARAM_NAMES: [&str; 5] = ["page", "from", "to", "bots", "limit"];

/// Maximum value of `limit`, and so the maximum number of rows in each list of an answer. A larger `limit` gets 400.
/// This maximum is smaller than [`LIMIT_MAX`], because each variant of each zone has a list of events.
///
/// [`LIMIT_MAX`]: crate::insights::LIMIT_MAX
pub const ZONES_LIMIT_MAX: usize = 1_000;

/// A question about the zones of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct ZonesQuestion {
    /// The path of the page.
    pub page: String,
    /// The published zones of the page.
    pub zones: Vec<PublishedZone>,
    /// The range in milliseconds. The end is exclusive.
    pub range: Range<i64>,
    /// True if the records of crawlers are included.
    pub bots: bool,
    /// Maximum number of rows in each list. The lists are the events of a variant, the unpublished variants of a zone,
    /// and the unpublished zones.
    pub limit: usize,
}

impl ZonesQuestion {
    /// Parses the parameters of the question. `zones_of` returns the published zones of a path. Ignores unknown
    /// parameters and empty parameters.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse<'p>(
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zones_of: impl FnOnce(&str) -> Vec<PublishedZone>,
        time_zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let is_known = |(name, value): &(&str, &str)| ZONES_PARAM_NAMES.contains(name) && !value.is_empty();
        let pairs: Vec<_> = pairs.filter(is_known).collect();
        let limit = single_value(&pairs, "limit")?
            .map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, ZONES_LIMIT_MAX))?;
        // The question `top` for pages has the same parameters. So its parser checks these parameters.
        let pairs = pairs.into_iter().chain([("of", "page")]);
        let Question { range, bots, filters, .. } = Question::parse(Subject::Top, pairs, time_zone, now_ms)?;
        let page = match &filters.page[..] {
            [page] => page.clone(),
            [] => return Err(QuestionError::invalid("page", "the path of a page, such as '/'", "")),
            _ => return Err(QuestionError::repeated("page")),
        };
        Ok(Self { zones: zones_of(&page), page, range, bots, limit })
    }
}
