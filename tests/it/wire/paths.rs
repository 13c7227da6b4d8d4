//! The parameter `route`: its conversion to a path, and the route of the site that matches the path.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{
    SharedServer, compile_site, page, percent_encode, problem, resolve_target, site_file, start_server,
};
use crate::harness::{Client, Server};

static SERVER: SharedServer = SharedServer::new(|| {
    let paths = [
        "/",
        "/pricing",
        "/two words",
        "/a+b",
        "/c,d",
        "/größe",
        "/say/\"hi\"\\",
        "/blog/:slug",
        "/blog/about",
        "/blog/:slug/comments",
        "/pair/:a/:b",
        "/docs/*",
        "/docs/intro",
    ];
    start_server(&paths.map(|path| page(path, json!({}))))
});

/// Resolves a value of `route`.
fn resolve_value(value: &str) -> Value {
    let response = SERVER.get().get(&resolve_target(value, ""));
    assert_eq!(response.status, 200, "{value}: {}", response.text());
    response.json()
}

fn resolve_problem(value: &str) -> (u16, String) {
    problem(&SERVER.get().get(&resolve_target(value, "")))
}

#[test]
fn path_segments_are_decoded_after_the_query_string() {
    for (value, path) in [
        ("/two words", "/two words"),
        ("/two%20words", "/two words"),
        ("/%70ricing", "/pricing"),
        ("/gr%C3%B6%C3%9Fe", "/größe"),
        ("/a+b", "/a+b"),
        ("/a%2Bb", "/a+b"),
        ("/c%2cd", "/c,d"),
        ("/say/%22hi%22%5C", "/say/\"hi\"\\"),
    ] {
        assert_eq!(resolve_value(value)["route"], path, "{value}");
        assert_eq!(resolve_value(value)["pattern"], path, "{value}");
    }
}

#[test]
fn an_escaped_slash_belongs_to_its_segment() {
    let answer = resolve_value("/blog/x%2Fy");
    assert_eq!(answer["params"], json!({ "slug": "x/y" }));
    assert_eq!(answer["route"], "/blog/x/y");
    assert_eq!(resolve_problem("/blog/x/y"), (404, "route_not_found".into()));
    assert_eq!(resolve_problem("/blog%2Fabout"), (404, "route_not_found".into()));
    assert_eq!(resolve_value("/blog/%2F")["params"], json!({ "slug": "/" }));
}

#[test]
fn an_invalid_escape_is_kept_as_written() {
    for written in ["100%", "%", "%z1", "%1", "a%2", "%%"] {
        assert_eq!(
            resolve_value(&format!("/blog/{written}"))["params"],
            json!({ "slug": written }),
            "{written}"
        );
    }
    assert_eq!(resolve_value("/blog/%zz%41")["params"], json!({ "slug": "%zzA" }));
}

#[test]
fn the_query_and_the_fragment_are_removed() {
    for value in ["/pricing?a=1", "/pricing#top", "/pricing/?a=/b//c#d", "/pricing#a?b", "/pricing?"] {
        assert_eq!(resolve_value(value)["route"], "/pricing", "{value}");
    }
    assert_eq!(resolve_value("/?utm_source=x")["route"], "/");
    assert_eq!(resolve_value("/blog/a%3Fb%23c")["params"], json!({ "slug": "a?b#c" }));
}

#[test]
fn one_trailing_slash_is_dropped() {
    assert_eq!(resolve_value("/pricing/")["route"], "/pricing");
    assert_eq!(resolve_value("/docs/a/b/")["params"], json!({ "*": "a/b" }));
    assert_eq!(resolve_value("/")["route"], "/");
}

#[test]
fn a_value_without_a_valid_path_is_refused() {
    for value in
        ["//", "/pricing//", "//pricing", "/docs/a//b", "pricing", "?a=/", "#/", "https://a.b/pricing"]
    {
        assert_eq!(resolve_problem(value), (400, "invalid_route".into()), "{value}");
    }
    let server = SERVER.get();
    for target in ["/v1/resolve?site=acme", "/v1/resolve?site=acme&route=", "/v1/variants?site=acme&route"] {
        let response = server.get(target);
        assert_eq!(problem(&response), (400, "missing_route".into()), "{target}");
        assert_eq!(response.json()["param"], "route");
    }
}

#[test]
fn a_path_has_at_most_2_kib() {
    let of_length = |n: usize| format!("/docs/{}", "a".repeat(n - "/docs/".len()));
    for length in [2047, 2048] {
        assert_eq!(resolve_value(&of_length(length))["route"], of_length(length));
    }
    assert_eq!(resolve_problem(&of_length(2049)), (400, "invalid_route".into()));
    assert_eq!(resolve_value(&format!("{}?{}", of_length(2048), "q".repeat(500)))["pattern"], "/docs/*");
    // A path of 1,020 segments. A path of 2,048 bytes can have at most 1,024.
    let deep = "/a".repeat(1019);
    assert_eq!(resolve_value(&format!("/docs{deep}"))["params"]["*"], deep[1..]);
}

#[test]
fn a_literal_wins_over_a_parameter_and_a_parameter_over_a_rest() {
    assert_eq!(resolve_value("/blog/about")["pattern"], "/blog/about");
    assert_eq!(resolve_value("/blog/other")["pattern"], "/blog/:slug");
    assert_eq!(resolve_value("/blog/about/comments")["params"], json!({ "slug": "about" }));
    assert_eq!(resolve_value("/docs/intro")["pattern"], "/docs/intro");
    assert_eq!(resolve_value("/docs/intro/more")["params"], json!({ "*": "intro/more" }));
    assert_eq!(resolve_value("/docs/%2A")["params"], json!({ "*": "*" }));
    for missing in ["/docs", "/blog", "/Pricing", "/blog/a/b", "/pair/x"] {
        assert_eq!(resolve_problem(missing), (404, "route_not_found".into()), "{missing}");
    }
}

#[test]
fn path_parameters_are_decoded() {
    assert_eq!(resolve_value("/pair/p%2Fq/r")["params"], json!({ "a": "p/q", "b": "r" }));
    assert_eq!(resolve_value("/pair/p/q%2Fr")["params"], json!({ "a": "p", "b": "q/r" }));
    assert_eq!(resolve_value("/pair/%00/%22")["params"], json!({ "a": "\0", "b": "\"" }));
}

#[test]
fn an_escaped_slash_in_a_different_segment_changes_the_etag() {
    let server = SERVER.get();
    for endpoint in ["resolve", "variants"] {
        let etag = |value: &str| {
            let target = resolve_target(value, "").replace("resolve", endpoint);
            server.get(&target).field("etag").expect("an ETag").to_owned()
        };
        assert_ne!(etag("/pair/p%2Fq/r"), etag("/pair/p/q%2Fr"));
    }
}

#[test]
fn cache_tags_contain_the_encoded_path() {
    let server = SERVER.get();
    for (value, encoded) in [
        ("/", "/"),
        ("/pricing/", "/pricing"),
        ("/c,d", "/c%2Cd"),
        ("/two words", "/two%20words"),
        ("/gr%C3%B6ße", "/gr%C3%B6%C3%9Fe"),
        ("/blog/x%2fy", "/blog/x%2Fy"),
        ("/docs/100%/a-b_c.d~e", "/docs/100%25/a-b_c.d~e"),
    ] {
        let response = server.get(&resolve_target(value, "&variants="));
        assert_eq!(response.field("cache-tag"), Some(&*format!("acme,acme:{encoded}")));
        assert_eq!(response.field("surrogate-key"), Some(&*format!("acme acme:{encoded}")));
    }
}

#[test]
fn a_content_location_leads_back_to_the_same_path() {
    let server = SERVER.get();
    for value in ["/", "/two words", "/a+b", "/c,d", "/größe", "/blog/x%2Fy", "/docs/100%/%2525/a&b=c/é"] {
        let unknown = server.get(&resolve_target(value, "&variants=no:such"));
        let location = unknown.field("content-location").expect("a location");
        let canonical = server.get(location);
        assert_eq!(canonical.json(), server.get(&resolve_target(value, "&variants=")).json(), "{location}");
        assert_eq!(canonical.json()["route"], unknown.json()["route"], "{location}");
    }
}

/// Returns all patterns of up to three segments, each `a`, `b`, a parameter, or a rest at the end.
fn all_patterns() -> Vec<String> {
    let mut patterns = Vec::new();
    let mut open = vec![String::new()];
    for depth in 0..3 {
        patterns.extend(open.iter().map(|path| format!("{path}/*")));
        let segments = ["a".to_owned(), "b".to_owned(), format!(":p{depth}")];
        open = open.iter().flat_map(|path| segments.iter().map(move |s| format!("{path}/{s}"))).collect();
        patterns.extend(open.iter().cloned());
    }
    patterns
}

/// Returns all paths of one to four segments of `a`, `b`, `c`.
fn all_paths() -> Vec<String> {
    let mut paths = Vec::new();
    let mut longest = vec![String::new()];
    for _ in 0..4 {
        longest = longest.iter().flat_map(|p| ["a", "b", "c"].map(|s| format!("{p}/{s}"))).collect();
        paths.extend(longest.iter().cloned());
    }
    paths
}

/// Rates each segment of a match: 0 for a literal, 1 for a parameter, 2 for a rest. Less is better. `None` if
/// the pattern does not match.
fn fit(pattern: &str, path: &str) -> Option<Vec<u8>> {
    let mut segments = path.split('/').skip(1);
    let mut kinds = Vec::new();
    for wanted in pattern.split('/').skip(1) {
        let segment = segments.next()?;
        kinds.push(match wanted {
            "*" => {
                kinds.push(2);
                return Some(kinds);
            }
            _ if wanted == segment => 0,
            _ if wanted.starts_with(':') => 1,
            _ => return None,
        });
    }
    segments.next().is_none().then_some(kinds)
}

/// Compares every path with the best match among all patterns of its site.
#[test]
fn the_best_matching_pattern_wins_in_any_set_of_patterns() {
    let mut runner = TestRunner::deterministic();
    let some = prop::sample::subsequence(all_patterns(), 1..12);
    let sites: Vec<Vec<String>> =
        (0..16).map(|_| some.new_tree(&mut runner).expect("a subsequence").current()).collect();
    let snapshots: Vec<(String, Vec<u8>)> = sites
        .iter()
        .enumerate()
        .map(|(i, patterns)| {
            let routes: Vec<String> = patterns.iter().map(|p| page(p, json!({}))).collect();
            (format!("{i}.snapshot"), compile_site(&site_file(&format!("s{i}"), json!({})), &routes, 1))
        })
        .collect();
    let named: Vec<(&str, &[u8])> = snapshots.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    let server = Server::start(&named, &[]);
    let mut client = Client::to(server.edge);
    for (i, patterns) in sites.iter().enumerate() {
        for path in all_paths() {
            let target = format!("/v1/resolve?site=s{i}&route={}", percent_encode(&path));
            let found = client.request("GET", &target, &[]);
            let best = patterns.iter().filter_map(|p| Some((fit(p, &path)?, p))).min();
            match best {
                Some((_, pattern)) => assert_eq!(found.json()["pattern"], **pattern, "{path} {patterns:?}"),
                None => assert_eq!(found.status, 404, "{path} in {patterns:?}"),
            }
        }
    }
}
