//! The goals of a site: their errors, their limits, and conditions that name one.

use parallax::testing::limits::{
    ATTRIBUTION_MS_MAX, EXPERIMENT_VALUES_MAX, GOAL_TESTS_MAX, GOALS_MAX, ROUTE_BYTES_MAX,
};
use parallax::testing::site::compile::compile;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use parallax::testing::site::source::read::read;
use serde_json::{Map, Value, json};

use super::{files, line};

/// Compiles a site with these members, audiences and experiments. Returns the lines of a report of its errors.
pub(super) fn lines(members: &Value, audiences: &Value, experiments: &[Value]) -> Vec<String> {
    let mut site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    site.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    let rule = |experiment: &Value| json!({ "experiment": experiment });
    let zone = |experiments: &[Value]| {
        let rules: Vec<Value> = experiments.iter().map(rule).collect();
        json!({ "default": [], "variants": { "b": [] }, "rules": rules })
    };
    // A page cannot have a zone for each of the most experiments.
    let zones =
        experiments.chunks(2).enumerate().map(|(n, experiments)| (format!("z{n}"), zone(experiments)));
    let zones: Map<String, Value> = zones.collect();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } });
    let [site, audiences, page] = [&site, audiences, &page].map(ToString::to_string);
    let files = files(&[("site.json", &site), ("audiences.json", &audiences), ("routes/index.json", &page)]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    match compile(&source, diagnostics, 1, &|_, _| {}) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.report(&files).diagnostics.iter().map(line).collect(),
    }
}

fn goal(more: Value) -> Value {
    let mut goal = json!({ "name": "G", "event": "Order Placed" });
    goal.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    goal
}

fn of_goal(goal: &Value) -> Vec<String> {
    lines(&json!({ "goals": { "g": goal } }), &json!({}), &[])
}

#[test]
fn each_wrong_goal_is_reported_at_its_place() {
    for (goal, expected) in [
        (json!({ "name": "G" }), "/goals/g | either `event` or `page` | neither"),
        (goal(json!({ "page": "/" })), "/goals/g | either `event` or `page` | both"),
        (json!({ "name": "G", "page": "/a?b" }), "/goals/g/page | a path without `?` and `#` | /a?b"),
        (
            json!({ "name": "G", "page": format!("/{}", "a".repeat(ROUTE_BYTES_MAX)) }),
            "/goals/g/page | a path of at most 2048 bytes | 2049 bytes",
        ),
        (
            json!({ "name": "G", "page": "a" }),
            "/goals/g/page | a path that begins with `/` | the string \"a\"",
        ),
        (
            goal(json!({ "currency": "properties.c" })),
            "/goals/g/currency | a `value` too, because it has the currency | no `value`",
        ),
        (
            goal(json!({ "value": "revenue" })),
            "/goals/g/value | a property of events such as `properties.form` | the string \"revenue\"",
        ),
        (
            goal(json!({ "where": { "properties.a": {} } })),
            "/goals/g/where/properties.a | at least one operator such as `$eq` | none",
        ),
        (
            goal(json!({ "where": { "properties.a": { "$gt": true } } })),
            "/goals/g/where/properties.a/$gt | a string or a number | true",
        ),
    ] {
        let found = of_goal(&goal);
        assert!(found.len() == 1 && found[0].ends_with(expected), "{goal}: {found:?}, expected {expected}");
    }
}

#[test]
fn a_site_has_so_many_goals_tests_and_values_and_no_more() {
    let tests = |count: usize| {
        let tests: Map<String, Value> =
            (0..count).map(|n| (format!("properties.p{n}"), json!({ "$exists": true }))).collect();
        of_goal(&goal(json!({ "where": tests })))
    };
    assert_eq!([tests(GOAL_TESTS_MAX - 1), tests(GOAL_TESTS_MAX)], [Vec::<String>::new(), Vec::new()]);
    assert!(tests(GOAL_TESTS_MAX + 1)[0].contains("at most 16 properties"));
    let goals = |count: usize| {
        let goals: Map<String, Value> = (0..count).map(|n| (format!("g{n}"), goal(json!({})))).collect();
        lines(&json!({ "goals": goals }), &json!({}), &[])
    };
    assert_eq!([goals(GOALS_MAX - 1), goals(GOALS_MAX)], [Vec::<String>::new(), Vec::new()]);
    assert!(goals(GOALS_MAX + 1)[0].contains("at most 64 goals"));
    let values_with = |goals: Value, count: usize| {
        let experiment = |n: usize| json!({ "key": format!("e{n}"), "variants": ["default", "b"], "goal": "Order", "value": format!("properties.p{n}") });
        lines(&json!({ "goals": goals }), &json!({}), &(0..count).map(experiment).collect::<Vec<_>>())
    };
    let values = |count| values_with(json!({}), count);
    assert_eq!(
        [values(EXPERIMENT_VALUES_MAX - 1), values(EXPERIMENT_VALUES_MAX)],
        [Vec::<String>::new(), Vec::new()]
    );
    let refused = values(EXPERIMENT_VALUES_MAX + 1);
    assert!(refused.iter().any(|line| line.contains("at most 64 different values")), "{refused:?}");
    // The goal has the amounts of one of them.
    let order = |more: Value| {
        let mut order = json!({ "name": "Order", "event": "Order", "value": "properties.p0" });
        order.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        values_with(json!({ "order": order }), EXPERIMENT_VALUES_MAX + 1)
    };
    assert_eq!(order(json!({})), [""; 0]);
    for more in [
        json!({ "currency": "properties.c" }),
        json!({ "event": "Other" }),
        json!({ "where": { "properties.a": { "$exists": true } } }),
    ] {
        assert!(!order(more.clone()).is_empty(), "{more}");
    }
    let window = |window_ms: i64| {
        lines(&json!({ "attribution": { "window": format!("{}s", window_ms / 1_000) } }), &json!({}), &[])
    };
    assert_eq!(
        [window(ATTRIBUTION_MS_MAX - 1_000), window(ATTRIBUTION_MS_MAX)],
        [Vec::<String>::new(), Vec::new()]
    );
    assert!(window(ATTRIBUTION_MS_MAX + 1_000)[0].contains("at most 366 days"));
}

#[test]
fn a_condition_may_name_a_goal_that_profiles_can_decide() {
    let goals = json!({ "goals": {
        "order": goal(json!({})),
        "shop": { "name": "Shop", "page": "/shop*" },
        "lead": goal(json!({ "where": { "properties.form": { "$eq": "demo" } } })),
    } });
    let audience = |when: Value| lines(&goals, &json!({ "a": { "when": when } }), &[]);
    for when in [
        json!({ "goals.order": { "$count": { "$gte": 1 } } }),
        json!({ "goals.order.count": { "$gte": 1 }, "goals.shop.last": { "$within": "7d" } }),
        json!({ "goals.shop.first": { "$exists": true } }),
    ] {
        assert_eq!(audience(when.clone()), [""; 0], "{when}");
    }
    for (when, expected) in [
        (
            json!({ "goals.lead.count": 1 }),
            "a goal of `site.json` without `where`, because a profile has no properties of events | goals.lead.count",
        ),
        (json!({ "goals.ordr.count": 1 }), "| goals.order.count"),
    ] {
        let found = audience(when.clone());
        assert!(found.len() == 1 && found[0].ends_with(expected), "{when}: {found:?}");
    }
}

/// Returns the fields that a condition of a site with these goals tests: the code and the name of each.
fn fields_of(goals: &Value, when: &Value) -> Vec<(u16, String)> {
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "goals": goals });
    let [site, audiences] = [site, json!({ "a": { "when": when } })].map(|file| file.to_string());
    let files = files(&[("site.json", &site), ("audiences.json", &audiences)]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {}).expect("a snapshot");
    let opened = Snapshot::open_bytes(&compiled.bytes, &SnapshotBudget::new(u64::MAX));
    let snapshot = opened.expect("a valid snapshot");
    let fields = snapshot.site().audiences[0].condition.program.fields();
    fields.map(|(code, name)| (code, name.to_owned())).collect()
}

#[test]
fn a_goal_in_a_condition_is_its_event_or_page() {
    let goals = json!({
        "order": { "name": "Order", "event": "Order Placed" },
        "shop": { "name": "Shop", "page": "/shop*" },
        "cart": { "name": "Cart", "event": "Cart.last" },
    });
    for (path, meant, operand) in [
        ("goals.order", "events.Order Placed", json!({ "$count": { "$gte": 1 } })),
        ("goals.order.count", "events.Order Placed.count", json!(1)),
        ("goals.order.first", "events.Order Placed.first", json!({ "$within": "7d" })),
        ("goals.shop.last", "pages./shop*.last", json!({ "$within": "7d" })),
        ("goals.cart.count", "events.Cart.last.count", json!(1)),
    ] {
        let fields = |path: &str| fields_of(&goals, &json!({ path: operand }));
        assert_eq!(fields(path), fields(meant), "{path}");
    }
    // The end of the name is no member.
    let [cart, order] = ["goals.cart", "goals.order"]
        .map(|path| fields_of(&goals, &json!({ path: { "$count": { "$gte": 1 } } })));
    assert_eq!([&cart[0].1, &order[0].1], ["Cart.last", "Order Placed"]);
    assert_eq!(cart[0].0, order[0].0);
}

#[test]
fn a_wrong_operand_of_a_goal_is_reported_like_that_of_its_event() {
    let goals = json!({ "goals": { "order": goal(json!({})), "none": { "name": "None" } } });
    let of = |when: Value| lines(&goals, &json!({ "a": { "when": when } }), &[]);
    let goal_error = "/goals/none | either `event` or `page` | neither";
    for (when, expected) in [
        (
            json!({ "goals.order.first": { "$gt": "2026-02-01T00:00:00Z", "$lt": "2026-01-01T00:00:00Z" } }),
            Some("audiences.json:1:71 /a/when/goals.order.first/$lt"),
        ),
        (
            json!({ "goals.order.sum": 1 }),
            Some("`goals.order`, also with `.count`, `.first`, `.last` | goals.order.sum"),
        ),
        (json!({ "goals.order.cnt": 1 }), Some("| goals.order.cnt | goals.order.count")),
        // The goal has the only error.
        (json!({ "goals.none.count": 1 }), None),
    ] {
        let found = of(when.clone());
        assert!(found.iter().any(|line| line.ends_with(goal_error)), "{when}: {found:?}");
        let others: Vec<&String> = found.iter().filter(|line| !line.ends_with(goal_error)).collect();
        assert_eq!(others.len(), usize::from(expected.is_some()), "{when}: {found:?}");
        assert!(others.iter().all(|line| line.contains(expected.unwrap_or_default())), "{when}: {found:?}");
    }
}

#[test]
fn the_value_of_an_experiment_is_that_of_its_goal() {
    let goals =
        json!({ "goals": { "order": goal(json!({ "value": "properties.net" })), "seen": goal(json!({})) } });
    let experiment = |more: Value| {
        let mut experiment = json!({ "key": "e", "variants": ["default", "b"] });
        experiment.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        lines(&goals, &json!({}), &[experiment])
    };
    assert_eq!(experiment(json!({ "goal": "order", "cap": "p95" })), [""; 0]);
    assert_eq!(
        experiment(json!({ "goal": "event:order", "value": "properties.x", "currency": "properties.c" })),
        [""; 0]
    );
    for (more, expected) in [
        (
            json!({ "goal": "order", "value": "properties.x" }),
            "/value | no `value`, because the goal of `site.json` has its own | properties.x",
        ),
        (
            json!({ "goal": "seen", "cap": "p95" }),
            "/cap | a `value` too, because the cap limits it | no `value`",
        ),
        (
            json!({ "goal": "a", "currency": "properties.c" }),
            "/currency | a `value` too, because it has the currency | no `value`",
        ),
    ] {
        let found = experiment(more.clone());
        assert!(found.len() == 1 && found[0].ends_with(expected), "{more}: {found:?}");
    }
}

#[test]
fn a_goal_of_an_experiment_that_is_almost_a_key_is_a_warning() {
    let goals = json!({ "purchase": goal(json!({})), "shop": { "name": "Shop", "page": "/shopp*" }, "home": { "name": "Home", "page": "/*" }, "purchase-now": goal(json!({})) });
    let site =
        json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "goals": goals }).to_string();
    let titles = |text: &str| {
        let experiment = json!({ "key": "e", "variants": ["default", "b"], "goal": text });
        let zone = json!({ "default": [], "variants": { "b": [] }, "rules": [{ "experiment": experiment }] });
        let page = json!({ "path": "/shop", "layout": { "root": { "props": {} }, "zones": { "z": zone } } })
            .to_string();
        let files = files(&[("site.json", &site), ("routes/index.json", &page)]);
        let (source, diagnostics) = read(&files, &|_, _| {});
        let compiled = compile(&source, diagnostics, 1, &|_, _| {}).expect("a snapshot");
        let shown = compiled.warnings.report(&files).diagnostics;
        shown.into_iter().filter_map(|placed| placed.diagnostic.title).collect::<Vec<_>>()
    };
    let unpublished = "the goal is pages \"/shopp*\", none of which is published";
    assert_eq!(titles("purchase"), [unpublished]);
    // The prefix is so short that a long key is near.
    for event in ["event:purchas", "event:purchase-now", "page:/purchase-now"] {
        assert!(!titles(event).iter().any(|title| title.contains("has the goal")), "{event}");
    }
    let almost = "the goal is the event \"purchas\", and `site.json` has the goal `purchase`";
    assert_eq!(titles("purchas"), [almost, unpublished]);
}
