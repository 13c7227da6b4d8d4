//! `GET /visitors/records` on the admin address: the records of an export, newest first, page by page.

use serde_json::{Value, json};

use super::{acme_snapshot, page, problem};
use crate::dice::Dice;
use crate::harness::{Client, Response, Server, eventually, times};
use crate::logged::parse_seq;

const TOKEN: [&str; 2] = ["--admin-token", "open"];

fn start(flags: &[&str]) -> Server {
    let snapshot = acme_snapshot(&[page("/", json!({}))]);
    Server::start(&[("acme.snapshot", &snapshot)], &[&TOKEN[..], flags].concat())
}

fn admin(server: &Server, method: &str, target: &str) -> Response {
    Client::to(server.admin).request(method, target, &[("Authorization", "Bearer open")])
}

fn send(server: &Server, events: &[Value]) {
    let body = json!({ "batch": events }).to_string();
    let response = server.post("/v1/batch?site=acme", &[], body.as_bytes());
    assert_eq!(response.json()["accepted"], events.len(), "{}", response.text());
}

fn track(ids: Value, note: &str) -> Value {
    let mut event = json!({ "type": "track", "event": "Viewed", "properties": { "note": note } });
    event.as_object_mut().expect("an object").extend(ids.as_object().expect("an object").clone());
    event
}

/// Returns the lines of an export, oldest first.
fn export(server: &Server, id: &str) -> Vec<String> {
    let (mut lines, mut since) = (Vec::new(), String::new());
    loop {
        let response = admin(server, "GET", &format!("/visitors/export?site=acme&{id}{since}"));
        assert_eq!(response.status, 200, "{}", response.text());
        lines.extend(response.text().lines().map(str::to_owned));
        match response.field("x-next-since") {
            Some(seq) => since = format!("&since={seq}"),
            None => return lines,
        }
    }
}

fn read_page(server: &Server, target: &str) -> Response {
    let response = admin(server, "GET", &format!("/visitors/records?site=acme&{target}"));
    assert_eq!(response.status, 200, "{target}: {}", response.text());
    response
}

/// Returns the records of all pages, newest first, and the number of pages.
fn read_all(server: &Server, target: &str) -> (Vec<Value>, usize) {
    let (mut records, mut before, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = read_page(server, &format!("{target}{before}")).json();
        records.extend(page["records"].as_array().expect("records").iter().cloned());
        pages += 1;
        match page["next"].as_str() {
            Some(seq) => before = format!("&before={seq}"),
            None => return (records, pages),
        }
    }
}

/// Waits until all pages together are the export. With `--ack written` the last records are durable a little later.
#[track_caller]
fn assert_equals_export(server: &Server, id: &str, limit: usize) -> usize {
    let description = format!("all pages of {id} with limit {limit} are the export");
    eventually(&description, || {
        let exported = export(server, id);
        let mut expected: Vec<Value> =
            exported.iter().map(|line| serde_json::from_str(line).expect("a record")).collect();
        expected.reverse();
        let (records, _) = read_all(server, &format!("{id}&limit={limit}"));
        (records == expected).then_some(records.len())
    })
}

#[test]
fn all_pages_together_are_the_export_of_each_visitor() {
    for flags in [&[][..], &["--insights-memory", "0"], &["--ack", "written"]] {
        let flags = [flags, &["--segment-bytes", "65536"]].concat();
        let server = start(&flags);
        let mut dice = Dice(11);
        for _ in 0..times(120, 2_000) {
            let (device, user) = (format!("v{}", dice.below(4)), format!("u{}", dice.below(3)));
            // Ten events of this size fill a segment.
            let note = "x".repeat(dice.below(8_000));
            let event = match dice.below(10) {
                0 => json!({ "type": "identify", "anonId": device, "userId": user }),
                1 => json!({ "type": "alias", "userId": user, "previousId": device }),
                2..5 => track(json!({ "userId": user }), &note),
                5 => track(json!({ "anonId": device, "userId": user }), &note),
                _ => track(json!({ "anonId": device }), &note),
            };
            send(&server, &[event]);
        }
        let mut found = 0;
        for id in ["anonId=v0", "anonId=v1", "anonId=v3", "userId=u0", "userId=u1", "userId=u2"] {
            for limit in [1, 7, 500] {
                found += assert_equals_export(&server, id, limit);
            }
        }
        assert!(found > 300, "{found}");
        // After an erasure nothing of the visitor is left, and the others keep their records.
        assert_eq!(admin(&server, "DELETE", "/visitors?site=acme&userId=u0").status, 200);
        assert_eq!(read_all(&server, "userId=u0").0, Vec::<Value>::new());
        for id in ["anonId=v0", "anonId=v1", "anonId=v2", "anonId=v3", "userId=u1", "userId=u2"] {
            assert_equals_export(&server, id, 5);
        }
        let server = server.restart(&[&TOKEN[..], &flags].concat());
        assert_equals_export(&server, "userId=u1", 5);
    }
}

#[test]
fn each_user_of_a_shared_device_has_the_own_records_alone() {
    let server = start(&[]);
    let identify = |user: &str| json!({ "type": "identify", "anonId": "v1", "userId": user });
    let on_device = |note: &str| track(json!({ "anonId": "v1" }), note);
    for event in [on_device("ana"), identify("ana"), on_device("ana"), identify("ben"), on_device("ben")] {
        send(&server, &[event]);
    }
    let seqs = |id: &str| -> Vec<u64> {
        read_all(&server, id).0.iter().map(|record| parse_seq(&record["seq"])).collect()
    };
    assert_eq!((seqs("userId=ana"), seqs("userId=ben")), (vec![3, 2, 1], vec![5, 4]));
    assert_eq!(seqs("anonId=v1"), [5, 4], "the device is with ben now");
    assert_eq!(seqs("anonId=v2"), Vec::<u64>::new());
}

#[test]
fn a_page_holds_every_acknowledged_event_and_says_where_the_next_begins() {
    for ack in ["disk", "written"] {
        let server = start(&["--ack", ack]);
        for number in 1..=12_u64 {
            send(&server, &[track(json!({ "anonId": "v1" }), "x")]);
            let newest = read_page(&server, "anonId=v1&limit=1").json();
            assert_eq!(newest["records"][0]["seq"], number.to_string(), "{ack}");
        }
        let page = read_page(&server, "anonId=v1&limit=5").json();
        let seqs: Vec<u64> =
            page["records"].as_array().expect("records").iter().map(|r| parse_seq(&r["seq"])).collect();
        assert_eq!((seqs, &page["next"]), (vec![12, 11, 10, 9, 8], &json!("8")));
        assert_eq!(read_page(&server, "anonId=v1&limit=500&before=3").json()["next"], json!(null));
        assert_eq!(read_page(&server, "anonId=v1&before=1").json(), json!({ "records": [], "next": null }));
    }
}

#[test]
fn a_page_ends_at_its_limit_and_at_1_mib() {
    let server = start(&[]);
    let events = |count: usize, note: &str| vec![track(json!({ "anonId": "v1" }), note); count];
    for count in [250, 250, 2] {
        send(&server, &events(count, "x"));
    }
    let count = |target: &str| read_page(&server, target).json()["records"].as_array().map(Vec::len);
    assert_eq!(count("anonId=v1"), Some(50));
    for limit in [499, 500] {
        assert_eq!(count(&format!("anonId=v1&limit={limit}")), Some(limit));
    }
    let note = "y".repeat(25_000);
    for _ in 0..5 {
        send(&server, &events(10, &note));
    }
    let page = read_page(&server, "anonId=v1&limit=500");
    let records = page.json()["records"].as_array().map(Vec::len).expect("records");
    let record_bytes = page.body.len() / records;
    assert!(page.body.len() <= (1 << 20) + 100 && page.body.len() + record_bytes > 1 << 20, "{records}");
    assert_eq!(assert_equals_export(&server, "anonId=v1", 500), 552);
}

#[test]
fn a_page_is_read_while_an_export_runs() {
    let server = start(&["--segment-bytes", "65536"]);
    let note = "z".repeat(25_000);
    for _ in 0..40 {
        send(&server, &vec![track(json!({ "anonId": "v1" }), &note); 10]);
    }
    let mut exports: Vec<Client> = (0..2).map(|_| Client::to(server.admin)).collect();
    let head =
        "GET /visitors/export?site=acme&anonId=v1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer open\r\n\r\n";
    exports.iter_mut().for_each(|client| client.send(head.as_bytes()));
    assert_eq!(read_page(&server, "anonId=v1&limit=3").json()["records"].as_array().map(Vec::len), Some(3));
    let mut statuses: Vec<u16> = exports.iter_mut().map(|client| client.response(false).status).collect();
    statuses.sort_unstable();
    // The second export may find the first one running. No page does.
    assert!(statuses == [200, 503] || statuses == [200, 200], "{statuses:?}");
    assert_equals_export(&server, "anonId=v1", 500);
}

#[test]
fn a_segment_without_the_visitor_is_not_read() {
    let server = start(&["--segment-bytes", "65536"]);
    let filler = "x".repeat(30_000);
    for number in 0..4 {
        send(&server, &[track(json!({ "anonId": format!("stranger-{number}") }), &filler)]);
    }
    send(&server, &[track(json!({ "anonId": "v1" }), "ana")]);
    // Only the footer of the first segment, which is sealed, is left intact.
    let path = server.data().join(parallax::testing::log::segment_name(1));
    let mut bytes = std::fs::read(&path).expect("the segment");
    bytes[200] ^= 1;
    std::fs::write(&path, &bytes).expect("the segment is written");
    assert_eq!(read_all(&server, "anonId=v1").0.len(), 1);
    assert_eq!(read_all(&server, "anonId=v1&limit=1").1, 1, "no older segment can have records");
    // A damaged place is left out, as in an export.
    assert_equals_export(&server, "anonId=stranger-0", 50);
}

#[test]
fn csv_has_the_columns_of_the_export_and_no_formulas() {
    let server = start(&[]);
    let event = json!({ "type": "track", "event": "=1+1", "anonId": "v1", "properties": { "a": "b,\"c\"", "n": 1.50 } });
    send(&server, &[event]);
    let fields = [("Authorization", "Bearer open"), ("Accept", "text/csv")];
    let target = "/visitors/records?site=acme&anonId=v1";
    let response = Client::to(server.admin).request("GET", target, &fields);
    assert_eq!(response.field("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!((response.field("cache-control"), response.field("vary")), (Some("no-store"), Some("Accept")));
    let line = &export(&server, "anonId=v1")[0];
    let record: serde_json::Map<String, Value> = serde_json::from_str(line).expect("a record");
    let lines: Vec<&str> = response.text().split_terminator("\r\n").collect();
    assert_eq!(lines[0], record.keys().map(String::as_str).collect::<Vec<_>>().join(","));
    assert!(lines[1].starts_with("1,20") && lines[1].contains(",'=1+1,"), "{}", lines[1]);
    let payload = line.split_once("\"payload\":").expect("a payload").1.strip_suffix('}').expect("a brace");
    assert!(lines[1].ends_with(&format!("\"{}\"", payload.replace('"', "\"\""))), "{}", lines[1]);
    assert_eq!(lines.len(), 2);
}

#[test]
fn wrong_parameters_are_refused_by_name() {
    let server = start(&[]);
    for (target, status, code, param) in [
        ("anonId=v1&limit=0", 400, "invalid_limit", Some("limit")),
        ("anonId=v1&limit=501", 400, "invalid_limit", Some("limit")),
        ("anonId=v1&limit=x", 400, "invalid_limit", Some("limit")),
        ("anonId=v1&limit=1&limit=2", 400, "repeated_param", Some("limit")),
        ("anonId=v1&since=1", 400, "invalid_param", Some("since")),
        ("anonId=v1&before=0", 400, "invalid_param", Some("before")),
        ("anonId=v1&before=-1", 400, "invalid_param", Some("before")),
        ("anonId=v1&before=1&before=2", 400, "repeated_param", Some("before")),
        ("anonId=v1&anonId=v2", 400, "repeated_param", Some("anonId")),
        ("anonId=v1&userId=u1", 400, "missing_visitor", None),
        ("", 400, "missing_visitor", None),
        ("anonId=null", 400, "placeholder_id", Some("anonId")),
        ("anonId=a%20b", 400, "invalid_anon_id", Some("anonId")),
    ] {
        let response = admin(&server, "GET", &format!("/visitors/records?site=acme&{target}"));
        assert_eq!(problem(&response), (status, code.into()), "{target}");
        assert_eq!(response.json()["param"].as_str(), param, "{target}");
    }
    let of_other = admin(&server, "GET", "/visitors/records?site=acne&anonId=v1");
    assert_eq!(problem(&of_other), (404, "site_not_found".into()));
    let without_site = admin(&server, "GET", "/visitors/records?anonId=v1");
    assert_eq!(problem(&without_site), (400, "missing_site".into()));
    let target = "/visitors/records?site=acme&anonId=v1";
    let posted = admin(&server, "POST", target);
    assert_eq!((posted.status, posted.field("allow")), (405, Some("GET, HEAD")));
    assert_eq!(admin(&server, "HEAD", target).field("content-length"), Some("26"));
    let refused = Client::to(server.admin).request("GET", target, &[]);
    assert_eq!(
        (problem(&refused), refused.field("cache-control")),
        ((401, "unauthorized".into()), Some("no-store"))
    );
    assert_eq!(server.get(target).code(), "unknown_endpoint");
}
