//! The value of `route`: how it becomes a path, and which route of the site shows it.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{Shared, compiled, escaped, page, problem, resolve, serving, site_file};
use crate::harness::{Client, Server};

static SERVER: Shared = Shared::new(|| {
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
    serving(&paths.map(|path| page(path, json!({}))))
});

/// What is shown for a value of `route`.
fn shown(value: &str) -> Value {
    let response = SERVER.get().get(&resolve(value, ""));
    assert_eq!(response.status, 200, "{value}: {}", response.text());
    response.json()
}

fn refused(value: &str) -> (u16, String) {
    problem(&SERVER.get().get(&resolve(value, "")))
}

#[test]
fn a_value_is_decoded_once_more_segment_by_segment() {
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
        assert_eq!(shown(value)["route"], path, "{value}");
        assert_eq!(shown(value)["pattern"], path, "{value}");
    }
}

#[test]
fn an_escaped_slash_becomes_part_of_its_segment() {
    let answer = shown("/blog/x%2Fy");
    assert_eq!(answer["params"], json!({ "slug": "x/y" }));
    assert_eq!(answer["route"], "/blog/x/y");
    assert_eq!(refused("/blog/x/y"), (404, "route_not_found".into()));
    assert_eq!(refused("/blog%2Fabout"), (404, "route_not_found".into()));
    assert_eq!(shown("/blog/%2F")["params"], json!({ "slug": "/" }));
}

#[test]
fn a_bad_escape_stays_as_written() {
    for written in ["100%", "%", "%z1", "%1", "a%2", "%%"] {
        assert_eq!(shown(&format!("/blog/{written}"))["params"], json!({ "slug": written }), "{written}");
    }
    assert_eq!(shown("/blog/%zz%41")["params"], json!({ "slug": "%zzA" }));
}

#[test]
fn query_and_fragment_are_cut() {
    for value in ["/pricing?a=1", "/pricing#top", "/pricing/?a=/b//c#d", "/pricing#a?b", "/pricing?"] {
        assert_eq!(shown(value)["route"], "/pricing", "{value}");
    }
    assert_eq!(shown("/?utm_source=x")["route"], "/");
    assert_eq!(shown("/blog/a%3Fb%23c")["params"], json!({ "slug": "a?b#c" }));
}

#[test]
fn one_trailing_slash_is_dropped() {
    assert_eq!(shown("/pricing/")["route"], "/pricing");
    assert_eq!(shown("/docs/a/b/")["params"], json!({ "*": "a/b" }));
    assert_eq!(shown("/")["route"], "/");
}

#[test]
fn a_value_without_a_path_is_refused() {
    for value in
        ["//", "/pricing//", "//pricing", "/docs/a//b", "pricing", "?a=/", "#/", "https://a.b/pricing"]
    {
        assert_eq!(refused(value), (400, "invalid_route".into()), "{value}");
    }
    let server = SERVER.get();
    for target in ["/v1/resolve?site=acme", "/v1/resolve?site=acme&route=", "/v1/variants?site=acme&route"] {
        let response = server.get(target);
        assert_eq!(problem(&response), (400, "missing_route".into()), "{target}");
        assert_eq!(response.json()["param"], "route");
    }
}

#[test]
fn a_path_of_2_kib_is_the_longest() {
    let of_length = |n: usize| format!("/docs/{}", "a".repeat(n - "/docs/".len()));
    for length in [2047, 2048] {
        assert_eq!(shown(&of_length(length))["route"], of_length(length));
    }
    assert_eq!(refused(&of_length(2049)), (400, "invalid_route".into()));
    assert_eq!(shown(&format!("{}?{}", of_length(2048), "q".repeat(500)))["pattern"], "/docs/*");
    // 1024 segments, the most that fit.
    let deep = "/a".repeat(1019);
    assert_eq!(shown(&format!("/docs{deep}"))["params"]["*"], deep[1..]);
}

#[test]
fn a_literal_stands_before_a_parameter_before_a_rest() {
    assert_eq!(shown("/blog/about")["pattern"], "/blog/about");
    assert_eq!(shown("/blog/other")["pattern"], "/blog/:slug");
    assert_eq!(shown("/blog/about/comments")["params"], json!({ "slug": "about" }));
    assert_eq!(shown("/docs/intro")["pattern"], "/docs/intro");
    assert_eq!(shown("/docs/intro/more")["params"], json!({ "*": "intro/more" }));
    assert_eq!(shown("/docs/%2A")["params"], json!({ "*": "*" }));
    for missing in ["/docs", "/blog", "/Pricing", "/blog/a/b", "/pair/x"] {
        assert_eq!(refused(missing), (404, "route_not_found".into()), "{missing}");
    }
}

#[test]
fn every_parameter_has_its_decoded_text() {
    assert_eq!(shown("/pair/p%2Fq/r")["params"], json!({ "a": "p/q", "b": "r" }));
    assert_eq!(shown("/pair/p/q%2Fr")["params"], json!({ "a": "p", "b": "q/r" }));
    assert_eq!(shown("/pair/%00/%22")["params"], json!({ "a": "\0", "b": "\"" }));
}

#[test]
fn answers_that_differ_in_where_a_slash_belongs_have_different_etags() {
    let server = SERVER.get();
    for endpoint in ["resolve", "variants"] {
        let etag = |value: &str| {
            let target = resolve(value, "").replace("resolve", endpoint);
            server.get(&target).field("etag").expect("an ETag").to_owned()
        };
        assert_ne!(etag("/pair/p%2Fq/r"), etag("/pair/p/q%2Fr"));
    }
}

#[test]
fn tags_carry_the_path_encoded() {
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
        let response = server.get(&resolve(value, "&variants="));
        assert_eq!(response.field("cache-tag"), Some(&*format!("acme,acme:{encoded}")));
        assert_eq!(response.field("surrogate-key"), Some(&*format!("acme acme:{encoded}")));
    }
}

#[test]
fn a_content_location_leads_back_to_the_same_path() {
    let server = SERVER.get();
    for value in ["/", "/two words", "/a+b", "/c,d", "/größe", "/blog/x%2Fy", "/docs/100%/%2525/a&b=c/é"] {
        let unknown = server.get(&resolve(value, "&variants=no:such"));
        let location = unknown.field("content-location").expect("a location");
        let canonical = server.get(location);
        assert_eq!(canonical.json(), server.get(&resolve(value, "&variants=")).json(), "{location}");
        assert_eq!(canonical.json()["route"], unknown.json()["route"], "{location}");
    }
}

/// Literals `a` and `b`, a parameter, or a closing rest at each of up to three segments.
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

/// All paths of one to four segments of `a`, `b`, `c`.
fn all_paths() -> Vec<String> {
    let mut paths = Vec::new();
    let mut longest = vec![String::new()];
    for _ in 0..4 {
        longest = longest.iter().flat_map(|p| ["a", "b", "c"].map(|s| format!("{p}/{s}"))).collect();
        paths.extend(longest.iter().cloned());
    }
    paths
}

/// How well a pattern fits: segment by segment 0 for a literal, 1 for a parameter, 2 for the rest.
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

/// Every path against every pattern; the best fit wins.
#[test]
fn the_best_fitting_pattern_shows_a_path_whatever_other_patterns_there_are() {
    let mut runner = TestRunner::deterministic();
    let some = prop::sample::subsequence(all_patterns(), 1..12);
    let sites: Vec<Vec<String>> =
        (0..16).map(|_| some.new_tree(&mut runner).expect("a subsequence").current()).collect();
    let snapshots: Vec<(String, Vec<u8>)> = sites
        .iter()
        .enumerate()
        .map(|(i, patterns)| {
            let routes: Vec<String> = patterns.iter().map(|p| page(p, json!({}))).collect();
            (format!("{i}.snapshot"), compiled(&site_file(&format!("s{i}"), json!({})), &routes, 1))
        })
        .collect();
    let named: Vec<(&str, &[u8])> = snapshots.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    let server = Server::start(&named, &[]);
    let mut client = Client::to(server.edge);
    for (i, patterns) in sites.iter().enumerate() {
        for path in all_paths() {
            let target = format!("/v1/resolve?site=s{i}&route={}", escaped(&path));
            let found = client.request("GET", &target, &[]);
            let best = patterns.iter().filter_map(|p| Some((fit(p, &path)?, p))).min();
            match best {
                Some((_, pattern)) => assert_eq!(found.json()["pattern"], **pattern, "{path} {patterns:?}"),
                None => assert_eq!(found.status, 404, "{path} in {patterns:?}"),
            }
        }
    }
}
