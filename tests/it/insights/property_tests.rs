//! The tests of properties that goals have in `where`.

use serde_json::json;

use parallax::testing::insights::{SiteFacts, Subject};
use parallax::testing::record::RecordKind;
use parallax::testing::site::goals::SiteGoals;

use super::Event;
use super::goals::answer;
use super::oracle::{START_MS, site as oslo};

/// Returns whether an event whose property `p` has this JSON text reaches the goal with this test. Without a text, the event lacks the
/// property.
fn holds(test: &str, property: Option<&str>) -> bool {
    let list = format!(
        r#"[{{"key":"g","name":"G","target":{{"event":"E"}},"tests":{{"properties.p":{test}}},"value":null,"currency":null}}]"#
    );
    let site = SiteFacts { goals: SiteGoals::parse("acme", &list, [].into_iter()).expect("goals"), ..oslo() };
    let properties = property.map_or_else(String::new, |property| format!(r#""p":{property}"#));
    let payload = format!(r#"{{"properties":{{{properties}}}}}"#);
    let event = Event { kind: RecordKind::Track, event: Some("E"), payload, ..Event::page(START_MS) };
    let answer = answer(&site, &[event], Subject::Overview, "goal=g");
    let conversions = &answer["totals"]["goals"][0]["conversions"];
    assert!(*conversions == json!(0) || *conversions == json!(1), "{conversions}");
    *conversions == json!(1)
}

const SEVENS: [&str; 3] = ["7", "7.0", "7e0"];

/// The values of a property, as JSON. `missing` is no property.
const VALUES: [&str; 19] = [
    "7",
    "7.0",
    "7e0",
    "6.9",
    "8",
    "-1e300",
    r#""7""#,
    r#""""#,
    r#""a""#,
    r#""B""#,
    r#""b""#,
    r#""ba""#,
    r#""\u0062""#,
    "true",
    "false",
    "null",
    "[7]",
    r#"{"a":7}"#,
    "missing",
];

/// Checks that of all values exactly the listed ones pass the test.
fn assert_passing(test: &str, passing: &[&str]) {
    assert!(passing.iter().all(|value| VALUES.contains(value)), "{test}");
    for value in VALUES {
        let property = Some(value).filter(|value| *value != "missing");
        assert_eq!(holds(test, property), passing.contains(&value), "{test} of {value}");
    }
}

#[test]
fn eq_and_in_hold_for_the_same_value_of_the_same_type() {
    assert_passing(r#"{"$eq":7}"#, &SEVENS);
    assert_passing(r#"{"$eq":"7"}"#, &[r#""7""#]);
    assert_passing(r#"{"$eq":""}"#, &[r#""""#]);
    assert_passing(r#"{"$eq":"b"}"#, &[r#""b""#, r#""\u0062""#]);
    assert_passing(r#"{"$eq":true}"#, &["true"]);
    assert_passing(r#"{"$eq":false}"#, &["false"]);
    assert_passing(r#"{"$in":[7,"a",true]}"#, &[&SEVENS[..], &[r#""a""#, "true"]].concat());
    assert_passing(r#"{"$in":[]}"#, &[]);
}

#[test]
fn ne_and_nin_hold_for_all_other_values_and_without_the_property() {
    let all: Vec<&str> = VALUES.into_iter().filter(|text| !SEVENS.contains(text)).collect();
    assert_passing(r#"{"$ne":7}"#, &all);
    let without =
        |texts: &[&str]| all.iter().copied().filter(|text| !texts.contains(text)).collect::<Vec<_>>();
    assert_passing(r#"{"$nin":[7,"b",false]}"#, &without(&[r#""b""#, r#""\u0062""#, "false"]));
    assert_passing(r#"{"$ne":"a"}"#, &[&SEVENS[..], &without(&[r#""a""#])].concat());
    assert_passing(r#"{"$ne":true}"#, &[&SEVENS[..], &without(&["true"])].concat());
    assert_passing(r#"{"$nin":[]}"#, &[&SEVENS[..], &all].concat());
}

#[test]
fn bounds_order_numbers_by_size_and_strings_by_their_bytes() {
    assert_passing(r#"{"$gt":7}"#, &["8"]);
    assert_passing(r#"{"$gte":7}"#, &[&SEVENS[..], &["8"]].concat());
    assert_passing(r#"{"$lt":7}"#, &["6.9", "-1e300"]);
    assert_passing(r#"{"$lte":7}"#, &[&SEVENS[..], &["6.9", "-1e300"]].concat());
    let b = [r#""b""#, r#""\u0062""#];
    assert_passing(r#"{"$gt":"b"}"#, &[r#""ba""#]);
    assert_passing(r#"{"$gte":"b"}"#, &[&b[..], &[r#""ba""#]].concat());
    let below = [r#""7""#, r#""""#, r#""a""#, r#""B""#];
    assert_passing(r#"{"$lt":"b"}"#, &below);
    assert_passing(r#"{"$lte":"b"}"#, &[&b[..], &below].concat());
}

#[test]
fn exists_holds_for_a_property_that_is_not_null_and_all_tests_must_hold() {
    let absent = ["null", "missing"];
    assert_passing(r#"{"$exists":false}"#, &absent);
    let present = [
        "7",
        "7.0",
        "7e0",
        "6.9",
        "8",
        "-1e300",
        r#""7""#,
        r#""""#,
        r#""a""#,
        r#""B""#,
        r#""b""#,
        r#""ba""#,
        r#""\u0062""#,
        "true",
        "false",
        "[7]",
        r#"{"a":7}"#,
    ];
    assert_passing(r#"{"$exists":true}"#, &present);
    assert_passing(r#"{"$gte":6.9,"$lt":8,"$ne":7}"#, &["6.9"]);
    assert_passing(r#"{"$exists":true,"$lt":"b","$nin":["","7"]}"#, &[r#""a""#, r#""B""#]);
}
