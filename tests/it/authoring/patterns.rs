//! The two forms of a pattern agree: its regex, which editors use, and its function, which decides.

use parallax::testing::site::source::pattern::PATTERNS;
use proptest::prelude::*;
use proptest::string::string_regex;

/// Generates the index of a pattern and a text that matches its regex. Ignores the ban on `default`.
fn matching_text() -> impl Strategy<Value = (usize, String)> {
    (0..PATTERNS.len()).prop_flat_map(|index| {
        let body = PATTERNS[index].regex.trim_start_matches('^');
        let body = body.trim_start_matches("(?!default$)").trim_end_matches('$');
        let text = string_regex(body).expect("an expression");
        text.prop_map(move |text| (index, text))
    })
}

proptest! {
    #[test]
    fn every_text_that_matches_the_regex_is_accepted((index, text) in matching_text()) {
        let pattern = &PATTERNS[index];
        prop_assert!((pattern.matches)(&text), "{} {text:?}", pattern.regex);
    }
}

fn holds(regex: &str, text: &str) -> bool {
    let pattern = PATTERNS.iter().find(|pattern| pattern.regex == regex);
    (pattern.expect("a pattern of the table").matches)(text)
}

#[test]
fn patterns_reject_texts_that_do_not_match_their_regex() {
    let [name, key, tracking, cookie, host, hosts, path, item, property] =
        PATTERNS.map(|pattern| pattern.regex);
    for regex in [name, key, cookie] {
        let long = "x".repeat(64);
        assert!(holds(regex, &long[1..]) && holds(regex, &long) && holds(regex, "x"), "{regex}");
        for text in ["", &format!("{long}x"), "a b", "é", "a\n", "a/b", "a;b"] {
            assert!(!holds(regex, text), "{regex} {text:?}");
        }
    }
    assert!(
        holds(name, "default") && !holds(key, "default") && holds(key, "defaults") && holds(key, "Default")
    );
    assert!(!holds(name, "a.b") && holds(cookie, "a.b"));
    let tracked = |length: usize| format!("track_{}", "x".repeat(length));
    assert!(!holds(tracking, &tracked(0)) && holds(tracking, &tracked(1)) && holds(tracking, &tracked(64)));
    assert!(!holds(tracking, &tracked(65)) && !holds(tracking, "trackx") && !holds(tracking, "acme"));
    for text in [
        "localhost",
        "shop.example.com",
        "a-b.c_d.e",
        "127.0.0.1",
        "xn--mnchen-3ya.example",
        "münchen.example",
    ] {
        assert!(holds(host, text), "{text}");
    }
    for text in
        ["", ".", "a.", ".a", "a..b", "A.example", "a.example:80", "https://a", "a/b", "*.a", "a b", "É A"]
    {
        assert!(!holds(host, text), "{text}");
    }
    for text in ["localhost", "*.example.com", "checkout.example.com", "*.com"] {
        assert!(holds(hosts, text), "{text}");
    }
    for text in
        ["", "*", "*.", "a.*", "*a.example", "*.*.example", "**.example", "*.A.example", "*.a.", "*.a/b"]
    {
        assert!(!holds(hosts, text), "{text}");
    }
    assert!(holds(path, "/") && !holds(path, "") && !holds(path, "a/"));
    assert!(holds(item, "id") && holds(item, "type") && holds(item, "fields.a.b") && holds(item, "fields. "));
    assert!(
        !holds(item, "ids") && !holds(item, "fields.") && !holds(item, "slug") && !holds(item, "fields.a\n")
    );
    for text in
        ["properties.form", "properties.a b.c", "properties.größe", "properties.it's", "properties.$x"]
    {
        assert!(holds(property, text), "{text}");
    }
    for text in [
        "",
        "form",
        "properties",
        "properties.",
        "properties..a",
        "properties.a.",
        "properties.a*",
        "properties.a\"b",
    ] {
        assert!(!holds(property, text), "{text}");
    }
    assert!(!holds(property, "properties.a\\b") && !holds(property, "properties.a\n"));
}
