//! Visits: which events begin and extend one, and the events of a server in them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use parallax::testing::insights::{
    AnswerCache, Columns, CountedLog, Limits, LogColumns, Query, Question, Subject, answer_cached,
    answer_over,
};
use parallax::testing::record::RecordKind;

use super::oracle::{DAY_MS, NOW_MS, START_MS, site};
use super::served::{ask, send};
use super::{Event, columns};
use crate::harness::{Client, Server, copy_of_golden, eventually};

/// Returns the rows of an answer of `top`: value, views, events, visitors and visits.
fn rows(answer: &Value) -> Vec<(Value, [u64; 4])> {
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let numbers = |row: &Value| ["views", "events", "visitors", "visits"].map(|name| number(row, name));
    let rows = answer["rows"].as_array().expect("rows").iter();
    rows.map(|row| (row["value"].clone(), numbers(row))).collect()
}

#[test]
fn events_of_a_server_make_no_visitor_and_no_visit() {
    let server = Server::demo();
    let track = |day: u32| {
        let timestamp = format!("2026-11-{day:02}T12:00:00.000Z");
        json!({"type": "track", "userId": "u", "event": "Invoice Sent", "timestamp": timestamp})
    };
    let identify = json!({"type": "identify", "userId": "u", "timestamp": "2026-11-01T12:00:00.000Z"});
    send(&mut Client::to(server.edge), &[identify, track(3), track(5), track(7)]);
    let profile = server.admin_get("/visitors?site=fjell&userId=u").json();
    let visitor = &profile["profile"]["visitor"];
    assert_eq!(
        (&visitor["visits"], &visitor["isReturning"], &visitor["isNew"], &visitor["events"]),
        (&json!(0), &json!(false), &json!(true), &json!(3))
    );
    let decision = server.get("/v1/variants?trackingId=track_demo&route=/&userId=u").json();
    assert_ne!(decision["selected"]["hero"], "welcome-back", "{decision}");
    let overview = ask(&server, "overview?site=fjell&from=2026-11-01&to=2026-11-10");
    let expected = json!({"visitors": 0, "visits": 0, "views": 0, "events": 3, "personalized": 0});
    assert_eq!(overview["totals"], expected);
}

#[test]
fn an_exposure_of_another_library_makes_no_visit() {
    let server = Server::demo();
    let properties = json!({"experiment_id": "x", "variation_id": "b"});
    let viewed =
        json!({"type": "track", "anonId": "a", "event": "Experiment Viewed", "properties": properties});
    send(&mut Client::to(server.edge), &[viewed]);
    let totals = ask(&server, "overview?site=fjell")["totals"].clone();
    assert_eq!((&totals["visits"], &totals["events"]), (&json!(0), &json!(1)));
    let profile = server.admin_get("/visitors?site=fjell&anonId=a").json();
    assert_eq!(profile["profile"]["visitor"]["visits"], 0);
}

#[test]
fn the_order_of_a_server_has_the_campaign_of_the_visit_before_it() {
    let server = Server::demo();
    let at = |day: u32| format!("2026-11-{day:02}T12:00:00.000Z");
    let page = |query: &str, day: u32| {
        let url = format!("https://fjell.example/{query}");
        json!({"type": "page", "anonId": "a", "timestamp": at(day), "properties": {"path": "/", "url": url}})
    };
    let order = |user: &str, day: u32| json!({"type": "track", "userId": user, "event": "Order Placed", "timestamp": at(day)});
    send(
        &mut Client::to(server.edge),
        &[
            page("?utm_campaign=winter", 1),
            json!({"type": "identify", "anonId": "a", "userId": "u", "timestamp": at(1)}),
            order("u", 4),
            page("?utm_campaign=sale", 6),
            order("u", 9),
            order("nobody", 9),
        ],
    );
    let answer = ask(&server, "top?site=fjell&of=campaign&from=2026-11-01&to=2026-11-20");
    let expected =
        [(json!("sale"), [1, 1, 1, 1]), (json!("winter"), [1, 1, 1, 1]), (Value::Null, [0, 1, 0, 0])];
    assert_eq!(rows(&answer), expected);
    // The visit began before the range.
    let answer = ask(&server, "top?site=fjell&of=campaign&from=2026-11-08&to=2026-11-20");
    assert_eq!(rows(&answer), [(json!("sale"), [0, 1, 0, 0]), (Value::Null, [0, 1, 0, 0])]);
    let profile = server.admin_get("/visitors?site=fjell&userId=u").json();
    assert_eq!(profile["profile"]["visitor"]["visits"], 2);
}

#[test]
fn an_event_is_in_the_last_visit_for_thirty_days() {
    let campaign = |wait_ms: i64| {
        let visit = Event { touch: [None, Some("spring"), None], ..Event::page(START_MS) };
        let order = Event {
            kind: RecordKind::Track,
            anon_id: None,
            user_id: Some("u"),
            event: Some("Order Placed"),
            ..Event::page(START_MS + wait_ms)
        };
        let identify = Event { kind: RecordKind::Identify, user_id: Some("u"), ..Event::page(START_MS) };
        let pairs =
            [("of", "campaign"), ("event", "Order Placed"), ("from", "2026-02-01"), ("to", "2026-03-01")];
        let question = Question::parse(Subject::Top, pairs.into_iter(), &site().zone, NOW_MS + 60 * DAY_MS);
        let question = question.expect("valid parameters");
        let files = columns(&[visit, identify, order], &[2]);
        let files: Vec<&Columns> = files.iter().collect();
        let limits = Limits { memory_bytes: 1 << 30, is_over: &|| false };
        let answer =
            answer_over(&files, CountedLog::alone(9), &Query::Views(question), &site(), NOW_MS, &limits);
        rows(&answer.expect("an answer").document)
    };
    for (wait_ms, value) in
        [(30 * DAY_MS - 1, json!("spring")), (30 * DAY_MS, json!("spring")), (30 * DAY_MS + 1, Value::Null)]
    {
        assert_eq!(campaign(wait_ms), [(value, [0, 1, 0, 0])], "{wait_ms}");
    }
}

/// Counts the orders of users of a server by campaign, with this memory. Each order comes some days after the visit of its user.
/// Sealed files have all events but those of the last users, which are in the tail.
fn orders_by_campaign(users: usize, order_day: i64, from: &str, memory_bytes: u64) -> Vec<(Value, [u64; 4])> {
    let leak = |text: String| -> &'static str { text.leak() };
    let mut events = Vec::new();
    for number in 0..users {
        let (anon_id, user_id) = (Some(leak(format!("a{number}"))), Some(leak(format!("u{number}"))));
        let campaign = ["spring", "autumn"][number % 2];
        let visit = Event { anon_id, touch: [None, Some(campaign), None], ..Event::page(START_MS) };
        let identify = Event { kind: RecordKind::Identify, anon_id, user_id, ..Event::page(START_MS) };
        let event = Some("Order Placed");
        let order = Event {
            kind: RecordKind::Track,
            anon_id: None,
            user_id,
            event,
            ..Event::page(START_MS + order_day * DAY_MS)
        };
        events.extend([visit, identify, order]);
    }
    let pairs = [("of", "campaign"), ("from", from), ("to", "2026-02-01")];
    let question = Question::parse(Subject::Top, pairs.into_iter(), &site().zone, NOW_MS + 60 * DAY_MS);
    let query = Query::Views(question.expect("valid parameters"));
    let files = columns(&events, &[users, users]);
    let sealed: Vec<&Columns> = files[..2].iter().collect();
    let limits = Limits { memory_bytes, is_over: &|| false };
    let files = LogColumns { sealed: &sealed, tail: files.last() };
    let answer = answer_cached(
        files,
        &mut AnswerCache::default(),
        CountedLog::alone(9),
        &query,
        &site(),
        NOW_MS,
        &limits,
    );
    rows(&answer.expect("an answer").document)
}

#[test]
fn more_users_of_a_server_than_fit_the_memory_are_counted_in_several_passes() {
    let users = 2_000;
    let numbers = [users / 2; 4].map(|number| number as u64);
    let expected = [(json!("autumn"), numbers), (json!("spring"), numbers)];
    for memory_bytes in [2_000, 1 << 20, 1 << 30] {
        assert_eq!(orders_by_campaign(users, 1, "2026-01-01", memory_bytes), expected, "{memory_bytes}");
    }
}

/// More passes do not divide the devices of one user. The credits of a question take up to an eighth of its memory. The ties also take
/// up to half of it, before the rows are read.
#[test]
fn a_user_of_many_devices_is_counted_if_its_credits_fit_an_eighth_of_the_memory() {
    const MEMORY_BYTES: u64 = 1 << 20;
    for (devices, is_answered) in [(2_000, true), (5_000, false)] {
        let leak = |text: String| -> &'static str { text.leak() };
        let ids = (0..devices).map(|number| Some(leak(format!("a{number}"))));
        let identify = |anon_id| Event {
            kind: RecordKind::Identify,
            anon_id,
            user_id: Some("u"),
            ..Event::page(START_MS)
        };
        let order = Event {
            kind: RecordKind::Track,
            anon_id: None,
            user_id: Some("u"),
            event: Some("Order Placed"),
            ..Event::page(START_MS + DAY_MS)
        };
        let events: Vec<Event> = ids.map(identify).chain([order]).collect();
        let pairs = [("from", "2026-01-01"), ("to", "2026-02-01")];
        let question =
            Question::parse(Subject::Overview, pairs.into_iter(), &site().zone, NOW_MS + 60 * DAY_MS);
        let query = Query::Views(question.expect("valid parameters"));
        let files = columns(&events, &[]);
        let files: Vec<&Columns> = files.iter().collect();
        let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &|| false };
        let answer = answer_over(&files, CountedLog::alone(9), &query, &site(), NOW_MS, &limits);
        assert_eq!(answer.is_ok(), is_answered, "{devices}");
        answer.into_iter().for_each(|answer| assert_eq!(answer.document["totals"]["events"], 1));
    }
}

/// The visits began too long before the range for the first scan. Up to 4,096 such visitors are read again, and with more of them,
/// or with too little memory for their rows, all rows.
#[test]
fn visits_that_began_long_before_the_range_are_found_for_few_and_for_many_visitors() {
    for (users, memory_bytes) in [(4_095, 1 << 30), (4_096, 1 << 30), (4_097, 1 << 30), (100, 2_000)] {
        let orders = |first: usize| [0, (users - first).div_ceil(2) as u64, 0, 0];
        let expected = [(json!("spring"), orders(0)), (json!("autumn"), orders(1))];
        let mut found = orders_by_campaign(users, 20, "2026-01-20", memory_bytes);
        found.sort_by_key(|(campaign, _)| *campaign == json!("autumn"));
        assert_eq!(found, expected, "{users} {memory_bytes}");
    }
}

/// Starts a server on the files of earlier formats: its checkpoints were folded by another rule of visits, and its column
/// file has no aliases.
#[test]
fn files_of_earlier_formats_are_folded_and_built_again() {
    let data = copy_of_golden("log-2");
    let columns = data.path().join("00000000000000000001.columns");
    let version = |path: &Path| fs::read(path).expect("a column file")[8];
    assert_eq!(version(&columns), 3);
    let server = Server::start_with_data(data.path(), &[], &[]);
    let visits = |id: &str| {
        let answer = server.admin_get(&format!("/visitors?site=fjell&{id}")).json();
        answer["profile"]["visitor"]["visits"].clone()
    };
    let ids = ["userId=user-u", "anonId=anon-b", "anonId=anon-c", "userId=user-w"];
    assert_eq!(ids.map(visits), [2, 1, 2, 0].map(Value::from));
    let range = "site=fjell&from=2026-11-01&to=2026-11-08";
    let totals = ask(&server, &format!("overview?{range}"))["totals"].clone();
    assert_eq!((&totals["visits"], &totals["visitors"]), (&json!(5), &json!(3)));
    let orders = rows(&ask(&server, &format!("top?of=source&event=Order+Placed&{range}")));
    let events =
        |source: &str| orders.iter().find(|(value, _)| value == source).map(|(_, [_, events, ..])| *events);
    // One follows an identify event, the other one an alias.
    assert_eq!([events("news"), events("www.google.com")], [Some(1), Some(1)]);
    eventually("the column file is built again", || (version(&columns) == 6).then_some(()));
}
