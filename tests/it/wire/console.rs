//! The console: its files over HTTP, its headers, its access rules, its libraries and its size.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use parallax::testing::limits::GOALS_ASKED_MAX;
use sha2::{Digest, Sha256};

use super::SharedServer;
use crate::harness::{Client, Response, Server};

static OPEN: SharedServer = SharedServer::new(Server::demo);
static LOCKED: SharedServer = SharedServer::new(|| {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    Server::start(&[("demo.snapshot", &demo)], &["--admin-token", "open-sesame"])
});

const DIRECTORY: &str = "src/admin/console";

/// The header fields of section 3.7 of the design, with their values.
const SECURITY: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
];

/// The vendored files with their SHA-256, as `sha256sum` prints them. They are those of npm.
const VENDORED: [(&str, &str); 5] = [
    ("LICENSE-htm", "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f"),
    ("LICENSE-preact", "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4"),
    ("LICENSE-uplot", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
    ("preact-htm.js", "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"),
    ("uplot.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
];

/// The bodies in gzip coding of the files that the browser loads to show one page, in bytes. A newcomer on a slow
/// line waits for them once. The design allows 64 KiB. The module of another page is loaded when a person opens that page. The
/// largest page shows an experiment with its segments and the publications on its chart.
const PAGE_BYTES_MAX: usize = 56 * 1024;

/// The files that every page loads, by their paths below `/console/`.
const SHELL: [&str; 6] =
    ["console.css", "console.js", "core.js", "parts.js", "vendor/preact-htm.js", "vendor/uplot.js"];

/// Sends a request with these header lines to the admin address.
fn send(server: &Server, method: &str, target: &str, lines: &str) -> Response {
    let mut client = Client::to(server.admin);
    client.send(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n").as_bytes());
    client.response(method == "HEAD")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(Path::new(DIRECTORY).join(name)).expect("a file of the console")
}

/// Returns the paths of the page and of its files.
fn targets() -> impl Iterator<Item = String> {
    let files = SHELL.into_iter().filter(|name| is_foreign(name)).map(str::to_owned);
    files.chain(own_scripts()).map(|name| format!("/console/{name}")).chain(["/".to_owned()])
}

/// Returns whether a file of the shell is no module of the console.
fn is_foreign(name: &str) -> bool {
    name.contains('/') || !name.ends_with(".js")
}

/// Returns the names that a module imports between these marks.
fn imports(module: &str, before: &str, after: &str) -> Vec<String> {
    let parts = module.split(before).skip(1);
    parts.filter_map(|rest| rest.split_once(after)).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the files that the browser loads for a page whose module has this name.
fn loaded_with(name: &str) -> BTreeSet<String> {
    let mut found: Vec<String> = SHELL.into_iter().chain([name]).map(str::to_owned).collect();
    let mut loaded = BTreeSet::new();
    while let Some(name) = found.pop() {
        if loaded.insert(name.clone()) && !is_foreign(&name) {
            found.extend(imports(&text(&name), " from './", "';"));
        }
    }
    loaded
}

/// Returns the names of the own modules.
fn own_scripts() -> Vec<String> {
    let entries = std::fs::read_dir(DIRECTORY).expect("a directory");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let scripts: Vec<_> = names.filter(|name| name.ends_with(".js")).collect();
    assert!(scripts.len() > 6, "{scripts:?}");
    scripts
}

#[test]
fn every_file_is_served_in_both_codings_and_validated() {
    let server = OPEN.get();
    for target in targets() {
        let plain = server.admin_get(&target);
        assert_eq!((plain.status, plain.field("cache-control")), (200, Some("no-cache")), "{target}");
        let expected = match target.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(plain.field("content-type"), Some(expected), "{target}");
        let gzip = send(&server, "GET", &target, "Host: localhost\r\nAccept-Encoding: gzip\r\n");
        let mut unpacked = Vec::new();
        if gzip.field("content-encoding") == Some("gzip") {
            GzDecoder::new(&*gzip.body).read_to_end(&mut unpacked).expect("gzip");
        } else {
            unpacked.clone_from(&gzip.body);
        }
        assert!(unpacked == plain.body, "{target}");
        let etag = plain.field("etag").expect("an ETag");
        let again = send(&server, "GET", &target, &format!("Host: localhost\r\nIf-None-Match: {etag}\r\n"));
        assert_eq!((again.status, again.body.len()), (304, 0), "{target}");
        assert_eq!(plain.field("access-control-allow-origin"), None, "{target}");
        assert_eq!(send(&server, "HEAD", &target, "Host: localhost\r\n").status, 200, "{target}");
        assert_eq!(send(&server, "POST", &target, "Host: localhost\r\n").code(), "method_not_allowed");
    }
    for name in ["", "mod.rs", "index.html", "vendor/LICENSE-uplot"] {
        assert_eq!(server.admin_get(&format!("/console/{name}")).code(), "unknown_endpoint", "{name}");
    }
    assert_eq!(server.get("/").code(), "unknown_endpoint");
}

#[test]
fn the_bytes_of_a_library_are_served_unchanged() {
    for name in SHELL.iter().filter(|name| name.starts_with("vendor/")) {
        assert!(OPEN.get().admin_get(&format!("/console/{name}")).text() == text(name), "{name}");
    }
}

#[test]
fn own_scripts_are_served_without_comments_and_indentation() {
    for name in own_scripts() {
        let served = OPEN.get().admin_get(&format!("/console/{name}"));
        let served = served.text();
        let module = text(&name);
        let code =
            module.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//"));
        assert!(served.lines().eq(code), "{name}");
        assert!(served.len() < module.len(), "{name}");
    }
}

#[test]
fn the_stylesheet_is_served_without_line_breaks_and_needs_none() {
    let sheet = text("console.css");
    for line in sheet.lines().filter(|line| !line.is_empty()) {
        assert!(line.ends_with(['{', '}', ';', ',', ':']), "{line}");
    }
    let served = OPEN.get().admin_get("/console/console.css");
    assert_eq!(served.text(), sheet.lines().map(str::trim_start).collect::<String>());
}

#[test]
fn every_url_of_the_page_is_relative_and_served() {
    let page = text("index.html");
    let urls: BTreeSet<&str> = ["href=\"", "src=\""]
        .into_iter()
        .flat_map(|attribute| page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()))
        .filter(|url| *url != "data:,")
        .collect();
    let served: BTreeSet<String> = SHELL.into_iter().map(|name| format!("console/{name}")).collect();
    assert_eq!(urls.iter().map(|url| (*url).to_owned()).collect::<BTreeSet<_>>(), served);
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains("<script>"));
}

#[test]
fn scripts_import_each_other_by_relative_urls_and_write_no_markup() {
    for name in own_scripts() {
        let script = text(&name);
        let imports = script.lines().filter_map(|line| line.split(" from '").nth(1));
        for import in imports {
            let file = import.trim_end_matches("';").strip_prefix("./").expect("a relative URL");
            assert!(Path::new(DIRECTORY).join(file).exists(), "{name} imports {file}");
        }
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.cookie", "localStorage"]
        {
            assert!(!script.contains(forbidden), "{name} has {forbidden}");
        }
        let lines = script.lines().count();
        assert!(lines <= 500, "{name} has {lines} lines");
    }
}

#[test]
fn libraries_have_their_hashes_and_licences() {
    let directory = Path::new(DIRECTORY).join("vendor");
    for (name, hash) in VENDORED {
        let bytes = std::fs::read(directory.join(name)).expect("a vendored file");
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, hash, "{name}");
    }
    let entries = std::fs::read_dir(&directory).expect("a directory");
    let names: BTreeSet<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let listed = VENDORED.iter().map(|(name, _)| (*name).to_owned()).chain(["README.md".to_owned()]);
    assert_eq!(names, listed.collect());
    for (licence, words) in [
        ("LICENSE-htm", "Apache License"),
        ("LICENSE-preact", "MIT License"),
        ("LICENSE-uplot", "MIT License"),
    ] {
        assert!(text(&format!("vendor/{licence}")).contains(words), "{licence}");
    }
}

#[test]
fn the_files_of_each_page_are_within_the_size_budget() {
    let server = OPEN.get();
    let bytes = |target: &str| {
        let lines = "Host: localhost\r\nAccept-Encoding: gzip\r\n";
        send(&server, "GET", target, lines).body.len()
    };
    let pages: BTreeSet<String> = imports(&text("console.js"), "import('./", "')").into_iter().collect();
    let of_pages: BTreeSet<String> = pages.iter().flat_map(|page| loaded_with(page)).collect();
    assert!(own_scripts().into_iter().all(|name| of_pages.contains(&name)), "a page needs each file");
    for page in pages {
        let files = loaded_with(&page);
        let total: usize = files.iter().map(|name| bytes(&format!("/console/{name}"))).sum();
        let total = total + bytes("/");
        assert!(total <= PAGE_BYTES_MAX, "{page}: {total} bytes: {files:?}");
    }
}

#[test]
fn the_console_asks_for_as_many_goals_as_the_server_takes() {
    let module = text("goals.js");
    let (_, rest) = module.split_once("export const GOALS_ASKED_MAX = ").expect("the constant");
    let (number, _) = rest.split_once(';').expect("the end of the statement");
    assert_eq!(number.parse(), Ok(GOALS_ASKED_MAX));
}

#[test]
fn every_response_of_the_admin_address_has_the_security_headers() {
    let (open, locked) = (OPEN.get(), LOCKED.get());
    let local = "Host: localhost\r\n";
    let responses = [
        send(&open, "GET", "/", local),
        send(&open, "GET", "/console/console.js", local),
        send(&open, "GET", "/healthz", local),
        send(&open, "GET", "/readyz", local),
        send(&open, "GET", "/metrics", local),
        send(&open, "GET", "/insights/overview?site=fjell", local),
        send(&open, "GET", "/visitors?site=fjell&anonId=v1", local),
        send(&open, "GET", "/visitors/export?site=fjell&anonId=v1", local),
        send(&open, "GET", "/v1/resolve?site=fjell&route=/", local),
        send(&open, "GET", "/v1/problems/timeout", local),
        send(&open, "GET", "/nowhere", local),
        send(&open, "DELETE", "/visitors?site=fjell&anonId=v1", local),
        send(&open, "GET", "/visitors", "Host: evil.example\r\n"),
        send(&locked, "GET", "/visitors", local),
        send(&locked, "GET", "/visitors", "Host: localhost\r\nAuthorization: Bearer no\r\n"),
        send(&open, "GET", "/ space", local),
    ];
    for response in responses {
        for (name, value) in SECURITY {
            assert_eq!(response.field(name), Some(value), "{response:?}");
        }
    }
    let public = open.get("/v1/resolve?site=fjell&route=/&variants=");
    for (name, value) in SECURITY {
        let expected = (name == "x-content-type-options").then_some(value);
        assert_eq!(public.field(name), expected, "{name}");
    }
}

#[test]
fn pipelined_responses_have_the_security_headers_once_each() {
    let mut client = Client::to(OPEN.get().admin);
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send([request, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", request].concat().as_bytes());
    for _ in 0..3 {
        let response = client.response(false);
        assert_eq!((response.status, response.field("x-frame-options")), (200, Some("DENY")));
    }
}

#[test]
fn the_files_need_no_token_and_no_loopback_name_with_one() {
    for lines in ["Host: console.example\r\n", "Host: console.example\r\nX-Forwarded-For: 192.0.2.1\r\n"] {
        assert_eq!(send(&LOCKED.get(), "GET", "/", lines).status, 200, "{lines}");
        assert_eq!(send(&LOCKED.get(), "GET", "/console/console.js", lines).status, 200, "{lines}");
    }
    assert_eq!(send(&OPEN.get(), "GET", "/", "Host: console.example\r\n").code(), "host_not_allowed");
}

#[test]
fn without_a_token_only_a_link_to_the_page_may_come_from_another_site() {
    let server = OPEN.get();
    let navigation = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    for site in ["cross-site", "same-site"] {
        let from = format!("Host: localhost\r\nSec-Fetch-Site: {site}\r\n");
        assert_eq!(send(&server, "GET", "/", &format!("{from}{navigation}")).status, 200, "{site}");
        for (target, fields) in [
            ("/", ""),
            ("/", "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"),
            ("/", "Sec-Fetch-Mode: navigate\r\n"),
            ("/", "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: document\r\n"),
            ("/", "Origin: https://evil.example\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"),
            ("/console/console.js", navigation),
            ("/visitors?site=fjell&anonId=v1", navigation),
            ("/insights/overview?site=fjell", navigation),
        ] {
            let response = send(&server, "GET", target, &format!("{from}{fields}"));
            assert_eq!(response.code(), "origin_not_allowed", "{site} {target} {fields}");
        }
    }
    let own = "Host: localhost\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n";
    assert_eq!(send(&server, "GET", "/console/console.js", own).status, 200);
    // Chromium names the origin of the page with each of its modules.
    let own_module =
        "Host: localhost:9090\r\nOrigin: http://localhost:9090\r\nSec-Fetch-Site: same-origin\r\n";
    assert_eq!(send(&server, "GET", "/console/console.js", own_module).status, 200);
    let other = own_module.replace("http://localhost:9090", "http://localhost:9091");
    assert_eq!(send(&server, "GET", "/console/console.js", &other).code(), "origin_not_allowed");
}

#[test]
fn without_a_token_the_console_learns_which_flag_an_erasure_and_a_comparison_need() {
    for (method, target) in [
        ("DELETE", "/visitors?site=fjell&anonId=v1"),
        ("POST", "/insights/changes?site=fjell&file=fjell.snapshot"),
    ] {
        let answer = |origin: &str| {
            let lines =
                format!("Host: localhost:9090\r\nOrigin: {origin}\r\nSec-Fetch-Site: same-origin\r\n");
            send(&OPEN.get(), method, target, &lines)
        };
        let own = answer("http://localhost:9090");
        assert_eq!((own.status, own.code().as_str()), (401, "unauthorized"));
        assert!(own.body_contains("--admin-token TOKEN"), "{}", own.text());
        for other in ["http://localhost:9091", "http://evil.example", "null", "http://localhost"] {
            assert_eq!(answer(other).code(), "origin_not_allowed", "{method} {other}");
        }
    }
}
