//! Handmade goals with a valid hash: their number, their form, and the window of the attribution.

use parallax::testing::limits::{ATTRIBUTION_MS_MAX, EXPERIMENT_VALUES_MAX, GOALS_MAX};
use serde_json::{Value, json};

use super::forged::{assert_refused, open_site, site};
use crate::fuzz::snapshot::request_everything;

#[test]
fn a_window_of_the_attribution_that_is_out_of_range_is_refused() {
    for window_ms in [0, 1, ATTRIBUTION_MS_MAX - 1, ATTRIBUTION_MS_MAX] {
        let mut site = site();
        site.goals.attribution_window_ms = window_ms;
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    for window_ms in [i64::MIN, -1, ATTRIBUTION_MS_MAX + 1, i64::MAX] {
        let why = "the window of the attribution is out of range";
        assert_refused(|site| site.goals.attribution_window_ms = window_ms, why);
    }
}

fn goal(key: &str) -> Value {
    json!({ "key": key, "name": "G", "target": { "event": "E" }, "tests": {}, "value": null, "currency": null })
}

fn goals(count: usize) -> String {
    json!((0..count).map(|n| goal(&format!("g{n}"))).collect::<Vec<_>>()).to_string()
}

#[test]
fn more_goals_than_bits_of_a_goal_set_are_refused() {
    let goals_max = GOALS_MAX + EXPERIMENT_VALUES_MAX;
    assert_eq!(goals_max, 128);
    for count in [0, 1, goals_max - 1, goals_max] {
        let mut site = site();
        site.goals.list = goals(count);
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    assert_refused(|site| site.goals.list = goals(goals_max + 1), "the site has too many goals");
}

#[test]
fn a_malformed_list_of_goals_is_refused() {
    let with = |name: &str, value: Value| {
        let mut goal = goal("g");
        goal[name] = value;
        json!([goal]).to_string()
    };
    let mut site = site();
    site.goals.list =
        with("tests", json!({ "properties.plan": { "$in": ["pro", 7, true], "$exists": true } }));
    request_everything(open_site(&site).expect("the snapshot opens"));
    let lists = [
        String::new(),
        "null".to_owned(),
        "{}".to_owned(),
        "[{}]".to_owned(),
        "[1]".to_owned(),
        "[] []".to_owned(),
        with("colour", json!("red")),
        with("target", json!({ "screen": "E" })),
        with("tests", json!({ "plan": { "$eq": "pro" } })),
        with("tests", json!({ "properties.plan": { "$like": "pro" } })),
        with("tests", json!({ "properties.plan": { "$eq": ["pro"] } })),
        with("tests", json!({ "properties.plan": { "$gt": true } })),
        with("value", json!("revenue")),
        with("currency", json!("properties.")),
    ];
    for list in lists {
        assert_refused(
            |site| site.goals.list.clone_from(&list),
            "the goals or the properties of the site are malformed",
        );
    }
}
