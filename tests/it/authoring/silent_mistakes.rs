//! Mistakes of authors that once compiled without a diagnostic: each with its error or warning, and its place.
//!
//! `shop/` is a right site. Each row changes one text of one file of it.

use std::path::Path;

use parallax::testing::site::compile::{compile, warn_about_past};
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::SITE;

/// 2026-11-26T12:00:00Z, in milliseconds since 1970.
const NOW_MS: i64 = 1_795_694_400_000;

const HOME: &str = "routes/home.json";
const AUDIENCES: &str = "audiences.json";
const POSTS: &str = "content/posts.json";

/// A mistake, and the diagnostic as `severity file:line:column title`.
struct Mistake {
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    diagnostic: &'static str,
}

const fn mistake(
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    diagnostic: &'static str,
) -> Mistake {
    Mistake { file, right, wrong, diagnostic }
}

const LOCALE: &str = r#"{ "locale": { "$regexi": "^de" } }"#;
const WINDOW: &str = r#""$gte": "2026-12-01", "$lt": "2026-12-25""#;
const ARMS: &str = r#""variants": ["default", "short"], "weights": [0.5, 0.5]"#;

/// The 22 mistakes of the report that were silent.
const REPORTED: [Mistake; 22] = [
    mistake(
        HOME,
        LOCALE,
        r#"{ "locale": "de" }"#,
        r#"warning routes/home.json:17:33 `locale` is compared with "de", which does not match a language with a region"#,
    ),
    mistake(
        HOME,
        LOCALE,
        r#"{ "locale": "de_DE" }"#,
        r#"warning routes/home.json:17:33 `locale` is compared with "de_DE", but browsers send languages with `-`"#,
    ),
    mistake(
        HOME,
        r#""2026-12-01""#,
        r#""01.12.2026""#,
        r#"error routes/home.json:16:45 `now.date` is never "01.12.2026""#,
    ),
    mistake(
        HOME,
        r#""2026-12-01""#,
        r#""2026-12-1""#,
        r#"error routes/home.json:16:45 `now.date` is never "2026-12-1""#,
    ),
    mistake(
        AUDIENCES,
        r#""now.weekday": { "$in": [6, 7] }"#,
        r#""now.hour": { "$gte": 24 }"#,
        "error audiences.json:6:37 `now.hour` is never 24",
    ),
    mistake(
        HOME,
        WINDOW,
        r#""$gte": "2026-12-25", "$lt": "2026-12-01""#,
        r#"error routes/home.json:16:66 `now.date` never passes $gte "2026-12-25" and $lt "2026-12-01""#,
    ),
    mistake(
        HOME,
        WINDOW,
        r#""$gte": "2024-12-01", "$lt": "2024-12-25""#,
        r#"warning routes/home.json:16:66 `now.date` never passes this test again, because "2024-12-25" is in the past"#,
    ),
    mistake(
        HOME,
        ARMS,
        r#""variants": ["short"], "weights": [1]"#,
        "warning routes/home.json:20:27 experiment `hero-length` has one arm, so it compares nothing",
    ),
    mistake(
        HOME,
        ARMS,
        r#""variants": ["xmas", "short"], "weights": [0.5, 0.5]"#,
        "warning routes/home.json:20:27 experiment `hero-length` has no arm `default`, so it does not compare with the default content",
    ),
    mistake(
        HOME,
        r#"{ "audience": "vip", "variant": "vip" },"#,
        "",
        "warning routes/home.json:9:11 no rule selects the variant `vip`",
    ),
    // The names of events are not known to `compile`.
    mistake(HOME, r#""goal": "page:/thanks""#, r#""goal": "order placed""#, ""),
    mistake(
        AUDIENCES,
        "pages./offers",
        "pages./offers/",
        r#"error audiences.json:10:15 no page event has the path "/offers/""#,
    ),
    mistake(
        AUDIENCES,
        "pages./offers",
        "pages.https://www.example.com/offers",
        r#"error audiences.json:10:15 no page event has the path "https://www.example.com/offers""#,
    ),
    mistake(
        AUDIENCES,
        "pages./offers",
        "pages.offers",
        r#"error audiences.json:10:15 no page event has the path "offers""#,
    ),
    mistake(
        AUDIENCES,
        "pages./offers",
        "pages./ofers",
        r#"warning audiences.json:10:31 the condition is on the page "/ofers", which is not published"#,
    ),
    mistake(
        AUDIENCES,
        "url.query.utm_source",
        "url.query.utmsource",
        "warning audiences.json:12:54 unusual campaign parameter `utmsource`",
    ),
    mistake(
        HOME,
        LOCALE,
        r#"{ "url.path": "/offers" }"#,
        r#"warning routes/home.json:17:23 `url.path` is always "/" on this page, so the test is always or never true"#,
    ),
    mistake(
        "routes/r.json",
        "",
        r#"{"path":"/shop","redirect":{"to":"www.shop.example","status":301}}"#,
        r#"error routes/r.json:1:34 the redirect leads to "www.shop.example", which is neither a path nor a URL"#,
    ),
    mistake(
        POSTS,
        r#""publishedAt": "2026-01-05""#,
        r#""publishedat": "2026-01-05""#,
        "warning content/posts.json:5:69 other items have the field `publishedAt`, not `publishedat`",
    ),
    mistake(
        POSTS,
        r#""2026-01-05""#,
        r#""5 Jan 2026""#,
        r#"warning content/posts.json:5:84 `publishedAt` has the date "5 Jan 2026" in another form than other items"#,
    ),
    // A component may show a text as HTML.
    mistake(HOME, r#""Winter offers""#, r#""<b>Winter</b> offers""#, ""),
    // The console shows the size of an audience, so an audience needs no rule.
    mistake(AUDIENCES, r#""weekend": {"#, r#""weekend2": {"#, ""),
];

/// Returns the files of the right site, after a change of one text.
fn shop(change: Option<&Mistake>) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/authoring/shop");
    let read = Files::from_directory(&directory).expect("the site of this test");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let mut files: Vec<_> =
        read.iter().map(|(path, bytes)| (path.to_owned(), text(bytes.expect("a file")))).collect();
    if let Some(Mistake { file, right, wrong, .. }) = change {
        match files.iter_mut().find(|(path, _)| path == file) {
            Some((_, text)) => {
                assert!(text.contains(right), "{file} has no {right}");
                *text = text.replacen(right, wrong, 1);
            }
            None => files.push(((*file).to_owned(), (*wrong).to_owned())),
        }
    }
    files
}

/// Compiles files at [`NOW_MS`]. Returns the diagnostics as `severity file:line:column title`.
fn diagnostics(files: &[(String, String)]) -> Vec<String> {
    let texts: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let files = super::files(&texts);
    let (source, mistakes) = read(&files, &|_, _| {});
    let (severity, found) = match compile(&source, mistakes, 1, &|_, _| {}) {
        Ok(mut compiled) => {
            warn_about_past(&source, NOW_MS, &mut compiled.warnings);
            ("warning", compiled.warnings)
        }
        Err(mistakes) => ("error", mistakes),
    };
    let found = found.report(&files).diagnostics.into_iter();
    let shown = found.map(|placed| {
        let title = placed.diagnostic.title.expect("a title");
        format!("{severity} {}:{}:{} {title}", placed.diagnostic.file, placed.line, placed.column)
    });
    shown.collect()
}

#[test]
fn the_right_site_has_no_diagnostics() {
    assert_eq!(diagnostics(&shop(None)), [""; 0]);
}

#[test]
fn each_reported_mistake_has_its_diagnostic() {
    let mut differences = Vec::new();
    for mistake in &REPORTED {
        let found = diagnostics(&shop(Some(mistake))).join("\n");
        if found != mistake.diagnostic {
            differences.push(format!("{}: {:?}\n    found {found}", mistake.wrong, mistake.diagnostic));
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// Returns the severity and titles for an audience with this condition.
fn titles(condition: &Value) -> Vec<String> {
    let page = r#"{"path":"/offers","layout":{"root":{"props":{}},"zones":{}}}"#;
    let audiences = json!({ "a": { "when": condition } }).to_string();
    let files = [SITE, ("routes/offers.json", page), (AUDIENCES, &audiences)];
    let lines = diagnostics(&files.map(|(path, text)| (path.to_owned(), text.to_owned())));
    let part = |line: &String| {
        let mut parts = line.splitn(3, ' ');
        format!("{} {}", parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default())
    };
    lines.iter().map(part).collect()
}

#[test]
fn a_date_or_hour_that_does_not_exist_is_an_error_with_any_operator() {
    for operator in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"] {
        for (path, operand) in [("now.date", json!("2026-13-45")), ("now.date", json!("01.12.2026"))] {
            let expected = [format!("error `{path}` is never {operand}")];
            assert_eq!(titles(&json!({ path: { operator: operand } })), expected, "{operator}");
        }
    }
    for (condition, title) in [
        (json!({ "now.date": "2026-02-29" }), "error `now.date` is never \"2026-02-29\""),
        (
            json!({ "now.date": { "$in": ["2026-12-24", "24.12.2026"] } }),
            "error `now.date` is never \"24.12.2026\"",
        ),
        (json!({ "now.date": { "$nin": ["2026-4-31"] } }), "error `now.date` is never \"2026-4-31\""),
        (json!({ "$or": [{ "$and": [{ "now.hour": { "$in": [24] } }] }] }), "error `now.hour` is never 24"),
        (json!({ "$nor": [{ "now.hour": { "$gt": 23 } }] }), "error `now.hour` is never 23"),
        (json!({ "$not": { "now.weekday": { "$not": { "$lt": 1 } } } }), "error `now.weekday` is never 1"),
        (json!({ "now.weekday": { "$eq": 0 } }), "error `now.weekday` is never 0"),
        (json!({ "now.weekday": { "$gte": 0 } }), "warning `now.weekday` is never 0"),
        (json!({ "now.hour": { "$gte": 9.5 } }), "warning `now.hour` is never 9.5"),
        (
            json!({ "now.date": { "$lte": "2026-12" } }),
            "warning \"2026-12\" is before each date that begins with it",
        ),
    ] {
        assert_eq!(titles(&condition), [title], "{condition}");
    }
    for right in [
        json!({ "now.date": { "$gte": "2028-02-29" } }),
        json!({ "now.date": { "$gte": "2027", "$lt": "2027-07" } }),
        json!({ "now.hour": { "$gte": 0, "$lt": 24 }, "now.weekday": { "$gt": 0, "$lt": 8 } }),
        json!({ "now.hour": { "$gte": "9" }, "now.date": { "$exists": true, "$regex": "-24$" } }),
    ] {
        assert_eq!(titles(&right), [""; 0], "{right}");
    }
}

#[test]
fn comparisons_that_exclude_each_other_are_an_error() {
    for (condition, title) in [
        (json!({ "now.hour": { "$gte": 22, "$lt": 6 } }), "`now.hour` never passes $gte 22 and $lt 6"),
        (json!({ "now.hour": { "$gt": 8, "$lt": 9 } }), "`now.hour` never passes $gt 8 and $lt 9"),
        (
            json!({ "$and": [{ "now.date": { "$gte": "2027-02-01" } }, { "now.date": { "$lt": "2027-02-01" } }] }),
            "`now.date` never passes $gte \"2027-02-01\" and $lt \"2027-02-01\"",
        ),
        (
            json!({ "$not": { "visitor.visits": { "$gt": 5, "$lte": 5 } } }),
            "`visitor.visits` never passes $gt 5 and $lte 5",
        ),
        (
            json!({ "now.at": { "$gte": "2027-01-01T10:00:00+01:00", "$lt": "2027-01-01T09:00:00Z" } }),
            "`now.at` never passes $gte \"2027-01-01T10:00:00+01:00\" and $lt \"2027-01-01T09:00:00Z\"",
        ),
        (
            json!({ "events.Viewed": { "$count": { "$gte": 3, "$lt": 2, "within": "7d" } } }),
            "`events.Viewed` never passes $gte 3 and $lt 2",
        ),
    ] {
        assert_eq!(titles(&condition), [format!("error {title}")], "{condition}");
    }
    for right in [
        json!({ "$or": [{ "now.hour": { "$gte": 22 } }, { "now.hour": { "$lt": 6 } }] }),
        json!({ "now.date": { "$gte": "2027-02-01", "$lte": "2027-02-01" } }),
        json!({ "now.hour": { "$gte": 22, "$not": { "$lt": 6 } } }),
        json!({ "traits.size": { "$gte": "9", "$lt": "10" } }),
        json!({ "$and": [{ "now.weekday": { "$in": [6, 7] } }, { "now.weekday": 7 }] }),
    ] {
        assert_eq!(titles(&right), [""; 0], "{right}");
    }
}

#[test]
fn a_window_that_has_ended_is_a_warning() {
    let title = |path: &str, end: &str| {
        format!("warning `{path}` never passes this test again, because {end:?} is in the past")
    };
    for (test, end) in [
        (json!({ "$lt": "2026-11-26" }), "2026-11-26"),
        (json!({ "$gte": "2026-11-01", "$lte": "2026-11-25" }), "2026-11-25"),
        (json!("2026-11-25"), "2026-11-25"),
        (json!({ "$in": ["2025-12-24", "2024-12-24"] }), "2024-12-24"),
        (json!({ "$lt": "2026" }), "2026"),
    ] {
        assert_eq!(titles(&json!({ "$or": [{ "now.date": test }] })), [title("now.date", end)], "{test}");
    }
    let at = json!({ "now.at": { "$lt": "2026-11-26T12:59:59+01:00" } });
    assert_eq!(titles(&at), [title("now.at", "2026-11-26T12:59:59+01:00")]);
    for right in [
        json!({ "now.date": { "$gte": "2024-01-01" } }),
        json!({ "now.date": { "$gte": "2024-01-01", "$lte": "2026-11-26" } }),
        json!({ "now.date": { "$in": ["2025-12-24", "2026-12-24"] } }),
        json!({ "$not": { "now.date": { "$lt": "2024-01-01" } } }),
        json!({ "now.at": { "$lt": "2026-11-26T13:01:00+01:00" } }),
        json!({ "visitor.firstSeen": { "$lt": "2024-01-01T00:00:00Z" } }),
    ] {
        assert_eq!(titles(&right), [""; 0], "{right}");
    }
}

#[test]
fn the_path_of_a_page_has_the_form_of_page_events() {
    for path in [
        "/offers/",
        "offers",
        "offers*",
        "https://www.example.com/offers",
        "/offers?a=1",
        "/offers#top",
        "/%6Fffers",
    ] {
        for ending in ["", ".count", ".last"] {
            let test =
                if ending.is_empty() { json!({ "$count": { "$gte": 1 } }) } else { json!({ "$gte": 1 }) };
            let condition = json!({ format!("pages.{path}{ending}"): test });
            assert_eq!(titles(&condition), [format!("error no page event has the path {path:?}")]);
        }
    }
    for (path, title) in [
        ("/ofers", "warning the condition is on the page \"/ofers\", which is not published"),
        ("/off/*", "warning the condition is on pages \"/off/*\", none of which is published"),
        ("/:slug", "warning the condition is on the pattern \"/:slug\"; end the path with `*` instead"),
    ] {
        assert_eq!(titles(&json!({ format!("pages.{path}.count"): 2 })), [title]);
    }
    for right in ["/offers", "*", "/*", "/off*"] {
        assert_eq!(titles(&json!({ format!("pages.{right}.count"): 2 })), [""; 0], "{right}");
    }
}

#[test]
fn a_language_without_a_region_and_an_unassigned_country_are_a_warning() {
    let locale = |text: &str| {
        vec![format!(
            "warning `locale` is compared with {text:?}, which does not match a language with a region"
        )]
    };
    assert_eq!(titles(&json!({ "locale": { "$in": ["fr-FR", "de"] } })), locale("de"));
    assert_eq!(titles(&json!({ "$nor": [{ "locale": { "$ne": "de" } }] })), locale("de"));
    assert_eq!(titles(&json!({ "locale": { "$nin": ["de"] } })), locale("de"));
    assert_eq!(titles(&json!({ "locale": { "$eq": "DE" } })), locale("DE"));
    for never in ["DE", "de-DE", "d"] {
        assert_eq!(titles(&json!({ "language": never })), [format!("warning `language` is never {never:?}")]);
    }
    assert_eq!(titles(&json!({ "language": { "$in": ["de", "gsw"] } })), [""; 0]);
    for right in
        [json!({ "locale": { "$in": ["de", "de-DE"] } }), json!({ "locale": { "$regexi": "^de\\b" } })]
    {
        assert_eq!(titles(&right), [""; 0], "{right}");
    }
    for never in ["UK", "XX", "T1", "ZZ", "A1"] {
        assert_eq!(titles(&json!({ "country": never })), [format!("warning `country` is never {never:?}")]);
    }
}

#[test]
fn the_target_of_a_redirect_is_a_path_or_a_url() {
    let lines = |to: &str| {
        let redirect = json!({ "path": "/old/:x", "redirect": { "to": to, "status": 308 } }).to_string();
        let mut files = shop(None);
        files.push(("routes/r.json".to_owned(), redirect));
        diagnostics(&files)
    };
    let neither = "which is neither a path nor a URL";
    let (unfollowed, without_host) = ("which no browser follows", "a URL without a host");
    let (invalid_host, invalid_port) = ("a URL with an invalid host", "a URL with an invalid port");
    let (control, backslash) = ("which has a control character", "which has a backslash");
    for (reason, targets) in [
        (neither, &["offers", "www.shop.example", "shop.example:8080/a", "localhost:3000", ":x"][..]),
        (neither, &["./offers", "?a=1", "//", "//offers", "//cdn.example/a", "///a", "javascript:1"]),
        (unfollowed, &["javascript:alert(1)", "JavaScript:a", "data:text/html,a", "file:///a", "blob:a"]),
        (unfollowed, &["view-source:https://a.example/", "about:blank", "vbscript:a", "ws://a.example/"]),
        (
            without_host,
            &["https:/a", "https:a", "https://", "https:///a", "https://?a", "http://:80/", "http://."],
        ),
        (
            invalid_host,
            &[
                "https://*.a.example/",
                "https://a%41/",
                "https://-/",
                "https://[::1/",
                "https://[1]/",
                "https://[::1]a/",
            ],
        ),
        (invalid_host, &["https://a|b/", "https://../"]),
        (
            invalid_port,
            &["https://a.example:/", "https://a.example:x/", "https://a.example:65536/", "https://a:+1/"],
        ),
        ("a URL with a user name", &["https://a.example@b.example/", "https://a:b@c.example", "https://@a/"]),
        (control, &["/a\n", "java\nscript:a", "\u{1}/a", "/a\u{7f}", "/a\u{85}b", "https://a.example/\t/b"]),
        (backslash, &["/\\a.example", "\\\\a.example", "https:\\\\a.example", "/a\\b", "/a?b=\\"]),
        ("which has a space", &[" /a", "/a ", "/a b", " javascript:a", "https://a .example/"]),
    ] {
        for wrong in targets {
            let expected = format!("error routes/r.json:1:36 the redirect leads to {wrong:?}, {reason}");
            assert_eq!(lines(wrong), [expected]);
        }
    }
    for right in [
        "/offers",
        "/offers/?c=/:x//b@:#%5C",
        "/offers#\u{e9}",
        "http://a.example",
        "HTTPS://a.example/:x",
        "https://m\u{fc}nchen.example.:65535?a=https://b@c",
        "https://[2001:db8::1]:80/",
        "https://a_b.example#@",
        "acme-app://open",
        "mailto:a@b.example",
        "tel:112",
    ] {
        assert_eq!(lines(right), [""; 0], "{right}");
    }
}

#[test]
fn a_character_that_looks_like_one_of_json_is_named_at_its_place() {
    for (text, title) in [
        ("{\u{a0}\"g\": []}", "1:2 invalid JSON: a no-break space (U+00A0)"),
        ("{\"g\":\u{a0}[]}", "1:6 invalid JSON: a no-break space (U+00A0)"),
        ("{\"g\": [1,\u{a0}2]}", "1:10 invalid JSON: a no-break space (U+00A0)"),
        ("\u{feff}{}", "1:1 invalid JSON: a byte order mark (U+FEFF)"),
        ("{\"g\": []\u{2028}}", "1:9 invalid JSON: a line separator (U+2028)"),
        ("{}\u{3000}", "1:3 invalid JSON: a space that JSON does not know (U+3000)"),
        ("{\u{201c}g\u{201d}: []}", "1:2 invalid JSON: a typographic quotation mark (U+201C)"),
        ("{\"g\u{201d}: [],\n\"h\": []}", "1:4 invalid JSON: a typographic quotation mark (U+201D)"),
        ("{\"g\u{201d}: [], \"h\": []}", "1:4 invalid JSON: a typographic quotation mark (U+201D)"),
        ("{\u{2018}g\u{2019}: []}", "1:2 invalid JSON: a typographic apostrophe (U+2018)"),
    ] {
        let mut files = vec![(SITE.0.to_owned(), SITE.1.to_owned())];
        files.push(("groups.json".to_owned(), text.to_owned()));
        assert_eq!(diagnostics(&files), [format!("error groups.json:{title}")], "{text:?}");
    }
    // Inside of a text the characters are right.
    let groups = "{\"g\": [\"\u{201c}a\u{a0}b\u{201d}\"]}".to_owned();
    let page = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    let files = [(SITE.0, SITE.1), ("routes/a.json", page), ("groups.json", &groups)];
    assert_eq!(diagnostics(&files.map(|(path, text)| (path.to_owned(), text.to_owned()))), [""; 0]);
}
