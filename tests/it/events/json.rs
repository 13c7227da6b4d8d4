//! Any JSON reads back equal, and other bytes are refused.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::examples::EXAMPLES;
use super::tree::Tree;
use super::{REQUEST, Server, post};

/// JSON with a value of each kind, for runs without the examples.
const SAMPLE: &str = r#"{"a":[1,-2.5e3,true,null,{"b":"\u00e9\\\"é"}],"c":{"d":"","e":[]}}"#;

/// Returns a track event with these properties.
fn with_properties(properties: &str) -> String {
    format!("{{\"anonId\":\"v1\",\"event\":\"e\",\"properties\":{properties}}}")
}

fn number() -> impl Strategy<Value = String> {
    let digits = "(0|[1-9][0-9]{0,30})";
    let text = format!("-?{digits}(\\.[0-9]{{1,30}})?([eE][+-]?[0-9]{{1,4}})?");
    proptest::string::string_regex(&text).expect("a pattern")
}

/// Returns a JSON string of escaped UTF-16 code units, lone surrogates included, and its text.
fn string() -> impl Strategy<Value = (String, String)> {
    let unit = prop_oneof![0x20u16..0x7F, any::<u16>(), 0xD800u16..0xE000];
    prop::collection::vec(unit, 0..6).prop_map(|units| {
        let escaped = units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
        (format!("\"{escaped}\""), String::from_utf16_lossy(&units))
    })
}

/// Returns JSON, also with duplicate members, and the value that must read back.
fn document() -> impl Strategy<Value = (String, Tree)> {
    let leaf = prop_oneof![
        number().prop_map(|n| (n.clone(), Tree::Other(n))),
        prop_oneof![Just("true"), Just("false"), Just("null")]
            .prop_map(|w| (w.to_owned(), Tree::Other(w.to_owned()))),
        string().prop_map(|(source, text)| (source, Tree::Text(text))),
        "[ -~é😀]{0,8}".prop_map(|s| (serde_json::to_string(&s).expect("JSON"), Tree::Text(s))),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        // Few names, so that they occur twice, or many, so that there are enough members to sort their names.
        let name = prop_oneof![
            prop_oneof![Just("a"), Just("b"), Just("\u{e9}")]
                .prop_map(|n| (format!("\"{n}\""), n.to_owned())),
            Just(("\"\\u0061\"".to_owned(), "a".to_owned())),
            string(),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| {
                let (sources, trees): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                (format!("[ {}\n]", sources.join(" ,\t")), Tree::Array(trees))
            }),
            prop::collection::vec((name, inner), 0..20).prop_map(|all| {
                let members = all.iter().map(|((name, _), (source, _))| format!("{name}:\r\n {source}"));
                let source = members.collect::<Vec<_>>().join(",");
                let last = all.into_iter().map(|((_, name), (_, tree))| (name, tree));
                (format!("{{{source}}}"), Tree::Object(last.collect()))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(super::cases(1_000))]

    #[test]
    fn properties_read_back_as_they_were_sent((source, tree) in document()) {
        let outcome = post("/v1/track", with_properties(&format!("{{\"x\":{source}}}")));
        let payload = outcome.payload(0);
        prop_assert_eq!(payload.get("properties").and_then(|p| p.get("x")), Some(&tree), "{}", source);
        prop_assert!(!outcome.lines[0].trim_end().contains('\n'), "one line");
    }

    #[test]
    fn changed_bytes_are_refused_exactly_if_they_are_not_json(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>(), prop::sample::select(b"{}[]\",:\\u0123456789eE+-. \ntfn".to_vec()),
        ]), 1..4),
    ) {
        let sample = ("/v1/track", serde_json::from_str(&with_properties(SAMPLE)).expect("JSON"));
        let all: Vec<_> = EXAMPLES.iter().chain(std::iter::once(&sample)).collect();
        let (path, example) = which.get(&all);
        let mut body = example.to_string().into_bytes();
        for (at, byte) in &changes {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        let outcome = post(path, &body);
        let is_malformed = matches!(&outcome.results, Err(r) if r.kind.code == "malformed_json");
        prop_assert_eq!(is_malformed, !is_json_object(&body), "{}", String::from_utf8_lossy(&body));
        outcome.lines.iter().for_each(|line| drop(Tree::read(line)));
    }

    #[test]
    fn random_tokens_are_refused_exactly_if_they_are_not_json(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "1", "-", "0", "1e400", "01", ".5", "1.", "12345678901234567890123",
            "true", "nul", "null", " ", "\\ud800", "\"\\ud800\"", "NaN", "\u{feff}", "\u{7f}", "e", "\0",
            "\u{c}", "\t\r\n", "\"b\" :", "\\\"", "\"\\u00e9\\n\"", "-0.5E+1",
        ]), 0..12),
    ) {
        let body = format!("{{\"anonId\":\"v\",\"event\":\"e\",\"x\":{}}}", pieces.concat());
        let is_malformed = matches!(&post("/v1/track", &body).results, Err(r) if r.kind.code == "malformed_json");
        prop_assert_eq!(is_malformed, !is_json_object(body.as_bytes()), "{}", body);
    }
}

/// Returns whether another parser accepts `body` as a JSON object.
fn is_json_object(body: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(body).is_ok() && body.trim_ascii_start().starts_with(b"{")
}

#[test]
fn numbers_are_stored_as_they_were_written() {
    for number in [
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1.50",
        "1e5",
        "1E+05",
        "1e400",
        "-1e-400",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890.123456789012345678901234567890",
        "9007199254740993",
    ] {
        let outcome = post("/v1/track", with_properties(&format!("{{\"n\":{number},\"m\":[{number} ,1]}}")));
        let properties = outcome.payload(0).get("properties").cloned().expect("properties");
        assert_eq!(properties, Tree::read(&format!("{{\"n\":{number},\"m\":[{number},1]}}")), "{number}");
    }
}

#[test]
fn the_last_of_duplicate_members_is_used_and_stored() {
    let body = "{\"event\":\"a\",\"anonId\":\"v1\",\"event\":\"b\",\"userId\":\"u\",\"user\\u0049d\":null,\
        \"properties\":{\"x\":1},\"properties\":{\"x\":{\"y\":1,\"y\":2},\"z\":[{\"q\":1,\"q\":3}],\"x\":{\"y\":3,\"y\":4}}}";
    let outcome = post("/v1/track", body);
    assert_eq!((&outcome.record()["event"], &outcome.record()["userId"]), (&"b".into(), &().into()));
    let stored = "{\"event\":\"b\",\"anonId\":\"v1\",\"userId\":null,\"properties\":{\"z\":[{\"q\":3}],\"x\":{\"y\":4}}}";
    assert_eq!(outcome.payload(0), Tree::read(stored));
    for name in ["\"y\":", "\"q\":", "\"x\":", "\"event\":\"a\""] {
        let text = outcome.lines[0].split("\"payload\":").nth(1).expect("a payload");
        assert!(text.matches(name).count() <= 1, "{name} in {text}");
    }
}

#[test]
fn the_last_duplicate_is_stored_among_many_members_too() {
    for others in [13, 14, 15, 16, 17, 100] {
        let members: String = (0..others).map(|i| format!("\"m{i}\":{i},")).collect();
        let properties = format!("{{\"x\":1,{members}\"x\":2,{members}\"x\":3}}");
        let outcome = post("/v1/track", with_properties(&properties));
        assert_eq!(outcome.payload(0).get("properties"), Some(&Tree::read(&properties)), "{others}");
        assert_eq!(outcome.lines[0].matches("\"m3\":").count(), 1);
    }
}

#[test]
fn lone_surrogates_become_the_replacement_character_and_are_counted() {
    for (sent, stored, count) in [
        (r"\ud800", "\u{fffd}", 1),
        (r"a\uDC00b", "a\u{fffd}b", 1),
        (r"\uD83D\uDE00", "😀", 0),
        (r"\ud83d\ud83d\ude00\ude00", "\u{fffd}😀\u{fffd}", 2),
        (r"\ud83d\n", "\u{fffd}\n", 1),
        (r"\\ud800", r"\ud800", 0),
        (r"\\\ud800", "\\\u{fffd}", 1),
        (r"\ud800\\", "\u{fffd}\\", 1),
    ] {
        let body =
            format!("{{\"anonId\":\"v1\",\"event\":\"{sent}\",\"properties\":{{\"{sent}\":\"{sent}\"}}}}");
        let outcome = post("/v1/track", &body);
        assert_eq!(outcome.record()["event"], stored, "{sent}");
        assert_eq!(outcome.record()["payload"]["properties"][stored], stored, "{sent}");
        assert_eq!(outcome.surrogates, 3 * count, "{sent}");
    }
}

#[test]
fn a_body_that_is_no_json_object_is_refused_with_the_unexpected_text() {
    for (body, actual) in [
        (&b""[..], ""),
        (b"  ", ""),
        (b"[]", ", got '[]'"),
        (b"1", ", got '1'"),
        (b"{} x", ", got 'x'"),
        (b"{}{}", ", got '{}'"),
        (b"{\"a\":NaN}", ", got 'NaN}'"),
        (b"{\"a\":1,}", ", got '}'"),
        (b"{\"a\":01}", ", got '1}'"),
        (b"{'a':1}", ", got ''a':1}'"),
        (b"{\"a\":\n\n  +1}", ", got '+1}'"),
        (b"\xef\xbb\xbf{}", ", got '\u{feff}{}'"),
        (b"{\"a\":\"\x01\"}", ""),
        (b"{\"a\":\"\\u12\"}", ""),
        (b"{\"a\":\"\\x\"}", ""),
    ] {
        let problem = post("/v1/track", body).problem();
        assert_eq!((&problem["code"], &problem["status"]), (&"malformed_json".into(), &400.into()));
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.starts_with("Expected a JSON object") && detail.contains(actual), "{detail}");
    }
}

#[test]
fn a_parser_keeps_nothing_of_the_previous_body() {
    let mut server = Server::new();
    let long = with_properties(&format!(
        "{{\"x\":\"{}\",\"n\":[1,2,3,{{\"a\":1,\"a\":2}}],\"h\":\"\\ud800\"}}",
        "y".repeat(9_000)
    ));
    let short = with_properties("{\"x\":2}");
    for body in [&long, &short, &"{\"a".to_owned(), &short, &long, &"[]".to_owned(), &short] {
        let (first, again) = (server.post(&REQUEST, "/v1/track", body.as_bytes()), post("/v1/track", body));
        let line = |outcome: &super::Outcome| {
            outcome.lines.first().and_then(|l| Some(l.split_once("\"payload\"")?.1.to_owned()))
        };
        assert_eq!((line(&first), first.surrogates), (line(&again), again.surrogates));
        assert_eq!(first.results.err(), again.results.err());
    }
}
