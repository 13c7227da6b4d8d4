//! Goals of a site: conversions, their credit, their amounts, and columns that lack them.

use serde_json::{Value, json};

use parallax::testing::insights::{
    Attribution, Columns, CountedLog, Limits, Query, Question, SiteFacts, Subject, answer_over,
};
use parallax::testing::limits::GOALS_ASKED_MAX;
use parallax::testing::record::RecordKind;
use parallax::testing::site::goals::SiteGoals;

use super::oracle::{DAY_MS, HOUR_MS, NOW_MS, START_MS, site as oslo};
use super::served::{ask, column_files};
use super::{Event, columns_with_goals};
use crate::harness::{Client, Server, eventually, snapshot};

/// Returns a site with the goals `order`, which has an amount and a currency, and `offers`, a group of pages.
pub(super) fn site(attribution: Attribution) -> SiteFacts {
    let list = json!([
        { "key": "order", "name": "Order", "target": { "event": "Order Placed" }, "tests": { "properties.test": { "$ne": true } },
          "value": "properties.revenue", "currency": "properties.currency" },
        { "key": "offers", "name": "Offers", "target": { "page": "/offers*" }, "tests": {}, "value": null, "currency": null },
    ]);
    let goals = SiteGoals::parse("acme", &list.to_string(), [].into_iter()).expect("goals");
    SiteFacts { goals, attribution, ..oslo() }
}

const LAST: Attribution = Attribution { window_ms: 2 * DAY_MS, is_first: false };

fn question(site: &SiteFacts, subject: Subject, query: &str) -> Result<Question, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Question::parse_with_goals(subject, pairs, &site.zone, NOW_MS, &site.goals)
        .map_err(|error| error.to_string())
}

/// Asks over one file and over three, with much memory and with little. All answers are the same.
pub(super) fn answer(site: &SiteFacts, events: &[Event], subject: Subject, query: &str) -> Value {
    let query = format!("from=2026-01-05&to=2026-01-14&{query}");
    let query = Query::Views(question(site, subject, &query).expect("a question"));
    let mut answers = Vec::new();
    for lengths in [&[][..], &[2, 3]] {
        let files = columns_with_goals(&site.goals, events, lengths);
        let files: Vec<&Columns> = files.iter().collect();
        for memory_bytes in [1 << 20, 2_000] {
            let limits = Limits { memory_bytes, is_over: &|| false };
            let log = CountedLog::alone(events.len() as u64);
            let answer = answer_over(&files, log, &query, site, NOW_MS, &limits).expect("an answer");
            answers.push((answer.to_csv(), answer.document));
        }
    }
    let rows = |document: &Value| {
        json!([document["rows"], document["totals"], document["total"], document["series"]])
    };
    for (csv, document) in &answers[1..] {
        assert_eq!((csv, rows(document)), (&answers[0].0, rows(&answers[0].1)), "{query:?}");
    }
    answers.swap_remove(0).1
}

fn page(hours: i64, source: Option<&'static str>) -> Event {
    Event { touch: [source, None, None], ..Event::page(START_MS + hours * HOUR_MS) }
}

fn order(hours: i64, properties: &Value) -> Event {
    let payload = json!({ "properties": properties }).to_string();
    Event { kind: RecordKind::Track, event: Some("Order Placed"), path: None, payload, ..page(hours, None) }
}

/// Returns the value of each row with conversions of the first goal: conversions, visitors and amount.
fn credited(answer: &Value) -> Vec<(Value, Value)> {
    let rows = answer["rows"].as_array().expect("rows").iter();
    let with_goal = rows.filter(|row| row["goals"][0]["conversions"] != 0);
    let numbers = |row: &Value| {
        let goal = &row["goals"][0];
        (row["value"].clone(), json!([goal["conversions"], goal["converted"], goal["amount"]]))
    };
    with_goal.map(numbers).collect()
}

#[test]
fn a_conversion_of_a_direct_visit_is_credited_to_the_latest_source_within_the_window() {
    let paid = json!({ "revenue": 10, "currency": "EUR" });
    // Three visits of one visitor: from news, from ads, and direct with two orders.
    let events =
        [page(0, Some("news")), page(20, Some("ads")), page(40, None), order(40, &paid), order(41, &paid)];
    let by_source = |window_ms: i64, is_first: bool| {
        let site = site(Attribution { window_ms, is_first });
        let answer = answer(&site, &events, Subject::Top, "of=source&goal=order");
        assert_eq!(answer["attribution"]["model"], if is_first { "first" } else { "last" });
        credited(&answer)
    };
    let sums = json!([2, 1, 20.0]);
    assert_eq!(by_source(48 * HOUR_MS, false), [(json!("ads"), sums.clone())]);
    assert_eq!(by_source(48 * HOUR_MS, true), [(json!("news"), sums.clone())]);
    // The visit from news began 40 and 41 hours before the orders.
    let split = [(json!("ads"), json!([1, 1, 10.0])), (json!("news"), json!([1, 1, 10.0]))];
    assert_eq!(by_source(40 * HOUR_MS, true), split);
    assert_eq!(by_source(20 * HOUR_MS - 1, false), [(json!("(direct)"), sums.clone())]);
    assert_eq!(by_source(0, true), [(json!("(direct)"), sums)]);
}

#[test]
fn a_visit_with_a_source_keeps_its_conversions_and_each_visitor_counts_once() {
    let paid = json!({ "revenue": 10 });
    let mut events = vec![page(0, Some("news")), page(20, Some("ads")), order(20, &paid), order(21, &paid)];
    events.push(Event { anon_id: Some("w"), ..page(20, Some("ads")) });
    let site = site(LAST);
    let answer = answer(&site, &events, Subject::Top, "of=source&goal=order&goal=offers");
    assert_eq!(credited(&answer), [(json!("ads"), json!([2, 1, 20.0]))]);
    let ads = &answer["rows"][0];
    assert_eq!(
        [&ads["credited"], &ads["goals"][0]["rate"], &ads["goals"][0]["amountPerVisitor"]],
        [&json!(2), &json!(0.5), &json!(10.0)]
    );
    assert_eq!([&ads["goals"][1]["conversions"], &ads["goals"][1]["amount"]], [&json!(0), &Value::Null]);
    assert_eq!(answer["total"]["credited"], 2);
}

#[test]
fn the_order_of_a_server_has_the_country_and_the_source_of_the_visit_before_it() {
    let tie = Event { kind: RecordKind::Identify, user_id: Some("u"), ..page(20, None) };
    let seen = Event { country: Some("NO"), ..page(20, Some("ads")) };
    let paid = json!({ "revenue": "99.5", "currency": "NOK" });
    let of_server = Event { anon_id: None, user_id: Some("u"), ..order(50, &paid) };
    let site = site(LAST);
    let events = [seen, tie, of_server];
    for (of, value) in [("country", "NO"), ("source", "ads"), ("page", "/"), ("entry", "/")] {
        let answer = answer(&site, &events, Subject::Top, &format!("of={of}&goal=order"));
        assert_eq!(credited(&answer), [(json!(value), json!([1, 1, 99.5]))], "{of}");
    }
}

#[test]
fn amounts_of_several_currencies_are_listed_and_never_added() {
    let euro = json!({ "revenue": 10, "currency": "EUR" });
    let events = [
        page(0, None),
        order(0, &euro),
        order(1, &json!({ "revenue": 5.25, "currency": "NOK" })),
        order(2, &json!({ "revenue": 1, "currency": "a text of 17 char" })),
        order(3, &json!({ "revenue": "free", "currency": "EUR" })),
        order(4, &json!({ "revenue": 7, "currency": "EUR", "test": true })),
        order(30, &euro),
    ];
    let answer = answer(&site(LAST), &events, Subject::Overview, "goal=order");
    let order = &answer["totals"]["goals"][0];
    assert_eq!(
        [&order["conversions"], &order["amount"], &order["ignoredAmounts"]],
        [&json!(5), &Value::Null, &json!(1)]
    );
    let listed = json!([
        { "currency": null, "amounts": 1, "sum": 1.0 },
        { "currency": "EUR", "amounts": 2, "sum": 20.0 },
        { "currency": "NOK", "amounts": 1, "sum": 5.25 },
    ]);
    assert_eq!(order["currencies"], listed);
    let series = &answer["series"]["goals"][0];
    assert_eq!(json!([series["conversions"][0], series["amount"][0]]), json!([4, null]));
    assert_eq!(json!([series["conversions"][1], series["amount"][1]]), json!([1, 10.0]));
}

#[test]
fn a_currency_has_16_characters_at_most_and_an_answer_tells_62_apart() {
    let sold = |hour: i64, currency: String| order(hour, &json!({ "revenue": 1, "currency": currency }));
    let listed = |currencies: Vec<String>| {
        let events: Vec<Event> = currencies.into_iter().map(|currency| sold(0, currency)).collect();
        let answer = answer(&site(LAST), &events, Subject::Overview, "goal=order");
        answer["totals"]["goals"][0]["currencies"].as_array().expect("currencies").clone()
    };
    let lengths = [15, 16, 17].map(|length| "é".repeat(length));
    let names = listed(lengths.to_vec()).into_iter().map(|one| one["currency"].clone());
    assert_eq!(names.collect::<Vec<_>>(), [json!(null), json!("é".repeat(15)), json!("é".repeat(16))]);
    // Two of the 64 numbers are for amounts without a currency, and for `(other)`.
    let many = |count: usize| listed((0..count).map(|n| format!("C{n:02}")).collect());
    for (count, others) in [(61, 0), (62, 0), (63, 1), (66, 4)] {
        let found = many(count);
        let other = found
            .iter()
            .find(|one| one["currency"] == "(other)")
            .map_or(json!(0), |one| one["amounts"].clone());
        assert_eq!((found.len(), other), (count.min(63), json!(others)), "{count}");
    }
    // An amount whose currency is named like that of the rest counts with the rest.
    let named = (0..63).map(|n| format!("C{n:02}")).chain(["(other)".to_owned()]);
    let rest: Vec<Value> =
        listed(named.collect()).into_iter().filter(|one| one["currency"] == "(other)").collect();
    assert_eq!(rest, [json!({ "currency": "(other)", "amounts": 2, "sum": 2.0 })]);
}

/// Returns a site with the goals `g0`, `g1` and so on.
fn with_goals(count: usize) -> SiteFacts {
    let goal = |n: usize| json!({ "key": format!("g{n}"), "name": "G", "target": { "event": "E" }, "tests": {}, "value": null, "currency": null });
    let list: Vec<Value> = (0..count).map(goal).collect();
    SiteFacts {
        goals: SiteGoals::parse("acme", &json!(list).to_string(), [].into_iter()).expect("goals"),
        ..oslo()
    }
}

#[test]
fn the_refusal_of_an_unknown_goal_names_8_goals_at_most() {
    for (count, expected) in [
        (0, "the key of a goal, but site.json has no goals"),
        (7, "the key of a goal in site.json, such as g0, g1, g2, g3, g4, g5, g6"),
        (8, "the key of a goal in site.json, such as g0, g1, g2, g3, g4, g5, g6, g7"),
        (9, "the key of a goal in site.json, such as g0, g1, g2, g3, g4, g5, g6, g7"),
    ] {
        let refused = question(&with_goals(count), Subject::Overview, "goal=nope").map(drop);
        assert_eq!(refused, Err(format!("goal: expected {expected}, got \"nope\"")), "{count}");
    }
}

#[test]
fn wrong_goals_of_a_question_are_refused() {
    let site = with_goals(GOALS_ASKED_MAX + 1);
    let ask = |subject, query: &str| question(&site, subject, query).map(|question| question.goals.len());
    let many = |count: usize| (0..count).map(|n| format!("goal=g{n}")).collect::<Vec<_>>().join("&");
    assert_eq!(ask(Subject::Overview, &many(GOALS_ASKED_MAX - 1)), Ok(GOALS_ASKED_MAX - 1));
    assert_eq!(ask(Subject::Overview, &many(GOALS_ASKED_MAX)), Ok(GOALS_ASKED_MAX));
    let refused = [
        (Subject::Overview, many(GOALS_ASKED_MAX + 1), "goal: expected at most 16 goals, got \"17\""),
        (
            Subject::Overview,
            "goal=g1&goal=g1".to_owned(),
            "goal: expected each goal once, got \"a goal twice\"",
        ),
        (
            Subject::Live,
            "goal=g1".to_owned(),
            "goal: expected no goal, because a live answer has none, got \"a goal\"",
        ),
        (
            Subject::Top,
            "of=event&goal=g1".to_owned(),
            "goal: expected no goal together with 'of=event', got \"a goal\"",
        ),
    ];
    for (subject, query, expected) in refused {
        assert_eq!(ask(subject, &query), Err(expected.to_owned()), "{query}");
    }
}

pub(super) fn publication(version: u64, goals: &Value) -> Vec<u8> {
    let site =
        json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "goals": goals }).to_string();
    let home = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    snapshot(&[("site.json", &site), ("routes/index.json", home)], version)
}

/// Asks until the columns have the goals. No answer before has a partial number.
pub(super) fn conversions(server: &Server, goal: &str) -> Value {
    eventually("the columns have the goals", || {
        let response = server.admin_get(&format!("/insights/overview?site=acme&goal={goal}"));
        if response.status == 200 {
            return Some(response.json()["totals"]["goals"][0]["conversions"].clone());
        }
        let problem = response.json();
        let is_waiting = problem["code"] == "columns_building" && response.field("retry-after").is_some();
        // The new version is not served yet.
        let is_unknown = problem["param"] == "goal";
        assert!(is_waiting || is_unknown, "{problem}");
        None
    })
}

#[test]
fn after_a_publication_with_other_goals_each_answer_has_all_conversions() {
    let first = json!({ "order": { "name": "Order", "event": "Order Placed" } });
    let flags = ["--segment-bytes", "65536"];
    let server = Server::start(&[("acme.snapshot", &publication(1, &first))], &flags);
    let mut edge = Client::to(server.edge);
    for number in 0..40 {
        let event = json!({"type": "track", "anonId": format!("v{number}"), "event": "Order Placed",
            "properties": {"plan": if number % 4 == 0 { "pro" } else { "free" }, "pad": "x".repeat(6_000)}});
        let body = json!({"trackingId": "track_acme", "batch": [event]}).to_string();
        assert_eq!(
            edge.post("/v1/batch", &[("Content-Type", "application/json")], body.as_bytes()).status,
            200
        );
    }
    assert_eq!(conversions(&server, "order"), 40);
    eventually("segments are sealed", || (column_files(&server).len() >= 3).then_some(()));
    // The goal has another number now.
    let second = json!({
        "free": { "name": "Free", "event": "Order Placed", "where": { "properties.plan": { "$eq": "free" } } },
        "order": { "name": "Order", "event": "Order Placed", "where": { "properties.plan": { "$in": ["free", "pro"] } } },
    });
    server.publish("acme.snapshot", &publication(2, &second));
    assert_eq!(conversions(&server, "free"), 30);
    assert_eq!(conversions(&server, "order"), 40);
    // A question without a goal never waits.
    assert_eq!(ask(&server, "overview?site=acme")["totals"]["events"], 40);
}

#[test]
fn an_experiment_may_name_a_goal_of_the_site() {
    let goals = json!({ "order": { "name": "Order", "event": "Order*", "where": { "properties.plan": { "$exists": true } },
        "value": "properties.price.net", "currency": "properties.currency" } });
    let site =
        json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "goals": goals }).to_string();
    let experiment = json!({ "key": "cta", "variants": ["default", "b"], "goal": "order",
        "guardrails": [{ "goal": "Order Placed", "margin": 0.1 }] });
    let zone = json!({ "default": [], "variants": { "b": [] }, "rules": [{ "experiment": experiment }] });
    let home =
        json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "hero": zone } } }).to_string();
    let bytes = snapshot(&[("site.json", &site), ("routes/index.json", &home)], 1);
    let server = Server::start(&[("acme.snapshot", &bytes)], &[]);
    let mut edge = Client::to(server.edge);
    let exposed =
        |id: &str| json!({"type": "page", "anonId": id, "experiments": "cta:b", "properties": {"path": "/"}});
    let order = |id: &str, properties: Value| json!({"type": "track", "anonId": id, "event": "Order Placed", "properties": properties});
    let mut events = vec![exposed("a"), exposed("b"), exposed("c")];
    events.push(order("a", json!({ "plan": "pro", "price": { "net": 10.5 }, "currency": "EUR" })));
    events.push(order("b", json!({ "price": { "net": 99 }, "currency": "EUR" })));
    events.push(order("c", json!({ "plan": "pro", "price": { "net": 100 }, "currency": "NOK" })));
    let body = json!({"trackingId": "track_acme", "batch": events}).to_string();
    assert_eq!(edge.post("/v1/batch", &[("Content-Type", "application/json")], body.as_bytes()).status, 200);
    let mixed = ask(&server, "experiment?site=acme&key=cta");
    assert_eq!(mixed["alarms"], json!(["mixed_currencies"]));
    let metrics = mixed["metrics"].as_array().expect("metrics");
    let sums: Vec<Value> = metrics.iter().map(|one| json!([one["role"], one["arms"][1]["sum"]])).collect();
    assert_eq!(json!(sums), json!([["goal", 2.0], ["value", null], ["guardrail", 3.0]]));
    assert_eq!(metrics[1]["value"], "properties.price.net");
    let listed = json!([{ "currency": "EUR", "amounts": 1, "sum": 10.5 }, { "currency": "NOK", "amounts": 1, "sum": 100.0 }]);
    assert_eq!(metrics[1]["currencies"], listed);
    let one = ask(&server, "experiment?site=acme&key=cta&currency=NOK&cap=none");
    assert_eq!((&one["alarms"], &one["exploratory"]), (&json!([]), &json!(true)));
    assert_eq!(one["metrics"][1]["arms"][1]["sum"], 100.0);
}
