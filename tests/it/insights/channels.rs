//! Channels: the groups of the sources of visits.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use parallax::testing::insights::{Columns, CountedLog, Limits, Query, Question, Subject, answer_over};

use super::oracle::{NOW_MS, START_MS, site};
use super::{Event, columns};

const HOSTS: &str = include_str!("../../../src/insights/questions/channels.txt");

/// Hosts of the section `search` that an earlier channel has too.
const EARLIER: [(&str, &str); 6] = [
    ("chat.openai.com", "ai"),
    ("chatgpt.com", "ai"),
    ("facebook.com", "social"),
    ("perplexity.ai", "ai"),
    ("searchservice.myspace.com", "social"),
    ("you.com", "ai"),
];

/// Returns a visit with this source, host of the referrer, and medium.
fn visit(source: Option<&'static str>, host: Option<&str>, medium: Option<&'static str>) -> Event {
    let referrer: Option<&'static str> = host.map(|host| &*format!("https://{host}/").leak());
    Event { touch: [source, None, referrer], details: [medium, None, None], ..Event::page(START_MS) }
}

/// Returns the number of views of each channel.
fn views(events: &[Event]) -> BTreeMap<String, u64> {
    let site = site();
    let params = [("of", "channel"), ("from", "2026-01-05"), ("to", "2026-01-06")];
    let question = Question::parse(Subject::Top, params.into_iter(), &site.zone, NOW_MS).expect("valid");
    let files = columns(events, &[]);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes: 1 << 30, is_over: &|| false };
    let log = CountedLog::alone(events.len() as u64);
    let answer =
        answer_over(&files, log, &Query::Views(question), &site, NOW_MS, &limits).expect("an answer");
    let rows = answer.document["rows"].as_array().expect("rows").iter();
    let row = |row: &Value| {
        let value = row["value"].as_str().expect("a channel").to_owned();
        (value, row["views"].as_u64().expect("a number"))
    };
    rows.map(row).collect()
}

#[test]
fn the_source_and_the_medium_of_a_visit_decide_its_channel() {
    for (source, host, medium, channel) in [
        (None, None, None, "direct"),
        // The hosts of the site and of payment providers are no sources.
        (None, Some("www.acme.example"), None, "direct"),
        (None, Some("checkout.stripe.com"), None, "direct"),
        (None, Some("google.com"), None, "search"),
        (None, Some("www.google.com"), None, "search"),
        (None, Some("www.google.co.uk"), None, "search"),
        (None, Some("www.google.a.b.c"), None, "referral"),
        (None, Some("google"), None, "search"),
        (None, Some("chatgpt.com"), None, "ai"),
        (None, Some("gemini.google.com"), None, "ai"),
        (None, Some("mail.google.com"), None, "email"),
        (None, Some("e.mail.ru"), None, "email"),
        (None, Some("my.mail.ru"), None, "social"),
        (None, Some("go.mail.ru"), None, "search"),
        (None, Some("facebook.com"), None, "social"),
        (None, Some("l.facebook.com"), None, "social"),
        (None, Some("notfacebook.com"), None, "referral"),
        (None, Some("facebook.com.example"), None, "referral"),
        (None, Some("b.example"), None, "referral"),
        (Some("google"), None, None, "search"),
        (Some("Facebook"), None, None, "social"),
        (Some("t.co"), None, None, "social"),
        (Some("chatgpt.com"), None, None, "ai"),
        (Some("newsletter"), None, None, "email"),
        (Some("mail"), None, None, "email"),
        (Some("E-Mail"), None, None, "email"),
        (Some("partner"), None, None, "other"),
        // A source has precedence over the referrer.
        (Some("partner"), Some("google.com"), None, "other"),
        (Some("google"), Some("facebook.com"), None, "search"),
        (Some("partner"), None, Some("cpc"), "paid"),
        (Some("google"), None, Some("CPC"), "paid"),
        (None, Some("chatgpt.com"), Some("paid search"), "paid"),
        (None, None, Some("cpc"), "paid"),
        (Some("partner"), None, Some("email"), "email"),
        (Some("facebook"), None, Some("newsletter"), "email"),
        (Some("partner"), None, Some("social-media"), "social"),
        (Some("partner"), None, Some("organic"), "search"),
        (Some("facebook"), None, Some("organic"), "social"),
        (Some("partner"), None, Some("referral"), "referral"),
        (Some("partner"), None, Some("Link"), "referral"),
        (None, None, Some("app"), "referral"),
        (Some("partner"), None, Some("leaflet"), "other"),
        (None, None, Some("leaflet"), "other"),
        (None, Some("b.example"), Some("leaflet"), "referral"),
    ] {
        let found = views(&[visit(source, host, medium)]);
        assert_eq!(json!(found), json!({ channel: 1 }), "{source:?}, {host:?}, {medium:?}");
    }
}

#[test]
fn each_host_of_the_list_has_a_known_channel() {
    let mut section = "";
    let mut sections = Vec::new();
    for line in HOSTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            sections.push(name);
            continue;
        }
        // As a source, because some of the hosts are also those of providers, whose referrers do not count.
        let source: Option<&'static str> = Some(line.replace(".*", ".com").leak());
        let earlier = EARLIER.iter().find(|(host, _)| section == "search" && *host == line);
        let channel = earlier.map_or(section, |(_, channel)| channel);
        assert_eq!(json!(views(&[visit(source, None, None)])), json!({ channel: 1 }), "{line}");
    }
    assert_eq!(sections, ["ai", "email", "social", "search"]);
}
