//! Limits of the segments of a site.

/// Number of segments of one site. A list of all of them is still readable. `compile` rejects more.
pub const SITE_SEGMENTS_MAX: usize = 64;
/// Number of values of one filter of a segment. `compile` rejects more.
pub const FILTER_VALUES_MAX: usize = 64;
/// Length of the display name of a segment, in characters. `compile` rejects a longer one.
pub const SEGMENT_NAME_CHARS_MAX: usize = 128;
/// Length of a value of a filter of a segment, in characters. A URL of the console with several such values still fits in a request.
/// `compile` rejects a longer one.
pub const FILTER_VALUE_CHARS_MAX: usize = 256;
