//! The type of a segment in `site.json`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits::{FILTER_VALUE_CHARS_MAX, FILTER_VALUES_MAX, SEGMENT_NAME_CHARS_MAX};

/// A segment: a saved selection of events and visitors for questions.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// A display name, such as `Mobile in Norway`.
    #[schemars(length(min = 1, max = SEGMENT_NAME_CHARS_MAX))]
    pub name: String,
    pub filters: SegmentFilters,
}

/// The filters of a segment. Each accepts any of its values, and all of them must accept.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SegmentFilters {
    /// Paths of pages.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub page: Option<Vec<String>>,
    /// Sources of visits, such as `newsletter`.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub source: Option<Vec<String>>,
    /// Campaigns of visits.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub campaign: Option<Vec<String>>,
    /// Countries, such as `NO`.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub country: Option<Vec<String>>,
    /// Devices: `desktop`, `mobile`, `tablet` or `bot`.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub device: Option<Vec<String>>,
    /// Languages, such as `nb`.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub language: Option<Vec<String>>,
    /// Names of events that the visitor had in the range.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub event: Option<Vec<String>>,
    /// Variants that the visitor saw in the range, such as `hero:winter`.
    #[schemars(length(min = 1, max = FILTER_VALUES_MAX), inner(length(min = 1, max = FILTER_VALUE_CHARS_MAX)))]
    pub variant: Option<Vec<String>>,
}

impl SegmentFilters {
    /// Iterates over the filters that the segment has, with their names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let filters = [
            ("page", &self.page),
            ("source", &self.source),
            ("campaign", &self.campaign),
            ("country", &self.country),
            ("device", &self.device),
            ("language", &self.language),
            ("event", &self.event),
            ("variant", &self.variant),
        ];
        filters.into_iter().filter_map(|(name, values)| Some((name, values.as_deref()?)))
    }
}
