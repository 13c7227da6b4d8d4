//! The rights at the admin address: the file of `--access`, its roles, and people that a proxy has signed in.

mod audited;
mod file;
mod links;
mod people;
mod private_traits;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Response, Server, eventually, snapshot, temporary_directory};

const PROGRAM: &str = env!("CARGO_BIN_EXE_parallax");
const ROLES: [&str; 5] = ["viewer", "analyst", "privacy", "composer", "operator"];
/// The origin of the console for requests of `Client`.
const OWN_ORIGIN: &str = "http://localhost";
const ADMIN_TOKEN: &str = "an-operator-token-of-32-characters";

/// A directory with a token of each role and the file of all. The operator has all sites, and the others have `acme`.
static ACCESS: LazyLock<(TempDir, Vec<String>)> = LazyLock::new(|| {
    let directory = temporary_directory();
    let (tokens, entries): (Vec<_>, Vec<_>) = ROLES
        .map(|role| new_token(&[&["--name", role, "--role", role][..], sites_of(role)].concat()))
        .into_iter()
        .unzip();
    let people: String =
        ROLES.map(|role| person("user", &format!("{role}@example.com"), role, sites_of(role))).concat();
    let groups: String = ROLES.map(|role| person("group", role, role, sites_of(role))).concat();
    write(&directory, &format!("{}\n{people}{groups}", entries.concat()));
    (directory, tokens)
});

fn sites_of(role: &str) -> &'static [&'static str] {
    if role == "operator" { &[] } else { &["--site", "acme"] }
}

fn person(table: &str, name: &str, role: &str, sites: &[&str]) -> String {
    let site = sites.last().unwrap_or(&"*");
    format!("[[{table}]]\nmatch = \"{name}\"\nrole = \"{role}\"\nsites = [\"{site}\"]\n")
}

/// Runs `parallax token new`. Returns the token and the entry.
fn new_token(words: &[&str]) -> (String, String) {
    let output = Command::new(PROGRAM).args(["token", "new"]).args(words).output().expect("the program runs");
    let [entry, told] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{told}");
    let token = told.split_whitespace().last().expect("a token").to_owned();
    assert!(token.starts_with("pxt_") && !entry.contains(&token), "{told}{entry}");
    (token, entry)
}

/// Replaces the file as a whole, so that no server reads a part of it.
fn write(directory: &TempDir, text: &str) -> PathBuf {
    let [path, next] = ["access.toml", "next"].map(|name| directory.path().join(name));
    fs::write(&next, text).expect("written");
    fs::set_permissions(&next, Permissions::from_mode(0o644)).expect("the mode is set");
    fs::rename(&next, &path).expect("renamed");
    path
}

fn site(id: &str) -> Vec<u8> {
    let site =
        json!({ "site": id, "trackingId": format!("track_{id}"), "name": id, "holdout": { "share": 0.1 } });
    let zone = json!({ "default": [], "variants": { "known": [] },
        "rules": [{ "when": { "events.Ordered.count": { "$gte": 1 } }, "variant": "known" }] });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "hero": zone } } });
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", &page.to_string())], 1)
}

/// Starts a server with the sites `acme` and `beta`, and with this access file.
fn start(path: &Path, flags: &[&str]) -> Server {
    let path = path.to_str().expect("UTF-8");
    let flags = [&["--access", path, "--admin-token", ADMIN_TOKEN][..], flags].concat();
    Server::start(&[("acme.snapshot", &site("acme")), ("beta.snapshot", &site("beta"))], &flags)
}

fn start_with_roles(flags: &[&str]) -> Server {
    start(&ACCESS.0.path().join("access.toml"), flags)
}

const BEHIND_PROXY: [&str; 6] = [
    "--trusted-proxy",
    "127.0.0.1",
    "--trusted-user-header",
    "X-Forwarded-Email",
    "--trusted-groups-header",
    "X-Groups",
];

/// Sends a request with these header fields to the admin address.
fn send(server: &Server, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    Client::to(server.admin).request(method, target, fields)
}

fn with_token(server: &Server, method: &str, target: &str, token: &str) -> Response {
    send(server, method, target, &[("Authorization", &format!("Bearer {token}"))])
}

/// Returns whether the response says that there is no such endpoint or method.
fn is_hidden(response: &Response) -> bool {
    response.status == 405 || response.status == 404 && response.code() == "unknown_endpoint"
}

/// Returns the response without the fields that differ between two equal requests.
fn comparable(response: &Response) -> String {
    let mut lines: Vec<String> =
        response.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    lines.retain(|line| {
        !line.to_ascii_lowercase().starts_with("date:")
            && !line.to_ascii_lowercase().starts_with("x-request-id:")
    });
    let mut body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    if let Some(members) = body.as_object_mut() {
        members.remove("requestId");
    }
    format!("{} {lines:?} {body}", response.status)
}

/// The rows of the table in `docs/access.md`: the method, the path, and the cells in the order of `ROLES`.
fn documented_table() -> Vec<(String, String, Vec<String>)> {
    let docs = include_str!("../../docs/access.md");
    let table = docs.split("\n## ").find(|section| section.starts_with("The roles")).expect("the section");
    let rows = table.lines().filter(|line| {
        line.starts_with("| `GET ") || line.starts_with("| `POST ") || line.starts_with("| `DELETE ")
    });
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (method, path) = cells[0].trim_matches('`').split_once(' ').expect("a method and a path");
        (method.to_owned(), path.to_owned(), cells[1..].iter().map(ToString::to_string).collect())
    })
    .collect()
}

/// Returns a valid query of an endpoint.
fn query_of(path: &str, site: &str) -> String {
    let more = match path {
        "/insights/top" => "&of=page",
        "/insights/zones" => "&page=/",
        "/insights/funnel" => "&step=page:/&step=Ordered",
        "/insights/retention" => "&begin=page:/&return=page:/",
        "/insights/paths" => "&page=/",
        "/insights/experiment" => "&key=hero",
        "/visitors" | "/visitors/records" | "/visitors/export" => "&anonId=nobody",
        "/visitors/explain" => "&anonId=nobody&seq=1",
        "/v1/resolve" | "/v1/variants" => "&route=/&anonId=nobody&explain=1",
        _ => "",
    };
    match path {
        "/metrics" | "/access" | "/sites" => String::new(),
        _ => format!("?site={site}{more}"),
    }
}

/// The credentials of a role.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Token,
    Person,
    Group,
}

fn fields_of(kind: Kind, role: usize) -> Vec<(&'static str, String)> {
    match kind {
        Kind::Token => vec![("Authorization", format!("Bearer {}", ACCESS.1[role]))],
        Kind::Person => vec![("X-Forwarded-Email", format!("{}@EXAMPLE.com", ROLES[role]))],
        Kind::Group => vec![
            ("X-Forwarded-Email", "new@example.com".to_owned()),
            ("X-Groups", format!("other, {}", ROLES[role])),
        ],
    }
}

fn ask(server: &Server, kind: Kind, role: usize, method: &str, target: &str) -> Response {
    let mut fields = fields_of(kind, role);
    if method != "GET" {
        fields.push(("Origin", OWN_ORIGIN.to_owned()));
    }
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    send(server, method, target, &fields)
}

#[test]
fn each_role_may_use_what_the_documented_table_says() {
    let server = start_with_roles(&BEHIND_PROXY);
    let table = documented_table();
    assert_eq!(table.len(), 30);
    for (method, path, cells) in &table {
        let target = format!("{path}{}", query_of(path, "acme"));
        let operator = with_token(&server, method, &target, ADMIN_TOKEN);
        assert!(!is_hidden(&operator), "{target}");
        for (role, cell) in cells.iter().enumerate() {
            for kind in [Kind::Token, Kind::Person, Kind::Group] {
                let response = ask(&server, kind, role, method, &target);
                let of = format!("{method} {target} as {} by {kind:?}: {}", ROLES[role], response.text());
                assert_eq!(is_hidden(&response), cell == "no", "{of}");
                if cell != "no" {
                    assert_eq!(response.status, operator.status, "{of}");
                }
            }
        }
        assert_eq!(send(&server, method, &target, &[]).status, 401, "{target}");
    }
}

/// Returns a path of the same length that is no endpoint.
fn missing(path: &str) -> String {
    format!("/-{}", &path[2..])
}

#[test]
fn a_refused_endpoint_answers_as_one_that_does_not_exist() {
    let server = start_with_roles(&[]);
    for (method, path, cells) in documented_table() {
        let target = format!("{path}{}", query_of(&path, "acme"));
        for (role, cell) in cells.iter().enumerate().filter(|(_, cell)| *cell == "no") {
            let response = with_token(&server, &method, &target, &ACCESS.1[role]);
            let not_there = with_token(&server, &method, &missing(&target), &ACCESS.1[role]);
            assert_eq!(cell, "no");
            match response.status {
                // An analyst reads visitors, so only the method does not exist.
                405 => assert_eq!(response.field("allow"), Some("GET, HEAD"), "{target}"),
                _ => assert_eq!(
                    comparable(&response).replace(&path, "PATH"),
                    comparable(&not_there).replace(&missing(&path), "PATH"),
                    "{target}"
                ),
            }
        }
    }
}

#[test]
fn a_site_without_a_grant_answers_as_one_that_does_not_exist() {
    let server = start_with_roles(&[]);
    for (method, path, cells) in documented_table() {
        for (role, _) in
            cells.iter().enumerate().filter(|(role, cell)| *cell != "no" && ROLES[*role] != "operator")
        {
            let query = query_of(&path, "beta");
            if query.is_empty() {
                continue;
            }
            let answer = |query: &str| {
                comparable(&with_token(&server, &method, &format!("{path}{query}"), &ACCESS.1[role]))
            };
            let other = answer(&query);
            assert!(other.starts_with("404 ") && other.contains("site_not_found"), "{path}: {other}");
            assert_eq!(other, answer(&query_of(&path, "none")), "{path}");
            // The first site is granted, and the second one is not.
            let both = with_token(&server, &method, &format!("{path}{query}&site=acme"), &ACCESS.1[role]);
            assert!((400..500).contains(&both.status), "{path}");
        }
    }
    let target = "/v1/variants?route=/&trackingId=track_";
    let answer =
        |site: &str| comparable(&with_token(&server, "GET", &format!("{target}{site}"), &ACCESS.1[3]));
    assert_eq!(answer("beta"), answer("none"));
    assert!(answer("acme").starts_with("200 "));
}

#[test]
fn a_client_lists_only_its_sites_and_their_files() {
    let server = start_with_roles(&[]);
    fs::write(server.path("broken.snapshot"), b"no snapshot").expect("written");
    let names = |token: &str| {
        let body = with_token(&server, "GET", "/sites", token).json();
        let sites: Vec<Value> =
            body["sites"].as_array().expect("sites").iter().map(|site| site["site"].clone()).collect();
        let files: Vec<Value> =
            body["files"].as_array().expect("files").iter().map(|file| file["name"].clone()).collect();
        (json!(sites), json!(files))
    };
    // A refused file is first.
    let all = json!(["broken.snapshot", "acme.snapshot", "beta.snapshot"]);
    eventually("the broken file is listed", || {
        (names(ADMIN_TOKEN) == (json!(["acme", "beta"]), all.clone())).then_some(())
    });
    assert_eq!(names(&ACCESS.1[0]), (json!(["acme"]), json!(["acme.snapshot"])));
    let csv = send(
        &server,
        "GET",
        "/sites",
        &[("Authorization", &format!("Bearer {}", ACCESS.1[0])), ("Accept", "text/csv")],
    );
    assert!(csv.body_contains("acme") && !csv.body_contains("beta") && !csv.body_contains("broken"));
}

#[test]
fn a_composer_sees_the_decision_for_a_visitor_without_a_past() {
    let server = start_with_roles(&[]);
    let event = json!({ "anonId": "buyer-1", "event": "Ordered" });
    assert_eq!(server.post("/v1/track?site=acme", &[], event.to_string().as_bytes()).status, 200);
    let target = "/v1/variants?site=acme&route=/&anonId=buyer-1&explain=1";
    let [composer, analyst] = [3, 1].map(|role| with_token(&server, "GET", target, &ACCESS.1[role]).json());
    assert_eq!(analyst["variants"], json!("hero:known"));
    assert_eq!(composer["variants"], json!(""));
    assert_eq!(composer["visitor"]["events"], json!({}), "{composer}");
    // The console sends the ID as a header.
    let fields = [("Authorization", &*format!("Bearer {}", ACCESS.1[3])), ("X-Visitor", "anonId=buyer-1")];
    let by_header = send(&server, "GET", "/v1/variants?site=acme&route=/&explain=1", &fields).json();
    assert_eq!((&by_header["visitor"]["anonId"], &by_header["variants"]), (&json!("buyer-1"), &json!("")));
}

#[test]
fn a_client_reads_its_own_rights() {
    let server = start_with_roles(&BEHIND_PROXY);
    let rights = with_token(&server, "GET", "/access", &ACCESS.1[0]);
    assert_eq!(rights.field("cache-control"), Some("no-store"));
    assert_eq!(
        rights.json(),
        json!({ "kind": "token", "name": "viewer", "grants": [{ "role": "viewer", "sites": ["acme"] }] })
    );
    let operator = with_token(&server, "GET", "/access", ADMIN_TOKEN).json();
    assert_eq!(
        operator,
        json!({ "kind": "operator", "name": "", "grants": [{ "role": "operator", "sites": ["*"] }] })
    );
    let fields = [("X-Forwarded-Email", "Analyst@Example.com"), ("X-Groups", "viewer,nothing")];
    let person = send(&server, "GET", "/access", &fields).json();
    let roles: Vec<&Value> =
        person["grants"].as_array().expect("grants").iter().map(|grant| &grant["role"]).collect();
    assert_eq!((&person["kind"], roles), (&json!("user"), vec![&json!("analyst"), &json!("viewer")]));
    assert_eq!(with_token(&server, "POST", "/access", ADMIN_TOKEN).status, 405);
    let open = Server::start(&[("acme.snapshot", &site("acme"))], &[]);
    assert_eq!(open.admin_get("/access").json()["kind"], json!("loopback"));
}
