//! What strict reading refuses, where, and what it proposes.

use serde_json::{Value as Json, json};

use super::{Site, Visitor};

fn pointers(condition: &Json) -> Vec<String> {
    let site = Site::new(&[("returning", json!({}))]);
    let faults = site.faults(condition).into_iter();
    faults.map(|fault| fault.pointer).collect()
}

#[track_caller]
fn assert_fault(condition: Json, pointer: &str, expected: &str, came: &str, nearest: Option<&str>) {
    let site = Site::new(&[("returning", json!({}))]);
    let faults = site.faults(&condition);
    let [fault] = &faults[..] else {
        panic!("{condition} has {faults:?}");
    };
    assert_eq!(fault.pointer, pointer);
    assert!(fault.expected.contains(expected), "{fault}");
    assert_eq!(fault.came, came);
    assert_eq!(fault.nearest.as_deref(), nearest);
}

#[test]
fn every_mistake_is_named_at_once_where_it_stands() {
    let condition = json!({
        "$and": [
            {"traits.plan": {"$gt": "a"}},
            {"traits.plan": {"$gt": [1]}, "visitor.visit": {"$in": 1}},
        ],
        "traits.a/b~c": {"$regx": "x", "$exists": "yes"},
        "events.Bought It": {"$count": {"$gte": 17, "within": "1w"}},
    });
    assert_eq!(
        pointers(&condition),
        [
            "/$and/1/traits.plan/$gt",
            "/$and/1/visitor.visit",
            "/$and/1/visitor.visit/$in",
            "/traits.a~1b~0c/$regx",
            "/traits.a~1b~0c/$exists",
            "/events.Bought It/$count/within",
            "/events.Bought It/$count/$gte",
        ]
    );
}

#[test]
fn a_fault_reads_as_a_sentence() {
    let site = Site::new(&[]);
    let faults = site.faults(&json!({"traits.plan": {"$regx": "x"}}));
    assert_eq!(
        faults[0].to_string(),
        "/traits.plan/$regx: expected an operator, but $regx came; did you mean $regex?"
    );
}

#[test]
fn unknown_operators_are_refused_with_the_nearest() {
    let at_value = json!({"traits.plan": {"$Regex": "x"}});
    assert_fault(at_value, "/traits.plan/$Regex", "an operator", "$Regex", Some("$regex"));
    let at_condition = json!({"$adn": []});
    assert_fault(at_condition, "/$adn", "$and $or", "$adn", Some("$and"));
    let value_operator_at_condition = json!({"$gt": 5});
    assert_fault(value_operator_at_condition, "/$gt", "a path", "$gt", None);
    let in_element = json!({"traits.tags": {"$elemMatch": {"a": 1, "$gt": 5}}});
    assert_fault(in_element, "/traits.tags/$elemMatch/$gt", "a path", "$gt", None);
    let contains = json!({"traits.plan": {"$contains": "x"}});
    assert_fault(contains, "/traits.plan/$contains", "an operator", "$contains", None);
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let path = json!({"visitor.visit": 1});
    assert_fault(path, "/visitor.visit", "a path", "visitor.visit", Some("visitor.visits"));
    let group = json!({"traits.id": {"$inGroup": "stuff"}});
    assert_fault(group, "/traits.id/$inGroup", "group", "stuff", Some("staff"));
    let audience = json!({"$or": [{"$audience": "Returnin"}]});
    assert_fault(audience, "/$or/0/$audience", "audience", "Returnin", Some("returning"));
    let kind = json!({"traits.a": {"$type": "int"}});
    assert_fault(kind, "/traits.a/$type", "one of null boolean", "int", None);
    let kind = json!({"traits.a": {"$type": "bolean"}});
    assert_fault(kind, "/traits.a/$type", "one of null boolean", "bolean", Some("boolean"));
}

#[test]
fn bad_regular_expressions_are_refused_with_the_reason() {
    for operator in ["$regex", "$regexi", "$notRegex", "$notRegexi"] {
        let pointer = format!("/traits.plan/{operator}");
        let unclosed = json!({"traits.plan": {operator: "a("}});
        assert_fault(unclosed, &pointer, "unclosed group", "\"a(\"", None);
        let look = json!({"traits.plan": {operator: "(?=a)"}});
        assert_fault(look, &pointer, "look-around", "\"(?=a)\"", None);
        let unicode = json!({"traits.plan": {operator: r"\b{start}"}});
        assert_fault(unicode, &pointer, "word boundaries", r#""\\b{start}""#, None);
        let in_class = json!({"traits.plan": {operator: r"[^]\b]"}});
        assert_fault(in_class, &pointer, "character class", r#""[^]\\b]""#, None);
        let large = json!({"traits.plan": {operator: "(\\pL{9}){9}"}});
        assert_fault(large, &pointer, "too much memory", "\"(\\\\pL{9}){9}\"", None);
    }
}

#[test]
fn operands_of_a_wrong_type_are_refused() {
    let wrong = [
        (json!([]), ""),
        (json!({"$and": {}}), "/$and"),
        (json!({"$or": [5]}), "/$or/0"),
        (json!({"$not": []}), "/$not"),
        (json!({"$audience": 1}), "/$audience"),
        (json!({"traits.a": {"$gt": true}}), "/traits.a/$gt"),
        (json!({"traits.a": {"$lte": null}}), "/traits.a/$lte"),
        (json!({"traits.a": {"$in": "a"}}), "/traits.a/$in"),
        (json!({"traits.a": {"$nini": {}}}), "/traits.a/$nini"),
        (json!({"traits.a": {"$all": [{"$gt": 1}]}}), "/traits.a/$all/0"),
        (json!({"traits.a": {"$exists": 1}}), "/traits.a/$exists"),
        (json!({"traits.a": {"$vgt": []}}), "/traits.a/$vgt"),
        (json!({"traits.a": {"$regex": 5}}), "/traits.a/$regex"),
        (json!({"traits.a": {"$inGroup": ["staff"]}}), "/traits.a/$inGroup"),
        (json!({"traits.a": {"$elemMatch": "a"}}), "/traits.a/$elemMatch"),
        (json!({"traits.a": {"$size": "3"}}), "/traits.a/$size"),
        (json!({"traits.a": {"$gt": 1, "b": 2}}), "/traits.a"),
        (json!({"traits.a": {"$not": {"$gt": []}}}), "/traits.a/$not/$gt"),
    ];
    for (condition, pointer) in wrong {
        assert_eq!(pointers(&condition), [pointer], "{condition}");
    }
}

#[test]
fn times_take_what_compares_times() {
    for operators in [
        json!(null),
        json!({"$gt": "1970-01-02T00:00:00Z", "$lt": 5, "$ne": null}),
        json!({"$in": ["1970-01-02T00:00:00Z", 7]}),
        json!({"$not": {"$within": "24h"}}),
        json!({"$exists": true, "$type": "number"}),
    ] {
        assert_eq!(pointers(&json!({"visitor.lastSeen": operators})), [""; 0]);
    }
    for (operators, pointer) in [
        (json!("yesterday"), "/visitor.lastSeen"),
        (json!(true), "/visitor.lastSeen"),
        (json!({"$gt": false}), "/visitor.lastSeen/$gt"),
        (json!({"$nin": [1, "soon"]}), "/visitor.lastSeen/$nin/1"),
        (json!({"$regex": "a"}), "/visitor.lastSeen/$regex"),
        (json!({"$count": {"$gt": 1}}), "/visitor.lastSeen/$count"),
        (json!({"$within": 24}), "/visitor.lastSeen/$within"),
    ] {
        assert_eq!(pointers(&json!({"visitor.lastSeen": operators})), [pointer], "{operators}");
    }
}

#[test]
fn only_histories_are_counted_and_nothing_else_is_asked_of_them() {
    let other = json!({"traits.a": {"$count": {"$gte": 1}}});
    assert_fault(other, "/traits.a/$count", "a plain value", "$count", None);
    let other = json!({"traits.a": {"$within": "1d"}});
    assert_fault(other, "/traits.a/$within", "a plain value", "$within", None);
    let plain = json!({"events.Bought It": 3});
    assert_fault(plain, "/events.Bought It", "$count", "3", None);
    let exists = json!({"events.Bought It": {"$exists": true}});
    assert_fault(exists, "/events.Bought It/$exists", "$count", "$exists", None);
    assert_eq!(pointers(&json!({"events.a": {"$not": {"$count": {"$gte": 1}}}})), [""; 0]);
}

#[test]
fn counts_compare_with_whole_numbers() {
    for (count, pointer) in [
        (json!(3), ""),
        (json!({}), ""),
        (json!({"within": "7d"}), ""),
        (json!({"$gte": -1}), "/$gte"),
        (json!({"$gte": 1.5}), "/$gte"),
        (json!({"$gte": "1"}), "/$gte"),
        (json!({"$in": [1]}), "/$in"),
        (json!({"$gte": 1, "Within": "7d"}), "/Within"),
    ] {
        let condition = json!({"events.Bought It": {"$count": count}});
        let pointer = format!("/events.Bought It/$count{pointer}");
        assert_eq!(pointers(&condition), [pointer], "{condition}");
    }
}

#[test]
fn durations_are_whole_numbers_of_a_unit() {
    for good in ["1s", "90m", "24h", "7d", "106751991167d"] {
        assert_eq!(pointers(&json!({"visitor.lastSeen": {"$within": good}})), [""; 0], "{good}");
    }
    for bad in ["", "d", "7", "0d", "-1d", "+1d", "1.5h", "1w", "7 d", "1é", "106751991168d"] {
        let condition = json!({"visitor.lastSeen": {"$within": bad}});
        assert_eq!(pointers(&condition), ["/visitor.lastSeen/$within"], "{bad}");
    }
}

#[test]
fn an_audience_does_not_stand_in_an_element() {
    let condition = json!({"traits.a": {"$elemMatch": {"b": 1, "$audience": "returning"}}});
    assert_eq!(pointers(&condition), ["/traits.a/$elemMatch/$audience"]);
}

#[test]
fn behind_an_unknown_path_only_certain_mistakes_are_named() {
    assert_eq!(pointers(&json!({"event.a": {"$count": {"$gte": 1}}})), ["/event.a"]);
    assert_eq!(
        pointers(&json!({"event.a": {"$count": {"$gte": "1"}}})),
        ["/event.a", "/event.a/$count/$gte"]
    );
}

#[test]
fn what_growthbook_makes_sense_of_is_accepted() {
    let site = Site::new(&[("returning", json!({}))]);
    let visitor = Visitor::new(&json!({"plan": "pro", "tags": ["a", {"b": 2}], "v": "1.10.0"}));
    for condition in [
        json!({}),
        json!({"$or": []}),
        json!({"$and": [{"$audience": "returning"}, {"$nor": [{"traits.plan": "free"}]}]}),
        json!({"traits.plan": {"$inGroup": "plans", "$ini": ["PRO"], "$type": "string"}}),
        json!({"traits.tags": {"$elemMatch": {"b": {"$gte": 2}}, "$size": {"$gt": 1}}}),
        json!({"traits.tags": {"$size": 2, "$all": ["a"], "$not": {"$alli": ["B"]}}}),
        json!({"traits.tags.1": {"b": 2}}),
        json!({"traits.v": {"$vgt": "1.9", "$regex": "^1[.]", "$notRegexi": "V"}}),
        json!({"traits.nothing": {"$exists": false, "$notInGroup": "staff"}}),
    ] {
        assert!(site.holds(&condition, &visitor), "{condition}");
    }
}
