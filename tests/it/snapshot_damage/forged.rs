//! Archives made by hand with a right hash: what only the checks behind the hash can refuse.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parallax::checksum;
use parallax::cli::inspect_snapshot;
use parallax::condition::encode;
use parallax::site::snapshot::format::{
    Branch, Column, ColumnBound, Embedded, Experiment, Given, HEADER_BYTES, Header, Index, Indexed, Item,
    Page, Param, ParamKind, Part, Piece, Query, Range, Route, Rule, Scan, Shows, Site, Variant, Zone,
};
use parallax::site::snapshot::hash_index;
use parallax::site::snapshot::open::{Refusal, Snapshot};
use proptest::prelude::*;
use serde_json::json;

use super::open_bytes;
use crate::fuzz::site::FILES;
use crate::fuzz::snapshot::answers;
use crate::harness::{snapshot, temporary_folder, times};

/// The routes of the site below.
const LITERAL: usize = 0;
const PATTERN: usize = 1;
const REST: usize = 2;

/// A small site that is sound: a literal route and two patterns, each showing two zones, one in the other.
fn site() -> Site {
    let text = String::new;
    let route = |path: &str, pattern, shows| Route {
        path: path.to_owned(),
        content: [0; 16],
        pattern,
        listing: format!("{{\"path\":\"{path}\""),
        shows: Shows::Page(shows),
    };
    let branch = Branch { route: Some(PATTERN as u32), ..Branch::default() };
    let root = Branch { param: Some(1), rest: Some(REST as u32), ..Branch::default() };
    Site {
        site: "hand".to_owned(),
        tracking_id: "track_hand".to_owned(),
        name: text(),
        version: 1,
        origins: Vec::new(),
        cookie: "id".to_owned(),
        bots: 1,
        honor_gpc: false,
        ip: 0,
        cache_resolve: text(),
        cache_routes: text(),
        cache_query: text(),
        updated_at: None,
        clock: Vec::new(),
        patterns: vec!["a+".to_owned()],
        audiences: Vec::new(),
        experiments: vec![Experiment {
            key: "e".to_owned(),
            seed: "e".to_owned(),
            ranges: vec![Range { from: 0.0, to: 0.5 }, Range { from: 0.5, to: 1.0 }],
            namespace: None,
            holdout: 0.0,
        }],
        sees_url: false,
        pieces: vec![piece("\"layout\":{}}"), piece("[\"\"],\"truncated\":false}")],
        queries: vec![query()],
        pages: vec![page("/"), page("/:a"), page("/*")],
        routes: vec![
            route("/", false, LITERAL as u32),
            route("/:a", true, PATTERN as u32),
            route("/*", true, REST as u32),
        ],
        literals: literals("/"),
        tree: vec![root, branch],
    }
}

fn literals(path: &str) -> Vec<u32> {
    let mut slots = vec![0; 2];
    slots[checksum::table(path.as_bytes()) as usize & 1] = LITERAL as u32 + 1;
    slots
}

/// Two items, found by `n` through a list, a range and a scan.
fn query() -> Query {
    let encoded = |json: serde_json::Value| {
        let mut out = Vec::new();
        encode(&json, &mut out);
        out
    };
    let item = |place: &str| Item { place: place.into(), piece: 0, facts: encoded(json!({ "n": 1 })) };
    let values = vec![encoded(json!(1))];
    let slots = hash_index::slots(1, std::iter::once((0, &values[0][..])));
    Query {
        key: "q".to_owned(),
        content: [0; 16],
        collection: "c".to_owned(),
        params: vec![Param {
            name: "n".to_owned(),
            kind: ParamKind::Number,
            optional: true,
            default: None,
            values: Vec::new(),
            minimum: None,
            maximum: None,
            says: "a number".to_owned(),
        }],
        declares: "one of n".to_owned(),
        limit: 2,
        order: String::new(),
        items: vec![item("a"), item("b")],
        index: Index {
            params: vec![Indexed { param: 0, values, slots }],
            keys: vec![0, 2],
            lists: vec![vec![0, 1], vec![1]],
        },
        scan: Some(Scan {
            params: Some(vec![0]),
            program: Vec::new(),
            open: Vec::new(),
            columns: vec![Column {
                path: "n".to_owned(),
                keys: vec![vec![1], vec![2]],
                positions: vec![1, 0],
                always: vec![1],
            }],
            bounds: vec![ColumnBound { column: 0, param: 0, is_lower: true }],
        }),
    }
}

/// `[piece, outer[inner]]`, and a query by a part of the path.
fn page(path: &str) -> Page {
    let variant = |key: &str, parts: Vec<Part>| Variant {
        key: key.to_owned(),
        pair: String::new(),
        selected: format!("\"z\":\"{key}\""),
        parts,
    };
    let rule = Rule::Experiment { experiment: 0, arms: vec![0, 1], when: None };
    let zone = |name: &str, inner: Vec<Part>| Zone {
        name: name.to_owned(),
        variants: vec![variant("default", inner), variant("b", vec![Part::Piece(0)])],
        rules: vec![Rule::Experiment { experiment: 0, arms: vec![0, 1], when: None }],
    };
    let mut outer = zone("outer", vec![Part::Zone(0)]);
    outer.rules = vec![Rule::When { program: Vec::new(), variant: 1, audience: false }, rule];
    Page {
        path: path.to_owned(),
        parts: vec![Part::Piece(0), Part::Zone(1), Part::Query(0)],
        zones: vec![zone("inner", Vec::new()), outer],
        embedded: vec![Embedded { query: 0, given: vec![Given::Route("a".to_owned())] }],
        combinations: 1,
        combinations_array_bytes: 4,
        combinations_truncated: false,
    }
}

fn piece(text: &str) -> Piece {
    let text = text.as_bytes().to_vec();
    Piece { deflate: Vec::new(), crc: checksum::crc(&text), shift: checksum::crc_shift(text.len()), text }
}

/// A file with a right header and a right hash.
fn sealed(payload: &[u8], version: u64) -> Vec<u8> {
    [&Header::of(payload, version).to_bytes()[..], payload].concat()
}

fn opened(site: &Site) -> Result<Snapshot, Refusal> {
    let payload = rkyv::to_bytes::<rkyv::rancor::Error>(site).expect("it can be archived");
    open_bytes(&sealed(&payload, 1))
}

/// Asserts that the site with this change is refused, and why.
fn refused(change: impl Fn(&mut Site), why: &str) {
    let mut site = site();
    change(&mut site);
    match opened(&site).err() {
        Some(Refusal::Unsound(reason)) => assert!(reason.contains(why), "{reason}, expected {why}"),
        other => panic!("{other:?}, expected {why}"),
    }
}

fn refused_page(change: impl Fn(&mut Page), why: &str) {
    refused(|site| change(&mut site.pages[REST]), why);
}

#[test]
fn the_site_made_by_hand_is_sound() {
    answers(opened(&site()).expect("it opens"));
}

#[test]
fn a_way_with_crawlers_or_addresses_that_is_none_is_refused() {
    for known in 0..=2 {
        answers(opened(&Site { bots: known, ip: known, ..site() }).expect("it opens"));
    }
    for unknown in [3, u8::MAX] {
        refused(|site| site.bots = unknown, "is none that there is");
        refused(|site| site.ip = unknown, "is none that there is");
    }
}

#[test]
fn a_table_of_literal_paths_that_leads_nowhere_is_refused() {
    for slots in [vec![0, 4], vec![0, u32::MAX], vec![1, 1], vec![1], vec![1, 0, 0]] {
        refused(|site| site.literals = slots.clone(), "has no end, or names a route that is not there");
    }
}

#[test]
fn a_tree_that_is_none_is_refused() {
    let circle = "has a circle, or a branch in two places";
    refused(|site| site.tree[0].param = Some(2), circle);
    refused(|site| site.tree[1].param = Some(0), circle);
    refused(|site| site.tree[1].param = Some(1), circle);
    refused(|site| site.tree[0].literals = vec![("a".to_owned(), 1)], circle);
    refused(|site| site.tree[1].literals = vec![("a".to_owned(), u32::MAX)], circle);
    refused(|site| site.tree.push(Branch::default()), "nothing leads to");
    let astray = "names a route that is not there, or elsewhere";
    refused(|site| site.tree[0].rest = Some(3), astray);
    refused(|site| site.tree[1].route = Some(u32::MAX), astray);
    refused(|site| site.tree[0].route = Some(PATTERN as u32), astray);
    refused(|site| site.tree[1].rest = Some(REST as u32), astray);
}

#[test]
fn a_path_that_cannot_be_asked_for_is_refused() {
    for path in ["", "é", "a/b"] {
        refused(|site| site.routes[LITERAL].path = path.to_owned(), "does not begin with a slash");
    }
}

#[test]
fn a_layout_whose_references_lead_nowhere_is_refused() {
    let nothing = "names a piece, a zone or a query that is not there";
    refused_page(|page| page.parts.push(Part::Piece(2)), nothing);
    refused_page(|page| page.parts.push(Part::Zone(2)), nothing);
    refused_page(|page| page.zones[0].variants[1].parts = vec![Part::Piece(u32::MAX)], nothing);
    refused_page(|page| page.parts.push(Part::Query(1)), nothing);
    refused_page(|page| page.combinations = 2, "no combinations");
    refused_page(|page| page.combinations_array_bytes = 24, "no combinations");
    refused_page(|page| page.zones[0].variants.clear(), "a rule names what is not there");
}

#[test]
fn a_route_that_shows_no_page_or_one_of_another_path_is_refused() {
    refused(|site| site.routes[LITERAL].shows = Shows::Page(3), "a page that is not there");
    for path in ["", "/a", "/:a/:b", "x", ":a/:b", "//"] {
        refused(|site| site.pages[LITERAL].path = path.to_owned(), "a page of another path");
    }
}

#[test]
fn an_embedded_query_that_is_not_there_or_has_other_parameters_is_refused() {
    let nothing = "a page embeds a query that is not there";
    refused_page(|page| page.embedded[0].query = 1, nothing);
    refused_page(|page| page.embedded[0].given.clear(), nothing);
    refused_page(|page| page.embedded[0].given.push(Given::Nothing), nothing);
}

#[test]
fn a_query_whose_references_lead_nowhere_is_refused() {
    let refused = |change: &dyn Fn(&mut Query), why: &str| refused(|site| change(&mut site.queries[0]), why);
    refused(&|query| query.limit = 0, "a limit out of range");
    refused(&|query| query.limit = 101, "a limit out of range");
    refused(&|query| query.items[1].place = b"a".to_vec(), "not sorted, or name a piece");
    refused(&|query| query.items[0].piece = 2, "not sorted, or name a piece");
    refused(&|query| query.index.params[0].param = 1, "a parameter that is not there, or no end");
    refused(&|query| query.index.params[0].slots = vec![1, 1], "a parameter that is not there, or no end");
    refused(&|query| query.index.keys = vec![2, 0], "not sorted, or names an item");
    refused(&|query| query.index.keys = vec![0], "not sorted, or names an item");
    refused(&|query| query.index.lists[0] = vec![1, 0], "not sorted, or names an item");
    refused(&|query| query.index.lists[0] = vec![2], "not sorted, or names an item");
    let refused = |change: &dyn Fn(&mut Scan), why: &str| {
        refused(&|query| change(query.scan.as_mut().expect("a scan")), why);
    };
    refused(&|scan| scan.columns[0].keys = vec![vec![2], vec![1]], "column is not sorted, or names an item");
    refused(&|scan| scan.columns[0].keys.truncate(1), "column is not sorted, or names an item");
    refused(&|scan| scan.columns[0].positions[0] = 2, "column is not sorted, or names an item");
    refused(&|scan| scan.columns[0].always[0] = 2, "column is not sorted, or names an item");
    refused(&|scan| scan.bounds[0].column = 1, "scan names what is not there");
    refused(&|scan| scan.bounds[0].param = 1, "scan names what is not there");
    refused(&|scan| scan.params = Some(vec![1]), "scan names what is not there");
}

#[test]
fn a_zone_that_stands_in_two_places_or_in_itself_or_nowhere_is_refused() {
    let twice = "a zone stands in two places, or too deep";
    refused_page(|page| page.parts.push(Part::Zone(1)), twice);
    refused_page(|page| page.parts.push(Part::Zone(0)), twice);
    refused_page(|page| page.zones[0].variants[1].parts = vec![Part::Zone(0)], twice);
    refused_page(|page| page.zones[0].variants[0].parts = vec![Part::Zone(1)], twice);
    refused_page(|page| page.parts = vec![Part::Piece(0)], "a zone stands nowhere");
}

#[test]
fn zones_may_nest_as_deep_as_the_bound_and_no_deeper() {
    let nested = |depth: usize| {
        let mut site = site();
        let page = &mut site.pages[LITERAL];
        page.parts = vec![Part::Zone(0)];
        page.zones = (0..depth)
            .map(|i| {
                let inner = if i + 1 < depth { vec![Part::Zone(i as u8 + 1)] } else { Vec::new() };
                let default = Variant {
                    key: "default".to_owned(),
                    pair: String::new(),
                    selected: "\"z\":\"default\"".to_owned(),
                    parts: inner,
                };
                Zone { name: format!("z{i:02}"), variants: vec![default], rules: Vec::new() }
            })
            .collect();
        opened(&site)
    };
    let bound = parallax::limits::NODE_NESTING_MAX;
    assert!(nested(bound - 1).is_ok());
    answers(nested(bound).expect("at the bound"));
    assert!(nested(bound + 1).is_err());
}

#[test]
fn a_rule_that_chooses_what_is_not_there_is_refused() {
    let nothing = "a rule names what is not there";
    let rule = |experiment, arms: &[u8]| Rule::Experiment { experiment, arms: arms.to_vec(), when: None };
    refused_page(|page| page.zones[0].rules.push(rule(1, &[0, 1])), nothing);
    refused_page(|page| page.zones[0].rules.push(rule(0, &[0, 2])), nothing);
    refused_page(|page| page.zones[0].rules.push(rule(0, &[0])), nothing);
    let when = |variant| Rule::When { program: Vec::new(), variant, audience: false };
    refused_page(|page| page.zones[0].rules.push(when(2)), nothing);
    refused_page(|page| page.zones[0].rules.push(when(255)), nothing);
}

#[test]
fn what_contradicts_itself_is_refused() {
    refused(|site| site.version = 2, "header and content name different versions");
    refused(|site| site.patterns.push("(".to_owned()), "");
    refused(|site| site.patterns.push("a{1000}{1000}".to_owned()), "");
}

#[test]
fn check_finds_a_piece_that_does_not_inflate_to_its_text() {
    let folder = temporary_folder();
    let path = folder.path().join("hand.snapshot");
    let payload = rkyv::to_bytes::<rkyv::rancor::Error>(&site()).expect("it can be archived");
    std::fs::write(&path, sealed(&payload, 1)).expect("written");
    let checked = inspect_snapshot::check(&path).expect("it can be looked at");
    assert_eq!(checked[0].1, Err("piece 0 does not inflate to its text".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: times(400, 100_000) as u32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn damage_under_a_right_hash_is_refused_or_harmless(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = snapshot(&FILES, 1);
        for (at, byte) in places {
            // The roots of things stand at the end: half of the damage goes there.
            let from = if byte & 1 == 0 { HEADER_BYTES } else { (bytes.len() * 3 / 4).max(HEADER_BYTES) };
            let at = from + at.index(bytes.len() - from);
            bytes[at] = byte;
        }
        let bytes = sealed(&bytes[HEADER_BYTES..], 1);
        let outcome = catch_unwind(AssertUnwindSafe(|| open_bytes(&bytes).map(answers)));
        prop_assert!(outcome.is_ok(), "a panic");
    }
}
