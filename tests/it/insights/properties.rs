//! Breakdowns by properties of events: their values, their limits, and columns that lack them.

use std::iter;

use serde_json::{Value, json};

use parallax::testing::insights::{
    COLUMN_TEXTS_MAX, ColumnBuilder, Columns, PROPERTY_TEXT_BYTES_MAX, Question, SiteFacts, SitesGoals,
    Subject,
};
use parallax::testing::limits::{PROPERTIES_MAX, PROPERTY_VALUE_BYTES_MAX};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::site::goals::SiteGoals;

use super::goals::{answer, conversions};
use super::oracle::{HOUR_MS, NOW_MS, START_MS, site as oslo};
use super::served::{ask, column_files};
use super::{Event, KEY};
use crate::harness::{Client, Server, eventually, snapshot};

/// Returns a site with the goal `order` and these properties.
fn site(properties: &[&str]) -> SiteFacts {
    let list = json!([{ "key": "order", "name": "Order", "target": { "event": "Order Placed" }, "tests": {},
        "value": "properties.revenue", "currency": null }]);
    let goals = SiteGoals::parse("acme", &list.to_string(), properties.iter().copied()).expect("goals");
    SiteFacts { goals, ..oslo() }
}

fn event(name: &'static str, properties: &str) -> Event {
    let payload = format!(r#"{{"properties":{properties}}}"#);
    Event { kind: RecordKind::Track, event: Some(name), path: None, payload, ..Event::page(START_MS) }
}

/// Returns the values of a list with the events of each one.
fn rows(site: &SiteFacts, events: &[Event], of: &str) -> Vec<(Value, u64)> {
    let answer = answer(site, events, Subject::Top, &format!("of={of}&limit=100"));
    let rows = answer["rows"].as_array().expect("rows").iter();
    rows.map(|row| (row["value"].clone(), row["events"].as_u64().expect("events"))).collect()
}

#[test]
fn a_list_by_a_property_has_its_strings_booleans_and_numbers() {
    for (json, expected) in [
        (r#""pro""#, json!("pro")),
        (r#""""#, json!("")),
        (r#""gr\u00f6\u00dfe \"x\"""#, json!("größe \"x\"")),
        (r#""(other)""#, json!("(other)")),
        ("true", json!("true")),
        ("false", json!("false")),
        ("0", json!("0")),
        ("-0", json!("0")),
        ("7", json!("7")),
        ("7.0", json!("7.0")),
        ("7e0", json!("7.0")),
        ("1.50", json!("1.5")),
        ("-0.0", json!("-0.0")),
        ("9223372036854775807", json!("9223372036854775807")),
        ("18446744073709551615", json!("18446744073709551615")),
        ("18446744073709551616", Value::Null),
        ("-9223372036854775808", json!("-9223372036854775808")),
        ("0.0001", json!("0.0001")),
        ("0.00009", Value::Null),
        ("999999999999999.9", json!("999999999999999.9")),
        ("1e15", Value::Null),
        ("null", Value::Null),
        ("[7]", Value::Null),
        (r#"{"a":7}"#, Value::Null),
    ] {
        let events = [event("E", &format!(r#"{{"plan":{json}}}"#))];
        assert_eq!(rows(&site(&["plan"]), &events, "property:plan"), [(expected, 1)], "{json}");
    }
    assert_eq!(rows(&site(&["plan"]), &[event("E", "{}")], "property:plan"), [(Value::Null, 1)]);
}

#[test]
fn each_property_has_a_list_of_its_own() {
    let names = ["a", "cart.coupon", "cart.id"];
    let events = [
        event("E", r#"{"a":"1","cart":{"coupon":"x"}}"#),
        event("E", r#"{"a":"2","cart":{"coupon":"x","id":9}}"#),
        event("F", r#"{"cart.id":5,"cart":7}"#),
    ];
    let site = site(&names);
    let list = |of: &str| rows(&site, &events, of);
    assert_eq!(list("property:a"), [(json!("1"), 1), (json!("2"), 1), (Value::Null, 1)]);
    assert_eq!(list("property:cart.coupon"), [(json!("x"), 2), (Value::Null, 1)]);
    assert_eq!(list("property:cart.id"), [(json!("9"), 1), (Value::Null, 2)]);
}

#[test]
fn a_list_by_a_property_counts_the_visitors_of_all_events_and_is_sorted_by_them() {
    let of_visitor = |anon_id, plan: &str| Event {
        anon_id: Some(anon_id),
        ..event("E", &format!(r#"{{"plan":"{plan}"}}"#))
    };
    let page = Event { payload: r#"{"properties":{"plan":"free"}}"#.to_owned(), ..Event::page(START_MS) };
    let events = [of_visitor("v", "free"), page, of_visitor("a", "pro"), of_visitor("b", "pro")];
    let answer = answer(&site(&["plan"]), &events, Subject::Top, "of=property:plan");
    let numbers = |row: &Value| json!([row["value"], row["views"], row["events"], row["visitors"]]);
    let rows: Vec<Value> = answer["rows"].as_array().expect("rows").iter().map(numbers).collect();
    assert_eq!(rows, [json!(["pro", 0, 2, 2]), json!(["free", 1, 1, 1])]);
    assert_eq!(answer["total"]["visitors"], 3);
}

#[test]
fn a_conversion_has_its_own_value_or_that_of_the_page_before() {
    let page = |hour: i64, properties: &str| Event {
        payload: format!(r#"{{"properties":{properties}}}"#),
        ..Event::page(START_MS + hour * HOUR_MS)
    };
    let order = |hour: i64, properties: &str| Event {
        time_ms: START_MS + hour * HOUR_MS + 60_000,
        ..event("Order Placed", properties)
    };
    let events = [
        page(0, r#"{"category":"tents"}"#),
        order(0, r#"{"revenue":10}"#),
        page(5, r#"{"category":"boots"}"#),
        order(5, r#"{"revenue":5,"category":"socks"}"#),
        page(9, "{}"),
        order(9, r#"{"revenue":1}"#),
    ];
    let answer = answer(&site(&["category"]), &events, Subject::Top, "of=property:category&goal=order");
    let rows = answer["rows"].as_array().expect("rows").iter();
    let sums: Vec<_> = rows.map(|row| (row["value"].clone(), row["goals"][0]["amount"].clone())).collect();
    let expected = [
        (json!("socks"), json!(5.0)),
        (json!("tents"), json!(10.0)),
        (Value::Null, json!(1.0)),
        (json!("boots"), json!(0.0)),
    ];
    assert_eq!(sums, expected);
}

#[test]
fn a_property_that_the_site_does_not_keep_is_refused() {
    let refused = |names: &[&str], of: &str| {
        let site = site(names);
        let question = Question::parse_with_goals(
            Subject::Top,
            [("of", of)].into_iter(),
            &site.zone,
            NOW_MS,
            &site.goals,
        );
        question.expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&["form", "plan"], "property:Plan"),
        "of: expected 'property:' and a property in site.json: form, plan, got \"Plan\""
    );
    assert_eq!(
        refused(&[], "property:plan"),
        "of: expected 'property:' and a property, but site.json has no properties, got \"plan\""
    );
    assert!(refused(&["plan"], "plan").contains("browser, event, property:NAME"));
}

/// Builds a file whose events have these values of the property `p`, and returns how many of them became `(other)`.
fn others(values: impl Iterator<Item = String>) -> usize {
    let mut goals = SitesGoals::default();
    goals.add("acme", site(&["p"]).goals);
    let mut builder = ColumnBuilder::new(1, KEY).with_goals(goals.into());
    for value in values {
        let payload = json!({ "properties": { "p": value } }).to_string();
        let record = Record {
            site: Some("acme"),
            path: Some("/kept"),
            payload: &payload,
            ..Record::new(RecordKind::Page)
        };
        builder.add(&record);
    }
    let columns = Columns::from_bytes(builder.to_bytes(1)).expect("an intact file");
    let rows = columns.facts().expect("intact sections");
    assert!(rows.iter().all(|row| row.texts[2].as_deref() == Some("/kept")), "a property displaces paths");
    let property = rows.iter().map(|row| row.texts[13].as_deref());
    property.filter(|text| *text == Some("(other)")).count()
}

#[test]
fn a_property_keeps_65536_texts_and_1_mib_of_them_and_displaces_no_path() {
    let distinct = |count: usize| (0..count).map(|number| format!("{number:x}"));
    assert_eq!(others(distinct(COLUMN_TEXTS_MAX - 1)), 0);
    assert_eq!(others(distinct(COLUMN_TEXTS_MAX)), 0);
    assert_eq!(others(distinct(COLUMN_TEXTS_MAX + 1).chain(distinct(3))), 1);
    let length = PROPERTY_VALUE_BYTES_MAX;
    let long = |bytes: usize| {
        let whole = (0..bytes / length).map(move |number| format!("{number:0length$}"));
        whole.chain((!bytes.is_multiple_of(length)).then(|| "x".repeat(bytes % length)))
    };
    assert_eq!(others(long(PROPERTY_TEXT_BYTES_MAX - 1)), 0);
    assert_eq!(others(long(PROPERTY_TEXT_BYTES_MAX)), 0);
    assert_eq!(others(long(PROPERTY_TEXT_BYTES_MAX + 1)), 1);
}

#[test]
fn a_value_of_a_property_has_256_bytes_at_most() {
    for (length, count) in [(255, 0), (256, 0), (257, 1)] {
        assert_eq!(others(iter::once("x".repeat(length))), count, "{length}");
    }
    // The limit counts bytes.
    assert_eq!(others(iter::once("é".repeat(128))), 0);
    assert_eq!(others(iter::once("é".repeat(129))), 1);
    let events = [event("E", &json!({ "plan": "x".repeat(257) }).to_string())];
    let answer = answer(&site(&["plan"]), &events, Subject::Top, "of=property:plan");
    assert_eq!([&answer["rows"][0]["value"], &answer["other"]["property"]], [&json!("(other)"), &json!(1)]);
}

fn publication(version: u64, properties: &Value) -> Vec<u8> {
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "properties": properties,
        "goals": { "order": { "name": "Order", "event": "Order Placed" } } });
    let home = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", home)], version)
}

/// Asks until the columns have the property. No answer before has a part of the rows.
fn served_rows(server: &Server, name: &str) -> Value {
    eventually("the columns have the property", || {
        let response = server.admin_get(&format!("/insights/top?site=acme&of=property:{name}"));
        let answer = response.json();
        if response.status == 200 {
            let rows = answer["rows"].as_array().expect("rows").iter();
            return Some(rows.map(|row| json!([row["value"], row["events"]])).collect());
        }
        let is_waiting = answer["code"] == "columns_building" && response.field("retry-after").is_some();
        // The new version is not served yet.
        assert!(is_waiting || answer["param"] == "of", "{answer}");
        None
    })
}

#[test]
fn after_a_publication_with_other_properties_each_answer_has_all_events() {
    let first = publication(1, &json!(["plan"]));
    let server = Server::start(&[("acme.snapshot", &first)], &["--segment-bytes", "65536"]);
    let mut edge = Client::to(server.edge);
    for number in 0..40 {
        let event = json!({ "type": "track", "anonId": format!("v{number}"), "event": "Order Placed", "properties":
            { "plan": if number % 4 == 0 { "pro" } else { "free" }, "form": number % 2, "pad": "x".repeat(6_000) } });
        let body = json!({ "trackingId": "track_acme", "batch": [event] }).to_string();
        let json_type = [("Content-Type", "application/json")];
        assert_eq!(edge.post("/v1/batch", &json_type, body.as_bytes()).status, 200);
    }
    let by_plan = json!([["free", 30], ["pro", 10]]);
    assert_eq!(served_rows(&server, "plan"), by_plan);
    eventually("segments are sealed", || (column_files(&server).len() >= 3).then_some(()));
    // The property `plan` has another number now.
    server.publish("acme.snapshot", &publication(2, &json!(["plan", "form"])));
    assert_eq!(served_rows(&server, "form"), json!([["0", 20], ["1", 20]]));
    assert_eq!(served_rows(&server, "plan"), by_plan);
    assert_eq!(conversions(&server, "order"), 40);
    // A question without a property never waits.
    assert_eq!(ask(&server, "overview?site=acme")["totals"]["events"], 40);
}

#[test]
fn a_site_keeps_10_properties() {
    let names: Vec<String> = (0..PROPERTIES_MAX).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let all = json!(names.iter().map(|name| (*name, *name)).collect::<std::collections::BTreeMap<_, _>>());
    let events = [event("E", &all.to_string())];
    for name in &names {
        assert_eq!(rows(&site(&names), &events, &format!("property:{name}")), [(json!(name), 1)]);
    }
}
