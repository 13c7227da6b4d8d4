//! Shared links: each answers the requests of one page, until it ends or is revoked.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::audited::lines;
use super::{
    ACCESS, ADMIN_TOKEN, PROGRAM, comparable, documented_table, is_hidden, missing, query_of, send,
    start_with_roles, with_token,
};
use crate::harness::{Client, Response, Server, temporary_directory};

const LINKS: &str = "/access/links?site=acme";
const LINKS_MAX: usize = 256;
const LINK_BYTES_MAX: usize = 16 * 1024;
const LINK_DAYS_MAX: u32 = 365;
const TOP: &str = "insights/top?site=acme&of=page";
const ANALYST: usize = 1;

fn post_as(server: &Server, token: &str, target: &str, body: &Value) -> Response {
    let authorization = format!("Bearer {token}");
    Client::to(server.admin).post(target, &[("Authorization", &authorization)], body.to_string().as_bytes())
}

fn body_of(requests: &[&str]) -> Value {
    json!({ "page": "overview?site=acme", "requests": requests, "days": 30 })
}

/// Makes a link that answers these requests. Returns the answer.
fn make(server: &Server, requests: &[&str]) -> Value {
    let made = post_as(server, ADMIN_TOKEN, LINKS, &body_of(requests));
    assert_eq!(made.status, 200, "{}", made.text());
    made.json()
}

fn token_of(made: &Value) -> &str {
    made["token"].as_str().expect("a token")
}

fn get(server: &Server, link: &Value, target: &str) -> Response {
    with_token(server, "GET", target, token_of(link))
}

#[test]
fn a_link_answers_the_requests_of_its_page_as_a_viewer_and_no_others() {
    let server = start_with_roles(&[]);
    let asks_for_numbers = |path: &str| path.starts_with("/insights/");
    let table = documented_table();
    let of_viewer =
        |(_, path, cells): &&(String, String, Vec<String>)| asks_for_numbers(path) && cells[0] == "yes";
    let targets: Vec<String> = table
        .iter()
        .filter(of_viewer)
        .map(|(_, path, _)| format!("{path}{}", query_of(path, "acme")))
        .collect();
    let all = make(&server, &targets.iter().map(String::as_str).collect::<Vec<_>>());
    let one = make(&server, &[TOP]);
    assert!(targets.len() > 10 && token_of(&all).starts_with("pxl_"));
    for (method, path, cells) in &table {
        let target = format!("{path}{}", query_of(path, "acme"));
        let operator = with_token(&server, method, &target, ADMIN_TOKEN);
        let is_open = cells[0] == "yes";
        for (link, is_linked) in [(&all, true), (&one, !asks_for_numbers(path) || path == "/insights/top")] {
            let response = with_token(&server, method, &target, token_of(link));
            let of = format!("{method} {target}: {}", response.text());
            assert_eq!(is_hidden(&response), !(is_open && is_linked), "{of}");
            match is_hidden(&response) {
                false => assert_eq!(response.status, operator.status, "{of}"),
                true => {
                    let not_there = with_token(&server, method, &missing(&target), token_of(link));
                    assert_eq!(
                        comparable(&response).replace(path, "PATH"),
                        comparable(&not_there).replace(&missing(path), "PATH"),
                        "{of}"
                    );
                }
            }
        }
    }
    let rights = get(&server, &one, "/access").json();
    assert_eq!(rights["grants"], json!([{ "role": "viewer", "sites": ["acme"] }]));
    assert_eq!((&rights["kind"], &rights["name"]), (&json!("link"), &one["id"]));
    assert_eq!(rights["link"], json!({ "page": "overview?site=acme", "endsAt": one["endsAt"] }));
    let sites = get(&server, &one, "/sites").json();
    assert_eq!(sites["sites"].as_array().map(Vec::len), Some(1), "{sites}");
}

#[test]
fn a_link_answers_the_same_question_alone() {
    let server = start_with_roles(&[]);
    let open = make(&server, &[TOP, "/insights/overview?page=%2Fa+b&site=acme"]);
    let fixed = make(&server, &["insights/top?site=acme&of=page&from=2026-01-05&to=2026-01-12"]);
    let status = |link: &Value, target: &str| get(&server, link, target).status;
    // The order of the parameters, their encoding and the number of rows do not matter, and neither does the range of a page that
    // has none.
    for target in [
        "/insights/top?of=page&site=acme",
        "/insights/top?site=acme&from=2026-01-05&to=2026-01-12&of=page",
        "/insights/overview?site=acme&page=/a%20b",
        "/insights/top?site=acme&of=page&limit=100",
    ] {
        assert_eq!(status(&open, target), 200, "{target}");
    }
    for target in [
        "/insights/top?site=acme&of=source",
        "/insights/top?site=acme&of=page&of=page",
        "/insights/top?site=acme&of=page&page=/a",
        "/insights/top?site=beta&of=page",
        "/insights/top?site=acme",
        "/insights/overview?site=acme",
    ] {
        assert_eq!(status(&open, target), 404, "{target}");
    }
    assert_eq!(status(&fixed, "/insights/top?site=acme&of=page&from=2026-01-05&to=2026-01-12"), 200);
    assert_eq!(status(&fixed, "/insights/top?site=acme&of=page&from=2026-01-05&to=2026-01-13"), 404);
    assert_eq!(status(&fixed, "/insights/top?site=acme&of=page"), 404);
}

/// Restarts the server with another time of the end of its links.
fn restart_with_ends(server: Server, ends_ms: i64) -> Server {
    let path = server.data().join("links");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    for link in document["links"].as_array_mut().expect("links") {
        link["ends_ms"] = json!(ends_ms);
    }
    fs::write(&path, document.to_string()).expect("written");
    restart(server)
}

fn restart(server: Server) -> Server {
    let access = ACCESS.0.path().join("access.toml");
    server.restart(&["--access", access.to_str().expect("UTF-8"), "--admin-token", ADMIN_TOKEN])
}

#[test]
fn a_link_opens_after_a_restart_until_it_ends_or_is_revoked() {
    let server = start_with_roles(&[]);
    let [first, second] = [(), ()].map(|()| make(&server, &[TOP]));
    let server = restart(server);
    let ids = |server: &Server| {
        let list = with_token(server, "GET", LINKS, &ACCESS.1[ANALYST]).json();
        let links = list["links"].as_array().expect("links").iter();
        links.map(|link| link["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&server), [first["id"].clone(), second["id"].clone()]);
    assert_eq!(first["requests"], json!(["/insights/top?of=page&site=acme"]));
    let text = fs::read_to_string(server.data().join("links")).expect("a file");
    assert!(!text.contains("pxl_"), "{text}");
    let revoke = |id: &Value| {
        let id = id.as_str().expect("an ID");
        with_token(&server, "DELETE", &format!("{LINKS}&id={id}"), &ACCESS.1[ANALYST])
    };
    assert_eq!(revoke(&first["id"]).status, 200);
    assert_eq!(revoke(&first["id"]).code(), "invalid_param");
    assert_eq!(get(&server, &first, "/access").status, 401);
    assert_eq!(get(&server, &second, "/access").status, 200);
    assert_eq!(ids(&server), [second["id"].clone()]);
    let server = restart_with_ends(server, 1_700_000_000_000);
    assert_eq!(get(&server, &second, "/access").status, 401);
    assert_eq!(ids(&server), [Value::Null; 0]);
    let entries = lines(&server, "link", 3);
    let seen: Vec<Value> =
        entries.iter().map(|line| json!([line["actor"], line["site"], line["outcome"]])).collect();
    let by_operator = json!([{ "kind": "operator" }, "acme", "done"]);
    let by_analyst = json!([{ "kind": "token", "name": "analyst" }, "acme", "done"]);
    assert_eq!(seen, [by_operator.clone(), by_operator, by_analyst]);
    let detail = entries[2]["detail"].as_str().expect("a detail");
    assert_eq!(detail, format!("revoked {}", first["id"].as_str().expect("an ID")));
}

#[test]
fn a_refused_request_of_a_link_is_a_line_with_its_id() {
    let server = start_with_roles(&[]);
    let link = make(&server, &[TOP]);
    get(&server, &link, "/visitors?site=acme&anonId=nobody");
    let actor = lines(&server, "refuse", 1)[0]["actor"].clone();
    assert_eq!(actor, json!({ "kind": "link", "name": link["id"] }));
}

#[test]
fn a_link_to_more_than_numbers_of_one_site_is_refused() {
    let server = start_with_roles(&[]);
    let refused = |body: &Value, pointer: &str| {
        let response = post_as(&server, &ACCESS.1[ANALYST], LINKS, body);
        assert_eq!((response.status, response.code()), (400, "invalid_param".to_owned()), "{body}");
        assert_eq!(response.json()["pointer"], json!(pointer), "{body}");
    };
    for request in [
        "visitors?site=acme&anonId=a",
        "insights/visitors?site=acme",
        "insights/changes?site=acme",
        "v1/variants?site=acme&route=/",
        "metrics?site=acme",
        "access/links?site=acme",
        "insights/top?site=beta&of=page",
        "insights/top?site=acme&site=beta&of=page",
        "insights/top?of=page",
        "insights/top",
        "insights/top?site=acme&of=%FF",
    ] {
        refused(&body_of(&[request]), "/requests");
    }
    refused(&body_of(&[]), "/requests");
    let with = |member: &str, value: Value| {
        let mut body = body_of(&[TOP]);
        body[member] = value;
        body
    };
    refused(&with("page", json!("")), "/page");
    refused(&with("page", json!("a\nb")), "/page");
    refused(&with("page", json!("#/overview")), "/page");
    for (member, value) in [("role", json!("operator")), ("days", json!("7"))] {
        let response = post_as(&server, ADMIN_TOKEN, LINKS, &with(member, value));
        assert_eq!((response.status, response.code()), (400, "invalid_param".to_owned()), "{member}");
    }
    let broken =
        Client::to(server.admin).post(LINKS, &[("Authorization", &format!("Bearer {ADMIN_TOKEN}"))], b"{");
    assert_eq!(broken.code(), "malformed_json");
    assert_eq!(
        post_as(&server, &ACCESS.1[ANALYST], "/access/links", &body_of(&[TOP])).code(),
        "missing_site"
    );
    let other = post_as(&server, &ACCESS.1[ANALYST], "/access/links?site=beta", &body_of(&[TOP]));
    assert_eq!(other.code(), "site_not_found");
    let unknown = post_as(&server, ADMIN_TOKEN, "/access/links?site=none", &body_of(&[TOP]));
    assert_eq!(unknown.code(), "site_not_found");
    assert_eq!(
        with_token(&server, "PUT", LINKS, ADMIN_TOKEN).field("allow"),
        Some("GET, HEAD, POST, DELETE")
    );
}

#[test]
fn the_limits_of_links_are_exact() {
    let server = start_with_roles(&[]);
    let with_days = |days: u32| {
        let mut body = body_of(&[TOP]);
        body["days"] = json!(days);
        post_as(&server, ADMIN_TOKEN, LINKS, &body).status
    };
    let with_bytes = |bytes: usize| {
        let mut body = body_of(&[TOP]);
        body["page"] = json!("p".repeat(bytes - TOP.len()));
        post_as(&server, ADMIN_TOKEN, LINKS, &body).status
    };
    let days = [0, 1, 2, LINK_DAYS_MAX - 1, LINK_DAYS_MAX, LINK_DAYS_MAX + 1].map(with_days);
    assert_eq!(days, [400, 200, 200, 200, 200, 400]);
    let bytes = [LINK_BYTES_MAX - 1, LINK_BYTES_MAX, LINK_BYTES_MAX + 1].map(with_bytes);
    assert_eq!(bytes, [200, 200, 400]);
    let made = 6;
    for number in made..LINKS_MAX {
        assert_eq!(with_days(30), 200, "{number}");
    }
    assert_eq!(with_days(30), 503);
    let list = with_token(&server, "GET", LINKS, ADMIN_TOKEN).json();
    let links = list["links"].as_array().expect("links");
    assert_eq!(links.len(), LINKS_MAX);
    let id = links[0]["id"].as_str().expect("an ID");
    assert_eq!(with_token(&server, "DELETE", &format!("{LINKS}&id={id}"), ADMIN_TOKEN).status, 200);
    assert_eq!(with_days(30), 200);
    // The largest file is read at the next start.
    let server = restart(server);
    let list = with_token(&server, "GET", LINKS, ADMIN_TOKEN).json();
    assert_eq!(list["links"].as_array().map(Vec::len), Some(LINKS_MAX));
}

#[test]
fn a_full_file_of_links_with_empty_parameters_is_read() {
    let server = start_with_roles(&[]);
    let page = "overview?site=acme";
    let request = format!("{TOP}{}", "&=".repeat((LINK_BYTES_MAX - TOP.len() - page.len()) / 2));
    let made = make(&server, &[&request]);
    let path = server.data().join("links");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let link = document["links"][0].clone();
    document["links"] = json!(vec![link; LINKS_MAX]);
    fs::write(&path, document.to_string()).expect("written");
    assert_eq!(get(&restart(server), &made, "/access").status, 200);
}

#[test]
fn a_damaged_file_opens_no_link_and_the_next_link_replaces_it() {
    let server = start_with_roles(&[]);
    let link = make(&server, &[TOP]);
    let path = server.data().join("links");
    let sound = fs::read_to_string(&path).expect("a file");
    let other_format = sound.replacen("\"format\":1", "\"format\":2", 1);
    assert_ne!(sound, other_format);
    let mut server = server;
    for damaged in [&sound[..sound.len() / 2], "", "[]", &other_format] {
        fs::write(&path, damaged).expect("written");
        server = restart(server);
        server.wait_for_log(
            "cannot read the shared links; none of them counts, and the next one replaces the file",
        );
        assert_eq!(get(&server, &link, "/access").status, 401);
    }
    let next = make(&server, &[TOP]);
    assert_eq!(get(&restart(server), &next, "/access").status, 200);
}

#[test]
fn a_link_that_cannot_be_written_is_not_made() {
    let server = start_with_roles(&[]);
    let path = server.data().join("links");
    fs::create_dir(&path).expect("a directory");
    let response = post_as(&server, ADMIN_TOKEN, LINKS, &body_of(&[TOP]));
    assert_eq!((response.status, response.code()), (503, "disk_unavailable".to_owned()));
    assert_eq!(with_token(&server, "GET", LINKS, ADMIN_TOKEN).json(), json!({ "links": [] }));
    assert_eq!(lines(&server, "link", 1)[0]["outcome"], "failed");
    fs::remove_dir(&path).expect("removed");
    make(&server, &[TOP]);
}

#[test]
fn a_link_of_another_page_in_a_browser_opens_nothing() {
    let server = start_with_roles(&[]);
    let link = make(&server, &[TOP]);
    let authorization = format!("Bearer {}", token_of(&link));
    let fields = [("Authorization", &*authorization), ("Origin", "https://elsewhere.example")];
    assert_eq!(send(&server, "GET", &format!("/{TOP}"), &fields).code(), "origin_not_allowed");
}

#[test]
fn a_backup_has_no_links() {
    let server = start_with_roles(&[]);
    make(&server, &[TOP]);
    let target = temporary_directory();
    let copy = target.path().join("copy");
    let output = Command::new(PROGRAM).arg("backup").arg(server.data()).arg(&copy).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(server.data().join("links").exists());
    let mut names = Vec::new();
    let mut directories = vec![copy];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            names.push(path.file_name().expect("a name").to_owned());
            directories.extend(path.is_dir().then_some(path));
        }
    }
    assert!(
        names.iter().any(|name| name == "secret") && !names.iter().any(|name| name == "links"),
        "{names:?}"
    );
}
