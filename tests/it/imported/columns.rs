//! Lines with few columns: the payload gives the others, as for a POST.

use serde_json::{Value, json};

use super::{assert_sound, lines, run, text, write_lines};
use crate::harness::temporary_directory;

/// Imports lines and returns the exported ones.
fn import(given: &[Value]) -> Vec<Value> {
    let parent = temporary_directory();
    let file = write_lines(&parent.path().join("events"), given);
    let target = parent.path().join("data");
    run(&["import", text(&file), "-o", text(&target)]).assert(0, &[]);
    assert_sound(&target);
    let parse = |line: String| serde_json::from_str(&format!("{{{line}")).expect("JSON");
    lines(&target).into_iter().map(parse).collect()
}

#[test]
fn a_payload_gives_the_columns_that_a_line_lacks() {
    let payload = json!({
        "anonymousId": "v1", "userId": "u1", "timestamp": "2025-03-04T05:06:07Z", "variants": "hero:a",
        "properties": { "url": "https://acme.example/tents/?utm_source=news", "referrer": "https://search.example/" },
        "context": { "userAgent": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1", "locale": "de-AT", "country": "at" },
    });
    let records = import(&[
        json!({ "receivedAt": "2025-03-04T05:07:00Z", "site": "acme", "type": "page", "payload": payload }),
    ]);
    let expected = json!({
        "receivedAt": "2025-03-04T05:07:00.000Z", "timestamp": "2025-03-04T05:06:07.000Z", "anonId": "v1", "userId": "u1", "path": "/tents",
        "variants": "hero:a", "referrerHost": "search.example", "source": "news", "device": "mobile", "os": "iOS", "browser": "Safari",
        "language": "de", "country": "AT", "bot": false, "gpc": false, "payload": payload, "ip": null, "clientTimestamp": null,
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&records[0][name], value, "{name}");
    }
    assert_eq!(records[0]["messageId"].as_str().map(str::len), Some(16), "it follows from the line");
}

#[test]
fn equal_lines_without_a_message_id_are_one_record() {
    let line = |event: &str| json!({ "receivedAt": "2025-03-04T05:07:00Z", "site": "acme", "type": "track", "anonId": "v1", "payload": { "event": event } });
    let records = import(&[line("A"), line("B"), line("A")]);
    let events: Vec<_> = records.iter().map(|record| record["event"].as_str()).collect();
    assert_eq!(events, [Some("A"), Some("B")]);
}

#[test]
fn a_column_has_precedence_over_the_payload() {
    let records = import(&[json!({
        "receivedAt": "2025-03-04T05:07:00Z", "site": "acme", "type": "page", "anonId": "column", "path": "/column", "source": null,
        "language": null, "device": "tablet", "bot": true,
        "payload": { "anonId": "payload", "properties": { "path": "/payload", "url": "https://a.example/?utm_source=x" }, "context": { "locale": "de" } },
    })]);
    let read = |name: &str| records[0][name].clone();
    assert_eq!(read("anonId"), "column");
    assert_eq!(read("path"), "/column");
    assert_eq!(read("device"), "tablet");
    assert_eq!(
        (read("source"), read("language"), read("bot")),
        (Value::Null, Value::Null, Value::Bool(true))
    );
}
