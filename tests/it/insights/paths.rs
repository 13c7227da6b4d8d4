//! Paths: the pages and events after and before a page, compared with a naive count over all records.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use parallax::testing::insights::{
    JourneyQuestion, LIST_BYTES_MAX, Limits, PATHS_LEVELS, PATHS_LIMIT_MAX, PathsQuestion, ScanError, Zone,
};
use parallax::testing::record::RecordKind;

use super::Event;
use super::journeys::{self, Moment, accepts, any_events, any_selection, ask, naive_visitors, name_of};
use super::oracle::{DAY_MS, HOUR_MS, NOW_MS, site};

/// The kind and the value of a page or an event.
type Item = (&'static str, Option<String>);

/// The visits that reached a node of the tree, and those without a further event, by the path to the node.
type Tree = BTreeMap<Vec<Item>, (u64, u64)>;

fn item(moment: &Moment<'_>) -> Item {
    let is_page = moment.event.kind == RecordKind::Page;
    let value = if is_page { moment.event.path } else { name_of(moment.event) };
    (if is_page { "page" } else { "event" }, value.map(str::to_owned))
}

fn add_path(tree: &mut Tree, path: &[Item]) {
    for length in 0..=path.len().min(PATHS_LEVELS) {
        let node = tree.entry(path[..length].to_vec()).or_default();
        node.0 += 1;
        node.1 += u64::from(length == path.len() && length < PATHS_LEVELS);
    }
}

/// Returns the tree of an answer, and checks the shares.
fn tree_of(answer: &Value) -> Tree {
    let ends = if answer["direction"] == "after" { "exits" } else { "entries" };
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut tree = Tree::new();
    let mut open = vec![(Vec::new(), answer)];
    while let Some((path, node)) = open.pop() {
        for next in node["next"].as_array().into_iter().flatten() {
            let kind = if next["kind"] == "page" { "page" } else { "event" };
            let item = (kind, next["value"].as_str().map(str::to_owned));
            let shares =
                [answer, node].map(|whole| number(&next["visits"]) as f64 / number(&whole["visits"]) as f64);
            assert_eq!([&next["ofPage"], &next["ofBefore"]].map(Value::as_f64), shares.map(Some));
            open.push(([&path[..], &[item]].concat(), next));
        }
        assert!(path.len() == PATHS_LEVELS || node["more"] == 0, "{node}");
        if number(&node["visits"]) > 0 {
            tree.insert(path, (number(&node["visits"]), number(&node[ends])));
        }
    }
    tree
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_number_of_paths_equals_a_naive_count(
        events in any_events(),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        page in select(vec!["/", "/a", "/*", "/none"]),
        direction in select(vec!["after", "before"]),
        selection in any_selection(),
        memory_bytes in select(vec![2_000, 1 << 30, 1 << 30]),
    ) {
        let mut params = vec![("page", page.to_owned()), ("direction", direction.to_owned()), ("limit", "20".to_owned())];
        params.extend(selection.clone());
        let pairs: Vec<_> = params.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let question = PathsQuestion::parse(&pairs, &site().zone, NOW_MS).expect("valid parameters");
        let (range, bots) = (question.selection.range.clone(), question.selection.bots);
        let answer = ask(JourneyQuestion::Paths(question), &events, &lengths, memory_bytes);
        let mut tree = Tree::new();
        for visitor in naive_visitors(&events, range.end, bots) {
            let mut visits: BTreeMap<usize, Vec<Moment<'_>>> = BTreeMap::new();
            for moment in visitor.moments.iter().filter(|moment| moment.visit > 0 && moment.event.time_ms >= range.start) {
                visits.entry(moment.visit).or_default().push(*moment);
            }
            for moments in visits.into_values() {
                let step = format!("page:{page}");
                let Some(at) = moments.iter().position(|moment| accepts(&step, moment.event)) else { continue };
                if visitor.passes(moments[at], &selection, range.start) {
                    let mut path: Vec<Item> = match direction {
                        "after" => moments[at + 1..].iter().map(item).collect(),
                        _ => moments[..at].iter().rev().map(item).collect(),
                    };
                    path.truncate(PATHS_LEVELS);
                    add_path(&mut tree, &path);
                }
            }
        }
        prop_assert_eq!(tree_of(&answer), tree);
    }
}

fn limit(limit: usize) -> Result<usize, &'static str> {
    let params = [("page", "/"), ("limit", &limit.to_string())];
    let question = PathsQuestion::parse(&params, &Zone::utc(), NOW_MS);
    question.map(|question| question.limit).map_err(|error| error.kind.code)
}

#[test]
fn a_level_has_at_most_20_pages_and_events() {
    assert_eq!(limit(PATHS_LIMIT_MAX - 1), Ok(PATHS_LIMIT_MAX - 1));
    assert_eq!(limit(PATHS_LIMIT_MAX), Ok(PATHS_LIMIT_MAX));
    assert_eq!(limit(PATHS_LIMIT_MAX + 1), Err("invalid_limit"));
}

/// The branches of the first level, and the branches of each of them.
const LONG_BRANCHES: [usize; 2] = [8, 15];
/// The length of their paths. All of them together have as many bytes as the values of a tree may have.
const LONG_PATH_BYTES: usize = LIST_BYTES_MAX / 128;

/// Returns a path with this length that begins with the text.
fn long_path(begin: &str, length: usize) -> &'static str {
    format!("/{begin}{}", "x".repeat(length - begin.len() - 1)).leak()
}

#[test]
fn the_values_of_a_tree_take_at_most_2_mib() {
    let [firsts, seconds] = LONG_BRANCHES;
    assert_eq!((firsts + firsts * seconds) * LONG_PATH_BYTES, LIST_BYTES_MAX);
    let [first, second] = LONG_BRANCHES
        .map(|count| (0..count).map(|n| long_path(&format!("{n:02}"), LONG_PATH_BYTES)).collect::<Vec<_>>());
    let page = |visit: usize, level: i64, path: &'static str| {
        // Visits of one visitor, one hour apart.
        Event { path: Some(path), ..Event::page(NOW_MS - 6 * DAY_MS + visit as i64 * HOUR_MS + level) }
    };
    for (last_bytes, expected) in [
        (LONG_PATH_BYTES - 1, (seconds, json!(0))),
        (LONG_PATH_BYTES, (seconds, json!(0))),
        (LONG_PATH_BYTES + 1, (seconds - 1, json!(1))),
    ] {
        let mut events = Vec::new();
        for visit in 0..firsts * seconds {
            let is_last = visit + 1 == firsts * seconds;
            let next = if is_last { long_path("99", last_bytes) } else { second[visit % seconds] };
            events.extend([
                page(visit, 0, "/"),
                page(visit, 1, first[visit / seconds]),
                page(visit, 2, next),
            ]);
        }
        let question = PathsQuestion::parse(&[("page", "/"), ("limit", "20")], &site().zone, NOW_MS)
            .expect("valid parameters");
        let answer = ask(JourneyQuestion::Paths(question), &events, &[], 1 << 30);
        let count = |node: &Value| node["next"].as_array().map_or(0, Vec::len);
        assert_eq!((&answer["visits"], count(&answer)), (&json!(firsts * seconds), firsts));
        let before = &answer["next"][firsts - 2];
        assert_eq!((count(before), &before["more"]), (seconds, &json!(0)), "{last_bytes} bytes");
        let last = &answer["next"][firsts - 1];
        assert_eq!((count(last), last["more"].clone()), expected, "{last_bytes} bytes");
    }
}

/// Returns a visit of the front page and then of three pages. Each of the three has one of `widths` paths.
fn short_visit(number: usize, widths: [usize; 3]) -> Vec<Event> {
    let visitor: &'static str = format!("v{number}").leak();
    let page = |level: i64, path: &'static str| {
        let time_ms = NOW_MS - 60_000 + level;
        Event { anon_id: Some(visitor), path: Some(path), ..Event::page(time_ms) }
    };
    let mut rest = number;
    let mut visit = vec![page(0, "/")];
    for (level, width) in widths.into_iter().enumerate() {
        visit.push(page(level as i64 + 1, format!("/{}", rest % width).leak()));
        rest /= width;
    }
    visit
}

#[test]
fn many_paths_are_counted_in_parts_of_their_first_pages() {
    let params = [("page", "/"), ("limit", "20")];
    let question = || PathsQuestion::parse(&params, &site().zone, NOW_MS).expect("valid parameters");
    let events: Vec<Event> = (0..3_456).flat_map(|number| short_visit(number, [12, 12, 12])).collect();
    let answer = |memory_bytes: u64| ask(JourneyQuestion::Paths(question()), &events, &[], memory_bytes);
    let all = answer(1 << 30);
    assert_eq!(answer(600 << 10), all);
    assert_eq!((&all["visits"], &all["next"][0]["visits"]), (&json!(3_456), &json!(288)));
    // All paths have the same first page, so that parts do not divide them.
    let events: Vec<Event> = (0..1_728).flat_map(|number| short_visit(number, [1, 12, 144])).collect();
    let limits = Limits { memory_bytes: 600 << 10, is_over: &|| false };
    let refused = journeys::answer(&JourneyQuestion::Paths(question()), &events, &limits);
    assert!(matches!(refused, Err(ScanError::TooLarge)));
}
