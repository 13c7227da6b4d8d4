//! Parallax's additions to GrowthBook's dialect, and the explanation of a result.

use std::cell::Cell;

use parallax::testing::condition::{Evaluator, Memo, Patterns};
use serde_json::json;

use super::{CompiledAudiences, DAY_MS, Site, Visitor, compiled};

#[test]
fn counts_apply_to_all_time_or_to_a_window() {
    let site = Site::new(&[]);
    let visitor = Visitor::with_purchases(9);
    for (count, expected) in [
        (json!({"$gte": 9}), true),
        (json!({"$gt": 9}), false),
        (json!({"$eq": 9, "$ne": 8, "$lte": 9, "$lt": 10}), true),
        (json!({"$gte": 3, "within": "3d"}), true),
        (json!({"$gte": 4, "within": "3d"}), false),
        (json!({"$gte": 3, "$lt": 3, "within": "3d"}), false),
        (json!({"$eq": 0, "within": "23h"}), true),
    ] {
        let condition = json!({"events.Bought It": {"$count": count}});
        assert_eq!(site.holds(&condition, &visitor), expected, "{condition}");
    }
    assert!(site.holds(&json!({"events.never": {"$count": {"$eq": 0}}}), &visitor));
}

#[test]
fn a_windowed_count_is_exact_within_the_kept_times() {
    let site = Site::new(&[]);
    for (operator, bound) in [("$gte", 16), ("$gt", 15), ("$eq", 15), ("$lte", 15)] {
        let condition = json!({"events.Bought It": {"$count": {operator: bound, "within": "99d"}}});
        for times in [14, 15, 16, 17, 40] {
            let expected = match operator {
                "$gte" => times >= bound,
                "$gt" => times > bound,
                "$eq" => times == bound,
                _ => times <= bound,
            };
            let visitor = Visitor::with_purchases(times);
            assert_eq!(site.holds(&condition, &visitor), expected, "{condition} at {times}");
        }
    }
}

#[test]
fn within_includes_the_exact_start_of_its_window() {
    let site = Site::new(&[]);
    let mut visitor = Visitor::new(&json!({}));
    let condition = json!({"visitor.lastSeen": {"$within": "24h"}});
    assert!(!site.holds(&condition, &visitor), "never seen");
    for (ago_ms, expected) in [(DAY_MS + 1, false), (DAY_MS, true), (DAY_MS - 1, true), (-1, true)] {
        visitor.last_seen_ms = Some(visitor.now_ms - ago_ms);
        assert_eq!(site.holds(&condition, &visitor), expected, "{ago_ms}");
    }
}

#[test]
fn times_as_text_compare_with_milliseconds() {
    let site = Site::new(&[]);
    let mut visitor = Visitor::new(&json!({}));
    visitor.last_seen_ms = Some(DAY_MS);
    for (operators, expected) in [
        (json!("1970-01-02T00:00:00Z"), true),
        (json!({"$eq": "1970-01-02T00:00:00Z"}), true),
        (json!({"$gt": "1970-01-02T00:00:00Z"}), false),
        (json!({"$in": ["1970-01-02T00:00:00Z"]}), true),
        (json!({"$lt": DAY_MS + 1}), true),
    ] {
        let condition = json!({"visitor.lastSeen": operators});
        assert_eq!(site.holds(&condition, &visitor), expected, "{condition}");
    }
}

#[test]
fn the_explanation_is_the_last_evaluated_test() {
    let site = Site::new(&[]);
    let visitor = Visitor::new(&json!({"plan": "pro", "tags": ["a", {"b": 2}]}));
    for (condition, holds, leaf) in [
        (json!({"traits.plan": "free"}), false, json!(["traits.plan", "$eq", "free", "pro"])),
        (
            json!({"$and": [{"traits.plan": {"$ne": "pro"}}, {"traits.nothing": 1}]}),
            false,
            json!(["traits.plan", "$ne", "pro", "pro"]),
        ),
        (
            json!({"$or": [{"traits.nothing": 1}, {"traits.plan": {"$regexi": "^P"}}]}),
            true,
            json!(["traits.plan", "$regexi", "^P", "pro"]),
        ),
        (
            json!({"traits.plan": {"$notInGroup": "plans"}}),
            false,
            json!(["traits.plan", "$notInGroup", "plans", "pro"]),
        ),
        (
            json!({"traits.tags": {"$elemMatch": {"b": {"$gt": 1}}}}),
            true,
            json!(["traits.tags.b", "$gt", 1, 2]),
        ),
        (json!({"traits.tags": {"$size": {"$gt": 2}}}), false, json!(["traits.tags.$size", "$gt", 2, 2])),
        (
            json!({"events.Bought It": {"$count": {"$gte": 3, "within": "7d"}}}),
            false,
            json!(["events.Bought It", "$count", {"$gte": 3, "within": "7d"}, 0]),
        ),
        (
            json!({"visitor.lastSeen": {"$within": "7d"}}),
            false,
            json!(["visitor.lastSeen", "$within", "7d", null]),
        ),
    ] {
        let explained = site.explain(&condition, &visitor);
        assert_eq!(explained, (holds, Some(leaf)), "{condition}");
    }
    assert_eq!(site.explain(&json!({}), &visitor), (true, None));
}

#[test]
fn the_explanation_is_found_inside_audiences_also_on_repeated_use() {
    let site = Site::new(&[
        ("paying", json!({"traits.plan": {"$in": ["pro", "team"]}})),
        ("loyal", json!({"$audience": "paying", "visitor.visits": {"$gte": 3}})),
    ]);
    let mut visitor = Visitor::new(&json!({"plan": "pro"}));
    let loyal = json!({"$audience": "loyal"});
    let visits = json!(["visitor.visits", "$gte", 3, 1]);
    assert_eq!(site.explain(&loyal, &visitor), (false, Some(visits)));
    visitor.visits = 3.0;
    let twice = json!({"$and": [{"$audience": "loyal"}, {"$audience": "paying"}]});
    let plan = json!(["traits.plan", "$in", ["pro", "team"], "pro"]);
    assert_eq!(site.explain(&twice, &visitor), (true, Some(plan)));
}

#[test]
fn an_audience_is_evaluated_at_most_once_and_only_if_needed() {
    let site = Site::new(&[
        ("a", json!({"traits.plan": "pro"})),
        ("b", json!({"traits.plan": "free"})),
        ("c", json!({"traits.plan": "team"})),
    ]);
    let mut sources = Vec::new();
    let audiences = CompiledAudiences::new(&site.conditions(), &mut sources);
    let condition = json!({"$or": [
        {"$audience": "b"},
        {"$not": {"$audience": "a"}},
        {"$audience": "a"},
        {"$audience": "c"},
    ]});
    let program = compiled(&site.read(&condition), &mut sources);
    let patterns = Patterns::new(&sources).expect("none");
    let mut evaluator = Evaluator {
        document: &Visitor::new(&json!({"plan": "pro"})),
        audiences: &audiences,
        patterns: &patterns,
        params: &[],
        memo: &mut Memo::default(),
    };
    assert!(evaluator.holds(program.get()) && evaluator.holds(program.get()));
    assert_eq!(audiences.lookups.iter().map(Cell::get).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn equal_conditions_compile_to_equal_programs_and_share_patterns() {
    let site = Site::new(&[]);
    let mut sources = Vec::new();
    let condition = json!({"traits.a": {"$regex": "x", "$regexi": "x", "$notRegex": "x"}});
    let first = site.read(&condition).compile(&mut sources).expect("the program is small");
    let again = site.read(&condition).compile(&mut sources).expect("the program is small");
    assert_eq!(first, again);
    assert_eq!(sources, ["x", "(?i)x"]);
}

#[test]
fn null_and_containers_have_no_text_for_a_regular_expression() {
    let site = Site::new(&[]);
    let visitor = Visitor::new(&json!({"list": ["a"], "number": 1.5, "flag": true}));
    for (path, expected) in
        [("traits.nothing", false), ("traits.list", false), ("traits.number", true), ("traits.flag", true)]
    {
        assert_eq!(site.holds(&json!({path: {"$regex": "."}}), &visitor), expected, "{path}");
        assert_eq!(site.holds(&json!({path: {"$notRegex": "."}}), &visitor), !expected, "{path}");
    }
}

#[test]
fn letters_and_digits_are_ascii_as_in_javascript() {
    let site = Site::new(&[]);
    for (pattern, text, expected) in [
        (r"^\w+$", "az_09", true),
        (r"^\w+$", "é", false),
        (r"^\W$", "é", true),
        (r"^\d$", "\u{663}", false),
        (r"^\D$", "\u{663}", true),
        (r"^[\w.-]{100}$", "a.-b.".repeat(20).as_str(), true),
        (r"^[^\d\s]+$", "aé", true),
        (r"^[^\d\s]+$", "a1", false),
        (r"\bb\b", "éb!", true),
        (r"\bb\B", "bé", false),
        (r"\Bb\B", "aba", true),
        (r"[]\[^\d]\d", "]1", true),
        (r"^\\w$", "\\w", true),
        (r"^\\w$", "a", false),
    ] {
        let visitor = Visitor::new(&json!({"text": text}));
        let condition = json!({"traits.text": {"$regex": pattern}});
        assert_eq!(site.holds(&condition, &visitor), expected, "{pattern} in {text}");
    }
}
