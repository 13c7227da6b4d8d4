//! The segments of a site: their errors and their limits.

use parallax::testing::limits::{
    FILTER_VALUE_CHARS_MAX, FILTER_VALUES_MAX, SEGMENT_NAME_CHARS_MAX, SITE_SEGMENTS_MAX,
};
use serde_json::{Map, Value, json};

use super::goals::lines;

const NONE: [&str; 0] = [];

/// Compiles a site with this segment `s`. Returns the lines of a report of its errors.
fn of_segment(name: &str, filters: Value) -> Vec<String> {
    lines(&json!({ "segments": { "s": { "name": name, "filters": filters } } }), &json!({}), &[])
}

#[test]
fn a_segment_may_have_each_filter() {
    let filters = json!({
        "page": ["/", "/größe"], "source": ["(direct)"], "campaign": ["spring"], "country": ["NO", "DE"], "device": ["mobile"],
        "language": ["nb"], "event": ["Order Placed"], "variant": ["hero:winter"],
    });
    assert_eq!(of_segment("All", filters), NONE);
    assert_eq!(lines(&json!({ "segments": {} }), &json!({}), &[]), NONE);
}

#[test]
fn each_wrong_segment_is_reported_at_its_place() {
    for (filters, expected) in [
        (json!({}), "/segments/s/filters | at least one filter, such as `country` | none"),
        (
            json!({ "device": ["mobile", "phone"] }),
            "/segments/s/filters/device/1 | 'desktop', 'mobile', 'tablet' or 'bot' | \"phone\"",
        ),
        (
            json!({ "variant": ["hero:default"] }),
            "/segments/s/filters/variant/0 | 'zone:key' with a key other than 'default' | \"hero:default\"",
        ),
        (
            json!({ "variant": ["hero"] }),
            "/segments/s/filters/variant/0 | 'zone:key' with a key other than 'default' | \"hero\"",
        ),
        (json!({ "country": "NO" }), "/segments/s/filters/country | an array | the string \"NO\""),
        (json!({ "country": [] }), "/segments/s/filters/country | 1 to 64 elements | an empty array"),
        (json!({ "country": [""] }), "/segments/s/filters/country/0 | 1 to 256 characters | the string \"\""),
    ] {
        let found = of_segment("S", filters.clone());
        assert!(
            found.len() == 1 && found[0].ends_with(expected),
            "{filters}: {found:?}, expected {expected}"
        );
    }
    let unknown = of_segment("S", json!({ "browser": ["Safari"] }));
    assert!(unknown.len() == 1 && unknown[0].contains("/segments/s/filters"), "{unknown:?}");
}

#[test]
fn a_site_has_so_many_segments_and_values_and_no_more() {
    let segment = json!({ "name": "S", "filters": { "country": ["NO"] } });
    let segments = |count: usize| {
        let segments: Map<String, Value> = (0..count).map(|n| (format!("s{n}"), segment.clone())).collect();
        lines(&json!({ "segments": segments }), &json!({}), &[])
    };
    assert_eq!([segments(SITE_SEGMENTS_MAX - 1), segments(SITE_SEGMENTS_MAX)], [NONE; 2]);
    assert!(segments(SITE_SEGMENTS_MAX + 1)[0].contains("at most 64 segments"));
    let values = |count: usize| of_segment("S", json!({ "source": vec!["news"; count] }));
    assert_eq!([values(FILTER_VALUES_MAX - 1), values(FILTER_VALUES_MAX)], [NONE; 2]);
    assert!(values(FILTER_VALUES_MAX + 1)[0].contains("1 to 64 elements"));
    let value = |length: usize| of_segment("S", json!({ "source": ["é".repeat(length)] }));
    assert_eq!([value(FILTER_VALUE_CHARS_MAX - 1), value(FILTER_VALUE_CHARS_MAX)], [NONE; 2]);
    assert!(value(FILTER_VALUE_CHARS_MAX + 1)[0].contains("1 to 256 characters"));
    let name = |length: usize| of_segment(&"é".repeat(length), json!({ "source": ["news"] }));
    assert_eq!([name(SEGMENT_NAME_CHARS_MAX - 1), name(SEGMENT_NAME_CHARS_MAX)], [NONE; 2]);
    assert!(name(SEGMENT_NAME_CHARS_MAX + 1)[0].contains("1 to 128 characters"));
}
