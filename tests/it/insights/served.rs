//! The endpoints of a server, and the command.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Client, Server, eventually};

/// Sends a batch of events to the demo site. Returns after the acknowledgement.
pub(super) fn send(client: &mut Client, events: &[Value]) {
    let body = json!({"trackingId": "track_demo", "batch": events}).to_string();
    let response = client.post("/v1/batch", &[("Content-Type", "application/json")], body.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Returns a page event. Ten of them fill a segment of 64 KiB.
pub(super) fn page(visitor: &str, path: &str) -> Value {
    json!({"type": "page", "anonId": visitor, "properties": {"path": path, "pad": "x".repeat(6_000)}})
}

pub(super) fn ask(server: &Server, question: &str) -> Value {
    let response = server.admin_get(&format!("/insights/{question}"));
    assert_eq!(response.status, 200, "{question}: {}", response.text());
    response.json()
}

/// Returns the column files of a server.
pub(super) fn column_files(server: &Server) -> Vec<String> {
    let names = std::fs::read_dir(server.data()).expect("the data directory");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".columns") && name.len() > 20).collect();
    names.sort();
    names
}

/// Removes the members of an answer that differ between equal ones, also from the answer about the range before.
pub(super) fn without_time(mut answer: Value) -> Value {
    answer.as_object_mut().expect("an object").remove("took");
    if let Some(previous) = answer.get_mut("compared").and_then(Value::as_object_mut) {
        previous.remove("took");
    }
    answer
}

#[test]
fn each_acknowledged_event_is_in_the_next_answer_under_both_levels() {
    let events = if std::env::var_os("PARALLAX_LONG").is_some_and(|v| v == "1") { 10_000 } else { 200 };
    for ack in ["disk", "written"] {
        // Small segments, so that seals, column files and tails alternate.
        let flags = ["--ack", ack, "--segment-bytes", "65536"];
        let demo = parallax::testing::cli::demo::compile_demo().1;
        let server = Server::start(&[("demo.snapshot", &demo)], &flags);
        let (mut edge, mut admin) = (Client::to(server.edge), Client::to(server.admin));
        for sent in 1..=events {
            send(&mut edge, &[page(&format!("v{}", sent % 7), "/")]);
            let answer = admin.request("GET", "/insights/overview?site=fjell", &[]).json();
            let expected = json!([sent, sent.min(7), sent.to_string()]);
            assert_eq!(
                json!([answer["totals"]["views"], answer["totals"]["visitors"], answer["seq"]]),
                expected,
                "{ack}"
            );
        }
    }
}

#[test]
fn the_command_gives_the_answers_of_the_server() {
    let server = Server::demo();
    let mut edge = Client::to(server.edge);
    send(
        &mut edge,
        &[
            page("a", "/"),
            page("a", "/=x,\"y\""),
            page("b", "/"),
            json!({"type": "track", "anonId": "b", "event": "Order Placed"}),
        ],
    );
    let run = |params: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.args(["insights"]).arg(server.data()).args(params).args(["site=fjell", "--snapshots"]);
        let output = command.arg(server.snapshots_directory()).output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // The command reads durable records: with `--ack disk` these are all.
    for (question, params) in
        [("overview?by=hour", ["overview", "by=hour"]), ("top?of=page", ["top", "of=page"])]
    {
        let served = ask(&server, &format!("{question}&site=fjell"));
        // The command reads durable records, whose last seq an idle log states within 100 ms.
        let printed = eventually("the log states its durable seq", || {
            let text = run(&[params[0], params[1], "--format", "json"]);
            let printed: Value = serde_json::from_str(&text).expect("JSON");
            (printed["seq"] == served["seq"]).then_some(printed)
        });
        assert_eq!(without_time(printed), without_time(served));
    }
    let csv = "value,views,events,visitors,visits\r\n/,2,0,2,2\r\n,0,1,0,1\r\n";
    assert_eq!(run(&["top", "of=page", "country=", "limit=9", "--format", "csv"]).lines().count(), 4);
    let of_page = Client::to(server.admin).request(
        "GET",
        "/insights/top?of=page&site=fjell&event=Order+Placed",
        &[("Accept", "text/csv")],
    );
    assert_eq!(of_page.text(), csv.replace("/,2,0,2,2", "/,1,0,1,1"));
    assert_eq!(of_page.field("content-type"), Some("text/csv; charset=utf-8"));
    let table = run(&["top", "of=event"]);
    assert_eq!(
        table,
        "value         views  events  visitors  visits\nOrder Placed      0       1         1       1\n"
    );
}

#[test]
fn csv_texts_are_quoted_and_never_formulas() {
    let server = Server::demo();
    let event = |name: &str| json!({"type": "track", "anonId": "a", "event": name});
    let formulas = [
        "=1+1",
        "+1",
        "-1",
        "@x",
        " =1",
        "\t\u{a0}+1",
        "\n-1",
        "\u{feff}@x",
        "\u{3000}=1",
        "\u{200b}=1",
        "\u{ff1d}1",
        " \u{ff0b}1",
        "\u{ff0d}1",
        "\u{ff20}x",
    ];
    let others = ["a,\"b\"", "plain", " a=1", "\u{a0}1-1"];
    let names: Vec<Value> = formulas.iter().chain(&others).map(|name| event(name)).collect();
    send(&mut Client::to(server.edge), &names);
    let response = Client::to(server.admin).request(
        "GET",
        "/insights/top?of=event&site=fjell&limit=100",
        &[("Accept", "text/html, Text/CSV;q=1")],
    );
    let mut lines: Vec<&str> = response.text().split_terminator("\r\n").skip(1).collect();
    lines.sort_unstable();
    let harmless = formulas.map(|text| match text.contains('\n') {
        true => format!("\"'{text}\",0,1,1,1"),
        false => format!("'{text},0,1,1,1"),
    });
    let others = ["\"a,\"\"b\"\"\"", "plain", " a=1", "\u{a0}1-1"].map(|text| format!("{text},0,1,1,1"));
    let mut expected: Vec<String> = harmless.into_iter().chain(others).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn csv_has_the_local_time_beside_the_seconds_since_1970() {
    let server = Server::demo();
    let mut edge = Client::to(server.edge);
    send(&mut edge, &[page("a", "/")]);
    let question = "overview?site=fjell&from=2026-03-28&to=2026-03-31";
    let csv =
        Client::to(server.admin).request("GET", &format!("/insights/{question}"), &[("Accept", "text/csv")]);
    // Oslo changes its clock on 2026-03-29.
    let lines = "t,time,visitors,visits,views,events\r\n1774652400,2026-03-28T00:00:00+01:00,0,0,0,0\r\n\
                 1774738800,2026-03-29T00:00:00+01:00,0,0,0,0\r\n1774821600,2026-03-30T00:00:00+02:00,0,0,0,0\r\n";
    assert_eq!(csv.text(), lines);
    let live =
        Client::to(server.admin).request("GET", "/insights/live?site=fjell", &[("Accept", "text/csv")]);
    assert!(live.text().starts_with("t,time,visitors,views,events\r\n"), "{}", live.text());
    // Without a snapshot the site has no time zone.
    let empty = crate::harness::temporary_directory();
    let printed = eventually("the command reads the event", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.arg("insights").arg(server.data()).args(["overview", "site=fjell", "--format", "csv"]);
        command.args(["from=2026-03-28", "to=2026-03-29", "--snapshots"]).arg(empty.path());
        let output = command.output().expect("the program runs");
        output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
    });
    let line = "1774656000,2026-03-28T00:00:00+00:00,0,0,0,0";
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["t,time,visitors,visits,views,events", line]);
}

#[test]
fn visits_are_listed_by_medium_term_and_content_of_their_first_page() {
    let server = Server::demo();
    let page = |visitor: &str, query: &str| {
        let url = format!("https://fjell.example/{query}");
        json!({"type": "page", "anonId": visitor, "properties": {"path": "/", "url": url}})
    };
    let mail =
        "?utm_source=news&utm_medium=email&utm_campaign=may&utm_term=winter%20boots&utm_content=banner-a";
    let advert = "?utm_medium=cpc&utm_term=tents&utm_content=banner-b";
    send(
        &mut Client::to(server.edge),
        &[page("a", mail), page("a", advert), page("b", mail), page("c", advert), page("d", "")],
    );
    for (of, mail, advert) in
        [("medium", "email", "cpc"), ("term", "winter boots", "tents"), ("content", "banner-a", "banner-b")]
    {
        let question = format!("top?site=fjell&of={of}");
        let row = |value: Value, views: u64, visitors: u64| json!({"value": value, "views": views, "events": 0, "visitors": visitors, "visits": visitors});
        let answer = ask(&server, &question);
        let rows = [row(json!(mail), 3, 2), row(json!(advert), 1, 1), row(Value::Null, 1, 1)];
        assert_eq!(answer["rows"], json!(rows), "{of}");
        let column = format!("top as (select visit_{of} as value,");
        assert!(answer["sql"].as_str().is_some_and(|sql| sql.contains(&column)), "{answer}");
        let csv = Client::to(server.admin).request(
            "GET",
            &format!("/insights/{question}"),
            &[("Accept", "text/csv")],
        );
        let lines = format!(
            "value,views,events,visitors,visits\r\n{mail},3,0,2,2\r\n{advert},1,0,1,1\r\n,1,0,1,1\r\n"
        );
        assert_eq!(csv.text(), lines);
    }
}

#[test]
fn an_unchanged_answer_is_304_until_an_event_is_acknowledged() {
    let server = Server::demo();
    let (mut edge, mut admin) = (Client::to(server.edge), Client::to(server.admin));
    send(&mut edge, &[page("a", "/")]);
    let target = "/insights/top?of=page&site=fjell&from=2020-01-01&to=2100-01-01";
    let first = admin.request("GET", target, &[]);
    let etag = first.field("etag").expect("an ETag").to_owned();
    assert!(etag.starts_with("W/\""), "{etag}");
    let fields = ["cache-control", "vary"].map(|name| first.field(name));
    assert_eq!(fields, [Some("private, no-cache"), Some("Accept")]);
    let unchanged = admin.request("GET", target, &[("If-None-Match", &etag)]);
    assert_eq!((unchanged.status, unchanged.body.len(), unchanged.field("etag")), (304, 0, Some(&*etag)));
    assert_eq!(admin.request("GET", target, &[("If-None-Match", &etag), ("Accept", "text/csv")]).status, 200);
    let head = admin.request("HEAD", target, &[]);
    assert_eq!((head.status, head.body.len(), head.field("etag")), (200, 0, Some(&*etag)));
    send(&mut edge, &[page("b", "/")]);
    let changed = admin.request("GET", target, &[("If-None-Match", &etag)]);
    assert_eq!((changed.status, &changed.json()["rows"][0]["views"]), (200, &json!(2)));
}

#[test]
fn live_shows_the_last_minutes() {
    let server = Server::demo();
    send(&mut Client::to(server.edge), &[page("a", "/x"), page("a", "/y"), page("b", "/y"), page("c", "/z")]);
    let answer = ask(&server, "live?site=fjell&limit=1");
    assert_eq!(answer["visitors"], 3);
    assert_eq!(answer["pages"], json!([{"value": "/y", "visitors": 2}]));
    assert_eq!((&answer["more"], answer["series"]["t"].as_array().map(Vec::len)), (&json!(1), Some(30)));
    let views: u64 =
        answer["series"]["views"].as_array().expect("numbers").iter().filter_map(Value::as_u64).sum();
    assert_eq!(views, 4);
}

#[test]
fn wrong_requests_are_refused_with_their_codes() {
    let server = Server::demo();
    let mut admin = Client::to(server.admin);
    for (target, status, code) in [
        ("/insights/overview", 400, "missing_site"),
        ("/insights/overview?site=fjell&site=fjell", 400, "repeated_param"),
        ("/insights/overview?site=nobody", 404, "site_not_found"),
        ("/insights/overview?site=fjell&by=year", 400, "invalid_param"),
        ("/insights/overview?site=fjell&page=%FF", 400, "invalid_query"),
        ("/insights/top?site=fjell&of=page&limit=10001", 400, "invalid_limit"),
        ("/insights/cohorts?site=fjell", 404, "unknown_endpoint"),
    ] {
        let response = admin.request("GET", target, &[]);
        assert_eq!((response.status, response.json()["code"].as_str()), (status, Some(code)), "{target}");
    }
    assert_eq!(admin.request("POST", "/insights/overview?site=fjell", &[]).status, 401);
}

#[test]
fn sealed_segments_get_column_files_which_a_restart_and_insights_memory_0_respect() {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    let flags = ["--segment-bytes", "65536"];
    let server = Server::start(&[("demo.snapshot", &demo)], &flags);
    let mut edge = Client::to(server.edge);
    for visitor in 0..100 {
        send(&mut edge, &[page(&format!("v{visitor}"), "/"), page("v", "/x")]);
    }
    let segments = || {
        std::fs::read_dir(server.data())
            .expect("listed")
            .filter(|entry| {
                entry.as_ref().expect("an entry").file_name().to_string_lossy().ends_with(".segment")
            })
            .count()
    };
    eventually("all sealed segments have column files", || {
        (column_files(&server).len() + 1 == segments()).then_some(())
    });
    let before = ask(&server, "overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month");
    assert_eq!(before["totals"]["visitors"], 101);
    // The restart seals no segment by itself, and the killed process leaves its active one.
    let server = server.restart(&flags);
    let after = ask(&server, "overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month");
    assert_eq!(without_time(after), without_time(before));
    let server = server.restart(&["--segment-bytes", "65536", "--insights-memory", "0"]);
    assert_eq!(column_files(&server), Vec::<String>::new());
    let response = server.admin_get("/insights/overview?site=fjell");
    assert_eq!((response.status, response.json()["code"].as_str()), (404, Some("unknown_endpoint")));
}
