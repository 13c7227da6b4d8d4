//! What counts as a touch, and what is kept of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::shown::{Brought, brought};
use super::{NOW_MS, Sent, World};
use crate::dice::Dice;

fn touch(payload: Value) -> Option<Brought> {
    let mut world = World::after(&[Sent::page("/landing", NOW_MS).of("v").with(payload)]);
    let profile = world.of_anon("v").expect("a profile");
    let touch = profile.last_touch().map(brought);
    assert_eq!(touch, profile.first_touch().map(brought));
    touch
}

/// Source, medium, campaign, term, content, referrer.
fn texts(payload: Value) -> Option<[Option<String>; 6]> {
    let (texts, at_ms) = touch(payload)?;
    let [source, medium, campaign, term, content, referrer, landing] = texts;
    assert_eq!((landing.as_deref(), at_ms), (Some("/landing"), NOW_MS));
    Some([source, medium, campaign, term, content, referrer])
}

fn expected(texts: [&str; 6]) -> Option<[Option<String>; 6]> {
    Some(texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty())))
}

#[test]
fn a_campaign_of_the_context_is_a_touch() {
    let campaign = json!({"name": "spring", "source": "mail", "medium": "m", "term": "t", "content": "c"});
    let payload = json!({"context": {"campaign": campaign}});
    assert_eq!(texts(payload), expected(["mail", "m", "spring", "t", "c", ""]));
    assert_eq!(texts(json!({"context": {"campaign": {"name": ""}}})), None);
    assert_eq!(texts(json!({"context": {"campaign": {"other": "x"}}})), None);
}

#[test]
fn else_the_campaign_of_the_url_is_one() {
    let url =
        "https://acme.example/x?utm_source=a%20b&utm_medium=c+d&utm_campaign=&utm_term=t#utm_content=no";
    let wanted = expected(["a b", "c d", "", "t", "", ""]);
    assert_eq!(texts(json!({"properties": {"url": url}})), wanted);
    assert_eq!(texts(json!({"context": {"page": {"url": url}}})), wanted);
    assert_eq!(texts(json!({"properties": {"url": "https://acme.example/x?a=b"}})), None);
    let both = json!({"properties": {"url": url}, "context": {"campaign": {"name": "spring"}}});
    assert_eq!(texts(both), expected(["", "", "spring", "", "", ""]));
}

#[test]
fn a_referrer_on_another_host_is_one() {
    let page = |url: &str, referrer: &str| texts(json!({"properties": {"url": url, "referrer": referrer}}));
    let wanted = expected(["", "", "", "", "", "https://search.example/?q=x"]);
    assert_eq!(page("https://acme.example/x", "https://search.example/?q=x"), wanted);
    assert_eq!(page("https://acme.example/x", "https://ACME.example:8443/y"), None);
    assert_eq!(page("https://me:pw@acme.example/x", "https://acme.example"), None);
    assert_eq!(page("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]/y"), None);
    // Nothing says whose these are.
    assert_eq!(page("/x", "https://search.example/"), None);
    assert_eq!(page("https://acme.example/x", "/y"), None);
    let context =
        json!({"context": {"page": {"url": "https://a.example/", "referrer": "https://b.example/"}}});
    assert_eq!(texts(context), expected(["", "", "", "", "", "https://b.example/"]));
}

#[test]
fn a_campaign_keeps_its_referrer_only_where_that_is_another_s() {
    let page = |referrer: &str| {
        let properties = json!({"url": "https://acme.example/?utm_source=s", "referrer": referrer});
        texts(json!({ "properties": properties }))
    };
    assert_eq!(page("https://b.example/"), expected(["s", "", "", "", "", "https://b.example/"]));
    assert_eq!(page("https://acme.example/y"), expected(["s", "", "", "", "", ""]));
}

#[test]
fn only_a_page_is_a_touch() {
    let campaign = json!({"context": {"campaign": {"name": "spring"}}});
    let mut world = World::after(&[
        Sent::track("Viewed", NOW_MS).of("v").with(campaign.clone()),
        Sent::identify(&json!({}), NOW_MS).of("v").with(campaign),
    ]);
    assert_eq!(world.of_anon("v").expect("a profile").first_touch(), None);
}

#[test]
fn of_two_touches_of_one_time_the_first_stays_the_first_and_the_last_becomes_the_last() {
    let page =
        |name: &str| Sent::page("/", NOW_MS).of("v").with(json!({"context": {"campaign": {"name": name}}}));
    let mut world = World::after(&[page("one"), page("two"), page("three")]);
    let profile = world.of_anon("v").expect("a profile");
    let names = (profile.first_touch(), profile.last_touch());
    assert_eq!(names.0.and_then(|touch| touch.campaign), Some("one"));
    assert_eq!(names.1.and_then(|touch| touch.campaign), Some("three"));
}

/// The least time of a few that a page takes whose payload says `text` so often.
fn least_time(text: &str, times: usize) -> Duration {
    let sent = Sent::page("/landing", NOW_MS).of("v").with(json!({"context": {"x": text.repeat(times)}}));
    let fold = || {
        let begun = Instant::now();
        World::after(std::slice::from_ref(&sent));
        begun.elapsed()
    };
    (0..5).map(|_| fold()).min().expect("a time")
}

#[test]
fn a_text_full_of_what_begins_a_url_takes_as_long_as_it_is_long() {
    for text in ["://", "://a", "/", "//", "://@:]"] {
        let (short, long) = (least_time(text, 4_000), least_time(text, 64_000));
        // Sixteen times where each byte takes as long as any other, 256 times where each makes all others be looked at.
        assert!(long < 64 * short, "{text}: {short:?} and {long:?}");
    }
}

#[test]
fn a_page_is_a_touch_or_not_whether_its_text_has_to_be_parsed_or_does_not() {
    let urls = [
        "https://acme.example/x",
        "https://acme.example",
        "https://ACME.example:8443/y/z",
        "https://me@acme.example/",
        "https://search.example/",
        "https://other.example",
        "https://acme.example/?utm_source=a",
        "https://acme.example/?q",
        "https://acme.example/?a=b&utm_term=c",
        "https://acme.example/?%75tm_source=a",
        "https://acme.example/?ut%6D_source=a#utm_source=b",
        "https://acme.example?at=search.example",
        "https://acme.example/a://b",
        "://",
        "https://",
        "/x",
        "",
    ];
    let mut dice = Dice(7);
    let mut touches = 0;
    for _ in 0..3000 {
        let mut url = || *dice.of(&urls);
        let mut payload =
            json!({"properties": {"url": url(), "referrer": url()}, "context": {"page": {"url": url()}}});
        let mut some = |member: &str, value: Value| {
            if dice.below(4) == 0 {
                payload
                    .pointer_mut(member)
                    .and_then(Value::as_object_mut)
                    .expect("an object")
                    .extend([("campaign".to_owned(), value)]);
            }
        };
        some("/context", json!({"source": "mail"}));
        some("/properties", json!("spring"));
        let told = touch(payload.clone());
        touches += usize::from(told.is_some());
        // What is escaped is always parsed.
        payload["note"] = json!("\\");
        assert_eq!(told, touch(payload.clone()), "{payload}");
    }
    assert!((500..2500).contains(&touches), "{touches}");
}
