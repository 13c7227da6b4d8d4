//! Handmade segments with a valid hash: their number, their order and their filters.

use parallax::testing::limits::{FILTER_VALUES_MAX, SITE_SEGMENTS_MAX};
use parallax::testing::site::snapshot::segment_format::{Segment, SegmentFilter};

use super::forged::{assert_refused, open_site, site};
use crate::fuzz::snapshot::request_everything;

fn filter(name: &str, values: &[&str]) -> SegmentFilter {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    SegmentFilter { filter: name.to_owned(), values }
}

fn segment(number: usize, filters: Vec<SegmentFilter>) -> Segment {
    Segment { key: format!("s{number:03}"), name: "S".to_owned(), filters }
}

fn segments(count: usize) -> Vec<Segment> {
    (0..count).map(|number| segment(number, vec![filter("country", &["NO"])])).collect()
}

#[test]
fn too_many_segments_are_refused() {
    for count in [0, 1, SITE_SEGMENTS_MAX - 1, SITE_SEGMENTS_MAX] {
        let mut site = site();
        site.segments = segments(count);
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    assert_refused(|site| site.segments = segments(SITE_SEGMENTS_MAX + 1), "the site has too many segments");
}

#[test]
fn malformed_segments_are_refused() {
    for count in [1, FILTER_VALUES_MAX - 1, FILTER_VALUES_MAX] {
        let mut site = site();
        let filters = vec![filter("page", &vec!["/"; count]), filter("variant", &["hero:b"])];
        site.segments = vec![segment(0, filters)];
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    let forged = [
        vec![],
        vec![filter("country", &[])],
        vec![filter("country", &[""])],
        vec![filter("country", &["NO"; FILTER_VALUES_MAX + 1])],
        vec![filter("device", &["phone"])],
        vec![filter("variant", &["hero"])],
        vec![filter("browser", &["Safari"])],
        vec![filter("country", &["NO"]), filter("country", &["DE"])],
        vec![filter("country", &["NO"]), filter("page", &["/"])],
    ];
    for filters in forged {
        assert_refused(
            |site| site.segments = vec![segment(0, filters.clone())],
            "the segments of the site are malformed",
        );
    }
    for keys in [[1, 0], [0, 0]] {
        let segments = keys.map(|number| segment(number, vec![filter("country", &["NO"])]));
        assert_refused(|site| site.segments = segments.to_vec(), "the segments of the site are malformed");
    }
}
