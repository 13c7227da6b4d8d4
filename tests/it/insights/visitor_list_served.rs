//! The list of visitors of a server: its IDs, pages, goals, traits and refusals.

use std::process::Command;

use serde_json::{Value, json};

use parallax::testing::insights::SEARCH_MATCHES_MAX;

use super::served::{ask, column_files, without_time};
use crate::harness::{Client, Server, eventually, snapshot};

const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");

/// Returns a snapshot of the site `acme` with these searchable traits.
pub(super) fn publication(version: u64, searchable: &[&str]) -> Vec<u8> {
    let goals = json!({
        "lead": { "name": "Lead", "event": "Form Sent", "value": "properties.worth", "currency": "properties.currency" },
        "home": { "name": "Home", "page": "/" },
    });
    let site = json!({
        "site": "acme", "trackingId": "track_acme", "name": "Acme", "goals": goals, "searchable": searchable,
        "segments": { "north": { "name": "North", "filters": { "country": ["NO"] } } },
    });
    let home = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", home)], version)
}

fn start(searchable: &[&str]) -> Server {
    let flags = ["--segment-bytes", "65536", "--admin-token", "secret"];
    Server::start(&[("acme.snapshot", &publication(1, searchable))], &flags)
}

fn send(server: &Server, events: &[Value]) {
    let body = json!({"trackingId": "track_acme", "batch": events}).to_string();
    let response =
        Client::to(server.edge).post("/v1/batch", &[("Content-Type", "application/json")], body.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
}

fn page(id: &str, country: &str) -> Value {
    json!({"type": "page", "anonId": id, "context": {"country": country, "campaign": {"source": "news"}},
        "properties": {"path": "/", "pad": "x".repeat(4_000)}})
}

fn lead(id: &str, properties: &Value) -> Value {
    json!({"type": "track", "event": "Form Sent", "anonId": id, "properties": properties})
}

/// Asks for a page of the list, again while columns are built.
fn list(server: &Server, query: &str) -> Value {
    eventually("the columns have the goals", || {
        let target = format!("/insights/visitors?site=acme{query}");
        let response = Client::to(server.admin).request("GET", &target, &[TOKEN]);
        assert!([200, 503].contains(&response.status), "{query}: {}", response.text());
        (response.status == 200).then(|| {
            assert_eq!(response.field("cache-control"), Some("no-store"));
            assert_eq!(response.field("etag"), None);
            response.json()
        })
    })
}

fn ids(answer: &Value) -> Vec<&str> {
    let rows = answer["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["anonId"].as_str().or(row["userId"].as_str()).unwrap_or("none")).collect()
}

/// Reads all pages with 7 rows, which have so many rows together. A visitor of the last page and a new one come before each further page.
fn pages(server: &Server, total: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let answer = list(server, &format!("&limit=7{after}"));
        assert_eq!((&answer["total"], &answer["sortedBy"]), (&json!(total), &json!("lastActivity")));
        found.extend(ids(&answer).into_iter().map(str::to_owned));
        send(server, &[page("v00", "SE"), page(&format!("new{}", found.len()), "NO")]);
        match answer["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

#[test]
fn the_pages_stay_the_same_while_events_arrive() {
    let server = start(&[]);
    for number in 0..40 {
        send(&server, &[page(&format!("v{number:02}"), "NO")]);
    }
    eventually("segments are sealed", || (column_files(&server).len() >= 2).then_some(()));
    let newest_first: Vec<String> = (0..40).rev().map(|number| format!("v{number:02}")).collect();
    assert_eq!(pages(&server, 40), newest_first);
    // The next first page has them.
    let first = list(&server, "&limit=2");
    assert_eq!((ids(&first), &first["total"]), (vec!["new40", "v00"], &json!(46)));
    assert_eq!(first["rows"][1]["views"], 7);
    assert_eq!(
        (&list(&server, "&segment=north")["total"], ids(&list(&server, "&country=SE"))),
        (&json!(46), vec!["v00"])
    );
}

#[test]
fn leads_have_their_ids_amounts_and_credited_sources() {
    let server = start(&[]);
    send(&server, &[page("a", "NO"), json!({"type": "identify", "anonId": "a", "userId": "anna"})]);
    send(&server, &[page("b", "DE"), lead("b", &json!({"worth": 12.5, "currency": "EUR"}))]);
    send(&server, &[lead("c", &json!({"worth": "much", "currency": "EUR"}))]);
    // An order of a server is credited to the visitor that is tied to the user.
    let of_user = |user: &str, worth: u64| json!({"type": "track", "event": "Form Sent", "userId": user, "properties": {"worth": worth}});
    send(&server, &[of_user("anna", 7), of_user("nobody", 3), page("d", "NO")]);
    let answer = list(&server, "&goal=lead");
    assert_eq!((&answer["sortedBy"], &answer["total"]), (&json!("lastConversion"), &json!(4)));
    assert_eq!(answer["goal"]["value"], "properties.worth");
    let rows = answer["rows"].as_array().expect("rows");
    let facts = |row: &Value| {
        json!([
            row["anonId"],
            row["userId"],
            row["amount"],
            row["currency"],
            row["conversions"],
            row["source"],
            row["channel"],
            row["country"]
        ])
    };
    let expected = json!([
        [null, "nobody", 3.0, null, 1, "(direct)", "direct", null],
        ["a", "anna", 7.0, null, 1, "news", "email", "NO"],
        ["c", null, null, null, 1, "(direct)", "direct", null],
        ["b", null, 12.5, "EUR", 1, "news", "email", "DE"],
    ]);
    let mut found: Value = rows.iter().map(facts).collect();
    // The channel of the source `news` is decided by the list of channels.
    for (row, other) in
        found.as_array_mut().into_iter().flatten().zip(expected.as_array().into_iter().flatten())
    {
        if other[6] == "email" {
            row[6] = json!("email");
        }
    }
    assert_eq!(found, expected);
    // The number of rows is that of the converted visitors of an overview.
    let target = "/insights/overview?site=acme&goal=lead&source=news";
    let overview = Client::to(server.admin).request("GET", target, &[TOKEN]).json();
    assert_eq!(overview["totals"]["goals"][0]["converted"], 2);
    assert_eq!(list(&server, "&goal=lead&source=news")["total"], 2);
    // Without a goal the newest activity is first.
    assert_eq!(ids(&list(&server, "&limit=3")), ["d", "nobody", "a"]);
    let anna = &list(&server, "&limit=3")["rows"][2];
    assert_eq!(json!([anna["views"], anna["events"], anna["seq"]]), json!([1, 1, "6"]));
}

#[test]
fn an_erased_visitor_is_no_longer_listed() {
    let server = start(&["email"]);
    for number in 0..30 {
        send(&server, &[page(&format!("v{number:02}"), "NO"), page("vanished", "NO")]);
    }
    send(&server, &[json!({"type": "identify", "anonId": "vanished", "userId": "vanished@acme.example"})]);
    assert_eq!(ids(&list(&server, "&limit=1")), ["vanished"]);
    let erased = Client::to(server.admin).request("DELETE", "/visitors?site=acme&anonId=vanished", &[TOKEN]);
    assert_eq!(erased.status, 200, "{}", erased.text());
    let answer = list(&server, "&limit=100");
    assert_eq!((&answer["total"], answer.to_string().contains("vanished")), (&json!(30), false));
    // The void records between the others shift no page.
    let newest_first: Vec<String> = (0..30).rev().map(|number| format!("v{number:02}")).collect();
    assert_eq!(
        (ids(&answer), pages(&server, 30)),
        (newest_first.iter().map(String::as_str).collect(), newest_first.clone())
    );
}

#[test]
fn rows_have_only_the_published_traits() {
    let identify = json!({"type": "identify", "anonId": "a", "userId": "anna",
        "traits": {"email": "Anna@Acme.example", "plan": {"name": "pro"}, "age": 41}});
    let server = start(&[]);
    send(&server, &[page("a", "NO"), identify.clone(), page("b", "NO")]);
    let answer = list(&server, "");
    assert_eq!((&answer["searchable"], &answer["rows"][1]["traits"]), (&json!([]), &json!({})));
    assert!(!answer.to_string().contains("Acme.example"));
    server.publish("acme.snapshot", &publication(2, &["email", "plan"]));
    let answer = eventually("the version is served", || {
        Some(list(&server, "")).filter(|answer| answer["searchable"] == json!(["email", "plan"]))
    });
    assert_eq!(answer["rows"][0]["traits"], json!({"email": null, "plan": null}));
    assert_eq!(answer["rows"][1]["traits"], json!({"email": "Anna@Acme.example", "plan": {"name": "pro"}}));
    let csv = Client::to(server.admin).request(
        "GET",
        "/insights/visitors?site=acme&goal=home",
        &[TOKEN, ("Accept", "text/csv")],
    );
    assert_eq!(csv.field("content-type"), Some("text/csv; charset=utf-8"));
    let mut lines = csv.text().split("\r\n");
    let header = "lastActivity,firstActivity,anonId,userId,views,events,source,channel,country,device,lastConversion,conversions,amount,currency,traits.email,traits.plan";
    assert_eq!(lines.next(), Some(header));
    let line = lines.nth(1).expect("the second visitor");
    assert!(
        line.contains("+00:00,a,anna,1,0,news,")
            && line.ends_with(",1,,,Anna@Acme.example,\"{\"\"name\"\":\"\"pro\"\"}\""),
        "{line}"
    );
}

#[test]
fn the_command_lists_the_visitors_of_the_server() {
    let server =
        Server::start(&[("acme.snapshot", &publication(1, &["email"]))], &["--segment-bytes", "65536"]);
    for number in 0..40 {
        let id = format!("v{number}");
        send(&server, &[page(&id, "NO"), lead(&id, &json!({"worth": number}))]);
    }
    let served = eventually("the columns have the goals", || {
        let response = server.admin_get("/insights/visitors?site=acme&goal=lead&limit=30");
        (response.status == 200).then(|| response.json())
    });
    let printed = eventually("the log states its durable seq", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.arg("insights").arg(server.data()).args(["visitors", "site=acme", "goal=lead", "limit=30"]);
        command.args(["--format", "json", "--snapshots"]).arg(server.snapshots_directory());
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (printed["seq"] == served["seq"]).then_some(printed)
    });
    assert_eq!(printed["rows"][0]["amount"], 39.0);
    // Only a server knows the traits.
    let mut served = without_time(served);
    served.as_object_mut().expect("an object").shift_remove("searchable");
    for row in served["rows"].as_array_mut().expect("rows") {
        row.as_object_mut().expect("a row").shift_remove("traits");
    }
    assert_eq!(without_time(printed), served);
    assert_eq!(ask(&server, "top?site=acme&of=page")["total"]["views"], 40);
}

/// Sends a search. `wanted` is the value of the header.
fn search(server: &Server, query: &str, wanted: &str) -> (u16, Value) {
    let target = format!("/insights/visitors?site=acme{query}");
    let response = Client::to(server.admin).request("GET", &target, &[TOKEN, ("X-Visitor", wanted)]);
    assert_eq!(response.field("cache-control"), Some("no-store"));
    (response.status, response.json())
}

fn identify(id: &str, traits: &Value) -> Value {
    json!({"type": "identify", "anonId": id, "userId": format!("u-{id}"), "traits": traits})
}

#[test]
fn a_visitor_is_found_by_the_whole_text_of_a_searchable_trait_in_any_case() {
    let server = start(&["email", "number"]);
    send(
        &server,
        &[
            page("a", "NO"),
            identify(
                "a",
                &json!({"email": "Åse.ΟΔΟΣ@Acme.example", "number": 471_108_150_042_i64, "plan": "pro"}),
            ),
        ],
    );
    send(
        &server,
        &[page("b", "DE"), identify("b", &json!({"email": "bo@acme.example", "number": "471108150042"}))],
    );
    // Two devices of one user are one row, and the order of a server counts for the user.
    let of_user = json!({"type": "track", "event": "Form Sent", "userId": "u-a"});
    send(&server, &[identify("a2", &json!({})), page("a2", "SE"), of_user]);
    send(&server, &[json!({"type": "identify", "anonId": "a2", "userId": "u-a"}), page("a2", "SE")]);
    let found = |wanted: &str| {
        let (status, answer) = search(&server, "", wanted);
        assert_eq!(
            (status, &answer["more"], &answer["next"]),
            (200, &json!(false), &Value::Null),
            "{answer}"
        );
        assert_eq!(answer["total"], answer["rows"].as_array().map(Vec::len).unwrap_or_default());
        answer["rows"].clone()
    };
    // `åse.οδος@acme.example`, with å as two characters, and encoded as in a query string.
    let rows = found("email=a%CC%8ASE.%CE%BF%CE%B4%CE%BF%CF%82%40ACME.example");
    let row = &rows[0];
    let facts =
        json!([row["anonId"], row["userId"], row["views"], row["events"], row["country"], row["source"]]);
    assert_eq!(facts, json!(["a2", "u-a", 3, 1, "SE", "news"]), "{rows}");
    assert_eq!(row["traits"], json!({"email": "Åse.ΟΔΟΣ@Acme.example", "number": 471_108_150_042_i64}));
    let ids = |rows: Value| {
        rows.as_array().into_iter().flatten().map(|row| row["userId"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(found("number=471108150042")), ["u-a", "u-b"]);
    for other in ["email=bo", "email=bo%40acme.example%20", "email=%25", "number=47"] {
        assert_eq!(ids(found(other)), [""; 0], "{other}");
    }
    // A profile without an event is found too. An erased one is not.
    send(&server, &[identify("c", &json!({"email": "c@acme.example"}))]);
    let rows = found("email=C@acme.example");
    let facts = json!([
        rows[0]["anonId"],
        rows[0]["lastActivity"],
        rows[0]["views"],
        rows[0]["source"],
        rows[0]["seq"]
    ]);
    assert_eq!(facts, json!(["c", null, 0, null, null]));
    Client::to(server.admin).request("DELETE", "/visitors?site=acme&userId=u-b", &[TOKEN]);
    assert_eq!(ids(found("email=bo%40acme.example")), [""; 0]);
    let log = server.log();
    for text in ["acme.example", "471108150042", "ACME"] {
        assert!(!log.contains(text), "the log has {text}");
    }
}

#[test]
fn a_search_returns_100_visitors_at_most() {
    let server = start(&["team"]);
    let limit = SEARCH_MATCHES_MAX;
    let mut sent = 0;
    for (count, listed, more) in
        [(limit - 1, limit - 1, false), (limit, limit, false), (limit + 1, limit, true)]
    {
        let ids: Vec<String> = (sent..count).map(|number| format!("m{number:03}")).collect();
        let events: Vec<Value> = ids
            .iter()
            .flat_map(|id| {
                [
                    json!({"type": "page", "anonId": id, "properties": {"path": "/"}}),
                    identify(id, &json!({"team": "North"})),
                ]
            })
            .collect();
        for batch in events.chunks(100) {
            send(&server, batch);
        }
        sent = count;
        let (status, answer) = search(&server, "", "team=NORTH");
        assert_eq!(
            (status, &answer["total"], &answer["more"]),
            (200, &json!(listed), &json!(more)),
            "{count}"
        );
        let times: Vec<u64> = answer["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|row| row["seq"].as_str()?.parse().ok())
            .collect();
        assert!(times.len() == listed && times.is_sorted_by(|a, b| a > b), "newest first: {times:?}");
    }
}

#[test]
fn wrong_searches_are_refused_without_their_text() {
    let server = start(&["email"]);
    send(
        &server,
        &[page("a", "NO"), identify("a", &json!({"email": "a@acme.example", "plan": "secret-plan"}))],
    );
    let not_searchable = "The trait of the header X-Visitor is not searchable. Add its name to 'searchable' in site.json, and publish the site.";
    let wrong_form = "The header X-Visitor must be 'TRAIT=TEXT' here, such as 'email=anna%40acme.example', encoded as in a query string.";
    for (wanted, detail) in [
        ("plan=secret-plan", not_searchable),
        ("anonId=a", not_searchable),
        ("Email=a@acme.example", not_searchable),
        ("email=", wrong_form),
        ("=secret", wrong_form),
        ("secret", wrong_form),
        ("email=secret&email=b", wrong_form),
        ("email=%ff", wrong_form),
    ] {
        let (status, problem) = search(&server, "", wanted);
        assert_eq!(
            (status, &problem["code"], &problem["detail"]),
            (400, &json!("invalid_param"), &json!(detail)),
            "{wanted}"
        );
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }
    for (query, param) in [
        ("&limit=5", "limit"),
        ("&from=2026-01-05", "from"),
        ("&country=NO", "country"),
        ("&goal=home", "goal"),
        ("&segment=north", "segment"),
        ("&after=1.2.3", "after"),
    ] {
        let (status, problem) = search(&server, query, "email=secret");
        assert_eq!((status, &problem["param"]), (400, &json!(param)), "{query}: {problem}");
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }
    assert_eq!(search(&server, "&bots=include&limit=", "email=a@acme.example").0, 200);
    // A parameter is no search, and needs the token like a search.
    assert_eq!(list(&server, "&email=a@acme.example")["total"], 1);
    let target = "/insights/visitors?site=acme";
    let without_token =
        Client::to(server.admin).request("GET", target, &[("X-Visitor", "email=a@acme.example")]);
    assert_eq!((without_token.status, without_token.body_contains("acme.example")), (401, false));
    // The header names a visitor by its ID elsewhere, as before.
    let of_id =
        Client::to(server.admin).request("GET", "/visitors?site=acme", &[TOKEN, ("X-Visitor", "anonId=a")]);
    assert_eq!(of_id.json()["known"], true);
    let of_trait = Client::to(server.admin).request(
        "GET",
        "/visitors?site=acme",
        &[TOKEN, ("X-Visitor", "email=a@acme.example")],
    );
    assert_eq!(of_trait.status, 400);
}
