//! Prepared answers. A handler that has answered many requests sends the same bytes as a handler that answers its first
//! request, for random sequences of requests and publications.

use std::sync::{Arc, LazyLock};

use parallax::testing::api::{Handler, Service, Settings};
use parallax::testing::http::request::{ParseOutcome, parse};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::{Catalog, CurrentCatalog};
use parallax::testing::site::catalog::versions::Versions;
use parallax::testing::site::snapshot::open::Snapshot;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::fuzz::snapshot::open;
use crate::harness::{LOCALHOST, request_meta, snapshot, times};

static AGENTS: LazyLock<Arc<UserAgentParser>> = LazyLock::new(|| Arc::new(UserAgentParser::new()));

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0";
const CRAWLER: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// The members whose values differ between two responses: the request ID of a problem, and the time in an explanation.
const VARYING_MEMBERS: [&str; 2] = ["\"requestId\":\"", "\"at\":"];

fn node(id: &str, text: &str) -> Value {
    json!([{ "id": id, "type": "Text", "props": { "text": text } }])
}

fn page(path: &str, zones: Value) -> (String, String) {
    let page = json!({ "path": path, "layout": { "root": { "props": { "title": path } }, "zones": zones } });
    (format!("routes{path}.json").replace([':', '*'], "_"), page.to_string())
}

/// Returns a zone with two variants besides `default`, an experiment and a rule about the country.
fn zone(key: &str, text: &str) -> Value {
    let experiment = json!({ "key": key, "variants": ["default", "b"], "coverage": 0.8, "holdout": 0.2 });
    json!({
        "default": node("d", text),
        "variants": { "b": node("b", text), "c": node("c", text) },
        "rules": [{ "when": { "country": "NO" }, "variant": "c" }, { "experiment": experiment }],
    })
}

/// Compiles a version of a site with short and long bodies, pages with many pieces, long names, patterns,
/// queries that depend on the path, and redirects. `text` is in all bodies.
fn site(name: &str, version: u64, text: &str) -> Arc<Snapshot> {
    let origins = if name == "open" { json!([]) } else { json!(["https://a.example"]) };
    let about =
        json!({ "site": name, "trackingId": format!("track_{name}"), "name": name, "origins": origins });
    let long = text.repeat(200);
    let many: serde_json::Map<_, _> =
        (0..14).map(|number| (format!("z{number}"), zone("many", text))).collect();
    let name_of_64 = "n".repeat(64);
    let blog = json!([{ "id": "q", "type": "T", "props": {},
        "query": { "id": "q", "params": { "s": { "$route": "slug" } } } }]);
    let queries = json!({ "q": { "collection": "c", "params": { "s": { "type": "string", "optional": true } },
        "where": { "s": { "$param": "s" } } } });
    let content = json!([{ "id": "1", "type": "t", "fields": { "s": "a" } }, { "id": "2", "type": "t", "fields": { "s": "b" } }]);
    let each = json!({ "path": "/item/:slug", "each": { "collection": "c", "slug": "fields.s" },
        "layout": { "root": { "props": {} }, "zones": { "main": blog, "hero": zone("each", text) } } });
    let old = json!({ "path": "/old/*", "redirect": { "to": "/blog/*", "status": 308 } });
    let mut files = vec![
        ("site.json".to_owned(), about.to_string()),
        ("queries.json".to_owned(), queries.to_string()),
        ("content/c.json".to_owned(), content.to_string()),
        ("routes/each.json".to_owned(), each.to_string()),
        ("routes/old.json".to_owned(), old.to_string()),
        page("/short", json!({ "hero": zone("one", text) })),
        page("/twin", json!({ "hero": zone("one", text) })),
        page("/long", json!({ "hero": zone("two", &long), "aside": zone("one", text) })),
        page("/many", Value::Object(many)),
        page("/names", json!({ name_of_64: zone("one", text) })),
        page("/plain", json!({ "main": node("m", text) })),
        page("/blog/:slug", json!({ "hero": zone("one", text), "main": blog })),
    ];
    // The compiler orders routes by path, so this page changes the indices of all others.
    if version.is_multiple_of(2) {
        files.push(page("/aaa", json!({ "main": node("m", text) })));
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Arc::new(open(&snapshot(&files, version)).expect("a compiled snapshot opens"))
}

fn publish(current: &CurrentCatalog, sites: &[Arc<Snapshot>]) {
    let with_versions = |site: &Arc<Snapshot>| (Arc::clone(site), Versions::default().with_snapshot(site));
    current.swap(Catalog::new(sites.iter().map(with_versions)));
}

fn new_handler(current: &CurrentCatalog) -> Handler {
    let settings = Settings { explain: true, ..Settings::default() };
    Handler::new(settings, current, Arc::clone(&AGENTS))
}

/// Returns the response without the parts that differ between two responses: the time and a generated request ID.
fn answer(handler: &mut Handler, request: &str) -> String {
    let mut out = Vec::new();
    match parse(request.as_bytes(), None) {
        ParseOutcome::Complete(request, _) => handler.handle(&request, &request_meta(LOCALHOST), &mut out),
        other => panic!("{other:?} of {request}"),
    };
    let head = out.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let (head, body) = out.split_at(head);
    let lines = std::str::from_utf8(head).expect("UTF-8").split("\r\n").map(|line| match line {
        _ if line.starts_with("Date: ") => "Date: D",
        _ if line.starts_with("X-Request-Id: ") && line != "X-Request-Id: mine" => "X-Request-Id: G",
        line => line,
    });
    let mut body: String = body.iter().map(|byte| char::from(*byte)).collect();
    for member in VARYING_MEMBERS {
        let mut from = 0;
        while let Some(at) = body[from..].find(member) {
            from += at + member.len();
            let length = body[from..].find(['"', ',', '}']).expect("the end of the value");
            body.replace_range(from..from + length, "G");
        }
    }
    lines.collect::<Vec<_>>().join("\r\n") + &body
}

/// Returns a request for a page. Few values of each part are possible, so that requests repeat.
fn request(dice: &mut Dice, etag: &str) -> String {
    let paths = [
        "/short", "/short/", "/twin", "/long", "/many", "/names", "/plain", "/aaa", "/blog/a", "/blog/b",
        "/item/a", "/item/b", "/old/x", "/none",
    ];
    let method = dice.pick(&["GET", "GET", "GET", "HEAD"]);
    let endpoint = dice.pick(&["resolve", "resolve", "variants"]);
    let site = dice.pick(&["open", "listed"]);
    let variants = [
        "",
        "",
        "",
        "&variants=",
        "&variants=hero:b",
        "&variants=hero:b,aside:c",
        "&variants=z3:b,z9:c",
        "&variants=hero:none",
        "&override=hero:c",
        "&override=hero:b,none:c",
        "&variants=hero:b&strict=1",
    ];
    let params = ["", "", "&country=NO", "&personalize=0", "&explain=1", "&include=combinations"];
    let mut target = format!("/v1/{endpoint}?site={site}&route={}", dice.pick(&paths));
    target += *dice.pick(&variants);
    target += *dice.pick(&params);
    if dice.below(3) > 0 {
        target += &format!("&anonId=visitor-{}", dice.below(12));
    }
    let mut fields = vec![format!("User-Agent: {}", dice.pick(&[BROWSER, BROWSER, BROWSER, CRAWLER]))];
    let others = [
        "Accept-Encoding: gzip".to_owned(),
        "Accept-Encoding: gzip;q=0, *".to_owned(),
        "Origin: https://a.example".to_owned(),
        "Origin: https://b.example".to_owned(),
        "X-Request-Id: mine".to_owned(),
        "Connection: close".to_owned(),
        format!("If-None-Match: {etag}"),
        format!("If-Match: {etag}"),
    ];
    fields.extend(others.into_iter().filter(|_| dice.below(4) == 0));
    // An explanation has the time, which is not found in a compressed body.
    fields.retain(|field| !target.contains("explain=1") || !field.starts_with("Accept-Encoding"));
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", fields.join("\r\n"))
}

#[test]
fn a_repeated_answer_equals_a_first_one_byte_for_byte() {
    for seed in 0..times(2, 40) as u64 {
        let mut dice = Dice(seed);
        let current = CurrentCatalog::default();
        let versions: Vec<_> = [("open", "some words "), ("listed", "some words ")]
            .map(|(name, text)| {
                // The third version has the bodies of the first one, with other indices.
                [site(name, 1, text), site(name, 2, "other "), site(name, 4, text)]
            })
            .into();
        publish(&current, &[Arc::clone(&versions[0][0]), Arc::clone(&versions[1][0])]);
        let mut warm = new_handler(&current);
        let (mut etag, mut statuses) = ("\"none\"".to_owned(), std::collections::BTreeSet::new());
        for number in 0..times(3_000, 20_000) {
            if number % 500 == 499 {
                publish(&current, &[0, 1].map(|site: usize| Arc::clone(dice.pick(&versions[site]))));
            }
            let request = request(&mut dice, &etag);
            let answers = [answer(&mut warm, &request), answer(&mut new_handler(&current), &request)];
            assert_eq!(answers[0], answers[1], "seed {seed}, request {number}: {request}");
            statuses.insert(answers[0][9..12].to_owned());
            if let Some((_, after)) = answers[0].split_once("ETag: ") {
                etag = after.split("\r\n").next().expect("a line").to_owned();
            }
        }
        assert!(["200", "304", "404", "412"].iter().all(|status| statuses.contains(*status)), "{statuses:?}");
    }
}
