//! The filters of the segments that a question names.

use super::experiment::KnownSite;
use super::questions::question::{QuestionError, unknown_key};
use crate::site::snapshot::segment_format::ArchivedSegment;

/// The parameter that names a segment of the site.
pub(crate) const SEGMENT_PARAM: &str = "segment";

/// Replaces each parameter `segment` by the filters of the segment. `takes_filter` returns whether the question has a filter of
/// this name.
///
/// # Errors
/// The site has no such segment, the question does not have one of its filters, or it has the filter twice.
pub(super) fn expand_segments<'p>(
    pairs: impl Iterator<Item = (&'p str, &'p str)>,
    site: KnownSite<'p>,
    takes_filter: impl Fn(&str) -> bool,
) -> Result<Vec<(&'p str, &'p str)>, QuestionError> {
    let (segments, mut pairs): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| *name == SEGMENT_PARAM);
    for (_, key) in segments.into_iter().filter(|(_, key)| !key.is_empty()) {
        let segment = find_segment(site, key)?;
        for filter in segment.filters.iter() {
            let name = filter.filter.as_str();
            if !takes_filter(name) {
                let expected =
                    format!("a segment without the filter '{name}', which this question does not have");
                return Err(QuestionError::invalid(SEGMENT_PARAM, &expected, key));
            }
            if pairs.iter().any(|(other, value)| *other == name && !value.is_empty()) {
                let expected = format!("no further filter '{name}' beside that of the segment");
                return Err(QuestionError::invalid(SEGMENT_PARAM, &expected, key));
            }
        }
        let filters = segment.filters.iter();
        pairs
            .extend(filters.flat_map(|filter| filter.values.iter().map(|value| (&*filter.filter, &**value))));
    }
    Ok(pairs)
}

fn find_segment<'p>(site: KnownSite<'p>, key: &str) -> Result<&'p ArchivedSegment, QuestionError> {
    let segments = site.published.map_or(&[][..], |site| &site.segments);
    let found = segments.binary_search_by(|segment| segment.key.as_str().cmp(key));
    let unknown = |_| unknown_key(SEGMENT_PARAM, segments.iter().map(|segment| segment.key.as_str()), key);
    found.map(|index| &segments[index]).map_err(unknown)
}
