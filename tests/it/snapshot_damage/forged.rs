//! Handmade archives with a valid hash, which only the checks after the hash can refuse.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parallax::testing::checksum;
use parallax::testing::cli::inspect_snapshot;
use parallax::testing::condition::program::Program;
use parallax::testing::condition::{Patterns, TABLE_FORMAT, encode, seed_hash};
use parallax::testing::site::snapshot::format::{
    ARCHIVE_ALIGNMENT, Argument, Branch, Column, ColumnBound, Condition, CoverageStep, Experiment, Goals,
    HEADER_BYTES, Header, Index, IndexParam, Item, Metrics, Page, Param, ParamKind, Part, Piece, Query,
    QueryCall, Redirect, Route, RouteTarget, Rule, Scan, Site, TargetPart, Variant, Zone, ZonePlace,
    phase_hash,
};
use parallax::testing::site::snapshot::hash_index;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotError};
use parallax::testing::site::snapshot::pattern_format::SitePatterns;
use parallax::testing::site::snapshot::segment_format::TraitNames;
use proptest::prelude::*;
use serde_json::json;

use super::open_bytes;
use crate::fuzz::site::FILES;
use crate::fuzz::snapshot::request_everything;
use crate::harness::{snapshot, temporary_directory, times};

/// Indices of the routes of the site below.
pub(super) const LITERAL: usize = 0;
const REST: usize = 1;
const PATTERN: usize = 2;

fn goals() -> Goals {
    let list = "[]".to_owned();
    Goals { list, properties: Vec::new(), attribution_window_ms: 0, attributes_first: false }
}

/// Returns one expression with its table.
fn patterns() -> SitePatterns {
    SitePatterns {
        sources: vec!["a+".to_owned()],
        tables: Patterns::new(&["a+"]).expect("a valid expression").tables(),
        table_format: TABLE_FORMAT,
    }
}

/// A small valid site: a literal route and two patterns, each with two zones, one inside the other.
pub(super) fn site() -> Site {
    let text = String::new;
    let route = |path: &str, is_pattern, page| Route {
        path: path.into(),
        content: [0; 16],
        is_pattern,
        listing: format!("{{\"path\":\"{path}\""),
        target: RouteTarget::Page(page),
    };
    let branch = Branch { route: Some(PATTERN as u32), ..Branch::default() };
    let root = Branch { param: Some(1), rest: Some(REST as u32), ..Branch::default() };
    Site {
        rules: None,
        site: "hand".into(),
        tracking_id: "track_hand".to_owned(),
        name: text(),
        preview: None,
        version: 1,
        origins: Vec::new(),
        hosts: Vec::new(),
        ignored_referrers: Vec::new(),
        ignores_providers: true,
        cookie: "id".to_owned(),
        verifies_users: false,
        bots: 1,
        honor_gpc: false,
        measure_categories: Vec::new(),
        ip: 0,
        cache_resolve: text(),
        cache_routes: text(),
        cache_query: text(),
        settings: "{}".to_owned(),
        updated_at: None,
        time_zone: String::new(),
        clock_offsets: Vec::new(),
        patterns: patterns(),
        audiences: Vec::new(),
        experiments: vec![Experiment {
            key: "e".into(),
            seed: "e".to_owned(),
            seed_hash: seed_hash("e"),
            arms: vec!["default".to_owned(), "b".to_owned()],
            weights: vec![0.5, 0.5],
            coverages: vec![CoverageStep { from_ms: i64::MIN, share: 1.0 }],
            from_ms: None,
            to_ms: None,
            winner: None,
            phase_hash: phase_hash("e", "e", [("default", 0.5), ("b", 0.5)].into_iter(), 0.0),
            namespace: None,
            holdout: 0.0,
            metrics: Metrics::default(),
        }],
        namespaces: Vec::new(),
        holdout: None,
        goals: goals(),
        segments: Vec::new(),
        traits: TraitNames::default(),
        sees_url: false,
        pieces: pieces().0,
        queries: vec![query()],
        pages: vec![page("/"), page("/*"), page("/:a")],
        routes: vec![
            route("/", false, LITERAL as u32),
            route("/*", true, REST as u32),
            route("/:a", true, PATTERN as u32),
        ],
        literals: literals("/"),
        tree: vec![root, branch],
    }
}

fn literals(path: &str) -> Vec<u32> {
    let mut slots = vec![0; 2];
    slots[checksum::hash64(path.as_bytes()) as usize & 1] = LITERAL as u32 + 1;
    slots
}

/// A query with two items, and with a list, a range and a scan on `n`.
fn query() -> Query {
    let encoded = |json: serde_json::Value| {
        let mut out = Vec::new();
        encode(&json, &mut out);
        out
    };
    let item =
        |sort_key: &str| Item { sort_key: sort_key.into(), piece: 0, fields: encoded(json!({ "n": 1 })) };
    let values = vec![encoded(json!(1))];
    let slots = hash_index::build(1, std::iter::once((0, &values[0][..])));
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
            accepts: "a number".to_owned(),
        }],
        param_names: "one of n".to_owned(),
        limit: 2,
        order: String::new(),
        items: vec![item("a"), item("b")],
        index: Index {
            params: vec![IndexParam { param: 0, values, slots }],
            keys: vec![0, 2],
            lists: vec![vec![0, 1], vec![1]],
        },
        scan: Some(Scan {
            params: Some(vec![0]),
            program: Program::constant(true),
            residual: Program::constant(true),
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

/// A page with the parts `[piece, outer[inner], query]`. The query uses a part of the path.
fn page(path: &str) -> Page {
    let variant = |key: &str, parts: Vec<Part>| Variant {
        key: key.into(),
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
    let when = Condition { program: Program::constant(true), authored: "{}".to_owned() };
    outer.rules = vec![Rule::When { when, variant: 1 }, rule];
    Page {
        path: path.to_owned(),
        parts: vec![Part::Piece(0), Part::Zone(1), Part::Query(0)],
        zones: vec![zone("inner", Vec::new()), outer],
        zone_places: vec![ZonePlace { zone: 1, within: None }, ZonePlace { zone: 0, within: Some((1, 0)) }],
        embedded: vec![QueryCall { query: 0, arguments: vec![Argument::Route("a".to_owned())] }],
        combinations: 1,
        combinations_array_bytes: 4,
        combinations_truncated: false,
    }
}

/// Returns the pieces of the site, without compressed texts, and their piece data.
fn pieces() -> (Vec<Piece>, Vec<u8>) {
    let mut data = Vec::new();
    let pieces = ["\"layout\":{}}", "[\"\"],\"truncated\":false}"].map(|text| {
        let text_offset = data.len() as u64;
        data.extend_from_slice(text.as_bytes());
        let (crc, crc_shift) = (checksum::crc32(text.as_bytes()), checksum::crc32_shift(text.len()));
        let text_bytes = text.len() as u32;
        Piece { text_offset, deflate_offset: 0, text_bytes, deflate_bytes: 0, crc, crc_shift }
    });
    data.resize(data.len().next_multiple_of(ARCHIVE_ALIGNMENT), 0);
    (pieces.into(), data)
}

/// Returns a file with a valid header and a valid hash.
fn with_header(payload: &[u8], piece_data_bytes: usize) -> Vec<u8> {
    [&Header::for_payload(payload, piece_data_bytes, 1).to_bytes()[..], payload].concat()
}

/// Returns the file of a site.
pub(super) fn archived(site: &Site) -> Vec<u8> {
    let archive = rkyv::to_bytes::<rkyv::rancor::Error>(site).expect("the site can be archived");
    let data = pieces().1;
    with_header(&[&data[..], &archive].concat(), data.len())
}

pub(super) fn open_site(site: &Site) -> Result<Snapshot, SnapshotError> {
    open_bytes(&archived(site))
}

/// Asserts that the changed site is refused with a reason that contains `why`.
pub(super) fn assert_refused(change: impl Fn(&mut Site), why: &str) {
    let mut site = site();
    change(&mut site);
    match open_site(&site).err() {
        Some(SnapshotError::Invalid(reason)) => assert!(reason.contains(why), "{reason}, expected {why}"),
        other => panic!("{other:?}, expected {why}"),
    }
}

pub(super) fn assert_page_refused(change: impl Fn(&mut Page), why: &str) {
    assert_refused(|site| change(&mut site.pages[REST]), why);
}

#[test]
fn the_handmade_site_is_valid() {
    request_everything(open_site(&site()).expect("the snapshot opens"));
}

#[test]
fn an_unknown_bot_or_ip_policy_is_refused() {
    for known in 0..=2 {
        request_everything(
            open_site(&Site { bots: known, ip: known, ..site() }).expect("the snapshot opens"),
        );
    }
    for unknown in [3, u8::MAX] {
        assert_refused(|site| site.bots = unknown, "is not 0, 1 or 2");
        assert_refused(|site| site.ip = unknown, "is not 0, 1 or 2");
    }
}

#[test]
fn an_invalid_index_of_literal_paths_is_refused() {
    for slots in [vec![0, 4], vec![0, u32::MAX], vec![1, 1], vec![1], vec![1, 0, 0]] {
        assert_refused(|site| site.literals = slots.clone(), "is invalid or refers to a missing route");
    }
}

#[test]
fn an_invalid_route_tree_is_refused() {
    let circle = "has a cycle, or a branch with two parents";
    assert_refused(|site| site.tree[0].param = Some(2), circle);
    assert_refused(|site| site.tree[1].param = Some(0), circle);
    assert_refused(|site| site.tree[1].param = Some(1), circle);
    assert_refused(|site| site.tree[0].literals = vec![("a".to_owned(), 1)], circle);
    assert_refused(|site| site.tree[1].literals = vec![("a".to_owned(), u32::MAX)], circle);
    assert_refused(|site| site.tree.push(Branch::default()), "an unreachable branch");
    let astray = "refers to a missing route, or to a route of another depth";
    assert_refused(|site| site.tree[0].rest = Some(3), astray);
    assert_refused(|site| site.tree[1].route = Some(u32::MAX), astray);
    assert_refused(|site| site.tree[0].route = Some(PATTERN as u32), astray);
    assert_refused(|site| site.tree[1].rest = Some(REST as u32), astray);
}

#[test]
fn a_path_without_a_leading_slash_is_refused() {
    for path in ["", "é", "a/b"] {
        assert_refused(|site| site.routes[LITERAL].path = path.into(), "does not begin with a slash");
    }
}

#[test]
fn unsorted_routes_and_queries_are_refused() {
    assert_refused(|forged| forged.routes.extend(site().routes.pop()), "not sorted, or one occurs twice");
    assert_refused(|forged| forged.queries.push(query()), "not sorted, or one occurs twice");
}

#[test]
fn a_text_that_would_break_a_header_field_is_refused() {
    let text = || "a\r\nSet-Cookie: id=b".to_owned();
    assert_refused(|site| site.cache_resolve = text(), "the text of a cache time");
    assert_refused(|site| site.cache_routes = text(), "the text of a cache time");
    assert_refused(|site| site.cache_query = text(), "the text of a cache time");
    let why = "the key of an experiment, a zone or a variant";
    assert_refused(|site| site.experiments[0].key = text().into(), why);
    assert_page_refused(|page| page.zones[0].name = text(), why);
    assert_page_refused(|page| page.zones[0].variants[1].key = text().into(), why);
    assert_page_refused(|page| page.zones[0].variants[1].pair = text(), why);
}

#[test]
fn a_redirect_with_missing_parameters_is_refused() {
    let redirect = |part| {
        let parts = vec![TargetPart::Text("/a".to_owned()), part];
        RouteTarget::Redirect(Redirect { to: "/a".to_owned(), parts, status: 301 })
    };
    let missing = "a redirect refers to a missing parameter of its path";
    for (route, part) in [
        (LITERAL, TargetPart::Segment as fn(u16) -> _),
        (LITERAL, TargetPart::Rest),
        (PATTERN, TargetPart::Rest),
        (REST, TargetPart::Segment),
    ] {
        assert_refused(|site| site.routes[route].target = redirect(part(0)), missing);
    }
    assert_refused(|site| site.routes[PATTERN].target = redirect(TargetPart::Segment(1)), missing);
    assert_refused(|site| site.routes[REST].target = redirect(TargetPart::Rest(u16::MAX)), missing);
}

#[test]
fn a_layout_with_dangling_references_is_refused() {
    let nothing = "refers to a missing piece, zone, query or argument";
    assert_page_refused(|page| page.parts.push(Part::Piece(2)), nothing);
    assert_page_refused(|page| page.parts.push(Part::Zone(2)), nothing);
    assert_page_refused(|page| page.zones[0].variants[1].parts = vec![Part::Piece(u32::MAX)], nothing);
    assert_page_refused(|page| page.parts.push(Part::Query(1)), nothing);
    assert_page_refused(|page| page.parts.push(Part::RouteValue(1, 0)), nothing);
    assert_page_refused(|page| page.parts.push(Part::RouteValue(0, 1)), nothing);
    let fixed = |page: &mut Page| {
        page.embedded[0].arguments[0] = Argument::Nothing;
        page.parts.push(Part::RouteValue(0, 0));
    };
    assert_page_refused(fixed, nothing);
    assert_page_refused(|page| page.combinations = 2, "its combinations are missing");
    assert_page_refused(|page| page.combinations_array_bytes = 24, "its combinations are missing");
    assert_page_refused(
        |page| page.zones[0].variants.clear(),
        "a rule refers to a missing variant, experiment or audience",
    );
}

#[test]
fn a_route_with_a_missing_or_mismatched_page_is_refused() {
    assert_refused(|site| site.routes[LITERAL].target = RouteTarget::Page(3), "a missing page");
    for path in ["", "/a", "/:a/:b", "x", ":a/:b", "//"] {
        assert_refused(|site| site.pages[LITERAL].path = path.to_owned(), "a page with another path");
    }
}

#[test]
fn a_missing_or_mismatched_embedded_query_is_refused() {
    let nothing = "a page embeds a missing query";
    assert_page_refused(|page| page.embedded[0].query = 1, nothing);
    assert_page_refused(|page| page.embedded[0].arguments.clear(), nothing);
    assert_page_refused(|page| page.embedded[0].arguments.push(Argument::Nothing), nothing);
}

#[test]
fn a_query_with_dangling_references_is_refused() {
    let assert_refused =
        |change: &dyn Fn(&mut Query), why: &str| assert_refused(|site| change(&mut site.queries[0]), why);
    assert_refused(&|query| query.limit = 0, "its limit is out of range");
    assert_refused(&|query| query.limit = 101, "its limit is out of range");
    assert_refused(
        &|query| query.items[1].sort_key = b"a".to_vec(),
        "not sorted, or refer to a missing piece",
    );
    assert_refused(&|query| query.items[0].piece = 2, "not sorted, or refer to a missing piece");
    assert_refused(
        &|query| query.index.params[0].param = 1,
        "refers to a missing parameter, or its hash index is invalid",
    );
    assert_refused(
        &|query| query.index.params[0].slots = vec![1, 1],
        "refers to a missing parameter, or its hash index is invalid",
    );
    assert_refused(&|query| query.index.keys = vec![2, 0], "inconsistent, or refers to a missing item");
    assert_refused(&|query| query.index.keys = vec![0], "inconsistent, or refers to a missing item");
    assert_refused(&|query| query.index.lists[0] = vec![1, 0], "inconsistent, or refers to a missing item");
    assert_refused(&|query| query.index.lists[0] = vec![2], "inconsistent, or refers to a missing item");
    let assert_refused = |change: &dyn Fn(&mut Scan), why: &str| {
        assert_refused(&|query| change(query.scan.as_mut().expect("a scan")), why);
    };
    assert_refused(
        &|scan| scan.columns[0].keys = vec![vec![2], vec![1]],
        "column is inconsistent, or refers to a missing item",
    );
    assert_refused(
        &|scan| scan.columns[0].keys.truncate(1),
        "column is inconsistent, or refers to a missing item",
    );
    assert_refused(
        &|scan| scan.columns[0].positions[0] = 2,
        "column is inconsistent, or refers to a missing item",
    );
    assert_refused(
        &|scan| scan.columns[0].always[0] = 2,
        "column is inconsistent, or refers to a missing item",
    );
    assert_refused(&|scan| scan.bounds[0].column = 1, "scan refers to a missing column or parameter");
    assert_refused(&|scan| scan.bounds[0].param = 1, "scan refers to a missing column or parameter");
    assert_refused(&|scan| scan.params = Some(vec![1]), "scan refers to a missing column or parameter");
}

#[test]
fn a_rule_with_dangling_references_is_refused() {
    let nothing = "a rule refers to a missing variant, experiment or audience";
    let rule = |experiment, arms: &[u8]| Rule::Experiment { experiment, arms: arms.to_vec(), when: None };
    assert_page_refused(|page| page.zones[0].rules.push(rule(1, &[0, 1])), nothing);
    assert_page_refused(|page| page.zones[0].rules.push(rule(0, &[0, 2])), nothing);
    assert_page_refused(|page| page.zones[0].rules.push(rule(0, &[0])), nothing);
    let when = |variant| {
        let when = Condition { program: Program::constant(true), authored: "{}".to_owned() };
        Rule::When { when, variant }
    };
    let of_audience = || Rule::Audience { audience: 0, variant: 1 };
    assert_page_refused(|page| page.zones[0].rules.push(of_audience()), nothing);
    assert_page_refused(|page| page.zones[0].rules.push(when(2)), nothing);
    assert_page_refused(|page| page.zones[0].rules.push(when(255)), nothing);
}

#[test]
fn a_piece_outside_of_the_piece_data_is_refused() {
    let why = "a piece is outside of the piece data";
    assert_refused(|site| site.pieces[0].text_offset = 40, why);
    assert_refused(|site| site.pieces[0].text_offset = u64::MAX, why);
    assert_refused(|site| site.pieces[1].text_bytes = u32::MAX, why);
    assert_refused(|site| site.pieces[1].deflate_offset = 49, why);
    assert_refused(|site| site.pieces[1].deflate_bytes = 49, why);
    let end = pieces().1.len() as u64;
    let mut site = site();
    site.pieces[0].deflate_offset = end;
    assert!(open_site(&site).is_ok(), "an empty text at the end of the piece data");
}

#[test]
fn a_wrong_length_of_the_piece_data_is_refused() {
    let whole = archived(&site());
    let payload = &whole[HEADER_BYTES..];
    for bytes in [8, payload.len().next_multiple_of(ARCHIVE_ALIGNMENT) + ARCHIVE_ALIGNMENT] {
        let refusal = open_bytes(&with_header(payload, bytes)).err().expect("refused").to_string();
        assert!(refusal.contains("the length of the piece data"), "{bytes}: {refusal}");
    }
    // Without piece data, the pieces are outside of it.
    let refusal = open_bytes(&with_header(payload, 0)).err().expect("refused").to_string();
    assert!(refusal.contains("a piece is outside of the piece data"), "{refusal}");
}

#[test]
fn another_version_in_the_header_is_refused() {
    assert_refused(|site| site.version = 2, "header and content have different site versions");
}

#[test]
fn check_finds_a_piece_that_does_not_inflate_to_its_text() {
    let directory = temporary_directory();
    let path = directory.path().join("hand.snapshot");
    std::fs::write(&path, archived(&site())).expect("written");
    let checked = inspect_snapshot::check(&path).expect("the file is readable");
    assert_eq!(checked[0].1, Err("piece 0 does not inflate to its text".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: times(400, 100_000) as u32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn damage_under_a_valid_hash_is_refused_or_harmless(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = snapshot(&FILES, 1);
        let piece_data_bytes = u64::from_le_bytes(*bytes[32..].first_chunk().expect("a header")) as usize;
        for (at, byte) in places {
            // The root objects are at the end of the archive. Half of the damage goes there.
            let from = if byte & 1 == 0 { HEADER_BYTES } else { (bytes.len() * 3 / 4).max(HEADER_BYTES) };
            let at = from + at.index(bytes.len() - from);
            bytes[at] = byte;
        }
        let bytes = with_header(&bytes[HEADER_BYTES..], piece_data_bytes);
        let outcome = catch_unwind(AssertUnwindSafe(|| open_bytes(&bytes).map(request_everything)));
        prop_assert!(outcome.is_ok(), "a panic");
    }
}
