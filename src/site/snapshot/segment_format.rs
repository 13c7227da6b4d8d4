//! The part of the snapshot format that describes segments: saved selections of events and visitors, which questions name
//! by their keys.

use rkyv::{Archive, Serialize};

use crate::limits::{FILTER_VALUES_MAX, SITE_SEGMENTS_MAX};
use crate::site::segments::expected_value;

/// The names of the filters, in the order of a segment's filters.
const FILTER_NAMES: [&str; 8] =
    ["page", "source", "campaign", "country", "device", "language", "event", "variant"];

/// A segment of a published site.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct Segment {
    pub key: String,
    /// The display name.
    pub name: String,
    /// At least one, each filter once.
    pub filters: Vec<SegmentFilter>,
}

/// A filter of a segment.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct SegmentFilter {
    /// The name of the filter in a question.
    pub filter: String,
    /// The accepted values, at least one.
    pub values: Vec<String>,
}

/// Verifies the segments of a site.
pub(super) fn verify_segments(segments: &[ArchivedSegment]) -> Result<(), &'static str> {
    if segments.len() > SITE_SEGMENTS_MAX {
        return Err("the site has too many segments");
    }
    let position = |name: &str| FILTER_NAMES.iter().position(|filter| *filter == name);
    let is_valid_filter = |filter: &ArchivedSegmentFilter| {
        let is_allowed = |value: &str| !value.is_empty() && expected_value(&filter.filter, value).is_none();
        position(&filter.filter).is_some()
            && (1..=FILTER_VALUES_MAX).contains(&filter.values.len())
            && filter.values.iter().all(|value| is_allowed(value))
    };
    let is_valid = |segment: &ArchivedSegment| {
        !segment.filters.is_empty()
            && segment.filters.is_sorted_by(|a, b| position(&a.filter) < position(&b.filter))
            && segment.filters.iter().all(is_valid_filter)
    };
    let are_valid = segments.is_sorted_by(|a, b| a.key < b.key) && segments.iter().all(is_valid);
    are_valid.then_some(()).ok_or("the segments of the site are malformed")
}

/// The names of traits that the admin address shows to more or fewer people.
#[derive(Debug, Default, Archive, Serialize)]
pub struct TraitNames {
    /// The traits that lists of visitors show and searches use, sorted.
    pub searchable: Vec<String>,
    /// The traits that only people see who may export a visitor, sorted.
    pub private: Vec<String>,
}
