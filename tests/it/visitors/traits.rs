//! Traits: the effect of each operation, in order and late.

use serde_json::{Value, json};

use super::{Dice, FoldCounts, NOW_MS, SentEvent, World, rounds, shuffle};

/// Applies operations to user `u`, each at so many milliseconds after `NOW_MS`. Returns traits and counts.
fn after(operations: &[(i64, Value)]) -> (Value, FoldCounts) {
    let sent: Vec<SentEvent> = operations
        .iter()
        .map(|(at_ms, operation)| SentEvent::profile(operation.clone(), NOW_MS + at_ms).of_user("u"))
        .collect();
    let mut world = World::after(&sent);
    let traits = world.view_user("u").expect("a profile").traits;
    (traits.into_iter().collect(), world.counts)
}

fn traits(operations: &[(i64, Value)]) -> Value {
    let (traits, counts) = after(operations);
    assert_eq!(counts, FoldCounts::default(), "{operations:?}");
    traits
}

#[test]
fn operations_run_in_a_fixed_order_regardless_of_member_order() {
    let all = json!({
        "remove": {"l": ["b"]}, "union": {"l": ["b", "c"]}, "append": {"l": "b"}, "increment": {"n": 2},
        "unset": ["gone"], "setOnce": {"gone": 1, "n": 9, "kept": 7}, "set": {"n": 40, "l": ["a"]}
    });
    assert_eq!(traits(&[(0, all)]), json!({"n": 42, "l": ["a", "c"], "kept": 7}));
}

#[test]
fn an_absent_or_null_trait_counts_as_empty() {
    let all = json!({"increment": {"n": 1.5}, "append": {"a": 1, "b": [1, 1]}, "union": {"c": [1, 1.0, 2]},
        "remove": {"d": [1]}});
    assert_eq!(traits(&[(0, all)]), json!({"n": 1.5, "a": [1], "b": [1, 1], "c": [1, 2]}));
    let null = json!({"set": {"n": null, "l": null, "o": null}});
    let more = json!({"increment": {"n": 1}, "append": {"l": 1}, "setOnce": {"o": 1}});
    assert_eq!(traits(&[(0, null), (1, more)]), json!({"n": 1, "l": [1], "o": 1}));
}

#[test]
fn an_operation_on_a_value_of_another_type_is_skipped_and_counted() {
    let set = json!({"set": {"text": "t", "list": [1], "number": 1}});
    let wrong = json!({
        "increment": {"text": 1, "list": 1}, "append": {"text": 1, "number": 1},
        "union": {"text": [1]}, "remove": {"number": [1], "list": [1]}
    });
    let (traits, counts) = after(&[(0, set), (1, wrong)]);
    assert_eq!(traits, json!({"text": "t", "list": [], "number": 1}));
    assert_eq!(counts, FoldCounts { type_mismatches: 6, ..FoldCounts::default() });
}

#[test]
fn an_overflowing_sum_is_skipped_and_counted() {
    let most = json!({"increment": {"n": 1.7e308}});
    let (traits, counts) = after(&[(0, most.clone()), (1, most)]);
    assert_eq!(traits, json!({"n": 1.7e308}));
    assert_eq!(counts.type_mismatches, 1);
}

#[test]
fn list_items_are_equal_in_any_member_order() {
    let set = json!({"set": {"l": [{"a": 1, "b": [2]}]}});
    let union = json!({"union": {"l": [{"b": [2], "a": 1.0}, {"a": 2}]}});
    assert_eq!(traits(&[(0, set), (1, union)]), json!({"l": [{"a": 1, "b": [2]}, {"a": 2}]}));
}

#[test]
fn the_newest_write_wins_and_of_equal_times_the_later_arrival() {
    let set = |value: i64| json!({"set": {"n": value}});
    assert_eq!(traits(&[(5, set(5)), (3, set(3))]), json!({"n": 5}));
    assert_eq!(traits(&[(5, set(5)), (5, set(3))]), json!({"n": 3}));
    assert_eq!(traits(&[(5, set(5)), (6, set(3))]), json!({"n": 3}));
}

#[test]
fn an_unset_is_a_write() {
    let (set, unset) = (json!({"set": {"n": 1}}), json!({"unset": ["n"]}));
    assert_eq!(traits(&[(5, unset.clone()), (4, set.clone())]), json!({}));
    assert_eq!(traits(&[(5, set.clone()), (4, unset.clone())]), json!({"n": 1}));
    assert_eq!(traits(&[(5, unset.clone()), (6, set)]), json!({"n": 1}));
    for late in ["increment", "append", "union", "setOnce"] {
        let late = json!({ (late): {"n": if late == "union" { json!([1]) } else { json!(1) }} });
        assert_eq!(traits(&[(5, unset.clone()), (4, late.clone())]), json!({}), "{late}");
        assert_ne!(traits(&[(5, unset.clone()), (5, late.clone())]), json!({}), "{late}");
    }
}

#[test]
fn increments_add_up_in_any_order() {
    for seed in 0..rounds(50) {
        let mut dice = Dice(seed);
        let mut operations: Vec<(i64, Value)> = (0..1 + dice.below(20))
            .map(|_| (dice.below(10) as i64, json!({"increment": {"n": dice.below(1000)}})))
            .collect();
        let sum: u64 = operations.iter().filter_map(|(_, o)| o["increment"]["n"].as_u64()).sum();
        shuffle(&mut dice, &mut operations);
        assert_eq!(traits(&operations), json!({ "n": sum }), "seed {seed}");
    }
}

#[test]
fn a_late_operation_changes_the_current_value() {
    let set = json!({"set": {"n": 10, "l": [1]}});
    let late = json!({"increment": {"n": 1}, "append": {"l": 2}});
    assert_eq!(traits(&[(5, set.clone()), (3, late.clone())]), json!({"n": 11, "l": [1, 2]}));
    // The late operations do not make the trait older.
    let other = json!({"set": {"n": 0}});
    assert_eq!(traits(&[(5, set), (3, late), (4, other)])["n"], json!(11));
}

#[test]
fn the_first_set_once_to_arrive_wins() {
    let once = |value: i64| json!({"setOnce": {"n": value}});
    assert_eq!(traits(&[(5, once(1)), (3, once(2)), (7, once(3))]), json!({"n": 1}));
}

#[test]
fn identify_applies_only_traits_and_profile_only_operations() {
    let payload = json!({"traits": {"a": 1}, "set": {"b": 1}});
    let mut world = World::after(&[SentEvent::identify(&json!({}), NOW_MS).of_user("u").with(payload)]);
    assert_eq!(json!(world.view_user("u").expect("a profile").traits), json!({"a": 1}));
    let payload = json!({"traits": {"a": 1}, "set": {"b": 1}});
    let mut world = World::after(&[SentEvent::profile(payload, NOW_MS).of_user("u")]);
    assert_eq!(json!(world.view_user("u").expect("a profile").traits), json!({"b": 1}));
}
