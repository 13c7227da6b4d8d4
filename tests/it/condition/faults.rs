//! The errors of strict parsing: their places, and the names that they suggest.

use serde_json::{Value as Json, json};

use super::{Site, Visitor};

fn pointers(condition: &Json) -> Vec<String> {
    let site = Site::new(&[("returning", json!({}))]);
    let errors = site.errors(condition).into_iter();
    errors.map(|error| error.pointer).collect()
}

#[track_caller]
fn assert_error(condition: Json, pointer: &str, expected: &str, actual: &str, nearest: Option<&str>) {
    let site = Site::new(&[("returning", json!({}))]);
    let errors = site.errors(&condition);
    let [error] = &errors[..] else {
        panic!("{condition} has {errors:?}");
    };
    assert_eq!(error.pointer, pointer);
    assert!(error.expected.contains(expected), "{error}");
    assert_eq!(error.actual, actual);
    assert_eq!(error.nearest.as_deref(), nearest);
}

#[test]
fn all_errors_are_reported_together_with_their_pointers() {
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
fn an_error_reads_as_a_sentence() {
    let site = Site::new(&[]);
    let errors = site.errors(&json!({"traits.plan": {"$regx": "x"}}));
    assert_eq!(
        errors[0].to_string(),
        "/traits.plan/$regx: expected an operator, found $regx; did you mean $regex?"
    );
}

#[test]
fn unknown_operators_are_refused_with_the_nearest_name() {
    let at_value = json!({"traits.plan": {"$Regex": "x"}});
    assert_error(at_value, "/traits.plan/$Regex", "an operator", "$Regex", Some("$regex"));
    let at_condition = json!({"$adn": []});
    assert_error(at_condition, "/$adn", "$and, $or", "$adn", Some("$and"));
    let value_operator_at_condition = json!({"$gt": 5});
    assert_error(value_operator_at_condition, "/$gt", "a path", "$gt", None);
    let in_element = json!({"traits.tags": {"$elemMatch": {"a": 1, "$gt": 5}}});
    assert_error(in_element, "/traits.tags/$elemMatch/$gt", "a path", "$gt", None);
    let contains = json!({"traits.plan": {"$contains": "x"}});
    assert_error(contains, "/traits.plan/$contains", "an operator", "$contains", None);
}

#[test]
fn unknown_names_are_refused_with_the_nearest_name() {
    let path = json!({"visitor.visit": 1});
    assert_error(path, "/visitor.visit", "a path", "visitor.visit", Some("visitor.visits"));
    let group = json!({"traits.id": {"$inGroup": "stuff"}});
    assert_error(group, "/traits.id/$inGroup", "group", "stuff", Some("staff"));
    let audience = json!({"$or": [{"$audience": "Returnin"}]});
    assert_error(audience, "/$or/0/$audience", "audience", "Returnin", Some("returning"));
    let kind = json!({"traits.a": {"$type": "int"}});
    assert_error(kind, "/traits.a/$type", "one of null boolean", "int", None);
    let kind = json!({"traits.a": {"$type": "bolean"}});
    assert_error(kind, "/traits.a/$type", "one of null boolean", "bolean", Some("boolean"));
}

#[test]
fn invalid_regular_expressions_are_refused_with_the_reason() {
    for operator in ["$regex", "$regexi", "$notRegex", "$notRegexi"] {
        let pointer = format!("/traits.plan/{operator}");
        let unclosed = json!({"traits.plan": {operator: "a("}});
        assert_error(unclosed, &pointer, "unclosed group", "\"a(\"", None);
        let look = json!({"traits.plan": {operator: "(?=a)"}});
        assert_error(look, &pointer, "look-around", "\"(?=a)\"", None);
        let unicode = json!({"traits.plan": {operator: r"\b{start}"}});
        assert_error(unicode, &pointer, "word boundaries", r#""\\b{start}""#, None);
        let in_class = json!({"traits.plan": {operator: r"[^]\b]"}});
        assert_error(in_class, &pointer, "character class", r#""[^]\\b]""#, None);
        let large = json!({"traits.plan": {operator: "(\\pL{9}){9}"}});
        assert_error(large, &pointer, "automaton is too large", "\"(\\\\pL{9}){9}\"", None);
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
fn time_fields_accept_only_operators_on_times() {
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
fn event_histories_accept_only_count() {
    let other = json!({"traits.a": {"$count": {"$gte": 1}}});
    assert_error(other, "/traits.a/$count", "a plain value", "$count", None);
    let other = json!({"traits.a": {"$within": "1d"}});
    assert_error(other, "/traits.a/$within", "a plain value", "$within", None);
    let plain = json!({"events.Bought It": 3});
    assert_error(plain, "/events.Bought It", "$count", "3", None);
    let exists = json!({"events.Bought It": {"$exists": true}});
    assert_error(exists, "/events.Bought It/$exists", "$count", "$exists", None);
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
fn an_audience_is_refused_inside_elem_match() {
    let condition = json!({"traits.a": {"$elemMatch": {"b": 1, "$audience": "returning"}}});
    assert_eq!(pointers(&condition), ["/traits.a/$elemMatch/$audience"]);
}

#[test]
fn only_certain_errors_are_reported_after_an_unknown_path() {
    assert_eq!(pointers(&json!({"event.a": {"$count": {"$gte": 1}}})), ["/event.a"]);
    assert_eq!(
        pointers(&json!({"event.a": {"$count": {"$gte": "1"}}})),
        ["/event.a", "/event.a/$count/$gte"]
    );
}

#[test]
fn valid_growthbook_conditions_are_accepted() {
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
