//! Who may use the admin address: the file of `--access`, its roles, and people whom a proxy has signed in.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use parallax::testing::limits::access::{
    ACCESS_ENTRIES_MAX, ACCESS_FILE_BYTES_MAX, ACCESS_GROUPS_MAX, ACCESS_NAME_BYTES_MAX, ACCESS_SITES_MAX,
    TOKEN_DAYS_MAX,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Response, Server, eventually, snapshot, temporary_directory};

const PROGRAM: &str = env!("CARGO_BIN_EXE_parallax");
const ROLES: [&str; 5] = ["viewer", "analyst", "privacy", "composer", "operator"];
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

fn write(directory: &TempDir, text: &str) -> PathBuf {
    let path = directory.path().join("access.toml");
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("the mode is set");
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
    let rows = docs.lines().filter(|line| {
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
        fields.push(("Origin", format!("http://{}", server.admin)));
    }
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    send(server, method, target, &fields)
}

#[test]
fn each_role_may_use_what_the_documented_table_says() {
    let server = start_with_roles(&BEHIND_PROXY);
    let table = documented_table();
    assert_eq!(table.len(), 26);
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

#[test]
fn a_refused_endpoint_answers_as_one_that_does_not_exist() {
    let server = start_with_roles(&[]);
    for (method, path, cells) in documented_table() {
        let target = format!("{path}{}", query_of(&path, "acme"));
        for (role, cell) in cells.iter().enumerate().filter(|(_, cell)| *cell == "no") {
            let response = with_token(&server, &method, &target, &ACCESS.1[role]);
            let missing = with_token(&server, &method, &target.replacen('/', "/no-", 1), &ACCESS.1[role]);
            assert_eq!(cell, "no");
            match response.status {
                // An analyst reads visitors, so only the method does not exist.
                405 => assert_eq!(response.field("allow"), Some("GET, HEAD"), "{target}"),
                _ => assert_eq!(
                    comparable(&response).replace(&path, "PATH"),
                    comparable(&missing).replace(&path.replacen('/', "/no-", 1), "PATH"),
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
    let all = json!(["acme.snapshot", "beta.snapshot", "broken.snapshot"]);
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
    assert_eq!(composer["variants"], json!("hero:default"));
    assert_eq!(composer["visitor"]["events"], json!({}), "{composer}");
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

#[test]
fn a_header_of_a_person_counts_only_once_and_only_from_a_trusted_proxy() {
    let name = [("X-Forwarded-Email", "operator@example.com")];
    let untrusted =
        start_with_roles(&["--trusted-proxy", "192.0.2.1", "--trusted-user-header", "X-Forwarded-Email"]);
    assert_eq!(send(&untrusted, "GET", "/sites", &name).status, 401);
    let unset = start_with_roles(&["--trusted-proxy", "127.0.0.1"]);
    assert_eq!(send(&unset, "GET", "/sites", &name).status, 401);
    let server = start_with_roles(&BEHIND_PROXY);
    assert_eq!(send(&server, "GET", "/sites", &name).status, 200);
    assert_eq!(send(&server, "GET", "/sites", &[name[0], name[0]]).status, 401);
    assert_eq!(send(&server, "GET", "/sites", &[("X-Forwarded-Email", "")]).status, 401);
    let stranger = send(&server, "GET", "/sites", &[("X-Forwarded-Email", "stranger@example.com")]);
    assert_eq!((stranger.status, stranger.code()), (403, "access_denied".to_owned()));
    let of_stranger = |target: &str| {
        comparable(&send(&server, "GET", target, &[("X-Forwarded-Email", "stranger@example.com")]))
    };
    assert_eq!(of_stranger("/sites"), of_stranger("/nothing"));
    // A group alone signs nobody in.
    assert_eq!(send(&server, "GET", "/sites", &[("X-Groups", "operator")]).status, 401);
    // A token comes first.
    let fields = [
        ("Authorization", format!("Bearer {}", ACCESS.1[0])),
        ("X-Forwarded-Email", "operator@example.com".to_owned()),
    ];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(send(&server, "GET", "/access", &fields).json()["name"], json!("viewer"));
    // The proxy may send a token of its own.
    let fields = [("Authorization", "Bearer of-the-proxy"), name[0]];
    assert_eq!(send(&server, "GET", "/access", &fields).json()["name"], json!("operator@example.com"));
}

#[test]
fn a_change_by_a_person_needs_the_own_origin() {
    let server = start_with_roles(&BEHIND_PROXY);
    let own = format!("http://{}", server.admin);
    let name = ("X-Forwarded-Email", "privacy@example.com");
    let target = "/visitors?site=acme&anonId=nobody";
    let erase = |fields: &[(&str, &str)]| send(&server, "DELETE", target, &[&[name][..], fields].concat());
    for fields in [&[][..], &[("Origin", "https://evil.example")], &[("Origin", "null")]] {
        assert_eq!(erase(fields).code(), "origin_not_allowed", "{fields:?}");
    }
    assert_ne!(erase(&[("Origin", &own)]).status, 403);
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        assert_eq!(
            send(&server, "GET", "/sites", &[name, ("Sec-Fetch-Site", site)]).status,
            status,
            "{site}"
        );
    }
}

#[test]
fn a_token_counts_until_the_end_of_its_last_day() {
    let directory = temporary_directory();
    let (token, entry) = new_token(&["--name", "a", "--role", "viewer", "--days", "1"]);
    let day = |days: i64| {
        let now_ms = parallax::testing::clock::now_ms() + days * 86_400_000;
        let mut text = Vec::new();
        parallax::testing::events::time::write(&mut text, now_ms);
        String::from_utf8_lossy(&text[..10]).into_owned()
    };
    assert!(entry.contains(&format!("expires = {}\n", day(1))), "{entry}");
    let path = write(&directory, &entry);
    let server = start(&path, &[]);
    assert_eq!(with_token(&server, "GET", "/access", &token).status, 200);
    for (days, status) in [(0, 200), (-1, 401)] {
        write(&directory, &entry.replace(&day(1), &day(days)));
        eventually("the server has read the file again", || {
            (with_token(&server, "GET", "/access", &token).status == status
                || status == 401 && server.log().contains("read the access file again"))
            .then_some(())
        });
        eventually("the token counts or not", || {
            let found = with_token(&server, "GET", "/access", &token).status;
            (found == status || (status == 401 && found == 429)).then_some(())
        });
    }
}

#[test]
fn the_file_is_read_again_after_a_change_and_a_fault_leaves_the_access_as_it_was() {
    let directory = temporary_directory();
    let (first, first_entry) = new_token(&["--name", "first", "--role", "viewer"]);
    let (second, second_entry) = new_token(&["--name", "second", "--role", "viewer"]);
    let path = write(&directory, &first_entry);
    let server = start(&path, &[]);
    write(&directory, &second_entry);
    eventually("the second token counts", || {
        (with_token(&server, "GET", "/access", &second).status == 200).then_some(())
    });
    assert_eq!(with_token(&server, "GET", "/access", &first).status, 401);
    write(&directory, "[[token]]\nname = \"x\"\nrole = \"king\"\n");
    server.wait_for_log("access.toml:3: unknown variant `king`");
    server.wait_for_log("the access in use stays");
    assert_eq!(with_token(&server, "GET", "/access", &second).status, 200);
    fs::remove_file(&path).expect("removed");
    server.wait_for_log("cannot read --access");
    assert_eq!(with_token(&server, "GET", "/access", &second).status, 200);
    write(&directory, &first_entry);
    server.signal("HUP");
    eventually("the first token counts again", || {
        (with_token(&server, "GET", "/access", &first).status == 200).then_some(())
    });
}

/// Returns the error of `serve --print-config` with this file.
fn fault_of(text: &str) -> Option<String> {
    let directory = temporary_directory();
    let path = write(&directory, text);
    let path = path.to_str().expect("UTF-8");
    let output = Command::new(PROGRAM)
        .args(["serve", "--access", path, "--print-config"])
        .output()
        .expect("the program runs");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).replace(path, "FILE"))
}

fn viewer(name: &str, sites: &[String]) -> String {
    format!("[[user]]\nmatch = {name:?}\nrole = \"viewer\"\nsites = {sites:?}\n")
}

#[test]
fn a_wrong_file_is_refused_with_its_line_and_the_remedy() {
    let one = ["acme".to_owned()];
    let hash = "0".repeat(64);
    let token = |name: &str, hash: &str, more: &str| {
        format!(
            "[[token]]\nname = {name:?}\nrole = \"viewer\"\nsites = [\"acme\"]\n{more}hash = \"{hash}\"\n"
        )
    };
    for (text, expected) in [
        ("x = 1".to_owned(), "FILE:1: unknown field `x`"),
        ("[[user]]\nmatch =".to_owned(), "FILE:2: "),
        (viewer(" a", &one), "FILE:1: match \" a\" must have 1 to 256 bytes"),
        (viewer("a,b", &one), "no comma"),
        (viewer("a", &[]), "FILE:1: sites has 0 entries"),
        (viewer("a", &["a/b".to_owned()]), "\"a/b\" is no site ID"),
        (viewer("a", &one).replace("viewer", "operator"), "the role operator is one for all sites"),
        (token("a", "abc", ""), "hash must be the SHA-256 of a token"),
        (token("a", &hash, "expires = 2027-01-31T00:00:00Z\n"), "must be a day, such as 2027-01-31"),
        (token("a", &hash, "expires = \"2027-01-31\"\n"), "FILE:5: "),
        (token("a", &hash, "") + &token("b", &hash, ""), "FILE:6: the token \"a\" has the same hash"),
        (token("a", &hash, "") + &token("a", &"1".repeat(64), ""), "FILE:6: two tokens have the name \"a\""),
    ] {
        let fault = fault_of(&text).unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(fault.contains(expected), "{fault}\nexpected: {expected}");
        assert!(!fault.contains(&hash), "{fault}");
    }
    assert_eq!(fault_of(""), None);
}

#[test]
fn the_limits_of_the_file_hold_at_one_below_at_and_above() {
    let one = ["acme".to_owned()];
    let cases: [(usize, &dyn Fn(usize) -> String); 4] = [
        (ACCESS_NAME_BYTES_MAX, &|count| viewer(&"n".repeat(count), &one)),
        (ACCESS_SITES_MAX, &|count| viewer("a", &vec!["acme".to_owned(); count])),
        (ACCESS_ENTRIES_MAX, &|count| viewer("a", &one).repeat(count)),
        (ACCESS_FILE_BYTES_MAX, &|count| "#".repeat(count)),
    ];
    for (limit, text) in cases {
        for count in [limit - 1, limit] {
            assert_eq!(fault_of(&text(count)), None, "{count}");
        }
        let fault = fault_of(&text(limit + 1)).unwrap_or_else(|| panic!("accepted {}", limit + 1));
        assert!(fault.contains(&limit.to_string()), "{fault}");
    }
    let days = |days: u32| {
        Command::new(PROGRAM)
            .args(["token", "new", "--name", "a", "--role", "viewer", "--days", &days.to_string()])
            .output()
            .expect("the program runs")
            .status
            .success()
    };
    assert_eq!([TOKEN_DAYS_MAX - 1, TOKEN_DAYS_MAX, TOKEN_DAYS_MAX + 1].map(days), [true, true, false]);
}

#[test]
fn a_person_has_the_first_256_groups_and_a_name_of_at_most_256_bytes() {
    let server = start_with_roles(&BEHIND_PROXY);
    let status = |name: &str, groups: &str| {
        send(&server, "GET", "/access", &[("X-Forwarded-Email", name), ("X-Groups", groups)]).status
    };
    let groups = |before: usize| format!("{}viewer", "g,".repeat(before));
    assert_eq!(
        [ACCESS_GROUPS_MAX - 2, ACCESS_GROUPS_MAX - 1, ACCESS_GROUPS_MAX]
            .map(|before| status("n", &groups(before))),
        [200, 200, 403]
    );
    let name = |bytes: usize| "n".repeat(bytes);
    assert_eq!(
        [ACCESS_NAME_BYTES_MAX - 1, ACCESS_NAME_BYTES_MAX, ACCESS_NAME_BYTES_MAX + 1]
            .map(|bytes| status(&name(bytes), "viewer")),
        [200, 200, 403]
    );
}

#[test]
fn a_file_that_other_users_can_write_is_refused() {
    let directory = temporary_directory();
    let path = write(&directory, "");
    for (mode, accepted) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is set");
        let output = Command::new(PROGRAM)
            .args(["serve", "--print-config", "--access"])
            .arg(&path)
            .output()
            .expect("the program runs");
        assert_eq!(output.status.success(), accepted, "{mode:o}");
        if !accepted {
            assert!(
                String::from_utf8_lossy(&output.stderr)
                    .contains("so other users may write it; run `chmod go-w")
            );
        }
    }
}

#[test]
fn a_setting_without_the_one_that_it_needs_is_refused() {
    let directory = temporary_directory();
    let path = write(&directory, "");
    let path = path.to_str().expect("UTF-8");
    for (flags, expected) in [
        (&["--trusted-user-header", "X-User"][..], "no effect without --access"),
        (&["--access", path, "--trusted-user-header", "X-User"], "no effect without --trusted-proxy"),
        (
            &["--access", path, "--trusted-groups-header", "X-Groups"],
            "no effect without --trusted-user-header",
        ),
    ] {
        let output = Command::new(PROGRAM)
            .args(["serve", "--print-config"])
            .args(flags)
            .output()
            .expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(expected), "{text}");
    }
}

/// A site with two searchable traits, of which `email` is private.
fn site_with_private_trait(id: &str) -> Vec<u8> {
    let site = json!({ "site": id, "trackingId": format!("track_{id}"), "name": id,
        "searchable": ["email", "plan"], "private": ["email"] });
    let zone = json!({ "default": [], "variants": { "known": [] },
        "rules": [{ "when": { "traits.email": "anna@acme.example" }, "variant": "known" }] });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "hero": zone } } });
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", &page.to_string())], 1)
}

#[test]
fn an_analyst_sees_no_private_trait_anywhere() {
    const SECRET: &str = "anna@acme.example";
    let path = ACCESS.0.path().join("access.toml");
    let flags = ["--access", path.to_str().expect("UTF-8")];
    let server = Server::start(&[("acme.snapshot", &site_with_private_trait("acme"))], &flags);
    let events = [
        (
            "/v1/track",
            json!({ "type": "identify", "anonId": "anna-1", "userId": "u1", "traits": { "email": SECRET, "plan": "gold" } }),
        ),
        ("/v1/page", json!({ "anonId": "anna-1", "url": "https://acme.example/", "variants": "hero:known" })),
    ];
    for (target, event) in &events {
        let response = server.post(&format!("{target}?site=acme"), &[], event.to_string().as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let [analyst, privacy] = [1, 2].map(|role| &ACCESS.1[role]);
    let records = with_token(&server, "GET", "/visitors/records?site=acme&anonId=anna-1", privacy).json();
    let page = &records["records"][0];
    assert_eq!(page["type"], json!("page"), "{records}");
    let seq = page["seq"].as_str().expect("a seq").to_owned();
    for target in [
        "/visitors?site=acme&anonId=anna-1".to_owned(),
        "/visitors/records?site=acme&anonId=anna-1".to_owned(),
        format!("/visitors/explain?site=acme&anonId=anna-1&seq={seq}"),
        "/insights/visitors?site=acme".to_owned(),
        "/v1/variants?site=acme&route=/&anonId=anna-1&explain=1".to_owned(),
        "/v1/resolve?site=acme&route=/&anonId=anna-1&explain=1".to_owned(),
    ] {
        for accept in ["application/json", "text/csv"] {
            let [hidden, shown] = [analyst, privacy].map(|token| {
                let response = send(
                    &server,
                    "GET",
                    &target,
                    &[("Authorization", &format!("Bearer {token}")), ("Accept", accept)],
                );
                assert_eq!(response.status, 200, "{target}: {}", response.text());
                response.text().to_owned()
            });
            assert!(shown.contains(SECRET) && shown.contains("gold"), "{target}: {shown}");
            // The rule of the site has the text, too.
            let hidden = hidden.replace(&format!("\"expected\":\"{SECRET}\""), "");
            assert!(!hidden.contains(SECRET) && hidden.contains("gold"), "{target}: {hidden}");
        }
    }
    let search = |token: &str, value: &str| {
        send(
            &server,
            "GET",
            "/insights/visitors?site=acme",
            &[("Authorization", &format!("Bearer {token}")), ("X-Visitor", value)],
        )
        .status
    };
    let email = format!("email={SECRET}");
    assert_eq!(
        [search(analyst, &email), search(privacy, &email), search(analyst, "plan=gold")],
        [400, 200, 200]
    );
    let searchable =
        |token: &str| with_token(&server, "GET", "/sites", token).json()["sites"][0]["searchable"].clone();
    assert_eq!([searchable(analyst), searchable(privacy)], [json!(["plan"]), json!(["email", "plan"])]);
    // Nobody knows which traits are private after the site was withdrawn.
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    eventually("the site is withdrawn", || (server.get("/v1/routes?site=acme").status == 404).then_some(()));
    let traits = |token: &str| {
        with_token(&server, "GET", "/visitors?site=acme&anonId=anna-1", token).json()["profile"]["traits"]
            .clone()
    };
    assert_eq!([traits(analyst), traits(privacy)], [json!({}), json!({ "email": SECRET, "plan": "gold" })]);
}
