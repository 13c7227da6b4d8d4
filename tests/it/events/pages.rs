//! The page of an event.

use parallax::testing::events::request::RequestFacts;
use serde_json::{Value, json};

use super::{REQUEST, post, post_as, track};

fn page_of(members: Value) -> Value {
    let request = RequestFacts { referer: Some("https://acme.example/from/referer/?q=1"), ..REQUEST };
    post_as(&request, "/v1/track", track(members)).record()["path"].clone()
}

#[test]
fn the_page_is_the_first_of_its_sources() {
    let properties = json!({"path": "/p", "url": "https://a/pu"});
    let context = json!({"page": {"path": "/c", "url": "https://a/cu"}});
    let without = |from: &Value, pointer: &str, name: &str| {
        let mut value = from.clone();
        value.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object").remove(name);
        value
    };
    let no_paths = without(&context, "/page", "path");
    let no_path = without(&properties, "", "path");
    assert_eq!(page_of(json!({"properties": properties, "context": context})), "/p");
    assert_eq!(page_of(json!({"properties": no_path, "context": context})), "/c");
    assert_eq!(page_of(json!({"properties": no_path, "context": no_paths})), "/pu");
    assert_eq!(page_of(json!({"context": no_paths})), "/cu");
    assert_eq!(
        page_of(json!({"properties": {"path": "", "url": null}, "context": {"page": {"path": 7}}})),
        "/from/referer"
    );
    assert_eq!(post("/v1/track", track(json!({}))).record()["path"], Value::Null);
}

#[test]
fn a_page_is_stored_as_a_route_path_if_it_is_one() {
    for (sent, page) in [
        ("/", "/"),
        ("/pricing/", "/pricing"),
        ("/a?b#c", "/a"),
        ("/a%20b/%C3%A9", "/a b/é"),
        ("/a%2Fb", "/a/b"),
        ("pricing", "pricing"),
        ("//a", "//a"),
        ("/a//b?c", "/a//b?c"),
    ] {
        assert_eq!(page_of(json!({"properties": {"path": sent}})), page, "{sent}");
    }
}

#[test]
fn the_path_of_a_url_is_what_follows_its_authority() {
    for (url, page) in [
        ("https://acme.example", "/"),
        ("https://acme.example?x=/y", "/"),
        ("https://acme.example/a/b/?next=https://x/y#z", "/a/b"),
        ("/login?next=https://x/y", "/login"),
        ("/a:/b", "/a:/b"),
        ("/a://b", "/a://b"),
        ("about:blank", "about:blank"),
        ("file:///C:/x", "/C:/x"),
    ] {
        assert_eq!(page_of(json!({"properties": {"url": url}})), page, "{url}");
    }
}

#[test]
fn a_long_page_is_truncated_at_a_character_boundary() {
    let cut = |text: String| page_of(json!({"properties": {"path": text}})).as_str().expect("a page").len();
    assert_eq!(cut("x".repeat(1023)), 1023);
    assert_eq!(cut("x".repeat(1024)), 1024);
    assert_eq!(cut("x".repeat(1025)), 1024);
    assert_eq!(cut(format!("x{}", "é".repeat(600))), 1023);
    assert_eq!(cut(format!("/{}", "x".repeat(2047))), 2048);
    assert_eq!(cut(format!("/{}", "x".repeat(2048))), 1024);
}

#[test]
fn the_page_of_a_batch_applies_to_its_events() {
    let batch = json!({"context": {"page": {"path": "/batch", "url": "https://a/b"}}, "batch": [
        {"anonId": "v", "event": "e"},
        {"anonId": "v", "event": "e", "context": {"page": {"path": "/own"}}},
        {"anonId": "v", "event": "e", "context": {"page": {"path": null}}},
    ]});
    let outcome = post("/v1/batch", batch.to_string());
    let records = outcome.records();
    let pages: Vec<&Value> = records.iter().map(|record| &record["path"]).collect();
    assert_eq!(pages, ["/batch", "/own", "/batch"]);
}
