//! Handmade archives whose zones are in no place, in two places, or nested too deep.

use parallax::testing::site::snapshot::format::{Part, Variant, Zone, ZonePlace};

use super::forged::{LITERAL, assert_page_refused, open_site, site};
use crate::fuzz::snapshot::request_everything;

#[test]
fn a_shared_cyclic_or_unplaced_zone_is_refused() {
    let twice = "a zone has two places, or is nested too deep";
    assert_page_refused(|page| page.parts.push(Part::Zone(1)), twice);
    assert_page_refused(|page| page.parts.push(Part::Zone(0)), twice);
    assert_page_refused(|page| page.zones[0].variants[1].parts = vec![Part::Zone(0)], twice);
    assert_page_refused(|page| page.zones[0].variants[0].parts = vec![Part::Zone(1)], twice);
    assert_page_refused(|page| page.parts = vec![Part::Piece(0)], "a zone has no place in its page");
}

#[test]
fn a_list_of_zones_that_differs_from_the_layout_is_refused() {
    let why = "the list of zone places does not follow the layout";
    assert_page_refused(|page| page.zone_places.clear(), why);
    assert_page_refused(|page| page.zone_places.reverse(), why);
    assert_page_refused(|page| page.zone_places[0].within = Some((0, 0)), why);
    assert_page_refused(|page| page.zone_places[1].within = Some((1, 1)), why);
    assert_page_refused(|page| page.zone_places[1].within = None, why);
    assert_page_refused(|page| page.zone_places[1].zone = u8::MAX, why);
    assert_page_refused(|page| page.zone_places.push(page.zone_places[0]), why);
}

#[test]
fn zones_nest_up_to_their_depth_limit() {
    let nested = |depth: usize| {
        let mut site = site();
        let page = &mut site.pages[LITERAL];
        page.parts = vec![Part::Zone(0)];
        page.zones = (0..depth)
            .map(|i| {
                let inner = if i + 1 < depth { vec![Part::Zone(i as u8 + 1)] } else { Vec::new() };
                let default = Variant {
                    key: "default".into(),
                    pair: String::new(),
                    selected: "\"z\":\"default\"".to_owned(),
                    parts: inner,
                };
                Zone { name: format!("z{i:02}"), variants: vec![default], rules: Vec::new() }
            })
            .collect();
        let within = |zone: u8| zone.checked_sub(1).map(|outer| (outer, 0));
        page.zone_places = (0..depth as u8).map(|zone| ZonePlace { zone, within: within(zone) }).collect();
        open_site(&site)
    };
    let bound = parallax::testing::limits::NODE_NESTING_MAX;
    assert!(nested(bound - 1).is_ok());
    request_everything(nested(bound).expect("at the limit"));
    assert!(nested(bound + 1).is_err());
}
