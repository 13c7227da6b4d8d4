//! Compiles the segments of a site.

use crate::limits::SITE_SEGMENTS_MAX;
use crate::site::segments::expected_value;
use crate::site::snapshot::segment_format::{Segment, SegmentFilter};
use crate::site::source::diagnostics::{Diagnostics, join_token};
use crate::site::source::types;

/// Compiles the segments of a site. Reports invalid ones.
pub(super) fn compile_segments(site: &types::Site, diagnostics: &mut Diagnostics) -> Vec<Segment> {
    if site.segments.len() > SITE_SEGMENTS_MAX {
        let expected = format!("at most {SITE_SEGMENTS_MAX} segments");
        diagnostics.add_titled("site.json", "/segments", "too many segments", expected, site.segments.len());
    }
    let segments = site.segments.iter().map(|(key, segment)| {
        check_filters(&join_token(&join_token("/segments", key), "filters"), segment, diagnostics);
        let filters = segment.filters.named();
        let filters =
            filters.map(|(name, values)| SegmentFilter { filter: name.to_owned(), values: values.to_vec() });
        Segment { key: key.to_string(), name: segment.name.clone(), filters: filters.collect() }
    });
    segments.collect()
}

fn check_filters(pointer: &str, segment: &types::Segment, diagnostics: &mut Diagnostics) {
    if segment.filters.named().next().is_none() {
        let expected = "at least one filter, such as `country`";
        diagnostics.add_titled(
            "site.json",
            pointer.to_owned(),
            "a segment without a filter",
            expected,
            "none",
        );
    }
    for (name, values) in segment.filters.named() {
        for (index, value) in values.iter().enumerate() {
            if let Some(expected) = expected_value(name, value) {
                let pointer = format!("{}/{index}", join_token(pointer, name));
                diagnostics.add_titled("site.json", pointer, "invalid value", expected, format!("{value:?}"));
            }
        }
    }
}
